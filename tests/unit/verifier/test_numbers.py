"""Bounds on e^x, and bounds as they are shown."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dpframe.verifier.numbers import ONE, bound_text, exp_between


@pytest.mark.parametrize("x", ["0", "1e-9", "0.001", "0.5", "1", "7.25", "20", "-3", "-0.1", "60"])
def test_e_to_the_x_is_between(x: str) -> None:
    """Law: the two bounds enclose e^x and are close to each other."""
    low, high = exp_between(Fraction(x))
    with localcontext() as context:
        context.prec = 80
        true = Decimal(x).exp() * ONE
    assert low <= true <= high
    assert high - low <= 2 + high // 2**80


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (Fraction(1, 3), "0.3334"),
        (Fraction(88184644726654, 10**20), "8.819e-07"),
        (Fraction(1), "1.0"),
        (Fraction(99999, 10**10), "1e-05"),
        (Fraction(0), "0"),
    ],
)
def test_bounds_are_shown_rounded_up(bound: Fraction, text: str) -> None:
    """Law: four digits, never less than the bound."""
    assert bound_text(bound) == text
    assert Fraction(text) >= bound or math.isclose(float(text), float(bound), rel_tol=1e-15)
