"""Accuracy against the exact answer: the peers' workload, real sets, tall hierarchies, users.

Run with ``python -m tests.benchmarks.accuracy``. The exact tree is counted once per data set;
every figure is a mean over ten releases. F1 compares the reported nodes with the exact
hierarchical heavy hitters at the same threshold; the error of a residual is against the true
residual given the reported set, the error of a count against the true count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpframe.budget import Budget, PrivacyUnit
from dpframe.counts import CountTree
from dpframe.hierarchy import as_hierarchy
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.plan import make_plan
from dpframe.sources.exact_trees import exact_counts
from tests.benchmarks.speed import LEVELS, SHARED, workload

RELEASES = 10
BUDGET = Budget(epsilon=1.0, delta=1e-6)
RECORD = PrivacyUnit()


def exact_tree(source: object, hierarchy: object, unit: PrivacyUnit) -> CountTree:
    return exact_counts(source, as_hierarchy(hierarchy), unit, 1)


def above(tree: CountTree, band: int) -> tuple[CountTree, np.ndarray]:
    """What the query would have fetched, and where it stands in the whole tree."""
    kept = np.flatnonzero((tree.count >= band) | (tree.level == 0))
    return CountTree.from_preorder(tree.level[kept], tree.count[kept], ()), kept


def exact_heavy(tree: CountTree, threshold: int) -> np.ndarray:
    selected = np.zeros(len(tree.level), dtype=bool)
    covered = np.zeros(len(tree.level), dtype=np.int64)
    for level in range(int(tree.level.max()), 0, -1):
        here = tree.at_level(level)
        top = tree.count[here] - covered[here] >= threshold
        selected[here] = top
        np.add.at(covered, tree.parent[here], np.where(top, tree.count[here], covered[here]))
    return selected


def residuals(tree: CountTree, selected: np.ndarray) -> np.ndarray:
    covered = np.zeros(len(tree.level), dtype=np.int64)
    for level in range(int(tree.level.max()), 0, -1):
        here = tree.at_level(level)
        inside = np.where(selected[here], tree.count[here], covered[here])
        np.add.at(covered, tree.parent[here], inside)
    return tree.count - covered


def score(tree: CountTree, plan: HhhPlan) -> dict[str, float]:
    """Means over the releases of one plan."""
    grid = plan.grid
    heavy = exact_heavy(tree, plan.threshold * grid)
    seen, kept = above(tree, plan.band)
    numbered = (position_keys(len(seen.level)),)
    keyed = CountTree(level=seen.level, parent=seen.parent, count=seen.count, keys=numbered)
    totals = {
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
        "residual": 0.0,
        "count": 0.0,
        "nodes": 0.0,
    }
    for _ in range(RELEASES):
        noisy = plan.run(keyed)
        where = kept[noisy.keys[0].to_numpy()]
        below_root = noisy.level > 0
        chosen = np.zeros(len(tree.level), dtype=bool)
        chosen[where[below_root]] = True
        hits = float((chosen & heavy).sum())
        precision, recall = hits / max(1, chosen.sum()), hits / max(1, heavy.sum())
        true_residual = residuals(tree, chosen)[where]
        totals["precision"] += precision
        totals["recall"] += recall
        totals["f1"] += 2 * precision * recall / max(1e-9, precision + recall)
        totals["residual"] += (
            float(np.abs(noisy.residual - true_residual)[below_root].mean()) / grid
        )
        totals["count"] += float(np.abs(noisy.count - tree.count[where])[below_root].mean()) / grid
        totals["nodes"] += float(below_root.sum())
    return {name: value / RELEASES for name, value in totals.items()}


def position_keys(n: int) -> object:
    import pyarrow as pa

    return pa.chunked_array([pa.array(np.arange(n))])


def plan_for(hierarchy: object, unit: PrivacyUnit = RECORD, **options: object) -> HhhPlan:
    return make_plan(
        hierarchy=as_hierarchy(hierarchy),
        unit=unit,
        budget=BUDGET,
        **options,  # type: ignore[arg-type]
    )


def row(title: str, plan: HhhPlan, scores: dict[str, float]) -> None:
    print(
        f"| {title} | {plan.threshold} | {scores['nodes']:.0f} | {scores['precision']:.3f} | "
        f"{scores['recall']:.3f} | {scores['f1']:.3f} | {scores['residual']:.2f} | "
        f"{scores['count']:.2f} |"
    )


def head(title: str) -> None:
    columns = "threshold | nodes | precision | recall | F1 | residual error | count error"
    print(f"\n{title}\n\n| | {columns} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")


def peers(tree: CountTree) -> None:
    head("Peers' workload, 1e7 rows, four levels, epsilon 1, delta 1e-6")
    for threshold in (30, 50, 100, 500, 2000):
        for remainder in (False, True):
            plan = plan_for(LEVELS, threshold=threshold, remainder=remainder)
            row(f"offline{', remainder' if remainder else ''}", plan, score(tree, plan))
        for mechanism in ("laplace", "gaussian"):
            if threshold >= 100:
                plan = plan_for(LEVELS, threshold=threshold, remainder=False, mechanism=mechanism)
                row(mechanism, plan, score(tree, plan))
    head("The trade-off over release_share, threshold 100, without remainder")
    for share in (0.15, 0.2, 0.25, 1 / 3, 0.4, 0.5, 0.6):
        plan = plan_for(LEVELS, threshold=100, remainder=False, release_share=share)
        row(f"release_share {share:.2f}", plan, score(tree, plan))


def tall() -> None:
    head("IPv4 addresses of tor_relays_daily under 4, 8 and 32 levels of prefixes, no remainder")
    for step in (8, 4, 1):
        prefixes = ",".join(map(str, range(step, 33, step)))
        hierarchy = f"ip:ip?version=4&prefixes={prefixes}&invalid=drop"
        tree = exact_tree(SHARED / "tor_relays_daily.parquet", hierarchy, RECORD)
        for mechanism in ("offline", "laplace", "gaussian"):
            threshold = 500 if step == 1 else 200
            plan = plan_for(hierarchy, threshold=threshold, mechanism=mechanism, remainder=False)
            row(f"h = {plan.height}, {mechanism}", plan, score(tree, plan))


def real() -> None:
    head("Real sets, one record a unit, threshold 100")
    for file, hierarchy in (
        ("tor_relays_daily", "ip:ip"),
        ("git_paths_rails", "path:path"),
        ("retail_completejourney", "columns:department,product_category,product_type,product_id"),
        ("flights_nyc13", "columns:origin,dest,carrier"),
        ("dns_zeek_wrccdc", "domain:query"),
    ):
        tree = exact_tree(SHARED / f"{file}.parquet", hierarchy, RECORD)
        for mechanism in ("offline", "laplace", "gaussian"):
            plan = plan_for(
                hierarchy, threshold=600 if "path" in hierarchy else 100, mechanism=mechanism
            )
            row(f"{file}, {hierarchy.split(':')[0]}, {mechanism}", plan, score(tree, plan))


def users() -> None:
    file, hierarchy = SHARED / "git_paths_rails.parquet", "path:path"
    print(
        "\nUsers with many rows: git_paths_rails, 6,817 users, up to 13,863 rows each; smallest "
        "threshold\n\n| | weight counted | threshold | sd of a residual | sd / weight | nodes | "
        "weight below level 0 |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    units = [PrivacyUnit(user="user_id")] + [
        PrivacyUnit(user="user_id", contribution="records", max_contributions=m)
        for m in (1, 2, 5, 20, 100)
    ]
    for unit in units:
        plan = plan_for(hierarchy, unit)
        tree = exact_counts(file, plan.hierarchy, unit, plan.band)
        total = tree.count[0] / plan.grid
        runs = [plan.run(tree) for _ in range(RELEASES)]
        nodes = np.mean([(r.level > 0).sum() for r in runs])
        found = np.mean([r.residual[r.level > 0].sum() for r in runs]) / plan.grid / total
        sd = plan.count_noise.sd / plan.grid
        name = "shares" if plan.grid > 1 else f"records, at most {unit.max_contributions}"
        print(
            f"| {name} | {total:.0f} | {plan.threshold} | {sd:.1f} | {100 * sd / total:.3f} % | "
            f"{nodes:.0f} | {100 * found:.0f} % |"
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.parquet")
        workload(10_000_000, file)
        peers(exact_tree(file, LEVELS, RECORD))
    parts: tuple[Callable[[], None], ...] = (tall, real, users)
    for part in parts:
        if SHARED.exists():
            part()
        else:
            print(f"{part.__name__}: skipped, the data sets are not here")


if __name__ == "__main__":
    main()
