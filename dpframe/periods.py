"""Periods of time: as people write them, and as moments.

Periods are years, quarters, months, ISO weeks, days, hours, and ranges of them.

Texts are those of ISO 8601: ``2026``, ``2026-11``, ``2026-W47``, ``2026-11-22``, ``2026-11-22T13``,
and ``2026-Q4``; a range ``2026-W40..2026-W47`` includes both ends. A period is half open: it holds
its first instant, and the first instant after it belongs to the next. The records whose time is
NULL are a period of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from typing import Any, Literal

import numpy as np

from dpframe.errors import ParameterError, ParameterTypeError

Unit = Literal["year", "quarter", "month", "week", "day", "hour"]
Bounds = tuple[datetime, datetime]

YEARS = (1000, 9998)
"""First and last year: four digits, and every bound in every zone is a ``datetime``."""

EXAMPLES = (
    "'2026', '2026-Q4', '2026-11', '2026-W47', '2026-11-22', '2026-11-22T13' or a range such as "
    "'2026-W40..2026-W47'"
)

OF_NUMPY = {"Y": "year", "M": "month", "D": "day", "h": "hour"}
"""Units of ``numpy.datetime64`` that are ours. Its weeks begin on a Thursday."""

OF_PANDAS = {
    "A-DEC": "%Y",
    "Y-DEC": "%Y",
    "Q-DEC": "%Y-Q%q",
    "M": "%Y-%m",
    "W-SUN": "%G-W%V",
    "D": "%Y-%m-%d",
    "H": "%Y-%m-%dT%H",
    "h": "%Y-%m-%dT%H",
}
"""Frequencies of ``pandas.Period`` that are units, and how these are written. Weeks to a Sunday are
weeks of ISO 8601; a period that ends on another day or in another month is a range of days."""

PARTS = re.compile(
    r"(\d{4})[-/. ]?(?:([WQ])-?(\d{1,2})|(\d{1,2})(?:[-/.](\d{1,2})(?:[T ](\d{1,2})[:\d.]*)?)?)",
    re.ASCII,
)
"""Pattern of a period in another writing, such as ``2026/1/5`` or ``2026 W7``: the year, then a
letter and a number, or a month, perhaps with day and hour."""

FREQUENCY = re.compile(r"(W|Q|QE|QS|Y|YE|YS|A)-[A-Z]{3}")
"""A frequency of pandas, such as ``W-SAT``."""

RANGE = re.compile(r"(\d{4}\S*?)\s*(?::|/|\s-\s|-(?=\d{4}\b)|\bTO\b)\s*(\d{4}\S*)", re.ASCII)


def _month(year: int, month: int) -> datetime:
    """The first of a month; months beyond the twelfth are of the next year."""
    return datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


def _bounds_from(start: date, **length: int) -> Bounds:
    begin = datetime(*start.timetuple()[:4])
    return begin, begin + timedelta(**length)


READ: dict[Unit, tuple[re.Pattern[str], Callable[..., Bounds]]] = {
    "year": (re.compile(r"(\d{4})", re.ASCII), lambda y: (_month(y, 1), _month(y, 13))),
    "quarter": (
        re.compile(r"(\d{4})-Q([1-4])", re.ASCII),
        lambda y, q: (_month(y, 3 * q - 2), _month(y, 3 * q + 1)),
    ),
    "month": (
        re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII),
        lambda y, m: (_month(y, m), _month(y, m + 1)),
    ),
    "week": (
        re.compile(r"(\d{4})-W(\d\d)", re.ASCII),
        lambda y, w: _bounds_from(date.fromisocalendar(y, w, 1), days=7),
    ),
    "day": (
        re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII),
        lambda *day: _bounds_from(date(*day), days=1),
    ),
    "hour": (
        re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)", re.ASCII),
        lambda *hour: _bounds_from(datetime(*hour), hours=1),
    ),
}
"""How the text of a unit is written, and its bounds; ValueError for a day that does not exist."""


def read_unit_period(text: str) -> tuple[Unit, Bounds]:
    """Unit and bounds of a text that is no range."""
    for unit, (pattern, bounds) in READ.items():
        found = pattern.fullmatch(text.upper())
        if found is None:
            continue
        numbers = [int(part) for part in found.groups()]
        if not YEARS[0] <= numbers[0] <= YEARS[1]:
            raise ParameterError(f"period ({text!r}) must have a year from 1000 to 9998.")
        try:
            return unit, bounds(*numbers)
        except ValueError:
            raise ParameterError(_no_such_period(unit, text, numbers[0])) from None
    raise ParameterError(f"period ({text[:60]!r}) cannot be read. Write {EXAMPLES}.{_hint(text)}")


def _no_such_period(unit: Unit, text: str, year: int) -> str:
    if unit != "week":
        return f"period ({text!r}) does not exist: no calendar has that {unit}. Correct it."
    last = date(year, 12, 28).isocalendar()[1]  # which is always in the last week
    return f"period ({text!r}) does not exist: {year} has the ISO weeks 01 to {last}. Correct it."


def _is_real_period(text: str) -> bool:
    """Whether a text has the form of a unit, and that period exists.

    ``is_written`` would make a hint for a text that has no such form, and hints call this function.
    """
    return any(pattern.fullmatch(text) for pattern, _ in READ.values()) and is_written(text)


def is_written(text: str) -> bool:
    """Whether a text names a period of some unit, and that period exists."""
    try:
        read_unit_period(text)
    except ParameterError:
        return False
    return True


def period_text(value: object) -> object:
    """The text of a value that is one period exactly: a ``datetime.date`` is a day, a
    ``numpy.datetime64`` of years, months, days or hours one of these, a ``pandas.Period`` of whole
    hours what it holds. Other values are returned as they are."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] in OF_NUMPY:
        return value if np.isnat(value) or np.datetime_data(value)[1] != 1 else str(value)
    if type(value).__name__ == "Period":  # pandas need not be there
        return _pandas_period_text(value)
    return value


def _pandas_period_text(value: Any) -> object:
    """A period of pandas that is one unit, or else a range of days or hours."""
    start: datetime = value.start_time.to_pydatetime()
    form = OF_PANDAS.get(value.freqstr)
    if form is not None:
        return start.strftime(form.replace("%q", str((start.month + 2) // 3)))
    end: datetime = value.end_time.to_pydatetime(warn=False) + timedelta(microseconds=1)
    for form, unit in (("%Y-%m-%d", timedelta(days=1)), ("%Y-%m-%dT%H", timedelta(hours=1))):
        if not any((bound - datetime.min) % unit for bound in (start, end)):
            return f"{start:{form}}..{end - unit:{form}}"
    return value


def hint_of_type(value: object) -> str:
    """The hint for a value that is no period: what to write."""
    if isinstance(value, datetime | np.datetime64) and value != value:  # NaT
        return " Records without a time are None."
    if isinstance(value, datetime):
        return " A moment is no period: pass its .date() for the day."
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "W":
        return " NumPy's weeks begin on a Thursday: write the ISO week or the first and last day."
    if isinstance(value, np.datetime64):
        return " A moment is no period: pass value.astype('datetime64[D]') for the day."
    if type(value).__name__ == "Period":
        return " It has no whole hours: pass value.asfreq('D') for the day."
    ends = value if isinstance(value, tuple | list) else [value]
    if not all(isinstance(end, str | int | date | np.generic) for end in ends):
        return ""  # the text of any other object is code of the caller
    texts = [str(end) for end in ends]
    return f" Write {'..'.join(texts)!r}, as one text." if all(map(is_written, texts)) else ""


def _hint(text: str) -> str:
    """The hint for a text that cannot be read: the period that it may have meant, if any."""
    text = text.upper()
    if FREQUENCY.fullmatch(text):
        return " A frequency is no period: write its first and last day, '2026-11-15..2026-11-21'."
    if text in ("NULL", "NONE"):
        return " Records without a time are None, without quotation marks."
    ends = RANGE.fullmatch(text)
    parts = [_with_hyphens(end) for end in (ends.groups() if ends else [text])]
    sure = [part for part in parts if part is not None and _is_real_period(part)]
    return f" Did you mean {'..'.join(sure)!r}?" if len(sure) == len(parts) else ""


def _with_hyphens(text: str) -> str | None:
    found = PARTS.fullmatch(text)
    if found is None:
        return None
    year, letter, number, month, day, hour = found.groups()
    if letter is not None:
        return f"{year}-{letter}{number.zfill(1 if letter == 'Q' else 2)}"
    text = "-".join(part.zfill(2) for part in (year, month, day) if part is not None)
    return text if hour is None else f"{text}T{hour.zfill(2)}"


USERS = ", where all records of that user lie within one period"
"""Behind the sentence about neighbours, where a release of a period protects a user."""

UNITS: tuple[Unit, ...] = ("year", "quarter", "month", "week", "day", "hour")

OF_WEEKS = "Weeks are those of ISO 8601, from Monday to Sunday."

EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Which records a question is about: those whose time in ``column`` lies in a period.

    Parameters
    ----------
    column
        The column of times.
    text
        The period in its canonical writing; None for the records whose time is NULL.
    zone
        The IANA name of the time zone whose clock shows the bounds; None where none was given.
    start, end
        The bounds as that clock shows them, without a zone, half open; None for NULL times.
    """

    column: str
    text: str | None
    zone: str | None = None
    start: datetime | None = None
    end: datetime | None = None

    @property
    def request(self) -> list[str | None]:
        """As it is stored in a request: column, text, zone."""
        return [self.column, self.text, self.zone]

    @property
    def bounds(self) -> Bounds:
        """The bounds for times that are compared as they are written."""
        assert self.start is not None, "NULL times have no bounds"
        assert self.end is not None
        return self.start, self.end

    @property
    def instants(self) -> Bounds:
        """The bounds for times with a zone: instants, in UTC. Where the clocks of the zone go back,
        a bound is the first time that they show it; ParameterError for an hour that they leave out.
        """
        start, end = (_instant(bound, self.zone) for bound in self.bounds)
        if start >= end:
            raise ParameterError(
                f"period ({self.text!r}) does not exist in {self.zone}: the clocks go forward over "
                "it. Leave it out."
            )
        return start, end

    def seconds(self, *, instants: bool) -> tuple[int, int]:
        """Whole seconds since 1970, half open: of the clock, or with ``instants`` in UTC."""
        start, end = self.instants if instants else self.bounds
        first, last = ((bound.replace(tzinfo=None) - EPOCH) // SECOND for bound in (start, end))
        return first, last

    def check_ended(self, *, instants: bool, now: datetime | None = None) -> None:
        """Raise ParameterError for a period that is not over: a release of it would be kept, and
        replayed without the records that still come.

        Times as they are written are compared with what the clock of this machine shows, or the
        clock of the zone of ``now``; instants are compared with the present instant.
        """
        if self.text is None:
            return
        now = datetime.now().astimezone() if now is None else now
        wall = now.replace(tzinfo=None)
        if (self.instants[1] > now) if instants else (self.bounds[1] > wall):
            clock = (self.zone or "UTC") if instants else "by this machine's clock"
            ends = f"{self.bounds[1]:%Y-%m-%d %H:%M} {clock}"
            raise ParameterError(
                f"period ({self.text!r}) is not over: it ends at {ends}. Wait until then, or pass "
                "data=, your name for the state of the data, to release what is there now."
            )


def as_period(given: object) -> Period:
    """A period from an argument: a ``Period``, or a column, a text and perhaps a zone.

    ``("when", "2026-W47")``, ``("when", "2026-W47", "Europe/Berlin")``; ``("when", None)`` for the
    records whose time is NULL. In the place of the text may stand a ``datetime.date``, a
    ``numpy.datetime64`` of a unit that is ours, or a ``pandas.Period`` of whole hours.
    ParameterError or ParameterTypeError for anything else.
    """
    if isinstance(given, Period):
        if given != as_period(given.request):  # a name replays the text, a ledger has seconds
            raise ParameterError(
                f"period ({given.text!r}) has other bounds than its text. Pass column and text."
            )
        return given
    if not isinstance(given, tuple | list):
        raise ParameterTypeError(
            "period must be a column of times, a period and perhaps a time zone; got "
            f"{type(given).__name__}. For example: ('when', '2026-W47'), in SQL "
            f"['when', '2026-W47'].{_column_hint(given)}"
        )
    if not 2 <= len(given) <= 3:
        raise ParameterError(
            f"period must have two or three parts; got {len(given)}. Pass a column of times, a "
            "period and perhaps a time zone: ('when', '2026-W47')."
        )
    column, text, zone = (*given, None)[:3]
    if not isinstance(column, str):
        raise ParameterTypeError(
            "period must begin with the name of a column of times; got "
            f"{type(column).__name__}. For example: ('when', '2026-W47')."
        )
    zone = None if zone is None else _known_zone(zone)
    if text is None:
        if zone is not None:
            raise ParameterError(
                f"period ({column!r}, None) is about records without a time: they have no zone. "
                f"Leave {zone!r} out."
            )
        return Period(column=column, text=None)
    if is_written(column) and isinstance(text, str) and not is_written(text.partition("..")[0]):
        raise ParameterError(
            f"period ({column!r}, {text[:60]!r}) must begin with the column of times. Write "
            f"({text[:60]!r}, {column!r})."
        )
    text, (start, end) = _read_period(text)
    period = Period(column=column, text=text, zone=zone, start=start, end=end)
    if zone is not None:
        _ = period.instants  # an hour that its clocks leave out is refused here
    return period


def _column_hint(given: object) -> str:
    """The hint for a text that names a period without a column, or as an option does."""
    if not isinstance(given, str):
        return ""
    column, _, text = given.rpartition("=")
    if not is_written(text.partition("..")[0]):
        return ""
    return f" Write ({column or 'when'!r}, {text!r}), with the name of your column."


def period_from_option(text: str) -> Period:
    """A period as the command line takes it: ``when=2026-W47``, ``when=2026-W47@Europe/Berlin``;
    ``when=NULL`` for records without a time."""
    column, equals, rest = text.rpartition("=")
    if not equals:
        raise ParameterError(
            f"period ({text!r}) must be a column of times and a period. Write when=2026-W47, or "
            "with a time zone when=2026-W47@Europe/Berlin."
        )
    written, at, zone = rest.partition("@")
    return as_period((column, None if written == "NULL" else written, zone if at else None))


def unit_of_period(text: str) -> Unit | None:
    """The unit of a period's text; None for a range."""
    text, _ = _read_period(text)
    return None if ".." in text else read_unit_period(text)[0]


def periods_of(unit: str, first: str, last: str) -> Iterator[str]:
    """The texts of consecutive periods of one unit, from ``first`` to ``last``, both included."""
    unit = _known_unit(unit)
    (start, _), (_, end) = (_bounds_of_unit(unit, text) for text in (first, last))
    if end <= start:
        raise ParameterError(f"the last {unit} ({last!r}) is before the first ({first!r}).")
    return _period_texts(unit, start, end)


def last_complete(unit: str, now: datetime) -> str:
    """The text of the last period of a unit that is over when a clock shows ``now``, which may
    have a zone: the clock of that zone is read then."""
    unit = _known_unit(unit)
    _, (start, _) = read_unit_period(text_at(unit, now.replace(tzinfo=None)))
    return text_at(unit, start - SECOND)


def _period_texts(unit: Unit, start: datetime, end: datetime) -> Iterator[str]:
    while start < end:
        text = text_at(unit, start)
        yield text
        _, (_, start) = read_unit_period(text)


def text_at(unit: Unit, at: datetime) -> str:
    """The period of a unit that holds a time."""
    if unit == "week":
        year, week, _ = at.isocalendar()
        return f"{year:04}-W{week:02}"
    if unit == "quarter":
        return f"{at.year:04}-Q{(at.month + 2) // 3}"
    return at.isoformat()[: {"year": 4, "month": 7, "day": 10, "hour": 13}[unit]]


def _read_period(text: object) -> tuple[str, Bounds]:
    """The canonical writing of a period or a range, and its bounds."""
    text = period_text(text)
    if not isinstance(text, str):
        raise ParameterTypeError(
            f"period must be text; got {type(text).__name__}. Write {EXAMPLES}.{hint_of_type(text)}"
        )
    text = text.strip()
    if ".." not in text:
        return text.upper(), read_unit_period(text)[1]
    first, _, last = (part.strip() for part in text.partition(".."))
    (start, at_least), (begin, end) = read_unit_period(first)[1], read_unit_period(last)[1]
    if begin < start or end < at_least:
        raise ParameterError(f"period ({text[:60]!r}) ends before it begins. Swap its ends.")
    first, last = first.upper(), last.upper()
    return (first if first == last else f"{first}..{last}"), (start, end)


def _bounds_of_unit(unit: Unit, text: object) -> Bounds:
    canonical, bounds = _read_period(text)
    if ".." in canonical or read_unit_period(canonical)[0] != unit:
        raise ParameterError(f"period ({canonical!r}) is no {unit}. Write one of {EXAMPLES}.")
    return bounds


def _known_unit(unit: str) -> Unit:
    if unit not in UNITS:
        raise ParameterError(f"unit ({unit!r}) must be one of {', '.join(UNITS)}. {OF_WEEKS}")
    return unit


@cache
def _zone(name: str) -> tzinfo | None:
    """A time zone by its name; None if this machine does not know it."""
    if name == "UTC":
        return UTC  # also where a machine has no zones
    import zoneinfo

    known = zoneinfo.available_timezones() - {"localtime"}  # which is not the same everywhere
    return zoneinfo.ZoneInfo(name) if name in known else None


def _known_zone(zone: object) -> str:
    if not isinstance(zone, str):
        raise ParameterTypeError(
            "the time zone of period must be a name such as 'Europe/Berlin'; got "
            f"{type(zone).__name__}."
        )
    if is_written(zone):
        raise ParameterError(
            f"the third part of period is a time zone; got {zone!r}. Write a range as one text, "
            "such as '2026-W40..2026-W47'."
        )
    if _zone(zone) is None:
        raise ParameterError(
            f"the time zone of period ({zone[:60]!r}) is unknown to this machine. Write an IANA "
            "name such as 'Europe/Berlin' or 'UTC', or install tzdata."
        )
    return zone


def _instant(wall: datetime, zone: str | None) -> datetime:
    """The first instant at which the clocks of a zone show a time, or pass over it."""
    known = _zone(zone or "UTC")
    assert known is not None
    shown = wall.replace(tzinfo=known, fold=0).astimezone(UTC)
    if shown.astimezone(known).replace(tzinfo=None) == wall:
        return shown
    before = wall.replace(tzinfo=known, fold=1).astimezone(UTC)  # the clocks pass over it between
    while shown - before > SECOND:
        middle = before + (shown - before) // (2 * SECOND) * SECOND
        if middle.astimezone(known).replace(tzinfo=None) < wall:
            before = middle
        else:
            shown = middle
    return shown
