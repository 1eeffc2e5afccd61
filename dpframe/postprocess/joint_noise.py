"""Half widths of intervals, the noise of sums of several numbers, and laws of earlier receipts.

**Half widths** say how far noise in counts goes, from its exact law; for sums of many draws there
are bounds.

**Joint laws** of the noises of two releases are for intervals of differences and of quotients.

Noises of different releases are independent. A number of one release holds ``terms`` independent
draws of one symmetric law (:class:`Noise`); the law of the difference of two numbers is the
convolution of both, by their exact tables, and not a sum of widths.

**Earlier receipts** do not say everything in fields: cards are read, and laws are searched by their
spread.

Receipts hold exactly what made a law of noise. Receipts of earlier versions have only its family,
its standard deviation and its ends. For these, the law of released numbers is searched by the
standard deviation, and the law of tests is the law that the arguments of the receipt choose now,
if this law agrees with all facts of the receipt.

Privacy
-------
A function of public laws and released numbers: no budget.

References
----------
.. [1] Birnbaum, "On Random Variables with Comparable Peakedness", Ann. Math. Stat. 19 (1948).
.. [2] Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", JASA 58 (1963).
.. [3] Fieller, "Some Problems in Interval Estimation" (1954).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpframe.budget import as_float
from dpframe.errors import DpframeError, ParameterError
from dpframe.noise import (
    NoiseTable,
    UnboundedNoise,
    gaussian_table,
    laplace_table,
    law_facts,
    rounded_normal,
)
from dpframe.postprocess.weighted_laplace import sum_half_width


def table_of(noise: NoiseTable | UnboundedNoise) -> NoiseTable | None:
    """The law as a table, None where it has no bounds."""
    return noise if isinstance(noise, NoiseTable) else None


def scale_of(noise: NoiseTable | UnboundedNoise) -> float | None:
    """The scale of a law without bounds, None where it is a table."""
    return float(noise.scale) if isinstance(noise, UnboundedNoise) else None


def half_width(noise: NoiseTable | UnboundedNoise, terms: int, confidence: float) -> int:
    """Least w with P(|V_1 + ... + V_terms| <= w) >= confidence, for symmetric V.

    Tables: to 1e-12. The characteristic function of the sum is inverted on a lattice of at least 24
    standard deviations, or all of its support where that is shorter; what wraps around is below
    1e-15. Noise without bounds: as :func:`.sum_half_width`.
    """
    if isinstance(noise, UnboundedNoise):
        return sum_half_width(noise.scale, terms, confidence)
    return _half_width(noise.weights.tobytes(), terms, confidence)


@lru_cache(maxsize=4096)
def _half_width(weights: bytes, terms: int, confidence: float) -> int:
    pmf = pmf_of_weights(weights)
    bound, wanted = len(pmf) // 2, confidence - 1e-12
    if terms == 1:
        return least_width(pmf[bound:], wanted)
    sd = math.sqrt(float(pmf @ np.arange(-bound, bound + 1, dtype=np.float64) ** 2))
    reach = min(terms * bound, math.ceil(12 * sd * math.sqrt(terms)) + bound)
    size = 1 << (2 * reach + 1).bit_length()
    if terms == 2:  # such a sum has the most frequencies
        return least_width(
            np.fft.irfft(_lattice_spectrum(pmf, size) ** 2, size)[: reach + 1], wanted
        )
    seen = _low_frequencies(weights, size) ** terms
    seen = seen[: 1 + int(np.flatnonzero(np.abs(seen) > NOTHING)[-1])]
    frequency = np.arange(1, len(seen))
    rest = np.where(2 * frequency == size, 1, 2) * seen[1:] / np.sin(frequency * (np.pi / size))
    low, high = 0, reach
    while low < high:
        middle = (low + high) // 2
        turned = (2 * middle + 1) * frequency % (2 * size)
        inside = ((2 * middle + 1) * seen[0] + rest @ np.sin(turned * (np.pi / size))) / size
        low, high = (low, middle) if inside >= wanted else (middle + 1, high)
    return low


NOTHING = 1e-18
"""Frequencies at which the spectrum of a sum is no larger than this are left out."""


def pmf_of_weights(weights: bytes) -> NDArray[np.float64]:
    return np.frombuffer(weights, dtype=np.uint64).astype(np.float64) / 2**64


def least_width(law: NDArray[np.float64], wanted: float) -> int:
    """The least w with P(abs(V) <= w) >= ``wanted``; ``law`` holds the probabilities of 0, 1, ...
    of a symmetric V."""
    inside = law[0] + 2 * np.concatenate([[0.0], np.cumsum(law[1:])])
    return int(np.searchsorted(inside, wanted))


def _lattice_spectrum(pmf: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The characteristic function of a symmetric law on a lattice of ``size``."""
    bound, folded = len(pmf) // 2, np.zeros(size)
    folded[: bound + 1], folded[size - bound :] = pmf[bound:], pmf[:bound]
    real: NDArray[np.float64] = np.fft.rfft(folded).real
    return real


@lru_cache(maxsize=8)
def _low_frequencies(weights: bytes, size: int) -> NDArray[np.float64]:
    """The spectrum up to the last frequency that matters in sums of three or more draws."""
    whole = _lattice_spectrum(pmf_of_weights(weights), size)
    return whole[: 1 + int(np.flatnonzero(np.abs(whole) ** 3 > NOTHING)[-1])].copy()


# -- sums of many draws: fast for wide laws and many sizes -----------------------------------------

_RESOLUTION = 64
"""Steps of the lattice in a standard deviation of one draw, for wide laws; costs 2 % of the
width."""


def sum_widths(
    one: NoiseTable, other: NoiseTable, sizes: NDArray[np.int64], tail: float
) -> NDArray[np.int64]:
    """Some w with P(V + V_1 + ... + V_k > w) <= tail (to 1e-12), for every k of ``sizes``.

    V has the law ``one``, the others ``other``, both symmetric and unimodal. w is the least one up
    to k = 32 and a standard deviation of 192 of one draw; else it is at most some 7 % more.
    """
    laws = one.weights.tobytes(), other.weights.tobytes()
    return np.array([_sum_width(*laws, round_up_draws(k), tail) for k in sizes.tolist()], np.int64)


def round_up_draws(k: int) -> int:
    """Round up to one of 8 sizes an octave, above 32: fewer laws to compute, at most 4.5 % more
    width.

    A further symmetric unimodal draw never lowers P(sum > w), w >= 0: P(|sum + v| <= w) is the
    mass of a shifted interval, and sums of such draws are symmetric and unimodal too [1]_.
    """
    return k if k <= 32 else math.ceil(2 ** (math.ceil(8 * math.log2(k) - 1e-9) / 8))


@lru_cache(maxsize=16)
def _rounded_spectrum(weights: bytes, g: int, size: int) -> NDArray[np.float64]:
    """The spectrum of the law of V rounded to multiples of g, on a circle of ``size`` points; real,
    as the law is symmetric."""
    pmf = pmf_of_weights(weights)
    steps = (np.arange(len(pmf)) - len(pmf) // 2 + g // 2) // g
    spectrum: NDArray[np.float64] = np.fft.rfft(np.bincount(steps % size, pmf, size)).real
    return spectrum


@lru_cache(maxsize=256)
def _variance_of_weights(weights: bytes) -> float:
    bound = len(weights) // 16
    return NoiseTable("", -bound, np.frombuffer(weights, dtype=np.uint64)).sd ** 2


@lru_cache(maxsize=4096)
def _sum_width(one: bytes, other: bytes, k: int, tail: float) -> int:
    """`sum_widths` for one k.

    Wide laws are rounded to multiples of an odd g: V = g J + U with U an odd function of V, so of
    mean 0, and |U| <= g/2. The law of the sum of the J is found from its characteristic function,
    as in `half_width`; the sum of the U is above g sqrt((k + 1) log(1/h)/2) with probability
    at most h [2]_, here h = tail/1000.
    """
    bounds = [len(weights) // 16 for weights in (one, other)]  # 8 bytes a value
    variance = _variance_of_weights(one) + k * _variance_of_weights(other)
    g = max(0, int(math.sqrt(variance / (k + 1)) / _RESOLUTION) - 1) // 2 * 2 + 1
    steps = [(b + g // 2) // g for b in bounds]
    sd = math.sqrt(variance) / g + (math.sqrt(k + 1) / 2 if g > 1 else 0.0)  # |U / g| <= 1/2
    reach = math.ceil(12 * sd)
    reach = min(steps[0] + k * steps[1], reach + max(steps))
    size = 1 << (2 * reach + 1).bit_length()
    law = np.fft.irfft(
        _rounded_spectrum(one, g, size) * _rounded_spectrum(other, g, size) ** k, size
    )
    h = tail / 1000 if g > 1 else 0.0
    rest = g * math.sqrt((k + 1) * math.log(1 / h) / 2) if h else 0.0
    return g * least_width(law[: reach + 1], 1 - 2 * (tail - h) - 1e-12) + math.ceil(rest)


Real = NDArray[np.float64]

WIDEST = 4096
"""Scale up to which noise without bounds is written as a table: 40 scales to each side."""

FLOOR = 1e-12
"""Amount by which probabilities lean towards wider intervals: rounding in Fourier transforms."""

CELLS = 1024
"""The most groups of values of the noise in a denominator. Wider laws are grouped, outwards: ends
of intervals move by a sixtieth of a standard deviation at most."""

ROUNDS, BLOCK = 44, 2**21
"""Halvings of a search, and the most numbers that a search holds at once."""


Key = tuple[bytes | float, int]
"""A law, as the weights of its table or the scale of noise without bounds; and how many draws."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The sum of ``terms`` independent draws of a law, in its units; without draws the constant
    0."""

    law: NoiseTable | UnboundedNoise
    terms: int = 1

    @property
    def has_table(self) -> bool:
        """Whether the law is written as a table here."""
        return (scale_of(self.law) or 0.0) <= WIDEST

    @property
    def variance(self) -> float:
        """The variance; where the noise has no bounds, as if it were continuous."""
        scale = scale_of(self.law)
        return self.terms * (self.law.sd**2 if scale is None else 2 * scale**2)

    @property
    def key(self) -> Key:
        """A key that tells laws apart; more than 32 draws are rounded up."""
        table, scale = table_of(self.law), scale_of(self.law)
        law = table.weights.tobytes() if table is not None else scale
        assert law is not None
        return law, round_up_draws(self.terms)


def difference_half_width(one: Noise, other: Noise, confidence: float) -> int:
    """Some w with P(|X - Y| <= w) >= confidence, X and Y with these laws, independent.

    The least w, to 1e-12 in probability, if both have up to 32 terms; with more, at most 5 % more.
    """
    first, last = sorted((one.key, other.key), key=lambda key: (isinstance(key[0], bytes), key))
    return _cached_difference_width(first, last, confidence)  # to the bit, in either order


@lru_cache(maxsize=8192)
def _cached_difference_width(one: Key, other: Key, c: float) -> int:
    law = _joint_law(one, other)
    middle = len(law) // 2
    return min(middle, least_width(law[middle:], c + FLOOR))


@lru_cache(maxsize=64)
def _law_of_draw(law: bytes | float) -> Real:
    """The probabilities of the values of one draw, from -bound to bound."""
    if isinstance(law, bytes):
        return pmf_of_weights(law)
    z = np.abs(np.arange(-math.ceil(40 * law) - 1, math.ceil(40 * law) + 2))
    ratio = math.exp(-1 / law)
    found: Real = (1 - ratio) / (1 + ratio) * np.exp(-z / law)
    return found


@lru_cache(maxsize=256)
def _joint_law(*parts: Key) -> Real:
    """The probabilities of the values of a sum of draws, from -reach to reach. What is left out,
    beyond 12 standard deviations and the largest draw, is below 1e-15."""
    laws = [(_law_of_draw(law), k) for law, k in parts if k]
    if not laws:
        return np.ones(1)
    if len(laws) == 1 and laws[0][1] == 1:
        return laws[0][0]
    bounds = [(len(pmf) // 2, k) for pmf, k in laws]
    spread = sum(k * float(pmf @ (np.arange(len(pmf)) - len(pmf) // 2) ** 2.0) for pmf, k in laws)
    most = sum(bound * k for bound, k in bounds)
    reach = min(most, math.ceil(12 * math.sqrt(spread)) + max(bound for bound, _ in bounds))
    size = 1 << (2 * reach + 1).bit_length()
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for pmf, k in laws:
        folded = np.zeros(size)
        np.add.at(folded, (np.arange(len(pmf)) - len(pmf) // 2) % size, pmf)
        spectrum *= np.fft.rfft(folded) ** k
    around = np.maximum(np.fft.irfft(spectrum, size), 0.0)
    whole: Real = np.concatenate([around[size - reach :], around[: reach + 1]])
    return whole


# -- quotients -----------------------------------------------------------------------------------


def quotient_ends(
    numerator: tuple[Real, Real],
    above: Noise,
    denominator: tuple[Real, Real],
    below: Noise,
    confidence: float,
) -> tuple[Real, Real]:
    """Ends of intervals for quotients n / d of true numbers, n >= 0 and d > 0, each on its own.

    ``numerator`` and ``denominator`` are the least and the largest noisy numbers, N = n + X and
    D = d + Y; X has the law ``above`` and Y, independent, the law ``below``. Ends are 0 and
    infinity where D is not clearly above 0. The lower end is for the least N and the largest D, the
    upper end for the largest N and the least D.

    Notes
    -----
    At the true q = n / d, N - q D = X - q Y [3]_, whose law is symmetric. So q is refused from
    above if P(X - q Y >= q D - N) <= a, a = (1 - confidence) / 2, which is
    P(X >= q (D + y) - N) in the mean over y: for D + y > 0 it falls with q, and for others it is
    counted as 1. What is computed falls with q, and so refuses everything above the end that is
    found. From below in the same way: P(X >= N - q (D + y)) grows with q for D + y > 0, and for
    others is at most P(X >= N).
    """
    a = (1 - confidence) / 2 - FLOOR
    at, mass, rest = _group_noise_values(*below.key)
    survival = _survival(*above.key)
    low = _search_quotients(
        numerator[0], denominator[1], at[1], mass, rest, survival, a, upper=False
    )
    high = _search_quotients(
        numerator[1], denominator[0], at[0], mass, rest, survival, a, upper=True
    )
    return low, high


@lru_cache(maxsize=256)
def _group_noise_values(law: bytes | float, terms: int) -> tuple[tuple[Real, Real], Real, float]:
    """Groups of values of a noise: the least and the largest value of each group, their
    probabilities, and the probability of what is beyond all groups."""
    pmf = _joint_law((law, terms))
    middle = len(pmf) // 2
    tail = np.cumsum(pmf[:middle])
    cut = int(np.searchsorted(tail, 1e-13))
    values = np.arange(-middle, middle + 1, dtype=np.float64)[cut : len(pmf) - cut]
    kept, wide = pmf[cut : len(pmf) - cut], -(-(len(pmf) - 2 * cut) // CELLS)
    starts = np.arange(0, len(values), wide)
    ends = np.minimum(starts + wide, len(values)) - 1
    rest = max(0.0, 1 - float(kept.sum()))
    return (values[starts], values[ends]), np.add.reduceat(kept, starts), rest


@lru_cache(maxsize=256)
def _survival(law: bytes | float, terms: int) -> Real:
    """P(X >= k) for k = -bound to bound + 1."""
    pmf = _joint_law((law, terms))
    found: Real = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
    return found


def _search_quotients(
    n: Real, d: Real, y: Real, mass: Real, rest: float, survival: Real, a: float, *, upper: bool
) -> Real:
    """The least q from which on all quotients are refused if ``upper``, else the largest q up to
    which all are refused."""
    bound = len(survival) // 2 - 1

    def beyond(x: Real) -> Real:
        """P(X >= x)."""
        place = np.clip(np.ceil(x - 1e-9) + bound, 0, len(survival) - 1)
        found: Real = survival[place.astype(np.int64)]
        return found

    summed = np.append(0.0, np.cumsum(mass))
    never = summed[np.searchsorted(y, -d, side="right")] + rest  # P(D + y <= 0); y is sorted
    if upper:
        others, out = never, np.full(len(n), np.inf)
        rows = np.flatnonzero(others <= a)
    else:
        others, out = never * beyond(n), np.zeros(len(n))
        rows = np.flatnonzero(beyond(n) <= a)
    step = max(1, BLOCK // len(y))
    for here in (rows[start : start + step] for start in range(0, len(rows), step)):
        own, under = n[here, None], d[here, None] + y
        positive = under > 0
        least, most = np.zeros(len(here)), np.maximum(n[here], 0) + bound + 2
        if not upper:
            most = most / np.maximum(d[here], 1) + 1
        first = most
        for _ in range(ROUNDS):
            q = ((least + most) / 2)[:, None]
            x = q * under - own if upper else own - q * under
            chance = (np.where(positive, beyond(x), 0.0) @ mass) + others[here]
            lower_most = (chance <= a) == upper
            most = np.where(lower_most, q[:, 0], most)
            least = np.where(lower_most, least, q[:, 0])
        if upper:
            out[here] = most
        else:  # 0 where every q was refused: then no D + y is above 0
            out[here] = np.where(most == first, 0.0, least)
    return out


# -- cards of earlier receipts ---------------------------------------------------------------------


def selection_epsilon(receipt: Mapping[str, Any]) -> float | None:
    """The part of epsilon that selects the nodes of a rollup; None if the receipt does not tell."""
    chosen = receipt.get("selection")
    if isinstance(chosen, Mapping):
        return as_float(chosen.get("epsilon"))
    return as_float(_line(receipt, "selection")[1])


def selects_by_number(receipt: Mapping[str, Any]) -> bool:
    """Whether the number of records or users selects the nodes of a rollup, and no measure."""
    chosen = receipt.get("selection")
    if isinstance(chosen, Mapping):
        return chosen.get("measure", "") is None
    counted = "records" if receipt.get("user") is None else "users"
    return str(_line(receipt, "test noise")[2]) == f"in units of {counted}"


def certain_of_printed(receipt: Mapping[str, Any]) -> int | None:
    """The residual from which on the printed algorithm reports every node, as the card says; None
    if it does not. For receipts that have the law of only one of the two draws in a test."""
    certain = _line(receipt, "certainly reported")[1]
    return None if certain is None else int(certain)


def _line(receipt: Mapping[str, Any], name: str) -> tuple[Any, Any, Any]:
    """Name, value and meaning of a line of the card; without such a line the last two are None."""
    return next(((*line,) for line in receipt["card"] if line[0] == name), (name, None, None))


# -- laws of released numbers, from earlier receipts -----------------------------------------------

LAW_MAKERS = {
    "discrete Laplace": laplace_table,
    "discrete Gaussian": gaussian_table,
    "rounded Gaussian": rounded_normal,
}
"""The families whose laws follow from one scale and one bound."""

CLOSE = 1e-13
"""Relative difference of standard deviations up to which laws are the same: rounding of sums in
float64. At the end of the search 100 times as much is accepted."""

TURNS = 60


def law_by_spread(facts: Mapping[str, Any]) -> NoiseTable | UnboundedNoise:
    """Search the law by its family, standard deviation and largest value, in units of its grid.

    Raises ParameterError for a family that has more parameters than these tell, and if no law of
    the family has this standard deviation.
    """
    grid, sd = int(facts["grid"]), float(facts["sd"]) * int(facts["grid"])
    if facts["highest"] is None:
        return UnboundedNoise(Fraction(_plain_scale(sd)))
    highest = round(float(facts["highest"]) * grid)
    if facts["family"] not in LAW_MAKERS or round(float(facts["lowest"]) * grid) != -highest:
        raise ParameterError(
            f"the receipt is of an earlier version, and its noise ({facts['family']}) has more "
            "parameters than it tells. Pass the wanted confidence= when you release."
        )
    return _search_table(str(facts["family"]), sd, highest)


def _plain_scale(sd: float) -> float:
    """The scale of discrete Laplace noise without bounds, from its standard deviation:
    sd**2 = 1 / (2 sinh(1 / (2 scale))**2)."""
    return 0.5 / math.asinh(1 / (sd * math.sqrt(2)))


@lru_cache(maxsize=32)
def _search_table(family: str, sd: float, bound: int) -> NoiseTable:
    """Find the scale by the secant method on logarithms: the standard deviation grows with it."""
    make = LAW_MAKERS[family]
    a = math.log(_plain_scale(sd) if family == "discrete Laplace" else sd)
    b = a + 1e-4
    law, other = make(math.exp(a), bound), make(math.exp(b), bound)
    for _ in range(TURNS):
        if abs(law.sd / sd - 1) <= CLOSE:
            return law
        slope = math.log(other.sd / law.sd) / (b - a)
        if not slope > 0:
            break
        a, b = a + math.log(sd / law.sd) / slope, a
        law, other = make(math.exp(a), bound), law
    if abs(law.sd / sd - 1) <= 100 * CLOSE:
        return law
    raise ParameterError(
        "the noise that the receipt tells of is none that dpframe draws: pass the frame as "
        "dpframe returned it."
    )


# -- laws of tests, from earlier receipts ----------------------------------------------------------

PLAN_MECHANISMS = {
    "offline": "offline",
    "offline-gaussian": "offline-gaussian",
    "tree-hhh": "offline",
    "rollup": "offline",
}
"""Mechanisms that test residuals, with the mechanism of ``hhh`` whose plan has the law."""

SELECTION_RELEASE_SHARE = 0.02
"""``release_share`` of the selection of a rollup, whose counts are not released."""


PlanAgain: TypeAlias = Callable[[Mapping[str, object]], Any]
"""A function that plans ``hhh`` from arguments and ignores unknown ones; callers pass it in, as it
lies above this room."""


def planned_test_law(receipt: Mapping[str, Any], plan_again: PlanAgain) -> NoiseTable | None:
    """Return the law of tests that the arguments of a receipt choose now; None if it is not known
    to be the law of the release.

    It is that law if all facts agree, to the last digit. They disagree after another
    ``release_share``, or in a version that chose another law.
    """
    laws, other = receipt["noise"], dict[str, Any]()
    mechanism = PLAN_MECHANISMS.get(receipt["mechanism"])
    if mechanism is None:
        return None
    if receipt["mechanism"] == "rollup":
        other = {
            "epsilon": selection_epsilon(receipt),
            "remainder": False,
            "release_share": SELECTION_RELEASE_SHARE,
        }
        laws = {"test": laws}
    known = {k: v for k, v in receipt.items() if v is not None and k != "period"}
    try:
        plan = plan_again({**known, **other, "mechanism": mechanism})
    except DpframeError:
        return None
    made = {
        "test": law_facts(plan.test_noise, plan.grid),
        "release": law_facts(plan.count_noise, plan.grid),
    }
    agree = all(facts.items() <= made[name].items() for name, facts in laws.items())
    test: NoiseTable = plan.test_noise
    return test if agree else None
