"""One value of a column, such as a NULL, decides nothing about how the other values are read."""

from __future__ import annotations

import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import as_hierarchy
from dpframe.sources import small_frames
from dpframe.sources.objects import readable_table
from dpframe.testing import seeded_noise
from tests.members import few, some
from tests.rollups import exact_counts, exact_tree

BUDGET = {"epsilon": 1.0, "delta": 1e-6}

WHOLE = [0, 7, -3, 2**53, 2**53 + 2, 10**16, -(10**18), 2**60, 2**63 - 1024, 7]
"""Integers of 64 bits that a double holds, too."""


def text_of_whole(source: object, spec: str) -> dict[Any, int]:
    """Exact counts of all nodes but for the NULL and the root."""
    return {k: v for k, v in exact_counts(source, as_hierarchy(spec)).items() if k and k[0]}


FLOATS: dict[str, Callable[[], object]] = {
    "pandas": lambda: pd.DataFrame({"x": [*WHOLE, None]}),
    "objects": lambda: pd.DataFrame({"x": pd.Series([*map(float, WHOLE), None], dtype=object)}),
    "categories": lambda: pd.DataFrame({"x": pd.Series([*WHOLE, None]).astype("category")}),
    "arrow": lambda: pa.table({"x": pa.array([*map(float, WHOLE), None])}),
    "polars": lambda: pl.DataFrame({"x": [*map(float, WHOLE), None]}),
    "duckdb": lambda: duckdb.from_arrow(pa.table({"x": pa.array([*map(float, WHOLE), None])})),
}


@some("columns:x", "path:x?depth=1")
@pytest.mark.parametrize("spec", ["columns:x", "code:x?lengths=1,3,17", "path:x?depth=1"])
def test_a_null_changes_no_text_of_whole_numbers(spec: str) -> None:
    """Law: the nodes of integers are those of the floats that pandas makes of them for one NULL."""
    expected = text_of_whole(pd.DataFrame({"x": WHOLE}), spec)
    if spec == "columns:x":
        assert expected == {(str(n),): WHOLE.count(n) for n in WHOLE}
    for name, source in FLOATS.items():
        assert text_of_whole(source(), spec) == expected, name


def test_listed_keys_and_streams_read_whole_floats_as_integers() -> None:
    """Keys are written as the integers that they are; so are keys in sketches."""
    frame = pd.DataFrame({"x": [10**16] * 300 + [None]})
    listed = dp.tree_counts(frame, ["x"], keys=[10**16, 7], **BUDGET)
    assert {"10000000000000000", "7"} <= set(listed["prefix"])
    with pytest.raises(dp.ColumnError, match=f"show as '{2**60}'"):
        dp.tree_counts(frame, ["x"], keys=[2**60 + 1], **BUDGET)
    stream = dp.StreamingHHH(["x"], counters=8)
    stream.update(frame)
    stream.update(frame.dropna().astype("int64"))
    assert list(stream.release(**BUDGET)["prefix"]) == ["10000000000000000"]


def test_floats_beyond_2_53_are_told_apart_as_far_as_they_differ() -> None:
    """The stated limit: ids that are the same double are one user, whatever they were before."""
    ids = [2**60 + i for i in range(1_000)]
    unit = PrivacyUnit(user="u")
    hierarchy = as_hierarchy(["k"])
    for values, users in ((ids, 1_000), ([*ids, None], len(set(map(float, ids))) + 1)):
        frame = pd.DataFrame({"u": values, "k": "a"})
        assert exact_tree(frame, hierarchy, unit).count[0] == users * unit.grid


def test_batches_of_a_generator_may_have_a_null() -> None:
    """Law: a NULL in a later batch is left out, and stops or changes nothing else."""
    parts = [
        pd.DataFrame({"x": [1, 2, 3], "b": [True, False, True]}),
        pd.DataFrame({"x": [1, None, 3], "b": [True, False, None]}),
        pa.table({"x": pa.nulls(2), "b": pa.nulls(2)}),
        pa.table({"x": pa.array([Decimal("1.50")]), "b": pa.array([True])}),
    ]

    def finished(batches: list[Any]) -> dp.Generator:
        stream = dp.PrivHP(
            ["number:x?lower=0&upper=4", "columns:b"], keys=["true", "false"], k=4, seed=1
        )
        for batch in batches:
            stream.update(batch)
        with seeded_noise(1):
            return stream.finish(epsilon=1.0)

    whole = pd.DataFrame({"x": [1, 2, 3, 1, 1.5], "b": [True, False, True, True, True]})
    found = finished(parts)
    assert found.counts().equals(finished([whole]).counts())
    for rows in (found, finished(parts[2:3] + parts[:1])):
        assert [str(kind) for kind in rows.sample(3).dtypes] == ["int64", "bool"]
    one, other = (dp.PrivHP({"x": (0, 4)}, k=4, seed=1) for _ in range(2))
    one.update(parts[0])
    other.update(parts[1])
    assert one.merge(other)._state.records == 5
    with pytest.raises(dp.ParameterTypeError, match="other types"):
        one.update(pd.DataFrame({"x": ["1"]}))


def test_one_decimal_changes_no_category() -> None:
    """Law: categories that are objects are texts, each its own; Arrow would give them one scale."""
    values = [Decimal("1.5"), Decimal("1.5"), Decimal("2.25")]
    for last in ([], [Decimal("3.125")]):
        frame = pd.DataFrame({"x": pd.Series([*values, *last], dtype=object).astype("category")})
        found = exact_counts(frame, as_hierarchy(["x"]))
        assert found[("1.5",)] == 2
        assert found[("2.25",)] == 1


# -- text that is no UTF-8 -----------------------------------------------------------------------


def bad_bytes_as_hexadecimal(raw: bytes) -> str:
    """Bytes that are no UTF-8 as DuckDB would write them, by Python's own decoder."""
    text = raw.decode("utf-8", "backslashreplace")
    return text.replace("\\xff", "\\xFF").replace("\\xc3", "\\xC3")


BAD = [b"good"] * 5 + [b"b\xffd", b"\xc3"]
REPAIRED = {"good": 5, "b\\xFFd": 1, "\\xC3": 1}


def bad(kind: pa.DataType) -> pa.Array:
    return pa.array(BAD, pa.large_binary()).view(pa.large_string()).cast(kind)


def read_parquet(column: pa.Array) -> pd.DataFrame:
    file = io.BytesIO()
    pq.write_table(pa.table({"x": column}), file)
    return pd.read_parquet(file)


OF_ITEMS: dict[str, Any] = {"user": "x", "contribution": "items", "max_contributions": 1}
OF_ITEMS |= {"mechanism": "streaming", "counters": 8}
STRING, LARGE, VIEW = pa.string(), pa.large_string(), pa.string_view()

NO_UTF8: dict[str, Callable[[], Any]] = {
    "pandas of a file": lambda: read_parquet(bad(STRING)),
    "ArrowDtype": lambda: pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(bad(LARGE))}),
    "ArrowDtype view": lambda: pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(bad(VIEW))}),
    "Polars": lambda: pl.from_arrow(pa.table({"x": bad(STRING)})),
    "Polars view": lambda: pl.from_arrow(pa.table({"x": bad(VIEW)})),
    "Arrow": lambda: pa.table({"x": bad(STRING)}),
    "Arrow view": lambda: pa.table({"x": bad(VIEW)}),
    "Arrow chunks": lambda: pa.concat_tables(
        [pa.table({"x": bad(VIEW).slice(0, 6)}), pa.table({"x": bad(VIEW).slice(6)})]
    ),
    "Arrow batch": lambda: pa.record_batch({"x": bad(LARGE)}),
    "dictionary": lambda: pa.table({"x": bad(STRING).dictionary_encode()}),
}


@some("pandas of a file", "ArrowDtype view", "Polars view", "Arrow", "Arrow chunks")
@pytest.mark.parametrize("name", NO_UTF8)
def test_text_that_is_no_utf8_is_repaired_in_every_frame(name: str) -> None:
    """Law: a bad value is repaired on its own, and is no error, by whichever door it comes."""
    if name == "Polars view" and pl.__version__ < "2":
        pytest.skip("this Polars ends the process when it is given such text")
    if name == "pandas of a file" and pd.__version__ < "3":
        pytest.skip("this pandas reads no such file")
    frame = NO_UTF8[name]()
    found = exact_counts(frame, as_hierarchy("path:x?depth=1"))
    assert {key[0]: n for key, n in found.items() if key} == REPAIRED
    user = PrivacyUnit(user="x")
    assert exact_tree(frame, as_hierarchy("path:x?depth=1"), user).count[0] == 3 * user.grid
    stream = dp.StreamingHHH(["x"], counters=8)
    stream.update(frame)
    assert {key[1:] for sketch in stream._levels for key, _ in sketch.top()} == set(REPAIRED)
    if name not in ("pandas of a file", "Polars view", "Arrow view"):
        return  # the doors below read frames as those above do
    dp.hhh(frame, ["x"], **OF_ITEMS, **BUDGET)
    keys = frame.to_pandas().head(1) if "Polars" in name else ["good"]
    dp.tree_counts(frame, "path:x?depth=1", keys=keys, **BUDGET)
    dp.synthesize(frame, "columns:x", keys=["good"], epsilon=1.0).sample(2)
    with pytest.raises(dp.ParameterError, match="devices"):  # it was read
        dp.prefix_tree(frame, "x", user="x", devices=100, length=2, iterations=1, **BUDGET)


def test_text_that_is_no_utf8_is_repaired_in_keys_lists_and_sketches() -> None:
    """The same for keys that are listed, for text inside of other values, and for raw sketches."""
    frame = pa.table({"x": ["a"] * 300})
    found = dp.tree_counts(frame, ["x"], keys=bad(VIEW).slice(4, 2), **BUDGET)
    assert {"good", "b\\xFFd"} <= set(found["prefix"])
    lists = pa.ListArray.from_arrays(pa.array([0, 6, 7], pa.int32()), bad(STRING))
    assert list(exact_counts(pa.table({"x": lists}), as_hierarchy(["x"]))) == [
        *((), (r"['\\xC3']",), (r"[good, good, good, good, good, 'b\\xFFd']",))
    ]
    with pytest.raises(dp.ColumnError, match="Cast the column to text"):
        dp.hhh(pa.table({"x": pa.array([["a"]], pa.list_view(pa.string()))}), ["x"], **BUDGET)
    for keys in (bad(STRING), bad(VIEW), pd.Series(pd.arrays.ArrowExtensionArray(bad(LARGE)))):
        sketch = dp.MisraGries(8)
        sketch.update(keys)
        assert dict(sketch.top()) == REPAIRED
        items = dp.PrivacyAwareMisraGries(8, 8)
        items.update(keys)
        assert {key for key, _ in items.top()} == set(REPAIRED)
    again = dp.PrivacyAwareMisraGries(8, 2)
    again.update_users(pa.array(sorted(BAD)).view(STRING), [*range(7)])
    assert again.total == 4
    sketch = dp.MisraGries(8)
    sketch.update(["a", "\ud800"])
    assert dict(sketch.top()) == {"a": 1, r"\xED\xA0\x80": 1}


FAR = pa.array([2**31 - 1, -(2**31), None, 0, 1], pa.int32()).view(pa.date32())
IDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 5, pa.binary(16)))


def nests() -> dict[str, pa.Array]:
    """Arrays of five with bad text inside, beside values that Python cannot hold, and nulls."""
    raw = [b"good", None, b"b\xff", b"\xc3", b"x"]
    text = pa.array(raw, pa.large_binary()).view(LARGE).cast(STRING)
    gap = pa.array([False, False, True, False, False])
    struct = pa.StructArray.from_arrays([text, FAR, IDS], names=["t", "far", "id"], mask=gap)
    ends = pa.array([0, 2, None, 3, 4, 5], pa.int32())
    lists = pa.ListArray.from_arrays(ends, struct)
    keys = pa.array(range(5), pa.int64())
    return {
        "struct": struct,
        "list": lists,
        "large list": pa.LargeListArray.from_arrays(ends.cast(pa.int64()), struct),
        "fixed-size list": pa.FixedSizeListArray.from_arrays(
            pa.concat_arrays([text, text]), 2, mask=gap
        ),
        "map": pa.MapArray.from_arrays(pa.array([0, 2, 2, 3, 4, 5], pa.int32()), keys, text),
        "struct of slices": pa.StructArray.from_arrays(
            [pa.concat_arrays([struct, struct]).slice(2, 5), lists], ["s", "l"]
        ),
    }


def leaves(array: pa.Array) -> list[list[Any]]:
    """What an array holds at the bottom, bad text replaced."""
    if pa.types.is_struct(array.type):
        return [column for field in array.flatten() for column in leaves(field)]
    if pa.types.is_map(array.type):
        return leaves(array.cast(pa.list_(array.values.type)))
    if array.type.num_fields:
        return leaves(array.flatten())
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    if pa.types.is_date32(stored.type):
        stored = stored.view(pa.int32())  # days that Python cannot hold
    if pa.types.is_integer(stored.type):
        return [stored.to_pylist()]
    values = stored.cast(pa.large_binary()).to_pylist()
    return [[v if v is None else bad_bytes_as_hexadecimal(v) for v in values]]


@pytest.mark.parametrize("name", nests())
def test_text_inside_is_repaired_without_touching_what_is_beside_it(name: str) -> None:
    """Law: siblings, nulls and slices are the same before and after; no value is an error."""
    whole = nests()[name]
    for part in (whole, whole.slice(1), whole.slice(1, 3), whole.slice(5)):
        (repaired,) = readable_table(pa.table({"x": part}))["x"].chunks
        repaired.validate(full=True)
        assert (repaired.type == part.type) == (name != "map")  # which becomes a list of pairs
        assert repaired.is_valid().equals(part.is_valid())
        assert leaves(repaired) == leaves(part)
    assert exact_counts(pa.table({"x": whole}), as_hierarchy(["x"]))[()] == 5


# -- times out of all that SQL can hold ----------------------------------------------------------

MOST = 2**63 - 1
TIMES = [
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("us", "ns")),
    *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us")),
]


@some("duration[s]", "time64[us]", "timestamp[us, tz=UTC]")
@few(5, "kind", TIMES, ids=str)
def test_no_time_is_an_error(kind: pa.DataType) -> None:
    """Law: a time out of range is moved to the nearest that is none, inside of others too, and
    the rows beside it are what they are without it."""
    whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    most = 2**31 - 1 if whole == pa.int32() else MOST
    column = pa.array([1, 1, most, -most - 1, None], whole).view(kind)
    ends = pa.array(range(6), pa.int32())
    for nested in (
        column,
        pa.ListArray.from_arrays(ends, column),
        pa.StructArray.from_arrays([column], ["t"]),
        pa.DictionaryArray.from_arrays(ends[:5], column),
    ):
        found = exact_counts(pa.table({"x": nested}), as_hierarchy(["x"]))
        alone = exact_counts(pa.table({"x": nested.slice(0, 2)}), as_hierarchy(["x"]))
        assert alone[()] == 2
        assert found[()] == 5
        assert max(n for key, n in found.items() if key) == 2
        assert set(alone) <= set(found)
        exact_tree(pa.table({"x": nested}), as_hierarchy(["x"]), PrivacyUnit(user="x"))


def test_a_pandas_duration_out_of_microseconds_is_the_longest() -> None:
    """The same by the pandas door."""
    frame = pd.DataFrame({"x": np.array([1, 1, MOST], dtype="m8[s]")})
    assert exact_counts(frame, as_hierarchy(["x"]))[("00:00:01",)] == 2


# -- objects -------------------------------------------------------------------------------------


class Silent:
    """An object without a text."""

    def __str__(self) -> str:
        raise RuntimeError("the value itself")


def nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("make", [Silent, nested, lambda: 10**5_000], ids=["str", "deep", "digits"])
def test_an_object_without_a_text_is_missing(make: Callable[[], Any]) -> None:
    """Law: what an object does when it is asked for its text stops no other row."""
    odd = make()
    frame = pd.DataFrame({"x": pd.Series(["a", odd, "a", 1], dtype=object)})
    assert exact_counts(frame, as_hierarchy(["x"])) == {(): 4, (None,): 1, ("1",): 1, ("a",): 2}


@some(0, 2)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_a_nan_in_a_parquet_file_is_a_nan(kind: pa.DataType, tmp_path: Path) -> None:
    """Law: it makes no call fail and counts nothing, as in a frame. DuckDB takes it for a number
    between the others: the statistics of a file, from which it answers comparisons, leave it out.
    """
    numbers = pa.array([np.float16(x) for x in (0.5, 2, 3, np.nan)] * 100, kind)
    rows = pa.table({"x": numbers, "k": ["a"] * 400, "u": [*map(str, range(400))]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    with duckdb.connect() as con:
        for ask in NUMBERS:
            with seeded_noise(7):
                expected = ask(rows)
            for source in (path, con.read_parquet(path)):
                with seeded_noise(7):
                    pd.testing.assert_frame_equal(ask(source), expected)
        for spec in ("columns:x", "number:x?lower=0&upper=4&depth=2"):
            expected_counts = exact_counts(rows, as_hierarchy(spec))
            assert exact_counts(path, as_hierarchy(spec)) == expected_counts


BOUNDED = "number:x?lower=0&upper=4&depth=2"

NUMBERS: list[Callable[[Any], pd.DataFrame]] = [
    lambda s: dp.rollup(s, ["k"], measures="sum(x, 0, 4, clipped=true)", **BUDGET),
    lambda s: dp.rollup(s, ["k"], measures="sum(x, auto, auto)", **BUDGET),
    lambda s: dp.rollup(s, ["k"], measures="mean(x, 0, 4)", **BUDGET),
    lambda s: dp.rollup(s, ["k"], measures="sum(x, 0, 4)", user="u", **BUDGET),
    lambda s: dp.rollup(s, ["k"], measures="mean(x, 0, 4)", user="u", **BUDGET),
    lambda s: dp.rollup(s, f"k * {BOUNDED}", measures="sum(x, 0, 4)", **BUDGET),
    lambda s: dp.hhh(s, ["k"], weight="x", max_weight=4, **BUDGET),
    lambda s: dp.hhh(s, ["k"], weight="x", max_weight=4, user="u", **BUDGET),
    lambda s: dp.hhh(s, BOUNDED, mechanism="streaming", counters=64, **BUDGET),
    lambda s: dp.tree_counts(s, BOUNDED, keys="domain", epsilon=1.0),
]
"""Questions that read numbers."""


# -- what DuckDB cannot hold -----------------------------------------------------------------------


def below_null(kind: pa.DataType, number: int, n: int = 300) -> pa.Array:
    """NULLs of a type of 64 bits, with a number below each."""
    nulls = pa.nulls(n, pa.int64()).buffers()[0]
    return pa.Array.from_buffers(kind, n, [nulls, pa.py_buffer(np.full(n, number).tobytes())])


def with_metadata(array: pa.Array, extension: str, text: str = "") -> pa.Table:
    said = {"ARROW:extension:name": extension, "ARROW:extension:metadata": text}
    return pa.Table.from_arrays(
        [array], schema=pa.schema([pa.field("x", array.type, metadata=said)])
    )


BIT = '{"type_name": "bit", "vendor_name": "DuckDB"}'
PAIRS = pa.MapArray.from_arrays(
    pa.array(range(0, 602, 2), pa.int32()), pa.array(["a", "a"] * 300), pa.array([1, 2] * 300)
)
HOSTILE: dict[str, Any] = {
    **{f"duration {u}": below_null(pa.duration(u), 2**62 + 7) for u in ("s", "ms", "us", "ns")},
    "durations in lists": pa.ListArray.from_arrays(
        pa.array(range(301), pa.int32()), below_null(pa.duration("s"), 2**62 + 7)
    ),
    "-2^127": pa.Array.from_buffers(
        pa.decimal128(38, 0), 300, [None, pa.py_buffer((bytes(15) + b"\x80") * 300)]
    ),
    "a key twice": PAIRS,
    "bit": pa.ExtensionArray.from_storage(
        pa.opaque(pa.binary(), "bit", "DuckDB"), pa.array([b"", b"\xff"] * 150)
    ),
    "bit by metadata": with_metadata(pa.array([b"", b"\xff"] * 150), "arrow.opaque", BIT),
    "bool8": with_metadata(pa.array([1, 2] * 150, pa.int8()), "arrow.bool8"),
    "wkb": with_metadata(pa.array([1, 2] * 150), "geoarrow.wkb"),
    "json": with_metadata(pa.array(["{x", "1"] * 150), "arrow.json"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_value_that_duckdb_cannot_hold_fails_no_call(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: it is counted, in small frames as in large ones."""
    given = HOSTILE[name]
    table = given if isinstance(given, pa.Table) else pa.table({"x": given})
    small = exact_counts(table, as_hierarchy(["x"]))
    monkeypatch.setattr(small_frames, "MOST", 0)
    assert exact_counts(table, as_hierarchy(["x"])) == small
    assert small[()] == 300
    dp.hhh(table, ["x"], **BUDGET)


def test_missing_durations_of_pandas_and_polars_fail_no_call() -> None:
    """``df["until"] - df["since"]``, of which one is missing."""
    since = pd.to_datetime(pd.Series(["2026-01-01", None] * 100)).astype("datetime64[s]")
    frame = pd.DataFrame({"x": since - pd.Timestamp("2025-01-01").as_unit("s")})
    for given in (frame, pl.from_pandas(frame), pa.table(frame)):
        assert exact_counts(given, as_hierarchy(["x"]))[()] == 200


def test_a_text_that_is_no_json_fails_no_call(tmp_path: Path) -> None:
    """In a relation it is no number, and in a file a text."""
    con = duckdb.connect()
    con.register("given", with_metadata(pa.array(["{x", "1"] * 150), "arrow.json"))
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    spec = "number:x?lower=0&upper=8&depth=3"
    assert exact_counts(con.table("t"), as_hierarchy(spec))[(None,)] == 150
    dp.register(con)
    con.execute(f"FROM dp_hhh('t', '{spec}', epsilon := 1.0, delta := 1e-6)").fetchall()
    con.execute(f"COPY t TO '{tmp_path}/t.parquet'")
    assert exact_counts(tmp_path / "t.parquet", as_hierarchy(["x"]))[("{x",)] == 150


def test_nul_in_the_name_of_a_column_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (50_000, 0):
        monkeypatch.setattr(small_frames, "MOST", most)
        with pytest.raises(dp.ColumnError, match=r"has a NUL in its name\. Rename"):
            dp.hhh(pd.DataFrame({"a\0b": ["x"]}), ["a\0b"], **BUDGET)


def _raw(kind: pa.DataType, value: int) -> pa.Array:
    width = kind.bit_width // 8
    bytes_of = value.to_bytes(width, "little", signed=True)
    return pa.Array.from_buffers(kind, 60, [None, pa.py_buffer(bytes_of * 60)])


def _opaque(kind: str, storage: pa.DataType, value: object) -> pa.Array:
    own = pa.opaque(storage, kind, "DuckDB")
    return pa.ExtensionArray.from_storage(own, pa.array([value] * 60, storage))


STORED_BY_DUCKDB: dict[str, pa.Array] = {
    "TIME": _raw(pa.time64("us"), 2**62),
    "TIME_NS": _raw(pa.time64("ns"), -(2**62)),
    "DECIMAL(38,0)": _raw(pa.decimal128(38, 0), -(2**127)),
    "BIT": _opaque("bit", pa.binary(), b""),
    "TIME WITH TIME ZONE": _opaque("time_tz", pa.int64(), -1),
}


def fails_nowhere(column: pa.Array, made: str = "TABLE") -> None:
    """Of a relation, as key and as user, and of a table named in SQL; the caller's database stays
    open."""
    con = duckdb.connect()
    con.register("given", pa.table({"c": column, "u": range(60)}))
    con.execute(f"CREATE {made} t AS SELECT * FROM given")
    for arguments in ({}, {"user": "u"}, {"mechanism": "streaming"}):
        dp.hhh(con.table("t"), ["c"], **BUDGET, **arguments)
    dp.hhh(con.table("t"), ["u"], user="c", **BUDGET)
    if made == "TABLE":
        dp.register(con)
        for rest in ("'columns:c'", "'columns:c', user := 'u'", "'columns:u', user := 'c'"):
            con.execute(f"SELECT * FROM dp_hhh('t', {rest}, epsilon := 1, delta := 1e-6)")
    assert con.execute("SELECT 1").fetchall() == [(1,)]


@some(
    "TIME-itself-TABLE",
    "TIME_NS-inside-VIEW",
    "DECIMAL(38,0)-inside-TABLE",
    "BIT-itself-VIEW",
    "TIME WITH TIME ZONE-itself-TABLE",
    "BIT-inside-TABLE",
)
@pytest.mark.parametrize("made", ["TABLE", "VIEW"])
@pytest.mark.parametrize("inside", [False, True], ids=["itself", "inside"])
@pytest.mark.parametrize("kind", STORED_BY_DUCKDB)
def test_malformed_values_that_duckdb_holds_fail_nowhere(
    kind: str, inside: bool, made: str
) -> None:
    """Law: in lists in structs too, stored or registered."""
    column = STORED_BY_DUCKDB[kind]
    if inside:
        lists = pa.ListArray.from_arrays(pa.array(range(61), pa.int32()), column)
        column = pa.StructArray.from_arrays([lists], ["a"])
    fails_nowhere(column, made)


@pytest.mark.parametrize("question", ["columns:c", "number:c?lower=0&upper=9&depth=3"])
def test_bignum_is_refused_by_its_type(question: str) -> None:
    """Law: no SQL tells a malformed one from others, so that each is refused, before it is read."""
    con = duckdb.connect()
    con.register("given", pa.table({"c": _opaque("bignum", pa.binary(), b"")}))
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    with pytest.raises(dp.ColumnError, match="has type BIGNUM"):
        dp.hhh(con.table("t"), question, epsilon=1.0, delta=1e-6)
    assert con.execute("SELECT 1").fetchall() == [(1,)]


FILES: dict[str, tuple[pa.Array, str]] = {
    "text that is no UTF-8": (pa.array([b"\xff", b"b"], pa.binary()).view(pa.string()), "b"),
    "timestamp in milliseconds": (
        pa.array([2**62, 0], pa.int64()).view(pa.timestamp("ms")),
        "1970-01-01 00:00:00",
    ),
    "timestamp of INT96": (
        pa.array([-(2**63), 0], pa.int64()).view(pa.timestamp("us")),
        "1970-01-01 00:00:00",
    ),
    "time of the day": (pa.array([2**62, 0], pa.int64()).view(pa.time64("ns")), "00:00:00"),
    "key of a map twice": (
        pa.MapArray.from_arrays(
            pa.array([0, 2, 3], pa.int32()), pa.array(["a", "a", "b"]), pa.array([1, 1, 1])
        ),
        "[{'key': b, 'value': 1}]",
    ),
}
"""By what is wrong with the first value: two values, and how the other one is read."""


@pytest.mark.parametrize("name", FILES)
def test_a_value_at_which_the_reader_of_parquet_fails_fails_no_call(
    name: str, tmp_path: Path
) -> None:
    """Law: the other values are counted, beside UUIDs, and other columns of the file are read."""
    (column, other), path = FILES[name], tmp_path / "t.parquet"
    rows = {"c": column, "u": pa.array([b"u" * 16] * 2, pa.uuid()), "n": [1, 2]}
    pq.write_table(pa.table(rows), path, use_deprecated_int96_timestamps="INT96" in name)
    users = "75757575-7575-7575-7575-757575757575", "u" * 16  # Arrow 20 writes bytes
    counts = exact_counts(path, as_hierarchy(["c", "u"]))
    assert (counts[()], len(counts)) == (2, 5)
    assert [counts[other, user] for user in users if (other, user) in counts] == [1]
    assert exact_counts(path, as_hierarchy(["n"]))[()] == 2


MILLISECONDS = pa.array([0, 1], pa.int64()).view(pa.timestamp("ms"))

APART: dict[str, tuple[pa.Table, pa.Table]] = {
    "another type": (
        pa.table({"c": MILLISECONDS}),
        pa.table({"c": MILLISECONDS.cast(pa.timestamp("us"))}),
    ),
    "no such column": (pa.table({"c": MILLISECONDS}), pa.table({"d": [1, 2]})),
    "a capital letter": (pa.table({"c": MILLISECONDS}), pa.table({"C": MILLISECONDS})),
    "a name twice": (
        pa.Table.from_arrays([MILLISECONDS] * 2, names=["c", "C"]),
        pa.table({"c": MILLISECONDS}),
    ),
}


@pytest.mark.parametrize("name", APART)
def test_files_of_a_pattern_that_arrow_would_read_by_their_values_are_refused(
    name: str, tmp_path: Path
) -> None:
    """Law: by their schemas, before a value is read."""
    for i, table in enumerate(APART[name]):
        pq.write_table(table, tmp_path / f"{i}.parquet")
    with pytest.raises(
        dp.DpframeError, match=r"Write the files alike|one name|does not exist"
    ) as e:
        dp.hhh(str(tmp_path / "*.parquet"), ["c"], epsilon=1.0, delta=1e-6)
    assert "withheld" not in str(e.value) or name == "no such column"


def test_columns_that_cannot_be_read_beside_times_of_the_day_are_refused(tmp_path: Path) -> None:
    """Law: by type, before a value is read."""
    path, types = tmp_path / "t.parquet", ("TIME[]", "INTERVAL", "STRUCT(a UUID)")
    made = ", ".join(f"NULL::{kind} AS c{i}" for i, kind in enumerate(types))
    duckdb.sql(f"SELECT {made}, NULL::TIME AS t FROM range(9)").write_parquet(str(path))
    for i in range(len(types)):
        with pytest.raises(dp.ColumnError, match=f"'c{i}'"):
            dp.hhh(path, [f"c{i}", "t"], epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("nested", ["list", "array", "struct of lists"])
def test_texts_that_are_no_json_fail_nowhere_inside_of_other_types(nested: str) -> None:
    """Law: of a relation and a table named in SQL; no error of DuckDB's quotes one."""
    own = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{x", ""] * 30))
    column = pa.ListArray.from_arrays(pa.array(range(61), pa.int32()), own)
    if nested == "array":
        column = pa.FixedSizeListArray.from_arrays(own, 1)
    elif nested == "struct of lists":
        column = pa.StructArray.from_arrays([column], ["a"])
    fails_nowhere(column)
