"""Progress while a person waits, in notebooks and on terminals: what is done, and for how long.

Nothing is shown in the first two seconds, in a pipe, in tests, or after the end. Shown are the name
of a step and its time; for a query that reads data also its percentage, and for steps whose number
is public how many are done. No number of rows is shown.

Where nobody waits at a terminal, a step may have a time limit.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

AFTER, EVERY = 2.0, 0.5
"""Seconds before anything is shown, and between two looks."""

IN_A_TEST = "PYTEST_CURRENT_TEST"
"""The variable that pytest sets while a test runs; processes that the test starts inherit it."""

UNKNOWN = 79, 23
"""Columns and rows of a terminal that does not say how many it has."""

Done = Callable[[], float]
"""Tells how much of a step is done, in percent."""

TIME = "{desc}: {elapsed}"

PART = "{desc}: {percentage:3.0f}% |{bar}| {elapsed}"


@dataclass(eq=False, slots=True)
class Step:
    """A step that is going on."""

    name: str
    done: Done | None


class _Steps(threading.local):
    """The steps of this thread, the innermost last."""

    def __init__(self) -> None:
        self.inner: list[Step] = []


_steps = _Steps()


@contextmanager
def step(name: str, wanted: bool = True, done: Done | None = None) -> Iterator[Step]:
    """Show a step that can take long. Within another step it takes the outer step's place until it
    ends; otherwise it is shown if it is ``wanted`` and somebody looks."""
    here, inner = Step(name, done), _steps.inner
    if not inner and not (wanted and is_watched()):
        yield here
        return
    inner.append(here)
    try:
        if len(inner) == 1:
            with _show_steps(inner):
                yield here
        else:
            yield here
    finally:
        inner.remove(here)


@contextmanager
def part(name: str, done: Done | None = None) -> Iterator[Step]:
    """A step that is shown only within another."""
    with step(name, wanted=False, done=done) as here:
        yield here


def goes_on() -> bool:
    """Whether a step of this thread is shown."""
    return bool(_steps.inner)


def rename_step(name: str) -> None:
    """Rename the step of this thread, for instance to show its public number."""
    if _steps.inner:
        _steps.inner[-1].name = name


def is_watched() -> bool:
    """Whether standard error is a terminal or a notebook, and this is no test."""
    if sys.stderr is None or os.environ.get(IN_A_TEST):
        return False
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")


@contextmanager
def _show_steps(inner: list[Step]) -> Iterator[None]:
    over, start = threading.Event(), time.time()
    watcher = threading.Thread(target=_watch, args=(inner, over, start), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(inner: list[Step], over: threading.Event, start: float) -> None:
    if over.wait(AFTER):
        return
    with _bar(inner, start) as bar:
        while True:
            for now in inner[-1:]:  # none between two looks
                bar.total = None if now.done is None else 100
                bar.n = _step_percent(now)
                bar.bar_format = TIME if now.done is None else PART
                bar.set_description_str(now.name)
            if over.wait(EVERY):
                return


def _step_percent(now: Step) -> float:
    try:
        return 0.0 if now.done is None else min(100.0, max(0.0, now.done()))
    except Exception:  # the step has just ended, and its connection is closed
        return 0.0


def _bar(inner: list[Step], start: float) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # we look ourselves: no further thread

    name = next((now.name for now in inner[-1:]), "")
    bar = Bar(file=sys.stderr, leave=False, bar_format=TIME, desc=name, delay=1e-3)  # not yet
    bar.start_t = start
    if (bar.ncols or 0) <= 0 or (bar.nrows or 0) <= 0:
        bar.ncols, bar.nrows = UNKNOWN
    return bar


# -- time limits -----------------------------------------------------------------------------------


class TimeLimit:
    """Interrupts the statements of a thread that together take longer than some seconds. Another
    thread watches, from the first statement on."""

    def __init__(self, seconds: float) -> None:
        self._left, self._since = seconds, 0.0
        self._watch: threading.Thread | None = None
        self._stop: Callable[[], None] | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()

    @contextmanager
    def guard(self, stop: Callable[[], None]) -> Iterator[None]:
        """Count the time of the block, which ``stop`` interrupts."""
        with self._lock:
            outer, self._stop = self._stop, stop
            self._since = time.monotonic() if outer is None else self._since
        if self._watch is None:
            name = "dpframe-time-limit"
            self._watch = threading.Thread(target=self._look, name=name, daemon=True)
            self._watch.start()
        try:
            yield
        finally:
            with self._lock:
                self._stop = outer
                if outer is None:
                    self._left -= time.monotonic() - self._since

    def _look(self) -> None:
        """Interrupt what takes too long, again and again: an interrupt before a statement begins is
        lost."""
        while not self._ended.wait(LOOK_EVERY):
            with self._lock:
                if self._stop is not None and time.monotonic() - self._since > self._left:
                    self._stop()

    def end(self) -> None:
        self._ended.set()
        if self._watch is not None:
            self._watch.join()


LOOK_EVERY = 0.05
"""Seconds between two looks at a statement that may take too long."""

_limits = threading.local()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the statements of this thread in the block once they have taken so many seconds
    together. Time between them does not count, nor does a limit around this one."""
    limit, outer = TimeLimit(seconds), getattr(_limits, "now", None)
    _limits.now = limit
    try:
        yield
    finally:
        _limits.now = outer
        limit.end()


def guard_time(stop: Callable[[], None] | None) -> AbstractContextManager[None]:
    """The block under the time limit of this thread, if there is one."""
    limit: TimeLimit | None = getattr(_limits, "now", None)
    return nullcontext() if limit is None or stop is None else limit.guard(stop)
