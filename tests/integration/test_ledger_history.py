"""Long histories, and files that earlier versions wrote: nothing is lost, and nothing gets slow."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.accounting.compose import composed_epsilon
from dpframe.ledger import Ledger, entries, store
from dpframe.ledger.entries import append_entry, entry_of, newest_entry
from dpframe.ledger.store import FORMAT, read_totals
from tests.privacy.ledger_worker import DELTA, EPSILON, LAW, TOTALS, charge

HERE = Path(__file__).parent / "ledgers_of_format_1"
FRAME = pd.DataFrame({"a": ["x"] * 900})
BUDGET: dict[str, Any] = {"epsilon": 0.4, "delta": 1e-7, "mechanism": "gaussian"}


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


# -- files of the first format ---------------------------------------------------------------------


@pytest.fixture(params=["sum", "pld"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A ledger as it was written before there were reservations: five releases of (0.4, 1e-7)."""
    path = tmp_path / f"{request.param}.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((HERE / path.with_suffix(".sql").name).read_text())
    return path


def format_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        number: int = db.execute("PRAGMA user_version").fetchone()[0]
    return number


def test_a_file_of_the_first_format_opens_with_all_it_holds(old: Path) -> None:
    """Law: totals, history and results of an older file are kept; it is brought to the present
    format, under the same seals. What "pld" had composed stays as claimed, at a point of its curve
    that leaves delta; from then on releases add up."""
    assert format_of(old) == 1
    ledger = Ledger(old, epsilon=3.0, delta=1e-5)
    assert format_of(old) == FORMAT
    shown = ledger.releases()
    assert shown["release_id"].tolist()[:4] == [f"release-{i}" for i in range(4)]
    assert (len(shown), shown["stored"].sum(), ledger.names()) == (5, 1, ["daily"])
    assert len(dp.hhh(FRAME, ["a"], **BUDGET, ledger=ledger, release="daily")) > 0
    spent, pld = ledger.spent, ledger.accountant == "pld"
    if pld:
        profile = dp.explain(["a"], **BUDGET).plan.profile
        assert spent.delta == 5.25e-6  # midway from 5e-7 to 1e-5
        assert spent.epsilon == pytest.approx(composed_epsilon([(profile, 5)], 5.25e-6))
        assert 0.728866893673 < spent.epsilon < 0.8  # what the file said at the total delta
    else:
        assert spent == dp.Spending(epsilon=2.0, delta=5e-7)
    dp.hhh(FRAME, ["a"], **BUDGET, ledger=ledger)
    assert ledger.spent.epsilon == pytest.approx(spent.epsilon + 0.4)
    again = Ledger(old)
    again.verify()
    summary = again.summary().iloc[0]
    assert (summary["releases"], summary["plain_epsilon"], summary["reserved"]) == (6, 2.4, 0)
    assert len(again.reservations()) == 0


def test_a_file_of_the_first_format_that_cannot_be_written_is_read(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: without the right to write, an older file says what it said, and stays as it is."""
    before = old.read_bytes()

    def refused(*_: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(store, "upgrade_tables", refused)
    ledger = Ledger(old)
    assert ledger.spent.epsilon == (2.0 if ledger.accountant == "sum" else 0.728866893673)
    assert (len(ledger.releases()), ledger.summary()["releases"][0]) == (5, 5)
    assert len(ledger.recall("daily")) > 0
    with pytest.raises(dp.LedgerError):
        ledger.charge(charge())
    assert old.read_bytes() == before


def test_a_damaged_file_of_the_first_format_is_not_upgraded(old: Path) -> None:
    """Law: an older file is checked whole before anything is written to it."""
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("DROP TRIGGER charges_do_not_change")
        db.execute("UPDATE charges SET epsilon = epsilon - 1 WHERE number = 2")
    with pytest.raises(dp.LedgerError, match="damaged"):
        Ledger(old)
    assert format_of(old) == 1


def test_what_the_first_format_composed_is_restated_once() -> None:
    """Law: at the plain sum, or where no point of the curve fits, what was claimed stays."""
    from dpframe.ledger.reservations import restate_composed
    from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, units_down

    def now(epsilon: float, spent: tuple[float, float]) -> Any:
        units = units_down(spent[0], EPSILON_UNIT), units_down(spent[1], DELTA_UNIT)
        total = {
            "epsilon": units_down(epsilon, EPSILON_UNIT),
            "delta": units_down(1e-5, DELTA_UNIT),
        }
        return store_totals(**total, spent_epsilon=units[0], spent_delta=units[1])

    def store_totals(**units: int) -> Any:
        from dpframe.ledger.store import Totals

        return Totals(ledger_id="x", accountant="pld", **units)

    profile = dp.explain(["a"], **BUDGET).plan.profile
    laws = list(Counter({profile: 5}).items())
    plain = units_down(2.0, EPSILON_UNIT), units_down(5e-7, DELTA_UNIT)
    summed = now(3.0, (2.0, 5e-7))
    assert restate_composed(summed, plain, laws) == summed.spent_units
    full = now(0.73, (0.7288, 1e-5))
    assert restate_composed(full, plain, laws) == full.spent_units
    room = now(3.0, (0.7288, 1e-5))
    assert restate_composed(room, plain, laws)[0] > room.spent_epsilon
    assert restate_composed(room, plain, laws)[1] < room.delta
