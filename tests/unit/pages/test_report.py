"""The page of a release: what is in it, what it promises, and that data cannot become markup."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.pages.page_parts import likelihood_factor
from dpframe.pages.report import report_page, write_report
from dpframe.testing import seeded_noise
from tests.members import in_turn

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
HOSTILE = [
    *("<script>alert(1)</script>", "</script><script>alert(2)</script>", "<!-- ", "]]>"),
    *('"><img src=x onerror=alert(3)>', "&lt;b&gt; &amp;", "$title ${data} {{style}}"),
    *("\u2028\u2029 \x00 \u202e", "'';\\u003c/script>"),
]
COUNTRIES = ["France"] * 400 + ["日本"] * 300 + HOSTILE * 100
CITIES = ["Paris"] * 200 + ["Lyon"] * 200 + ["東京"] * 300 + HOSTILE[::-1] * 100
SALES = pd.DataFrame({"country": COUNTRIES, "city": CITIES, "who": range(700 + 100 * len(HOSTILE))})


def result(hierarchy: Any = ("country", "city"), **arguments: Any) -> pd.DataFrame:
    with seeded_noise(3):
        return dp.hhh(SALES, list(hierarchy), **{**BUDGET, **arguments})


class Reading(HTMLParser):
    """What a browser's parser would find."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self.text = ""
        self.open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open = f"{tag} {dict(attrs).get('type') or ''}".strip()

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, text: str) -> None:
        if self.open:
            self.inside[self.open] = self.inside.get(self.open, "") + text
        self.text += text

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.inside["script application/json"])
        return found


def read(frame: pd.DataFrame, **arguments: Any) -> Reading:
    return Reading(report_page(frame, frame.dp.receipt, **arguments))


# -- nothing from outside, nothing from data -----------------------------------------------------


def test_the_page_asks_for_nothing() -> None:
    text = report_page(result(), result().dp.receipt)
    found = Reading(text)
    links = {v for _, attributes in found.tags for k, v in attributes.items() if k in "src href"}
    assert links == {"#nodes", "#promise-title", "data:,"}
    assert not re.search(r"https?:|@import|url\(", text)
    policy = next(a["content"] for t, a in found.tags if t == "meta" and a.get("content", ""))
    assert str(policy).startswith("default-src 'none';")


@pytest.mark.parametrize(
    ("element", "rule"), [("style", "style-src"), ("script module", "script-src")]
)
def test_the_policy_allows_this_script_and_style_only(element: str, rule: str) -> None:
    """By their hashes; so an inline handler or another script in the page stays dead."""
    found = read(result())
    policy = str(next(a["content"] for t, a in found.tags if "http-equiv" in a))
    digest = hashlib.sha256(found.inside[element].encode()).digest()
    assert f"{rule} 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "unsafe" not in policy


def test_labels_are_data_and_never_markup() -> None:
    """Labels, column names, user names and the title: the same elements as for harmless ones."""
    hostile = SALES.rename(columns={"country": HOSTILE[0], "city": HOSTILE[1], "who": HOSTILE[2]})
    with seeded_noise(3):
        frame = dp.hhh(hostile, HOSTILE[:2], user=HOSTILE[2], **BUDGET)
    assert set(HOSTILE) <= set(frame[HOSTILE[0]].dropna())
    found = read(frame, title=HOSTILE[1])
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in read(result(user="who")).tags]
    assert found.data["prefix"] == frame["prefix"].tolist()
    assert found.data["levels"] == HOSTILE[:2]
    assert HOSTILE[1] in found.text
    assert HOSTILE[2] in found.text
    assert found.tags.count(("script", {"type": "module"})) == 1


def test_the_scripts_never_read_text_as_markup() -> None:
    """Only text nodes and properties: none of the ways in which text becomes elements or code."""
    folder = Path(dp.__file__).parent / "pages" / "assets"
    scripts = "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.js")))
    assert len(scripts) > 5000
    ways = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|</script|<!--"
    assert not re.search(ways, scripts)


# -- what is in it -------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_frame() -> None:
    frame = result()
    for rows in (frame, frame.sort_values("count"), frame.iloc[::2], frame[:0], frame[:1]):
        found = read(rows).data
        for name in ("level", "prefix", "residual", "count", "lower", "upper"):
            assert found[name] == rows[name].tolist()
        for child, parent in enumerate(found["parent"]):
            assert parent < 0 or rows["prefix"].iloc[child].startswith(
                rows["prefix"].iloc[parent].replace("*", "")
            )
        assert min(found["area"], default=0) >= 0


def test_figures_and_card_are_those_of_the_receipt() -> None:
    frame = result()
    found = read(frame)
    total = frame.iloc[0]
    assert f"{total['count']:,}" in found.text
    assert f"{total['lower']:,} to {total['upper']:,}, 95 %" in found.text
    for name, value, meaning in frame.attrs["dp"]["card"]:
        assert name in found.text
        assert meaning in found.text
        assert isinstance(value, float | bool) or str(value) in found.text
    assert frame.attrs["dp"]["release_id"] in found.text


def test_a_written_report_is_the_page(tmp_path: Path) -> None:
    """UTF-8, one kind of line end; a folder that does not exist is an error with advice."""
    frame = result()
    write_report(frame, frame.dp.receipt, tmp_path / "r.html", title="Très")
    text = (tmp_path / "r.html").read_bytes().decode("utf-8")
    assert text == report_page(frame, frame.dp.receipt, title="Très")
    assert "<title>Très</title>" in text
    with pytest.raises(dp.ParameterError, match="folder that does not exist"):
        write_report(frame, frame.dp.receipt, tmp_path / "no" / "r.html")


@pytest.mark.parametrize("column", ["level", "prefix", "country", "count", "upper"])
def test_a_frame_without_a_column_is_refused(column: str) -> None:
    frame = result()
    receipt = frame.dp.receipt
    if column == "prefix":
        receipt = Receipt({**dict(result(["country"]).dp.receipt), "hierarchy": "path:country"})
    with pytest.raises(dp.ParameterError, match=f"no column '{column}'"):
        report_page(frame.drop(columns=column), receipt)


# -- what it promises ----------------------------------------------------------------------------


USERS = {"user": "who"}
RECORDS = {**USERS, "contribution": "records", "max_contributions": 3}
PROMISED: list[tuple[Any, dict[str, Any]]] = [
    *((dp.hhh, more) for more in ({}, USERS, RECORDS, {"epsilon": 0.3, "confidence": 0.9})),
    *((dp.hhh, more) for more in ({"mechanism": "laplace"}, {"remainder": False})),
    (dp.hhh, {**USERS, "contribution": "share"}),
    *((dp.tree_counts, more) for more in (USERS, RECORDS, {"weight": "who"})),
    *((dp.tree_counts, more) for more in ({"weight": "who", "max_weight": 3},)),
    *((dp.tree_counts, more) for more in ({"mechanism": "hhh"}, {"confidence": 0.9})),
    (dp.tree_counts, {"mechanism": "gaussian", "consistent": False}),
    (
        dp.tree_counts,
        {"mechanism": "relative", "alpha": 0.5, "largest": 10**7, "epsilon": 40.0},
    ),
]


@pytest.mark.parametrize(("question", "arguments"), PROMISED)
def test_the_promise_is_the_receipts(question: Any, arguments: dict[str, Any]) -> None:
    """Guarantee, unit, intervals, certain bounds and budget; every number stands in the receipt."""
    with seeded_noise(3):
        frame = question(SALES, ["country", "city"], **{**BUDGET, **arguments})
    receipt = frame.dp.receipt
    text = read(frame).text
    said = text[text.index("and what is promised") : text.index("Privacy card")]
    assert receipt["guarantee"] in said
    assert f"differ by {receipt['neighbours']}" in said
    assert receipt["counts"] in said
    assert receipt["intervals"][1:] in said
    assert receipt["budget"] in said
    assert ("Heavy hitters" in text) == (question is dp.hhh)
    if question is dp.hhh:
        unseen = receipt["not_shown"]
        assert f"Not shown: {unseen['node']}s of under about {unseen['below']}" in text
        certain = f"a node with {unseen['certain']} of its own"
        assert (certain in said.lower()) is (unseen["certain"] is not None)
    known = json.dumps(receipt.to_dict()) + likelihood_factor(receipt["epsilon"])
    for number in re.findall(r"\d[\d.e+-]*\d|\d", said.replace(",", "")):
        told = number in known + f"{receipt['delta']:g}"
        assert told or float(number) == 100 * receipt["confidence"]


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.3, 1.0, math.log(2), 2.0, 5.0, 13.7, 50.0])
def test_factors_are_rounded_up(epsilon: float) -> None:
    """Never below e^epsilon, and within a thousandth of it."""
    shown = float(likelihood_factor(epsilon).replace(",", ""))
    assert math.exp(epsilon) * (1 - 1e-12) <= shown <= math.exp(epsilon) * 1.0011


# -- counts of trees -----------------------------------------------------------------------------

ADDS_UP = "not negative and every node is the sum of the rows below it"
SIGNED = "can be negative"

JANUARY, FEBRUARY = "2013-01-05 07:00", "2013-02-01 00:00"
DATES = pd.to_datetime([JANUARY] * 300 + [FEBRUARY] * 300)
TREES: dict[str, tuple[Any, Any, Any]] = {
    "path": (
        "path:x",
        ["a/b/c"] * 300 + ["a/d"] * 200 + ["e"] * 90 + [None] * 90,
        ["a/b/c", "q/r"],
    ),
    "ip": (
        "ip:x",
        ["10.1.2.3"] * 300 + ["2001:db8::1"] * 300 + ["10.1.9.9"] * 200,
        ["10.1.2.3", "2001:db8::1"],
    ),
    "domain": ("domain:x", ["www.a.org"] * 300 + ["b.org"] * 290, ["www.a.org", "c.com"]),
    "date": ("date:x", DATES, [JANUARY, "2014-01-01 00:00"]),
    "code": ("code:x?lengths=1,3", ["123"] * 300 + ["199"] * 200 + ["2"] * 200, ["123", "999"]),
    "number": (
        "number:x?lower=0&upper=8&depth=2",
        [1.0] * 300 + [7.0] * 200 + [None] * 100,
        "domain",
    ),
    "columns": (["country", "city"], SALES, [("France", "Paris"), ("日本", "東京"), ("a", "b")]),
}


def counts(kind: str, listed: bool, **arguments: Any) -> pd.DataFrame:
    hierarchy, rows, keys = TREES[kind]
    source = rows if kind == "columns" else pd.DataFrame({"x": rows})
    asked = {"keys": keys} if listed else {"delta": 1e-6}
    with seeded_noise(8):
        return dp.tree_counts(source, hierarchy, epsilon=1.0, **asked, **arguments)


@in_turn(
    ("kind", TREES), ("listed", [True, False], ["listed", "found"]), ("consistent", [True, False])
)
def test_pages_of_tree_counts(kind: str, listed: bool, consistent: bool) -> None:
    """``<other>`` rows are under the node whose label they carry; the words are of counts."""
    frame = counts(kind, listed, consistent=consistent)
    found = read(frame)
    data, labels = found.data, frame["prefix"].tolist()
    assert data["parent"][0] == -1
    assert min(data["parent"][1:]) >= 0
    levels = frame["level"].tolist()
    for child, parent in enumerate(data["parent"][1:], 1):
        assert levels[parent] == levels[child] - 1
        label = labels[child]
        if label.endswith("<other>") and label != "<other>":
            assert label in (f"{labels[parent]}{between}<other>" for between in (" / ", "/", " "))
    assert any(label.endswith("<other>") for label in labels) == (consistent or listed)
    assert f"Counts of {'country, city' if kind == 'columns' else 'x'}" in found.text
    for wrong in ("Heavy hitters", "None", "nan", "residual records"):
        assert wrong not in found.text
    assert (ADDS_UP in found.text) is consistent
    assert (SIGNED in found.text) is not consistent
    assert ("Threshold" in found.text) is not listed


def test_a_page_of_a_pure_release_promises_no_chance_of_more() -> None:
    frame = counts("path", listed=True)
    text = read(frame).text
    assert "1-differential privacy for adding or removing one record" in text
    assert "plus a probability" not in text
    assert "delta 0" in text


def test_pages_of_heavy_hitters_say_what_they_said() -> None:
    """Negative control: words of counts are not on other pages."""
    text = read(result()).text
    assert "Heavy hitters of country, city" in text
    assert SIGNED in text
    assert ADDS_UP not in text
    assert "plus a probability of 1e-06" in text
