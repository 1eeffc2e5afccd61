"""What a federated prefix tree will do and cost, from public parameters alone.

This module sees no data. The number of devices is public: neighbours have the same.
:class:`PrefixAsked` is what was asked for, :class:`PrefixPlan` that with a number of devices, which
decides how much noise there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpframe._forking import no_fork
from dpframe.accounting import aggregate, shuffle
from dpframe.accounting.aggregate import aggregate_delta
from dpframe.accounting.binomial import trials
from dpframe.accounting.compose import Profile, whole_profile
from dpframe.accounting.losses import composed_profile
from dpframe.accounting.search import least_scale
from dpframe.asking.card import Line
from dpframe.asking.proofs import Game
from dpframe.asking.receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import BudgetError, ParameterError
from dpframe.federated.channels import CentralNoise, Channel, ReportSums
from dpframe.federated.population import Population
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import prefix_tree
from dpframe.mechanisms.prefix_tree import FoundItems
from dpframe.noise import TOTAL, NoiseTable, gaussian, laplace
from dpframe.questions.prefix_tree.asked import PrefixAsked
from dpframe.questions.prefix_tree.lines import prefix_lines
from dpframe.questions.prefix_tree.receipt import prefix_receipt

if TYPE_CHECKING:
    import pandas as pd

ABSENT = 1e-3
"""Part of delta that pays for fewer devices taking part than is accounted for."""

GRID = 1e-4
"""Grid of the privacy loss of central noise, in parts of epsilon."""


def to_nobody(_: str) -> None:
    """No progress is shown."""


@dataclass(frozen=True, kw_only=True)
class PrefixPlan:
    """What was asked for, with the noise that so many devices need.

    ``reporting`` is the number of reports of an iteration that is accounted for: all devices, those
    that are declared, or with sampling a number that is hardly ever missed. ``local_epsilon`` is
    that of one report, None for central noise. ``say`` is told what is being asked.
    """

    asked: PrefixAsked
    devices: int
    reporting: int
    local_epsilon: float | None = None
    noise: NoiseTable | None = None
    say: Callable[[str], None] = field(default=to_nobody, repr=False, compare=False)

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
    def unit(self) -> PrivacyUnit:
        return self.asked.unit

    @property
    def neighbours(self) -> str:
        """Which tables the guarantee cannot tell apart."""
        user = f"one user ({self.asked.user!r})"
        crowd = f"the number of users, {self.devices:,}, is public"
        if self.asked.neighbours == "replace":
            return f"replacing all records of {user} by any others; {crowd}"
        return f"adding or removing all items of {user}, who still reports; {crowd}"

    @property
    def channel(self) -> Channel:
        if self.local_epsilon is not None:
            return ReportSums(self.local_epsilon)
        assert self.noise is not None
        return CentralNoise(self.noise)

    @cached_property
    def delta_spent(self) -> float:
        """Upper bound on delta at the epsilon of the budget."""
        return self._delta(self.budget.epsilon)

    @property
    def profile(self) -> Profile:
        """Points (epsilon, delta) of the release."""
        if self.asked.accountant == "shuffle":
            return ((self.budget.epsilon, self.budget.delta),)
        return whole_profile(
            self.budget, 1, lambda epsilons: [(e, self._delta(e)) for e in epsilons]
        )

    def _delta(self, epsilon: float) -> float:
        asked = self.asked
        if self.noise is not None:
            return _central_delta(self.noise, asked, epsilon)
        assert self.local_epsilon is not None
        extra = _absent(asked, self.devices, self.reporting) + _slip(asked, self.devices)
        if asked.accountant == "shuffle":
            return asked.budget.delta
        return extra + aggregate_delta(
            devices=self.reporting,
            reports=asked.reports,
            local_epsilon=self.local_epsilon,
            epsilon=epsilon,
            neighbours=asked.neighbours,
        )

    @property
    def game(self) -> Game:
        """Cells of sums whose law a device changes, or counts that it moves by one."""
        asked = self.asked
        if self.noise is not None:
            levels = [{"table": 0, "least": None}] * _moved(asked)
            return Game({"kind": "counts", "units": 1, "levels": levels}, (self.noise,))
        assert self.local_epsilon is not None
        return Game(
            {
                "kind": "reports",
                "devices": self.devices,
                "counted": self.reporting,
                "participation": asked.search.taking_part,
                "reports": asked.reports,
                "silence": aggregate.silence(self.local_epsilon),
                "spared": aggregate.spared(self.reporting, self.local_epsilon),
                "replaced": asked.neighbours == "replace",
            }
        )

    def run(self, devices: Population, /) -> FoundItems:
        """The only noisy step."""
        return prefix_tree.run(devices, self.channel, self.asked.search, say=self.say)

    def lines(self) -> list[Line]:
        """What is known before devices are asked."""
        return prefix_lines(self)

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of a release; depends on the data through their public size only."""
        return prefix_receipt(self, name)

    def frame(self, noisy: FoundItems, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Items as nodes of one level."""
        with no_fork():
            from dpframe.questions.prefix_tree.frame import prefix_frame  # loads pandas

        return prefix_frame(noisy, self)

    def answered(self, facts: Receipt, noisy: FoundItems, frame: pd.DataFrame, /) -> Receipt:
        """The receipt as it is: rows are of other columns than those that notices are about."""
        return facts


def make_prefix_plan(asked: PrefixAsked, devices: int) -> PrefixPlan:
    """Choose the noise for so many devices. Pure: no data, no randomness.

    Raises
    ------
    BudgetError
        So few devices cannot hide each other within the budget.
    """
    if asked.declared is not None and devices < asked.declared:
        raise ParameterError(
            f"devices ({asked.declared:,}) is more than the {devices:,} users of the source: "
            "declare a number that is certainly reached."
        )
    counted = devices if asked.declared is None else asked.declared
    if asked.mechanism != "reports":
        return PrefixPlan(
            asked=asked, devices=devices, reporting=counted, noise=_central_noise(asked)
        )
    epsilon, delta = asked.budget.epsilon, asked.budget.delta
    reporting = _reporting(asked, counted)
    usable = delta - _absent(asked, counted, reporting) - _slip(asked, devices)
    if usable <= 0:
        raise BudgetError(
            f"64-bit tables of sums do not reach delta={delta:g} at epsilon={epsilon:g}: lower "
            "epsilon, raise delta, or mechanism='gaussian'."
        )
    found = 0.0
    if reporting > 1:
        found = _local_epsilon(asked, reporting, epsilon, usable)
    if found <= 0:
        raise BudgetError(
            f"{reporting:,} reports an iteration are too few to hide each other at epsilon="
            f"{epsilon:g}, delta={delta:g} with {asked.reports} reports of every device: fewer "
            "iterations or rounds, more devices, a larger budget, or mechanism='gaussian'."
        )
    return PrefixPlan(asked=asked, devices=devices, reporting=reporting, local_epsilon=found)


def _local_epsilon(asked: PrefixAsked, devices: int, epsilon: float, delta: float) -> float:
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


def _reporting(asked: PrefixAsked, devices: int) -> int:
    """Reports of an iteration: with sampling a number that is missed with a chance within delta.

    Who takes part does not depend on data. Given that, an iteration is one of so many devices; no
    amplification by sampling is claimed.
    """
    chance = asked.search.taking_part
    if chance == 1:
        return devices
    allowed = ABSENT * asked.budget.delta / asked.reports
    lowest, law = trials(devices, chance)
    return lowest + int(np.searchsorted(np.cumsum(law), allowed))


def _absent(asked: PrefixAsked, devices: int, reporting: int) -> float:
    """Upper bound on the chance that fewer take part in some iteration."""
    chance = asked.search.taking_part
    if chance == 1:
        return 0.0
    lowest, law = trials(devices, chance)
    return asked.reports * float(law[: max(0, reporting - lowest)].sum()) * (1 + 1e-9)


def _slip(asked: PrefixAsked, devices: int) -> float:
    """How far 64-bit tables of sums are from binomial laws, as a part of delta.

    A weight is rounded by at most one unit of 2^-64, rests at the mode included, and a table of n
    trials has at most 10 sqrt(n) + 82 of them (20 standard deviations). Two cells of an iteration
    depend on a device, with two tables each, under both neighbours. Before that it is right to
    1e-12 of itself, as are the laws that are accounted for: epsilon is as exact, and no more.
    """
    entries = 10 * math.sqrt(devices) + 82
    return 8 * asked.reports * entries / TOTAL * (1 + math.exp(asked.budget.epsilon))


def _moved(asked: PrefixAsked) -> int:
    """Counts that one device moves by one, in all iterations."""
    return asked.reports * (2 if asked.neighbours == "replace" else 1)


def _central_delta(noise: NoiseTable, asked: PrefixAsked, epsilon: float) -> float:
    step = GRID * asked.budget.epsilon
    ((_, delta),) = composed_profile([noise] * _moved(asked), epsilons=[epsilon], step=step)
    return delta


def _central_noise(asked: PrefixAsked) -> NoiseTable:
    """The least noise of a family within the budget."""
    moved, epsilon, delta = _moved(asked), asked.budget.epsilon, asked.budget.delta

    def law(scale: float) -> NoiseTable:
        if asked.mechanism == "laplace":
            return laplace(scale, math.ceil(scale * math.log(100 * moved / delta)) + 1)
        return gaussian(scale, math.ceil(scale * math.sqrt(2 * math.log(1e3 * moved / delta))) + 1)

    start = math.sqrt(moved * 2 * math.log(1.25 / delta)) / epsilon
    scale = least_scale(lambda s: _central_delta(law(s), asked, epsilon), max(start, 0.6), delta)
    found = law(scale)
    if _central_delta(found, asked, epsilon) > delta:
        raise BudgetError(
            f"no noise table reaches delta={delta:g} at epsilon={epsilon:g}: raise delta, or move "
            "epsilon towards 1."
        )
    return found
