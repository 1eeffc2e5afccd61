"""Sketches of paths hold what they would hold of keys that SQL makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from dpframe._duck import relations as duck_relations
from dpframe.hierarchy import as_hierarchy
from dpframe.sketches import MisraGries
from dpframe.sources import address_keys as path_keys
from dpframe.sources import stream_batches as record_stream
from dpframe.sources.stream_batches import sketch_source, updated_sketches
from tests import strategies as nasty
from tests.unit.sources.test_address_keys import table_of
from tests.unit.sources.test_packed_keys import facts

PATHS = st.lists(
    st.one_of(
        st.none(),
        st.text("ab/.é!=", max_size=9),
        st.sampled_from(["a/b/c", "/a//b/", "/a", "/", "//", "///", ""]),
    ),
    max_size=60,
)
SPECS = (
    *("path:x", "path:x?depth=2", "path:x?invalid=drop", "path:x?separator=.&depth=3"),
    *("path:x?separator=//", "path:x?separator=%C3%A9&depth=2", "path:x?separator=!"),
)


def as_sql(texts: Sequence[str | None], spec: str, counters: int) -> list[tuple[Any, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_stream, "splits_by_byte", lambda *_: False)
        return facts(sketch_source(table_of(texts), as_hierarchy(spec), counters))


@nasty.examples(8, 400, PATHS, st.sampled_from(SPECS), st.integers(2, 6), st.integers(1, 9))
def test_sketches_are_those_of_sql(
    texts: list[str | None], spec: str, counters: int, size: int
) -> None:
    """Of empty parts, other separators and missing paths, wherever batches and pieces end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duck_relations, "BATCH_ROWS", 5 * size)
        patch.setattr(path_keys, "PIECE", size)
        found = facts(sketch_source(table_of(texts), as_hierarchy(spec), counters))
    assert found == as_sql(texts, spec, counters)


@nasty.examples(5, 200, PATHS, PATHS, st.integers(2, 6))
def test_what_follows_is_counted_with_what_was_there(
    first: list[str | None], second: list[str | None], counters: int
) -> None:
    hierarchy = as_hierarchy("path:x?depth=3")
    sketches = [MisraGries(counters) for _ in range(hierarchy.height)]
    for part in (first, second):
        sketches = updated_sketches(sketches, table_of(part), hierarchy)
    known = as_sql([*first, *second], "path:x?depth=3", counters)
    assert facts([sketch._state() for sketch in sketches]) == known


def test_paths_that_are_no_utf8_are_repaired_before_they_are_split() -> None:
    """As everywhere: different bytes are different nodes."""
    raw = pa.array([b"a\xff/b", b"a\xfe/b", b"a/b"], pa.binary()).view(pa.string())
    sketches = [MisraGries(5), MisraGries(5)]
    counting = path_keys.PathCounter(sketches, as_hierarchy("path:x?depth=2"))  # type: ignore[arg-type]
    counting.update(pa.record_batch({"x": raw}))
    assert sketches[0].estimate(r"=a\xFF") == sketches[0].estimate(r"=a\xFE") == 1
    assert sketches[1].estimate(r"=a\xFF/b") == 1
    assert sketches[1].estimate("=a/b") == 1
