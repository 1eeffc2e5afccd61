"""Tells the tests whether their long versions were asked for: ``pytest -m evidence``."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings

from tests import members

settings.register_profile("suite", deadline=None)  # other processes take the processors, too
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    asked = str(config.option.markexpr)
    members.EVIDENCE = "evidence" in asked and "not evidence" not in asked
    # several workers share the cores: threads of matrix products would wait for each other. Workers
    # and what they start inherit this; here numpy may be loaded already
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # tests start many interpreters, each of which would compile the whole package anew
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["DPFRAME_TRACEBACK"] = "full"  # of what fails here our own frames are wanted


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    members.leave_out(items)


def pytest_collection() -> None:
    gc.disable()  # what is collected stays


def pytest_collection_finish() -> None:
    gc.freeze()  # and need not be looked at again each time
    gc.enable()
