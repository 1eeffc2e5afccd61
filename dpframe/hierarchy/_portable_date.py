"""Dates in SQL without timestamps: keys are labels of levels, and times are parsed by patterns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dpframe.dialects import ZONED, Dialect
from dpframe.errors import HierarchyError
from dpframe.hierarchy._date import FORMATS, WIDTHS, Date
from dpframe.hierarchy._zone import ahead_sql, listed_year
from dpframe.hierarchy.portable import ANY, BLANK, BLANKS, OneKey, Step

YEAR, TWO = "0*[0-9]{1,5}", "[0-9]{1,2}"
DAY = "(" + "|".join(f"{YEAR}{s}{TWO}{s}{TWO}" for s in ("-", "/", " ", r"\\")) + ")"
BETWEEN = rf"(T{BLANK}*|{BLANK}+)"
CLOCK = rf"0*{TWO}:({TWO}(:({TWO}([.][0-9]*)?)?)?)?"
OFFSET = r"[+-][0-9]{2}(:?[0-9]{2}|:[0-9]{2}:[0-9]{2})?"
TAIL = rf"(Z{BLANK}*|{OFFSET}{BLANK}*| [A-Za-z0-9_/:+-]*{BLANK}*)"
"""Patterns of text that DuckDB reads as a timestamp. A part that matches TAIL does not shift the
time."""

SHIFTED = rf"{BLANK}*{DAY}{BETWEEN}{CLOCK}{OFFSET}{BLANK}*"
HAS_OFFSET = ANY + f":[0-9.]+ ?[+-][0-9][0-9:]*{BLANK}*"
LONGEST_TIME = 200
"""Most characters of a time. Longer text is invalid, though DuckDB reads any number of zeros."""

DAY_SECONDS = 86_400
BACKSLASH = "\\"
MIDNIGHT, DASH, EMPTY = "' 00:00'", "'-'", "''"

UTC_END = f":[^A-Za-z]*(Z| UTC| GMT){BLANK}*"
NAMED = ":[0-9.]* [A-Za-z0-9_/:+-]"

EPOCH = f"{BLANK}*[eE][pP][oO][cC][hH]{BLANK}*"


class DateKeys(OneKey):
    hierarchy: Date

    def __init__(self, hierarchy: Date, dialect: Dialect, types: tuple[str, ...]) -> None:
        if "week" in hierarchy.levels:
            raise HierarchyError(
                "date: weeks work in frames, files and DuckDB only: add a column of weeks and pass "
                "it as columns:..."
            )
        super().__init__(hierarchy, dialect, types)

    @property
    def reads_text(self) -> bool:
        return self.types[0] == "VARCHAR"

    def values(self, columns: Sequence[str]) -> tuple[str, ...]:
        return (self.dialect.text(columns[0], self.types[0]),)

    def steps(self) -> tuple[Step, ...]:
        *before, last = self._moment()
        return (*before, {"k1": _level_text(self.dialect, self.hierarchy.levels[-1], last["k1"])})

    def _moment(self) -> tuple[Step, ...]:
        """Return steps to ``k1``, here the hour of a row as text."""
        d, zone = self.dialect, self.hierarchy.zone
        if zone is not None and self.types[0] in ("VARCHAR", ZONED):
            return (*local_steps(d, zone, *self._in_utc()), {"k1": "local"})
        if self.types[0] != "VARCHAR":
            hour = d.concat("left(c0, 13)", "':00'")
            whole = f"CASE WHEN length(c0) = 10 THEN {d.concat('c0', MIDNIGHT)} ELSE {hour} END"
            return ({"k1": whole},)
        return (*self._read(), {"k1": "moment"})

    def _in_utc(self) -> tuple[Step, ...]:
        """Return steps to three columns. Times with a zone have ``utc_day``, a text, and
        ``utc_second``, the second of that day; times without a zone have ``stands``, their hour."""
        d = self.dialect
        if self.types[0] == ZONED:
            second = " + ".join(
                f"{d.to_integer(f'substr(c0, {at}, 2)')} * {size}"
                for at, size in ((12, 3600), (15, 60), (18, 1))
            )
            return ({"utc_day": "left(c0, 10)", "utc_second": second, "stands": d.null_text()},)
        says_utc = d.matches("c0", ANY + UTC_END)
        named = d.matches("c0", ANY + NAMED + ANY)
        zoned = f"moved IS NOT NULL OR {says_utc}"
        stands = f"CASE WHEN NOT ({zoned}) AND NOT {named} THEN moment END"
        return (
            *self._read(),
            {
                "utc_day": f"CASE WHEN {zoned} THEN later END",
                "utc_second": d.remainder("seconds", str(DAY_SECONDS)),
                "stands": stands,
            },
        )

    def _read(self) -> tuple[Step, ...]:
        """Return steps from text to ``moment``, the hour as text. Only digits that a pattern has
        matched are cast, so that no cast fails."""
        d = self.dialect
        plain = f"{BLANK}*{DAY}({BETWEEN}{CLOCK}{TAIL}?)?"
        moved = d.matches("c0", SHIFTED)
        sees = d.matches("c0", HAS_OFFSET)
        given = r"[0-9]+[-/ \\][0-9]+[-/ \\][0-9]+"
        day = d.extract("t", f"{BLANK}*({given})")
        clock = d.extract("t", rf"{BLANK}*{given}[T{BLANKS}]+([0-9]+:[0-9:.]*)")
        offset = d.extract("moved", r"[^:]*:[0-9:.]*([+-][0-9:]+)")
        third = d.piece("clock", ":", 3)
        digits = {
            **{name: d.piece("day", "-", i) for i, name in enumerate(("y", "mo", "dd"), 1)},
            **{name: d.piece("clock", ":", i) for i, name in enumerate(("hh", "mi"), 1)},
            "ss": d.piece(third, ".", 1),
            "frac": f"left({d.piece(third, '.', 2)}, 6)",
            **{name: f"substr(offs, {i}, 2)" for i, name in ((2, "oh"), (4, "om"), (6, "os"))},
        }
        numbers = {
            name: f"coalesce({d.to_integer(f'nullif({sql}, {EMPTY})')}, 0)"
            for name, sql in digits.items()
        }
        four, hundred, cycle = (f"{d.remainder('y', n)} = 0" for n in ("4", "100", "400"))
        longest = (
            "CASE WHEN mo IN (4, 6, 9, 11) THEN 30 WHEN mo <> 2 THEN 31 "
            f"WHEN {cycle} OR {four} AND NOT {hundred} THEN 29 ELSE 28 END"
        )
        valid = (
            f"given <> '' AND y <= 10000 AND mo BETWEEN 1 AND 12 AND dd >= 1 AND dd <= {longest} "
            "AND mi < 60 AND ss < 60 "
            "AND (hh < 24 OR hh = 24 AND mi = 0 AND ss = 0 AND frac = 0)"
        )
        ahead = "CASE WHEN left(offs, 1) = '-' THEN -1 ELSE 1 END * (oh * 3600 + om * 60 + os)"
        seconds = f"hh * 3600 + mi * 60 + ss - {ahead} + {10 * DAY_SECONDS}"
        widths = {"y": 4, "mo": 2, "dd": 2, "hour": 2}
        text = {name: d.pad(d.cast_text(name), width) for name, width in widths.items()}
        return (
            {
                "t": f"CASE WHEN length(c0) > {LONGEST_TIME} THEN NULL WHEN {moved} THEN c0 "
                f"WHEN {sees} THEN NULL WHEN {d.matches('c0', plain)} THEN c0 "
                f"WHEN {d.matches('c0', EPOCH)} THEN '1970-01-01' END",
                "moved": (
                    f"CASE WHEN length(c0) <= {LONGEST_TIME} AND {moved} AND {sees} THEN c0 END"
                ),
            },
            {"given": day, "clock": clock, "offs0": offset},
            {
                "day": f"translate(given, {d.literal('/ ' + BACKSLASH)}, '---')",
                "offs": d.concat(d.replace("offs0", ":", ""), "'000000'"),
            },
            numbers,
            {"seconds": f"CASE WHEN {valid} THEN {seconds} END"},
            {
                # an offset can move days just outside the first and the last year inside
                "days": f"{d.quotient('seconds', str(DAY_SECONDS))} - 10 + CASE WHEN y = 0 "
                "THEN dd - 32 WHEN y = 10000 THEN dd ELSE 0 END",
                "hour": d.quotient(d.remainder("seconds", str(DAY_SECONDS)), "3600"),
                "date": "CASE WHEN seconds IS NULL THEN NULL "
                "WHEN y = 0 THEN CASE WHEN mo = 12 AND dd > 26 THEN '0001-01-01' END "
                "WHEN y = 10000 THEN CASE WHEN mo = 1 AND dd < 6 THEN '9999-12-31' END "
                f"ELSE {d.concat(text['y'], DASH, text['mo'], DASH, text['dd'])} END",
            },
            {"later": f"CASE WHEN days = 0 THEN date ELSE {d.add_days('date', 'days')} END"},
            {"moment": d.concat("later", "' '", text["hour"], "':00'")},
        )

    def depth(self) -> str | None:
        return self.hierarchy.depth(("k1",))

    def coarser(self, level: int) -> str:
        name = self.hierarchy.levels[level - 1]
        return "k1" if level == self.hierarchy.height else _level_text(self.dialect, name, "k1")

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        name = self.hierarchy.levels[level - 1]
        if name == "quarter":
            month = f"left({texts[0]}, 4) || '-' || (3 * right({texts[0]}, 1)::INTEGER - 2)"
            known = f"regexp_full_match({texts[0]}, '[0-9]{{4}}-Q[1-4]')"
            return (f"CASE WHEN {known} THEN try_strptime({month}, '%Y-%m') END",)
        form = FORMATS[name]
        time = f"try_strptime({texts[0]}, '{form}')"
        return (f"CASE WHEN strftime({time}, '{form}') = {texts[0]} THEN {time} END",)


def _level_text(d: Dialect, level: str, text: str) -> str:
    """Return the SQL of the label at a level from the text of an hour or a finer label."""
    if level != "quarter":
        return f"left({text}, {WIDTHS[level]})"
    third = d.quotient(f"({d.to_integer(f'substr({text}, 6, 2)')} + 2)", "3")
    return d.concat(f"left({text}, 4)", "'-Q'", d.cast_text(third))


def local_steps(d: Dialect, zone: str, *read: Step) -> tuple[Step, ...]:
    """Return steps to ``local``: the hour by the clocks of a zone, or ``stands`` for a time without
    a zone; NULL outside the years 1 to 9999. The steps use integers and texts only, because the
    time zone databases of engines are of different years."""

    def divided(a: str, b: int) -> str:
        return d.quotient(a, str(b))

    def rest(a: str, b: int) -> str:
        return d.remainder(a, str(b))

    def stamp(t: datetime) -> str:
        return str((t.year * 10000 + t.month * 100 + t.day) * DAY_SECONDS + _second_of_day(t))

    year = d.to_integer("left(utc_day, 4)")
    month_day = d.to_integer(d.replace("substr(utc_day, 6)", "-", ""))
    moved = d.add_days("utc_day", "day_moves")
    hour = d.pad(d.cast_text("local_hour"), 2)
    local = d.concat("local_day", "' '", hour, "':00'")
    return (
        *read,
        {"utc_year": year, "month_day": month_day},
        {"listed": listed_year("utc_year", divided, rest)},
        {"alike": f"(listed * 10000 + month_day) * {DAY_SECONDS} + utc_second"},
        {"ahead": d.to_integer(ahead_sql(zone, "alike", stamp))},
        {"since": f"utc_second + ahead + {DAY_SECONDS}"},
        {
            "day_moves": f"{divided('since', DAY_SECONDS)} - 1",
            "local_hour": divided(rest("since", DAY_SECONDS), 3600),
        },
        {"local_day": f"CASE WHEN day_moves = 0 THEN utc_day ELSE {moved} END"},
        {"local": f"coalesce({local}, stands)"},
    )


def _second_of_day(time: datetime) -> int:
    return time.hour * 3600 + time.minute * 60 + time.second
