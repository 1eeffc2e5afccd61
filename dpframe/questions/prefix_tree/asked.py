"""What a prefix tree is asked for: everything but the number of devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpframe.accounting.aggregate import Neighbours
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms.prefix_tree import Search

PrefixMechanism = Literal["reports", "laplace", "gaussian"]
Accountant = Literal["aggregate", "shuffle"]

PREFIX_MECHANISMS: tuple[PrefixMechanism, ...] = ("reports", "laplace", "gaussian")


@dataclass(frozen=True, kw_only=True)
class PrefixAsked:
    """Everything but the number of devices. ``declared`` is one that the caller promises at least,
    or None to take that of the data."""

    hierarchy: Hierarchy
    user: str
    budget: Budget
    search: Search
    mechanism: PrefixMechanism
    accountant: Accountant
    neighbours: Neighbours
    declared: int | None

    @property
    def request(self) -> dict[str, object]:
        """The arguments that a release of this answers, as plain JSON types."""
        search = self.search
        return {
            "counts": "prefix tree",
            "hierarchy": self.hierarchy.spec,
            "user": self.user,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "mechanism": self.mechanism,
            "accountant": self.accountant,
            "neighbours": self.neighbours,
            "devices": self.declared,
            "encoding": search.encoding.spec,
            "length": search.segments.length,
            "limit": search.segments.limit,
            "iterations": search.segments.iterations,
            "segments": list(search.segments.fixed) or "adaptive",
            "rounds": search.rounds,
            "false_positives": search.false_positives,
            "selection": "weighted" if search.weighted else "unweighted",
            "conditioned": search.conditioned,
            "deny": list(search.deny),
            "participation": search.taking_part,
            "confidence": search.confidence,
        }

    @property
    def unit(self) -> PrivacyUnit:
        """A user with all records."""
        return PrivacyUnit(user=self.user)

    @property
    def reports(self) -> int:
        """Of every device, in all rounds."""
        return self.search.rounds * self.search.segments.iterations
