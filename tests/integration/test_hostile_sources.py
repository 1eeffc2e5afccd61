"""Sources made to confuse: the tree stays a tree, and no single record can write a label."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe._duck import connections as process_database

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


def test_values_of_one_text_are_one_node(connection: duckdb.DuckDBPyConnection) -> None:
    """The number 2 and the text '2' of a UNION: one node, whose children are counted once."""
    connection.execute(
        "CREATE TABLE u AS SELECT CASE WHEN i % 2 = 0 THEN 2::INTEGER::UNION(n INTEGER, s VARCHAR) "
        "ELSE '2'::VARCHAR::UNION(n INTEGER, s VARCHAR) END AS k, 'c' || (i % 4) AS c "
        "FROM range(4000) t(i)"
    )
    result = dp.hhh(connection.table("u"), ["k", "c"], threshold=200, **BUDGET)
    assert list(result["prefix"]) == ["*", *(f"2 / c{i}" for i in range(4))]


def test_a_date_beyond_the_calendar_stops_nothing(connection: duckdb.DuckDBPyConnection) -> None:
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
    [("path:k?depth=1", "INTERVAL 1 MONTH", "INTERVAL 30 DAYS"), ("columns:k", "[-0.0]", "[0.0]")],
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


# -- files ---------------------------------------------------------------------------------------

SECRET = "SECRETVALUE"


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def holding(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


HOSTILE_FILES: dict[str, Callable[[Path], Path | str]] = {
    "no gzip": lambda at: holding(at / "a.csv.gz", f"c\n{SECRET}\n".encode()),
    "half of a gzip": lambda at: holding(at / "a.csv.gz", gzip.compress(b"c\n" * 9_000)[:15]),
    "a long header": lambda at: holding(at / "a.csv", f"c,{SECRET * 20_000}\n1,2\n".encode()),
    "a folder": lambda at: folder(at / "a.csv"),
    "a folder of Parquet": lambda at: folder(at / "a.parquet"),
    "a long path": lambda at: at / f"{'x' * 5_000}.csv",
    "a surrogate": lambda at: str(at / "\ud800.csv"),
    "a NUL": lambda at: str(at / "a\x00b.csv"),
    "no Parquet": lambda at: holding(at / "a.parquet", f"PAR1{SECRET}".encode()),
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_file_that_cannot_be_read_is_an_error_of_ours(name: str, tmp_path: Path) -> None:
    """Law: whatever a file is, the error is ours and quotes nothing of its lines."""
    with pytest.raises(dp.ParameterError if name == "a NUL" else dp.SourceError) as caught:
        dp.hhh(HOSTILE_FILES[name](tmp_path), ["c"], **BUDGET)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert caught.value.__context__ is None


def test_without_a_temporary_folder_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would spill raw keys into the working directory."""
    monkeypatch.setattr(process_database, "_databases", {})
    monkeypatch.setattr(process_database, "_folders", {})
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(dp.SourceError, match="TMPDIR"):
        dp.hhh(pd.DataFrame({"c": [0.5]}), ["c"], **BUDGET)


# -- names ---------------------------------------------------------------------------------------


def test_names_that_no_text_can_hold_are_refused_where_they_are_given(tmp_path: Path) -> None:
    """Empty names and lone surrogates, in columns, separators and titles."""
    odd = "\ud800"
    frame = pd.DataFrame(np.full((300, 3), "a"), columns=pd.Index([odd, "", "c"], dtype=object))
    for hierarchy in ([odd], f"path:{odd}", f"path:c?separator={odd}", [""], ["c", ""]):
        with pytest.raises(dp.HierarchyError):
            dp.hhh(frame, hierarchy, **BUDGET)
    for name in (odd, ""):
        with pytest.raises(dp.ParameterError, match="user"):
            dp.hhh(frame, ["c"], user=name, **BUDGET)
        with pytest.raises(dp.ParameterError, match="user"):
            dp.prefix_tree(frame, "c", user=name, devices=100, **BUDGET)
        with pytest.raises(dp.ParameterError, match="weight"):
            dp.tree_counts(frame, ["c"], weight=name, **BUDGET)
        with pytest.raises(dp.ParameterError):
            dp.synthesize(frame, {name: (0, 1)}, epsilon=1.0)
        with pytest.raises(dp.ParameterError):
            dp.heavy_hitters(frame, name, **BUDGET)
    found = dp.hhh(frame, ["c"], **BUDGET)
    assert list(found["prefix"]) == ["*", "a"]
    with pytest.raises(dp.ParameterError, match="title"):
        found.dp.report(tmp_path / "page.html", title=odd)
