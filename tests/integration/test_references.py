"""References, the site and the walks in the docs are what they say."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import dpframe as dp
from tests import references, site, walks


@pytest.mark.parametrize("name", references.MADE_FILES)
def test_a_reference_is_what_is_declared(name: str) -> None:
    """If this fails: ``python -m tests.references``."""
    assert (references.HERE / name).read_text("utf-8") == references.MADE_FILES[name]()


def test_every_question_and_command_is_there() -> None:
    """Negative control: the makers see what there is."""
    functions = references.sql_reference()
    assert all(f"## {name}\n" in functions for name in ("dp_hhh", "dp_rollup", "dp_change"))
    commands = references.command_reference()
    for name in ("hhh", "explain-rollup", "run", "publish", "plan-series hhh", "completion"):
        assert f"## dpframe {name}\n" in commands, name
    assert "`--epsilon`" in commands


QUESTIONS = [dp.hhh, dp.rollup, dp.tree_counts, dp.heavy_hitters, dp.synthesize, dp.prefix_tree]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_a_long_signature_is_short_and_loses_no_parameter(question: object) -> None:
    """The site shows what a call must name, then every parameter once, by subject."""
    short = references.short_signature(question)
    assert short is not None
    assert len(short) < 60
    assert "epsilon" in short
    assert short.endswith(", ...)")
    said = inspect.getdoc(question) or ""
    grouped = references.grouped_parameters(question, said)
    names = re.compile(r"^(\w+(?:, \w+)*)(?: : .*)?$", re.MULTILINE)
    assert grouped.index("\nParameters\n---") < grouped.index("\nWho is protected\n---")
    for name in inspect.signature(question).parameters:  # type: ignore[arg-type]
        before, after = (
            sum(name in one.split(", ") for one in names.findall(text)) for text in (said, grouped)
        )
        assert before == after == 1, name


def test_a_short_signature_stays_as_it_is() -> None:
    """Negative control: nothing is grouped where little is to be read."""
    assert references.short_signature(dp.verify) is None
    text = "Says.\n\nParameters\n----------\nresult\n    See docs/sql.md."
    assert references.grouped_parameters(dp.verify, text) == text.replace(
        "docs/sql.md", ":doc:`/sql`"
    )


# -- what checks the built site --------------------------------------------------------------------


def written(folder: Path, pages: dict[str, str]) -> Path:
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def test_broken_links_anchors_and_what_a_network_brings_are_found(tmp_path: Path) -> None:
    """Negative control: one page with one of each fault, and one without."""
    right = '<h1 id="top">x</h1><a href="b.html#there">b</a><a href="#top">up</a><img src="i.png">'
    wrong = (
        '<p id="there"><a href="no.html"></a><a href="a.html#nowhere"></a><a href="#nothing"></a>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org"></a>'
        '<script src="../versions.js"></script>'
    )
    pages = {"0.2.0/a.html": right, "0.2.0/b.html": wrong, "0.2.0/i.png": ""}
    assert [*site.faults(written(tmp_path, pages) / "0.2.0")] == [
        "b.html leads to #nothing: no such anchor",
        "b.html leads to a.html#nowhere: no such anchor",
        *("b.html loads https://example.org/x.js", "b.html leads to no.html, which is not there"),
    ]


def test_versions_are_listed_by_number_and_nothing_else_is(tmp_path: Path) -> None:
    """0.10 is newer than 0.9; a folder that is no version is none."""
    built = ["0.9.0", "0.10.0", "0.2.0", "latest", "0.3"]
    written(tmp_path, {f"{name}/index.html": "" for name in built})
    assert site.versions(tmp_path) == ["0.10.0", "0.9.0", "0.2.0"]
    site.list_versions(tmp_path)
    assert '(["0.10.0", "0.9.0", "0.2.0"])' in (tmp_path / "versions.js").read_text("utf-8")
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text("utf-8")


# -- the walks of a new user -----------------------------------------------------------------------


walked = pytest.mark.skipif(
    not walks.DATA.is_dir(), reason="the folder shared/data is not beside the checkout"
)


@pytest.mark.engines
@walked
@pytest.mark.parametrize("path", walks.WALKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_needs_nothing_but_the_tables(path: Path, tmp_path: Path) -> None:
    """Law: no cell fails or warns, and most of them show something."""
    notebook = walks.walked(path, tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    said = [one.text for cell in code for one in cell.outputs if one.get("name") == "stderr"]
    assert not [text for text in said if "Warning" in text]
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2


def test_what_is_kept_of_them_names_no_machine() -> None:
    """Nothing of where they were run, and no error, is in the docs."""
    for path in walks.WALKS:
        text = path.read_text("utf-8")
        assert "/tmp/" not in text
        assert '"output_type": "error"' not in text
        assert '"execution_count": 1' in text
