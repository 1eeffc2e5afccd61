"""The request for the release of a sketch. This module sees no sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from dpframe.budget import Budget, PrivacyUnit, per_record
from dpframe.errors import BudgetError

Structure = Literal["variant", "standard", "sum", "bounded", "users"]
"""The structure that a record changes: a stream's sketch (two kinds), a merge (two ways), or users'
sets."""

LEAST_EPSILON = 1e-4
"""The smallest epsilon of a record: below it the tables of the noise get too long."""

SOURCE = "Lebeda, Tetek (PODS 2023)"

NAMES: dict[Structure, str] = {
    "variant": "misra-gries",
    "standard": "misra-gries-standard",
    "sum": "merged-sum",
    "bounded": "merged-bounded",
    "users": "privacy-aware-misra-gries",
}

PAPERS: dict[Structure, str] = {
    "variant": f"{SOURCE}, Algorithm 2, with alpha and C + alpha released",
    "standard": f"{SOURCE}, section 5.1, with alpha and C + alpha released",
    "sum": f"{SOURCE}, Algorithm 3 and section 7",
    "bounded": f"{SOURCE}, Corollary 2 and Theorem 5, with integer noise",
    "users": f"{SOURCE}, Algorithm 4 and Corollary 10, with integer noise",
}


@dataclass(frozen=True, kw_only=True)
class SketchUnit(PrivacyUnit):
    """The unit of privacy of a sketch, which knows no column of users.

    ``entry`` is what enters the sketch in one step: "record" or "user".
    """

    entry: str

    @property
    def moves(self) -> int:
        return self.max_contributions

    @property
    def sentence(self) -> str:
        if self.entry == "user":
            return "adding or removing one user with all their items"
        if self.max_contributions == 1:
            return "adding or removing one record"
        return (
            f"adding or removing one user with all their records, of which there are at most "
            f"{self.max_contributions} (promised by the caller)"
        )

    @property
    def counts(self) -> str:
        return "users with an item" if self.entry == "user" else "records"

    @property
    def facts(self) -> dict[str, object]:
        several = self.max_contributions > 1
        return {
            **super().facts,
            "contribution": "records" if several or self.entry == "user" else None,
            "max_contributions": self.max_contributions if several else None,
        }


@dataclass(frozen=True, kw_only=True)
class SketchRequest:
    """What the caller wants released, and the public parameters of the sketch.

    Parameters
    ----------
    structure, unit, counters, sketches
        Facts of the sketch: the structure that a record changes; what enters in one step, "record"
        or "user"; the number k of counters; the number of merged sketches.
    max_contributions
        The most records of one user, as the caller promises; 1 protects single records.
    budget
        ``delta`` is 0 with a universe.
    universe
        Public keys, ascending; None if nobody listed the keys.
    records
        Public upper bound on the records (or items of users) that went in.
    levels
        The number of sketches that one record enters: more than 1 with one sketch for each level.
    """

    structure: Structure
    unit: str
    counters: int
    sketches: int = 1
    max_contributions: int = 1
    budget: Budget
    universe: pa.Array | None = None
    records: int | None = None
    confidence: float = 0.95
    levels: int = 1

    @property
    def record(self) -> Budget:
        """The budget of one record. BudgetError if ``max_contributions`` leaves a record less than
        ``LEAST_EPSILON``."""
        record, most = per_record(self.budget, self.max_contributions), self.max_contributions
        if record.epsilon < LEAST_EPSILON and most > 1:
            raise BudgetError(
                f"epsilon ({self.budget.epsilon:g}) over max_contributions ({most}) leaves a "
                f"record less than {LEAST_EPSILON:g}. Raise epsilon, or lower max_contributions."
            )
        return record

    @property
    def privacy_unit(self) -> SketchUnit:
        """The unit of privacy."""
        return SketchUnit(max_contributions=self.max_contributions, entry=self.unit)
