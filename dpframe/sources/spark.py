"""Spark DataFrames, classic and Connect, as relations for statements of Spark SQL.

The cluster counts. A statement reads the frame through a temporary view whose name nobody else
uses, and only its result comes to the driver, as Arrow. Spark's words about a row never leave this
file. This module loads pyspark only for a frame, and then the caller has loaded it already.
"""

from __future__ import annotations

import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from dpframe.errors import ColumnError, DpframeError, SourceError
from dpframe.sources.frames import require_columns

if TYPE_CHECKING:
    from logging import LogRecord


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
        elif f"bigger than {RESULT_LIMIT}" in str(error):
            failed = f"failed: the driver gets more than {RESULT_LIMIT}. Raise it, or set it to 0"
    # outside of every handler: no traceback or context holds the original
    raise SourceError(f"reading the Spark DataFrame {failed}.")


RESULT_LIMIT = "spark.driver.maxResultSize"
"""The setting of Spark that limits how many bytes a job returns to the driver."""

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
