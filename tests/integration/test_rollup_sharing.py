"""A sum and a mean of the same values cost as one, as somebody sees it who types the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.engines

SUM, MEAN = "sum(amount, 0, 100) AS revenue", "mean(amount, 0, 100) AS price"


def typed(folder: Path, name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "dpframe", name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def error_of(said: str, measure: str) -> str:
    (line,) = [line for line in said.splitlines() if f"error of {measure}" in line]
    return line.partition("+-")[2].split()[0]


def test_a_sum_has_the_error_that_it_has_alone_beside_its_mean(tmp_path: Path) -> None:
    """Law: ``explain-rollup`` says that one is read from the other, and the same error as without
    it; beside a mean between other bounds it has twice that error, and by user nothing is shared.
    The release is such a sum and such a mean."""
    asked = ("columns:country", "--epsilon=1", "--delta=1e-6")
    alone, both, other, users = (
        typed(tmp_path, "explain-rollup", *asked, *(f"--measure={one}" for one in measures), *more)
        for measures, more in (
            ([SUM], []),
            ([SUM, MEAN], []),
            ([SUM, MEAN.replace("100", "99")], []),
            ([SUM, MEAN], ["--user=who"]),
        )
    )
    assert "read from what price draws for both" in both
    assert "read from" not in alone + other + users
    assert error_of(both, "revenue") == error_of(alone, "revenue")
    assert float(error_of(other, "revenue")) == pytest.approx(
        2 * float(error_of(alone, "revenue")), rel=1e-3
    )
    rows = pd.DataFrame({"country": ["FR"] * 3000 + ["IT"] * 1000, "amount": [20.0, 30.0] * 2000})
    rows.to_parquet(tmp_path / "rows.parquet")
    typed(
        *(tmp_path, "rollup", "rows.parquet", *asked, f"--measure={SUM}", f"--measure={MEAN}"),
        *("-o", "out.parquet", "--quiet"),
    )
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found["prefix"].tolist() == ["*", "FR", "IT"]
    for name, value in (("revenue", 100_000.0), ("price", 25.0)):
        assert abs(found[name].iloc[0] / value - 1) < 0.25  # fifty times its noise
