"""Measures: what a rollup takes at every node, as callers declare it.

A measure is public: what it is, of which column, and the bounds within which values count. It is
written as an object, ``dp.sum("amount", lower=0, upper=500)``, or as the text
``sum(amount, 0, 500)``, which SQL and the command line take.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

from dpframe.budget import as_float
from dpframe.common.calls import known_arguments
from dpframe.common.unicode import is_unicode
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.measures.steps import Steps

Kind = Literal["count", "sum", "mean", "distinct"]

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
    """One measure of a rollup; made by :func:`count`, :func:`sum` and :func:`mean`.

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

    @property
    def spec(self) -> str:
        """The text that means this measure; stored in requests."""
        own: list[str] = []
        if self.column is not None:
            own.append(quote_column(self.column))
        own += [_bound_text(bound) for bound in (self.lower, self.upper) if bound is not None]
        if self.clipped:
            own.append("clipped=true")
        if self.at_most is not None:
            own.append(f"at_most={self.at_most}")
        if self.share != 1:
            own.append(f"share={_bound_text(self.share)}")
        return f"{self.kind}({', '.join(own)})" if own else self.kind

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
        return (*ends, *(f"_clipped{end}" for end in ends)) if self.clipped else ends

    @property
    def default_name(self) -> str:
        """The column of a result, where nobody names it."""
        return self.kind if self.column is None else f"{self.kind}_{self.column}"


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
    return Measure(kind="count", at_most=at_most, share=_checked_share(share))


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
        level a user counts; for another column, how many pairs of a node and a value of each user
        count at each level. Which of them count is chosen at random. By rounds ``"count"`` counts
        users with less noise.
    share
        Part of the budget, relative to other measures.

    Examples
    --------
    >>> import dpframe as dp
    >>> dp.distinct("customer_id", at_most=10).spec
    'distinct(customer_id, at_most=10)'
    """
    if not isinstance(column, str):
        raise ParameterTypeError(
            f"dp.distinct needs the name of a column; got {type(column).__name__}."
        )
    if not column or not is_unicode(column):
        raise ColumnError(f"dp.distinct({column!r}) must name a column by non-empty text.")
    if at_most is not None:
        at_most = _checked_whole("at_most", at_most, 1, 1_000)
    return Measure(kind="distinct", column=column, at_most=at_most, share=_checked_share(share))


def _bounded_measure(
    kind: Kind,
    column: object,
    lower: object,
    upper: object,
    share: object,
    clipped: bool = False,
) -> Measure:
    if not isinstance(column, str):
        raise ParameterTypeError(
            f"dp.{kind} needs the name of a column; got {type(column).__name__}."
        )
    if not column or not is_unicode(column):
        raise ColumnError(f"dp.{kind}({column!r}) must name a column by non-empty text.")
    what = f"dp.{kind}({column!r})"
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
        column=column,
        lower=low,
        upper=high,
        clipped=clipped,
        share=_checked_share(share),
    )


def _checked_bound(what: str, value: object) -> Bound:
    if isinstance(value, str) and value.lower() == AUTO:
        return AUTO
    if value is None:
        raise ParameterError(
            f"{what} is missing. Say between which bounds values count, for example lower=0, "
            "upper=500; they must not be learned from the data."
        )
    number = _checked_number(what, value)
    if not math.isfinite(number) or abs(number) > LARGEST_BOUND:
        raise ParameterError(
            f"{what} ({value!r}) must be a finite number from -{LARGEST_BOUND:g} to "
            f"{LARGEST_BOUND:g}."
        )
    return number + 0.0  # no negative zero


def _checked_share(value: object) -> float:
    number = _checked_number("share", value)
    if not 1 / MOST_SHARE <= number <= MOST_SHARE:
        raise ParameterError(
            f"share ({value!r}) must be a number from {1 / MOST_SHARE:g} to {MOST_SHARE:g}. It is "
            "relative to other measures."
        )
    return number


def _checked_number(what: str, value: object) -> float:
    number = as_float(value)
    if number is None:
        raise ParameterTypeError(f"{what} must be a number; got {value!r}.")
    return number


def _checked_whole(what: str, value: object, low: int, high: int) -> int:
    number = _checked_number(what, value)
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
