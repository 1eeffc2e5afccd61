"""Addresses that are read from bytes count what SQL counts."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import as_hierarchy
from dpframe.sources import address_bytes, address_rows, counting
from dpframe.sources.counting import exact_counts
from tests import strategies as nasty
from tests.hostile import IPS
from tests.unit.sources.test_address_keys import ADDRESSES, ALMOST, FOURS, NEAR, SPECS

MANY = (*SPECS, "ip:x?version=4&prefixes=1,9,31", "ip:x?prefixes=3,32&prefixes6=127")
OCTETS = st.sampled_from(
    [*"0159", "00", "25", "55", "99", "100", "255", "256", "260", "300", "1000"]
)
DOTTED = st.lists(OCTETS, min_size=3, max_size=5).map(".".join)


def table_of(texts: Sequence[str | None]) -> pa.Table:
    return pa.table({"x": pa.array(texts, pa.string())})


def counted(source: object, spec: str, band: int = 1, sql: bool = False) -> list[Any]:
    """Nodes and their counts, by either way."""
    way = mock.patch.object(counting, "address_nodes", return_value=None) if sql else nullcontext()
    with way:
        tree = exact_counts(source, as_hierarchy(spec), PrivacyUnit(), band)
    return [tree.level.tolist(), tree.count.tolist(), *(k.to_pylist() for k in tree.keys)]


@nasty.examples(
    10, 500, ADDRESSES, st.sampled_from(MANY), st.integers(1, 3), st.integers(1, 9), st.booleans()
)
def test_counts_are_those_of_sql(
    texts: list[str | None], spec: str, band: int, size: int, often: bool
) -> None:
    """Of both families, mapped, malformed and missing ones, wherever blocks and folds end."""
    table = table_of(texts * 3 if often else texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(address_bytes, "BLOCK", size)
        patch.setattr(address_rows, "HELD", size)
        found = counted(table, spec, band)
    assert found == counted(table, spec, band, sql=True)


@pytest.mark.parametrize("spec", MANY)
def test_hostile_texts_count_as_in_sql(spec: str) -> None:
    rows = pa.concat_tables([IPS, IPS.slice(3, 40), IPS]).rename_columns(["x"])
    assert counted(rows, spec) == counted(rows, spec, sql=True)


def is_plain(text: str) -> bool:
    """Four decimals, as the standard library writes them."""
    try:
        return str(ipaddress.IPv4Address(text)) == text
    except ValueError:
        return False


@nasty.examples(60, 3000, st.lists(st.one_of(DOTTED, DOTTED, FOURS, NEAR, ALMOST), max_size=12))
def test_what_is_read_is_what_the_standard_library_reads(texts: list[str]) -> None:
    """Texts are told apart wherever their neighbours end."""
    for kind in (pa.string(), pa.large_string()):
        given = pa.array(["1.2", *texts, "3.4"], kind).slice(1, len(texts))
        numbers, plain = address_bytes.dotted(given)
        assert [is_plain(t) for t in texts] == (
            [True] * len(texts) if plain is None else plain.tolist()
        )
        assert numbers.tolist() == [int(ipaddress.IPv4Address(t)) for t in texts if is_plain(t)]


def test_a_reader_that_takes_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: leading zeros and large decimals, which SQL does not take."""
    right = address_bytes._decimals

    def wrong(*given: Any) -> Any:
        value, bad = right(*given)
        return value, np.zeros_like(bad)

    rows = IPS.rename_columns(["x"])
    monkeypatch.setattr(address_bytes, "_decimals", wrong)
    assert counted(rows, "ip:x") != counted(rows, "ip:x", sql=True)


def naive(texts: list[str], band: int) -> dict[tuple[int, int], int]:
    """Nodes of IPv4, one text at a time."""
    out: Counter[tuple[int, int]] = Counter()
    for text in texts:
        number = int(ipaddress.IPv4Address(text))
        out.update((level, number >> 32 - 8 * level << 32 - 8 * level) for level in range(1, 5))
    return {node: n for node, n in out.items() if n >= band}


@pytest.mark.parametrize("held", [300, 2**24])
def test_many_rows_count_as_one_by_one(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_rows, "HELD", held)
    numbers = np.random.default_rng(5).integers(0, [3, 2, 40, 9], (20_000, 4))
    texts = [".".join(map(str, row)) for row in numbers.tolist()]
    level, n, keys = counted(table_of(texts), "ip:x?version=4", 5)
    found = zip(level[1:], [int(k) & 0xFFFFFFFF for k in keys[1:]], n[1:], strict=True)
    assert {(a, b): c for a, b, c in found} == naive(texts, 5)
    assert n[0] == len(texts)
