"""Running totals of a series: noise of a period that later noise takes back.

Source: Denisov, McMahan, Rush, Smith, Thakurta, "Improved Differential Privacy for SGD via Optimal
Private Linear Operators on Adaptive Streams" (2022); Henzinger, Upadhyay, "A Unifying Framework for
Differentially Private Sums under Continual Observation" (2024); McMahan, Pillutla, "An Inversion
Theorem for Buffered Linear Toeplitz (BLT) Matrices and Applications to Streaming Differential
Privacy" (2025), for factors (1 - x)^-g; Dwork, Naor, Pitassi, Rothblum, "Differential Privacy under
Continual Observation" (2010), for trees; Hay, Rastogi, Miklau, Suciu (2010), for least squares.

Neighbours: one record, or one user, in one period. x_t are the numbers of a part in period t, z are
independent draws in whole numbers, and C is a matrix of whole numbers, one column a period. Each
total has whole weights b over a whole divisor d, with b C = d (1, .., 1, 0, .., 0), exactly.
Released are

    Y_t = x_1 + .. + x_t + round(b_t z / d_t)    and, for the week,    Y_t - Y_(t-1).

One more in period s has the effect of z moved by column s of C, on everything that is released, and
on rows of later periods, whatever in these follows from what was released. So delta at epsilon is
at most the divergence of z from z moved by that column, for any choice of later rows (Denisov and
others, 2022, Theorem 2.1, for Gaussian noise; here for every law). For rounded Gaussian noise the
Euclidean norm of the column decides (:mod:`dpframe.accounting.weighted_round_noise`), for Laplace
noise the sum of its entries over their scales. Where a user moves several parts, by ``most`` in
total, norms are ``most`` times as large at most.

Deviation: C has rounded coefficients, so that no number is a float; b are those of C as it is.
Trees have no negative digits: least squares use every draw of a block for all its periods, which is
less noise (decision 0065), and some draws are made before their periods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.weighted_round_noise import (
    ENDS,
    ETA,
    LONGEST,
    SPARED,
    WIDER,
    GaussianLeakage,
    edge,
    largest_mu,
    table_distance,
)
from dpframe.counts import Wholes
from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable, UnboundedNoise, rounded_normal, rounded_up
from dpframe.postprocess.strategy import PARTS

LOOKS = ("totals", "weeks", "both")
"""What a reader of a series can look at: running totals, single periods, or both."""

LONGEST_SERIES = 400
"""Most periods of a series, a year of days: exact weights of more take long to find."""

FINE_POWERS = {100: 64, LONGEST_SERIES: 256}
"""Into how many parts 1 is divided in the coefficients of a series with up to so many periods:
finer ones change no error by a hundredth."""

POWERS = tuple(range(0, 55, 5))
"""Hundredths g of (1 - x)^-g to try: 0 is noise that nothing takes back, 50 the square root."""

BLOCK_SHARES = (Fraction(1, 5), Fraction(3, 10), Fraction(2, 5), Fraction(9, 20), Fraction(11, 20))
"""Parts of epsilon for all blocks of a tree, to try."""

FINE_SQUARES = 2**20
"""The divisor of weights by least squares."""


Row = Callable[[int], tuple[Sequence[int], int]]
"""The whole weights of a total, one a draw, and their divisor, for the number of a period."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """Which draws the noise of each period is made of; :func:`spread_of` makes it of ``made_of``.

    ``column`` is by how much one unit in the first period moves the draws; no later period moves
    them more. ``matrix`` has what ``row`` gives as floats, of shape (periods, draws). ``level`` is
    the number of the law of each draw, and ``shares`` are the parts of epsilon of these laws.
    """

    name: str
    made_of: tuple[int | str, ...]
    column: tuple[int, ...]
    row: Row
    matrix: NDArray[np.float64]
    level: tuple[int, ...]
    shares: tuple[Fraction, ...] = (Fraction(1),)

    @property
    def periods(self) -> int:
        """How many periods a series has."""
        return len(self.matrix)

    def variance(self, before: int, last: int, sds: Sequence[float]) -> tuple[float, float]:
        """The variance of the noise in what is released of the periods after number ``before`` up
        to number ``last``, for laws of these deviations; the largest part that one draw has."""
        weights = self.matrix[last] - (self.matrix[before] if before >= 0 else 0.0)
        each = (weights * np.array(sds)[list(self.level)]) ** 2
        whole = float(each.sum())
        return whole, float(each.max()) / whole

    @cached_property
    def errors(self) -> Mapping[str, float]:
        """Roots of mean squares of the noise in "totals" and in single periods ("weeks"), if a law
        with all of epsilon has deviation 1."""
        sds = np.array([1 / float(share) for share in self.shares])[list(self.level)]
        totals = self.matrix * sds
        periods = np.diff(totals, axis=0, prepend=0.0)
        return {
            name: math.sqrt(float((each * each).sum(axis=1).mean()))
            for name, each in (("totals", totals), ("weeks", periods))
        }


@lru_cache(maxsize=64)
def powers(hundredths: int, periods: int) -> Spread:
    """The factor (1 - x)^-g, g from 0 to 1/2, in whole parts of its coefficients.

    Draw t is used from period t on. Coefficients of totals are those of the inverse of C, times
    1 / (1 - x), as whole numbers over powers of the divisor.
    """
    fine = next(own for most, own in FINE_POWERS.items() if periods <= most)
    fine = 1 if hundredths == 0 else fine
    power, exact = Fraction(hundredths, 100), [1.0]
    for j in range(1, periods):
        exact.append(exact[-1] * float(power + j - 1) / j)
    column = tuple(round(fine * each) for each in exact)
    inverse = [1]  # over fine ** (j + 1)
    for j in range(1, periods):
        inverse.append(-sum(column[i] * inverse[j - i] * fine ** (i - 1) for i in range(1, j + 1)))
    sums = [inverse[0]]
    for j in range(1, periods):
        sums.append(sums[-1] * fine + inverse[j])
    each = np.array([own / fine ** (j + 1) for j, own in enumerate(sums)])
    apart = np.subtract.outer(np.arange(periods), np.arange(periods))

    def row(period: int) -> tuple[Sequence[int], int]:
        return [sums[period - i] * fine**i for i in range(period + 1)], fine ** (period + 1)

    return Spread(
        name=f"(1 - x)^-{float(power):g}",
        made_of=("powers", hundredths),
        column=column,
        row=row,
        matrix=np.where(apart >= 0, each[np.abs(apart)], 0.0),
        level=(0,) * periods,
    )


@lru_cache(maxsize=256)
def tree(width: int, levels: int, blocks: Fraction, periods: int) -> Spread:
    """Draws at every period and at blocks of ``width``, ``width``^2, .. periods, on ``levels``
    levels, of which the blocks have the part ``blocks`` of epsilon.

    Weights are least squares, rounded for blocks; those of periods follow, so that every total is
    exact.
    """
    shares = (Fraction(1) - blocks, *[blocks / max(1, levels - 1)] * (levels - 1))
    every = np.eye(periods, dtype=np.int64)
    rows, level, size = [every[:0]], [0] * periods, 1
    for number in range(1, levels):
        size *= width
        several = -(-periods // size)
        held = np.arange(periods)[None, :] // size == np.arange(several)[:, None]
        rows.append(held.astype(np.int64))
        level += [number] * several
    above = np.vstack(rows)
    weight = np.array([float(shares[at]) for at in level])
    upper, known = np.zeros((periods, len(above)), dtype=np.int64), dict[int, NDArray[np.int64]]()
    for first in range(0, periods, size) if levels > 1 else ():
        here = slice(first, min(first + size, periods))
        held = np.flatnonzero(above[:, here].any(axis=1))
        number = here.stop - first
        if number not in known:
            own = np.append(weight[here], weight[periods + held])[:, None]
            best = np.linalg.pinv(np.vstack([every[here, here], above[held, here]]) * own) * own.T
            known[number] = np.rint(best[:, number:] * FINE_SQUARES).astype(np.int64)
        upper[here, held] = known[number]
    lower = FINE_SQUARES * every - upper @ above
    sums = np.cumsum(np.hstack([lower, upper]), axis=0)

    def row(period: int) -> tuple[Sequence[int], int]:
        return sums[period].tolist(), FINE_SQUARES

    return Spread(
        name={1: "no blocks", 2: f"blocks of {width}"}.get(
            levels, f"blocks of {width}, {levels} levels"
        ),
        made_of=("tree", width, levels, str(blocks)),
        column=(1,) * levels,
        row=row,
        matrix=sums / FINE_SQUARES,
        level=tuple(level),
        shares=shares,
    )


def spread_of(made_of: Sequence[Any], periods: int) -> Spread:
    """The spread that a series began with, whatever would be chosen now."""
    kind, *given = made_of
    if kind == "powers":
        return powers(int(given[0]), periods)
    return tree(int(given[0]), int(given[1]), Fraction(given[2]), periods)


@lru_cache(maxsize=8)
def trees(periods: int) -> tuple[Spread, ...]:
    """Trees to try; the first has no blocks."""
    found = [tree(1, 1, Fraction(0), periods)]
    for levels in (2, 3):
        middle = periods ** (1 / levels) * (2 if levels == 2 else 1.25)
        widths = {max(2, round(middle * part)) for part in (0.7, 1.0, 1.4, 2.0)}
        for width in sorted(w for w in widths if w ** (levels - 1) < periods):
            found += [tree(width, levels, share, periods) for share in BLOCK_SHARES]
    return tuple(found)


WHOLE = 1 / 6, 1 / 3
"""Variance that rounding to whole numbers adds to a total and to a single period: each measured
number is rounded, and so are least squares; a period is a difference of two totals."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesLaw:
    """The noise of one vector over all periods: its spread, its laws, and what they cost.

    ``laws`` has the laws of the spread for the parts, and for each level of the hierarchy that is
    measured, too. One unit of privacy moves the parts, and each level, by ``most`` in all.
    ``sigmas`` are the scales of Gaussian noise, None for Laplace noise; ``delta`` is what all of it
    costs at ``epsilon``.
    """

    spread: Spread
    laws: Mapping[int, tuple[NoiseTable | UnboundedNoise, ...]]
    most: int
    epsilon: Fraction
    delta: float = 0.0
    sigmas: Mapping[int, float] | None = None

    def sds(self, at: int) -> list[float]:
        """The deviations of the laws, as if Laplace noise were continuous."""
        return [
            law.sd if isinstance(law, NoiseTable) else math.sqrt(2) * float(law.scale)
            for law in self.laws[at]
        ]

    def scales(self, before: int, last: int) -> dict[int, Fraction]:
        """The scales of one draw of Laplace noise that have the variance of the noise in what is
        released of the periods after number ``before`` up to ``last``, as floats."""
        added = WHOLE[before >= 0]  # a first period is a total
        squares = {
            at: self.spread.variance(before, last, self.sds(at))[0] + added for at in self.laws
        }
        return {at: Fraction(math.sqrt(square / 2)) for at, square in squares.items()}

    def share(self, before: int, last: int) -> float:
        """The largest part that one draw of Laplace noise has in this variance; none of Gaussian
        noise."""
        if self.sigmas is not None:
            return 0.0
        return max(self.spread.variance(before, last, self.sds(at))[1] for at in self.laws)

    def correlations(self, last: int, *, so_far: bool) -> list[float]:
        """Correlations of the noise of period ``last``, or of the total up to it, with that of
        every earlier one."""
        matrix = self.spread.matrix[: last + 1]
        rows = matrix if so_far else np.diff(matrix, axis=0, prepend=0.0)
        rows = rows * np.array(self.sds(PARTS))[list(self.spread.level)]
        added = [WHOLE[not so_far and number > 0] for number in range(last + 1)]
        sizes = np.sqrt((rows * rows).sum(axis=1) + added)
        found = (rows[:-1] @ rows[-1]) / (sizes[:-1] * sizes[-1])
        return [round(each, 12) for each in found.tolist()]

    @property
    def errors(self) -> Mapping[str, float]:
        """The errors of the spread for parts, in units of the vector."""
        whole = self.sds(PARTS)[0] * float(self.spread.shares[0])
        return {name: whole * own for name, own in self.spread.errors.items()}


def least_error(
    several: Sequence[Mapping[str, float]], look: str, beside: Sequence[Mapping[str, float]] = ()
) -> int:
    """The number of the errors to take for what a reader looks at. For both, an error is the larger
    of totals and single periods, each over the least there is, here and ``beside``."""
    least = {name: min(own[name] for own in (*several, *beside)) for name in LOOKS[:2]}
    names = LOOKS[:2] if look == "both" else (look,)
    parts = [max(own[name] / least[name] for name in names) for own in several]
    return parts.index(min(parts))


Weights = Mapping[int, Fraction]
"""Parts of epsilon for the parts and for each measured level, in fractions that sum to 1."""


def laplace_law(
    look: str,
    *,
    periods: int,
    epsilon: Fraction,
    most: int,
    weights: Weights,
    spread: Spread | None = None,
) -> SeriesLaw:
    """The tree with the least error, or that of ``spread``. Scales are rounded up: no delta."""
    several = trees(periods) if spread is None else (spread,)
    spread = several[least_error([one.errors for one in several], look)]
    laws = {
        at: tuple(
            UnboundedNoise(rounded_up(most / (epsilon * weight * share))) for share in spread.shares
        )
        for at, weight in weights.items()
        if weight
    }
    assert sum(most / law.scale for each in laws.values() for law in each) <= epsilon
    return SeriesLaw(spread=spread, laws=laws, most=most, epsilon=epsilon)


def gaussian_law(
    look: str,
    *,
    periods: int,
    epsilon: Fraction,
    delta: float,
    most: int,
    weights: Weights,
    spread: Spread | None = None,
) -> SeriesLaw:
    """The power with the least error, or that of ``spread``. BudgetError where the table of its
    noise would be too long, or 64 bits too coarse.

    Squares add up: what has the part w of epsilon in Laplace noise gets w^1.5 of mu^2, over the sum
    of these, which is best for the same errors.
    """
    several = [powers(g, periods) for g in POWERS] if spread is None else [spread]
    norms = [column_norm(one.column) for one in several]
    errors = [
        {name: norm * own for name, own in one.errors.items()}
        for one, norm in zip(several, norms, strict=True)
    ]
    spread = several[least_error(errors, look)]
    parts = {at: float(weight) ** 1.5 for at, weight in weights.items() if weight}
    least = column_norm(spread.column) * most / largest_mu(float(epsilon), CURVE_PART * delta)
    for wider in WIDER:
        sigmas = {
            at: least * wider * math.sqrt(sum(parts.values()) / own) for at, own in parts.items()
        }
        norm = math.ceil(column_norm(spread.column) * most)
        ends = {at: math.ceil(ENDS * sigma) + norm for at, sigma in sigmas.items()}
        if max(ends.values()) > LONGEST:
            break
        tables = {at: rounded_normal(sigma, ends[at]) for at, sigma in sigmas.items()}
        told = [gaussian_cost(tables[at], sigmas[at], spread.column, most) for at in tables]
        cost = all_leakage(told).delta(float(epsilon))
        if cost <= delta * (1 - SPARED):
            return SeriesLaw(
                spread=spread,
                laws={at: (table,) for at, table in tables.items()},
                most=most,
                epsilon=epsilon,
                delta=cost,
                sigmas=sigmas,
            )
    raise BudgetError(
        f"no Gaussian noise keeps ({float(epsilon):g}, {delta:g}) where one unit moves a number by "
        f"{most}. Use law='laplace', or lower the bounds."
    )


CURVE_PART = 0.95
"""Part of delta that decides the spread of Gaussian noise; the rest is for ends and rounding."""


def column_norm(column: Sequence[int]) -> float:
    """The Euclidean norm of a column, rounded up."""
    return math.sqrt(sum(each * each for each in column)) * (1 + 1e-14)


def gaussian_cost(
    table: NoiseTable, sigma: float, column: Sequence[int], most: int
) -> GaussianLeakage:
    """What all periods together tell of one unit of privacy: the column moves ``most`` parts by one
    each, or fewer parts by more. Between them they move as many draws at most as the column has
    entries, times ``most``, by the sum of the column times ``most``."""
    moved, reach = len(column) * most, sum(column) * most
    beyond = math.erfc((table.highest + 0.5) / sigma / math.sqrt(2))
    return GaussianLeakage(
        squares=(column_norm(column) * most / sigma) ** 2,
        ends=edge(table, reach),
        rounding=moved * table_distance(table, sigma),
        factor=moved * (beyond * (1 + 1e-9) / (1 - beyond) + ETA),
        shift=2 * moved * ETA,
    )


def all_leakage(several: Sequence[GaussianLeakage]) -> GaussianLeakage:
    """What several measured levels tell together: all adds up."""
    return GaussianLeakage(
        **{
            name: sum(getattr(one, name) for one in several)
            for name in ("squares", "ends", "rounding", "factor", "shift")
        }
    )


# -- a period --------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Memory:
    """What a series keeps of one vector. Secret but for ``released``.

    ``draws`` has the draws made so far, by number; ``rounded`` the noise in the last total, in
    whole numbers; ``released`` the numbers of every period with their noise. All have one entry for
    each measured number, parts first.
    """

    draws: dict[int, list[int]] = field(default_factory=dict)
    rounded: list[int] | None = None
    released: list[list[int]] = field(default_factory=list)

    def __repr__(self) -> str:
        return "Memory(<secret>)"


def run_period(exact: Mapping[int, Wholes], law: SeriesLaw, memory: Memory) -> None:
    """Draw what the next period needs, and add it to the numbers of the parts and levels, in
    ``memory.released``."""
    weights, divisor = law.spread.row(len(memory.released))
    used = [number for number, weight in enumerate(weights) if weight]
    for number in used:
        if number not in memory.draws:
            level = law.spread.level[number]
            drawn = [law.laws[at][level].draw(len(numbers)) for at, numbers in exact.items()]
            memory.draws[number] = np.concatenate(drawn).tolist()
    numbers = np.concatenate([own.astype(object) for own in exact.values()])
    total = np.zeros(len(numbers), dtype=object)
    for number in used:
        total += weights[number] * np.array(memory.draws[number], dtype=object)
    rounded = (2 * total + divisor) // (2 * divisor)
    before = 0 if memory.rounded is None else np.array(memory.rounded, dtype=object)
    memory.released.append((numbers + rounded - before).tolist())
    memory.rounded = rounded.tolist()


def facts_of_law(law: SeriesLaw) -> Mapping[str, Any]:
    """The law as the proof has it, beside what one unit of privacy moves."""
    if law.sigmas is None:
        return {"scale": str(law.most / law.epsilon)}
    noise = [
        {"sigma": law.sigmas[at], "end": table.highest}
        for at, (table,) in law.laws.items()
        if isinstance(table, NoiseTable)
    ]
    told = {"periods": noise, "column": list(law.spread.column)}
    return {**told, "epsilon": str(law.epsilon), "delta": law.delta}
