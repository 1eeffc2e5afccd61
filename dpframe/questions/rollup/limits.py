"""What a measure must get at least for its noise to be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpframe.errors import BudgetError
from dpframe.mechanisms.node_counts import NodeCounts
from dpframe.mechanisms.rollup import Paid, Searching
from dpframe.questions.rollup.base import Asked
from dpframe.steps import WHOLE_DIGITS

LEAST = 1e-6
"""Epsilon of a measure, below which noise would hide everything."""

LARGEST_SCALE = 2**54
"""Scale of noise on parts alone: a draw beyond 64 bits, which would be an error, has a chance below
1e-200."""


def check_least(each: Mapping[str, Fraction], asked: Asked) -> None:
    """BudgetError for a measure that would drown."""
    for name, own in each.items():
        if own < Fraction(LEAST):
            raise BudgetError(
                f"measure {name!r} would get epsilon {float(own):.2g} of {asked.budget.epsilon:g}: "
                "ask for fewer measures, raise its share=, or raise epsilon."
            )


def check_scales(
    paid: Mapping[str, tuple[Paid, ...]],
    searching: Mapping[str, Searching],
    counts: Mapping[str, NodeCounts],
) -> None:
    """BudgetError for noise beyond 64 bits."""
    vectors = {name: [p.vector.most / p.epsilon for p in each] for name, each in paid.items()}
    scales = {name: max(several) for name, several in vectors.items() if several}
    scales |= {name: 2 * 10**WHOLE_DIGITS / one.rest for name, one in searching.items()}
    scales |= {name: count.distinct.touched / count.epsilon for name, count in counts.items()}
    for name, scale in scales.items():
        if scale > LARGEST_SCALE:
            raise BudgetError(
                f"measure {name!r} would get noise beyond 64 bits: raise epsilon or its share=, or "
                "lower at_most or the bounds."
            )
