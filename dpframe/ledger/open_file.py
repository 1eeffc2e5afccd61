"""A ledger's file while it is open: every transaction first checks that the file is the same, and
brings a file of an earlier format, with a copy beside it, to the present one.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dpframe.errors import LedgerError
from dpframe.ledger import store
from dpframe.ledger.charge import unit_of_history
from dpframe.ledger.entries import (
    Entry,
    append_entry,
    check_history,
    entries,
    newest_entry,
    protected_sentences,
)
from dpframe.ledger.reservations import profile_of, restate_composed
from dpframe.ledger.schema import FORMAT, RESERVATIONS
from dpframe.ledger.store import damage_error
from dpframe.ledger.totals import Accountant, Totals, read_totals

BUSY = 30.0
"""Seconds to wait for another process that is writing."""


class OpenedFile:
    """The file of a ledger, the totals that it was made with, and transactions on it."""

    _path: Path
    _made: Totals
    _last: int  # number of the newest entry when it was opened

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def ledger_id(self) -> str:
        """A random name that the file was given when it was made."""
        return self._made.ledger_id

    @property
    def epsilon(self) -> float:
        """Total epsilon."""
        return self._made.total[0]

    @property
    def delta(self) -> float:
        """Total delta."""
        return self._made.total[1]

    @property
    def accountant(self) -> Accountant:
        """How releases add up: "sum" or "pld"."""
        return self._made.accountant

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with store.read_transaction(self._path, BUSY) as db:
            self._check_same_file(db)
            yield db

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with store.write_transaction(self._path, BUSY) as db:
            self._check_same_file(db)
            if store.file_format(db) < FORMAT:
                upgrade_file(db, self._path)
            yield db

    def _check_same_file(self, db: sqlite3.Connection) -> None:
        """LedgerError unless the file is the one that was opened: same totals, no less history."""
        now = read_totals(db)
        if now.ledger_id != self.ledger_id:
            raise LedgerError(
                f"ledger {str(self._path)!r} was replaced by another file since it was opened. "
                "Find out why before releasing anything, then open it anew."
            )
        if now.constants != self._made.constants:
            raise damage_error("its totals or accountant have changed")
        if newest_entry(db, now).number < self._last:
            raise damage_error("it holds less than when it was opened")


def upgrade_file(db: sqlite3.Connection, path: Path) -> None:
    """Bring a file to the present format, within the transaction of a write.

    The whole file is checked first, and copied to ``FILE-format-N`` beside it. Earlier releases
    without blocks keep their cost, for all blocks. LedgerError if the copy cannot be written.
    """
    check_history(db, whole=True)
    known = store.file_format(db)
    try:
        _copy(db, path, known)
    except OSError as error:
        raise LedgerError(
            f"ledger {str(path)!r} of format {known} cannot be upgraded: no copy can be written "
            f"beside it ({error.strerror}). Make room, or allow writing the folder; until then it "
            "can only be read."
        ) from error
    _upgrade_format(db, known)


def _upgrade_format(db: sqlite3.Connection, known: int) -> None:
    unit = unit_of_history(json.loads(entry.receipt) for entry in entries(db, read_totals(db)))
    if known < RESERVATIONS:
        _upgrade_first_format(db)
    else:
        store.upgrade_tables(db)
    db.execute("UPDATE budget SET protects = ?", (unit,))


def _copy(db: sqlite3.Connection, path: Path, known: int) -> None:
    """Copy the file, before the upgrade, to a new one beside it. If a file with the same bytes has
    the name of the copy, it is the copy; if another file has it, the name gets a number."""
    image = db.serialize()
    copy, number = path.with_name(f"{path.name}-format-{known}"), 1
    while copy.exists():
        if copy.is_file() and copy.read_bytes() == image:
            return
        number += 1
        copy = path.with_name(f"{path.name}-format-{known}-{number}")
    part = copy.with_name(f"{copy.name}-{uuid.uuid4().hex[:8]}")
    try:
        with part.open("xb") as file:
            file.write(image)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, part)
        os.replace(part, copy)
    finally:
        part.unlink(missing_ok=True)


def _upgrade_first_format(db: sqlite3.Connection) -> None:
    """Upgrade a file of the first format, which knew no reservations.

    One more entry restates the cost of all releases that "pld" composed; later charges add up.
    """
    now = read_totals(db)
    last, plain, laws, releases = newest_entry(db, now), (0, 0), Counter[str](), 0
    if now.accountant == "pld":
        for entry in entries(db, now):
            plain = plain[0] + entry.epsilon, plain[1] + entry.delta
            laws[entry.profile] += 1
            releases += 1
    said = protected_sentences(db, now, last)
    store.upgrade_tables(db)
    if releases:
        profiles = [(profile_of(law), times) for law, times in laws.items()]
        epsilon, delta = restate_composed(now, plain, profiles)
        whole = Entry(
            release_id=uuid.uuid4().hex,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            source=f"{releases} releases with laws fixed beforehand, composed",
            epsilon=epsilon,
            delta=delta,
            spent_epsilon=epsilon,
            spent_delta=delta,
            releases=releases,
            protects=json.dumps(said),
        )
        append_entry(db, last, whole)
