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

import numpy as np
from numpy.typing import NDArray

from dpframe.postprocess.forest import check_tree, downward_pass, upward_pass

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
