"""Seeded noise, which tests need, ends with its block, and no receipt is silent about it."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli.main import main
from dpframe.noise import random_seed
from dpframe.testing import seeded_noise
from tests.members import some

NOT_PRIVATE = "replaced by a seeded generator: NOT private"
FRAME = pd.DataFrame({"who": range(2000), "word": ["a"] * 1200 + ["b"] * 800, "n": [7] * 2000})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
HHH = "dp_hhh('words', 'columns:word', epsilon := 1.0, delta := 1e-6)"


def draws() -> list[int]:
    return [random_seed() for _ in range(20)]


def connection(path: str = ":memory:") -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(path)
    con.execute("CREATE TABLE words AS SELECT i AS who, 'a' AS word, 7 AS n FROM range(2000) r(i)")
    return con


def test_a_copied_context_does_not_keep_the_seed() -> None:
    """Law: what outlives the block, a context or a task, draws the operating system's noise."""

    async def main() -> tuple[list[int], list[int]]:
        async def later(over: asyncio.Event) -> list[int]:
            inside = draws()
            await over.wait()
            assert inside != draws()
            return draws()

        over, found = asyncio.Event(), []
        with seeded_noise(1):
            found = [asyncio.create_task(later(over))]
            await asyncio.sleep(0)
        with seeded_noise(1):
            found += [asyncio.create_task(later(over))]
            await asyncio.sleep(0)
            over.set()
            again = await found[0]
        return again, await found[1]

    one, two = asyncio.run(main())
    assert one != two
    copies = []
    for _ in range(2):
        with seeded_noise(1):
            copies.append(contextvars.copy_context())
            seeded = draws()
    assert copies[0].run(draws) != copies[1].run(draws)
    with seeded_noise(1):
        assert draws() == seeded  # the control
        assert copies[0].run(draws) != seeded


def test_a_connection_registered_in_the_block_draws_secret_noise_after_it() -> None:
    """Law: two of them draw differently, also what they prepared, and no receipt warns."""
    found = []
    for _ in range(2):
        with seeded_noise(3):
            con = connection()
            dp.register(con)
            con.execute(f"PREPARE p AS FROM {HHH}")
            inside = con.execute(f"FROM {HHH}").fetchall()
            assert con.execute("EXECUTE p").fetchall() != inside  # the next numbers of the seed
        rows = [con.execute(s).fetchall() for s in ("EXECUTE p", f"FROM {HHH}") * 5]
        receipts = con.execute("SELECT receipt FROM dp_releases() ORDER BY number").fetchall()
        sources = [json.loads(text)["noise_source"] for (text,) in receipts]
        assert sources == [NOT_PRIVATE] * 2 + ["operating system"] * 10
        found.append((inside, rows))
    assert found[0][0] == found[1][0]  # the control: within the blocks they are equal
    assert found[0][1] != found[1][1]


def test_a_connection_draws_as_whoever_asks() -> None:
    """Law: one that was registered before the block is seeded in it."""
    con = connection()
    dp.register(con)
    rows = []
    for _ in range(2):
        with seeded_noise(3):
            rows.append(con.execute(f"FROM {HHH}").fetchall())
    assert rows[0] == rows[1]


def sql(statement: str) -> Callable[[Path], dict[str, Any]]:
    def door(folder: Path) -> dict[str, Any]:
        con = connection()
        dp.register(con)
        con.execute(f"FROM {statement}").fetchall()
        text = con.execute("SELECT receipt FROM dp_releases()").fetchall()[0][0]
        return dict(json.loads(text))

    return door


def command(folder: Path) -> dict[str, Any]:
    FRAME.to_parquet(folder / "words.parquet")
    out = str(folder / "out.parquet")
    flags = ["--epsilon=1", "--delta=1e-6", "-o", out, "--quiet"]
    assert main(["hhh", str(folder / "words.parquet"), "columns:word", *flags]) == 0
    return dict(receipt_in_metadata(pq.read_schema(out).metadata) or {})


def sketch(folder: Path) -> dict[str, Any]:
    made = dp.MisraGries(counters=8)
    made.update(FRAME["word"])
    return dict(dp.merge_sketches([made]).release(**BUDGET).dp.receipt)


def stream(folder: Path) -> dict[str, Any]:
    made = dp.StreamingHHH(["word"], counters=8)
    made.update(FRAME)
    return dict(made.release(**BUDGET).dp.receipt)


def generator(folder: Path) -> dict[str, Any]:
    made = dp.PrivHP({"n": (0, 9)}, k=8, depth=4)
    made.update(FRAME)
    return dict(made.finish(epsilon=1.0).receipt)


def named(folder: Path) -> dict[str, Any]:
    """Drawn in the block, replayed outside."""
    ledger = dp.Ledger(folder / "budget.db", epsilon=3.0, delta=1e-5)
    arguments = {**BUDGET, "ledger": ledger, "release": "seeded"}
    dp.hhh(FRAME, ["word"], **arguments)
    outside = contextvars.Context().run(lambda: dp.hhh(FRAME, ["word"], **arguments))
    return dict(outside.dp.receipt)


STREAM: dict[str, Any] = {"mechanism": "streaming"}
ROWS: dict[str, Any] = {"epsilon": 1.0, "k": 4, "width": 16}
DEVICES: dict[str, Any] = {"user": "who", "length": 5, "epsilon": 4.0, "delta": 1e-6}


def as_sql(arguments: dict[str, Any]) -> str:
    return ", ".join(f'"{name}" := {value!r}' for name, value in arguments.items())


DOORS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "accessor": lambda _: dict(FRAME.dp.hhh(["word"], **BUDGET).dp.receipt),
    "streaming": lambda _: dict(FRAME.dp.hhh(["word"], **BUDGET, **STREAM).dp.receipt),
    "tree counts": lambda _: dict(dp.tree_counts(FRAME, ["word"], **BUDGET).dp.receipt),
    "synthesize": lambda _: dict(dp.synthesize(FRAME, {"n": (0, 9)}, **ROWS).receipt),
    "prefix tree": lambda _: dict(dp.prefix_tree(FRAME, "word", **DEVICES).dp.receipt),
    "SQL": sql(HHH),
    "SQL, tree counts": sql(HHH.replace("hhh", "tree_counts")),
    "SQL, synthesize": sql(
        f"dp_synthesize('words', 'number:n?lower=0&upper=9', 5, {as_sql(ROWS)})"
    ),
    "SQL, prefix tree": sql(f"dp_prefix_tree('words', 'word', {as_sql(DEVICES)})"),
    "command line": command,
    "sketch": sketch,
    "stream": stream,
    "generator": generator,
    "named release": named,
}


@some("accessor", "tree counts", "SQL", "SQL, synthesize", "sketch", "generator", "named release")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore")
def test_every_receipt_says_whose_noise_it_was(door: str, tmp_path: Path) -> None:
    """Law: at every door, in the facts and first on the card; and nothing of it otherwise."""
    with seeded_noise(1):
        receipt = DOORS[door](tmp_path)
    assert receipt["noise_source"] == NOT_PRIVATE
    assert NOT_PRIVATE in str(Receipt(receipt)).splitlines()[2]
    if door != "named release":
        receipt = DOORS[door](tmp_path)
        assert receipt["noise_source"] == "operating system"
        assert "NOT private" not in str(Receipt(receipt))
