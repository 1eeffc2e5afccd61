"""Releases of Misra-Gries sketches, enumerated: for all neighbours, divergence <= claimed delta.

Every pair of neighbouring streams of a few keys is sketched with naive dictionaries
(``sketch_outputs``), every outcome of every draw is weighed exactly, and the hockey-stick
divergence of the two output distributions is compared, in both directions, with what the
accountants claim. No sampling and no tolerance. Published and planted mistakes, one step broken in
each, must be rejected.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np
import pytest

from dpframe.accounting.shifts import Move, unbounded_delta
from dpframe.accounting.sketch_lattice import lattice_delta, lattice_laws
from dpframe.accounting.sketch_stream import (
    GshmLaws,
    SketchLaws,
    better_user_laws,
    gshm_delta,
    gshm_laws,
    sketch_delta,
    sketch_laws,
    standard_unshared,
    variant_unshared,
)
from dpframe.budget import Budget, per_record
from dpframe.noise import NoiseTable, gaussian_table, laplace_table
from tests.members import in_turn, some

from .sketch_outputs import (
    Counters,
    Law,
    Profile,
    Sketch,
    added,
    both_ways,
    different,
    furthest,
    misra_gries,
    neighbours,
    positive,
    post_processed,
    product,
    profile,
    profiles_of,
    release_law,
    released,
    reverse,
    sketch_pairs,
    standard_misra_gries,
    streams,
    values_profile,
)

EPSILONS = (0.5, 1.0, 2.0)
SIZES = {2: (3, 6), 3: (4, 5)}
"""Universe and longest stream, by number of counters."""

SMALL = [
    ("laplace", 1.2, 3, 3),
    ("laplace", 1.0, 4, 6),
    ("gaussian", 1.2, 3, 4),
    ("gaussian", 2.0, 5, 2),
]
"""Family, scale, bound and theta of tables of a few atoms: their cut ends cost a lot."""


def table(family: str, scale: float, bound: int) -> NoiseTable:
    return (laplace_table if family == "laplace" else gaussian_table)(scale, bound)


@cache
def pairs_of(kind: str, k: int) -> frozenset:
    build = misra_gries if kind == "variant" else standard_misra_gries
    return frozenset(sketch_pairs(lambda stream: build(stream, k), *SIZES[k]))


def profiles(kind: str, k: int, noise: NoiseTable, theta: int) -> list[Profile]:
    """The different profiles of all neighbouring pairs."""
    return profiles_of(pairs_of(kind, k), lambda s: release_law(s, noise, noise, theta))


# -- one stream --------------------------------------------------------------------------------


@in_turn(
    (
        ("k", "family", "scale", "bound", "theta"),
        [(2, *one) for one in SMALL] + [(3, *one) for one in SMALL[:3]],
    ),
    ("kind", ["variant", "standard"]),
)
def test_no_neighbouring_sketch_is_further_than_claimed(
    kind: str, k: int, family: Any, scale: float, bound: int, theta: int
) -> None:
    """Law: D(M(S) || M(S')) <= delta in both directions, over every value of every draw."""
    noise = table(family, scale, bound)
    unshared = variant_unshared() if kind == "variant" else standard_unshared(k)
    cost = partial(sketch_delta, noise, family=family, scale=scale, theta=theta, sketches=1)
    found = profiles(kind, k, noise, theta)
    for epsilon in EPSILONS:
        claimed = cost(epsilon=epsilon, unshared=unshared)
        assert claimed / 3 < furthest(found, epsilon) <= claimed


@pytest.mark.parametrize(("family", "scale", "bound", "theta"), SMALL[1:3])
def test_two_levels_are_no_further_apart_than_claimed(
    family: Any, scale: float, bound: int, theta: int
) -> None:
    """Law: levels compose as claimed, whichever pairs of sketches and directions come together."""
    noise = table(family, scale, bound)
    cost = partial(sketch_delta, noise, family=family, scale=scale, theta=theta, sketches=2)
    found = profiles("variant", 2, noise, theta)
    together = [product(a, b) for a in found for b in [*found, *map(reverse, found)]]
    for epsilon in (0.5, 1.0):
        claimed = cost(epsilon=epsilon)
        assert claimed / 3 < furthest(together, epsilon) <= claimed


CALIBRATED = [
    ("laplace", 1.0, 1e-2),
    ("laplace", 1.0, 1e-4),
    ("gaussian", 1.0, 1e-2),
    ("gaussian", 2.0, 1e-3),
]


@some("laplace-1.0-0.01-False", "gaussian-1.0-0.01-False")
@in_turn((("family", "epsilon", "delta"), CALIBRATED), ("standard", [False, True]))
def test_calibrated_laws_use_their_budget_and_do_not_exceed_it(
    family: Any, epsilon: float, delta: float, standard: bool
) -> None:
    """Law: exact divergence <= delta; the worst pair comes near, so that nothing is wasted."""
    asked: Any = {"family": family, "standard": standard, "counters": 2}
    laws = sketch_laws(sketches=1, epsilon=epsilon, delta=delta, **asked)
    found = profiles("standard" if standard else "variant", 2, laws.noise, laws.theta)
    assert delta / 3 < furthest(found, epsilon) <= laws.delta <= delta


# -- users with several records ----------------------------------------------------------------


def test_a_group_of_records_stays_within_the_budget_of_the_user() -> None:
    """Law: laws for a record of a user with two cover both; laws for one record do not."""
    epsilon, delta = 2.0, 1e-2
    record = per_record(Budget(epsilon=epsilon, delta=delta), 2)

    @cache
    def sketched(stream: Any) -> tuple[Any, ...]:
        decrements, counters = misra_gries(stream, 2)
        return decrements, tuple(sorted(counters.items()))

    pairs = {
        (sketched(stream), sketched(fewest))
        for stream in streams(3, 5)
        for fewer in neighbours(stream)
        for fewest in neighbours(fewer)
    }
    enough = sketch_laws(sketches=1, epsilon=record.epsilon, delta=record.delta, family="laplace")
    little = sketch_laws(sketches=1, epsilon=epsilon, delta=delta, family="laplace")
    for laws, covers in ((enough, True), (little, False)):
        assert (furthest(profiles_of(pairs, released(laws)), epsilon) <= delta) == covers


# -- post-processed and merged -----------------------------------------------------------------


LONG = [(0,) * 40 + (1,) * 40, (0,) * 40 + (1,) * 40 + (2,)]
"""Streams whose counters are far above the thresholds below."""
OTHERS: list[tuple[Counters, ...]] = [(), ({},), ({0: 2}, {0: 1, 1: 3})]


def value_pairs(k: int, *, others: tuple[Counters, ...]) -> set:
    """Pairs of post-processed values; with ``others``, clipped at 0 and added to theirs."""
    build = standard_misra_gries if others else misra_gries

    def values(stream: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        out = post_processed(build(stream, k)[1], k)
        if others:
            parts = [positive(post_processed(other, k)) for other in others]
            out = added([positive(out), *parts])
        return tuple(sorted(out.items()))

    short = streams(SIZES[k][0], 5 if k == 2 else 4)
    return {
        (values(stream), values(fewer))
        for stream in itertools.chain(short, LONG)
        for fewer in neighbours(stream)
    }


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("others", OTHERS)
def test_post_processed_sketches_move_as_little_as_claimed(k: int, others: Any) -> None:
    """Law: coordinate by coordinate at most (k, 1, ..., 1), whatever the number of sketches.

    Keys that one side does not store count as 0 there when values are clipped, and are matched
    with the other side's unshared keys when they are not.
    """
    largest = [0] * (k + 1)
    for p, q in value_pairs(k, others=others):
        here, there = dict(p), dict(q)
        if others:
            moves = [abs(here.get(x, 0) - there.get(x, 0)) for x in {*here, *there}]
        else:
            moves = [abs(here[x] - there[x]) for x in here if x in there]
            alone = sorted(v for x, v in p if x not in there)
            missing = sorted(v for x, v in q if x not in here)
            moves += [abs(a - b) for a, b in zip(alone, missing, strict=True)]
        moves = sorted(moves, reverse=True) + [0] * k
        assert moves[k] == 0
        largest = [max(a, b) for a, b in zip(largest, moves, strict=False)]
    assert largest == [k] + [1] * (k - 1) + [0]


LATTICE = [
    *(("laplace", 3.5, 9, 8), ("gaussian", 4.0, 11, 14)),
    pytest.param("laplace", 4.0, 12, 20, marks=pytest.mark.evidence),
]


@some(0, 6)
@in_turn(("others", OTHERS), (("family", "scale", "bound", "theta"), LATTICE))
def test_no_neighbouring_post_processed_sketch_is_further_than_claimed(
    family: Any, scale: float, bound: int, theta: int, others: tuple[Counters, ...]
) -> None:
    """Law: divergence <= delta on the lattice of 1/(k+1), alone, clipped, and added to others."""
    noise, of = table(family, scale, bound), {"family": family, "scale": scale, "theta": theta}
    cost = partial(lattice_delta, noise, **of, counters=2, merged=bool(others))
    found = lattice_profiles(2, noise, theta, others)
    for epsilon, levels in ((0.5, 1), (1.0, 1), (1.0, 2), (2.0, 1)):
        claimed = cost(sketches=levels, epsilon=epsilon)
        far = sorted(found, key=lambda one: both_ways(one, epsilon))[-2:]
        composed = found if levels == 1 else [product(a, b) for a in far for b in far]
        assert claimed / 4 < furthest(composed, epsilon) <= claimed


def lattice_profiles(
    k: int, noise: NoiseTable, theta: int, others: tuple[Counters, ...] = ()
) -> list[Profile]:
    pairs = value_pairs(k, others=others)
    return different(values_profile(dict(p), dict(q), noise, theta) for p, q in pairs)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_calibrated_lattice_laws_use_their_budget_and_do_not_exceed_it(family: Any) -> None:
    """Law: exact divergence <= delta, and near it."""
    laws = lattice_laws(counters=2, sketches=1, epsilon=1.0, delta=1e-2, family=family)
    found = lattice_profiles(2, laws.noise, laws.theta)
    assert 1e-2 / 3 < furthest(found, 1.0) <= laws.delta <= 1e-2


# -- counts that move in one direction ---------------------------------------------------------

FAR = 40
"""A count that is published with certainty by the tables below."""


def sparse_profile(noise: NoiseTable, t: int, *, lone: int, both: int, missing: int = 0) -> Profile:
    """Neighbours with ``lone`` counts of 1 here only, ``missing`` there only, ``both`` shared."""
    p = dict.fromkeys(range(lone), 1) | {100 + x: FAR + 1 for x in range(both)}
    q = dict.fromkeys(range(50, 50 + missing), 1) | {100 + x: FAR for x in range(both)}
    return values_profile(p, q, noise, 1 + t)


def one_way(noise: NoiseTable, t: int, changed: int) -> list[Profile]:
    """So many counts that rise: every number of them new, the others shared."""
    both = range(changed + 1)
    return [sparse_profile(noise, t, lone=changed - j, both=j) for j in both]


@pytest.mark.parametrize(("scale", "bound", "t"), [(1.5, 8, 5), (2.5, 13, 9), (2.0, 6, 7)])
@pytest.mark.parametrize("changed", [1, 2, 3])
def test_the_discrete_gshm_condition_is_exact(scale: Any, bound: int, t: int, changed: int) -> None:
    """Law: the three maxima are the largest divergence of any pair, up to the table's ends."""
    noise = gaussian_table(scale, bound)
    for epsilon in EPSILONS:
        claimed = gshm_delta(noise, scale=scale, t=t, changed=changed, epsilon=epsilon)
        exact = furthest(one_way(noise, t, changed), epsilon)
        assert exact <= claimed
        assert claimed <= 1.02 * exact or bound < 3.5 * scale


@pytest.mark.parametrize(("scale", "bound", "t"), [(1.5, 8, 5), (2.0, 6, 7)])
def test_gshm_over_two_levels_covers_moves_in_both_directions(
    scale: float, bound: int, t: int
) -> None:
    """Law: all splits of 2 x 1 changed counts into here only, there only and shared."""
    noise = gaussian_table(scale, bound)
    splits = [(a, b) for a, b in itertools.product(range(3), repeat=2) if a + b <= 2]
    found = [sparse_profile(noise, t, lone=a, missing=b, both=2 - a - b) for a, b in splits]
    for epsilon in (0.5, 1.0):
        claimed = gshm_delta(noise, scale=scale, t=t, changed=1, sketches=2, epsilon=epsilon)
        assert furthest(found, epsilon) <= claimed


def test_calibrated_gshm_laws_use_their_budget_and_do_not_exceed_it() -> None:
    """Law: exact divergence <= delta and near it, for a table that ends below its threshold."""
    for changed in (1, 2):
        laws = gshm_laws(changed=changed, epsilon=1.0, delta=1e-2)
        exact = furthest(one_way(laws.noise, laws.t, changed), 1.0)
        assert 1e-2 / 2 < exact <= laws.delta <= 1e-2


def test_the_sketch_with_smaller_visible_counters_is_taken_for_users() -> None:
    """Law: few records a user favour group privacy, many favour the sketch of sets."""
    chosen = [
        better_user_laws(counters=1000, sketches=1, max_contributions=m, epsilon=1.0, delta=1e-6)
        for m in (1, 5, 20, 60, 100)
    ]
    assert [type(laws) for laws in chosen] == [SketchLaws] * 3 + [GshmLaws] * 2
    assert chosen[-1] == gshm_laws(changed=1000, sketches=1, epsilon=1.0, delta=1e-6)
    visible = [laws.visible for laws in chosen]
    assert visible == sorted(visible)


def test_divergence_of_profiles_is_the_sum_of_the_definition() -> None:
    """Negative control of the enumerator: merging outcomes and products changes nothing."""
    p: Law = {"a": 1, "b": 5, "c": 2}
    q: Law = {"a": 2, "b": 10, "d": 4}
    rate = math.exp(0.3)
    one, other = ({x: w / sum(law.values()) for x, w in law.items()} for law in (p, q))
    single = sum(max(m - rate * other.get(x, 0), 0) for x, m in one.items())
    assert both_ways(profile(p, q), 0.3) >= single - 1e-15
    double = sum(
        max(one[x] * one[y] - rate * other.get(x, 0) * other.get(y, 0), 0)
        for x, y in itertools.product(one, repeat=2)
    )
    twice = product(profile(p, q), profile(p, q))
    assert both_ways(twice, 0.3) >= double - 1e-15
    assert sum(a for a, _ in twice.masses) == twice.total


# -- planted bugs: the release -----------------------------------------------------------------

EPSILON, DELTA = 1.0, 1e-2


@cache
def laws_for(family: Any = "laplace") -> SketchLaws:
    return sketch_laws(sketches=1, epsilon=EPSILON, delta=DELTA, family=family)


def exact(
    release: Callable[[Sketch], Law],
    build: Callable[[Sequence[int]], Sketch] = lambda stream: misra_gries(stream, 2),
    longest: int = 5,
    more: Iterable[tuple[int, ...]] = (),
) -> float:
    """Largest divergence over all neighbouring streams of three keys, and those of ``more``."""
    return furthest(profiles_of(sketch_pairs(build, 3, longest, more), release), EPSILON)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_sound_release_passes_the_check_that_rejects_the_bugs(family: str) -> None:
    """Law: exact divergence within delta, at more than half of it."""
    assert DELTA / 2 < exact(released(laws_for(family))) <= DELTA


def half_the_noise(laws: SketchLaws) -> tuple[NoiseTable, int]:
    return laplace_table(laws.scale / 2, laws.noise.highest), laws.theta


def no_threshold(laws: SketchLaws) -> tuple[NoiseTable, int]:
    """Every counter of at least 1 is published."""
    return laws.noise, 1


def no_shared_draw_in_the_threshold(laws: SketchLaws) -> tuple[NoiseTable, int]:
    """On the tail of Z alone, which gets all of delta."""
    theta = 1 + laws.noise.lowest + int(np.argmax(laws.noise.at_least() <= DELTA))
    assert theta < laws.theta
    return laws.noise, theta


@pytest.mark.parametrize(
    ("bug", "times"),
    [(half_the_noise, 10), (no_threshold, 30), (no_shared_draw_in_the_threshold, 1)],
)
def test_planted_bugs_in_the_release_are_rejected(bug: Any, times: int) -> None:
    noise, theta = bug(laws_for())
    assert exact(lambda s: release_law(s, noise, noise, theta)) > times * DELTA


def test_zero_counters_dropped_before_the_noise_are_rejected() -> None:
    """Planted bug: then up to k keys, not two, are stored on one side only.

    The same sketches pass with the laws of the standard sketch.
    """
    k, seen = 4, ((0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 4))

    def dropped(stream: Sequence[int]) -> Sketch:
        decrements, counters = misra_gries(stream, k)
        return decrements, {x: c for x, c in counters.items() if c}

    assert exact(released(laws_for()), dropped, 3, seen) > 1.4 * DELTA
    asked: Any = {"epsilon": EPSILON, "delta": DELTA, "family": "laplace"}
    standard = sketch_laws(sketches=1, **asked, standard=True, counters=k)
    assert exact(released(standard), dropped, 3, seen) <= DELTA


def test_noise_on_whole_counts_for_fractions_is_rejected() -> None:
    """Planted bug: noise in steps of 1 on C - g publishes the fraction of g: disjoint outputs."""
    laws = lattice_laws(counters=2, sketches=1, epsilon=EPSILON, delta=DELTA, family="laplace")
    noise = laplace_table(laws.scale / 3, 8)
    spread = np.zeros(3 * (len(noise.weights) - 1) + 1, dtype=np.uint64)
    spread[::3] = noise.weights
    coarse = NoiseTable("whole counts", 3 * noise.lowest, spread)
    p, q = (post_processed(misra_gries(s, 2)[1], 2) for s in (LONG[0], LONG[0][1:]))
    assert both_ways(values_profile(p, q, coarse, laws.theta), EPSILON) > 0.9


# -- continuous formulas for integer noise -----------------------------------------------------


def normal_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


def continuous_delta(scale: float, epsilon: float, counters: int = 1) -> float:
    """The analytic Gaussian mechanism (normal cdf) for a move of 1 in each counter."""
    mu = math.sqrt(counters) / scale
    return normal_tail(epsilon / mu - mu / 2) - math.exp(epsilon) * normal_tail(
        epsilon / mu + mu / 2
    )


def test_the_normal_cdf_under_reports_the_cost_of_integer_noise() -> None:
    """Planted bug: at s = 4.37 delta is 5 % and the tail at 22 is 1.7 times too small."""
    scale = 4.37
    noise = gaussian_table(scale, 60)
    exact_delta = both_ways(values_profile({0: 99}, {0: 100}, noise, 0), 1.0)
    assert exact_delta / continuous_delta(scale, 1.0) == pytest.approx(1.048, abs=5e-4)
    assert exact_delta <= unbounded_delta("gaussian", scale, Move(), 1.0)
    tail = float(noise.at_least()[22 - noise.lowest])
    assert tail / normal_tail(22 / scale) == pytest.approx(1.71, abs=5e-3)


def test_the_continuous_gshm_condition_is_rejected_for_integer_noise() -> None:
    """Planted bug: Wilkins et al. with the normal cdf, up to 1.9 times too small."""
    scale, changed = 4.37, 2
    noise = gaussian_table(scale, 60)
    for t, least in ((22, 1.0), (27, 1.85)):
        hidden = 1 - normal_tail(t / scale)
        continuous = max(
            1 - hidden**2,
            1 - hidden + hidden * continuous_delta(scale, 2.0 - math.log(hidden)),
            continuous_delta(scale, 2.0, 2),
        )
        p, q = {0: 1, 1: 1}, {}
        alone = both_ways(values_profile(p, q, noise, 1 + t), 2.0)
        claimed = gshm_delta(noise, scale=scale, t=t, changed=changed, epsilon=2.0)
        assert alone <= claimed
        assert alone > least * (1 - hidden**2)
        if t == 22:
            assert alone > continuous


# -- the printed streaming algorithm -----------------------------------------------------------


def fresh_delta(scale: float, counters: int, epsilon: float) -> float:
    """Exact delta of fresh discrete Laplace noise on counters that all move by 1.

    Each loses +-1/scale, so the loss is a binomial count over the scale.
    """
    up = 1 / (1 + math.exp(-1 / scale))
    choose = [
        math.lgamma(counters + 1) - math.lgamma(j + 1) - math.lgamma(counters - j + 1)
        for j in range(counters + 1)
    ]
    j = np.arange(counters + 1)
    pmf = np.exp(np.array(choose) + j * math.log(up) + (counters - j) * math.log1p(-up))
    return float(pmf @ np.maximum(-np.expm1(epsilon - (2 * j - counters) / scale), 0))


def test_the_printed_streaming_algorithm_is_rejected() -> None:
    """Planted bug (as published): HHH Algorithm 3 at k = 1000, h = 4 costs 0.49 and 0.92.

    Counters far above the threshold pass the test, so what is published of the k counters of a
    level is C + fresh Laplace(4h/eps); all h levels can fall together.
    """
    assert fresh_delta(16.0, 1000, 1.0) > 0.49
    assert fresh_delta(16.0, 4 * 1000, 1.0) > 0.91
    assert fresh_delta(16.0, 16, 1.0) == 0.0  # up to k = 4h the noise alone suffices
    assert fresh_delta(16.0, 40, 1.0) > 9e-4


def test_the_closed_form_of_fresh_noise_is_what_enumeration_gives() -> None:
    """Law: three counters, each with its own draw: the binomial formula is the exact divergence."""
    noise = laplace_table(2.0, 24)
    one = values_profile({0: 400}, {0: 401}, noise, 0)
    found = both_ways(reduce(product, [one] * 3), 1.0)
    assert found == pytest.approx(fresh_delta(2.0, 3, 1.0), rel=1e-3)
    assert found > 0.05


def test_every_neighbour_of_full_counters_differs_in_all_of_them() -> None:
    """Law: one record less of a new key raises all k counters: the pair exists at every k."""
    for k in (2, 3, 5):
        stream = [x for x in range(k) for _ in range(7)]
        (a, more), (b, less) = misra_gries([*stream, 99], k), misra_gries(stream, k)
        assert (a, b) == (1, 0)
        assert {less[x] - c for x, c in more.items()} == {1}
