"""One version, in ``dpframe/_version.py``; what else names it agrees."""

from __future__ import annotations

import re
from pathlib import Path

import dpframe

ROOT = Path(__file__).resolve().parents[2]


def dated(text: str) -> tuple[str, str]:
    """The newest version of a changelog, and its day; what comes next stands above it."""
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    found = re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", headings[1])
    assert found, f"{headings[1]!r} is no version with its day"
    return found[1], found[2]


def cited(text: str) -> tuple[str, str]:
    """The version of a CITATION.cff, and its day."""
    values = dict(re.findall(r"^(version|date-released): (\S+)$", text, re.MULTILINE))
    return values["version"], values["date-released"]


def test_the_changelog_the_citation_and_the_package_name_one_version() -> None:
    """A release is dated once; `dpframe --version`, receipts and the site read the package."""
    change = dated((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert change == cited((ROOT / "CITATION.cff").read_text("utf-8"))
    assert change[0] == dpframe.__version__
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'path = "dpframe/_version.py"' in project
    assert 'dynamic = ["version"]' in project


def test_another_version_would_be_noticed() -> None:
    """Negative control: the readers read."""
    assert dated("## Unreleased\n\n## 9.8.7 (2031-02-03)\n") == ("9.8.7", "2031-02-03")
    assert cited("version: 1.2.3\ndate-released: 2030-01-01\n") == ("1.2.3", "2030-01-01")
