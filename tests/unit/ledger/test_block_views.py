"""Blocks as arguments, and what a ledger shows of them at every door."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpframe as dp
from dpframe.ledger import Blocks, Charge, Ledger
from dpframe.ledger.blocks import FARTHEST, NULL_FIRST, NULL_LAST, block_text
from tests.doors import in_this_process
from tests.privacy.ledger_worker import charge

DAY = 86_400
AXIS = "when as written"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three of epsilon 1: two days that overlap by one, and one without a time."""
    made = Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5)
    made.charge(charge(1.0, 1e-6, day=20_000))
    made.charge(charge(1.0, 1e-6, day=20_001))
    made.charge(with_blocks(Blocks.of_null(AXIS)))
    return made


def with_blocks(blocks: Blocks, epsilon: float = 1.0) -> Charge:
    return replace(charge(epsilon, 1e-6), blocks=blocks)


SECONDS, FAR = "must be a whole number of seconds", r".* less than 2\*\*47 s from 1970"
NO_BLOCKS = [
    ((5, 0, 1), dp.ParameterTypeError, "axis must be a text; got int"),
    (("", 0, 1), dp.ParameterError, r"axis \(''\) must name a column"),
    (("a\0", 0, 1), dp.ParameterError, "must name a column"),
    ((AXIS, 0.0, 1), dp.ParameterTypeError, f"first {SECONDS}"),
    ((AXIS, 0, True), dp.ParameterTypeError, f"last {SECONDS}"),
    ((AXIS, 1, 1), dp.ParameterError, r"first \(1\) must be before last \(1\)"),
    *(((AXIS, *ends), dp.ParameterError, FAR) for ends in ((0, FARTHEST), (-FARTHEST, 0))),
    ((AXIS, NULL_FIRST, 0), dp.ParameterError, "less than"),
]


@pytest.mark.parametrize(("given", "error", "words"), NO_BLOCKS)
def test_blocks_that_are_none_are_refused(given: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        Blocks(axis=given[0], first=given[1], last=given[2])


def test_blocks_overlap_where_a_record_may_be_in_both() -> None:
    """Law: neighbours that meet do not overlap, NULL meets no time, other axes always may."""
    first, second = (Blocks(axis=AXIS, first=DAY * i, last=DAY * (i + 1)) for i in (0, 1))
    assert not first.overlaps(second)
    assert first.overlaps(Blocks(axis=AXIS, first=DAY - 1, last=DAY + 1))
    whole = Blocks(axis=AXIS, first=NULL_LAST, last=FARTHEST - 1)
    null = Blocks.of_null(AXIS)
    assert null.is_null
    assert not whole.overlaps(null)
    assert null.overlaps(Blocks.of_null(AXIS))
    assert first.overlaps(Blocks(axis="when as instants", first=DAY, last=2 * DAY))
    assert block_text(0, DAY + 60) == "1970-01-01 to before 1970-01-02 00:01:00"
    assert block_text(NULL_FIRST, NULL_LAST) == "NULL"
    assert block_text(-(2**40), 2**40).count("s since 1970") == 2


def test_the_views_say_what_is_left_where(ledger: Ledger) -> None:
    """Law: one row a block, NULL first, oldest next; releases say what they read."""
    blocks = ledger.blocks()
    assert blocks["first"].isna().tolist() == [True, False, False, False]
    assert blocks["first"].tolist()[1:] == ["2024-10-04", "2024-10-05", "2024-10-06"]
    assert blocks["last"].tolist()[1:] == ["2024-10-05", "2024-10-06", "2024-10-07"]
    assert blocks["releases"].tolist() == [1, 1, 2, 1]
    assert blocks["spent_epsilon"].tolist() == [1.0, 1.0, 2.0, 1.0]
    assert blocks["left_epsilon"].tolist() == [2.0, 2.0, 1.0, 2.0]
    summary = ledger.summary().iloc[0]
    assert (summary["left_epsilon"], summary["unread_epsilon"]) == (1.0, 3.0)
    assert (summary["plain_epsilon"], summary["saved_epsilon"]) == (3.0, 1.0)
    assert summary["protects"] == "adding or removing one record"
    assert ledger.releases()["period"].tolist() == [
        f"{AXIS}: 2024-10-04 to before 2024-10-06",
        f"{AXIS}: 2024-10-05 to before 2024-10-07",
        f"{AXIS}: NULL",
    ]
    assert ledger.within(days=0) == ledger.spent
    ledger.charge(charge(0.5, 1e-6))
    assert ledger.summary()["unread_epsilon"][0] == 2.5
    assert ledger.within(days=0.5).epsilon == 2.5


DAYS = [
    *(
        ("7", dp.ParameterTypeError, "days must be a number"),
        (float("nan"), dp.ParameterError, "days"),
    ),
    *(
        (True, dp.ParameterTypeError, "days must be a number"),
        (float("inf"), dp.ParameterError, "days"),
    ),
    (-1, dp.ParameterError, r"days \(-1\) must be 0 or more"),
]


@pytest.mark.parametrize(("days", "error", "words"), DAYS)
def test_windows_that_are_none_are_refused(
    ledger: Ledger, days: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ledger.within(days=days)


def test_weekly_releases_cost_four_weeks_five_times(tmp_path: Path) -> None:
    """Law: 28 days that begin within a week touch five of them; the total is that of one."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5)
    for week in range(10):
        ledger.charge(
            with_blocks(Blocks(axis=AXIS, first=7 * DAY * week, last=7 * DAY * (week + 1)))
        )
    assert ledger.spent == dp.Spending(epsilon=1.0, delta=1e-6)
    assert [ledger.within(days=d).epsilon for d in (0, 1, 7, 8, 28, 70, 1000)] == [
        *(1.0, 2.0, 2.0, 3.0, 5.0, 10.0, 10.0)
    ]


def test_a_refusal_says_where_it_is_full_and_what_is_left_elsewhere(ledger: Ledger) -> None:
    """Law: the fullest stretch of what was asked for, what is left there, and in a new period."""
    with pytest.raises(dp.OverBudgetError) as error:
        ledger.charge(charge(1.5, 1e-6, day=20_000))
    assert (
        "epsilon requested 1.5, remaining 1 in the fullest block (when as written: 2024-10-05 to "
        "before 2024-10-06), over by 0.5 (a period that nothing was charged to has 3 left)."
    ) in str(error.value)
    with pytest.raises(dp.OverBudgetError, match=r"remaining 1 in the fullest block .*2024-10-05"):
        ledger.charge(charge(1.5, 1e-6))
    with pytest.raises(dp.OverBudgetError, match=r"remaining 2 in the fullest block .*: NULL\)"):
        ledger.charge(with_blocks(Blocks.of_null(AXIS), 2.5))


def test_sql_and_the_command_line_show_the_same(ledger: Ledger) -> None:
    """Law: dp_budget() and dp_releases() have the columns of the frames."""
    con = duckdb.connect()
    dp.register(con, ledger=ledger)
    row = con.execute("SELECT * FROM dp_budget()").fetchdf()
    assert list(row.columns) == list(ledger.summary().columns)
    assert (row["unread_epsilon"][0], row["protects"][0]) == (3.0, "adding or removing one record")
    shown = con.execute("SELECT * FROM dp_releases()").fetchdf()
    assert list(shown.columns) == list(ledger.releases().columns)
    assert shown["period"].tolist() == ledger.releases()["period"].tolist()
    done = in_this_process("ledger", str(ledger.path), cwd=ledger.path.parent)
    assert done.returncode == 0, done.stderr
    for words in ("unread_epsilon", "adding or removing one record", "2024-10-04 to before"):
        assert words in done.stdout
