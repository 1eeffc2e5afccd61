"""Counts of different users at listed nodes. These counts do not add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpframe.accounting.node_user_laws import NodeLaws, node_laws
from dpframe.accounting.tree_levels import TreeLaws
from dpframe.asking.card import Line
from dpframe.asking.user_nodes import moved_count_lines
from dpframe.errors import ParameterError, add_advice
from dpframe.mechanisms import user_counts
from dpframe.questions.tree_counts.base_tree_plan import TreeRequest
from dpframe.questions.tree_counts.tree_histograms import HistogramsPlan
from dpframe.tree import CountTree, ListedNodes, NoisyTree


@dataclass(frozen=True, kw_only=True)
class ItemsPlan(HistogramsPlan):
    """One draw for every listed node, from the law of its level."""

    keys: ListedNodes
    paid: NodeLaws

    band = 1
    least_shown = None
    consistent = False
    adds_up = False

    paper = (
        "a noisy number of users at every node, of each level as many of one user as at_most says "
        "(stability histograms: Bun, Nissim, Stemmer 2019), with integer noise and exact "
        "composition"
    )

    @property
    def times(self) -> tuple[int, ...]:
        return self.paid.times

    @property
    def moved_laws(self) -> TreeLaws:
        return self.paid.moved

    @property
    def moved_by_user(self) -> int:
        return sum(self.paid.times)

    @property
    def method(self) -> str:
        return f"items-{self.laws.family}"

    @property
    def coverage(self) -> str:
        return (
            "lower and upper hold the number of users as they are counted, with the stated "
            "confidence: they do not cover what at_most takes away, which makes counts too low"
        )

    def own_lines(self) -> list[Line]:
        return [*moved_count_lines(self.paid, self.unit.nodes), *super().own_lines()]

    def run(self, counted: CountTree, /) -> NoisyTree:
        return user_counts.run_listed_users(counted, laws=self.paid, confidence=self.confidence)


def items_plan(asked: TreeRequest, listed: ListedNodes, at_most: int) -> ItemsPlan:
    """Choose the smallest noise for listed keys."""
    if asked.threshold is not None:
        raise ParameterError(
            f"threshold ({asked.threshold!r}) does not go with keys. Leave it out."
        )
    if len(listed.level) > MOST_NODES:
        raise ParameterError(
            f"keys has {len(listed.level)} nodes, and contribution='items' allows {MOST_NODES}. "
            "List fewer keys, or pass contribution='share'."
        )
    sizes = np.bincount(listed.level, minlength=asked.deepest + 1).tolist()
    times = [min(at_most, size) for size in sizes[: asked.deepest + 1]]
    shares = tuple(map(float, times))
    if asked.level_weights is not None:
        shares = asked.level_weights[: asked.deepest + 1]
    family = asked.mechanism
    with add_advice("even out level_weights", given=asked.level_weights is not None):
        paid = node_laws(
            times=times,
            weights=shares,
            epsilon=asked.budget.epsilon,
            delta=asked.budget.delta,
            listed=True,
            family=family if family == "laplace" or family == "gaussian" else None,
        )
    return ItemsPlan(asked=asked, laws=paid.levels, shares=shares, keys=listed, paid=paid)


MOST_NODES = 100_000
"""The most listed nodes that are written into one statement."""
