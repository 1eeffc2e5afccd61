"""What heavy hitters can be asked for: every argument, checked once, and as it is stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from dpframe._forking import no_fork
from dpframe.asking.by_nodes import to_be_refused, unit_by_nodes
from dpframe.asking.given import Given, column_name, number
from dpframe.budget import Budget, PrivacyUnit, as_written
from dpframe.errors import ColumnError, ParameterError, ThresholdError
from dpframe.hierarchy import Hierarchy


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a plan is asked for; None is left to dpframe."""

    hierarchy: Hierarchy
    unit: PrivacyUnit
    budget: Budget
    mechanism: str = "offline"
    threshold: float | None = None
    remainder: bool = True
    release_share: float | None = None
    confidence: float = 0.95
    acknowledge: bool = False
    counters: int | None = None
    at_most: int | None = None
    usual: bool = False
    """Whether the mechanism was left to dpframe."""
    totals: bool = False
    part_of: float | None = None
    """Epsilon of the rollup of which this is the selection."""

    def at_least(self, smallest: int) -> float:
        """The threshold, by default the smallest private one, which is ``smallest`` records or
        users; of a measure in its own numbers. ThresholdError below it."""
        unit, least = self.unit, smallest * self.unit.worth
        if self.threshold is None:
            return least
        if in_units(self.threshold, unit) < smallest * unit.grid:
            of, tests = "", f"height={self.hierarchy.height}"
            if unit.measured:
                of = f" of {unit.weight!r} with max_weight={as_written(unit.worth)}"
            if len(self.hierarchy.dimensions) > 1:
                tests = f"{self.hierarchy.height} kinds of cells"
            raise ThresholdError(
                f"threshold ({as_written(self.threshold)}) is below the smallest private threshold "
                f"{as_written(least)}{of} for {self.spent}, {tests}. {self.remedy}."
            )
        return self.threshold

    @property
    def spent(self) -> str:
        """The budget of the selection, for messages."""
        own, delta = f"{self.budget.epsilon:g}", f"delta={self.budget.delta:g}"
        if self.part_of is not None:
            own = f"{self.part_of:g}, of which {self.budget.epsilon:.3g} selects"
        return f"epsilon={own}, {delta}"

    @property
    def remedy(self) -> str:
        """What lowers the smallest threshold, for messages."""
        lower = ", or lower max_weight" if self.unit.measured else ""
        rest = ", or leave totals out, which takes half of both" if self.totals else ""
        share = "selection_share, " * (self.part_of is not None)
        return f"Raise threshold, {share}epsilon or delta{lower}{rest}"

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
            **({} if self.at_most is None else {"at_most": self.at_most}),
            **({"totals": True} if self.totals else {}),
            "threshold": self.threshold,
            "release_share": self.release_share,
        }


def in_units(threshold: float, unit: PrivacyUnit) -> int:
    """A threshold as counts are compared with it, rounded up to a unit of the grid; products with
    ``worth`` are within rounding of one."""
    exact = Fraction(threshold) * unit.grid / Fraction(unit.worth)
    return math.ceil(exact - ROUNDING)


def in_records(threshold: float, unit: PrivacyUnit) -> Fraction:
    """The same in whole records or users, of which a measure has parts."""
    return Fraction(in_units(threshold, unit), unit.grid)


ROUNDING = Fraction(1, 2**20)
"""Of a unit: a threshold is within it of what it was meant to be, in floating-point numbers."""


def unit_of(given: Given, mechanism: str) -> PrivacyUnit:
    """Who is protected: by nodes where different users are counted exactly, not in a sketch."""
    by_nodes = unit_by_nodes(given, exact=mechanism == "offline")
    if by_nodes is not None and given["remainder"]:
        raise ParameterError(
            f"remainder ({given['remainder']!r}) does not go with contribution='items'. Leave it "
            "out."
        )
    if by_nodes is not None:
        return by_nodes
    refused = given["contribution"] == "items" and mechanism != "streaming"
    return measured_unit(to_be_refused(given) if refused else given)


def measured_unit(given: Given) -> PrivacyUnit:
    """Who is protected, by a measure too, which needs a bound; questions without one have none."""
    unit, weight, bound = given.unit, given.get("weight"), given.get("max_weight")
    if weight is None:
        if bound is not None:
            raise ParameterError(
                f"max_weight ({bound!r}) needs weight=. Name the column that it bounds, or leave "
                "max_weight out."
            )
        return unit
    weight = column_name("weight", weight)
    each = "row" if unit.user is None else "user, over all rows,"
    if bound is None:
        raise ParameterError(
            f"max_weight is missing. Pass max_weight=, the most of {weight!r} that one {each} "
            "counts. Do not take it from the data."
        )
    if weight == unit.user:
        raise ColumnError(
            f"weight ({weight!r}) and user are the same column. Name the column that is added up."
        )
    if unit.contribution != "share":
        raise ParameterError(
            f"contribution={unit.contribution!r} does not go with weight ({weight!r}). Leave "
            "contribution and max_contributions out."
        )
    return replace(
        unit,
        weight=weight,
        max_weight=number("max_weight", bound, LEAST_MEASURE, LARGEST_MEASURE),
        measured=True,
    )


LEAST_MEASURE, LARGEST_MEASURE = 1e-200, 1e200
"""Parts and multiples of a bound between them are numbers, too."""


def asked_for(given: Given, mechanism: str) -> Asked:
    """What unchecked arguments ask of a mechanism."""
    streaming = mechanism == "streaming"
    unit = unit_of(given, mechanism)
    return Asked(
        hierarchy=given.hierarchies,
        unit=unit,
        budget=given.budget,
        mechanism=mechanism,
        threshold=_threshold(given, unit),
        remainder=not streaming if given["remainder"] is None else given.flag("remainder"),
        release_share=given.number("release_share", 0.01, 0.99),
        confidence=given.confidence,
        acknowledge=given.flag("acknowledge"),
        counters=_counters(given, streaming),
        totals=given.flag("totals"),
    )


def _counters(given: Given, streaming: bool) -> int | None:
    """The size of a sketch, where there is one."""
    if given["counters"] is None and not streaming:
        return None
    with no_fork():
        from dpframe.sketches import DEFAULT_COUNTERS, LARGEST

    counters = given.whole("counters", 2, LARGEST)
    return DEFAULT_COUNTERS if streaming and counters is None else counters


def _threshold(given: Given, unit: PrivacyUnit) -> float | None:
    """A whole number of records or users; of a measure any positive number."""
    if not unit.measured:
        return given.whole("threshold", 1, 2**53)
    if (threshold := given["threshold"]) is None:
        return None
    most = 2**45 * unit.worth
    return number("threshold", threshold, unit.worth / unit.grid, most)
