"""What a type checker tells callers: names and arguments that are wrong, at their lines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engines

HERE = Path(__file__).resolve().parents[2]

CALLER = """\
import pandas as pd
import dpframe as dp

frame = pd.DataFrame({"a": ["x"]})

def right() -> pd.DataFrame:
    dp.explain(["a"], epsilon=1.0, delta=1e-6).to_frame()
    dp.explain(frame, ["a"], epsilon=1.0, delta=1e-6).to_frame()
    dp.explain(frame, hierarchy=["a"], epsilon=1.0, release="r")
    dp.explain_heavy_hitters("a", k=3)
    dp.explain_heavy_hitters(frame, "a", k=3)
    dp.rollup_sql(["a"], table="t", dialect="duckdb", epsilon=1.0, delta=1e-6).plan
    dp.tree_rollup_sql(["a"], table="t", dialect="duckdb", epsilon=1.0, keys=["x"]).sql
    dp.register(None, ledger="budget.db")
    frame.dp.explain(["a"], epsilon=1.0).to_frame()
    frame.dp.explain(["a"], delta=1e-6, error=20)
    dp.explain_tree_counts(["a"], keys=["x"], error={"count": 20.5})
    dp.explain_rollup(frame, ["a"], "count", delta=1e-6, error={"count": 20})
    frame.dp.explain_rollup(["a"], "count", delta=1e-6, error={"count": 20})
    frame.dp.explain_tree_counts(["a"], keys=["x"])
    frame.dp.explain_heavy_hitters("a", k=3)
    frame.dp.explain_synthesize({"a": (0, 1)}, epsilon=1.0)
    frame.dp.explain_prefix_tree("a", devices=3, user="a")
    rows: pd.DataFrame = frame.dp.synthesize({"a": (0, 1)}, epsilon=1.0).sample(3)
    frame.dp.heavy_hitters(column="a", epsilon=1.0, delta=1e-6)
    frame.dp.prefix_tree("a", user="a")
    frame.dp.tree_counts(["a"], epsilon=1.0).dp.report("page.html")
    gateway = dp.connect("https://data.example.org", token="dpf_x")
    far: pd.DataFrame = gateway.sales.hhh(["a"], epsilon=1.0, period="2026-W47")
    gateway["sales"].explain_rollup(["a"], "count", error={"count": 20}).to_frame()
    gateway.sales.sql("SELECT a, count(*) FROM sales GROUP BY a").dp.report("page.html")
    gateway.sales.change("one", far).dp.top(3)
    with dp.use_ledger(dp.Ledger("budget.db", epsilon=1.0)):
        dp.StreamingHHH(dp.ip("a", prefixes=(8, 16)), counters=3).update(frame)
    return frame.dp.hhh(["a"], epsilon=1.0, threshold=3, ledger="budget.db")

def wrong() -> None:
    gateway = dp.connect("https://data.example.org", frame="polars")  # no
    data = dp.connect("https://data.example.org", token="dpf_x").sales
    data.hhh(["a"], treshold=3)  # no
    data.hhh(["a"], user="a")  # no
    data.rollup(["a"], "count", ledger="budget.db")  # no
    data.heavy_hitters()  # no
    data.sql("SELECT 1", {"sales": frame})  # no
    data.synthesize({}, epsilon=1.0)  # no
    dp.hhh(frame, ["a"], treshold=3)  # no
    dp.explain(frame, ["a"], treshold=3)  # no
    dp.explain(["a"], treshold=3)  # no
    frame.dp.hhh(["a"], treshold=3)  # no
    frame.dp.hhh(["a"], epsilon="1")  # no
    frame.dp.hhh(frame.dp)  # no
    frame.dp.tree_counts(["a"], remainder=True)  # no
    frame.dp.heavy_hitters()  # no
    frame.dp.synthesize({}, delta=1e-6)  # no
    frame.dp.prefix_tree("a", iteration=3)  # no
    frame.dp.explain(["a"], treshold=3)  # no
    frame.dp.explain(["a"], error="20")  # no
    dp.explain_rollup(["a"], "count", error=["count"])  # no
    dp.explain_rollup(["a"], "count", errors=20)  # no
    frame.dp.explain_tree_counts(["a"], treshold=3)  # no
    frame.dp.explain_heavy_hitters("a", treshold=3)  # no
    frame.dp.explain_synthesize({}, width="w")  # no
    frame.dp.explain_prefix_tree("a", device=3)  # no
    frame.dp.hh(["a"])  # no
    dp.hh(frame, ["a"])  # no
    frame.dp.report()  # no
    dp.rollup_sql(["a"], table="t", dialect="duckdb", treshold=3)  # no
    dp.rollup_sql(["a"], table="t", dialect="duckdb", counters=3)  # no
    dp.tree_rollup_sql(["a"], table="t", dialect="duckdb", keyes=["x"])  # no
    dp.register(None, leger="budget.db")  # no
    dp.Ledger("budget.db", epsilonn=1.0)  # no
    dp.ip("a", prefix=(8, 16))  # no
    dp.StreamingHHH("ip:a", counter=3)  # no
    dp.MisraGries(countrs=3)  # no
    dp.PrivHP({}, kk=3)  # no
    with dp.use_ledger(leger=None): ...  # no
"""

SETTINGS = """\
[mypy]
plugins = dpframe.doors.mypy_plugin
strict = True
[mypy-pyspark.*,polars.*,pyarrow.*,numba.*,dp_accounting.*,scipy.*,duckdb.*,plotly.*]
follow_imports = skip
"""
"""Libraries whose types the caller's file does not use take mypy most of its time."""


def test_mypy_finds_what_is_wrong_in_a_callers_file(tmp_path: Path) -> None:
    """Law: of right and wrong calls, ``mypy --strict`` refuses the wrong ones, each at its line."""
    pytest.importorskip("mypy")
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    cache = HERE / ".mypy_cache" / "callers"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "caller.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(HERE), "MYPYPATH": str(HERE), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert not done.stderr, done.stderr
    lines = enumerate(CALLER.splitlines(), start=1)
    wanted = {number for number, line in lines if line.endswith("# no")}
    found = {int(n) for n in re.findall(r"^caller\.py:(\d+): error", done.stdout, re.M)}
    assert found == wanted, done.stdout
    assert 'did you mean "threshold"?' in done.stdout
    assert not re.search(r"^(?!caller\.py|Found).*error", done.stdout, re.M), done.stdout
