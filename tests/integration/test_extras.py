"""What a plain ``pip install`` answers, and what a question says whose library is an extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LEFT_OUT = (
    *("dp_accounting", "scipy", "mpmath", "absl", "attrs", "tree"),
    *("plotly", "openpyxl", "shtab", "polars", "narwhals", "pyspark", "psycopg", "sqlalchemy"),
    *("starlette", "uvicorn", "anyio", "jwt", "mcp", "mcp_types", "pydantic"),
)

PLAIN = f"""
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {LEFT_OUT!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
import duckdb, pandas as pd, dpframe as dp, dpframe.sources.user_nodes
from dpframe.doors.cli.main import main
visits = pd.DataFrame({{"country": ["FR"] * 600 + ["IT"] * 400, "id": range(1000), "paid": 5.0}})
spend = {{"epsilon": 1.0, "delta": 1e-6}}
ledger = dp.Ledger("budget.db", epsilon=19.0, delta=1e-4, accountant="pld")
with dp.use_ledger(ledger):
    assert len(visits.dp.hhh(["country"], release="a-2026", **spend)) == 3
    assert len(visits.dp.tree_counts(["country"], user="id", **spend))
    assert len(visits.dp.heavy_hitters("country", **spend)) == 2
    assert len(visits.dp.heavy_hitters("country", user="id", **spend)) == 2
    assert len(visits.dp.hhh(["country"], mechanism="streaming", **spend))
    assert len(visits.dp.synthesize({{"paid": (0, 9)}}, epsilon=1.0).sample(9)) == 9
    assert dp.MisraGries(8).update(["a"]) is None
    paid = visits.dp.rollup(["country"], {{"paid": dp.sum("paid", lower=0, upper=9)}}, **spend)
people = dp.Ledger("people.db", epsilon=9.0, delta=1e-4)  # of users who are replaced
assert len(visits.dp.prefix_tree("country", user="id", ledger=people, **spend))
paid.dp.report("paid.html")
dp.publish(ledger, "results.duckdb")
visits.to_parquet("visits.parquet")
assert main(["hhh", "visits.parquet", "country", "--epsilon", "1", "--delta", "1e-6"]) == 0
con = duckdb.connect()
con.execute("CREATE TABLE visits AS FROM visits")
dp.register(con, ledger=ledger)
rows = con.execute("FROM dp_hhh('visits', ['country'], epsilon := 1.0, delta := 1e-6)").fetchall()
assert len(rows) == 3
print(dp.compare, dp.wasserstein(pd.Series([0.0, 1.0]), pd.Series([1.0, 2.0])))
spent = ledger.spent
def said(ask):
    try:
        ask()
    except dp.DpframeError as error:
        print(error)
said(lambda: dp.connect("http://127.0.0.1:9", token="dpf_x"))
said(lambda: dp.publish(ledger, "postgresql://localhost/results"))
with dp.use_ledger(ledger):
    said(lambda: dp.plan_series(5, "hhh", ["country"], total=(1.0, 1e-6)))
assert ledger.spent == spent, (ledger.spent, spent)
"""


@pytest.mark.engines
def test_a_plain_install_asks_everything_but_compositions(tmp_path: Path) -> None:
    """Law: without the extras every question is answered, of tables and streams, and rows are made
    up; what needs an extra names it, and charges nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PLAIN], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    *_, shown, away, published, series = done.stdout.splitlines()
    assert shown.endswith(" 1.0")
    assert away.startswith("no gateway answers at")
    assert published.endswith("needs psycopg. Run pip install 'dpframe[postgres]'.")
    assert series == "releases are composed by dp-accounting: pip install 'dpframe[pld]'."


def test_what_is_named_is_declared() -> None:
    """Each extra that a message names is one, and `all` has those that need no server."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    named = {"completion", "mcp", "pld", "plots", "postgres", "serve", "spark", "streams", "xlsx"}
    assert named <= extras.keys()
    assert extras["all"] == ["dpframe[completion,pld,plots,xlsx]"]
