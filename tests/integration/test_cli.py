"""The command line on real files; the first case of each kind as a real subprocess."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dpframe.doors.cli import main as cli

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dpframe", *arguments], capture_output=True, text=True, cwd=cwd
    )


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    file = tmp_path / "visits.parquet"
    frame = pd.DataFrame({"src": ["10.1.2.3"] * 400 + ["10.9.0.1"] * 300, "who": range(700)})
    frame.to_parquet(file)
    return file


def test_the_demo_prints_the_frame_and_the_card_and_writes_a_report(tmp_path: Path) -> None:
    """The README's first command: real flights in, a noisy frame, a card and a page out."""
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "JFK" in done.stdout
    assert "Privacy card" in done.stderr
    assert "adding or removing one user ('aircraft')" in done.stderr
    page = (tmp_path / "dpframe-demo.html").read_text("utf-8")
    assert "JFK" in page
    assert "http" not in page.replace("<!doctype html>", "")  # nothing from outside


MISTAKES = {
    "hhh t.parquet columns:x --epsilon 1": "pass --delta,",
    "hhh t.parquet columns:x --epsilon 1 --delta 1e-6 --release r": "--release needs --ledger,",
    "hhh t.parquet columns:x --epsilon 1 --delta 1e-6 --mechanism paper": "Pass --acknowledge, or "
    "use --mechanism offline.",
    "explain columns:x --epsilon 1 --delta 1e-6 --mechanism paper --acknowledge": "Pass "
    "--no-remainder.",
    "explain-heavy-hitters x --epsilon 1 --delta 1e-6 -k 0": "k (0) must be a whole number",
    "tree-counts t.parquet columns:x --epsilon 1": "--keys FILE or --keys domain",
    "synthesize t.parquet number:x --epsilon 1": "-n 1000",
    "ledger none.db": "dpframe ledger PATH --epsilon 3",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes_name_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: an argument that a message names is written as the command line takes it."""
    assert cli.main(command.split()) == 2
    said = capsys.readouterr().err
    assert MISTAKES[command] in said
    assert "dp.use_ledger" not in said


def test_a_hierarchy_in_a_mistake_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Law: what has to be written in a specification is no option."""
    assert cli.main(["explain-synthesize", "number:x", "--epsilon", "1"]) == 2
    assert "'number:COLUMN?lower=0&upper=100" in capsys.readouterr().err


def test_the_readme_names_commands_that_exist(tmp_path: Path) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    commands = [line for line in readme.splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith("dpframe demo")
    assert ".venv/bin/pytest" in commands[1]


@pytest.mark.parametrize("command", ["hhh", "tree-counts", "explain", "prefix-tree"])
def test_an_unknown_option_is_answered_by_its_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = [] if command == "explain" else ["rows.parquet"]
    with pytest.raises(SystemExit) as ended:
        cli.main([command, *place, "word", "--epsilom=1"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: dpframe {command} ")
    assert "unknown option --epsilom. Did you mean '--epsilon'?" in said
