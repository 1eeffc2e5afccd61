"""Small frames counted in NumPy against the statement of DuckDB."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._cells import Columns
from dpframe.sources import exact_trees, small_frames
from tests import strategies as nasty
from tests.rollups import exact_tree, said

TEXTS = st.sampled_from(
    ["", " ", "a", "A", "ab", "b", "\xe4", "a\u0301", "\U0001f986", "\uffff", "\x00", "a\x00", None]
)
WHOLE = {kind: (np.iinfo(str(kind)).min, np.iinfo(str(kind)).max) for kind in small_frames.KINDS
         if pa.types.is_integer(kind)}  # fmt: skip


def columns_of(kinds: list[pa.DataType]) -> st.SearchStrategy[pa.Table]:
    """Tables of columns a, b, ... of some types, in one piece or two."""
    values = [
        TEXTS
        if kind not in WHOLE
        else st.sampled_from([None, 0, 1, 2, *WHOLE[kind], 10]) | st.integers(*WHOLE[kind])
        for kind in kinds
    ]
    schema = pa.schema([(name, kind) for name, kind in zip("abc", kinds, strict=False)])

    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        half = [
            pa.table([pa.array(c, k) for c, k in zip(zip(*part, strict=True), kinds, strict=True)],
                     schema=schema)
            for part in (rows[:3], rows[3:])
            if part
        ]  # fmt: skip
        return pa.concat_tables(half) if half else schema.empty_table()

    return st.lists(st.tuples(*values), max_size=25).map(table)


TABLES = st.lists(st.sampled_from([*small_frames.KINDS]), min_size=1, max_size=3).flatmap(
    columns_of
)


@nasty.examples(30, 2000, TABLES, st.booleans(), st.integers(1, 4))
def test_small_frames_are_counted_as_the_statement_counts(
    table: pa.Table, drop: bool, band: int
) -> None:
    """Law: the same nodes with the same counts in the same order, as DuckDB's statement finds them;
    below a band as if nodes had been left out of it."""
    hierarchy = Columns(tuple(table.column_names), "drop" if drop else "count")
    expect_twins(table, hierarchy, band)


def expect_twins(table: pa.Table, hierarchy: Hierarchy, band: int) -> None:
    small = small_frames.small_counts(table, hierarchy, 1)
    whole = exact_tree(table, hierarchy)
    assert small is not None
    assert said(small) == said(whole)
    found = small_frames.small_counts(table, hierarchy, band)
    assert found is not None
    kept = [n >= band or level == 0 for n, level in zip(whole.count, whole.level, strict=True)]
    shown = [[v for v, keep in zip(row, kept, strict=True) if keep] for row in said(whole)]
    assert [said(found)[0], *said(found)[2:]] == [shown[0], *shown[2:]]


ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1), st.integers(0, 9).map(lambda i: 0x0A000000 + 257 * i)
).map(lambda number: str(ipaddress.IPv4Address(number)))
BY_ADDRESS = [
    dp.ip("x"),
    dp.ip("x", invalid="drop"),
    dp.ip("x", version=4),
    dp.ip("x", prefixes=(1, 31), prefixes6=(127,)),
    dp.ip("x", prefixes=(7, 9, 10, 11, 12, 13), version=4),
    dp.ip("x", prefixes=(32,)),
]


@nasty.examples(
    10, 1000, st.lists(ADDRESSES, max_size=40), st.sampled_from(BY_ADDRESS), st.integers(1, 4)
)
def test_small_frames_of_addresses_are_counted_as_the_statement_counts(
    addresses: list[str], hierarchy: Hierarchy, band: int
) -> None:
    """Law: the same of IPv4 addresses."""
    for kind in small_frames.TEXTS:
        expect_twins(pa.table({"x": pa.array(addresses, kind)}), hierarchy, band)


@pytest.mark.parametrize(
    "odd",
    [*("", " 1.2.3.4", "1.2.3.4 ", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "1e2.3.4.5"),
     *("::1", "::ffff:1.2.3.4", "1.2.3.4\n", "1.2.3.\u0664", "+1.2.3.4", "1..2.3", None)],
)  # fmt: skip
def test_other_texts_than_those_of_ipv4_are_left_to_the_statement(odd: str | None) -> None:
    """One address that has other texts too, or none, decides that all are read by DuckDB."""
    assert small_frames.small_counts(pa.table({"x": ["1.2.3.4", odd]}), dp.ip("x"), 1) is None
    table = pa.table({"x": ["1.2.3.4"]})
    assert small_frames.small_counts(table, dp.ip("x", version=6), 1) is None
    numbers = pa.table({"x": pa.array([1, 2])})
    assert small_frames.small_counts(numbers, dp.ip("x"), 1) is None


@pytest.mark.parametrize("rows", [0, 7, 5000])
def test_both_ways_are_taken_to_the_same_counts(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: how many rows there are decides who counts them and nothing else, in every library; with
    many different values too."""
    table = pa.table({"a": [f"v{i % 1999}" for i in range(rows)], "b": np.arange(rows) * 7 % 5})
    arrow = table.to_pandas(types_mapper=pd.ArrowDtype)
    for source in (table, table.to_pandas(), pl.from_arrow(table), arrow):
        found = []
        for most in (rows, rows - 1):
            monkeypatch.setattr(exact_trees, "MOST", most)
            tree = exact_trees.exact_counts(source, dp.columns("a", "b"), PrivacyUnit(), 1)
            found.append((said(tree), tree.types))
        assert found[0] == found[1]


def test_many_levels_are_left_to_duckdb() -> None:
    """A node has a place at every level, so that memory grows by the square of their number."""
    wide = pa.table({f"c{i}": np.arange(1000) for i in range(70)})
    hierarchy = dp.columns(*wide.column_names)
    assert small_frames.small_counts(wide, hierarchy, 1) is None
    assert small_frames.small_counts(wide.slice(0, 800), hierarchy, 1) is not None


def test_types_that_are_no_keys_as_they_stand_are_counted_by_duckdb() -> None:
    """What is not text or whole is left to the statement, with the types that it says."""
    frame = pd.DataFrame({"x": [1.5, 2.0], "p": pd.period_range("2024", periods=2, freq="D")})
    frame["c"] = pd.Categorical(["a", "b"])
    for name in frame.columns:
        assert small_frames.small_counts(pa.table({"x": [1.5]}), dp.columns("x"), 1) is None
        tree = exact_trees.exact_counts(frame, dp.columns(name), PrivacyUnit(), 1)
        assert tree.count.tolist() == [2, 1, 1]
    assert (
        exact_trees.exact_counts(frame, dp.columns("p"), PrivacyUnit(), 1).types[0][:6] == "PANDAS"
    )
