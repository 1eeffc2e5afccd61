"""``Ledger``: totals, charges, and the results that were released under a name."""

from __future__ import annotations

import difflib
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.errors import (
    BudgetError,
    LedgerError,
    ParameterError,
    ParameterTypeError,
    ReleaseNameError,
)
from dpframe.ledger import store
from dpframe.ledger.entries import (
    Charge,
    Stored,
    check_history,
    read_result,
    write_charge,
    write_result,
)
from dpframe.ledger.history import releases, summary
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, amount, units_down
from dpframe.ledger.totals import Accountant, Spending, standing, totals

if TYPE_CHECKING:
    import pandas as pd

BUSY = 30.0
"""Seconds to wait for another process that is writing."""

DRAWING = 24 * 3600.0
"""Seconds to wait for another process that is drawing a release of the same ledger by name."""


def _totals(epsilon: object, delta: object) -> tuple[int, int]:
    """Totals in units, checked."""
    for name, value, high in (("epsilon", epsilon, 1e6), ("delta", delta, 1.0)):
        if value is None:
            raise BudgetError(f"a ledger needs both totals: pass {name}= too.")
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ParameterTypeError(f"{name} must be a number; got {value!r}.")
        if not 0 < value < high:  # type: ignore[operator]  # also refuses NaN
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
    what every one of them protects: records, or users where all name the same user column. With
    "pld" the budgets and mechanisms of releases must be fixed without looking at earlier results
    of the ledger (the questions need not be); with "sum" even they may adapt. A charge is on disk
    before noise is drawn, and is never given back. Charges made without the ledger are not known to
    it. What the file holds is public: parameters and released numbers.

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
        try:
            self._path = Path(os.path.realpath(path))  # one lock, whatever links lead here
        except (OSError, ValueError) as error:
            raise ParameterError(f"path ({path!r}) is no name of a file: {error}.") from error
        if accountant not in (None, "sum", "pld"):
            raise ParameterError(f"accountant ({accountant!r}) must be 'sum' or 'pld'.")
        asked = None if epsilon is None and delta is None else _totals(epsilon, delta)
        if asked is not None and store.is_unmade(self._path):
            store.create(self._path, BUSY, (uuid.uuid4().hex, accountant or "sum", *asked))
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
        with self._reading() as db:
            return totals(db).spent

    @property
    def left(self) -> Spending:
        """What remains; with "pld" a later release can cost less than its epsilon."""
        with self._reading() as db:
            return totals(db).left

    def charge(self, charge: Charge) -> Spending:
        """Spend; returns what is left, once it is on disk.

        Raises OverBudgetError, and charges nothing, if the totals do not allow it.
        """
        with self._writing() as db:
            after = standing(db).after(charge.epsilon, charge.delta, charge.profile)
            write_charge(db, charge, after)
            return totals(db).left

    def check(self, charge: Charge) -> None:
        """Raise OverBudgetError if ``charge`` could not be made now; spends nothing."""
        with self._reading() as db:
            now = standing(db)
        now.after(charge.epsilon, charge.delta, charge.profile)

    # -- results under a name ------------------------------------------------------------------

    def drawing(self) -> AbstractContextManager[None]:
        """One draw under a name at a time: whoever comes second finds the first one's result."""
        return store.alone(self._path, DRAWING)

    def find(self, name: str, request: dict[str, Any] | None = None) -> Stored | None:
        """The result released under a name; ReleaseNameError if it answered another request."""
        with self._reading() as db:
            found = read_result(db, name)
        if found is not None and request is not None and found.request != request:
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
        with self._reading() as db:
            rows = db.execute(
                "SELECT results.name FROM results JOIN charges USING (release_id) "
                "ORDER BY charges.number ASC NULLS FIRST"
            ).fetchall()
        return [row[0] for row in rows]

    def keep(self, stored: Stored) -> None:
        """Store a charged result under its name, which must be free."""
        try:
            with self._writing() as db:
                write_result(db, stored)
        except LedgerError as error:
            raise LedgerError(
                f"release {stored.name!r} was charged, but its result could not be stored and is "
                f"withheld: {error} Calling again replays what is stored under that name by then, "
                "or draws and pays anew."
            ) from error

    # -- reading -------------------------------------------------------------------------------

    def summary(self) -> pd.DataFrame:
        """One row: totals, spent, left, the plain sum of epsilons, and the number of releases.

        ``saved_epsilon`` is what "pld" saves against the plain sum; 0 with "sum".
        """
        with self._reading() as db:
            return summary(db, str(self._path))

    def releases(self) -> pd.DataFrame:
        """One row a charge, oldest first: what was spent on what, and its receipt as JSON."""
        with self._reading() as db:
            return releases(db)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with store.reading(self._path, BUSY) as db:
            self._same(db)
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with store.writing(self._path, BUSY) as db:
            self._same(db)
            yield db

    def _same(self, db: sqlite3.Connection) -> None:
        if totals(db).ledger_id != self._id:
            raise LedgerError(
                f"ledger {str(self._path)!r} is not the file that was opened, another took its "
                "place: find out why before releasing anything, then open it anew."
            )
