"""A column of weights or of a measure: no value is an error, and no type that is no number read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe import _duck
from dpframe.budget import LARGEST_WEIGHT, PrivacyUnit
from dpframe.errors import ColumnError
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.sources.exact_trees import exact_counts
from tests import strategies as nasty
from tests.members import few, in_turn, some
from tests.naive import Path as NodePath
from tests.naive import leaf_paths
from tests.rollups import columns_of_t, node_counts, tree_by_sql

ALL = PrivacyUnit(weight="w")


def measured(most: float) -> PrivacyUnit:
    return PrivacyUnit(weight="w", max_weight=most, measured=True)


AT_MOST_5 = PrivacyUnit(weight="w", max_weight=5)
X = dp.columns("x")

SPECS = [
    *("columns:x", "columns:x,w", "path:x?depth=2", "code:x?lengths=1,3", "domain:x", "ip:x"),
    *(
        "date:x",
        "number:x?lower=0&upper=8&depth=3",
        "path:x?invalid=drop",
        "columns:x?invalid=drop",
    ),
]


def stands_for(weight: Any, most: int) -> int:
    """Records of a row: whole numbers from 1 on, cut at the top; everything else is none."""
    if weight is None or weight is pd.NA:
        return 0
    return min(int(weight), most) if weight >= 1 else 0


def weighted(
    hierarchy: Hierarchy, rows: Sequence[Sequence[Any]], weights: Sequence[Any], most: int
) -> dict[NodePath, int]:
    """The naive rollup, a row repeated as a sum."""
    counts: Counter[NodePath] = Counter({(): 0})
    for path, weight in zip(leaf_paths(hierarchy, rows), weights, strict=True):
        n = stands_for(weight, most)
        if path is not None and n:
            counts.update({path[:i]: n for i in range(len(path) + 1)})
    return dict(counts)


def counted(source: object, hierarchy: Hierarchy, unit: PrivacyUnit = ALL) -> dict[NodePath, int]:
    return node_counts(exact_counts(source, hierarchy, unit, 1), hierarchy)


def by_sql(
    con: duckdb.DuckDBPyConnection, hierarchy: Hierarchy, unit: PrivacyUnit, columns: Any = None
) -> dict[NodePath, int]:
    return node_counts(tree_by_sql(con, hierarchy, unit, columns), hierarchy)


VALUES: dict[str, list[Any]] = {
    **{t: [1, 0, -1, 100, -128, None] for t in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")},
    "BIGINT ": [2**63 - 1, -(2**63), 10**9, 10**9 + 1, 7, None],
    **{t: [0, 1, 200, None] for t in ("UTINYINT", "USMALLINT", "UINTEGER")},
    "UBIGINT": [2**64 - 1, 2**63, 0, 3, None],
    "HUGEINT": [2**127 - 1, -(2**127), 0, 3, None],
    "UHUGEINT": [2**128 - 1, 0, 3, None],
    "DECIMAL(38,0)": [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(4), Decimal(0), None],
    "DECIMAL(4,0)": [Decimal(9999), Decimal(2), Decimal(-1), None],
}


def table_of(con: duckdb.DuckDBPyConnection, kind: str) -> list[Any]:
    """A table t of weights w of a type under nodes x; the weights."""
    values = VALUES[kind] * 2
    rows = ", ".join(
        f"('{'abc'[i % 3]}/{i}', {'NULL' if v is None else repr(str(v))}::{kind.strip()})"
        for i, v in enumerate(values)
    )
    con.execute(f"CREATE OR REPLACE TABLE t AS SELECT * FROM (VALUES {rows}) v(x, w)")
    return values


@some("TINYINT-all", "INTEGER-all", "UTINYINT-at most 5", "UINTEGER-at most 5", "UHUGEINT-all")
@in_turn(("kind", VALUES), ("unit", [ALL, AT_MOST_5], ["all", "at most 5"]))
def test_weights_of_every_type_are_python_s(kind: str, unit: PrivacyUnit) -> None:
    """Law: the sum of the weights as Python reads them, for every value that a type can hold."""
    con = duckdb.connect()
    weights = table_of(con, kind)
    rows = [(f"{'abc'[i % 3]}/{i}",) for i in range(len(weights))]
    hierarchy = as_hierarchy("columns:x" if unit is ALL else "path:x")
    expected = weighted(hierarchy, rows, weights, unit.max_weight or LARGEST_WEIGHT)
    assert counted(con.table("t"), hierarchy, unit) == expected
    for columns in (None, columns_of_t(con)):
        assert by_sql(con, hierarchy, unit, columns) == expected


def test_the_twin_is_not_counting_rows() -> None:
    """Negative control: the same rows without weights, and with others, are other counts."""
    frame = pd.DataFrame({"x": ["a", "a", "b"], "w": [3, 9, 0]})
    assert counted(frame, X) == {(): 12, ("a",): 12}
    assert counted(frame, X, AT_MOST_5) == {(): 8, ("a",): 8}
    assert counted(frame, X, PrivacyUnit()) == {(): 3, ("a",): 2, ("b",): 1}


@nasty.examples(
    8, 100,
    st.lists(
        st.tuples(
            st.sampled_from(["a/b", "a", "", None, "10.0.0.1", "7", "2020-01-02", "www.a.org"]),
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 12)),
        ),
        max_size=40,
    ),
    st.sampled_from(SPECS), st.sampled_from([ALL, AT_MOST_5]),
)  # fmt: skip
def test_every_kind_adds_up_weights(rows: list[Any], spec: str, unit: PrivacyUnit) -> None:
    """Law: every kind, invalid values counted or dropped, the weight a level itself or not."""
    hierarchy = as_hierarchy(spec)
    weights = [w for _, w in rows]
    frame = pd.DataFrame(
        {"x": pd.Series([x for x, _ in rows], dtype=object), "w": pd.Series(weights, dtype="Int64")}
    )
    values = [
        (x, w)[: len(hierarchy.source_columns)] for (x, _), w in zip(rows, weights, strict=True)
    ]
    expected = weighted(hierarchy, values, weights, unit.max_weight or LARGEST_WEIGHT)
    assert counted(frame, hierarchy, unit) == expected


def test_a_weight_or_measure_is_a_level_too() -> None:
    """A column of the hierarchy keeps its values there."""
    frame = pd.DataFrame({"x": ["a", "a", "b"], "w": [3, 9, -1]})
    hierarchy = dp.columns("w", "x")
    expected = {(): 8, ("3",): 3, ("3", "a"): 3, ("9",): 5, ("9", "a"): 5}
    assert counted(frame, hierarchy, AT_MOST_5) == expected
    con = duckdb.connect()
    con.register("t", frame)
    assert by_sql(con, hierarchy, AT_MOST_5) == expected
    both = {(): 384, ("1",): 128, ("1", "a"): 128, ("2",): 256, ("2", "b"): 256}
    con.register("t", pd.DataFrame({"x": ["a", "b"], "w": [1, 2]}))
    assert by_sql(con, hierarchy, measured(2.0)) == counted(
        con.table("t"), hierarchy, measured(2.0)
    )
    assert by_sql(con, hierarchy, measured(2.0)) == both
    numbers = {(): 8, ("[0, 5)",): 3, ("[5, 10]",): 5}
    assert counted(frame, dp.number("w", lower=0, upper=10, depth=1), AT_MOST_5) == numbers


def test_one_row_moves_the_counts_by_at_most_the_largest_weight() -> None:
    """Law: with max_weight, whatever a row's weight is, nodes on its path move by at most that."""
    base = {"x": ["a", "b"], "w": [1, 2]}
    before = counted(pd.DataFrame(base), X, AT_MOST_5)
    for weight in [1, 5, 6, -3, 0, 2**63 - 1, -(2**63), None]:
        more = pd.DataFrame({"x": [*base["x"], "c"], "w": [*base["w"], weight]}, dtype=object)
        after = counted(more.astype({"w": "Int64"}), X, AT_MOST_5)
        assert 0 <= after[()] - before[()] <= 5
        assert after.get(("c",), 0) == after[()] - before[()]


def test_sums_fit_when_all_weights_are_the_largest() -> None:
    """Ten million rows of 10**9 records each do not overflow."""
    con = duckdb.connect()
    rows = con.sql("SELECT 'a' AS x, 18446744073709551615::UBIGINT AS w FROM range(10_000_000)")
    assert counted(rows, X)[("a",)] == 10**16
    assert counted(rows, X, PrivacyUnit(weight="w", max_weight=10**12))[()] == 10**16


ROWS = {"x": ["a/b", "a", "c", "c"], "w": [2, None, 7, 1]}
EXPECTED = {(): 8, ("a",): 2, ("a", "a/b"): 2, ("c",): 6}


def test_every_source_has_the_same_weights_and_measures(tmp_path: Path) -> None:
    """pandas, Polars, Arrow, files, relations; of fractions, and of a CSV, the measure alone."""
    hierarchy, table, con = dp.path("x"), pa.table(ROWS), duckdb.connect()
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("x,w\na/b,2.0\na,\nc,7e0\nc,1\nc,much\nc,nan\nc,-1\n")
    con.register("given", table)
    x = pd.Series(ROWS["x"], dtype=object)
    whole: list[object] = [
        *(pd.DataFrame({"x": x, "w": pd.Series(ROWS["w"], dtype=t)}) for t in ("Int64", "UInt8")),
        pd.DataFrame({"x": x, "w": pd.Series(ROWS["w"], dtype=pd.ArrowDtype(pa.int16()))}),
        pd.DataFrame({"x": x, "w": pd.Series(ROWS["w"], dtype="Int64").astype("category")}),
        *(pl.DataFrame(ROWS), pl.LazyFrame(ROWS), table, table.to_batches()[0]),
        table.set_column(1, "w", table["w"].cast(pa.decimal128(25, 0))),
        table.set_column(1, "w", table["w"].cast(pa.uint64())),
        *(str(tmp_path / "t.parquet"), con.table("given")),
        con.sql("SELECT x, w::HUGEINT AS w FROM given"),
    ]
    fractions: list[object] = [
        *(pd.DataFrame({"x": x, "w": pd.Series(ROWS["w"], dtype=t)}) for t in ("Float64", "float")),
        table.set_column(1, "w", table["w"].cast(pa.decimal128(22, 2))),
        *(con.sql("SELECT x, w::FLOAT AS w FROM given"), tmp_path / "t.csv"),
    ]
    for source in whole:
        assert counted(source, hierarchy, AT_MOST_5) == EXPECTED
    units = {(): 320, ("a",): 64, ("a", "a/b"): 64, ("c",): 256}
    for source in [*whole, *fractions]:
        shown = counted(source, hierarchy, measured(8.0))
        assert shown == units, source


def test_temporary_tables_have_the_same_weights() -> None:
    """Where a second connection knows no types, the statement finds them when it is bound."""
    con = duckdb.connect()
    con.register("given", pa.table(ROWS))
    for kind in ("BIGINT", "DECIMAL(9,0)", "HUGEINT", "UBIGINT"):
        con.execute(f"CREATE OR REPLACE TEMP TABLE t AS SELECT x, w::{kind} AS w FROM given")
        assert _duck.describe_relation(con, "t", "") is None
        assert by_sql(con, dp.path("x"), AT_MOST_5) == EXPECTED


@few(4, "name", ["w", "W_", 'a"b', "it's", "c0", "n", "u", "k1", "x'"])
def test_names_of_weights_are_quoted(name: str) -> None:
    """A weight can have the name of anything in the statement."""
    frame = pd.DataFrame({"x": ["a", "b"], name: [2, 3], **({} if name == "w" else {"w": [9, 9]})})
    unit = PrivacyUnit(weight=name)
    assert counted(frame, X, unit) == {(): 5, ("a",): 2, ("b",): 3}
    con = duckdb.connect()
    con.register("t", frame)
    assert by_sql(con, X, unit) == {(): 5, ("a",): 2, ("b",): 3}


SECRET = "SECRETVALUE"
REFUSED = [
    *(f"'{SECRET}'", "'1'", "DATE '2020-01-01'", "true", "[1]", "{'a': 1}", "'1'::BLOB"),
    *("INTERVAL 1 DAY", f"'{SECRET}'::ENUM('{SECRET}')", "MAP {'a': 1}"),
    *("TIMESTAMP '2020-01-01'", "uuid()", "TIME '10:00'", "[1]::INTEGER[1]"),
    "[1.5::DECIMAL(3,1)]",
]
FRACTIONS = ["2::DOUBLE", "2::FLOAT", "2::DECIMAL(3,1)", "0::DECIMAL(38,38)"]
WHOLE = "a weight is read from whole numbers"
UNREAD = [(ALL, WHOLE, value) for value in [*REFUSED, *FRACTIONS]]
UNREAD += [(measured(1.0), r"a measure is read from numbers\. ", value) for value in REFUSED]


@few(11, ("unit", "words", "value"), UNREAD)
def test_a_column_of_no_numbers_is_refused(unit: PrivacyUnit, words: str, value: str) -> None:
    """By the type, which is public, and never by a value; by SQL in the same words. No row is
    needed for it: whether there is one is private."""
    con, refused = duckdb.connect(), f"column 'w' has type .*; {words}"
    con.execute(f"CREATE TABLE t AS SELECT 'a' AS x, {value} AS w")
    with pytest.raises(ColumnError, match=refused) as given:
        counted(con.table("t"), X, unit)
    with pytest.raises(ColumnError, match=refused) as known:
        by_sql(con, X, unit, columns_of_t(con))
    with pytest.raises(duckdb.Error, match=refused) as ours:
        by_sql(con, X, unit)
    con.execute("DELETE FROM t")
    with pytest.raises(duckdb.Error, match=refused) as empty:
        by_sql(con, X, unit)
    for error in (given, known, ours, empty):
        assert SECRET not in str(error.value)
        assert str(given.value) in str(error.value)


def test_objects_of_pandas_are_text() -> None:
    """The dtype decides, not what the objects happen to be."""
    for weights in ([1, 2], ["1", "2"], [1, None]):
        frame = pd.DataFrame({"x": ["a", "b"], "w": pd.Series(weights, dtype=object)})
        with pytest.raises(
            ColumnError, match="column 'w' has type VARCHAR; a weight is read from whole"
        ):
            counted(frame, X)


def test_a_column_of_nulls_counts_nothing() -> None:
    assert counted(pa.table({"x": ["a", "b"], "w": pa.nulls(2)}), X) == {(): 0}


def test_a_weight_that_is_not_there_is_named() -> None:
    frame = pd.DataFrame({"x": ["a"], "weights": [1]})
    with pytest.raises(ColumnError, match="column 'w' does not exist"):
        counted(frame, X)
    with pytest.raises(ColumnError, match="column 'w' does not exist"):
        by_sql(duckdb.connect(), X, ALL, [("x", "VARCHAR"), ("weights", "BIGINT")])
