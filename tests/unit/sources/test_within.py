"""Sources restricted to a period: the same records as by hand, at every bound and of every type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe._duck import VIEW
from dpframe.errors import ColumnError, SourceError
from dpframe.periods import UNITS, Period, as_period
from dpframe.sources.frames import require_columns
from dpframe.sources.source_relations import (
    PeriodReading,
    PeriodSource,
    open_source,
    period_reading,
    restrict_to_period,
)
from tests.members import tries
from tests.naive import in_period, period_name

MICROSECOND = dt.timedelta(microseconds=1)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _period(text: str | None, zone: str | None = None) -> Period:
    period = as_period(("when", text, zone))
    assert period is not None
    return period


def _ids(source: object, period: Period) -> list[int]:
    """Which rows are read."""
    restricted = restrict_to_period(source, period_reading(source, period))
    with open_source(restricted, ["id"]) as relation:
        found = relation.query(f"SELECT id FROM {VIEW}", False)
    return sorted(int(i) for i in found["id"].to_pylist())


def _table(times: Sequence[object], kind: pa.DataType | None) -> pa.Table:
    return pa.table({"id": list(range(len(times))), "when": pa.array(times, kind)})


def _around(period: Period, zone: str | None = None) -> list[dt.datetime]:
    """The instants about the bounds of a period, and one within."""
    start, end = period.instants if zone else period.bounds
    return [start - MICROSECOND, start, start + (end - start) / 2, end - MICROSECOND, end]


DATES = st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1))


@tries(30, 200)
@given(DATES, st.integers(0, 23), st.sampled_from(UNITS))
def test_a_period_holds_its_instants_as_written(day: dt.date, hour: int, unit: str) -> None:
    """Law: as written, the records are those that the clock names after the period."""
    at = dt.datetime(day.year, day.month, day.day, hour)
    period = _period(period_name(at, unit))
    times = _around(period)
    wanted = [i for i, t in enumerate(times) if in_period(t, unit, period.text)]
    assert wanted == [1, 2, 3]
    assert _ids(_table(times, pa.timestamp("us")), period) == wanted


@tries(30, 200)
@given(
    st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2036, 1, 1)),
    st.sampled_from(UNITS),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]),
    st.sampled_from(["us", "ns"]),
)
def test_instants_are_of_the_period_that_the_clock_of_the_zone_shows(
    at: dt.datetime, unit: str, zone: str, precision: str
) -> None:
    """Law: also where clocks change; the zone in which a column is written means nothing."""
    shown = at.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone))
    period = _period(period_name(shown, unit, zone), zone)
    times = _around(period, zone)
    assert in_period(shown, unit, period.text, zone)
    wanted = [i for i, t in enumerate(times) if in_period(t, unit, period.text, zone)]
    assert wanted == [1, 2, 3]
    for written in ("UTC", "America/Sao_Paulo"):
        assert _ids(_table(times, pa.timestamp(precision, written)), period) == wanted


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_hours_at_which_clocks_change(day: str) -> None:
    """Every minute of a day of 23 or 25 hours lies in the one hour that the clock shows."""
    zone = "Europe/Berlin"
    start, end = _period(day, zone).instants
    minutes = [start + dt.timedelta(minutes=m) for m in range(int((end - start).seconds / 60))]
    minutes += [end - dt.timedelta(minutes=m) for m in range(1, 150)]
    table = _table(minutes, pa.timestamp("us", "UTC"))
    for text in sorted({period_name(m, "hour", zone) for m in minutes}):
        wanted = [i for i, m in enumerate(minutes) if in_period(m, "hour", text, zone)]
        assert _ids(table, _period(text, zone)) == wanted


@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize("text", ["2026-W47", "1969-12", "1960..1979", "2026-11-22T13"])
def test_every_precision_of_times_is_cut_at_the_same_instants(unit: str, text: str) -> None:
    """Also before 1970; and of nanoseconds the last one before a bound is before it."""
    period, per = _period(text), PER_SECOND[unit]
    first, last = (b * per for b in period.seconds(instants=False))
    numbers = pa.array([first - 1, first, last - 1, last, None], pa.int64())
    table = pa.table({"id": list(range(5)), "when": numbers.view(pa.timestamp(unit))})
    assert _ids(table, period) == [1, 2]
    assert _ids(table, _period(None)) == [4]
    zoned = table.set_column(1, "when", numbers.view(pa.timestamp(unit, "Asia/Tokyo")))
    assert _ids(zoned, period) == [1, 2]
    assert _ids(zoned, _period(None)) == [4]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("text", ["2026", "1000..9998", "1200", "9000"])
def test_no_time_is_an_error_however_far_away_it_is(unit: str, zone: str | None, text: str) -> None:
    """An error would tell of a record."""
    ends = [2**63 - 1, -(2**63) + 1, 2**63 - 2, -(2**63) + 2, 0]
    table = pa.table(
        {"id": list(range(5)), "when": pa.array(ends, pa.int64()).view(pa.timestamp(unit, zone))}
    )
    assert _ids(table, _period(text)) == ([4] if text == "1000..9998" else [])


def test_far_dates_are_no_error_and_in_no_period() -> None:
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS FROM (VALUES (0, DATE '5000000-01-01'), (1, DATE '2026-11-22'), "
        "(2, 'infinity'::DATE), (3, '-infinity'::DATE), (4, NULL)) AS v(id, \"when\")"
    )
    assert _ids(con.table("t"), _period("2026-W47")) == [1]
    assert _ids(con.table("t"), _period("1000..9998")) == [1]
    assert _ids(con.table("t"), _period(None)) == [4]


DAYS = [dt.date(2026, 11, 15) + dt.timedelta(days=d) for d in range(10)]


@pytest.mark.parametrize(("unit", "text"), [("week", "2026-W47"), ("day", "2026-11-22")])
def test_dates_are_of_their_days(unit: str, text: str) -> None:
    wanted = [i for i, day in enumerate(DAYS) if in_period(day, unit, text)]
    assert wanted
    assert _ids(_table(DAYS, pa.date32()), _period(text)) == wanted


TEXTS = {
    "2026-11-16": True,
    "2026-11-15 23:59:59.999999": False,
    "2026-11-22T23:59:59": True,
    "2026-11-23 00:00": False,
    "2026-11-23T01:00:00+02:00": True,  # 23:00 in UTC, the day before
    "2026-11-16T01:00:00+02:00": False,
    "2026-11-22 23:30:00Z": True,
    "infinity": False,
    "yesterday": False,
    "": False,
}


def test_text_is_read_as_by_the_hierarchy_of_dates() -> None:
    table = _table([*TEXTS, None], pa.string())
    read = [i for i, within_ in enumerate(TEXTS.values()) if within_]
    assert _ids(table, _period("2026-W47")) == read
    unread = [i for i, text in enumerate([*TEXTS, None]) if text in ("yesterday", "", None)]
    assert _ids(table, _period(None)) == unread
    coded = table.set_column(1, "when", table["when"].dictionary_encode())
    assert _ids(coded, _period("2026-W47")) == read


def _frame() -> pd.DataFrame:
    hours = np.random.default_rng(3).integers(0, 24 * 30, 400)
    times = pd.Timestamp("2026-11-01") + pd.to_timedelta(hours, unit="h")
    frame = pd.DataFrame({"id": range(400), "when": times.as_unit("us")})
    frame.loc[::50, "when"] = pd.NaT
    return frame


def _sources(folder: Path) -> dict[str, Any]:
    frame = _frame()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    con = duckdb.connect()
    con.register("given", table)
    con.execute("CREATE TABLE t AS FROM given")
    pq.write_table(table, folder / "t.parquet")
    pacsv.write_csv(table, folder / "t.csv")
    objects = frame.assign(when=[None if pd.isna(t) else str(t) for t in frame["when"]])
    return {
        "pandas": frame,
        "pandas with a zone": frame.assign(when=frame["when"].dt.tz_localize("UTC")),
        "pandas of objects": objects.astype({"when": object}),
        "pandas of categories": frame.astype({"when": "category"}),
        "polars": pl.from_arrow(table),
        "polars, lazy": pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
        "arrow": table,
        "arrow, a batch": table.to_batches()[0],
        "parquet": folder / "t.parquet",
        "csv": folder / "t.csv",
        "relation": con.table("t"),
        "relation of a query": con.sql("SELECT * FROM t WHERE id >= 0"),
        "relation of a view": con.sql("FROM given"),
    }


@pytest.mark.parametrize("text", ["2026-W47", "2026-11-07", "2026-W45..2026-W46", None])
def test_every_kind_of_source_has_the_same_records(text: str | None, tmp_path: Path) -> None:
    units = {"2026-W47": "week", "2026-11-07": "day", "2026-W45..2026-W46": "week", None: "day"}
    times = [None if pd.isna(t) else t.to_pydatetime() for t in _frame()["when"]]
    wanted = [i for i, t in enumerate(times) if in_period(t, units[text], text)]
    assert 5 < len(wanted) < 200
    for name, source in _sources(tmp_path).items():
        assert _ids(source, _period(text)) == wanted, name


def test_a_column_with_a_strange_name() -> None:
    table = pa.table({"id": [0, 1], 'a "b"; --': pa.array([DAYS[0], DAYS[8]], pa.date32())})
    period = as_period(('a "b"; --', "2026-W48"))
    assert period is not None
    assert _ids(table, period) == [1]
    assert _ids(duckdb.connect().from_arrow(table), period) == [1]


def of_column(column: pa.Array) -> pa.Table:
    return pa.table({"when": column})


DATES_ONLY = _table(DAYS, pa.date32())
ZONE = "'Europe/Berlin' out of period"
REFUSED = {
    "whole numbers": (of_column(pa.array([1_700_000_000])), {}, "pd.to_datetime"),
    "fractions": (of_column(pa.array([1.5])), {}, "pd.to_datetime"),
    "booleans": (of_column(pa.array([True])), {}, "Name a column of times"),
    "times of the day": (of_column(pa.array([dt.time(3)])), {}, "Name a column of times"),
    "durations": (of_column(pa.array([dt.timedelta(3)])), {}, "Name a column of times"),
    "lists": (of_column(pa.array([[dt.date(2026, 1, 1)]])), {}, "dates, timestamps and ISO 8601"),
    "not there": (DATES_ONLY, {"column": "wen"}, "Did you mean 'when'"),
    **{
        f"a zone of {kind}": (_table([], kind), {"zone": "Europe/Berlin"}, ZONE)
        for kind in (pa.timestamp("us"), pa.date32(), pa.string())
    },
    "hours of dates": (DATES_ONLY, {"text": "2026-11-22T13"}, "has no hours"),
}


@pytest.mark.parametrize(("table", "asked", "says"), REFUSED.values(), ids=REFUSED)
def test_a_column_without_such_times(table: pa.Table, asked: dict[str, str], says: str) -> None:
    period = as_period((asked.get("column", "when"), asked.get("text", "2026"), asked.get("zone")))
    assert period is not None
    with pytest.raises(ColumnError, match=says) as error:
        period_reading(table, period)
    assert "1700000000" not in str(error.value)
    assert period_reading(DATES_ONLY, _period("2026-11-22T00..2026-11-22T23"))


def test_readings_that_can_give_a_record_two_times_are_axes_of_their_own() -> None:
    """A record at noon is at midnight in a column of dates: its two times are no one's blocks."""
    kinds = ("DATE", "VARCHAR", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
    axes = {PeriodReading(period=_period("2026"), kind=kind).axis for kind in kinds}
    assert len(axes) == len(kinds)
    same = {
        PeriodReading(period=_period("2026"), kind=kind).axis
        for kind in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
    }
    assert same == {"when as written"}


def test_a_column_that_changed_its_type_is_refused() -> None:
    reading = period_reading(DATES_ONLY, _period("2026-W47"))
    other = PeriodSource(_table([None], pa.timestamp("us")), reading)
    with pytest.raises(SourceError, match="changed while it was read"), open_source(other, ["id"]):
        pass


def test_a_source_says_nothing_of_its_rows() -> None:
    restricted = restrict_to_period(DATES_ONLY, PeriodReading(period=_period("2026"), kind="DATE"))
    assert repr(restricted) == "Within(when as dates, 2026)"


def test_a_column_of_another_case_is_the_one_that_is_meant() -> None:
    """Law: the name that differs in case only comes first, whatever looks alike otherwise."""
    with pytest.raises(ColumnError, match=r"^column 'TS' does not exist. Did you mean 'ts'[?] "):
        require_columns(["TS"], ["TSX", "ts", "day"])
