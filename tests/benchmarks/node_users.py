"""Different users, and different values that users have, at the nodes of a hierarchy.

Run with ``python -m tests.benchmarks.node_users [--repeats 3]``.

How many nodes are shown, and how far their numbers are from the numbers of different users, for
several ``at_most``, beside shares. Before that, how many values of a column are counted at the
nodes that a rollup shows: of a sample of each user's values, and matched with users, as shipped.
Reads ``../shared/data`` and skips what is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.counts import Nodes
from dpframe.measures.measure import Distinct
from dpframe.sources.rollup_parts import RowParts
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


VALUES: Mapping[str, tuple[str, list[str], list[str]]] = {
    "products of households": (
        "retail_completejourney",
        ["department", "product_category"],
        ["product_id"],
    ),
    "flight numbers of aircraft": ("flights_nyc13", ["origin", "carrier"], ["carrier", "flight"]),
    "paths of authors of Rails": ("git_paths_rails", ["top", "second"], ["path"]),
}


def different_values(rows: pd.DataFrame, by: list[str], most: int) -> list[float]:
    """Numbers at all shown nodes together: true, of a sample, and matched; errors of the two, the
    deviation of the noise, and both errors with noise, as roots of mean squares."""
    asked: dict[str, Any] = {"user": "user_id", "epsilon": 1.0, "delta": 1e-6}
    measures = {"d": dp.distinct("value", at_most=most)}
    shown = dp.rollup(rows, by, measures, **asked)
    noise = dp.explain_rollup(by, measures, **asked).plan.counts["d"].noise.sd
    levels = shown["level"].to_numpy()
    nodes = Nodes(
        level=levels,
        ancestor=np.zeros(len(levels), dtype=np.int64),
        keys=tuple(pa.chunked_array([pa.array(shown[c], pa.string())]) for c in by),
    )

    def counted(source: pd.DataFrame, at_most: int) -> Any:
        distinct = Distinct(column="value", at_most=at_most, touched=1, singly=False)
        unit = PrivacyUnit(user="user_id")
        parts = RowParts(source=source, hierarchy=dp.columns(*by), unit=unit, progress=False)
        return parts.distinct(distinct, nodes).astype(float)

    truth, matched, sample = counted(rows, ALL), counted(rows, most), np.zeros(len(levels))
    for level in set(levels.tolist()):
        own, here = by[:level], rows
        if own:
            here = rows.merge(shown.loc[levels == level, own])
        pairs = here.sample(frac=1, random_state=0).drop_duplicates(["user_id", "value", *own])
        kept = pairs[pairs.groupby("user_id").cumcount() < most]
        sample[levels == level] = counted(kept, ALL)[levels == level]
    errors = [float(np.sqrt(((way - truth) ** 2).mean())) for way in (sample, matched)]
    sums = [float(way.sum()) for way in (truth, sample, matched)]
    return [*sums, *errors, noise, *(float(np.hypot(error, noise)) for error in errors)]


ALL = 10**6
"""More values than a user has."""


def main() -> None:
    given = bench.options(repeats=3)
    told = ("true", "sample", "matched", "error of sample", "of matched", "noise")
    bench.head("set", "at_most", *told, "sample with noise", "matched with noise")
    for name, (file, by, of) in VALUES.items():
        if not (path := SHARED / f"{file}.parquet").exists():
            print(f"{name}: {path} is not there")
            continue
        rows = pd.read_parquet(path)
        if "path" in of:
            folders = rows["path"].str.split("/", n=2, expand=True)
            rows = rows.assign(top=folders[0], second=folders[1])
        rows = rows.dropna(subset=["user_id", *by])
        rows = rows.assign(value=rows[of].astype(str).agg(" ".join, axis=1))
        for most in (4, 16):
            found = different_values(rows[["user_id", "value", *by]], by, most)
            bench.row(name, most, *(f"{number:.0f}" for number in found))
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
