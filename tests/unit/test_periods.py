"""Periods as callers write them: their bounds, their canonical texts, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.periods import (
    UNITS,
    Period,
    as_period,
    last_complete,
    period_from_option,
    periods_of,
    unit_of_period,
)

TIMES = st.datetimes(datetime(1002, 1, 10), datetime(9990, 1, 1))


def _period(text: str | None, zone: str | None = None) -> Period:
    period = as_period(("when", text, zone))
    assert period is not None
    return period


def _holding(unit: str, at: datetime) -> str:
    """The text of the period of a unit that holds a time, by another route: ``strftime``."""
    if unit == "quarter":
        return f"{at.year}-Q{'111222333444'[at.month - 1]}"
    forms = {"year": "%Y", "month": "%Y-%m", "week": "%G-W%V", "day": "%Y-%m-%d"}
    return at.strftime(forms.get(unit, "%Y-%m-%dT%H"))


BOUNDS = """
2026                   2026-01-01T00 2027-01-01T00
2026-Q1                2026-01-01T00 2026-04-01T00
2026-Q4                2026-10-01T00 2027-01-01T00
2026-12                2026-12-01T00 2027-01-01T00
2024-02                2024-02-01T00 2024-03-01T00
2026-W47               2026-11-16T00 2026-11-23T00
2026-W01               2025-12-29T00 2026-01-05T00
2026-W53               2026-12-28T00 2027-01-04T00
2021-W01               2021-01-04T00 2021-01-11T00
2024-02-29             2024-02-29T00 2024-03-01T00
2026-12-31             2026-12-31T00 2027-01-01T00
2026-11-22T13          2026-11-22T13 2026-11-22T14
2026-12-31T23          2026-12-31T23 2027-01-01T00
2026-W40..2026-W47     2026-09-28T00 2026-11-23T00
2026-W53..2027-01-04   2026-12-28T00 2027-01-05T00
9998                   9998-01-01T00 9999-01-01T00
"""


@pytest.mark.parametrize(
    ("text", "start", "end"), [line.split() for line in BOUNDS.split("\n")[1:-1]]
)
def test_bounds_of_a_period(text: str, start: str, end: str) -> None:
    """Half open; weeks begin on Monday and belong to the year of their Thursday."""
    assert _period(text).bounds == (datetime.fromisoformat(start), datetime.fromisoformat(end))
    assert _period(text).text == text


@settings(deadline=None)
@given(TIMES, st.sampled_from(UNITS))
def test_every_time_lies_in_the_period_that_is_named_after_it(at: datetime, unit: str) -> None:
    text = _holding(unit, at)
    start, end = _period(text).bounds
    assert start <= at < end
    assert unit_of_period(text) == unit
    assert _holding(unit, start) == text == _holding(unit, end - timedelta(microseconds=1))
    assert _holding(unit, end) != text


@settings(deadline=None)
@given(TIMES, st.sampled_from(UNITS), st.integers(0, 60))
def test_consecutive_periods_meet_and_none_is_left_out(at: datetime, unit: str, more: int) -> None:
    days = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1, "hour": 1 / 24}[unit]
    last = at + min(timedelta(days=days * more), datetime(9998, 12, 1) - at)
    texts = list(periods_of(unit, _holding(unit, at), _holding(unit, last)))
    bounds = [_period(text).bounds for text in texts]
    assert texts[0] == _holding(unit, at)
    assert texts[-1] == _holding(unit, last)
    assert [end for _, end in bounds[:-1]] == [start for start, _ in bounds[1:]]


def test_a_year_of_weeks_has_its_53rd() -> None:
    found = list(periods_of("week", "2026-W52", "2027-W02"))
    assert found == ["2026-W52", "2026-W53", "2027-W01", "2027-W02"]
    assert len(list(periods_of("week", "2026-W01", "2026-W53"))) == 53


@settings(deadline=None)
@given(TIMES, st.sampled_from(UNITS))
def test_the_last_complete_period_ends_where_the_present_one_begins(
    at: datetime, unit: str
) -> None:
    last, present = last_complete(unit, at), _holding(unit, at)
    assert _period(last).bounds[1] == _period(present).bounds[0]


def test_a_period_is_complete_at_the_instant_that_it_ends() -> None:
    monday = datetime(2026, 11, 23)
    assert last_complete("week", monday) == "2026-W47"
    assert last_complete("week", monday - timedelta(microseconds=1)) == "2026-W46"
    assert last_complete("day", monday.replace(tzinfo=ZoneInfo("Europe/Berlin"))) == "2026-11-22"


WRITINGS = [
    *((" 2026-w47 ", "2026-W47"), ("2026-q4", "2026-Q4"), ("2026-11-22t13", "2026-11-22T13")),
    *(("2026-W40 .. 2026-W47", "2026-W40..2026-W47"), ("2026-W47..2026-W47", "2026-W47")),
]


@pytest.mark.parametrize(("text", "canonical"), WRITINGS)
def test_one_period_has_one_writing(text: str, canonical: str) -> None:
    assert _period(text) == _period(canonical)
    assert _period(text).text == canonical


def test_given_in_any_of_its_forms() -> None:
    period = _period("2026-W47")
    assert as_period(period) is period
    assert as_period(["when", "2026-W47"]) == period == as_period(("when", "2026-W47", None))
    assert as_period(period.request) == period
    assert period_from_option("when=2026-W47") == period
    assert period_from_option("a=b=2026-W47") == as_period(("a=b", "2026-W47"))
    zoned = _period("2026-W47", "Europe/Berlin")
    assert period_from_option("when=2026-W47@Europe/Berlin") == zoned
    nothing = as_period(("when", None))
    assert nothing == period_from_option("when=NULL")
    assert nothing is not None
    assert nothing.request == ["when", None, None]
    assert (nothing.start, nothing.end) == (None, None)


CHANGED: list[dict[str, Any]] = [
    *({"end": datetime(2026, 11, 24)}, {"start": datetime(2026, 11, 16, 0, 0, 0, 500_000)}),
    *({"start": None, "end": None}, {"text": "2026-w47"}, {"text": "2026-W48"}, {"text": None}),
]


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_a_period_has_the_bounds_of_its_text(changed: dict[str, Any]) -> None:
    """Law: what is read is what a name replays, and what the seconds of a block hold."""
    with pytest.raises(ParameterError, match="other bounds"):
        as_period(replace(_period("2026-W47"), **changed))


BACKWARDS = ("2026-W47..2026-W40", "2026-11..2026-10", "2026-11-22..2026", "2026..2026-11")
UNREADABLE = [
    *("yesterday", "", "2026-13", "2026-Q5", "26-W47", "2026-W4", "2026-11-22T13:30"),
    *("2026-W40...2026-W47", "2026..", "\u0662\u0660\u0662\u0666"),
]


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        *((("when", text), "cannot be read") for text in UNREADABLE),
        (("when", "2025-W53"), "2025 has the ISO weeks 01 to 52"),
        (("when", "2026-W00"), "2026 has the ISO weeks 01 to 53"),
        *((("when", day), "does not exist") for day in ("2026-02-29", "2026-11-22T24")),
        *((("when", year), "from 1000 to 9998") for year in ("0999", "9999")),
        *((("when", text), "ends before it begins") for text in BACKWARDS),
        *((("when", "2026", zone), "IANA name") for zone in ("Berlin", "../UTC")),
        (("when", None, "UTC"), "they have no zone"),
        *((given, "two or three parts") for given in (("when",), ("when", "2026", None, None))),
    ],
)
def test_what_is_no_period_is_refused(given_: object, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        as_period(given_)


OTHERS: list[object] = [
    *("2026-W47", 2026, (7, "2026"), ("when", 2026), ("when", pd.NaT), ("when", "2026", 1)),
    *(("when", datetime(2026, 1, 1)), ("when", pd.Timestamp(2026, 1, 1)), {"when": "2026"}),
    ("when", pd.Period("2026-01-01 10:30", "min")),
]


@pytest.mark.parametrize("given_", OTHERS)
def test_what_has_another_type_is_refused(given_: object) -> None:
    with pytest.raises(ParameterTypeError, match="period"):
        as_period(given_)


def test_options_without_a_column_are_refused() -> None:
    with pytest.raises(ParameterError, match="when=2026-W47"):
        period_from_option("2026-W47")
    with pytest.raises(ParameterError, match="IANA"):
        period_from_option("when=2026-W47@")


def test_units_are_named() -> None:
    for asked, words in (
        (("fortnight", "2026", "2027"), "unit"),
        (("week", "2026-W01", "2026-11"), "is no week"),
        (("week", "2026-W01..2026-W02", "2026-W11"), "is no week"),
        (("week", "2026-W11", "2026-W10"), "before the first"),
    ):
        with pytest.raises(ParameterError, match=words):
            periods_of(*asked)
    assert unit_of_period("2026-W01..2026-W02") is None


def test_instants_are_those_of_the_zone() -> None:
    """With summer time: a day of 23 and one of 25 hours in Berlin."""
    for day, start, end in (
        ("2026-03-29", datetime(2026, 3, 28, 23), datetime(2026, 3, 29, 22)),
        ("2026-10-25", datetime(2026, 10, 24, 22), datetime(2026, 10, 25, 23)),
    ):
        instants = (start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
        assert _period(day, "Europe/Berlin").instants == instants
    assert _period("2026-10-25").instants[0] == datetime(2026, 10, 25, tzinfo=UTC)


def test_an_hour_that_the_clocks_show_twice_is_one_period_of_two_hours() -> None:
    start, end = _period("2026-10-25T02", "Europe/Berlin").instants
    assert end - start == timedelta(hours=2)


def test_an_hour_that_the_clocks_leave_out_is_refused() -> None:
    with pytest.raises(ParameterError, match="does not exist in Europe/Berlin"):
        _period("2026-03-29T02", "Europe/Berlin")
    assert _period("2026-03-29T02").text == "2026-03-29T02"


def test_every_hour_that_is_left_out_where_clocks_go_two_hours_forward_is_refused() -> None:
    """Law: no instant is in two hours. In Troll clocks went from 01:00 to 03:00."""
    for hour in ("2024-03-31T01", "2024-03-31T02"):
        with pytest.raises(ParameterError, match="does not exist in Antarctica/Troll"):
            _period(hour, "Antarctica/Troll")
    before, after = (_period(f"2024-03-31T{h}", "Antarctica/Troll").instants for h in ("00", "03"))
    assert before[1] == after[0]
    assert after[1] - after[0] == timedelta(hours=1)


ZONES = [
    *("UTC", "Antarctica/Troll", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"),
    *("America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"),
]


@settings(deadline=None)
@given(
    st.datetimes(datetime(1900, 1, 10), datetime(2100, 1, 1)),
    st.sampled_from(ZONES),
    st.sampled_from(["year", "quarter", "month", "week", "day"]),
)
def test_periods_of_a_zone_meet_and_overlap_nowhere(at: datetime, zone: str, unit: str) -> None:
    """Consecutive periods share an instant as their bound, whatever the clocks do there."""
    first, second = list(periods_of(unit, last_complete(unit, at), _holding(unit, at)))
    if zone == "Pacific/Apia" and "2011-12-30" in (first, second):
        return  # a day that Samoa left out
    first_, second_ = _period(first, zone), _period(second, zone)
    assert first_.instants[1] == second_.instants[0]
    assert first_.seconds(instants=True)[1] == second_.seconds(instants=True)[0]


def test_a_day_that_a_zone_left_out_is_refused() -> None:
    with pytest.raises(ParameterError, match="does not exist in Pacific/Apia"):
        _period("2011-12-30", "Pacific/Apia")


def test_seconds_are_whole_and_half_open() -> None:
    day = 86_400
    assert _period("1970-01-02").seconds(instants=False) == (day, 2 * day)
    berlin = _period("1970-01-02", "Europe/Berlin").seconds(instants=True)
    assert berlin == (day - 3600, 2 * day - 3600)
    assert _period("1969-12-31").seconds(instants=True) == (-day, 0)


def test_a_period_that_is_not_over_is_refused() -> None:
    """As written by the clock that is shown; as instants by the instant that it is."""
    week = _period("2026-W47")
    berlin = datetime(2026, 11, 23, tzinfo=ZoneInfo("Europe/Berlin"))  # 23:00 in UTC
    week.check_ended(instants=False, now=berlin)
    with pytest.raises(ParameterError, match=r"2026-11-23 00:00 UTC.*data="):
        week.check_ended(instants=True, now=berlin)
    _period("2026-W47", "Europe/Berlin").check_ended(instants=True, now=berlin)
    soon = berlin - timedelta(microseconds=1)
    for period, instants in ((week, False), (_period("2026-W47", "Europe/Berlin"), True)):
        with pytest.raises(ParameterError, match="is not over"):
            period.check_ended(instants=instants, now=soon)
    _period(None).check_ended(instants=False, now=soon)
    with pytest.raises(ParameterError, match="is not over"):
        _period("2020..9998").check_ended(instants=False)


FREQUENCIES = dict(zip(UNITS, ("Y-DEC", "Q-DEC", "M", "W-SUN", "D", "h"), strict=True))


@given(at=st.datetimes(datetime(1678, 1, 1), datetime(2261, 1, 1)), unit=st.sampled_from(UNITS))
def test_a_period_of_pandas_is_the_one_with_its_bounds(at: datetime, unit: str) -> None:
    """Law: stored by the text that it has here, with the instants that pandas says it holds."""
    theirs = pd.Period(at, FREQUENCIES[unit])
    ours = as_period(("when", theirs))
    assert ours is not None
    assert ours.text is not None
    assert unit_of_period(ours.text) == unit
    assert ours == as_period(("when", ours.text))
    assert ours.start == theirs.start_time
    assert ours.end == (theirs + 1).start_time


@given(day=st.dates(date(1000, 1, 1), date(9998, 12, 31)))
def test_a_date_is_a_day(day: date) -> None:
    assert as_period(("when", day)) == as_period(("when", day.isoformat()))


NEARLY = [
    *(("2026W47", "2026-W47"), ("2026-W4", "2026-W04"), ("2026w4", "2026-W04")),
    *(("2026Q4", "2026-Q4"), ("2026 Q4", "2026-Q4"), ("2026/11", "2026-11")),
    *(("2026-1", "2026-01"), ("2026.11.22", "2026-11-22"), ("2026-11-22 13:00", "2026-11-22T13")),
    *((f"2026-W40{to}2026-W47", "2026-W40..2026-W47") for to in (":", "-", " to ")),
    ("2026-1/2026-3", "2026-01..2026-03"),
]


@pytest.mark.parametrize(("written_", "meant"), NEARLY)
def test_a_text_that_is_nearly_a_period_is_answered_with_it(written_: str, meant: str) -> None:
    with pytest.raises(ParameterError) as raised:
        as_period(("when", written_))
    assert str(raised.value).startswith(f"period ({written_!r}) cannot be read. Write")
    assert str(raised.value).endswith(f" Did you mean {meant!r}?")
    assert as_period(("when", meant)) is not None


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ("2026-W47", r"Write \('when', '2026-W47'\), with the name of your column"),
        ("ts=2026-W47", r"Write \('ts', '2026-W47'\)"),
        ("ts", r"got str\."),
        (("2026-W47", "ts"), r"must begin with the column.*\('ts', '2026-W47'\)"),
        (("ts", "2026-W40", "2026-W47"), r"got '2026-W47'\. Write a range"),
        (("ts", datetime(2026, 1, 1)), r"pass its \.date\(\) for the day"),
        (("ts", "NULL"), r"Records without a time are None"),
        (("ts", "2026-W99"), r"weeks 01 to 53"),
        (("ts", "2026-W77:2026-W88"), r"such as '2026-W40\.\.2026-W47'\.$"),
        (("ts", "last week"), r"'last week'.*such as '2026-W40\.\.2026-W47'\.$"),
    ],
)
def test_parts_in_the_wrong_place_are_put_right(given_: object, says: str) -> None:
    """Law: the message has what to write; where nothing is sure it guesses nothing."""
    with pytest.raises((ParameterError, ParameterTypeError), match=says):
        as_period(given_)
