"""Licences of what is installed with dpframe: ``python -m tests.licences`` writes the page.

It reads the metadata of an environment in which everything is installed
(``.[all,mcp,postgres,spark]``), and lists names and licences; versions are in the bill of materials
of a release.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
EXTRAS = ("completion", "mcp", "pld", "plots", "postgres", "serve", "spark", "streams", "xlsx")

HEAD = """# Licences

dpframe is under the Apache License 2.0 (`LICENSE` in every wheel). Below is what `pip install`
brings along, directly or through others, with the licence that its own metadata states; versions
and texts are in the bill of materials that a release is built with (`python -m tests.release`).
Tools for developing are not installed with dpframe and not listed.

Written by `python -m tests.licences`; the check of a release compares it with what it installs.

"""


class Environment:
    """The distributions in some folders of packages, by default where this runs."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        where = [str(path) for path in paths] or sys.path
        self.found = {
            canonicalize_name(one.metadata["Name"]): one
            for one in metadata.distributions(path=where)
        }

    def closure(self, requirements: Iterable[str]) -> dict[str, metadata.Distribution]:
        """The distributions that these requirements need, by name, those of extras included."""
        seen: dict[str, metadata.Distribution] = {}
        self._add(requirements, frozenset(), seen)
        return dict(sorted(seen.items()))

    def _add(
        self,
        requirements: Iterable[str],
        extras: frozenset[str],
        seen: dict[str, metadata.Distribution],
    ) -> None:
        for requirement in map(Requirement, requirements):
            wanted = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (extras or {""})
            )
            name = canonicalize_name(requirement.name)
            if wanted and name not in seen and name != "dpframe":
                if name not in self.found:
                    raise LookupError(f"{name} is needed and not installed here")
                seen[name] = self.found[name]
                inner = frozenset(requirement.extras)
                self._add(self.found[name].requires or [], inner, seen)


def licence(distribution: metadata.Distribution) -> str:
    """What its metadata states, in a line."""
    stated = distribution.metadata
    if expression := stated["License-Expression"]:
        return str(expression)
    text = stated["License"] or ""
    if text and "\n" not in text and not text.startswith("Copyright"):
        return str(text)
    classes = [c for c in stated.get_all("Classifier") or [] if c.startswith("License ::")]
    return classes[-1].split(" :: ")[-1] if classes else "not stated"


def declared() -> dict[str, list[str]]:
    """Requirements by the extra that has them; those of a plain install under ''."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    return {"": project["dependencies"]} | {extra: optional[extra] for extra in EXTRAS}


def rows(environment: Environment, leave: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, licence, and what it comes with, of everything but one extra."""
    comes: dict[str, list[str]] = {}
    for extra, requirements in declared().items():
        for name in environment.closure(requirements if extra != leave or not leave else ()):
            comes.setdefault(name, []).append(extra)
    for name, extras in sorted(comes.items()):
        one = environment.found[name]
        withs = "" if "" in extras else ", ".join(f"`[{extra}]`" for extra in extras)
        yield one.metadata["Name"], licence(one), withs or "every install"


def page(environment: Environment) -> str:
    lines = [f"| {name} | {text} | {withs} |\n" for name, text, withs in rows(environment)]
    return f"{HEAD}| package | licence | comes with |\n| --- | --- | --- |\n{''.join(lines)}"


def listed(text: str) -> dict[str, tuple[str, str]]:
    """Licence and what it comes with, by package, of a page."""
    found = re.findall(r"^\| (\S+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    return {name: (said, withs) for name, said, withs in found if name not in ("package", "---")}


if __name__ == "__main__":
    PAGE.write_text(page(Environment()), "utf-8")
