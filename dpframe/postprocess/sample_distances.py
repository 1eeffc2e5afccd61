"""1-Wasserstein distances between empirical distributions.

Sources
    In one dimension the integral of the difference of the distribution functions (Vallender 1973).
    Sliced: the mean of the distances of projections onto random directions (Rabin, Peyre, Delon,
    Bernot: "Wasserstein Barycenter and its Application to Texture Mixing", 2011). It is at most the
    distance itself in the Euclidean metric: a projection brings no two points further apart.
Privacy
    None is given: the distance to real data is a fact about these data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.noise import public_generator

Reals = NDArray[np.float64]


def wasserstein_distance(real: Reals, synthetic: Reals) -> float:
    """The exact distance of two samples of numbers, in their unit.

    Parameters
    ----------
    real, synthetic
        Finite, (n,) and (m,), at least 1 value each. Every value has the same weight in its sample.
    """
    values = np.sort(np.concatenate([real, synthetic]))
    below = [
        np.searchsorted(np.sort(one), values[:-1], "right") / len(one) for one in (real, synthetic)
    ]
    return float(np.sum(np.abs(below[0] - below[1]) * np.diff(values)))


def sliced_distance(real: Reals, synthetic: Reals, *, projections: int, seed: int) -> float:
    """The mean distance along random directions.

    Parameters
    ----------
    real, synthetic
        Finite, (n, d) and (m, d), at least 1 row each.
    projections
        Number of directions, at least 1. The error of the mean falls as one over its root.
    seed
        Seed of the directions, from 0: one seed always gives the same directions.
    """
    along = directions(projections, real.shape[1], seed)
    return float(np.mean([wasserstein_distance(real @ v, synthetic @ v) for v in along]))


def directions(projections: int, dimensions: int, seed: int) -> Reals:
    """Unit vectors, independent and uniform on the sphere, (projections, dimensions)."""
    drawn = public_generator(seed).standard_normal((projections, dimensions))
    unit: Reals = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit
