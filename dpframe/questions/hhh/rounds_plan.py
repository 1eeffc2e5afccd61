"""Heavy hitters of users by rounds of weighted counts, of one level, several, or cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.compose import Profile
from dpframe.accounting.weighted_round_noise import NORM, Law, RoundLaws, round_laws
from dpframe.asking.call_arguments import CallArguments, add_advice, column_name, optional_whole
from dpframe.asking.card import (
    Draw,
    DrawList,
    Line,
    Text,
    address_notices,
    invalid_notices,
    wide_interval_notices,
)
from dpframe.asking.level_plan import cell_columns
from dpframe.asking.privacy_receipt import Receipt, Sight
from dpframe.budget import ItemsUnit, PrivacyUnit
from dpframe.counts import NodeSet, NoisyNodes
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms import weighted_rounds
from dpframe.mechanisms.weighted_rounds import FoundNodes, LevelParts, WeightSource
from dpframe.noise import NoiseTable, law_facts
from dpframe.questions.hhh.checks import HhhArguments
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.selection import choose_selection

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_ITEMS = 500
"""Values of a user that take part in the search by default: more would cost more than they find."""

MOST_ITEMS = 100_000
"""Most values of a user that a caller can ask for."""

MANY_NODES = 10
"""Nodes of a user in an example, where ``at_most`` is not known."""

LARGEST_AT_MOST = {1: NORM**2, 2: 2000, 3: 700}
"""The largest ``at_most`` with which a user still weighs something at each shown node, by how many
parts are counted apart; 3 stands for more."""

RELEASE_SHARE = 0.2
"""Part of mu^2 for the counts; with this part, a tenth fewer values are found than with none."""


LEVEL_SHARE, ABOVE_SHARE, WHOLE_SHARE = 50, 150, 1000
"""Thousandths of the square of a user's norm, when nodes are searched: for each level above the
finest nodes of a user, and most for all of them together."""

BANDS = 8
"""Bands of levels above the finest nodes, at most: each has a share of its own."""


def group_shares(height: int, finest: int = 1) -> tuple[int, ...]:
    """Return how the square of a user's norm is divided: over the finest nodes of the user, and
    over the nodes of each band of levels above them. ``finest`` levels have no level below them."""
    bands = min(height - finest, BANDS)
    each = min(LEVEL_SHARE, ABOVE_SHARE // max(1, bands))
    none_above = [0] if not bands and height > 1 else []  # the root is counted all the same
    return WHOLE_SHARE - each * bands, *[each] * bands, *none_above


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundUsers(NoisyNodes):
    """Released nodes and their counts, with the ``at_most`` that the release found. Public.

    ``apart`` says whether the counts look as if no user had two of the finest nodes.
    """

    at_most: tuple[int, ...]
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class RoundsPlan(HhhPlan[RoundLaws, WeightSource]):
    """Rounds of weights, whose norm is bounded, find nodes; then users are counted at each."""

    found: tuple[int, ...] = ()
    """What a release found for ``at_most``."""

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
    def parts(self) -> int:
        """How many parts of the shown nodes are counted apart: the lowest nodes, and of several
        levels those above them; of cells the total and bands of kinds above them."""
        return len(self.norms)

    @property
    def at_most(self) -> tuple[int, ...]:
        """For each part how many nodes of a user count fully; 1 before a release finds it."""
        return self.found or (self.asked.at_most or 1,) * self.parts

    @property
    def norms(self) -> tuple[int, ...]:
        """For each part the norm of a user in its counts."""
        if self.by_level is not None:
            return self.by_level.norms(self.laws.count_law)
        return weighted_rounds.part_norms(self.laws.count_law, parts=min(2, self.height))

    @property
    def by_level(self) -> LevelParts | None:
        """The parts of shown nodes, where levels are counted apart: a user has few cells of one
        kind, and many of another."""
        return level_parts(self.hierarchy) if count_parts(self.hierarchy) > 2 else None

    @property
    def grids(self) -> tuple[int, ...]:
        """For each part the units of a count that a fully counted user is worth."""
        return weighted_rounds.full_user_weights(self.norms, self.at_most)

    @property
    def shares(self) -> tuple[int, ...]:
        """How the square of a user's norm is divided when nodes are searched."""
        return group_shares(self.height, len(self.hierarchy.finest_levels))

    def users_needed(self, nodes: int) -> float:
        """How many users find a finest node, before what later rounds gain, if each has so many."""
        part = self.shares[0] / WHOLE_SHARE
        return self.laws.threshold / self.laws.weights * math.sqrt(nodes / part)

    def shares_show_more_of_one(self) -> bool:
        """Whether shares are predicted to find more where each user has one finest node."""
        return users_by_shares(self.asked) < self.users_needed(1)

    @property
    def test_noise(self) -> NoiseTable:
        return self.laws.rounds[-1].noise

    @property
    def count_noise(self) -> NoiseTable:
        return self.laws.count_law.noise

    @property
    def band(self) -> int:
        """Every value takes part, whatever its weight."""
        return 1

    @property
    def chance_at_threshold(self) -> float:
        """A half, as the noise in a score is symmetric."""
        return 0.5

    @property
    def certainly_reported(self) -> float:
        """How many users show a node of theirs alone with a chance of 95 %: no number is sure."""
        return self._likely_users(1)

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
            "rounds": [{**sigma_and_end(one), "part": one.part} for one in laws.rounds],
            "sizes": None if laws.sizes is None else sigma_and_end(laws.sizes),
            "norm": laws.count_law.norm,
            "count": sigma_and_end(laws.count_law),
        }
        count = Draw(
            law=self.count_noise,
            names=("release",),
            grid=self.grids[0],
            label="release noise",
            applies_to=f"added to {'every count' if self.parts == 1 else 'counts of lowest nodes'}",
        )
        if self.parts > 1:
            facts["norms"] = list(self.norms)
        if self.by_level is not None:
            facts["height"] = self.height
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
            **({"above": self._above_facts} if self.parts > 1 else {}),
        }

    @property
    def _above_facts(self) -> dict[str, Any] | list[dict[str, Any]]:
        """The noise above the lowest nodes: a law, or one with its levels for each part."""
        laws = [law_facts(self.count_noise, grid) for grid in self.grids[1:]]
        if self.by_level is None:
            return laws[0]
        pairs = zip(self.by_level.levels_above, laws, strict=True)
        return [{"levels": levels, "law": law} for levels, law in pairs]

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

    adds_up = False

    unknown_errors = "at_most=, or contribution='share'"
    """What makes errors known before data are read, for messages."""

    @property
    def errors(self) -> Mapping[str, float]:
        """Half width of the interval of a lowest node, in users. Empty if ``at_most`` is found
        privately, because the width depends on ``at_most``."""
        if self.asked.at_most is None:
            return {}
        return {"count": self.half_width(1) / self.grids[0]}

    def run(self, counted: WeightSource, /) -> FoundUsers:
        released = weighted_rounds.run(
            counted, laws=self.laws, at_most=self.asked.at_most, by_level=self.by_level
        )
        kept = self._reach_threshold(released, counted.nodes)
        place, drawn, full = released.shown[kept], released.count[kept], released.weight[kept]
        count, half = (2 * drawn + full) // (2 * full), self.half_width(1)  # halves up
        chosen = np.zeros(len(counted.nodes.level), dtype=np.bool_)
        chosen[place] = True
        nodes = counted.nodes.chosen_nodes(chosen)
        return FoundUsers(
            level=nodes.level,
            ancestor=np.full(len(place), -1),
            residual=count,
            count=count,
            terms=np.ones(len(place), dtype=np.int64),
            keys=nodes.keys,
            bounds=((drawn - half) // full, -((-drawn - half) // full)),
            at_most=released.at_most,
            apart=self.asked.at_most is None
            and released.at_most[0] == 1
            and self.parts == 2
            and _looks_apart(nodes.ancestor, count, -(-half // full)),
        )

    def _reach_threshold(self, released: FoundNodes, nodes: NodeSet) -> NDArray[np.bool_]:
        """Which nodes to show: those whose noisy count reaches the threshold of the call, and all
        above them (post-processing)."""
        if self.asked.threshold is None:
            return np.ones(len(released.shown), dtype=np.bool_)
        kept = np.zeros(len(nodes.level), dtype=np.bool_)
        kept[released.shown] = released.count >= self.asked.threshold * released.weight
        if self.parts > 1:
            kept |= nodes.nodes_above(kept)
            kept[0] = True
        return kept[released.shown]

    @property
    def types(self) -> dict[str, str]:
        """The columns of cells in a result, and their DuckDB types."""
        numbers = ("residual", "count", "lower", "upper")
        return cell_columns(self.hierarchy) | dict.fromkeys(numbers, "BIGINT")

    def frame(self, noisy: Any, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        from dpframe.asking.node_frame import tidy

        return tidy(noisy, self._with_at_most(noisy.at_most), types)

    def _with_at_most(self, at_most: tuple[int, ...]) -> RoundsPlan:
        """Return the plan with what a release found for ``at_most``."""
        unit: Any = self.unit
        unit = replace(unit, at_most=at_most[0], above=above_of(at_most))
        asked = replace(self.asked, at_most=at_most[0], unit=unit)
        return replace(self, asked=asked, found=at_most)

    @staticmethod
    def remake(asked: HhhArguments) -> RoundsPlan:
        return plan_rounds(asked)

    def finish_receipt(self, facts: Receipt, noisy: Any, frame: pd.DataFrame, /) -> Receipt:
        known = self._with_at_most(noisy.at_most)
        found = {n: fact for n, fact in known.unit.facts.items() if n.startswith("at_most")}
        said = facts.with_release_facts(
            {**found, "counts": known.unit.counts, "noise": known.noise},
            [
                Line("counts", known.unit.counts, known.unit.what_counts),
                *known.count_lines(),
            ],
        )
        cells = self.hierarchy.has_cells
        invalid = [] if cells else invalid_notices(frame, self.hierarchy)
        said, nothing = self._with_not_shown(said, frame)
        apart = [ONE_NODE_NOTICE] if noisy.apart and self.shares_show_more_of_one() else []
        told = [*apart, *wide_interval_notices(frame), *address_notices(frame, self.hierarchy)]
        return said.with_notices([*(invalid or nothing), *told])

    @property
    def sight(self) -> Sight:
        """No number is certain: what a user gives to a node depends on their other nodes, and from
        the second round on on what noise made of the rounds before."""
        many = sorted({1, self.asked.at_most or MANY_NODES})
        return replace(
            super().sight,
            certain=None,
            likely={n: self._likely_users(n) for n in many if n <= self.items},
            node=self.value,
            is_own=False,
            is_divided=False,
        )

    def _likely_users(self, nodes: int) -> int:
        """How many users show a lowest node with a chance of 95 %, if each has so many of them: an
        estimate for more than one, as if all rounds weighed these alike."""
        part = self.shares[0] / WHOLE_SHARE
        users = weighted_rounds.likely_weight(self.laws) * math.sqrt(nodes / part)
        if self.asked.threshold is not None:
            users = max(
                users,
                self.threshold + weighted_rounds.LIKELY * self.laws.count_law.sigma / self.grids[0],
            )
        return math.ceil(users)

    def lines(self) -> list[Line]:
        laws, what = self.laws, self.value
        return [
            *self.heading_lines(),
            Line.of(
                "threshold",
                self.threshold,
                "users that a {value} needs to be found and shown, up to noise",
                value=what,
            ),
            Line.of(
                "rounds",
                len(laws.rounds),
                (
                    "in each, a user weighs up to {items} {value}s; weights go where they are "
                    "still needed, and their squares add up to 1"
                ),
                items=laws.items,
                value=what,
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

    @property
    def value(self) -> str:
        """A word for what is found: a value of a column, a node of a hierarchy, or a cell."""
        if self.hierarchy.has_cells:
            return "cell"
        return "value" if self.height == 1 else "node"

    @property
    def places(self) -> list[str]:
        """What the parts of shown nodes are called on cards."""
        if self.by_level is not None:
            return part_places(self.by_level.levels_above)
        return ["lowest nodes", "nodes above"][: self.parts]

    def count_lines(self) -> list[Line]:
        """The lines on ``at_most``, on the noise, and on the errors that noise makes in counts."""
        sds = [round(self.laws.count_law.sigma / grid, 3) for grid in self.grids]
        halves = [f"+-{-(-self.half_width(1) // grid)}" for grid in self.grids]
        fully = f"so many shown {self.value}s of a user count fully; a user with n, which is more, "
        fully += "counts the root of at_most / n at each, which makes counts too low"
        sure = f"with confidence {self.confidence:g}, of a count for its noise, in users"
        return [
            Line("at_most", values_at_places(self.at_most, self.places), fully),
            *self.draws.lines,
            Line("standard error", values_at_places(sds, self.places), "of a count, in users"),
            Line("typical error", values_at_places(halves, self.places), sure),
        ]

    def _unknown_lines(self) -> list[Line]:
        """The lines on ``at_most`` and on the error of counts, before ``at_most`` is known."""
        sds = [f"{self.laws.count_law.sigma / norm:.3g}" for norm in self.norms]
        error = f"{values_at_places(sds, self.places)} x root of at_most"
        fully = f"so many shown {self.value}s of a user count fully; by a noisy histogram of how "
        return [
            Line("at_most", "found privately", f"{fully}many of them users have"),
            Line("standard error", error, "of a count for its noise, in users"),
        ]


ONE_NODE_NOTICE = Line(
    "notice",
    "users seem to have one finest node each",
    "the numbers of shown nodes add up to no more than the node above them: if that is so, "
    "nodes_per_user=1, or contribution='share' without a mechanism, shows more, in numbers that "
    "add up; if every row has a user of its own, it is records that are protected, as without "
    "user=",
)
"""The notice on a release whose counts look as if shares would show more."""


def part_places(above: Sequence[Sequence[int]]) -> list[str]:
    """Return what parts of shown nodes are called on cards: the lowest nodes, then ``above`` parts,
    by their levels."""
    places = ["lowest nodes"]
    for first, *others in above:
        places.append(f"levels {first} to {others[-1]}" if others else f"level {first}")
    return places


def values_at_places(values: Sequence[object], places: Sequence[str]) -> object:
    """Return one text of values and of where they are; a value that is the same everywhere once."""
    if len(set(values)) == 1:
        return values[0]
    return ", ".join(f"{value} at {at}" for value, at in zip(values, places, strict=True))


def _looks_apart(
    above: NDArray[np.int64], count: NDArray[np.int64], half: NDArray[np.int64]
) -> bool:
    """Return whether shown children nowhere have more users together than their parent, but for
    noise (post-processing). ``above`` are the rows of parents.

    Children of the root say so only if they have half of all users, and if noise could not hide
    that they had half as many again.
    """
    below: dict[int, list[int]] = {}
    for i, over in enumerate(above.tolist()):
        if over >= 0:
            below.setdefault(over, []).append(i)
    together = {over: sum(int(count[i]) for i in each) for over, each in below.items()}
    slack = {
        over: math.hypot(int(half[over]), *(int(half[i]) for i in each))
        for over, each in below.items()
    }
    if len(below.get(0, [])) < 2 or not max(slack[0], int(count[0]) - together[0]) <= count[0] / 2:
        return False
    return all(together[over] - int(count[over]) <= slack[over] for over in below)


def sigma_and_end(law: Law) -> dict[str, object]:
    return {"sigma": law.sigma, "end": int(law.noise.highest)}


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
    for name in ("weight", "max_weight", "totals"):
        if (value := given.get(name)) not in (None, False):
            raise ParameterError(
                f"{name} ({value!r}) does not go with mechanism='rounds'. Leave it out."
            )
    hierarchy = given.hierarchies
    height = hierarchy.height
    items = optional_whole(height, MOST_ITEMS)("max_contributions", given["max_contributions"])
    largest = LARGEST_AT_MOST[min(3, count_parts(hierarchy))]
    most = optional_whole(1, largest)("at_most", given["at_most"])
    unit = ItemsUnit(
        user=column_name("user", given["user"]),
        contribution="items",
        max_contributions=items or max(height, DEFAULT_ITEMS),
        at_most=most,
        above=None if most is None else above_of([most] * count_parts(hierarchy)),
        given=items,
        height=height,
    )
    asked = HhhArguments(
        hierarchy=hierarchy,
        unit=unit,
        budget=given.budget,
        mechanism="rounds",
        threshold=optional_whole(1, 2**53)("threshold", given["threshold"]),
        remainder=False,
        release_share=given.get("release_share"),
        confidence=given["confidence"],
        at_most=unit.at_most,
    )
    return plan_rounds(asked)


def users_by_shares(asked: HhhArguments) -> float:
    """Return how many users a finest node needs by shares, if each has no other."""
    unit, several = PrivacyUnit(user=asked.unit.user), asked.hierarchy.height > 1
    shares = replace(asked, unit=unit, mechanism="offline", threshold=None, remainder=several)
    return choose_selection(shares).threshold


def plan_rounds(asked: HhhArguments) -> RoundsPlan:
    """Choose the smallest noise and threshold for checked arguments."""
    with add_advice("move release_share towards the middle", given=asked.release_share is not None):
        laws = round_laws(
            epsilon=asked.budget.epsilon,
            delta=asked.budget.delta,
            release_share=asked.release_share or RELEASE_SHARE,
            items=asked.unit.max_contributions,
            histograms=0 if asked.at_most is not None else count_parts(asked.hierarchy),
        )
    return RoundsPlan(asked=asked, threshold=asked.at_least(laws.users), laws=laws)


def count_parts(hierarchy: Hierarchy) -> int:
    """Return in how many parts shown nodes are counted apart, each with a histogram."""
    if hierarchy.has_cells and hierarchy.height > 1:
        return 1 + len(level_parts(hierarchy).levels_above)
    return min(2, hierarchy.height)


def level_parts(hierarchy: Hierarchy) -> LevelParts:
    """Return the parts of shown nodes or cells, where levels are measured apart."""
    height = hierarchy.height
    if hierarchy.has_cells:
        return weighted_rounds.cell_parts(height)
    return weighted_rounds.node_parts(height)


def above_of(at_most: Sequence[int]) -> int | tuple[int, ...] | None:
    """Return what a receipt says of ``at_most`` above the lowest nodes: nothing, one number, or one
    for each part where levels are counted apart."""
    _, *above = at_most
    return tuple(above) if len(above) > 1 else above[0] if above else None


def rounds_by_default(given: CallArguments) -> bool:
    """Return whether rounds answer a call that leaves the mechanism to dpframe.

    Rounds do with ``user``, unless the call asks for shares or records.
    """
    return given["user"] is not None and given["contribution"] in (None, "items")
