"""Merged streams of ``dp.StreamingHHH``, enumerated: exact divergence <= claimed delta.

Two levels, two counters. Records go through the public class, stream by stream, and are merged by
it. Of the merged sketches of every two neighbouring inputs the exact laws of what each level
publishes are compared, and the levels are put together. The selection reads nothing else; that it
does not is the first test.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.accounting.sketch_lattice import LatticeLaws, lattice_delta, lattice_laws
from dpframe.accounting.sketch_stream import GshmLaws, gshm_delta, gshm_laws, sketch_delta
from dpframe.budget import Budget
from dpframe.hierarchy import as_hierarchy
from dpframe.mechanisms import streaming_hhh
from dpframe.noise import NoiseTable, gaussian_table, laplace_table
from dpframe.questions.sketches.plan import SketchRequest, sketch_plan
from dpframe.sketches import SketchState

from .sketch_outputs import (
    Counters,
    Law,
    Profile,
    both_ways,
    counters_law,
    different,
    furthest,
    misra_gries,
    positive,
    post_processed,
    product,
    profile,
    release_law,
    values_profile,
)
from .test_sketch_release import law_of

K, H = 2, 2
EPSILONS = (0.5, 1.0, 2.0)
TREE = as_hierarchy("path:p?depth=2")
LEAVES = ("a/x", "b/x", "c/x", "c/y", "d/x")
NAMES = dict(enumerate(["a", "b", "c", "d", *LEAVES], 1))
NUMBERS = {f"={name}": i for i, name in NAMES.items()}

Stream = tuple[int, ...]
Levels = tuple[Counters, ...]
"""What is stored on each level, by number of the key."""


# -- real states ---------------------------------------------------------------------------------


@cache
def streaming(stream: Stream, place: int = 0) -> dp.StreamingHHH:
    """Of different places different objects."""
    sketch = dp.StreamingHHH(TREE, counters=K)
    if stream:
        sketch.update(pa.table({"p": [LEAVES[i] for i in stream]}))
    return sketch


SMALL = ((0, 0, 1), (0, 1, 3))
"""Two other streams, which keep little."""
HEAVY = ((2,) * 40 + (4,) * 36, ())
"""Two other streams whose keys push all others out."""
FULL = (0,) * 15 + (1,) * 15
"""Counters that are published for certain, so that all of them fall in sight."""
INPUTS: list[tuple[tuple[Stream, Stream], Stream]] = [
    *((SMALL, stream) for n in range(3) for stream in itertools.product(range(4), repeat=n)),
    *(
        (SMALL, stream)
        for stream in itertools.islice(itertools.product(range(4), repeat=3), 0, None, 3)
    ),
    *((SMALL, (*FULL, *more)) for more in ((), (2,), (3,), (2, 3), (3, 3))),
    *((HEAVY, (*FULL, *more)) for more in ((), (2,), (3,))),
]


@cache
def merged_states(
    others: tuple[Stream, Stream], stream: Stream, method: str
) -> tuple[SketchState, ...]:
    first, last = (streaming(other, place) for place, other in enumerate(others, 1))
    return dp.merge_sketches([first, streaming(stream), last], method=method)._states()


@cache
def pairs(method: str) -> list[tuple[tuple[SketchState, ...], tuple[SketchState, ...]]]:
    """Merged sketches of all levels with one record less in one of the streams."""
    found = {}
    for others, stream in INPUTS:
        for i in range(len(stream)):
            fewer = stream[:i] + stream[i + 1 :]
            pair = tuple(merged_states(others, one, method) for one in (stream, fewer))
            found[tuple(tuple(map(stored_key, states)) for states in pair)] = pair
    return list(found.values())


def stored_key(state: SketchState) -> tuple[Any, ...]:
    return tuple(state.keys.to_pylist()), tuple(state.counts.tolist()), state.decrements


def stored(state: SketchState) -> Counters:
    keys, counts = state.positive()
    return {NUMBERS[k]: c for k, c in zip(keys.to_pylist(), counts.tolist(), strict=True)}


def differ(p: SketchState, q: SketchState) -> bool:
    return stored(p) != stored(q)


def values(p: SketchState, q: SketchState, noise: NoiseTable, least: int) -> Profile:
    return values_profile(stored(p), stored(q), noise, least)


def levels_profiles(method: str, noise: NoiseTable, least: int) -> list[Profile]:
    found = {}
    for pair in pairs(method):
        both = [values(p, q, noise, least) for p, q in zip(*pair, strict=True)]
        both.sort()
        found[tuple((one.total, *one.masses) for one in both)] = both
    return [product(*both) for both in found.values()]


# -- laws ----------------------------------------------------------------------------------------

T, SCALE = 4, 2.0
GAUSS = gaussian_table(SCALE, 5)
THETA, LATTICE_SCALE = 8, 2.5
LATTICE = gaussian_table(LATTICE_SCALE, 8)


def claim(method: str, epsilon: float, *, sketches: int = H) -> float:
    if method == "bounded":
        return gshm_delta(GAUSS, scale=SCALE, t=T, changed=K, sketches=sketches, epsilon=epsilon)
    return lattice_delta(
        LATTICE, family="gaussian", scale=LATTICE_SCALE, theta=THETA, counters=K,
        sketches=sketches, epsilon=epsilon, merged=True,
    )  # fmt: skip


@cache
def profiles(method: str) -> list[Profile]:
    if method == "bounded":
        return levels_profiles(method, GAUSS, 1 + T)
    return levels_profiles(method, LATTICE, THETA)


def laws_of(method: str, noise: NoiseTable, least: int) -> GshmLaws | LatticeLaws:
    if method == "bounded":
        return GshmLaws(noise=noise, scale=1.0, t=least - 1, changed=K, sketches=H, delta=1.0)
    return LatticeLaws(
        family="laplace", noise=noise, scale=1.0, theta=least, unit=K + 1, sketches=H, merged=True,
        delta=1.0,
    )  # fmt: skip


# -- the real run is what is enumerated ----------------------------------------------------------


def naive_selection(levels: Sequence[Sequence[tuple[int, int]]], threshold: int) -> Any:
    """Nodes as (name, residual, count), from published (key, value), by the definition."""
    counts = {NAMES[key]: value for level in levels for key, value in level}
    chosen: dict[str, int] = {}
    for name in sorted(counts, key=lambda name: -name.count("/")):
        below = [n for n in chosen if n.startswith(name + "/")]
        residual = counts[name] - sum(counts[n] for n in below)
        if residual >= threshold:
            chosen[name] = residual
    return tuple(sorted((name, residual, counts[name]) for name, residual in chosen.items()))


def shown(nodes: Any) -> Any:
    rows = zip(
        (key.removeprefix("=") for key in nodes.keys[0].to_pylist()),
        nodes.residual.tolist(),
        nodes.count.tolist(),
        strict=True,
    )
    return tuple(sorted(rows))


@pytest.mark.parametrize("method", ["bounded", "sum"])
@pytest.mark.parametrize("threshold", [2, 6])
def test_a_run_draws_for_every_stored_counter_and_selects_from_what_it_publishes(
    method: str, threshold: int
) -> None:
    """Law: the law of the real run is that of independent levels, then a function of them."""
    noise, least = laplace_table(0.8, 1), 2
    laws = laws_of(method, noise, least)
    states = merged_states(((0, 0, 1), (0, 0)), (2, 2, 0, 0), method)
    assert 4 <= sum(len(stored(state)) for state in states) <= 6
    real = law_of(
        lambda: streaming_hhh.run(
            states, laws=laws, threshold=threshold, confidence=0.9, hierarchy=TREE
        ),
        noise,
        shown,
    )
    naive: Law = {}
    single = [counters_law(stored(state), noise, least) for state in states]
    for outs in itertools.product(*(law.items() for law in single)):
        out = naive_selection([level for level, _ in outs], threshold)
        naive[out] = naive.get(out, 0) + outs[0][1] * outs[1][1]
    assert real == naive
    assert len(real) > 2


@pytest.mark.parametrize("method", ["bounded", "sum"])
def test_laws_for_another_number_of_levels_are_refused(method: str) -> None:
    """Law: states and laws that do not belong together do not meet."""
    states = merged_states(SMALL, (0,), method)
    laws = laws_of(method, GAUSS, 3)
    with pytest.raises(ValueError, match="levels"):
        streaming_hhh.run(states[:1], laws=laws, threshold=3, confidence=0.9, hierarchy=TREE)
    other = merged_states(SMALL, (0,), "sum" if method == "bounded" else "bounded")
    with pytest.raises(ValueError, match="laws are"):
        streaming_hhh.run(other, laws=laws, threshold=3, confidence=0.9, hierarchy=TREE)


# -- neighbours ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bounded", "sum"])
def test_merged_streams_are_as_private_as_claimed(method: str) -> None:
    """Law: exact divergence of both levels together <= delta, in both directions."""
    for epsilon in EPSILONS:
        assert 0.6 * claim(method, epsilon) < furthest(profiles(method), epsilon)
        assert furthest(profiles(method), epsilon) <= claim(method, epsilon)


@pytest.mark.parametrize("method", ["bounded", "sum"])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(2.0, 0.1), pytest.param(5.0, 0.01, marks=pytest.mark.evidence)]
)
def test_calibrated_laws_keep_their_budget(method: str, epsilon: float, delta: float) -> None:
    """Law: with the noise that a release would draw, exact divergence <= delta."""
    if method == "bounded":
        sparse = gshm_laws(changed=K, sketches=H, epsilon=epsilon, delta=delta)
        noise, least, spent = sparse.noise, 1 + sparse.t, sparse.delta
    else:
        lattice = lattice_laws(counters=K, sketches=H, epsilon=epsilon, delta=delta, merged=True)
        noise, least, spent = lattice.noise, lattice.theta, lattice.delta
    two = [pair for pair in pairs(method) if all(map(differ, *pair))]
    found = [
        product(*(values(a, b, noise, least) for a, b in zip(p, q, strict=True)))
        for p, q in [*two[:: len(two) // 8], *two[-2:]]
    ]
    assert furthest(different(found), epsilon) <= spent <= delta


# -- planted bugs --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bounded", "sum"])
def test_laws_for_one_level_are_rejected_for_two(method: str) -> None:
    """Planted bug: noise for one sketch, where a record enters one on each of two levels."""
    for epsilon in EPSILONS:
        assert furthest(profiles(method), epsilon) > claim(method, epsilon, sketches=1)


def test_laws_of_a_single_stream_are_rejected_for_a_merge() -> None:
    """Planted bug: alpha_hat and C + alpha of a bounded merge, as if it were one stream.

    A decrement in one stream moves the counters of another, and alpha stays: two coordinates move
    on each level where the laws allow for one. The stream alone passes.
    """
    scale, theta, epsilon = 2.0, 11, 1.0
    noise = gaussian_table(scale, 7)
    claimed = sketch_delta(
        noise, family="gaussian", scale=scale, theta=theta, sketches=H, epsilon=epsilon
    )

    def apart(build: Callable[[Stream], tuple[SketchState, ...]], stream: Stream) -> float:
        found = []
        for p, q in zip(build(stream), build(stream[:-1]), strict=True):
            base = min(p.decrements, q.decrements)
            laws = [
                release_law((s.decrements - base, whole(s)), noise, noise, theta) for s in (p, q)
            ]
            found.append(profile(*laws))
        return furthest([product(*found)], epsilon)

    falls = (*FULL, 2)
    assert apart(lambda s: merged_states(HEAVY, s, "bounded"), falls) > claimed
    assert apart(lambda s: streaming(s)._states(), falls) <= claimed


def whole(state: SketchState) -> Counters:
    """All counters, dummies and zeros included."""
    keys = state.keys[state.dummies :].to_pylist()
    counts = state.counts[state.dummies :].tolist()
    held = {NUMBERS[key]: c for key, c in zip(keys, counts, strict=True)}
    return {**{-1 - i: 0 for i in range(state.dummies)}, **held}


def test_streams_by_row_position_are_rejected() -> None:
    """Planted bug: every three rows in a stream of their own, summed: a row less shifts the rest.

    Streams that a row's own key decides pass.
    """
    rows = (0, 0, 0, 1, 1, 3) * 8

    def by_position(stream: Stream) -> Iterable[Stream]:
        return (stream[i : i + 3] for i in range(0, len(stream), 3))

    def by_key(stream: Stream) -> Iterable[Stream]:
        return (tuple(x for x in stream if x % 2 == part) for part in (0, 1))

    def apart(split: Callable[[Stream], Iterable[Stream]], i: int) -> float:
        fewer = rows[:i] + rows[i + 1 :]
        p, q = (
            dp.merge_sketches(
                list(map(streaming, split(s), itertools.count())), method="sum"
            )._states()
            for s in (rows, fewer)
        )
        both = (values(a, b, LATTICE, THETA) for a, b in zip(p, q, strict=True))
        return furthest([product(*both)], 1.0)

    assert apart(by_position, 0) > 1.5 * claim("sum", 1.0)
    for i in (0, 3, 5):
        assert apart(by_key, i) <= claim("sum", 1.0)


# -- a stream is merged once: twice, its records move every counter by two, which nobody paid for --

EPSILON, DELTA = 1.0, 1e-3


def test_a_stream_that_counts_twice_is_not_what_was_paid_for() -> None:
    """Law: the sum of a sketch and itself has delta 0.255 where 0.001 was paid; once is within."""
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    asked = SketchRequest(structure="sum", unit="record", counters=K, budget=budget)
    laws = sketch_plan(asked).laws
    assert isinstance(laws, LatticeLaws)

    def released(stream: tuple[int, ...], times: int) -> Counters:
        counters = positive(post_processed(misra_gries(stream, K)[1], K))
        return {key: times * count for key, count in counters.items()}

    stream = (0,) * 60 + (1,) * 60
    found = {}
    for times in (1, 2):
        more, less = released(stream, times), released(stream[1:], times)
        found[times] = both_ways(values_profile(more, less, laws.noise, laws.theta), EPSILON)
    assert found[1] <= DELTA
    assert found[2] == pytest.approx(0.2554, abs=1e-4)


def variant() -> Any:
    sketch = dp.MisraGries(counters=4)
    sketch.update([1, 2, 1])
    return sketch


def users() -> Any:
    sketch = dp.PrivacyAwareMisraGries(counters=4, max_items=2)
    sketch.update_users([1, 1, 2], ["a", "b", "a"])
    return sketch


def hierarchy() -> Any:
    sketch = dp.StreamingHHH(["country", "city"], counters=4)
    sketch.update(pd.DataFrame({"country": ["NO", "DE"], "city": ["Oslo", "Ulm"]}))
    return sketch


def rows() -> Any:
    stream = dp.PrivHP({"x": (0, 8)}, k=4, depth=3, seed=5)
    stream.update(pd.DataFrame({"x": [1.0, 2.0]}))
    return stream


MADE = {f.__name__: f for f in (variant, users, hierarchy, rows)}


def from_file(sketch: Any, path: Path, *, old: bool = False) -> Any:
    """The sketch from its file; from one of before ids were kept."""
    sketch.save(path)
    if old:
        content = path.read_bytes()[:-32]
        size = int.from_bytes(content[20:24], "little")
        facts = json.loads(content[24 : 24 + size])
        del facts["streams"]
        header = json.dumps(facts).encode()
        content = content[:20] + len(header).to_bytes(4, "little") + header + content[24 + size :]
        path.write_bytes(content + hashlib.sha256(content).digest())
    return type(sketch).load(path)


@pytest.mark.parametrize("name", MADE)
def test_no_disguise_lets_a_stream_in_twice(name: str, tmp_path: Path) -> None:
    """Law: itself, a copy, a pickle, its file, an old file and a merge are the stream; a copy that
    goes on is too. Another stream with equal records is another one."""
    made = MADE[name]
    one = made()
    on = copy.deepcopy(one)
    if name == "variant":
        on.update([7, 8])
    again = [one, on, copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))]
    again += [from_file(one, tmp_path / "new"), one.merge(made())]
    for a, b in [*((one, other) for other in again), *itertools.combinations(again, 2)]:
        with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
            a.merge(b)
    one.merge(made()).merge(made().merge(made()))
    old = [from_file(one, tmp_path / "old", old=True)]
    old += [type(one).load(tmp_path / "old"), from_file(old[0], tmp_path / "kept")]
    with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
        old[0].merge(old[1])
    with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
        old[1].merge(old[2])
    old[0].merge(made())


@pytest.mark.parametrize("name", ["variant", "users", "hierarchy"])
@pytest.mark.parametrize("method", ["bounded", "sum"])
@pytest.mark.parametrize(
    "of",
    [list, iter, tuple, lambda given: dict(enumerate(given)).values()],
    ids=["list", "iterator", "tuple", "values"],
)
def test_whatever_holds_sketches_is_read_once(
    name: str, method: str, of: Callable[[list[Any]], Any], tmp_path: Path
) -> None:
    """Law: a stream twice is refused in any iterable, and different ones merge out of any."""
    if name == "users" and method == "sum":
        return
    one = MADE[name]()
    with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
        dp.merge_sketches(of([one, one]), method=method)
    nested = dp.merge_sketches(of([one, MADE[name]()]), method=method)
    assert nested.sketches == 2
    with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
        dp.merge_sketches(of([MADE[name](), nested, one]), method=method)
    kept = from_file(nested, tmp_path / "nested")
    with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
        dp.merge_sketches(of([one, kept]), method=method)
    assert dp.merge_sketches(of([kept, MADE[name]()])).sketches == 3
