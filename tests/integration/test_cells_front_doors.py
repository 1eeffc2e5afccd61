"""Cells of several hierarchies at every door, typed as a user types them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.errors import DpframeError, ParameterError, SourceError
from dpframe.testing import seeded_noise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
ASKED = "ip:src?version=4 * ip:dst?prefixes=8,16&version=4"


def talks() -> pd.DataFrame:
    """Who talks to whom: one busy pair, one busy source, and many others."""
    rng = np.random.default_rng(3)
    pairs = [("10.0.0.1", "192.168.0.1")] * 900
    pairs += [("10.0.0.2", f"{20 + i % 180}.1.0.1") for i in range(700)]
    pairs += [(f"10.{a}.{b}.3", "8.8.8.8") for a, b in rng.integers(0, 200, (800, 2))]
    rows = pd.DataFrame(pairs, columns=["src", "dst"])
    return rows.assign(
        who=[f"u{i % 500}" for i in range(len(rows))], bytes=10 + np.arange(2400) % 7
    )


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return talks()


def test_a_frame_has_a_label_and_a_level_a_dimension_and_adds_up(frame: pd.DataFrame) -> None:
    """Law: disjoint segments and the rest, so that residuals add up to all records."""
    result = frame.dp.hhh(ASKED, **BUDGET, threshold=300)
    assert list(result.columns) == [
        *("level", "prefix", "src", "src_level", "dst", "dst_level"),
        *("residual", "lower", "upper"),
    ]
    top = result[result["prefix"] == "10.0.0.1/32 * 192.168.0.0/16"].iloc[0]
    assert (top["src_level"], top["dst_level"], top["level"]) == (4, 2, 14)
    source = result[result["prefix"] == "10.0.0.2/32"].iloc[0]
    assert (source["dst"], source["dst_level"]) == ("*", 0)
    assert abs(result["residual"].sum() - len(frame)) <= 47 * len(result)
    assert (result["lower"] <= result["residual"]).all()
    assert result["level"].is_monotonic_increasing


def test_the_receipt_prints_the_order_of_kinds(frame: pd.DataFrame) -> None:
    receipt = frame.dp.hhh(ASKED, **BUDGET, threshold=300).dp.receipt
    assert receipt["order"][0] == "src /32 * dst /16"
    assert receipt["order"] == list(reversed(receipt["levels"]))
    assert receipt["height"] == len(receipt["order"]) == 14
    assert receipt["hierarchy"] == ASKED
    assert "src /32 * dst /16; src /32 * dst /8; src /24 * dst /16" in str(receipt)


@pytest.mark.parametrize(
    "arguments",
    [
        {"user": "who", "threshold": 40},
        {"weight": "bytes", "max_weight": 16, "threshold": 3000},
        {"user": "who", "contribution": "records", "max_contributions": 3, "threshold": 300},
        {"period": ("when", "2026")},
        {"remainder": False, "threshold": 100, "release_share": 0.5},
    ],
    ids=str,
)
def test_everything_that_goes_with_one_hierarchy_goes_with_several(
    frame: pd.DataFrame, arguments: dict[str, Any]
) -> None:
    asked = frame.assign(when=pd.Timestamp("2026-01-05")) if "period" in arguments else frame
    given = {**BUDGET, **arguments}
    if "period" in arguments:
        given["data"] = "a year that is not over"
    result = asked.dp.hhh(["src", "dst"], **given)
    several = asked.dp.hhh("src * dst", **given)
    assert len(several) > 1
    assert len(result) > 1
    assert (0 in set(several["level"])) == arguments.get("remainder", True)


def test_users_are_counted_alike_at_every_door(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Law: by rounds, under one seed, pandas, SQL and Polars have the same cells and numbers, which
    are those of whole cells; a rollup with a mean takes shares, and says so."""
    shown = []
    with duckdb.connect() as con:
        con.register("frame", frame)
        con.execute("CREATE TABLE talks AS FROM frame")
        dp.register(con)
        asked = "'talks', 'src * dst', \"user\" := 'who', epsilon := 3.0, delta := 1e-6"
        named = "{'n': 'count', 'b': 'sum(bytes, 0, auto)'}"
        for call in (
            lambda: con.sql(f"FROM dp_hhh({asked})").df(),
            lambda: frame.dp.hhh("src * dst", user="who", **LARGE),
            lambda: con.sql(f"FROM dp_rollup({asked}, measures := {named})").df(),
            lambda: frame.dp.rollup("src * dst", OF_USERS, user="who", **LARGE),
        ):
            with seeded_noise(5):
                shown.append(call())
    for one, other in (shown[:2], shown[2:]):
        assert len(one) > 3
        pd.testing.assert_frame_equal(one, other, check_dtype=False)
    found = shown[1]
    users = frame.groupby(["src", "dst"])["who"].nunique()
    finest = found[(found["src"] != "*") & (found["dst"] != "*")]
    true = users.loc[list(zip(finest["src"], finest["dst"], strict=True))].to_numpy()
    assert ((finest["lower"] - 9 <= true) & (true <= finest["upper"] + 40)).mean() > 0.8
    assert abs(found["count"][0] - frame["who"].nunique()) < 40
    shares = frame.dp.rollup("src * dst", {"m": "mean(bytes, 0, 9)"}, user="who", **LARGE)
    assert "rounds do not go with mean(bytes, 0, 9) of cells" in str(shares.dp.receipt)


LARGE: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-6}
OF_USERS = {"n": "count", "b": "sum(bytes, 0, auto)"}


def test_explain_says_what_it_costs_and_in_which_order() -> None:
    plan = dp.explain(ASKED, **BUDGET)
    assert plan["order"].startswith("src /32 * dst /16; ")
    assert plan["threshold"] <= 34
    assert plan["standard error"] == pytest.approx(4.2, abs=0.05)
    wide = dp.explain("ip:src?version=4 * ip:dst?version=4", **BUDGET)
    assert wide.plan.height == 24
    assert wide["threshold"] <= 34
    assert wide["standard error"] == pytest.approx(4.2, abs=0.05)


def test_an_empty_table_and_one_record_look_alike() -> None:
    """Law: a total, and nothing else; in SQL too, whatever connection sees the table."""
    con = duckdb.connect()
    con.execute("CREATE TEMP TABLE none (a VARCHAR, b INTEGER)")
    dp.register(con)
    found = con.execute("FROM dp_hhh('temp.none', 'a * b', epsilon := 1.0, delta := 1e-6)").df()
    assert found["prefix"].tolist() == ["*"]
    for rows in ({"a": [], "b": []}, {"a": ["x"], "b": [1]}):
        assert pd.DataFrame(rows).dp.hhh("a * b", **BUDGET)["prefix"].tolist() == ["*"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mechanism": "streaming"}, "takes one hierarchy, .* finer cell has taken"),
    ({"mechanism": "laplace"}, "it counts the nodes of one tree"),
    ({"mechanism": "gaussian"}, "it counts the nodes of one tree"),
    ({"mechanism": "offline-gaussian"}, "it counts the nodes of one tree"),
    ({"mechanism": "paper", "acknowledge": True}, "it counts the nodes of one tree"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[str(a) for a, _ in REFUSED])
def test_mechanisms_that_count_no_cells_say_why(
    frame: pd.DataFrame, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        frame.dp.hhh("src * dst", **BUDGET, **arguments)


def test_what_takes_one_hierarchy_refuses_several(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Law: an error of ours that names the argument, before anything is read or charged."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-5)
    calls = (
        lambda: frame.dp.tree_counts("src * dst", **BUDGET, ledger=ledger),
        lambda: dp.StreamingHHH("src * dst"),
    )
    for call in calls:
        with pytest.raises(DpframeError, match="several hierarchies"):
            call()
    assert ledger.spent.epsilon == 0


def test_whole_counts_are_a_measure_of_their_own(frame: pd.DataFrame) -> None:
    """Law: count is of all records of a cell, residual of what no cell asked before has taken."""
    given = {**BUDGET, "epsilon": 8.0, "threshold": 300}
    result = frame.dp.hhh("src * dst", **given, totals=True)
    assert list(result.columns[-3:]) == ["count", "count_lower", "count_upper"]
    rows = result.set_index("prefix")
    far = dp.explain("src * dst", **given, totals=True).plan.totals.noise.highest
    for prefix, whole in {"*": 2400, "10.0.0.1 * 192.168.0.1": 900, "10.0.0.2": 700}.items():
        assert abs(rows.loc[prefix, "count"] - whole) <= far
    assert rows.loc["*", "residual"] < 900
    con = duckdb.connect()
    con.execute("CREATE TABLE talks AS FROM frame")
    dp.register(con)
    asked = "epsilon := 8.0, delta := 1e-6, threshold := 300, totals := true"
    found = con.execute(f"FROM dp_hhh('talks', 'src * dst', {asked})").df()
    assert list(found.columns) == list(result.columns)
    assert found["count"].dtype == result["count"].dtype


def test_what_whole_counts_cost_is_stated_and_within_the_budget() -> None:
    """Law: both parts together spend at most what was asked for; the card says what goes where."""
    plan = dp.explain(ASKED, **BUDGET, totals=True).plan
    assert plan.delta_spent <= BUDGET["delta"]
    receipt = plan.receipt()
    assert (receipt["epsilon"], receipt["delta"]) == (1.0, 1e-6)
    assert receipt["whole_counts"]["epsilon"] == 0.5
    assert "(0.5, 5e-07) of the budget" in str(receipt)
    assert "of a count that holds" not in str(receipt)


def test_an_error_of_whole_counts_is_kept() -> None:
    """Law: ``error`` bounds the half width of every column of the result that it names."""
    given: dict[str, Any] = {"delta": 1e-6, "threshold": 5000, "totals": True}
    plan = dp.explain("src * dst", **given, error={"residual": 90, "count": 90}).plan
    assert plan.errors == {"residual": plan.half_width(1), "count": plan.total_half_width}
    assert plan.total_half_width <= 90


@pytest.mark.parametrize(
    ("asked", "arguments", "said"),
    [
        (["src"], {}, "totals .* needs several hierarchies"),
        ("src * dst", {"user": "who"}, "totals .* counts single records"),
        ("src * dst", {"weight": "bytes", "max_weight": 9}, "counts single records"),
        ("src * dst", {"threshold": 20}, "threshold .*, or leave totals out"),
    ],
)
def test_whole_counts_that_cannot_be_had(
    frame: pd.DataFrame, asked: Any, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(DpframeError, match=said):
        frame.dp.hhh(asked, **BUDGET, totals=True, **arguments)


def test_what_asks_about_a_tree_of_nodes_says_what_to_do_with_cells(frame: pd.DataFrame) -> None:
    """Law: after the release, too, errors are ours and name what works."""
    result = frame.dp.hhh("src * dst", **BUDGET, threshold=300)
    calls = (
        result.dp.share,
        result.dp.plot,
        result.dp.intervals,
        lambda: result.dp.below("10.0.0.1"),
        lambda: result.dp.change(result),
    )
    for call in calls:
        with pytest.raises(ParameterError, match="cells of several hierarchies"):
            call()
    report = {"name": "pairs", "question": "hhh", "hierarchy": "src * dst", **BUDGET}
    when = {"column": "when", "unit": "week", "first": "2026-W01"}
    with pytest.raises(ParameterError, match=r"several hierarchies.*Report one hierarchy"):
        dp.Series([report], source=frame, period=when, ledger="none.db")


def test_a_series_of_releases_is_planned_by_the_offline_mechanism() -> None:
    """Law: of the laws that may be chosen only that which counts cells is tried."""
    asked = dp.plan_series(4, "hhh", "src * dst", total=(3.0, 1e-5), mechanism="offline")
    plan = dp.plan_series(4, "hhh", "src * dst", total=(3.0, 1e-5))
    assert plan.arguments == asked.arguments
    with pytest.raises(ParameterError, match="Use mechanism='offline'"):
        dp.plan_series(4, "hhh", "src * dst", total=(3.0, 1e-5), mechanism="offline-gaussian")


@pytest.mark.parametrize("table", ["kept", "temp.passing", "seen"])
def test_sql_reads_every_type_as_python_does(table: str) -> None:
    """Law: whatever connection sees a table, its cells are those that Python counts."""
    con = duckdb.connect()
    rows = (
        "SELECT DATE '2026-01-01' + (range % 40)::INT AS day, range % 3 AS shop, "
        "(range % 2)::DOUBLE AS rate, ['x', NULL, ''][1 + range % 3] AS note FROM range(3000)"
    )
    con.execute(f"CREATE TABLE kept AS {rows}")
    con.execute(f"CREATE TEMP TABLE passing AS {rows}")
    seen = con.sql("FROM kept").df()
    con.register("seen", seen)
    dp.register(con)
    asked = "date:day?levels=year,month * shop * columns:rate,note"
    given = "epsilon := 2.0, delta := 1e-6, threshold := 100"
    with seeded_noise(4):
        found = con.execute(f"FROM dp_hhh('{table}', '{asked}', {given})").df()
    with seeded_noise(4):
        python = dp.hhh(con.table("kept"), asked, epsilon=2.0, delta=1e-6, threshold=100)
    pd.testing.assert_frame_equal(found.astype(object), python.astype(object))
    assert {"<invalid>", "2026-02"} <= set(" ".join(found["prefix"]).split())


def test_the_largest_cells_are_those_of_the_largest_segments(frame: pd.DataFrame) -> None:
    """Law: by what is released of cells, of all kinds or of one; the rest is no cell."""
    result = frame.dp.hhh("src * dst", **{**BUDGET, "epsilon": 8.0}, threshold=300, totals=True)
    largest = result.dp.top(1)
    assert largest["prefix"].tolist() == ["10.0.0.1 * 192.168.0.1"]
    assert largest["above_next"].tolist() == [True]
    whole = result.dp.top(9, by="count")
    assert whole["count"].is_monotonic_decreasing
    assert "*" not in set(whole["prefix"])
    sources = result.dp.top(9, level="src")
    assert sources["prefix"].tolist() == ["10.0.0.2"]
    told = frame.dp.rollup("src * dst", {"n": "count", "sent": "sum(bytes, 0, 20)"}, **BUDGET)
    assert told.dp.top(1, by="sent")["prefix"].tolist() == ["10.0.0.1 * 192.168.0.1"]
    with pytest.raises(ParameterError, match="must be one of this release: n, sent"):
        told.dp.top(1, by="count")


def test_signs_without_blanks_are_noticed(frame: pd.DataFrame) -> None:
    with pytest.raises(DpframeError, match=r"'src[*]dst' does not exist.*'a [*] b'.*with blanks"):
        frame.dp.hhh("src*dst", **BUDGET)


# -- measures on cells -----------------------------------------------------------------------------


ROLLED: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}
PAID: dict[str, Any] = {"n": "count", "sent": dp.sum("bytes", lower=0, upper=20)}


def test_rows_are_disjoint_and_add_up(frame: pd.DataFrame) -> None:
    """Law: every record is in one segment, and the rest is one: all rows add up to everything."""
    result = frame.dp.rollup(ASKED, PAID, **ROLLED, threshold=300)
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
    several = {**PAID, "sizes": dp.distinct("bytes", at_most=2), "mean": "mean(bytes, 0, 20)"}
    said = str(dp.explain_rollup("src * dst", several, user="who", **ROLLED))
    assert "pairs of a segment and a value for each user" in said
    assert "3 kinds of cells" in said
    assert "node" not in said


def test_a_product_and_measures_by_name_are_their_texts(frame: pd.DataFrame) -> None:
    """Law: Python's objects, its texts and those of SQL ask one question: one seed, one answer."""
    con = duckdb.connect()
    con.execute("CREATE TABLE talks AS FROM frame")
    dp.register(con)
    given = {**ROLLED, "threshold": 300}
    measures = "{'n': 'count', 'sent': 'sum(bytes, 0, 20)'}"
    budget = "epsilon := 4.0, delta := 1e-6, threshold := 300"
    asked = f"'talks', '{ASKED}', {measures}, {budget}"
    with seeded_noise(1):
        one = frame.dp.rollup(ASKED, PAID, **given)
    with seeded_noise(1):
        pair = dp.product("ip:src?version=4", dp.ip("dst", prefixes=(8, 16), version=4))
        two = dp.rollup(frame, pair, PAID, **given)
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
def test_measures_go_with_several_hierarchies_as_with_one(
    frame: pd.DataFrame, asked: Any, arguments: dict[str, Any]
) -> None:
    rows = frame.assign(when=pd.Timestamp("2026-01-05"))
    measures = {
        **PAID,
        "size": dp.mean("bytes", lower=0, upper=20),
        "found": dp.sum("bytes", lower=0, upper="auto", clipped=True),
        "sizes": dp.distinct("bytes", at_most=3 if "user" in arguments else None),
    }
    result = rows.dp.rollup(asked, measures, **{**ROLLED, "epsilon": 20.0, **arguments})
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


def test_a_rollup_of_nothing_is_a_row() -> None:
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
        ({"keys": [["a"], ["b"]], "delta": None}, "^keys needs hierarchies of one level"),
        ({"measures": {"src_level": "count"}}, "'src_level'"),
        ({"threshold": 3}, "14 kinds of cells"),
    ],
)
def test_what_cannot_be_had_says_why_and_is_not_charged(
    frame: pd.DataFrame, tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-5)
    given: dict[str, Any] = {"measures": "count", **ROLLED, "ledger": ledger, **arguments}
    with pytest.raises((DpframeError, ParameterError), match=said):
        frame.dp.rollup(ASKED, **given)
    assert ledger.spent.epsilon == 0


def test_nothing_depends_on_the_order_of_rows(frame: pd.DataFrame) -> None:
    """Law: which noise a cell gets, and where it stands, is decided by the cells alone."""
    with seeded_noise(2):
        one = frame.dp.rollup(ASKED, PAID, **ROLLED)
    with seeded_noise(2):
        other = frame.sample(frac=1, random_state=1).dp.rollup(ASKED, PAID, **ROLLED)
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("by", ["a * b", ["b", "a"]], ids=str)
def test_a_query_with_other_rows_at_each_reading_is_refused(by: Any) -> None:
    """Law: an error of ours that says what to do, and no number that lacks records."""
    con = duckdb.connect()
    rows = con.sql("SELECT range % 2 AS a, (random() * 1e9)::BIGINT AS b, 1 AS v FROM range(3000)")
    with pytest.raises(SourceError, match="changed while it was read"):
        dp.rollup(rows, by, {"s": "sum(v, 0, 1)"}, **ROLLED, user="a", contribution="share")
