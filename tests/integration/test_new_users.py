"""What new users typed (``docs/new_users.md``) and no other test types: it is answered."""

from __future__ import annotations

import contextlib
import html
import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.doors.cli import main as cli
from dpframe.testing import seeded_noise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
ROWS = 1200
SALES = pd.DataFrame(
    {
        "country": ["FR", "DE"] * (ROWS // 2),
        "day": pd.to_datetime(["2026-01-05", "2026-02-07"] * (ROWS // 2)),
        "member": [True, False] * (ROWS // 2),
        "size": [8, 104] * (ROWS // 2),
    }
)


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "budget.db", epsilon=9.0, delta=1e-4)


def test_levels_keep_their_types_and_order() -> None:
    kinds = SALES.dp.hhh(["member", "day", "size"], **BUDGET).dtypes.astype(str)
    assert kinds[["member", "size"]].tolist() == ["boolean", "Int64"]
    assert kinds["day"].startswith("datetime64[")
    bins = SALES.dp.hhh("number:size?lower=0&upper=128&depth=4", **BUDGET)["prefix"].tolist()
    assert bins.index("[8, 16)") < bins.index("[104, 112)")
    weeks = SALES.dp.hhh("date:day?levels=week", **BUDGET)["prefix"].tolist()
    assert weeks[1:] == ["2026-W02", "2026-W06"]


def test_what_goes_in_comes_out() -> None:
    found = pl.from_pandas(SALES[["country"]]).dp.hhh("country", **BUDGET)  # type: ignore[attr-defined]
    assert isinstance(found, pl.DataFrame)
    reader = pa.Table.from_pandas(SALES[["country"]]).to_reader()
    assert len(dp.hhh(reader, "country", **BUDGET)) == 3
    with pytest.raises(dp.ParameterTypeError, match=r"cannot be pandas\.Series\. Pass the frame"):
        dp.hhh(SALES["country"], "country", **BUDGET)


def test_facts_are_asked_by_their_names(ledger: dp.Ledger) -> None:
    assert "spent (0, 0), left (9, 0.0001)" in repr(ledger)
    assert dp.explain("country", **BUDGET)["threshold"] > 1
    assert SALES.dp.hhh("country", **BUDGET).dp.receipt.epsilon == 1.0
    assert len(dir(dp)) <= 73


def test_a_path_below_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert dp.Ledger("~/b.db", epsilon=1.0, delta=1e-6).path == tmp_path / "b.db"


def test_a_column_in_the_index() -> None:
    with pytest.raises(dp.ColumnError, match=r"in the index.*reset_index\(\)"):
        SALES.set_index("country").dp.hhh("country", **BUDGET)


QUIET = pd.DataFrame(
    {"a": pd.Series([], dtype=str), "b": pd.Series([], dtype=str), "u": [], "n": []}
)
QUIET_WEEKS: dict[str, Callable[[], pd.DataFrame]] = {
    "hhh": lambda: dp.hhh(QUIET, ["a", "b"], **BUDGET),
    "hhh without a remainder": lambda: dp.hhh(QUIET, ["a"], remainder=False, **BUDGET),
    "users": lambda: dp.hhh(QUIET, ["a"], user="u", **BUDGET),
    "shares": lambda: dp.hhh(
        QUIET, ["a"], user="u", contribution="share", remainder=False, **BUDGET
    ),
    "items": lambda: dp.hhh(QUIET, ["a"], user="u", contribution="items", **BUDGET),
    "weights": lambda: dp.hhh(QUIET, ["a"], weight="n", max_weight=5, **BUDGET),
    "cells": lambda: dp.hhh(QUIET, "columns:a * columns:b", totals=True, **BUDGET),
    "a stream": lambda: dp.hhh(QUIET, ["a"], mechanism="streaming", counters=20, **BUDGET),
    "rollup": lambda: dp.rollup(QUIET, ["a"], dp.sum("n", lower=0, upper=5), **BUDGET),
    "values": lambda: dp.heavy_hitters(QUIET, "a", **BUDGET),
    "values of users": lambda: dp.heavy_hitters(QUIET, "a", user="u", **BUDGET),
    "one listed key": lambda: dp.tree_counts(QUIET, ["a"], keys=["x"], epsilon=1.0),
}


@pytest.mark.parametrize("name", QUIET_WEEKS)
def test_a_quiet_week_has_everything_that_is_free(name: str, tmp_path: Path) -> None:
    result = QUIET_WEEKS[name]()
    below_everything = result.get("level", pd.Series(1, result.index)) > 0
    assert len(result.dp.top(3)) == min(3, int(below_everything.sum()))
    assert result.dp.top(3)["above_next"].dtype == "boolean"
    result.dp.report(tmp_path / "page.html")
    for ask in (
        result.dp.share,
        result.dp.plot,
        lambda: result.dp.intervals(0.8),
        result.dp.to_arrow,
    ):
        with contextlib.suppress(dp.DpframeError):
            ask()


# -- headlines -------------------------------------------------------------------------------------

RECEIPTS = pd.DataFrame(
    {
        "customer": np.repeat(np.arange(600), 4),
        "country": np.where(np.repeat(np.arange(600), 4) % 3, "FR", "DE"),
        "product": [f"p{n}" for n in range(3)] * 800,
        "amount": 4000.0,
    }
)


def test_what_bounds_cut_stands_beside_every_number(tmp_path: Path, capsys: Any) -> None:
    """Law: wherever the number stands: page, card, notebook, chart, sheet and command line."""
    said = "each customer up to 5,000"
    revenue = {"revenue": dp.sum("amount", lower=0, upper=5000)}
    result = RECEIPTS.dp.rollup(["country"], revenue, user="customer", **BUDGET)
    receipt = result.dp.receipt
    assert f"revenue: {said}" in str(receipt)
    assert said in receipt._repr_html_().partition("<details>")[0]
    result.dp.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"95 %, noise alone; {said})" in page.partition("</p>")[0]
    assert page.count(said) >= 4
    figure = result.dp.plot()
    assert said in figure.layout.title.subtitle.text
    assert all(f"noise alone; {said}" in text for text in figure.data[0].hovertext)
    RECEIPTS.to_parquet(tmp_path / "f.parquet")
    command = ["rollup", str(tmp_path / "f.parquet"), "columns:country", "--user", "customer"]
    command += ["--measure", "sum(amount, 0, 5000) AS revenue", "--epsilon=1", "--delta=1e-6"]
    assert cli.main([*command, "-o", str(tmp_path / "f.xlsx")]) == 0
    assert cli.main([*command, "--quiet"]) == 0
    assert capsys.readouterr().out.endswith(
        f"revenue: {said}; the interval holds the noise alone\n"
    )
    heads = openpyxl.load_workbook(tmp_path / "f.xlsx")["result"][1]
    assert {cell.value: cell.comment.text for cell in heads if cell.comment} == {"revenue": said}


@pytest.mark.parametrize(
    ("ask", "column", "said"),
    [
        (lambda f: f.dp.hhh("country", **BUDGET), "count", None),
        (
            lambda f: f.dp.rollup("country", measures="sum(amount, -5, 50)", **BUDGET),
            "sum_amount",
            "each row from -5 to 50",
        ),
        (
            lambda f: f.dp.hhh("country", weight="amount", max_weight=100, **BUDGET),
            "count",
            "each row up to 100",
        ),
        (
            lambda f: f.dp.hhh(
                "country", user="customer", contribution="records", max_contributions=1, **BUDGET
            ),
            "count",
            "each customer up to 1 record",
        ),
        (
            lambda f: f.dp.heavy_hitters("product", user="customer", at_most=2, **BUDGET),
            "count",
            "each customer counts fully at up to 2 nodes",
        ),
        (
            lambda f: f.rename(columns={"customer": "k"}).dp.rollup(
                "country", measures="distinct(product, at_most=2)", user="k", **BUDGET
            ),
            "distinct_product",
            "each user up to 2 values",
        ),
    ],
)
def test_what_bounds_cut_is_said_of_every_question(
    ask: Callable[[pd.DataFrame], pd.DataFrame], column: str, said: str | None
) -> None:
    """Law: of what nothing cuts, nothing is said, nor of rows that have no numbers."""
    cut = [line.value_text for line in ask(RECEIPTS).dp.receipt.card_lines if line.id == "cut"]
    assert cut == ([] if said is None else [f"{column}: {said}"])
    rows = RECEIPTS.dp.synthesize(
        {"amount": (0, 5000)}, epsilon=1.0, user="customer", max_contributions=2
    )
    assert "noise alone" not in str(rows.receipt)


def test_rows_without_a_user_are_told_whether_there_are_some_or_not(tmp_path: Path) -> None:
    """Law: the line is the same for every table, and stands on card and page if user= is named."""
    some = RECEIPTS.assign(customer=RECEIPTS["customer"].astype("Int64").mask(RECEIPTS.index < 600))
    said = "ows whose 'customer' is NULL are one user together"
    for frame in (RECEIPTS, some):
        result = frame.dp.hhh(["country", "product"], user="customer", **BUDGET)
        assert said in str(result.dp.receipt)
        result.dp.report(tmp_path / "page.html")
        assert html.unescape((tmp_path / "page.html").read_text()).count(said) == 2
    assert "NULL" not in str(RECEIPTS.dp.hhh(["country"], **BUDGET).dp.receipt)
    assert said in str(dp.explain(["country"], user="customer", **BUDGET))


@pytest.mark.parametrize("by", ["shop", "columns:shop * columns:size"])
def test_no_leader_is_named_where_noise_is_most(by: str, tmp_path: Path) -> None:
    """Law: what noise has decided is not told as if it were found; large numbers are."""
    shops = pd.DataFrame({"shop": np.arange(8000) % 40, "size": 1, "amount": 1.0})
    small = shops.dp.rollup(by, measures="sum(amount, 0, 5000)", epsilon=0.5, delta=1e-6)
    large = shops.dp.rollup(by, measures="sum(amount, 0, 1)", epsilon=9.0, delta=1e-6)
    for result, noisy in ((small, True), (large, False)):
        result.dp.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        told = page.partition("</header>")[0]
        assert ("Noise is most of the numbers of 40" in told) == noisy
        assert ("The largest" in told or "The ten largest" in page) != noisy


def test_a_series_over_data_that_ended_draws_what_there_is(tmp_path: Path) -> None:
    """Law: periods that show nothing are told and counted; ``until`` is proposed."""
    rows = {"2011-03-05": ["FR"] * 400, "2011-04-05": ["FR"] * 400 + ["DE"] * 400}
    times = [day for day, countries in rows.items() for _ in countries]
    frame = pd.DataFrame({"when": pd.to_datetime(times), "country": [*chain(*rows.values())]})
    series = dp.Series(
        [{"name": "visits", "question": "hhh", "hierarchy": ["country"], **BUDGET}],
        source=frame,
        period={"column": "when", "unit": "month", "first": "2011-01"},
        ledger={"path": tmp_path / "b.db", "epsilon": 9.0, "delta": 1e-4},
        pages=tmp_path,
    )
    with seeded_noise(1):
        assert series.run("2011-12").code == 0
    page = (tmp_path / "visits.html").read_text()
    assert (
        "Drawn are 2 periods. 2 more, before 2011-03, show nothing but noise. 8 more, after "
        "2011-04, show nothing but noise. If the data end there, run with until 2011-04."
    ) in page
    assert "2011-06" not in page
    assert "shown in 1 of 2 periods; " in page
    last = series.run("2012-01", dry_run=True)
    assert "pass until for data that end earlier" in str(last)
    assert [step.period for step in last.steps if step.state == "due"] == ["2012-01"]


def test_levels_of_which_nothing_is_shown_are_announced_with_the_call_that_shows_more() -> None:
    """Law: every empty level is named; what is said to ask shows it."""
    frame = RECEIPTS.assign(item=[f"i{n % 200}" for n in range(len(RECEIPTS))])

    def ask(epsilon: float) -> pd.DataFrame:
        revenue = {"revenue": dp.sum("amount", lower=0, upper=5000)}
        return frame.dp.rollup(
            ["country", "item"], revenue, user="customer", epsilon=epsilon, delta=1e-6
        )

    with seeded_noise(1):
        poor = ask(0.7)
        notices = [one for one in poor.dp.receipt.get("notices", ()) if "show" in one]
        assert notices[0].startswith(
            "level item shows nothing: no node there reached the threshold"
        )
        epsilon = float(notices[0].partition("epsilon=")[2].partition(" ")[0])
        assert ask(8 * epsilon)["level"].max() == 2
    assert "level item shows nothing" in poor.dp.receipt._repr_html_().partition("<details>")[0]
    rich = RECEIPTS.dp.rollup(["country", "product"], measures="count", user="customer", **BUDGET)
    assert not [one for one in rich.dp.receipt.get("notices", ()) if "shows nothing" in one]


def test_customers_of_this_month_against_last_month() -> None:
    """Law: of users by rounds the total is compared, and no other node; the interval holds."""
    last, now = RECEIPTS, RECEIPTS[RECEIPTS["customer"] < 450]
    measures = {
        "customers": "count",
        "buyers": dp.distinct("customer", at_most=1),
        "revenue": dp.sum("amount", lower=0, upper=5000),
    }
    with seeded_noise(1):
        before, after = (
            frame.dp.rollup(
                ["country", "product"], measures, user="customer", epsilon=8.0, delta=1e-6
            )
            for frame in (last, now)
        )
        found = [
            frame.dp.heavy_hitters("product", user="customer", epsilon=8.0, delta=1e-6)
            for frame in (last, now)
        ]
    for measure, truth in {"customers": -150, "buyers": -150, "revenue": -150 * 5000}.items():
        change = dp.change(before, after, measure=measure)
        assert change["prefix"].tolist() == ["*"]
        assert change["change_lower"][0] <= truth <= change["change_upper"][0] < 0
        means = change.attrs["dp_change"]["means"]
        assert "Only the total is compared: " in means
        assert means.endswith("noise alone; each customer up to 5,000") == (measure == "revenue")
        assert "Nodes are compared of releases by shares, contribution='share'" in means
    with pytest.raises(
        dp.ParameterError, match=r"each release found its own nodes.*totals of rollups"
    ):
        dp.change(*found)


# -- words and options -----------------------------------------------------------------------------


def test_formulas_in_the_place_of_a_column() -> None:
    """Law: what is said to write is taken."""
    frame = RECEIPTS.assign(quantity=2)
    for measure in (
        "sum(quantity*amount, 0, 100)",
        dp.sum("quantity * amount", lower=0, upper=100),
    ):
        with pytest.raises(
            dp.ColumnError, match=r"Add the column first.*SELECT \*, quantity ?\* ?am"
        ):
            frame.dp.rollup(["country"], {"revenue": measure}, **BUDGET)
    added = frame.assign(value=frame.eval("quantity*amount"))
    assert len(added.dp.rollup(["country"], measures="sum(value, 0, 100)", **BUDGET)) == 3


def test_different_values_of_users_have_a_usual_bound() -> None:
    for measure in (dp.distinct("customer"), "distinct(customer)"):
        found = RECEIPTS.dp.rollup(["country"], {"c": measure}, user="customer", **BUDGET)
        assert found.dp.receipt["measures"]["c"]["spec"] == "distinct(customer, at_most=16)"
        assert "c: each customer up to 16 values" in str(found.dp.receipt)


def test_delta_with_keys_is_taken_and_not_charged(ledger: dp.Ledger) -> None:
    found = RECEIPTS.dp.rollup(
        ["country"], measures="count", keys=["FR", "DE"], ledger=ledger, **BUDGET
    )
    assert found.dp.receipt["guarantee"].startswith("1-differential privacy")
    assert "so that delta is 0" in str(found.dp.receipt)
    assert ledger.spent.delta < 1e-15  # rounded up
    with pytest.raises(dp.DpframeError, match="delta"):
        RECEIPTS.dp.rollup(["country"], measures="count", keys=["FR"], epsilon=1.0, delta="x")


@pytest.mark.parametrize(
    "typed",
    ["country,product", "country, product", "['country','product']", '["country", "product"]'],
)
def test_a_list_in_a_shell_is_told_as_the_shell_takes_it(
    typed: str, tmp_path: Path, capsys: Any
) -> None:
    RECEIPTS.to_parquet(tmp_path / "f.parquet")
    command = ["hhh", str(tmp_path / "f.parquet"), typed, "--epsilon=1", "--delta=1e-6", "--quiet"]
    assert cli.main(command) == 2
    assert "write 'columns:country,product'" in capsys.readouterr().err
    command[2] = "columns:country,product"
    assert cli.main(command) == 0


def test_two_saved_results_are_compared_without_a_ledger(tmp_path: Path, capsys: Any) -> None:
    """Law: as the frames themselves are; a file that is no result is refused."""
    ask = {"keys": ["FR", "DE"], "epsilon": 1.0}
    frames = [RECEIPTS.dp.tree_counts(["country"], **ask) for _ in range(2)]
    paths = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    for frame, path in zip(frames, paths, strict=True):
        frame.dp.save(path)
    expected = dp.change(*frames)
    pd.testing.assert_frame_equal(dp.change(*paths), expected)
    assert cli.main(["change", *paths]) == 0
    assert capsys.readouterr().out.count("FR") >= 1
    assert cli.main(["change", "a", "b"]) == 2
    assert "two results that were saved as .parquet" in capsys.readouterr().err
    Path(paths[1]).write_text("{}")
    assert cli.main(["change", *paths]) == 2


def test_rows_of_sql_have_a_card_and_a_page(tmp_path: Path) -> None:
    """Law: rows say where their receipt is; a named release has it, with what bounds cut."""
    with contextlib.closing(duckdb.connect()) as con:
        dp.register(con, ledger=dp.Ledger(tmp_path / "b.db", epsilon=2.0, delta=1e-5))
        con.register("receipts", RECEIPTS)
        asked = (
            "FROM dp_rollup('receipts', 'country', ['count', 'sum(amount, 0, 5)'], "
            "\"user\" := 'customer', epsilon := 1, delta := 1e-6, release := 'sales')"
        )
        rows = con.execute(asked).df()
    with pytest.raises(dp.ParameterError, match=r"name the release, and ask ledger\.recall"):
        rows.dp.report(tmp_path / "page.html")
    found = dp.Ledger(tmp_path / "b.db").recall("sales")
    assert "each customer up to 5" in str(found.dp.receipt)
    found.dp.report(tmp_path / "page.html")
    assert "each customer up to 5" in (tmp_path / "page.html").read_text("utf-8")


SHELL = ("--epsilon=1", "--delta=1e-6", "--quiet")


def test_two_results_of_a_shell_are_compared_without_a_ledger(tmp_path: Path, capsys: Any) -> None:
    """Law: a file that a shell wrote holds its receipt as one that ``save`` wrote does."""
    RECEIPTS.to_parquet(tmp_path / "f.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    for path in paths:
        asked = ["rollup", str(tmp_path / "f.parquet"), "country", "--measure=count"]
        assert cli.main([*asked, "--user=customer", *SHELL, "-o", path]) == 0
    capsys.readouterr()
    assert cli.main(["change", *paths]) == 0
    told = capsys.readouterr()
    assert "Only the total is compared" in told.err
    read = pd.read_parquet(paths[0])
    assert read.dp.receipt["user"] == "customer"
    assert dp.verify(read)
    assert cli.main(["verify", paths[0]]) == 0


@pytest.mark.parametrize("word", ["by", "hierarchy"])
def test_reports_name_the_hierarchy_by_either_word(word: str, tmp_path: Path) -> None:
    """Law: for every question; the example of a rollup in the documents runs."""
    text = (Path(__file__).parents[2] / "docs/series.md").read_text("utf-8")
    declared = text.partition("## What is declared")[2].partition("```toml\n")[2]
    example = declared.partition("```")[0].replace("by =", f"{word} =")
    RECEIPTS.assign(when=pd.Timestamp("2026-01-05")).to_parquet(tmp_path / "sales.parquet")
    (tmp_path / "reports.toml").write_text(
        'source = "sales.parquet"\n[ledger]\npath = "b.db"\nepsilon = 2.0\ndelta = 1e-6\n'
        '[period]\ncolumn = "when"\nunit = "month"\nfirst = "2026-01"\n'
        f'{example}\n[[report]]\nname = "counts"\nquestion = "hhh"\n{word} = ["country"]\n'
        'user = "customer"\nepsilon = 0.5\ndelta = 1e-7\n'
    )
    assert dp.Series.read(tmp_path / "reports.toml").run("2026-01").code == 0
    assert {*dp.Ledger(tmp_path / "b.db").names()} == {"revenue-2026-01", "counts-2026-01"}
    with pytest.raises(dp.ParameterError, match="has no key"):
        dp.Series(
            [{"name": "x", "question": "heavy_hitters", word: "country", **BUDGET}],
            source=RECEIPTS,
            period={"column": "when", "unit": "month", "first": "2026-01"},
            ledger="b.db",
        )


def test_a_verdict_as_json(tmp_path: Path, capsys: Any) -> None:
    """Law: with the same exit code, whatever the verdict is."""
    path = tmp_path / "f.parquet"
    RECEIPTS.dp.hhh("country", **BUDGET).dp.save(path)
    assert cli.main(["verify", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outcome"] == "proved"
    assert float(told["bound"]) <= told["delta"] == 1e-6
    assert told["epsilon"] == 1.0
    assert told["steps"]
    (tmp_path / "r.json").write_text('{"guarantee": "none"}')
    code = cli.main(["verify", str(tmp_path / "r.json"), "--json"])
    assert json.loads(capsys.readouterr().out)["code"] == code > 0


def test_a_column_of_addresses_is_told_its_hierarchy(tmp_path: Path, capsys: Any) -> None:
    """Law: by released values alone; what is said to ask shows the networks."""
    logs = pd.DataFrame({"src": [f"10.0.{n % 5}.7" for n in range(3000)], "name": "x"})
    logs.to_parquet(tmp_path / "f.parquet")
    command = ["hhh", str(tmp_path / "f.parquet"), "src", "--epsilon=1", "--delta=1e-6"]
    assert cli.main(command) == 0
    assert "hhh of 'ip:src' shows their networks, too" in capsys.readouterr().err
    command[2] = "ip:src"
    assert cli.main(command) == 0
    assert "10.0.0.0/16" not in capsys.readouterr().err
    assert "addresses" not in str(logs.dp.hhh("name", **BUDGET).dp.receipt)
    assert "addresses" not in str(logs.head(0).dp.hhh("src", **BUDGET).dp.receipt)


def test_a_page_of_users_begins_with_the_number_and_its_unit(tmp_path: Path) -> None:
    """Law: what a user with many nodes counts is said, and not in the first sentence."""
    RECEIPTS.dp.hhh(["country", "product"], user="customer", **BUDGET).dp.report(
        tmp_path / "page.html"
    )
    page = (tmp_path / "page.html").read_text()
    assert "counts less than 1" in page
    told = page.partition("<p class='answer'>")[2].partition("</p>")[0]
    assert "<bdi>different users</bdi> in all (" in told
    assert "at_most" not in told
    customers = RECEIPTS.dp.rollup("country", measures="count", user="customer", **BUDGET)
    customers.dp.report(tmp_path / "page.html")  # a customer has one total
    told = (tmp_path / "page.html").read_text().partition("<p class='answer'>")[2]
    assert "counts fully" not in told.partition("</p>")[0]
    assert "<small>each customer counts fully at up to " in told


def test_addresses_of_every_day() -> None:
    logs = pd.DataFrame({"ts": pd.Timestamp("2026-01-05"), "src_ip": ["10.0.0.1"] * 900})
    found = logs.dp.hhh("date:ts?levels=day > ip:src_ip", **BUDGET)
    assert "2026-01-05" in found["prefix"][1]


def test_the_bound_of_nodes_is_that_of_each_part() -> None:
    """Law: not that of the lowest nodes alone, which may be larger, nor that of the total."""
    frame = RECEIPTS.assign(brand=RECEIPTS["product"].str[1:].astype(int) % 2)
    for _ in range(3):
        found = frame.dp.rollup(["brand", "product"], measures="count", user="customer", **BUDGET)
        parts = found.dp.receipt["measures"]["count"]["noise"]
        lowest, _, above = (part["at_most"] for part in parts)
        (said,) = [q.value_text for q in found.dp.receipt.card_lines if q.id == "cut"]
        both = f"{lowest} of the lowest nodes and {above} above"
        assert f"counts fully at up to {both if lowest != above else f'{lowest} node'}" in said
