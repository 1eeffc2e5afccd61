"""PrivHP: the fast sketch and growth against slow twins, bit for bit; files, laws, samples."""

from __future__ import annotations

import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.mechanisms.privhp_partition import (
    Partition,
    PartitionLaws,
    partition_laws,
    run,
    run_full,
    sample_leaves,
)
from dpframe.noise import UnboundedNoise, public_generator
from dpframe.sketches.hot_partition import HotPartition, Shape
from dpframe.testing import seeded_noise
from tests.hot_partitions import codes_of, content, counted, grow, noisy
from tests.members import in_turn, some

SHAPES = [
    Shape(depth=6, hot=1, width=3, rows=1, seed=0),
    Shape(depth=7, hot=5, width=8, rows=3, seed=2**63 - 1),
    Shape(depth=5, hot=4, width=16, rows=1, seed=7),
    Shape(depth=4, hot=1000, width=1, rows=5, seed=8),
    Shape(depth=60, hot=3, width=9, rows=1, seed=9),
]


def made(shape: Shape) -> HotPartition:
    return HotPartition(**asdict(shape))


def sketched(codes: Any, shape: Shape) -> HotPartition:
    sketch = made(shape)
    sketch.update(codes_of(codes))
    return sketch


def same(a: HotPartition, b: HotPartition) -> bool:
    counts = np.array_equal(a.cells, b.cells) and np.array_equal(a.tables, b.tables)
    return a.shape == b.shape and counts


def laws_of(shape: Shape, epsilon: float = 2.0, split: Any = "uniform") -> PartitionLaws:
    return partition_laws(
        depth=shape.depth, hot=shape.hot, rows=shape.rows, epsilon=epsilon, split=split,
        diameters=[2.0**-level for level in range(shape.depth + 1)],
    )  # fmt: skip


def skewed(n: int, depth: int, seed: int = 0) -> list[int]:
    g = np.random.default_rng(seed)
    return [int(x * 2**depth) for x in g.beta(0.3, 4.0, n) * (1 - 2**-50)]


def noise_of(laws: PartitionLaws, shape: Shape, seed: int) -> list[int]:
    with seeded_noise(seed):
        sizes = [
            2**level if level <= shape.exact else shape.rows * shape.width
            for level in range(shape.depth + 1)
        ]
        draws = [UnboundedNoise(b).draw(n) for b, n in zip(laws.scales, sizes, strict=True)]
    return np.concatenate(draws).tolist()


@some(
    "Shape(depth=6, hot=1, width=3, rows=1, seed=0)",
    "Shape(depth=5, hot=4, width=16, rows=1, seed=7)",
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_counts_are_those_of_the_slow_twin(shape: Shape) -> None:
    """Law: every count and cell, also across blocks of the loop."""
    codes = skewed(8200, shape.depth)
    sketch = sketched(codes, shape)
    exact, cells = counted(codes, shape)
    deepest = [n for (level, _), n in exact.items() if level == shape.exact]
    assert sketch.cells.tolist() == deepest
    assert sketch.tables.reshape(-1).tolist() == list(cells.values())
    assert sketch.records == 8200


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 127), max_size=60), st.randoms(), st.integers(0, 60))
def test_neither_order_nor_batches_matter(codes: list[int], random: Any, cut: int) -> None:
    """Law: the sketch is a function of the multiset of records."""
    shape = SHAPES[1]
    shuffled = list(codes)
    random.shuffle(shuffled)
    other = made(shape)
    other.update(codes_of(shuffled[:cut]))
    other.update(codes_of(shuffled[cut:]))
    assert same(other, sketched(codes, shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_merge_is_the_sketch_of_both_streams(shape: Shape) -> None:
    """Law: and the parts stay as they are, and the whole goes on counting."""
    a, b = skewed(50, shape.depth, 1), skewed(70, shape.depth, 2)
    left, right = sketched(a, shape), sketched(b, shape)
    both = left.merge(right)
    assert same(both, sketched(a + b, shape))
    both.update(codes_of(a))
    assert same(left, sketched(a, shape))
    assert same(both, sketched(a + b + a, shape))


def test_what_does_not_fit_is_not_merged() -> None:
    shape = SHAPES[1]
    sketch = made(shape)
    for name, value in [("depth", 8), ("hot", 6), ("width", 9), ("rows", 5), ("seed", 1)]:
        other = HotPartition(**{**asdict(shape), name: value})
        with pytest.raises(ParameterError, match="depth, hot"):
            sketch.merge(other)
    with pytest.raises(ParameterError, match="twice"):
        sketch.merge(sketch)
    with pytest.raises(ParameterTypeError):
        sketch.merge(3)  # type: ignore[arg-type]


def stored(sketch: HotPartition) -> HotPartition:
    """The sketch as a file of ``PrivHP`` gives it back."""
    counts = np.concatenate([sketch.cells, sketch.tables.reshape(-1)])
    return HotPartition._restore(asdict(sketch.shape), counts)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parameters_and_counts_give_the_sketch_back(shape: Shape) -> None:
    """Law: also before any record."""
    parameters = {name: np.int64(value) for name, value in asdict(shape).items()}
    for codes in ([], skewed(100, shape.depth)):
        sketch = HotPartition(**parameters)
        sketch.update(codes_of(codes))
        again = stored(sketch)
        assert same(again, sketch)
        again.update(codes_of(codes))
        assert same(again, sketched(codes + codes, shape))


def test_counters_that_no_sketch_has_are_refused() -> None:
    """Law: also counters of another shape."""
    shape = SHAPES[1]
    for spoil in ("cells", "tables", "negative"):
        sketch = sketched(skewed(20, shape.depth), shape)
        if spoil == "cells":
            sketch._cells[0] += 1
        elif spoil == "tables":
            sketch._tables[0, 0, 0] += 1000
        else:
            sketch._cells[-1] = -1
        with pytest.raises(ValueError, match="counters"):
            stored(sketch)
    with pytest.raises(ValueError, match="sizes"):
        HotPartition._restore(asdict(shape), sketched([1], shape).cells)


def test_arguments_are_checked() -> None:
    good: dict[str, Any] = {"depth": 6, "hot": 4, "width": 8, "rows": 3, "seed": 1}
    wrong = [("depth", 0), ("depth", 61), ("hot", 0), ("width", 0), ("rows", 2), ("rows", 0)]
    for name, value in [*wrong, ("seed", -1), ("width", 2**27)]:
        with pytest.raises(ParameterError):
            HotPartition(**{**good, name: value})
    with pytest.raises(ParameterTypeError):
        HotPartition(**{**good, "hot": 2.0})
    sketch = HotPartition(**good)
    with pytest.raises(ParameterError, match="below 2"):
        sketch.update(codes_of([1, 64]))
    for codes in ([1], np.array([1]), np.ones((1, 1), np.uint64)):
        with pytest.raises(ParameterTypeError):
            sketch.update(codes)  # type: ignore[arg-type]
    assert sketch.records == 0
    with pytest.raises(ValueError, match="read-only"):
        sketch.cells[0] = 1


def test_repr_shows_parameters_only() -> None:
    """Law: neither records nor the seed."""
    shape = SHAPES[1]
    text = "HotPartition(depth=7, hot=5, width=8, rows=3, <private>)"
    assert repr(made(shape)) == repr(sketched([1, 2], shape)) == text


def test_memory_is_that_of_the_cells() -> None:
    """Law: (w j + k) r words, however many records."""
    shape = Shape(depth=20, hot=1000, width=500, rows=3, seed=1)
    assert made(shape).memory == 8 * (2**9 + 11 * 3 * 500) == 8 * shape.cells


def test_hashes_spread_and_signs_balance() -> None:
    """Law: near the collisions of random functions, for prefixes in a row and apart."""
    shape = Shape(depth=30, hot=1, width=64, rows=3, seed=11)
    for step in (1, 2**10):
        prefixes = np.arange(0, 20_000 * step, step, dtype=np.uint64)
        places, signs = shape.places(30, prefixes), shape.signs(30, prefixes)
        for row in range(3):
            sizes = np.bincount(places[row], minlength=64)
            assert ((sizes - 312.5) ** 2 / 312.5).sum() < 110  # chi-square, 63 degrees
            assert abs(signs[row].sum()) < 4.5 * math.sqrt(20_000)
        together = (places[0] == places[1]).mean()
        assert abs(together - 1 / 64) < 0.005


@in_turn(("seed", range(6)), ("shape", SHAPES, str))
def test_partitions_are_those_of_the_printed_algorithms(shape: Shape, seed: int) -> None:
    """Law: bit for bit, for the same noise; little noise, and more than there are records."""
    laws = laws_of(shape, epsilon=[0.5, 4.0, 60.0][seed % 3])
    codes = skewed(seed * 80, shape.depth, seed)
    with seeded_noise(seed):
        fast = run(sketched(codes, shape), laws)
    twin = grow(*noisy(*counted(codes, shape), noise_of(laws, shape, seed)), shape)
    assert content(fast) == twin


@pytest.mark.parametrize("seed", range(4))
def test_the_full_tree_is_that_of_exact_counts(seed: int) -> None:
    """Law: the baseline is the same growth with all levels exact."""
    shape = Shape(depth=6, hot=64, width=1, rows=1, seed=1)
    laws = laws_of(shape, epsilon=3.0)
    codes = skewed(200, 6, seed)
    with seeded_noise(seed):
        full = run_full(codes_of(codes), laws)
    assert content(full) == grow(*noisy(*counted(codes, shape), noise_of(laws, shape, seed)), shape)
    assert full.leaf.sum() == 64


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_counts_add_up_and_are_not_negative(shape: Shape) -> None:
    """Law: consistency, at every node; leaves part the domain; at most k are branched a level."""
    with seeded_noise(5):
        partition = run(sketched(skewed(500, shape.depth), shape), laws_of(shape))
    nodes = {(level, code): (n, leaf) for level, code, n, leaf in content(partition)}
    assert min(n for n, _ in nodes.values()) >= 0
    for (level, code), (n, leaf) in nodes.items():
        children = [nodes.get((level + 1, 2 * code + bit)) for bit in (0, 1)]
        if leaf:
            assert children == [None, None]
        else:
            assert math.isclose(sum(c[0] for c in children if c), n, rel_tol=1e-12, abs_tol=1e-9)
    inner = partition.level[~partition.leaf]
    assert np.bincount(inner).max(initial=0) <= max(shape.hot, 1)
    leaves = partition.level[partition.leaf]
    assert sum(Fraction(1, 2**level) for level in leaves.tolist()) == 1


def test_an_empty_stream_and_little_noise_give_a_partition() -> None:
    """Law: near the truth where noise and collisions are few."""
    shape = Shape(depth=8, hot=300, width=1, rows=1, seed=1)
    codes = skewed(1000, 8)
    exact = run(sketched(codes, shape), laws_of(shape, epsilon=900.0))
    expected = np.bincount(codes, minlength=256)
    assert np.array_equal(exact.count[exact.level == 8], expected)
    shape = SHAPES[0]
    assert len(run(made(shape), laws_of(shape)).code) == 1 + 2 * shape.depth


def test_noise_of_another_sketch_is_refused() -> None:
    shape = SHAPES[1]
    for other in (SHAPES[0], Shape(7, 5, 8, 1, 0), Shape(7, 2, 8, 3, 0)):
        with pytest.raises(ParameterError, match="laws and sketch differ"):
            run(made(shape), laws_of(other))
    with pytest.raises(ParameterError, match="exact"):
        run_full(codes_of([1]), laws_of(shape))


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_scales_are_those_of_equation_23(shape: Shape) -> None:
    """Law: the formula in floats, scales never below it, and the sum never above epsilon."""
    gamma = [3.0 * 0.7**level for level in range(shape.depth + 1)]
    sizes: dict[str, Any] = {"depth": shape.depth, "hot": shape.hot, "rows": shape.rows}
    laws = partition_laws(**sizes, epsilon=0.8, diameters=gamma)
    roots = []
    for level in range(shape.depth + 1):
        above = max(0, level - 1)
        many = 2**above if level <= shape.exact else shape.rows * shape.hot
        roots.append(math.sqrt(many * gamma[above]))
    for level, (root, scale) in enumerate(zip(roots, laws.scales, strict=True)):
        expected = sum(roots) / (0.8 * root) * (1 if level <= shape.exact else shape.rows)
        assert 0 <= float(scale) - expected + 1e-9 < 1 / 2**16 + 2e-9
    assert Fraction(799, 1000) < laws.epsilon <= Fraction(0.8)
    even = partition_laws(**sizes, epsilon=0.8, diameters=gamma, split="uniform")
    assert len(set(even.scales)) == (1 if shape.rows == 1 or shape.exact == shape.depth else 2)
    assert even.epsilon <= Fraction(0.8)


def test_budgets_of_no_use_and_wrong_diameters_are_refused() -> None:
    good: dict[str, Any] = {"depth": 3, "hot": 2, "rows": 1, "epsilon": 1.0}
    good["diameters"] = [4, 2, 1, 0]
    assert partition_laws(**good).depth == 3
    for epsilon in (1e-12, 0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BudgetError):
            partition_laws(**{**good, "epsilon": epsilon})
    for diameters in ([4, 2, 1], [4, 2, 0, 1], [4, 2, 1, -1], [4, math.nan, 1, 1]):
        with pytest.raises(ParameterError, match="diameters"):
            partition_laws(**{**good, "diameters": diameters})
    with pytest.raises(ParameterError, match="split"):
        partition_laws(**{**good, "split": "even"})


def partition_of(rows: list[tuple[int, int, float, bool]]) -> Partition:
    level, code, count, leaf = map(np.array, zip(*rows, strict=True))
    return Partition(level=level, code=codes_of(code), count=count, leaf=leaf, depth=2)


def test_leaves_are_drawn_in_proportion_to_their_counts() -> None:
    """Law: frequencies within five standard errors; nothing else is drawn; the root alone where a
    total of 0 says nothing about where records are."""
    upper = [(0, 0, 8.0, False), (1, 0, 5.0, True), (1, 1, 3.0, False)]
    partition = partition_of([*upper, (2, 2, 3.0, True), (2, 3, 0.0, True)])
    level, code = sample_leaves(partition, 40_000, public_generator(3))
    drawn = list(zip(level.tolist(), code.tolist(), strict=True))
    assert set(drawn) == {(1, 0), (2, 2)}
    assert abs(drawn.count((1, 0)) - 25_000) < 5 * math.sqrt(40_000 * 15 / 64)
    assert np.array_equal(sample_leaves(partition, 40_000, public_generator(3))[1], code)
    assert len(sample_leaves(partition, 0, public_generator())[0]) == 0
    assert not np.array_equal(sample_leaves(partition, 40_000, public_generator())[1], code)
    empty = partition_of([(0, 0, 0.0, False), (1, 0, 0.0, True), (1, 1, 0.0, True)])
    level, code = sample_leaves(empty, 5, public_generator(1))
    assert level.tolist() == code.tolist() == [0] * 5
