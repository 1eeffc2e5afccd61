"""``dpframe run`` and ``dp.Series``: what is due is drawn once, and what is wrong is said."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe import _duck
from dpframe.doors.cli.main import main
from dpframe.doors.series import declaration as due
from dpframe.doors.series.declaration import DatabaseSource
from dpframe.ledger import Ledger
from dpframe.ledger.book import pack_result, unpack_result
from dpframe.ledger.unfinished_draws import ResumingLedger
from dpframe.sources.sql_tables import read_postgres, read_sqlite
from tests.members import some
from tests.privacy.ledger_worker import ended, forked
from tests.published import assert_whole, content

PERIOD = {"column": "when", "unit": "week", "first": "2026-W40"}
VISITS: dict[str, Any] = {
    "name": "visits",
    "question": "hhh",
    "hierarchy": ["country"],
    "epsilon": 0.5,
    "delta": 1e-7,
}
DECLARED = """
publish = "results.duckdb"
pages = "pages"
source = "visits.parquet"

[ledger]
path = "budget.db"
epsilon = 3.0
delta = 1e-5

[period]
column = "when"
unit = "week"
first = "2026-W40"

[[report]]
name = "visits"
question = "hhh"
hierarchy = ["country"]
epsilon = 0.5
delta = 1e-7
"""


@pytest.fixture(autouse=True)
def sunday(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is Wednesday of week 44."""
    monkeypatch.setattr(due, "current_time", lambda: datetime(2026, 10, 28, 12, tzinfo=UTC))


def frame(weeks: int = 4) -> pd.DataFrame:
    when = pd.date_range("2026-09-28", periods=weeks * 7 * 144, freq="10min")
    return pd.DataFrame({"when": when, "country": ["FR", "DE"] * (len(when) // 2)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame().to_parquet(tmp_path / "visits.parquet")
    (tmp_path / "reports.toml").write_text(DECLARED)
    return tmp_path


def edited(folder: Path, old: str, new: str) -> None:
    text = (folder / "reports.toml").read_text()
    assert old in text
    (folder / "reports.toml").write_text(text.replace(old, new))


def run(folder: Path, *options: str) -> int:
    return main(["run", str(folder / "reports.toml"), *options])


def series(folder: Path, **changed: Any) -> dp.Series:
    asked: dict[str, Any] = {
        "reports": [VISITS],
        "source": frame(),
        "period": PERIOD,
        "ledger": {"path": folder / "b.db", "epsilon": 3.0, "delta": 1e-5},
    }
    return dp.Series(**{**asked, **changed})


# -- what is due -----------------------------------------------------------------------------------


def test_what_is_over_is_drawn_once_then_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: a run draws every period that is over; a later one replays them and costs nothing; what
    is published, the page and the ledger hold exactly these."""
    assert run(folder, "--until", "2026-W41") == 0
    assert "2026-W40 to 2026-W41, 2 drawn" in capsys.readouterr().out
    assert run(folder, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [step["state"] for step in said["releases"]] == ["stored"] * 2 + ["drawn"] * 2
    ledger = Ledger(folder / "budget.db")
    assert ledger.names() == [f"visits-2026-W{week}" for week in range(40, 44)]
    assert ledger.spent.epsilon == 0.5  # weeks are disjoint
    before = {name: ledger.recall(name) for name in ledger.names()}
    assert run(folder, "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert all(frame.equals(ledger.recall(name)) for name, frame in before.items())
    assert len(ledger.releases()) == 4
    found = content(folder / "results.duckdb")
    assert assert_whole(found) == 4
    assert found["visits_all"]["period"].unique().tolist() == said_periods(said)
    assert "2026-W43" in (folder / "pages" / "visits.html").read_text()


def said_periods(said: dict[str, Any]) -> list[str]:
    return [step["period"] for step in said["releases"]]


def test_a_release_of_a_series_counts_its_period_alone(tmp_path: Path) -> None:
    """The same as the question with period=, up to noise; a period without rows is a release."""
    done = series(tmp_path, source=frame(2), reports=[{**VISITS, "epsilon": 2.0}]).run()
    assert [step.state for step in done.steps] == ["drawn"] * 4
    ledger = Ledger(tmp_path / "b.db")
    totals = [ledger.recall(step.release)["count"][0] for step in done.steps]
    assert all(abs(total - true) < 150 for total, true in zip(totals, [1008, 1008, 0, 0]))  # noqa: B905
    replay = dp.hhh(
        frame(2),
        ["country"],
        epsilon=2.0,
        delta=1e-7,
        ledger=ledger,
        release="visits-2026-W41",
        period=("when", "2026-W41"),
    )
    assert replay.equals(ledger.recall("visits-2026-W41"))


def test_a_grace_and_a_zone_move_what_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A week that is over waits for late records; its end is that of its zone's clock."""
    monkeypatch.setattr(due, "current_time", lambda: datetime(2026, 10, 25, 23, 30, tzinfo=UTC))

    def last(**period: str) -> str:
        made = series(tmp_path, period={**PERIOD, **period}, source=zoned)
        return made.run(dry_run=True).steps[-1].period

    zoned = frame().assign(when=lambda d: d["when"].dt.tz_localize("UTC"))
    assert last(zone="Europe/Berlin") == "2026-W43"  # it is Monday there
    assert last(zone="UTC") == "2026-W42"
    assert last(zone="Europe/Berlin", grace="2 days") == "2026-W42"


# -- one total for all periods ---------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "name": "visits",
    "question": "hhh",
    "hierarchy": ["country"],
    "user": "who",
    "periods": 3,
    "total": (2.0, 1e-6),
}
YEAR = {"epsilon": 2.5, "delta": 1e-5, "accountant": "pld", "protects": "who"}


def year(tmp_path: Path, source: Any = None, **changed: Any) -> dp.Series:
    rows = frame().assign(who=lambda d: d.index % 500) if source is None else source
    return dp.Series(
        [{**WHOLE, **changed}],
        source=rows,
        period=PERIOD,
        ledger={"path": tmp_path / "budget.db", **YEAR},
    )


def test_one_total_pays_for_all_periods_once(tmp_path: Path) -> None:
    """Law: the first run pays, later ones pay nothing; no period after the last is due."""
    dry = year(tmp_path).run("2026-W40", dry_run=True)
    first = year(tmp_path).run("2026-W40")
    assert dry.cost == first.cost
    assert 0.9 < first.cost[0] / 2.0 <= 1
    rest = year(tmp_path).run()
    assert [step.period for step in rest.steps] == ["2026-W40", "2026-W41", "2026-W42"]
    assert (rest.code, rest.cost) == (0, (0.0, 0.0))
    ledger = dp.Ledger(tmp_path / "budget.db")
    assert len(ledger.reservations()) == 1
    assert ledger.spent == dp.Spending(epsilon=first.cost[0], delta=first.cost[1])
    ledger.verify()


def test_nobody_else_uses_up_what_a_series_paid_for(tmp_path: Path) -> None:
    """Law: a release of the same law outside of the series is charged on top, and the series still
    has all of its periods; what it has used up is refused, not charged to the totals."""
    year(tmp_path).run("2026-W40")
    ledger = dp.Ledger(tmp_path / "budget.db")
    (said,) = [json.loads(r) for r in ledger.releases()["receipt"]]
    before, law = ledger.spent.epsilon, {n: said[n] for n in ("mechanism", "epsilon", "delta")}
    rows = frame().assign(who=lambda d: d.index % 500)
    if before + said["epsilon"] > 2.5:
        with pytest.raises(dp.OverBudgetError):
            rows.dp.hhh(["country"], user="who", ledger=ledger, **law)
    assert ledger.forecast(dp.explain(["country"], user="who", **law)).reserved == 0
    assert year(tmp_path).run().code == 0
    resumed = ResumingLedger(tmp_path / "budget.db").of_series("visits")
    with pytest.raises(dp.OverBudgetError, match="the total of 'visits' is used up"):
        rows.dp.hhh(["country"], user="who", ledger=resumed, release="visits-x", **law)
    assert ledger.spent.epsilon == before


def test_another_total_under_the_same_name_is_refused(tmp_path: Path) -> None:
    year(tmp_path).run("2026-W40")
    for changed in ({"total": (1.0, 1e-6)}, {"periods": 4}):
        with pytest.raises(dp.ReleaseNameError, match="Give it another name"):
            year(tmp_path, **changed).run()


def test_the_law_that_was_paid_for_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: another version, which finds another epsilon, goes on with the one of the first run."""
    year(tmp_path).run("2026-W40")
    real = due.WholeTotal.of

    def other(*given: Any) -> due.WholeTotal:
        found = real(*given)
        law = {**found.law, "epsilon": 0.9 * float(found.law["epsilon"])}  # type: ignore[arg-type]
        return replace(found, law=law)

    monkeypatch.setattr(due.WholeTotal, "of", other)
    done = year(tmp_path).run()
    assert (done.code, done.cost) == (0, (0.0, 0.0))
    ledger = dp.Ledger(tmp_path / "budget.db")
    assert ledger.releases()["epsilon"].nunique() == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"total": 2.0}, "total must be a pair"),
        ({"periods": 0}, "releases"),
        ({"epsilon": 1.0}, "must be left out"),
        ({"total": (1e-9, 1e-6)}, "report 'visits'"),
    ],
)
def test_totals_that_cannot_be(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(dp.DpframeError, match=said):
        year(tmp_path, **changed)


def test_a_total_needs_a_ledger_that_composes(tmp_path: Path) -> None:
    made = dp.Series(
        [WHOLE],
        source=frame().assign(who=1),
        period=PERIOD,
        ledger={"path": tmp_path / "b.db", "epsilon": 3.0, "delta": 1e-5},
    )
    with pytest.raises(dp.ParameterError, match="accountant='pld'"):
        made.run()


# -- gaps ------------------------------------------------------------------------------------------


def test_gaps_that_share_a_reason_are_told_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column that is not there is one line however many periods lack it; to_frame() has all."""
    edited(folder, 'column = "when"', 'column = "WHEN"')
    assert run(folder, "--dry-run") == 1
    said = capsys.readouterr().out
    assert said.count("gap: ") == 1
    assert "gap: visits-2026-W40 to visits-2026-W43 (4): column 'WHEN' does not exist." in said
    told = dp.Series.read(folder / "reports.toml").run(dry_run=True)
    assert [step.period for step in told.gaps] == [f"2026-W{week}" for week in range(40, 44)]


def test_a_missing_file_is_a_gap_and_filled_later(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file a period: what is missing is said, published as missing, and drawn when it comes."""
    edited(folder, '"visits.parquet"', '"visits-{period}.parquet"')
    for week in (40, 41, 43):
        frame().to_parquet(folder / f"visits-2026-W{week}.parquet")
    assert run(folder) == 1
    said = capsys.readouterr().out
    assert "3 drawn, 1 missing" in said
    assert "gap: visits-2026-W42" in said
    assert "does not exist" in said
    assert "not drawn" in (folder / "pages" / "visits.html").read_text()
    assert run(folder, "--quiet") == 1
    assert "gap: visits-2026-W42" in capsys.readouterr().err
    frame().to_parquet(folder / "visits-2026-W42.parquet")
    assert run(folder) == 0
    assert len(Ledger(folder / "budget.db").releases()) == 4


def test_a_spent_budget_is_a_gap_with_a_code_of_its_own(folder: Path) -> None:
    """Exit code 3 says that only budget is missing; 1 that something else is, too."""
    Ledger(folder / "budget.db", epsilon=3.0, delta=1e-5)
    dp.hhh(frame(), ["country"], epsilon=2.6, delta=1e-6, ledger=folder / "budget.db")
    assert run(folder) == 3
    edited(folder, 'source = "visits.parquet"', 'source = "nowhere.parquet"')
    assert run(folder) == 1


def test_a_rehearsal_says_what_a_run_costs_and_leaves_nothing(folder: Path) -> None:
    """Law: --dry-run names the releases and the cost of the run that follows; no file is made."""
    there = {path.name for path in folder.iterdir()}
    made = dp.Series.read(folder / "reports.toml")
    for until in ("2026-W41", None):
        would = made.run(until, dry_run=True)
        assert {path.name for path in folder.iterdir()} == there
        done = made.run(until)
        assert (would.cost, would.spent, would.left) == (done.cost, done.spent, done.left)
        pairs = zip(would.steps, done.steps, strict=True)
        assert all((a.state == "due") == (b.state == "drawn") for a, b in pairs)
        there = {path.name for path in folder.iterdir()}
    assert done.cost == (0.0, 0.0)  # other weeks of the same column


ASKED: dict[str, dict[str, Any]] = {
    "tree-counts": {"hierarchy": ["country"], "delta": 1e-7},
    "heavy-hitters": {"column": "country", "k": 3, "delta": 1e-7},
    "rollup": {"by": ["country"], "measures": ["count AS n"], "delta": 1e-7},
    "synthesize": {"columns": {"who": [0, 2000]}},
    "prefix-tree": {"column": "country", "user": "who", "delta": 1e-7},
}


@some("tree-counts", "rollup")
@pytest.mark.parametrize("question", ASKED)
def test_every_question_can_be_asked_every_week(question: str, tmp_path: Path) -> None:
    """Law: what a function needs is enough, and a rehearsal says what its run does. Of a prefix
    tree, whose noise follows from the number of users, it needs that number."""
    week = pd.date_range("2026-10-05", periods=1200, freq="7min")
    rows = pd.DataFrame({"when": week, "country": ["FR", "DE"] * 600, "who": range(1200)})
    report = {"name": "r", "question": question, "epsilon": 2.0, **ASKED[question]}
    made = dp.Series(
        [report],
        source=rows,
        period={**PERIOD, "first": "2026-W41"},
        ledger={"path": tmp_path / "b.db", "epsilon": 3.0, "delta": 1e-5},
    )
    would = made.run("2026-W41", dry_run=True)
    assert [step.state for step in would.steps] == ["gap" if question == "prefix-tree" else "due"]
    done = made.run("2026-W41")
    assert [(step.state, step.epsilon) for step in done.steps] == [("drawn", 2.0)]


def test_a_rehearsal_names_a_column_that_is_not_there(folder: Path) -> None:
    """Law: what a run could not read is a gap of the rehearsal too, with the same words."""
    edited(folder, 'hierarchy = ["country"]', 'hierarchy = ["countri"]')
    made = dp.Series.read(folder / "reports.toml")
    would = made.run(dry_run=True)
    assert would.code == 1
    assert {step.state for step in would.steps} == {"gap"}
    assert "'countri'" in str(would)
    assert [step.why for step in would.steps] == [step.why for step in made.run().steps]


def test_several_reports_pay_for_what_overlaps(folder: Path) -> None:
    daily = '[[report]]\nname = "daily"\nquestion = "tree-counts"\nhierarchy = ["country"]\n'
    daily += 'epsilon = 0.25\ndelta = 1e-7\nperiod = { unit = "day", first = "2026-10-05" }\n'
    edited(folder, "[[report]]", f"{daily}\n[[report]]")
    done = dp.Series.read(folder / "reports.toml").run()
    assert done.code == 0
    assert done.spent[0] == 0.75
    assert sorted(Path(page).name for page in done.pages) == ["daily.html", "visits.html"]
    tables = content(folder / "results.duckdb")
    assert tables["daily_all"]["period"].nunique() == 23


# -- what was cut off ------------------------------------------------------------------------------


def test_what_a_living_process_could_not_store_stays_charged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: an error after the charge, which may depend on the noise, is paid for, and so is the
    next draw; only what a dead process left is gone on with (tests/privacy)."""
    made = dp.Series.read(folder / "reports.toml")

    def full(*_: object) -> None:
        raise dp.LedgerError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "keep", full)
        assert made.run("2026-W40").code == 1
    assert not list(folder.glob("*unfinished*"))
    assert made.run("2026-W40").code == 0
    charges = Ledger(folder / "budget.db").releases()
    assert charges["stored"].tolist() == [False, True]
    assert Ledger(folder / "budget.db").spent.epsilon == 1.0


@pytest.mark.parametrize(("where", "state"), [(ResumingLedger, "drawn"), (Ledger, "stored")])
def test_a_rehearsal_knows_what_was_cut_off(folder: Path, where: Any, state: str) -> None:
    """Law: what a killed process was charged for costs nothing in the next run, which the rehearsal
    says, be the draw in a file already or not; files of draws that are done, or never were charged,
    are removed."""
    made = dp.Series.read(folder / "reports.toml")

    def killed() -> None:
        where.keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        made.run("2026-W40")

    assert ended(forked(killed)) == -signal.SIGKILL
    assert len(list(folder.glob("*unfinished*"))) == 1
    (folder / "budget.db-unfinished-never").touch()
    would, done = made.run("2026-W40", dry_run=True), made.run("2026-W40")
    assert would.cost == done.cost == (0.0, 0.0)
    assert done.steps[0].state == state
    assert not list(folder.glob("*unfinished*"))
    assert len(Ledger(folder / "budget.db").releases()) == 1


def test_a_draw_is_stored_for_the_charge_that_its_file_names(folder: Path) -> None:
    """Law: a file of one release that holds a draw of another stores nothing, and is removed."""
    made = dp.Series.read(folder / "reports.toml")

    def killed() -> None:
        Ledger.keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        made.run("2026-W40")

    assert ended(forked(killed)) == -signal.SIGKILL
    (file,) = folder.glob("*unfinished*")
    found = unpack_result(file.read_bytes())
    assert found is not None
    file.write_bytes(pack_result(replace(found, release_id="0" * 32)))
    assert made.run("2026-W40").steps[0].state == "drawn"
    assert not list(folder.glob("*unfinished*"))
    assert Ledger(folder / "budget.db").releases()["stored"].tolist() == [False, True]


# -- sources ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["table = 'web.visits'", "sql = 'FROM web.visits WHERE true'"])
def test_a_table_of_a_database_is_read(folder: Path, read: str) -> None:
    """In a file of DuckDB, opened read-only; and it is named in what is stored."""
    with duckdb.connect(folder / "shop.duckdb") as con:
        source = str(folder / "visits.parquet")
        con.execute(f"CREATE SCHEMA web; CREATE TABLE web.visits AS FROM '{source}'")
    edited(folder, '"visits.parquet"', f"{{ database = 'shop.duckdb', {read} }}")
    assert run(folder) == 0
    releases = Ledger(folder / "budget.db").releases()
    assert releases["source"].str.endswith("shop.duckdb").all()
    assert run(folder) == 0
    edited(folder, "web.visits", "web.visitors")
    assert run(folder) == 2  # the series was changed


# -- what is wrong ---------------------------------------------------------------------------------

WRONG = {
    "an unknown key": ("delta = 1e-7", "delta = 1e-7\ntreshold = 9", "Did you mean 'threshold'"),
    "a key of the file": ("pages =", "page =", "Did you mean 'pages'"),
    "a key of a period": ("unit =", "units =", "Did you mean 'unit'"),
    "a unit": ('"week"', '"fortnight"', "must be one of year, quarter, month, week, day, hour"),
    "no first": ('first = "2026-W40"', "", "has no first"),
    "a first of another unit": ('"2026-W40"', '"2026-10"', "is no week. It begins in '2026-W40'"),
    "a question": ('"hhh"', '"hh"', "Did you mean 'hhh'"),
    "an argument": ("epsilon = 0.5", "epsilon = -1.0", "report 'visits': epsilon"),
    "a name like a period": ('"visits"', '"visits-2"', "ends like a period"),
    "no ledger": ("[ledger]", "[other]", "Did you mean|has no key 'other'"),
    "no TOML": ("[ledger]", "[ledger", "is no TOML"),
    "a grace": ('unit = "week"', 'unit = "week"\ngrace = "soon"', "grace"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_declaration_does_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    old, new, said = WRONG[fault]
    edited(folder, old, new)
    there = {path.name for path in folder.iterdir()}
    assert run(folder) == 2
    error = capsys.readouterr().err
    assert any(part in error for part in said.split("|"))
    assert {path.name for path in folder.iterdir()} == there


@pytest.mark.parametrize("other", ["visits", "Visits"])
def test_two_reports_of_one_name_are_refused(tmp_path: Path, other: str) -> None:
    with pytest.raises(dp.ParameterError, match="two reports are called"):
        series(tmp_path, reports=[VISITS, {**VISITS, "name": other}])


def test_a_changed_declaration_names_the_release_that_differs(folder: Path) -> None:
    """Law: a series stays what it was; nothing is drawn, also of its other periods."""
    made = dp.Series.read(folder / "reports.toml")
    made.run("2026-W41")
    edited(folder, "epsilon = 0.5", "epsilon = 0.4")
    changed = dp.Series.read(folder / "reports.toml")
    with pytest.raises(dp.ReleaseNameError, match=r"'visits-2026-W40'.*epsilon was 0\.5"):
        changed.run()
    with pytest.raises(dp.ReleaseNameError, match="'visits-2026-W40'"):
        changed.run(dry_run=True)
    assert len(Ledger(folder / "budget.db").releases()) == 2


PAID = {
    **{name: value for name, value in VISITS.items() if name != "hierarchy"},
    "question": "rollup",
    "by": VISITS["hierarchy"],
    "measures": ["count"],
}


@pytest.mark.parametrize("asked", [VISITS, PAID], ids=["hhh", "rollup"])
def test_a_report_that_began_with_shares_goes_on_with_them(
    asked: dict[str, Any], folder: Path
) -> None:
    """Law: a report of users that names no way stays as an earlier version began it; a new one
    takes rounds."""
    by_user = {**asked, "user": "country"}
    old = [{**by_user, "contribution": "share"}]
    assert series(folder, reports=old).run(until="2026-W40").code == 0
    for _ in range(2):
        assert series(folder, reports=[by_user]).run(until="2026-W41", dry_run=True).code == 0
        assert series(folder, reports=[by_user]).run(until="2026-W41").code == 0
    new = [{**by_user, "name": "new"}]
    assert series(folder, reports=new).run(until="2026-W41").code == 0
    ledger = Ledger(folder / "b.db")
    told = {name: json.loads(_stored(ledger, name).receipt) for name in ledger.names()}
    ways = {name: receipt["contribution"] for name, receipt in told.items()}
    assert ways == {
        "visits-2026-W40": "share",
        "visits-2026-W41": "share",
        "new-2026-W40": "items",
        "new-2026-W41": "items",
    }
    assert "the report began with shares" in str(told["visits-2026-W41"]["card"])
    with pytest.raises(dp.ReleaseNameError, match="has changed"):
        series(folder, reports=[{**by_user, "contribution": "items"}]).run(until="2026-W41")


def _stored(ledger: Ledger, name: str) -> Any:
    found = ledger.find(name)
    assert found is not None
    return found


def test_clocks_that_jump_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An until that is not over, or before what is drawn; a clock that went back."""
    made = dp.Series.read(folder / "reports.toml")
    with pytest.raises(dp.ParameterError, match=r"'2026-W44'\) is not over.*is 2026-W43"):
        made.run("2026-W44")
    made.run()
    with pytest.raises(dp.ParameterError, match=r"until .* is before 2026-W43"):
        made.run("2026-W41")
    with pytest.raises(dp.ParameterError, match=r"until .* must be a period"):
        made.run("2026-W40..2026-W43")
    monkeypatch.setattr(due, "current_time", lambda: datetime(2026, 10, 14, tzinfo=UTC))
    with pytest.raises(dp.ParameterError, match="is drawn, but not due by this machine's clock"):
        made.run()
    monkeypatch.setattr(due, "current_time", lambda: datetime(2026, 9, 14, tzinfo=UTC))
    fresh = series(folder).run()
    assert (fresh.code, fresh.steps) == (0, ())
    assert "nothing is due yet" in str(fresh)


def test_a_target_that_cannot_be_written_fails_the_run_and_keeps_the_releases(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "results.duckdb").write_text("mine")
    assert run(folder) == 1
    assert "failed: to (" in capsys.readouterr().out
    (folder / "results.duckdb").unlink()
    assert run(folder) == 0
    assert assert_whole(content(folder / "results.duckdb")) == 4


def test_a_database_of_duckdb_is_read_in_utc(folder: Path) -> None:
    """Law: a query that casts times with a zone gives a record one time, on every machine."""
    with duckdb.connect(folder / "shop.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
    query = "SELECT current_setting('TimeZone') AS zone"
    with _duck.select_from_database(folder / "shop.duckdb", query) as relation:
        assert relation.fetchall() == [("UTC",)]


def test_what_databases_say_is_in_no_context(folder: Path) -> None:
    """Law: nothing of their words, which can quote a row, hangs on an error of ours."""
    with closing(sqlite3.connect(folder / "shop.db")) as db:
        db.execute("CREATE TABLE t (x TEXT)")
        db.execute("INSERT INTO t VALUES ('secret')")
        db.commit()
    with pytest.raises(dp.SourceError, match="cannot be read") as of_rows:
        read_sqlite(folder / "shop.db", "SELECT json_extract(x, '$') AS y FROM t")
    duckdb.connect(folder / "shop.duckdb").close()
    query = "SELECT * FROM missing"
    reading = _duck.select_from_database(folder / "shop.duckdb", query)
    with pytest.raises(dp.SourceError, match="cannot be read") as of_query, reading:
        pass
    assert (of_rows.value.__context__, of_query.value.__context__) == (None, None)


HOSTILE_ROWS = """
CREATE TABLE visits ("when" TEXT, country TEXT, n INTEGER, price DECIMAL(9, 2), "odd ""name" BLOB);
INSERT INTO visits VALUES ('2026-10-01 10:00:00', 'FR', 3, 2.5, x'ff');
INSERT INTO visits VALUES ('2026-10-02 10:00:00', x'ff', 'three', 'much', NULL);
INSERT INTO visits VALUES (7, 8, 9.5, 1e999, 1);
INSERT INTO visits VALUES (NULL, NULL, NULL, NULL, NULL);
"""


def test_sqlite_is_read_by_declared_types(tmp_path: Path) -> None:
    """Law: no value raises an error, or changes the type of its column: it is NULL, or text."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(HOSTILE_ROWS)
    found = read_sqlite(path, 'SELECT *, n + 1 AS "more" FROM visits')
    assert [str(kind) for kind in found.schema.types] == [
        *("string", "string", "int64", "double", "string", "string")
    ]
    assert found["n"].to_pylist() == [3, None, None, None]
    assert found["price"].to_pylist() == [2.5, None, float("inf"), None]
    assert found["country"].to_pylist() == ["FR", r"\xFF", "8", None]
    assert read_sqlite(path, "SELECT n FROM visits WHERE false").schema.types == [pa.int64()]
    for query in ("SELECT nothing FROM visits", "DELETE FROM visits"):
        with pytest.raises(dp.SourceError, match="cannot be read"):
            read_sqlite(path, query)


def test_a_table_of_sqlite_is_asked(folder: Path) -> None:
    """A file of SQLite under any name; times that are texts are read as they are written."""
    rows = frame().assign(when=lambda d: d["when"].astype(str))
    with closing(sqlite3.connect(folder / "shop.db")) as db:
        rows.to_sql("visits", db, index=False)
    edited(folder, '"visits.parquet"', "{ database = 'shop.db', table = 'visits' }")
    edited(folder, "epsilon = 0.5", "epsilon = 2.0")
    assert run(folder) == 0
    ledger = Ledger(folder / "budget.db")
    totals = [ledger.recall(name)["count"][0] for name in ledger.names()]
    assert all(abs(total - 1008) < 150 for total in totals)


@pytest.mark.engines
def test_postgres_is_read_by_declared_types(tmp_path: Path) -> None:
    """Law: the same of PostgreSQL; dates and numbers that Python cannot hold are NULL. Nothing that
    is stored names the user or the password."""
    from tests.engines import postgres

    with postgres() as engine:
        info = engine.connection.info
        engine.run(
            "CREATE TABLE odd (d date, t timestamptz, n numeric, i int, b boolean, x jsonb, "
            '"a""b" text)'
        )
        engine.run("INSERT INTO odd VALUES ('infinity', '-infinity', 'NaN', 1, true, '{}', 'a')")
        engine.run("INSERT INTO odd VALUES ('4713-01-01 BC', now(), 1e400, 2, false, '[]', '')")
        engine.run("INSERT INTO odd VALUES ('2026-10-01', '2026-10-01', 1.5, 3, NULL, '1', NULL)")
        address = f"postgresql://{info.user}@/{info.dbname}?host={info.host}&port={info.port}"
        found = read_postgres(address, "SELECT * FROM odd")
        assert found["d"].null_count == 2
        assert found["t"].null_count == 1
        assert found["n"].to_pylist() == [None, None, 1.5]
        assert found["i"].to_pylist() == [1, 2, 3]
        assert found["x"].to_pylist() == ["{}", "[]", "1"]
        with pytest.raises(dp.SourceError, match="cannot be read in PostgreSQL"):
            read_postgres(address, "SELECT 1 / (i - 1) FROM odd")
        secret = f"postgresql://{info.user}:geheim@db.example/{info.dbname}"
        made = DatabaseSource(database=secret, query="SELECT * FROM odd")
        said = made.describe("2026-W40")
        assert said == f"SELECT * FROM odd in PostgreSQL db.example/{info.dbname}"


# -- the planner -----------------------------------------------------------------------------------


WAYS = ["way", "mechanism", "epsilon", "delta", "half_width", "shown_from", "epsilon_together"]


def test_sql_has_the_ways_of_python() -> None:
    plan = dp.plan_series(20, "hhh", ["a", "b"], user="who", total=(2.0, 1e-6))
    with duckdb.connect() as con:
        dp.register(con)
        found = con.sql(
            "FROM dp_plan_series('hhh', 'columns:a,b', 20, 2.0, 1e-6, arguments := {'user': 'who'})"
        ).df()
    expected = plan.to_frame()
    assert found[WAYS].to_dict("list") == expected[WAYS].to_dict("list")
    assert found.loc[found["chosen"], "mechanism"].tolist() == [plan.arguments["mechanism"]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("'hhhh', 'columns:a', 20, 2.0, 1e-6", "Did you mean 'hhh'"),
        ("'hhh', 'columns:a', 20, 2.0", "delta of total is missing"),
        ("'hhh', 'columns:a', 0, 2.0, 1e-6", "releases"),
        ("'hhh', 'columns:a', 20, 2.0, 1e-6, arguments := 'who'", "must be a struct"),
        ("'hhh', 'columns:a', 20, 2.0, 1e-6, arguments := {'usr': 'w'}", "Did you mean 'user'"),
    ],
)
def test_sql_says_what_is_wrong_with_a_plan(call: str, words: str) -> None:
    with duckdb.connect() as con:
        dp.register(con)
        with pytest.raises(duckdb.Error, match=words):
            con.sql(f"FROM dp_plan_series({call})")


def test_the_command_plans_and_says_until_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: ``dpframe plan-series`` prints the table of Python; with a ledger also how many of the
    releases that are planned it still holds."""
    book = dp.Ledger(tmp_path / "b.db", epsilon=2.0, delta=1e-6, accountant="pld")
    plan = dp.plan_series(20, "hhh", ["a", "b"], user="who", total=(2.0, 1e-6))
    command = ["plan-series", "hhh", "columns:a,b", "--releases", "20", "--user", "who"]
    command += ["--epsilon", "2", "--delta", "1e-6", "--ledger", str(book.path), "--every", "week"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert str(plan) in out
    assert "more fit if they are reserved now (out on " in out
    with pytest.raises(SystemExit):
        main(["plan-series", "hhhh", "columns:a,b", "--releases", "20"])
