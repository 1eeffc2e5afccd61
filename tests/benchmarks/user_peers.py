"""How many different users there are at nodes, by what people use today, beside ``dp.hhh``.

Run with ``python -m tests.benchmarks.user_peers [--rows 1e6] [--python PATH] [--tools A,B]``; PATH
is a Python 3.11 with ``pip install 'opendp[polars]' pipeline-dp tmlt.analytics duckdb pyarrow``
(Tumult also needs Java). Rows are those of :mod:`tests.benchmarks.users`, a tenth as many users.
Each tool shows nodes of three levels whose noisy number of users reaches 500, for epsilon 1 and
delta 1e-6 over all levels, keys unknown. Tools without a hierarchy split both over the levels, and
count a user at 10 nodes of a level at most, as many as a user has rows on average. A run is a
process of its own. The error is that of the numbers shown, in percent of the exact ones.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, Figures
from tests.benchmarks.users import BY, write_rows

EPSILON, DELTA, THRESHOLD, AT_MOST = 1.0 / len(BY), 1e-6 / len(BY), 500, 10
"""Of a level."""

Nodes = dict[tuple[int, ...], float]
"""A number of users by the path of a node."""


def dpframe(file: str) -> Nodes:
    import dpframe as dp

    shown = dp.hhh(file, BY, user="u", threshold=THRESHOLD, **BUDGET)
    paths = shown[BY].astype(object).itertuples(index=False)
    return {
        tuple(key for key in path if isinstance(key, int)): count
        for path, count in zip(paths, shown["count"], strict=True)
    }


def opendp(file: str) -> Nodes:
    import opendp.prelude as odp
    import polars as pl

    odp.enable_features("contrib")
    found = {}
    for by in _levels():
        context = odp.Context.compositor(
            data=pl.scan_parquet(file).select([*BY, "u"]),
            privacy_unit=odp.unit_of(contributions=1, identifier=pl.col("u")),
            privacy_loss=odp.loss_of(epsilon=EPSILON, delta=DELTA),
            split_evenly_over=1,
            margins=[odp.polars.Margin(max_length=2**31)],
        )
        bounded = context.query().truncate_per_group(AT_MOST).truncate_per_group(1, by=by)
        noisy = bounded.group_by(by).agg(odp.len()).release().collect()
        found.update({tuple(path): count for *path, count in noisy.iter_rows()})
    return found


def pipelinedp(file: str) -> Nodes:
    """On its local backend, which is its own Python."""
    import pandas as pd
    import pipeline_dp as pdp

    frame = pd.read_parquet(file, columns=[*BY, "u"])
    read = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: 0,
    )
    asked = pdp.AggregateParams(
        metrics=[pdp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pdp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=AT_MOST,
        max_contributions_per_partition=1,
    )
    found: Nodes = {}
    for by in _levels():
        paths = zip(*(frame[name].tolist() for name in by), strict=True)
        budget = pdp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
        engine = pdp.DPEngine(budget, pdp.LocalBackend())
        counts = engine.aggregate([*zip(frame["u"].tolist(), paths, strict=True)], asked, read)
        budget.compute_budgets()
        found.update({path: count.privacy_id_count for path, count in counts})
    return found


def tumult(file: str) -> Nodes:
    """Half of a level's budget finds its nodes, and half counts users there."""
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxRowsPerID,
        QueryBuilder,
        Session,
    )

    os.environ["PYSPARK_PYTHON"] = sys.executable
    built = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    built = built.config("spark.sql.warehouse.dir", str(Path(file).parent / "warehouse"))
    spark = built.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(len(BY) * EPSILON, len(BY) * DELTA),
        source_id="rows",
        dataframe=spark.read.parquet(file).select(*BY, "u"),
        protected_change=AddRowsWithID("u"),
    )
    half, found = ApproxDPBudget(EPSILON / 2, DELTA / 2), {}
    for by in _levels():
        bounded = QueryBuilder("rows").enforce(MaxRowsPerID(AT_MOST))
        keys = KeySet.from_dataframe(session.evaluate(bounded.get_groups(by), half))
        counted = session.evaluate(
            bounded.groupby(keys).count_distinct(["u"], name="n"), half
        ).collect()
        found.update({tuple(row[name] for name in by): row["n"] for row in counted})
    return found


def _levels() -> list[list[str]]:
    return [BY[:level] for level in range(1, len(BY) + 1)]


TOOLS = {"dpframe": dpframe, "OpenDP": opendp, "PipelineDP": pipelinedp, "Tumult": tumult}


def measure(tool: str, file: str, tiny: str) -> Figures:
    if tool != "Tumult":  # whose every start takes a minute
        TOOLS[tool](tiny)
    found: Nodes = {}
    figures = bench.timed(lambda: found.update(TOOLS[tool](file)))
    import duckdb

    levels = ", ".join(BY)
    exact = duckdb.execute(
        f"SELECT {levels}, count(DISTINCT u) FROM '{file}' GROUP BY ROLLUP ({levels})"
    ).fetchall()
    true = {tuple(key for key in path if key is not None): count for *path, count in exact}
    errors = [abs(n / true[path] - 1) for path, n in found.items() if path and n >= THRESHOLD]
    return {**figures, "shown": len(errors), "error": sum(errors) / len(errors)}


def main() -> None:
    given = bench.options(rows=1_000_000, python=sys.executable, tools=",".join(TOOLS))
    with tempfile.TemporaryDirectory() as folder:
        sizes: dict[str, Any] = {"rows": given.rows, "tiny": 100_000}
        files = [
            write_rows("whole", rows // 10, 0, rows, Path(folder, f"{name}.parquet"))
            for name, rows in sizes.items()
        ]
        bench.head("tool", "seconds", "MB", "nodes shown", "mean error, %")
        for tool in given.tools.split(","):
            python = sys.executable if tool == "dpframe" else given.python
            run = bench.alone(measure, tool, *files, python=python)
            cells = (f"{run['seconds']:.3g}", f"{run['mb']:.0f}", run["shown"])
            bench.row(tool, *cells, f"{run['error'] * 100:.2g}")


if __name__ == "__main__":
    main()
