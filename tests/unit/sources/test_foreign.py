"""Sources of other libraries: what goes in, what is read of it, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dpframe as dp
from dpframe.errors import ColumnError, ParameterTypeError, SourceError
from dpframe.testing import seeded_noise
from tests.members import some

TABLE = pa.table({"country": ["FR", "DE"] * 300, "city": ["Lyon", "Bonn"] * 300})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def ibis_table() -> Any:
    """Of an engine that ibis has beside DuckDB."""
    ibis = pytest.importorskip("ibis")
    return ibis.polars.connect().create_table("visits", TABLE)


SOURCES: dict[str, Callable[[], Any]] = {
    "reader": TABLE.to_reader,
    "reader of DuckDB": lambda: duckdb.connect().from_arrow(TABLE).to_arrow_reader(),
    "dataset": lambda: ds.dataset(TABLE),
    "scanner": lambda: ds.dataset(TABLE).scanner(),
    "narwhals": lambda: nw.from_native(TABLE),
    "narwhals, lazy": lambda: nw.from_native(pl.DataFrame(TABLE).lazy()),
    "ibis": ibis_table,
}


@some("reader", "dataset", "narwhals, lazy")
@pytest.mark.parametrize("kind", SOURCES)
def test_a_frame_of_another_library_is_a_source(kind: str) -> None:
    """Law: as an Arrow table; explained without a row being read; read once, looked at twice."""
    source = SOURCES[kind]()
    assert "threshold" in str(dp.explain(source, ["country", "city"], **BUDGET))
    with seeded_noise(5):
        result = dp.hhh(source, ["country", "city"], **BUDGET)
    with seeded_noise(5):
        pd.testing.assert_frame_equal(result, dp.hhh(TABLE, ["country", "city"], **BUDGET))
    measures = {"n": "count", "cities": dp.distinct("city")}
    with seeded_noise(5):
        frame = dp.rollup(SOURCES[kind](), "country", measures, **BUDGET)
    with seeded_noise(5):
        pd.testing.assert_frame_equal(frame, dp.rollup(TABLE, "country", measures, **BUDGET))


def test_a_reader_has_no_rows_for_a_second_time() -> None:
    """Law: what was read is refused, and not taken for an empty table."""
    reader = TABLE.to_reader()
    dp.hhh(reader, "country", **BUDGET)
    with pytest.raises(SourceError, match=r"read_all\(\)"):
        dp.hhh(reader, "country", **BUDGET)


@pytest.mark.parametrize("kind", ["dataset", "reader", "narwhals, lazy"])
def test_columns_that_are_not_there_have_names(kind: str) -> None:
    """Law: the same words as of any other source, and nothing that the other library says."""
    with pytest.raises(ColumnError, match=r"'contry' does not exist. Did you mean 'country'"):
        dp.hhh(SOURCES[kind](), "contry", **BUDGET)


def test_what_fails_in_another_library_is_not_quoted() -> None:
    """Law: the class of the error is told, its text, which can hold values, is not."""

    def failing() -> Any:
        yield TABLE.to_batches()[0].slice(0, 5)
        raise ValueError("Lyon")

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, failing())
    with pytest.raises(SourceError, match="its text is withheld") as raised:
        dp.hhh(reader, "country", **BUDGET)
    assert "Lyon" not in str(raised.value)
    assert raised.value.__context__ is None


def test_sketches_need_an_order_that_is_known() -> None:
    """Law: rows of another engine may be moved by one of them."""
    with pytest.raises(SourceError, match=r"order of narwhals\.LazyFrame is unknown"):
        dp.hhh(SOURCES["narwhals, lazy"](), "country", mechanism="streaming", **BUDGET)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (pd.Series(["FR"]), r"source cannot be pandas\.Series"),
        ({"country": ["FR"]}, "source cannot be dict"),
        (pd.Series(["FR"]).to_numpy(), r"source cannot be numpy\.ndarray"),
        (duckdb.connect(), "source cannot be "),
        (3, "source cannot be int"),
        (None, "source cannot be "),
        (["FR"], "source cannot be list"),
    ],
)
def test_what_is_no_frame_is_named_with_its_library(source: Any, named: str) -> None:
    """Law: three libraries have a DataFrame; the message says whose it is."""
    with pytest.raises(ParameterTypeError, match=named):
        dp.hhh(source, "country", **BUDGET)
