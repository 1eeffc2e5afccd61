"""The way of a call that protects users and names none: rounds or shares. It sees no data."""

from __future__ import annotations

from dataclasses import replace

from dpframe.asking.call_arguments import CallArguments, known_choice
from dpframe.asking.card import Line
from dpframe.common.calls import shown_value
from dpframe.errors import BudgetError, ParameterError, ThresholdError
from dpframe.questions.hhh.checks import HhhArguments, check_hhh_arguments
from dpframe.questions.hhh.rounds_plan import RoundsPlan, rounds_plan

AUTO = "auto"
"""The contribution that leaves the way to dpframe, as does leaving the argument out."""

WAYS = (AUTO, "share", "records", "items")

CHOSEN = ("rounds", "offline", "offline-gaussian")
"""Mechanisms that "auto" goes with: it then has nothing to choose."""

ONLY_ROUNDS = ("at_most", "max_contributions")
"""Arguments that say something to rounds, and nothing to shares."""


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


def rounds_or_reason(given: CallArguments) -> RoundsPlan | str:
    """Return the plan of rounds for a call that leaves the way to dpframe, or why shares answer it.

    ParameterError if the call has an argument for rounds, and another that only shares take.
    """
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
    return why


def _reason_for_shares(given: CallArguments) -> str | None:
    """Return the argument that only shares take, in words; None if rounds take all of them."""
    if given["weight"] is not None or given["max_weight"] is not None:
        return "weights are added up"
    if given["remainder"]:
        return "remainder=True needs numbers that add up"
    if given["totals"]:
        return "totals=True counts the cells of several hierarchies"
    if given.hierarchies.has_cells:
        return "several hierarchies at once have no rounds"
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


def shares_line(why: str) -> Line:
    """Return the line of a card that says why "auto" took shares."""
    return Line.of("way", "shares", "contribution='auto' takes them here: {why}", why=why)
