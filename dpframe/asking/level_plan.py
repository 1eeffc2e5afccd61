"""The bases of plans: what each plan reads off its draws, and what plans over levels add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from dpframe.accounting.compose import Profile
from dpframe.asking.card import Line, budget_claim, four_digits_up
from dpframe.asking.draws import DrawList
from dpframe.asking.privacy_receipt import UNTRACKED, Receipt, stamp
from dpframe.asking.proofs import proof_facts
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy


class ReleasePlan(ABC):
    """Everything about a release except the data and the draw.

    A plan says what it draws (``draws``), who is protected, and what its receipt and card say
    besides.
    """

    question: ClassVar[str | None] = None
    """The question whose arguments make the plan again; None where a sketch or a stream is needed.
    """

    audience: ClassVar[str] = "what is promised, against anybody who sees the result"
    """Against whom the guarantee holds, in the words of the card."""

    @property
    @abstractmethod
    def draws(self) -> DrawList:
        """What is drawn, and how it composes."""

    @property
    @abstractmethod
    def budget(self) -> Budget:
        """(epsilon, delta) for the unit of privacy."""

    @property
    @abstractmethod
    def unit(self) -> PrivacyUnit:
        """Who is protected."""

    @property
    @abstractmethod
    def mechanism_name(self) -> str:
        """The name of the mechanism in receipts."""

    @property
    @abstractmethod
    def paper(self) -> str:
        """The source of the mechanism."""

    @property
    @abstractmethod
    def intervals(self) -> str:
        """What the intervals of the release mean."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, object]:
        """What the receipt says besides the promise and the noise."""

    @abstractmethod
    def lines(self) -> list[Line]:
        """The lines of the card: what is known before the data are read."""

    @property
    def guarantee(self) -> str:
        """The privacy claim, as one sentence; every document and card quotes it."""
        return budget_claim(self.budget, self.unit.sentence)

    @property
    def guarantee_line(self) -> Line:
        """The first line of the card."""
        return Line("guarantee", self.guarantee, self.audience)

    @property
    def delta_line(self) -> Line:
        """The line on the delta that the accountant computed."""
        if not self.delta_spent:
            return Line("computed delta", "0", "pure: noise without bounds, scales rounded up")
        meaning = "upper bound from the tables that are drawn from"
        return Line("computed delta", four_digits_up(self.delta_spent), meaning)

    @cached_property
    def profile(self) -> Profile:
        """The points (epsilon, delta) that the release keeps, to compose it with others."""
        return self.draws.profile(self.budget)

    @property
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""
        return self.draws.delta_spent(self.budget)

    @property
    def errors(self) -> Mapping[str, float]:
        """Half widths of intervals by the name of a measure, for what one node has of its own.

        Empty where they are not known before the data are read.
        """
        return {}

    @property
    def noise(self) -> Any:
        """The laws of the noise, as the receipt has them."""
        return self.draws.noise

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of a release of this plan; holds nothing that depends on the data."""
        return Receipt(
            {
                "release": name,
                **stamp(),
                "mechanism": self.mechanism_name,
                "paper": self.paper,
                "guarantee": self.guarantee,
                **self.budget.request,
                "computed_delta": self.delta_spent,
                **self.unit.facts,
                **self.facts,
                "noise": self.noise,
                "intervals": self.intervals,
                "budget": UNTRACKED,
                "ledger": None,
                "proof": proof_facts(self),
                "card": [line.row for line in self.lines()],
            }
        )


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
class LevelPlan(ReleasePlan, Generic[A]):
    """The base of plans over the levels of a hierarchy, which answer the protocol ``Rollup``."""

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
    def mechanism_name(self) -> str:
        return self.mechanism

    @property
    def confidence(self) -> float:
        return self.asked.confidence

    @property
    def facts(self) -> dict[str, object]:
        return {
            "hierarchy": self.hierarchy.spec,
            "height": self.height,
            "levels": list(self.hierarchy.level_names),
            "confidence": self.confidence,
        }


def cell_facts(hierarchy: Hierarchy) -> dict[str, object]:
    """Return the facts of receipts of cells: the order of the kinds, and the hierarchies."""
    if not hierarchy.has_cells:
        return {}
    order = list(reversed(hierarchy.level_names))
    return {"order": order, "dimensions": [one.spec for one in hierarchy.dimensions]}


def cell_columns(hierarchy: Hierarchy) -> dict[str, str]:
    """Return the columns of cells in a result, with DuckDB's types; none for one hierarchy."""
    if not hierarchy.has_cells:
        return {}
    found = {"level": "BIGINT", "prefix": "VARCHAR"}
    for name in hierarchy.names:
        found |= {name: "VARCHAR", f"{name}_level": "BIGINT"}
    return found
