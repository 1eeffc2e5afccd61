"""Releases of Misra-Gries sketches, enumerated: for all neighbours, divergence <= claimed delta.

Every pair of neighbouring streams of a few keys is sketched with naive dictionaries
(``sketch_outputs``), every outcome of every draw is weighed exactly, and the hockey-stick
divergence of the two output distributions is compared, in both directions, with what the
accountants claim. No sampling and no tolerance.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest

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
    added,
    both_ways,
    different,
    furthest,
    merged,
    misra_gries,
    neighbours,
    positive,
    post_processed,
    privacy_aware,
    product,
    profile,
    release_law,
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
    law = cache(lambda sketch: release_law((sketch[0], dict(sketch[1])), noise, noise, theta))
    return different(profile(law(p), law(q)) for p, q in pairs_of(kind, k))


# -- the lemma that everything rests on --------------------------------------------------------


@pytest.mark.parametrize("k", SIZES)
def test_one_record_moves_one_coordinate_of_u_and_alpha_by_one(k: int) -> None:
    """Law: matched keys, (U, alpha) moves by 1 once; unshared counters are at most (1, 0)."""
    for (decrements, more), (_, less) in pairs_of("variant", k):
        here, there = dict(more), dict(less)
        alone = sorted(c for x, c in more if x not in there)
        missing = sorted(c for x, c in less if x not in here)
        moved = [c + decrements - there[x] for x, c in more if x in there]
        moved += [c + decrements - d for c, d in zip(alone, missing, strict=True)]
        assert sorted([decrements, *moved]) == [0] * k + [1]
        assert max(alone, missing) in ([], [0], [1], [0, 1])


@pytest.mark.parametrize("k", SIZES)
def test_a_standard_sketch_stores_up_to_k_counters_of_one_alone(k: int) -> None:
    """Law: unshared counters of the standard sketch are all 1, on one side only."""
    most = 0
    for (_, more), (_, less) in pairs_of("standard", k):
        alone = [c for x, c in more if x not in dict(less)]
        missing = [c for x, c in less if x not in dict(more)]
        assert set(alone + missing) <= {1}
        assert not alone or not missing
        most = max(most, len(missing))
    assert most == k


# -- one stream --------------------------------------------------------------------------------


@in_turn(
    (
        ("k", "family", "scale", "bound", "theta"),
        [(2, *one) for one in SMALL] + [(3, *one) for one in SMALL[:3]],
    ),
    ("kind", ["variant", "standard"]),
)
def test_no_neighbouring_sketch_is_further_than_claimed(
    kind: str, k: int, family: str, scale: float, bound: int, theta: int
) -> None:
    """Law: D(M(S) || M(S')) <= delta in both directions, over every value of every draw."""
    noise = table(family, scale, bound)
    unshared = variant_unshared() if kind == "variant" else standard_unshared(k)
    found = profiles(kind, k, noise, theta)
    for epsilon in EPSILONS:
        claimed = sketch_delta(
            noise,
            family=family,  # type: ignore[arg-type]
            scale=scale,
            theta=theta,
            sketches=1,
            epsilon=epsilon,
            unshared=unshared,
        )
        exact = furthest(found, epsilon)
        assert claimed / 3 < exact <= claimed


@pytest.mark.parametrize(("family", "scale", "bound", "theta"), SMALL[1:3])
def test_two_levels_are_no_further_apart_than_claimed(
    family: str, scale: float, bound: int, theta: int
) -> None:
    """Law: levels compose as claimed, whichever pairs of sketches and directions come together."""
    noise = table(family, scale, bound)
    found = profiles("variant", 2, noise, theta)
    for epsilon in (0.5, 1.0):
        claimed = sketch_delta(
            noise,
            family=family,
            scale=scale,
            theta=theta,
            sketches=2,
            epsilon=epsilon,  # type: ignore[arg-type]
        )
        exact = furthest(
            (product(a, b) for a in found for b in [*found, *map(reverse, found)]), epsilon
        )
        assert claimed / 3 < exact <= claimed


CALIBRATED = [
    ("laplace", 1.0, 1e-2),
    ("laplace", 1.0, 1e-4),
    ("gaussian", 1.0, 1e-2),
    ("gaussian", 2.0, 1e-3),
]


@some("laplace-1.0-0.01-False", "gaussian-1.0-0.01-False")
@in_turn((("family", "epsilon", "delta"), CALIBRATED), ("standard", [False, True]))
def test_calibrated_laws_use_their_budget_and_do_not_exceed_it(
    family: str, epsilon: float, delta: float, standard: bool
) -> None:
    """Law: exact divergence <= delta; the worst pair comes near, so that nothing is wasted."""
    laws = sketch_laws(
        sketches=1,
        epsilon=epsilon,
        delta=delta,
        family=family,  # type: ignore[arg-type]
        standard=standard,
        counters=2,
    )
    found = profiles("standard" if standard else "variant", 2, laws.noise, laws.theta)
    exact = furthest(found, epsilon)
    assert delta / 3 < exact <= laws.delta <= delta


# -- users with several records ----------------------------------------------------------------


def test_a_group_of_records_stays_within_the_budget_of_the_user() -> None:
    """Law: laws for a record of a user with two cover both; laws for one record do not."""
    epsilon, delta = 2.0, 1e-2
    record = per_record(Budget(epsilon=epsilon, delta=delta), 2)
    pairs = {
        (a, b)
        for stream in streams(3, 5)
        for fewer in neighbours(stream)
        for fewest in neighbours(fewer)
        for a, b in [(key(misra_gries(stream, 2)), key(misra_gries(fewest, 2)))]
    }

    def exact(laws: SketchLaws) -> float:
        law = cache(
            lambda sketch: release_law(
                (sketch[0], dict(sketch[1])), laws.noise, laws.shared, laws.theta
            )
        )
        return max(both_ways(profile(law(a), law(b)), epsilon) for a, b in pairs)

    enough = sketch_laws(sketches=1, epsilon=record.epsilon, delta=record.delta, family="laplace")
    assert exact(enough) <= delta
    assert exact(sketch_laws(sketches=1, epsilon=epsilon, delta=delta, family="laplace")) > delta


def key(sketch: tuple[int, Counters]) -> tuple[int, tuple[tuple[int, int], ...]]:
    return sketch[0], tuple(sorted(sketch[1].items()))


# -- post-processed and merged -----------------------------------------------------------------


LONG = [(0,) * 40 + (1,) * 40, (0,) * 40 + (1,) * 40 + (2,)]
"""Streams whose counters are far above the thresholds below."""


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
@pytest.mark.parametrize("others", [(), ({},), ({0: 2}, {0: 1, 1: 3})])
def test_post_processed_sketches_move_as_little_as_claimed(
    k: int, others: tuple[Counters, ...]
) -> None:
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
@in_turn(
    ("others", [(), ({},), ({0: 2}, {0: 1, 1: 3})]),
    (("family", "scale", "bound", "theta"), LATTICE),
)
def test_no_neighbouring_post_processed_sketch_is_further_than_claimed(
    family: str, scale: float, bound: int, theta: int, others: tuple[Counters, ...]
) -> None:
    """Law: divergence <= delta on the lattice of 1/(k+1), alone, clipped, and added to others."""
    noise, k = table(family, scale, bound), 2
    found = lattice_profiles(k, noise, theta, others)
    for epsilon, levels in itertools.product(EPSILONS, (1, 2)):
        if levels == 2 and epsilon != 1.0:
            continue
        claimed = lattice_delta(
            noise,
            family=family,  # type: ignore[arg-type]
            scale=scale,
            theta=theta,
            counters=k,
            sketches=levels,
            epsilon=epsilon,
            merged=bool(others),
        )
        worst = sorted(found, key=lambda one: both_ways(one, epsilon))[-2:]
        composed = found if levels == 1 else [product(a, b) for a in worst for b in worst]
        exact = furthest(composed, epsilon)
        assert exact <= claimed
        assert exact > claimed / 4


def lattice_profiles(
    k: int, noise: NoiseTable, theta: int, others: tuple[Counters, ...] = ()
) -> list[Profile]:
    pairs = value_pairs(k, others=others)
    return different(values_profile(dict(p), dict(q), noise, theta) for p, q in pairs)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_calibrated_lattice_laws_use_their_budget_and_do_not_exceed_it(family: str) -> None:
    """Law: exact divergence <= delta, and near it."""
    laws = lattice_laws(counters=2, sketches=1, epsilon=1.0, delta=1e-2, family=family)  # type: ignore[arg-type]
    found = lattice_profiles(2, laws.noise, laws.theta)
    assert 1e-2 / 3 < furthest(found, 1.0) <= laws.delta <= 1e-2


# -- counts that move in one direction ---------------------------------------------------------

FAR = 40
"""A count that is published with certainty by the tables below."""


def sparse_profile(noise: NoiseTable, t: int, *, lone: int, missing: int, both: int) -> Profile:
    """Neighbours with ``lone`` counts of 1 here only, ``missing`` there only, ``both`` shared."""
    p = dict.fromkeys(range(lone), 1) | {100 + x: FAR + 1 for x in range(both)}
    q = dict.fromkeys(range(50, 50 + missing), 1) | {100 + x: FAR for x in range(both)}
    return values_profile(p, q, noise, 1 + t)


@pytest.mark.parametrize(("scale", "bound", "t"), [(1.5, 8, 5), (2.5, 13, 9), (2.0, 6, 7)])
@pytest.mark.parametrize("changed", [1, 2, 3])
def test_the_discrete_gshm_condition_is_exact(
    scale: float, bound: int, t: int, changed: int
) -> None:
    """Law: the three maxima are the largest divergence of any pair, up to the table's ends."""
    noise = gaussian_table(scale, bound)
    found = [
        sparse_profile(noise, t, lone=changed - j, missing=0, both=j) for j in range(changed + 1)
    ]
    for epsilon in (0.5, 1.0, 2.0):
        claimed = gshm_delta(noise, scale=scale, t=t, changed=changed, epsilon=epsilon)
        exact = furthest(found, epsilon)
        assert exact <= claimed
        assert claimed <= 1.02 * exact or bound < 3.5 * scale


@pytest.mark.parametrize(("scale", "bound", "t"), [(1.5, 8, 5), (2.0, 6, 7)])
def test_gshm_over_two_levels_covers_moves_in_both_directions(
    scale: float, bound: int, t: int
) -> None:
    """Law: all splits of 2 x 1 changed counts into here only, there only and shared."""
    noise = gaussian_table(scale, bound)
    for epsilon in (0.5, 1.0):
        claimed = gshm_delta(noise, scale=scale, t=t, changed=1, sketches=2, epsilon=epsilon)
        for lone, missing in itertools.product(range(3), repeat=2):
            if lone + missing <= 2:
                one = sparse_profile(noise, t, lone=lone, missing=missing, both=2 - lone - missing)
                assert both_ways(one, epsilon) <= claimed


def test_calibrated_gshm_laws_use_their_budget_and_do_not_exceed_it() -> None:
    """Law: exact divergence <= delta and near it, for a table that ends below its threshold."""
    for changed in (1, 2):
        laws = gshm_laws(changed=changed, epsilon=1.0, delta=1e-2)
        exact = max(
            both_ways(sparse_profile(laws.noise, laws.t, lone=changed - j, missing=0, both=j), 1.0)
            for j in range(changed + 1)
        )
        assert 1e-2 / 2 < exact <= laws.delta <= 1e-2


def merges(k: int) -> set:
    """Pairs of merges of three sketches, of which one has a record less."""
    fixed = [standard_misra_gries(s, k)[1] for s in ((), (0, 0, 1), (2, 1, 2, 0), (0, 1, 2))]
    pairs = set()
    for stream in streams(3, 5):
        for fewer in neighbours(stream):
            more, less = (standard_misra_gries(s, k)[1] for s in (stream, fewer))
            for a, b in itertools.product(fixed, repeat=2):
                here, there = merged([a, more, b], k), merged([a, less, b], k)
                pairs.add((tuple(sorted(here.items())), tuple(sorted(there.items()))))
    return pairs


def user_sets(k: int) -> set:
    """Pairs of sketches of users' sets, of which one has a user less."""
    sets = [frozenset(s) for n in (1, 2, 3) for s in itertools.combinations(range(4), n)]
    pairs = set()
    for users in itertools.product(sets, repeat=3):
        here = tuple(sorted(privacy_aware(users, k).items()))
        for fewer in neighbours(users):
            pairs.add((here, tuple(sorted(privacy_aware(fewer, k).items()))))
    return pairs


@pytest.mark.parametrize("build", [merges, user_sets])
def test_merges_and_sets_of_users_are_released_within_the_claim(build) -> None:
    """Law: at most k counts differ, by 1, in one direction; their release costs what is claimed."""
    k, noise, scale, t = 2, gaussian_table(2.0, 6), 2.0, 7
    found = []
    for p, q in build(k):
        here, there = dict(p), dict(q)
        moves = [here.get(x, 0) - there.get(x, 0) for x in {*here, *there}]
        assert set(moves) <= {0, 1} or set(moves) <= {0, -1}
        assert sum(map(abs, moves)) <= k
        found.append(values_profile(here, there, noise, 1 + t))
    for epsilon in EPSILONS:
        claimed = gshm_delta(noise, scale=scale, t=t, changed=k, epsilon=epsilon)
        assert furthest(different(found), epsilon) <= claimed


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
