"""A release with intervals for another confidence, each on its own or all together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpframe._known_arguments import shown_value
from dpframe.budget import as_float
from dpframe.digest import seal_frame
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.postprocess.known_noise import (
    NOMINAL,
    KnownNoise,
    MeanNoise,
    known_noise,
    mean_noise,
    rollup_noise,
)
from dpframe.postprocess.shown_nodes import ShownNodes, shown_nodes

if TYPE_CHECKING:
    import pandas as pd

LOWEST, HIGHEST = 0.5, 0.999999

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
    kept, noises, left_out = _noises(nodes, measures)
    each, intervals = wanted, len(nodes.frame) * len(noises)
    if simultaneous:
        _check_simultaneous(nodes)
        each = 1 - (1 - wanted) / max(1, intervals)
    out = kept.copy()
    for noise in noises:
        lower, upper = noise.ends(each, strict=simultaneous)
        out[noise.columns.lower], out[noise.columns.upper] = lower, upper
    adjusted = any(isinstance(n, KnownNoise) and n.adjusted is not None for n in noises)
    facts = _interval_facts(
        receipt, wanted, each if simultaneous else None, intervals, left_out, adjusted
    )
    return seal_frame(out, facts)


def _noises(
    nodes: ShownNodes, measures: object
) -> tuple[pd.DataFrame, Sequence[KnownNoise | MeanNoise], list[str]]:
    """The columns that are kept, the noise in the measures that the caller chose, and the names of
    the other measures, which are left out."""
    if not nodes.is_rollup:
        if measures is not None:
            raise ParameterError(
                f"measures ({measures!r}) is for rollups, and this release has one number a row. "
                "Leave it out."
            )
        return nodes.frame, [known_noise(nodes)], []
    chosen = _choose_measures(nodes, measures)
    noises: list[KnownNoise | MeanNoise] = []
    for name in chosen:
        if nodes.measures[name].kind == "mean":
            noises.append(mean_noise(nodes, name))
        else:
            noises.extend(rollup_noise(nodes, name))
    kept = {"level", "prefix", *nodes.hierarchy.label_columns}
    for columns in (noise.columns for noise in noises):
        kept |= {columns.value, columns.lower, columns.upper}
    names = [name for name in nodes.frame.columns if name in kept]
    return nodes.frame[names], noises, [name for name in nodes.measures if name not in chosen]


def _choose_measures(nodes: ShownNodes, measures: object) -> list[str]:
    """The names of the measures that the caller chose (by default all), in the frame's order."""
    if measures is None:
        return list(nodes.measures)
    named = [measures] if isinstance(measures, str) else measures
    if not isinstance(named, Sequence) or not named:
        raise ParameterTypeError(f"measures must be a list of names; got {measures!r}.")
    known = {nodes.measure(name)[0] for name in named if name is not None}
    if len(known) != len(named):
        raise ParameterError(f"measures ({measures!r}) must name each measure once.")
    return [name for name in nodes.measures if name in known]


def checked_confidence(confidence: object) -> float:
    """The confidence of intervals that a caller asks for."""
    number = as_float(confidence)
    if number is None:
        raise ParameterTypeError(f"confidence must be a number; got {shown_value(confidence)}.")
    if not LOWEST <= number <= HIGHEST:
        raise ParameterError(
            f"confidence ({confidence!r}) must be a number from {LOWEST:g} to {HIGHEST:g}."
        )
    return number


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
            "counts were selected upon. Release with mechanism='offline'."
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
