"""What the commands of the command line write: to files and to the terminal."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from dpframe._forking import no_fork
from dpframe._paths import check_target, matching, named, replacing
from dpframe._terminal import visible
from dpframe.errors import DpframeError, ParameterError, SourceError

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.asking.release import Release

FILES = {"output": (".parquet", ".csv", ".json", ".html"), "report": (".html",)}
"""Arguments that name a file to write, and how it may end."""

KEPT = {
    "ledger": "ledger",
    "file": "file that is counted",
    "keys": "file of keys",
    "public": "file of public items",
    "deny": "file of denied items",
}
"""Arguments that name files which must not be written over."""


class NotPrintedError(DpframeError):
    """Standard output takes nothing, for instance because the disk is full."""


def add_output_arguments(command: argparse.ArgumentParser) -> None:
    """What every command that writes a result takes."""
    command.add_argument(
        "--unescaped",
        action="store_true",
        help="in .csv leave texts as they are that a spreadsheet would run as formulas",
    )
    command.add_argument("--quiet", action="store_true", help="print nothing but errors")


# -- before anything is spent --------------------------------------------------------------------


def check_files(options: argparse.Namespace, files: Mapping[str, tuple[str, ...]] = FILES) -> None:
    """Raise ParameterError for files that could not be written, or would write over others, and
    where nobody would see a result."""
    if options.quiet and all(getattr(options, name, None) is None for name in (*files, "release")):
        others = ", ".join(f"--{name}" for name in files if name != "output")
        raise ParameterError(f"--quiet prints nothing: give -o, {others} or --release.")
    if getattr(options, "release", None) is not None and options.ledger is None:
        raise ParameterError("--release needs --ledger, which keeps the result.")
    taken = dict(_kept(options))
    for name, endings in files.items():
        path = getattr(options, name, None)
        if path is None:
            continue
        check_target(name, path, endings)
        real = os.path.realpath(named(path))
        if real in taken:
            raise ParameterError(f"{name} ({path!r}) is the {taken[real]}: choose another file.")
        taken[real] = name


def _kept(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name, what in KEPT.items():
        given = getattr(options, name, None)
        for path in given if isinstance(given, list) else [given]:
            if path is None:
                continue
            with suppress(SourceError):  # whoever reads it says what is wrong
                yield from ((os.path.realpath(file), what) for file in matching(path))
            if name == "ledger":  # which may be made later
                yield os.path.realpath(named(path)), what


# -- when it is paid for -------------------------------------------------------------------------


def deliver(
    writers: Mapping[str | None, Callable[[str], None]],
    shown: Callable[[], Release],
    rescue: Callable[[], str],
    how: str,
    *,
    quiet: bool,
) -> int:
    """Write every file and print; 1 where that failed, and then everything goes where it can.

    Parameters
    ----------
    writers
        What writes the file of each path.
    shown
        What is printed, unless ``quiet``.
    rescue
        All that was paid for, as text: printed where a file could not be written.
    how
        What that text is.
    """
    paths = [path for path in writers if path is not None]
    failed = [path for path in paths if not _done(partial(writers[path], path))]
    if failed:
        say(f"dpframe: the result is paid for. {how}.", sys.stderr)
        _print(_rescued(rescue, shown), sys.stdout)
        return 1
    if quiet:
        return 0
    try:
        show(shown(), *paths)
    except NotPrintedError:
        if not paths:
            _print(_rescued(rescue, shown), sys.stderr)
        raise
    except BrokenPipeError:
        raise
    except Exception as error:  # as in _done
        say(f"dpframe: {error}. {how}.", sys.stderr)
        _print(_rescued(rescue, shown), sys.stdout)
        return 1
    return 0


def _rescued(rescue: Callable[[], str], shown: Callable[[], Release]) -> str:
    """All that was paid for as text, in one way or another."""
    try:
        return rescue()
    except Exception as error:  # as in _done
        say(f"dpframe: {error}. It follows as plain text.", sys.stderr)
        result = shown()
        return f"{result.frame.to_string(index=False)}\n{result.receipt.to_json()}"


def _done(write: Callable[[], None]) -> bool:
    try:
        write()
    except Exception as error:  # whatever it is, the result must not be lost
        say(f"dpframe: {error}", sys.stderr)
        return False
    return True


def show(result: Release, *paths: str | None) -> None:
    """Print the rows, the receipt, and which files were written."""
    say(f"{table_text(result)}\n\n{result.receipt}")
    if result.receipt["replayed"]:
        with no_fork():
            from dpframe.asking.receipt import replay_words
        say(f"\nreplayed: {replay_words(result.receipt)}")
    written = [path for path in paths if path]
    if written:
        say(f"\nwritten to {' and '.join(written)}")


def say(text: object, file: IO[str] | None = None) -> None:
    """Print lines for people: a terminal shows what is in them, whatever its encoding."""
    out = sys.stdout if file is None else file
    lines = "\n".join(map(visible, str(text).split("\n")))
    encoding = getattr(out, "encoding", None) or "utf-8"
    _print(lines.encode(encoding, "backslashreplace").decode(encoding), out)


def _print(text: str, out: IO[str]) -> None:
    try:
        print(text, file=out, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotPrintedError(f"nothing can be printed ({error.strerror}).") from error


def table_text(result: Release) -> str:
    frame, figures = result.frame, None
    if result.receipt.get("max_weight") is not None:
        figures = f"{{:.{result.receipt.digits}f}}".format
    return shown_rows(frame, figures)


def shown_rows(frame: pd.DataFrame, figures: Callable[[float], str] | None = None) -> str:
    """The first rows as text, and how many follow."""
    rows = frame.head(40).to_string(index=False, na_rep="", float_format=figures)
    rest = len(frame) - 40
    return rows + (f"\n... and {rest} more rows" if rest > 0 else "")


# -- files ---------------------------------------------------------------------------------------


def write(result: Release, path: str, *, escaped: bool = True) -> None:
    """Write a result in the format that the ending of a path says."""
    ending = path.lower().rsplit(".", 1)[-1]
    if ending == "html":
        write_report(result, path)
        return
    with replacing(path, "the result") as file:
        if ending == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(result.to_arrow(), file)
        elif ending == "csv":
            frame = for_spreadsheets(result.frame) if escaped else result.frame
            frame.to_csv(file, index=False)
        else:
            file.write(document(result, ascii_only=False).encode())


def write_report(result: Release, path: str) -> None:
    """Write a result as a page for people."""
    with no_fork():
        from dpframe.pages import report

    report.write_report(result.frame, result.receipt, path)


def document(result: Release, *, ascii_only: bool = True) -> str:
    """A result as JSON: receipt and rows."""
    whole = {"receipt": result.receipt.to_dict(), "rows": table_rows(result.frame)}
    return json.dumps(whole, ensure_ascii=ascii_only, indent=1, allow_nan=False)


def table_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain JSON types, by the names of columns."""
    columns = [map(_plain, frame[name]) for name in frame.columns]
    return [dict(zip(frame.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _plain(cell: Any) -> str | bool | int | float | None:
    """A value as JSON has it: missing ones as null, times and infinity, for one, as text."""
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
"""How texts begin that spreadsheets run as formulas, or cut into ones (OWASP, CSV injection)."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
"""Runs nothing."""


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an apostrophe before names and texts that a spreadsheet would run."""
    from pandas.api.types import is_numeric_dtype

    out = frame.rename(columns={name: _inert(name) for name in frame.columns})
    for name in out.columns:
        if not is_numeric_dtype(out[name].dtype):
            texts = {text: _inert(text) for text in out[name].unique()}
            if any(text is not inert for text, inert in texts.items()):
                out[name] = out[name].astype(object).map(lambda cell, to=texts: to.get(cell, cell))
    return out


def _inert(text: object) -> object:
    if isinstance(text, str) and text.startswith(FORMULAS) and not NUMBER.fullmatch(text):
        return f"'{text}"
    return text
