"""Spark DataFrames as relations, columns by name, and periods of a source.

**Spark DataFrames**, classic and Connect, are opened as relations for statements of Spark SQL.

The cluster counts. A statement reads the frame through a temporary view whose name nobody else
uses, and only its result comes to the driver, as Arrow. Spark's words about a row never leave this
file. This module loads pyspark only for a frame, and then the caller has loaded it already.

**A period** restricts a source to its records: how a column of times is read, and the condition.

A record has one time in a reading. ``axis`` names the reading: a ledger counts two periods as
disjoint only if they have the same axis. A table of dates and a table of times, or a text and a
time with a zone, can hold one record under two times. So can times with a zone in nanoseconds: when
DuckDB scans a frame, it cuts them towards 1970.
"""

from __future__ import annotations

import difflib
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa

from dpframe.common.texts import identifier, literal
from dpframe.errors import ColumnError, DpframeError, SourceError
from dpframe.hierarchy._base import has_zone
from dpframe.hierarchy._date import moment_sql
from dpframe.hierarchy._types import READS, TIME_ADVICE, TIMES, unreadable_type
from dpframe.periods import Bounds, Period

if TYPE_CHECKING:
    from logging import LogRecord


def require_columns(
    wanted: Sequence[str],
    present: Sequence[object],
    *,
    listed: bool = True,
    alone: bool = False,
    index: Sequence[object] = (),
) -> None:
    """Raise ColumnError unless every wanted column occurs once, and in one spelling.

    ``alone`` says that SQL will see only the wanted columns. ``listed=False`` keeps the present
    names out of the message: the first line of a text file without a header is a record. ``index``
    names the levels of a frame's index, which are no columns.
    """
    names = [column for column in present if isinstance(column, str)]
    for name in wanted:
        if name not in names and name in index:
            raise ColumnError(f"column {name!r} is in the index. Pass frame.reset_index().")
        if name not in names:
            raise ColumnError(
                f"column {name!r} does not exist.{_missing_column_help(name, names, listed)}"
            )
        if names.count(name) > 1:
            raise ColumnError(f"column {name!r} appears {names.count(name)} times. Rename one.")
        seen = wanted if alone else names
        twins = {other for other in seen if other.lower() == name.lower()} - {name}
        if twins:  # SQL does not tell them apart, and could read the wrong column
            raise ColumnError(
                f"columns {name!r} and {min(twins)!r} differ in case only. Rename one."
            )


def check_arrow_types(types: Mapping[str, object]) -> None:
    """Raise ColumnError for a Polars type that Arrow lacks; ``types`` maps columns to types."""
    for name, kind in types.items():
        if "Int128" in str(kind):
            raise ColumnError(
                f"column {name!r} has type {kind}, which Arrow lacks. Cast it to Int64, or a key "
                "to String."
            )


def _missing_column_help(name: str, names: list[str], listed: bool) -> str:
    if not listed:
        return " The first line of the file must name the columns."
    near = [other for other in names if other.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    outer, dot, field = name.partition(".")
    if dot and outer in names:
        return (
            f" Fields of column {outer!r} are not read. Make a column of the field: in SQL "
            f"{outer}.{field} AS {field}, in pandas df[{outer!r}].str[{field!r}]."
        )
    if set("*>") & set(name) and not any(sign in name for sign in (" * ", " > ")):
        hint += " For several hierarchies hhh and rollup read 'a * b' and 'a > b', with blanks."
    some = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    return f"{hint} Columns: {some or 'none'}."


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


PARTITIONS = 200
"""Spark's own default for ``spark.sql.shuffle.partitions``, for sessions that hold no number."""

TYPES = {
    "StringType": "VARCHAR",
    "VarcharType": "VARCHAR",
    "CharType": "VARCHAR",
    "BooleanType": "BOOLEAN",
    "ByteType": "TINYINT",
    "ShortType": "SMALLINT",
    "IntegerType": "INTEGER",
    "LongType": "BIGINT",
    "FloatType": "FLOAT",
    "DoubleType": "DOUBLE",
    "DateType": "DATE",
    "TimestampType": "TIMESTAMP WITH TIME ZONE",
    "TimestampNTZType": "TIMESTAMP",
    "NullType": "VARCHAR",
}
"""The names by which hierarchies know Spark's types; names of decimals, which include their digits,
are not listed."""

READ = "text, numbers, booleans, dates or timestamps"

OTHER_VERSION = "the workers have another version of dpframe"

T = TypeVar("T")


def is_spark(source: object) -> bool:
    """Whether a source is a DataFrame of Spark; pyspark is not loaded."""
    kind = type(source)
    return kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"


class SparkFrame:
    """A DataFrame with a temporary view; used in a ``with`` block, which drops the view.

    ``columns`` are all names of the frame. ``types`` maps the wanted columns, in their order, to
    DuckDB's names of their types, and ``names`` maps them to their names in the view.
    """

    def __init__(self, frame: Any, wanted: Sequence[str]) -> None:
        self._frame, self.view = frame, f"dpframe_{uuid.uuid4().hex}"
        self.listed = f"{self.view}_listed"
        check_running(frame)
        if withhold_spark_errors(lambda: frame.isStreaming):
            raise SourceError(
                "a streaming DataFrame has no end. Write it to a table, or count its batches in "
                "foreachBatch, each with its own budget."
            )
        fields = withhold_spark_errors(lambda: list(frame.schema.fields))
        self.columns = tuple(str(field.name) for field in fields)
        require_columns(wanted, self.columns)
        self._kinds = {field.name: field.dataType for field in fields if field.name in wanted}
        self.types = {name: duckdb_name_of_type(name, self._kinds[name]) for name in wanted}
        self.names = {name: f"x{i}" for i, name in enumerate(self.types)}

    def __enter__(self) -> SparkFrame:
        pairs = self.names.items()
        columns = [self._column(name).alias(other) for name, other in pairs]
        withhold_spark_errors(
            lambda: self._frame.select(columns).createOrReplaceTempView(self.view)
        )
        return self

    def __exit__(self, *error: object) -> None:
        catalog = self._frame.sparkSession.catalog
        with suppress(SourceError):  # if the session is gone, so are its views
            for name in (self.view, f"{self.view}_rows", self.listed):
                withhold_spark_errors(partial(catalog.dropTempView, name))

    def records(self, columns: Sequence[str], user: str | None) -> Any:
        """The columns for Python, named by ``names``, with texts in valid UTF-8. The ids of
        ``user`` are in column ``u``."""
        from pyspark.sql import functions as F

        chosen = []
        for name in columns:
            column = self._column(name)
            valid = F.make_valid_utf8(column) if self.types[name] == "VARCHAR" else column
            chosen.append(valid.alias(self.names[name]))
        users = [] if user is None else [self._identity(user).alias("u")]
        return self._frame.select([*chosen, *users])

    def _column(self, name: str) -> Any:
        """A column of the frame, whose texts are compared by their bytes."""
        from pyspark.sql import functions as F

        plain = F.col("`" + name.replace("`", "``") + "`")
        if self.types[name] != "VARCHAR":
            return plain
        kind = self._kinds[name]
        if type(kind).__name__ != "StringType":  # a text of declared length, or void
            plain = plain.cast("string")
        if getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
            plain = F.collate(plain, "UTF8_BINARY")
        return plain

    def _identity(self, name: str) -> Any:
        """Ids that DuckDB tells apart as Spark does: DuckDB holds fewer times, and only texts in
        UTF-8."""
        from pyspark.sql import functions as F

        column, kind = self._column(name), self.types[name]
        if kind == "TIMESTAMP WITH TIME ZONE":
            return F.unix_micros(column)
        if kind == "VARCHAR":
            written = F.concat(F.lit("!"), F.hex(column.cast("binary")))
            return F.when(F.is_valid_utf8(column), F.concat(F.lit("="), column)).otherwise(written)
        return column.cast("string") if kind in ("DATE", "TIMESTAMP") else column

    def rows_with_table(self, statement: str, table: pa.Table) -> pa.Table:
        """The rows of a statement that also reads a public table, as the view ``self.listed``."""
        session = self._frame.sparkSession

        def asked() -> Any:
            session.createDataFrame(table).createOrReplaceTempView(self.listed)
            return session.sql(statement)

        return fetch_table(asked)

    def query(self, statement: str, *, only: pa.Table | None = None) -> pa.Table:
        """The rows of a statement of Spark SQL; with ``only``, just the rows in this public table,
        where NULL equals NULL and all columns but ``level`` are text."""
        session = self._frame.sparkSession
        if only is None:
            return fetch_table(lambda: session.sql(statement))
        same = " AND ".join(
            f"CAST(r.{name} AS STRING) <=> l.{name}" for name in only.column_names[1:]
        )
        listed = (
            f"SELECT r.* FROM {self.view}_rows r LEFT SEMI JOIN {self.listed} l "
            f"ON r.level = l.level AND {same}"
        )

        def asked() -> Any:
            session.createDataFrame(only).createOrReplaceTempView(self.listed)
            session.sql(statement).createOrReplaceTempView(f"{self.view}_rows")
            return session.sql(listed)

        return fetch_table(asked)


def fetch_table(ask: Callable[[], Any]) -> pa.Table:
    """The rows of the frame that ``ask`` makes."""
    with _mute_warnings():
        return withhold_spark_errors(lambda: ask().toArrow())


def duckdb_name_of_type(column: str, kind: Any) -> str:
    """DuckDB's name for a type of Spark; ColumnError for a type that statements cannot read."""
    name = type(kind).__name__
    if name == "DecimalType":
        return f"DECIMAL({kind.precision},{kind.scale})"
    if name not in TYPES:
        shown = name.removesuffix("Type").upper()
        raise ColumnError(
            f"column {column!r} has type {shown}, which is not read from Spark. Cast it, or the "
            f"part to count by, to {READ}."
        )
    return TYPES[name]


def shuffle_partitions(frame: Any) -> int:
    """How many partitions the session shuffles into: a setting, independent of the data."""
    text = ""
    with suppress(SourceError):  # after a session stopped, a stored release can still be replayed
        text = withhold_spark_errors(
            lambda: frame.sparkSession.conf.get("spark.sql.shuffle.partitions")
        )
    return int(text) if str(text).isdecimal() and int(text) > 0 else PARTITIONS


def check_running(frame: Any) -> None:
    """Raise SourceError for a frame of a session that has stopped."""
    session = frame.sparkSession
    if hasattr(session, "is_stopped"):
        stopped = bool(session.is_stopped)
    else:
        stopped = session.sparkContext._jsc is None
    if stopped:
        raise SourceError(
            "the Spark session of the DataFrame has stopped. Start one, "
            "SparkSession.builder.getOrCreate(), and make the DataFrame again."
        )


def withhold_spark_errors(call: Callable[[], T]) -> T:
    """Run a call, and replace Spark's errors by a SourceError that quotes nothing."""
    try:
        with _mute_loggers():
            return call()
    except DpframeError:
        raise
    except Exception as error:
        failed = f"failed ({type(error).__name__}; its text is withheld)"
        if "No module named 'dpframe'" in str(error):
            failed = (
                "failed: the Python of Spark's workers has no dpframe. Install it there, or set "
                "PYSPARK_PYTHON before the session starts"
            )
        elif OTHER_VERSION in str(error):
            failed = f"failed: {OTHER_VERSION} than the driver. Install the same there"
    # outside of every handler: no traceback or context holds the original
    raise SourceError(f"reading the Spark DataFrame {failed}.")


LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
"""Loggers of pyspark in this process that write down a failure with the value that caused it."""


@contextmanager
def _mute_loggers() -> Iterator[None]:
    from pyspark.logger import PySparkLogger

    names = [name for name in LOGGERS if name in sys.modules or "." not in name]
    loggers, own = [PySparkLogger.getLogger(name) for name in names], threading.get_ident()

    def others(record: LogRecord) -> bool:
        """Let records of other threads pass."""
        return record.thread != own

    for logger in loggers:
        logger.addFilter(others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)


@contextmanager
def _mute_warnings() -> Iterator[None]:
    """Mute pyspark's warning about versions of pandas, which is not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield
