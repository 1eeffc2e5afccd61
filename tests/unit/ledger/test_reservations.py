"""Reservations and filters: what they cost, what they pay for, what a ledger shows of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main
from dpframe.ledger import Ledger
from dpframe.ledger.unfinished_draws import ResumingLedger

FRAME = pd.DataFrame({"a": ["x"] * 900, "b": ["y"] * 900, "who": range(900)})
FRAME["when"] = pd.date_range("2026-01-01", periods=900, freq="min")
BUDGET: dict[str, Any] = {"epsilon": 0.2, "delta": 1e-8, "mechanism": "gaussian"}
PLAN = dp.explain(["a"], **BUDGET)
LAW: dict[str, Any] = {"delta": 1e-8, "mechanism": "offline-gaussian"}
GAUSSIAN = dp.explain(["a"], epsilon=0.2, **LAW)
USERS = dp.explain(["a"], epsilon=0.2, user="who", **LAW)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5, accountant="pld")


def hhh(ledger: Ledger, column: str = "a", **options: Any) -> pd.DataFrame:
    return dp.hhh(FRAME, [column], **{**BUDGET, **options}, ledger=ledger)


def test_reserved_releases_cost_less_than_their_sum_and_nothing_more(ledger: Ledger) -> None:
    """Law: at every door, in every process; after the last one a release costs what it costs."""
    asked = ledger.cost_of(PLAN, releases=4, delta=4e-6)
    assert ledger.spent.epsilon == 0.0
    made = ledger.reserve(PLAN, releases=4, delta=4e-6)
    assert (made.epsilon, made.delta) == (asked.epsilon, asked.delta) == (made.epsilon, 4e-6)
    assert made.epsilon < 0.6 < 4 * 0.2
    assert ledger.spent == asked
    first, second = hhh(ledger), hhh(ledger, "b", release="weekly")
    hhh(Ledger(ledger.path), "b", release="weekly")  # replayed: uses none
    with closing(duckdb.connect()) as con:
        dp.register(con, ledger=Ledger(ledger.path))
        con.execute("CREATE TABLE t AS SELECT 'x' AS a FROM range(900)")
        con.execute("FROM dp_hhh('t', 'columns:a', 0.2, 1e-8, mechanism := 'gaussian')").fetchall()
    assert (ledger.spent, ledger.reservations()["left"].tolist()) == (asked, [1])
    assert first.dp.receipt["ledger"]["reservation"]["left"] == 3
    assert (
        "paid for by a reservation of 4 releases, of which 2 are left"
        in (second.dp.receipt["budget"])
    )
    hhh(ledger)
    over = hhh(ledger)
    assert "reservation" not in over.dp.receipt["budget"]
    assert ledger.spent.epsilon == pytest.approx(asked.epsilon + 0.2)
    summary = ledger.summary().iloc[0]
    assert (summary["plain_epsilon"], summary["releases"], summary["reserved"]) == (1.0, 5, 0)
    assert summary["saved_epsilon"] == pytest.approx(1.0 - summary["spent_epsilon"])
    assert summary["spent_epsilon"] + summary["left_epsilon"] == pytest.approx(3.0)
    assert len(ledger.releases()) == 5


OF_RECORDS = {"user": "who", "contribution": "records", "max_contributions": 1}


@pytest.mark.parametrize(
    "other", [{"epsilon": 0.21}, {"delta": 2e-8}, OF_RECORDS, {"remainder": False}], ids=str
)
def test_another_law_or_unit_is_charged_on_top_and_says_so(ledger: Ledger, other: Any) -> None:
    made = ledger.reserve(PLAN, releases=2, delta=1e-6)
    text = hhh(ledger, **other).dp.receipt["budget"]
    assert "charged on top of what is reserved" in text
    steps = 2 if "user" in other else 1  # a ledger of records; one record of a user is counted
    assert ledger.spent.epsilon == pytest.approx(made.epsilon + steps * other.get("epsilon", 0.2))
    assert ledger.reservations()["left"].tolist() == [2]


def test_the_oldest_reservation_is_used_first(ledger: Ledger) -> None:
    """Law: reservations of the same law do not compose with each other; the older is used up."""
    one = ledger.reserve(PLAN, releases=1, delta=1e-6)
    two = ledger.reserve(PLAN, releases=2, delta=1e-6)
    assert ledger.spent.epsilon == pytest.approx(one.epsilon + two.epsilon)
    for left in ([0, 2], [0, 1], [0, 0]):
        hhh(ledger)
        shown = ledger.reservations()
        assert shown["left"].tolist() == left
    assert shown["reservation_id"].tolist() == [one.reservation_id, two.reservation_id]
    assert shown["neighbours"].tolist() == ["adding or removing one record"] * 2


def test_frames_of_reservations_and_filters_have_fixed_columns(ledger: Ledger) -> None:
    empty, no_filters = ledger.reservations(), ledger.filters()
    ledger.reserve(PLAN, releases=2, delta=1e-6)
    ledger.open_filter(GAUSSIAN, epsilon=1.0, delta=1e-6)
    full = ledger.reservations()
    assert empty.dtypes.equals(full.dtypes)
    assert no_filters.dtypes.equals(ledger.filters().dtypes)
    assert (len(empty), len(full)) == (0, 1)
    assert full.iloc[0][["releases", "left", "release_epsilon", "release_delta"]].tolist() == [
        *(2, 2, 0.2, 1e-8)
    ]


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"releases": 0}, dp.ParameterError, r"releases \(0\) must be from 1"),
        ({"releases": True}, dp.ParameterTypeError, "releases must be a whole number"),
        ({"releases": 2.0}, dp.ParameterTypeError, "releases must be a whole number"),
        ({"releases": 10**6}, dp.ParameterError, "from 1 to 100000"),
        ({"delta": 1.9e-8}, dp.BudgetError, r"delta \(1.9e-08\).* at least 2 x 1e-08"),
        ({"delta": float("nan")}, dp.BudgetError, "below 1 and at least"),
        ({"delta": "much"}, dp.ParameterTypeError, "delta must be a number"),
        ({"delta": 1e-4}, dp.OverBudgetError, "delta requested 0.0001, remaining 1e-05"),
        ({"plan": ["a"]}, dp.ParameterTypeError, r"plan must come from dp.explain.*got list"),
    ],
)
def test_what_cannot_be_reserved_is_refused(
    ledger: Ledger, asked: dict[str, Any], error: Any, words: str
) -> None:
    call = {"plan": PLAN, "releases": 2, "delta": 1e-6, **asked}
    with pytest.raises(error, match=words):
        ledger.reserve(**call)
    assert (ledger.spent.epsilon, len(ledger.reservations())) == (0.0, 0)


def test_a_ledger_of_sums_reserves_nothing(tmp_path: Path) -> None:
    """Law: where releases add up a reservation would save nothing; so would a filter."""
    plain = Ledger(tmp_path / "sum.db", epsilon=3.0, delta=1e-5)
    for ask in (plain.reserve, plain.cost_of):
        with pytest.raises(dp.ParameterError, match="accountant='pld'"):
            ask(PLAN, releases=2, delta=1e-6)
    with pytest.raises(dp.ParameterError, match="accountant='pld'"):
        plain.open_filter(GAUSSIAN, epsilon=1.0, delta=1e-6)


def test_single_points_compose_too_and_never_cost_more_than_the_sum(ledger: Ledger) -> None:
    """Law: pure releases (delta 0) can be reserved; where composing saves nothing it is the sum."""
    synthetic = dp.explain_synthesize({"a": (0, 8)}, epsilon=0.02, depth=3)
    cost = ledger.cost_of(synthetic, releases=100, delta=1e-6)
    assert cost.epsilon < 1.5 < 100 * 0.02
    assert ledger.cost_of(synthetic, releases=2, delta=1e-17).epsilon == 0.04


EDITS = [
    "UPDATE charges SET releases = releases + 1 WHERE releases > 0",
    "UPDATE charges SET receipt = replace(receipt, 'record', 'recorD') WHERE releases > 0",
    "UPDATE charges SET profile = replace(profile, '0.1', '0.2') WHERE releases > 0",
    "UPDATE charges SET open = replace(open, ': 1', ': 2') WHERE under IS NOT NULL",
    "UPDATE charges SET under = NULL WHERE under IS NOT NULL",
    "UPDATE charges SET open = NULL",
]
EDITS_OF_FILTERS = [
    "UPDATE charges SET profile = replace(profile, '[', '[9') WHERE releases > 0",
    "UPDATE charges SET open = replace(open, '[', '[9') WHERE under IS NOT NULL",
    "UPDATE charges SET under = NULL WHERE under IS NOT NULL",
]


@pytest.mark.parametrize(
    ("paid", "statement"),
    [*(("reservation", edit) for edit in EDITS), *(("filter", edit) for edit in EDITS_OF_FILTERS)],
)
def test_what_was_edited_is_noticed_before_it_pays(
    ledger: Ledger, paid: str, statement: str
) -> None:
    mechanism = "gaussian" if paid == "reservation" else "offline-gaussian"
    if paid == "reservation":
        ledger.reserve(PLAN, releases=2, delta=1e-6)
    else:
        ledger.open_filter(GAUSSIAN, epsilon=1.0, delta=1e-6)
    hhh(ledger, mechanism=mechanism)
    with closing(sqlite3.connect(ledger.path)) as db, db:
        db.execute("DROP TRIGGER charges_do_not_change")
        assert db.execute(statement).rowcount > 0
    for use in (hhh, lambda book: Ledger(book.path)):
        with pytest.raises(dp.LedgerError, match="damaged"):
            use(ledger)


def test_the_command_line_shows_what_is_paid_for(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: and as many of the newest releases as asked for, with the number of those before."""
    ledger.reserve(PLAN, releases=5, delta=1e-6)
    ledger.open_filter(GAUSSIAN, epsilon=1.0, delta=1e-6)
    hhh(ledger, mechanism="offline-gaussian")
    for _ in range(2):
        hhh(ledger)
    assert main(["ledger", str(ledger.path), "--limit", "2", "--verify"]) == 0
    out = capsys.readouterr().out
    assert "release_epsilon" in out
    assert "ends_left" in out
    assert f"{ledger.filters()['left'].iloc[0]:.6f}".rstrip("0") in out
    assert "1 earlier" in out
    assert out.count("pandas DataFrame") == 2


# -- filters -----------------------------------------------------------------------------------


def drawn(ledger: Ledger, epsilon: float = 0.2, **options: Any) -> pd.DataFrame:
    return dp.hhh(FRAME, ["a"], epsilon=epsilon, **{**LAW, **options}, ledger=ledger)


def test_a_filter_pays_for_any_budgets_and_costs_nothing_more(ledger: Ledger) -> None:
    """Law: all is paid when it is opened; releases of any epsilon use it up, in every process."""
    made = ledger.open_filter(GAUSSIAN, epsilon=2.0, delta=2e-6)
    asked = ledger.spent
    assert (made.left, made.ends_left, made.releases) == (1.0, 1.0, 0)
    assert (asked.epsilon, asked.delta) == (2.0, 2e-6)
    first = drawn(ledger)
    drawn(Ledger(ledger.path), 0.7, delta=1e-9, release="weekly")
    drawn(ledger, 0.7, delta=1e-9, release="weekly")  # replayed: uses none
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
        drawn(ledger, **small)
    assert ledger.spent.epsilon == 2.0
    assert ledger.forecast(law).reserved == 0
    with pytest.raises(dp.OverBudgetError):
        drawn(ledger, **small)
    drawn(ledger, 0.1)  # a smaller one still fits
    assert ledger.spent.epsilon == 2.0


def test_other_noise_and_other_units_are_charged_on_top(ledger: Ledger) -> None:
    """Law: a filter pays for Gaussian noise and what it protects, and for nothing else."""
    ledger.open_filter(GAUSSIAN, epsilon=1.0, delta=1e-6)
    drawn(ledger, mechanism="offline")
    assert ledger.spent.epsilon == 1.2
    drawn(ledger, user="who")  # two steps of one record
    assert ledger.spent.epsilon == 1.6
    assert ledger.filters()["left"].tolist() == [1.0]


def test_a_filter_of_users_pays_for_their_periods(ledger: Ledger) -> None:
    """Law: releases of a period use up a filter for the same users, which touches every period."""
    ledger.open_filter(USERS, epsilon=1.0, delta=1e-6)
    drawn(ledger, user="who", period=("when", "2026-01-01"))
    assert ledger.spent.epsilon == 1.0
    assert ledger.filters()["releases"].tolist() == [1]


def test_a_law_that_was_reserved_is_used_before_a_filter(ledger: Ledger) -> None:
    ledger.open_filter(GAUSSIAN, epsilon=1.0, delta=1e-6)
    ledger.reserve(GAUSSIAN, releases=1, delta=1e-6)
    drawn(ledger)
    assert ledger.reservations()["left"].tolist() == [0]
    assert ledger.filters()["left"].tolist() == [1.0]


def test_a_draw_that_was_cut_off_uses_a_filter_once(ledger: Ledger) -> None:
    """Law: the charge of a killed draw pays for the next one under its name."""
    ledger.open_filter(GAUSSIAN, epsilon=1.0, delta=1e-6)
    book = ResumingLedger(ledger.path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    book.keep = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        drawn(book, release="w")
    left = ledger.filters()["left"].tolist()
    (charged,) = ledger.releases()["release_id"]
    ledger.path.with_name(f"{ledger.path.name}-unfinished-{charged}").touch()  # as the dead leave
    result = drawn(ResumingLedger(ledger.path), release="w")
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
        (GAUSSIAN, {"epsilon": 0.001}, dp.BudgetError, "must be from 0.01 to 100"),
        (GAUSSIAN, {"epsilon": 101.0}, dp.BudgetError, "must be from 0.01 to 100"),
        (GAUSSIAN, {"epsilon": float("nan")}, dp.BudgetError, "above 0"),
        (GAUSSIAN, {"delta": 1e-16}, dp.BudgetError, "too small"),
        (GAUSSIAN, {"delta": 1e-9}, dp.BudgetError, "would not hold a single release"),
        (GAUSSIAN, {"epsilon": 9.0}, dp.OverBudgetError, "over by"),
        (GAUSSIAN, {"epsilon": "1"}, dp.ParameterTypeError, "must be a number"),
        ("plan", {}, dp.ParameterTypeError, "plan must come from dp.explain"),
    ],
)
def test_what_cannot_be_opened_is_refused(
    ledger: Ledger, plan: Any, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ledger.open_filter(plan, **{"epsilon": 1.0, "delta": 1e-6, **arguments})
    assert ledger.spent.epsilon == 0.0
