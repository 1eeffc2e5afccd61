"""A user as the unit of privacy, who counts once at each of a bounded number of nodes a level."""

from __future__ import annotations

from dataclasses import dataclass

from dpframe.budget import WholeUser

AT_MOST = 16
"""Nodes of a level that a user counts at, where nobody says how many."""

MOST = 1000
"""Nodes of a level that can be asked for, at most."""


@dataclass(frozen=True, kw_only=True)
class NodesUnit(WholeUser):
    """A user with all their records, counted once at each of at most ``at_most`` nodes a level."""

    at_most: int

    @property
    def nodes(self) -> int:
        return self.at_most

    @property
    def request(self) -> dict[str, object]:
        return {
            "user": self.user,
            "contribution": self.contribution,
            "max_contributions": None,
            "at_most": self.at_most,
        }

    @property
    def facts(self) -> dict[str, object]:
        own = {"max_contributions": None, "at_most": self.at_most, "adds_up": False}
        return {**super().facts, **own}

    @property
    def counts(self) -> str:
        return (
            f"different users, of whom one with more than {self.at_most} nodes of a level counts "
            "at a uniform sample of so many there"
        )

    @property
    def what_counts(self) -> str:
        return (
            "what the numbers count: a user once at each of their nodes, so that they do not add "
            "up: of a whole the number is not the sum of its parts"
        )
