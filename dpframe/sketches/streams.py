"""Which streams a sketch has seen, so that none is merged twice.

A stream has an id, drawn when it begins. Copies, pickles and files of a sketch keep it, and a
merged sketch has those of all that went in. Copies that count on with different records still share
the records that they had before, so they do not merge either. A file of before ids were kept has
its checksum for one: the same file is the same stream, however often it is read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from dpframe.errors import ParameterError

Streams = frozenset[str]


def begun() -> Streams:
    """That of a new sketch."""
    return frozenset({uuid.uuid4().hex})


def joined(seen: Streams, more: Streams) -> Streams:
    """Those of both; ParameterError if one occurs twice."""
    if seen & more:
        raise ParameterError(
            "a stream occurs twice, as itself, a copy, its file or in an earlier merge: its "
            "records would count twice. Merge each stream once, and count other records in a new "
            "sketch instead of a copy."
        )
    return seen | more


def written(streams: Streams) -> dict[str, Any]:
    """For the header of a file."""
    return {"streams": sorted(streams)}


def read(facts: Mapping[str, Any]) -> Streams:
    """From the header of a file; ValueError if there are none."""
    found = facts["streams"]
    if not isinstance(found, list) or not found or not all(isinstance(s, str) for s in found):
        raise ValueError("no ids of streams")
    return frozenset(found)
