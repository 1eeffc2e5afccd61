"""Results published in PostgreSQL, in a DuckDB file and as Parquet, and who may read them."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from tests.bi import sold

ROWS = "SELECT * FROM dp_results.revenue_all ORDER BY release, level, prefix"
FIRST = date(2026, 9, 28)
"""The Monday of 2026-W40."""


@dataclass(frozen=True)
class Database:
    """A database with the schema ``dp_results``; the folder holds the same results as files."""

    owner: Any
    ledger: dp.Ledger
    folder: Path

    @property
    def host(self) -> str:
        return str(self.owner.info.host)

    @property
    def name(self) -> str:
        return str(self.owner.info.dbname)

    @property
    def reader(self) -> str:
        """A role that may read what is published, and nothing else; its clock is New York's."""
        return f"reader_of_{self.name}"

    def address(self, user: str = "", kind: str = "postgresql") -> str:
        return f"{kind}://{user or self.reader}@/{self.name}?host={quote(self.host, safe='')}"

    def publish(self) -> None:
        dp.publish(self.ledger, f"{self.address('tester')}&schema=dp_results")
        dp.publish(self.ledger, self.folder / "results.duckdb")

    def rows(self) -> pd.DataFrame:
        """The rows of ``ROWS`` in the published DuckDB file, with counts as in PostgreSQL."""
        with duckdb.connect(self.folder / "results.duckdb", read_only=True) as con:
            frame = con.execute(ROWS.replace("dp_results.", "")).df()
        counts = [name for name in frame if name.startswith("customers")]
        return frame.astype(dict.fromkeys(counts, float))


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Equal names, order and values; clients choose types of pandas of their own."""
    assert list(found.columns) == list(expected.columns)
    for name in expected:
        left, right = found[name].tolist(), expected[name].tolist()
        if name == "period_start":
            left, right = [str(one)[:10] for one in left], [str(one)[:10] for one in right]
        left = [None if pd.isna(one) else one for one in left]
        assert left == [None if pd.isna(one) else one for one in right], name


def publish_in(owner: Any, folder: Path) -> Database:
    """Publish the sales, and let a reader in."""
    made = Database(owner, sold.ledger_in(folder), folder)
    made.publish()
    for told in (
        f"CREATE ROLE {made.reader} LOGIN",
        f"ALTER ROLE {made.reader} SET timezone = 'America/New_York'",
        f"GRANT USAGE ON SCHEMA dp_results TO {made.reader}",
        f"GRANT SELECT ON dp_results.dp_releases TO {made.reader}",
    ):
        owner.execute(told)
    made.publish()  # hands the right over to all that is published
    return made


@contextmanager
def port_of(host: str) -> Iterator[int]:
    """A port of this machine that leads to a server's socket, for clients which know only ports."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = (server, f"{host}/.s.PGSQL.5432")
        threading.Thread(target=_accept, args=given, daemon=True).start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, path: str) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:  # nobody listens any more
            return
        threading.Thread(target=_join, args=(client, path), daemon=True).start()


def _join(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
        back.start()
        _pass_on(client, server)
        back.join()


def _pass_on(here: socket.socket, there: socket.socket) -> None:
    with suppress(OSError):  # the other end has gone
        while data := here.recv(65536):
            there.sendall(data)
        there.shutdown(socket.SHUT_WR)


def place(variable: str, usual: str, what: str) -> Path:
    """What a variable names; skips where it is not there."""
    named = os.environ.get(variable, usual)
    if not named or not Path(named).exists():
        pytest.skip(f"{variable} names no {what}; see docs/bi.md")
    return Path(named).resolve()


def jdbc_driver() -> Path:
    """The jar of the driver, for a Java that compiles."""
    if shutil.which("javac") is None:
        pytest.skip("the program over JDBC needs a Java that compiles")
    return place("DPFRAME_JDBC", "/usr/share/java/postgresql.jar", "driver of PostgreSQL")
