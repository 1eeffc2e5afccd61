"""The printed streaming Algorithm 3 against its claim, in numbers that anybody can recompute.

Run it with ``python docs/soundness_streaming.py``; docs/soundness_streaming.md explains what it
prints. It needs numpy and nothing of this package.

Neighbours: a stream that stores k keys, each far above every threshold, and the same stream with
one more record of a new key, which makes all k counters fall by one. The printed algorithm
publishes each counter with fresh noise Lap(4h/eps). All h levels can fall together. Every number
is a lower bound: losses are rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CLAIMED = 1e-6
POINTS = 2**20
"""Points of a composed loss; more of them only raise the bound."""

EPSILONS = (0.5, 1.0, 2.0)
COUNTERS = (20, 50, 100, 200, 1000, 5000)
LEVELS = (1, 2, 4, 8)


def misra_gries(stream: Sequence[int], k: int) -> tuple[int, dict[int, int]]:
    """Decrements and counters; zeros stay, the smallest key with counter 0 goes first.

    >>> full = [0] * 9 + [1] * 9 + [2] * 9
    >>> misra_gries(full, 3), misra_gries([*full, 7], 3)
    ((0, {0: 9, 1: 9, 2: 9}), (1, {0: 8, 1: 8, 2: 8}))
    """
    counters, decrements = {key - k: 0 for key in range(k)}, 0
    for x in stream:
        if x in counters:
            counters[x] += 1
        elif all(counters.values()):
            counters = {key: c - 1 for key, c in counters.items()}
            decrements += 1
        else:
            del counters[min(key for key, c in counters.items() if c == 0)]
            counters[x] = 1
    return decrements, counters


def printed_delta(
    epsilon: float, levels: int, counters: int, *, together: int = 1, points: int = POINTS
) -> float:
    """Delta at ``epsilon`` if all counters of ``together`` of the levels move by one.

    One counter loses ``(1 - 2y)/b``, b = 4h/eps, y its noise cut to [0, 1]: 1/b with probability
    1/2, -1/b with probability exp(-1/b)/2. The sum over all counters is a convolution.

    >>> f"{printed_delta(1.0, 4, 1000, points=2**21):.3f}"
    '0.494'
    >>> f"{printed_delta(1.0, 4, 1000, together=4, points=2**21):.3f}"
    '0.918'
    """
    scale, n = 4 * levels / epsilon, counters * together
    steps = max(1, points // n)
    tail = np.exp(-np.arange(steps + 1) / (steps * scale)) / 2
    one = np.concatenate([[0.5], tail[:-1] - tail[1:]])  # y in ((i - 1)/steps, i/steps]
    one[-1] += tail[-1]
    size = 1 << (n * steps).bit_length()
    total: Array = np.fft.irfft(np.fft.rfft(one, size) ** n, size)[: n * steps + 1]
    loss = (n - 2 * np.arange(n * steps + 1) / steps) / scale
    return float(total @ np.maximum(-np.expm1(np.minimum(epsilon - loss, 0)), 0))


def largest_loss(epsilon: float, levels: int, counters: int, together: int) -> float:
    """The loss, in units of ``epsilon``, that no delta of any use excludes.

    >>> largest_loss(1.0, 4, 1000, 4)
    250.0
    """
    return counters * together / (4 * levels)


def sound_delta(epsilon: float, levels: int, threshold: int) -> float:
    """Delta of Lebeda and Tetek's release with discrete Laplace noise of scale h/eps, h levels.

    (U, alpha) moves by one in one coordinate: epsilon/h a level, up to unshared keys, whose
    counters are at most (1, 0): h times P(eta + max(1 + Z_1, Z_2) >= threshold).

    >>> f"{sound_delta(1.0, 4, 71):.1e}"
    '9.3e-07'
    """
    scale = levels / epsilon
    q = math.exp(-1 / scale)
    z = np.arange(-math.ceil(60 * scale), math.ceil(60 * scale) + 1)
    pmf = (1 - q) / (1 + q) * q ** np.abs(z)

    def reaches(x: NDArray[np.int64]) -> Array:
        up: Array = q ** np.abs(x) / (1 + q)
        return np.where(x > 0, up, 1 - up * q)

    x = threshold - z
    one, other = reaches(x - 1), reaches(x)
    return levels * float(pmf @ (one + other - one * other))


def main() -> None:
    print("Printed streaming algorithm, k = 1000: delta is at least")
    print("    eps  levels" + "".join(f"{f'h={h}':>9}" for h in LEVELS))
    for epsilon in EPSILONS:
        for every in (False, True):
            deltas = [printed_delta(epsilon, h, 1000, together=h if every else 1) for h in LEVELS]
            name = "all" if every else "one"
            print(f"{epsilon:7g}{name:>8}" + "".join(f"{delta:9.3f}" for delta in deltas))
    print("\nThe same at eps = 1, h = 4, by number of counters")
    print("  levels" + "".join(f"{f'k={k}':>10}" for k in COUNTERS))
    for together in (1, 4):
        deltas = [printed_delta(1.0, 4, k, together=together) for k in COUNTERS]
        print(f"{together:8}" + "".join(f"{delta:10.2g}" for delta in deltas))
    one, four = (largest_loss(1.0, 4, 1000, together) for together in (1, 4))
    print(f"\nLargest loss at k = 1000, h = 4: {one:g} eps on one level, {four:g} eps on all")
    print(f"\nOne draw shared by a level's counters, delta within {CLAIMED:g} at eps = 1")
    for h, threshold in ((1, 17), (4, 71), (8, 147), (32, 629)):
        printed = round(1 + 2 * h * math.log(3 * h / CLAIMED))
        print(
            f"  h={h:<4}threshold {threshold:<5}(printed {printed}): "
            f"delta is at most {sound_delta(1.0, h, threshold):.2e}, "
            f"at {threshold - 1} it is {sound_delta(1.0, h, threshold - 1):.2e}"
        )


if __name__ == "__main__":
    main()
