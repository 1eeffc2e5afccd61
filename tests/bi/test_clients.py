"""What is published, read by clients in Python: the same rows, types, comments and rights.

Those that are installed by themselves are in test_programs.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import psycopg
import pytest
import sqlalchemy as sa
from pandas.testing import assert_frame_equal

import dpframe as dp
from tests import engines
from tests.bi import sold
from tests.bi.database import FIRST, ROWS, Database, publish_in, same

DOCS = Path(__file__).resolve().parents[2] / "docs" / "bi"
SCHEMA = "dp_results"


@pytest.fixture
def reader(database: Database) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.address()) as connection:
        yield connection


# -- psycopg and psql ----------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_has_the_rows_of_the_file(
    reader: psycopg.Connection[Any], expected: pd.DataFrame, binary: bool
) -> None:
    """By both formats of the protocol, each a plain type of Python."""
    cursor = reader.execute(ROWS, binary=binary)
    names = [column.name for column in cursor.description or ()]
    rows = cursor.fetchall()
    same(pd.DataFrame(rows, columns=names), expected)
    total = dict(zip(names, rows[0], strict=True))
    assert total["level"] == 0
    assert total["department"] is None
    assert (type(total["period_start"]), total["period_start"]) == (date, FIRST)
    assert {type(total[name]) for name in ("customers", "customers_lower", "revenue")} == {float}
    assert total["is_rest"] is False


def test_cursors_and_prepared_statements(reader: psycopg.Connection[Any], expected: Any) -> None:
    """A cursor of the server in parts, and a statement that the server keeps."""
    with reader.cursor("parts", scrollable=True) as cursor:
        cursor.execute(ROWS)
        cursor.itersize = 2
        assert len(cursor.fetchmany(3)) == 3
        assert len(list(cursor)) == len(expected) - 3
        cursor.scroll(0, "absolute")
        assert cursor.fetchone()[0] == expected["release"][0]
    one = "SELECT revenue FROM dp_results.revenue_all WHERE prefix = %s AND period_start >= %s"
    for _ in range(7):
        rows = reader.execute(one, ("MEAT's", date(2026, 10, 5)), prepare=True).fetchall()
        assert len(rows) == len(sold.WEEKS) - 1
    assert reader.execute(one, ("Robert'); DROP TABLE", FIRST), prepare=True).fetchall() == []


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Pacific/Kiritimati"])
def test_no_zone_moves_a_day(reader: psycopg.Connection[Any], zone: str) -> None:
    """Neither a period nor a level: both are read as they were counted."""
    reader.execute(f"SET timezone = '{zone}'")
    starts = reader.execute("SELECT DISTINCT period_start FROM dp_results.revenue_all ORDER BY 1")
    assert [day.isocalendar()[1] for (day,) in starts] == [int(w[-2:]) for w in sold.WEEKS]
    days = reader.execute("SELECT min(day), max(day) FROM dp_results.days WHERE level = 1")
    assert days.fetchone() == (FIRST, date(2026, 11, 8))
    times = "SELECT min(half_day), max(half_day) FROM dp_results.times WHERE level = 1"
    assert reader.execute(times).fetchone() == (datetime(2026, 9, 28), datetime(2026, 11, 8, 12))


def test_a_reader_reads_and_nothing_else(database: Database) -> None:
    """No row is changed, and nothing is made in the schema."""
    with psycopg.connect(database.address(), autocommit=True) as connection:
        for told in (
            "DELETE FROM dp_results.revenue_all",
            "UPDATE dp_results.dp_releases SET is_latest = true",
            "UPDATE dp_results.revenue_latest SET revenue = 0",
            "CREATE TABLE dp_results.mine (one int)",
            "DROP VIEW dp_results.revenue_latest",
            "TRUNCATE dp_results.dp_measures",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(told)


def test_a_new_period_is_there_for_whoever_is_connected(database: Database) -> None:
    """A reader's connection, its prepared statements and its transaction go on."""
    newest = "SELECT revenue FROM dp_results.revenue_latest WHERE level = 0"

    def total(week: str) -> tuple[float]:
        return (database.ledger.recall(f"revenue-{week}")["revenue"][0],)

    with psycopg.connect(database.address(), autocommit=True) as connection:
        for _ in range(6):
            before = connection.execute(newest, prepare=True).fetchone()
        assert before == total(sold.WEEKS[-1])
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            assert connection.execute(newest, prepare=True).fetchone() == before
            sold.draw(database.ledger, sold.NEXT)
            database.publish()
            assert connection.execute(newest, prepare=True).fetchone() == before
        assert connection.execute(newest, prepare=True).fetchone() == total(sold.NEXT) != before


def test_a_column_more_fails_only_where_a_kept_statement_names_none(tmp_path: Path) -> None:
    """PostgreSQL keeps the columns of ``*`` with a statement; docs/bi.md says what to do."""
    named, every = (f"SELECT {columns} FROM dp_results.revenue_all" for columns in ("prefix", "*"))
    with engines.postgres() as engine:
        made = publish_in(engine.connection, tmp_path)
        with psycopg.connect(made.address(), autocommit=True) as connection:
            for told in (named, every) * 6:
                before = len(connection.execute(told).fetchall())
            sold.draw(made.ledger, sold.NEXT, pieces=dp.sum("pieces", lower=0, upper=3))
            made.publish()
            assert len(connection.execute(named).fetchall()) > before
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan"):
                connection.execute(every)
            rows = connection.execute(every, prepare=False).fetchall()
            assert rows[0][-1] is None
        with psycopg.connect(made.address()) as connection:
            assert len(connection.execute(every).fetchall()) == len(rows) > before


def test_psql_shows_rows_and_comments(database: Database) -> None:
    """``\\d+`` says what each column is; CSV has no value for NULL."""
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    psql = ["psql", "-X", "-d", database.address(), "-v", "ON_ERROR_STOP=1"]

    def said(*told: str) -> str:
        done = subprocess.run([*psql, *told], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "differential privacy" in said("-c", "\\dv+ dp_results.*")
    described = said("-c", "\\d+ dp_results.revenue_all")
    assert re.search(r"revenue_lower\s*\| double precision .*0\.95", described)
    rows = said(
        "--csv", "-c", "SELECT period_start, department, is_rest FROM dp_results.revenue_all"
    )
    assert rows.splitlines()[1:] == sorted(rows.splitlines()[1:]) or rows.count("\n") > 10
    assert f"{FIRST},,f" in rows


# -- SQLAlchemy and pandas -----------------------------------------------------------------------


@pytest.fixture
def engine(database: Database) -> Iterator[sa.Engine]:
    made = sa.create_engine(database.address(kind="postgresql+psycopg"))
    yield made
    made.dispose()


def test_sqlalchemy_reflects_tables_views_and_comments(engine: sa.Engine) -> None:
    """What a BI tool lists: each has a comment, and each column a type that all tools know."""
    inspector = sa.inspect(engine)
    tables, views = inspector.get_table_names(SCHEMA), inspector.get_view_names(SCHEMA)
    assert {"revenue_all", "dp_measures", "dp_releases", "dp_budget"} <= set(tables)
    assert {"revenue_latest", "revenue_2026_w40", "days"} <= set(views)
    types = set()
    for name in (*tables, *views):
        assert inspector.get_table_comment(name, SCHEMA)["text"], name
        pd.read_sql_table(name, engine, schema=SCHEMA)
        for column in inspector.get_columns(name, SCHEMA):
            assert column["comment"], (name, column["name"])
            types.add(str(column["type"]))
    plain = {"TEXT", "BIGINT", "DOUBLE PRECISION", "BOOLEAN", "DATE", "TIMESTAMP"}
    assert types <= plain
    made = sa.MetaData(schema=SCHEMA)
    made.reflect(engine, views=True)
    assert {f"{SCHEMA}.{name}" for name in (*tables, *views)} == set(made.tables)
    table = made.tables["dp_results.revenue_latest"]
    with engine.connect() as connection:
        sums = sa.select(sa.func.sum(table.c.revenue)).where(table.c.level == 1)
        assert connection.execute(sums).scalar_one() > 0


def test_pandas_reads_what_was_published(engine: sa.Engine, expected: pd.DataFrame) -> None:
    """As a query, as a whole table, by parts and with parameters; numbers are float64."""
    found = pd.read_sql(ROWS, engine, parse_dates=["period_start"])
    same(found, expected)
    assert {found[name].dtype.kind for name in found if "revenue" in name} == {"f"}
    assert (found["level"].dtype, found["is_rest"].dtype) == ("int64", "bool")
    assert found["period_start"].dt.tz is None
    table = pd.read_sql_table("revenue_all", engine, schema=SCHEMA)
    assert sorted(table["revenue"]) == sorted(expected["revenue"])
    with engine.connect().execution_options(stream_results=True) as connection:
        parts = list(pd.read_sql(ROWS, connection, chunksize=4, parse_dates=["period_start"]))
        assert {len(part) for part in parts[:-1]} == {4}
    assert_frame_equal(pd.concat(parts, ignore_index=True), found)
    one = sa.text(
        "SELECT * FROM dp_results.revenue_all WHERE label = :label AND period_start >= :day"
    )
    some = pd.read_sql(one, engine, params={"label": "MEAT's", "day": date(2026, 10, 5)})
    assert some["period"].tolist()[0] == "2026-W41"


# -- Grafana's queries ---------------------------------------------------------------------------

DASHBOARD = json.loads((DOCS / "grafana" / "releases.json").read_text("utf-8"))


def expand(sql: str, values: dict[str, str], begin: str, end: str) -> str:
    """A query as Grafana sends it, by what its documents say of macros and variables."""
    between = rf"\1 BETWEEN '{begin}' AND '{end}'"
    sql = re.sub(r"\$__timeFilter\(([^)]*)\)", between, sql)
    for name, value in values.items():
        quoted = "'" + value.replace("'", "''") + "'"
        sql = sql.replace(f"${{{name}:sqlstring}}", quoted).replace(f"${name}", value)
    assert "$" not in sql, sql
    return sql


def test_grafana_asks_what_the_schema_answers(reader: psycopg.Connection[Any]) -> None:
    """Each variable is filled by its query, and each panel has rows; a range of times cuts them."""
    times = ("2026-10-05T13:04:05.678Z", "2027-01-01T00:00:00Z")
    values: dict[str, str] = {}
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            cursor = reader.execute(expand(variable["query"], values, *times))
            names = [column.name for column in cursor.description or ()]
            place = names.index("__value") if "__value" in names else 0
            values[variable["name"]] = str(next(row[place] for row in cursor))
    assert values == {"family": "revenue", "measure": "customers", "node": "*", "level": "1"}
    panels = {}
    for panel in DASHBOARD["panels"]:
        (target,) = panel["targets"]
        for node in ("*", "MEAT's"):
            cursor = reader.execute(expand(target["rawSql"], {**values, "node": node}, *times))
            names = [column.name for column in cursor.description or ()]
            panels[panel["id"], node] = [dict(zip(names, row, strict=True)) for row in cursor]
    total = panels[1, "*"]
    assert [type(row["time"]) for row in total] == [datetime] * len(total)  # Grafana needs times
    assert total[0]["time"] == datetime(2026, 10, 5)  # the week in which the range begins
    assert all(row["lower"] <= row["customers"] <= row["upper"] for row in total)
    assert {row["label"] for row in panels[2, "*"]} >= {"GROCERY", "MEAT's"}
    assert "differential privacy" in panels[3, "*"][0]["guarantee"]


def test_grafana_shows_a_gap_where_a_node_is_missing(database: Database) -> None:
    """A period without the node is a row of NULL, as Grafana breaks a line only there."""
    (target,) = DASHBOARD["panels"][0]["targets"]
    values = {"family": "revenue", "measure": "revenue", "node": "TINY"}
    told = expand(target["rawSql"], values, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")
    rows = database.owner.execute(told).fetchall()
    assert len(rows) >= len(sold.WEEKS)
    assert {row[1] for row in rows} == {None}


# -- Parquet -------------------------------------------------------------------------------------


def test_polars_reads_the_folder(database: Database, expected: pd.DataFrame) -> None:
    """Lazily and whole, with the columns' own types."""
    folder = database.folder / "results_parquet"
    scanned = pl.scan_parquet(folder / "revenue_all.parquet").sort("release", "level", "prefix")
    found = scanned.collect()
    same(found.to_pandas(), expected)
    assert found.schema["period_start"] == pl.Date
    assert found.schema["revenue"] == pl.Float64
    weekly = scanned.filter(pl.col("level") == 0).select("period_start", "revenue").collect()
    assert len(weekly) == expected["period"].nunique()
    latest = pl.scan_parquet(folder / "dp_releases.parquet").filter("is_latest").collect()
    assert latest["family"].is_unique().all()
