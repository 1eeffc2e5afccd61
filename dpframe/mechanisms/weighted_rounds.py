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
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.weighted_round_noise import Law, RoundLaws
from dpframe.counts import CountTree

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
    """Users and their nodes, which the mechanism starts from. Private."""

    @property
    def tree(self) -> CountTree: ...

    @property
    def size(self) -> int: ...

    @property
    def shares(self) -> tuple[int, ...]: ...

    @property
    def is_searched(self) -> NDArray[np.bool_]: ...

    def nodes_above(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]: ...

    def weigh(self, importance: Whole, norm: int) -> Whole: ...

    def sizes(self, shown: NDArray[np.bool_], bins: int) -> Whole: ...

    def count_users(self, shown: NDArray[np.bool_], norm: int, at_most: int) -> Whole: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundNodes:
    """Nodes that are shown, by their positions, and counts in units of ``1 / grid``. Public.

    ``at_most`` nodes of a user count fully: of the lowest nodes, and of the nodes above these.
    ``noise_unit`` is what a unit of noise is worth at each node, in these units.
    """

    shown: Whole
    count: Whole
    grid: int
    noise_unit: Whole
    at_most: tuple[int, ...]


def cost(laws: RoundLaws, *, epsilon: float) -> float:
    """Return delta of all rounds and counts at ``epsilon``."""
    return laws.cost(epsilon)


def run(nodes: WeightSource, *, laws: RoundLaws, at_most: int | None) -> FoundNodes:
    """Find nodes, then count the users of each shown node.

    Of one column, the values found are shown. Of several levels, the nodes above these are shown,
    too, with the root. The lowest nodes and the nodes above them divide the norm of a user.
    """
    found = find_nodes(nodes, laws)
    parts = [found]
    if len(nodes.shares) > 1:
        inner = nodes.nodes_above(found)
        inner[0] = True
        parts = [found & ~inner, inner]
    norms = part_norms(laws, len(parts))
    bounds = [
        at_most or (_choose_at_most(nodes, part, norm, laws) if part.any() else 1)
        for part, norm in zip(parts, norms, strict=True)
    ]
    grids = full_user_weights(laws, bounds)
    whole = math.prod(grids)
    count, unit = (np.zeros(nodes.size, dtype=np.int64) for _ in range(2))
    for part, norm, bound, grid in zip(parts, norms, bounds, grids, strict=True):
        exact = nodes.count_users(part, norm, bound)
        unit[part] = whole // grid
        count[part] = (exact + laws.count.noise.draw(len(exact))) * (whole // grid)
    shown = np.logical_or.reduce(parts)
    return FoundNodes(
        shown=np.flatnonzero(shown),
        count=count[shown],
        grid=whole,
        noise_unit=unit[shown],
        at_most=tuple(bounds),
    )


ABOVE = Fraction(3, 20)
"""Part of the square of a user's norm for counts of nodes above the lowest ones: these are of more
users, and of one user there are few."""


def part_norms(laws: RoundLaws, parts: int) -> tuple[int, ...]:
    """Return the norms of a user in the counts of the lowest nodes and of the nodes above them."""
    norm = laws.count.norm
    if parts == 1:
        return (norm,)
    above = math.isqrt(int(norm * norm * ABOVE))
    return math.isqrt(norm * norm - above * above), above


def full_user_weights(laws: RoundLaws, at_most: Sequence[int]) -> tuple[int, ...]:
    """Return the weights of a user who counts fully, by the parts that ``at_most`` is for."""
    norms = part_norms(laws, len(at_most))
    return tuple(math.isqrt(n * n // most) for n, most in zip(norms, at_most, strict=True))


def find_nodes(nodes: WeightSource, laws: RoundLaws) -> NDArray[np.bool_]:
    """Return which nodes reach the threshold after any round.

    Only nodes that take part count: the threshold allows for ``laws.items`` new nodes of a user. A
    node above a found node is public, and gets no more weight.
    """
    importance = np.full(nodes.size, PLAIN, dtype=np.int64)
    score = np.zeros(nodes.size, dtype=np.int64)
    found, searched = np.zeros(nodes.size, dtype=np.bool_), nodes.is_searched
    for t, one in enumerate(laws.rounds):
        weights = nodes.weigh(importance, one.norm)
        score[1:] += one.part * (weights[1:] + one.noise.draw(nodes.size - 1))  # all but the root
        found |= score >= laws.threshold  # released, in thought, as is the score
        known = found | nodes.nodes_above(found & searched)
        importance = _importance(score, known, laws.rounds[: t + 1], laws.rounds[t + 1 :], laws)
    return found & searched


def least_score(laws: RoundLaws, done: int) -> float:
    """Return the score after ``done`` rounds below which a value is given nothing more."""
    before, left = laws.rounds[:done], laws.rounds[done:]
    spent, rest = (sum(one.part for one in some) for some in (before, left))
    return (laws.threshold + _spare(left)) * spent / (spent + HOPELESS * rest)


def _spare(left: Sequence[Law]) -> float:
    """Return how far above the threshold a score is aimed, for the noise to come."""
    return SPARE * math.sqrt(sum((one.part * one.sigma) ** 2 for one in left))


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
    got = np.maximum(score, 1) / spent
    need = (laws.threshold + _spare(left) - score) / rest
    times = np.where(found | (score <= 0), 0.0, need / got)
    return np.where(times > HOPELESS, 0, np.rint(PLAIN * times)).astype(np.int64)


def _choose_at_most(
    nodes: WeightSource, shown: NDArray[np.bool_], norm: int, laws: RoundLaws
) -> int:
    """Choose how many nodes of a user count fully, by a noisy histogram."""
    assert laws.sizes is not None
    many = int(shown.sum())
    bins = many.bit_length()
    noisy = nodes.sizes(shown, bins) + laws.sizes.noise.draw(bins)
    return best_at_most(noisy, many, laws, norm)


def best_at_most(noisy: Whole, many: int, laws: RoundLaws, norm: int) -> int:
    """Choose ``at_most`` with the least predicted error of ``many`` counts, from a noisy histogram
    of sizes that is already released."""
    assert laws.sizes is not None
    sd = laws.sizes.sigma
    users = np.maximum(0.0, noisy - sd**2 / np.maximum(noisy, sd))  # less what noise alone makes
    place = np.arange(len(noisy))[:, None] + (np.arange(POINTS) + 0.5) / POINTS
    size = np.minimum(np.floor(2.0**place), many)
    tried = {min(many, norm**2 // grid**2) for grid in range(1, norm + 1)}  # no unit is left over

    def error(a: int) -> float:
        lost = size * (1 - np.sqrt(np.minimum(1.0, a / size)))
        mean = float(users @ lost.mean(axis=1)) / many
        return mean**2 + (laws.count.sigma / math.isqrt(norm * norm // a)) ** 2

    best: int = min((a for a in sorted(tried) if a <= norm * norm), key=error)
    return best
