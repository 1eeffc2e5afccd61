"""Reservations: what they cost, which releases they pay for, what a ledger shows of them."""

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

FRAME = pd.DataFrame({"a": ["x"] * 900, "b": ["y"] * 900, "who": range(900)})
BUDGET: dict[str, Any] = {"epsilon": 0.2, "delta": 1e-8, "mechanism": "gaussian"}
PLAN = dp.explain(["a"], **BUDGET)
GAUSSIAN = dp.explain(["a"], epsilon=0.2, delta=1e-8, mechanism="offline-gaussian")


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
    assert len(ledger.releases()) == 5


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 0.21},
        {"delta": 2e-8},
        {"user": "who", "contribution": "records", "max_contributions": 1},
        {"remainder": False},
    ],
)
def test_another_law_or_unit_is_charged_on_top_and_says_so(
    ledger: Ledger, other: dict[str, Any]
) -> None:
    """Law: a release with another law, or another unit, leaves a reservation as it is."""
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
    """Law: names and types do not depend on whether anything was reserved."""
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
    """Law: what was paid in advance is under the seals, also for a ledger that is open."""
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
