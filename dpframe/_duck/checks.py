"""What is asked of a connection first: its settings, and what a statement would do."""

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


def check_order(setting: pa.Table) -> None:
    """Raise SourceError where the order of rows is left to chance, or texts count as others."""
    check_collation(setting["collation"][0].as_py())
    if not setting["kept"][0].as_py():
        raise SourceError(
            "the connection reads rows in any order, and a sketch needs that of the table: "
            "SET preserve_insertion_order = true first."
        )


def check_collation(name: str | None) -> None:
    """Raise SourceError for a default collation under which different texts are equal."""
    if name not in (None, "", "binary", "C", "c"):
        raise SourceError(
            "the connection has a default collation, under which texts that differ count as one: "
            "RESET default_collation first."
        )


def operators(ask: Callable[[str], DuckDBPyRelation | None], statement: str) -> set[str]:
    """Of the plan as it is written and as it will run: optimising depends on the data, and can
    hide what the statement does."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        answer = ask(query)
        return answer.fetchall() if answer is not None else []

    ((before, locked),) = rows(
        "SELECT current_setting('explain_output'), current_setting('lock_configuration')"
    )
    both = before.lower() == "all"
    if locked and not both:
        raise SourceError(
            "a sketch needs to see what the source does, and the configuration of the connection "
            "is locked: SET explain_output = 'all' before locking it and pass a relation, or use "
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
        raise SourceError(
            "DuckDB does not say what the source does: use mechanism='offline' of hhh."
        )
    inlined = {"CTE", "CTE_SCAN"}  # unless they are in the plan that runs
    return (_names(plan["logical_plan"]) - inlined) | _names(plan["physical_plan"])


def planned(ask: Callable[[str], DuckDBPyRelation | None], statement: str) -> set[str]:
    """Names of the operators of a plan, as the connection explains it."""
    answer = ask(f"EXPLAIN (FORMAT json) {statement}")
    rows = answer.fetchall() if answer is not None else []
    return set().union(*(_names(plan) for _, plan in rows))


def _names(plan: str) -> set[str]:
    waiting, found = json.loads(plan), set()
    while waiting:
        node = waiting.pop()
        found.add(str(node["name"]))
        if "Sample Method" in node.get("extra_info", {}):  # of a scan that samples by itself
            found.add("SAMPLE")
        waiting.extend(node.get("children", ()))
    return found
