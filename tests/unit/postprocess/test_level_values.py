"""Rows in natural order, and level columns with the types of the source, at every door."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.doors.cli.main import main
from dpframe.postprocess import level_values
from dpframe.postprocess.level_values import PLAIN, TEXT, plain_values
from dpframe.postprocess.shown_nodes import nearest_reported
from tests import strategies as nasty
from tests.members import few, some

N = 1200
I = np.arange(N)  # noqa: E741
BUDGET: dict[str, float] = {"epsilon": 20.0, "delta": 1e-3}

TABLE = pa.table(
    {
        "whole": pa.array([None if i % 13 == 12 else i % 13 for i in I], pa.int32()),
        "large": pa.array([2**63 + int(i % 3) for i in I], pa.uint64()),
        "yes": pa.array(I % 2 == 0),
        "real": pa.array(np.where(I % 3 == 0, -2.5, np.where(I % 3 == 1, 10.0, 9.0))),
        "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(int(i % 11)) for i in I]),
        "time": pa.array(I % 4 * 10**9, pa.timestamp("us")),
        "zoned": pa.array(I % 4 * 10**9, pa.timestamp("us", "Asia/Tokyo")),
        "exact": pa.array([Decimal(int(i % 12)) for i in I], pa.decimal128(5, 1)),
        "more": pa.array(I % 2),
        "text": pa.array(np.array(["b", "10", "9", "a"])[I % 4]),
    }
)

KINDS = {
    "whole": ("Int64", pa.int64(), "INTEGER"),
    "large": ("UInt64", pa.uint64(), "UBIGINT"),
    "yes": ("boolean", pa.bool_(), "BOOLEAN"),
    "real": ("Float64", pa.float64(), "DOUBLE"),
    "day": ("date32[day][pyarrow]", pa.date32(), "DATE"),
    "time": ("datetime64[us]", pa.timestamp("us"), "TIMESTAMP"),
    "zoned": ("datetime64[us, UTC]", pa.timestamp("us", "UTC"), "TIMESTAMP WITH TIME ZONE"),
    "exact": (TEXT, None, "VARCHAR"),
    "text": (TEXT, None, "VARCHAR"),
}
"""Types of a level column: in pandas, in Arrow, in SQL of DuckDB."""


def check(frame: pd.DataFrame, column: str) -> None:
    """The type is kept, and the values of level 1 increase, <invalid> behind them."""
    assert str(frame[column].dtype) == KINDS[column][0]
    assert frame["level"].is_monotonic_increasing
    values = frame[column][frame["level"] == 1]
    known = values[frame["prefix"] != "<invalid>"]
    exact = known.map(float) if column == "exact" else known
    assert exact.notna().all()
    assert exact.is_monotonic_increasing
    assert len(known) > 1
    assert frame["prefix"].is_unique
    assert frame["prefix"][0] == "*"
    assert pd.isna(frame[column][0])
    if column == "whole":
        assert known.tolist() == list(range(12))
        assert pd.isna(values.iloc[-1])


@some("whole", "day")
@few(5, "column", KINDS)
def test_types_and_order_are_those_of_the_source(column: str, tmp_path: Path) -> None:
    """Law: through frames, files, relations and sketches a level keeps its type and its order."""
    file = str(tmp_path / "rows.parquet")
    pq.write_table(TABLE.select([column]), file)
    with duckdb.connect() as con:
        for source in (TABLE, pl.from_arrow(TABLE), file, con.from_arrow(TABLE)):
            check(dp.hhh(source, [column], **BUDGET), column)
        sketches: dict[str, Any] = {"mechanism": "streaming", "counters": 50}
        found = dp.hhh(TABLE, [column], **BUDGET, **sketches)
        assert str(found[column].dtype) == str(dp.hhh(TABLE, [column], **BUDGET)[column].dtype)
        found = dp.tree_counts(TABLE, [column, "more"], **BUDGET)
        check(found[found["prefix"] != "<other>"].reset_index(drop=True), column)
        con.execute(f"CREATE TABLE rows_ AS FROM '{file}'")
        dp.register(con)
        for name in ("dp_hhh", "dp_tree_counts"):
            call = f"{name}('rows_', 'columns:{column}', epsilon := 20.0, delta := 1e-3)"
            result = con.sql(f"SELECT {column} FROM {call} WHERE level = 1 AND prefix <> '<other>'")
            assert [str(t) for t in result.types] == [KINDS[column][2]]
            values = result.to_arrow_table()[column].drop_null().to_pylist()
            assert values == sorted(values, key=float if column == "exact" else None)
            assert values


@some("whole", "day")
@pytest.mark.parametrize("column", ["whole", "yes", "day", "zoned"])
def test_stored_and_written_results_keep_their_types(column: str, tmp_path: Path) -> None:
    """A replay is the frame that was released; files and published tables have typed columns."""
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=1000.0, delta=0.5)
    file, out = str(tmp_path / "rows.parquet"), str(tmp_path / "out.parquet")
    pq.write_table(TABLE.select([column]), file)
    first = dp.hhh(file, [column], **BUDGET, ledger=ledger, release="x")
    pd.testing.assert_frame_equal(
        dp.hhh(file, [column], **BUDGET, ledger=ledger, release="x"), first
    )
    given = ["hhh", file, f"columns:{column}", "--epsilon", "20", "--delta", "1e-3"]
    assert main([*given, "--quiet", "-o", out]) == 0
    assert pq.read_schema(out).field(column).type == KINDS[column][1]
    dp.publish(ledger, str(tmp_path / "results.duckdb"))
    with duckdb.connect(str(tmp_path / "results.duckdb")) as con:
        kind = {"whole": "BIGINT"}.get(column, KINDS[column][2])
        assert [str(t) for t in con.sql(f"SELECT {column} FROM x").types] == [kind]


def test_missing_values_are_told_apart_by_level_and_label() -> None:
    """A NULL of a typed level is a coarser node by its level, <invalid> or <other> by its label."""
    found = dp.tree_counts(TABLE, ["yes", "whole"], **BUDGET, keys=[(True, 2), (True, 10)])
    assert found["prefix"].tolist() == [
        *("*", "true", "<other>", "true / 2", "true / 10", "true / <other>")
    ]
    assert found["whole"].isna().tolist() == [True, True, True, False, False, True]
    frame = dp.tree_counts(TABLE, ["yes", "whole"], **BUDGET)
    whole = frame[(frame["level"] == 2) & frame["whole"].isna()]["prefix"].tolist()
    assert whole == [f"{v} / <{w}>" for v in ("false", "true") for w in ("invalid", "other")]
    above = nearest_reported(frame, dp.columns("yes", "whole"))
    assert [frame["prefix"][a] for a, n in zip(above, frame["level"], strict=True) if n == 2] == [
        prefix.split(" / ")[0] for prefix in frame["prefix"][frame["level"] == 2]
    ]


ORDERS = {
    "number:whole?lower=0&upper=16&depth=3": [
        *("*", "[0, 8)", "[8, 16]", "<other>", "[0, 4)", "[0, 8) <other>", "[8, 12)"),
        *("[8, 16] <other>", "[0, 2)", "[0, 4) <other>", "[10, 12)", "[8, 12) <other>"),
    ],
    "date:day?levels=month,day": [
        *("*", "2024-01", "<other>", "2024-01-01", "2024-01-11", "2024-01 <other>")
    ],
}


def test_intervals_and_times_are_in_order_and_other_is_behind_them() -> None:
    """<other> stands behind the rows of the same parent."""
    keys = {"number": [1, 10], "date": ["2024-01-11", "2024-01-01"]}
    for spec, order in ORDERS.items():
        listed = keys[spec.partition(":")[0]]
        assert dp.tree_counts(TABLE, spec, epsilon=20.0, keys=listed)["prefix"].tolist() == order
    paths = pd.DataFrame({"p": ["a/b", "a/~", "a.b/c", ""] * 300})
    found = dp.tree_counts(paths, "path:p?depth=2", **BUDGET)["prefix"].tolist()
    assert found == [
        *("*", "a", "a.b", "<invalid>", "<other>"),
        *("a.b/c", "a.b/<other>", "a/b", "a/~", "a/<other>"),
    ]


def test_the_order_is_that_of_the_rows_released_alone() -> None:
    """Law: sorted, reversed or shuffled, the same table has the same frame."""
    for table in (TABLE.to_pandas(), TABLE.to_pandas()[::-1], TABLE.to_pandas().sample(frac=1)):
        found = dp.hhh(pa.Table.from_pandas(table), ["whole", "text"], **BUDGET, threshold=10)
        assert found["prefix"].is_unique
        below = found[found["level"] == 2].sort_values(["whole", "text"], kind="stable")
        assert below.index.tolist() == found.index[found["level"] == 2].tolist()


def test_frequent_values_keep_their_type() -> None:
    """Ties by value: 2 before 10; NULL is <invalid>."""
    found = dp.heavy_hitters(TABLE, "whole", **BUDGET)
    assert str(found["whole"].dtype) == "Int64"
    tied = found[found["count"] == 93]["whole"].tolist()
    assert tied == sorted(tied)


def test_results_of_older_versions_are_read_as_they_are(tmp_path: Path) -> None:
    """A frame stored with text in its level columns is replayed as text, in Python and in SQL."""
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=1000.0, delta=0.5)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT (i % 12)::VARCHAR AS n FROM range(1200) AS r(i)")
        dp.register(con, ledger=ledger)
        call = "dp_hhh('t', 'columns:n', epsilon := 20.0, delta := 1e-3, release := 'old')"
        before = con.sql(f"FROM {call}").fetchall()
        con.execute("CREATE OR REPLACE TABLE t AS SELECT i % 12 AS n FROM range(1200) AS r(i)")
        after = con.sql(f"FROM {call}")
        assert str(after.types[2]) == "VARCHAR"
        assert after.fetchall() == before


NUMBERS = st.integers(-(2**64), 2**64).map(str) | st.integers(-300, 300).map(str)
DAYS = st.dates().map(str) | st.tuples(
    st.sampled_from(["0000", "0001", "2023", "2024", "9999", "10000", "24"]),
    st.sampled_from(["00", "01", "02", "2", "12", "13"]),
    st.sampled_from(["00", "01", "1", "28", "29", "30", "31", "32"]),
).map("-".join)
ODD = st.sampled_from(
    [*("", " ", "-", "-0", "+1", "01", "1_000", "1e3", "12.0", "0x1F", " 7", "7\n", "TRUE"),
     *("t", "1", "\u0661", "infinity", "-infinity", "epoch", "0044-03-15 (BC)"),
     *("2024-01-01 00:00:00", "epoch"),
     *("2024-1-1", "2024/01/01", "true\n", "9" * 18, "9" * 19, "-" + "9" * 18, "127", "128")]
)  # fmt: skip
USUAL = {
    "BOOLEAN": st.sampled_from(["true", "false"]),
    "DATE": DAYS,
    **{kind: NUMBERS for kind in PLAIN if "INT" in kind},
}


@nasty.examples(
    60,
    1000,
    st.sampled_from(sorted(PLAIN)).flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.lists(USUAL[kind] | st.none(), max_size=8), st.lists(ODD, max_size=2)
        )
    ),
    st.booleans(),
)
def test_usual_texts_are_duckdb_s(
    drawn: tuple[str, list[str | None], list[str]], odd: bool
) -> None:
    """Law: of whatever texts, a level column and the order of its values are DuckDB's."""
    kind, texts, more = drawn
    held = pa.array(dict.fromkeys([*texts, *(more if odd else [])]), pa.string())
    place = np.arange(2 * len(held)) % max(1, len(held))
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(level_values, "plain_values", lambda *_: None)
        known = kind in level_values.PANDAS
        typed = level_values._typed_column(held, place, kind) if known else None
        rank = level_values._ranks_by_value(held, kind)
    if typed is not None:
        found = level_values._typed_column(held, place, kind)
        assert found.dtype == typed.dtype
        assert found.equals(typed)
    assert level_values._ranks_by_value(held, kind).tolist() == rank.tolist()


def test_usual_texts_are_read_without_a_statement() -> None:
    """What DuckDB writes of its own values is read here, but for numbers of more digits."""
    texts = {"BOOLEAN": ["true", None], "DATE": ["0001-01-01", "2024-02-29", "9999-12-31"]}
    for kind in PLAIN:
        assert plain_values(pa.array(texts.get(kind, ["0", None, "127"])), kind) is not None
    unread = {"DATE": "2023-02-29", "TINYINT": "128", "UBIGINT": "-1", "DOUBLE": "1"}
    for kind, text in unread.items():
        assert plain_values(pa.array([text]), kind) is None


ASKED: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}
SIZES = ["small", "mid", "large", "secret"]
SIZED = pd.DataFrame(
    {
        "size": pd.Categorical(["small", "large", "mid"] * 400, SIZES, ordered=True),
        "code": pd.Categorical([1, 2, 3] * 400, [3, 2, 1, 77]),
        "x": [1.0, 2.0, 3.0] * 400,
    }
)

QUESTIONS = {
    "hhh": lambda frame, **more: frame.dp.hhh(["size", "code"], **ASKED, **more),
    "tree_counts": lambda frame, **more: frame.dp.tree_counts(["size", "code"], **ASKED, **more),
    "rollup": lambda frame, **more: frame.dp.rollup(
        ["size", "code"], {"x": dp.sum("x", lower=0, upper=5)}, **ASKED, **more
    ),
    "heavy_hitters": lambda frame, **more: frame.dp.heavy_hitters("size", **ASKED, **more),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_categories_come_back_without_those_that_were_not_released(question: str) -> None:
    """Law: an order that was declared stays, for what is shown; other categories are sorted."""
    found = QUESTIONS[question](SIZED)
    size = found["size"].dtype
    assert size.ordered
    assert [name for name in size.categories if name in SIZES] == ["small", "mid", "large"]
    assert found["size"].max() in ("large", "<other>")
    if "code" in found:
        assert not found["code"].dtype.ordered
        assert found["code"].dtype.categories.tolist() == [1, 2, 3]
    texts = QUESTIONS[question](SIZED.astype({"size": "str", "code": "int64"}))
    assert texts["size"].dtype == TEXT
    assert sorted(texts["size"].dropna()) == sorted(found["size"].dropna().astype("str"))


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_follows_takes_them(question: str, tmp_path: Path) -> None:
    found = QUESTIONS[question](SIZED)
    assert "frame" not in found.dp.receipt.to_dict()
    found.dp.report(tmp_path / "page.html")
    found.dp.to_arrow()
    found.dp.top(2)
    if question != "heavy_hitters":
        assert len(found.dp.share()) == len(found)
        assert found.dp.below("mid")["size"].dropna().unique().tolist() == ["mid"]
    assert found.iloc[1:].dp.receipt["frame"].startswith("an extract")


def test_a_name_replays_them(tmp_path: Path) -> None:
    """Law: stored is text, which other sources replay as their types say."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=9.0, delta=1e-4)
    drawn = QUESTIONS["hhh"](SIZED, ledger=ledger, release="sizes")
    with pytest.warns(dp.ReplayedNotice):
        again = QUESTIONS["hhh"](SIZED, ledger=ledger, release="sizes")
    pd.testing.assert_frame_equal(drawn, again)
    assert ledger.recall("sizes")["size"].dtype == TEXT


def test_polars_has_them_too() -> None:
    kinds = {"size": pl.Enum(SIZES), "code": pl.Categorical}
    frame = pl.DataFrame({"size": ["small", "mid"] * 600, "code": ["b", "a"] * 600}, schema=kinds)
    found = frame.dp.hhh(["size", "code"], **ASKED)  # type: ignore[attr-defined]
    assert isinstance(found.schema["size"], pl.Categorical | pl.Enum)
    assert set(found["size"].drop_nulls()) == {"small", "mid"}
    if isinstance(found.schema["size"], pl.Enum):
        assert "secret" not in found.schema["size"].categories


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "INTERVAL"])
def test_missing_values_of_results_are_missing_in_every_type(kind: str) -> None:
    """A quantile that nothing is known of is none, never 0."""
    column = level_values.typed_values(np.array([np.nan, 86_400.0]), kind, np.array([1, 0]))
    assert pd.Series(column).isna().tolist() == [False, True]
