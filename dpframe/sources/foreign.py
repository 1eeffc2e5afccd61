"""Read frames of other libraries: objects with an Arrow stream, or that narwhals reads.

Columns are read once and held. Error texts of other libraries are dropped: they can quote rows.
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
from dpframe.sources.columns import check_arrow_types, require_columns

_read: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()
"""Arrow readers that were read: a second reading would give no rows, and no error."""


def is_foreign(source: object) -> bool:
    """Whether this module reads a source. Frames of pandas, Polars and Spark, relations of DuckDB,
    and Arrow tables are read elsewhere."""
    own = ("pandas", "polars", "pyspark", "duckdb", "_duckdb", "dpframe", "builtins")
    if type(source).__module__.partition(".")[0] in own or isinstance(
        source, pa.Table | pa.RecordBatch
    ):
        return False
    if _is_arrow_dataset(source) or hasattr(source, "__arrow_c_stream__"):
        return True
    return _narwhals_frame(source) is not None


def foreign_table(source: Any, columns: list[str]) -> pa.Table:
    """The columns of a foreign frame, in memory."""
    try:
        if _is_arrow_dataset(source):
            if hasattr(source, "to_reader"):  # a scanner
                return _read_stream(source.to_reader(), columns)
            require_columns(columns, source.schema.names, alone=True)
            return source.to_table(columns)
        if isinstance(source, pa.RecordBatchReader):
            _check_first_read(source)
        if hasattr(source, "collect_schema"):
            schema = source.collect_schema()
            check_arrow_types({name: schema[name] for name in columns if name in schema})
        if hasattr(source, "__arrow_c_stream__"):
            return _read_stream(pa.RecordBatchReader.from_stream(source), columns)
        frame = _narwhals_frame(source)
        require_columns(columns, frame.collect_schema().names(), alone=True)
        chosen = frame.select(*columns)
        chosen = chosen.collect("pyarrow") if hasattr(chosen, "collect") else chosen
        return chosen.to_arrow()
    except DpframeError:
        raise
    except Exception as raised:
        error = type(raised).__name__
    raise SourceError(f"reading the {class_name(source)} failed ({error}; its text is withheld).")


def foreign_types(source: Any) -> pa.Table:
    """An empty table with the types of a foreign frame; no row is read, even from a reader."""
    try:
        if _is_arrow_dataset(source) or isinstance(source, pa.RecordBatchReader):
            schema = getattr(source, "projected_schema", None) or source.schema  # of a scanner
            return schema.empty_table()
        frame = _narwhals_frame(source)
        if frame is not None:
            return frame.collect_schema().to_arrow().empty_table()
        return pa.RecordBatchReader.from_stream(source).schema.empty_table()
    except Exception as raised:
        error = type(raised).__name__
    raise SourceError(f"the types of the {class_name(source)} cannot be read ({error}).")


def source_type_error(source: object) -> ParameterTypeError:
    """The error to raise for an object that is no source; it says what to pass."""
    instead = INSTEAD.get(
        type(source).__name__,
        "Pass a frame (pandas, Polars, narwhals), an Arrow table or stream, a DuckDB relation, or "
        "the path of a Parquet or CSV file.",
    )
    if isinstance(source, list | tuple) and all(isinstance(one, str | Path) for one in source):
        instead = INSTEAD["paths"]
    return ParameterTypeError(f"source cannot be {class_name(source)}. {instead}")


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
"""What to pass in place of an object that is no source, by the name of its class."""


def _check_first_read(reader: pa.RecordBatchReader) -> None:
    if reader in _read:
        raise SourceError(
            "this Arrow reader has no rows left. Pass reader.read_all() to ask more than once."
        )
    _read.add(reader)


def _read_stream(reader: pa.RecordBatchReader, columns: Sequence[str]) -> pa.Table:
    """A table read batch by batch, so that only the wanted columns are ever held."""
    require_columns(columns, reader.schema.names, alone=True)
    schema = pa.schema([reader.schema.field(name) for name in columns])
    return pa.Table.from_batches([batch.select(columns) for batch in reader], schema)


def _is_arrow_dataset(source: object) -> bool:
    """Whether a source is a dataset or a scanner of Arrow; pyarrow.dataset is not imported."""
    return any(kind.__module__ == "pyarrow._dataset" for kind in type(source).__mro__)


def _narwhals_frame(source: object) -> Any:
    """The source as a frame of narwhals; None if narwhals does not read it or is not installed."""
    if find_spec("narwhals") is None:
        return None
    nw = import_module("narwhals")
    frame = nw.from_native(source, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None
