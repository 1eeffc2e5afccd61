"""Tracebacks as users see them: in processes of their own, plain and in IPython."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engines  # processes of their own, most of them

PREPARED = """
import pandas as pd, polars as pl, dpframe as dp
df = pd.DataFrame({"country": ["FR"] * 400})
spends = {"epsilon": 1.0, "delta": 1e-6}
def analyst():
    return CALL
"""

CALLS = {
    "an accessor": "df.dp.hhh('cuontry', **spends)",
    "an unknown argument": "df.dp.hhh('country', epsilonn=1.0)",
    "a function": "dp.tree_counts(df, 'country', epsilon=-1.0)",
    "an explanation": "dp.explain('country', epsilon=-1.0, delta=1e-6)",
    "a class": "dp.Ledger('no.db')",
    "a property": "df.dp.receipt",
    "a method afterwards": "df.dp.hhh('country', **spends).assign(count=1).dp.share()",
    "Polars": "pl.from_pandas(df).dp.hhh('cuontry', **spends)",
    "DuckDB": "dp.register(3)",
    "a hierarchy": "dp.ip('a', prefixes=(99,)).validate() or dp.hhh(df, dp.ip(3), **spends)",
}


def said(code: str, cwd: Path, *, program: str = "python", **settings: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "DPFRAME_TRACEBACK"}
    (cwd / "script.py").write_text(code)
    run = {
        "python": [sys.executable, "script.py"],
        "ipython": [sys.executable, "-m", "IPython", "--colors=NoColor", "script.py"],
    }[program]
    home = {"IPYTHONDIR": str(cwd / "ipython")}
    done = subprocess.run(
        run, capture_output=True, text=True, cwd=cwd, env={**environment, **home, **settings}
    )
    assert done.returncode == 1
    return done.stdout + done.stderr


@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_ours_shows_the_line_of_the_caller(call: str, tmp_path: Path) -> None:
    """Law: the frames of a traceback are those of the caller and one of ours, which says how to see
    all; the last line is the message."""
    text = said(PREPARED.replace("CALL", CALLS[call]) + "analyst()\n", tmp_path)
    files = [line for line in text.splitlines() if line.lstrip().startswith("File ")]
    assert [line.rpartition(" ")[2] for line in files] == ["<module>", "analyst", "call"]
    assert ["script.py" in line for line in files] == [True, True, False]
    assert "DPFRAME_TRACEBACK=full" in text
    assert text.splitlines()[-1].startswith("dpframe.errors.")


def test_the_environment_brings_all_frames_back(tmp_path: Path) -> None:
    code = PREPARED.replace("CALL", CALLS["an accessor"]) + "analyst()\n"
    full, short = (said(code, tmp_path, DPFRAME_TRACEBACK=how) for how in ("full", "short"))
    assert len(full.splitlines()) > len(short.splitlines())
    assert len(short.splitlines()) < 12  # newer Pythons underline what was called


def test_ipython_shows_the_line_of_the_caller_too(tmp_path: Path) -> None:
    """Law: notebooks are shown the cell, and with the setting everything."""
    code = PREPARED.replace("CALL", CALLS["an accessor"]) + "analyst()\n"
    text = said(code, tmp_path, program="ipython")
    assert "column 'cuontry' does not exist" in text
    assert "analyst" in text
    assert "dpframe/" not in text
    assert "dpframe/" in said(code, tmp_path, program="ipython", DPFRAME_TRACEBACK="full")


def test_errors_of_others_keep_every_frame(tmp_path: Path) -> None:
    """Law: a bug of ours, or what a caller's own object raises, is shown as it is; so is what the
    caller was handling when ours was raised."""
    broken = PREPARED.replace("CALL", "dp.hhh(df, 'country', **spends)")
    broken += (
        "import dpframe.asking.answer as a\na.answer_checked = lambda *_, **__: 1 / 0\nanalyst()\n"
    )
    text = said(broken, tmp_path)
    assert text.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert "asking/answer.py" in text
    handling = PREPARED.replace("CALL", CALLS["an accessor"])
    handling += "def mine():\n    1 / 0\ntry:\n    mine()\nexcept ZeroDivisionError:\n    analyst()"
    text = said(handling, tmp_path)
    assert ", in mine" in text
    assert "During handling of the above exception" in text


def test_what_led_to_an_error_is_told_without_our_frames(tmp_path: Path) -> None:
    """Law: the cause is named, and only the file of ours that raises the error."""
    (tmp_path / "bad.db").write_text("no database, but a text of some length")
    text = said("import dpframe as dp\ndp.Ledger('bad.db')\n", tmp_path)
    assert "sqlite3.DatabaseError" in text
    assert text.count("dpframe/") == 1


def test_whoever_shows_errors_already_goes_on(tmp_path: Path) -> None:
    """Law: a program with a hook of its own keeps it."""
    code = (
        "import sys, dpframe as dp\nsys.excepthook = lambda *e: print('mine', e[0].__name__)\n"
        "dp.Ledger('no.db')\n"
    )
    assert said(code, tmp_path).strip() == "mine LedgerError"
