"""The checks must be able to fail: published and planted mistakes, all rejected exactly.

The first half measures the printed Algorithm 1 of Biswas et al. (2024), the second half breaks
the shipped mechanism in one place at a time and compares its exact divergence with the delta
that it would still claim. Next to every rejected bug the shipped code passes the same check.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dpframe.papers as printed_hhh
from dpframe.accounting.losses import composed_delta, level_laws
from dpframe.accounting.path_recursion import Laws
from dpframe.counts import CountTree, NoisyNodes
from dpframe.mechanisms import level_counts as level_histograms
from dpframe.mechanisms import offline_hhh
from dpframe.noise import TOTAL, NoiseTable, halves, laplace_table
from dpframe.papers import printed_delta, printed_lower_bound
from dpframe.questions.hhh.selection import (
    choose_laws,
    default_release_share,
    law_options,
    smallest_law_threshold,
)

from .enumerate_outputs import (
    Distribution,
    NoNoise,
    Script,
    ScriptedCoins,
    ScriptedValues,
    Table,
    every_release,
    every_script,
    every_selection,
    law_of,
    more,
    released,
    tree_of,
    worst,
    worst_selection,
)
from .naive_accounting import tail

# -- the printed Algorithm 1 -------------------------------------------------------------------

PRINTED = {
    0.5: {4: 0.0, 5: 1.0e-3, 6: 1.3e-3, 8: 1.2e-3, 16: 7.3e-4, 32: 5.4e-4, 128: 4.2e-4},
    1.0: {4: 0.0, 5: 2.5e-3, 6: 3.1e-3, 8: 2.9e-3, 16: 1.8e-3, 32: 1.4e-3, 128: 1.1e-3},
    2.0: {4: 0.0, 5: 6.3e-3, 6: 8.8e-3, 8: 8.7e-3, 16: 5.7e-3, 32: 4.2e-3, 128: 3.3e-3},
}
"""Least delta of the printed algorithm by epsilon and height (docs/soundness.md)."""


@pytest.mark.parametrize(
    ("epsilon", "height"),
    [
        pytest.param(e, h, marks=() if (e, h) in ((1.0, 4), (1.0, 5)) else pytest.mark.evidence)
        for e, row in PRINTED.items()
        for h in row
    ],
)
def test_the_published_table_of_lower_bounds_is_right_to_two_digits(
    epsilon: float, height: int
) -> None:
    """Law: the figures that the documentation prints are what the code computes."""
    computed = printed_lower_bound(epsilon, height)
    if height <= 4:
        assert computed < 1e-16  # rounding of probabilities near one
    else:
        assert float(f"{computed:.1e}") == PRINTED[epsilon][height]


def test_a_gamma_shared_by_all_nodes_protects_up_to_height_4() -> None:
    """Law: where the per-node noise alone suffices the printed algorithm meets its claim."""
    threshold = printed_hhh.printed_threshold(1.0, 1e-6, 4)
    assert printed_hhh.printed_laws(1.0, 4, threshold).delta <= 1e-6


@pytest.mark.parametrize("height", [5, 8])
def test_a_gamma_shared_by_all_nodes_is_rejected_from_height_5(height: int) -> None:
    """Planted bug (as published): the exact laws cost thousands of times the claimed 1e-6."""
    threshold = printed_hhh.printed_threshold(1.0, 1e-6, height)
    laws = printed_hhh.printed_laws(1.0, height, threshold)
    assert laws.delta > 1e-3  # an upper bound; the lower bounds above and below confirm it


@pytest.mark.parametrize(("unrelated", "least"), [(10, 4e-4), (1000, 2.2e-3)])
def test_unrelated_nodes_reveal_the_shared_gamma(unrelated: int, least: float) -> None:
    """Planted bug (as published): no limit is needed, ten nodes off the path already suffice.

    Exact lower bound from the integer laws: how many of the unrelated nodes (each with a count
    equal to the threshold) were selected, and that no node of the path was.
    """
    epsilon, height = 1.0, 5
    laws = printed_hhh.printed_laws(epsilon, height, 200)
    gammas = range(laws.gamma.lowest, laws.gamma.highest + 1)
    top = np.array([tail(laws.test, -g)[0] for g in gammas])
    counts = np.arange(unrelated + 1)
    choose = np.array(
        [
            math.lgamma(unrelated + 1) - math.lgamma(k + 1) - math.lgamma(unrelated - k + 1)
            for k in counts
        ]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.exp(
            choose + counts * np.log(top)[:, None] + (unrelated - counts) * np.log1p(-top)[:, None]
        )
    seen = np.nan_to_num(seen)

    def exact(gap: int) -> float:
        """``gap`` is threshold - F, the same residual F on the whole path."""
        apart = [
            tail(laws.test, gap - g)[1] ** height
            - math.exp(epsilon) * tail(laws.test, gap - 1 - g)[1] ** height
            for g in gammas
        ]
        joint = (laws.gamma.pmf * np.array(apart)) @ seen
        return float(np.maximum(joint, 0.0).sum())

    assert max(exact(gap) for gap in range(-10, 30, 2)) > least


def test_the_formula_for_the_printed_path_is_what_the_printed_code_does() -> None:
    """Law: given gamma, ``printed_hhh.run`` leaves a chain unselected with probability bot^h."""
    laws = printed_hhh.printed_laws(1.0, 3, 200)
    tree = tree_of({"abc": 195})
    for gamma in (-7, 0, 4):
        silent = sum(
            script.probability
            for script, noisy in every_script(
                lambda script, gamma=gamma: printed_hhh.run(
                    tree,
                    laws=SimpleNamespace(  # type: ignore[arg-type]
                        gamma=SimpleNamespace(draw=lambda n: np.full(n, gamma)),
                        test=ScriptedCoins(laws.test, script),
                        release=NoNoise(),
                    ),
                    threshold=200,
                )
            )
            if not len(noisy.level)
        )
        assert float(silent) == pytest.approx(tail(laws.test, 200 - 195 - gamma)[1] ** 3, rel=1e-12)


@pytest.mark.parametrize("height", [4, pytest.param(5, marks=pytest.mark.evidence)])
def test_the_printed_accountant_is_never_below_the_lower_bound(height: int) -> None:
    """Law: what is charged for integer laws is at least what continuous ones certainly cost."""
    laws = printed_hhh.printed_laws(1.0, height, 200)
    upper = printed_delta(
        laws.gamma, laws.test, laws.release, height=height, epsilon=1.0, threshold=200
    )
    assert printed_lower_bound(1.0, height) <= upper


# -- one bug at a time in the shipped mechanism ------------------------------------------------

EPSILON, DELTA, HEIGHT = 1.0, 1e-4, 3


@dataclass(frozen=True)
class Setting:
    laws: Laws
    threshold: int

    @property
    def test(self) -> NoiseTable:
        return self.laws.median_test(self.threshold)


@cache
def calibrated(height: int = HEIGHT, remainder: bool = True) -> Setting:
    share = default_release_share(height, remainder)
    given = {"height": height, "epsilon": EPSILON, "delta": DELTA, "remainder": remainder}
    options = law_options(**given, release_share=share, grid=1, threshold=None)
    threshold = smallest_law_threshold(options)
    return Setting(choose_laws(options, threshold), threshold)


def chain_delta(
    *,
    test: NoiseTable,
    release: NoiseTable,
    threshold: int,
    remainder: bool = True,
    height: int = HEIGHT,
) -> float:
    """Largest exact divergence of the shipped ``run`` over chains of equal residuals.

    Both directions; the record is added at the deepest node, or makes a node appear.
    """
    deepest = "abcdefgh"[:height]
    t, largest = math.exp(EPSILON), 0.0
    options = {"test": test, "threshold": threshold, "remainder": remainder}
    for residual in range(max(0, threshold - test.highest - 2), threshold - test.lowest + 2):
        p, q = (every_selection({deepest: n}, **options) for n in (residual, residual + 1))
        largest = max(largest, worst_selection(p, q, release, t))
    return largest


@pytest.mark.parametrize("remainder", [True, False])
def test_the_shipped_mechanism_passes_the_check_that_rejects_the_bugs(remainder: bool) -> None:
    """Law: the calibrated laws, drawn as shipped, stay within delta, and use more than half."""
    s = calibrated(remainder=remainder)
    release = s.laws.release
    exact = chain_delta(test=s.test, release=release, threshold=s.threshold, remainder=remainder)
    assert DELTA / 2 < exact <= s.laws.delta <= DELTA


def half(s: Setting) -> NoiseTable:
    return laplace_table(s.laws.release_scale / 2, s.laws.release.highest)


BUGS: dict[str, tuple[Callable[[Setting, NoiseTable], tuple[Any, ...]], dict[str, Any], int]] = {
    "half the release noise": (lambda s, release: (s.test, half(s), s.threshold), {}, 10),
    "a threshold of 1": (lambda s, release: (s.test, release, 1), {}, 1000),
    "a threshold in reach": (lambda s, release: (s.test, release, s.test.highest // 2), {}, 1),
    "a test with that noise": (lambda s, release: (release, release, release.highest + 2), {}, 10),
    "a tail for height 1": (lambda s, release: (s.test, release, s.threshold), {"height": 1}, 10),
    "no remainder": (lambda s, release: (s.test, release, s.threshold), {"remainder": False}, 10),
}
"""Test noise, release noise and threshold of a calibration, on a tree of height 3 with a remainder;
what that was for; and how many times delta is exceeded."""


@pytest.mark.parametrize("bug", BUGS)
def test_planted_noise_and_thresholds_are_rejected(bug: str) -> None:
    """Planted bugs: each costs more than is claimed; laws of height 1 do not at that height."""
    drawn, given, times = BUGS[bug]
    setting = calibrated(**given)
    test, release, threshold = drawn(setting, setting.laws.release)
    assert chain_delta(test=test, release=release, threshold=threshold) > times * DELTA
    if given.get("height") == 1:
        assert chain_delta(test=test, release=release, threshold=threshold, height=1) <= DELTA


# -- noise that is not fresh -------------------------------------------------------------------

ONE_DRAW = laplace_table(1.5, 3)
SMALL = halves(left=("geometric", 1.0, 3), right=("geometric", 1.0, 3), recentre=False)


def one_release_draw_for_all(tree: CountTree, **options: object) -> NoisyNodes:
    """Planted: every reported residual gets the same draw."""
    law = options.pop("release")
    shared = SimpleNamespace(draw=lambda n: np.repeat(law.draw(1), n))  # type: ignore[attr-defined]
    return offline_hhh.run(tree, release=shared, **options)  # type: ignore[arg-type]


def test_one_release_draw_for_all_nodes_is_rejected() -> None:
    """Planted bug: a neighbour's known count reveals the shared draw, and then every residual."""
    table = {"a": 5, "b": 99}
    options = {"test": SMALL, "release": ONE_DRAW, "threshold": 5, "remainder": False}

    def exact(run: object) -> float:
        p = every_release(table, run=run, **options)  # type: ignore[arg-type]
        q = every_release(more(table, "a"), run=run, **options)  # type: ignore[arg-type]
        return float(worst(p, q, math.exp(2.0)))

    assert exact(offline_hhh.run) < 0.1
    assert exact(one_release_draw_for_all) > 0.5


def test_noise_in_the_test_instead_of_fresh_noise_biases_the_release() -> None:
    """Law: given the selection, a released residual is unbiased: its noise is not the test's.

    Planted bug: releasing the very number that passed the test. It is biased upwards, so the
    intervals would be wrong. (It is not a privacy bug: the geometric halves cover it.)
    """
    assert bias(fresh=True) == 0.0
    assert bias(fresh=False) > 0.5


def bias(*, fresh: bool) -> float:
    """E[released - true | selected] of one node at the threshold."""
    total, chance = 0.0, 0.0
    tree, true = tree_of({"a": 5}), 5

    def scripted(script: Script) -> NoisyNodes:
        test = ScriptedValues(SMALL, script)
        if fresh:
            release: object = ScriptedValues(ONE_DRAW, script)
        else:
            kept: list[np.ndarray] = []
            drawn = test.draw
            test.draw = lambda n: kept.append(drawn(n)) or kept[0]  # type: ignore[method-assign]
            release = SimpleNamespace(draw=lambda n: kept[0][:n])
        return offline_hhh.run(tree, test=test, release=release, threshold=5, remainder=False)  # type: ignore[arg-type]

    for script, noisy in every_script(scripted):
        for _, value in released(noisy):
            total += float(script.probability) * (value - true)
            chance += float(script.probability)
    return round(total / chance, 12)


# -- the baselines: composition over levels ----------------------------------------------------


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_level_left_out_of_the_composition_is_rejected(family: str) -> None:
    """Planted bug: noise calibrated for h - 1 levels, spent on h."""
    laws = level_laws(family, levels=2, epsilon=1.0, delta=1e-4)  # type: ignore[arg-type]
    assert composed_delta(laws.noise, levels=2, epsilon=1.0) <= 1e-4
    assert composed_delta(laws.noise, levels=3, epsilon=1.0) > 5e-4


def histogram_law(table: Table, noise: NoiseTable, *, remainder: bool, shown: int) -> Distribution:
    """Every output of ``level_histograms.run``: (path, residual, count) of the reported nodes."""
    tree, limits = tree_of(table), {"shown": shown, "threshold": shown}

    def scripted(script: Script) -> NoisyNodes:
        values: Any = ScriptedValues(noise, script)
        return level_histograms.run_level_histograms(
            tree, noise=values, remainder=remainder, **limits
        )

    return law_of(  # type: ignore[no-any-return]
        scripted, lambda noisy: tuple(zip(released(noisy), noisy.count.tolist(), strict=True))
    )


@pytest.mark.parametrize("remainder", [True, False])
def test_level_histograms_are_covered_by_their_composition_and_not_by_one_level_less(
    remainder: bool,
) -> None:
    """Law: the exact divergence of the baseline stays within the composed delta of its levels.

    Planted bug beside it: the claim for one level less is exceeded.
    """
    noise, t = laplace_table(2.0, 2), math.exp(0.4)
    shown = noise.highest + 2
    furthest = 0.0
    levels = 2 + remainder
    claim = composed_delta(noise, levels=levels, epsilon=0.4)
    for table in ({}, {"ab": 4}, {"ab": 9}, {"ab": 1, "a": 5}, {"ab": 5, "c": 4}):
        p = histogram_law(table, noise, remainder=remainder, shown=shown)
        q = histogram_law(more(table, "ab"), noise, remainder=remainder, shown=shown)
        exact = worst(p, q, t)
        assert exact <= claim, table
        furthest = max(furthest, float(exact))
    assert furthest > composed_delta(noise, levels=levels - 1, epsilon=0.4)


def test_a_histogram_that_shows_lone_nodes_is_rejected() -> None:
    """Planted bug: noisy counts are shown from 1 on, so that a node of one record appears."""
    noise, t = laplace_table(2.0, 12), math.exp(1.0)
    claim = composed_delta(noise, levels=1, epsilon=1.0)
    for shown, private in ((noise.highest + 2, True), (1, False)):
        p = histogram_law({}, noise, remainder=False, shown=shown)
        q = histogram_law({"a": 1}, noise, remainder=False, shown=shown)
        exact = worst(p, q, t)
        assert (exact <= claim) == private


def test_weights_of_planted_laws_are_complete() -> None:
    """The planted laws are laws: a rejection never comes from missing probability."""
    for law in (ONE_DRAW, SMALL):
        assert sum(law.weights.tolist()) == TOTAL
