"""What a rollup draws: a selection, then measures on the selected nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpframe.asking.draws import Draw, DrawList
from dpframe.questions.hhh.offline import selection_draws
from dpframe.questions.rollup.rollup_numbers import RollupNumbers
from dpframe.vectors import vectors_of

if TYPE_CHECKING:
    from dpframe.mechanisms.node_counts import DistinctLaw
    from dpframe.mechanisms.rollup import BoundSearch, VectorCharge


def rollup_draws(plan: RollupNumbers) -> DrawList:
    """Return the draws of a plan. The selection releases no number.

    The scales of the noise follow from what is shown. So the game states for each vector one scale,
    which bounds the loss of all noise of the vector together.
    """
    selection = plan.selection
    drawn = [
        *(each for name, several in plan.paid.items() for each in _vector_draws(name, several)),
        *(each for name, one in plan.searching.items() for each in _search_draws(name, one)),
        *(_distinct_draw(name, one) for name, one in plan.counts.items()),
    ]
    facts: dict[str, Any] = {"height": plan.height, "drawn": drawn}
    if plan.hierarchy.has_cells:
        facts["segments"] = True
    if plan.read:
        facts["read"] = {name: one.of for name, one in plan.read.items()}
    measures = DrawList(kind="measures", draws=(), facts=facts, delta=plan.delta, curve=plan.curve)
    if selection is None:
        return measures
    selecting = selection_draws(
        selection.laws,
        selection.test_noise,
        height=plan.height,
        threshold=selection.threshold_units,
        remainder=False,
        budget=selection.budget,
        unit=selection.unit,
        released=False,
    )
    test = replace(
        selecting.draws[0], applies_to="in units of {counted}", values={"counted": plan.decides}
    )
    budget = selection.budget
    steps = [
        {"epsilon": budget.epsilon, "delta": budget.delta, "game": selecting},
        {
            "epsilon": str(plan.epsilon_spent - Fraction(budget.epsilon)),
            "delta": sum(count.delta for count in plan.counts.values()),
            "game": measures,
        },
    ]
    return replace(measures, kind="steps", draws=(test,), facts={"steps": steps})


def _vector_draws(name: str, several: tuple[VectorCharge, ...]) -> Iterator[dict[str, Any]]:
    """The draws of a measure with known bounds, one for each group of vectors moving together."""
    at = 0
    while at < len(several):
        vector, epsilon = several[at].vector, several[at].epsilon
        at += several[at].together
        kind = vector.kind
        noise = {"scale": str(vector.most / epsilon)}
        if vector.column is None or kind == "outside":
            facts = {"unit": vector.unit, "at_most": vector.most // vector.unit}
            yield {"measure": name, "of": kind, **facts, **noise}
            continue
        steps = vector.bounds
        bounds = {"low": steps.low, "high": steps.high, "decimals": steps.decimals}
        yield {"measure": name, "of": "sum" if kind == "sum" else "mean", **bounds, **noise}


def _search_draws(name: str, one: BoundSearch) -> Iterator[dict[str, Any]]:
    """The draws of a measure with searched bounds: histograms of magnitudes, then the vectors
    within the found bounds."""
    for _ in one.searches:
        yield {"measure": name, "of": "search", "scale": str(1 / one.each)}
    found = one.measure.with_bounds(
        0.0, 1.0
    )  # any bounds: how epsilon is divided does not depend on them
    for together, part in vectors_of(found, by_user=one.by_user):
        vector, epsilon = together[0], part * one.rest
        if vector.kind == "outside":
            facts = {"unit": vector.unit, "at_most": vector.most // vector.unit}
            scale = {"scale": str(vector.most / epsilon)}
            yield {"measure": name, "of": "outside", **facts, **scale}
            continue
        unknown = dict.fromkeys(("low", "high", "decimals"))
        kind = "sum" if vector.kind == "sum" else "mean"
        yield {"measure": name, "of": kind, **unknown, "epsilon": str(epsilon)}


def _distinct_draw(name: str, one: DistinctLaw) -> dict[str, Any]:
    distinct = one.distinct
    facts: dict[str, Any] = {"at_most": distinct.at_most or 1, "singly": distinct.singly}
    if one.scale is not None:
        return {"measure": name, "of": "distinct", **facts, "scale": str(one.scale)}
    noise = {"table": Draw(law=one.noise), "epsilon": str(one.epsilon), "delta": one.delta}
    return {"measure": name, "of": "distinct", **facts, **noise}
