"""The store of a ledger: SQLite, its tables and transactions, and totals in exact units.

The store of a ledger: SQLite, its tables and transactions.

The file is a SQLite database. Every operation has a connection of its own, every write a
transaction.

Amounts are integers, rounded up when spent, in units of 1e-12 of epsilon and 1e-18 of delta, so
that sums are exact and ten charges of 0.1 are 1. The file is in rollback-journal mode with full
synchronisation: it is a single file at rest, and a commit is on disk before it returns.

Triggers refuse SQL, whoever writes it, that changes the history, the stored results or the totals,
or that lowers the epsilon spent. Seals (``entries.check_history``) show what triggers miss, such as
a flipped bit or a lower delta spent.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dpframe.budget import as_float
from dpframe.common.calls import is_torn, renew_in_child, shown_value
from dpframe.errors import BudgetError, LedgerError, ParameterTypeError

Accountant = Literal["sum", "pld"]

Units = tuple[int, int]
"""Epsilon and delta in units of the store."""

Exact = tuple[Fraction, Fraction]
"""Epsilon and delta as they were asked for, without what rounding up to units adds."""

HALF_ULP = Fraction(1, 2**53)
"""The most that rounding to a float adds to a number, relative to the number."""


def largest_sum(total: float) -> Fraction:
    """The most that parts of a total may add up to: n times total / n, where the division is
    rounded to a float."""
    return Fraction(total) * (1 + HALF_ULP)


def exact_amounts(units: Units) -> Exact:
    """Units of the store as fractions."""
    return units[0] * Fraction(EPSILON_UNIT), units[1] * Fraction(DELTA_UNIT)


def units_rounded_up(amounts: Exact) -> Units:
    """Fractions in units of the store, rounded up."""
    return (
        math.ceil(amounts[0] / Fraction(EPSILON_UNIT)),
        math.ceil(amounts[1] / Fraction(DELTA_UNIT)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An (epsilon, delta), spent or left."""

    epsilon: float
    delta: float


def spending_of(units: Units) -> Spending:
    return Spending(
        epsilon=float_amount(units[0], EPSILON_UNIT), delta=float_amount(units[1], DELTA_UNIT)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The one row of the table ``budget``. In a ``LedgerState`` the spent amounts are sums of costs
    that were rounded up, and can be some units above the totals."""

    ledger_id: str
    accountant: Accountant
    epsilon: int
    delta: int
    spent_epsilon: int
    spent_delta: int
    asked: tuple[float, float] | None = None
    protects: str | None = None
    """What the totals hold for. None until the first charge, unless the caller said it."""

    @property
    def total(self) -> tuple[float, float]:
        """The totals as they were asked for, which need not be multiples of a unit."""
        return self.asked or (
            float_amount(self.epsilon, EPSILON_UNIT),
            float_amount(self.delta, DELTA_UNIT),
        )

    @staticmethod
    def first_row(
        asked: tuple[float, float], accountant: Accountant, protects: str | None
    ) -> tuple[object, ...]:
        """The row of ``budget`` that a new ledger begins with."""
        return uuid.uuid4().hex, accountant, *units_of(asked), json.dumps(asked), protects

    def is_of(self, asked: tuple[float, float]) -> bool:
        """Whether ``asked``, rounded down to units, are these totals."""
        return units_of(asked) == (self.epsilon, self.delta)

    @property
    def constants(self) -> tuple[object, ...]:
        """What never changes after a ledger is made."""
        return self.ledger_id, self.accountant, self.epsilon, self.delta, self.asked

    @property
    def spent_units(self) -> Units:
        return self.spent_epsilon, self.spent_delta

    @property
    def spending(self) -> Spending:
        return spending_of(self.cap(self.spent_units))

    @property
    def remainder(self) -> Spending:
        spent = self.cap(self.spent_units)
        return spending_of((self.epsilon - spent[0], self.delta - spent[1]))

    def with_spending(self, spent: Units) -> Totals:
        """The same totals with another amount spent."""
        return replace(self, spent_epsilon=spent[0], spent_delta=spent[1])

    def cap(self, spent: Units) -> Units:
        """What is spent, without the units that rounding up adds above the totals."""
        return min(spent[0], self.epsilon), min(spent[1], self.delta)


def read_totals(db: sqlite3.Connection) -> Totals:
    """The totals of a ledger, and what is spent now."""
    asked = "asked, protects" if file_format(db) >= ASKED else "NULL, NULL"
    row = db.execute(
        f"SELECT ledger_id, accountant, epsilon, delta, spent_epsilon, spent_delta, {asked} "
        "FROM budget"
    ).fetchone()
    if row is None:
        raise LedgerError(f"the ledger is damaged, it has no totals. {DAMAGED}")
    if not all(isinstance(units, int) for units in row[2:6]):
        raise LedgerError(f"the ledger is damaged, its totals are no numbers. {DAMAGED}")
    return Totals(
        ledger_id=row[0],
        accountant=row[1],
        epsilon=row[2],
        delta=row[3],
        spent_epsilon=row[4],
        spent_delta=row[5],
        asked=_read_total(row[6], row[2:4]),
        protects=row[7],
    )


def _read_total(text: str | None, units: Units) -> tuple[float, float] | None:
    """The totals as they were asked for, None in formats without them; LedgerError if they do not
    round down to ``units``."""
    if text is None:
        return None
    try:
        epsilon, delta = map(float, json.loads(text))
        same = units_of((epsilon, delta)) == units
    except (TypeError, ValueError, ArithmeticError):
        same = False
    if not same:
        raise damage_error("its totals have changed")
    return epsilon, delta


def units_of(total: tuple[float, float]) -> Units:
    """A total in units, rounded down."""
    return units_down(total[0], EPSILON_UNIT), units_down(total[1], DELTA_UNIT)


def checked_total(epsilon: object, delta: object) -> tuple[float, float]:
    """Check the totals of a ledger or the cost of a filter; BudgetError, or ParameterTypeError for
    what is no number."""
    found: list[float] = []
    for name, value, high in (("epsilon", epsilon, 1e6), ("delta", delta, 1.0)):
        if value is None:
            raise BudgetError(f"a ledger needs both totals. Pass {name}= too.")
        total = as_float(value)
        if total is None:
            raise ParameterTypeError(f"{name} must be a number; got {shown_value(value)}.")
        if not 0 < total < high:  # also refuses NaN
            raise BudgetError(
                f"{name} ({value!r}), a total, must be above 0 and below {high:g}. For example: "
                "epsilon=3.0, delta=1e-5."
            )
        found.append(total)
    if not all(units_of((found[0], found[1]))):
        raise BudgetError(f"epsilon ({epsilon!r}) or delta ({delta!r}) is too small to be a total.")
    return found[0], found[1]


APPLICATION_ID = 0x64706C67
"""Marks the file as a ledger of dpframe ("dplg")."""

FORMATS = (1, 2, 3, 4)
"""Formats that can be read. The first knew no reservations, the second no blocks; the third had
totals only in units."""

FORMAT = FORMATS[-1]

RESERVATIONS, BLOCKS, ASKED = 2, 3, 4
"""The first format with reservations, with blocks, and with totals as they were asked for."""

# files store this text, so it stays: the tree is in ledger/blocks.py by now
SEGMENTS = """
CREATE TABLE segments (  -- a tree an axis, derived from the charges; see ledger/segments.py
    axis TEXT NOT NULL,
    level INTEGER NOT NULL,  -- 0: moments at which blocks begin or end
    place INTEGER NOT NULL,
    epsilon INTEGER NOT NULL,
    delta INTEGER NOT NULL,
    top_epsilon INTEGER NOT NULL,
    top_delta INTEGER NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (axis, level, place)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER segments_are_kept BEFORE DELETE ON segments
BEGIN SELECT RAISE (ABORT, 'what a ledger has spent stays spent'); END;
"""

TOTALS_STAY = """
CREATE TRIGGER totals_do_not_change
BEFORE UPDATE OF id, ledger_id, accountant, epsilon, delta, asked ON budget
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
CREATE TRIGGER protection_does_not_change
BEFORE UPDATE OF protects ON budget WHEN OLD.protects IS NOT NULL
BEGIN SELECT RAISE (ABORT, 'what a ledger protects is fixed'); END;
"""

SCHEMA = f"""
CREATE TABLE budget (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    ledger_id TEXT NOT NULL,
    accountant TEXT NOT NULL CHECK (accountant IN ('sum', 'pld')),
    epsilon INTEGER NOT NULL CHECK (epsilon > 0),
    delta INTEGER NOT NULL CHECK (delta > 0),
    spent_epsilon INTEGER NOT NULL DEFAULT 0 CHECK (spent_epsilon BETWEEN 0 AND epsilon),
    spent_delta INTEGER NOT NULL DEFAULT 0 CHECK (spent_delta BETWEEN 0 AND delta),
    asked TEXT,  -- JSON: the totals as they were asked for; NULL: those in units
    protects TEXT  -- the unit; NULL until the first charge says it, where nobody chose
) STRICT;
CREATE TABLE charges (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    release_id TEXT NOT NULL UNIQUE,
    time TEXT NOT NULL,
    name TEXT,
    source TEXT NOT NULL,
    epsilon INTEGER NOT NULL CHECK (epsilon > 0),
    delta INTEGER NOT NULL CHECK (delta > 0),
    profile TEXT NOT NULL,
    receipt TEXT NOT NULL,
    spent_epsilon INTEGER NOT NULL,  -- of the whole ledger, after this charge
    spent_delta INTEGER NOT NULL,
    seal TEXT NOT NULL,
    releases INTEGER CHECK (releases > 0),  -- that a reservation pays for; NULL for a release
    under TEXT,  -- the reservation that pays for this release
    open TEXT,  -- JSON: releases that each reservation still pays for, after this charge
    axis TEXT,  -- the time that it reads, on which axis; NULL touches all
    first INTEGER,  -- seconds since 1970, half open
    last INTEGER,
    tops TEXT,  -- JSON: of every axis what the fullest block has spent, and a digest of the tree
    protects TEXT  -- JSON: all that was protected so far, in the words of the receipts
) STRICT;
CREATE INDEX reserved ON charges (releases, under, epsilon);
{SEGMENTS}CREATE TABLE results (
    name TEXT PRIMARY KEY,
    release_id TEXT NOT NULL UNIQUE REFERENCES charges (release_id),
    request TEXT NOT NULL,
    receipt TEXT NOT NULL,
    frame BLOB NOT NULL,
    seal TEXT NOT NULL
) STRICT;
CREATE TRIGGER charges_are_kept BEFORE DELETE ON charges
BEGIN SELECT RAISE (ABORT, 'the history of a ledger is append-only'); END;
CREATE TRIGGER charges_do_not_change BEFORE UPDATE ON charges
BEGIN SELECT RAISE (ABORT, 'the history of a ledger is append-only'); END;
CREATE TRIGGER charges_are_not_replaced BEFORE INSERT ON charges
WHEN EXISTS (SELECT 1 FROM charges WHERE number = NEW.number OR release_id = NEW.release_id)
BEGIN SELECT RAISE (ABORT, 'the history of a ledger is append-only'); END;
CREATE TRIGGER results_are_kept BEFORE DELETE ON results
BEGIN SELECT RAISE (ABORT, 'what a ledger stores is append-only'); END;
CREATE TRIGGER results_do_not_change BEFORE UPDATE ON results
BEGIN SELECT RAISE (ABORT, 'what a ledger stores is append-only'); END;
CREATE TRIGGER results_are_not_replaced BEFORE INSERT ON results
WHEN EXISTS (SELECT 1 FROM results WHERE name = NEW.name OR release_id = NEW.release_id)
BEGIN SELECT RAISE (ABORT, 'what a ledger stores is append-only'); END;
{TOTALS_STAY}CREATE TRIGGER spending_is_not_taken_back BEFORE UPDATE ON budget
WHEN NEW.spent_epsilon < OLD.spent_epsilon
BEGIN SELECT RAISE (ABORT, 'what a ledger has spent stays spent'); END;
CREATE TRIGGER budget_is_kept BEFORE DELETE ON budget
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
CREATE TRIGGER budget_is_not_replaced BEFORE INSERT ON budget
WHEN EXISTS (SELECT 1 FROM budget)
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
"""

UPGRADES = {
    1: """
ALTER TABLE charges ADD COLUMN releases INTEGER CHECK (releases > 0);
ALTER TABLE charges ADD COLUMN under TEXT;
ALTER TABLE charges ADD COLUMN open TEXT;
CREATE INDEX reserved ON charges (releases, under, epsilon);
""",
    2: f"""
ALTER TABLE charges ADD COLUMN axis TEXT;
ALTER TABLE charges ADD COLUMN first INTEGER;
ALTER TABLE charges ADD COLUMN last INTEGER;
ALTER TABLE charges ADD COLUMN tops TEXT;
ALTER TABLE charges ADD COLUMN protects TEXT;
{SEGMENTS}
""",
    3: f"""
ALTER TABLE budget ADD COLUMN asked TEXT;
ALTER TABLE budget ADD COLUMN protects TEXT;
DROP TRIGGER totals_do_not_change;
{TOTALS_STAY}
""",
}
"""Statements from each format to the next; entries that exist keep their seals."""


EPSILON_UNIT = Decimal("1e-12")
DELTA_UNIT = Decimal("1e-18")

OLDEST = (3, 37)
"""First version of SQLite with STRICT tables."""


def units_up(value: float, unit: Decimal) -> int:
    """A spent amount in whole units: the shortest decimal of the float, rounded up."""
    return int((Decimal(repr(float(value))) / unit).to_integral_value(rounding=ROUND_CEILING))


def units_down(value: float, unit: Decimal) -> int:
    """A total in whole units: the shortest decimal of the float, rounded down."""
    return int(Decimal(repr(float(value))) / unit)


def float_amount(units: int, unit: Decimal) -> float:
    return float(units * unit)


def seal_values(*parts: object) -> str:
    """A checksum over values as they are stored: against damage, not against forgery."""
    plain = [hashlib.sha256(p).hexdigest() if isinstance(p, bytes) else p for p in parts]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def is_unmade(path: Path) -> bool:
    """Whether there is no file, an empty one, or one whose making may have been interrupted."""
    with _explain_errors(path):
        journal = path.with_name(path.name + "-journal")
        return not path.exists() or (
            path.is_file() and (path.stat().st_size == 0 or journal.exists())
        )


def create(path: Path, timeout: float, budget: tuple[object, ...]) -> None:
    """Make the file with its tables and totals, unless it has tables. If another process makes it
    first, that is no error."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise LedgerError(
            f"a ledger needs SQLite {OLDEST[0]}.{OLDEST[1]} or later; this Python has "
            f"{sqlite3.sqlite_version}. Use another build of Python."
        )
    with (
        _explain_errors(path),
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db,
    ):
        _durable(db, timeout)
        _patiently(db, "BEGIN IMMEDIATE", timeout)
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in _statements(SCHEMA):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {FORMAT}")
            db.execute(
                "INSERT INTO budget (id, ledger_id, accountant, epsilon, delta, asked, protects) "
                "VALUES (1, ?, ?, ?, ?, ?, ?)",
                budget,
            )
        _patiently(db, "COMMIT", timeout)


@contextmanager
def read_transaction(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of the file."""
    with _explain_errors(path), closing(_open_ledger_file(path, timeout)) as db:
        db.execute("BEGIN")
        _patiently(db, "SELECT count(*) FROM sqlite_schema", timeout)
        _check_marks(db, path)
        yield db


@contextmanager
def write_transaction(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection that alone may write; committed at the end, rolled back on any error."""
    with _explain_errors(path), closing(_open_ledger_file(path, timeout)) as db:
        _patiently(db, "BEGIN IMMEDIATE", timeout)
        _check_marks(db, path)
        yield db
        _patiently(db, "COMMIT", timeout)


@contextmanager
def drawing_lock(path: Path, timeout: float) -> Iterator[None]:
    """Lock a file beside the ledger; the operating system frees the lock if the process ends."""
    lock = path.with_name(path.name + "-drawing")
    with _explain_errors(lock):
        db = sqlite3.connect(lock, timeout=0, isolation_level=None)
    _drawing.add(db)
    try:
        with _explain_errors(lock):  # errors of the body are not ours to explain
            _patiently(db, "BEGIN EXCLUSIVE", timeout)
            # by path: opening and closing the file here would free the locks of other threads
            with suppress(PermissionError):
                shutil.copymode(path, lock)  # whoever may charge the ledger may take its lock
            if not os.access(lock, os.W_OK):  # then the lock that SQLite took excludes nobody
                raise PermissionError(errno.EACCES, "it may not be written")
        yield
    finally:
        db.close()
        _drawing.discard(db)


_drawing: set[sqlite3.Connection] = set()
"""Connections of this process that lock a file and have written nothing."""


def _close_locks_of_parent() -> None:
    """A child inherits what SQLite has noted of the locks, but not the locks. Its thread holds
    all of them, unless another thread was inside a call: then SQLite must not be touched."""
    while _drawing and not is_torn():
        _drawing.pop().close()


renew_in_child(_close_locks_of_parent)


def _open_ledger_file(path: Path, timeout: float) -> sqlite3.Connection:
    if path.exists() and not path.is_file():
        raise LedgerError(f"ledger {str(path)!r} is a folder or a device. Give the path of a file.")
    if not path.exists():
        raise LedgerError(
            f"ledger {str(path)!r} does not exist. Check the path, or make it with totals: "
            "dp.Ledger(path, epsilon=3.0, delta=1e-5), in a shell dpframe ledger PATH --epsilon 3 "
            "--delta 1e-5."
        )
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", timeout=0, isolation_level=None, uri=True)
    try:
        _durable(db, timeout)
    except BaseException:
        db.close()
        raise
    return db


def file_format(db: sqlite3.Connection) -> int:
    """The format of a file; less than FORMAT if it still has to be upgraded."""
    return _mark(db, "user_version")


def upgrade_tables(db: sqlite3.Connection) -> None:
    """Bring the tables to the present format, within the transaction of a write."""
    for known in range(file_format(db), FORMAT):
        for statement in _statements(UPGRADES[known]):
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {FORMAT}")


def _mark(db: sqlite3.Connection, name: str) -> int:
    value: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _check_marks(db: sqlite3.Connection, path: Path) -> None:
    known = _mark(db, "user_version")
    if _mark(db, "application_id") != APPLICATION_ID or known not in FORMATS:
        raise LedgerError(
            f"{str(path)!r} is no ledger of this version of dpframe. Choose another path"
            + (f", or install a later version (its format is {known})." if known > FORMAT else ".")
        )


def _patiently(db: sqlite3.Connection, statement: str, timeout: float) -> None:
    """Run a statement that takes a lock, waiting up to ``timeout`` seconds. Waiting in Python lets
    Ctrl-C through and keeps pauses short."""
    last = time.monotonic() + timeout
    pause = 0.0005
    while True:
        try:
            db.execute(statement).fetchone()
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > last:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


LONGEST_PAUSE = 0.01
"""Seconds between two attempts at a lock."""


def _durable(db: sqlite3.Connection, timeout: float) -> None:
    _patiently(db, "PRAGMA synchronous = EXTRA", timeout)  # reads the schema
    _patiently(
        db, "PRAGMA fullfsync = ON", timeout
    )  # macOS: fsync alone may leave data in the drive's cache


def _statements(script: str) -> list[str]:
    """The statements of a script, one by one: executescript would commit before the first."""
    out, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            out.append(rest)
            rest = ""
    return out


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors in our words; nothing in a ledger is secret, so nothing is withheld."""
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(f"ledger {str(path)!r} {_reason(error)}") from error
    except UnicodeDecodeError as error:  # in a name or a message of SQLite
        raise LedgerError(f"ledger {str(path)!r} is damaged. {DAMAGED}") from error
    except OSError as error:
        raise LedgerError(f"ledger {str(path)!r} cannot be opened: {error.strerror}.") from error


DAMAGED = (
    "Stop releasing, and restore a copy that has every charge: an older copy or a new ledger would "
    "forget releases."
)


def damage_error(how: str) -> LedgerError:
    """The error for a file that is not as it was written."""
    return LedgerError(f"the ledger is damaged, {how}. {DAMAGED}")


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return "is locked by another process. Try again, or find out who holds it."
    if "readonly" in text or "read-only" in text:
        return "cannot be written. Give this process the right to write the file and its folder."
    if "full" in text or "disk I/O" in text:
        return "cannot grow, the disk is full or failing. Make room."
    if "unable to open" in text:
        return "cannot be opened. Check that the folder exists and may be written."
    if "not a database" in text:
        return f"is no ledger, or is damaged. Check the path. If it was a ledger: {DAMAGED}"
    if "malformed" in text or "no such" in text:
        return f"is damaged ({text}). {DAMAGED}"
    return f"failed: {text}."
