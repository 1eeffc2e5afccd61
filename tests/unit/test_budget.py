"""What one record of a group may cost: never more, in exact fractions, and hardly less."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpframe.budget import Budget, per_record

epsilons = st.floats(1e-4, 50.0)
deltas = st.just(0.0) | st.floats(1e-12, 0.1)
groups = st.integers(1, 10**6)


@given(epsilon=epsilons, delta=deltas, moves=groups)
@example(epsilon=7.3, delta=0.0, moves=3)
@example(epsilon=50.0, delta=0.1, moves=10**6)
def test_a_group_costs_at_most_the_budget(epsilon: float, delta: float, moves: int) -> None:
    """Law: m e' <= e, and d' (e^(m e') - 1)/(e^e' - 1) <= d with 60 digits."""
    record = per_record(Budget(epsilon=epsilon, delta=delta), moves)
    assert Fraction(record.epsilon) * moves <= Fraction(epsilon)
    with localcontext(prec=60):
        one, group = Decimal(record.epsilon).exp(), (moves * Decimal(record.epsilon)).exp()
        assert Decimal(record.delta) * (group - 1) <= Decimal(delta) * (one - 1)


@given(epsilon=epsilons, delta=deltas, moves=groups)
def test_hardly_anything_is_lost_to_rounding(epsilon: float, delta: float, moves: int) -> None:
    """Law: e' is within two floats of e / m; no delta gives no delta, and some gives some."""
    record = per_record(Budget(epsilon=epsilon, delta=delta), moves)
    assert epsilon / moves - record.epsilon <= 2 * math.ulp(record.epsilon)
    whole = delta * math.expm1(record.epsilon) / math.expm1(epsilon)
    assert record.delta == pytest.approx(whole, rel=2e-12, abs=0)
    assert (record.delta > 0) == (delta > 0)


def test_dividing_alone_can_cost_more_than_the_budget() -> None:
    """Negative control: the nearest float to e / m, m times, is more than e for some e and m."""
    assert any(Fraction(e / m) * m > Fraction(e) for e in (0.1, 1.0, 7.3) for m in (3, 7, 10))


@given(epsilon=epsilons, delta=deltas)
def test_one_record_gets_the_whole_budget(epsilon: float, delta: float) -> None:
    budget = Budget(epsilon=epsilon, delta=delta)
    assert per_record(budget, 1) == budget
