"""Views: what is due is drawn once, charged before rows are read, seen at steps, and published."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main
from dpframe.doors.gateway import views
from dpframe.doors.gateway.gate import ClosedError, Gate, UnknownDataError
from dpframe.doors.gateway.policy import hash_token
from dpframe.doors.gateway.policy_reader import PolicyError, read_policy
from dpframe.doors.gateway.views import Refresher
from dpframe.errors import LedgerError, ParameterError
from dpframe.ledger import Ledger
from dpframe.ledger.unfinished_draws import ResumingLedger
from tests import engines
from tests.gateway.attacked import Process
from tests.published import content

pytest.importorskip("starlette")

MONDAY = datetime(2025, 1, 6, tzinfo=UTC)
"""The first day of 2025-W02, the first week of all views."""

POLICY = """
[gateway]
floor = 0.01
failures = 2
publish = "views-{{data}}.duckdb"

[data.sales]
source = "sales.parquet"
levels = ["shop"]
bounds = {{ paid = [0, 50] }}
period = "sold"
epsilon = 3.0
delta = 1e-5
largest = 2.0

[data.people]
source = "sales.parquet"
user = "who"
levels = ["shop"]
bounds = {{ paid = [0, 50] }}
period = "sold"
epsilon = 6.0
delta = 1e-5
largest = 2.0
accountant = "pld"

[analyst.ann]
token = "{ann}"
shares = {{ sales = 3.0, people = 6.0 }}

[analyst.ben]
token = "{ben}"
owner = true

[analyst.cat]
token = "{cat}"
shares = {{ people = 1.0 }}
"""

REVENUE = """
[view.revenue]
data = "sales"
question = "rollup"
by = ["shop"]
measures = { sales = "count", revenue = "sum(paid)" }
epsilon = 0.5
period = { unit = "week", first = "2025-W02" }
"""

VISITORS = """
[view.visitors]
data = "people"
question = "hhh"
hierarchy = ["shop"]
periods = 52
total = 3.0
period = { unit = "week", first = "2025-W02" }
refresh = "10 minutes"
"""


def sold(weeks: int = 4, each: int = 400, seed: int = 1) -> pd.DataFrame:
    """Rows of so many weeks from the first on."""
    pick = np.random.default_rng(seed)
    at = np.repeat(np.arange(weeks), each) * 7 * 86_400 + pick.integers(0, 7 * 86_400, weeks * each)
    return pd.DataFrame(
        {
            "who": pick.integers(0, 150, weeks * each),
            "shop": pd.Series([f"s{i}" for i in pick.integers(0, 3, weeks * each)], dtype="str"),
            "paid": pick.integers(0, 50, weeks * each) + 0.25,
            "sold": pd.Timestamp("2025-01-06") + pd.to_timedelta(at, unit="s"),
        }
    )


def write(folder: Path, *declared: str, rows: pd.DataFrame | None = None) -> Path:
    """A folder with rows, and a policy with views over them."""
    folder.mkdir(exist_ok=True)
    (sold() if rows is None else rows).to_parquet(folder / "sales.parquet")
    hashes = {name: hash_token(f"dpf_{name}") for name in ("ann", "ben", "cat")}
    path = folder / "policy.toml"
    path.write_text(POLICY.format(**hashes) + "".join(declared or (REVENUE,)))
    return path


def after(weeks: float) -> Callable[[], datetime]:
    """A clock that says how many weeks have passed since the first Monday."""
    return lambda: MONDAY + timedelta(weeks=weeks)


@contextmanager
def gate_of(path: Path) -> Iterator[Gate]:
    gate = Gate(read_policy(path))
    try:
        yield gate
    finally:
        gate.close()


def refresh(gate: Gate, weeks: float) -> Refresher:
    """Look once at every view."""
    found = Refresher(gate, after(weeks))
    for view in gate.policy.views.values():
        found.refresh(view)
    return found


def outcomes(gate: Gate) -> list[tuple[str, str | None]]:
    """What the owner's log says of views."""
    return [(row["outcome"], row.get("release", row.get("error"))) for row in gate.log]


def book(gate: Gate, data: str = "sales") -> Ledger:
    return gate._ledgers[data]


def charged(gate: Gate, data: str = "sales") -> Counter[str | None]:
    return Counter(book(gate, data).releases()["release"])


WEEKS = [f"revenue-2025-W{week:02}" for week in range(2, 6)]


# -- what is due -----------------------------------------------------------------------------------


def test_what_is_over_is_drawn_once_and_published(tmp_path: Path) -> None:
    """Law: every week that is over has one release, charged as its period; looking again draws,
    charges and writes nothing; what is published is what the ledger stores."""
    with gate_of(write(tmp_path / "g")) as gate:
        refresh(gate, 3.5)
        assert book(gate).names() == WEEKS[:3]
        file = tmp_path / "g" / "views-sales.duckdb"
        before, looker = file.stat().st_mtime_ns, refresh(gate, 3.9)
        looker.refresh(gate.policy.views["revenue"])
        assert outcomes(gate)[-1] == ("published", None)
        refresh(gate, 4.0)
        assert charged(gate) == dict.fromkeys(WEEKS, 1)
        assert book(gate).spent.epsilon == 0.5
        assert file.stat().st_mtime_ns > before
        book(gate).verify()
        found = content(file)
        shown = found["revenue_all"]
        assert shown["period"].unique().tolist() == [name[8:] for name in WEEKS]
        for name in WEEKS:
            stored = book(gate).recall(name)
            here = shown[shown["release"] == name]
            assert here["revenue"].tolist() == stored["revenue"].tolist()
            assert here["revenue_lower"].tolist() == stored["revenue_lower"].tolist()
        assert len(found["revenue_latest"]) == len(stored)


def test_a_look_at_what_is_done_writes_nothing(tmp_path: Path) -> None:
    with gate_of(write(tmp_path / "g")) as gate:
        looker = refresh(gate, 4)
        files = {p: p.stat().st_mtime_ns for p in (tmp_path / "g").rglob("*") if p.is_file()}
        for _ in range(3):
            looker.refresh(gate.policy.views["revenue"])
        after_them = {p: p.stat().st_mtime_ns for p in (tmp_path / "g").rglob("*") if p.is_file()}
        assert {p.name for p in files if files[p] != after_them.get(p)} <= {"sales.db-drawing"}


@pytest.mark.parametrize("weeks", [0, 1, 2])
def test_which_periods_are_due_follows_from_the_clock_alone(tmp_path: Path, weeks: int) -> None:
    """Law: with all rows, with none, and with rows of other weeks the same releases are made."""
    made = []
    for i, rows in enumerate((sold(), sold(4).head(0), sold(60, each=4))[: 2 + (weeks == 1)]):
        with gate_of(write(tmp_path / str(i), rows=rows)) as gate:
            refresh(gate, weeks)
            made.append((book(gate).names(), book(gate).spent, outcomes(gate)))
    assert made[0] == made[1] == made[-1]
    assert made[0][0] == WEEKS[:weeks]


def test_a_grace_waits_and_a_clock_that_goes_back_draws_nothing(tmp_path: Path) -> None:
    late = REVENUE.replace('first = "2025-W02"', 'first = "2025-W02", grace = "1 day"')
    with gate_of(write(tmp_path / "g", late)) as gate:
        refresh(gate, 1.1)
        assert book(gate).names() == []
        refresh(gate, 2.2)
        assert book(gate).names() == WEEKS[:2]
        refresh(gate, 1.2)
        assert ("failed", "ParameterError") in outcomes(gate)
        assert book(gate).names() == WEEKS[:2]


# -- one total for a year --------------------------------------------------------------------------


def year_of(tmp_path: Path, declared: str, looks: list[int]) -> Gate:
    """A gate that was opened anew for every look, over a year of rows."""
    path = write(tmp_path / "g", declared, rows=sold(53, each=60))
    for weeks in looks:
        with gate_of(path) as gate:
            refresh(gate, weeks)
    return gate


FEW = VISITORS.replace("52", "5")


@pytest.mark.parametrize(
    ("periods", "looks"),
    [
        (5, [2, 6]),
        pytest.param(52, [1, 2, 30, 52, 53], marks=pytest.mark.engines),
        pytest.param(52, [*range(1, 54)], marks=pytest.mark.evidence),
    ],
)
def test_a_year_of_people_costs_one_total_once(
    tmp_path: Path, periods: int, looks: list[int]
) -> None:
    """Law: 52 weeks of the same people are paid by one reservation, made at the first; the 53rd
    week is not due."""
    gate = year_of(tmp_path, VISITORS.replace("52", str(periods)), looks)
    ledger = book(gate, "people")
    (reserved,) = ledger.reservations().to_dict("records")
    assert (reserved["releases"], reserved["left"]) == (periods, 0)
    assert 2.9 < ledger.spent.epsilon == reserved["epsilon"] <= 3.0
    assert ledger.spent.delta == pytest.approx(3 / 6 * 1e-5, rel=1e-9)
    assert len(ledger.names()) == periods
    assert set(charged(gate, "people").values()) == {1}
    assert ledger.releases()["epsilon"].nunique() == 1
    assert ledger.releases()["epsilon"][0] >= 2.9 / periods
    ledger.verify()
    found = content(tmp_path / "g" / "views-people.duckdb")
    assert len(found["dp_releases"]) == periods
    assert found["visitors_all"]["period"].nunique() == periods


@pytest.mark.engines
def test_a_year_of_records_costs_one_week(tmp_path: Path) -> None:
    """Weeks share no records, so that a year costs what a week does."""
    gate = year_of(tmp_path, REVENUE, [26, 52])
    assert len(book(gate).names()) == 52
    assert book(gate).spent.epsilon == 0.5


@pytest.mark.engines
def test_ledgers_with_views_are_proved(tmp_path: Path) -> None:
    """Entries of views and of analysts, with and without a reservation."""
    with gate_of(write(tmp_path / "g", REVENUE, VISITORS.replace("52", "2"))) as gate:
        refresh(gate, 2)
        ann, given = gate.policy.analysts["ann"], {"hierarchy": ["shop"], "epsilon": 0.5}
        for name in ("sales", "people"):
            gate.ask(ann, name, "hhh", given)
            assert dp.verify(book(gate, name)).code == 0


def test_analysts_do_not_use_up_what_a_view_paid_for(tmp_path: Path) -> None:
    """Law: the very question of a view, asked by an analyst, is charged to the analyst's share; the
    view's reservation is untouched."""
    path = write(tmp_path / "g", FEW, rows=sold(5, each=60))
    with gate_of(path) as gate:
        refresh(gate, 1)
        ann, before = gate.policy.analysts["ann"], book(gate, "people").spent.epsilon
        (seen,) = gate.releases(ann, "people")
        assert seen["view"] == "visitors"
        reply = gate.ask(ann, "people", seen["question"], seen["arguments"])
        assert reply.free is None
        assert reply.name != seen["release"]
        cost = seen["epsilon"]
        assert book(gate, "people").spent.epsilon == pytest.approx(before + cost)
        assert gate.budget(ann, "people")[0]["spent"] == pytest.approx(cost)
        assert book(gate, "people").reservations()["left"].tolist() == [4]
        other = {**seen["arguments"], "period": "2025-W03", "epsilon": 0.1}
        told = gate.explain(ann, "people", seen["question"], other)
        assert not any("paid" in str(line) for line in told["lines"])
        refresh(gate, 9)
        assert len([n for n in book(gate, "people").names() if n.startswith("visitors-")]) == 5


def test_a_total_that_does_not_fit_the_ledger_is_refused_and_nothing_is_drawn(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "g", FEW)
    with gate_of(path) as gate:
        ann = gate.policy.analysts["ann"]
        for epsilon in (1.5, 1.6):
            gate.ask(ann, "people", "hhh", {"hierarchy": ["shop"], "epsilon": epsilon})
        refresh(gate, 2)
        assert ("failed", "OverBudgetError") in outcomes(gate)
        assert len(book(gate, "people").names()) == 2
        assert len(book(gate, "people").reservations()) == 0


# -- what anybody sees -----------------------------------------------------------------------------


def events(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Draw one week, and note what happens in which order, and what an analyst sees then."""
    noted: list[str] = []
    ann = gate.policy.analysts["ann"]
    rollup = gate.policy.views["revenue"].report.question
    count, step, shown = rollup.count, gate.wait_for_step, views.publish

    def look(word: str) -> None:
        is_charged = gate.budget(ann, "sales")[-1]["spent"] > 0
        said = [word, "charged"] if is_charged else [word]
        noted.append(" ".join([*said, *(["seen"] if gate.releases(ann, "sales") else [])]))

    def counted(*given: Any) -> Any:
        look("count")
        return count(*given)

    def waited(began: float) -> None:
        look("step")
        step(began)

    def published(*given: Any, **named: Any) -> Any:
        look("publish")
        return shown(*given, **named)

    monkeypatch.setitem(vars(rollup), "count", counted)
    monkeypatch.setattr(gate, "wait_for_step", waited)
    monkeypatch.setattr(views, "publish", published)
    refresh(gate, 1)
    return noted


SEEN = ["step", "count charged", "step charged", "publish charged seen"]
"""Budgets change before rows are read; a release is seen, and published, after a step."""


def test_a_charge_comes_before_rows_and_a_release_after_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gate_of(write(tmp_path / "g")) as gate:
        assert events(gate, monkeypatch) == SEEN


@pytest.mark.parametrize("bug", ["charges late", "shows early"])
def test_planted_bugs_of_the_order_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    """Negative control."""
    if bug == "charges late":

        class Late(ResumingLedger):
            is_charged = False

        monkeypatch.setattr(Gate, "ledger_of_view", lambda gate, view, asked: Late(book(gate).path))
    else:

        @contextmanager
        def flight(gate: Gate, name: str) -> Iterator[bool]:
            yield True

        monkeypatch.setattr(Gate, "flight", flight)
    with gate_of(write(tmp_path / "g")) as gate:
        assert events(gate, monkeypatch) != SEEN


def test_analysts_see_views_as_releases_of_questions(tmp_path: Path) -> None:
    """Who may ask the data set sees what its views ask, and has the rows for nothing; nobody
    else."""
    with gate_of(write(tmp_path / "g")) as gate:
        refresh(gate, 2)
        ann, cat = gate.policy.analysts["ann"], gate.policy.analysts["cat"]
        (view,) = gate.describe(ann, "sales")["views"]
        assert (view["name"], view["question"], view["unit"]) == ("revenue", "rollup", "week")
        assert view["published"] is not None
        listed = gate.releases(ann, "sales")
        assert [row["release"] for row in listed] == WEEKS[:2]
        assert all(not row["yours"] and "analyst" not in row for row in listed)
        assert listed[0]["arguments"]["period"] == "2025-W02"
        reply = gate.release(ann, "sales", WEEKS[0])
        assert reply.table["revenue"].to_pylist() == book(gate).recall(WEEKS[0])["revenue"].tolist()
        assert gate.budget(ann, "sales")[0]["spent"] == 0
        with pytest.raises(UnknownDataError):
            gate.releases(cat, "sales")
        assert gate.describe(cat, "people")["views"] == []


def test_what_is_published_has_views_alone(tmp_path: Path) -> None:
    """What analysts ask is not published."""
    with gate_of(write(tmp_path / "g")) as gate:
        given = {"hierarchy": ["shop"], "epsilon": 0.5}
        gate.ask(gate.policy.analysts["ann"], "sales", "hhh", given)
        refresh(gate, 2)
        found = content(tmp_path / "g" / "views-sales.duckdb")
        assert found["dp_releases"]["release"].tolist() == WEEKS[:2]
        receipts = " ".join(found["dp_releases"]["receipt"])
        assert str(tmp_path) not in receipts


# -- what fails ------------------------------------------------------------------------------------


def test_a_failed_publication_is_tried_again_without_a_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: readers keep the old state, and the next look publishes what is stored."""
    with gate_of(write(tmp_path / "g")) as gate:
        looker = refresh(gate, 1)
        file, real = tmp_path / "g" / "views-sales.duckdb", views.publish

        def full(*given: Any, **named: Any) -> Any:
            raise ParameterError("the disk is full.")

        monkeypatch.setattr(views, "publish", full)
        looker._clock = after(2)
        looker.refresh(gate.policy.views["revenue"])
        assert outcomes(gate)[-1] == ("failed", "ParameterError")
        assert content(file)["dp_releases"]["release"].tolist() == WEEKS[:1]
        monkeypatch.setattr(views, "publish", real)
        looker.refresh(gate.policy.views["revenue"])
        assert content(file)["dp_releases"]["release"].tolist() == WEEKS[:2]
        assert charged(gate) == dict.fromkeys(WEEKS[:2], 1)


def test_a_count_that_fails_is_not_charged_again_and_a_quota_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: what was charged pays for the next try. After so many failures the view is closed, until
    an owner opens it."""
    with gate_of(write(tmp_path / "g")) as gate:
        rollup = gate.policy.views["revenue"].report.question
        real = rollup.count

        def fail(*_: Any) -> Any:
            raise ValueError("a row says secret")

        monkeypatch.setitem(vars(rollup), "count", fail)
        for _ in range(4):
            refresh(gate, 1)
        assert outcomes(gate) == [("failed", WEEKS[0])] * 2
        assert "secret" not in json.dumps([*gate.log])
        assert charged(gate) == {WEEKS[0]: 1}
        monkeypatch.setitem(vars(rollup), "count", real)
        refresh(gate, 1)
        assert book(gate).names() == []
        gate.reopen(gate.policy.analysts["ben"], "sales", "view revenue")
        refresh(gate, 1)
        assert book(gate).names() == WEEKS[:1]
        assert charged(gate) == {WEEKS[0]: 1}
        assert book(gate).spent.epsilon == 0.5


def test_a_missing_file_waits_and_costs_nothing(tmp_path: Path) -> None:
    with gate_of(write(tmp_path / "g")) as gate:
        source = tmp_path / "g" / "sales.parquet"
        source.rename(tmp_path / "away")
        for _ in range(5):
            refresh(gate, 1)
        assert charged(gate) == {}
        (tmp_path / "away").rename(source)
        refresh(gate, 1)
        assert book(gate).names() == WEEKS[:1]


def test_rows_that_come_later_are_read_and_old_weeks_stay(tmp_path: Path) -> None:
    """Law: while a gateway runs, and over a new state of the policy, a week that is drawn stays,
    and a later one is drawn from the rows of then; analysts wait for the owner."""
    path = write(tmp_path / "g")
    with gate_of(path) as gate:
        refresh(gate, 2)
        first = book(gate).recall(WEEKS[0])
        rows = sold(each=800, seed=2)
        rows.to_parquet(tmp_path / "g" / "sales.parquet")
        refresh(gate, 3)
        week = book(gate).recall(WEEKS[2])
        assert abs(week["sales"][0] - 800) < 200
        with pytest.raises(ClosedError):
            gate.ask(gate.policy.analysts["ann"], "sales", "hhh", {"hierarchy": ["shop"]})
    with pytest.raises(dp.SourceError, match="still called state"):
        Gate(read_policy(path))
    text = path.read_text().replace("accountant =", 'state = "2"\naccountant =')
    path.write_text(text.replace("[data.sales]\n", '[data.sales]\nstate = "2"\n'))
    with gate_of(path) as gate:
        refresh(gate, 4)
        assert book(gate).names() == WEEKS
        assert book(gate).recall(WEEKS[0]).equals(first)
        assert ("failed", "ReleaseNameError") not in outcomes(gate)


def test_a_changed_view_stops_and_others_go_on(tmp_path: Path) -> None:
    """Another epsilon under a name that has releases draws nothing, and says so in the log."""
    other = REVENUE.replace("view.revenue", "view.other")
    path = write(tmp_path / "g", REVENUE, other)
    with gate_of(path) as gate:
        refresh(gate, 1)
    path.write_text(path.read_text().replace("epsilon = 0.5", "epsilon = 0.6", 1))
    with gate_of(path) as gate:
        refresh(gate, 2)
        assert outcomes(gate)[0] == ("failed", "ReleaseNameError")
        assert charged(gate) == {WEEKS[0]: 1, "other-2025-W02": 1, "other-2025-W03": 1}


def test_a_view_that_is_gone_is_published_no_more(tmp_path: Path) -> None:
    other = REVENUE.replace("view.revenue", "view.other")
    path = write(tmp_path / "g", REVENUE, other)
    with gate_of(path) as gate:
        refresh(gate, 1)
    path.write_text(path.read_text().replace(other, ""))
    with gate_of(path) as gate:
        refresh(gate, 1)
        found = content(tmp_path / "g" / "views-sales.duckdb")
        assert found["dp_releases"]["release"].tolist() == WEEKS[:1]


def test_two_gateways(tmp_path: Path) -> None:
    """One holds the folder. With folders of their own, one publishes, and the other's results are
    refused there; its releases stay in its ledger."""
    path = write(tmp_path / "g")
    with gate_of(path) as gate:
        with pytest.raises(LedgerError, match="held by another gateway"):
            Gate(read_policy(path))
        refresh(gate, 1)
        second = tmp_path / "g" / "second.toml"
        second.write_text(path.read_text())
        with gate_of(second) as other:
            refresh(other, 1)
            assert outcomes(other)[-1] == ("failed", "LedgerError")
            assert book(other).names() == WEEKS[:1]
            assert book(other).ledger_id != book(gate).ledger_id
        found = content(tmp_path / "g" / "views-sales.duckdb")
        assert found["dp_budget"]["ledger_id"].tolist() == [book(gate).ledger_id]


def test_the_thread_looks_at_once_and_stops(tmp_path: Path) -> None:
    with gate_of(write(tmp_path / "g", REVENUE, FEW)) as gate:
        looker = Refresher(gate, after(2))
        looker.start()
        until = time.monotonic() + 60
        while len(gate.published) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        looker.stop(30)
        assert not looker._thread.is_alive()
        assert set(gate.published) == {"sales", "people"}


def test_no_error_stops_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: it goes on after any error, and says its class alone."""
    calls: list[str] = []

    def broken(*given: Any) -> Any:
        calls.append(given[0][0].name)
        raise RuntimeError("a row says secret")

    with gate_of(write(tmp_path / "g", REVENUE, FEW)) as gate:
        monkeypatch.setattr(views, "due_tasks", broken)
        looker = Refresher(gate, after(2))
        looker.start()
        until = time.monotonic() + 60
        while len(calls) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert looker._thread.is_alive()
        looker.stop(30)
        assert outcomes(gate) == [("failed", "RuntimeError")] * 2
        assert "secret" not in json.dumps([*gate.log])


# -- the policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('data = "sales"', 'data = "sale"', "'sale' is no data set. Did you mean 'sales'?"),
        ('data = "sales"\n', "", "view 'revenue' has no data set."),
        ('question = "rollup"', 'question = "roll"', "has no question 'roll'. It may be hhh"),
        ('question = "rollup"', 'question = "sql"', "has no question 'sql'."),
        ('question = "rollup"\n', "", "has no question. It may be hhh"),
        ('by = ["shop"]', 'by = ["who"]', "may not be asked of 'sales'"),
        ("sum(paid)", "sum(who)", "who"),
        ("epsilon = 0.5", "epsilon = 2.5", "must be above 0 and at most 2"),
        ("epsilon = 0.5", 'user = "who"', "view.revenue has no 'user'."),
        ("epsilon = 0.5", "colour = 1", "view.revenue has no 'colour'."),
        ('unit = "week"', 'unit = "fortnight"', "must be one of"),
        ('unit = "week", ', "", "has no unit"),
        ('first = "2025-W02"', 'first = "2025-02"', "is no week"),
        ('first = "2025-W02"', 'first = "2025-W02", zone = "UTC"', "has no 'zone'"),
        ("epsilon = 0.5", 'refresh = "often"', "refresh ('often') must be a time"),
        ("epsilon = 0.5", 'refresh = "0 hours"', "must be above 0"),
        ("epsilon = 0.5", "total = 1.0", "periods goes with total"),
        ("epsilon = 0.5", "periods = 52", "total goes with periods"),
        ("epsilon = 0.5", "periods = 52\ntotal = 1.0", "total needs accountant = 'pld'"),
        ("[view.revenue]", "[view.revenue_2025]", "ends like a period"),
        ("[view.revenue]", "[view.'a b']", "a name that SQL can read"),
        ("view.revenue", "view.Revenue", None),
    ],
)
def test_mistakes_have_lines(tmp_path: Path, old: str, new: str, said: str | None) -> None:
    assert old in REVENUE
    path = write(tmp_path / "g", REVENUE.replace(old, new, 1))
    if said is None:
        assert [*read_policy(path).views] == ["Revenue"]
        return
    start = POLICY.count("\n") + 1
    with pytest.raises(PolicyError) as error:
        read_policy(path)
    (line,) = str(error.value).splitlines()
    assert said in line
    number = int(line.partition(", line ")[2].partition(":")[0])
    assert start <= number <= start + REVENUE.count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("periods = 52", "periods = 0", "releases"),
        ("total = 3.0", "total = 7.0", "total must be an epsilon up to 6"),
        ("total = 3.0", "total = [3.0, 1.0]", "delta of total must be a number up to 1e-05"),
        ("total = 3.0", "total = 3.0\nepsilon = 1.0", "epsilon follows from total"),
        ("total = 3.0", "total = 1e-6", "must be a finite number from 0.0001"),
        ("total = 3.0", 'total = "much"', "total must be an epsilon"),
    ],
)
def test_mistakes_of_totals(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = write(tmp_path / "g", VISITORS.replace(old, new, 1))
    with pytest.raises(PolicyError) as error:
        read_policy(path)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("publish", "said"),
    [
        ("", "views are published nowhere"),
        ('publish = "views.duckdb"', "publish must differ by data set"),
        ('publish = "views-{data}.csv"', "must end in .duckdb"),
        ('publish = "no/views-{data}.duckdb"', "is in a folder that does not exist"),
        ('publish = "policy.ledgers/{data}.db"', "is in the folder of ledgers"),
        ('publish = "postgresql://ann:geheim@host/d?schema=one"', "publish must differ"),
        ('publish = "postgresql://ann:geheim@host/d d"', "an address that cannot be read"),
        ("publish = 3", "publish must be text"),
    ],
)
def test_mistakes_of_the_place(tmp_path: Path, publish: str, said: str) -> None:
    path = write(tmp_path / "g", REVENUE, FEW)
    (tmp_path / "g" / "policy.ledgers").mkdir()
    path.write_text(path.read_text().replace('publish = "views-{data}.duckdb"', publish))
    with pytest.raises(PolicyError) as error:
        read_policy(path)
    assert said in str(error.value)
    assert "geheim" not in str(error.value)


def test_every_mistake_is_told_at_once_and_a_place_without_views(tmp_path: Path) -> None:
    wrong = REVENUE.replace("sum(paid)", "sum(x)") + VISITORS.replace("3.0", "9.0")
    path = write(tmp_path / "g", wrong, REVENUE.replace("[view.revenue]", "[view.REVENUE]"))
    with pytest.raises(PolicyError) as error:
        read_policy(path)
    assert len(str(error.value).splitlines()) == 3
    assert "are the same in tables" in str(error.value)
    path.write_text(path.read_text().partition("[view.")[0])
    with pytest.raises(PolicyError, match="publish is for views, and there is none"):
        read_policy(path)


def test_a_period_column_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "g")
    path.write_text(path.read_text().replace('period = "sold"\n', "", 1))
    with pytest.raises(PolicyError, match="data set 'sales' has no periods"):
        read_policy(path)


def test_a_check_counts_views(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "g", REVENUE, FEW)
    assert main(["serve", str(path), "--check"]) == 0
    assert "data sets: 2, analysts: 3, views: 2" in capsys.readouterr().out


# -- other databases -------------------------------------------------------------------------------


def test_a_table_of_a_database_is_read_anew(tmp_path: Path) -> None:
    """Rows of SQLite are in memory for analysts; views read those of now."""
    path = write(tmp_path / "g")
    with closing(sqlite3.connect(tmp_path / "g" / "shop.sqlite")) as db:
        rows = sold().assign(sold=lambda d: d["sold"].astype(str))
        rows.to_sql("sales", db, index=False)
    text = path.read_text().replace(
        'source = "sales.parquet"\nlevels',
        'source = { database = "shop.sqlite", sql = "SELECT '
        'who, shop, paid, sold FROM sales" }\nlevels',
    )
    path.write_text(text.replace('period = "sold"', 'period = "sold"', 1))
    try:
        policy = read_policy(path)
    except PolicyError as error:
        pytest.skip(f"times of SQLite are text: {error}")
    gate = Gate(policy)
    refresh(gate, 1)
    gate.close()
    assert book(gate).names() == WEEKS[:1]


@pytest.mark.engines
def test_postgres_gets_a_schema_for_each_data_set(tmp_path: Path) -> None:
    with engines.postgres() as engine:
        about = engine.connection.info
        to = f"postgresql://tester@/{about.dbname}?host={about.host}"
        path = write(tmp_path / "g", REVENUE, FEW)
        path.write_text(path.read_text().replace("views-{data}.duckdb", to))
        with gate_of(path) as gate:
            refresh(gate, 2)
            refresh(gate, 3)
            for name, table in (("sales", "revenue"), ("people", "visitors")):
                found = engine.query(f"SELECT count(DISTINCT release) n FROM {name}.{table}_all")
                assert found["n"].to_pylist() == [3]
            assert not [row for row in outcomes(gate) if row[0] == "failed"]


def test_a_server_that_is_away_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of the process says why, without the password of the address."""
    pytest.importorskip("psycopg")
    path = write(tmp_path / "g")
    to = "postgresql://olga:geheim@127.0.0.1:1/shop"
    path.write_text(path.read_text().replace("views-{data}.duckdb", to))
    with gate_of(path) as gate:
        looker = refresh(gate, 1)
        looker.refresh(gate.policy.views["revenue"])
        assert outcomes(gate)[1:] == [("failed", "ParameterError")] * 2
        assert charged(gate) == {WEEKS[0]: 1}
    told = [record.facts for record in caplog.records if record.name == "dpframe.gateway"]
    assert "127.0.0.1" in told[-1]["why"]
    assert "geheim" not in json.dumps(told)


# -- kills -----------------------------------------------------------------------------------------

KILLED = """
[view.revenue]
data = "sales"
question = "rollup"
by = ["shop"]
measures = { sales = "count", revenue = "sum(paid)" }
epsilon = 0.5
period = { unit = "month", first = "2025-01" }

[view.visitors]
data = "people"
question = "hhh"
hierarchy = ["shop"]
periods = 40
total = 3.0
period = { unit = "day", first = "2025-01-06" }
"""


def check_killed(folder: Path) -> int:
    """Laws, after a kill at any moment: no release is charged twice, one reservation at most is
    made; what is published is one whole state of what is stored. Returns the number stored."""
    stored = 0
    for data in ("sales", "people"):
        file = folder / "policy.ledgers" / f"{data}.db"
        if not file.exists() or not file.stat().st_size:
            continue
        ledger = Ledger(file)
        ledger.verify()
        twice = [n for n, times in Counter(ledger.releases()["release"]).items() if times > 1]
        assert not twice, twice
        assert len(ledger.reservations()) <= 1
        names = ledger.names()
        stored += len(names)
        whole = folder / f"views-{data}.duckdb"
        if whole.exists():
            check_whole(whole, names)
    return stored


def check_whole(file: Path, names: list[str]) -> None:
    """What a reader finds at any moment."""
    with duckdb.connect(file, read_only=True) as con:
        listed = con.execute("SELECT release, table_name, row_count FROM dp_releases").fetchall()
        assert [row[0] for row in listed] == names[: len(listed)]
        (family,) = {"revenue_all", "visitors_all"} & {
            name for (name,) in con.execute("SHOW TABLES").fetchall()
        }
        counts = dict(con.execute(f"SELECT release, count(*) FROM {family} GROUP BY 1").fetchall())
        assert counts == {release: rows for release, _, rows in listed if rows}


def read_on(folder: Path, until: threading.Event, seen: list[object]) -> None:
    """A BI tool that reads all the time; each read is of one whole state."""
    while not until.is_set():
        for data in ("sales", "people"):
            file = folder / f"views-{data}.duckdb"
            if file.exists():
                with duckdb.connect(file, read_only=True) as con:
                    listed = con.execute(
                        "SELECT count(*), sum(row_count) FROM dp_releases"
                    ).fetchone()
                    family = "revenue_all" if data == "sales" else "visitors_all"
                    shown = con.execute(
                        f"SELECT count(DISTINCT release), count(*) FROM {family}"
                    ).fetchone()
                    seen.append(listed == shown or (listed, shown))
        time.sleep(0.3)


def kill_views(folder: Path, kills: int, seed: int, days: int = 40, readers: int = 2) -> None:
    """Kill a gateway that draws views, so many times; then let it end."""
    pick = random.Random(seed)
    path = write(folder, KILLED.replace("40", str(days)), rows=sold(days // 7 + 1, each=300))
    until, seen = threading.Event(), list[object]()
    threads = [threading.Thread(target=read_on, args=(folder, until, seen)) for _ in range(readers)]
    server = Process(path)
    for one in threads:
        one.start()
    try:
        for _ in range(kills):
            time.sleep(pick.uniform(0.0, 0.5))
            server.kill()
            check_killed(folder)
            server.start()
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with closing(sqlite3.connect(folder / "policy.ledgers" / "people.db")) as db:
                (done,) = db.execute("SELECT count(*) FROM results").fetchone()
            if done == days and (folder / "views-people.duckdb").exists():
                with duckdb.connect(folder / "views-people.duckdb", read_only=True) as con:
                    if con.execute("SELECT count(*) FROM dp_releases").fetchone() == (days,):
                        break
            time.sleep(0.1)
    finally:
        until.set()
        for one in threads:
            one.join(30)
        server.stop()
    check_killed(folder)
    ledger = Ledger(folder / "policy.ledgers" / "people.db")
    assert len(ledger.names()) == days
    assert ledger.spent.epsilon == ledger.reservations()["epsilon"][0] <= 3.0
    assert set(seen) <= {True}, [one for one in seen if one is not True][:3]


@pytest.mark.engines
def test_killed_gateways_draw_views_once(tmp_path: Path) -> None:
    kill_views(tmp_path / "g", 5, seed=1, days=14)


@pytest.mark.evidence
@pytest.mark.parametrize("seed", range(4))
def test_fifty_kills_with_eight_readers(tmp_path: Path, seed: int) -> None:
    """Four of these are 200 kills."""
    kill_views(tmp_path / "g", 50, seed=seed, days=40, readers=8)


def test_a_charge_that_is_made_twice_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: a ledger that forgets what was cut off."""
    monkeypatch.setattr(ResumingLedger, "_cut_off", lambda *_: None)
    with gate_of(write(tmp_path / "g")) as gate:
        rollup = gate.policy.views["revenue"].report.question
        real = rollup.count

        def fail(*_: Any) -> Any:
            raise ValueError

        monkeypatch.setitem(vars(rollup), "count", fail)
        refresh(gate, 1)
        monkeypatch.setitem(vars(rollup), "count", real)
        refresh(gate, 1)
    with pytest.raises(AssertionError):
        check_killed(tmp_path / "g")
