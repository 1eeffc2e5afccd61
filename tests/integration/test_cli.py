"""The command line on real files, full disks, spreadsheets and terminals."""

from __future__ import annotations

import argparse
import base64
import io
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import Release
from dpframe.doors.cli import main as cli
from dpframe.doors.cli.main import main
from dpframe.doors.cli.output import deliver, escape_for_spreadsheets, say

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


# -- what was paid for is not lost, and what is shown is not obeyed --------------------------------


SPEND = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, a ledger, and files that lead to a full disk."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"p": ["=1+1"] * 400 + ["\x1b[31mred"] * 400 + ["-7"] * 400, "x": 1.5})
    frame.to_parquet("t.parquet")
    dp.Ledger("b.db", epsilon=9.0, delta=1e-3)
    for name in ("full.csv", "full.parquet", "full.html"):
        Path(name).symlink_to("/dev/full")
    return tmp_path


def ran(*arguments: str, stdout: int | io.IOBase = subprocess.PIPE) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "dpframe", *arguments], stdout=stdout, stderr=subprocess.PIPE
    )
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def test_a_full_disk_loses_nothing_that_was_paid_for(here: Path) -> None:
    """Exit code 1, one line a file that failed, and the whole result on stdout, also when quiet."""
    given = ["hhh", "t.parquet", "columns:p", *SPEND, "--ledger", "b.db", "--quiet"]
    code, out, err = ran(*given, "-o", "full.csv", "--report", "page.html")
    assert code == 1
    assert "the result was not written to 'full.csv': No space left on device" in err
    assert "Traceback" not in err
    result = json.loads(out)
    assert len(result["rows"]) == 4
    assert result["receipt"]["ledger"]["left_epsilon"] == 8.0
    assert Path("page.html").exists()
    assert dp.Ledger("b.db").spent.epsilon == 1.0


def test_a_full_standard_output_loses_nothing_either(here: Path) -> None:
    """Where nothing but the terminal was asked for, the other stream gets it."""
    with open("/dev/full", "wb") as full:
        code, _, err = ran("hhh", "t.parquet", "columns:p", *SPEND, stdout=full)
    assert code == 1
    assert "Traceback" not in err
    start, end = err.index("{"), err.rindex("}")
    assert len(json.loads(err[start : end + 1])["rows"]) == 4


def test_json_holds_a_value_of_every_type(here: Path) -> None:
    """Times as text with a blank, as .csv has them; infinity as text; the rest as JSON has it."""
    duckdb.sql(
        "COPY (SELECT DATE '2025-12-31' AS d, TIMESTAMP '2025-12-31 10:00:00' AS t, "
        "TIMESTAMPTZ '2025-12-31 10:00:00+00' AS z, '-inf'::DOUBLE AS f, 0.1::FLOAT AS g, "
        "9007199254740993 AS i, true AS b, 'x' AS s FROM range(400)) TO 'types.parquet'"
    )
    held = {
        "d": "2025-12-31",
        "t": "2025-12-31 10:00:00",
        "z": "2025-12-31 10:00:00+00:00",
        "f": "-inf",
        "g": 0.1,
        "i": 2**53 + 1,
        "b": True,
        "s": "x",
    }
    for command in ("hhh", "tree-counts"):
        given = [command, "types.parquet", "columns:d,t,z,f,g,i,b,s", *SPEND, "--quiet"]
        assert main([*given, "-o", "out.json"]) == 0
        rows = json.loads(Path("out.json").read_text())["rows"]
        assert {c: rows[0][c] for c in held} == dict.fromkeys(held)
        (full,) = (r for r in rows if r["prefix"].endswith("/ x"))
        assert {c: full[c] for c in held} == held
        assert type(full["count"]) is int
    code, out, _ = ran("hhh", "types.parquet", "columns:d", *SPEND, "-o", "full.csv")
    assert (code, json.loads(out)["rows"][-1]["d"]) == (1, "2025-12-31")


def test_a_rescue_that_fails_is_rescued(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever cannot be written, the rows and the receipt are shown."""

    def fails(_: object = None) -> str:
        raise NotImplementedError("no such type")

    quiet = argparse.Namespace(output="a.csv", format=None, quiet=True, json=False, unescaped=False)
    result = Release(pd.DataFrame({"count": [41]}), Receipt({"epsilon": 1.0}))
    assert deliver(quiet, {"a.csv": fails}, lambda: result, fails, "It follows") == 1
    out = capsys.readouterr().out
    assert "41" in out
    assert '{"epsilon": 1.0}' in out


def test_a_quiet_release_is_printed_where_nobody_else_has_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: --quiet leaves the rows alone on stdout, and nothing where a file or a name has them."""
    spends = ["--epsilon", "1", "--ledger", "b.db", "--quiet"]
    number = "number:x?lower=0&upper=4"
    for command, column in (
        ("hhh", "columns:p"),
        ("tree-counts", "columns:p"),
        ("heavy-hitters", "p"),
    ):
        assert main([command, "t.parquet", column, "--delta", "1e-6", *spends]) == 0
        rows, said = capsys.readouterr()
        assert " count " in rows.splitlines()[0]
        assert said == ""
    assert main(["synthesize", "t.parquet", number, "-n", "3", *spends]) == 0
    assert capsys.readouterr().out.split()[0] == "x"
    assert dp.Ledger("b.db").spent.epsilon == 4
    assert main(["hhh", "t.parquet", "columns:p", *SPEND, *spends[2:], "--release", "r"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("option", ["-o", "--save"])
def test_a_generator_is_not_lost_with_its_rows(
    here: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """What was paid for is the generator; rows can be drawn from it again."""
    target = {"-o": "full.csv", "--save": "full.parquet"}[option]
    given = ["synthesize", "t.parquet", "number:x?lower=0&upper=4", "--epsilon", "1", "-n", "5"]
    assert main([*given, option, target]) == 1
    said = capsys.readouterr()
    assert "base64" in said.err
    Path("saved.parquet").write_bytes(base64.b64decode(said.out))
    assert len(dp.Generator.load("saved.parquet").sample(7)) == 7


# -- spreadsheets --------------------------------------------------------------------------------


def test_a_spreadsheet_runs_nothing_that_was_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts that begin as formulas get an apostrophe, numbers do not; an option leaves all."""
    given = ["hhh", "t.parquet", "columns:p", *SPEND, "--quiet"]
    read = {}
    for more in ([], ["--unescaped"]):
        assert main([*given, "-o", "out.csv", *more]) == 0
        read[len(more)] = pd.read_csv("out.csv", dtype=str)
    assert set(read[0]["p"].dropna()) == {"'=1+1", "-7", "\x1b[31mred"}
    assert set(read[1]["p"].dropna()) == {"=1+1", "-7", "\x1b[31mred"}
    assert read[0]["level"].tolist() == ["0", "1", "1", "1"]


def test_what_begins_as_a_formula_is_told_from_numbers() -> None:
    """Also in names of columns and in categories; numbers as text run nothing."""
    texts = ["=A1", "+A1", "-A1", "@A1", "\tx", "\rx", "＝A1", "-1", "+1.5e3", "-1-1", "x=1", None]
    frame = pd.DataFrame({"=f()": pd.Categorical(texts), "n": range(-6, 6), "s": [-1.5] * 12})
    safe = escape_for_spreadsheets(frame)
    assert list(safe.columns) == ["'=f()", "n", "s"]
    assert safe["'=f()"].tolist()[:11] == [
        *("'=A1", "'+A1", "'-A1", "'@A1", "'\tx", "'\rx", "'＝A1"),
        *("-1", "+1.5e3", "'-1-1", "x=1"),
    ]
    assert safe["n"].dtype == "int64"
    assert list(frame.columns) == ["=f()", "n", "s"]


# -- terminals -----------------------------------------------------------------------------------


def test_a_terminal_shows_labels_and_does_not_obey_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows, cards, errors and arguments: no escape sequence gets through."""
    frame = pd.DataFrame({"\x1b]0;title\x07": ["a\u202eb"] * 400})
    frame.to_parquet("odd.parquet")
    assert main(["hhh", "t.parquet", "columns:p", *SPEND]) == 0
    assert main(["hhh", "odd.parquet", "columns:\x1b]0;title\x07", *SPEND]) == 0
    assert main(["explain", "columns:\x1b]0;title\x07", *SPEND]) == 0
    assert main(["hhh", "\x1b[2J.parquet", "columns:p", *SPEND]) == 2
    with pytest.raises(SystemExit):
        main(["\x1b[2J"])
    said = "".join(capsys.readouterr())
    assert not set("\x1b\x07\u202e") & set(said)
    assert "\\x1b[31mred" in said
    assert "a\\u202eb" in said
    result = dp.hhh(frame, ["\x1b]0;title\x07"], epsilon=1.0, delta=1e-6)
    assert "\x1b" not in f"{result.dp.receipt}{result.dp.receipt!r}"


def test_a_label_that_the_terminal_cannot_write_is_spelled() -> None:
    """Printing never fails once a release is paid for."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    say("Zürich \ud800\nTokyo 東京", out)
    out.flush()
    shown = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert shown.splitlines() == ["Z\\xfcrich \\ud800", "Tokyo \\u6771\\u4eac"]
