"""A ledger's file while it is open: every transaction first checks that the file is the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpframe.errors import LedgerError
from dpframe.ledger import store
from dpframe.ledger.entries import newest_entry
from dpframe.ledger.schema import FORMAT
from dpframe.ledger.store import damage_error
from dpframe.ledger.totals import Accountant, Totals, read_totals
from dpframe.ledger.upgrades import upgrade_file

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
        if now.fixed != self._made.fixed:
            raise damage_error("its totals or accountant have changed")
        if newest_entry(db, now).number < self._last:
            raise damage_error("it holds less than when it was opened")
