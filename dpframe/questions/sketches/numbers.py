"""What the release of a sketch is asked for. Sees no sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from dpframe.budget import Budget, per_record
from dpframe.errors import BudgetError

Structure = Literal["variant", "standard", "sum", "bounded", "users"]
"""What a record can change: a stream's sketch (two kinds), a merge (two ways), users' sets."""

LEAST_EPSILON = 1e-4
"""Of a record; below it the tables of the noise get too long."""

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
class Asked:
    """What is to be released, of which sketch; public.

    Parameters
    ----------
    structure, unit, counters, sketches
        Of the sketch: what moves, "record" or "user", k, and how many streams it holds. It knows no
        column of users, and so no :class:`dpframe.budget.PrivacyUnit`.
    max_contributions
        Records of one user, by promise of the caller; 1 protects single records.
    budget
        ``delta`` is 0 with a universe.
    universe
        Public keys, ascending; None for keys that nobody listed.
    records
        Public upper bound on the records (or items of users) that went in.
    levels
        Sketches that one record enters: of a merge with one a level their number.
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
        """The budget of one record; BudgetError if no table could be drawn from."""
        record, most = per_record(self.budget, self.max_contributions), self.max_contributions
        if record.epsilon < LEAST_EPSILON and most > 1:
            raise BudgetError(
                f"epsilon ({self.budget.epsilon:g}) divided over max_contributions ({most}) "
                f"leaves less than {LEAST_EPSILON:g} for a record: raise epsilon, or lower "
                "max_contributions."
            )
        return record

    @property
    def neighbours(self) -> str:
        """What differs between neighbouring streams."""
        if self.unit == "user":
            return "adding or removing one user with all their items"
        if self.max_contributions == 1:
            return "adding or removing one record"
        return (
            f"adding or removing one user with all their records, of which there are at most "
            f"{self.max_contributions} (promised by the caller)"
        )

    @property
    def counts(self) -> str:
        """What the counts of the release count."""
        return "users with an item" if self.unit == "user" else "records"
