"""``Ledger``: totals, charges, and the results that were released under a name."""

from __future__ import annotations

import difflib
import json
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe.accounting.compose import Profile
from dpframe.errors import (
    BudgetError,
    LedgerError,
    ParameterError,
    ParameterTypeError,
    ReleaseNameError,
)
from dpframe.ledger import store
from dpframe.ledger.history import releases, summary
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, amount, units_down, units_up
from dpframe.ledger.totals import Accountant, Spending, affordable, check_history, totals

if TYPE_CHECKING:
    import pandas as pd

BUSY = 30.0
"""Seconds to wait for another process that is writing."""

DRAWING = 24 * 3600.0
"""Seconds to wait for another process that is drawing a release of the same ledger by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a release will cost, and what it is; public, written into the history."""

    release_id: str
    time: str
    epsilon: float
    delta: float
    profile: Callable[[], Profile]
    source: str
    receipt: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
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
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        frame.attrs["dp"] = json.loads(self.receipt)
        return frame


def _totals(epsilon: object, delta: object) -> tuple[int, int]:
    """Totals in units, checked."""
    for name, value, high in (("epsilon", epsilon, 1e6), ("delta", delta, 1.0)):
        if value is None:
            raise BudgetError(f"a ledger needs both totals: pass {name}= too.")
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ParameterTypeError(f"{name} must be a number; got {value!r}.")
        if not 0 < float(value) < high:  # also refuses NaN
            raise BudgetError(
                f"{name} ({value!r}), a total, must be above 0 and below {high:g}: for example "
                "epsilon=3.0, delta=1e-5."
            )
    units = units_down(float(epsilon), EPSILON_UNIT), units_down(float(delta), DELTA_UNIT)  # type: ignore[arg-type]
    if not all(units):
        raise BudgetError(f"epsilon ({epsilon!r}) or delta ({delta!r}) is too small to be a total.")
    return units


def _differs(name: str, stored: dict[str, Any], asked: dict[str, Any]) -> str:
    keys = [k for k in {**stored, **asked} if stored.get(k) != asked.get(k)]
    parts = [f"{k} was {stored.get(k)!r} and is now {asked.get(k)!r}" for k in keys]
    return (
        f"release {name!r} is stored with other arguments: {'; '.join(parts)}. Use the same ones "
        "to replay it, or another name to draw (and pay) anew."
    )


class Ledger:
    """A privacy budget in a file, shared by every process that opens it.

    Parameters
    ----------
    path
        The file. It is made if it does not exist and both totals are given.
    epsilon, delta
        Totals: epsilon > 0, 0 < delta < 1. For an existing ledger they may be left out, and must
        be the ones that it was made with.
    accountant
        "sum" (default): epsilons and deltas of releases add up. "pld": releases compose by
        privacy loss distributions made from their exact curves; epsilon spent is what holds at
        the total delta, and never more than the sum. Fixed when the ledger is made.

    Raises
    ------
    LedgerError
        The file is missing, locked, full, damaged, not a ledger, or has other totals.

    Privacy
    -------
    All releases charged to one ledger together are (epsilon, delta)-differentially private for
    whatever each of them protects: records, or users where every release names the same user
    column. A charge is on disk before noise is drawn, and is never given back. Charges made
    without the ledger are not known to it. What the file holds is public: parameters and released
    numbers.

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
    ) -> None:
        if not isinstance(path, str | Path):
            raise ParameterTypeError(f"path must be a file name; got {type(path).__name__}.")
        self._path = Path(path).absolute()
        if accountant not in (None, "sum", "pld"):
            raise ParameterError(f"accountant ({accountant!r}) must be 'sum' or 'pld'.")
        asked = None if epsilon is None and delta is None else _totals(epsilon, delta)
        if asked is not None and (not self._path.exists() or self._path.stat().st_size == 0):
            store.create(self._path, BUSY)
        if asked is not None:
            with store.writing(self._path, BUSY) as db:
                db.execute(
                    "INSERT OR IGNORE INTO budget (id, ledger_id, accountant, epsilon, delta) "
                    "VALUES (1, ?, ?, ?, ?)",
                    (uuid.uuid4().hex, accountant or "sum", *asked),
                )
        with store.reading(self._path, BUSY) as db:
            check_history(db)
            made = totals(db)
        self._id = made.ledger_id
        self._totals = made.epsilon, made.delta
        self._accountant = made.accountant
        if (asked is not None and asked != self._totals) or (
            accountant not in (None, self._accountant)
        ):
            raise LedgerError(
                f"ledger {str(path)!r} was made with epsilon={self.epsilon:g}, "
                f"delta={self.delta:g}, accountant={self._accountant!r}: leave the totals out, or "
                "make a new ledger elsewhere."
            )

    def __repr__(self) -> str:
        return (
            f"Ledger({str(self._path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"accountant={self._accountant!r})"
        )

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def ledger_id(self) -> str:
        """A random name that the file was given when it was made."""
        return self._id

    @property
    def epsilon(self) -> float:
        """Total epsilon."""
        return amount(self._totals[0], EPSILON_UNIT)

    @property
    def delta(self) -> float:
        """Total delta."""
        return amount(self._totals[1], DELTA_UNIT)

    @property
    def accountant(self) -> Accountant:
        """How releases compose."""
        return self._accountant

    @property
    def spent(self) -> Spending:
        """What all charges cost together. With "pld", epsilon at the total delta."""
        with store.reading(self._path, BUSY) as db:
            return totals(db).spent

    @property
    def left(self) -> Spending:
        """What remains; with "pld" a later release can cost less than its epsilon."""
        with store.reading(self._path, BUSY) as db:
            return totals(db).left

    def charge(self, charge: Charge) -> Spending:
        """Spend; returns what is left, once it is on disk.

        Raises OverBudgetError, and charges nothing, if the totals do not allow it.
        """
        with store.writing(self._path, BUSY) as db:
            after = affordable(db, charge.epsilon, charge.delta, charge.profile)
            db.execute(
                "INSERT INTO charges (release_id, time, name, source, epsilon, delta, profile, "
                "receipt) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    charge.release_id,
                    charge.time,
                    charge.name,
                    charge.source,
                    units_up(charge.epsilon, EPSILON_UNIT),
                    units_up(charge.delta, DELTA_UNIT),
                    json.dumps(charge.profile() if self._accountant == "pld" else []),
                    charge.receipt,
                ),
            )
            db.execute("UPDATE budget SET spent_epsilon = ?, spent_delta = ?", after)
            return totals(db).left

    def check(self, charge: Charge) -> None:
        """Raise OverBudgetError if ``charge`` could not be made now; spends nothing."""
        with store.reading(self._path, BUSY) as db:
            affordable(db, charge.epsilon, charge.delta, charge.profile)

    # -- results under a name ------------------------------------------------------------------

    def drawing(self) -> AbstractContextManager[None]:
        """One draw under a name at a time: whoever comes second finds the first one's result."""
        return store.alone(self._path, DRAWING)

    def find(self, name: str, request: dict[str, Any] | None = None) -> Stored | None:
        """The result released under a name; ReleaseNameError if it answered another request."""
        with store.reading(self._path, BUSY) as db:
            row = db.execute(
                "SELECT name, release_id, request, receipt, frame FROM results WHERE name = ?",
                (name,),
            ).fetchone()
        if row is None:
            return None
        found = Stored(
            name=row[0],
            release_id=row[1],
            request=json.loads(row[2]),
            receipt=row[3],
            frame=row[4],
        )
        if request is not None and found.request != request:
            raise ReleaseNameError(_differs(name, found.request, request))
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
        with store.reading(self._path, BUSY) as db:
            rows = db.execute(
                "SELECT results.name FROM results JOIN charges USING (release_id) "
                "ORDER BY charges.number"
            ).fetchall()
        return [row[0] for row in rows]

    def keep(self, stored: Stored) -> None:
        """Store a charged result under its name, which must be free."""
        with store.writing(self._path, BUSY) as db:
            db.execute(
                "INSERT INTO results (name, release_id, request, receipt, frame) "
                "VALUES (?, ?, ?, ?, ?)",
                (
                    stored.name,
                    stored.release_id,
                    json.dumps(stored.request),
                    stored.receipt,
                    stored.frame,
                ),
            )

    # -- reading -------------------------------------------------------------------------------

    def summary(self) -> pd.DataFrame:
        """One row: totals, spent, left, the plain sum of epsilons, and the number of releases.

        ``saved_epsilon`` is what "pld" saves against the plain sum; 0 with "sum".
        """
        with store.reading(self._path, BUSY) as db:
            return summary(db, str(self._path))

    def releases(self) -> pd.DataFrame:
        """One row a charge, oldest first: what was spent on what, and its receipt as JSON."""
        with store.reading(self._path, BUSY) as db:
            return releases(db)
