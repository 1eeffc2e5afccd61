"""Noisy counts of all nodes of a tree that add up: least squares, then whole numbers.

Noise is drawn for every node on its own, so a released parent is not the sum of its children.
A node is *complete* if its listed children are all there are: it is their sum. Below any other
node lies an unlisted remainder that nobody measured, and all that is known is that the remainder
is not negative. (A remainder that was measured is a child like any other: list it.) Two steps
repair the counts, in this order and without touching data:

1. `consistent_counts` solves *weighted least squares* exactly, with x_v = sum of the children of v
   for complete nodes and x_v >= this sum for others. Counts may be fractions and negative.
2. `consistent_whole_counts` makes counts whole and not negative. It goes from the root down and
   solves, parent by parent, the least squares problem of the children for the total of the parent,
   which is decided by then. That is the optimum for each family given its parent, not of all at
   once: large counts, decided first, are never moved to suit small ones (the order of [4]_).

`consistent_variance` is the variance that step 1 leaves where all nodes with children are complete.
It is known before anything is drawn.

Privacy
-------
Post-processing of noisy counts, variances and a tree that must all be public: no budget.
If all nodes with children are complete, step 1 is linear, and unbiased if the noise is. With
inequalities, and after step 2, it is not.

References
----------
.. [1] Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of Differentially Private Histograms
   Through Consistency", VLDB 2010, section 4, Theorem 3 (one number of children, one variance).
.. [2] Michelot, "A Finite Algorithm for Finding the Projection of a Point onto the Canonical
   Simplex of R^n", J. Optim. Theory Appl. 50 (1986); weighted here.
.. [3] Dinkelbach, "On Nonlinear Fractional Programming", Management Science 13 (1967).
.. [4] Abowd et al., "The 2020 Census Disclosure Avoidance System TopDown Algorithm",
   Harvard Data Science Review, 2022.
.. [5] Hintermueller, Ito, Kunisch, "The Primal-Dual Active Set Strategy as a Semismooth Newton
   Method", SIAM J. Optim. 13 (2003), Theorem 3.2 (M-matrices).
.. [6] Rauch, Tung, Striebel, "Maximum Likelihood Estimates of Linear Dynamic Systems",
   AIAA Journal 3 (1965); on a tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dpframe.counts import ListedNodes, NoisyTree
from dpframe.errors import ParameterError

_Number = TypeVar("_Number", np.float64, np.int64, np.object_)

_LARGEST = 2.0**61
"""Sums of whole numbers below this fit int64 with room to spare. Float64 rounds from 2**53 on."""

_VARIANCES = (1e-100, 1e100)
"""Within these, no product or quotient of a count and variances leaves float64."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forest:
    """Nodes renumbered level by level, in their old order within a level.

    ``order`` and ``up``: int64, shape (n,); for each node its old position, and the new position of
    its parent, -1 for a root. ``starts``: new position where each level starts, n at the end.
    ``kept``: what :mod:`.tree_squares` has computed of it.
    """

    order: NDArray[np.intp]
    up: NDArray[np.int64]
    starts: tuple[int, ...]
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, parent: NDArray[np.int64]) -> Forest:
        depth = (parent >= 0).astype(np.int64)
        ancestor = parent.astype(np.int64)
        below = np.flatnonzero(depth)
        while below.size:  # depth = steps to an ancestor + its steps upwards
            above = ancestor[below]
            depth[below] += depth[above]
            ancestor[below] = ancestor[above]
            below = below[ancestor[below] >= 0]
        order = np.argsort(depth, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        up = parent[order]
        up[up >= 0] = place[up[up >= 0]]
        starts = np.cumsum(np.bincount(depth, minlength=1))
        return cls(order=order, up=up, starts=(0, *starts.tolist()))

    def levels(self) -> Iterator[tuple[slice, slice, NDArray[np.intp]]]:
        """From the top down: the new positions of a level and of the next level, and for each node
        of the next level the place of its parent within the upper level."""
        for lo, mid, hi in zip(self.starts, self.starts[1:], self.starts[2:], strict=False):
            yield slice(lo, mid), slice(mid, hi), self.up[mid:hi] - lo

    def restore(self, x: NDArray[_Number]) -> NDArray[_Number]:
        """Return values of the renumbered nodes in the caller's numbering."""
        out = np.empty_like(x)
        out[self.order] = x
        return out


def check_tree(
    parent: ArrayLike, noisy: ArrayLike, variance: ArrayLike, complete: ArrayLike
) -> tuple[Forest, NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Check the arguments of :mod:`.consistency`. Return the forest, and by level the counts, the
    variances, and which nodes with children are complete, and which incomplete."""
    above, counts, var, flags = map(np.asarray, (parent, noisy, variance, complete))
    if above.ndim != 1 or not above.shape == counts.shape == var.shape == flags.shape:
        raise ParameterError("tree arrays must be one-dimensional, one value a node each.")
    if above.dtype.kind != "i" or (above < -1).any() or (above >= np.arange(len(above))).any():
        raise ParameterError(
            "parent must hold whole numbers with -1 <= parent[i] < i. List parents before children."
        )
    if flags.dtype != np.bool_:
        raise ParameterError("complete must be an array of booleans, one a node.")
    if counts.dtype.kind not in "if" or not np.abs(counts.astype(np.float64)).sum() < _LARGEST:
        raise ParameterError("counts must be finite numbers with absolute sum below 2**61.")
    if var.dtype.kind not in "if" or not ((var >= _VARIANCES[0]) & (var <= _VARIANCES[1])).all():
        raise ParameterError("variance must hold numbers from 1e-100 to 1e100.")
    inner = np.zeros(len(above), dtype=np.bool_)
    inner[above[above >= 0]] = True
    forest = Forest.of(above)
    order = forest.order
    y, v = counts[order].astype(np.float64), var[order].astype(np.float64)
    return forest, y, v, (inner & flags)[order], (inner & ~flags)[order]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubtreeEstimates:
    """What the subtree of each node alone tells of the node, given which nodes are ``tied`` to the
    sum of their children: float64 or bool, shape (n,), by level.

    ``z`` and ``s``: best estimate and its variance. ``sums`` and ``below``: sums of ``z`` and of
    ``s`` over the children.
    """

    z: NDArray[np.float64]
    s: NDArray[np.float64]
    sums: NDArray[np.float64]
    below: NDArray[np.float64]
    tied: NDArray[np.bool_]


def upward_pass(
    forest: Forest,
    y: NDArray[np.float64],
    var: NDArray[np.float64],
    tied: NDArray[np.bool_],
    undecided: NDArray[np.bool_] | None = None,
) -> SubtreeEstimates:
    """Estimate nodes from the leaves up. An undecided node becomes tied if its own value is below
    the sum of its children's estimates."""
    z, s, sums, below, tied = y.copy(), var.copy(), np.zeros_like(y), np.zeros_like(y), tied.copy()
    for top, here, group in reversed(list(forest.levels())):
        sums[top] = np.bincount(group, z[here], top.stop - top.start)
        below[top] = np.bincount(group, s[here], top.stop - top.start)
        if undecided is not None:
            tied[top] |= undecided[top] & (y[top] < sums[top])
        gain = np.where(tied[top], var[top] / (var[top] + below[top]), 0.0)
        z[top] += gain * (sums[top] - z[top])
        s[top] = np.where(tied[top], gain * below[top], s[top])
    return SubtreeEstimates(z=z, s=s, sums=sums, below=below, tied=tied)


def downward_pass(forest: Forest, up: SubtreeEstimates) -> NDArray[np.float64]:
    """Return the least squares solution for these tied nodes, by level, from the roots down."""
    x = up.z.copy()
    for top, here, group in forest.levels():
        gap = np.where(up.tied[top], x[top] - up.sums[top], 0.0)
        x[here] += up.s[here] / up.below[top][group] * gap[group]
    return x


# -- Noisy counts of all nodes of a tree that add up: least squares, then whole numbers -----------


_BINDS = 0.5
"""In records: `consistent_whole_counts` treats an incomplete node whose remainder is below this as
the sum of its children."""


def consistent_counts(
    parent: NDArray[np.int64],
    noisy: NDArray[np.float64] | NDArray[np.int64],
    variance: NDArray[np.float64],
    *,
    complete: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """The counts closest to the noisy ones that can be counts of this tree.

    Minimises ``sum((x - noisy)**2 / variance)`` over x with x[v] = sum of x over the children of
    v for every complete v that has children, and x[v] >= this sum for every incomplete one.

    Without incomplete nodes, and if the noises are independent and unbiased with these variances, x
    is the best linear unbiased estimate of the true counts (Gauss-Markov). In any case ``sum((x -
    true)**2 / variance) <= sum((noisy - true)**2 / variance)``, for every noise: x is the
    projection onto a convex set in which the true counts lie.

    Arrays have one value a node; ParameterError if one breaks a rule. ``parent``: the position of
    the parent, ``parent[i] < i``, -1 for a root; several roots are several trees. ``noisy``: the
    sum of absolute values is below 2**61; from 2**53 on float64 rounds to a few units.
    ``variance``: from 1e-100 to 1e100; only ratios matter. ``complete``: True where the listed
    children are all there are. Sums of the result hold up to rounding of float64; it may be
    negative.

    Notes
    -----
    *Two passes solve the equations of a set A of tied nodes.* Claim: the least cost of the
    subtree of v as a function of x_v is const + (x_v - z_v)**2 / s_v. It holds with
    z_v = noisy_v, s_v = variance_v if v is not tied. Otherwise, by induction and Cauchy-Schwarz,
    children that sum to x cost at least (x - Z)**2 / S with Z = sum of z_c, S = sum of s_c, and
    exactly that at x_c = z_c + (x - Z) s_c / S only. Adding (x - noisy_v)**2 / variance_v and
    completing the square leaves 1/s_v = 1/variance_v + 1/S and
    z_v = s_v (noisy_v/variance_v + Z/S). Upwards this gives z and s; a root or a child of a node
    that is not tied is at its best at x = z, and downwards x_c follows from x_v.

    *Which nodes are tied.* Complete ones, and incomplete ones that bind. The derivative of the
    cost below a tied v by the sum of its children is 2 (x_v - Z_v)/S_v: the multiplier of v is
    m_v = (Z_v - x_v)/S_v (times 2), and m_v = 0 if v is not tied. x is the optimum if (Karush,
    Kuhn, Tucker; the cost is strictly convex) x_v < Z_v or m_v = 0 for each tied incomplete v,
    and x_v >= Z_v, which is then the sum of its children, for each that is not tied. So
    A := complete nodes and all v with x_v < Z_v, until A no longer changes.

    *It ends*, from any first A, and A only grows after its first change [5]_. Let B x = (x_v minus
    the children of v) over all v with children, Q = B diag(variance) B'. Then x = noisy +
    variance B'm, and B x = Q m + b. Q is positive definite, and off its diagonal are only 0
    and, for a node and its child c, -variance_c <= 0: so Q, and each of its principal parts, has
    an inverse without negative entries. Let m and m' belong to A and the next set A', d = m' - m.
    Outside A', m' = 0 >= m: d >= 0. Inside, Q m' + b = 0 and Q m + b <= 0 (0 for old members,
    below 0 for new ones), so Q d >= 0 there, and also without the part of d outside, which adds
    nothing above 0: d >= 0 inside too. Hence m' >= m; m' > 0 for incomplete members that stay, as
    m > 0, and for new ones, as (Q d)_v > 0. From then on no member leaves. At most 2 + (number
    of incomplete nodes) solutions; in practice below 10, as the first A is decided in the first
    upward pass, v tied iff noisy_v < Z_v, and is right but where nodes above move v over the edge.

    Time is linear in n for each solution, with some 50 microseconds more for every level.

    Examples
    --------
    >>> parent, noisy = np.array([-1, 0, 0]), np.array([13.0, 4.0, 6.0])
    >>> consistent_counts(parent, noisy, np.ones(3), complete=np.array([True, False, False]))
    array([12.,  5.,  7.])
    >>> consistent_counts(parent, noisy, np.ones(3), complete=np.array([False, False, False]))
    array([13.,  4.,  6.])
    >>> noisy = np.array([6.0, 4.0, 6.0])  # too few: no remainder is negative
    >>> consistent_counts(parent, noisy, np.ones(3), complete=np.zeros(3, dtype=bool)).round(2)
    array([7.33, 2.67, 4.67])
    """
    forest, y, var, closed, open_ = check_tree(parent, noisy, variance, complete)
    up = upward_pass(forest, y, var, closed, open_)
    x = downward_pass(forest, up)
    tied = closed | (open_ & (x < up.sums))
    while (tied != up.tied).any():
        up = upward_pass(forest, y, var, tied)
        x = downward_pass(forest, up)
        tied = up.tied | (open_ & (x < up.sums))  # a member that rounding would drop stays
    return forest.restore(x)


def consistent_variance(
    parent: NDArray[np.int64], variance: NDArray[np.float64], *, complete: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Variance of every count of `consistent_counts` if complete nodes alone tie their children.

    It is the variance of the least squares estimate with the equations of complete nodes and no
    inequality, for independent noises with the given variances; exact where every node with
    children is complete. Arguments are those of `consistent_counts`. Errors of rounding are those
    of float64 for the largest variance among siblings.

    Notes
    -----
    A root or a child of an untied node has x = z, of variance s. Below a tied v let e_c be the
    errors of the z_c, independent with variances s_c, and E their sum, of variance S. x_v uses the
    children's data through Z alone: its error is (1 - g) E + g W with W independent of the e_c, of
    variance P_v, and as g is the best, 1 - g = P_v/S. So it has the covariances s_c P_v/S with
    e_c and P_v with E, and the error of x_c, e_c + (s_c/S) (error of x_v - E), has the variance
    P_c = s_c - (s_c/S)**2 (S - P_v): the smoother of [6]_.

    Examples
    --------
    >>> consistent_variance(np.array([-1, 0, 0]), np.ones(3), complete=np.ones(3,
    ...     dtype=bool)).round(3)
    array([0.667, 0.667, 0.667])
    """
    forest, y, var, closed, _ = check_tree(parent, np.zeros(len(parent)), variance, complete)
    up = upward_pass(forest, y, var, closed)
    p = up.s.copy()
    for top, here, group in forest.levels():
        share = up.s[here] / up.below[top][group]
        smoothed = up.s[here] * (1 - share) + share**2 * p[top][group]
        p[here] = np.where(closed[top][group], smoothed, p[here])
    return forest.restore(p)


def consistent_whole_counts(
    parent: NDArray[np.int64],
    values: NDArray[np.float64] | NDArray[np.int64],
    variance: NDArray[np.float64],
    *,
    complete: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Whole counts of at least 0 that add up exactly, close to given ones.

    Every complete node that has children is their sum; any other node is at least the sum of its
    listed children. A root becomes the nearest whole number that is not negative. Then, from the
    top down, the children z of a node with the total t become the c that minimise
    ``sum((c - z)**2 / s)`` over c >= 0 with sum(c) = t, or <= t if the node is not complete.
    Here s is the variance of the best estimate of each child from its own subtree, as in
    `consistent_counts`; an incomplete node counts as tied if the given values leave it less than
    half a record beside its children. The c are rounded by largest remainder: to the sum t, or, if
    the node is not complete, to the whole number nearest to their sum.

    Arguments are those of `consistent_counts`, and ``values`` usually its result. From 2**53 on,
    counts are the closest ones up to rounding; sums hold exactly. Values that already satisfy these
    rules come back unchanged. Ties (of float64) go to the sibling listed first; apart from ties the
    order of the nodes does not matter.

    Notes
    -----
    *Distance.* If the values are not negative and add up, a node d levels below its root moves by
    less than d + 1/2 (1/2 at the root): all siblings are shifted in one direction, together by no
    more than their parent moved, and rounding then moves each by less than 1. Otherwise the
    distance has no bound but that of the violation: negative values are raised at the expense of
    their siblings.

    *Projection.* The minimiser is c = max(z - u s, 0) with u the root of the convex decreasing
    f(u) = sum of max(z - u s, 0) - t (u = 0 where f(0) <= 0 and the node is incomplete). Newton's
    method from below drops children that reach 0 until none does [2]_; each step halves f or
    its slope [3]_, so steps are logarithmic in the ratios of counts and variances.

    *Rounding.* No whole numbers of the same sum are closer to c in squared distance: raising a
    floor costs 1 - 2 * fraction, and the largest fractions are raised.

    Examples
    --------
    >>> parent, values = np.array([-1, 0, 0, 0]), np.array([9.0, 5.5, 4.5, -1.0])
    >>> consistent_whole_counts(parent, values, np.ones(4), complete=np.array([True, False,
    ...     False, False]))
    array([9, 5, 4, 0])
    """
    forest, z, var, tied, open_ = check_tree(parent, values, variance, complete)
    covered = np.zeros_like(z)
    for top, here, group in forest.levels():
        covered[top] = np.bincount(group, z[here], top.stop - top.start)
    s = upward_pass(forest, z, var, tied | (open_ & (z < covered + _BINDS))).s
    x = np.zeros(len(z), dtype=np.int64)
    roots = slice(0, forest.starts[1])
    x[roots] = np.floor(np.maximum(z[roots], 0) + 0.5)
    for top, here, group in forest.levels():
        share = _project_children(x[top], group, z[here], s[here], tied[top])
        near = np.floor(np.bincount(group, share, len(x[top])) + 0.5).astype(np.int64)
        near = np.minimum(near, x[top])  # shares of huge values can lose digits and sum to more
        x[here] = _largest_remainder(np.where(tied[top], x[top], near), group, share)
    return forest.restore(x)


def _project_children(
    total: NDArray[np.int64],
    group: NDArray[np.intp],
    z: NDArray[np.float64],
    s: NDArray[np.float64],
    exact: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Per family, the c >= 0 closest to z whose sum is the total, or, if the family is not
    ``exact``, at most the total."""
    u = np.zeros(len(total))
    active = np.arange(len(z))  # children not yet at 0
    while True:
        family = group[active]
        excess = np.bincount(family, z[active], len(total)) - total
        slope = np.bincount(family, s[active], len(total))
        np.divide(excess, slope, out=u, where=slope > 0)
        np.maximum(u, 0, out=u, where=~exact)
        left = active[z[active] > u[family] * s[active]]
        if len(left) == len(active):
            share = np.zeros_like(z)  # what reached 0 stays there, however u is rounded
            share[active] = np.maximum(z[active] - u[family] * s[active], 0)
            return share
        active = left


def _largest_remainder(
    total: NDArray[np.int64], group: NDArray[np.intp], share: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Largest remainder: per family, whole numbers >= 0 with exactly the given total.

    The total differs from the sum of shares by less than 1 if arithmetic is exact. The last
    digits of float64 can make floors exceed the total; the sum is right even then.
    """
    count = np.bincount(group, minlength=len(total))
    floor = np.floor(share).astype(np.int64)
    order = np.lexsort((floor - share, group))  # stable: ties by position
    family = group[order]
    base = floor[order]
    ends = np.cumsum(base)
    last = np.cumsum(count)
    before = np.append(0, ends)[last - count]  # sum of floors of the families before
    missing = total - (np.append(0, ends)[last] - before)
    rank = np.arange(len(group)) - (last - count)[family]
    each, rest = np.divmod(np.maximum(missing, 0), np.maximum(count, 1))
    excess = np.maximum(-missing, 0)[family] - (ends - base - before[family])
    base += each[family] + (rank < rest[family]) - np.clip(excess, 0, base)
    out = np.empty_like(base)
    out[order] = base
    return out


# -------------------------------------------------------------------------------------------------
# Counts of a tree that add up, with an ``<other>`` row for what no released child covers.


def tree_in_records(noisy: NoisyTree, grid: int) -> NoisyTree:
    """Convert units to whole records: counts to the nearest, halves up, and intervals outwards."""
    rest = noisy.rest
    return replace(
        noisy,
        count=(2 * noisy.count + grid) // (2 * grid),
        lower=noisy.lower // grid,
        upper=-(-noisy.upper // grid),
        rest=None if rest is None else (rest[0] // grid, -(-rest[1] // grid)),
    )


def consistent_tree(noisy: NoisyTree, grid: int) -> NoisyTree:
    """Non-negative whole records in which every node is the sum of its children.

    Weighted least squares, then the nearest whole numbers (:mod:`.consistency`); where a node may
    have children that are not released, an ``<other>`` child takes what the released children
    leave, and is never negative. Post-processing: free. The counts are no longer unbiased.

    Intervals are computed from the noise in the counts before they are adjusted. Two changes keep
    their confidence: ends are raised to 0, as true counts are not negative, and intervals are
    widened where needed to hold the adjusted count. The interval of an ``<other>`` row is ``rest``,
    or goes from 0 to the upper end of its parent if there is no ``rest``.
    """
    variance = noisy.variance
    if variance is None:
        half = (noisy.upper - noisy.lower) / 2
        variance = np.maximum(half, 1.0) ** 2
    closed = ~noisy.open
    values = consistent_counts(noisy.parent, noisy.count, variance, complete=closed) / grid
    count = consistent_whole_counts(noisy.parent, values, variance / grid**2, complete=closed)
    exact = replace(tree_in_records(noisy, grid), count=count)
    full = _append_rests(exact)
    lower = np.minimum(np.maximum(full.lower, 0), full.count)
    return replace(full, lower=lower, upper=np.maximum(full.upper, full.count))


def _append_rests(noisy: NoisyTree) -> NoisyTree:
    """Append an ``<other>`` child to every open node that has children."""
    n = len(noisy.level)
    covered = np.zeros(n, dtype=np.int64)
    np.add.at(covered, noisy.parent[1:], noisy.count[1:])
    has_child = np.zeros(n, dtype=np.bool_)
    has_child[noisy.parent[1:]] = True
    above = np.flatnonzero(has_child & noisy.open)
    if noisy.rest is None:
        low, high = np.zeros(len(above), dtype=np.int64), noisy.upper[above]
    else:
        low, high = noisy.rest[0][above], noisy.rest[1][above]
    places = pa.array(np.concatenate([np.arange(n), above]))
    return NoisyTree(
        level=_append_values(noisy.level, noisy.level[above] + 1),
        parent=_append_values(noisy.parent, above),
        count=_append_values(noisy.count, (noisy.count - covered)[above]),
        lower=_append_values(noisy.lower, low),
        upper=_append_values(noisy.upper, high),
        other=np.concatenate([noisy.other, np.ones(len(above), dtype=np.bool_)]),
        open=np.zeros(n + len(above), dtype=np.bool_),
        keys=tuple(column.take(places) for column in noisy.keys),
    )


def _append_values(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([a, b.astype(np.int64)])


# -------------------------------------------------------------------------------------------------
# How to divide a budget over levels when the tree is public: least error of the worst node.


LARGEST_TREE = 20_000
"""The most nodes of a tree for which weights are searched. In larger trees nodes have many
children, and weights gain nothing."""

RATIOS = (1.0, 0.8, 0.9, 1.1, 1.25, 1.4, 1.6, 1.8, 2.0, 2.5)
"""Weight of a level over the weight of the level above; 1 first, so that it wins ties."""


def deepest_level(listed: ListedNodes) -> int:
    """The last level that has listed or ``<other>`` nodes."""
    return int((listed.level + listed.rest).max())


def best_weights(listed: ListedNodes, height: int, *, squared: bool) -> tuple[float, ...]:
    """Weights of levels 0 to ``height``, a geometric series, that leave the least variance of the
    worst node after least squares.

    An ``<other>`` node of the public nodes counts as one more child. ``squared``: whether the
    variance of a level is proportional to 1 / weight (Gaussian), and not the standard deviation
    (Laplace). All are 1 if the tree is larger than ``LARGEST_TREE``, or if no other weights lower
    the largest variance of a node by at least 1 %. Without least squares equal weights are best: of
    numbers with a given sum of inverses the largest is least if all are equal.
    """
    equal = (1.0,) * (height + 1)
    if len(listed.level) > LARGEST_TREE:
        return equal
    n, rests = len(listed.level), np.flatnonzero(listed.rest)
    parent = np.concatenate([listed.parent, rests])
    level = np.concatenate([listed.level, listed.level[rests] + 1])
    complete = np.ones(n + len(rests), dtype=np.bool_)

    def worst(ratio: float) -> float:
        weights = ratio ** np.arange(height + 1)
        share = weights / weights.sum()
        variance = 1 / share if squared else 1 / share**2
        return float(consistent_variance(parent, variance[level], complete=complete).max())

    errors = [worst(ratio) for ratio in RATIOS]
    best = RATIOS[int(np.argmin(errors))]
    if min(errors) > 0.99 * errors[0]:
        return equal
    return tuple(float(best**depth) for depth in range(height + 1))
