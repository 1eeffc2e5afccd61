"""How long answers about neighbouring tables take: whole steps of the floor, and the same ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu

from dpframe.doors.gateway.gate import Gate
from dpframe.questions.question_list import QUESTIONS
from tests.gateway.attacked import opened, sold

HHH: dict[str, Any] = vars(next(one for one in QUESTIONS if one.name == "hhh"))

FLOOR = 1.0
"""Seconds of a step, which counting does not fill here."""

MORE = 0.5
"""Seconds that counting takes longer for one of the tables, beside what its rows take."""

LEAKS = 1e-3
"""Answers tell tables apart if chance would make their times differ so with this probability."""

pytestmark = pytest.mark.evidence


def seconds(gate: Gate, number: int, name: str = "ann") -> float:
    """How long a question takes that nobody asked before, planned already."""
    analyst = gate.policy.analysts[name]
    given = {"hierarchy": "country", "epsilon": 0.1, "threshold": 3000 + number}
    gate.read(analyst, "sales", "hhh", given)
    began = time.perf_counter()
    gate.ask(analyst, "sales", "hhh", given)
    return time.perf_counter() - began


def difference(gates: list[Gate], ask: Callable[[Gate, int], float], times: int = 20) -> float:
    """The probability of a difference at least as large as found, if times of both were alike.
    Counting the second table takes longer."""
    found: tuple[list[float], list[float]] = ([], [])
    count = HHH["count"]
    for number in range(times):
        for which, gate in enumerate(gates):

            def slow(*given: Any, wait: float = which * MORE) -> Any:
                time.sleep(wait)
                return count(*given)

            HHH["count"] = slow
            try:
                found[which].append(ask(gate, number))
            finally:
                HHH["count"] = count
    return float(mannwhitneyu(*found).pvalue)


@pytest.fixture
def neighbours(tmp_path: Path) -> Any:
    """A table, and a table in which one more user has very many rows."""
    rows = sold(2_000)
    more = pd.DataFrame({name: np.repeat(rows[name].to_numpy()[:1], 400_000) for name in rows})
    more["person"] = 10**9
    tables = rows, pd.concat([rows, more], ignore_index=True)
    gates = [
        opened(tmp_path / str(i), table, user=True, floor=FLOOR) for i, table in enumerate(tables)
    ]
    for gate in gates:
        seconds(gate, -1)  # what is loaded once
    yield gates
    for gate in gates:
        gate.close()


def test_answers_take_whole_steps_and_the_same_ones(neighbours: list[Gate]) -> None:
    assert difference(neighbours, seconds) > LEAKS
    for gate in neighbours:
        steps = [seconds(gate, 100 + i) / FLOOR for i in range(7)]
        assert np.median([one % 1 for one in steps]) < 0.2
        assert np.median(steps) < 1.2


def test_a_planted_leak_is_found(neighbours: list[Gate], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wait the times tell the tables apart."""
    monkeypatch.setattr(Gate, "wait_for_step", lambda *_: None)
    assert difference(neighbours, seconds) < LEAKS


def test_failures_take_whole_steps(neighbours: list[Gate], monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure early in the rows takes as long as one late in them."""
    for gate in neighbours:
        monkeypatch.setattr(gate._memory, "failures", lambda *_: 0)

    def fail(*_: Any) -> None:
        raise ValueError

    monkeypatch.setitem(HHH, "count", fail)

    def ask(gate: Gate, number: int) -> float:
        given = {"hierarchy": "country", "epsilon": 0.1, "threshold": 5000 + number}
        gate.read(gate.policy.analysts["ann"], "sales", "hhh", given)
        began = time.perf_counter()
        with pytest.raises(Exception, match="could not be answered"):
            gate.ask(gate.policy.analysts["ann"], "sales", "hhh", given)
        return time.perf_counter() - began

    assert difference(neighbours, ask) > LEAKS


def test_whoever_watches_learns_no_more(neighbours: list[Gate]) -> None:
    """A colluding analyst who asks for budget and releases all the time sees the charge before
    rows are read, and the release when its answer is due."""

    def watched(gate: Gate, number: int) -> float:
        ben, began = gate.policy.analysts["ben"], time.perf_counter()
        before = len(gate.releases(ben, "sales"))
        worker = threading.Thread(target=seconds, args=(gate, 200 + number))
        worker.start()
        while len(gate.releases(ben, "sales")) == before:
            time.sleep(0.001)
        seen = time.perf_counter() - began
        worker.join()
        return seen

    assert difference(neighbours, watched) > LEAKS


def test_whoever_asks_the_same_learns_no_more(neighbours: list[Gate]) -> None:
    """A colluding analyst who asks the same a moment later gets it when the first answer is due."""

    def second(gate: Gate, number: int) -> float:
        worker = threading.Thread(target=seconds, args=(gate, 400 + number))
        began = time.perf_counter()
        worker.start()
        time.sleep(0.03)
        seconds(gate, 400 + number, "ben")
        found = time.perf_counter() - began
        worker.join()
        return found

    assert difference(neighbours, second) > LEAKS
