"""Sketches of addresses, paths and whole numbers hold what they would hold of keys from SQL."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe._duck import register_table
from dpframe._duck import relations as duck_relations
from dpframe.hierarchy import as_hierarchy
from dpframe.hierarchy._base import unpack_key
from dpframe.hierarchy._cells import Columns
from dpframe.sketches import MisraGries, SketchState
from dpframe.sources import address_keys, packed_keys, source_relations, stream_batches
from dpframe.sources.packed_keys import stream_sql
from dpframe.sources.stream_batches import sketch_source, updated_sketches
from tests import strategies as nasty
from tests.rollups import exact_tree

FOURS = st.integers(0, 2**32 - 1).map(lambda n: str(ipaddress.IPv4Address(n)))
SIXES = st.integers(0, 2**128 - 1).map(lambda n: str(ipaddress.IPv6Address(n)))
LONG = st.integers(0, 2**128 - 1).map(lambda n: ipaddress.IPv6Address(n).exploded.upper())
ALMOST = st.text("0129.:afF ", max_size=18)
NEAR = st.sampled_from(
    [
        *("1.2.3.4", "1.2.3.5", "1.2.9.9", "::ffff:1.2.3.4", "::ffff:102:304", " 1.2.3.4 "),
        *("2001:db8::1", "2001:DB8::1", "2001:db8:0:0::2", "fe80::1", "fe80::", "::", "::1"),
        *("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff::", "01.2.3.4", "1.2.3", "256.1.1.1"),
        *("", "-", "1::2::3", ":::", ":1", "1:", "12345::", "1:2:3:4:5:6:7::", "é", "1e2.1.1.1"),
        *("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "::1.2.3.4", "fe80::1%eth0", "1.2.3.4\n"),
    ]
)
ADDRESSES = st.lists(st.one_of(st.none(), NEAR, NEAR, FOURS, SIXES, LONG, ALMOST), max_size=60)
SPECS = (
    *("ip:x", "ip:x?version=4", "ip:x?version=6", "ip:x?prefixes=16,24", "ip:x?invalid=drop"),
    *("ip:x?prefixes=8&prefixes6=20,64,90", "ip:x?prefixes6=1,127&invalid=drop"),
)
PATHS = st.lists(
    st.none()
    | st.text("ab/.é!=", max_size=9)
    | st.sampled_from(["a/b/c", "/a//b/", "/a", "/", "//", "///", ""]),
    max_size=60,
)
PATH_SPECS = (
    *("path:x", "path:x?depth=2", "path:x?invalid=drop", "path:x?separator=.&depth=3"),
    *("path:x?separator=//", "path:x?separator=%C3%A9&depth=2", "path:x?separator=!"),
)
SMALL = st.none() | st.integers(-3, 5)
NUMBERS = st.lists(st.tuples(SMALL, SMALL, SMALL | st.integers(-(2**63), 2**63 - 1)), max_size=50)
NAMES, TYPES = ("a", "b", "c"), ("BIGINT", "TINYINT", "BIGINT")


def table_of(texts: Sequence[str | None]) -> pa.Table:
    return pa.table({"x": pa.array(texts, pa.string())})


def numbers_of(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[], [], []]
    typed = zip(NAMES, columns, (pa.int64(), pa.int8(), pa.int64()), strict=True)
    return pa.table({name: pa.array(column, kind) for name, column, kind in typed})


def facts(states: Sequence[SketchState]) -> list[tuple[Any, ...]]:
    return [
        (s.kind, s.keys.to_pylist(), s.counts.tolist(), s.dummies, s.decrements, s.total)
        for s in states
    ]


def as_texts(source: object, hierarchy: Any, counters: int) -> list[tuple[Any, ...]]:
    """What sketches hold of keys that are made by SQL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_batches, "Ip", MisraGries)  # which no hierarchy is
        patch.setattr(stream_batches, "splits_by_byte", lambda *_: False)
        patch.setattr(stream_batches, "packable", lambda *_: False)
        return facts(sketch_source(source, hierarchy, counters))


def tables(values: Any, made: Any, hierarchies: Any) -> st.SearchStrategy[Any]:
    """One table or two, and a hierarchy of them."""
    return st.tuples(st.lists(values.map(made), min_size=1, max_size=2), hierarchies)


KINDS = {
    "addresses": tables(ADDRESSES, table_of, st.sampled_from(SPECS).map(as_hierarchy)),
    "paths": tables(PATHS, table_of, st.sampled_from(PATH_SPECS).map(as_hierarchy)),
    "numbers": tables(NUMBERS, numbers_of, nasty.INVALID.map(lambda how: Columns(NAMES, how))),
}


@nasty.examples_of(5, 400, KINDS, st.integers(2, 6), st.integers(1, 9))
def test_sketches_are_those_of_texts(drawn: Any, counters: int, size: int) -> None:
    """Law: wherever batches and pieces end, and where one more table follows, whose keys become
    numbers and texts again, those at zero with them."""
    tables, hierarchy = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duck_relations, "BATCH_ROWS", 5 * size)
        patch.setattr(address_keys, "PIECE", size)
        if len(tables) == 1:
            found = sketch_source(tables[0], hierarchy, counters)
        else:
            sketches = [MisraGries(counters) for _ in range(hierarchy.height)]
            for table in tables:
                sketches = updated_sketches(sketches, table, hierarchy)
            found = [sketch._state() for sketch in sketches]
    assert facts(found) == as_texts(pa.concat_tables(tables), hierarchy, counters)


@nasty.examples(20, 1000, ADDRESSES)
def test_what_is_read_is_what_the_standard_library_reads(texts: list[str | None]) -> None:
    """What the readers of bytes take is an address, of this number; all else is left to SQL."""
    given, left = pa.array(texts, pa.large_string()), list[str | None]()

    def statement(odd: pa.Array, _: object) -> Any:
        left.extend(odd.to_pylist())
        return np.zeros((len(odd), 2), np.uint64), np.full(len(odd), address_keys.INVALID)

    with mock.patch.object(address_keys, "_read_by_statement", statement):
        numbers, kinds = address_keys.read_addresses(given, as_hierarchy("ip:x"))
    for text, (low, high), kind in zip(texts, numbers.tolist(), kinds.tolist(), strict=True):
        try:
            address: Any = ipaddress.ip_address(text or "")
        except ValueError:
            assert kind == address_keys.INVALID
            continue
        if kind == address_keys.INVALID:
            assert "%" in (text or "") or (":" in (text or "") and "." in (text or ""))
            continue
        mapped = address.ipv4_mapped if address.version == 6 else address
        assert kind == (address_keys.FOUR if mapped is not None else address_keys.SIX)
        number = int(address) if address.version == 6 else 0xFFFF << 32 | int(address)
        assert high << 64 | low == number
    assert len(left) == kinds.tolist().count(address_keys.INVALID)


def test_no_address_is_not_the_last_one() -> None:
    """Negative control for keys of 128 bits: one more than these have is none of them."""
    stream = dp.StreamingHHH("ip:x", counters=10)
    stream.update(table_of(["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] * 3 + [None, "no"]))
    assert stream.estimate(1, "<invalid>") == 2
    assert stream.estimate(1, "ffff::/16") == 3
    assert stream.estimate(5, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128") == 3


def test_paths_that_are_no_utf8_are_repaired_before_they_are_split() -> None:
    """As everywhere: different bytes are different nodes."""
    raw = pa.array([b"a\xff/b", b"a\xfe/b", b"a/b"], pa.binary()).view(pa.string())
    sketches = [MisraGries(5), MisraGries(5)]
    counting = address_keys.PathCounter(sketches, as_hierarchy("path:x?depth=2"))  # type: ignore[arg-type]
    counting.update(pa.record_batch({"x": raw}))
    assert sketches[0].estimate(r"=a\xFF") == sketches[0].estimate(r"=a\xFE") == 1
    assert sketches[1].estimate(r"=a\xFF/b") == sketches[1].estimate("=a/b") == 1


@nasty.examples(8, 200, st.lists(NUMBERS, min_size=2, max_size=3), st.integers(2, 4))
def test_batches_that_do_not_fit_are_counted_as_texts_from_there_on(
    parts: list[list[tuple[Any, ...]]], counters: int
) -> None:
    """Whatever the first batch makes room for."""
    sketches = [MisraGries(counters) for _ in NAMES]
    counting = packed_keys.PackedKeyCounter(sketches, Columns(NAMES))
    for rows in parts:
        with register_table(numbers_of(rows), "rows") as relation:
            for batch in relation.batches(packed_keys.values_sql(Columns(NAMES), TYPES)):
                counting.update(batch)
    counting.finish()
    whole = numbers_of([row for rows in parts for row in rows])
    found = facts([sketch._state() for sketch in sketches])
    assert found == as_texts(whole, Columns(NAMES), counters)


def test_what_follows_numbers_is_counted_with_what_was_there() -> None:
    """A stream that goes on has texts already, as one that is read from a file."""
    first, second = numbers_of([(1, 2, 3)] * 5), numbers_of([(1, 2, None)] * 4 + [(7, None, 1)])
    stream, whole = (dp.StreamingHHH([*NAMES], counters=10) for _ in range(2))
    stream.update(first)
    stream.update(second)
    whole.update(pa.concat_tables([first, second]))
    assert stream.top(9) == whole.top(9)
    assert stream.estimate(3, ["1", "2", "<invalid>"]) == 4


def test_every_type_of_whole_numbers_is_counted_alike() -> None:
    """One column and several; unsigned 64-bit numbers stay texts."""
    frame = pd.DataFrame({"a": [1, 2, 2, 100], "b": [0, 0, 1, 1]})
    for names in (("a",), ("a", "b")):
        known = as_texts(frame, Columns(names), 5)
        for kind in ("int8", "uint8", "int16", "uint32", "int64", "uint64", "Int64"):
            assert facts(sketch_source(frame.astype(kind), Columns(names), 5)) == known


def test_columns_of_texts_are_left_to_sql() -> None:
    """The types decide, which are public."""
    assert packed_keys.packable(Columns(NAMES), TYPES)
    for kind in ("VARCHAR", "UBIGINT"):
        assert not packed_keys.packable(Columns(NAMES), ("BIGINT", kind, "BIGINT"))


def test_codes_without_room_for_null_would_be_found() -> None:
    """Negative control: the largest code is taken."""
    codes = packed_keys.NumberCodes(0, 2)
    assert codes.of(pa.array([3], pa.int64())) is None
    found = codes.of(pa.array([2, None], pa.int64()))
    assert found is not None
    assert found.tolist() == [2, 3]


MIXED_ROWS = pd.DataFrame(
    {
        "ip": ["10.0.0.1", "10.0.0.1", "10.2.0.9", "2001:db8::1", "no", None, ""],
        "path": ["a/b/c", "/a", "a//c", "//", "", None, "x/" * 12],
        "host": ["www.a.org", "a.org", "org", "b.a.org", "", None, "a..org"],
        "when": ["2020-01-02 03:04:05", "2020-01-02", "2020", "no", "", None, "2021-05-01"],
        "code": ["12345", "12", "1", "99999", "", None, "abc"],
        "number": ["1", "99.5", "50", "101", "nan", None, "x"],
        "a": ["[1]", "=", "!", '"', "\u00e9", None, ""],
        "b": ["x", "x", None, "", "[", "]", "x"],
        "i": [1, 2, 2, 3, 3, 3, -4],
    }
)

EVERY_SPEC = [
    *("ip:ip", "ip:ip?version=4", "path:path", "path:path?depth=2", "domain:host", "date:when"),
    *("code:code?lengths=1,3", "number:number?lower=0&upper=100&depth=5", "columns:a"),
    *("columns:a,b", "columns:i,a,b", "columns:a,b?invalid=drop", "path:path?invalid=drop"),
]


@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_the_stream_has_the_nodes_and_counts_of_the_rollup(spec: str) -> None:
    """Counting the keys of a level gives the counts of its nodes, for every kind."""
    hierarchy = as_hierarchy(spec)
    tree = exact_tree(MIXED_ROWS, hierarchy)
    keys = list(zip(*(k.cast("string").to_pylist() for k in tree.keys), strict=True))
    exact = {
        (level, texts): count
        for level, texts, count in zip(tree.level.tolist(), keys, tree.count.tolist(), strict=True)
        if level
    }
    with source_relations.open_source(MIXED_ROWS, hierarchy.source_columns) as relation:
        types = dict(zip(relation.columns, relation.types, strict=True))
        read = tuple(types[c] for c in hierarchy.source_columns)
        found = relation.query(stream_sql(hierarchy, types=read), False)
    counted: Counter[tuple[int, tuple[str | None, ...]]] = Counter()
    for level, column in enumerate(found.columns, 1):
        values = [v for v in column.to_pylist() if v is not None]
        counted.update((level, unpack_key(v, hierarchy.key_width)) for v in values)
    assert counted == exact
