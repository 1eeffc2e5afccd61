"""Releases by name: drawn and charged once, then replayed for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from tests.sql.visits import BUDGET, LABELS, VISITS, Con, charges, hhh, labels, said

pytestmark = pytest.mark.usefixtures("registered")

NAMED = hhh(release="ks-2026-11")


def test_the_first_call_draws_and_the_others_replay(con: Con, ledger: dp.Ledger) -> None:
    """Law: one charge; identical rows, columns and types; also in views and when prepared."""
    con.execute(f"PREPARE p AS FROM {NAMED}")
    con.execute(f"CREATE VIEW v AS FROM {NAMED}")
    assert con.execute(f"EXPLAIN FROM {NAMED}").fetchall()
    assert charges(ledger) == 0
    first = con.execute(f"FROM {NAMED}").df()
    assert charges(ledger) == 1
    for statement in (f"FROM {NAMED}", "EXECUTE p", "EXECUTE p", "FROM v", "FROM v"):
        pd.testing.assert_frame_equal(con.execute(statement).df(), first)
    both = f"SELECT * FROM {NAMED} a JOIN v b USING (prefix, count, residual, lower, upper)"
    assert len(con.execute(both).fetchall()) == len(LABELS)
    assert charges(ledger) == 1
    assert ledger.releases()[["release", "stored"]].values.tolist() == [["ks-2026-11", True]]


def test_python_recalls_what_sql_released(con: Con, ledger: dp.Ledger) -> None:
    rows = con.execute(f"FROM {NAMED}").df()
    recalled = ledger.recall("ks-2026-11")
    pd.testing.assert_frame_equal(rows, recalled)
    (text,) = con.execute("SELECT receipt->>'release_id' FROM dp_releases()").fetchall()[0]
    assert recalled.attrs["dp"]["release_id"] == text


def test_a_view_for_dashboards_in_a_later_process(tmp_path: Path) -> None:
    """Law: a persistent view of a named release is free and identical in every process."""
    book = tmp_path / "budget.db"
    dp.Ledger(book, epsilon=1.0, delta=1e-6)  # holds one release
    file = tmp_path / "user.db"
    with duckdb.connect(str(file)) as con:
        con.execute(f"CREATE TABLE visits AS {VISITS}")
        dp.register(con, ledger=book)
        con.execute(f"CREATE VIEW heavy AS FROM {NAMED}")
        first = con.execute("FROM heavy").fetchall()
    code = (
        "import duckdb, dpframe as dp\n"
        f"con = duckdb.connect({str(file)!r}, read_only=True)\n"
        f"dp.register(con, ledger={str(book)!r})\n"
        "print(con.execute('FROM heavy').fetchall())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(first), done.stderr
    assert charges(dp.Ledger(book)) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (hhh(release="ks", epsilon=0.5), "epsilon was 1.0 and is now 0.5"),
        (hhh(release="ks", threshold=100), "threshold was None and is now 100"),
        (hhh(release="ks", hierarchy="columns:who"), "'columns:k' and is now 'columns:who'"),
        (hhh("others", release="ks"), "'table \"visits\"' and is now 'table \"others\"'"),
        (hhh(None, release="ks", query="FROM visits"), "is now 'query FROM visits'"),
        (hhh(release="ks", remainder=False), "remainder was True and is now False"),
        (hhh(release="ks", user="who"), "user was None and is now 'who'"),
    ],
)
def test_another_question_under_the_same_name_is_an_error(
    con: Con, ledger: dp.Ledger, call: str, words: str
) -> None:
    """Law: a name answers one request; the error says what differs, when the call is bound."""
    labels(con, hhh(release="ks"))
    con.execute("CREATE TABLE others AS FROM visits")
    for statement in (f"FROM {call}", f"EXPLAIN FROM {call}"):
        said_words = said(con, statement)
        assert "ReleaseNameError: release 'ks' is stored with other arguments" in said_words
        assert words in said_words
    assert charges(ledger) == 1


def test_queries_that_differ_in_white_space_only_are_told_apart(
    con: Con, ledger: dp.Ledger
) -> None:
    """Law: white space inside of a text, or that ends a comment, is part of the question."""
    con.execute("UPDATE visits SET k = 'a  b' WHERE n = 0")
    one = hhh(None, query="FROM visits WHERE k = 'a  b'", release="ks")
    two = hhh(None, query="FROM visits WHERE k = 'a b'", release="ks")
    assert labels(con, one) == ["*", "a  b"]
    assert "is stored with other arguments" in said(con, f"FROM {two}")
    assert labels(con, one) == ["*", "a  b"]
    assert charges(ledger) == 1


def test_python_and_sql_do_not_answer_for_each_other(con: Con, ledger: dp.Ledger) -> None:
    """Law: a table by its name in SQL and an object of Python are two sources."""
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "ledger": ledger}
    labels(con, hhh(release="from SQL"))
    with pytest.raises(dp.ReleaseNameError, match="DuckDB relation"):
        dp.hhh(con.table("visits"), "columns:k", release="from SQL", **arguments)
    dp.hhh(con.table("visits"), "columns:k", release="from Python", **arguments)
    words = said(con, f"FROM {hhh(release='from Python')}")
    assert "source was 'DuckDB relation' and is now 'table \"visits\"'" in words
    assert charges(ledger) == 2


def test_a_release_that_cannot_be_paid_uses_up_no_name(con: Con, tmp_path: Path) -> None:
    """Law: what is not drawn is not stored; with budget left the name is still free."""
    small = dp.Ledger(tmp_path / "small.db", epsilon=1.5, delta=1e-5)
    dp.register(con, ledger=small)
    assert "OverBudgetError" in said(con, f"FROM {hhh(release='ks', epsilon=2.0)}")
    assert labels(con, hhh(release="ks")) == LABELS
    assert "OverBudgetError" in said(con, f"FROM dp_hhh('visits', 'columns:k', {BUDGET})")
    assert labels(con, hhh(release="ks")) == LABELS
    assert charges(small) == 1


def test_a_failed_statement_keeps_what_it_released(con: Con, ledger: dp.Ledger) -> None:
    """Law: what was drawn is stored at once, so that an error after the draw loses nothing."""
    assert "late" in said(con, f"SELECT error('late' || count) FROM {NAMED}")
    assert charges(ledger) == 1
    assert labels(con, NAMED) == LABELS
    assert charges(ledger) == 1


def test_names_in_every_script(con: Con, ledger: dp.Ledger) -> None:
    names = ["it's", '"q"', "a; DROP TABLE visits; --", "日本", "{}", "%s", "a/b", " a", "x" * 200]
    for name in names:
        assert labels(con, hhh(release=name)) == LABELS
        assert labels(con, hhh(release=name)) == LABELS
    assert ledger.names() == names
    assert charges(ledger) == len(names)
