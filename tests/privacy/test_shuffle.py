"""Amplification by shuffling, an upper bound: against the pair that it is proved with, in full."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpframe.accounting import aggregate as shuffle
from dpframe.accounting.aggregate import (
    aggregate_delta,
    shuffle_epsilon,
    shuffle_local_epsilon,
    silence,
)

SMALL = [(100, 0.5), (100, 2.0), (250, 3.0), (400, 1.0)]
"""Devices, and the local epsilon of each."""


def clone_pair(devices: int, el: float, clones: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both laws of (number of clones, how many of them look like the first data), in full.

    ``clones`` multiplies the chance of a clone, e^-el.
    """
    true, others = 1 / (1 + math.exp(-el)), devices - 1
    here, there = [], []
    for c in range(others + 1):
        mass = binom.pmf(c, others, min(1.0, clones * math.exp(-el)))
        like = binom.pmf(np.arange(c + 1), c, 0.5) * mass
        for out, first in ((here, true), (there, 1 - true)):
            out.append(first * np.append(0.0, like) + (1 - first) * np.append(like, 0.0))
    return np.concatenate(here), np.concatenate(there)


def exact_renyi(devices: int, el: float) -> NDArray[Any]:
    """Renyi divergences of the pair, for the orders of the bound."""
    p, q = clone_pair(devices, el)
    inside = (p > 0) & (q > 0)
    ratio, mass = np.log(p[inside] / q[inside]), q[inside]
    orders = shuffle._orders(el)
    return np.array([math.log(np.exp(a * ratio) @ mass) / (a - 1) for a in orders.tolist()])


def delta_of(pairs: list[tuple[NDArray[Any], NDArray[Any]]], epsilon: float) -> float:
    """Hockey stick of independent pairs together: the sum over all outcomes."""
    p, q = pairs[0]
    for more, less in pairs[1:]:
        keep, kept = p > 1e-12, more > 1e-12
        p, q = (np.multiply.outer(a[keep], b[kept]).ravel() for a, b in ((p, more), (q, less)))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize(("devices", "el"), SMALL)
def test_the_exact_pair_is_within_the_bound(devices: int, el: float, delta: float) -> None:
    """Law: at the epsilon that is claimed, the enumerated pair has at most delta."""
    epsilon = shuffle_epsilon(devices=devices, reports=1, local_epsilon=el, delta=delta)
    assert delta_of([clone_pair(devices, el)], epsilon) <= delta


def test_two_rounds_are_within_the_bound() -> None:
    """Law: two pairs together have at most delta at the claim for two reports."""
    for el, delta in ((2.0, 1e-2), (1.0, 1e-4)):
        claim = shuffle_epsilon(devices=100, reports=2, local_epsilon=el, delta=delta)
        assert delta_of([clone_pair(100, el)] * 2, claim) <= delta


def test_forgotten_rounds_and_too_many_clones_are_rejected() -> None:
    """Planted bugs: half the cost of two rounds, or ten times as many clones as there are."""
    pair, delta = clone_pair(100, 3.0), 1e-2
    once = shuffle_epsilon(devices=100, reports=1, local_epsilon=1.0, delta=delta)
    assert delta_of([clone_pair(100, 1.0)] * 2, once / 2) > delta
    true = shuffle_epsilon(devices=100, reports=1, local_epsilon=3.0, delta=delta)
    more = shuffle_epsilon(devices=1000, reports=1, local_epsilon=3.0, delta=delta)
    assert delta_of([pair], true) <= delta < delta_of([pair], more)


def test_renyi_divergences_are_those_of_the_pair_and_hardly_more() -> None:
    """Law: for every order the bound is above the enumerated divergence, by a few percent."""
    for devices, el in SMALL:
        exact = exact_renyi(devices, el)
        bounds = shuffle._renyi(devices, el)
        assert (exact <= bounds).all()
        assert (bounds <= 1.1 * exact + 1e-6).all()


def test_groups_by_their_most_clones_are_rejected(monkeypatch: Any) -> None:
    """Planted bug: a group of numbers of clones that counts as its largest hides too well."""
    shipped = shuffle._moments
    starts = []

    def remember(clones: int, *rest: Any) -> Any:
        starts.append(clones)
        return shipped(clones, *rest)

    monkeypatch.setattr(shuffle, "_moments", remember)
    shuffle._renyi(100, 2.0)
    later = dict(itertools.pairwise(starts))
    monkeypatch.setattr(
        shuffle, "_moments", lambda clones, *rest: shipped(later.get(clones, clones), *rest)
    )
    assert (shuffle._renyi(100, 2.0) < exact_renyi(100, 2.0)).any()


def test_one_hot_reports_are_within_the_bound_for_any_randomiser() -> None:
    """Law: at the epsilon of shuffling, the exact accountant of sums has at most delta; and the
    exact sums of a round have, by enumeration."""
    for devices, el, reports in ((5000, 5.0, 1), (20_000, 6.0, 4)):
        epsilon = shuffle_epsilon(devices=devices, reports=reports, local_epsilon=el, delta=1e-6)
        spent = aggregate_delta(devices=devices, reports=reports, local_epsilon=el, epsilon=epsilon)
        assert spent <= 1e-6
    a0 = silence(3.0)
    rest = binom.pmf(np.arange(300), 299, a0)
    held, free = (np.convolve(rest, [1 - c, c]) for c in (0.5, a0))
    p, q = np.multiply.outer(held, free).ravel(), np.multiply.outer(free, held).ravel()
    epsilon = shuffle_epsilon(devices=300, reports=1, local_epsilon=3.0, delta=1e-4)
    assert delta_of([(p, q)], epsilon) <= 1e-4


def test_more_noise_more_devices_and_fewer_reports_cost_less() -> None:
    """Law: epsilon rises with the local one and with reports, and falls with devices and delta."""
    start = {"devices": 2000, "reports": 2, "local_epsilon": 2.0, "delta": 1e-6}
    for name, values, rises in [
        ("local_epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0], True),
        ("reports", [1, 2, 5, 50], True),
        ("devices", [100, 500, 10_000, 10**5], False),
        ("delta", [1e-12, 1e-6, 1e-2], False),
    ]:
        costs = [shuffle_epsilon(**{**start, name: v}) for v in values]
        assert costs == sorted(costs, reverse=not rises)
        assert all(c >= 0 for c in costs)


@pytest.mark.parametrize("reports", [1, 4])
def test_it_never_costs_more_than_local_privacy(reports: int) -> None:
    """Law: even where nothing is amplified, T reports cost T local epsilons."""
    for el in (0.1, 3.0, 12.0, 20.0):
        cost = shuffle_epsilon(devices=100, reports=reports, local_epsilon=el, delta=1e-9)
        assert cost <= reports * el


@pytest.mark.parametrize(("devices", "epsilon"), [(100, 0.3), (10_000, 1.0), (1_600_000, 1.0)])
def test_the_largest_local_epsilon_is_the_largest(devices: int, epsilon: float) -> None:
    """Law: what is found is within the budget, and a thousandth more is not."""
    told = {"devices": devices, "reports": 4, "delta": 1e-6}
    found = shuffle_local_epsilon(**told, epsilon=epsilon)
    assert shuffle_epsilon(**told, local_epsilon=found) <= epsilon
    assert shuffle_epsilon(**told, local_epsilon=found + 0.001) > epsilon


def test_few_devices_claim_nothing() -> None:
    assert shuffle_local_epsilon(devices=99, reports=1, epsilon=10.0, delta=0.1) == 0.0
