"""Sources made to confuse: the tree stays a tree, and no single record can write a label."""

from __future__ import annotations

import duckdb
import pytest

import dpframe as dp

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def test_a_column_is_never_read_under_another_spelling(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """SQL ignores case: reading ``Person`` for ``person`` would leave users unbounded."""
    rows = """SELECT 'c' || i AS "Person", 'bob' AS person, 'leaf' AS g FROM range(300) t(i)"""
    with pytest.raises(dp.ColumnError, match="differ in case only"):
        dp.hhh(connection.sql(rows), ["g"], user="person", **BUDGET)


@pytest.mark.parametrize("hierarchy", [["k"], "path:k"])
def test_a_collation_does_not_merge_texts(
    connection: duckdb.DuckDBPyConnection, hierarchy: object
) -> None:
    """One record ``SECRET`` must not become the label of 300 records ``secret``."""
    connection.execute("CREATE TABLE t (k VARCHAR COLLATE NOCASE)")
    connection.execute("INSERT INTO t VALUES ('SECRET')")
    connection.execute("INSERT INTO t SELECT 'secret' FROM range(300)")
    result = dp.hhh(connection.table("t"), hierarchy, **BUDGET)  # type: ignore[arg-type]
    assert list(result["prefix"]) == ["*", "secret"]


def test_a_default_collation_is_refused(connection: duckdb.DuckDBPyConnection) -> None:
    """It would merge texts inside of expressions, where nothing can undo it."""
    connection.execute("SET default_collation = 'nocase'")
    with pytest.raises(dp.SourceError, match="RESET default_collation"):
        dp.hhh(connection.sql("SELECT 'a' AS k"), ["k"], **BUDGET)


def test_values_of_one_text_are_one_node(connection: duckdb.DuckDBPyConnection) -> None:
    """The number 2 and the text '2' of a UNION: one node, whose children are counted once."""
    connection.execute(
        "CREATE TABLE u AS SELECT CASE WHEN i % 2 = 0 THEN 2::INTEGER::UNION(n INTEGER, s VARCHAR) "
        "ELSE '2'::VARCHAR::UNION(n INTEGER, s VARCHAR) END AS k, 'c' || (i % 4) AS c "
        "FROM range(4000) t(i)"
    )
    result = dp.hhh(connection.table("u"), ["k", "c"], threshold=200, **BUDGET)
    assert list(result["prefix"]) == ["*", *(f"2 / c{i}" for i in range(4))]


def test_equal_intervals_of_different_text_are_different_nodes(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """SQL holds one month and 30 days for equal; their texts are not."""
    rows = "SELECT INTERVAL 1 MONTH AS d UNION ALL SELECT INTERVAL 30 DAYS FROM range(300)"
    assert list(dp.hhh(connection.sql(rows), ["d"], **BUDGET)["prefix"]) == ["*", "30 days"]


def test_a_date_beyond_the_calendar_stops_nothing(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """One such record is invalid; it cannot decide whether there is a release."""
    rows = "SELECT '290309-12-22 (BC)' AS d UNION ALL SELECT '2020-01-01' FROM range(300)"
    result = dp.hhh(connection.sql(rows), "date:d?levels=year", **BUDGET)
    assert list(result["prefix"]) == ["*", "2020"]


def test_budgets_at_the_edge_end_quickly_and_soundly() -> None:
    """Searches for noise stop: a plan within the budget, or a refusal that says why."""
    assert dp.explain("path:x?depth=8", epsilon=0.01, delta=0.1).plan.delta_spent <= 0.1
    assert dp.explain("path:x?depth=9", epsilon=0.1, delta=0.1).plan.delta_spent <= 0.1
    with pytest.raises(dp.BudgetError, match="too small"):
        dp.explain("path:x?depth=1", user="u", epsilon=1e-4, delta=1e-6)
    with pytest.raises(dp.BudgetError):
        dp.explain("path:x?depth=1", epsilon=50, delta=1e-12, remainder=False)


@pytest.mark.parametrize(
    ("spec", "one", "others"),
    [
        ("path:k?depth=1", "INTERVAL 1 MONTH", "INTERVAL 30 DAYS"),
        ("columns:k", "[-0.0]", "[0.0]"),
    ],
)
def test_equal_values_with_different_texts_stay_different_nodes(
    spec: str, one: str, others: str
) -> None:
    """Law: text is compared exactly, so that one record cannot name the node of the others."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT {one} AS k UNION ALL SELECT {others} FROM range(300)")
    (expected,) = con.execute(f"SELECT CAST({others} AS VARCHAR)").fetchall()
    result = dp.hhh(con.table("t"), spec, epsilon=50.0, delta=0.1, threshold=100)
    assert list(result["prefix"]) == ["*", expected[0]]
