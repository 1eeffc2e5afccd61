"""Counts with relative error, enumerated: for all neighbours, divergence <= the claimed delta.

First the exact law of CT's Algorithms 1 and 2, line by line over all nodes that a tree can have: a
slow twin of ``dpframe/mechanisms/level_counts.py``, which visits empty nodes and those below the
band, too, and carries probabilities in place of draws. ``Rule`` names the mistakes that it can be
asked to make. Then the shipped ``run`` is shown to have that law, by walking through every value of
its draws on tiny trees; the law is compared between neighbours with ``cost``, in both directions;
and broken twins must fail the same comparison. Noise without bounds is a table of 80 or 40 of its
scales; what lies beyond is ``LEFT_OVER`` and is allowed for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpframe.accounting.relative_steps import (
    RelativeLaws,
    Step,
    end_mass,
    least_truncation_bound,
    relative_laws,
)
from dpframe.counts import NoisyTree
from dpframe.mechanisms import level_counts as relative_counts
from dpframe.mechanisms.level_counts import relative_counts_cost, run_relative_counts
from dpframe.noise import NoiseTable, laplace_table
from dpframe.testing import seeded_noise
from tests.members import some, tries

from .enumerate_outputs import (
    Script,
    ScriptedCoins,
    ScriptedValues,
    Table,
    law_of,
    more,
    tree_of,
    worst,
)
from .tree_outputs import pruned

# -- the law of the printed algorithms -------------------------------------------------------------

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


TOY = {"eta": 0.1, "alpha": 0.5}


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
    scale, given = 2 * tops / Fraction(epsilon), {"epsilon": epsilon, "delta": delta}
    reach = least_truncation_bound(scale, delta / tops) if bound is None else bound
    known: Any = {**TOY, **given, "largest": 2.0 * threshold, "threshold": float(threshold)}
    return Step(**known, tops=tops, slack=slack, scale=scale, bound=reach)


def toy_laws(*steps: Step, height: int) -> RelativeLaws:
    known: Any = {**TOY, "largest": 10**6, "lowest": 1.0, "delta": 1.0}
    spent = math.fsum(step.epsilon for step in steps)
    return RelativeLaws(**known, height=height, steps=steps, epsilon=spent)


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


# -- run has the law of the printed algorithms ----------------------------------------------------


def label_of(noisy: NoisyTree, laws: RelativeLaws) -> Label:
    """Which node became top in which step, read from the released counts."""
    step_of = {math.floor(step.largest): i for i, step in enumerate(laws.steps, 1)}
    pairs = zip(noisy.keys[0].to_pylist(), noisy.count.tolist(), strict=True)
    return frozenset((path, step_of[count]) for path, count in pairs if count in step_of)


def enumerated(
    table: Table, laws: RelativeLaws, noise: dict[Step, Noise], monkeypatch: pytest.MonkeyPatch
) -> Law:
    """The law of ``run``, by every script of draws."""
    thresholds = {2 * step.scale: laws_of.threshold for step, laws_of in noise.items()}
    queries = {4 * step.scale: laws_of.query for step, laws_of in noise.items()}
    tests = {step.scale: laws_of.test for step, laws_of in noise.items()}
    assert len({*thresholds, *queries, *tests}) == 3 * len(noise), "scales tell the uses apart"
    tree = tree_of(table)

    def run(script: Script) -> Label:
        def unbounded(scale: Fraction, n: int) -> Any:
            if scale in thresholds:
                return ScriptedValues(thresholds[scale], script).draw(n)
            return ScriptedCoins(queries[scale], script).draw(n)

        def truncated(scale: Fraction, bound: int, n: int) -> Any:
            assert bound == tests[scale].highest
            return ScriptedCoins(tests[scale], script).draw(n)

        monkeypatch.setattr(relative_counts, "unbounded_laplace", unbounded)
        monkeypatch.setattr(relative_counts, "truncated_laplace", truncated)
        return label_of(run_relative_counts(tree, laws=laws), laws)

    return {label: float(mass) for label, mass in law_of(run).items()}


ONE = toy_laws(toy_step(threshold=20, epsilon=3.0, tops=2, slack=2, bound=3), height=2)
TWO = toy_laws(
    toy_step(threshold=16, epsilon=3.0, tops=2, slack=2, bound=2),
    toy_step(threshold=24, epsilon=2.0, tops=2, slack=1, bound=3),
    height=1,
)


def coarse(step: Step, rule: Rule = AS_PRINTED) -> Noise:
    """Few values where ``run`` adds, all of them where it compares."""
    return replace(noise_of(step, rule), threshold=laplace_table(2 * float(step.scale), 1))


@some(0, 2, 5)
@pytest.mark.parametrize(
    ("laws", "table"),
    [
        (ONE, {}),
        (ONE, {"a": 12}),
        (ONE, {"aa": 15, "b": 16}),
        (ONE, {"aa": 15, "ab": 12, "a": 5, "b": 1}),
        (TWO, {"": 40}),
        (TWO, {"a": 14}),
        pytest.param(TWO, {"a": 18, "b": 12}, marks=pytest.mark.evidence),
        (TWO, {"a": 25, "b": 17}),
    ],
)
def test_the_release_has_the_law_of_the_printed_algorithms(
    laws: RelativeLaws, table: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: ``run``, which sees only nodes at the band, and the algorithms over all nodes agree."""
    shipped = enumerated(table, laws, {step: coarse(step) for step in laws.steps}, monkeypatch)
    printed = {label: p for label, p in reduction(table, laws, noise=coarse).items() if p}
    assert shipped.keys() == printed.keys()
    for label, mass in shipped.items():
        assert mass == pytest.approx(printed[label], rel=1e-9, abs=1e-15)


def test_a_twin_that_forgets_the_clamp_has_another_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control for the comparison above."""
    laws = toy_laws(toy_step(threshold=20, epsilon=3.0, tops=1, slack=2, bound=3), height=2)
    shipped = enumerated({"b": 30}, laws, {laws.steps[0]: coarse(laws.steps[0])}, monkeypatch)
    for rule, agrees in ((AS_PRINTED, True), (Rule(clamped=False), False)):
        twin = reduction({"b": 30}, laws, rule=rule, noise=coarse)
        away = max(abs(shipped.get(label, 0.0) - p) for label, p in twin.items())
        assert away < 1e-12 if agrees else away > 0.01


# -- neighbours -----------------------------------------------------------------------------------


def least_slack(table: Table, path: str, laws: RelativeLaws, rule: Rule, **options: Any) -> float:
    """The claimed delta less the exact divergence of a neighbour pair."""
    p, q = (reduction(t, laws, rule=rule, **options) for t in (table, more(table, path)))
    return relative_counts_cost(laws) - worst(p, q, math.exp(laws.epsilon))


NEAR = toy_laws(toy_step(threshold=60, epsilon=1.0, tops=1, delta=1e-3), height=2)
LATER = toy_laws(
    toy_step(threshold=70, epsilon=1.0, tops=2, delta=1e-2, slack=1),
    toy_step(threshold=90, epsilon=2.0, tops=2, delta=1e-2, slack=1),
    height=2,
)


@pytest.mark.parametrize("laws", [NEAR, LATER], ids=["one step", "two steps"])
def test_no_neighbour_is_further_than_claimed(laws: RelativeLaws) -> None:
    """Law: D(M(D) || M(D')) <= cost(laws) at ``laws.epsilon``, in both directions.

    Counts at the band, the cut and the threshold, and one below each; a record at every node,
    also where none was.
    """
    step = laws.steps[0]
    counts = [0, step.band - 1, step.band, step.cut - 1, step.cut, step.least + step.bound]
    assert 0 < relative_counts_cost(laws) < 0.05
    closest = math.inf
    for low in counts:
        for high in counts:
            for below in (0, step.cut - 1):
                table = {"aa": low, "ab": below, "b": high}
                for path in ("aa", "ab", "a", "bb", ""):
                    slack = least_slack(table, path, laws, AS_PRINTED)
                    assert slack >= -LEFT_OVER, (table, path)
                    closest = min(closest, slack)
    assert closest < relative_counts_cost(laws), "some pair has a divergence above 0"


STEP = toy_step(threshold=60, epsilon=1.0, tops=1, delta=1e-4)
DEEP = toy_laws(STEP, height=4)
THREE = toy_laws(toy_step(threshold=200, epsilon=1.0, tops=3, delta=1e-4), height=4)


def decoys(laws: RelativeLaws) -> dict[str, int]:
    """Three large nodes that are no ancestors of each other, on levels 4, 3 and 2, so that the
    levels' answers are surely top; beside them a chain of nodes at the cut."""
    step = laws.steps[0]
    large = 2 * step.least + 40 * step.tops
    return {"aaaa": step.cut, "bbbb": large, "bba": large, "ba": large}


PLANTED = {
    "goes on after the c-th top": (Rule(stops=False), DEEP, decoys(DEEP), "aaaa"),
    "scales without c": (Rule(divided=False), THREE, decoys(THREE), "aaaa"),
    "all nodes of a top level are released": (Rule(tested=False), NEAR, {"aa": 100}, "bb"),
    "tests without noise": (Rule(noisy_tests=False), NEAR, {"aa": NEAR.steps[0].cut - 1}, "aa"),
    "the band changes the queries": (
        Rule(clamped=False),
        DEEP,
        {"aaaa": STEP.band - 1, "b": 3 * STEP.least},
        "aaaa",
    ),
}


@pytest.mark.parametrize("name", list(PLANTED))
def test_a_planted_bug_costs_more_than_claimed(name: str) -> None:
    """Law: the comparison rejects each mistake, and accepts the algorithms on the same pair."""
    rule, laws, table, path = PLANTED[name]
    assert least_slack(table, path, laws, AS_PRINTED) >= -LEFT_OVER
    assert least_slack(table, path, laws, rule) < -0.1 * relative_counts_cost(laws)


def test_a_shorter_reach_of_the_tests_is_rejected() -> None:
    """Law: the bound that is drawn with is the bound that is paid for."""

    def shorter(step: Step, rule: Rule) -> Noise:
        return replace(noise_of(step), test=laplace_table(float(step.scale), step.bound // 2))

    step = NEAR.steps[0]
    table = {"aa": step.cut - step.bound // 2 - 1}
    assert least_slack(table, "aa", NEAR, AS_PRINTED) >= -LEFT_OVER
    assert least_slack(table, "aa", NEAR, AS_PRINTED, noise=shorter) < 0


@pytest.mark.parametrize("laws", [DEEP, THREE], ids=["c = 1", "c = 3"])
def test_a_threshold_that_is_not_redrawn_would_be_private_too(laws: RelativeLaws) -> None:
    """No bug to plant: one noisy threshold for all tops costs less, not more, at these scales.

    Its noise moves once, not c times (Lyu, Su and Li 2017, Algorithm 1).
    """
    step = laws.steps[0]
    for count in (step.band, step.cut, step.least):
        table = {**decoys(laws), "aaaa": count}
        assert least_slack(table, "aaaa", laws, Rule(redrawn=False)) >= -LEFT_OVER


def test_a_dozen_records_are_not_what_is_claimed() -> None:
    """Negative control: delta is for one record."""
    least = NEAR.steps[0].band - 1
    none, one, many = (reduction({"aa": least + extra}, NEAR) for extra in (0, 1, 12))
    near, far = (worst(none, more, math.exp(NEAR.epsilon)) for more in (one, many))
    assert near <= relative_counts_cost(NEAR) < far


# -- delta and the drawn laws ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "bound"), [(Fraction(2), 5), (Fraction(7, 2), 40), (Fraction(60), 500)]
)
def test_delta_of_the_tests_is_the_hockey_stick_of_their_table(scale: Fraction, bound: int) -> None:
    """Law: ``end_mass`` is the exact divergence at distance 1, at epsilon = 1/scale and above.

    A table of the same law, both directions; its weights are rounded to 2**-64.
    """
    weights = laplace_table(float(scale), bound).pmf
    here, moved = np.append(weights, 0.0), np.append(0.0, weights)
    for epsilon in (float(1 / scale), 2 * float(1 / scale)):
        t = math.exp(epsilon) * (1 + 1e-12)
        for p, q in ((here, moved), (moved, here)):
            exact = float(np.maximum(p - t * q, 0.0).sum())
            assert exact == pytest.approx(end_mass(scale, bound), rel=1e-7)
            assert exact <= end_mass(scale, bound)
    below = float(np.maximum(here - math.exp(0.8 / float(scale)) * moved, 0.0).sum())
    assert below > end_mass(scale, bound) * 1.01  # not below 1/scale: a negative control


def test_truncated_noise_is_drawn_from_that_law() -> None:
    """Law: 100,000 draws against the table at level 1e-6; a scale 10 % off is rejected."""

    def distance(scale: float) -> float:
        law = laplace_table(scale, 12)
        seen = np.bincount(draws + 12, minlength=25)
        expected = law.pmf * len(draws)
        return float(((seen - expected) ** 2 / expected).sum())

    with seeded_noise(5):
        draws = relative_counts.truncated_laplace(Fraction(7, 2), 12, 100_000)
    assert np.abs(draws).max() == 12
    assert distance(3.5) < 75  # chi-squared with 24 degrees of freedom: 1e-6 is at 72.6
    assert distance(3.85) > 150


def test_cost_refuses_what_the_proof_does_not_cover() -> None:
    """Law: a band that reaches single records, or scales that are too small, cost everything."""
    step = NEAR.steps[0]
    assert relative_counts_cost(NEAR) < 1
    assert relative_counts_cost(replace(NEAR, epsilon=NEAR.epsilon * 0.99)) == 1.0
    low = replace(step, threshold=float(2 * step.bound + 1))
    assert low.band == 1
    less = replace(step, scale=step.scale * Fraction(99, 100))
    for other in (low, less, replace(step, tops=step.tops + 1)):
        assert relative_counts_cost(replace(NEAR, steps=(other,))) == 1.0


# -- pruning --------------------------------------------------------------------------------------

SHIPPED = relative_laws(height=3, alpha=0.9, epsilon=4.0, delta=1e-3, largest=10**6, eta=0.1)
PATHS = universe(3, "ab")[1:]


def same(a: NoisyTree, b: NoisyTree) -> bool:
    return a.keys[0].to_pylist() == b.keys[0].to_pylist() and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("level", "parent", "count", "lower", "upper")
    )


@tries(25, 60, deadline=None, derandomize=True)
@given(
    table=st.dictionaries(
        st.sampled_from(PATHS),
        st.one_of(
            st.integers(0, 2 * SHIPPED.steps[0].least),
            st.integers(SHIPPED.band - 2, SHIPPED.band + 2),
            st.integers(0, 100_000),
        ),
    ),
    seed=st.integers(0, 10**6),
)
def test_pruning_below_the_band_never_changes_the_release(table: dict[str, int], seed: int) -> None:
    """Law: the same bits give the same release with and without the nodes below the band."""
    tree = tree_of(table)
    with seeded_noise(seed):
        whole = run_relative_counts(tree, laws=SHIPPED)
    with seeded_noise(seed):
        part = run_relative_counts(pruned(tree, SHIPPED.band), laws=SHIPPED)
    assert same(whole, part)


def test_the_band_is_the_largest_that_is_safe() -> None:
    """Law: with the highest noise a node at the band is released, one below it never."""
    for laws in (ONE, NEAR, LATER):
        for count in (laws.band - 1, laws.band):
            law = reduction({"aa": count}, laws)
            tops = {path for label, p in law.items() if p for path, _ in label}
            assert ("aa" in tops) == (count == laws.band)
