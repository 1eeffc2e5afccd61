"""The page of a series, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.common.digest import RECEIPT
from dpframe.pages.series_page import (
    PERIODS,
    Stretch,
    series_page,
    shown_stretch,
    write_series_page,
)
from tests.integration.test_report_in_browser import (
    CONTRASTS,
    HOSTILE,
    SCRIPTS,
    Page,
    _screen,
    chromium,
    page,
)
from tests.integration.test_report_layout_in_browser import wrong_in

pytestmark = pytest.mark.engines

__all__ = ["chromium", "page"]

GAP = "2026-W42"
Releases = dict[str, tuple[pd.DataFrame, Receipt] | None]


def releases(labels: list[str], weeks: int = 8) -> Releases:
    """One release a week, one of which is missing; the last label comes late and is missed once."""
    out: Releases = {}
    for week in range(40, 40 + weeks):
        shown = labels if week > 41 and week != 44 else labels[:-1]
        rows = [label for i, label in enumerate(shown) for _ in range(300 + 40 * i + 9 * week)]
        frame = dp.tree_counts(
            pd.DataFrame({"label": rows}), ["label"], epsilon=2.0, keys=shown, consistent=False
        )
        made = (frame, Receipt(frame.attrs[RECEIPT]))
        out[f"2026-W{week}"] = None if f"2026-W{week}" == GAP else made
    return out


def stretch_of(made: Releases) -> Stretch:
    return shown_stretch(list(made), lambda period: made[period])


def opened(page: Page, labels: list[str], width: int, dark: bool = False) -> None:
    made = releases(labels)
    last = [frame for frame, _ in filter(None, made.values())][-2:]
    file = page.folder / "series.html"
    write_series_page(stretch_of(made), dp.change(*last), file, title=labels[0])
    page.command("Emulation.setDeviceMetricsOverride", **_screen(width))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.command("Emulation.setEmulatedMedia", features=[scheme])
    page.driver.get("about:blank")
    page.logs()
    page.driver.get(file.as_uri())


DRAWN = "[...document.querySelectorAll('svg.lines')].filter(e => e.getClientRects().length)"

OUTSIDE = (
    f"{DRAWN}.flatMap(s => [...s.querySelectorAll('text')]).filter(e => {{"
    "const t = e.getBoundingClientRect(), s = e.ownerSVGElement.getBoundingClientRect();"
    "return t.left < s.left - 1 || t.right > s.right + 1}).map(e => e.textContent)"
)


@pytest.mark.parametrize("width", [390, 1280])
def test_lines_are_drawn_and_fit(page: Page, width: int) -> None:
    """A total and a drawing a node, side by side where there is room; every letter in its box."""
    opened(page, [*SCRIPTS, "x" * 500], width)
    assert page.fits()
    boxes = page.js(f"{DRAWN}.map(e => e.getBoundingClientRect().toJSON())")
    assert len(boxes) == 1 + len(SCRIPTS) + 2  # the total, and <invalid>
    assert min(box["height"] for box in boxes) > 90
    assert len({round(box["x"]) for box in boxes}) == (3 if width > 1000 else 1)
    assert page.js(OUTSIDE) == []
    over = page.js(
        f"{DRAWN}.flatMap(s => {{const t = [...s.querySelectorAll('text[text-anchor=middle], "
        "text[y]')].filter(e => e.textContent.startsWith('2026')).map(e => "
        "e.getBoundingClientRect()); return t.slice(1).filter((b, i) => b.left < t[i].right)})"
    )
    assert over == []


def test_gaps_break_the_line_and_are_seen(page: Page) -> None:
    """A period that was not drawn is hatched; before a node is reported there is no line."""
    opened(page, ["a", "b", "late"], 1280)
    titles = page.js(f"[...{DRAWN}[0].querySelectorAll('title')].map(e => e.textContent)")
    assert [title for title in titles if "not drawn" in title] == [f"{GAP}: not drawn"]
    assert page.js(f"{DRAWN}.every(e => e.querySelectorAll('[fill*=hatch]').length == 1)")
    assert page.js(f"{DRAWN}[0].querySelectorAll('.line').length") == 2
    labels = page.js(f"{DRAWN}.map(e => e.getAttribute('aria-label'))")
    late = next(i for i, label in enumerate(labels) if label.startswith("late"))
    told = page.js(f"[...{DRAWN}[{late}].querySelectorAll('title')].map(e => e.textContent)")
    assert [t.split(": ")[1] for t in told if "not" in t] == [
        *("not reported", "not reported", "not drawn", "not reported")
    ]
    assert page.js("getComputedStyle(document.querySelector('.hatch')).stroke") != "none"


def test_hostile_labels_stay_text(page: Page) -> None:
    opened(page, HOSTILE, 1280)
    assert page.js("window.hit === undefined")
    assert page.js("document.querySelectorAll('script, img, iframe, object, b').length") == 0
    heads = page.js("[...document.querySelectorAll('h3, .changes th')].map(e => e.textContent)")
    for label in HOSTILE:
        assert any(" ".join(label.split()) == " ".join(head.split()) for head in heads)


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_in_light_and_dark(page: Page, dark: bool) -> None:
    """At least 4.5 to 1 for text."""
    opened(page, ["a", "b", "c"], 1280, dark)
    chosen = (
        "['h1', '.guarantee summary', '.figures small', '.legend', 'h3', '.nodes figcaption span', "
        "'.changes th', '.changes td', '.changes small', '.card th', '.promise li']"
    )
    head, tail = CONTRASTS.split("const chosen = ")
    script = f"{head}const chosen = {chosen};{tail.split('];', 1)[1]}"
    measured = page.driver.execute_script(script)
    assert {name: ratio for name, ratio in measured if ratio < 4.5} == {}


def test_a_page_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dp.ParameterError, match="no period of the series is drawn"):
        series_page(stretch_of({"2026-W40": None}), "", title="x")


def test_old_releases_are_on_a_page_long_after() -> None:
    """Law: periods that nothing was drawn of do not push the last release off the page."""
    made = next(iter(releases(["a", "b"], 1).values()))
    for empty in (PERIODS - 1, PERIODS, 700):
        stretch = stretch_of({"p": made} | {f"later {i}": None for i in range(empty)})
        assert stretch.releases["p"] == made
        assert len(stretch.releases) == (1 if empty >= PERIODS else 1 + empty)


def test_one_period_and_many_are_drawn() -> None:
    """A single period has a dot and its interval; of many only the last 120 are shown."""
    made = next(iter(releases(["a", "b"], 1).values()))
    one = series_page(stretch_of({"2026-W40": made}), "One period.", title="x")
    assert "One period." in one
    assert one.count("class='dot'") == 4
    assert one.count("class='whisker'") == 4
    many = series_page(stretch_of({f"2026-01-01T{i}": made for i in range(300)}), "", title="x")
    assert "2026-01-01T299" in many
    assert "2026-01-01T179:" not in many
    assert "class='dot'" not in many


def measured(weeks: int) -> Releases:
    out: Releases = {}
    for week in range(40, 40 + weeks):
        rows = pd.DataFrame(
            {
                "label": ["groceries"] * (500 + 30 * week) + ["a long name of a department"] * 400,
                "paid": [7.5 + week % 5] * (900 + 30 * week),
            }
        )
        measures = {
            "orders": "count",
            "revenue": dp.sum("paid", lower=0, upper=20),
            "basket": dp.mean("paid", lower=0, upper=20),
        }
        frame = rows.dp.rollup(["label"], measures, epsilon=3.0, delta=1e-6)
        out[f"2026-W{week}"] = (frame, Receipt(frame.attrs[RECEIPT]))
    return out


def spent(most: float) -> Releases:
    """Three weeks of amounts up to ``most``, gains and losses."""
    rows = pd.DataFrame({"shop": ["north", "south"] * 300, "spent": [most, -most / 7] * 300})
    asked = {"spent": dp.sum("spent", lower=-most, upper=most)}
    made = [rows[: 200 * i].dp.rollup(["shop"], asked, epsilon=8.0, delta=1e-6) for i in (1, 2, 3)]
    return {f"2026-W4{i}": (one, Receipt(one.attrs[RECEIPT])) for i, one in enumerate(made)}


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_labels_of_an_axis_are_whole_however_large_its_numbers(page: Page, width: int) -> None:
    """Law: no number beside an axis is cut; number and change stand first, above the fold."""
    page.command("Emulation.setDeviceMetricsOverride", **_screen(width))
    for power in range(0, 13, 2):
        file = page.folder / f"{power}.html"
        write_series_page(Stretch(releases=spent(8.0 * 10**power)), "", file, title="Spent")
        page.driver.get(file.as_uri())
        assert page.js(f"{DRAWN}.length") == 3
        assert page.js(OUTSIDE) == []
        assert page.fits()


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_page_of_a_change_fits(page: Page, width: int) -> None:
    """Law: no label is cut or over another; on a phone the change stands beside its name."""
    first, last = (
        pd.DataFrame({"label": [*SCRIPTS, *HOSTILE, "x" * 300] * n}).dp.tree_counts(
            ["label"], epsilon=2.0, keys=[*SCRIPTS, *HOSTILE, "x" * 300]
        )
        for n in (200, 260)
    )
    dp.change(first, last).dp.report(page.folder / "change.html")
    page.command("Emulation.setDeviceMetricsOverride", **_screen(width))
    page.driver.get((page.folder / "change.html").as_uri())
    assert wrong_in(page) == []
    assert page.js("document.querySelectorAll('.bars.changes tbody tr').length") == 18
    assert page.js("window.hit === undefined")
    beside = "document.querySelectorAll('.bars tbody tr')[1].children"
    tops = page.js(f"[0, 2].map(i => {beside}[i].getBoundingClientRect().top)")
    assert abs(tops[0] - tops[1]) < 2


def test_number_and_change_stand_first_and_the_guarantee_unfolds_from_a_line(page: Page) -> None:
    opened(page, ["bread", "milk"], 390)
    names = page.js("[...document.querySelectorAll('dt')].map(e => e.textContent)")
    assert names[0].endswith("2026-W47")
    assert names[1:] == ["Change", "Periods"]
    top = "document.querySelector(arguments[0]).getBoundingClientRect().top"
    assert page.js(top, ".figures") < page.js(top, ".guarantee") < 450
    assert page.js("document.querySelector('summary').getClientRects()[0].height") < 30
    whole = "differential privacy for adding or removing one record"
    assert whole not in page.text("header")
    page.command("Emulation.setEmulatedMedia", media="print")
    paper = "document.querySelector('.guarantee p').checkVisibility()"
    assert page.js(paper)  # on paper it is unfolded
    page.command("Emulation.setEmulatedMedia", media="screen")
    assert not page.js(paper)
    page.click("summary")
    assert whole in page.text("header")


@pytest.mark.parametrize("width", [390, 1280])
def test_every_measure_of_a_rollup_has_its_lines_and_changes(page: Page, width: int) -> None:
    """Law: each measure has its total, changes and nodes, in its own numbers, and a link to it."""
    made = measured(4)
    last = [frame for frame, _ in filter(None, made.values())][-2:]
    names = ("orders", "revenue", "basket")
    changes = {name: dp.change(*last, measure=name) for name in names}
    file = page.folder / "measures.html"
    write_series_page(stretch_of(made), changes, file, title="Shops")
    page.command("Emulation.setDeviceMetricsOverride", **_screen(width))
    page.driver.get(file.as_uri())
    assert page.fits()
    assert page.js("[...document.querySelectorAll('.links a')].map(e => e.textContent)") == [*names]
    targets = page.js(
        "[...document.querySelectorAll('.links a')].map(e => "
        "document.querySelector(e.getAttribute('href'))?.textContent.trim())"
    )
    assert targets == [f"{name} over time" for name in names]
    assert page.js(f"{DRAWN}.length") == 3 * 3
    assert page.js("document.querySelectorAll('.changes').length") == 3
    ids = page.js("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert (
        page.js(
            "[...document.querySelectorAll('[aria-labelledby], [aria-describedby]')].filter("
            "e => ![e.getAttribute('aria-labelledby'), e.getAttribute('aria-describedby')]"
            ".filter(Boolean).every(id => document.getElementById(id))).map(e => e.outerHTML)"
        )
        == []
    )
    whole = page.js("document.querySelector('main, body').innerText")
    frame = last[-1]
    basket = frame.loc[frame["level"] == 0, "basket"].item()
    assert f"{basket:.2f}".rstrip("0")[:4] in whole
