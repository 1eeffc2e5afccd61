"""Whatever is killed when: nothing is seen that was not charged, and nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.members import often

from .ledger_worker import ROOT

pytestmark = pytest.mark.engines  # kills processes of its own


def kills(folder: Path, times: int, bug: str = "") -> dict[str, Any]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    words = [str(folder), str(times), str(seed), *([bug] if bug else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.privacy.killed_children", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=1200)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(out)
    print(found)
    return found


@often(10, 1000, "times")
def test_killed_children_leave_enough_charged_and_nothing_else(tmp_path: Path, times: int) -> None:
    """Law: forked and spawned children draw from one ledger, by name and without, and are killed
    at random: all that was seen is charged, the ledger opens, no lock stays, names replay what
    was seen, and the next start finds and removes their folders."""
    run = kills(tmp_path, times)
    assert run["seen"] > 0
    assert run["not charged"] == 0
    assert run["replayed"]
    assert run["seconds"] < 20  # no lock stays
    assert run["left later"] == 0
    if times == 1000:
        assert run["names"] > 100
        assert run["left by killed"] > 0


def test_children_that_charge_after_the_draw_are_caught(tmp_path: Path) -> None:
    """Planted bug: the same kills see releases that nobody was charged for."""
    assert kills(tmp_path, 4, "bug")["not charged"] > 0
