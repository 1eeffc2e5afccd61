"""Whole numbers of any size, and rows in order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe import counts
from dpframe.counts import (
    coded_values,
    different_values,
    order_of_rows,
    ranks_of_values,
    rows_of,
    shortest,
    weighted_sum,
)
from dpframe.mechanisms import rollup
from dpframe.postprocess import strategy
from dpframe.questions.rollup import frame as rollup_frame
from dpframe.testing import seeded_noise

ANY = st.integers(-(2**70), 2**70) | st.integers(-9, 9)


@given(st.lists(st.tuples(ANY, ANY), max_size=6), ANY, ANY)
def test_weighted_sums_are_exact_whatever_their_size(
    pairs: list[tuple[int, int]], a: int, b: int
) -> None:
    x, y = (np.array([pair[i] for pair in pairs], dtype=object) for i in (0, 1))
    assert shortest(x).tolist() == x.tolist()
    for first, second in ((x, y), (shortest(x), shortest(y))):
        found = weighted_sum(a, first, b, second)
        assert found.tolist() == [a * one + b * other for one, other in pairs]


@pytest.mark.parametrize(
    ("values", "short"),
    [([2**59], True), ([2**60], False), ([2**59, -(2**59)], False), ([-(2**63)], False)],
)
def test_numbers_are_short_only_where_their_sum_is(values: list[int], short: bool) -> None:
    """Negative control: 64 bits hold each of them."""
    assert (shortest(np.array(values)).dtype == np.int64) == short


@given(st.data())
def test_rows_are_in_the_order_of_their_columns(data: st.DataObject) -> None:
    """The slow twin sorts tuples; long columns of large numbers leave 64 bits."""
    most = data.draw(st.sampled_from([1, 3, 2**40]))
    columns = np.array(
        data.draw(st.lists(st.tuples(*[st.integers(0, most)] * 4), min_size=1, max_size=9))
    ).T
    rows = list(zip(*columns.tolist(), strict=True))
    assert order_of_rows(list(columns)).tolist() == sorted(range(len(rows)), key=rows.__getitem__)


def test_ranks_are_of_values_and_of_bytes() -> None:
    texts = pa.chunked_array([["é", None, "z", ""], ["Z", "\U0001f600", "\uffff", None]])
    different, place = different_values(texts)
    ranks = ranks_of_values(different)[place]
    order = sorted({t for t in texts.to_pylist() if t is not None}, key=str.encode)
    assert ranks.tolist() == [0 if t is None else 1 + order.index(t) for t in texts.to_pylist()]


def test_rows_of_coded_texts_hold_no_other_text() -> None:
    """What is released must not have what is not, whatever form it has. Negative control: Arrow
    keeps the whole dictionary."""
    texts = pa.chunked_array([["a", None, "b", "c", "b", ""]])
    coded = pa.chunked_array([coded_values(*different_values(texts))])
    rows = np.array([4, 1, 2])
    (plain,), (taken,) = rows_of([texts], rows), rows_of([coded], rows)
    assert taken.to_pylist() == plain.to_pylist() == ["b", None, "b"]
    assert sorted(map(str, taken.chunk(0).dictionary.to_pylist())) == ["None", "b"]
    assert "c" in coded.take(pa.array(rows)).chunk(0).dictionary.to_pylist()
    different, place = different_values(coded.take(pa.array(rows)))
    assert different.take(pa.array(place)).to_pylist() == plain.to_pylist()
    assert len(different) == 2


def sums_of_amounts() -> pd.DataFrame:
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"a": draw.integers(0, 3, 20_000), "b": draw.integers(0, 9, 20_000)})
    frame["v"] = draw.normal(100, 300, 20_000)
    measures = ("count", "sum(v, 0, 1000)", "mean(v, -50, 1000)", "mean(v, 0, 1e12) AS wide")
    with seeded_noise(3):
        return dp.rollup(frame, ["a", "b"], measures, epsilon=1, delta=1e-6, threshold=200)


def test_the_frame_is_the_same_from_numbers_of_either_type(monkeypatch: pytest.MonkeyPatch) -> None:
    short = sums_of_amounts()
    for module in (counts, strategy, rollup, rollup_frame):
        monkeypatch.setattr(module, "ROOM", -1.0)
    assert shortest(np.zeros(1, dtype=np.int64)).dtype == object
    pd.testing.assert_frame_equal(short, sums_of_amounts(), check_exact=True)
