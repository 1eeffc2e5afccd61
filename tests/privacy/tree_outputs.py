"""Exact output distributions of released trees of counts, and slow twins of their accounting.

As in :mod:`enumerate_outputs`, the shipped ``run`` is called once for every combination of values
of all its draws, and what it releases is weighed by the exact integer probability of its script.
Where intervals are switched off, that is because they are functions of the released counts
(``test_what_is_released_is_a_function_of_the_noisy_counts_of_visible_nodes``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.tree_levels import TreeLaws, tree_laws
from dpframe.counts import CountTree, ListedNodes, NoisyTree
from dpframe.mechanisms import level_counts
from dpframe.noise import TOTAL, NoiseTable
from dpframe.sources.keys import listed_counts

from .enumerate_outputs import Script, Table, hockey_stick, law_of, tree_of

Row = tuple[Any, ...]
Distribution = dict[tuple[Row, ...], Fraction]
Run = Callable[[CountTree, TreeLaws], NoisyTree]


def symmetric(*half: int) -> NoiseTable:
    """A law from the middle outwards, in units that sum to a power of two."""
    weights = [*half[:0:-1], *half]
    unit, rest = divmod(TOTAL, sum(weights))
    assert rest == 0
    assert weights[0] > 0
    return NoiseTable(
        "by hand", 1 - len(half), np.array([w * unit for w in weights], dtype=np.uint64)
    )


def by_hand(*noises: NoiseTable, scales: Sequence[float] | None = None, grid: int = 1) -> TreeLaws:
    """Laws of levels 0, 1, ... that no calibration chose; they promise nothing."""
    given = tuple(scales) if scales is not None else (1.0,) * len(noises)
    return TreeLaws(family="laplace", noises=noises, scales=given, grid=grid, delta=1.0)


def made(
    weights: Sequence[float],
    epsilon: float,
    delta: float,
    family: Any = "laplace",
    *,
    grid: int = 1,
    listed: bool = False,
) -> TreeLaws:
    """Laws as a calibration chooses them."""
    options: Any = {"grid": grid, "listed": listed, "family": family}
    return tree_laws(weights=weights, epsilon=epsilon, delta=delta, **options)


@cache
def known(law: NoiseTable) -> tuple[list[int], float, float]:
    """Weights, mean and standard deviation, computed once for all scripts."""
    return law.weights.tolist(), law.mean, law.sd


class ScriptedTable(NoiseTable):
    """A table whose draws follow a script."""

    __slots__ = ("law", "script")

    def __init__(self, law: NoiseTable, script: Script) -> None:
        super().__init__(law.family, law.lowest, law.weights)
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "script", script)

    @property
    def mean(self) -> float:
        return known(self.law)[1]

    @property
    def sd(self) -> float:
        return known(self.law)[2]

    def draw(self, n: int) -> NDArray[np.int64]:
        weights = known(self.law)[0]
        picks = [self.script.pick(weights) for _ in range(n)]
        return self.lowest + np.array(picks, dtype=np.int64)


class GivenTable(NoiseTable):
    """A table whose draws are told, one list a call."""

    __slots__ = ("told",)

    def __init__(self, law: NoiseTable, *told: Sequence[int]) -> None:
        super().__init__(law.family, law.lowest, law.weights)
        object.__setattr__(self, "told", list(told))

    def draw(self, n: int) -> NDArray[np.int64]:
        values = np.array(self.told.pop(0), dtype=np.int64)
        assert len(values) == n
        assert ((self.lowest <= values) & (values <= self.highest)).all()
        return values


def told(tree: CountTree, laws: TreeLaws, noise: dict[str, int]) -> TreeLaws:
    """Laws whose draws are given by path."""
    paths = tree.keys[0].to_pylist()
    made = [
        GivenTable(n, [noise.get(paths[i], 0) for i in tree.at_level(depth)])
        for depth, n in enumerate(tables(laws))
    ]
    return replace(laws, noises=tuple(made))


def tables(laws: TreeLaws) -> list[NoiseTable]:
    out = [n for n in laws.noises if isinstance(n, NoiseTable)]
    assert len(out) == len(laws.noises)
    return out


def scripted(laws: TreeLaws, script: Script) -> TreeLaws:
    return replace(laws, noises=tuple(ScriptedTable(n, script) for n in tables(laws)))


@contextmanager
def no_intervals() -> Iterator[None]:
    """Leave out what is computed from released counts alone."""

    def none(place: int) -> Any:
        return lambda *args, **named: np.zeros((2, len(args[place])), dtype=np.int64)

    places = {"plain_interval": 1, "selected_interval": 2, "_rests": 3}
    with mock.patch.multiple(level_counts, **{name: none(n) for name, n in places.items()}):
        yield


def content(noisy: NoisyTree) -> tuple[Row, ...]:
    """Everything that leaves, in its order."""
    columns: list[list[Any]] = [
        noisy.keys[0].to_pylist(),
        *(a.tolist() for a in (noisy.level, noisy.parent, noisy.other, noisy.open)),
        *(a.tolist() for a in (noisy.count, noisy.lower, noisy.upper)),
        *(a.tolist() for a in noisy.rest or ()),
        *([noisy.variance.tolist()] if noisy.variance is not None else []),
    ]
    return tuple(zip(*columns, strict=True))


def every_output(tree: CountTree, laws: TreeLaws, run: Run) -> Distribution:
    """Probability of every possible output, over every value of every draw."""
    return law_of(lambda script: run(tree, scripted(laws, script)), content)


def shipped_unknown(tree: CountTree, laws: TreeLaws) -> NoisyTree:
    return level_counts.run_unknown_counts(
        tree, laws=laws, thresholds=laws.thresholds, confidence=0.8
    )


def pruned(tree: CountTree, band: int) -> CountTree:
    """What the source returns: nodes at or above the band, and the root always."""
    kept = np.flatnonzero((tree.count >= band) | (tree.level == 0))
    return CountTree.from_preorder(
        level=tree.level[kept], count=tree.count[kept], keys=(tree.keys[0].take(pa.array(kept)),)
    )


# -- known keys ----------------------------------------------------------------------------------


def listed_of(*paths: str) -> ListedNodes:
    """The nodes of some paths; beside listed children there can be others."""
    nodes = sorted({path[:end] for path in paths for end in range(len(path) + 1)})
    parent = [nodes.index(node[:-1]) if node else -1 for node in nodes]
    rest = [any(child[:-1] == node for child in nodes if child) for node in nodes]
    return ListedNodes(
        level=np.array([len(node) for node in nodes], dtype=np.int64),
        parent=np.array(parent, dtype=np.int64),
        keys=(pa.chunked_array([nodes], type=pa.string()),),
        rest=np.array(rest),
        name="by hand",
    )


def listed_tree(table: Table, listed: ListedNodes) -> CountTree:
    return listed_counts(tree_of(table), listed)


def shipped_listed(listed: ListedNodes) -> Run:
    def run(tree: CountTree, laws: TreeLaws) -> NoisyTree:
        return level_counts.run_listed_counts(tree, laws=laws, listed=listed, confidence=0.8)

    return run


# -- neighbours ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """One mechanism, applied to many tables; keeps their laws."""

    laws: TreeLaws
    run: Run
    tree: Callable[[Table], CountTree]
    known: dict[tuple[Any, ...], Distribution]

    @classmethod
    def unknown(cls, laws: TreeLaws, run: Run = shipped_unknown) -> Bench:
        return cls(laws, run, tree_of, {})

    @classmethod
    def listed(cls, laws: TreeLaws, listed: ListedNodes, run: Run | None = None) -> Bench:
        return cls(
            laws, run or shipped_listed(listed), lambda table: listed_tree(table, listed), {}
        )

    def law(self, table: Table) -> Distribution:
        tree = self.tree(table)
        key = (*tree.keys[0].to_pylist(), *tree.count.tolist())
        if key not in self.known:
            with no_intervals():
                self.known[key] = every_output(tree, self.laws, self.run)
        return self.known[key]

    def apart(self, one: Table, other: Table, epsilon: float) -> Fraction:
        """The larger hockey stick of both directions."""
        p, q, t = self.law(one), self.law(other), math.exp(epsilon)
        return max(hockey_stick(p, q, t), hockey_stick(q, p, t))


def added(table: Table, more: Mapping[str, int]) -> dict[str, int]:
    return {path: table.get(path, 0) + more.get(path, 0) for path in {*table, *more}}


def divided(units: int, leaves: Sequence[str]) -> list[dict[str, int]]:
    """Every way to divide units over leaves."""
    shares = product(range(units + 1), repeat=len(leaves))
    whole = (dict(zip(leaves, share, strict=True)) for share in shares if sum(share) == units)
    return [{path: n for path, n in user.items() if n} for user in whole]


# -- slow twins of the accountants ---------------------------------------------------------------


def composed(noises: Sequence[NoiseTable], epsilon: float) -> Fraction:
    """Hockey stick of one count a level that moves by one: the sum over all outcomes, exactly."""
    return moved_together([(noise, 1) for noise in noises], epsilon)


def moved_together(moves: Sequence[tuple[NoiseTable, int]], epsilon: float) -> Fraction:
    """The same for counts that move by the given units, whatever they are counts of."""
    t = Fraction(math.exp(epsilon))
    pairs = [(1, 1)]
    for noise, units in moves:
        weight = dict(enumerate(noise.weights.tolist(), noise.lowest))
        values = range(noise.lowest, noise.highest + units + 1)
        atoms = [(weight.get(v, 0), weight.get(v - units, 0)) for v in values]
        pairs = [(p * a, q * b) for p, q in pairs for a, b in atoms]
    whole = TOTAL ** len(moves)
    there = sum((p - t * q for p, q in pairs if p > t * q), Fraction(0))
    back = sum((q - t * p for p, q in pairs if q > t * p), Fraction(0))
    return max(there, back) / whole


class SilentTable(NoiseTable):
    """A table of which every draw is 0."""

    def draw(self, n: int) -> NDArray[np.int64]:
        return np.zeros(n, dtype=np.int64)


def silent(levels: int) -> TreeLaws:
    law = symmetric(2, 1)
    return by_hand(*(SilentTable(law.family, law.lowest, law.weights) for _ in range(levels)))
