"""Privacy losses of integer noise on a grid, composition of histograms a level, and searches.

**Losses** are rounded up to the grid.

One count that moves by one, under a symmetric bounded law, loses log(p/q) at an outcome that has
probability p for one of two neighbours and q for the other. Losses are put on multiples of
``step``; counts with independent noise compose by convolution (Koskela, Jalkoe, Honkela 2020). Only
the table that is drawn from is read, and not the budget that the law was made for.

Convolutions are fast Fourier transforms of *tilted* masses, proportional to exp(tilt loss) m(loss).
The rounding of a transform is bounded in parts of all the mass, and a tilt puts the mass where
delta is decided. The bound (`Losses.rounding`) is added to every delta, however small it is.

**Histograms**, one a level, are baselines, with exact pmfs and a pessimistic grid.

Each level adds one bounded law to every count it has; a record moves one count by 1 on each level.
Privacy loss distributions give the h-fold composition; their discretisation rounds every loss up.

**Searches** find where a statement turns true, and the least noise whose cost stays within delta.
Callers check the result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import BudgetError
from dpframe.noise import NoiseTable, gaussian_table, laplace_table

FARTHEST = 200_000
"""Steps of the grid on each side of 0."""

ROUNDING = 8 * 2.0**-53
"""Rounding of one stage of a transform, in parts of the Euclidean norm (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, Theorem 24.2: below 6.7 units if roots are accurate to 1).
"""


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Masses at losses ``step * (lowest + i)``, and the mass at an infinite loss.

    The mass at a loss x is ``mass[i] * exp(scale - tilt x)``. The Euclidean norm of the errors of
    ``mass`` is at most ``rounding``.
    """

    step: float
    lowest: int
    mass: NDArray[np.float64]
    infinite: float
    tilt: float = 0.0
    scale: float = 0.0
    rounding: float = 0.0

    @property
    def losses(self) -> NDArray[np.float64]:
        """The finite losses, shaped as ``mass``."""
        return self.step * np.arange(self.lowest, self.lowest + len(self.mass), dtype=np.float64)

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence at epsilon: the mean of max(1 - exp(epsilon - loss), 0)."""
        first = max(0, int(np.floor(epsilon / self.step)) - self.lowest)
        loss = self.losses[first:]
        over = -np.expm1(np.minimum(epsilon - loss, 0.0))
        over *= np.exp(np.minimum(self.scale - self.tilt * loss, 300.0))  # more is a delta of 1
        finite = float(self.mass[first:] @ over) + self.rounding * float(np.linalg.norm(over))
        return min(1.0, (finite + self.infinite) * (1 + 1e-9))


def losses_of(noise: NoiseTable, step: float) -> Losses:
    """Return the losses of one count that moves by one; by symmetry, of either direction."""
    return pair_losses(np.append(noise.pmf, 0.0), np.append(0.0, noise.pmf), step)


def pair_losses(here: NDArray[np.float64], there: NDArray[np.float64], step: float) -> Losses:
    """Return the losses of outcomes with the law ``here`` or ``there``, seen from ``here``.

    An outcome with probabilities p and q and a loss between two points e < f of the grid is divided
    into a mass p (1 - w) at e and p w at f, which together have the same p and q, with
    w = (1 - exp(e - loss)) / (1 - exp(e - f)). An observer who is told which part it was can only
    tell the laws apart better ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar, Manurangsi
    2022, Algorithm 1). A loss above the grid counts as infinite; a loss below the grid is raised to
    the lowest point of the grid.

    Parameters
    ----------
    here, there
        float64, shape (n,): probabilities of the same outcomes.
    """
    possible = (here > 0) & (there > 0)
    p, loss = here[possible], np.log(here[possible] / there[possible])
    inside = loss < FARTHEST * step
    infinite = float(here[(here > 0) & (there == 0)].sum() + p[~inside].sum())
    p, loss = p[inside], np.maximum(loss[inside], -FARTHEST * step)
    below = np.floor(loss / step).astype(np.int64)
    over = np.clip(loss - below * step, 0.0, step)
    upper = p * (np.expm1(-over) / np.expm1(-step))
    lowest = int(below.min())
    size = int(below.max()) - lowest + 2
    mass = np.zeros(size, dtype=np.float64)
    np.add.at(mass, below - lowest, np.maximum(p - upper, 0.0))
    np.add.at(mass, below - lowest + 1, upper)
    return Losses(step, lowest, mass, infinite)


def compose_losses(parts: Sequence[tuple[Losses, int]], epsilon: float = 0.0) -> Losses:
    """Return the losses of several counts with independent noise.

    ``parts`` pairs untilted losses with how often they occur. The closer ``epsilon`` is to the
    epsilon at which delta is wanted, the less rounding adds to delta.
    """
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    length = 1 + sum(times * (len(part.mass) - 1) for part, times in parts)
    stages = (length - 1).bit_length()
    logs = [(_log_masses(part), part.losses, times) for part, times in parts]
    tilt = _tilt(logs, epsilon)
    transform = np.ones((1 << stages) // 2 + 1, dtype=np.complex128)
    widest = scale = 0.0
    for log_masses, losses, times in logs:
        tilted, log_mass = _tilted_masses(log_masses, losses, tilt)
        transform *= _transform_power(np.fft.rfft(tilted, 1 << stages), times)
        widest = max(widest, float(np.linalg.norm(tilted)))
        scale += times * log_mass
    mass = np.maximum(np.fft.irfft(transform, 1 << stages)[:length], 0.0)
    counts = sum(times for _, times in parts)
    return Losses(
        step=parts[0][0].step,
        lowest=sum(times * part.lowest for part, times in parts),
        mass=mass,
        infinite=-math.expm1(sum(times * _log_of_rest(part) for part, times in parts)),
        tilt=tilt,
        scale=scale,
        rounding=1.01 * ROUNDING * (stages + 1) * (counts + 1) * widest,
    )


def _log_of_rest(part: Losses) -> float:
    """Return the logarithm of P(finite loss), a probability that rounding can take below 0."""
    return math.log1p(-part.infinite) if part.infinite < 1.0 else -math.inf


Logs: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], int]
"""Logarithms of the masses of a count, its losses, and how often it occurs."""


def _tilt(parts: Sequence[Logs], epsilon: float) -> float:
    """Return a tilt that puts the mean loss near epsilon and not above it.

    The search starts from the tilt for Gaussian losses.
    """
    mean = variance = 0.0
    for log_masses, losses, times in parts:
        one, _ = _tilted_masses(log_masses, losses, 0.0)
        mean_of_one = float(one @ losses)
        mean += times * mean_of_one
        variance += times * float(one @ (losses - mean_of_one) ** 2)
    if epsilon <= mean or variance == 0:
        return 0.0
    tilt = (epsilon - mean) / variance
    while _tilted_mean(parts, tilt) > epsilon:
        tilt /= 2
    return tilt


def _tilted_mean(parts: Sequence[Logs], tilt: float) -> float:
    mean = 0.0
    for log_masses, losses, times in parts:
        mean += times * float(_tilted_masses(log_masses, losses, tilt)[0] @ losses)
    return mean


def _log_masses(part: Losses) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.log(part.mass)


def _tilted_masses(
    log_masses: NDArray[np.float64], losses: NDArray[np.float64], tilt: float
) -> tuple[NDArray[np.float64], float]:
    """Return tilted masses that add up to 1, and the logarithm of what they were divided by."""
    tilted = log_masses + tilt * losses if tilt else log_masses.copy()
    highest = float(tilted.max())
    tilted -= highest
    np.exp(tilted, out=tilted)
    total = float(tilted.sum())
    tilted /= total
    return tilted, highest + math.log(total)


def _transform_power(transform: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Take a power by squaring: each of at most ``times`` products rounds by less than 3 units."""
    if times == 1:
        return transform
    half = _transform_power(transform, times // 2)
    return half * half * transform if times % 2 else half * half


def composed_profile(
    noises: Sequence[NoiseTable], *, epsilons: Sequence[float], step: float
) -> tuple[tuple[float, float], ...]:
    """Return points (epsilon, delta) of one law a level; a count moves by one on each level.

    Laws of levels may differ. ``step`` is the step of the grid of privacy losses: a coarse grid is
    faster and overstates delta. ``epsilons`` increase.
    """
    same = Counter(map(id, noises))  # many levels can have one law a thousand times
    once = {id(noise): noise for noise in noises}
    counted: Counter[bytes] = Counter()
    for key, times in same.items():
        counted[once[key].weights.tobytes()] += times
    tables = {noise.weights.tobytes(): noise for noise in once.values()}
    parts = [(losses_of(tables[key], step), times) for key, times in counted.items()]
    together = [compose_losses(parts, epsilon) for epsilon in {epsilons[0], epsilons[-1]}]
    return tuple((e, min(losses.delta(e) for losses in together)) for e in epsilons)


LOSS_STEP = 1e-4
"""Grid of the privacy loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLaws:
    """One law for every count, and the composed delta of all levels."""

    noise: NoiseTable
    scale: float
    delta: float

    @property
    def threshold(self) -> int:
        """Smallest noisy count shown: no empty or single-record node can reach it."""
        return self.noise.highest + 2


def composed_delta(noise: NoiseTable, *, levels: int, epsilon: float) -> float:
    """Return delta at ``epsilon`` of ``levels`` independent counts that all move by one."""
    return level_profile(noise, levels=levels, epsilons=(epsilon,))[0][1]


def level_profile(
    noise: NoiseTable, *, levels: int, epsilons: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """Return a point (epsilon, delta) for every one of ``epsilons``."""
    return composed_profile((noise,) * levels, epsilons=epsilons, step=LOSS_STEP)


@lru_cache(maxsize=64)
def level_laws(
    family: Literal["laplace", "gaussian"], *, levels: int, epsilon: float, delta: float
) -> LevelLaws:
    """Return the least noise of the family that composes over ``levels`` within the budget."""

    def build(scale: float) -> NoiseTable:
        tail = math.log(4 * levels / delta)
        if family == "laplace":
            return laplace_table(scale, math.ceil(scale * tail))
        return gaussian_table(scale, math.ceil(scale * math.sqrt(2 * tail)))

    def cost(scale: float) -> float:
        return composed_delta(build(scale), levels=levels, epsilon=epsilon)

    high = 1.01 * levels / epsilon
    if family == "gaussian":
        high = math.sqrt(2 * levels * math.log(2 / delta)) / epsilon
    for _ in range(60):
        if cost(high) <= delta:
            break
        high *= 1.1
    else:
        raise BudgetError(
            f"no bounded {family} noise reaches delta={delta:g} at epsilon={epsilon:g} over "
            f"{levels} levels. Raise delta, or use mechanism='offline'."
        )
    _, scale = closest_numbers(lambda b: cost(b) <= delta, high / 8, high, ratio=1.01)
    law = laplace_table if family == "laplace" else gaussian_table

    def spent(bound: int) -> float:
        return composed_delta(law(scale, bound), levels=levels, epsilon=epsilon)

    bound = least_integer(lambda b: spent(b) <= delta, 1, build(scale).highest)
    return LevelLaws(noise=law(scale, bound), scale=scale, delta=spent(bound))


SMALLEST_SCALE = 0.5
"""Searches end below this scale, half a record: most noise is 0 there."""


def least_integer(true: Callable[[int], bool], low: int, high: int, step: int = 1) -> int:
    """Return the least whole number, to within ``step``, from which on a statement is true.

    The statement counts as false at ``low`` and as true at ``high``, where it is not tried.
    """
    while high - low > step:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def closest_numbers(
    true: Callable[[float], bool],
    low: float,
    high: float,
    *,
    apart: float = 0.0,
    part: float = 0.0,
    ratio: float | None = None,
) -> tuple[float, float]:
    """Return two numbers close together: a statement is false at the lower and true at the upper.

    It counts as false at ``low`` and as true at ``high``, where it is not tried. The numbers are at
    most ``apart``, or a ``part`` of the upper one, apart. With a ``ratio`` the search goes in equal
    ratios, and the upper number is at most this many times the lower.
    """
    while high - low > max(apart, part * high) if ratio is None else high / low > ratio:
        middle = (low + high) / 2 if ratio is None else math.sqrt(low * high)
        if middle in (low, high):  # no float lies between
            break
        low, high = (low, middle) if true(middle) else (middle, high)
    return low, high


def least_bound(cost: Callable[[int], float], start: int, delta: float, step: int = 1) -> int:
    """Return the least bound from 1 on, to within ``step``, whose cost stays within delta.

    The cost falls with the bound. Where ``start`` is too short, the search goes up to four times
    ``start``; callers check the result.
    """
    low, high = 0, start
    while cost(high) > delta and high < 4 * start:
        low, high = high, high + max(step, start // 16)
    return least_integer(lambda bound: cost(bound) <= delta, low, high, step)


def least_scale(cost: Callable[[float], float], start: float, delta: float) -> float:
    """Return the least scale, to half a percent, whose cost is within delta.

    The search takes secants in ln delta.
    """
    goal = math.log(delta)

    def excess(scale: float) -> float:
        return math.log(max(cost(scale), 1e-300)) - goal

    low, high = start / 1.5, start * 1.5
    at_low, at_high = excess(low), excess(high)
    while at_high > 0:
        low, at_low, high = high, at_high, high * 1.5
        at_high = excess(high)
    while at_low <= 0:
        if low < SMALLEST_SCALE:
            return low
        low, at_low, high, at_high = low / 1.5, excess(low / 1.5), low, at_low
    while high / low > 1.005:
        guess = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
        at = excess(guess)
        if at <= 0:
            high, at_high = guess, at
        else:
            low, at_low = guess, at
    return high


def continuous_sigma(epsilon: float, delta: float) -> float:
    """Return sigma of the continuous Gaussian mechanism for sensitivity 1 (Balle and Wang 2018,
    Theorem 8). It tells where a search starts and which family is worth trying; privacy does not
    rest on it."""
    widest = 10 * math.sqrt(math.log(2 / delta)) / epsilon

    def enough(sigma: float) -> bool:
        return normal_delta(1 / sigma, epsilon) <= delta

    return closest_numbers(enough, 1e-3, widest, ratio=1.0005)[0]


def normal_delta(mu: float, epsilon: float) -> float:
    """Return delta of a count that moves by ``mu`` sigmas of its continuous Gaussian noise."""
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return _normal_cdf(a) - math.exp(epsilon) * _normal_cdf(b)


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
