"""Heavy hitters of users by rounds of weighted counts, and the unit of privacy of users with many
items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpframe.accounting.compose import Profile
from dpframe.accounting.weighted_round_noise import NORM, Law, RoundLaws, round_laws
from dpframe.asking.call_arguments import CallArguments, add_advice, column_name, optional_whole
from dpframe.asking.card import (
    Draw,
    DrawList,
    Line,
    Text,
    empty_result_notices,
    invalid_notices,
    typical_error_line,
    wide_interval_notices,
)
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import WholeUser
from dpframe.counts import NoisyNodes
from dpframe.errors import ParameterError
from dpframe.mechanisms import weighted_rounds
from dpframe.mechanisms.weighted_rounds import FoundValues
from dpframe.noise import NoiseTable, law_facts
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.sketches.user_items import UserItems

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class ItemsUnit(WholeUser):
    """A user with all their records, who counts at each of their different values."""

    at_most: int | None = None
    given: int | None = None
    """``max_contributions`` of the call; None if it was left out."""

    @property
    def request(self) -> dict[str, object]:
        return {
            "user": self.user,
            "contribution": self.contribution,
            "max_contributions": self.given,
        }

    @property
    def facts(self) -> dict[str, object]:
        own = {"max_contributions": self.max_contributions, "at_most": self.at_most}
        return {**super().facts, **own}

    @property
    def counts(self) -> str:
        few = "a number that is found privately" if self.at_most is None else str(self.at_most)
        return (
            "different users; one who has more of the released values than at_most "
            f"({few}) counts less than 1 at each"
        )

    @property
    def what_counts(self) -> str:
        return "what the numbers count: a user once at every value, so that they do not add up"


DEFAULT_ITEMS = 500
"""Values of a user that take part in the search by default: more would cost more than they find."""

MOST_ITEMS = 100_000
"""Most values of a user that a caller can ask for."""

RELEASE_SHARE = 0.2
"""Part of mu^2 for the counts; with this part, a tenth fewer values are found than with none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyValues:
    """Released values and their counts, in units of ``1 / grid`` of a user. Public."""

    count: np.ndarray
    key: pa.ChunkedArray
    grid: int
    at_most: int


@dataclass(frozen=True, kw_only=True)
class RoundsPlan(HhhPlan[RoundLaws, UserItems]):
    """Rounds of weights, whose norm is bounded, find values; then users are counted at each."""

    paper = (
        "weights in rounds: Gopi et al. (2020), DP-SIPS (2023) and MAD2R (2025), with the evidence "
        "of all rounds"
    )
    held = (
        "lower and upper hold the number of users as they are counted, with the stated "
        "confidence: they do not cover what at_most takes away, which makes counts too low"
    )

    @property
    def items(self) -> int:
        return self.laws.items

    @property
    def grid(self) -> int:
        """Units of a count that a fully counted user is worth; known before the release only if the
        caller passed ``at_most``."""
        return weighted_rounds.full_user_weight(self.laws, self.asked.at_most or 1)

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.rounds[-1].noise

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.count.noise

    @property
    def band(self) -> int:
        """Every value takes part, whatever its weight."""
        return 1

    @property
    def chance_at_threshold(self) -> float:
        """A half, as the noise in a score is symmetric."""
        return 0.5

    @cached_property
    def draws(self) -> DrawList:
        """Gaussian noise on the weights of every round, on sizes and on counts.

        The accounting covers a whole user. The game has the sigma and the end of each law, because
        the tables would be too long.
        """
        laws = self.laws
        facts = {
            "items": laws.items,
            "unit": laws.unit,
            "threshold": laws.threshold,
            "rounds": [{**_sigma_and_end(one), "part": one.part} for one in laws.rounds],
            "sizes": None if laws.sizes is None else _sigma_and_end(laws.sizes),
            "norm": laws.count.norm,
            "count": _sigma_and_end(laws.count),
        }
        count = Draw(
            law=self.count_noise,
            names=("release",),
            grid=self.grid,
            label="release noise",
            applies_to="added to every count",
        )
        return DrawList(
            kind="rounds", draws=(count,), facts=facts, delta=laws.delta, curve=self._curve
        )

    @property
    def noise(self) -> dict[str, Any]:
        sizes = self.laws.sizes
        return {
            "rounds": [law_facts(one.noise, self.laws.unit) for one in self.laws.rounds],
            "sizes": None if sizes is None else law_facts(sizes.noise, 1),
            **super().noise,
        }

    def _curve(self, epsilons: Sequence[float]) -> Profile:
        return tuple((e, weighted_rounds.cost(self.laws, epsilon=e)) for e in epsilons)

    @property
    def intervals(self) -> str:
        if self.asked.threshold is None:
            return self.held
        return (
            f"{self.held}; values whose noisy count is below the threshold are left out, so that "
            "counts just above it are too large more often"
        )

    @property
    def errors(self) -> Mapping[str, float]:
        """Half width of a count's interval, in users. Empty if ``at_most`` is found privately,
        because the width depends on ``at_most``."""
        if self.asked.at_most is None:
            return {}
        return {"count": self.half_width(1) / self.grid}

    def run(self, counted: UserItems, /) -> Any:
        released = weighted_rounds.run(counted, laws=self.laws, at_most=self.asked.at_most)
        return _values_at_threshold(released, counted.keys, self.asked.threshold)

    def frame(self, noisy: Any, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        from dpframe.asking.node_frame import tidy

        size = len(noisy.count)
        nodes = NoisyNodes(
            level=np.ones(size, dtype=np.int64),
            ancestor=np.full(size, -1),
            residual=noisy.count,
            count=noisy.count,
            terms=np.ones(size, dtype=np.int64),
            keys=(noisy.key,),
        )
        return tidy(nodes, self._with_at_most(noisy.at_most), types)

    def _with_at_most(self, at_most: int) -> RoundsPlan:
        """Return the plan as if the caller had asked for ``at_most``."""
        unit: Any = self.unit
        unit = replace(unit, at_most=at_most)
        return replace(self, asked=replace(self.asked, at_most=at_most, unit=unit))

    def remake(self, asked: HhhArguments) -> RoundsPlan:
        return plan_rounds(asked)

    def finish_receipt(self, facts: Receipt, noisy: Any, frame: pd.DataFrame, /) -> Receipt:
        known = self._with_at_most(noisy.at_most)
        said = facts.with_release_facts(
            {"at_most": noisy.at_most, "counts": known.unit.counts, "noise": known.noise},
            [
                Line("counts", known.unit.counts, known.unit.what_counts),
                *known.count_lines(),
            ],
        )
        invalid = invalid_notices(frame, self.hierarchy)
        nothing = empty_result_notices(
            frame,
            threshold=self.threshold,
            smallest=self.laws.users,
            what="users",
        )
        return said.with_notices([*nothing, *invalid, *wide_interval_notices(frame)])

    def lines(self) -> list[Line]:
        laws = self.laws
        return [
            *self.heading_lines(),
            Line(
                "threshold",
                self.threshold,
                "users, so many at least, but for noise: whose weights find a value, or who are "
                "counted at it where more was asked for",
            ),
            Line.of(
                "rounds",
                len(laws.rounds),
                (
                    "of weights of up to {items} values of a user, whose squares add up to 1; what "
                    "a value still needs decides what it gets next"
                ),
                items=laws.items,
            ),
            Line.of(
                "test noise",
                Text("sd {sd:.3g}"),
                "of the weights of all rounds, in users",
                sd=laws.score_sd,
            ),
            *(self.count_lines() if self.asked.at_most else self._unknown_lines()),
            *self.ending_lines()[1:],
        ]

    def count_lines(self) -> list[Line]:
        """The lines on ``at_most``, on the noise, and on the errors that noise makes in counts."""
        sd = self.laws.count.sigma / self.grid
        return [
            Line(
                "at_most",
                self.asked.at_most,
                "released values of a user that count fully; one with n more than that counts "
                "the root of at_most / n at each, which makes counts too low",
            ),
            *self.draws.lines,
            Line("standard error", round(sd, 3), "of a count, in users"),
            typical_error_line(
                -(-self.half_width(1) // self.grid),
                self.confidence,
                "of a count for its noise, in users",
            ),
        ]

    def _unknown_lines(self) -> list[Line]:
        """The lines on ``at_most`` and on the error of counts, before ``at_most`` is known."""
        one = self.laws.count.sigma / self.laws.count.norm
        return [
            Line(
                "at_most",
                "found privately",
                "released values of a user that count fully, by a noisy histogram of how many of "
                "them users have",
            ),
            Line.of(
                "standard error",
                Text("{sd:.3g} x root of at_most"),
                "of a count for its noise, users",
                sd=one,
            ),
        ]


def _sigma_and_end(law: Law) -> dict[str, object]:
    return {"sigma": law.sigma, "end": int(law.noise.highest)}


def _values_at_threshold(
    released: FoundValues, keys: pa.ChunkedArray, threshold: float | None
) -> NoisyValues:
    """Return the values whose noisy count reaches the threshold (post-processing)."""
    least = -np.inf if threshold is None else threshold * released.grid
    kept = released.count >= least
    return NoisyValues(
        count=released.count[kept],
        key=keys.take(released.found[kept]),
        grid=released.grid,
        at_most=released.at_most,
    )


def rounds_plan(given: CallArguments) -> RoundsPlan:
    """Check arguments, and choose the smallest noise and threshold."""
    if given["user"] is None:
        raise ParameterError(
            "mechanism='rounds' needs user=. Name the column that identifies a person, or leave "
            "mechanism out."
        )
    if given["contribution"] not in (None, "items"):
        raise ParameterError(
            f"contribution={given['contribution']!r} does not go with mechanism='rounds'. Leave "
            "contribution out, or pass mechanism='offline'."
        )
    items = optional_whole(1, MOST_ITEMS)("max_contributions", given["max_contributions"])
    user = column_name("user", given["user"])
    unit = ItemsUnit(
        user=user,
        contribution="items",
        max_contributions=items or DEFAULT_ITEMS,
        at_most=optional_whole(1, NORM**2)("at_most", given["at_most"]),
        given=items,
    )
    asked = HhhArguments(
        hierarchy=given.hierarchy,
        unit=unit,
        budget=given.budget,
        mechanism="rounds",
        threshold=optional_whole(1, 2**53)("threshold", given["threshold"]),
        remainder=False,
        release_share=given["release_share"],
        confidence=given["confidence"],
        at_most=unit.at_most,
    )
    return plan_rounds(asked)


def plan_rounds(asked: HhhArguments) -> RoundsPlan:
    """Choose the smallest noise and threshold for checked arguments."""
    with add_advice("move release_share towards the middle", given=asked.release_share is not None):
        laws = round_laws(
            epsilon=asked.budget.epsilon,
            delta=asked.budget.delta,
            release_share=asked.release_share or RELEASE_SHARE,
            items=asked.unit.max_contributions,
            sizes=asked.at_most is None,
        )
    return RoundsPlan(asked=asked, threshold=asked.at_least(laws.users), laws=laws)


def rounds_by_default(given: CallArguments) -> bool:
    """Return whether rounds answer a call that leaves the mechanism to dpframe.

    Rounds do with ``user``, unless the call asks for shares or records.
    """
    return given["user"] is not None and given["contribution"] in (None, "items")
