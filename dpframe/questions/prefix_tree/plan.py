"""What a prefix tree will do and cost: request, noise for its number of devices, card.

This module sees no data. The number of devices is public: neighbours have the same number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dpframe.accounting import aggregate
from dpframe.accounting import aggregate as shuffle
from dpframe.accounting.aggregate import Neighbours, aggregate_delta, success_law
from dpframe.accounting.compose import Profile
from dpframe.accounting.losses import composed_profile, least_scale
from dpframe.asking.card import Draw, DrawList, Line, Text, counts_game, four_digits_up
from dpframe.asking.level_plan import ReleasePlan
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit
from dpframe.errors import BudgetError, ParameterError
from dpframe.federated import CentralNoise, Channel, Population, ReportSums, standard_error
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import prefix_tree
from dpframe.mechanisms.prefix_tree import FoundItems, Search
from dpframe.noise import TOTAL, NoiseTable, gaussian_table, laplace_table, law_facts

if TYPE_CHECKING:
    import pandas as pd

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
            noise = _central_noise(asked.mechanism, asked.moved_counts, asked.budget)
            return cls(asked=asked, devices=devices, reporting=counted, central=noise)
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
            user=self.asked.user, devices=self.devices, replaced=self.asked.neighbours == "replace"
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
            return _central_delta(self.central, asked.moved_counts, asked.budget, epsilon)
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


def _central_delta(noise: NoiseTable, moved: int, budget: Budget, epsilon: float) -> float:
    step = GRID * budget.epsilon
    ((_, delta),) = composed_profile([noise] * moved, epsilons=[epsilon], step=step)
    return delta


@lru_cache(maxsize=64)
def _central_noise(mechanism: str, moved: int, budget: Budget) -> NoiseTable:
    """The smallest noise of the mechanism's family within the budget."""
    epsilon, delta = budget.epsilon, budget.delta

    def law(scale: float) -> NoiseTable:
        if mechanism == "laplace":
            return laplace_table(scale, math.ceil(scale * math.log(100 * moved / delta)) + 1)
        return gaussian_table(
            scale, math.ceil(scale * math.sqrt(2 * math.log(1e3 * moved / delta))) + 1
        )

    def spent(noise: NoiseTable) -> float:
        return _central_delta(noise, moved, budget, epsilon)

    start = math.sqrt(moved * 2 * math.log(1.25 / delta)) / epsilon
    noise = law(least_scale(lambda s: spent(law(s)), max(start, 0.6), delta))
    if spent(noise) > delta:
        raise BudgetError(
            f"no noise table reaches delta={delta:g} at epsilon={epsilon:g}. Raise delta, or move "
            "epsilon towards 1."
        )
    return noise


PAPERS = {
    "reports": "Chadha et al. (2023), OptPrefixTree, Algorithms 2 to 5",
    "laplace": "Chadha et al. (2023), prefix tree with central Laplace noise, a baseline",
    "gaussian": "Chadha et al. (2023), prefix tree with central Gaussian noise, a baseline",
}

MOST_SHOWN = 80
"""The most characters of an alphabet that a card shows."""


def local_guarantee(plan: PrefixNumbers) -> str | None:
    """The privacy claim against whoever sees single reports; None without reports."""
    if plan.local_epsilon is None:
        return None
    total = plan.asked.reports * plan.local_epsilon
    return (
        f"{plan.local_epsilon:g}-differential privacy in the local model for a report, {total:g} "
        f"for all {plan.asked.reports} of a device"
    )


def prefix_lines(plan: PrefixNumbers) -> list[Line]:
    """The lines of the plan and of the card."""
    asked, search = plan.asked, plan.asked.search
    segments, local = search.segments, local_guarantee(plan)
    how = f"as many as {segments.limit:,} cells hold"
    if segments.fixed:
        how = ", ".join(map(str, segments.fixed))
    out = [
        plan.guarantee_line,
        Line(
            "local guarantee",
            local or "none: a trusted server counts",
            "against whoever sees the reports of a device",
        ),
        Line.of(
            "mechanism",
            Text("prefix tree, {mechanism}"),
            PAPERS[asked.mechanism],
            mechanism=asked.mechanism,
        ),
        Line.of(
            "items", asked.hierarchy.spec, "as bits: {encoding}", encoding=search.encoding.spec
        ),
        Line("left out", left_out(plan), "by rule, never reported; a user's other items are"),
        Line("counts", plan.unit.counts, "what the numbers count"),
        Line("devices", plan.devices, "users of the source, public"),
        Line("rounds", search.rounds, "each without what earlier ones found"),
        Line("iterations", segments.iterations, "of a round: reports of every device"),
        Line.of("bits of an iteration", how, "of {length} bits of an item", length=segments.length),
        Line("selection", _selection_text(plan), "which of their items users report"),
    ]
    if search.deny:
        out.append(Line("deny list", len(search.deny), "items that nobody reports, public"))
    if search.taking_part < 1:
        out.append(Line("participation", search.taking_part, "chance of a device in an iteration"))
    if plan.reporting < plan.devices:
        out.append(
            Line("devices counted on", plan.reporting, "at least so many report in each iteration")
        )
    out += [
        *plan.draws.lines,
        Line(
            "standard error", round(plan.standard_error, 3), "of the count of a rare item, in users"
        ),
        Line(
            "false positives",
            search.false_positives,
            "expected cells that nobody holds, at most, in parts of those that an iteration keeps",
        ),
        Line("accountant", asked.accountant if local else "exact", _accountant_text(plan)),
        Line("computed delta", four_digits_up(plan.delta_spent), "upper bound"),
    ]
    return out


def left_out(plan: PrefixNumbers) -> str:
    """A text on items that nobody can find, whoever holds them, and on items that are cut."""
    encoding, length = plan.asked.search.encoding, plan.asked.search.segments.length
    letters = encoding.alphabet
    if len(letters) > MOST_SHOWN:
        letters = f"{letters[:MOST_SHOWN]}\u2026 ({len(letters):,} in all)"
    capitals = "capitals are read as small letters; " if encoding.folds else ""
    return (
        f"items with characters other than {letters!r}; {capitals}"
        f"items of more than {length} bits are cut, and end in an ellipsis"
    )


def _selection_text(plan: PrefixNumbers) -> str:
    search = plan.asked.search
    kind = "as frequent as it is" if search.weighted else "each different one as likely"
    return f"one at random, {kind}" + (", below the prefixes" if search.conditioned else "")


def _accountant_text(plan: PrefixNumbers) -> str:
    if plan.central is not None:
        return "exact laws of bounded noise, composed by privacy loss distributions"
    if plan.asked.accountant == "aggregate":
        return "exact laws of sums of reports, composed by privacy loss distributions"
    return "amplification by shuffling for any local randomiser, Renyi composition"


INTERVALS = (
    "lower and upper hold the number of users who reported the item when it was found, with the "
    "stated confidence, given that it is shown; not the number of users who have it"
)


def discard_progress(_: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, kw_only=True)
class PrefixPlan(PrefixNumbers):
    """Everything about a prefix tree except the devices and the draw. ``say`` shows progress: it is
    called with a text on the question that devices are asked."""

    question = "prefix_tree"
    audience = "against whoever sees sums and result"
    intervals = INTERVALS

    say: Callable[[str], None] = field(default=discard_progress, repr=False, compare=False)

    @property
    def mechanism_name(self) -> str:
        return f"prefix-{self.asked.mechanism}"

    @property
    def paper(self) -> str:
        return PAPERS[self.asked.mechanism]

    @property
    def channel(self) -> Channel:
        if self.local_epsilon is not None:
            return ReportSums(self.local_epsilon)
        assert self.central is not None
        return CentralNoise(self.central)

    def run(self, devices: Population, /) -> FoundItems:
        """The only noisy step."""
        return prefix_tree.run(devices, self.channel, self.asked.search, say=self.say)

    def lines(self) -> list[Line]:
        """The card lines, all known before devices are asked."""
        return prefix_lines(self)

    @property
    def facts(self) -> dict[str, object]:
        """The request, and what follows from it and the public number of devices."""
        asked = self.asked
        others = ("counts", "deny", "devices", "mechanism", "neighbours")  # in other fields
        return {
            **{name: value for name, value in asked.request.items() if name not in others},
            "local_guarantee": local_guarantee(self),
            "devices": self.devices,
            "reporting": self.reporting,
            "reports": asked.reports,
            "local_epsilon": self.local_epsilon,
            "left_out": left_out(self),
            "denied": len(asked.search.deny),
            "height": 1,
            "levels": list(self.hierarchy.level_names),
            "threshold": None,
            "remainder": False,
            "standard_error": self.standard_error,
        }

    def frame(self, noisy: FoundItems, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """Items as nodes of one level, sorted by text, in the columns of every release."""
        import pandas as pd  # late: `import dpframe` does not load it

        order = sorted(range(len(noisy.text)), key=noisy.text.__getitem__)
        texts = pd.Series([noisy.text[i] for i in order], dtype="str")
        count = np.rint(noisy.count[order]).astype(np.int64).clip(None, self.devices)
        return pd.DataFrame(
            {
                "level": np.ones(len(order), dtype=np.int64),
                "prefix": texts,
                self.hierarchy.label_columns[0]: texts,
                "residual": count,
                "count": count,
                "lower": np.minimum(noisy.lower[order], count),
                "upper": np.maximum(noisy.upper[order], count),
            }
        )

    def finish_receipt(self, facts: Receipt, noisy: FoundItems, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, unchanged: no notice applies to these columns."""
        return facts
