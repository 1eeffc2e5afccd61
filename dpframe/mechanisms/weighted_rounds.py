"""Values that many users have, found in rounds of weights, and how many users have each value.

Sources: weights of a user with Euclidean norm 1 and Gaussian noise, Gopi, Gulhane, Kulkarni, Shen,
Shokouhi, Yekhanin, "Differentially Private Set Union" (2020); several rounds, where later rounds
leave out found values, Swanberg, Desfontaines, Haney, "DP-SIPS" (2023); weights that follow the
noisy weights of earlier rounds, Chen, Cohen-Addad, Epasto, Zadimoghaddam, "Scalable Private
Partition Selection via Adaptive Weighting" (2025), MAD2R.

Neighbours: one user with all their values. Privacy: :mod:`dpframe.accounting.weighted_round_noise`.

Deviations: noisy weights of all rounds are added up, so that no round is lost on values that it did
not find. The importance of a value is the weight per round that it still needs, over the weight per
round that it got so far, and 0 where this ratio is out of reach. All numbers are whole, with noise
from tables. Importance is a function of scores, which are released in thought, and of public
numbers.

Counts: a user with up to ``at_most`` of the found values counts 1 at each of them; a user with
more, n of them, counts the root of at_most / n. ``at_most`` is chosen by a noisy histogram of how
many found values users have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.weighted_round_noise import Law, RoundLaws

Whole = NDArray[np.int64]

PLAIN = 512
"""Importance of a value about which nothing is known."""

HOPELESS = 2.0
"""A value is given nothing if it needs more than this many times the weight per round that it got
so far. A round counts by its ``part`` in scores."""

SPARE = 0.5
"""How far above the threshold a value is aimed, in deviations of the noise to come."""

POINTS = 8
"""Number of sizes that stand for all sizes of a bin of the histogram."""


class WeightSource(Protocol):
    """Users and their values, which the mechanism starts from. Private."""

    @property
    def values(self) -> int: ...

    @property
    def is_searched(self) -> NDArray[np.bool_]: ...

    def weigh(self, importance: Whole, norm: int) -> Whole: ...

    def sizes(self, found: NDArray[np.bool_], bins: int) -> Whole: ...

    def count_users(self, found: NDArray[np.bool_], norm: int, at_most: int) -> Whole: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundValues:
    """Values that were found, by their numbers, and counts in units of ``1 / grid``. Public.

    ``at_most`` values of a user count fully.
    """

    found: Whole
    count: Whole
    grid: int
    at_most: int


def cost(laws: RoundLaws, *, epsilon: float) -> float:
    """Return delta of all rounds and counts at ``epsilon``."""
    return laws.cost(epsilon)


def run(items: WeightSource, *, laws: RoundLaws, at_most: int | None) -> FoundValues:
    """Find values, then count the users of each found value."""
    found = find_values(items, laws)
    if not found.any():
        at_most = at_most or 1  # nothing is counted
    if at_most is None:
        at_most = _choose_at_most(items, found, laws)
    exact = items.count_users(found, laws.count.norm, at_most)
    return FoundValues(
        found=np.flatnonzero(found),
        count=exact + laws.count.noise.draw(len(exact)),
        grid=full_user_weight(laws, at_most),
        at_most=at_most,
    )


def full_user_weight(laws: RoundLaws, at_most: int) -> int:
    """Return the weight of a user who counts fully."""
    return math.isqrt(laws.count.norm**2 // at_most)


def find_values(items: WeightSource, laws: RoundLaws) -> NDArray[np.bool_]:
    """Return which values reach the threshold after any round.

    Only values that take part count: the threshold allows for ``laws.items`` new values of a user.
    """
    importance = np.full(items.values, PLAIN, dtype=np.int64)
    score = np.zeros(items.values, dtype=np.int64)
    found = np.zeros(items.values, dtype=np.bool_)
    for t, one in enumerate(laws.rounds):
        weights = items.weigh(importance, one.norm)
        score += one.part * (weights + one.noise.draw(items.values))
        found |= score >= laws.threshold  # released, in thought, as is the score
        importance = _importance(score, found, laws.rounds[: t + 1], laws.rounds[t + 1 :], laws)
    return found & items.is_searched


def _importance(
    score: Whole,
    found: NDArray[np.bool_],
    done: Sequence[Law],
    left: Sequence[Law],
    laws: RoundLaws,
) -> Whole:
    """Return the weight per round that values still need, over the weight per round that they got
    so far; public. A round counts by its ``part`` in scores."""
    if not left:
        return np.zeros(len(score), dtype=np.int64)
    spent, rest = (sum(one.part for one in some) for some in (done, left))
    spare = SPARE * math.sqrt(sum((one.part * one.sigma) ** 2 for one in left))
    got = np.maximum(score, 1) / spent
    need = (laws.threshold + spare - score) / rest
    times = np.where(found | (score <= 0), 0.0, need / got)
    return np.where(times > HOPELESS, 0, np.rint(PLAIN * times)).astype(np.int64)


def _choose_at_most(items: WeightSource, found: NDArray[np.bool_], laws: RoundLaws) -> int:
    """Choose how many values of a user count fully, by a noisy histogram."""
    assert laws.sizes is not None
    many = int(found.sum())
    bins = many.bit_length()
    noisy = items.sizes(found, bins) + laws.sizes.noise.draw(bins)
    return best_at_most(noisy, many, laws)


def best_at_most(noisy: Whole, many: int, laws: RoundLaws) -> int:
    """Choose ``at_most`` with the least predicted error of ``many`` counts, from a noisy histogram
    of sizes that is already released."""
    assert laws.sizes is not None
    sd, norm = laws.sizes.sigma, laws.count.norm
    users = np.maximum(0.0, noisy - sd**2 / np.maximum(noisy, sd))  # less what noise alone makes
    place = np.arange(len(noisy))[:, None] + (np.arange(POINTS) + 0.5) / POINTS
    size = np.minimum(np.floor(2.0**place), many)
    tried = {min(many, norm**2 // grid**2) for grid in range(1, norm + 1)}  # no unit is left over

    def error(a: int) -> float:
        lost = size * (1 - np.sqrt(np.minimum(1.0, a / size)))
        mean = float(users @ lost.mean(axis=1)) / many
        return mean**2 + (laws.count.sigma / full_user_weight(laws, a)) ** 2

    best: int = min((a for a in sorted(tried) if full_user_weight(laws, a) > 0), key=error)
    return best
