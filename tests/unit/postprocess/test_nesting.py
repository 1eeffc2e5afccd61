"""Parents rebuilt from a frame are the parents that the mechanism knew, of ``<other>`` rows too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.asking.node_frame import _tree_labels
from dpframe.counts import NoisyNodes, NoisyTree
from dpframe.errors import ParameterError
from dpframe.hierarchy import OTHER, Hierarchy, as_hierarchy
from dpframe.postprocess.consistency import consistent_tree, tree_in_records
from dpframe.postprocess.level_values import natural_order
from dpframe.postprocess.shown_nodes import areas, nearest_reported
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.tree_counts.ask import TREE_COUNTS
from dpframe.questions.tree_counts.plan import TreePlan
from dpframe.sources.exact_trees import exact_counts
from dpframe.testing import seeded_noise
from tests import strategies as nasty
from tests.members import in_turn, some
from tests.naive import leaf_paths


def plan_of(hierarchy: Any, mechanism: str = "offline", remainder: bool = True) -> HhhPlan:
    """So large a budget that nodes of a few records are reported."""
    return HHH.plan(
        {
            "hierarchy": hierarchy,
            "epsilon": 10.0 if mechanism == "gaussian" else 50.0,
            "delta": 0.1,
            "mechanism": mechanism,
            "remainder": remainder,
            "acknowledge": mechanism == "paper",
        }
    )


def true_parents(noisy: NoisyNodes, plan: HhhPlan, types: tuple[str, ...]) -> list[int]:
    """What the mechanism knew, in the order of the rows of the frame."""
    keys = tuple(key.cast("string") for key in noisy.keys)
    labels = plan.hierarchy.labels(noisy.level, keys)
    order = natural_order(plan.hierarchy, noisy.level, labels, keys, types)
    row_of = np.argsort(order)
    return [int(row_of[a]) if a >= 0 else -1 for a in noisy.ancestor[order].tolist()]


def expect_parents(plan: HhhPlan, source: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    with seeded_noise(seed):
        tree = exact_counts(source, plan.hierarchy, plan.unit, plan.band)
        noisy = plan.run(tree)
    frame = plan.frame(noisy, tree.types)
    again = as_hierarchy(plan.hierarchy.spec)
    assert nearest_reported(frame, again).tolist() == true_parents(noisy, plan, tree.types)
    return frame


def column(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


WORDS = ["é", "b'", "日本", "a/b", "x y", "<b>", "🏴", "ع", "1", "-"]

LABELS = ["bücher", "org", "w", "日本", "a-b", "1a"]

DENSE: dict[str, Any] = {
    "ip:x": lambda a, b, c, d: f"{a}.{b}.{c}.{d}" if d % 2 else f"{a}:{b}:{c}::{d}",
    "ip:x?prefixes=3,12,19,30&prefixes6=1,18,31,47": lambda a, b, c, d: (
        f"{32 * (a % 8)}.{16 * b}.{32 * (c % 8)}.{d}" if d % 2 else f"{a}000:{b}:{c}::{d}"
    ),
    "path:x?separator=::": lambda *parts: "::".join(WORDS[p] for p in parts[: 1 + parts[3] % 5]),
    "path:x?separator=a": lambda *parts: "a".join("xyz"[p % 3] * p for p in parts),
    "domain:x": lambda *parts: ".".join(LABELS[p % 6] for p in parts),
    "domain:x?depth=2": lambda *parts: ".".join(f"w{p}" for p in parts),
    "date:x": lambda a, b, c, d: f"{a}-01-{b + 1:02} {c:02}:{d:02}:00".rjust(19, "0"),
    "date:x?levels=month,hour": lambda a, b, c, d: f"2013-{a + 1:02}-{b + 1:02} {c:02}:{d:02}:00",
    "code:x?lengths=1,2,3,5": lambda *parts: "".join("01é日🏴 'ab."[p] for p in parts[::-1]) + "..",
    "number:x?lower=-100&upper=9.3&depth=30": lambda a, b, c, d: 9 - a - b / 10 - c / 100 - d / 1e3,
    "number:x?lower=0&upper=10000&depth=14": lambda a, b, c, d: 1000 * a + 100 * b + 10 * c + d,
}
"""Values of four digits, small ones likelier: every level has nodes that only it can report."""


def digits(seed: int) -> list[list[int]]:
    drawn = np.random.default_rng(seed).geometric(0.35, (900, 4)) % 10
    out: list[list[int]] = drawn.tolist()
    return out


@some(
    "ip:x-1", "path:x?separator=::-1", "domain:x?depth=2-2",
    "number:x?lower=0&upper=10000&depth=14-1",
)  # fmt: skip
@in_turn(("spec", DENSE), ("seed", [1, 2]))
def test_parents_of_every_kind(spec: str, seed: int) -> None:
    """Chains of reported nodes, with gaps and an ``<invalid>`` node among them."""
    values = [*(DENSE[spec](*row) for row in digits(seed)), *([None] * 9), *(["\t"] * 9)]
    plan = plan_of(spec)
    frame = expect_parents(plan, column(values), seed)
    expect_depth(plan, frame)
    kinds_without = ("path", "code")  # a tab is a path and a code
    assert ("<invalid>" in set(frame["prefix"])) or plan.hierarchy.kind in kinds_without


@pytest.mark.parametrize("seed", [1, 2])
def test_parents_of_columns(seed: int) -> None:
    """The same labels under different parents, separators and missing values in them."""
    names = [None, "a", "a / b", "b / a", "b", "c", "c / ", "", "d", "é"]
    frame = pd.DataFrame([[names[d] for d in row] for row in digits(seed)], columns=[*"wxyz"])
    plan = plan_of(["w", "x", "y", "z"])
    expect_depth(plan, expect_parents(plan, frame, seed))


def expect_depth(plan: HhhPlan, frame: pd.DataFrame) -> None:
    """The comparison was no empty one: parents on several levels, and steps over some."""
    ancestor = nearest_reported(frame, plan.hierarchy)
    level = frame["level"].to_numpy()
    step = level[1:] - level[ancestor[1:]]
    assert len(set(level[ancestor[1:]])) >= min(3, plan.height)
    assert len(set(ancestor.tolist())) > 5
    assert 1 in step
    assert plan.height <= 2 or (step > 1).any()


def reads_invalid(row: tuple[Any, ...], hierarchy: Hierarchy) -> bool:
    """A literal ``<invalid>`` reads like what is none."""
    if hierarchy.kind != "path":
        return "<invalid>" in map(str, row)
    by = hierarchy.separator  # type: ignore[attr-defined]
    return by.join(filter(None, str(row[0]).split(by))).startswith("<invalid>")


@nasty.examples_of(4, 100, nasty.KINDS, st.integers(1, 99))
def test_nodes_lie_in_what_their_labels_begin_with(drawn: Any, seed: int) -> None:
    """Also where a separator cuts through the text of the ``<invalid>`` node; labels such as
    ``a / b`` are ambiguous, the columns of the levels are not."""
    rows, hierarchy = drawn
    rows = [row for row in rows if not reads_invalid(row, hierarchy)]
    frame = nasty.frame_of(rows + rows[1::2] * 4, hierarchy)
    expect_parents(plan_of(hierarchy), frame, seed)


@some("offline", "gaussian")
@pytest.mark.parametrize("mechanism", ["offline", "laplace", "gaussian", "paper"])
def test_every_mechanism_and_no_remainder(mechanism: str) -> None:
    """Without a released root the uppermost reported nodes have no parent."""
    rng = np.random.default_rng(5)
    parts = np.minimum(rng.geometric(0.3, (4000, 3)), 99)
    hosts = [f"10.{a}.{b}.{c}" for a, b, c in parts.tolist()]
    plan = plan_of("ip:x?version=4", mechanism, remainder=False)
    frame = expect_parents(plan, column(hosts))
    assert frame["level"].nunique() >= 3
    assert -1 in nearest_reported(frame, plan.hierarchy)


IP = as_hierarchy("ip:x?version=4")
NODES = pd.DataFrame(
    {
        "level": [0, 1, 3, 4, 4, 4, 1],
        "prefix": [
            *("*", "10.0.0.0/8", "10.1.2.0/24", "10.1.2.3/32", "10.9.9.9/32", "99.0.0.1/32"),
            "<invalid>",
        ],
        "count": [50, 40, 45, 9, 7, -3, 0],
    }
)


def test_missing_levels_are_stepped_over() -> None:
    """The nearest reported one, any number of levels up."""
    assert nearest_reported(NODES, IP).tolist() == [-1, 0, 1, 2, 1, 0, 0]


def test_rows_may_be_sorted_and_filtered() -> None:
    """Positions are those of the rows that are passed, whatever their index."""
    some = NODES.sort_values("count").drop(index=[0, 2])
    labels = some["prefix"].tolist()
    found = nearest_reported(some, IP).tolist()
    above = {label: labels[a] if a >= 0 else None for label, a in zip(labels, found, strict=True)}
    assert above["10.1.2.3/32"] == above["10.9.9.9/32"] == "10.0.0.0/8"
    assert above["99.0.0.1/32"] is above["10.0.0.0/8"] is above["<invalid>"] is None


def test_no_rows_have_no_parents() -> None:
    assert nearest_reported(NODES.iloc[:0], IP).tolist() == []
    assert areas(NODES.iloc[:0], nearest_reported(NODES.iloc[:0], IP)).tolist() == []


def test_a_literal_invalid_is_taken_before_a_missing_value() -> None:
    """Both read ``<invalid>``; children go to the first row, the literal one."""
    frame = pd.DataFrame({"level": [1, 1, 2], "prefix": ["<invalid>", "<invalid>", "<invalid>/b"]})
    assert nearest_reported(frame, as_hierarchy("path:x")).tolist() == [-1, -1, 0]


@pytest.mark.parametrize(
    ("spec", "frame"),
    [
        ("ip:x", {"level": [1], "prefix": ["ten"]}),
        ("ip:x?version=4", {"level": [5], "prefix": ["10.0.0.1/32"]}),
        ("number:x?lower=0&upper=1", {"level": [1], "prefix": ["half"]}),
        ("number:x?lower=0&upper=1", {"level": [1], "prefix": ["[inf, 0"]}),
        ("code:x?lengths=1", {"level": [2], "prefix": ["ab"]}),
        ("path:x", {"level": [-1], "prefix": ["a"]}),
        ("path:x", {"level": [1]}),
        ("columns:x,y", {"level": [1], "prefix": ["a"], "x": ["a"]}),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(spec: str, frame: dict[str, Any]) -> None:
    """The message names the row or the column, and no label."""
    with pytest.raises(ParameterError, match=r"as\s+dpframe returned it") as raised:
        nearest_reported(pd.DataFrame(frame), as_hierarchy(spec))
    assert "half" not in str(raised.value)


def test_areas_hold_children_and_are_never_negative() -> None:
    """A parent whose noisy children sum up to more grows; a negative count has no area."""
    ancestor = nearest_reported(NODES, IP)
    assert areas(NODES, ancestor).tolist() == [52, 52, 45, 9, 7, 0, 0]


@nasty.examples(
    30, 300, st.lists(st.tuples(st.text("ab", min_size=1, max_size=4), st.integers(-9, 99)))
)
def test_children_always_fit(nodes: list[tuple[str, int]]) -> None:
    """What children take is never more than what their parent has."""
    frame = pd.DataFrame(
        {
            "level": [len(label) for label, _ in nodes],
            "prefix": [label for label, _ in nodes],
            "count": [n for _, n in nodes],
        }
    ).astype({"level": "int64", "count": "int64"})
    hierarchy: Hierarchy = dp.code("x", lengths=(1, 2, 3, 4))
    ancestor = nearest_reported(frame, hierarchy)
    area = areas(frame, ancestor)
    taken = np.zeros_like(area)
    np.add.at(taken, ancestor[ancestor >= 0], area[ancestor >= 0])
    assert (taken <= area).all()
    assert (area >= 0).all()
    assert (area >= frame["count"]).all()


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


def expect_tree_parents(source: pd.DataFrame, spec: Any, **arguments: Any) -> pd.DataFrame:
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
    "ip:x-listed-True", "path:x?separator=::-listed-False", "date:x-found-True",
    "number:x?lower=-100&upper=9.3&depth=30-found-False",
)  # fmt: skip
@in_turn(
    ("spec", SPECS), ("listed", [True, False], ["listed", "found"]), ("consistent", [True, False])
)
def test_tree_parents_of_every_kind(spec: str, listed: bool, consistent: bool) -> None:
    """Also with ``<invalid>`` and ``<other>`` rows, listed and not, adding up and not."""
    values = [*(DENSE[spec](*row) for row in digits(1)), *([None] * 9), *(["\t"] * 9)]
    source = column(values)
    keys = some_keys(spec, source) if listed else None
    asked: dict[str, Any] = {"delta": None} if listed else {}
    frame = expect_tree_parents(source, spec, keys=keys, consistent=consistent, **asked)
    others = frame["prefix"].str.endswith(OTHER)
    assert others.any() == (consistent or listed)
    assert frame["level"].nunique() >= 3


@some("listed-True", "found-True")
@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "found"])
def test_tree_parents_of_columns(listed: bool, consistent: bool) -> None:
    """The same labels under different parents, separators and missing values in them."""
    names = [None, "a", "a / b", "b / a", "b", "c", "c / ", OTHER, "d", "é"]
    source = pd.DataFrame([[names[d] for d in row] for row in digits(1)], columns=[*"wxyz"])
    keys = None
    if listed:
        keys = list(source.dropna().drop_duplicates().itertuples(index=False, name=None))[::3]
    frame = expect_tree_parents(source, ["w", "x", "y", "z"], keys=keys, consistent=consistent)
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
    expect_tree_parents(column(values * 60), spec, consistent=consistent)
    expect_tree_parents(
        column(values * 60), spec, consistent=consistent, keys=values[1:], delta=None
    )


def test_a_column_of_other() -> None:
    """Two rows can read alike; the first is the value, which has rows below it."""
    source = pd.DataFrame({"w": [OTHER, "b", "c"] * 90, "x": ["1", OTHER, "2"] * 90})
    frame = expect_tree_parents(source, ["w", "x"], keys=[(OTHER, "1"), ("b", OTHER)], delta=None)
    twice = frame[frame["prefix"] == OTHER]
    assert twice["count"].tolist() == pytest.approx([90, 90], abs=20)
    assert twice["residual"].tolist()[0] == 0
    assert frame["prefix"].tolist().count(f"b / {OTHER}") == 2


def test_rows_of_other_may_be_sorted_and_filtered() -> None:
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
