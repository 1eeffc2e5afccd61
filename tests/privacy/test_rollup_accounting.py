"""What a rollup spends is at most its budget, in exact fractions; and nothing else leaves."""

from __future__ import annotations

import logging
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import pytest

import dpframe as dp
from dpframe.asking.call_arguments import EPSILON
from dpframe.errors import BudgetError, DpframeError
from dpframe.measures import measure as dpm
from dpframe.mechanisms import rollup as measured_parts
from dpframe.mechanisms.rollup import PARTS, measured_parts_cost, scales_for
from dpframe.noise import FINE, NoiseTable, UnboundedNoise, rounded_up
from dpframe.questions.rollup import ask as counting
from dpframe.questions.rollup.ask import explain_rollup, rollup
from dpframe.questions.rollup.plan import LARGEST_SCALE, RollupPlan
from tests.members import in_turn, some

from .rollup_outputs import Row, plan_of, table_of

SECRET = "SECRETVALUE"

ALL = {
    "n": dpm.count(),
    "total": dpm.sum("v", lower=-2, upper=5, share=0.3, clipped=True),
    "mean": dpm.mean("v", lower=0, upper=10, share=7),
    "auto": dpm.sum("v", lower="auto", upper="auto"),
    "users": dpm.distinct("u", at_most=3),
    "values": dpm.distinct("v", at_most=2),
}


def plans(height: int, user: str | None, **given: Any) -> list[RollupPlan]:
    names = [f"c{i}" for i in range(height)]
    out = []
    every = list(ALL) if 0.1 <= given["epsilon"] <= 1 else ["total", "auto"]
    for wanted in (["n"], ["mean", "total"], every):
        measures = {name: ALL[name] for name in wanted}
        if user is None:
            measures |= {n: dpm.distinct("u") for n in ("users", "values") if n in measures}
        try:
            out.append(explain_rollup(by=names, measures=measures, user=user, **given).plan)
        except BudgetError:
            assert not 0.1 <= given["epsilon"] <= 10  # too little for so many, or for a table
    return out


@some("None-0.05-1", "None-0.3333333333333333-5", "u-1.0-1", "u-50.0-5")
@in_turn(
    (("user", "epsilon"), list(product([None, "u"], [0.05, 1 / 3, 1.0, EPSILON[1]]))),
    ("height", [1, 5]),
)
def test_what_is_spent_is_at_most_the_budget(epsilon: float, user: str | None, height: int) -> None:
    """Law: all epsilons add up to at most epsilon, exactly, and all deltas to at most delta; scales
    cost no more than their part, whatever levels are measured."""
    keys = [tuple("x" * height)]
    grid: Any = ({"delta": 1e-6}, {"delta": 1e-9, "selection_share": 0.9}, {"keys": keys})
    for given in grid:
        for plan in plans(height, user, epsilon=epsilon, **given):
            parts = [p for several in plan.paid.values() for p in several]
            own = 0 if plan.selection is None else Fraction(plan.selection.budget.epsilon)
            several = [*plan.searching.values(), *plan.counts.values()]
            costs = [*(p.cost for p in parts), *(one.epsilon for one in several)]
            spent = own + sum(costs, Fraction(0))
            assert spent == plan.epsilon_spent <= Fraction(epsilon)
            assert plan.epsilon_spent > Fraction(epsilon) * (1 - Fraction(1, 10**9))
            deltas = [Fraction(c.delta) for c in plan.counts.values()]
            if plan.selection is not None:
                deltas.append(Fraction(plan.selection.delta_spent))
                deltas[-1] = max(deltas[-1], Fraction(plan.selection.budget.delta))
            assert sum(deltas, Fraction(0)) <= Fraction(given.get("delta", 0))
            for p in parts:
                for weights in ({PARTS: Fraction(1)}, {PARTS: Fraction(2, 7), 1: Fraction(5, 7)}):
                    scales = scales_for(weights, most=p.vector.most, epsilon=p.epsilon)
                    assert measured_parts_cost(scales, most=p.vector.most) <= p.epsilon
                    assert all(s <= 2 * 7 * LARGEST_SCALE for s in scales.values())
            for one in plan.counts.values():
                if isinstance(one.noise, UnboundedNoise):
                    assert one.distinct.touched / one.noise.scale <= one.epsilon
                else:
                    assert isinstance(one.noise, NoiseTable)
                    assert one.distinct.singly


def test_scales_are_rounded_up_and_hardly() -> None:
    """Law: never below what is asked for, at most 2**-20 above; a sampler takes them."""
    for scale in (Fraction(1, 3), Fraction(10**9, 7), Fraction(FINE), Fraction(2**54 * 3 + 1, 3)):
        up = rounded_up(scale)
        assert scale <= up <= scale + max(Fraction(1, FINE), Fraction(scale, FINE))
        assert up.numerator < 2**62 > up.denominator


def test_a_level_that_is_not_paid_for_is_refused_by_the_mechanism(monkeypatch: Any) -> None:
    """Planted bug: parts and a level that have all of epsilon each; noted where noise is added."""
    plan = plan_of("count", epsilon=1.0, keys=[("a", "x")])
    counted = counting.count(table_of([("1", "a", "x", 1.0)]), plan, False).private
    whole = {PARTS: Fraction(1), 1: Fraction(1)}
    monkeypatch.setattr(measured_parts, "level_strategy", lambda *a, **k: whole)
    with pytest.raises(AssertionError):
        plan.run(counted)


@pytest.mark.parametrize(
    "given",
    [
        {"measures": dpm.count(at_most=10**9), "user": "u", "epsilon": 1e-4},
        {"measures": dpm.sum("v", lower=0, upper=9.9e12), "epsilon": 1e-4},
        {"measures": dpm.sum("v", lower=0, upper="auto"), "epsilon": 1e-4},
    ],
)
def test_noise_beyond_64_bits_is_refused_before_the_charge(given: Any) -> None:
    """Law: what the sampler could not draw is an error of the plan, which sees no data."""
    with pytest.raises(BudgetError, match=r"64 bits|would get epsilon"):
        plan_of(given.pop("measures"), keys=[("a", "x")], **given)


@pytest.mark.parametrize("user", [None, "u"])
def test_means_between_bounds_of_one_step_have_noise(user: str | None) -> None:
    """Law: bounds that are the same in steps are no division by zero after the charge."""
    measure = dpm.mean("v", lower=999_999_999_999.1, upper=999_999_999_999.2)
    asked: Any = {"epsilon": 1.0, "keys": [("a", "x")], "user": user}
    assert len(rollup(table_of([("1", "a", "x", 1e12)]), ["a", "b"], {"m": measure}, **asked)) == 3


# -- nothing else leaves ---------------------------------------------------------------------------


@pytest.mark.parametrize("user", [None, "u"])
def test_private_objects_and_receipts_say_nothing(user: Any, caplog: Any, capsys: Any) -> None:
    """Law: repr is one constant; receipts of neighbours are the same; no log, no print."""
    caplog.set_level(logging.DEBUG)
    measures = {"total": ALL["total"], "mean": ALL["mean"], "d": dpm.distinct("u", at_most=2)}
    if user is None:
        measures["d"] = dpm.distinct("u")
    given: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-3, "user": user}
    plan = plan_of(measures, **given)
    rows: list[Row] = [(SECRET, "a", "x", 4.25)] * 40
    receipts = []
    for own in (rows, [*rows, ("other", "b", SECRET, 3.5)]):
        counted = counting.count(table_of(own), plan, False).private
        assert "<private>" in repr(counted)
        assert SECRET not in repr(counted) + str(counted) + f"{counted!r}"
        receipt = rollup(table_of(own), ["a", "b"], measures, **given).attrs["dp"]
        for told in receipt["measures"].values():
            told.pop("noise")  # of the levels that what is shown makes worth measuring
        noisy = ("id", "time", "created", "notices", "levels_measured", "card")
        receipts.append({k: v for k, v in receipt.items() if k not in noisy})
    same = [k for k in receipts[0] if receipts[0][k] == receipts[1][k]]
    assert set(receipts[0]) == set(receipts[1])
    assert {"budget", "measures", "noise", "epsilon", "delta", "threshold"} <= set(same)
    assert SECRET not in repr(receipts)
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("user", [None, "u"])
def test_errors_quote_no_value(user: str | None) -> None:
    """Law: what DuckDB says about a row is withheld; types alone decide what is refused."""
    con = duckdb.connect()
    con.execute(
        f"CREATE TABLE t AS SELECT '{SECRET}' AS a, '{SECRET}' AS b, '{SECRET}' AS u, "
        f"'{SECRET}' AS v, [1] AS l FROM range(50)"
    )
    bad = con.sql(f"SELECT a, b, u, CAST(v AS DOUBLE) AS v FROM t WHERE v = '{SECRET}'")
    for source, column in ((con.table("t"), "v"), (con.table("t"), "l"), (bad, "v")):
        for keys in (None, [("x", "y")]):
            measures = {"m": dpm.sum(column, lower=0, upper=1)}
            asked = {"epsilon": 1.0, "keys": keys, "delta": None if keys else 1e-6, "user": user}
            with pytest.raises(DpframeError) as caught:
                rollup(source, ["a", "b"], measures, **asked)
            assert SECRET not in f"{caught.value!r} {caught.value.__context__!r}"


def test_a_case_insensitive_connection_is_refused() -> None:
    """Law: under a default collation users and keys would count as others; before the charge."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 'a' AS a, 'b' AS b, 'u' AS u, 1 AS v FROM range(9)")
    con.execute("SET default_collation = 'NOCASE'")
    with pytest.raises(dp.SourceError, match="collation"):
        rollup(con.table("t"), ["a", "b"], "count", epsilon=1.0, user="u", keys=[("a", "b")])


def test_noise_is_drawn_for_every_part_and_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: as many fresh draws as numbers that are released before they are made to add up."""
    drawn: list[tuple[Fraction, int]] = []
    draw = UnboundedNoise.draw

    def counting_draw(self: UnboundedNoise, n: int) -> Any:
        drawn.append((self.scale, n))
        return draw(self, n)

    monkeypatch.setattr(UnboundedNoise, "draw", counting_draw)
    keys = [("a", "x"), ("a", "y"), ("b", "x")]
    plan = plan_of({"n": dpm.count(), "m": ALL["mean"]}, epsilon=1.0, keys=keys)
    plan.run(counting.count(table_of([("1", "a", "x", 1.0)]), plan, False).private)
    nodes = 6
    vectors = [p for several in plan.paid.values() for p in several]
    assert [n for _, n in drawn].count(nodes) >= len(vectors)
    assert measured_parts.measured_parts_cost(dict(enumerate(s for s, _ in drawn)), most=1) > 0


def test_scales_that_the_plan_allows_are_drawn_and_added_up() -> None:
    """Law: whatever the plan lets through is no error of arithmetic after the charge, with many
    parts and levels above them."""
    keys = [(f"a{i}", f"b{j}") for i in range(12) for j in range(40)]
    for epsilon, upper in ((1e-3, 9.9e12), (0.2, 9.9e12), (1.0, 9.9e9)):
        measure = dpm.sum("v", lower=0, upper=upper)
        plan = plan_of({"m": measure}, epsilon=epsilon, keys=keys)
        counted = counting.count(table_of([("1", "a0", "b0", 1.0)]), plan, False).private
        for _ in range(3):
            (total,) = plan.run(counted).measures["m"]
            assert len(total.total) == 1 + 12 + 480
