"""Dates and times in levels, and their time zones.

**Time zones** are checked by name, and SQL is written that says how far a zone is ahead of UTC.

Offsets come from Python's ``zoneinfo`` and are written into the statement, because databases bring
time zones of different years, and DuckDB's answers follow the calendar of the connection.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import date as day_of
from datetime import datetime, timedelta
from functools import lru_cache
from typing import ClassVar

from dpframe.errors import HierarchyError
from dpframe.hierarchy._base import OneColumn, OnInvalid, check_column_name, has_zone, utc_sql

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


USUAL = ("year", "month", "day", "hour")

FORMATS = {
    "year": "%Y",
    "quarter": "%Y-Q",
    "month": "%Y-%m",
    "week": "%G-W%V",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%d %H:00",
}
"""Format of the labels of each level, coarse to fine. A quarter's number is appended."""

WIDTHS = {"year": 4, "quarter": 7, "month": 7, "week": 8, "day": 10, "hour": 16}
"""Characters of a label of each level. The label of a year, month or day begins all finer
labels below it."""

ACROSS = ("year", "quarter", "month")
"""Levels at which a week can lie in two nodes."""

OFFSET = r":[0-9.]+ ?[+-][0-9][0-9:]*[ \t\n\f\r\x0b]*$"
"""Pattern for the end of a time with an offset from UTC, which a cast to TIMESTAMP would ignore."""

UTC = r":[^A-Za-z]*(Z| UTC| GMT)[ \t\n\f\r\x0b]*$"
"""Pattern for the end of a text that says its time is in UTC."""

NAMED = r":[0-9.]* [A-Za-z0-9_/:+-]"
"""Pattern in a text that names a zone, if the text neither says UTC nor has an offset."""

YEARS = "BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
"""Condition for a valid time. Infinite times and other years are invalid: SQL cannot truncate
them."""


@dataclass(frozen=True)
class Date(OneColumn):
    """Some of year > quarter > month > day > hour, coarse to fine; or of week > day > hour.

    Weeks follow ISO 8601 and begin on Monday. They are under no year, as some lie in two years.

    Reads dates, timestamps and ISO 8601 text. Times with a time zone or an offset are read in
    ``zone``, by default in UTC; other times are read unchanged. Unreadable and infinite times, and
    times outside the years 1 to 9999, are invalid. With ``zone``, texts that name another zone than
    UTC are invalid too, and so are times with a zone outside these years in UTC. Whole numbers are
    not read, as their unit would be a guess, and neither are periods that name no single day.
    """

    column: str
    levels: tuple[str, ...] = USUAL
    invalid: OnInvalid = "count"
    zone: str | None = None
    kind: ClassVar[str] = "date"

    def validate(self) -> None:
        check_column_name("date", self.column)
        known = list(FORMATS)
        if (
            not isinstance(self.levels, tuple)
            or not self.levels
            or any(name not in known for name in self.levels)
        ):
            raise HierarchyError(
                f"date: levels must be some of {', '.join(known)}; got {self.levels!r}."
            )
        order = [known.index(name) for name in self.levels]
        if any(a >= b for a, b in itertools.pairwise(order)):
            raise HierarchyError(f"date: levels must go from coarse to fine; got {self.levels!r}.")
        around = [name for name in self.levels if name in ACROSS]
        if around and "week" in self.levels:
            raise HierarchyError(
                f"date: a week can lie in two {around[-1]}s. Ask for levels=week,day, and for "
                f"{around[-1]}s in another release."
            )
        if self.zone is not None:
            check_zone(self.zone)

    @property
    def height(self) -> int:
        return len(self.levels)

    @property
    def level_names(self) -> tuple[str, ...]:
        return self.levels

    @property
    def options(self) -> dict[str, str]:
        out = {} if self.levels == USUAL else {"levels": ",".join(self.levels)}
        return out if self.zone is None else {**out, "zone": self.zone}

    @property
    def reading(self) -> str:
        if self.zone is None:
            return "times with a zone are read in UTC: another one with zone="
        return f"times with a zone are read in {self.zone}, others as they stand"

    @property
    def reads_text(self) -> bool:
        return False

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        column = columns[0]
        finest = {
            "k1": f"CASE WHEN moment {YEARS} THEN {_truncate_sql(self.levels[-1], 'moment')} END"
        }
        if self.zone is not None:
            return (*self._local_steps(column, types[0]), finest)
        return ({"moment": moment_sql(column, types[0])}, finest)

    def _local_steps(self, column: str, kind: str) -> tuple[dict[str, str], ...]:
        """Return steps whose last one is ``moment``, the local time of a row."""
        assert self.zone is not None
        text = f"CAST({column} AS VARCHAR)"
        offset, utc, named = (f"regexp_matches({text}, '{p}')" for p in (OFFSET, UTC, NAMED))
        if has_zone(kind):
            time, has = utc_sql(column), "true"
        elif kind in ("VARCHAR", "ENUM"):
            zoned = f"make_timestamp(epoch_us(TRY_CAST({text} AS TIMESTAMP WITH TIME ZONE)))"
            time = (
                f"CASE WHEN {offset} THEN {zoned} WHEN {named} AND NOT {utc} THEN NULL "
                f"ELSE TRY_CAST({text} AS TIMESTAMP) END"
            )
            has = f"coalesce({offset} OR {utc}, false)"
        else:
            return ({"moment": f"TRY_CAST({column} AS TIMESTAMP)"},)
        year = listed_year("year(utc)", lambda a, b: f"{a} // {b}", lambda a, b: f"{a} % {b}")
        parts = ", ".join(f"{part}(utc)" for part in ("month", "day", "hour", "minute"))
        ahead = ahead_sql(self.zone, "alike", lambda t: f"TIMESTAMP '{t.isoformat(' ')}'")
        return (
            {"told": time, "zoned": has},
            {"utc": f"CASE WHEN zoned AND told {YEARS} THEN told END"},
            {"listed": f"CAST({year} AS BIGINT)"},
            {
                "alike": "CASE WHEN listed = year(utc) THEN utc "
                f"ELSE make_timestamp(listed, {parts}, 0.0) END"
            },
            {"ahead": f"CAST({ahead} AS BIGINT)"},
            {"moment": "CASE WHEN zoned THEN utc + to_seconds(ahead) ELSE told END"},
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        return f"CASE WHEN {keys[0]} IS NULL THEN 1 ELSE {self.height} END"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (_truncate_sql(self.levels[level - 1], keys[0]),)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        name = self.levels[level - 1]
        text = f"strftime({keys[0]}, '{FORMATS[name]}')"
        return (f"{text} || quarter({keys[0]})" if name == "quarter" else text,)

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        return (*(_coarser_label(name, shown[0]) for name in self.levels[: level - 1]), shown[0])


def moment_sql(column: str, duckdb_type: str) -> str:
    """Return the SQL of the time in a column of a readable type, in UTC if it has a zone or an
    offset; NULL where no time can be read. No value raises an error."""
    if has_zone(duckdb_type):
        return utc_sql(column)
    if duckdb_type not in ("VARCHAR", "ENUM"):
        return f"TRY_CAST({column} AS TIMESTAMP)"
    text = f"CAST({column} AS VARCHAR)"
    utc = f"make_timestamp(epoch_us(TRY_CAST({text} AS TIMESTAMP WITH TIME ZONE)))"
    return (
        f"CASE WHEN regexp_matches({text}, '{OFFSET}') THEN {utc} "
        f"ELSE TRY_CAST({text} AS TIMESTAMP) END"
    )


def _truncate_sql(level: str, time: str) -> str:
    return f"CAST(date_trunc('{level}', {time}) AS TIMESTAMP)"


def _coarser_label(level: str, label: str) -> str:
    """Return the label at a coarser level of the node above a finer label. Raises ValueError if a
    quarter or week cannot be read from the text."""
    if level == "quarter":
        return f"{label[:4]}-Q{(int(label[5:7]) + 2) // 3}"
    if level == "week":
        year, week, _ = day_of.fromisoformat(label[:10]).isocalendar()
        return f"{year:04}-W{week:02}"
    return label[: WIDTHS[level]]
