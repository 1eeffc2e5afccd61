"""Sketches of addresses hold what they would hold of keys that are texts."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe._duck import relations as duck_relations
from dpframe.hierarchy import as_hierarchy
from dpframe.sketches import MisraGries
from dpframe.sources import address_keys
from dpframe.sources import stream_batches as record_stream
from dpframe.sources.stream_batches import sketch_source, updated_sketches
from tests import strategies as nasty
from tests.unit.sources.test_packed_keys import facts

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


def table_of(texts: Sequence[str | None]) -> pa.Table:
    return pa.table({"x": pa.array(texts, pa.string())})


def as_texts(texts: Sequence[str | None], spec: str, counters: int) -> list[tuple[Any, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_stream, "Ip", MisraGries)  # which no hierarchy is
        return facts(sketch_source(table_of(texts), as_hierarchy(spec), counters))


@nasty.examples(8, 400, ADDRESSES, st.sampled_from(SPECS), st.integers(2, 6), st.integers(1, 9))
def test_sketches_are_those_of_texts(
    texts: list[str | None], spec: str, counters: int, size: int
) -> None:
    """Of both families, mapped, malformed and missing ones, wherever batches and pieces end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duck_relations, "BATCH_ROWS", 5 * size)
        patch.setattr(address_keys, "PIECE", size)
        found = facts(sketch_source(table_of(texts), as_hierarchy(spec), counters))
    assert found == as_texts(texts, spec, counters)


@nasty.examples(5, 200, ADDRESSES, ADDRESSES, st.integers(2, 6))
def test_what_follows_is_counted_with_what_was_there(
    first: list[str | None], second: list[str | None], counters: int
) -> None:
    """Keys that are texts already become numbers and texts again, those at zero with them."""
    hierarchy = as_hierarchy("ip:x")
    sketches = [MisraGries(counters) for _ in range(hierarchy.height)]
    for part in (first, second):
        sketches = updated_sketches(sketches, table_of(part), hierarchy)
    known = as_texts([*first, *second], "ip:x", counters)
    assert facts([sketch._state() for sketch in sketches]) == known


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
