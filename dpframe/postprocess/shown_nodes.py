"""Released nodes, checked for what is asked of a release afterwards, and which is below which."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.budget import as_float
from dpframe.common.calls import shown_value
from dpframe.common.digest import FrameState, frame_state, released_columns
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import (
    INVALID,
    OTHER,
    Hierarchy,
    as_hierarchies,
    as_hierarchy,
    is_one_hierarchy,
)
from dpframe.hierarchy._cells import Columns
from dpframe.hierarchy._plain_values import Path
from dpframe.measures.bins import DAY, checked_value
from dpframe.measures.measure import AT_BOUND_END, quantile_end

if TYPE_CHECKING:
    import pandas as pd


def flat_frame(frame: pd.DataFrame, column: str, k: int | None) -> pd.DataFrame:
    """Columns ``column``, count, lower and upper; largest counts first, ties by value; at most
    ``k`` rows, all if None."""
    out = frame.loc[frame["level"] == 1, [column, "count", "lower", "upper"]]
    out = out.sort_values(["count", column], ascending=[False, True], kind="stable")
    return (out if k is None else out.head(k)).reset_index(drop=True)


Ends = tuple[float | None, float | None, float | None]
"""A number and the ends of its interval; None where one is unknown or open."""


def finite_numbers(column: pd.Series[Any]) -> list[float | None]:
    """Return the numbers of a column, with None for missing and infinite numbers: of times seconds
    since 1970, of durations seconds."""
    cells = zip(column.tolist(), column.isna(), strict=True)
    plain = [
        None if missing else checked_value("", cell)[0] if isinstance(cell, CLOCK_TYPES) else cell
        for cell, missing in cells
    ]
    return [None if n is None or not math.isfinite(n) else n for n in plain]


CLOCK_TYPES = date, timedelta


def released_numbers(
    frame: pd.DataFrame, columns: Sequence[str], limits: tuple[float, float] | None = None
) -> list[Ends]:
    """Return the number of every row with the ends of its interval. If it is a quantile between
    ``limits``, an end is None where the interval reaches beyond them, and both if it is unknown."""
    found: list[Ends] = list(zip(*(finite_numbers(frame[name]) for name in columns), strict=True))
    if limits is None:
        return found
    grain = grain_of(frame[columns[0]])
    beyond = frame[f"{columns[0]}{AT_BOUND_END}"].tolist()
    return [
        open_ends(ends, limits, grain) if reaches or ends[0] is None else ends
        for ends, reaches in zip(found, beyond, strict=True)
    ]


def open_ends(ends: Ends, limits: tuple[float, float], grain: float) -> Ends:
    """Return a quantile, whose interval reaches beyond one of ``limits``, with None for that end;
    all are None if it is unknown. Values are multiples of ``grain``, of nothing if it is 0."""
    value, lower, upper = ends
    if value is None or lower is None or upper is None:
        return None, None, None
    below = lower <= limits[0] or lower - grain < limits[0]
    above = upper >= limits[1] or upper + grain > limits[1]
    return value, None if below else lower, None if above else upper


def grain_of(column: pd.Series[Any]) -> float:
    """Return of what the values of a column are multiples, as numbers: 0 if of nothing."""
    return GRAINS.get(type_of_values(column), 0.0)


GRAINS = {"BIGINT": 1.0, "DATE": DAY}
"""What values of a type are multiples of, as numbers in bins."""


def cut_facts(facts: Mapping[str, Any], shown: int, released: int) -> dict[str, Any]:
    """Return the facts of a receipt, which say so if only the largest rows are shown: where counts
    are close, noise decides which are largest, and intervals miss more often than they say."""
    if shown >= released:
        return dict(facts)
    about = (
        f"the {shown} shown are the largest of {released} released, by their noisy counts: where "
        "many counts are close, these are too large, and intervals are nominal: they miss more "
        "often than they say. Without k= all are shown, and intervals hold"
    )
    unseen, more = facts.get("not_shown"), dict[str, Any]()
    if unseen is not None:
        more = {"not_shown": {**unseen, "nodes": shown, "cut": released - shown}}
    return {
        **facts,
        **more,
        "intervals": f"{facts['intervals']}; but {about}",
        "card": [["intervals", "nominal", about], *facts["card"]],
    }


def as_nodes(frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    """A flat frame as nodes of one level, for drawings of hierarchies; other frames are left alone.

    ``columns`` are the label columns of the hierarchy of the release.
    """
    if len(columns) != 1 or {"level", "prefix", "residual"} & set(frame.columns):
        return frame
    if not {columns[0], "count"} <= set(frame.columns):
        return frame
    values = frame[columns[0]].astype(object)
    labels = values.where(frame[columns[0]].notna(), INVALID).map(str)
    return frame.assign(level=1, prefix=labels, residual=frame["count"])


# -------------------------------------------------------------------------------------------------
# Which reported node lies under which, and how much room each gets in a drawing; from public data
# alone.


def nearest_reported(frame: pd.DataFrame, hierarchy: Hierarchy) -> NDArray[np.int64]:
    """The nearest reported ancestor of every row.

    ``frame`` has some or all rows of a release, in any order. The result has the position of the
    ancestor's row, -1 where none is reported. ParameterError if a row is no node of this hierarchy,
    or a column is missing.

    A value that is literally ``<invalid>`` reads like a missing one, and one that is literally
    ``<other>`` like what no other row covers. Of two rows that read alike the first is taken, which
    in the order of a release is the literal one.
    """
    return nearest_ancestors(lineages(frame, hierarchy))


def nearest_ancestors(rows: Sequence[tuple[Hashable, ...]]) -> NDArray[np.int64]:
    """The nearest reported ancestor of every row, as :func:`nearest_reported` finds it, from the
    lineages of the rows."""
    places: dict[tuple[int, Hashable], int] = {}
    for place, lineage in enumerate(rows):
        places.setdefault((len(lineage), lineage[-1] if lineage else None), place)
    root = places.get((0, None), -1)
    found = np.full(len(rows), root, dtype=np.int64)
    for place, lineage in enumerate(rows):
        if not lineage:
            found[place] = -1
        for level in range(len(lineage) - 1, 0, -1):
            above = places.get((level, lineage[level - 1]))
            if above is not None:
                found[place] = above
                break
    return found


def areas(
    frame: pd.DataFrame, ancestor: NDArray[np.int64], column: str | None = "count"
) -> NDArray[Any]:
    """Room for every row in a drawing where children lie inside their parent.

    A noisy count can be negative, and children can sum up to more than their parent. The area
    of a node is its count or what its children take, whichever is more, and never below 0.

    ``ancestor`` is from :func:`nearest_reported`. ``column`` has the numbers that areas stand for;
    None gives 1 to every node that has no reported node below.
    """
    from pandas.api import types  # loads pandas, which would load what imports this

    level = frame["level"].to_numpy(dtype=np.int64)
    area: NDArray[Any]
    if column is None:
        area = np.ones(len(frame), dtype=np.int64)
        area[ancestor[ancestor >= 0]] = 0
    else:
        kind = np.float64 if types.is_float_dtype(frame[column].dtype) else np.int64
        area = np.maximum(frame[column].to_numpy(dtype=kind), 0)
    inside = np.zeros_like(area)
    for depth in range(int(level.max(initial=0)), -1, -1):
        here = np.flatnonzero(level == depth)
        area[here] = np.maximum(area[here], inside[here])
        below = here[ancestor[here] >= 0]
        np.add.at(inside, ancestor[below], area[below])
    return area


def label_joint(hierarchy: Hierarchy) -> str:
    """What joins the label of a node to the rest of its children's labels; empty if nothing does.

    Only paths and columns repeat the label of the parent in front.
    """
    if isinstance(hierarchy, Path):
        return hierarchy.separator
    return " / " if isinstance(hierarchy, Columns) else ""


def _lineage_of_row(
    hierarchy: Hierarchy, level: int, shown: tuple[str, ...]
) -> tuple[Hashable, ...]:
    """The lineage of a row by the rules of the hierarchy; an ``<other>`` row lies under the node
    whose label it carries."""
    label, tail = shown[-1], f"{label_joint(hierarchy) or ' '}{OTHER}"
    if hierarchy.label_columns or hierarchy.kind == "code":  # the same for rows and for values
        return hierarchy.lineage(level, shown)
    if label == OTHER and level == 1:
        return (OTHER,)
    if level == 1 or not label.endswith(tail):
        return hierarchy.lineage(level, shown)
    return (*hierarchy.lineage(level - 1, (label.removesuffix(tail),)), label)


def _level_texts(frame: pd.DataFrame, depth: int, name: str) -> pd.Series:
    """A level column as text; where its type has no ``<invalid>`` and no ``<other>``, the label of
    the row tells them apart."""
    column = frame[name]
    texts = column.astype(object).where(column.notna(), INVALID).map(str)
    if "prefix" in frame.columns:
        other = (
            column.isna()
            & (frame["level"] == depth)
            & frame["prefix"].astype("str").str.endswith(OTHER)
        )
        texts = texts.where(~other, OTHER)
    return texts


def lineages(frame: pd.DataFrame, hierarchy: Hierarchy) -> list[tuple[Hashable, ...]]:
    """The lineage of every row: the nodes above it and its own node, coarse to fine.

    Arguments and errors are those of :func:`nearest_reported`; the lineage of the root is empty.
    """
    names = hierarchy.label_columns or ("prefix",)
    missing = [name for name in ("level", *names) if name not in frame.columns]
    if missing:
        raise ParameterError(
            f"the frame has no column {missing[0]!r}. Pass it as dpframe returned it."
        )
    texts = [_level_texts(frame, depth, name) for depth, name in enumerate(names, 1)]
    levels = frame["level"].to_numpy(dtype=np.int64).tolist()
    out = []
    for row, (level, *shown) in enumerate(zip(levels, *texts, strict=True)):
        own = tuple(shown[:level] if hierarchy.label_columns else shown)
        lineage: tuple[Hashable, ...] = ()
        if 1 <= level <= hierarchy.height:
            with suppress(ValueError, OverflowError):
                lineage = _lineage_of_row(hierarchy, level, own)
        if len(lineage) != level:
            raise ParameterError(
                f"row {row} of the frame is no node of {hierarchy.spec!r}. Pass the frame as "
                "dpframe returned it, with its own receipt."
            )
        out.append(lineage)
    return out


# -------------------------------------------------------------------------------------------------
# Released nodes, checked for what is asked of a release afterwards, and which is below which.


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureColumns:
    """The columns of one measure: its value, and the ends of its interval."""

    value: str
    lower: str
    upper: str
    kind: str = "count"
    measure: str = ""
    """The name of the measure in the receipt."""
    at: float | None = None
    """Which part of the values a quantile is above."""


def _numbers_of_measure(facts: Mapping[str, Any]) -> list[tuple[str, str, float | None]]:
    """What follows a measure's name in the columns of its numbers, the kind of each, and its part
    of the values."""
    kind = str(facts["spec"]).partition("(")[0]
    if kind == "quantiles":
        return [(quantile_end(at), "quantile", at) for at in facts["at"]]
    at = facts["at"][0] if kind in ("median", "quantile") else None
    return [("", kind if at is None else "quantile", at)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownNodes:
    """Rows of a release whose numbers are the released ones. Public.

    ``frame`` has the columns of the release alone. ``whole`` says whether no row is missing.
    """

    frame: pd.DataFrame
    receipt: Mapping[str, Any]
    hierarchy: Hierarchy
    whole: bool

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """The frame with level and prefix, which the frame of a flat column does not have."""
        return as_nodes(self.frame, self.hierarchy.label_columns)

    @property
    def is_flat(self) -> bool:
        """Whether this is the frame of a flat column, which has no levels."""
        return "level" not in self.frame.columns

    @property
    def is_rollup(self) -> bool:
        """Whether this is a rollup, whose rows have named measures."""
        return str(self.receipt["mechanism"]) == "rollup"

    @cached_property
    def level(self) -> NDArray[np.int64]:
        return self.nodes["level"].to_numpy(dtype=np.int64)

    @cached_property
    def lineages(self) -> list[tuple[Hashable, ...]]:
        """The lineage of every row: the nodes above it and its own node, coarse to fine."""
        return lineages(self.nodes, self.hierarchy)

    @cached_property
    def ancestor(self) -> NDArray[np.int64]:
        """For every row the place of the nearest node above it in the frame, -1 for none: int64,
        shape (n,)."""
        return nearest_ancestors(self.lineages)

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Whether a row reads like another row: then nobody can say which rows are below it."""
        times = Counter(self.lineages)
        return np.array([times[lineage] > 1 for lineage in self.lineages], dtype=np.bool_)

    @cached_property
    def measures(self) -> dict[str, MeasureColumns]:
        """The columns of measures by name, in the order of the frame. Releases without named
        measures have "count"; releases of cells "residual" and, if it is shown, "count"."""
        named = self.receipt.get("measures")
        disjoint = self.receipt.get("adds_up") is not False
        if named is None and self.hierarchy.has_cells and disjoint:
            found = {"residual": MeasureColumns(value="residual", lower="lower", upper="upper")}
            if "count" in self.frame.columns:
                found["count"] = MeasureColumns(
                    value="count", lower="count_lower", upper="count_upper"
                )
            return found
        if named is None:
            return {"count": MeasureColumns(value="count", lower="lower", upper="upper")}
        return {
            f"{name}{end}": MeasureColumns(
                value=f"{name}{end}",
                lower=f"{name}{end}_lower",
                upper=f"{name}{end}_upper",
                kind=kind,
                measure=name,
                at=at,
            )
            for name, facts in named.items()
            for end, kind, at in _numbers_of_measure(facts)
        }

    def measure(self, name: object) -> tuple[str, MeasureColumns]:
        """Name and columns of a measure, by default the first; ParameterTypeError for a name that
        is no text, ParameterError for an unknown one."""
        if name is None:
            return next(iter(self.measures.items()))
        if not isinstance(name, str):
            raise ParameterTypeError(f"measure must be a name; got {shown_value(name)}.")
        if name not in self.measures:
            raise ParameterError(
                f"measure ({name!r}) must be one of this release: {', '.join(self.measures)}."
            )
        return name, self.measures[name]

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column as float64, shape (n,), NaN for missing values; times in seconds since 1970,
        durations in seconds."""
        values = self.frame[column]
        if values.dtype.kind not in "biuf":
            micros = whole_microseconds(pa.array(values, from_pandas=True))
            if micros is not None:
                seconds = micros.cast(pa.float64()).to_numpy(zero_copy_only=False) / 1e6
                return np.asarray(seconds, dtype=np.float64)
        return np.asarray(values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan))


def type_of_values(column: pd.Series) -> str:
    """DuckDB's type of a column of values: BIGINT, DATE, TIMESTAMP with or without a zone,
    INTERVAL, else DOUBLE."""
    held = pa.array(column, from_pandas=True).type
    if pa.types.is_date(held):
        return "DATE"
    if pa.types.is_timestamp(held):
        return "TIMESTAMP" if held.tz is None else "TIMESTAMP WITH TIME ZONE"
    if pa.types.is_duration(held):
        return "INTERVAL"
    return "BIGINT" if pa.types.is_integer(held) else "DOUBLE"


def whole_microseconds(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """Times since 1970, and durations, as whole numbers; None for other values."""
    kind = values.type
    if pa.types.is_duration(kind):
        return values.cast(pa.duration("us"), safe=False).cast(pa.int64())
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        zone = getattr(kind, "tz", None)
        return values.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return None


def shown_nodes(
    frame: pd.DataFrame, receipt: Mapping[str, Any], what: str, *, cells: bool = False
) -> ShownNodes:
    """The nodes of a frame that a release returned, or of some of its rows. ``what`` is the name of
    the question, for messages. ``cells`` allows cells of several hierarchies, for questions that do
    not ask which node is below which.

    Raises
    ------
    ParameterError
        The release is of another kind than nodes, or the frame has no digest, other numbers than
        the release, or not all its columns.
    """
    if "hierarchy" not in receipt or str(receipt["mechanism"]).startswith(("synthetic", "prefix")):
        raise ParameterError(
            f"{what} needs nodes of a hierarchy, and this is a release of another kind."
        )
    found = frame_state(frame)
    if found is None:
        raise ParameterError(
            f"{what} needs released numbers, and this frame has no digest of them. Ask the frame "
            "that dpframe returned."
        )
    if found.changed:
        raise ParameterError(
            f"{found.sentence}. Ask for the {what} of the release itself, or of some of its rows."
        )
    check_complete_columns(found, what)
    hierarchy = as_hierarchies(receipt["hierarchy"]) if cells else tree_of_nodes(receipt, what)
    released = released_columns(frame)
    released.attrs = {}  # copied by every step of pandas
    return ShownNodes(
        frame=released,
        receipt=receipt,
        hierarchy=hierarchy,
        whole=found.rows == found.of,
    )


def tree_of_nodes(receipt: Mapping[str, Any], what: str) -> Hierarchy:
    """The hierarchy of a release; ParameterError for cells of several hierarchies, which are no
    tree."""
    if not is_one_hierarchy(receipt["hierarchy"]):
        rows = "rows are of disjoint records: filter and add them up, or"
        if receipt.get("adds_up") is False:
            rows = "rows overlap:"
        raise ParameterError(
            f"{what} does not take cells of several hierarchies ({receipt['hierarchy']}). Their "
            f"{rows} take result.dp.top or result.dp.report."
        )
    return as_hierarchy(receipt["hierarchy"])


def check_complete_columns(found: FrameState, what: str) -> None:
    """Raise ParameterError if columns were left out: ``what`` needs all of them."""
    if found.lacks:
        raise ParameterError(f"{what}: {found.needs}. Leave out rows only, no columns.")


def check_column_clash(frame: pd.DataFrame, names: tuple[str, ...], what: str) -> None:
    """Raise ParameterError if a frame has a column that ``what`` would write."""
    taken = [name for name in names if name in frame.columns]
    if taken:
        raise ParameterError(
            f"{what} would write column {taken[0]!r}, which the frame has already. Release under "
            "other names of columns."
        )


LOWEST, HIGHEST = 0.5, 0.999999


def checked_confidence(confidence: object) -> float:
    """The confidence of intervals that a caller asks for."""
    number = as_float(confidence)
    if number is None:
        raise ParameterTypeError(f"confidence must be a number; got {shown_value(confidence)}.")
    if not LOWEST <= number <= HIGHEST:
        raise ParameterError(
            f"confidence ({confidence!r}) must be a number from {LOWEST:g} to {HIGHEST:g}."
        )
    return number


# -- The largest rows of a release, and whether their order is certain ----------------------------


ABOVE_NEXT = "above_next"
"""Column: whether the order against the next row is certain."""


def largest_rows(
    frame: pd.DataFrame, receipt: Mapping[str, Any], n: object, *, by: object, level: object
) -> pd.DataFrame:
    """``result.dp.top``; see :meth:`dpframe.doors.result_methods.ResultMethods.top`."""
    nodes = shown_nodes(frame, receipt, "top", cells=True)
    most = _whole_argument("n", n, 1)
    check_column_clash(frame, (ABOVE_NEXT,), "top")
    _, columns = nodes.measure(by)
    values = nodes.numbers(columns.value)
    kept = np.flatnonzero(_level_mask(nodes, level))
    missing = np.isnan(values[kept])
    ranked = kept[np.lexsort((np.where(missing, 0.0, -values[kept]), missing))]
    lower, upper = nodes.numbers(columns.lower)[ranked], nodes.numbers(columns.upper)[ranked]
    following = np.append(upper, np.nan)[1:]  # NaN after the last row
    unknown = np.isnan(lower) | np.isnan(following)
    above = [
        None if u else bool(lo > hi) for lo, hi, u in zip(lower, following, unknown, strict=True)
    ]
    out = frame.iloc[ranked[:most]].copy()
    out[ABOVE_NEXT] = above[: len(out)]
    out[ABOVE_NEXT] = out[ABOVE_NEXT].astype("boolean")
    return out


def _level_mask(nodes: ShownNodes, level: object) -> NDArray[np.bool_]:
    if level is None:
        return nodes.level > 0
    if isinstance(level, str):
        names = list(nodes.receipt["levels"])
        if level not in names:
            raise ParameterError(
                f"level ({level!r}) must be a number or one of {', '.join(map(repr, names))}."
            )
        return np.equal(nodes.level, names.index(level) + 1)
    return np.equal(nodes.level, _whole_argument("level", level, 0, nodes.hierarchy.height))


def _whole_argument(name: str, value: object, low: int, high: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterTypeError(f"{name} must be a whole number; got {shown_value(value)}.")
    if int(value) < low or (high is not None and int(value) > high):
        rule = f"at least {low}" if high is None else f"{low} to {high}"
        raise ParameterError(f"{name} ({value!r}) must be {rule}.")
    return int(value)


# -- A node of a release by its label, and everything that is shown below it ----------------------


LISTED = 10
"""The most labels that an error message names."""


def subtree(frame: pd.DataFrame, receipt: Mapping[str, Any], label: object) -> pd.DataFrame:
    """``result.dp.below``; see :meth:`dpframe.doors.result_methods.ResultMethods.below`."""
    nodes = shown_nodes(frame, receipt, "below")
    top = _lineage_of_label(nodes, str(label))
    rows = [place for place, line in enumerate(nodes.lineages) if line[: len(top)] == top]
    return frame.iloc[rows]


def _lineage_of_label(nodes: ShownNodes, label: str) -> tuple[Hashable, ...]:
    """The lineage of the one node with this label: a prefix, else a value of a level's column.
    ParameterError if there is none, or more than one."""
    by_prefix: dict[tuple[Hashable, ...], str] = {}
    by_label: dict[tuple[Hashable, ...], str] = {}
    labels: dict[str, None] = {}
    for line, prefix in zip(nodes.lineages, nodes.nodes["prefix"].astype(str), strict=True):
        labels[prefix] = None
        if prefix == label:
            by_prefix[line] = prefix
        if not nodes.hierarchy.label_columns:
            continue
        for depth, node in enumerate(line, 1):  # a node that is not shown has a label below it
            assert isinstance(node, tuple)
            labels[node[-1]] = None
            if node[-1] == label:
                by_label[line[:depth]] = " / ".join(node)
    found = by_prefix or by_label
    if not found:
        near = difflib.get_close_matches(label, labels, n=1, cutoff=0.6)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(
            f"below ({label!r}) is no label that this frame shows.{hint} Pass a prefix, or a value "
            "of a column of a level."
        )
    if len(found) > 1:
        texts = list(dict.fromkeys(found.values()))
        more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
        raise ParameterError(
            f"below ({label!r}) is the label of {len(found)} nodes. Pass the prefix of one of "
            f"them: {', '.join(map(repr, texts[:LISTED]))}{more}."
        )
    return next(iter(found))
