"""Time zones: check their names, and write how far a zone is ahead of UTC as SQL.

Offsets come from Python's ``zoneinfo`` and are written into the statement, because databases bring
time zones of different years, and DuckDB's answers follow the calendar of the connection.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from dpframe.errors import HierarchyError

FIRST = datetime(1800, 1, 1)
"""Before this time no zone has changed its clocks: all use local mean time."""

REGULAR = 2104
"""From this year on zones follow their last rule, year by year. (Morocco's are listed to 2087.)"""

CYCLE = 28
"""Years after which weekdays and leap years repeat. In this many years from REGULAR on, every
weekday begins a common year and a leap year; no century is among them."""

LISTED = REGULAR + CYCLE
"""From this year on, a year has the clocks of a year in the cycle: both are leap years or neither
is, and both begin on the same weekday."""


def check_zone(name: object) -> None:
    """Raise HierarchyError if ``name`` is no name of a time zone."""
    rule = "Write a name such as 'Europe/Paris'"
    if not isinstance(name, str):
        raise HierarchyError(f"date: zone must be the name of a time zone; got {name!r}.")
    import zoneinfo  # takes longer to load than most of dpframe, which hardly needs it

    known = zoneinfo.available_timezones() - {"localtime"}  # which differs between machines
    if not known:
        raise HierarchyError("date: zone needs the IANA time zone database: pip install tzdata.")
    if name not in known:
        wanted = name.lower().replace(" ", "_")
        lower = {zone.rpartition("/")[2].lower(): zone for zone in sorted(known)}
        lower |= {zone.lower(): zone for zone in sorted(known)}
        near = difflib.get_close_matches(wanted, lower, n=1, cutoff=0.7)
        hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
        raise HierarchyError(f"date: zone {name!r} is no IANA time zone.{hint} {rule}.")


@lru_cache(maxsize=32)
def zone_changes(name: str) -> tuple[tuple[datetime, int], ...]:
    """Return when a zone changes its offset, in UTC from ``datetime.min`` to LISTED, and its
    seconds ahead of UTC from then on."""
    from zoneinfo import ZoneInfo

    zone, day, second = ZoneInfo(name), timedelta(days=1), timedelta(seconds=1)

    def ahead(time: datetime) -> int:
        offset = zone.fromutc(time.replace(tzinfo=zone)).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    before, offset = FIRST, ahead(FIRST)
    found = [(datetime.min, offset)]
    while before.year < LISTED:
        after = before + day
        if (new := ahead(after)) != offset:
            low, high = before, after
            while high - low > second:
                middle = low + (high - low) // second // 2 * second
                low, high = (middle, high) if ahead(middle) == offset else (low, middle)
            found.append((high, new))
        before, offset = after, new
    return tuple(found)


def ahead_sql(zone: str, time: str, literal: Callable[[datetime], str]) -> str:
    """Return the SQL of a zone's seconds ahead of UTC at a ``time`` in UTC, by binary search. The
    year of ``time`` must come from ``listed_year``."""

    def searched(part: Sequence[tuple[datetime, int]]) -> str:
        if len(part) == 1:
            return str(part[0][1])
        half = len(part) // 2
        below, above = searched(part[:half]), searched(part[half:])
        return f"CASE WHEN {time} < {literal(part[half][0])} THEN {below} ELSE {above} END"

    return searched(zone_changes(zone))


def listed_year(
    year: str, quotient: Callable[[str, int], str], rest: Callable[[str, int], str]
) -> str:
    """Return the SQL of a year before LISTED that has the clocks of ``year``."""
    before = f"({year} - 1)"
    days = f"{year} + {quotient(before, 4)} - {quotient(before, 100)} + {quotient(before, 400)}"
    leap = f"{rest(year, 4)} = 0 AND {rest(year, 100)} <> 0 OR {rest(year, 400)} = 0"
    kind = f"{rest(f'({days})', 7)} + CASE WHEN {leap} THEN 7 ELSE 0 END"
    alike = " ".join(f"WHEN {_year_kind(y)} THEN {y}" for y in range(LISTED - 1, REGULAR - 1, -1))
    return f"CASE WHEN {year} < {LISTED} THEN {year} ELSE CASE {kind} {alike} END END"


def _year_kind(year: int) -> int:
    """Return the first weekday of a year, plus 7 if it is a leap year."""
    before = year - 1
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    return (year + before // 4 - before // 100 + before // 400) % 7 + 7 * leap
