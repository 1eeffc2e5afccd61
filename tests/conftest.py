"""Tells the tests whether their long versions were asked for: ``pytest -m evidence``.

The suite draws the same noise each time, by the name of each test: thousands of tests that miss
once in a million runs each would otherwise refuse a good change now and then. Evidence draws noise
of the operating system, and so does the suite with ``DPFRAME_FRESH_NOISE=1``.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import none
from numpy.typing import NDArray

from tests import members

collect_ignore = ["recipes"]
"""Files that are tried in a copy of the package (``tests/integration/test_adding.py``)."""

MEMORY = "/dev/shm"
"""Where Linux has files in memory; a container can have very little of it."""

# other processes take the processors, too: no deadline
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    asked = str(config.option.markexpr)
    members.EVIDENCE = "evidence" in asked and "not evidence" not in asked
    settings.load_profile("fresh" if _fresh() else "suite")
    # several workers share the cores: threads of matrix products would wait for each other. Workers
    # and what they start inherit this; here numpy may be loaded already
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # tests start many interpreters, each of which would compile the whole package anew
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False  # nor is every file of tests compiled anew by every worker
    os.environ["DPFRAME_TRACEBACK"] = "full"  # of what fails here our own frames are wanted
    if _has_room(MEMORY):  # ledgers wait for a disk thousands of times; no test looks at the disk
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def _has_room(folder: str) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 4 * 2**30


def _fresh() -> bool:
    return members.EVIDENCE or bool(os.environ.get("DPFRAME_FRESH_NOISE"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    if _fresh():
        return (yield)
    made = np.random.default_rng(zlib.crc32(item.nodeid.encode()))

    def bits(n: int) -> NDArray[np.uint64]:
        return made.integers(2**64, size=n, dtype=np.uint64)

    with pytest.MonkeyPatch.context() as patched:  # as receipts say when noise was replaced
        patched.setattr("dpframe.noise.operating_system_bits", bits)
        return (yield)


@pytest.hookimpl(wrapper=True)  # all members of a test, whichever of them were asked for
def pytest_pycollect_makeitem() -> Iterator[object]:
    made = yield
    if isinstance(made, list):
        members.leave_out(made)
    return made


@settings(max_examples=1, database=None)
@given(none())
def _first(nothing: None) -> None:
    """Hypothesis registers its own generator; of what is frozen it would find no holder."""


def pytest_collection() -> None:
    gc.disable()  # what is collected stays


def pytest_collection_finish() -> None:
    _first()
    gc.freeze()  # and need not be looked at again each time
    gc.enable()
