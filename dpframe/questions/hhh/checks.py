"""What heavy hitters can be asked for: every argument, checked once, and as it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from dpframe.asking.given import Given
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import ThresholdError
from dpframe.hierarchy import Hierarchy
from dpframe.sketches import DEFAULT_COUNTERS, LARGEST


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a plan is asked for; None is left to dpframe."""

    hierarchy: Hierarchy
    unit: PrivacyUnit
    budget: Budget
    mechanism: str = "offline"
    threshold: int | None = None
    remainder: bool = True
    release_share: float | None = None
    confidence: float = 0.95
    acknowledge: bool = False
    counters: int | None = None

    def at_least(self, smallest: int) -> int:
        """The threshold: by default the smallest private one; ThresholdError below it."""
        if self.threshold is not None and self.threshold < smallest:
            epsilon, delta = self.budget.epsilon, self.budget.delta
            raise ThresholdError(
                f"threshold ({self.threshold}) is below the smallest private threshold {smallest} "
                f"for epsilon={epsilon:g}, delta={delta:g}, height={self.hierarchy.height}: "
                "raise threshold, epsilon or delta."
            )
        return smallest if self.threshold is None else self.threshold

    @property
    def request(self) -> dict[str, object]:
        """The arguments as plain JSON types; what was left to dpframe is None, so that a later
        version of dpframe recognises them."""
        return {
            "hierarchy": self.hierarchy.spec,
            **self.budget.request,
            **self.unit.request,
            "mechanism": self.mechanism,
            "remainder": self.remainder,
            "confidence": self.confidence,
            **({} if self.counters is None else {"counters": self.counters}),
            "threshold": self.threshold,
            "release_share": self.release_share,
        }


def asked_for(given: Given, mechanism: str) -> Asked:
    """What unchecked arguments ask of a mechanism."""
    streaming = mechanism == "streaming"
    counters = given.whole("counters", 2, LARGEST)
    return Asked(
        hierarchy=given.hierarchy,
        unit=given.unit,
        budget=given.budget,
        mechanism=mechanism,
        threshold=given.whole("threshold", 1, 2**53),
        remainder=not streaming if given["remainder"] is None else given.flag("remainder"),
        release_share=given.number("release_share", 0.01, 0.99),
        confidence=given.confidence,
        acknowledge=given.flag("acknowledge"),
        counters=DEFAULT_COUNTERS if streaming and counters is None else counters,
    )
