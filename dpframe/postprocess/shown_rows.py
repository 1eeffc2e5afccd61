"""What is asked of the rows of a release: shares, the largest ones, and what is below a node.

A share is a quotient of two true numbers: C of a node, and P of a node that holds it. R = P - C is
what is left, and 0 <= C <= P. With intervals [a, b] for C and [c, d] for P the share is in
[a / d, b / c] if both hold; with [a, b] for C and [e, f] for R it is in [a / (a + f), b / (b + e)],
as it grows with C and falls with R. Which ends are taken:

* "parts": counts are sums of independent draws, of which the draws of C are in P too; C and R share
  none. Both at confidence sqrt(g) hold together with confidence g.
* "widened": any law that is known. Both at 1 - (1 - g) / 2 hold together at g (Bonferroni).
* "together": all intervals of the frame hold at g together already.
* "as shown": no law is known. Both at g, as the frame shows them, hold together at 1 - 2 (1 - g),
  which is given as the confidence.

The interval is then cut to what 0 <= C <= P allows, which loses no confidence.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.common.calls import shown_value
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.postprocess.known_noise import SUMMED, KnownNoise, known_noise, rollup_noise
from dpframe.postprocess.shown_nodes import (
    MeasureColumns,
    ShownNodes,
    check_column_clash,
    shown_nodes,
)

if TYPE_CHECKING:
    import pandas as pd

SHARE = "dp_share"
"""Key of ``attrs`` that says what the intervals mean."""

NAMES = ("share", "share_lower", "share_upper", "of")

Real = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareEnds:
    """Intervals of rows (C) and of the rows that they are shares of (P); ``rest`` has intervals of
    R where ``how`` is "parts". ``confidence`` is that of the shares."""

    own: tuple[Real, Real]
    above: tuple[Real, Real]
    confidence: float
    how: str
    rest: tuple[Real, Real] | None = None


def share_frame(
    frame: pd.DataFrame, receipt: Mapping[str, Any], *, of: object, measure: object
) -> pd.DataFrame:
    """``result.dp.share``; see :meth:`dpframe.doors.result_methods.ResultMethods.share`."""
    nodes = shown_nodes(frame, receipt, "share")
    if receipt.get("adds_up") is False:
        shares = "contribution='share'"
        if receipt["mechanism"] == "rounds":
            shares += " and no mechanism"
        raise ParameterError(
            "contribution is 'items', where a node is no part of the one above it. Release with "
            f"{shares}, or without user."
        )
    if receipt["mechanism"] == "rounds":
        raise ParameterError(
            "a user has many of these values: they are parts of nothing. Release with "
            "contribution='share' for parts of all users, or without user."
        )
    name, columns = nodes.measure(measure)
    if columns.kind == "mean":
        raise ParameterError(
            f"measure ({name!r}) is a mean, which has no share. Ask for a count or a sum."
        )
    check_column_clash(nodes.frame, NAMES, "share")
    whose = _share_bases(nodes, of)
    found = _share_ends(nodes, name, columns, whose)
    value, lower, upper = _share_quotients(
        nodes.numbers(columns.value), found, whose, nested=_is_nested(nodes, name, columns)
    )
    labels = [column for column in nodes.hierarchy.label_columns if column in nodes.frame]
    kept = [column for column in ("level", "prefix") if column in nodes.frame]
    out = nodes.frame[[*kept, *labels, columns.value]].copy()
    prefixes = nodes.nodes["prefix"].astype(object).to_numpy()
    from dpframe.postprocess.level_values import text_column  # loads pandas

    above = pa.array([prefixes[place] if place >= 0 else None for place in whose], pa.string())
    out["of"] = text_column(above).set_axis(out.index)
    out["share"], out["share_lower"], out["share_upper"] = value, lower, upper
    out.attrs[SHARE] = {
        "measure": name,
        "of": of,
        "confidence": found.confidence,
        "how": found.how,
        "intervals": f"share_lower and share_upper hold the true share with confidence "
        f"{found.confidence:g}, each on its own, where those of the release hold: "
        f"{receipt['intervals']}",
        "release": receipt.get("release") or receipt.get("release_id"),
    }
    return out


def _share_bases(nodes: ShownNodes, of: object) -> NDArray[np.int64]:
    """For each row, the place of the row that it is a share of; -1 if there is none, or if two rows
    read alike there. ParameterError if ``of`` is unknown or the row of the total is missing."""
    if of == "parent":
        above = nodes.ancestor
    elif of == "total":
        root = np.flatnonzero(nodes.level == 0)
        if not len(root):
            raise ParameterError(
                "of='total' needs the row of everything (level 0), which this frame lacks. Ask "
                "with of='parent', or of a release with remainder=True."
            )
        above = np.full(len(nodes.level), root[0], dtype=np.int64)
    else:
        raise ParameterError(f"of ({of!r}) must be 'parent' or 'total'.")
    unclear = (above >= 0) & nodes.alike[above]
    return np.where(unclear, -1, above)


def _share_ends(
    nodes: ShownNodes, name: str, columns: MeasureColumns, whose: NDArray[np.int64]
) -> ShareEnds:
    confidence = float(nodes.receipt["confidence"])
    lower, upper = nodes.numbers(columns.lower), nodes.numbers(columns.upper)
    lower = np.where(np.isnan(lower), -np.inf, lower)  # a missing end is infinite
    upper = np.where(np.isnan(upper), np.inf, upper)
    own, above = (lower, upper), (lower[whose], upper[whose])
    if nodes.receipt.get("simultaneous") is not None:
        return ShareEnds(own=own, above=above, confidence=confidence, how="together")
    try:
        if nodes.receipt["mechanism"] in SUMMED:
            return _ends_by_parts(known_noise(nodes), whose, above, confidence)
        noise = rollup_noise(nodes, name)[0] if nodes.is_rollup else known_noise(nodes)
    except ParameterError:
        both = max(0.0, round(2 * confidence - 1, 12))
        return ShareEnds(own=own, above=above, confidence=both, how="as shown")
    low, high = _ends_as_floats(noise.ends(1 - (1 - confidence) / 2, strict=True))
    return ShareEnds(
        own=(low, high), above=(low[whose], high[whose]), confidence=confidence, how="widened"
    )


def _ends_by_parts(
    noise: KnownNoise, whose: NDArray[np.int64], above: tuple[Real, Real], confidence: float
) -> ShareEnds:
    each = math.sqrt(confidence)
    own = _ends_as_floats(noise.ends(each, strict=True))
    left = np.maximum(noise.terms[whose] - noise.terms, 0)
    half = noise.half(each, left, strict=True)
    rest = noise.frame_ends(
        noise.low[whose] - noise.high - half, noise.high[whose] - noise.low + half
    )
    return ShareEnds(
        own=own, above=above, confidence=confidence, how="parts", rest=_ends_as_floats(rest)
    )


def _is_nested(nodes: ShownNodes, name: str, columns: MeasureColumns) -> bool:
    """Whether 0 <= C <= P is certain: for counts, and for sums of values that are not negative."""
    if columns.kind != "sum":
        return True
    lower = nodes.receipt["measures"][name]["lower"]
    return lower is not None and float(lower) >= 0


def _share_quotients(
    value: Real, found: ShareEnds, whose: NDArray[np.int64], *, nested: bool
) -> tuple[Real, Real, Real]:
    """Shares and the ends of their intervals; NaN for rows that are no share of anything. A share
    is also NaN where P may be 0 or less."""
    (a, b), (c, d) = found.own, found.above
    least, most = (0.0, 1.0) if nested else (-np.inf, np.inf)
    with np.errstate(all="ignore"):
        if found.rest is not None:
            a, b = np.maximum(a, 0.0), np.maximum(b, 0.0)
            e, f = (np.maximum(end, 0.0) for end in found.rest)
            low = np.where(a > 0, a / (a + f), 0.0)
            high = np.where(e > 0, b / (b + e), 1.0)
        else:
            low = np.where(a >= 0, a / d, a / c)
            high = np.where(b >= 0, b / c, b / d)
        share = value / value[whose]
    low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)  # quotients are rounded
    itself = whose == np.arange(len(whose))
    low, high = np.where(itself, 1.0, low), np.where(itself, 1.0, high)
    clear = (c > 0) & ~np.isnan(share)
    low = np.clip(np.where(clear & ~np.isnan(low), low, least), least, most)
    high = np.clip(np.where(clear & ~np.isnan(high), high, most), least, most)
    share = np.where(clear, np.clip(share, low, high), np.nan)
    none = whose < 0
    return tuple(np.where(none, np.nan, column) for column in (share, low, high))  # type: ignore[return-value]


def _ends_as_floats(ends: tuple[NDArray[Any], NDArray[Any]]) -> tuple[Real, Real]:
    return ends[0].astype(np.float64), ends[1].astype(np.float64)


# -- The largest rows of a release, and whether their order is certain ----------------------------


ABOVE_NEXT = "above_next"
"""Column: whether the order against the next row is certain."""


def largest_rows(
    frame: pd.DataFrame, receipt: Mapping[str, Any], n: object, *, by: object, level: object
) -> pd.DataFrame:
    """``result.dp.top``; see :meth:`dpframe.doors.result_methods.ResultMethods.top`."""
    nodes = shown_nodes(frame, receipt, "top", cells=True)
    most = _whole_argument("n", n, 1)
    check_column_clash(frame, (ABOVE_NEXT,), "top")
    _, columns = nodes.measure(by)
    values = nodes.numbers(columns.value)
    kept = np.flatnonzero(_level_mask(nodes, level))
    missing = np.isnan(values[kept])
    ranked = kept[np.lexsort((np.where(missing, 0.0, -values[kept]), missing))]
    lower, upper = nodes.numbers(columns.lower)[ranked], nodes.numbers(columns.upper)[ranked]
    following = np.append(upper, np.nan)[1:]  # NaN after the last row
    unknown = np.isnan(lower) | np.isnan(following)
    above = [
        None if u else bool(lo > hi) for lo, hi, u in zip(lower, following, unknown, strict=True)
    ]
    out = frame.iloc[ranked[:most]].copy()
    out[ABOVE_NEXT] = above[: len(out)]
    out[ABOVE_NEXT] = out[ABOVE_NEXT].astype("boolean")
    return out


def _level_mask(nodes: ShownNodes, level: object) -> NDArray[np.bool_]:
    if level is None:
        return nodes.level > 0
    if isinstance(level, str):
        names = list(nodes.receipt["levels"])
        if level not in names:
            raise ParameterError(
                f"level ({level!r}) must be a number or one of {', '.join(map(repr, names))}."
            )
        return np.equal(nodes.level, names.index(level) + 1)
    return np.equal(nodes.level, _whole_argument("level", level, 0, nodes.hierarchy.height))


def _whole_argument(name: str, value: object, low: int, high: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterTypeError(f"{name} must be a whole number; got {shown_value(value)}.")
    if int(value) < low or (high is not None and int(value) > high):
        rule = f"at least {low}" if high is None else f"{low} to {high}"
        raise ParameterError(f"{name} ({value!r}) must be {rule}.")
    return int(value)


# -- A node of a release by its label, and everything that is shown below it ----------------------


LISTED = 10
"""The most labels that an error message names."""


def subtree(frame: pd.DataFrame, receipt: Mapping[str, Any], label: object) -> pd.DataFrame:
    """``result.dp.below``; see :meth:`dpframe.doors.result_methods.ResultMethods.below`."""
    nodes = shown_nodes(frame, receipt, "below")
    top = _lineage_of_label(nodes, str(label))
    rows = [place for place, line in enumerate(nodes.lineages) if line[: len(top)] == top]
    return frame.iloc[rows]


def _lineage_of_label(nodes: ShownNodes, label: str) -> tuple[Hashable, ...]:
    """The lineage of the one node with this label: a prefix, else a value of a level's column.
    ParameterError if there is none, or more than one."""
    by_prefix: dict[tuple[Hashable, ...], str] = {}
    by_label: dict[tuple[Hashable, ...], str] = {}
    labels: dict[str, None] = {}
    for line, prefix in zip(nodes.lineages, nodes.nodes["prefix"].astype(str), strict=True):
        labels[prefix] = None
        if prefix == label:
            by_prefix[line] = prefix
        if not nodes.hierarchy.label_columns:
            continue
        for depth, node in enumerate(line, 1):  # a node that is not shown has a label below it
            assert isinstance(node, tuple)
            labels[node[-1]] = None
            if node[-1] == label:
                by_label[line[:depth]] = " / ".join(node)
    found = by_prefix or by_label
    if not found:
        near = difflib.get_close_matches(label, labels, n=1, cutoff=0.6)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(
            f"below ({label!r}) is no label that this frame shows.{hint} Pass a prefix, or a value "
            "of a column of a level."
        )
    if len(found) > 1:
        texts = list(dict.fromkeys(found.values()))
        more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
        raise ParameterError(
            f"below ({label!r}) is the label of {len(found)} nodes. Pass the prefix of one of "
            f"them: {', '.join(map(repr, texts[:LISTED]))}{more}."
        )
    return next(iter(found))
