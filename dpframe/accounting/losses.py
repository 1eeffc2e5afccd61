"""Privacy losses of integer noise on a grid, rounded up, and their composition.

One count that moves by one, under a symmetric bounded law, loses log(p/q) at an outcome of
probability p for the one table and q for the other. Losses are put on multiples of ``step``; counts
with independent noise compose by convolution (Koskela, Jalkoe, Honkela 2020). Nothing here knows
what the law was aimed at: only the table that is drawn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import NoiseTable

FARTHEST = 200_000
"""Steps of the grid on each side of 0."""

SLACK = 2e-15
"""Added to every delta, above what the rounding of transforms has been seen to change."""


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Mass at losses ``step * (lowest + i)``, and mass at an infinite loss."""

    step: float
    lowest: int
    mass: NDArray[np.float64]
    infinite: float

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence at epsilon: the mean of max(1 - exp(epsilon - loss), 0)."""
        first = max(0, int(np.floor(epsilon / self.step)) - self.lowest)
        loss = self.step * (self.lowest + np.arange(first, len(self.mass)))
        over = -np.expm1(np.minimum(epsilon - loss, 0.0))
        finite = float(self.mass[first:] @ over)
        return min(1.0, (finite + self.infinite) * (1 + 1e-9) + SLACK)


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


def composed(parts: Sequence[tuple[Losses, int]]) -> Losses:
    """Losses of several counts with independent noise; each of ``parts`` so many times."""
    length = 1 + sum(times * (len(part.mass) - 1) for part, times in parts)
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    size = 1 << (length - 1).bit_length()
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    lowest = 0
    for part, times in parts:
        transform *= np.fft.rfft(part.mass, size) ** times
        lowest += times * part.lowest
    mass = np.maximum(np.fft.irfft(transform, size)[:length], 0.0)
    infinite = -np.expm1(sum(times * np.log1p(-part.infinite) for part, times in parts))
    return Losses(parts[0][0].step, lowest, mass, float(infinite))


def composed_profile(
    noises: Sequence[NoiseTable], *, epsilons: Sequence[float], step: float
) -> tuple[tuple[float, float], ...]:
    """Points (epsilon, delta) of one law a level, which may differ: a count moves by one on each.

    ``step`` is the grid of the privacy loss: a coarse one is faster and overstates delta.
    """
    counted: dict[bytes, int] = {}
    for noise in noises:
        counted[noise.weights.tobytes()] = counted.get(noise.weights.tobytes(), 0) + 1
    tables = {noise.weights.tobytes(): noise for noise in noises}
    together = composed([(losses_of(tables[key], step), times) for key, times in counted.items()])
    return tuple((epsilon, together.delta(epsilon)) for epsilon in epsilons)
