"""What is asked of the numbers of a release: shares, quantiles, intervals at another confidence.

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

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.common.calls import shown_value
from dpframe.common.digest import seal_frame
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.measures.bins import checked_value, value_text
from dpframe.measures.measure import AT_BOUND_END, BINS_END
from dpframe.measures.quantile_measures import checked_part
from dpframe.postprocess.known_noise import (
    NOMINAL,
    SUMMED,
    KnownNoise,
    MeanNoise,
    each_confidence,
    known_noise,
    mean_noise,
    rollup_noise,
)
from dpframe.postprocess.quantiles import BinsShown, shown_bins
from dpframe.postprocess.shown_nodes import (
    MeasureColumns,
    ShownNodes,
    check_column_clash,
    checked_confidence,
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeShares:
    """What part of the row at ``whose`` (-1: of none) each is, with its interval; NaN: unknown."""

    measure: str
    whose: NDArray[np.int64]
    ends: ShareEnds
    numbers: tuple[Real, Real, Real]


def share_frame(
    frame: pd.DataFrame, receipt: Mapping[str, Any], *, of: object, measure: object
) -> pd.DataFrame:
    """``result.dp.share``; see :meth:`dpframe.doors.result_methods.ResultMethods.share`."""
    nodes = shown_nodes(frame, receipt, "share")
    found = node_shares(nodes, of=of, measure=measure)
    check_column_clash(nodes.frame, NAMES, "share")
    names = ("level", "prefix", *nodes.hierarchy.label_columns)
    kept = [column for column in names if column in nodes.frame]
    out = nodes.frame[[*kept, nodes.measures[found.measure].value]].copy()
    prefixes = nodes.nodes["prefix"].astype(object).to_numpy()
    from dpframe.postprocess.level_values import text_column  # loads pandas

    above = pa.array([prefixes[at] if at >= 0 else None for at in found.whose], pa.string())
    out["of"] = text_column(above).set_axis(out.index)
    out["share"], out["share_lower"], out["share_upper"] = found.numbers
    confidence = found.ends.confidence
    out.attrs[SHARE] = {
        "measure": found.measure,
        "of": of,
        "confidence": confidence,
        "how": found.ends.how,
        "intervals": f"share_lower and share_upper hold the true share with confidence "
        f"{confidence:g}, each on its own, where those of the release hold: {receipt['intervals']}",
        "release": receipt.get("release") or receipt.get("release_id"),
    }
    return out


def node_shares(nodes: ShownNodes, *, of: object, measure: object) -> NodeShares:
    """Shares of the parent or of the total; ParameterError where they have no meaning."""
    receipt = nodes.receipt
    if receipt.get("adds_up") is False:
        shares = f"contribution='share'{' and no mechanism' * (receipt['mechanism'] == 'rounds')}"
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
    if columns.kind in ("mean", "quantile"):
        raise ParameterError(
            f"measure ({name!r}) is a {columns.kind}, which has no share. Ask for a count or a sum"
            f"{', or result.dp.above' * (columns.kind == 'quantile')}."
        )
    if nodes.is_rollup and receipt["measures"][columns.measure].get("adds_up") is False:
        raise ParameterError(
            f"measure ({name!r}) counts every user anew at each level: a node is no part of the "
            "one above it. Ask for the share of a count or a sum."
        )
    whose = _share_bases(nodes, of)
    ends = _share_ends(nodes, name, columns, whose)
    nested, values = is_nested(nodes, name, columns), nodes.numbers(columns.value)
    numbers = _share_quotients(values, ends, whose, nested=nested)
    return NodeShares(measure=name, whose=whose, ends=ends, numbers=numbers)


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
        if columns.kind == "histogram":
            return _ends_of_bins(nodes, columns, whose, confidence)
        noise = rollup_noise(nodes, name)[0] if nodes.is_rollup else known_noise(nodes)
    except ParameterError:
        both = max(0.0, round(2 * confidence - 1, 12))
        return ShareEnds(own=own, above=above, confidence=both, how="as shown")
    low, high = _ends_as_floats(noise.ends(1 - (1 - confidence) / 2, strict=True))
    return ShareEnds(
        own=(low, high), above=(low[whose], high[whose]), confidence=confidence, how="widened"
    )


def _ends_of_bins(
    nodes: ShownNodes, columns: MeasureColumns, whose: NDArray[np.int64], confidence: float
) -> ShareEnds:
    """As for any law that is known; rows without numbers have ends that are infinite."""
    both = 1 - (1 - confidence) / 2
    _, low, high = shown_bins(nodes, columns.measure).number(len(nodes.level), both)
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
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


def is_nested(nodes: ShownNodes, name: str, columns: MeasureColumns) -> bool:
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


# -- Quantiles, shares above a value and histograms, from numbers in bins --------------------------


VALUE_WORDS = {"number": "number", "time": "date or time", "duration": "duration"}

IN_BINS = "dp.median(...), dp.quantile(...), dp.quantiles(...) or dp.histogram(...)"


@dataclass(frozen=True, kw_only=True, eq=False)
class _AskedBins:
    """A measure in bins that is asked for more, and the confidence of the answer."""

    nodes: ShownNodes
    name: str
    known: BinsShown
    confidence: float

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        receipt: Mapping[str, Any],
        what: str,
        measure: object,
        confidence: object,
    ) -> _AskedBins:
        """ParameterError if the release has no such measure, or its rows do not say enough."""
        nodes = shown_nodes(frame, receipt, what, cells=True)
        binned = [n for n, said in (receipt.get("measures") or {}).items() if "edges" in said]
        if not binned:
            raise ParameterError(
                f"{what} needs a measure that counts values in bins, and this release has none. "
                f"Release with {IN_BINS}."
            )
        name = binned[0] if measure is None else measure
        if not isinstance(name, str):
            raise ParameterTypeError(f"measure must be a name; got {shown_value(measure)}.")
        if name not in binned:
            raise ParameterError(
                f"measure ({measure!r}) must be one that counts values in bins: "
                f"{', '.join(binned)}."
            )
        own = each_confidence(receipt) if confidence is None else checked_confidence(confidence)
        return cls(nodes=nodes, name=name, known=shown_bins(nodes, name), confidence=own)

    @property
    def facts(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self.nodes.receipt["measures"][self.name]
        return facts

    def node_columns(self) -> pd.DataFrame:
        """The columns of the nodes or cells, which are before those of the first measure."""
        first = next(iter(self.nodes.measures.values()))
        return self.nodes.frame.iloc[:, : self.nodes.frame.columns.get_loc(first.value)]

    def values(self, values: NDArray[np.generic], *, edges: bool = False) -> pd.Series:
        """Values in the type of the released ones: numbers, or times and durations by seconds.
        Edges of bins can be between whole numbers or days, and then have no whole type."""
        import pandas as pd

        from dpframe.postprocess.level_values import values_like  # loads pandas

        of, every = self.facts["value"], np.array(self.known.node.bins.edges)
        whole = (every % (86_400 if of == "time" else 1) == 0).all()
        column = pd.Series(dtype={"time": "datetime64[us]", "number": "float64"}.get(
            of, "timedelta64[us]"))  # fmt: skip
        if edges and whole and of == "time":
            column = pd.Series(dtype=pd.ArrowDtype(pa.date32()))
        for one in self.nodes.measures.values():
            own = self.nodes.frame[one.value]
            zoned = getattr(own.dtype, "tz", None) is not None
            if one.measure == self.name and one.kind == "quantile":
                column = own if not edges or whole or zoned else column
                break
        return values_like(values, column)

    def seal(self, out: pd.DataFrame, key: str, **told: object) -> pd.DataFrame:
        """A frame with what it says of itself in its attrs."""
        receipt = self.nodes.receipt
        out.attrs = {
            key: {
                "measure": self.name,
                **told,
                "confidence": self.confidence,
                "intervals": f"each on its own holds the true number with confidence "
                f"{self.confidence:g}",
                "release": receipt.get("release") or receipt.get("release_id"),
            }
        }
        return out


def quantile_frame(
    frame: pd.DataFrame,
    receipt: Mapping[str, Any],
    at: object,
    *,
    measure: object,
    confidence: object,
) -> pd.DataFrame:
    """``result.dp.quantile``; see :meth:`dpframe.doors.result_methods.ResultMethods.quantile`."""
    part = checked_part("at", at)
    asked = _AskedBins.of(frame, receipt, "quantile", measure, confidence)
    out = asked.node_columns().copy()
    check_column_clash(out, ("value", "lower", "upper", "at_bound"), "quantile")
    *ends, at_bound = asked.known.quantile(part, len(out), asked.confidence)
    for name, values in zip(("value", "lower", "upper"), ends, strict=True):
        out[name] = asked.values(values).set_axis(out.index)
    out["at_bound"] = at_bound
    return asked.seal(out, "dp_quantile", at=part)


def above_frame(
    frame: pd.DataFrame,
    receipt: Mapping[str, Any],
    value: object,
    *,
    measure: object,
    confidence: object,
) -> pd.DataFrame:
    """``result.dp.above``; see :meth:`dpframe.doors.result_methods.ResultMethods.above`."""
    number, kind = checked_value("value", value)
    if not math.isfinite(number):
        raise ParameterError(f"value ({value!r}) must be finite.")
    asked = _AskedBins.of(frame, receipt, "above", measure, confidence)
    if kind != asked.facts["value"]:
        raise ParameterTypeError(
            f"value ({shown_value(value)}) must be a {VALUE_WORDS[asked.facts['value']]}, as the "
            f"values of {asked.name!r} are."
        )
    out = asked.node_columns().copy()
    check_column_clash(out, ("edge", "share", "share_lower", "share_upper"), "above")
    *found, edge = asked.known.node.share_above(number, asked.confidence)
    out["edge"] = asked.values(np.full(len(out), edge), edges=True).set_axis(out.index)
    names = ("share", "share_lower", "share_upper")
    for name, values, other in zip(names, found, (np.nan, 0.0, 1.0), strict=True):
        out[name] = asked.known.spread(values, len(out), other)
    return asked.seal(out, "dp_above", edge=value_text(edge, kind))


def histogram_frame(
    frame: pd.DataFrame, receipt: Mapping[str, Any], *, measure: object, confidence: object
) -> pd.DataFrame:
    """``result.dp.histogram``; see
    :meth:`dpframe.doors.result_methods.ResultMethods.histogram`."""
    asked = _AskedBins.of(frame, receipt, "histogram", measure, confidence)
    names = ("bin_lower", "bin_upper", "number", "number_lower", "number_upper")
    node, rows = asked.known.node, asked.known.rows
    size = node.bins.size
    out = asked.node_columns().iloc[np.repeat(rows, size)].reset_index(drop=True)
    check_column_clash(out, names, "histogram")
    half = node.half_widths(np.eye(size), asked.confidence, 1.0)
    wide, edges = np.ceil(half).astype(np.int64), np.array(node.bins.edges)
    for name, ends in zip(names, ((np.nan, *edges), (*edges, np.nan)), strict=False):
        out[name] = asked.values(np.tile(ends, len(rows)), edges=True)
    numbers = node.numbers, node.numbers - wide, node.numbers + wide
    for name, values in zip(names[2:], numbers, strict=True):
        out[name] = values.ravel()
    return asked.seal(out, "dp_histogram")


# -- Intervals at another confidence ------------------------------------------------------------


LINE = "new intervals"
"""The name of the card's line on intervals that were computed after the release."""


def other_confidence(
    frame: pd.DataFrame,
    receipt: Mapping[str, Any],
    confidence: object,
    *,
    simultaneous: object,
    measures: object = None,
) -> pd.DataFrame:
    """``result.dp.intervals``; see :meth:`dpframe.doors.result_methods.ResultMethods.intervals`."""
    nodes = shown_nodes(frame, receipt, "intervals")
    wanted = float(receipt["confidence"]) if confidence is None else checked_confidence(confidence)
    if not isinstance(simultaneous, bool):
        raise ParameterTypeError(
            f"simultaneous must be True or False; got {shown_value(simultaneous)}."
        )
    chosen, noises = _noises(nodes, measures)
    each, intervals = wanted, len(nodes.frame) * sum(noise.intervals for noise in noises)
    if simultaneous:
        _check_simultaneous(nodes)
        each = 1 - (1 - wanted) / max(1, intervals)
    kept = list(nodes.frame.columns)
    if nodes.is_rollup:
        shown = {column for noise in noises for column in noise.shown}
        named = {"level", "prefix", *nodes.hierarchy.label_columns}
        kept = [name for name in kept if name in shown or name in named]
    out = nodes.frame[kept].copy()
    for noise in noises:
        for column, values in noise.at(each, strict=simultaneous).items():
            out[column] = values
    adjusted = any(noise.adjusted for noise in noises)
    left_out = [] if not nodes.is_rollup else [n for n in receipt["measures"] if n not in chosen]
    facts = _interval_facts(
        receipt, wanted, each if simultaneous else None, intervals, left_out, adjusted
    )
    out.attrs = deepcopy(frame.attrs)  # with those that callers added
    return seal_frame(out, facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumns:
    """Columns of a release that change with the confidence.

    ``shown`` has all columns of the measure, ``intervals`` the number of intervals in a row;
    ``at(confidence, strict=...)`` makes what changes. ``adjusted``: drawn numbers are not shown.
    """

    shown: Sequence[str]
    at: Callable[..., Mapping[str, Any]]
    intervals: int = 1
    adjusted: bool = False

    @classmethod
    def of_noise(cls, noise: KnownNoise | MeanNoise) -> NewColumns:
        columns = noise.columns

        def ends(confidence: float, *, strict: bool) -> Mapping[str, Any]:
            lower, upper = noise.ends(confidence, strict=strict)
            return {columns.lower: lower, columns.upper: upper}

        adjusted = isinstance(noise, KnownNoise) and noise.adjusted is not None
        shown = columns.value, columns.lower, columns.upper
        return cls(shown=shown, at=ends, adjusted=adjusted)

    @classmethod
    def of_bins(cls, nodes: ShownNodes, name: str) -> NewColumns:
        """The columns of a measure in bins: a quantile of which too little is known to show it at
        one confidence can be shown at another."""
        from dpframe.postprocess.level_values import values_like  # loads pandas

        known, n = shown_bins(nodes, name), len(nodes.frame)
        shown = [
            column
            for one in nodes.measures.values()
            if one.measure == name
            for column in (one.value, one.lower, one.upper)
            + ((f"{one.value}{AT_BOUND_END}",) if one.kind == "quantile" else ())
        ] + [f"{name}{BINS_END}"]

        def columns(confidence: float, *, strict: bool = False) -> Mapping[str, Any]:
            made = known.columns(n, confidence)
            return {
                column: values_like(values, nodes.frame[column]).set_axis(nodes.frame.index)
                for column, values in zip(shown[:-1], made, strict=False)
            }

        return cls(shown=shown, at=columns, intervals=max(1, len(known.at)))


def _noises(nodes: ShownNodes, measures: object) -> tuple[list[str], list[NewColumns]]:
    """The measures that the caller chose, and their columns."""
    if not nodes.is_rollup:
        if measures is not None:
            raise ParameterError(
                f"measures ({measures!r}) is for rollups, and this release has one number a row. "
                "Leave it out."
            )
        return [], [NewColumns.of_noise(known_noise(nodes))]
    chosen, found = _choose_measures(nodes, measures), list[NewColumns]()
    for name in chosen:
        if "edges" in nodes.receipt["measures"][name]:
            found.append(NewColumns.of_bins(nodes, name))
        elif nodes.measures[name].kind == "mean":
            found.append(NewColumns.of_noise(mean_noise(nodes, name)))
        else:
            found.extend(map(NewColumns.of_noise, rollup_noise(nodes, name)))
    return chosen, found


def _choose_measures(nodes: ShownNodes, measures: object) -> list[str]:
    """The names of the measures that the caller chose (by default all), in the frame's order."""
    known = list(nodes.receipt["measures"])
    if measures is None:
        return known
    named = [measures] if isinstance(measures, str) else measures
    if not isinstance(named, Sequence) or not named:
        raise ParameterTypeError(f"measures must be a list of names; got {measures!r}.")
    for name in named:
        if not isinstance(name, str):
            raise ParameterTypeError(f"measures must be a list of names; got {measures!r}.")
        if name not in known:
            raise ParameterError(
                f"measure ({name!r}) must be one of this release: {', '.join(known)}."
            )
    if len(set(named)) != len(named):
        raise ParameterError(f"measures ({measures!r}) must name each measure once.")
    return [name for name in known if name in named]


def _check_simultaneous(nodes: ShownNodes) -> None:
    """Raise ParameterError if the noise of the counts decides which rows are shown, so that no
    confidence holds for all intervals together."""
    if nodes.is_flat:
        raise ParameterError(
            "simultaneous=True needs all released rows, and heavy_hitters keeps the largest. Ask "
            "dp.hhh with the column as its only level."
        )
    if nodes.receipt["mechanism"] in NOMINAL:
        raise ParameterError(
            f"simultaneous=True does not hold for mechanism {nodes.receipt['mechanism']!r}, whose "
            "counts also decided what is shown. Release with mechanism='offline'."
        )


def _interval_facts(
    receipt: Mapping[str, Any],
    confidence: float,
    each: float | None,
    intervals: int,
    left_out: list[str],
    adjusted: bool,
) -> dict[str, Any]:
    """The receipt, changed to say what the intervals are now. ``adjusted``: drawn numbers are not
    shown, so that intervals computed again differ from the released ones at the same confidence."""
    facts = {key: value for key, value in receipt.items() if key not in ("frame", "simultaneous")}
    first = facts.get("released_confidence", receipt["confidence"])
    card = [line for line in facts["card"] if line[0] != LINE]
    how = f"confidence {confidence:g}"
    if left_out:
        known, before = facts["measures"], facts.get("measures_left_out", {})
        facts["measures"] = {n: said for n, said in known.items() if n not in left_out}
        facts["measures_left_out"] = {**before, **{n: known[n] for n in left_out}}
    missing = list(facts.get("measures_left_out", {}))
    if each is not None:
        how += f", all {intervals} together"
        facts["simultaneous"] = {"intervals": intervals, "each": each}
    if each is None and confidence == first and not missing and not adjusted:
        facts.pop("released_confidence", None)
        return {**facts, "confidence": confidence, "card": card}
    why = f"of lower and upper, computed after the release, which said {first:g}"
    if missing:
        why += f"; without columns of {', '.join(missing)}, which were released as well"
    said = [LINE, how, why]
    return {**facts, "confidence": confidence, "released_confidence": first, "card": [said, *card]}
