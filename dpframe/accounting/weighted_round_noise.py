"""Gaussian noise along paths, and for rounds of weighted counts.

**Along paths** tests and releases have Gaussian noise: one curve, however much moves and where.

A Gaussian *rounded* to the nearest whole number is a function of continuous Gaussian noise:
count + round(Z) = round(count + Z). So the claims are the claims for continuous noise.

One unit of privacy moves residuals by s_1, s_2, ..., in answers that follow each other; which node
comes next, and by how much it moves, may depend on all earlier answers. On each of h levels the
moves of the tested nodes add up to at most K, and so do the moves of all released nodes: whatever
moves is released once. A sum of squares is at most K times the sum of the moves, therefore

    (s_1 / sigma_1)^2 + (s_2 / sigma_2)^2 + ...  <=  K^2 (h / test^2 + 1 / release^2)  =  mu^2,

with certainty. Gaussian noise that is chosen adaptively within such a bound is no worse than one
count that moves by mu in units of its noise (Smith, Thakurta, "Fully Adaptive Composition for
Gaussian Differential Privacy", 2022; Koskela, Tobaben, Honkela, "Individual Privacy Accounting with
Gaussian Differential Privacy", 2023): D(t) = Phi(mu/2 - ln t/mu) - t Phi(-mu/2 - ln t/mu), in both
directions (Balle and Wang 2018, Theorem 8). Whole users, or groups of records, whose moves add up
to K need no group privacy: K is in mu.

Tables have ends. An answer that only one of two neighbours can give lies within s of an end, where
s is the move of its node. However K is divided among the nodes of a level, such answers together
have a mass of at most `edge`: K times the largest ratio of the mass within s of an end to s, over
all s up to K. Where both neighbours can give an answer, cutting divides both chances by the same
mass of the table. The remaining errors of 64-bit weights and of floats are added for each answer
that one unit of privacy can move, at most (h + 1) K answers.

**Rounds** of weighted counts of a user's items, and counts of users at last, have Gaussian noise,
too.

In every round a user gives whole weights, of Euclidean norm at most ``unit``, to at most ``items``
values of their own. Which values, and how much, depends on this user and on what earlier rounds
released. *Scores* are sums of the rounds, each ``part`` times over; a value whose score reaches
``threshold`` is found. Then the found values are counted: a user is in one bin of a histogram of
how many found values users have, and gives found values whole weights of norm at most ``norm``.
Sums are like counts, each with weights and a norm of its own.

*Released* is, in thought, the noisy weight of every possible value, round by round. Fix neighbours
D and D', where D has one user u more, and the set U of values that take part in D. A mechanism M
that draws noise for all of U, in D' too, releases Gaussian noise on vectors that differ by at most
``unit`` a round, chosen after earlier answers. So D and D' are told apart as by one count that
moves by mu = root of the sum of (unit / sigma_t)^2 + (1 / sigma')^2 + (norm / sigma)^2 in units of
its noise, with certainty (Smith, Thakurta, "Fully Adaptive Composition for Gaussian Differential
Privacy", 2022). Which values are found, from what round on, and all counts are functions of what M
releases. As long as no value that only u has is found, the result shown is the same function of
what M releases in D and in D', where these values do not exist. So with delta(epsilon) of M, and b
the chance that a value of u alone is ever found,

    P(D in S)  <= b + P(M(D) in S, none)  <= b  + e^epsilon P(D' in S) + delta
    P(D' in S) <= b' + P(M(D') in S, none) <= b' + e^epsilon P(D in S) + delta,

where b' is the chance that noise alone finds one of these values in M(D'). It is at most the bound
on b below.

*The bound on b.* A user takes part with at most ``items`` values. Here only values exist with which
somebody takes part: noise finds no other value. The score of a value of u alone after rounds 1..t
is at most ``unit`` (a_1 + .. + a_t) above the score of the noise alone, whatever weights it got and
however they followed the noise of earlier rounds: no weight is above the norm. So b is at most
``items`` times the sum over t of P(a_1 Z_1 + .. + a_t Z_t >= threshold - unit (a_1 + .. + a_t)):
for all new values of a user at once, and all rounds.

*Whole numbers.* Z is a Gaussian rounded to the nearest whole number. So the claims for M are the
claims for continuous noise, as along paths, and Z is at most 1/2 above this continuous noise: the
sum is at most (a_1 + .. + a_t)/2 above a Gaussian. Every bound on a tail allows for this half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from dpframe.accounting.losses import closest_numbers, least_integer, normal_delta
from dpframe.accounting.path_recursion import Laws, path_budget_error
from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable, normal_density, rounded_normal

ETA = 1e-11
"""Relative error of a rounded Gaussian's density in floats, at most (tests/privacy)."""

CURVE_PART, RELEASE_END = 0.5, 0.05
"""Parts of delta: the first decides the spread, the second pays for the ends of the release noise;
the rest pays for the ends of the test noise, which thresholds follow."""

FARTHEST = 12.0
"""Largest bound of a table, in sigmas."""

WIDER = (1.001, 1.01, 1.05)
"""Factors on the scales that the curve of an exact Gaussian allows. A wider law leaves a part of
delta to the rounding of tables; the first factor with which all costs are within delta is taken."""

LARGEST_TABLE = 8_000_000
"""Most entries of a table, as the mean of the tables for tests and for releases."""


def spread_of(laws: Laws, *, height: int, moves: int) -> float:
    """Return mu: what all answers tell about one unit of privacy that moves ``moves`` records."""
    return moves * math.sqrt(height / laws.left**2 + 1 / laws.release_scale**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianLeakage:
    """What Gaussian releases tell about one unit of privacy; over several releases, all fields add
    up.

    ``squares`` is mu^2. ``ends`` is the mass of answers that a neighbour cannot give. ``rounding``
    is how far the tables that are moved are from the laws that they round, in total variation.
    ``factor`` is by how much, at most, cutting raises the logarithm of a chance. ``shift`` is how
    far a loss is off in floats.
    """

    squares: float
    ends: float
    rounding: float
    factor: float
    shift: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon`` >= 0."""
        curve = normal_delta(math.sqrt(self.squares) * (1 + 1e-12), epsilon - self.shift)
        delta = self.ends + math.exp(self.factor) * curve + self.rounding * (1 + math.exp(epsilon))
        return min(1.0, delta * (1 + 1e-9) + 1e-16)


def gaussian_leakage(laws: Laws, *, height: int, moves: int) -> GaussianLeakage:
    """Return upper bounds on what one release tells, from the tables that are drawn from."""
    reach = laws.grid * moves
    ends = rounding = factor = 0.0
    for noise, sigma, nodes in (
        (laws.test, laws.left * laws.grid, height * reach),
        (laws.release, laws.release_scale * laws.grid, reach),
    ):
        ends += nodes / reach * edge(noise, reach)
        rounding += nodes * table_distance(noise, sigma)
        beyond = math.erfc((noise.highest + 0.5) / sigma / math.sqrt(2))
        factor += nodes * (beyond * (1 + 1e-9) / (1 - beyond) + ETA)
    return GaussianLeakage(
        squares=spread_of(laws, height=height, moves=moves) ** 2,
        ends=ends,
        rounding=rounding,
        factor=factor,
        shift=2 * (height + 1) * reach * ETA,
    )


def normal_cost(laws: Laws, *, height: int, moves: int, epsilon: float) -> float:
    """Return an upper bound on delta at ``epsilon`` >= 0, from the tables that are drawn from."""
    return gaussian_leakage(laws, height=height, moves=moves).delta(epsilon)


def edge(noise: NoiseTable, reach: int) -> float:
    """Return the mass of answers a neighbour cannot give, if nodes move by ``reach`` together."""
    end = min(reach, len(noise.weights))
    tail = np.cumsum(noise.weights[::-1][:end].astype(np.float64)) / 2.0**64
    return float((tail / np.arange(1, end + 1)).max()) * reach


@lru_cache(maxsize=64)
def table_distance(noise: NoiseTable, sigma: float) -> float:
    """Return an upper bound on the total variation of the table from the cut law that it rounds."""
    density = normal_density(sigma, noise.highest)
    return float(np.abs(noise.pmf - density / density.sum()).sum()) + 4e-16


@lru_cache(maxsize=128)
def normal_laws(
    *, height: int, epsilon: float, delta: float, release_share: float, grid: int, moves: int
) -> Laws:
    """Return the least Gaussian noise within the budget; ``release_share`` is the part of mu^2 that
    the released counts get, and ``moves`` records move at once.

    Raises BudgetError where tables would be too long, or 64 bits too coarse.
    """
    mu = largest_mu(epsilon, CURVE_PART * delta * (1 - 1e-6))
    test = moves * math.sqrt(height / (1 - release_share)) / mu
    release = moves / math.sqrt(release_share) / mu
    if 2 * grid * FARTHEST * (test + release) > 2 * LARGEST_TABLE:
        raise path_budget_error(epsilon, delta, height)
    reach = grid * moves
    end = (1 - CURVE_PART - RELEASE_END) * delta / height
    for wider in WIDER:
        scales = test * wider, release * wider
        laws = Laws(
            shape="normal",
            test=_shortest_table(scales[0] * grid, reach, end / wider**5),
            release=_shortest_table(scales[1] * grid, reach, RELEASE_END * delta / wider**5),
            grid=grid,
            left=scales[0],
            right=scales[0],
            release_scale=scales[1],
            delta=1.0,
        )
        spent = normal_cost(laws, height=height, moves=moves, epsilon=epsilon)
        if spent <= delta:
            return replace(laws, delta=spent)
    raise path_budget_error(epsilon, delta, height)


def largest_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose delta at ``epsilon`` is within ``delta``, rounded down."""
    low, high = 0.0, 1.0
    while normal_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    return closest_numbers(lambda mu: normal_delta(mu, epsilon) > delta, low, high, part=1e-9)[0]


def _shortest_table(sigma: float, reach: int, end: float) -> NoiseTable:
    """Return the shortest table whose ends cost at most ``end``."""
    longest = math.ceil(FARTHEST * sigma) + reach
    whole = rounded_normal(sigma, longest)
    tail = np.concatenate([[0.0], np.cumsum(whole.weights[::-1].astype(np.float64)) / 2.0**64])

    def ends(bound: int) -> float:
        """Return nearly the ends of a table that is cut at ``bound``, from the long table."""
        past = whole.highest - bound
        moved = np.arange(1, reach + 1)
        at = np.minimum(past + moved, len(tail) - 1)
        return float(((tail[at] - tail[past]) / moved).max()) * reach

    return rounded_normal(sigma, least_integer(lambda bound: ends(bound) <= end, 0, longest))


PARTS = (3, 4, 5, 8)
"""Twentieths of the rounds' mu^2 that each round spends. The last round spends most, since earlier
rounds tell where weight is wanted."""

LARGEST_UNIT, LEAST_UNIT = 4096, 16
"""Largest and least bound on the norm of a user in a round, in whole weights."""

LONGEST = 2**20
"""Most entries of a table, about; wider noise gets smaller units."""

ENDS = 9.5
"""Sigmas from which on no weight of a 64-bit table is left."""

ROUNDS_CURVE_PART = 0.75
"""Part of delta that decides the spread; the rest is for values of one user, which thresholds
follow."""

SIZES_PART, SIZE_PART = 0.05, 0.025
"""Parts of the mu^2 of what is measured for histograms of users: of all together, and of each one
where there are more than two."""

SPARED = 1e-3
"""Part of delta that is left over: a verifier, which knows no weights of tables, bounds what they
cost a little higher."""

MOST_TOLD = 0.5
"""Largest part of the mu^2 of what is measured for all histograms."""

NORM = 128
"""Largest norm of a user in the counts, in whole weights."""

SUM_NORM, SUM_VALUES = 1024, 4096
"""Largest norm of a user in a sum, in whole weights, and the most found values that a user adds
to."""

TIGHT = 0.02
"""Part of delta that 64-bit tables may cost; smaller units have shorter tables."""

ROUNDS_WIDER = (1.0001, 1.001, 1.01)
"""Factors on the noise that the curve of exact Gaussian noise allows. Wider noise leaves a part of
delta to the rounding of tables; the first factor with which all costs are within delta is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Noise of scale ``sigma`` on whole weights. A user adds weights of norm at most ``norm`` to at
    most ``values`` values. Noisy weights of a round count ``part`` times in scores."""

    noise: NoiseTable
    sigma: float
    norm: int
    values: int
    part: int = 1


@dataclass(frozen=True, kw_only=True)
class RoundLaws:
    """The laws of all rounds, of the histograms of sizes if there are any, and of what is measured
    at found values: the counts, if users are counted, and sums.

    A user takes part with at most ``items`` values, and is in one bin of each of ``histograms``;
    ``delta`` is an upper bound at the requested epsilon.
    """

    items: int
    rounds: tuple[Law, ...]
    threshold: int
    sizes: Law | None
    count: Law | None
    delta: float
    histograms: int = 1
    sums: tuple[Law, ...] = ()

    @property
    def count_law(self) -> Law:
        """The law of the counts, where users are counted."""
        assert self.count is not None
        return self.count

    @property
    def measure_laws(self) -> tuple[Law, ...]:
        """The laws of the counts, if there are any, and of all sums."""
        return self.sums if self.count is None else (self.count, *self.sums)

    @property
    def unit(self) -> int:
        """The norm of a user in a round."""
        return self.rounds[0].norm

    @property
    def weights(self) -> int:
        """What a user adds to a score at most, over all rounds."""
        return self.unit * sum(one.part for one in self.rounds)

    @property
    def score_sd(self) -> float:
        """Standard deviation of the noise in a score, over the most that one user can add."""
        return _score_sigma(self.rounds) / self.weights

    @property
    def users(self) -> int:
        """How many users a found value has at least, except for noise."""
        return -(-self.threshold // self.weights)

    @cached_property
    def leakage(self) -> GaussianLeakage:
        """What all rounds and the counts tell about a user if no value of theirs alone is found."""
        return _rounds_leakage(self)

    def cost(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``, from the tables that are drawn from."""
        return min(1.0, self.leakage.delta(epsilon) + lone_value_chance(self))


def lone_value_chance(laws: RoundLaws) -> float:
    """Return an upper bound on the chance that a value that only one user has is ever found."""
    one = sum(
        _lone_score_chance(laws.rounds[: t + 1], laws.threshold, laws.unit)
        for t in range(len(laws.rounds))
    )
    return min(1.0, laws.items * one * (1 + 1e-9))


def _lone_score_chance(rounds: tuple[Law, ...], threshold: int, unit: int) -> float:
    """Bound P(score of a value of one user >= ``threshold`` after these rounds) from above."""
    parts = sum(one.part for one in rounds)
    inside = math.prod(1 - _mass_beyond_table(one.noise, one.sigma) for one in rounds)
    return gaussian_tail_bound(threshold - unit * parts - parts / 2, _score_sigma(rounds)) / inside


def gaussian_tail_bound(x: float, sigma: float) -> float:
    """Return an upper bound on P(continuous Gaussian noise >= x)."""
    return 0.5 * math.erfc(x / sigma * (1 - 1e-12) / math.sqrt(2)) * (1 + 1e-12)


def _score_sigma(rounds: tuple[Law, ...]) -> float:
    """Return sigma of the noise in scores."""
    return math.sqrt(sum((one.part * one.sigma) ** 2 for one in rounds))


def _mass_beyond_table(noise: NoiseTable, sigma: float) -> float:
    """Return an upper bound on the mass of the law beyond the ends of its table."""
    return math.erfc((noise.highest + 0.5) / sigma / math.sqrt(2)) * (1 + 1e-9) + 1e-300


def _rounds_leakage(laws: RoundLaws) -> GaussianLeakage:
    """Return the sums over all draws that one user can move.

    For a value that moves by s, the answers that one neighbour alone can give have at most the mass
    of the last s entries of a table. This is at most s times ``edge`` for a move of one. Moves of
    norm ``norm`` on ``values`` values add up to at most ``norm`` times the root of ``values``.
    """
    squares = ends = rounding = factor = shift = 0.0
    sizes = [] if laws.sizes is None else [laws.sizes] * laws.histograms
    for one in (*laws.rounds, *sizes, *laws.measure_laws):
        squares += (one.norm / one.sigma) ** 2
        ends += edge(one.noise, one.norm) * math.sqrt(one.values)
        rounding += one.values * _law_distance(one)
        beyond = _mass_beyond_table(one.noise, one.sigma)
        factor += one.values * (beyond / (1 - beyond) + ETA)
        shift += 2 * one.values * ETA
    return GaussianLeakage(
        squares=squares, ends=ends, rounding=rounding, factor=factor, shift=shift
    )


def _law_distance(one: Law) -> float:
    """Return an upper bound on how far the table is from its law.

    The bound is never below what a verifier knows without reading the weights: half a unit for each
    weight, for the mode as much as for all of them, and the error of floats.
    """
    return max(table_distance(one.noise, one.sigma), len(one.noise.weights) / 2.0**65 + 4e-16)


@lru_cache(maxsize=64)
def round_laws(
    *,
    epsilon: float,
    delta: float,
    release_share: float,
    items: int,
    histograms: int,
    count_share: float = 1.0,
    sum_shares: tuple[float, ...] = (),
) -> RoundLaws:
    """Return the least noise, and the least threshold, within the budget.

    Parameters
    ----------
    release_share
        Part of mu^2 for everything that is measured at found values.
    count_share, sum_shares
        How the counts of users and each sum divide this part, relative to each other; 0 for no
        counts.
    items
        Most values of a user that take part.
    histograms
        How many histograms tell how many found values users have, each of other values; 0 for none.

    Raises
    ------
    BudgetError
        64 bits are too coarse for this delta.
    """
    mu = largest_mu(epsilon, ROUNDS_CURVE_PART * delta * (1 - 1e-6))
    unit = LARGEST_UNIT
    while unit >= LEAST_UNIT:
        for wider in ROUNDS_WIDER:
            laws = _laws_for_mu(
                mu / wider, unit, release_share, items, histograms, count_share, sum_shares
            )
            if laws is None:
                break
            long = _length_distance(laws) * (1 + math.exp(epsilon)) > TIGHT * delta
            if long and unit > LEAST_UNIT:
                break
            left = delta * (1 - SPARED) - laws.leakage.delta(epsilon)
            if left <= 0:
                continue
            laws = replace(laws, threshold=_least_threshold(laws, left))
            spent = laws.cost(epsilon)
            if spent <= delta:
                return replace(laws, delta=spent)
        unit //= 2
    raise BudgetError(
        f"no 64-bit noise reaches delta={delta:g} at epsilon={epsilon:g} for {items} values a "
        "user. Raise delta, move epsilon towards 1, or pass contribution='share' without a "
        "mechanism."
    )


def _laws_for_mu(
    mu: float,
    unit: int,
    share: float,
    items: int,
    histograms: int,
    count_share: float,
    sum_shares: tuple[float, ...],
) -> RoundLaws | None:
    """Return laws that spend mu, without a threshold; None where tables are too long."""
    finding = unit / (mu * math.sqrt(1 - share))
    spread = [finding * math.sqrt(sum(PARTS) / part) for part in PARTS]
    if unit > LEAST_UNIT and 2 * ENDS * max(spread) > LONGEST:
        return None
    if 2 * ENDS * max(spread) > LARGEST_TABLE:
        return None
    told = share * min(MOST_TOLD, max(SIZES_PART, histograms * SIZE_PART)) if histograms else 0.0
    whole = count_share + sum(sum_shares)
    count, *sums = (
        mu * math.sqrt((share - told) * part / whole) if part else 0.0
        for part in (count_share, *sum_shares)
    )
    widest = max((NORM / part for part in (count, *sums) if part), default=0.0)
    if 2 * ENDS * widest > LARGEST_TABLE:
        return None
    return RoundLaws(
        items=items,
        rounds=tuple(
            _round_law(sigma, unit, items, part) for sigma, part in zip(spread, PARTS, strict=True)
        ),
        threshold=0,
        sizes=_round_law(math.sqrt(histograms) / (mu * math.sqrt(told)), 1, 1) if told else None,
        count=_round_law(NORM / count, NORM, NORM**2) if count else None,
        sums=tuple(map(_sum_law, sums)),
        delta=1.0,
        histograms=max(1, histograms),
    )


def _sum_law(mu: float) -> Law:
    """Return the law of a sum that spends mu, of the largest norm whose table is not too long."""
    norm = SUM_NORM
    while norm > NORM and 2 * ENDS * norm / mu > LONGEST:
        norm //= 2
    return _round_law(norm / mu, norm, SUM_VALUES)


def _length_distance(laws: RoundLaws) -> float:
    """Return how far the tables of rounds are from their laws because they are long."""
    return sum(one.values * (_law_distance(one) - 5e-16) for one in laws.rounds)


def _round_law(sigma: float, norm: int, values: int, part: int = 1) -> Law:
    noise = rounded_normal(sigma, math.ceil(ENDS * sigma))
    return Law(noise=noise, sigma=sigma, norm=norm, values=values, part=part)


def _least_threshold(laws: RoundLaws, left: float) -> int:
    """Return the least threshold that a value of one user reaches with chance at most ``left``."""
    low, high = laws.weights, laws.weights + math.ceil(40 * _score_sigma(laws.rounds))

    def enough(threshold: int) -> bool:
        return lone_value_chance(replace(laws, threshold=threshold)) <= left * (1 - 1e-9)

    return least_integer(enough, low, high)
