"""The calls whose requests, receipts and frames must not change, and what they answer now.

``python -m tests.golden.answers macros`` writes the parameters of macros anew, for a new question
or argument. ``python -m tests.golden.answers`` writes all of ``answers.json`` anew: only with a
reason that the changelog gives, as requests are compared with those in users' ledgers, byte for
byte.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

import dpframe as dp
from dpframe.testing import seeded_noise
from tests.doors import OF_ITS_OWN, rows

SHOWN = 40
"""Rows that are kept as they are; of longer frames a digest."""

FILE = Path(__file__).with_name("answers.json")

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-4}
USER: dict[str, Any] = {**BUDGET, "user": "who"}
BUDGET_OF_ONE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4, "user": "who"}
"""At epsilon 1 shares show more of users with one node, at 4 rounds do."""
SAMPLE: dict[str, Any] = {"contribution": "records", "max_contributions": 2}
STREAM: dict[str, Any] = {"mechanism": "streaming", "counters": 50}
REPORTS: dict[str, Any] = {**USER, "epsilon": 8.0, "length": 18, "limit": 4096}

CALLS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "ip": ("hhh", "ip:ip", BUDGET),
    "ip, prefixes": ("hhh", "ip:ip?prefixes=8,16&version=4", BUDGET),
    "path": ("hhh", "path:path?depth=3", BUDGET),
    "path, drop": ("hhh", "path:path?depth=3&invalid=drop", BUDGET),
    "columns": ("hhh", ["host", "zip"], BUDGET),
    "columns, whole numbers": ("hhh", ["year", "id"], BUDGET),
    "domain": ("hhh", "domain:host", BUDGET),
    "date": ("hhh", "date:when?levels=year,month,day", BUDGET),
    "code": ("hhh", "code:zip?lengths=1,3,5", BUDGET),
    "number": ("hhh", "number:amount?lower=0&upper=40&depth=4", BUDGET),
    "threshold": ("hhh", ["host"], {**BUDGET, "threshold": 60}),
    "release share": ("hhh", ["host"], {**BUDGET, "release_share": 0.4, "confidence": 0.9}),
    "no remainder": ("hhh", ["host"], {**BUDGET, "remainder": False}),
    "shares": ("hhh", ["host"], {**USER, "contribution": "share"}),
    "users": ("hhh", ["host", "zip"], USER),
    "users, one node": ("hhh", ["host", "zip"], {**BUDGET_OF_ONE, "nodes_per_user": 1}),
    "records": ("hhh", ["host"], {**USER, **SAMPLE}),
    "laplace": ("hhh", ["host"], {**BUDGET, "mechanism": "laplace"}),
    "gaussian": ("hhh", ["host", "zip"], {**BUDGET, "mechanism": "gaussian"}),
    "printed": (
        "hhh",
        ["host"],
        {**BUDGET, "mechanism": "paper", "acknowledge": True, "remainder": False},
    ),
    "stream": ("hhh", ["host", "zip"], {**BUDGET, **STREAM}),
    "stream, records": ("hhh", ["host"], {**USER, **STREAM, **SAMPLE}),
    "stream, items": (
        "hhh",
        ["host"],
        {**USER, **STREAM, "contribution": "items", "max_contributions": 2},
    ),
    "flat": ("heavy_hitters", "host", {**BUDGET, "k": 3}),
    "flat, users": ("heavy_hitters", "host", USER),
    "flat, users, at most": ("heavy_hitters", "host", {**USER, "at_most": 2, "threshold": 20}),
    "flat, stream": ("heavy_hitters", "host", {**BUDGET, **STREAM}),
    "counts": ("tree_counts", ["host", "zip"], BUDGET),
    "counts, listed": ("tree_counts", ["zip"], {"epsilon": 1.0, "keys": ["90000", "90111"]}),
    "counts, domain": (
        "tree_counts",
        "number:amount?lower=0&upper=40&depth=2",
        {"epsilon": 1.0, "keys": "domain"},
    ),
    "counts, weights": ("tree_counts", ["host"], {**BUDGET, "weight": "year", "max_weight": 2010}),
    "counts, shares": ("tree_counts", ["host"], USER),
    "counts, level weights": (
        "tree_counts",
        ["host", "zip"],
        {**BUDGET, "level_weights": [1, 2, 3]},
    ),
    "counts, not consistent": ("tree_counts", ["host"], {**BUDGET, "consistent": False}),
    "counts, from hhh": ("tree_counts", ["host"], {**BUDGET, "mechanism": "hhh"}),
    "counts, additive": ("tree_counts", ["host"], {**BUDGET, "mechanism": "additive"}),
    "devices": (
        "prefix_tree",
        "zip",
        {**REPORTS, "mechanism": "laplace", "alphabet": "0123456789"},
    ),
    "devices, reports": ("prefix_tree", "zip", {**REPORTS, "alphabet": "0123456789"}),
    "synthetic": (
        "synthesize",
        {"amount": (0, 40)},
        {"epsilon": 1.0},
    ),
}


def answer(call: str, frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """What a call stores under a name, and what comes back; all JSON types."""
    method, about, arguments = CALLS[call]
    path = folder / "ledger.db"
    path.unlink(missing_ok=True)
    ledger = dp.Ledger(path, epsilon=100.0, delta=0.1)
    with seeded_noise(5):
        result = getattr(frame.dp, method)(about, **arguments, ledger=ledger, release="kept")
    with closing(sqlite3.connect(path)) as db:
        ((request, receipt),) = db.execute("SELECT request, receipt FROM results").fetchall()
    facts = json.loads(receipt)
    for name in (*OF_ITS_OWN, "version", "ledger"):
        facts.pop(name)
    facts.pop("proof", None)  # a text of tables, which tests/privacy proves
    shown = result.counts() if isinstance(result, dp.Generator) else result
    listed = shown.to_json(orient="values", date_format="iso")
    digest = hashlib.sha256(listed.encode()).hexdigest()
    return {
        "request": request,
        "receipt": facts,
        "columns": {str(name): str(kind) for name, kind in shown.dtypes.items()},
        "rows": json.loads(listed) if len(shown) <= SHOWN else f"{len(shown)} rows, {digest}",
    }


def macros() -> dict[str, list[str]]:
    """The parameters of every macro of SQL, in their order, which is public."""
    with duckdb.connect() as con:
        dp.register(con)
        found = con.execute(
            "SELECT function_name, parameters FROM duckdb_functions() "
            "WHERE function_name LIKE 'dp\\_%' ESCAPE '\\' ORDER BY ALL"
        ).fetchall()
        return {name: list(parameters) for name, parameters in found}


def answers() -> dict[str, Any]:
    frame = rows()
    with tempfile.TemporaryDirectory() as folder:
        released = {call: answer(call, frame, Path(folder)) for call in CALLS}
    return {"macros": macros(), "released": released}


def write(part: str = "") -> None:
    """Write the file anew, or only its part "macros"."""
    kept = json.loads(FILE.read_text("utf-8"))
    found = {**kept, "macros": macros()} if part == "macros" else answers()
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write(*sys.argv[1:])
