"""Changes between two releases.

**Changes** are of nodes of both releases, with intervals by the joint law of both noises.

Numbers of a node are counts (or sums) of all records under it, the same set of records whatever
else a release reports: residuals, which depend on that, are not compared. A node that one release
does not report has bounds there (:mod:`.change_sides`), never 0.

How intervals are made, ``how``:

* "joint": the laws of all numbers are known. N_a - N_b misses the true difference by X - Y, whose
  law is the convolution of both (:mod:`.joint_noise`).
* "widened": for means and what is counted in bins, intervals of each release are known for any
  confidence, but not the law of the difference. Ends are made as for "as shown", from intervals
  for the confidence that each release needs, so that both hold together.
* "as shown": no law is known. The ends of both intervals as released, [a, b] and [c, d], give
  [a - d, b - c]; noises are independent, so that both hold with the product of their confidences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.common.calls import shown_value
from dpframe.common.digest import CHANGE, seal_frame
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import OTHER
from dpframe.postprocess.change_sides import (
    Place,
    Side,
    joint_variances,
    node_place,
    shared_noise,
    side_of,
)
from dpframe.postprocess.joint_noise import PlanAgain
from dpframe.postprocess.selection_intervals import ChangeEnds, joint_ends, shown_ends
from dpframe.postprocess.shown_nodes import (
    MeasureColumns,
    ShownNodes,
    checked_confidence,
    shown_nodes,
)

if TYPE_CHECKING:
    import pandas as pd

# What is compared are true numbers of nodes: both releases need one hierarchy, one counted unit
# and, for a measure, the same bounds. Noise, budget, mechanism and what is shown may differ.


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
    if not total_limits(one) and (counted := _sample_words(one)):
        raise ParameterError(
            f"contribution is {one.get('contribution')!r}: {counted}. Compare totals of rollups, "
            "or release by shares (contribution='share' and no mechanism), or without user."
        )
    if not _sample_words(one):
        _check_fact(one, other, "counts", "what is counted", "Release both with the same arguments")
    _check_periods(one.get("period"), other.get("period"))


def _sample_words(receipt: Mapping[str, Any]) -> str:
    """Why what a user counts at a node depends on the release; empty if it does not."""
    if receipt.get("user") is None or receipt.get("contribution") in (None, "share"):
        return ""
    if receipt["mechanism"] in ("rounds", "rollup"):
        return "each release found its own nodes, and a user with many of them counts less at each"
    return "each release drew a sample of its own of every user's records"


def total_limits(receipt: Mapping[str, Any]) -> str:
    """Return why only totals are compared; an empty text if all nodes are, or nothing is.

    A user has one total. So in a rollup by rounds, whose total has bounds of its own, what a user
    counts there does not depend on the nodes that are found.
    """
    words = _sample_words(receipt) if receipt["mechanism"] == "rollup" else ""
    remedy = "Nodes are compared of releases by shares, contribution='share'"
    return f"only the total is compared: {words}. {remedy}" if words else ""


def _check_bounds_of_totals(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise ParameterError for a measure whose totals are not counted by the same rule."""
    if one.get("adds_up") is not False and "distinct" not in str(one["spec"]):
        raise ParameterError(
            f"measure ({name!r}) cannot be compared, as each release finds its own nodes. "
            "Name a count or a sum."
        )
    bounds = [[part.get("bound") for part in facts.get("noise") or ()] for facts in (one, other)]
    if bounds[0] != bounds[1]:
        raise ParameterError(
            f"measure ({name!r}) was cut to {bounds[0]} before and {bounds[1]} after. Release both "
            "with the same numbers as bounds."
        )


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
    first, second = (side.receipt["measures"][columns.measure] for side in (one, other))
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
    if total_limits(one.receipt):
        _check_bounds_of_totals(name, first, second)
    of_users = total_limits(one.receipt) and was.startswith(f"distinct({one.receipt['user']}, ")
    if columns.kind == "distinct" and one.receipt.get("user") is not None and not of_users:
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


# -------------------------------------------------------------------------------------------------
# What changed between two releases: nodes of both, with intervals by the joint law of both
# noises.


NUMBERS = (
    *("before", "before_lower", "before_upper", "after", "after_lower", "after_upper"),
    *("change", "change_lower", "change_upper", "ratio", "ratio_lower", "ratio_upper"),
    "more_than_noise",
)
"""Columns of a change, after the columns of the node."""

ReleaseGiven = tuple["pd.DataFrame", Mapping[str, Any]]
"""A release: its frame and its receipt."""


def change_frame(
    before: ReleaseGiven,
    after: ReleaseGiven,
    *,
    measure: object = None,
    confidence: object = None,
    simultaneous: object = True,
    plan_again: PlanAgain | None = None,
) -> pd.DataFrame:
    """``dp.change``; see :func:`dpframe.doors.result_methods.change`.

    ``plan_again`` finds laws of tests that receipts of earlier versions do not hold.
    """
    if not isinstance(simultaneous, bool):
        raise ParameterTypeError(
            f"simultaneous must be True or False; got {shown_value(simultaneous)}."
        )
    first, second = (shown_nodes(frame, receipt, "change") for frame, receipt in (before, after))
    check_comparable(first, second)
    name, _ = first.measure(measure)
    columns = check_measure(name, first, second)
    wanted = _change_confidence(confidence, first, second)
    rows = _change_rows(first, second)
    limits = total_limits(first.receipt)
    if limits:
        rows = [row for row in rows if row[2][0] == 0]
    sides = [
        side_of(nodes, name, columns, at, [row[2] for row in rows], plan_again)
        for nodes, at in ((first, [row[0] for row in rows]), (second, [row[1] for row in rows]))
    ]
    sides = joint_variances(sides, shared_noise(first.receipt, second.receipt, name))
    why = next((side.unknown for side in sides if side.unknown), "")
    if not why and len({side.drawn.scale for side in sides if side.drawn is not None}) > 1:
        why = "the noise of both releases is in different units."
    if why:
        ends = shown_ends(
            *sides,
            confidence=wanted,
            given=confidence is not None,
            simultaneous=simultaneous,
            why=why,
        )
    else:
        ends = joint_ends(*sides, confidence=wanted, simultaneous=simultaneous)
    anew = all(side.means is not None for side in sides)
    how = "joint" if not why else "widened" if anew else "as shown"
    out = _frame_of_change(first, second, rows, sides, ends)
    nominal = any(side.selected for side in sides)
    facts = _change_facts(first, second, name, ends, simultaneous, how, why, nominal)
    return seal_frame(out, facts, key=CHANGE)


def _change_confidence(given: object, *sides: ShownNodes) -> float:
    if given is None:
        return min(float(side.receipt["confidence"]) for side in sides)
    return checked_confidence(given)


# -- rows ----------------------------------------------------------------------------------------

Row = tuple[int, int, Place]
"""The row of a node in the first and in the second frame, -1 for none, and the node."""


def _change_rows(first: ShownNodes, second: ShownNodes) -> list[Row]:
    """Every node of either frame, coarse to fine, in the order of the frames."""
    for nodes in (first, second):
        if nodes.alike.any():
            raise ParameterError(
                "two rows of a release read alike and cannot be matched. Release with a hierarchy "
                "that tells them apart."
            )
    others = first.receipt.get("keys") is not None
    others &= first.receipt.get("keys") == second.receipt.get("keys")
    one, other = (_rows_by_node(nodes, others) for nodes in (first, second))
    merged = _merge_orders(
        list(one), list(other), _prefixes_by_node(first, one), _prefixes_by_node(second, other)
    )
    return [(one.get(node, -1), other.get(node, -1), node) for node in merged]


def _rows_by_node(nodes: ShownNodes, others: bool) -> dict[Place, int]:
    """The row of every node. ``<other>`` rows are left out unless ``others`` is True: they cover
    different records if the listed keys of the releases differ."""
    tree = str(nodes.receipt["mechanism"]).startswith("tree-")
    prefixes = nodes.nodes["prefix"].astype(str).tolist()
    found = {
        node_place(lineage): row
        for row, (lineage, prefix) in enumerate(zip(nodes.lineages, prefixes, strict=True))
        if others or not tree or not prefix.endswith(OTHER)
    }
    if nodes.is_flat:  # largest first
        return dict(sorted(found.items(), key=lambda item: prefixes[item[1]]))
    return found


def _prefixes_by_node(nodes: ShownNodes, rows: Mapping[Place, int]) -> dict[Place, str]:
    prefixes = nodes.nodes["prefix"].astype(str).tolist()
    return {node: prefixes[row] for node, row in rows.items()}


def _merge_orders(
    one: Sequence[Place], other: Sequence[Place], *labels: Mapping[Place, str]
) -> list[Place]:
    """Merge two lists into one that keeps their orders; a node that only one list has is placed by
    level and label."""
    left, right, out = set(one), set(other), dict[Place, None]()
    i = j = 0
    while i < len(one) or j < len(other):
        a = one[i] if i < len(one) else None
        b = other[j] if j < len(other) else None
        if b is None or a == b:
            first = True
        elif a is None or (a in right) != (b in left):
            first = a is not None and a not in right
        else:
            first = (a[0], labels[0][a]) <= (b[0], labels[1][b])
        node = a if first else b
        assert node is not None
        out[node] = None
        i += a is not None and a in out
        j += b is not None and b in out
    return list(out)


# -- what is shown -------------------------------------------------------------------------------


def _frame_of_change(
    first: ShownNodes,
    second: ShownNodes,
    rows: Sequence[Row],
    sides: Sequence[Side],
    ends: ChangeEnds,
) -> pd.DataFrame:
    import pandas as pd

    names = [
        name
        for name in ("level", "prefix", *second.hierarchy.label_columns)
        if name in second.nodes and name in first.nodes
    ]
    clash = [name for name in NUMBERS if name in names]
    if clash:
        raise ParameterError(
            f"change would write column {clash[0]!r}, which a level has already. Release with "
            "another name of the column."
        )
    missing = [row[0] for row in rows if row[1] < 0]
    kept = [row[1] for row in rows if row[1] >= 0]
    parts = [second.nodes[names].iloc[kept], first.nodes[names].iloc[missing]]
    out = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    order = np.argsort(
        [i for i, row in enumerate(rows) if row[1] >= 0]
        + [i for i, row in enumerate(rows) if row[1] < 0],
        kind="stable",
    )
    out = out.iloc[order].reset_index(drop=True)
    out.attrs = {}
    drawn = sides[0].drawn
    decimals = None if drawn is None else drawn.decimals
    for (role, intervals), side in zip(ends.sides.items(), sides, strict=True):
        for end, values in zip(("", "_lower", "_upper"), (side.value, *intervals), strict=True):
            out[f"{role}{end}"] = _shown_values(values, side, side.like)
    pairs = zip(sides[0].value, sides[1].value, strict=True)
    changes = [None if b is None or a is None else a - b for b, a in pairs]
    if decimals is not None:
        changes = [None if change is None else round(change, decimals) for change in changes]
    lasting = None if sides[0].like is None else pd.Series(dtype="timedelta64[us]")
    for end, values in (("", changes), ("_lower", ends.lower), ("_upper", ends.upper)):
        out[f"change{end}"] = _shown_values(values, sides[0], lasting)
    for name, values in zip(("ratio", "ratio_lower", "ratio_upper"), ends.ratio, strict=True):
        out[name] = nullable_column(values, False, infinite=True)
    certain = [low > 0 or high < 0 for low, high in zip(ends.lower, ends.upper, strict=True)]
    out["more_than_noise"] = pd.array(certain, dtype="bool")
    return out


def _shown_values(values: Sequence[Any], side: Side, like: pd.Series | None) -> Any:
    """A column of numbers, or of times or durations of the type of another column."""
    if like is None:
        return nullable_column(values, side.whole)
    from dpframe.postprocess.level_values import values_like  # loads pandas

    known = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return values_like(np.where(np.isinf(known), np.nan, known), like)


def nullable_column(values: Sequence[Any], whole: bool, *, infinite: bool = False) -> Any:
    """A column of type Int64 if ``whole``, else Float64; missing where a value is None or NaN, and
    where it is infinite unless ``infinite`` values are shown."""
    import pandas as pd

    def is_shown(value: Any) -> bool:
        return value is not None and value == value and (infinite or abs(value) != math.inf)

    of, dtype = (int, "Int64") if whole else (float, "Float64")
    cells = [of(value) if is_shown(value) else None for value in values]
    return pd.array(cells, dtype=dtype)  # type: ignore[call-overload]


def _change_facts(
    first: ShownNodes,
    second: ShownNodes,
    name: str,
    ends: ChangeEnds,
    simultaneous: bool,
    how: str,
    why: str,
    nominal: bool,
) -> dict[str, Any]:
    """What the intervals of a change mean, as plain JSON types."""
    together = "all of them together" if simultaneous else "each on its own"
    words = (
        f"change_lower and change_upper hold the true change with confidence {ends.confidence:g}, "
        f"{together}, and so do the intervals of ratio; those of before and after each on its own, "
        "as released. Where one release does not report a node, they are bounds from its threshold "
        "and noise"
    )
    if nominal:
        words += ". The same noise decided what is shown: intervals are nominal"
    facts: dict[str, Any] = {
        "measure": name,
        "confidence": ends.confidence,
        "simultaneous": simultaneous,
        "intervals": len(ends.lower),
        "how": how,
        "means": words,
    }
    if why:
        facts["why"] = why
    if limits := total_limits(first.receipt):
        facts["means"] = f"{words}. {limits[:1].upper()}{limits[1:]}"
    for role, nodes in (("before", first), ("after", second)):
        receipt = nodes.receipt
        told = ["release", "release_id", "time", "guarantee", "epsilon", "delta"]
        told += [key for key in ("period", "data", "user") if receipt.get(key) is not None]
        facts[role] = {key: receipt[key] for key in told}
    return facts
