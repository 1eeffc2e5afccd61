"""Time and peak memory of ``dp.hhh`` a row, from 1e4 to 1e9 rows and from 1 to 1e8 leaves.

Run with ``python -m tests.benchmarks.scale FOLDER [--rows 1e4,1e6,1e8] [--leaves 1,1e4,1e6,1e8]
[--runs 3]``. Four whole-number columns, the digits to the base 100 of a leaf that is drawn
uniformly; threshold 500. Every measurement is a process of its own, as in
:mod:`tests.benchmarks.speed`; medians of the runs. DuckDB's exact rollup stands beside it.

With ``--users`` the rows and questions are those of :mod:`tests.benchmarks.users`, a tenth as many
users as rows, and numbers of rows alone are varied. From 1e9 rows on each call is made once.
"""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import bench, users
from tests.benchmarks.bench import LEVELS, Runs
from tests.benchmarks.speed import ours, rollup

PART = 100_000_000
THRESHOLD = 500
ROW = """
    SELECT (leaf // 1000000)::INTEGER AS a, (leaf // 10000 % 100)::INTEGER AS b,
    (leaf // 100 % 100)::INTEGER AS c, (leaf % 100)::INTEGER AS d
    FROM (SELECT (hash(i, 7) % {leaves})::BIGINT AS leaf FROM range({start}, {end}) t(i))
"""

LARGE = 1_000_000_000
"""Rows from which on nothing is warmed up."""

QUESTIONS = ("shares", "items", "distinct", "sums by user")


def told(rows: int, of: str, runs: Runs) -> None:
    """A row of the table, of ours and of the exact rollup."""
    (seconds, mb), (exact, beside) = (
        (bench.middle(each, "seconds"), bench.middle(each, "mb")) for each in runs.values()
    )
    cells = (f"{seconds:.3g}", f"{seconds / rows * 1e9:.3g}", f"{mb:.0f}")
    bench.row(f"{rows:.0e}", of, *cells, f"{exact:.3g}", f"{beside:.0f}")


def of_users(folder: Path, sizes: list[int], runs: int) -> None:
    for rows in sizes:
        for start in range(0, rows, PART):
            part = folder / f"part{start // PART:03}.parquet"
            users.write_rows("whole", rows // 10, start, min(rows, start + PART), part)
        for question in QUESTIONS:
            asked = (question, folder / "part*.parquet", rows < LARGE)
            sides = {"ours": (users.ours, *asked), "exact": (users.exact, *asked)}
            told(rows, question, bench.in_turns(sides, runs, uncounted=0))
        for file in folder.glob("part*.parquet"):
            file.unlink()


def main() -> None:
    given = bench.options(
        folder=Path, rows="1e4,1e6,1e8", leaves="1,1e4,1e6,1e8", runs=3, users=False
    )
    given.folder.mkdir(parents=True, exist_ok=True)
    tiny = bench.write_rows(bench.workload(1000), given.folder / "tiny.parquet")
    of = "question" if given.users else "leaves"
    bench.head("rows", of, "seconds", "ns a row", "MB", "exact: seconds", "MB")
    several, each = (
        [int(float(n)) for n in text.split(",")] for text in (given.rows, given.leaves)
    )
    if given.users:
        of_users(given.folder, several, given.runs)
        return
    for rows, leaves in ((rows, leaves) for rows in several for leaves in each):
        if leaves > rows:
            continue
        for start in range(0, rows, PART):
            part = ROW.format(leaves=leaves, start=start, end=min(rows, start + PART))
            bench.write_rows(part, given.folder / f"part{start // PART:03}.parquet")
        asked = (given.folder / "part*.parquet", LEVELS, THRESHOLD, tiny)
        sides = {"hhh": (ours, "hhh", *asked), "exact": (rollup, *asked)}
        told(rows, f"{leaves:.0e}", bench.in_turns(sides, given.runs, uncounted=0))
        for file in given.folder.glob("part*.parquet"):
            file.unlink()


if __name__ == "__main__":
    main()
