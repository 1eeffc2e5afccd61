"""A side of a change: numbers of a release, and bounds on nodes that it does not report.

A node is tested by its residual F, the records under it that no reported node below it covers: it
is reported if F + W >= threshold, W its own test noise. So the true count of a node that is not
reported is F plus the true counts of the topmost reported nodes below it, whose noisy counts are
released. For every u the chance that a node with F > u is not reported is at most
P(W < threshold - u), whatever other nodes do: F <= u except with this chance. For chance 0, u is
``threshold - lowest W - 1``: one below "certainly reported".

The chance is of both events together, that the node is not reported and that F > u, for a node that
was named without the noise of this release, such as a node that another release reports. Over many
such nodes chances add up, whatever the dependence.

Privacy
-------
Post-processing of what was reported and of public laws: no budget.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.budget import SHARE_GRID
from dpframe.errors import ParameterError
from dpframe.measures.bins import Steps
from dpframe.noise import NoiseTable, UnboundedNoise, law_of_facts
from dpframe.postprocess.joint_noise import (
    Noise,
    PlanAgain,
    certain_of_printed,
    half_width,
    planned_test_law,
    selects_by_number,
    table_of,
)
from dpframe.postprocess.known_noise import (
    NOMINAL,
    SUMMED,
    KnownNoise,
    MeanNoise,
    is_exact,
    known_noise,
    mean_noise,
    number_law,
    rollup_noise,
)
from dpframe.postprocess.quantiles import shown_bins
from dpframe.postprocess.shown_nodes import MeasureColumns, ShownNodes

if TYPE_CHECKING:
    import pandas as pd

Place = tuple[int, Hashable]
"""A node: its level, and the last entry of its lineage, None for the root."""

TESTED = ("offline", "offline-gaussian", "paper", "tree-hhh", "rollup")
"""Mechanisms that test residuals."""

BY_LEVEL = ("tree-laplace", "tree-gaussian", "tree-laplace-gaussian")
"""Mechanisms that compare the noisy count of every node with the threshold of its level."""


def node_place(lineage: tuple[Hashable, ...]) -> Place:
    """The place of a node, from its lineage: the nodes above it and the node itself."""
    return len(lineage), lineage[-1] if lineage else None


def most_hidden(test: NoiseTable, threshold: int, chance: float) -> int:
    """The least u so that P(W < threshold - F) <= ``chance`` for every F > u; in units."""
    passed = test.cumulative_chances()  # P(W < lowest + i)
    step = int(np.searchsorted(passed, chance, side="right")) - 1
    return threshold - (test.lowest + max(0, step)) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenBound:
    """How much the nodes can hold that one release does not report.

    ``laws`` are those of its tests of residuals, one for all levels, or of noisy counts, one a
    level; none if the receipt does not tell them. ``certain`` is the most that is hidden with
    certainty, in units, None if not known. ``grid`` units are 1 in the numbers of the release.
    """

    certain: int | None = None
    grid: int | Fraction = 1
    laws: tuple[NoiseTable, ...] = ()
    threshold: int = 0

    @property
    def by_chance(self) -> bool:
        """Whether a bound that may fail with some chance can be lower than the certain bound."""
        return bool(self.laws)

    def at(self, level: int, chance: float) -> int | None:
        """The most units that a node of this level hides, except with probability ``chance``; None
        without a bound: level 0 is never tested."""
        if level == 0:
            return None
        if not self.laws:
            return self.certain
        law = self.laws[level] if len(self.laws) > 1 else self.laws[0]
        return most_hidden(law, self.threshold, chance)


def hidden_bound(nodes: ShownNodes, plan_again: PlanAgain | None = None) -> HiddenBound:
    """The bound on nodes that a release does not report, by its receipt, in units of the noise that
    decides; without any bound where nothing is tested or told."""
    receipt, nothing = nodes.receipt, HiddenBound()
    mechanism, noise = str(receipt["mechanism"]), receipt.get("noise") or {}
    if receipt.get("keys") is not None or receipt.get("threshold") is None:
        return nothing
    if mechanism in BY_LEVEL:
        return _hidden_bound_by_level(receipt, noise)
    facts = _test_facts(receipt)
    if not facts:
        return nothing
    grid, lowest = Fraction(int(facts["grid"])) / Fraction(_worth(receipt)), float(facts["lowest"])
    threshold = math.ceil(Fraction(receipt["threshold"]) * grid)
    if mechanism == "paper":
        if "shared" not in noise:
            reported = certain_of_printed(receipt)
            certain = None if reported is None else math.ceil(reported * grid) - 1
            return HiddenBound(certain=certain, grid=grid)
        lowest += float(noise["shared"]["lowest"])
    certain = threshold - round(lowest * float(grid)) - 1
    law = law_of_tests(receipt, plan_again)
    laws = () if law is None else (law,)
    return HiddenBound(certain=certain, grid=grid, laws=laws, threshold=threshold)


def law_of_tests(receipt: Mapping[str, Any], plan_again: PlanAgain | None) -> NoiseTable | None:
    """Return the law of one test of a residual; None if the receipt does not say enough.

    None for the printed algorithm, too: each of its tests adds a second draw, which all share.
    """
    facts = _test_facts(receipt)
    if not facts or receipt["mechanism"] == "paper":
        return None
    if is_exact(facts):
        return table_of(law_of_facts(facts, _worth(receipt)))
    return None if plan_again is None else planned_test_law(receipt, plan_again)


def _test_facts(receipt: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The facts on the law of tests of residuals; none if a measure selects the nodes of a rollup,
    or if an earlier version tested a measure."""
    mechanism, noise = receipt["mechanism"], receipt.get("noise") or {}
    if mechanism not in TESTED:
        return None
    if mechanism == "rollup":
        by_rounds = receipt.get("adds_up") is False
        return noise if noise and not by_rounds and selects_by_number(receipt) else None
    facts: Mapping[str, Any] = noise.get("test") or {}
    return facts if receipt.get("weight") is None or is_exact(facts) else None


def _worth(receipt: Mapping[str, Any]) -> float:
    """What ``grid`` units are in the numbers of the release: 1, or ``max_weight`` of a measure."""
    return 1.0 if receipt.get("weight") is None else float(receipt["max_weight"])


def _hidden_bound_by_level(receipt: Mapping[str, Any], noise: Mapping[str, Any]) -> HiddenBound:
    """The bound by tests of noisy counts. No level has a larger threshold than the receipt."""
    facts = noise.get("levels") or []
    laws: tuple[NoiseTable | UnboundedNoise, ...] = ()
    with suppress(ParameterError):  # an earlier version did not tell the law
        laws = tuple(map(number_law, facts))
    grid = int(facts[0]["grid"]) if facts else 1
    threshold = int(receipt["threshold"]) * grid
    lowest = [fact["lowest"] for fact in facts]
    if not lowest or None in lowest:
        return HiddenBound(grid=grid)
    certain = threshold - round(float(min(lowest)) * grid) - 1
    tables = tuple(law for law in map(table_of, laws) if law is not None)
    return HiddenBound(certain=certain, grid=grid, threshold=threshold, laws=tables)


def topmost_below(nodes: ShownNodes) -> dict[Place, list[int]]:
    """For every node that is not reported and has reported nodes below it: the rows of the topmost
    of these reported nodes."""
    found: dict[Place, list[int]] = defaultdict(list)
    lines = nodes.lineages
    for row, (lineage, above) in enumerate(zip(lines, nodes.ancestor.tolist(), strict=True)):
        reported = len(lines[above]) if above >= 0 else -1
        for depth in range(reported + 1, len(lineage)):
            found[node_place(lineage[:depth])].append(row)
    return dict(found)


# -------------------------------------------------------------------------------------------------
# One of the two releases that a change compares: its number of every node, drawn or bounded.


Numbers = list[Any]
"""A list with one number per row; None where the number is not known."""

SELECTED_UPON = (*NOMINAL, "streaming")
"""Mechanisms that compare the released number itself with a threshold, so that its noise decides
whether it is reported."""

FLAT = (
    "heavy_hitters keeps the largest counts, which noise helped to choose: pass "
    "simultaneous=False, "
    "or ask dp.hhh with the column as its only level"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnNumbers:
    """Drawn numbers, one per row, from ``low`` to ``high``, in units of which ``scale`` are 1.

    They have ``noise``, or ``variance`` where only a weighted sum of Laplace noises is known.
    ``adjusted``: the frame shows counts that were made to add up in place of the drawn ones.
    """

    low: list[int]
    high: list[int]
    noise: list[Noise] | None
    variance: list[float]
    scale: Fraction
    decimals: int | None = None
    adjusted: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallestShown:
    """The frame of a flat column may show only the largest counts: a value that was reported and is
    not shown has a noisy count of at most ``least``, the smallest shown count, in units."""

    least: int
    noise: NoiseTable

    def at(self, chance: float) -> int:
        """The most that a value that is not shown counts, except with probability ``chance``."""
        most = half_width(self.noise, 1, 1 - chance) if chance else self.noise.highest
        return self.least + most


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """A release over the rows of a change. ``value``, ``lower`` and ``upper`` are columns of its
    frame, None at nodes that the release does not report.

    ``worth`` has the least and the most that a unit of the selection adds to a number. ``covers``
    has the rows of unreported nodes with reported nodes below, if there are no ``drawn`` numbers.
    ``like`` is a column of the values, if they are times or durations, which are in seconds here.
    ``drawn`` is None if the receipt does not tell the law of the noise, and ``unknown`` says why;
    ``means`` then gives ends for any confidence, if these are known. ``selected`` says why the
    intervals do not all hold together, if they do not.
    """

    levels: list[int]
    value: Numbers
    lower: Numbers
    upper: Numbers
    whole: bool
    nonnegative: bool
    has_ratio: bool
    confidence: float
    reported: int
    hidden: HiddenBound
    worth: tuple[Fraction, Fraction] | None
    kept: SmallestShown | None = None
    covers: frozenset[int] = frozenset()
    drawn: DrawnNumbers | None = None
    means: Callable[[float], tuple[Numbers, Numbers]] | None = None
    unknown: str = ""
    selected: str = ""
    like: pd.Series | None = None

    def hides(self, row: int, chance: float) -> tuple[Fraction | float, Fraction | float]:
        """The least and the most that a true number has beside its drawn part, in the numbers of
        the frame, except with probability ``chance``; infinite without a bound."""
        if self.value[row] is not None:
            return Fraction(0), Fraction(0)
        least = chance if self.kept is None else chance / 2
        units = self.hidden.at(self.levels[row], least)
        if units is None or self.worth is None or row in self.covers:
            return -math.inf, math.inf
        if self.kept is not None:
            units = max(units, self.kept.at(least))
        return self.worth[0] * units, self.worth[1] * units


def side_of(
    nodes: ShownNodes,
    name: str,
    columns: MeasureColumns,
    at: Sequence[int],
    places: Sequence[Place],
    plan_again: PlanAgain | None,
) -> Side:
    """A release as one side of a change. For each node of ``places``, ``at`` has its row in the
    frame of the release, or -1 if the release does not report the node."""
    hidden, kind = hidden_bound(nodes, plan_again), columns.kind
    facts = nodes.receipt["measures"][columns.measure] if nodes.is_rollup else {}
    drawn, unknown, selected = None, "", ""
    means: Callable[[float], tuple[Numbers, Numbers]] | None = None
    try:
        if kind == "mean":
            means = partial(_mean_ends, mean_noise(nodes, name), at)
            unknown = f"measure ({name!r}) is a mean, and what it is a quotient of is not shown."
        elif kind in ("quantile", "histogram"):
            means = _ends_of_bins(nodes, columns, at)
            unknown = f"measure ({name!r}) follows from numbers in bins."
        elif nodes.is_rollup and facts.get("adds_up") is False:
            means = partial(_mean_ends, rollup_noise(nodes, name)[0], at)
            unknown = f"measure ({name!r}) has noise in other units in each release."
        elif nodes.is_rollup:
            drawn = _drawn_numbers(nodes, rollup_noise(nodes, name)[0], at, places)
        else:
            drawn = _drawn_numbers(nodes, known_noise(nodes), at, places)
    except ParameterError as error:
        unknown = str(error)
    if nodes.is_flat:
        selected = FLAT
    elif nodes.receipt["mechanism"] in SELECTED_UPON:
        selected = (
            f"counts of mechanism {nodes.receipt['mechanism']!r} also decided what is shown: pass "
            "simultaneous=False, or release with mechanism='offline'"
        )
    value, lower, upper = (
        _column_at(nodes, column, at) for column in (columns.value, columns.lower, columns.upper)
    )
    values = nodes.frame[columns.value]
    timed = kind == "quantile" and facts["value"] != "number"
    below_zero = not _is_nonnegative(facts, kind)
    covers = frozenset[int]()
    if nodes.receipt["mechanism"] in SUMMED and drawn is None:  # what is below is not bounded
        below = topmost_below(nodes)
        covers = frozenset(i for i, (p, row) in enumerate(zip(places, at, strict=True))
                           if row < 0 and p in below)  # fmt: skip
    return Side(
        levels=[level for level, _ in places],
        value=value,
        lower=lower,
        upper=upper,
        whole=values.dtype.kind in "iu",
        nonnegative=kind != "quantile" and not below_zero,
        has_ratio=not below_zero and (not timed or facts["value"] == "duration"),
        confidence=float(nodes.receipt["confidence"]),
        reported=max(1, len(nodes.frame)),
        hidden=hidden,
        worth=_worth_of_unit(nodes, columns, hidden),
        kept=_smallest_shown(nodes),
        covers=covers,
        drawn=drawn,
        means=means,
        unknown=unknown,
        selected=selected,
        like=values if timed else None,
    )


def _column_at(nodes: ShownNodes, column: str, at: Sequence[int]) -> Numbers:
    plain = nodes.frame[column].dtype == np.int64  # NumPy's, which has no missing values
    values = (nodes.frame[column] if plain else nodes.numbers(column)).tolist()
    return [None if row < 0 else values[row] for row in at]


def _is_nonnegative(facts: Mapping[str, Any], kind: str) -> bool:
    if kind not in ("sum", "mean", "quantile"):
        return True
    lower = facts["lower"]
    return lower is not None and float(lower) >= 0


def _ends_of_bins(
    nodes: ShownNodes, columns: MeasureColumns, at: Sequence[int]
) -> Callable[[float], tuple[Numbers, Numbers]]:
    """Ends for a quantile or a number of values, for any confidence. They are infinite where
    nothing is known, and where an interval reaches beyond a declared bound."""
    known, n = shown_bins(nodes, columns.measure), len(nodes.level)
    at_part = columns.at

    def ends(confidence: float) -> tuple[Numbers, Numbers]:
        if at_part is None:
            number, lower, upper = known.number(n, confidence)
            missing = np.isnan(number)
            both = np.where(missing, 0, lower), np.where(missing, np.inf, upper)
        else:
            found = known.node.quantile(at_part, confidence, known.grain)
            lower = np.where(found.below, -np.inf, found.lower)
            upper = np.where(found.above, np.inf, np.minimum(found.upper, known.highest))
            both = known.spread(lower, n, -np.inf), known.spread(upper, n, np.inf)
        first, last = ([None if r < 0 else float(end[r]) for r in at] for end in both)
        return first, last

    return ends


def _smallest_shown(nodes: ShownNodes) -> SmallestShown | None:
    if not nodes.is_flat or not len(nodes.frame) or nodes.receipt["mechanism"] not in SUMMED:
        return None
    facts = nodes.receipt["noise"]["release"]
    law = table_of(number_law(facts))
    if law is None:
        return None
    least = int(nodes.frame["count"].min()) * int(facts["grid"]) + int(facts["grid"]) // 2
    return SmallestShown(least=least, noise=law)


def _drawn_numbers(
    nodes: ShownNodes, known: KnownNoise, at: Sequence[int], places: Sequence[Place]
) -> DrawnNumbers:
    """The drawn numbers of nodes. A node that is not reported has the sum of the topmost reported
    nodes below it where counts are sums, else 0."""
    below = topmost_below(nodes) if nodes.receipt["mechanism"] in SUMMED else {}
    rows = [
        [row] if row >= 0 else below.get(node, []) for row, node in zip(at, places, strict=True)
    ]
    noise, variance = None, [0.0] * len(rows)
    if known.variance is None:
        laws = [known.laws[int(known.law[own[0]]) if own else 0] for own in rows]
        draws = [sum(int(known.terms[i]) for i in own) for own in rows]
        noise = [Noise(law, terms) for law, terms in zip(laws, draws, strict=True)]
    else:
        variance = [float(sum(known.variance[i] for i in own)) for own in rows]
    return DrawnNumbers(
        low=[sum(int(known.low[i]) for i in own) for own in rows],
        high=[sum(int(known.high[i]) for i in own) for own in rows],
        noise=noise,
        variance=variance,
        scale=known.scale,
        decimals=known.decimals,
        adjusted=known.adjusted is not None,
    )


def _mean_ends(
    means: MeanNoise | KnownNoise, at: Sequence[int], confidence: float
) -> tuple[Numbers, Numbers]:
    ends = means.ends(confidence)
    lower, upper = ([None if r < 0 else float(end[r]) for r in at] for end in ends)
    return lower, upper


def _worth_of_unit(
    nodes: ShownNodes, columns: MeasureColumns, hidden: HiddenBound
) -> tuple[Fraction, Fraction] | None:
    """The least and the most that a unit of the selection adds to a number; None if not known."""
    own = 1 / Fraction(hidden.grid)
    if not nodes.is_rollup:
        return Fraction(0), own
    receipt, by_user = nodes.receipt, nodes.receipt.get("user") is not None
    facts, kind = receipt["measures"][columns.measure], columns.kind
    if hidden.grid != (SHARE_GRID if by_user else 1):
        return None
    if kind == "count" and "at_most" not in str(facts["spec"]):
        return Fraction(0), own
    if by_user:  # a small share can hold all of a user's values
        return None
    if kind in ("count", "distinct", "histogram"):
        return Fraction(0), own
    if kind != "sum" or not all(isinstance(facts[end], int | float) for end in ("lower", "upper")):
        return None
    steps = Steps(float(facts["lower"]), float(facts["upper"]))
    low, high = (Fraction(end) / Fraction(10) ** steps.decimals for end in (steps.low, steps.high))
    return min(low, Fraction(0)) * own, max(high, Fraction(0)) * own


def shared_noise(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> float:
    """The correlation of the noise of a measure in two releases: 0 unless both are periods of one
    series with running totals."""
    told = [receipt.get("running") or {} for receipt in (one, other)]
    if not told[0] or told[0].get("noise") != told[1].get("noise"):
        return 0.0
    numbers = [int(each["number"]) for each in told]
    later = (one, other)[numbers[1] > numbers[0]]
    known = later["measures"][name]["noise"][0]["correlations"]
    return float(known[min(numbers) - 1])


def joint_variances(sides: Sequence[Side], correlation: float) -> list[Side]:
    """The sides with variances of noise that have the sum that noise with this correlation has in
    a difference."""
    first, second = (side.drawn for side in sides)
    if not correlation or first is None or second is None:
        return list(sides)
    pairs = list(zip(first.variance, second.variance, strict=True))
    parts = [1 - 2 * correlation * math.sqrt(a * b) / (a + b) if a + b else 1.0 for a, b in pairs]
    return [
        replace(side, drawn=replace(drawn, variance=[
            part * own for part, own in zip(parts, drawn.variance, strict=True)
        ]))
        for side, drawn in zip(sides, (first, second), strict=True)
    ]  # fmt: skip


def check_together(before: Side, after: Side, simultaneous: bool) -> None:
    """Raise ParameterError if intervals should all hold together (``simultaneous``) and do not,
    whatever their confidence."""
    for side in (before, after):
        if simultaneous and side.selected:
            raise ParameterError(f"simultaneous=True does not hold: {side.selected}.")
