"""Check that the numbers of two releases are about the same thing, so that a difference is a
change.

What is compared are true numbers of nodes: both releases need one hierarchy, one counted unit and,
for a measure, the same bounds. Noise, budget, mechanism and what is shown may differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dpframe.errors import ParameterError
from dpframe.postprocess.shown_nodes import MeasureColumns, ShownNodes

COUNTED = {
    "user": "who is protected",
    "contribution": "what a user counts for",
    "max_contributions": "how many records of a user count",
    "weight": "for how much a row counts",
    "max_weight": "for how much a row or user counts at most",
}
"""Facts of a receipt that say what a number counts, and the words for them in messages."""

SHARE = re.compile(r"(?:, |(?<=\())share=[^,)]*")
"""The share of the budget in the text of a measure, which says nothing about what is measured."""


def check_comparable(before: ShownNodes, after: ShownNodes) -> None:
    """Raise ParameterError for two releases whose numbers count different things, or whose noise
    is the same."""
    one, other = before.receipt, after.receipt
    if one["release_id"] == other["release_id"]:
        raise ParameterError(
            f"before and after are the same release ({_release_label(one)}), or a replay of it. "
            "Pass "
            "releases of two periods or states of the data, drawn under two names."
        )
    for nodes, role in ((before, "before"), (after, "after")):
        if not nodes.whole:
            raise ParameterError(
                f"{role} has only some rows of a release. Pass the whole frame that dpframe "
                "returned, and choose rows of the change."
            )
    if before.is_rollup != after.is_rollup:
        raise ParameterError(
            f"before and after answer different questions ({_question_words(one)} and "
            f"{_question_words(other)}). "
            "Compare rollups with rollups, counts with counts."
        )
    _check_fact(one, other, "hierarchy", "the nodes", "Release both with one hierarchy")
    for fact, what in COUNTED.items():
        _check_fact(one, other, fact, what, "Release both with the same arguments")
    _check_fact(one, other, "counts", "what is counted", "Release both with the same arguments")
    if one.get("user") is not None and one.get("contribution") not in (None, "share"):
        counted = (
            "each release found its own values, and a user with many of them counts less at each"
            if one["mechanism"] == "rounds"
            else "each release drew a sample of its own of every user's records"
        )
        raise ParameterError(
            f"contribution is {one.get('contribution')!r}: {counted}. "
            "Release both with contribution='share', or without user."
        )
    _check_periods(one.get("period"), other.get("period"))


def check_measure(name: str, one: ShownNodes, other: ShownNodes) -> MeasureColumns:
    """Return the columns of a measure of both releases. Raise ParameterError if a release lacks it,
    if definitions differ in more than the share of the budget, or if each release counts the
    measure in a sample of its own."""
    if name not in other.measures:
        raise ParameterError(
            f"measure ({name!r}) is in one release only. Both have "
            f"{', '.join(n for n in one.measures if n in other.measures) or 'none alike'}."
        )
    columns = one.measures[name]
    if not one.is_rollup:
        return columns
    first, second = (side.receipt["measures"][name] for side in (one, other))
    was, now = (_spec_without_share(facts["spec"]) for facts in (first, second))
    if was != now:
        raise ParameterError(
            f"measure ({name!r}) is {was} before and {now} after. Release both with one definition "
            "and the same bounds."
        )
    ends = [(facts["lower"], facts["upper"]) for facts in (first, second)]
    if ends[0] != ends[1]:
        raise ParameterError(
            f"measure ({name!r}) was cut to bounds {_bounds_text(ends[0])} before and "
            f"{_bounds_text(ends[1])} after, found by 'auto'. Release both with the same "
            "numbers as "
            "bounds."
        )
    if columns.kind == "distinct" and one.receipt.get("user") is not None:
        raise ParameterError(
            f"measure ({name!r}) counts values in a sample of its own in each release. Name "
            "another measure: no interval covers how samples differ."
        )
    return columns


def _check_fact(
    one: Mapping[str, Any], other: Mapping[str, Any], fact: str, what: str, help_: str
) -> None:
    if one.get(fact) != other.get(fact):
        raise ParameterError(
            f"{fact} is {one.get(fact)!r} before and {other.get(fact)!r} after ({what}). {help_}."
        )


def _check_periods(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> None:
    """Raise ParameterError if periods are of different columns or zones, which have no order, or if
    the later period is given first."""
    if one is None or other is None:
        return
    for fact in ("column", "zone"):
        _check_fact(
            one, other, fact, "of the periods", "Release both by one column of times and zone"
        )
    starts, ends = ([side[end] or "" for side in (one, other)] for end in ("start", "end"))
    if all(starts) and starts[0] > starts[1] and ends[0] >= ends[1]:
        raise ParameterError(
            f"before is a release of {one['text']} and after one of {other['text']}. Write the "
            "earlier one first."
        )


def _spec_without_share(spec: str) -> str:
    return SHARE.sub("", spec).replace("(, ", "(").replace("()", "")


def _bounds_text(ends: tuple[object, object]) -> str:
    return " to ".join(f"{end:g}" if isinstance(end, float) else str(end) for end in ends)


def _release_label(receipt: Mapping[str, Any]) -> str:
    return repr(receipt.get("release") or receipt["release_id"])


def _question_words(receipt: Mapping[str, Any]) -> str:
    return "a rollup" if receipt["mechanism"] == "rollup" else "counts"
