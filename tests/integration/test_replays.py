"""What a ledger answers: a replay says so, and an explanation tells what a charge would find."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.doors.cli.main import main
from tests.members import in_turn

FRAME = pd.DataFrame({"who": range(2000), "word": ["a"] * 1200 + ["b"] * 800, "n": [7] * 2000})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
PREFIX: dict[str, Any] = {**BUDGET, "epsilon": 4.0, "user": "who", "length": 10, "iterations": 2}


def warehouse(**named: Any) -> Receipt:
    asked = dp.rollup_sql(["word"], table="words", dialect="duckdb", **BUDGET)
    with duckdb.connect() as con:
        con.register("words", FRAME)
        counted = con.sql(asked.sql).to_arrow_table()
    return dp.hhh(candidates=counted, plan=asked.plan, **named).dp.receipt


PYTHON: dict[str, Callable[..., Receipt]] = {
    "hhh": lambda **named: dp.hhh(FRAME, ["word"], **BUDGET, **named).dp.receipt,
    "tree counts": lambda **named: dp.tree_counts(FRAME, ["word"], **BUDGET, **named).dp.receipt,
    "synthesize": lambda **named: (
        dp.synthesize(FRAME, {"n": (0, 9)}, epsilon=1.0, depth=4, k=4, seed=1, **named).receipt
    ),
    "prefix tree": lambda **named: dp.prefix_tree(FRAME, "word", **PREFIX, **named).dp.receipt,
    "warehouse": warehouse,
}


@pytest.mark.parametrize("door", PYTHON)
def test_a_replay_says_so(door: str, ledger: dp.Ledger) -> None:
    """Law: by a notice at the caller's line, in the receipt and on its card; a draw does not."""
    ask = PYTHON[door]
    first = ask(ledger=ledger, release="weekly", data="2026-11-02")
    assert (first["replayed"], first["data"]) == (False, "2026-11-02")
    with pytest.warns(
        dp.ReplayedNotice, match=rf"'weekly' is replayed: drawn on {first['time'][:10]}"
    ) as notes:
        again = ask(ledger=ledger, release="weekly", data="2026-11-02")
    assert [Path(note.filename).name for note in notes] == ["test_replays.py"]
    assert dict(again) == {**first, "replayed": True}
    assert f"(drawn on {first['time']}, nothing was charged)" in str(again)
    assert "replayed" not in str(first)
    assert len(ledger.releases()) == 1


@pytest.mark.filterwarnings("ignore::dpframe.ReplayedNotice")
def test_whoever_writes_into_a_replay_changes_no_other(ledger: dp.Ledger) -> None:
    """Law: replays share no memory, neither numbers nor receipt nor digest."""

    def ask() -> pd.DataFrame:
        return FRAME.dp.hhh("word", **BUDGET, ledger=ledger, release="weekly")

    first, seen = ask(), ask()
    attrs = json.dumps(seen.attrs)
    for part in (seen.attrs["dp"]["card"], seen.attrs["dp_digest"]["columns"]):
        part.clear()
    seen.loc[0, "count"] = -1
    seen["level"] = 5
    for again in (ask(), ledger.recall("weekly")):
        pd.testing.assert_frame_equal(again, first)
    assert json.dumps(ask().attrs) == attrs
    assert "frame" not in ask().dp.receipt
    assert "frame_changed" in seen.dp.receipt


@pytest.mark.parametrize("door", PYTHON)
def test_other_data_under_the_same_name_are_refused(door: str, ledger: dp.Ledger) -> None:
    """Law: the error names both states and the way out; without ``data`` requests are as ever."""
    ask = PYTHON[door]
    ask(ledger=ledger, release="weekly", data="2026-11-02")
    for other in ("2026-11-03", None):
        words = f"data was '2026-11-02' and is now {other!r}.*or another name to draw"
        with pytest.raises(dp.ReleaseNameError, match=words):
            ask(ledger=ledger, release="weekly", data=other)
    ask(ledger=ledger, release="plain")
    stored = ledger.find("plain")
    assert stored is not None
    assert "data" not in stored.request
    assert len(ledger.releases()) == 2


def test_data_without_a_name_are_in_the_receipt(ledger: dp.Ledger) -> None:
    """Law: what the caller said of the data is kept with what was drawn from them."""
    receipt = PYTHON["hhh"](ledger=ledger, data="2026-11-03")
    assert receipt["data"] == json.loads(ledger.releases()["receipt"][0])["data"] == "2026-11-03"
    assert "(the caller's name for the state of the data)" in str(receipt)
    assert PYTHON["hhh"]()["data"] is None


@in_turn(
    ("door", PYTHON), (("wrong", "error"), [("", ValueError), ("a\nb", ValueError), (3, TypeError)])
)
def test_data_is_a_text_that_people_can_read(
    door: str, wrong: Any, error: type[Exception], ledger: dp.Ledger
) -> None:
    with pytest.raises(error, match=r"^data "):
        PYTHON[door](ledger=ledger, release="weekly", data=wrong)
    assert len(ledger.releases()) == 0


COMMANDS = {
    "hhh": ["columns:word", "--epsilon=1", "--delta=1e-6"],
    "synthesize": ["number:n?lower=0&upper=9", "--epsilon=1", "--depth=4", "-k=4", "-n=3"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_on_the_command_line(
    command: str, ledger: dp.Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: a line on stderr says it, and --data is part of the request."""
    FRAME.to_parquet(tmp_path / "words.parquet")
    call = [command, str(tmp_path / "words.parquet"), *COMMANDS[command]]
    call += [f"--ledger={ledger.path}", "--release=weekly", "--data=2026-11-02"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(call) == 0
        assert "replayed" not in capsys.readouterr().err
        assert main(call) == 0
    out, err = capsys.readouterr()
    time = ledger.releases()["time"][0]
    assert f"\nreplayed: drawn on {time}, nothing was charged\n" in err
    assert "replayed" not in out
    assert main([*call[:-1], "--data=2026-11-03"]) == 2
    assert "data was '2026-11-02' and is now '2026-11-03'" in capsys.readouterr().err


def test_a_dashboard_is_told_once(ledger: dp.Ledger) -> None:
    """Law: by Python's own filter a line that asks every minute prints one notice a process."""
    code = (
        "import pandas as pd, dpframe as dp\n"
        "frame = pd.DataFrame({'word': ['a'] * 900})\n"
        "for minute in range(4):\n"
        f"    frame.dp.hhh(['word'], epsilon=1.0, delta=1e-6, ledger={str(ledger.path)!r},\n"
        "        release='weekly')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ReplayedNotice") == 1, done.stderr


def test_a_name_of_another_kind_says_of_which(ledger: dp.Ledger) -> None:
    PYTHON["tree counts"](ledger=ledger, release="weekly")
    for door in ("hhh", "synthesize", "prefix tree"):
        with pytest.raises(dp.ReleaseNameError, match=r"^'weekly' is a release of tree_counts"):
            PYTHON[door](ledger=ledger, release="weekly")


# -- explanations with a ledger --------------------------------------------------------------------


WEEKS = pd.DataFrame(
    {"a": ["x", "y"] * 3000, "when": pd.date_range("2026-01-05", periods=6000, freq="5min")}
)


@pytest.fixture
def spent(tmp_path: Path) -> dp.Ledger:
    book = dp.Ledger(tmp_path / "b.db", epsilon=2.5, delta=1e-5)
    WEEKS.dp.hhh(["a"], **BUDGET, period=("when", "2026-W02"), ledger=book)
    return book


def in_the_ledger(explained: Any) -> tuple[str, str]:
    rows = explained.to_frame().set_index("quantity").loc["in the ledger"]
    return rows["value"], rows["meaning"]


def test_the_blocks_of_a_period_are_told_and_those_of_any_release(spent: dp.Ledger) -> None:
    """Law: of a period that was read, of one that was not, and without one, an explanation says
    what a charge then finds; it is spent nothing."""
    read = WEEKS.dp.explain(["a"], **BUDGET, period=("when", "2026-W02"), ledger=spent)
    assert in_the_ledger(read) == (
        "fits: (1.5, 9e-06) left",
        "for when 2026-W02, which has spent (1, 1e-06); (0.5, 8e-06) would be left there",
    )
    new = WEEKS.dp.explain(["a"], **BUDGET, period=("when", "2026-W03"), ledger=spent)
    assert in_the_ledger(new)[0] == "fits: (2.5, 1e-05) left"
    assert "which has spent (0, 0)" in in_the_ledger(new)[1]
    anything = dp.explain(["a"], **BUDGET, ledger=spent)
    assert in_the_ledger(anything)[0] == "fits: (1.5, 9e-06) left"
    unknown = dp.explain(["a"], **BUDGET, period=("when", "2026-W03"), ledger=spent)
    assert "or more, which its source tells" in in_the_ledger(unknown)[1]
    assert len(spent.releases()) == 1


def test_what_does_not_fit_is_said_before_and_then_refused(spent: dp.Ledger) -> None:
    """Law: "does not fit" is what the call itself is refused for."""
    large: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "ledger": spent}
    assert in_the_ledger(WEEKS.dp.explain(["a"], **large))[0] == "does not fit: (1.5, 9e-06) left"
    with pytest.raises(dp.OverBudgetError):
        WEEKS.dp.hhh(["a"], **large)
    week = ("when", "2026-W03")
    assert in_the_ledger(WEEKS.dp.explain(["a"], **large, period=week))[0].startswith("fits")
    WEEKS.dp.hhh(["a"], **large, period=week)


def test_what_is_stored_or_paid_for_costs_nothing(tmp_path: Path) -> None:
    """Law: a name that is stored, and a law that is reserved or filtered, are told as such."""
    book = dp.Ledger(tmp_path / "p.db", epsilon=3.0, delta=1e-5, accountant="pld")
    law = {"epsilon": 0.2, "delta": 1e-8, "mechanism": "offline-gaussian"}
    plan = dp.explain(["a"], **law)
    assert "in the ledger" not in str(plan)
    book.reserve(plan, releases=2, delta=1e-6)
    assert in_the_ledger(dp.explain(["a"], **law, ledger=book)) == (
        "paid for already",
        "by a reservation of 2 releases, of which 1 are left",
    )
    WEEKS.dp.hhh(["a"], **law, ledger=book, release="w")
    with dp.use_ledger(book):
        assert in_the_ledger(dp.explain(["a"], **law, release="w"))[0] == "nothing to pay"


def test_sql_and_the_command_line_say_the_same(
    spent: dp.Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: ``dp_explain`` and ``dpframe explain --ledger`` have the line of ``dp.explain``."""
    with duckdb.connect() as con:
        con.register("frame", WEEKS)
        con.sql("CREATE TABLE t AS FROM frame")
        dp.register(con, ledger=spent)
        found = con.sql(
            "SELECT value, meaning FROM dp_explain('t', 'columns:a', 1.0, delta := 1e-6, "
            "period := ['when', '2026-W02']) WHERE quantity = 'in the ledger'"
        ).fetchall()
    read = WEEKS.dp.explain(["a"], **BUDGET, period=("when", "2026-W02"), ledger=spent)
    assert found == [in_the_ledger(read)]
    command = ["explain", "columns:a", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*command, "--ledger", str(spent.path)]) == 0
    assert "fits: (1.5, 9e-06) left" in capsys.readouterr().out
