"""The page of synthetic rows beside a public sample: what it draws, measures and promises."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.evaluation import wasserstein
from dpframe.pages.drawings import (
    LONGEST_NAME,
    draw_category_bars,
    nice_ticks,
    percent_of_rows,
    seconds_text,
)
from dpframe.pages.marginals import BINS, MOST, bins_of, marginals_page, write_marginals
from tests.unit.pages.test_report import HOSTILE, Reading

BOUNDS = {"distance": (0, 5000), "ts": ("2013-01-01", "2014-01-01")}


def frame(n: int = 400, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"distance": rng.integers(0, 3000, n)})
    hours = pd.to_timedelta(rng.integers(0, 8760, n), unit="h")
    carriers = rng.choice(["UA", "DL", "é́́́́"], n)
    return out.assign(ts=pd.Timestamp("2013-01-01") + hours, share=rng.random(n), carrier=carriers)


@pytest.fixture(scope="module")
def receipt() -> Receipt:
    return dp.synthesize(frame(), BOUNDS, epsilon=1.0).receipt


def read(receipt: Receipt, real: pd.DataFrame, synthetic: pd.DataFrame, **more: Any) -> Reading:
    return Reading(marginals_page(real, synthetic, receipt=receipt, **more))


def test_the_page_asks_for_nothing_and_runs_nothing(receipt: Receipt) -> None:
    """No script, no style in an attribute, no address; the policy names the one style."""
    text = marginals_page(frame(), frame(seed=2), receipt=receipt)
    found = Reading(text)
    assert {v for _, a in found.tags for k, v in a.items() if k in ("src", "href")} == {"data:,"}
    assert not {"script", "a", "img", "link rel"} & {tag for tag, _ in found.tags}
    assert not [a for _, a in found.tags if "style" in a or any(k.startswith("on") for k in a)]
    assert "https:" not in text
    assert set(re.findall("http:[^']*", text)) <= {"http://www.w3.org/2000/svg"}
    policy = str(next(a["content"] for t, a in found.tags if "http-equiv" in a))
    digest = hashlib.sha256(found.inside["style"].encode()).digest()
    assert policy.startswith("default-src 'none';")
    assert f"style-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy


def test_every_common_column_is_drawn_and_measured(receipt: Receipt) -> None:
    real = frame().assign(unshared=1)
    synthetic = frame(seed=2).assign(other="x")
    found = read(receipt, real, synthetic)
    assert sum(tag == "svg" for tag, _ in found.tags) == 4
    assert "unshared" not in found.text
    for name in ("distance", "share"):
        expected = wasserstein(real[name], synthetic[name])
        assert f"1-Wasserstein {expected:,.3g}" in found.text
    shares = [f["carrier"].value_counts(normalize=True) for f in (real, synthetic)]
    apart = (shares[0] - shares[1]).abs().sum() / 2
    assert f"total variation {percent_of_rows(apart)}" in found.text


def test_the_promise_is_that_of_the_receipt(receipt: Receipt) -> None:
    found = read(receipt, frame(), frame(seed=2), title="Flights", note="From <b>2013</b>.")
    words = ["at most 2.719 times", "nothing on this page protects the sample", "Privacy card"]
    words += [receipt[name] for name in ("guarantee", "neighbours", "release_id")]
    assert not [said for said in (*words, "From <b>2013</b>.") if said not in found.text]


def test_labels_are_text_and_never_markup(receipt: Receipt) -> None:
    harmless = pd.DataFrame({"a": [f"v{i}" for i in range(len(HOSTILE))], "b": range(len(HOSTILE))})
    hostile = pd.DataFrame({HOSTILE[0]: HOSTILE, HOSTILE[1]: range(len(HOSTILE))})
    tags = [
        [tag for tag, _ in read(receipt, f, f, title=t, note=t).tags]
        for f, t in ((harmless, "t"), (hostile, HOSTILE[2]))
    ]
    assert tags[0] == tags[1]
    attributes = [set(a) for _, a in read(receipt, hostile, hostile).tags]
    assert not [a for names in attributes for a in names if a.startswith("on")]


def test_declared_bounds_span_the_axis(receipt: Receipt) -> None:
    """Not the range of the rows, unless no bounds are known."""
    found = read(receipt, frame(), frame(seed=2))
    assert "5,000" in found.text
    narrow = read(receipt, frame(), frame(seed=2), bounds={"distance": (0, 2500)})
    assert "5,000" not in narrow.text
    assert "2,500" in narrow.text


def test_only_the_most_frequent_categories_are_drawn(receipt: Receipt) -> None:
    real = pd.DataFrame({"c": [f"n{i}" for i in range(50) for _ in range(50 - i)]})
    found = read(receipt, real, real.iloc[::-1])
    assert "30 more" in found.text
    assert f"n{MOST - 1}: " in found.text
    assert f"n{MOST}: " not in found.text
    assert "total variation 0 %" in found.text


def test_dates_truth_values_and_missing_values_are_drawn(receipt: Receipt) -> None:
    day, flag = pd.date_range("2020-01-01", periods=9).date, [True, False, None] * 3
    real = pd.DataFrame({"day": day, "flag": flag, "x": [1.0, np.nan, np.inf] * 3})
    found = read(receipt, real, real)
    assert "1-Wasserstein 0 seconds" in found.text
    assert "True" in found.text
    assert found.text.count("total variation 0 %") == 1


@pytest.mark.parametrize(
    ("real", "synthetic", "kind", "words"),
    [
        ({"x": [1]}, {"y": [1]}, dp.ColumnError, "no column in common"),
        ({"x": [None]}, {"x": [1]}, dp.ParameterError, "column .x. is empty"),
        ({"x": ["a"]}, {"x": pd.Series([], dtype=str)}, dp.ParameterError, "column .x. is empty"),
        ({"x": [np.nan]}, {"x": [1.0]}, dp.ParameterError, "column .x. is empty"),
    ],
)
def test_errors_teach(receipt: Receipt, real: Any, synthetic: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        marginals_page(pd.DataFrame(real), pd.DataFrame(synthetic), receipt=receipt)


def test_bounds_and_folder_are_checked(receipt: Receipt, tmp_path: Path) -> None:
    with pytest.raises(dp.ParameterError, match="lower < upper"):
        marginals_page(frame(), frame(), receipt=receipt, bounds={"distance": (3, 3)})
    with pytest.raises(dp.ParameterError, match="folder that does not exist"):
        write_marginals(frame(), frame(), tmp_path / "none" / "a.html", receipt=receipt)
    write_marginals(frame(), frame(), tmp_path / "a.html", receipt=receipt)
    assert (tmp_path / "a.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("high", [0, 3, 23, 47, 48, 49, 200, 5000])
def test_whole_numbers_are_never_cut(high: int) -> None:
    """Every bin holds as many whole numbers as every other; few have a bin each."""
    values = np.arange(high + 1, dtype=float)
    bins = bins_of(values, "number", 0.0, float(high))
    held = np.histogram(values, bins.edges)[0]
    assert len(bins.names) == len(held) <= BINS
    assert len(set(held[:-1])) <= 1
    assert sum(bins.shares(values)) == pytest.approx(1)
    if high < BINS:
        assert set(held) == {1}


@pytest.mark.parametrize("seconds", [3, 50, 4000, 90_000, 10**6, 10**7, 4 * 10**8, 3 * 10**9])
def test_times_have_a_few_round_ticks(seconds: int) -> None:
    start = pd.Timestamp("2013-03-05 07:08:09").timestamp()
    bins = bins_of(np.array([start]), "time", start, start + seconds)
    assert 1 <= len(bins.ticks) <= 7
    assert all(start <= tick.at <= start + seconds for tick in bins.ticks)
    assert len({tick.text for tick in bins.ticks}) == len(bins.ticks)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-180, 180), (0, 5000), (1e-9, 3e-9), (7, 8e8)])
def test_numbers_have_a_few_round_ticks(low: float, high: float) -> None:
    ticks = nice_ticks(low, high, 6)
    assert 2 <= len(ticks) <= 7
    assert len({tick.text for tick in ticks}) == len(ticks)
    slack = 1e-6 * (high - low)
    assert all(low - slack <= tick.at <= high + slack for tick in ticks)


def test_values_outside_count_in_the_nearest_bin() -> None:
    bins = bins_of(np.array([0.5]), "number", 0.0, 1.0)
    shares = bins.shares(np.array([-5.0, 0.5, 9.0, 9.0]))
    assert (shares[0], shares[-1]) == (0.25, 0.5)


def test_words() -> None:
    assert [percent_of_rows(x) for x in (0, 1e-9, 0.0021, 0.1, 0.123, 1)] == [
        *("0 %", "< 0.01 %", "0.21 %", "10 %", "12.3 %", "100 %")
    ]
    assert seconds_text(90_000) == "1.04 days"
    assert seconds_text(90) == "1.5 minutes"
    assert seconds_text(0.25) == "0.25 seconds"


def test_long_labels_are_cut_and_kept_in_the_tooltip() -> None:
    """Wide letters count twice; the drawing stays inside its box."""
    names = ["x" * 500, "中" * 100, "短い", "e" + "\u0301" * 300]
    drawing = draw_category_bars(names, [0.4, 0.3, 0.2, 0.1], [0.25] * 4, label="l")
    drawn = re.findall(r"<text class='name'[^>]*>([^<]*)<", drawing)
    assert drawn[0] == "x" * (LONGEST_NAME - 1) + "…"
    assert len(drawn[1]) <= LONGEST_NAME / 2 + 1
    assert drawn[2] == "短い"
    assert "x" * 500 in drawing
    bar = r"<rect class='(?:real|fill)' x='([\d.]+)' y='[\d.]+' width='([\d.]+)'"
    ends = re.findall(bar, drawing)
    assert max(float(x) + float(w) for x, w in ends) <= 480
