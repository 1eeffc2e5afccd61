"""Dates and times, as people read them."""

from __future__ import annotations

import pandas as pd
import pytest

import dpframe as dp
from dpframe.hierarchy import Hierarchy
from tests.rollups import exact_counts


def leaf(value: object, hierarchy: Hierarchy) -> tuple[str | None, ...]:
    frame = pd.DataFrame({"t": pd.Series([value], dtype=object)})
    return max(exact_counts(frame, hierarchy), key=len)


def test_labels_are_iso_dates() -> None:
    """Year, month, day and hour, each with what is above it."""
    found = leaf("2013-05-01 10:20:30", dp.date("t"))
    assert found == ("2013", "2013-05", "2013-05-01", "2013-05-01 10:00")


def test_levels_can_be_left_out() -> None:
    """Any of the levels, coarse to fine; the height is their number."""
    assert leaf("2013-05-01", dp.date("t", levels=("month",))) == ("2013-05",)
    assert leaf("2013-05-01", dp.date("t", levels=("year", "hour"))) == ("2013", "2013-05-01 00:00")
    assert dp.date("t", levels=("year", "day")).level_names == ("year", "day")


@pytest.mark.parametrize(
    "written",
    [
        "2013-05-01T23:30:00-02:00",
        "2013-05-02 03:30:00+02",
        "2013-05-02 01:30:00.5Z",
        "2013-05-02T07:15:00+0545",
        pd.Timestamp("2013-05-01 21:30", tz="America/New_York"),
        pd.Timestamp("2013-05-02 01:30", tz="UTC"),
    ],
)
def test_offsets_and_zones_are_read_in_utc(written: object) -> None:
    """One moment is one node, whether it comes as text or as a timestamp with a zone."""
    assert leaf(written, dp.date("t", levels=("day", "hour"))) == ("2013-05-02", "2013-05-02 01:00")


@pytest.mark.parametrize("written", ["2013-02-30", "infinity", "", None, pd.NaT, "last week", "20"])
def test_unreadable_times_are_invalid(written: object) -> None:
    assert leaf(written, dp.date("t")) == (None,)


def test_years_far_away_sort_before_and_after() -> None:
    """Year 1 and year 9999 are years like others."""
    frame = pd.DataFrame({"t": ["0001-01-01", "9999-12-31", "2013-05-01"]})
    assert exact_counts(frame, dp.date("t", levels=("year", "month"))) == {
        (): 3,
        ("0001",): 1,
        ("0001", "0001-01"): 1,
        ("2013",): 1,
        ("2013", "2013-05"): 1,
        ("9999",): 1,
        ("9999", "9999-12"): 1,
    }
