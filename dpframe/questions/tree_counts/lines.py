"""What is known of every release of tree counts before the data are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.asking.card import Line, Text, guarantee, hierarchy_line, rounded_up

if TYPE_CHECKING:
    from dpframe.questions.tree_counts.base import TreePlan


def heading(plan: TreePlan[Any]) -> list[Line]:
    """The lines that every mechanism starts with."""
    return [
        Line("guarantee", guarantee(plan), "against anybody who sees the result"),
        Line.of(
            "mechanism",
            Text("tree counts, {method}"),
            plan.paper,
            method=plan.method,
        ),
        hierarchy_line(plan.hierarchy),
        Line("counts", plan.unit.counts, plan.unit.what_counts),
        *_weights(plan),
        _keys(plan),
    ]


def ending(plan: TreePlan[Any]) -> list[Line]:
    """The lines that every mechanism ends with."""
    spent = Line("computed delta", "0", "pure: noise without bounds, scales rounded up")
    if plan.delta_spent:
        meaning = "upper bound from the tables that are drawn from"
        spent = Line("computed delta", rounded_up(plan.delta_spent), meaning)
    return [Line("adds up", plan.consistent, _adding(plan)), spent]


def what_counts(plan: TreePlan[Any]) -> str:
    """What a unit of the counts is, in a word."""
    return "users" if plan.grid > 1 or plan.unit.nodes is not None else "records"


def _weights(plan: TreePlan[Any]) -> list[Line]:
    """What becomes of weights that are not counted as they are: no error may tell of one. Weights
    may be texts where nobody knows the source."""
    if plan.unit.weight is None:
        return []
    texts = ", and texts (of a CSV file) that are no whole number, such as 12.50,"
    nothing = (
        f"missing and negative ones{texts}" if plan.text_weights else "missing and negative ones"
    )
    return [
        Line.of(
            "weights",
            Text("whole numbers up to {most}"),
            "larger ones count {most}; {nothing} count 0; intervals do not cover that",
            most=plan.unit.most,
            nothing=nothing,
        )
    ]


def _keys(plan: TreePlan[Any]) -> Line:
    if plan.listed is not None:
        n = len(plan.listed.level)
        return Line.of(
            "keys",
            Text("{n} listed nodes"),
            "all are released, those of count 0 too",
            n=n,
        )
    return Line("keys", "unknown", "found in the data; small nodes are not shown")


def _adding(plan: TreePlan[Any]) -> str:
    if plan.unit.nodes is not None:
        return "different users do not: who is at two nodes counts at both, above them once"
    if plan.consistent:
        return "counts are whole, not negative, and parents the sum of their children and <other>"
    return "counts as they were drawn: unbiased noise, signed, parents need not be sums"
