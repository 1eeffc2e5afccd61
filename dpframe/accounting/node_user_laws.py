"""Noise for numbers of different users at every node: what one user moves, composed.

On each level l = 1, ..., h a user counts at no more than ``times[l]`` nodes, and once in the total:
``times[0]`` is 1. So one user moves at most ``times[l]`` counts of level l, each by 1, whoever else
is there: T = sum of ``times`` counts in all, with independent noise. This is the case of T levels
on which one record moves one count each, and is paid for as such
(:mod:`dpframe.accounting.tree_levels`): by privacy loss distributions of the tables that are drawn
from, or for Laplace noise by the sum of 1 / b. A user with fewer nodes moves fewer counts, which is
a part of this case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, cast

from dpframe.accounting.compose import Profile
from dpframe.accounting.losses import composed_profile
from dpframe.accounting.part_curves import profiles_together
from dpframe.accounting.tree_levels import (
    FINE_STEP,
    TreeLaws,
    laplace_parts,
    tree_laws,
    worst_error,
)
from dpframe.errors import BudgetError, ParameterError
from dpframe.noise import NoiseTable

FEW = 40
"""If one user moves more counts than this, Laplace noise is never smaller than Gaussian noise."""

MOST = 2_000
"""Most counts that one user may move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLaws:
    """The law of every level; ``moved`` repeats it once for each count that one user moves."""

    moved: TreeLaws
    times: tuple[int, ...]

    @property
    def levels(self) -> TreeLaws:
        """The laws with one table for each level."""
        first = [sum(self.times[:level]) for level in range(len(self.times))]
        return replace(
            self.moved,
            noises=tuple(self.moved.noises[i] for i in first),
            scales=tuple(self.moved.scales[i] for i in first),
        )

    @property
    def delta(self) -> float:
        return self.moved.delta

    @property
    def tables(self) -> list[NoiseTable]:
        """The tables of bounded noise, each as often as one user moves counts with it."""
        return cast("list[NoiseTable]", list(self.moved.noises))

    def profile(self, epsilons: Sequence[float], whole: float) -> Profile:
        """Return points (epsilon, delta) of bounded noise at ``epsilons``, which are below
        ``whole``, the epsilon of the budget."""
        if self.moved.family == "laplace":
            alike = Counter(laplace_parts(self.moved)).items()
            return tuple(profiles_together(alike, epsilons, whole))
        return composed_profile(self.tables, epsilons=epsilons, step=whole * FINE_STEP)


def node_laws(
    *,
    times: Sequence[int],
    weights: Sequence[float],
    epsilon: float,
    delta: float,
    listed: bool,
    family: Literal["laplace", "gaussian"] | None,
) -> NodeLaws:
    """Return the least noise within the budget of a user.

    Parameters
    ----------
    times
        How many counts of every level one user moves at most, level 0 first.
    weights
        How the budget is divided over levels; within a level, evenly over the counts that move.
    delta
        0 asks for noise without bounds.
    listed
        Whether keys are known. If not, families are compared by `worst_error`, which counts what
        is hidden too.
    family
        "laplace", "gaussian", or None for the family with less noise.
    """
    if sum(times) > MOST:
        raise ParameterError(
            f"at_most is too large: a user would count at {sum(times)} nodes, over {MOST}. "
            "Lower at_most, or ask for fewer levels."
        )
    each = tuple(
        Fraction(weight) / number
        for weight, number in zip(weights, times, strict=True)
        for _ in range(number)
    )

    def laws(kind: Literal["laplace", "gaussian"]) -> TreeLaws:
        return tree_laws(
            weights=each, epsilon=epsilon, delta=delta, grid=1, listed=listed, family=kind
        )

    def error(made: TreeLaws) -> float:
        return made.worst_sd if listed else worst_error(made)

    if delta == 0 or family is not None:
        return NodeLaws(moved=laws(family or "laplace"), times=tuple(times))
    found = [laws("gaussian")]
    if len(each) <= FEW:
        with suppress(BudgetError):  # its tables can be too long
            found.append(laws("laplace"))
    return NodeLaws(moved=min(found, key=error), times=tuple(times))
