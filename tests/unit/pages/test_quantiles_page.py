"""Quantiles on pages, in tables and in plots: words where a number is open or unknown, no areas and
no shares, and distributions that say what the columns say."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.measure_texts import TOO_FEW, UNKNOWN, Figures
from dpframe.measures.bins import axis_place, duration_text, moment_text
from dpframe.pages.drawings import SHAPE, spread_ticks
from dpframe.pages.marginals import shapes_of
from dpframe.pages.report import report_page
from dpframe.pages.series_page import Stretch, series_page
from dpframe.pages.tables import printed_columns, result_text
from dpframe.postprocess.shown_nodes import shown_nodes
from dpframe.testing import seeded_noise
from tests.unit.pages.test_report import read

N = 6_000
I = np.arange(N)  # noqa: E741
DRAWN = np.random.default_rng(4)
SALES = pd.DataFrame(
    {
        "shop": np.where(I < 40, "small", np.where(I % 3, "north", "south")),
        "kind": np.where(I % 2, "a", "b"),
        "paid": DRAWN.lognormal(3, 1, N),
        "pieces": DRAWN.poisson(2, N),
        "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(I % 200, "D"),
        "wait": pd.to_timedelta(DRAWN.lognormal(6, 1, N), "s"),
        "who": I % 700,
    }
)
MEASURES: dict[str, Any] = {
    "paid": dp.quantiles("paid", at=[0.5, 0.95], lower=1, upper=50),
    "pieces": dp.median("pieces", lower=0, upper=12, bins="whole"),
    "day": dp.median("day", lower="2026-01-01", upper="2026-12-31"),
    "wait": dp.quantile("wait", 0.9, lower="10s", upper="5000s"),
    "sizes": dp.histogram("paid", lower=0, upper=200, bins=[10, 50], spacing="even"),
}


def released(*names: str, rows: bool = False, **arguments: Any) -> pd.DataFrame:
    asked = {name: MEASURES[name] for name in names or MEASURES}
    given = {"epsilon": 3.0, "keys": ["small", "north", "south"], **arguments}
    with seeded_noise(3):
        return dp.rollup(SALES, ["shop"], {"rows": "count", **asked} if rows else asked, **given)


def lines_of(frame: pd.DataFrame) -> dict[str, str]:
    text = result_text(frame, frame.dp.receipt, 40)
    assert text is not None
    return {line.split()[0]: line for line in text.split("\n")}


def test_a_table_has_words_where_there_is_no_number() -> None:
    """Law: unknown numbers and open ends are told in words; lists of bins and marks are not."""
    lines = lines_of(released())
    assert re.search(r"50\.0\s+at least 4\d", lines["north"])
    assert re.search(rf"{UNKNOWN}\s+{TOO_FEW}", lines["small"])
    assert not any(word in "".join(lines.values()) for word in ("[", "True", "NaT", "nan", "<NA>"))
    assert re.search(r"2026-0\d-\d\d\s+2026-0\d-\d\d to 2026-0\d-\d\d", lines["(all)"])
    assert re.search(r"\d+ min.*\d+ min.* to \d+ min", lines["(all)"])


def test_a_value_up_to_a_bound_says_so() -> None:
    low = dp.quantile("paid", 0.05, lower=10, upper=500)
    with seeded_noise(3):
        frame = dp.rollup(SALES, ["shop"], {"low": low}, epsilon=3.0, keys=["north"])
    assert re.search(r"up to 1\d", lines_of(frame)["north"])


def test_files_for_people_lack_bins_and_files_for_programs_keep_them(tmp_path: Path) -> None:
    frame = released()
    for ending in ("txt", "md", "csv", "xlsx", "json", "parquet"):
        frame.dp.save(str(tmp_path / f"x.{ending}"))
    assert "_bins" not in (tmp_path / "x.txt").read_text()
    assert "bins" not in (tmp_path / "x.md").read_text()
    assert {f"{name}_bins" for name in MEASURES} <= {*pd.read_csv(tmp_path / "x.csv").columns}
    sheet = pd.read_excel(tmp_path / "x.xlsx")
    assert isinstance(sheet["wait"].iloc[0], pd.Timedelta)
    assert isinstance(sheet["day"].iloc[0], pd.Timestamp)
    shown = printed_columns(frame, frame.dp.receipt)
    assert shown["day"].iloc[0].count("-") == 2
    assert re.fullmatch(r"(\d+ h )?(\d+ min)?( ?\d+ s)?", shown["wait"].iloc[0])


@pytest.mark.parametrize("name", MEASURES)
def test_a_page_of_each_kind_has_no_area_and_no_share(name: str) -> None:
    """Law: quantiles add up to nothing; the first sentence says what they are."""
    frame = released(name)
    page = report_page(frame, frame.dp.receipt)
    assert "%" not in re.findall(r"<tbody>.*?</tbody>", page, re.S)[0]
    assert ">Share<" not in page
    assert "were cut to" not in page
    sentence = re.findall(r"<p class='answer'>(.*?)</p>", page, re.S)[0]
    column = MEASURES[name].column
    assert f"values of <bdi>{column}</bdi>" in sentence
    starts = {"paid": "Half of", "wait": "90 % of", "sizes": "There are about"}
    assert sentence.startswith(starts.get(name, "Half of"))
    assert ("not later than" in sentence) == (name == "day")


def test_a_page_with_counts_has_words_in_its_table() -> None:
    with seeded_noise(3):
        frame = dp.rollup(
            SALES, ["shop", "kind"], {"rows": "count", **MEASURES}, epsilon=6.0, delta=1e-6
        )
    found = read(frame)
    named = {measure["title"]: measure for measure in found.data["measures"]}
    assert "texts" not in named["rows"]
    for name, values in (("paid_p95", frame["paid_p95"]), ("day", frame["day"])):
        texts, ends = named[name]["texts"], named[name]["ends"]
        assert [text == UNKNOWN for text in texts] == values.isna().tolist()
        assert [text == TOO_FEW for text in ends] == values.isna().tolist()
    assert found.data["drawn"] == "m0"


@pytest.mark.parametrize("user", [None, "who"])
@pytest.mark.parametrize("name", ["paid", "pieces", "day"])
def test_distributions_have_the_median_of_the_columns(name: str, user: str | None) -> None:
    """Law: what a drawing says of a node is what its columns say, and its bars are its bins."""
    with seeded_noise(3):
        asked = {name: MEASURES[name]}
        frame = dp.rollup(
            SALES, ["shop", "kind"], asked, epsilon=6.0, delta=1e-6, user=user,
            **({} if user is None else {"contribution": "share"}),
        )  # fmt: skip
    shapes = shapes_of(shown_nodes(frame, frame.dp.receipt, "report"), name)
    assert shapes is not None
    column = f"{name}_p50" if name == "paid" else name
    for place, own in zip(shapes.places, shapes.own, strict=True):
        value = shapes.medians[own][0]
        told = frame[column].iloc[place]
        if value is None:
            assert pd.isna(told)
            continue
        shown = told.timestamp() if name == "day" else told
        assert value == pytest.approx(shown, abs=1e-6 if name != "day" else 1.0)
        low, high = shapes.shown_edges
        assert sum(number for *_, number in shapes.bars(own)[2]) == int(
            shapes.node.numbers[own, low + 1 : high + 1].sum()
        )
        edges, heights, _ = shapes.bars(own)
        assert all(a < b for a, b in pairwise(edges))
        assert len(heights) == len(edges) - 1


def test_what_is_below_zero_is_not_drawn() -> None:
    frame = released("paid", epsilon=0.3)
    shapes = shapes_of(shown_nodes(frame, frame.dp.receipt, "report"), "paid")
    assert shapes is not None
    drawn = report_page(frame, frame.dp.receipt)
    heights = [h for own in shapes.own.tolist() for h in shapes.bars(own)[1]]
    assert min(heights) < 0
    assert drawn.count("class='fill'") == sum(h > 0 for h in heights)
    assert "height='-" not in drawn


def test_every_drawing_says_what_it_shows() -> None:
    """Law: a title, a text in the place of the picture, and the numbers as text beside it."""
    frame = released("paid", epsilon=0.2)
    page = report_page(frame, frame.dp.receipt)
    figures = re.findall(r"<figure>(.*?)</figure>", page, re.S)
    assert len(figures) == 2  # the smallest shop is unknown
    for figure in figures:
        (title,) = re.findall(r"<h3 dir='auto'>(.*?)</h3>", figure)
        (words,) = re.findall(r"<span>(.*?)</span>", figure)
        assert re.fullmatch(r"about [\d,]+ values; median [\d.]+ \([\d.]+ to [\d.]+\).*", words)
        assert f"aria-label='{title}: paid of {words}'" in figure
        assert "role='img'" in figure
    assert "above 50" in page  # of what lies beyond the bound


def test_an_extract_has_no_distributions() -> None:
    """Noise at a node depends on the nodes below it, and some may be missing."""
    frame = released("paid")
    assert "shapes-0" in report_page(frame, frame.dp.receipt)
    part = frame.head(2)
    assert "shapes-0" not in report_page(part, frame.dp.receipt)


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [(1, 500, "number"), (-60, 600, "number"), (0, 1e6, "number"), (10, 5e3, "duration"),
     (0.001, 0.01, "number"), (1, 1e9, "number"), (0, 86_400, "duration"), (-9, -2, "number")],
)  # fmt: skip
def test_ticks_have_room_beside_each_other(low: float, high: float, value: Any) -> None:

    def at(number: float) -> float:
        return axis_place(number, (low, high), "proportion")

    ticks = spread_ticks(at, low, high, value)
    assert len(ticks) >= 2
    scale = SHAPE.width / (at(high) - at(low))
    for one, other in pairwise(ticks):
        room = SHAPE.letter * (len(one.text) + len(other.text)) / 2
        assert (other.at - one.at) * scale >= room


def test_times_and_durations_are_written_as_fine_as_they_are_known() -> None:
    assert moment_text(86_400 * 365.4, 0) == "1971-01-01"
    assert moment_text(3_661, 2) == "1970-01-01 01:01"
    assert duration_text(1_472, 3) == "24 min 32 s"
    assert duration_text(1_472, 2) == "25 min"
    assert duration_text(3_600, 3) == "1 h"
    assert duration_text(0.25, 5) == "0.25 s"
    assert duration_text(-90, 3) == "-1 min 30 s"
    assert duration_text(0, 1) == "0 h"
    assert Figures(is_binned=True).interval(None, None) == TOO_FEW
    assert Figures().interval(3, None) == "3 or more"


def test_a_plot_of_each_kind() -> None:
    """Law: times are points on an axis of dates, and an open interval ends at the bound."""
    pytest.importorskip("plotly")
    frame = released()
    figure = frame.dp.plot()
    kinds = [trace.type for trace in figure.data]
    assert kinds == ["bar", "bar", "bar", "scatter", "bar", "bar"]
    assert figure.layout.xaxis4.type == "date"
    p95 = figure.data[1]
    assert p95.x[0] + p95.error_x.array[0] == pytest.approx(50)
    assert f"wait {UNKNOWN}, {TOO_FEW}" in "".join(figure.data[0].hovertext)


def test_a_series_page_shows_quantiles_over_time() -> None:
    frames = {f"2026-0{i}": released("paid", "day", "wait", rows=True) for i in (1, 2)}
    stretch = Stretch(releases={name: (f, f.dp.receipt) for name, f in frames.items()})
    page = series_page(stretch, "no change", title="Over time")
    assert "at least 4" in page
    assert "1970" not in page
    assert re.search(r">\d (Jan|Feb|Mar|Apr|May)", page) or "2026-0" in page


@pytest.mark.parametrize("name", ["paid", "day", "wait"])
def test_notices_say_what_is_unknown_and_what_lies_beyond(name: str) -> None:
    notices = [
        str(line)
        for line in released(name, epsilon=0.2).dp.receipt["card"]
        if "notice" in str(line)
    ]
    assert any("is unknown at 1 of 4 nodes" in said for said in notices)
    assert any("values: about" in said and "half as many" in said for said in notices)
    assert any("beyond a bound" in said for said in notices) == (name == "paid")


def test_the_card_says_what_a_rank_error_and_a_weight_are() -> None:
    with seeded_noise(3):
        frame = dp.rollup(
            SALES, ["shop"], MEASURES, epsilon=3.0, delta=1e-6, user="who", contribution="share"
        )
    card = "\n".join(map(str, frame.dp.receipt["card"]))
    assert re.search(r"\+-[\d.]+ points of rank among 1,000 values", card)
    assert "each user weighing 1 in total, divided evenly over their values" in card
    assert "10 s to 1 h 23 min 20 s" in card
    assert "cut" not in "\n".join(line for line in card.split("\n") if "paid" in line)
