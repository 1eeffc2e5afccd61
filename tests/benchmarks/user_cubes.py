"""Cells of users: how many are shown by shares and by rounds, and how well users are counted.

Run with ``python -m tests.benchmarks.user_cubes [--releases 3] [--only flights]``.
Errors are medians of relative errors of numbers of different users: at finest cells, at the total
and single columns, and at what lies between. ``heavy_hitters`` has the finest cells alone, as
texts, with the whole budget.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import dpframe as dp
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED
from tests.benchmarks.user_rollups import DELTA, EPSILONS, made_up_receipts, median_error

DAYPART = "CASE WHEN hour(ts) < 12 THEN 'am' WHEN hour(ts) < 17 THEN 'pm' ELSE 'eve' END AS daypart"
SETS: dict[str, tuple[str, str, list[str]]] = {
    "flights": ("flights_nyc13", "*", ["origin", "carrier", "dest"]),
    "products": (
        "retail_completejourney",
        f"*, {DAYPART}",
        ["product_category", "brand", "daypart"],
    ),
    "receipts": ("", "*", ["country", "product"]),
}


@cache
def rows_of(name: str) -> pa.Table:
    """Rows with the user, the dimensions, and ``leaf``, a text of all of them."""
    file, columns, names = SETS[name]
    receipts = made_up_receipts()  # noqa: F841  (DuckDB reads it by its name)
    source = f"'{SHARED / file}.parquet'" if file else "receipts"
    known = " AND ".join(f"{column} IS NOT NULL" for column in ("user_id", *names))
    return duckdb.sql(
        f"SELECT user_id, {', '.join(names)}, concat_ws(' / ', {', '.join(names)}) AS leaf "
        f"FROM (SELECT {columns} FROM {source}) WHERE {known}"
    ).to_arrow_table()


@cache
def users_of(name: str) -> dict[tuple[str, ...], int]:
    """The number of different users of every cell."""
    rows, names = rows_of(name), ", ".join(SETS[name][2])  # noqa: F841  (read by DuckDB)
    found = duckdb.sql(f"SELECT {names}, count(DISTINCT user_id) FROM rows GROUP BY CUBE({names})")
    return {tuple("*" if v is None else str(v) for v in key): n for *key, n in found.fetchall()}


def released(name: str, epsilon: float, **way: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many columns each cell has a value of, its number, and its true number of users."""
    names = SETS[name][2]
    frame = dp.hhh(
        rows_of(name),
        dp.cube(names),
        user="user_id",
        epsilon=epsilon,
        delta=DELTA,
        progress=False,
        **way,
    )
    keys = list(zip(*(frame[column].astype(str) for column in names), strict=True))
    depth = np.array([sum(value != "*" for value in key) for key in keys])
    number = frame["count" if "count" in frame else "residual"].to_numpy(dtype=np.float64)
    return depth, number, np.array([users_of(name)[key] for key in keys], dtype=np.float64)


def main(releases: int, only: str | None) -> None:
    bench.head(
        *("set", "epsilon", "shares: finest", "others", "rounds: finest", "others"),
        *("`heavy_hitters`", "error: finest", "between", "single columns"),
    )
    for name in SETS if only is None else [only]:
        width = len(SETS[name][2])
        for epsilon in EPSILONS:
            cells = []
            for way in ("share", None):
                found = [released(name, epsilon, contribution=way) for _ in range(releases)]
                cells.append(f"{np.mean([(d == width).sum() for d, _, _ in found]):.0f}")
                cells.append(f"{np.mean([(d < width).sum() - 1 for d, _, _ in found]):.0f}")
            flat = [
                len(
                    dp.heavy_hitters(
                        rows_of(name), "leaf", user="user_id", epsilon=epsilon, delta=DELTA
                    )
                )
                for _ in range(releases)
            ]
            between = range(2, width)
            errors = [
                [median_error(n[np.isin(d, at)], true[np.isin(d, at)]) for d, n, true in found]
                for at in ([width], [*between], [0, 1])
            ]
            shown = ["" if np.isnan(each).all() else f"{np.nanmean(each):.2f}" for each in errors]
            bench.row(name, f"{epsilon:g}", *cells, f"{np.mean(flat):.0f}", *shown)


if __name__ == "__main__":
    given = bench.options(releases=3, only=tuple(SETS))
    main(given.releases, given.only)
