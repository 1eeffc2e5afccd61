"""Rollups of users: what is shown, and how well it is measured.

Run with ``python -m tests.benchmarks.user_rollups [--releases 3] [--only receipts]``.
Every release counts users and adds up one column whose bound is found privately. Beside it: the
rollup by shares; ``heavy_hitters`` of the finest keys alone, with the same part of the budget for
the selection; and a sum with one L1 bound of a user and Laplace noise of the same part of epsilon,
on the same finest nodes, whose best bound of all powers of two is told for free. Errors are medians
of relative errors at the finest nodes that are shown.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpframe as dp
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED

SETS: dict[str, tuple[str, list[str], str]] = {
    "receipts": ("", ["country", "product"], "amount"),
    "products": (
        "retail_completejourney",
        ["department", "product_category", "product_type"],
        "sales_value",
    ),
    "flights": ("flights_nyc13", ["carrier", "dest", "flight"], "air_time"),
    "paths": ("git_paths_rails", ["path"], "1"),
    "pages": ("weblog_apache_elastic", ["path"], "bytes / 1000"),
    "words": ("git_words_rails", ["word"], "1"),
}
EPSILONS = (0.3, 1.0, 3.0, 10.0)
DELTA, SHARE = 1e-6, 0.5


def made_up_receipts() -> pa.Table:
    """Receipts as of a wholesaler of gifts: 4,338 customers in ten countries, nine of ten in the
    first one; 1,497 pairs of a country and a product have 50 customers, 808 have 100."""
    draw = np.random.default_rng(0)
    users, products, named = (
        4338,
        2900,
        ["UK", "DE", "FR", "ES", "BE", "CH", "PT", "IT", "FI", "AT"],
    )
    bought = np.clip(np.rint(np.exp(draw.normal(np.log(36), 1.05, users))), 1, 1800).astype(int)
    liked = -2.2 * np.log(np.arange(products) + 1000.0)
    part = [0.903, 0.022, 0.02, 0.0075, 0.0058, 0.005, 0.0044, 0.0085, 0.0118, 0.012]
    country = draw.choice(named, users, p=part)
    size, price = np.exp(draw.normal(0, 0.8, users)), np.exp(draw.normal(0, 0.6, products))
    who, what = [], []
    for user, number in enumerate(bought.tolist()):
        chosen = np.argpartition(-(liked + draw.gumbel(size=products)), number)[:number]
        times = np.minimum(draw.geometric(0.6, size=number), 30)
        what.append(np.repeat(chosen, times))
        who.append(np.full(len(what[-1]), user))
    u, p = np.concatenate(who), np.concatenate(what)
    amount = np.round(12 * size[u] * price[p] * np.exp(draw.normal(0, 0.9, len(u))), 2)
    texts = np.char.add("p", p.astype(str))
    return pa.table({"user_id": u, "country": country[u], "product": texts, "amount": amount})


@cache
def rows_of(name: str) -> pa.Table:
    """Rows with the user, the levels, the ``value`` that is added up, and ``leaf``, a text."""
    file, named, value = SETS[name]
    receipts = made_up_receipts()  # noqa: F841  (DuckDB reads it by its name)
    source = f"'{SHARED / file}.parquet'" if file else "receipts"
    keys = ", ".join(f"ltrim(coalesce({column}::VARCHAR, chr(0)), '/')" for column in named)
    return duckdb.sql(
        f"SELECT *, ({value})::DOUBLE AS value, concat_ws(' / ', {keys}) AS leaf FROM {source} "
        "WHERE user_id IS NOT NULL"
    ).to_arrow_table()


@cache
def sums_of_users(name: str) -> dict[str, NDArray[np.float64]]:
    """What every user has at every finest key."""
    rows = rows_of(name)  # noqa: F841  (DuckDB reads it by its name)
    found = duckdb.sql(
        "SELECT leaf, list(greatest(coalesce(x, 0), 0) ORDER BY u) AS x, list(u ORDER BY u) AS u "
        "FROM (SELECT leaf, dense_rank() OVER (ORDER BY user_id) - 1 AS u, x FROM (SELECT leaf, "
        "user_id, sum(value) AS x FROM rows GROUP BY ALL)) GROUP BY leaf"
    ).fetchall()
    return {leaf: np.array([u, x], dtype=np.float64) for leaf, x, u in found}


def rollup_rows(name: str, epsilon: float, **way: Any) -> tuple[Any, Any, NDArray[np.object_]]:
    """A release, which of its rows are finest nodes, and the texts of their keys."""
    named = SETS[name][1]
    flat = len(named) == 1
    frame = dp.rollup(
        rows_of(name),
        f"path:{named[0]}" if flat and named[0] == "path" else named,
        {"users": "count", "total": dp.sum("value", lower=0, upper="auto")},
        epsilon=epsilon,
        delta=DELTA,
        user="user_id",
        progress=False,
        **way,
    )
    if named[0] == "path":
        texts = np.asarray(frame["prefix"].astype(object))
        finest = np.array([text in sums_of_users(name) for text in texts])
        return frame, finest, texts
    keys = frame[named].astype(object).where(frame[named].notna(), "\0").to_numpy()
    texts = np.array([" / ".join(map(str, row)) for row in keys], dtype=object)
    return frame, frame["level"].to_numpy() == len(named), texts


def median_error(shown: Any, true: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(np.asarray(shown) - true) / true)) if len(true) else np.nan


def best_l1_error(pairs: list[NDArray[np.float64]], epsilon: float) -> float:
    """The median error of sums with one L1 bound of a user, for the best power of two."""
    if not pairs:
        return np.nan
    user = np.concatenate([u for u, _ in pairs]).astype(np.int64)
    value = np.concatenate([x for _, x in pairs])
    node = np.repeat(np.arange(len(pairs)), [p.shape[1] for p in pairs])
    whole, true = np.bincount(user, value), np.bincount(node, value)
    noise = np.random.default_rng(0).laplace(size=len(pairs))
    errors = []
    for bound in 2.0 ** np.arange(-10, 40):
        cut = value * np.minimum(1, bound / np.maximum(whole[user], 1e-12))
        shown = np.bincount(node, cut) + noise * bound / (epsilon * SHARE / 2)
        errors.append(median_error(shown, np.maximum(true, 1e-9)))
    return min(errors)


def main(releases: int, only: str | None) -> None:
    bench.head(
        *("set", "epsilon", "shares: finest", "above", "rounds: finest", "above"),
        *("heavy_hitters", "error of sums", "one L1 bound, best", "error of counts"),
    )
    for name in SETS if only is None else [only]:
        truth = sums_of_users(name)
        for epsilon in EPSILONS:
            cells = []
            for way in ("share", "items"):
                found = [rollup_rows(name, epsilon, contribution=way) for _ in range(releases)]
                cells.append(f"{np.mean([finest.sum() for _, finest, _ in found]):.0f}")
                cells.append(f"{np.mean([(~finest).sum() - 1 for _, finest, _ in found]):.0f}")
            sums, counts, bests = [], [], []
            for frame, finest, texts in found:
                here = [i for i in np.flatnonzero(finest) if texts[i] in truth]
                pairs = [truth[texts[i]] for i in here]
                nested = name in ("paths", "pages")  # a key can be above others, and has theirs
                true = np.array([x.sum() for _, x in pairs])
                if not nested:
                    sums.append(median_error(frame["total"].to_numpy()[here], true))
                    many = np.array([float(p.shape[1]) for p in pairs])
                    counts.append(median_error(frame["users"].to_numpy()[here], many))
                    bests.append(best_l1_error(pairs, epsilon))
            flat = [
                len(
                    dp.heavy_hitters(
                        *(rows_of(name), "leaf"),
                        user="user_id",
                        epsilon=epsilon,
                        delta=DELTA,
                        release_share=SHARE,
                    )
                )
                for _ in range(releases)
            ]
            errors = [f"{np.mean(each):.2f}" if each else "" for each in (sums, bests, counts)]
            bench.row(name, f"{epsilon:g}", *cells, f"{np.mean(flat):.0f}", *errors)


if __name__ == "__main__":
    given = bench.options(releases=3, only=tuple(SETS))
    main(given.releases, given.only)
