"""Checks of a connection before it is used: its settings, and what a statement would do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyRelation

from dpframe._sql import literal
from dpframe.errors import SourceError

ORDERED = (
    "SELECT current_setting('preserve_insertion_order') AS \"kept\", "
    "current_setting('default_collation') AS \"collation\""
)


def check_row_order(setting: pa.Table) -> None:
    """Raise SourceError if the order of rows is left to chance, or if different texts are equal."""
    check_collation(setting["collation"][0].as_py())
    if not setting["kept"][0].as_py():
        raise SourceError(
            "the connection reads rows in any order, but a sketch needs the table's order. "
            "SET preserve_insertion_order = true first."
        )


def check_collation(name: str | None) -> None:
    """Raise SourceError for a default collation under which different texts are equal."""
    if name not in (None, "", "binary", "C", "c"):
        raise SourceError(
            "the connection has a default collation that makes different texts equal. "
            "RESET default_collation first."
        )


def operators(ask: Callable[[str], DuckDBPyRelation | None], statement: str) -> set[str]:
    """Names of the operators of a plan, as written and as it will run: optimising depends on the
    data, and can hide what the statement does."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        answer = ask(query)
        return answer.fetchall() if answer is not None else []

    ((before, locked),) = rows(
        "SELECT current_setting('explain_output'), current_setting('lock_configuration')"
    )
    both = before.lower() == "all"
    if locked and not both:
        raise SourceError(
            "a sketch cannot see what the source does: the configuration is locked. "
            "SET explain_output = 'all' before locking it and pass a relation, or use "
            "mechanism='offline'."
        )
    if not both:
        rows("SET explain_output = 'all'")
    try:
        plans = rows(f"EXPLAIN (FORMAT json) {statement}")
    finally:
        if not both:
            rows(f"SET explain_output = {literal(before)}")
    plan = dict(plans)
    if not {"logical_plan", "physical_plan"} <= plan.keys():
        raise SourceError("DuckDB does not say what the source does. Use mechanism='offline'.")
    inlined = {"CTE", "CTE_SCAN"}  # unless they are in the plan that runs
    return (_operator_names(plan["logical_plan"]) - inlined) | _operator_names(
        plan["physical_plan"]
    )


def plan_operators(ask: Callable[[str], DuckDBPyRelation | None], statement: str) -> set[str]:
    """Names of the operators of a plan, as the connection explains it."""
    answer = ask(f"EXPLAIN (FORMAT json) {statement}")
    rows = answer.fetchall() if answer is not None else []
    return set().union(*(_operator_names(plan) for _, plan in rows))


def _operator_names(plan: str) -> set[str]:
    waiting, found = json.loads(plan), set()
    while waiting:
        node = waiting.pop()
        found.add(str(node["name"]))
        if "Sample Method" in node.get("extra_info", {}):  # of a scan that samples by itself
            found.add("SAMPLE")
        waiting.extend(node.get("children", ()))
    return found
