"""The noise in every number of a measure, from a rollup and its receipt, for new intervals.

The receipt tells the scales of the noise on parts and on levels, and the frame tells the tree. From
these follow the variances of the estimates by least squares, to the last bit, in whichever order
rows are. Shown numbers are the drawn numbers but for counts of users, which are shown in whole
users: drawn counts are known up to a range then, and an interval covers the whole range. The
intervals that the frame shows must be those of the noise that the receipt tells; if not,
ParameterError is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpframe.errors import ParameterError
from dpframe.postprocess.forest import Forest
from dpframe.postprocess.known_noise import (
    NEW_RELEASE,
    PRECISE,
    KnownNoise,
    Objects,
    check_whole,
    drawn_range,
    number_law,
)
from dpframe.postprocess.largest_share import largest_shares
from dpframe.postprocess.shown_nodes import MeasureColumns, ShownNodes
from dpframe.postprocess.tree_squares import variances

PARTS = "parts"
"""Key of the scale of the noise on parts, beside the scales of levels."""


def rollup_noise(nodes: ShownNodes, name: str) -> tuple[KnownNoise, ...]:
    """The noise in the columns of one measure, which is no mean, in a whole rollup: of its value
    and, if they are counted, of its clipped values. ParameterError where frame and receipt do not
    say enough."""
    facts, columns = nodes.receipt["measures"][name], nodes.measures[name]
    if "noise" not in facts:
        raise ParameterError(
            f"the receipt lacks the noise of measure {name!r}, as those of older versions do: "
            f"{NEW_RELEASE}."
        )
    _check_rows(nodes)
    clipped = replace(
        columns,
        value=f"{name}_clipped",
        lower=f"{name}_clipped_lower",
        upper=f"{name}_clipped_upper",
    )
    return tuple(
        _column_noise(nodes, said, each)
        for said, each in zip(facts["noise"], (columns, clipped), strict=False)
    )


def largest_shares_of_rollup(nodes: ShownNodes, scales: Mapping[str, float]) -> NDArray[np.float64]:
    """The largest share that one draw of noise has in the variance of an estimate, for each row of
    a whole rollup and noise of these scales; ParameterError where the frame does not say enough."""
    _check_rows(nodes)
    return _estimate_variances(nodes, scales)[1]


def _check_rows(nodes: ShownNodes) -> None:
    check_whole(nodes)
    if nodes.alike.any():
        raise ParameterError(
            "some rows of this release read alike, so that the noise in them is not known: "
            f"{NEW_RELEASE}."
        )


def _column_noise(
    nodes: ShownNodes, facts: Mapping[str, Any], columns: MeasureColumns
) -> KnownNoise:
    unit, decimals = int(facts["unit"]), facts["decimals"]
    low, high = _drawn_range(nodes.frame[columns.value].to_numpy(), unit, decimals)
    variance, largest = None, None
    if "law" not in facts:
        variance, largest = _estimate_variances(nodes, facts["scales"])
    noise = KnownNoise(
        columns=columns,
        unit=unit,
        decimals=decimals,
        low=low,
        high=high,
        laws=(number_law(facts["law"]),) if "law" in facts else (),
        law=np.zeros_like(nodes.level),
        terms=np.ones_like(nodes.level),
        variance=variance,
        largest=largest,
    )
    return noise.within_intervals(nodes)


def _estimate_variances(
    nodes: ShownNodes, scales: Mapping[str, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The variances of the estimates, in units squared, and the largest share of one draw in
    each."""
    spread = {at: 2 * float(scale) ** 2 for at, scale in scales.items()}
    total = np.full(len(nodes.level), np.inf)
    for at, own in spread.items():
        if at != PARTS:
            total[nodes.level == int(at)] = own
    parts, forest = np.full(len(total), spread[PARTS]), Forest.of(nodes.ancestor)
    return variances(forest, parts, total)[1], largest_shares(forest, parts, total)


def _drawn_range(value: NDArray[Any], unit: int, decimals: int | None) -> tuple[Objects, Objects]:
    """The range of drawn numbers that the shown numbers leave, in units."""
    if decimals is None:
        return drawn_range(value.astype(np.int64).astype(object), unit)
    steps = [round(Fraction(x) * Fraction(10) ** decimals) for x in value.tolist()]
    doubt = [0 if abs(s) < PRECISE else abs(s) // PRECISE + 1 for s in steps]
    whole, left = np.array(steps, dtype=object), np.array(doubt, dtype=object)
    return whole - left, whole + left
