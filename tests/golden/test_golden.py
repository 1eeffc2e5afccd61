"""Requests, receipts, SQL's positional order and seeded frames are what they were."""

from __future__ import annotations

import json
import math
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
    """Law: the request of a call is the same text, so that its stored release replays; the frame of
    a seed is the same, and so is its receipt but for fields that are new."""
    found, kept = answer(call, frame, tmp_path), KEPT["released"][call]
    assert found["request"] == kept["request"]
    assert found["columns"] == kept["columns"]
    assert found["rows"] == kept["rows"]
    assert alike(_without_new_fields(json.loads(json.dumps(found["receipt"]))), kept["receipt"])


NEW_FIELDS = ("halves", "scale", "shared")
"""Fields of noise that receipts had not when the answers were written: the exact laws."""

NEW_FACTS = ("hidden_below", "not_shown")
"""Further facts that they had not: what a stream hides, and what any release does not show."""


def _without_new_fields(receipt: Any) -> Any:
    """A receipt whose laws of noise lack the new fields."""

    def known(value: Any) -> Any:
        if isinstance(value, list):
            return [known(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {name: known(each) for name, each in value.items() if name not in NEW_FIELDS}

    others = {name: value for name, value in receipt.items() if name not in NEW_FACTS}
    return {**others, "noise": known(receipt["noise"])}


def alike(here: Any, there: Any) -> bool:
    """Whether two documents are equal, but for the last bits of sums of floating-point numbers,
    whose order depends on the number of cores."""
    if isinstance(here, dict) and isinstance(there, dict):
        return here.keys() == there.keys() and all(alike(here[key], there[key]) for key in here)
    if isinstance(here, list) and isinstance(there, list):
        return len(here) == len(there) and all(map(alike, here, there))
    if isinstance(here, float) and isinstance(there, float):
        return math.isclose(here, there, rel_tol=1e-14)
    return bool(here == there) and type(here) is type(there)


def test_what_is_not_alike_is_told_apart() -> None:
    """Negative control."""
    assert alike({"a": [1.0, {"b": 0.1 + 0.2}]}, {"a": [1.0, {"b": 0.3}]})
    pairs = [({"a": 1}, {"b": 1}), ([1.0], [1.0, 2.0]), (0.3, 0.3 + 1e-13), (1, True), ("a", "b")]
    assert not any(alike(one, other) for one, other in pairs)
    law = {"test": {"sd": 1.0, "halves": []}, "shared": {}, "levels": [{"scale": "3"}]}
    known = _without_new_fields({"noise": law, "scale": 3})
    assert known == {"noise": {"test": {"sd": 1.0}, "levels": [{}]}, "scale": 3}


def test_parameters_of_macros_keep_their_places() -> None:
    """Law: positional calls of a macro mean what they meant; new parameters come last."""
    assert macros() == KEPT["macros"]
