"""Requests, receipts, SQL's positional order and seeded frames are what they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.doors import rows
from tests.golden.answers import CALLS, FILE, answer, macros

KEPT: dict[str, Any] = json.loads(FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return rows()


def test_every_call_has_its_answer() -> None:
    assert list(KEPT["released"]) == list(CALLS)


@pytest.mark.parametrize("call", CALLS)
def test_what_is_stored_stays_as_it_was(call: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """Law: the request of a call is the same text, so that its stored release replays; the receipt
    and the frame of a seed are the same."""
    found, kept = answer(call, frame, tmp_path), KEPT["released"][call]
    assert found["request"] == kept["request"]
    assert found["columns"] == kept["columns"]
    assert found["rows"] == kept["rows"]
    assert json.loads(json.dumps(found["receipt"])) == kept["receipt"]


def test_parameters_of_macros_keep_their_places() -> None:
    """Law: positional calls of a macro mean what they meant; new parameters come last."""
    assert macros() == KEPT["macros"]
