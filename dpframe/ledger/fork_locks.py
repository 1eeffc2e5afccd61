"""Forks while threads use a ledger. A child inherits what SQLite believes of its locks, but not the
locks: it would wait for threads that do not exist in it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from dpframe._forks import no_fork

_locks: set[sqlite3.Connection] = set()


@contextmanager
def lock_of_parent(db: sqlite3.Connection) -> Iterator[None]:
    """Hold a lock, perhaps for long, with nothing written. Its connection is closed at the end, and
    at once in a forked child."""
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
