"""Long histories: nothing is lost, and nothing gets slow."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.ledger import Ledger, entries
from dpframe.ledger.entries import append_entry, entry_of, newest_entry
from dpframe.ledger.store import read_totals
from tests.privacy.ledger_worker import DELTA, EPSILON, LAW, TOTALS, charge


def lengthen(ledger: Ledger, releases: int) -> None:
    with ledger._write_transaction() as db:
        for _ in range(releases):
            now = read_totals(db)
            before = newest_entry(db, now)
            cost = entry_of(charge(), ((EPSILON, DELTA),), now.spent_units)
            spent = before.spent_epsilon + cost.epsilon, before.spent_delta + cost.delta
            append_entry(
                db,
                before,
                cost._replace(spent_epsilon=spent[0], spent_delta=spent[1], open=before.open),
            )


class Counting(sqlite3.Connection):
    """Counts the steps of SQLite's machine."""

    steps = 0

    on = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if Counting.on:
            self.set_progress_handler(self._step, 1)

    def _step(self) -> int:
        Counting.steps += 1
        return 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Any:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, **o, factory=Counting))

    def count(work: Any) -> int:
        Counting.steps, Counting.on = 0, True
        work()
        Counting.on = False
        return Counting.steps

    return count


# -- long histories --------------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ["sum", "pld"])
def test_a_charge_takes_the_same_work_in_a_long_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Any, accountant: Any
) -> None:
    """Law: SQLite's steps for a charge, a check, what is left and a page of releases do not grow
    with the history, and those of opening not beyond the entries that it looks at; "pld" composes
    nothing there."""
    monkeypatch.setattr(entries, "RECENT", 20)
    ledger = Ledger(tmp_path / "budget.db", **TOTALS, accountant=accountant)
    if accountant == "pld":
        ledger.reserve(LAW, releases=3, delta=1e-7)
        monkeypatch.setattr("dpframe.ledger.reservations.composed_epsilon", None)
    uses = (
        lambda: ledger.charge(charge()),
        lambda: ledger.check(charge()),
        lambda: ledger.left,
        lambda: ledger.releases(5),
        lambda: Ledger(ledger.path),
    )
    lengthen(ledger, 50)
    few = [steps(use) for use in uses]
    lengthen(ledger, 400)
    many = [steps(use) for use in uses]
    assert all(after <= before * 1.1 + 20 for before, after in zip(few, many, strict=True))
    assert steps(ledger.verify) > 3 * many[-1]


def test_pages_of_releases_are_the_releases(tmp_path: Path) -> None:
    """Law: pages of any size, one before the other, put together are all releases, in order."""
    ledger = Ledger(tmp_path / "budget.db", **TOTALS, accountant="pld")
    lengthen(ledger, 5)
    ledger.reserve(LAW, releases=1, delta=1e-7)
    lengthen(ledger, 6)
    whole = ledger.releases()
    assert len(whole) == 11
    for size in (1, 2, 5, 100):
        pages, before = [], None
        while not pages or len(pages[-1]):
            pages.append(ledger.releases(size, before=before))
            before = int(pages[-1]["number"].iloc[0]) if len(pages[-1]) else before
        assert {len(page) for page in pages[:-2]} <= {size}
        assert pd.concat(pages[::-1], ignore_index=True).equals(whole)
    assert ledger.releases(0).dtypes.equals(whole.dtypes)
    for wrong, error in ((-1, dp.ParameterError), (True, dp.ParameterTypeError)):
        with pytest.raises(error, match="limit"):
            ledger.releases(wrong)
    with pytest.raises(dp.ParameterTypeError, match="before must be a whole number"):
        ledger.releases(before="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1, 7, 43, 99, 119, 120])
def test_damage_to_an_old_entry_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Law: an entry that was edited is noticed by ``verify``, by whoever shows it, and by opening:
    at once among the newest, otherwise within as many charges as the history has parts."""
    monkeypatch.setattr(entries, "RECENT", 10)
    ledger = Ledger(tmp_path / "budget.db", **TOTALS)
    lengthen(ledger, 120)
    with closing(sqlite3.connect(ledger.path)) as db, db:
        db.execute("DROP TRIGGER charges_do_not_change")
        db.execute("UPDATE charges SET epsilon = epsilon + 1 WHERE number = ?", (number,))
    for show in (ledger.verify, ledger.releases):
        with pytest.raises(dp.LedgerError, match="damaged"):
            show()
    late = 0
    while late < 15 and opens(ledger.path):
        late += 1
        lengthen(ledger, 1)
    assert late <= (0 if number > 110 else 14)


def opens(path: Path) -> bool:
    try:
        Ledger(path)
    except dp.LedgerError:
        return False
    return True
