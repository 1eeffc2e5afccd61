"""A gateway's questions, asked through PostgreSQL by the clients that analysts have.

Each asks by bound parameters, by statements that the server keeps, and by cursors; and a question
that a client sends again costs nothing.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DataError, OperationalError, ProgrammingError

from tests.gateway.test_postgres import Database, database

__all__ = ["database"]

pytestmark = pytest.mark.engines

HHH = "SELECT * FROM dp_hhh('sales', 'columns:shop,town', epsilon := 1.0, delta := 1e-6)"
ROLLUP = "SELECT * FROM dp_rollup({}, {}, {}, epsilon := {})"
MEASURES = '{"n": "count", "money": "sum(paid)"}'
SPENT = "SELECT sum(spent_epsilon) FROM dp_budget() WHERE of = 'your share'"


@pytest.fixture
def ann(database: Database) -> Iterator[psycopg.Connection[Any]]:
    with database.connect("ann") as connection:
        yield connection


@pytest.fixture
def engine(database: Database) -> Iterator[sa.Engine]:
    address = database.address("ann").replace("postgresql:", "postgresql+psycopg:")
    made = sa.create_engine(address)
    yield made
    made.dispose()


def spent(connection: Any) -> float:
    (found,) = connection.execute(SPENT).fetchone()
    return float(found)


@pytest.mark.parametrize("binary", [False, True])
def test_a_statement_that_the_server_keeps_is_charged_once(
    ann: psycopg.Connection[Any], binary: bool
) -> None:
    """Parameters of psycopg's types: text, a whole number where a real one is taken, and NULL."""
    asked = "SELECT * FROM dp_hhh(%s, %s, epsilon := %s, delta := %s, confidence := %s)"
    given = ("sales", "columns:shop,town", 1, 1e-6, 0.9 if binary else None)
    first = ann.execute(asked, given, prepare=True, binary=binary)
    assert [type(value) for value in first.fetchone() or ()] == [int, str, *[float] * 4]
    before = spent(ann)
    rows = [ann.execute(asked, given, prepare=True, binary=binary).fetchall() for _ in range(7)]
    assert all(found == rows[0] for found in rows)
    assert spent(ann) == before


def test_a_statement_that_is_only_prepared_draws_nothing(ann: psycopg.Connection[Any]) -> None:
    """Nor does one whose columns a tool looks up, as tools do before they ask."""
    before = spent(ann)
    ann.execute("PREPARE later (float8) AS SELECT * FROM dp_hhh('sales', 'shop', epsilon := $1)")
    ann.execute("EXPLAIN EXECUTE later (0.31)")
    ann.execute("SELECT * FROM dp_hhh('sales', 'shop', epsilon := 0.32) LIMIT 0")
    asked = "SELECT * FROM (SELECT * FROM dp_hhh('sales', 'shop', epsilon := 0.33)) AS q WHERE 1=0"
    found = ann.execute(asked)
    assert [column.name for column in found.description or ()][:2] == ["level", "prefix"]
    assert spent(ann) == before


def test_a_cursor_of_the_server_asks_once(ann: psycopg.Connection[Any]) -> None:
    """Fetched in parts, moved back, and kept after its transaction."""
    whole = ann.execute(HHH).fetchall()
    before = spent(ann)
    with ann.transaction(), ann.cursor("parts", scrollable=True) as cursor:
        cursor.execute(HHH)
        cursor.itersize = 2
        assert [*cursor.fetchmany(2), *cursor] == whole
        cursor.scroll(0, "absolute")
        assert cursor.fetchall() == whole
    with ann.cursor("held", withhold=True) as cursor:
        cursor.execute(HHH)
        assert cursor.fetchall() == whole
    assert spent(ann) == before


def test_answers_are_rows_like_others(ann: psycopg.Connection[Any]) -> None:
    """Joined, kept in a table, in a view that asks anew for nothing, and copied out."""
    whole = ann.execute(HHH).fetchall()
    before = spent(ann)
    ann.execute(f"CREATE TEMPORARY TABLE kept AS {HHH}")
    ann.execute(f"CREATE TEMPORARY VIEW asked AS {HHH}")
    joined = "SELECT count(*) FROM kept JOIN asked USING (level, prefix) WHERE kept = asked"
    assert ann.execute(joined).fetchone() == (len(whole),)
    with ann.cursor() as cursor, cursor.copy(f"COPY ({HHH}) TO STDOUT") as copy:
        assert len(list(copy)) == len(whole)
    assert spent(ann) == before


def test_pandas_asks_by_names(engine: sa.Engine, ann: psycopg.Connection[Any]) -> None:
    """``:=`` of PostgreSQL and ``:name`` of SQLAlchemy beside each other; keys come as dicts."""
    asked = sa.text(ROLLUP.format(":data", ":by", ":measures", ":epsilon"))
    given = {"data": "sales", "by": '["shop", "town"]', "measures": MEASURES, "epsilon": 2}
    found = pd.read_sql(asked, engine, params=given)
    assert list(found) == ["level", "prefix", "node", "measure", "value", "lower", "upper"]
    assert found["node"][0] == {"shop": None, "town": None}
    assert {found[name].dtype.kind for name in ("value", "lower", "upper")} == {"f"}
    wide = found.pivot(index="prefix", columns="measure", values="value")
    assert list(wide) == ["money", "n"]
    before = spent(ann)
    with engine.connect().execution_options(stream_results=True) as connection:
        parts = list(pd.read_sql(asked, connection, params=given, chunksize=3))
    assert len(pd.concat(parts)) == len(found)
    assert spent(ann) == before


def test_a_query_as_people_write_it(ann: psycopg.Connection[Any], engine: sa.Engine) -> None:
    """Its columns are named by ``AS``, and the query itself may be a parameter."""
    query = "SELECT shop, count(*) AS n FROM sales WHERE items > 2 GROUP BY shop"
    columns = "AS t(shop text, n bigint, n_lower bigint, n_upper bigint)"
    asked = f"SELECT shop, n FROM dp_sql(%s, epsilon := %s) {columns} ORDER BY n DESC"
    rows = ann.execute(asked, (query, 1.5), prepare=True).fetchall()
    assert {shop for shop, _ in rows} == {"shop 0", "shop 1", "shop 2"}
    named = sa.text(f"SELECT shop, n FROM dp_sql(:query, epsilon := 1.5) {columns} ORDER BY n DESC")
    found = pd.read_sql(named, engine, params={"query": query})
    assert [*found.itertuples(index=False, name=None)] == rows


REFUSED = [
    ("SELECT * FROM dp_hhh('sales', 'nothing')", DataError, "22023"),
    ("SELECT * FROM dp_hhh('sals', 'shop')", ProgrammingError, "42P01"),
    ("SELECT * FROM dp_hhh('people', 'year', epsilon := 5)", DataError, "22023"),
    ("SELECT * FROM dp_hhh('sales', 'shop', epsilom := 1)", ProgrammingError, "42883"),
    ("SELECT * FROM dpframe.gateway", ProgrammingError, "42501"),
]


@pytest.mark.parametrize(("asked", "kind", "state"), REFUSED)
def test_an_error_has_its_class_and_state(
    engine: sa.Engine, asked: str, kind: type[Exception], state: str
) -> None:
    """As of any other database; the connection is used again after a rollback."""
    with engine.connect() as connection:
        with pytest.raises(kind) as raised:
            connection.exec_driver_sql(asked)
        assert raised.value.orig.sqlstate == state  # type: ignore[attr-defined]
        connection.rollback()
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1


def test_a_spent_budget_is_an_error_of_the_server(database: Database) -> None:
    address = database.address("eve").replace("postgresql:", "postgresql+psycopg:")
    asked = "SELECT * FROM dp_hhh('sales', 'shop', epsilon := 2)"
    engine = sa.create_engine(address)
    with engine.connect() as connection, pytest.raises(OperationalError) as raised:
        connection.exec_driver_sql(asked)
    assert raised.value.orig.sqlstate == "53400"  # type: ignore[union-attr]
    engine.dispose()


def test_psql_asks(database: Database) -> None:
    """``\\gset``, variables, and an error with its state and no line of Python."""
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    told = (
        "\\set VERBOSITY verbose\n"
        "\\set data sales\n"
        "SELECT count(*) AS n FROM dp_hhh(:'data', 'shop', epsilon := 1) \\gset\n"
        "\\echo found :n\n"
        "SELECT * FROM dp_hhh('sals', 'shop');\n"
    )
    psql = ["psql", "-X", "-d", database.address("ann")]
    done = subprocess.run(psql, input=told, capture_output=True, text=True, timeout=60)
    assert "found 4" in done.stdout
    assert "ERROR:  42P01: there is no data set 'sals'" in done.stderr or "42P01" in done.stderr
    assert "Traceback" not in done.stderr
