"""Different users at the nodes of a hierarchy, beside shares.

Run with ``python -m tests.benchmarks.node_users [--repeats 3]``.

How many nodes are shown, and how far their numbers are from the numbers of different users, for
several ``at_most``; and of listed nodes. Reads ``../shared/data`` and skips what is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import dpframe as dp
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED

SETS: Mapping[str, tuple[str, Any]] = {
    "paths of Rails, 4 levels": ("git_paths_rails", "path:path?depth=4"),
    "products, 3 levels": (
        "retail_completejourney",
        ["department", "product_category", "product_type"],
    ),
    "flights, airline and destination": ("flights_nyc13", ["carrier", "dest"]),
}

AT_MOST = (1, 2, 4, 8, 16, 32, 64)


def exact(rows: pd.DataFrame, hierarchy: Any) -> dict[tuple[int, str], int]:
    """Different users at every node, by a bound that nobody reaches and no noise."""
    from dpframe.budget import NodesUnit
    from dpframe.hierarchy import as_hierarchy
    from dpframe.sources.exact_trees import node_users

    levels = as_hierarchy(hierarchy)
    unit = NodesUnit(user="user_id", contribution="items", at_most=10**6)
    tree = node_users(rows, levels, unit, 1)
    texts = tuple(key.cast("string") for key in tree.keys)
    labels = levels.labels(tree.level, texts).to_pylist()
    return dict(
        zip(zip(tree.level.tolist(), labels, strict=True), tree.count.tolist(), strict=True)
    )


def errors(frame: pd.DataFrame, truth: dict[tuple[int, str], int]) -> tuple[int, float, float]:
    """Nodes shown below the total, the root of the mean squared error of their numbers, and their
    mean error."""
    below = frame[frame["level"] > 0]
    true = [truth[key] for key in zip(below["level"], below["prefix"], strict=True)]
    off = below["count"].to_numpy() - np.array(true, dtype=float)
    return len(below), float(np.sqrt((off**2).mean())), float(off.mean())


def main() -> None:
    given = bench.options(repeats=3)
    names = ("threshold", "nodes shown", "root mean squared error", "mean error")
    bench.head("set", "epsilon", "way", *names)
    for name, (file, hierarchy) in SETS.items():
        path = SHARED / f"{file}.parquet"
        if not path.exists():
            print(f"{name}: {path} is not there")
            continue
        rows = pd.read_parquet(path)
        rows = rows[rows["user_id"].notna()]
        truth = exact(rows, hierarchy)
        for epsilon in (1.0, 5.0):
            asked: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "user": "user_id"}
            ways: dict[str, dict[str, Any]] = {"shares": {"contribution": "share"}}
            ways |= {f"at_most {n}": {"contribution": "items", "at_most": n} for n in AT_MOST}
            for way, more in ways.items():
                all_of = [
                    errors(dp.hhh(rows, hierarchy, **asked, **more), truth)
                    for _ in range(given.repeats)
                ]
                shown, rmse, mean = np.mean(all_of, axis=0)
                least = dp.explain(hierarchy, **asked, **more).plan.threshold
                numbers = [f"{number:.0f}" for number in (least, shown, rmse, mean)]
                bench.row(name, f"{epsilon:g}", way, *numbers)


if __name__ == "__main__":
    main()
