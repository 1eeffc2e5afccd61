"""Releases with ``period=`` and the ledger that pays for them, as a caller meets both."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpframe as dp
from dpframe.ledger import Ledger

WHEN = pd.date_range("2026-01-01", "2026-02-28 23:00", freq="h")
FRAME = pd.DataFrame({"when": WHEN, "a": "x", "who": range(len(WHEN))})
FULL = {"epsilon": 3.0, "delta": 1e-6}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-6)


def test_every_week_has_the_whole_total(ledger: Ledger) -> None:
    """Law: disjoint weeks cost what one costs, each may have all of it; a second release of one
    of them, of a day in it, or of everything does not fit, and a week that none read still does."""
    for week in range(2, 8):
        result = dp.hhh(FRAME, ["a"], **FULL, period=("when", f"2026-W0{week}"), ledger=ledger)
    assert ledger.spent == dp.Spending(**FULL)
    assert result.dp.receipt["budget"] == (
        "of (3, 1e-06) in the ledger, (0, 0) was left after this release"
    )
    for period in (("when", "2026-W04"), ("when", "2026-01-22"), ("when", "2026-01"), None):
        with pytest.raises(dp.OverBudgetError, match="in the fullest block"):
            dp.hhh(FRAME, ["a"], **FULL, period=period, ledger=ledger)
    dp.hhh(FRAME, ["a"], **FULL, period=("when", "2026-01-01..2026-01-04"), ledger=ledger)
    dp.hhh(FRAME, ["a"], **FULL, period=("when", None), ledger=ledger)
    assert ledger.spent == dp.Spending(**FULL)
    assert ledger.summary()["unread_epsilon"][0] == 3.0
    assert ledger.within(days=28).epsilon == 15.0
    assert ledger.releases()["period"].tolist()[:1] == ["when: 2026-W02"]
    ledger.verify()


def test_the_receipt_says_what_the_period_has_left(ledger: Ledger) -> None:
    """Law: where the period that was read has more than what any release finds, both are said."""
    dp.hhh(FRAME, ["a"], epsilon=2.0, delta=1e-7, period=("when", "2026-W02"), ledger=ledger)
    result = dp.hhh(
        FRAME, ["a"], epsilon=0.5, delta=1e-7, period=("when", "2026-W03"), ledger=ledger
    )
    assert result.dp.receipt["budget"] == (
        "of (3, 1e-06) in the ledger, (1, 9e-07) was left after this release, and (2.5, 9e-07) for "
        "the period that it read"
    )


def test_the_summary_says_that_users_are_protected_within_a_period(ledger: Ledger) -> None:
    """Law: with user= the totals hold for one user within one period, and the ledger says so
    wherever it says what is left."""
    for day in ("2026-01-01", "2026-01-02"):
        dp.hhh(
            FRAME, ["a"], epsilon=1.0, delta=1e-7, user="who", period=("when", day), ledger=ledger
        )
    (said,) = ledger.summary()["protects"]
    assert said == (
        "adding or removing one user ('who') with all their records, where all records of that "
        "user lie within one period"
    )
    assert ledger.within(days=2).epsilon == 2.0
