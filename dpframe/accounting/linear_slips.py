"""Accounting for laws whose log-likelihood ratios are linear in the amount that moved.

Geometric halves lose at most ``s / b`` when a count moves by ``s`` records, plus a small mass
``slip`` where the bounded table leaves the geometric law (its cut ends, its rounding). A user
whose records weigh ``s_1, s_2, ...`` with sum at most 1 therefore loses the share-weighted mean
of the losses of their paths, never more than one record's path, and slips at most once a level
and once at the release (docs/guarantees.md gives the proof). One record is the special case
of a single share, so the same bound serves tables too long for the recursion.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.path_recursion import FLOAT_SLACK
from dpframe.noise import NoiseTable


def linear_epsilon(
    *, right: float, left: float, release: float, height: int, remainder: bool
) -> float:
    """Return the pure part of one record's loss; scales in records, as in docs/mechanism.md."""
    selected_first = 1 / right + 1 / release
    selected_last = (height - 1) / left + 1 / release
    never = height / left + (1 / release if remainder else 0.0)
    return max(selected_first, selected_last, never)


def linear_delta(
    test: NoiseTable,
    release: NoiseTable,
    *,
    right: float,
    left: float,
    release_scale: float,
    height: int,
    grid: int,
) -> tuple[float, float]:
    """Return upper bounds on delta, ``(D from D', D' from D)``; tables count 1/grid of a record."""
    bot, top = _test_slips(test, right=right, left=left, grid=grid)
    slip_release = _release_slip(release, release_scale, grid)
    slack = _slack(release_scale, height, grid)
    fewer = height * bot + slip_release + slack
    more = height * top + slip_release + slack
    return min(1.0, fewer * (1 + 1e-9)), min(1.0, more * (1 + 1e-9))


def linear_parts(
    test: NoiseTable,
    release: NoiseTable,
    *,
    right: float,
    left: float,
    release_scale: float,
    height: int,
    grid: int,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (epsilon, delta) of all tests, and (epsilon, delta) of all releases.

    The tests keep theirs whatever the releases answer, and the releases whatever the tests answer.
    For the tests, a unit of the grid pays at most (1 / right) / grid if it is selected, and
    (height / left) / grid in the other direction. For the releases it pays
    (1 / release_scale) / grid, once.
    """
    slack = _slack(release_scale, height, grid)
    tests = height * max(_test_slips(test, right=right, left=left, grid=grid)) + slack
    releases = _release_slip(release, release_scale, grid) + slack
    return (
        (max(1 / right, height / left), min(1.0, tests * (1 + 1e-9))),
        (1 / release_scale, min(1.0, releases * (1 + 1e-9))),
    )


def _test_slips(test: NoiseTable, *, right: float, left: float, grid: int) -> tuple[float, float]:
    """Return the slips of one level: of a node that is not selected, and of a selected node."""
    top = _tail_slip(test.pmf, test.at_least()[1:], 1 / (right * grid))
    bot = _tail_slip(test.pmf, test.cumulative_chances()[:-1], 1 / (left * grid))
    return _whole_record(bot, 1 / left, grid), _whole_record(top, 1 / right, grid)


def _slack(release_scale: float, height: int, grid: int) -> float:
    """Return a bound above the rounding of floats."""
    return (height + 1) * FLOAT_SLACK + math.exp(1 / release_scale) * grid * 2.0**-51


@lru_cache(maxsize=4)  # a search tries many tests with one release
def _release_slip(release: NoiseTable, scale: float, grid: int) -> float:
    return table_slip(release.pmf, scale=scale, grid=grid)


def table_slip(pmf: NDArray[np.float64], *, scale: float, grid: int) -> float:
    """Return the slip of a bounded Laplace table whose counts move by one record, in any shares.

    Moving by a unit of 1/grid record loses at most 1 / (scale grid), up to the mass by which the
    table leaves the Laplace law; ``scale`` is in records.
    """
    atoms = np.concatenate([[0.0], pmf, [0.0]])
    rate = math.exp(1 / (scale * grid))
    apart = max(
        float(np.maximum(atoms[1:] - rate * atoms[:-1], 0).sum()),
        float(np.maximum(atoms[:-1] - rate * atoms[1:], 0).sum()),
    )
    return _whole_record(apart, 1 / scale, grid)


def _tail_slip(atom: NDArray[np.float64], beyond: NDArray[np.float64], rate: float) -> float:
    """Return max over x of (atom(x) + beyond(x)) - e^rate beyond(x), which is 0 for the exact law.

    A tail that takes in one unit more gains an atom. The formula uses expm1, so that rounding stays
    far below one unit's slip.
    """
    return float(np.max(np.maximum(atom - math.expm1(rate) * beyond, 0.0)))


def _whole_record(slip: float, rate: float, grid: int) -> float:
    """Return the slip of one record, however it is spread: slip (e^rate - 1)/(e^(rate/grid) - 1).

    Moving by s units slips at most slip (1 + e^(rate/grid) + ... ) (s terms), which is convex in s.
    """
    return slip * math.expm1(rate) / math.expm1(rate / grid)
