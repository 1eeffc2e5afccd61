"""The formats in which rows are written to files and to standard output."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from dpframe._terminal import visible
from dpframe.errors import ParameterError, SourceError

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.asking.release import Release

SHOWN = 40
"""Most rows of a table on a terminal."""


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write rows.

    ``write`` takes a result, a file and whether texts are escaped for spreadsheets. ``endings`` are
    the endings of file names that select the format. ``needs`` is a library that the format
    needs; the extra of dpframe with the name of the format installs it.
    """

    endings: tuple[str, ...]
    write: Callable[[Release, IO[bytes], bool], None]
    is_text: bool = True
    needs: str | None = None


# -- tables for people ---------------------------------------------------------------------------


def first_rows_text(frame: pd.DataFrame, figures: Callable[[float], str] | None = None) -> str:
    """Return the first rows as text, and say how many follow."""
    rows = frame.head(SHOWN).to_string(index=False, na_rep="", float_format=figures)
    rest = len(frame) - SHOWN
    return rows + (f"\n... and {rest} more rows" if rest > 0 else "")


def readable_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Round measures and their ends to the first two figures of the smallest half width, as text:
    further digits are noise."""
    from pandas import isna
    from pandas.api.types import is_float_dtype

    out = frame.copy()
    for name in frame.columns:
        ends = [f"{name}_lower", f"{name}_upper"]
        if not is_float_dtype(frame[name]) or not {*ends} <= set(frame.columns):
            continue
        half = (frame[ends[1]] - frame[ends[0]]) / 2
        narrowest = half[half > 0].min()
        if not 0 < narrowest < math.inf:  # NaN where there is none
            continue
        digits = min(12, max(0, 1 - math.floor(math.log10(narrowest))))
        for column in (name, *ends):
            out[column] = ["" if isna(x) else f"{x:.{digits}f}" for x in frame[column].tolist()]
    return out


def table_text(result: Release, *, whole: bool) -> str:
    """Return a result as a table of text: its first rows, or with ``whole`` all rows."""
    frame, figures = readable_numbers(result.frame), None
    if result.receipt.get("max_weight") is not None:
        figures = f"{{:.{result.receipt.digits}f}}".format
    if not whole:
        return first_rows_text(frame, figures)
    return str(frame.to_string(index=False, na_rep="", float_format=figures))


def _write_table(result: Release, file: IO[bytes], escaped: bool) -> None:
    lines = map(visible, table_text(result, whole=True).split("\n"))
    file.write("".join(f"{line}\n" for line in lines).encode())


MARKUP = re.compile(r"[\\|<>&*_\[\]`~]")
"""Characters that Markdown, or HTML in Markdown, would not read as text."""


def _write_markdown(result: Release, file: IO[bytes], escaped: bool) -> None:
    """Write a table of GitHub's Markdown, in which labels cannot act as markup."""
    from pandas.api.types import is_numeric_dtype

    def text(cell: object) -> str:
        said = "" if cell is None else visible(str(cell))
        return MARKUP.sub(lambda found: f"\\{found[0]}", said)

    frame = result.frame
    people = readable_numbers(frame)
    names = [text(name) for name in frame.columns]
    rules = ["---:" if is_numeric_dtype(kind) else "---" for kind in frame.dtypes]
    rows = [[text(cell) for cell in row.values()] for row in table_rows(people)]
    for line in (names, rules, *rows):
        file.write(f"| {' | '.join(line)} |\n".encode())


# -- data for programs ---------------------------------------------------------------------------


def _write_csv(result: Release, file: IO[bytes], escaped: bool) -> None:
    frame = escape_for_spreadsheets(result.frame) if escaped else result.frame
    frame.to_csv(file, index=False)


def _write_json(result: Release, file: IO[bytes], escaped: bool) -> None:
    file.write(result_json(result, ascii_only=False).encode())


def _write_parquet(result: Release, file: IO[bytes], escaped: bool) -> None:
    import pyarrow.parquet as pq

    pq.write_table(result.to_arrow(), file)


def _write_arrow(result: Release, file: IO[bytes], escaped: bool) -> None:
    import pyarrow as pa

    table = result.to_arrow()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


MOST_ROWS = 2**20 - 1
"""Most rows of a sheet below its heading."""


def _write_xlsx(result: Release, file: IO[bytes], escaped: bool) -> None:
    """Write two sheets, the rows and the card. No text becomes a formula."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    if len(result.frame) > MOST_ROWS:
        raise SourceError(
            f"a sheet of .xlsx holds at most {MOST_ROWS:,} rows. Write .parquet or .csv."
        )
    book = Workbook(write_only=True)

    def add(title: str, rows: Sequence[Sequence[object]]) -> None:
        sheet = book.create_sheet(title)
        for row in rows:
            cells = [WriteOnlyCell(sheet, _sheet_value(value)) for value in row]
            for cell in cells:
                if isinstance(cell.value, str):
                    cell.data_type = "s"  # else openpyxl makes a formula of a leading =
            sheet.append(cells)

    columns = [result.frame[name] for name in result.frame.columns]
    body = zip(*columns, strict=True)
    add("result", [[str(name) for name in result.frame.columns], *map(list, body)])
    add("privacy card", [[q.name, q.value_text, q.meaning_text] for q in result.receipt.card_lines])
    book.save(file)


EXACT = 2**53
"""Largest whole number that a sheet keeps exactly, as sheets hold floating-point numbers only."""


def _sheet_value(value: object) -> object:
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

FORMATS = {
    "table": Format((".txt",), _write_table),
    "csv": Format((".csv",), _write_csv),
    "json": Format((".json",), _write_json),
    "markdown": Format((".md",), _write_markdown),
    "parquet": Format((".parquet",), _write_parquet, is_text=False),
    "arrow": Format((".arrow", ".feather"), _write_arrow, is_text=False),
    "xlsx": Format((".xlsx",), _write_xlsx, is_text=False, needs="openpyxl"),
}

ENDINGS = tuple(ending for known in FORMATS.values() for ending in known.endings)


def format_by_ending(path: str) -> str | None:
    """Return the name of the format for a file's ending, or None."""
    known = (name for name, f in FORMATS.items() if path.lower().endswith(f.endings))
    return next(known, None)


def check_format(name: str) -> None:
    """Raise ParameterError if the library for a format is missing."""
    needs = FORMATS[name].needs
    if needs is not None and find_spec(needs) is None:
        raise ParameterError(f"{name} needs {needs}. Run pip install 'dpframe[{name}]'.")
