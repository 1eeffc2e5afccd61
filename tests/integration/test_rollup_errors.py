"""Errors that a rollup must keep, at every door, and what the order of measures stands for."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.measures.measure import Vector
from dpframe.mechanisms.rollup import VectorCharge, _vector_estimate
from dpframe.postprocess.strategy import level_strategy
from dpframe.postprocess.tree_squares import checked_forest
from dpframe.postprocess.weighted_laplace import whole_half_width
from dpframe.testing import seeded_noise
from tests.doors import World, in_this_process
from tests.integration.contract import MEASURES, ROLLUP, flags_of, world_of

"""What a receipt gains by the draw; ``dp_releases`` lists what was charged, before it."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = world_of(ROLLUP, tmp_path_factory.mktemp("doors"))
    yield made
    made.con.close()


ERRORS: list[tuple[object, str, list[str]]] = [
    ({"paid": 300}, "{'paid': 300}", ["--error=paid=300"]),
    ({"paid": 300, "n": 12}, "MAP {'paid': 300, 'n': 12}", ["--error=paid=300", "--error=n=12"]),
]


@pytest.mark.parametrize(("error", "in_sql", "flags"), ERRORS)
def test_epsilon_is_found_alike_for_errors(
    error: object, in_sql: str, flags: list[str], world: World, tmp_path: Path
) -> None:
    """Law: Python, SQL and the command line find one epsilon for the same errors, say the same of
    it, and the plan with that epsilon keeps the errors, which one step less does not."""
    first, *_ = dp.explain_rollup("columns:host", MEASURES, delta=1e-5, error=error).lines
    with duckdb.connect() as con:
        dp.register(con)
        con.execute(f"CREATE TABLE t AS FROM '{world.parquet}'")
        for about in ("'t', 'columns:host'", "\"by\" := 'columns:host'"):
            told = con.execute(
                f"FROM dp_explain_rollup({about}, measures := $m, delta := 1e-5, "
                f"error := {in_sql})",
                {"m": MEASURES},
            ).fetchall()
            assert told[0] == ("epsilon", str(first.value), first.meaning_text)
    said = in_this_process(
        *("explain-rollup", "--delta=1e-5", *flags),
        *flags_of(world, "columns:host", {"measures": MEASURES}),
        cwd=tmp_path,
    )
    assert said.returncode == 0, said.stderr
    assert f"{first.value}  ({first.meaning_text})" in said.stdout
    assert isinstance(first.value, float)
    assert isinstance(error, dict)
    for factor, kept in ((1.0, True), (0.99, False)):
        budget = {"epsilon": first.value * factor, "delta": 1e-5}
        errors = dp.explain_rollup("columns:host", MEASURES, **budget).plan.errors
        assert all(errors[name] <= most for name, most in error.items()) == kept


def test_one_error_is_enough_where_there_is_one_number() -> None:
    """Law: a number stands for the only measure, and is told by its name; of a question that tells
    no error before data are read, all doors refuse it in the same words."""
    asked: dict[str, Any] = {"measures": "sum(paid, 0, 7) AS s", "delta": 1e-6, "error": 50}
    (line, *_) = dp.explain_rollup("columns:host", **asked).lines
    assert "keeps s within +-50" in line.meaning_text
    with duckdb.connect() as con:
        dp.register(con)
        told = con.execute(
            "FROM dp_explain(hierarchy := 'columns:host', delta := 1e-6, error := 50)"
        ).fetchall()
        (line, *_) = dp.explain(["host"], delta=1e-6, error=50).lines
        assert told[0] == ("epsilon", str(line.value), line.meaning_text)
        con.execute(
            "FROM dp_explain_tree_counts(\"keys\" := ['a'], hierarchy := 'columns:host', "
            "error := {'count': 3})"
        )
        with pytest.raises(duckdb.Error, match=r"error .* is not known here"):
            con.execute(
                "FROM dp_explain_synthesize(columns := 'number:a?lower=0&upper=9', error := 3)"
            )


TREE = pd.DataFrame(
    [(f"a{i}", f"b{j}", 2.5) for i in range(4) for j in range(12) for _ in range(60)],
    columns=["a", "b", "x"],
).assign(who=np.arange(4 * 12 * 60) // 2)


@pytest.mark.parametrize("user", [None, "who"])
@pytest.mark.parametrize("importance", [None, "even", {"a": 1}, {"*": 1, "b": 1}])
def test_errors_of_listed_keys_are_those_of_what_is_shown(
    importance: Any, user: str | None
) -> None:
    """Law: at the epsilon that is found no interval of a level that counts is wider, and the widest
    one is nearly as wide. Planted: errors of parts that had all of epsilon are too small."""
    error = {"n": 30, "s": 200.0}
    asked: dict[str, Any] = {"keys": TREE[["a", "b"]].drop_duplicates(), "user": user}
    asked |= {"measures": {"n": "count", "s": "sum(x, 0, 5)"}, "level_importance": importance}
    told = dp.explain_rollup(["a", "b"], error=error, **asked)
    result = dp.rollup(TREE, ["a", "b"], epsilon=told["epsilon"], **asked)
    counts = (
        [0, 2] if importance == {"*": 1, "b": 1} else [1] if importance == {"a": 1} else [0, 1, 2]
    )
    read = result[result["level"].isin(counts)]
    widest = {name: ((read[f"{name}_upper"] - read[f"{name}_lower"]) / 2).max() for name in error}
    assert all(widest[name] <= most + 0.5 for name, most in error.items())  # counts are rounded
    assert any(widest[name] > 0.97 * most - 0.5 for name, most in error.items())
    assert ("importance is above 0" in str(told)) == isinstance(importance, dict)
    one = told.plan.paid["s"][0]
    planted = 3 * float(one.vector.most / one.epsilon) * one.vector.bounds.step
    assert importance == {"a": 1} or planted < 0.6 * widest["s"]


def test_errors_of_unknown_keys_are_those_of_parts_at_most() -> None:
    """Law: whatever levels are measured besides, no lowest node's interval is wider."""
    for importance in (None, [1, 5, 0]):
        asked: dict[str, Any] = {"measures": "count", "level_importance": importance, "delta": 1e-6}
        plan = dp.explain_rollup(["a", "b"], epsilon=2.0, **asked).plan
        result = dp.rollup(TREE, ["a", "b"], epsilon=2.0, **asked)
        low = result[result["level"] == 2]
        assert len(low)
        assert ((low["count_upper"] - low["count_lower"]) / 2).max() <= plan.errors["count"] + 0.5


@pytest.mark.evidence
@pytest.mark.parametrize("importance", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 3.0, 1.0), "even"])
def test_intervals_of_important_levels_hold_the_truth(importance: Any) -> None:
    """Law: on levels that count and on others, whatever parts of epsilon they have."""
    level = np.repeat([0, 1, 2], [1, 4, 48])
    ancestor = np.concatenate([[-1], np.zeros(4, dtype=int), np.repeat(np.arange(1, 5), 12)])
    charge = VectorCharge(Vector(kind="rows", most=1), Fraction(1), 1)
    exact = np.where(level == 2, 60, 0)
    true, forest = np.choose(level, [2880, 720, 60]), checked_forest(ancestor)
    weights = level_strategy(level, ancestor, by_user=False, importance=importance)
    held: dict[float, list[Any]] = {0.8: [], 0.95: [], 0.99: []}
    with seeded_noise(3):
        for _ in range(4_000):
            one = _vector_estimate(exact, level, forest, charge, weights)
            for confidence, each in held.items():
                half = whole_half_width(one.variance, confidence, one.largest)
                each.append(np.abs(one.total - true) <= half)
    for confidence, each in held.items():
        for at in range(3):
            assert np.array(each)[:, level == at].mean() > confidence - 0.004


WRONG_ERRORS = [
    (["--error=many"], "must end in a number"),
    (["--error=30", "--error=paid=300"], "one number alone"),
    (["--error=paid=3", "--error=paid=4"], "each measure once"),
    (["--error=30"], "must name one of"),
    (["--error=price=30"], "error of 'price'"),
    (["--error=paid=30", "--epsilon=1"], "Leave epsilon out"),
    (["--error=paid=0"], "finite number"),
    (["--error=paid=nan"], "finite number"),
]


@pytest.mark.parametrize(("flags", "said"), WRONG_ERRORS)
def test_a_wrong_error_is_refused_on_the_command_line(
    flags: list[str], said: str, world: World, tmp_path: Path
) -> None:
    own = flags_of(world, "columns:host", {"measures": MEASURES})
    done = in_this_process("explain-rollup", "--delta=1e-5", *own, *flags, cwd=tmp_path)
    assert done.returncode != 0
    assert said in done.stderr


def test_measures_in_another_order_are_another_release(tmp_path: Path) -> None:
    """Law: columns of a replay stand under the names that they were released with: what comes back
    from a name in SQL has places, and so the order of measures is part of what was asked."""
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=100, delta=1e-3)
    ask = (
        "FROM dp_rollup('t', 'columns:a', $m, epsilon := 1, delta := 1e-6, release := 'weekly') "
        "ORDER BY level LIMIT 1"
    )
    count, total = "count AS n", "sum(v, 0, 7) AS s"
    with duckdb.connect() as con:
        dp.register(con, ledger=ledger)
        con.execute("CREATE TABLE t AS SELECT 'x' AS a, 7 AS v FROM range(900)")
        first = con.execute(ask, {"m": [count, total]}).fetchall()
        assert con.execute(ask, {"m": [count, total]}).fetchall() == first
        with pytest.raises(duckdb.Error, match="weekly"):
            con.execute(ask, {"m": [total, count]})
        frame = con.sql("FROM t").df()
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "ledger": ledger, "release": "daily"}
    dp.rollup(frame, ["a"], [count, total], **given)
    with pytest.raises(dp.ReleaseNameError):
        dp.rollup(frame, ["a"], [total, count], **given)
    assert len(ledger.releases()) == 2


@pytest.mark.parametrize(
    ("mean", "more", "times"),
    [("mean(x, 0, 9)", {}, 1), ("mean(x, 0, 8)", {}, 2), ("mean(x, 0, 9)", {"user": "u"}, None)],
)
def test_a_sum_beside_a_mean_of_the_same_values_is_told_with_its_error(
    mean: str, more: dict[str, Any], times: float | None
) -> None:
    """Law: one is read from the other, with the error that the sum has alone; between other bounds,
    and by user, nothing is shared."""
    asked: dict[str, Any] = {"by": ["a"], "epsilon": 1.0, "delta": 1e-6, **more}
    alone = dp.explain_rollup(measures=["sum(x, 0, 9) AS s"], **asked)
    both = dp.explain_rollup(measures=["sum(x, 0, 9) AS s", f"{mean} AS m"], **asked)
    assert ("read from what m draws for both" in str(both)) == (times == 1)
    if times:
        errors = both.plan.errors["s"], alone.plan.errors["s"]
        assert errors[0] == pytest.approx(times * errors[1], rel=1e-3)
