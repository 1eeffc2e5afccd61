"""Measures on cells of several hierarchies at every door, typed as a user types them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import DpframeError, ParameterError, SourceError
from dpframe.testing import seeded_noise
from tests.integration.test_cells_front_doors import ASKED, talks

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}
MEASURES: dict[str, Any] = {"n": "count", "sent": dp.sum("bytes", lower=0, upper=20)}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return talks()


def test_rows_are_disjoint_and_add_up(frame: pd.DataFrame) -> None:
    """Law: every record is in one segment, and the rest is one: all rows add up to everything."""
    result = frame.dp.rollup(ASKED, MEASURES, **BUDGET, threshold=300)
    assert list(result.columns) == [
        *("level", "prefix", "src", "src_level", "dst", "dst_level"),
        *("n", "n_lower", "n_upper", "sent", "sent_lower", "sent_upper"),
    ]
    top = result[result["prefix"] == "10.0.0.1/32 * 192.168.0.0/16"].iloc[0]
    assert (top["src_level"], top["dst_level"], top["level"]) == (4, 2, 14)
    assert abs(top["n"] - 900) < 40
    assert abs(top["sent"] - frame["bytes"][:900].sum()) < 800
    assert abs(result["n"].sum() - len(frame)) < 40 * len(result)
    assert abs(result["sent"].sum() - frame["bytes"].sum()) < 800 * len(result)
    receipt = result.dp.receipt
    assert receipt["order"][0] == "src /32 * dst /16"
    assert "each record counts in the first of these that is reported" in str(receipt)
    assert "node" not in str(receipt)


def test_explain_has_the_words_of_cells() -> None:
    """Law: nothing is said of nodes, which cells have none of."""
    several = {**MEASURES, "sizes": dp.distinct("bytes", at_most=2), "mean": "mean(bytes, 0, 20)"}
    said = str(dp.explain_rollup("src * dst", several, user="who", **BUDGET))
    assert "pairs of segment and value of a user" in said
    assert "3 kinds of cells" in said
    assert "node" not in said


def test_a_product_and_measures_by_name_are_their_texts(frame: pd.DataFrame) -> None:
    """Law: Python's objects, its texts and those of SQL ask one question: one seed, one answer."""
    con = duckdb.connect()
    con.execute("CREATE TABLE talks AS FROM frame")
    dp.register(con)
    given = {**BUDGET, "threshold": 300}
    measures = "{'n': 'count', 'sent': 'sum(bytes, 0, 20)'}"
    budget = "epsilon := 4.0, delta := 1e-6, threshold := 300"
    asked = f"'talks', '{ASKED}', {measures}, {budget}"
    with seeded_noise(1):
        one = frame.dp.rollup(ASKED, MEASURES, **given)
    with seeded_noise(1):
        pair = dp.product("ip:src?version=4", dp.ip("dst", prefixes=(8, 16), version=4))
        two = dp.rollup(frame, pair, MEASURES, **given)
    with seeded_noise(1):
        three = con.execute(f"FROM dp_rollup({asked})").df()
    pd.testing.assert_frame_equal(one, two)
    pd.testing.assert_frame_equal(one.astype(object), three.astype(object))
    explained = con.execute(f"FROM dp_explain_rollup({asked})").df().astype(str)
    assert explained.apply(lambda row: "14 kinds of cells" in " ".join(row), axis=1).any()


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        (dp.cube(["src", "dst"]), {}),
        (dp.grouping_sets([["src", "dst"], ["dst"]]), {}),
        ("src * dst", {"user": "who"}),
        ("src > path:dst", {"heavy": "sent", "threshold": 3000}),
        ("src * dst", {"heavy": "sent", "user": "who"}),
        ("src * dst", {"period": ("when", "2026"), "data": "a year that is not over"}),
    ],
    ids=str,
)
def test_everything_that_goes_with_one_hierarchy_goes_with_several(
    frame: pd.DataFrame, asked: Any, arguments: dict[str, Any]
) -> None:
    rows = frame.assign(when=pd.Timestamp("2026-01-05"))
    measures = {
        **MEASURES,
        "size": dp.mean("bytes", lower=0, upper=20),
        "found": dp.sum("bytes", lower=0, upper="auto", clipped=True),
        "sizes": dp.distinct("bytes", at_most=3 if "user" in arguments else None),
    }
    result = rows.dp.rollup(asked, measures, **{**BUDGET, "epsilon": 20.0, **arguments})
    assert len(result) > 1
    whole = frame["who"].nunique() if "user" in arguments else len(frame)
    assert abs(result["n"].sum() - whole) < 60
    cell = result[result["level"] > 0].iloc[-1]
    assert 10 < cell["size"] < 17
    assert cell["sizes_lower"] <= 7


def test_a_named_release_is_replayed_and_published(frame: pd.DataFrame, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-5)
    con = duckdb.connect()
    con.execute("CREATE TABLE talks AS FROM frame")
    dp.register(con, ledger=ledger)
    asked = "'src * dst', {'n': 'count'}, epsilon := 4.0, delta := 1e-6, release := 'a'"
    first = con.execute(f"FROM dp_rollup('talks', {asked})").df()
    pd.testing.assert_frame_equal(first, con.execute(f"FROM dp_rollup('talks', {asked})").df())
    assert ledger.spent.epsilon == pytest.approx(4.0)
    published = tmp_path / "results.duckdb"
    dp.publish(ledger, published)
    with duckdb.connect(str(published), read_only=True) as results:
        rows = results.sql("FROM a").df()
    assert rows["prefix"].tolist() == first["prefix"].tolist()
    assert rows["n"].tolist() == first["n"].tolist()


def test_an_empty_table_and_one_record_look_alike() -> None:
    """Law: a row for the rest, and nothing else; in SQL too, whatever connection sees the table."""
    con = duckdb.connect()
    con.execute("CREATE TEMP TABLE none (a VARCHAR, b INTEGER)")
    dp.register(con)
    given = "epsilon := 1.0, delta := 1e-6"
    found = con.execute(f"FROM dp_rollup('temp.none', 'a * b', {{'n': 'count'}}, {given})").df()
    assert found["prefix"].tolist() == ["*"]
    for rows in ({"a": [], "b": []}, {"a": ["x"], "b": [1]}):
        result = pd.DataFrame(rows).dp.rollup("a * b", "count", epsilon=1.0, delta=1e-6)
        assert result["prefix"].tolist() == ["*"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"keys": [("a", "b")], "delta": None}, "^keys does not go with .*eave keys out"),
        ({"measures": {"src_level": "count"}}, "'src_level'"),
        ({"threshold": 3}, "14 kinds of cells"),
    ],
)
def test_what_cannot_be_had_says_why_and_is_not_charged(
    frame: pd.DataFrame, tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-5)
    given: dict[str, Any] = {"measures": "count", **BUDGET, "ledger": ledger, **arguments}
    with pytest.raises((DpframeError, ParameterError), match=said):
        frame.dp.rollup(ASKED, **given)
    assert ledger.spent.epsilon == 0


def test_nothing_depends_on_the_order_of_rows(frame: pd.DataFrame) -> None:
    """Law: which noise a cell gets, and where it stands, is decided by the cells alone."""
    with seeded_noise(2):
        one = frame.dp.rollup(ASKED, MEASURES, **BUDGET)
    with seeded_noise(2):
        other = frame.sample(frac=1, random_state=1).dp.rollup(ASKED, MEASURES, **BUDGET)
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("by", ["a * b", ["a", "b"]], ids=str)
def test_a_query_with_other_rows_at_each_reading_is_refused(by: Any) -> None:
    """Law: an error of ours that says what to do, and no number that lacks records."""
    con = duckdb.connect()
    rows = con.sql("SELECT range % 2 AS a, (random() * 1e9)::BIGINT AS b, 1 AS v FROM range(3000)")
    with pytest.raises(SourceError, match="changed while it was read"):
        dp.rollup(rows, by, {"s": "sum(v, 0, 1)"}, **BUDGET, user="a")
