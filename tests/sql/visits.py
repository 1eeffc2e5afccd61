"""Rows whose heavy hitters no noise can hide, and SQL that asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import duckdb

import dpframe as dp

VISITS = """
SELECT '10.0.0.' || i % 3 AS src, 'u' || i % 90 AS who, 'v' || i % 3 AS k, i % 3 AS n
FROM range(900) r(i)
"""
"""Three values with 300 records each: ten times the smallest threshold."""

BUDGET = "epsilon := 1.0, delta := 1e-6"

Con = duckdb.DuckDBPyConnection

Lasting = tuple[Con, dp.Ledger]
"""A registered connection and its ledger, for the calls of a module that change nothing."""

HHH = f"dp_hhh('visits', 'columns:k', {BUDGET})"

OTHERS = {
    "dp_prefix_tree": '(SELECT 1::BIGINT AS level, k AS prefix, k, "count" FROM '
    "dp_prefix_tree('visits', 'k', 10.0, 1e-6, 'who', mechanism := 'laplace', "
    "alphabet := 'v012', length := 9))",
    "dp_synthesize": "(SELECT 1::BIGINT AS level, 'v' || n AS prefix, prefix AS k, n AS \"count\" "
    "FROM dp_synthesize('visits', 'number:n?lower=0&upper=4', 9, epsilon := 1.0, k := 4, "
    "width := 16))",
    "dp_tree_counts, found": f"dp_tree_counts('visits', 'columns:k', {BUDGET})",
    "dp_tree_counts, listed": "dp_tree_counts('visits', 'columns:k', epsilon := 1, keys := ['v0'])",
}
"""Calls of macros that run as ``dp_hhh`` does, with its columns."""

LABELS = ["*", "v0", "v1", "v2"]
"""What ``HHH`` reports, whatever is drawn."""


def hhh(tbl: str | None = "visits", hierarchy: str = "columns:k", /, **named: Any) -> str:
    """A call as SQL text, every argument a literal."""
    given = {"tbl": tbl, "hierarchy": hierarchy, "epsilon": 1.0, "delta": 1e-6, **named}
    return f"dp_hhh({', '.join(f'{k} := {literal(v)}' for k, v in given.items())})"


def literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def labels(con: Con, call: str = HHH) -> list[str]:
    return [row[0] for row in con.execute(f"SELECT prefix FROM {call}").fetchall()]


def charges(ledger: dp.Ledger) -> int:
    return len(ledger.releases())


def said(con: Con, statement: str) -> str:
    try:
        con.execute(statement).fetchall()
    except duckdb.Error as error:
        return " ".join(str(error).split())
    raise AssertionError(f"no error: {statement}")


def said_by_python(call: Callable[[], object]) -> str:
    """The error of a call, as SQL words it, on one line."""
    try:
        call()
    except dp.DpframeError as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    raise AssertionError("no error")
