"""Rows that are grouped as they are stored, before keys are made of them."""

from __future__ import annotations

import itertools

import duckdb
import pytest

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.cell_leaves import record_leaves
from dpframe.sources.rollup_statement import rollup_statement

TEXTS, WHOLE = ("", None, "a", "A", " ", "é"), (0, None, 7)


@pytest.mark.parametrize("invalid", ["count", "drop"])
def test_values_with_one_key_meet_again(invalid: str) -> None:
    """Law: NULL and empty text are one node with the counts of both, beside whole numbers, too;
    all other texts stand as they are, each once."""
    hierarchy = dp.columns("text", "number", invalid=invalid)
    rows = [
        pair for times, pair in enumerate(itertools.product(TEXTS, WHOLE), 1) for _ in range(times)
    ]
    con = duckdb.connect()
    con.execute("CREATE TABLE rows (text VARCHAR, number INTEGER)")
    con.executemany("INSERT INTO rows VALUES (?, ?)", rows)
    statement = rollup_statement(
        hierarchy, PrivacyUnit(), band=1, types=("VARCHAR", "INTEGER"), seed=1, view="rows"
    )
    found = {
        (text, number): n
        for level, n, text, number in con.execute(statement).fetchall()
        if level == 2
    }
    expected: dict[tuple[str | None, int | None], int] = {}
    for text, number in rows:
        key = (text or None, number)
        if invalid == "count" or None not in key:
            expected[key] = expected.get(key, 0) + 1
    assert found == expected


@pytest.mark.parametrize(
    ("hierarchy", "types", "first"),
    [
        (dp.columns("a", "b"), ("VARCHAR", "VARCHAR"), True),
        (dp.columns("a", "b"), ("VARCHAR", "DATE"), True),
        (dp.columns("a", "b"), ("BIGINT", "INTEGER"), False),
        (dp.columns("a", "b"), ("VARCHAR", "DOUBLE"), False),
        (dp.columns("a", "b"), ("VARCHAR", "INTERVAL"), False),
    ],
)
def test_types_alone_decide(hierarchy: Hierarchy, types: tuple[str, ...], first: bool) -> None:
    """Law: values are grouped first where that says their keys and some are texts; whole numbers
    are keys already, and other types have one key for several values, or several for equal ones."""
    parts = record_leaves(hierarchy, PrivacyUnit(), types, 1)
    assert parts[0].startswith("texts AS") == first
