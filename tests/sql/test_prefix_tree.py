"""``dp_prefix_tree`` costs what ``dp_hhh`` costs, and its arguments are read while it is bound."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

import dpframe as dp
from dpframe.doors.sql.calls import as_parameters
from tests.sql.test_names import HOSTILE, intact, quoted
from tests.sql.visits import Lasting, charges, literal, said, said_by_python

pytestmark = pytest.mark.usefixtures("registered")

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


def items(con: duckdb.DuckDBPyConnection, statement: str = CALL) -> list[str]:
    return [row[0] for row in con.execute(f"FROM {statement}").fetchall()]


# -- what it costs -------------------------------------------------------------------------------


def test_explaining_needs_the_number_of_devices(con: duckdb.DuckDBPyConnection) -> None:
    words = said(con, f"FROM {EXPLAIN.replace('100', 'NULL')}")
    assert "devices is missing" in words
    assert "devices := 100000" in words
    wrong = EXPLAIN.replace("'k'", "'kk'")
    assert "column 'kk' does not exist. Did you mean 'k'" in said(con, f"FROM {wrong}")


# -- names ---------------------------------------------------------------------------------------


def test_a_name_stored_since_the_statement_was_bound_is_replayed(
    con: duckdb.DuckDBPyConnection, ledger: dp.Ledger
) -> None:
    """Law: what is prepared looks again, before it counts users; too few no longer matter."""
    con.execute(f"PREPARE p AS FROM {call(release='r')}")
    first = con.execute("EXECUTE p").fetchall()
    con.execute("DELETE FROM visits")
    assert con.execute("EXECUTE p").fetchall() == first
    assert charges(ledger) == 1


# -- arguments -----------------------------------------------------------------------------------


def test_arguments_by_place_are_those_of_the_documentation(con: duckdb.DuckDBPyConnection) -> None:
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


def test_a_table_of_an_open_transaction_is_refused(
    con: duckdb.DuckDBPyConnection, ledger: dp.Ledger
) -> None:
    con.execute("BEGIN")
    con.execute("CREATE TABLE new AS FROM visits")
    assert "uncommitted" in said(con, f"FROM {call('new')}")
    con.execute("ROLLBACK")
    assert charges(ledger) == 0


def test_what_cannot_be_read_is_not_quoted(
    con: duckdb.DuckDBPyConnection, ledger: dp.Ledger
) -> None:
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


def test_columns_of_any_name_are_read(con: duckdb.DuckDBPyConnection) -> None:
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
