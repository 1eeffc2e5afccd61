"""A release prepared for drawing, its moments of time, the blocks of a tree, and changes.

**Blocks** of a drawing of a tree that would be narrow are widened or put together.

Drawn to scale, a node of 91 % would leave slivers for its siblings. Here a block is at least
``LEAST`` of the drawing, as long as widened blocks take at most ``SPARED`` of their parent beside
wide siblings. Nodes without room go into one block that says how many it holds.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpframe.asking.measure_texts import Figures, bound_words, receipt_measures
from dpframe.asking.privacy_receipt import Receipt
from dpframe.errors import ParameterError
from dpframe.hierarchy import INVALID, OTHER, Hierarchy
from dpframe.pages.drawings import Point
from dpframe.pages.page_parts import check_columns, figures_of
from dpframe.postprocess.release_changes import NUMBERS
from dpframe.postprocess.shown_nodes import (
    as_nodes,
    finite_numbers,
    released_numbers,
    tree_of_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

WRITTEN = re.compile(
    r"(\d{4})(?:-?Q([1-4])|-W(\d\d)|-(\d\d)(?:-(\d\d)(?:[ T](\d\d)(?::00(?::00(?:\.0+)?)?)?)?)?)?"
)
"""Pattern of years, quarters, ISO weeks, months, days and hours in labels."""


def period_of_label(label: str) -> pd.Period | None:
    """Return the period that a label names, such as 2013, 2013-W05 or 2013-01-05 10:00, or None."""
    import pandas as pd

    found = WRITTEN.fullmatch(label)
    if found is None:
        return None
    year = int(found[1])
    quarter, week, month, day, hour = (
        None if part is None else int(part) for part in found.groups()[1:]
    )
    try:
        if quarter is not None:
            return pd.Period(year=year, quarter=quarter, freq="Q")
        if week is not None:
            return pd.Period(datetime.date.fromisocalendar(year, week, 1), "W-SUN")
        if month is None:
            return pd.Period(year=year, freq="Y")
        datetime.date(year, month, 1 if day is None else day)
        if day is None:
            return pd.Period(year=year, month=month, freq="M")
        if hour is None:
            return pd.Period(year=year, month=month, day=day, freq="D")
        return pd.Period(year=year, month=month, day=day, hour=hour, freq="h")
    except ValueError:
        return None


def periods_of_labels(labels: Sequence[str]) -> list[pd.Period | None]:
    """Return the periods of labels; None for a label without one, or of another length than most.

    If all labels are times at midnight, as a column of timestamps writes days, they are days.
    """
    found = [period_of_label(label) for label in labels]
    known = [one for one in found if one is not None]
    if known and all(one.freqstr == "h" and one.hour == 0 for one in known) and len(known) > 1:
        found = [None if one is None else one.asfreq("D") for one in found]
    lengths = Counter(one.freqstr for one in found if one is not None)
    if not lengths:
        return found
    usual = lengths.most_common(1)[0][0]
    return [one if one is not None and one.freqstr == usual else None for one in found]


def period_start_text(period: pd.Period) -> str:
    """Return the start of a period as text that charts can read."""
    start = period.asfreq("h" if period.freqstr == "h" else "D", "start")
    return f"{start.year:04}-{start.month:02}-{start.day:02}" + (
        f" {start.hour:02}:00" if period.freqstr == "h" else ""
    )


Kind = Literal["bar", "line", "icicle", "treemap", "heatmap"]

KINDS: Mapping[Kind, str] = {
    "bar": "numbers side by side with their intervals",
    "line": "numbers over time with the band of their intervals",
    "icicle": "parts as widths of a whole, a level a row",
    "treemap": "parts as areas of a whole",
    "heatmap": "two columns against each other",
}
"""Kinds of drawings, and what each shows."""

BARS = 40
"""Largest number of bars that are drawn: the first ones."""

PANELS = 6
"""Largest number of measures that are drawn beside or below each other."""

FULL = 0.5
"""Two columns are drawn as a heatmap if at least this part of the cells of their grid is reported,
and if ``REPEATED`` holds."""

REPEATED = 1.5
"""Number of values of the first column under which a value of the second stands on average, at
least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMeasure:
    """A measure to draw: its columns, how it is written, whether its parts make up a whole
    (``area``), whether it can be negative (``signed``), and what bounds leave of it (``bound``); of
    a quantile the bounds (``limits``), and which part of the values it is not below (``at``)."""

    name: str
    columns: tuple[str, str, str]
    figures: Figures
    area: bool
    signed: bool
    bound: str = ""
    limits: tuple[float, float] | None = None
    at: float | None = None
    of: str | None = None
    each: str = "row"

    @property
    def has_zero(self) -> bool:
        """Whether 0 means nothing, so that bars begin there; the zero of times is arbitrary."""
        return self.figures.value != "time"


@dataclass(frozen=True, kw_only=True, eq=False)
class Chartable:
    """Released nodes, prepared for drawing. Public."""

    nodes: pd.DataFrame
    receipt: Receipt
    hierarchy: Hierarchy
    measures: tuple[DrawnMeasure, ...]

    @property
    def is_rollup(self) -> bool:
        """Whether the release is a rollup, with named measures."""
        return bool(self.receipt.get("measures"))

    @cached_property
    def level(self) -> NDArray[np.int64]:
        return self.nodes["level"].to_numpy(dtype=np.int64)

    @cached_property
    def bar_level(self) -> int:
        """The level whose nodes stand side by side: the coarsest that branches, else the first."""
        levels, times = np.unique(self.level[self.level > 0], return_counts=True)
        several = levels[times > 1]
        return int(several[0] if len(several) else levels[0]) if len(levels) else 1

    @cached_property
    def date_level(self) -> int | None:
        """The level of dates with the most nodes, the finest such level; None without dates."""
        if self.hierarchy.kind not in ("date", "columns"):
            return None
        found: list[tuple[int, int]] = []
        for depth in range(1, self.hierarchy.height + 1 if self.hierarchy.kind == "date" else 2):
            labels = self.nodes["prefix"][self.level == depth].astype(str).tolist()
            times = sum(one is not None for one in periods_of_labels(labels))
            if times > 1 and 2 * times > len(labels):
                found.append((times, depth))
        return max(found)[1] if found else None

    @cached_property
    def is_grid(self) -> bool:
        """Whether values of the second column repeat under the first, and fill most of a grid."""
        if self.hierarchy.kind != "columns" or self.hierarchy.height != 2:
            return False
        first, second = (self.nodes[name][self.level == 2] for name in self.hierarchy.label_columns)
        wide, high = first.nunique(), second.nunique()
        full = len(first) >= FULL * wide * high and len(first) >= REPEATED * high
        return bool(wide > 1 and high > 1 and full)

    @cached_property
    def is_dated(self) -> bool:
        """Whether the type of the hierarchy or of its only column says that values are dates."""
        if self.date_level is None or self.hierarchy.kind == "date":
            return self.date_level is not None
        from pandas.api import types

        column = self.nodes[self.hierarchy.label_columns[0]]
        if types.is_datetime64_any_dtype(column.dtype):
            return self.hierarchy.height == 1
        held = types.infer_dtype(column, skipna=True)
        return self.hierarchy.height == 1 and held in ("date", "datetime", "datetime64")

    @property
    def fits(self) -> tuple[Kind, ...]:
        """Kinds of drawings that can show the release, the usual kind first."""
        area = any(measure.area for measure in self.measures)
        can: dict[Kind, bool] = {
            "bar": True,
            "line": self.date_level is not None,
            "icicle": area,
            "treemap": area,
            "heatmap": self.hierarchy.kind == "columns" and self.hierarchy.height > 1,
        }
        usual: Kind = "icicle" if area else "bar"
        if self.is_dated:
            usual = "line"
        elif self.hierarchy.height == 1:
            usual = "bar"
        elif self.is_grid:
            usual = "heatmap"
        elif len(np.unique(self.level[self.level > 0])) <= 1 and len(self.level) <= BARS:
            usual = "bar"  # few nodes, of which none is below another
        return (usual, *(kind for kind, fits in can.items() if fits and kind != usual))

    def kind(self, asked: object) -> Kind:
        """Return the kind that was asked for, or the usual one; ParameterError if it does not
        fit."""
        fits = self.fits
        if asked is None:
            return fits[0]
        known = [kind for kind in KINDS if kind == asked]
        if not known:
            raise ParameterError(f"kind ({asked!r}) must be one of {', '.join(map(repr, KINDS))}.")
        if known[0] in fits:
            return known[0]
        raise ParameterError(
            f"kind ({asked!r}) does not fit: {_why_not_drawn(known[0], self)}. Choose "
            f"{' or '.join(map(repr, fits))}."
        )

    def find_measure(self, asked: object) -> DrawnMeasure | None:
        """Return the measure that was asked for, or None; ParameterError if it does not exist."""
        if asked is None:
            return None
        if not self.is_rollup:
            raise ParameterError(f"measure ({asked!r}) is only for rollups. Leave it out here.")
        for measure in self.measures:
            if measure.name == asked:
                return measure
        known = ", ".join(repr(measure.name) for measure in self.measures)
        raise ParameterError(f"measure ({asked!r}) of this rollup must be one of {known}.")


def _why_not_drawn(kind: Kind, shown: Chartable) -> str:
    if kind == "line":
        return "no level of this release holds more than one date"
    if kind == "heatmap":
        return f"this release is of {shown.hierarchy.spec!r}, not of two columns or more"
    if not shown.is_rollup:
        return "different users do not add up to a whole"
    return "no measure of this rollup has parts of a whole"


def chartable(frame: pd.DataFrame, receipt: Receipt) -> Chartable:
    """Prepare the released columns of a frame for drawing.

    Raises ParameterError for a missing column.
    """
    hierarchy = tree_of_nodes(receipt, "plot")
    nodes = as_nodes(frame, hierarchy.label_columns)
    named, bounds = receipt_measures(receipt), bound_words(receipt)
    check_columns(nodes, (column for measure in named for column in measure.all_columns))
    counted = DrawnMeasure(
        name="count",
        columns=("count", "lower", "upper"),
        figures=Figures(digits=receipt.digits),
        area=receipt.get("adds_up") is not False,
        signed=False,
        bound=bounds.get("count", ""),
    )
    check_columns(nodes, ("level", "prefix", *(() if named else counted.columns)))
    measures = tuple(
        DrawnMeasure(
            name=measure.name,
            columns=measure.columns,
            figures=figures_of(nodes, measure),
            area=measure.has_areas,
            signed=measure.signed,
            bound=bounds.get(measure.name, ""),
            limits=measure.limits,
            at=measure.at,
            of=measure.of,
            each=measure.each,
        )
        for measure in named
    )
    return Chartable(
        nodes=nodes, receipt=receipt, hierarchy=hierarchy, measures=measures or (counted,)
    )


def area_measure(shown: Chartable, kind: str, asked: DrawnMeasure | None) -> DrawnMeasure:
    """Return the one measure that a drawing shows; ParameterError if areas cannot show it."""
    if kind == "heatmap":
        return asked or shown.measures[0]
    can = [measure for measure in shown.measures if measure.area]
    if asked is None:
        return can[0]
    if asked.area:
        return asked
    raise ParameterError(
        f"kind {kind!r} cannot show measure {asked.name!r}, which has no parts of a whole. Choose "
        f"{' or '.join(repr(m.name) for m in can)}, or kind='bar', which shows every measure."
    )


def level_order(
    shown: Chartable, level: int, measure: DrawnMeasure | None = None
) -> NDArray[np.int64]:
    """Return the places of a level's nodes in reading order, ``<other>``, ``<invalid>`` last.

    Numbers and dates are in their own order; other nodes by size, largest first. If a measure is
    named, all nodes are ordered by its size.
    """
    places = np.flatnonzero(shown.level == level)
    rows = shown.nodes.iloc[places]
    labels = rows["prefix"].astype(str).tolist()
    key: list[float]
    if measure is None and shown.hierarchy.kind == "number":
        key = [_interval_start(label) for label in labels]
    elif measure is None and shown.date_level == level:
        key = [-np.inf if t is None else t.ordinal for t in periods_of_labels(labels)]
    else:
        sizes = finite_numbers(rows[(measure or shown.measures[0]).columns[0]])
        key = [np.inf if n is None else -n for n in sizes]
    rest = [label.endswith((OTHER, INVALID)) for label in labels]
    order: NDArray[np.int64] = places[
        np.lexsort((places, np.array(key), np.array(rest, dtype=np.bool_)))
    ]
    return order


def _interval_start(label: str) -> float:
    """Return the start of an interval such as [0, 50)."""
    try:
        return float(label[1:].partition(",")[0])
    except ValueError:
        return np.inf


def measure_points(rows: pd.DataFrame, measure: DrawnMeasure) -> list[Point | None]:
    """Return the number of each row with its interval, or None if it has no number."""
    return [
        None if value is None else Point(value=value, lower=lower, upper=upper)
        for value, lower, upper in released_numbers(rows, measure.columns, measure.limits)
    ]


def dated_rows(shown: Chartable) -> tuple[pd.DataFrame, list[pd.Period], int]:
    """Return the rows of the level of dates in order, their periods, and how many have none."""
    assert shown.date_level is not None
    rows = shown.nodes.iloc[level_order(shown, shown.date_level)]
    found = periods_of_labels(rows["prefix"].astype(str).tolist())
    dated = [period is not None for period in found]
    return rows[dated], [period for period in found if period is not None], dated.count(False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """The first column against the second: the nodes of the second level, the values that each has
    in both columns, its number (nan if unknown), and the values of each column, largest first."""

    rows: pd.DataFrame
    pairs: list[tuple[str, str]]
    numbers: NDArray[np.float64]
    down: list[str]
    across: list[str]


def grid_of(shown: Chartable, measure: DrawnMeasure) -> Grid:
    """Return the first two columns of a release against each other."""
    rows = shown.nodes[shown.level == 2]
    first, second = (_values_as_text(rows, name) for name in shown.hierarchy.label_columns[:2])
    known = finite_numbers(rows[measure.columns[0]])
    numbers = np.array([np.nan if n is None else n for n in known], dtype=np.float64)
    down, across = (_largest_labels(labels, numbers) for labels in (first, second))
    pairs = list(zip(first, second, strict=True))
    return Grid(rows=rows, pairs=pairs, numbers=numbers, down=down, across=across)


def _values_as_text(rows: pd.DataFrame, column: str) -> list[str]:
    """Return the values of a level as text; for a missing value, the end of the node's label."""
    values = rows[column]
    return [
        str(label).rpartition(" / ")[2] if missing else str(value)
        for value, missing, label in zip(values, values.isna(), rows["prefix"], strict=True)
    ]


def _largest_labels(labels: list[str], numbers: NDArray[np.float64]) -> list[str]:
    """Return the different labels, ordered by the sum of their absolute values, largest first."""
    sizes: dict[str, float] = {}
    for label, number in zip(labels, np.nan_to_num(np.abs(numbers)), strict=True):
        sizes[label] = sizes.get(label, 0.0) + number
    return sorted(sizes, key=lambda label: (-sizes[label], label))


# -- blocks of a tree ------------------------------------------------------------------------------

LEAST = 0.04
"""Least part of the whole drawing for a block: room for a line of text, with levels side by
side."""

SPARED = 0.4
"""Largest part of a block that widened children may take beside children that are not widened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A drawn block: a node, or several children of a node (``several``), inside block ``inside``.

    ``value`` is its area; more if it was widened, less if its siblings were.
    """

    node: int
    inside: int
    value: float
    several: tuple[int, ...] = ()
    widened: bool = False


def blocks(
    area: NDArray[Any], ancestor: NDArray[np.int64], *, in_order: bool = False
) -> list[Block]:
    """Return the blocks of a tree, a parent before its children.

    Parameters
    ----------
    area
        Shape (n,), not negative, children never more than their parent
        (:func:`dpframe.postprocess.shown_nodes.areas`).
    ancestor
        int64, shape (n,): the parent of each node, -1 for none.
    in_order
        Whether children stand in the order of the nodes, and not by size.

    Returns
    -------
    list of Block
        ``inside`` is the place of the parent in this list, -1 for none. If nothing is widened,
        values are the areas.
    """
    children: dict[int, list[int]] = {}
    for node, above in enumerate(ancestor.tolist()):
        children.setdefault(above, []).append(node)
    if not in_order:
        for below in children.values():
            below.sort(key=lambda i: (-area[i], i))
    out: list[Block] = []
    roots = children.get(-1, [])
    if len(roots) == 1:
        out.append(Block(node=roots[0], inside=-1, value=area[roots[0]].item()))
    else:  # without a total the roots share the drawing
        whole = float(sum(area[root] for root in roots))
        out += _child_blocks(roots, area, whole, whole, whole, -1)
    at = 0
    whole = float(sum(block.value for block in out)) or 1.0
    while at < len(out):
        block = out[at]
        under = children.get(block.node, []) if not block.several else []
        if under:
            out += _child_blocks(under, area, area[block.node].item(), block.value, whole, at)
        at += 1
    return out


def _child_blocks(
    below: list[int],
    area: NDArray[Any],
    total: float,
    room: float,
    whole: float,
    inside: int,
) -> list[Block]:
    """Return the blocks of a node's children; ``total`` is its area, ``room`` its value in the
    drawing."""
    scale = room / total if total and room != total else 1
    wide = {i: area[i].item() * scale for i in below}
    least, small, narrower = LEAST * whole, set[int](), 1.0
    while fell := {i for i in below if 0 < wide[i] * narrower < least} - small:
        small |= fell  # a widened block can make the next one too narrow
        limit = room if len(small) == sum(w > 0 for w in wide.values()) else SPARED * room
        ranked = sorted(small, key=lambda i: (-area[i], i))
        alone = _own_block_count(ranked, area, int(limit / least))
        rest = tuple(ranked[alone:])
        each = min(least, limit / (alone + bool(rest)))
        together = max(each, min(sum(wide[i] for i in rest), limit - alone * each))
        left = room - sum(wide[i] for i in small)
        taken = alone * each + bool(rest) * together
        narrower = min(1.0, max(0.0, room - taken) / left) if left > 0 else 0.0
    if not small:
        return [Block(node=i, inside=inside, value=wide[i]) for i in below]
    lifted = set(ranked[:alone])
    out = [
        Block(
            node=i,
            inside=inside,
            value=each if i in lifted else wide[i] * narrower,
            widened=i in lifted,
        )
        for i in below
        if i not in rest
    ]
    if rest:
        out.append(Block(node=rest[0], inside=inside, value=together, several=rest, widened=True))
    return out


def _own_block_count(small: list[int], area: NDArray[Any], most: int) -> int:
    """Return how many small nodes, largest first, get their own block; equal nodes are treated
    equally."""
    if len(small) <= max(1, most):
        return len(small)
    fit = most - 1  # one block is for the nodes that are drawn together
    while fit > 0 and area[small[fit - 1]] == area[small[fit]]:
        fit -= 1
    return max(0, fit)


# -- changes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The numbers of a node in two releases, None where it was not reported, and their change.

    ``lower`` and ``upper`` are the ends of the interval of the change.
    """

    label: str
    level: int
    before: Point | None
    after: Point | None
    change: float | None
    lower: float | None
    upper: float | None
    ratio: float | None
    is_more_than_noise: bool

    @property
    def name(self) -> str:
        return self.label if self.level else "Total"

    @property
    def at_least(self) -> float:
        """How large the change is at least, by its interval; 0 if noise alone may explain it."""
        if not self.is_more_than_noise:
            return 0.0
        return min(abs(end) for end in (self.lower, self.upper) if end is not None)


def changes_of(found: pd.DataFrame) -> list[Change]:
    """Read the rows of ``dp.change``; sort them by the least size of the change, largest first.
    Times and durations are in seconds."""
    check_columns(found, ("level", "prefix", *NUMBERS))
    known = {name: finite_numbers(found[name]) for name in NUMBERS[:-1]}
    rows = zip(found["level"], found["prefix"], found["more_than_noise"], strict=True)
    out = [
        Change(
            label=str(prefix),
            level=int(level),
            before=_side_point(known, "before", row),
            after=_side_point(known, "after", row),
            change=known["change"][row],
            lower=known["change_lower"][row],
            upper=known["change_upper"][row],
            ratio=known["ratio"][row],
            is_more_than_noise=bool(clear),
        )
        for row, (level, prefix, clear) in enumerate(rows)
    ]
    return sorted(out, key=lambda c: (-c.at_least, -abs(c.change or 0.0), c.level, c.label))


def _side_point(known: Mapping[str, Sequence[float | None]], side: str, row: int) -> Point | None:
    value, *ends = (known[f"{side}{end}"][row] for end in ("", "_lower", "_upper"))
    return None if value is None else Point(value=value, lower=ends[0], upper=ends[1])
