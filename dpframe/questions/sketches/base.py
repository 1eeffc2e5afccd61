"""What the plans of all releases of a sketch have in common. Sees no sketch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pyarrow as pa

from dpframe.accounting.compose import Profile, whole_profile
from dpframe.asking.card import Line
from dpframe.asking.receipt import Receipt
from dpframe.budget import Budget, per_record
from dpframe.errors import BudgetError
from dpframe.mechanisms.sketch_release import NoisyCounts, NoisySketch
from dpframe.questions.sketches.frame import Intervals, sketch_frame
from dpframe.questions.sketches.lines import heading
from dpframe.questions.sketches.receipt import measured, sketch_receipt
from dpframe.sketches import SketchState

if TYPE_CHECKING:
    import pandas as pd

Structure = Literal["variant", "standard", "sum", "bounded", "users"]
"""What a record can change: a stream's sketch (two kinds), a merge (two ways), users' sets."""

LEAST_EPSILON = 1e-4
"""Of a record; below it the tables of the noise get too long."""

ROUNDING = 1e-12
"""Above the rounding of a convolved probability; taken off the chance to miss."""

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


L = TypeVar("L")
N = TypeVar("N", NoisySketch, NoisyCounts)


@dataclass(frozen=True, kw_only=True)
class SketchPlan(ABC, Generic[L, N]):
    """Everything about the release of a sketch except the sketch and the draw.

    It draws as every plan does. What names of releases and sources need, a request and a unit of
    privacy with its columns, it does not have: a sketch is released by number.
    """

    asked: Asked
    laws: L

    # -- what was asked for -------------------------------------------------------------------

    @property
    def structure(self) -> Structure:
        return self.asked.structure

    @property
    def unit(self) -> str:
        """What moves in the sketch: "record" or "user"."""
        return self.asked.unit

    @property
    def counters(self) -> int:
        return self.asked.counters

    @property
    def sketches(self) -> int:
        return self.asked.sketches

    @property
    def max_contributions(self) -> int:
        return self.asked.max_contributions

    @property
    def budget(self) -> Budget:
        return self.asked.budget

    @property
    def universe(self) -> pa.Array | None:
        return self.asked.universe

    @property
    def records(self) -> int | None:
        return self.asked.records

    @property
    def confidence(self) -> float:
        return self.asked.confidence

    @property
    def levels(self) -> int:
        return self.asked.levels

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

    # -- what a release says ------------------------------------------------------------------

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return NAMES[self.structure]

    @property
    def paper(self) -> str:
        """The source of the mechanism."""
        return PAPERS[self.structure]

    @property
    @abstractmethod
    def grid(self) -> int:
        """Units of one over this are what the noise is drawn in."""

    @property
    @abstractmethod
    def threshold(self) -> int | None:
        """In units of ``1/grid``; of U - alpha_hat for one stream; None with a universe."""

    @property
    @abstractmethod
    def noise_sd(self) -> float:
        """Standard deviation of the noise in a released count, in counts."""

    @property
    @abstractmethod
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""

    @property
    @abstractmethod
    def sensitivity(self) -> str:
        """What one record or user can change in what the noise is added to."""

    @property
    @abstractmethod
    def noise(self) -> dict[str, Any]:
        """Laws of the draws, in counts, as the receipt tells them."""

    @property
    @abstractmethod
    def meaning(self) -> str:
        """What the intervals of the release mean."""

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """Delta of one record at a smaller epsilon."""

    @abstractmethod
    def reach(self, mass: float) -> int:
        """Least q with P(Z > q) <= mass; Z is symmetric."""

    @abstractmethod
    def published(self) -> list[Line]:
        """Which keys are published."""

    @abstractmethod
    def run(self, counted: SketchState, /) -> N:
        """The only noisy step."""

    @abstractmethod
    def intervals(self, noisy: N) -> Intervals:
        """Counts, what the true ones are at least and, where it is known, at most."""

    def sketch_error(self, noisy: N) -> int | None:
        """The error of the sketch itself, alpha_hat, where it is released too."""
        return None

    def unpublished_at_most(self, noisy: N) -> int | None:
        """What the true count of a key that is not published is at most, at the confidence."""
        return None

    # -- intervals: how far the noise reaches -------------------------------------------------

    @property
    def _miss(self) -> float:
        return 1 - self.confidence - ROUNDING

    @cached_property
    def above(self) -> int:
        """q with P(Z < -q) <= half the chance to miss, in units of ``1/grid``."""
        return self.reach(self._miss / 2)

    @property
    def below(self) -> int:
        """As ``above`` for the other side."""
        return self.above

    # -- what follows -------------------------------------------------------------------------

    @cached_property
    def profile(self) -> Profile:
        """What the release keeps at smaller epsilons too, for composing it with others."""
        return whole_profile(
            self.budget,
            self.max_contributions,
            lambda epsilons: [(e, self.delta_at(e)) for e in epsilons],
        )

    def lines(self) -> list[Line]:
        """What is known before the sketch is released."""
        return [*heading(self), *self.published()]

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of the first release; holds nothing of the sketch."""
        return sketch_receipt(self, name)

    def frame(self, noisy: N, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Columns key, count, lower, upper; sorted by key."""
        return sketch_frame(noisy.keys, self.intervals(noisy))

    def answered(self, facts: Receipt, noisy: N, frame: pd.DataFrame, /) -> Receipt:
        """The receipt with what the release itself says."""
        return measured(
            facts,
            sketch_error=self.sketch_error(noisy),
            unpublished=self.unpublished_at_most(noisy),
        )
