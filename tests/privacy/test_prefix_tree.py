"""Federated prefix trees: everything that the server sees of neighbours, enumerated, is as close as
claimed; and the same check rejects what would not be private."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpframe as dp
from dpframe.accounting.aggregate import aggregate_delta, silence
from dpframe.errors import BudgetError
from dpframe.questions.prefix_tree.ask import LARGEST_LIMIT
from dpframe.testing import seeded_noise
from tests.members import some

from .prefix_outputs import Held, World, divergences, shipped_law

EPSILONS = (0.0, 0.5, 1.0, 2.0)
DEVICES, EL = 20_000, 9.0
SINGLE: list[Held] = [(), (0,), (1,), (2,), (3,)]
SEVERAL: list[Held] = [*itertools.combinations(range(4), 2)]
"""What a device can hold: no items, one or two."""

FEW = [*itertools.combinations([*SINGLE, (0, 3)], 2)]
EVERY = [*itertools.combinations([*SINGLE, *SEVERAL], 2)]

OTHERS = {"nobody": (), "one each": (0, 2), "several": (0,) * 5 + (2,) * 4 + (3,)}


def claimed(reports: int = 2, el: float = EL, neighbours: Any = "replace") -> list[float]:
    return [
        aggregate_delta(
            devices=DEVICES, reports=reports, local_epsilon=el, epsilon=e, neighbours=neighbours
        )
        for e in EPSILONS
    ]


def world(others: tuple[int, ...] = OTHERS["several"], **more: Any) -> World:
    return World(others, DEVICES - 1 - len(others), EL, **more)


def above(found: list[float], claims: list[float]) -> bool:
    """Whether something is told apart better than claimed, at any epsilon."""
    return any(f > c for f, c in zip(found, claims, strict=True))


def check(here: World, pairs: list[tuple[Held, Held]]) -> None:
    """Within the claim at every epsilon, data replaced or removed."""
    replaced, removed = claimed(), claimed(neighbours="remove")
    for mine, other in pairs:
        found = divergences(here, mine, other, EPSILONS)
        assert not above(found, replaced)
        assert mine or not above(found, removed)


@some("nobody-True", "several-True")
@pytest.mark.parametrize(
    ("others", "conditioned"),
    [("nobody", True), ("one each", True), ("several", True), ("several", False)],
)
def test_no_two_devices_are_told_apart_better_than_claimed(others: str, conditioned: bool) -> None:
    """Law: for pairs of neighbours and every epsilon, the exact hockey stick of two adaptive
    iterations is within the claim."""
    check(world(OTHERS[others], conditioned=conditioned), FEW)


@pytest.mark.evidence
@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("others", OTHERS)
def test_no_pair_at_all_is_told_apart(others: str, conditioned: bool) -> None:
    """Law: as above, for every pair of data of up to two items."""
    check(world(OTHERS[others], conditioned=conditioned), EVERY)


def test_the_enumeration_is_complete() -> None:
    """Law: over all outcomes the law of what is seen adds up: at epsilon 0, of data from
    themselves, nothing is told apart."""
    for mine in ((), (0,), (0, 3)):
        assert divergences(world(), mine, mine, (0.0,))[0] < 1e-12


def test_a_forgotten_iteration_and_a_forgotten_cell_are_rejected() -> None:
    """Planted bugs: composing one report of two, or one cell of two, claims too little."""
    found = divergences(world(), (0,), (3,), EPSILONS)
    assert not above(found, claimed())
    assert above(found, claimed(reports=1))
    assert above(found, claimed(neighbours="remove"))


def test_silent_cells_that_report_too_rarely_are_rejected() -> None:
    """Planted bug: devices randomise with a larger local epsilon than is accounted for."""

    def rarer(holders: int, devices: int, el: float) -> Any:
        return shipped_law(holders, devices, el + 0.7)

    found = divergences(world((), law=rarer), (0,), (3,), EPSILONS)
    assert above(found, claimed())


def test_a_device_that_stays_silent_is_rejected() -> None:
    """Planted bug: a device without anything to report sends nothing in place of randomised zeros.

    Every cell then has one report less. The sum over all cells, which follows from what is seen,
    tells that alone: of the most cells that can be asked for, in one of two iterations, it is above
    the claim.
    """
    cells, a0 = LARGEST_LIMIT, silence(EL)
    mean, sd = cells * DEVICES * a0, (cells * DEVICES * a0) ** 0.5
    k = np.arange(int(mean - 12 * sd), int(mean + 12 * sd))
    there, gone = (binom.pmf(k, cells * n, a0) for n in (DEVICES, DEVICES - 1))
    found = [float(np.maximum(gone - np.exp(e) * there, 0).sum()) for e in EPSILONS]
    assert above(found, claimed(neighbours="remove"))
    assert above(found, claimed())


# -- what is public ------------------------------------------------------------------------------

NOT_OF_DATA = ("release_id", "time")


def released(words: list[str | None], **more: Any) -> pd.DataFrame:
    users = [f"u{i}" for i in range(len(words))]
    frame = pd.DataFrame({"u": users, "w": pd.Series(words, dtype="str")})
    asked = {"user": "u", "epsilon": 16.0, "delta": 1e-4, "iterations": 2, "length": 20, **more}
    with seeded_noise(7):
        return dp.prefix_tree(frame, "w", **{"limit": 2**12, **asked})


@some(0, 2)
@pytest.mark.parametrize(
    "more",
    [{}, {"participation": 0.5}, {"devices": 500}, {"mechanism": "gaussian", "epsilon": 4.0}],
)
def test_receipts_depend_on_the_number_of_users_alone(more: dict[str, Any]) -> None:
    """Law: whatever users hold, or nothing at all, the receipt is the same."""
    worlds = [["ab"] * 800, [f"x{i}" for i in range(800)], [None] * 800, ["\0" * 99] * 799 + [""]]
    receipts = [released(words, **more).attrs["dp"] for words in worlds]
    facts = [{k: v for k, v in r.items() if k not in NOT_OF_DATA} for r in receipts]
    assert all(f == facts[0] for f in facts)
    fewer = released(["ab"] * 700, **more).attrs["dp"]
    assert fewer["devices"] == 700
    assert facts[0]["devices"] == 800


def test_refusals_say_nothing_of_the_data() -> None:
    """Law: too few users are refused with the same words, whatever they hold."""
    said = set()
    for words in (["secret"] * 90, [None] * 90):
        with pytest.raises(BudgetError) as refused:
            released(words)
        said.add(str(refused.value))
    assert len(said) == 1
    assert "secret" not in said.pop()


def test_the_claim_is_that_of_the_plan() -> None:
    """Law: what the receipt claims is what the accountant says of the local epsilon that is drawn
    with, with a part for participation and for tables, within delta."""
    for more in ({}, {"participation": 0.5}, {"devices": 500}, {"neighbours": "remove"}):
        facts = released(["ab"] * 800, **more).attrs["dp"]
        spent = aggregate_delta(
            devices=facts["reporting"], reports=facts["reports"],
            local_epsilon=facts["local_epsilon"], epsilon=16.0,
            neighbours=more.get("neighbours", "replace"),  # type: ignore[arg-type]
        )  # fmt: skip
        assert spent < facts["computed_delta"] <= 1e-4
        assert facts["reporting"] <= facts["devices"]
        if "participation" in more:
            missed = binom.cdf(facts["reporting"] - 1, facts["devices"], 0.5)
            assert facts["computed_delta"] >= spent + facts["reports"] * missed


def test_worlds_are_what_they_say() -> None:
    """The twin of the check: the shipped search hands the cells on that devices hold."""
    here = dataclasses.replace(world((0, 2)), silent=5)
    ((one, two), *_) = here.held((3,), (9, 9))
    assert dict(one) == {0: 1, 1: 2}
    assert dict(two) == {0: 1, 2: 1, 3: 1}
