"""Totals by block in files: races, kills, damage, and charges that do not get slow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dpframe as dp
from dpframe.budget import Budget
from dpframe.ledger import Ledger, entries, state
from dpframe.ledger.entries import append_entry
from tests.members import few

from .ledger_worker import DELTA, EPSILON, LAW, TOTALS, charge, worker


def filled(ledger: Ledger, days: Iterator[int] | range) -> None:
    """Charges that read these days and the next, in one transaction."""
    with ledger._write_transaction() as db:
        for day in days:
            cost = charge(day=day)
            here = state.read_state(db)
            entry, _ = here.with_charge(cost, ())
            assert cost.blocks is not None
            append_entry(
                db, here.last, entry._replace(tops=here.segments.add(cost.blocks, entry.cost))
            )


# -- many processes, and crashes -------------------------------------------------------------------


def test_no_race_for_blocks_overspends_any_and_none_starves_another(quick: Path) -> None:
    """Law: where 6 of 80 charges fit each of 4 blocks, 24 are made, whoever comes first."""
    ledger = Ledger(quick / "budget.db", epsilon=6 * EPSILON, delta=1e-3)
    run = worker("race", ledger.path, 8, 10, 4)
    assert (run["codes"], run["charged"], run["over"]) == ([0] * 8, 24, 56)
    assert ledger.left.epsilon == 0.0
    again = Ledger(ledger.path)
    again.verify()
    assert again.blocks()["left_epsilon"].tolist() == [0.0] * 4
    assert again.summary()["plain_epsilon"][0] == 24 * EPSILON


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.evidence)])
def test_a_kill_at_any_statement_leaves_blocks_and_history_agreeing(
    quick: Path, stride: int
) -> None:
    """Law: killed before any statement, the file verifies, holds at least what was said, and its
    fullest block is that of the charges it holds; it can be charged again."""
    runs = worker("stopped_charges", quick, 0, stride)
    assert (runs[-1]["code"], runs[-1]["said"], runs[-1]["charges"]) == (0, 3, 3)
    assert len(runs) > 8
    for run in runs:
        assert run["said"] <= run["charges"] <= run["said"] + 1
        assert run["fullest"] == EPSILON * min(run["charges"], 2)  # three days that overlap by two


# -- damage ----------------------------------------------------------------------------------------

DAMAGE = {
    "a sum": "UPDATE segments SET epsilon = epsilon - 1 WHERE level = {level}",
    "the greatest sum": "UPDATE segments SET top_epsilon = top_epsilon - 1 WHERE level = {level}",
    "the greatest delta": "UPDATE segments SET top_delta = 0 WHERE level = {level}",
    "a place": "UPDATE segments SET place = place + 5000 WHERE level = {level}",
    "a missing node": "DELETE FROM segments WHERE level = {level}",
    "an axis": "UPDATE segments SET axis = 'other' WHERE level = {level}",
    "a digest": "UPDATE segments SET digest = 'x' WHERE level = {level}",
}


@pytest.fixture
def charged(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "budget.db", epsilon=3 * EPSILON, delta=1e-3)
    for day in (0, 1, 1, 9):
        ledger.charge(charge(day=day))
    return ledger


@few(
    28,
    ("damage", "level"),
    [pair for pair in product(DAMAGE, range(8)) if pair != ("a digest", 0)],  # moments have none
)
def test_damage_to_what_blocks_have_spent_is_noticed(
    charged: Ledger, damage: str, level: int
) -> None:
    """Law: a node that was changed is noticed by ``verify`` and by opening; by a charge that reads
    it, before anything is drawn or charged. Put right, the ledger goes on."""
    before = charged.path.read_bytes()
    with closing(sqlite3.connect(charged.path)) as db, db:
        db.execute("DROP TRIGGER segments_are_kept")
        db.execute(DAMAGE[damage].format(level=level))
    for use in (charged.verify, lambda: Ledger(charged.path)):
        with pytest.raises(dp.LedgerError, match="damaged"):
            use()
    for use in (charged.check, charged.charge):
        with pytest.raises(dp.LedgerError, match="damaged"):
            use(charge(day=0))
    charged.path.write_bytes(before)
    with pytest.raises(dp.OverBudgetError):
        charged.charge(charge(day=0))
    charged.charge(charge(day=3))


EDITED = {
    "another day": "UPDATE charges SET first = first + 86400, last = last + 86400 WHERE number = 4",
    "no blocks": "UPDATE charges SET axis = NULL, first = NULL, last = NULL WHERE number = 4",
    "another axis": "UPDATE charges SET axis = 'x' WHERE number = 2",
    "less in the fullest block": "UPDATE charges SET tops = replace(tops, '30000000000', '1')",
    "less protected": "UPDATE charges SET protects = '[]'",
}


@pytest.mark.parametrize("edit", EDITED)
def test_edited_blocks_of_the_history_are_noticed(charged: Ledger, edit: str) -> None:
    """Law: the blocks of a charge, and what they added up to, are under its seal."""
    with closing(sqlite3.connect(charged.path)) as db, db:
        db.execute("DROP TRIGGER charges_do_not_change")
        assert db.execute(EDITED[edit]).rowcount > 0
    with pytest.raises(dp.LedgerError, match="damaged"):
        Ledger(charged.path)


def test_the_file_refuses_to_forget_blocks(charged: Ledger) -> None:
    """Law: SQL by hand cannot delete what blocks have spent."""
    with closing(sqlite3.connect(charged.path)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute("DELETE FROM segments")


# -- reservations ----------------------------------------------------------------------------------


def test_a_reservation_touches_every_block(tmp_path: Path) -> None:
    """Law: a reservation is paid for once, for all blocks; a release of a period that it pays for
    adds nothing to the blocks that it reads, and one more does."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-3, accountant="pld")
    ledger.charge(charge(0.5, DELTA, day=0))
    held = ledger.reserve(LAW, releases=2, delta=1e-7)
    assert ledger.spent.epsilon == pytest.approx(0.5 + held.epsilon)
    spent = ledger.spent
    for left in (1, 0):
        paid = ledger.charge(charge(day=0))
        assert paid.reservation is not None
        assert paid.reservation.left == left
        assert ledger.spent == spent
    assert ledger.charge(charge(day=0)).reservation is None
    assert ledger.spent.epsilon == pytest.approx(spent.epsilon + EPSILON)
    assert ledger.blocks()["releases"].tolist() == [2]
    assert len(ledger.releases()) == 4
    ledger.verify()
    large = Budget(epsilon=0.9, delta=1e-9)
    with pytest.raises(dp.OverBudgetError, match=r"in the fullest block \(when as written: 1970"):
        ledger.reserve(
            SimpleNamespace(**{**vars(LAW), "budget": large, "profile": ((0.9, 1e-9),)}),
            releases=1,
            delta=9e-4,
        )


# -- what it takes ---------------------------------------------------------------------------------


def test_a_charge_by_block_takes_the_same_work_in_a_long_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: SQLite's steps for a charge, a check and a refusal grow with the logarithm of how many
    blocks there are, not with their number."""
    monkeypatch.setattr(entries, "RECENT", 20)
    connect, counts = sqlite3.connect, [0]

    def step() -> int:
        counts[0] += 1
        return 0

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*arguments, **options)
        db.set_progress_handler(step, 1)
        return db

    ledger = Ledger(tmp_path / "budget.db", **TOTALS)
    took = []
    for days in (range(60), range(60, 1000)):
        filled(ledger, iter(days))
        with monkeypatch.context() as counted:
            counted.setattr(sqlite3, "connect", counting)
            for day in (3, 55):
                counts[0] = 0
                ledger.check(charge(day=day))
                ledger.charge(charge(day=day))
                with pytest.raises(dp.OverBudgetError):
                    ledger.charge(charge(2000.0, day=day))
                took.append(counts[0])
    assert max(took[2:]) < 2 * max(took[:2])
    ledger.verify()
