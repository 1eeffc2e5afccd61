"""What several measures are made of is drawn once, for the epsilon of all of them.

By record a mean is made of how far values are above the lower bound and below the upper one. Where
one bound is 0, the sum of the same values is the first of these, or the second one with its sign
turned: it is read from what the mean draws, which has the epsilon of both. By user nothing is
shared: bounds of a sum are those of a total, and those of a mean of one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpframe.measures import Measure
from dpframe.mechanisms.rollup import Paid, Read, paid_for

Several = Mapping[str, tuple[Paid, ...]]


def drawn_and_read(
    measures: Mapping[str, Measure], each: Mapping[str, Fraction], *, by_user: bool
) -> tuple[Several, Mapping[str, Read]]:
    """The vectors that each measure draws, with their epsilons, and the sums that are read from
    those of a mean; ``each`` is what a measure is given. Of measures whose bounds are known."""
    paid = {name: paid_for(m, each[name], by_user=by_user) for name, m in measures.items()}
    read = {} if by_user else _read(measures, paid)
    for name, one in read.items():
        paid[name] = paid[name][1:]
        given = sum((p.cost for p in paid[one.of]), one.epsilon)
        paid[one.of] = paid_for(measures[one.of], given, by_user=by_user)
    return paid, read


def _read(measures: Mapping[str, Measure], paid: Several) -> dict[str, Read]:
    means = {(m.column, m.lower, m.upper): name for name, m in measures.items() if m.kind == "mean"}
    found = {}
    for name, m in measures.items():
        of = means.get((m.column, m.lower, m.upper))
        if m.kind == "sum" and of is not None and 0 in (m.steps.low, m.steps.high):
            found[name] = Read(of=of, epsilon=paid[name][0].cost)
    return found
