"""Hierarchies of plain values: prefixes of addresses and of codes, parts of paths, labels of host
names, and bins of numbers, which are halved level by level."""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from dpframe.budget import as_float
from dpframe.common.texts import is_nan, literal
from dpframe.errors import HierarchyError
from dpframe.hierarchy._base import (
    INVALID,
    MAX_DOMAIN_BITS,
    MAX_HEIGHT,
    OneColumn,
    OnInvalid,
    check_column_name,
    check_increasing,
    check_level_number,
    text_sql,
)

MAPPED = 0xFFFF << 32
"""::ffff:0:0, the range of IPv4-mapped addresses in IPv6 (RFC 4291, section 2.5.5.2)."""


@dataclass(frozen=True)
class Ip(OneColumn):
    """IP addresses as text under their prefixes.

    Keys are 128-bit addresses. An IPv4 address becomes its IPv4-mapped IPv6 address, so that both
    ways of writing it give one node. A row has as many levels as its family has prefixes.
    """

    column: str
    prefixes: tuple[int, ...] = (8, 16, 24, 32)
    prefixes6: tuple[int, ...] = (16, 32, 48, 64, 128)
    version: int | None = None
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "ip"

    def validate(self) -> None:
        check_column_name("ip", self.column)
        if self.version not in (None, 4, 6) or isinstance(self.version, float):
            raise HierarchyError(f"ip: version must be 4, 6 or absent; got {self.version!r}.")
        check_increasing("ip", "prefixes", self.prefixes, 1, 32)
        check_increasing("ip", "prefixes6", self.prefixes6, 1, 128)

    @property
    def height(self) -> int:
        four = 0 if self.version == 6 else len(self.prefixes)
        six = 0 if self.version == 4 else len(self.prefixes6)
        return max(four, six)

    @property
    def level_names(self) -> tuple[str, ...]:
        four = () if self.version == 6 else self.prefixes
        six = () if self.version == 4 else self.prefixes6
        names = []
        for i in range(self.height):
            name = [f"/{p[i]}" for p in (four, six) if i < len(p)]
            names.append(" or ".join(dict.fromkeys(name)))
        return tuple(names)

    @property
    def options(self) -> dict[str, str]:
        out = {}
        if self.prefixes != (8, 16, 24, 32):
            out["prefixes"] = ",".join(map(str, self.prefixes))
        if self.prefixes6 != (16, 32, 48, 64, 128):
            out["prefixes6"] = ",".join(map(str, self.prefixes6))
        if self.version is not None:
            out["version"] = str(self.version)
        return out

    def domain_values(self) -> list[str] | None:
        """Return the first address of every network of the finest level; None without ``version``,
        or for more than 2**20 networks."""
        bits = {4: self.prefixes[-1], 6: self.prefixes6[-1]}.get(self.version or 0)
        if bits is None or bits > MAX_DOMAIN_BITS:
            return None
        if self.version == 4:
            return [str(ipaddress.IPv4Address(i << (32 - bits))) for i in range(2**bits)]
        return [str(ipaddress.IPv6Address(i << (128 - bits))) for i in range(2**bits)]

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        wanted = {None: "address", 4: f"CASE WHEN {_is_ipv4_key('address')} THEN address END"}
        wanted[6] = f"CASE WHEN NOT {_is_ipv4_key('address')} THEN address END"
        address = wanted[self.version]
        if self.prefixes[-1] < 32 or self.prefixes6[-1] < 128:
            address = self._mask_key(address, len(self.prefixes), len(self.prefixes6))
        text = text_sql(columns[0], types[0])
        return (
            {"octets": f"TRY_CAST(string_split({text}, '.') AS UTINYINT[])"},
            {
                "plain": _dotted_number("octets", text)
            },  # most addresses: they are read a third faster
            {"txt": f"CASE WHEN plain IS NULL THEN lower(trim({text})) END"},
            {"parts": "CASE WHEN contains(txt, '.') THEN string_split(txt, '.') END"},
            {"others": "TRY_CAST(parts AS UTINYINT[])"},
            {"four": f"coalesce(plain, {_dotted_number('others', 'txt')})"},
            {"six": f"CASE WHEN four IS NULL THEN {_without_dots('txt')} END"},
            {"halves": "string_split(six, '::')"},
            {"front": _group_list("halves[1]"), "back": _group_list("halves[2]")},
            {"address": f"CASE WHEN four IS NULL THEN {_IPV6} ELSE {MAPPED}::UHUGEINT + four END"},
            {"k1": address},
        )

    def _mask_key(self, key: str, four: int, six: int) -> str:
        mask4 = _mask(96 + self.prefixes[four - 1])
        mask6 = _mask(self.prefixes6[six - 1])
        return (
            f"CASE WHEN {_is_ipv4_key(key)} THEN {key} & {mask4}::UHUGEINT "
            f"ELSE {key} & {mask6}::UHUGEINT END"
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        return (
            f"CASE WHEN {keys[0]} IS NULL THEN 1 WHEN {_is_ipv4_key(keys[0])} "
            f"THEN {len(self.prefixes)} ELSE {len(self.prefixes6)} END"
        )

    def rests(self, level: int) -> bool:
        """Whether addresses of the family with fewer levels end at ``level`` or above."""
        return self.version is None and level >= min(len(self.prefixes), len(self.prefixes6))

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        four, six = min(level, len(self.prefixes)), min(level, len(self.prefixes6))
        return (self._mask_key(keys[0], four, six),)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"CASE WHEN {_is_ipv4_key(keys[0])} THEN 0 ELSE 1 END", keys[0])

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        key = keys[0]  # DuckDB writes 128-bit integers a hundred times more slowly
        return (
            f"CASE WHEN {key} <= {2**64 - 1}::UBIGINT THEN {key}::UBIGINT::VARCHAR "
            f"ELSE {key}::VARCHAR END",
        )

    def label(self, level: int, texts: tuple[str | None, ...]) -> str:
        if texts[0] is None:
            return INVALID
        address = int(texts[0])
        if address >> 32 == 0xFFFF:
            bits = self.prefixes[min(level, len(self.prefixes)) - 1]
            return f"{ipaddress.IPv4Address(address & 0xFFFFFFFF)}/{bits}"
        bits = self.prefixes6[min(level, len(self.prefixes6)) - 1]
        return f"{ipaddress.IPv6Address(address)}/{bits}"

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        if shown[0] == INVALID:
            return shown
        address = ipaddress.ip_address(shown[0].partition("/")[0])
        lengths = self.prefixes if address.version == 4 else self.prefixes6
        bits = int(address)
        masked = ((n, bits >> (address.max_prefixlen - n)) for n in lengths[:level])
        return tuple((address.version, *node) for node in masked)


def _mask(bits: int) -> int:
    return ((1 << bits) - 1) << (128 - bits)


def _is_ipv4_key(key: str) -> str:
    return f"({key}) >> 32 = 65535"


def _octets(text: str) -> tuple[str, ...]:
    return tuple(f"TRY_CAST(split_part({text}, '.', {i}) AS UTINYINT)" for i in (1, 2, 3, 4))


def _is_dotted(text: str) -> str:
    """Return the SQL of whether a text is four decimal numbers up to 255 without leading zeros.
    Only such numbers, written back, give the text again."""
    return " || '.' || ".join(f"{o}::VARCHAR" for o in _octets(text)) + f" = {text}"


def _dotted_number(octets: str, text: str) -> str:
    """Return the SQL of the number of a dotted-decimal address from its ``octets``; NULL if the
    text is malformed.

    Leading zeros are excluded by length: the text must be as long as the four numbers written back.
    ("1e2" is as long as 100, so that "e" is excluded too. Writing the numbers takes twice the
    time.)
    """
    parts = [f"{octets}[{i}]" for i in (1, 2, 3, 4)]
    digits = " + ".join(f"({p} > {n})::UTINYINT" for p in parts for n in (9, 99))
    value = " + ".join(
        f"{p}::UINTEGER * {256**n}" for p, n in zip(parts, (3, 2, 1, 0), strict=True)
    )
    return (
        f"CASE WHEN len({octets}) = 4 AND strlen({text}) = 7 + {digits} "
        f"AND NOT contains({text}, 'e') AND NOT contains({text}, 'E') THEN {value} END"
    )


def _without_dots(text: str) -> str:
    """Return the SQL of an IPv6 text in which a dotted end is rewritten as two groups; NULL without
    a colon, or for a malformed dotted end."""
    tail = f"regexp_extract({text}, '[^:]*$')"
    a, b, c, d = (f"{o}::INTEGER" for o in _octets(tail))
    groups = f"format('{{:x}}:{{:x}}', {a} * 256 + {b}, {c} * 256 + {d})"
    return (
        f"CASE WHEN NOT contains({text}, ':') THEN NULL WHEN NOT contains({text}, '.') THEN {text} "
        f"WHEN {_is_dotted(tail)} THEN regexp_replace({text}, '[^:]*$', '') || {groups} END"
    )


def _group_list(half: str) -> str:
    """Return the SQL of the list of groups on one side of '::'; NULL if there is no such side."""
    return f"CASE WHEN {half} = '' THEN [] ELSE string_split({half}, ':') END"


_EIGHT = (
    "CASE WHEN len(halves) = 1 AND len(front) = 8 THEN front "
    "WHEN len(halves) = 2 AND len(front) + len(back) <= 7 THEN front "
    "|| list_resize([]::VARCHAR[], (8 - len(front) - len(back))::INTEGER, '0') || back END"
)


_IPV6 = (
    f"list_reduce(list_transform({_EIGHT}, lambda g: "
    "CASE WHEN regexp_full_match(g, '[0-9a-f]{1,4}') THEN TRY_CAST('0x' || g AS UHUGEINT) END), "
    "lambda a, b: a * 65536 + b)"
)
"""SQL of the 128-bit number of eight groups (RFC 4291, section 2.2); NULL if a group is
malformed."""


MAX_DEPTH = 48
"""Most halvings that stay exact in the 53 bits of a double."""


@dataclass(frozen=True)
class Path(OneColumn):
    """Parts between separators, coarse to fine; parts beyond ``depth_limit`` are cut.

    Empty parts do not count: ``/a//b/`` and ``a/b`` are equal paths. A short path ends at its last
    part and is counted there and at all nodes above. A path without parts, such as ``/``, is
    counted at the root only; its key is the empty text. Empty text is no path.
    """

    column: str
    separator: str = "/"
    depth_limit: int = 8
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "path"

    def validate(self) -> None:
        check_column_name("path", self.column)
        if not isinstance(self.separator, str) or not self.separator:
            raise HierarchyError(
                f"path: separator must be text, and not empty; got {self.separator!r}."
            )
        check_level_number("path", self.depth_limit, MAX_HEIGHT)

    @property
    def height(self) -> int:
        return self.depth_limit

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(f"part {i}" for i in range(1, self.height + 1))

    @property
    def options(self) -> dict[str, str]:
        out = {}
        if self.separator != "/":
            out["separator"] = self.separator
        if self.depth_limit != 8:
            out["depth"] = str(self.depth_limit)
        return out

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        separator, text = literal(self.separator), text_sql(columns[0], types[0])
        parts = (
            f"list_filter(string_split(nullif({text}, ''), {separator}), "
            f"lambda part: part <> '')[1:{self.depth_limit}]"
        )
        return ({"k1": f"array_to_string({parts}, {separator})"},)

    def depth(self, keys: tuple[str, ...]) -> str | None:
        parts = f"len(string_split(nullif({keys[0]}, ''), {literal(self.separator)}))"
        return f"coalesce({parts}, CASE WHEN {keys[0]} = '' THEN 0 ELSE 1 END)"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        separator = literal(self.separator)
        return (f"array_to_string(string_split({keys[0]}, {separator})[1:{level}], {separator})",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"string_split({keys[0]}, {literal(self.separator)})",)

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        parts = shown[0].split(self.separator)
        return (*(self.separator.join(parts[:n]) for n in range(1, level)), shown[0])


NAME = r"[^\s./:@]+(\.[^\s./:@]+)*"
"""Pattern of names. Labels hold no white space and no separators of URLs or mail addresses."""


@dataclass(frozen=True)
class HostNames(OneColumn):
    """``www.example.org`` under ``example.org`` under ``org``: at most ``depth_limit`` labels.

    Labels further left are cut. Case and one trailing dot do not count. Empty labels, IP addresses
    (a last label of digits only), URLs and mail addresses are invalid.
    """

    column: str
    depth_limit: int = 4
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "domain"

    def validate(self) -> None:
        check_column_name("domain", self.column)
        check_level_number("domain", self.depth_limit, MAX_HEIGHT)

    @property
    def height(self) -> int:
        return self.depth_limit

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(f"label {i} from the right" for i in range(1, self.height + 1))

    @property
    def options(self) -> dict[str, str]:
        return {} if self.depth_limit == 4 else {"depth": str(self.depth_limit)}

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        name = f"regexp_replace(lower(trim({text_sql(columns[0], types[0])})), '\\.$', '')"
        labels = f"array_to_string(string_split(name, '.')[-{self.depth_limit}:], '.')"
        return (
            {"name": name},
            {
                "k1": f"CASE WHEN regexp_full_match(name, '{NAME}') "
                f"AND NOT regexp_matches(name, '(^|\\.)[0-9]+$') THEN {labels} END"
            },
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        return f"coalesce(len(string_split({keys[0]}, '.')), 1)"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"array_to_string(string_split({keys[0]}, '.')[-{level}:], '.')",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"list_reverse(string_split({keys[0]}, '.'))",)

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        parts = shown[0].split(".")
        return (*(".".join(parts[-n:]) for n in range(1, level)), shown[0])


@dataclass(frozen=True)
class Code(OneColumn):
    """Levels are the first ``lengths[0]`` characters, then the first ``lengths[1]``, and so on.

    Spaces around a code do not count. A code shorter than ``lengths[0]`` is invalid; a code
    shorter than the last length ends at the last level that it fills.
    """

    column: str
    lengths: tuple[int, ...]
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "code"

    def validate(self) -> None:
        check_column_name("code", self.column)
        check_increasing("code", "lengths", self.lengths, 1, 10_000)

    @property
    def height(self) -> int:
        return len(self.lengths)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(f"first {n}" for n in self.lengths)

    @property
    def options(self) -> dict[str, str]:
        return {"lengths": ",".join(map(str, self.lengths))}

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        filled = " ".join(
            f"WHEN length(code) >= {n} THEN left(code, {n})" for n in reversed(self.lengths)
        )
        return (
            {"code": f"trim({text_sql(columns[0], types[0])})"},
            {"k1": f"CASE {filled} END"},
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        filled = " ".join(
            f"WHEN length({keys[0]}) >= {n} THEN {level}"
            for level, n in reversed(list(enumerate(self.lengths, 1)))
        )
        return f"CASE {filled} ELSE 1 END"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"left({keys[0]}, {self.lengths[level - 1]})",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        return (*(shown[0][:n] for n in self.lengths[: level - 1]), shown[0])


@dataclass(frozen=True)
class Number(OneColumn):
    """[lower, upper] cut into halves, quarters, ...; ``depth_limit`` levels of binary splits.

    Values outside the bounds, infinities too, count in the nearest interval. NaN, and text that is
    no number, are invalid. The bounds are public and must not come from the data.
    """

    column: str
    lower: float
    upper: float
    depth_limit: int = 10
    invalid: OnInvalid = "count"
    kind: ClassVar[str] = "number"

    def validate(self) -> None:
        check_column_name("number", self.column)
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            bound = as_float(value)
            if bound is None:
                raise HierarchyError(f"number: {name} must be a number; got {value!r}.")
            if not abs(bound) <= 1e300:  # also refuses NaN
                raise HierarchyError(f"number: {name} must be finite; got {value!r}.")
            object.__setattr__(self, name, bound)  # so that equal specifications have equal bins
        if self.lower >= self.upper:
            raise HierarchyError(
                f"number: lower ({self.lower!r}) must be less than upper ({self.upper!r})."
            )
        check_level_number("number", self.depth_limit, MAX_DEPTH)

    @property
    def height(self) -> int:
        return self.depth_limit

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(f"1/{2**i}" for i in range(1, self.height + 1))

    @property
    def options(self) -> dict[str, str]:
        out = {"lower": _short_number(self.lower), "upper": _short_number(self.upper)}
        if self.depth_limit != 10:
            out["depth"] = str(self.depth_limit)
        return out

    def domain_values(self) -> list[str] | None:
        """Return the middles of the finest intervals; None for more than 2**20 intervals."""
        if self.depth_limit > MAX_DOMAIN_BITS:
            return None
        bins, span = 2**self.depth_limit, self.upper - self.lower
        return [repr(self.lower + span * ((i + 0.5) / bins)) for i in range(bins)]

    @property
    def reads_text(self) -> bool:
        return False

    def key_steps(
        self, columns: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[dict[str, str], ...]:
        bins = 2**self.depth_limit
        low, high = f"{float(self.lower)!r}::DOUBLE", f"{float(self.upper)!r}::DOUBLE"
        width = f"({high} - {low})"
        return (
            {"x": f"TRY_CAST({columns[0]} AS DOUBLE)"},
            {
                "k1": f"CASE WHEN x IS NULL OR {is_nan('x')} THEN NULL "
                f"WHEN x <= {low} THEN 0::BIGINT WHEN x >= {high} THEN {bins - 1}::BIGINT "
                f"ELSE least(floor((x - {low}) / {width} * {bins})::BIGINT, {bins - 1}) END"
            },
        )

    def depth(self, keys: tuple[str, ...]) -> str | None:
        return f"CASE WHEN {keys[0]} IS NULL THEN 1 ELSE {self.height} END"

    def coarser(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{keys[0]} >> 1",)

    def preorder(self, level: int, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{keys[0]} << {self.height - level}",)

    def texts(self, level: int, keys: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{keys[0]}::VARCHAR",)

    def label(self, level: int, texts: tuple[str | None, ...]) -> str:
        if texts[0] is None:
            return INVALID
        index, bins = int(texts[0]), 2**level
        span = self.upper - self.lower
        low, high = (self.lower + span * (i / bins) for i in (index, index + 1))
        end = "]" if index == bins - 1 else ")"
        return f"[{_short_number(low)}, {_short_number(high)}{end}"

    def lineage(self, level: int, shown: tuple[str, ...]) -> tuple[Hashable, ...]:
        if shown[0] == INVALID:
            return shown
        low = float(shown[0][1:].partition(",")[0])
        index = round((low - self.lower) / (self.upper - self.lower) * 2**level)
        return tuple(index >> (level - n) for n in range(1, level + 1))


def _short_number(x: float) -> str:
    """Return a number the way people write it, in text that reads back exactly."""
    return str(int(x)) if float(x).is_integer() and abs(x) < 1e15 else repr(float(x))
