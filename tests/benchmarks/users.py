"""Time and peak memory of questions by record and by user beside DuckDB's exact rollup.

Run with ``python -m tests.benchmarks.users [--rows 1e7] [--users 1e6] [--pairs 5] [--only shares]
[--kind text] [--data FOLDER]``. Rows are a Parquet file: three levels of 20, 50 and 100 values,
a user who has ten rows on average (skewed), and an amount; the keys and users are whole numbers or
texts. Every measurement is a process of its own, which makes one call that is not counted and then
one that is. The sides take turns, and ratios are taken turn by turn. Ours and the exact rollup
return a pandas frame of what reaches the threshold, 100 (for items ours takes the smallest that is
private); the rollup counts different users where users count. The least is what nobody can do
without: to read the columns, and to group rows by all levels, or by the user or value.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, Figures

BY = ["a", "b", "c"]
THRESHOLD = 100
KINDS = ("whole", "text")
ROWS = """
    SELECT {a} AS a, {b} AS b, {c} AS c, {u} AS u, round(cents / 100, 2) AS amount FROM (SELECT
    (leaf // 5000)::INTEGER AS a, (leaf // 100 % 50)::INTEGER AS b, (leaf % 100)::INTEGER AS c,
    cents, floor({users} * pow(part, 1.5))::BIGINT AS u FROM (SELECT
    (hash(i, 1) % 100000)::BIGINT AS leaf, (hash(i, 2) % 100000)::DOUBLE AS cents,
    (hash(i, 3) % 1000000007) / 1000000007.0::DOUBLE AS part FROM range({start}, {end}) t(i)))
"""
SPELLINGS = {
    "whole": {name: name for name in [*BY, "u"]},
    "text": {
        "a": "'Country ' || a", "b": "'Category ' || b", "c": "'SKU-' || lpad(c::VARCHAR, 6, '0')",
        "u": "'customer-' || lpad(u::VARCHAR, 9, '0')",
    },
}  # fmt: skip

USERS: dict[str, Any] = {"user": "u"}
AMOUNTS = ("count", "sum(amount, 0, 1000)")
QUESTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "records": ("hhh", {}, "count(*)"),
    "sums": ("rollup", {"measures": (*AMOUNTS, "mean(amount, 0, 1000)")},
             "count(*), sum(amount), avg(amount)"),
    "shares": ("hhh", {**USERS, "contribution": "share"}, "count(DISTINCT u)"),
    "items": ("hhh", {**USERS, "contribution": "items", "threshold": None}, "count(DISTINCT u)"),
    "distinct": ("rollup", {"measures": ("count", "distinct(u)")}, "count(*), count(DISTINCT u)"),
    "sums by user": ("rollup", {**USERS, "measures": AMOUNTS}, "count(DISTINCT u), sum(amount)"),
}  # fmt: skip


def write_rows(kind: str, users: int, start: int, end: int, file: Path) -> Path:
    query = ROWS.format(users=users, start=start, end=end, **SPELLINGS[kind])
    return bench.write_rows(query, file)


def ours(question: str, file: str, warm: bool = True) -> Figures:
    import dpframe as dp

    asked, given, _ = QUESTIONS[question]

    def ask() -> Any:
        return getattr(dp, asked)(file, BY, **{"threshold": THRESHOLD, **given, **BUDGET})

    if warm:
        ask()
    return bench.timed(ask)


def exact(question: str, file: str, warm: bool = True) -> Figures:
    levels, shown = ", ".join(BY), QUESTIONS[question][2]
    query = (
        f"SELECT {levels}, {shown} FROM '{file}' GROUP BY ROLLUP ({levels}) "
        f"HAVING {shown.split(', ')[0]} >= {THRESHOLD}"
    )
    return again(query, warm)


def least(question: str, file: str) -> Figures:
    keys = ", ".join(BY)
    by, read = (keys, "count(*)") if question in ("records", "sums") else ("u", f"hash({keys})")
    made = [read if by == keys else f"bit_xor({read})"]
    made += ["sum(amount)"] if question.startswith("sums") else []
    groups = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(made))
    return again(f"SELECT max(COLUMNS(*)) FROM (SELECT {groups} FROM '{file}' GROUP BY {by})")


def again(query: str, warm: bool = True) -> Figures:
    import duckdb

    connection = duckdb.connect()
    if warm:
        connection.sql(query).df()
    return bench.timed(lambda: connection.sql(query).df())


def main() -> None:
    given = bench.options(
        rows=10_000_000, users=1_000_000, pairs=5, only=tuple(QUESTIONS), kind=KINDS, data=""
    )
    bench.compared_head()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given.data or made)  # a folder that keeps the rows
        for kind in [given.kind] if given.kind else KINDS:
            file = folder / f"{kind}-{given.rows}.parquet"
            if not file.exists():
                write_rows(kind, given.users, 0, given.rows, file)
            for question in [given.only] if given.only else QUESTIONS:
                sides = {side.__name__: (side, question, file) for side in (ours, exact, least)}
                runs = bench.in_turns(sides, given.pairs, uncounted=0)
                bench.compared(f"{question}, {kind}", runs, "exact")


if __name__ == "__main__":
    main()
