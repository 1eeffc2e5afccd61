"""Sketches of columns of whole numbers hold what they would hold of keys that are texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe._duck import register_table
from dpframe.hierarchy._cells import Columns
from dpframe.sketches import MisraGries, SketchState
from dpframe.sources import packed_keys
from dpframe.sources import stream_batches as record_stream
from dpframe.sources.stream_batches import sketch_source
from tests import strategies as nasty

SMALL = st.one_of(st.none(), st.integers(-3, 5))
LARGE = st.one_of(SMALL, st.integers(-(2**63), 2**63 - 1))
ROWS = st.lists(st.tuples(SMALL, SMALL, LARGE), max_size=50)
NAMES = ["a", "b", "c"]
PLAIN, KINDS = Columns(("a", "b", "c")), ("BIGINT", "TINYINT", "BIGINT")
TYPES = [pa.int64(), pa.int8(), pa.int64()]


def table_of(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[], [], []]
    typed = zip(NAMES, columns, TYPES, strict=True)
    return pa.table({name: pa.array(column, kind) for name, column, kind in typed})


def facts(states: Sequence[SketchState]) -> list[tuple[Any, ...]]:
    return [
        (s.kind, s.keys.to_pylist(), s.counts.tolist(), s.dummies, s.decrements, s.total)
        for s in states
    ]


def as_texts(source: object, hierarchy: Columns, counters: int) -> list[tuple[Any, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_stream, "packable", lambda *_: False)
        return facts(sketch_source(source, hierarchy, counters))


@nasty.examples(8, 200, ROWS, st.sampled_from(["count", "drop"]), st.integers(2, 6))
def test_sketches_are_those_of_texts(
    rows: list[tuple[Any, ...]], invalid: Any, counters: int
) -> None:
    """Values that fit in 63 bits together, and such that do not; NULLs; what is at zero."""
    hierarchy, source = Columns(tuple(NAMES), invalid), table_of(rows)
    assert facts(sketch_source(source, hierarchy, counters)) == as_texts(
        source, hierarchy, counters
    )


@nasty.examples(8, 200, st.lists(ROWS, min_size=2, max_size=3), st.integers(2, 4))
def test_batches_that_do_not_fit_are_counted_as_texts_from_there_on(
    parts: list[list[tuple[Any, ...]]], counters: int
) -> None:
    """Whatever the first batch makes room for."""
    sketches = [MisraGries(counters) for _ in NAMES]
    counting = packed_keys.PackedKeyCounter(sketches, Columns(tuple(NAMES)))
    for rows in parts:
        with register_table(table_of(rows), "rows") as relation:
            for batch in relation.batches(packed_keys.values_sql(PLAIN, KINDS)):
                counting.update(batch)
    counting.finish()
    whole = table_of([row for rows in parts for row in rows])
    known = as_texts(whole, Columns(tuple(NAMES)), counters)
    assert facts([sketch._state() for sketch in sketches]) == known


def test_what_follows_is_counted_with_what_was_there() -> None:
    """A stream that goes on has texts already, as one that is read from a file."""
    first = table_of([(1, 2, 3)] * 5)
    second = table_of([(1, 2, None)] * 4 + [(7, None, 1)])
    streams = dp.StreamingHHH(NAMES, counters=10), dp.StreamingHHH(NAMES, counters=10)
    streams[0].update(first)
    streams[0].update(second)
    streams[1].update(pa.concat_tables([first, second]))
    assert streams[0].top(9) == streams[1].top(9)
    assert streams[0].estimate(3, ["1", "2", "<invalid>"]) == 4


def test_every_type_of_whole_numbers_is_counted_alike() -> None:
    """One column and several; unsigned 64-bit numbers stay texts."""
    frame = pd.DataFrame({"a": [1, 2, 2, 100], "b": [0, 0, 1, 1]})
    for names in (["a"], ["a", "b"]):
        known = as_texts(frame, Columns(tuple(names)), 5)
        for kind in ("int8", "uint8", "int16", "uint32", "int64", "uint64", "Int64"):
            assert facts(sketch_source(frame.astype(kind), Columns(tuple(names)), 5)) == known


def test_columns_of_texts_are_left_to_sql() -> None:
    """The types decide, which are public."""
    assert packed_keys.packable(PLAIN, KINDS)
    assert not packed_keys.packable(PLAIN, ("BIGINT", "VARCHAR", "BIGINT"))
    assert not packed_keys.packable(PLAIN, ("BIGINT", "UBIGINT", "BIGINT"))


def test_codes_without_room_for_null_would_be_found() -> None:
    """Negative control: the largest code is taken."""
    codes = packed_keys.NumberCodes(0, 2)
    assert codes.of(pa.array([3], pa.int64())) is None
    found = codes.of(pa.array([2, None], pa.int64()))
    assert found is not None
    assert found.tolist() == [2, 3]
