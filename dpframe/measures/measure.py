"""Measures: what a rollup takes at every node, and the vectors that it adds up for them.

A measure is public: what it is, of which column, and the bounds within which values count. It is
written as an object, ``dp.sum("amount", lower=0, upper=500)``, or as the text
``sum(amount, 0, 500)``, which SQL and the command line take.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from dpframe.budget import as_float
from dpframe.common.calls import known_arguments
from dpframe.common.texts import is_unicode
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.measures.bins import (
    USUAL,
    Bins,
    Each,
    Spacing,
    Steps,
    ValueKind,
    bins_between,
    value_text,
)

Kind = Literal["count", "sum", "mean", "distinct", "quantile", "quantiles", "histogram"]

BINNED = ("quantile", "quantiles", "histogram")
"""Kinds that count values in bins."""

AUTO: Literal["auto"] = "auto"
"""In the place of a bound: find a power of two privately."""

Bound = float | Literal["auto"]

LARGEST_BOUND = 1e15
"""The largest bound of values, in absolute terms."""

LEAST_BOUND = 1e-200
"""The least larger bound, in absolute terms: a value in steps of it is a double on the way."""

MOST_SHARE = 1e6
"""The largest share of the budget, relative to other measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One measure of a rollup; made by :func:`count`, :func:`sum`, :func:`mean` and others.

    ``column`` is None for what counts rows. ``lower`` and ``upper`` are the bounds of values, None
    for a measure without bounds; ``share`` is the part of the budget, relative to other measures.
    ``at_most`` says for a count how many rows of a user count (None counts every user as 1), and
    for distinct values how many of a user count at each level.
    """

    kind: Kind
    column: str | None = None
    lower: Bound | None = None
    upper: Bound | None = None
    at_most: int | None = None
    clipped: bool = False
    share: float = 1.0
    at: tuple[float, ...] = ()
    split: int | Literal["whole"] | tuple[float, ...] = USUAL
    spacing: Spacing = "proportion"
    value: ValueKind = "number"
    each: Each = "row"

    @property
    def spec(self) -> str:
        """The text that means this measure; stored in requests."""
        own: list[str] = []
        if self.column is not None:
            own.append(quote_column(self.column))
        if self.kind == "quantile" and not self.is_median:
            own.append(_bound_text(self.at[0]))
        own += [self._limit_text(bound) for bound in (self.lower, self.upper) if bound is not None]
        if self.kind == "quantiles":
            own.append(f"at=[{', '.join(map(_bound_text, self.at))}]")
        if isinstance(self.split, tuple):
            own.append(f"bins=[{', '.join(map(self._limit_text, self.split[1:-1]))}]")
        elif self.split != USUAL:
            own.append(f"bins={self.split}")
        if self.spacing != ("even" if self.value == "time" else "proportion"):
            own.append(f"spacing={self.spacing}")
        if self.each != "row":
            own.append(f"each={self.each}")
        if self.clipped:
            own.append("clipped=true")
        if self.at_most is not None:
            own.append(f"at_most={self.at_most}")
        if self.share != 1:
            own.append(f"share={_bound_text(self.share)}")
        kind = "median" if self.is_median else self.kind
        return f"{kind}({', '.join(own)})" if own else kind

    def _limit_text(self, bound: Bound) -> str:
        return bound if isinstance(bound, str) else value_text(bound, self.value)

    @property
    def is_median(self) -> bool:
        return self.kind == "quantile" and self.at == (0.5,)

    @property
    def is_binned(self) -> bool:
        """Whether values are counted in bins."""
        return self.kind in BINNED

    @property
    def bins(self) -> Bins:
        """The bins of values; only for measures that count in bins."""
        assert isinstance(self.lower, float)
        assert isinstance(self.upper, float)
        return bins_between(self.lower, self.upper, self.split, self.spacing, self.value)

    @property
    def steps(self) -> Steps:
        """The steps of values between the bounds; only for sums and means."""
        assert isinstance(self.lower, float)
        assert isinstance(self.upper, float)
        return Steps(self.lower, self.upper)

    @property
    def needs_search(self) -> bool:
        """Whether a bound is left to a private search."""
        return AUTO in (self.lower, self.upper)

    def with_bounds(self, lower: float, upper: float) -> Measure:
        """This measure with these bounds."""
        return replace(self, lower=lower, upper=upper)

    @property
    def columns(self) -> tuple[str, ...]:
        """What follows the name of a measure in the columns of a result."""
        ends = ("", "_lower", "_upper")
        if self.clipped:
            return (*ends, *(f"_clipped{end}" for end in ends))
        if not self.is_binned:
            return ends
        if self.kind == "histogram":
            return (*ends, BINS_END)
        each = (*ends, AT_BOUND_END)
        return (*(f"{own}{end}" for own in self.quantile_ends for end in each), BINS_END)

    @property
    def quantile_ends(self) -> tuple[str, ...]:
        """What follows the name of a measure in the column of each of its quantiles."""
        return ("",) if self.kind == "quantile" else tuple(map(quantile_end, self.at))

    @property
    def default_name(self) -> str:
        """The column of a result, where nobody names it."""
        if self.column is None:
            return self.kind
        if self.kind == "quantile" and not self.is_median:
            return f"{quantile_end(self.at[0])[1:]}_{self.column}"
        return f"{'median' if self.is_median else self.kind}_{self.column}"


BINS_END, AT_BOUND_END = "_bins", "_at_bound"
"""What follows the name in the column of the numbers of values in all bins, and in the column that
says whether an interval reaches beyond a bound."""


def quantile_end(at: float) -> str:
    """What follows the name of a measure in the column of one of several quantiles: ``_p95``."""
    return f"_p{100 * at:.10g}".replace(".", "_")


@known_arguments
def count(*, at_most: int | None = None, share: float = 1.0) -> Measure:
    """Rows under every node; with ``user=`` users, who weigh 1 each.

    Parameters
    ----------
    at_most
        With ``user=``: count rows, at most so many of each user (1 to 1e9); a user with more rows
        counts as so many, spread over all of them. None counts users, divided over their rows.
    share
        Part of the budget, relative to other measures.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.count().spec
    'count'
    """
    if at_most is not None:
        at_most = _checked_whole("at_most", at_most, 1, 10**9)
    return Measure(kind="count", at_most=at_most, share=checked_share(share))


@known_arguments
def sum(
    column: str, *, lower: Bound, upper: Bound, clipped: bool = False, share: float = 1.0
) -> Measure:
    """The sum of a column under every node.

    Parameters
    ----------
    column
        A column of integers, decimals or floating-point numbers. NULL, NaN and infinite values
        count nothing.
    lower, upper
        Bounds of one value; with ``user=`` bounds of everything that a user adds up to, with 0
        between them. What is beyond a bound is cut to it, a bias that no interval covers. The noise
        grows with the bound that is larger in absolute terms, which must not be learned from the
        data. "auto" finds a bound, a power of two, privately, for a quarter of the measure's
        epsilon each; the receipt says which.
    clipped
        Whether the number of values that were cut is a further measure, ``NAME_clipped``, for a
        tenth of the measure's epsilon; with ``user=`` it counts users, divided over their values.
    share
        Part of the budget, relative to other measures.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.sum("amount", lower=0, upper=500).spec
    'sum(amount, 0, 500)'
    """
    if not isinstance(clipped, bool):
        raise ParameterTypeError(f"clipped must be True or False; got {clipped!r}.")
    return _bounded_measure("sum", column, lower, upper, share, clipped)


@known_arguments
def mean(column: str, *, lower: Bound, upper: Bound, share: float = 1.0) -> Measure:
    """The mean of the values of a column under every node that are not NULL.

    With ``user=`` every user weighs 1, divided evenly over their values: the mean of what a user
    has, so that nobody's number of rows moves it.

    Parameters
    ----------
    column
        As for :func:`sum`.
    lower, upper
        Bounds of one value, also with ``user=``; "auto" as for :func:`sum`. The noise grows with
        their distance.
    share
        Part of the budget, relative to other measures.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.mean("amount", lower=0, upper=500, share=2).spec
    'mean(amount, 0, 500, share=2)'
    """
    return _bounded_measure("mean", column, lower, upper, share)


@known_arguments
def distinct(column: str, *, at_most: int | None = None, share: float = 1.0) -> Measure:
    """How many different values of a column there are under every node.

    They do not add up: a value that is under two nodes is one above them. Each shown node is
    counted on its own, so the noise grows with the number of levels.

    Parameters
    ----------
    column
        A column of any type; NULL is no value. With ``user=`` it can be the column of users: how
        many users a node has.
    at_most
        With ``user=`` (1 to 1,000, 16 by default): for the column of users, at how many nodes of a
        level a user counts, chosen at random; for another column, how many values a user can be
        matched with at each level. A value counts at a node if it is matched with a user who has it
        there; as many as possible are (docs/guarantees.md, Measures, point 6). By rounds
        ``"count"`` counts users with less noise.
    share
        Part of the budget, relative to other measures.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.distinct("customer_id", at_most=10).spec
    'distinct(customer_id, at_most=10)'
    """
    checked_column("distinct", column)
    if at_most is not None:
        at_most = _checked_whole("at_most", at_most, 1, 1_000)
    return Measure(kind="distinct", column=column, at_most=at_most, share=checked_share(share))


def checked_column(kind: str, column: object) -> str:
    """A measure in words, after a check of its column."""
    if not isinstance(column, str):
        raise ParameterTypeError(
            f"dp.{kind} needs the name of a column; got {type(column).__name__}."
        )
    if not column or not is_unicode(column):
        raise ColumnError(f"dp.{kind}({column!r}) must name a column by non-empty text.")
    return f"dp.{kind}({column!r})"


def _bounded_measure(
    kind: Kind,
    column: object,
    lower: object,
    upper: object,
    share: object,
    clipped: bool = False,
) -> Measure:
    what = checked_column(kind, column)
    low, high = _checked_bound(f"lower of {what}", lower), _checked_bound(f"upper of {what}", upper)
    if not isinstance(low, str) and not isinstance(high, str) and low >= high:
        raise ParameterError(
            f"{what} has lower {_bound_text(low)} and upper {_bound_text(high)}, but lower must "
            "be below "
            "upper."
        )
    for name, bound, beyond in (("lower", low, 1), ("upper", high, -1)):
        if AUTO in (low, high) and not isinstance(bound, str) and bound * beyond > 0:
            raise ParameterError(
                f"{what} has {name}={_bound_text(bound)} and searches the other bound, on the "
                "other "
                "side of 0. Pass both bounds, or 0."
            )
    given = [abs(bound) for bound in (low, high) if not isinstance(bound, str)]
    if len(given) == 2 and max(given) < LEAST_BOUND:
        raise ParameterError(
            f"{what} has lower {_bound_text(low)} and upper {_bound_text(high)}, both below "
            f"{LEAST_BOUND:g} in absolute terms. Write the values in a smaller unit."
        )
    return Measure(
        kind=kind,
        column=str(column),
        lower=low,
        upper=high,
        clipped=clipped,
        share=checked_share(share),
    )


def _checked_bound(what: str, value: object) -> Bound:
    if isinstance(value, str) and value.lower() == AUTO:
        return AUTO
    if value is None:
        raise ParameterError(
            f"{what} is missing. Say between which bounds values count, for example lower=0, "
            "upper=500; they must not be learned from the data."
        )
    number = checked_number(what, value)
    if not math.isfinite(number) or abs(number) > LARGEST_BOUND:
        raise ParameterError(
            f"{what} ({value!r}) must be a finite number from -{LARGEST_BOUND:g} to "
            f"{LARGEST_BOUND:g}."
        )
    return number + 0.0  # no negative zero


def checked_share(value: object) -> float:
    number = checked_number("share", value)
    if not 1 / MOST_SHARE <= number <= MOST_SHARE:
        raise ParameterError(
            f"share ({value!r}) must be a number from {1 / MOST_SHARE:g} to {MOST_SHARE:g}. It is "
            "relative to other measures."
        )
    return number


def checked_number(what: str, value: object) -> float:
    number = as_float(value)
    if number is None:
        raise ParameterTypeError(f"{what} must be a number; got {value!r}.")
    return number


def _checked_whole(what: str, value: object, low: int, high: int) -> int:
    number = checked_number(what, value)
    if not low <= number <= high or not number.is_integer():
        raise ParameterError(f"{what} ({value!r}) must be a whole number from {low} to {high}.")
    return int(number)


# -- as text ---------------------------------------------------------------------------------------

PLAIN = re.compile(r"^[^\s,\"()=][^,\"()=]*(?<!\s)$")


def quote_column(name: str) -> str:
    """A column as the text of a measure names it."""
    return name if PLAIN.match(name) else '"' + name.replace('"', '""') + '"'


def _bound_text(value: Bound) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


# -- vectors: what a measure adds up over the parts of a selection --------------------------------
#
# A vector has one entry a part, and one record, or one user, moves it by at most ``most`` in total
# (L1). Several vectors of one release are paid for one by one.


GRID = 2**20
"""Units that a user, or a row of a user, is divided into."""

VectorKind = Literal["rows", "users", "sum", "above", "below", "outside"]


@dataclass(frozen=True, kw_only=True)
class Vector:
    """One vector.

    ``kind`` is what it adds up: "rows", "users" (each 1 in total, divided over their rows), the
    "sum" of a column, by how much its values are "above" the lower bound, by how much "below" the
    upper one, or its values "outside" of the bounds. In the last three, by user, each user weighs 1
    in total. ``unit`` is what one row, user or step of a value is divided into; ``most`` is in
    these units.
    """

    kind: VectorKind
    most: int
    unit: int = 1
    column: str | None = None
    steps: Steps | None = None

    @property
    def of_total(self) -> bool:
        """Whether the bounds are for a user's total, if users are protected."""
        return self.kind in ("sum", "outside")

    @property
    def bounds(self) -> Steps:
        """The steps of values; only for vectors of a column."""
        assert self.steps is not None
        return self.steps


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """Numbers of different values of a column at every node, which add up to nothing.

    Parameters
    ----------
    column
        Whose values.
    at_most
        Pairs of node and value of one user that count at each level; None by record.
    touched
        By how much one record, or one user, moves all counts of all levels together.
    singly
        Whether each count moves by at most 1.
    """

    column: str
    at_most: int | None
    touched: int
    singly: bool


@dataclass(frozen=True, kw_only=True)
class BinVectors:
    """Numbers of values of a column in every bin, one vector a bin.

    A record is in one bin at one part. A user weighs ``unit`` in total, divided evenly over their
    values. So a unit moves all vectors together by at most ``unit``, and so it does sums of them
    over groups of bins. With another ``each`` than rows a user weighs that at each of ``levels``
    levels, divided evenly over the nodes that they have there. ``value`` says what values are.
    """

    column: str
    bins: Bins
    value: ValueKind
    unit: int
    each: Each = "row"
    levels: int = 1

    @property
    def most(self) -> int:
        """By how much one record, or one user, moves all vectors together."""
        return self.unit * self.levels

    @property
    def steps(self) -> Steps:
        """Values as whole numbers, for totals of users."""
        return Steps(self.bins.edges[0], self.bins.edges[-1])


def bin_vectors_of(measure: Measure, *, by_user: bool, height: int) -> BinVectors | None:
    """The bins that a measure counts in, if it does; ``height`` is 0 for cells, whose segments are
    one level."""
    if not measure.is_binned:
        return None
    return BinVectors(
        column=str(measure.column),
        bins=measure.bins,
        value=measure.value,
        unit=GRID if by_user else 1,
        each=measure.each,
        levels=1 if measure.each == "row" else height + 1,
    )


def distinct_of(measure: Measure, *, user: str | None, height: int | None) -> Distinct | None:
    """What a measure counts node by node, if it does: at ``height`` levels and the root; if that is
    None, in the segments of cells, where a record is in one segment."""
    if measure.kind != "distinct" or measure.column is None:
        return None
    most = 1 if user is None else measure.at_most or 1
    of_users = user is None or measure.column == user
    root = 1 if of_users else most
    return Distinct(
        column=measure.column,
        at_most=None if user is None else most,
        touched=most if height is None else root + height * most,
        singly=of_users,
    )


@dataclass(frozen=True, kw_only=True)
class AutoBound:
    """A bound that is searched: the upper one among what is above 0, or the lower one below.

    ``of_total`` says that with users it bounds what a user adds up to; otherwise it bounds their
    largest value.
    """

    column: str
    side: Literal["upper", "lower"]
    of_total: bool


LEAST, LARGEST = -30, 49
"""Exponents of the first and the last bin of magnitudes; these bins take what is beyond them, too.
A value v above 0 is in bin floor(log2 v)."""


def searches_of(measure: Measure) -> tuple[AutoBound, ...]:
    """The bounds of a measure that are searched."""
    own = (("lower", measure.lower), ("upper", measure.upper))
    return tuple(
        AutoBound(
            column=str(measure.column),
            side="upper" if side == "upper" else "lower",
            of_total=measure.kind == "sum",
        )
        for side, bound in own
        if bound == AUTO
    )


CUT = Fraction(1, 10)
"""The part of a sum's epsilon that counts what was cut."""


def vectors_of(
    measure: Measure, *, by_user: bool
) -> tuple[tuple[tuple[Vector, ...], Fraction], ...]:
    """The vectors of a measure, in groups with their parts of the measure's epsilon; none for a
    measure that does not add up. The vectors of a group together move by ``most``, not each of
    them: they are paid for as one.

    A mean is made of how far values are above the lower bound and below the upper one: for any one
    value the two add up to the distance of the bounds. Their sum tells how many values there are,
    their difference how far these are from the middle.
    """
    if measure.kind in ("distinct", *BINNED):
        return ()
    unit = GRID if by_user else 1
    if measure.kind == "count":
        kind: VectorKind = "users" if by_user and measure.at_most is None else "rows"
        most = unit * (measure.at_most or 1)
        return (((Vector(kind=kind, most=most, unit=unit),), Fraction(1)),)
    steps, column = measure.steps, measure.column
    if measure.kind == "mean":
        above = Vector(kind="above", most=steps.width, column=column, steps=steps)
        return (((above, replace(above, kind="below")), Fraction(1)),)
    assert measure.kind == "sum"
    vector = Vector(kind="sum", most=steps.most, column=column, steps=steps)
    if not measure.clipped:
        return (((vector,), Fraction(1)),)
    cut = Vector(kind="outside", most=unit, unit=unit, column=column, steps=steps)
    return ((vector,), 1 - CUT), ((cut,), CUT)
