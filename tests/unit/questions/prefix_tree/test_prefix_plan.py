"""Plans of prefix trees: iterations fit and finish, costs stay within the budget, facts hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from scipy.stats import binom

from dpframe.accounting import aggregate
from dpframe.accounting.aggregate import aggregate_delta, binomial
from dpframe.errors import BudgetError, ParameterError
from dpframe.federated import Segments, segment_length, standard_error
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.prefix_tree.plan import PrefixPlan
from tests.members import some, tries
from tests.naive import bits_needed

anywhere = tries(25, 100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Also on a machine that is busy."""


def plan(users: int, **more: Any) -> PrefixPlan:
    told = {"column": "w", "user": "u", "epsilon": 1.0, "delta": 1e-6, **more}
    return PrefixPlan.for_devices(PREFIX_TREE.plan(told), users)


@anywhere
@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 60))
def test_an_iteration_asks_for_as_many_bits_as_fit(prefixes: int, limit: int, left: int) -> None:
    if prefixes <= limit:
        assert segment_length(prefixes, limit, left) == bits_needed(prefixes, limit, left)


@anywhere
@given(
    st.sampled_from(["adaptive", "even", "list"]),
    st.integers(1, 200),
    st.integers(1, 12),
    st.integers(1, 24).flatmap(lambda b: st.integers(2**b, 2 ** (b + 1) - 1)),
    st.data(),
)
def test_iterations_fit_and_finish(
    kind: str, length: int, iterations: int, limit: int, data: st.DataObject
) -> None:
    """Law: within the limit of cells whatever prefixes are kept, to the full length."""
    try:
        if kind == "list":
            parts = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=8)))
            segments = Segments.of(parts, length=sum(parts), limit=limit)
        else:
            make = Segments.adaptive if kind == "adaptive" else Segments.even
            segments = make(length=length, iterations=min(iterations, length), limit=limit)
    except ParameterError:
        most = limit.bit_length() - 1
        assert kind == "list" or -(-length // min(iterations, length)) > min(most, length)
        return
    depth, prefixes = 0, 1
    for step in range(1, segments.iterations + 1):
        bits = segments.bits(step, depth, prefixes)
        assert bits >= 1
        assert prefixes << bits <= limit
        depth += bits
        capacity = segments.capacity(step, depth)
        assert capacity >= 1
        if depth == segments.length:
            return
        worst = min(capacity, prefixes << bits)
        prefixes = data.draw(st.sampled_from([1, max(1, worst // 2), worst]))
    raise AssertionError("iterations are over and the items are not")


def test_a_capacity_without_room_is_rejected() -> None:
    """Planted bug: as many prefixes as there are cells leave nothing to ask for."""
    segments = Segments.adaptive(length=60, iterations=4, limit=10**7)
    assert segments.capacity(1, 23) < 10**7 // 2
    assert segment_length(10**7, 10**7, 37) == 0


GRID: list[dict[str, Any]] = [
    *({"epsilon": 1.0}, {"neighbours": "remove"}, {"participation": 0.3}),
    *({"accountant": "shuffle"}, {"rounds": 3, "iterations": 5}, {"mechanism": "laplace"}),
    {"mechanism": "gaussian", "neighbours": "remove", "epsilon": 0.25},
]


@some(0, 2, 5)
@pytest.mark.parametrize(
    "more", [*GRID, pytest.param({"epsilon": 16.0}, marks=pytest.mark.evidence)]
)
def test_what_is_spent_is_within_the_budget(more: dict[str, Any]) -> None:
    """Law: strictly, with what participation and tables take; and another thousandth is above."""
    made = plan(1500, **{"epsilon": 8.0, **more})
    assert made.delta_spent <= 1e-6
    if made.local_epsilon is None or "accountant" in more:
        return
    told: dict[str, Any] = {"devices": made.reporting, "reports": made.asked.reports}
    told |= {"epsilon": made.budget.epsilon, "neighbours": made.asked.neighbours}
    local = made.local_epsilon
    costs = [aggregate_delta(local_epsilon=local + more, **told) for more in (0.0, 0.002)]
    assert costs[0] < made.delta_spent < 1e-6 + costs[1] - costs[0]


def test_fewer_who_take_part_are_paid_for() -> None:
    """Law: the chance that an iteration has fewer reports than are counted on is in delta."""
    made = plan(5000, participation=0.3, epsilon=8.0)
    missed = binom.cdf(made.reporting - 1, 5000, 0.3)
    full = plan(made.reporting, epsilon=8.0)
    assert 0 < missed * made.asked.reports < made.delta_spent
    assert made.local_epsilon is not None
    assert full.local_epsilon is not None
    assert full.local_epsilon - 0.002 < made.local_epsilon <= full.local_epsilon
    assert made.standard_error == standard_error(1, devices=1500, local_epsilon=made.local_epsilon)


def test_tables_of_sums_are_as_long_as_is_paid_for() -> None:
    """Law: no table has more weights than the part of delta for their rounding counts."""
    for n in (1, 10, 1000, 10**6, 10**8):
        for chance in (0.5, 0.1, 1e-3, 1e-6):
            assert len(binomial(n, chance).weights) <= 10 * math.sqrt(n) + 82


def test_tables_of_sums_are_right_to_a_unit() -> None:
    """Law: off by half a unit of 2^-64 and 1e-9 of itself, as far as the reference goes."""
    for n, chance in ((1000, 0.5), (20_000, 1e-3), (10**6, 0.5)):
        law = binomial(n, chance)
        exact = binom.pmf(np.arange(law.lowest, law.highest + 1), n, chance) * 2.0**64
        off = np.abs(law.weights.astype(np.float64) - exact)
        assert (off <= 0.51 + 1e-9 * exact).all()


def test_many_reports_are_accounted_for_in_bounded_memory(monkeypatch: Any) -> None:
    """Law: a coarser grid never claims less, and has no more points than are allowed."""
    told: dict[str, Any] = {"local_epsilon": 6.0, "epsilon": 1.0, "neighbours": "replace"}
    others = 49_999 - aggregate.spare_holders(50_000, 6.0)
    fine = aggregate._report_losses.__wrapped__(others, 30, *told.values())[0]
    monkeypatch.setattr(aggregate, "LONGEST_TABLE", 1 << 17)
    coarse = aggregate._report_losses.__wrapped__(others, 30, *told.values())[0]
    assert len(coarse.mass) <= (1 << 17) + 4 * 30 < len(fine.mass)
    for epsilon in (0.5, 1.0):
        assert fine.delta(epsilon) <= coarse.delta(epsilon) <= 1.1 * fine.delta(epsilon)


REFUSED = [(0, 16.0, "too few"), (99, 16.0, "too few"), (10**6, 50.0, "64-bit tables of sums")]


@pytest.mark.parametrize(("users", "epsilon", "words"), REFUSED)
def test_what_cannot_be_kept_is_refused(users: int, epsilon: float, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        plan(users, epsilon=epsilon)


def test_declared_users_decide_the_noise_and_the_rest_is_true() -> None:
    """Law: the receipt says users, errors and tables of those that there are."""
    made, few = plan(80_000, devices=2000, epsilon=16.0), plan(2000, epsilon=16.0)
    assert made.local_epsilon == pytest.approx(few.local_epsilon, abs=0.002)
    assert made.local_epsilon is not None
    assert (made.devices, made.reporting) == (80_000, 2000)
    assert "80,000" in made.unit.sentence
    assert made.standard_error == standard_error(
        1, devices=80_000, local_epsilon=made.local_epsilon
    )
    said = {q.name: q.value for q in made.lines()}
    assert (said["devices"], said["devices counted on"]) == (80_000, 2000)
