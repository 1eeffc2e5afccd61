"""A series pays once for every release, whenever its runs are killed, and ends as if they were not.

Processes are real and are really killed (``killed_series``). Next to the check stand planted bugs
that the same check must reject.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.members import often

from . import ledger_worker

pytestmark = pytest.mark.engines  # kills processes of its own

LAWS = {"again", "charged", "done", "equal", "once", "paid", "whole"}
worker = partial(ledger_worker.worker, module="killed_series", timeout=7200)


def broken(found: dict[str, Any]) -> set[str]:
    """The laws that did not hold every time; all of them were looked at."""
    assert found.keys() >= LAWS
    return {law for law in LAWS if not found[law]}


@often(5, 1000, "times")
def test_killed_runs_pay_once_and_end_as_if_nobody_had_killed_them(
    quick: Path, tmp_path: Path, times: int
) -> None:
    """Law: all that is seen is charged, no name is charged twice, and what is published at the end
    is what an undisturbed run with the same noise publishes; as evidence 1,000 times, on the disk.
    """
    found = worker("killed", quick if times == 5 else tmp_path, times, 1)
    assert found["codes"]["-9"] >= times
    assert broken(found) == set()


def test_a_run_killed_between_charge_and_result_pays_once(quick: Path) -> None:
    """Law: the same, where a release is paid for, drawn, and not stored."""
    found = worker("cut_off", quick)
    assert found["code"] == -9
    assert broken(found) == set()


@pytest.mark.evidence
def test_a_run_killed_at_any_statement_pays_once(tmp_path: Path) -> None:
    """Law: the same, before every fifth statement of the first releases."""
    found = worker("stopped", tmp_path, 0, 5, 400)
    assert found["kills"] == 80
    assert broken(found) == set()


@pytest.mark.parametrize(
    ("bug", "laws"), [("forgets", {"once", "paid", "whole", "equal"}), ("free", {"charged"})]
)
def test_planted_bugs_are_rejected_by_the_same_kill(quick: Path, bug: str, laws: set[str]) -> None:
    """Planted: a run that forgets what was cut off pays twice; one that charges nothing shows what
    is not paid for."""
    assert laws <= broken(worker("cut_off", quick, bug))


@pytest.mark.parametrize("where", ["before", "inside"])
def test_a_draw_that_may_be_in_a_file_is_the_one_that_is_stored(quick: Path, where: str) -> None:
    """Law: one charge pays for one draw. Where a process dies when its draw can be in the ledger's
    file, though the transaction is undone, the next run stores that draw and makes no other."""
    found = worker("settled", quick, where)
    assert found["codes"] == [-9, 0]
    assert found["same"], "two draws for one charge"
    assert found["own"]
    assert found["once"]
    assert found["charged"]


def test_a_second_draw_is_noticed(quick: Path) -> None:
    """Planted: only the charge is remembered, and not the draw."""
    found = worker("settled", quick, "inside", "draws again")
    assert found["codes"] == [-9, 0]
    assert not found["same"]


def test_a_draw_of_which_a_part_was_written_is_paid_for_and_never_shown(quick: Path) -> None:
    found = worker("torn", quick)
    assert found == {"codes": [-9, 0], "paid": 2, "stored": True, "left": []}
