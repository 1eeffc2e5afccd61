"""A ledger never says less than what was released: races, crashes, tampering, replays.

Processes are real and are really killed (``ledger_worker``). Next to every check stands a planted
bug that the same check must reject.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.asking import release as release_module
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import Release
from dpframe.ledger import Ledger
from dpframe.ledger.entries import append_entry, entry_of, newest_entry
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, read_totals, units_down, units_up
from dpframe.noise import NoiseTable
from dpframe.questions.hhh import ask as count_module
from tests.members import few, some
from tests.releases import release

from . import ledger_worker
from .ledger_worker import PLAN, TOTALS, TREE, charge, worker

FRAME = pd.DataFrame({"a": ["x"] * 900 + ["y"] * 400, "b": ["u"] * 1300, "who": range(1300)})
BUDGET = {"epsilon": 0.5, "delta": 1e-6}


def made(folder: Path, **options: Any) -> Ledger:
    return Ledger(folder / "budget.db", **{"epsilon": 3.0, "delta": 1e-5, **options})


def charges(path: Path) -> int:
    """Committed charges, as another connection sees them now."""
    with contextlib.closing(sqlite3.connect(path, timeout=5)) as db:
        number: int = db.execute("SELECT count(*) FROM charges").fetchone()[0]
    return number


def hhh(ledger: object, source: object = FRAME, **options: Any) -> pd.DataFrame:
    return dp.hhh(source, ["a"], **{**BUDGET, **options}, ledger=ledger)  # type: ignore[arg-type]


# -- charged before the draw -----------------------------------------------------------------------


@pytest.fixture
def charged_at_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many charges another process saw at every draw of noise."""
    seen: list[int] = []
    drawn = NoiseTable.draw
    look = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1])\n"
    look += "print(db.execute('SELECT count(*) FROM charges').fetchone()[0]); db.close()"

    def draw(law: NoiseTable, n: int) -> Any:
        command = [sys.executable, "-c", look, str(tmp_path / "budget.db")]
        seen.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
        return drawn(law, n)

    monkeypatch.setattr(NoiseTable, "draw", draw)
    return seen


@pytest.mark.parametrize("name", [None, "daily"])
def test_the_charge_is_on_disk_before_the_first_draw(
    tmp_path: Path, charged_at_draws: list[int], name: str | None
) -> None:
    """Law: at every draw of noise another process already finds the charge in the file."""
    hhh(made(tmp_path), release=name)
    assert len(charged_at_draws) >= 2
    assert set(charged_at_draws) == {1}


def test_a_charge_after_the_draw_is_rejected(tmp_path: Path, charged_at_draws: list[int]) -> None:
    """Planted bug: the same check sees a draw that nothing was charged for."""
    ledger_worker.release_then_charge(made(tmp_path), lambda _: None)
    assert set(charged_at_draws) == {0}


def test_a_charge_that_is_not_committed_is_rejected(
    tmp_path: Path, charged_at_draws: list[int]
) -> None:
    """Planted bug: a charge in a transaction that is still open at the draw is not seen."""
    with made(tmp_path)._write_transaction() as db:
        before = newest_entry(db, read_totals(db))
        append_entry(db, before, entry_of(charge(), (), (10, 10)))
        PLAN.run(TREE.private)
    assert set(charged_at_draws) == {0}


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a source, or draws noise, fails the test."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the source was read")

    monkeypatch.setattr(count_module, "exact_counts", read)
    monkeypatch.setattr(NoiseTable, "draw", None)


@pytest.mark.parametrize("name", [None, "daily"])
def test_a_count_that_fails_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    """Law: what cannot be counted is not charged, is not stored, and leaves the name free."""
    ledger = made(tmp_path)
    damaged = tmp_path / "damaged.parquet"
    FRAME.to_parquet(damaged)
    damaged.write_bytes(damaged.read_bytes()[:-50])
    for source in (damaged, tmp_path / "no.parquet", FRAME[["b"]], 5):
        with pytest.raises(dp.DpframeError):
            hhh(ledger, source, release=name)
    with monkeypatch.context() as broken:
        broken.setattr(count_module, "exact_counts", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hhh(ledger, release=name)
    assert (charges(ledger.path), ledger.names()) == (0, [])
    hhh(ledger, release=name)
    assert charges(ledger.path) == 1


@pytest.mark.usefixtures("unread")
def test_what_cannot_be_paid_is_not_read_not_drawn_and_not_charged(tmp_path: Path) -> None:
    """Law: over budget, the source is not touched, no noise is drawn, the file does not change."""
    ledger = made(tmp_path, epsilon=0.7)
    ledger.charge(charge(0.5, 1e-6))
    before = ledger.path.read_bytes()
    for name in (None, "daily"):
        with pytest.raises(dp.OverBudgetError) as error:
            hhh(ledger, release=name)
        text = str(error.value)
        assert "epsilon requested 0.5, remaining 0.2, over by 0.3" in text
        assert "Nothing was drawn or charged" in text
    assert ledger.path.read_bytes() == before


def test_two_calls_that_fit_one_by_one_but_not_together_draw_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: what was affordable before the count is checked again when it is charged."""
    ledger, count = made(tmp_path, epsilon=0.7), count_module.exact_counts

    def slow(*arguments: Any, **options: Any) -> Any:
        ledger.charge(charge(0.5, 1e-6))  # meanwhile somebody else takes the budget
        monkeypatch.setattr(NoiseTable, "draw", None)
        return count(*arguments, **options)

    monkeypatch.setattr(count_module, "exact_counts", slow)
    with pytest.raises(dp.OverBudgetError):
        hhh(ledger)
    assert (ledger.spent.epsilon, charges(ledger.path)) == (0.5, 1)


def test_a_rollback_refunds_nothing(tmp_path: Path) -> None:
    """Law: transactions of the caller, in DuckDB or in SQLite, do not take a charge along."""
    ledger = made(tmp_path)
    with contextlib.closing(duckdb.connect(tmp_path / "data.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 'x' AS a FROM range(900)")
        con.begin()
        con.execute("INSERT INTO t SELECT 'y' FROM range(900)")
        hhh(ledger, con.table("t"))
        con.rollback()
    assert ledger.spent.epsilon == 0.5
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("SELECT 1").fetchone()
        hhh(ledger)
        db.execute("ROLLBACK")
    assert ledger.spent.epsilon == 1.0


# -- many processes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "accountant"),
    [(25, "sum"), *(pytest.param(200, a, marks=pytest.mark.evidence) for a in ("sum", "pld"))],
)
def test_no_charge_of_many_processes_is_lost(
    quick: Path, tmp_path: Path, times: int, accountant: Any
) -> None:
    """Law: what 8 processes charge one ledger adds up exactly; as evidence 1,600 times, on disk."""
    ledger = made(quick if times == 25 else tmp_path, **TOTALS, accountant=accountant)
    run = worker("race", ledger.path, 8, times)
    assert run["codes"] == [0] * 8
    assert (run["charged"], run["over"]) == (8 * times, 0)
    assert len(Ledger(ledger.path).releases()) == 8 * times
    assert ledger.summary()["plain_epsilon"][0] == ledger.spent.epsilon == 0.08 * times


def test_a_careless_sum_loses_charges_in_the_same_race(quick: Path) -> None:
    """Planted bug: read, add and write in two transactions; the race does lose some of 200."""
    assert worker("careless", quick / "sum.db", 8, 25)["charged"] < 200


@pytest.mark.parametrize("reserved", [0, 12])
def test_no_race_overspends(quick: Path, reserved: int) -> None:
    """Law: where 20 of 80 charges fit, 20 are made and 60 are refused, whoever comes first; also
    where a reservation pays for 12 of them."""
    ledger = made(quick, epsilon=0.2, delta=1e-3, accountant="pld" if reserved else "sum")
    if reserved:
        ledger.reserve(ledger_worker.LAW, releases=reserved, delta=reserved * ledger_worker.DELTA)
    run = worker("race", ledger.path, 8, 10)
    assert run["charged"] + run["over"] == 80
    assert run["charged"] == 20
    assert ledger.left.epsilon == 0.0
    assert Ledger(ledger.path).spent.epsilon <= 0.2
    assert len(ledger.releases()) == run["charged"]
    assert ledger.summary()["reserved"][0] == 0


def test_a_new_ledger_is_made_once(quick: Path) -> None:
    """Law: threads that make the same ledger at once get one ledger, and one id."""
    with ThreadPoolExecutor(8) as pool:
        ids = {book.ledger_id for book in pool.map(lambda _: made(quick), range(32))}
    assert len(ids) == 1


def test_processes_that_ask_for_a_new_name_at_once_share_one_draw(quick: Path) -> None:
    """Law: one of them draws and is charged, and all get its result."""
    run = worker("same_name", made(quick).path, 4)
    assert run["charges"] == 1
    assert len(run["got"]) == 4
    assert len(set(run["got"])) == 1


def test_without_waiting_a_name_is_drawn_more_than_once(quick: Path) -> None:
    """Planted bug: nobody waits. Several are charged; the name still has one result for all."""
    run = worker("same_name", made(quick).path, 4, "bug")
    assert run["charges"] > 1
    assert len({got for got in run["got"] if not got.startswith("error")}) == 1
    assert any("was charged, but its result could not be stored" in got for got in run["got"])


# -- crashes ---------------------------------------------------------------------------------------


def never_less(runs: list[dict[str, Any]]) -> bool:
    """What every crash must leave: charged for all that was seen, and a ledger that works."""
    return all(
        round(run["charged"] / ledger_worker.EPSILON) == run["charges"] >= run["released"]
        and run["works"]
        and run.get("replayed", True)
        for run in runs
    )


POINTS = [("statements", 0, 14), ("steps", 150, 421), ("bytes", 600, 5000)]
EVERY = [("statements", 0, 1), ("steps", 0, 7), ("bytes", 512, 128)]


@pytest.mark.engines
@pytest.mark.parametrize(
    ("kind", "first", "stride"),
    [*POINTS, *(pytest.param(*at, marks=pytest.mark.evidence) for at in EVERY)],
)
def test_a_kill_at_a_point_of_the_way_leaves_enough_charged(
    quick: Path, kind: str, first: int, stride: int
) -> None:
    """Law: killed before any statement, step or byte written, charges >= releases seen outside.

    And what was released by name before is what the name replays afterwards.
    """
    runs = worker("stopped", quick, kind, first, stride)
    assert (runs[-1]["code"], runs[-1]["released"]) == (0, 2)
    assert len(runs) > 8
    assert {run["charges"] - run["released"] for run in runs} >= {0}
    assert never_less(runs)


@pytest.mark.engines
def test_charging_after_the_draw_is_rejected_by_the_same_crashes(quick: Path) -> None:
    """Planted bug: a process killed between the draw and the charge has released for nothing."""
    assert not never_less(worker("stopped", quick, "statements", 0, 5, "bug"))


def test_a_crash_between_charge_and_keep_is_paid_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: a named release whose result was lost is drawn anew, charged anew, then replayed."""
    ledger = made(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "keep", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            hhh(ledger, release="daily")
    assert (charges(ledger.path), ledger.names()) == (1, [])
    first = hhh(ledger, release="daily")
    assert first.equals(hhh(ledger, release="daily"))
    assert ledger.spent.epsilon == 1.0
    assert list(ledger.releases()["stored"]) == [False, True]


# -- what is in the file stays ---------------------------------------------------------------------

EPS = int(1 / EPSILON_UNIT)

TAMPERING = {
    "forgetting charges": "DELETE FROM charges",
    "forgetting one charge": "DELETE FROM charges WHERE number = 1",
    "a cheaper charge": "UPDATE charges SET epsilon = 1",
    "another receipt": "UPDATE charges SET receipt = '{}'",
    "replacing a charge": "REPLACE INTO charges SELECT number, 'x', time, name, source, 1, 1, "
    "profile, receipt, 1, 1, seal, NULL, NULL, '{}', NULL, NULL, NULL, '{}', '[]' "
    "FROM charges WHERE number = 1",
    "replacing by id": "REPLACE INTO charges SELECT 99, release_id, time, name, source, 1, 1, "
    "profile, receipt, 1, 1, seal, NULL, NULL, '{}', NULL, NULL, NULL, '{}', '[]' "
    "FROM charges WHERE number = 1",
    "taking back": "UPDATE budget SET spent_epsilon = 0, spent_delta = 0",
    "a larger total": f"UPDATE budget SET epsilon = {90 * EPS}",
    "a larger delta": "UPDATE budget SET delta = delta * 2",
    "another accountant": "UPDATE budget SET accountant = 'pld'",
    "no budget": "DELETE FROM budget",
    "a second budget": "INSERT INTO budget "
    f"VALUES (2, 'x', 'sum', {90 * EPS}, 1000, 0, 0, NULL, NULL)",
    "replacing the budget": "REPLACE INTO budget "
    f"VALUES (1, 'x', 'sum', {90 * EPS}, 1000, 0, 0, NULL, NULL)",
    "another protection": "UPDATE budget SET protects = 'user:u'",
    "moving the budget": "UPDATE budget SET id = 2",
    "spending too much": "UPDATE budget SET spent_epsilon = epsilon + 1",
    "too much delta": "UPDATE budget SET spent_delta = delta + 1",
    "another result": "UPDATE results SET frame = x''",
    "forgetting a result": "DELETE FROM results",
    "replacing a result": "REPLACE INTO results SELECT name, release_id, '{}', '', x'', seal "
    "FROM results",
}

NOTICED = {
    "a larger total without triggers": f"UPDATE budget SET epsilon = {90 * EPS}",
    "taking back without triggers": "UPDATE budget SET spent_epsilon = 0, spent_delta = 0",
    "less delta spent": "UPDATE budget SET spent_delta = 1",
    "a forgotten charge": "DELETE FROM charges WHERE number = 1",
    "the last charge forgotten": "DELETE FROM charges WHERE number = 2",
    "a cheaper charge, sums put right": "UPDATE charges SET epsilon = epsilon / 2; "
    "UPDATE budget SET spent_epsilon = spent_epsilon / 2",
    "another profile": "UPDATE charges SET profile = '[[0.0, 0.0]]'",
    "another name": "UPDATE charges SET name = 'weekly'",
    "a charge that was not paid": "INSERT INTO charges SELECT 99, 'x', time, name, source, "
    "epsilon, delta, profile, receipt, spent_epsilon, spent_delta, seal, releases, under, open, "
    "axis, first, last, tops, protects FROM charges LIMIT 1",
    "another order": "UPDATE charges SET number = 7 WHERE number = 1",
}


@pytest.fixture(scope="module")
def spent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ledger = made(tmp_path_factory.mktemp("spent"))
    hhh(ledger)
    hhh(ledger, release="daily")
    return ledger.path


@pytest.fixture
def spent(spent_file: Path, tmp_path: Path) -> Ledger:
    """A ledger of (3, 1e-5) with two releases of (0.5, 1e-6), one of them stored."""
    return Ledger(shutil.copy(spent_file, tmp_path / "budget.db"))


@pytest.mark.parametrize("statement", TAMPERING.values(), ids=TAMPERING)
def test_the_file_itself_refuses_to_forget(spent: Ledger, statement: str) -> None:
    """Law: SQL run on the file by hand takes nothing back, raises no total, overspends nothing."""
    with contextlib.closing(sqlite3.connect(spent.path)) as db:
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)
        db.commit()
    again = Ledger(spent.path, epsilon=3.0, delta=1e-5)
    assert (again.spent.epsilon, again.names(), len(again.releases())) == (1.0, ["daily"], 2)


@pytest.mark.parametrize("statement", NOTICED.values(), ids=NOTICED)
def test_what_gets_past_the_triggers_is_noticed(spent: Ledger, statement: str) -> None:
    """Planted: with the triggers removed the same edits succeed, and the file no longer opens."""
    with contextlib.closing(sqlite3.connect(spent.path)) as db:
        triggers = db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        assert len(triggers) >= 8
        for (name,) in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.commit()
        assert Ledger(spent.path).spent.epsilon == 1.0  # the check passes before the edit
        db.executescript(statement)
    with pytest.raises(dp.LedgerError, match=r"damaged.*copy that has every charge"):
        Ledger(spent.path)


def test_an_open_ledger_does_not_charge_a_file_that_was_edited(spent: Ledger) -> None:
    """Law: a ledger that is already open notices at the next charge that its sum was lowered."""
    with contextlib.closing(sqlite3.connect(spent.path)) as db:
        db.execute("DROP TRIGGER spending_is_not_taken_back")
        db.execute("UPDATE budget SET spent_epsilon = 0")
        db.commit()
    with pytest.raises(dp.LedgerError, match="damaged"):
        hhh(spent)
    assert charges(spent.path) == 2


def flipped(db: sqlite3.Connection, column: str) -> Iterator[Any]:
    """Values of a column of the totals that differ in one bit."""
    (value,) = db.execute(f"SELECT {column} FROM budget").fetchone()
    if isinstance(value, int):
        yield from (value ^ (1 << bit) for bit in range(63))
    else:
        for at, bit in ((at, bit) for at in range(len(value)) for bit in range(7)):
            yield value[:at] + chr(ord(value[at]) ^ (1 << bit)) + value[at + 1 :]


COLUMNS = ("epsilon", "delta", "spent_epsilon", "spent_delta", "accountant", "ledger_id")


@few(6, ("column", "accountant"), product(COLUMNS, ("sum", "pld")))
def test_an_open_ledger_notices_every_flipped_bit_of_its_totals(
    quick: Path, column: str, accountant: Any
) -> None:
    """Law: with any one bit of the totals changed while it is open, a ledger charges nothing,
    reserves nothing and says nothing of what is left, but LedgerError; put right, it goes on."""
    ledger = made(quick, epsilon=1.0, accountant=accountant)
    ledger.charge(charge(1.0, 1e-6))
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as db:
        for name in ("totals_do_not_change", "spending_is_not_taken_back"):
            db.execute(f"DROP TRIGGER {name}")
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("PRAGMA synchronous = OFF")
        (right,) = db.execute(f"SELECT {column} FROM budget").fetchone()
        for wrong in flipped(db, column):
            db.execute(f"UPDATE budget SET {column} = ?", (wrong,))
            for use in (lambda: ledger.charge(charge(0.1, 1e-7)), lambda: ledger.left):
                with pytest.raises(dp.LedgerError, match=r"damaged|replaced by another file"):
                    use()
        db.execute(f"UPDATE budget SET {column} = ?", (right,))
    assert (ledger.left.epsilon, charges(ledger.path)) == (0.0, 1)
    with pytest.raises(dp.OverBudgetError):
        ledger.charge(charge(0.1, 1e-7))


def test_an_open_ledger_notices_flipped_bytes_of_the_file(quick: Path) -> None:
    """Law: the same for the bytes of the row in the file, one bit of each in turn: an error, or
    what was left before; a spent ledger is charged nothing."""
    ledger = made(quick, epsilon=1.0)
    ledger.charge(charge(1.0, 1e-6))
    data = ledger.path.read_bytes()
    row = data.index(ledger.ledger_id.encode())
    noticed = 0
    for at in range(row - 12, row + 60):
        wrong = bytearray(data)
        wrong[at] ^= 1 << at % 8
        ledger.path.write_bytes(bytes(wrong))
        with pytest.raises(dp.LedgerError) as error:
            ledger.charge(charge(0.1, 1e-7))
        noticed += not isinstance(error.value, dp.OverBudgetError)
    ledger.path.write_bytes(data)
    assert noticed > 50
    assert charges(ledger.path) == 1


def test_an_open_ledger_notices_a_history_that_was_cut(spent: Ledger) -> None:
    """Law: an older state of the file put in its place while it is open is not charged."""
    again = Ledger(spent.path)
    before = again.path.read_bytes()
    hhh(again)
    newer = Ledger(spent.path)
    spent.path.write_bytes(before)
    with pytest.raises(dp.LedgerError, match="holds less than when it was opened"):
        hhh(newer)


def test_an_open_ledger_does_not_charge_a_file_that_took_its_place(
    spent: Ledger, tmp_path: Path
) -> None:
    """Law: a fresh ledger moved over one that is open is not charged, read or replayed from."""
    new = Ledger(tmp_path / "new.db", epsilon=3.0, delta=1e-5)
    shutil.move(new.path, spent.path)
    for use in (hhh, lambda b: b.spent, lambda b: b.recall("daily"), lambda b: b.summary()):
        with pytest.raises(dp.LedgerError, match="replaced by another file"):
            use(spent)
    assert charges(spent.path) == 0


@pytest.mark.parametrize(
    "totals",
    [
        {"epsilon": 4.0, "delta": 1e-5},
        {"epsilon": 3.0, "delta": 1.1e-5},
        {"epsilon": 3.0 + 1e-12, "delta": 1e-5},
        {"accountant": "pld"},
        {"epsilon": 3.0, "delta": 1e-5, "accountant": "pld"},
    ],
)
def test_totals_are_fixed(spent: Ledger, totals: dict[str, Any]) -> None:
    """Law: a ledger is opened with the totals it was made with, or with none."""
    with pytest.raises(dp.LedgerError, match=r"was made with epsilon=3, delta=1e-05, account"):
        Ledger(spent.path, **totals)
    assert Ledger(spent.path, epsilon=3, delta=1e-5).spent == spent.spent


# -- exact sums ------------------------------------------------------------------------------------


def test_ten_tenths_are_one(tmp_path: Path) -> None:
    """Law: ten charges of 0.1 fill a ledger of 1, and the eleventh is refused.

    The sum of floats would be 0.9999999999999999 and leave room that is not there.
    """
    ledger = made(tmp_path, epsilon=1.0)
    for _ in range(10):
        ledger.charge(charge(0.1, 1e-7))
    assert (ledger.spent.epsilon, ledger.left.epsilon) == (1.0, 0.0)
    with pytest.raises(dp.OverBudgetError):
        ledger.charge(charge(1e-12, 1e-12))


@given(st.lists(st.floats(1e-4, 50.0), min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_sums_are_never_below_the_exact_ones(epsilons: list[float]) -> None:
    """Law: units charged >= the decimals that were asked for, by less than a unit each."""
    exact = sum((Fraction(Decimal(repr(e))) for e in epsilons), Fraction(0))
    units = Fraction(sum(units_up(e, EPSILON_UNIT) for e in epsilons))
    above = units * Fraction(EPSILON_UNIT) - exact
    assert 0 <= above < len(epsilons) * Fraction(EPSILON_UNIT)
    assert units_down(epsilons[0], DELTA_UNIT) * DELTA_UNIT <= Decimal(repr(epsilons[0]))


def test_rounding_down_or_adding_floats_is_rejected() -> None:
    """Planted bugs: charges rounded down, and float sums, both fall below the exact sum."""
    epsilons = [1 / 3, 0.1, 1e-4 / 7] * 10
    exact = sum((Fraction(Decimal(repr(e))) for e in epsilons), Fraction(0))
    down = sum(units_down(e, EPSILON_UNIT) for e in epsilons)
    assert down * Fraction(EPSILON_UNIT) < exact
    assert functools.reduce(float.__add__, [0.1] * 10) < 1


# -- named releases --------------------------------------------------------------------------------


def test_a_replay_is_the_release_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: frame, types, index, attrs and Arrow bytes of a replay are those of the first call.

    A replay reads no source (the file is gone), draws no noise and costs nothing.
    """
    ledger, file = made(tmp_path), tmp_path / "data.parquet"
    FRAME.to_parquet(file)
    plans = {
        "a": dp.explain(["a", "b"], **BUDGET).plan,
        "b": dp.explain(
            "path:a?depth=2", **BUDGET, user="who", contribution="share", threshold=300
        ).plan,
        "c": dp.explain(["a"], **BUDGET, mechanism="gaussian", remainder=False).plan,
    }
    first = {name: release(file, plan, ledger=ledger, name=name) for name, plan in plans.items()}
    file.unlink()
    monkeypatch.setattr(NoiseTable, "draw", None)
    before = ledger.spent
    for name, plan in plans.items():
        again = release(file, plan, ledger=Ledger(ledger.path), name=name)
        same(first[name], again)
        recalled = ledger.recall(name)
        pd.testing.assert_frame_equal(recalled, first[name].to_frame(), check_exact=True)
        assert recalled.attrs == first[name].to_frame().attrs
        found = ledger.find(name)
        assert found is not None
        assert found.to_arrow().equals(first[name].to_arrow(), check_metadata=True)
    assert ledger.spent == before


def same(first: Release, again: Release) -> None:
    a, b = first.to_frame(), again.to_frame()
    pd.testing.assert_frame_equal(a, b, check_exact=True, check_frame_type=True)
    assert a.dtypes.equals(b.dtypes)
    assert type(a.index) is type(b.index)
    told = Receipt({**first.receipt, "replayed": True})
    assert json.dumps(b.attrs["dp"]) == json.dumps(dict(told))
    assert again.receipt.to_json() == told.to_json()
    stored = (
        release_module._release_to_stored(each, "x", {}).frame
        for each in (Release(first.frame, told), again)
    )
    assert next(stored) == next(stored)


def test_a_second_draw_is_not_taken_for_a_replay(tmp_path: Path) -> None:
    """Planted bug: drawing again instead of replaying fails the comparison."""
    plan = dp.explain(["a"], **BUDGET).plan
    first, again = release(FRAME, plan), release(FRAME, plan)
    with pytest.raises(AssertionError):
        same(first, again)


OTHER = {
    "epsilon": {"epsilon": 0.6},
    "delta": {"delta": 2e-6},
    "threshold": {"threshold": 300},
    "user": {"user": "who"},
    "contribution": {"user": "who", "contribution": "records", "max_contributions": 1},
    "max_contributions": {"user": "who", "contribution": "records", "max_contributions": 2},
    "mechanism": {"mechanism": "laplace"},
    "remainder": {"remainder": False},
    "release_share": {"release_share": 0.3},
    "confidence": {"confidence": 0.9},
}


@some("epsilon", "threshold", "contribution", "max_contributions", "remainder")
@pytest.mark.parametrize("argument", OTHER)
def test_a_name_with_another_argument_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    """Law: the error names the argument, what it was and what it is; nothing is charged or read."""
    ledger = made(tmp_path)
    hhh(ledger, release="daily")
    monkeypatch.setattr(count_module, "exact_counts", None)
    with pytest.raises(
        dp.ReleaseNameError, match=f"'daily'.*{argument} was .* and is now"
    ) as error:
        hhh(ledger, release="daily", **OTHER[argument])
    assert repr(OTHER[argument][argument]) in str(error.value)
    assert charges(ledger.path) == 1


def test_a_name_with_another_hierarchy_or_source_is_refused(tmp_path: Path) -> None:
    """Law: the hierarchy and the public name of the source belong to what a name answers."""
    ledger, file, other = made(tmp_path), tmp_path / "data.parquet", tmp_path / "other.parquet"
    for path in (file, other):
        FRAME.to_parquet(path)
    hhh(ledger, file, release="daily")
    with pytest.raises(dp.ReleaseNameError, match=r"source was 'file .*data.parquet' and is now"):
        hhh(ledger, other, release="daily")
    with pytest.raises(dp.ReleaseNameError, match=r"source was .* and is now 'pandas DataFrame'"):
        hhh(ledger, FRAME, release="daily")
    with pytest.raises(dp.ReleaseNameError, match="hierarchy was 'columns:a' and is now"):
        dp.hhh(file, ["a", "b"], **BUDGET, ledger=ledger, release="daily")
    assert charges(ledger.path) == 1


@pytest.mark.parametrize(
    ("pair", "equal"),
    [
        ((["a,b"], ["a", "b"]), False),
        (("path:a?depth=2", "path:a?depth=3"), False),
        (("ip:a?version=4", "ip:a?version=6"), False),
        (("number:a?lower=0&upper=8&depth=3", "number:a?lower=0&upper=9&depth=3"), False),
        ((["a"], "columns:a"), True),
        ((dp.path("a", depth=2), "path:a?depth=2"), True),
    ],
)
def test_requests_are_equal_when_hierarchies_are(pair: tuple[Any, Any], equal: bool) -> None:
    """Law: a name is answered from the store only for the same hierarchy, however it is written."""
    one, two = (dp.explain(h, **BUDGET).plan.request for h in pair)
    assert (one == two) == equal


def test_equal_arguments_of_other_types_replay(tmp_path: Path) -> None:
    """Law: numbers are compared by value: an int, a numpy number and a float name one request."""
    ledger = made(tmp_path)
    one = hhh(ledger, epsilon=1, threshold=300, release="daily")
    two = hhh(ledger, epsilon=np.float64(1.0), threshold=np.int32(300), release="daily")
    assert one.equals(two)
    assert charges(ledger.path) == 1


@pytest.mark.usefixtures("unread")
def test_a_name_without_a_ledger_is_refused() -> None:
    """Law: a result that nothing would keep is not drawn under a name."""
    with pytest.raises(dp.ParameterError, match="needs a ledger"):
        hhh(None, release="daily")


def test_an_unknown_name_is_answered_with_a_near_one(spent: Ledger) -> None:
    """Law: ``recall`` of nothing is an error with a hint, and draws nothing."""
    with pytest.raises(dp.ReleaseNameError, match=r"'dayly'. Did you mean 'daily'\?"):
        spent.recall("dayly")
    assert charges(spent.path) == 2


def test_a_damaged_result_is_not_replayed(spent: Ledger) -> None:
    """Law: a stored frame of which one bit changed is refused, not shown."""
    with contextlib.closing(sqlite3.connect(spent.path)) as db:
        db.execute("DROP TRIGGER results_do_not_change")
        (frame,) = db.execute("SELECT frame FROM results").fetchone()
        flipped = bytearray(frame)
        flipped[len(frame) // 2] ^= 4
        db.execute("UPDATE results SET frame = ?", (bytes(flipped),))
        db.commit()
    for use in (lambda: spent.recall("daily"), lambda: hhh(spent, release="daily")):
        with pytest.raises(dp.LedgerError, match="'daily' is not what was stored"):
            use()


# -- which ledger a call uses ----------------------------------------------------------------------


def test_links_lead_to_one_ledger(tmp_path: Path) -> None:
    """Law: a ledger opened through a link has the same budget, history, names and lock."""
    ledger = made(tmp_path)
    (tmp_path / "link.db").symlink_to(ledger.path)
    (tmp_path / "folder").symlink_to(tmp_path)
    for path in (tmp_path / "link.db", tmp_path / "folder" / "budget.db"):
        assert Ledger(path).path == ledger.path
        hhh(path, release="daily")
    assert ledger.spent.epsilon == 0.5


def test_the_noise_is_the_one_without_a_ledger(tmp_path: Path) -> None:
    """Law: a ledger changes nothing about a release but its receipt."""
    from dpframe.testing import seeded_noise

    ledger, out = made(tmp_path), []
    for where, name in ((None, None), (ledger, None), (ledger, "daily")):
        with seeded_noise(7):
            out.append(hhh(where, release=name))
    assert out[0].equals(out[1])
    assert out[0].equals(out[2])
