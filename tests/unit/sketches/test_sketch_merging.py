"""Merges against slow ones, and what does not merge."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe.errors import DpframeError, ParameterError, ParameterTypeError
from dpframe.sketches import MergedSketch, MisraGries, PrivacyAwareMisraGries, merge_raw_sketches
from dpframe.sketches._sketch import Sketch
from tests import naive
from tests.members import tries

STREAMS = st.lists(st.lists(st.integers(0, 9), max_size=40), min_size=1, max_size=6)
SPELLINGS = st.sampled_from([int, str, lambda x: b"a key of more than 15 bytes" + bytes([x])])


def sketched(stream: list[Any], counters: int, *, standard: bool = False) -> MisraGries:
    sketch = MisraGries(counters, standard=standard)
    sketch.update(stream)
    return sketch


def values(sketch: Sketch) -> dict[Any, Fraction]:
    state = sketch._state()
    pairs = zip(state.keys.to_pylist(), state.counts.tolist(), strict=True)
    return {key: Fraction(count, state.lattice) for key, count in pairs}


def positive(stream: list[Any], counters: int) -> dict[Any, int]:
    return naive.standard_misra_gries(stream, counters)[0]


@tries(25, 100, deadline=None)
@given(STREAMS, st.integers(2, 6), SPELLINGS, st.booleans())
def test_merges_are_those_of_the_papers(
    streams: list[list[int]], counters: int, spelling: Any, standard: bool
) -> None:
    """Law: both methods give, exactly, what their pseudocode gives; inputs stay as they are."""
    spelled = [[spelling(x) for x in stream] for stream in streams]
    sketches = [sketched(stream, counters, standard=standard) for stream in spelled]
    slow = [positive(stream, counters) for stream in spelled]
    before = [values(sketch) for sketch in sketches]
    assert values(merge_raw_sketches(sketches)) == naive.merged_bounded(slow, counters)
    assert values(merge_raw_sketches(iter(sketches))) == naive.merged_bounded(slow, counters)
    assert values(merge_raw_sketches(sketches, method="sum")) == naive.merged_sum(slow, counters)
    assert [values(sketch) for sketch in sketches] == before


@tries(25, 100, deadline=None)
@given(STREAMS, st.integers(2, 6), st.sampled_from(["bounded", "sum"]), st.integers(1, 5))
def test_merging_in_steps_is_merging_at_once(
    streams: list[list[int]], counters: int, method: str, cut: int
) -> None:
    """Law: a merged sketch takes the place of the sketches at the front; the error bound of one
    sketch over all records holds for any number of them."""
    sketches = [sketched(stream, counters) for stream in streams]
    front = merge_raw_sketches(sketches[:cut], method=method)
    both = merge_raw_sketches([front, *sketches[cut:]], method=method)
    at_once = merge_raw_sketches(sketches, method=method)
    assert (values(both), both.sketches) == (values(at_once), len(streams))
    assert both.decrements == at_once.decrements
    true = Counter(x for stream in streams for x in stream)
    assert both.total == true.total()
    assert both.decrements <= -(-both.total // (counters + 1))
    for key in range(10):
        assert both.estimate(key) <= true[key] <= both.estimate(key) + both.decrements
    if len(sketches) > 1:
        first = merge_raw_sketches(sketches[:1], method=method)
        pair = merge_raw_sketches([first, sketches[1]], method=method)
        assert values(pair) == values(merge_raw_sketches(sketches[:2], method=method))
        assert (pair.method, pair.sketches) == (method, 2)


@tries(25, 100, deadline=None)
@given(st.lists(st.lists(st.sets(st.integers(0, 7)), max_size=9), min_size=1, max_size=4))
def test_sketches_of_users_merge_like_any(days: list[list[set[int]]]) -> None:
    """Law: PAMG sketches merge by the bounded method, and the result says what it is of."""
    sketches = []
    for users in days:
        sketch = PrivacyAwareMisraGries(3, 8)
        for items in users:
            sketch.update(items)
        sketches.append(sketch)
    slow = [naive.privacy_aware(users, 3, 8)[0] for users in days]
    result = merge_raw_sketches(sketches)
    assert values(result) == naive.merged_bounded(slow, 3)
    assert result.unit == "user"
    with pytest.raises(ParameterError, match="bounded"):
        merge_raw_sketches(sketches, method="sum")


def test_a_merged_sketch_shows_what_it_is_and_takes_no_records() -> None:
    """Law: the tag carries k, number of sketches and method; there is no way back to a stream."""
    sketch = merge_raw_sketches([sketched([1, 1, 2], 3), sketched(["a"], 3)][:1])
    assert (sketch.counters, sketch.sketches, sketch.method, sketch.unit) == (
        *(3, 1, "bounded"),
        "record",
    )
    assert repr(sketch) == "MergedSketch(counters=3, sketches=1, method='bounded', <private>)"
    with pytest.raises(ParameterTypeError, match="takes no records"):
        sketch.update([1])
    with pytest.raises(ParameterTypeError, match="MergedSketch"):
        MergedSketch()
    assert sketch.memory == 2 * 16
    assert sketch.top(1) == [(1, 2)]


def test_sketches_without_records_merge_with_any_kind() -> None:
    """Law: what has seen nothing adds nothing."""
    empty = MisraGries(3)
    assert merge_raw_sketches([empty]).top() == []
    assert merge_raw_sketches([empty, sketched(["a"], 3), MisraGries(3)]).top() == [("a", 1)]
    assert merge_raw_sketches([empty, sketched([1], 3)], method="sum").sketches == 2


ONE = sketched([1, 2, 1], 3)

BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "none": ([], {}, "at least one"),
    "one, not in a list": (ONE, {}, "must be a list"),
    "no sketches": ([ONE, {1: 2}], {}, "sketches must be"),
    "a number": (7, {}, "must be a list"),
    "twice": ([ONE, ONE], {}, "twice"),
    "different k": ([ONE, MisraGries(4)], {}, "counters of the sketches differ"),
    "different kinds": ([ONE, sketched(["a"], 3)], {}, "different kinds"),
    "text and bytes": ([sketched(["a"], 3), sketched([b"a"], 3)], {}, "different kinds"),
    "records and users": ([ONE, PrivacyAwareMisraGries(3, 2)], {}, "records and of users"),
    "unknown method": ([ONE], {"method": "max"}, "method"),
    "other method": ([merge_raw_sketches([ONE], method="sum")], {}, "one method"),
    "other way round": ([merge_raw_sketches([ONE])], {"method": "sum"}, "one method"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_together_does_not_merge(case: str) -> None:
    """Law: different k, kind or unit is an error that names the rule."""
    sketches, options, rule = BAD[case]
    with pytest.raises(DpframeError, match=rule):
        merge_raw_sketches(sketches, **options)


def test_a_standard_sketch_and_a_variant_merge() -> None:
    """Law: merges leave zeros out, so both are the same to them."""
    stream = np.random.default_rng(1).integers(0, 30, 200).tolist()
    both = [sketched(stream, 5), sketched(stream, 5, standard=True)]
    assert values(merge_raw_sketches(both)) == naive.merged_bounded([positive(stream, 5)] * 2, 5)
