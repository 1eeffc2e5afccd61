"""Numbers in declared bounds, as people read them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import ColumnError
from tests.rollups import exact_counts


def found(values: list[float], **options: object) -> dict[tuple[str | None, ...], int]:
    hierarchy = dp.number("x", **options)  # type: ignore[arg-type]
    return exact_counts(pd.DataFrame({"x": np.array(values, dtype=np.float64)}), hierarchy)


def test_labels_are_intervals() -> None:
    """Half open, and closed at the upper bound."""
    hierarchy = dp.number("x", lower=0, upper=100, depth=3)
    assert hierarchy.label(3, ("0",)) == "[0, 12.5)"
    assert hierarchy.label(3, ("7",)) == "[87.5, 100]"
    assert hierarchy.label(1, ("0",)) == "[0, 50)"
    assert hierarchy.label(1, (None,)) == "<invalid>"
    assert hierarchy.level_names == ("1/2", "1/4", "1/8")


def test_a_boundary_belongs_to_the_interval_above() -> None:
    """[0, 50) and [50, 100]."""
    assert found([0, 49.999, 50, 100], lower=0, upper=100, depth=1) == {
        (): 4,
        ("[0, 50)",): 2,
        ("[50, 100]",): 2,
    }


def test_values_outside_count_in_the_nearest_interval() -> None:
    """Infinities too; only NaN is invalid."""
    values = [-1, float("-inf"), -0.0, 101, float("inf"), 1e308, float("nan")]
    assert found(values, lower=0, upper=100, depth=1) == {
        (): 7,
        (None,): 1,
        ("[0, 50)",): 3,
        ("[50, 100]",): 3,
    }


def test_integers_booleans_and_texts_are_numbers() -> None:
    """Of every type that can hold numbers; what is none is invalid, and no date is one."""
    hierarchy = dp.number("x", lower=0, upper=2, depth=1)
    for column in ([0, 1], [False, True], ["0", "1.0"], pd.Series([0, 1], dtype="Int64")):
        frame = pd.DataFrame({"x": column})
        assert exact_counts(frame, hierarchy) == {(): 2, ("[0, 1)",): 1, ("[1, 2]",): 1}
    assert exact_counts(pd.DataFrame({"x": ["one", ""]}), hierarchy) == {(): 2, (None,): 2}
    dates = pd.DataFrame({"x": pd.to_datetime(["2013-05-01"])})
    with pytest.raises(ColumnError, match=r"has type TIMESTAMP.*; number reads numbers and text"):
        exact_counts(dates, hierarchy)


def test_bounds_may_be_as_large_as_doubles_allow() -> None:
    """The width of the bounds does not overflow, and 48 halvings are exact."""
    assert found([0.0], lower=-1e300, upper=1e300, depth=1) == {(): 1, ("[0, 1e+300]",): 1}
    deep = found([1.0], lower=0, upper=2**48, depth=48)
    assert len(deep) == 49
    assert max(deep, key=len)[-1] == "[1, 2)"


def test_equal_bounds_are_equal_hierarchies() -> None:
    """Integers and floats of one value, and integers that no float holds, mean one thing."""
    assert dp.number("x", lower=0, upper=1) == dp.number("x", lower=0.0, upper=1.0)
    assert dp.number("x", lower=0, upper=2**63 - 1) == dp.number("x", lower=0, upper=2**63)
