"""Which ledger a call uses: the one it is given, or the one chosen with ``use_ledger``."""

from __future__ import annotations

from contextvars import ContextVar, Token
from pathlib import Path

from dpframe.errors import ParameterTypeError
from dpframe.ledger.book import Ledger

_current: ContextVar[Ledger | None] = ContextVar("dpframe_ledger", default=None)


class use_ledger:
    """Charge every call from here on to a ledger, or within a ``with`` block.

    Parameters
    ----------
    ledger
        A :class:`Ledger`, the path of one, or None to go back to no ledger.

    Notes
    -----
    Holds for the current thread or task (``contextvars``). ``ledger=`` on a call goes first.

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
        self._token: Token[Ledger | None] = _current.set(self._ledger)

    def __enter__(self) -> Ledger | None:
        return self._ledger

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)

    def __repr__(self) -> str:
        return f"<using {self._ledger!r}>"


def current_ledger() -> Ledger | None:
    """The ledger of ``use_ledger``, if any."""
    return _current.get()


def as_ledger(ledger: object) -> Ledger | None:
    """A ledger from what a caller passed; None stays None."""
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger(ledger)
    raise ParameterTypeError(
        f"ledger must be a dp.Ledger or the path of one; got {type(ledger).__name__}."
    )
