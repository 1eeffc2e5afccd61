"""Changes by every door, and on real weeks."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.doors.cli.main import main

BY = ["department", "product_category"]
WEEKS = (46, 47)
NAMES = [f"sales-2017-W{week}" for week in WEEKS]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def week(number: int) -> pd.DataFrame:
    rng = np.random.default_rng(number)
    return pd.DataFrame(
        {
            "department": rng.choice(["GROCERY", "DRUG GM", "MEAT"], 2000, p=[0.7, 0.2, 0.1]),
            "product_category": rng.integers(1, 4, 2000),
            "sales_value": rng.uniform(0, 20, 2000).round(2),
        }
    )


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    """Two weeks under names, as counts and as a rollup."""
    book = dp.Ledger(tmp_path / "b.db", epsilon=50.0, delta=1e-2)
    for number, name in zip(WEEKS, NAMES, strict=True):
        rows = week(number)
        rows.dp.hhh(BY, **BUDGET, ledger=book, release=name)
        paid = {"n": "count", "paid": dp.sum("sales_value", lower=0, upper=20)}
        rows.dp.rollup(BY, paid, **BUDGET, ledger=book, release=f"rolled-{number}")
    return book


def alike(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_index_type=False)


def test_every_door_says_the_same_and_charges_nothing(
    ledger: dp.Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: frames, names, the accessor, SQL and the command line give one answer; free."""
    spent = ledger.spent
    expected = dp.change(*NAMES, ledger=ledger)
    frames = [ledger.recall(name) for name in NAMES]
    alike(dp.change(*frames), expected)
    alike(frames[1].dp.change(frames[0]), expected)
    with dp.use_ledger(ledger):
        alike(frames[1].dp.change(NAMES[0]), expected)
    with duckdb.connect() as con:
        dp.register(con, ledger=ledger)
        table = con.sql(f"FROM dp_change({NAMES[0]!r}, {NAMES[1]!r})").to_arrow_table()
    assert table.column_names == list(expected.columns)
    kinds = ["int64", "bool", "double"]
    told = [str(table[name].type) for name in ("change", "more_than_noise", "ratio")]
    assert told == kinds
    for name in expected.columns:
        shown = [None if pd.isna(v) else v for v in expected[name].tolist()]
        assert table[name].to_pylist() == shown
    out = tmp_path / "change.json"
    given = ["change", *NAMES, "--ledger", str(ledger.path)]
    assert main([*given, "-o", str(out)]) == 0
    rows = json.loads(out.read_text())
    assert [row["change_lower"] for row in rows["rows"]] == expected["change_lower"].tolist()
    assert rows["change"]["confidence"] == 0.95
    assert "changes are more than noise" in capsys.readouterr().err
    assert main([*given, "--each", "--confidence", "0.9", "-o", str(tmp_path / "c.csv")]) == 0
    narrow = pd.read_csv(tmp_path / "c.csv")
    width = expected["change_upper"] - expected["change_lower"]
    assert ((narrow["change_upper"] - narrow["change_lower"]) <= width).all()
    assert ledger.spent == spent


def test_arguments_of_sql_are_those_of_python(ledger: dp.Ledger) -> None:
    names = [f"rolled-{number}" for number in WEEKS]
    options = {"measure": "paid", "confidence": 0.8, "simultaneous": False}
    expected = dp.change(*names, **options, ledger=ledger)
    with duckdb.connect() as con:
        dp.register(con, ledger=ledger)
        given = "measure := 'paid', confidence := 0.8, simultaneous := false"
        found = con.execute(
            f"SELECT change, change_lower, ratio_upper FROM dp_change('{names[0]}', '{names[1]}', "
            f"{given})"
        ).fetchall()
    columns = zip(*(expected[c] for c in ("change", "change_lower", "ratio_upper")), strict=True)
    assert found == [tuple(None if pd.isna(v) else v for v in row) for row in columns]


def test_a_change_has_a_page_and_a_figure(ledger: dp.Ledger, tmp_path: Path) -> None:
    """Law: what ``dp.change`` returns has ``.dp.report`` and ``.dp.plot``, the clearest first, and
    both tell what noise alone may explain; the command line writes the same page."""
    pytest.importorskip("plotly")
    spent = ledger.spent
    found = dp.change(*NAMES, ledger=ledger)
    found.dp.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<script" not in page
    assert f"Change of count, {NAMES[0]} to {NAMES[1]}" in page
    assert page.count("<tr><th scope='row'><bdi>") == int(found["more_than_noise"].sum())
    assert page.count("<tr class='within'>") == int((~found["more_than_noise"]).sum())
    guarantee = ledger.recall(NAMES[0]).dp.receipt["guarantee"]
    assert page.count(guarantee) >= 3
    for row in found.to_dict("records"):
        signed = f"{row['change']:+,}".replace("-", "−").replace("+0", "0")
        assert f"{signed}<small>" in page
    (bars,) = found.dp.plot().data
    assert sorted(bars.x) == sorted(found["change"])
    upper = sorted(x + more for x, more in zip(bars.x, bars.error_x.array, strict=True))
    assert upper == sorted(found["change_upper"])
    given = ["change", *NAMES, "--ledger", str(ledger.path)]
    assert main([*given, "-o", str(tmp_path / "same.html")]) == 0
    assert (tmp_path / "same.html").read_text("utf-8") == page
    found.dp.save(tmp_path / "saved.html")
    assert (tmp_path / "saved.html").read_text("utf-8") == page
    found.dp.save(tmp_path / "saved.csv")
    assert pd.read_csv(tmp_path / "saved.csv")["change"].tolist() == found["change"].tolist()
    for ending in ("xlsx", "pdf"):
        with pytest.raises(dp.ParameterError, match=rf"saved\.{ending}.*\.csv"):
            found.dp.save(tmp_path / f"saved.{ending}")
    with pytest.raises(dp.ParameterError, match="a change has no receipt of its own"):
        _ = found.dp.receipt
    assert ledger.spent == spent


def test_a_change_that_was_edited_has_no_page(ledger: dp.Ledger, tmp_path: Path) -> None:
    """Law: rows may be left out, and the page says so; a number that was changed is refused."""
    pytest.importorskip("plotly")
    found = dp.change(*NAMES, ledger=ledger)
    found.head(2).dp.report(tmp_path / "page.html", title="Two of them")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f"An extract: 2 of {len(found)} rows." in page
    assert "extract" in found.head(2).dp.plot().layout.title.subtitle.text
    edited = found.copy()
    edited.loc[1, "change"] += 1
    with pytest.raises(dp.ParameterError, match=r"not what dp\.change returned"):
        edited.dp.report(tmp_path / "no.html")
    with pytest.raises(dp.ParameterError, match=r"not what dp\.change returned"):
        edited.dp.plot()
    with pytest.raises(dp.ParameterError, match="no column 'ratio'"):
        found.drop(columns="ratio").dp.plot()
    with pytest.raises(dp.ParameterError, match=r"kind \('bar'\) does not fit a change"):
        found.dp.plot(kind="bar")
    assert not (tmp_path / "no.html").exists()


def test_sql_says_what_is_wrong(ledger: dp.Ledger) -> None:
    with duckdb.connect() as con:
        dp.register(con)
        with pytest.raises(duckdb.Error, match="needs a ledger"):
            con.execute("FROM dp_change('a', 'b')")
        dp.register(con, ledger=ledger)
        for names, said in (
            (f"'{NAMES[0]}', '{NAMES[0]}'", "same release"),
            (f"'{NAMES[0]}'", "after .None. must be the name"),
            (f"'{NAMES[0]}', 'sales-2017-W48'", "Did you mean"),
        ):
            with pytest.raises(duckdb.Error, match=said):
                con.execute(f"FROM dp_change({names})")


def test_the_command_line_explains_mistakes(
    ledger: dp.Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: exit code 2 and one sentence; the ledger is never written over."""
    given = ["change", NAMES[0], NAMES[0], "--ledger", str(ledger.path)]
    assert main(given) == 2
    assert "same release" in capsys.readouterr().err
    assert main(["change", *NAMES, "--ledger", str(ledger.path), "-o", str(ledger.path)]) == 2


def test_a_later_period_first_is_refused(tmp_path: Path) -> None:
    """Law: what fell is never shown as risen because two weeks were written the wrong way round,
    at any door; weeks as they follow each other compare."""
    rows = pd.concat([week(46), week(47)], ignore_index=True)
    rows["when"] = pd.date_range("2026-11-09", periods=len(rows), freq="5min")
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=50.0, delta=1e-2)
    for name in ("2026-W46", "2026-W47"):
        rows.dp.hhh(BY, **BUDGET, period=("when", name), ledger=ledger, release=name)
    words = "before is a release of 2026-W47 and after one of 2026-W46.*earlier one first"
    with pytest.raises(dp.ParameterError, match=words):
        dp.change("2026-W47", "2026-W46", ledger=ledger)
    with duckdb.connect() as con:
        dp.register(con, ledger=ledger)
        with pytest.raises(duckdb.Error, match=words):
            con.sql("FROM dp_change('2026-W47', '2026-W46')").fetchall()
    found = dp.change("2026-W46", "2026-W47", ledger=ledger)
    assert found.attrs["dp_change"]["before"]["period"]["text"] == "2026-W46"
