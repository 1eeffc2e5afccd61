"""The base of plans over the levels of a hierarchy: they read their facts from what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from dpframe.accounting.compose import Profile
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy


class LevelArguments(Protocol):
    """The checked arguments that all plans over levels have."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def confidence(self) -> float: ...


A = TypeVar("A", bound=LevelArguments)


@dataclass(frozen=True, kw_only=True)
class LevelPlan(Generic[A]):
    """Everything about a release except the data and the draw.

    The plans of a room derive from it, add noise and cost, and answer the protocol ``Rollup``.
    """

    asked: A

    @property
    def hierarchy(self) -> Hierarchy:
        return self.asked.hierarchy

    @property
    def height(self) -> int:
        return self.hierarchy.height

    @property
    def unit(self) -> PrivacyUnit:
        return self.asked.unit

    @property
    def grid(self) -> int:
        """How many units of the counts a record or user is."""
        return self.unit.grid

    @property
    def budget(self) -> Budget:
        return self.asked.budget

    @property
    def mechanism(self) -> str:
        return self.asked.mechanism

    @property
    def confidence(self) -> float:
        return self.asked.confidence

    @property
    def errors(self) -> Mapping[str, float]:
        """Half widths of intervals by the name of a measure, for what one node has of its own.

        Empty where they are not known before the data are read.
        """
        return {}

    @cached_property
    def profile(self) -> Profile:
        """The points (epsilon, delta) that the release keeps; here only the budget."""
        return ((self.budget.epsilon, self.budget.delta),)
