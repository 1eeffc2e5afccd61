"""The wheel as a user gets it: it brings the SQL of its macros."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dpframe
from dpframe.doors.postgres import FILES
from dpframe.doors.sql.macros import MACRO_FILES, macro_script

pytestmark = pytest.mark.engines

ROOT = Path(__file__).resolve().parents[2]

RELEASE = """
import duckdb, dpframe
con = duckdb.connect()
con.execute("SET enable_progress_bar = false")  # on a busy machine it prints
con.execute("CREATE TABLE visits AS SELECT '10.0.0.1' AS src FROM range(500)")
dpframe.register(con)
call = "dp_hhh('visits', 'ip:src', epsilon := 1.0, delta := 1e-6)"
print(dpframe.__file__)
print(con.execute(f"SELECT prefix FROM {call}").fetchall())
call = "dp_tree_counts('visits', ['src'], epsilon := 1.0, keys := ['10.0.0.1'])"
print(con.execute(f"SELECT prefix FROM {call}").fetchall())
"""


def test_the_checkout_finds_its_macros() -> None:
    """Law: beside the package in a checkout, every file of macros is there, each with a comment."""
    text = macro_script()
    assert text.count("CREATE OR REPLACE TEMP MACRO") == text.count("COMMENT ON MACRO TABLE") == 19
    for name in MACRO_FILES:
        assert (ROOT / "sql" / name).read_text("utf-8") in text


def shipped() -> set[str]:
    """What a user needs: modules, the files that they read, and the macros. No benchmark."""
    package = ROOT / "dpframe"
    kinds = ("*.py", "*.pyi", "py.typed", "data/*", "pages/assets/*", "verifier/*.json")
    found = [path for kind in kinds for path in package.rglob(kind) if path.is_file()]
    names = {path.relative_to(ROOT).as_posix() for path in found}
    postgres = [f"postgres/{name}" for name in FILES]
    return names | {f"dpframe/sql/{name}" for name in (*MACRO_FILES, *postgres, "README.md")}


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("build", "hatchling")),
    reason="needs build and hatchling in this environment",
)
def test_the_wheel_finds_its_macros(tmp_path: Path) -> None:
    """Law: unpacked elsewhere, away from the checkout, the wheel registers and releases, and it
    holds what users need and nothing else."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    done = subprocess.run([*build, str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        archive.extractall(site)
    assert names == shipped()
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", RELEASE],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    where, rows, counts = done.stdout.splitlines()
    assert Path(where).is_relative_to(site)
    assert not Path(where).is_relative_to(Path(dpframe.__file__).parent)
    assert rows == "[('*',), ('10.0.0.1/32',)]"
    assert counts == "[('*',), ('10.0.0.1',), ('<other>',)]"
    for name in MACRO_FILES:
        assert (site / "dpframe" / "sql" / name).is_file()
