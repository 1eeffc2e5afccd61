"""Explanations with a ledger: what a release would find there, at every door; nothing is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main

FRAME = pd.DataFrame(
    {"a": ["x", "y"] * 3000, "when": pd.date_range("2026-01-05", periods=6000, freq="5min")}
)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    book = dp.Ledger(tmp_path / "b.db", epsilon=2.5, delta=1e-5)
    FRAME.dp.hhh(["a"], **BUDGET, period=("when", "2026-W02"), ledger=book)
    return book


def line(explained: Any) -> tuple[str, str]:
    rows = explained.to_frame().set_index("quantity").loc["in the ledger"]
    return rows["value"], rows["meaning"]


def test_the_blocks_of_a_period_are_told_and_those_of_any_release(ledger: dp.Ledger) -> None:
    """Law: of a period that was read, of one that was not, and without one, an explanation says
    what a charge then finds; it is spent nothing."""
    read = FRAME.dp.explain(["a"], **BUDGET, period=("when", "2026-W02"), ledger=ledger)
    assert line(read) == (
        "fits: (1.5, 9e-06) left",
        "for when 2026-W02, which has spent (1, 1e-06); (0.5, 8e-06) would be left there",
    )
    new = FRAME.dp.explain(["a"], **BUDGET, period=("when", "2026-W03"), ledger=ledger)
    assert line(new)[0] == "fits: (2.5, 1e-05) left"
    assert "which has spent (0, 0)" in line(new)[1]
    anything = dp.explain(["a"], **BUDGET, ledger=ledger)
    assert line(anything)[0] == "fits: (1.5, 9e-06) left"
    unknown = dp.explain(["a"], **BUDGET, period=("when", "2026-W03"), ledger=ledger)
    assert "or more, which its source tells" in line(unknown)[1]
    assert len(ledger.releases()) == 1


def test_what_does_not_fit_is_said_before_and_then_refused(ledger: dp.Ledger) -> None:
    """Law: "does not fit" is what the call itself is refused for."""
    large: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "ledger": ledger}
    assert line(FRAME.dp.explain(["a"], **large))[0] == "does not fit: (1.5, 9e-06) left"
    with pytest.raises(dp.OverBudgetError):
        FRAME.dp.hhh(["a"], **large)
    week = ("when", "2026-W03")
    assert line(FRAME.dp.explain(["a"], **large, period=week))[0].startswith("fits")
    FRAME.dp.hhh(["a"], **large, period=week)


def test_what_is_stored_or_paid_for_costs_nothing(tmp_path: Path) -> None:
    """Law: a name that is stored, and a law that is reserved or filtered, are told as such."""
    book = dp.Ledger(tmp_path / "p.db", epsilon=3.0, delta=1e-5, accountant="pld")
    law = {"epsilon": 0.2, "delta": 1e-8, "mechanism": "offline-gaussian"}
    plan = dp.explain(["a"], **law)
    assert "in the ledger" not in str(plan)
    book.reserve(plan, releases=2, delta=1e-6)
    assert line(dp.explain(["a"], **law, ledger=book)) == (
        "paid for already",
        "by a reservation of 2 releases, of which 1 are left",
    )
    FRAME.dp.hhh(["a"], **law, ledger=book, release="w")
    with dp.use_ledger(book):
        assert line(dp.explain(["a"], **law, release="w"))[0] == "nothing to pay"


def test_sql_and_the_command_line_say_the_same(
    ledger: dp.Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: ``dp_explain`` and ``dpframe explain --ledger`` have the line of ``dp.explain``."""
    with duckdb.connect() as con:
        con.register("frame", FRAME)
        con.sql("CREATE TABLE t AS FROM frame")
        dp.register(con, ledger=ledger)
        found = con.sql(
            "SELECT value, meaning FROM dp_explain('t', 'columns:a', 1.0, delta := 1e-6, "
            "period := ['when', '2026-W02']) WHERE quantity = 'in the ledger'"
        ).fetchall()
    read = FRAME.dp.explain(["a"], **BUDGET, period=("when", "2026-W02"), ledger=ledger)
    assert found == [line(read)]
    command = ["explain", "columns:a", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*command, "--ledger", str(ledger.path)]) == 0
    assert "fits: (1.5, 9e-06) left" in capsys.readouterr().out
