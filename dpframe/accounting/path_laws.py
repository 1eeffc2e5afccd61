"""A pair of noise laws for a selection along paths, and what a threshold can do with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from dpframe.noise import NoiseTable

Shape = Literal["geometric", "gaussian-left", "gaussian", "normal"]

SELECTED_AT_THRESHOLD = 1 / 4
"""Least chance with which a residual equal to the threshold is selected. Where the threshold leaves
room for it, the chance is 1/2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """A test law with its mode at 0, a release law, and the delta that both cost together.

    Values count units of ``1 / grid`` record. ``left``, ``right`` and ``release_scale`` are the
    scales of the halves of the test and of the release, in records. ``delta`` is the
    accountant's upper bound, the larger of the two directions, at the epsilon of the request.
    """

    shape: Shape
    test: NoiseTable
    release: NoiseTable
    grid: int
    left: float
    right: float
    release_scale: float
    delta: float

    def shift_for(self, chance: float) -> int:
        """Return the least shift of the test that makes P(W >= 0) at least ``chance``."""
        at_least = self.test.at_least()
        return -self.test.lowest - int(np.flatnonzero(at_least[:-1] >= chance)[-1])

    def smallest_threshold(self, chance: float) -> int:
        """Return the least threshold, in records, at which a residual equal to the threshold is
        selected with at least ``chance``.

        The threshold is two records above the reach of the noise, so that neither an empty node nor
        a node of one record can be selected.
        """
        reach = self.test.highest + self.shift_for(chance)
        return math.ceil(reach / self.grid) + 2

    def median_test(self, threshold: int | Fraction) -> NoiseTable:
        """Return the test law moved to its median: a residual equal to the threshold is a coin
        flip.

        The chance of selection is as near to 1/2 from above as integers allow. The move stops where
        the noise could reach a node of fewer than two records. Every shift has the same cost, so
        the shift may depend on the threshold freely. The threshold is a whole number of records, or
        with a measure a fraction.
        """
        room = math.floor((threshold - 2) * self.grid) - self.test.highest
        shift = min(self.shift_for(0.5), room)
        return replace(self.test, lowest=self.test.lowest + shift)

    def chance_at(self, threshold: int | Fraction) -> float:
        """Return P(a residual equal to the threshold is selected)."""
        test = self.median_test(threshold)
        return float(test.at_least()[max(0, -test.lowest)])
