"""Quantiles, shares above a value, histograms, other confidences and changes, of a release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError
from dpframe.measures.bins import Bins, bins_between
from dpframe.pages.tables import change_text
from dpframe.postprocess.quantiles import NodeBins
from dpframe.testing import seeded_noise
from tests.members import in_turn, some
from tests.releases import made_once

N = 6_000
RNG = np.random.default_rng(5)
TIMES = pd.Timestamp("2026-01-01") + pd.to_timedelta(RNG.integers(0, 300, N), "D")
ROWS = pd.DataFrame(
    {
        "land": RNG.choice(["FR", "DE", "IT", "US"], N, p=[0.5, 0.3, 0.195, 0.005]),
        "city": RNG.choice(list("abc"), N),
        "paid": np.round(RNG.lognormal(3, 1, N), 2),
        "items": RNG.integers(0, 50, N),
        "day": pd.Series(TIMES).astype("date32[pyarrow]"),
        "when": TIMES.tz_localize("UTC").as_unit("us"),
        "took": pd.to_timedelta(RNG.integers(0, 5_000, N), "s"),
        "who": RNG.integers(0, 2_500, N),
    }
)
MEASURES: dict[str, Any] = {
    "n": "count",
    "med": "median(paid, 1, 500)",
    "q": "quantiles(items, 0, 49, at=[0.25, 0.95], bins=whole)",
    "h": "histogram(took, 0s, 5000s, bins=10)",
    "d": "median(day, 2026-01-01, 2026-12-31)",
    "t": "quantile(when, 0.9, 2026-01-01, 2026-12-31)",
}
VALUES = {"med": "med", "q": "q_p25", "h": "h", "d": "d", "t": "t"}
CALLS: dict[str, dict[str, Any]] = {
    "records": {"delta": 1e-6},
    "users": {"delta": 1e-6, "user": "who"},
    "shares": {"delta": 1e-6, "user": "who", "contribution": "share"},
    "listed": {"keys": [("FR", "a"), ("FR", "b"), ("ZZ", "a")]},
    "cells": {"delta": 1e-6, "by": "land * city"},
}


@made_once
def released(name: str = "records", seed: int = 3, **more: Any) -> pd.DataFrame:
    given = {"by": ["land", "city"], "measures": MEASURES, "epsilon": 8.0, **CALLS[name], **more}
    with seeded_noise(seed):
        return dp.rollup(ROWS, progress=False, **given)


def without_counts(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[[name for name in frame if not name.startswith("n")]]


# -- the same numbers as a release that had asked for them -----------------------------------------


@in_turn(("call", CALLS), (("epsilon", "confidence"), [(8.0, 0.6), (0.3, 0.99)]))
def test_another_confidence_gives_the_release_of_that_confidence(
    call: str, epsilon: float, confidence: float
) -> None:
    """Law: bit by bit, values that are unknown at one of both included."""
    if call == "cells":  # cells are asked one by one: intervals do not take them
        found = released(call).dp.quantile(0.5, "med", 0.8)
        pd.testing.assert_series_equal(
            found["lower"], released(call, confidence=0.8)["med_lower"], check_names=False
        )
        return
    other = released(call, confidence=confidence, epsilon=epsilon)
    found = released(call, epsilon=epsilon).dp.intervals(confidence)
    pd.testing.assert_frame_equal(without_counts(found), without_counts(other))


@some("records-med", "users-d", "shares-t", "listed-d", "cells-med")
@in_turn(("call", CALLS), ("name", ["med", "d", "t"]))
def test_a_quantile_is_that_of_a_measure_that_asked_for_it(call: str, name: str) -> None:
    """Law: with the same noise ``quantile(column, 0.75, ...)`` has the numbers of ``.dp.quantile``,
    in the same types."""
    spec = MEASURES[name].replace("median(", "quantile(").replace(", 0.9, ", ", ")
    column, rest = spec.split(", ", 1)
    asked = released(call, measures={name: f"{column}, 0.75, {rest}"})
    found = released(call, measures={name: f"{column}, 0.5, {rest}"}).dp.quantile(0.75)
    for end, column in (("", "value"), ("_lower", "lower"), ("_upper", "upper")):
        pd.testing.assert_series_equal(found[column], asked[f"{name}{end}"], check_names=False)
    assert found["at_bound"].equals(asked[f"{name}_at_bound"])


def test_any_rows_of_the_lowest_level_and_any_order_are_enough() -> None:
    result = released()
    whole = result.dp.quantile(0.9)
    mixed = result.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(mixed.dp.quantile(0.9).loc[whole.index], whole)
    lowest = result[result["level"] == 2].iloc[[3, 1]]
    pd.testing.assert_frame_equal(lowest.dp.quantile(0.9), whole.loc[lowest.index])
    some = released("cells").iloc[[2, 0]]
    pd.testing.assert_frame_equal(
        some.dp.quantile(0.9), released("cells").dp.quantile(0.9).loc[some.index]
    )
    with pytest.raises(ParameterError, match="all rows of the release, or rows of its lowest"):
        result[result["level"] < 2].dp.above(30)


def test_saved_and_replayed_releases_answer(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=100.0, delta=1e-3)
    given = {"ledger": ledger, "release": "x", "data": "d"}
    first = released(**given)
    first.dp.save(tmp_path / "x.parquet")
    others = [pd.read_parquet(tmp_path / "x.parquet"), released(seed=9, **given)]
    others.append(ledger.recall("x"))
    for name in VALUES:
        wanted = [first.dp.quantile(0.7, name), first.dp.histogram(name)]
        for other in others:
            pd.testing.assert_frame_equal(other.dp.quantile(0.7, name), wanted[0])
            pd.testing.assert_frame_equal(other.dp.histogram(name), wanted[1])
    for other in others:
        pd.testing.assert_frame_equal(other, first)


# -- histograms and shares -------------------------------------------------------------------------


def test_a_histogram_has_a_row_for_every_bin() -> None:
    result = released()
    long = result.dp.histogram("h")
    assert long.columns[-5:].tolist() == [
        *("bin_lower", "bin_upper", "number", "number_lower", "number_upper")
    ]
    numbers = long.groupby("prefix", sort=False)["number"].agg(list)
    shown = result.set_index("prefix")["h_bins"].dropna()
    assert [str(own) for own in numbers] == shown.loc[numbers.index].tolist()
    first = long.iloc[:12]
    assert first["bin_lower"].isna().tolist() == [True] + [False] * 11
    assert first["bin_upper"].isna().tolist() == [False] * 11 + [True]
    assert (first["bin_lower"].to_numpy()[2:] == first["bin_upper"].to_numpy()[1:-1]).all()
    seconds = ROWS["took"]
    inside = [
        int(((seconds >= low) & (seconds < high)).sum())
        for low, high in zip(first["bin_lower"][1:-1], first["bin_upper"][1:-1], strict=True)
    ]
    lower, upper = first["number_lower"][1:-1], first["number_upper"][1:-1]
    assert sum(a <= n <= b for n, a, b in zip(inside, lower, upper, strict=True)) >= 8
    kinds = {"d": "date32[day][pyarrow]", "t": "datetime64[us, UTC]", "h": "timedelta64[us]"}
    for name, kind in {**kinds, "med": "float64", "q": "float64"}.items():
        assert str(result.dp.histogram(name)["bin_lower"].dtype) == kind


ABOVE: list[tuple[str, Any, Any, Any]] = [
    ("med", 30, 29.9, lambda rows: rows["paid"] >= 29.9),
    ("q", 5, 6.0, lambda rows: rows["items"] > 5),
    ("q", 5.5, 6.0, lambda rows: rows["items"] > 5),
    ("d", "2026-05-05", pd.Timestamp("2026-05-06").date(), None),
    ("h", "1000s", pd.Timedelta("20min"), lambda rows: rows["took"] >= pd.Timedelta("20min")),
    ("med", 1e9, 500.0, lambda rows: rows["paid"] > 500),
]


@pytest.mark.parametrize(("name", "value", "edge", "truth"), ABOVE)
def test_a_share_above_a_value_is_that_of_the_edge_it_tells(
    name: str, value: Any, edge: Any, truth: Any
) -> None:
    found = released(seed=8).dp.above(value, name)
    assert found["edge"][0] == edge
    if truth is None:
        truth = lambda rows: rows["day"].astype("datetime64[us]") >= pd.Timestamp(edge)  # noqa: E731
    share = truth(ROWS).mean()
    assert found["share_lower"][0] <= share <= found["share_upper"][0]
    assert found["share_upper"][0] - found["share_lower"][0] < 0.05


def node_bins(numbers: Any, parts: Any, bins: Bins, scale: float, unit: int = 1) -> NodeBins:
    ratio = (0.54 / 0.46) ** 2 if bins.groups else np.inf
    return NodeBins(
        bins=bins,
        numbers=np.asarray(numbers, dtype=np.int64),
        parts=np.asarray(parts, dtype=np.int64),
        scale=scale,
        ratio=ratio,
        unit=unit,
    )


def shares_that_fit(node: NodeBins, edge: int, confidence: float) -> list[np.ndarray]:
    """The slow twin: for every node, the shares of a grid that the noise does not rule out."""
    grid = np.arange(2_001) / 2_000
    weights = (np.arange(node.bins.size) > edge)[None, :] - grid[:, None]
    half = node.half_widths(weights, confidence, 1.0)
    total = node.running_totals[:, -1]
    above = total - node.running_totals[:, edge]
    fits = np.abs(above[:, None] - grid[None, :] * total[:, None]) <= half
    return [grid[row] for row in fits]


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99999])
@pytest.mark.parametrize("count", [3, 20, 64, 200])
def test_intervals_of_shares_hold_all_that_noise_allows(confidence: float, count: int) -> None:
    """Law: equal to what a grid of shares allows, or wider, and not by much."""
    generator = np.random.default_rng(count)
    bins = bins_between(1.0, 500.0, count, "proportion", "number")
    size = generator.choice([0, 3, 40, 900, 10**6], 60)
    shape = generator.dirichlet(np.full(bins.size, 0.3), 60)
    numbers = np.rint(size[:, None] * shape + generator.laplace(0, 4, (60, bins.size)))
    node = node_bins(numbers, generator.integers(1, 40, 60), bins, 4.0)
    tight = 0
    for value in (1.0, 5.0, 60.0, 499.0):
        _, low, high, edge = node.share_above(value, confidence)
        fits = shares_that_fit(node, bins.edges.index(edge), confidence)
        for own, a, b in zip(fits, low, high, strict=True):
            assert 0 <= a <= b <= 1
            if len(own):
                assert a <= own[0]
                assert b >= own[-1]
                tight += a >= own[0] - 0.02 and b <= own[-1] + 0.02
    assert tight > 100


def test_a_share_of_many_values_is_known() -> None:
    """A million values of which a third is above: narrower than a thousandth."""
    bins = bins_between(0.0, 3.0, 3, "even", "number")
    node = node_bins([[0, 10**6, 10**6, 10**6, 0]], [1], bins, 2.0)
    share, low, high, edge = node.share_above(2.0, 0.95)
    assert edge == 2
    assert share[0] == pytest.approx(1 / 3)
    assert low[0] < share[0] < high[0] < low[0] + 1e-4


def drawn_bins(exact: Any, bins: Bins, scales: list[float], draws: int) -> NodeBins:
    """Many releases of the same numbers, each with its own discrete Laplace noise."""
    generator = np.random.default_rng(7)
    tables = [np.asarray(exact)]
    if bins.groups:
        tables.append(np.add.reduceat(tables[0], bins.group_starts))
    numbers = []
    for table, scale in zip(tables, scales, strict=False):
        chance = -np.expm1(-1 / scale)
        noise = generator.geometric(chance, (2, draws, len(table)))
        numbers.append(table + noise[0] - noise[1])
    return NodeBins.of(
        bins=bins, parts=np.ones(draws, dtype=np.int64), scales=scales, unit=1, numbers=numbers
    )


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("count", [10, 64])
def test_shares_and_bins_cover_with_their_confidence(count: int, confidence: float) -> None:
    """Law: at least with the stated confidence, for few values and many, near 0 and 1 too."""
    bins, draws = bins_between(0.0, 100.0, count, "even", "number"), 3_000
    scales = [4.0, 4.0 * 0.54 / 0.46] if bins.groups else [4.0]
    least = confidence - 3 * np.sqrt(confidence * (1 - confidence) / draws)
    values = np.random.default_rng(2).gamma(3, 12, 4_000)
    for size in (60, 4_000):
        exact = np.bincount([bins.place(v) for v in values[:size]], minlength=bins.size)
        node = drawn_bins(exact, bins, scales, draws)
        for value in (10.0, 40.0, 90.0):
            _, low, high, edge = node.share_above(value, confidence)
            share = exact[bins.edges.index(edge) + 1 :].sum() / size
            assert ((low <= share) & (share <= high)).mean() >= least
        half = np.ceil(node.half_widths(np.eye(bins.size), confidence, 1.0))
        inside = np.abs(node.numbers - exact) <= half
        assert inside.mean(axis=0).min() >= least


# -- shares, order and changes ---------------------------------------------------------------------


def test_numbers_of_histograms_have_shares_and_quantiles_none() -> None:
    result = released()
    share = result.dp.share(measure="h")
    assert share.attrs["dp_share"]["how"] == "widened"
    top = int(np.flatnonzero(result["prefix"] == "FR")[0])
    assert share["share_lower"][top] <= (ROWS["land"] == "FR").mean() <= share["share_upper"][top]
    for name in ("med", "q_p95", "d"):
        with pytest.raises(ParameterError, match="is a quantile, which has no share"):
            result.dp.share(measure=name)
    each = released("shares", measures={"h": "histogram(paid, 0, 500, each=total)"})
    with pytest.raises(ParameterError, match="counts every user anew at each level"):
        each.dp.share(measure="h")


def test_quantiles_of_times_can_be_ordered() -> None:
    result = released()
    first = result.dp.top(2, by="d", level=1)
    assert first["d"].iloc[0] >= first["d"].iloc[1]
    assert result.dp.top(1, by="t")["t"].iloc[0] == result["t"][1:].max()


@some("records", "shares")
@pytest.mark.parametrize("call", ["records", "shares", "listed"])
def test_changes_hold_the_truth(call: str) -> None:
    """Of quantiles that moved by a known step, of every type."""
    before = released(call)
    later = ROWS.assign(
        paid=ROWS["paid"] * 1.5,
        items=ROWS["items"] + 2,
        day=(TIMES + pd.Timedelta(days=30)).astype("date32[pyarrow]"),
        when=ROWS["when"] + pd.Timedelta(days=20),
    )
    with seeded_noise(4):
        given = {"by": ["land", "city"], "epsilon": 8.0, **CALLS[call]}
        after = dp.rollup(later, measures=MEASURES, progress=False, **given)
    steps = {"q_p25": 2, "d": pd.Timedelta(days=30), "t": pd.Timedelta(days=20), "n": 0, "h": 0}
    for name, step in steps.items():
        found = dp.change(before, after, measure=name)
        known = found[found["change"].notna()]
        assert len(known) > 3
        below, above = known["change_lower"].fillna(step), known["change_upper"].fillna(step)
        assert ((below <= step) & (step <= above)).all()
        assert found["ratio"].isna().all() == (name in ("d", "t"))
    found = dp.change(before, after, measure="med")
    assert found.attrs["dp_change"]["how"] == "widened"
    assert found["ratio_lower"][0] <= 1.5 <= found["ratio_upper"][0]
    assert found["more_than_noise"][0]


@pytest.mark.parametrize("name", ["d", "t", "q_p95", "h"])
def test_changes_of_every_type_are_written_for_people(name: str, tmp_path: Path) -> None:
    """Law: a change of times is a duration on pages and in tables, in days or less."""
    found = dp.change(released(seed=1), released(seed=2), measure=name)
    found.dp.report(tmp_path / "change.html")
    page = (tmp_path / "change.html").read_text("utf-8")
    table = change_text(found, 20)
    timed = name in ("d", "t")
    for text in (page, table):
        assert (re.search("2026-0[3-9]|2026-10", text) is not None) == timed
        assert "1970" not in text
        assert (re.search(r"[0-9] (d|h)\b", text) is not None) == timed
    for ending in ("csv", "json", "parquet"):
        found.dp.save(tmp_path / f"change.{ending}")
    assert pd.read_parquet(tmp_path / "change.parquet")["change"].dtype == found["change"].dtype


def test_a_change_beyond_a_bound_has_no_end() -> None:
    """Half of the values lie above the upper bound in one release."""
    given: Any = {"by": ["land"], "epsilon": 8.0, "delta": 1e-6, "progress": False}
    measures = {"med": dp.median("items", lower=0, upper=20)}
    with seeded_noise(2):
        before = dp.rollup(ROWS.assign(items=ROWS["items"] // 5), measures=measures, **given)
        after = dp.rollup(ROWS, measures=measures, **given)
        low = dp.rollup(ROWS.assign(items=ROWS["items"] - 60), measures=measures, **given)
    found = dp.change(before, after)
    assert after["med_at_bound"][0]
    assert found["change_lower"].notna()[0]
    assert found["change_upper"].isna()[0]
    found = dp.change(before, low)
    assert found[["change_lower", "ratio_lower", "ratio_upper"]].isna().all(axis=None)
    assert (found["change_upper"][:2] < 0).all()


def test_a_change_of_what_nothing_is_known_of_is_unknown() -> None:
    """Neither a release without a node, nor one with too few values there, has a number."""
    few = released(epsilon=0.5, measures={"med": MEASURES["med"]})
    many = released(seed=6, measures={"med": MEASURES["med"]})
    found = dp.change(few, many)
    unknown = found["before"].isna()
    assert unknown.any()
    assert found["change"][unknown].isna().all()
    assert not found["more_than_noise"][unknown & found["change_lower"].isna()].any()


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_changes_cover_at_least_with_their_confidence(confidence: float) -> None:
    """Many pairs of nodes with a known difference of medians, each drawn anew."""
    generator = np.random.default_rng(1)
    bins, several, times = bins_between(0.0, 100.0, 25, "even", "number"), 800, 2
    values = [generator.normal(40 + 8 * side, 12, 301) for side in range(times)]
    exact = [np.bincount([bins.place(v) for v in own], minlength=bins.size) for own in values]
    each = np.sqrt(confidence)
    ends = []
    for own in exact:
        drawn = own + np.rint(generator.laplace(0, 6.0, (several, bins.size)))
        node = node_bins(drawn, np.ones(several), bins, 6.0)
        found = node.quantile(0.5, each)
        ends.append(
            (
                np.where(found.below, -np.inf, found.lower),
                np.where(found.above, np.inf, found.upper),
            )
        )
    truth = np.sort(values[1])[150] - np.sort(values[0])[150]
    inside = (ends[1][0] - ends[0][1] <= truth) & (truth <= ends[1][1] - ends[0][0])
    assert inside.mean() >= confidence - 3 * np.sqrt(confidence * (1 - confidence) / several)


# -- what is refused -------------------------------------------------------------------------------

REFUSED: list[tuple[Any, str]] = [
    (lambda r: r.dp.quantile(0), "above 0 and below 1"),
    (lambda r: r.dp.quantile(1.5), "above 0 and below 1"),
    (lambda r: r.dp.quantile(float("nan")), "above 0 and below 1"),
    (lambda r: r.dp.quantile("half"), "must be a number"),
    (lambda r: r.dp.quantile(0.5, "n"), "one that counts values in bins: med, q, h, d, t"),
    (lambda r: r.dp.quantile(0.5, 3), "must be a name"),
    (lambda r: r.dp.quantile(0.5, confidence=1), "0.5 to 0.999999"),
    (lambda r: r.dp.above("2026-01-01"), "must be a number"),
    (lambda r: r.dp.above(5, "d"), "must be a date or time"),
    (lambda r: r.dp.above(float("inf")), "must be finite"),
    (lambda r: r.dp.above(None), "must be a number, a date"),
    (lambda r: r.dp.above("x"), "must be a number, or a date"),
    (lambda r: r.dp.histogram("q_p25"), "one that counts values in bins"),
    (lambda r: r.drop(columns="med_bins").dp.quantile(0.5), "no column 'med_bins'"),
    (lambda r: r.assign(med=1.0).dp.above(5), "is not the release"),
    (lambda r: r.dp.intervals(0.8, measures="q_p95"), "must be one of this release: n, med, q"),
    (lambda r: dp.change(r, r.copy(), measure="q"), "same release"),
    (lambda r: r.dp.top(1, by="q"), "q_p25, q_p95"),
]


@pytest.mark.parametrize(("ask", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_a_release_cannot_answer_is_refused(ask: Any, said: str) -> None:
    with pytest.raises(DpframeError, match=said) as refused:
        ask(released())
    assert isinstance(refused.value, (ParameterError, ParameterTypeError))


def test_a_release_without_bins_says_what_is_needed() -> None:
    result = released(measures={"n": "count"})
    for ask in (lambda: result.dp.quantile(0.5), lambda: result.dp.above(3), result.dp.histogram):
        with pytest.raises(ParameterError, match=r"Release with dp\.median"):
            ask()


# -- other doors -----------------------------------------------------------------------------------

KINDS = {
    "med": "DOUBLE",
    "q_p25": "BIGINT",
    "h": "BIGINT",
    "d": "DATE",
    "t": "TIMESTAMP WITH TIME ZONE",
    "long": "INTERVAL",
}
LONGER = [f"{spec} AS {name}" for name, spec in MEASURES.items()]
LONGER.append("median(took, 0s, 5000s) AS long")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dp.Ledger]]:
    """Two releases by SQL, in a ledger, with the connection."""
    path = tmp_path_factory.mktemp("bins") / "ledger.db"
    ledger = dp.Ledger(path, epsilon=1000.0, delta=1e-2)
    with duckdb.connect() as con:
        dp.register(con, ledger=ledger)
        con.register("rows", pa.Table.from_pandas(ROWS, preserve_index=False))
        con.execute("CREATE TABLE sales AS FROM rows")
        for release in ("a-1", "a-2"):
            con.execute(SELECTED, {"measures": LONGER, "release": release}).fetchall()
        yield con, ledger


SELECTED = (
    "FROM dp_rollup('sales', by := 'columns:land,city', measures := $measures, epsilon := 8.0, "
    "delta := 1e-6, release := $release)"
)


def test_sql_has_the_types_and_values_of_the_frame(stored: Any) -> None:
    """Law: drawn, replayed and recalled, it is one result, of every type."""
    con, ledger = stored
    described = con.execute(f"DESCRIBE {SELECTED}", {"measures": LONGER, "release": "a-1"})
    kinds = {name: kind for name, kind, *_ in described.fetchall()}
    for name, kind in KINDS.items():
        for end in ("", "_lower", "_upper"):
            assert kinds[f"{name}{end}"] == kind
    found = con.execute(SELECTED, {"measures": LONGER, "release": "a-1"}).df()
    frame = ledger.recall("a-1")
    for name in KINDS:
        mine, theirs = pd.Series(frame[name]), found[name]
        assert mine.isna().tolist() == theirs.isna().tolist()
        same = zip(mine.dropna(), theirs.dropna(), strict=True)
        assert all(pd.Timestamp(a) == b if name == "d" else a == b for a, b in same)
    frame.dp.quantile(0.9, "long")


def test_sql_compares_times_by_durations(stored: Any) -> None:
    con, _ = stored
    for name, kind in KINDS.items():
        asked = f"FROM dp_change('a-1', 'a-2', measure := '{name}')"
        con.execute(f"CREATE OR REPLACE TABLE changed AS {asked}")
        found = con.table("changed")
        kinds = dict(zip(found.columns, map(str, found.types), strict=True))
        timed = name in ("d", "t", "long")
        assert kinds["before"] == kinds["after_upper"] == kind
        assert kinds["change"] == kinds["change_lower"] == ("INTERVAL" if timed else kind)
        assert len(found.filter("change IS NOT NULL").fetchall()) > 3
        assert found.filter("change_lower > change OR change > change_upper").fetchall() == []


def test_results_tables_have_quantiles_as_rows(stored: Any, tmp_path: Path) -> None:
    """The long form has numbers alone: times in seconds, no lists of bins."""
    _, ledger = stored
    dp.publish(ledger, tmp_path / "results.duckdb")
    with duckdb.connect(str(tmp_path / "results.duckdb"), read_only=True) as con:
        long = con.sql("FROM dp_measures").df()
        said = con.sql("SELECT column_name, comment FROM duckdb_columns() WHERE table_name='a_1'")
        comments = dict(said.fetchall())
    names = ["n", "med", "q_p25", "q_p95", "h", "d", "t", "long"]
    assert long["measure"].drop_duplicates().tolist() == names
    kinds = long.drop_duplicates("measure").set_index("measure")
    assert kinds["kind"].tolist() == ["count", *["quantile"] * 3, "histogram", *["quantile"] * 3]
    assert kinds["unit"]["d"] == kinds["unit"]["t"] == "seconds since 1970, in UTC"
    assert kinds["unit"]["long"] == "seconds"
    assert not kinds["adds_up"][1:].any()
    frame = ledger.recall("a-1")
    own = long[(long["release"] == "a-1") & (long["measure"] == "long")]["value"]
    assert own.dropna().tolist() == frame["long"].dropna().dt.total_seconds().tolist()
    assert all(comments.values())
    assert "list as text" in comments["med_bins"]
    assert "beyond a bound" in comments["q_p95_at_bound"]


def test_polars_frames_answer_alike() -> None:
    import polars as pl

    rows = pl.from_pandas(ROWS)
    given: Any = {"measures": MEASURES, "epsilon": 8.0, "delta": 1e-6, "progress": False}
    with seeded_noise(3):
        result = rows.dp.rollup(["land", "city"], **given)  # type: ignore[attr-defined]
    for ask in (
        lambda r: r.dp.quantile(0.9, "d"),
        lambda r: r.dp.histogram("h"),
        lambda r: r.dp.above(30),
        lambda r: r.dp.intervals(0.8),
    ):
        found = ask(result)
        assert isinstance(found, pl.DataFrame)
        assert found.equals(pl.from_pandas(ask(result.dp.to_pandas())))


def test_an_epsilon_for_an_error_is_for_a_rank() -> None:
    plan = dp.explain_rollup(["land"], "median(paid, 1, 500) AS med", error=0.02, delta=1e-6)
    assert plan.plan.errors["med"] <= 0.02
    assert "the rank of med within +-0.02 of the values, where a node has 1,000" in str(plan)
    with pytest.raises(ParameterError, match=r"the rank of a quantile.*below 0\.5"):
        dp.explain_rollup(["land"], "median(paid, 1, 500)", error=5, delta=1e-6)
    year = dp.plan_series(12, "rollup", ["land"], "median(paid, 1, 500)", total=(3.0, 1e-6))
    assert year.arguments["epsilon"] > 3 / 12
