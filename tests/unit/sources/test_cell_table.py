"""Rows of a statement that counted cells, as counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpframe.sources.rollup_statement import _positions_among


@given(
    st.sets(st.integers(1, 2**30), max_size=20),
    st.sampled_from([1, 2**12]),
    st.lists(st.integers(0, 19), max_size=40),
)
def test_positions_are_those_of_equal_numbers(
    some: set[int], spread: int, picked: list[int]
) -> None:
    """Law: small numbers are looked up in a table, large ones searched for; both find themselves,
    in whatever order they stand."""
    known = np.unique([0, *(one % 2**10 * spread for one in some)])[::-1]
    wanted = known[[pick % len(known) for pick in picked]].astype(np.int64)
    assert (known[_positions_among(wanted, known)] == wanted).all()
