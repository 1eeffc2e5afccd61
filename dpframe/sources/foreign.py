"""Frames of other libraries: what hands out an Arrow stream, or what narwhals reads.

The columns are read once and held; what another library says about a failing row is dropped.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpframe.errors import DpframeError, ParameterTypeError, SourceError, class_name
from dpframe.sources.columns import check_arrow_types, require

_read: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()
"""Readers that were read: they have no rows for a second time, and do not say so."""


def is_foreign(source: object) -> bool:
    """Whether a source is one of these; pandas, Polars, Spark, Arrow tables and DuckDB are none."""
    own = ("pandas", "polars", "pyspark", "duckdb", "_duckdb", "dpframe", "builtins")
    if type(source).__module__.partition(".")[0] in own or isinstance(
        source, pa.Table | pa.RecordBatch
    ):
        return False
    if _of_dataset(source) or hasattr(source, "__arrow_c_stream__"):
        return True
    return _of_narwhals(source) is not None


def foreign_table(source: Any, columns: list[str]) -> pa.Table:
    """The columns of it, all in memory."""
    try:
        if _of_dataset(source):
            if hasattr(source, "to_reader"):  # a scanner
                return _drained(source.to_reader(), columns)
            require(columns, source.schema.names, alone=True)
            return source.to_table(columns)
        if isinstance(source, pa.RecordBatchReader):
            _once(source)
        if hasattr(source, "collect_schema"):
            schema = source.collect_schema()
            check_arrow_types({name: schema[name] for name in columns if name in schema})
        if hasattr(source, "__arrow_c_stream__"):
            return _drained(pa.RecordBatchReader.from_stream(source), columns)
        frame = _of_narwhals(source)
        require(columns, frame.collect_schema().names(), alone=True)
        chosen = frame.select(*columns)
        chosen = chosen.collect("pyarrow") if hasattr(chosen, "collect") else chosen
        return chosen.to_arrow()
    except DpframeError:
        raise
    except Exception as raised:
        error = type(raised).__name__
    raise SourceError(
        f"reading the {class_name(source)} failed ({error}; its text is withheld, it can quote "
        "the data)."
    )


def foreign_types(source: Any) -> pa.Table:
    """No row, the types alone; a reader is not read from."""
    try:
        if _of_dataset(source) or isinstance(source, pa.RecordBatchReader):
            schema = getattr(source, "projected_schema", None) or source.schema  # of a scanner
            return schema.empty_table()
        frame = _of_narwhals(source)
        if frame is not None:
            return frame.collect_schema().to_arrow().empty_table()
        return pa.RecordBatchReader.from_stream(source).schema.empty_table()
    except Exception as raised:
        error = type(raised).__name__
    raise SourceError(f"the types of the {class_name(source)} cannot be read ({error}).")


def no_frame(source: object) -> ParameterTypeError:
    """What to raise for it: says what a source can be."""
    name = class_name(source)
    instead = INSTEAD.get(type(source).__name__, "")
    if isinstance(source, list | tuple) and all(isinstance(one, str | Path) for one in source):
        instead = INSTEAD["paths"]
    instead = instead and f" {instead}"
    return ParameterTypeError(
        "source must be a pandas or Polars frame, an Arrow table, a DuckDB relation, the path of a "
        "parquet or CSV file, or a frame that Arrow's stream interface or narwhals reads; got "
        f"{name}.{instead}"
    )


INSTEAD = {
    **dict.fromkeys(
        ("dict", "list", "tuple", "ndarray"), "Make a frame of it, pandas.DataFrame(...)."
    ),
    **dict.fromkeys(("DataFrameGroupBy", "GroupBy"), "Pass the frame that is grouped."),
    "DuckDBPyConnection": "Pass a relation of it: con.table('NAME') or con.sql('SELECT ...').",
    "NoneType": "Pass the frame or the path.",
    "Series": "Pass the frame it is a column of, or its to_frame().",
    "Styler": "Pass the frame itself: styler.data.",
    "TextIOWrapper": "Pass the path of the file.",
    "BufferedReader": "Pass the path of the file.",
    "bytes": "Pass the path as text: os.fsdecode(path).",
    "paths": "Pass one pattern, 'logs/*.parquet', or for Parquet pyarrow.dataset.dataset([...]).",
}
"""What to pass in the place of what is no source, by the name of its class."""


def _once(reader: pa.RecordBatchReader) -> None:
    if reader in _read:
        raise SourceError(
            "this Arrow reader was read before and has no rows left: pass reader.read_all(), a "
            "table, to ask more than once."
        )
    _read.add(reader)


def _drained(reader: pa.RecordBatchReader, columns: Sequence[str]) -> pa.Table:
    """Batch by batch, so that only the wanted columns are ever held."""
    require(columns, reader.schema.names, alone=True)
    schema = pa.schema([reader.schema.field(name) for name in columns])
    return pa.Table.from_batches([batch.select(columns) for batch in reader], schema)


def _of_dataset(source: object) -> bool:
    """Whether it is a dataset or a scanner of Arrow, which need not be loaded to know that."""
    return any(kind.__module__ == "pyarrow._dataset" for kind in type(source).__mro__)


def _of_narwhals(source: object) -> Any:
    """A frame of narwhals, None if it is none or there is no narwhals."""
    if find_spec("narwhals") is None:
        return None
    nw = import_module("narwhals")
    frame = nw.from_native(source, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None
