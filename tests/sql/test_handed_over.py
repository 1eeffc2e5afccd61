"""What only one connection sees is measured as what all see, and never taken for something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.members import some

ROWS = """
    SELECT 'c' || (i % 3) AS country, (i % 7)::DECIMAL(6,2) AS amount, i % 400 AS who,
           DATE '2024-01-01' + (i % 3)::INTEGER AS day, uuid() AS id
    FROM range(3000) r(i)
"""
MEASURES = "['count AS n', 'sum(amount, 0, 9)', 'mean(amount, 0, 9)', 'distinct(who) AS w']"
ASK = "FROM dp_rollup({}, measures := " + MEASURES + ", epsilon := 8.0, delta := 1e-4{})"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        dp.register(con)
        con.execute(f"CREATE TABLE kept AS {ROWS}")
        yield con


ABOUT = ["columns:country", "columns:country,day", "date:day?levels=year,month,day"]
USERS = ["", ", \"user\" := 'who'", ", threshold := 700"]


@some(
    *("-columns:country", "-date:day?levels=year,month,day"),
    ", \"user\" := 'who'-date:day?levels=year,month,day",
    ", threshold := 700-columns:country,day",
)
@pytest.mark.parametrize("about", ABOUT)
@pytest.mark.parametrize("more", USERS)
def test_a_table_of_this_connection_is_measured_as_any_other(
    con: duckdb.DuckDBPyConnection, about: str, more: str
) -> None:
    """Law: temporary tables, registered frames, CTEs and tables that are not committed give the
    release that a committed table gives, with the keys of levels as text."""
    text = ASK.format(f"{{}}, \"by\" := '{about}'", more)
    if "user" in more:
        text = text.replace("distinct(who)", "count(at_most=2)")

    def of(source: str, before: str = "") -> pd.DataFrame:
        with seeded_noise(3):
            return con.execute(f"{before} {text.format(source)}").df()

    wanted = of("'kept'")
    assert len(wanted) > 1
    con.execute("CREATE TEMP TABLE gone AS FROM kept")
    con.register("frame", con.sql("FROM kept").to_arrow_table())
    own = {
        "temporary": of("'gone'"),
        "in full": of("'temp.gone'"),
        "query": of("query := 'SELECT * FROM gone'"),
        "frame": of("'frame'"),
        "CTE": of("'named'", "WITH named AS (FROM kept)"),
    }
    con.execute("BEGIN")
    con.execute("CREATE TABLE fresh AS FROM kept")
    own["not committed"] = of("'fresh'")
    con.execute("ROLLBACK")
    for name, frame in own.items():
        assert list(frame.columns) == list(wanted.columns), name
        for column in wanted.columns.drop("day", errors="ignore"):
            assert frame[column].astype(str).tolist() == wanted[column].astype(str).tolist()
        if "day" in wanted:
            days = [None if day is pd.NaT else str(day.date()) for day in wanted["day"]]
            assert [day if isinstance(day, str) else None for day in frame["day"]] == days


SECOND = [
    ASK.format("{}, \"by\" := 'columns:country'", ""),
    "FROM dp_synthesize({}, \"columns\" := 'number:amount?lower=0&upper=9', epsilon := 1.0, "
    "n := 3)",
    "FROM dp_hhh({}, hierarchy := 'columns:country', epsilon := 1.0, delta := 1e-4, "
    "mechanism := 'streaming')",
    "FROM dp_prefix_tree({}, \"column\" := 'country', epsilon := 4.0, delta := 1e-4, "
    "\"user\" := 'who')",
]


@some(
    *("'kept'-rollup", "'kept'-streaming", "'\"KEPT\"'-synthesize", "'\"KEPT\"'-prefix_tree"),
    "query := 'SELECT * FROM kept'-streaming",
)
@pytest.mark.parametrize("ask", SECOND, ids=["rollup", "synthesize", "streaming", "prefix_tree"])
@pytest.mark.parametrize("source", ["'kept'", "'\"KEPT\"'", "query := 'SELECT * FROM kept'"])
def test_a_hidden_table_is_not_read_in_the_place_of_what_hides_it(
    con: duckdb.DuckDBPyConnection, ask: str, source: str
) -> None:
    """Law: what reads on a second connection refuses a name that here means a temporary table or a
    registered frame; the table in full is read, and without the other one so is the name."""
    con.execute(ask.format(source)).fetchall()
    for make, drop in (
        ("CREATE TEMP TABLE kept AS FROM main.kept LIMIT 9", "DROP TABLE temp.kept"),
        ("CREATE TEMP VIEW kept AS FROM main.kept LIMIT 9", "DROP VIEW temp.kept"),
    ):
        con.execute(make)
        with pytest.raises(duckdb.Error, match=r"second connection.*Write temp\.NAME"):
            con.execute(ask.format(source)).fetchall()
        con.execute(ask.format("'main.kept'")).fetchall()
        con.execute(drop)
    con.execute("CREATE TEMP TABLE kept_too AS FROM kept LIMIT 9")
    con.execute(ask.format(source)).fetchall()


def test_the_temporary_table_in_full_is_what_is_measured(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TEMP TABLE kept AS SELECT 'other' AS country FROM range(5000)")
    ask = "SELECT prefix FROM dp_rollup({}, \"by\" := 'columns:country', measures := 'count', "
    ask += "epsilon := 8.0, delta := 1e-4)"
    for source in ("'temp.kept'", "query := 'FROM temp.kept'"):
        assert con.execute(ask.format(source)).fetchall() == [("*",), ("other",)]


@some(
    *("9-1::HUGEINT-HUGEINT.*Cast the column", "9-'101'::BIT-BIT.*Cast the column"),
    "9-DATE '2024-01-01'-has type DATE; a measure adds up numbers",
    "0-[1::UHUGEINT]-UHUGEINT.*Cast the column",
    "0-'12'-has type VARCHAR; a measure adds up numbers",
)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1::HUGEINT", "HUGEINT.*Cast the column"),
        ("[1::UHUGEINT]", "UHUGEINT.*Cast the column"),
        ("'101'::BIT", "BIT.*Cast the column"),
        ("'10:00:00+02'::TIMETZ", "TIME WITH TIME ZONE.*Cast the column"),
        ("'12'", "has type VARCHAR; a measure adds up numbers"),
        ("DATE '2024-01-01'", "has type DATE; a measure adds up numbers"),
    ],
)
@pytest.mark.parametrize("rows", [9, 0])
def test_types_that_cannot_be_handed_over_are_refused(
    con: duckdb.DuckDBPyConnection, value: str, said: str, rows: int
) -> None:
    """Law: by its type alone, which is public, also of a table without rows."""
    con.execute(f"CREATE TEMP TABLE t AS SELECT 'a' AS a, {value} AS v FROM range({rows})")
    ask = "FROM dp_rollup('t', 'columns:a', 'sum(v, 0, 5) AS s', epsilon := 8.0, delta := 1e-4)"
    with pytest.raises(duckdb.Error, match=said):
        con.execute(ask)
    con.execute("ALTER TABLE t ALTER v TYPE DOUBLE USING 3.0")
    assert con.execute(ask).fetchall()[0][1] == "*"


def test_what_is_handed_over_is_charged_once_and_replayed(tmp_path: Path) -> None:
    """Law: one run is one charge, binding and EXPLAIN are none, and a name replays."""
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=100.0, delta=0.1)
    with duckdb.connect() as con:
        dp.register(con, ledger=ledger)
        con.execute(f"CREATE TEMP TABLE t AS {ROWS}")
        ask = ASK.format("'t', 'columns:country'", "")
        con.execute(f"EXPLAIN {ask}")
        con.execute(f"PREPARE later AS {ask}")
        assert ledger.spent.epsilon == 0.0
        con.execute(ask)
        assert ledger.spent.epsilon == 8.0
        named = ASK.format("'t', 'columns:country'", ", release := 'r'")
        first = con.execute(named).fetchall()
        assert con.execute(named).fetchall() == first
        assert ledger.spent.epsilon == 16.0
        with pytest.raises(duckdb.Error, match="once for each of several rows"):
            con.execute(
                f"SELECT (SELECT count(*) FROM ({ask}) WHERE level >= x) "
                "FROM (VALUES (0), (1)) v(x)"
            )
