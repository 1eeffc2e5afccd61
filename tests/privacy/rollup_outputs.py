"""Exact output distributions of a whole rollup: the selection, and every number that gets noise.

The shipped statements read a small frame, and the shipped ``run`` is called once for every outcome
of the selection (see ``enumerate_outputs``). Where it would add unbounded noise, the true number is
kept with the scale of its noise instead; a histogram of magnitudes is answered by one that both
neighbours are given. So the law of a release is, for every set of shown nodes, a probability and
a product of discrete Laplace laws. Which nodes are parts of their own in bins follows from noisy
numbers of values, any of which both neighbours can have: they are given, too, so that a law is of
one pooling, and what is pooled is a part of what is shown.

``between`` encloses the hockey-stick divergence of two such laws. Coordinates that agree integrate
to one. Those that differ, by d at scale b, have a log-likelihood ratio of at most |d|/b, and of
exactly |d|/b on the half line beyond the nearer number, whose probability is 1 / (1 + e^(-1/b)):
the first gives the upper bound, and the second the lower one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpframe.mechanisms import level_counts, rollup
from dpframe.noise import UnboundedNoise
from dpframe.questions.rollup import ask as counting
from dpframe.questions.rollup.ask import explain_rollup
from dpframe.questions.rollup.plan import RollupPlan
from dpframe.testing import seeded_noise

from .enumerate_outputs import ScriptedCoins, every_script

Row = tuple[str | None, str | None, str | None, object]
"""User, two levels, value."""

SEED = 5


def table_of(rows: Sequence[Row], value: pa.DataType | None = None) -> pa.Table:
    """Columns u, a, b and v."""
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    kinds = (pa.string(), pa.string(), pa.string(), value or pa.float64())
    return pa.table(
        {name: pa.array(c, k) for name, c, k in zip("uabv", columns, kinds, strict=True)}
    )


def plan_of(measures: Any, by: Any = ("a", "b"), **given: Any) -> RollupPlan:
    plan: RollupPlan = explain_rollup(by=by, measures=measures, **given).plan
    return plan


Shown = tuple[tuple[object, ...], ...]
Numbers = tuple[tuple[int, Fraction], ...]


@dataclass
class Outcome:
    """A set of shown nodes: how probable it is, and true numbers with the scales of their noise."""

    mass: Fraction
    numbers: Numbers


Law = dict[Shown, Outcome]


class Silent(UnboundedNoise):
    """In place of unbounded noise, which ``between`` puts back."""

    def draw(self, n: int) -> Any:
        return np.zeros(n, dtype=np.int64)


class Once:
    """What the statements return, each run once for the same nodes."""

    def __init__(self, counted: Any) -> None:
        self.counted = counted
        self.counts = counted.counts
        self.held: dict[object, Any] = {}

    def _kept(self, name: str, *given: Any, key: object) -> Any:
        if (name, key) not in self.held:
            with seeded_noise(SEED):
                self.held[name, key] = getattr(self.counted, name)(*given)
        return self.held[name, key]

    def parts(self, vectors: Any, nodes: Any, chosen: Any) -> Any:
        return self._kept("parts", vectors, nodes, chosen, key=shown_of(nodes))

    def in_bins(self, vectors: Any, nodes: Any) -> Any:
        return self._kept("in_bins", vectors, nodes, key=(vectors, shown_of(nodes)))

    def distinct(self, distinct: Any, nodes: Any) -> Any:
        return self._kept("distinct", distinct, nodes, key=(distinct, shown_of(nodes)))

    def magnitudes(self, searched: Any) -> Any:
        return self._kept("magnitudes", searched, key=searched)


def shown_of(nodes: Any) -> Shown:
    return tuple(zip(nodes.level.tolist(), *(k.to_pylist() for k in nodes.keys), strict=True))


Pooling = Callable[[int], bool]
"""Whether a node, by its place, has so many values by the noisy numbers that it is a part."""


@contextmanager
def listened(
    given: Sequence[int] | None = None, enough: Pooling | None = None
) -> Iterator[list[tuple[int, Fraction]]]:
    """What gets noise inside of the block, with the scale; histograms of magnitudes are ``given``
    back, and so are numbers of values by which nodes have ``enough``, or true ones."""
    seen: list[tuple[int, Fraction]] = []
    parts_run, bins_run, forests = rollup.run_measured_parts, rollup._bin_estimate, list[Any]()

    def binned(
        counted: Any, nodes: Any, forest: Any, law: Any, weights: Any, beside: Any
    ) -> rollup.BinEstimate:
        if enough is not None and law.vectors.each == "row":
            if beside is None:
                forests.append(forest)  # for the numbers that are drawn next
            else:
                beside = dataclasses.replace(beside, total=_given_numbers(enough, len(nodes.level)))
        return bins_run(counted, nodes, forest, law, weights, beside)

    def parts(exact: Any, totals: Any, level: Any, *, scales: Mapping[int, Fraction]) -> Any:
        noisy, above = parts_run(exact, totals, level, scales=scales)
        for at, values in ((rollup.PARTS, noisy), *sorted(above.items())):
            seen.extend((int(value), scales[at]) for value in values)
        if forests:
            assert enough is not None
            whole = _given_numbers(enough, len(exact))
            return _parts_of(whole, forests.pop()), {at: whole[level == at] for at in above}
        return noisy, above

    def bins(exact: Any, *, scale: Fraction) -> Any:
        seen.extend((int(value), scale) for value in exact.ravel())
        return exact

    def counts(exact: Any, *, noise: Any) -> Any:
        seen.extend((int(value), noise.scale) for value in exact)
        return exact

    def magnitudes(exact: Any, *, epsilon: Fraction) -> Any:
        seen.extend((int(value), level_counts._bin_noise(epsilon).scale) for value in exact)
        return np.array(given, dtype=np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup, "UnboundedNoise", Silent)
        patch.setattr(rollup, "run_measured_parts", parts)
        patch.setattr(rollup, "_bin_estimate", binned)
        patch.setattr(rollup, "run_bins", bins)
        patch.setattr(rollup, "run_node_counts", counts)
        patch.setattr(rollup, "run_auto_bounds", magnitudes)
        yield seen


FAR = 10**9
"""A number of values, in units, far above or below what a part needs."""


def _given_numbers(enough: Pooling, n: int) -> Any:
    """Numbers of values by which nodes have enough, or not."""
    return np.array([(1 if enough(place) else -1) * FAR for place in range(n)], dtype=object)


def _parts_of(whole: Any, forest: Any) -> Any:
    """Numbers of parts, whose totals are ``whole``."""
    own = whole
    for _ in whole:
        own = own + whole - rollup.subtree_sums(own, forest)
    return own


def counted_by(plan: RollupPlan, table: pa.Table) -> Once:
    """What a release starts from, by the shipped statements; one seed for all neighbours."""
    with seeded_noise(SEED):
        return Once(counting.count(table, plan, False).private)


def run_with(plan: RollupPlan, counted: Any, test: Any) -> rollup.NoisyRollup:
    """The shipped ``run``, with ``test`` in the place of the selection's noise."""
    selection = None
    if plan.selection is not None:
        selection = rollup.Selection(test=test, threshold=plan.selection.threshold_units)
    return rollup.run(
        counted,
        kinds=plan.hierarchy.kind_order,
        selection=selection,
        band=plan.band,
        paid=plan.paid,
        read=plan.read,
        searching=plan.searching,
        counts=plan.counts,
        binned=plan.binned,
        by_user=plan.unit.user is not None,
        importance=plan.asked.level_importance,
    )


def law_of(
    plan: RollupPlan,
    table: pa.Table,
    given: Sequence[int] | None = None,
    enough: Pooling | None = None,
) -> Law:
    """Every set of shown nodes with its exact probability, and what gets noise then."""
    return law_of_counted(plan, counted_by(plan, table), given, enough)


def law_of_counted(
    plan: RollupPlan, counted: Once, given: Sequence[int] | None, enough: Pooling | None
) -> Law:
    """The same, from what the statements returned."""
    law = Law()
    test = None if plan.selection is None else plan.selection.test_noise

    def scripted(script: Any) -> Any:
        with listened(given, enough) as seen:
            coins = None if test is None else ScriptedCoins(test, script)
            noisy = run_with(plan, counted, coins)
        apart = tuple((name, *one.rows.tolist()) for name, one in noisy.binned.items())
        return shown_of(noisy.nodes) + apart, tuple(seen)

    for script, found in every_script(scripted):
        shown, numbers = found
        outcome = law.setdefault(shown, Outcome(Fraction(0), numbers))
        outcome.mass += script.probability
        assert outcome.numbers == numbers  # they depend on what is shown alone
    assert sum(outcome.mass for outcome in law.values()) == 1
    return law


def moved(here: Numbers, there: Numbers) -> list[Fraction]:
    """By how much each number moves, in scales; neighbours have the same scales."""
    assert [scale for _, scale in here] == [scale for _, scale in there]
    return [abs(x - y) / scale for (x, scale), (y, _) in zip(here, there, strict=True) if x != y]


def between(p: Law, q: Law, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound on D(P || Q) at epsilon."""
    low = high = Fraction(0)
    for shown, here in p.items():
        there = q.get(shown)
        if there is None:
            low, high = low + here.mass, high + here.mass
            continue
        moves = moved(here.numbers, there.numbers)
        excess = here.mass - _exp(epsilon - sum(moves, Fraction(0))) * there.mass
        if excess > 0:
            scales = [
                scale
                for (x, scale), (y, _) in zip(here.numbers, there.numbers, strict=True)
                if x != y
            ]
            near = math.prod(1 / (1 + math.exp(-1 / scale)) for scale in scales)
            low, high = low + excess * Fraction(near), high + excess
    return low, high


def _exp(x: Fraction) -> Fraction:
    """e^x, rounded down where it is rounded, so that no divergence is missed."""
    return Fraction(1) if x == 0 else Fraction(math.exp(float(x)) * (1 - 1e-14))


def furthest(p: Law, q: Law, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """The same, the larger of both directions."""
    first, second = between(p, q, epsilon), between(q, p, epsilon)
    return max(first[0], second[0]), max(first[1], second[1])


def largest_loss(p: Law, q: Law) -> Fraction:
    """Of the numbers together, over all shown nodes that both have."""
    return max(
        sum(moved(p[shown].numbers, q[shown].numbers), Fraction(0)) for shown in p.keys() & q.keys()
    )
