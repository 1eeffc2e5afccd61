"""Hierarchies of plain values: parts of paths, labels of host names, first characters of codes, and
bins of numbers, which are halved level by level."""

from __future__ import annotations

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
