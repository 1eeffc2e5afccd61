"""The ledger's file: one SQLite database, one connection an operation, every write one transaction.

Amounts are integers, rounded up when spent: billionths of a thousandth of epsilon and 1e-18 of
delta, so that sums are exact and ten charges of 0.1 are 1. The file is in rollback-journal mode
with full synchronisation: it is a single file at rest, and a commit is on disk before it returns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from urllib.parse import quote

from dpframe.errors import LedgerError

EPSILON_UNIT = Decimal("1e-12")
DELTA_UNIT = Decimal("1e-18")

APPLICATION_ID = 0x64706C67
"""Marks the file as a ledger of dpframe ("dplg")."""

FORMAT = 1

SCHEMA = """
CREATE TABLE budget (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    ledger_id TEXT NOT NULL,
    accountant TEXT NOT NULL CHECK (accountant IN ('sum', 'pld')),
    epsilon INTEGER NOT NULL CHECK (epsilon > 0),
    delta INTEGER NOT NULL CHECK (delta > 0),
    spent_epsilon INTEGER NOT NULL DEFAULT 0 CHECK (spent_epsilon BETWEEN 0 AND epsilon),
    spent_delta INTEGER NOT NULL DEFAULT 0 CHECK (spent_delta BETWEEN 0 AND delta)
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
    receipt TEXT NOT NULL
) STRICT;
CREATE TABLE results (
    name TEXT PRIMARY KEY,
    release_id TEXT NOT NULL UNIQUE REFERENCES charges (release_id),
    request TEXT NOT NULL,
    receipt TEXT NOT NULL,
    frame BLOB NOT NULL
) STRICT;
CREATE TRIGGER charges_are_kept BEFORE DELETE ON charges
BEGIN SELECT RAISE (ABORT, 'the history of a ledger is append-only'); END;
CREATE TRIGGER charges_do_not_change BEFORE UPDATE ON charges
BEGIN SELECT RAISE (ABORT, 'the history of a ledger is append-only'); END;
CREATE TRIGGER totals_do_not_change
BEFORE UPDATE OF ledger_id, accountant, epsilon, delta ON budget
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
CREATE TRIGGER budget_is_kept BEFORE DELETE ON budget
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
"""


def units_up(value: float, unit: Decimal) -> int:
    """A spent amount as an integer; the shortest decimal of the float, rounded up."""
    return int((Decimal(repr(float(value))) / unit).to_integral_value(rounding=ROUND_CEILING))


def units_down(value: float, unit: Decimal) -> int:
    """A total as an integer, rounded down."""
    return int(Decimal(repr(float(value))) / unit)


def amount(units: int, unit: Decimal) -> float:
    return float(units * unit)


def create(path: Path, timeout: float) -> None:
    """Make the file with its tables if it is not there; losing a race to do so is no error."""
    with _explained(path), closing(sqlite3.connect(path, timeout, isolation_level=None)) as db:
        _durable(db)
        db.execute("BEGIN IMMEDIATE")
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in _statements(SCHEMA):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")


@contextmanager
def reading(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of the file."""
    with _explained(path), closing(_open(path, timeout)) as db:
        db.execute("BEGIN")
        yield db


@contextmanager
def writing(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection that alone may write; committed at the end, rolled back on any error."""
    with _explained(path), closing(_open(path, timeout)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")


@contextmanager
def alone(path: Path, timeout: float) -> Iterator[None]:
    """Hold a lock file beside the ledger, which the operating system lets go with the process."""
    lock = path.with_name(path.name + "-drawing")
    with _explained(lock), closing(sqlite3.connect(lock, timeout, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield


def _open(path: Path, timeout: float) -> sqlite3.Connection:
    if not path.is_file():
        raise LedgerError(
            f"ledger {str(path)!r} does not exist: check the path, or give epsilon= and delta= "
            "to make a new one."
        )
    uri = f"file:{quote(str(path))}?mode=rw"
    db = sqlite3.connect(uri, timeout, isolation_level=None, uri=True)
    try:
        _durable(db)
        marks = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in MARKS]
    except BaseException:
        db.close()
        raise
    if marks != [APPLICATION_ID, FORMAT]:
        db.close()
        raise LedgerError(
            f"{str(path)!r} is no ledger of this version of dpframe: choose another path."
        )
    return db


MARKS = ("application_id", "user_version")


def _durable(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA synchronous = EXTRA")


def _statements(script: str) -> list[str]:
    """Single statements: executescript would commit between them."""
    out, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            out.append(rest)
            rest = ""
    return out


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors in our words; nothing in a ledger is secret, so nothing is withheld."""
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(f"ledger {str(path)!r} {_reason(error)}") from error


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return "is locked by another process: try again, or find out who holds it."
    if "readonly" in text or "read-only" in text:
        return "cannot be written: nothing was drawn. Give this process the right to write."
    if "full" in text or "disk I/O" in text:
        return "cannot grow, the disk is full or failing: nothing was drawn. Make room."
    if "unable to open" in text:
        return "cannot be opened: check that the folder exists and may be written."
    if "malformed" in text or "not a database" in text or "no such" in text:
        return f"is damaged ({text}): restore it from a copy; do not start a new one in its place."
    return f"failed: {text}."
