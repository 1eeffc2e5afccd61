"""Noise whose loss is linear in the amount that moves: shares of users, and tables of any length.

docs/mechanism.md, "Users as shares". A record or user is ``units`` units. Where a count moves by
one unit, an answer loses at most 1 / (scale units) except for a *slip*: the largest excess of one
law over e^(1 / (scale units)) times the other. Losses are linear in the number of units that move,
and slips of a level are superadditive: neither can be more than if all units moved one count
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise

from dpframe.verifier.numbers import ONE, TABLE, exp_above, exp_below
from dpframe.verifier.proof import Law
from dpframe.verifier.verdict import check_claim


def slip_of_units(slip: Fraction, rate: Fraction, units: int) -> Fraction:
    """The slip of all units together, S(units) = slip (1 + r + ... + r^(units - 1)), from the
    ``slip`` of one unit, with r the lower bound on e^(rate / units)."""
    if units == 1 or slip == 0:
        return slip
    r = exp_below(rate / units)
    check_claim(r > ONE, "a scale is too large to be told from no noise")
    return slip * (exp_above(rate) - ONE) / (r - ONE)


def slip_of_tails(tails: Iterable[int], rate: Fraction) -> Fraction:
    """The largest excess of a tail with one unit more over e^rate times the tail.

    ``tails`` grow, in parts of 2**64.
    """
    r = exp_below(rate)
    most = max((more * ONE - r * less for less, more in pairwise(tails)), default=0)
    return Fraction(max(0, most), TABLE * ONE)


def slip_of_values(law: Law, rate: Fraction) -> Fraction:
    """The mass by which a law exceeds e^rate times itself moved by one, in the worse direction."""
    r = exp_below(rate)
    weights = [0, *law.weights, 0]
    up = sum(more * ONE - r * less for less, more in pairwise(weights) if more * ONE > r * less)
    down = sum(less * ONE - r * more for less, more in pairwise(weights) if less * ONE > r * more)
    return Fraction(max(up, down), TABLE * ONE)


def slip_of_release(law: Law, scale: Fraction, units: int) -> Fraction:
    """The slip of a released count, for all units together; ``scale`` is in records or users."""
    return slip_of_units(slip_of_values(law, 1 / (scale * units)), 1 / scale, units)


def selection_slips(
    test: Law, *, left: Fraction, right: Fraction, units: int
) -> tuple[Fraction, Fraction]:
    """The slips of one level of tests: of not being selected, and of being selected."""
    sums = test.sums
    bot = slip_of_tails(sums, 1 / (left * units))
    top = slip_of_tails((TABLE - below for below in reversed(sums)), 1 / (right * units))
    return slip_of_units(bot, 1 / left, units), slip_of_units(top, 1 / right, units)


def selection_loss(
    *, left: Fraction, right: Fraction, release: Fraction | None, height: int, remainder: bool
) -> Fraction:
    """What a unit loses at most, times the number of units: the largest of its losses if its node
    is selected at the first test, at the last one, or never. Without ``release`` no number is
    released."""
    seen = Fraction(0) if release is None else 1 / release
    return max(
        1 / right + seen, (height - 1) / left + seen, height / left + (seen if remainder else 0)
    )
