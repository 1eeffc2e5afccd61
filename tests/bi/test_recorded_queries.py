"""What Superset asks of published releases is asked again here, without Superset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import yaml

from tests import engines
from tests.bi import recorded, revenue
from tests.engines import PostgresEngine

pytestmark = pytest.mark.engines

SCHEMA = "dp_results"
DATA_SETS = sorted((revenue.HERE / "docs/bi/superset/datasets").rglob("*.yaml"))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresEngine]:
    """The series of docs/dashboard.md for purchases that are made here, in PostgreSQL."""
    folder = tmp_path_factory.mktemp("shop")
    rows = revenue.made_rows(folder / "purchases.parquet")
    with engines.postgres() as engine:
        info = engine.connection.info
        to = f"postgresql://{info.user}@/{info.dbname}?host={info.host}&schema={SCHEMA}"
        revenue.run(revenue.declare(folder, rows, to), "2017-W05")
        yield engine


def answer(engine: PostgresEngine, query: str) -> list[dict[str, Any]]:
    return engine.query(query).to_pylist()


@pytest.mark.parametrize("query", recorded.kept())
def test_recorded_queries_have_rows(published: PostgresEngine, query: str) -> None:
    """Law: every query of the dashboard finds its columns and has rows without an empty number."""
    rows = answer(published, query)
    assert rows
    assert all(value is not None for row in rows for value in row.values())


def test_lines_and_numbers_are_those_of_the_table(published: PostgresEngine) -> None:
    """Law: a week of a line is a row of ``revenue_all``, its interval around it."""
    (line,) = [q for q in recorded.kept() if "yhat" in q and "'GROCERY'" in q]
    found = {row["period_start"].date(): row for row in answer(published, line)}
    table = answer(published, f"SELECT * FROM {SCHEMA}.revenue_all WHERE label = 'GROCERY'")
    assert {row["period_start"]: row["revenue"] for row in table} == {
        day: row["revenue"] for day, row in found.items()
    }
    assert len(found) == 5
    ends = ((row["revenue__yhat_lower"], row["revenue__yhat_upper"]) for row in found.values())
    assert all(low < high for low, high in ends)


def test_a_column_that_goes_is_noticed(published: PostgresEngine) -> None:
    """Negative control: the queries need each of these columns."""
    for column in ("label", "period_start", "level"):
        with published.connection.transaction(force_rollback=True):
            published.run(f"ALTER TABLE {SCHEMA}.dp_measures RENAME {column} TO other")
            (stacked,) = [q for q in recorded.kept() if "dp_measures" in q]
            with pytest.raises(psycopg.errors.UndefinedColumn):
                answer(published, stacked)


@pytest.mark.parametrize("file", DATA_SETS, ids=lambda file: file.stem)
def test_data_sets_have_the_columns_of_their_tables(published: PostgresEngine, file: Any) -> None:
    """Law: the kept files name columns that are published, with their types."""
    told = yaml.safe_load(file.read_text("utf-8"))
    where = f"table_schema = '{SCHEMA}' AND table_name = '{told['table_name']}'"
    rows = answer(
        published, f"SELECT column_name, data_type FROM information_schema.columns WHERE {where}"
    )
    there = {row["column_name"]: row["data_type"].upper() for row in rows}
    named = {one["column_name"]: one["type"] for one in told["columns"]}
    assert len(named) > 10
    assert named.items() <= there.items()


def test_the_rights_of_the_page_are_enough_and_no_more(published: PostgresEngine) -> None:
    """Law: the role of docs/bi.md answers every query, and writes nothing."""
    for statement in revenue.rights("a-password"):
        published.run(statement.replace("dashboards", "reader_of_a_test"))
    info = published.connection.info
    told = {"host": info.host, "dbname": info.dbname, "user": "reader_of_a_test"}
    with psycopg.connect(**told, autocommit=True) as reader:
        for query in recorded.kept():
            assert reader.execute(query).fetchall()
        reader.execute("SET default_transaction_read_only = off")  # a role may do that
        for name in re.findall(r"FROM (dp_results\.\w+)", "\n".join(recorded.kept())):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(f"DELETE FROM {name}")
