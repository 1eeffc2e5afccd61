"""Results that a ledger stores under a name, each with a seal."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe import digest
from dpframe.ledger.store import damage_error, seal_values

if TYPE_CHECKING:
    import pandas as pd

RESULT = "name, release_id, request, receipt, frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """A result released under a name: its receipt as JSON, its frame as Arrow IPC bytes."""

    name: str
    release_id: str
    request: dict[str, Any]
    receipt: str
    frame: bytes

    def to_arrow(self) -> pa.Table:
        """The frame, with the receipt in its schema metadata."""
        return pa.ipc.open_file(pa.BufferReader(self.frame)).read_all()

    def to_frame(self) -> pd.DataFrame:
        """The frame, with the receipt in ``attrs["dp"]``."""
        return digest.seal_frame(self.to_arrow().to_pandas(), json.loads(self.receipt))


def write_result(db: sqlite3.Connection, stored: StoredResult) -> None:
    """Store a charged result under its name, which must be free."""
    row = (
        stored.name,
        stored.release_id,
        json.dumps(stored.request),
        stored.receipt,
        stored.frame,
    )
    db.execute(
        f"INSERT INTO results ({RESULT}, seal) VALUES (?, ?, ?, ?, ?, ?)", (*row, seal_values(*row))
    )


def pack_result(stored: StoredResult) -> bytes:
    """A result as bytes for a file of its own, with a checksum that tells whether all bytes were
    written."""
    about = (stored.name, stored.release_id, stored.request, stored.receipt)
    content = json.dumps(about).encode() + b"\n" + stored.frame
    return hashlib.sha256(content).digest() + content


def unpack_result(data: bytes) -> StoredResult | None:
    """The result in bytes from ``pack_result``; None if some of them are missing."""
    told, content = data[:32], data[32:]
    if hashlib.sha256(content).digest() != told:
        return None
    about, _, frame = content.partition(b"\n")
    name, release_id, request, receipt = json.loads(about)
    return StoredResult(
        name=name, release_id=release_id, request=request, receipt=receipt, frame=frame
    )


def read_result(db: sqlite3.Connection, name: str) -> StoredResult | None:
    """The result stored under a name, or None; LedgerError if its seal does not fit."""
    row = db.execute(f"SELECT {RESULT}, seal FROM results WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    if seal_values(*row[:-1]) != row[-1]:
        raise damage_error(f"the stored release {name!r} is not what was stored")
    return StoredResult(
        name=row[0],
        release_id=row[1],
        request=_without_ignored(json.loads(row[2])),
        receipt=row[3],
        frame=row[4],
    )


IGNORED = {"release_share": ("laplace", "gaussian", "paper")}
"""For each argument that stored requests can hold: mechanisms that once ignored it, and now refuse
it."""


def _without_ignored(request: dict[str, Any]) -> dict[str, Any]:
    """A stored request, with None for arguments that had no part in its answer: calls need not
    repeat them to replay the result."""
    mechanism = request.get("mechanism")
    unused = [name for name, ignoring in IGNORED.items() if mechanism in ignoring]
    return {**request, **{name: None for name in unused if name in request}}


KINDS = {
    None: "hhh",
    "tree": "tree_counts",
    "prefix tree": "prefix_tree",
    "synthetic": "synthesize",
}
"""The question that was asked, by ``counts`` of the request."""


def request_difference(name: str, stored: dict[str, Any], asked: dict[str, Any]) -> str:
    """The message about a request that differs from the one stored under its name."""
    was, now = (KINDS.get(request.get("counts")) for request in (stored, asked))
    if was != now and was is not None:
        return f"{name!r} is a release of {was}. Use another name to draw (and pay) anew."
    keys = [k for k in {**stored, **asked} if stored.get(k) != asked.get(k)]
    parts = [f"{k} was {stored.get(k)!r} and is now {asked.get(k)!r}" for k in keys]
    return (
        f"release {name!r} is stored with other arguments: {'; '.join(parts)}. Use the same ones "
        "to replay it, or another name to draw (and pay) anew."
    )
