"""``ledger.forecast``: as many as it says fit, and not one more."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import LedgerError, OverBudgetError, ParameterError, ParameterTypeError

ROWS = pd.DataFrame({"a": ["x"] * 90})


def ledger_at(folder: Path, accountant: str, total: tuple[float, float]) -> dp.Ledger:
    given: Any = {"epsilon": total[0], "delta": total[1], "accountant": accountant}
    return dp.Ledger(folder / "b.db", **given)


@pytest.mark.parametrize(
    ("epsilon", "delta", "total"), [(0.3, 1e-7, (1.0, 1e-5)), (0.1, 1e-6, (9.0, 4e-6))]
)
def test_so_many_fit_one_by_one_and_no_more(
    tmp_path: Path, epsilon: float, delta: float, total: tuple[float, float]
) -> None:
    """Law: after each one is told less. By epsilon or by delta, whichever runs out first."""
    ledger = ledger_at(tmp_path, "sum", total)
    plan = dp.explain(["a"], epsilon=epsilon, delta=delta)
    told = ledger.forecast(plan)
    assert told.added_up in (3, 4)
    assert (told.reserved, told.reserving, told.out) == (0, None, None)
    for left in range(told.added_up, 0, -1):
        assert ledger.forecast(plan).added_up == left
        ROWS.dp.hhh(["a"], epsilon=epsilon, delta=delta, ledger=ledger)
    with pytest.raises(OverBudgetError):
        ROWS.dp.hhh(["a"], epsilon=epsilon, delta=delta, ledger=ledger)
    assert ledger.forecast(plan).added_up == 0


def test_so_many_can_be_reserved_and_no_more(tmp_path: Path) -> None:
    """Law: then they are told as paid for, and those of another law are not."""
    ledger = ledger_at(tmp_path, "pld", (1.0, 1e-6))
    plan = dp.explain(["a"], epsilon=0.1, delta=2e-9, user="u", mechanism="offline-gaussian")
    ROWS.assign(u=range(len(ROWS))).dp.hhh(["a"], epsilon=0.2, delta=1e-8, user="u", ledger=ledger)
    told = ledger.forecast(plan)
    assert told.reserving is not None
    assert told.reserving > told.added_up == 8
    left = ledger.left
    with pytest.raises(OverBudgetError):
        ledger.reserve(plan, releases=told.reserving + 1, delta=left.delta)
    ledger.reserve(plan, releases=told.reserving, delta=left.delta)
    after = ledger.forecast(plan)
    assert (after.reserved, after.added_up) == (told.reserving, 0)
    other = dp.explain(["a"], epsilon=0.11, delta=2e-9, user="u", mechanism="offline-gaussian")
    assert ledger.forecast(other).reserved == 0


@pytest.mark.parametrize(("every", "days"), [("week", 7), ("day", 1), (timedelta(days=3), 3)])
def test_the_day_it_runs_out_is_that_of_the_first_release_that_does_not_fit(
    tmp_path: Path, every: Any, days: int
) -> None:
    ledger = ledger_at(tmp_path, "sum", (1.0, 1e-5))
    told = ledger.forecast(dp.explain(["a"], epsilon=0.25, delta=1e-7), every=every)
    assert told.added_up == 4
    assert told.out in {date.today() + timedelta(days=4 * days + late) for late in (-1, 0)}
    assert repr(told) == f"4 of (0.25, 1e-07) more fit one by one (out on {told.out})."


def test_a_budget_that_outlives_everybody_has_no_day(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, "sum", (9999.0, 0.9))
    told = ledger.forecast(dp.explain(["a"], epsilon=0.01, delta=1e-9), every="year")
    assert (told.added_up, told.out) == (100_000, None)
    assert "100000 or more" in repr(told)


def test_periods_that_nothing_touched_are_told_apart(tmp_path: Path) -> None:
    """Law: with a week that is full, as many fit in every other week as ``elsewhere`` says."""
    ledger = ledger_at(tmp_path, "sum", (1.0, 1e-5))
    rows = ROWS.assign(when=pd.Timestamp("2026-01-07"))
    asked: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-7, "ledger": ledger}
    plan = dp.explain(["a"], epsilon=0.5, delta=1e-7)
    assert ledger.forecast(plan).elsewhere is None
    for _ in range(2):
        rows.dp.hhh(["a"], period=("when", "2026-W01"), **asked)
    told = ledger.forecast(plan)
    assert (told.added_up, told.elsewhere) == (0, 2)
    assert repr(told) == (
        "0 of (0.5, 1e-07) more fit one by one whatever period they read; "
        "2 fit in each new period, one that overlaps no other."
    )
    for week in ("2026-W02", "2026-W03"):
        for _ in range(2):
            rows.dp.hhh(["a"], period=("when", week), **asked)
        with pytest.raises(OverBudgetError):
            rows.dp.hhh(["a"], period=("when", week), **asked)


def test_what_was_reserved_for_users_pays_for_releases_of_periods(tmp_path: Path) -> None:
    """Law: by the plan of any week; a week uses one; that of other users has no price."""
    ledger = ledger_at(tmp_path, "pld", (3.0, 1e-6))
    year = dp.plan_series(4, "hhh", ["a"], user="u", total=(2.0, 9e-7), period=("when", "2026-W01"))
    year.reserve(ledger)
    spent = ledger.spent
    rows = ROWS.assign(when=pd.Timestamp("2026-01-07"), u=range(90), v=range(90))
    for left, week in ((3, "2026-W01"), (2, "2026-W02"), (1, "2026-W02")):
        rows.dp.hhh(ledger=ledger, **{**year.arguments, "period": ("when", week)})
        assert (ledger.forecast(year).reserved, ledger.spent) == (left, spent)
    with pytest.raises(LedgerError, match="the ledger protects"):
        rows.dp.hhh(ledger=ledger, **{**year.arguments, "user": "v"})


@pytest.mark.parametrize(
    ("every", "error"),
    [("fortnight", ParameterError), (7, ParameterTypeError), (timedelta(0), ParameterError)],
)
def test_lengths_and_plans_that_are_none_are_refused(
    tmp_path: Path, every: Any, error: Any
) -> None:
    ledger = ledger_at(tmp_path, "sum", (1.0, 1e-5))
    with pytest.raises(error, match="every"):
        ledger.forecast(dp.explain(["a"], epsilon=0.25, delta=1e-7), every=every)
    with pytest.raises(ParameterTypeError, match="explain"):
        ledger.forecast(0.3)
