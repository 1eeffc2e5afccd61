"""The recipes of ``docs/adding.md``, with ``tests/recipes``, in a copy of the package."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "tests" / "recipes"
EDIT = re.compile(r"^=== (\S+)\n(.*?)(?=^===|\Z)", re.M | re.S)
COMMAND = re.compile(r"^python -m (dpframe[\w.]+)", re.M)

FRAME = """
import contextlib, io, json, runpy, sys
for module in sys.argv[1:]:
    runpy.run_module(module, run_name="__main__")
import duckdb, pandas as pd, dpframe as dp
from dpframe.doors.cli.main import main
frame, asked = pd.DataFrame({"a": ["x"] * 90}), {"epsilon": 1.0, "delta": 1e-6}
frame.to_csv("rows.csv", index=False)
con = duckdb.connect()
con.execute(
    "CREATE TABLE rows AS SELECT 'x' AS a FROM range(90)")
macros, options = "'rows', 'columns:a', epsilon := 1.0, delta := 1e-6", "--epsilon 1 --delta 1e-6"

def sql(query):
    dp.register(con)
    return con.execute(query).fetchone()[0]

def line(command):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        assert main(command.split()) == 0, said.getvalue()
    return said.getvalue()

def said(door):
    try:
        return door()
    except BaseException as error:
        return repr(error)
"""

QUESTION = """
print(json.dumps({name: said(door) for name, door in {
    "function": lambda: int(dp.total(frame, ["a"], **asked)["count"].iloc[0]),
    "accessor": lambda: int(frame.dp.total(["a"], **asked)["count"].iloc[0]),
    "sql": lambda: sql(f"SELECT count FROM dp_total({macros})"),
    "explained": lambda: "Laplace" in str(dp.explain_total(frame, ["a"], **asked)),
    "explained by the accessor": lambda: "Laplace" in str(frame.dp.explain_total(["a"], **asked)),
    "explained in sql": lambda: sql(
        f"SELECT count(*) > 3 FROM dp_explain_total({macros})"),
    "command": lambda: "total" in line(f"total rows.csv columns:a {options}"),
    "explained on the command line": lambda: "Laplace" in line(
        f"explain-total columns:a {options}"),
}.items()}))
"""

MECHANISM = """
asked["mechanism"] = "leaves"
print(json.dumps({name: said(door) for name, door in {
    "function": lambda: int(dp.hhh(frame, ["a"], **asked)["count"].iloc[1]),
    "accessor": lambda: int(frame.dp.hhh(["a"], **asked)["count"].iloc[1]),
    "sql": lambda: sql(
        f"SELECT count FROM dp_hhh({macros}, mechanism := 'leaves') WHERE level = 1"),
    "explained": lambda: "stability" in str(dp.explain(["a"], **asked)),
    "command": lambda: "x" in line(f"hhh rows.csv columns:a {options} --mechanism leaves"),
}.items()}))
"""


ARGUMENT = """
from pathlib import Path
frame = pd.DataFrame({
    "a": ["x"] * 99 + ["y"] * 60,
    "b": [*map(str, range(99))] + ["z"] * 60,
    "when": pd.Timestamp("2025-01-07"),
})
frame.to_csv("both.csv", index=False)
frame.to_parquet("both.parquet")
con.execute("CREATE TABLE pairs AS FROM 'both.parquet'")
macros, asked = macros.replace("'rows', 'columns:a'", "'pairs', 'columns:a,b'"), {
    **asked, "hierarchy": ["a", "b"]}
Path("reports.toml").write_text('''
publish = "results.duckdb"
source = "both.parquet"
[ledger]
path = "budget.db"
epsilon = 2.0
delta = 1e-5
[period]
column = "when"
unit = "week"
first = "2025-W02"
[[report]]
name = "both"
question = "hhh"
hierarchy = ["a", "b"]
epsilon = 1.0
delta = 1e-6
coarsest = 2
''')

def series():
    done = dp.Series.read("reports.toml").run("2025-W02")
    assert done.code == 0, done.steps
    with duckdb.connect("results.duckdb", read_only=True) as published:
        return published.execute("SELECT prefix FROM both_2025_w02").fetchall() == [("y / z",)]

def hidden():
    "What is left out can be large: that nothing is there is not known."
    every, few = dp.hhh(frame, **asked), dp.hhh(frame, coarsest=2, **asked)
    told = dp.change(every, few).set_index("prefix")
    return bool(told.loc["x", "change_upper"] is pd.NA)

print(json.dumps({name: said(door) for name, door in {
    "function": lambda: dp.hhh(frame, coarsest=2, **asked)["prefix"].tolist() == ["y / z"],
    "without": lambda: dp.hhh(frame, **asked)["prefix"].tolist() == ["*", "x", "y / z"],
    "accessor": lambda: frame.dp.hhh(coarsest=1, **asked)["level"].tolist() == [1, 2],
    "sql": lambda: sql(f"SELECT list(level) = [2] FROM dp_hhh({macros}, coarsest := 2)"),
    "explained": lambda: "coarser" in str(dp.explain(coarsest=2, **asked)),
    "explained in sql": lambda: sql(
        f"SELECT value = '2' FROM dp_explain({macros}, coarsest := 2) "
        "WHERE quantity = 'coarsest'"),
    "command": lambda: "coarser" in line(f"hhh both.csv columns:a,b {options} --coarsest 2"),
    "series": series,
    "request": lambda: dp.explain(coarsest=2, **asked).plan.request["coarsest"] == 2,
    "request without": lambda: "coarsest" not in dp.explain(**asked).plan.request,
    "proof": lambda: str(dp.verify(dp.hhh(frame, coarsest=2, **asked))).startswith("proved"),
    "readers": hidden,
    "the other question of the room": lambda: dp.heavy_hitters(
        frame, "a", epsilon=1.0, delta=1e-6)["a"].tolist() == ["x", "y"],
    "too coarse": lambda: "from 0 to 2" in said(lambda: dp.hhh(frame, coarsest=3, **asked)),
    "several": lambda: "several" in said(
        lambda: dp.hhh(frame, "columns:a * columns:b", epsilon=1, delta=1e-6, coarsest=1)),
    "streaming": lambda: "goes only with" in said(
        lambda: dp.hhh(frame, coarsest=1, mechanism="streaming", **asked)),
}.items()}))
"""


def recipe(title: str) -> str:
    text = (ROOT / "docs" / "adding.md").read_text("utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def edited(text: str, diff: str) -> str:
    """A text with a diff without line numbers, whose parts have ``...`` between them."""
    for part in diff.split("\n...\n"):
        lines = part.strip("\n").split("\n")
        before = "\n".join(line[1:] for line in lines if line[0] != "+")
        after = "\n".join(line[1:] for line in lines if line[0] != "-")
        assert text.count(before) == 1, f"not there once: {before!r}"
        text = text.replace(before, after)
    return text


def typed(title: str, folder: Path) -> tuple[list[str], list[str]]:
    for name in ("dpframe", "sql"):
        shutil.copytree(ROOT / name, folder / name)  # with what is compiled
    text = recipe(title)
    files = RECIPES / title.split()[-1]
    new = [path.relative_to(files).as_posix() for path in files.rglob("*.py")]
    assert sorted(new) == sorted(re.findall(r"^\d\. `(dpframe/[\w/.]+)`", text, re.M))
    for name in new:
        assert not (folder / name).exists()
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(files / name, folder / name)
    edits = EDIT.findall((files / "edits.diff").read_text("utf-8"))
    for name, code in edits:
        assert f"`{name.removeprefix('dpframe/')}`" in text
        path = folder / name
        path.write_text(edited(path.read_text("utf-8"), code), "utf-8")
    return new, [name for name, _ in edits]


def answers(title: str, script: str, folder: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", FRAME + script, *COMMAND.findall(recipe(title))],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_who_follows_adding_a_question_has_it_at_every_door(tmp_path: Path) -> None:
    """A room, a mechanism and two edits."""
    new, changed = typed("Adding a question", tmp_path)
    assert len([name for name in new if not name.startswith("dpframe/questions/total/")]) == 1
    assert len(changed) == 2
    said = answers("Adding a question", QUESTION, tmp_path)
    for door in ("function", "accessor", "sql"):
        count = said.pop(door)
        assert isinstance(count, int), count
        assert abs(count - 90) < 40, count
    assert said == dict.fromkeys(said, True)


def test_who_follows_adding_an_argument_has_it_at_every_door(tmp_path: Path) -> None:
    """Edits in the room, and of what reads its releases; calls without it are as they were."""
    new, changed = typed("Adding an argument", tmp_path)
    assert not new
    assert all(name.startswith("dpframe/questions/hhh/") for name in changed[:4])
    said = answers("Adding an argument", ARGUMENT, tmp_path)
    assert said == dict.fromkeys(said, True)


def test_who_follows_adding_a_mechanism_can_choose_it_at_every_door(tmp_path: Path) -> None:
    """Its file, its plan, and an entry in one table."""
    new, changed = typed("Adding a mechanism", tmp_path)
    assert (len(new), len(changed)) == (2, 1)
    said = answers("Adding a mechanism", MECHANISM, tmp_path)
    for door in ("function", "accessor", "sql"):
        count = said.pop(door)
        assert isinstance(count, int), count
        assert abs(count - 90) < 40, count
    assert said == dict.fromkeys(said, True)


def test_a_recipe_that_no_longer_fits_is_noticed() -> None:
    """Negative control: an edit whose surroundings have changed is refused."""
    assert edited("a\nb\n", " a\n+x\n...\n-b\n+c") == "a\nx\nc\n"
    with pytest.raises(AssertionError, match="not there once"):
        edited("a\nb\n", " z\n+x")
