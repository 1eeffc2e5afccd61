"""What a rollup shows, and how exact it is, by the part of epsilon that selects:
``python -m tests.benchmarks.selection_shares [FOLDER OF DATA]``.

For every set, epsilon and share, means of three releases: finest nodes and others that are shown,
the median of relative errors of their numbers, and *good* nodes, whose number is within a tenth.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpframe as dp

SETS: dict[str, tuple[str, list[str], str | None, float]] = {
    "flights": ("flights_nyc13", ["origin", "dest", "carrier"], "distance", 5000),
    "receipts": (
        "retail_completejourney",
        ["department", "product_category", "product_type"],
        "sales_value",
        20,
    ),
    "places": ("geo_geonames_cities500", ["continent", "country", "admin1_code"], None, 0),
    "pages": ("weblog_apache_elastic", ["method", "path"], None, 0),
    "words": ("git_words_rails", ["word"], None, 0),
}
"""By name: file, hierarchy, and the column that is added up, with its bound."""

WAYS: dict[str, tuple[dict[str, Any], tuple[float, ...]]] = {
    "records": ({}, (0.08, 0.16, 0.3, 0.5, 0.7)),
    "users, shares": ({"user": "user_id", "contribution": "share"}, (0.2, 1 / 3, 0.5, 0.7)),
    "users, rounds": ({"user": "user_id"}, (0.3, 0.5, 0.7)),
}
EPSILONS = 0.1, 0.3, 1.0, 3.0
RELEASES = 3


def truths(rows: pd.DataFrame, by: list[str], column: str | None, way: str) -> pd.DataFrame:
    """True numbers of every node, by level and label."""
    parts = []
    for level in range(len(by) + 1):
        keys = [rows[name] for name in by[:level]] or [pd.Series(0, index=rows.index)]
        groups = rows.groupby(keys, observed=True)
        if way == "users, rounds":
            told = groups["user_id"].nunique().rename("true").to_frame()
        else:
            told = groups.size().rename("true").to_frame()
        if column is not None:
            told["true_s"] = groups[column].sum()
        names = [" / ".join(map(str, k if isinstance(k, tuple) else (k,))) for k in told.index]
        parts.append(told.assign(level=level, prefix=names if level else ["*"]))
    return pd.concat(parts)


def measured(rows: pd.DataFrame, name: str, way: str, share: float, epsilon: float) -> list[float]:
    _, by, column, bound = SETS[name]
    given, _ = WAYS[way]
    measures: dict[str, Any] = {"n": "count"}
    if column is not None and way == "records":
        measures["s"] = dp.sum(column, lower=0, upper=bound)
    true = TRUE[name, way]
    found = []
    for _ in range(RELEASES):
        try:
            result = dp.rollup(
                rows, by, measures, epsilon=epsilon, delta=1e-6, selection_share=share,
                progress=False, **given,
            )  # fmt: skip
        except dp.BudgetError:
            return [float("nan")] * 4
        both = result.merge(true, on=["level", "prefix"])
        off = [(both["n"] / both["true"] - 1).abs()]
        if "s" in measures:
            cut = both["true_s"].where(both["true_s"] > 0)
            off.append((both["s"] / cut - 1).abs())
        errors = np.concatenate(off)
        finest = int((both["level"] == len(by)).sum())
        good = float((errors < 0.1).sum()) / len(off)
        found.append([finest, len(both) - finest, float(np.nanmedian(errors)), good])
    return [float(one) for one in np.mean(found, axis=0)]


TRUE: dict[tuple[str, str], pd.DataFrame] = {}


def main(folder: Path) -> None:
    print("| set, way | epsilon | selection | finest | above | median error | good nodes |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (file, by, column, bound) in SETS.items():
        rows = pd.read_parquet(folder / f"{file}.parquet")
        rows = rows.dropna(subset=by)
        if column is not None:
            rows[column] = rows[column].clip(0, bound)
        for way, (given, shares) in WAYS.items():
            if given and "user_id" not in rows.columns:
                continue
            if way == "users, shares":  # true numbers are those of shares
                rows["weight"] = 1 / rows.groupby("user_id")["user_id"].transform("size")
                TRUE[name, way] = truths(rows, by, "weight", way).assign(
                    true=lambda one: one["true_s"]
                )
            else:
                TRUE[name, way] = truths(rows, by, column if way == "records" else None, way)
            for epsilon in EPSILONS:
                for share in shares:
                    finest, above, error, good = measured(rows, name, way, share, epsilon)
                    print(
                        f"| {name}, {way} | {epsilon:g} | {share:.2g} | {finest:.0f} | {above:.0f} "
                        f"| {error:.3f} | {good:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"))
