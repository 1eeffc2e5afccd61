"""``dp_tree_counts`` costs what ``dp_hhh`` costs, and its arguments are read while it is bound."""

from __future__ import annotations

import threading

import duckdb
import pytest

import dpframe as dp
from dpframe import _duck
from tests.sql.test_names import HOSTILE, OUR_COLUMNS, OURS, intact, quoted
from tests.sql.visits import BUDGET, Lasting, charges, labels, said

pytestmark = pytest.mark.usefixtures("registered")

LISTED = "dp_tree_counts('visits', 'columns:k', epsilon := 1.0, keys := ['v0', 'v1', 'zz'])"


def test_keys_of_a_name_may_be_given_in_any_form(
    con: duckdb.DuckDBPyConnection, ledger: dp.Ledger
) -> None:
    con.execute("CREATE TABLE ks AS SELECT unnest(['v1', 'zz', 'v0']) AS k, 1 AS more")
    con.execute("SET VARIABLE ks = ['zz', 'v1', 'v0']")
    structs = "[{'k': 'v1'}, {'k': 'v0'}, {'k': 'zz'}]"
    forms = ["['v0', 'v1', 'zz']", "['zz', 'v0', 'v1']", structs, "'ks'", "getvariable('ks')"]
    found = [
        con.execute(
            "FROM dp_tree_counts('visits', 'columns:k', epsilon := 1.0, release := 'r', "
            f"keys := {form})"
        ).fetchall()
        for form in forms
    ]
    assert all(rows == found[0] for rows in found)
    assert charges(ledger) == 1


def test_keys_are_those_of_the_time_of_binding(
    con: duckdb.DuckDBPyConnection, ledger: dp.Ledger
) -> None:
    """Law: a prepared statement and a view read a table of keys when they are bound; what is
    accounted for is what is drawn."""
    con.execute("CREATE TABLE ks AS SELECT 'v0' AS k")
    call = "dp_tree_counts('visits', 'columns:k', epsilon := 1.0, keys := 'ks')"
    con.execute(f"CREATE VIEW v AS FROM {call}")
    assert [row[1] for row in con.execute("FROM v").fetchall()] == ["*", "v0", "<other>"]
    con.execute("INSERT INTO ks VALUES ('v1')")
    assert [row[1] for row in con.execute("FROM v").fetchall()] == ["*", "v0", "v1", "<other>"]
    assert charges(ledger) == 2


@pytest.mark.parametrize(
    ("arguments", "said_so"),
    [
        ("epsilon := 1.0", ("BudgetError: delta is missing", "keys := [...]")),
        (f"{BUDGET}, mechanism := 'laplase'", ("Did you mean 'laplace'?",)),
        (f"{BUDGET}, threshold := 2", ("ThresholdError: threshold (2)", "Raise threshold")),
        (f"{BUDGET}, level_weights := [1, 0]", ("level_weights", "2 positive numbers")),
        (f"{BUDGET}, level_weights := [1]", ("level_weights", "got 1")),
        (f"{BUDGET}, max_weight := 3", ("max_weight (3)", "weight :=")),
        (f"{BUDGET}, weight := 'm'", ("column 'm' does not exist", "'n'")),
        (f"{BUDGET}, weight := 'k'", ("column 'k' has type VARCHAR", "BIGINT")),
        (f"{BUDGET}, consistent := 1", ("consistent must be True or False",)),
        (f"{BUDGET}, alpha := 0.5", ("alpha (0.5)", "mechanism := 'relative'")),
        (f"{BUDGET}, release := 'r', keys := ['a', 'a']", ("keys has 2 keys", "once")),
        ("epsilon := 1.0, keys := ['v0'], mechanism := 'hhh'", ("Leave keys out",)),
        ("epsilon := 1.0, keys := 5", ("ParameterTypeError: keys must be a list",)),
    ],
)
def test_mistakes_cost_nothing(lasting: Lasting, arguments: str, said_so: tuple[str, ...]) -> None:
    con, ledger = lasting
    for macro in ("dp_tree_counts", "dp_explain_tree_counts"):
        if macro == "dp_explain_tree_counts" and "release" in arguments:
            continue
        words = said(con, f"FROM {macro}('visits', 'columns:k', {arguments})")
        for part in said_so:
            assert part in words
    assert charges(ledger) == 0


def test_lists_of_keys_of_several_threads_do_not_meet(con: duckdb.DuckDBPyConnection) -> None:
    found: dict[int, list[str]] = {}

    def ask(i: int) -> None:
        cursor = con.cursor()
        dp.register(cursor)
        call = f"dp_tree_counts('visits', 'columns:k', epsilon := 1.0, keys := ['k{i}'])"
        found[i] = labels(cursor, call)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: ["*", f"k{i}", "<other>"] for i in range(6)}


def test_names_of_keys_and_weights_are_names(
    con: duckdb.DuckDBPyConnection, ledger: dp.Ledger
) -> None:
    """Law: tables of keys, weight columns and levels of any name are read; key texts are text.

    But for one: a table of keys called as the view that reads it is refused, without a charge.
    """
    con.execute(f"CREATE TABLE {_duck.VIEW} AS SELECT 'v0' AS k")
    call = f"dp_tree_counts('visits', ['k'], epsilon := 2.0, keys := '{_duck.VIEW}')"
    assert f"reading keys ('{_duck.VIEW}') failed" in said(con, f"FROM {call}")
    for name in [*OURS, *OUR_COLUMNS, *HOSTILE]:
        if name in (_duck.VIEW, "visits"):
            continue
        con.execute(f"CREATE TABLE {quoted(name)} AS SELECT 'v0' AS {quoted(name)}")
        con.execute(
            "CREATE OR REPLACE TABLE rows_here AS "
            f"SELECT k AS {quoted(name)}, 2 AS {quoted(name + '_')} FROM visits"
        )
        given = {"h": [name], "keys": quoted(name), "w": f"{name}_"}
        call = "dp_tree_counts('rows_here', $h, epsilon := 2.0, keys := $keys, weight := $w, "
        call += "max_weight := 2)"
        rows = con.execute(f'SELECT prefix, "count" FROM {call}', given).fetchall()
        assert [row[0] for row in rows] == ["*", "v0", "<other>"], name
        assert abs(rows[1][1] - 600) < 60, name
        con.execute(f"DROP TABLE {quoted(name)}")
    given = {"keys": [text for text in HOSTILE if text.strip() == text]}
    call = "dp_tree_counts('visits', ['k'], epsilon := 2.0, keys := $keys)"
    found = {row[0] for row in con.execute(f"SELECT prefix FROM {call}", given).fetchall()}
    assert found == {"*", "<other>", *given["keys"]}
    before = charges(ledger)
    for text in HOSTILE:
        given = {"t": text}
        for named in ("keys := $t", "weight := $t", "delta := 1e-6, mechanism := $t"):
            with pytest.raises(duckdb.Error):
                con.execute(f"FROM dp_tree_counts('visits', ['k'], epsilon := 1.0, {named})", given)
    assert intact(con)
    assert charges(ledger) == before
