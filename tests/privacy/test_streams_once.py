"""A stream is merged once: twice, its records move every counter by two, which nobody paid for."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.accounting.sketch_lattice import LatticeLaws
from dpframe.budget import Budget
from dpframe.questions.sketches.plan import SketchRequest, sketch_plan

from .sketch_outputs import (
    Counters,
    both_ways,
    misra_gries,
    positive,
    post_processed,
    values_profile,
)

EPSILON, DELTA, K = 1.0, 1e-3, 2


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


def stored(sketch: Any, path: Path, *, old: bool = False) -> Any:
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
    again += [stored(one, tmp_path / "new"), one.merge(made())]
    for a, b in [*((one, other) for other in again), *itertools.combinations(again, 2)]:
        with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
            a.merge(b)
    one.merge(made()).merge(made().merge(made()))
    old = [stored(one, tmp_path / "old", old=True)]
    old += [type(one).load(tmp_path / "old"), stored(old[0], tmp_path / "kept")]
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
    kept = stored(nested, tmp_path / "nested")
    with pytest.raises(dp.ParameterError, match="a stream occurs twice"):
        dp.merge_sketches(of([one, kept]), method=method)
    assert dp.merge_sketches(of([kept, MADE[name]()])).sketches == 3
