"""Read frames of any library, columns by name, and listed keys, into Arrow tables.

No type is guessed from values.

Frames are those of pandas, Polars and Arrow, objects with an Arrow stream, and what narwhals reads.
Columns are read once and held. Error texts of other libraries are dropped: they can quote rows.
"""

from __future__ import annotations

import difflib
import re
import weakref
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe.errors import (
    ColumnError,
    DpframeError,
    ParameterError,
    ParameterTypeError,
    SourceError,
    class_name,
)
from dpframe.hierarchy import Hierarchy
from dpframe.sources.objects import each_as_text, readable_table, texts_of_objects

IN_MEMORY = ("pandas", "polars")
"""Packages whose ``DataFrame`` knows its length."""

_read: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()
"""Arrow readers that were read: a second reading would give no rows, and no error."""


def package_of(source: object) -> str:
    """The package of an object's class."""
    return type(source).__module__.partition(".")[0]


def arrow_table(source: Any, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of a frame of pandas, Polars, Arrow or another library.

    Values that SQL cannot hold are changed, and no value is an error. Raises ColumnError for a type
    whose values cannot be changed.
    """
    return readable_table(_frame_table(source, wanted))


def _frame_table(source: Any, wanted: Sequence[str]) -> pa.Table:
    columns = list(dict.fromkeys(wanted))
    if package_of(source) == "narwhals":
        source = source.to_native()  # so that Python objects are read as for the native frame
    package = package_of(source)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        require_columns(columns, source.column_names, alone=True)
        return source.select(columns)
    if package == "pandas" and hasattr(source, "columns"):
        require_columns(columns, list(source.columns), alone=True, index=list(source.index.names))
        return pa.table({name: from_pandas(source[name]) for name in columns})
    read, what = _foreign_table, class_name(source)
    failures: tuple[type[BaseException], ...] = (Exception,)
    if package == "polars" and hasattr(source, "collect_schema"):
        read, what = _polars_table, "Polars frame"
        failures = (Exception, import_module("polars").exceptions.PanicException)
    else:
        refuse_spark(source)
        if not is_foreign(source):
            raise source_type_error(source)
    try:
        return read(source, columns)
    except DpframeError:
        raise
    except failures as raised:
        error = type(raised).__name__
    # outside of the handler: no context holds the original
    raise SourceError(f"reading the {what} failed ({error}; its text is withheld).")


def _polars_table(source: Any, columns: list[str]) -> pa.Table:
    """Columns of an eager or lazy frame."""
    schema = source.collect_schema()
    require_columns(columns, schema.names(), alone=True)
    check_arrow_types({name: schema[name] for name in columns})
    frame = source.lazy().select(columns).collect()
    objects = {  # Arrow would hold their memory addresses
        name: texts_of_objects(frame[name].to_list())
        for name in columns
        if str(schema[name]).startswith("Object")
    }
    typed = frame.drop(*objects).to_arrow()
    return pa.table({n: objects[n] if n in objects else typed[n] for n in columns})


def _foreign_table(source: Any, columns: list[str]) -> pa.Table:
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


def is_foreign(source: object) -> bool:
    """Whether a source has an Arrow stream or is read by narwhals, and is no Arrow table, no frame
    of pandas, Polars or Spark, and no relation of DuckDB."""
    own = ("pandas", "polars", "pyspark", "duckdb", "_duckdb", "dpframe", "builtins")
    if package_of(source) in own or isinstance(source, pa.Table | pa.RecordBatch):
        return False
    streams = _is_arrow_dataset(source) or hasattr(source, "__arrow_c_stream__")
    return streams or _narwhals_frame(source) is not None


def rows_of_frame(source: Any) -> int | None:
    """The number of rows of a frame in memory; None for any other source."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        return int(source.num_rows)
    in_memory = type(source).__name__ == "DataFrame" and package_of(source) in IN_MEMORY
    return len(source) if in_memory else None


def is_spark(source: object) -> bool:
    """Whether a source is a DataFrame of Spark; pyspark is not loaded."""
    kind = type(source)
    return kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"


def refuse_spark(source: object) -> None:
    """Raise ParameterTypeError for a frame of Spark, in questions that Spark does not count."""
    if type(source).__module__.startswith("pyspark.pandas"):
        raise ParameterTypeError("a pandas-on-Spark frame is no source. Pass frame.to_spark().")
    if package_of(source) == "pyspark" and type(source).__name__ == "DataFrame":
        raise ParameterTypeError(
            "a Spark DataFrame is a source for hhh, heavy_hitters, tree_counts and rollup alone. "
            "Here pass frame.toArrow() if it fits into memory, or write Parquet and pass its path."
        )


def from_pandas(series: Any) -> pa.Array:
    """A pandas column as an array: typed values keep their type, objects become text."""
    if series.dtype == object:
        return texts_of_objects(series.to_numpy())
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
    if package_of(source) != "pandas":
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
    package = package_of(source)
    if package == "pandas" and hasattr(source, "iloc"):
        return source.iloc[:0]
    if package == "polars" and hasattr(source, "clear"):
        return source.clear()
    return _foreign_types(source) if is_foreign(source) else source


def _foreign_types(source: Any) -> pa.Table:
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


def require_columns(
    wanted: Sequence[str],
    present: Sequence[object],
    *,
    listed: bool = True,
    alone: bool = False,
    index: Sequence[object] = (),
) -> None:
    """Raise ColumnError unless every wanted column occurs once, and in one spelling.

    ``alone`` says that SQL will see only the wanted columns. ``listed=False`` keeps the present
    names out of the message: the first line of a text file without a header is a record. ``index``
    names the levels of a frame's index, which are no columns.
    """
    names = [column for column in present if isinstance(column, str)]
    for name in wanted:
        if name not in names and name in index:
            raise ColumnError(f"column {name!r} is in the index. Pass frame.reset_index().")
        if name not in names:
            raise ColumnError(
                f"column {name!r} does not exist.{_missing_column_help(name, names, listed)}"
            )
        if names.count(name) > 1:
            raise ColumnError(f"column {name!r} appears {names.count(name)} times. Rename one.")
        seen = wanted if alone else names
        twins = {other for other in seen if other.lower() == name.lower()} - {name}
        if twins:  # SQL does not tell them apart, and could read the wrong column
            raise ColumnError(
                f"columns {name!r} and {min(twins)!r} differ in case only. Rename one."
            )


def check_arrow_types(types: Mapping[str, object]) -> None:
    """Raise ColumnError for a Polars type that Arrow lacks; ``types`` maps columns to types."""
    for name, kind in types.items():
        if "Int128" in str(kind):
            raise ColumnError(
                f"column {name!r} has type {kind}, which Arrow lacks. Cast it to Int64, or a key "
                "to String."
            )


FORMULA = re.compile(r"\s*[-+*/()]\s*")
"""Signs between columns in a formula, which no argument reads."""


def _missing_column_help(name: str, names: list[str], listed: bool) -> str:
    if not listed:
        return " The first line of the file must name the columns."
    near = [other for other in names if other.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    outer, dot, field = name.partition(".")
    if dot and outer in names:
        return (
            f" Fields of column {outer!r} are not read. Make a column of the field: in SQL "
            f"{outer}.{field} AS {field}, in pandas df[{outer!r}].str[{field!r}]."
        )
    parts = FORMULA.split(name)
    if len(parts) > 1 and all(part in names or not part.strip("0123456789.") for part in parts):
        hint = (
            f" Formulas are not read. Add the column first: in pandas "
            f"df.assign(value=df.eval({name!r})), in SQL SELECT *, {name} AS value."
        )
    if set("*>") & set(name) and not any(sign in name for sign in (" * ", " > ")):
        hint += " For several hierarchies hhh and rollup read 'a * b' and 'a > b', with blanks."
    some = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    return f"{hint} Columns: {some or 'none'}."


MOST = 2_000_000
"""The most nodes that a list can have."""

SHOWN = 80
"""The most characters of a key in a message."""


def key_table(keys: Any, hierarchy: Hierarchy) -> pa.Table:
    """The keys, one per row: typed keys keep their type, Python objects are read as text."""
    names = hierarchy.source_columns
    present = column_names(keys)
    if present is not None:
        missing = [name for name in names if name not in present]
        if missing:
            raise ColumnError(
                f"keys lacks {_name_columns(missing)}. A frame of keys needs the hierarchy's "
                f"{_name_columns(names)}."
            )
        table = arrow_table(keys, names)
    else:
        typed, values = _key_values(keys)
        if typed is not None and len(names) == 1:
            table = arrow_table(pa.table({names[0]: typed}), names)
        else:
            values = typed.to_pylist() if typed is not None else values
            parts = _key_parts(values, hierarchy)
            table = pa.table(dict(zip(names, map(texts_of_objects, parts), strict=True)))
    if not 1 <= len(table) <= MOST:
        raise ParameterError(f"keys has {len(table)} keys. List 1 to {MOST} keys.")
    return table


def quote_key(key: object) -> str:
    """A key for a message, cut if it is long."""
    try:
        text = repr(key)
    except Exception:  # the repr of the caller's object can raise anything
        text = f"a {type(key).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _name_columns(names: Sequence[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(map(repr, names))


def column_names(keys: Any) -> list[object] | None:
    """Names of the columns of a frame; None for any other object."""
    module = package_of(keys)
    if isinstance(keys, pa.Table | pa.RecordBatch):
        return list(keys.schema.names)
    if module == "polars" and hasattr(keys, "collect_schema"):
        return list(keys.collect_schema().names())
    return list(keys.columns) if module == "pandas" and hasattr(keys, "columns") else None


def _key_values(keys: Any) -> tuple[pa.Array | None, list[Any]]:
    """An Arrow array and an empty list if the keys have a type, otherwise None and a list."""
    module = package_of(keys)
    if isinstance(keys, list | tuple):
        return None, list(keys)
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return keys, []
    if isinstance(keys, np.ndarray):
        return (pa.array(keys), []) if _has_type(keys) else (None, keys.tolist())
    if module == "polars" and hasattr(keys, "to_arrow"):
        listed = str(keys.dtype).startswith(("Object", "List", "Array"))
        return (None, keys.to_list()) if listed else (keys.to_arrow(), [])
    if module == "pandas" and hasattr(keys, "dtype"):  # a series, an index or an array
        if keys.dtype == object or getattr(keys, "nlevels", 1) > 1:
            return None, list(keys)
        return from_pandas(keys.to_series() if hasattr(keys, "to_series") else keys), []
    raise ParameterTypeError(
        f"keys must be a list, an array, a frame or 'domain'; got {type(keys).__name__}."
        f"{' Pass list(keys).' * isinstance(keys, range | Set)}"
    )


def _has_type(keys: np.ndarray[Any, Any]) -> bool:
    """Whether Arrow has the array's type, too. In a list, datetimes would become integers."""
    unit = np.datetime_data(keys.dtype)[0] if keys.dtype.kind == "M" else "D"
    return keys.ndim == 1 and keys.dtype.kind in "biufM" and unit in ("D", "s", "ms", "us", "ns")


def _key_parts(values: list[Any], hierarchy: Hierarchy) -> list[list[Any]]:
    """The values by column. A key is one value, or a tuple with one value for every column."""
    names = hierarchy.source_columns
    width = len(names)
    several = hierarchy.kind == "columns"
    parts: list[Any] = []
    for value in values:
        of_parts = isinstance(value, list | tuple)
        if any(isinstance(part, Decimal) for part in (value if of_parts else [value])):
            raise ParameterError(
                f"keys has {quote_key(value)}, and a decimal has no one text. Write the text "
                "that the "
                "result shows."
            )
        if not (several and len(value) == width) if of_parts else width > 1:
            rule = f"a tuple of {width} values, for {_name_columns(names)}"
            raise ParameterError(
                f"keys has {quote_key(value)}. A key must be "
                f"{rule if width > 1 else f'one value of {_name_columns(names)}'}."
            )
        parts.append(value if of_parts else (value,))
    return [[part[i] for part in parts] for i in range(width)]
