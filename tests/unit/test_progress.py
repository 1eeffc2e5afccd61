"""What is shown of a long step, to whom, and that it tells nothing of the rows."""

from __future__ import annotations

import inspect
import io
import re
import threading
import time
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.common import progress as _progress
from dpframe.common.progress import goes_on, is_watched, part, rename_step, step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def waiting(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A person who waits, and for whom two seconds are a hundredth of one; called within a test,
    before which pytest sets ``sys.stderr`` anew."""
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setattr(_progress, "IN_A_TEST", "IN_A_TEST")
    monkeypatch.setattr(_progress, "AFTER", 0.01)
    monkeypatch.setattr(_progress, "EVERY", 0.01)
    return out


def test_a_long_step_shows_its_name_and_time_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law: parts take the place of the step around them; afterwards the line is empty."""
    terminal = waiting(monkeypatch)
    with step("planning"):
        time.sleep(0.15)
        with part("counting", done=lambda: 40.0):
            time.sleep(0.15)
        rename_step("round 2 of 3")
        time.sleep(0.15)
    sent = terminal.getvalue()
    assert "planning: 00:0" in sent
    assert re.search(r"counting:  40% ?\|.*\| 00:0", sent)
    assert "round 2 of 3: 00:0" in sent
    assert sent.rpartition("\r")[0].rpartition("\r")[2].strip() == ""
    assert not goes_on()
    assert not [t for t in threading.enumerate() if t.name.startswith("Thread-")]


def test_nothing_is_shown_where_nobody_looks_or_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: not in pipes or tests, not unless wanted, not of short steps, nor of parts alone."""
    terminal = waiting(monkeypatch)
    with part("counting"):
        time.sleep(0.05)
    with step("planning", wanted=False):
        time.sleep(0.05)
    monkeypatch.setattr(_progress, "AFTER", 2.0)
    with step("planning"):
        pass
    monkeypatch.setattr(_progress, "IN_A_TEST", "PYTEST_CURRENT_TEST")
    assert not is_watched()
    monkeypatch.setattr(_progress, "IN_A_TEST", "IN_A_TEST")
    assert is_watched()
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert not is_watched()
    monkeypatch.setattr("sys.stderr", None)
    assert not is_watched()
    assert terminal.getvalue() == ""


def test_an_error_ends_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: what fails, or cannot tell how far it is, leaves no thread and no step."""
    terminal = waiting(monkeypatch)

    def fails() -> float:
        raise RuntimeError("closed")

    def long() -> None:
        with step("planning", done=fails):
            time.sleep(0.05)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        long()
    assert not goes_on()
    assert "planning:   0%" in terminal.getvalue()


@pytest.mark.parametrize("mechanism", ["offline", "streaming"])
def test_no_number_of_rows_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mechanism: str
) -> None:
    """Law: names, times and percentages, and no other number; ``progress=False`` shows nothing."""
    terminal = waiting(monkeypatch)
    rows, file = 4_815_162, tmp_path / "rows.parquet"
    duckdb.sql(f"COPY (SELECT 'x' || (i % 7) AS p FROM range({rows}) t(i)) TO '{file}'")
    more = {"counters": 50, "threshold": 10_000} if mechanism == "streaming" else {}
    given = {"epsilon": 1.0, "delta": 1e-6, "mechanism": mechanism, **more}
    dp.hhh(file, "p", **given, progress=False)
    assert terminal.getvalue() == ""
    dp.hhh(file, "p", **given)
    sent = terminal.getvalue()
    assert ("counting" if mechanism == "offline" else "sketching") in sent
    shown = {re.sub(r"\d+% ?\|[^|]*\||\d\d:\d\d", "", line) for line in sent.split("\r")}
    assert not [line for line in shown if re.search(r"\d", line)]
    assert str(rows)[:3] not in sent


def test_the_rounds_of_a_search_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = waiting(monkeypatch)
    frame = pd.DataFrame({"w": ["abc"] * 3000, "u": range(3000)})
    dp.prefix_tree(frame, "w", user="u", epsilon=4.0, delta=1e-6)
    assert re.search("planning the noise|iteration 1", terminal.getvalue())  # what took longest


def test_long_calls_without_a_question_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Law: what samples, publishes, compares and runs a series says so, and keeps its signature."""
    terminal = waiting(monkeypatch)
    frame = pd.DataFrame({"w": ["ab", "cd"] * 1500, "u": range(3000)})
    generator = dp.synthesize(frame, "columns:w", keys=["ab", "cd"], epsilon=1.0)
    generator.sample(2_000_000)
    assert "sampling: 00:0" in terminal.getvalue()
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=9.0, delta=1e-4)
    dp.hhh(frame, "w", epsilon=1.0, delta=1e-6, ledger=ledger, release="words")
    dp.publish(ledger, tmp_path / "out.duckdb")
    assert "publishing: 00:0" in terminal.getvalue()
    assert list(inspect.signature(dp.publish).parameters) == ["ledger", "to", "releases"]
