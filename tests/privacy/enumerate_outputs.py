"""Exact output distributions of the shipped ``run`` functions on tiny trees. No sampling.

The real ``run`` is called with scripted noise, once for every combination of outcomes, and each
result is weighed by the exact integer probability of its script. Two scripts, which must agree:

``every_release``
    walks through every value of every draw: nothing is assumed about how ``run`` uses its
    noise, and laws must have few atoms;
``every_selection``
    replaces each comparison ``residual + W >= threshold`` by a coin with the exact probability
    of its outcome, and leaves the release noise at 0. The release noise is put back by
    ``divergence``, as independent noise on every released residual. Laws can have any size.

A table is a mapping from paths to numbers of records: ``{"ab": 3, "a": 1}`` has three records at
the node ``ab`` of level 2 and one more that ends at ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.accounting.path_recursion import Laws, linear_delta
from dpframe.counts import CountTree, NoisyNodes
from dpframe.mechanisms import offline_hhh
from dpframe.noise import TOTAL, NoiseTable

Table = Mapping[str, int]
Released = tuple[tuple[str, int], ...]
"""(path, released residual) of every reported node; the root is the empty path."""
Distribution = dict[Released, Fraction]


def tree_of(table: Table) -> CountTree:
    """All non-empty nodes of a table and the root, in preorder."""
    count: dict[str, int] = {"": 0}
    for path, records in table.items():
        for end in range(len(path) + 1):
            if records:
                count[path[:end]] = count.get(path[:end], 0) + records
    paths = sorted(count)
    return CountTree.from_preorder(
        level=np.array([len(p) for p in paths], dtype=np.int64),
        count=np.array([count[p] for p in paths], dtype=np.int64),
        keys=(pa.chunked_array([paths], type=pa.string()),),
    )


def more(table: Table, path: str, records: int = 1) -> dict[str, int]:
    """The neighbour with more records at one path."""
    return {**table, path: table.get(path, 0) + records}


class Script:
    """One sequence of outcomes, extended by first outcomes; knows its exact probability."""

    def __init__(self, choices: Sequence[int]) -> None:
        self.choices = list(choices)
        self.sizes: list[int] = []
        self.weight = 1

    def pick(self, weights: Sequence[int]) -> int:
        """Position of the outcome, among those of these integer weights out of 2**64."""
        turn = len(self.sizes)
        if turn == len(self.choices):
            self.choices.append(0)
        self.sizes.append(len(weights))
        self.weight *= int(weights[self.choices[turn]])
        return self.choices[turn]

    @property
    def probability(self) -> Fraction:
        return Fraction(self.weight, TOTAL ** len(self.sizes))

    def next(self) -> list[int] | None:
        """The choices of the next script, as an odometer; None after the last."""
        choices = self.choices.copy()
        while choices and choices[-1] + 1 == self.sizes[len(choices) - 1]:
            choices.pop()
        if not choices:
            return None
        choices[-1] += 1
        return choices


def every_script(run: Callable[[Script], NoisyNodes]) -> Iterator[tuple[Script, NoisyNodes]]:
    """Run once for every combination of outcomes, branching only where a draw is made."""
    choices: list[int] | None = []
    while choices is not None:
        script = Script(choices)
        result = run(script)
        yield script, result
        choices = script.next()


def law_of(
    run: Callable[[Script], Any], shown: Callable[[Any], Any] = lambda out: out
) -> dict[Any, Fraction]:
    """Probability of everything that can be shown of a run, over every combination of outcomes."""
    law: dict[Any, Fraction] = {}
    for script, result in every_script(run):
        out = shown(result)
        law[out] = law.get(out, Fraction(0)) + script.probability
    assert sum(law.values()) == 1
    return law


class ScriptedValues:
    """In place of a NoiseTable: every value of the table in turn."""

    def __init__(self, law: NoiseTable, script: Script) -> None:
        self.law, self.script = law, script
        self.weights = law.weights.tolist()

    def draw(self, n: int) -> NDArray[np.int64]:
        picks = [self.script.pick(self.weights) for _ in range(n)]
        return self.law.lowest + np.array(picks, dtype=np.int64)


class ScriptedCoins:
    """In place of a NoiseTable whose draws are only compared: both outcomes in turn."""

    def __init__(self, law: NoiseTable, script: Script) -> None:
        self.law, self.script = law, script

    def draw(self, n: int) -> Undecided:
        return Undecided(self.law, self.script, np.zeros(n, dtype=np.int64))


class Undecided:
    """residual + W, of which only a comparison is ever seen."""

    __array_ufunc__ = None  # numpy leaves ``array + Undecided`` to us

    def __init__(self, law: NoiseTable, script: Script, residual: NDArray[np.int64]) -> None:
        self.law, self.script, self.residual = law, script, residual

    def __add__(self, other: Any) -> Undecided:
        return Undecided(self.law, self.script, self.residual + other)

    __radd__ = __add__

    def __ge__(self, threshold: Any) -> NDArray[np.bool_]:
        needed = np.broadcast_to(threshold, self.residual.shape) - self.residual
        return np.array([self._top(int(x)) for x in needed], dtype=bool)

    def _top(self, x: int) -> bool:
        """Both outcomes of W >= x, unless one is impossible."""
        top = _tails(self.law)[min(max(x - self.law.lowest, 0), len(self.law.weights))]
        outcomes = [(True, top), (False, TOTAL - top)]
        possible = [(side, weight) for side, weight in outcomes if weight]
        return possible[self.script.pick([weight for _, weight in possible])][0]


@cache
def _tails(law: NoiseTable) -> list[int]:
    """Weight of all values from each one on, and 0 beyond the last."""
    return list(accumulate(law.weights[::-1].tolist(), initial=0))[::-1]


class NoNoise:
    """In place of a NoiseTable that ``divergence`` puts back."""

    def draw(self, n: int) -> NDArray[np.int64]:
        return np.zeros(n, dtype=np.int64)


def released(noisy: NoisyNodes) -> Released:
    return tuple(zip(noisy.keys[0].to_pylist(), noisy.residual.tolist(), strict=True))


Run = Callable[..., NoisyNodes]
"""``run(tree, *, test, release, threshold, remainder)``, shipped or with a planted bug."""


def every_release(
    table: Table,
    *,
    test: NoiseTable,
    release: NoiseTable,
    run: Run = offline_hhh.run,
    **options: Any,
) -> Distribution:
    """Probability of every possible output, over every value of every draw."""
    tree = tree_of(table)

    def scripted(script: Script) -> NoisyNodes:
        noise = {"test": ScriptedValues(test, script), "release": ScriptedValues(release, script)}
        return run(tree, **noise, **options)

    return law_of(scripted, released)


def every_selection(
    table: Table, *, test: NoiseTable, run: Run = offline_hhh.run, **options: Any
) -> Distribution:
    """Probability of every set of selected nodes, with their true residuals."""
    tree = tree_of(table)

    def scripted(script: Script) -> NoisyNodes:
        return run(tree, test=ScriptedCoins(test, script), release=NoNoise(), **options)

    return law_of(scripted, released)


def hockey_stick(p: Any, q: Any, t: float) -> Any:
    """D(P || Q) = sum of (P - t Q)+ for complete outputs, exactly where they are; t = e^epsilon."""
    rate, none = Fraction(t), Fraction(0)
    return sum((max(mass - rate * q.get(out, none), none) for out, mass in p.items()), none)


def divergence(p: Distribution, q: Distribution, release: NoiseTable, t: float) -> float:
    """The same for selections: fresh release noise on every residual, integrated exactly.

    Residuals are determined by the selection, so outputs with different selections do not
    overlap, and coordinates whose residuals agree integrate to one.
    """
    others = {tuple(path for path, _ in out): (out, mass) for out, mass in q.items()}
    total = 0.0
    for out, mass in p.items():
        other, other_mass = others.get(tuple(path for path, _ in out), (out, Fraction(0)))
        moves = [b - a for (_, a), (_, b) in zip(out, other, strict=True) if a != b]
        here, there = np.array(float(mass)), np.array(t * float(other_mass))
        for move in moves:
            at, moved = _moved(release, move)
            here, there = np.multiply.outer(here, at), np.multiply.outer(there, moved)
        total += float(np.maximum(here - there, 0.0).sum())
    return total


def _moved(law: NoiseTable, move: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The law and the law shifted by ``move``, on one common support."""
    gap = np.zeros(abs(move))
    at, moved = np.concatenate([law.pmf, gap]), np.concatenate([gap, law.pmf])
    return (at, moved) if move > 0 else (moved, at)


def worst(p: Any, q: Any, t: float) -> Any:
    """The larger of both directions, for complete outputs."""
    return max(hockey_stick(p, q, t), hockey_stick(q, p, t))


def worst_selection(p: Distribution, q: Distribution, release: NoiseTable, t: float) -> float:
    """The larger of both directions, for selections."""
    return max(divergence(p, q, release, t), divergence(q, p, release, t))


def claimed(laws: Laws, *, height: int, grid: int) -> tuple[float, float]:
    """What the accountant says of shares, of one unit more and of one less."""
    known = {name: getattr(laws, name) for name in ("right", "left", "release_scale")}
    return linear_delta(laws.test, laws.release, **known, height=height, grid=grid)
