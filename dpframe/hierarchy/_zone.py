"""Time zones: their names, checked, and how far a zone is ahead of UTC, as SQL.

Offsets are those of Python's ``zoneinfo`` and stand in the statement: databases bring time zones
of other years, and DuckDB's answers follow the calendar of the connection.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from dpframe.errors import HierarchyError

FIRST = datetime(1800, 1, 1)
"""Before this no zone has changed its clocks: local mean time."""

REGULAR = 2104
"""From this year on zones follow their last rule, year by year. (Morocco's are listed to 2087.)"""

CYCLE = 28
"""Years in which every weekday begins a year and a leap year; no century is among these."""

LISTED = REGULAR + CYCLE
"""Later years have the clocks of one in the cycle: leap or not, and the same first weekday."""


def check_zone(name: object) -> None:
    """Raise HierarchyError for what is no name of a zone."""
    rule = "write a name such as 'Europe/Paris'"
    if not isinstance(name, str):
        raise HierarchyError(f"date: zone must be the name of a time zone, as text; got {name!r}.")
    import zoneinfo  # takes longer to load than most of dpframe, which hardly needs it

    known = zoneinfo.available_timezones() - {"localtime"}  # which is not the same everywhere
    if not known:
        raise HierarchyError(
            "date: zone needs the IANA time zone database, which this machine lacks: pip install "
            "tzdata."
        )
    if name not in known:
        wanted = name.lower().replace(" ", "_")
        lower = {zone.rpartition("/")[2].lower(): zone for zone in sorted(known)}
        lower |= {zone.lower(): zone for zone in sorted(known)}
        near = difflib.get_close_matches(wanted, lower, n=1, cutoff=0.7)
        hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
        raise HierarchyError(f"date: zone {name!r} is no time zone.{hint} It is IANA's: {rule}.")


@lru_cache(maxsize=32)
def changes(name: str) -> tuple[tuple[datetime, int], ...]:
    """When a zone changes its offset, in UTC, and its seconds ahead of UTC from then on."""
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
    """SQL of the seconds ahead of UTC at a ``time`` in UTC whose year has gone through
    ``listed_year``: a search by halves."""

    def searched(part: Sequence[tuple[datetime, int]]) -> str:
        if len(part) == 1:
            return str(part[0][1])
        half = len(part) // 2
        below, above = searched(part[:half]), searched(part[half:])
        return f"CASE WHEN {time} < {literal(part[half][0])} THEN {below} ELSE {above} END"

    return searched(changes(zone))


def listed_year(
    year: str, quotient: Callable[[str, int], str], rest: Callable[[str, int], str]
) -> str:
    """SQL of a year with the same clocks for which changes are listed."""  # fmt: skip
    before = f"({year} - 1)"
    days = f"{year} + {quotient(before, 4)} - {quotient(before, 100)} + {quotient(before, 400)}"
    leap = f"{rest(year, 4)} = 0 AND {rest(year, 100)} <> 0 OR {rest(year, 400)} = 0"
    kind = f"{rest(f'({days})', 7)} + CASE WHEN {leap} THEN 7 ELSE 0 END"
    alike = " ".join(f"WHEN {_kind(y)} THEN {y}" for y in range(LISTED - 1, REGULAR - 1, -1))
    return f"CASE WHEN {year} < {LISTED} THEN {year} ELSE CASE {kind} {alike} END END"


def _kind(year: int) -> int:
    """Its first weekday, 7 more in a leap year."""
    before = year - 1
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    return (year + before // 4 - before // 100 + before // 400) % 7 + 7 * leap
