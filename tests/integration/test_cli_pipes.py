"""The command line among other programs: pipes, formats, terminals and shells, as processes."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli.main import main
from dpframe.doors.cli.output import FORMATS, _sheet_value
from tests.doors import in_this_process

pytestmark = pytest.mark.engines  # processes of their own, most of them

DPFRAME = [sys.executable, "-m", "dpframe"]
SPENT = ["--measure=count", "--epsilon=8", "--delta=1e-3"]
ASKED = ["columns:p", "--epsilon", "8", "--delta", "1e-3", "--threshold", "50"]
LABELS = ["=1+1", "a|b<i>*", "\x1b[31mred", "plain"]
ROWS = pd.DataFrame({"p": LABELS * 300, "n": range(1200)})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ROWS.to_parquet("t.parquet")
    return tmp_path


def run(*arguments: str, given: bytes = b"") -> tuple[int, bytes, str]:
    done = subprocess.run([*DPFRAME, *arguments], input=given, capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


def on_a_terminal(
    *arguments: str, program: Sequence[str] = ("-m", "dpframe"), **settings: str
) -> tuple[int, str]:
    leader, follower = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, *program, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**environment, "TERM": "xterm", "PYTEST_CURRENT_TEST": "", **settings},
    )
    os.close(follower)
    sent = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # as Linux says that nobody writes any more
            break
        if not part:
            break
        sent += part
    os.close(leader)
    return process.wait(), sent.decode()


# -- formats -------------------------------------------------------------------------------------


def test_rows_go_to_stdout_and_the_card_to_stderr(here: Path) -> None:
    """Law: a pipe gets the table, every row of it, and nothing else."""
    code, out, said = run("hhh", "t.parquet", *ASKED)
    assert code == 0, said
    lines = out.decode().splitlines()
    assert lines[0].split() == ["level", "prefix", "p", "residual", "count", "lower", "upper"]
    assert len(lines) == 6
    assert "\x1b" not in out.decode() + said
    assert said.lstrip().startswith("Privacy card")


def test_a_pipe_gets_more_rows_than_a_terminal(here: Path) -> None:
    pd.DataFrame({"p": [f"w{i:02}" for i in range(60)] * 200}).to_parquet("many.parquet")
    code, out, _ = run("hhh", "many.parquet", *ASKED)
    assert (code, len(out.splitlines())) == (0, 62)
    code, sent = on_a_terminal("hhh", "many.parquet", *ASKED)
    assert (code, "... and 21 more rows" in sent) == (0, True)


def test_a_terminal_gets_a_table_for_people_and_a_pipe_the_columns(here: Path) -> None:
    """Law: digits are grouped, intervals are in one column, and nodes stand below each other."""
    rows = pd.DataFrame({"p": ["a"] * 1200 + ["b"] * 2300, "q": ["x", "y"] * 1750})
    rows.to_parquet("two.parquet")
    code, sent = on_a_terminal("rollup", "two.parquet", "columns:p,q", *SPENT)
    assert code == 0
    lines = [line for line in sent.splitlines() if line][:7]
    assert re.search(r"p / q +count +95 % interval", lines[0])
    assert re.fullmatch(r"\(all\) +3,\d{3}  3,\d{3} to 3,\d{3}", lines[1])
    assert [line[:4].rstrip() for line in lines[1:]] == ["(all", "a", "  x", "  y", "b", "  x"]
    code, out, _ = run("rollup", "two.parquet", "columns:p,q", *SPENT)
    head, total, *_ = out.decode().splitlines()
    assert head.split() == ["level", "prefix", "p", "q", "count", "count_lower", "count_upper"]
    assert "," not in total


def read(name: str, content: bytes) -> list[str]:
    """The labels of one level in any format."""
    if name == "csv":
        return sorted(pd.read_csv(io.BytesIO(content))["p"].dropna())
    if name == "json":
        return sorted(row["p"] for row in json.loads(content)["rows"] if row["level"])
    if name == "parquet":
        table = pq.read_table(io.BytesIO(content))
    elif name == "arrow":
        table = pa.ipc.open_file(content).read_all()
    elif name == "xlsx":
        return sorted(pd.read_excel(io.BytesIO(content))["p"].dropna())
    else:
        return [line.strip() for line in content.decode().splitlines()]
    assert receipt_in_metadata(table.schema.metadata)["epsilon"] == 8.0  # type: ignore[index]
    return sorted(filter(None, table["p"].to_pylist()))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_the_same_in_a_pipe_and_in_a_file(here: Path, name: str) -> None:
    """Law: --format writes on stdout what it writes to a file of its ending, or of none."""
    code, out, said = run("hhh", "t.parquet", *ASKED, "--format", name, "--quiet")
    assert (code, said) == (0, "")
    found = read(name, out)
    for path in (f"out{FORMATS[name].endings[0]}", "out"):
        given = ["hhh", "t.parquet", *ASKED, "--quiet", "-o", path]
        assert in_this_process(*given, "--format", name, cwd=here).returncode == 0
        assert len(read(name, Path(path).read_bytes())) == len(found)
    if name in ("json", "parquet", "arrow"):
        assert found == sorted(LABELS)
    elif name == "csv":
        assert found == sorted(["'=1+1", *LABELS[1:]])
    elif name == "xlsx":  # which cannot hold control characters
        assert found == sorted(["\\x1b[31mred", *(x for x in LABELS if "\x1b" not in x)])
    elif name == "markdown":
        assert found[0].startswith("| level | prefix |")
        assert found[1].split(" | ")[:2] == ["| ---:", "---"]
        assert sum("a\\|b\\<i\\>\\*" in line for line in found) == 1
    else:
        assert found[0].split()[0] == "level"


def test_a_sheet_runs_nothing_and_has_the_card(here: Path) -> None:
    """Law: a label that begins as a formula is a text; numbers are numbers."""
    assert run("hhh", "t.parquet", *ASKED, "-o", "out.xlsx", "--quiet") == (0, b"", "")
    book = openpyxl.load_workbook("out.xlsx")
    assert book.sheetnames == ["result", "privacy card"]
    cells = {cell.value: cell.data_type for row in book["result"].iter_rows() for cell in row}
    assert cells["=1+1"] == "s"
    assert cells[1] == "n"
    assert book["privacy card"]["A1"].value == "guarantee"


def test_a_sheet_holds_a_value_of_every_type() -> None:
    """Law: what a cell cannot hold as it is is text, and nothing is rounded."""
    stamp = pd.Timestamp("2020-01-01 10:00")
    assert _sheet_value(stamp) == stamp
    assert _sheet_value(stamp.tz_localize("UTC")) == "2020-01-01 10:00:00+00:00"
    assert _sheet_value(2**53 + 1) == "9007199254740993"
    assert _sheet_value(float("inf")) == "inf"
    assert (_sheet_value(pd.NaT), _sheet_value(None), _sheet_value("a\x00")) == (
        None,
        None,
        "a\\x00",
    )


def test_a_format_is_refused_before_anything_is_charged(here: Path) -> None:
    """Law: contradictions, and a library that is missing, cost nothing; the message says what to
    type."""
    ledger = ["--ledger", "b.db"]
    assert in_this_process("ledger", "b.db", "--epsilon=9", "--delta=0.1", cwd=here).returncode == 0
    for path in ("x.csv", "x.html"):
        given = ["hhh", "t.parquet", *ASKED, *ledger, "-o", path, "--format", "json"]
        done = in_this_process(*given, cwd=here)
        assert done.returncode == 2
        assert f"--format json and -o '{path}' contradict each other" in done.stderr
        assert "end the name in .json" in done.stderr
    given = ["hhh", "t.parquet", *ASKED, *ledger, "--format", "xlsx"]
    done = subprocess.run([sys.executable, "-c", HIDDEN, *given], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "dpframe: xlsx needs openpyxl. Run pip install 'dpframe[xlsx]'.\n"
    code, sent = on_a_terminal("hhh", "t.parquet", *ASKED, *ledger, "--format", "parquet")
    assert code == 2
    assert "nothing that a terminal can show" in sent
    assert dp.Ledger("b.db").spent.epsilon == 0


HIDDEN = (
    "import importlib.util as u, sys; f = u.find_spec; "
    "u.find_spec = lambda n, *a: None if n == 'openpyxl' else f(n, *a); "
    "from dpframe.doors.cli.main import main; sys.exit(main())"
)
"""As if openpyxl were not installed."""


def test_the_receipt_is_a_line_of_json(here: Path) -> None:
    """Law: with --json stderr holds the receipt alone, also with --quiet and a file."""
    for more in ([], ["--quiet"], ["-o", "out.csv"], ["-o", "out.csv", "--quiet"]):
        code, out, said = run("hhh", "t.parquet", *ASKED, "--json", *more)
        assert code == 0
        assert json.loads(said)["threshold"] == 50
        assert said.count("\n") == 1
        assert bool(out) == (more != ["-o", "out.csv", "--quiet"])


# -- standard input ------------------------------------------------------------------------------


def piped_as() -> dict[str, bytes]:
    table = pa.Table.from_pandas(ROWS)
    parquet, arrow, stream = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_file(arrow, table.schema) as file:
        file.write_table(table)
    with pa.ipc.new_stream(stream, table.schema) as lines:
        lines.write_table(table)
    csv = ROWS.to_csv(index=False).encode()
    return {
        "csv": csv,
        "gzip": gzip.compress(csv),
        "parquet": parquet.getvalue(),
        "arrow": arrow.getvalue(),
        "stream": stream.getvalue(),
    }


@pytest.mark.parametrize("kind", piped_as())
def test_standard_input_is_read_by_its_first_bytes(here: Path, kind: str) -> None:
    """Law: rows that are piped in are counted as those of a file are, and leave no file behind."""
    folder = here / "scratch"
    folder.mkdir()
    done = subprocess.run(
        [*DPFRAME, "hhh", "-", *ASKED, "-o", "-", "--format=json", "--quiet"],
        input=piped_as()[kind],
        capture_output=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert sorted(row["p"] for row in rows if row["level"]) == sorted(LABELS)
    assert list(folder.glob("dpframe-*/piped*")) == []


def test_a_pipeline_ends_in_another_release(here: Path) -> None:
    first = subprocess.Popen(
        [*DPFRAME, "hhh", "t.parquet", *ASKED, "--format", "arrow", "--quiet"],
        stdout=subprocess.PIPE,
    )
    assert first.stdout is not None
    again = [*DPFRAME, "hhh", "-", "level", "--epsilon=9", "--delta=1e-3", "--format=csv"]
    with first.stdout as rows:
        second = subprocess.run(again, stdin=rows, capture_output=True, text=True)
    assert (first.wait(), second.returncode) == (0, 0)
    assert second.stdout.startswith("level,prefix,level_,residual,count")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "standard input is empty"),
        (b"PAR1 and then nothing", "standard input is no Parquet file"),
        (b"ARROW1 and then nothing", "standard input begins as Arrow data, and is damaged"),
        (b"\xff\xff\xff\xff\x00\x01", "standard input begins as Arrow data, and is damaged"),
        (b"q,r\n1,2\n", "column 'p' does not exist"),
    ],
)
def test_what_cannot_be_read_is_told_without_paths_or_data(
    here: Path, given: bytes, said: str
) -> None:
    """Law: one line, of standard input and not of the file that it is kept in."""
    code, out, err = run("hhh", "-", *ASKED, given=given)
    assert (code, out) == (2, b"")
    assert said in err
    assert len(err.splitlines()) == 1
    assert "piped" not in err
    assert "Traceback" not in err


def test_a_named_release_of_a_pipe_replays(here: Path) -> None:
    """Law: a pipe has one name, however often it is kept elsewhere."""
    assert in_this_process("ledger", "b.db", "--epsilon=9", "--delta=0.1", cwd=here).returncode == 0
    call = ["hhh", "-", *ASKED, "--ledger=b.db", "--release=r"]
    first, second = (run(*call, given=piped_as()["csv"]) for _ in range(2))
    assert (first[0], second[0]) == (0, 0)
    assert second[1] == first[1]
    assert "replayed: drawn on" in second[2]


# -- terminals and shells ------------------------------------------------------------------------


def test_a_terminal_has_colours_unless_it_asks_for_none(here: Path) -> None:
    """Law: styles are ours alone: what labels hold is spelled out; NO_COLOR and dumb terminals get
    none."""
    code, sent = on_a_terminal("hhh", "t.parquet", *ASKED)
    assert code == 0
    assert "\x1b[1mp  " in sent
    assert "\x1b[1mPrivacy card\x1b[0m" in sent
    assert "\\x1b[31mred" in sent
    assert "\x1b[31m" not in sent
    for settings in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, sent = on_a_terminal("hhh", "t.parquet", *ASKED, **settings)
        assert (code, "\x1b" in sent) == (0, False)
    code, sent = on_a_terminal("hhh", "t.parquet", "q", "--epsilon=1", "--delta=1e-6")
    assert code == 2
    assert sent.startswith("\x1b[1;31mdpframe:\x1b[0m")
    code, sent = on_a_terminal("hhh", "-", *ASKED)
    assert (code, "is a terminal. Pipe rows in" in sent) == (2, True)


def test_a_terminal_sees_what_takes_long(here: Path) -> None:
    """Law: the step and its time, gone before the rows come; not with --quiet, not in a pipe."""
    code = (
        "import sys, time, dpframe.common.progress as p, dpframe.asking.release as r; "
        "from dpframe.doors.cli.main import main; p.AFTER = p.EVERY = 0.02; "
        "old = r.charge_draw; "
        "r.charge_draw = lambda *a, **b: (time.sleep(1.5), old(*a, **b))[1]; sys.exit(main())"
    )
    given = ["hhh", "t.parquet", *ASKED]
    status, sent = on_a_terminal(*given, program=["-c", code])
    assert status == 0
    assert "planning the noise: 00:0" in sent
    assert sent.rindex("planning the noise") < sent.index("residual")
    status, sent = on_a_terminal(*given, "--quiet", program=["-c", code])
    assert (status, "planning" in sent) == (0, False)
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True)
    assert (done.returncode, "planning" in done.stderr) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hhhh"], ["unknown command hhhh. Did you mean 'hhh'?", "usage: dpframe [OPTIONS] COMM"]),
        (["hhh", "t.parquet"], ["usage: dpframe hhh [OPTIONS] FILE HIERARCHY", "ip:src"]),
        (["hhh", "t.parquet", "p", "--treshold=4"], ["--threshold THRESHOLD", "--treshold. Did"]),
        (["hhh", "t.parquet", "p", "--epsilon", "x"], ["--epsilon EPSILON", "privacy budget"]),
        (["hhh", "t.parquet", "p", "--format", "xml"], ["'xml'", "--format FORMAT"]),
        (["completion", "tcsh"], ["usage: dpframe completion [OPTIONS] SHELL", "'fish'"]),
        (["plan-series", "hh"], ["unknown question hh. Did you mean 'hhh'?"]),
    ],
)
def test_a_mistake_of_usage_is_answered_in_a_few_lines(
    here: Path, arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Law: the usage of the command that was given, and what is next to what was written."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    out, said = capsys.readouterr()
    assert (out, len(said.splitlines()) <= 7) == ("", True)
    for word in words:
        assert word in said


def test_names_of_python_are_commands_too(here: Path) -> None:
    given = ["heavy_hitters", "t.parquet", "p", "--epsilon=8", "--delta=1e-3", "--quiet"]
    done = in_this_process(*given, cwd=here)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["p", "count"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(here: Path, shell: str) -> None:
    """Law: it names commands and options; a shell that is there can read it."""
    code, out, said = run("completion", shell)
    assert (code, said) == (0, "")
    for word in ("heavy-hitters", "threshold", "plan-series"):
        assert word in out.decode()
    if shutil.which(shell):
        Path("script").write_bytes(out)
        assert subprocess.run([shell, "-n", "script"]).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_files(here: Path) -> None:
    script = run("completion", "bash")[1].decode()
    asks = (
        'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_dpframe dpframe '
        '"${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[@]}"; }\n'
        "try dpframe heavy\ntry dpframe hhh --thres\ntry dpframe hhh t.par\n"
        "try dpframe hhh t.parquet p --format mark\n"
    )
    done = subprocess.run(["bash", "--norc", "-c", script + asks], capture_output=True, text=True)
    assert done.stdout.split("\n")[:4] == ["heavy-hitters", "--threshold", "t.parquet", "markdown"]
