"""Time and peak memory of ``dp.rollup`` beside DuckDB's exact ``GROUP BY ROLLUP``.

Run with ``python -m tests.benchmarks.rollup_speed [--rows 1e7] [--users 1e6] [--pairs 5]``. Four
columns of text and amounts in cents (``orders_workload.sql``), from a table of DuckDB and from a
pandas frame. By record both give count, sum and mean of every node; by user ours counts customers
who weigh 1 each, the reference with ``count(DISTINCT customer)``. Every measurement is a process of
its own, which makes one call that is not counted and then one that is; its peak memory is the
operating system's figure, the frame or the table's pages included. The two sides take turns, and
ratios are taken pair by pair; that of processor time depends less on who else uses the machine.
Both return a pandas frame; ours is the default release, which looks at every node.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, Figures

BY = ["country", "region", "category", "product"]
MEASURES = {
    "records": ("count", "sum(amount, 0, 1000)", "mean(amount, 0, 1000)"),
    "users": ("count", "sum(amount, 0, 5000)"),
    "users, mean": ("count", "sum(amount, 0, 5000)", "mean(amount, 0, 1000)"),
}
EXACT = {
    "records": "count(*), sum(amount), avg(amount)",
    "users": "count(DISTINCT customer), sum(amount)",
    "users, mean": "count(DISTINCT customer), sum(amount), avg(amount)",
}


def write_orders(rows: int, users: int, folder: str) -> None:
    import duckdb

    text = Path(__file__).with_name("orders_workload.sql").read_text("utf-8")
    query = text.replace("$rows", str(rows)).replace("$users", str(users))
    with duckdb.connect(f"{folder}/orders.duckdb") as con:
        con.execute(f"CREATE TABLE orders AS {query}")
        con.execute(f"COPY orders TO '{folder}/orders.parquet' (FORMAT parquet)")


def call(side: str, source: str, what: str, folder: Path) -> Callable[[], Any]:
    """What is timed."""
    import duckdb
    import pandas as pd

    import dpframe as dp

    columns = [*BY, "amount", *(["customer"] if what != "records" else [])]
    frame: Any = None
    if source == "table":
        con = duckdb.connect(str(folder / "orders.duckdb"), read_only=True)
    else:
        con = duckdb.connect()
        frame = pd.read_parquet(folder / "orders.parquet", columns=columns)
        con.register("orders", frame)
    if side == "exact":
        levels = ", ".join(BY)
        query = f"SELECT {levels}, {EXACT[what]} FROM orders GROUP BY ROLLUP ({levels})"
        return lambda: con.sql(query).df()
    user = "customer" if what != "records" else None

    def ours() -> Any:
        given = con.table("orders") if frame is None else frame
        return dp.rollup(given, BY, MEASURES[what], user=user, **BUDGET)

    return ours


def measure(side: str, source: str, what: str, folder: str) -> Figures:
    asked = call(side, source, what, Path(folder))
    asked()
    return bench.timed(asked)


def main() -> None:
    sizes = {"rows": 10_000_000, "users": 1_000_000, "pairs": 5}
    sources = ("table", "frame")
    given = bench.options(**sizes, only=tuple(MEASURES), source=sources, data="")
    bench.compared_head()
    with tempfile.TemporaryDirectory() as made:
        folder = given.data or made  # a folder that keeps the rows
        if not Path(folder, "orders.parquet").exists():
            bench.alone(write_orders, given.rows, given.users, folder)
        for what in [given.only] if given.only else MEASURES:
            for source in [given.source] if given.source else sources:
                asked = (source, what, folder)
                sides = {side: (measure, side, *asked) for side in ("ours", "exact")}
                runs = bench.in_turns(sides, given.pairs, uncounted=0)
                bench.compared(f"{what}, {source}", runs, "exact")


if __name__ == "__main__":
    main()
