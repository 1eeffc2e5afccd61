"""Intervals for the changes of nodes, together or each on its own.

A row can be wrong in two ways. First, the noise of its counts can be beyond its width. This noise
is drawn after and independently of the selection, so the chance of this holds given which nodes are
reported. Second, a node that one release does not report can hold more there than its bound. For
nodes that the *other* release names, whose noise is independent, the chance of this holds given
everything else. The first way gets most of 1 - confidence, evenly over all rows (Bonferroni). The
second gets :data:`BOUNDS` of it, divided evenly between the releases whose bounds can fail, and
then over all nodes that the other release reports, whether or not this release reports them: the
number of nodes that a release does not report depends on its noise.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpframe.postprocess.change_ends import ChangeEnds, end_difference, shown_change_ends, shown_end
from dpframe.postprocess.change_sides import DrawnNumbers, Numbers, Side, check_together
from dpframe.postprocess.joint_noise import Noise, difference_half_width, quotient_ends
from dpframe.postprocess.ratios import ratio_interval
from dpframe.postprocess.weighted_laplace import deviation_factor, whole_half_width

BOUNDS = 0.1
"""Part of 1 - confidence for bounds of nodes that one release does not report. Tails of test noise
are exponential: half of this part, a twentieth, widens a bound by three scales of the test noise.
Intervals of counts get a percent wider."""

SINGLE = 0.05
"""Part of the chance of a row that goes to each of its counts on its own, where counts were made to
add up and the range of a drawn count can be without bounds."""

ROUNDED = 1.5
"""Units by which ends in quotients are moved outwards: 1, as whole numbers differ by less from the
estimates by least squares, and 1/2 by which whole noise is wider than continuous noise."""


@dataclass(frozen=True, kw_only=True)
class Chances:
    """The chance per row that each way of being wrong may have: ``noise``, and ``bound`` for the
    first and for the second release."""

    noise: float
    bound: tuple[float, float]


def divide_chances(before: Side, after: Side, alpha: float, *, simultaneous: bool) -> Chances:
    """Divide ``alpha``, which is 1 - confidence, between the ways of being wrong. Which nodes only
    one release reports matters through the number of rows alone, and given this number the noise of
    counts keeps its law."""
    bounded = [side.hidden.by_chance for side in (before, after)]
    part = alpha * BOUNDS if any(bounded) else 0.0
    rows, named = len(before.value), (after.reported, before.reported)
    each = tuple(
        part / sum(bounded) / (n if simultaneous else 1) if own else 0.0
        for own, n in zip(bounded, named, strict=True)
    )
    return Chances(
        noise=(alpha - part) / (max(1, rows) if simultaneous else 1), bound=(each[0], each[1])
    )


def joint_ends(before: Side, after: Side, *, confidence: float, simultaneous: bool) -> ChangeEnds:
    """Ends of intervals by the laws of all numbers; ParameterError if they should hold all together
    (``simultaneous``) and do not."""
    assert before.drawn is not None
    assert after.drawn is not None
    check_together(before, after, simultaneous)
    alpha = 1 - confidence
    shared = divide_chances(before, after, alpha, simultaneous=simultaneous)
    alone = divide_chances(before, after, alpha, simultaneous=False)
    scale = before.drawn.scale
    one, other = (
        _number_ranges(side, chance)
        for side, chance in zip((before, after), shared.bound, strict=True)
    )
    level = shared.noise
    adjusted = before.drawn.adjusted or after.drawn.adjusted
    joint = level * (1 - 2 * SINGLE) if adjusted else level
    halves = _difference_widths(before.drawn, after.drawn, 1 - joint)
    lower = [end_difference(a[0], b[1], -h) for b, a, h in zip(one, other, halves, strict=True)]
    upper = [end_difference(a[1], b[0], h) for b, a, h in zip(one, other, halves, strict=True)]
    if adjusted:
        own = [_single_ranges(s, r, level * SINGLE) for s, r in ((before, one), (after, other))]
        singles = list(zip(*own, strict=True))
        lower = [
            _larger_end(x, end_difference(a[0], b[1]))
            for x, (b, a) in zip(lower, singles, strict=True)
        ]
        upper = [
            _smaller_end(x, end_difference(a[1], b[0]))
            for x, (b, a) in zip(upper, singles, strict=True)
        ]
    ratio: tuple[list[float], list[float]] | None = None
    if before.nonnegative and after.nonnegative:
        ratio = _quotient_intervals(before.drawn, after.drawn, one, other, 1 - joint)
        if adjusted:
            ratio = _narrow_quotients(ratio, singles)
    shown = [
        _side_intervals(side, 1 - alone.noise, chance)
        for side, chance in zip((before, after), alone.bound, strict=True)
    ]
    return shown_change_ends(before, after, confidence, shown, (lower, upper), ratio, scale)


Range = tuple[int | None, int | None]
"""The least and the most of a drawn number plus what is hidden beside it, in units; None where
there is no bound."""


def _number_ranges(side: Side, chance: float) -> list[Range]:
    assert side.drawn is not None
    found: list[Range] = []
    for row, (low, high) in enumerate(zip(side.drawn.low, side.drawn.high, strict=True)):
        hides = side.hides(row, chance)
        if hides is None:
            found.append((low if side.nonnegative else None, None))
            continue
        least, most = (end * side.drawn.scale for end in hides)
        found.append((low + math.floor(least), high + math.ceil(most)))
    return found


def _larger_end(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller_end(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _difference_widths(one: DrawnNumbers, other: DrawnNumbers, confidence: float) -> list[int]:
    """Half widths of intervals for the difference of both noises, in units, one per row."""
    out = []
    for row in range(len(one.low)):
        first, second = _noise_of_row(one, row), _noise_of_row(other, row)
        if isinstance(first, Noise) and isinstance(second, Noise):
            out.append(difference_half_width(first, second, confidence))
            continue
        spread = _variance_of_noise(first) + _variance_of_noise(second)
        both = int(_variance_of_noise(first) > 0) + int(_variance_of_noise(second) > 0)
        half = int(whole_half_width(np.array([spread]), confidence)[0])
        out.append(half + max(0, both - 1))  # either estimate is rounded
    return out


def _noise_of_row(drawn: DrawnNumbers, row: int) -> Noise | float:
    """The noise of a row if its law is written as a table, else its variance."""
    if drawn.noise is None:
        assert drawn.variance is not None
        return float(drawn.variance[row])
    noise = drawn.noise[row]
    return noise if noise.tabled else noise.variance


def _variance_of_noise(noise: Noise | float) -> float:
    return noise.variance if isinstance(noise, Noise) else noise


def _single_ranges(side: Side, ranges: list[Range], chance: float) -> list[Range]:
    """Intervals of true numbers, in units, each on its own; numbers that cannot be negative have
    lower ends of at least 0."""
    assert side.drawn is not None
    nothing = DrawnNumbers(
        low=[0] * len(ranges),
        high=[0] * len(ranges),
        noise=None,
        variance=np.zeros(len(ranges)),
        scale=side.drawn.scale,
    )
    if side.drawn.noise is not None:
        still = [Noise(noise.law, 0) for noise in side.drawn.noise]
        nothing = DrawnNumbers(
            low=nothing.low, high=nothing.high, noise=still, variance=None, scale=nothing.scale
        )
    found: list[Range] = []
    halves = _difference_widths(side.drawn, nothing, 1 - chance)
    for (low, high), half in zip(ranges, halves, strict=True):
        least = None if low is None else low - half
        found.append(
            (
                max(0, least) if side.nonnegative and least is not None else least,
                None if high is None else high + half,
            )
        )
    return found


def _side_intervals(side: Side, confidence: float, chance: float) -> tuple[Numbers, Numbers]:
    """The intervals that a release shows; for nodes that it does not report, bounds, each on its
    own."""
    assert side.drawn is not None
    unknown = [row for row, shown in enumerate(side.shown) if not shown]
    bounds = _single_ranges(side, _number_ranges(side, chance), 1 - confidence) if unknown else []
    lower, upper = list(side.lower), list(side.upper)
    for row in unknown:
        lower[row] = shown_end(bounds[row][0], side.drawn.scale, side.whole, up=False)
        upper[row] = shown_end(bounds[row][1], side.drawn.scale, side.whole, up=True)
    return lower, upper


# -- quotients -----------------------------------------------------------------------------------


def _quotient_intervals(
    below: DrawnNumbers,
    above: DrawnNumbers,
    under: list[Range],
    over: list[Range],
    confidence: float,
) -> tuple[list[float], list[float]]:
    """Ends for after (``above``, ``over``) / before (``below``, ``under``); 0 and infinity where
    nothing is known."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for row in range(len(under)):
        pair = _noise_of_row(below, row), _noise_of_row(above, row)
        tabled = isinstance(pair[0], Noise) and isinstance(pair[1], Noise)
        groups[tuple(noise.key for noise in pair) if tabled else None].append(row)  # type: ignore[union-attr]
    low, high = np.zeros(len(under)), np.full(len(under), np.inf)
    for key, rows in groups.items():
        n = tuple(_range_ends(over, rows, end) for end in (0, 1))
        d = tuple(_range_ends(under, rows, end) for end in (0, 1))
        if key is not None:
            assert below.noise is not None
            assert above.noise is not None
            noises = above.noise[rows[0]], below.noise[rows[0]]
            found = quotient_ends((n[0], n[1]), noises[0], (d[0], d[1]), noises[1], confidence)
        else:
            spread = [
                np.array([_variance_of_noise(_noise_of_row(side, row)) for row in rows])
                for side in (above, below)
            ]
            how: Any = {"factor": deviation_factor(confidence), "within": (0.0, np.inf)}
            first = ratio_interval(n[0] - ROUNDED, spread[0], d[1] + ROUNDED, spread[1], **how)
            last = ratio_interval(n[1] + ROUNDED, spread[0], d[0] - ROUNDED, spread[1], **how)
            found = first[0], last[1]
        unknown = [np.array([side[row][1] is None for row in rows]) for side in (under, over)]
        low[rows] = np.where(unknown[0], 0.0, found[0])
        high[rows] = np.where(unknown[1], np.inf, found[1])
    return low.tolist(), high.tolist()


def _range_ends(ranges: list[Range], rows: list[int], end: int) -> Any:
    """One end of the ranges of ``rows``; 0 where there is no bound, which the caller checks."""
    values = [ranges[row][end] for row in rows]
    return np.array([0.0 if value is None else float(value) for value in values])


def _narrow_quotients(
    ratio: tuple[list[float], list[float]], singles: list[tuple[Range, Range]]
) -> tuple[list[float], list[float]]:
    """Narrow intervals of quotients to what the intervals of each number on its own allow."""
    low, high = list(ratio[0]), list(ratio[1])
    for row, (below, above) in enumerate(singles):
        if below[1] and above[0] is not None:
            low[row] = max(low[row], above[0] / below[1])
        if below[0] and above[1] is not None:
            high[row] = min(high[row], above[1] / below[0])
    return low, high
