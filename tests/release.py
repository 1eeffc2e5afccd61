"""What is checked before a release: ``python -m tests.release FOLDER``.

Needs ``pip install -e '.[test,release]'``.
Builds the source distribution, and the wheel from it; checks what is in both, their metadata and
how the README is rendered by an index; installs the wheel with its extras away from the checkout;
writes the bill of materials (CycloneDX) and the licences, and compares the latter with the page.
"""

from __future__ import annotations

import email
import email.policy
import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from dpframe import __version__
from tests import licences
from tests.integration.test_wheel import shipped

ROOT = Path(__file__).resolve().parents[1]
INFO = f"dpframe-{__version__}.dist-info"
OF_INFO = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}

NEEDED = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"}
"""Beside the sources, in the source distribution."""


def ran(*command: str | Path) -> str:
    """What a command says; if it fails, so do we."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def faults_of_contents(wheel: Path, source: Path) -> list[str]:
    """What is missing in the two, and what has no business there."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    wanted = shipped() | {f"{INFO}/{name}" for name in OF_INFO}
    found = [f"the wheel lacks {name}" for name in sorted(wanted - names)]
    found += [f"the wheel has {name}" for name in sorted(names - wanted)]
    if "dpframe/py.typed" not in names:
        found.append("the wheel is not typed")
    with tarfile.open(source) as tar:
        inside = {name.split("/", 1)[-1] for name in tar.getnames()}
    tracked = set(ran("git", "ls-files").split()) if (ROOT / ".git").exists() else set()
    needed = {*NEEDED, "pyproject.toml", *(n for n in tracked if n.split("/")[0] in SOURCES)}
    return found + [f"the source distribution lacks {name}" for name in sorted(needed - inside)]


SOURCES = ("dpframe", "sql", "tests", "docs", ".ci")


def metadata(wheel: Path) -> EmailMessage:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{INFO}/METADATA").decode("utf-8")
    return email.message_from_string(text, policy=email.policy.default)


def faults_of_metadata(said: EmailMessage) -> list[str]:
    """What an index and pip read, against pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {
        "Name": "dpframe",
        "Version": __version__,
        "Summary": project["description"],
        "Requires-Python": project["requires-python"],
        "License-Expression": project["license"],
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
    }
    found = [
        f"{key} is {said[key]!r}, not {text!r}" for key, text in wanted.items() if said[key] != text
    ]
    urls = {f"{name}, {url}" for name, url in project.get("urls", {}).items()}
    if set(said.get_all("Project-URL", [])) != urls:
        found.append("project URLs are not those of pyproject.toml")
    plain = [r for r in said.get_all("Requires-Dist", []) if "extra ==" not in r]
    if len(plain) != len(project["dependencies"]):
        found.append(f"a plain install needs {plain}")
    extras = set(said.get_all("Provides-Extra", []))
    return found + [
        f"no extra {e}" for e in sorted(project["optional-dependencies"].keys() - extras)
    ]


def faults_of_readme(text: str) -> list[str]:
    """Whether an index can show it, with what it is made of."""
    from readme_renderer.markdown import render

    shown = render(text)
    if shown is None:
        return ["the README is not rendered"]
    wanted = ("<h1", "<picture", "<table", "<pre", "<code")
    return [f"the README is rendered without {part}>" for part in wanted if part not in shown]


def bill_of_materials(
    environment: Path, installed: licences.Environment, file: Path
) -> dict[str, Any]:
    """Written by cyclonedx-bom of what was installed. Ours are the version, which pyproject.toml
    leaves to the package, and that what only an extra needs is optional."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    ran(
        *(sys.executable, "-m", "cyclonedx_py", "environment", environment / "bin" / "python"),
        *("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--validate"),
        *("--gather-license-texts", "--output-reproducible", "-o", file),
    )
    bill: dict[str, Any] = json.loads(file.read_text("utf-8"))
    bill["metadata"]["component"]["version"] = __version__
    plain = installed.closure(licences.declared()[""])
    for part in bill["components"]:
        needed = canonicalize_name(part["name"]) in plain
        part["scope"] = "required" if needed else "optional"
    text = json.dumps(bill, indent=1)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"the bill of materials is none: {wrong}")
    file.write_text(text, "utf-8")
    return bill


def faults_of_bill(bill: dict[str, Any], environment: licences.Environment) -> list[str]:
    """It names dpframe, and each package that was installed, with its version and a licence."""
    root = bill["metadata"]["component"]
    found = [] if (root["name"], root["version"]) == ("dpframe", __version__) else ["another root"]
    parts = {canonicalize_name(part["name"]): part for part in bill["components"]}
    for name, one in environment.found.items():
        part = parts.get(name)
        if name == "dpframe":
            continue
        if part is None or part["version"] != one.version:
            found.append(f"the bill of materials lacks {name} {one.version}")
        elif not part.get("licenses"):
            found.append(f"the bill of materials has no licence of {name}")
    return found


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    ran(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    wheel, source = (folder / f"dpframe-{__version__}{end}" for end in WHEEL_AND_SOURCE)
    ran(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    ran(sys.executable, "-m", "check_wheel_contents", wheel)
    said = metadata(wheel)
    found = faults_of_contents(wheel, source) + faults_of_metadata(said)
    found += faults_of_readme(str(said.get_payload()))

    environment = folder / "environment"
    ran(sys.executable, "-m", "venv", "--without-pip", "--clear", environment)
    python = environment / "bin" / "python"
    ran(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        f"{wheel}[all,mcp,postgres]",
    )
    ran(sys.executable, "-m", "pip", "--python", python, "check")
    installed = licences.Environment(environment.glob("lib*/python*/site-packages"))
    bill = bill_of_materials(environment, installed, folder / f"dpframe-{__version__}.cdx.json")
    found += faults_of_bill(bill, installed)

    now = {name: (text, withs) for name, text, withs in licences.rows(installed, leave="spark")}
    page = licences.listed(licences.PAGE.read_text("utf-8"))
    page = {name: row for name, row in page.items() if row[1] != "`[spark]`"}
    for name in sorted(now.keys() | page.keys()):
        if now.get(name) != page.get(name):
            found.append(f"docs/licences.md says {page.get(name)} of {name}, not {now.get(name)}")
    (folder / "licences.md").write_text(licences.PAGE.read_text("utf-8"), "utf-8")
    print(*found, sep="\n", end="\n" if found else "")
    print(f"release: {wheel.name}, {source.name}, {len(bill['components'])} packages with licences")
    return 1 if found else 0


WHEEL_AND_SOURCE = ("-py3-none-any.whl", ".tar.gz")

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
