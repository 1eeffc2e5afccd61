"""The site, by version: ``python -m tests.site FOLDER``.

Builds the documents into ``FOLDER/VERSION``, where warnings are errors, beside versions that are
there already, and writes their list, from which every page makes its choice of versions. Then every
link and anchor of every page is followed, and nothing may be loaded from a network.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dpframe import __version__

DOCS = Path(__file__).resolve().parents[1] / "docs"

LISTED = """// Written by tests/site.py: the versions that lie here, the newest first.
(function (versions) {
  document.querySelectorAll(".versions").forEach(function (place) {
    var choice = document.createElement("select");
    choice.setAttribute("aria-label", "Version");
    versions.forEach(function (version) {
      var here = version === place.dataset.here;
      choice.add(new Option("Version " + version, version, here, here));
    });
    choice.onchange = function () {
      location.href = place.dataset.root + choice.value + "/index.html";
    };
    place.replaceChildren(choice);
  });
})(%s);
"""

NEWEST = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>dpframe</title>
<meta http-equiv="refresh" content="0; url=%s/index.html"><a href="%s/index.html">dpframe %s</a>
"""

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "srcset"}


def versions(folder: Path) -> list[str]:
    """Those that were built into the folder, the newest first."""
    found = [path.parent.name for path in folder.glob("*/index.html")]
    numbered = [name for name in found if re.fullmatch(r"\d+\.\d+\.\d+", name)]
    return sorted(numbered, key=lambda name: [int(n) for n in name.split(".")], reverse=True)


def list_versions(folder: Path) -> None:
    """Write what pages choose from, and a page that leads to the newest."""
    names = versions(folder)
    (folder / "versions.js").write_text(LISTED % json.dumps(names), "utf-8")
    (folder / "index.html").write_text(NEWEST % (names[0], names[0], names[0]), "utf-8")


class Page(HTMLParser):
    """What a page leads to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if LOADED.get(tag) in given:
            self.loads.add(given[LOADED[tag]])


def faults(folder: Path) -> Iterator[str]:
    """Links that lead nowhere, anchors that are not there, and what comes from a network."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in folder.rglob("*.html")}
    for path, page in sorted(pages.items()):
        name = path.relative_to(folder.resolve())
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    yield f"{name} loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.name == "versions.js" and target.parent == folder.resolve().parent:
                continue  # of all versions, and a version alone does without
            if not target.exists():
                yield f"{name} leads to {link}, which is not there"
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors | {""}:
                yield f"{name} leads to {link}: no such anchor"


def main(folder: Path) -> int:
    made = folder / __version__
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", DOCS, made]
    code = subprocess.run(build).returncode
    if code:
        return code
    list_versions(folder)
    found = [*faults(made)]
    if not (made / "searchindex.js").is_file():
        found.append("nothing to search in")
    print(*found, sep="\n", end="\n" if found else "")
    pages = len([*made.rglob("*.html")])
    print(f"site: {pages} pages of version {__version__}; versions {', '.join(versions(folder))}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
