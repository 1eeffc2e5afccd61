"""Turn frames in memory into Arrow tables, without guessing a type from values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe.errors import DpframeError, ParameterTypeError, SourceError
from dpframe.sources.arrow_values import readable_table
from dpframe.sources.columns import check_arrow_types, require_columns
from dpframe.sources.foreign import foreign_table, foreign_types, is_foreign, source_type_error
from dpframe.sources.objects import each_as_text, texts_of_objects
from dpframe.sources.period_source import PeriodSource


def arrow_table(source: Any, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of a frame of pandas, Polars, Arrow or another library.

    Values that SQL cannot hold are changed, and no value is an error. Raises ColumnError for a type
    whose values cannot be changed.
    """
    return readable_table(_frame_table(source, wanted))


def _frame_table(source: Any, wanted: Sequence[str]) -> pa.Table:
    columns = list(dict.fromkeys(wanted))
    if type(source).__module__.split(".")[0] == "narwhals":
        source = source.to_native()  # so that Python objects are read as for the native frame
    kind = type(source).__module__.split(".")[0]
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        require_columns(columns, source.column_names, alone=True)
        return source.select(columns)
    if kind == "pandas" and hasattr(source, "columns"):
        require_columns(columns, list(source.columns), alone=True, index=list(source.index.names))
        return pa.table({name: from_pandas(source[name]) for name in columns})
    if kind == "polars" and hasattr(source, "collect_schema"):
        return _from_polars(source, columns)
    refuse_spark(source)
    if not is_foreign(source):
        raise source_type_error(source)
    return foreign_table(source, columns)


def rows_of_frame(source: Any) -> int | None:
    """The number of rows of a frame in memory; None for any other source."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        return int(source.num_rows)
    kind = type(source)
    if kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] in IN_MEMORY:
        return len(source)
    return None


IN_MEMORY = ("pandas", "polars")
"""Packages whose ``DataFrame`` knows its length."""


def collect_lazy(source: object, wanted: Sequence[str]) -> object:
    """A table of a lazy or foreign frame, for code that reads it more than once; any other source
    is returned unchanged."""
    if isinstance(source, PeriodSource):
        return replace(source, source=collect_lazy(source.source, [*wanted, source.column]))
    kind = type(source)
    lazy = kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars"
    return arrow_table(source, wanted) if lazy or is_foreign(source) else source


def refuse_spark(source: object) -> None:
    """Raise ParameterTypeError for a frame of Spark, in questions that Spark does not count."""
    where, name = type(source).__module__, type(source).__name__
    if where.startswith("pyspark.pandas"):
        raise ParameterTypeError("a pandas-on-Spark frame is no source. Pass frame.to_spark().")
    if where.split(".")[0] == "pyspark" and name == "DataFrame":
        raise ParameterTypeError(
            "a Spark DataFrame is a source for hhh, heavy_hitters, tree_counts and rollup alone. "
            "Here pass frame.toArrow() if it fits into memory, or write Parquet and pass its path."
        )


def _from_polars(source: Any, columns: list[str]) -> pa.Table:
    """Columns of an eager or lazy frame. Polars' own messages are dropped: they can quote rows."""
    import polars

    try:
        schema = source.collect_schema()
        require_columns(columns, schema.names(), alone=True)
        check_arrow_types({name: schema[name] for name in columns})
        frame = source.lazy().select(columns).collect()
        objects = {  # Arrow would hold their memory addresses
            name: texts_of_objects(frame[name].to_list())
            for name in columns
            if schema[name] == polars.Object
        }
        typed = frame.drop(*objects).to_arrow()
        return pa.table({n: objects[n] if n in objects else typed[n] for n in columns})
    except DpframeError:
        raise
    except (Exception, polars.exceptions.PanicException) as raised:
        error = type(raised).__name__
    raise SourceError(f"reading the Polars frame failed ({error}; its text is withheld).")


def from_pandas(series: Any) -> pa.Array:
    """A pandas column as an array: typed values keep their type, objects become text."""
    if series.dtype == object:
        return texts_of_objects(series)
    categories = getattr(series.dtype, "categories", None)
    if categories is not None and categories.dtype == object:  # Arrow would guess their type
        codes = np.asarray(series.array.codes)
        return texts_of_objects(list(categories)).take(pa.array(codes, mask=codes < 0))
    try:
        array = pa.Array.from_pandas(series)
        if not _is_of_pandas(array.type):
            return array
    except Exception:  # text that is not Unicode
        pass
    return each_as_text(series)


OWN_TYPES = ("PeriodDtype", "IntervalDtype")
"""Pandas types that Arrow lacks, as it lacks complex numbers."""


def pandas_types(source: Any, wanted: Sequence[str]) -> dict[str, str]:
    """Columns of a pandas frame that are read as text because Arrow lacks their dtype: each with
    the name that hierarchies know for the type. The dtype is public."""
    if type(source).__module__.split(".")[0] != "pandas":
        return {}
    found = {}
    for name in wanted:
        dtype = source[name].dtype
        if type(dtype).__name__ == "CategoricalDtype":
            dtype = dtype.categories.dtype
        if type(dtype).__name__ in OWN_TYPES or getattr(dtype, "kind", "") == "c":
            found[name] = f"PANDAS({dtype})"
    return found


def _is_of_pandas(kind: pa.DataType) -> bool:
    """Whether a type holds pandas periods or intervals, also as categories. SQL would show only
    how they are stored."""
    stored = kind.value_type if pa.types.is_dictionary(kind) else kind
    return getattr(stored, "extension_name", "").startswith("pandas.")


def without_rows(source: Any) -> Any:
    """A frame without its rows: columns and types only; nothing of a lazy frame is computed.

    Sources other than frames are returned unchanged: their types are known without reading a row.
    """
    if isinstance(source, pa.Table | pa.RecordBatch):
        return source.slice(0, 0)
    package = type(source).__module__.partition(".")[0]
    if package == "pandas" and hasattr(source, "iloc"):
        return source.iloc[:0]
    if package == "polars" and hasattr(source, "clear"):
        return source.clear()
    return foreign_types(source) if is_foreign(source) else source
