"""PrivHP: what one record moves, over the noise it meets, is exactly the claimed epsilon.

The noisy vector of all exact nodes and all cells is taken out of the shipped ``run``, with the
scale of the noise of every entry. For all tiny tables and all records the move is added up in
fractions. Then the laws of partitions are enumerated over a box of noisy vectors: a growth that
knows no more than these is the same function of them for every table. Planted bugs are rejected by
the checks that the shipped code passes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpframe.mechanisms import privhp_partition as hot_partition
from dpframe.mechanisms.privhp_partition import PartitionLaws, partition_laws
from dpframe.sketches.hot_partition import HotPartition, Shape
from tests.members import some

from ..hot_partitions import Grown, Rule, codes_of, content, counted, grow, noisy

Vector = NDArray[np.int64]
Sketcher = Callable[[Sequence[int], Shape], HotPartition]
Runner = Callable[[Sequence[int], Shape, PartitionLaws, Vector], Grown]

SHAPES = [
    Shape(depth=4, hot=1, width=3, rows=1, seed=1),
    Shape(depth=4, hot=5, width=2, rows=3, seed=2),
    Shape(depth=3, hot=2, width=4, rows=5, seed=3),
    Shape(depth=3, hot=100, width=4, rows=1, seed=4),
]


def laws_of(shape: Shape, epsilon: float = 1.0, split: Any = "optimal") -> PartitionLaws:
    diameters = [2.0**-level for level in range(shape.depth + 1)]
    known = {"depth": shape.depth, "hot": shape.hot, "rows": shape.rows, "split": split}
    return partition_laws(**known, epsilon=epsilon, diameters=diameters)


def sketched(codes: Sequence[int], shape: Shape) -> HotPartition:
    s = shape
    sketch = HotPartition(s.depth, s.hot, s.width, s.rows, seed=s.seed)
    sketch.update(codes_of(codes))
    return sketch


def flat(codes: Sequence[int], shape: Shape) -> Vector:
    """The true vector, by the slow twin."""
    exact, cells = counted(codes, shape)
    return np.array([*exact.values(), *cells.values()], np.int64)


def scripted(noise: Vector, scales: list[Fraction]) -> type:
    """Stands in for the noise: hands out ``noise`` in turn and notes the scales."""

    class Script:
        def __init__(self, scale: Fraction) -> None:
            self.scale = scale

        def draw(self, n: int) -> Vector:
            scales.extend([self.scale] * n)
            return noise[len(scales) - n : len(scales)]

    return Script


def shipped(codes: Sequence[int], shape: Shape, laws: PartitionLaws, noise: Vector) -> Grown:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot_partition, "UnboundedNoise", scripted(noise, []))
        return content(hot_partition.run(sketched(codes, shape), laws))


def released(sketch: HotPartition, laws: PartitionLaws) -> tuple[Vector, list[Fraction]]:
    """Every number that growth starts from, without its noise, and the scale of that noise.

    The noise of entry i is i: what is left after subtracting it had a draw of its own.
    """
    scales: list[Fraction] = []
    seen: list[Vector] = []

    def caught(exact: list[Vector], tables: list[Vector], _: Shape) -> None:
        seen.extend(part.reshape(-1) for part in [*exact, *tables])

    with pytest.MonkeyPatch.context() as patch:
        noise = np.arange(10_000, dtype=np.int64)
        patch.setattr(hot_partition, "UnboundedNoise", scripted(noise, scales))
        patch.setattr(hot_partition, "grow_partition", caught)
        hot_partition.run(sketch, laws)
    vector = np.concatenate(seen)
    return vector - np.arange(len(vector)), scales


def moved(
    codes: Sequence[int], x: int, shape: Shape, laws: PartitionLaws, sketch: Sketcher = sketched
) -> Fraction:
    """The loss between ``codes`` and the same with x in front: sum of moves over scales."""
    before, scales = released(sketch(codes, shape), laws)
    after, _ = released(sketch([x, *codes], shape), laws)
    steps = np.abs(after - before).tolist()
    return sum((m / b for m, b in zip(steps, scales, strict=True)), Fraction(0))


# -- what one record moves -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_record_costs_exactly_the_claim(shape: Shape, data: st.DataObject) -> None:
    """Law: for all records the move is the cost, which is at most epsilon."""
    leaf = st.integers(0, 2**shape.depth - 1)
    codes = data.draw(st.lists(leaf, min_size=1, max_size=12))
    epsilon = data.draw(st.sampled_from([0.1, 1.0, 3.7]))
    laws = laws_of(shape, epsilon, data.draw(st.sampled_from(["optimal", "uniform"])))
    assert hot_partition.cost(laws) <= Fraction(epsilon)
    assert hot_partition.cost(laws) > Fraction(epsilon) * Fraction(999, 1000)
    for x in range(2**shape.depth):
        assert moved(codes, x, shape, laws) == hot_partition.cost(laws)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_noisy_vector_is_the_true_one_with_a_draw_for_each_entry(shape: Shape) -> None:
    """Law: no count enters growth without noise of its own, and none is missing."""
    codes = [0, 0, 3, 7, 7, 7, 5]
    vector, scales = released(sketched(codes, shape), laws_of(shape))
    assert np.array_equal(vector, flat(codes, shape))
    assert len(scales) == len(vector)


# -- planted bugs: the same check rejects them ---------------------------------------------------

BENCH = Shape(depth=4, hot=2, width=3, rows=3, seed=5)
TABLE = [1, 1, 4, 9, 9, 9, 15]


def costliest(laws: PartitionLaws, sketch: Sketcher = sketched) -> Fraction:
    return max(moved(TABLE, x, BENCH, laws, sketch) for x in range(16))


def test_the_bench_accepts_what_is_shipped() -> None:
    """Law: the planted bugs below fail for what is planted."""
    assert costliest(laws_of(BENCH)) <= 1


def test_scales_without_the_number_of_rows_are_rejected() -> None:
    """Bug: noise 1 / sigma on cells, as if a record moved one of them."""
    laws = laws_of(BENCH)
    narrow = tuple(b if i <= laws.exact else b / laws.rows for i, b in enumerate(laws.scales))
    assert costliest(replace(laws, scales=narrow)) > 1


@pytest.mark.parametrize("level", range(5))
def test_a_level_left_out_of_the_sum_is_rejected(level: int) -> None:
    """Bug: epsilon is divided among the other levels, and this one has noise beside them."""
    laws = laws_of(BENCH)
    moves = 1 if level <= laws.exact else laws.rows
    part = 1 - moves / laws.scales[level]
    scales = tuple(b if i == level else b * part for i, b in enumerate(laws.scales))
    assert costliest(replace(laws, scales=scales)) > 1


def test_hashes_drawn_from_the_first_record_are_rejected() -> None:
    """Bug: one record moves the cells of all others."""

    def seeded_by_data(codes: Sequence[int], shape: Shape) -> HotPartition:
        return sketched(codes, replace(shape, seed=codes[0]))

    assert costliest(laws_of(BENCH), seeded_by_data) > 1


# -- laws of partitions, enumerated --------------------------------------------------------------

TINY = [
    Shape(depth=2, hot=1, width=2, rows=1, seed=0),
    Shape(depth=2, hot=2, width=2, rows=1, seed=3),
    Shape(depth=1, hot=1, width=1, rows=3, seed=1),
]
VALUES = range(-1, 3)


def law(
    codes: Sequence[int], shape: Shape, laws: PartitionLaws, run: Runner, values: range = VALUES
) -> dict[Grown, float]:
    """Probability of every partition with a noisy vector in a box.

    For two tables the box is the same: what they lose outside is lost in both, and a private
    ``run`` has P(y) <= exp(epsilon) Q(y) for the parts inside as well.
    """
    true = flat(codes, shape)
    _, scales = released(sketched(codes, shape), laws)
    q = np.exp([-1 / float(b) for b in scales])
    out: dict[Grown, float] = defaultdict(float)
    for vector in product(values, repeat=len(true)):
        noise = np.array(vector, np.int64) - true
        chance = math.prod(((1 - q) / (1 + q) * q ** np.abs(noise)).tolist())
        out[run(codes, shape, laws, noise)] += chance
    return out


def excess(p: dict[Grown, float], q: dict[Grown, float], epsilon: float) -> float:
    return sum(max(0.0, m - math.exp(epsilon) * q.get(y, 0.0)) for y, m in p.items())


def worst(
    shape: Shape, codes: Sequence[int], run: Runner, epsilon: float = 1.0, values: range = VALUES
) -> float:
    laws = laws_of(shape, epsilon)
    before = law(codes, shape, laws, run, values)
    assert 1e-4 < sum(before.values()) < 1
    out = 0.0
    for x in range(2**shape.depth):
        after = law([x, *codes], shape, laws, run, values)
        out = max(out, excess(before, after, epsilon), excess(after, before, epsilon))
    return out


def peeking(codes: Sequence[int], shape: Shape, laws: PartitionLaws, noise: Vector) -> Grown:
    """Bug: the nodes to branch are those with most records, not those with the highest counts."""
    exact, cells = noisy(*counted(codes, shape), noise.tolist())

    def true(node: tuple[int, int]) -> int:
        return sum(code >> shape.depth - node[0] == node[1] for code in codes)

    return grow(exact, cells, shape, rule=Rule(peeks=True), true=true)


def twin(codes: Sequence[int], shape: Shape, laws: PartitionLaws, noise: Vector) -> Grown:
    return grow(*noisy(*counted(codes, shape), noise.tolist()), shape)


@some(
    "Shape(depth=2, hot=1, width=2, rows=1, seed=0)-range(-1, 3)",
    "Shape(depth=1, hot=1, width=1, rows=3, seed=1)-range(-1, 3)",
)
@pytest.mark.parametrize(
    "values", [VALUES, pytest.param(range(-1, 4), marks=pytest.mark.evidence)], ids=str
)
@pytest.mark.parametrize("shape", TINY, ids=str)
def test_partitions_of_neighbours_are_within_epsilon(shape: Shape, values: range) -> None:
    """Law: no partition in the box is more than exp(epsilon) times as likely for a neighbour."""
    assert worst(shape, [0, 1], shipped, values=values) < 1e-12


def test_the_law_is_that_of_the_printed_algorithms() -> None:
    """Law: same partitions, same probabilities as the slow twin."""
    shape = TINY[0]
    laws = laws_of(shape)
    assert law([0, 3], shape, laws, shipped) == law([0, 3], shape, laws, twin)


def test_growth_that_looks_at_true_counts_is_rejected() -> None:
    """Bug: the same check finds it."""
    assert worst(TINY[0], [0, 3], twin) < 1e-12
    assert worst(TINY[0], [0, 3], peeking) > 1e-3
