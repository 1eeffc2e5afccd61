"""Forks while threads use a ledger. A child inherits what SQLite believes of its locks, but not the
locks: it would wait for threads that do not exist in it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_WAIT = 60.0
"""Seconds that a fork waits at most for transactions of other threads."""

_changes = threading.Condition()
_inside = 0
_locks: set[sqlite3.Connection] = set()


@contextmanager
def no_fork() -> Iterator[None]:
    """A transaction that a fork waits for."""
    global _inside
    with _changes:
        _inside += 1
    try:
        yield
    finally:
        with _changes:
            _inside -= 1
            _changes.notify_all()


@contextmanager
def lock_of_parent(db: sqlite3.Connection) -> Iterator[None]:
    """A lock that can be held for long, with nothing written; closed at the end, and at once in a
    child."""
    _locks.add(db)
    try:
        yield
    finally:
        with no_fork():
            db.close()
            _locks.discard(db)


def _before() -> None:
    _changes.acquire()  # nobody begins before the fork is done
    _changes.wait_for(lambda: not _inside, LONGEST_WAIT)


def _in_child() -> None:
    global _changes, _inside
    _changes, _inside = threading.Condition(), 0
    while _locks:
        _locks.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _changes.release(), after_in_child=_in_child
    )
