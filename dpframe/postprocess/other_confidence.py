"""A release with intervals for another confidence, each on its own or all together."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from dpframe.digest import seal
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.postprocess.known_noise import NOMINAL, known_noise
from dpframe.postprocess.shown_nodes import ShownNodes, shown_nodes

if TYPE_CHECKING:
    import pandas as pd

LOWEST, HIGHEST = 0.5, 0.999999

LINE = "new intervals"
"""Of the card."""


def other_confidence(
    frame: pd.DataFrame, receipt: Mapping[str, Any], confidence: object, *, simultaneous: object
) -> pd.DataFrame:
    """``result.dp.intervals``; see :meth:`dpframe.doors.of_results.OfResults.intervals`."""
    nodes = shown_nodes(frame, receipt, "intervals")
    wanted = float(receipt["confidence"]) if confidence is None else _checked(confidence)
    if not isinstance(simultaneous, bool):
        raise ParameterTypeError(f"simultaneous must be True or False; got {simultaneous!r}.")
    noise = known_noise(nodes)
    each, rows = wanted, len(nodes.frame)
    if simultaneous:
        _check_together(nodes)
        each = 1 - (1 - wanted) / max(1, rows)
    lower, upper = noise.ends(each, strict=simultaneous)
    out = nodes.frame.copy()
    out["lower"], out["upper"] = lower, upper
    return seal(out, _facts(receipt, wanted, each if simultaneous else None, rows))


def _checked(confidence: object) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, Real):
        raise ParameterTypeError(f"confidence must be a number; got {confidence!r}.")
    if not LOWEST <= float(confidence) <= HIGHEST:
        raise ParameterError(
            f"confidence ({confidence!r}) must be a number from {LOWEST:g} to {HIGHEST:g}."
        )
    return float(confidence)


def _check_together(nodes: ShownNodes) -> None:
    """What is shown must not depend on the noise of the counts."""
    if nodes.is_flat:
        raise ParameterError(
            "simultaneous=True needs all rows that were released, and heavy_hitters keeps the "
            "largest: ask dp.hhh with the column as its only level."
        )
    if nodes.receipt["mechanism"] in NOMINAL:
        raise ParameterError(
            f"simultaneous=True does not hold for mechanism {nodes.receipt['mechanism']!r}, whose "
            "counts were selected upon: release with mechanism='offline'."
        )


def _facts(
    receipt: Mapping[str, Any], confidence: float, each: float | None, rows: int
) -> dict[str, Any]:
    """The receipt, which says what the intervals are now."""
    facts = {key: value for key, value in receipt.items() if key not in ("frame", "simultaneous")}
    first = facts.get("released_confidence", receipt["confidence"])
    card = [line for line in facts["card"] if line[0] != LINE]
    how = f"confidence {confidence:g}"
    if each is not None:
        how += f", all {rows} together"
        facts["simultaneous"] = {"intervals": rows, "each": each}
    if each is None and confidence == first:
        facts.pop("released_confidence", None)
        return {**facts, "confidence": confidence, "card": card}
    said = [LINE, how, f"of lower and upper, computed after the release, which said {first:g}"]
    return {**facts, "confidence": confidence, "released_confidence": first, "card": [said, *card]}
