"""How periods are written: the text of each unit, values that mean one, hints for other texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np

from dpframe.errors import ParameterError

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
