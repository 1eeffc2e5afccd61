"""How much of a statement is done. DuckDB weighs its steps by the rows that it expects of them, and
expects of a grouping about as many as it reads: a rollup that has read all says 6 %."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

READING = 0.9
"""What the steps before any grouping take of the whole, about."""

BREAKS = ("GROUP_BY", "AGGREGATE", "ORDER_BY", "WINDOW", "TOP_N", "DISTINCT")
"""Parts of names of operators that are read again when all rows have come."""

GROUPS = ("GROUP_BY", "AGGREGATE", "DISTINCT", "CTE_SCAN")


def share_of_reading(cursor: DuckDBPyConnection, statement: str) -> float:
    """The share that DuckDB will report when a statement is at its first grouping; 1 if unknown."""
    try:
        rows = cursor.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()
        steps = [step for root in json.loads(rows[-1][1]) for step in _plan_steps(root)]
        before = sum(weight for weight, grouped in steps if not grouped)
        return before / sum(weight for weight, _ in steps)
    except (duckdb.Error, ValueError, LookupError, TypeError, ArithmeticError):
        return 1.0  # another version's plan: DuckDB's percentage is shown as it is


def percent_done(said: Callable[[], float], reading: float) -> Callable[[], float]:
    """A function of what is done, in percent, from what DuckDB says, in percent."""

    def done() -> float:
        part = max(0.0, said()) / 100
        if reading >= 1 or reading <= 0:
            return 100 * part
        after = max(0.0, part - reading) / (1 - reading)
        return 100 * (READING * min(1.0, part / reading) + (1 - READING) * after)

    return done


def _plan_steps(node: dict[str, Any]) -> Iterator[tuple[int, bool]]:
    """Weights of what DuckDB counts as steps, and whether they come after a grouping."""
    children = node["children"]
    if not children or any(name in node["name"] for name in BREAKS):
        told = int(node["extra_info"].get("Estimated Cardinality") or 1)
        yield max(1, told), _follows_grouping(node)
    for child in children:
        yield from _plan_steps(child)


def _follows_grouping(node: dict[str, Any]) -> bool:
    return any(name in node["name"] for name in GROUPS) or any(
        map(_follows_grouping, node["children"])
    )
