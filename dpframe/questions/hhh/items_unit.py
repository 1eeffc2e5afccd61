"""The unit of privacy of ``rounds``: a whole user, who counts at each of their different values."""

from __future__ import annotations

from dataclasses import dataclass

from dpframe.budget import WholeUser


@dataclass(frozen=True, kw_only=True)
class ItemsUnit(WholeUser):
    """A user with all their records, who counts at each of their different values."""

    at_most: int | None = None
    given: int | None = None
    """``max_contributions`` of the call; None if it was left out."""

    @property
    def request(self) -> dict[str, object]:
        return {
            "user": self.user,
            "contribution": self.contribution,
            "max_contributions": self.given,
        }

    @property
    def facts(self) -> dict[str, object]:
        own = {"max_contributions": self.max_contributions, "at_most": self.at_most}
        return {**super().facts, **own}

    @property
    def counts(self) -> str:
        few = "a number that is found privately" if self.at_most is None else str(self.at_most)
        return (
            "different users; one who has more of the released values than at_most "
            f"({few}) counts less than 1 at each"
        )

    @property
    def what_counts(self) -> str:
        return "what the numbers count: a user once at every value, so that they do not add up"
