"""A filter against analysts who look: the worst policy, computed, through the shipped rule.

An analyst chooses after every answer which Gaussian release comes next, or none. The largest
divergence that any such policy reaches follows by recursion over what is left of the filter and the
odds so far; the releases are those of shipped plans, table by table, with their ends. It may not
be above the delta of the filter. Rules that are nearly right must exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe.accounting import compose as gaussian_filter
from dpframe.accounting.compose import Amounts, amounts_left, amounts_of, amounts_used
from dpframe.accounting.losses import normal_delta
from dpframe.accounting.weighted_round_noise import GaussianLeakage
from dpframe.ledger.reservations import OpenFilter
from dpframe.noise import NoiseTable
from tests.members import tries

STEP = 1e-3
"""Grid of the privacy loss, rounded down for a lower bound and up for an upper one."""

ODDS = np.arange(-6000, 6001) * STEP
"""Of t = e^epsilon that is left, the logarithm."""

Losses = tuple[int, Any, float]
Release = tuple[GaussianLeakage, Losses]
Rule = Callable[[Any, GaussianLeakage], Any]
"""What is left after a release, None if it is not paid for."""


def losses(noise: NoiseTable, up: bool) -> Losses:
    """Of a count that moves by one: smallest loss, masses, and the mass at infinity."""
    p, q = np.append(noise.pmf, 0.0), np.append(0.0, noise.pmf)
    here = (p > 0) & (q > 0)
    loss = np.log(p[here] / q[here]) / STEP
    places = (np.ceil(loss) if up else np.floor(loss)).astype(int)
    mass = np.bincount(places - places.min(), weights=p[here])
    return int(places.min()), mass, float(p[q == 0].sum())


def release(epsilon: float, delta: float, *, levels: int = 1, up: bool = False) -> Release:
    """All noisy numbers that one record moves in a shipped plan, and what it says of them."""
    plan = dp.explain(
        list("abc"[:levels]), epsilon=epsilon, delta=delta, mechanism="offline-gaussian"
    ).plan
    low, mass, infinite = losses(plan.laws.release, up)
    for _ in range(levels):
        test = losses(plan.laws.test, up)
        low, mass = low + test[0], np.convolve(mass, test[1])
        infinite = 1 - (1 - infinite) * (1 - test[2])
    return plan.leakage, (low, mass, infinite)


def worst(rule: Rule, start: Any, menu: Sequence[Release], epsilon: float, *, up: bool) -> float:
    """The largest divergence at ``epsilon`` of any policy that a rule lets through."""

    @cache
    def value(state: Any) -> Any:
        best = np.maximum(0.0, 1 - np.exp(ODDS))  # nothing more is asked
        for told, (low, mass, infinite) in menu:
            following = rule(state, told)
            if following is None:
                continue
            then = value(following)
            left, right = max(0, low + len(mass)) + 1, max(0, -low) + 1
            before = np.ones(left) if up else 1 - np.exp(ODDS[0] - np.arange(left, 0, -1) * STEP)
            beyond = np.full(right, then[-1]) if up else np.zeros(right)
            odds = np.convolve(np.concatenate([before, then, beyond]), mass)
            start_at = left - low
            best = np.maximum(best, odds[start_at : start_at + len(ODDS)] + infinite)
        return best

    return float(np.interp(epsilon, ODDS, value(start)))


def shipped(left: Amounts, told: GaussianLeakage, *, epsilon: float) -> Amounts | None:
    """As a ledger pays, through what it holds."""
    here = OpenFilter(
        reservation_id="x", epsilon=epsilon, whole=left, left=left, neighbours="records"
    )
    after = here.pay((), lambda: told, "records")
    return None if after is None else after.left


EPSILON, DELTA = 1.5, 0.02
MENU = [(1.0, 0.004), (0.5, 0.001), (0.2, 0.006)]
"""Much noise or little, and one that spends ends: three to five fit."""


def test_no_policy_takes_more_from_a_filter_than_it_costs() -> None:
    """Law: over all adaptive choices of three releases, budgets included, an upper bound on the
    divergence is at most delta; and it is not far below, or the test would show nothing."""
    rule = partial(shipped, epsilon=EPSILON)
    start = amounts_of(EPSILON, DELTA)
    low, high = (
        worst(rule, start, [release(*one, up=up) for one in MENU], EPSILON, up=up)
        for up in (False, True)
    )
    assert 0.7 * DELTA < low <= high <= DELTA


@pytest.mark.evidence
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.8, 1e-3), (1.5, 0.02), (3.0, 1e-4)])
def test_no_policy_of_other_menus_either(levels: int, epsilon: float, delta: float) -> None:
    """Law: the same for taller hierarchies, other filters and more releases of each kind."""
    rule = partial(shipped, epsilon=epsilon)
    menu = [
        release(part * epsilon, share * delta, levels=levels, up=True)
        for part, share in ((0.7, 0.2), (0.4, 0.1), (0.25, 0.05), (0.2, 0.3))
    ]
    found = worst(rule, amounts_of(epsilon, delta), menu, epsilon, up=True)
    assert 0.4 * delta < found <= delta


def trading(left: Any, told: GaussianLeakage) -> Any:
    """Planted: whatever adds up to a delta that fits, so that ends make up for squares."""
    parts = ("squares", "ends", "rounding", "factor", "shift")
    total = tuple(a + getattr(told, name) for a, name in zip(left, parts, strict=True))
    joint = GaussianLeakage(**dict(zip(parts, total, strict=True)))
    return total if joint.delta(EPSILON) <= DELTA else None


def overdrawing(left: Amounts, told: GaussianLeakage) -> Any:
    """Planted: while anything is left, the next release is paid for."""
    used = amounts_used(told, EPSILON)
    after = tuple(max(0, a - b) for a, b in zip(left, used, strict=True))
    return after if min(left) > 0 else None


def endless(left: Amounts, told: GaussianLeakage) -> Any:
    """Planted: ends are not counted."""
    after = left[0] - amounts_used(told, EPSILON)[0]
    return (after, left[1], left[2]) if after >= 0 else None


def released_only(left: Amounts, told: GaussianLeakage) -> Any:
    """Planted: squares of released counts alone, a third; tests tell something, too."""
    squares, ends, part = amounts_used(told, EPSILON)
    return amounts_left(left, (squares // 3, ends, part))


PLANTED = {bug.__name__: bug for bug in (trading, overdrawing, endless, released_only)}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_rules_let_a_policy_through_that_takes_more(bug: str) -> None:
    """Planted bugs: the same recursion, as a lower bound, exceeds delta."""
    menu = [release(*one) for one in MENU]
    start: Any = (0.0,) * 5 if bug == "trading" else amounts_of(EPSILON, DELTA)
    if bug == "endless":
        menu = [release(0.3, 0.02)]  # many ends, few squares
    if bug == "trading":
        del menu[1]
    if bug == "released_only":
        menu = [release(1.0, 5e-4)]  # long tables
    assert worst(PLANTED[bug], start, menu, EPSILON, up=False) > DELTA


@given(st.floats(0.01, 100.0), st.floats(1e-12, 0.5))
@tries(60, 400, deadline=None)
def test_all_amounts_together_cost_no_more_than_the_filter(epsilon: float, delta: float) -> None:
    """Law: who uses up every amount to the last unit is at (epsilon, delta), and close to it."""
    squares, ends, part = amounts_of(epsilon, delta)
    if not squares:
        assert delta < 1e-14
        return
    assert part == 10**12
    tables = {"factor": gaussian_filter.FACTOR, "shift": gaussian_filter.SHIFT, "rounding": 0.0}
    used = GaussianLeakage(squares=squares * 1e-15, ends=ends * 1e-21, **tables)
    assert used.delta(epsilon) <= delta
    without = normal_delta(math.sqrt(used.squares), epsilon)
    assert without >= 0.6 * delta or epsilon < 0.1 or delta < 1e-10
    assert amounts_used(used, epsilon)[0] >= squares


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 0.3), st.floats(0, 1e-3), st.floats(0, 1e-6), st.floats(0, 1e-3)),
        max_size=12,
    ),
    st.sampled_from([(0.5, 1e-3), (2.0, 0.01), (8.0, 1e-2)]),
)
@tries(50, 300, deadline=None)
def test_what_is_paid_for_is_within_the_filter_as_a_sum(
    asked: list[tuple[float, float, float, float]], filter_: tuple[float, float]
) -> None:
    """Law: the sum of all that a filter let through, as one release, is within (epsilon, delta)."""
    epsilon, delta = filter_
    left, total = amounts_of(epsilon, delta), [0.0] * 5
    for squares, ends, rounding, factor in asked:
        parts = (squares, ends, rounding, factor, factor / 1000)
        told = GaussianLeakage(
            squares=squares, ends=ends, rounding=rounding, factor=factor, shift=factor / 1000
        )
        after = shipped(left, told, epsilon=epsilon)
        if after is not None:
            assert all(a < b for a, b in zip(after[:2], left[:2], strict=True)) or ends == 0
            left, total = after, [a + b for a, b in zip(total, parts, strict=True)]
    joint = GaussianLeakage(
        squares=total[0], ends=total[1], rounding=total[2], factor=total[3], shift=total[4]
    )
    assert joint.squares == 0 or joint.delta(epsilon) <= delta
