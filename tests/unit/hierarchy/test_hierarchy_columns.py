"""Several columns as levels, as people read them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from tests.rollups import exact_counts

PLACES = pd.DataFrame(
    {
        "continent": ["Europe", "Europe", None, "", "America"],
        "country": ["France", None, "France", "France", "United States"],
        "city": ["Paris", "Paris", "Paris", "Paris", "Paris"],
    }
)


def test_labels_are_joined_with_slashes() -> None:
    """``Europe / France``; missing values read <invalid>."""
    hierarchy = dp.columns("continent", "country")
    assert hierarchy.label(2, ("Europe", "France")) == "Europe / France"
    assert hierarchy.label(1, ("Europe", None)) == "Europe"
    assert hierarchy.label(2, ("Europe", None)) == "Europe / <invalid>"
    assert hierarchy.level_names == ("continent", "country")


def test_missing_values_are_nodes_under_their_parents() -> None:
    """NULL and empty text meet; the levels below a missing value still count."""
    found = exact_counts(PLACES, dp.columns("continent", "country", "city"))
    assert found[(None,)] == found[(None, "France")] == 2
    assert found[("Europe",)] == 2
    assert found[("Europe", None, "Paris")] == 1


def test_dropping_needs_only_one_missing_level() -> None:
    """With invalid="drop" a row with any missing level is gone from every level."""
    found = exact_counts(PLACES, dp.columns("continent", "country", "city", invalid="drop"))
    assert found[()] == 2
    assert all(None not in path for path in found)


def test_a_value_that_reads_like_the_invalid_node_is_another_node() -> None:
    """The text <invalid> is a value; so is the text NULL."""
    frame = pd.DataFrame({"a": ["<invalid>", None, "NULL", np.nan]})
    assert exact_counts(frame, dp.columns("a")) == {
        (): 4,
        ("<invalid>",): 1,
        ("NULL",): 1,
        (None,): 2,
    }


def test_labels_that_look_alike_are_nodes_apart() -> None:
    """A separator inside of a value does not merge nodes."""
    frame = pd.DataFrame({"a": ["x / y", "x"], "b": ["z", "y / z"]})
    found = exact_counts(frame, dp.columns("a", "b"))
    assert found[("x / y", "z")] == found[("x", "y / z")] == 1


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("country",), ("country",)),
        (("level", "prefix"), ("level_", "prefix_")),
        (("count", "count_"), ("count__", "count_")),
        (("lower", "lower_", "lower__"), ("lower___", "lower_", "lower__")),
    ],
)
def test_reserved_names_get_a_free_suffix(names: tuple[str, ...], columns: tuple[str, ...]) -> None:
    """No column of a result is ever overwritten by a level."""
    assert dp.columns(*names).label_columns == columns  # type: ignore[attr-defined]
