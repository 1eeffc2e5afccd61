"""What the README and the docs say can be typed, in their order.

A block that cannot be run here has ``<!-- not run: reason -->`` on the line above it, and one that
a reader saves as a file ``<!-- file: NAME -->``. ``text`` is what comes out, or a drawing.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dpframe.doors.cli.main import main
from dpframe.testing import seeded_noise
from tests import examples

HERE = Path(__file__).resolve().parents[2]
GUIDES = [HERE / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES = [*GUIDES, *sorted((HERE / "docs").rglob("*.md"))]
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
FILE = re.compile(r"<!-- file: (\S+) -->")
OF_THE_SITE = (["{toctree}"], ["{eval-rst}"], ["{include}"])
OF_A_SHELL = re.compile(r"[|>]")
TYPED = re.compile(
    r"^(>>>|\$ |import |from \w+ import|dpframe |pip |python|SELECT |FROM )", re.MULTILINE
)
"""What somebody types is no ``text``."""


@dataclass(frozen=True)
class Block:
    """Something between fences."""

    language: str
    text: str
    line: int
    runs: bool
    file: str = ""
    """The name under which a reader saves it."""


def blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    start = None
    for i, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = i
        else:
            body = "\n".join(lines[start + 1 : i]) + "\n"
            above = lines[start - 1] if start else ""
            language = lines[start][3:].strip()  # one in braces is for the site
            runs = not NOT_RUN.fullmatch(above) and language.split()[:1] not in OF_THE_SITE
            saved = FILE.fullmatch(above)
            if language == "{code-cell} python":  # and its tags are of the site
                language, body = "python", re.sub(r"\A(:.*\n)+", "", body)
            yield Block(language, body, start + 1, runs, saved[1] if saved else "")
            start = None
    assert start is None, "a fence is open"


def run(block: Block, names: dict[str, Any], page: str) -> None:
    where = f"{page}, line {block.line}"
    if block.file:
        Path(block.file).write_text(block.text, "utf-8")
    elif block.language == "python" and ">>>" in block.text:
        test = doctest.DocTestParser().get_doctest(block.text, names, where, page, block.line)
        said: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
        assert not said, "".join(said)
        names.update(test.globs)
    elif block.language == "python":
        text = block.text.removesuffix("\nexit()\n") + "\n"  # of an interpreter at a terminal
        exec(compile(text, where, "exec"), names)
    elif block.language == "sql":
        names["con"].execute(block.text)
    elif block.language == "sh" and OF_A_SHELL.search(block.text):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        typed = ["bash", "-e", "-o", "pipefail", "-c", block.text]
        done = subprocess.run(typed, env={**os.environ, "PATH": path}, capture_output=True)
        assert done.returncode == 0, f"{where}: {done.stderr.decode()}"
    elif block.language == "sh":
        for line in block.text.splitlines():
            program, *arguments = shlex.split(line, comments=True) or [""]
            if program:
                assert program == "dpframe", f"{where}: only our own command is run"
                assert main(arguments) == 0, where
    else:
        assert block.language == "text", f"{where}: {block.language} is not run, so mark it"
        assert not TYPED.search(block.text), f"{where}: who types this runs it"


AT_ONCE = (*GUIDES, HERE / "docs" / "index.md")
"""What comes first; the other pages take longer, and are typed beside the engines."""

OF_SERVERS = [HERE / "docs" / f"{name}.md" for name in ("gateway", "postgres", "dashboard")]
"""Typed by tests of their own, in two terminals or beside a database: ``tests/gateway`` and
``test_dashboard``."""

MARKED = [
    pytest.param(page, marks=[] if page in AT_ONCE else [pytest.mark.engines])
    for page in PAGES
    if page not in OF_SERVERS
]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.relative_to(HERE).as_posix())
def test_every_block_runs_after_those_before_it(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of their own, on some pages with the files of ``tests/examples.py``."""
    found = [block for block in blocks(page.read_text("utf-8")) if block.runs]
    if not any(block.language for block in found):
        return
    monkeypatch.chdir(tmp_path)
    if page.name == "command_line.md":
        examples.make(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        with (
            seeded_noise(7) if page.name != "verifying.md" else nullcontext()
        ):  # what a page shows is likely, and certain for nobody
            run(block, names, page.name)
    if isinstance(con := names.get("con"), duckdb.DuckDBPyConnection):
        con.close()


def test_what_somebody_types_stands_between_fences() -> None:
    """An indented line, or a fence of another kind, would be code that nobody runs."""
    hidden = re.compile(r"^(~~~| +```| {4,}(>>>|\$ |import |from \w+ import|dpframe |pip |FROM ))")
    for page in PAGES:
        text = page.read_text("utf-8")
        inside = {n for b in blocks(text) for n in range(b.line, b.line + b.text.count("\n") + 2)}
        lines = enumerate(text.splitlines(), 1)
        assert [ln for n, ln in lines if n not in inside and hidden.match(ln)] == [], page.name


def test_a_reason_that_names_a_file_names_one_that_is_there() -> None:
    """Who reads that a test runs a block finds the test."""
    found = [(page, name) for page in PAGES for name in OF_TESTS.findall(page.read_text("utf-8"))]
    assert len(found) >= 3
    assert [(page.name, name) for page, name in found if not (HERE / name).is_file()] == []


OF_TESTS = re.compile(r"<!-- not run: .*?((?:tests|dpframe)/[\w/]+\.py).* -->")


def test_the_readme_is_one_page() -> None:
    """At most 500 words: what does not fit has a page of its own."""
    assert len((HERE / "README.md").read_text("utf-8").split()) <= 500


def of_the_toctree(caption: str) -> list[str]:
    """The pages under a caption of the front page."""
    front = (HERE / "docs" / "index.md").read_text("utf-8")
    return front.partition(f":caption: {caption}\n\n")[2].partition("\n```")[0].split()


QUESTIONS = ("hhh", "rollup", "tree_counts", "heavy_hitters", "synthesize", "prefix_tree")


def test_the_front_page_leads_to_every_question_and_how_to() -> None:
    """Also to ``heavy_hitters``, which shows most."""
    front = (HERE / "docs" / "index.md").read_text("utf-8")
    links = re.findall(r"\[([^\]]+)\]\((\w+)\.md\)", front)
    assert {one for one in QUESTIONS if not any(f"`{one}`" in said for said, _ in links)} == set()
    assert set(of_the_toctree("How to")) - {page for _, page in links} == set()


def flights_of(labels: pd.DataFrame, title: str, label: str) -> pd.DataFrame:
    """The departures that a row of a table is about: ``EWR / ORD``, ``EWR * UA``, ``2013-01``."""
    if (labels["origin"] == title).any():
        labels = labels[labels["origin"] == title]
    if label == "everything":
        return labels
    if label in ("January", "February", "March", "April"):
        return labels[labels["month"].str.startswith(label)]
    if re.fullmatch(r"\d{4}-\d\d", label):
        return labels[labels["month"].str.endswith(label)]
    for part in re.split(r" [/*] ", label):
        column = next(c for c in ("origin", "dest", "carrier") if (labels[c] == part).any())
        labels = labels[labels[column] == part]
    return labels


def rows_beside_the_truth(page: str) -> Iterator[tuple[str, str, str, list[int]]]:
    """Title of the table, label of the row, what is counted; low, high and truth."""
    text = (HERE / "docs" / f"{page}.md").read_text("utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = [[c.strip() for c in r[1:-1].split("|")] for r in table.splitlines()]
        if head[3::3] != ["truth"] * (len(head) // 3) or len(head) % 3 != 1:
            continue
        for label, *cells in rows:
            for k in range(0, len(cells), 3):
                numbers = re.findall(r"[\d,]+", " ".join(cells[k + 1 : k + 3]))
                yield head[0], label, head[k + 1], [int(n.replace(",", "")) for n in numbers]


def test_the_truth_beside_a_result_is_exact() -> None:
    """Law: in every table that shows it; most intervals hold it."""
    flights = pd.read_parquet(files("dpframe") / "data/flights.parquet")
    flights["month"] = pd.to_datetime(flights["date"]).dt.strftime("%B %Y-%m")
    held = []
    for page in ("index", "rollup", "cubes", "tree_counts", "series"):
        for title, label, counted, (low, high, truth) in rows_beside_the_truth(page):
            about = flights_of(flights, title, label)
            exact = about["aircraft"].nunique() if counted == "aircraft" else len(about)
            assert truth == exact, (page, label)
            held.append(low <= truth <= high)
    assert len(held) > 40
    assert sum(held) > 0.85 * len(held)


def user_totals(flights: pd.DataFrame, label: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How many departures aircraft have at an airport, ascending, and what each aircraft weighs."""
    by = [] if label == "everything" else ["origin"]
    found = flights.groupby([*by, "aircraft"]).size().rename("total").reset_index()
    found["weight"] = 1 / found.groupby("aircraft")["total"].transform("size")
    if by:
        found = found[found["origin"] == label]
    found = found.sort_values("total")
    return found["total"].to_numpy(), found["weight"].to_numpy()


def test_quantiles_beside_their_truth_are_exact() -> None:
    """Law: of aircraft that weigh 1 in all at a level; all intervals hold them."""
    flights = pd.read_parquet(files("dpframe") / "data/flights.parquet")
    rows = list(rows_beside_the_truth("quantiles"))
    assert len(rows) == 8
    for _, label, named, (low, high, truth) in rows:
        totals, weights = user_totals(flights, label)
        at = 0.5 if named == "median" else 0.95
        place = np.searchsorted(weights.cumsum(), at * weights.sum() * (1 - 1e-12))
        assert truth == totals[place], (label, named)
        assert low <= truth <= high


def test_pages_that_the_code_names_are_there() -> None:
    """Docstrings and messages that send a reader to a page."""
    code = [*(HERE / "dpframe").rglob("*.py"), *(HERE / "tests").rglob("*.py")]
    named = {
        (file.name, page)
        for file in code
        for page in re.findall(r"docs/[\w/-]+\.md", file.read_text("utf-8"))
    }
    assert len(named) > 30
    assert sorted((name, page) for name, page in named if not (HERE / page).is_file()) == []


def test_how_tos_are_short() -> None:
    """Beside the README and what one reads first they are a manual that somebody reads."""
    pages = [*of_the_toctree("How to"), *of_the_toctree("Start")]
    paths = {page: HERE / "docs" / f"{page}.md" for page in pages if "/" not in page}
    words = {page: len(path.read_text("utf-8").split()) for page, path in paths.items()}
    assert len(words) > 15
    assert {page: n for page, n in words.items() if n > 2000} == {}
    assert sum(words.values()) <= 21_500


LINK = re.compile(r"(?:\]\(|src(?:set)?=\")(?!https?:|#)([^)\"#]+)")


def test_links_of_the_guides_lead_somewhere() -> None:
    """Those of the docs are checked where the site is built."""
    found = [(page, link) for page in GUIDES for link in LINK.findall(page.read_text("utf-8"))]
    assert len(found) > 25
    assert [str(link) for page, link in found if not (page.parent / link).exists()] == []


def test_extracts_are_what_the_code_says() -> None:
    """Every line of an extract of a file of the package stands in that file."""
    extract = re.compile(r"<!-- not run: an extract of (\S+) -->\n```python\n(.*?)```", re.DOTALL)
    found = [made for page in PAGES for made in extract.findall(page.read_text("utf-8"))]
    assert found
    for file, text in found:
        lines = {line.strip() for line in (HERE / file).read_text("utf-8").splitlines()}
        assert [line for line in text.splitlines() if line.strip() not in lines] == []


def test_a_block_that_fails_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: in each language, and only where it is not marked."""
    monkeypatch.chdir(tmp_path)
    page = "```python\n1 / 0\n```\n```python\n>>> 1\n2\n```\n```sql\nFROM no\n```\n```sh\nls\n```\n"
    for block in blocks(page):
        with pytest.raises((ZeroDivisionError, AssertionError, duckdb.Error)):
            run(block, {"con": duckdb.connect()}, "page")
    marked = [b.runs for b in blocks("<!-- not run: why -->\n```sh\nls\n```\n<!-- x -->\n```\n```")]
    assert marked == [False, True]
