"""The exact law of CT's Algorithms 1 and 2, line by line over all nodes of a small tree.

A slow twin of ``dpframe/mechanisms/level_counts.py``: it visits every node that a tree can
have, also empty ones and those below the band, and carries probabilities in place of draws.
``Rule`` names the mistakes that it can be asked to make.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpframe.accounting.relative_steps import RelativeLaws, Step, least_truncation_bound
from dpframe.noise import NoiseTable, laplace_table

Label = frozenset[tuple[str, int]]
"""(path, i) of every node that became top, i its step."""
Law = dict[Label, float]

LEFT_OVER = 1e-13
"""More than the mass beyond the tables that stand for unbounded noise, and float rounding."""


@dataclass(frozen=True)
class Rule:
    """How a broken twin differs from the algorithms; by default it does not."""

    stops: bool = True  # after the c-th top
    redrawn: bool = True  # threshold noise, after each top
    divided: bool = True  # the budget by c
    clamped: bool = True  # queries at band - 1
    tested: bool = True  # nodes on a level whose answer is top
    noisy_tests: bool = True


AS_PRINTED = Rule()


@dataclass(frozen=True)
class Noise:
    """The three laws of a step."""

    threshold: NoiseTable
    query: NoiseTable
    test: NoiseTable


def noise_of(step: Step, rule: Rule = AS_PRINTED) -> Noise:
    """Tables as long as their mass is in floats; the test's is the shipped one."""
    scale = float(step.scale) / (1 if rule.divided else step.tops)
    return Noise(
        threshold=laplace_table(2 * scale, math.ceil(80 * scale)),
        query=laplace_table(4 * scale, math.ceil(160 * scale)),
        test=laplace_table(scale, step.bound),
    )


def toy_step(
    *,
    threshold: int,
    epsilon: float,
    tops: int,
    slack: int = 0,
    bound: int | None = None,
    delta: float = 1e-6,
) -> Step:
    """A step with scales as they should be and all else at will."""
    scale = 2 * tops / Fraction(epsilon)
    return Step(
        largest=2.0 * threshold,
        eta=0.1,
        alpha=0.5,
        threshold=float(threshold),
        epsilon=epsilon,
        delta=delta,
        tops=tops,
        slack=slack,
        scale=scale,
        bound=least_truncation_bound(scale, delta / tops) if bound is None else bound,
    )


def toy_laws(*steps: Step, height: int) -> RelativeLaws:
    return RelativeLaws(
        height=height,
        alpha=0.5,
        eta=0.1,
        largest=10**6,
        lowest=1.0,
        steps=steps,
        epsilon=math.fsum(step.epsilon for step in steps),
        delta=1.0,
    )


def universe(height: int, letters: str) -> list[str]:
    """Every node that can be, with ``letters`` for children."""
    return ["".join(p) for n in range(height + 1) for p in product(letters, repeat=n)]


def weights_of(table: Mapping[str, int], nodes: list[str]) -> dict[str, int]:
    """Records under every node, 0 included."""
    return {u: sum(n for path, n in table.items() if path.startswith(u)) for u in nodes}


def reduction(
    table: Mapping[str, int],
    laws: RelativeLaws,
    *,
    letters: str = "ab",
    rule: Rule = AS_PRINTED,
    noise: Callable[[Step, Rule], Noise] = noise_of,
) -> Law:
    """Algorithm 2: the law of all labels."""
    weights = weights_of(table, universe(laws.height, letters))
    states: Law = {frozenset(): 1.0}
    for i in range(len(laws.steps), 0, -1):
        step, after = laws.steps[i - 1], defaultdict(float)
        for label, mass in states.items():
            done = {path for path, _ in label}
            roots = [u for u in weights if u not in done and (u == "" or u[:-1] in done)]
            mixed: Law = {label: mass}
            for root in roots:
                tree = {u: w for u, w in weights.items() if u.startswith(root)}
                tops = classification(tree, root, step, laws.height, rule, noise(step, rule))
                wider: Law = defaultdict(float)
                for (old, p), (new, q) in product(mixed.items(), tops.items()):
                    wider[old | {(u, i) for u in new}] += p * q
                mixed = wider
            for new_label, p in mixed.items():
                after[new_label] += p
        states = dict(after)
    return states


def classification(
    weights: Mapping[str, int], root: str, step: Step, height: int, rule: Rule, noise: Noise
) -> dict[frozenset[str], float]:
    """Algorithm 1 for one tree: the law of its set of top nodes."""
    out: dict[frozenset[str], float] = defaultdict(float)
    start = noise.threshold.pmf
    levels_at = step.least + np.arange(noise.threshold.lowest, noise.threshold.highest + 1)

    def go(level: int, tops: frozenset[str], state: NDArray[np.float64], answered: int) -> None:
        """``state`` is the mass of every noisy threshold, together with what happened so far."""
        if level < len(root):
            out[tops] += float(state.sum())
            return
        here = [u for u in weights if len(u) == level and u not in tops]  # S_i
        if not rule.clamped:
            here = [u for u in here if weights[u] >= step.band]
        if not here:  # line 4
            go(level - 1, tops, state, answered)
            return
        query = max(weights[u] for u in here)  # line 5
        if rule.clamped:
            query = max(query, step.band - 1)
        above, below = _tails(noise.query, levels_at - query)  # line 6
        go(level - 1, tops, state * below, answered)  # lines 7 and 8
        mass = state * above
        total = float(mass.sum())
        for passed, chance in _tests(here, weights, step, rule, noise):  # lines 10 to 16
            wider = tops | {u[:n] for u in passed for n in range(len(root), len(u) + 1)}
            if rule.stops and answered + 1 == step.tops:
                out[wider] += total * chance
            else:
                next_state = total * start if rule.redrawn else mass
                go(level - 1, wider, next_state * chance, answered + 1)

    go(height, frozenset(), start, 0)
    return dict(out)


def _tests(
    here: list[str], weights: Mapping[str, int], step: Step, rule: Rule, noise: Noise
) -> list[tuple[list[str], float]]:
    """Every set of nodes that may pass line 12, with its chance."""
    if not rule.tested:  # all nodes of S_i that are not empty
        return [([u for u in here if weights[u]], 1.0)]
    laws = [_tails(noise.test, np.array([step.cut - weights[u]])) for u in here]
    chances = [(float(above[0]), float(below[0])) for above, below in laws]
    if not rule.noisy_tests:
        chances = [(float(weights[u] >= step.cut), float(weights[u] < step.cut)) for u in here]
    sets: list[tuple[list[str], float]] = [([], 1.0)]
    for u, (yes, no) in zip(here, chances, strict=True):
        sets = [
            (chosen + extra, p * q)
            for chosen, p in sets
            for extra, q in (([u], yes), ([], no))
            if p * q > 0
        ]
    return sets


def _tails(
    law: NoiseTable, x: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(noise >= x) and P(noise < x), each summed from its own end."""
    at = np.clip(x - law.lowest, 0, len(law.weights))
    return law.at_least()[at], law.cumulative_chances()[at]


def divergence(p: Mapping[Label, float], q: Mapping[Label, float], t: float) -> float:
    """sum of (P - t Q)+."""
    return math.fsum(max(mass - t * q.get(label, 0.0), 0.0) for label, mass in p.items())


def worst(p: Mapping[Label, float], q: Mapping[Label, float], epsilon: float) -> float:
    """The larger of both directions."""
    t = math.exp(epsilon)
    return max(divergence(p, q, t), divergence(q, p, t))
