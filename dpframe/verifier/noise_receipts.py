"""Compare the noise in a receipt with the noise of a proof: its ends, or its standard deviation."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpframe.verifier.laws import Law
from dpframe.verifier.numbers import ONE, exp_below, is_number
from dpframe.verifier.verdict import check_claim

DOUBLE = Fraction(1, 2**50)
"""Relative error that a number in a receipt may have: a double that was divided and multiplied."""

CLOSE = Fraction(1, 10**6)
"""Relative error that the square of a standard deviation in a receipt, a double, may have."""


def same_noise(
    told: Any, law: Law, name: str, units: int = 1, worth: Fraction = Fraction(1)
) -> None:
    """Check that the ends and the standard deviation in the receipt, where ``units`` of the proof
    are ``worth``, are those of the table."""
    facts = told if isinstance(told, Mapping) else {}
    check_claim(
        facts.get("grid") == units,
        f"{name} noise of the receipt counts in units of 1/{facts.get('grid')}, that of the proof "
        f"of 1/{units}",
    )
    for end, proved in (("lowest", law.lowest), ("highest", law.highest)):
        own = facts.get(end)
        check_claim(
            is_number(own)
            and abs(Fraction(own) * units - proved * worth) <= abs(proved * worth) * DOUBLE,
            f"the {name} noise of the receipt has {own!r} as {end}, that of the proof "
            f"{float(proved * worth / units):g}",
        )
    sd, variance = facts.get("sd"), law.variance * (worth / units) ** 2
    check_claim(
        is_number(sd) and sd >= 0 and abs(Fraction(sd) ** 2 - variance) <= variance * CLOSE,
        f"the {name} noise of the receipt has sd {sd!r}, that of the proof "
        f"{float(variance) ** 0.5:g}",
    )


def same_scale(told: Any, scale: Fraction, name: str, units: int) -> None:
    """Check that the standard deviation in the receipt belongs to discrete Laplace noise over all
    integers, with ``scale`` in units: sd**2 = 1 / (2 sinh(1 / (2 scale))**2)."""
    facts = told if isinstance(told, Mapping) else {}
    sd, grid = facts.get("sd"), facts.get("grid")
    ends = facts.get("lowest", 0), facts.get("highest", 0)
    check_claim(
        grid == units, f"{name} noise counts in units of 1/{grid}, that of the proof 1/{units}"
    )
    check_claim(
        ends == (None, None), f"the {name} noise of the receipt has ends, the proof has none"
    )
    check_claim(is_number(sd) and 0 < sd < 1e30, f"the receipt has no {name} noise")
    root = Fraction(exp_below(1 / (2 * scale)), ONE)
    apart = (Fraction(sd or 0) * units * (root - 1 / root)) ** 2
    check_claim(
        abs(apart / 2 - 1) < CLOSE,
        f"the {name} noise of the receipt has sd {sd!r}, that of the proof is of scale "
        f"{float(scale / units):g}",
    )


def same_number(told: Any, proved: Fraction, name: str) -> None:
    """Check that a number of the receipt is the number of the proof, but for the rounding of a
    double."""
    check_claim(
        is_number(told) and abs(Fraction(told) - proved) <= abs(proved) / 10**9,
        f"the receipt has {name} {told!r}, the proof {float(proved):g}",
    )
