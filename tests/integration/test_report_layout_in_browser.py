"""No label of a page is cut, spilled or over another one, measured in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.integration.test_report_in_browser import (  # fixtures too
    HOSTILE,
    SCRIPTS,
    Page,
    chromium,
    frame_of,
    many,
    page,
    receipt_for,
)
from tests.members import in_turn

pytestmark = pytest.mark.engines

__all__ = ["chromium", "page"]

FOUND = """
// Every visible line of text: where it is, and the box that would cut it.
const lines = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const boxes = new Map();
const clip = (element) => {
  if (!element || element === document.body) return null;
  if (boxes.has(element)) return boxes.get(element);
  const style = getComputedStyle(element);
  let found;
  const scrolls = style.overflowX === 'auto' || style.overflowX === 'scroll';
  if (scrolls && element.scrollWidth > element.clientWidth + 1) found = 'scrolled';
  else if (style.overflowX === 'hidden') found = element;
  else found = clip(element.parentElement);
  boxes.set(element, found);
  return found;
};
while (walker.nextNode()) {
  const node = walker.currentNode;
  const parent = node.parentElement;
  if (!node.textContent.trim() || parent.closest('script, style, noscript, title, option, .skip'))
    continue;
  if (parent.closest('#trail')) continue; // one line that scrolls
  if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
  if (parseFloat(getComputedStyle(parent).fontSize) === 0) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const r of range.getClientRects()) {
    if (r.width < 1) continue;
    lines.push({ node, parent, text: node.textContent.trim().slice(0, 40), clip: clip(parent),
      l: r.left, r: r.right, t: r.top + r.height * 0.22, b: r.bottom - r.height * 0.22 });
  }
}
const wrong = [];
for (const line of lines) {
  if (line.clip === 'scrolled') continue;
  if (line.l < -1 || line.r > innerWidth + 1) wrong.push(['outside the page', line.text]);
  if (line.clip && line.parent.namespaceURI.endsWith('xhtml')) {
    const box = line.clip.getBoundingClientRect();
    const clamped = getComputedStyle(line.clip).webkitLineClamp !== 'none';
    const hangs = line.text.includes(' ') ? 6 : 1; // the space at the end of a line
    if (line.l < box.left - hangs || line.r > box.right + hangs)
      wrong.push(['cut', line.text, line.clip.className || line.clip.id || line.clip.tagName]);
    else if (!clamped && (line.t < box.top - 1 || line.b > box.bottom + 1))
      wrong.push(['cut', line.text]);
    line.gone = clamped && line.t > box.bottom;
  }
}
const shown = lines.filter((line) => !line.gone).sort((x, y) => x.t - y.t);
for (let i = 0; i < shown.length; i += 1) {
  for (let k = i + 1; k < shown.length && shown[k].t < shown[i].b; k += 1) {
    const [x, y] = [shown[i], shown[k]];
    if (x.node !== y.node && Math.min(x.r, y.r) - Math.max(x.l, y.l) > 1)
      wrong.push(['over another', `${x.text} | ${y.text}`]);
  }
}
return [lines.length, wrong.slice(0, 12)];
"""


def wrong_in(page: Page) -> list[list[str]]:
    """What is cut, spilled or over something else; of a page that has text."""
    lines, wrong = page.driver.execute_script(FOUND)
    assert lines > 20
    assert page.fits()
    return wrong


def skewed() -> pd.DataFrame:
    counts = {"*": 10_000, "GROCERY": 9_100}
    counts |= {f"GROCERY/BAKED BREAD, BUNS AND ROLLS {i}": 4_000 // i for i in range(1, 60)}
    counts |= {f"SMALL {i}": 90 // i for i in range(1, 30)}
    return frame_of(counts)


def odd() -> pd.DataFrame:
    """Long labels, labels without a space, from right to left, and hostile ones."""
    words = ["مرحبا بالعالم هذا نص طويل من اليمين إلى اليسار", "x" * 90, "a b " * 30, *SCRIPTS]
    labels = [*words, *(text.replace("/", "|") for text in HOSTILE)]
    counts = {label: 900 - 40 * i for i, label in enumerate(labels)}
    counts |= {f"{words[0]}/{label}": 60 for label in words}
    return frame_of({"*": 12_000, **counts})


DAYS = pd.DataFrame({"day": pd.date_range("2022-11-01", periods=430).repeat(12)})
CROSS = pd.DataFrame(
    {
        "a": [f"origin number {i % 5}" for i in range(9000)],
        "b": [f"carrier {i % 9}" for i in range(9000)],
    }
)
CROSS["v"] = np.arange(9000) % 40 - 3.5
BUDGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-6}
VALUES = CROSS.assign(
    paid=np.exp(np.arange(9000) % 97 / 11.0),
    wait=pd.to_timedelta(7.0 ** (np.arange(9000) % 6), "s"),
    day=pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(9000) % 300, "D"),
)
QUANTILES = {
    "paid": dp.quantiles("paid", at=[0.5, 0.95], lower=1, upper=1e6),
    "waiting": dp.median("wait", lower="1s", upper="86400s"),
    "day": dp.median("day", lower="2026-01-01", upper="2026-12-31"),
}


def released(name: str) -> pd.DataFrame:
    measures = {
        "rows": "count",
        "balance of the account": "sum(v, -5, 50)",
        "mean": "mean(v, -5, 50)",
    }
    with seeded_noise(5):
        return {
            "days": lambda: DAYS.dp.hhh("date:day?levels=month,day", **BUDGET),
            "months": lambda: DAYS.dp.rollup("date:day?levels=month", ["count"], **BUDGET),
            "grid": lambda: CROSS.dp.hhh(["a", "b"], **BUDGET),
            "list": lambda: CROSS.dp.heavy_hitters("b", k=8, **BUDGET),
            "measures": lambda: CROSS.dp.rollup(["a", "b"], measures, **BUDGET),
            "quantiles": lambda: VALUES.dp.rollup(["a", "b"], QUANTILES, **BUDGET),
        }[name]()


MADE = {
    "10": lambda: many(10),
    "1000": lambda: many(1_000),
    "10000": lambda: many(10_000),
    "skewed": skewed,
    "odd": odd,
}


@in_turn(
    ("name", [*MADE, "days", "months", "grid", "list", "measures", "quantiles"]),
    ("width", [390, 768, 1280]),
)
def test_no_label_is_cut_spilled_or_over_another(page: Page, name: str, width: int) -> None:
    frame = MADE[name]() if name in MADE else released(name)
    receipt = receipt_for() if name in MADE else frame.dp.receipt
    page.open(frame, receipt, width=width)
    assert wrong_in(page) == []


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_intervals_beside_bars_stay_on_one_line(page: Page, width: int) -> None:
    """Law: where there is room beside it, no interval wraps, however large its numbers."""
    rows = pd.DataFrame({"shop": ["north", "south"] * 400, "paid": [9e8, 4e8] * 400})
    asked = {"revenue": dp.sum("paid", lower=0, upper=1e9), "orders": "count"}
    result = rows.dp.rollup(["shop"], asked, epsilon=4.0, delta=1e-6)
    page.open(result, result.dp.receipt, width=width)
    heights = page.js(
        "[...document.querySelectorAll('.bars tbody small')].map(e => e.clientHeight)"
    )
    assert len([height for height in heights if height]) == (4 if width < 600 else 6)  # shares
    assert max(heights) < 30
    widths = page.js("[...document.querySelectorAll('.bars svg')].map(e => e.clientWidth)")
    assert len({*widths}) == 1  # bars have one scale
    assert wrong_in(page) == []


def test_blocks_of_the_drawing_show_their_numbers(page: Page) -> None:
    """Law: a block that is as wide as its label has its number beside or below it, whole."""
    page.open(many(1_000))
    shown = page.js(
        "[...document.querySelectorAll('.cell:not(.rest)')].map(e => [e.clientWidth,"
        "e.querySelector('.amount').checkVisibility(), e.querySelector('.amount').textContent])"
    )
    assert len(shown) > 6
    rows = "[...document.querySelectorAll('#rows span')].filter(e => !e.hidden).length"
    deepest = "Math.max(...[...document.querySelectorAll('.cell')].map(e => +e.ariaLevel))"
    assert page.js(rows) == page.js(deepest)  # nothing is empty below
    assert [text for width, is_seen, text in shown if width > 80 and not is_seen] == []
    assert sum(1 for width, is_seen, _ in shown if width <= 110 and is_seen) >= 3
    assert wrong_in(page) == []


def test_a_label_that_is_cut_or_over_another_is_found(page: Page) -> None:
    """Negative control: of each kind of fault one is made, and found."""
    page.open(skewed(), width=768)
    assert wrong_in(page) == []
    label = "document.querySelector('.bars tbody th')"
    faults = {
        "cut": f"{label}.firstChild.style.cssText = 'display: block; overflow: hidden; "
        "white-space: nowrap; width: 9px'",
        "over another": f"{label}.firstChild.style.cssText = (r => "
        "'position: fixed; left: ' + r.left + 'px; top: ' + r.top + 'px')"
        "(document.querySelector('.answer').getBoundingClientRect())",
        "outside the page": f"{label}.firstChild.style.cssText = 'position: fixed; left: -2rem'",
    }
    for fault, made in faults.items():
        page.js(made)
        _, wrong = page.driver.execute_script(FOUND)
        assert fault in {kind for kind, *_ in wrong}, fault
        page.js(f"{label}.style.cssText = {label}.firstChild.style.cssText = ''")


def test_ten_thousand_nodes_are_a_bounded_page(page: Page, tmp_path: Path) -> None:
    """Law: less than two megabytes, and no more elements than for a few nodes."""
    page.open(many(10_000))
    assert (page.folder / "report.html").stat().st_size < 2_000_000
    assert page.js("document.querySelectorAll('*').length") < 4_000


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_of_every_kind_is_on_its_page(page: Page, dark: bool) -> None:
    """Law: the kind that is asked for is what is there, and one that does not fit is refused."""
    shows = {"bar": ".bars .bar", "line": ".time .lines .line", "icicle": "#plot:not([hidden])"}
    shows["heatmap"] = ".grid td.above"
    found = {"line": released("days"), "heatmap": released("grid")}
    for kind, selector in shows.items():
        frame = found.get(kind, released("grid"))
        page.open(frame, frame.dp.receipt, kind=kind, dark=dark)
        assert page.js("document.querySelectorAll(arguments[0]).length", selector) > 0, kind
        others = {s for k, s in shows.items() if k not in (kind, "bar")}
        assert all(
            page.js("document.querySelectorAll(arguments[0]).length", s) == 0 for s in others
        )
    with pytest.raises(dp.ParameterError, match=r"kind.*Choose 'heatmap' or 'bar' or 'icicle'"):
        page.open(frame, frame.dp.receipt, kind="line")


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_distributions_are_drawn_on_one_axis(page: Page, width: int, dark: bool) -> None:
    """Law: the largest nodes, each with a text in the place of its picture; one axis for all; bars
    and the median stand out from what is behind them."""
    frame = released("quantiles")
    page.open(frame, frame.dp.receipt, width=width, dark=dark)
    sections = page.js("document.querySelectorAll('section:has(.shape)').length")
    assert sections == len(QUANTILES)
    shapes = page.js(
        "[...document.querySelectorAll('#shapes-0 ~ .nodes figure')].map(e => ["
        "e.querySelector('h3').innerText, e.querySelector('svg').ariaLabel,"
        "[...e.querySelectorAll('.tick')].map(t => t.textContent + t.getAttribute('x')).join(),"
        "e.querySelectorAll('.fill').length, e.querySelectorAll('.median').length])"
    )
    assert {name for name, *_ in shapes} == {f"origin number {i}" for i in range(5)}
    assert len({ticks for *_, ticks, _, _ in shapes}) == 1
    for name, said, _, bars, medians in shapes:
        assert said.startswith(f"{name}: paid of about 1,")
        assert "median" in said
        assert bars > 20
        assert medians == 1
    styles = {
        ".shape .fill": "fill",
        ".shape .median": "stroke",
        ".nodes figure": "backgroundColor",
    }
    drawn = [
        page.js("getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", *pair)
        for pair in styles.items()
    ]
    assert len({*drawn}) == 3
    assert wrong_in(page) == []


# -- the matrix of cells ---------------------------------------------------------------------------


def number(text: str) -> int:
    return int(text.replace(",", "") or 0)


def sums(chromium: Any) -> tuple[int, int]:
    entries = chromium.execute_script(
        "return [...document.querySelectorAll('#grid td:not(.sum)')].map((one) => one.textContent)"
    )
    last = chromium.execute_script(
        "return [...document.querySelectorAll('#grid td.sum')].at(-1).textContent"
    )
    return sum(map(number, entries)), number(last)


def test_the_matrix_adds_up_at_every_step_and_leads_back(chromium: Any, tmp_path: Path) -> None:
    """Law: entries are sums of disjoint cells: below an entry there is what it showed."""
    rows = [(f"10.{i % 3}.{i % 2}.{i % 5}", f"a/{'bc'[i % 2]}/{i % 4}") for i in range(9000)]
    rows += [(f"172.16.{i % 9}.1", f"d{i % 30}/x") for i in range(6000)]
    frame = pd.DataFrame(rows, columns=["src", "p"])
    with seeded_noise(1):
        result = frame.dp.hhh(
            "ip:src?version=4 * path:p?depth=3", epsilon=1.0, delta=1e-6, threshold=60
        )
    result.dp.report(tmp_path / "cells.html")
    chromium.get((tmp_path / "cells.html").as_uri())
    total = int(result.loc[result["level"] > 0, "residual"].sum())
    assert sums(chromium) == (total, total)
    entry = "document.querySelector('#grid td button')"
    shown = number(chromium.execute_script(f"return {entry}.textContent"))
    chromium.execute_script(f"{entry}.click()")
    assert sums(chromium) == (shown, shown)
    chromium.execute_script("document.querySelector('#trail-0 button').click()")
    chromium.execute_script("document.querySelector('#trail-1 button')?.click()")
    assert sums(chromium) == (total, total)
    listed = "document.querySelectorAll('#table tbody tr').length"
    assert chromium.execute_script(f"return {listed}") == min(50, len(result))
    assert chromium.get_log("browser") == []


def test_the_matrix_of_users_has_the_number_of_each_cell(chromium: Any, tmp_path: Path) -> None:
    """Law: cells overlap: an entry, and the margin of a name, are numbers of the release, at every
    step; nothing is summed."""
    rows = [(u, f"a{u % 3}", f"d/{t}/{u % 2}") for u in range(2400) for t in range(3)]
    frame = pd.DataFrame(rows, columns=["who", "src", "p"])
    with seeded_noise(1):
        result = frame.dp.hhh("src * path:p?depth=3", user="who", epsilon=3.0, delta=1e-6)
    result.dp.report(tmp_path / "cells.html")
    chromium.get((tmp_path / "cells.html").as_uri())
    numbers = dict(zip(zip(result["src"], result["p"], strict=True), result["count"], strict=True))
    for place in ("d", "d/0"):
        heads, margin, *lines = chromium.execute_script(
            "return [...document.querySelectorAll('#grid tr')].map((line) => "
            "[...line.children].map((one) => one.textContent)).map((x, i, all) => "
            "i === 1 ? all.at(-1) : x).concat([[...document.querySelectorAll('#grid tr')][1]]"
            ".map((line) => [...line.children].map((one) => one.textContent)))"
        )
        assert "Sum" not in heads
        assert margin[0] == "all of it"
        shown = {name: number(text) for name, text in zip(heads[1:], margin[1:], strict=True)}
        below = {key: n for (src, key), n in numbers.items() if src == "*" and key != "*"}
        assert shown["all of it"] == (numbers["*", "*"] if place == "d" else below["d"])
        assert {shown[name] for name in shown if name != "all of it"} <= set(below.values())
        first = lines[-1]
        assert number(first[1]) in set(numbers.values())
        chromium.execute_script("document.querySelector('#grid thead button').click()")
    assert chromium.get_log("browser") == []
