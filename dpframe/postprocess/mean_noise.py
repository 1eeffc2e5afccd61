"""The noise in the means of a rollup, as far as the rollup shows it, for new intervals.

A rollup shows neither the two numbers that a mean is a quotient of nor the noise in them. An
interval depends on them only through t, the standard deviation of the noisy number of values over
that number, and through the largest share of one noise (:mod:`.mean_intervals`). One end that is
not a bound tells t. The shares follow from the tree and from the scales that the receipt tells.
Receipts of older versions do not say that their intervals are made with shares: one factor then
serves all values. Where nothing tells t, an interval that holds is kept: the shown ends for a
smaller confidence, the bounds for a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.known_noise import NEW_RELEASE, check_whole, each_confidence
from dpframe.postprocess.mean_intervals import mean_ends, spread_from_end
from dpframe.postprocess.rollup_noise import largest_shares_of_rollup
from dpframe.postprocess.shown_nodes import MeasureColumns, ShownNodes
from dpframe.postprocess.weighted_laplace import deviation_factor
from dpframe.steps import Steps

Reals = NDArray[np.float64]

ROUNDING = 2.0**-50
"""How far a shown end can be off, in parts of the larger bound: float64 rounds several times."""

BY_VALUE = {"intervals": "by the value of a mean"}
"""What the receipt says beside the noise of a mean whose intervals are made by
:mod:`.mean_intervals` with the shares of its noises."""

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
