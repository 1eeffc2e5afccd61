"""n times the n-th part of a total fits a ledger, whatever its kind and door, and never more."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import Budget
from dpframe.doors.cli.main import main
from dpframe.ledger import Charge, Ledger
from dpframe.verifier.ledger import LedgerRelease, verify_releases
from dpframe.verifier.verdict import Verdict
from tests.privacy.ledger_worker import LAW, charge

WHEN = pd.date_range("2026-01-01", "2026-02-28 23:00", freq="h")
FRAME = pd.DataFrame({"when": WHEN, "a": "x"})
WEEK = ("when", "2026-W03")
PARTS = [((1.0, 1e-3), 3), ((3.0, 1e-3), 52), ((2.0, 1e-5), 12), ((1 / 3, 1e-5 / 3), 1)]
PARTS += [((2 / 3, 1e-5), 1), ((1 / 3, 1e-5 / 3), 7), ((1e5 / 3, 0.3), 200)]
LARGEST = 1 + Fraction(1, 2**53)


def asked(epsilon: float, delta: float, day: int | None = None) -> Charge:
    """A charge whose receipt says what it is."""
    one = charge(epsilon, delta, day)
    receipt = json.dumps({**json.loads(one.receipt), "epsilon": epsilon, "delta": delta})
    return replace(one, receipt=receipt)


def many(ledger: Ledger, epsilon: float, delta: float, day: int | None = None) -> int:
    """How many are charged until one is refused, by less than it asks for."""
    for number in range(1000):
        try:
            ledger.charge(asked(epsilon, delta, day))
        except dp.OverBudgetError as error:
            for told in str(error).split("over by ")[1:]:
                assert float(told.split()[0].strip(".,;")) > 1e-6 * min(epsilon, delta)
            return number
    raise AssertionError


@pytest.mark.parametrize("day", [None, 4])
@pytest.mark.parametrize(("total", "n"), PARTS)
def test_n_parts_fit_and_no_more(
    tmp_path: Path, total: tuple[float, float], n: int, day: int | None
) -> None:
    """Law: n times the n-th part of both totals fit, by period too; the forecast knows it, one more
    is refused by all of itself, and the file is whole and says the totals that were asked for."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=total[0], delta=total[1])
    part = total[0] / n, total[1] / n
    law = {"budget": Budget(epsilon=part[0], delta=part[1]), "profile": (part,)}
    plan = SimpleNamespace(**{**vars(LAW), **law})
    assert ledger.forecast(plan).added_up == n
    assert ledger.foresee(asked(*part, day)).fits
    assert many(ledger, *part, day) == n
    again = Ledger(ledger.path, epsilon=total[0], delta=total[1])
    assert (again.epsilon, again.delta) == total
    assert (again.left.epsilon, again.left.delta) == (0, 0)
    assert again.spent == again.within(days=0)
    assert ledger.forecast(plan).added_up == 0
    assert ledger.forecast(plan).elsewhere == (None if day is None else n)
    assert not ledger.foresee(asked(*part, day)).fits
    assert ledger.summary()["saved_epsilon"][0] == 0
    assert not (ledger.blocks()["left_epsilon"] != 0).any()
    again.verify()


@given(st.floats(1e-4, 1e5), st.floats(1e-12, 0.9), st.integers(1, 200))
@settings(max_examples=6, deadline=None)
def test_n_parts_of_any_total_fit(
    tmp_path_factory: pytest.TempPathFactory, epsilon: float, delta: float, n: int
) -> None:
    """Law: so for any totals and n."""
    path = tmp_path_factory.mktemp("parts") / "budget.db"
    assert many(Ledger(path, epsilon=epsilon, delta=delta), epsilon / n, delta / n, day=1) == n


@given(st.data(), st.sampled_from([1.0, 1 / 3, 0.7]), st.integers(1, 12))
@settings(max_examples=20, deadline=None)
def test_what_overlaps_never_costs_more(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, total: float, n: int
) -> None:
    """Law: whatever parts are charged to overlapping days, in any order, what a day has paid
    exactly, with what touches all, is at most the total, but for the rounding of one float."""
    ledger = Ledger(tmp_path_factory.mktemp("p") / "budget.db", epsilon=total, delta=0.5)
    costs = [total / n, total / 3, total / 7, total / 2 * (1 + 2**-40)]
    paid: list[tuple[int | None, float]] = []
    for _ in range(25):
        cost = data.draw(st.sampled_from(costs))
        day = data.draw(st.one_of(st.none(), st.integers(0, 4)))
        try:
            ledger.charge(asked(cost, 1e-9, day))
        except dp.OverBudgetError:
            continue
        paid.append((day, cost))
    for moment in range(6):
        exact = sum(Fraction(c) for d, c in paid if d is None or d <= moment < d + 2)
        assert exact <= Fraction(total) * LARGEST**2
    ledger.verify()


@pytest.mark.parametrize("period", [None, WEEK])
@pytest.mark.parametrize(("total", "n"), [((1.0, 1e-5), 3), ((1 / 3, 1e-5), 1), ((2.0, 1e-5), 12)])
def test_releases_of_parts_are_made_and_verified(
    tmp_path: Path, total: tuple[float, float], n: int, period: object
) -> None:
    """Law: real releases, with a period and without, are n, and the verifier proves them."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=total[0], delta=total[1])
    budget: dict[str, Any] = {"epsilon": total[0] / n, "delta": total[1] / n}
    for _ in range(n):
        dp.hhh(FRAME, ["a"], **budget, period=period, ledger=ledger)
    with pytest.raises(dp.OverBudgetError, match="remaining 0"):
        dp.hhh(FRAME, ["a"], **budget, period=period, ledger=ledger)
    verdict = dp.verify(ledger)
    assert verdict, verdict


def test_parts_fit_through_sql_and_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: the third part fits three times, one of them from each door."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-5)
    dp.hhh(FRAME, ["a"], epsilon=1 / 3, delta=1e-5 / 3, ledger=ledger)
    with duckdb.connect() as con:
        con.sql("CREATE TABLE t AS SELECT 'x' AS a FROM range(1000)")
        dp.register(con, ledger=ledger)
        con.execute("FROM dp_hhh('t', 'columns:a', 1e0 / 3, 1e-5 / 3)").fetchall()
    monkeypatch.chdir(tmp_path)
    FRAME.to_parquet("t.parquet")
    call = ["hhh", "t.parquet", "columns:a", "--epsilon", str(1 / 3), "--delta", str(1e-5 / 3)]
    assert main([*call, "--ledger", "budget.db"]) == 0
    assert (ledger.left.epsilon, ledger.left.delta) == (0, 0)
    capsys.readouterr()
    assert main([*call, "--ledger", "budget.db"]) == 2
    assert "over by 0.333333" in capsys.readouterr().err


def test_three_reports_of_a_series_share_each_week(tmp_path: Path) -> None:
    """Law: a series whose reports have a third of the total each draws all of them every week."""
    FRAME.to_parquet(tmp_path / "t.parquet")
    report = """
[[report]]
name = "%s"
question = "hhh"
hierarchy = ["a"]
epsilon = 0.3333333333333333
delta = 3.3333333333333333e-6
"""
    declared = """
source = "t.parquet"
publish = "results.duckdb"
ledger = { path = "budget.db", epsilon = 1.0, delta = 1e-5 }
period = { column = "when", unit = "week", first = "2026-W02" }
"""
    file = tmp_path / "series.toml"
    file.write_text(declared + "".join(report % name for name in ("one", "two", "three")))
    dp.Series.read(file).run(until="2026-W04")
    ledger = Ledger(tmp_path / "budget.db")
    names = [name for name in ledger.names() if "W03" in name]
    assert len(names) == 3
    assert (ledger.left.epsilon, ledger.left.delta) == (0, 0)
    verdict = dp.verify(ledger)
    assert verdict, verdict


def test_reservations_and_filters_are_parts_too(tmp_path: Path) -> None:
    """Law: what is paid for beforehand counts as it was asked for, and the verifier reads it so."""
    weekly = dp.explain(["a"], epsilon=1 / 3, delta=1e-5 / 3)
    ledger = Ledger(tmp_path / "one.db", epsilon=1.0, delta=1e-5, accountant="pld")
    ledger.reserve(weekly, releases=3, delta=1e-5)
    assert (ledger.left.epsilon, ledger.left.delta) == (0, 0)
    for _ in range(3):
        dp.hhh(FRAME, ["a"], epsilon=1 / 3, delta=1e-5 / 3, ledger=ledger)
    assert [r.epsilon for r in ledger.release_history().reservations] == [3 * Fraction(1 / 3)]
    ledger.verify()
    noise: dict[str, Any] = {"epsilon": 0.05, "delta": 1e-9, "mechanism": "offline-gaussian"}
    filters = Ledger(tmp_path / "two.db", epsilon=2.0, delta=1e-5, accountant="pld")
    for _ in range(3):
        filters.open_filter(dp.explain(["a"], **noise), epsilon=2 / 3, delta=1e-5 / 3)
    assert (filters.left.epsilon, filters.left.delta) == (0, 0)


def test_the_verifier_allows_the_rounding_of_floats_alone() -> None:
    """Law: n n-th parts are within the total; an exact sum a little larger fails."""

    def outcome(*epsilons: float, total: float) -> str:
        proved = Verdict(outcome="proved", reason="", bound=Fraction(0))
        parts = [
            LedgerRelease(name=str(i), receipt={"epsilon": e, "delta": 0.0}, verdict=proved)
            for i, e in enumerate(epsilons)
        ]
        return verify_releases(parts, epsilon=total, delta=1e-5).outcome

    assert outcome(*[3 / 52] * 52, total=3.0) == "proved"
    assert outcome(*[0.1] * 10, total=1.0) == "proved"
    assert outcome(0.5, 0.5 + 2**-51, total=1.0) == "failed"
    assert outcome(1 / 3 + 1e-15, total=1 / 3) == "failed"


def test_totals_as_asked_cannot_be_changed(tmp_path: Path) -> None:
    """Law: the file refuses it, and a file that got past that is damaged."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=1 / 3, delta=1e-5)
    with closing(sqlite3.connect(ledger.path)) as db, db:
        with pytest.raises(sqlite3.IntegrityError, match="fixed"):
            db.execute("UPDATE budget SET asked = '[0.4, 1e-5]'")
        db.execute("DROP TRIGGER totals_do_not_change")
        db.execute("UPDATE budget SET asked = '[0.4, 1e-5]'")
    with pytest.raises(dp.LedgerError, match="totals have changed"):
        Ledger(ledger.path)
