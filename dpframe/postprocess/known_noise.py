"""What a released frame and its receipt say of the noise in every number, for new intervals.

Counts are shown in whole records, and their intervals are rounded outwards. Where counts were made
to add up, the drawn counts are not shown at all. So a drawn count is known up to a range, and an
interval at another confidence covers the whole range: it holds wherever the interval around the
drawn count does. Where noise is in whole records and nothing was adjusted, this is the interval
that the same release would have had. Intervals that are recomputed at the confidence of the release
must be the shown ones; if not, ParameterError is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.counts import Wholes
from dpframe.errors import ParameterError
from dpframe.measures.bins import Steps
from dpframe.noise import NoiseTable, UnboundedNoise, law_of_facts
from dpframe.postprocess.consistency import Forest
from dpframe.postprocess.joint_noise import half_width, law_by_spread
from dpframe.postprocess.shown_nodes import MeasureColumns, ShownNodes
from dpframe.postprocess.tree_squares import largest_shares, variances
from dpframe.postprocess.weighted_laplace import (
    deviation_factor,
    mean_ends,
    spread_from_end,
    whole_half_width,
)

Whole = NDArray[np.int64]
Objects = NDArray[np.object_]

SUMMED, NOMINAL = ("offline", "offline-gaussian", "paper"), ("laplace", "gaussian")
"""Mechanisms of heavy hitters whose counts are sums of independent draws, and mechanisms with one
draw in each count, where counts were selected upon."""

COUNTED = ("rounds",)
"""Mechanisms that release every count with a draw of its own, after the selection."""

FINEST = 1e-12
"""By how much :func:`.joint_noise.half_width` may fall short of a confidence, for tables."""

FAR = np.iinfo(np.int64).max // 4
"""End of the range of a drawn number, in units, of which nothing is known."""

PRECISE = 2**52
"""A number of steps below this is told exactly by the float64 that shows it."""

EXACT_TENS = 22
"""Ten to any power up to this one is exactly a float64."""

NEW_RELEASE = "pass the wanted confidence= when you release"


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownNoise:
    """The noise in the numbers of one column of a whole release, in units.

    ``unit`` is the number of units of one record, user or different value, for all rows or for
    each. ``decimals`` is not None
    for sums of a rollup, shown as multiples of 10 ** -decimals; ``step`` is not None for sums of
    heavy hitters, shown as multiples of ``step``. ``low`` and ``high``, whole numbers of shape
    (n,), are the ends of the range of each drawn number. Its noise is the sum of ``terms`` draws of
    ``laws[law]``; or, without laws, a sum of Laplace noises of this ``variance``, in which one draw
    has the ``largest`` share. ``adjusted`` has the shown counts where counts were made to add up,
    and so differ from the drawn ones; intervals hold them as well.
    """

    columns: MeasureColumns
    unit: int | Whole
    low: NDArray[Any]
    high: NDArray[Any]
    laws: tuple[NoiseTable | UnboundedNoise, ...]
    law: Whole
    terms: Whole
    decimals: int | None = None
    step: float | NDArray[np.float64] | None = None
    variance: NDArray[np.float64] | None = None
    largest: NDArray[np.float64] | None = None
    adjusted: Whole | None = None

    @property
    def scale(self) -> Fraction:
        """How many units are 1 in the column; ParameterError where that differs between rows."""
        if isinstance(self.step, np.ndarray) or not isinstance(self.unit, int):
            raise ParameterError("noise has other units above other rows, which changes lack.")
        if self.step is not None:
            return 1 / Fraction(self.step)
        return Fraction(self.unit) if self.decimals is None else Fraction(10) ** self.decimals

    def half(
        self, confidence: float, terms: Whole | None = None, *, strict: bool = False
    ) -> NDArray[Any]:
        """Half widths of intervals for sums of ``terms`` draws, by default those of each number, in
        units; 0 without draws.

        ``strict`` is for confidences so near to 1 that rounding of float64 counts.
        """
        if self.variance is not None:
            return whole_half_width(self.variance, confidence, self.largest).astype(object)
        draws = np.stack([self.law, self.terms if terms is None else terms])
        pairs, where = np.unique(draws, axis=1, return_inverse=True)
        halves = []
        for number, k in pairs.T.tolist():
            law = self.laws[number]
            more = FINEST if strict and law.ends is not None else 0.0
            halves.append(half_width(law, k, min(1.0, confidence + more)) if k else 0)
        return np.array(halves, dtype=self.low.dtype)[where.reshape(-1)]

    def ends(self, confidence: float, *, strict: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
        """Lower and upper ends of intervals for the true numbers, as the frame shows ends."""
        half = self.half(confidence, strict=strict)
        lower, upper = self.frame_ends(self.low - half, self.high + half)
        if self.adjusted is None:
            return lower, upper
        lower = np.minimum(np.maximum(lower, 0), self.adjusted)
        return lower, np.maximum(upper, self.adjusted)

    def frame_ends(
        self, lower: NDArray[Any], upper: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Convert ends from units to what the frame shows."""
        if self.step is not None:
            return lower * self.step, upper * self.step
        if self.decimals is not None:
            return steps_to_floats(lower, self.decimals), steps_to_floats(upper, self.decimals)
        return (lower // self.unit).astype(np.int64), (-(-upper // self.unit)).astype(np.int64)

    def within_intervals(self, nodes: ShownNodes) -> KnownNoise:
        """This noise, with ranges of drawn numbers narrowed to what the shown intervals allow;
        ParameterError if these are not intervals of this noise."""
        receipt, low, high = nodes.receipt, self.low, self.high
        half = self.half(each_confidence(receipt), strict=receipt.get("simultaneous") is not None)
        lower, upper = (
            nodes.frame[end].to_numpy() for end in (self.columns.lower, self.columns.upper)
        )
        if self.step is not None or self.decimals is not None:
            first, last = (self.frame_ends(drawn - half, drawn + half) for drawn in (low, high))
            fits = (first[0] <= lower) & (lower <= last[0])
            fits &= (first[1] <= upper) & (upper <= last[1])
        else:  # ends were rounded outwards, and may be of a range if they were computed anew
            unit, lower, upper = self.unit, lower.astype(low.dtype), upper.astype(low.dtype)
            fits = (lower >= (low - half) // unit) & (upper <= -(-(high + half) // unit))
            if self.adjusted is None:
                least, most = lower * unit + half, upper * unit - half
            else:
                least, most = self._range_of_adjusted(receipt, lower, upper, half)
            low, high = np.maximum(low, least), np.minimum(high, most)
        if not (fits & (low <= high)).all():
            raise ParameterError(
                f"the intervals of {self.columns.value!r} are not those of the noise in the "
                f"receipt: {NEW_RELEASE}."
            )
        return replace(self, low=low, high=high)

    def _range_of_adjusted(
        self, receipt: Mapping[str, Any], lower: Whole, upper: Whole, half: Whole
    ) -> tuple[Whole, Whole]:
        """The range of drawn counts from shown ends that were adjusted: lower ends raised to 0 and
        lowered to the shown count, upper ends raised to the shown count."""
        unit, shown = self.unit, self.adjusted
        assert shown is not None
        least, most = np.where(lower == 0, -FAR, lower * unit + half), upper * unit - half
        if "released_confidence" in receipt:  # computed anew, of a range whose width is not shown
            return least, most
        own, past = (lower + 1) * unit - 1 + half, (upper - 1) * unit + 1 - half
        own, past = np.where(lower == shown, FAR, own), np.where(upper == shown, -FAR, past)
        return np.maximum(least, past), np.minimum(most, own)


def steps_to_floats(steps: Wholes, decimals: int) -> NDArray[np.float64]:
    """Convert steps of 10 ** -decimals to floats in the unit of the values, each rounded once."""
    ten = 10 ** abs(decimals)
    if 0 <= decimals <= EXACT_TENS:
        out = steps.astype(np.float64)
        rounded = np.abs(out) >= PRECISE  # others are exact, and so their quotient is rounded once
        out /= ten
        out[rounded] = [s / ten for s in steps[rounded].tolist()]
        return out
    exact = steps.tolist()  # Python's integers
    return np.array([s / ten if decimals >= 0 else float(s * ten) for s in exact], dtype=float)


def drawn_range(value: NDArray[Any], unit: int | Whole) -> tuple[NDArray[Any], NDArray[Any]]:
    """The range of drawn numbers that are shown as these whole numbers, rounded halves up."""
    return value * unit - unit // 2, value * unit + (unit - 1) // 2


def is_exact(facts: Mapping[str, Any]) -> bool:
    """Whether facts on a law hold exactly what made the law; earlier versions wrote fewer."""
    return "halves" in facts or "scale" in facts


def number_law(facts: Mapping[str, Any], worth: float = 1) -> NoiseTable | UnboundedNoise:
    """Return the law of noise in released numbers, which is symmetric, in units of its grid.

    ``grid`` units are ``worth`` in the released numbers.

    Raises ParameterError if the facts disagree, if the law is not symmetric, or if the facts are of
    an earlier version and do not tell the law.
    """
    law = law_of_facts(facts, worth) if is_exact(facts) else law_by_spread(facts)
    if law.ends is not None and sum(law.ends) != 0:
        raise ParameterError(
            f"the noise in the receipt ({law.family}) is not symmetric. Pass the frame as dpframe "
            "returned it."
        )
    return law


def each_confidence(receipt: Mapping[str, Any]) -> float:
    """The confidence of every shown interval on its own."""
    together = receipt.get("simultaneous")
    return float(receipt["confidence"] if together is None else together["each"])


def check_whole(nodes: ShownNodes) -> None:
    """Raise ParameterError if rows of the release are missing."""
    if not nodes.whole:
        raise ParameterError(
            "intervals of other confidence need all rows of the release: ask the frame that "
            "dpframe returned, and then choose rows."
        )


def known_noise(nodes: ShownNodes) -> KnownNoise:
    """The noise in the counts of a release, or in its sums of a weight; ParameterError where frame
    and receipt do not say enough."""
    check_whole(nodes)
    receipt, zeros = nodes.receipt, np.zeros_like(nodes.level)
    mechanism, facts = receipt["mechanism"], receipt["noise"]
    if mechanism in SUMMED and nodes.alike.any():
        raise ParameterError(
            "two rows of this release read alike, so that nobody can say which rows are below "
            f"them, and what noise their counts hold: {NEW_RELEASE}."
        )
    if mechanism in (*SUMMED, *NOMINAL, *COUNTED):
        if receipt.get("weight") is not None:
            return _noise_of_measure(nodes, facts["release"])
        if "above" in facts:
            return _noise_of_parts(nodes, facts)
        return _noise_of_counts(nodes, (facts["release"],), zeros, _terms_of_counts(nodes), False)
    if str(mechanism).startswith("tree-") and receipt["keys"] and "levels" in facts:
        consistent = bool(receipt["consistent"])
        return _noise_of_counts(nodes, tuple(facts["levels"]), nodes.level, zeros + 1, consistent)
    raise ParameterError(
        f"the receipt of a release by mechanism {mechanism!r} does not tell the law of every "
        f"number, so that its intervals are for confidence {receipt['confidence']:g} alone: "
        f"{NEW_RELEASE}."
    )


def _terms_of_counts(nodes: ShownNodes) -> Whole:
    """Number of draws in each count: one for every row at and below its node where counts are sums
    of residuals, else 1."""
    out = np.ones_like(nodes.level)
    if nodes.receipt["mechanism"] not in SUMMED:
        return out
    for depth in range(int(nodes.level.max(initial=0)), 0, -1):
        here = np.flatnonzero((nodes.level == depth) & (nodes.ancestor >= 0))
        np.add.at(out, nodes.ancestor[here], out[here])
    return out


def _noise_of_parts(nodes: ShownNodes, facts: Mapping[str, Mapping[str, Any]]) -> KnownNoise:
    """The noise in counts of rounds of several levels: one law, in other units above other rows.

    A threshold can hide all rows below a row, which keeps its units. Such a row is known by the
    width of its interval; where both units fit, the smaller one, with the wider interval, is taken.
    """
    if nodes.alike.any():
        raise ParameterError(
            "two rows of this release read alike, so that nobody can say which rows are below "
            f"them, and in which units their counts were drawn: {NEW_RELEASE}."
        )
    zeros, above = np.zeros_like(nodes.level), nodes.level == 0
    above[nodes.ancestor[nodes.ancestor >= 0]] = True
    lowest, upper = int(facts["release"]["grid"]), int(facts["above"]["grid"])
    half = half_width(number_law(facts["release"]), 1, each_confidence(nodes.receipt))
    wide = (nodes.frame["upper"] - nodes.frame["lower"]).to_numpy(dtype=np.int64)
    fits = {grid: np.abs(wide - 2 * half / grid) <= ENDS_ROUNDED for grid in (lowest, upper)}
    above |= fits[upper] & ~(fits[lowest] & (lowest < upper))
    unit = np.where(above, upper, lowest)
    return _noise_of_counts(nodes, (facts["release"],), zeros, zeros + 1, False, unit)


ENDS_ROUNDED = 2
"""By how much rounding to whole users widens an interval, at most."""


def _noise_of_counts(
    nodes: ShownNodes,
    facts: tuple[Mapping[str, Any], ...],
    law: Whole,
    terms: Whole,
    consistent: bool,
    unit: Whole | None = None,
) -> KnownNoise:
    """The noise in counts, with ranges of drawn counts from the shown counts and from both ends."""
    count = nodes.frame["count"].to_numpy(dtype=np.int64)
    grid: Any = int(facts[0]["grid"]) if unit is None else unit
    unknown = np.full_like(count, FAR)
    low, high = (-unknown, unknown) if consistent else drawn_range(count, grid)
    return KnownNoise(
        columns=nodes.measures["count"],
        unit=grid,
        low=low,
        high=high,
        laws=tuple(map(number_law, facts)),
        law=law,
        terms=terms,
        adjusted=count if consistent else None,
    ).within_intervals(nodes)


def _noise_of_measure(nodes: ShownNodes, facts: Mapping[str, Any]) -> KnownNoise:
    """The noise in sums of a measure; drawn sums are shown as exact multiples of a unit."""
    if not is_exact(facts):
        raise ParameterError(
            "the receipt is of an earlier version, and does not tell the units of the noise in a "
            f"measure. {NEW_RELEASE.capitalize()}."
        )
    worth = float(nodes.receipt["max_weight"])
    step = worth / int(facts["grid"])
    units = np.rint(nodes.numbers("count") / step).astype(np.int64)
    return KnownNoise(
        columns=nodes.measures["count"],
        unit=1,
        step=step,
        low=units,
        high=units,
        laws=(number_law(facts, worth),),
        law=np.zeros_like(nodes.level),
        terms=_terms_of_counts(nodes),
    ).within_intervals(nodes)


# -------------------------------------------------------------------------------------------------
# The noise in every number of a measure, from a rollup and its receipt, for new intervals.
#
# The receipt tells the scales of the noise on parts and on levels, and the frame tells the tree.
# From these follow the variances of the estimates by least squares, to the last bit, in whichever
# order rows are. Shown numbers are the drawn numbers but for counts of users, which are shown in
# whole users: drawn counts are known up to a range then, and an interval covers the whole range.
# The intervals that the frame shows must be those of the noise that the receipt tells; if not,
# ParameterError is raised.


PARTS = "parts"
"""Key of the scale of the noise on parts, beside the scales of levels."""


def rollup_noise(nodes: ShownNodes, name: str) -> tuple[KnownNoise, ...]:
    """The noise in the columns of one measure, which is no mean, in a whole rollup: of its value
    and, if they are counted, of its clipped values. ParameterError where frame and receipt do not
    say enough."""
    facts, columns = nodes.receipt["measures"][name], nodes.measures[name]
    if "noise" not in facts:
        raise ParameterError(
            f"the receipt lacks the noise of measure {name!r}, as those of older versions do: "
            f"{NEW_RELEASE}."
        )
    _check_rows(nodes)
    if facts.get("adds_up") is False:
        return (_noise_along(nodes, facts["noise"], columns),)
    clipped = replace(
        columns,
        value=f"{name}_clipped",
        lower=f"{name}_clipped_lower",
        upper=f"{name}_clipped_upper",
    )
    return tuple(
        _column_noise(nodes, said, each)
        for said, each in zip(facts["noise"], (columns, clipped), strict=False)
    )


def _noise_along(
    nodes: ShownNodes, parts: Sequence[Mapping[str, Any]], columns: MeasureColumns
) -> KnownNoise:
    """The noise in a measure that was taken along with rounds: one draw for each row, in units of
    the part of the shown nodes that it is in. The first part has rows without rows below."""
    number, above = np.zeros_like(nodes.level), nodes.level == 0
    above[nodes.ancestor[nodes.ancestor >= 0]] = True
    for at, part in enumerate(parts):
        if part["levels"] is not None:
            number[above & np.isin(nodes.level, part["levels"])] = at
    value, step, unit = nodes.frame[columns.value].to_numpy(), None, 1
    own: Any = np.array([int(part["law"]["grid"]) for part in parts])[number]
    if parts[0]["of"] == "sum":
        step = np.array([part["bound"] / part["norm"] for part in parts])[number]
        low = high = np.rint(value / step).astype(np.int64)
    else:
        unit = own
        low, high = drawn_range(value.astype(np.int64), own)
    return KnownNoise(
        columns=columns,
        unit=unit,
        step=step,
        low=low,
        high=high,
        laws=(number_law(parts[0]["law"]),),
        law=np.zeros_like(nodes.level),
        terms=np.ones_like(nodes.level),
    ).within_intervals(nodes)


def largest_shares_of_rollup(nodes: ShownNodes, scales: Mapping[str, float]) -> NDArray[np.float64]:
    """The largest share that one draw of noise has in the variance of an estimate, for each row of
    a whole rollup and noise of these scales; ParameterError where the frame does not say enough."""
    _check_rows(nodes)
    return _estimate_variances(nodes, scales)[1]


def _check_rows(nodes: ShownNodes) -> None:
    check_whole(nodes)
    if nodes.alike.any():
        raise ParameterError(
            "some rows of this release read alike, so that the noise in them is not known: "
            f"{NEW_RELEASE}."
        )


def _column_noise(
    nodes: ShownNodes, facts: Mapping[str, Any], columns: MeasureColumns
) -> KnownNoise:
    unit, decimals = int(facts["unit"]), facts["decimals"]
    low, high = _drawn_range(nodes.frame[columns.value].to_numpy(), unit, decimals)
    variance, largest = None, None
    if "law" not in facts:
        variance, largest = _estimate_variances(nodes, facts["scales"])
        largest = largest * facts.get("share", 1.0)  # of periods that share noise
    noise = KnownNoise(
        columns=columns,
        unit=unit,
        decimals=decimals,
        low=low,
        high=high,
        laws=(number_law(facts["law"]),) if "law" in facts else (),
        law=np.zeros_like(nodes.level),
        terms=np.ones_like(nodes.level),
        variance=variance,
        largest=largest,
    )
    return noise.within_intervals(nodes)


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
    parts, forest = np.full(len(total), spread[PARTS]), Forest.of(nodes.ancestor)
    return variances(forest, parts, total)[1], largest_shares(forest, parts, total)


def _drawn_range(value: NDArray[Any], unit: int, decimals: int | None) -> tuple[Objects, Objects]:
    """The range of drawn numbers that the shown numbers leave, in units."""
    if decimals is None:
        return drawn_range(value.astype(np.int64).astype(object), unit)
    steps = [round(Fraction(x) * Fraction(10) ** decimals) for x in value.tolist()]
    doubt = [0 if abs(s) < PRECISE else abs(s) // PRECISE + 1 for s in steps]
    whole, left = np.array(steps, dtype=object), np.array(doubt, dtype=object)
    return whole - left, whole + left


# -- The noise in the means of a rollup, as far as the rollup shows it, for new intervals ---------
#
# A rollup shows neither the two numbers that a mean is a quotient of nor the noise in them. An
# interval depends on them only through t, the standard deviation of the noisy number of values
# over that number, and through the largest share of one noise (:mod:`.weighted_laplace`). One end
# that is not a bound tells t. The shares follow from the tree and from the scales that the
# receipt tells. Receipts of older versions do not say that their intervals are made with shares:
# one factor then serves all values. Where nothing tells t, an interval that holds is kept: the
# shown ends for a smaller confidence, the bounds for a larger one.


Reals = NDArray[np.float64]

ROUNDING = 2.0**-50
"""How far a shown end can be off, in parts of the larger bound: float64 rounds several times."""

BY_VALUE = {"intervals": "by the value of a mean"}
"""What the receipt says beside the noise of a mean whose intervals are made by
:mod:`.weighted_laplace` with the shares of its noises."""

AGREEMENT = 1e-6
"""Relative difference up to which the values of t that both ends tell are one number."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanNoise:
    """The noise in the means of one measure.

    ``value``, ``lower`` and ``upper``: float64, shape (n,), as shown; NaN for missing values.
    ``told`` is t of the module's docstring, NaN where no end tells it; ``largest`` is the largest
    share of one noise, None where shares are not known; ``confidence`` is the confidence of each
    shown interval.
    """

    columns: MeasureColumns
    steps: Steps
    confidence: float
    value: Reals
    lower: Reals
    upper: Reals
    told: Reals
    largest: Reals | None

    def ends(self, confidence: float, *, strict: bool = False) -> tuple[Reals, Reals]:
        """Intervals for the true means; ``strict`` makes no difference to a law without ends."""
        if confidence == self.confidence:
            return self.lower, self.upper
        low, high, middle, half, doubt = _scale_of_values(self.steps)
        known = ~np.isnan(self.told)
        lower, upper = mean_ends(
            np.where(known, self.value - middle, 0.0),
            self.told,
            self.largest,
            confidence,
            half=half,
            within=(low - middle, high - middle),
        )
        ratio = deviation_factor(confidence) / deviation_factor(self.confidence)
        doubt *= 2 * max(1.0, ratio)
        lower = np.minimum(np.maximum(middle + lower - doubt, low), self.value)
        upper = np.maximum(np.minimum(middle + upper + doubt, high), self.value)
        kept = confidence < self.confidence
        return (
            np.where(known, lower, self.lower if kept else low),
            np.where(known, upper, self.upper if kept else high),
        )


def mean_noise(nodes: ShownNodes, name: str) -> MeanNoise:
    """The noise in the means of one measure of a whole rollup. Raises ParameterError if the shown
    intervals are not the intervals that such noise gives."""
    check_whole(nodes)
    facts, columns = nodes.receipt["measures"][name], nodes.measures[name]
    steps = Steps(float(facts["lower"]), float(facts["upper"]))
    value, lower, upper = (
        nodes.numbers(column) for column in (columns.value, columns.lower, columns.upper)
    )
    low, high, middle, half, doubt = _scale_of_values(steps)
    inside = (value > low) & (value < high)
    own, confidence = value - middle, each_confidence(nodes.receipt)
    said, largest = (facts.get("noise") or [{}])[0], None
    if BY_VALUE.items() <= said.items():
        largest = largest_shares_of_rollup(nodes, said["scales"])
    fewest, most = np.full(len(own), np.nan), np.full(len(own), np.nan)
    for end in (lower, upper):
        known = inside & (end > low) & (end < high)
        least, last = spread_from_end(own, end - middle, largest, confidence, half=half)
        fewest = np.where(known, np.fmax(fewest, least), fewest)
        most = np.where(known, np.fmin(most, last), most)
    apart = fewest - most > AGREEMENT * fewest + 64 * doubt / half
    outside = (lower > value) | (value > upper) | (lower < low) | (upper > high)
    if (apart | outside | (np.abs(own) > half + doubt)).any():
        raise ParameterError(
            f"the intervals of {name!r} are not those of a mean with the bounds in its receipt: "
            f"{NEW_RELEASE}."
        )
    return MeanNoise(
        columns=columns,
        steps=steps,
        confidence=confidence,
        value=value,
        lower=lower,
        upper=upper,
        told=np.fmax(fewest, most),
        largest=largest,
    )


def _scale_of_values(steps: Steps) -> tuple[float, float, float, float, float]:
    """Both bounds and their middle, as the frame of a rollup has them; half the distance of the
    bounds after each is rounded to whole steps, as values are; how far a shown end can be off."""
    middle, half = (steps.lower + steps.upper) / 2, steps.width * steps.step / 2
    doubt = ROUNDING * max(abs(steps.lower), abs(steps.upper))
    return steps.lower, steps.upper, middle, half, doubt
