"""The count step of a streaming plan: make sketches of records, or of users."""

from __future__ import annotations

from typing import Protocol

from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sketches import MisraGries, SketchState
from dpframe.sources.record_stream import check_eager, update_sketches
from dpframe.sources.source_relations import canonical, open_source
from dpframe.sources.user_stream import user_states


class SketchingPlan(Protocol):
    """What the count step needs to know about a plan."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    @property
    def counters(self) -> int | None: ...

    @property
    def by_user_sets(self) -> bool:
        """Whether a sketch takes all keys of a user at once, as a set."""


States = tuple[tuple[SketchState, ...], tuple[str, ...]]
"""The states of the sketches of all levels, private; and the types of the columns, public."""


def sketch_states(source: object, plan: SketchingPlan, *, progress: bool = False) -> States:
    """Count a source into one sketch per level."""
    user = [plan.unit.user] if plan.unit.user is not None else []
    if not user:
        check_eager(source)
    with open_source(source, [*plan.hierarchy.source_columns, *user]) as relation:
        seen = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
        types = tuple(seen[c] for c in plan.hierarchy.source_columns)
        counters = plan.counters or 0
        if plan.unit.user is not None:
            states = user_states(
                relation,
                plan.hierarchy,
                plan.unit,
                counters,
                by_sets=plan.by_user_sets,
                progress=progress,
            )
            return states, types
        sketches = [MisraGries(counters) for _ in range(plan.hierarchy.height)]
        update_sketches(sketches, relation, plan.hierarchy, progress=progress)
    return tuple(sketch._state() for sketch in sketches), types
