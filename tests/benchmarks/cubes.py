"""Cells of several hierarchies: what noise costs, what is found, and how long it takes.

Run with ``python -m tests.benchmarks.cubes [--speed] [--rows 1e7] [--only git|cube|pairs]
[--draws 100]``.

*Found*: real pairs in ``../shared/data``, at epsilon 1 and delta 1e-6, beside Gaussian histograms
of the same kinds of cells, composed exactly (``accounting.losses``). What is right is what the same
kinds report without noise. The histograms are given more than they could have: which records of a
reported cell lie in another one, which no histogram tells; and a count less than ``LEAST`` is
never released. Errors are of residuals, over all cells that are right or reported, 0 where one is
missing: the mean of how far they are off, and the median. All are means of several releases.

*Speed*: addresses of IPv4, five levels each with the total, beside DuckDB's exact GROUPING SETS of
the same kinds over the distinct pairs, which is the fastest exact statement that we found; and a
cube of three columns beside GROUP BY CUBE. As in ``tests.benchmarks.speed`` every measurement is a
process of its own, both sides read the same file, return what reaches the same threshold as a
pandas frame and are timed after a call on a tiny file, they take turns, and ratios are taken pair
by pair.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import dpframe as dp
from dpframe.accounting.losses import level_laws
from dpframe.budget import PrivacyUnit
from dpframe.counts import Counts
from dpframe.mechanisms import offline_hhh
from dpframe.questions.hhh.plan import CellsPlan
from dpframe.sources.exact_trees import exact_counts
from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, SHARED, Figures
from tests.rollups import Silent

THRESHOLDS = (50, 200, 1000)
DAYS = "levels=year,quarter,month,day"
PAIRS = {
    "git_paths_rails": f"path:path?depth=4 * date:date?{DAYS}",
    "flights_nyc13": "columns:origin,dest * carrier",
    "dns_zeek_wrccdc": "ip:orig_ip?version=4 * domain:query?depth=4",
    "tor_relays_daily": f"ip:ip?version=4 * date:date?{DAYS}",
}
LEAST = 40
"""Whole counts below this are not looked at for the histograms, which is in their favour."""

OF_MANY = {"tor_relays_daily": 5}
"""Releases of each side, of which means are taken: at most so many of a table with many cells."""

Reported = dict[tuple[int, ...], int]


def named(kind: Any, nodes: Any, residual: Any) -> Reported:
    """Cells with their residuals, without the total."""
    rows = zip(kind.tolist(), nodes.tolist(), residual.tolist(), strict=True)
    return {(k, *cell): n for k, cell, n in rows if any(cell)}


def right(counts: Counts, plan: CellsPlan, threshold: int) -> Reported:
    """What is reported without noise."""
    return named(*selected(counts, plan, Silent(), threshold, band=threshold))


def ours(counts: Counts, plan: CellsPlan, threshold: int) -> Reported:
    kind, nodes, residual = selected(counts, plan, plan.test_noise, threshold, band=plan.band)
    return named(kind, nodes, residual + plan.count_noise.draw(len(residual)))


def selected(counts: Counts, plan: CellsPlan, test: Any, threshold: int, *, band: int) -> Any:
    return offline_hhh.select(
        counts,
        kinds=plan.hierarchy.kind_order,
        test=test,
        threshold=threshold,
        remainder=True,
        band=band,
    )


def histograms(
    counts: Counts, plan: CellsPlan, threshold: int, *, sd: float, least: int, seed: int
) -> Reported:
    """Noisy counts of all cells of all kinds that reach ``least``, and of those what reaches the
    threshold, finest first: what is left of a cell is its count less those of the reported cells in
    it, the topmost ones, each with noise of its own."""
    rng, found = np.random.default_rng(seed), Reported()
    free = np.ones(len(counts.own_counts), dtype=np.bool_)
    owner, owners = np.full(len(counts.own_counts), -1), 0
    kinds = plan.hierarchy.kind_order
    ables = offline_hhh._groups_at_band(counts, kinds, LEAST)
    for place, (kind, able) in enumerate(zip(kinds, ables, strict=True)):
        groups = np.flatnonzero(able)
        code, _ = offline_hhh._cell_numbers(counts, kind, groups)
        different, cell = np.unique(code, return_inverse=True)
        number = len(different)
        whole = offline_hhh._records_by_cell(counts, groups, cell, number)
        nodes, _ = offline_hhh._nodes_and_groups(
            counts, kind, groups, cell, np.arange(number), number
        )
        left, inside = np.zeros_like(whole), np.zeros_like(whole)
        np.add.at(left, cell[free[groups]], counts.own_counts[groups[free[groups]]])
        owned = owner[groups] >= 0
        pairs = np.unique(cell[owned] * (owners + 1) + owner[groups[owned]])
        np.add.at(inside, pairs // (owners + 1), 1)
        noise = rng.normal(0, sd, len(whole))
        after = left + np.rint(noise + rng.normal(0, 1, len(whole)) * sd * np.sqrt(inside))
        top = (whole + noise >= least) & (after >= threshold)
        found |= named(np.full(int(top.sum()), place), nodes[top], after[top].astype(np.int64))
        free[groups[top[cell]]] = False
        owner[groups[top[cell]]] = owners + cell[top[cell]]
        owners += len(whole)
    return found


def scores(truth: Reported, found: Reported) -> dict[str, float]:
    both = truth.keys() & found.keys()
    apart = [truth.get(cell, 0) - found.get(cell, 0) for cell in truth.keys() | found.keys()]
    return {
        "reported": len(found),
        "precision": len(both) / max(1, len(found)),
        "recall": len(both) / max(1, len(truth)),
        "error": float(np.mean(np.abs(apart))) if apart else 0.0,
        "median": float(np.median(np.abs(apart))) if apart else 0.0,
    }


def plan_of(asked: str, threshold: int | None) -> CellsPlan:
    plan = dp.explain(asked, threshold=threshold, **BUDGET).plan
    assert isinstance(plan, CellsPlan)
    return plan


def accuracy(name: str, draws: int) -> None:
    asked = PAIRS[name]
    plans = {threshold: plan_of(asked, threshold) for threshold in THRESHOLDS}
    cells = plans[THRESHOLDS[0]].hierarchy
    laws = level_laws("gaussian", levels=cells.height, **BUDGET)
    band = min(LEAST, *(plan.band for plan in plans.values()))
    draws = min(draws, OF_MANY.get(name, draws))
    rows = duckdb.connect().sql(f"FROM '{SHARED / name}.parquet'")
    counts = exact_counts(rows, cells, PrivacyUnit(), band)
    print(f"\n{name}: {asked}, {cells.height} kinds; histograms sd {laws.noise.sd:.1f}, from "
          f"{laws.threshold} on")  # fmt: skip
    for threshold, plan in plans.items():
        truth = right(counts, plan, threshold)
        given: dict[str, Any] = {"sd": laws.noise.sd, "least": max(threshold, laws.threshold)}
        one = [scores(truth, ours(counts, plan, threshold)) for _ in range(draws)]
        other = [
            scores(truth, histograms(counts, plan, threshold, seed=seed, **given))
            for seed in range(draws)
        ]
        print(f"  threshold {threshold}: {len(truth)} right")
        for who, rows in (("ours", one), ("histograms", other)):
            means = {key: np.mean([row[key] for row in rows]) for key in rows[0]}
            shown = ", ".join(f"{key} {value:.4g}" for key, value in means.items())
            print(f"    {who:10} {shown}")


# -- speed -----------------------------------------------------------------------------------------

PART = "(random() * random() * {})::INT"


def write_pairs(rows: int, file: Path) -> Path:
    src = ", ".join(["10", *(PART.format(n) for n in (200, 200, 100))])
    dst = ", ".join(["192", *(PART.format(n) for n in (100, 50, 60))])
    duckdb.execute("SELECT setseed(0.5)").fetchall()
    return bench.write_rows(
        f"SELECT concat_ws('.', {src}) AS src, concat_ws('.', {dst}) AS dst, "
        f"'c' || {PART.format(90)} AS country, 'p' || {PART.format(900)} AS product, "
        f"'h' || {PART.format(9)} AS channel FROM range({rows})",
        file,
    )


def exact_pairs(path: str, threshold: int) -> str:
    def levels(column: str, name: str) -> list[str]:
        parts = [f"split_part({column}, '.', {i})" for i in (1, 2, 3)]
        return [
            *(f"concat_ws('.', {', '.join(parts[:n])}) AS {name}{n}" for n in (1, 2, 3)),
            f"{column} AS {name}4",
        ]

    sets = [
        f"({', '.join([*(f's{k}' for k in range(1, i + 1)), *(f'd{k}' for k in range(1, j + 1))])})"
        for i in range(5)
        for j in range(5)
        if i + j
    ]
    columns = ", ".join([*levels("src", "s"), *levels("dst", "d")])
    names = ", ".join(f"{name}{i}" for name in "sd" for i in (1, 2, 3, 4))
    return (
        f"WITH pairs AS MATERIALIZED (SELECT src, dst, count(*) AS n FROM '{path}' GROUP BY ALL), "
        f"keyed AS (SELECT {columns}, n FROM pairs) SELECT {names}, sum(n)::BIGINT AS n FROM keyed "
        f"GROUP BY GROUPING SETS ({', '.join(sets)}) HAVING sum(n) >= {threshold}"
    )


def exact_cube(path: str, threshold: int) -> str:
    columns = "country, product, channel"
    return (
        f"SELECT {columns}, count(*) AS n FROM '{path}' GROUP BY CUBE ({columns}) "
        f"HAVING count(*) >= {threshold}"
    )


ADDRESSES, CUBE = "ip:src?version=4 * ip:dst?version=4", "country * product * channel"
JOBS: dict[str, tuple[str, int | None, Callable[[str, int], str], int]] = {
    "cube, threshold 200": (CUBE, 200, exact_cube, 5),
    "cube, smallest": (CUBE, None, exact_cube, 5),
    "pairs, threshold 200": (ADDRESSES, 200, exact_pairs, 2),
    "pairs, smallest": (ADDRESSES, None, exact_pairs, 2),
}
"""What is asked, its threshold, the exact statement, and how many pairs of processes."""


def measure(side: str, job: str, path: str, tiny: str) -> Figures:
    """A call on a file, after one on a tiny file, which plans and loads what it needs."""
    hierarchy, threshold, exact, _ = JOBS[job]
    connection = duckdb.connect()
    same = threshold or int(plan_of(hierarchy, None).threshold)

    def ask(file: str) -> Any:
        if side == "exact":
            return connection.sql(exact(file, same)).df()
        return dp.hhh(file, hierarchy, progress=False, threshold=threshold, **BUDGET)

    ask(tiny)
    return bench.timed(lambda: ask(path))


def speed(rows: int, only: str) -> None:
    bench.compared_head()
    with tempfile.TemporaryDirectory() as folder:
        path, tiny = (write_pairs(n, Path(folder, f"{n}.parquet")) for n in (max(rows, 1001), 1000))
        for job in [job for job in JOBS if only in job]:
            sides = {side: (measure, side, job, path, tiny)
                     for side in ("exact", "ours")}  # fmt: skip
            bench.compared(job, bench.in_turns(sides, JOBS[job][3], uncounted=0), "exact")


def main() -> None:
    given = bench.options(speed=False, rows=10_000_000, only="", draws=100)
    if given.speed:
        speed(given.rows, given.only)
        return
    plan = plan_of(ADDRESSES, None)
    print(f"5 x 5 levels: threshold {plan.threshold}, residuals sd {plan.count_noise.sd:.2f}")
    for name in PAIRS:
        if given.only in name:
            accuracy(name, given.draws)


if __name__ == "__main__":
    main()
