"""How often the mechanism runs, and is charged, in every construct of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpframe as dp
from tests.members import few, some
from tests.sql.visits import HHH, LABELS, OTHERS, Con, charges, hhh, labels, said

pytestmark = pytest.mark.usefixtures("registered")

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "sql.md"

CONSTRUCTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "`SELECT`, with `WHERE`, `ORDER BY`, `GROUP BY`, `LIMIT 1`, a window, a sample": (
        1,
        (f"SELECT k, sum(count) OVER () FROM {HHH} WHERE level = 1 ORDER BY count LIMIT 1",),
    ),
    "`SELECT count(*)`, `SELECT 1`, `SUMMARIZE`": (1, (f"SELECT count(*) FROM {HHH}",)),
    "`EXPLAIN`, `DESCRIBE`, `PREPARE`": (
        0,
        (f"EXPLAIN FROM {HHH}", f"DESCRIBE FROM {HHH}", f"PREPARE p AS FROM {HHH}"),
    ),
    "`EXPLAIN ANALYZE`": (1, (f"EXPLAIN ANALYZE FROM {HHH}",)),
    "`EXECUTE`, each time": (
        2,
        (f"PREPARE p AS FROM {HHH}", "EXECUTE p", "EXECUTE p", "EXPLAIN EXECUTE p"),
    ),
    "`CREATE VIEW`, `DESCRIBE` of a view, catalogs such as `information_schema`": (
        0,
        (
            f"CREATE VIEW v AS FROM {HHH}",
            *("DESCRIBE v", "SELECT * FROM information_schema.columns", "FROM duckdb_columns()"),
            "SHOW ALL TABLES",
        ),
    ),
    "a view, each time it is read, in each place": (
        3,
        (f"CREATE VIEW v AS FROM {HHH}", "FROM v", "FROM v JOIN v AS w USING (prefix)"),
    ),
    "`CREATE TABLE AS`, `INSERT INTO`, `COPY TO`": (1, (f"CREATE TABLE heavy AS FROM {HHH}",)),
    "the table that one of them wrote, however often it is read": (
        1,
        (f"CREATE TABLE heavy AS FROM {HHH}", "FROM heavy", "FROM heavy JOIN heavy b USING (k)"),
    ),
    "`JOIN`, `IN (...)`, `EXISTS (...)`, a scalar subquery": (
        1,
        (f"FROM visits WHERE k IN (SELECT prefix FROM {HHH})",),
    ),
    "a CTE, however often it is used": (
        1,
        (f"WITH t AS (FROM {HHH}) SELECT * FROM t JOIN t AS u USING (prefix)",),
    ),
    "a CTE `AS NOT MATERIALIZED`, for each use": (
        2,
        (f"WITH t AS NOT MATERIALIZED (FROM {HHH}) SELECT * FROM t JOIN t AS u USING (prefix)",),
    ),
    "a self join or `UNION` of two calls": (2, (f"FROM {HHH} UNION FROM {HHH}",)),
    "`PIVOT`, which runs its input twice": (2, (f"PIVOT (FROM {HHH}) ON level USING sum(count)",)),
    "a recursive CTE, for each round": (
        3,
        (
            "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t, "
            f"(SELECT count(*) FROM {HHH}) WHERE i < 3) FROM t",
        ),
    ),
    "`LIMIT 0`, `WHERE false`, a CTE that nobody uses": (
        0,
        (f"FROM {HHH} LIMIT 0", f"FROM {HHH} WHERE false", f"WITH t AS (FROM {HHH}) SELECT 1"),
    ),
    "a branch that is never taken: `CASE WHEN false`, `true OR EXISTS (...)`": (
        1,
        (f"SELECT CASE WHEN false THEN (SELECT max(count) FROM {HHH}) END",),
    ),
    "`BEGIN`, a call, `ROLLBACK`": (1, ("BEGIN", f"CREATE TABLE heavy AS FROM {HHH}", "ROLLBACK")),
}
"""What stands in docs/sql.md: times charged, statements."""

MORE: list[tuple[int, str]] = [
    (1, f"SELECT 1 FROM {HHH}"),
    (1, f"SUMMARIZE FROM {HHH}"),
    (1, f"SELECT level, sum(count) FROM {HHH} GROUP BY ROLLUP (level)"),
    (1, f"FROM {HHH} USING SAMPLE 2"),
    (1, f"INSERT INTO target SELECT k, count FROM {HHH}"),
    (1, f"COPY (FROM {HHH}) TO '$folder/heavy.parquet'"),
    (1, f"UPDATE target SET count = (SELECT max(count) FROM {HHH})"),
    (1, f"DELETE FROM target WHERE k IN (SELECT k FROM {HHH})"),
    (1, f"SELECT EXISTS (FROM {HHH})"),
    (1, f"SELECT k, (SELECT max(count) FROM {HHH}) FROM visits"),
    (1, f"FROM visits JOIN {HHH} AS h ON h.k = visits.k"),
    (1, f"FROM visits SEMI JOIN {HHH} AS h ON h.k = visits.k"),
    (1, f"FROM visits, {HHH}"),
    (1, f"FROM visits, LATERAL (FROM {HHH})"),
    (1, f"WITH t AS (FROM {HHH}) SELECT count - (SELECT max(count) FROM t) FROM t"),
    (1, f"WITH t AS MATERIALIZED (FROM {HHH}) FROM t UNION ALL FROM t"),
    (2, f"FROM {HHH} JOIN {HHH} AS b USING (prefix)"),
    (2, f"FROM {HHH} UNION ALL FROM {HHH}"),
    (1, f"SELECT 1 WHERE true OR EXISTS (FROM {HHH})"),
    (1, "FROM query('FROM v')"),
    (1, "FROM by_columns('visits')"),
    (1, f"SELECT error('after the draw') FROM {HHH}"),
]


@some(0, 2, 5, 7, 10, 13, 15)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_what_a_construct_costs(con: Con, ledger: dp.Ledger, construct: str) -> None:
    """Law: charges are counted by the ledger, and are those of the documentation."""
    times, statements = CONSTRUCTS[construct]
    for statement in statements:
        con.execute(statement).fetchall()
    assert charges(ledger) == times


@pytest.mark.parametrize(
    ("call", "construct"),
    [  # for each call every third construct; all of them are evidence
        pytest.param(
            *(call, construct),
            id=f"{name}-{construct}",
            marks=[pytest.mark.evidence] * ((i + first) % 3 > 0),
        )
        for first, (name, call) in enumerate(OTHERS.items())
        for i, construct in enumerate(CONSTRUCTS)
    ],
)
def test_what_a_construct_costs_with_other_macros(
    con: Con, ledger: dp.Ledger, call: str, construct: str
) -> None:
    """Law: the table of the documentation holds for every question."""
    times, statements = CONSTRUCTS[construct]
    for statement in statements:
        con.execute(statement.replace(HHH, call)).fetchall()
    assert charges(ledger) == times


@few(8, ("times", "statement"), MORE, ids=[s[:60] for _, s in MORE])
def test_what_relatives_of_a_construct_cost(
    con: Con, ledger: dp.Ledger, times: int, statement: str, tmp_path: Path
) -> None:
    con.execute("CREATE TABLE target (k VARCHAR, count BIGINT)")
    con.execute(f"CREATE VIEW v AS FROM {HHH}")
    con.execute(
        "CREATE MACRO by_columns(tbl) AS TABLE "
        "FROM dp_hhh(tbl, 'columns:k', epsilon := 1, delta := 1e-6)"
    )
    statement = statement.replace("$folder", str(tmp_path))
    if "error(" in statement:
        assert "after the draw" in said(con, statement)
    else:
        con.execute(statement).fetchall()
    assert charges(ledger) == times


def test_the_documentation_has_these_numbers() -> None:
    """Law: the table of docs/sql.md is the one that the tests above measure."""
    rows = re.findall(r"^\| (.+?) \| (\d+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert {text: int(times) for text, times in rows} == {
        text: times for text, (times, _) in CONSTRUCTS.items()
    }


# -- relations in Python -------------------------------------------------------------------------

RELATION: list[tuple[str, int, Callable[[Any], object]]] = [
    ("columns, types", 0, lambda relation: (relation.columns, relation.types)),
    ("fetchall", 1, lambda relation: relation.fetchall()),
    ("df twice", 2, lambda relation: (relation.df(), relation.df())),
    ("repr", 1, repr),
    ("len", 1, len),
    ("filter", 1, lambda relation: relation.filter("level = 1").fetchall()),
    ("materialize", 1, lambda relation: repr(relation.materialize())),
    ("create_view", 0, lambda relation: relation.create_view("v")),
    ("create", 1, lambda relation: relation.create("heavy")),
]


@pytest.mark.parametrize(("times", "use"), [r[1:] for r in RELATION], ids=[r[0] for r in RELATION])
def test_a_relation_runs_again_each_time(
    con: Con, ledger: dp.Ledger, times: int, use: Callable[[Any], object]
) -> None:
    relation = con.sql(f"FROM {HHH}")
    assert charges(ledger) == 0
    use(relation)
    assert charges(ledger) == times


def test_a_materialized_relation_is_paid_once(con: Con, ledger: dp.Ledger) -> None:
    rows = con.sql(f"FROM {HHH}").materialize()
    assert rows.fetchall() == rows.fetchall()
    assert charges(ledger) == 1


# -- more than one draw, or none -----------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT (SELECT max(count) FROM {HHH} h WHERE h.k = v.k) FROM visits v",
        f"FROM visits v, LATERAL (FROM {HHH} h WHERE h.k = v.k)",
        "SELECT system.main.__dpframe_draw(temp.__dpframe_here(), '{\"release\": null}', [], '') "
        "FROM range(2)",
    ],
)
def test_a_draw_for_each_row_is_refused(con: Con, ledger: dp.Ledger, statement: str) -> None:
    """Law: a subquery that uses columns from outside would pay once a value; it pays nothing.

    On several threads DuckDB may show rows one by one; then draws before the refusal stay charged.
    """
    con.execute("SET threads = 1")
    assert "once for each of several rows" in said(con, statement)
    assert charges(ledger) == 0


@pytest.mark.parametrize("name", OTHERS)
def test_a_draw_for_each_row_is_refused_by_name(con: Con, ledger: dp.Ledger, name: str) -> None:
    con.execute("SET threads = 1")
    statement = f"SELECT (SELECT max(h.count) FROM {OTHERS[name]} h WHERE h.k = v.k) FROM visits v"
    words = f"{name.partition(',')[0]} would be drawn and charged once for each of several rows"
    assert words in said(con, statement)
    assert charges(ledger) == 0


def test_a_named_release_may_stand_in_a_correlated_subquery(con: Con, ledger: dp.Ledger) -> None:
    call = hhh(release="ks")
    counts = dict(con.execute(f"SELECT k, count FROM {call}").fetchall())
    con.execute("CREATE TABLE ks AS SELECT DISTINCT k FROM visits")
    statement = f"SELECT k, (SELECT max(count) FROM {call} h WHERE h.k = ks.k) FROM ks ORDER BY k"
    assert con.execute(statement).fetchall() == [(k, counts[k]) for k in LABELS[1:]]
    assert charges(ledger) == 1


def test_nothing_is_drawn_beyond_the_budget(con: Con, tmp_path: Path) -> None:
    """Law: the statement that would overspend fails, as a whole, and charges what was drawn."""
    small = dp.Ledger(tmp_path / "small.db", epsilon=2.5, delta=1e-4)
    dp.register(con, ledger=small)
    labels(con)
    con.execute("SET threads = 1")
    error = said(con, f"CREATE TABLE heavy AS FROM {HHH} UNION ALL FROM {HHH}")
    assert "OverBudgetError: the ledger does not hold enough budget: epsilon requested 1" in error
    assert charges(small) == 2
    assert con.execute("SHOW TABLES").fetchall() == [("visits",)]
    assert "OverBudgetError" in said(con, f"FROM {HHH}")
    assert charges(small) == 2


def test_a_rollback_gives_nothing_back(con: Con, ledger: dp.Ledger) -> None:
    """Law: the charge is in the ledger's own file; a transaction of DuckDB does not undo it."""
    con.execute("BEGIN")
    first = con.execute(f"FROM {HHH}").fetchall()
    assert said(con, f"SELECT error('no') FROM {HHH}")
    con.execute("ROLLBACK")
    assert charges(ledger) == 2
    assert len(first) == len(LABELS)


def test_what_fails_before_the_draw_is_not_charged(con: Con, ledger: dp.Ledger) -> None:
    con.execute("CREATE VIEW broken AS SELECT k::INTEGER AS k FROM visits")
    assert "Conversion Error" in said(con, f"FROM {hhh('broken')}")
    con.execute("SET default_collation = 'nocase'")
    assert "RESET default_collation" in said(con, f"FROM {HHH}")
    assert charges(ledger) == 0


def test_without_a_ledger_releases_are_listed_for_the_connection(
    con: Con,
) -> None:
    """Law: nothing tracks a total, and ``dp_releases`` and the receipts say so."""
    dp.register(con)
    assert con.execute("FROM dp_budget()").fetchall() == []
    labels(con)
    labels(con, hhh(None, query="FROM visits WHERE n > 0"))
    rows = con.execute("SELECT number, source, epsilon, stored FROM dp_releases()").fetchall()
    assert rows == [
        (1, 'table "visits"', 1.0, False),
        (2, "query FROM visits WHERE n > 0", 1.0, False),
    ]
    receipts = con.execute("SELECT receipt->>'budget' FROM dp_releases()").fetchall()
    assert all("no ledger" in text for (text,) in receipts)


def test_the_ledger_can_be_asked(con: Con, ledger: dp.Ledger) -> None:
    """Law: ``dp_budget`` and ``dp_releases`` are the frames of ``Ledger``, column by column."""
    assert con.execute("FROM dp_releases()").fetchall() == []
    labels(con)
    labels(con, hhh(release="ks"))
    for call, frame in (("dp_budget()", ledger.summary()), ("dp_releases()", ledger.releases())):
        found = con.execute(f"FROM {call}").df()
        assert list(found.columns) == list(frame.columns)
        assert found.astype(object).where(found.notna(), None).to_dict("list") == (
            frame.astype(object).where(frame.notna(), None).to_dict("list")
        )
