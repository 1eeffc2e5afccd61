"""Intervals for how many devices hold a cell, from the sum of their reports.

A cell with f holders has the sum V ~ Bin(f, 1/2) + Bin(N - f, a0). It is shown because V reached t,
which depends on other cells only (:func:`.server.least_kept`). Given that V >= t, V is
stochastically increasing in f: a law with log-concave weights grows in likelihood ratio when one
trial gets likelier, and cutting at t keeps this order. So inverting both tails gives an interval
(Casella, Berger, "Statistical Inference", 2nd ed., Theorem 9.2.2) that holds given that the cell is
shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.aggregate import silence
from dpframe.accounting.binomial import binomial
from dpframe.accounting.search import least_integer

FINE = 8
"""Values of f that are tried within a standard deviation of the estimate; ends are rounded outwards
to these values."""

SLACK = 1 + 1e-9
"""Comparisons lean towards wider intervals by this factor."""


def held_interval(
    sums: NDArray[np.int64], least: int, devices: int, local_epsilon: float, confidence: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lower and upper ends, int64, shaped as ``sums``, which all reach ``least``.

    For every number of holders, given that the cell is shown, each end is on the wrong side with
    probability at most (1 - confidence)/2.
    """
    laws = _Laws(devices, silence(local_epsilon), least)
    alpha = (1 - confidence) / 2
    different, back = np.unique(sums, return_inverse=True)
    lower = np.array([laws.lowest(int(v), alpha) for v in different], dtype=np.int64)
    upper = np.array([laws.highest(int(v), alpha) for v in different], dtype=np.int64)
    return lower[back], upper[back]


class _Laws:
    """Tails of V given V >= t, on a grid of f that is as fine as the estimate is uncertain."""

    def __init__(self, devices: int, a0: float, least: int) -> None:
        self._devices, self._a0, self._least = devices, a0, least
        self._empty_variance = devices * a0 * (1 - a0)
        self._known: dict[int, tuple[int, NDArray[np.float64]]] = {}
        self._last = self._step(devices) + 1

    def lowest(self, v: int, alpha: float) -> int:
        """Return the largest f on the grid up to which every f has P(V >= v | V >= t) <= alpha."""
        if self._more(0, v) * SLACK > alpha:
            return 0
        return self._holders(self._turn(v, lambda i: self._more(i, v) * SLACK > alpha) - 1)

    def highest(self, v: int, alpha: float) -> int:
        """Return the least f on the grid from which on every f has P(V <= v | V >= t) <= alpha."""
        return self._holders(self._turn(v, lambda i: self._less(i, v) * SLACK <= alpha))

    def _turn(self, v: int, true: Callable[[int], bool]) -> int:
        """Return the first step of the grid from which on a statement is true."""
        guess = self._step(max(0.0, (v - self._devices * self._a0) / (0.5 - self._a0)))
        low, high, jump = guess, guess, FINE
        while low > 0 and true(low):
            low, jump = max(0, low - jump), 2 * jump
        jump = FINE
        while high < self._last and not true(high):
            low, high, jump = max(low, high), min(self._last, high + jump), 2 * jump
        return least_integer(true, low, high)

    def _step(self, f: float) -> int:
        """Return the step of f; steps are equal in V's deviation, sqrt(f/4 + N a0 (1 - a0))."""
        return int(4 * FINE * (math.sqrt(f / 4 + self._empty_variance) - self._base))

    @property
    def _base(self) -> float:
        return math.sqrt(self._empty_variance)

    def _holders(self, step: int) -> int:
        root = step / (4 * FINE) + self._base
        return min(self._devices, max(0, round(4 * (root * root - self._empty_variance))))

    def _more(self, step: int, v: int) -> float:
        lowest, tail = self._tail(step)
        reached = _tail_at(tail, self._least - lowest)
        return _tail_at(tail, v - lowest) / reached if reached > 0 else 0.0

    def _less(self, step: int, v: int) -> float:
        lowest, tail = self._tail(step)
        reached = _tail_at(tail, self._least - lowest)
        return 1 - _tail_at(tail, v + 1 - lowest) / reached if reached > 0 else 1.0

    def _tail(self, step: int) -> tuple[int, NDArray[np.float64]]:
        """Return ``lowest``, and P(V >= lowest + i) for all i, for the f of a step."""
        if step not in self._known:
            f = self._holders(step)
            held, free = binomial(max(f, 1), 0.5), binomial(max(self._devices - f, 1), self._a0)
            law = held.pmf if f else np.ones(1)
            lowest = held.lowest if f else 0
            if f < self._devices:
                law, lowest = np.convolve(law, free.pmf), lowest + free.lowest
            self._known[step] = lowest, np.cumsum(law[::-1])[::-1]
        return self._known[step]


def _tail_at(tail: NDArray[np.float64], i: int) -> float:
    return 1.0 if i <= 0 else float(tail[i]) if i < len(tail) else 0.0
