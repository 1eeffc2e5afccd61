"""A whole rollup, enumerated: for all neighbours, divergence <= the claimed delta.

Selection and measures together, from the shipped statements on small frames: see
``rollup_outputs``. Planted bugs in any of the steps must be rejected by the same comparison. A sum
that is read from what a mean draws is paid for once, drawn once, and the sum that it says.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpframe as dp
from dpframe.measures import measure as dpm
from dpframe.measures.measure import GRID, LARGEST, Vector, vectors_of
from dpframe.measures.measure import LEAST as FIRST
from dpframe.mechanisms import rollup
from dpframe.mechanisms.rollup import VectorCharge, vector_charges
from dpframe.questions.rollup.plan import RollupPlan
from dpframe.sources import node_values, rollup_parts
from dpframe.sources import segment_places as parts_statement
from dpframe.sources.portable_sql import Summand
from tests.members import some

from .enumerate_outputs import ScriptedCoins, every_script
from .rollup_outputs import (
    Law,
    Row,
    counted_by,
    furthest,
    largest_loss,
    law_of,
    listened,
    plan_of,
    run_with,
    shown_of,
    table_of,
)

SELECTED: Any = {"epsilon": 9.0, "delta": 1e-2}
SHARES: Any = {None: {}, "u": {"contribution": "share"}}
"""How nodes are selected, by user; rounds are enumerated in ``test_rounds_with_measures``."""

LISTED: Any = {"epsilon": 2.0, "keys": [("a", "x"), ("a", "y"), ("b", "z")]}

SEVERAL: dict[str, dpm.Measure] = {
    "n": dpm.count(),
    "total": dpm.sum("v", lower=-2, upper=5, share=2),
    "mean": dpm.mean("v", lower=0, upper=10),
}
BY_USER = {**SEVERAL, "rows": dpm.count(at_most=2)}

VALUES = (1e9, -1e300, 5.0, 4.9999999999, -2.0, math.nan, math.inf, -math.inf, None, 5e-324)
"""Above, below and at the bounds, and no value at all."""


def rows_near(threshold: int) -> list[Row]:
    """Nodes just below, at and above the threshold, and others that are never selected."""
    near = [(f"near {i}", "a", "x", float(i % 7)) for i in range(threshold - 1)]
    above = [(f"above {i}", "b", "z", -1.5 * i) for i in range(threshold + 1)]
    return [*near, *above, ("w", "a", "y", 3.0), (None, None, "x", None), ("w2", "c", "x", 1e400)]


RECORDS: list[list[Row]] = [
    *([("new", "a", "x", value)] for value in VALUES),
    [("new", "a", "q", 9.0)],
    [("new", "z", "z", -9.0)],
    [("new", None, None, 9.0)],
]

USERS: list[list[Row]] = [
    [("new", "a", "x", 9.0), ("new", "b", "z", 9.0)],
    [("new", "a", "x", 9.0), ("new", "b", "z", -9.0)],
    [("new", "a", "x", 2.5), ("new", "a", "y", 2.5)],  # at the bound
    [("new", "a", "x", 2.5), ("new", "b", "z", 2.6), ("new", "c", "x", -0.5)],  # just above
    [("new", "a", "x", value) for value in VALUES],
    [("new", "b", "z", None), ("new", "a", "x", None), ("new", "a", "x", 10.0)],
    [("new", a, b, 1e300) for a in "abc" for b in "xyz"],
    [("new", "z", f"{i}", -1.0) for i in range(7)],
    [("new", None, "x", 4.0), ("new", "b", None, math.nan)],
]


def compared(
    plan: RollupPlan, base: Sequence[Row], added: Any = None, given: Sequence[int] | None = None
) -> list[tuple[Law, Law]]:
    """Laws of a table and of its neighbours."""
    law, by_user = law_of(plan, table_of(base), given), plan.unit.user is not None
    units = (USERS if by_user else RECORDS) if added is None else added
    return [(law, law_of(plan, table_of([*base, *unit]), given)) for unit in units]


def rejected(plan: RollupPlan, pairs: Sequence[tuple[Law, Law]], epsilon: Fraction) -> bool:
    """Whether some pair is certainly further apart than is claimed."""
    return any(furthest(p, q, epsilon)[0] > plan.delta_spent for p, q in pairs)


def as_claimed(plan: RollupPlan, pairs: Sequence[tuple[Law, Law]]) -> Fraction:
    """D <= delta at epsilon, both ways; what is left for the measures. Half would not be enough."""
    for p, q in pairs:
        assert furthest(p, q, plan.epsilon_spent)[1] <= plan.delta_spent
    own = 0 if plan.selection is None else Fraction(plan.selection.budget.epsilon)
    assert rejected(plan, pairs, (plan.epsilon_spent - own) / 2)
    return plan.epsilon_spent - own


def no_loss_above(plan: RollupPlan, pairs: Sequence[tuple[Law, Law]]) -> Fraction:
    """The largest loss, of at most epsilon; delta is 0."""
    assert plan.delta_spent == 0
    for p, q in pairs:
        assert largest_loss(p, q) <= plan.epsilon_spent <= Fraction(plan.budget.epsilon)
        assert furthest(p, q, plan.epsilon_spent) == (0, 0)
    return max(largest_loss(p, q) for p, q in pairs)


@pytest.mark.parametrize("user", [None, "u"])
def test_no_neighbour_of_a_selection_with_measures_is_further_than_claimed(user: Any) -> None:
    """Law: D <= delta at epsilon, both ways, for selection and all noisy vectors together.

    The comparison is not empty: selections differ, and some unit uses all of what is paid for.
    """
    plan = plan_of(SEVERAL if user is None else BY_USER, user=user, **SELECTED, **SHARES[user])
    assert plan.selection is not None
    pairs = compared(plan, rows_near(plan.selection.threshold))
    measured = as_claimed(plan, pairs)
    assert 0.9 * measured < max(largest_loss(p, q) for p, q in pairs) <= measured
    assert all(len(p) > 2 for p, _ in pairs)
    assert any(p[shown].mass != q[shown].mass for p, q in pairs for shown in p.keys() & q.keys())


@pytest.mark.parametrize("user", [None, "u"])
def test_no_neighbour_of_a_selection_by_a_measure_is_further_than_claimed(user: str | None) -> None:
    """Law: the same where a sum decides what is shown: it is measured again, and paid for twice."""
    measures = {"n": dpm.count(), "total": dpm.sum("v", lower=0, upper=5)}
    plan = plan_of(measures, user=user, heavy="total", **SELECTED)
    assert plan.selection is not None
    near = int(plan.selection.threshold / 5)
    base: list[Row] = [(f"{i}", "a", "x", 5.0) for i in range(near)]
    base += [(f"w{i}", "b", "z", 2.5) for i in range(2 * near)]
    pairs = compared(plan, base)
    as_claimed(plan, pairs)
    assert all(len(p) > 2 for p, _ in pairs)


@pytest.mark.parametrize("user", [None, "u"])
def test_no_neighbour_of_listed_measures_loses_more_than_epsilon(user: str | None) -> None:
    """Law: with listed keys the loss is at most epsilon, in exact fractions; delta is 0."""
    several = {
        **(SEVERAL if user is None else BY_USER),
        "values": dpm.distinct("v", at_most=None if user is None else 2),
        "cut": dpm.sum("v", lower=-2, upper=5, clipped=True),
    }
    plan = plan_of(several, user=user, **LISTED)
    assert no_loss_above(plan, compared(plan, rows_near(3))) > plan.epsilon_spent / 2


def _not_normalised(patch: pytest.MonkeyPatch) -> None:
    """The importance of levels as their weights, and all of epsilon for the parts."""

    def planted(*args: Any, importance: Any, **known: Any) -> Any:
        return {rollup.PARTS: Fraction(1), **{at: Fraction(w) for at, w in enumerate(importance)}}

    patch.setattr(rollup, "level_strategy", planted)
    patch.setattr(rollup, "measured_parts_cost", lambda scales, *, most: Fraction(0))


@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize("importance", ["even", {"a": 3, "b": 1}, [1, 0, 0], [0.5, 1, 2]])
def test_no_neighbour_of_important_levels_loses_more_than_epsilon(
    importance: Any, user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: however important levels are, all parts and levels together lose at most epsilon, and
    nearly that. Planted bug: weights that do not add up to 1 lose more."""
    measures = {"n": dpm.count(), "total": dpm.sum("v", lower=-2, upper=5)}
    plan = plan_of(measures, user=user, level_importance=importance, **LISTED)
    assert no_loss_above(plan, compared(plan, rows_near(3))) > 0.9 * plan.epsilon_spent
    if importance != "even":
        _not_normalised(monkeypatch)
        with pytest.raises(AssertionError):
            no_loss_above(plan, compared(plan, rows_near(3)))


@some("-30-None", "2-None", "49-u")
@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize("exponent", [FIRST, 2, LARGEST])
def test_bounds_that_are_found_are_paid_for(user: str | None, exponent: int) -> None:
    """Law: the histograms of magnitudes and what is measured with their bounds, all together."""
    several = {
        "total": dpm.sum("v", lower="auto", upper="auto"),
        "mean": dpm.mean("v", lower=0, upper="auto"),
    }
    plan = plan_of(several, user=user, **LISTED)
    found = [0] * (LARGEST - FIRST + 1)
    found[exponent - FIRST] = 10**6
    pairs = compared(plan, rows_near(3), given=found)
    assert no_loss_above(plan, pairs) > plan.epsilon_spent / 4


@pytest.mark.parametrize("user", [None, "u"])
def test_the_rest_of_the_output_is_a_function_of_the_noisy_numbers(
    user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: with the same noisy numbers, neighbours that show the same nodes release the same."""
    measures = {
        **(SEVERAL if user is None else BY_USER),
        "auto": dpm.sum("v", lower=0, upper="auto"),
        "median": dp.median("v", lower=-3, upper=8, bins="whole"),
    }
    plan = plan_of(measures, user=user, **SELECTED, **SHARES[user])
    assert plan.selection is not None
    test = plan.selection.test_noise

    def parts_run(exact: Any, totals: Any, level: Any, *, scales: Any) -> Any:
        above = {at: np.full((level == at).sum(), 90) for at in scales if at >= 0}
        return np.arange(len(exact)).astype(object), above

    monkeypatch.setattr(rollup, "run_measured_parts", parts_run)
    monkeypatch.setattr(rollup, "run_node_counts", lambda exact, *, noise: np.full(len(exact), 3))
    monkeypatch.setattr(rollup, "run_auto_bounds", lambda exact, *, epsilon: np.arange(len(exact)))
    monkeypatch.setattr(rollup, "run_bins", lambda exact, *, scale: 0 * exact + 9)
    seen: dict[object, object] = {}
    base = rows_near(plan.selection.threshold)
    for rows in (base, *([*base, *unit] for unit in (RECORDS if user is None else USERS)[::4])):
        counted = counted_by(plan, table_of(rows))
        for _, noisy in every_script(
            lambda script, counted=counted: run_with(plan, counted, ScriptedCoins(test, script))
        ):
            frame = plan.frame(noisy).to_dict("list")
            assert seen.setdefault(shown_of(noisy.nodes), repr(frame)) == repr(frame)
    assert len(seen) > 2


# -- planted bugs --------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _node_by_node(i: int, vector: Vector, arithmetic: object) -> str:
    """What a user has is cut in every part, and not in all of them together."""
    if vector.kind == "sum":
        return f"least(greatest(coalesce(x{i}, 0), {vector.bounds.low}), {vector.bounds.high})"
    return f"least({GRID}::HUGEINT * m, {vector.most})"


def _patched(target: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(target, name, value)


def _null_is_a_value(patch: pytest.MonkeyPatch) -> None:
    sums = rollup_parts.sums_of

    def planted(vectors: Any) -> Any:
        row = Summand(kind="row")
        return {n: row if n.startswith("y") else one for n, one in sums(vectors).items()}

    patch.setattr(rollup_parts, "sums_of", planted)


def _both_above(patch: pytest.MonkeyPatch) -> None:
    """Both vectors of a mean count from the lower bound, which one value moves by twice as much."""
    of_groups = rollup_parts._of_groups

    def planted(measured: Any, vectors: Any, *rest: Any) -> Any:
        same = [dataclasses.replace(v, kind="above") if v.kind == "below" else v for v in vectors]
        return of_groups(measured, same, *rest)

    patch.setattr(rollup_parts, "_of_groups", planted)


def _rounded_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollup, "rounded_up", lambda scale: Fraction(math.floor(scale * 3), 3))
    patch.setattr(rollup, "measured_parts_cost", lambda scales, *, most: Fraction(0))


def _levels_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        rollup, "level_strategy", lambda *a, **k: {rollup.PARTS: Fraction(1), 1: Fraction(1)}
    )
    patch.setattr(rollup, "measured_parts_cost", lambda scales, *, most: Fraction(0))


def _every_pair(patch: pytest.MonkeyPatch) -> None:
    match = node_values.matched_values

    def planted(held: Any, nodes: int, most: int, *, root: bool) -> Any:
        return match(held, nodes, 10**6, root=root)

    patch.setattr(node_values, "matched_values", planted)


PART_BY_PART = _patched(parts_statement, "of_user", _node_by_node)
NARROW = {"mean": dpm.mean("v", lower=4, upper=6)}
PLANTED: dict[str, tuple[str | None, dict[str, dpm.Measure], Plant]] = {
    "a user counts in every part": ("u", {"n": dpm.count()}, PART_BY_PART),
    "sums are cut part by part": ("u", {"total": SEVERAL["total"]}, PART_BY_PART),
    "a mean whose vectors do not share what moves them": (None, NARROW, _both_above),
    "NULL counted in a mean": (None, NARROW, _null_is_a_value),
    "scales rounded down": (None, {"n": dpm.count()}, _rounded_down),
    "levels above the parts not paid for": (None, {"n": dpm.count()}, _levels_for_nothing),
    "all values of a user are counted": ("u", {"d": dpm.distinct("v", at_most=1)}, _every_pair),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bugs: the comparison above certainly fails, and without them it holds."""
    user, measures, plant = PLANTED[name]
    plan = plan_of(measures, user=user, **{**LISTED, "epsilon": 1.3})
    assert not rejected(plan, compared(plan, rows_near(3)), plan.epsilon_spent)
    plant(monkeypatch)
    assert rejected(plan, compared(plan, rows_near(3)), plan.epsilon_spent)


@pytest.mark.parametrize("given", [SELECTED, LISTED], ids=["selected", "listed"])
def test_a_measure_that_is_not_paid_for_is_rejected(given: Any) -> None:
    """Planted bug: each of several measures spends what all of them were given."""
    plan = plan_of(SEVERAL, **given)
    base, added = rows_near(4), [[("new", "a", "x", 9.0)]]
    assert not rejected(plan, compared(plan, base, added), plan.epsilon_spent)
    twice = {
        name: tuple(dataclasses.replace(p, epsilon=4 * p.epsilon) for p in each)
        for name, each in plan.paid.items()
    }
    generous = dataclasses.replace(plan, paid=twice)
    assert rejected(plan, compared(generous, base, added), plan.epsilon_spent)


# -- a sum that is read from what a mean draws -----------------------------------------------------

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
    pairs = compared(plan, base)
    measured = as_claimed(plan, pairs)
    assert 0.9 * measured < max(largest_loss(p, q) for p, q in pairs) <= measured


def _sums_drawn_again(plan: RollupPlan) -> RollupPlan:
    """The sum has noise of its own, too, which nobody paid for."""
    ((sum_,), _) = vectors_of(SHARED["total"], by_user=False)[0]
    whole = plan.paid["mean"][0].epsilon
    paid = {**plan.paid, "total": (VectorCharge(sum_, whole),)}
    return dataclasses.replace(plan, paid=paid, read={"again": plan.read["again"]})


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


MADE = {"m": dpm.mean, "s": dpm.sum}


def exact_totals(lower: float, upper: float, rows: list[Row]) -> tuple[int, int]:
    """The sum of everything in steps, read from a mean and drawn alone, without noise."""
    totals = []
    every: Any = {name: of("v", lower=lower, upper=upper) for name, of in MADE.items()}
    for names in (("s", "m"), ("s",)):
        plan = plan_of({name: every[name] for name in names}, **LISTED)
        assert bool(plan.read) == (len(names) > 1)
        with listened():
            found = run_with(plan, counted_by(plan, table_of(rows)), None).measures["s"]
        assert found[0].vector == vector_charges(every["s"], Fraction(1), by_user=False)[0].vector
        totals.append(int(found[0].total[0]))
    return totals[0], totals[1]


@pytest.mark.parametrize(("lower", "upper"), [(0, 10), (-10, 0)])
def test_what_is_read_is_the_sum(lower: float, upper: float, monkeypatch: Any) -> None:
    """Law: without noise the sum that is read is the one that is drawn alone, whatever is NULL or
    beyond the bounds. Planted bug: the other vector of the pair."""
    rows: list[Row] = [("1", "a", "x", v) for v in (3.0, -4.5, 99.0, -99.0, None, float("nan"))]
    one, other = exact_totals(lower, upper, rows)
    assert one == other != 0
    honest = rollup.sum_from_pair
    monkeypatch.setattr(rollup, "sum_from_pair", lambda pair: honest(pair[::-1]))
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
