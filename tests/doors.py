"""The same rows in everything that a front door reads, and the doors that answer with a frame."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli import main as cli

Answer = tuple[pd.DataFrame, dict[str, Any]]
"""A frame and its receipt."""

OF_ITS_OWN = ("release_id", "time")
"""What two receipts of the same plan may differ in."""


def rows(n: int = 1_500) -> pd.DataFrame:
    """Rows in which every kind of hierarchy finds heavy hitters at several levels."""
    generator = np.random.default_rng(11)
    heavy = (generator.zipf(1.5, n) - 1) % 40
    day = pd.Timestamp("2013-01-01")
    return pd.DataFrame(
        {
            "who": pd.Series([f"user {i}" for i in generator.integers(0, 600, n)], dtype="str"),
            "ip": pd.Series(
                [f"10.{i % 3}.{i}.7" if i % 5 else f"2001:db8:{i:x}::1" for i in heavy]
            ),
            "path": pd.Series([None if i == 9 else f"a/{i % 4}/{i}" for i in heavy], dtype="str"),
            "host": pd.Series([f"h{i}.net{i % 3}.Example.org" for i in heavy], dtype="str"),
            "zip": pd.Series([f"{90000 + 111 * i}" for i in heavy], dtype="str"),
            "when": pd.Series([day + pd.Timedelta(hours=int(i)) for i in heavy]).astype(
                "datetime64[us]"
            ),
            "id": generator.integers(0, 600, n),
            "amount": heavy + 0.5,
            "year": 2000 + heavy % 3,
        }
    )


@dataclass(frozen=True)
class World:
    """The same rows in everything that a front door reads."""

    frame: pd.DataFrame
    parquet: Path
    con: duckdb.DuckDBPyConnection


Door = Callable[[World, str, dict[str, Any]], Answer]


def public(receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in receipt.items() if name not in OF_ITS_OWN}


def accessor(name: str) -> Door:
    """``df.dp.name``."""

    def door(world: World, hierarchy: str, arguments: dict[str, Any]) -> Answer:
        result = getattr(world.frame.dp, name)(hierarchy, **arguments)
        return result, result.dp.receipt.to_dict()

    return door


def function(name: str, source: Callable[[World], object]) -> Door:
    """``dp.name``."""

    def door(world: World, hierarchy: str, arguments: dict[str, Any]) -> Answer:
        result = getattr(dp, name)(source(world), hierarchy, **arguments)
        return result, result.attrs["dp"]

    return door


def sql(name: str, source: str, first: str = "hierarchy") -> Door:
    """``dp_name`` in SQL; ``first`` is what it calls the hierarchy or column."""

    def door(world: World, hierarchy: str, arguments: dict[str, Any]) -> Answer:
        given = {k: in_sql(v) for k, v in arguments.items()}
        # here: a connection draws as the context of its registration does
        dp.register(world.con, ledger=given.pop("ledger", None))
        named = "".join(f', "{argument}" := ${argument}' for argument in (first, *given))
        statement = f"SELECT * FROM dp_{name}({source}{named})"
        result = world.con.execute(statement, {first: hierarchy, **given}).df()
        newest = "SELECT receipt FROM dp_releases() ORDER BY number DESC LIMIT 1"
        return result, json.loads(world.con.execute(newest).fetchall()[0][0])

    return door


def in_sql(value: Any) -> Any:
    return value.to_dict("records") if isinstance(value, pd.DataFrame) else value


def command(world: World, name: str, hierarchy: str, flags: list[str]) -> Answer:
    """``dpframe name``."""
    out = world.parquet.with_name("out.parquet")
    arguments = [name, str(world.parquet), hierarchy, *flags, "-o", str(out), "--quiet"]
    assert cli.main(arguments) == 0
    receipt = receipt_in_metadata(pq.read_schema(out).metadata)
    assert receipt is not None
    return pd.read_parquet(out), receipt.to_dict()


def in_this_process(*arguments: str, cwd: Path) -> CompletedProcess[str]:
    """What ``python -m dpframe`` does, without a second interpreter."""
    out, said = io.StringIO(), io.StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(said):
        code = cli.main(list(arguments))
    return CompletedProcess(arguments, code, out.getvalue(), said.getvalue())


def as_typed(*arguments: object) -> tuple[pd.DataFrame, str]:
    """What a command that was typed in a shell answered, and what it said beside."""
    command = [sys.executable, "-m", "dpframe", *map(str, arguments), "--format", "csv"]
    done = run(command, capture_output=True, text=True, check=True)
    return pd.read_csv(io.StringIO(done.stdout)), done.stderr
