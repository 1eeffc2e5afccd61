"""What a rollup is asked for, checked, and as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.measures import Measure
from dpframe.tree import ListedNodes


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a plan is asked for; None is left to dpframe. ``threshold`` is in records or users, or
    in the unit of the measure that selects, ``heavy``.
    """

    hierarchy: Hierarchy
    measures: Mapping[str, Measure]
    unit: PrivacyUnit
    budget: Budget
    threshold: float | None = None
    heavy: str | None = None
    listed: ListedNodes | None = None
    selection_share: float | None = None
    confidence: float = 0.95

    @property
    def mechanism(self) -> str:
        return "rollup"

    @property
    def selecting(self) -> PrivacyUnit:
        """Who is protected, and what decides which nodes are shown."""
        if self.heavy is None:
            return self.unit
        measure = self.measures[self.heavy]
        return replace(
            self.unit, weight=measure.column, max_weight=measure.steps.upper, measured=True
        )

    @property
    def request(self) -> dict[str, object]:
        """The arguments as plain JSON types. Measures in their order, which is that of the columns:
        in another one it is another request."""
        return {
            "counts": "rollup",
            "hierarchy": self.hierarchy.spec,
            "measures": [[name, measure.spec] for name, measure in self.measures.items()],
            **self.budget.request,
            "user": self.unit.user,
            "threshold": self.threshold,
            **({} if self.heavy is None else {"heavy": self.heavy}),
            "keys": None if self.listed is None else self.listed.name,
            "selection_share": self.selection_share,
            "confidence": self.confidence,
        }
