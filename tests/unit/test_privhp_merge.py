"""Streams merge once: whatever stands for a stream that is in already is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pandas as pd
import pytest

import dpframe as dp

ROWS = pd.DataFrame({"x": [1.0, 2.0, 6.0] * 10})


def stream() -> dp.PrivHP:
    out = dp.PrivHP({"x": (0, 8)}, k=4, depth=3, seed=5)
    out.update(ROWS)
    return out


def test_a_stream_in_disguise_is_refused(tmp_path: Path) -> None:
    """Itself, a copy, a pickle, its file, and a merge that holds it."""
    one, two = stream(), stream()
    one.save(tmp_path / "one")
    again = [one, copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))]
    again += [dp.PrivHP.load(tmp_path / "one"), one.merge(two)]
    for other in again:
        with pytest.raises(dp.ParameterError, match=r"twice|once"):
            one.merge(other)
    assert one.merge(two)._state.records == 60


def test_other_types_and_other_keys_are_refused() -> None:
    """What comes back has one type, and equal labels mean equal cells."""
    whole = dp.PrivHP({"x": (0, 8)}, k=4, depth=3, seed=5)
    whole.update(ROWS.astype("int64").astype("str"))
    with pytest.raises(dp.ParameterTypeError, match="types"):
        stream().merge(whole)
    a, b = (dp.PrivHP("columns:x", keys=keys, seed=1) for keys in (["a", "b"], ["b", "a"]))
    with pytest.raises(dp.ParameterError, match="domains"):
        a.merge(b)
