"""Accuracy against the exact answer: the peers' workload, real sets, tall hierarchies, users.

Run with ``python -m tests.benchmarks.accuracy [--rows 1e7] [--only tall|real|users]``.
The exact tree is counted once per data set; every figure is a mean over ten releases. F1 compares
the reported nodes with the exact hierarchical heavy hitters at the same threshold; the error of a
residual is against the true residual given the reported set, that of a count against the true one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from dpframe.budget import Budget, PrivacyUnit
from dpframe.counts import CountTree
from dpframe.hierarchy import as_hierarchy
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.plan import make_plan
from dpframe.sources.exact_trees import exact_counts
from tests.benchmarks import bench
from tests.benchmarks.bench import LEVELS, SHARED

RELEASES = 10
TOTAL = Budget(epsilon=1.0, delta=1e-6)
RECORD = PrivacyUnit()


def exact_tree(source: object, hierarchy: object, unit: PrivacyUnit) -> CountTree:
    return exact_counts(source, as_hierarchy(hierarchy), unit, 1)


def above(tree: CountTree, band: int) -> tuple[CountTree, np.ndarray]:
    """What the query would have fetched, and where it stands in the whole tree."""
    kept = np.flatnonzero((tree.count >= band) | (tree.level == 0))
    return CountTree.from_preorder(tree.level[kept], tree.count[kept], ()), kept


def residuals(
    tree: CountTree, *, selected: np.ndarray | None = None, threshold: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals of all nodes, and what is selected: given, or what reaches the threshold."""
    chosen = np.zeros(len(tree.level), dtype=bool) if selected is None else selected
    covered = np.zeros(len(tree.level), dtype=np.int64)
    for level in range(int(tree.level.max()), 0, -1):
        here = tree.at_level(level)
        if selected is None:
            chosen[here] = tree.count[here] - covered[here] >= threshold
        inside = np.where(chosen[here], tree.count[here], covered[here])
        np.add.at(covered, tree.parent[here], inside)
    return tree.count - covered, chosen


def exact_heavy(tree: CountTree, threshold: int) -> np.ndarray:
    return residuals(tree, threshold=threshold)[1]


def score(tree: CountTree, plan: HhhPlan) -> np.ndarray:
    """Means over the releases of one plan: nodes, precision, recall, F1, errors."""
    grid = plan.grid
    heavy = exact_heavy(tree, plan.threshold * grid)
    seen, kept = above(tree, plan.band)
    numbered = (position_keys(len(seen.level)),)
    keyed = CountTree(level=seen.level, parent=seen.parent, count=seen.count, keys=numbered)
    scores = []
    for _ in range(RELEASES):
        noisy = plan.run(keyed)
        where = kept[noisy.keys[0].to_numpy()]
        below_root = noisy.level > 0
        chosen = np.zeros(len(tree.level), dtype=bool)
        chosen[where[below_root]] = True
        hits = float((chosen & heavy).sum())
        precision, recall = hits / max(1, chosen.sum()), hits / max(1, heavy.sum())
        true_residual, _ = residuals(tree, selected=chosen)
        errors = (noisy.residual - true_residual[where], noisy.count - tree.count[where])
        residual, count = (float(np.abs(e)[below_root].mean()) / grid for e in errors)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        scores.append((float(below_root.sum()), precision, recall, f1, residual, count))
    return np.mean(scores, axis=0)


def position_keys(n: int) -> object:
    import pyarrow as pa

    return pa.chunked_array([pa.array(np.arange(n))])


def plan_for(hierarchy: object, unit: PrivacyUnit = RECORD, **options: object) -> HhhPlan:
    return make_plan(
        hierarchy=as_hierarchy(hierarchy),
        unit=unit,
        budget=TOTAL,
        **options,  # type: ignore[arg-type]
    )


def row(title: str, plan: HhhPlan, scores: np.ndarray) -> None:
    nodes, precision, recall, f1, residual, count = scores.tolist()
    shares = (f"{one:.3f}" for one in (precision, recall, f1))
    bench.row(title, plan.threshold, f"{nodes:.0f}", *shares, f"{residual:.2f}", f"{count:.2f}")


def head(title: str) -> None:
    print(f"\n{title}\n")
    shares = ("precision", "recall", "F1")
    bench.head("", "threshold", "nodes", *shares, "residual error", "count error")


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
    print("\nUsers with many rows: git_paths_rails, up to 13,863 rows each; smallest threshold\n")
    names = ("weight counted", "threshold", "sd of a residual", "sd / weight", "nodes")
    bench.head("", *names, "weight below level 0")
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
        cells = (f"{total:.0f}", plan.threshold, f"{sd:.1f}", f"{100 * sd / total:.3f} %")
        bench.row(name, *cells, f"{nodes:.0f}", f"{100 * found:.0f} %")


def main() -> None:
    given = bench.options(
        rows=10_000_000, only=tuple(part.__name__ for part in (tall, real, users))
    )
    with tempfile.TemporaryDirectory() as folder:
        if given.only is None:
            file = bench.write_rows(bench.workload(given.rows), Path(folder, "rows.parquet"))
            peers(exact_tree(file, LEVELS, RECORD))
    bench.with_data(*(part for part in (tall, real, users) if given.only in (None, part.__name__)))


if __name__ == "__main__":
    main()
