"""Arrow arrays as DuckDB can hold them: only what it cannot hold changes."""

from __future__ import annotations

import random

import pyarrow as pa

from dpframe.sources.objects import children, readable_table
from tests.fuzz_sources import any_array, arrow_type

CHANGED = (
    *(pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time, pa.types.is_decimal),
    *(pa.types.is_map, pa.types.is_float16, pa.types.is_date),
)
TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
UNREADABLE = (*CHANGED, *TEXTS, pa.types.is_list_view)
"""Python cannot read random bytes as texts; the others change, or are refused."""


def stays(kind: pa.DataType) -> bool:
    own = isinstance(kind, pa.BaseExtensionType) or any(test(kind) for test in UNREADABLE)
    return not own and all(map(stays, children(kind)))


def test_values_that_can_be_held_stay_in_their_rows() -> None:
    """Law: rebuilding nested arrays, slices with random bytes below NULLs, moves no value."""
    compared = 0
    for seed in range(1_500):
        r = random.Random(seed)
        kind = arrow_type(r, 3)
        if stays(kind):
            array = any_array(r, kind, 40, True).slice(r.randrange(30), r.randrange(1, 11))
            table = pa.table({"x": array})
            assert repr(readable_table(table)["x"].to_pylist()) == repr(array.to_pylist())
            compared += kind.num_fields > 0
    assert compared > 30


def test_maps_are_lists_of_their_pairs() -> None:
    """Law: of slices too; a key that is there twice stays there twice."""
    maps = pa.array([[("a", 1), ("a", 2)], None, [], [("b", None)]], pa.map_("string", "int8"))
    for part in (maps, maps.slice(1), maps.slice(3, 1)):
        found = readable_table(pa.table({"x": part}))["x"].to_pylist()
        pairs = [None if m is None else [(e["key"], e["value"]) for e in m] for m in found]
        assert pairs == part.to_pylist()
