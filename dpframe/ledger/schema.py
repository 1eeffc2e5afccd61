"""The tables of a ledger, their triggers, and what an older file lacks."""

from __future__ import annotations

APPLICATION_ID = 0x64706C67
"""Marks the file as a ledger of dpframe ("dplg")."""

FORMATS = (1, 2)
"""What can be read. The first knew no reservations; it is brought to the second by a write."""

FORMAT = FORMATS[-1]

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
    receipt TEXT NOT NULL,
    spent_epsilon INTEGER NOT NULL,  -- of the whole ledger, after this charge
    spent_delta INTEGER NOT NULL,
    seal TEXT NOT NULL,
    releases INTEGER CHECK (releases > 0),  -- that a reservation pays for; NULL for a release
    under TEXT,  -- the reservation that pays for this release
    open TEXT  -- JSON: releases that each reservation still pays for, after this charge
) STRICT;
CREATE INDEX reserved ON charges (releases, under, epsilon);
CREATE TABLE results (
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
CREATE TRIGGER totals_do_not_change
BEFORE UPDATE OF id, ledger_id, accountant, epsilon, delta ON budget
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
CREATE TRIGGER spending_is_not_taken_back BEFORE UPDATE ON budget
WHEN NEW.spent_epsilon < OLD.spent_epsilon
BEGIN SELECT RAISE (ABORT, 'what a ledger has spent stays spent'); END;
CREATE TRIGGER budget_is_kept BEFORE DELETE ON budget
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
CREATE TRIGGER budget_is_not_replaced BEFORE INSERT ON budget
WHEN EXISTS (SELECT 1 FROM budget)
BEGIN SELECT RAISE (ABORT, 'the totals of a ledger are fixed'); END;
"""

UPGRADE = """
ALTER TABLE charges ADD COLUMN releases INTEGER CHECK (releases > 0);
ALTER TABLE charges ADD COLUMN under TEXT;
ALTER TABLE charges ADD COLUMN open TEXT;
CREATE INDEX reserved ON charges (releases, under, epsilon);
"""
"""From format 1 to 2; what was there keeps its seals."""
