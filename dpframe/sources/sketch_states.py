"""The count step of a streaming plan: sketches of records, or of users."""

from __future__ import annotations

from dpframe._duck import Relation
from dpframe.plan import Plan
from dpframe.sketches import MisraGries, SketchState
from dpframe.sources.relations import opened
from dpframe.sources.stream import feed, sketched
from dpframe.sources.user_stream import user_states


def sketch_states(source: object, plan: Plan, *, progress: bool = False) -> tuple[SketchState, ...]:
    """What the sketches of all levels hold after a source. Private."""
    hierarchy, user = plan.hierarchy, plan.unit.user
    if user is None:
        return sketched(source, hierarchy, plan.counters or 0, progress=progress)
    with opened(source, [*hierarchy.source_columns, user]) as relation:
        return user_states(relation, plan, progress=progress)


def relation_states(relation: Relation, plan: Plan) -> tuple[SketchState, ...]:
    """The same of a relation that is open already."""
    if plan.unit.user is not None:
        return user_states(relation, plan)
    sketches = [MisraGries(plan.counters or 0) for _ in range(plan.height)]
    feed(sketches, relation, plan.hierarchy)
    return tuple(sketch._state() for sketch in sketches)
