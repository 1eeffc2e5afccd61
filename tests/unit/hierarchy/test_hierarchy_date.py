"""Dates and times, as people read them."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections import Counter

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.hierarchy import Hierarchy, as_hierarchy
from tests.members import some
from tests.rollups import exact_counts

ZONES = ["Europe/Paris", "America/New_York", "Africa/Casablanca", "Asia/Kathmandu", "Pacific/Apia"]


def leaf(value: object, hierarchy: Hierarchy) -> tuple[str | None, ...]:
    frame = pd.DataFrame({"t": pd.Series([value], dtype=object)})
    return max(exact_counts(frame, hierarchy), key=len)


def test_labels_are_iso_dates() -> None:
    found = leaf("2013-05-01 10:20:30", dp.date("t"))
    assert found == ("2013", "2013-05", "2013-05-01", "2013-05-01 10:00")


def test_levels_can_be_left_out_and_years_be_far_away() -> None:
    assert leaf("2013-05-01", dp.date("t", levels=("month",))) == ("2013-05",)
    assert leaf("2013-05-01", dp.date("t", levels=("year", "hour"))) == ("2013", "2013-05-01 00:00")
    for year in ("0001", "9999"):
        assert leaf(f"{year}-12-31", dp.date("t", levels=("year", "month"))) == (year, f"{year}-12")


def test_quarters_and_weeks_are_levels() -> None:
    """Law: an ISO week is under no year, month or quarter, since some lie in two."""
    quarters = dp.date("t", levels=("year", "quarter", "month"))
    assert leaf("2024-12-31", quarters) == ("2024", "2024-Q4", "2024-12")
    assert quarters.lineage(3, ("2024-12",)) == ("2024", "2024-Q4", "2024-12")
    weeks = dp.date("t", levels=("week", "day"))
    assert leaf("2024-12-31", weeks) == ("2025-W01", "2024-12-31")
    assert weeks.lineage(2, ("2024-12-31",)) == ("2025-W01", "2024-12-31")
    assert dp.date("t", levels=("week",)).spec == "date:t?levels=week"
    for around in ("year", "quarter", "month"):
        with pytest.raises(dp.HierarchyError, match=f"a week can lie in two {around}s.*week,day"):
            dp.date("t", levels=(around, "week"))


MOMENT = [
    *("2013-05-01T23:30:00-02:00", "2013-05-02 03:30:00+02", "2013-05-02 03:30:00+02:00 \t"),
    *("2013-05-02 01:30:00.5Z", "2013-05-02T07:15:00+0545"),
    pd.Timestamp("2013-05-01 21:30", tz="America/New_York"),
    pd.Timestamp("2013-05-02 01:30", tz="UTC"),
]


@pytest.mark.parametrize("written", MOMENT)
def test_offsets_and_zones_are_read_in_utc(written: object) -> None:
    assert leaf(written, dp.date("t", levels=("day", "hour"))) == ("2013-05-02", "2013-05-02 01:00")


MIDNIGHT = [
    *("2024-01-31T23:30:00Z", "2024-01-31 23:30:00+00:00", "2024-02-01 05:15:00+05:45"),
    *("2024-01-31 23:30:00 UTC", pd.Timestamp("2024-01-31 23:30", tz="UTC")),
    *("2024-02-01 00:30", pd.Timestamp("2024-02-01 00:30"), dt.datetime(2024, 2, 1, 0, 30)),
]


@some("2024-01-31T23:30:00Z", "written7")
@pytest.mark.parametrize("written", MIDNIGHT)
def test_a_zone_reads_times_by_its_clocks(written: object) -> None:
    """What has a zone is read in the zone that is asked for, what has none as it stands."""
    zoned = dp.date("t", levels=("month", "hour"), zone="Europe/Paris")
    assert leaf(written, zoned) == ("2024-02", "2024-02-01 00:00")


@pytest.mark.parametrize("written", ["2024-01-31 23:30:00 Asia/Tokyo", "0001-01-01 00:30+02:00"])
def test_what_a_zone_cannot_read_is_invalid(written: object) -> None:
    assert leaf(written, dp.date("t", zone="Europe/Paris")) == (None,)


MOMENTS = st.one_of(
    *(st.integers(a, b) for a, b in ((-62135510400, 253402214399), (-4 * 10**9, 5 * 10**9))),
    st.sampled_from([1711843200, 3703363200])  # clocks move in 2024, and in 2087
    .flatmap(lambda t: st.integers(t - 9000, t + 9000)),
)  # fmt: skip


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 has the offsets of pytz")
@given(st.lists(MOMENTS, min_size=40, max_size=80), st.sampled_from(ZONES))
@settings(max_examples=4, deadline=None)
def test_local_times_are_those_of_pandas(seconds: list[int], zone: str) -> None:
    """Law: at every moment, folds, gaps and mean times included, the hour is tz_convert's."""
    expect_local_times(seconds, zone)


@pytest.mark.evidence
@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 has the offsets of pytz")
@given(st.lists(MOMENTS, min_size=1, max_size=200), st.sampled_from(ZONES))
@settings(max_examples=100, deadline=None)
def test_many_local_times_are_those_of_pandas(seconds: list[int], zone: str) -> None:
    expect_local_times(seconds, zone)


def expect_local_times(seconds: list[int], zone: str) -> None:
    moments = pd.Series(pd.to_datetime(seconds, unit="s", utc=True).as_unit("us"))
    here = moments.dt.tz_convert(zoneinfo.ZoneInfo(zone))
    want = Counter(here.map(lambda t: f"{t.year:04}-{t:%m-%d %H}:00"))
    texts = moments.map(lambda t: f"{t.year:04}-{t:%m-%dT%H:%M:%S}Z")
    for column in (moments, texts):
        found = exact_counts(pd.DataFrame({"t": column}), dp.date("t", levels=("hour",), zone=zone))
        assert found == {(): len(seconds), **{(label,): n for label, n in want.items()}}


def test_a_zone_is_written_at_the_end_and_nothing_without_one() -> None:
    """Requests that were stored before there were zones keep their bytes."""
    assert dp.date("t").spec == "date:t"
    assert dp.date("t", levels=("year", "day")).spec == "date:t?levels=year,day"
    for zone in ("Europe/Paris", "Etc/GMT+1"):
        zoned = dp.date("t", zone=zone, invalid="drop")
        assert as_hierarchy(zoned.spec) == zoned
    assert dp.date("t", zone="Europe/Paris").spec == "date:t?zone=Europe/Paris"
    assert as_hierarchy("date:t?zone=Etc/GMT+1").zone == "Etc/GMT+1"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("zone", "hint"),
    [("europe/paris", "'Europe/Paris'"), ("Paris", "'Europe/Paris'"), ("New York", "'America/New")],
)  # fmt: skip
def test_a_wrong_zone_has_a_hint(zone: str, hint: str) -> None:
    with pytest.raises(dp.errors.HierarchyError, match=f"zone .*Did you mean {hint}"):
        dp.date("t", zone=zone)


@pytest.mark.parametrize("zone", ["", "localtime", "+01:00", 1])
def test_what_is_no_zone_is_refused(zone: object) -> None:
    with pytest.raises(dp.errors.HierarchyError, match="zone"):
        dp.date("t", zone=zone)  # type: ignore[arg-type]


def test_a_card_says_in_which_zone_times_are_read() -> None:
    """Plans and receipts, of every kind of release of a hierarchy."""
    given = {"epsilon": 1.0, "delta": 1e-6}
    for explained in (dp.explain, dp.explain_tree_counts):
        assert "times with a zone are read in UTC" in str(explained("date:t", **given))
        assert "read in Asia/Tokyo" in str(explained("date:t?zone=Asia/Tokyo", **given))
    frame = pd.DataFrame({"t": pd.date_range("2024-01-31 23:30", periods=300, freq="ms", tz="UTC")})
    found = frame.dp.hhh("date:t?levels=month&zone=Europe/Paris", **given)
    assert found["prefix"].tolist() == ["*", "2024-02"]
    assert "read in Europe/Paris" in str(found.dp.receipt)


@pytest.mark.parametrize("written", ["2013-02-30", "infinity", "", None, pd.NaT, "last week", "20"])
def test_unreadable_times_are_invalid(written: object) -> None:
    assert leaf(written, dp.date("t")) == (None,)
