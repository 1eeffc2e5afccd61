"""How much a sketch moves when one record or user is added: what its releases rely on.

The real sketches, on every stream of a few keys up to some length with every record left out, and
on random and adversarial streams. Planted mistakes are rejected by the same checks.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe.sketches import MisraGries, PrivacyAwareMisraGries, merge_raw_sketches
from dpframe.sketches._sketch import Sketch
from tests import naive
from tests.members import in_turn, some, tries

from .sketch_outputs import streams

Counters = Mapping[Any, int]
State = tuple[dict[naive.Entry, int], int]
"""All k counters of a sketch, and its decrements."""

Stream = tuple[int, ...]
SIZES = [
    *((2, 4, 5), (2, 3, 6), (3, 5, 5)),
    *(pytest.param(*size, marks=pytest.mark.evidence) for size in ((2, 3, 8), (3, 4, 6))),
]
"""Counters, universe and longest stream: every decrement and replacement happens in them."""


# -- states of the real sketches -----------------------------------------------------------------


def state_of(sketch: MisraGries) -> State:
    state = sketch._state()
    first = sketch.counters - state.dummies
    real = zip(state.keys.to_pylist(), state.counts.tolist(), strict=True)
    return {
        (0, first + i) if i < state.dummies else (1, key): count
        for i, (key, count) in enumerate(real)
    }, state.decrements


def sketch_of(stream: Sequence[int], k: int, *, standard: bool = False) -> MisraGries:
    sketch = MisraGries(k, standard=standard)
    sketch.update(list(stream))
    return sketch


def variant(stream: Sequence[int], k: int) -> State:
    return state_of(sketch_of(stream, k))


def standard(stream: Sequence[int], k: int) -> State:
    return state_of(sketch_of(stream, k, standard=True))


def values(sketch: Sketch) -> dict[Any, Fraction]:
    state = sketch._state()
    pairs = zip(state.keys.to_pylist(), state.counts.tolist(), strict=True)
    return {key: Fraction(count, state.lattice) for key, count in pairs if count > 0}


def positive(state: State) -> dict[Any, int]:
    return {key: count for (_, key), count in state[0].items() if count > 0}


# -- neighbours ----------------------------------------------------------------------------------


def distinct(pairs: Iterable[tuple[State, State]]) -> list[tuple[State, State]]:
    """Each pair once, as far as a check can tell."""
    seen = {}
    for larger, smaller in pairs:
        tag = (*map(frozenset, (larger[0].items(), smaller[0].items())), larger[1] - smaller[1])
        seen[tag] = larger, smaller
    return list(seen.values())


@cache
def neighbours(
    build: Callable[[Sequence[int], int], State], k: int, universe: int, longest: int
) -> list[tuple[State, State]]:
    """States of all streams with and without one record; the same for every planted mistake."""
    states = {stream: build(stream, k) for stream in streams(universe, longest)}
    return distinct(
        (state, states[stream[:i] + stream[i + 1 :]])
        for stream, state in states.items()
        for i in range(len(stream))
    )


# -- what must hold ------------------------------------------------------------------------------


def follows_the_lemma(larger: State, smaller: State) -> bool:
    """There is a bijection of keys, the identity on shared ones, such that with one record more
    one counter is larger by 1, or all are smaller by 1 after one more decrement; at most 2 keys
    are not shared, with counters of 1 and 0 at most."""
    (many, alpha), (few, alpha_few) = larger, smaller
    shared = many.keys() & few.keys()
    own, others = (sorted(s.keys() - shared) for s in (many, few))
    if len(own) != len(others) or len(own) > 2:
        return False
    alone = [sorted(s[key] for key in keys) for s, keys in ((many, own), (few, others))]
    known = ([], [0], [1], [0, 0], [0, 1])
    if any(one not in known for one in alone) or max(alone) == [0, 0]:
        return False
    for image in itertools.permutations(own):
        pairs = [(key, key) for key in shared] + list(zip(image, others, strict=True))
        moves = sorted(many[a] - few[b] for a, b in pairs)
        one = alpha == alpha_few and moves == [0] * (len(moves) - 1) + [1]
        every = alpha == alpha_few + 1 and moves == [-1] * len(moves)
        # the corollary: (C + alpha, alpha) moves by 1 in one coordinate
        total = sum(abs(many[a] + alpha - few[b] - alpha_few) for a, b in pairs)
        if (one or every) and total + abs(alpha - alpha_few) == 1:
            return True
    return False


def distances(one: Mapping[Any, Fraction], other: Mapping[Any, Fraction]) -> tuple[Any, Any]:
    """l1, and the square of l2."""
    moves = [one.get(key, 0) - other.get(key, 0) for key in one.keys() | other.keys()]
    return sum(map(abs, moves), Fraction(0)), sum((m * m for m in moves), Fraction(0))


def l1(k: int) -> Fraction:
    return Fraction(2 * k - 1, k + 1)


def l2_squared(k: int) -> Fraction:
    return Fraction(k * k + k - 1, (k + 1) ** 2)


def one_direction(one: Counters, other: Counters, k: int) -> bool:
    """At most k counters differ, each by 1, all in the same direction."""
    moves = {one.get(key, 0) - other.get(key, 0) for key in one.keys() | other.keys()} - {0}
    many = sum(one.get(key, 0) != other.get(key, 0) for key in one.keys() | other.keys())
    return moves in (set(), {1}, {-1}) and many <= k


def merged_as_claimed(some: list[Sketch], others: list[Sketch], k: int) -> bool:
    """ "sum" keeps both distances of one sketch; "bounded" moves at most k counters by 1, in one
    direction."""
    both = (some, others)
    near, near_squared = distances(*(values(merge_raw_sketches(s, method="sum")) for s in both))
    bounded = (values(merge_raw_sketches(s)) for s in both)
    return one_direction(*bounded, k) and near <= l1(k) and near_squared <= l2_squared(k)


# -- one stream ----------------------------------------------------------------------------------


@some("2-4-5", "3-5-5")
@pytest.mark.parametrize(("k", "universe", "longest"), SIZES)
def test_the_structure_lemma_holds_for_all_small_streams(
    k: int, universe: int, longest: int
) -> None:
    """Law: neighbouring sketches differ as the lemma says, dummies and zeros included."""
    pairs = neighbours(variant, k, universe, longest)
    assert all(itertools.starmap(follows_the_lemma, pairs))
    unshared = {len(larger[0].keys() - smaller[0].keys()) for larger, smaller in pairs}
    assert unshared == ({0, 1, 2} if universe > k + 1 else {0, 1})  # the bound of 2 is reached
    assert {larger[1] - smaller[1] for larger, smaller in pairs} == {0, 1}


def adversarial(k: int, rng: random.Random) -> list[int]:
    """Stairs, full tables that are then emptied, and blocks that come back."""
    stream: list[int] = []
    while len(stream) < 60:
        keys = rng.sample(range(2 * k + 2), rng.choice([k, k, k + 1, 2]))
        shape = rng.randrange(4)
        if shape == 0:
            stream += keys * rng.randint(1, 3)
        elif shape == 1:
            stream += [key for i, key in enumerate(keys) for _ in range(1 + i)]
        elif shape == 2:
            stream += [key for key in keys for _ in range(rng.randint(1, 4))]
        else:
            stream += rng.sample(range(50, 90), rng.randint(1, k + 2))
    return stream


@pytest.mark.parametrize("seed", range(40))
def test_the_structure_lemma_holds_for_adversarial_streams(seed: int) -> None:
    """Law: as above, for longer streams and more keys, with each record left out in turn."""
    rng = random.Random(seed)
    k = rng.randint(2, 8)
    stream = adversarial(k, rng)
    whole = variant(stream, k)
    for i in range(len(stream)):
        assert follows_the_lemma(whole, variant(stream[:i] + stream[i + 1 :], k))


@some("2-4-5", "3-5-5")
@pytest.mark.parametrize(("k", "universe", "longest"), SIZES)
def test_a_standard_sketch_moves_in_one_direction(k: int, universe: int, longest: int) -> None:
    """Law: one counter by 1, or all of one sketch by 1; up to k keys are not shared."""
    most = 0
    for larger, smaller in neighbours(standard, k, universe, longest):
        assert one_direction(positive(larger), positive(smaller), k)
        assert larger[1] - smaller[1] in (0, 1)
        most = max(most, len(smaller[0].keys() - larger[0].keys()))
    assert most == k


@pytest.mark.parametrize(("k", "universe", "longest"), SIZES[:2])
def test_the_lattice_of_the_state_is_post_processing(k: int, universe: int, longest: int) -> None:
    """Law: the exact multiples that a release reads are those of Algorithm 3."""
    for stream in list(streams(universe, longest))[::7]:
        state = sketch_of(stream, k)._state()
        lattice = state.post_processed()
        assert lattice.lattice == k + 1
        assert len(lattice.counts) == k
        mean = Fraction(sum(state.counts.tolist()), k + 1)
        exact = [count - mean for count in state.counts.tolist()]
        assert [Fraction(count, k + 1) for count in lattice.counts.tolist()] == exact


# -- merged sketches -----------------------------------------------------------------------------

OTHERS: list[list[list[int]]] = [
    [[]],
    [[0, 0, 1]],
    [[1, 2, 3, 0, 0]],
    [[3, 3, 2, 2, 1], [0, 1, 2, 3, 3]],
    [[0, 0, 0, 1, 1], [1, 2, 4, 4], [2, 2, 3]],
]
"""Sketches that stay the same, before and after the one that changes."""


@cache
def neighbouring_streams(k: int, universe: int, longest: int) -> list[tuple[Stream, Stream]]:
    """One pair of streams for each pair of positive counters."""
    states = {stream: positive(variant(stream, k)) for stream in streams(universe, longest)}
    found = {}
    for stream, counters in states.items():
        for i in range(len(stream)):
            without = stream[:i] + stream[i + 1 :]
            tag = frozenset(counters.items()), frozenset(states[without].items())
            found[tag] = stream, without
    return list(found.values())


@some(0, 4, 8)
@in_turn((("k", "universe", "longest"), [(2, 4, 5), (3, 4, 5)]), ("others", OTHERS))
def test_merged_sketches_move_as_little_as_claimed(
    others: list[list[int]], k: int, universe: int, longest: int
) -> None:
    """Law: as ``merged_as_claimed`` says, whichever sketches are beside the one that changes."""
    rest = [sketch_of(stream, k) for stream in others]
    pairs = neighbouring_streams(k, universe, longest)
    for pair in pairs[:: 1 + len(pairs) // 60]:
        for place in {0, len(rest)}:
            one, other = ([*rest[:place], sketch_of(s, k), *rest[place:]] for s in pair)
            assert merged_as_claimed(one, other, k)


@tries(25, 100, deadline=None)
@given(
    k=st.integers(2, 5),
    days=st.lists(st.lists(st.integers(0, 9), max_size=30), min_size=1, max_size=6),
    chosen=st.integers(0, 5),
    place=st.integers(0, 29),
)
def test_random_merges_move_as_little_as_claimed(
    k: int, days: list[list[int]], chosen: int, place: int
) -> None:
    """Law: as above."""
    day = days[chosen % len(days)]
    if not day:
        return
    place %= len(day)
    without = [d[:place] + d[place + 1 :] if d is day else d for d in days]
    assert merged_as_claimed(*([sketch_of(d, k) for d in each] for each in (days, without)), k)


# -- users ---------------------------------------------------------------------------------------


@cache
def user_states(k: int, universe: int, most: int) -> dict[tuple[Stream, ...], dict[Any, int]]:
    sets = [s for n in range(universe + 1) for s in itertools.combinations(range(universe), n)]
    out = {}
    for length in range(most + 1):
        for users in itertools.product(sets, repeat=length):
            sketch = PrivacyAwareMisraGries(k, universe)
            for items in users:
                sketch.update(items)
            out[users] = values(sketch)
    return out


@pytest.mark.parametrize(
    ("k", "universe", "most"),
    [
        *((2, 3, 3), (3, 4, 2)),
        *(pytest.param(*s, marks=pytest.mark.evidence) for s in ((2, 3, 4), (2, 4, 3), (3, 4, 3))),
    ],
)
def test_a_user_moves_at_most_k_counters_by_1_in_one_direction(
    k: int, universe: int, most: int
) -> None:
    """Law: Lemma 9, for all tables of a few users with any sets of a few items."""
    states = user_states(k, universe, most)
    directions = set()
    for users, larger in states.items():
        for i in range(len(users)):
            smaller = states[users[:i] + users[i + 1 :]]
            assert one_direction(larger, smaller, k)
            directions |= {larger.get(x, 0) - smaller.get(x, 0) for x in range(universe)}
    assert directions == {-1, 0, 1}


@tries(25, 60, deadline=None)
@given(
    k=st.integers(2, 5),
    users=st.lists(st.sets(st.integers(0, 9), max_size=7), min_size=1, max_size=20),
    place=st.integers(0, 19),
    most=st.integers(1, 7),
)
def test_a_user_moves_merged_sketches_as_little(k: int, users: Any, place: int, most: int) -> None:
    """Law: also when users are cut to their smallest items, and after merges."""
    place %= len(users)
    both = []
    for left_out in (None, place):
        days = [PrivacyAwareMisraGries(k, most) for _ in range(3)]
        for i, items in enumerate(users):
            if i != left_out:
                days[i % 3].update(items)
        both.append([values(s) for s in (days[place % 3], merge_raw_sketches(days))])
    (one, together), (one_, together_) = both
    assert one_direction(one, one_, k)
    assert one_direction(together, together_, k)


# -- planted mistakes ----------------------------------------------------------------------------


def weighted(groups: Iterable[tuple[int, int]], k: int) -> State:
    """Misra-Gries with weights, as it is usually done."""
    counters: dict[naive.Entry, int] = {(0, i): 0 for i in range(k)}
    decrements = 0
    for key, weight in groups:
        while weight:
            zeros = [stored for stored, count in counters.items() if not count]
            if (1, key) in counters or zeros:
                if (1, key) not in counters:
                    del counters[min(zeros)]
                counters[1, key] = counters.get((1, key), 0) + weight
                break
            step = min(weight, *counters.values())
            counters = {stored: count - step for stored, count in counters.items()}
            decrements, weight = decrements + step, weight - step
    return counters, decrements


def in_groups(stream: Sequence[int], k: int) -> State:
    """Every three records are counted first."""
    starts = range(0, len(stream), 3)
    return weighted((g for i in starts for g in sorted(Counter(stream[i : i + 3]).items())), k)


def frequent_first(stream: Sequence[int], k: int) -> State:
    """All records are counted first and enter by their counts, as value_counts gives them."""
    return weighted(Counter(stream).most_common(), k)


def by_arrival(stream: Sequence[int], k: int) -> State:
    """Of the keys at zero the one goes that has been stored for the longest time."""
    counters: dict[naive.Entry, int] = {(0, i): 0 for i in range(k)}
    decrements = 0
    for record in stream:
        if (1, record) in counters:
            counters[1, record] += 1
        elif min(counters.values()) >= 1:
            counters = {stored: count - 1 for stored, count in counters.items()}
            decrements += 1
        else:
            del counters[next(stored for stored, count in counters.items() if not count)]
            counters[1, record] = 1
    return counters, decrements


def by_slot(stream: Sequence[int], k: int) -> State:
    """Of the keys at zero the one goes that comes first in the table."""
    table: list[tuple[naive.Entry, int]] = [((0, i), 0) for i in range(k)]
    decrements = 0
    for record in stream:
        places = [i for i, (stored, _) in enumerate(table) if stored == (1, record)]
        zeros = [i for i, (_, count) in enumerate(table) if not count]
        if places or zeros:
            i = (places or zeros)[0]
            table[i] = (1, record), table[i][1] + 1
        else:
            table = [(stored, count - 1) for stored, count in table]
            decrements += 1
    return dict(table), decrements


def without_zeros(stream: Sequence[int], k: int) -> State:
    """The variant, with keys at zero left out of its state."""
    counters, decrements = naive.misra_gries(stream, k)
    return {key: count for key, count in counters.items() if count}, decrements


MISTAKES: dict[str, Callable[[Sequence[int], int], State]] = {
    "batches counted first": in_groups,
    "all counted first": frequent_first,
    "oldest zero first": by_arrival,
    "first slot first": by_slot,
    "zeros left out": without_zeros,
}

OLDEST = [4, 12, 4, 13, 0, 6, 11, 1, 11, 2, 4, 2, 14, 1, 0, 14, 8, 13, 10, 9, 5]
SLOT = [5, 1, 1, 69, 56, 76, 55, 53, 5, 0, 5, 0, 5, 0, 1, 0, 0, 1, 1, 1, 7] + [4] * 4 + [8] * 3
WITNESSES = [(8, OLDEST, 1), (4, [*SLOT, 85, 70, 51, 73], 6), (2, [2, 1, 0, 3, 1, 3, 2, 0], 6)]
"""Counters, stream, and the record left out: for mistakes that short streams do not show."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_break_the_lemma(mistake: str) -> None:
    """The check can fail: it rejects each mistake, and passes the real sketch beside it."""
    for build, holds in ((variant, True), (MISTAKES[mistake], False)):
        pairs = neighbours(build, 2, 4, 5) + neighbours(build, 3, 5, 5)
        for k, stream, i in WITNESSES:
            pairs.append((build(stream, k), build(stream[:i] + stream[i + 1 :], k)))
        assert all(itertools.starmap(follows_the_lemma, pairs)) == holds


def test_chunks_by_row_position_are_rejected() -> None:
    """A row less shifts every boundary: then merged sketches are further apart than claimed."""
    k, rng = 2, random.Random(1)

    def near(split: Callable[[Sequence[tuple[int, int]]], list[list[int]]]) -> Iterator[bool]:
        for _ in range(60):
            rows = [(i, rng.randrange(4)) for i in range(24)]
            place = rng.randrange(len(rows))
            both = (rows, rows[:place] + rows[place + 1 :])
            sketches = ([sketch_of(chunk, k) for chunk in split(table)] for table in both)
            yield merged_as_claimed(*sketches, k)

    def by_position(rows: Sequence[tuple[int, int]]) -> list[list[int]]:
        return [[key for _, key in rows[i : i + 4]] for i in range(0, len(rows), 4)]

    def by_hash(rows: Sequence[tuple[int, int]]) -> list[list[int]]:
        return [[key for name, key in rows if name * 7 % 6 == i] for i in range(6)]

    assert all(near(by_hash))
    assert not all(near(by_position))


def test_keys_at_zero_kept_by_users_are_rejected() -> None:
    """One decrement a user, not one a new item, and a user at once: else counters move by more."""

    def one_at_a_time(users: Sequence[Stream], k: int) -> dict[Any, int]:
        return naive.standard_misra_gries([x for items in users for x in items], k)[0]

    def split_users(users: Sequence[Stream], k: int) -> dict[Any, int]:
        halves = [part for items in users for part in (items[:1], items[1:])]
        return naive.privacy_aware(halves, k, 9)[0]

    def whole(users: Sequence[Stream], k: int) -> dict[Any, int]:
        return naive.privacy_aware(users, k, 9)[0]

    k = 2
    sets = [s for n in range(1, 4) for s in itertools.combinations(range(4), n)]
    tables = [users for n in range(4) for users in itertools.product(sets, repeat=n)]
    for build, holds in ((whole, True), (one_at_a_time, False), (split_users, False)):
        states = {users: build(users, k) for users in tables}
        fine = all(
            one_direction(states[users], states[users[:i] + users[i + 1 :]], k)
            for users in tables
            for i in range(len(users))
        )
        assert fine == holds, build.__name__
