"""Ledgers of earlier formats: opened, copied, and charged by block and to their last part."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.accounting.compose import composed_epsilon
from dpframe.ledger import Ledger, store
from dpframe.ledger import forecast as open_file
from dpframe.ledger.reservations import restate_composed
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, FORMAT, Totals, units_down
from tests.privacy.ledger_worker import charge

HERE = Path(__file__).parent
FRAME = pd.DataFrame({"a": ["x"] * 900, "who": range(900)})
BUDGET: dict[str, Any] = {"epsilon": 0.4, "delta": 1e-7, "mechanism": "gaussian"}
RECORD = "adding or removing one record"
USER = "adding or removing one user ('who') with all their records"
MIXED = f"nothing, its releases protect different units: {RECORD}; {USER}"


def written(folder: Path, version: int, accountant: str) -> Path:
    path = folder / f"{accountant}.db"
    script = HERE / f"ledgers_of_format_{version}" / f"{accountant}.sql"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script.read_text())
    return path


@pytest.fixture(params=["sum", "pld"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Three releases of (0.4, 1e-7), one of them by user; of "pld" two paid by a reservation."""
    return written(tmp_path, 2, request.param)


@pytest.fixture(params=["sum", "pld"])
def first(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Written before there were reservations: five releases of (0.4, 1e-7)."""
    return written(tmp_path, 1, request.param)


def format_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        number: int = db.execute("PRAGMA user_version").fetchone()[0]
    return number


def test_a_file_of_the_first_format_opens_with_all_it_holds(first: Path) -> None:
    """Law: totals, history and results of an older file are kept; it is brought to the present
    format, under the same seals. What "pld" had composed stays as claimed, at a point of its curve
    that leaves delta; from then on releases add up."""
    assert format_of(first) == 1
    ledger = Ledger(first, epsilon=3.0, delta=1e-5)
    assert format_of(first) == FORMAT
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
    again = Ledger(first)
    again.verify()
    summary = again.summary().iloc[0]
    assert (summary["releases"], summary["plain_epsilon"], summary["reserved"]) == (6, 2.4, 0)
    assert len(again.reservations()) == 0


def test_a_file_of_the_first_format_that_cannot_be_written_is_read(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: without the right to write, an older file says what it said, and stays as it is."""
    before = first.read_bytes()

    def refused(*_: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(store, "upgrade_tables", refused)
    ledger = Ledger(first)
    assert ledger.spent.epsilon == (2.0 if ledger.accountant == "sum" else 0.728866893673)
    assert (len(ledger.releases()), ledger.summary()["releases"][0]) == (5, 5)
    assert len(ledger.recall("daily")) > 0
    with pytest.raises(dp.LedgerError):
        ledger.charge(charge())
    assert first.read_bytes() == before


def test_what_the_first_format_composed_is_restated_once() -> None:
    """Law: at the plain sum, or where no point of the curve fits, what was claimed stays."""

    def now(epsilon: float, spent: tuple[float, float]) -> Totals:
        held = {"epsilon": epsilon, "spent_epsilon": spent[0]}
        units = {name: units_down(amount, EPSILON_UNIT) for name, amount in held.items()}
        units |= {"delta": units_down(1e-5, DELTA_UNIT)}
        units |= {"spent_delta": units_down(spent[1], DELTA_UNIT)}
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


def test_a_file_of_the_second_format_opens_with_all_it_holds(old: Path) -> None:
    """Law: spent, releases, reservations and results stay; the file is brought to the present
    format under its old seals, and what was charged before counts for every block."""
    assert format_of(old) == 2
    ledger = Ledger(old, epsilon=3.0, delta=1e-5)
    assert format_of(old) == FORMAT
    spent, pld = ledger.spent, ledger.accountant == "pld"
    assert spent == (
        dp.Spending(epsilon=0.978459580535, delta=5.1e-6)
        if pld
        else dp.Spending(epsilon=1.2, delta=3e-7)
    )
    assert (len(ledger.releases()), ledger.names()) == (3, ["daily"])
    assert len(dp.hhh(FRAME, ["a"], **BUDGET, ledger=ledger, release="daily")) > 0
    assert ledger.spent == spent
    summary = ledger.summary().iloc[0]
    assert summary["protects"] == MIXED
    assert (summary["unread_epsilon"], summary["reserved"]) == (summary["left_epsilon"], int(pld))
    for day in range(0, 20, 2):
        ledger.charge(charge(0.5, 1e-7, day))
    assert ledger.spent.epsilon == pytest.approx(spent.epsilon + 0.5)
    assert ledger.left.epsilon == pytest.approx(2.5 - spent.epsilon)
    assert ledger.summary()["protects"][0] == MIXED
    assert ledger.within(days=0) == ledger.spent
    if pld:  # the reservation's last release still costs nothing
        before = ledger.spent
        dp.hhh(FRAME, ["a"], **BUDGET, ledger=ledger)
        assert (ledger.spent, ledger.summary()["reserved"][0]) == (before, 0)
    Ledger(old).verify()
    assert ledger.releases()["period"].isna().tolist()[:3] == [True] * 3


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("accountant", ["sum", "pld"])
def test_an_older_file_is_copied_before_it_is_changed(
    tmp_path: Path, version: int, accountant: str
) -> None:
    """Law: the copy beside the file is a ledger of the old format with all that it held, byte for
    byte, with the same rights; another state gets a copy of its own, the same state none."""
    path = written(tmp_path, version, accountant)
    path.chmod(0o640)
    before = path.read_bytes()
    Ledger(path)
    copy = tmp_path / f"{path.name}-format-{version}"
    assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == (before, 0o640)
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, copy.name]
    path.write_bytes(before)  # put back and opened anew
    Ledger(path)
    assert len(list(tmp_path.iterdir())) == 2
    path.unlink()
    written(tmp_path, version, "pld" if accountant == "sum" else "sum").rename(path)
    another = path.read_bytes()
    Ledger(path)
    assert copy.read_bytes() == before
    assert copy.with_name(f"{copy.name}-2").read_bytes() == another


def test_a_file_that_cannot_be_copied_is_read_and_says_why_it_is_not_charged(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: where no copy can be written nothing is changed: the ledger is read, and a charge says
    what to do."""
    before = old.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    ledger = Ledger(old)
    assert (len(ledger.releases()), ledger.summary()["releases"][0]) == (3, 3)
    assert ledger.summary()["protects"][0] == f"{RECORD}; {USER}"
    assert (len(ledger.blocks()), ledger.within(days=7)) == (0, ledger.spent)
    ledger.check(charge(0.1, 1e-7, day=3))
    ledger.verify()
    with pytest.raises(dp.LedgerError, match=r"format 2.*no copy.*No space"):
        ledger.charge(charge(0.1, 1e-7, day=3))
    assert old.read_bytes() == before
    assert [p.name for p in old.parent.iterdir()] == [old.name]
    monkeypatch.undo()
    ledger.charge(charge(0.1, 1e-7, day=3))
    assert format_of(old) == FORMAT


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("accountant", ["sum", "pld"])
def test_a_damaged_file_is_not_changed(tmp_path: Path, version: int, accountant: str) -> None:
    """Law: an older file is checked whole before anything is written to it, or beside it."""
    old = written(tmp_path, version, accountant)
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("DROP TRIGGER charges_do_not_change")
        db.execute("UPDATE charges SET epsilon = epsilon - 1 WHERE number = 2")
    with pytest.raises(dp.LedgerError, match="damaged"):
        Ledger(old)
    assert format_of(old) == version
    assert len(list(old.parent.iterdir())) == 1


def test_a_file_of_a_later_format_names_it(tmp_path: Path) -> None:
    """Law: a ledger that a later version wrote is refused with its format, not called damaged."""
    path = tmp_path / "budget.db"
    Ledger(path, epsilon=3.0, delta=1e-5)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(
        dp.LedgerError, match=rf"install a later version \(its format is {FORMAT + 1}"
    ):
        Ledger(path)


def test_an_upgrade_that_is_interrupted_changes_nothing(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: stopped after the copy, or after the tables were changed, the file is the old one, and
    the next opening brings it up with the copy that is there."""
    for name in ("_copy", "_upgrade_format"):
        shipped = getattr(open_file, name)

        def stopping(*arguments: Any, shipped: Any = shipped) -> None:
            shipped(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as broken:
            broken.setattr(open_file, name, stopping)
            with pytest.raises(KeyboardInterrupt):
                Ledger(old)
        assert format_of(old) == 2
    Ledger(old).verify()
    assert sorted(p.name for p in old.parent.iterdir()) == [old.name, f"{old.name}-format-2"]


@pytest.mark.parametrize("accountant", ["sum", "pld"])
def test_a_file_of_the_third_format_pays_its_last_part(tmp_path: Path, accountant: str) -> None:
    """Law: two thirds of its totals are spent, one of them by period, and the third one fits, where
    nothing is reserved; it keeps the totals in units that it was made with, and more is refused."""
    path = written(tmp_path, 3, accountant)
    ledger = Ledger(path, epsilon=1.0, delta=1e-5)
    assert (format_of(path), ledger.epsilon, ledger.delta) == (FORMAT, 1.0, 1e-5)
    part: dict[str, Any] = {"epsilon": 1 / 3, "delta": 1e-5 / 3, "ledger": ledger}
    if accountant == "sum":
        dp.hhh(FRAME, ["a"], **part)
        assert ledger.left == dp.Spending(epsilon=0.0, delta=0.0)
        assert ledger.spent == dp.Spending(epsilon=1.0, delta=1e-5)
    else:
        dp.hhh(FRAME, ["a"], epsilon=0.01, delta=1e-8, ledger=ledger)
        assert ledger.reservations()["left"].tolist() == [1]
    with pytest.raises(dp.OverBudgetError):
        dp.hhh(FRAME, ["a"], **part)
    assert ledger.names() == ["daily"]
    Ledger(path).verify()
