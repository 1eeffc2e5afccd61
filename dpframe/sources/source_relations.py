"""Open any source of rows as a relation that a statement can read: all of them, or a period's.

**A period** restricts a source to its records: how a column of times is read, and the condition.

A record has one time in a reading. ``axis`` names the reading: a ledger counts two periods as
disjoint only if they have the same axis. A table of dates and a table of times, or a text and a
time with a zone, can hold one record under two times. So can times with a zone in nanoseconds: when
DuckDB scans a frame, it cuts them towards 1970.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from dpframe import _duck
from dpframe.common.files import file_of_path
from dpframe.common.texts import identifier, literal
from dpframe.errors import ColumnError, DpframeError, SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable, has_zone
from dpframe.hierarchy._date import moment_sql
from dpframe.hierarchy._types import READS, TIME_ADVICE, TIMES, unreadable_type
from dpframe.periods import Bounds, Period
from dpframe.sources.frames import (
    arrow_table,
    is_foreign,
    is_spark,
    package_of,
    pandas_types,
    require_columns,
    without_rows,
)
from dpframe.sources.row_files import PARQUET, File, open_file
from dpframe.sources.spark import SparkFrame, withhold_spark_errors


def open_source(source: object, wanted: Sequence[str]) -> AbstractContextManager[_duck.Relation]:
    """The source as a relation with the wanted columns, closed after use unless it was open
    before."""
    if isinstance(source, PeriodSource):
        return _open_period(source, wanted)
    if isinstance(source, _duck.OwnRelation | _duck.GivenRelation):
        require_columns(wanted, source.columns)
        return nullcontext(source)
    if isinstance(source, str | Path):
        return _open_path(source, wanted)
    if isinstance(source, _duck.DuckDBPyRelation):
        given = _duck.GivenRelation(source)
        require_columns(wanted, given.columns)
        return given
    frame = source if isinstance(source, HeldColumns) else hold_columns(source, wanted)
    relation = _duck.register_table(frame.table, frame.what)
    named = zip(relation.columns, relation.types, strict=True)
    relation.types = tuple(frame.types.get(name, kind) for name, kind in named)
    return relation


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldColumns:
    """Columns read from a frame; ``what`` the frame is, for messages; and the ``types``, by column,
    that Arrow cannot tell."""

    table: pa.Table
    what: str
    types: Mapping[str, str]


def hold_columns(source: object, wanted: Sequence[str]) -> HeldColumns:
    """Read the wanted columns of a frame."""
    what = f"the {package_of(source)} {type(source).__name__}"
    return HeldColumns(arrow_table(source, wanted), what, pandas_types(source, wanted))


@contextmanager
def _open_period(source: PeriodSource, wanted: Sequence[str]) -> Iterator[_duck.Relation]:
    """The records of a period as a relation."""
    with open_source(source.source, list(dict.fromkeys([*wanted, source.column]))) as relation:
        yield relation.restrict(source.condition(_type_of_column(relation, source.column)))


def period_reading(source: object, period: Period) -> PeriodReading:
    """How a source's column of times is read; ColumnError if that is impossible. Reads no row."""
    if is_spark(source):
        kind = SparkFrame(source, [period.column]).types[period.column]
        return PeriodReading(period=period, kind=kind)
    with open_source(without_rows(source), [period.column]) as relation:
        return PeriodReading(period=period, kind=_type_of_column(relation, period.column))


def _type_of_column(relation: _duck.Relation, column: str) -> str:
    return canonical(relation.types[relation.columns.index(column)])


@contextmanager
def _open_path(path: str | Path, wanted: Sequence[str]) -> Iterator[_duck.Relation]:
    """A file as a relation."""
    file = path if isinstance(path, File) else File(str(path))
    with ExitStack() as opening:
        yield opening.enter_context(_open_file(file, wanted, opening))


def _open_file(path: File, wanted: Sequence[str], opening: ExitStack) -> _duck.Relation:
    """The file as a relation. Raises SourceError, which quotes no line, for an unreadable file."""
    try:
        return open_file(path, wanted, opening)
    except DpframeError:
        raise
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        said = getattr(error, "strerror", None) or UNREADABLE.get(type(error), "it is damaged")
    raise SourceError(f"{path.label} cannot be read: {said[:1].lower()}{said[1:]}. Check the path.")


UNREADABLE = {
    gzip.BadGzipFile: "its name says gzip, and it is not",
    csv.Error: "its first line is too long, or no CSV",
    ValueError: "it cannot be a path",
}


def collect_lazy(source: object, wanted: Sequence[str]) -> object:
    """A table of a lazy or foreign frame, for code that reads it more than once; any other source
    is returned unchanged."""
    if isinstance(source, PeriodSource):
        return replace(source, source=collect_lazy(source.source, [*wanted, source.column]))
    lazy = type(source).__name__ == "LazyFrame" and package_of(source) == "polars"
    return arrow_table(source, wanted) if lazy or is_foreign(source) else source


def read_public_file(path: str, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of a public file, unchanged."""
    with _open_path(path, wanted) as relation:
        chosen = ", ".join(identifier(name) for name in wanted)
        return relation.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)


def only_text(source: object) -> bool:
    """Whether a source holds nothing but text, as CSV files do, so that types tell nothing."""
    source = whole_source(source)
    return isinstance(source, str | Path) and not str(source).lower().endswith(PARQUET)


def csv_reading(source: object) -> str | None:
    """How CSV files are read, empty text for the defaults; None for any other source."""
    file = whole_source(source)
    return (file.reading if isinstance(file, File) else "") if only_text(file) else None


def describe_source(source: object) -> str:
    """A public description of a source: the path of a file, otherwise the kind of object."""
    if isinstance(source, File):
        return (source.name or f"file {os.path.abspath(file_of_path(source))}") + source.reading
    if isinstance(source, str | Path):
        return f"file {os.path.abspath(file_of_path(source))}"
    if isinstance(source, _duck.DuckDBPyRelation):
        return "DuckDB relation"
    return f"{package_of(source)} {type(source).__name__}"


def relation_types(relation: _duck.Relation) -> dict[str, str]:
    """The names of the types of a relation, by column."""
    return dict(zip(relation.columns, map(canonical, relation.types), strict=True))


def level_and_user_types(
    relation: _duck.Relation, hierarchy: Hierarchy, user: str | None = None
) -> tuple[tuple[str, ...], str | None]:
    """The types of the columns of a hierarchy and of users. ColumnError if one cannot be read."""
    types = relation_types(relation)
    read = tuple(types[column] for column in hierarchy.source_columns)
    hierarchy.check_types(read)
    if user is None:
        return read, None
    check_writable(user, types[user])
    return read, types[user]


def canonical(duckdb_type: str) -> str:
    """The name of a type, ``ENUM`` without values for an ENUM."""
    return "ENUM" if duckdb_type.startswith("ENUM") else duckdb_type


As = Literal["instants", "dates", "text", "written"]

WORDS: dict[As, str] = {
    "instants": "as instants",
    "dates": "as dates",
    "text": "as text",
    "written": "as written",
}

NANOSECONDS = (datetime(1677, 9, 22), datetime(2262, 4, 11))
"""The first and last whole day that 64 bits of nanoseconds hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodReading:
    """A period and ``kind``, DuckDB's name for the type of its column.

    Raises ColumnError for a type that holds no times, and for a period that these times cannot
    express: a time zone for times without one, or hours for dates.
    """

    period: Period
    kind: str

    def __post_init__(self) -> None:
        period, reads = self.period, READS["date"]
        if not reads.holds(self.kind):
            otherwise = "Name a column of times."
            raise unreadable_type(
                "period reads", period.column, self.kind, reads.words, TIME_ADVICE, otherwise
            )
        if period.zone is not None and self.how != "instants":
            raise ColumnError(
                f"column {period.column!r} has type {self.kind.split('(')[0]}, without a time "
                f"zone. Leave {period.zone!r} out of period, or cast the column to TIMESTAMP WITH "
                "TIME ZONE."
            )
        bounds = () if period.text is None else period.bounds
        if self.how == "dates" and any(bound.hour for bound in bounds):
            raise ColumnError(
                f"column {period.column!r} has type DATE, which has no hours. Write a day or more "
                f"in place of {period.text!r}."
            )

    @property
    def how(self) -> As:
        """How the column's times are compared."""
        if has_zone(self.kind):
            return "instants"
        if self.kind == "DATE":
            return "dates"
        return "written" if self.kind in TIMES else "text"

    @property
    def axis(self) -> str:
        """The column, and how it is read."""
        finer = " in nanoseconds" if self.how == "instants" and self.kind.endswith("_NS") else ""
        return f"{self.period.column} {WORDS[self.how]}{finer}"

    @property
    def description(self) -> str:
        """How the column is read, for people."""
        zone = self.period.zone or "UTC"
        return {
            "instants": f"its bounds are those of the clock of {zone}",
            "dates": "dates are compared as they are written",
            "text": "text is read as ISO 8601; times with an offset in UTC, others as they stand",
            "written": "times are compared as they are written",
        }[self.how]

    @property
    def seconds(self) -> tuple[int, int]:
        """The period in whole seconds since 1970 on the axis, half open; not for NULL times."""
        return self.period.seconds(instants=self.how == "instants")

    @property
    def bounds(self) -> Bounds | None:
        """The period's bounds, half open, as the column is read: in UTC or as written; None for
        NULL times."""
        if self.period.text is None:
            return None
        return self.period.instants if self.how == "instants" else self.period.bounds

    def check_ended(self) -> None:
        """Raise ParameterError for a period that is not over."""
        self.period.check_ended(instants=self.how == "instants")

    def condition(self, column: str | None = None) -> str:
        """SQL for whether a row is in the period: one condition on a column, so that readers of
        files can skip rows. No value is an error. ``column`` is SQL of the column's values, by
        default its name."""
        column = identifier(self.period.column) if column is None else column
        if self.how == "text":
            column = f"({moment_sql(column, self.kind)})"
        if self.bounds is None:
            return f"{column} IS NULL"
        start, end = self.bounds
        if self.kind.endswith("_NS"):
            first, last = (bound.replace(tzinfo=start.tzinfo) for bound in NANOSECONDS)
            start, end = max(start, first), min(end, last)
            if start >= end:
                return "false"
        return f"{column} >= {self._literal(start)} AND {column} < {self._literal(end)}"

    def _literal(self, bound: datetime) -> str:
        """A bound in the type of the column. The column is not cast: some values could not be."""
        if self.how == "dates":
            return f"DATE '{bound:%Y-%m-%d}'"
        text = bound.replace(tzinfo=None).isoformat(" ")
        kind = self.kind if self.how != "text" else "TIMESTAMP"
        written = f"'{text}+00'" if self.how == "instants" else f"'{text}'"
        return f"CAST({written} AS {kind})"


OF_TIMES = (
    *("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "VARCHAR"),
)
"""Types that a column of times may have; an ENUM is text, too."""


def condition_of_any(period: Period, column: str) -> str:
    """SQL for whether a row is in a period, for a column whose type only the engine knows, before
    the engine reads a row. False for a type that :class:`PeriodReading` does not take."""
    kind, cases = kind_sql(column), []
    for name in OF_TIMES:
        with suppress(ColumnError):
            reading = PeriodReading(period=period, kind=name)
            cast = column if reading.how == "text" else f"TRY_CAST({column} AS {name})"
            cases.append(f"WHEN {literal(name)} THEN {reading.condition(cast)}")
    return f"CASE {kind} {' '.join(cases)} ELSE false END" if cases else "false"


def kind_sql(column: str) -> str:
    """SQL of the type of a column, VARCHAR for an ENUM."""
    kind = f"typeof({column})"
    plain = f"regexp_replace({kind}, '[^A-Za-z0-9_ (),]', '', 'g')"
    return f"CASE WHEN starts_with({kind}, 'ENUM(') THEN 'VARCHAR' ELSE {plain} END"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PeriodSource:
    """A source of which only the records in a period are read."""

    source: object
    reading: PeriodReading

    def __repr__(self) -> str:
        return f"Within({self.reading.axis}, {self.reading.period.text})"

    @property
    def column(self) -> str:
        return self.reading.period.column

    def condition(self, kind: str) -> str:
        """SQL for whether a row is read; SourceError if the column's type has changed."""
        if kind != self.reading.kind:
            raise SourceError("the source changed while it was read. Call again.")
        return self.reading.condition()


def restrict_to_period(source: object, reading: PeriodReading) -> object:
    """The source with only the records of a period; Spark restricts its own frames."""
    return _restrict_spark(source, reading) if is_spark(source) else PeriodSource(source, reading)


def whole_source(source: object) -> object:
    """The source without a restriction to a period."""
    return source.source if isinstance(source, PeriodSource) else source


def _restrict_spark(frame: Any, reading: PeriodReading) -> Any:
    """A DataFrame of the rows in a period."""
    from pyspark.sql import functions as F

    period = reading.period
    column = F.col("`" + period.column.replace("`", "``") + "`")
    if reading.how == "text":
        raise ColumnError(
            f"column {period.column!r} is text, which Spark reads in its own way. Cast it to a "
            "date or timestamp first."
        )
    if period.text is None:
        return withhold_spark_errors(lambda: frame.where(column.isNull()))
    first, last = reading.seconds

    def bound(seconds: int) -> Any:
        if reading.how == "instants":  # whatever the time zone of the session
            return F.timestamp_seconds(F.lit(seconds))
        wall = datetime(1970, 1, 1) + timedelta(seconds=seconds)
        if reading.how == "dates":
            return F.lit(date(wall.year, wall.month, wall.day))
        return F.expr(f"TIMESTAMP_NTZ'{wall.isoformat(' ')}'")

    return withhold_spark_errors(
        lambda: frame.where((column >= bound(first)) & (column < bound(last)))
    )
