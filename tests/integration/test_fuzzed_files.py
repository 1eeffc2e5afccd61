"""Damaged and made-up files, given to every loader in a process of its own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def fuzzed(cases: int, seed: int) -> None:
    command = [sys.executable, "-m", "tests.fuzzed_files", str(cases), str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, ""), f"seed {seed}\n{done.stderr}"


@pytest.mark.engines
@linux
def test_loaders_refuse_what_was_not_saved() -> None:
    """Law: any file gives one error, which quotes nothing, or what was saved; in little memory."""
    fuzzed(25, 1)


@linux
@pytest.mark.evidence
def test_loaders_refuse_what_was_not_saved_ten_thousand_times() -> None:
    """The same for 10,000 files of another seed every time; DPFRAME_FUZZ_SEED sets it."""
    seed = int(os.environ.get("DPFRAME_FUZZ_SEED") or random.randrange(2**31))
    print(f"DPFRAME_FUZZ_SEED={seed}")
    fuzzed(10_000, seed)
