"""Results as tables for people: what a cell says, what is escaped, and which frames have a card."""

from __future__ import annotations

import html
import re
import sys
import types
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from IPython.core.formatters import DisplayFormatter

import dpframe as dp
from dpframe.common.calls import _show_results
from dpframe.common.digest import seal_frame
from dpframe.doors.accessor import DpAccessor
from dpframe.pages.tables import (
    _cells_of,
    change_table,
    change_text,
    readable_table,
    released_html,
    result_text,
    table_lines,
)

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
TRIPS = pd.DataFrame(
    {
        "origin": ["JFK"] * 900 + ["EWR"] * 700,
        "dest": (["LAX"] * 2 + ["SFO"]) * 300 + ["ORD"] * 700,
        "paid": [1000.0] * 1600,
    }
)
HOSTILE = (
    "<script>alert(1)</script>",
    "</table><h1>x",
    "&amp;",
    "שלום עולם (1)",
    "‮evil",
    "line\nbreak\x1b[31m",
    "word " * 60,
)


def released(frame: pd.DataFrame, **numbers: object) -> pd.DataFrame:
    """A release with the planted numbers, sealed as if they had been released."""
    facts = frame.attrs["dp"]
    return seal_frame(frame.assign(**numbers), facts)


@pytest.fixture(scope="module")
def sales() -> pd.DataFrame:
    by_place = ["origin", "dest"]
    measures = {"trips": "count", "paid": dp.sum("paid", lower=0, upper=2000)}
    return TRIPS.dp.rollup(by_place, measures, epsilon=20.0, delta=1e-6)


def rows_of(frame: pd.DataFrame, most: int | None = None) -> list[tuple[str, ...]]:
    table = readable_table(frame, frame.dp.receipt, most)
    assert table is not None
    return table.rows


# -- what a cell says ----------------------------------------------------------------------------


def test_digits_are_grouped_and_an_interval_is_one_column(sales: pd.DataFrame) -> None:
    """Law: no NaN for what is rolled up; nodes stand below the node above them."""
    places = [5_294_206.4, -1_234.5, 0.0, 1e6, 2e6, 3e6]
    ends = {"paid_lower": [x - 120 for x in places], "paid_upper": [x + 120 for x in places]}
    table = readable_table(released(sales, paid=places, **ends), sales.dp.receipt, None)
    assert table is not None
    assert table.heads[0] == "origin / dest"
    assert table.heads[1:] == ("trips", "95 % interval", "paid", "95 % interval")
    assert table.below[3:] == ("each row up to 2,000", "noise alone")
    assert [row[0] for row in table.rows] == ["(all)", "EWR", "ORD", "JFK", "LAX", "SFO"]
    assert table.depths == [0, 0, 1, 0, 1, 1]
    shown = {row[0]: row[3:] for row in table.rows}
    assert shown["(all)"] == ("5,294,206", "5,294,086 to 5,294,326")
    assert shown["EWR"] == ("-1,234", "-1,354 to -1,114")
    assert "nan" not in str(table.rows).lower()


def test_ends_that_are_missing_are_said() -> None:
    result = TRIPS.dp.tree_counts(["origin"], epsilon=9.0, keys=["JFK", "EWR"])
    nothing = [np.nan] * len(result)
    lower, upper = result["lower"].astype(float), result["upper"].astype(float)
    assert rows_of(released(result, upper=nothing))[0][2].endswith(" or more")
    assert rows_of(released(result, lower=nothing))[0][2].startswith("up to ")
    assert rows_of(released(result, lower=nothing, upper=nothing))[0][2] == ""
    assert rows_of(released(result, upper=upper + np.inf))[0][2] == f"{lower[0]:,.0f} or more"


def test_residuals_are_shown_where_they_say_more_than_counts() -> None:
    flat = TRIPS.dp.heavy_hitters("origin", **BUDGET)
    assert {len(row) for row in rows_of(flat)} == {3}
    tree = TRIPS.dp.hhh(["origin", "dest"], **BUDGET)
    table = readable_table(tree, tree.dp.receipt, None)
    assert table is not None
    assert table.heads[-1] == "residual"


def test_cells_say_what_is_rolled_up_and_what_is_left() -> None:
    """Law: level 0 of disjoint cells is the rest; with whole counts it is everything."""
    cells = TRIPS.dp.hhh("origin * dest", **BUDGET)
    first, *others = rows_of(cells)
    assert first[:2] == ("(the rest)", "")
    assert {row[:2] for row in others} >= {("JFK", "LAX"), ("EWR", "ORD")}
    whole = TRIPS.dp.hhh("origin * dest", totals=True, **BUDGET)
    table = readable_table(whole, whole.dp.receipt, None)
    assert table is not None
    assert table.rows[0][:2] == ("(all)", "(all)")
    assert table.heads[2::2] == ("residual", "count")
    everyone = TRIPS.reset_index().dp.hhh("origin * dest", user="index", **BUDGET)
    assert rows_of(everyone)[0][:2] == ("(all)", "(all)")


def test_a_table_that_is_cut_keeps_whole_labels(sales: pd.DataFrame) -> None:
    """Law: no node seems to have nothing below it because its rows were cut."""
    table = readable_table(sales, sales.dp.receipt, 4)
    assert table is not None
    assert [row[0] for row in table.rows] == ["(all)", "EWR", "JFK", "EWR / ORD"]
    assert {*table.depths} == {0}
    days = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=90).repeat(50)})
    dates = days.dp.tree_counts("date:day?levels=month,day", epsilon=1.0, delta=1e-6)
    whole, cut = (readable_table(dates, dates.dp.receipt, most) for most in (None, 6))
    assert whole is not None
    assert cut is not None
    assert ([*whole.heads[:1]], [*cut.heads[:2]]) == (["day"], ["day", "level"])
    assert [row[0] for row in whole.rows[:4]] == ["(all)", "2026-01", "2026-01-01", "2026-01-02"]
    assert whole.depths[:4] == [0, 0, 1, 1]
    assert [row[1] for row in cut.rows[:5]] == ["", *["month"] * 4]
    sorted_rows = sales.sort_values("prefix", ascending=False)
    whole = sales["prefix"].replace("*", "(all)").sort_values(ascending=False)
    assert {row[0] for row in rows_of(sorted_rows)} == {*whole}
    assert rows_of(sorted_rows)[0][0] == "JFK / SFO"


def test_a_release_of_nothing_is_a_table_with_a_head() -> None:
    rows = pd.DataFrame({"a": [f"k{n}" for n in range(500)]})
    nothing = rows.dp.hhh("a", remainder=False, **BUDGET)
    empty = readable_table(nothing, nothing.dp.receipt, 40)
    assert empty is not None
    assert (len(nothing), empty.rows) == (0, [])
    assert "95 % interval" in (released_html(nothing) or "")
    assert result_text(nothing, nothing.dp.receipt, 40) == "a  count  95 % interval"


# -- notebooks -----------------------------------------------------------------------------------


def test_labels_are_text(sales: pd.DataFrame) -> None:
    """Law: HTML in a label or a column is shown, a label cannot turn the text around it."""
    name = "<i>who</i>"
    rows = pd.DataFrame({name: np.repeat(HOSTILE, 300)})
    keys = pd.DataFrame({name: HOSTILE})
    page = released_html(rows.dp.tree_counts([name], epsilon=9.0, keys=keys))
    assert page is not None
    for tag in ("<script", "<h1", "<i>", "‮", "\x1b"):
        assert tag not in page
    for text in ("<script>alert(1)</script>", "</table><h1>x", "&amp;", name):
        assert html.escape(text) in page
    assert "<bdi>שלום עולם (1)</bdi>" in page
    assert html.escape(r"line\nbreak\x1b[31m") in page
    for tag in ("div", "details", "table", "tr", "td", "th", "summary", "bdi", "style"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    assert not re.search(r"#[0-9a-f]{3}\b|rgb|white(?!-space)|black", page.split("<tbody>")[0])


def test_a_result_has_its_card_folded_below_it(sales: pd.DataFrame) -> None:
    page = released_html(sales)
    assert page is not None
    table, _, card = page.partition("<details>")
    assert table.index("95 % interval") < table.index("(all)") < table.index("Not shown")
    assert "noise alone" in table
    assert "differential privacy" in card
    assert card.count("<tr ") == len(sales.dp.receipt.card_lines)
    nothing = pd.DataFrame({"a": [f"k{n}" for n in range(500)]}).dp.hhh("a", **BUDGET)
    loud = released_html(nothing) or ""
    assert loud.index("nothing was shown") < loud.index("<table")


def test_long_results_say_how_many_rows_there_are() -> None:
    result = TRIPS.dp.heavy_hitters("origin", **BUDGET)
    many = pd.concat([result] * 5000, ignore_index=True).assign(origin=lambda f: f.index)
    many = seal_frame(many, result.attrs["dp"])
    page = released_html(many) or ""
    assert page.count("<bdi>") == 60 + 3
    assert "The first 60 of 10,000 rows." in page
    with pd.option_context("display.max_rows", None):
        assert (released_html(many) or "").count("<bdi>") == 10_000 + 3
    with pd.option_context("display.notebook_repr_html", False):
        assert released_html(many) is None


def test_only_what_was_released_has_a_card(sales: pd.DataFrame) -> None:
    """Law: a frame that was edited, joined or filtered is shown as pandas shows it."""
    in_place = sales.copy()
    in_place.loc[0, "trips"] = 7
    for other in (
        in_place,
        sales.assign(trips=1),
        sales.assign(more=1),
        sales.head(2),
        sales[sales["level"] == 1],
        sales[["prefix", "trips"]],
        sales.merge(sales[["prefix"]].assign(note="x"), on="prefix"),
        pd.concat([sales, sales]),
        sales.groupby("origin").sum(numeric_only=True),
        sales.drop(columns="paid_lower"),
        sales.dp.top(2),
        sales.dp.share(),
        TRIPS,
        dp.synthesize(TRIPS, {"paid": (0, 2000)}, epsilon=1.0, depth=4, k=4).sample(5),
    ):
        assert DpAccessor._released_html(other) is None
    for same in (sales, sales.copy(), sales.sort_values("trips"), sales[[*sales.columns[::-1]]]):
        assert "Privacy card" in (DpAccessor._released_html(same) or "")
    assert type(sales) is pd.DataFrame
    assert sales._repr_html_().startswith("<div>\n<style scoped>")
    assert "level" in repr(sales)


def test_changes_are_a_table_too() -> None:
    """Law: what one release does not report stands as its bounds; a part of it is pandas'."""
    spent = {"epsilon": 9.0, "delta": 1e-6}
    before = TRIPS.dp.hhh(["origin", "dest"], **spent)
    after = TRIPS[TRIPS["dest"] != "SFO"].dp.hhh(["origin", "dest"], **spent)
    found = dp.change(before, after)
    table = change_table(found, None)
    assert table.heads[:4] == ("origin / dest", "before", "after", "change")
    assert [row[0] for row in table.rows] == ["(all)", "EWR / ORD", "JFK / LAX", "JFK / SFO"]
    (gone,) = (row for row in table.rows if row[0] == "JFK / SFO")
    assert (gone[2][0], gone[3]) == ("(", "")
    assert gone[-1] == "yes"
    page = released_html(found) or ""
    assert page.index("95 % interval") < page.index("hold the true change")
    assert "Privacy card" not in page
    for other in (found.head(2), found.assign(change=0)):
        assert DpAccessor._released_html(other) is None
    assert change_text(found, 2).endswith("... and 2 more rows")


@pytest.fixture
def formatter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What IPython asks for HTML in a shell that has just started."""
    shown = DisplayFormatter()
    shell = types.SimpleNamespace(display_formatter=shown)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return shown.formatters["text/html"]


def test_ipython_shows_results_and_leaves_other_frames_alone(
    formatter: Any, sales: pd.DataFrame
) -> None:
    """Law: who had registered a function for frames still shows all others; a subclass of a frame
    shows itself."""

    class Own(pd.DataFrame):
        def _repr_html_(self) -> str:
            return "own"

    accessor: Any = vars(pd.DataFrame)["dp"]
    _show_results(pd.DataFrame, accessor)
    assert "Privacy card" in formatter(sales)
    assert formatter(TRIPS) == TRIPS._repr_html_()
    assert formatter(sales.head(2)) == sales.head(2)._repr_html_()
    assert formatter(Own(TRIPS)) == "own"
    formatter.for_type(pd.DataFrame, lambda frame: "theirs")
    _show_results(pd.DataFrame, accessor)
    assert (formatter(TRIPS), "Privacy card" in formatter(sales)) == ("theirs", True)


def test_polars_results_are_shown_in_the_same_way(formatter: Any) -> None:
    rows = pl.from_pandas(TRIPS)
    _show_results(pl.DataFrame, vars(pl.DataFrame)["dp"])
    result = rows.dp.hhh(["origin", "dest"], **BUDGET)
    page = formatter(result)
    assert "Privacy card" in page
    assert page.count("<bdi>") == len(result) + 4
    for other in (rows, result.head(1), result.with_columns(count=pl.lit(1))):
        assert formatter(other) == other._repr_html_()
    result[0, "count"] = 1
    assert "Privacy card" not in formatter(result)


# -- terminals -----------------------------------------------------------------------------------


def test_lines_fit_a_terminal_and_labels_that_do_not_end_in_an_ellipsis() -> None:
    names = ["a very long label " * 9, "日本語の長いラベル", "e\u0301te\u0301", "\x1b[31mred"]
    rows = pd.DataFrame({"who": np.repeat(names, 300)})
    result = rows.dp.tree_counts(["who"], epsilon=9.0, keys=pd.DataFrame({"who": names}))
    table = readable_table(result, result.dp.receipt, None)
    assert table is not None
    lines = table_lines(table, 80)
    assert {*map(_cells_of, lines)} == {80}
    assert sum("…" in line for line in lines) == 1
    assert "\x1b" not in "".join(lines)
    assert lines[0].split("  ")[0] == "who"
    assert max(map(_cells_of, table_lines(table, 10))) < 80  # a label keeps some room
