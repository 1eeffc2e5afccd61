"""``register``: again and again, on any connection, leaving nothing behind."""

from __future__ import annotations

import gc
import hashlib
import sqlite3
import subprocess
import sys
import weakref
from pathlib import Path

import duckdb
import pandas as pd
import pytest
import sqlalchemy

import dpframe as dp
from dpframe.doors.sql import calls as duckdb_sessions
from tests.sql.visits import HHH, LABELS, VISITS, Con, charges, labels, said


def a_file(folder: Path) -> Path:
    path = folder / "user.db"
    with duckdb.connect(str(path)) as con:
        con.execute(f"CREATE TABLE visits AS {VISITS}")
    return path


def test_registering_again_changes_nothing_but_the_ledger(con: Con, tmp_path: Path) -> None:
    one = dp.Ledger(tmp_path / "one.db", epsilon=10.0, delta=1e-4)
    two = dp.Ledger(tmp_path / "two.db", epsilon=10.0, delta=1e-4)
    dp.register(con, ledger=one)
    dp.register(con, ledger=one.path)
    before = con.execute("FROM dp_functions()").fetchall()
    con.execute(f"PREPARE p AS FROM {HHH}")
    con.execute("EXECUTE p").fetchall()
    dp.register(con, ledger=two)
    con.execute("EXECUTE p").fetchall()
    assert labels(con) == LABELS
    assert (charges(one), charges(two)) == (1, 2)
    dp.register(con)
    assert labels(con) == LABELS
    assert (charges(one), charges(two)) == (1, 2)
    assert con.execute("FROM dp_functions()").fetchall() == before


def test_the_ledger_in_use_is_charged(con: Con, ledger: dp.Ledger) -> None:
    with dp.use_ledger(ledger):
        dp.register(con)
    assert labels(con) == LABELS
    assert charges(ledger) == 1


@pytest.mark.parametrize("where", ["memory", "file", "read only"])
def test_every_kind_of_database(tmp_path: Path, where: str) -> None:
    path = ":memory:" if where == "memory" else str(a_file(tmp_path))
    with duckdb.connect(path, read_only=where == "read only") as con:
        if where == "memory":
            con.execute(f"CREATE TABLE visits AS {VISITS}")
        dp.register(con)
        assert labels(con) == LABELS
        names = [row[0] for row in con.execute("SELECT name FROM dp_functions()").fetchall()]
        assert names == [
            *(
                *("dp_budget", "dp_change", "dp_explain", "dp_explain_heavy_hitters"),
                "dp_explain_prefix_tree",
            ),
            *("dp_explain_rollup", "dp_explain_sql", "dp_explain_synthesize"),
            "dp_explain_tree_counts",
            *("dp_functions", "dp_heavy_hitters", "dp_hhh", "dp_plan_series"),
            *("dp_prefix_tree", "dp_releases", "dp_rollup", "dp_sql", "dp_synthesize"),
            "dp_tree_counts",
        ]


def test_a_cursor_is_a_connection_of_its_own(con: Con) -> None:
    """Law: what is registered on a cursor works there, also when others come and go."""
    first, second = con.cursor(), con.cursor()
    dp.register(first)
    dp.register(second)
    assert "dp_hhh does not exist" in said(con, f"FROM {HHH}")
    first.close()
    del first
    gc.collect()
    assert labels(second) == LABELS
    dp.register(con)
    assert labels(con) == labels(second) == LABELS


@pytest.mark.parametrize("name", [":memory:shared", "user.db"])
def test_connections_to_one_database(tmp_path: Path, name: str) -> None:
    """Law: two connections of one name have a ledger each, and the first may end first."""
    where = name if name.startswith(":") else str(tmp_path / name)
    first, second = duckdb.connect(where), duckdb.connect(where)
    first.execute(f"CREATE TABLE visits AS {VISITS}")
    ledgers = [dp.Ledger(tmp_path / f"{i}.db", epsilon=9.0, delta=1e-4) for i in range(2)]
    for con, ledger in zip((first, second), ledgers, strict=True):
        dp.register(con, ledger=ledger)
    assert labels(first) == LABELS
    first.close()
    del first, con
    gc.collect()
    assert labels(second) == labels(second) == LABELS
    assert [charges(ledger) for ledger in ledgers] == [1, 2]
    second.close()


def test_nothing_is_written_into_the_database(tmp_path: Path, ledger: dp.Ledger) -> None:
    """Law: after registering, releasing and a checkpoint the file has the same bytes."""
    path = a_file(tmp_path)
    before = hashlib.sha256(path.read_bytes()).digest()
    with duckdb.connect(str(path)) as con:
        dp.register(con, ledger=ledger)
        assert labels(con) == LABELS
        con.execute("CHECKPOINT")
    assert hashlib.sha256(path.read_bytes()).digest() == before
    with duckdb.connect(str(path)) as con:
        ours = "SELECT count(*) FROM duckdb_functions() WHERE contains(function_name, 'dpframe')"
        assert con.execute(ours).fetchall() == [(0,)]
        assert con.execute("SHOW TABLES").fetchall() == [("visits",)]
        assert "dp_hhh does not exist" in said(con, f"FROM {HHH}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.db", "user.db"]


@pytest.mark.parametrize("ending", ["close", "garbage"])
def test_a_registered_connection_can_end(tmp_path: Path, ending: str) -> None:
    """Law: dpframe keeps no connection open: its file is free for another process."""
    path = a_file(tmp_path)
    con = duckdb.connect(str(path))
    dp.register(con)
    assert labels(con) == LABELS
    (token,) = con.execute("SELECT __dpframe_here()").fetchall()[0]
    gone = weakref.ref(con)
    if ending == "close":
        con.close()
    write = f"import duckdb; duckdb.connect({str(path)!r}).execute('CREATE TABLE t (i INTEGER)')"
    if ending == "garbage":
        done = subprocess.run([sys.executable, "-c", write], capture_output=True)
        assert done.returncode != 0  # the control: it was locked
    del con
    gc.collect()
    assert gone() is None
    assert token not in duckdb_sessions.sessions
    done = subprocess.run([sys.executable, "-c", write], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_registering_in_a_transaction(con: Con) -> None:
    con.execute("BEGIN")
    dp.register(con)
    assert labels(con) == LABELS
    con.execute("ROLLBACK")
    assert "dp_hhh does not exist" in said(con, f"FROM {HHH}")
    dp.register(con)
    assert labels(con) == LABELS


def test_macros_of_the_database_do_not_come_in_between(tmp_path: Path, ledger: dp.Ledger) -> None:
    """Law: a file that brings macros with our names cannot answer, or charge, in our place."""
    path = a_file(tmp_path)
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE MACRO __dpframe_ask(a := 1) AS 'SELECT ''true counts'' AS prefix'")
        con.execute("CREATE MACRO __dpframe_draw(a, b, c, d) AS c")
        con.execute("CREATE MACRO __dpframe_here() AS '1'")
        con.execute("CREATE MACRO dp_hhh(a) AS TABLE SELECT 'true counts' AS prefix")
    with duckdb.connect(str(path)) as con:
        dp.register(con, ledger=ledger)
        assert labels(con) == LABELS
        assert charges(ledger) == 1


def test_a_locked_configuration_is_no_hindrance(con: Con) -> None:
    settings = "SELECT name, value FROM duckdb_settings() ORDER BY name"
    con.execute("SET lock_configuration = true")
    before = con.execute(settings).fetchall()
    dp.register(con)
    assert labels(con) == LABELS
    assert con.execute(settings).fetchall() == before


@pytest.mark.parametrize("wrong", [None, "user.db", pytest, 7, sqlite3])
def test_only_connections_can_be_registered(wrong: object) -> None:
    with pytest.raises(dp.ParameterTypeError, match="con must be a DuckDB connection"):
        dp.register(wrong)


DEFAULT = """
import duckdb, dpframe as dp, gc, sys
ledger = dp.Ledger(sys.argv[1])
duckdb.sql("CREATE TABLE visits AS SELECT 'a' AS k, i AS who FROM range(900) r(i)")
dp.register({con}, ledger=ledger)
gc.collect()
call = "'visits', 'columns:k', epsilon := 1.0, delta := 1e-6"
assert duckdb.sql(f"SELECT prefix FROM dp_hhh({{call}})").fetchall()[1:] == [("a",)]
assert duckdb.execute(f"FROM dp_hhh({{call}}, mechanism := 'streaming')").fetchall()
other = duckdb.connect()
other.execute("CREATE TABLE visits AS SELECT 'b' AS k FROM range(900)")
dp.register(other)
assert other.execute(f"FROM dp_hhh({{call}})").fetchall()[1][1] == "b"
print(len(ledger.releases()))
"""


DEFAULTS = [
    "duckdb",
    "duckdb.default_connection()",
    pytest.param("con=duckdb.default_connection()", marks=pytest.mark.evidence),
]


@pytest.mark.parametrize("con", DEFAULTS)
def test_the_default_connection(con: str, ledger: dp.Ledger) -> None:
    """Law: what ``duckdb.sql`` uses stays registered, whether or not anybody holds its object."""
    code = [sys.executable, "-c", DEFAULT.format(con=con), str(ledger.path)]
    done = subprocess.run(code, capture_output=True, text=True)
    assert done.stdout.split()[-1:] == ["2"], done.stderr  # DuckDB may print its progress


@pytest.mark.parametrize("given", ["con", "con=con"])
def test_a_connection_that_somebody_holds_is_held_by_nobody_else(given: str) -> None:
    code = (
        "import duckdb, dpframe as dp, gc, weakref; from dpframe.doors.sql.calls import sessions"
        f"; con = duckdb.default_connection(); dp.register({given}); held = weakref.ref(con)"
        "; assert len(sessions) == 1; del con; gc.collect(); print(held(), len(sessions))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "None 0", done.stderr


def test_connections_of_sqlalchemy(ledger: dp.Ledger) -> None:
    engine = sqlalchemy.create_engine("duckdb:///:memory:")
    count = sqlalchemy.text(f"SELECT count(*) FROM {HHH}")
    with engine.connect() as con:
        con.execute(sqlalchemy.text(f"CREATE TABLE visits AS {VISITS}"))
        con.commit()
        for given in (con, con.connection, con.connection.driver_connection):
            dp.register(given, ledger=ledger)
            assert con.execute(count).scalar() == len(LABELS)
            con.rollback()
    assert charges(ledger) == 3
    engine.dispose()
    sqlite = sqlalchemy.create_engine("sqlite://")
    with (
        sqlite.connect() as con,
        pytest.raises(dp.ParameterTypeError, match=r"con must be .*got Connection"),
    ):
        dp.register(con)
    with pytest.raises(dp.ParameterTypeError, match="con is an engine for sqlite"):
        dp.register(sqlite)
    sqlite.dispose()


def test_engines_of_sqlalchemy(ledger: dp.Ledger, tmp_path: Path) -> None:
    """Law: every connection of a registered engine has the functions, whether it was opened before
    or after, also after ``dispose``; the last ledger is charged, and no connection of another
    engine is registered."""
    path = a_file(tmp_path)
    engine = sqlalchemy.create_engine(f"duckdb:///{path}")
    statement = f"SELECT count(*) AS n FROM {HHH}"
    with engine.connect() as con:  # opened before
        con.execute(sqlalchemy.text("SELECT 1"))
    first = dp.Ledger(tmp_path / "first.db", epsilon=10.0, delta=1e-4)
    dp.register(engine, ledger=first)
    assert pd.read_sql(statement, engine)["n"].tolist() == [len(LABELS)]
    with engine.connect() as one, engine.connect() as other:  # two of the pool at once
        for con in (one, other):
            assert con.execute(sqlalchemy.text(statement)).scalar() == len(LABELS)
    assert charges(first) == 3
    for _ in range(2):
        dp.register(engine, ledger=ledger)
        assert pd.read_sql(statement, engine)["n"].tolist() == [len(LABELS)]
        engine.dispose()
        assert pd.read_sql(statement, engine)["n"].tolist() == [len(LABELS)]
    assert (charges(first), charges(ledger)) == (3, 4)
    stranger = sqlalchemy.create_engine("duckdb:///:memory:")
    with stranger.connect() as con, pytest.raises(sqlalchemy.exc.DBAPIError, match="dp_budget"):
        con.execute(sqlalchemy.text("SELECT * FROM dp_budget()"))
    stranger.dispose()
    engine.dispose()


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("ibis.backends.duckdb", ["con"]),
        ("sql.connection.connection", ["_connection_sqlalchemy", "driver_connection"]),
    ],
)
def test_objects_of_ibis_and_jupysql(con: Con, module: str, names: list[str]) -> None:
    """Law: the DuckDB connection is found where ibis 12 and jupysql 0.11 keep it."""
    held: object = con
    for name in reversed(names):
        where = "sqlalchemy.engine.base" if name == "driver_connection" else module
        held = type("Holder", (), {"__module__": where, name: held})()
    dp.register(held)
    assert labels(con) == LABELS


def test_a_view_read_without_registering_says_what_is_missing(tmp_path: Path) -> None:
    """Law: a persistent view needs ``register`` in every process, and DuckDB names the function."""
    path = a_file(tmp_path)
    with duckdb.connect(str(path)) as con:
        dp.register(con)
        con.execute(f"CREATE VIEW heavy AS FROM {HHH}")
    with duckdb.connect(str(path)) as con:
        assert "Table Function with name dp_hhh does not exist" in said(con, "FROM heavy")
        dp.register(con)
        assert labels(con, "heavy") == LABELS


def test_the_functions_of_an_ended_connection_answer_nobody(con: Con) -> None:
    """Law: SQL that was written for a connection which is gone says so, and draws nothing."""
    dp.register(con)
    (token,) = con.execute("SELECT __dpframe_here()").fetchall()[0]
    duckdb_sessions.sessions.pop(token)
    assert "no longer registered. Call dpframe.register(con)" in said(con, f"FROM {HHH}")
    assert "no longer registered" in said(con, "FROM dp_budget()")
    dp.register(con)
    assert labels(con) == LABELS


def test_no_connection_charges_the_ledger_of_another_one(con: Con, ledger: dp.Ledger) -> None:
    """Law: what a macro says of its connection cannot be guessed. It was 1, 2, ..."""
    dp.register(con, ledger=ledger)
    with duckdb.connect() as other:
        dp.register(other)
        call = "'current', 'hhh', {'tbl': 't', 'hierarchy': 'a', 'epsilon': 1.0, 'delta': 1e-6}"
        for token in range(1, 100):
            with pytest.raises(duckdb.Error, match="no longer registered"):
                other.execute(f"SELECT system.main.__dpframe_ask('{token}', {call})")
    assert ledger.spent.epsilon == 0.0


def test_a_closed_connection_is_an_error_of_ours() -> None:
    """Law: what to pass instead, not what DuckDB says of a statement that nobody wrote."""
    con = duckdb.connect()
    con.close()
    with pytest.raises(dp.ParameterError, match="con is closed"):
        dp.register(con)


def test_a_transaction_that_cannot_see_the_functions_is_told_and_keeps_its_rows() -> None:
    """Law: registering aborts no transaction; what it cannot do it refuses, and then works."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE visits AS {VISITS}")
    con.begin()
    con.execute("INSERT INTO visits SELECT * FROM visits WHERE length(src) > 0")
    with pytest.raises(dp.ParameterError, match=r"con is in a transaction.*roll it back"):
        dp.register(con)
    assert con.execute("SELECT count(*) FROM visits").fetchone() == (1800,)
    con.commit()
    dp.register(con)
    con.begin()
    dp.register(con)  # again, where the functions are seen
    assert con.execute(f"FROM {HHH}").fetchall()
    con.commit()


def test_an_aborted_transaction_is_told() -> None:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE visits AS {VISITS}")
    con.begin()
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM missing")
    with pytest.raises(dp.ParameterError, match=r"con is in a transaction.*roll it back"):
        dp.register(con)
    con.rollback()
    dp.register(con)
    assert con.execute(f"FROM {HHH}").fetchall()


def test_sqlalchemy_which_begins_by_itself_keeps_its_rows() -> None:
    engine = sqlalchemy.create_engine("duckdb:///:memory:")
    with engine.connect() as con:
        con.execute(sqlalchemy.text(f"CREATE TABLE visits AS {VISITS}"))
        with pytest.raises(dp.ParameterError, match=r"con is in a transaction.*SQLAlchemy"):
            dp.register(con)
        con.commit()
        dp.register(con)
        assert con.execute(sqlalchemy.text(f"FROM {HHH}")).fetchall()
        con.commit()
        assert con.execute(sqlalchemy.text("SELECT count(*) FROM visits")).scalar() == 900
