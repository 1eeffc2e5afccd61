"""Algorithms as papers print them, and what papers compare methods by; none is a default.

**The printed algorithm** is Algorithm 1 of Biswas et al. (2024), for comparison only.

It adds one ``gamma ~ Lap(2/eps)`` to the test of every node and fresh ``w ~ Lap(4/eps)`` to each.
Unrelated nodes with counts near the threshold reveal gamma, so the adversary is given gamma; then
only ``w`` hides the record on its path.

Neighbours: one record. Sound for heights up to 4, where the per-node noise alone suffices
(`printed_delta` checks it exactly for every release). From height 5 on the algorithm is not private
(docs/soundness.md), and the plan refuses such heights.

Deviation: integer noise, cut where a 64-bit table ends, instead of continuous noise.

**Measures of comparison** are rates of TrieHH, metrics of found items, and relative errors.

They read the truth, and are for data that are public: no guarantee is claimed for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.losses import closest_numbers
from dpframe.accounting.path_recursion import path_delta
from dpframe.counts import CountTree, NoisyNodes
from dpframe.federated import Interval
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, laplace_table

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


TABLE_TAIL = 41.0
"""A tail of exp(-41) still has weight in a 64-bit table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedLaws:
    """The three laws of the printed algorithm; ``delta`` is an upper bound on what they cost."""

    gamma: NoiseTable
    test: NoiseTable
    release: NoiseTable
    delta: float


def printed_threshold(epsilon: float, delta: float, height: int) -> int:
    """Return the threshold of line 1, rounded up."""
    return math.ceil(8 / epsilon * math.log(2 * height / delta) + 1)


def printed_laws(epsilon: float, height: int, threshold: int) -> PrintedLaws:
    """Return Lap(2/eps), Lap(4/eps) and Lap(4/eps), as printed, on the integers, and their delta at
    this threshold."""
    gamma = laplace_table(2 / epsilon, math.ceil(2 / epsilon * TABLE_TAIL))
    test = laplace_table(4 / epsilon, math.ceil(4 / epsilon * TABLE_TAIL))
    delta = printed_delta(gamma, test, test, height=height, epsilon=epsilon, threshold=threshold)
    return PrintedLaws(gamma=gamma, test=test, release=test, delta=delta)


def chance_at_threshold(laws: PrintedLaws) -> float:
    """Return P(w + gamma >= 0): the chance of selection at the threshold."""
    at_least = laws.test.at_least()
    first = np.arange(laws.gamma.lowest, laws.gamma.highest + 1) * -1 - laws.test.lowest
    inside = np.clip(first, 0, len(at_least) - 1)
    return float(laws.gamma.pmf @ at_least[inside])


def run(tree: CountTree, *, laws: PrintedLaws, threshold: int) -> NoisyNodes:
    """Select and release as the offline mechanism does, with one gamma in all tests."""
    gamma = int(laws.gamma.draw(1)[0])  # line 2
    return offline_hhh.run(
        tree,
        test=laws.test,  # line 9
        release=laws.release,  # line 12
        threshold=threshold - gamma,  # line 10
        remainder=False,
    )


# -- what it costs -------------------------------------------------------------------------------


def printed_lower_bound(epsilon: float, height: int) -> float:
    """Return a delta that the printed algorithm certainly exceeds: no node of the path is selected.

    ``max over F of E_gamma[((1 - q)^h - e^eps (1 - q')^h)_+]``, in the limit of many unrelated
    nodes, by quadrature over gamma and a scan of F. Zero, up to rounding, for h <= 4.
    """
    gamma = np.linspace(-40 / epsilon, 40 / epsilon, 8_001)
    density = epsilon / 4 * np.exp(-np.abs(gamma) * epsilon / 2)
    weight = density * (gamma[1] - gamma[0])
    scale = 4 / epsilon

    def divergence(gap: float) -> float:
        """``gap`` is threshold - F."""
        bot = _laplace_below(gap - gamma, scale)
        bot_more = _laplace_below(gap - 1 - gamma, scale)
        apart = bot**height - math.exp(epsilon) * bot_more**height
        return float(weight @ np.maximum(apart, 0.0))

    gaps = np.linspace(-20 / epsilon, 60 / epsilon, 321)
    return max(divergence(gap) for gap in gaps)


def _laplace_below(x: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    tail = 0.5 * np.exp(-np.abs(x) / scale)
    return np.where(x < 0, tail, 1 - tail)


def printed_delta(
    gamma: NoiseTable,
    test: NoiseTable,
    release: NoiseTable,
    *,
    height: int,
    epsilon: float,
    threshold: int,
) -> float:
    """Return an upper bound on delta of the printed algorithm with bounded integer noise.

    The adversary is given gamma. For each value of gamma the recursion runs at the threshold that
    remains. Consecutive values of gamma form groups, and each group is charged at its worst
    (smallest) remaining threshold.
    """
    pmf = gamma.pmf
    run = max(1, len(pmf) // 48)
    total = 0.0
    for start in range(0, len(pmf), run):
        worst = gamma.lowest + min(start + run, len(pmf)) - 1
        left = threshold - worst
        if left < 2:
            total += float(pmf[start : start + run].sum())
            continue
        total += float(pmf[start : start + run].sum()) * path_delta(
            test, release, height=height, epsilon=epsilon, remainder=False, threshold=left
        )
    return min(1.0, total)
