"""A path without parts is the root's own, as ``/a`` is its node's above ``/a/b``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import NodesUnit
from dpframe.questions.hhh.rounds_plan import group_shares
from dpframe.sources.exact_trees import node_users
from dpframe.sources.user_nodes import user_nodes
from tests.naive import leaf_paths
from tests.strategies import examples

VIEWS = pd.DataFrame(
    {
        "page": ["/"] * 500 + ["//", "///"] * 100 + ["/a"] * 100 + ["/a/b"] * 150 + ["/c/d"] * 100,
        "visitor": range(1050),
        "spent": 1.0,
        "plan": "free",
    }
)
"""1050 page views, 700 of which are of the first page."""

BUDGET: dict[str, Any] = {"epsilon": 10.0, "delta": 1e-5}
TREE = {"*": 1050, "a": 250, "a/b": 150, "c/d": 100}
SEVERAL = {"*": 700, "a": 100, "a/b": 150, "c/d": 100}
LISTED = {"*": 1050, "a": 250, "a/b": 150, "a/<other>": 100, "<other>": 800}
FOUND = LISTED | {"<other>": 700, "c": 100, "c/d": 100, "c/<other>": 0}


def in_sql() -> pd.DataFrame:
    with duckdb.connect() as con:
        con.register("views", VIEWS)
        dp.register(con)
        return con.sql("FROM dp_hhh('views', 'path:page', epsilon := 10.0, delta := 1e-5)").df()


def near(found: pd.DataFrame, wanted: dict[str, int], column: str = "count") -> None:
    """The same rows, each within what noise at this epsilon does."""
    rows = dict(zip(found["prefix"], found[column], strict=True))
    assert set(rows) == set(wanted)
    assert all(abs(rows[name] - wanted[name]) < 25 for name in wanted), rows


DOORS: dict[str, tuple[Callable[[], pd.DataFrame], dict[str, int]]] = {
    "accessor": (lambda: VIEWS.dp.hhh("path:page", **BUDGET), TREE),
    "arrow": (lambda: dp.hhh(pa.Table.from_pandas(VIEWS), "path:page", **BUDGET), TREE),
    "sql": (in_sql, TREE),
    "dropped": (lambda: VIEWS.dp.hhh("path:page?invalid=drop", **BUDGET), TREE),
    "gaussian": (lambda: VIEWS.dp.hhh("path:page", mechanism="offline-gaussian", **BUDGET), TREE),
    "shares": (
        lambda: VIEWS.dp.hhh("path:page", user="visitor", contribution="share", **BUDGET),
        TREE,
    ),
    "rows of users": (
        lambda: VIEWS.dp.hhh(
            "path:page", user="visitor", contribution="records", max_contributions=2, **BUDGET
        ),
        TREE,
    ),
    "stream": (
        lambda: VIEWS.dp.hhh("path:page", mechanism="streaming", **BUDGET),
        {name: n for name, n in TREE.items() if name != "*"},
    ),
    "users": (
        lambda: VIEWS.dp.hhh(
            "path:page", user="visitor", contribution="items", at_most=1, **BUDGET
        ),
        TREE | {"c": 100},
    ),
    "users of one level": (
        lambda: VIEWS.dp.hhh(
            "path:page?depth=1", user="visitor", contribution="items", at_most=1, **BUDGET
        ),
        {"*": 1050, "a": 250, "c": 100},
    ),
    "users at keys": (
        lambda: VIEWS.dp.tree_counts(
            "path:page", keys=["/", "/a/b"], user="visitor", contribution="items", epsilon=10.0
        ),
        {"*": 1050, "a": 250, "a/b": 150},
    ),
    "tree counts": (lambda: VIEWS.dp.tree_counts("path:page", **BUDGET), FOUND),
    "keys": (
        lambda: VIEWS.dp.tree_counts("path:page", keys=["/", "/a", "/a/b"], epsilon=10.0),
        LISTED,
    ),
    "weights": (
        lambda: VIEWS.assign(n=1).dp.tree_counts("path:page", weight="n", max_weight=1, **BUDGET),
        FOUND,
    ),
    "rollup": (lambda: VIEWS.dp.rollup("path:page", "count", **BUDGET), TREE | {"c": 100}),
    "cube": (lambda: VIEWS.dp.rollup(["path:page", "columns:plan"], "count", **BUDGET), SEVERAL),
}


@pytest.mark.parametrize("door", DOORS)
def test_it_is_counted_at_the_root_only(door: str) -> None:
    """No row ``<invalid>``, and what is left of the root are its own page views."""
    asked, wanted = DOORS[door]
    near(asked(), wanted)


def test_the_residual_of_the_root_is_its_own() -> None:
    """As that of ``a``, which is a page and has one below it."""
    near(VIEWS.dp.hhh("path:page", **BUDGET), SEVERAL, "residual")
    cells = VIEWS.dp.hhh(["path:page", "columns:plan"], **BUDGET)
    near(cells, SEVERAL, "residual")


@pytest.mark.parametrize("by", ["path:page", ["path:page", "columns:plan"]], ids=["one", "cube"])
def test_sums_and_different_values_of_it_are_of_the_root(by: Any) -> None:
    measures = ["sum(spent, 0, 1) AS s", "mean(spent, 0, 2) AS m", "distinct(visitor) AS d"]
    frame = VIEWS.dp.rollup(by, measures, epsilon=30.0, delta=1e-5)
    whole, root = 1050 if by == "path:page" else 700, frame.iloc[0]
    assert root["prefix"] == "*"
    assert "<invalid>" not in set(frame["prefix"])
    assert abs(root["s"] - whole) < 25
    assert abs(root["m"] - 1) < 0.1
    assert abs(root["d"] - whole) < 60


def test_an_empty_text_is_no_path() -> None:
    """As NULL: an own row, or dropped."""
    empty = VIEWS.assign(page=VIEWS["page"].replace({"///": "", "//": None}))
    near(empty.dp.hhh("path:page", **BUDGET), TREE | {"<invalid>": 200})
    near(empty.dp.hhh("path:page?invalid=drop", **BUDGET), TREE | {"*": 850})


def test_keys_of_the_root_mean_one_key() -> None:
    with pytest.raises(dp.ParameterError, match=r"keys has 2 keys that mean '\*'"):
        VIEWS.dp.tree_counts("path:page", keys=["/", "//"], epsilon=1.0)


def test_a_stream_counts_it_at_no_level() -> None:
    stream = dp.StreamingHHH("path:page")
    stream.update(VIEWS)
    assert stream.top(2, level=1) == [(1, "a", 250), (1, "c", 100)]
    assert stream.total == 350


SHORT = st.sampled_from(["/", "//", "/a", "/a/b", "a/b/", "c/d", "", None])
ROWS = st.lists(st.tuples(SHORT, st.sampled_from("pqr")), max_size=12)


@examples(15, 400, ROWS, st.sampled_from(["count", "drop"]), st.integers(1, 2))
def test_users_are_those_of_every_row_by_itself(
    rows: list[tuple[str | None, str]], invalid: Any, depth: int
) -> None:
    """Law: a user counts once at the root, and at each node that one of their paths has."""
    hierarchy = dp.path("x", depth=depth, invalid=invalid)
    frame = pd.DataFrame(rows, columns=["x", "u"], dtype=object)
    want: dict[tuple[int, str | None], set[str]] = {(0, None): set()}
    for path, (_, user) in zip(leaf_paths(hierarchy, rows), rows, strict=True):
        if path is not None:
            want.setdefault((0, None), set()).add(user)
            for level, key in enumerate(path, 1):
                want.setdefault((level, key), set()).add(user)
    unit = NodesUnit(user="u", contribution="items", at_most=9)
    tree = node_users(frame, hierarchy, unit, 1)
    nodes = zip(tree.level.tolist(), tree.keys[0].to_pylist(), strict=True)
    found = dict(zip(nodes, tree.count.tolist(), strict=True))
    assert found == {node: len(users) for node, users in want.items()}
    held = user_nodes(frame, hierarchy, unit, 9, group_shares(depth))
    assert held.users == len(want[0, None])
    if depth == 1:
        del want[0, None]
    keys = held.nodes.keys[0].take(pa.array(held.node)).to_pylist()
    values = Counter(zip(held.nodes.level[held.node].tolist(), keys, strict=True))
    assert values == {node: len(users) for node, users in want.items() if users}
