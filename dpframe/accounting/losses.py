"""Privacy losses of integer noise on a grid, rounded up, and their composition.

One count that moves by one, under a symmetric bounded law, loses log(p/q) at an outcome of
probability p for the one table and q for the other. Losses are put on multiples of ``step``; counts
with independent noise compose by convolution (Koskela, Jalkoe, Honkela 2020). Nothing here knows
what the law was aimed at: only the table that is drawn from.

Convolutions are fast Fourier transforms of *tilted* masses, proportional to exp(tilt loss) m(loss):
what a transform rounds away is bounded in parts of all the mass, and a tilt puts the mass where
delta is decided. The bound (`Losses.rounding`) is added to every delta, however small it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import NoiseTable

FARTHEST = 200_000
"""Steps of the grid on each side of 0."""

ROUNDING = 8 * 2.0**-53
"""What one stage of a transform rounds, in parts of the Euclidean norm (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, Theorem 24.2: below 6.7 units, roots being accurate to 1).
"""


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Masses at losses ``step * (lowest + i)``, and the mass at an infinite loss.

    That at a loss x is ``mass[i] * exp(scale - tilt x)``. The Euclidean norm of all by which
    ``mass`` is off is at most ``rounding``.
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
        """The finite ones, shaped as ``mass``."""
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
    """Losses of one count that moves by one; by symmetry also those of the other direction."""
    return losses_between(np.append(noise.pmf, 0.0), np.append(0.0, noise.pmf), step)


def losses_between(here: NDArray[np.float64], there: NDArray[np.float64], step: float) -> Losses:
    """Losses of an outcome that has the one law or the other, seen from the first.

    An outcome with p and q and a loss between two points e < f of the grid is divided into a mass
    p (1 - w) at e and p w at f that have the same p and q together, w = (1 - exp(e - loss)) /
    (1 - exp(e - f)). Who is told which part it was can only tell the tables apart better ("connect
    the dots": Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, Algorithm 1). What lies above the
    grid counts as an infinite loss, what lies below is raised to its end.

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


def composed(parts: Sequence[tuple[Losses, int]], epsilon: float = 0.0) -> Losses:
    """Losses of several counts with independent noise; each of ``parts``, untilted, so many times.

    The closer ``epsilon`` is to that at which delta is wanted, the less the rounding adds to it.
    """
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    length = 1 + sum(times * (len(part.mass) - 1) for part, times in parts)
    stages = (length - 1).bit_length()
    tilt = _tilt(parts, epsilon)
    transform = np.ones((1 << stages) // 2 + 1, dtype=np.complex128)
    widest = scale = 0.0
    for part, times in parts:
        tilted, log_mass = _tilted(part, tilt)
        transform *= _power(np.fft.rfft(tilted, 1 << stages), times)
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
    """Of the probability that the loss is finite, which rounding can take below 0."""
    return math.log1p(-part.infinite) if part.infinite < 1.0 else -math.inf


def _tilt(parts: Sequence[tuple[Losses, int]], epsilon: float) -> float:
    """A tilt that puts the mean loss near epsilon and not above, from that for Gaussian losses."""

    def moments(tilt: float) -> tuple[float, float]:
        mean = variance = 0.0
        for part, times in parts:
            loss, one = part.losses, _tilted(part, tilt)[0]
            mean_of_one = float(one @ loss)
            mean += times * mean_of_one
            variance += times * float(one @ (loss - mean_of_one) ** 2)
        return mean, variance

    mean, variance = moments(0.0)
    if epsilon <= mean or variance == 0:
        return 0.0
    tilt = (epsilon - mean) / variance
    while moments(tilt)[0] > epsilon:
        tilt /= 2
    return tilt


def _tilted(part: Losses, tilt: float) -> tuple[NDArray[np.float64], float]:
    """Masses that add up to 1, and the logarithm of what they were divided by."""
    with np.errstate(divide="ignore"):
        exponent = np.log(part.mass) + tilt * part.losses
    highest = float(exponent.max())
    tilted = np.exp(exponent - highest)
    total = float(tilted.sum())
    return tilted / total, highest + math.log(total)


def _power(transform: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """By squaring: each of at most ``times`` products rounds by less than 3 units."""
    if times == 1:
        return transform
    half = _power(transform, times // 2)
    return half * half * transform if times % 2 else half * half


def composed_profile(
    noises: Sequence[NoiseTable], *, epsilons: Sequence[float], step: float
) -> tuple[tuple[float, float], ...]:
    """Points (epsilon, delta) of one law a level, which may differ: a count moves by one on each.

    ``step`` is the grid of the privacy loss: a coarse one is faster and overstates delta.
    ``epsilons`` increase.
    """
    same = Counter(map(id, noises))  # one of many levels can be a thousand times the same
    once = {id(noise): noise for noise in noises}
    counted: Counter[bytes] = Counter()
    for key, times in same.items():
        counted[once[key].weights.tobytes()] += times
    tables = {noise.weights.tobytes(): noise for noise in once.values()}
    parts = [(losses_of(tables[key], step), times) for key, times in counted.items()]
    together = [composed(parts, epsilon) for epsilon in {epsilons[0], epsilons[-1]}]
    return tuple((e, min(losses.delta(e) for losses in together)) for e in epsilons)
