"""The percentage of a count, of what DuckDB says and expects."""

from __future__ import annotations

import itertools
import json

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe._duck.relations import READING, percent_done, share_of_reading

ROLLUP = (
    "WITH a AS MATERIALIZED (SELECT i, j, count(*) AS n FROM rows GROUP BY i, j), "
    "b AS MATERIALIZED (SELECT i, sum(n) AS n FROM a GROUP BY i) "
    "SELECT i, n FROM a UNION ALL SELECT i, n FROM b ORDER BY n"
)


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows AS SELECT range AS i, range + 1 AS j FROM range(100000)")
    return connection


def test_a_rollup_reads_for_most_of_its_time(con: duckdb.DuckDBPyConnection) -> None:
    """Law: the weight of reading is that of DuckDB's plan, whose groupings weigh as much each."""
    share = share_of_reading(con, ROLLUP)
    assert 0.1 < share < 0.2
    assert percent_done(lambda: 100 * share, share)() == pytest.approx(100 * READING)
    plain = share_of_reading(con, "SELECT i FROM rows ORDER BY j")
    assert plain == 1  # reads and sorts, and groups nothing
    assert percent_done(lambda: 37.0, plain)() == 37


def test_what_cannot_be_explained_is_shown_as_it_is(con: duckdb.DuckDBPyConnection) -> None:
    assert share_of_reading(con, "SELECT no_such_column FROM rows") == 1


@pytest.mark.parametrize("told", [[], [{}], [{"children": []}], "x", None])
def test_a_plan_of_another_form_is_shown_as_it_is(told: object) -> None:
    class Other:
        def execute(self, statement: str) -> Other:
            return self

        def fetchall(self) -> list[tuple[str, str]]:
            return [("plan", json.dumps(told))]

    assert share_of_reading(Other(), ROLLUP) == 1  # type: ignore[arg-type]


@given(st.floats(0, 1), st.lists(st.floats(-1, 100), min_size=2))
def test_more_said_is_more_done(reading: float, said: list[float]) -> None:
    """Law: what is shown grows with what is said, from 0 to 100."""
    shown = [percent_done(lambda one=one: one, reading)() for one in sorted(said)]  # type: ignore[misc]
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(shown))
    assert 0 <= min(shown) <= max(shown) <= 100 + 1e-9
    assert percent_done(lambda: 100.0, reading)() == pytest.approx(100)
