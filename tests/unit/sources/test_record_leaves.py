"""Parts of statements: rows grouped as they are stored, and bounds of users in whole numbers."""

from __future__ import annotations

import itertools
from pathlib import Path

import duckdb
import pytest

import dpframe as dp
from dpframe import _duck
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.measures.measure import vectors_of
from dpframe.sources.cell_leaves import record_leaves
from dpframe.sources.rollup_statement import in_preorder, rollup_statement
from dpframe.sources.segment_places import DUCKDB, value_indices, vector_summands

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


ENDS = (0, 1, 7, 2**62, 2**63 - 1, 2**63, 2**64 + 3, 2**126 + 5)


def test_quotients_are_exact_within_64_bits_and_beyond() -> None:
    """Law: rounded towards 0 whatever the sizes are, and NULL of NULL: nothing wraps, and nothing
    is an error, though most are divided in 64 bits."""
    dividends = sorted({sign * a for a in ENDS for sign in (-1, 1)})
    pairs = list(itertools.product([*dividends, None], [*ENDS[1:], None]))
    rows = ", ".join(
        f"({'NULL' if a is None else f'{a}::HUGEINT'}, {'NULL' if b is None else f'{b}::HUGEINT'})"
        for a, b in pairs
    )
    wide = DUCKDB.quotient("a", "b")
    found = duckdb.sql(f"SELECT a, b, {wide} FROM (VALUES {rows}) AS t(a, b)").fetchall()
    assert len(found) == len(pairs)
    for a, b, quotient in found:
        none = a is None or b is None
        assert quotient == (None if none else (-1) ** (a < 0) * (abs(a) // b))


def test_equal_values_are_read_once() -> None:
    """Law: vectors of one column with the same bounds add up one value; other bounds, or a total
    that is cut as a whole, are values of their own."""
    mean, other = dp.mean("x", lower=0, upper=9), dp.mean("x", lower=0, upper=8)
    total = dp.sum("x", lower=0, upper=9)
    vectors = [
        v
        for measure in (mean, mean, other, total, "count")
        for together, _ in vectors_of(
            dp.count() if isinstance(measure, str) else measure, by_user=True
        )
        for v in together
    ]
    assert value_indices(vectors, by_user=True) == [0, 0, 0, 0, 4, 4, 6, 7]
    assert list(vector_summands(vectors, by_user=True)) == ["x0", "x4", "x6"]
    assert value_indices(vectors, by_user=False) == [0, 0, 0, 0, 4, 4, 0, 7]


@pytest.mark.parametrize("invalid", ["count", "drop"])
def test_nodes_are_in_the_order_that_the_database_gives_them(invalid: str) -> None:
    """Law: NULL first, numbers by size, texts by bytes, a node before what is below it."""
    hierarchy = dp.columns("number", "text", "day", invalid=invalid)
    texts = (*TEXTS, "\U0001f600", "\uffff", "a ", "B")
    numbers, days = (*WHOLE, -1, 10, 2**62, -(2**62)), ("2024-01-02", None, "0999-12-31")
    con = duckdb.connect()
    con.execute("CREATE TABLE rows (number BIGINT, text VARCHAR, day DATE)")
    rows = list(itertools.product(numbers, texts, days))
    con.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
    types = ("BIGINT", "VARCHAR", "DATE")
    sql, any_order = (
        rollup_statement(
            hierarchy, PrivacyUnit(), band=1, types=types, seed=1, view="rows", ordered=ordered
        )
        for ordered in (True, False)
    )
    assert "ORDER BY" in sql
    assert "ORDER BY" not in any_order
    mixed = con.sql(f"FROM ({any_order}) ORDER BY hash(t1, t2, t3, level)").to_arrow_table()
    expected = con.sql(sql).to_arrow_table()
    assert mixed != expected
    assert in_preorder(mixed, hierarchy).cast(expected.schema) == expected


def test_groups_by_place_are_the_same_groups(tmp_path: Path) -> None:
    """Law: how DuckDB groups follows from statistics, and changes no number."""
    file = tmp_path / "rows.parquet"
    duckdb.sql(
        "COPY (SELECT (hash(i) % 60)::INTEGER AS a, nullif(hash(i, 1) % 90, 5)::SMALLINT AS b, "
        f"(hash(i, 2) % 1000)::INTEGER AS v FROM range(20000) t(i)) TO '{file}'"
    )
    found, plans = [], []
    for sums in (0, 10**6):
        with _duck.scan(f"read_parquet('{file}')", "rows") as relation:
            relation.group_by_place(sums)
            grouped = "SELECT a, b, count(*) AS n, sum(v) AS v FROM dpframe_source GROUP BY a, b"
            found.append(sorted(map(str, relation.query(grouped, False).to_pylist())))
            plans.append("PERFECT_HASH_GROUP_BY" in relation.operators(grouped))
    assert found[0] == found[1]
    assert plans == [True, False]
