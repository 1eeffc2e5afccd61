"""Draw once what a mean and a sum have in common, for the epsilon of both measures.

If records are protected, a mean is made of two sums: how far values are above the lower bound, and
how far they are below the upper bound. Where one bound is 0, the sum measure of these values is the
first of the two, or the second with its sign turned. The sum measure is then read from the mean's
draw, which gets the epsilon of both measures. If users are protected, nothing is shared: the bounds
of a sum bound a user's total, and the bounds of a mean bound one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpframe.measures import Measure
from dpframe.mechanisms.rollup import SumFromMean, VectorCharge, vector_charges

PaidVectors = Mapping[str, tuple[VectorCharge, ...]]


def draws_and_reads(
    measures: Mapping[str, Measure], each: Mapping[str, Fraction], *, by_user: bool
) -> tuple[PaidVectors, Mapping[str, SumFromMean]]:
    """The vectors that each measure draws, with their epsilons, and the sums that are read from the
    vectors of a mean. ``each`` is the epsilon of each measure; all bounds are known."""
    paid = {name: vector_charges(m, each[name], by_user=by_user) for name, m in measures.items()}
    read = {} if by_user else _sums_from_means(measures, paid)
    for name, one in read.items():
        paid[name] = paid[name][1:]
        given = sum((p.cost for p in paid[one.of]), one.epsilon)
        paid[one.of] = vector_charges(measures[one.of], given, by_user=by_user)
    return paid, read


def _sums_from_means(measures: Mapping[str, Measure], paid: PaidVectors) -> dict[str, SumFromMean]:
    means = {(m.column, m.lower, m.upper): name for name, m in measures.items() if m.kind == "mean"}
    found = {}
    for name, m in measures.items():
        of = means.get((m.column, m.lower, m.upper))
        if m.kind == "sum" and of is not None and 0 in (m.steps.low, m.steps.high):
            found[name] = SumFromMean(of=of, epsilon=paid[name][0].cost)
    return found
