"""The curves that say which sums of reports hide more, against their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpframe.accounting import aggregate
from dpframe.accounting.aggregate import success_law

CASES = [
    (devices, chance)
    for devices in (100, 3_000, 200_000, 5_000_000)
    for chance in (0.5, 0.2, 1e-3)
    if devices * chance > 10
]


@pytest.mark.parametrize(("devices", "chance"), CASES)
def test_curves_are_sums_of_what_is_above(devices: int, chance: float) -> None:
    """Law: to 1e-10 of themselves, a tenth of what the comparison allows for, down to 1e-30."""
    law = success_law(devices, chance)[1]
    law = law[law > 1e-40]
    silent = min(chance, 0.1)
    usual = 12 / math.sqrt(devices * chance * (1 - chance))
    ratios = np.exp(np.linspace(0, min(usual, math.log(1 / (2 * silent))), 60))
    for one, other in ((0.5, silent), (silent, 0.5)):
        here, there = aggregate._add_device(law, one), aggregate._add_device(law, other)
        got = aggregate._sums_above_ratios(here, there, ratios)
        for ratio, delta in zip(ratios.tolist(), got.tolist(), strict=True):
            wanted = math.fsum(np.maximum(here - ratio * there, 0.0))
            assert abs(delta - wanted) <= 1e-10 * wanted + 1e-30, (ratio, delta, wanted)
