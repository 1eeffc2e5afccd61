"""Error of tree counts a level, beside the composed Gaussian mechanism, on real sets.

Run with ``python -m tests.benchmarks.tree_counts [--releases 200]``. Every estimator is drawn so
many times at epsilon 1, delta 1e-6; "consistent" adjusts the very counts of the column before it,
so that these two columns differ by the adjustment alone. The composed Gaussian is one stability
histogram a level with the least noise that composes exactly (privacy loss distributions), the best
that peers offer. Of the total, a single node, the error of the count as drawn is that of the law
itself, and serves as a control for the adjusted one. Root mean squared errors over all nodes of the
true tree; a node that is not shown is estimated as 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.losses import level_laws
from dpframe.accounting.tree_levels import TreeLaws
from dpframe.budget import Budget, PrivacyUnit
from dpframe.counts import CountTree, NoisyTree
from dpframe.hierarchy import as_hierarchy
from dpframe.postprocess.consistency import (
    consistent_counts,
    consistent_tree,
    consistent_whole_counts,
    tree_in_records,
)
from dpframe.questions.tree_counts.plan import TreePlan, make_tree_plan
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.keys import listed_nodes
from dpframe.sources.source_relations import read_public_file
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED

SETS = {
    "flights_nyc13": (["origin", "dest", "carrier"], PrivacyUnit()),
    "retail_completejourney": (
        ["department", "product_category", "product_type", "product_id"],
        PrivacyUnit(),
    ),
    "geo_covid_italy_province_day": (["region", "province"], PrivacyUnit(weight="new_cases")),
}
BUDGET = Budget(epsilon=1.0, delta=1e-6)
PURE = Budget(epsilon=1.0, delta=0.0)


def composed_gaussian(plan: TreePlan) -> TreePlan:
    """The plan with the peers' best noise in place of ours."""
    laws = level_laws("gaussian", levels=plan.height + 1, epsilon=1.0, delta=1e-6)
    every = (laws.noise,) * (plan.height + 1)
    scales = (laws.scale,) * (plan.height + 1)
    noise = TreeLaws(family="gaussian", noises=every, scales=scales, grid=1, delta=laws.delta)
    return replace(plan, laws=noise)


def above(tree: CountTree, band: int) -> CountTree:
    """What the query would have fetched; the last key is the position in the whole tree."""
    kept = np.flatnonzero((tree.count >= band) | (tree.level == 0) | (band == 1))
    part = CountTree.from_preorder(tree.level[kept], tree.count[kept], ())
    return replace(part, keys=(pa.chunked_array([pa.array(kept)]),))


def squares(tree: NoisyTree, truth: CountTree, listed: bool) -> NDArray[np.float64]:
    """Squared error of every true node."""
    own = ~tree.other
    where = np.arange(int(own.sum())) if listed else tree.keys[-1].to_numpy()[own]
    estimate = np.zeros(len(truth.count))
    estimate[where] = tree.count[own]
    error = estimate - truth.count
    return np.asarray(error * error)


def errors(plan: TreePlan, truth: CountTree, releases: int) -> tuple[list[float], list[float]]:
    """A level: root mean squared error of the counts as drawn, and of the same made to add up."""
    private = above(truth, plan.band)
    drawn, adjusted = np.zeros(len(truth.count)), np.zeros(len(truth.count))
    for _ in range(releases):
        noisy = plan.run(private)
        drawn += squares(tree_in_records(noisy, plan.grid), truth, plan.listed_keys is not None)
        adjusted += squares(consistent_tree(noisy, plan.grid), truth, plan.listed_keys is not None)
    if isinstance(plan.laws, TreeLaws):  # the total is one node, whose noise is known exactly
        exact = releases * plan.laws.noises[0].sd ** 2
        adjusted[0] += exact - drawn[0]
        drawn[0] = exact
    levels = [truth.level == level for level in range(plan.height + 1)]
    return tuple(  # type: ignore[return-value]
        [float(np.sqrt(total[here].mean() / releases)) for here in levels]
        for total in (drawn, adjusted)
    )


def table(name: str, releases: int) -> None:
    columns, unit = SETS[name]
    hierarchy = as_hierarchy(columns)
    file = SHARED / f"{name}.parquet"
    truth = exact_counts(str(file), hierarchy, unit, 1)
    plan = make_tree_plan(hierarchy=hierarchy, unit=unit, budget=BUDGET)
    hhh = make_tree_plan(hierarchy=hierarchy, unit=unit, budget=BUDGET, mechanism="hhh")
    reference = errors(composed_gaussian(plan), truth, releases)
    ours = errors(plan, truth, releases)
    heavy = errors(hhh, truth, releases)
    print(f"\n{name}, keys unknown ({plan.method}, threshold {plan.thresholds[0]})\n")
    bench.head("level", "nodes", "composed Gaussian", "drawn", "consistent", "from heavy hitters")
    for level in range(plan.height + 1):
        nodes = int((truth.level == level).sum())
        figures = (reference[0], ours[0], ours[1], heavy[1])
        bench.row(level, nodes, *(f"{f[level]:.2f}" for f in figures))
    known(name, releases)


def known(name: str, releases: int) -> None:
    """All keys listed, as if they had been known: those of the data, for this purpose public."""
    columns, unit = SETS[name]
    hierarchy = as_hierarchy(columns)
    file = str(SHARED / f"{name}.parquet")
    rows = read_public_file(file, columns)
    keys = rows.group_by(columns).aggregate([]).drop_null()
    listed = listed_nodes(keys, hierarchy)
    truth = exact_counts(file, hierarchy, unit, 1, listed=listed)
    plan = make_tree_plan(hierarchy=hierarchy, unit=unit, budget=PURE, listed=listed)
    ours = errors(plan, truth, releases)
    print(f"\n{name}, keys listed, delta 0, weights {[round(w, 2) for w in plan.weights]}\n")
    bench.head("level", "nodes", "drawn", "consistent")
    for level in range(plan.height + 1):
        nodes = int((truth.level == level).sum())
        bench.row(level, nodes, *(f"{f[level]:.2f}" for f in ours))


def adding_up(nodes: int) -> None:
    """Least squares and whole numbers for a large tree."""
    rng = np.random.default_rng(1)
    parent = np.array([-1, *(rng.integers(0, np.arange(1, nodes) // 8 + 1))])
    noisy = rng.normal(100, 30, nodes)
    for share in (1.0, 0.0):
        complete = rng.random(nodes) < share
        seen = {"complete": complete}
        values = consistent_counts(parent, noisy, np.ones(nodes), **seen)
        jobs = (
            lambda s=seen: consistent_counts(parent, noisy, np.ones(nodes), **s),
            lambda s=seen, v=values: consistent_whole_counts(parent, v, np.ones(nodes), **s),
        )
        first, second = (bench.timed(job)["seconds"] for job in jobs)
        kind = "all children listed" if share else "no node complete"
        print(f"{nodes} nodes, {kind}: least squares {first:.2f} s, whole numbers {second:.2f} s")


def main() -> None:
    given = bench.options(releases=200)
    for name in SETS:
        table(name, given.releases)
    print()
    adding_up(1_000_000)


if __name__ == "__main__":
    main()
