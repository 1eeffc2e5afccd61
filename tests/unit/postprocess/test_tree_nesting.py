"""In a frame of tree counts every row, ``<other>`` rows too, lies under its own node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.node_frame import _tree_labels
from dpframe.counts import NoisyTree
from dpframe.hierarchy import OTHER, as_hierarchy
from dpframe.postprocess.consistency import consistent_tree, tree_in_records
from dpframe.postprocess.level_values import natural_order
from dpframe.postprocess.shown_nodes import areas, nearest_reported
from dpframe.questions.tree_counts.ask import TREE_COUNTS
from dpframe.questions.tree_counts.plan import TreePlan
from dpframe.sources.exact_trees import exact_counts
from dpframe.testing import seeded_noise
from tests.members import in_turn, some
from tests.naive import leaf_paths
from tests.unit.postprocess.test_nesting import DENSE, column, digits

ASKED: dict[str, Any] = {"epsilon": 50.0, "delta": 0.1, "mechanism": "laplace"}


def released(
    source: pd.DataFrame, spec: Any, **arguments: Any
) -> tuple[NoisyTree, TreePlan, tuple[str, ...]]:
    plan = TREE_COUNTS.plan({"hierarchy": spec, **ASKED, **arguments})
    with seeded_noise(4):
        counted = exact_counts(
            source, plan.hierarchy, plan.unit, plan.band, listed=plan.listed_keys
        )
        return plan.run(counted), plan, counted.types


def expect_parents(source: pd.DataFrame, spec: Any, **arguments: Any) -> pd.DataFrame:
    """The frame, after a comparison with the parents that the mechanism knew."""
    noisy, plan, types = released(source, spec, **arguments)
    tree = (
        consistent_tree(noisy, plan.grid) if plan.consistent else tree_in_records(noisy, plan.grid)
    )
    frame = plan.frame(noisy, types)
    keys = tuple(key.cast("string") for key in tree.keys)
    labels = _tree_labels(tree, plan.hierarchy, keys)
    order = natural_order(plan.hierarchy, tree.level, labels, keys, types, tree.other)
    row_of = np.argsort(order)
    known = [int(row_of[a]) if a >= 0 else -1 for a in tree.parent[order].tolist()]
    found = nearest_reported(frame, as_hierarchy(plan.hierarchy.spec))
    assert found.tolist() == known
    assert (areas(frame, found) >= frame["count"]).all()
    return frame


def some_keys(spec: str, source: pd.DataFrame) -> list[Any] | str:
    """Every fourth leaf that the values make, named by a value."""
    if "depth=14" in spec:
        return "domain"
    noisy = released(source, spec)[0]
    texts = noisy.keys[0].cast("string").to_pylist()
    if spec.startswith(("ip", "date", "number")):
        values = [v for v in source["x"].dropna().drop_duplicates() if v != "\t"]
        return _one_a_leaf(values, spec)[::4]
    leaf = ~np.isin(np.arange(len(texts)), noisy.parent)
    return [t for t, is_leaf in zip(texts, leaf, strict=True) if is_leaf and t is not None][::4]


def _one_a_leaf(values: list[Any], spec: str) -> list[Any]:
    """The first value of every leaf, of sixty values."""
    chosen: dict[Any, Any] = {}
    paths = leaf_paths(as_hierarchy(spec), [(value,) for value in values[:60]])
    for value, path in zip(values[:60], paths, strict=True):
        chosen.setdefault(path, value)
    return list(chosen.values())


SPECS = [spec for spec in DENSE if "separator=a" not in spec and "levels=month" not in spec]


@some(
    "ip:x-listed-True",
    "path:x?separator=::-listed-False",
    "date:x-found-True",
    "number:x?lower=-100&upper=9.3&depth=30-found-False",
)
@in_turn(
    ("spec", SPECS), ("listed", [True, False], ["listed", "found"]), ("consistent", [True, False])
)
def test_parents_of_every_kind(spec: str, listed: bool, consistent: bool) -> None:
    """Also with ``<invalid>`` and ``<other>`` rows, listed and not, adding up and not."""
    values = [*(DENSE[spec](*row) for row in digits(1)), *([None] * 9), *(["\t"] * 9)]
    source = column(values)
    keys = some_keys(spec, source) if listed else None
    asked: dict[str, Any] = {"delta": None} if listed else {}
    frame = expect_parents(source, spec, keys=keys, consistent=consistent, **asked)
    others = frame["prefix"].str.endswith(OTHER)
    assert others.any() == (consistent or listed)
    assert frame["level"].nunique() >= 3


@some("listed-True", "found-True")
@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "found"])
def test_parents_of_columns(listed: bool, consistent: bool) -> None:
    """The same labels under different parents, separators and missing values in them."""
    names = [None, "a", "a / b", "b / a", "b", "c", "c / ", OTHER, "d", "é"]
    source = pd.DataFrame([[names[d] for d in row] for row in digits(1)], columns=[*"wxyz"])
    keys = None
    if listed:
        keys = list(source.dropna().drop_duplicates().itertuples(index=False, name=None))[::3]
    frame = expect_parents(source, ["w", "x", "y", "z"], keys=keys, consistent=consistent)
    assert OTHER in set(frame["w"])


LITERAL: list[tuple[str, list[str]]] = [
    ("path:x", ["<other>", "<other>/<other>", "<other>/b", "a/<other>/c", "a/b"]),
    ("path:x?separator=<", ["a<b", "a<other>", "a<other><b", "other>"]),
    ("path:x?separator=e", ["<othebr>", "aeb", "aee<othebr>"]),
    ("path:x?separator=>", ["<other>b", "a>b"]),
    ("code:x?lengths=1,7", ["<other>", "a <other>", "aaaaaaa", "a"]),
    ("code:x?lengths=3,9", ["a <other>", "abc <other>", "abcdefghi", "<ot"]),
    ("domain:x", ["<other>", "a.<other>", "<other>.com", "a.<other>.com", "b.com"]),
]


@some(0, 4, 11)
@in_turn((("spec", "values"), LITERAL), ("consistent", [True, False]))
def test_values_that_read_other_are_values(spec: str, values: list[str], consistent: bool) -> None:
    """A literal ``<other>`` comes before the row that stands for the rest, and keeps its own."""
    expect_parents(column(values * 60), spec, consistent=consistent)
    expect_parents(column(values * 60), spec, consistent=consistent, keys=values[1:], delta=None)


def test_a_column_of_other() -> None:
    """Two rows can read alike; the first is the value, which has rows below it."""
    source = pd.DataFrame({"w": [OTHER, "b", "c"] * 90, "x": ["1", OTHER, "2"] * 90})
    frame = expect_parents(source, ["w", "x"], keys=[(OTHER, "1"), ("b", OTHER)], delta=None)
    twice = frame[frame["prefix"] == OTHER]
    assert twice["count"].tolist() == pytest.approx([90, 90], abs=20)
    assert twice["residual"].tolist()[0] == 0
    assert frame["prefix"].tolist().count(f"b / {OTHER}") == 2


def test_rows_may_be_sorted_and_filtered() -> None:
    """An ``<other>`` row whose node is gone lies under the next one up."""
    source = pd.DataFrame({"x": ["10.1.2.3"] * 90 + ["10.1.9.9"] * 90 + ["99.1.1.1"] * 90})
    with seeded_noise(1):
        frame = dp.tree_counts(source, "ip:x?version=4", epsilon=5.0, keys=["10.1.2.3"])
    labels = frame["prefix"].tolist()
    assert f"10.1.0.0/16 {OTHER}" in labels
    some = frame[frame["prefix"] != "10.1.0.0/16"].sort_values("count")
    above = nearest_reported(some, as_hierarchy("ip:x?version=4")).tolist()
    prefixes = some["prefix"].tolist()
    under = {p: prefixes[a] if a >= 0 else None for p, a in zip(prefixes, above, strict=True)}
    assert under[f"10.1.0.0/16 {OTHER}"] == under["10.1.2.0/24"] == "10.0.0.0/8"
    assert under[OTHER] == "*"
