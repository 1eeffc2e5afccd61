"""Channels: from the cells that devices hold to the sums that the server sees, and back to counts.

A channel draws the sums of an iteration at once. ``empty`` is the law of a cell that nobody holds.
:class:`ReportSums` has exactly the law of adding up the reports of N devices: the sum of a cell
with f holders is Bin(f, 1/2) + Bin(N - f, a0), and cells are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.aggregate import silence
from dpframe.accounting.binomial import binomial
from dpframe.federated.holder_intervals import held_interval
from dpframe.federated.server import estimate, least_kept
from dpframe.noise import NoiseTable
from dpframe.postprocess.selection_intervals import selected_interval

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
