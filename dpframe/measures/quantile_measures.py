"""Measures that count values in bins: medians, quantiles and histograms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal

from dpframe.common.calls import known_arguments
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.measures.bins import USUAL, Each, Spacing, checked_bins, checked_value, value_text
from dpframe.measures.measure import (
    AUTO,
    LARGEST_BOUND,
    LEAST_BOUND,
    Kind,
    Measure,
    checked_column,
    checked_number,
    checked_share,
)

Limit = float | str | date | timedelta
"""A bound of values in bins: a number, a date, a time, a duration, or the text of one."""

Split = int | Literal["whole"] | Sequence[Limit]
"""How many bins, or their edges."""


@known_arguments
def median(
    column: str,
    *,
    lower: Limit,
    upper: Limit,
    bins: Split = USUAL,
    spacing: Spacing | None = None,
    each: Each = "row",
    share: float = 1.0,
) -> Measure:
    """The median of the values of a column under every node: ``quantile(column, 0.5, ...)``.

    Parameters
    ----------
    column, lower, upper, bins, spacing, each, share
        As for :func:`quantile`.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.median("amount", lower=1, upper=500).spec
    'median(amount, 1, 500)'
    """
    return quantile(
        column, 0.5, lower=lower, upper=upper, bins=bins, spacing=spacing, each=each, share=share
    )


@known_arguments
def quantile(
    column: str,
    at: float,
    *,
    lower: Limit,
    upper: Limit,
    bins: Split = USUAL,
    spacing: Spacing | None = None,
    each: Each = "row",
    share: float = 1.0,
) -> Measure:
    """The least value that at least the part ``at`` of the values under every node do not exceed.

    Values are counted in bins, with noise; one record moves one bin at one part, whatever the
    number of quantiles. The quantile is where the noisy counts pass ``at`` of all values; its
    interval has every bin that the noise does not rule out. With ``user=`` every user weighs 1,
    divided evenly over their values, as for :func:`mean`.

    Parameters
    ----------
    column
        A column of numbers, dates, times or durations. The quantile has its type; decimals become
        floating-point numbers. NULL, NaN and infinite values count nothing.
    at
        Which part of the values, above 0 and below 1: 0.95 for the value that 5 % exceed.
    lower, upper
        Bounds between which bins lie, which must not be learned from the data: numbers; dates or
        times, or their texts; durations (``timedelta``, or text, ``"5400s"``). What is beyond a
        bound is counted there. Where the interval reaches beyond a bound, ``NAME_at_bound`` is
        True, and the quantile may lie farther out than the number says.
    bins
        How many bins (2 to 1,000), 64 by default; "whole" for one a whole number; or a list of
        edges between the bounds. A quantile is known to within a bin.
    spacing
        "proportion" for bins that grow with the distance from 0, from a hundredth of the larger
        bound on, or "even". The default is "proportion", for times "even".
    each
        With ``user=``: "row", the default, counts the value of every row, and each user weighs 1 in
        total, divided over their rows. "total" and "mean" count what a user's values add up to, or
        their mean, at every node: what a typical user spends there. A user then weighs 1 at every
        level, divided over their nodes of the level, and the noise grows with the number of levels.
    share
        Part of the budget, relative to other measures.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.quantile("amount", 0.95, lower=1, upper=500).spec
    'quantile(amount, 0.95, 1, 500)'
    """
    part = checked_part("at", at)
    return _binned_measure("quantile", column, lower, upper, bins, spacing, each, share, (part,))


@known_arguments
def quantiles(
    column: str,
    *,
    at: Sequence[float],
    lower: Limit,
    upper: Limit,
    bins: Split = USUAL,
    spacing: Spacing | None = None,
    each: Each = "row",
    share: float = 1.0,
) -> Measure:
    """Several quantiles of a column under every node, at the price of one.

    The columns of a measure ``spend`` at 0.5 and 0.95 are ``spend_p50`` and ``spend_p95``.

    Parameters
    ----------
    column, lower, upper, bins, spacing, each, share
        As for :func:`quantile`.
    at
        Which parts of the values, each above 0 and below 1, in rising order: up to 20.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.quantiles("amount", at=[0.5, 0.95], lower=1, upper=500).spec
    'quantiles(amount, 1, 500, at=[0.5, 0.95])'
    """
    if isinstance(at, (str, bytes)) or not isinstance(at, Sequence):
        raise ParameterTypeError(f"at must be a list of parts such as [0.5, 0.95]; got {at!r}.")
    parts = tuple(checked_part("at", one) for one in at)
    if not 1 <= len(parts) <= MOST_QUANTILES:
        raise ParameterError(
            f"at has {len(parts)} parts; it must list from 1 to {MOST_QUANTILES}, "
            "for example at=[0.5, 0.95]."
        )
    if any(a >= b for a, b in itertools.pairwise(parts)):
        raise ParameterError(f"at ({list(parts)}) must list rising parts, each once.")
    return _binned_measure("quantiles", column, lower, upper, bins, spacing, each, share, parts)


@known_arguments
def histogram(
    column: str,
    *,
    lower: Limit,
    upper: Limit,
    bins: Split = USUAL,
    spacing: Spacing | None = None,
    each: Each = "row",
    share: float = 1.0,
) -> Measure:
    """How many values of a column are in each of some bins, under every node.

    ``NAME`` is the number of values; ``NAME_bins`` lists the numbers of values below the lower
    bound, in every bin, and above the upper bound. ``result.dp.histogram`` makes a frame of them.

    Parameters
    ----------
    column, lower, upper, bins, spacing, each, share
        As for :func:`quantile`.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.histogram("amount", lower=0, upper=500, bins=[10, 50, 100]).spec
    'histogram(amount, 0, 500, bins=[10, 50, 100])'
    """
    return _binned_measure("histogram", column, lower, upper, bins, spacing, each, share, ())


LONGEST = 9e12
"""The largest bound of times and durations, in seconds: microseconds fit into 64 bits."""

MOST_QUANTILES = 20
"""The most quantiles of one measure: each has four columns."""


def checked_part(name: str, value: object) -> float:
    """A part of values, such as 0.5 for the median."""
    number = checked_number(name, value)
    if not 0 < number < 1:
        raise ParameterError(
            f"{name} ({value!r}) must be above 0 and below 1, such as 0.5 for the median. The "
            "least and the largest value belong to single records, and are not released."
        )
    return number


def _binned_measure(
    kind: Kind,
    column: object,
    lower: object,
    upper: object,
    bins: object,
    spacing: object,
    each: object,
    share: object,
    at: tuple[float, ...],
) -> Measure:
    what = checked_column("median" if kind == "quantile" and at == (0.5,) else kind, column)
    limits = {"lower": lower, "upper": upper}
    for name, limit in limits.items():
        if limit is None or (isinstance(limit, str) and limit.lower() == AUTO):
            raise ParameterError(
                f"{name} of {what} must be a value that is known without the data. Take wide "
                "bounds: bins in proportion lose little by them."
            )
    (low, value), (high, other) = (
        checked_value(f"{name} of {what}", limit) for name, limit in limits.items()
    )
    if value != other:
        raise ParameterTypeError(
            f"lower and upper of {what} must be of one kind: numbers, times or durations."
        )
    most = LARGEST_BOUND if value == "number" else LONGEST
    for name, number in (("lower", low), ("upper", high)):
        if not math.isfinite(number) or abs(number) > most:
            seconds = "" if value == "number" else " of seconds"
            raise ParameterError(
                f"{name} of {what} ({limits[name]!r}) must be a finite number{seconds} from "
                f"-{most:g} to {most:g}."
            )
    if low >= high:
        raise ParameterError(
            f"{what} has lower {value_text(low, value)} and upper {value_text(high, value)}, but "
            "lower must be below upper."
        )
    if max(abs(low), abs(high)) < LEAST_BOUND:
        raise ParameterError(
            f"{what} has both bounds below {LEAST_BOUND:g} in absolute terms. Write the values in "
            "a smaller unit."
        )
    if each not in ("row", "total", "mean"):
        raise ParameterError(f"each of {what} ({each!r}) must be 'row', 'total' or 'mean'.")
    if each != "row" and value == "time":
        raise ParameterError(f"each of {what} must be 'row': times have no {each}.")
    split, spaced = checked_bins(what, low, high, bins, spacing, value)
    return Measure(
        kind=kind,
        column=str(column),
        lower=low + 0.0,
        upper=high + 0.0,
        share=checked_share(share),
        at=at,
        split=split,
        spacing=spaced,
        value=value,
        each=each,
    )
