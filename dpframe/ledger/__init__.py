"""A budget that cannot be overspent: kept in a file, charged before noise is drawn.

The modules of a ledger are loaded when a ledger is opened: most first calls use no ledger.

**Which ledger a call charges**: the one it is given, else the choice of its context, else the
program's default, else none.

Contexts are those of :mod:`contextvars`. A generator has none of its own: code of others runs while
it waits, and would charge its choice. So a generator cannot choose.
"""

from __future__ import annotations

import inspect
import sys
from contextvars import ContextVar, Token
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from dpframe.common.calls import known_arguments
from dpframe.common.calls import load_name as _loaded
from dpframe.errors import LedgerError, ParameterTypeError

_HOMES = {
    "Blocks": "dpframe.ledger.blocks",
    "Charge": "dpframe.ledger.entries",
    "Ledger": "dpframe.ledger.book",
    "PaidCharge": "dpframe.ledger.state",
    "Reservation": "dpframe.ledger.reservations",
    "Spending": "dpframe.ledger.store",
    "StoredResult": "dpframe.ledger.book",
}
"""For each name that is loaded on first use: its module."""

__all__ = [
    "Blocks",
    "Charge",
    "Ledger",
    "PaidCharge",
    "Reservation",
    "Spending",
    "StoredResult",
    "as_ledger",
    "chosen_ledger",
    "current_ledger",
    "default_ledger",
    "use_ledger",
]

if not TYPE_CHECKING:  # a type checker would take any name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = _loaded(_HOMES[name], name)
        return value

else:
    from dpframe.ledger.blocks import Blocks
    from dpframe.ledger.book import Ledger, StoredResult
    from dpframe.ledger.entries import Charge
    from dpframe.ledger.reservations import Reservation
    from dpframe.ledger.state import PaidCharge
    from dpframe.ledger.store import Spending


@dataclass(eq=False, slots=True)
class _Choice:
    """A choice of a ledger, or of none."""

    ledger: Ledger | None
    block: use_ledger | None = None
    """The ``with`` block that it is for; None for a statement, which ends with the block before."""
    of_program: bool = False
    """Whether it is the default, which another cell can have changed since."""
    token: Token[tuple[_Choice, ...]] | None = None
    """What the context that entered the block, and no copy of it, can give back."""
    left_elsewhere: bool = False
    """Whether another context left the block, so that its own context still has the choice."""


_here: ContextVar[tuple[_Choice, ...]] = ContextVar("dpframe_ledger", default=())
"""The choices of this context, the last one last."""

_default = _Choice(None, of_program=True)


@known_arguments
def default_ledger(ledger: Ledger | str | Path | None) -> None:
    """Charge every call of the program to a ledger, in all threads, unless its context chose one.

    Parameters
    ----------
    ledger
        A :class:`Ledger`, the path of one, or None for no default.

    Raises
    ------
    ParameterTypeError
        ``ledger`` is none of these.
    LedgerError
        The path has no ledger that can be opened.

    Examples
    --------
    >>> import tempfile, pathlib, dpframe as dp
    >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
    >>> dp.default_ledger(dp.Ledger(file, epsilon=3.0, delta=1e-5))
    >>> dp.default_ledger(None)
    """
    global _default
    _default = _Choice(as_ledger(ledger), of_program=True)


class use_ledger:
    """Charge every call to a ledger: from here on, or within a ``with`` block.

    Parameters
    ----------
    ledger
        A :class:`Ledger`, the path of one, or None to go back to no ledger.

    Raises
    ------
    ParameterTypeError
        ``ledger`` is none of these.
    LedgerError
        The path has no ledger that can be opened, or a generator chooses.

    Notes
    -----
    ``ledger=`` on a call goes first. Then the choice of the context counts, as in
    :mod:`contextvars`: tasks and ``asyncio.to_thread`` inherit it, plain threads and the workers of
    pools and of ``run_in_executor`` do not; ``contextvars.copy_context().run`` hands it on. A
    context that chose nothing uses :func:`default_ledger`, which a statement at the top level of
    the script or in a cell of the notebook sets too; without it a release is untracked, as its
    receipt says. A statement in a block lasts until the block ends, and one in a worker of a pool
    also for the worker's later tasks: use a block there. A generator cannot choose,
    unless contextlib runs it: other code runs while it waits. A spawned process starts without a
    ledger.

    Examples
    --------
    >>> import tempfile, pathlib, dpframe as dp
    >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
    >>> with dp.use_ledger(dp.Ledger(file, epsilon=3.0, delta=1e-5)) as ledger:
    ...     ledger.left.epsilon
    3.0
    """

    @known_arguments
    def __init__(self, ledger: Ledger | str | Path | None) -> None:
        global _default
        self._ledger, self._before, here = as_ledger(ledger), _default, _here.get()
        self._entered: list[_Choice] = []
        of_program = _is_top_level(_choosing_frame()) and not any(choice.block for choice in here)
        stated = _Choice(self._ledger, of_program=of_program)
        self._replaced = here[-1:] if here and here[-1].block is None else ()
        self._stated: _Choice | None = stated
        _here.set((*here[: len(here) - len(self._replaced)], stated))
        if of_program:
            _default = stated

    def __enter__(self) -> Ledger | None:
        global _default
        _choosing_frame()
        here, stated, self._stated = _here.get(), self._stated, None
        if stated is not None and here[-1:] == (stated,):  # the call is the head of this block
            here = (*here[:-1], *self._replaced)
            _default = self._before if _default is stated else _default
        choice = _Choice(self._ledger, self)
        choice.token = _here.set((*here, choice))
        self._entered.append(choice)
        return self._ledger

    def __exit__(self, *error: object) -> None:
        here = _here.get()
        mine = [i for i, choice in enumerate(here) if choice.block is self]
        left = [here[mine[-1]]] if mine else self._entered[-1:]
        if not left:  # left already, by the context that entered it or by another one
            return
        choice = left[0]
        assert choice.token is not None
        try:
            _here.reset(choice.token)
        except ValueError:  # another context entered the block, perhaps one that this is a copy of
            choice.left_elsewhere = True
        except RuntimeError:  # the context that entered the block left it, too
            pass
        if choice in self._entered:
            self._entered.remove(choice)
        if not mine:
            return
        end = mine[-1] + 1
        while end < len(here) and here[end].block is None:
            end += 1
        _here.set((*here[: mine[-1]], *here[end:]))

    def __repr__(self) -> str:
        return f"<using {self._ledger!r}>"

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError(
            "use_ledger belongs to its context and cannot be copied or pickled. "
            "Pass the ledger on, and call dp.use_ledger(ledger) where it arrives."
        )


def current_ledger() -> Ledger | None:
    """The ledger of this context or of the program, if any; LedgerError if it is unclear which."""
    here = _here.get()
    chosen = here[-1] if here else _default
    if chosen.left_elsewhere:
        raise LedgerError(
            "the ledger to charge is unclear: another context left the use_ledger block of this "
            "one. Pass ledger=, or call dp.use_ledger(ledger) or dp.use_ledger(None) here."
        )
    return _default.ledger if chosen.of_program else chosen.ledger


def _choosing_frame() -> FrameType:
    """The frame that chooses; LedgerError if it is a generator's. What contextlib makes of a
    generator is a block of the frame that uses it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_globals.get("__name__") in BETWEEN
        or (_is_generator(frame) and frame.f_back.f_globals.get("__name__") == "contextlib")
    ):
        frame = frame.f_back
    if _is_generator(frame):
        raise LedgerError(
            "a generator cannot choose a ledger: other code runs while it waits, and would charge "
            "it. Pass ledger= to the calls in the generator."
        )
    return frame


BETWEEN = (__name__, known_arguments.__module__, "contextlib")
"""Modules between a statement and this one."""


def _is_top_level(frame: FrameType) -> bool:
    """Whether a frame is the top level of a script, or of a cell of a notebook."""
    return frame.f_globals.get("__name__") == "__main__" and frame.f_locals is frame.f_globals


def _is_generator(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))


def as_ledger(ledger: object) -> Ledger | None:
    """A ledger from what a caller passed: a ledger, a path or None, which stays None.
    ParameterTypeError for anything else."""
    if ledger is None:
        return None
    from dpframe.ledger.book import Ledger

    if isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger(ledger)
    raise ParameterTypeError(
        f"ledger must be a dp.Ledger or the path of one; got {type(ledger).__name__}."
    )


def chosen_ledger(value: object) -> Ledger | None:
    """The ledger that a call passed as ``value``, or else :func:`current_ledger`."""
    return current_ledger() if value is None else as_ledger(value)
