"""The mechanism on flat arrays against dictionaries, with the noise of every node given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe.counts import CellCounts, CountTree, segments
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable
from tests.members import tries
from tests.naive import heavy_hitters
from tests.rollups import exact_tree, tree_paths


class Given:
    """A law whose draws are known beforehand."""

    def __init__(self, values: Sequence[int]) -> None:
        self.values = list(values)

    def draw(self, n: int) -> Any:
        taken, self.values = self.values[:n], self.values[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.int64)


def as_law(values: Sequence[int]) -> NoiseTable:
    return cast(NoiseTable, Given(values))


@tries(25, 60, deadline=None)
@given(
    st.lists(st.text("ab/", max_size=9), max_size=60), st.integers(1, 8), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_selection_and_sums(values: list[str], threshold: int, remainder: bool, seed: int) -> None:
    """Bottom up, a node is reported where what no reported node below covers is large enough."""
    hierarchy = dp.path("p")
    tree = exact_tree(pd.DataFrame({"p": pd.Series(values, dtype=object)}), hierarchy)
    paths = tree_paths(tree, hierarchy)
    generator = np.random.default_rng(seed)
    test, release = (
        dict(zip(paths, generator.integers(-4, 5, len(paths)).tolist(), strict=True))
        for _ in range(2)
    )
    counts = dict(zip(paths, tree.count.tolist(), strict=True))
    expected = heavy_hitters(
        counts, test=test, release=release, threshold=threshold, remainder=remainder
    )
    in_draw_order = sorted((p for p in paths if p), key=len, reverse=True)  # stable: preorder
    noisy = offline_hhh.run(
        tree,
        test=as_law([test[p] for p in in_draw_order]),
        release=as_law([release[p] for p in paths if p in expected]),
        threshold=threshold,
        remainder=remainder,
    )
    reported = [p for p in paths if p in expected]
    assert noisy.level.tolist() == [len(p) for p in reported]
    found = zip(noisy.residual.tolist(), noisy.count.tolist(), strict=True)
    assert dict(zip(reported, found, strict=True)) == expected
    for i, ancestor in enumerate(noisy.ancestor.tolist()):
        above = [j for j, p in enumerate(reported) if reported[i][: len(p)] == p and j != i]
        assert ancestor == (max(above) if above else -1)
    terms = [sum(q[: len(p)] == p for q in reported) for p in reported]
    assert noisy.terms.tolist() == terms


class Silent:
    """In place of a law: no noise."""

    def draw(self, n: int) -> Any:
        return np.zeros(n, dtype=np.int64)


@tries(25, 60, deadline=None)
@given(st.lists(st.text("ab/", max_size=9), max_size=60), st.integers(1, 8), st.integers(1, 8))
def test_a_tree_is_cells_of_one_axis(values: list[str], threshold: int, band: int) -> None:
    """Law: walking a tree selects the nodes, residuals and segments that cells give."""
    tree = exact_tree(pd.DataFrame({"p": pd.Series(values, dtype=object)}), dp.path("p"))
    total, none = tree.count[:1], np.zeros(1, dtype=np.int64)
    root = CountTree(level=none, parent=none - 1, count=total, keys=())
    places = (*tree.places, np.zeros(len(tree.level), dtype=np.int32))
    cells = CellCounts(axes=(tree, root), places=places, own_counts=tree.own_counts).check_sums()
    kinds = offline_hhh.level_kinds(tree)
    options: Any = {"test": Silent(), "threshold": max(threshold, band), "remainder": True}
    nodes, residuals = offline_hhh.select(tree, kinds=kinds, band=band, **options)[1:]
    beside = [(level, 0) for (level,) in kinds]
    kind, both, others = offline_hhh.select(cells, kinds=beside, band=band, **options)
    order = np.argsort(both[:, 0])
    assert both[order, 0].tolist() == nodes[:, 0].tolist()
    assert others[order].tolist() == residuals.tolist()
    level = tree.level[nodes[:, 0]]
    assert (level == len(kinds) - kind[order]).all()
    part = segments(tree, kinds, level, nodes)
    assert part.tolist() == segments(cells, beside, level, both[order]).tolist()
    assert np.bincount(part, tree.own_counts, len(nodes)).tolist() == residuals.tolist()
