"""Streams of rows merge where their types and domains are the same."""

from __future__ import annotations

import pandas as pd
import pytest

import dpframe as dp

ROWS = pd.DataFrame({"x": [1.0, 2.0, 6.0] * 10})


def stream() -> dp.PrivHP:
    out = dp.PrivHP({"x": (0, 8)}, k=4, depth=3, seed=5)
    out.update(ROWS)
    return out


def test_other_types_and_other_keys_are_refused() -> None:
    """What comes back has one type, and equal labels mean equal cells."""
    whole = dp.PrivHP({"x": (0, 8)}, k=4, depth=3, seed=5)
    whole.update(ROWS.astype("int64").astype("str"))
    with pytest.raises(dp.ParameterTypeError, match="types"):
        stream().merge(whole)
    a, b = (dp.PrivHP("columns:x", keys=keys, seed=1) for keys in (["a", "b"], ["b", "a"]))
    with pytest.raises(dp.ParameterError, match="different domain"):
        a.merge(b)
