"""What a private median of users' values would reach at the nodes of a rollup, by two mechanisms.

Run with ``python -m tests.benchmarks.rollup_quantiles``; the figures are in docs/decisions. Values
are lognormal (median 40, cut at 500), one a user. The measure has two thirds of epsilon 1.

* *Histogram on the parts*: 32 bins whose edges are in proportion, discrete Laplace noise in every
  bin of every part; a node adds up those of its parts, and the median is read off within its bin.
* *Exponential mechanism*, a node on its own: epsilon is divided over the four levels and the root;
  utility is minus the distance of ranks from the middle (Smith, 2011), of sensitivity 1/2.

Errors are those that nine releases of ten stay within: of the rank, in percentage points, and of
the value, in percent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

EPSILON = 2 / 3
LEVELS = 5
TOP = 500.0
EDGES = np.concatenate([[0.0], np.geomspace(1.0, TOP, 32)])
RELEASES = 1000


def by_histogram(values: Reals, parts: int, rng: np.random.Generator) -> float:
    """Of a node with so many parts."""
    noise = rng.laplace(0, 1 / EPSILON, (parts, len(EDGES) - 1)).sum(axis=0)
    bins = np.histogram(values, EDGES)[0] + noise
    reached = np.cumsum(bins)
    middle = reached[-1] / 2
    at = int(np.argmax(reached >= middle))
    inside = (middle - reached[at] + bins[at]) / max(bins[at], 1e-9)
    return float(EDGES[at] + (EDGES[at + 1] - EDGES[at]) * np.clip(inside, 0, 1))


def by_exponential(values: Reals, parts: int, rng: np.random.Generator) -> float:
    """Of a node, whatever its parts."""
    points = np.concatenate([[0.0], np.sort(values), [TOP]])
    below = np.arange(len(values) + 1)
    utility = -np.abs(below - len(values) / 2)
    chance = EPSILON / LEVELS * utility + np.log(np.maximum(np.diff(points), 1e-12))
    chance = np.exp(chance - chance.max())
    at = int(rng.choice(len(chance), p=chance / chance.sum()))
    return float(rng.uniform(points[at], points[at + 1]))


def errors(
    way: Callable[[Reals, int, np.random.Generator], float], users: int, parts: int
) -> tuple[float, float]:
    """Of the rank and of the value, in percent."""
    rng = np.random.default_rng(3)
    ranks, values = [], []
    for _ in range(RELEASES):
        true = np.clip(rng.lognormal(3.7, 1.0, users), 0, TOP)
        found = way(true, parts, rng)
        ranks.append(abs(float((true < found).mean()) - 0.5))
        values.append(abs(found / float(np.median(true)) - 1))
    return 100 * float(np.quantile(ranks, 0.9)), 100 * float(np.quantile(values, 0.9))


def main() -> None:
    print("| users at the node | histogram, 1 part | histogram, 30 parts | exponential mechanism |")
    print("| --- | --- | --- | --- |")
    for users in (300, 1000, 10_000):
        ways = ((by_histogram, 1), (by_histogram, 30), (by_exponential, 1))
        told = [errors(way, users, parts) for way, parts in ways]
        print(f"| {users:,} | " + " | ".join(f"{r:.1f}, {v:.1f} %" for r, v in told) + " |")


if __name__ == "__main__":
    main()
