"""How well found items match the true ones, on public data.

Chadha et al. (2023), Section VI and Appendix D: the global frequency of an item is its mean share
of a user's items ("weighted" metric) or the part of users who have it ("unweighted").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ItemMetrics:
    """Found items H against the true frequencies.

    ``found`` is |H|, ``real`` how many items of H anybody has, ``false_positives`` the part of H
    that nobody has, ``mass`` the sum of the frequencies of H, ``weight_ratio`` this sum over the
    sum for the |H| most frequent items. ``precision`` and ``recall`` are against the ``top`` most
    frequent items. A ratio with denominator 0 is NaN.
    """

    found: int
    real: int
    false_positives: float
    mass: float
    weight_ratio: float
    precision: float
    recall: float


def item_metrics(
    frequency: NDArray[np.float64], items: NDArray[np.int64], found: int, top: int
) -> ItemMetrics:
    """Metrics of found items.

    Parameters
    ----------
    frequency
        float64, shape (K,): the frequency of every item that anybody has.
    items
        int64: positions in ``frequency`` of the items that were found, each once.
    found
        Number of found items, including items that nobody has.
    top
        Number of most frequent items that count as relevant.
    """
    order = np.argsort(-frequency, kind="stable")
    relevant = np.zeros(len(frequency), dtype=np.bool_)
    relevant[order[:top]] = True
    hits, mass = int(relevant[items].sum()), float(frequency[items].sum())
    best = float(frequency[order[:found]].sum())
    return ItemMetrics(
        found=found,
        real=len(items),
        false_positives=1 - len(items) / found if found else float("nan"),
        mass=mass,
        weight_ratio=mass / best if best else float("nan"),
        precision=hits / found if found else float("nan"),
        recall=hits / min(top, len(frequency)) if len(frequency) else float("nan"),
    )


def marginal_frequencies(frequency: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Sums of ``window`` neighbours among the frequencies, sorted from the largest: float64, shape
    (n - window + 1,). Shorter inputs give one sum of all, and an empty input none."""
    ordered = np.sort(frequency)[::-1]
    if len(ordered) <= window:
        return ordered.sum(keepdims=True) if len(ordered) else np.zeros(0)
    summed = np.concatenate([[0.0], np.cumsum(ordered)])
    return np.asarray(summed[window:] - summed[:-window])
