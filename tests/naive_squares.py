"""Slow, obvious twin of least squares on a tree: the normal equations, with pseudoinverses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def covered_matrix(ancestor: NDArray[np.int64]) -> Reals:
    """1 where the total of the row's node covers the part of the column's."""
    n = len(ancestor)
    covers = np.zeros((n, n))
    for v in range(n):
        above = v
        while above >= 0:
            covers[above, v] = 1
            above = int(ancestor[above])
    return covers


def normal_equations(
    ancestor: NDArray[np.int64], part: Reals, vp: Reals, total: Reals, vt: Reals
) -> tuple[Reals, Reals]:
    """Estimates of all parts, then all totals, and variances: inf for what is not estimable."""
    wanted = np.vstack([np.eye(len(ancestor)), covered_matrix(ancestor)])
    variance = np.concatenate([vp, vt])
    seen = np.isfinite(variance)
    root = 1 / np.sqrt(variance[seen])
    design = wanted[seen] * root[:, None]
    answers = np.concatenate([part, total])[seen] * root
    parts, *_ = np.linalg.lstsq(design, answers, rcond=1e-11)
    inverse = np.linalg.pinv(design, rcond=1e-11)
    estimable = np.abs(wanted @ (inverse @ design) - wanted).max(axis=1, initial=0) < 1e-6
    spread = ((wanted @ inverse) ** 2).sum(axis=1)
    return wanted @ parts, np.where(estimable, spread, np.inf)
