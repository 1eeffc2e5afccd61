"""Whole parts and totals of a tree that add up, each less than 1 from its estimate.

Estimates of whole values are fractions. Parts are rounded in preorder, cumulatively: every total
sums a stretch of this order, so at any depth it is as close to its estimate as a part is.
Arithmetic on values is in whole numbers; only differences from measured values, which are as small
as the noise, are ever floats.

Privacy
-------
Post-processing of released values, variances and a tree, all public: no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.forest import Forest
from dpframe.postprocess.tree_squares import checked_forest, least_squares

Whole = NDArray[np.int64]

_Number = TypeVar("_Number", np.int64, np.object_)

_LARGEST = 2.0**62
"""Sums of absolute values below this leave int64 room for noise and rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WholeEstimates:
    """Shape (n,), in the order of the nodes: values int64, which add up exactly, and float64
    variances of the estimates before rounding (inf: no measurement tells the value)."""

    part: Whole
    total: Whole
    part_variance: NDArray[np.float64]
    total_variance: NDArray[np.float64]


def whole_estimates(
    ancestor: Whole | Forest,
    *,
    part: Whole,
    part_variance: ArrayLike,
    total: Whole,
    total_variance: ArrayLike,
) -> WholeEstimates:
    """Least squares of :func:`.tree_squares.least_squares`, then whole numbers that add up.

    Arguments are as there, but measured values are whole; the absolute values of all parts,
    measured and estimated, and of the largest total sum up to less than 2**62. Every part and total
    is less than 1 from the least squares estimate (as computed in float64 from differences, which
    are as large as noise is). Without measured totals, parts come back unchanged.

    Notes
    -----
    The estimate is linear and keeps what adds up: for measured values less any values b that add
    up, it is the estimate less b. First b is made of the measured parts, which differ from the
    measured totals by noise. Where parts were not measured the difference is not small, and b
    becomes the rounded estimate, twice.

    Examples
    --------
    >>> found = whole_estimates(
    ...     np.array([-1, 0, 0]), part=np.array([0, 2**60, 6]), part_variance=np.ones(3),
    ...     total=np.array([2**60 + 10, 0, 0]), total_variance=np.array([1, np.inf, np.inf]),
    ... )
    >>> found.part - np.array([0, 2**60, 6]), int(found.total[0] - 2**60)
    (array([1, 1, 1]), 9)
    """
    forest = checked_forest(ancestor)
    n = len(forest.order)
    vp, vt = np.asarray(part_variance), np.asarray(total_variance)
    p, t = (_check_measured(*given, n) for given in ((part, vp, "part"), (total, vt, "total")))
    base = p
    for _ in range(1 if np.isfinite(vp).all() else 3):
        _check_fits(base, t)
        found = least_squares(
            forest,
            part=np.where(np.isfinite(vp), p - base, 0),
            part_variance=vp,
            total=np.where(np.isfinite(vt), t - totals_of(forest, base), 0),
            total_variance=vt,
        )
        _check_fits(base.astype(np.float64) + found.part, t)
        base = base + rounded_parts(forest, found.part)
    return WholeEstimates(
        part=base,
        total=totals_of(forest, base),
        part_variance=found.part_variance,
        total_variance=found.total_variance,
    )


def rounded_parts(forest: Forest, part: NDArray[np.float64]) -> Whole:
    """Round parts, below 2**62, to whole numbers: every part and every total moves by less than 1.

    Notes
    -----
    With F the sums of fractions of the parts in preorder and R(x) = floor(x + 1/2), the i-th part
    becomes its floor + R(F_i) - R(F_{i-1}). A total sums a stretch of the order: it changes by
    (R(F_j) - F_j) - (R(F_i) - F_i), a difference of two numbers in (-1/2, 1/2].
    """
    place = _preorder(forest)
    floor = np.floor(part)
    fractions = np.empty_like(part)
    fractions[place] = part - floor
    steps = np.diff(np.floor(np.cumsum(fractions) + 0.5), prepend=0.0)
    return floor.astype(np.int64) + steps[place].astype(np.int64)


def totals_of(forest: Forest, part: NDArray[_Number]) -> NDArray[_Number]:
    """Exact totals of whole parts, in the order of the nodes; in int64 sums must be below 2**63."""
    total = part[forest.order]
    for top, here, group in reversed(list(forest.levels())):
        np.add.at(total[top], group, total[here])
    return forest.restore(total)


def _preorder(forest: Forest) -> NDArray[np.int64]:
    """For each node, in the order of the nodes, its place in a preorder: there every subtree is one
    stretch."""
    size = np.ones(len(forest.order), dtype=np.int64)
    for top, here, group in reversed(list(forest.levels())):
        np.add.at(size[top], group, size[here])
    place = np.zeros_like(size)
    roots = slice(0, forest.starts[1])
    place[roots] = np.cumsum(size[roots]) - size[roots]
    for top, here, group in forest.levels():  # siblings stand side by side if sorted by parent
        by_parent = np.argsort(group, kind="stable")
        before = np.cumsum(size[here][by_parent]) - size[here][by_parent]
        family = group[by_parent]
        first = np.searchsorted(family, family)  # where the family begins
        place[here.start + by_parent] = place[top][family] + 1 + before - before[first]
    return forest.restore(place)


def _check_fits(part: NDArray[np.float64] | Whole, total: Whole) -> None:
    if (
        not np.abs(part.astype(np.float64)).sum() + np.abs(total.astype(np.float64)).max()
        < _LARGEST
    ):
        raise ParameterError(
            "absolute values of parts and the largest total must sum to less than 2**62."
        )


def _check_measured(values: Whole, variance: NDArray[np.float64], name: str, n: int) -> Whole:
    array = np.asarray(values)
    if array.shape != (n,) or variance.shape != (n,) or array.dtype.kind != "i":
        raise ParameterError(f"{name} needs one whole number and one variance for each node.")
    return np.where(np.isfinite(variance), array.astype(np.int64), 0)
