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

Sums: what a user has at nodes is cut at one level of this user, the highest one that keeps the
Euclidean norm within a bound. The bound is chosen by a noisy histogram of users' norms, if nobody
names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.weighted_round_noise import Law, RoundLaws
from dpframe.counts import NodeSet
from dpframe.measures.measure import LARGEST, LEAST

Whole = NDArray[np.int64]

PLAIN = 512
"""Importance of a value about which nothing is known."""

HOPELESS = 2.0
"""A value is given nothing if it needs more than this many times the weight per round that it got
so far. A round counts by its ``part`` in scores."""

SPARE = 0.5
"""How far above the threshold a value is aimed, in deviations of the noise to come."""

LIKELY_CHANCE, LIKELY = 0.95, 1.645
"""The chance with which a node is said to be shown where no number is certain, and how many
deviations below its mean a Gaussian stays with that chance."""

POINTS = 8
"""Number of sizes that stand for all sizes of a bin of the histogram."""


class WeightSource(Protocol):
    """Users and their nodes, which the mechanism starts from. Private."""

    @property
    def nodes(self) -> NodeSet: ...

    @property
    def height(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def shares(self) -> tuple[int, ...]: ...

    @property
    def is_searched(self) -> NDArray[np.bool_]: ...

    def weigh(self, importance: Whole, norm: int) -> Whole: ...

    def sizes(self, shown: NDArray[np.bool_], bins: int) -> Whole: ...

    def count_users(self, shown: NDArray[np.bool_], norm: int, at_most: int) -> Whole: ...

    def amounts(self, column: int, part: NDArray[np.bool_]) -> Amounts: ...


class Amounts(Protocol):
    """What every user has of a column at the nodes of one part. Private."""

    def magnitudes(self, lower: float, upper: float) -> Whole: ...

    def bounded_sums(
        self, lower: float, upper: float, bound: float, norm: int, most: int
    ) -> Whole: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SumBounds:
    """Bounds of the sum number ``column`` of a source: what a user adds to one node is cut to them,
    and so is the root of the sum of squares over nodes. None is found privately."""

    column: int
    lower: float | None
    upper: float | None

    @property
    def largest(self) -> float | None:
        """The larger bound in absolute terms; None if it has to be found."""
        if self.lower is None or self.upper is None:
            return None
        return max(abs(self.lower), abs(self.upper))

    def bounds(self, norm: float) -> tuple[float, float]:
        """Both bounds, where ``norm`` was found for a missing one."""
        lower = -norm if self.lower is None else self.lower
        return lower, norm if self.upper is None else self.upper


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisySum:
    """A sum at shown nodes, in whole units. Public.

    ``number`` are whole units, and ``unit`` is what one is worth, for each shown node. ``norms``
    are the bounds of a user in each part of the shown nodes, and ``beyond`` is about how many users
    have more, None where nobody looked.
    """

    number: Whole
    unit: NDArray[np.float64]
    norms: tuple[float, ...]
    beyond: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundNodes:
    """Nodes that are shown, by their positions, and what is measured there. Public.

    ``count`` is in units of ``1 / weight``, for each node; empty where users are not counted.
    ``at_most`` nodes of a user count fully: of the lowest nodes, and of each part of the nodes
    above these.
    """

    shown: Whole
    count: Whole
    weight: Whole
    at_most: tuple[int, ...]
    sums: tuple[NoisySum, ...] = ()


def cost(laws: RoundLaws, *, epsilon: float) -> float:
    """Return delta of all rounds and counts at ``epsilon``."""
    return laws.cost(epsilon)


def run(
    users: WeightSource,
    *,
    laws: RoundLaws,
    at_most: int | None,
    sums: Sequence[SumBounds] = (),
    by_level: LevelParts | None = None,
) -> FoundNodes:
    """Find nodes, then count the users of each shown node, and take ``sums``.

    Of one column, the values found are shown. Of several levels, the nodes above these are shown,
    too, with the root. Parts of what is shown divide the norm of a user: the lowest nodes and the
    nodes above them, or those that ``by_level`` names.
    """
    found = find_nodes(users, laws)
    shown, parts = found, [found]
    if by_level is not None or len(users.shares) > 1:
        inner = users.nodes.nodes_above(found)
        inner[0] = True
        shown, parts = found | inner, [found & ~inner, inner]
    norms: Callable[[Law], tuple[int, ...]] = partial(part_norms, parts=len(parts))
    if by_level is not None:
        norms = by_level.norms
        band = by_level.of_level[np.minimum(users.nodes.level, users.height - 1)]
        parts = [
            parts[0],
            *(inner & (band == at) for at in range(1, len(by_level.levels_above) + 1)),
        ]
    sizes = [_draw_sizes(users, part, laws) for part in parts]
    count = weight = np.zeros(0, dtype=np.int64)
    bounds = [at_most or 1] * len(parts)
    if laws.count is not None:
        if at_most is None:
            bounds = [
                best_at_most(one, laws.count, norm) if one else 1
                for one, norm in zip(sizes, norms(laws.count), strict=True)
            ]
        count, weight = _count_users(users, parts, norms(laws.count), bounds, laws.count)
    return FoundNodes(
        shown=np.flatnonzero(shown),
        count=count,
        weight=weight,
        at_most=tuple(bounds),
        sums=tuple(
            _measure_sum(users, parts, norms(law), one, law, laws.sizes, sizes)
            for one, law in zip(sums, laws.sums, strict=True)
        ),
    )


def _count_users(
    users: WeightSource,
    parts: Sequence[NDArray[np.bool_]],
    norms: Sequence[int],
    at_most: Sequence[int],
    law: Law,
) -> tuple[Whole, Whole]:
    """Return noisy counts at the shown nodes, and the weight of a user who counts fully there."""
    count, weight = (np.zeros(users.size, dtype=np.int64) for _ in range(2))
    weights = full_user_weights(norms, at_most)
    for part, norm, most, full in zip(parts, norms, at_most, weights, strict=True):
        exact = users.count_users(part, norm, most)
        weight[part] = full
        count[part] = exact + law.noise.draw(len(exact))
    shown = np.logical_or.reduce(list(parts))
    return count[shown], weight[shown]


def _measure_sum(
    users: WeightSource,
    parts: Sequence[NDArray[np.bool_]],
    norms: Sequence[int],
    asked: SumBounds,
    law: Law,
    searching: Law | None,
    sizes: Sequence[Sizes | None],
) -> NoisySum:
    """Return a sum at the shown nodes; a user has a norm of its own in each part of these."""
    number, unit = np.zeros(users.size, dtype=np.int64), np.zeros(users.size)
    found, beyond = [], list[int | None]()
    for at, (part, norm, size) in enumerate(zip(parts, norms, sizes, strict=True)):
        amounts, bound, more = users.amounts(asked.column, part), asked.largest, None
        if bound is None:
            assert searching is not None
            noisy = amounts.magnitudes(*asked.bounds(math.inf)) + searching.noise.draw(BINS)
            bound, more = best_norm(
                noisy,
                many=int(part.sum()),
                size=1.0 if size is None else size.mean,
                sd=law.sigma / norm,
                sd_of_bins=searching.sigma,
                spread=FEW_SPREAD if at else 1.0,
            )
        most = law.values // len(norms)
        exact = amounts.bounded_sums(*asked.bounds(bound), bound, norm, most)
        number[part] = exact + law.noise.draw(len(exact))
        unit[part] = bound / norm
        found.append(bound)
        beyond.append(more)
    shown = np.logical_or.reduce(list(parts))
    return NoisySum(
        number=number[shown], unit=unit[shown], norms=tuple(found), beyond=tuple(beyond)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelParts:
    """Parts of shown nodes that are measured apart, by level: the lowest nodes, the root, and bands
    of levels between. A user has a norm of its own in each.

    ``share`` is the part of the square of a norm for all nodes above the lowest ones, and ``most``
    is how many bands there are, at most.
    """

    height: int
    share: Fraction
    most: int

    @property
    def bands(self) -> int:
        return min(self.height - 1, self.most)

    @property
    def of_level(self) -> Whole:
        """The part of a node of each level that is no lowest node: 1 for the root, then one for
        each band. The last level has lowest nodes alone."""
        level = np.arange(self.height)
        band = (level - 1) * self.bands // max(1, self.height - 1)
        return np.where(level == 0, 1, 2 + band)

    @property
    def levels_above(self) -> list[list[int]]:
        """The levels of each part above the lowest nodes."""
        part = self.of_level.tolist()
        return [[n for n, own in enumerate(part) if own == at] for at in range(1, max(part) + 1)]

    def norms(self, law: Law) -> tuple[int, ...]:
        """The norms of a user in each part."""
        others = 1 + self.bands
        each = math.isqrt(int(law.norm**2 * self.share / others))
        return math.isqrt(law.norm**2 - others * each**2), *[each] * others


def node_parts(height: int) -> LevelParts:
    """Return the parts of the nodes of one hierarchy."""
    return LevelParts(height=height, share=Fraction(1, 4), most=4)


def cell_parts(height: int) -> LevelParts:
    """Return the parts of cells: most of them are above others, and kinds differ in how many cells
    a user has. With these numbers errors above the lowest cells are three quarters of those with
    the numbers of nodes, and those of lowest cells a quarter larger (docs/decisions)."""
    return LevelParts(height=height, share=Fraction(1, 2), most=8)


ABOVE = Fraction(3, 20)
"""Part of the square of a user's norm at nodes above the lowest ones: these are of more users,
and of one user there are few."""


def part_norms(law: Law, *, parts: int) -> tuple[int, ...]:
    """Return the norms of a user at the lowest nodes and at the nodes above them."""
    norm = law.norm
    if parts == 1:
        return (norm,)
    above = math.isqrt(int(norm * norm * ABOVE))
    return math.isqrt(norm * norm - above * above), above


def full_user_weights(norms: Sequence[int], at_most: Sequence[int]) -> tuple[int, ...]:
    """Return the weights of a user who counts fully, by the parts that ``at_most`` is for."""
    return tuple(math.isqrt(n * n // most) for n, most in zip(norms, at_most, strict=True))


def find_nodes(users: WeightSource, laws: RoundLaws) -> NDArray[np.bool_]:
    """Return which nodes reach the threshold after any round.

    Only nodes that take part count: the threshold allows for ``laws.items`` new nodes of a user. A
    node above a found node is public, and gets no more weight.
    """
    importance = np.full(users.size, PLAIN, dtype=np.int64)
    score = np.zeros(users.size, dtype=np.int64)
    found, searched = np.zeros(users.size, dtype=np.bool_), users.is_searched
    for t, one in enumerate(laws.rounds):
        weights = users.weigh(importance, one.norm)
        score[1:] += one.part * (weights[1:] + one.noise.draw(users.size - 1))  # all but the root
        found |= score >= laws.threshold  # released, in thought, as is the score
        known = found | users.nodes.nodes_above(found & searched)
        importance = _importance(score, known, laws.rounds[: t + 1], laws.rounds[t + 1 :], laws)
    return found & searched


def least_score(laws: RoundLaws, done: int) -> float:
    """Return the score after ``done`` rounds below which a value is given nothing more."""
    before, left = laws.rounds[:done], laws.rounds[done:]
    spent, rest = (sum(one.part for one in some) for some in (before, left))
    return (laws.threshold + _spare(left)) * spent / (spent + HOPELESS * rest)


def likely_weight(laws: RoundLaws) -> float:
    """Return how many whole users find a value with a chance of 95 %, at least.

    A value is missed if its last score is below the threshold, or if it gets nothing more after an
    earlier round, as it seems out of reach. The chances add up to at most 5 %.
    """
    least = [least_score(laws, t) for t in range(1, len(laws.rounds))]
    weight = square = 0.0
    scores = []
    for one, score in zip(laws.rounds, [*least, laws.threshold], strict=True):
        weight, square = weight + laws.unit * one.part, square + (one.part * one.sigma) ** 2
        deviation = math.sqrt(2 * square)
        scores.append((weight / deviation, score / deviation))

    def missed(users: float) -> float:
        return sum(math.erfc(users * each - score) / 2 for each, score in scores)

    low, high = 0.0, 1.0
    while missed(high) > 1 - LIKELY_CHANCE:
        low, high = high, 2 * high
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) > 1 - LIKELY_CHANCE else (low, middle)
    return high


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sizes:
    """How many of some shown nodes users have, from a noisy histogram. Public.

    ``users``: how many users each bin has, shape (bins,); ``size``: sizes that stand for all sizes
    of a bin, shape (bins, ``POINTS``); ``many``: how many nodes are shown.
    """

    users: NDArray[np.float64]
    size: NDArray[np.float64]
    many: int

    @classmethod
    def of(cls, noisy: Whole, many: int, sd: float) -> Sizes:
        """``sd`` is the noise of a bin."""
        place = np.arange(len(noisy))[:, None] + (np.arange(POINTS) + 0.5) / POINTS
        return cls(
            users=_less_noise(noisy, sd),
            size=np.minimum(np.floor(2.0**place), many),
            many=many,
        )

    @property
    def mean(self) -> float:
        """The mean size of users who have any of these nodes; 1 where nobody is seen."""
        whole = float(self.users.sum())
        return float(self.users @ self.size.mean(axis=1)) / whole if whole else 1.0


def _less_noise(noisy: Whole, sd: float) -> NDArray[np.float64]:
    """Return counts without what noise alone makes of small ones."""
    out: NDArray[np.float64] = np.maximum(0.0, noisy - sd**2 / np.maximum(noisy, sd))
    return out


def _draw_sizes(users: WeightSource, shown: NDArray[np.bool_], laws: RoundLaws) -> Sizes | None:
    """Return how many of the shown nodes users have; None without a histogram, or without nodes."""
    many = int(shown.sum())
    if laws.sizes is None or not many:
        return None
    bins = many.bit_length()
    noisy = users.sizes(shown, bins) + laws.sizes.noise.draw(bins)
    return Sizes.of(noisy, many, laws.sizes.sigma)


def best_at_most(sizes: Sizes, law: Law, norm: int) -> int:
    """Choose ``at_most`` with the least predicted error of counts."""
    many, size = sizes.many, sizes.size
    tried = {min(many, norm**2 // grid**2) for grid in range(1, norm + 1)}  # no unit is left over

    def error(a: int) -> float:
        lost = size * (1 - np.sqrt(np.minimum(1.0, a / size)))
        mean = float(sizes.users @ lost.mean(axis=1)) / many
        return mean**2 + (law.sigma / math.isqrt(norm * norm // a)) ** 2

    best: int = min((a for a in sorted(tried) if a <= norm * norm), key=error)
    return best


BINS = LARGEST - LEAST + 1
"""Bins of magnitudes, of powers of two."""

REAL = 3.0
"""A bin beside other real bins is taken for real from this many deviations of its noise on."""

LOST = 0.75
"""How much more a user with n nodes loses than the norm does, in roots of n. With 0.5 median errors
are a little smaller on the sets of ``tests/benchmarks/user_rollups.py``, and with 1 less is cut."""


FEW_SPREAD = 0.75
"""As ``spread`` at nodes above the lowest ones: most of what is lost there is lost by a few large
nodes, so that a mean over all of them says too little."""


def best_norm(
    noisy: Whole, *, many: int, size: float, sd: float, sd_of_bins: float, spread: float = 1.0
) -> tuple[float, int]:
    """Choose the bound on the norms of users, a power of two, with the least predicted error of
    ``many`` sums, from a noisy histogram of norms that is already released. Return about how many
    users have more, too.

    ``size`` is how many of the nodes a user has; what is lost is divided by the power ``spread`` of
    ``many``; ``sd`` is the noise of a sum for each unit of the bound, ``sd_of_bins`` that of a bin.
    Only bins in one run around the fullest three count: single bins far off would be noise.
    """
    three = np.convolve(noisy, np.ones(3), mode="valid")
    top = int(np.argmax(three)) + 1
    real = noisy >= REAL * sd_of_bins
    real[top - 1 : top + 2] = True
    apart = np.flatnonzero(~real)
    first = apart[apart < top].max(initial=-1) + 1
    last = apart[apart > top].min(initial=len(noisy))
    users = _less_noise(noisy[first:last], sd_of_bins)
    exponents = np.arange(LEAST, LARGEST + 1, dtype=np.float64)
    middles, ends = 1.5 * 2.0 ** exponents[first:last], 2.0 ** (exponents + 1)
    lost = np.maximum(middles - ends[:, None], 0) @ users / max(1, many) ** spread
    lost *= max(1.0, LOST * math.sqrt(size))
    best = int(np.argmin((ends * sd) ** 2 + lost**2))
    return float(ends[best]), round(float(users[max(0, best + 1 - first) :].sum()))
