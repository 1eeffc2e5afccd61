"""A sum that is read from what a mean draws: paid for once, drawn once, and the sum that it says.

Whole releases, enumerated as in ``test_rollup``.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import pytest

from dpframe import measures as dpm
from dpframe.measures import vectors_of
from dpframe.mechanisms import rollup as mechanism
from dpframe.mechanisms.rollup import VectorCharge, vector_charges
from dpframe.questions.rollup.plan import RollupPlan

from .rollup_outputs import (
    Row,
    counted_by,
    furthest,
    largest_loss,
    listened,
    plan_of,
    run_with,
    table_of,
)
from .test_rollup import LISTED, RECORDS, SELECTED, compared, rejected, rows_near

SHARED: dict[str, dpm.Measure] = {
    "n": dpm.count(),
    "total": dpm.sum("v", lower=0, upper=10, share=2),
    "mean": dpm.mean("v", lower=0, upper=10),
    "again": dpm.sum("v", lower=0, upper=10, clipped=True),
    "other": dpm.sum("v", lower=0, upper=9),
}


@pytest.mark.parametrize("given", [SELECTED, LISTED], ids=["selected", "listed"])
def test_no_neighbour_of_shared_vectors_is_further_than_claimed(given: Any) -> None:
    """Law: D <= delta at epsilon, both ways, and some record uses all that is paid for."""
    plan = plan_of(SHARED, **given)
    assert set(plan.read) == {"total", "again"}
    base = rows_near(3 if plan.selection is None else plan.selection.threshold)
    pairs = compared(plan, base, RECORDS)
    own = 0 if plan.selection is None else Fraction(plan.selection.budget.epsilon)
    for p, q in pairs:
        assert furthest(p, q, plan.epsilon_spent)[1] <= plan.delta_spent
    measured = plan.epsilon_spent - own
    assert 0.9 * measured < max(largest_loss(p, q) for p, q in pairs) <= measured
    assert rejected(plan, pairs, measured / 2)


def _sums_drawn_again(plan: RollupPlan) -> RollupPlan:
    """The sum has noise of its own, too, which nobody paid for."""
    ((sum_,), _) = vectors_of(SHARED["total"], by_user=False)[0]
    whole = plan.paid["mean"][0].epsilon
    return dataclasses.replace(
        plan,
        paid={**plan.paid, "total": (VectorCharge(sum_, whole),)},
        read={"again": plan.read["again"]},
    )


def _paid_twice_over(plan: RollupPlan) -> RollupPlan:
    """The mean has what its sums give, and the sums keep it."""
    own = {name: vector_charges(SHARED[name], Fraction(1), by_user=False) for name in plan.read}
    return dataclasses.replace(plan, paid={**plan.paid, **own}, read={})


def _one_of_the_pair(plan: RollupPlan) -> RollupPlan:
    """Of a pair that one record moves together each vector has the noise of one that it would move
    by half."""
    pair = tuple(dataclasses.replace(p, epsilon=2 * p.epsilon) for p in plan.paid["mean"])
    return dataclasses.replace(plan, paid={**plan.paid, "mean": pair})


@pytest.mark.parametrize("planted", [_sums_drawn_again, _paid_twice_over, _one_of_the_pair])
def test_shared_vectors_that_are_drawn_twice_are_rejected(planted: Any) -> None:
    """Planted bugs: charged once and drawn twice; the joint sensitivity without one of the two."""
    plan = plan_of(SHARED, **LISTED)
    added = [[("new", "a", "x", value)] for value in (10.0, 0.0, 5.0)]
    assert not rejected(plan, compared(plan, rows_near(3), added), plan.epsilon_spent)
    assert rejected(plan, compared(planted(plan), rows_near(3), added), plan.epsilon_spent)


def exact_totals(lower: float, upper: float, rows: list[Row]) -> tuple[int, int]:
    """The sum of everything in steps, read from a mean and drawn alone, without noise."""
    totals = []
    for names in (("s", "m"), ("s",)):
        every = {"m": dpm.mean("v", lower=lower, upper=upper),
                 "s": dpm.sum("v", lower=lower, upper=upper)}  # fmt: skip
        plan = plan_of({name: every[name] for name in names}, **LISTED)
        assert bool(plan.read) == (len(names) > 1)
        with listened():
            found = run_with(plan, counted_by(plan, table_of(rows)), None).measures["s"]
        assert found[0].vector == vector_charges(every["s"], Fraction(1), by_user=False)[0].vector
        totals.append(int(found[0].total[0]))
    return totals[0], totals[1]


@pytest.mark.parametrize(("lower", "upper"), [(0, 10), (-10, 0)])
def test_what_is_read_is_the_sum(
    lower: float, upper: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: without noise the sum that is read is the one that is drawn alone, whatever is NULL or
    beyond the bounds. Planted bug: the other vector of the pair."""
    rows: list[Row] = [("1", "a", "x", v) for v in (3.0, -4.5, 99.0, -99.0, None, float("nan"))]
    one, other = exact_totals(lower, upper, rows)
    assert one == other != 0
    honest = mechanism._sum_of
    monkeypatch.setattr(mechanism, "_sum_of", lambda pair: honest(pair[::-1]))
    one, other = exact_totals(lower, upper, rows)
    assert one != other


def test_a_sum_beside_its_mean_costs_what_the_mean_alone_costs() -> None:
    """Law: both have the noise that either would have alone; the receipt tells it, and every part
    of the budget once."""
    both = plan_of({"s": SHARED["total"], "m": SHARED["mean"]}, **LISTED)
    alone = plan_of({"m": SHARED["mean"]}, **LISTED)
    assert both.paid == {"s": (), "m": alone.paid["m"]}
    assert both.errors == {"s": both.errors["s"], "m": alone.errors["m"]}
    assert both.errors["s"] == plan_of({"s": SHARED["total"]}, **LISTED).errors["s"]
    assert [both.epsilon_of(name) for name in ("s", "m")] == [Fraction(4, 3), Fraction(2, 3)]
    assert both.epsilon_spent == alone.epsilon_spent == 2
    lines = [line.meaning_text for line in both.lines() if line.name == "s"]
    assert lines == ["epsilon 1.333; adds up; read from what m draws for both"]


@pytest.mark.parametrize(
    ("user", "other"),
    [
        ("u", dpm.mean("v", lower=0, upper=10)),
        (None, dpm.mean("v", lower=0, upper=9)),
        (None, dpm.mean("u", lower=0, upper=10)),
        (None, dpm.mean("v", lower=0, upper="auto")),
    ],
)
def test_what_is_not_of_the_same_values_is_drawn_apart(user: str | None, other: Any) -> None:
    """Law: other bounds, another column, bounds of totals or bounds that are searched; nor is a sum
    one of the two vectors where no bound is 0."""
    plan = plan_of({"s": SHARED["total"], "m": other}, user=user, **LISTED)
    assert not plan.read
    assert plan.paid["s"]
    inside = {"s": dpm.sum("v", lower=-1, upper=10), "m": dpm.mean("v", lower=-1, upper=10)}
    assert not plan_of(inside, **LISTED).read
