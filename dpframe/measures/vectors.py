"""Vectors of whole numbers, which a measure adds up over the parts of a selection.

A vector has one entry a part, and one record, or one user, moves it by at most ``most`` in total
(L1). Several vectors of one release are paid for one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, assert_never

from dpframe.measures.measure import AUTO, Measure
from dpframe.measures.steps import Steps

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
    if measure.kind == "distinct":
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
    if measure.kind != "sum":
        assert_never(measure.kind)
    vector = Vector(kind="sum", most=steps.most, column=column, steps=steps)
    if not measure.clipped:
        return (((vector,), Fraction(1)),)
    cut = Vector(kind="outside", most=unit, unit=unit, column=column, steps=steps)
    return ((vector,), 1 - CUT), ((cut,), CUT)
