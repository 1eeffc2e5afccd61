"""What commands print and write: lines for people, rows in every format, files, and what follows if
a result that is paid for cannot be written."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from dpframe.common.calls import load_name
from dpframe.common.files import PAGES, check_target, file_of_path, matching_files, replace_file
from dpframe.common.texts import style_text, visible
from dpframe.doors.cli import option
from dpframe.errors import DpframeError, ParameterError, SourceError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dpframe.asking.release import Release

# -- lines for people ----------------------------------------------------------------------------


class NotPrintedError(DpframeError):
    """Standard output cannot be written, for instance because the disk is full."""


def say(text: object, file: IO[str] | None = None, styles: Mapping[int, str] = {}) -> None:
    """Print lines for people; characters that the terminal's encoding lacks are escaped.

    ``styles`` maps numbers of lines, from 0, to styles, for terminals that show styles.
    """
    out = sys.stdout if file is None else file
    lines = _visible_lines(text, out)
    print_text("\n".join(style_text(line, styles.get(n), out) for n, line in enumerate(lines)), out)


def print_failure(text: object) -> None:
    """Print on standard error what went wrong."""
    said = "\n".join(_visible_lines(text, sys.stderr))
    print_text(f"{style_text('dpframe:', 'wrong', sys.stderr)} {said}", sys.stderr)


def _visible_lines(text: object, out: IO[str]) -> list[str]:
    """Split a text into lines that a terminal shows and does not obey."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return [
        visible(line).encode(encoding, "backslashreplace").decode(encoding)
        for line in str(text).split("\n")
    ]


def print_text(text: str, out: IO[str]) -> None:
    """Print a text unchanged, and a line break."""
    _try_to_print(lambda: print(text, file=out, flush=True))


def _try_to_print(act: Callable[[], object]) -> None:
    """Print; NotPrintedError if the output cannot be written."""
    try:
        act()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotPrintedError(f"nothing can be printed ({error.strerror}).") from error


# -- tables for people ---------------------------------------------------------------------------

SHOWN = 40
"""Most rows of a table on a terminal."""


def first_rows_text(frame: pd.DataFrame) -> str:
    """Return the first rows as text, and say how many follow."""
    rows = frame.head(SHOWN).to_string(index=False, na_rep="")
    rest = len(frame) - SHOWN
    return rows + (f"\n... and {rest} more rows" if rest > 0 else "")


def people_text(result: Release) -> str:
    """Return the first rows of a result as a terminal shows them, and say how many follow."""
    shown = load_name("dpframe.pages.tables", "result_text")(result.frame, result.receipt, SHOWN)
    return (shown or first_rows_text(_printed_numbers(result))) + _bounds_text(result)


def _printed_numbers(result: Release) -> pd.DataFrame:
    """Return rows as text for people."""
    shown: pd.DataFrame = load_name("dpframe.pages.tables", "printed_columns")(
        result.frame, result.receipt
    )
    return shown


def table_text(result: Release) -> str:
    """Return a result as a table of text, with every row of the frame."""
    frame, figures = _printed_numbers(result), None
    if result.receipt.get("max_weight") is not None:
        figures = f"{{:.{result.receipt.digits}f}}".format
    rows = str(frame.to_string(index=False, na_rep="", float_format=figures))
    return rows + _bounds_text(result)


def _bounds_text(result: Release) -> str:
    """Return lines on the numbers that bounds cut."""
    found = load_name("dpframe.asking.measure_texts", "bound_words")(result.receipt)
    end = "; the interval holds the noise alone"
    return "".join(f"\n{name}: {words}{end}" for name, words in found.items())


def _write_table(result: Release, file: IO[bytes], escaped: bool) -> None:
    lines = map(visible, table_text(result).split("\n"))
    file.write("".join(f"{line}\n" for line in lines).encode())


MARKUP = re.compile(r"[\\|<>&*_\[\]`~]")
"""Characters that Markdown, or HTML in Markdown, would not read as text."""


def _write_markdown(result: Release, file: IO[bytes], escaped: bool) -> None:
    """Write a table of GitHub's Markdown, in which labels cannot act as markup."""
    from pandas.api.types import is_numeric_dtype

    def text(cell: object) -> str:
        said = "" if cell is None else visible(str(cell))
        return MARKUP.sub(lambda found: f"\\{found[0]}", said)

    shown = _printed_numbers(result)
    names = [text(name) for name in shown.columns]
    rules = ["---:" if is_numeric_dtype(result.frame[name]) else "---" for name in shown.columns]
    rows = [[text(cell) for cell in row.values()] for row in table_rows(shown)]
    for line in (names, rules, *rows):
        file.write(f"| {' | '.join(line)} |\n".encode())


# -- data for programs ---------------------------------------------------------------------------


def write_csv(frame: pd.DataFrame, file: IO[bytes], escaped: bool) -> None:
    (escape_for_spreadsheets(frame) if escaped else frame).to_csv(file, index=False)


def _write_parquet(result: Release, file: IO[bytes], escaped: bool) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_sealed_table(result), file)


def _write_arrow(result: Release, file: IO[bytes], escaped: bool) -> None:
    import pyarrow as pa

    table = _sealed_table(result)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _sealed_table(result: Release) -> pa.Table:
    """Return a result as a table that every pandas reads back with its receipt and digest."""
    if load_name("dpframe.common.digest", "DIGEST") not in result.frame.attrs:
        result = replace(result, frame=result.to_frame())
    table, attrs = result.to_arrow(), json.dumps(result.frame.attrs).encode()
    return table.replace_schema_metadata({**table.schema.metadata, b"PANDAS_ATTRS": attrs})


MOST_ROWS = 2**20 - 1
"""Most rows of a sheet below its heading."""

EXACT = 2**53
"""Largest whole number that a sheet keeps exactly, as sheets hold floating-point numbers only."""


def _write_xlsx(result: Release, file: IO[bytes], escaped: bool) -> None:
    """Write two sheets, the rows and the card. No text becomes a formula. The heads of numbers that
    bounds cut have comments that say so."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.comments import Comment

    frame, receipt = result.frame, result.receipt
    if len(frame) > MOST_ROWS:
        raise SourceError(
            f"a sheet of .xlsx holds at most {MOST_ROWS:,} rows. Write .parquet or .csv."
        )
    book = Workbook(write_only=True)
    body = zip(*(frame[name] for name in frame.columns), strict=True)
    card = [[q.name, q.value_text, q.meaning_text] for q in receipt.card_lines]
    bounds = load_name("dpframe.asking.measure_texts", "bound_words")(receipt)
    for title, rows in (
        ("result", [[str(name) for name in frame.columns], *map(list, body)]),
        ("privacy card", card),
    ):
        sheet = book.create_sheet(title)
        for place, row in enumerate(rows):
            cells = [WriteOnlyCell(sheet, _sheet_value(value)) for value in row]
            for cell in cells:
                if isinstance(cell.value, str):
                    cell.data_type = "s"  # else openpyxl makes a formula of a leading =
                    if rows is not card and place == 0 and cell.value in bounds:
                        cell.comment = Comment(bounds[cell.value], "dpframe")
            sheet.append(cells)
    book.save(file)


def _sheet_value(value: object) -> object:
    if isinstance(value, timedelta) and _json_value(value) is not None:
        return timedelta(days=value.days, seconds=value.seconds, microseconds=value.microseconds)
    if isinstance(value, date | datetime) and _json_value(value) is not None:
        if getattr(value, "tzinfo", None) is None and value.year >= 1900:
            return value
        return str(value)
    plain = _json_value(value)
    if isinstance(plain, int) and abs(plain) > EXACT:
        return str(plain)
    return visible(plain) if isinstance(plain, str) else plain


def result_json(result: Release, *, ascii_only: bool = True) -> str:
    """Return a result as JSON: receipt and rows."""
    whole = {"receipt": result.receipt.to_dict(), "rows": table_rows(result.frame)}
    return json.dumps(whole, ensure_ascii=ascii_only, indent=1, allow_nan=False)


def table_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as mappings of column names to plain JSON types."""
    columns = [map(_json_value, frame[name]) for name in frame.columns]
    return [dict(zip(frame.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _json_value(cell: Any) -> str | bool | int | float | None:
    """Return a value as a JSON type: None if it is missing; text for times and infinity."""
    from pandas import isna
    from pandas.api.types import is_bool, is_float, is_integer, is_scalar

    if is_scalar(cell) and isna(cell):
        return None
    if is_bool(cell):
        return bool(cell)
    if is_integer(cell):
        return int(cell)
    if is_float(cell) and math.isfinite(cell):
        return float(str(cell))  # as few digits as the type of the column needs
    return str(cell)


FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of texts that a spreadsheet may run as formulas (OWASP, CSV injection)."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
"""Pattern of numbers, which may begin with a sign: no spreadsheet runs them as formulas."""


def escape_for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before column names and texts that a spreadsheet may run as formulas."""
    from pandas.api.types import is_numeric_dtype

    out = frame.rename(columns={name: _escape_formula(name) for name in frame.columns})
    for name in out.columns:
        if not is_numeric_dtype(out[name].dtype):
            texts = {text: _escape_formula(text) for text in out[name].unique()}
            if any(text is not inert for text, inert in texts.items()):
                out[name] = out[name].astype(object).map(lambda cell, to=texts: to.get(cell, cell))
    return out


def _escape_formula(text: object) -> object:
    if isinstance(text, str) and text.startswith(FORMULAS) and not NUMBER.fullmatch(text):
        return f"'{text}"
    return text


# -- the formats by name -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write rows.

    ``write`` takes a result, a file and whether texts are escaped for spreadsheets. ``endings`` are
    the endings of file names that select the format. ``needs`` is a library that the format
    needs; the extra of dpframe with the name of the format installs it.
    """

    endings: tuple[str, ...]
    write: Callable[[Release, IO[bytes], bool], object]
    is_text: bool = True
    needs: str | None = None


FORMATS = {
    "table": Format((".txt",), _write_table),
    "csv": Format((".csv",), lambda result, file, escaped: write_csv(result.frame, file, escaped)),
    "json": Format(
        (".json",),
        lambda result, file, _: file.write(result_json(result, ascii_only=False).encode()),
    ),
    "markdown": Format((".md",), _write_markdown),
    "parquet": Format((".parquet",), _write_parquet, is_text=False),
    "arrow": Format((".arrow", ".feather"), _write_arrow, is_text=False),
    "xlsx": Format((".xlsx",), _write_xlsx, is_text=False, needs="openpyxl"),
}

ENDINGS = tuple(ending for known in FORMATS.values() for ending in known.endings)

STANDARD = "-"
"""Stands for standard input or output in place of a file's name."""

FILES = {"output": (*ENDINGS, *PAGES), "report": PAGES}
"""Arguments that name a file to write, and the endings that its name may have."""

PROTECTED_FILES = {
    "ledger": "ledger",
    "file": "file that is counted",
    "keys": "file of keys",
    "public": "file of public items",
    "deny": "file of denied items",
}
"""Arguments that name files which must not be written over, with words for messages."""

UNESCAPED = option(
    "--unescaped",
    "in .csv leave texts as they are that a spreadsheet would run as formulas",
    action="store_true",
)

OUTPUT_OPTIONS = (
    option(
        "--format",
        f"{', '.join(FORMATS)}; default: what the name of -o ends in, or table",
        choices=tuple(FORMATS),
        metavar="FORMAT",
    ),
    UNESCAPED,
    option("--json", "the receipt as a line of JSON, in place of the card", action="store_true"),
    option(
        "--quiet",
        "no card and no notices; no rows either where they are written or stored elsewhere",
        action="store_true",
    ),
)
"""Options of every command that writes a result."""


def _format_by_ending(path: str) -> str | None:
    known = (name for name, f in FORMATS.items() if path.lower().endswith(f.endings))
    return next(known, None)


def _output_format(options: argparse.Namespace) -> str | None:
    """Return the name of the output's format, from ``--format`` or the file's ending; None if
    neither names a format."""
    given: str | None = getattr(options, "format", None)
    if given is None and not _is_standard(options.output):
        return _format_by_ending(options.output)
    return given


def _is_standard(path: str | None) -> bool:
    return path is None or path == STANDARD


# -- before anything is spent --------------------------------------------------------------------


def check_files(options: argparse.Namespace, files: Mapping[str, tuple[str, ...]] = FILES) -> None:
    """Raise ParameterError for files that cannot be written or would replace other files, for
    formats that do not fit the output, and for ``--release`` without ``--ledger``."""
    if getattr(options, "release", None) is not None and options.ledger is None:
        raise ParameterError("--release needs --ledger, which stores the result.")
    taken = dict(_protected_files(options))
    for name, endings in files.items():
        path = getattr(options, name, None)
        if path is None or (name == "output" and path == STANDARD):
            continue
        if name == "output":
            endings = _endings(options, endings)
        check_target(name, path, endings, "Other files: -o x.xlsx." if name == "report" else "")
        real = os.path.realpath(file_of_path(path))
        if real in taken:
            raise ParameterError(f"{name} ({path!r}) is the {taken[real]}. Choose another file.")
        taken[real] = name
    _check_format(options, _output_format(options))


def _endings(options: argparse.Namespace, endings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the endings that the output may have: any (``""``) with ``--format``, but
    ParameterError for the ending of another format or a page."""
    path, given = options.output, getattr(options, "format", None)
    if given is None:
        return endings
    if _format_by_ending(path) in (None, given) and not path.lower().endswith(PAGES):
        return ("",)
    raise ParameterError(
        f"--format {given} and -o {path!r} contradict each other. Leave --format out, or end the "
        f"name in {' or '.join(FORMATS[given].endings)}."
    )


def _check_format(options: argparse.Namespace, name: str | None) -> None:
    """Raise ParameterError for a format that lacks its library, or that would be printed to a
    terminal which cannot show it."""
    if name is None:
        return
    _check_library(name)
    if _is_standard(options.output) and not FORMATS[name].is_text and sys.stdout.isatty():
        raise ParameterError(
            f"--format {name} is nothing that a terminal can show. Name a file with -o, or pipe: "
            "dpframe ... | other."
        )


def _check_library(name: str) -> None:
    needs = FORMATS[name].needs
    if needs is not None and find_spec(needs) is None:
        raise ParameterError(f"{name} needs {needs}. Run pip install 'dpframe[{name}]'.")


def _protected_files(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name, what in PROTECTED_FILES.items():
        given = getattr(options, name, None)
        for path in given if isinstance(given, list) else [given]:
            if path is None or (name == "file" and path == STANDARD):
                continue
            with suppress(SourceError):  # the code that reads the file reports it
                yield from ((os.path.realpath(file), what) for file in matching_files(path))
            if name == "ledger":  # it may not exist yet
                yield os.path.realpath(file_of_path(path)), what


# -- after the charge ----------------------------------------------------------------------------


def deliver(
    options: argparse.Namespace,
    writers: Mapping[str | None, Callable[[str], None]],
    shown: Callable[[], Release],
    rescue: Callable[[], str],
    how: str,
) -> int:
    """Write every file, print rows to standard output and the card or JSON to standard error;
    return the exit code.

    If something fails, the code is 1 and the whole result is printed if possible, because it is
    paid for. NotPrintedError if standard output cannot be written.

    Parameters
    ----------
    options
        The options of the command, which say what is printed.
    writers
        For each path, the function that writes its file.
    shown
        Returns the result to print.
    rescue
        Returns everything that was paid for as text, to be printed if a file cannot be written.
    how
        A sentence that says what the text of ``rescue`` is.
    """
    paths = [path for path in writers if path is not None and path != STANDARD]
    failed = [path for path in paths if not _try_to_write(partial(writers[path], path))]
    if failed:
        print_failure(f"the result is paid for. {how}.")
        print_text(_rescue_text(rescue, shown), sys.stdout)
        return 1
    rows = _printed_format(options, paths)
    if rows is None and options.quiet and not options.json:
        return 0
    try:
        _print_result(shown(), rows, options, paths)
    except NotPrintedError:
        if not paths:
            print_text(_rescue_text(rescue, shown), sys.stderr)
        raise
    except BrokenPipeError:
        raise
    except Exception as error:  # as in _try_to_write
        print_failure(f"{error}. {how}.")
        print_text(_rescue_text(rescue, shown), sys.stdout)
        return 1
    return 0


def _printed_format(options: argparse.Namespace, paths: list[str]) -> str | None:
    """Return the format in which rows are printed; None if they are quietly kept elsewhere."""
    kept = paths or getattr(options, "release", None) not in (None, STANDARD)
    if options.quiet and kept and options.output != STANDARD:
        return None
    return (options.format if _is_standard(options.output) else None) or "table"


def _rescue_text(rescue: Callable[[], str], shown: Callable[[], Release]) -> str:
    """Return everything that was paid for as text; if ``rescue`` fails, in the plainest form."""
    try:
        return rescue()
    except Exception as error:  # as in _try_to_write
        print_failure(f"{error}. It follows as plain text.")
        result = shown()
        return f"{result.frame.to_string(index=False)}\n{result.receipt.to_json()}"


def _try_to_write(write: Callable[[], None]) -> bool:
    try:
        write()
    except Exception as error:  # whatever fails, the result must not be lost
        print_failure(error)
        return False
    return True


def _print_result(
    result: Release, rows: str | None, options: argparse.Namespace, paths: list[str]
) -> None:
    """Print the rows, and on standard error the receipt and the names of the files written."""
    if rows is not None:
        _print_rows(result, rows, escaped=not options.unescaped)
    if options.json:
        print_text(result.receipt.to_json(), sys.stderr)
    if options.quiet or options.json:
        return
    say(f"\n{result.receipt}", sys.stderr, {1: "strong", 2: "faint"})
    if result.receipt["replayed"]:
        words = load_name("dpframe.asking.privacy_receipt", "replay_words")
        say(f"\nreplayed: {words(result.receipt)}", sys.stderr)
    if paths:
        say(f"\nwritten to {' and '.join(paths)}", sys.stderr)


def _print_rows(result: Release, name: str, *, escaped: bool) -> None:
    """Print rows: for a terminal a table's first rows or another format as visible text, or else
    every byte that a file would hold."""
    terminal, out = sys.stdout.isatty(), io.BytesIO()
    if terminal and name == "table":
        say(people_text(result), styles={0: "strong"})
        return
    FORMATS[name].write(result, out, escaped)
    content = out.getvalue()
    if FORMATS[name].is_text and not content.endswith(b"\n"):
        content += b"\n"
    if terminal:
        say(content.decode().removesuffix("\n"))
        return

    def pass_on() -> None:
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        else:  # a replacement of stdout that takes only text
            sys.stdout.write(content.decode())
        sys.stdout.flush()

    _try_to_print(pass_on)


def write_output(options: argparse.Namespace, result: Release, path: str) -> None:
    """Write a result in the format of ``--format`` or of the path's ending, also as a page."""
    chosen = _output_format(options)
    if chosen is None:
        write_result_page(result, path)
        return
    with replace_file(path, "the result") as file:
        FORMATS[chosen].write(result, file, not options.unescaped)


def write_result_page(result: Release, path: str) -> None:
    """Write a result as a page for people."""
    load_name("dpframe.pages.report", "write_report")(result.frame, result.receipt, path)


def save_result(result: Release, path: str | os.PathLike[str], *, escaped: bool) -> None:
    """Write a result in the format of the path's ending, or as a page; see ``result.dp.save``."""
    check_target("path", path, FILES["output"])
    name = _format_by_ending(os.fspath(path))
    if name is None:
        write_result_page(result, os.fspath(path))
        return
    _check_library(name)
    with replace_file(path, "the result") as file:
        FORMATS[name].write(result, file, escaped)
