"""One gate: what costs nothing, what is remembered, and what is refused before rows are read."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe import noise
from dpframe.asking import answer
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import Release
from dpframe.doors.gateway import gate as gates
from dpframe.doors.gateway.gate import ClosedError, FailedError, Gate, Reply, UnknownDataError
from dpframe.doors.gateway.policy import hash_token
from dpframe.doors.gateway.policy_reader import read_policy
from dpframe.doors.series import declaration
from dpframe.testing import seeded_noise

POLICY = """
[gateway]
floor = 0.01
failures = 2

[data.sales]
source = "sales.parquet"
levels = ["columns:country,city", "number:paid?lower=0&upper=64"]
bounds = {{ paid = [0, 50] }}
filters = ["paid"]
epsilon = 20
delta = 1e-4
largest = 4
default = 1
state = "{state}"

[data.people]
source = {people}
user = "who"
levels = {levels}
bounds = {{ paid = [0, 50] }}
epsilon = 20
delta = 1e-4
largest = 4

[analyst.ann]
token = "{ann}"
shares = {{ sales = 6, people = 20 }}

[analyst.ben]
token = "{ben}"
owner = true
shares = {{ sales = 20 }}

[analyst.cid]
token = "{cid}"
shares = {{ sales = 1 }}
"""

Opened = Callable[..., Gate]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens a gate over small tables; other states and levels by name."""
    rows = pd.DataFrame({"who": range(3000), "paid": 10.0})
    rows["country"] = [f"c{i % 3}" for i in range(3000)]
    rows["city"] = [f"t{i % 6}" for i in range(3000)]
    rows.to_parquet(tmp_path / "sales.parquet")
    here: list[Gate] = []

    def open_gate(
        state: str = "1",
        levels: str = '["columns:country,city"]',
        people: str = '"sales.parquet"',
    ) -> Gate:
        while here:
            here.pop().close()
        hashes = {name: hash_token(name) for name in ("ann", "ben", "cid")}
        text = POLICY.format(state=state, levels=levels, people=people, **hashes)
        (tmp_path / "policy.toml").write_text(text)
        here.append(Gate(read_policy(tmp_path / "policy.toml")))
        return here[0]

    yield open_gate
    for one in here:
        one.close()


def ask(gate: Gate, who: str, data: str, question: str, **arguments: Any) -> Reply:
    return gate.ask(gate.policy.analysts[who], data, question, arguments)


def left(gate: Gate, who: str = "ann", data: str = "sales") -> list[float]:
    return [row["left"] for row in gate.budget(gate.policy.analysts[who], data)]


BOTH = {"by": ["country", "city"], "measures": ["count", "sum(paid)"], "epsilon": 2}
ONE = {**BOTH, "by": "country"}


def test_one_question_is_drawn_once_whoever_asks_and_however_it_is_written(opened: Opened) -> None:
    """Law: the canonical question is the name; only the first one is charged."""
    gate = opened()
    first = ask(gate, "ann", "sales", "rollup", **BOTH)
    others = [
        {**BOTH, "by": "columns:country,city"},
        {**BOTH, "measures": ["count", "sum(paid, 0, 50)"], "epsilon": 2.0},
        {**BOTH, "period": None, "confidence": 0.95},
    ]
    for other in others:
        reply = ask(gate, "ben", "sales", "rollup", **other)
        assert reply.table.equals(first.table)
        assert (reply.name, first.free) == (first.name, None)
        assert str(reply.free).startswith("it was drawn on")
    assert left(gate) == [4, 18]
    assert ask(gate, "ben", "sales", "rollup", **{**BOTH, "epsilon": 2.5}).free is None
    assert left(gate, "ben") == [17.5, 15.5]


def test_the_ending_of_a_query_is_free(opened: Opened) -> None:
    """Law: queries that group the same rows share one draw."""
    gate = opened()
    query = "SELECT country, count(*) AS n FROM sales GROUP BY country"
    whole = ask(gate, "ann", "sales", "sql", query=query)
    some = ask(gate, "ben", "sales", "sql", query=f"{query} ORDER BY n DESC LIMIT 1")
    largest = whole.table.to_pandas().sort_values("n", ascending=False, kind="stable").head(1)
    assert some.table.to_pandas().to_dict("list") == largest.to_dict("list")
    assert (some.name, left(gate)) == (whole.name, [5, 19])
    where = query.replace("GROUP", "WHERE paid > 1 GROUP")
    assert ask(gate, "ben", "sales", "sql", query=where).free is None


def test_upper_levels_follow_from_a_finer_rollup_of_records(opened: Opened, tmp_path: Path) -> None:
    """Law: they are its rows, say so, and its receipt proves them; ``derive=False`` draws anew."""
    gate = opened()
    finer = ask(gate, "ann", "sales", "rollup", **BOTH)
    told = gate.explain(gate.policy.analysts["ben"], "sales", "rollup", ONE)
    reply = ask(gate, "ben", "sales", "rollup", **ONE)
    assert reply.free == told["free"]
    assert f"follows from release {finer.name}" in str(reply.free)
    rows = finer.table.to_pandas()
    upper = rows[rows["level"] <= 1].reset_index(drop=True)
    found = Release(reply.table.to_pandas(), Receipt(reply.receipt)).to_frame()
    pd.testing.assert_frame_equal(found, upper, check_names=False, check_like=False)
    assert dp.verify(found).code == 0
    found.dp.report(tmp_path / "upper.html")
    assert any(line[0] == "follows from" for line in reply.receipt["card"])
    assert left(gate, "ben") == [20, 18]
    anew = ask(gate, "ben", "sales", "rollup", **ONE, derive=False)
    assert anew.free is None
    assert ask(gate, "ann", "sales", "rollup", **ONE).name == anew.name


@pytest.mark.parametrize(
    "other",
    [{"epsilon": 1.5}, {"measures": ["count"]}, {"threshold": 900}, {"confidence": 0.9}],
    ids=lambda one: next(iter(one)),
)
def test_another_question_does_not_follow(opened: Opened, other: dict[str, Any]) -> None:
    gate = opened()
    ask(gate, "ann", "sales", "rollup", **BOTH)
    assert ask(gate, "ben", "sales", "rollup", **{**ONE, **other}).free is None


def test_levels_of_users_do_not_follow(opened: Opened) -> None:
    """Law: what a user adds to a node depends on the last level."""
    gate = opened()
    ask(gate, "ann", "people", "rollup", **BOTH)
    assert ask(gate, "ann", "people", "rollup", **ONE).free is None


def test_stored_releases_are_recalled_compared_and_listed(opened: Opened) -> None:
    """Law: all of it is free, and what the policy no longer allows is not shown."""
    gate = opened()
    ben = gate.policy.analysts["ben"]
    first = ask(gate, "ben", "sales", "rollup", **ONE)
    query = "SELECT country, sum(paid) AS paid FROM sales GROUP BY country"
    written = ask(gate, "ann", "sales", "sql", query=query)
    gate = opened(state="2")
    second = ask(gate, "ann", "sales", "rollup", **ONE)
    assert second.free is None
    spent = left(gate, "ben")
    assert gate.release(ben, "sales", first.name).table.equals(first.table)
    assert gate.release(ben, "sales", written.name).table.equals(written.table)
    changed = gate.change(ben, "sales", {"before": first.name, "after": second.name})
    assert "change_lower" in changed.table.column_names
    listed = gate.releases(ben, "sales")
    assert [(one["question"], one["yours"], one["analyst"]) for one in listed] == [
        ("rollup", True, "ben"),
        ("sql", False, "ann"),
        ("rollup", False, "ann"),
    ]
    assert listed[1]["arguments"]["query"] == query
    assert "analyst" not in gate.releases(gate.policy.analysts["ann"], "sales")[0]
    assert left(gate, "ben") == spent
    with pytest.raises(UnknownDataError, match="has no release 'x'"):
        gate.release(ben, "sales", "x")
    people = ask(gate, "ann", "people", "hhh", hierarchy=["country", "city"], epsilon=1)
    gate = opened(state="2", levels='["columns:country"]')
    with pytest.raises(dp.ColumnError, match="may not be asked"):
        gate.release(gate.policy.analysts["ann"], "people", people.name)


def test_rows_that_change_need_a_name(opened: Opened, tmp_path: Path) -> None:
    """Law: a state is one state of the rows, while a gateway runs and when it starts again."""
    gate = opened()
    first = ask(gate, "ann", "sales", "rollup", **ONE)
    pd.read_parquet(tmp_path / "sales.parquet").iloc[:2000].to_parquet(tmp_path / "sales.parquet")
    with pytest.raises(ClosedError, match="changed while the gateway runs"):
        ask(gate, "ann", "sales", "rollup", **BOTH)
    assert ask(gate, "ann", "sales", "rollup", **ONE).table.equals(first.table)
    with pytest.raises(dp.SourceError, match="still called state '1'"):
        opened()
    with pytest.raises(dp.SourceError, match="'people' changed"):  # it has a state of its own
        opened(state="2")


def test_failures_after_rows_were_read_close_a_data_set(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: they say one sentence, count on disk, and an owner reopens."""
    gate = opened()
    real = answer.make_release
    secret = "a value of a row"

    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError(secret)

    monkeypatch.setattr(answer, "make_release", fail)
    for _ in range(2):
        with pytest.raises(FailedError) as caught:
            ask(gate, "ann", "sales", "rollup", **ONE)
        assert str(caught.value) == gates.FAILED
    assert [one for one in gate.log if secret in str(one)] == []
    monkeypatch.setattr(answer, "make_release", real)
    gate = opened()
    with pytest.raises(ClosedError, match="closed for you"):
        ask(gate, "ann", "sales", "rollup", **ONE)
    assert ask(gate, "ben", "sales", "rollup", **ONE).free is None
    with pytest.raises(dp.ParameterError, match="only owners"):
        gate.reopen(gate.policy.analysts["ann"], "sales", "ann")
    ben = gate.policy.analysts["ben"]
    with pytest.raises(dp.ParameterError, match="no data set 'sale'"):
        gate.reopen(ben, "sale", "ann")
    gate.reopen(ben, "people", "ann")  # of which ben has no share
    gate.reopen(ben, "sales", "ann")
    assert ask(gate, "ann", "sales", "rollup", **BOTH).free is None


def test_one_gateway_holds_a_folder_that_nobody_else_reads(opened: Opened) -> None:
    gate = opened()
    with pytest.raises(dp.LedgerError, match="held by another gateway"):
        Gate(gate.policy)
    for path, mode in ((gate.policy.folder, 0o700), (gate.policy.folder / "sales.db", 0o600)):
        assert path.stat().st_mode & 0o777 == mode
        path.chmod(mode | 0o040)
        with pytest.raises(dp.LedgerError, match="can be read by others"):
            opened()
        path.chmod(mode)
    assert os.listdir(gate.policy.folder)


@pytest.mark.parametrize(
    ("question", "arguments", "words"),
    [
        ("hhh", {"hierarchy": "columns:who"}, "may not be asked"),
        ("hhh", {"hierarchy": "columns:country", "user": "who"}, "The policy sets it"),
        ("hhh", {"hierarchy": "columns:country", "ledger": "x.db"}, "no argument 'ledger'"),
        ("hhh", {"hierarchy": "columns:country", "epsilon": 4.1}, "at most 4"),
        ("hhh", {"hierarchy": "columns:country", "epsilon": True}, "must be a number"),
        ("hhh", {"hierarchy": "columns:country", "epsilon": float("inf")}, "finite numbers"),
        ("hhh", {"hierarchy": {"a": [1]}}, "hierarchy"),
        ("hhh", {"hierarchy": "columns:country", "period": "2026-W01"}, "no column of periods"),
        ("rollup", {"by": "country", "measures": ["sum(who)"]}, "no bounds of 'who'"),
        ("rollup", {"by": "country", "measures": ["sum(paid, 0, 9)"]}, "the policy sets upper"),
        ("rollup", {"by": "country", "keys": "sales.parquet"}, "no list"),
        ("sql", {"query": "SELECT who, count(*) FROM sales GROUP BY who"}, "who"),
        ("sql", {"query": "SELECT count(*) FROM 'sales.parquet'"}, "no table"),
        ("sql", {"query": "SELECT count(*) FROM people"}, "people"),
        ("synthesize", {}, "answers no 'synthesize'"),
    ],
)
def test_what_a_policy_does_not_allow_is_refused_before_rows_are_read(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    question: str,
    arguments: dict[str, Any],
    words: str,
) -> None:
    gate = opened()

    def read(*_: Any) -> Any:
        raise AssertionError("rows were read")

    monkeypatch.setattr(Gate, "_draw", read)
    with pytest.raises((dp.ParameterError, dp.ParameterTypeError), match=words):
        ask(gate, "ann", "sales", question, **arguments)


@pytest.mark.parametrize("name", ["none", "people", None, 3, ["sales"]])
def test_a_data_set_of_others_does_not_exist(opened: Opened, name: Any) -> None:
    """Law: it is refused as one that nobody has."""
    gate = opened()
    with pytest.raises(UnknownDataError) as caught:
        gate.ask(gate.policy.analysts["cid"], name, "hhh", {"hierarchy": "columns:country"})
    assert str(caught.value).startswith("there is no data set")


def test_an_owner_without_a_share_sees_and_does_not_ask(opened: Opened) -> None:
    """Law: owners read budgets, releases and stored answers of every data set, and pay nothing."""
    gate = opened()
    ben = gate.policy.analysts["ben"]
    question = {"hierarchy": "columns:country", "epsilon": 1}
    reply = ask(gate, "ann", "people", "hhh", **question)
    assert left(gate, "ben", "people") == [0, 19]
    assert [one["analyst"] for one in gate.releases(ben, "people")] == ["ann"]
    assert ask(gate, "ben", "people", "hhh", **question).table.equals(reply.table)
    assert not all(
        row["fits"]
        for row in gate.explain(ben, "people", "hhh", {**question, "epsilon": 2})["budget"]
    )
    with pytest.raises(dp.OverBudgetError, match="epsilon 0 of 0 left"):
        ask(gate, "ben", "people", "hhh", **{**question, "epsilon": 2})


def test_slow_plans_leave_nothing_in_memory(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: explanations are free, and do not fill the memory with tables of noise."""
    gate = opened()
    ben = gate.policy.analysts["ben"]
    question = {"hierarchy": "columns:country", "mechanism": "gaussian", "keys": ["c0"]}
    gate.explain(ben, "sales", "tree_counts", question)
    assert len(gate._read) == 1
    tables = [one for one in vars(noise).values() if hasattr(one, "cache_info")]
    assert sum(one.cache_info().currsize for one in tables) > 0
    monkeypatch.setattr(gates, "SLOW", 0.0)
    gate.read(ben, "sales", "tree_counts", {**question, "epsilon": 0.7})
    assert len(gate._read) == 1
    assert sum(one.cache_info().currsize for one in tables) == 0


def test_rows_of_sqlite_are_read_before_anybody_asks(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: such rows are read as a whole, which takes as long as they are many; no budget that
    moves afterwards tells when that was done."""
    rows = pd.read_parquet(tmp_path / "sales.parquet")
    with closing(sqlite3.connect(tmp_path / "sales.db")) as db:
        rows.to_sql("sales", db, index=False)
    gate = opened(people='{ database = "sales.db", table = "sales" }')

    def read(*_: Any) -> Any:
        raise AssertionError("rows are read while somebody waits")

    monkeypatch.setattr(declaration, "read_sqlite", read)
    assert ask(gate, "ann", "people", "hhh", hierarchy="columns:country", epsilon=1).free is None


ASKED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sales", "hhh", {"hierarchy": "columns:country,city"}),
    (
        "sales",
        "rollup",
        {"by": ["country", "city"], "measures": ["count", "sum(paid)", "mean(paid)"]},
    ),
    ("sales", "tree_counts", {"hierarchy": "columns:country,city"}),
    ("sales", "sql", {"query": "SELECT country, sum(paid) AS s FROM sales GROUP BY country"}),
    ("people", "hhh", {"hierarchy": "columns:country,city"}),
    ("people", "rollup", {"by": ["country", "city"], "measures": ["count", "sum(paid)"]}),
)


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_few_rows_are_held_and_answer_as_their_file_does(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Law: for one seed an answer does not depend on whether rows are held, or read each time."""
    rows = pd.read_parquet(tmp_path / "sales.parquet")
    rows.loc[rows.index % 7 == 0, "country"] = None
    rows.loc[rows.index % 11 == 0, "paid"] = float("nan")
    rows.to_parquet(tmp_path / "sales.parquet")
    people = '"sales.parquet"'
    if kind == "duckdb":
        with duckdb.connect(tmp_path / "sales.duckdb") as db:
            db.execute(f"CREATE TABLE t AS FROM '{tmp_path / 'sales.parquet'}'")
        people = '{ database = "sales.duckdb", table = "t" }'
    answers = []
    for most in (len(rows), len(rows) - 1):
        monkeypatch.setattr(gates, "MOST", most)
        gate = opened(people=people)
        assert (gate._tables["people"] is not None) is (most == len(rows))
        with seeded_noise(7):
            answers.append([ask(gate, "ann", *one[:2], **one[2], epsilon=1) for one in ASKED])
        gate.close()
        shutil.rmtree(gate.policy.folder)
    for held, read in zip(*answers, strict=True):
        assert held.table.replace_schema_metadata(None).equals(
            read.table.replace_schema_metadata(None)
        )
        assert held.table.num_rows > 1


def test_what_a_table_would_read_otherwise_is_not_held(opened: Opened, tmp_path: Path) -> None:
    """Law: rows are held if DuckDB has the same types for them; CSV, which is text, never is."""
    with duckdb.connect(tmp_path / "odd.duckdb") as db:
        db.execute(
            "CREATE TABLE t AS SELECT i AS who, 10.0 AS paid, 'c' AS country, "
            "'12:00:00+01'::TIMETZ AS city FROM range(100) t(i)"
        )
    gate = opened(people='{ database = "odd.duckdb", table = "t" }')
    assert gate._tables["people"] is None
    gate.close()
    shutil.rmtree(gate.policy.folder)
    pd.read_parquet(tmp_path / "sales.parquet").to_csv(tmp_path / "sales.csv", index=False)
    assert opened(people='"sales.csv"')._tables["people"] is None
