"""Parts and totals of the reported nodes of one tree that add up: least squares, with variances.

The *part* of a reported node is what it covers and no reported node below it does; its *total* is
its part and the totals of the nodes right below it. Parts are measured, and totals at some nodes:
two answers to one question wherever both are. `least_squares` merges them into the best estimates
that add up, and `variances` says how good these will be, before anything is drawn.

It differs from :mod:`.consistency` in that anything may be unmeasured, exactly and not by a large
variance, and that no estimate is kept from being negative: measures may be sums of signed values.

Privacy
-------
Post-processing of released values, of variances and of a tree that are all public: no budget.

References
----------
.. [1] Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of Differentially Private Histograms
   Through Consistency", VLDB 2010, section 4.
.. [2] Rauch, Tung, Striebel, "Maximum Likelihood Estimates of Linear Dynamic Systems",
   AIAA Journal 3 (1965); on a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.forest import Forest

Reals = NDArray[np.float64]

_VARIANCES = (1e-100, 1e100)
"""Within these, no product or quotient of two variances leaves float64."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Float64, shape (n,), in the order of the nodes; variances are inf where no measurement and no
    sum of measurements tells the value apart from other values: then it only adds up."""

    part: Reals
    total: Reals
    part_variance: Reals
    total_variance: Reals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SubtreeVariances:
    """From measurements in the subtree of a node alone, by level, shape (n,).

    ``s``: variance of its total, with its own measurement; ``terms``: variance of part and children
    together; ``known``: the sum of the finite variances of part and children; ``unknown``: how many
    of these variances are infinite.
    """

    s: Reals
    terms: Reals
    known: Reals
    unknown: NDArray[np.int64]


def least_squares(
    ancestor: NDArray[np.int64] | Forest,
    *,
    part: ArrayLike,
    part_variance: ArrayLike,
    total: ArrayLike,
    total_variance: ArrayLike,
) -> Estimates:
    """The best linear unbiased estimates of all parts and totals, for independent noises.

    Arrays have one value a node; ParameterError if one breaks a rule. ``ancestor``: the position of
    the nearest reported ancestor, ``ancestor[i] < i``, -1 for a root; or what
    :func:`checked_forest` made of it. Variances are from 1e-100 to 1e100, or inf where nothing was
    measured: such values are not read.

    Sums hold up to rounding of float64: give differences from whole numbers that add up if values
    are so large that this matters (:func:`.whole_parts.whole_estimates` does). A value that nothing
    tells apart from others shares what is left with them equally, and has variance inf.

    Notes
    -----
    *Up.* Part and children of v are estimated independently, with variances s_k that sum up to S;
    Z, their sum, and the measured total are two estimates of one number, merged by inverse
    variances. *Down.* x_v - Z is distributed over the terms in proportion to s_k (the proof stands
    in :func:`.consistency.consistent_counts`); if some s_k are infinite, over these alone. Time is
    linear in n, with some 50 microseconds per depth.

    Examples
    --------
    >>> e = least_squares(np.array([-1, 0, 0]), part=[0.0, 4.0, 6.0], part_variance=[1.0, 1.0, 1.0],
    ...                   total=[14.0, 0.0, 0.0], total_variance=[1.0, np.inf, np.inf])
    >>> e.total, e.part, e.total_variance
    (array([13.,  5.,  7.]), array([1., 5., 7.]), array([0.75, 0.75, 0.75]))
    """
    forest = checked_forest(ancestor)
    n = len(forest.order)
    vp = _order_by_level(forest, _read_tree_variances(part_variance, n, "part_variance"))
    vt = _order_by_level(forest, _read_tree_variances(total_variance, n, "total_variance"))
    p = _order_by_level(forest, _read_tree_values(part, n, "part"), np.isfinite(vp))
    t = _order_by_level(forest, _read_tree_values(total, n, "total"), np.isfinite(vt))
    if not (np.isfinite(p).all() and np.isfinite(t).all()):
        raise ParameterError("part and total must be finite where their variance is.")

    below = _variances_upward(forest, vp, vt)
    gain = np.divide(below.s, vt, out=np.zeros(n), where=np.isfinite(vt))
    terms, z = p.copy(), p  # z: merged with the own measurement
    z = terms + gain * (t - terms)
    for top, here, group in reversed(list(forest.levels())):
        terms[top] += np.bincount(group, z[here], top.stop - top.start)
        z[top] = terms[top] + gain[top] * (t[top] - terms[top])
    x = z.copy()
    for top, here, group in forest.levels():
        share = _share_of_term(below, top, below.s[here], group)
        x[here] += share * (x[top] - terms[top])[group]
    every = slice(0, n)
    fitted = p + _share_of_term(below, every, vp, np.arange(n)) * (x - terms)
    of_parts, of_totals = _variances_downward(forest, below, vp)
    return Estimates(
        part=forest.restore(fitted),
        total=forest.restore(x),
        part_variance=forest.restore(of_parts),
        total_variance=forest.restore(of_totals),
    )


def variances(forest: Forest, part_variance: Reals, total_variance: Reals) -> tuple[Reals, Reals]:
    """Variance of every part and of every total as `least_squares` estimates them: exact.
    Arguments are as there, but not checked.

    Notes
    -----
    A term of v has, given its own subtree, the variance s_k, and x_v uses the terms through their
    sum alone: what v learns from elsewhere leaves s_k - (s_k/S)**2 (S - P_v), with P_v the final
    variance of v [2]_. If exactly one s_k is infinite, that term is x_v less the others, which
    are independent of x_v; the others learn nothing.
    """
    vp, vt = part_variance[forest.order], total_variance[forest.order]
    of_parts, of_totals = _variances_downward(forest, _variances_upward(forest, vp, vt), vp)
    return forest.restore(of_parts), forest.restore(of_totals)


def checked_forest(ancestor: ArrayLike | Forest) -> Forest:
    """The nodes by depth; ``ancestor`` as for `least_squares`, at least one node. ParameterError if
    it breaks a rule."""
    if isinstance(ancestor, Forest):
        return ancestor
    above = np.asarray(ancestor)
    if above.ndim != 1 or above.dtype.kind != "i" or len(above) == 0:
        raise ParameterError("ancestor must be an array of whole numbers, one a node.")
    if (above < -1).any() or (above >= np.arange(len(above))).any():
        raise ParameterError(
            "ancestor must hold -1 <= ancestor[i] < i. List every node after its ancestor."
        )
    return Forest.of(above.astype(np.int64))


def _variances_upward(forest: Forest, vp: Reals, vt: Reals) -> _SubtreeVariances:
    known = np.where(np.isfinite(vp), vp, 0.0)
    unknown = (~np.isfinite(vp)).astype(np.int64)
    terms, s = vp.copy(), _merge_variances(vp, vt)
    for top, here, group in reversed(list(forest.levels())):
        size, open_ = top.stop - top.start, ~np.isfinite(s[here])
        unknown[top] += np.bincount(group[open_], minlength=size)
        known[top] += _sum_by_parent(group, np.where(open_, 0.0, s[here]), size)
        terms[top] = np.where(unknown[top] > 0, np.inf, known[top])
        s[top] = _merge_variances(terms[top], vt[top])
    return _SubtreeVariances(s=s, terms=terms, known=known, unknown=unknown)


def _sum_by_parent(group: NDArray[np.intp], values: Reals, size: int) -> Reals:
    """Sums over children, smallest first: one tree has the same variances, to the last bit, in
    whichever order siblings are listed. Intervals are recomputed from frames that were sorted."""
    if (values != values[:1]).any():
        by_value = np.lexsort((values, group))
        group, values = group[by_value], values[by_value]
    summed: Reals = np.asarray(np.bincount(group, values, size), dtype=np.float64)
    return summed


def _merge_variances(a: Reals, b: Reals) -> Reals:
    """Variance of two independent estimates of one number, merged."""
    with np.errstate(divide="ignore"):
        merged: Reals = 1 / (1 / a + 1 / b)
    return merged


def _share_of_term(
    below: _SubtreeVariances, top: slice, s: Reals, group: NDArray[np.intp]
) -> Reals:
    """The part that each term gets of what is to be distributed over the terms of nodes ``top``."""
    unknown = below.unknown[top][group]
    open_, known = ~np.isfinite(s), np.maximum(below.known[top][group], _VARIANCES[0])
    shared = np.where(open_, 0.0, s) / known
    return np.where(unknown > 0, open_ / np.maximum(unknown, 1), shared)


def _variances_downward(forest: Forest, below: _SubtreeVariances, vp: Reals) -> tuple[Reals, Reals]:
    """Final variances of parts and totals, by level."""

    def smoothed(top: slice, s: Reals, group: NDArray[np.intp]) -> Reals:
        share, above = _share_of_term(below, top, s, group), final[top][group]
        alone = np.where(below.unknown[top] == 1, below.known[top], np.inf)[group] + above
        finite = np.isfinite(s)
        learns = finite & (share > 0)
        learned = np.where(learns, share, 0.0) ** 2 * np.where(learns, above, 0.0)
        return np.where(finite, np.where(finite, s, 0.0) * (1 - share) + learned, alone)

    final = below.s.copy()
    for top, here, group in forest.levels():
        final[here] = smoothed(top, below.s[here], group)
    return smoothed(slice(0, len(vp)), vp, np.arange(len(vp))), final


def _order_by_level(forest: Forest, x: Reals, where: NDArray[np.bool_] | None = None) -> Reals:
    return x[forest.order] if where is None else np.where(where, x[forest.order], 0.0)


def _read_tree_values(values: ArrayLike, n: int, name: str) -> Reals:
    array = np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "if":
        raise ParameterError(f"{name} must hold one number a node.")
    return array.astype(np.float64)


def _read_tree_variances(values: ArrayLike, n: int, name: str) -> Reals:
    array = _read_tree_values(values, n, name)
    low, high = _VARIANCES
    if not (((array >= low) & (array <= high)) | (array == np.inf)).all():
        raise ParameterError(
            f"{name} must hold numbers from 1e-100 to 1e100, or inf where nothing was measured."
        )
    return array
