"""The noise in every number of a measure, from a rollup and its receipt, for new intervals.

The receipt tells the scales of the noise on parts and on levels, and the frame tells the tree. From
these follow the variances of the estimates by least squares, to the last bit, in whichever order
rows are. Shown numbers are the drawn numbers but for counts of users, which are shown in whole
users: drawn counts are known up to a range then, and an interval covers the whole range. The
intervals that the frame shows must be those of the noise that the receipt tells; if not, nothing is
said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.half_widths import half_width
from dpframe.postprocess.known_noise import (
    FINEST,
    NEW_RELEASE,
    check_whole,
    each_confidence,
    number_law,
)
from dpframe.postprocess.largest_share import largest_shares
from dpframe.postprocess.shown_nodes import MeasureColumns, ShownNodes
from dpframe.postprocess.tree_squares import checked_forest, variances
from dpframe.postprocess.weighted_laplace import whole_half_width

Objects = NDArray[np.object_]

PARTS = "parts"
"""Key of the scale of what each node has of its own, beside the scales of levels."""

PRECISE = 2**52
"""A number of steps below this is told exactly by the float64 that shows it."""

EXACT_TENS = 22
"""Ten to any power up to this one is exactly a float64."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnNoise:
    """The noise in the numbers of one column, in units.

    ``unit`` is what one record, user or different value is divided into; ``decimals`` is not None
    for sums, shown as multiples of 10 ** -decimals. The noise is one ``law``, or has a ``variance``
    a row, in which one draw has the ``largest`` share. ``low`` and ``high``: whole numbers, shape
    (n,); the drawn number is between them.
    """

    columns: MeasureColumns
    unit: int
    decimals: int | None
    law: NoiseTable | UnboundedNoise | None
    variance: NDArray[np.float64]
    largest: NDArray[np.float64]
    low: Objects
    high: Objects

    def half(self, confidence: float, *, strict: bool = False) -> Objects:
        """Half widths in units; ``strict`` as in :class:`.known_noise.KnownNoise`."""
        if self.law is None:
            return whole_half_width(self.variance, confidence, self.largest).astype(object)
        table = self.law.ends is not None
        sure = min(1.0, confidence + FINEST * (strict and table))
        return np.full(len(self.low), half_width(self.law, 1, sure), dtype=object)

    def ends(self, confidence: float, *, strict: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
        """Intervals for the true numbers, as the frame shows them."""
        half = self.half(confidence, strict=strict)
        return self._shown(self.low - half, self.high + half)

    def _shown(self, lower: Objects, upper: Objects) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.decimals is None:
            return (lower // self.unit).astype(np.int64), (-(-upper // self.unit)).astype(np.int64)
        return steps_to_floats(lower, self.decimals), steps_to_floats(upper, self.decimals)

    def within(
        self, shown: tuple[NDArray[Any], NDArray[Any]], confidence: float, *, strict: bool
    ) -> ColumnNoise:
        """This noise with the range that both ends of shown intervals leave; ParameterError where
        these are not intervals of this noise."""
        half = self.half(confidence, strict=strict)
        least, most = self._shown(self.low - half, self.low + half)
        later, last = self._shown(self.high - half, self.high + half)
        (lower, upper), low, high = shown, self.low, self.high
        if self.decimals is None:  # ends were rounded outwards, from a range that may be narrower
            low = np.maximum(low, lower.astype(object) * self.unit + half)
            high = np.minimum(high, upper.astype(object) * self.unit - half)
        fits = (least <= lower) & (lower <= later) & (most <= upper) & (upper <= last)
        if not (fits & (low <= high)).all():
            raise ParameterError(
                f"the intervals of {self.columns.value!r} are not those of the noise in its "
                f"receipt: {NEW_RELEASE}."
            )
        return replace(self, low=low, high=high)


def rollup_noise(nodes: ShownNodes, name: str) -> tuple[ColumnNoise, ...]:
    """The noise in the columns of one measure of a whole rollup that is no mean; ParameterError
    where frame and receipt do not say enough."""
    facts, columns = nodes.receipt["measures"][name], nodes.measures[name]
    if "noise" not in facts:
        raise ParameterError(
            f"the receipt lacks the noise of measure {name!r}, as those of older versions do: "
            f"{NEW_RELEASE}."
        )
    check_whole(nodes)
    _check_distinct_rows(nodes)
    several = (columns, replace(columns, **_clipped_columns(name)))
    return tuple(
        _column_noise(nodes, said, each)
        for said, each in zip(facts["noise"], several, strict=False)
    )


def largest_shares_of_rollup(nodes: ShownNodes, scales: Mapping[str, float]) -> NDArray[np.float64]:
    """The largest share that one draw of noise of these scales has, row by row of a whole rollup;
    ParameterError where frame and receipt do not say enough."""
    check_whole(nodes)
    _check_distinct_rows(nodes)
    return _estimate_variances(nodes, scales)[1]


def _check_distinct_rows(nodes: ShownNodes) -> None:
    if nodes.alike.any():
        raise ParameterError(
            "two rows of this release read alike, so that the noise in them is not known: "
            f"{NEW_RELEASE}."
        )


def _clipped_columns(name: str) -> dict[str, str]:
    """The columns that say how many values of a sum were clipped."""
    ends = {"value": "", "lower": "_lower", "upper": "_upper"}
    return {field: f"{name}_clipped{end}" for field, end in ends.items()}


def _column_noise(
    nodes: ShownNodes, said: Mapping[str, Any], columns: MeasureColumns
) -> ColumnNoise:
    receipt, unit, decimals = nodes.receipt, int(said["unit"]), said["decimals"]
    law = number_law(said["law"]) if "law" in said else None
    variance, largest = _estimate_variances(nodes, said["scales"]) if law is None else (None, None)
    low, high = _drawn_range(nodes.frame[columns.value].to_numpy(), unit, decimals)
    noise = ColumnNoise(
        columns=columns,
        unit=unit,
        decimals=decimals,
        law=law,
        variance=np.zeros(len(low)) if variance is None else variance,
        largest=np.ones(len(low)) if largest is None else largest,
        low=low,
        high=high,
    )
    shown = nodes.frame[columns.lower].to_numpy(), nodes.frame[columns.upper].to_numpy()
    together = receipt.get("simultaneous") is not None
    return noise.within(shown, each_confidence(receipt), strict=together)


def _estimate_variances(
    nodes: ShownNodes, scales: Mapping[str, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The variances of the estimates, in units squared, and the largest share of one draw in
    each."""
    spread = {at: 2 * float(scale) ** 2 for at, scale in scales.items()}
    total = np.full(len(nodes.level), np.inf)
    for at, own in spread.items():
        if at != PARTS:
            total[nodes.level == int(at)] = own
    order = np.argsort(nodes.level, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    above = nodes.ancestor[order]
    above = np.where(above >= 0, place[above], -1)
    own_parts, forest = np.full(len(order), spread[PARTS]), checked_forest(above)
    _, found = variances(forest, own_parts, total[order])
    largest = largest_shares(forest, own_parts, total[order])
    return found[place], largest[place]


def _drawn_range(value: NDArray[Any], unit: int, decimals: int | None) -> tuple[Objects, Objects]:
    """The range of drawn numbers, as far as the shown numbers, which are rounded halves up, tell
    it."""
    if decimals is None:
        count = value.astype(np.int64).astype(object) * unit
        return count - unit // 2, count + (unit - 1) // 2
    steps = [round(Fraction(x) * Fraction(10) ** decimals) for x in value.tolist()]
    doubt = [0 if abs(s) < PRECISE else abs(s) // PRECISE + 1 for s in steps]
    whole, left = np.array(steps, dtype=object), np.array(doubt, dtype=object)
    return whole - left, whole + left


def steps_to_floats(steps: Objects, decimals: int) -> NDArray[np.float64]:
    """Steps in units of the value, each rounded once."""
    ten = 10 ** abs(decimals)
    if 0 <= decimals <= EXACT_TENS:
        out = steps.astype(np.float64)
        rounded = np.abs(out) >= PRECISE  # others are exact, and so their quotient is rounded once
        out /= ten
        out[rounded] = [s / ten for s in steps[rounded]]
        return out
    return np.array([s / ten if decimals >= 0 else float(s * ten) for s in steps], dtype=float)
