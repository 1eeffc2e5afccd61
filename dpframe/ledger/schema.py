"""The tables of a ledger, their triggers, and what an older file lacks."""

from __future__ import annotations

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
