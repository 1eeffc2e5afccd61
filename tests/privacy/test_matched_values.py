"""Different values of users are matched with users: one user moves the numbers of a level by at
most as many as they are matched with, and no sample of as many values a user counts more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe.budget import PrivacyUnit
from dpframe.measures import measure as dpm
from dpframe.measures.measure import distinct_of
from dpframe.sources import node_values
from dpframe.sources import rollup_parts as sources

from .test_rollup_bounding import BOTH, ROWS, Row, listing, table_of

NODES, VALUES, USERS = (1, 2), (11, 6), 3
CELLS = [*product(NODES, VALUES)]
"""Two values at two nodes below the root, 0."""

Held = tuple[tuple[tuple[int, int], ...], ...]
"""What each user has: nodes and values."""


def tables() -> Iterator[Held]:
    """All tables of three users, but for their order, which changes nothing."""
    some = [cells for n in range(len(CELLS) + 1) for cells in combinations(CELLS, n)]
    return combinations_with_replacement(some, USERS)


def matched(held: Held, most: int) -> tuple[tuple[int, ...], ...]:
    """Numbers by the shipped code: of the root, and of the nodes."""
    rows = [[{"h": value, "n1": node} for node, value in own] for own in held if own]
    kind = pa.list_(pa.struct({"h": pa.uint64(), "n1": pa.int32()}))
    found = node_values.matched_values(pa.chunked_array([rows], kind), 3, most, root=True)
    return (int(found[0]),), tuple(found[1:].tolist())


def largest(sets: Sequence[frozenset[Any]], most: int) -> int:
    """The most elements that users with such sets are matched with, by trying all choices."""
    choices = [combinations(sorted(own), min(most, len(own))) for own in sets]
    return max(len({one for own in choice for one in own}) for choice in product(*choices))


def moves(most: int, of: Callable[[Held, int], Any] = matched) -> Iterator[int]:
    """By how much each user of every table moves the numbers of a level."""
    seen: dict[Held, Any] = {}
    for held in tables():
        for own in (held, *(((), *held[:u], *held[u + 1 :]) for u in range(USERS))):
            if own not in seen:
                seen[own] = of(own, most)
            for one, other in zip(seen[held], seen[own], strict=True):
                yield sum(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("most", [1, 2])
def test_one_user_moves_a_level_by_at_most_what_they_are_matched_with(most: int) -> None:
    """Law: in all tables, over all nodes of a level together; and the numbers are the largest."""
    assert max(moves(most)) == most
    for held in [*tables()][::3]:
        (root,), below = matched(held, most)
        values = [frozenset(value for _, value in own) for own in held]
        assert root == largest(values, most)
        assert sum(below) == largest([*map(frozenset, held)], most)


# -- planted bugs ----------------------------------------------------------------------------------

SHIPPED = node_values.match_in_order


def _rare_values_first(starts: Any, user: Any, first: Any, room: Any) -> Any:
    """The order is that of how many users have a value."""
    order, out = np.argsort(np.diff(starts), kind="stable"), np.zeros(len(starts) - 1, dtype=bool)
    lists = [user[starts[i] : starts[i + 1]] for i in order]
    ends = np.append(0, np.cumsum([*map(len, lists)]))
    out[order] = SHIPPED(ends, np.concatenate(lists), first, room)
    return out


def _node_by_node(held: Held, most: int) -> tuple[tuple[int, ...], ...]:
    """A user is matched with as many values at each node."""
    own = [tuple(tuple(c for c in cells if c[0] == node) for cells in held) for node in NODES]
    return ((0,), tuple(sum(matched(one, most)[1]) for one in own))


def test_more_for_each_node_is_rejected() -> None:
    """Planted bug: a user who is at two nodes moves them by twice as much."""
    assert any(moved > 1 for moved in moves(1, _node_by_node))


def test_another_largest_set_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the order of values is one of the data."""
    monkeypatch.setattr(node_values, "match_in_order", _rare_values_first)
    assert any(moved > 1 for moved in moves(1))


# -- the shipped statement -------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=10),
    most=st.sampled_from([1, 2]),
    column=st.sampled_from(["b", "v"]),
)
def test_no_sample_counts_more(rows: list[Row], most: int, column: str) -> None:
    """Law: each level has the most values that some choice of so many a user has."""
    listed, nodes, _ = listing([("x", "x"), ("x", "y"), ("y", "z")])
    unit = PrivacyUnit(user="u")
    counted = sources.measure_parts(table_of(rows), BOTH, unit, 1, [], listed=listed)
    distinct = distinct_of(dpm.distinct(column, at_most=most), user="u", height=2)
    assert distinct is not None
    found = counted.distinct(distinct, nodes)
    keys = [*zip(*(key.to_pylist() for key in nodes.keys), strict=True)]
    for level in (0, 1, 2):
        shown = {key[:level] for key, at in zip(keys, nodes.level, strict=True) if at == level}
        sets: dict[Any, set[Any]] = {}
        for u, a, b, _, v in rows:
            value = {"b": b, "v": v}[column]
            if value is not None and value == value and (a, b)[:level] in shown:
                sets.setdefault(u, set()).add(((a, b)[:level], value))
        each = [frozenset(map(repr, own)) for own in sets.values()]
        assert sum(found[nodes.level == level]) == largest(each, most)


def test_no_order_of_rows_and_no_way_of_counting_changes_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law: in any order of users and values, compiled or not, and where pairs do not fit into 64
    bits, numbers are the same."""
    rng = np.random.default_rng(3)
    held = tuple(tuple({*zip(*rng.integers(1, (3, 30), (9, 2)).T, strict=True)}) for _ in range(9))
    expected = matched(held, 2)
    assert sum(expected[1]) == 18
    assert matched(tuple(own[::-1] for own in reversed(held)), 2) == expected
    with monkeypatch.context() as patch:
        patch.setattr(node_values, "MANY_PAIRS", 0)
        assert matched(held, 2) == expected
    one, other = rng.integers(0, 5, (2, 40))
    small = node_values.different_pairs(one, other, 5)
    large = node_values.different_pairs(one + 2**40, other, 2**40)
    assert [(a + 2**40, b) for a, b in zip(*small, strict=True)] == [*zip(*large, strict=True)]
