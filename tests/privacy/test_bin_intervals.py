"""Quantiles, numbers and shares from bins: least squares and its variances against slow twins, and
intervals that hold what they say they hold.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpframe as dp
from dpframe.measures.bins import FEWEST_GROUPED, Bins, made_edges
from dpframe.measures.measure import GRID, bin_vectors_of
from dpframe.mechanisms import rollup
from dpframe.mechanisms.rollup import BinLaw
from dpframe.noise import UnboundedNoise
from dpframe.postprocess import quantiles
from dpframe.postprocess.quantiles import NodeBins, cover_of, edge_deviation
from dpframe.postprocess.strategy import level_strategy
from dpframe.postprocess.tree_squares import checked_forest
from dpframe.testing import seeded_noise

Reals = NDArray[np.float64]
Whole = NDArray[np.int64]

CONFIDENCES = (0.5, 0.8, 0.95)


def bins_of(count: int) -> Bins:
    return Bins(made_edges(0.0, 500.0, count, "proportion"))


# -- least squares ---------------------------------------------------------------------------------


def group_matrix(bins: Bins) -> Reals:
    """Which bins each group adds up."""
    place = np.repeat(np.arange(len(bins.groups)), bins.groups)
    return (place == np.arange(len(bins.groups))[:, None]).astype(float)


def merge_matrix(bins: Bins, ratio: float) -> tuple[Reals, Reals]:
    """The linear map from measured bins and groups to the best estimate of bins, by the normal
    equations; and the variances of what is measured, in those of one bin."""
    several = len(bins.groups)
    design = np.vstack(
        [np.eye(bins.size), group_matrix(bins) if several else np.zeros((0, bins.size))]
    )
    variances = np.concatenate([np.ones(bins.size), np.full(several, ratio)])
    weighted = design.T / variances
    return np.linalg.solve(weighted @ design, weighted), variances


@pytest.mark.parametrize("at_once", [2, 5])
@pytest.mark.parametrize("count", [4, 22, 48, 64, 150])
def test_bins_and_groups_are_merged_by_least_squares(
    count: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: the estimate is numpy's solution, to half a record in every sum of the first bins,
    however many nodes are computed at once; and texts tell all of it."""
    monkeypatch.setattr(quantiles, "AT_ONCE", at_once)
    bins, r = bins_of(count), np.random.default_rng(count)
    assert bool(bins.groups) is (bins.size >= FEWEST_GROUPED)
    assert sum(bins.groups) == (bins.size if bins.groups else 0)
    own = r.integers(-(10**6), 10**9, (5, bins.size))
    measured, scales = [own], [3.0]
    if bins.groups:
        together = np.rint(own @ group_matrix(bins).T) + r.integers(
            -(10**6), 10**6, (5, len(bins.groups))
        )
        measured, scales = [own, together.astype(np.int64)], [3.0, 4.5]
    node = NodeBins.of(
        bins=bins, parts=np.ones(5, dtype=np.int64), scales=scales, unit=1, numbers=measured
    )
    solve, _ = merge_matrix(bins, (scales[-1] / scales[0]) ** 2)
    wanted = np.hstack(measured) @ solve.T
    assert np.abs(np.cumsum(node.numbers - wanted, axis=1)).max() <= 0.5 + 1e-4
    if bins.groups:  # the merge does something
        assert np.abs(wanted - own).max() > 1000
    texts = quantiles.bin_texts(node.numbers).to_pylist()
    assert texts == [str(row) for row in node.numbers.tolist()]


@settings(max_examples=20, deadline=None)
@given(
    count=st.sampled_from([3, 22, 31, 64]),
    ratio=st.sampled_from([0.2, 1.0, 1.38, 40.0]),
    seed=st.integers(0, 999),
)
def test_variances_are_those_of_the_linear_map(count: int, ratio: float, seed: int) -> None:
    """Law: the variance of a sum of bins, and the largest share that one draw has in it, follow
    from the covariance of the estimate; for edges, for the number of all, and for any weights."""
    bins, r = bins_of(count), np.random.default_rng(seed)
    solve, variances = merge_matrix(bins, ratio)
    edges = quantiles._edge_weights(bins, float(r.choice([0.05, 0.5, 0.9])))
    weights = np.vstack([edges, np.ones(bins.size), r.uniform(-1, 1, (3, bins.size))])
    factor, share = quantiles._noise_of_sums(weights, bins, ratio)
    own = (weights @ solve) ** 2 * variances
    assert np.allclose(factor, own.sum(axis=1), rtol=1e-9)
    assert np.allclose(share, own.max(axis=1) / own.sum(axis=1), rtol=1e-9)
    covariance = solve @ np.diag(variances) @ solve.T
    assert np.allclose(factor, np.einsum("ij,jk,ik->i", weights, covariance, weights))
    parts, scale = np.array([1, 7]), 5.0
    node = NodeBins(
        bins=bins,
        numbers=np.zeros((2, bins.size), dtype=np.int64),
        parts=parts,
        scale=scale,
        ratio=ratio,
        unit=1,
    )
    assert np.allclose(node.variance, 2 * scale**2 * parts)


@pytest.mark.parametrize("count", [4, 64])
def test_the_deviation_of_an_edge_is_that_of_the_linear_map(count: int) -> None:
    """Law: with all of epsilon, 1, divided as bins say, the root mean square over edges."""
    bins = bins_of(count)
    shares = [float(share) for share in bins.shares if share]
    solve, variances = merge_matrix(bins, (shares[0] / shares[-1]) ** 2)
    for at in ((), (0.5,), (0.05, 0.95)):
        each = [
            (((np.tri(bins.size - 1, bins.size) - q) @ solve) ** 2 * variances).sum(axis=1).mean()
            for q in at or (0.5,)
        ]
        assert math.isclose(
            edge_deviation(bins, at), math.sqrt(2 * np.mean(each)) / shares[0], rel_tol=1e-9
        )


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 12))
def test_a_cover_has_the_chosen_nodes_and_all_above_them(data: st.DataObject, n: int) -> None:
    """Law: what the slow twin says of every node: whether it is a part, where its values count, and
    how many parts are at and below it. Cells have nothing above them."""
    ancestor = [-1, *(data.draw(st.integers(-1, node - 1)) for node in range(1, n))]
    enough = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))

    def line(node: int) -> Iterator[int]:
        while node >= 0:
            yield node
            node = ancestor[node]

    chosen = {0} | {above for node in range(n) if enough[node] for above in line(node)}
    cover = cover_of(np.array(ancestor), np.array(enough))
    rows = cover.rows.tolist()
    assert rows == sorted(chosen)
    host = [next((above for above in line(node) if above in chosen), -1) for node in range(n)]
    assert [rows[h] if h >= 0 else -1 for h in cover.host] == host
    assert [rows[a] if a >= 0 else -1 for a in cover.ancestor] == [ancestor[row] for row in rows]
    assert cover.parts.tolist() == [sum(row in line(below) for below in rows) for row in rows]


# -- coverage --------------------------------------------------------------------------------------


def exact_bins(bins: Bins, n: int, kind: str) -> Whole:
    """Numbers of ``n`` values in bins: spread over all, in the middle, at two ends, or in one."""
    at = np.arange(bins.size) / (bins.size - 1)
    shape = {
        "spread": np.ones(bins.size),
        "middle": np.exp(-((at - 0.6) ** 2) * 60),
        "ends": (at < 0.1) + (at > 0.85) * 1.0,
        "one": (np.arange(bins.size) == bins.size // 3) * 1.0,
        "beyond": (at == 0) + (at == 1) * 2.0,
    }[kind]
    passed = np.floor(np.cumsum(shape / shape.sum()) * n + 0.5).astype(np.int64)
    return np.diff(passed, prepend=0)


def noisy_nodes(exact: Whole, bins: Bins, parts: int, unit: int, several: int) -> NodeBins:
    """So many nodes of the same values, each with noise of its own, of an epsilon of 1 a bin."""
    scales = [Fraction(unit) / share for share in bins.shares if share]
    tables = [np.tile(exact * unit, (several, 1))]
    if bins.groups:
        tables.append(np.add.reduceat(tables[0], bins.group_starts, axis=1))
    for table, scale in zip(tables, scales, strict=True):
        for _ in range(parts):
            table += UnboundedNoise(scale).draw(table.size).reshape(table.shape)
    return NodeBins.of(
        bins=bins,
        parts=np.full(several, parts, dtype=np.int64),
        scales=[float(scale) for scale in scales],
        unit=unit,
        numbers=tables,
    )


def quantile_place(exact: Whole, at: float) -> int:
    """The first bin up to which there is the part ``at`` of all values."""
    return int(np.argmax(np.cumsum(exact) >= at * exact.sum()))


def misses_of(node: NodeBins, exact: Whole, at: float, confidence: float) -> int:
    """Nodes whose interval is without the bin of the true quantile. An interval holds the bin
    beyond a bound only if it says that it reaches there."""
    found, place, edges = node.quantile(at, confidence), quantile_place(exact, at), node.bins.edges
    low, high = edges[max(place - 1, 0)], edges[min(place, len(edges) - 1)]
    held = (found.lower <= low) & (found.upper >= high)
    if place in (0, node.bins.size - 1):
        held &= found.at_bound
    return int((~held).sum())


def allowed(several: int, confidence: float) -> float:
    """Misses that chance makes, up to one time in a million."""
    miss = 1 - confidence
    return several * miss + 5 * math.sqrt(several * miss * confidence)


Case = tuple[str, int, int, int, int]
"""Shape of the values, their number, bins, parts and units."""

SHORT: list[Case] = [
    ("spread", 400, 64, 1, 1),
    ("middle", 60, 10, 3, 1),
    ("spread", 3000, 22, 12, GRID),
    ("ends", 200, 30, 2, 1),
    ("beyond", 90, 5, 1, GRID),
]
LONG: list[Case] = [
    (*of, *noise)
    for of in product(("spread", "middle", "ends", "one", "beyond"), (30, 300, 5000), (5, 64))
    for noise in ((1, GRID), (12, 1))
]


def coverage_holds(case: Case, several: int, *, scaled: float = 1.0) -> bool:
    """Whether intervals of quantiles, numbers and shares miss no more often than they say.

    ``scaled`` is for planted bugs: which part of the noise intervals are made from.
    """
    kind, n, count, parts, unit = case
    bins = bins_of(count)
    exact = exact_bins(bins, n, kind)
    assert exact.sum() == n
    with seeded_noise(several + n + count):
        node = noisy_nodes(exact, bins, parts, unit, several)
    node = dataclasses.replace(node, scale=node.scale * scaled)
    missed = [
        (misses_of(node, exact, at, confidence), confidence)
        for at in (0.05, 0.5, 0.9)
        for confidence in CONFIDENCES
    ]
    for confidence in CONFIDENCES:
        _, low, high = node.number(confidence)
        missed.append((int(((low > n) | (high < n)).sum()), confidence))
        for value in (bins.edges[1], bins.edges[len(bins.edges) // 2]):
            _, below, above, edge = node.share_above(value, confidence)
            share = exact[bins.edges.index(edge) + 1 :].sum() / n
            missed.append((int(((below > share) | (above < share)).sum()), confidence))
    return all(number <= allowed(several, confidence) for number, confidence in missed)


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_intervals_hold_what_they_say(case: Case) -> None:
    """Law: coverage of quantiles, of numbers and of shares is at least nominal, by seeded draws."""
    assert coverage_holds(case, 400)


@pytest.mark.evidence
@pytest.mark.parametrize("case", LONG, ids=str)
def test_intervals_hold_what_they_say_at_length(case: Case) -> None:
    """Law: the same, of more values, and by more draws."""
    assert coverage_holds(case, 2000)


@pytest.mark.parametrize("case", SHORT[:3], ids=str)
def test_intervals_from_half_of_the_noise_are_rejected(case: Case) -> None:
    """Planted bug: intervals from half of the standard deviation."""
    assert not coverage_holds(case, 400, scaled=0.5)


def test_quantiles_that_are_no_stretch_of_bins_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted bug: the shown bin alone, however noisy it is."""
    found = NodeBins.quantile

    def planted(self: NodeBins, at: float, confidence: float) -> Any:
        one = found(self, at, confidence)
        edges = np.array(self.bins.edges)
        place = np.clip(np.searchsorted(edges, one.value, side="right"), 1, len(edges) - 1)
        return dataclasses.replace(one, lower=edges[place - 1], upper=edges[place])

    monkeypatch.setattr(NodeBins, "quantile", planted)
    assert not coverage_holds(SHORT[0], 200)


# -- nodes of a tree, pooled by noisy numbers ------------------------------------------------------


def tree_of_nodes() -> tuple[Any, Any]:
    """A root, three nodes below it, and two below each of these."""
    ancestor = np.array([-1, 0, 1, 1, 0, 4, 4, 0, 7, 7])
    level = np.array([0, 1, 2, 2, 1, 2, 2, 1, 2, 2])
    return SimpleNamespace(level=level, ancestor=ancestor), checked_forest(ancestor)


def released_misses(
    epsilon: Fraction, *, by_user: bool, several: int
) -> dict[tuple[str, float], list[int]]:
    """By what is shown and its confidence: how many intervals there were, and how many missed, of
    whole releases in which small nodes are pooled."""
    measure = dp.median("v", lower=0, upper=500, bins=30)
    vectors = bin_vectors_of(measure, by_user=by_user, height=2)
    assert vectors is not None
    law = BinLaw(vectors=vectors, epsilon=epsilon, at=measure.at)
    nodes, forest = tree_of_nodes()
    few = law.fewest
    sizes = [0, few, 4 * few, few - 1, 5, 30 * few, 10 * few, 3 * few, few + 2, 12]
    kinds = ["spread", "middle", "ends"]
    own = np.array([exact_bins(vectors.bins, n, kinds[i % 3]) for i, n in enumerate(sizes)])
    counted: Any = SimpleNamespace(in_bins=lambda *_: own * vectors.unit)
    weights = level_strategy(nodes.level, nodes.ancestor, by_user=by_user)
    whole = own.copy()
    for node in range(len(own) - 1, 0, -1):
        whole[nodes.ancestor[node]] += whole[node]
    told = {(what, c): [0, 0] for what in ("median", "number of all") for c in CONFIDENCES}
    shown = set()
    with seeded_noise(several):
        for _ in range(several):
            found = rollup._bin_estimate(counted, nodes, forest, law, weights, None)
            shown.add(tuple(found.rows.tolist()))
            for confidence in CONFIDENCES:
                _, low, high = found.node.number(confidence)
                told["number of all", confidence][0] += 1
                told["number of all", confidence][1] += not low[0] <= whole[0].sum() <= high[0]
                for place, row in enumerate(found.rows):
                    numbers, parts = found.node.numbers[[place]], found.node.parts[[place]]
                    one = dataclasses.replace(found.node, numbers=numbers, parts=parts)
                    told["median", confidence][0] += 1
                    told["median", confidence][1] += misses_of(one, whole[row], 0.5, confidence)
    assert len(shown) > 1  # what is pooled differs
    return told


@pytest.mark.parametrize(
    ("by_user", "several"),
    [(False, 60), (True, 60), *(pytest.param(u, 4000, marks=pytest.mark.evidence) for u in (0, 1))],
)
def test_intervals_of_pooled_nodes_hold_what_they_say(by_user: bool, several: int) -> None:
    """Law: of medians and numbers that are shown, of nodes that noisy numbers chose, no more miss
    than the confidence allows; a node has one draw of noise for every part at and below it."""
    told = released_misses(Fraction(2), by_user=bool(by_user), several=several)
    for (what, confidence), (number, missed) in told.items():
        assert missed <= allowed(number, confidence), (what, confidence, number, missed)


def test_pooled_nodes_with_the_noise_of_one_part_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted bug: intervals as if every node were one part."""
    made = NodeBins.of

    def planted(*, parts: Whole, **more: Any) -> NodeBins:
        return made(parts=np.ones_like(parts), **more)

    monkeypatch.setattr(NodeBins, "of", planted)
    told = released_misses(Fraction(2), by_user=False, several=150)
    assert any(missed > allowed(number, c) for (_, c), (number, missed) in told.items())
