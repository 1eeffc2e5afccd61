"""What changed between two releases: nodes of both, with intervals by the joint law of both noises.

Numbers of a node are counts (or sums) of all records under it, the same set of records whatever
else a release reports: residuals, which depend on that, are not compared. A node that one release
does not report has bounds there (:mod:`.hidden_bounds`), never 0.

How intervals are made, ``how``:

* "joint": the laws of all numbers are known. N_a - N_b misses the true difference by X - Y, whose
  law is the convolution of both (:mod:`.joint_noise`).
* "widened": for means, intervals of each release are known for any confidence, but not the law of
  the difference. Ends are made as for "as shown", from intervals for the confidence that each
  release needs, so that both hold together.
* "as shown": no law is known. The ends of both intervals as released, [a, b] and [c, d], give
  [a - d, b - c]; noises are independent, so that both hold with the product of their confidences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe._known_arguments import shown_value
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy import OTHER
from dpframe.postprocess.change_ends import ChangeEnds, joint_ends, shown_ends
from dpframe.postprocess.change_sides import Side, side_of
from dpframe.postprocess.comparability import check_comparable, check_measure
from dpframe.postprocess.hidden_bounds import Place, node_place
from dpframe.postprocess.legacy import PlanAgain
from dpframe.postprocess.other_confidence import checked_confidence
from dpframe.postprocess.shown_nodes import ShownNodes, shown_nodes

if TYPE_CHECKING:
    import pandas as pd

CHANGE = "dp_change"
"""The key of ``attrs`` that says what the intervals mean."""

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
    """``dp.change``; see :func:`dpframe.doors.change.change`.

    ``plan_again`` finds laws of tests that receipts of earlier versions do not hold.
    """
    if not isinstance(simultaneous, bool):
        raise ParameterTypeError(
            f"simultaneous must be True or False; got {shown_value(simultaneous)}."
        )
    first, second = (shown_nodes(frame, receipt, "change") for frame, receipt in (before, after))
    for nodes in (first, second):
        nodes.frame.attrs = {}  # copied by every step of pandas
    check_comparable(first, second)
    name, _ = first.measure(measure)
    columns = check_measure(name, first, second)
    wanted = _change_confidence(confidence, first, second)
    rows = _change_rows(first, second)
    sides = [
        side_of(nodes, name, columns, at, [row[2] for row in rows], plan_again)
        for nodes, at in ((first, [row[0] for row in rows]), (second, [row[1] for row in rows]))
    ]
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
    out.attrs[CHANGE] = _change_facts(first, second, name, ends, simultaneous, how, why, nominal)
    return out


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
    whole, drawn = sides[0].whole, sides[0].drawn
    decimals = None if drawn is None else drawn.decimals
    for (role, intervals), side in zip(ends.sides.items(), sides, strict=True):
        out[role] = nullable_column(side.value, side.whole)
        for end, values in zip(("lower", "upper"), intervals, strict=True):
            out[f"{role}_{end}"] = nullable_column(values, side.whole)
    pairs = zip(sides[0].value, sides[1].value, strict=True)
    changes = [None if b is None or a is None else a - b for b, a in pairs]
    if decimals is not None:
        changes = [None if change is None else round(change, decimals) for change in changes]
    for name, values in (("", changes), ("_lower", ends.lower), ("_upper", ends.upper)):
        out[f"change{name}"] = nullable_column(values, whole)
    for name, values in zip(("ratio", "ratio_lower", "ratio_upper"), ends.ratio, strict=True):
        out[name] = nullable_column(values, False, infinite=True)
    certain = [low > 0 or high < 0 for low, high in zip(ends.lower, ends.upper, strict=True)]
    out["more_than_noise"] = pd.array(certain, dtype="bool")
    return out


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
        words += ". Numbers were selected upon by their own noise: the confidence is nominal"
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
    for role, nodes in (("before", first), ("after", second)):
        receipt = nodes.receipt
        told = ["release", "release_id", "time"]
        told += [key for key in ("period", "data") if receipt.get(key) is not None]
        facts[role] = {key: receipt[key] for key in told}
    return facts
