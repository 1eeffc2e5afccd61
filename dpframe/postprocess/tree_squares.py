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
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.consistency import Forest

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Spread:
    """What variances of measurements, ``measured``, say of a forest: the variances in subtrees,
    those that least squares leaves of parts and totals, and which share parts and totals get of
    what is distributed over the terms of one node; by level."""

    measured: tuple[Reals, Reals]
    below: _SubtreeVariances
    left: tuple[Reals, Reals]
    shares: tuple[Reals, Reals]


def _spread(forest: Forest, vp: Reals, vt: Reals) -> _Spread:
    """The spread for variances by level: the last one is kept, since vectors share variances."""
    known: _Spread | None = forest.kept.get("spread")
    if known is None or not all(map(np.array_equal, known.measured, (vp, vt))):
        below = _variances_upward(forest, vp, vt)
        left, shares = _variances_downward(forest, below, vp)
        known = _Spread(measured=(vp, vt), below=below, left=left, shares=shares)
        forest.kept["spread"] = known
    return known


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
    are so large that this matters (`whole_estimates` does). A value that nothing
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

    spread = _spread(forest, vp, vt)
    below = spread.below
    gain = np.divide(below.s, vt, out=np.zeros(n), where=np.isfinite(vt))
    terms, z = p.copy(), p  # z: merged with the own measurement
    z = terms + gain * (t - terms)
    for top, here, group in reversed(list(forest.levels())):
        terms[top] += np.bincount(group, z[here], top.stop - top.start)
        z[top] = terms[top] + gain[top] * (t[top] - terms[top])
    x = z.copy()
    of_part, of_total = spread.shares
    for top, here, group in forest.levels():
        x[here] += of_total[here] * (x[top] - terms[top])[group]
    fitted = p + of_part * (x - terms)
    of_parts, of_totals = spread.left
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
    of_parts, of_totals = _spread(
        forest, part_variance[forest.order], total_variance[forest.order]
    ).left
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


def _variances_downward(
    forest: Forest, below: _SubtreeVariances, vp: Reals
) -> tuple[tuple[Reals, Reals], tuple[Reals, Reals]]:
    """Final variances of parts and totals, and their shares, by level."""

    def smoothed(top: slice, s: Reals, group: NDArray[np.intp]) -> tuple[Reals, Reals]:
        share, above = _share_of_term(below, top, s, group), final[top][group]
        alone = np.where(below.unknown[top] == 1, below.known[top], np.inf)[group] + above
        finite = np.isfinite(s)
        learns = finite & (share > 0)
        learned = np.where(learns, share, 0.0) ** 2 * np.where(learns, above, 0.0)
        return np.where(finite, np.where(finite, s, 0.0) * (1 - share) + learned, alone), share

    final, shares = below.s.copy(), np.zeros_like(below.s)
    for top, here, group in forest.levels():
        final[here], shares[here] = smoothed(top, below.s[here], group)
    of_parts, part_shares = smoothed(slice(0, len(vp)), vp, np.arange(len(vp)))
    return (of_parts, final), (part_shares, shares)


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


# -- The largest share that one noise has in the variance of an estimate, node by node ------------
#
# The noise in an estimate by least squares is a weighted sum of independent noises. Its half
# width depends on the variance, and on whether one noise makes up most of the variance
# (:mod:`.weighted_laplace`).


def largest_shares(forest: Forest, part_variance: Reals, total_variance: Reals) -> Reals:
    """The largest share that one measurement has in the variance of every total: above 0 and at
    most 1, and the same to the last bit in whichever order siblings are listed.

    Arguments are as for `variances`, all parts measured.

    Notes
    -----
    With z_v the estimate from the subtree of v, x_v = a_v z_v + r_v, and r_v is independent of the
    subtree. z_v = (1 - g) T + g t with T the sum of its part and its children's z, t its own
    measurement, g its gain; a child k of v has x_k = z_k + c_k (x_v - T), so that

        a_k = 1 + c_k d,    r_k = c_k (d (T - z_k) + a_v g t + r_v),    d = a_v (1 - g) - 1.

    The largest squared weight times variance follows down the tree, by maxima alone; and the
    variance itself by the same recursion, with sums (`variances`).
    """
    vp, vt = part_variance[forest.order], total_variance[forest.order]
    kept: tuple[tuple[Reals, Reals], Reals] | None = forest.kept.get("largest")
    if kept is not None and all(map(np.array_equal, kept[0], (vp, vt))):
        return kept[1]
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
        summed[top] += _sum_by_parent(group, s[here], size)
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
    found = np.maximum(weight**2 * most, rest) / (weight**2 * s + rest_variance)
    largest = forest.restore(np.minimum(found, 1.0))
    forest.kept["largest"] = (vp, vt), largest
    return largest


def _two_largest(group: NDArray[np.intp], values: Reals, size: int) -> tuple[Reals, Reals]:
    """The two largest values of every group; 0 where there are fewer."""
    first, later = np.zeros(size), np.zeros(size)
    if not (values != values[:1]).any():
        number = np.bincount(group, minlength=size)
        first[number > 0], later[number > 1] = values[0], values[0]
        return first, later
    np.maximum.at(first, group, values)
    at = np.lexsort((values, group))
    ends = np.flatnonzero(np.diff(np.append(group[at], -1)))
    rest = np.delete(at, ends)
    np.maximum.at(later, group[rest], values[rest])
    return first, later


# -- Whole parts and totals of a tree that add up, each less than 1 from its estimate -------------
#
# Estimates of whole values are fractions. Parts are rounded in preorder, cumulatively: every
# total sums a stretch of this order, so at any depth it is as close to its estimate as a part is.
# Arithmetic on values is in whole numbers; only differences from measured values, which are as
# small as the noise, are ever floats.


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
    """Least squares of `least_squares`, then whole numbers that add up.

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
    """Exact totals of whole parts, one or a row of them a node, in the order of the nodes; in int64
    sums must be below 2**63."""
    total = part.copy()
    for top, here, group in reversed(list(forest.levels())):
        below, above = forest.order[here], forest.order[top][group]
        for start in range(0, len(below), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            np.add.at(total, above[some], total[below[some]])
    return total


AT_ONCE = 2**12
"""Nodes that are added up at once: copies of rows of all of them would double the memory."""


def _preorder(forest: Forest) -> NDArray[np.int64]:
    """For each node, in the order of the nodes, its place in a preorder: there every subtree is one
    stretch."""
    kept: NDArray[np.int64] | None = forest.kept.get("place")
    if kept is not None:
        return kept
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
    place = forest.kept["place"] = forest.restore(place)
    return place


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
