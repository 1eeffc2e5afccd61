"""The notice that a result is a replay."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from dpframe.asking.release import Release
from dpframe.errors import ReplayedNotice

_warned_replays: set[tuple[object, ...]] = set()
"""Replays that were warned of: the release id, and the file and line that asked. Python keeps a
record of warnings, too, but pandas resets that record."""


def warn_of_replay(result: Release) -> Release:
    """Return ``result``, and warn if it is a replay, once for each line of code that asks."""
    facts = result.receipt
    if facts["replayed"]:
        frame: FrameType | None = sys._getframe()
        level = 1
        while frame is not None and frame.f_globals.get("__name__", "").startswith("dpframe."):
            frame, level = frame.f_back, level + 1
        line = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ()
        if (facts["release_id"], *line) in _warned_replays:
            return result
        _warned_replays.add((facts["release_id"], *line))
        warnings.warn(
            f"release {facts['release']!r} is replayed: drawn on {facts['time']}, nothing was read "
            "or charged. For other data use another name; data= tells states of the data apart.",
            ReplayedNotice,
            stacklevel=level,
        )
    return result
