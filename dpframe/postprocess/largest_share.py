"""The largest share that one noise has in the variance of an estimate, node by node.

The noise in an estimate by least squares is a weighted sum of independent noises. Its half width
depends on the variance, and on whether one noise makes up most of the variance
(:mod:`.weighted_laplace`).

Privacy
-------
A function of variances and of a tree that are all public: no budget.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.postprocess.forest import Forest

Reals = NDArray[np.float64]


def largest_shares(forest: Forest, part_variance: Reals, total_variance: Reals) -> Reals:
    """The largest share that one measurement has in the variance of every total: above 0 and at
    most 1, and the same to the last bit in whichever order siblings are listed.

    Arguments are as for :func:`.tree_squares.variances`, all parts measured.

    Notes
    -----
    With z_v the estimate from the subtree of v, x_v = a_v z_v + r_v, and r_v is independent of the
    subtree. z_v = (1 - g) T + g t with T the sum of its part and its children's z, t its own
    measurement, g its gain; a child k of v has x_k = z_k + c_k (x_v - T), so that

        a_k = 1 + c_k d,    r_k = c_k (d (T - z_k) + a_v g t + r_v),    d = a_v (1 - g) - 1.

    The largest squared weight times variance follows down the tree, by maxima alone; and the
    variance itself by the same recursion, with sums (:func:`.tree_squares.variances`).
    """
    vp, vt = part_variance[forest.order], total_variance[forest.order]
    n = len(vp)
    measured = np.isfinite(vt)
    own = np.where(measured, vt, 0.0)
    terms, summed = vp.copy(), vp.copy()  # the largest, and the variance, of T
    second = np.zeros(n)  # the second largest
    gain, s, most = np.zeros(n), np.empty(n), np.empty(n)

    def merge(top: slice) -> None:
        gain[top] = np.divide(
            summed[top], summed[top] + own[top], out=np.zeros(n)[top], where=measured[top]
        )
        s[top] = np.where(measured[top], gain[top] * own[top], summed[top])
        most[top] = np.maximum((1 - gain[top]) ** 2 * terms[top], gain[top] ** 2 * own[top])

    merge(slice(0, n))
    for top, here, group in reversed(list(forest.levels())):
        size = top.stop - top.start
        by_value = np.lexsort((s[here], group))
        summed[top] += np.bincount(group[by_value], s[here][by_value], size)
        first, later = _two_largest(group, most[here], size)
        second[top] = np.maximum(np.minimum(terms[top], first), later)
        terms[top] = np.maximum(terms[top], first)
        merge(top)
    weight, rest, rest_variance = np.ones(n), np.zeros(n), np.zeros(n)
    for top, here, group in forest.levels():
        d = (weight[top] * (1 - gain[top]) - 1)[group]
        c = s[here] / summed[top][group]
        others = np.where(most[here] >= terms[top][group], second[top][group], terms[top][group])
        of_own = (weight[top] * gain[top]) ** 2 * own[top]
        weight[here] = 1 + c * d
        rest[here] = c**2 * np.maximum(d**2 * others, np.maximum(of_own, rest[top])[group])
        apart = np.maximum(summed[top][group] - s[here], 0.0)
        rest_variance[here] = c**2 * (d**2 * apart + (of_own + rest_variance[top])[group])
    largest = np.maximum(weight**2 * most, rest)
    found = largest / (weight**2 * s + rest_variance)
    return forest.restore(np.minimum(found, 1.0))


def _two_largest(group: NDArray[np.intp], values: Reals, size: int) -> tuple[Reals, Reals]:
    """The two largest values of every group; 0 where there are fewer."""
    first, later = np.zeros(size), np.zeros(size)
    np.maximum.at(first, group, values)
    at = np.lexsort((values, group))
    ends = np.flatnonzero(np.diff(np.append(group[at], -1)))
    rest = np.delete(at, ends)
    np.maximum.at(later, group[rest], values[rest])
    return first, later
