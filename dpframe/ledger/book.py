"""The ledger: its file, releases stored in it, and what it shows."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sqlite3
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe.accounting.compose import Profile
from dpframe.common import digest
from dpframe.common.calls import known_arguments
from dpframe.common.files import local_file
from dpframe.common.texts import folded_html
from dpframe.errors import LedgerError, ParameterError, ParameterTypeError, ReleaseNameError
from dpframe.ledger import forecast as open_file
from dpframe.ledger import history, store
from dpframe.ledger.entries import (
    Charge,
    check_history,
    checked_protection,
    newest_entry,
    protection_words,
)
from dpframe.ledger.forecast import LedgerForecasts
from dpframe.ledger.history import Prepayments
from dpframe.ledger.state import PaidCharge, write_charge
from dpframe.ledger.store import (
    FORMAT,
    Accountant,
    Spending,
    Totals,
    checked_total,
    damage_error,
    read_totals,
    seal_values,
    spending_of,
)

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


DRAWING = 24 * 3600.0
"""Seconds to wait for another process that draws a named release of the same ledger."""


@known_arguments
class Ledger(LedgerForecasts, Prepayments):
    """A privacy budget in a file, shared by every process that opens it.

    Parameters
    ----------
    path
        The file. It is made if it does not exist and both totals are given.
    epsilon, delta
        Totals: epsilon > 0, 0 < delta < 1. For an existing ledger leave them out, or pass the
        totals that it was made with.
    accountant
        "sum" (default): epsilons and deltas of releases add up. "pld": they add up too, but
        releases can be reserved beforehand (:meth:`reserve`), and the releases of one reservation
        compose by privacy loss distributions made from their exact curves. Fixed when the ledger
        is made.
    protects
        What the totals hold for: "records", or the name of the column of users ("user:NAME" for a
        name such as "records"; "replace:NAME" or "remove:NAME" for what a prefix tree protects).
        Fixed once it is given; without it, the first charge fixes what its release protects. A
        release that protects something else is charged for one step between its neighbours, or for
        two, (2 epsilon, (1 + e^epsilon) delta), or is refused if no number of steps bounds it.

    Raises
    ------
    LedgerError
        The file is missing, locked, full, damaged, not a ledger, or has other totals or another
        unit.
    ParameterError, ParameterTypeError
        An argument is invalid; for totals that are out of range a BudgetError.

    Privacy
    -------
    All releases charged to one ledger together are (epsilon, delta)-differentially private for
    what the ledger protects (:attr:`protects`). Every question, budget and reservation may be
    chosen after looking at earlier results. A charge is on disk before noise is drawn, and is never
    given back. The ledger knows nothing of releases that were drawn without it. What the file holds
    is public: parameters and released numbers.

    Examples
    --------
    >>> import tempfile, pathlib, pandas as pd, dpframe as dp
    >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
    >>> ledger = dp.Ledger(file, epsilon=3.0, delta=1e-5)
    >>> trips = pd.DataFrame({"origin": ["JFK"] * 300})
    >>> result = trips.dp.hhh(["origin"], epsilon=1.0, delta=1e-6, ledger=ledger)
    >>> ledger.spent, ledger.left.epsilon
    (Spending(epsilon=1.0, delta=1e-06), 2.0)
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        accountant: Accountant | None = None,
        protects: str | None = None,
    ) -> None:
        if not isinstance(path, str | Path):
            raise ParameterTypeError(f"path must be a file name; got {type(path).__name__}.")
        try:
            file = os.path.realpath(
                local_file(path, "ledger")
            )  # one lock, whatever links lead here
        except OSError as error:
            raise ParameterError(f"path ({path!r}) is no name of a file: {error}.") from error
        self._path = Path(file)
        if accountant not in (None, "sum", "pld"):
            raise ParameterError(f"accountant ({accountant!r}) must be 'sum' or 'pld'.")
        unit = checked_protection(protects)
        asked = None if epsilon is None and delta is None else checked_total(epsilon, delta)
        if asked is not None and store.is_unmade(self._path):
            store.create(
                self._path, open_file.BUSY, Totals.first_row(asked, accountant or "sum", unit)
            )
        with store.read_transaction(self._path, open_file.BUSY) as db:
            check_history(db)
            self._made: Totals = read_totals(db)
            self._last = newest_entry(db, self._made).number
            old = store.file_format(db) < FORMAT
        made = self._made
        if (asked is not None and not made.is_of(asked)) or (
            accountant not in (None, made.accountant)
        ):
            raise LedgerError(
                f"ledger {str(path)!r} was made with epsilon={self.epsilon:g}, "
                f"delta={self.delta:g}, accountant={self.accountant!r}. Leave the totals out, or "
                "make a new ledger elsewhere."
            )
        if old:
            with suppress(LedgerError), self._write_transaction():
                pass  # opening for writing upgrades; a file that may only be read stays as it is
        if unit is not None:
            self._protect(unit)

    def _protect(self, unit: str) -> None:
        """Fix the unit that the totals hold for; LedgerError if another unit is fixed already."""
        known = self.protects
        if known is None:
            with self._write_transaction() as db:
                db.execute("UPDATE budget SET protects = ? WHERE protects IS NULL", (unit,))
            known = self.protects
        if known != unit:
            raise LedgerError(
                f"ledger {str(self._path)!r} protects {protection_words(known)}, which is fixed. "
                "Leave protects out, or make a new ledger elsewhere."
            )

    def __repr__(self) -> str:
        named = f"Ledger {str(self._path)!r} of ({self.epsilon:g}, {self.delta:g})"
        try:
            with self._reading() as db:
                now = read_totals(db)
        except LedgerError:
            return f"<{named}, which cannot be read>"
        spent, left = now.spending, now.remainder
        return (
            f"<{named}: spent ({spent.epsilon:.4g}, {spent.delta:.3g}), left ({left.epsilon:.4g}, "
            f"{left.delta:.3g}), accountant {self.accountant!r}>"
        )

    def _repr_html_(self) -> str:
        try:
            return history.ledger_html(self.summary(), self.releases(history.NEWEST))
        except LedgerError:
            return folded_html(repr(self)[1:-1], (), "", ())

    @property
    def protects(self) -> str | None:
        """What the totals hold for: "records", or "user:", "replace:" or "remove:" and a column.
        None until ``protects=`` or the first charge fixes it. "several" in a file of an earlier
        version whose releases protect different units: its totals hold for nothing as a whole."""
        with self._reading() as db:
            return read_totals(db).protects

    @property
    def spent(self) -> Spending:
        """What all charges cost one record together, or one user within one block."""
        with self._reading() as db:
            return read_totals(db).spending

    @property
    def left(self) -> Spending:
        """What is left for any release; what is reserved is spent. Some blocks may have more
        left."""
        with self._reading() as db:
            return read_totals(db).remainder

    def charge(self, charge: Charge) -> PaidCharge:
        """Write a charge, paid by a reservation, a filter or the totals. Return what is left once
        the charge is on disk.

        Raises OverBudgetError, and charges nothing, if the totals do not allow the charge;
        LedgerError if what the ledger protects has no price for the release.
        """
        profile = self._law(charge)  # before the lock, for which other processes wait
        with self._writing_state() as (db, here):
            return write_charge(db, charge, profile, here)

    def check(self, charge: Charge) -> None:
        """Raise OverBudgetError if ``charge`` could not be made now; spends nothing."""
        profile = self._law(charge)
        with self._reading_state() as here:
            here.with_charge(charge, profile)

    def _law(self, charge: Charge) -> Profile:
        return charge.profile() if self.accountant == "pld" else ()

    # -- results under a name ------------------------------------------------------------------

    def drawing(self) -> AbstractContextManager[None]:
        """Allow one named draw at a time: the next caller finds the result of the one before."""
        return store.drawing_lock(self._path, DRAWING)

    def find(self, name: str, request: dict[str, Any] | None = None) -> StoredResult | None:
        """The result released under a name; None if there is none, ReleaseNameError if the result
        answered another request."""
        with self._reading() as db:
            found = read_result(db, name)
        if found is not None and request is not None and found.request != request:
            raise ReleaseNameError(request_difference(name, found.request, request))
        return found

    def recall(self, name: str) -> pd.DataFrame:
        """The result released under ``name``, as it was: no data, no arguments, no cost.

        Raises ReleaseNameError if nothing is stored under the name.
        """
        found = self.find(name)
        if found is None:
            near = difflib.get_close_matches(str(name), self.names(), n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ReleaseNameError(f"no release is stored under the name {name!r}.{hint}")
        return found.to_frame()

    def names(self) -> list[str]:
        """Names with a stored result, in the order of their charges."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT results.name FROM results JOIN charges USING (release_id) "
                "ORDER BY charges.number ASC NULLS FIRST"
            ).fetchall()
        return [row[0] for row in rows]

    def keep(self, stored: StoredResult) -> None:
        """Store a charged result under its name, which must be free; LedgerError if the result
        cannot be stored."""
        try:
            with self._write_transaction() as db:
                write_result(db, stored)
        except LedgerError as error:
            raise LedgerError(
                f"release {stored.name!r} was charged, but its result could not be stored and is "
                f"withheld: {error} Call again: that replays what the name has by then, or pays "
                "anew."
            ) from error

    # -- reading -------------------------------------------------------------------------------

    def summary(self) -> pd.DataFrame:
        """One row: totals, spent, left, the plain sum of epsilons, and the number of releases.

        ``saved_epsilon`` is what reservations, filters and disjoint periods save against the plain
        sum. ``reserved`` is the number of reserved releases that are not drawn yet. ``left`` is
        what is left for any release, ``unread`` what is left for a period that no release with a
        period has read. ``protects`` says what the total holds for, in the words of the receipts.
        """
        with self._reading() as db:
            return history.summary_frame(db, str(self._path))

    def releases(self, limit: int | None = None, *, before: int | None = None) -> pd.DataFrame:
        """One row per release, oldest first: what was spent on what, and its receipt as JSON.

        Parameters
        ----------
        limit
            At most this many releases, the newest ones. None: all.
        before
            Only releases with a smaller ``number``. Pass the first number of a page to get the page
            before that one.
        """
        with self._reading() as db:
            return history.releases_frame(db, limit, before)

    def blocks(self) -> pd.DataFrame:
        """One row per block: a stretch of time that the same releases with a period read.

        ``axis`` is the column and how it is read, ``first`` the first moment of the block, ``last``
        the first moment after it; both are missing for NULL times. ``spent`` is what the releases
        with a period there cost together, ``left`` what is left for another such release.
        """
        with self._reading() as db:
            return history.blocks_frame(db)

    def within(self, *, days: float) -> Spending:
        """What all releases cost a user whose records lie within ``days`` consecutive days.

        The total holds for one record, or one user within one block (:meth:`blocks`). For a user
        with records over a longer time this is the cost of the worst window of that length,
        wherever it begins: the sum of all releases that read any part of the window, and of all
        releases without a period. So 28 days touch up to five weekly periods. With several columns
        their worst windows add up; NULL times are a window of their own. ``days=0`` is
        :attr:`spent`; the result may be more than the totals.

        Examples
        --------
        >>> import tempfile, pathlib, dpframe as dp
        >>> file = pathlib.Path(tempfile.mkdtemp(), "budget.db")
        >>> dp.Ledger(file, epsilon=3.0, delta=1e-5).within(days=28)
        Spending(epsilon=0.0, delta=0.0)
        """
        seconds = history.seconds_of(days)
        with self._reading() as db:
            return spending_of(history.window_spending(db, seconds))

    def verify(self) -> None:
        """Read the whole file and compare it with its seals; LedgerError if it is damaged.

        Opening does this for up to two thousand entries. In longer histories opening checks the
        newest thousand and another thousand in turn; what is shown or charged is always checked.
        """
        with self._reading() as db:
            check_history(db, whole=True)
