"""What a fork waits for, and locks that a forked child would wait for. Threads of the parent do not
exist in the child: a lock that one of them holds would be held there for ever.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Literal, NamedTuple

LONGEST_WAIT = 60.0
"""Seconds that a fork waits at most for other threads."""

_changes = threading.Condition()
_inside: Counter[int] = Counter()
"""How many blocks of ``no_fork`` each thread is inside of."""


class AtFork(NamedTuple):
    """Calls around a fork, for instance to hold a lock or to let go of a database."""

    before: Callable[[], object]
    in_parent: Callable[[], object]
    in_child: Callable[[], object]


_fork_lock = threading.Lock()
"""Held by the thread that forks."""
_hooks: list[AtFork] = []
atexit.register(_hooks.clear)  # what it holds would outlive the interpreter, and DuckDB complains
_started_hooks: list[AtFork] = []
"""Entries whose ``before`` this fork has called: a module can load while a fork waits."""


def at_fork(
    before: Callable[[], object], in_parent: Callable[[], object], in_child: Callable[[], object]
) -> None:
    """Call these around each fork; ``in_parent`` or ``in_child`` only if ``before`` was called."""
    _hooks.append(AtFork(before, in_parent, in_child))


@contextmanager
def no_fork() -> Iterator[None]:
    """Let forks of other threads wait for the block, such as a transaction or loading modules."""
    thread = threading.get_ident()
    with _changes:
        _inside[thread] += 1
    try:
        yield
    finally:
        with _changes:
            _inside[thread] -= 1
            if not _inside[thread]:
                del _inside[thread]
            _changes.notify_all()


def load_name(home: str, name: str) -> Any:
    """Return what a module has under a name. Load the module if nothing has done that."""
    with no_fork():
        return getattr(importlib.import_module(home), name)


def others_inside() -> bool:
    """Whether another thread is inside of ``no_fork``."""
    with _changes:
        return bool({*_inside} - {threading.get_ident()})


def _hold_for_fork() -> None:
    _fork_lock.acquire()
    while True:
        for part in _hooks[len(_started_hooks) :]:
            part.before()
            _started_hooks.append(part)
        _changes.acquire()  # nobody begins before the fork is done
        _wait()
        if len(_started_hooks) == len(_hooks):
            return
        _changes.release()


def _wait() -> None:
    end = time.monotonic() + LONGEST_WAIT
    while ({*_inside} - {threading.get_ident()} or _others_load()) and time.monotonic() < end:
        _changes.wait(0.005)  # nobody tells when a module has loaded


def _others_load() -> bool:
    """Whether another thread loads a module of any library: a child that needs it would wait for
    ever. A thread that forks while it loads a module waits for no other, which may wait for it.
    """
    locks = [one() for one in [*getattr(importlib._bootstrap, "_module_locks", {}).values()]]
    owners = {getattr(lock, "owner", None) for lock in locks} - {None}
    return bool(owners) and threading.get_ident() not in owners


def _in_parent() -> None:
    with suppress(RuntimeError):  # Ctrl-C ended the wait
        _changes.release()
    _finish_fork("in_parent")


def _start_child() -> None:
    global _changes
    own = {threading.get_ident(): _inside[threading.get_ident()]}
    _changes = threading.Condition()
    _inside.clear()
    _inside.update({thread: times for thread, times in own.items() if times})
    if sys.version_info < (3, 12):
        _free_properties()
    _finish_fork("in_child")


def _finish_fork(where: Literal["in_parent", "in_child"]) -> None:
    while _started_hooks:
        getattr(_started_hooks.pop(), where)()
    _fork_lock.release()


def _free_properties() -> None:
    """Renew the locks that ``cached_property`` has in Python 3.11."""
    modules = [module for name, module in sys.modules.items() if name.startswith("dpframe.")]
    for kind in [value for module in modules for value in vars(module).values()]:
        if isinstance(kind, type) and kind.__module__.startswith("dpframe."):
            for value in vars(kind).values():
                if isinstance(value, cached_property):
                    vars(value)["lock"] = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_for_fork, after_in_parent=_in_parent, after_in_child=_start_child
    )
