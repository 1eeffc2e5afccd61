"""What plans over the levels of a hierarchy have in common: what they were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from dpframe.accounting.compose import Profile
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy


class OfLevels(Protocol):
    """The arguments of all of them, checked."""

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


A = TypeVar("A", bound=OfLevels)


@dataclass(frozen=True, kw_only=True)
class LevelPlan(Generic[A]):
    """Everything about a release but the data and the draw: the base of a room's own plans, which
    add noise and cost, and answer the protocol ``Rollup``."""

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
        """Units that a record, or a user, is counted in."""
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
        """Half widths of the intervals of what one node has of its own, by the name of a measure,
        where they are known before the data are read."""
        return {}

    @cached_property
    def profile(self) -> Profile:
        """What the release keeps at smaller epsilons too, where it is computed; here one point."""
        return ((self.budget.epsilon, self.budget.delta),)
