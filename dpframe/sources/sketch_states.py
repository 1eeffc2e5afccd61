"""The count step of a streaming plan: sketches of records, or of users."""

from __future__ import annotations

from dataclasses import dataclass

from dpframe._duck import Relation
from dpframe.questions.hhh.plan import Plan
from dpframe.sketches import MisraGries, SketchState
from dpframe.sources.relations import canonical, opened
from dpframe.sources.stream import check_eager, feed
from dpframe.sources.user_stream import user_states


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sketched:
    """What the sketches of all levels hold, private; and the types of the columns, public."""

    states: tuple[SketchState, ...]
    types: tuple[str, ...]


def sketch_states(source: object, plan: Plan, *, progress: bool = False) -> Sketched:
    """The sketches of a source."""
    user = [plan.unit.user] if plan.unit.user is not None else []
    if not user:
        check_eager(source)
    with opened(source, [*plan.hierarchy.source_columns, *user]) as relation:
        return relation_states(relation, plan, progress=progress)


def relation_states(relation: Relation, plan: Plan, *, progress: bool = False) -> Sketched:
    """The same of a relation that is open already."""
    seen = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
    types = tuple(seen[c] for c in plan.hierarchy.source_columns)
    if plan.unit.user is not None:
        return Sketched(user_states(relation, plan, progress=progress), types)
    sketches = [MisraGries(plan.counters or 0) for _ in range(plan.height)]
    feed(sketches, relation, plan.hierarchy, progress=progress)
    return Sketched(tuple(sketch._state() for sketch in sketches), types)
