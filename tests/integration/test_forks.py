"""Children of a process that has used dpframe: none hangs, crashes, or holds up another."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engines

ROOT = Path(__file__).resolve().parents[2]

LONG = 200.0
"""Seconds after which a test has hung."""


def parent(*arguments: object) -> Any:
    """What a parent says; it and all of its children are gone when this returns."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.forking", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=LONG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    return json.loads(out)


@pytest.mark.parametrize(
    "methods",
    [
        ["fork", "exit"],
        pytest.param(["spawn"], marks=pytest.mark.evidence),
        pytest.param(["forkserver"], marks=pytest.mark.evidence),
    ],
    ids="-".join,
)
def test_children_release_as_their_parent_did(tmp_path: Path, methods: list[str]) -> None:
    """Law: after a parent has used DuckDB, a registered connection, streaming, synthesize, a
    ledger and names, its children release in every way, those that are forked end with code 0,
    and the parent goes on. All is charged."""
    run = parent("used", tmp_path, *methods)
    pool = [run["before"], run["before"]]
    assert run["found"] == [0 if method == "exit" else pool for method in methods]
    assert run["after"] == run["before"]
    children = sum(1 if method == "exit" else 2 for method in methods)
    assert run["charges"] == 5 + 5 * children + 4  # the name of the parent is replayed


@pytest.mark.parametrize("forks", [1, pytest.param(9, marks=pytest.mark.evidence)])
def test_forks_beside_threads_that_count_charge_and_draw(tmp_path: Path, forks: int) -> None:
    """Law: whatever other threads of the parent do at the fork, a child draws, by name too,
    and ends with code 0."""
    run = parent("beside", tmp_path, forks)
    assert run["codes"] == [0] * forks
    assert run["children"] == forks


@pytest.mark.parametrize(("planted", "code"), [([], 0), (["never waits"], -signal.SIGALRM)])
def test_a_fork_waits_for_what_other_threads_import(
    tmp_path: Path, planted: list[str], code: int
) -> None:
    """Law: a child can import a module that another thread of its parent was loading at the fork,
    of whatever library."""
    assert parent("loading", tmp_path, *planted) == {"code": code}


def test_what_registers_while_a_fork_waits_is_called_before_and_after() -> None:
    """Law: nothing is released after a fork that was not taken before it."""
    assert parent("late") == {"code": 0, "called": ["before", "in parent"]}
