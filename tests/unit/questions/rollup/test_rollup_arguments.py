"""What a rollup refuses, alike at every door; values that count nothing; and notices."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.doors import in_this_process
from tests.members import some
from tests.unit.refusals import SECRET, assert_refused

FRAME = pd.DataFrame({"c": [f"{SECRET} a"] * 300 + [f"{SECRET} b"] * 200, "text": SECRET})
FRAME = FRAME.assign(x=np.arange(500) % 7 + 0.5, who=[f"{SECRET} {i % 90}" for i in range(500)])
BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}

# -- doors: measures as texts, which every door takes ----------------------------------------------

Door = Callable[[Path, dict[str, Any]], object]


def by_sql(name: str, given: dict[str, Any]) -> None:
    with duckdb.connect() as con:
        dp.register(con)
        con.register("shown", FRAME)
        con.execute("CREATE TABLE t AS FROM shown")
        named = ", ".join(f'"{argument}" := ${argument}' for argument in given)
        try:
            con.execute(f"FROM {name}('t', {named})", given).fetchall()
        except duckdb.Error as error:
            raise dp.DpframeError(str(error)) from None


def by_command(folder: Path, given: dict[str, Any]) -> None:
    FRAME.to_parquet(folder / "t.parquet")
    left = {k: v for k, v in given.items() if k not in ("by", "measures")}
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in left.items()]
    measures = given["measures"]
    listed = [measures] if isinstance(measures, str) else measures
    flags += [f"--measure={measure}" for measure in listed]
    ran = in_this_process("rollup", "t.parquet", given["by"], *flags, cwd=folder)
    if ran.returncode:
        assert "Traceback" not in ran.stderr
        raise dp.DpframeError(ran.stderr)


DOORS: dict[str, Door] = {
    "function": lambda _, given: dp.rollup(FRAME, **given),
    "accessor": lambda _, given: FRAME.dp.rollup(**given),
    "explain": lambda _, given: dp.explain_rollup(source=FRAME, **given),
    "SQL": lambda _, given: by_sql("dp_rollup", given),
    "explain in SQL": lambda _, given: by_sql("dp_explain_rollup", given),
    "command line": by_command,
}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)

WRONG: list[tuple[Any, tuple[str, ...]]] = [
    # which measure
    ("sun(x, 0, 5)", ("'sun' is none of", "Write 'sum(x, 0, 5)'.")),
    ("max(x)", ("'max' is none of count, sum, mean", "'median(x, 0, 500)'")),
    ("", ("measure '' is not understood",)),
    ("sum", ("names no column",)),
    ("sum()", ("names no column",)),
    ("count(x)", ("count takes no column", "'distinct(x)'")),
    ("sum(x, 0, 5, 9)", ("sum takes column, lower, upper", "each once")),
    ("sum(x, lower=0, lower=1, upper=5)", ("each once",)),
    ("count; DROP TABLE t", ("is not understood",)),
    (["count", "count"], ("two measures are named 'count'",)),
    # bounds
    ("sum(x)", ("lacks bounds", "'sum(x, 0, 500)'", "known without the data")),
    ("sum(x, 0)", ("lacks bounds",)),
    ("mean(x, upper=3)", ("lacks bounds", "'mean(x, auto, auto)'")),
    ("sum(x, 5, 0)", ("lower 5 and upper 0", "lower must be below upper")),
    ("sum(x, 5, 5)", ("lower 5 and upper 5", "lower must be below upper")),
    ("sum(x, 0, inf)", ("upper", "inf", "finite")),
    ("sum(x, -inf, 0)", ("lower", "-inf", "finite")),
    ("sum(x, nan, 5)", ("lower", "nan", "finite")),
    ("sum(x, 0, 1e300)", ("upper", "1e+300", "1e+15")),
    ("sum(x, 0, many)", ("upper ('many') must be a number",)),
    ("sum(x, 3, auto)", ("searches the other bound", "other side of 0")),
    # columns
    ("sum(missing, 0, 5)", ("'missing'",)),
    ("sum(text, 0, 5)", ("'text'", "numbers")),
    ("mean(c, 0, 5)", ("'c'", "numbers")),
    ("distinct(missing)", ("'missing'",)),
    # names
    ("count AS level", ("'level'", "Rename the measure")),
    ("count AS PREFIX", ("'PREFIX'", "Rename the measure")),
    ("count AS c", ("'c'", "Rename the measure")),
    (["count AS n", "sum(x, 0, 5) AS n_lower"], ("'n_lower'", "Rename the measure")),
    (["sum(x, 0, 5, clipped=true) AS n", "count AS N_clipped"], ("'N_clipped'",)),
    # shares and users
    ("count(share=0)", ("share", "0")),
    ("count(share=-1)", ("share",)),
    ("count(at_most=3)", ("at_most=3", "Pass ")),
    ("distinct(x, at_most=0)", ("at_most", "1 to 1000")),
    # budget
    (["count(share=0.000001)", "sum(x, 0, 5, share=1000000)"], ("would get epsilon", "share=")),
]


@some(
    *(0, 5, 10, 13, 18, 26, 31, 34, 39, 47, 52, 60, 65, 68, 73, 81, 86, 89, 94, 102, 107, 115),
    *(120, 123, 128, 136, 141, 149, 154, 157, 162, 170, 175, 178, 183, 191, 196, 204, 209),
)
@every_door
@pytest.mark.parametrize(("measures", "said"), WRONG, ids=[str(w[0])[:40] for w in WRONG])
def test_wrong_measures_are_refused_alike(
    door: Door, measures: Any, said: tuple[str, ...], tmp_path: Path
) -> None:
    """Law: name, value, rule and next step; never a value from the data."""
    expect_refusal(door, {"measures": measures}, said, tmp_path)


IMPORTANCE: list[tuple[Any, type[dp.DpframeError], tuple[str, ...]]] = [
    ([0, -1], dp.ParameterError, ("2 numbers of at least 0, not all 0", "level 0", "-1")),
    ([0, 0], dp.ParameterError, ("not all 0", "got [0, 0]")),
    ({"c": 0}, dp.ParameterError, ("not all 0",)),
    ({}, dp.ParameterError, ("not all 0",)),
    ([1, 2, 3], dp.ParameterError, ("2 numbers", "got 3")),
    ([1], dp.ParameterError, ("2 numbers", "got 1")),
    ([math.nan, 1], dp.ParameterError, ("nan",)),
    ([math.inf, 1], dp.ParameterError, ("inf",)),
    ([1, 10**400], dp.ParameterError, ("beyond",)),
    ([1, 2e6], dp.ParameterError, ("1e6 times the smallest above 0",)),
    ({"city": 1}, dp.ParameterError, ("'city'", "one of *, c")),
    ({1: 1}, dp.ParameterTypeError, ("one of *, c",)),
    ({"c": "3"}, dp.ParameterTypeError, ("at least 0", "'3'")),
    ([True, 1], dp.ParameterTypeError, ("True",)),
    (3, dp.ParameterTypeError, ("2 numbers", "int")),
    ("evn", dp.ParameterError, ("must be 'even'", "such as {'c': 1}")),
]


@pytest.mark.parametrize(("value", "kind", "said"), IMPORTANCE, ids=[str(i[0]) for i in IMPORTANCE])
def test_importance_of_levels_that_is_none_is_refused(
    value: Any, kind: type[dp.DpframeError], said: tuple[str, ...]
) -> None:
    """Law: name, rule and what was given; nothing is charged, and no row is read."""
    with pytest.raises(kind) as raised:
        dp.explain_rollup(["c"], "count", keys=["a"], epsilon=1.0, level_importance=value)
    assert all(word in str(raised.value) for word in ("level_importance", *said)), raised.value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": "c * x"}, "several hierarchies"),
        ({"user": "who"}, "rounds, which measure every node on its own"),
        ({"measures": "distinct(x)"}, "measures that add up"),
    ],
)
def test_importance_goes_with_levels_that_are_measured(given: dict[str, Any], said: str) -> None:
    """Law: an argument without an effect is refused."""
    asked = {"by": ["c"], "measures": "count", **BUDGET, "level_importance": [1, 2], **given}
    with pytest.raises(dp.ParameterError, match=said):
        dp.rollup(FRAME, **asked)


def test_importance_by_names_is_that_by_level() -> None:
    """Law: one request, however it is written; without the argument a request does not have it."""
    asked: dict[str, Any] = {"by": ["c", "x"], "measures": "count", **BUDGET}
    requests = [
        dp.explain_rollup(**asked, level_importance=one).plan.request
        for one in ({"c": 3, "x": 1}, [0, 3, 1], (0, 3.0, 1), np.array([0, 3, 1]))
    ]
    assert all(one == requests[0] for one in requests)
    assert "level_importance" not in dp.explain_rollup(**asked).plan.request
    shares = {**asked, "user": "who", "contribution": "share", "level_importance": "even"}
    assert dp.explain_rollup(**shares).plan.request["level_importance"] == "even"


IN_BINS: list[tuple[Any, tuple[str, ...]]] = [
    # bounds
    ("median(x)", ("lacks bounds", "'median(x, 0, 500)'", "known without the data")),
    ("quantile(x, 0.95)", ("lacks bounds", "'quantile(x, 0.95, 0, 500)'")),
    ("histogram(x, upper=3)", ("lacks bounds",)),
    ("median(x, 5, 0)", ("dp.median('x') has lower 5 and upper 0", "lower must be below upper")),
    ("median(x, 5, 5)", ("lower must be below upper",)),
    ("median(x, 2026-02-01, 2026-01-01)", ("lower 2026-02-01 and upper 2026-01-01",)),
    ("median(x, 0, inf)", ("upper", "inf", "finite")),
    ("median(x, nan, 5)", ("lower", "nan", "finite")),
    ("median(x, 0, 1e300)", ("1e+300", "1e+15")),
    ("median(x, auto, 5)", ("lower of dp.median('x')", "known without the data", "wide bounds")),
    ("median(x, low, 5)", ("lower of dp.median('x') ('low')", "a number, or a date or time")),
    ("median(x, 0, 2026-01-01)", ("must be of one kind", "numbers, times or durations")),
    ("median(x, 0, 5s)", ("must be of one kind",)),
    # which quantiles
    ("quantile(x, 0, 0, 5)", ("at (0.0)", "above 0 and below 1")),
    ("quantile(x, 95, 0, 5)", ("at (95.0)", "above 0 and below 1")),
    ("quantile(x, nan, 0, 5)", ("at (nan)", "above 0 and below 1")),
    ("quantile(x, half, 0, 5)", ("at ('half') must be a number",)),
    ("quantiles(x, 0, 5)", ("quantiles lacks at", "at=[0.5, 0.95]")),
    ("quantiles(x, 0, 5, at=[])", ("at has 0 parts", "from 1 to 20")),
    ("quantiles(x, 0, 5, at=[0.9, 0.5])", ("at ([0.9, 0.5])", "rising parts")),
    ("quantiles(x, 0, 5, at=[0.5, 0.5])", ("rising parts, each once",)),
    ("quantiles(x, 0, 5, at=[0.5, 1])", ("at (1.0)", "above 0 and below 1")),
    ("quantiles(x, 0, 5, at=0.5)", ("at must be a list of parts",)),
    ("histogram(x, 0, 5, at=[0.5])", ("histogram takes column, lower, upper",)),
    # bins
    ("median(x, 0, 5, bins=1)", ("bins of dp.median('x') (1)", "from 2 to 1,000")),
    ("median(x, 0, 5, bins=1000000)", ("(1000000)", "from 2 to 1,000")),
    ("median(x, 0, 5, bins=2.5)", ("(2.5)", "whole number from 2 to 1,000")),
    ("median(x, 0, 5, bins=many)", ("'many'", "a number of bins, 'whole', or a list of edges")),
    ("median(x, 0.5, 5, bins=whole)", ("needs whole numbers as bounds",)),
    ("median(x, 0, 5000, bins=whole)", ("5,000 bins, above 1,000",)),
    ("histogram(x, 0, 5, bins=[])", ("from 1 to 999 edges",)),
    ("histogram(x, 0, 5, bins=[7])", ("edges that rise from lower to upper",)),
    ("histogram(x, 0, 5, bins=[3, 2])", ("edges that rise from lower to upper",)),
    ("histogram(x, 0, 5, bins=[2026-01-01])", ("edges of the kind of its bounds, such as 0",)),
    ("median(x, 0, 5, spacing=log)", ("'log'", "'proportion' or 'even'")),
    ("median(x, 2026-01-01, 2027-01-01, spacing=proportion)", ("must be 'even'",)),
    ("median(x, 0, 5, clipped=true)", ("median takes column, lower, upper, bins",)),
    ("median(x, 0, 5, each=sum)", ("each of dp.median('x') ('sum')", "'row', 'total' or 'mean'")),
    ("median(x, 0, 5, each=total)", ("each='total' without", "Pass ")),
    # columns and names
    ("median(missing, 0, 5)", ("'missing'",)),
    ("median(text, 0, 5)", ("'text'", "median with these bounds reads numbers", "'2026-01-01'")),
    ("median(x, 2026-01-01, 2026-02-01)", ("'x'", "reads dates or times", "of its kind")),
    ("histogram(x, 0s, 5s)", ("'x'", "reads durations")),
    ("median(*, 0, 5)", ("names no column",)),
    ("median(x, 0, 5) AS c", ("'c'", "Rename the measure")),
    (["median(x, 0, 5) AS m", "count AS m_bins"], ("'m_bins'", "Rename the measure")),
    (["median(x, 0, 5) AS m", "count AS m_at_bound"], ("'m_at_bound'",)),
    (["quantiles(x, 0, 5, at=[0.5]) AS m", "count AS m_p50"], ("'m_p50'",)),
    ("percentile(x, 95)", ("'percentile' is none of", "'quantile(x, 0.95, 0, 500)'")),
    ("hist(x, 0, 5)", ("Write 'histogram(x, 0, 5)'.",)),
]


@some(*range(0, 6 * len(IN_BINS), 5))
@every_door
@pytest.mark.parametrize(("measures", "said"), IN_BINS, ids=[str(w[0])[:40] for w in IN_BINS])
def test_wrong_bins_are_refused_alike(
    door: Door, measures: Any, said: tuple[str, ...], tmp_path: Path
) -> None:
    """Law: as for other measures."""
    expect_refusal(door, {"measures": measures}, said, tmp_path)


def expect_refusal(door: Door, given: dict[str, Any], said: tuple[str, ...], folder: Path) -> None:
    with pytest.raises(dp.DpframeError) as raised:
        door(folder, {"by": "columns:c", **BUDGET, **given})
    for part in said:
        assert part in str(raised.value), raised.value
    assert SECRET not in str(raised.value)


USED: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"measures": "count(at_most=3)"}, ("has at_most=3 without", "leave at_most out")),
    ({"measures": "sum(x, 1, 5)", "user": "who"}, ("bounds 1 and 5", "lower at most 0")),
    ({"measures": "count", "user": "missing"}, ("'missing'",)),
    ({"measures": "count", "delta": 0.0}, ("delta is missing", "list the keys")),
    ({"measures": "count", "keys": "domain", "by": "columns:c"}, ("domain",)),
    ({"measures": "count", "selection_share": 1.0}, ("selection_share (1.0)", "0.01 to 0.99")),
    ({"measures": "count", "threshold": 1}, ("threshold (1)", "smallest private threshold")),
    ({"measures": "count", "heavy": "count"}, ("heavy ('count')", "a sum from lower=0")),
    ({"measures": "sum(x, 0, 9) AS s", "heavy": "z"}, ("heavy ('z')", "must be one of s")),
    ({"measures": "sum(x, -1, 9) AS s", "heavy": "s"}, ("heavy ('s')", "below 0")),
    ({"measures": "count", "epsilon": 0.0}, ("epsilon", "0.0001 to 50")),
    ({"measures": "histogram(x, 0, 5) AS h", "heavy": "h"}, ("heavy ('h')", "must name a sum")),
    ({"measures": ["sum(x, 0, 9) AS s", "median(x, 0, 9) AS m"], "heavy": "m"}, ("one of s",)),
    ({"measures": "median(who, 0, 5)", "user": "who"}, ("the column of users", "Name a column")),
]


@some(
    *("has at_most=3 without-function", "has at_most=3 without-command line"),
    "'missing'-accessor",
    *("delta is missing-function", "domain-explain", "selection_share (1.0)-accessor"),
    *("selection_share (1.0)-explain in SQL", "threshold (1)-SQL", "heavy ('count')-command line"),
    *("heavy ('z')-explain in SQL", "epsilon-function", "epsilon-command line"),
)
@every_door
@pytest.mark.parametrize(("given", "said"), USED, ids=[str(u[1][0]) for u in USED])
def test_what_does_not_go_together_is_refused_alike(
    door: Door, given: dict[str, Any], said: tuple[str, ...], tmp_path: Path
) -> None:
    expect_refusal(door, given, said, tmp_path)


def test_good_calls_pass_every_door(tmp_path: Path) -> None:
    """Negative control of the laws above."""
    measures = ["count AS n", "sum(x, 0, 9) AS paid", "mean(x, 0, 9)", "median(x, 0, 9)"]
    measures += ["quantiles(x, 0, 9, at=[0.1, 0.9]) AS q", "histogram(x, 0, 9, bins=[2, 5]) AS h"]
    for door in DOORS.values():
        door(tmp_path, {"by": "columns:c", "measures": measures, **BUDGET})


TWO_NAMES = ("two names, 'paid' and its key 'revenue'", "Leave AS out")
OBJECTS: dict[str, tuple[Callable[[], object], type[dp.DpframeError], tuple[str, ...]]] = {
    "NaN": (lambda: dp.sum("x", lower=1, upper=math.nan), dp.ParameterError, ("upper", "nan")),
    "None": (lambda: dp.sum("x", lower=None, upper=1), dp.ParameterError, ("lower", "missing")),
    "above": (lambda: dp.mean("x", lower=2, upper=Decimal(1)), dp.ParameterError, ("2", "upper 1")),
    "huge": (lambda: dp.mean("x", lower=10**400, upper=1), dp.ParameterError, ("lower",)),
    "no column": (lambda: dp.sum("", lower=0, upper=1), dp.ColumnError, ("''",)),
    "no Unicode": (lambda: dp.sum("\ud800", lower=0, upper=1), dp.ColumnError, ("text",)),
    "{}": (lambda: asked({}), dp.ParameterError, ("measures is empty",)),
    "[]": (lambda: asked([]), dp.ParameterError, ("measures is empty",)),
    "missing": (lambda: asked(None), dp.ParameterError, ("measures is missing",)),
    "two": (lambda: asked({"revenue": "sum(x, 0, 5) AS paid"}), dp.ParameterError, TWO_NAMES),
    "quoted": (lambda: asked({"n": 'count as "N"'}), dp.ParameterError, ("'N' and its key 'n'",)),
}


def asked(measures: Any) -> object:
    return dp.explain_rollup(["c"], measures, **BUDGET)


@pytest.mark.parametrize("name", OBJECTS)
def test_wrong_objects_are_refused(name: str) -> None:
    call, error, said = OBJECTS[name]
    assert_refused(call, ({}, error, said))


def test_a_mapping_in_sql_has_no_second_names() -> None:
    """Law: a name behind AS is refused unless it is the key: nothing written is ignored."""
    ask = "FROM dp_rollup('t', 'columns:a', {}, epsilon := 8.0, delta := 1e-4)"
    with duckdb.connect() as con:
        dp.register(con)
        con.execute("CREATE TABLE t AS SELECT 'x' AS a FROM range(900)")
        for other in ("count AS m", 'count as "N"', "COUNT AS  m "):
            with pytest.raises(duckdb.Error, match=r"two names.*Leave AS out"):
                con.execute(ask.format(f"{{'n': '{other}'}}"))
        for same in ("count", "count AS n", 'count AS "n"'):
            found = con.sql(ask.format(f"{{'n': '{same}'}}")).columns
            assert found[-3:] == ["n", "n_lower", "n_upper"]
    same = dp.explain_rollup(["c"], {"a b": 'count AS "a b"'}, **BUDGET).plan
    assert list(same.asked.measures) == ["a b"]


def test_more_measures_than_the_budget_carries_are_refused() -> None:
    many = {f"m{i}": "count" for i in range(200)}
    with pytest.raises(dp.BudgetError, match=r"would get epsilon .*share="):
        dp.rollup(FRAME, ["c"], many, epsilon=1e-4, delta=1e-6)
    assert len(dp.rollup(FRAME, ["c"], many, **BUDGET).columns) == 3 + 3 * 200


# -- values ----------------------------------------------------------------------------------------

PURE: dict[str, Any] = {"epsilon": 50.0, "keys": ["a"]}


def totals(values: Any, *measures: Any, **more: Any) -> dict[str, float]:
    """The total of each measure of rows with these values, nearly without noise."""
    column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    source = pa.table({"c": ["a"] * len(column), "x": column})
    names = {f"m{i}": measure for i, measure in enumerate(measures)}
    with seeded_noise(2):
        frame = dp.rollup(source, ["c"], names, **{**PURE, **more})
    return {name: float(frame[name][0]) for name in names}


def test_missing_and_infinite_values_count_nothing() -> None:
    """Law: NULL, NaN and both infinities are no values, of sums, of means and of cut values."""
    good = [2.0] * 400
    odd = [None, math.nan, math.inf, -math.inf] * 100
    measures = (
        dp.sum("x", lower=0, upper=4, clipped=True),
        dp.mean("x", lower=0, upper=4),
        dp.count(),
    )
    found = totals(pa.array([*good, *odd], pa.float64()), *measures)
    assert found["m0"] == pytest.approx(800, abs=10)
    assert found["m1"] == pytest.approx(2.0, abs=0.1)
    assert found["m2"] == pytest.approx(800, abs=10)


@pytest.mark.parametrize("measure", ["count", "sum(x, 0, 5)", "mean(x, 0, 5)"])
def test_rows_without_a_user_are_those_of_one_user(measure: str) -> None:
    rows = pd.DataFrame({"c": "a", "x": 1.0, "who": [None] * 900 + list(range(100))})
    with seeded_noise(2):
        frame = dp.rollup(rows, ["c"], {"m": measure}, user="who", **PURE)
    wanted = {"count": 101, "sum(x, 0, 5)": 105, "mean(x, 0, 5)": 1.0}[measure]
    assert frame["m"][0] == pytest.approx(wanted, abs=4)
    assert frame["m"][0] != pytest.approx(1000, abs=100)


# -- notices ---------------------------------------------------------------------------------------

ROWS = 4_000
NOTICED = pd.DataFrame({"c": ["a"] * 2_500 + ["b"] * 1_500, "ip": "no address", "some": "10.0.0.1"})
NOTICED = NOTICED.assign(nan=np.nan, big=50.0, ok=3.0, who=np.arange(ROWS) % 2_000)
NOTICED["signed"] = np.resize([-4.0, 4.0], ROWS)
SUMS: dict[str, Any] = {
    "n": "count",
    "nan": dp.sum("nan", lower=0, upper=10),
    "mean of nan": dp.mean("nan", lower=0, upper=10),
    "kinds of nan": dp.distinct("nan"),
    "big": dp.sum("big", lower=0, upper=10, clipped=True),
    "ok": dp.sum("ok", lower=0, upper=10, clipped=True),
    "mean": dp.mean("ok", lower=0, upper=10),
    "signed": dp.sum("signed", lower=-10, upper=10),
}
MISSING = ["nan", "mean of nan", "kinds of nan"]


def said(
    *names: str, by: Any = "columns:c", frame: pd.DataFrame = NOTICED, **more: Any
) -> list[str]:
    chosen = {name: SUMS[name] for name in names}
    with seeded_noise(6):
        result = dp.rollup(frame, by, chosen, epsilon=20.0, delta=1e-6, **more)
    return [line.partition(":")[0] for line in result.dp.receipt.get("notices", [])]


@some("nan", "kinds of nan")
@pytest.mark.parametrize("name", MISSING)
def test_a_column_without_values_is_noticed(name: str) -> None:
    wanted = [f"values of {name} may be missing"]
    assert said("n", name) == wanted
    assert said(name) == wanted


def test_bounds_that_cut_most_values_are_noticed() -> None:
    """By the count beside them, also of users; without a count nothing says how many there are."""
    wanted = ["values of big are mostly cut"]
    assert said("n", "big") == wanted
    assert said("n", "big", user="who") == wanted
    assert said("big") == []


@pytest.mark.parametrize("name", ["n", "ok"])
def test_keys_that_cannot_be_read_are_noticed(name: str) -> None:
    """By a count, else by a sum of what is not negative."""
    assert said(name, by="ip:ip") == ["mostly <invalid>"]
    assert said(name, by="ip:some") == []


def test_good_columns_are_not_noticed() -> None:
    """Negative control, and of few rows, where all intervals hold 0."""
    assert said("n", "ok", "mean", "signed") == []
    assert said("n", "ok", "mean", "signed", user="who") == []
    empty = said(*SUMS, frame=NOTICED.iloc[:0])
    assert empty[0] == "nothing was shown"
    assert {one.partition(" of ")[0] for one in empty[1:]} == {"noise is most"}


def test_notices_are_first_on_the_card_and_the_same_in_every_replay() -> None:
    with seeded_noise(6):
        result = dp.rollup(NOTICED, ["c"], {"m": SUMS["nan"]}, epsilon=20.0, delta=1e-6)
    first = result.dp.receipt["card"][0]
    assert first[:2] == ["notice", "values of m may be missing"]
    assert "does column 'nan' hold numbers" in first[2]
