"""Addresses that are read from bytes count what SQL counts."""

from __future__ import annotations

import ipaddress
from contextlib import nullcontext
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from dpframe._duck import relations as duck_relations
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import as_hierarchy
from dpframe.sources import address_keys as address_bytes
from dpframe.sources import exact_trees
from dpframe.sources import small_frames as address_levels
from dpframe.sources.exact_trees import exact_counts
from tests import strategies as nasty
from tests.hostile import IPS
from tests.unit.sources.test_stream_keys import (
    ADDRESSES,
    ALMOST,
    FOURS,
    LONG,
    NEAR,
    SIXES,
    SPECS,
    table_of,
)

MANY = (*SPECS, "ip:x?version=4&prefixes=1,9,31", "ip:x?prefixes=3,32&prefixes6=127")
OCTETS = st.sampled_from(
    [*"0159", "00", "25", "55", "99", "100", "255", "256", "260", "300", "1000"]
)
DOTTED = st.lists(OCTETS, min_size=3, max_size=5).map(".".join)


def counted(source: object, spec: str, band: int = 1, sql: bool = False) -> list[Any]:
    """Nodes and their counts, by either way, however few the rows."""
    way = nullcontext()
    if sql:
        way = mock.patch.object(address_levels, "address_nodes", return_value=None)
    with mock.patch.object(exact_trees, "counts_small", return_value=False), way:
        tree = exact_counts(source, as_hierarchy(spec), PrivacyUnit(), band)
    return [tree.level.tolist(), tree.count.tolist(), *(k.to_pylist() for k in tree.keys)]


WAYS: dict[str, dict[str, float]] = {
    "rows": {},
    "sql": {"NEW": 2},
    "as far as few are odd": {"ODD": 2},
    "as far as few are held": {"MOST": 3, "HELD": 2},
}


@nasty.examples(
    12, 500, ADDRESSES, st.sampled_from(MANY), st.integers(1, 3), st.integers(1, 9),
    st.sampled_from(sorted(WAYS)),
)  # fmt: skip
def test_counts_are_of_sql(
    texts: list[str | None], spec: str, band: int, size: int, way: str
) -> None:
    """Of both families, mapped, malformed and missing ones, wherever blocks, batches and folds end,
    and whichever way is taken, and from which batch on."""
    table = table_of([*texts, *texts[::2]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(address_bytes, "BLOCK", size + 1)
        patch.setattr(duck_relations, "PIECE_ROWS", size)
        for name, value in {"HELD": size, "FIRST": size, "NEW": 0, **WAYS[way]}.items():
            patch.setattr(address_levels, name, value)
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


GROUPS = st.sampled_from([*"01aF", "", "", "db8", "FFFF", "12345", "0001", "g", "1.2.3.4"])
GROUPED = st.lists(GROUPS, min_size=2, max_size=9).map(":".join)
PAIRS = st.lists(st.lists(st.sampled_from("1f"), max_size=7).map(":".join), min_size=2, max_size=3)


@nasty.examples(60, 3000, st.lists(st.one_of(DOTTED, DOTTED, FOURS, NEAR, ALMOST), max_size=12))
def test_what_is_read_is_what_the_standard_library_reads(texts: list[str]) -> None:
    """Texts are told apart wherever their neighbours end."""
    for kind in (pa.string(), pa.large_string()):
        given = pa.array(["1.2", *texts, "3.4"], kind).slice(1, len(texts))
        numbers, plain = address_bytes.parse_dotted(given)
        known = [True] * len(texts) if plain is None else plain.tolist()
        assert known == [is_plain(t) for t in texts]
        assert numbers.tolist() == [int(ipaddress.IPv4Address(t)) for t in texts if is_plain(t)]


def six_of(text: str) -> int | None:
    """The number of groups without dots and zones."""
    try:
        return None if set(text) & set(".%") else int(ipaddress.IPv6Address(text))
    except ValueError:
        return None


@nasty.examples(
    60,
    3000,
    st.lists(st.one_of(GROUPED, PAIRS.map("::".join), SIXES, LONG, NEAR, ALMOST), max_size=12),
)
def test_groups_are_what_the_standard_library_reads(texts: list[str]) -> None:
    for kind in (pa.string(), pa.large_string()):
        given = pa.array(["1:2", *texts, "3::"], kind).slice(1, len(texts))
        words, plain = address_bytes.parse_groups(given)
        known = [six_of(text) for text in texts]
        assert plain.tolist() == [number is not None for number in known]
        found = [high << 64 | low for high, low in words.tolist()]
        assert found == [number for number in known if number is not None]


def test_a_reader_that_takes_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: leading zeros and large decimals, which SQL does not take."""
    right = address_bytes._decimals

    def wrong(*given: Any) -> Any:
        value, bad = right(*given)
        return value, np.zeros_like(bad)

    rows = IPS.rename_columns(["x"])
    monkeypatch.setattr(address_bytes, "_decimals", wrong)
    assert counted(rows, "ip:x") != counted(rows, "ip:x", sql=True)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In which ways what is counted was read: all rows by bytes, or given up for SQL."""
    read, out = address_levels.AddressReader, list[str]()

    class Kept(read):  # type: ignore[misc, valid-type]
        def slower(self) -> bool:
            gave_up = super().slower()
            out.extend(["sql"] * gave_up)
            return bool(gave_up)

        def finish(self) -> Any:
            out.append("rows")
            return super().finish()

    monkeypatch.setattr(address_levels, "AddressReader", Kept)
    return out


def spread(many: int, form: str) -> list[str]:
    return [form.format(i % 251, i // 251 % 251, i // 63_001) for i in range(many)]


@pytest.mark.parametrize(
    ("texts", "taken"),
    [
        (spread(300, "10.{}.{}.{}"), ["rows"]),
        (spread(300, "fe80::{}:{}:{}"), ["sql"]),
        (spread(3, "10.{}.{}.{}") * 100, ["sql"]),
        (spread(300, "h{}.{}.{}"), ["sql"]),
    ],
    ids=["different", "IPv6", "few", "no addresses"],
)
def test_the_way_is_that_of_the_first_rows(
    texts: list[str], taken: list[str], ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And counts are the same; few rows are read in any case."""
    assert counted(table_of(texts), "ip:x") == counted(table_of(texts), "ip:x", sql=True)
    assert ways == ["rows"]
    monkeypatch.setattr(address_levels, "FIRST", 200)
    monkeypatch.setattr(duck_relations, "PIECE_ROWS", 100)
    assert counted(table_of(texts), "ip:x") == counted(table_of(texts), "ip:x", sql=True)
    assert ways[1:] == taken
    ways.clear()
    assert counted(table_of(texts), "ip:x?prefixes=8&prefixes6=16")[1][0] == 300
    assert ways == taken  # which depends on texts, however coarse keys are


def test_a_source_is_read_twice_only_where_it_can_be(
    ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of Arrow has its rows once; a connection is free again when reading is given up."""
    monkeypatch.setattr(address_levels, "FIRST", 2000)
    texts = table_of(spread(3, "10.{}.{}.{}") * 10_000)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM texts")
    known = counted(texts, "ip:x", sql=True)
    for query, taken in {
        "FROM t": ["sql"],
        "SELECT x FROM t WHERE x > ''": ["sql"],
        "SELECT DISTINCT x FROM t": [],
        "FROM texts": [],
    }.items():
        ways.clear()
        found = counted(con.sql(query), "ip:x")
        assert (found == known) == ("DISTINCT" not in query)
        assert ways == taken
    con.register("once", pa.RecordBatchReader.from_batches(texts.schema, texts.to_batches(1000)))
    assert counted(con.sql("FROM once"), "ip:x") == known


def test_limits_of_memory_are_duckdb_s(ways: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPFRAME_MEMORY_LIMIT", "4GB")
    counted(table_of(["1.2.3.4"]), "ip:x")
    assert ways == []


def test_other_columns_and_units_are_left_to_sql(ways: list[str]) -> None:
    rows = table_of(["1.2.3.4", "1.2.3.5"])
    rows = rows.append_column("u", pa.array([1, 2])).append_column("w", pa.array([3, 4]))
    for unit in (PrivacyUnit(user="u"), PrivacyUnit(weight="w", max_weight=9)):
        exact_counts(rows, as_hierarchy("ip:x"), unit, 1)
    for spec in ("path:x", "ip:x?version=6"):
        exact_counts(rows, as_hierarchy(spec), PrivacyUnit(), 1)
    assert ways == []
