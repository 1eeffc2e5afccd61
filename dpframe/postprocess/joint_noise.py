"""Laws of the noises of two releases together, for intervals of differences and of quotients.

Noises of different releases are independent. A number of one release holds ``terms`` independent
draws of one symmetric law (:class:`Noise`); the law of the difference of two numbers is the
convolution of both, by their exact tables, and not a sum of widths.

Privacy
-------
A function of public laws and released numbers: no budget.

References
----------
.. [1] Fieller, "Some Problems in Interval Estimation" (1954).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.postprocess.half_widths import (
    least_width,
    pmf_of_weights,
    round_up_draws,
    scale_of,
    table_of,
)

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
    At the true q = n / d, N - q D = X - q Y [1]_, whose law is symmetric. So q is refused from
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
