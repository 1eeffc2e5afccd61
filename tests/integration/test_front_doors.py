"""Whichever door the rows come in by, the same release comes out: frame, types and receipt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.doors.cli import main as cli
from dpframe.testing import seeded_noise
from tests.doors import Answer, Door, World, accessor, command, function, in_turn, public, rows, sql
from tests.members import some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("doors")
    frame = rows()
    frame.to_parquet(folder / "rows.parquet")
    con = duckdb.connect(str(folder / "user.db"))
    con.execute('CREATE SCHEMA "my ""odd"" schema"')
    con.read_parquet(str(folder / "rows.parquet")).create("visits")
    con.execute("CREATE VIEW seen AS SELECT * FROM visits WHERE true")
    con.execute('CREATE TABLE "my ""odd"" schema"."visits; --" AS FROM visits')
    con.register("registered", frame)
    yield World(frame, folder / "rows.parquet", con)
    con.close()


# -- doors ---------------------------------------------------------------------------------------


def command_line(world: World, hierarchy: str, arguments: dict[str, Any]) -> Answer:
    flags = [
        "--no-remainder" if value is False else f"--{name.replace('_', '-')}={value}"
        for name, value in arguments.items()
    ]
    return command(world, "hhh", hierarchy, flags)


DOORS: dict[str, Door] = {
    "accessor": accessor("hhh"),
    "function, pandas": function("hhh", lambda world: world.frame),
    "function, Arrow": function("hhh", lambda world: pa.Table.from_pandas(world.frame)),
    "function, DuckDB relation": function("hhh", lambda world: world.con.table("visits")),
    "function, file": function("hhh", lambda world: world.parquet),
    "command line": command_line,
    "SQL, table": sql("hhh", "'visits'"),
    "SQL, view": sql("hhh", "'seen'"),
    "SQL, registered frame": sql("hhh", "'registered'"),
    "SQL, quoted name": sql("hhh", """'"my ""odd"" schema"."visits; --"'"""),
    "SQL, query": sql("hhh", "query := 'SELECT * FROM visits -- all'"),
}

# -- the law -------------------------------------------------------------------------------------

HIERARCHIES = [
    "ip:ip",
    "path:path",
    "columns:host,zip,path",
    "domain:host",
    "date:when",
    "code:zip?lengths=1,3,5",
    "number:amount?lower=0&upper=40&depth=4",
]

UNITS: dict[str, dict[str, Any]] = {"records": {}, "shares": {"user": "who"}}

BOUNDED: dict[str, Any] = {"user": "who", "contribution": "records", "max_contributions": 2}

OTHERS: dict[str, dict[str, Any]] = {
    "bounded": BOUNDED,
    "no remainder": {"remainder": False, "threshold": 60, "confidence": 0.9},
    "laplace": {"mechanism": "laplace"},
    "gaussian": {"mechanism": "gaussian", **BOUNDED},
    "weights": {"weight": "amount", "max_weight": 10},
    "weights of users": {"user": "who", "weight": "amount", "max_weight": 12.5},
    "weights above a sum": {"weight": "year", "max_weight": 2001.5, "threshold": 70_000.5},
}

CASES = [
    *((f"{h}-{unit}", h, UNITS[unit]) for h in HIERARCHIES for unit in UNITS),
    *((f"path:path-{other}", "path:path", OTHERS[other]) for other in OTHERS),
]


@some(
    "ip:ip-records",
    "path:path-records",
    "columns:host,zip,path-shares",
    "domain:host-shares",
    "code:zip?lengths=1,3,5-records",
    "number:amount?lower=0&upper=40&depth=4-shares",
    "path:path-no remainder",
    "path:path-weights",
)
@pytest.mark.parametrize(("hierarchy", "arguments", "doors"), in_turn(DOORS, CASES))
def test_every_front_door_gives_the_same_release(
    world: World, hierarchy: str, arguments: dict[str, Any], doors: dict[str, Door]
) -> None:
    """Law: same rows, arguments and noise give equal frames, column types and receipts."""
    found = {}
    for name, door in doors.items():
        with seeded_noise(3):
            found[name] = door(world, hierarchy, {**BUDGET, **arguments})
    expected, receipt = found["accessor"]
    assert len(expected) > 2
    for name, (result, card) in found.items():
        pd.testing.assert_frame_equal(result, expected, obj=name)
        assert public(card) == public(receipt), name


def test_the_law_of_front_doors_can_fail(world: World) -> None:
    """Negative control: other noise, in SQL too, gives another frame."""
    results = []
    for seed in (3, 4):
        with seeded_noise(seed):
            results.append(DOORS["SQL, view"](world, "path:path", BUDGET)[0])
    assert not results[0].equals(results[1])


NODES = [
    ("columns:year,zip", {}),
    ("columns:year,when", {"user": "who"}),
    ("path:path", {"user": "id", "contribution": "records", "max_contributions": 2}),
]


@some("columns:year,zip", "path:path")
@pytest.mark.parametrize(("hierarchy", "arguments"), NODES, ids=[h for h, _ in NODES])
def test_whole_numbers_give_the_same_nodes(
    world: World, hierarchy: str, arguments: dict[str, Any]
) -> None:
    """Law: whole numbers, which some doors sort and hash as text, make the same nodes everywhere.

    Draws then fall on other nodes, and samples on other records: the budget makes both small.
    """
    large = {"epsilon": 10.0, "delta": 1e-3, "threshold": 60, **arguments}
    frames = {}
    for name, door in DOORS.items():
        with seeded_noise(5):
            frames[name] = door(world, hierarchy, large)[0]
    expected = frames["accessor"]
    assert len(expected) > 2
    for name, result in frames.items():
        labels = result.drop(columns=["residual", "count", "lower", "upper"])
        if [str(t) for t in labels.dtypes] != [str(t) for t in expected[labels.columns].dtypes]:
            assert name.startswith("SQL, "), name  # a table that only its connection sees: text
            assert set(labels["prefix"]) == set(expected["prefix"]), name
            continue
        pd.testing.assert_frame_equal(labels, expected[labels.columns], obj=name)
        assert (result["count"] - expected["count"]).abs().max() <= 20


def test_every_front_door_charges_the_same(world: World, tmp_path: Path) -> None:
    """Law: one release costs a ledger the same by whichever door it came."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=100.0, delta=1e-3)
    for name, door in DOORS.items():
        if name == "command line":
            continue  # takes the path of the ledger instead
        with dp.use_ledger(ledger):
            _, card = door(world, "path:path", BUDGET)
        assert card["ledger"] is None if name.startswith("SQL") else card["ledger"] is not None
    out = str(tmp_path / "out.parquet")
    flags = ["--epsilon=1", "--delta=1e-6", f"--ledger={ledger.path}", "-o", out, "--quiet"]
    assert cli.main(["hhh", str(world.parquet), "path:path", *flags]) == 0
    spent = ledger.releases()
    assert len(spent) == len(DOORS)
    assert spent[["epsilon", "delta", "hierarchy", "neighbours"]].drop_duplicates().shape[0] == 1


def test_the_real_command_line_finds_the_same_nodes(world: World, tmp_path: Path) -> None:
    """Law: a process of its own reports what this one does, noise apart."""
    flags = ["--epsilon", "40", "--delta", "1e-6", "--threshold", "60", "-o", "out.parquet"]
    command = [sys.executable, "-m", "dpframe", "hhh", str(world.parquet), "path:path", *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = pd.read_parquet(tmp_path / "out.parquet")
    here = dp.hhh(world.frame, "path:path", epsilon=40.0, delta=1e-6, threshold=60)
    pd.testing.assert_frame_equal(result[["level", "prefix"]], here[["level", "prefix"]])
    assert "Privacy card" in done.stderr
