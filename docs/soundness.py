"""The printed Algorithm 1 against its claim, in numbers that anybody can recompute.

Run it with ``python docs/soundness.py``; docs/soundness.md explains what it prints.

Neighbours: a path of ``height`` nodes that all have residual F, or F + 1 with the record. Around
it stand k unrelated nodes of equal residual. The printed test adds one gamma ~ Lap(2/eps) for
the whole tree and w ~ Lap(4/eps) a node. Given gamma the nodes are independent, so all that the
unrelated ones tell about gamma is how many of them were selected: a binomial. Every number is a
lower bound, because it comes from one pair of tables and one set of outcomes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

import dpframe as dp
from dpframe.accounting.path_recursion import Laws
from dpframe.mechanisms.offline_hhh import cost

Array = NDArray[np.float64]

EPSILONS = (0.5, 1.0, 2.0)
HEIGHTS = (4, 5, 6, 8, 16, 32, 128)
CLAIMED = 1e-6

GAPS = np.arange(-40, 241) / 4
"""Threshold - F, in units of 1/epsilon."""


def gammas(epsilon: float) -> tuple[Array, Array]:
    """Values of gamma and their weights, for the trapezoid rule."""
    gamma = np.linspace(-40 / epsilon, 40 / epsilon, 3001)
    return gamma, epsilon / 4 * np.exp(-np.abs(gamma) * epsilon / 2) * (gamma[1] - gamma[0])


def not_selected(gap: float, gamma: Array, epsilon: float) -> Array:
    """P(residual + w + gamma < threshold) with gap = threshold - residual."""
    x = gap - gamma
    tail = 0.5 * np.exp(-np.abs(x) * epsilon / 4)
    return np.asarray(np.where(x < 0, tail, 1 - tail))


def selected_counts(nodes: int, gap: float, gamma: Array, epsilon: float) -> Array:
    """P(n of the unrelated nodes are selected | gamma), shape (nodes + 1, gammas)."""
    bot = not_selected(gap, gamma, epsilon)
    n = np.arange(nodes + 1)
    choose = [math.lgamma(nodes + 1) - math.lgamma(i + 1) - math.lgamma(nodes - i + 1) for i in n]
    logs = np.outer(n, np.log1p(-bot)) + np.outer(nodes - n, np.log(bot))
    return np.asarray(np.exp(np.array(choose)[:, None] + logs))


def printed_delta(epsilon: float, height: int, nodes: int | None) -> float:
    """Delta at ``epsilon`` from: no node of the path is selected; nodes=None is the limit.

    >>> [f"{printed_delta(1.0, 5, nodes):.1e}" for nodes in (10, 1000, None)]
    ['5.4e-04', '2.4e-03', '2.5e-03']
    """
    gamma, weight = gammas(epsilon)
    seen: list[Array | None] = [None]
    if nodes is not None:
        seen = [selected_counts(nodes, gap, gamma, epsilon) for gap in (-3.0, -2.0, -1.0, 0.0)]
    best = 0.0
    for gap in GAPS[:: 1 if nodes is None else 4] / epsilon:
        without = not_selected(gap, gamma, epsilon) ** height
        with_record = not_selected(gap - 1, gamma, epsilon) ** height
        apart = weight * (without - math.exp(epsilon) * with_record)
        for given in seen:
            outcomes = apart if given is None else given @ apart
            best = max(best, float(np.maximum(outcomes, 0.0).sum()))
    return best


def printed_delta_with_root(epsilon: float, height: int) -> float:
    """The same in the limit, if the root's residual were released with Lap(4/eps) as well.

    >>> f"{printed_delta_with_root(1.0, 4):.2e}"
    '2.83e-03'
    """
    gamma, weight = gammas(epsilon)
    best = 0.0
    for gap in GAPS / epsilon:
        without = not_selected(gap, gamma, epsilon)
        with_record = not_selected(gap - 1, gamma, epsilon)
        left = epsilon + height * np.log(with_record / without)  # what the release may still lose
        cut = np.clip(left, -epsilon / 4, epsilon / 4)
        laplace = 1 - np.exp(np.where(left < cut, left, (cut - epsilon / 4) / 2))
        best = max(best, float(weight @ (without**height * laplace)))
    return best


def shipped_delta(epsilon: float, height: int) -> float:
    """Upper bound on delta of the mechanism of this package, for a budget of ``CLAIMED``."""
    spec = f"path:p?depth={height}"
    laws = dp.explain(spec, epsilon=epsilon, delta=CLAIMED, remainder=False).plan.laws
    assert isinstance(laws, Laws)
    return cost(laws, height=height, epsilon=epsilon, remainder=False)


def main() -> None:
    print("Printed algorithm, many unrelated nodes: delta is at least")
    print("    eps" + "".join(f"{f'h={height}':>10}" for height in HEIGHTS))
    for epsilon in EPSILONS:
        deltas = [printed_delta(epsilon, height, None) for height in HEIGHTS]
        print(f"{epsilon:7g}" + "".join(f"{d if d > 1e-12 else 0:10.1e}" for d in deltas))
    print("\nPrinted algorithm at eps=1, h=5, with k unrelated nodes: delta is at least")
    for nodes in (10, 100, 1000):
        print(f"  k={nodes:<6}{printed_delta(1.0, 5, nodes):.1e}")
    print("\nPrinted algorithm, the root's residual released too, at h=4: delta is at least")
    for epsilon in EPSILONS:
        print(f"  eps={epsilon:<5g}{printed_delta_with_root(epsilon, 4):.2e}")
    print(f"\nShipped mechanism, budget delta={CLAIMED:g}, no remainder: delta is at most")
    print("    eps" + "".join(f"{f'h={height}':>10}" for height in HEIGHTS[:-1]))
    for epsilon in EPSILONS:
        print(f"{epsilon:7g}" + "".join(f"{shipped_delta(epsilon, h):10.2e}" for h in HEIGHTS[:-1]))


if __name__ == "__main__":
    main()
