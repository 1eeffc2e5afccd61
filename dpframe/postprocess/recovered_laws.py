"""The law of released noise from what a receipt says of it: family, spread and largest value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpframe.errors import ParameterError
from dpframe.noise import NoiseTable, UnboundedNoise, gaussian_table, laplace_table, rounded_normal

LAW_MAKERS = {
    "discrete Laplace": laplace_table,
    "discrete Gaussian": gaussian_table,
    "rounded Gaussian": rounded_normal,
}
"""Families that one scale and one bound say all of."""

CLOSE = 1e-13
"""Relative difference of spreads from which on laws are the same: that of sums of float64."""

TURNS = 60


def recovered_law(facts: Mapping[str, Any]) -> NoiseTable | UnboundedNoise:
    """The law that these facts of a receipt are of, in units of its grid.

    Raises ParameterError for a family that has more parameters than a receipt tells.
    """
    grid, sd = int(facts["grid"]), float(facts["sd"]) * int(facts["grid"])
    if facts["highest"] is None:
        return UnboundedNoise(Fraction(_plain_scale(sd)))
    highest = round(float(facts["highest"]) * grid)
    if facts["family"] not in LAW_MAKERS or round(float(facts["lowest"]) * grid) != -highest:
        raise ParameterError(
            f"the noise of this release ({facts['family']}) is not known from its receipt alone: "
            "ask with another confidence= when you release."
        )
    return _search_table(str(facts["family"]), sd, highest)


def _plain_scale(sd: float) -> float:
    """Of discrete Laplace noise without bounds: sd**2 = 1 / (2 sinh(1 / (2 scale))**2)."""
    return 0.5 / math.asinh(1 / (sd * math.sqrt(2)))


@lru_cache(maxsize=32)
def _search_table(family: str, sd: float, bound: int) -> NoiseTable:
    """The spread grows with the scale: the secant through two scales finds it, in logarithms."""
    make = LAW_MAKERS[family]
    a = math.log(_plain_scale(sd) if family == "discrete Laplace" else sd)
    b = a + 1e-4
    law, other = make(math.exp(a), bound), make(math.exp(b), bound)
    for _ in range(TURNS):
        if abs(law.sd / sd - 1) <= CLOSE:
            return law
        slope = math.log(other.sd / law.sd) / (b - a)
        if not slope > 0:
            break
        a, b = a + math.log(sd / law.sd) / slope, a
        law, other = make(math.exp(a), bound), law
    if abs(law.sd / sd - 1) <= 100 * CLOSE:
        return law
    raise ParameterError(
        "the noise that the receipt tells of is none that dpframe draws: pass the frame as "
        "dpframe returned it."
    )
