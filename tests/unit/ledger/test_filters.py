"""Filters: what they cost, which releases use them up, what a ledger shows of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.ledger import Ledger
from dpframe.ledger.unfinished_draws import ResumingLedger

FRAME = pd.DataFrame(
    {
        "a": ["x"] * 900,
        "who": range(900),
        "when": pd.date_range("2026-01-01", periods=900, freq="min"),
    }
)
LAW: dict[str, Any] = {"delta": 1e-8, "mechanism": "offline-gaussian"}
PLAN = dp.explain(["a"], epsilon=0.2, **LAW)
USERS = dp.explain(["a"], epsilon=0.2, user="who", **LAW)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5, accountant="pld")


def hhh(ledger: Ledger, epsilon: float = 0.2, **options: Any) -> pd.DataFrame:
    return dp.hhh(FRAME, ["a"], epsilon=epsilon, **{**LAW, **options}, ledger=ledger)


def test_a_filter_pays_for_any_budgets_and_costs_nothing_more(ledger: Ledger) -> None:
    """Law: all is paid when it is opened; releases of any epsilon use it up, in every process."""
    made = ledger.open_filter(PLAN, epsilon=2.0, delta=2e-6)
    asked = ledger.spent
    assert (made.left, made.ends_left, made.releases) == (1.0, 1.0, 0)
    assert (asked.epsilon, asked.delta) == (2.0, 2e-6)
    first = hhh(ledger)
    hhh(Ledger(ledger.path), 0.7, delta=1e-9, release="weekly")
    hhh(ledger, 0.7, delta=1e-9, release="weekly")  # replayed: uses none
    row = ledger.filters().iloc[0]
    assert ledger.spent == asked
    assert row["releases"] == 2
    assert 0.85 < row["left"] < 0.95
    assert 0.98 < row["ends_left"] < 1.0
    said = first.dp.receipt
    assert "paid for by a filter" in said["budget"]
    assert said["ledger"]["reservation"]["left"] > 0.99
    summary = ledger.summary().iloc[0]
    assert (summary["plain_epsilon"], summary["releases"], summary["reserved"]) == (2.0, 2, 0)
    assert ledger.reservations().empty
    ledger.verify()


def test_many_more_fit_than_are_added_up_and_a_forecast_says_how_many(ledger: Ledger) -> None:
    """Law: exactly as many releases as were forecast cost nothing; the next one is charged."""
    small = {"delta": 1e-7, "epsilon": 1.2}
    law = dp.explain(["a"], **{**LAW, **small})
    ledger.open_filter(law, epsilon=2.0, delta=2e-6)
    fit = ledger.forecast(law).reserved
    assert 2 <= fit <= 9
    for _ in range(fit):
        hhh(ledger, **small)
    assert ledger.spent.epsilon == 2.0
    assert ledger.forecast(law).reserved == 0
    with pytest.raises(dp.OverBudgetError):
        hhh(ledger, **small)
    hhh(ledger, 0.1)  # a smaller one still fits
    assert ledger.spent.epsilon == 2.0


def test_other_noise_and_other_units_are_charged_on_top(ledger: Ledger) -> None:
    """Law: a filter pays for Gaussian noise and what it protects, and for nothing else."""
    ledger.open_filter(PLAN, epsilon=1.0, delta=1e-6)
    hhh(ledger, mechanism="offline")
    assert ledger.spent.epsilon == 1.2
    hhh(ledger, user="who")  # two steps of one record
    assert ledger.spent.epsilon == 1.6
    assert ledger.filters()["left"].tolist() == [1.0]


def test_a_filter_of_users_pays_for_their_periods(ledger: Ledger) -> None:
    """Law: releases of a period use up a filter for the same users, which touches every period."""
    ledger.open_filter(USERS, epsilon=1.0, delta=1e-6)
    hhh(ledger, user="who", period=("when", "2026-01-01"))
    assert ledger.spent.epsilon == 1.0
    assert ledger.filters()["releases"].tolist() == [1]


def test_a_law_that_was_reserved_is_used_before_a_filter(ledger: Ledger) -> None:
    """Law: what is for one law alone goes first, whatever was paid for first."""
    ledger.open_filter(PLAN, epsilon=1.0, delta=1e-6)
    ledger.reserve(PLAN, releases=1, delta=1e-6)
    hhh(ledger)
    assert ledger.reservations()["left"].tolist() == [0]
    assert ledger.filters()["left"].tolist() == [1.0]


def test_a_draw_that_was_cut_off_uses_a_filter_once(ledger: Ledger) -> None:
    """Law: the charge of a killed draw pays for the next one under its name."""
    ledger.open_filter(PLAN, epsilon=1.0, delta=1e-6)
    book = ResumingLedger(ledger.path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    book.keep = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        hhh(book, release="w")
    left = ledger.filters()["left"].tolist()
    (charged,) = ledger.releases()["release_id"]
    ledger.path.with_name(f"{ledger.path.name}-unfinished-{charged}").touch()  # as the dead leave
    result = hhh(ResumingLedger(ledger.path), release="w")
    assert result.dp.receipt["release_id"] == charged
    assert ledger.filters()["left"].tolist() == left


def test_a_filter_of_a_large_epsilon_that_holds_nothing_says_which_one_does(tmp_path: Path) -> None:
    """Law: less can hold more, by rounding; what is named holds as many as it says."""
    large = Ledger(tmp_path / "large.db", epsilon=100.0, delta=1e-3, accountant="pld")
    one = dp.explain(["a"], epsilon=0.5, delta=1e-8, mechanism="offline-gaussian", user="who").plan
    with pytest.raises(dp.BudgetError, match="would not hold a single") as caught:
        large.open_filter(one, epsilon=60.0, delta=1e-5)
    words = str(caught.value).partition("A filter of epsilon ")[2]
    best, _, rest = words.partition(" holds ")
    large.open_filter(one, epsilon=float(best), delta=1e-5)
    assert large.forecast(one).reserved == int(rest.partition(":")[0]) > 20


@pytest.mark.parametrize(
    ("plan", "arguments", "error", "words"),
    [
        (dp.explain(["a"], epsilon=0.2, delta=1e-8), {}, dp.ParameterError, "offline-gaussian"),
        (PLAN, {"epsilon": 0.001}, dp.BudgetError, "must be from 0.01 to 100"),
        (PLAN, {"epsilon": 101.0}, dp.BudgetError, "must be from 0.01 to 100"),
        (PLAN, {"epsilon": float("nan")}, dp.BudgetError, "above 0"),
        (PLAN, {"delta": 1e-16}, dp.BudgetError, "too small"),
        (PLAN, {"delta": 1e-9}, dp.BudgetError, "would not hold a single release"),
        (PLAN, {"epsilon": 9.0}, dp.OverBudgetError, "over by"),
        (PLAN, {"epsilon": "1"}, dp.ParameterTypeError, "must be a number"),
        ("plan", {}, dp.ParameterTypeError, "plan must come from dp.explain"),
    ],
)
def test_what_cannot_be_opened_is_refused(
    ledger: Ledger, plan: Any, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ledger.open_filter(plan, **{"epsilon": 1.0, "delta": 1e-6, **arguments})
    assert ledger.spent.epsilon == 0.0
