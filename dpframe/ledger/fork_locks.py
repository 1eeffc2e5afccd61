"""Forks while threads use a ledger. A forked child inherits what SQLite has noted of its locks, but
not the locks: the child would wait for threads that it does not have."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from dpframe._forks import no_fork

_locks: set[sqlite3.Connection] = set()


@contextmanager
def lock_of_parent(db: sqlite3.Connection) -> Iterator[None]:
    """Keep a connection that holds a lock, perhaps for long, and has written nothing. It is closed
    at the end, and at once in a forked child."""
    _locks.add(db)
    try:
        yield
    finally:
        with no_fork():
            db.close()
            _locks.discard(db)


def _close_locks_in_child() -> None:
    while _locks:
        _locks.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_locks_in_child)
