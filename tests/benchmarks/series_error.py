"""Error of 52 weekly releases by household within (3, 1e-6): the ways to divide a total, measured.

Run with ``python -m tests.benchmarks.series_error [--weeks 52]``. Data: retail_completejourney, a
household a user who weighs 1 in every week, divided over its rows, under four levels of products.
Ways: equal parts of the total that add up; a fixed epsilon until the ledger refuses; what
``dp.plan_series`` finds with the usual law and with the one of least error, both reserved; and
disjoint weeks, each of which may cost the whole total (then the promise is for a household within
one week). What is told beforehand is that of ``dp.explain``; measured of the very weeks is:

* ``total``: root mean squared error of the number of households in a week, always released;
* ``departments``: the same of every department, whose released parts are added up; what is not
  shown below it is missing, and weeks without a release count as 0;
* ``shown``: nodes with a count in a week, without the total.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpframe as dp
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED

TOTAL = (3.0, 1e-6)
BY = ["department", "product_category", "product_type", "product_id"]
FIXED = (0.1, 0.2)
"""Epsilons that somebody might choose."""


@dataclass
class Measured:
    """Errors of one way, a week after the other."""

    total: list[float] = field(default_factory=list)
    departments: list[float] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    released: int = 0

    def add(self, truth: pd.Series, households: int, result: pd.DataFrame | None) -> None:
        found = pd.Series(0.0, index=truth.index)
        if result is not None:
            self.released += 1
            own = result.groupby("department", dropna=True)["residual"].sum()
            found = found.add(own.astype(float), fill_value=0.0).reindex(truth.index).fillna(0.0)
            self.total.append(float(result["residual"].sum()) - households)
        self.shown.append(0 if result is None else int((result["level"] > 0).sum()))
        self.departments.extend((found - truth).to_list())


@dataclass(frozen=True)
class Way:
    """One way, with what is told of it."""

    name: str
    arguments: dict[str, Any]
    accountant: str
    plan: Any
    series: Any = None


def ways(weeks: int) -> Iterator[Way]:
    series = dp.plan_series(weeks, "hhh", BY, user="user_id", total=TOTAL)
    summed, pld, chosen, disjoint = series.ways
    yield Way("sum", dict(summed.arguments), "sum", summed.plan)
    for epsilon in FIXED:
        asked = {"hierarchy": BY, "user": "user_id", "epsilon": epsilon, "delta": TOTAL[1] / weeks}
        yield Way(f"epsilon {epsilon:g} until refused", asked, "sum", dp.explain(**asked).plan)
    for name, way in (("usual law, reserved", pld), ("planner", chosen)):
        yield Way(name, dict(way.arguments), "pld", way.plan, series)
    yield Way("disjoint weeks", dict(disjoint.arguments), "none", disjoint.plan)


def run(way: Way, weeks: list[pd.DataFrame], folder: Path) -> Measured:
    """Every week's release, charged to a ledger of the total but where weeks are disjoint."""
    out, ledger = Measured(), None
    if way.accountant != "none":
        epsilon, delta = TOTAL
        kept: Any = way.accountant
        ledger = dp.Ledger(folder / f"{way.name}.db", epsilon=epsilon, delta=delta, accountant=kept)
        if way.accountant == "pld":
            ledger.reserve(way.plan, releases=len(weeks), delta=delta)
    for rows in weeks:
        share = 1 / rows.groupby("user_id")["user_id"].transform("size")
        truth = share.groupby(rows["department"]).sum()
        try:
            result = dp.hhh(rows, ledger=ledger, **way.arguments)
        except dp.OverBudgetError:
            result = None
        out.add(truth, rows["user_id"].nunique(), result)
    return out


def rms(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else float("nan")


def main() -> None:
    asked = bench.options(weeks=52)
    rows = pd.read_parquet(
        SHARED / "retail_completejourney.parquet", columns=["week", "user_id", *BY]
    )
    weeks = [own for _, own in rows.groupby("week")][: asked.weeks]
    households = np.mean([own["user_id"].nunique() for own in weeks])
    print(f"{len(weeks)} weeks, {households:.0f} households each")
    told = ("way", "law", "epsilon of one", "half width", "certain from")
    bench.head(*told, "releases", "total", "departments", "nodes shown")
    with tempfile.TemporaryDirectory() as folder:
        for way in ways(len(weeks)):
            found, plan = run(way, weeks, Path(folder)), way.plan
            told = (f"{plan.budget.epsilon:.4g}", f"{plan.errors['count']:.1f}")
            errors = (rms(found.total), rms(found.departments), np.mean(found.shown))
            about = (way.name, plan.mechanism, *told, plan.certainly_reported, found.released)
            bench.row(*about, *(f"{error:.1f}" for error in errors))


if __name__ == "__main__":
    main()
