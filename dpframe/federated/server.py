"""What runs on the server: sums of reports, estimates, and which prefixes and bits are next.

Chadha et al. (2023), Algorithms 4 (ServerSide) and 5 (PruneHH), and Section V.B.
Nothing here sees a device: it is all post-processing of sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.aggregate import silence
from dpframe.accounting.binomial import binomial
from dpframe.errors import ParameterError
from dpframe.noise import NoiseTable

START = 1.0
"""Standard deviations above the mean of an empty cell from which thresholds are tried."""


def aggregate(reports: Iterable[NDArray[np.bool_]]) -> NDArray[np.int64]:
    """Return the sums of reports, cell by cell: all that the server is to see."""
    sums: NDArray[np.int64] | None = None
    for report in reports:
        sums = report.astype(np.int64) if sums is None else sums + report
    if sums is None:
        raise ParameterError("reports is empty: there is nothing to add up.")
    return sums


def estimate(sums: NDArray[np.int64], *, devices: int, local_epsilon: float) -> NDArray[np.float64]:
    """Return unbiased estimates of how many devices hold each cell, (sum - N a0) / (1/2 - a0)."""
    a0 = silence(local_epsilon)
    return np.asarray((sums - devices * a0) / (0.5 - a0))


def standard_error(holders: float, *, devices: int, local_epsilon: float) -> float:
    """Return the standard error of the estimate for a cell that ``holders`` devices hold."""
    a0 = silence(local_epsilon)
    return math.sqrt(holders / 4 + (devices - holders) * a0 * (1 - a0)) / (0.5 - a0)


def prune(
    sums: NDArray[np.int64], *, devices: int, local_epsilon: float, false_positives: float = 0.5
) -> int:
    """Return the least sum with which a cell is kept.

    With it, the expected number of kept cells that nobody holds is at most ``false_positives``
    times the number of kept cells. From the kept cells :func:`largest` chooses the prefixes to
    follow.

    Notes
    -----
    Algorithm 5 lowers the chance of a false positive step by step until this holds; sums are
    integers, so here all thresholds are tried, and chances are from the binomial law in place of a
    Gaussian (their footnote 4).
    """
    empty = binomial(devices, silence(local_epsilon))
    return least_kept(sums, empty, false_positives)


def least_kept(sums: NDArray[np.integer], empty: NoiseTable, false_positives: float) -> int:
    """Return the result of :func:`prune` for any law of a cell that nobody holds.

    Whether a cell is kept, given all other cells, depends on whether its own sum reaches the
    result: no threshold above its sum counts it, and thresholds up to its sum count it once,
    whatever the sum is. So intervals may condition on this event alone.
    """
    start = math.ceil(empty.mean + START * empty.sd)
    highest = max(int(sums.max(initial=0)), start)
    tried = np.arange(start, highest + 2)
    kept = np.cumsum(np.bincount(np.clip(sums - start, -1, None) + 1)[::-1])[::-1][1:]
    kept = np.concatenate([kept, np.zeros(len(tried) - len(kept), dtype=kept.dtype)])
    tail = empty.at_least()
    chance = tail[np.clip(tried - empty.lowest, 0, len(tail) - 1)]
    fits = len(sums) * chance <= false_positives * kept
    fits[-1] = True  # above all sums: nothing is kept
    return int(tried[np.argmax(fits)])


def largest(
    cells: NDArray[np.int64], sums: NDArray[np.integer], capacity: int
) -> NDArray[np.int64]:
    """Return at most ``capacity`` of ``cells``, with the largest sums; of a tie all or none.

    ``sums`` are the sums of all cells, ``cells`` the numbers of some.
    """
    if len(cells) <= capacity:
        return cells
    beyond = np.sort(sums[cells])[-capacity - 1]
    return np.asarray(cells[sums[cells] > beyond])


def segment_length(prefixes: int, limit: int, left: int) -> int:
    """Return how many bits to ask for below ``prefixes`` prefixes.

    They are the most, up to ``left``, for which all prefixes together have at most ``limit`` cells.

    Examples
    --------
    >>> from dpframe.federated import segment_length
    >>> segment_length(1, 10**7, 60), segment_length(1000, 10**7, 37)
    (23, 13)
    """
    return min(left, (limit // prefixes).bit_length() - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Bits of T iterations, r in all, with at most P cells in each.

    ``fixed`` are the bits of every iteration, or () for as many as fit. ``room`` is how many bits
    an iteration after the first must be able to ask for, so that the last iteration can finish.
    """

    length: int
    iterations: int
    limit: int
    fixed: tuple[int, ...] = ()
    room: int = 0

    @classmethod
    def adaptive(cls, *, length: int, iterations: int, limit: int) -> Self:
        """Ask for as many bits as fit; raise ParameterError if the iterations cannot finish."""
        most = segment_length(1, limit, length)
        if most == length:  # nothing is left after the first
            return cls(length=length, iterations=1, limit=limit)
        room = -(-(length - most) // (iterations - 1)) if iterations > 1 else length
        if room > most:
            needed = -(-length // max(most, 1))
            raise ParameterError(
                f"iterations ({iterations}) cannot finish {length} bits (length), {most} at once. "
                f"Use at least {needed} iterations, a larger limit or shorter items."
            )
        return cls(length=length, iterations=iterations, limit=limit, room=room)

    @classmethod
    def even(cls, *, length: int, iterations: int, limit: int) -> Self:
        """Ask for the same number of bits in every iteration, as far as they divide evenly."""
        start, more = divmod(length, iterations)
        return cls.of(
            (start + 1,) * more + (start,) * (iterations - more), length=length, limit=limit
        )

    @classmethod
    def of(cls, fixed: tuple[int, ...], *, length: int, limit: int) -> Self:
        """Ask for the bits in ``fixed``; raise ParameterError if they do not add up or fit."""
        if sum(fixed) != length or min(fixed) < 1:
            raise ParameterError(
                f"segments ({', '.join(map(str, fixed))}) must be whole numbers above 0 that "
                f"add up to length ({length})."
            )
        if max(fixed) > segment_length(1, limit, length):
            raise ParameterError(
                f"segments ({', '.join(map(str, fixed))}) need {2 ** max(fixed):,} cells, over "
                f"limit ({limit:,}). Use smaller segments or a larger limit."
            )
        return cls(length=length, iterations=len(fixed), limit=limit, fixed=fixed)

    def bits(self, step: int, depth: int, prefixes: int) -> int:
        """Return the bits to ask for in iteration ``step`` = 1..T, below prefixes of ``depth``."""
        if self.fixed:
            return self.fixed[step - 1]
        return segment_length(prefixes, self.limit, self.length - depth)

    def capacity(self, step: int, depth: int) -> int:
        """Return the most prefixes to keep after iteration ``step``, which reached ``depth``."""
        if depth == self.length:
            return self.limit
        if self.fixed:
            return self.limit >> self.fixed[step]
        left = self.length - depth
        later = self.iterations - step - 1  # iterations after the next
        return self.limit >> max(1, left - later * self.room)
