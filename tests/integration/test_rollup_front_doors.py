"""A rollup is the same by whichever door its rows and measures come in, and by any other later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.testing import seeded_noise
from tests.doors import (
    Answer,
    Door,
    World,
    accessor,
    command,
    function,
    in_this_process,
    in_turn,
    public,
    rows,
    sql,
)
from tests.members import some

BUDGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5}
USER: dict[str, Any] = {**BUDGET, "user": "who"}
MEASURES = ["count AS n", "sum(amount, 0, 40, clipped=true) AS paid", "mean(amount, 0, 40)"]


def hostile() -> pd.DataFrame:
    """Rows with values that count nothing, huge ones, and users who are missing."""
    frame = rows()
    n = np.arange(len(frame))
    frame["odd"] = np.select(
        [n % 11 == 0, n % 13 == 0, n % 17 == 0], [np.nan, np.inf, -1e308], default=2.5
    )
    frame["whole"] = pd.Series(np.where(n % 7 == 0, 2**62, n % 5), dtype="Int64")
    frame.loc[n % 5 == 0, "whole"] = None
    frame.loc[n % 19 == 0, "who"] = None
    return frame


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("doors")
    frame = hostile()
    frame.to_parquet(folder / "rows.parquet")
    con = duckdb.connect(str(folder / "user.db"))
    con.read_parquet(str(folder / "rows.parquet")).create("visits")
    yield World(frame, folder / "rows.parquet", con)
    con.close()


def command_line(world: World, hierarchy: str, arguments: dict[str, Any]) -> Answer:
    return command(world, "rollup", hierarchy, flags_of(world, arguments))


def flags_of(world: World, arguments: dict[str, Any]) -> list[str]:
    """Arguments as the command line takes them: a measure at a time, keys in a file."""
    flags = []
    for name, value in arguments.items():
        if name == "measures":
            texts = [value] if isinstance(value, str) else value
            flags += [f"--measure={text}" for text in texts]
        elif name == "keys":
            file = world.parquet.with_name("keys.parquet")
            pq.write_table(pa.Table.from_pandas(value, preserve_index=False), file)
            flags.append(f"--keys={file}")
        else:
            flags.append(f"--{name.replace('_', '-')}={value}")
    return flags


DOORS: dict[str, Door] = {
    "accessor": accessor("rollup"),
    "function, pandas": function("rollup", lambda world: world.frame),
    "function, Arrow": function("rollup", lambda world: pa.Table.from_pandas(world.frame)),
    "function, Polars": function("rollup", lambda world: pl.read_parquet(world.parquet)),
    "function, DuckDB relation": function("rollup", lambda world: world.con.table("visits")),
    "function, file": function("rollup", lambda world: world.parquet),
    "command line": command_line,
    "SQL, table": sql("rollup", "'visits'", "by"),
    "SQL, query": sql("rollup", "query := 'SELECT * FROM visits -- all'", "by"),
}

PATHS = pd.DataFrame({"path": ["a/0/0", "a/1/1", "a/1/13", "b/none"]})

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("columns", "columns:host,zip", {**BUDGET, "measures": MEASURES}),
    ("ragged paths", "path:path", {**BUDGET, "measures": MEASURES}),
    ("one measure", "ip:ip", {**BUDGET, "measures": "count"}),
    ("odd values", "columns:host", {**BUDGET, "measures": ["sum(odd, -9, 9)", "mean(odd, 0, 9)"]}),
    ("whole numbers", "date:when", {**BUDGET, "measures": "sum(whole, 0, 1e15) AS s"}),
    ("negative sums", "columns:host", {**BUDGET, "measures": "sum(odd, -9, 0, clipped=true)"}),
    ("distinct", "columns:host,zip", {**BUDGET, "measures": ["distinct(who)", "count"]}),
    ("auto", "columns:host", {**BUDGET, "measures": ["sum(amount, 0, auto)", "count"]}),
    ("listed", "path:path", {"epsilon": 8.0, "keys": PATHS, "measures": MEASURES}),
    ("share", "columns:host", {**BUDGET, "measures": ["count(share=3)", "sum(id, 0, 600)"]}),
    ("selection", "columns:host", {**BUDGET, "measures": "count", "selection_share": 0.7}),
    ("users", "columns:host,zip", {**USER, "measures": MEASURES}),
    ("rows of users", "columns:host", {**USER, "measures": ["count(at_most=3) AS n", "count"]}),
    ("distinct of users", "columns:host", {**USER, "measures": "distinct(id, at_most=4)"}),
    (
        "users, listed",
        "path:path",
        {"epsilon": 8.0, "user": "who", "keys": PATHS, "measures": "count"},
    ),
    (
        "threshold",
        "columns:host",
        {**BUDGET, "measures": "count", "threshold": 100, "confidence": 0.8},
    ),
]


LATER = ("measures", "card", "levels_measured", "notices")
"""What a receipt gains by the draw; ``dp_releases`` lists what was charged, before it."""


def released(door: Door, world: World, about: str, given: dict[str, Any], folder: Path) -> Answer:
    """A release with a ledger, which knows the receipt, and fixed noise."""
    path = folder / "ledger.db"
    path.unlink(missing_ok=True)
    with seeded_noise(8), dp.use_ledger(dp.Ledger(path, epsilon=100.0, delta=0.1)):
        return door(world, about, given)


def plain(value: object) -> object:
    """As every door can say it."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is None or value != value else str(value)


@some("columns", "one measure", "negative sums", "selection", "distinct of users", "threshold")
@pytest.mark.parametrize(("about", "given", "doors"), in_turn(DOORS, CASES))
def test_every_door_gives_the_same_rollup(
    about: str, given: dict[str, Any], doors: dict[str, Door], world: World, tmp_path: Path
) -> None:
    """Law: same rows, measures and noise, same release: columns, order, values and receipt."""
    seen: dict[str, Answer] = {}
    for name, door in doors.items():
        seen[name] = released(door, world, about, given, tmp_path)
    frame, receipt = seen["accessor"]
    assert len(frame) > 1
    for name, (other, facts) in seen.items():
        assert list(other.columns) == list(frame.columns), name
        for column in frame.columns:
            ours, theirs = map(plain, frame[column]), map(plain, other[column])
            assert list(ours) == list(theirs), (name, column)
        ours, theirs = public(dict(receipt)), public(dict(facts))
        for own in ("ledger", "keys", "budget", *(LATER if name.startswith("SQL") else ())):
            ours.pop(own, None), theirs.pop(own, None)
        assert ours == theirs, name


def test_a_name_replays_at_every_door(world: World, tmp_path: Path) -> None:
    """Law: what was released under a name comes back from Python, SQL and the command line, is
    charged once, and is refused to a call that asks for something else."""
    path = tmp_path / "ledger.db"
    ledger = dp.Ledger(path, epsilon=20.0, delta=1e-3)
    asked = {"measures": MEASURES, **BUDGET}
    first = dp.rollup(world.parquet, ["host"], **asked, ledger=ledger, release="r", data="may")
    spent = ledger.spent
    assert spent.epsilon == 8.0
    with pytest.warns(UserWarning, match="replay"):
        again = dp.rollup(world.parquet, ["host"], **asked, ledger=path, release="r", data="may")
    pd.testing.assert_frame_equal(first, again)
    out = tmp_path / "again.parquet"
    flags = [
        *flags_of(world, asked),
        f"--ledger={path}",
        "--release=r",
        "--data=may",
        "-o",
        str(out),
    ]
    said = in_this_process("rollup", str(world.parquet), "columns:host", *flags, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "replayed" in said.stdout + said.stderr
    pd.testing.assert_frame_equal(pd.read_parquet(out), first, check_dtype=False)
    receipt = receipt_in_metadata(pq.read_schema(out).metadata)
    assert receipt is not None
    assert receipt["release_id"] == first.dp.receipt["release_id"]
    with pytest.raises(dp.DpframeError, match="release"):
        dp.rollup(world.parquet, ["host"], "count", **BUDGET, ledger=path, release="r", data="may")
    assert ledger.spent == spent


def test_a_name_replays_in_sql(world: World, tmp_path: Path) -> None:
    """Law: a statement that runs again gives the stored rows and charges nothing."""
    with duckdb.connect() as con:
        ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=20.0, delta=1e-3)
        dp.register(con, ledger=ledger)
        con.execute(f"CREATE TABLE t AS FROM '{world.parquet}'")
        statement = (
            "FROM dp_rollup('t', 'columns:host', ['count AS n', 'sum(amount, 0, 40)'], "
            "epsilon := 8.0, delta := 1e-5, release := 'r')"
        )
        first, again = con.execute(statement).df(), con.execute(statement).df()
        pd.testing.assert_frame_equal(first, again)
        assert ledger.spent.epsilon == 8.0
        pd.testing.assert_frame_equal(ledger.recall("r"), first, check_dtype=False)
        (text,) = con.execute("SELECT receipt FROM dp_releases()").fetchall()[0]
        assert json.loads(text)["measures"]["n"]["spec"] == "count"


def test_a_rollup_is_explained_alike(world: World, tmp_path: Path) -> None:
    """Law: Python, SQL and the command line tell the same of a plan, and none reads a value."""
    plan = dp.explain_rollup("columns:host", MEASURES, **BUDGET).plan
    lines = {line.name for line in plan.lines()}
    with duckdb.connect() as con:
        dp.register(con)
        con.execute(f"CREATE TABLE t AS FROM '{world.parquet}'")
        told = con.execute(
            "SELECT quantity FROM dp_explain_rollup('t', 'columns:host', $m, epsilon := 8.0, "
            "delta := 1e-5)",
            {"m": MEASURES},
        ).fetchall()
    assert lines <= {name for (name,) in told}
    flags = flags_of(world, {"measures": MEASURES, **BUDGET})
    said = in_this_process("explain-rollup", "columns:host", *flags, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert [name for name in lines if name not in said.stdout] == []


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
        *("explain-rollup", "columns:host", "--delta=1e-5", *flags),
        *flags_of(world, {"measures": MEASURES}),
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
    own = flags_of(world, {"measures": MEASURES})
    done = in_this_process(
        "explain-rollup", "columns:host", "--delta=1e-5", *own, *flags, cwd=tmp_path
    )
    assert done.returncode != 0
    assert said in done.stderr


def test_the_command_line_writes_a_report(world: World, tmp_path: Path) -> None:
    flags = [*flags_of(world, {"measures": MEASURES, **BUDGET}), "--report", "page.html"]
    said = in_this_process("rollup", str(world.parquet), "columns:host", *flags, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "Rollup of host" in text
    assert '"title":"paid_clipped"' in text


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
