"""Parquet and CSV files as relations."""

from __future__ import annotations

import csv
import glob
import gzip
import os
from collections.abc import Sequence
from pathlib import Path

from dpframe import _duck
from dpframe._sql import literal
from dpframe.errors import SourceError
from dpframe.sources.columns import require

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = (".parquet", ".pq")

LENIENT = (
    "auto_detect = false, header = true, quote = '\"', escape = '\"', strict_mode = false, "
    "null_padding = true, ignore_errors = true"
)
"""Nothing is guessed from the rows, and no row can stop the others from being read."""


def open_file(path: str, wanted: Sequence[str]) -> _duck.OwnRelation:
    """A relation over the file or files (``*`` and ``?`` match) of a path; ``~`` is the home."""
    path = os.path.expanduser(path)
    ending = next((e for e in (*SEPARATORS, *PARQUET) if path.lower().endswith(e)), None)
    if ending is None:
        raise SourceError(
            f"{path!r} has no known ending: dpframe reads {', '.join((*PARQUET, *SEPARATORS))}. "
            "For other formats pass a frame, an Arrow table or a DuckDB relation."
        )
    first = _first_file(path)
    if ending in PARQUET:
        relation = _duck.scan(f"read_parquet({literal(path)})", repr(path))
        require(wanted, relation.columns)
        return relation
    names = _header(first, SEPARATORS[ending])
    require(wanted, names, listed=False)
    types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    options = f"columns = {{{types}}}, delim = {literal(SEPARATORS[ending])}, {LENIENT}"
    return _duck.scan(f"read_csv({literal(path)}, {options})", repr(path))


def _first_file(path: str) -> Path:
    if Path(path).is_file():
        return Path(path)
    matches = sorted(glob.glob(path))
    if not matches:
        raise SourceError(f"{path!r} does not exist: check the path.")
    return Path(matches[0])


def _header(path: Path, separator: str) -> list[str]:
    """The names in the first line of a text file."""
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        names = next(csv.reader(lines, delimiter=separator), [])
    if not names:
        raise SourceError(f"{str(path)!r} is empty: its first line must hold the column names.")
    if len({name.lower() for name in names}) < len(names) or not all(names):
        raise SourceError(
            f"{str(path)!r} must name every column in its first line, each name once."
        )
    return names
