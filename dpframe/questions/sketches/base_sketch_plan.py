"""The base class of the plans of all releases of a sketch. Sees no sketch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpframe.accounting.compose import Profile, whole_profile
from dpframe.asking.card import Line, Text
from dpframe.asking.privacy_receipt import UNTRACKED, Receipt, stamp
from dpframe.asking.proofs import proof_facts
from dpframe.budget import Budget
from dpframe.mechanisms.sketch_release import NoisyCounts, NoisySketch
from dpframe.questions.sketches.frame import Intervals, sketch_frame
from dpframe.questions.sketches.lines import noise_text, sketch_guarantee
from dpframe.questions.sketches.sketch_request import NAMES, PAPERS, SketchRequest, Structure
from dpframe.sketches import SketchState

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-12
"""A bound on the rounding of a convolved probability; subtracted from the chance to miss."""

L = TypeVar("L")
N = TypeVar("N", NoisySketch, NoisyCounts)


@dataclass(frozen=True, kw_only=True)
class SketchPlan(ABC, Generic[L, N]):
    """Everything about the release of a sketch except the sketch and the draw.

    It draws as every plan does. It has no request and no unit of privacy with columns, which only
    named releases and sources need: releases of a sketch are numbered.
    """

    asked: SketchRequest
    laws: L

    # -- the request --------------------------------------------------------------------------

    @property
    def structure(self) -> Structure:
        return self.asked.structure

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
    def records(self) -> int | None:
        return self.asked.records

    @property
    def confidence(self) -> float:
        return self.asked.confidence

    # -- what each kind of release defines ----------------------------------------------------

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
        """Noise is drawn in units of 1/grid."""

    @property
    @abstractmethod
    def threshold(self) -> int | None:
        """The threshold in units of ``1/grid``; it tests U - alpha_hat for one stream. None with a
        universe."""

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
        """How far one record or user can change the values that get noise."""

    @property
    @abstractmethod
    def noise(self) -> dict[str, Any]:
        """The laws of the draws, in counts, as the receipt describes them."""

    @property
    @abstractmethod
    def meaning(self) -> str:
        """What the intervals of the release mean."""

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """Delta of one record at a smaller epsilon."""

    @abstractmethod
    def reach(self, mass: float) -> int:
        """The smallest q with P(Z > q) <= mass. Z is symmetric."""

    @abstractmethod
    def key_lines(self) -> list[Line]:
        """The card lines on which keys are published."""

    @abstractmethod
    def run(self, counted: SketchState, /) -> N:
        """The only noisy step."""

    @abstractmethod
    def intervals(self, noisy: N) -> Intervals:
        """Counts, lower bounds on the true counts and, where known, upper bounds."""

    def sketch_error(self, noisy: N) -> int | None:
        """The error of the sketch itself, alpha_hat; None where it is not released."""
        return None

    def unpublished_at_most(self, noisy: N) -> int | None:
        """An upper bound, at the confidence, on the true count of a key that is not published."""
        return None

    # -- intervals: how far the noise reaches -------------------------------------------------

    @property
    def _miss(self) -> float:
        return 1 - self.confidence - ROUNDING

    @cached_property
    def above(self) -> int:
        """The q with P(Z < -q) <= half the chance to miss, in units of ``1/grid``."""
        return self.reach(self._miss / 2)

    @property
    def below(self) -> int:
        """The counterpart of ``above`` for the other side."""
        return self.above

    # -- what follows from the request and the kind -------------------------------------------

    @cached_property
    def profile(self) -> Profile:
        """Points (epsilon, delta) at smaller epsilons too, to compose the release with others."""
        return whole_profile(
            self.budget,
            self.max_contributions,
            lambda epsilons: [(e, self.delta_at(e)) for e in epsilons],
        )

    def lines(self) -> list[Line]:
        """The card lines, all known before the sketch is released."""
        asked, meaning = self.asked, "what is promised, against anybody who sees the result"
        return [
            Line("guarantee", sketch_guarantee(asked), meaning),
            Line("mechanism", self.mechanism, self.paper),
            Line("counts", asked.counts, "what the numbers count"),
            Line.of("counters", asked.counters, "of each of {n} sketches", n=asked.sketches),
            Line("sensitivity", self.sensitivity, "what the noise has to cover"),
            Line("noise", noise_text(self.noise["count"]), "in every count"),
            Line.of(
                "noise error",
                Text("+-{half_width} with confidence {confidence:g}"),
                "of a count, from the noise alone",
                half_width=-(-self.above // self.grid),
                confidence=asked.confidence,
            ),
            *self.key_lines(),
        ]

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of the first release; it tells nothing of the sketch."""
        asked = self.asked
        several = asked.max_contributions > 1
        return Receipt(
            {
                "release": name,
                **stamp(),
                "mechanism": self.mechanism,
                "paper": self.paper,
                "guarantee": sketch_guarantee(asked),
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "computed_delta": self.delta_spent,
                "neighbours": asked.neighbours,
                "counts": asked.counts,
                "user": None,
                "contribution": "records" if several or asked.unit == "user" else None,
                "max_contributions": asked.max_contributions if several else None,
                "hierarchy": None,
                "counters": asked.counters,
                "sketches": asked.sketches,
                "sensitivity": self.sensitivity,
                "threshold": None if self.threshold is None else self.threshold / self.grid,
                "universe": None if asked.universe is None else len(asked.universe),
                "records": asked.records,
                "confidence": asked.confidence,
                "noise": self.noise,
                "sketch_error": None,
                "unpublished_at_most": None,
                "intervals": self.meaning,
                "release_number": 1,
                **proof_facts(self, "sketches"),
                "budget": UNTRACKED,
                "ledger": None,
                "card": [q.row for q in self.lines()],
            }
        )

    def frame(self, noisy: N, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Columns key, count, lower, upper; sorted by key."""
        return sketch_frame(noisy.keys, self.intervals(noisy))

    def answered(self, facts: Receipt, noisy: N, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, with the released error and the bound on unpublished keys."""
        error, unpublished = self.sketch_error(noisy), self.unpublished_at_most(noisy)
        rows: list[list[object]] = []
        if error is not None:
            meaning = "released too: how far counts can be above the truth, itself noisy"
            rows.append(["sketch error", error, meaning])
        if unpublished is not None:
            meaning = f"true count of a key that is not published, confidence {self.confidence:g}"
            rows.append(["unpublished at most", unpublished, meaning])
        own = {"sketch_error": error, "unpublished_at_most": unpublished}
        return facts.and_also({**own, "card": [*facts["card"], *rows]})
