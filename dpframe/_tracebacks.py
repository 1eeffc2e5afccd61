"""Short tracebacks: of our own errors a caller sees the line that was wrong, and not how we found
that out.

The message of such an error is all that there is to know. Errors that are not ours keep every
frame; ``DPFRAME_TRACEBACK=full`` in the environment keeps all frames of our errors, too.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""How the names of the package's files begin."""

SETTING, FULL = "DPFRAME_TRACEBACK", "full"


def shorten_traceback(error: E, around: BaseException | None) -> E:
    """Take our frames off an error of ours that is raised to the caller next.

    ``around`` is the exception that the caller was handling already. The frame that raises the
    error stays, except in notebooks.
    """
    if _keeps_all_frames():
        return error
    error.__traceback__ = None
    if error.__cause__ is None:
        error.__context__ = around
    link, known = error.__cause__, {id(error), id(around)}
    while link is not None and id(link) not in known:
        known.add(id(link))
        trace = link.__traceback__
        while trace is not None and _is_ours(trace):
            trace = trace.tb_next
        link.__traceback__, link = trace, link.__cause__
    return error


def _keeps_all_frames() -> bool:
    return os.environ.get(SETTING) == FULL


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(OURS)


def trim_traceback(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without frames of ours at its end; unchanged if it has no other frame."""
    links = []
    link = trace
    while link is not None:
        links.append(link)
        link = link.tb_next
    while links and _is_ours(links[-1]):
        links.pop()
    kept = None
    for link in reversed(links):
        kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept or trace


def render_for_ipython(error: BaseException) -> list[str]:
    """The lines by which IPython shows an error."""
    shell = sys.modules["IPython"].get_ipython()
    trace = error.__traceback__ if _keeps_all_frames() else trim_traceback(error.__traceback__)
    told: Any = shell.InteractiveTB.structured_traceback
    lines: list[str] = told(type(error), error, trace, tb_offset=shell.InteractiveTB.tb_offset)
    return lines


BY_IPYTHON = "_render_traceback_"
"""The method that IPython asks an error for; our errors have it."""
