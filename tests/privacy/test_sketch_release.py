"""Releases of real sketches, enumerated: every value of every draw, for all neighbouring streams.

Streams go through the public classes, states through ``SketchPlan.run`` with noise tables of a few
values; the bits of every draw are replaced by all combinations in turn, each with its exact weight.
Twins that are written from the papers are in ``test_sketch_neighbours``; here it is the code that
users run, and mistakes in putting it together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.accounting.sketch_lattice import LatticeLaws, lattice_delta
from dpframe.accounting.sketch_stream import (
    GshmLaws,
    SketchLaws,
    gshm_delta,
    sketch_delta,
    standard_unshared,
    variant_unshared,
)
from dpframe.budget import Budget
from dpframe.mechanisms import streaming_hhh as sketch_release
from dpframe.mechanisms.streaming_hhh import values_on_universe
from dpframe.noise import TOTAL, NoiseTable, gaussian_table, laplace_table, replaced_bits
from dpframe.questions.sketches.plan import SketchPlan, SketchRequest, sketch_plan
from dpframe.sketches._batches import SketchState
from dpframe.testing import seeded_noise
from tests.members import in_turn

from .sketch_outputs import Law, different, furthest, misra_gries, profile, release_law, streams

EPSILONS = (0.5, 1.0, 2.0)
K = 2
VARIANT = variant_unshared()
Output = tuple[Any, ...]


# -- real states and real laws -------------------------------------------------------------------


def sketch_of(stream: Sequence[int], *, standard: bool = False) -> dp.MisraGries:
    sketch = dp.MisraGries(K, standard=standard)
    sketch.update(list(stream))
    return sketch


def users_of(users: Sequence[frozenset[int]]) -> dp.PrivacyAwareMisraGries:
    sketch = dp.PrivacyAwareMisraGries(K, 3)
    for items in users:
        sketch.update(items)
    return sketch


def merge_of(stream: Sequence[int], method: str) -> dp.MergedSketch:
    others = [sketch_of(s) for s in ((0, 0, 1), (0, 1, 2))]
    return dp.merge_sketches([others[0], sketch_of(stream), others[1]], method=method)


def state_key(state: SketchState) -> Output:
    keys = tuple(state.keys.to_pylist())
    return keys, tuple(state.counts.tolist()), state.decrements, state.dummies


def shown(noisy: Any) -> Output:
    """All that is published."""
    keys = noisy.keys.to_pylist()
    values = tuple(zip(keys, noisy.values.tolist(), strict=True))
    return values if noisy.decrements is None else (noisy.decrements, values)


def law_of(release: Callable[[], Any], noise: NoiseTable, seen: Callable[[Any], Any]) -> Law:
    """The law of what a release shows: all combinations of the values of its draws."""
    sizes: list[int] = []

    def counting(n: int) -> Any:
        sizes.append(n)
        return np.zeros(n, np.uint64)

    with replaced_bits(counting):
        release()
    weights = noise.weights.tolist()
    starts = [0, *itertools.accumulate(weights[:-1])]
    law: Law = {}
    for atoms in itertools.product(range(len(weights)), repeat=sum(sizes)):
        bits = np.array([starts[i] for i in atoms], dtype=np.uint64)
        given = iter(np.split(bits, np.cumsum(sizes)[:-1]))
        with replaced_bits(lambda _, given=given: next(given)):
            out = seen(release())
        law[out] = law.get(out, 0) + math.prod(weights[i] for i in atoms)
    return law


def plan_with(structure: Any, laws: Any, **more: Any) -> SketchPlan:
    unit = "user" if structure == "users" else "record"
    budget = Budget(epsilon=1.0, delta=0.01)
    asked = SketchRequest(structure=structure, unit=unit, counters=K, budget=budget, **more)
    return replace(sketch_plan(asked), laws=laws)


def single_laws(noise: NoiseTable, family: Any, scale: float, theta: int) -> SketchLaws:
    return SketchLaws(
        family=family, noise=noise, shared=noise, scale=scale, theta=theta, sketches=1,
        unshared=VARIANT, delta=1.0,
    )  # fmt: skip


def gshm_of(noise: NoiseTable, scale: float, t: int) -> GshmLaws:
    return GshmLaws(noise=noise, scale=scale, t=t, changed=K, sketches=1, delta=1.0)


def lattice_of(noise: NoiseTable, family: Any, scale: float, theta: int) -> LatticeLaws:
    return LatticeLaws(
        family=family, noise=noise, scale=scale, theta=theta, unit=K + 1, sketches=1, merged=True,
        delta=1.0,
    )  # fmt: skip


def neighbouring(
    state: Callable[[Any], SketchState], inputs: Iterable[Any]
) -> list[tuple[SketchState, SketchState]]:
    """States with one record or user less, each different pair once."""
    found = {}
    states = cache(lambda one: state(one))
    for one in inputs:
        for i in range(len(one)):
            pair = states(one), states(one[:i] + one[i + 1 :])
            found[tuple(map(state_key, pair))] = pair
    return list(found.values())


def exact(
    pairs: list[tuple[SketchState, SketchState]],
    run: Callable[[SketchState], Any],
    noise: NoiseTable,
) -> Callable[[float], float]:
    """Largest divergence of the published outputs of any pair, in both directions."""
    laws: dict[Output, Law] = {}
    for state in itertools.chain(*pairs):
        if state_key(state) not in laws:
            laws[state_key(state)] = law_of(lambda state=state: run(state), noise, shown)
    found = different(profile(laws[state_key(p)], laws[state_key(q)]) for p, q in pairs)
    return lambda epsilon: furthest(found, epsilon)


# -- as private as claimed -----------------------------------------------------------------------

SINGLE = [
    *(("laplace", 1.2, 2, 2), ("gaussian", 1.3, 2, 3)),
    pytest.param("laplace", 1.2, 3, 3, marks=pytest.mark.evidence),
    pytest.param("gaussian", 1.3, 3, 4, marks=pytest.mark.evidence),
]


@in_turn(("standard", [False, True]), (("family", "scale", "bound", "theta"), SINGLE))
def test_a_released_stream_is_as_private_as_claimed(
    standard: bool, family: Any, scale: float, bound: int, theta: int
) -> None:
    """Law: divergence of the real outputs <= the accountant's delta, and not far below."""
    noise = (laplace_table if family == "laplace" else gaussian_table)(scale, bound)
    laws = single_laws(noise, family, scale, theta)
    plan = plan_with("standard" if standard else "variant", laws)
    pairs = neighbouring(lambda s: sketch_of(s, standard=standard)._state(), streams(3, 5))
    found = exact(pairs, plan.run, noise)
    unshared = standard_unshared(K) if standard else VARIANT
    for epsilon in EPSILONS:
        claimed = single_claim(epsilon, noise, family, scale, theta, unshared)
        assert claimed / 3 < found(epsilon) <= claimed


def test_a_released_stream_has_the_law_of_the_paper() -> None:
    """Law: the outputs are those of Algorithm 2 (restated) on a sketch kept in a dictionary."""
    plan = plan_with("variant", single_laws(NOISE, "laplace", 1.2, 2))
    laws: dict[Output, Law] = {}
    for stream in streams(3, 4):
        state = sketch_of(stream)._state()
        if state_key(state) not in laws:
            laws[state_key(state)] = law_of(lambda state=state: plan.run(state), NOISE, shown)
        missing = 2 ** (64 * state.dummies)  # a draw for every dummy, which nobody sees
        real = {out: w * missing for out, w in laws[state_key(state)].items()}
        assert real == release_law(misra_gries(stream, K), NOISE, NOISE, 2)


def test_the_front_door_publishes_what_the_plan_draws() -> None:
    """Law: nothing else is drawn or changed between the plan and the frame."""
    sketch = sketch_of((0,) * 300 + (1,) * 200 + (2,))
    budget = {"epsilon": 1.0, "delta": 1e-6}
    asked = SketchRequest(structure="variant", unit="record", counters=K, budget=Budget(**budget))
    plan = sketch_plan(asked)
    with seeded_noise(5):
        frame = sketch.release(**budget)
    with seeded_noise(5):
        noisy = plan.run(sketch._state())
    pd.testing.assert_frame_equal(frame, plan.frame(noisy))
    assert frame.dp.receipt["sketch_error"] == noisy.decrements


NOISE, WEAK, LATTICE = laplace_table(1.2, 3), laplace_table(0.8, 3), laplace_table(2.5, 5)
T, SCALE = 3, 1.5
GAUSS = gaussian_table(SCALE, 4)
LONG = [(0,) * n + (1,) * n + (2,) * r for n in (5, 6) for r in (0, 1)]
"""Counters that are published for certain, so that all of them fall in sight."""

Pairs = list[tuple[SketchState, SketchState]]


def bounded_pairs() -> Pairs:
    return neighbouring(lambda s: merge_of(s, "bounded")._state(), [*streams(3, 4), *LONG])


def user_pairs() -> Pairs:
    sets = [frozenset(s) for n in (1, 2, 3) for s in itertools.combinations(range(3), n)]
    full = (frozenset({0, 1}),) * 6
    inputs = [*itertools.product(sets, repeat=3), (*full, frozenset({2})), (*full, full[0])]
    return neighbouring(lambda users: users_of(users)._state(), inputs)


def sum_pairs(change: Callable[[SketchState], SketchState] = lambda state: state) -> Pairs:
    """Sums with two other sketches."""
    return neighbouring(lambda s: change(merge_of(s, "sum")._state()), [*streams(3, 4), *LONG])


def single_claim(
    epsilon: float, noise: Any, family: Any, scale: float, theta: int, unshared: Any = VARIANT
) -> float:
    options: Any = {"family": family, "scale": scale, "theta": theta, "unshared": unshared}
    return sketch_delta(noise, **options, sketches=1, epsilon=epsilon)


def gshm_claim(epsilon: float, changed: int = K) -> float:
    return gshm_delta(GAUSS, scale=SCALE, t=T, changed=changed, epsilon=epsilon)


def lattice_claim(epsilon: float) -> float:
    options: Any = {"family": "laplace", "scale": 2.5, "theta": 5, "counters": K, "merged": True}
    return lattice_delta(LATTICE, **options, sketches=1, epsilon=epsilon)


SPARSE = gshm_of(GAUSS, SCALE, T)
SUMMED = lattice_of(LATTICE, "laplace", 2.5, 5)


@pytest.mark.parametrize(
    ("structure", "laws", "pairs", "claim", "waste"),
    [
        ("bounded", SPARSE, bounded_pairs, gshm_claim, 3),
        ("users", SPARSE, user_pairs, gshm_claim, 3),
        ("sum", SUMMED, sum_pairs, lattice_claim, 5),
    ],
    ids=["bounded", "users", "sum"],
)
def test_merges_and_users_are_as_private_as_claimed(
    structure: str, laws: Any, pairs: Any, claim: Any, waste: int
) -> None:
    """Law: divergence of the real outputs <= delta: of the sparse histogram for k counters, and on
    the lattice."""
    found = exact(pairs(), plan_with(structure, laws).run, laws.noise)
    for epsilon in EPSILONS:
        assert claim(epsilon) / waste < found(epsilon) <= claim(epsilon)


def items_as_records() -> Pairs:
    """All items of users go into a plain sketch."""
    seen = ((0,),) * 6 + ((1,),) * 6
    users = [(*seen, (0, 1)), (*seen, (0, 1, 2)), ((0, 1), (2,))]
    return neighbouring(lambda own: sketch_of([x for one in own for x in one])._state(), users)


def rounded(state: SketchState) -> SketchState:
    """Whole counts first, then noise on the lattice: they jump by k + 1 at once."""
    return replace(state, counts=(state.counts + 1) // 3 * 3)


def raw(stream: Sequence[int]) -> SketchState:
    """Raw counters on the lattice: all k of them fall by k + 1."""
    state = sketch_of(stream, standard=True)._state()
    return replace(state, counts=3 * state.counts, lattice=3)


OF_RECORD = single_claim(1.0, NOISE, "laplace", 1.2, 3)
PLANTED: dict[str, tuple[str, Any, Callable[[], Pairs], float]] = {
    "two thirds of the noise": (
        "variant",
        single_laws(WEAK, "laplace", 0.8, 3),
        lambda: neighbouring(lambda s: sketch_of(s)._state(), streams(3, 4)),
        OF_RECORD,
    ),
    "items of a user as single records": (
        "variant",
        single_laws(NOISE, "laplace", 1.2, 3),
        items_as_records,
        OF_RECORD,
    ),
    "a merge with the laws of one counter": ("bounded", SPARSE, bounded_pairs, gshm_claim(1.0, 1)),
    "users with the laws of one counter": ("bounded", SPARSE, user_pairs, gshm_claim(1.0, 1)),
    "sums rounded before the noise": (
        "sum",
        SUMMED,
        lambda: sum_pairs(rounded),
        lattice_claim(1.0),
    ),
    "sums without post-processing": (
        "sum",
        SUMMED,
        lambda: neighbouring(raw, LONG),
        lattice_claim(1.0),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_rejected(name: str) -> None:
    """Planted bugs: the same check, at epsilon 1."""
    structure, laws, pairs, claim = PLANTED[name]
    assert exact(pairs(), plan_with(structure, laws).run, laws.noise)(1.0) > claim


def test_a_merge_with_the_laws_of_a_stream_is_refused_by_the_mechanism() -> None:
    """Law: states and laws that do not belong together do not meet."""
    merge = merge_of((0, 1), "sum")._state()
    stream = sketch_of((0, 1))._state()
    for state, laws in ((merge, SPARSE), (stream, SUMMED), (stream, replace(SPARSE, changed=1))):
        with pytest.raises(ValueError, match="laws are not"):
            sketch_release.release_counts(state, laws)


# -- a universe ----------------------------------------------------------------------------------


def universe_values(state: SketchState, size: int, *, cut: bool = True) -> np.ndarray:
    universe = pa.array(range(size))
    if state.lattice == 1:
        state = state.post_processed()
    if cut:
        return values_on_universe(state, universe)
    values = np.full(size, -(state.counts.sum() // 1))  # planted: -sum of C for all others
    for key, count in zip(state.keys.to_pylist(), state.counts.tolist(), strict=True):
        if key is not None:
            values[key] = count
    return values


def furthest_move(pairs: Any, size: int, **how: Any) -> int:
    values = ([universe_values(state, size, **how) for state in pair] for pair in pairs)
    return max(int(np.abs(p - q).sum()) for p, q in values)


@pytest.mark.parametrize("kind", ["variant", "standard", "sum"])
def test_values_over_a_universe_move_by_what_the_noise_is_for(kind: str) -> None:
    """Law: at most 2k - 1 lattice steps (l1), attained, whatever the universe."""

    def state(stream: Sequence[int]) -> SketchState:
        if kind == "sum":
            return merge_of(stream, "sum")._state()
        return sketch_of(stream, standard=kind == "standard")._state()

    pairs = neighbouring(state, [*streams(3, 5), *LONG])
    assert {furthest_move(pairs, size) for size in (3, 10, 1000)} == {2 * K - 1}


def test_values_of_bounded_merges_and_users_move_by_k() -> None:
    """Law: at most k whole counts, which is what their pure noise is for."""
    for pairs in (bounded_pairs(), user_pairs()):
        values = ([values_on_universe(s, pa.array(range(9))) for s in pair] for pair in pairs)
        assert max(int(np.abs(p - q).sum()) for p, q in values) == K
    plan = pure_plan([1, 2], structure="bounded", counters=7, epsilon=0.3)
    assert plan.laws.scale * plan.budget.epsilon >= 7


def test_values_that_are_not_cut_at_zero_are_rejected() -> None:
    """Planted bug: minus the mean on elements that are not stored: the whole universe moves."""
    pairs = neighbouring(lambda s: sketch_of(s)._state(), streams(3, 4))
    assert furthest_move(pairs, 100, cut=False) > 50


PURE = laplace_table(3.0, 8)
BEYOND = 4 * int(PURE.weights[:1][0]) / TOTAL
"""About the mass of outcomes that the cut table lets only one side reach: one step of three."""


def pure_plan(universe: Any, *, epsilon: float = 1.0, **asked: Any) -> SketchPlan:
    given = {"structure": "variant", "unit": "record", "counters": K, **asked}
    budget, keys = Budget(epsilon=epsilon, delta=0.0), pa.array(universe, pa.int64())
    return sketch_plan(SketchRequest(**given, budget=budget, universe=keys))


def pure_law(state: SketchState, monkeypatch: pytest.MonkeyPatch, universe: Any = range(3)) -> Law:
    """Outputs of the real top-k, with the unbounded draw replaced by a table."""
    monkeypatch.setattr(sketch_release, "unbounded_laplace", lambda _, n: PURE.draw(n))
    plan = pure_plan(universe)
    assert plan.laws.scale == 3
    return law_of(lambda: plan.run(state), PURE, shown)


def test_the_largest_of_a_universe_are_released_purely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: outputs within e^epsilon of each other, but for the ends of the cut table.

    The bug beside it draws noise for keys that are stored only: an output tells them apart.
    """
    both = ((0, 0, 1, 1, 2, 2, 2), (0, 0, 1, 1, 2, 2))
    laws = [pure_law(sketch_of(s)._state(), monkeypatch) for s in both]
    apart = furthest([profile(*laws)], 1.0)
    assert 0 < apart < 12 * BEYOND
    assert furthest([profile(*laws)], 0.5) > 2 * apart  # the budget is used
    told = (((), [0]), ((2,), [0, 2]))
    stored = [pure_law(sketch_of(s)._state(), monkeypatch, keys) for s, keys in told]
    assert furthest([profile(*stored)], 1.0) == 1.0


# -- intervals -----------------------------------------------------------------------------------


def chances(
    plan: SketchPlan, sketch: Any, noise: NoiseTable, wrong: Callable[[Any], tuple[int, ...]]
) -> list[float]:
    """P(a key is wrong), by key."""
    state = sketch._state()
    law = law_of(lambda: plan.run(state), noise, wrong)
    total = sum(law.values())
    return [sum(w for out, w in law.items() if key in out) / total for key in range(3)]


def misses(plan: SketchPlan, sketch: Any, stream: Sequence[int], noise: NoiseTable) -> list[float]:
    """P(published, and the true count is not in the interval), by key."""

    def wrong(noisy: Any) -> tuple[int, ...]:
        _, lower, upper = plan.counts(noisy)
        assert upper is not None
        rows = zip(noisy.keys.to_pylist(), lower.tolist(), upper.tolist(), strict=True)
        return tuple(key for key, low, high in rows if not low <= stream.count(key) <= high)

    return chances(plan, sketch, noise, wrong)


LATE = (5, 6, 7) * 5 + (0,) * 6
"""A key that lost nothing, in a sketch that lost a lot: what ``lower`` has to allow for."""


@in_turn(("structure", ["variant", "standard", "sum", "bounded"]), ("confidence", [0.5, 0.8, 0.95]))
def test_intervals_hold_the_true_count(structure: str, confidence: float) -> None:
    """Law: P(published, and missed) <= 1 - confidence for each key, exactly."""
    laws: Any = single_laws(NOISE, "laplace", 1.2, 1)
    if merged := structure in ("sum", "bounded"):
        summed = structure == "sum"
        laws = lattice_of(LATTICE, "laplace", 2.5, 1) if summed else gshm_of(GAUSS, SCALE, 0)
    plan = plan_with(structure, laws, records=17 if merged else None, confidence=confidence)
    worst = 0.0
    for stream in [*itertools.islice(streams(3, 5), 0, None, 61), LONG[1], LONG[3][2:], LATE]:
        whole, sketch = stream, sketch_of(stream, standard=structure == "standard")
        if merged:
            sketch = merge_of(stream[-11:], structure)
            whole = (*stream[-11:], 0, 0, 1, 0, 1, 2)
        worst = max(worst, *misses(plan, sketch, whole, laws.noise))
    assert worst <= 1 - confidence
    if confidence == 0.5 and structure == "variant":
        assert worst > 0.1  # they are not idle


def test_intervals_that_forget_the_shared_draw_are_rejected() -> None:
    """Planted bug: the reach of Z alone, where alpha_hat has noise of its own."""
    plan = plan_with("variant", single_laws(NOISE, "laplace", 1.2, 1), confidence=0.95)
    sketch = sketch_of(LATE)
    assert 0.02 < misses(plan, sketch, LATE, NOISE)[0] <= 0.05
    broken = replace(plan)
    vars(broken)["noise_below"] = plan.reach(plan._miss)
    assert misses(broken, sketch, LATE, NOISE)[0] > 0.05


@pytest.mark.parametrize("standard", [False, True])
def test_a_key_that_is_not_published_is_at_most_what_the_receipt_says(standard: bool) -> None:
    """Law: P(not published, and true count above the bound) <= 1 - confidence, exactly."""
    structure = "standard" if standard else "variant"
    plan = plan_with(structure, single_laws(NOISE, "laplace", 1.2, 2), confidence=0.8)
    for stream in ((0,) * 6, (0, 1) * 3, (0, 1, 2) * 3 + (0,), (0, 0, 1, 2), ()):

        def wrong(noisy: Any, stream: tuple[int, ...] = stream) -> tuple[int, ...]:
            bound = plan.unpublished_at_most(noisy)
            assert bound is not None
            hidden = set(range(3)) - set(noisy.keys.to_pylist())
            return tuple(key for key in hidden if stream.count(key) > bound)

        found = chances(plan, sketch_of(stream, standard=standard), NOISE, wrong)
        assert max(found) <= 0.2 * (1 + 1e-15)


# -- nothing else leaves -------------------------------------------------------------------------


def median(n: int) -> Any:
    """Bits whose noise is 0 everywhere."""
    return np.full(n, TOTAL // 2, dtype=np.uint64)


BIG = [7] * 900 + [8] * 700
HIDDEN: list[tuple[list[Any], list[Any]]] = [
    (BIG, [*BIG, 3]),
    (BIG, [*BIG, 3, 4, 5]),
    ([], [3]),
    (BIG, [2**63 + 9, *BIG]),
]
"""Streams that differ in keys that no release shows."""


@pytest.mark.parametrize(("one", "other"), HIDDEN)
@pytest.mark.parametrize("kind", ["variant", "standard", "sum", "bounded", "users"])
def test_what_is_not_released_shows_nowhere(kind: str, one: list[Any], other: list[Any]) -> None:
    """Law: same draws, same published keys: frame, types, index and receipt are the same."""
    frames = []
    for stream in (one, other):
        if kind == "users":
            sketch: Any = dp.PrivacyAwareMisraGries(8, 3)
            sketch.update_users(list(range(len(stream))), stream)
        else:
            sketch = dp.MisraGries(8, standard=kind == "standard")
            sketch.update(stream)
        if kind in ("sum", "bounded"):
            sketch = dp.merge_sketches([sketch, dp.MisraGries(8)], method=kind)
        with replaced_bits(median):
            frames.append(sketch.release(epsilon=1.0, delta=1e-6))
        assert "private" in repr(sketch)
    receipts = [{**frame.attrs.pop("dp"), "release_id": 0, "time": 0} for frame in frames]
    if kind != "sum":  # where the mean moves every value by a fraction
        pd.testing.assert_frame_equal(*frames)
    assert list(frames[0].dtypes) == list(frames[1].dtypes)
    assert receipts[0] == receipts[1]
