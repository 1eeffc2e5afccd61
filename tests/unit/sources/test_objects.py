"""Objects and Arrow arrays: equal objects are one key, and only what DuckDB cannot hold changes."""

from __future__ import annotations

import datetime as dt
import ipaddress
import random
import uuid
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe.budget import SHARE_GRID, PrivacyUnit
from dpframe.common.texts import escape_bytes
from dpframe.hierarchy import as_hierarchy
from dpframe.sources import objects as arrow_values
from dpframe.sources.objects import children, object_text, readable_table, texts_of_objects
from tests.fuzz_sources import any_array, arrow_type
from tests.rollups import exact_counts

HOUR_EAST = dt.timezone(dt.timedelta(hours=1))


class Colour(Enum):
    RED = 1


class Reference:
    """Equal by what it refers to, and without a text: its default text is its address."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other.at == self.at

    def __hash__(self) -> int:
        return self.at


EQUAL: list[list[Any]] = [
    [7, 7.0, Decimal("7.00"), Fraction(7), np.int8(7), np.float32(7), 7 + 0j],
    [0.0, -0.0, 0, Decimal("-0.0")],
    [0.5, Decimal("0.50"), Fraction(1, 2), np.float16(0.5)],
    [2**200, 2.0**200, Decimal(2**200)],
    [2**1023, 2.0**1023],
    [float("inf"), Decimal("Infinity")],
    [{"a": 1, "b": [2]}, {"b": [2.0], "a": True + 0}],
    [{1, 2}, frozenset([2, 1.0])],
    [("a", 1), ("a", 1.0)],
    [
        dt.datetime(2020, 1, 1, 1, tzinfo=HOUR_EAST),
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        pd.Timestamp("2020-01-01", tz="UTC"),
    ],
    [dt.datetime(2020, 1, 1), pd.Timestamp("2020-01-01")],
    [dt.timedelta(1), pd.Timedelta("1D"), np.timedelta64(24, "h")],
    [Decimal("0.1"), Fraction(1, 10)],
    [Decimal("1.3"), Fraction(13, 10)],
    [np.datetime64(1, "ns"), np.datetime64(1000, "ps"), pd.Timestamp(1)],
    [np.timedelta64(1, "ns"), np.timedelta64(1000, "ps"), pd.Timedelta(1, "ns")],
    [np.timedelta64(-1, "ns"), pd.Timedelta(-1, "ns")],
    [np.datetime64("2021", "Y"), np.datetime64("2021-01", "M"), np.datetime64("2021-01-01", "h")],
    [pd.Interval(0, 1), pd.Interval(0.0, 1.0)],
    [PureWindowsPath("A/b"), PureWindowsPath("a\\B")],
    [bytearray(b"\x80"), b"\x80", memoryview(b"\x80")],
]
DIFFERENT: list[Any] = [
    *("a", "\ud800", "\ud801", b"\x81", "é", Colour.RED, dt.date(2020, 1, 1)),
    *(dt.time(1), uuid.UUID(int=1), ipaddress.ip_address("::1"), PurePosixPath("a/b"), 1j, 10**30),
    *(Decimal("0.1000000000000000000000000000001"), Fraction(1, 3), pd.Period("2020-01")),
    *(("a, b",), ("a", "b"), ["a", "b"], {"a", "b"}, {"a": "b"}, np.arange(3), [None], []),
    *(pd.Timestamp("2020-01-01 00:00:00.000000001"), True, False),
]
MISSING: list[Any] = [
    *(
        None,
        float("nan"),
        Decimal("NaN"),
        pd.NaT,
        pd.NA,
        np.datetime64("NaT", "s"),
        pa.scalar(None),
    ),
    *(Reference(1), object(), object, len, Decimal("sNaN"), Decimal("1E+999999999"), [object()]),
    *({"a": Reference(1)}, dt.time(1, tzinfo=HOUR_EAST), np.timedelta64(1, "M"), 10**5000),
    *(np.datetime64("20000-01-01"), np.timedelta64(10**9, "D"), np.datetime64(1, "ps")),
]


@pytest.mark.parametrize("equal", EQUAL, ids=lambda equal: repr(equal[0]))
def test_equal_objects_have_one_text(equal: list[Any]) -> None:
    assert all(value == equal[0] for value in equal)  # what Python says of them
    assert len({object_text(value) for value in equal}) == 1
    assert object_text(equal[0]) is not None


def test_different_objects_have_different_texts() -> None:
    values = [*DIFFERENT, *(equal[0] for equal in EQUAL)]
    texts = [object_text(value) for value in values]
    assert None not in texts
    assert len(set(texts)) == len(values)


@pytest.mark.parametrize("value", MISSING, ids=lambda value: type(value).__name__)
def test_objects_of_other_types_are_missing(value: Any) -> None:
    assert object_text(value) is None


BASES: list[Any] = [
    *("a", 7, 0.5, 1j, Decimal("0.10"), Fraction(1, 3), b"\x80", bytearray(b"a"), (1, "a"), [1]),
    *({1}, frozenset({1}), {"a": 1}, uuid.UUID(int=1), dt.date(2020, 1, 1), dt.time(1)),
    *(dt.datetime(2020, 1, 1, tzinfo=HOUR_EAST), dt.timedelta(1), PurePosixPath("a/b")),
    *(ipaddress.ip_address("::1"), ipaddress.ip_address("10.0.0.1"), PureWindowsPath("A")),
    *(ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("10.0.0.1/8"), np.float64(0.5)),
    *(ipaddress.ip_network("::/8"), ipaddress.ip_interface("::1/8"), np.array([1, 2])),
]
OWN = (
    *("str", "repr", "format", "int", "index", "float", "complex", "bytes", "bool", "hash", "eq"),
    *("ne", "lt", "gt", "le", "ge", "iter", "len", "getitem", "contains", "neg", "pos", "abs"),
    *("sub", "add", "mod", "trunc", "round", "buffer", "array", "reduce", "reduce_ex"),
)
"""What a class can define itself and readers of objects might ask for."""


def stubborn(value: Any, ran: list[str]) -> Any:
    """An equal object of a subclass that notes all that is asked of it."""

    def note(name: str) -> Any:
        def method(self: Any, *args: Any, **arguments: Any) -> Any:
            ran.append(name)
            raise RuntimeError("the value itself")

        return method

    base = type(value)
    methods = {f"__{name}__": note(f"__{name}__") for name in OWN}
    methods |= {
        n: note(n) for n in ("isoformat", "items", "keys", "values", "astimezone", "tolist")
    }
    kind = type("Stubborn", (base,), methods)
    if isinstance(value, np.ndarray):
        return value.view(kind)
    if isinstance(value, dt.datetime):
        return kind(2020, 1, 1, tzinfo=HOUR_EAST)
    if isinstance(value, dt.date):
        return kind(2020, 1, 1)
    if isinstance(value, dt.timedelta | dt.time):
        return kind(1)
    if isinstance(value, uuid.UUID):
        return kind(int=1)
    if isinstance(value, Fraction):
        return kind(1, 3)
    known = isinstance(
        value, tuple(kinds for kinds in map(type, BASES) if "ipaddress" in str(kinds))
    )
    return kind(str(value) if known else value)


@pytest.mark.parametrize("value", BASES, ids=lambda value: type(value).__name__)
def test_a_subclass_is_read_as_its_base(value: Any) -> None:
    """Law: a class of the caller's cannot give one value two texts, nor stop or watch a reading."""
    ran: list[str] = []
    odd = stubborn(value, ran)
    ran.clear()
    assert object_text(odd) == object_text(value) is not None
    assert ran == []
    assert texts_of_objects([odd, None]).to_pylist() == [object_text(value), None]
    assert ran == []


def test_an_object_is_what_its_type_says() -> None:
    """Law: a class that it only claims is not asked."""

    class Claims:
        __class__ = str  # type: ignore[assignment]

        def __str__(self) -> str:
            return "a"

    assert object_text(Claims()) is None


def users(frame: Any) -> int:
    """How many users a frame has."""
    counts = exact_counts(frame, as_hierarchy("columns:c"), PrivacyUnit(user="u"))
    return int(counts[("x",)]) // SHARE_GRID


def objects(ids: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"c": "x", "u": pd.Series(ids, dtype=object)})


def objects_of_polars(ids: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"c": ["x"] * len(ids), "u": pl.Series(ids, dtype=pl.Object)})


FRAMES: dict[str, Any] = {
    "pandas": objects,
    "categories": lambda ids: objects(ids).astype({"u": "category"}),
    "polars": objects_of_polars,
    "lazy": lambda ids: objects_of_polars(ids).lazy(),
    "narwhals": lambda ids: nw.from_native(objects_of_polars(ids)),
    "narwhals lazy": lambda ids: nw.from_native(objects_of_polars(ids).lazy()),
}


IDS = {
    "uuid": [uuid.UUID(int=i % 100) for i in range(1000)],
    "numbers": [
        [7, 7.0, Decimal("7.0")][i % 3] + i % 100 * (1, 1.0, Decimal(1))[i % 3] for i in range(1000)
    ],
    "bytes": [bytes([128 + i % 100]) for i in range(1000)],
    "surrogates": [chr(0xD800 + i % 100) for i in range(1000)],
}


@pytest.mark.parametrize(
    ("kind", "ids"),
    [(k, i) for k in FRAMES for i in IDS if (k, i) != ("categories", "surrogates")],  # pandas fails
)
def test_a_user_is_one_user_in_every_frame(kind: str, ids: str) -> None:
    assert users(FRAMES[kind](IDS[ids])) == 100


def test_objects_without_a_text_are_one_user() -> None:
    """Never one user for each address; a missing user is one user (docs/known_limits.md)."""
    assert users(objects([Reference(i % 100) for i in range(1000)])) == 1


def test_objects_of_polars_are_keys_by_value() -> None:
    """At the front door, and in the streams and periods that read another way."""
    whens = [dt.datetime(2026, 1, 1 + i % 2) for i in range(1000)]
    frame = objects_of_polars(IDS["uuid"]).with_columns(pl.Series("when", whens))
    labels = {str(uuid.UUID(int=i)) for i in range(100)}
    about = {"epsilon": 5.0, "delta": 1e-6}
    for arguments in (
        {},
        {"mechanism": "streaming", "counters": 200, "threshold": 5},
        {"period": ("when", "2026-01-01")},
    ):
        found = frame.dp.hhh(["u"], **about, **arguments)["u"].to_list()
        assert set(found) - {None} <= labels
    found = frame.lazy().dp.hhh(["u"], **about)
    assert set(found["u"].to_list()) - {None} <= labels


@given(st.binary(max_size=40))
def test_bytes_are_written_as_duckdb_writes_them(raw: bytes) -> None:
    ((written,),) = duckdb.sql("SELECT CAST(? AS VARCHAR)", params=[raw]).fetchall()
    assert escape_bytes(raw) == written


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


@pytest.mark.parametrize("many", [1, 10**9])
def test_pieces_are_repaired_alike_by_threads(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: each piece stays in its place, and only text that is no UTF-8 changes."""
    monkeypatch.setattr(arrow_values, "MANY", many)
    raw = [[f"{piece}-{row}".encode() for row in range(5)] for piece in range(40)]
    raw[17][2] = b"\xff\xfe"
    pieces = [pa.array(texts, pa.binary()).view(pa.string()) for texts in raw]
    table = pa.table({"text": pa.chunked_array(pieces), "n": pa.array(range(200))})
    found = arrow_values.readable_table(table)
    raw[17][2] = rb"\xFF\xFE"
    expected = [text.decode() for texts in raw for text in texts]
    assert found["text"].to_pylist() == expected
    assert found["n"].equals(table["n"])
