"""What only one connection sees is measured as what all see, and never taken for something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.members import some
from tests.sql.visits import Con

ROWS = """
    SELECT 'c' || (i % 3) AS country, (i % 7)::DECIMAL(6,2) AS amount, i % 400 AS who,
           DATE '2024-01-01' + (i % 3)::INTEGER AS day, uuid() AS id
    FROM range(3000) r(i)
"""
MEASURES = "['count AS n', 'sum(amount, 0, 9)', 'mean(amount, 0, 9)', 'distinct(who) AS w']"
ASK = "FROM dp_rollup({}, measures := " + MEASURES + ", epsilon := 8.0, delta := 1e-4{})"


@pytest.fixture
def con() -> Iterator[Con]:
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
    con: Con, about: str, more: str
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
    con: Con, ask: str, source: str
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


def test_the_temporary_table_in_full_is_what_is_measured(con: Con) -> None:
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
    con: Con, value: str, said: str, rows: int
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


# -- periods ---------------------------------------------------------------------------------------


TIMES = pd.date_range("2024-06-02", periods=4000, freq="7min")
FRAME = pa.table(
    {
        "a": [str(i // 40) for i in range(4000)],
        "n": range(4000),
        "day": pa.array(TIMES.date, pa.date32()),
        "time": pa.array(TIMES, pa.timestamp("us")),
        "coarse": pa.array(TIMES, pa.timestamp("s")),
        "fine": pa.array(TIMES, pa.timestamp("ns")),
        "zoned": pa.array(TIMES.tz_localize("UTC"), pa.timestamp("us", "UTC")),
        "text": [f"{t.isoformat()}" for t in TIMES],
    }
)
ASKED = "'columns:a', epsilon := 1.0, delta := 1e-6"
PERIODS = [
    ("day", "2024-06-03..2024-06-04"),
    ("time", "2024-06-05T13"),
    ("coarse", "2024-W23"),
    ("fine", "2024-06-05"),
    ("zoned", "2024-06-05", "Asia/Kathmandu"),
    ("text", "2024-06-05"),
    ("time", None),
]


def sql_of(period: tuple[str | None, ...]) -> str:
    return "[" + ", ".join("NULL" if p is None else f"'{p}'" for p in period) + "]"


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "b.db", epsilon=50.0, delta=1e-2)


def asking(con: Con, call: str) -> pd.DataFrame:
    with seeded_noise(7):
        return con.sql(f"FROM {call}").df()


@some("('day', '2024-06-03..2024-06-04')", "('coarse', '2024-W23')", "('text', '2024-06-05')")
@pytest.mark.parametrize("period", PERIODS, ids=map(str, PERIODS))
def test_what_only_this_connection_sees_is_restricted_as_a_table_is(
    ledger: dp.Ledger, tmp_path: Path, period: tuple[str | None, ...]
) -> None:
    """Law: rows, blocks and receipts of a registered frame and a temporary table are those of a
    table that others see, for every type of times."""
    with duckdb.connect(str(tmp_path / "t.db")) as con:
        con.register("frame", FRAME)
        con.sql("CREATE TABLE kept AS FROM frame")
        con.sql("CREATE TEMP TABLE own AS FROM frame")
        dp.register(con, ledger=ledger)
        found = {
            name: asking(con, f"dp_hhh('{name}', {ASKED}, period := {sql_of(period)})")
            for name in ("kept", "own", "frame")
        }
        for name in ("own", "frame"):
            pd.testing.assert_frame_equal(found[name], found["kept"])
        said = con.sql("SELECT receipt->>'period' AS p FROM dp_releases()").df()["p"]
        assert said.nunique() == 1
    if period[1] is not None:
        (blocks,) = ledger.blocks().to_dict("records")
        assert blocks["spent_epsilon"] == 3.0
        dp.hhh(FRAME, ["a"], epsilon=1.0, delta=1e-6, period=period, ledger=ledger)
        assert ledger.blocks()["spent_epsilon"].tolist() == [4.0]  # the same block in Python


def test_measures_and_a_query_of_a_temporary_table(ledger: dp.Ledger) -> None:
    """Law: a rollup of a temporary table, and counts of a query of it, read the period alone."""
    with duckdb.connect() as con:
        con.register("frame", FRAME)
        con.sql("CREATE TEMP TABLE own AS FROM frame")
        dp.register(con, ledger=ledger)
        period = "['time', '2024-06-05']"
        rolled = asking(
            con, f"dp_rollup('own', {ASKED}, measures := ['count AS orders'], period := {period})"
        )
        total = rolled.loc[rolled["level"] == 0]
        true = sum(t.date().isoformat() == "2024-06-05" for t in TIMES)
        assert total["orders_lower"].item() <= true <= total["orders_upper"].item()
        counted = asking(
            con, f"dp_hhh(NULL, {ASKED}, query := 'FROM own WHERE n > 0', period := {period})"
        )
        assert counted.loc[counted["level"] == 0, "count"].item() == pytest.approx(true, abs=80)
    assert ledger.spent.epsilon == 2.0
    assert ledger.blocks()["spent_epsilon"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("period", "words"),
    [
        ("['n', '2024-06-05']", "period reads"),
        ("['day', '2024-06-05T13']", "which has no hours"),
        ("['time', '2024-06-05', 'Europe/Berlin']", "without a time zone"),
        ("['time', '9000']", "is not over"),
        ("['none', '2024']", "none"),
    ],
)
def test_a_column_that_the_period_does_not_fit_is_refused_before_the_charge(
    ledger: dp.Ledger, period: str, words: str
) -> None:
    """Law: what is found out when the statement runs costs nothing, and says what is wrong."""
    with duckdb.connect() as con:
        con.register("frame", FRAME)
        con.sql("CREATE TEMP TABLE own AS FROM frame")
        dp.register(con, ledger=ledger)
        for table in ("own", "frame"):
            with pytest.raises(duckdb.Error, match=words):
                asking(con, f"dp_hhh('{table}', {ASKED}, period := {period})")
    assert ledger.spent.epsilon == 0.0


def test_values_of_an_enum_are_not_told(ledger: dp.Ledger) -> None:
    """Law: an ENUM of times is text; an empty table is a table; nothing is read for its type."""
    with duckdb.connect() as con:
        con.sql("CREATE TEMP TABLE own (a VARCHAR, t ENUM('2024-06-05 10:00', '\"secret\"'))")
        dp.register(con, ledger=ledger)
        call = f"dp_hhh('own', {ASKED}, period := ['t', '2024-06-05'])"
        assert len(asking(con, call)) == 1
        con.sql("INSERT INTO own SELECT 'x', '2024-06-05 10:00' FROM range(300)")
        assert len(asking(con, call)) == 2
        assert "secret" not in con.sql("SELECT receipt FROM dp_releases()").df().to_string()
