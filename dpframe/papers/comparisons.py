"""What papers compare methods by: rates of TrieHH, metrics of found items, relative errors.

All of it reads the truth, and is for data that are public: no guarantee is claimed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.search import closest_numbers
from dpframe.federated.channels import Interval

# -- TrieHH and TrieHH++, as Chadha et al. (2023) set them for their comparison --------------------


def triehh_rate(*, epsilon: float, rounds: int, votes: int) -> float:
    """Return the part of the devices that TrieHH asks in a round: (1 - exp(-epsilon/L)) / theta.

    Zhu, Kairouz, McMahan, Sun, Li, "Federated Heavy Hitters Discovery with Differential Privacy"
    (2020), Corollary 1. ``rounds`` is L, ``votes`` is theta: with this many votes a prefix is kept.
    """
    return -math.expm1(-epsilon / rounds) / votes


def triehhpp_rate(*, epsilon: float, delta: float, rounds: int, votes: int) -> float:
    """Return the chance that TrieHH++ asks a device in a round: alpha (1 - exp(-epsilon/L)).

    Cormode, Bharadwaj, "Sample-and-Threshold Differential Privacy" (2022), Lemma 3: delta of a
    round is exp(-C theta), C = ln(1/alpha) - 1/(1 + alpha). Every round gets an equal part of
    delta, and alpha is the largest that keeps it.
    """
    goal = math.log(rounds / delta) / votes

    def costly(log_alpha: float) -> bool:
        """C falls as alpha grows."""
        return -log_alpha - 1 / (1 + math.exp(log_alpha)) < goal

    log_alpha, _ = closest_numbers(costly, -700.0, 0.0)
    return -math.exp(log_alpha) * math.expm1(-epsilon / rounds)


@dataclass(frozen=True)
class SampledVotes:
    """Exact counts of few devices; a cell is kept from ``votes`` on: TrieHH and TrieHH++.

    No account of ours says that it is private: it is for comparisons on public data.
    """

    votes: int

    def sums(self, cells: NDArray[np.int64], size: int, devices: int) -> NDArray[np.int32]:
        return np.bincount(cells, minlength=size).astype(np.int32)

    def least(self, sums: NDArray[np.int32], devices: int, false_positives: float) -> int:
        return self.votes

    def estimate(self, sums: NDArray[np.int64], devices: int) -> NDArray[np.float64]:
        return sums.astype(np.float64)

    def interval(
        self, sums: NDArray[np.int64], least: int, devices: int, confidence: float
    ) -> Interval:
        return sums, sums


# -- items that are found: Chadha et al. (2023), Section VI and Appendix D -------------------------


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
    """Metrics of ``found`` items, of which ``items`` are the positions of those that anybody has in
    ``frequency``; the ``top`` most frequent items count as relevant."""
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


# -- counts ----------------------------------------------------------------------------------------


def alpha_rmse(
    estimates: NDArray[np.float64], truth: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    """Root of the mean of max(|estimate - truth| - alpha truth, 0)^2 over repeats.

    The error that is left when a relative error is forgiven; alpha 0 gives the ordinary root mean
    squared error. Its maximum over nodes and data sets is the alpha-mRMSE of Ghazi, Kamath, Kumar,
    Manurangsi and Wu, "On Differentially Private Counting on Trees" (2023), Definition 4.
    It reads the true counts: neither it nor a choice made by it may leave the data's owner.
    """
    beyond = np.maximum(np.abs(estimates - truth) - alpha * truth, 0.0)
    return np.asarray(np.sqrt((beyond * beyond).mean(axis=0)), dtype=np.float64)
