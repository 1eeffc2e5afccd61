"""Keys of addresses, dates and cells in other engines, and which kinds can be written there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from dpframe.dialects import SPACES, SPARK, ZONED, Dialect
from dpframe.errors import HierarchyError
from dpframe.hierarchy import portable
from dpframe.hierarchy._base import Hierarchy
from dpframe.hierarchy._date import FORMATS, WIDTHS, Date, ahead_sql, listed_year
from dpframe.hierarchy._plain_values import Ip
from dpframe.hierarchy.portable import ANY, BLANK, BLANKS, Keys, OneKey, Step

OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
DOTTED = rf"{OCTET}([.]{OCTET}){{3}}"
GROUPS = "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,7}"
MAPPED = "0" * 20 + "ffff"
LONGEST_ADDRESS = 60
"""Most characters of a text that is parsed; every address is shorter."""


class IpKeys(OneKey):
    hierarchy: Ip

    def steps(self) -> tuple[Step, ...]:
        d = self.dialect
        short = f"CASE WHEN length(trimmed) <= {LONGEST_ADDRESS} THEN {d.lower('trimmed')} END"
        tail = d.extract("txt", "[^.]*:([^:]*)$")
        colon, mapped = "':'", f"'{MAPPED}'"
        zeros = "repeat('0', 32 - length(f) - length(b))"
        is_four = d.matches("txt", DOTTED)
        head = f"left(txt, length(txt) - length({tail}))"
        valid_tail = d.matches(f"nullif({tail}, '')", DOTTED)
        return (
            {"trimmed": d.trim("c0", SPACES)},
            {"txt": short},
            {
                "four": f"CASE WHEN {is_four} THEN txt END",
                "tail": f"CASE WHEN {valid_tail} THEN {tail} END",
                "head": f"CASE WHEN {valid_tail} THEN {head} ELSE txt END",
            },
            {"hex4": _hex4(d, "four"), "hextail": _hex4(d, "tail")},
            {
                "six": "CASE WHEN hextail IS NULL THEN head ELSE "
                f"{d.concat('head', 'left(hextail, 4)', colon, 'right(hextail, 4)')} END"
            },
            {"many": f"(length(six) - length({d.replace('six', '::', '')}))"},
            {
                "front": f"CASE WHEN many = 0 THEN six WHEN many = 2 THEN {d.piece('six', '::', 1)}"
                " END",
                "back": f"CASE WHEN many = 2 THEN {d.piece('six', '::', 2)} ELSE '' END",
            },
            {"f": _group_digits(d, "front"), "b": _group_digits(d, "back")},
            {
                "hex6": "CASE WHEN many = 0 AND length(f) = 32 THEN f "
                "WHEN many = 2 AND length(f) + length(b) <= 28 "
                f"THEN {d.concat('f', zeros, 'b')} END"
            },
            {"address": f"CASE WHEN hex4 IS NULL THEN hex6 ELSE {d.concat(mapped, 'hex4')} END"},
            {"k1": self._acceptable()},
        )

    def _acceptable(self) -> str:
        h = self.hierarchy
        finest = self._mask_key("address", len(h.prefixes), len(h.prefixes6))
        if h.version is None:
            return finest
        four = _is_ipv4_text("address")
        return f"CASE WHEN {four if h.version == 4 else f'NOT {four}'} THEN {finest} END"

    def _mask_key(self, key: str, four: int, six: int) -> str:
        mask4 = self._mask(key, 96 + self.hierarchy.prefixes[four - 1])
        mask6 = self._mask(key, self.hierarchy.prefixes6[six - 1])
        return f"CASE WHEN {_is_ipv4_text(key)} THEN {mask4} ELSE {mask6} END"

    def _mask(self, key: str, bits: int) -> str:
        d = self.dialect
        digits, rest = divmod(bits, 4)
        if digits == 32:
            return key
        if not rest:
            return d.concat(f"left({key}, {digits})", f"'{'0' * (32 - digits)}'")
        kept = "".join(f"{i & (0xF0 >> rest & 0xF):x}" for i in range(16))
        digit = f"translate(substr({key}, {digits + 1}, 1), '0123456789abcdef', '{kept}')"
        return d.concat(f"left({key}, {digits})", digit, f"'{'0' * (31 - digits)}'")

    def depth(self) -> str | None:
        return (
            f"CASE WHEN k1 IS NULL THEN 1 WHEN {_is_ipv4_text('k1')} "
            f"THEN {len(self.hierarchy.prefixes)} ELSE {len(self.hierarchy.prefixes6)} END"
        )

    def coarser(self, level: int) -> str:
        h = self.hierarchy
        return self._mask_key("k1", min(level, len(h.prefixes)), min(level, len(h.prefixes6)))

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        text = texts[0]
        return (
            f"CASE WHEN regexp_full_match({text}, '[0-9a-f]{{32}}') "
            f"THEN TRY_CAST('0x' || {text} AS UHUGEINT) END",
        )

    def wire(self, text: str) -> str:
        return f"{int(text):032x}"


def _is_ipv4_text(key: str) -> str:
    return f"left({key}, 24) = '{MAPPED}'"


def _hex4(d: Dialect, dotted: str) -> str:
    """Return the SQL of the eight hexadecimal digits of a valid dotted address; NULL for NULL."""
    digits = []
    for i in (1, 2, 3, 4):
        octet = d.to_integer(d.piece(dotted, ".", i))
        for value in (d.quotient(octet, "16"), d.remainder(octet, "16")):
            digits.append(f"substr('0123456789abcdef', {d.small(f'({value} + 1)')}, 1)")
    return f"CASE WHEN {dotted} IS NOT NULL THEN {d.concat(*digits)} END"


def _group_digits(d: Dialect, half: str) -> str:
    """Return the SQL of the digits on one side of '::', four for each group; NULL if a group is
    malformed."""
    pieces = [d.piece(half, ":", i) for i in range(1, 9)]
    padded = [f"(CASE WHEN {p} <> '' THEN {d.pad(p, 4)} ELSE '' END)" for p in pieces]
    return (
        f"CASE WHEN {half} = '' THEN '' WHEN {d.matches(half, GROUPS)} THEN {d.concat(*padded)} END"
    )


YEAR, TWO = "0*[0-9]{1,5}", "[0-9]{1,2}"
DAY = "(" + "|".join(f"{YEAR}{s}{TWO}{s}{TWO}" for s in ("-", "/", " ", r"\\")) + ")"
BETWEEN = rf"(T{BLANK}*|{BLANK}+)"
CLOCK = rf"0*{TWO}:({TWO}(:({TWO}([.][0-9]*)?)?)?)?"
PORTABLE_OFFSET = r"[+-][0-9]{2}(:?[0-9]{2}|:[0-9]{2}:[0-9]{2})?"
TAIL = rf"(Z{BLANK}*|{PORTABLE_OFFSET}{BLANK}*| [A-Za-z0-9_/:+-]*{BLANK}*)"
"""Patterns of text that DuckDB reads as a timestamp. A part that matches TAIL does not shift the
time."""

SHIFTED = rf"{BLANK}*{DAY}{BETWEEN}{CLOCK}{PORTABLE_OFFSET}{BLANK}*"
HAS_OFFSET = ANY + f":[0-9.]+ ?[+-][0-9][0-9:]*{BLANK}*"
LONGEST_TIME = 200
"""Most characters of a time. Longer text is invalid, though DuckDB reads any number of zeros."""

DAY_SECONDS = 86_400
BACKSLASH = "\\"
MIDNIGHT, DASH, EMPTY = "' 00:00'", "'-'", "''"

UTC_END = f":[^A-Za-z]*(Z| UTC| GMT){BLANK}*"
PORTABLE_NAMED = ":[0-9.]* [A-Za-z0-9_/:+-]"

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
        named = d.matches("c0", ANY + PORTABLE_NAMED + ANY)
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


KINDS: dict[str, type[portable.Keys]] = {
    "code": portable.CodeKeys,
    "columns": portable.ColumnKeys,
    "date": DateKeys,
    "domain": portable.DomainKeys,
    "ip": IpKeys,
    "number": portable.NumberKeys,
    "path": portable.PathKeys,
}


class NativeIpKeys(IpKeys):
    """Addresses as DuckDB's own rollup returns them: decimal numbers."""

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        return (f"TRY_CAST({texts[0]} AS UHUGEINT)",)


def portable_keys(hierarchy: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> portable.Keys:
    """Return the keys of a hierarchy in a dialect; ``types`` are canonical names, as in DuckDB."""
    return KINDS[hierarchy.kind](hierarchy, dialect, types)


def returned_keys(
    hierarchy: Hierarchy, dialect: Dialect | None, types: tuple[str, ...]
) -> portable.Keys:
    """Return keys that read the result of a statement; dialect None stands for DuckDB."""
    if dialect is not None:
        return portable_keys(hierarchy, dialect, types)
    kind = NativeIpKeys if hierarchy.kind == "ip" else KINDS[hierarchy.kind]
    return kind(hierarchy, SPARK, types)  # any dialect: reading a result does not use it


class CellKeys:
    """The keys of every dimension, in ``of``; k1, k2, ... are the finest keys of all dimensions."""

    def __init__(self, cells: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> None:
        self.hierarchy, self.dialect, self.types = cells, dialect, types
        pairs = zip(cells.dimensions, cells.by_dimension(types), strict=True)
        self.of = tuple(portable_keys(one, dialect, own) for one, own in pairs)

    @property
    def width(self) -> int:
        return self.hierarchy.key_width

    @property
    def reads_text(self) -> bool:
        """Whether equal values should be grouped before their keys are computed."""
        return any(one.reads_text for one in self.of)

    def values(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the SQL that reads the source columns, as c0, c1, ..."""
        pairs = zip(self.of, self.hierarchy.by_dimension(columns), strict=True)
        return tuple(sql for one, own in pairs for sql in one.values(own))

    def key_query(self, rows: str, kept: Sequence[str], where: str) -> str:
        """Return a query of the finest keys and the ``kept`` columns of ``rows`` with c0, c1, ...
        The query makes the keys of one dimension after the other, as their steps share names."""
        d, left = self.dialect, [f"r{i}" for i in range(len(self.types))]
        named = [f"c{i} AS {name}" for i, name in enumerate(left)]
        query, done = f"SELECT {', '.join([*kept, *named])} FROM {rows}{where}", list[str]()
        dropped = list[str]()
        for one in self.of:
            read, left = left[: len(one.types)], left[len(one.types) :]
            named = [f"{name} AS c{i}" for i, name in enumerate(read)]
            query = f"SELECT {', '.join([*kept, *done, *left, *named])} FROM {d.rows(query)}"
            query = add_key_steps(one, query)
            keys = [f"a{len(done) + i}" for i in range(1, one.width + 1)]
            found = [f"k{i} AS {name}" for i, name in enumerate(keys, 1)]
            query = f"SELECT {', '.join([*kept, *done, *left, *found])} FROM {d.rows(query)}"
            done += keys
            if one.hierarchy.on_invalid == "drop":
                dropped += [f"{name} IS NOT NULL" for name in keys]
        chosen = ", ".join([*(f"{name} AS k{i}" for i, name in enumerate(done, 1)), *kept])
        valid = f" WHERE {' AND '.join(dropped)}" if dropped else ""
        return f"SELECT {chosen} FROM {d.rows(query)}{valid}"

    def level_query(
        self, rows: str, kept: Sequence[str], levels: Mapping[int, Sequence[int]]
    ) -> tuple[str, list[str]]:
        """Return a query of ``rows``, which have k1, k2, ..., and the names of its columns.

        The query has the ``kept`` columns and, for every dimension d from 1, the row's number of
        levels, depth_d, and its keys at the levels ``levels[d]``, named by ``level_key_names``.
        """
        d, have = self.dialect, list(kept)
        left = [f"a{i}" for i in range(1, self.width + 1)]
        named = [f"k{i} AS {name}" for i, name in enumerate(left, 1)]
        query = f"SELECT {', '.join([*kept, *named])} FROM {rows}"
        for number, one in enumerate(self.of, 1):
            read, left = left[: one.width], left[one.width :]
            keys = [f"k{i}" for i in range(1, one.width + 1)]
            named = [f"{name} AS {key}" for name, key in zip(read, keys, strict=True)]
            query = f"SELECT {', '.join([*have, *left, *named])} FROM {d.rows(query)}"
            depth = d.small(one.depth() or str(one.hierarchy.height))
            here = [*have, *left, *keys]
            query = f"SELECT {', '.join(here)}, {depth} AS depth_{number} FROM {d.rows(query)}"
            here.append(f"depth_{number}")
            have.append(f"depth_{number}")
            for level in levels.get(number, ()):
                query = f"SELECT {', '.join(here)}, {level} AS level FROM {d.rows(query)}"
                texts = level_key_names(one.width, number, level)
                pairs = zip(one.at_level(), texts, strict=True)
                added = [f"{sql} AS {name}" for sql, name in pairs]
                query = f"SELECT {', '.join([*here, *added])} FROM {d.rows(query)}"
                here += texts
                have += texts
            query = f"SELECT {', '.join([*have, *left])} FROM {d.rows(query)}"
        return query, have


def level_key_names(width: int, number: int, level: int) -> list[str]:
    """Return the names that ``leveled`` gives to the key of a dimension at a level."""
    return [f"at_{number}_{level}_{i}" for i in range(1, width + 1)]


def add_key_steps(keys: Keys, query: str) -> str:
    """Return ``query``, which has c0, c1, ..., with the columns of all key steps, such as k1."""
    for step in keys.steps():
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"SELECT step.*, {added} FROM {keys.dialect.rows(query)}"
    return query


def keys_of(hierarchy: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> Keys | CellKeys:
    """Return the keys of one hierarchy, or of several at once."""
    if hierarchy.has_cells:
        return CellKeys(hierarchy, dialect, types)
    return portable_keys(hierarchy, dialect, types)


def dimensions(keys: Keys | CellKeys) -> tuple[Keys, ...]:
    """Return the keys of every dimension; for one hierarchy, ``keys`` alone."""
    return keys.of if isinstance(keys, CellKeys) else (keys,)
