"""The arguments that count different users at nodes: ``contribution="items"`` and ``at_most``."""

from __future__ import annotations

from dpframe.accounting.node_user_laws import NodeLaws
from dpframe.asking.call_arguments import CallArguments, column_name, optional_whole, whole_number
from dpframe.asking.card import Line
from dpframe.errors import ParameterError
from dpframe.nodes_unit import AT_MOST, MOST, NodesUnit


def nodes_unit_from(given: CallArguments, *, exact: bool) -> NodesUnit | None:
    """Return the unit of privacy where different users are counted at nodes; None elsewhere.

    ``exact`` says whether the mechanism counts users exactly at every node. Other mechanisms keep
    a set of values of each user, or refuse items.
    """
    by_items = given["contribution"] == "items" and given["user"] is not None
    if not (by_items and exact):
        if given.get("at_most") is not None:
            whole_number("at_most", given["at_most"], 1, 2**53)
            raise ParameterError(
                f"at_most ({given['at_most']!r}) needs user=, contribution='items' and a mechanism "
                "with exact counts. Leave it out."
            )
        return None
    for name in ("max_contributions", "weight", "max_weight"):
        if given.get(name) is not None:
            raise ParameterError(
                f"{name} ({given[name]!r}) does not go with contribution='items'. "
                + ("Pass at_most= instead." if name == "max_contributions" else "Leave it out.")
            )
    return NodesUnit(
        user=column_name("user", given["user"]),
        contribution="items",
        at_most=optional_whole(1, MOST)("at_most", given["at_most"]) or AT_MOST,
    )


def with_contribution_bound(given: CallArguments) -> CallArguments:
    """Return ``given`` with a bound on contributions, so that a mechanism without items refuses the
    items and not the missing bound."""
    return given.but(max_contributions=given["max_contributions"] or 1)


def moved_count_lines(paid: NodeLaws, at_most: int | None) -> list[Line]:
    """Return the lines on how many nodes one user counts at, and how many counts they move."""
    return [
        Line(
            "at_most",
            at_most,
            "nodes of a level that a user counts at; one with n more than that counts at each of "
            "theirs with chance at_most / n, which makes counts too low",
        ),
        Line("moved", sum(paid.times), "counts that one user moves by 1, at most, in all"),
    ]
