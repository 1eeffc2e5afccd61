"""Blocks: which part of the time of a column a release reads, as a ledger stores it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dpframe.errors import ParameterError, ParameterTypeError

FARTHEST = 2**47
"""Seconds from 1970 to either end of an axis: four million years, beyond all calendars."""

NULL_FIRST, NULL_LAST = -FARTHEST, 1 - FARTHEST
"""The one second that stands for NULL times: no period of times reaches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The part of an axis that a release reads: ``first <= time < last``.

    A release that is charged with blocks reads only records whose time on the axis lies in them;
    whoever charges it vouches for that. Releases whose blocks do not overlap cost a ledger what
    the dearest of them costs (docs/decisions/0022-blocks.md).

    Parameters
    ----------
    axis
        The column, and how its times are read: two readings of one column are two axes.
    first, last
        Whole seconds since 1970 in that reading, half open, less than ``FARTHEST`` away.
        :meth:`of_null` makes the block of the records whose time is NULL.

    Raises
    ------
    ParameterError, ParameterTypeError
        An axis without a name, ends that are no whole numbers, or no time between them.

    Examples
    --------
    >>> Blocks(axis="when as written", first=0, last=86400).overlaps(
    ...     Blocks(axis="when as written", first=86400, last=2 * 86400))
    False
    """

    axis: str
    first: int
    last: int

    def __post_init__(self) -> None:
        if not isinstance(self.axis, str):
            raise ParameterTypeError(f"axis must be a text; got {type(self.axis).__name__}.")
        if not self.axis or "\0" in self.axis:
            raise ParameterError(
                f"axis ({self.axis!r}) must name a column and how its times are read."
            )
        for name, value in (("first", self.first), ("last", self.last)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ParameterTypeError(
                    f"{name} must be a whole number of seconds since 1970; got {value!r}."
                )
        if (self.first, self.last) == (NULL_FIRST, NULL_LAST):
            return
        for name, value in (("first", self.first), ("last", self.last)):
            if not -FARTHEST < value < FARTHEST:
                raise ParameterError(f"{name} ({value!r}) must be less than 2**47 s from 1970.")
        if self.first >= self.last:
            raise ParameterError(
                f"first ({self.first!r}) must be before last ({self.last!r}), the first second "
                "after the block."
            )

    @classmethod
    def of_null(cls, axis: str) -> Blocks:
        """The block of the records whose time is NULL."""
        return cls(axis=axis, first=NULL_FIRST, last=NULL_LAST)

    @property
    def is_null(self) -> bool:
        """Whether this is the block of NULL times."""
        return self.first == NULL_FIRST

    def overlaps(self, other: Blocks) -> bool:
        """Whether a record may be in both blocks: always, if their axes differ."""
        return self.axis != other.axis or (self.first < other.last and other.first < self.last)


def block_text(first: int, last: int) -> str:
    """A stretch of an axis as people read it: its first moment, and the first moment after it."""
    if (first, last) == (NULL_FIRST, NULL_LAST):
        return "NULL"
    return f"{moment_text(first)} to before {moment_text(last)}"


def moment_text(seconds: int) -> str:
    """Seconds since 1970 as date and time, whatever the zone they are read in; "ever" for an end of
    the axis."""
    if seconds <= NULL_LAST or seconds >= FARTHEST:
        return "ever"
    try:
        time = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds} s since 1970"
    whole_day = (time.hour, time.minute, time.second) == (0, 0, 0)
    return time.date().isoformat() if whole_day else time.isoformat(sep=" ")
