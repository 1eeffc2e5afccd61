"""Sampling rates of TrieHH and TrieHH++, as Chadha et al. (2023) set them for their comparison.

These are the papers' formulas, for the baselines. Draws at these rates are compared on public data,
and no guarantee is printed for them.
"""

from __future__ import annotations

import math

from dpframe.accounting.search import closest_numbers


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
