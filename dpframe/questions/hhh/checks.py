"""Check the arguments of heavy hitters once, and write the request that is stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from dpframe.asking.call_arguments import (
    CallArguments,
    bounded_number,
    column_name,
    known_choice,
    whole_number,
)
from dpframe.asking.card import Line
from dpframe.asking.level_plan import nodes_unit_from, with_contribution_bound
from dpframe.budget import Budget, PrivacyUnit, as_written
from dpframe.errors import ColumnError, ParameterError, ThresholdError
from dpframe.hierarchy import Hierarchy


@dataclass(frozen=True, kw_only=True)
class HhhArguments:
    """The checked arguments of a plan; None leaves the choice to dpframe."""

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
    """Epsilon of the whole rollup, if the arguments are for the selection of a rollup."""

    def at_least(self, smallest: int) -> float:
        """Return the threshold, by default the smallest private one.

        ``smallest`` is the smallest private threshold in records or users. The result is in records
        or users too, or in the numbers of a measure. ThresholdError if the caller's threshold is
        smaller.
        """
        unit, least = self.unit, smallest * self.unit.worth
        if self.threshold is None:
            return least
        if threshold_in_units(self.threshold, unit) < smallest * unit.grid:
            of, tests = "", f"height={self.hierarchy.height}"
            if unit.measured:
                of = f" of {unit.weight!r} with max_weight={as_written(unit.worth)}"
            if len(self.hierarchy.dimensions) > 1:
                tests = f"{self.hierarchy.height} kinds of cells"
            raise ThresholdError(
                f"threshold ({as_written(self.threshold)}) is below the smallest private threshold "
                f"{as_written(least)}{of} for {self.budget_text}, {tests}. {self.remedy}."
            )
        return self.threshold

    @property
    def budget_text(self) -> str:
        """The budget of the selection, for messages."""
        own, delta = f"{self.budget.epsilon:g}", f"delta={self.budget.delta:g}"
        if self.part_of is not None:
            own = f"{self.part_of:g}, of which {self.budget.epsilon:.3g} selects"
        return f"epsilon={own}, {delta}"

    @property
    def remedy(self) -> str:
        """What the caller can change if the threshold is too small, for messages."""
        lower = ", or lower max_weight" if self.unit.measured else ""
        rest = ", or leave totals out, which takes half of both" if self.totals else ""
        share = "selection_share, " * (self.part_of is not None)
        return f"Raise threshold, {share}epsilon or delta{lower}{rest}"

    @property
    def request(self) -> dict[str, object]:
        """The arguments as plain JSON types.

        What was left to dpframe is None, so that a later version recognises the request.
        """
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


def threshold_in_units(threshold: float, unit: PrivacyUnit) -> int:
    """Return a threshold in units, rounded up to a unit of the grid.

    A product with ``worth`` may exceed a whole unit by a rounding error, which does not count.
    """
    exact = Fraction(threshold) * unit.grid / Fraction(unit.worth)
    return math.ceil(exact - ROUNDING)


def threshold_in_records(threshold: float, unit: PrivacyUnit) -> Fraction:
    """Return a threshold in records or users, rounded up to a unit of the grid."""
    return Fraction(threshold_in_units(threshold, unit), unit.grid)


ROUNDING = Fraction(1, 2**20)
"""Largest error of a floating-point threshold, as a part of a unit."""


def hhh_unit(given: CallArguments, mechanism: str) -> PrivacyUnit:
    """Return the unit of privacy: a ``NodesUnit`` if different users are counted, not sketched."""
    by_nodes = nodes_unit_from(given, exact=mechanism == "offline")
    if by_nodes is not None and given["remainder"]:
        raise ParameterError(
            f"remainder ({given['remainder']!r}) does not go with contribution='items'. Leave it "
            "out."
        )
    if by_nodes is not None:
        return by_nodes
    refused = given["contribution"] == "items" and mechanism != "streaming"
    return measured_unit(with_contribution_bound(given) if refused else given)


def measured_unit(given: CallArguments) -> PrivacyUnit:
    """Return the unit of privacy, with the bound of a measure if a weight is added up.

    Questions without weights have no arguments ``weight`` and ``max_weight``.
    """
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
        max_weight=bounded_number("max_weight", bound, LEAST_MEASURE, LARGEST_MEASURE),
        measured=True,
    )


LEAST_MEASURE, LARGEST_MEASURE = 1e-200, 1e200
"""Between these bounds, parts and multiples of ``max_weight`` are still finite numbers above 0."""


def check_hhh_arguments(given: CallArguments, mechanism: str) -> HhhArguments:
    """Check the arguments of a call for a mechanism."""
    streaming = mechanism == "streaming"
    unit = hhh_unit(given, mechanism)
    return HhhArguments(
        hierarchy=given.hierarchies,
        unit=unit,
        budget=given.budget,
        mechanism=mechanism,
        threshold=_checked_threshold(given, unit),
        remainder=not streaming if given["remainder"] is None else given["remainder"],
        release_share=given["release_share"],
        confidence=given["confidence"],
        acknowledge=given["acknowledge"],
        counters=_sketch_counters(given, streaming),
        totals=given["totals"],
    )


def _sketch_counters(given: CallArguments, streaming: bool) -> int | None:
    """Return the number of counters of a sketch; None without sketches."""
    if given["counters"] is None and not streaming:
        return None
    from dpframe.sketches import DEFAULT_COUNTERS, LARGEST

    if given["counters"] is None:
        return DEFAULT_COUNTERS
    return whole_number("counters", given["counters"], 2, LARGEST)


def _checked_threshold(given: CallArguments, unit: PrivacyUnit) -> float | None:
    """Return the threshold: whole records or users; for a measure, any number from one unit of the
    grid on. None if it was left out."""
    if (threshold := given["threshold"]) is None:
        return None
    if not unit.measured:
        return whole_number("threshold", threshold, 1, 2**53)
    most = 2**45 * unit.worth
    return bounded_number("threshold", threshold, unit.worth / unit.grid, most)


AUTO = "auto"
"""The contribution that leaves the way to dpframe, as does leaving the argument out."""

WAYS = (AUTO, "share", "records", "items")

CHOSEN = ("rounds", "offline", "offline-gaussian")
"""Mechanisms that "auto" goes with: it then has nothing to choose."""


def without_auto(given: CallArguments) -> CallArguments:
    """Return the arguments with None for a contribution "auto"; ParameterError for an unknown
    contribution of users, and for "auto" without users."""
    if given["contribution"] is None:
        return given
    if given["user"] is None:
        given.unit  # noqa: B018  # refuses a contribution without user=
    if known_choice("contribution", given["contribution"], WAYS) != AUTO:
        return given
    if (named := given["mechanism"]) not in (None, *CHOSEN):
        raise ParameterError(
            f"contribution='auto' takes rounds or shares, and mechanism={named!r} has neither. "
            "Leave mechanism out, or pass contribution='records' with max_contributions=."
        )
    return given.but(contribution=None)


def check_declared_nodes(given: CallArguments) -> None:
    """Raise ParameterError for ``nodes_per_user`` in a call that has no way to choose."""
    if (nodes := given["nodes_per_user"]) is None:
        return
    if given["user"] is None:
        raise ParameterError(
            f"nodes_per_user ({nodes}) needs user=. Name the column that identifies a person, or "
            "leave nodes_per_user out."
        )
    for name in ("mechanism", "contribution"):
        if given[name] is not None:
            raise ParameterError(
                f"nodes_per_user ({nodes}) helps contribution='auto' to choose, and "
                f"{name}={given[name]!r} has chosen. Leave one of both out."
            )


def shares_line(why: str) -> Line:
    """Return the line of a card that says why "auto" took shares."""
    return Line.of("way", "shares", "contribution='auto' takes them here: {why}", why=why)
