"""Forked children. The threads of the parent do not exist in a child: what one of them was doing
at the fork, such as loading a module or waiting inside SQLite, is never finished there.

So a child makes locks and databases anew. If another thread was inside a call at the fork, the
child refuses all calls, because it could wait for ever. Nothing waits for other threads' imports.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from threading import get_ident

_calls: dict[int, int] = {}
"""How many calls each thread is inside of."""

_was_torn = False
"""Whether this process was forked while another thread was inside a call."""


class InsideCall:
    """A block that is a call for forks of other threads. It raises ``error`` in a child that was
    forked while another thread was inside such a block."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __enter__(self) -> None:
        if _was_torn:
            raise self._error(
                "this process was forked while another thread was inside a call of dpframe. Start "
                "it with spawn, for instance by multiprocessing.get_context('spawn')."
            )
        thread = get_ident()
        _calls[thread] = _calls.get(thread, 0) + 1

    def __exit__(self, *error: object) -> None:
        thread = get_ident()
        if _calls[thread] > 1:
            _calls[thread] -= 1
        else:
            del _calls[thread]


def is_torn() -> bool:
    """Whether this process was forked while another thread was inside a call."""
    return _was_torn


def others_inside() -> bool:
    """Whether another thread is inside a call."""
    return bool(_calls.keys() - {get_ident()})


_before: list[Callable[[], object]] = []
_in_parent: list[Callable[[], object]] = []
_in_child: list[Callable[[], object]] = []
for _hooks in (_before, _in_parent, _in_child):
    atexit.register(_hooks.clear)  # what they hold would outlive the interpreter: DuckDB complains


def renew_in_child(
    renew: Callable[[], object],
    *,
    before: Callable[[], object] | None = None,
    in_parent: Callable[[], object] | None = None,
) -> None:
    """Call ``renew`` in each forked child, and the others around each fork in the parent."""
    _in_child.append(renew)
    _before.extend([before] if before else [])
    _in_parent.extend([in_parent] if in_parent else [])


def _run_hooks(hooks: list[Callable[[], object]]) -> None:
    for hook in hooks:
        hook()


def _start_child() -> None:
    global _was_torn
    _was_torn = _was_torn or others_inside()
    for thread in _calls.keys() - {get_ident()}:
        del _calls[thread]
    _run_hooks(_in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _run_hooks(_before),
        after_in_parent=lambda: _run_hooks(_in_parent),
        after_in_child=_start_child,
    )
