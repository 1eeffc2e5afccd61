"""A rollup with values in bins, enumerated: for all neighbours, divergence <= the claimed delta.

Selection and measures together, for every pooling that noisy numbers of values can call for, from
the shipped statements on small frames: see ``rollup_outputs``. Planted bugs in any of the steps
must be rejected by the same comparison.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import dpframe as dp
from dpframe.measures import measure as dpm
from dpframe.measures.bins import Bins
from dpframe.mechanisms import rollup
from dpframe.mechanisms.rollup import BinLaw
from dpframe.questions.rollup.plan import RollupPlan
from dpframe.sources import node_values, rollup_parts

from .rollup_outputs import (
    Law,
    Pooling,
    Row,
    counted_by,
    furthest,
    largest_loss,
    law_of,
    law_of_counted,
    plan_of,
    table_of,
)
from .test_rollup import LISTED, RECORDS, SELECTED, SHARES, USERS, rows_near

FEW: Any = dp.median("v", lower=0, upper=6, bins=[2, 4])
GROUPED: Any = dp.histogram("v", lower=-3, upper=8, bins=48, spacing="even")
NODES = 6
"""Listed keys, the nodes above them and the root."""

SOME: list[Pooling] = [lambda place: False, lambda place: True, lambda place: place % 2 > 0]
EVERY: list[Pooling] = [
    lambda place, chosen=chosen: bool(chosen >> place & 1)
    for chosen in range(0, 2**NODES, 2)
    if not chosen & 0b1100 or chosen & 0b10  # a node below another one is not apart alone
    if not chosen & 0b100000 or chosen & 0b10000
]
"""Which of the nodes, in their order, are parts of their own: a, its two nodes, b and its node."""

DIVIDED: list[list[Row]] = [
    [("new", "a", "x", 1.0), ("new", "a", "x", 3.0), ("new", "a", "y", 1.0)],
    [("new", a, b, v) for a in "abc" for b in "xyz" for v in (-9.0, 1.0, 5.0, 9.0)],
    [("new", "b", "z", 1.0)] * 7 + [("new", "b", "z", 3.0), ("new", "b", "z", None)],
]
"""Users with several values, in one bin and in many."""


def units_of(plan: RollupPlan) -> Sequence[Sequence[Row]]:
    return RECORDS if plan.unit.user is None else [*USERS, *DIVIDED]


def pairs_of(
    plan: RollupPlan, base: Sequence[Row], added: Any, several: Sequence[Pooling]
) -> Iterator[list[tuple[Law, Law]]]:
    """Laws of a table and of its neighbours, for each pooling."""
    tables = [counted_by(plan, table_of([*base, *unit])) for unit in ([], *added)]
    for enough in several:
        law, *others = (law_of_counted(plan, counted, None, enough) for counted in tables)
        yield [(law, other) for other in others]


def loss_of(p: Law, q: Law) -> Fraction | float:
    """The largest loss; infinite where one neighbour alone shows something."""
    return largest_loss(p, q) if p.keys() == q.keys() else math.inf


def test_every_pooling_of_listed_keys_is_tried() -> None:
    """Law: all 15 sets of nodes with all nodes above them: 5 of the node with two below it, times 3
    of the node with one."""
    plan = plan_of({"m": FEW}, **LISTED)
    seen = {shown[NODES:] for each in EVERY for shown in law_of(plan, table_of([]), None, each)}
    assert len(seen) == 5 * 3


@pytest.mark.parametrize("measure", [FEW, GROUPED], ids=["bins", "groups"])
@pytest.mark.parametrize("user", [None, "u"])
def test_no_neighbour_in_bins_loses_more_than_epsilon(user: str | None, measure: Any) -> None:
    """Law: whatever is pooled, numbers of values, bins and groups together lose at most epsilon, in
    exact fractions. Some record and some user use all that is paid for."""
    plan = plan_of({"m": measure}, user=user, **LISTED)
    assert bool(plan.binned["m"].vectors.bins.groups) is (measure is GROUPED)
    assert plan.delta_spent == 0
    several = EVERY if measure is FEW else SOME
    found = pairs_of(plan, rows_near(3), units_of(plan), several)
    losses = [loss_of(p, q) for pairs in found for p, q in pairs]
    assert 0.99 * plan.epsilon_spent < max(losses) <= plan.epsilon_spent == 2


@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize(
    "added",
    [
        pytest.param(lambda units: [units[0], units[-2]], id="two"),
        pytest.param(lambda units: units, id="all", marks=pytest.mark.evidence),
    ],
)
def test_no_neighbour_of_a_selection_with_bins_is_further_than_claimed(
    added: Any, user: Any
) -> None:
    """Law: D <= delta at epsilon, both ways, for selection, counts and bins together."""
    measures = {
        "n": dpm.count(),
        "few": FEW,
        "many": GROUPED,
        "mean": dpm.mean("v", lower=0, upper=10),
    }
    plan = plan_of(measures, user=user, **SELECTED, **SHARES[user])
    assert plan.selection is not None
    base = rows_near(plan.selection.threshold)
    measured = plan.epsilon_spent - Fraction(plan.selection.budget.epsilon)
    for pairs in pairs_of(plan, base, added(units_of(plan)), SOME):
        for p, q in pairs:
            assert furthest(p, q, plan.epsilon_spent)[1] <= plan.delta_spent
        assert any(p[shown].mass != q[shown].mass for p, q in pairs for shown in {*p} & {*q})
        assert max(largest_loss(p, q) for p, q in pairs) > 0.7 * measured


# -- planted bugs --------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def edges_from_data(patch: pytest.MonkeyPatch) -> None:
    """The outermost edges are those of the values that there are."""
    in_bins = rollup_parts.RowParts.in_bins

    def planted(self: Any, vectors: Any, nodes: Any) -> Any:
        values = [v for v in self.source["v"].to_pylist() if v is not None and math.isfinite(v)]
        low, high = min(values), max(values)
        edges = np.linspace(low, high, len(vectors.bins.edges)).tolist()
        return in_bins(self, dataclasses.replace(vectors, bins=Bins(tuple(edges))), nodes)

    patch.setattr(rollup_parts.RowParts, "in_bins", planted)


def changed_statement(old: str, new: str) -> Plant:
    """The statement of bins, with another text in the place of one."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        made = node_values.bins_statement

        def planted(*given: Any, **more: Any) -> str:
            text = made(*given, **more)
            assert text.count(old) == 1
            return text.replace(old, new)

        patch.setattr(node_values, "bins_statement", planted)

    return plant


def pooled_by_true_numbers(patch: pytest.MonkeyPatch) -> None:
    estimate = rollup._vector_estimate

    def planted(exact: Any, level: Any, forest: Any, paid: Any, weights: Any) -> Any:
        found = estimate(exact, level, forest, paid, weights)
        return dataclasses.replace(found, total=rollup.subtree_sums(exact, forest))

    patch.setattr(rollup, "_vector_estimate", planted)


WEIGHT = "(1048576 * n) // all_n"
BY_STATEMENT: dict[str, tuple[str | None, Plant]] = {
    "edges from data": (None, edges_from_data),
    "edges from data of users": ("u", edges_from_data),
    "a user in two bins": ("u", changed_statement(WEIGHT, "1048576")),
    "a user in two parts": (
        "u",
        changed_statement(WEIGHT, "(1048576 * n) // (sum(n) OVER (PARTITION BY sums.u, part))"),
    ),
    "weights that are clipped beyond a unit": (
        "u",
        changed_statement(WEIGHT, "1048576 * least(n, 3)"),
    ),
    "a record in two bins": (
        None,
        changed_statement("AS code, v FROM", "AS code, unnest([v, v + 2]) AS v FROM"),
    ),
    "parts by true numbers": (None, pooled_by_true_numbers),
}


@pytest.mark.parametrize("name", BY_STATEMENT)
def test_planted_bugs_are_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bugs: some neighbour certainly loses more than epsilon, where all nodes or none are
    parts of their own; without them none does.

    The noisy numbers that a pooling needs are on that side of the true ones where their own
    likelihood ratio is largest, so that the loss is attained.
    """
    user, plant = BY_STATEMENT[name]
    few = plant is pooled_by_true_numbers
    spent = plan_of({"m": FEW}, user=user, **LISTED).epsilon_spent
    assert _loss_without_bugs(user, few) <= spent
    plant(monkeypatch)
    assert _largest_loss(user, few) > spent


def _largest_loss(user: str | None, few: bool) -> Fraction | float:
    """Of neighbours of a table, in which one node has as ``few`` values as a part needs."""
    plan = plan_of({"m": FEW}, user=user, **LISTED)
    base: list[Row] = rows_near(3)
    if few:
        base = [(f"{i}", "a", "x", 1.0) for i in range(plan.binned["m"].fewest - 1)]
    found = pairs_of(plan, base, units_of(plan), SOME[:2])
    return max(loss_of(p, q) for pairs in found for p, q in pairs)


_loss_without_bugs = cache(_largest_loss)


class PlantedLaw(BinLaw):
    """A tenth of this epsilon was paid."""

    @property
    def size_epsilon(self) -> Fraction:
        return rollup.SIZE_SHARE * self.paid

    @property
    def paid(self) -> Fraction:
        return self.epsilon / 10

    @property
    def rest(self) -> Fraction:
        return self.paid - self.size_epsilon


class GroupsForNothing(PlantedLaw):
    """Groups have as much as bins, which have all."""

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        return self.rest, self.rest


class SizesForNothing(PlantedLaw):
    """Bins and groups have all of epsilon, and numbers of values their part of it."""

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        return tuple(share * self.paid for share in self.vectors.bins.shares if share)


class PaidLaw(PlantedLaw):
    """No bug: what was paid is spent."""


@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize("planted", [GroupsForNothing, SizesForNothing])
def test_draws_that_are_not_paid_for_are_rejected(planted: Any, user: str | None) -> None:
    """Planted bugs: groups of bins, or numbers of values, that nobody paid for."""
    plan = plan_of({"m": GROUPED}, user=user, **LISTED)
    (law,) = plan.binned.values()
    added = units_of(plan)[:1]

    def largest(kind: Any) -> Fraction | float:
        own = kind(vectors=law.vectors, epsilon=10 * law.epsilon, at=law.at)
        other = dataclasses.replace(plan, binned={"m": own})
        (pairs,) = pairs_of(other, rows_near(3), added, SOME[1:2])
        return max(loss_of(p, q) for p, q in pairs)

    assert largest(PaidLaw) <= plan.epsilon_spent < largest(planted)


def test_epsilon_of_every_draw_is_checked_before_it_is_drawn() -> None:
    """Law: what the numbers of values, bins and groups cost is at most what was paid."""
    plan = plan_of({"m": GROUPED}, **LISTED)
    (law,) = plan.binned.values()

    class Generous(BinLaw):
        @property
        def epsilons(self) -> tuple[Fraction, ...]:
            return self.rest, self.rest

    own = Generous(vectors=law.vectors, epsilon=law.epsilon, at=law.at)
    with pytest.raises(AssertionError):
        law_of(dataclasses.replace(plan, binned={"m": own}), table_of(rows_near(3)))


@pytest.mark.parametrize("each", ["total", "mean"])
def test_no_user_whose_totals_are_in_bins_loses_more_than_epsilon(each: Any) -> None:
    """Law: a user has one unit at each level, divided over their nodes, and at the root; all that
    is lost together is at most epsilon. Planted bug: one unit at every node."""
    measure = dp.quantile("v", 0.9, lower=-3, upper=8, bins=48, each=each)
    plan = plan_of({"m": measure}, user="u", **LISTED)

    def largest() -> Fraction | float:
        found = pairs_of(plan, rows_near(3), units_of(plan), SOME[1:2])
        return max(loss_of(p, q) for pairs in found for p, q in pairs)

    assert 0.99 * plan.epsilon_spent < largest() <= plan.epsilon_spent
    with pytest.MonkeyPatch.context() as patch:
        changed_statement("1048576 // k AS n", "1048576 AS n")(patch)
        assert largest() > plan.epsilon_spent


def test_what_is_empty_has_noise_too() -> None:
    """Law: a table without rows, or without a value, has as many noisy numbers as any other, one
    for every node, every bin and every group of bins."""
    plan = plan_of({"m": FEW, "h": GROUPED}, **LISTED)
    nothing: list[Row] = [
        ("1", "a", "x", None),
        ("2", "b", "z", math.nan),
        ("3", "q", "q", math.inf),
    ]
    laws = [law_of(plan, table_of(rows), None, SOME[1]) for rows in ([], nothing, rows_near(3))]
    assert largest_loss(*laws[:2]) == 0
    assert len({len(one.numbers) for law in laws for one in law.values()}) == 1
    ((found,), *_) = (law.values() for law in laws)
    assert len(found.numbers) >= sum(
        NODES * (1 + m.bins.size + len(m.bins.groups)) for m in (FEW, GROUPED)
    )
