"""Parquet and CSV files as relations."""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Sequence
from pathlib import Path

from dpframe import _duck
from dpframe._paths import ADDRESS, matching, named, shown
from dpframe._sql import literal
from dpframe.errors import ColumnError, SourceError
from dpframe.sources.columns import require

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = (".parquet", ".pq")

LENIENT = (
    "auto_detect = false, header = true, quote = '\"', escape = '\"', strict_mode = false, "
    "null_padding = true, ignore_errors = true, "
    "parallel = false"
)
"""Nothing is guessed from the rows, and no row can stop the others from being read.

A file is read by one thread. With several, each guesses where a row begins in its part, which a
record before it moves; and a line break within quotes, in a single record, is an error.
"""


def open_file(path: str, wanted: Sequence[str]) -> _duck.OwnRelation:
    """A relation over the file or files of a path."""
    ending = next((e for e in (*SEPARATORS, *PARQUET) if path.lower().endswith(e)), None)
    if ending is None or (ADDRESS.match(path) and not os.path.exists(path)):
        raise SourceError(_not_read(path))
    files = matching(path)
    listed = f"[{', '.join(_exactly(file) for file in files)}]"
    if ending in PARQUET:
        relation = _parquet(f"read_parquet({listed})", path, files)
        require(wanted, relation.columns)
        _refuse_json(relation, wanted, path)
        return relation
    names = _header(files[0], SEPARATORS[ending])
    for file in files[1:]:
        if _header(file, SEPARATORS[ending]) != names:
            raise SourceError(
                f"{str(file)!r} and {str(files[0])!r} name other columns, or in another order: "
                "files that are read together must begin with the same line."
            )
    require(wanted, names, listed=False)
    types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    options = f"columns = {{{types}}}, delim = {literal(SEPARATORS[ending])}, {LENIENT}"
    return _duck.scan(f"read_csv({listed}, {options})", repr(path))


def _refuse_json(relation: _duck.OwnRelation, wanted: Sequence[str], path: str) -> None:
    """Raise ColumnError for columns of JSON: DuckDB's reader fails at one text that is none."""
    for name, kind in zip(relation.columns, relation.types, strict=True):
        if name in wanted and "JSON" in kind:
            relation.__exit__(None, None, None)
            raise ColumnError(
                f"column {name!r} of {shown(path)} has type {kind}, whose reader fails at one bad "
                "text. Pass pyarrow.parquet.read_table(path), which dpframe reads as text."
            )


def _not_read(path: str) -> str:
    """What a text is that names no file which is read, and what to pass in its place."""
    if path[:8].lower() == "file:///":
        return f"{shown(path)} is an address. Pass the path, {path[7:]!r}."
    if ADDRESS.match(path):
        return (
            f"{shown(path)} is an address, and dpframe reads files of this machine. Download the "
            "file, or pass a frame or a DuckDB relation that reads it."
        )
    if re.match(r"\s*(select|from|with)\s", path, re.IGNORECASE):
        return f"{shown(path)} is SQL, and no file. Pass a relation, duckdb.sql('SELECT ...')."
    folder = named(path)
    if folder.is_dir():
        inside = (e for e in (*PARQUET, *SEPARATORS) if any(folder.glob(f"*{e}")))
        return (
            f"{shown(path)} is a folder. Name the files in it by a pattern in quotation marks: "
            f"{os.path.join(path, '*' + next(inside, PARQUET[0]))!r}."
        )
    return (
        f"{shown(path)} has no known ending: dpframe reads "
        f"{', '.join((*PARQUET, *SEPARATORS))}. Write another format as Parquet, or pass a frame, "
        "an Arrow table or a DuckDB relation."
    )


def _parquet(listed: str, path: str, files: Sequence[Path]) -> _duck.OwnRelation:
    """The files as a relation; SourceError that names the first that is no Parquet file."""
    try:
        return _duck.scan(listed, repr(path))
    except SourceError as error:
        failed = error
    faults = filter(None, map(_no_parquet, files))
    raise next(map(SourceError, faults), failed)


def _no_parquet(file: Path) -> str | None:
    """What a file is that is no Parquet file which can be read, by its first and last bytes, which
    hold no record."""
    if not file.is_file():
        return None
    with file.open("rb") as content:
        first = content.read(4)
        content.seek(max(0, file.stat().st_size - 4))
        last = content.read(4)
    if first == last == b"PAR1":
        return None
    if last == b"PARE":
        return (
            f"{shown(file)} is encrypted Parquet, which dpframe does not decrypt. Pass a DuckDB "
            "relation that reads it with its key, as read_parquet(..., encryption_config = ...)."
        )
    what = "is empty" if not first else "is no Parquet file, or only a part of one"
    return f"{shown(file)} {what}. Write it again, or give it the ending of what it holds."


def _exactly(file: Path) -> str:
    """The path for DuckDB, which shall see no pattern, home or address in it."""
    path = os.path.abspath(file) if str(file).startswith("~") else os.path.join(os.curdir, file)
    if "\\" in path and any(sign in path for sign in "*?["):
        raise SourceError(f"{str(file)!r} has a backslash and one of *?[ in its name: rename it.")
    return literal("".join(f"[{c}]" if c in "*?[" else c for c in path))


def _header(path: Path, separator: str) -> list[str]:
    """The names in the first line of a text file."""
    if path.is_dir():
        raise SourceError(f"{str(path)!r} is a folder: name the files in it, as '*.csv'.")
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        names = next(csv.reader(lines, delimiter=separator), [])
    if not names:
        raise SourceError(f"{str(path)!r} is empty: its first line must hold the column names.")
    if len({name.lower() for name in names}) < len(names) or not all(names):
        raise SourceError(
            f"{str(path)!r} must name every column in its first line, each name once."
        )
    return names
