"""What a rollup shows of the noise in its means: intervals anew.

Source: Fieller (1954), as in :mod:`.ratios`. A mean is q = N/D, as a distance from the middle of
its bounds, with noises of N and D whose standard deviations are h s and s, h half the distance of
the bounds. Its interval is all m with abs(N - m D) <= f s sqrt(h^2 + m^2), that is

    abs(q - m) <= t sqrt(h^2 + m^2),    t = f s / D.

Neither N nor D is shown, but t is all that the interval takes of them and of the scales of the
noise, and one end that is not a bound tells it; for another confidence t is in proportion to f.
Where nothing tells it, an interval that holds is kept: the shown ends for a smaller confidence, the
bounds for a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.known_noise import NEW_RELEASE, check_whole, each_confidence
from dpframe.postprocess.ratios import ratio_interval
from dpframe.postprocess.shown_nodes import MeasureColumns, ShownNodes
from dpframe.postprocess.weighted_laplace import deviation_factor
from dpframe.steps import Steps

Reals = NDArray[np.float64]

ROUNDING = 2.0**-50
"""By how much a shown end can be off, in parts of the larger bound: float64, several times."""

AGREEMENT = 1e-6
"""Relative, of what both ends tell."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanNoise:
    """The noise in the means of one measure.

    ``value``, ``lower`` and ``upper``: float64, shape (n,), as shown; values NaN where nothing is
    known. ``told`` is t of the module's docstring, NaN where no end tells it, and ``confidence``
    that of the shown intervals.
    """

    columns: MeasureColumns
    steps: Steps
    confidence: float
    value: Reals
    lower: Reals
    upper: Reals
    told: Reals

    def ends(self, confidence: float, *, strict: bool = False) -> tuple[Reals, Reals]:
        """Intervals for the true means; ``strict`` makes no difference to a law without ends."""
        if confidence == self.confidence:
            return self.lower, self.upper
        low, high, middle = _bounds(self.steps)
        ratio = deviation_factor(confidence) / deviation_factor(self.confidence)
        told, known = self.told * ratio, ~np.isnan(self.told)
        own = np.where(known, self.value - middle, 0.0)
        spread = np.where(known, told**2, 1.0)
        lower, upper = ratio_interval(
            own,
            spread * _half(self.steps) ** 2,
            np.ones_like(own),
            spread,
            factor=1.0,
            within=(low - middle, high - middle),
        )
        doubt = 2 * max(1.0, ratio) * _rounding(self.steps)
        lower = np.minimum(np.maximum(middle + lower - doubt, low), self.value)
        upper = np.maximum(np.minimum(middle + upper + doubt, high), self.value)
        kept = confidence < self.confidence
        return (
            np.where(known, lower, self.lower if kept else low),
            np.where(known, upper, self.upper if kept else high),
        )


def mean_noise(nodes: ShownNodes, name: str) -> MeanNoise:
    """The noise in the means of one measure of a whole rollup; ParameterError where its intervals
    are not those of a mean."""
    check_whole(nodes)
    facts, columns = nodes.receipt["measures"][name], nodes.measures[name]
    steps = Steps(float(facts["lower"]), float(facts["upper"]))
    value, lower, upper = (
        nodes.numbers(column) for column in (columns.value, columns.lower, columns.upper)
    )
    low, high, middle = _bounds(steps)
    inside = (value > low) & (value < high)
    own, doubt, half = value - middle, _rounding(steps), _half(steps)
    several = []
    for end in (lower, upper):
        distance, size = np.abs(end - value), np.hypot(half, end - middle)
        known = inside & (end > low) & (end < high)
        several.append(np.where(known, distance / size, np.nan))
    first, second = several
    apart = np.abs(first - second) > AGREEMENT * np.fmax(first, second) + 64 * doubt / half
    outside = (lower > value) | (value > upper) | (lower < low) | (upper > high)
    if (apart | outside | (np.abs(own) > half + doubt)).any():
        raise ParameterError(
            f"the intervals of {name!r} are not those of a mean between the bounds that its "
            f"receipt tells, so that others cannot be told from them: {NEW_RELEASE}."
        )
    return MeanNoise(
        columns=columns,
        steps=steps,
        confidence=each_confidence(nodes.receipt),
        value=value,
        lower=lower,
        upper=upper,
        told=np.fmax(first, second),
    )


def _bounds(steps: Steps) -> tuple[float, float, float]:
    """Both, and their middle, as the frame of a rollup has it."""
    return steps.lower, steps.upper, (steps.lower + steps.upper) / 2


def _half(steps: Steps) -> float:
    """Half the distance of the bounds as one value moves it: that of whole steps."""
    return steps.width * steps.step / 2


def _rounding(steps: Steps) -> float:
    return ROUNDING * max(abs(steps.lower), abs(steps.upper))
