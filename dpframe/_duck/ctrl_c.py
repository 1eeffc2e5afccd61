"""Ctrl-C while DuckDB works: it stops, and forgets who asked."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def catch_ctrl_c(stop: Callable[[], None] | None = None) -> Iterator[list[BaseException]]:
    """Collect what the handler of Ctrl-C raises in the block, usually KeyboardInterrupt: DuckDB
    turns whatever a handler raises into a RuntimeError.

    ``stop`` interrupts the connection that works: DuckDB's other threads hear no signal, and
    without it the end of the statement waits until each has read its part.
    """
    raised: list[BaseException] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield raised  # Python runs handlers in the main thread only
        return

    def listen(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            if stop is not None:
                stop()
            raise

    signal.signal(signal.SIGINT, listen)
    try:
        yield raised
    finally:
        if signal.getsignal(signal.SIGINT) is listen:
            signal.signal(signal.SIGINT, handler)


def run_interruptibly(call: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Run a call of DuckDB, and raise what the handler of Ctrl-C raised."""
    with catch_ctrl_c(stop) as raised:
        try:
            result = call()
        except Exception:
            if not raised:
                raise
    if raised:  # outside of the except: DuckDB's own error can quote the data
        raise raised[0].with_traceback(None) from None
    return result
