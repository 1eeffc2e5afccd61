"""What bounds of users are made of: whole numbers of any size, and each value read once."""

from __future__ import annotations

import itertools

import duckdb

import dpframe as dp
from dpframe.measures import vectors_of
from dpframe.sources.segment_places import DUCKDB, value_indices, vector_summands

ENDS = (0, 1, 7, 2**62, 2**63 - 1, 2**63, 2**64 + 3, 2**126 + 5)


def test_quotients_are_exact_within_64_bits_and_beyond() -> None:
    """Law: rounded towards 0 whatever the sizes are, and NULL of NULL: nothing wraps, and nothing
    is an error, though most are divided in 64 bits."""
    dividends = sorted({sign * a for a in ENDS for sign in (-1, 1)})
    pairs = list(itertools.product([*dividends, None], [*ENDS[1:], None]))
    rows = ", ".join(
        f"({'NULL' if a is None else f'{a}::HUGEINT'}, {'NULL' if b is None else f'{b}::HUGEINT'})"
        for a, b in pairs
    )
    wide = DUCKDB.quotient("a", "b")
    found = duckdb.sql(f"SELECT a, b, {wide} FROM (VALUES {rows}) AS t(a, b)").fetchall()
    assert len(found) == len(pairs)
    for a, b, quotient in found:
        none = a is None or b is None
        assert quotient == (None if none else (-1) ** (a < 0) * (abs(a) // b))


def test_equal_values_are_read_once() -> None:
    """Law: vectors of one column with the same bounds add up one value; other bounds, or a total
    that is cut as a whole, are values of their own."""
    mean, other = dp.mean("x", lower=0, upper=9), dp.mean("x", lower=0, upper=8)
    total = dp.sum("x", lower=0, upper=9)
    vectors = [
        v
        for measure in (mean, mean, other, total, "count")
        for together, _ in vectors_of(
            dp.count() if isinstance(measure, str) else measure, by_user=True
        )
        for v in together
    ]
    assert value_indices(vectors, by_user=True) == [0, 0, 0, 0, 4, 4, 6, 7]
    assert list(vector_summands(vectors, by_user=True)) == ["x0", "x4", "x6"]
    assert value_indices(vectors, by_user=False) == [0, 0, 0, 0, 4, 4, 0, 7]
