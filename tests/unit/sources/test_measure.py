"""A measure becomes whole units: read as by Python, bounded by row or by user, right on average."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import SHARE_GRID, PrivacyUnit
from dpframe.hierarchy import as_hierarchy
from tests import strategies as nasty
from tests.members import some
from tests.naive import Path, leaf_paths, parts, units_of_keys, units_of_users
from tests.rollups import columns_of_t, exact_counts, node_counts, tree_by_sql

X = dp.columns("x")
SEED = 7


def measured(most: float, user: str | None = None) -> PrivacyUnit:
    return PrivacyUnit(weight="w", max_weight=most, user=user, measured=True)


def hashed(values: list[Any], seed: int = SEED) -> Callable[[Any], int]:
    """DuckDB's hash of texts, as the statement takes it."""
    con = duckdb.connect()
    found = {v: con.execute(f"SELECT hash(?, {seed}::UBIGINT)", [v]).fetchall() for v in values}
    return lambda value: int(found[value][0][0])


def up(leaves: dict[Path, int]) -> dict[Path, int]:
    """Units of all nodes, from those of the finest."""
    out: dict[Path, int] = {(): 0}
    for path, units in leaves.items():
        for end in range(len(path) + 1):
            out[path[:end]] = out.get(path[:end], 0) + units
    return {path: units for path, units in out.items() if units or not path}


def frame_of(
    rows: list[tuple[Any, ...]], columns: list[str], kind: str = "float64"
) -> pd.DataFrame:
    """Text columns, and the weights last."""
    frame = pd.DataFrame(rows, columns=columns, dtype=object)
    return frame.astype({columns[-1]: kind})


WEIGHTS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 3),
    st.sampled_from(
        [None, 0.0, -0.0, 1.0, 0.5, 1 / 256, 1e-300, 5e-324, 1e308, math.nan, math.inf]
    ),
)
BOUNDS = st.sampled_from([1.0, 0.1, 3e-7, 1e200, 1e-200, 1234.5])


@nasty.examples(
    8, 100, st.lists(st.tuples(st.sampled_from(["a", "b", "ü", "", None]), WEIGHTS), max_size=40),
    BOUNDS,
)  # fmt: skip
def test_units_of_rows_are_those_of_the_twin(rows: list[Any], most: float) -> None:
    """Law: for the same offsets the same units, whatever floating-point numbers there are."""
    keys = leaf_paths(X, [(x,) for x, _ in rows])
    offset = hashed(["a", "b", "ü", None])
    leaves = units_of_keys(
        keys, [w for _, w in rows], most=most, grid=SHARE_GRID, offset=lambda path: offset(path[0])
    )
    found = exact_counts(frame_of(rows, ["x", "w"]), X, measured(most), SEED)
    assert found == up(leaves)


@nasty.examples(
    8,
    100,
    st.lists(
        st.tuples(st.sampled_from("uvw"), st.sampled_from(["a", "b", "c", None]), WEIGHTS),
        max_size=40,
    ),
    BOUNDS,
)
def test_units_of_users_are_those_of_the_twin(rows: list[Any], most: float) -> None:
    """Law: the same, cumulated over the keys of a user, <invalid> last."""
    keys = leaf_paths(X, [(x,) for _, x, _ in rows])
    leaves = units_of_users(
        [u for u, _, _ in rows],
        keys,
        [w for *_, w in rows],
        most=most,
        grid=SHARE_GRID,
        offset=hashed(["u", "v", "w"]),
        order=lambda path: (path[0] is None, path[0] or ""),
    )
    found = exact_counts(frame_of(rows, ["u", "x", "w"]), X, measured(most, "u"), SEED)
    assert found == up(leaves)


@nasty.examples(
    8,
    50,
    st.lists(
        st.tuples(st.sampled_from(["a/b", "a", "", None, "1.2.3.4", "7", "2020-01-02"]), WEIGHTS),
        max_size=30,
    ),
    st.sampled_from(["path:x?depth=2", "ip:x", "date:x", "number:x?lower=0&upper=8&depth=3"]),
    st.sampled_from(["", "invalid=drop"]),
)
def test_every_kind_adds_up_a_measure(rows: list[Any], spec: str, invalid: str) -> None:
    """Law: of every finest node within a unit of the exact sum, and nodes are sums of those."""
    hierarchy = as_hierarchy(spec + (("&" if "?" in spec else "?") + invalid if invalid else ""))
    keys = leaf_paths(hierarchy, [(x,) for x, _ in rows])
    exact: dict[Path, Fraction] = {}
    for key, (_, w) in zip(keys, rows, strict=True):
        if key is not None and parts(w, 1.0):
            exact[key] = exact.get(key, Fraction(0)) + Fraction(parts(w, 1.0) * SHARE_GRID, 2**40)
    found = exact_counts(frame_of(rows, ["x", "w"]), hierarchy, measured(1.0), SEED)
    nodes: dict[Path, Fraction] = {(): Fraction(0)}
    below: dict[Path, int] = {}
    for key, units in exact.items():
        for end in range(len(key) + 1):
            nodes[key[:end]] = nodes.get(key[:end], Fraction(0)) + units
            below[key[:end]] = below.get(key[:end], 0) + 1
    assert set(found) <= set(nodes)
    for path, units in nodes.items():
        assert abs(found.get(path, 0) - units) < max(1, below.get(path, 1))


@nasty.examples(
    10, 200, st.lists(st.tuples(st.sampled_from("abc"), WEIGHTS), max_size=12),
    st.sampled_from("abcd"), WEIGHTS, st.integers(0, 2**63 - 1),
)  # fmt: skip
def test_a_row_moves_one_key_by_the_grid(
    rows: list[Any], key: str, weight: float | None, seed: int
) -> None:
    """Law: for every seed; that is all that the proof of privacy asks of the rounding."""
    before = exact_counts(frame_of(rows, ["x", "w"]), X, measured(1.0), seed)
    more = [*rows, (key, weight)]
    after = exact_counts(frame_of(more, ["x", "w"]), X, measured(1.0), seed)
    moved = {path: after.get(path, 0) - before.get(path, 0) for path in {*before, *after}}
    assert {path for path, by in moved.items() if by} <= {(), (key,)}
    assert 0 <= moved[()] <= SHARE_GRID


@nasty.examples(
    10,
    200,
    st.lists(st.tuples(st.sampled_from("uv"), st.sampled_from("abc"), WEIGHTS), max_size=12),
    st.lists(st.tuples(st.just("new"), st.sampled_from("abcd"), WEIGHTS), max_size=12),
    st.integers(0, 2**63 - 1),
)
def test_a_user_moves_all_keys_by_the_grid(rows: list[Any], own: list[Any], seed: int) -> None:
    """Law: for every seed, up at every key; and not by less than the user has, but for rounding."""
    columns, unit = ["u", "x", "w"], measured(1.0, "u")
    before = exact_counts(frame_of(rows, columns), X, unit, seed)
    after = exact_counts(frame_of(rows + own, columns), X, unit, seed)
    moved = {path: after.get(path, 0) - before.get(path, 0) for path in {*before, *after}}
    assert all(by >= 0 for by in moved.values())
    assert moved[()] == sum(by for path, by in moved.items() if path) <= SHARE_GRID
    whole = min(2**40, sum(parts(w, 1.0) for *_, w in own)) * SHARE_GRID / 2**40
    assert abs(moved[()] - whole) < 1


@pytest.mark.parametrize("user", [None, "u"])
def test_rounding_is_right_on_average_and_never_all_alike(user: str | None) -> None:
    """Law: over seeds the mean is the exact sum, to six standard errors, although every key or user
    has far less than a unit. A rounding that cuts off has a mean of 0, and is rejected."""
    n, seeds, weight = 4000, 25, 0.3 / SHARE_GRID
    rows = [(f"user {i}", f"key {i}", weight) for i in range(n)]
    frame = frame_of(rows, ["u", "x", "w"])
    totals = [exact_counts(frame, X, measured(1.0, user), seed)[()] for seed in range(seeds)]
    error = math.sqrt(0.3 * 0.7 * n / seeds)
    assert abs(np.mean(totals) - 0.3 * n) < 6 * error
    assert 0.25 < np.std(totals) / math.sqrt(0.3 * 0.7 * n) < 3  # independent of each other
    assert abs(0 - 0.3 * n) > 6 * error


def test_equal_rows_of_a_key_are_rounded_together() -> None:
    """A million rows of a ten-thousandth of a unit are a hundred units, not none or a million."""
    con = duckdb.connect()
    rows = con.sql(f"SELECT 'a' AS x, {1e-4 / SHARE_GRID!r}::DOUBLE AS w FROM range(1_000_000)")
    for seed in range(5):
        assert 99 <= exact_counts(rows, X, measured(1.0), seed)[()] <= 101


def test_sums_of_the_largest_weights_fit() -> None:
    """Twenty million rows at the bound: 2^40 each is beyond 64 bits together."""
    con = duckdb.connect()
    rows = con.sql("SELECT 'a' AS x, 'u' AS u, 'inf'::DOUBLE AS w FROM range(20_000_000)")
    assert exact_counts(rows, X, measured(1e-200))[("a",)] == 20_000_000 * SHARE_GRID
    assert exact_counts(rows, X, measured(1e-200, "u"))[("a",)] == SHARE_GRID


NUMBERS: dict[str, list[Any]] = {
    **{t: [1, 0, -1, 100, None] for t in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")},
    "UBIGINT": [2**64 - 1, 0, 3, None],
    "HUGEINT": [2**127 - 1, -(2**127), 0, 3, None],
    "DECIMAL(38,0)": [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(4), None],
    "DECIMAL(9,2)": [Decimal("12.50"), Decimal("-0.01"), Decimal("0.01"), None],
    "FLOAT": [1.5, math.inf, -math.inf, math.nan, None, 3e38],
    "DOUBLE": [2.25, math.inf, -math.inf, math.nan, None, 1e308, 5e-324],
}


@some(
    "TINYINT-None", "SMALLINT-None", "INTEGER-u", "HUGEINT-None", "DECIMAL(38,0)-u",
    "DECIMAL(9,2)-u", "DOUBLE-None",
)  # fmt: skip
@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_every_type_are_read(kind: str, user: str | None) -> None:
    """Law: +inf is the bound, and NULL, NaN and what is negative are 0, for every type; SQL reads
    the same, whether it knows the types or not."""
    con, values = duckdb.connect(), NUMBERS[kind]
    made = ", ".join(
        f"('{'ab'[i % 2]}', 'u{i}', {'NULL' if v is None else repr(str(v))}::{kind})"
        for i, v in enumerate(values)
    )
    con.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {made}) v(x, u, w)")
    unit = measured(4.0, user)
    found = exact_counts(con.table("t"), X, unit, SEED)
    total = sum(parts(None if v is None else float(v), 4.0) for v in values) * SHARE_GRID / 2**40
    assert abs(found[()] - total) < len(values)
    assert found[()] > 0
    for columns in (None, columns_of_t(con)):
        assert node_counts(tree_by_sql(con, X, unit, columns, seed=SEED), X) == found
