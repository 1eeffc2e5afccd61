"""Record which streams a sketch has seen, so that no stream is merged twice.

A stream has an id, drawn when it begins. Copies, pickles and files of a sketch keep the id, and a
merged sketch has the ids of all its sketches. Two copies that go on with different records still
share their earlier records, so they do not merge. A file from before ids were kept uses its
checksum as the id: it is one stream, however often it is read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from dpframe.errors import ParameterError

Streams = frozenset[str]


def new_stream_ids() -> Streams:
    """Return the ids of a new sketch: one, just drawn."""
    return frozenset({uuid.uuid4().hex})


def join_streams(seen: Streams, more: Streams) -> Streams:
    """Return all ids of both sets; ParameterError if a stream occurs twice."""
    if seen & more:
        raise ParameterError(
            "a stream occurs twice (itself, a copy, its file or an earlier merge). Merge each "
            "stream once, and count other records in a new sketch, not in a copy."
        )
    return seen | more


def stream_field(streams: Streams) -> dict[str, Any]:
    """Return the field of a file's header that holds the ids."""
    return {"streams": sorted(streams)}


def read_streams(facts: Mapping[str, Any]) -> Streams:
    """Read the ids from the header of a file; ValueError if there are none."""
    found = facts["streams"]
    if not isinstance(found, list) or not found or not all(isinstance(s, str) for s in found):
        raise ValueError("no ids of streams")
    return frozenset(found)
