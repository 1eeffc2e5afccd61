"""From a call to its release or its replay. Every front door in Python calls this module."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpframe.asking.call_arguments import flag, release_name
from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.question import Question
from dpframe.asking.release import (
    DataScope,
    Release,
    make_release,
    named_request,
    replay_of_stored,
    require_ledger,
)
from dpframe.common.progress import step
from dpframe.errors import ReplayedNotice
from dpframe.ledger import chosen_ledger
from dpframe.sources.source_relations import describe_source, open_source

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpframe.ledger import Ledger, StoredResult

_warned_replays: set[tuple[object, ...]] = set()
"""Replays that were warned of: the release id, and the file and line that asked. Python keeps a
record of warnings, too, but pandas resets that record."""


def warn_of_replay(result: Release, said: str = "") -> Release:
    """Return ``result``, and warn if it is a replay, once for each line of code that asks; ``said``
    takes the place of the usual words."""
    facts = result.receipt
    if facts["replayed"] or said:
        frame: FrameType | None = sys._getframe()
        level = 1
        while frame is not None and frame.f_globals.get("__name__", "").startswith("dpframe."):
            frame, level = frame.f_back, level + 1
        line = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ()
        if (facts["release_id"], *line) in _warned_replays:
            return result
        _warned_replays.add((facts["release_id"], *line))
        warnings.warn(
            said
            or f"release {facts['release']!r} is replayed: drawn on {facts['time']}, nothing was "
            "read or charged. For other data use another name; data= tells states of the data "
            "apart.",
            ReplayedNotice,
            stacklevel=level,
        )
    return result


A = TypeVar("A")

PLANNING = "planning the noise"


@dataclass(frozen=True, slots=True)
class Answer(Generic[A]):
    """What a call asked for, with the public facts of the source, and what was released."""

    asked: A
    release: Release

    def to_frame(self) -> pd.DataFrame:
        return self.release.to_frame()


def answer_call(
    question: Question[A, Any],
    source: object,
    *,
    ledger: Ledger | str | Path | None,
    release: str | None,
    data: str | None,
    progress: bool,
    candidates: object = None,
    plan: object = None,
    **planning: object,
) -> Answer[A]:
    """Answer a call of ``question.ask`` with its unchecked arguments.

    ``planning`` holds the arguments that a plan is made of.
    """
    with step(PLANNING, flag("progress", progress)):
        about = {"data": data, "period": planning.get("period")}
        if candidates is not None or plan is not None:
            from dpframe.asking.warehouse_plan import release_candidates

            asked, counted = release_candidates(
                question,
                candidates,
                plan,
                {"source": source, **planning},
                ledger=chosen_ledger(ledger),
                name=release_name(release),
                about=DataScope.of(about),
            )
            return Answer(asked, warn_of_replay(counted))
        made = answer_checked(
            question,
            question.plan(planning),
            source,
            ledger=chosen_ledger(ledger),
            name=release_name(release),
            about=DataScope.of(about),
            progress=progress,
        )
        warn_of_replay(made.release)
        return Answer(made.asked, _with_source_types(made, source))


def _with_source_types(answer: Answer[Any], source: object) -> Release:
    """Return the release with labels in the types of the source; it is stored with texts."""
    hierarchy = getattr(answer.asked, "hierarchy", None)
    levels = () if hierarchy is None else hierarchy.label_columns
    if not levels:
        return answer.release
    from dpframe.postprocess.level_values import with_categories  # loads pandas

    frame = with_categories(answer.release.frame, source, levels)
    same = frame is answer.release.frame
    return answer.release if same else Release(frame, answer.release.receipt)


def answer_checked(
    question: Question[A, Any],
    asked: A,
    source: object,
    *,
    ledger: Ledger | None,
    name: str | None,
    about: DataScope,
    progress: bool,
    place: str | None = None,
) -> Answer[A]:
    """Return the release of what is asked for, or its replay.

    ``place`` names the source; by default the path of a file or the kind of an object.
    """
    what: Any = question.fitted(asked, source)
    place = describe_source(source) if place is None else place
    with step(PLANNING, progress), ExitStack() as opening:
        if name is not None:
            ledger = require_ledger(ledger, name)
            stored = find_answer(question, what, place, about, ledger, name)
            if stored is not None:
                return Answer(what, replay_of_stored(stored))
        about = about.read_in(source)
        rows = about.restrict(source)
        if question.opens is not None:
            rows = opening.enter_context(open_source(rows, question.opens(what)))
        plan = question.sized(what, rows, progress)
        counted = partial(question.count, rows, plan, progress)
        if question.opens is not None:
            counted = partial(_close_after, opening, counted)
        released = make_release(
            counted, plan, source=place, ledger=ledger, name=name, about=about, looked=True
        )
        return Answer(what, released)


def _close_after(
    opening: ExitStack, counted: Callable[[], MechanismInput[Any]]
) -> MechanismInput[Any]:
    """Count what is open, and close it before noise is drawn."""
    with opening.pop_all():
        return counted()


def find_answer(
    question: Question[Any, Any],
    what: Any,
    source: str,
    about: DataScope,
    ledger: Ledger,
    name: str,
) -> StoredResult | None:
    """Return what a ledger stores under a name for a question; None if it stores nothing there.

    An older version may have stored another request for the same call. Raises ReleaseNameError if
    the stored result answers another request.
    """
    former = question.former(what)
    if former is not None:
        stored = ledger.find(name)
        if stored is not None and stored.request == named_request(former, source, about):
            return stored
    return ledger.find(name, named_request(what.request, source, about))
