"""What a fork waits for, and locks that a forked child would wait for. Threads of the parent do not
exist in the child: what one of them held there would be held for ever.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

LONGEST_WAIT = 60.0
"""Seconds that a fork waits at most for other threads."""

_changes = threading.Condition()
_inside: Counter[int] = Counter()
"""How often each thread is inside."""


@contextmanager
def no_fork() -> Iterator[None]:
    """Something that a fork of another thread waits for: a transaction, modules that load."""
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


def loaded(home: str, name: str) -> Any:
    """What a module has under a name. The module is loaded if nobody has done that."""
    with no_fork():
        return getattr(importlib.import_module(home), name)


def _before() -> None:
    _changes.acquire()  # nobody begins before the fork is done
    _changes.wait_for(lambda: not {*_inside} - {threading.get_ident()}, LONGEST_WAIT)


def _in_child() -> None:
    global _changes
    own = {threading.get_ident(): _inside[threading.get_ident()]}
    _changes = threading.Condition()
    _inside.clear()
    _inside.update({thread: times for thread, times in own.items() if times})
    if sys.version_info < (3, 12):
        _free_properties()


def _free_properties() -> None:
    """Those of ``cached_property``, which have locks in Python 3.11."""
    modules = [module for name, module in sys.modules.items() if name.startswith("dpframe.")]
    for kind in [value for module in modules for value in vars(module).values()]:
        if isinstance(kind, type) and kind.__module__.startswith("dpframe."):
            for value in vars(kind).values():
                if isinstance(value, cached_property):
                    vars(value)["lock"] = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _changes.release(), after_in_child=_in_child
    )
