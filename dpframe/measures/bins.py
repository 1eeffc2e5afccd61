"""Bins of values between two bounds, for quantiles and histograms; and values in whole steps.

**Bins** are public: they follow from bounds, from a number of bins and from how they are spaced,
which are all arguments. A bin holds values from its lower edge to before its upper edge; the last
one holds its upper edge, too. What lies below the first edge or above the last one has a bin of its
own, so that a result can say that a quantile lies beyond a bound.

In which bin a value is depends on this value alone, by comparisons of floating-point numbers. Times
and durations are compared as seconds.

**Steps**: a value becomes a whole number, so that a sum on the private side is exact.

A value is clipped to its bounds and written as a multiple of a step, a power of ten that whole
numbers and decimals are multiples of. No floating-point number is ever summed: adding such numbers
rounds, and how it rounds depends on all rows (Mironov, "On Significance of the Least Significant
Bits for Differential Privacy", 2012; Casacuberta et al., "Widespread Underestimation of
Sensitivity in Differentially Private Libraries", 2022).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import Literal

from dpframe.errors import ParameterError, ParameterTypeError

USUAL = 64
"""Bins between the bounds, where nobody says how many."""

MOST = 1_000
"""The most bins between the bounds."""

Spacing = Literal["proportion", "even"]

ValueKind = Literal["number", "time", "duration"]
"""What values are: numbers, times in seconds since 1970, or durations in seconds."""

Each = Literal["row", "total", "mean"]
"""What is counted in bins, if users are protected: each row's value, or each user's total or mean
at a node."""

NEAR = 100
"""Bins around 0 are even up to this part of the larger bound; beyond it they grow in proportion."""

DIGITS = 20
"""An edge is rounded to a power of ten that is at most this part of the distance between edges."""


def double_sql(value: float) -> str:
    """SQL of a floating-point number, for DuckDB."""
    return f"({value!r})::DOUBLE"


@dataclass(frozen=True)
class Bins:
    """Bins between ascending edges, and one bin beyond each end.

    ``edges`` are at least three finite numbers, each above the one before it.
    """

    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        """The number of bins, with both that lie beyond the edges."""
        return len(self.edges) + 1

    def place(self, value: float) -> int:
        """The bin of a finite value, from 0, which lies below the first edge."""
        last = len(self.edges) - 1
        if value == self.edges[last]:
            return last
        return bisect.bisect_right(self.edges, value)

    def place_sql(self, number: str, edge_sql: Callable[[float], str] = double_sql) -> str:
        """SQL of the bin of a finite number, by halving: as many comparisons as for a search in a
        sorted list."""

        def between(low: int, high: int) -> str:
            if low == high:
                return str(low)
            middle = (low + high) // 2
            compared = "<=" if middle == len(self.edges) - 1 else "<"
            edge = edge_sql(self.edges[middle])
            return (
                f"CASE WHEN {number} {compared} {edge} THEN {between(low, middle)} "
                f"ELSE {between(middle + 1, high)} END"
            )

        return between(0, len(self.edges))

    @property
    def are_whole_numbers(self) -> bool:
        """Whether each bin between the bounds holds one whole number."""
        *wide, last = (b - a for a, b in itertools.pairwise(self.edges))
        return last == 0.5 and set(wide) == {1.0} and self.edges[0].is_integer()

    def edge_above(self, value: float) -> int:
        """The place of the edge that tells values above ``value`` from others: the next one, or in
        bins of one whole number each the first beyond it."""
        if self.are_whole_numbers:
            return min(bisect.bisect_right(self.edges, value), len(self.edges) - 1)
        place = bisect.bisect_left(self.edges, value, 1, len(self.edges) - 1)
        return place - (value - self.edges[place - 1] < self.edges[place] - value)

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """The sizes of groups of neighbouring bins that are measured, too; () for few bins, where
        bins alone are better.

        Errors are within 3 % of those of the best groups, from 16 to 256 bins
        (docs/decisions/0060-quantiles.md).
        """
        if self.size < FEWEST_GROUPED:
            return ()
        several = round(math.sqrt(self.size))
        each, more = divmod(self.size, several)
        return (each + 1,) * more + (each,) * (several - more)

    @property
    def group_starts(self) -> list[int]:
        """The first bin of every group."""
        return [0, *itertools.accumulate(self.groups[:-1])]

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """The parts of epsilon that bins and groups get."""
        return BIN_SHARE if self.groups else (Fraction(1), Fraction(0))


FEWEST_GROUPED = 50
"""The least number of bins that are measured in groups, too."""

BIN_SHARE = Fraction(27, 50), Fraction(23, 50)
"""The parts of epsilon for bins and for groups of bins."""


def made_edges(
    lower: float, upper: float, count: int, spacing: Spacing, kind: ValueKind = "number"
) -> tuple[float, ...]:
    """Edges of ``count`` bins between two bounds.

    In proportion, neighbouring edges of one sign have one quotient; where 0 lies between the bounds
    or is one, bins are even near 0, and grow in proportion from a hundredth of the larger bound on.
    """
    if spacing == "even":
        points = [lower + (upper - lower) * i / count for i in range(1, count)]
    elif lower > 0 or upper < 0:
        points = [lower * (upper / lower) ** (i / count) for i in range(1, count)]
    else:
        near = max(-lower, upper) / NEAR
        low, high = _bent(lower, near), _bent(upper, near)
        points = [_straight(low + (high - low) * i / count, near) for i in range(1, count)]
    whole = [lower, *points, upper]
    return lower, *_rounded_edges(whole, kind), upper


def _bent(value: float, near: float) -> float:
    return math.copysign(math.log1p(abs(value) / near), value)


def _straight(bent: float, near: float) -> float:
    return math.copysign(math.expm1(abs(bent)) * near, bent)


def axis_place(value: float, bounds: tuple[float, float], spacing: Spacing) -> float:
    """The place of a value on an axis on which bins that are spaced so are about equally wide."""
    low, high = bounds
    if spacing == "even":
        return value
    if low > 0:
        return math.log(value)
    if high < 0:
        return -math.log(-value)
    return _bent(value, max(-low, high) / NEAR)


def _rounded_edges(edges: Sequence[float], kind: ValueKind) -> list[float]:
    """All edges but the first and last, rounded to few digits, or of times and durations to whole
    days, hours, minutes or seconds; unrounded if two would be one."""
    found = []
    for before, edge, after in zip(edges, edges[1:], edges[2:], strict=False):
        wide = min(edge - before, after - edge)
        clock = next((unit for unit in CLOCK if 2 * unit <= wide), None)
        if kind != "number" and clock is not None:
            found.append(round(edge / clock) * clock)
        else:
            found.append(round(edge, -math.floor(math.log10(wide / DIGITS))) + 0.0)
    ends = [edges[0], *found, edges[-1]]
    rising = all(a < b for a, b in itertools.pairwise(ends))
    return found if rising else [*edges[1:-1]]


def checked_bins(
    what: str,
    lower: float,
    upper: float,
    bins: object,
    spacing: object,
    kind: ValueKind,
) -> tuple[int | Literal["whole"] | tuple[float, ...], Spacing]:
    """Check how many bins there are, or where, and how they are spaced; return both."""
    usual: Spacing = "even" if kind == "time" else "proportion"
    if spacing is not None and spacing not in ("proportion", "even"):
        raise ParameterError(
            f"spacing of {what} ({spacing!r}) must be 'proportion' or 'even'. Leave it out for "
            "the usual one, or list edges: bins=[...]."
        )
    chosen: Spacing = usual if spacing is None else spacing
    if chosen == "proportion" and kind == "time":
        raise ParameterError(
            f"spacing of {what} must be 'even': times have no zero to be in proportion to."
        )
    if isinstance(bins, str) and bins == "whole":
        if kind != "number" or not (lower.is_integer() and upper.is_integer()):
            raise ParameterError(
                f"bins='whole' of {what} needs whole numbers as bounds. Pass a number of bins, or "
                "list their edges."
            )
        if upper - lower > MOST:
            raise ParameterError(
                f"bins='whole' of {what} would be {upper - lower:,.0f} bins, above {MOST:,}. Pass "
                "a number of bins."
            )
        return "whole", chosen
    if isinstance(bins, (list, tuple)):
        return _checked_edges(what, bins, lower, upper, kind), chosen
    if isinstance(bins, bool) or not isinstance(bins, (int, float)):
        raise ParameterTypeError(
            f"bins of {what} must be a number of bins, 'whole', or a list of edges; got {bins!r}."
        )
    if not 2 <= bins <= MOST or bins != int(bins):
        raise ParameterError(
            f"bins of {what} ({bins:.12g}) must be a whole number from 2 to {MOST:,}. With one bin "
            "every value looks alike; more bins than that only add noise."
        )
    return int(bins), chosen


def _checked_edges(
    what: str, given: Sequence[object], lower: float, upper: float, kind: ValueKind
) -> tuple[float, ...]:
    edges = [checked_value(f"an edge of {what}", edge)[0] for edge in given]
    if any(checked_value(f"an edge of {what}", edge)[1] != kind for edge in given):
        raise ParameterTypeError(
            f"bins of {what} must list edges of the kind of its bounds, such as "
            f"{value_text(lower, kind)}."
        )
    inner = [edge for edge in edges if lower < edge < upper]
    rising = all(a < b for a, b in itertools.pairwise(edges))
    if not rising or len(inner) != len([e for e in edges if e not in (lower, upper)]):
        raise ParameterError(
            f"bins of {what} must list edges that rise from lower to upper, each once."
        )
    if not 1 <= len(inner) < MOST:
        raise ParameterError(
            f"bins of {what} must list from 1 to {MOST - 1:,} edges between lower and upper."
        )
    return (lower, *inner, upper)


def bins_between(
    lower: float,
    upper: float,
    bins: int | Literal["whole"] | tuple[float, ...],
    spacing: Spacing,
    kind: ValueKind,
) -> Bins:
    """The bins that checked arguments mean."""
    if isinstance(bins, tuple):
        return Bins(bins)
    if bins == "whole":  # the last value has a bin of its own, closed at the upper bound
        return Bins((*(float(v) for v in range(int(lower), int(upper) + 1)), upper + 0.5))
    if kind == "time" and bins > (days := (upper - lower) / DAY) >= 2 and days.is_integer():
        bins = int(days)
    return Bins(made_edges(lower, upper, bins, spacing, kind))


DAY = 86_400.0
CLOCK = DAY, 3_600.0, 60.0, 1.0


# -- values of arguments ---------------------------------------------------------------------------


def checked_value(what: str, value: object) -> tuple[float, ValueKind]:
    """A bound as a number, and what kind of value it is: a number, a date or time (or its text as
    ISO 8601 writes it), or a duration. Times without a zone are read as UTC."""
    if isinstance(value, str):
        value = _time_of_text(what, value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - EPOCH) / SECOND, "time"
    if isinstance(value, date):
        return (value - EPOCH.date()) / SECOND, "time"
    if isinstance(value, timedelta):
        return value / SECOND, "duration"
    from dpframe.budget import as_float

    number = as_float(value)
    if number is None:
        raise ParameterTypeError(
            f"{what} must be a number, a date, a time or a duration; got {value!r}."
        )
    return number, "number"


EPOCH, SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)


def _time_of_text(what: str, text: str) -> datetime | timedelta | float:
    named = text.strip()
    try:
        if named.endswith("s") and named[:-1].replace(".", "", 1).lstrip("-").isdigit():
            return timedelta(seconds=float(named[:-1]))
        return float(named)
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(named)
    except ValueError:
        raise ParameterError(
            f"{what} ({text!r}) must be a number, or a date or time such as 2026-11-01 or "
            "2026-11-01 08:30, or a duration in seconds such as 5400s."
        ) from None


def value_text(value: float, kind: ValueKind) -> str:
    """A value as ``checked_value`` reads it."""
    if kind == "number":
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if kind == "duration":
        return f"{value_text(value, 'number')}s"
    moment = EPOCH + timedelta(seconds=value)
    midnight = moment.time() == datetime.min.time()
    return moment.date().isoformat() if midnight else moment.replace(tzinfo=None).isoformat()


def spoken_value(value: float, kind: ValueKind) -> str:
    """A value for people."""
    if kind == "number":
        return f"{value:,.12g}"
    return value_text(value, kind) if kind == "time" else duration_text(value, len(CLOCK) - 1)


def moment_text(seconds: float, digits: int) -> str:
    """A time for people, rounded to the unit at the place ``digits`` of ``CLOCK``."""
    unit = CLOCK[min(digits, len(CLOCK) - 1)]
    moment = EPOCH + timedelta(seconds=round(seconds / unit) * unit)
    if digits == 0:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%d %H:%M}" if unit > CLOCK[-1] else f"{moment:%Y-%m-%d %H:%M:%S}"


def duration_text(seconds: float, digits: int) -> str:
    """A duration for people: units down to the one at the place ``digits`` of ``CLOCK``, without
    those of which there are none; seconds with decimals from there on."""
    last = len(CLOCK) - 1
    places, unit = max(0, digits - last), CLOCK[min(digits, last)]
    rest = round(round(abs(seconds) / unit, places) * unit, places)
    parts = []
    for one, name in zip(CLOCK[:-1], UNIT_NAMES, strict=False):
        whole, rest = divmod(rest, one)
        parts += [f"{whole:,.0f} {name}"] if whole else []
    if rest or not parts:
        parts.append(f"{rest:.{places}f} {UNIT_NAMES[min(digits, last)]}")
    sign = "-" if seconds < 0 and any(digit in "".join(parts) for digit in "123456789") else ""
    return sign + " ".join(parts)


UNIT_NAMES = "d", "h", "min", "s"


# -- steps -----------------------------------------------------------------------------------------

STEP_DIGITS = 10
"""Decimal digits of the larger bound, in steps: a value is rounded by at most 5e-10 of it."""

WHOLE_DIGITS = 13
"""Digits up to which the step stays 1 for large bounds, so that whole numbers are exact."""

FARTHEST = 10**15
"""Steps beyond which a single value is cut before it enters the total of a user, whose bound cuts
further: sums of all rows of all users fit 128 bits, times a bound."""


@dataclass(frozen=True)
class Steps:
    """How values between two bounds become whole numbers.

    Parameters
    ----------
    lower, upper
        Bounds, finite, the first below the second.
    """

    lower: float
    upper: float

    @cached_property
    def decimals(self) -> int:
        """The step is 10 ** -decimals."""
        largest = max(abs(Fraction(self.lower)), abs(Fraction(self.upper)))
        digits = 1
        while Fraction(10) ** digits <= largest:
            digits += 1
        while Fraction(10) ** (digits - 1) > largest:
            digits -= 1
        if STEP_DIGITS <= digits <= WHOLE_DIGITS:
            return 0
        return (STEP_DIGITS if digits < STEP_DIGITS else WHOLE_DIGITS) - digits

    def of(self, value: float) -> int:
        """A value in steps, to the nearest: the same floating-point product, or quotient, and the
        same rounding as in SQL. All three are monotone, so that a value between two others is
        between them in steps, too."""
        ten = 10.0 ** abs(self.decimals)
        scaled = value * ten if self.decimals >= 0 else value / ten
        whole = math.floor(abs(scaled))
        return int(math.copysign(whole + (abs(scaled) - whole >= 0.5), scaled))

    @property
    def low(self) -> int:
        return self.of(self.lower)

    @property
    def high(self) -> int:
        return self.of(self.upper)

    @property
    def most(self) -> int:
        """The largest absolute value, in steps."""
        return max(abs(self.low), abs(self.high))

    @property
    def width(self) -> int:
        """The distance of the bounds, in steps; 1 where both are one step."""
        return max(self.high - self.low, 1)

    @property
    def step(self) -> float:
        """The step in units of the value."""
        return float(Fraction(10) ** -self.decimals)

    def value(self, steps: float) -> float:
        """Steps in units of the value."""
        if self.decimals >= 0:
            return float(Fraction(steps) / 10**self.decimals) if steps == steps else math.nan
        return float(Fraction(steps) * 10**-self.decimals)


def value_sql(column: str, steps: Steps, *, clipped: bool) -> str:
    """SQL of a value in steps, BIGINT; NULL for what is no value: NULL, NaN, infinite, no number.

    ``column`` is the SQL of a number, or of text that is read as one. Without ``clipped`` only
    values beyond ``FARTHEST`` are cut. What a value becomes depends on this value alone.
    """
    low, high = reach(steps, clipped=clipped)
    number, scale = f"TRY_CAST({column} AS DOUBLE)", double_sql(10.0 ** abs(steps.decimals))
    scaled = f"{number} {'*' if steps.decimals > 0 else '/'} {scale}" if steps.decimals else number
    return (  # a value within its bounds, which most are, costs one product
        f"CASE WHEN isfinite({number}) AND {number} BETWEEN {double_sql(low)} AND "
        f"{double_sql(high)} "
        f"THEN CAST(round({scaled}) AS BIGINT) WHEN isfinite({number}) "
        f"THEN CASE WHEN {number} < {double_sql(low)} THEN {steps.of(low)}::BIGINT "
        f"ELSE {steps.of(high)}::BIGINT END END"
    )


def present_sql(column: str) -> str:
    """SQL of whether there is a value, 1 or 0."""
    return f"CASE WHEN isfinite(TRY_CAST({column} AS DOUBLE)) THEN 1 ELSE 0 END"


def reach(steps: Steps, *, clipped: bool) -> tuple[float, float]:
    """What a value is cut to: its bounds, or what sums can hold."""
    if clipped:
        return steps.lower, steps.upper
    return steps.value(-FARTHEST), steps.value(FARTHEST)


def outside_sql(column: str, steps: Steps) -> str:
    """SQL of whether a value is beyond its bounds."""
    number = f"TRY_CAST({column} AS DOUBLE)"
    inside = f"BETWEEN {double_sql(steps.lower)} AND {double_sql(steps.upper)}"
    return f"(isfinite({number}) AND {number} NOT {inside})"
