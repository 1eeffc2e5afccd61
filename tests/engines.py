"""Engines that count a rollup in tests: a PostgreSQL server of our own, and Spark, here."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpframe.dialects import POSTGRES, SPARK, ZONED, Dialect


class Engine(Protocol):
    dialect: Dialect

    def load(self, name: str, table: pa.Table) -> None: ...

    def query(self, sql: str) -> pa.Table: ...

    def run(self, sql: str) -> None: ...


class SparkEngine:
    dialect = SPARK

    def __init__(self, session: Any, folder: Path) -> None:
        self.session, self._folder = session, folder

    def load(self, name: str, table: pa.Table) -> None:
        path = str(self._folder / f"{name}.parquet")
        pq.write_table(table, path)
        self.session.read.parquet(path).createOrReplaceTempView(name)

    def query(self, sql: str) -> pa.Table:
        return self.session.sql(sql).toArrow()

    def run(self, sql: str) -> None:
        self.session.sql(sql)


class PostgresEngine:
    dialect = POSTGRES

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def load(self, name: str, table: pa.Table) -> None:
        columns = ", ".join(f'"{f.name}" {_postgres_type(f.type)}' for f in table.schema)
        with self.connection.cursor() as cursor:
            cursor.execute(f'DROP TABLE IF EXISTS "{name}"')
            cursor.execute(f'CREATE TABLE "{name}" ({columns})')
            with cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
                for batch in table.to_batches():
                    for row in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                        copy.write_row(row)

    def run(self, sql: str) -> None:
        self.connection.execute(sql)

    def query(self, sql: str) -> pa.Table:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            rows = cursor.fetchall()
            names = [c.name for c in cursor.description]
        return pa.table({n: pa.array(c) for n, c in zip(names, _columns(rows, names), strict=True)})


def _columns(rows: list[tuple[Any, ...]], names: list[str]) -> list[list[Any]]:
    return [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in names]


def _postgres_type(kind: pa.DataType) -> str:
    named = _canonical(kind)
    return {"FLOAT": "real", "DOUBLE": "double precision"}.get(named, named)


def canonical_types(table: pa.Table) -> dict[str, str]:
    """The types of a table's columns as rollups know them."""
    return {field.name: _canonical(field.type) for field in table.schema}


def _canonical(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return "FLOAT" if kind.bit_width == 32 else "DOUBLE"
    if pa.types.is_integer(kind):
        return "BIGINT" if kind.bit_width == 64 else "INTEGER"
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_date(kind):
        return "DATE"
    if pa.types.is_timestamp(kind):
        return ZONED if kind.tz else "TIMESTAMP"
    return "VARCHAR"


def _absent(engine: str, why: str) -> None:
    if os.environ.get(f"DPFRAME_REQUIRE_{engine}") == "1":
        raise RuntimeError(why)
    pytest.skip(why)


@contextmanager
def spark() -> Iterator[SparkEngine]:
    """Spark on two threads of this machine, in a time zone with gaps; skips without Java."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        _absent("SPARK", "pyspark is not installed")
    if shutil.which("java") is None:
        _absent("SPARK", "Spark needs Java, which is not on PATH")
    with tempfile.TemporaryDirectory() as folder:
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.adaptive.enabled", "false")  # many small statements
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.session.timeZone", "America/New_York")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.warehouse.dir", folder)
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield SparkEngine(session, Path(folder))
        finally:
            session.stop()


def _binaries() -> Path | None:
    """Of the PostgreSQL that DPFRAME_POSTGRES names, or the newest of Debian, or that on PATH."""
    named = os.environ.get("DPFRAME_POSTGRES")
    if named:
        return Path(named)
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = shutil.which("initdb")
    return found[-1].parent if found else (Path(path).parent if path else None)


class PostgresServer:
    """A server of PostgreSQL in a folder of its own, with a socket and user tester."""

    def __init__(self, *settings: str) -> None:
        binaries = _binaries()
        if binaries is None:
            _absent("POSTGRES", "PostgreSQL is not installed")
        self._binaries = binaries
        self.folder = tempfile.mkdtemp(prefix="dpframe-pg-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        # the server refuses to run as root
        self._user: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}
        if self._user:
            try:
                shutil.chown(self.folder, "postgres")
            except LookupError:
                _absent("POSTGRES", "PostgreSQL does not run as root, and user postgres is missing")
        self._run(
            *(f"{binaries}/initdb", "-D", f"{self.folder}/data", "-U", "tester", "-A", "trust"),
            *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
        )
        told = ("listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off")
        self._settings = (*told, *settings)
        self.start()
        atexit.register(self.stop)

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self._user)

    def start(self) -> None:
        options = " ".join(f"-c {setting}" for setting in self._settings)
        where = ("-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-o", options)
        self._run(f"{self._binaries}/pg_ctl", *where, "-w", "start")

    def stop(self) -> None:
        """End it at once, if it runs."""
        if os.path.exists(f"{self.folder}/data/postmaster.pid"):
            data = ("-D", f"{self.folder}/data")
            self._run(f"{self._binaries}/pg_ctl", *data, "-m", "immediate", "stop")

    def address(self, database: str, user: str = "tester") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"


@contextmanager
def postgres() -> Iterator[PostgresEngine]:
    """A new database of the server of this process; skips where there can be none."""
    try:
        import psycopg
    except ImportError:
        _absent("POSTGRES", "psycopg is not installed")
    told = {"host": server().folder, "user": "tester", "autocommit": True}
    name = f"d{next(_numbers)}"
    with psycopg.connect(dbname="postgres", **told) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(dbname=name, **told) as connection:
        connection.execute("SET TIME ZONE 'America/New_York'")
        yield PostgresEngine(connection)


_numbers = count()


@cache
def server() -> PostgresServer:
    """The server of this process, which is started once and stopped when the process ends."""
    return PostgresServer()
