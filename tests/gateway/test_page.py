"""The gateway's page in a real browser, against a gateway that runs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe
from dpframe.doors.gateway.policy import hash_token
from tests.integration.test_report_in_browser import (
    CONTRASTS,
    HOSTILE,
    SCRIPTS,
    Page,
    _screen,
    chromium,
)
from tests.members import in_turn

pytestmark = pytest.mark.engines

__all__ = ["chromium"]

LONG = ["a department whose name somebody typed without an end in sight, twice over", "x" * 300]
CODES = 5_000

POLICY = """
[gateway]
address = "127.0.0.1:{port}"
floor = 0.01

[data.flights]
source = "{flights}"
user = "aircraft"
levels = ["columns:origin,dest,carrier", "carrier", "dest", "origin", "date:date"]
bounds = {{ hour = [0, 24], "distinct(dest)" = [0, 20] }}
filters = ["hour", "date"]
period = "date"
epsilon = 20.0
delta = 1e-5
largest = 2.0
default = 0.5
about = "Flights from New York in 2013."

[data.sales]
source = "sales.parquet"
levels = ["columns:department,shop", "columns:code", "department", "shop"]
bounds = {{ amount = [0, 100] }}
filters = ["amount"]
epsilon = 1000.0
delta = 1e-4
largest = 50.0
default = 5.0

[analyst.ann]
token = "{ann}"
group = "team"
shares = {{ flights = 1.2, sales = 1000 }}

[analyst.ben]
token = "{ben}"
group = "team"
owner = true
shares = {{ flights = 5, sales = 1000 }}

[group.team]
shares = {{ flights = 15, sales = 1000 }}
"""


def write_folder(folder: Path, port: int) -> Path:
    """Rows with labels that are markup, long, or of many scripts; and a policy over them."""
    labels = [*HOSTILE, *SCRIPTS, *LONG]
    rows = np.arange(60 * CODES)
    pd.DataFrame(
        {
            "department": np.array(labels, dtype=object)[rows % 23 % len(labels)],
            "shop": np.char.add("shop ", (rows % 7).astype(str)),
            "code": np.char.add("code ", (rows % CODES).astype(str)),
            "amount": rows % 97 + 0.5,
        }
    ).to_parquet(folder / "sales.parquet")
    flights = Path(dpframe.__file__).parent / "data" / "flights.parquet"
    tokens = {name: hash_token(f"dpf_{name}") for name in ("ann", "ben")}
    path = folder / "policy.toml"
    path.write_text(POLICY.format(port=port, flights=flights, **tokens))
    return path


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway in a process of its own."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    folder = tmp_path_factory.mktemp("page")
    command = [sys.executable, "-m", "dpframe", "serve", str(write_folder(folder, port))]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "log.txt").read_text()
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(30)


class Desk(Page):
    """The page in the browser. Its console must say nothing but statuses of refusals."""

    url: str

    def show(self, width: int = 1280, dark: bool = False) -> None:
        self.command("Emulation.setDeviceMetricsOverride", **_screen(width))
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.command("Emulation.setEmulatedMedia", features=[scheme, still])

    def start(self, address: str = "", who: str = "ann") -> None:
        """Open an address, signed in; without a name, signed out."""
        self.driver.get(f"{self.url}healthz")
        self.logs()
        self.js("sessionStorage.clear()")
        if who:
            self.js("sessionStorage.setItem('dpframe token', arguments[0])", f"dpf_{who}")
        self.driver.get(f"{self.url}{address}")

    def until(self, expression: str, *arguments: Any) -> None:
        """Wait until JavaScript is true."""
        for _ in range(200):
            if self.js(expression, *arguments):
                return
            time.sleep(0.05)
        pytest.fail(f"{expression} is not so: {self.text('body')}")

    def priced(self) -> str:
        """Wait for the price, and return what the button says."""
        self.until(
            "document.querySelector('aside .main') && !/^Looking|^Asking/.test("
            "document.querySelector('aside .main').textContent)"
        )
        return self.text("aside .main")

    def put(self, name: str, text: str) -> str:
        """Type into a field, and return what the button says then."""
        field = self.driver.find_element("id", f"field-{name}")
        self.js("arguments[0].select?.()", field)
        field.send_keys(text)
        return self.priced()

    def pick(self, name: str, value: str) -> None:
        """Choose an option of a field by its value."""
        self.js(
            "(e => { e.value = arguments[1];"
            "e.dispatchEvent(new Event('input', {bubbles: true})); })"
            "(document.getElementById(`field-${arguments[0]}`))",
            name,
            value,
        )

    def choose(self, question: str) -> str:
        self.click(f"[name=question][value={question}]")
        return self.priced()

    def ask(self) -> None:
        self.click("aside .main")
        self.until("document.querySelector('.saves') && !document.querySelector('form')")

    def in_report(self, expression: str) -> Any:
        """What JavaScript is in the frame of a report."""
        self.until("document.querySelector('iframe')")
        self.driver.switch_to.frame(0)
        try:
            self.until("document.readyState === 'complete' && document.querySelector('.card')")
            return self.js(expression)
        finally:
            self.driver.switch_to.default_content()


@pytest.fixture
def desk(chromium: Any, tmp_path: Path, url: str) -> Iterator[Desk]:
    desk = Desk(chromium, tmp_path)
    desk.url = url
    desk.show()
    yield desk
    said, asked = desk.logs()
    assert [line for line in said if "Failed to load resource" not in line] == []
    assert [one for one in asked if not one.startswith((url, "data:", "about:", "blob:"))] == []
    assert desk.js("window.hit === undefined && document.cookie === ''")
    chromium.get("about:blank")


def budget(desk: Desk) -> list[str]:
    return desk.js(
        "[...document.querySelectorAll('.budgets td:nth-child(2)')].map(e => e.innerText)"
    )


# -- signing in ----------------------------------------------------------------------------------


def test_a_token_signs_in_and_is_gone_after_signing_out(desk: Desk) -> None:
    """By keyboard alone; a wrong token is refused at its field, and is not kept."""
    desk.start(who="")
    desk.until("document.getElementById('token')")
    desk.keys("TAB", "TAB", "dpf_no", "ENTER")
    desk.until("document.getElementById('token-wrong').textContent")
    assert desk.text("#token-wrong").startswith("No analyst has this token.")
    assert desk.js("document.activeElement.id") == "token"
    assert desk.js("document.activeElement.ariaInvalid") == "true"
    assert desk.js("sessionStorage.length") == 0
    desk.js("document.activeElement.select()")
    desk.keys("dpf_ann", "ENTER")
    desk.until("document.querySelector('.data-sets')")
    assert desk.text("h1") == "Data sets"
    assert desk.text("#who") == "ann"
    assert "Log" not in desk.text("#pages")
    assert desk.js("localStorage.length") == 0
    desk.click("#leave")
    desk.until("document.getElementById('token')")
    assert desk.js("sessionStorage.length") == 0
    desk.driver.get(f"{desk.url}#/flights")
    desk.until("document.getElementById('token')")
    assert "flights" not in desk.text("body")


def test_a_token_that_is_no_longer_known_signs_out(desk: Desk) -> None:
    desk.start("#/flights")
    desk.priced()
    desk.js("sessionStorage.setItem('dpframe token', 'dpf_gone')")
    desk.click("[name=question][value=hhh]")
    desk.until("document.getElementById('token')")
    assert "no longer known" in desk.text("#token-wrong")


# -- asking --------------------------------------------------------------------------------------


def test_a_price_stands_before_it_is_paid_and_once(desk: Desk) -> None:
    """Filled in by keyboard; Enter in a field pays nothing; what was drawn opens free, also for
    others, and after that the share has too little."""
    desk.start("#/flights")
    desk.priced()
    assert desk.js("document.activeElement.localName") == "h1"
    desk.keys("TAB", "ARROW_DOWN", "ARROW_DOWN")
    desk.until("document.getElementById('field-k')")
    desk.keys("TAB", "TAB", "TAB", "TAB", "0.6", "ENTER")
    desk.until("document.querySelector('aside .main').textContent === 'Ask: costs epsilon 0.6'")
    assert budget(desk) == ["1.2 of 1.2, then 0.6", "15 of 15, then 14.4", "20 of 20, then 19.4"]
    assert "of under about" in desk.text("aside dl")
    assert "Costs epsilon 0.6. Then 0.6 of your share is left." in desk.js(
        "document.getElementById('said').textContent"
    )
    desk.driver.find_element("css selector", "aside .main").send_keys("\n")
    desk.until("document.querySelector('iframe')")
    assert desk.text("h1") == "Most common values of carrier"
    assert "for epsilon 0.6" in desk.text(".paid")
    assert desk.js("document.activeElement.localName") == "h1"
    desk.driver.back()
    assert desk.priced() == "Show: free"
    assert desk.js("document.getElementById('field-epsilon').value") == "0.6"
    assert budget(desk)[0] == "0.6 of 1.2"
    assert "It was drawn on" in desk.text(".price")
    desk.ask()
    assert desk.text(".paid").startswith("Free: it was drawn on")
    desk.driver.back()
    desk.priced()
    desk.put("epsilon", "0.7")
    assert desk.js("document.querySelector('aside .main').disabled")
    assert desk.text("#trouble").startswith("Your share has epsilon 0.6 left, which is too little.")
    desk.start("#/flights", who="ben")
    desk.priced()
    desk.choose("heavy_hitters")
    assert desk.put("epsilon", "0.6") == "Show: free"


def test_what_is_refused_stands_at_its_field(desk: Desk) -> None:
    """The gateway's own sentences, at the field that they begin with, or above the form."""
    desk.start("#/flights", who="ben")
    desk.priced()
    assert desk.put("epsilon", "3") == "Ask"
    assert desk.text("#wrong-epsilon").startswith("epsilon (3) must be above 0 and at most 2")
    assert desk.js("document.getElementById('field-epsilon').ariaInvalid") == "true"
    desk.put("epsilon", "0.5")
    assert desk.text("#wrong-epsilon") == ""
    desk.put("period", "2013-W60")
    assert "2013 has the ISO weeks 01 to 52" in desk.text("#wrong-period")
    desk.start("#/flights", who="ben")
    desk.priced()
    desk.click("[name=measures]")
    desk.until("document.getElementById('wrong-measures')?.textContent")
    desk.choose("sql")
    assert desk.put("query", "SELECT origin FROM flights").startswith("Ask")
    assert "query shows rows of a private table" in desk.text("#wrong-query")


def test_an_error_finds_its_price(desk: Desk) -> None:
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.click(".asking > div summary")
    desk.driver.find_element("id", "field-error").send_keys("200")
    desk.click(".asking > div details button")
    desk.until("document.getElementById('field-epsilon').value !== '5'")
    found = float(desk.js("document.getElementById('field-epsilon').value"))
    assert 0 < found < 1
    assert desk.priced().startswith("Ask: costs epsilon 0.")


@pytest.mark.parametrize("question", ["rollup", "hhh", "heavy_hitters", "tree_counts"])
def test_every_question_is_answered_as_its_report(desk: Desk, question: str) -> None:
    """The report runs in its frame, with its own script and style, and hostile labels as text; so
    do its links and its filter."""
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.choose(question)
    if question == "heavy_hitters":
        desk.js("document.getElementById('field-column').value = 'department'")
        desk.put("k", "20")
    desk.ask()
    shown = desk.in_report("document.body.innerText")
    assert HOSTILE[0] in shown
    assert "Privacy card" in shown
    assert desk.in_report("window.hit === undefined && !document.querySelector('img, iframe')")
    assert desk.in_report("getComputedStyle(document.querySelector('.card')).borderStyle") != "none"
    if desk.in_report("document.getElementById('tally') !== null"):
        assert "row" in desk.in_report("document.getElementById('tally').textContent")
    desk.driver.switch_to.frame(0)
    desk.click(".guarantee summary")
    desk.click(".guarantee a")
    desk.until("location.hash === '#promise-title' && scrollY > 100")
    if question in ("rollup", "tree_counts"):
        rows = "[...document.querySelectorAll('#table tbody th button')]"
        desk.js(f"{rows}.find(e => e.textContent === arguments[0]).click()", HOSTILE[0])
        desk.until("location.hash.startsWith('#n=')")
        assert desk.trail == ["Everything", HOSTILE[0]]
    desk.driver.switch_to.default_content()
    assert desk.js("document.querySelector('iframe').getAttribute('sandbox')") == "allow-scripts"


def test_columns_are_crossed_and_ordered(desk: Desk) -> None:
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.pick("by", "")
    desk.js("document.querySelector('[name=order-0]').value = 'shop'")
    desk.js("document.querySelector('[name=order-1]').value = 'department'")
    desk.put("epsilon", "1.5")
    desk.ask()
    assert desk.text("h1") == "Count by shop › department"
    desk.driver.back()
    desk.priced()
    assert desk.js("document.querySelector('[name=order-0]').value") == "shop"
    desk.pick("by", "columns:department,shop")
    crossed = "[...document.getElementById('field-cross').options].map(e => e.value)"
    assert desk.js(crossed) == [""]
    desk.pick("by", "columns:shop")
    assert desk.js(crossed) == ["", "columns:department", "columns:code"]
    desk.pick("cross", "columns:department")
    desk.put("epsilon", "1.25")
    desk.ask()
    assert desk.text("h1") == "Count by shop × department"
    assert desk.in_report("document.querySelectorAll('#grid td').length") > 0


def test_a_query_is_answered_as_a_table(desk: Desk) -> None:
    """Five thousand rows: fifty at a time, filtered over all, intervals below their numbers."""
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.choose("sql")
    desk.put("epsilon", "50")
    text = "SELECT code, count(*) AS n, avg(amount) AS mean FROM sales GROUP BY code ORDER BY code"
    desk.put("query", text)
    desk.ask()
    assert desk.text("h1") == text
    assert desk.text(".tally") == f"{CODES:,} rows"
    heads = "[...document.querySelectorAll('thead th')].map(e => e.innerText.split('\\n')[0])"
    assert desk.js(heads) == ["code", "n", "mean"]
    names = "[...document.querySelectorAll('.as-named tbody th')].map(e => e.textContent)"
    assert desk.js(names) == sorted(f"code {i}" for i in range(CODES))[:50]
    cells = "[...document.querySelectorAll('.as-named tbody tr')][0].innerText"
    assert " to " in desk.js(cells)
    desk.driver.find_element("css selector", ".tools input").send_keys("code 4999")
    desk.until("document.querySelector('.tally').innerText === '1 of 5,000 rows'")
    assert desk.js(names) == ["code 4999"]
    desk.driver.find_element("css selector", ".tools input").clear()
    desk.driver.find_element("css selector", ".tools input").send_keys("CODE 1")
    wanted = sorted(code for i in range(CODES) if (code := f"code {i}").startswith("code 1"))
    desk.until("document.querySelector('.tally').innerText === arguments[0]", _of(len(wanted)))
    desk.click(".pager button", 1)
    assert desk.js(names) == wanted[50:100]
    assert "guarantee" in desk.text(".card")
    assert desk.fits()


def test_values_of_queries_are_written_as_what_they_are(desk: Desk) -> None:
    """Days without a time, flags, whole numbers, and what is unknown."""
    desk.start("#/flights", who="ben")
    desk.priced()
    desk.choose("sql")
    desk.put("query", VALUES)
    desk.ask()
    cells = "[...document.querySelectorAll('.as-named tbody tr')].map(e => [...e.children].map("
    rows = desk.js(f"{cells}e => e.firstChild.textContent))")
    assert rows[0][0] == "2013-01-01"
    assert {row[1] for row in rows} <= {"true", "false"}
    assert all(row[2].replace(",", "").isdecimal() for row in rows)
    assert rows[0][3].startswith("NULL")
    assert desk.fits()


VALUES = """
SELECT date_trunc('month', date) AS month, origin = 'JFK' AS jfk, count(DISTINCT aircraft) AS n,
NULLIF(count(*), count(*)) AS nothing FROM flights GROUP BY 1, 2 ORDER BY 1, 2
"""


def _of(n: int) -> str:
    return f"{n:,} of {CODES:,} rows"


def test_labels_in_rows_of_queries_are_text(desk: Desk) -> None:
    desk.show(width=390)
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.choose("sql")
    desk.put("query", "SELECT department, count(*) AS n FROM sales GROUP BY department")
    desk.ask()
    names = desk.js("[...document.querySelectorAll('.as-named tbody th')].map(e => e.textContent)")
    assert {*names} == {*HOSTILE, *SCRIPTS, *LONG}
    assert desk.js("document.querySelectorAll('main img, main svg, main script').length") == 0
    assert desk.fits()


def test_answers_are_saved(desk: Desk) -> None:
    """CSV, Arrow, receipt and page: each is what the gateway sends."""
    desk.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(desk.folder))
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.put("epsilon", "2.5")
    desk.ask()
    for at in range(4):
        desk.click(".saves button", at)
    endings = {".csv", ".arrow", ".json", ".html"}
    for _ in range(100):
        saved = {path.suffix: path for path in desk.folder.iterdir()}
        if endings <= saved.keys() and all(path.stat().st_size for path in saved.values()):
            break
        time.sleep(0.05)
    import pyarrow as pa

    table = pa.ipc.open_stream(saved[".arrow"].read_bytes()).read_all()
    assert table.num_rows == len(pd.read_csv(saved[".csv"])) > 20
    receipt = json.loads(saved[".json"].read_text())
    assert receipt["release"] == json.loads(table.schema.metadata[b"dpframe"])["release"]
    assert "Content-Security-Policy" in saved[".html"].read_text("utf-8")


# -- releases, and the log -----------------------------------------------------------------------


def test_releases_of_others_open_free_and_the_owner_sees_the_log(desk: Desk) -> None:
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.put("epsilon", "4.5")
    desk.ask()
    desk.start("#/sales")
    desk.priced()
    before = budget(desk)
    row = "[...document.querySelectorAll('.listed tbody tr')].find(e => /4.5/.test(e.innerText))"
    assert "another" in desk.js(f"{row}.innerText")
    desk.js(f"{row}.querySelector('a').click()")
    assert "Privacy card" in desk.in_report("document.body.innerText")
    assert desk.text(".paid").startswith("Free: it was drawn on")
    release = desk.js("location.hash")
    desk.driver.refresh()
    desk.until("document.querySelector('iframe')")
    desk.click(".back a")
    desk.priced()
    assert [row.split(",")[0] for row in budget(desk)] == [row.split(",")[0] for row in before]
    desk.start("#/log/all")
    desk.until("document.querySelector('main .notice')")
    assert "the log is for owners" in desk.text("main .notice")
    desk.start("#/log/all", who="ben")
    desk.until("document.querySelector('.listed')")
    first = desk.js("document.querySelector('.listed tbody').innerText")
    assert "ben" in first
    assert "answered" in first
    assert "replayed" not in first.split("answered")[0]
    assert desk.js("document.querySelector('.listed tbody a').hash").startswith("#/")
    assert release.startswith("#/sales/sales-")


def test_what_follows_from_a_finer_answer_opens_beside_it(desk: Desk) -> None:
    """The finer release keeps its own address and its own rows."""
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.js("document.getElementById('field-by').value = 'columns:department,shop'")
    desk.put("epsilon", "3.5")
    desk.ask()
    assert "shop" in desk.in_report("document.querySelector('h1').textContent")
    finer = desk.js("location.hash")
    desk.driver.back()
    desk.priced()
    desk.js("document.getElementById('field-by').value = 'columns:department'")
    assert desk.put("epsilon", "3.5") == "Show: free"
    assert "It follows from release" in desk.text(".price")
    desk.ask()
    assert desk.js("location.hash") == "#/sales/answer"
    assert desk.text("h1") == "Count by department"
    assert "follows from" in desk.in_report("document.body.textContent")
    desk.driver.get(f"{desk.url}{finer}")
    desk.until("document.querySelector('h1').textContent === 'Count by department › shop'")
    assert "shop" in desk.in_report("document.querySelector('h1').textContent")


def test_another_analyst_finds_nothing_of_the_last_in_the_tab(desk: Desk) -> None:
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.choose("sql")
    desk.put("query", "SELECT shop, count(*) AS secret FROM sales GROUP BY shop")
    desk.click("#leave")
    desk.until("document.getElementById('token')")
    desk.keys("TAB", "TAB")
    desk.driver.find_element("id", "token").send_keys("dpf_ann\n")
    desk.until("document.querySelector('.data-sets')")
    desk.click(".data-sets a", 1)
    desk.priced()
    assert desk.js("document.querySelector('[name=question]:checked').value") == "rollup"
    desk.choose("sql")
    assert "secret" not in desk.js("document.getElementById('field-query').value")


def test_addresses_that_lead_nowhere_say_so(desk: Desk) -> None:
    desk.start("#/nothing")
    desk.until("document.querySelector('main .notice')")
    assert "there is no data set" in desk.text("main .notice")
    desk.start("#/sales/sales-0")
    desk.until("document.querySelector('main .notice')")
    assert "no release" in desk.text("main .notice")
    desk.start("#/sales/answer")
    desk.priced()


# -- looks, and who cannot see them --------------------------------------------------------------

AUDIT = """
const wrong = [];
const shown = element => element.getClientRects().length > 0;
for (const control of document.querySelectorAll('input, select, textarea')) {
  const name = control.ariaLabel || [...control.labels].map(e => e.textContent).join('');
  if (!name.trim()) wrong.push(`no label: ${control.outerHTML}`);
}
for (const one of document.querySelectorAll('button, a')) {
  if (!(one.ariaLabel || one.textContent).trim()) wrong.push(`no name: ${one.outerHTML}`);
}
for (const one of document.querySelectorAll('button, input, select, .kinds label')) {
  const box = one.closest('label') ?? one;
  if (shown(one) && box.getBoundingClientRect().height < 24) wrong.push(`small: ${one.outerHTML}`);
}
for (const table of document.querySelectorAll('table')) {
  if (!table.caption?.textContent.trim()) wrong.push('a table without a caption');
  if ([...table.querySelectorAll('th')].some(e => !e.scope)) wrong.push('a head without a scope');
}
for (const one of document.querySelectorAll('fieldset')) {
  if (!one.querySelector('legend')) wrong.push('a group without a legend');
}
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
if (new Set(ids).size < ids.length) wrong.push(`ids twice: ${ids}`);
for (const one of document.querySelectorAll('[aria-describedby], [aria-labelledby]')) {
  for (const id of `${one.getAttribute('aria-describedby') ?? ''} ${
    one.getAttribute('aria-labelledby') ?? ''}`.split(' ').filter(Boolean)) {
    if (!document.getElementById(id)) wrong.push(`no ${id}`);
  }
}
if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
if (!document.documentElement.lang || !document.title) wrong.push('no language or title');
for (const part of ['main', '[role=status]', '.skip']) {
  if (!document.querySelector(part)) wrong.push(`no ${part}`);
}
let level = 0;
for (const heading of document.querySelectorAll('h1, h2, h3')) {
  const now = Number(heading.localName[1]);
  if (now > level + 1) wrong.push(`a heading skips a level: ${heading.textContent}`);
  level = now;
}
const ends = document.documentElement.scrollWidth - innerWidth;
if (ends > 0) wrong.push(`the page scrolls sideways by ${ends}`);
for (const element of document.querySelectorAll('body *')) {
  const text = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  const style = getComputedStyle(element);
  if (!text || !shown(element) || style.clipPath !== 'none' || element.closest('option')) continue;
  if (element.closest('.skip, #said')) continue;
  const ratio = contrast(element);
  if (ratio < 4.5) wrong.push(`${ratio.toFixed(2)} to 1: ${element.outerHTML.slice(0, 200)}`);
}
return wrong;
"""


def wrong_in(desk: Desk) -> list[str]:
    """What is wrong with names, structure, contrast and width of what is shown."""
    found: list[str] = desk.driver.execute_script(CONTRASTS.split("const chosen")[0] + AUDIT)
    return found


@in_turn(("width", [390, 1280]), ("dark", [False, True]))
def test_every_view_is_legible_and_fits(desk: Desk, width: int, dark: bool) -> None:
    """Names of controls, captions, scopes, ids, headings, a contrast of 4.5 and no scrolling to the
    side (WCAG 2.2: 1.3.1, 1.4.3, 1.4.10, 2.5.8, 4.1.2), in all views."""
    desk.show(width, dark)
    desk.start(who="")
    desk.until("document.getElementById('token')")
    assert wrong_in(desk) == []
    desk.start(who="ben")
    desk.until("document.querySelector('.data-sets')")
    assert wrong_in(desk) == []
    desk.start("#/flights", who="ben")
    desk.priced()
    for question in ("hhh", "heavy_hitters", "tree_counts", "sql", "rollup"):
        desk.choose(question)
        desk.js("document.querySelectorAll('details').forEach(e => (e.open = true))")
        assert wrong_in(desk) == [], question
    desk.put("epsilon", "3")
    assert wrong_in(desk) == []
    desk.start("#/sales", who="ben")
    desk.priced()
    desk.ask()
    desk.until("document.querySelector('iframe')")
    assert wrong_in(desk) == []
    desk.driver.back()
    desk.priced()
    assert wrong_in(desk) == []
    desk.choose("sql")
    desk.ask()
    assert wrong_in(desk) == []
    desk.start("#/log/all", who="ben")
    desk.until("document.querySelector('.listed')")
    assert wrong_in(desk) == []
    ground = desk.js("getComputedStyle(document.body).backgroundColor")
    assert (float(ground.removeprefix("oklch(").split()[0]) < 0.5) is dark


def test_the_audit_sees_what_it_is_to_see(desk: Desk) -> None:
    """Negative control: a page with one of each fault."""
    desk.start(who="")
    desk.until("document.getElementById('token')")
    desk.js(
        """(main => {
        const add = (tag, more = {}) => main.appendChild(
          Object.assign(document.createElement(tag), more));
        add('input'); add('button'); add('table'); add('fieldset'); add('h1'); add('h3');
        add('p', {id: 'token', textContent: 'faint'}).style.color = 'gray';
        add('div', {textContent: 'wide'}).style.width = '200vw';
        add('p').setAttribute('aria-describedby', 'nobody');
        })(document.querySelector('main'))"""
    )
    wrong = "\n".join(wrong_in(desk))
    for fault in (
        "no label",
        "no name",
        "caption",
        "legend",
        "ids twice",
        "no nobody",
        "not one h1",
    ):
        assert fault in wrong
    for fault in ("skips a level", "sideways", "to 1"):
        assert fault in wrong


def test_the_keyboard_passes_all_of_it_in_order(desk: Desk) -> None:
    """Every stop has a visible ring, and stops go down the page; the skip link leads to it."""
    desk.start("#/flights", who="ben")
    desk.priced()
    assert desk.js("document.querySelector('a, button, input').className") == "skip"
    desk.js("document.querySelector('.skip').focus()")
    desk.keys("ENTER")
    assert desk.js("document.activeElement.id") == "main"
    stops = []
    for _ in range(60):
        desk.keys("TAB")
        name, ring = desk.js(
            """(e => [e.id || e.name || e.textContent,
            [e, e.closest('label') ?? e].some(o => getComputedStyle(o).outlineStyle !== 'none')])
            (document.activeElement)"""
        )
        if desk.js("document.activeElement === document.body"):
            break
        assert ring, name
        stops.append(name)
    wanted = ["question", "field-by", "field-cross", "measures", "field-period", "field-epsilon"]
    wanted += ["field-confidence", "Find the price of an error", "The whole plan"]
    places = [stops.index(name) for name in wanted]
    assert places == sorted(places)
    assert any(stop.startswith("Ask: costs") for stop in stops[places[-1] :])


# -- what is sent to it --------------------------------------------------------------------------


def sent(url: str, path: str, given: dict[str, Any]) -> Any:
    headers = {"Authorization": "Bearer dpf_ben", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}api/{path}", json.dumps(given).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def test_explanations_foresee_what_a_period_leaves(url: str) -> None:
    """Law: as the shares then stand, for questions and queries; disjoint periods do not add up."""
    column = {"column": "origin", "epsilon": 0.3, "period": "2013-W10"}
    query = "SELECT origin, count(*) FROM flights GROUP BY origin"
    for period, fuller in (("2013-W10", True), ("2013-W11", False)):
        given = {"epsilon": 0.3, "period": period}
        if fuller:
            sent(url, "datasets/flights/heavy_hitters", column)
        for question, more in (("sql", {"query": query}), ("hhh", {"hierarchy": "carrier"})):
            found = sent(url, f"datasets/flights/{question}/explain", {**given, **more})
            for row in found["budget"]:
                left = row["left"] - 0.3 if fuller else row["left"]
                assert row["after"] == pytest.approx(left)
                assert row["fits"]


# -- headers -------------------------------------------------------------------------------------


def test_the_page_loads_nothing_but_its_own(url: str) -> None:
    with urllib.request.urlopen(url) as response:
        headers, text = response.headers, response.read().decode()
    policy = dict(part.strip().partition(" ")[::2] for part in _policy(headers).split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in _policy(headers)
    assert "http" not in text.replace("http-equiv", "")
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Set-Cookie"] is None
    for name in ("page.css", "gateway.css", "gateway.js", "gateway_parts.js"):
        with urllib.request.urlopen(f"{url}page/{name}") as response:
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert b"http://" not in response.read()


def _policy(headers: Any) -> str:
    return str(headers["Content-Security-Policy"])
