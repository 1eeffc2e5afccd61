"""Released nodes in their natural order, and level columns with the types of the source.

Keys are texts on their way through a mechanism. The types of columns are public; here texts become
values again, and rows are put in order: a function of the texts and types alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.common.texts import ascending_order, identifier
from dpframe.counts import Ints, different_values, order_of_rows, ranks_of_values
from dpframe.hierarchy import INVALID, OTHER, Hierarchy
from dpframe.hierarchy._base import LEVEL_COLUMN_TYPES, has_zone
from dpframe.postprocess.shown_nodes import type_of_values

# DuckDB reads more than it writes (``' 7'``, ``1e3``, ``1_000``). From texts in that usual form
# DuckDB and Arrow make the same values, and Arrow makes them without starting a statement, which
# costs a small release more than anything else.


NUMBER = "^(0|-?[1-9][0-9]{0,17})$"
"""A whole number of up to 18 digits, which 64 bits hold; smaller types may not hold it."""

YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"

PLAIN = {
    "TINYINT": (NUMBER, pa.int8()),
    "SMALLINT": (NUMBER, pa.int16()),
    "INTEGER": (NUMBER, pa.int32()),
    "BIGINT": (NUMBER, pa.int64()),
    "HUGEINT": (NUMBER, pa.int64()),
    "UTINYINT": (NUMBER, pa.uint8()),
    "USMALLINT": (NUMBER, pa.uint16()),
    "UINTEGER": (NUMBER, pa.uint32()),
    "UBIGINT": (NUMBER, pa.uint64()),
    "BOOLEAN": ("^(true|false)$", pa.bool_()),
    "DATE": (f"^{YEAR}-[0-9]{{2}}-[0-9]{{2}}$", pa.date32()),
}
"""By DuckDB's name of a type: the pattern of a usual text, and Arrow's type for it."""


def plain_values(texts: pa.Array, kind: str) -> pa.Array | None:
    """What ``TRY_CAST`` makes of texts; None for types that are not in ``PLAIN``, and if a text is
    not in the usual form or no value of the type."""
    pattern, wanted = PLAIN.get(kind, ("", None))
    if wanted is None or pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        return None
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:  # a number that its type does not hold, a day that no month has
        return None


# -- Released nodes in their natural order, and level columns with the types of the source --------
#


TEXT = "str" if int(pd.__version__.split(".")[0]) >= 3 else "object"
"""dtype of text columns: pandas 3 has a type for text."""

LAST = "\U0010ffff"
"""A character that sorts behind every character of a label; stands for ``<other>`` in sorting."""

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")

PANDAS = {
    **dict.fromkeys(WHOLE, "Int64"),
    "UBIGINT": "UInt64",
    "BOOLEAN": "boolean",
    "FLOAT": "Float32",
    "DOUBLE": "Float64",
    "DATE": "date32[day][pyarrow]",
    "TIMESTAMP": "datetime64[us]",
    "TIMESTAMP_S": "datetime64[s]",
    "TIMESTAMP_MS": "datetime64[ms]",
    "TIMESTAMP_NS": "datetime64[ns]",
    "TIMESTAMP WITH TIME ZONE": "datetime64[us, UTC]",
    "TIMESTAMPTZ_NS": "datetime64[ns, UTC]",
}
"""What pandas calls the types that a level column keeps."""

SORTED = (*LEVEL_COLUMN_TYPES, "HUGEINT", "UHUGEINT", "DECIMAL", "BIGNUM", "TIME")
"""Types whose values are sorted as values, not as texts."""


def level_column(texts: pa.Array | pa.ChunkedArray, level: NDArray[np.int64], depth: int, kind: str,
                 other: NDArray[np.bool_]) -> pd.Series:  # fmt: skip
    """The column of one level, NULL for coarser nodes.

    A column of text has ``<invalid>`` and ``<other>`` in it; in other types both are NULL, and only
    the label of the row tells which. Times outside the years 1 to 9999 are NULL, too.
    """
    different, place = different_values(texts)
    own = other & (level == depth)
    if kind in LEVEL_COLUMN_TYPES:
        nothing = len(different)
        different = pa.concat_arrays([different, pa.nulls(1, different.type)])
        return _typed_column(different, np.where((level >= depth) & ~own, place, nothing), kind)
    named = pc.fill_null(different, INVALID)
    shown = pa.concat_arrays([named, pa.array([OTHER, None], named.type)])
    place = np.where(own, len(named), np.where(level - other >= depth, place, len(named) + 1))
    return text_column(shown.take(pa.array(place)))


def text_column(values: pa.Array | pa.ChunkedArray) -> pd.Series[str]:
    shown = values.to_pandas()
    text: pd.Series[str] = shown if shown.dtype == TEXT else shown.astype(TEXT)
    return text


def typed_values(
    values: NDArray[np.generic] | pa.Array, kind: str, order: NDArray[np.int64]
) -> object:
    """A column of a result from numbers, in the order of the rows, in DuckDB's type ``kind``:
    whole numbers inwards, times and durations from seconds. NaN is missing."""
    if isinstance(values, pa.Array):
        return text_column(values.take(pa.array(order)))
    chosen = values[order]
    if kind in ("BOOLEAN", "DOUBLE") or chosen.dtype.kind != "f":
        return chosen
    missing = np.isnan(chosen)
    if kind == "BIGINT":
        whole = np.where(missing, 0, np.rint(chosen)).astype(np.int64)
        return pd.arrays.IntegerArray(whole, missing)
    micros = pa.array(np.rint(np.where(missing, 0, chosen) * 1e6).astype(np.int64), mask=missing)
    if kind == "INTERVAL":
        return micros.cast(pa.duration("us")).to_pandas()
    moments = micros.cast(pa.timestamp("us", "UTC" if has_zone(kind) else None))
    if kind == "DATE":
        return pd.array(moments.cast(pa.date32(), safe=False), dtype=pd.ArrowDtype(pa.date32()))
    return moments.to_pandas().astype(PANDAS.get(kind, "datetime64[us]"))


def values_like(values: NDArray[np.generic] | pa.Array, column: pd.Series) -> pd.Series:
    """Values as :func:`typed_values` takes them, in the type of a column that it made."""
    kind = type_of_values(column)
    made = pd.Series(typed_values(values, kind, np.arange(len(values))))
    return made.astype(column.dtype)


def _typed_column(different: pa.Array, place: Ints, kind: str) -> pd.Series:
    """A column whose row i has the value of the text ``different[place[i]]``."""
    name = PANDAS[kind]
    found = plain_values(different, "BIGINT" if kind in WHOLE else kind)
    if found is None:
        found = _query_values(different, _value_sql(kind))
    if kind == "DATE":
        column = pd.Series(pd.array(found, dtype=pd.ArrowDtype(pa.date32())))
    elif name.startswith("datetime"):
        if has_zone(kind):
            found = found.cast(pa.timestamp(name[11:13], "UTC"))
        column = found.to_pandas().astype(name).rename(None)
    else:
        column = pd.Series(pd.array(found.to_pylist(), dtype=name))
    repeated: pd.Series = column.take(place).reset_index(drop=True)
    return repeated


def _value_sql(kind: str) -> str:
    """SQL for the value that a level column holds for a text."""
    value = f"TRY_CAST(t AS {_text_type(kind)})"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        held = f"isfinite({value})"
        if not _text_type(kind).endswith("NS"):  # nanoseconds hold fewer years than these
            held += f" AND {value} BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'"
        return f"CASE WHEN {held} THEN {value} END"
    return "TRY_CAST(t AS BIGINT)" if kind in WHOLE else value


def _text_type(kind: str) -> str:
    """The type to read the text of a value as: times with a zone are written in UTC, without the
    zone."""
    if has_zone(kind):
        return "TIMESTAMP_NS" if kind.endswith("NS") else "TIMESTAMP"
    return kind


def _query_values(texts: pa.Array, value: str) -> pa.Array:
    """Values that DuckDB computes from texts, in the order of the texts."""
    table = pa.table({"i": np.arange(len(texts)), "t": texts})
    with _duck.register_table(table, "the labels") as relation:
        statement = (
            f"SELECT {value} AS v FROM {identifier(_duck.VIEW)} ORDER BY {ascending_order('i')}"
        )
        return relation.query(statement, False)["v"].combine_chunks()


def natural_order(
    hierarchy: Hierarchy,
    level: NDArray[np.int64],
    labels: pa.Array,
    keys: tuple[pa.ChunkedArray, ...],
    types: Sequence[str] = (),
    other: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Return the positions of nodes in sorted order: by level, and within a level by value. Numbers
    are sorted by size, times by date, numeric intervals by their lower bound, other labels by code
    points. ``<invalid>`` comes behind
    the values of the same parent, ``<other>`` behind ``<invalid>``. ``<other>`` nodes of addresses
    and host names, whose labels do not begin like the label of their parent, come at the end of the
    level.
    """
    rest = np.zeros(len(level), dtype=np.bool_) if other is None else other
    by, ties = [level], [rest.astype(np.int64)]
    coded = [different_values(key) for key in keys]
    missing = [_is_missing(*key) for key in coded]
    if hierarchy.label_columns:
        for depth, (different, place) in enumerate(coded, 1):
            own = level >= depth
            by.append((own & missing[depth - 1]) + (rest & (level == depth)).astype(np.int64))
            kind = types[depth - 1] if types else ""
            by.append(_ranks_by_value(different, kind)[place])
    else:
        under_root = rest & (level == 1)
        invalid = (level > 0) & missing[0] & ~rest
        last = rest if hierarchy.kind in ("ip", "domain") else under_root
        by.append(invalid + 2 * last.astype(np.int64))
        if hierarchy.kind == "number":
            index = pc.fill_null(pc.cast(keys[0], pa.int64()), 0).to_numpy()
            by.append(np.unique(np.where(rest, 4 * index + 3, 2 * index), return_inverse=True)[1])
        names = pc.if_else(pa.array(rest), _other_sorted_last(labels), labels)
        different, place = different_values(names)
        by.append(ranks_of_values(different)[place])
    ties += [ranks_of_values(different)[place] for different, place in coded]
    return order_of_rows([*by, *ties])


def _is_missing(different: pa.Array, place: Ints) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = different.is_null().to_numpy(zero_copy_only=False)[place]
    return found


def _other_sorted_last(labels: pa.Array) -> pa.Array:
    """Labels in which ``<other>`` at the end is replaced, so that such nodes sort behind all labels
    that begin like their parent."""
    return pc.replace_substring_regex(labels, f" ?{OTHER}$", LAST)


def _ranks_by_value(different: pa.Array, kind: str) -> Ints:
    """The ranks of different texts by their values of the type ``kind``, or as texts."""
    outer = kind.split("(")[0]
    if outer not in SORTED or kind.endswith("]"):
        return ranks_of_values(different)
    values = plain_values(different, kind)
    if values is not None:
        return ranks_of_values(values)
    value = f"TRY_CAST(t AS {_text_type(kind)})"
    rank = f"dense_rank() OVER (ORDER BY {ascending_order('t IS NOT NULL', value, 't')}) - 1"
    ranks: Ints = _query_values(different, rank).to_numpy()
    return ranks


# -- level columns that were categories ------------------------------------------------------------
#
# They become categories again, with the released values only. The list of categories of a source
# holds values of its rows and, if the source was read from a file, also their order. So a result
# has only the categories that it shows anyway. A column that is declared as ordered keeps its
# order, which its owner chose.


def with_categories(frame: pd.DataFrame, source: object, levels: Sequence[str]) -> pd.DataFrame:
    """A released frame whose level columns are categorical where the columns of the source are."""
    kinds = {name: _category_order(source, name) for name in levels if name in frame.columns}
    changed = {name: order for name, order in kinds.items() if order is not None}
    if not changed:
        return frame
    out = frame.copy()
    for name, order in changed.items():
        shown = set(out[name].dropna().tolist())
        declared = [value for value in order if value in shown]
        others = sorted(shown.difference(declared), key=str)
        kind = pd.CategoricalDtype(
            pd.Index([*declared, *others], dtype=out[name].dtype), ordered=bool(order)
        )
        out[name] = out[name].astype(kind)
    return out


def _category_order(source: object, name: str) -> list[Any] | None:
    """The declared order of a column of categories, [] if none is declared; None for columns of
    other types."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        kind = source.dtypes.get(name)
        if isinstance(kind, pandas.CategoricalDtype):
            return list(kind.categories) if kind.ordered else []
    elif polars is not None and isinstance(source, polars.DataFrame):
        kind = source.schema.get(name)
        if isinstance(kind, polars.Enum):
            return list(kind.categories)
        if kind == polars.Categorical:
            return []
    return None
