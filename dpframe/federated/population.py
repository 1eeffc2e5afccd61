"""Devices and their items, as arrays: what a simulation has in place of a fleet. Raw data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import PublicRandom

AT_ONCE = 1 << 22
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
            last = int(np.searchsorted(self.starts, self.starts[first] + AT_ONCE, side="right")) - 1
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
