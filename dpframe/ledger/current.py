"""Which ledger a call uses: the one it is given, or the one chosen with ``use_ledger``.

A choice belongs to a context (:mod:`contextvars`), not to a thread. If the context does not say
which ledger is meant, the call is refused: a charge to the wrong ledger, or to none, cannot be
taken back.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
import threading
import weakref
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from dpframe._known_arguments import known_arguments
from dpframe.errors import LedgerError, ParameterTypeError

if TYPE_CHECKING:
    from dpframe.ledger.book import Ledger

_numbers = itertools.count()


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Choice:
    """A choice of a ledger, or of none: for a ``with`` block, or by a statement, from there to the
    end of the block around it."""

    ledger: Ledger | None
    around: _Choice | None = None
    """The block that a statement is in; None outside all blocks."""
    frame: FrameType | None = None
    """The frame of the ``with`` statement, while its block is open."""
    is_block: bool = False
    generator: bool = False
    """Whether that frame is a generator's: other code runs while the generator waits."""
    token: Token[tuple[_Choice, ...]] | None = None
    """By this token the context that entered the block is recognised."""
    program: bool = False
    """Whether the choice is a statement at the top level of a script or notebook."""
    ended: bool = False
    """Whether another context left the block."""
    number: int = field(default_factory=_numbers.__next__)

    @property
    def block(self) -> _Choice | None:
        """The block that the choice lasts for; None for a statement outside all blocks."""
        return self if self.is_block else self.around


_here: ContextVar[tuple[_Choice, ...]] = ContextVar("dpframe_ledger", default=())
"""The choices of this context, the last one last."""

_program: _Choice | None = None
"""The last statement at the top level of a script or notebook, for contexts that chose nothing."""

_choices: weakref.WeakSet[_Choice] = weakref.WeakSet()
"""All other choices, while a context knows them or their block is open."""

_choices_lock = threading.Lock()


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
        The path has no ledger that can be opened.

    Notes
    -----
    ``ledger=`` on a call goes first. Then the choice of the context counts, as in
    :mod:`contextvars`: tasks and ``asyncio.to_thread`` inherit it, plain threads and the workers of
    pools and of ``run_in_executor`` do not; ``contextvars.copy_context().run`` hands it on. A
    context that chose nothing uses the ledger of a statement at the top level of the script or in a
    cell of the notebook; its call is refused while another context uses another ledger. In a
    generator, a block counts for the generator itself; a call is refused if that leaves open which
    ledger is meant (docs/known_limits.md). A spawned process starts without a ledger.

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
        self._ledger = as_ledger(ledger)
        self._blocks: list[_Choice] = []
        self._state(_caller_frames())

    def _state(self, frames: list[FrameType]) -> None:
        """Make the choice from here on. The choice that it replaces is noted for ``_take_back``;
        that object is not kept alive."""
        global _program
        here = list(_choices_here())
        around = (c for c in reversed(here) if c.is_block and _contains_statement(c, frames))
        stated = _Choice(self._ledger, next(around, None))
        self._stated, self._program_before = weakref.ref(stated), _program
        self._replaced: tuple[int, Ledger | None, bool] | None = None
        for place, choice in enumerate(here):
            if not choice.is_block and choice.around is stated.around:
                self._replaced = place, choice.ledger, choice is _program
                del here[place]
                break
        if stated.around is None and _is_top_level(frames[0]):
            stated.program, _program = True, stated
        else:
            _remember_choice(stated)
        _here.set((*here, stated))

    def _take_back(self) -> None:
        """Undo ``_state`` when a ``with`` block begins: the call was the head of the block, and no
        statement. If another choice came after it, nothing is undone."""
        global _program
        stated, program = self._stated(), self._program_before
        if stated is None or _here.get()[-1:] != (stated,):
            return
        here = list(_here.get()[:-1])
        if self._replaced is not None:
            place, ledger, of_program = self._replaced
            choice = program if of_program and program else _Choice(ledger, stated.around)
            here.insert(place, choice)
            if choice is not program:
                _remember_choice(choice)
        _here.set(tuple(here))
        if _program is stated:
            _program = program

    def __enter__(self) -> Ledger | None:
        self._take_back()
        frame = _owning_frame(sys._getframe(1))
        block = _Choice(self._ledger, frame=frame, is_block=True, generator=_is_generator(frame))
        _remember_choice(block)
        self._blocks.append(block)
        block.token = _here.set((*_choices_here(), block))
        return self._ledger

    def __exit__(self, *error: object) -> None:
        frame = _owning_frame(sys._getframe(1))
        block = next((b for b in self._blocks if b.frame is frame), None)
        block = block or next(
            (c for c in reversed(_choices_here()) if c in self._blocks), self._blocks[-1]
        )
        self._blocks.remove(block)
        block.frame = None
        block.ended = not _entered_here(block)
        _here.set(_without_block(_choices_here(), block))

    def __repr__(self) -> str:
        return f"<using {self._ledger!r}>"

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError(
            "use_ledger belongs to its context and cannot be copied or pickled. "
            "Pass the ledger on, and call dp.use_ledger(ledger) where it arrives."
        )


def current_ledger() -> Ledger | None:
    """The ledger of ``use_ledger``, if any; LedgerError if it is unclear which."""
    found = _choose_ledger(_caller_frames())
    if isinstance(found, str):  # a text: whoever keeps the error keeps no choice alive
        raise LedgerError(
            f"the ledger to charge is unclear: {found}. Pass ledger=, or call "
            "dp.use_ledger(ledger) or dp.use_ledger(None) here. contextvars.copy_context().run "
            "calls a function with the choices made so far."
        )
    return found


def _choose_ledger(frames: list[FrameType]) -> Ledger | str | None:
    """The ledger, or a text that says why it is unclear."""
    here, inside = _choices_here(), _enclosing_block(frames)
    if not here:
        return _program_ledger() if inside is None else inside.ledger
    chosen = here[-1]
    if chosen.program and _program is not None:
        chosen = _program  # another cell, in a context of its own, may have chosen since
    block = chosen.block
    if block is inside:
        return chosen.ledger
    handed_on = block is not None and not block.generator and block.frame not in frames
    if (block is None or handed_on) if inside is None else (handed_on and inside in here):
        return chosen.ledger
    if inside is not None and _path_of_ledger(inside.ledger) == _path_of_ledger(chosen.ledger):
        return chosen.ledger
    return "a generator has an open use_ledger block, perhaps around this call"


def _program_ledger() -> Ledger | str | None:
    ledger = None if _program is None else _program.ledger
    if _others_chose_than(ledger):
        gc.collect()  # contexts that are over may live on in cycles of a task or an exception
        if _others_chose_than(ledger):
            return "this thread or task chose none, and others did"
    return ledger


def _others_chose_than(ledger: Ledger | None) -> bool:
    return any(
        _path_of_ledger(choice.ledger) != _path_of_ledger(ledger)
        for choice in _all_choices()
        if not choice.ended
    )


def _choices_here() -> tuple[_Choice, ...]:
    """The choices of this context. The choice of a block that was entered here, and left in another
    context, is dropped."""
    here = _here.get()
    for choice in here:
        if choice.ended and _entered_here(choice):
            here = _without_block(here, choice)
            _here.set(here)
    return here


def _entered_here(block: _Choice) -> bool:
    """Whether this context entered a block. Asking uses up the block's token, so that the answer is
    True at most once: when the block is over."""
    now, token = _here.get(), block.token
    if token is None:
        return False
    try:
        _here.reset(token)
    except ValueError:  # this is another context, or a copy
        return False
    block.token = None
    _here.set(now)
    return True


def _without_block(here: tuple[_Choice, ...], block: _Choice) -> tuple[_Choice, ...]:
    return tuple(choice for choice in here if choice.block is not block)


def _remember_choice(choice: _Choice) -> None:
    with _choices_lock:
        _choices.add(choice)


def _all_choices() -> list[_Choice]:
    with _choices_lock:
        return list(_choices)


def _caller_frames() -> list[FrameType]:
    """The frames of the callers of this module in this thread, the last call first."""
    ours = (__name__, known_arguments.__module__)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") in ours:
        frame = frame.f_back
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _enclosing_block(frames: list[FrameType]) -> _Choice | None:
    """The innermost open block around a call, whatever its context says; None if there is none."""
    opened = [choice for choice in _all_choices() if choice.frame is not None]
    for frame in frames if opened else []:
        of_frame = [choice for choice in opened if choice.frame is frame]
        if of_frame:
            return max(of_frame, key=lambda choice: choice.number)
    return None


def _contains_statement(block: _Choice, frames: list[FrameType]) -> bool:
    """Whether a statement made now is in a block; it is not if the block's generator waits."""
    return not block.generator or block.frame in frames


def _owning_frame(frame: FrameType) -> FrameType:
    """The frame of the ``with`` statement; for a generator that contextlib runs, the frame that
    enters and leaves it like a block."""
    while _is_generator(frame) and frame.f_back is not None and _is_contextlib(frame.f_back):
        frame = frame.f_back
        while frame.f_back is not None and _is_contextlib(frame):
            frame = frame.f_back
    return frame


def _is_contextlib(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == "contextlib"


def _is_generator(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))


def _is_top_level(frame: FrameType) -> bool:
    """Whether a frame is the top level of a script, or of a cell of a notebook."""
    return frame.f_globals.get("__name__") == "__main__" and frame.f_locals is frame.f_globals


def _path_of_ledger(ledger: Ledger | None) -> Path | None:
    return None if ledger is None else ledger.path


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
    """The ledger that a call passed as ``value``, or else the ledger of ``use_ledger``, or None."""
    return current_ledger() if value is None else as_ledger(value)
