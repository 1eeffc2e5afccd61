"""From whatever holds the rows to a CountTree: open, check columns, one statement, a tree."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _duck
from dpframe._sql import literal
from dpframe.errors import ColumnError, ParameterTypeError, SourceError
from dpframe.noise import random_seed
from dpframe.plan import Plan
from dpframe.sources.rollup_sql import rollup_sql
from dpframe.tree import CountTree

_CSV = (
    "read_csv({{}}, all_varchar = true, header = true, delim = '{}', quote = '\"', escape = '\"', "
    "skip = 0, comment = '', auto_detect = true)"
)
_COMMAS, _TABS = _CSV.format(","), _CSV.format("\\t")

READERS = {
    ".parquet": "read_parquet({})",
    ".pq": "read_parquet({})",
    ".csv": _COMMAS,
    ".tsv": _TABS,
    ".csv.gz": _COMMAS,
}
"""File ending -> DuckDB reader. CSV stays text: each kind of hierarchy reads its own values.

The first line of a CSV holds the names and the ending decides the separator: a guess from the
rows would let one record change how all others are read, and show values as column names.
"""


def count(source: object, plan: Plan, *, progress: bool = False) -> CountTree:
    """True counts at or above the band of everything the plan asks for. Private."""
    hierarchy, unit = plan.hierarchy, plan.unit
    wanted = [*hierarchy.source_columns, *([unit.user] if unit.user is not None else [])]
    with _opened(source, wanted) as relation:
        types = dict(zip(relation.columns, relation.types, strict=True))
        read = tuple(_canonical(types[c]) for c in hierarchy.source_columns)
        hierarchy.check_types(read)
        statement = rollup_sql(hierarchy, unit, band=plan.band, types=read, seed=random_seed())
        with _duck.guarded(_name(source)):
            table = relation.query(statement, progress)
    return CountTree.from_preorder(
        level=_numbers(table["level"]),
        count=_numbers(table["n"]),
        keys=tuple(table[name] for name in table.column_names[2:]),
    )


def check_columns(source: object, wanted: list[str]) -> None:
    """Raise ColumnError for a column that the source does not have; reads names only."""
    if hasattr(source, "columns") and not isinstance(source, str):
        _find(wanted, [str(c) for c in source.columns])


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers


def _canonical(duckdb_type: str) -> str:
    """Types that read alike: ENUM as text."""
    return "ENUM" if duckdb_type.startswith("ENUM") else duckdb_type


@contextmanager
def _opened(source: object, wanted: list[str]) -> Iterator[_duck.Relation]:
    if isinstance(source, str | Path):
        reader = _reader(str(source))
        with _duck.guarded(_name(source)):
            scan = _duck.scanned_relation(reader)
            relation = scan.__enter__()
        try:
            _find(wanted, list(relation.columns))
            yield relation
        finally:
            scan.__exit__(None, None, None)
    elif _duck.is_relation(source):
        relation_given = _duck.GivenRelation(source)  # type: ignore[arg-type]
        _find(wanted, list(relation_given.columns))
        yield relation_given
    else:
        with _duck.guarded(_name(source)):
            held = _duck.arrow_relation(_arrow(source, wanted))
            relation_arrow = held.__enter__()
        try:
            yield relation_arrow
        finally:
            held.__exit__(None, None, None)


def _reader(path: str) -> str:
    for ending, reader in READERS.items():
        if path.lower().endswith(ending):
            if not any(c in path for c in "*?[") and not Path(path).exists():
                raise SourceError(f"{path!r} does not exist: check the path.")
            return reader.format(literal(path))
    raise SourceError(
        f"{path!r} has no known ending: dpframe reads {', '.join(READERS)}. "
        "For other formats pass a frame, an Arrow table or a DuckDB relation."
    )


def _name(source: object) -> str:
    if isinstance(source, str | Path):
        return repr(str(source))
    return f"the {type(source).__module__.split('.')[0]} {type(source).__name__}"


def _find(wanted: list[str], present: list[Any]) -> None:
    for name in wanted:
        if name not in present:
            texts = [column for column in present if isinstance(column, str)]
            near = difflib.get_close_matches(name, texts, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            some = ", ".join(map(repr, present[:20])) + (", ..." if len(present) > 20 else "")
            raise ColumnError(f"column {name!r} does not exist.{hint} Columns: {some or 'none'}.")
        if present.count(name) > 1:
            raise ColumnError(f"column {name!r} appears {present.count(name)} times; rename one.")
        twins = {other for other in wanted if other.lower() == name.lower()} - {name}
        if twins:  # SQL does not tell them apart
            raise ColumnError(
                f"columns {name!r} and {min(twins)!r} differ in case only; rename one."
            )


def _arrow(source: Any, wanted: list[str]) -> pa.Table:
    """The wanted columns as an Arrow table."""
    kind = type(source).__module__.split(".")[0]
    columns = list(dict.fromkeys(wanted))
    if isinstance(source, pa.Table):
        _find(columns, source.column_names)
        return source.select(columns)
    if isinstance(source, pa.RecordBatch):
        return _arrow(pa.Table.from_batches([source]), wanted)
    if kind == "pandas" and hasattr(source, "columns"):
        return _from_pandas(source, columns)
    if kind == "polars" and hasattr(source, "collect_schema"):
        return _from_polars(source, columns)
    raise ParameterTypeError(
        "source must be a pandas or Polars frame, an Arrow table, a DuckDB relation, or the path "
        f"of a parquet or CSV file; got {type(source).__name__}."
    )


def _from_pandas(frame: Any, columns: list[str]) -> pa.Table:
    _find(columns, list(frame.columns))
    return pa.table({name: _series(frame[name]) for name in columns})


def _from_polars(source: Any, columns: list[str]) -> pa.Table:
    """From a frame or a lazy frame; what Polars says about a failing row is dropped."""
    import polars

    error: str | None = None
    try:
        _find(columns, source.collect_schema().names())
        return source.lazy().select(columns).collect().to_arrow()
    except polars.exceptions.PolarsError as raised:
        error = type(raised).__name__
    raise SourceError(
        f"reading {_name(source)} failed ({error}; its text is withheld, it can quote the data)."
    )


def _series(series: Any) -> pa.Array:
    """A pandas column without guessing: what has a type keeps it, objects become text."""
    wanted = pa.string() if series.dtype == object else None
    try:
        array = pa.Array.from_pandas(series, type=wanted)
        if not _is_extension(array.type):
            return array
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # mixed objects, or text that is no unicode
    return pa.array([_as_text(value) for value in series], type=pa.string())


def _is_extension(kind: pa.DataType) -> bool:
    """Periods and intervals, which SQL would show as their storage, also as categories."""
    stored = kind.value_type if pa.types.is_dictionary(kind) else kind
    return isinstance(stored, pa.BaseExtensionType)


def _as_text(value: Any) -> str | None:
    """One object as text, the way SQL would write it."""
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return None
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=str)
    return str(value).encode("utf-8", "replace").decode()
