"""What runs on the server: sums of reports, estimates, and which prefixes to follow.

Chadha et al. (2023), Algorithms 4 (ServerSide) and 5 (PruneHH). Nothing here sees a device: it is
all post-processing of sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

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
    sums: NDArray[np.int64],
    *,
    devices: int,
    local_epsilon: float,
    false_positives: float = 0.5,
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
