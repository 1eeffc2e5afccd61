"""The request for a federated prefix tree, and the noise that its number of devices needs.

This module sees no data. The number of devices is public: neighbours have the same number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from dpframe.accounting import aggregate, shuffle
from dpframe.accounting.aggregate import Neighbours, aggregate_delta
from dpframe.accounting.binomial import success_law
from dpframe.accounting.compose import Profile
from dpframe.accounting.losses import composed_profile
from dpframe.accounting.search import least_scale
from dpframe.asking.draws import Draw, DrawList, counts_game
from dpframe.asking.level_plan import ReleasePlan
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import BudgetError, ParameterError
from dpframe.federated.server import standard_error
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms.prefix_tree import Search
from dpframe.noise import TOTAL, NoiseTable, gaussian_table, laplace_table, law_facts

ABSENT = 1e-3
"""Part of delta for the event that fewer devices take part than the accountant assumes."""

GRID = 1e-4
"""Grid of the privacy loss of central noise, as a fraction of epsilon."""

PrefixMechanism = Literal["reports", "laplace", "gaussian"]
Accountant = Literal["aggregate", "shuffle"]

PREFIX_MECHANISMS: tuple[PrefixMechanism, ...] = ("reports", "laplace", "gaussian")


@dataclass(frozen=True, kw_only=True)
class PrefixRequest:
    """The checked arguments; the number of devices is not among them.

    ``declared`` is the least number of devices that the caller promises; None takes the number of
    users in the data."""

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
        """The arguments that a release answers, as plain JSON types."""
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
        """The unit of privacy: a user with all records."""
        return PrivacyUnit(user=self.user)

    @property
    def reports(self) -> int:
        """The number of reports of each device, in all rounds."""
        return self.search.rounds * self.search.segments.iterations

    @property
    def moved_counts(self) -> int:
        """The number of counts that one device moves by one, in all iterations."""
        return self.reports * (2 if self.neighbours == "replace" else 1)


@dataclass(frozen=True, kw_only=True)
class PrefixUnit(PrivacyUnit):
    """A user whose items are added, removed or replaced, while the number of users is public."""

    devices: int
    replaced: bool

    @property
    def sentence(self) -> str:
        user = f"one user ({self.user!r})"
        crowd = f"the number of users, {self.devices:,}, is public"
        if self.replaced:
            return f"replacing all records of {user} by any others; {crowd}"
        return f"adding or removing all items of {user}, who still reports; {crowd}"

    @property
    def counts(self) -> str:
        return "users who reported an item when it was found, each at most one item an iteration"

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, "contribution": None}


@dataclass(frozen=True, kw_only=True)
class PrefixNumbers(ReleasePlan):
    """The request, with the noise that the number of devices needs.

    ``reporting`` is the number of reports of an iteration that the accountant assumes: all devices,
    the declared number, or with sampling a number that is hardly ever missed. ``local_epsilon`` is
    the epsilon of one report, None for ``central`` noise; ``central`` is None for reports.
    """

    asked: PrefixRequest
    devices: int
    reporting: int
    local_epsilon: float | None = None
    central: NoiseTable | None = None

    @classmethod
    def for_devices(cls, asked: PrefixRequest, devices: int) -> Self:
        """Choose the noise for ``devices`` devices. Pure: no data, no randomness.

        Raises
        ------
        ParameterError
            Fewer devices than the caller declared.
        BudgetError
            Too few devices to hide each other within the budget, or no table reaches delta.
        """
        if asked.declared is not None and devices < asked.declared:
            raise ParameterError(
                f"devices ({asked.declared:,}) is more than the {devices:,} users of the source. "
                "Declare a number that is certainly reached."
            )
        counted = devices if asked.declared is None else asked.declared
        if asked.mechanism != "reports":
            return cls(
                asked=asked, devices=devices, reporting=counted, central=_central_noise(asked)
            )
        epsilon, delta = asked.budget.epsilon, asked.budget.delta
        reporting = _least_reports(asked, counted)
        usable = (
            delta - _chance_of_absence(asked, counted, reporting) - _table_error(asked, devices)
        )
        if usable <= 0:
            raise BudgetError(
                f"64-bit tables of sums do not reach delta={delta:g} at epsilon={epsilon:g}. "
                "Lower epsilon, raise delta, or pass mechanism='gaussian'."
            )
        local = _local_epsilon(asked, reporting, epsilon, usable) if reporting > 1 else 0.0
        if local <= 0:
            raise BudgetError(
                f"{reporting:,} reports an iteration are too few to hide each other. Take fewer "
                "iterations or rounds, more devices, a larger budget, or mechanism='gaussian'."
            )
        return cls(asked=asked, devices=devices, reporting=reporting, local_epsilon=local)

    @property
    def budget(self) -> Budget:
        return self.asked.budget

    @property
    def hierarchy(self) -> Hierarchy:
        return self.asked.hierarchy

    @property
    def request(self) -> dict[str, object]:
        return self.asked.request

    @property
    def unit(self) -> PrefixUnit:
        return PrefixUnit(
            user=self.asked.user,
            devices=self.devices,
            replaced=self.asked.neighbours == "replace",
        )

    @property
    def standard_error(self) -> float:
        """Standard error, in users, of the estimate for an item that one device holds."""
        if self.central is not None:
            return self.central.sd
        assert self.local_epsilon is not None
        expected = max(1, round(self.devices * self.asked.search.taking_part))
        return standard_error(1, devices=expected, local_epsilon=self.local_epsilon)

    @cached_property
    def draws(self) -> DrawList:
        """A device changes the law of some cells of the sums; with central noise, it moves counts
        by 1."""
        asked, delta = self.asked, self._delta(self.budget.epsilon)
        curve = None if asked.accountant == "shuffle" else self._curve
        if self.central is not None:
            count = Draw(
                law=self.central,
                label="noise",
                applies_to="added to the count of every cell",
                times=asked.moved_counts,
            )
            return counts_game([count], delta=delta, group=1, curve=curve)
        assert self.local_epsilon is not None
        facts = {
            "devices": self.devices,
            "counted": self.reporting,
            "participation": asked.search.taking_part,
            "reports": asked.reports,
            "silence": aggregate.silence(self.local_epsilon),
            "spared": aggregate.spare_holders(self.reporting, self.local_epsilon),
            "replaced": self.unit.replaced,
        }
        return DrawList(kind="reports", draws=(), facts=facts, delta=delta, curve=curve)

    @property
    def noise(self) -> dict[str, Any] | None:
        return None if self.central is None else law_facts(self.central, 1)

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        return tuple((e, self._delta(e)) for e in epsilons)

    def _delta(self, epsilon: float) -> float:
        asked = self.asked
        if self.central is not None:
            return _central_delta(self.central, asked, epsilon)
        assert self.local_epsilon is not None
        extra = _chance_of_absence(asked, self.devices, self.reporting) + _table_error(
            asked, self.devices
        )
        if asked.accountant == "shuffle":
            return asked.budget.delta
        return extra + aggregate_delta(
            devices=self.reporting,
            reports=asked.reports,
            local_epsilon=self.local_epsilon,
            epsilon=epsilon,
            neighbours=asked.neighbours,
        )


def _local_epsilon(asked: PrefixRequest, devices: int, epsilon: float, delta: float) -> float:
    if asked.accountant == "shuffle":
        return shuffle.shuffle_local_epsilon(
            devices=devices, reports=asked.reports, epsilon=epsilon, delta=delta
        )
    return aggregate.local_epsilon(
        devices=devices,
        reports=asked.reports,
        epsilon=epsilon,
        delta=delta,
        neighbours=asked.neighbours,
    )


def _least_reports(asked: PrefixRequest, devices: int) -> int:
    """The reports of an iteration to account for. With sampling, the chance that fewer devices
    report is a part of delta.

    Who takes part does not depend on data. Given who takes part, the accountant treats an iteration
    as one with that many devices and no sampling: no amplification by sampling is claimed.
    """
    chance = asked.search.taking_part
    if chance == 1:
        return devices
    allowed = ABSENT * asked.budget.delta / asked.reports
    lowest, law = success_law(devices, chance)
    return lowest + int(np.searchsorted(np.cumsum(law), allowed))


def _chance_of_absence(asked: PrefixRequest, devices: int, reporting: int) -> float:
    """Upper bound on the chance that fewer than ``reporting`` devices take part in some
    iteration."""
    chance = asked.search.taking_part
    if chance == 1:
        return 0.0
    lowest, law = success_law(devices, chance)
    return asked.reports * float(law[: max(0, reporting - lowest)].sum()) * (1 + 1e-9)


def _table_error(asked: PrefixRequest, devices: int) -> float:
    """The delta that covers the rounding of binomial laws to 64-bit tables of sums.

    A weight is rounded by at most one unit of 2^-64, rests at the mode included, and a table of n
    trials has at most 10 sqrt(n) + 82 weights (20 standard deviations). Two cells of an iteration
    depend on a device, with two tables each, under both neighbours. Before rounding, a weight has
    a relative error of at most 1e-12, and so have the laws that are accounted for: epsilon is not
    more exact than that error.
    """
    entries = 10 * math.sqrt(devices) + 82
    return 8 * asked.reports * entries / TOTAL * (1 + math.exp(asked.budget.epsilon))


def _central_delta(noise: NoiseTable, asked: PrefixRequest, epsilon: float) -> float:
    step = GRID * asked.budget.epsilon
    ((_, delta),) = composed_profile([noise] * asked.moved_counts, epsilons=[epsilon], step=step)
    return delta


def _central_noise(asked: PrefixRequest) -> NoiseTable:
    """The smallest noise of the mechanism's family within the budget."""
    moved, epsilon, delta = asked.moved_counts, asked.budget.epsilon, asked.budget.delta

    def law(scale: float) -> NoiseTable:
        if asked.mechanism == "laplace":
            return laplace_table(scale, math.ceil(scale * math.log(100 * moved / delta)) + 1)
        return gaussian_table(
            scale, math.ceil(scale * math.sqrt(2 * math.log(1e3 * moved / delta))) + 1
        )

    start = math.sqrt(moved * 2 * math.log(1.25 / delta)) / epsilon
    scale = least_scale(lambda s: _central_delta(law(s), asked, epsilon), max(start, 0.6), delta)
    noise = law(scale)
    if _central_delta(noise, asked, epsilon) > delta:
        raise BudgetError(
            f"no noise table reaches delta={delta:g} at epsilon={epsilon:g}. Raise delta, or move "
            "epsilon towards 1."
        )
    return noise
