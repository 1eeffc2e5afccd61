"""Heavy hitters of users' devices: the parts of a prefix tree, as a deployment would call them.

A *device* holds items of one user. In every iteration the server asks for the next bits of one item
below prefixes that it has found. Every device answers with a randomised report, and the server sees
the sum of the reports only. :func:`dpframe.prefix_tree` runs all of it over a frame.

Device: :func:`select_data`, :func:`randomize`, :class:`PiRappor`. Server: :func:`aggregate`,
:func:`estimate`, :func:`standard_error`, :func:`prune`, :func:`largest`, :func:`segment_length`.
Both: :class:`BinaryEncoding`, :class:`HuffmanEncoding`. What it costs: :func:`local_epsilon`.

**The server** adds up reports, estimates, and chooses which prefixes and bits are next.

It sees no device: what it does is post-processing of sums (Algorithms 4, ServerSide, and 5,
PruneHH, and Section V.B).

**Channels** lead from the cells that devices hold to the sums that the server sees, and back to
counts.

A channel draws the sums of an iteration at once. ``empty`` is the law of a cell that nobody holds.
:class:`ReportSums` has exactly the law of adding up the reports of N devices: the sum of a cell
with f holders is Bin(f, 1/2) + Bin(N - f, a0), and cells are independent.

**Intervals** say how many devices hold a cell, from the sum of their reports.

A cell with f holders has the sum V ~ Bin(f, 1/2) + Bin(N - f, a0). It is shown because V reached t,
which depends on other cells only (:func:`least_kept`). Given that V >= t, V is stochastically
increasing in f: a law with log-concave weights grows in likelihood ratio when one trial gets
likelier, and cutting at t keeps this order. So inverting both tails gives an interval (Casella,
Berger, "Statistical Inference", 2nd ed., Theorem 9.2.2) that holds given that the cell is shown.

**A population** stands in for a fleet: devices and their items, as arrays. It is raw data.

Source: Chadha, Chen, Duchi, Feldman, Hashemi, Javidbakht, McMillan, Talwar, "Differentially Private
Heavy Hitter Detection using Federated Analytics" (2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.aggregate import Neighbours, binomial, shuffle_local_epsilon, silence
from dpframe.accounting.aggregate import local_epsilon as aggregate_local_epsilon
from dpframe.accounting.losses import least_integer
from dpframe.errors import ParameterError
from dpframe.federated.encoding import (
    BinaryEncoding,
    Encoding,
    HuffmanEncoding,
    PiRappor,
    randomize,
    select_data,
)
from dpframe.noise import NoiseTable, PublicRandom
from dpframe.postprocess.selection_intervals import selected_interval

__all__ = [
    "BinaryEncoding",
    "Encoding",
    "HuffmanEncoding",
    "PiRappor",
    "aggregate",
    "estimate",
    "largest",
    "local_epsilon",
    "prune",
    "randomize",
    "segment_length",
    "select_data",
    "standard_error",
]

AT_ONCE = 1 << 20
"""Cells that are drawn together."""

Interval = tuple[NDArray[np.int64], NDArray[np.int64]]


class Channel(Protocol):
    """The channel between devices and server."""

    def sums(self, cells: NDArray[np.int64], size: int, devices: int) -> NDArray[np.int32]:
        """Draw the sums of ``size`` cells that the server sees; devices hold ``cells``."""
        ...

    def least(self, sums: NDArray[np.int32], devices: int, false_positives: float) -> int:
        """Return the least sum with which a cell is kept."""
        ...

    def estimate(self, sums: NDArray[np.int64], devices: int) -> NDArray[np.float64]:
        """Return unbiased estimates of the number of holders."""
        ...

    def interval(
        self, sums: NDArray[np.int64], least: int, devices: int, confidence: float
    ) -> Interval:
        """Return intervals for the number of holders of cells that were kept."""
        ...


@dataclass(frozen=True)
class ReportSums:
    """Sums of randomised one-hot reports."""

    local_epsilon: float

    def sums(self, cells: NDArray[np.int64], size: int, devices: int) -> NDArray[np.int32]:
        a0 = silence(self.local_epsilon)
        out = _draw_in_blocks(binomial(devices, a0), size)
        held, holders = np.unique(cells, return_counts=True)
        for f in np.unique(holders):
            there = held[holders == f]
            sums = binomial(int(f), 0.5).draw(len(there))
            if f < devices:
                sums = sums + binomial(devices - int(f), a0).draw(len(there))
            out[there] = sums
        return out

    def least(self, sums: NDArray[np.int32], devices: int, false_positives: float) -> int:
        empty = binomial(devices, silence(self.local_epsilon))
        return least_kept(sums, empty, false_positives)

    def estimate(self, sums: NDArray[np.int64], devices: int) -> NDArray[np.float64]:
        return estimate(sums, devices=devices, local_epsilon=self.local_epsilon)

    def interval(
        self, sums: NDArray[np.int64], least: int, devices: int, confidence: float
    ) -> Interval:
        return held_interval(sums, least, devices, self.local_epsilon, confidence)


@dataclass(frozen=True)
class CentralNoise:
    """A trusted server that adds noise to the count of every cell: the baseline."""

    noise: NoiseTable

    def sums(self, cells: NDArray[np.int64], size: int, devices: int) -> NDArray[np.int32]:
        out = _draw_in_blocks(self.noise, size)
        held, holders = np.unique(cells, return_counts=True)
        out[held] += holders.astype(np.int32)
        return out

    def least(self, sums: NDArray[np.int32], devices: int, false_positives: float) -> int:
        return least_kept(sums, self.noise, false_positives)

    def estimate(self, sums: NDArray[np.int64], devices: int) -> NDArray[np.float64]:
        return sums.astype(np.float64)

    def interval(
        self, sums: NDArray[np.int64], least: int, devices: int, confidence: float
    ) -> Interval:
        lower, upper = selected_interval(self.noise, least, sums, confidence, least=0)
        return lower.clip(0, devices), upper.clip(0, devices)


def _draw_in_blocks(law: NoiseTable, size: int) -> NDArray[np.int32]:
    out = np.empty(size, dtype=np.int32)
    for start in range(0, size, AT_ONCE):
        out[start : start + AT_ONCE] = law.draw(min(AT_ONCE, size - start))
    return out


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


def local_epsilon(
    *,
    devices: int,
    reports: int,
    epsilon: float,
    delta: float,
    accountant: str = "aggregate",
    neighbours: Neighbours = "replace",
) -> float:
    """Return the largest local epsilon with which the sums of all reports are (epsilon, delta)-DP.

    Parameters
    ----------
    devices
        N, public: every device sends every report.
    reports
        Number of reports of every device.
    epsilon, delta
        The guarantee towards whoever sees the sums.
    accountant
        "aggregate": exact laws of sums of one-hot reports, composed by privacy loss distributions.
        "shuffle": any local randomiser, by amplification by shuffling and Renyi composition.
    neighbours
        "replace": the data of one device are replaced. "remove" (only "aggregate"): they are
        removed, or added, and the device still reports.

    Returns
    -------
    float
        Local epsilon to 0.001, rounded down; 0 if none is small enough.

    References
    ----------
    Chadha et al. (2023), Algorithm 1; dpframe/accounting/aggregate.py.

    Examples
    --------
    >>> from dpframe.federated import local_epsilon
    >>> local_epsilon(devices=1_600_000, reports=4, epsilon=1.0, delta=1e-6)
    10.71
    """
    if accountant not in ("aggregate", "shuffle"):
        raise ParameterError(f"accountant must be 'aggregate' or 'shuffle'; got {accountant!r}.")
    if neighbours not in ("replace", "remove"):
        raise ParameterError(f"neighbours must be 'replace' or 'remove'; got {neighbours!r}.")
    if accountant == "shuffle":
        return shuffle_local_epsilon(devices=devices, reports=reports, epsilon=epsilon, delta=delta)
    return aggregate_local_epsilon(
        devices=devices, reports=reports, epsilon=epsilon, delta=delta, neighbours=neighbours
    )


ITEMS_AT_ONCE = 1 << 22
"""Items of devices that are looked at together: bounds the memory of a choice."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Devices 0..N-1, each with different items; there are K different items in all.

    Parameters
    ----------
    packed
        uint64, shape (K, words): the bits of every item, all different, as
        :meth:`.Encoding.pack_items` gives them.
    starts
        int64, shape (N + 1,): the items of device i are at starts[i] .. starts[i + 1] - 1.
    items
        int32: numbers of items.
    times
        uint32: how often each item occurs on its device.
    """

    packed: NDArray[np.uint64]
    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    times: NDArray[np.uint32]

    @property
    def devices(self) -> int:
        return len(self.starts) - 1

    def choices(
        self,
        eligible: NDArray[np.bool_],
        *,
        taking_part: NDArray[np.bool_] | None,
        weighted: bool,
        random: PublicRandom,
    ) -> NDArray[np.int64]:
        """Choose one eligible item of every device that has one and takes part; return item
        numbers.

        ``eligible`` is bool, shape (K,). Devices without an eligible item are left out.
        """
        chosen, first = [], 0
        while first < self.devices:
            last = (
                int(np.searchsorted(self.starts, self.starts[first] + ITEMS_AT_ONCE, side="right"))
                - 1
            )
            last = min(max(last, first + 1), self.devices)
            part = slice(int(self.starts[first]), int(self.starts[last]))
            items = self.items[part]
            weight = eligible[items].astype(np.int64)
            if weighted:
                weight *= self.times[part]
            summed = np.concatenate([[0], np.cumsum(weight)])
            ends = self.starts[first : last + 1] - self.starts[first]
            total = np.diff(summed[ends])
            asked = total > 0
            if taking_part is not None:
                asked &= taking_part[first:last]
            total, before = total[asked], summed[ends[:-1][asked]]
            drawn = before + np.minimum(
                (random.random(len(total)) * total).astype(np.int64), total - 1
            )
            chosen.append(items[np.searchsorted(summed, drawn, side="right") - 1])
            first = last
        return np.concatenate(chosen).astype(np.int64) if chosen else np.zeros(0, dtype=np.int64)
