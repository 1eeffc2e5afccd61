"""``period=`` at every question and every door: the records of a period, and what they cost."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import ParameterError, ReleaseNameError
from dpframe.ledger import Ledger
from dpframe.testing import seeded_noise
from tests.doors import in_this_process
from tests.members import some
from tests.naive import in_period

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5}
WEEK = "2023-W45"
PERIOD = ("when", WEEK)
NEXT = ("when", "2023-W46")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Five weeks of records, which are over, and some without a time."""
    generator = np.random.default_rng(19)
    n = 6_000
    minutes = generator.integers(0, 35 * 24 * 60, n)
    frame = pd.DataFrame(
        {
            "who": [f"user {i}" for i in generator.integers(0, 900, n)],
            "place": [f"{'ab'[i % 2]}/{i % 5}" for i in generator.zipf(1.6, n) % 20],
            "item": [("apple", "pear", "plum")[i] for i in generator.integers(0, 3, n)],
            "amount": generator.integers(0, 50, n).astype("float64"),
            "when": pd.Series(
                pd.Timestamp("2023-10-16") + pd.to_timedelta(minutes, unit="min")
            ).astype("datetime64[us]"),
        }
    )
    frame.loc[::97, "when"] = pd.NaT
    return frame


def by_hand(frame: pd.DataFrame, unit: str = "week", text: str | None = WEEK) -> pd.DataFrame:
    times = [None if pd.isna(t) else t.to_pydatetime() for t in frame["when"]]
    return frame[[in_period(t, unit, text) for t in times]].reset_index(drop=True)


def of_rows(generator: dp.Generator) -> pd.DataFrame:
    return generator.sample(50, seed=3)


CALLS: dict[str, Any] = {
    "hhh": lambda source, **more: dp.hhh(source, "path:place", **BUDGET, **more),
    "hhh by user": lambda source, **more: dp.hhh(
        source, "path:place", user="who", **BUDGET, **more
    ),
    "hhh by shares of a user": lambda source, **more: dp.hhh(
        source, "path:place", user="who", contribution="share", **BUDGET, **more
    ),
    "hhh by records of a user": lambda source, **more: dp.hhh(
        source,
        "path:place",
        user="who",
        contribution="records",
        max_contributions=3,
        **BUDGET,
        **more,
    ),
    "hhh of an amount": lambda source, **more: dp.hhh(
        source, "path:place", weight="amount", max_weight=50, **BUDGET, **more
    ),
    "hhh in a stream": lambda source, **more: dp.hhh(
        source, "path:place", mechanism="streaming", counters=64, **BUDGET, **more
    ),
    "hhh of users in a stream": lambda source, **more: dp.hhh(
        source,
        "path:place",
        mechanism="streaming",
        counters=64,
        user="who",
        contribution="items",
        max_contributions=3,
        **BUDGET,
        **more,
    ),
    "heavy_hitters": lambda source, **more: dp.heavy_hitters(source, "place", **BUDGET, **more),
    "rollup": lambda source, **more: dp.rollup(
        source, "path:place", ["count", "sum(amount, 0, 50)"], **BUDGET, **more
    ),
    "rollup by user": lambda source, **more: dp.rollup(
        source,
        "path:place",
        ["count", "mean(amount, 0, 50)", "distinct(item, 2)"],
        user="who",
        **BUDGET,
        **more,
    ),
    "tree_counts": lambda source, **more: dp.tree_counts(
        source, ["item"], keys=["apple", "pear"], epsilon=1.0, **more
    ),
    "synthesize": lambda source, **more: of_rows(
        dp.synthesize(source, {"amount": (0, 50)}, epsilon=4.0, seed=5, **more)
    ),
    "prefix_tree": lambda source, **more: dp.prefix_tree(
        source, "item", user="who", epsilon=8.0, delta=1e-5, **more
    ),
}


@some("hhh", "hhh by records of a user", "hhh of users in a stream", "rollup", "synthesize")
@pytest.mark.parametrize("question", CALLS)
def test_a_question_of_a_period_is_the_question_of_its_records(
    question: str, frame: pd.DataFrame
) -> None:
    ask = CALLS[question]
    picked = by_hand(frame)
    assert 500 < len(picked) < 2_500
    with seeded_noise(23):
        found = ask(frame, period=PERIOD)
    with seeded_noise(23):
        wanted = ask(picked)
    pd.testing.assert_frame_equal(found, wanted)
    with seeded_noise(23):
        other = ask(frame, period=NEXT)
    assert not other.equals(wanted)


def test_records_without_a_time_are_a_period_of_their_own(frame: pd.DataFrame) -> None:
    with seeded_noise(1):
        found = CALLS["hhh"](frame, period=("when", None))
    with seeded_noise(1):
        wanted = CALLS["hhh"](by_hand(frame, "day", None))
    pd.testing.assert_frame_equal(found, wanted)


def test_rows_drawn_in_sql_are_of_the_period(frame: pd.DataFrame) -> None:
    early = frame["when"] < pd.Timestamp("2023-11-01")
    shifted = frame.assign(amount=np.where(early, 1.0, 40.0))  # noqa: F841
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM shifted")
    dp.register(con)
    rows = con.execute(
        "FROM dp_synthesize('t', {'amount': [0, 50]}, n := 200, epsilon := 8.0, "
        "period := ['when', '2023-11'])"
    ).fetchall()
    assert sum(amount > 25 for (amount,) in rows) > 180


def test_the_receipt_says_what_was_read(frame: pd.DataFrame) -> None:
    receipt = CALLS["hhh by user"](frame, period=PERIOD).dp.receipt
    assert receipt["period"] == {
        "column": "when",
        "text": WEEK,
        "zone": None,
        "start": "2023-11-06T00:00:00",
        "end": "2023-11-13T00:00:00",
        "read": "written",
    }
    assert receipt["neighbours"].endswith("where all records of that user lie within one period")
    assert receipt["guarantee"].endswith("where all records of that user lie within one period")
    card = str(receipt)
    assert "2023-11-06 00:00:00 to before 2023-11-13 00:00:00" in card
    assert "within one period" in card
    assert "d disjoint periods" in card


def test_the_receipt_of_records_promises_for_a_record(frame: pd.DataFrame) -> None:
    receipt = CALLS["hhh"](frame, period=PERIOD).dp.receipt
    assert receipt["neighbours"] == "adding or removing one record"
    assert "period" not in CALLS["hhh"](frame).dp.receipt


def test_the_receipt_says_which_zone_was_meant(frame: pd.DataFrame) -> None:
    """Of instants the zone is UTC where none was given, and the card says so."""
    zoned = frame.assign(when=frame["when"].dt.tz_localize("UTC"))
    utc = CALLS["hhh"](zoned, period=PERIOD).dp.receipt
    assert utc["period"]["zone"] == "UTC"
    assert "the clock of UTC" in str(utc)
    berlin = CALLS["hhh"](zoned, period=(*PERIOD, "Europe/Berlin")).dp.receipt
    assert berlin["period"]["zone"] == "Europe/Berlin"
    assert "the clock of Europe/Berlin" in str(berlin)
    text = frame.assign(when=frame["when"].astype("str"))
    assert "text is read as ISO 8601" in str(CALLS["hhh"](text, period=PERIOD).dp.receipt)


# -- ledgers ---------------------------------------------------------------------------------------


def _spent(ledger: dp.Ledger) -> float:
    return float(ledger.summary()["spent_epsilon"][0])


def test_other_columns_and_readings_add_up(frame: pd.DataFrame, ledger: dp.Ledger) -> None:
    """Law: what is not known to be disjoint is not counted so."""
    CALLS["hhh"](frame, period=PERIOD, ledger=ledger)
    text = frame.assign(when=frame["when"].astype("str"))
    CALLS["hhh"](text, period=NEXT, ledger=ledger)
    assert _spent(ledger) == 8.0


def test_one_record_that_two_readings_find_in_two_days_is_paid_for_twice(tmp_path: Path) -> None:
    """Law: DuckDB cuts nanoseconds of a frame towards 1970 where it scans one itself; dpframe reads
    them whole. Both are charged as if the days were the same."""
    at = pd.DatetimeIndex(["1960-01-01 23:59:59.999999900"] * 500).tz_localize("UTC")
    frame = pd.DataFrame({"a": "x", "when": at})
    ledger = dp.Ledger(tmp_path / "two.db", epsilon=3.0, delta=1e-5)
    with duckdb.connect() as con:
        con.register("frame", frame)
        for source, day in ((frame, "1960-01-01"), (con.table("frame"), "1960-01-02")):
            shown = dp.hhh(
                source, ["a"], epsilon=1.0, delta=1e-6, period=("when", day), ledger=ledger
            )
            assert shown["count"].max() > 400
    assert ledger.spent.epsilon == 2.0


def test_sql_charges_the_same_blocks(frame: pd.DataFrame, tmp_path: Path) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=10.0, delta=1e-3)
    dp.register(con, ledger=ledger)
    for mechanism in ("'offline'", "'streaming', counters := 64"):
        for week in (44, 45, 46):
            con.execute(
                "FROM dp_hhh('t', 'path:place', epsilon := 2.0, delta := 1e-6, "
                f"mechanism := {mechanism}, period := ['when', '2023-W{week}'])"
            ).fetchall()
    assert _spent(ledger) == 4.0
    CALLS["hhh"](con.table("t"), period=("when", "2023-W43"), ledger=ledger)
    assert _spent(ledger) == 4.0


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_sql_reads_one_time_a_record(zone: str, tmp_path: Path) -> None:
    """Law: in a view that casts times with a zone a record is of one day, whatever counts it; else
    two disjoint days, of which only the dearest counts, would both read it."""
    con = duckdb.connect()
    con.execute(f"SET TimeZone = '{zone}'")
    con.execute(
        "CREATE TABLE t AS SELECT TIMESTAMPTZ '2023-11-10 20:00:00+00' + to_hours(7 * (i % 2)::INT)"
        " AS stamp, 'a' AS place FROM range(600) AS r(i)"
    )
    con.execute('CREATE VIEW v AS SELECT stamp::TIMESTAMP AS "when", place FROM t')
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=50.0, delta=1e-3)
    dp.register(con, ledger=ledger)
    days = con.execute("SELECT strftime(\"when\", '%Y-%m-%d') FROM v").fetchall()
    asks = ("dp_hhh('v', 'path:place'", "dp_rollup('v', ['place'], ['count']")
    asks = (*asks, "dp_hhh('v', 'path:place', mechanism := 'streaming', counters := 64")
    for day in ("2023-11-10", "2023-11-11"):
        for ask in asks:
            found = con.execute(
                f"SELECT * FROM {ask}, epsilon := 5.0, delta := 1e-6, period := ['when', '{day}'])"
            ).df()
            everything = 0 if found.empty else found["count"].iloc[0]
            assert abs(everything - days.count((day,))) < 50, (ask, day)


def test_a_name_answers_for_its_period(frame: pd.DataFrame, ledger: dp.Ledger) -> None:
    """Law: replayed with the same period alone; nothing is stored of a call without one."""
    ask = CALLS["hhh"]
    first = ask(frame, period=PERIOD, ledger=ledger, release="places")
    with pytest.warns(dp.ReplayedNotice):
        again = ask(frame, period=("when", WEEK.lower()), ledger=ledger, release="places")
    pd.testing.assert_frame_equal(first, again, check_flags=False)
    for other in (NEXT, ("when", WEEK, "UTC"), ("who", WEEK), None):
        with pytest.raises(ReleaseNameError):
            ask(frame, period=other, ledger=ledger, release="places")
    ask(frame, ledger=ledger, release="all")
    stored = {name: ledger.find(name) for name in ("places", "all")}
    requests = {name: kept.request for name, kept in stored.items() if kept is not None}
    assert requests["places"]["period"] == ["when", WEEK, None]
    assert "period" not in requests["all"]


# -- what is refused -------------------------------------------------------------------------------


def _this_year() -> str:
    return str(dt.datetime.now().year)


@pytest.mark.parametrize("text", ["9000", "2023-W45..9000", "this year"])
def test_a_period_that_is_not_over_needs_a_name_for_the_data(
    text: str, frame: pd.DataFrame, ledger: dp.Ledger
) -> None:
    """Law: nothing is charged; explaining it is allowed, and with data= so is releasing it."""
    text = _this_year() if text == "this year" else text
    ask = CALLS["hhh"]
    with pytest.raises(ParameterError, match=r"is not over.*data="):
        ask(frame, period=("when", text), ledger=ledger)
    assert _spent(ledger) == 0
    assert "period" in str(dp.explain(frame, "path:place", period=("when", text), **BUDGET))
    result = ask(frame, period=("when", text), ledger=ledger, data="today")
    assert result.dp.receipt["data"] == "today"
    assert result.dp.receipt["period"]["text"] == text
    assert _spent(ledger) == 4.0


BAD = {
    "no period": ("when", "last week"),
    "an end before the beginning": ("when", "2023-W46..2023-W45"),
    "no such week": ("when", "2025-W53"),
    "no such zone": ("when", WEEK, "Mars/Olympus"),
    "no such column": ("wen", WEEK),
    "no times": ("amount", WEEK),
    "no zone": ("when", WEEK, "Europe/Berlin"),
}


@pytest.mark.parametrize("period", BAD.values(), ids=BAD)
def test_bad_periods_are_refused_before_anything_is_charged(
    period: tuple[str, ...], frame: pd.DataFrame, ledger: dp.Ledger, tmp_path: Path
) -> None:
    """Law: in the same words from Python, SQL and the command line, and by explaining."""
    said = []
    for ask in (CALLS["hhh"], CALLS["rollup"], CALLS["prefix_tree"], CALLS["synthesize"]):
        with pytest.raises(ParameterError) as refused:
            ask(frame, period=period, ledger=ledger)
        said.append(str(refused.value))
    with pytest.raises(ParameterError) as refused:
        dp.explain(frame, "path:place", period=period, **BUDGET)
    said.append(str(refused.value))
    assert len({text.split("Columns:")[0] for text in said}) == 1
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    dp.register(con, ledger=ledger)
    for macro in ("dp_hhh", "dp_explain"):
        call = f"FROM {macro}('t', 'path:place', epsilon := 4.0, delta := 1e-5, period := $1)"
        with pytest.raises(duckdb.Error, match=r"\w+Error: (period|column|the time zone)"):
            con.execute(call, [list(period)])
    frame.to_parquet(tmp_path / "t.parquet")
    done = in_this_process(
        *("hhh", "t.parquet", "path:place", "--epsilon", "4", "--delta", "1e-5"),
        *("--period", f"{period[0]}={'@'.join(period[1:])}"),
        cwd=tmp_path,
    )
    assert done.returncode != 0
    assert said[0][:40] in done.stderr
    assert _spent(ledger) == 0


def test_a_type_that_others_do_not_see_is_refused_in_sql(tmp_path: Path) -> None:
    """In a transaction of its own a column can have another type than other connections see."""
    con = duckdb.connect(str(tmp_path / "t.db"))
    con.execute("CREATE TABLE t AS SELECT 'a' AS place, TIMESTAMP '2023-11-07' AS \"when\"")
    dp.register(con)
    con.execute("BEGIN")
    con.execute('ALTER TABLE t ALTER "when" TYPE VARCHAR')
    with pytest.raises(duckdb.Error, match="Commit changes"):
        con.execute(
            "FROM dp_hhh('t', ['place'], epsilon := 4.0, delta := 1e-5, "
            f"period := ['when', '{WEEK}'])"
        ).fetchall()


def test_the_command_line_explains_a_period(tmp_path: Path) -> None:
    done = in_this_process(
        *("explain", "path:place", "--epsilon", "4", "--delta", "1e-5"),
        *("--period", "when=2023-W45@Europe/Berlin"),
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert "by the clock of Europe/Berlin" in done.stdout


def test_a_reservation_pays_for_periods_too(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Law: what is reserved touches every period; the promise to users is the same or more."""
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-4, accountant="pld")
    law: dict[str, Any] = {"epsilon": 0.2, "delta": 1e-7, "user": "who"}
    ledger.reserve(dp.explain(["item"], **law), releases=5, delta=1e-6)
    before = _spent(ledger)
    for week in (44, 45, 45):
        result = dp.hhh(frame, ["item"], **law, period=("when", f"2023-W{week}"), ledger=ledger)
    assert "of which 2 are left" in result.dp.receipt["budget"]
    assert _spent(ledger) == before


# -- what a ledger with totals of 3 pays for ------------------------------------------------------


WHEN = pd.date_range("2026-01-01", "2026-02-28 23:00", freq="h")
HOURS = pd.DataFrame({"when": WHEN, "a": "x", "who": range(len(WHEN))})
FULL = {"epsilon": 3.0, "delta": 1e-6}


@pytest.fixture
def three(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-6)


def test_every_week_has_the_whole_total(three: Ledger) -> None:
    """Law: disjoint weeks cost what one costs, each may have all of it; a second release of one
    of them, of a day in it, or of everything does not fit, and a week that none read still does."""
    for week in range(2, 8):
        result = dp.hhh(HOURS, ["a"], **FULL, period=("when", f"2026-W0{week}"), ledger=three)
    assert three.spent == dp.Spending(**FULL)
    assert result.dp.receipt["budget"] == (
        "of (3, 1e-06) in the ledger, (0, 0) was left after this release"
    )
    for period in (("when", "2026-W04"), ("when", "2026-01-22"), ("when", "2026-01"), None):
        with pytest.raises(dp.OverBudgetError, match="in the fullest block"):
            dp.hhh(HOURS, ["a"], **FULL, period=period, ledger=three)
    dp.hhh(HOURS, ["a"], **FULL, period=("when", "2026-01-01..2026-01-04"), ledger=three)
    dp.hhh(HOURS, ["a"], **FULL, period=("when", None), ledger=three)
    assert three.spent == dp.Spending(**FULL)
    assert three.summary()["unread_epsilon"][0] == 3.0
    assert three.within(days=28).epsilon == 15.0
    assert three.releases()["period"].tolist()[:1] == ["when: 2026-W02"]
    three.verify()


def test_the_receipt_says_what_the_period_has_left(three: Ledger) -> None:
    """Law: where the period that was read has more than what any release finds, both are said."""
    dp.hhh(HOURS, ["a"], epsilon=2.0, delta=1e-7, period=("when", "2026-W02"), ledger=three)
    result = dp.hhh(
        HOURS, ["a"], epsilon=0.5, delta=1e-7, period=("when", "2026-W03"), ledger=three
    )
    assert result.dp.receipt["budget"] == (
        "of (3, 1e-06) in the ledger, (1, 9e-07) was left after this release, and (2.5, 9e-07) for "
        "the period that it read"
    )


def test_the_summary_says_that_users_are_protected_within_a_period(three: Ledger) -> None:
    """Law: with user= the totals hold for one user within one period, and the ledger says so
    wherever it says what is left."""
    for day in ("2026-01-01", "2026-01-02"):
        dp.hhh(
            HOURS, ["a"], epsilon=1.0, delta=1e-7, user="who", period=("when", day), ledger=three
        )
    (said,) = three.summary()["protects"]
    assert said == (
        "adding or removing one user ('who') with all their records, where all records of that "
        "user lie within one period"
    )
    assert three.within(days=2).epsilon == 2.0
