"""Users and values at nodes, counted from numbers of their keys: beside slow twins, by ranges, and
with sums beyond 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe._duck.relations import GivenRelation
from dpframe.budget import NodesUnit
from dpframe.errors import SourceError
from dpframe.hierarchy import as_hierarchy
from dpframe.sources import exact_trees, user_rows
from dpframe.sources.exact_trees import node_users
from dpframe.sources.node_values import mix_bits
from dpframe.sources.user_rows import UserRows

KEYS = ["x", "y", "x/1", "x/2", "y/1", "x/1/p", "x/1/q", "y/3/p/7", "", None]
USERS: dict[str, Sequence[Any]] = {
    "texts": ["a", "b", "c", None],
    "whole": [1, 2, 2**62, None],
    "floats": [0.0, -0.0, 1.5, None],
}
ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(KEYS)), max_size=30)


def tree_of(tree: Any) -> dict[tuple[Any, ...], int]:
    texts = zip(*(key.cast("string").to_pylist() for key in tree.keys), strict=True)
    return dict(zip(zip(tree.level.tolist(), texts, strict=True), tree.count.tolist(), strict=True))


def frame_of(rows: list[tuple[int, str | None]], users: str) -> pa.Table:
    kind = {"texts": pa.string(), "whole": pa.int64(), "floats": pa.float64()}[users]
    ids = [USERS[users][user] for user, _ in rows]
    return pa.table(
        {"user": pa.array(ids, kind), "path": pa.array([k for _, k in rows], pa.string())}
    )


@pytest.mark.parametrize("users", USERS)
@given(rows=ROWS, most=st.integers(1, 3), band=st.integers(1, 2))
@settings(max_examples=25)
def test_users_count_at_their_own_nodes_and_at_no_more_than_allowed(
    users: str, rows: list[tuple[int, str | None]], most: int, band: int
) -> None:
    """Laws: without a bound, different users; with one, each user at min(n, most) of n nodes of a
    level; and nobody moves where another counts."""
    hierarchy = as_hierarchy("path:path?depth=4")
    frame = frame_of(rows, users)
    everybody = NodesUnit(user="user", contribution="items", at_most=100)
    bounded = NodesUnit(user="user", contribution="items", at_most=most)
    nodes: dict[Any, set[tuple[int, str | None]]] = {}
    for user, key in rows:
        parts = [part for part in (key or "").split("/") if part]
        own = nodes.setdefault(USERS[users][user], set())
        own |= {(n, "/".join(parts[:n])) for n in range(1, len(parts) + 1)}
        own |= set() if parts else {(1, None)}
    count: dict[tuple[int, Any], int] = {}
    for own in nodes.values():
        for node in own:
            count[node] = count.get(node, 0) + 1
    found = tree_of(node_users(frame, hierarchy, everybody, band))
    assert found.pop((0, (None,))) == len(nodes)
    assert found == {(n, (key,)): k for (n, key), k in count.items() if k >= band}
    some = tree_of(node_users(frame, hierarchy, bounded, 1))
    some.pop((0, (None,)))
    for level in range(1, 5):
        of_level = [[node for node in own if node[0] == level] for own in nodes.values()]
        counted = sum(k for (n, _), k in some.items() if n == level)
        assert counted == sum(min(most, len(own)) for own in of_level)


def test_where_a_user_counts_depends_on_this_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And every node of a level is as likely as any other. A hash of numbers of keys, which others
    move, is rejected."""
    hierarchy = as_hierarchy("path:path?depth=2")
    unit = NodesUnit(user="user", contribution="items", at_most=1)
    own = [
        ("u", f"{a}/{i}") for a, several in (("m", 9), ("n", 1), ("o", 1)) for i in range(several)
    ]
    others = [("v", "a/1"), ("v", "m/00"), ("w", "n/0"), ("w", "z/5")]

    def where(rows: list[tuple[str, str]], seed: int) -> set[Any]:
        monkeypatch.setattr(exact_trees, "random_seed", lambda: seed)
        frame = pd.DataFrame(rows, columns=["user", "path"])
        return {*tree_of(node_users(frame, hierarchy, unit, 1)).items()}

    def differs() -> int:
        alone = [where(own, seed) for seed in range(20)]
        apart = [where(others, seed) for seed in range(20)]
        beside = [where(own + others, seed) - apart[seed] for seed in range(20)]
        strangers = {k for each in apart for k, _ in each}
        return sum(
            {k for k, _ in a if k not in strangers} != {k for k, _ in b if k not in strangers}
            for a, b in zip(alone, beside, strict=True)
        )

    assert differs() == 0
    chosen = [next(k for (n, (k,)), _ in where(own, seed) if n == 1) for seed in range(90)]
    assert min(chosen.count(k) for k in "mno") > 15  # 30 each; by rows 8 for n and o
    kept = UserRows.__init__

    def by_number(self: UserRows, **given: Any) -> None:
        numbers = np.arange(len(given["key_hash"]), dtype=np.uint64)
        kept(self, **{**given, "key_hash": mix_bits(numbers + np.uint64(7))})

    monkeypatch.setattr(UserRows, "__init__", by_number)
    assert differs() > 0


@pytest.mark.parametrize("users", ["texts", "whole"])
def test_ranges_of_users_are_all_users_together(
    users: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(1)
    rows = [(int(draw.integers(4)), str(draw.choice(KEYS[:8]))) for _ in range(200)]
    hierarchy, frame = as_hierarchy("path:path?depth=4"), frame_of(rows, users)
    unit = NodesUnit(user="user", contribution="items", at_most=2)
    monkeypatch.setattr(exact_trees, "random_seed", lambda: 5)
    asked, kept = list[list[str]](), user_rows.user_ranges

    def ranges(*given: Any) -> list[str]:
        asked.append(kept(*given))
        return asked[-1]

    monkeypatch.setattr(user_rows, "user_ranges", ranges)
    whole = tree_of(node_users(frame, hierarchy, unit, 2))
    monkeypatch.setattr(user_rows, "MOST_ROWS", 37)
    assert tree_of(node_users(frame, hierarchy, unit, 2)) == whole
    assert [len(each) for each in asked] == [1, 6]


def test_users_whose_equal_ids_can_have_different_hashes_are_not_divided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_rows, "MOST_ROWS", 1)
    frame = frame_of([(0, "x"), (1, "x")], "floats")  # 0 and -0
    unit = NodesUnit(user="user", contribution="items", at_most=2)
    tree = node_users(frame, as_hierarchy("path:path?depth=4"), unit, 1)
    assert tree.count.tolist() == [1, 1]


def test_a_reader_of_arrow_is_read_once() -> None:
    frame = frame_of([(0, "x"), (1, "x/1")], "texts")
    reader = pa.RecordBatchReader.from_batches(frame.schema, frame.to_batches())
    unit = NodesUnit(user="user", contribution="items", at_most=1)
    tree = node_users(reader, as_hierarchy("path:path?depth=4"), unit, 1)
    assert tree.count.tolist() == [2, 2, 1]


def test_users_whose_ids_are_drawn_when_rows_are_read_count_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A view that is read range by range, and draws other ids each time, is rejected."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 'x' AS path FROM range(500)")
    view = connection.sql('SELECT uuid()::VARCHAR AS "user", path FROM t')
    unit = NodesUnit(user="user", contribution="items", at_most=1)
    monkeypatch.setattr(user_rows, "MOST_ROWS", 37)

    def counted() -> list[int]:
        return node_users(view, as_hierarchy("path:path?depth=4"), unit, 1).count.tolist()

    assert counted() == [500, 500]
    monkeypatch.setattr(GivenRelation, "repeats", lambda *_, **__: True)
    assert any(counted() != [500, 500] for _ in range(20))


def test_nodes_that_change_between_ranges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = NodesUnit(user="user", contribution="items", at_most=1)
    frame = frame_of([(0, "x"), (1, "y"), (2, "x")], "texts")
    monkeypatch.setattr(user_rows, "MOST_ROWS", 1)
    kept, read = user_rows._users_and_keys, list[pa.Table]()

    def other_names(table: pa.Table) -> tuple[pa.Table, ...]:
        *others, nodes = kept(table)
        read.append(nodes)
        if len(read) > 1:
            place = nodes.schema.get_field_index("t1")
            nodes = nodes.set_column(place, "t1", pa.array(["z"] * len(nodes)))
        return (*others, nodes)

    monkeypatch.setattr(user_rows, "_users_and_keys", other_names)
    with pytest.raises(SourceError, match="changed while it was read"):
        node_users(frame, as_hierarchy("path:path?depth=4"), unit, 1)


def test_what_a_user_has_does_not_depend_on_the_order_of_rows() -> None:
    """Sums of floating-point numbers would; the order of values as they come is rejected."""
    from dpframe.budget import PrivacyUnit
    from dpframe.sources import user_nodes

    values = [2.0**40, -(2.0**40), *(2.0**-10 * k for k in range(1, 8)), 2.0**39 / 3, -(2.0**41)]
    hierarchy, unit = as_hierarchy(["a"]), PrivacyUnit(user="u")

    def sums(order: Any) -> list[float]:
        rows = pd.DataFrame({"u": "one", "a": "x", "v": np.array(values)[order]})
        found = user_nodes.user_nodes(rows, hierarchy, unit, 9, (1,), ("v",))
        assert found.held is not None
        return list(found.held.amounts(found.nodes, 0, np.ones(found.size, bool)).amount.tolist())

    orders = [np.random.default_rng(i).permutation(len(values)) for i in range(30)]
    assert len({tuple(sums(order)) for order in orders}) == 1
    with mock.patch.object(np, "lexsort", lambda keys: np.arange(len(keys[0]))):
        assert len({tuple(sums(order)) for order in orders}) > 1


@pytest.mark.parametrize("bits", [0, 1, 40, 45, 46, 52, 53, 56, 57, 63, 64])
@pytest.mark.parametrize("parts", [1, 1000])
def test_rows_are_put_in_the_order_of_users_and_parts(bits: int, parts: int) -> None:
    """Ids of every width: one sort of numbers, two of them, or a sort without them."""
    rng = np.random.default_rng(bits)
    low, high = -(2**bits // 2), (2**bits - 1) // 2
    few = np.append(rng.integers(low, high, 40, endpoint=True), [low, high])
    for rows in (0, 1, 100):
        user, part = rng.choice(few, rows), rng.integers(0, parts, rows)
        if rows > 1:
            user[:2] = low, high
        order = user_rows._order_by_users(user, part, parts)
        assert order.tolist() == np.lexsort([part, user]).tolist()


@pytest.mark.parametrize("user", [None, "user"])
def test_different_values_draw_one_seed_whoever_is_protected(user: str | None) -> None:
    """As Spark does: noise that is drawn later is the same for one seed of all noise."""
    import dpframe as dp
    from dpframe.sources import rollup_parts

    frame = frame_of([(i % 4, key) for i, key in enumerate(KEYS)], "whole")
    most = {} if user is None else {"user": user, "threshold": 60, "contribution": "share"}
    measures = ["count", dp.distinct("path", at_most=None if user is None else 1)]
    with mock.patch.object(rollup_parts, "random_seed", return_value=3) as drawn:
        dp.rollup(frame, "path:path", measures, epsilon=2.0, delta=1e-6, **most)
    assert drawn.call_count == 1
