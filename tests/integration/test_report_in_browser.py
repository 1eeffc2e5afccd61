"""The page in a real browser: headless Chromium, driven by selenium."""

from __future__ import annotations

import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.pages.report import write_report
from tests.members import in_turn

pytestmark = pytest.mark.engines

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
HOSTILE = [
    *("<script>window.hit = 1</script>", "</script><script>window.hit = 2</script>"),
    *('"><img src=x onerror="window.hit = 3">', "<svg onload='window.hit = 4'>"),
    *("javascript:window.hit=5", "<!--<script>", "&lt;b&gt;&amp;"),
    "${window.hit = 6} {{7*7}} $title",
]
SCRIPTS = ["أوروبا", "中华人民共和国", "महाराष्ट्र", "👩‍👩‍👧‍👦 🏳️‍🌈", "עברית 42", "\u202egnp.exe", "é́́́́"]


# -- pages ---------------------------------------------------------------------------------------


def receipt_for(hierarchy: Any = "path:p", **arguments: Any) -> Receipt:
    names = hierarchy if isinstance(hierarchy, list) else ["p"]
    empty = pd.DataFrame({name: pd.Series([], dtype=object) for name in names})
    return dp.hhh(empty, hierarchy, epsilon=1.0, delta=1e-6, **arguments).dp.receipt


def frame_of(counts: dict[str, int], separator: str = "/") -> pd.DataFrame:
    labels = list(counts)
    level = [0 if label == "*" else label.count(separator) + 1 for label in labels]
    frame = pd.DataFrame({"level": level, "prefix": labels, "count": counts.values()})
    return frame.assign(
        residual=frame["count"] // 2, lower=frame["count"] - 9, upper=frame["count"] + 9
    )


def many(n: int) -> pd.DataFrame:
    """A total and n - 1 nodes on four levels, some with counts below zero, some parents missing."""
    rng = np.random.default_rng(n)
    depth = rng.integers(1, 5, 8 * n)
    parts = rng.zipf(1.5, (8 * n, 4)) % 97
    labels = ["/".join(f"n{p}" for p in row[:d]) for row, d in zip(parts, depth, strict=True)]
    chosen = list(dict.fromkeys(labels))[: n - 1]
    chosen += [f"m{i}" for i in range(n - 1 - len(chosen))]
    sizes = (1e5 * rng.pareto(1.1, n - 1)).astype(int) // 100 - 5
    return frame_of({"*": int(sizes.sum()), **dict(zip(chosen, sizes.tolist(), strict=True))})


SMALL = {
    "*": 1000,
    "a": 600,
    "a/x": 350,
    "a/x/deep": 90,
    "a/y": 200,
    "b": 300,
    "b/p/q/r": 120,
    "c": 70,
    "c/none": -6,
    "d10": 10,
    "d9": 9,
    "E": 8,
}


# -- the browser ---------------------------------------------------------------------------------


def _start() -> Any:
    browser = shutil.which("chromium") or shutil.which("google-chrome") or "/usr/bin/chromium"
    driver = shutil.which("chromedriver") or "/usr/bin/chromedriver"
    missing = [path for path in (browser, driver) if not Path(path).exists()]
    try:
        from selenium import webdriver
    except ImportError:
        missing.append("the package selenium")
    if missing:
        reason = f"no browser to test the report in: {' and '.join(missing)} not found"
        if os.environ.get("DPFRAME_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(f"{reason}; apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    driver = _start()
    yield driver
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # sockets of the driver's own process
        driver.quit()


class Page:
    """A report in the browser. Every page must be closed without an error or a request."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def open(
        self,
        frame: pd.DataFrame,
        receipt: Receipt | None = None,
        *,
        width: int = 1280,
        dark: bool = False,
        address: str = "",
        kind: Any = None,
    ) -> Page:
        file = self.folder / "report.html"
        write_report(frame, receipt or receipt_for(), file, kind=kind)
        self.command("Emulation.setDeviceMetricsOverride", **_screen(width))
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.command("Emulation.setEmulatedMedia", features=[scheme, still])
        self.driver.get("about:blank")
        self.logs()
        self.driver.get(f"{file.as_uri()}{address}")
        return self

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def js(self, expression: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {expression}", *arguments)

    def logs(self) -> tuple[list[str], list[str]]:
        """What the console said, and every address that was asked for."""
        said = [line["message"] for line in self.driver.get_log("browser")]
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        asked = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return said, [params["request"]["url"] for params in asked]

    def keys(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains, Keys

        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key, key)).perform()

    def click(self, selector: str, at: int = 0) -> None:
        self.driver.find_elements("css selector", selector)[at].click()

    def cell(self, label: str) -> Any:
        """The block of a node, by what it says to screen readers; None if it is not drawn."""
        return self.js(
            "[...document.querySelectorAll('.cell')].find("
            "e => e.getAttribute('aria-label').startsWith(arguments[0] + ','))",
            label,
        )

    @property
    def cells(self) -> list[str]:
        return self.js("[...document.querySelectorAll('.cell')].map(e => e.ariaLabel)")

    @property
    def names(self) -> list[str]:
        return self.js("[...document.querySelectorAll('#table tbody th')].map(e => e.textContent)")

    def column(self, name: str) -> list[int]:
        texts = self.js(
            "[...document.querySelectorAll(arguments[0])].map(e => e.textContent)",
            f"#table tbody .{name}",
        )
        return [int(text.replace(",", "").split()[-1]) for text in texts]

    def text(self, selector: str) -> str:
        return self.js("document.querySelector(arguments[0]).innerText", selector)

    def filter(self, text: str) -> None:
        box = self.driver.find_element("id", "filter")
        box.clear()
        box.send_keys(text)

    @property
    def trail(self) -> list[str]:
        return self.js("[...document.querySelectorAll('#trail li')].map(e => e.textContent)")

    def fits(self) -> bool:
        return self.js("document.documentElement.scrollWidth <= innerWidth")


def _screen(width: int) -> dict[str, Any]:
    phone = width < 600
    return {"width": width, "height": 900, "deviceScaleFactor": 1 + phone, "mobile": phone}


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Iterator[Page]:
    page = Page(chromium, tmp_path)
    yield page
    said, asked = page.logs()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
    assert page.js("performance.getEntriesByType('resource').length") == 0


# -- drawing and table ---------------------------------------------------------------------------


@in_turn(("width", [390, 1280]), ("n", [10, 1_000, 10_000]))
def test_pages_of_every_size_are_drawn(page: Page, n: int, width: int) -> None:
    """A total as wide as the page, no more blocks than can be seen, fifty rows, no overflow."""
    page.open(many(n), width=width)
    assert page.fits()
    assert 2 <= len(page.cells) <= 2_000
    assert len(page.names) == min(n, 50)
    assert page.text("#tally") == f"{n:,} rows"
    assert page.cell("Everything").size["width"] > 0.75 * width


def test_blocks_lie_inside_their_parents(page: Page) -> None:
    """One row a level, widths as counts, missing levels left open, the nearest one as parent."""
    page.open(frame_of(SMALL))
    boxes = {name: page.cell(name).rect for name in ("Everything", "a", "a/x", "b", "b/p/q/r")}
    for child, parent in (("a", "Everything"), ("a/x", "a"), ("b/p/q/r", "b")):
        inner, outer = boxes[child], boxes[parent]
        assert outer["x"] - 1 <= inner["x"]
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1
        assert inner["y"] > outer["y"]
    assert boxes["a"]["width"] == pytest.approx(2 * boxes["b"]["width"], rel=0.02)
    assert boxes["b/p/q/r"]["y"] - boxes["b"]["y"] == pytest.approx(
        3 * boxes["b"]["height"], rel=0.02
    )


def test_columns_are_sorted_as_numbers_and_as_text(page: Page) -> None:
    """A second click turns the order; d9 comes before d10, and -6 before 8."""
    page.open(frame_of(SMALL))
    sorts = (
        "[...document.querySelectorAll('#table th[aria-sort]')]"
        ".map(e => [e.innerText.trim(), e.ariaSort])"
    )
    assert page.js(sorts) == [["Count", "descending"]]
    assert page.column("count") == sorted(SMALL.values(), reverse=True)
    page.click("#table thead button", 2)
    assert page.column("count") == sorted(SMALL.values())
    assert page.js(sorts) == [["Count", "ascending"]]
    page.click("#table thead button", 0)
    labels = ["Everything", "a", "a/x", "a/x/deep", "a/y", "b", "b/p/q/r", "c", "c/none"]
    assert page.names == [*labels, "d9", "d10", "E"]
    assert page.js(sorts) == [["Node", "ascending"]]
    page.keys("ENTER")  # the header keeps the focus
    assert page.names == [*labels, "d9", "d10", "E"][::-1]
    page.click("#table thead button", 1)
    assert page.column("level") == [0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 4]
    for at, name in enumerate(("lower", "upper", "residual"), 3):
        page.click("#table thead button", at)
        assert page.column(name) == sorted(page.column(name), reverse=True)


def test_all_rows_are_filtered_and_sorted(page: Page) -> None:
    """Ten thousand rows: what is shown is a page of what pandas finds."""
    frame = many(10_000)
    page.open(frame)
    page.filter("N7/")
    found = frame[frame["prefix"].str.contains("n7/", regex=False)]
    assert page.text("#tally") == f"{len(found):,} of 10,000 rows"
    assert page.column("count") == found["count"].nlargest(50).tolist()
    page.js(
        "document.getElementById('level').value = '3', "
        "document.getElementById('level').dispatchEvent(new Event('change'))"
    )
    found = found[found["level"] == 3]
    assert page.column("count") == found["count"].nlargest(50).tolist()
    page.filter("no such node")
    assert page.names == []
    assert page.text("#tally").startswith("0 of 10,000 rows")
    page.click("#everything")
    assert page.text("#tally") == "10,000 rows"
    assert page.js("document.getElementById('filter').value") == ""


def test_pages_of_the_table_are_turned(page: Page) -> None:
    """First, previous, next and last; the ends are disabled."""
    frame = many(10_000)
    page.open(frame)
    counts = frame["count"].sort_values(ascending=False, kind="stable").tolist()
    enabled = "[...document.querySelectorAll('#pager button')].map(e => !e.disabled)"
    assert page.js(enabled) == [False, False, True, True]
    page.click("[data-go=next]")
    assert page.column("count") == counts[50:100]
    page.click("[data-go=last]")
    assert page.column("count") == counts[-50:]
    assert page.js(enabled) == [True, True, False, False]
    assert page.text("#where") == "9,951 to 10,000 of 10,000"
    page.click("[data-go=previous]")
    page.click("[data-go=first]")
    assert page.column("count") == counts[:50]


# -- zoom ----------------------------------------------------------------------------------------


def test_a_click_zooms_in_and_the_way_back_is_open(page: Page) -> None:
    """By the breadcrumb, by a block above, by the browser's back button; the table follows."""
    page.open(frame_of(SMALL))
    whole = page.cell("Everything").size["width"]
    page.cell("a").click()
    assert page.trail == ["Everything", "a"]
    assert page.cell("a").size["width"] == whole
    assert page.cell("b") is None
    assert sorted(page.names) == ["a", "a/x", "a/x/deep", "a/y"]
    assert page.text("#tally") == "4 of 12 rows, within a"
    page.cell("a/x").click()
    assert page.trail == ["Everything", "a", "x"]
    page.click("#trail button", 1)
    assert page.trail == ["Everything", "a"]
    page.cell("Everything").click()
    assert page.trail == ["Everything"]
    assert len(page.names) == 12
    page.driver.back()
    assert page.trail == ["Everything", "a"]
    page.driver.back()
    page.driver.back()
    assert page.trail == ["Everything", "a"]
    page.click("#everything")
    assert page.trail == ["Everything"]


def test_an_address_opens_a_view(page: Page) -> None:
    page.open(frame_of(SMALL), address="#n=5")
    assert page.trail == ["Everything", "b"]
    for bad in (
        *("#n=99", "#n=-1", "#n=1:5-2", "#n=1:0-99", "#n=1e1", "#<img src=x>"),
        "#n=" + "9" * 40,
    ):
        page.open(frame_of(SMALL), address=bad)
        assert page.trail == ["Everything"], bad


def test_small_nodes_are_drawn_together_and_open(page: Page) -> None:
    sizes = {"*": 10_000, "big": 9_000, **{f"s{i}": 1 for i in range(1000)}}
    page.open(frame_of(sizes))
    rest = page.driver.find_element("css selector", ".cell.rest")
    assert rest.text == "+1,000"
    rest.click()
    assert page.trail == ["Everything", "1,000 smaller nodes"]
    assert page.text("#tally") == "1,000 of 1,002 rows, within 1,000 smaller nodes of Everything"
    assert "Counts together\n13" in page.text("#readout")  # the block now under the pointer
    assert 50 < len(page.cells) < 100  # a pixel each is still too narrow: a dozen a block
    page.click(".cell.rest", 3)
    assert page.trail[1].endswith("smaller nodes")
    assert len(page.names) == len(page.cells) - 1 < 20
    page.click("#trail button")
    assert page.trail == ["Everything"]


def test_blocks_that_are_drawn_together_can_be_hit(page: Page) -> None:
    """However small, also on a phone, even if no count in them is above zero."""
    page.open(frame_of({"*": 10**6, "a": 500_000, "b": 1, "c": -7, "a/x": -1, "a/y": 0}), width=390)
    hit = page.js(
        "[...document.querySelectorAll('.cell.rest')].map(e => [e.innerText, e.offsetWidth])"
    )
    assert [text for text, _ in hit] == ["+2", "+1"]
    assert min(width for _, width in hit) >= 24
    page.click(".cell.rest", 0)
    assert page.trail[0] == "Everything"
    assert page.trail[-1] == "2 smaller nodes"
    assert len(page.names) == 2


def test_a_name_in_the_table_finds_its_block(page: Page) -> None:
    """A leaf is chosen in the drawing, however small; a node with others below is opened."""
    counts = {"*": 10**6, "a": 10**6, "a/leaf": 3, "a/none": -3, "b": 2, "b/under": 1, "z": -5}
    page.open(frame_of(counts))
    page.filter("a/leaf")
    page.click("#table tbody button", 0)
    assert page.trail == ["Everything"]
    assert page.cell("a/leaf").get_attribute("aria-selected") == "true"
    assert page.text("#readout").startswith("a/leaf")
    page.filter("")
    for leaf, view in (("a/none", ["Everything", "a", "none"]), ("z", ["Everything", "z"])):
        page.filter(leaf)
        page.click("#table tbody button", page.names.index(leaf))
        assert page.trail == view
        assert page.text("#readout").startswith(leaf)
        assert page.names == [leaf]
        page.click("#everything")
    page.filter("b")
    page.click("#table tbody button", page.names.index("b"))
    assert page.trail == ["Everything", "b"]


def test_dates_and_numbers_keep_their_order(page: Page) -> None:
    """Blocks of dates run in time, intervals by their lower end, not by size."""
    days = [f"2013-01-{d:02}" for d in range(1, 29)]
    counts = dict(zip(["*", *days], [1414, *range(64, 36, -1)], strict=True))
    page.open(frame_of(counts, separator="\0"), receipt_for("date:p?levels=day"))
    assert [c.split(",")[0] for c in page.cells][1:] == days
    ends = ["[-100, -50)", "[-50, 0)", "[0, 50)", "[50, 100]"]
    counts = {"*": 100, **dict(zip(ends, [10, 20, 40, 30], strict=True))}
    frame = frame_of(counts, "\0").assign(level=[0, 2, 2, 2, 2])
    page.open(frame, receipt_for("number:p?lower=-100&upper=100&depth=2"))
    page.click("#table thead button")
    assert page.names == ["Everything", *ends]


def test_tree_counts_are_drawn_with_what_no_row_covers(page: Page) -> None:
    """``<other>`` rows lie in the node whose label they carry, and counts fill their parents."""
    source = pd.DataFrame({"p": ["a/b"] * 3000 + ["a/c"] * 2000 + ["d"] * 900 + ["<other>"] * 600})
    frame = dp.tree_counts(source, "path:p?depth=2", epsilon=1.0, keys=["a/b", "<other>", "e/f"])
    page.open(frame, frame.dp.receipt)
    assert page.text("h1") == "Counts of p"
    assert "not negative" in page.js("document.querySelector('.promise').textContent")
    boxes = {name: page.cell(name).rect for name in ("a", "a/b", "a/<other>", "Everything")}
    for child in ("a/b", "a/<other>"):
        assert boxes["a"]["x"] - 1 <= boxes[child]["x"]
        ends = boxes[child]["x"] + boxes[child]["width"]
        assert ends <= boxes["a"]["x"] + boxes["a"]["width"] + 1
    inside = boxes["a/b"]["width"] + boxes["a/<other>"]["width"]
    assert inside == pytest.approx(boxes["a"]["width"], rel=0.02)
    assert page.names.count("<other>") == 2
    page.cell("a").click()
    assert page.trail == ["Everything", "a"]
    assert sorted(page.names) == ["a", "a/<other>", "a/b"]
    page.cell("a/<other>").click()
    assert page.text("#readout").startswith("a/<other>")
    page.click("#everything")
    page.filter("<other>")
    assert sorted(page.names) == ["<other>", "<other>", "a/<other>", "e/<other>"]
    assert page.fits()


@pytest.mark.parametrize("consistent", [True, False])
def test_tree_counts_of_intervals_and_networks_keep_their_order(
    page: Page, consistent: bool
) -> None:
    """Kinds whose ``<other>`` rows have labels of their own; nothing is said on the console."""
    x = {"x": [1.0] * 300 + [7.0] * 200 + [None] * 100}
    number = dp.tree_counts(
        pd.DataFrame(x),
        "number:x?lower=0&upper=8&depth=2",
        epsilon=5.0,
        keys="domain",
        consistent=consistent,
    )
    page.open(number, number.dp.receipt)
    page.click("#table thead button")
    assert page.names[0] == "Everything"
    assert page.names.index("[0, 2)") < page.names.index("[6, 8]")
    assert "<other>" in page.names
    networks = pd.DataFrame({"x": ["10.1.2.3"] * 300 + ["2001:db8::1"] * 300})
    frame = dp.tree_counts(networks, "ip:x", epsilon=5.0, keys=["10.1.2.3"], consistent=consistent)
    page.open(frame, frame.dp.receipt)
    page.filter("10.1.0.0/16 <other>")
    assert page.names == ["10.1.0.0/16 <other>"]
    page.click("#table tbody button")
    assert page.text("#readout").startswith("10.1.0.0/16 <other>")


# -- bounds for everybody ------------------------------------------------------------------------

BOUNDS = ["Count\n350", "Interval, 95 %\n341 to 359", "Residual\n175", "Level\n2 (part 2)"]


def test_bounds_show_under_the_pointer(page: Page) -> None:
    from selenium.webdriver import ActionChains

    page.open(frame_of(SMALL))
    assert page.text("#readout").startswith("Everything")
    ActionChains(page.driver).move_to_element(page.cell("a/x")).perform()
    for bound in ("a/x", *BOUNDS, "Reported below\n1"):
        assert bound in page.text("#readout")
    ActionChains(page.driver).move_to_element(page.driver.find_element("tag name", "h1")).perform()
    assert page.text("#readout").startswith("Everything")


def test_bounds_show_on_touch(page: Page) -> None:
    """A tap shows a leaf's bounds; on a node with others below it also zooms."""
    page.open(frame_of(SMALL), width=390)
    page.command("Emulation.setTouchEmulationEnabled", enabled=True)
    for label in ("a/y", "a/x"):
        page.js(
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", page.cell(label)
        )
        middle = page.js(
            "(r => ({x: r.x + r.width / 2, y: r.y + r.height / 2}))"
            "(arguments[0].getBoundingClientRect())",
            page.cell(label),
        )
        page.command("Input.dispatchTouchEvent", type="touchStart", touchPoints=[middle])
        page.command("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        _until(lambda label=label: page.text("#readout").startswith(label))
    page.command("Emulation.setTouchEmulationEnabled", enabled=False)
    for bound in BOUNDS:
        assert bound in page.text("#readout")
    assert page.trail == ["Everything", "a", "x"]


def test_the_keyboard_reaches_everything(page: Page) -> None:
    """Tab to the drawing, arrows within it, Enter in, Escape out; focus shows bounds."""
    page.open(frame_of(SMALL))
    page.keys("TAB")
    assert page.js("document.activeElement.className") == "skip"
    page.keys("TAB")
    assert page.js("document.activeElement.localName") == "summary"  # the guarantee
    page.keys("TAB")
    focused = "document.activeElement.ariaLabel"
    assert page.js(focused).startswith("Everything,")
    page.keys("ARROW_DOWN", "ARROW_RIGHT")
    assert page.js(focused).startswith("b, part 1, count 300, from 291 to 309, residual 150")
    page.keys("ARROW_LEFT", "ARROW_DOWN")
    assert page.js(focused).startswith("a/x,")
    for bound in BOUNDS:
        assert bound in page.text("#readout")
    page.keys("ENTER")
    assert page.trail == ["Everything", "a", "x"]
    assert page.js(focused).startswith("a/x,")
    page.keys("ARROW_UP")
    assert page.js(focused).startswith("a,")
    page.keys("ESCAPE")
    assert page.trail == ["Everything", "a"]
    assert page.js(focused).startswith("a,")
    page.keys("HOME", "SPACE")
    assert page.trail == ["Everything"]
    assert (
        page.js("[...document.querySelectorAll('.cell')].filter(e => e.tabIndex === 0).length") == 1
    )
    page.keys("TAB")
    assert page.js("document.activeElement.id") == "filter"


def test_negative_counts_are_listed_without_area(page: Page) -> None:
    """Not drawn, in the table with its bounds, and the page says so."""
    page.open(frame_of(SMALL))
    assert page.cell("c/none") is None
    row = page.names.index("c/none")
    found = [page.column(name)[row] for name in ("count", "lower", "upper", "residual")]
    assert found == [-6, -15, 3, -3]
    assert "no width" in page.text("#hint")
    page.open(frame_of({"*": -4, "a": -2, "b": 5, "b/c": 9}))
    assert "count -4, from -13 to 5" in page.cells[0]
    inside, outside = page.cell("b/c").size["width"], page.cell("b").size["width"]
    assert inside == pytest.approx(outside, abs=1)


def test_without_a_total_nothing_is_made_up(page: Page) -> None:
    """The drawing has a stand-in for the root that shows no number and is no row."""
    frame = frame_of(SMALL).iloc[1:]
    page.open(frame, receipt_for(remainder=False))
    assert page.cells[0] == "All reported nodes, no total was released"
    assert "Everything" not in page.names
    assert page.text("#tally") == "11 rows"
    assert "1,0" not in page.text("#readout") + page.text(".figures")
    page.cell("a").click()
    page.click("#trail button")
    assert len(page.names) == 11


def test_an_empty_release_is_a_page(page: Page) -> None:
    page.open(frame_of(SMALL).iloc[:0], receipt_for(remainder=False))
    assert page.text("#tally") == "0 rows"
    assert page.cells == ["All reported nodes, no total was released"]


# -- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [390, 1280])
def test_hostile_labels_are_text(page: Page, width: int) -> None:
    """They are shown as they are, in the drawing, the table, the trail and the readout."""
    levels = ["a", '<img src=x onerror="window.hit = 9">']
    labels = [*HOSTILE, " / ".join(HOSTILE[:2])]
    frame = pd.DataFrame({"level": [1] * 8 + [2], "prefix": labels, "count": range(100, 91, -1)})
    frame[levels[0]] = [*HOSTILE, HOSTILE[0]]
    frame[levels[1]] = [None] * 8 + [HOSTILE[1]]
    frame = frame.assign(residual=1, lower=frame["count"], upper=frame["count"])
    page.open(frame, receipt_for(levels, remainder=False), width=width)
    assert page.names == labels
    page.cell(HOSTILE[0]).click()
    assert page.trail == ["All reported nodes", HOSTILE[0]]
    assert HOSTILE[0] in page.text("#readout")
    assert page.text("#tally").endswith(f"within {HOSTILE[0]}")
    page.filter("<script>")
    assert HOSTILE[0] in page.names
    assert page.js("window.hit === undefined")
    assert page.js("document.querySelectorAll('script').length") == 2
    assert page.js("document.querySelectorAll('img, iframe, object, b, [onload]').length") == 0
    assert page.js("[...document.querySelectorAll('svg')].every(e => e.closest('.bars'))")
    assert page.fits()


@pytest.mark.parametrize("width", [390, 1280])
def test_every_script_and_length_of_label_fits(page: Page, width: int) -> None:
    """Right-to-left text stays in its part of a label; endless words are cut, not the page."""
    endless = "x" * 5000
    labels = {f"{a}/{b}": 50 for a in SCRIPTS for b in SCRIPTS[:3]}
    page.open(frame_of({"*": 2000, **labels, endless: 90, f"{endless}/{endless}": 60}), width=width)
    assert page.fits()
    assert set(labels) < set(page.names)
    order = page.js(
        "(parts => parts.map(e => e.getBoundingClientRect().x))"
        "([...[...document.querySelectorAll('#table tbody th')]"
        ".find(e => e.textContent === arguments[0]).querySelectorAll('.label > *')])",
        f"{SCRIPTS[0]}/{SCRIPTS[0]}",
    )
    assert len(order) == 2
    assert order == sorted(order)
    page.filter("中华")
    assert page.names
    assert all("中华" in name for name in page.names)
    page.click("#everything")
    page.cell(endless).click()
    assert page.fits()
    assert page.js("document.getElementById('readout').offsetHeight") < 400


# -- looks ---------------------------------------------------------------------------------------

CONTRASTS = """
const pixel = (...layers) => {
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  for (const [colour, alpha] of layers) {
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
  }
  return context.getImageData(0, 0, 1, 1).data;
};
const luminance = ([...rgb]) => rgb.slice(0, 3)
  .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = element => {
  const above = element.parentElement ? behind(element.parentElement) : [['white', 1]];
  return [...above, [getComputedStyle(element).backgroundColor, 1]];
};
const contrast = element => {
  const style = getComputedStyle(element);
  const ground = luminance(pixel(...behind(element)));
  const ink = luminance(pixel(...behind(element), [style.color, Number(style.opacity)]));
  return (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
};
const chosen = ['h1', '.guarantee summary', '.figures small', '#rows span', '.cell .label',
  '.cell .amount',
  '.cell.rest .inner', '#readout dt', '#hint', '#tally', '#table thead button', '#table small',
  '#table td', '#trail button', '#trail [aria-current]', '.card th', '.card td:last-child',
  '.promise li', '#everything'];
return chosen.flatMap(selector => {
  const found = [...document.querySelectorAll(selector)];
  return found.length ? found.map(e => [selector, contrast(e)]) : [[selector, 0]];
});
"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_in_light_and_dark(page: Page, dark: bool) -> None:
    """At least 4.5 to 1 (WCAG 2.2, 1.4.3) for all text, on every colour of the drawing."""
    small = {f"a/x/{i}": 1 for i in range(40)}
    page.open(frame_of({**SMALL, **small, "<invalid>": 40}), address="#n=1", dark=dark)
    measured = page.driver.execute_script(CONTRASTS)
    assert {name: ratio for name, ratio in measured if ratio < 4.5} == {}
    ground = page.js("getComputedStyle(document.body).backgroundColor")
    assert (float(ground.removeprefix("oklch(").split()[0]) < 0.5) is dark


def test_a_resized_window_draws_anew(page: Page) -> None:
    page.open(many(1_000), width=390)
    before = len(page.cells)
    page.command("Emulation.setDeviceMetricsOverride", **_screen(1280))
    _until(lambda: len(page.cells) > before)


@pytest.mark.benchmark
@pytest.mark.parametrize("n", [10, 1_000, 10_000])
def test_time_to_draw(page: Page, n: int) -> None:
    """Prints milliseconds from opening the file to a drawn page."""
    page.open(many(n))
    size = (page.folder / "report.html").stat().st_size
    print(n, size, page.js("performance.getEntriesByType('navigation')[0].loadEventEnd"))


def _until(done: Callable[[], bool]) -> None:
    for _ in range(50):
        if done():
            return
        time.sleep(0.05)
    assert done()


@in_turn(("width", [390, 768, 1280]), ("drawn", [True, False]))
def test_rollups_show_every_measure(page: Page, width: int, drawn: bool) -> None:
    """Law: each measure with its interval, sorted by any; nothing is drawn to scale that is no part
    of a whole, and a name still opens what is below it."""
    rows = pd.DataFrame(
        {"p": ["a/x"] * 500 + ["a/y"] * 300 + ["b"] * 200, "v": np.arange(1000) % 7 - 2.25}
    )
    measures: dict[str, Any] = {"change": dp.sum("v", lower=-4, upper=4)}
    if drawn:
        measures = {"rows": "count", **measures, "typical": dp.mean("v", lower=-4, upper=4)}
    result = dp.rollup(rows, "path:p", measures, epsilon=50.0, delta=1e-6)
    page.open(result, result.dp.receipt, width=width)
    assert page.fits()
    assert len(page.names) == len(result)
    shown = page.js("[...document.querySelectorAll('#table tbody tr')][0].innerText")
    assert f"{result['rows'][0]:,}" in shown if drawn else "Everything" in shown
    assert page.js("document.getElementById('plot').hidden") is not drawn
    page.click("#table thead button", 2)
    page.click("#table thead button", 2)
    assert "".join(page.names).startswith("Everything")
    page.click("#table tbody th button", page.names.index("a"))
    assert page.names[0] == "a"
    assert len(page.names) == 3
    assert [text for text in ("Change", "to") if text not in page.text("#readout")] == []
