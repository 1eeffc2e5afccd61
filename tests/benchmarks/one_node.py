"""Where shares show more than rounds: users with few nodes each, beside what plans predict.

Run with ``python -m tests.benchmarks.one_node [--repeats 2]``.

A made-up table: every user has n different products of 5,000, whose frequencies fall as rank to the
power of -0.9. Three hierarchies: the product alone, groups of products, and paths of 8 levels. The
last lines count how often a release says that users seem to have one node each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import dpframe as dp
from tests.benchmarks import bench

PRODUCTS, GROUPS, USERS = 5000, 50, 20_000
HIERARCHIES: dict[str, Any] = {
    "product": ["product"],
    "group and product": ["group", "product"],
    "path of 8 levels": "path:path?depth=8",
}
EPSILONS = (0.3, 1.0, 3.0, 10.0)


def table(nodes: int, rng: np.random.Generator) -> pd.DataFrame:
    """One row for each user and product; users draw their products without replacement."""
    chance = np.arange(1, PRODUCTS + 1) ** -0.9
    group = rng.integers(0, GROUPS, PRODUCTS)
    folders = rng.integers(0, 3, (PRODUCTS, 7))
    found = []
    for _ in range(USERS // 2000):  # the largest of so many Gumbel draws are such a sample
        score = np.log(chance) + rng.gumbel(size=(2000, PRODUCTS))
        found.append(np.argpartition(-score, nodes - 1, axis=1)[:, :nodes])
    product = np.concatenate(found).ravel()
    paths = np.array(["/".join([*map(str, row), f"k{i}"]) for i, row in enumerate(folders)])
    return pd.DataFrame(
        {
            "user": np.repeat(np.arange(USERS), nodes),
            "group": group[product],
            "product": product,
            "path": paths[product],
        }
    )


def finest(frame: pd.DataFrame, hierarchy: Any) -> int:
    height = 8 if isinstance(hierarchy, str) else len(hierarchy)
    return int((frame["level"] == height).sum())


def main() -> None:
    given = bench.options(repeats=2)
    rng = np.random.default_rng(1)
    asked: dict[str, Any] = {"user": "user", "delta": 1e-6}
    bench.head(
        "hierarchy", "nodes a user", "epsilon", "users by shares, by rounds", "shares", "rounds"
    )
    for nodes in (1, 2, 3, 4):
        rows = table(nodes, rng)
        for name, hierarchy in HIERARCHIES.items():
            for epsilon in EPSILONS:
                asked["epsilon"] = epsilon
                told = dict(dp.explain(hierarchy, **asked))
                need = [told[way].split(",")[0] for way in ("by shares", "by rounds")]
                shown = [
                    np.mean(
                        [
                            finest(dp.hhh(rows, hierarchy, **asked, **way), hierarchy)
                            for _ in range(given.repeats)
                        ]
                    )
                    for way in ({"contribution": "share"}, {"mechanism": "rounds"})
                ]
                numbers = [f"{number:.0f}" for number in shown]
                bench.row(name, str(nodes), f"{epsilon:g}", ", ".join(need), *numbers)
    bench.head("nodes a user", "releases", "that say one node each")
    for nodes in (1, 2, 5, 20, 100):
        rows, said, drawn = table(nodes, rng), 0, 0
        for epsilon in (0.1, *EPSILONS[:3]):
            for _ in range(2 * given.repeats):
                facts = dp.hhh(
                    rows, ["group", "product"], **{**asked, "epsilon": epsilon}
                ).dp.receipt
                said += any("one finest node each" in text for text in facts.get("notices", []))
                drawn += 1
        bench.row(str(nodes), str(drawn), str(said))


if __name__ == "__main__":
    main()
