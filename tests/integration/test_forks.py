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


TOLD = 3
"""The code of a child that is told to be spawned."""


@pytest.mark.parametrize("forks", [2, pytest.param(30, marks=pytest.mark.evidence)])
def test_forks_beside_threads_that_count_charge_and_draw(tmp_path: Path, forks: int) -> None:
    """Law: whatever other threads of the parent do at the fork, a child draws, by name too, or is
    told that it must be spawned; none hangs. When the threads have ended, a child draws."""
    run = parent("beside", tmp_path, forks)
    assert len(run["codes"]) == forks + 1
    assert set(run["codes"]) <= {0, TOLD}
    assert run["codes"][-1] == 0
    assert run["children"] == run["codes"].count(0)


@pytest.mark.parametrize(("where", "charges"), [("drawing", 1), ("loading", 0)])
@pytest.mark.parametrize(
    ("planted", "code"), [([], TOLD), (["never looks"], -signal.SIGTERM)], ids=["told", "planted"]
)
def test_a_child_forked_while_another_thread_was_inside_a_call_must_be_spawned(
    tmp_path: Path, where: str, charges: int, planted: list[str], code: int
) -> None:
    """Law: such a child is told so and charges nothing: it would wait for a lock of the ledger or
    a module for ever, as it does if nobody looks."""
    run = parent("inside", tmp_path, where, *planted)
    assert run == {"code": code, "charges": charges}


def test_a_thread_that_forks_inside_its_own_call(tmp_path: Path) -> None:
    """Law: its child draws under another name, although the parent held the lock of the ledger."""
    assert parent("within", tmp_path) == {"codes": [0], "names": ["child", "parent"]}


@pytest.mark.parametrize(("planted", "different"), [([], 3), (["one source of bits"], 1)])
def test_no_noise_is_drawn_twice(planted: list[str], different: int) -> None:
    """Law: two children and their parent draw different noise, though the parent drew before;
    noise that is copied by a fork is seen."""
    assert parent("noise", *planted) == different


def test_a_forked_child_forks(tmp_path: Path) -> None:
    """Law: a child that was forked and forks goes on; it hung when it next used DuckDB."""
    code = """
import os, signal, sys
import pandas as pd, dpframe as dp
file = sys.argv[1]
pd.DataFrame({"a": ["x", "y"] * 500}).to_parquet(file)
ask = lambda: dp.hhh(file, ["a"], epsilon=1.0, delta=1e-6)
ask()
child = os.fork()
if not child:
    signal.alarm(60)
    ask()
    grandchild = os.fork()
    if not grandchild:
        ask()
        os._exit(0)
    os.waitpid(grandchild, 0)
    ask()
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""
    given = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "rows.parquet")]
    assert subprocess.run(given, timeout=LONG, check=False).returncode == 0
