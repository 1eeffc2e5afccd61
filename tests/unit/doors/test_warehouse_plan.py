"""Candidates of a statement: what is refused, before anything is charged, and what is not."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError, SourceError
from dpframe.testing import seeded_noise
from tests.doors import rows
from tests.members import in_turn, some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
FRAME = rows()
SPECS = (
    *("ip:ip", "path:path", "columns:year,zip", "domain:host", "code:zip?lengths=1,3,5"),
    *("date:when", "number:amount?lower=0&upper=50"),
)
TYPES = {"year": "BIGINT", "amount": "DOUBLE", "when": "TIMESTAMP", "id": "BIGINT"}


def answered(sql: str) -> pd.DataFrame:
    with duckdb.connect() as con:
        con.register("visits", FRAME)
        return con.sql(sql).df()


def made(spec: Any = "columns:year,zip", **more: Any) -> Any:
    given = {"table": "visits", "dialect": "duckdb", "types": TYPES, **BUDGET, **more}
    return dp.rollup_sql(spec, **given)


def sql(spec: Any, dialect: str, types: Any = None, table: Any = "t", **more: Any) -> Any:
    return made(spec, dialect=dialect, types=types, table=table, **more)


@some("None-ip:ip", "None-code:zip?lengths=1,3,5", "who-domain:host")
@in_turn(("user", [None, "who"]), ("spec", SPECS))
def test_a_statement_and_its_candidates_are_the_release(spec: str, user: str | None) -> None:
    with seeded_noise(3):
        statement = made(spec, user=user)
        got = dp.hhh(candidates=answered(statement.sql), plan=statement.plan)
    with seeded_noise(3):
        want = dp.hhh(FRAME, spec, user=user, mechanism="offline", **BUDGET)
    pd.testing.assert_frame_equal(got, want)
    assert len(got) > 1


def views(frame: pd.DataFrame) -> Any:
    return pa.array(frame["t1"], pa.string_view())


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "rows": lambda f: f.sample(frac=1, random_state=2),
    "case": lambda f: f.rename(columns=str.upper),
    "columns": lambda f: f[f.columns[::-1]].assign(more=1),
    "numbers": lambda f: f.astype({"level": "int8", "n": "float64"}),
    "objects": lambda f: f.astype({"n": object}),
    "categories": lambda f: f.astype({"t1": "category"}),
    "arrow": lambda f: pa.Table.from_pandas(f),
    "views": lambda f: pa.table({**f, "t1": views(f)}),
    "dictionary": lambda f: pa.table({**f, "t1": views(f).dictionary_encode()}),
    "decimals": lambda f: f.assign(n=[Decimal(f"{n}.00") for n in f["n"]]),
    "scalars of numpy": lambda f: f.assign(
        n=pd.Series([np.int64(n) for n in f["n"]], dtype=object)
    ),
    "relation": lambda f: duckdb.from_df(f),
    "none": lambda f: f.astype({"t1": object, "t2": object}).where(f.notna(), None),
}


@some("rows", "objects", "none")
@pytest.mark.parametrize("name", FORMS)
def test_the_form_of_a_result_does_not_matter(name: str) -> None:
    statement = made()
    found = answered(statement.sql)
    with seeded_noise(4):
        want = dp.hhh(candidates=found, plan=statement.plan)
    with seeded_noise(4):
        got = dp.hhh(candidates=FORMS[name](found), plan=statement.plan)
    pd.testing.assert_frame_equal(got, want)


def changed(column: str, value: object, level: int = 2) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """One row of a level with another value; a root for level 0."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        out = frame.astype({column: object})
        out.loc[out["level"].astype(int) == level, column] = value
        return out

    return change


def doubled(frame: pd.DataFrame) -> pd.DataFrame:
    out = pd.concat([frame, frame[frame["level"] == 2].head(1)])
    return out.assign(nodes=len(out))


def without_parents(frame: pd.DataFrame) -> pd.DataFrame:
    out = frame[frame["level"] != 1]
    return out.assign(nodes=len(out))


@cache
def of_threshold_60() -> tuple[Any, pd.DataFrame]:
    statement = made(threshold=60)
    return statement, answered(statement.sql)


REFUSED: list[tuple[Callable[[pd.DataFrame], Any], str]] = [
    (lambda f: f.head(len(f) - 1), "candidates lacks rows"),
    (lambda f: pd.concat([f, f]), "candidates lacks rows"),
    (lambda f: f.head(0), "empty"),
    (lambda f: f.assign(plan="0" * 32), "another plan"),
    (lambda f: f.assign(plan=None), "another plan"),
    (changed("plan", "x"), "another plan"),
    (changed("n", 1), "below the plan's band"),
    (changed("n", -5, 0), "below the plan's band"),
    (changed("n", 10**9), "parent is missing or counts less"),
    (changed("n", 60, 1), "parent is missing or counts less"),
    (changed("n", None), "no whole numbers in column 'n'"),
    (changed("n", 60.5), "no whole numbers in column 'n'"),
    (lambda f: f.assign(n=1e17), "no whole numbers in column 'n'"),
    (lambda f: f.assign(n=pd.Timestamp(0)), "no whole numbers in column 'n'"),
    (lambda f: f.assign(level=f["level"] > 0), "no whole numbers in column 'level'"),
    (lambda f: f.assign(n=2**63 - 1), "counts beyond"),
    (lambda f: f.assign(t1=b"\xff"), "parent|no nodes"),
    (lambda f: f.assign(t1=3), "no texts in column 't1', but int64"),
    (changed("level", 3), "levels outside 0 to 2"),
    (changed("level", 1, 0), "exactly one row of level 0"),
    (changed("level", 0, 1), "exactly one row of level 0"),
    (changed("t1", "1999", 1), "a node twice"),
    (changed("n", 300), "less than its children together"),
    (changed("t1", "x", 1), "no nodes of the hierarchy"),
    (changed("t1", "2000", 0), "no nodes of the hierarchy"),
    (changed("t2", "x", 1), "no nodes of the hierarchy"),
    (doubled, "a node twice"),
    (without_parents, "parent is missing or counts less"),
]


@some("0", "2", "5", "7", "10", "13", "15", "18", "23", "26")
@pytest.mark.parametrize(("change", "why"), REFUSED, ids=range(len(REFUSED)))
def test_what_the_plan_does_not_allow_is_refused(change: Any, why: str, tmp_path: Path) -> None:
    """In words without values of the data, and nothing is charged."""
    statement, found = of_threshold_60()
    assert set(found["level"]) == {0, 1, 2}
    ledger = dp.Ledger(tmp_path / "spent.db", epsilon=3.0, delta=1e-4)
    with pytest.raises(SourceError, match=why) as error:
        dp.hhh(candidates=change(found), plan=statement.plan, ledger=ledger)
    assert "90000" not in str(error.value)
    assert ledger.spent.epsilon == 0
    dp.hhh(candidates=found, plan=statement.plan, ledger=ledger, release="once")
    assert ledger.spent.epsilon == 1.0
    dp.hhh(candidates=found, plan=statement.plan, ledger=ledger, release="once")
    assert ledger.spent.epsilon == 1.0


@some("ip:ip", "columns:year,zip", "date:when")
@pytest.mark.parametrize("spec", SPECS)
def test_keys_of_another_kind_are_refused(spec: str) -> None:
    statement = made(spec)
    found = answered(statement.sql).astype({"t1": object})
    deep = found["level"] == found["level"].max()
    for key in (None, "", "no/such/../key of.any kind \n", "-1", "9" * 40):
        wrong = found.copy()
        wrong.loc[deep, "t1"] = key
        with pytest.raises(SourceError, match=r"no nodes|parent|twice"):
            dp.hhh(candidates=wrong, plan=statement.plan)


def test_a_missing_column_is_named() -> None:
    statement = made()
    found = answered(statement.sql)
    with pytest.raises(ColumnError, match=r"candidates has no column 'nodes'"):
        dp.hhh(candidates=found.drop(columns="nodes"), plan=statement.plan)
    with pytest.raises(ColumnError, match="has column 'n' more than once"):
        dp.hhh(candidates=found.assign(N=1), plan=statement.plan)
    with pytest.raises(ParameterTypeError, match="an Arrow table or a DuckDB relation"):
        dp.hhh(candidates=[1], plan=statement.plan)


def test_every_argument_of_the_plan_is_in_its_fingerprint() -> None:
    """Equal arguments make equal plans, in any process; others do not."""
    plan = made().plan
    assert made().plan.fingerprint == plan.fingerprint
    assert pickle.loads(pickle.dumps(plan)).fingerprint == plan.fingerprint
    others = [
        made("columns:zip,year"),
        *(made(threshold=99), made(user="who"), made(types=None)),
        *(made(table="v"), made(dialect="spark")),
    ]
    assert len({plan.fingerprint, *(other.plan.fingerprint for other in others)}) == 7


def test_the_secret_seed_is_in_the_statement_and_not_in_the_plan() -> None:
    """Two statements of a plan differ only with users."""
    assert made().sql == made().sql
    first, second = made(user="who"), made(user="who")
    assert first.sql != second.sql
    assert first.plan == second.plan


def test_statements_of_counts_of_all_nodes() -> None:
    """Keys listed, with only their nodes fetched, and weights."""
    keys = ["90000", "90111", "12345"]
    with seeded_noise(3):
        asked = {"keys": keys, "weight": "id", "epsilon": 1.0}
        where = {"table": "visits", "dialect": "duckdb", "types": {"id": "bigint"}}
        statement = dp.tree_rollup_sql(["zip"], **where, **asked)
        found = answered(statement.sql)
        got = dp.tree_counts(candidates=found, plan=statement.plan)
    with seeded_noise(3):
        want = dp.tree_counts(FRAME, ["zip"], **asked)
    pd.testing.assert_frame_equal(got, want)
    assert len(found) == 3


def tree(dialect: str, **more: Any) -> Any:
    return dp.tree_rollup_sql(["a"], table="t", dialect=dialect, **BUDGET, **more)


CANDIDATES = {"candidates": FRAME}
CALLS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: made(mechanism="streaming"), ParameterError, "mechanism='streaming'"),
    (lambda: sql(["a"], "postgre"), ParameterError, "Did you mean 'postgres'"),
    (lambda: sql(["a"], "spark", table="t; drop"), ParameterError, "without a semicolon"),
    (lambda: sql(["a"], "spark", table=3), ParameterTypeError, "table must be a name"),
    (lambda: sql(["a"], "spark", {"a": "map<int,int>"}), ColumnError, "unknown in spark"),
    (lambda: sql("date:a", "postgres", {"a": "integer"}), ColumnError, "reads dates"),
    (lambda: sql(["a"], "duckdb", {"a": "INT) , evil("}), ColumnError, "unknown in duckdb"),
    (lambda: sql(["a"], "postgres", {"A": "double"}), ColumnError, "types has 'A', and not 'a'"),
    (lambda: sql(["a"], "spark", {1: "int"}), ParameterTypeError, "types must name columns"),
    (lambda: tree("postgres", types={"a": "numeric"}, keys=["1.5"]), ColumnError, "need digits"),
    (lambda: sql(["a${b}"], "spark"), ColumnError, "rename it"),
    (
        lambda: sql(["a"], "snowflake", {"u": "float"}, user="u"),
        *(ColumnError, "ids of type DOUBLE have no exact text in Snowflake"),
    ),
    (lambda: sql(["a"], "spark", ["a"]), ParameterTypeError, "types must be a dict"),
    (lambda: dp.hhh(plan=made().plan), ParameterError, "candidates is missing"),
    (lambda: dp.hhh(**CANDIDATES), ParameterError, "plan is missing"),
    (
        lambda: dp.hhh(**CANDIDATES, plan=made().plan, epsilon=1.0),
        ParameterError,
        "epsilon must be",
    ),
    (lambda: dp.hhh(FRAME, **CANDIDATES, plan=made().plan), ParameterError, "source must be left"),
    (
        lambda: dp.hhh(**CANDIDATES, plan=dp.explain(["a"], **BUDGET).plan),
        *(ParameterTypeError, "plan of dp.rollup_sql"),
    ),
    (lambda: dp.tree_counts(**CANDIDATES, plan=made().plan), ParameterError, "is for dp.hhh"),
    (
        lambda: dp.hhh(**CANDIDATES, plan=tree("spark").plan),
        ParameterError,
        "is for dp.tree_counts",
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS, ids=[words for *_, words in CALLS])
def test_arguments_are_checked(call: Callable[[], object], kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_types_of_engines_are_known() -> None:
    kinds = {
        "postgres": ["character varying(20)", "double precision", "timestamp with time zone"],
        "spark": ["string", "decimal(10,2)", "timestamp_ntz"],
        "snowflake": ["NUMBER(38,0)", "TIMESTAMP_LTZ(9)"],
        "bigquery": ["STRING", "FLOAT64", "DATETIME"],
    }
    for dialect, names in kinds.items():
        for name in names:
            sql(["a"], dialect, {"a": name})


def test_types_are_read_as_duckdb_names_them() -> None:
    """Other names of a type change nothing but the fingerprint of the plan."""
    for names in (["text", "string", "varchar"], ["float8", "DOUBLE"], ["int8", "BIGINT"]):
        plans = [sql(["a"], "duckdb", {"a": name, "z": "?"}) for name in names]
        assert len({made.plan.fingerprint for made in plans}) == 1


@pytest.mark.parametrize("kind", ["double", "bigint", "date", "decimal(9,2)"])
def test_types_that_are_not_so_are_no_errors(kind: str) -> None:
    spec = {"double": "number:a?lower=0&upper=9", "date": "date:a"}.get(kind, "columns:a")
    statement = dp.tree_rollup_sql(
        spec, table="t", dialect="duckdb", types={"a": kind, "w": "bigint"}, weight="w", **BUDGET
    )
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 'abc' AS a, 'x' AS w UNION ALL SELECT '1', '2'")
        found = con.sql(statement.sql).df()
    assert found["n"].max() == 2  # of the one weight
    dp.tree_counts(candidates=found, plan=statement.plan)


@pytest.mark.parametrize("rows", [0, 5])
@pytest.mark.parametrize("types", [None, {"a": "text"}])
def test_texts_that_compare_as_equal_stay_apart(rows: int, types: dict[str, str] | None) -> None:
    """A column is read by its bytes; a session with a collation is refused for any rows."""
    statement = sql("path:a", "duckdb", types)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (a VARCHAR COLLATE NOCASE)")
        con.execute(f"INSERT INTO t SELECT 'ab/x' FROM range({rows})")
        con.execute(f"INSERT INTO t SELECT 'AB/x' FROM range({rows})")
        found = con.sql(statement.sql).fetchall()
        assert sorted(n for level, n, *_ in found if level == 1) == [rows] * (2 * (rows > 0))
        con.execute("SET default_collation = 'nocase'")
        with pytest.raises(duckdb.Error, match="RESET default_collation"):
            con.sql(statement.sql).fetchall()


def test_weeks_are_refused_where_they_would_have_to_be_computed() -> None:
    """Law: the sentence says what to do; quarters are counted everywhere."""
    with pytest.raises(dp.HierarchyError, match="add a column of weeks"):
        sql("date:d?levels=week", "postgres", {"d": "DATE"})
    assert "-Q" in sql("date:d?levels=quarter", "postgres", {"d": "DATE"}).sql


BERLIN = ("when", "2024-W23", "Europe/Berlin")
WEEK = ("when", "2024-W23")
PERIODS: list[tuple[Any, Any, type[Exception], str]] = [
    (None, WEEK, ColumnError, "types lacks 'when' of period"),
    ({"when": "text"}, WEEK, ColumnError, "is text, no times in postgres"),
    ({"when": "integer"}, WEEK, ColumnError, "period reads"),
    ({"when": "timestamp"}, BERLIN, ColumnError, "without a time zone"),
    ({"when": "timestamp"}, ("when", "9000"), ParameterError, "is not over"),
    ({"wen": "timestamp"}, WEEK, ColumnError, "types has 'wen', and not 'when'"),
]


@pytest.mark.parametrize(("types", "period", "error", "words"), PERIODS)
def test_a_period_that_a_statement_cannot_restrict_to_is_refused(
    types: Any, period: Any, error: type[Exception], words: str
) -> None:
    """Law: what would read other records than the period says is an error before a statement."""
    with pytest.raises(error, match=words):
        sql(["a"], "postgres", types, period=period)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark", "snowflake", "bigquery"])
def test_a_statement_of_a_period_is_sql_of_its_dialect(dialect: str) -> None:
    """Law: bounds are literals that it parses; plans of two periods differ."""
    sqlglot = pytest.importorskip("sqlglot")
    zoned = {"spark": "timestamp", "bigquery": "timestamp"}.get(dialect, "timestamptz")
    bare = {"spark": "timestamp_ntz", "bigquery": "datetime"}.get(dialect, "timestamp")
    prints = set()
    for kind, zone in (("date", ()), (bare, ()), (zoned, ("Europe/Berlin",))):
        for text in ("2024-W23", None):
            period = ("when", text, *(zone if text else ()))
            made = sql(["a"], dialect, {"when": kind}, period=period)
            prints.add(made.plan.fingerprint)
            assert sqlglot.parse_one(made.sql, read=dialect) is not None
            if text is None:
                assert "IS NULL" in made.sql
    assert len(prints) == 6


def test_duckdb_restricts_a_statement_as_it_does_a_table() -> None:
    """Law: the period goes into the receipt; beside candidates it is refused."""
    rows = pd.DataFrame(
        {"a": ["x"] * 900, "when": pd.date_range("2024-06-01", periods=900, freq="h")}
    )
    made = sql(["a"], "duckdb", {"when": "timestamp"}, "rows", period=WEEK)
    found = duckdb.sql(made.sql).df()
    assert found.loc[found["level"] == 0, "n"].tolist() == [7 * 24]
    assert len(rows) == 900
    result = dp.hhh(candidates=found, plan=made.plan)
    assert result.attrs["dp"]["period"]["text"] == "2024-W23"
    refused = r"period does not go with candidates=.* dp\.rollup_sql"
    with pytest.raises(ParameterError, match=refused):
        dp.hhh(candidates=found, plan=made.plan, period=("when", "2024-W23"))
