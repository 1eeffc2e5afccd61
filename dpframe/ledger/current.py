"""Which ledger a call uses: the one it is given, or the one chosen with ``use_ledger``."""

from __future__ import annotations

import itertools
import threading
from contextvars import ContextVar, Token
from pathlib import Path

from dpframe.errors import LedgerError, ParameterTypeError
from dpframe.ledger.book import Ledger

_here: ContextVar[tuple[Ledger | None] | None] = ContextVar("dpframe_ledger", default=None)
"""What this thread or task chose, if it did."""

_everywhere: dict[int, tuple[int, Ledger | None]] = {}
"""All choices that have not ended, with their threads, for threads that chose nothing."""

_numbers = itertools.count()


class use_ledger:
    """Charge every call from here on to a ledger, or within a ``with`` block.

    Parameters
    ----------
    ledger
        A :class:`Ledger`, the path of one, or None to go back to no ledger.

    Notes
    -----
    ``ledger=`` on a call goes first. Then a thread or task goes by what it chose itself, and one
    that chose nothing (a worker of a pool) by what the program chose; if several threads chose
    different ledgers, it is refused. A process that is spawned, not forked, starts without.

    Examples
    --------
    >>> import tempfile, pathlib, dpframe as dp
    >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
    >>> with dp.use_ledger(dp.Ledger(file, epsilon=3.0, delta=1e-5)) as ledger:
    ...     ledger.left.epsilon
    3.0
    """

    def __init__(self, ledger: Ledger | str | Path | None) -> None:
        self._ledger = as_ledger(ledger)
        self._begun: list[tuple[int, Token[tuple[Ledger | None] | None]]] = []
        self._blocks = 0
        self._begin()

    def _begin(self) -> None:
        number = next(_numbers)
        self._choice = (self._ledger,)
        _everywhere[number] = threading.get_ident(), self._ledger
        self._begun.append((number, _here.set(self._choice)))

    def __enter__(self) -> Ledger | None:
        self._blocks += 1
        if self._blocks > len(self._begun) or _here.get() is not self._choice:
            self._begin()  # not the block of the statement that made this object
        return self._ledger

    def __exit__(self, *error: object) -> None:
        self._blocks -= 1
        number, token = self._begun.pop()
        del _everywhere[number]
        _here.reset(token)

    def __repr__(self) -> str:
        return f"<using {self._ledger!r}>"


def current_ledger() -> Ledger | None:
    """The ledger of ``use_ledger``, if any."""
    here = _here.get()
    if here is not None:
        return here[0]
    last = dict(list(_everywhere.values()))  # of every thread
    chosen = {ledger.path: ledger for ledger in last.values() if ledger is not None}
    if len(chosen) > 1:
        raise LedgerError(
            "other threads use different ledgers and this one chose none: pass ledger=, or call "
            "dp.use_ledger in this thread."
        )
    return next(iter(chosen.values()), None)


def as_ledger(ledger: object) -> Ledger | None:
    """A ledger from what a caller passed; None stays None."""
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger(ledger)
    raise ParameterTypeError(
        f"ledger must be a dp.Ledger or the path of one; got {type(ledger).__name__}."
    )
