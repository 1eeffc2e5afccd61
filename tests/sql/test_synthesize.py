"""``dp_synthesize`` costs what ``dp_hhh`` costs, and its arguments are read while it is bound."""

from __future__ import annotations

import duckdb
import pytest

import dpframe as dp
from tests.sql.test_names import HOSTILE, intact, quoted
from tests.sql.visits import Lasting, charges, said

pytestmark = pytest.mark.usefixtures("registered")

GIVEN = "'number:n?lower=0&upper=4', n := 9, epsilon := 1.0, k := 4, width := 16"
CALL = f"dp_synthesize('visits', {GIVEN})"


def test_a_name_is_fitted_once(con: duckdb.DuckDBPyConnection, ledger: dp.Ledger) -> None:
    for n in (9, 9, 30, 0):
        call = f"{CALL[:-1]}, release := 'r')".replace("n := 9", f"n := {n}")
        assert len(con.execute(f"FROM {call}").fetchall()) == n
    assert charges(ledger) == 1


MISTAKES = [
    ("'visits', epsilon := 1.0", "columns is missing"),
    ("'visits', 'number:n?lower=0&upper=4', epsilon := 1.0", "n is missing"),
    ("'visits', 'number:n?lower=0&upper=4', n := 9", "epsilon is missing"),
    (f"'nowhere', {GIVEN}", "Table with name nowhere does not exist"),
    (GIVEN, "columns is missing"),
    (f"'visits', {GIVEN.replace('number:n', 'number:nn')}", "column 'nn' does not exist. Did you"),
    (f"'visits', {GIVEN.replace('number:n', 'time:n')}", "lower"),
    (f"'visits', {GIVEN}, split := 'optimum'", "Did you mean 'optimal'?"),
    (f"'visits', {GIVEN.replace('k := 4', 'k := 0')}", "k (0)"),
    (f"'visits', {GIVEN.replace('width := 16', 'width := 1.5')}", "width"),
    (f"'visits', {GIVEN}, \"rows\" := 2", "rows"),
    (f"'visits', {GIVEN}, depth := 61", "depth"),
    (f"'visits', {GIVEN}, \"keys\" := ['a']", "keys is for categories"),
    (f"'visits', {GIVEN}, query := 'FROM visits'", "tbl and query are both given"),
    (f"'visits', {GIVEN.replace('n := 9', 'n := -1')}", "n (-1)"),
    (f"'visits', {GIVEN.replace('n := 9', 'n := 1000000000')}", "n (1000000000) is above"),
    ("'visits', ['k'], n := 9, epsilon := 1.0, \"keys\" := ['v0']", "names no known kind"),
    ("'visits', 'columns:k', n := 9, epsilon := 1.0", "needs keys"),
    (f"'here', {GIVEN}", "emporary tables"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES)
def test_mistakes_cost_nothing(lasting: Lasting, arguments: str, words: str) -> None:
    con, ledger = lasting
    con.execute("CREATE OR REPLACE TEMP TABLE here AS FROM visits")
    assert words in said(con, f"FROM dp_synthesize({arguments})")
    assert charges(ledger) == 0


def test_columns_of_any_name_come_back(con: duckdb.DuckDBPyConnection) -> None:
    for name in HOSTILE:
        con.execute(f"CREATE OR REPLACE TABLE r AS SELECT n AS {quoted(name)}, k FROM visits")
        if "," in name or name.strip() != name:
            continue
        call = "dp_synthesize('r', $c, n := 3, epsilon := 1.0, k := 4, width := 16)"
        found = con.execute(f"FROM {call}", {"c": {name: [0, 4]}})
        assert [d[0] for d in found.description or []] == [name]
        found.fetchall()
    given = {"keys": list(HOSTILE)}
    call = "dp_synthesize('visits', 'columns:k', n := 300, epsilon := 1.0, \"keys\" := $keys)"
    rows = {row[0] for row in con.execute(f"FROM {call}", given).fetchall()}
    assert rows <= {*HOSTILE, "<other>"}
    assert intact(con)


TYPELESS = ("NULL", "'{\"a\": 1}'::JSON", "'eeccb8c5-9943-b2bb-bb5e-222f4e14b687'::UUID")


def test_no_type_fails_after_the_charge(con: duckdb.DuckDBPyConnection, ledger: dp.Ledger) -> None:
    """Law: rows of any type that is read can be written; other types are refused before."""
    for n, value in enumerate(TYPELESS, 1):
        con.execute(f"CREATE OR REPLACE TABLE odd AS SELECT {value} AS v FROM range(50)")
        call = "dp_synthesize('odd', 'path:v?depth=1', n := 9, epsilon := 1.0, keys := ['a'])"
        assert len(con.execute(f"FROM {call}").fetchall()) == 9
        assert charges(ledger) == n
    for value in ("[1]", "{'a': 1}", "INTERVAL 1 DAY"):
        con.execute(f"CREATE OR REPLACE TABLE odd AS SELECT {value} AS v FROM range(50)")
        assert "a list of keys reads" in said(con, f"FROM {call}")
        with pytest.raises(dp.ColumnError, match="a list of keys reads"):
            dp.synthesize(con.table("odd"), "path:v?depth=1", keys=["a"], epsilon=1.0)
    assert charges(ledger) == len(TYPELESS)
