"""The keys of a row in SQL for engines other than DuckDB; they give the nodes of DuckDB's keys.

There is one class for each kind of hierarchy. Where the hierarchy computes with 128-bit integers,
lists or timestamps, its class cuts texts: an engine needs no more than what
:class:`dpframe.dialects.Dialect` asks for. The driver reads the returned keys as texts and turns
them into DuckDB's keys by ``key_of_text``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dpframe.dialects import REAL, SPACES, WHOLE, Dialect
from dpframe.hierarchy._base import Hierarchy, text_sql
from dpframe.hierarchy._cells import Columns, _is_whole
from dpframe.hierarchy._plain_values import Code, HostNames, Number, Path

Step = dict[str, str]


class Keys(ABC):
    """Base class of all kinds. By default, columns ``c0``, ``c1``, ... are read as texts."""

    def __init__(self, hierarchy: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> None:
        self.hierarchy, self.dialect, self.types = hierarchy, dialect, types

    @property
    def width(self) -> int:
        return self.hierarchy.key_width

    @property
    def reads_text(self) -> bool:
        """Whether equal values should be grouped before their keys are computed."""
        return True

    def values(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the SQL that reads the source columns, as c0, c1, ..."""
        pairs = zip(columns, self.types, strict=True)
        return tuple(self.dialect.text(column, kind) for column, kind in pairs)

    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """Return named SQL from c0, c1, ..., step by step; the last step has the finest key: k1,
        k2, ..."""

    @abstractmethod
    def depth(self) -> str | None:
        """Return the SQL of the number of levels of a row with key k1; None if every row has all
        levels."""

    @abstractmethod
    def at_level(self) -> tuple[str, ...]:
        """Return the SQL that turns the finest key into the key at the level in column ``level``,
        from 1 to the depth of the row."""

    def root_key(self) -> tuple[str, ...]:
        """Return the SQL of the root's key: for each key column a NULL of its type."""
        return (self.dialect.null_text(),)

    # -- on the driver, in DuckDB ----------------------------------------------------------------

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Return DuckDB's SQL of the hierarchy's key from the returned texts; NULL for a text that
        cannot be converted."""
        return texts

    def wire(self, text: str) -> str:
        """Return the text that a statement returns where DuckDB's rollup returns ``text``."""
        return text

    @property
    def texts_are_the_same(self) -> bool:
        """Whether ``wire`` knows the text of every key, whatever the engine."""
        return True

    def level_of_key(self, level: int, key: str) -> str:
        """Return DuckDB's SQL of whether a key that is not NULL is a key of this level."""
        finer = self.hierarchy.coarser(level, (key,))[0]
        return f"{finer} = {key} AND {self.hierarchy.depth((key,))} >= {level}"

    @property
    def types_of_keys(self) -> tuple[str, ...]:
        """DuckDB's types, as ``Hierarchy.texts`` takes them for the keys of ``key_of_text``."""
        return ("VARCHAR",) * len(self.types)


class OneKey(Keys):
    """Base class of kinds with one source column, ``c0``, and one key column, ``k1``."""

    @abstractmethod
    def coarser(self, level: int) -> str:
        """Return the SQL of the key at ``level`` from the finest key."""

    def at_level(self) -> tuple[str, ...]:
        above = range(1, self.hierarchy.height)
        cases = " ".join(f"WHEN {level} THEN {self.coarser(level)}" for level in above)
        finest = f"WHEN {self.hierarchy.height} THEN k1"
        return (f"CASE level {cases} {finest} END",)


class ColumnKeys(Keys):
    hierarchy: Columns

    @property
    def reads_text(self) -> bool:
        return False

    def values(self, columns: Sequence[str]) -> tuple[str, ...]:
        d = self.dialect
        pairs = zip(columns, self.types, strict=True)
        return tuple(c if t in WHOLE else f"nullif({d.text(c, t)}, '')" for c, t in pairs)

    def steps(self) -> tuple[Step, ...]:
        return ({f"k{i}": f"c{i - 1}" for i in range(1, self.width + 1)},)

    def depth(self) -> str | None:
        return None

    def at_level(self) -> tuple[str, ...]:
        named = enumerate(self.types, 1)
        return tuple(f"CASE WHEN level >= {i} THEN {self._show(i, t)} END" for i, t in named)

    def _show(self, number: int, kind: str) -> str:
        return self.dialect.to_integer(f"k{number}") if kind in WHOLE else f"k{number}"

    def root_key(self) -> tuple[str, ...]:
        d = self.dialect
        return tuple(d.to_integer("NULL") if t in WHOLE else d.null_text() for t in self.types)

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_as_duckdb_text(t, kind) for t, kind in zip(texts, self.types, strict=True))

    @property
    def texts_are_the_same(self) -> bool:
        return not any(t in REAL or t.startswith("DECIMAL") for t in self.types)

    def level_of_key(self, level: int, key: str) -> str:
        return "true"

    @property
    def types_of_keys(self) -> tuple[str, ...]:
        return tuple(kind if _is_whole(kind) else "VARCHAR" for kind in self.types)


def _as_duckdb_text(text: str, kind: str) -> str:
    """Return DuckDB's SQL that writes a value, which another engine wrote, the way DuckDB does."""
    if _is_whole(kind):
        return f"TRY_CAST({text} AS {kind})"
    if kind in REAL:
        return text_sql(f"TRY_CAST({text} AS {kind})", kind)
    if kind.startswith("DECIMAL("):
        return f"CAST(TRY_CAST({text} AS {kind}) AS VARCHAR)"
    return text


class PathKeys(OneKey):
    hierarchy: Path

    def steps(self) -> tuple[Step, ...]:
        h = self.hierarchy
        parts = self.dialect.parts("c0", h.separator, h.depth_limit)
        return ({"k1": f"CASE WHEN c0 <> '' THEN {parts} END"},)

    def depth(self) -> str | None:
        parts = self.dialect.part_count("k1", self.hierarchy.separator)
        return f"CASE WHEN k1 = '' THEN 0 ELSE coalesce({parts}, 1) END"

    def coarser(self, level: int) -> str:
        return self.dialect.first_parts("k1", self.hierarchy.separator, level)


class DomainKeys(OneKey):
    hierarchy: HostNames

    def steps(self) -> tuple[Step, ...]:
        d = self.dialect
        ends = "CASE WHEN right(lowered, 1) = '.' THEN left(lowered, length(lowered) - 1) "
        wrong = "\t\n\f\r /:@"
        last = d.last_parts("name", ".", 1)
        valid = (
            f"name <> '' AND left(name, 1) <> '.' AND right(name, 1) <> '.' "
            f"AND {d.replace('name', '..', '')} = name AND {d.without('name', wrong)} = name "
            f"AND {d.without(last, '0123456789')} <> ''"
        )
        labels = d.last_parts("name", ".", self.hierarchy.depth_limit)
        return (
            {"lowered": d.lower(d.trim("c0", SPACES))},
            {"name": f"{ends}ELSE lowered END"},
            {"k1": f"CASE WHEN {valid} THEN {labels} END"},
        )

    def depth(self) -> str | None:
        return f"coalesce({self.dialect.part_count('k1', '.')}, 1)"

    def coarser(self, level: int) -> str:
        return self.dialect.last_parts("k1", ".", level)


class CodeKeys(OneKey):
    hierarchy: Code

    def steps(self) -> tuple[Step, ...]:
        filled = " ".join(
            f"WHEN length(code) >= {n} THEN left(code, {n})"
            for n in reversed(self.hierarchy.lengths)
        )
        return ({"code": self.dialect.trim("c0", SPACES)}, {"k1": f"CASE {filled} END"})

    def depth(self) -> str | None:
        return self.hierarchy.depth(("k1",))

    def coarser(self, level: int) -> str:
        return self.hierarchy.coarser(level, ("k1",))[0]


BLANKS = " \\t\\n\\f\\r\x0b"
BLANK = f"[{BLANKS}]"
ANY = "[^\x01]*"
"""Patterns of white space and of any text. They hold characters unescaped for which engines share
no escape."""

DIGITS = "[0-9][0-9_]*"
NUMBER = (
    rf"{BLANK}*[+]?-?({DIGITS}([.]({DIGITS})?)?|[.]{DIGITS})([eE][+-]?{DIGITS})?"
    rf"{BLANK}*"
)
INFINITE = f"{BLANK}*[+]?-?[iI][nN][fF]([iI][nN][iI][tT][yY])?{BLANK}*"
STRAY = f"{ANY}_([^0-9]{ANY})?"
"""Patterns of text that DuckDB reads as a number: the text fits NUMBER or INFINITE, and not STRAY,
which finds underscores that are not between digits."""


class NumberKeys(OneKey):
    hierarchy: Number

    @property
    def reads_text(self) -> bool:
        return False

    def values(self, columns: Sequence[str]) -> tuple[str, ...]:
        (column,), (kind,) = columns, self.types
        if kind == "VARCHAR":
            return (self.dialect.text(column, kind),)
        return (self.dialect.as_real(column, kind),)

    def steps(self) -> tuple[Step, ...]:
        d, h = self.dialect, self.hierarchy
        reading: tuple[Step, ...] = ({"x": "c0"},)
        if self.types[0] == "VARCHAR":
            plain = d.without("c0", " \t\n\f\r\x0b+_")
            reading = (
                {
                    "digits": f"CASE WHEN {d.matches('c0', NUMBER)} AND NOT "
                    f"{d.matches('c0', STRAY)} THEN {plain} END",
                    "beyond": f"CASE WHEN {d.matches('c0', INFINITE)} THEN {plain} END",
                },
                {
                    "x": f"CASE WHEN left(beyond, 1) = '-' THEN {d.real(-1e305)} "
                    f"WHEN beyond IS NOT NULL THEN {d.real(1e305)} "
                    f"ELSE {d.parsed_real('digits')} END"
                },
            )
        bins = 2**h.depth_limit
        low, high, width = d.real(h.lower), d.real(h.upper), d.real(h.upper - h.lower)
        # values closer to lower are in the first bin: their share could underflow
        tiny = d.real((h.upper - h.lower) * 2.0**-60)
        share = f"floor((x - {low}) / {width} * {bins})"
        return (
            *reading,
            {
                "k1": f"CASE WHEN x IS NULL OR {d.is_nan('x')} THEN NULL "
                f"WHEN x <= {low} THEN {d.to_integer('0')} "
                f"WHEN x >= {high} THEN {d.to_integer(str(bins - 1))} "
                f"WHEN x - {low} < {tiny} THEN {d.to_integer('0')} "
                f"ELSE least({d.to_integer(share)}, {d.to_integer(str(bins - 1))}) END"
            },
        )

    def depth(self) -> str | None:
        return self.hierarchy.depth(("k1",))

    def coarser(self, level: int) -> str:
        return self.dialect.quotient("k1", str(2 ** (self.hierarchy.height - level)))

    def root_key(self) -> tuple[str, ...]:
        return (self.dialect.to_integer("NULL"),)

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        return (f"TRY_CAST({texts[0]} AS BIGINT)",)

    def level_of_key(self, level: int, key: str) -> str:
        return f"{key} BETWEEN 0 AND {2**level - 1}"
