"""Trees, synthetic rows and items of users in SQL: what is read and refused when it is bound."""

from __future__ import annotations

import json
import threading
from typing import Any

import duckdb
import pytest

import dpframe as dp
from dpframe import _duck
from dpframe.doors.sql.calls import as_parameters
from tests.sql.test_names import HOSTILE, OUR_COLUMNS, OURS, intact, quoted
from tests.sql.visits import BUDGET, Con, Lasting, charges, labels, literal, said, said_by_python

pytestmark = pytest.mark.usefixtures("registered")


def test_keys_of_a_name_may_be_given_in_any_form(con: Con, ledger: dp.Ledger) -> None:
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


def test_keys_are_those_of_the_time_of_binding(con: Con, ledger: dp.Ledger) -> None:
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
        (f"{BUDGET}, threshold := 2", ("ThresholdError: threshold (2)", "Raise threshold")),
        (f"{BUDGET}, level_weights := [1, 0]", ("level_weights", "2 positive numbers")),
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


def test_lists_of_keys_of_several_threads_do_not_meet(con: Con) -> None:
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


def test_names_of_keys_and_weights_are_names(con: Con, ledger: dp.Ledger) -> None:
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


# -- dp_synthesize ---------------------------------------------------------------------------------


COLUMNS = "'number:n?lower=0&upper=4', n := 9, epsilon := 1.0, k := 4, width := 16"
FITTED = f"dp_synthesize('visits', {COLUMNS})"


def test_a_name_is_fitted_once(con: Con, ledger: dp.Ledger) -> None:
    for n in (9, 9, 30, 0):
        call = f"{FITTED[:-1]}, release := 'r')".replace("n := 9", f"n := {n}")
        assert len(con.execute(f"FROM {call}").fetchall()) == n
    assert charges(ledger) == 1


UNFITTED = [
    ("'visits', epsilon := 1.0", "columns is missing"),
    ("'visits', 'number:n?lower=0&upper=4', epsilon := 1.0", "n is missing"),
    ("'visits', 'number:n?lower=0&upper=4', n := 9", "epsilon is missing"),
    (f"'nowhere', {COLUMNS}", "Table with name nowhere does not exist"),
    (COLUMNS, "columns is missing"),
    (
        f"'visits', {COLUMNS.replace('number:n', 'number:nn')}",
        "column 'nn' does not exist. Did you",
    ),
    (f"'visits', {COLUMNS.replace('number:n', 'time:n')}", "lower"),
    (f"'visits', {COLUMNS}, depth := 61", "depth"),
    (f"'visits', {COLUMNS}, \"keys\" := ['a']", "keys is for categories"),
    (f"'visits', {COLUMNS}, query := 'FROM visits'", "tbl and query are both given"),
    (f"'visits', {COLUMNS.replace('n := 9', 'n := -1')}", "n (-1)"),
    (f"'visits', {COLUMNS.replace('n := 9', 'n := 1000000000')}", "n (1000000000) is above"),
    ("'visits', ['k'], n := 9, epsilon := 1.0, \"keys\" := ['v0']", "names no known kind"),
    (f"'here', {COLUMNS}", "emporary tables"),
]


@pytest.mark.parametrize(("arguments", "words"), UNFITTED)
def test_mistakes_of_synthesize_cost_nothing(lasting: Lasting, arguments: str, words: str) -> None:
    con, ledger = lasting
    con.execute("CREATE OR REPLACE TEMP TABLE here AS FROM visits")
    assert words in said(con, f"FROM dp_synthesize({arguments})")
    assert charges(ledger) == 0


def test_columns_of_any_name_are_drawn(con: Con) -> None:
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


def test_no_type_fails_after_the_charge(con: Con, ledger: dp.Ledger) -> None:
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


# -- dp_prefix_tree --------------------------------------------------------------------------------


ARGUMENTS: dict[str, Any] = {
    "epsilon": 10.0,
    "delta": 1e-6,
    "user": "who",
    "mechanism": "laplace",
    "alphabet": "v012",
    "length": 9,
}
"""One question of 512 cells: 30 of 90 users hold each item, and noise is a few users."""


def call(tbl: str | None = "visits", column: Any = "k", /, **named: Any) -> str:
    given = {"tbl": tbl, "column": column, **ARGUMENTS, **named}
    return f"dp_prefix_tree({', '.join(f'{quoted(k)} := {text(v)}' for k, v in given.items())})"


def text(value: Any) -> str:
    return f"[{', '.join(map(text, value))}]" if isinstance(value, list) else literal(value)


CALL = call()

EXPLAIN = call(devices=100).replace("dp_prefix_tree", "dp_explain_prefix_tree")


def items(con: Con, statement: str = CALL) -> list[str]:
    return [row[0] for row in con.execute(f"FROM {statement}").fetchall()]


# -- what it costs -------------------------------------------------------------------------------


def test_explaining_needs_the_number_of_devices(con: Con) -> None:
    words = said(con, f"FROM {EXPLAIN.replace('100', 'NULL')}")
    assert "devices is missing" in words
    assert "devices := 100000" in words
    wrong = EXPLAIN.replace("'k'", "'kk'")
    assert "column 'kk' does not exist. Did you mean 'k'" in said(con, f"FROM {wrong}")


# -- names ---------------------------------------------------------------------------------------


def test_a_name_stored_since_the_statement_was_bound_is_replayed(
    con: Con, ledger: dp.Ledger
) -> None:
    """Law: what is prepared looks again, before it counts users; too few no longer matter."""
    con.execute(f"PREPARE p AS FROM {call(release='r')}")
    first = con.execute("EXECUTE p").fetchall()
    con.execute("DELETE FROM visits")
    assert con.execute("EXECUTE p").fetchall() == first
    assert charges(ledger) == 1


# -- arguments -----------------------------------------------------------------------------------


def test_arguments_by_place_are_those_of_the_documentation(con: Con) -> None:
    """Law: table, column, epsilon, delta, user, devices, iterations, rounds, length, limit."""
    by_place = "'visits', 'k', 10.0, 1e-6, 'who', NULL, 3, 2, 9, 64, mechanism := 'gaussian'"
    con.execute(f"FROM dp_prefix_tree({by_place}, alphabet := 'v012')").fetchall()
    receipt = json.loads(con.execute("SELECT receipt FROM dp_releases()").fetchall()[0][0])
    asked = [receipt[name] for name in ("user", "iterations", "rounds", "length", "limit")]
    assert asked == ["who", 3, 2, 9, 64]


# -- mistakes ------------------------------------------------------------------------------------

WRONG: list[dict[str, Any]] = [
    *({"epsilon": bad} for bad in (None, 0, -1.5, 51, "one", True)),
    *({"delta": bad} for bad in (None, 0, 1, "a")),
    *({"user": bad} for bad in (None, 5, "")),
    *({"column": bad} for bad in (None, 5, "", ["k"])),
    *({"devices": bad} for bad in (0, 99, 1.5, "many", True)),
    *({"iterations": bad} for bad in (0, 101, 2.5, "four")),
    *({"rounds": bad} for bad in (0, 21)),
    *({"length": bad} for bad in (0, 4097, "long")),
    *({"limit": bad} for bad in (1, 2**29, 2)),
    *({"segments": bad} for bad in ("adaptiv", [], [3, 3], [20], [0, 9], ["a"], [4.5, 4.5], 3)),
    *({"false_positives": bad} for bad in (0, 11, "few")),
    *({"selection": bad} for bad in ("weight", 1)),
    *({"conditioned": bad} for bad in ("true", 1)),
    *({"encoding": bad} for bad in ("binry", 7, "huffman")),
    *({"alphabet": bad} for bad in ("", 7)),
    *({"public": bad} for bad in (["a"], "a")),
    *({"encoding": "huffman", "public": bad} for bad in ("a", [1], [None], 7)),
    *({"deny": bad} for bad in ("a", [1], [None], 7)),
    *({"participation": bad} for bad in (0, 1.5, 0.5, "all")),
    *({"mechanism": bad} for bad in ("report", "offline", 1)),
    *({"accountant": bad} for bad in ("pld", "shuffle")),
    *({"neighbours": bad} for bad in ("add", 2)),
    *({"confidence": bad} for bad in (0.1, 1, "high")),
    *({"release": bad} for bad in ("", "a\nb", 7)),
    {"mechanism": "reports"},
    {"devices": 100},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_mistake_is_answered_as_in_python(lasting: Lasting, wrong: dict[str, Any]) -> None:
    """Law: same class and same words as ``dp.prefix_tree``, and nothing is charged."""
    con, ledger = lasting
    given = {**ARGUMENTS, **wrong}
    column = given.pop("column", "k")
    words = said_by_python(
        lambda: dp.prefix_tree(con.table("visits"), column, ledger=ledger, **given)
    )
    shown = said(con, f"FROM {call('visits', column, **given)}")
    assert as_parameters(words.split(" Columns: ")[0]) in shown
    assert charges(ledger) == 0


MISTAKES = [
    (call(None), "tbl is missing"),
    (call("nowhere"), "Table with name nowhere does not exist"),
    (call(query="FROM visits"), "tbl and query are both given"),
    (call(None, query="FROM nowhere"), "Table with name nowhere does not exist"),
    (call(None, query="FROM visits; FROM visits"), "query must be one SELECT"),
    (call("visits", "kk"), "ColumnError: column 'kk' does not exist. Did you mean 'k'"),
    (call(user="whom"), "column 'whom' does not exist. Did you mean 'who'"),
    (call("visits", "listed"), "column 'listed' does not exist"),
    (call("here"), "registered frames and uncommitted tables are read from Python"),
    (call("temp.here"), "from Python by dp.prefix_tree"),
    (call("given"), "from Python by dp.prefix_tree"),
    (f"{CALL[:-1]}, iteration := 3)", "Candidate macros: dp_prefix_tree(tbl := "),
    (CALL.replace("10.0", "(SELECT 1.0)"), "cannot contain subqueries"),
]


@pytest.mark.parametrize(("statement", "words"), MISTAKES)
def test_a_mistake_about_the_source_is_named(lasting: Lasting, statement: str, words: str) -> None:
    con, ledger = lasting
    con.execute("CREATE OR REPLACE TEMP TABLE here AS FROM visits")
    con.register("given", con.table("visits").to_arrow_table())
    assert words in said(con, f"FROM {statement}")
    assert charges(ledger) == 0


def test_a_table_of_an_open_transaction_is_refused(con: Con, ledger: dp.Ledger) -> None:
    con.execute("BEGIN")
    con.execute("CREATE TABLE new AS FROM visits")
    assert "uncommitted" in said(con, f"FROM {call('new')}")
    con.execute("ROLLBACK")
    assert charges(ledger) == 0


def test_what_cannot_be_read_is_not_quoted(con: Con, ledger: dp.Ledger) -> None:
    """Law: a source that fails while it runs says nothing of its values, and costs nothing."""
    con.execute(
        "CREATE TABLE secrets AS SELECT 'sEcReT' || i AS k, 'u' || i AS who FROM range(9) r(i)"
    )
    for column in (
        "CAST(k AS INTEGER) AS k, who",
        "k, CAST(who AS DATE) AS who",
        "error(k) AS k, who",
    ):
        con.execute(f"CREATE OR REPLACE VIEW broken AS SELECT {column} FROM secrets")
        words = said(con, f"FROM {call('broken')}").split("LINE 1")[0]
        assert "reading the source failed" in words
        assert "sEcReT" not in words
    assert charges(ledger) == 0


# -- names of columns and users ------------------------------------------------------------------


def test_columns_of_any_name_are_read(con: Con) -> None:
    for name in HOSTILE:
        if "," in name or name.strip() != name:
            continue
        con.execute(f"CREATE OR REPLACE TABLE r AS SELECT k AS {quoted(name)}, who FROM visits")
        statement = call("r", "NAME").replace("'NAME'", "$c")
        found = con.execute(f"FROM {statement}", {"c": name})
        assert [d[0] for d in found.description or []] == [name, "count", "lower", "upper"]
    con.execute("CREATE TABLE counted AS SELECT k AS count, who AS level FROM visits")
    found = con.execute(f"FROM {call('counted', 'count', user='level')}")
    assert [d[0] for d in found.description or []] == ["count_", "count", "lower", "upper"]
    assert {"v0", "v1", "v2"} <= {row[0] for row in found.fetchall()}
    assert intact(con)


def test_only_rows_that_k_cuts_are_called_the_largest() -> None:
    """Law: the k of heavy hitters cuts rows, and their receipt says so; the k of synthetic rows is
    another argument."""
    with duckdb.connect() as con:
        dp.register(con)
        con.execute("CREATE TABLE t AS SELECT (i % 8)::DOUBLE AS x FROM range(8000) r(i)")
        asked = "'t', 'number:x?lower=0&upper=40', epsilon := 1.0, n := 9, k := 4"
        con.execute(f"SELECT * FROM dp_synthesize({asked})").fetchall()
        cut = "'t', 'x', epsilon := 1.0, delta := 1e-6, k := 4"
        assert len(con.execute(f"SELECT * FROM dp_heavy_hitters({cut})").fetchall()) == 4
        told = [text for (text,) in con.execute("SELECT receipt FROM dp_releases()").fetchall()]
    assert ["are the largest of" in text for text in told] == [False, True]
