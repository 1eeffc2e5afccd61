"""What checks the built site sees what it is to see; the site itself is built by ``.ci/run``."""

from __future__ import annotations

from pathlib import Path

from tests import site


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
