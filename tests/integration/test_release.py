"""The check of a release sees what it is to see; ``.ci/run`` builds and checks the real one."""

from __future__ import annotations

import io
import tarfile
import zipfile
from copy import deepcopy
from email.message import EmailMessage
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dpframe import __version__
from tests import licences, release
from tests.integration.test_wheel import shipped


def test_every_direct_dependency_is_on_the_page_of_licences() -> None:
    """If this fails: ``python -m tests.licences``. What others bring along is compared where a
    release is installed."""
    page = {canonicalize_name(name) for name in licences.listed(licences.PAGE.read_text("utf-8"))}
    for extra, requirements in licences.declared().items():
        names = {canonicalize_name(Requirement(one).name) for one in requirements}
        assert names <= {*page, "dpframe"}, extra  # an extra can take in another one


def built(folder: Path, lacking: str = "", more: str = "") -> tuple[Path, Path]:
    """A wheel and a source distribution with the right names and nothing in them."""
    of_info = {f"{release.INFO}/{name}" for name in release.OF_INFO}
    wheel, source = folder / "a.whl", folder / "a.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (shipped() | of_info | {more}) - {lacking, ""}:
            archive.writestr(name, "")
    tracked = release.ran("git", "ls-files").split() if (release.ROOT / ".git").exists() else []
    with tarfile.open(source, "w:gz") as tar:
        for name in {*tracked, *release.NEEDED, "pyproject.toml"} - {lacking}:
            tar.addfile(tarfile.TarInfo(f"dpframe/{name}"), io.BytesIO())
    return wheel, source


def test_contents_are_no_more_and_no_less(tmp_path: Path) -> None:
    """Negative control: a type marker that is lost, a file that slipped in."""
    assert release.faults_of_contents(*built(tmp_path)) == []
    lost = release.faults_of_contents(*built(tmp_path, lacking="dpframe/py.typed"))
    assert lost[:2] == ["the wheel lacks dpframe/py.typed", "the wheel is not typed"]
    more = release.faults_of_contents(*built(tmp_path, more="dpframe/notes.txt"))
    assert more == ["the wheel has dpframe/notes.txt"]
    assert release.faults_of_contents(*built(tmp_path, lacking="SECURITY.md")) == [
        "the source distribution lacks SECURITY.md"
    ]


def test_metadata_of_another_version_are_noticed() -> None:
    """Negative control: nothing of an empty message is right."""
    said = EmailMessage()
    said["Name"], said["Version"] = "dpframe", "0.0.1"
    found = release.faults_of_metadata(said)
    assert found[0] == f"Version is '0.0.1', not '{__version__}'"
    assert "no extra streams" in found


def test_a_bill_that_forgets_a_package_is_noticed() -> None:
    """Negative control: a package without its line, and one without a licence."""
    here = licences.Environment()
    parts = [
        {"name": name, "version": one.version, "licenses": [{}]} for name, one in here.found.items()
    ]
    root = {"component": {"name": "dpframe", "version": __version__}}
    bill = {"metadata": root, "components": parts}
    assert release.faults_of_bill(bill, here) == []
    worse = deepcopy(bill)
    worse["components"] = [part for part in worse["components"] if part["name"] != "numpy"]
    assert len(release.faults_of_bill(worse, here)) == 1
    root["component"]["version"] = "0.0.1"
    assert release.faults_of_bill(bill, here) == ["another root"]
