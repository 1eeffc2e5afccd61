"""The ledger's public surface: what it shows, how it prints, how it travels, what the CLI does."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import pickle
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe import errors
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli.main import main
from dpframe.ledger import Ledger, as_ledger, current_ledger
from tests.doors import in_this_process
from tests.members import some

FRAME = pd.DataFrame({"a": ["x"] * 900, "who": range(900)})
TOTALS = {"epsilon": 3.0, "delta": 1e-5}


def typed(columns: str) -> dict[str, str]:
    return dict(column.split(":") for column in columns.split())


SUMMARY = typed(
    "ledger:str accountant:str epsilon:float64 delta:float64 spent_epsilon:float64 "
    "spent_delta:float64 left_epsilon:float64 left_delta:float64 plain_epsilon:float64 "
    "saved_epsilon:float64 releases:int64 reserved:int64 unread_epsilon:float64 "
    "unread_delta:float64 protects:str"
)
RELEASES = typed(
    "number:int64 time:str release:str release_id:str source:str mechanism:str hierarchy:str "
    "neighbours:str epsilon:float64 delta:float64 stored:bool receipt:str period:str"
)


def hhh(ledger: object, **options: Any) -> pd.DataFrame:
    return dp.hhh(FRAME, ["a"], **{"epsilon": 0.5, "delta": 1e-6, **options}, ledger=ledger)  # type: ignore[arg-type]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db", **TOTALS)


@pytest.fixture
def none_in_use() -> Iterator[None]:
    yield
    (lambda: dp.use_ledger(None))()  # a generator cannot choose


def kinds(frame: pd.DataFrame) -> dict[str, str]:
    """Columns and dtypes; text may be object in older versions of pandas, or where all is None."""
    return {
        str(name): "str" if str(kind) in ("object", "str", "string") else str(kind)
        for name, kind in frame.dtypes.items()
    }


# -- what it shows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ["sum", "pld"])
@pytest.mark.parametrize("full", [False, True], ids=["empty", "with releases"])
def test_summary_and_releases_have_fixed_columns(
    tmp_path: Path, accountant: Any, full: bool
) -> None:
    ledger = Ledger(tmp_path / "budget.db", **TOTALS, accountant=accountant)
    if full:
        hhh(ledger)
        hhh(ledger, release="daily", user="who")
    assert kinds(ledger.summary()) == SUMMARY
    assert kinds(ledger.releases()) == RELEASES
    assert (len(ledger.summary()), len(ledger.releases())) == (1, 2 if full else 0)


def test_summary_and_releases_say_what_happened(ledger: Ledger) -> None:
    one, two = hhh(ledger), hhh(ledger, release="daily", user="who")
    summary = ledger.summary().iloc[0]
    assert summary["ledger"] == str(ledger.path)
    assert (summary["spent_epsilon"], summary["left_epsilon"]) == (1.5, 1.5)  # users: two steps
    assert summary["spent_delta"] == pytest.approx((2 + math.exp(0.5)) * 1e-6)
    assert (summary["plain_epsilon"], summary["saved_epsilon"], summary["releases"]) == (1.5, 0, 2)
    releases = ledger.releases()
    assert list(releases["number"]) == [1, 2]
    assert list(releases["stored"]) == [False, True]
    assert releases["release"].isna().tolist() == [True, False]
    assert releases["neighbours"].tolist() == [
        "adding or removing one record",
        "adding or removing one user ('who') with all their records",
    ]
    for frame, row in zip((one, two), releases.to_dict("records"), strict=True):
        receipt = json.loads(row["receipt"])
        assert row["release_id"] == receipt["release_id"] == frame.dp.receipt["release_id"]
        assert row["epsilon"] == (0.5 if frame is one else 1.0)  # what was charged
        assert receipt["epsilon"] == 0.5
        assert receipt["ledger"] is None  # what was left is not known before the charge
    assert two.dp.receipt["ledger"]["left_epsilon"] == 1.5


def test_spent_left_and_the_receipt_agree(ledger: Ledger) -> None:
    """Law: spent + left = totals in exact decimals; a receipt shows what was left after it."""
    receipt = hhh(ledger, epsilon=0.3).dp.receipt
    assert ledger.spent == dp.Spending(epsilon=0.3, delta=1e-6)
    assert ledger.left == dp.Spending(epsilon=2.7, delta=9e-6)
    assert receipt["budget"] == (
        "of (3, 1e-05) in the ledger, (2.7, 9e-06) was left after this release"
    )
    left = {"left_epsilon": 2.7, "left_delta": 9e-6}
    assert receipt["ledger"] == {"id": ledger.ledger_id, "accountant": "sum", **TOTALS, **left}


def test_names_come_in_the_order_of_their_charges(ledger: Ledger) -> None:
    for name in ("zebra", "ape", "Ünïcode 日本", 'it\'s "quoted"; DROP TABLE results --'):
        hhh(ledger, release=name)
        assert ledger.recall(name).dp.receipt["release"] == name
    assert ledger.names()[:2] == ["zebra", "ape"]
    assert len(ledger.names()) == 4


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, "\ud800"])
def test_names_that_nobody_can_read_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(dp.ParameterError, match="printable characters"):
        hhh(ledger, release=name)
    assert len(ledger.releases()) == 0


# -- how it prints and travels ---------------------------------------------------------------------


def test_repr_says_what_is_spent_and_what_is_left(ledger: Ledger) -> None:
    """Law: the numbers of the file as it is now; a ledger that is gone has a repr, too."""
    named = f"<Ledger {str(ledger.path)!r} of (3, 1e-05)"
    assert repr(ledger) == f"{named}: spent (0, 0), left (3, 1e-05), accountant 'sum'>"
    frame = pd.DataFrame({"a": ["x"] * 900})
    dp.hhh(frame, "a", epsilon=1.0, delta=1e-6, ledger=ledger.path)
    assert repr(ledger) == f"{named}: spent (1, 1e-06), left (2, 9e-06), accountant 'sum'>"
    ledger.path.unlink()
    assert repr(ledger) == f"{named}, which cannot be read>"


def test_a_use_prints_its_ledger(ledger: Ledger, none_in_use: None) -> None:
    assert repr(dp.use_ledger(ledger)) == f"<using {ledger!r}>"
    assert repr(dp.use_ledger(None)) == "<using None>"


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_a_copy_is_the_same_ledger(ledger: Ledger, way: Any) -> None:
    hhh(way(ledger))
    assert ledger.spent.epsilon == 0.5
    assert way(ledger).ledger_id == ledger.ledger_id


FORK = """
import os, sys, pandas as pd, dpframe as dp
from dpframe.ledger import current_ledger
ledger = dp.Ledger(sys.argv[1], epsilon=3.0, delta=1e-5)
from tests.privacy.ledger_worker import release, ended, forked
dp.use_ledger(ledger)
release(ledger)  # the ledger was used before the fork
def child():
    assert current_ledger() is ledger
    release(ledger)
    release(ledger, name="of the child")
codes = [ended(forked(child)) for _ in range(3)]
release(ledger)
print(codes, ledger.spent.epsilon, ledger.names(), len(ledger.releases()))
"""


def test_forked_processes_charge_the_ledger_in_use(tmp_path: Path) -> None:
    """Law: an open ledger, and the one in use, survive a fork; nothing is charged twice or lost."""
    command = [sys.executable, "-c", FORK, str(tmp_path / "budget.db")]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert done.stdout == "[0, 0, 0] 0.06 ['of the child'] 6\n", done.stderr


def test_no_connection_is_held_between_calls(ledger: Ledger) -> None:
    """Law: an open ledger holds no file open, so forks, moves and other tools are harmless."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files cannot be listed here")
    hhh(ledger, release="daily")
    held = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            held.append(os.readlink(f"/proc/self/fd/{number}"))
    assert len(held) >= 3
    assert not [path for path in held if "budget.db" in path]


# -- which ledger ----------------------------------------------------------------------------------


def test_what_is_no_ledger_is_refused() -> None:
    with pytest.raises(dp.ParameterTypeError, match=r"ledger must be a dp.Ledger or the path"):
        as_ledger(5)
    with pytest.raises(dp.ParameterTypeError, match=r"ledger must be a dp.Ledger or the path"):
        dp.use_ledger(5)  # type: ignore[arg-type]


def test_a_use_that_fails_changes_nothing(
    ledger: Ledger, tmp_path: Path, none_in_use: None
) -> None:
    with dp.use_ledger(ledger):
        with pytest.raises(dp.LedgerError, match="does not exist"):
            dp.use_ledger(tmp_path / "no.db")
        assert current_ledger() is ledger


# -- errors ----------------------------------------------------------------------------------------


def test_errors_of_a_ledger_can_be_caught_in_three_ways() -> None:
    pairs = ((dp.LedgerError, RuntimeError), (dp.ReleaseNameError, ValueError))
    assert all(issubclass(*pair) for pair in pairs)
    for error in (dp.LedgerError, dp.OverBudgetError, dp.ReleaseNameError):
        assert issubclass(error, dp.LedgerError)
        assert issubclass(error, dp.DpframeError)
        assert error.__doc__
        assert error.__name__ in (errors.__doc__ or "")
        assert error.__name__ in (dp.hhh.__doc__ or "") or error is dp.LedgerError


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"epsilon": 4.0}, ["epsilon requested 4, remaining 2.5, over by 1.5"]),
        ({"delta": 1e-3}, ["delta requested 0.001, remaining 9e-06, over by 0.000991"]),
        ({"epsilon": 2.6, "delta": 1e-5}, ["epsilon requested 2.6", "; delta requested 1e-05"]),
        ({"epsilon": 2.5 + 1e-12}, ["over by 1e-12"]),
    ],
)
def test_over_budget_says_by_how_much(ledger: Ledger, asked: Any, words: list[str]) -> None:
    hhh(ledger)
    with pytest.raises(dp.OverBudgetError) as error:
        hhh(ledger, **asked)
    for word in (*words, "Ask for less, or replay an earlier release by its name."):
        assert word in str(error.value)
    hhh(ledger, epsilon=2.5)
    assert ledger.left.epsilon == 0.0


# -- the command line ------------------------------------------------------------------------------


def here(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return in_this_process(*map(str, arguments), cwd=cwd)


def test_the_command_line_makes_charges_shows_and_replays(tmp_path: Path) -> None:
    """Law: the whole life of a ledger: make, release by name, replay without the file, refuse."""
    FRAME.to_parquet(tmp_path / "data.parquet")
    made = here("ledger", "b.db", "--epsilon", 1, "--delta", 1e-5, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert re.search(r"left_epsilon\s+1.0", made.stdout)
    call = ["hhh", "data.parquet", "columns:a", "--epsilon", 0.6, "--delta", 1e-6]
    call += ["--ledger", "b.db", "--release", "daily"]
    first = here(*call, "-o", "one.parquet", "--quiet", cwd=tmp_path)
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    (tmp_path / "data.parquet").unlink()
    again = here(*call, "-o", "two.parquet", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "of (1, 1e-05) in the ledger, (0.4, 9e-06) was left after this release" in again.stderr
    one, two = (pq.read_table(tmp_path / f"{n}.parquet") for n in ("one", "two"))
    assert one.equals(two)
    drawn, receipt = (receipt_in_metadata(table.schema.metadata) for table in (one, two))
    assert drawn is not None
    assert receipt is not None
    assert dict(receipt) == {**drawn, "replayed": True}
    assert receipt["release"] == "daily"

    shown = here("ledger", "b.db", cwd=tmp_path)
    assert re.search(r"spent_epsilon\s+0.6", shown.stdout)
    assert re.search(r"daily .* columns:a .* True", shown.stdout)
    over = here(*call[:-1], "weekly", cwd=tmp_path)
    assert (over.returncode, over.stdout, len(over.stderr.splitlines())) == (2, "", 1)
    assert "epsilon requested 0.6, remaining 0.4, over by 0.2" in over.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ledger", "no.db"], "ledger 'FOLDER/no.db' does not exist"),
        (["ledger", "no.db", "--epsilon", "1"], "both totals. Pass --delta"),
        (["ledger", "no.db", "--epsilon", "0", "--delta", "1e-5"], "epsilon (0.0), a total"),
        (["ledger", "made.db", "--epsilon", "4", "--delta", "1e-5"], "was made with --epsilon 3"),
        (["ledger", "made.db", "--accountant", "pld"], "was made with --epsilon 3"),
        (["ledger", "text.csv"], "is no ledger, or is damaged"),
        (["ledger", "."], "is a folder"),
        (["ledger", "no/b.db", "--epsilon", "1", "--delta", "1e-5"], "Check that the folder"),
        (["hhh", "text.csv", "columns:a", "BUDGET", "--ledger", "no.db"], "does not exist"),
        (["hhh", "text.csv", "columns:a", "BUDGET", "--release", "daily"], "needs --ledger"),
        (["hhh", "no.csv", "columns:a", "BUDGET", "--ledger", "made.db"], "'no.csv'"),
    ],
)
def test_mistakes_at_the_command_line_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, arguments: Any, words: str
) -> None:
    made = Ledger(tmp_path / "made.db", **TOTALS)
    (tmp_path / "text.csv").write_text("a\n" + "x\n" * 900)
    budget = ["--epsilon", "0.5", "--delta", "1e-6"]
    monkeypatch.chdir(tmp_path)
    assert main([b for a in arguments for b in (budget if a == "BUDGET" else [a])]) == 2
    out, said = capsys.readouterr()
    assert (out, len(said.splitlines())) == ("", 1)
    assert words.replace("FOLDER", str(tmp_path)) in said
    assert made.spent.epsilon == 0.0
    assert not (tmp_path / "no.db").exists()


def test_the_total_of_a_file_that_mixed_units_is_not_proved(tmp_path: Path) -> None:
    """Law: the ledger of an earlier version says so, goes on, and proves nothing."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-6)
    with contextlib.closing(sqlite3.connect(ledger.path)) as db, db:
        db.execute("UPDATE budget SET protects = 'several'")  # as upgrading does
    rows = FRAME.assign(v=1)
    rows.dp.tree_counts(["a"], keys=["x"], epsilon=1.0, ledger=ledger)
    measured = dp.sum("v", lower=0, upper=20)
    rows.dp.rollup(["a"], measured, keys=["x"], user="who", epsilon=1.0, ledger=ledger)
    found = dp.verify(ledger)
    assert found.outcome == "not verified"
    assert "protect different units" in found.reason
    assert ledger.spent.epsilon == 2.0
    assert ledger.summary()["protects"][0].startswith("nothing, its releases protect different")


@some("1.0-3", "1.0-7")
@pytest.mark.parametrize(("total", "times"), [(1.0, 3), (3.0, 52), (1.0, 7)])
def test_n_times_the_nth_part_fits_and_no_more(tmp_path: Path, total: float, times: int) -> None:
    ledger = Ledger(tmp_path / "budget.db", epsilon=total, delta=0.1)
    for _ in range(times):
        FRAME.dp.tree_counts(["a"], keys=["x"], epsilon=total / times, ledger=ledger)
    assert ledger.left.epsilon == 0
    with pytest.raises(errors.OverBudgetError):
        FRAME.dp.tree_counts(["a"], keys=["x"], epsilon=1e-4, ledger=ledger)
    assert dp.verify(Ledger(ledger.path)).outcome == "proved"
