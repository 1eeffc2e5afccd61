"""The database of this process: in memory, made when it is needed, never shared with a child."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
from duckdb import DuckDBPyConnection

from dpframe._duck.ctrl_c import run_interruptibly
from dpframe._duck.memory_limits import read_limits, set_limits
from dpframe._duck.spill_folder import SpillFolder
from dpframe._forks import renew_in_child
from dpframe._sql import literal


@dataclass(frozen=True, slots=True)
class ProcessDatabase:
    """A connection to the database of this process, and the folder that this database spills to."""

    connection: DuckDBPyConnection
    folder: SpillFolder
    name: str
    limits: dict[str, str] = field(default_factory=dict)
    """Limits of the environment that are in force."""

    def ready(self) -> str:
        """Make the spill folder if a cleaner has removed it. To be called before each statement."""
        return self.folder.ready(self.name)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Run the block with one thread: each thread needs memory before it spills."""
        with self.connection.cursor() as cursor:
            found = cursor.execute("SELECT current_setting('threads')").fetchone()
            assert found is not None
            cursor.execute("SET threads = 1")
            try:
                yield
            finally:
                cursor.execute(f"SET threads = {found[0]}")


IN_DOUBT = "in doubt"

_databases: dict[int, ProcessDatabase] = {}
"""Databases by process: one inherited from a parent is never used, nor destroyed."""

_folders: dict[int, SpillFolder] = {}

_names = map(str, itertools.count())

_opening = threading.Lock()
"""Held while a database is opened or closed, and while a process forks."""


def process_database() -> ProcessDatabase:
    """The database of this process, made if there is none yet."""
    process = os.getpid()
    with _opening:
        if process not in _databases:
            if process not in _folders:
                _folders[process] = SpillFolder()
            new = ProcessDatabase(duckdb.connect(":memory:"), _folders[process], next(_names))
            setting = f"SET temp_directory = {literal(new.ready())}"
            run_interruptibly(lambda: new.connection.execute(setting))
            _databases[process] = new
        found, limits = _databases[process], read_limits()
        if limits != found.limits:
            found.limits[IN_DOUBT] = ""  # until all are set
            set_limits(found.connection, limits)
            found.limits.clear()
            found.limits.update(limits)
        return found


def forget() -> None:
    """The next use opens another database; this one closes with its last cursor."""
    _databases.pop(os.getpid(), None)


@contextmanager
def one_task() -> Iterator[None]:
    """Run a task in a process that works beside others and may end without its exit: with one
    thread, and leaving no files."""
    connection = process_database().connection
    connection.execute("SET threads = 1")
    try:
        yield
    finally:
        forget()
        connection.close()
        _folders.pop(os.getpid()).remove()


# DuckDB's threads do not exist in a forked child, where the end of a database waits for them.
# So a process forks without a database of ours, unless another thread is using it: that thread
# does not exist in the child either, and what it uses is never destroyed there.


def _close_before_fork() -> None:
    _opening.acquire()
    forget()


def _start_child() -> None:
    global _opening
    _opening = threading.Lock()
    for folder in _folders.values():
        folder.let_go()


renew_in_child(_start_child, before=_close_before_fork, in_parent=_opening.release)
