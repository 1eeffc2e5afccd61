"""Frames and rows of users counted in NumPy, against the statement of DuckDB."""

from __future__ import annotations

import ipaddress
from collections import Counter
from contextlib import ExitStack
from itertools import combinations
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe._duck import VIEW, register_table
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy, columns
from dpframe.hierarchy._cells import Columns
from dpframe.sources import exact_trees, small_frames
from dpframe.sources import small_frames as user_rows
from dpframe.sources.cell_leaves import row_hash
from dpframe.sources.exact_trees import exact_counts
from tests import strategies as nasty
from tests.members import in_turn, tries
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
def test_frames_are_counted_as_by_the_statement(table: pa.Table, drop: bool, band: int) -> None:
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
def test_addresses_are_counted_as_by_the_statement(
    addresses: list[str], hierarchy: Hierarchy, band: int
) -> None:
    """Law: the same of IPv4 addresses."""
    for kind in small_frames.TEXTS:
        expect_twins(pa.table({"x": pa.array(addresses, kind)}), hierarchy, band)


@pytest.mark.parametrize(
    "odd",
    [*("", " 1.2.3.4", "1.2.3.4 ", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "1000.2.3.4"),
     *("::1", "1e2.3.4.5", "::ffff:1.2.3.4", "1.2.3.4\n", "1.2.3.\u0664", "+1.2.3.4", "1..2.3"),
     None],
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
    """Law: the number of rows decides who counts them, and nothing else, in every library."""
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


SHARE = PrivacyUnit(user="u")


def sample_of(most: int) -> PrivacyUnit:
    return PrivacyUnit(user="u", contribution="records", max_contributions=most)


PATHS = columns(["a", "b"])
ENDS = st.sampled_from([None, -(2**27), -1, 0, 1, 2, 2**27])
ROWS = st.lists(st.tuples(ENDS, ENDS, st.sampled_from([None, 0, 5])), max_size=30)


def frame_of(rows: list[Any], big: str = "int32") -> pa.Table:
    kinds = (pa.int32(), pa.type_for_alias(big), pa.int8())
    given = list(zip(*rows, strict=True)) or [[], [], []]
    return pa.table({n: pa.array(v, k) for n, v, k in zip("uab", given, kinds, strict=True)})


def leaves(rows: list[Any], unit: PrivacyUnit, seed: int, **more: Any) -> dict[Any, int]:
    """Counts of the finest keys, as the second statement reads them."""
    with register_table(frame_of(rows, **more), "rows") as relation:
        types = dict(zip(relation.columns, relation.types, strict=True))
        found = user_rows.user_leaves(
            relation, PATHS, unit, (types["a"], types["b"]), types["u"], seed=seed, progress=False
        )
    assert found is not None
    with register_table(found.table, "leaves") as relation:
        read = relation.query(found.sql, False).to_pylist()
    assert len({(r["k1"], r["k2"]) for r in read}) == len(read)
    return {(r["k1"], r["k2"]): r["n"] for r in read}


def counted(rows: object, hierarchy: Hierarchy, unit: PrivacyUnit, seed: int, sql: bool) -> Any:
    """Nodes and their counts, by either way."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(exact_trees, "random_seed", return_value=seed))
        if sql:
            for module, name in ((user_rows, "user_leaves"), (exact_trees, "text_key_rows")):
                stack.enter_context(mock.patch.object(module, name, return_value=None))
        tree = exact_counts(rows, hierarchy, unit, 1)
    return [tree.level.tolist(), tree.count.tolist(), *(k.to_pylist() for k in tree.keys)]


@in_turn(
    ("unit", [SHARE, *(sample_of(most) for most in (1, 2, 5))], ["share", "1", "2", "5"]),
    ("drop", [False, True]),
)
@tries(6, 100)
@given(rows=ROWS, seed=st.integers(0, 2**63 - 1), block=st.integers(1, 8))
def test_counts_are_of_sql(
    drop: bool, unit: PrivacyUnit, rows: list[Any], seed: int, block: int
) -> None:
    """For one seed, and every way of one user to change how others are counted."""
    hierarchy = columns(["a", "b"], invalid="drop" if drop else "count")
    table = frame_of(rows)
    with mock.patch.object(user_rows, "BLOCK", block):
        ours = counted(table, hierarchy, unit, seed, sql=False)
    assert ours == counted(table, hierarchy, unit, seed, sql=True)


TEXT = {None: None, -(2**27): "", -1: "é", 0: "a", 1: "A", 2: "a ", 5: "b", 2**27: "aa"}


@in_turn(("texts", ["a", "ab", "uab", "u"]), ("drop", [False, True]))
@tries(4, 60)
@given(rows=ROWS, seed=st.integers(0, 2**63 - 1))
def test_counts_of_texts_are_of_sql(texts: str, drop: bool, rows: list[Any], seed: int) -> None:
    """For one seed, and ids and keys that are texts, numbers, or both; frames are read twice, and
    relations over a query once."""
    hierarchy = columns(["a", "b"], invalid="drop" if drop else "count")
    table = frame_of(rows)
    for name in texts:
        column = pa.array([TEXT[v] for v in table[name].to_pylist()], pa.string())
        table = table.set_column(table.column_names.index(name), name, column)
    ours = counted(table, hierarchy, SHARE, seed, sql=False)
    assert ours == counted(table, hierarchy, SHARE, seed, sql=True)
    with duckdb.connect() as con:
        con.register("t", table)
        once = con.sql("SELECT * FROM t ORDER BY hash(u) LIMIT 1000")
        assert counted(once, hierarchy, SHARE, seed, sql=False) == ours


@pytest.mark.parametrize("unit", [SHARE, sample_of(3)], ids=["share", "records"])
def test_many_rows_count_as_in_sql(unit: PrivacyUnit) -> None:
    random = np.random.default_rng(5)
    many = 200_000
    rows = pd.DataFrame(
        {
            "u": (random.random(many) ** 3 * 30_000).astype(np.int32),
            "a": random.integers(-3, 9, many),
            "b": random.integers(0, 50, many).astype(np.uint16),
        }
    )
    with mock.patch.object(user_rows, "BLOCK", 2**14):
        ours = counted(rows, PATHS, unit, 7, sql=False)
    assert ours == counted(rows, PATHS, unit, 7, sql=True)


def test_hashes_that_start_alike_are_compared_as_a_whole() -> None:
    own = np.array([0, 0, 0, 1, 1])
    hashes = np.array([3, 1, 2, 9, 9], dtype=np.uint64)  # no different bits among the first
    assert user_rows._order_by_hash(own, hashes).tolist() == [1, 2, 0, 3, 4]


@pytest.mark.parametrize("unit", [SHARE, sample_of(2)], ids=["share", "records"])
@tries(5, 100)
@given(rows=ROWS, seed=st.integers(0, 2**63 - 1), block=st.integers(1, 8))
def test_a_user_counts_alone(unit: PrivacyUnit, rows: list[Any], seed: int, block: int) -> None:
    """Counts are the sum of every user's own, which move by what the unit says at most."""
    total: Counter[Any] = Counter()
    for user in {u for u, _, _ in rows}:
        own = leaves([row for row in rows if row[0] == user], unit, seed)
        many = sum(row[0] == user for row in rows)
        assert sum(own.values()) == (unit.grid if unit is SHARE else min(many, 2))
        total.update(own)
    with mock.patch.object(user_rows, "BLOCK", block):
        assert leaves(rows, unit, seed) == dict(total)


def samples(seeds: int) -> Counter[Any]:
    rows = [(7, a, 0) for a in range(4)] + [(9, 5, 5)] * 3
    found = (leaves(rows, sample_of(2), seed) for seed in range(seeds))
    return Counter(tuple(sorted(a for a, b in one if b == 0)) for one in found)


def far_from_uniform(found: Counter[Any], seeds: int) -> bool:
    """Pearson's statistic of six pairs, five degrees: 1e-6."""
    expected = seeds / 6
    pairs = list(combinations(range(4), 2))
    assert set(found) <= set(pairs)
    return sum((found[p] - expected) ** 2 / expected for p in pairs) > 35.9


def test_a_sample_is_uniform() -> None:
    assert not far_from_uniform(samples(90), 90)


def test_the_first_rows_are_no_sample() -> None:
    def none(hashed: object, packed: Any, number: object) -> Any:
        return np.arange(len(packed), dtype=np.uint64)

    with mock.patch.object(user_rows.RowHashes, "rows", none):
        assert far_from_uniform(samples(50), 50)


def test_what_is_no_number_of_63_bits_is_left_to_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [(0, -(2**63), 0), (1, 2**63 - 1, 0)]
    with pytest.raises(AssertionError):
        leaves(wide, SHARE, 1, big="int64")
    assert exact_counts(frame_of(wide, "int64"), PATHS, SHARE, 1).count[0] == 2 * SHARE.grid
    near = [(0, 2**62, 0), (1, 2**62 + 3, 5)]
    assert set(leaves(near, SHARE, 1, big="int64")) == {(2**62, 0), (2**62 + 3, 5)}
    monkeypatch.setattr(user_rows, "MOST_USER_ROWS", 1)
    with pytest.raises(AssertionError):
        leaves(near, SHARE, 1, big="int64")
    monkeypatch.undo()
    monkeypatch.setenv("DPFRAME_MEMORY_LIMIT", "4GB")
    with pytest.raises(AssertionError):
        leaves(near, SHARE, 1, big="int64")


def pairs_by(order: str, seeds: int) -> Counter[Any]:
    """The two of four rows that come first in an order, with {seed}."""
    rows = pa.table({"a": [0, 1, 2, 3] * seeds, "seed": [i // 4 for i in range(4 * seeds)]})
    by = order.format(seed="seed")
    with register_table(rows, "rows") as relation:
        first = f"""
            SELECT seed, a FROM {VIEW}
            QUALIFY row_number() OVER (PARTITION BY seed ORDER BY {by}, a) <= 2
            ORDER BY seed, a"""
        found = relation.query(first, False)["a"].to_pylist()
    return Counter(zip(found[::2], found[1::2], strict=True))


def test_the_hash_of_a_row_takes_rows_apart() -> None:
    """Its hash of a row and a seed does not: it was what samples were taken by."""
    hashed = row_hash("7, a", 0).replace("0::", "{seed}::")
    assert not far_from_uniform(pairs_by(hashed, 600), 600)
    assert far_from_uniform(pairs_by("hash(7, a, {seed}::UBIGINT)", 600), 600)
