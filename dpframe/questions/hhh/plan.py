"""Plan a release of heavy hitters: the table of mechanisms, the choice of a plan, cells, and advice
on other plans.

This module sees no data: it may import the mathematics, never a source (a test checks that).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpframe.accounting.losses import LevelLaws, level_laws
from dpframe.asking.call_arguments import (
    CallArguments,
    Constraint,
    check_contribution,
    choice,
    delta_amount,
    flag,
    none_or,
    optional_whole,
)
from dpframe.asking.card import (
    Draw,
    DrawList,
    Line,
    Text,
    counts_game,
    noise_line,
    wide_interval_notices,
)
from dpframe.asking.level_plan import cell_columns
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import AT_MOST, Budget, Contribution, ItemsUnit, NodesUnit, PrivacyUnit
from dpframe.common.calls import load_name, shown_value
from dpframe.counts import NoisyNodes
from dpframe.errors import BudgetError, DpframeError, ParameterError, ThresholdError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._cells import CELL_REFUSALS
from dpframe.noise import NoiseTable, law_facts
from dpframe.postprocess.joint_noise import half_width
from dpframe.questions.hhh.checks import (
    HhhArguments,
    check_declared_nodes,
    check_hhh_arguments,
    shares_line,
    without_auto,
)
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.offline import OfflinePlan
from dpframe.questions.hhh.rounds_plan import (
    DEFAULT_ITEMS,
    RoundsPlan,
    plan_rounds,
    rounds_plan,
)
from dpframe.questions.hhh.selection import choose_selection
from dpframe.sketches import DEFAULT_COUNTERS

if TYPE_CHECKING:
    import pandas as pd

TOTALS_SHARE = 0.5
"""Part of epsilon and delta for whole counts."""


@dataclass(frozen=True, kw_only=True)
class CellsPlan(OfflinePlan):
    """The offline plan for several hierarchies; the number of kinds of cells is its height.

    With ``totals`` a second part of the budget is for the whole counts of reported cells.
    """

    totals: LevelLaws | None = None

    paper = f"{OfflinePlan.paper}; cells, kind by kind, in the place of a path's nodes"

    node, one_residual = "cell", "of a reported residual"

    held = "lower and upper hold the true residual with the stated confidence, given what is shown"

    @property
    def whole_noise(self) -> NoiseTable | None:
        return None if self.totals is None else self.totals.noise

    @cached_property
    def draws(self) -> DrawList:
        """The tests and residuals of a selection, with one test for each kind of cells.

        With whole counts, a second step has one count of each kind, and the total. Epsilons and
        deltas of both steps add up, and the curve is one point.
        """
        selection = super().draws
        if self.totals is None:
            return selection
        count = Draw(law=self.totals.noise, times=self.height + 1)
        counts = counts_game([count], delta=self.totals.delta, group=1)
        parts = ((1 - TOTALS_SHARE, selection), (TOTALS_SHARE, counts))
        whole = self.budget
        steps = [
            {"epsilon": whole.epsilon * part, "delta": whole.delta * part, "game": draws}
            for part, draws in parts
        ]
        return DrawList(
            kind="steps",
            draws=selection.draws,
            facts={"steps": steps},
            delta=selection.delta + counts.delta,
        )

    @property
    def errors(self) -> dict[str, float]:
        found = {"residual": self.half_width(1) * self.unit.worth / self.grid}
        return found if self.totals is None else found | {"count": float(self.total_half_width)}

    @property
    def total_half_width(self) -> int:
        """Half width of the interval for a whole count."""
        assert self.totals is not None
        return half_width(self.totals.noise, 1, self.confidence)

    @property
    def types(self) -> dict[str, str]:
        """The columns of the result, and their DuckDB types."""
        number = "DOUBLE" if self.unit.measured else "BIGINT"
        found = cell_columns(self.hierarchy)
        found |= dict.fromkeys(("residual", "lower", "upper"), number)
        return found if self.totals is None else found | dict.fromkeys(WHOLE_COUNT_COLUMNS, number)

    @staticmethod
    def remake(asked: HhhArguments) -> CellsPlan:
        return cells_plan(asked)

    def frame(self, noisy: NoisyNodes, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        from dpframe.asking.node_frame import tidy  # loads pandas

        return tidy(noisy, self, types, self.total_half_width if self.totals else 0)

    def finish_receipt(self, facts: Receipt, noisy: NoisyNodes, frame: pd.DataFrame, /) -> Receipt:
        said, nothing = self._with_not_shown(facts, frame)
        cells = frame[frame["level"] > 0]  # the remainder is small by design: no notice on it
        wide = wide_interval_notices(cells, ("residual", "lower", "upper"))
        return said.with_notices([*nothing, *wide])

    @property
    def facts(self) -> dict[str, object]:
        facts = super().facts
        if self.totals is not None:
            facts["whole_counts"] = {
                "noise": law_facts(self.totals.noise, self.grid, self.unit.worth),
                "epsilon": self.budget.epsilon * TOTALS_SHARE,
                "delta": self.budget.delta * TOTALS_SHARE,
            }
        return facts

    def lines(self) -> list[Line]:
        lines = super().lines()
        return [*lines[:4], *self._of_totals(), *lines[4:]]  # behind the order of kinds

    def _of_totals(self) -> list[Line]:
        if self.totals is None:
            return []
        epsilon, delta = (TOTALS_SHARE * part for part in (self.budget.epsilon, self.budget.delta))
        cost = (
            "for ({epsilon:g}, {delta:g}) of the budget: a record is in at most {kinds} reported "
            "cells and the total; within +-{half_width} with confidence {confidence:g}"
        )
        return [
            noise_line(
                "whole counts",
                self.totals.noise,
                self.grid,
                cost,
                epsilon=epsilon,
                delta=delta,
                kinds=self.height,
                half_width=self.total_half_width,
                confidence=self.confidence,
            )
        ]


def cells_plan(asked: HhhArguments) -> CellsPlan:
    """Choose the noise; ParameterError with the reason for a mechanism that cannot count cells."""
    if asked.mechanism != "offline":
        named = f"mechanism={asked.mechanism!r}"
        reason = CELL_REFUSALS.get(named, CELL_REFUSALS["other mechanisms"])
        raise ParameterError(
            f"{named} takes one hierarchy, not {asked.hierarchy.spec!r}: {reason}. Use "
            "mechanism='offline', or pass one."
        )
    if not asked.totals:
        chosen = choose_selection(asked)
        return CellsPlan(asked=asked, threshold=chosen.threshold, laws=chosen.laws)
    if asked.unit.grid > 1 or asked.unit.moves > 1:
        raise ParameterError(
            "totals (True) counts single records. Leave user and weight out, pass "
            "contribution='records' and max_contributions=1, or leave totals out: with user= "
            "counts are of whole cells by default."
        )
    whole = asked.budget
    counts = level_laws(
        "gaussian",
        levels=asked.hierarchy.height + 1,
        epsilon=whole.epsilon * TOTALS_SHARE,
        delta=whole.delta * TOTALS_SHARE,
    )
    rest = Budget(
        epsilon=whole.epsilon * (1 - TOTALS_SHARE), delta=whole.delta * (1 - TOTALS_SHARE)
    )
    chosen = choose_selection(replace(asked, budget=rest))
    return CellsPlan(asked=asked, threshold=chosen.threshold, laws=chosen.laws, totals=counts)


WHOLE_COUNT_COLUMNS = ("count", "count_lower", "count_upper")
"""Columns of whole counts."""


COMPARED = ("offline", "offline-gaussian", "streaming", "rounds", "items")
"""Mechanisms whose plans get advice."""

NODE_BYTES = 120
"""Bytes that the offline mechanism takes for every distinct node, measured (docs/benchmarks.md)."""

COUNTER_BYTES = 290
"""Bytes that a counter of a sketch takes, with its key as text; measured."""


def advice(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return lines that compare error and memory of ``offline`` and ``streaming``; with ``user``,
    the lines of ``user_advice``. Empty if there is nothing to compare."""
    if plan.mechanism not in COMPARED or plan.unit.measured or plan.hierarchy.has_cells:
        return []
    if plan.unit.user is not None:
        return user_advice(plan)
    offline, streaming = _plan_as_mechanism(plan, "offline"), _plan_as_mechanism(plan, "streaming")
    if offline is None or streaming is None:
        return []
    counters = streaming.counters or 0
    megabytes = max(1, round(counters * plan.height * COUNTER_BYTES / 1e6))
    exact, sketched = offline.count_noise.sd, streaming.count_noise.sd
    return [
        Line.of(
            "offline",
            Text("nodes from {threshold} on, noise of sd {sd:.3g} a residual"),
            ("no other error; memory grows with the data, about {bytes} bytes a distinct node"),
            threshold=offline.threshold,
            sd=exact,
            bytes=NODE_BYTES,
        ),
        Line.of(
            "streaming",
            Text("nodes from {threshold} on, noise of sd {sd:.3g} a count"),
            (
                "and up to records / {counters} of sketch error; one pass in about {megabytes} "
                "MB, whatever the size of the data"
            ),
            threshold=streaming.threshold,
            sd=sketched,
            counters=counters + 1,
            megabytes=megabytes,
        ),
        Line(
            "advice",
            "offline",
            "exact counts whenever they fit in memory or on the disk that DuckDB spills to; "
            "streaming for more distinct nodes than that",
        ),
    ]


def user_advice(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return lines on what each way would find, and with which error: the finest nodes by shares,
    rounds and, in a hierarchy, items. Empty for records and sketches."""
    user, kind, height = plan.unit.user, plan.unit.contribution, plan.height
    if user is None or kind == "records" or plan.counters is not None:
        return []
    asked = replace(
        plan.asked, threshold=None, release_share=None, at_most=None, remainder=height > 1
    )
    items = max(height, DEFAULT_ITEMS)
    unit = ItemsUnit(user=user, contribution="items", max_contributions=items, height=height)
    try:
        shares = _plan_of_mechanism(
            replace(asked, unit=PrivacyUnit(user=user), mechanism="offline")
        )
        rounds = plan_rounds(replace(asked, unit=unit, mechanism="rounds", remainder=False))
    except DpframeError:
        return []
    what = rounds.value
    found = [
        Line.of(
            "by shares",
            _users_needed_text([shares.threshold * n for n in VALUES_PER_USER], what),
            "whose counts add up, noise of sd {sd:.3g}: contribution='share'",
            sd=shares.count_noise.sd / shares.grid,
        ),
        Line.of(
            "by rounds",
            _users_needed_text([rounds.users_needed(n) for n in VALUES_PER_USER], what),
            (
                "before what later rounds gain; of different users, noise of sd {sd:.3g} times "
                "the root of at_most: {ask}"
            ),
            sd=rounds.laws.count_law.sigma / rounds.norms[0],
            ask="dp.heavy_hitters with user=" if height == 1 else "mechanism='rounds'",
        ),
    ]
    several, where = "many values", " where most users have one value"
    if height > 1:
        several, where = (
            "several nodes",
            ", with nodes_per_user=1, where users have one finest node",
        )
        found += _items_advice(plan, user)
    other = f"shares where all numbers shall add up, or{where}"
    return [*found, Line("advice", f"rounds where users have {several}", other)]


def _items_advice(plan: HhhPlan[Any, Any], user: str) -> list[Line]:
    """Return the line on what different users at nodes would find; empty if no noise fits."""
    unit = NodesUnit(user=user, contribution="items", at_most=AT_MOST)
    try:
        items = make_plan(
            hierarchy=plan.hierarchy,
            unit=unit,
            budget=plan.budget,
            remainder=False,
            confidence=plan.confidence,
        )
    except DpframeError:
        return []
    sampled = [items.threshold * max(1, n / AT_MOST) for n in VALUES_PER_USER]
    return [
        Line.of(
            "by items",
            _users_needed_text(sampled, "node"),
            "of different users at {most} nodes of a level at most, noise of sd {sd:.3g}: "
            "contribution='items'",
            most=AT_MOST,
            sd=items.count_noise.sd / items.grid,
        )
    ]


VALUES_PER_USER = (1, 10, 100)
"""Numbers of values per user, for the examples in the lines."""


def _users_needed_text(users: Sequence[float], what: str) -> str:
    some, each = ", ".join(str(math.ceil(n)) for n in users), map(str, VALUES_PER_USER)
    many = "values" if what == "value" else "finest nodes"
    return f"{some} users find a {what}, if each has {', '.join(each)} {many}"


def _plan_as_mechanism(plan: HhhPlan[Any, Any], mechanism: str) -> HhhPlan[Any, Any] | None:
    """Return ``plan`` if it is of this mechanism, else the plan of ``mechanism`` at its smallest
    threshold; None if the mechanism refuses the arguments."""
    if plan.mechanism == mechanism:
        return plan
    try:
        return make_plan(
            hierarchy=plan.hierarchy,
            unit=plan.unit,
            budget=plan.budget,
            mechanism=mechanism,
            remainder=mechanism == "offline",
            confidence=plan.confidence,
            counters=DEFAULT_COUNTERS if mechanism == "streaming" else None,
        )
    except DpframeError:
        return None


MECHANISMS: Mapping[str, tuple[str, str]] = {
    "offline": ("dpframe.questions.hhh.offline", "offline_plan"),
    "offline-gaussian": ("dpframe.questions.hhh.offline", "normal_plan"),
    "streaming": ("dpframe.questions.hhh.sketch_plans", "streaming_plan"),
    "laplace": ("dpframe.questions.hhh.offline", "histogram_baseline_plan"),
    "gaussian": ("dpframe.questions.hhh.offline", "histogram_baseline_plan"),
    "rounds": ("dpframe.questions.hhh.rounds_plan", "plan_rounds"),
    "paper": ("dpframe.questions.hhh.mechanism_plan", "printed_plan"),
}
"""For each mechanism: its module, loaded when it is first used, and the function that plans."""

GOES_WITH: Mapping[str, tuple[tuple[str, ...], str]] = {
    "release_share": (
        ("offline", "offline-gaussian", "rounds"),
        "divides epsilon between two draws",
    ),
    "counters": (("streaming",), "is the size of a sketch"),
    "acknowledge": (("paper",), "lets the algorithm run as it is printed"),
    "remainder": (
        ("offline", "offline-gaussian", "laplace", "gaussian"),
        "releases what no reported node covers",
    ),
}
"""For each argument that only some mechanisms take: these mechanisms, and the argument's effect."""

CONTRIBUTIONS: Mapping[str, tuple[Contribution, ...]] = {
    "offline": ("share", "items"),
    "offline-gaussian": ("share",),
    "streaming": ("items",),
}
"""The ways in which each mechanism can count a user, besides "records". Shares need counts on a
grid; items need the set of each user's values."""

MEASURES = "offline", "offline-gaussian"
"""Mechanisms that add up a weight."""


CONSTRAINTS: Mapping[str, Constraint] = {
    "mechanism": none_or(choice(tuple(MECHANISMS))),
    "nodes_per_user": optional_whole(1, 2**53),
    "remainder": none_or(flag),
    "delta": delta_amount,
}


def hhh_plan(given: CallArguments) -> HhhPlan[Any, Any]:
    """Make a plan from arguments that ``CONSTRAINTS`` checked."""
    given = without_auto(given)
    check_declared_nodes(given)
    if given["mechanism"] is None:
        if given["user"] is not None and given["contribution"] is None:
            return _usual_plan(given)
        given = given.but(mechanism="offline")
    mechanism = given["mechanism"]
    if mechanism == "rounds":
        given.but(remainder=given["remainder"] or None).goes(GOES_WITH, mechanism)
        return rounds_plan(given)
    own = (
        given.but(remainder=None) if mechanism == "paper" else given
    )  # the plan of "paper" refuses a remainder itself
    own.goes(GOES_WITH, mechanism)
    return _plan_of_mechanism(check_hhh_arguments(given, mechanism))


def _usual_plan(given: CallArguments) -> HhhPlan[Any, Any]:
    """Return the plan for a call of users that names no way: by rounds, or by shares with the
    reason on the card.

    ParameterError if the call has an argument for rounds, and another that only shares take.
    """
    given.but(remainder=None).goes(GOES_WITH, "offline")  # a sketch or a paper has to be named
    why = _reason_for_shares(given)
    if why is None:
        given.budget  # noqa: B018  # refuses a missing epsilon or delta
        try:
            plan = rounds_plan(given)
        except ThresholdError:
            why = f"threshold={given['threshold']!r} is too small for rounds"
        except BudgetError:
            why = "no noise of rounds fits this epsilon and delta"
        else:
            why = _few_nodes(given, plan)
            if why is None:
                return replace(plan, former=_former_arguments(given), way=ROUNDS_LINE)
    for name in ONLY_ROUNDS:
        if given[name] is not None:
            raise ParameterError(
                f"{name} ({shown_value(given[name])}) is for rounds, and does not go with "
                f"contribution='auto', which takes shares here: {why}. Leave {name} out."
            )
    exact = given.but(mechanism="offline", nodes_per_user=None)
    return replace(hhh_plan(exact), way=shares_line(why))


ONLY_ROUNDS = ("at_most", "max_contributions")
"""Arguments that say something to rounds, and nothing to shares."""


def _reason_for_shares(given: CallArguments) -> str | None:
    """Return the argument that only shares take, in words; None if rounds take all of them."""
    if given["weight"] is not None or given["max_weight"] is not None:
        return "weights are added up"
    if given["remainder"]:
        return "remainder=True needs numbers that add up"
    if given["totals"]:
        return "totals=True counts the cells of several hierarchies"
    return None


def _few_nodes(given: CallArguments, plan: RoundsPlan) -> str | None:
    """Return why shares show more, if the call declares one node a user; else None.

    With two nodes and more, rounds show more at every epsilon that was measured
    (docs/decisions/0055-rounds-by-default.md).
    """
    if given["nodes_per_user"] != 1 or not plan.shares_show_more_of_one():
        return None
    return "they are predicted to show more with nodes_per_user=1"


def _former_arguments(given: CallArguments) -> HhhArguments | None:
    """Return what earlier versions, which took shares, made of the same call; None if they refused
    it."""
    if any(given[name] is not None for name in ONLY_ROUNDS):
        return None
    return check_hhh_arguments(given.but(contribution="share"), "offline")


ROUNDS_LINE = Line(
    "way",
    "rounds",
    "contribution='auto' takes them, as they show most nodes where users have several; "
    "contribution='share' has numbers that add up",
)


def plan_by_shares(plan: HhhPlan[Any, Any], why: str) -> HhhPlan[Any, Any]:
    """Return the plan of shares, for the reason ``why``, in the place of rounds that were taken for
    a call that named no way; any other plan as it is."""
    if plan.former is None:
        return plan
    return replace(_plan_of_mechanism(plan.former), way=shares_line(why))


def former_request(plan: Any) -> Mapping[str, object] | None:
    """Return the request of the same call in versions that did not answer it by rounds; None if
    there is no such request."""
    former: HhhArguments | None = plan.former
    return None if former is None else former.request


def make_plan(
    *,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    budget: Budget,
    mechanism: str = "offline",
    **options: Any,
) -> HhhPlan[Any, Any]:
    """Choose the noise for one release of heavy hitters; ``options`` are the rest of
    ``HhhArguments``.

    Pure: no data, no randomness.
    """
    return _plan_of_mechanism(
        HhhArguments(hierarchy=hierarchy, unit=unit, budget=budget, mechanism=mechanism, **options)
    )


def _plan_of_mechanism(asked: HhhArguments) -> HhhPlan[Any, Any]:
    check_contribution(asked.unit, asked.mechanism, CONTRIBUTIONS)
    if asked.unit.nodes is not None:
        if asked.hierarchy.has_cells:
            raise ParameterError(
                "contribution='items' takes one hierarchy. Pass one, or leave contribution out."
            )
        from dpframe.questions.hhh.mechanism_plan import nodes_plan

        return nodes_plan(asked, asked.unit.nodes)
    if asked.unit.measured and asked.mechanism not in MEASURES:
        raise ParameterError(
            f"mechanism={asked.mechanism!r} adds up no weight ({asked.unit.weight!r}). Use "
            "mechanism='offline', or leave weight and max_weight out."
        )
    if asked.hierarchy.has_cells and asked.mechanism != "rounds":
        return cells_plan(asked)
    if asked.totals:
        raise ParameterError("totals (True) needs several hierarchies at once. Leave it out.")
    plan: HhhPlan[Any, Any] = load_name(*MECHANISMS[asked.mechanism])(asked)
    return plan
