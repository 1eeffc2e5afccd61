"""``.dp`` of Polars frames, and results that leave as Arrow tables."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.doors import accessor
from dpframe.testing import seeded_noise

VISITS: Any = pl.DataFrame({"country": ["FR", "DE"] * 400, "paid": [1.0, 2.0] * 400})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
MEASURES = {"n": "count", "revenue": "sum(paid, 0, 3)"}


@pytest.mark.parametrize("lazy", [False, True])
def test_what_goes_in_comes_out(lazy: bool) -> None:
    """Law: the numbers of the pandas frame, also of what the result is asked afterwards."""
    source = VISITS.lazy() if lazy else VISITS
    with seeded_noise(4):
        wanted = dp.rollup(VISITS, "country", MEASURES, **BUDGET)
    with seeded_noise(4):
        result = source.dp.rollup("country", MEASURES, **BUDGET)
    assert isinstance(result, pl.DataFrame)
    assert result.equals(pl.from_pandas(wanted))
    assert result.dp.receipt["epsilon"] == 1.0
    assert result.dp.top(1, by="n").equals(pl.from_pandas(wanted.dp.top(1, by="n")))
    pd.testing.assert_frame_equal(result.dp.to_pandas(), wanted)
    wider = result.dp.intervals(0.99)
    assert wider.dp.receipt["confidence"] == 0.99


def test_a_change_of_two_results() -> None:
    before, after = (VISITS.dp.hhh("country", **BUDGET) for _ in range(2))
    assert "more_than_noise" in after.dp.change(before).columns


def test_a_frame_that_is_no_result_has_no_receipt() -> None:
    """Law: parts and changed frames are refused, with what to do; a receipt is of its numbers."""
    result = VISITS.dp.hhh("country", **BUDGET)
    with pytest.raises(dp.ParameterError, match=r"none that dpframe returned.*to_pandas\(\)"):
        _ = result.filter(pl.col("level") == 1).dp.receipt
    result[0, "count"] = 5
    with pytest.raises(dp.ParameterError, match="changed after the release"):
        result.dp.top(1)


def test_results_are_kept_as_long_as_their_frames() -> None:
    gc.collect()
    before = len(accessor._released)
    result = VISITS.dp.hhh("country", **BUDGET)
    assert len(accessor._released) == before + 1
    del result
    assert len(accessor._released) == before


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match=r"no 'mode'. It has: above, below, change"):
        _ = VISITS.dp.mode
    with pytest.raises(dp.ColumnError, match="Did you mean 'country'"):
        VISITS.dp.hhh("contry", **BUDGET)
    assert {"hhh", "explain", "top", "to_pandas"} <= {*dir(VISITS.dp)}


@pytest.mark.parametrize("first", ["polars", "dpframe"])
def test_the_order_of_imports_does_not_matter(first: str) -> None:
    code = (
        f"import {first}, sys; assert ('polars' in sys.modules) == ('polars' in sys.argv);"
        "import dpframe, polars as pl;"
        "pl.DataFrame({'a': ['x'] * 500}).dp.hhh('a', epsilon=1.0, delta=1e-6).dp.receipt"
    )
    subprocess.run([sys.executable, "-c", code, first], check=True)


def test_a_result_as_an_arrow_table_carries_its_receipt(tmp_path: Path) -> None:
    """Law: through a Parquet file the card is that of the release, and an edited file's is not."""
    result = dp.hhh(VISITS, "country", **BUDGET)
    table = result.dp.to_arrow()
    assert table.column_names == list(result.columns)
    pq.write_table(table, tmp_path / "out.parquet")
    back = pd.read_parquet(tmp_path / "out.parquet")
    assert back.dp.receipt.to_dict() == result.dp.receipt.to_dict()
    back.loc[0, "count"] += 1
    assert "frame" in back.dp.receipt.to_dict()
    with pytest.raises(dp.ParameterError, match="carries no receipt"):
        pd.DataFrame({"a": [1]}).dp.to_arrow()
