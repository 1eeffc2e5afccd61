"""The page and the plot of a rollup: every measure, and areas only where they say something."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.measure_texts import digits_for_width, receipt_measures
from dpframe.errors import ParameterError
from dpframe.pages.report import report_page
from dpframe.testing import seeded_noise
from tests.unit.pages.test_report import HOSTILE, SALES, read

MEASURES: dict[str, Any] = {
    "orders": "count",
    "paid": dp.sum("who", lower=0, upper=1000, clipped=True),
    "change": dp.sum("who", lower=-1000, upper=1000),
    "typical": dp.mean("who", lower=0, upper=1000),
    "people": dp.distinct("who"),
}


def result(*names: str) -> pd.DataFrame:
    return named(["country", "city"], {name: MEASURES[name] for name in names or MEASURES})


def named(hierarchy: Any, measures: Any) -> pd.DataFrame:
    with seeded_noise(3):
        return dp.rollup(SALES, hierarchy, measures, epsilon=8.0, delta=1e-6)


def test_the_numbers_are_those_of_the_frame() -> None:
    frame = result()
    data = read(frame).data
    names = ["orders", "paid", "paid_clipped", "change", "typical", "people"]
    assert [measure["title"] for measure in data["measures"]] == names
    for place, name in enumerate(names):
        for end in ("", "_lower", "_upper"):
            assert data[f"m{place}{end}"] == frame[f"{name}{end}"].tolist()


def test_a_measure_may_have_any_name() -> None:
    for name in ("place", "mean", "label"):
        frame = named(["country"], {name: "count"})
        largest = frame.loc[frame["level"] == 1, name].max()
        text = report_page(frame, frame.dp.receipt)
        assert f"<td class='number'>{largest:,}<small>" in text


SHOPS = pd.DataFrame(
    {"shop": [f"shop {i}" for i in range(14) for _ in range(200 + i)], "paid": [5.0] * 2891}
)
PAID = {"orders": "count", "revenue": dp.sum("paid", lower=0, upper=9)}


@pytest.mark.parametrize("names", [["orders"], ["orders", "revenue"]])
def test_a_report_of_one_level_has_one_list(names: list[str]) -> None:
    """Law: each node has one row, with all its measures and intervals; the page needs no script."""
    asked = {name: PAID[name] for name in names}
    frame = SHOPS.dp.rollup(["shop"], asked, epsilon=8.0, delta=1e-6)
    text = report_page(frame, frame.dp.receipt)
    assert "<script" not in text
    for row in frame[frame["level"] == 1].to_dict("records"):
        assert text.count(f">{row['prefix']}</bdi></th>") == 1
        listed = text.split(f">{row['prefix']}</bdi></th>")[1].split("</tr>")[0]
        for name in names:
            assert f"{row[name]:,.0f}<small>{row[f'{name}_lower']:,.0f} to " in listed
    largest = frame["orders"].idxmax()
    assert report_page(frame, frame.dp.receipt, measure=names[-1]).count("class='bar'") == 14
    assert largest == 0


def test_many_nodes_of_one_level_have_the_largest_and_a_table() -> None:
    rows = pd.DataFrame({"item": [f"item {i}" for i in range(60) for _ in range(300)]})
    frame = rows.dp.hhh(["item"], epsilon=8.0, delta=1e-6)
    found = read(frame)
    assert "The ten largest of 60" in found.text
    assert found.data["prefix"] == frame["prefix"].tolist()
    assert "residual" not in found.data
    assert [a["data-by"] for _, a in found.tags if "data-by" in a] == [
        *("prefix", "count", "lower", "upper")
    ]
    assert sum(a.get("class") == "bar" for _, a in found.tags) == 10


def test_different_users_are_listed_once_and_have_no_residual() -> None:
    """Law: bars of a level with up to forty nodes are all of it; the table has every level."""
    rows = SHOPS.assign(who=range(len(SHOPS)), kind="food")
    frame = rows.dp.hhh(["shop", "kind"], user="who", epsilon=8.0, delta=1e-6)
    found = read(frame)
    assert sum(a.get("class") == "bar" for _, a in found.tags) == 14
    assert "The ten largest" not in found.text
    assert "residual" not in found.data
    assert found.data["count"] == frame["count"].tolist()


def test_figures_are_totals_with_thousands() -> None:
    found = read(result())
    for said in ("orders", "paid", "Nodes", "Threshold", "Epsilon"):
        assert said in found.text
    total = int(result()["orders"][0])
    assert f"{total:,}" in found.text
    assert "Rollup of country, city" in found.text


DRAWN = [
    *((("orders", "paid"), "orders"), (("change", "paid", "orders"), "paid")),
    *((("typical", "people"), None), (("change",), None)),
]


@pytest.mark.parametrize(("names", "drawn"), DRAWN)
def test_widths_show_only_what_parts_are_of_a_whole(names: tuple[str, ...], drawn: Any) -> None:
    """Law: no mean, no number of different values and no sum of both signs is drawn to scale."""
    frame = result(*names)
    found = read(frame)
    data = found.data
    shown = next((m["title"] for m in data["measures"] if m["key"] == data["drawn"]), None)
    assert shown == drawn
    (plot,) = [attributes for _, attributes in found.tags if attributes.get("id") == "plot"]
    assert ("hidden" in plot) == (drawn is None)
    pytest.importorskip("plotly")
    if drawn is None:
        with pytest.raises(ParameterError, match="no measure of this rollup has parts of a whole"):
            frame.dp.plot(kind="icicle")
        return
    (trace,) = frame.dp.plot(kind="icicle").data
    assert trace.values[0] == pytest.approx(data["area"][0])
    assert drawn in trace.hovertext[0]


def test_a_plot_of_another_measure_or_none() -> None:
    frame = result()
    pytest.importorskip("plotly")
    (trace,) = frame.dp.plot(measure="paid", kind="treemap").data
    assert max(trace.values) >= frame["paid"].max()
    with pytest.raises(ParameterError, match="measure 'typical'"):
        frame.dp.plot(measure="typical", kind="treemap")
    with pytest.raises(ParameterError, match=r"measure .'payd'.*must be one of"):
        frame.dp.plot(measure="payd")
    with seeded_noise(3):
        counted = dp.hhh(SALES, ["country"], epsilon=1.0, delta=1e-6)
    with pytest.raises(ParameterError, match=r"measure .*only for rollups"):
        counted.dp.plot(measure="count")


def test_names_of_measures_are_text_and_never_markup() -> None:
    plain, *frames = (named(["country", "city"], {name: "count"}) for name in ("a", *HOSTILE))
    tags = [tag for tag, _ in read(plain).tags]
    for name, frame in zip(HOSTILE, frames, strict=True):
        found = read(frame)
        assert [tag for tag, _ in found.tags] == tags
        assert [measure["title"] for measure in found.data["measures"]] == [name]


def test_an_extract_is_a_page_and_a_changed_frame_is_none() -> None:
    frame = result()
    assert "extract of the release: 3 of" in read(frame.head(3)).text
    with pytest.raises(ParameterError, match="not the release"):
        read(frame.assign(paid=0.0))
    assert read(frame.iloc[:0]).data["m0"] == []


def test_measures_of_a_receipt() -> None:
    """Law: what is signed is what its bounds let be; a receipt of counts has none."""
    shown = {m.name: m for m in receipt_measures(result().dp.receipt)}
    assert [m.name for m in shown.values() if m.has_areas] == ["orders", "paid", "paid_clipped"]
    assert [m.name for m in shown.values() if m.signed] == ["change"]
    assert [m.name for m in shown.values() if not m.adds_up] == ["typical", "people"]
    with seeded_noise(3):
        assert receipt_measures(dp.hhh(SALES, ["city"], epsilon=1.0, delta=1e-6).dp.receipt) == []


@pytest.mark.parametrize(
    ("half", "places"), [(1234.0, 0), (12.0, 0), (1.2, 1), (0.12, 2), (1e-9, 10), (0.0, 0)]
)
def test_values_are_shown_as_fine_as_their_interval(half: float, places: int) -> None:
    assert digits_for_width(half) == places
