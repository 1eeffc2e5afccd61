"""Sums of randomised reports: the accountant against the exact worst case, and known figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from dpframe.accounting import aggregate
from dpframe.accounting.aggregate import aggregate_delta, local_epsilon, silence, spare_holders
from dpframe.accounting.losses import compose_losses, pair_losses
from tests.members import few, some

MILLION = 1_600_000
FIGURES = {1.0: {1: 12.1, 2: 11.4, 4: 10.7, 6: 10.3}, 0.25: {1: 9.5, 2: 8.8, 4: 8.1, 6: 7.7}}
"""Local epsilon by aggregate epsilon and reports, N = 1.6e6, delta = 1e-6; two other accountants
gave the same."""


@some("1.0-1", "0.25-6")
@few(3, ("epsilon", "reports"), [(e, t) for e, row in FIGURES.items() for t in row])
def test_the_known_figures_are_reproduced(epsilon: float, reports: int) -> None:
    """Law: the local epsilon that just keeps delta is the known one, to its digits."""

    def cost(el: float) -> float:
        return aggregate_delta(devices=MILLION, reports=reports, local_epsilon=el, epsilon=epsilon)

    figure = FIGURES[epsilon][reports]
    assert cost(figure - 0.06) <= 1e-6 < cost(figure + 0.06)


def test_the_search_ends_at_the_largest_local_epsilon() -> None:
    """Law: to 0.001 and rounded down, where the sums cross delta."""
    asked = {"devices": MILLION, "reports": 1, "epsilon": 1.0}
    found = local_epsilon(**asked, delta=1e-6)  # type: ignore[arg-type]
    assert found == pytest.approx(FIGURES[1.0][1], abs=0.06)
    costs = [aggregate_delta(**asked, local_epsilon=el) for el in (found, found + 0.001)]  # type: ignore[arg-type]
    assert costs[0] <= 1e-6 < costs[1]


def cell(holders: int, others: int, a0: float, chance: float) -> np.ndarray:
    """Exact law of a cell whose sum has so many other holders."""
    law = np.convolve(
        binom.pmf(np.arange(holders + 1), holders, 0.5),
        binom.pmf(np.arange(others - holders + 1), others - holders, a0),
    )
    return np.convolve(law, [1 - chance, chance])


def exact(devices: int, el: float, epsilon: float, before: int, after: int) -> float:
    """Hockey stick of one round, with so many other holders of the two cells, by enumeration."""
    a0 = silence(el)
    old = [cell(before, devices - 1, a0, 0.5), cell(after, devices - 1, a0, a0)]
    new = [cell(before, devices - 1, a0, a0), cell(after, devices - 1, a0, 0.5)]
    p, q = np.multiply.outer(*old), np.multiply.outer(*new)
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@few(2, ("devices", "el"), [(150, 2.0), (150, 4.0), (400, 3.0), (400, 6.0)])
def test_no_number_of_holders_is_worse_than_accounted_for(devices: int, el: float) -> None:
    """Law: for every number of other holders of both cells, the exact loss is bounded."""
    holders = [0, 1, 2, 3, 5, 10, 20, 40, devices // 2, devices - 1]
    checked = 0
    for epsilon in (0.3, 1.0, 2.0):
        claimed = aggregate_delta(devices=devices, reports=1, local_epsilon=el, epsilon=epsilon)
        if claimed == 1.0:
            continue
        for before in holders:
            for after in holders:
                if before + after < devices:
                    assert exact(devices, el, epsilon, before, after) <= claimed
                    checked += 1
    assert checked or spare_holders(devices, el) > 0.8 * devices


def test_a_forgotten_round_and_a_forgotten_cell_are_rejected() -> None:
    """Planted bugs: less is composed than is seen, and the exact loss exceeds the claim."""
    devices, el, epsilon = 400, 6.0, 1.0
    others = devices - 1 - spare_holders(devices, el)
    held, free = (aggregate._cell_sum_law(others, silence(el), c) for c in (0.5, silence(el)))
    left = pair_losses(held, free, 1e-4)
    one_cell = compose_losses([(left, 1)]).delta(epsilon)
    assert exact(devices, el, epsilon, 0, 0) > one_cell
    twice = aggregate_delta(devices=devices, reports=2, local_epsilon=el, epsilon=epsilon)
    once = aggregate_delta(devices=devices, reports=1, local_epsilon=el, epsilon=epsilon)
    assert twice > once >= exact(devices, el, epsilon, 0, 0)


def test_few_devices_claim_nothing() -> None:
    """Below 100 devices, or where all would be spared, delta is 1 and no local epsilon fits."""
    assert aggregate_delta(devices=99, reports=1, local_epsilon=1.0, epsilon=1.0) == 1.0
    assert local_epsilon(devices=50, reports=1, epsilon=1.0, delta=1e-6) == 0.0


# -- removal, and reports that change in some iterations only ------------------------------------

KINDS = {"replaced": ("left", "came"), "left": ("left",), "came": ("came",), "unchanged": ()}
"""What an iteration shows of a device whose data change: which of its cells change, and how."""


def seen(
    kinds: list[str], devices: int, el: float, holders: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Both joint laws of all cells that change, in several iterations; sums beyond 40 left out."""
    a0 = silence(el)
    held, free = (cell(holders, devices - 1, a0, chance)[:40] for chance in (0.5, a0))
    p = q = np.ones(1)
    for kind in kinds:
        for change in KINDS[kind]:
            old, new = (held, free) if change == "left" else (free, held)
            p, q = np.multiply.outer(p, old).ravel(), np.multiply.outer(q, new).ravel()
            keep = (p > 1e-13) | (q > 1e-13)
            p, q = p[keep], q[keep]
    return p, q


@pytest.mark.parametrize("holders", [0, 1, 3, 15])
def test_iterations_that_change_less_are_within_the_claim(holders: int) -> None:
    """Law: a device that changes its cell in one iteration, or has something to report in one of
    two worlds only, is told apart no better than one that changes both cells in all."""
    devices, el = 4000, 7.0
    for epsilon in (0.5, 1.0, 2.0):
        claim = aggregate_delta(devices=devices, reports=2, local_epsilon=el, epsilon=epsilon)
        for first in KINDS:
            for second in KINDS:
                p, q = seen([first, second], devices, el, holders)
                for a, b in ((p, q), (q, p)):
                    assert np.maximum(a - math.exp(epsilon) * b, 0).sum() <= claim


@some("0", "3")
@pytest.mark.parametrize("holders", [0, 1, 3, 15])
def test_removed_data_are_within_the_claim_for_removal(holders: int) -> None:
    """Law: with data removed, or added, one cell of an iteration changes at most; three together
    are within the claim in both directions, and the claim for replacement is larger."""
    devices, el, kinds = 4000, 7.0, ["left", "left", "left"]
    for epsilon in (0.5, 1.0, 2.0):
        told = {"devices": devices, "reports": 3, "local_epsilon": el, "epsilon": epsilon}
        claim = aggregate_delta(**told, neighbours="remove")  # type: ignore[arg-type]
        for missing in range(3):
            p, q = seen(kinds[missing:], devices, el, holders)
            for a, b in ((p, q), (q, p)):
                assert np.maximum(a - math.exp(epsilon) * b, 0).sum() <= claim
        assert claim < aggregate_delta(**told)  # type: ignore[arg-type]


def test_replacement_accounted_for_as_removal_is_rejected() -> None:
    """Planted bug: one cell a report claims too little where two change."""
    p, q = seen(["replaced", "replaced"], 4000, 7.0)
    told = {"devices": 4000, "reports": 2, "local_epsilon": 7.0, "epsilon": 1.0}
    found = np.maximum(p - math.e * q, 0).sum()
    assert found > aggregate_delta(**told, neighbours="remove")  # type: ignore[arg-type]
    assert found <= aggregate_delta(**told)  # type: ignore[arg-type]


@pytest.mark.parametrize(("devices", "el"), [(10, 2.0), (100, 4.5)])
def test_holders_that_are_not_spared_are_rejected(devices: int, el: float) -> None:
    """Planted bug: accounting for all others as silent claims less than one holder shows; what is
    claimed for so few devices is nothing."""
    (unspared,) = aggregate._report_losses(devices - 1, 1, el, 1.3, "replace")
    claim = aggregate_delta(devices=devices, reports=1, local_epsilon=el, epsilon=1.3)
    assert unspared.delta(1.3) < exact(devices, el, 1.3, 1, 0) <= claim


def test_fewer_devices_never_hide_better() -> None:
    """Law: what is accounted for fewer reports holds for more; participation rests on it."""
    costs = [
        aggregate_delta(devices=n, reports=2, local_epsilon=6.0, epsilon=1.0)
        for n in (300, 400, 401, 1000, 5000)
    ]
    assert costs == sorted(costs, reverse=True)


def test_another_accountant_gives_the_same_delta() -> None:
    """dp-accounting, on the pair of cells for 1.6 million devices and 4 reports: within 1 %."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    el, k = 10.71, np.arange(600)
    rest = binom.pmf(k, MILLION - 1 - spare_holders(MILLION, el), silence(el))
    held, free = (
        {i: math.log(p) for i, p in enumerate(np.convolve(rest, [1 - c, c])) if p > 1e-60}
        for c in (0.5, silence(el))
    )
    grid = {"value_discretization_interval": 1e-4}
    left = pld.from_two_probability_mass_functions(free, held, **grid)
    came = pld.from_two_probability_mass_functions(held, free, **grid)
    theirs = left.compose(came).self_compose(4).get_delta_for_epsilon(1.0)
    ours = aggregate_delta(devices=MILLION, reports=4, local_epsilon=el, epsilon=1.0)
    assert ours == pytest.approx(theirs, rel=0.01)
