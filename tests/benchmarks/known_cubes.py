"""Cubes of listed keys beside noise on each marginal alone.

Run with ``python -m tests.benchmarks.known_cubes [--releases 20] [--peer PATH]``. PATH is a Python
with ``pip install opendp numpy``, which then adds the noise of the peer; without it, the same laws
are drawn here. Errors are root mean squares over the cells of a marginal, and then over marginals,
of counts of records at epsilon 1 and delta 1e-6. The figures of decision 0066 are these, and those
of ``tests/unit/postprocess/test_marginals.py``.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import dpframe as dp
from tests.benchmarks import bench
from tests.benchmarks.bench import BUDGET, SHARED

MONTH, DAY = "month(date::DATE)", "isodow(date::DATE)"
PART = "CASE WHEN hour(ts) < 12 THEN 'am' WHEN hour(ts) < 17 THEN 'pm' ELSE 'eve' END"
SETS: dict[str, tuple[str, dict[str, str]]] = {
    "flights: origin, carrier": ("flights_nyc13", {"origin": "origin", "carrier": "carrier"}),
    "flights: origin, carrier, month": (
        "flights_nyc13",
        {"origin": "origin", "carrier": "carrier", "month": MONTH},
    ),
    "flights: those, hour": (
        "flights_nyc13",
        {"origin": "origin", "carrier": "carrier", "month": MONTH, "hour": "hour"},
    ),
    "flights: those, day of the week": (
        "flights_nyc13",
        {"origin": "origin", "carrier": "carrier", "month": MONTH, "hour": "hour", "day": DAY},
    ),
    "products: department, brand, part of the day": (
        "retail_completejourney",
        {"department": "department", "brand": "brand", "part": PART},
    ),
    "products: those, week": (
        "retail_completejourney",
        {"department": "department", "brand": "brand", "part": PART, "week": "week"},
    ),
}

PEER = """
import json, math, sys
import opendp.prelude as dp
dp.enable_features("contrib")
asked = json.load(sys.stdin)
kinds, size, delta = asked["kinds"], asked["cells"], asked["delta"]
near = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
def gaussian(scale):
    one = dp.m.make_gaussian(*near, scale=scale)
    return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(one), delta)
scale = dp.binary_search_param(gaussian, d_in=math.sqrt(kinds), d_out=(1.0, delta))
plain = dp.m.make_gaussian(*near, scale=scale)
pure = dp.m.make_laplace(
    dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=float(kinds))
print(json.dumps([pure([0] * size), plain([0] * size)]))
"""


def rows_of(name: str) -> pd.DataFrame:
    file, columns = SETS[name]
    chosen = ", ".join(f"{sql} AS {column}" for column, sql in columns.items())
    known = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    source = f"'{SHARED / file}.parquet'"
    rows: pd.DataFrame = duckdb.query(f"FROM (SELECT {chosen} FROM {source}) WHERE {known}").df()
    return rows


def root_of_squares(errors: list[np.ndarray[Any, Any]]) -> float:
    """Over cells of each marginal, then over marginals."""
    return float(np.sqrt(np.mean([np.mean(np.square(one.astype(float))) for one in errors])))


def our_errors(rows: pd.DataFrame, keys: dict[str, Any], **budget: Any) -> tuple[float, float]:
    """The error, and the part of all intervals that hold the truth."""
    found = rows.dp.rollup(dp.cube([*keys]), "count", keys=keys, **budget)
    true = duckdb.query(
        f"SELECT {', '.join(keys)}, count(*) AS n FROM rows GROUP BY CUBE({', '.join(keys)})"
    ).fetchall()
    known = {tuple("*" if v is None else str(v) for v in key): n for *key, n in true}
    exact = np.array([known.get(key, 0) for key in zip(*(found[k] for k in keys), strict=True)])
    error = found["count"].to_numpy() - exact
    held = (found["count_lower"] <= exact) & (exact <= found["count_upper"])
    level = found["level"].to_numpy()
    return root_of_squares([error[level == at] for at in np.unique(level)]), float(held.mean())


def peer_errors(sizes: list[int], path: str) -> list[float]:
    """The errors of noise on each marginal alone: Laplace and Gaussian noise."""
    cells = [
        int(np.prod([n for n, k in zip(sizes, kind, strict=True) if k]))
        for kind in itertools.product((0, 1), repeat=len(sizes))
    ]
    asked = {"kinds": len(cells), "cells": sum(cells), "delta": BUDGET["delta"]}
    told = subprocess.run(
        [path, "-c", PEER], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    ends = np.cumsum(cells)[:-1]
    return [root_of_squares(np.split(np.array(one), ends)) for one in json.loads(told.stdout)]


def main(releases: int, peer: str | None) -> None:
    bench.head(
        *("set", "values", "kinds", "cells", "no delta", "delta 1e-6", "intervals hold"),
        *("OpenDP: Laplace", "OpenDP: Gaussian"),
    )
    for name, (_, columns) in SETS.items():
        rows = rows_of(name)
        keys = {column: sorted(rows[column].unique().tolist()) for column in columns}
        sizes = [len(own) for own in keys.values()]
        pure = {"epsilon": BUDGET["epsilon"]}
        both = [
            [our_errors(rows, keys, **budget) for _ in range(releases)] for budget in (pure, BUDGET)
        ]
        means = [np.sqrt(np.mean([error**2 for error, _ in one])) for one in both]
        held = np.mean([part for one in both for _, part in one])
        others = ["", ""]
        if peer is not None:
            several = [peer_errors(sizes, peer) for _ in range(releases)]
            others = [f"{one:.1f}" for one in np.sqrt(np.mean(np.square(several), axis=0))]
        cells = int(np.prod(np.array(sizes) + 1))
        bench.row(
            *(name, " x ".join(map(str, sizes)), 2 ** len(sizes), f"{cells:,}"),
            *(f"{one:.1f}" for one in means),
            *(f"{held:.3f}", *others),
        )


if __name__ == "__main__":
    given = bench.options(releases=20, peer=None)
    main(given.releases, given.peer)
