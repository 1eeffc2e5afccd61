"""Hostile sources at random, of every kind that a front door reads.

They hold values that can be recognised (``PLANTED``), in case that an error quotes one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

WORD, NUMBER = "qzx" + "wvk", 7_357_135
PLANTED = (WORD, str(NUMBER))
"""In texts, and as numbers, of the data and nowhere else: no error may show them."""


class Evil:
    """An object that answers every question with an error which quotes it."""

    def __str__(self) -> str:
        raise RuntimeError(WORD)

    __repr__ = __hash__ = __eq__ = __str__  # type: ignore[assignment]


def _nested(depth: int) -> list[Any]:
    value: list[Any] = [WORD]
    for _ in range(depth):
        value = [value]
    return value


def _bad_text(n: int) -> pa.Array:
    raw = [b"a", WORD.encode(), b"\xff" + WORD.encode(), b"", None, b"\xc3"]
    return pa.array([raw[i % 6] for i in range(n)], pa.binary()).view(pa.string())


OBJECTS: tuple[Any, ...] = (
    *(WORD, NUMBER, None, float("nan"), "", "1.2.3.4", "a/b/c", "2020-01-02", "\ud800" + WORD),
    *(
        10**5000 + NUMBER,
        2**60 + NUMBER,
        1e300,
        0.5,
        True,
        b"\xff" + WORD.encode(),
        Decimal("1.50"),
    ),
    *(Decimal("NaN"), dt.date(2020, 1, 2), dt.datetime(9999, 1, 1), pd.NaT, pd.NA, [WORD, None]),
    *({WORD: NUMBER}, (1, 2), {1}, np.float32("nan"), np.datetime64("NaT", "ns"), np.arange(3), 1j),
    *(_nested(30_000), Evil(), object, pd.Timestamp("2020-01-01", tz="UTC"), memoryview(b"ab")),
)


UNITS = ("s", "ms", "us", "ns")
OLD_ARROW = int(pa.__version__.split(".")[0]) < 26  # with it DuckDB dies of bad text in a view
PANDAS_3 = pd.__version__ >= "3"  # pandas 2 reads no file with text that is no UTF-8

# -- columns ---------------------------------------------------------------------------------------


def some(
    r: random.Random, n: int, values: Sequence[Any], kind: pa.DataType | None = None
) -> pa.Array:
    return pa.array([r.choice(values) for _ in range(n)], kind)


def arrow_column(r: random.Random, n: int) -> pa.Array:
    unit = r.choice(UNITS)
    far = [0, 10**9, NUMBER, None, 2**62, -(2**62)]
    made: list[Callable[[], pa.Array]] = [
        lambda: some(r, n, ("a/b", "/a", "/", "//", WORD, "", None, "10.0.0.1")),
        lambda: _bad_text(n),
        lambda: _bad_text(n).cast(r.choice((pa.large_string(), pa.string_view()))),
        lambda: _bad_text(n).dictionary_encode(),
        lambda: some(r, n, (NUMBER, -1, 2**63 - 1, None), pa.int64()),
        lambda: some(r, n, (NUMBER, 2**64 - 1, None), pa.uint64()),
        lambda: some(r, n, (0.5, float("nan"), 1e300, None)),
        lambda: some(r, n, (1.0, 2.0**60, float(NUMBER), -0.0)),
        lambda: some(r, n, far, pa.timestamp(unit)),
        lambda: some(r, n, far, pa.timestamp("s", tz="UTC")),
        lambda: some(r, n, (0, 2**31 - 1, None), pa.date32()),
        lambda: some(r, n, (Decimal("1.50"), Decimal(NUMBER), None), pa.decimal128(30, 2)),
        lambda: some(r, n, (True, None), pa.bool_()),
        lambda: some(r, n, (b"\xff", WORD.encode(), None), pa.binary()),
        lambda: some(r, n, ([WORD], [], None), pa.list_(pa.string())),
        lambda: pa.array([{"x": WORD, "y": NUMBER}] * n),
        lambda: pa.array([[0, 2**62]] * n, pa.list_(pa.timestamp("s"))),
        lambda: pa.array([NUMBER] * n, pa.duration(unit)),
        lambda: pa.array([NUMBER % 86400] * n, pa.time32("s")),
        lambda: pa.nulls(n),
    ]
    return r.choice(made)()


def pandas_column(r: random.Random, n: int) -> Any:
    unit = r.choice(UNITS)
    listed = ("a/b", "/a", "/", "//", WORD, "", None, "10.0.0.1", "x.org")
    texts = [r.choice(listed) for _ in range(n)]
    made: list[Callable[[], Any]] = [
        lambda: pd.Series(texts, dtype="str"),
        lambda: pd.Series(pd.arrays.ArrowExtensionArray(_bad_text(n))),
        lambda: pd.Series(pd.arrays.ArrowExtensionArray(_bad_text(n).cast(pa.string_view()))),
        lambda: pd.Series(pd.arrays.ArrowExtensionArray(arrow_column(r, n))),
        lambda: _as_frame(pa.table({"c": _bad_text(n) if PANDAS_3 else pa.nulls(n)}))["c"],
        lambda: pd.Series([r.choice(OBJECTS) for _ in range(n)], dtype=object),
        lambda: pd.Series([r.choice(OBJECTS) for _ in range(n)], dtype=object),
        lambda: pd.Series([NUMBER + i for i in range(n)], dtype="int64"),
        lambda: pd.Series([2**60 + NUMBER + i for i in range(n)], dtype="float64"),
        lambda: pd.Series([r.choice((NUMBER, pd.NA)) for _ in range(n)], dtype="Int64"),
        lambda: pd.Series([r.choice((True, pd.NA)) for _ in range(n)], dtype="boolean"),
        lambda: pd.Series(np.full(n, 2**62), dtype=f"datetime64[{unit}]"),
        lambda: pd.Series(np.zeros(n), dtype="datetime64[us, Europe/Berlin]"),
        lambda: pd.Series(texts, dtype=object).astype("category"),
        lambda: pd.Series([Decimal("1.5"), Decimal("2.25")] * n)[:n].astype("category"),
        lambda: pd.Series(pd.period_range("2020", periods=n, freq="M")),
        lambda: pd.Series(pd.interval_range(0, n or 1, periods=n or 1)[:n]),
        lambda: pd.Series(np.full(n, NUMBER), dtype="timedelta64[s]"),
        lambda: pd.Series(np.full(n, 1j)),
        lambda: pd.Series(pd.arrays.SparseArray(np.zeros(n))),
        lambda: pd.Series([np.nan] * n),
        lambda: pd.Series([None] * n, dtype=object),
    ]
    return r.choice(made)()


def _as_frame(table: pa.Table) -> pd.DataFrame:
    """As pandas reads a Parquet file: Arrow looks at no text."""
    file = io.BytesIO()
    pq.write_table(table, file)
    file.seek(0)
    return pd.read_parquet(file)


NAMES = ("c", "d", "u", "n")
ODD = (
    "", "\ud800", "C", "level", 'a"b', "a'b;--", "x" * 9_000, "\x00", "é", "t1", "dpframe_source",
)  # fmt: skip


# -- any Arrow type, harmless and hostile ----------------------------------------------------------

EXTENSIONS = ("bit", "bignum", "time_tz", "uhugeint", "variant", "geometry", "enum")


def _leaf(r: random.Random) -> pa.DataType:
    unit, numbers = r.choice(UNITS), (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64())
    made: list[Callable[[], pa.DataType]] = [
        lambda: r.choice((*numbers, pa.float16(), pa.float32(), pa.float64(), pa.bool_())),
        lambda: pa.decimal128(r.choice((1, 18, 38)), r.choice((0, 1))),
        lambda: r.choice((pa.decimal32(9, 2), pa.decimal64(18, 3))),
        lambda: r.choice((pa.date32(), pa.date64(), pa.month_day_nano_interval(), pa.null())),
        lambda: pa.timestamp(unit, r.choice((None, "UTC", "Europe/Berlin"))),
        lambda: pa.duration(unit),
        lambda: pa.time32(r.choice(("s", "ms"))),
        lambda: pa.time64(r.choice(("us", "ns"))),
        lambda: r.choice((pa.string(), pa.large_string(), pa.binary(), pa.large_binary())),
        lambda: r.choice((pa.string_view(), pa.binary_view(), pa.binary(3))),
        lambda: r.choice((pa.uuid(), pa.bool8(), pa.json_())),
        lambda: pa.opaque(r.choice((pa.binary(), pa.int64())), r.choice(EXTENSIONS), "DuckDB"),
    ]
    return r.choice(made)()


def arrow_type(r: random.Random, depth: int = 2) -> pa.DataType:
    if not depth or r.random() < 0.6:
        return _leaf(r)
    inside = arrow_type(r, depth - 1)
    made: list[Callable[[], pa.DataType]] = [
        lambda: pa.list_(inside),
        lambda: pa.large_list(inside),
        lambda: pa.list_(inside, 2),
        lambda: pa.struct([pa.field("a", inside), pa.field("b", _leaf(r))]),
        lambda: pa.map_(r.choice((pa.string(), pa.int64(), pa.float64())), inside),
        lambda: pa.dictionary(pa.int8(), _leaf(r)),
        lambda: pa.list_view(inside),
    ]
    return r.choice(made)()


def _some_null(r: random.Random, n: int, hostile: bool) -> pa.Buffer | None:
    """A bitmap in which some are NULL, only of a hostile array."""
    return pa.array([r.random() < 0.7 for _ in range(n)]).buffers()[1] if hostile else None


def any_array(r: random.Random, kind: pa.DataType, n: int, hostile: bool) -> pa.Array:
    """An array of a type. A hostile one holds random bytes, below NULLs and elsewhere, as far as
    memory stays safe; the other one zeros, or empty values."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, any_array(r, kind.storage_type, n, hostile))
    if pa.types.is_null(kind):
        return pa.nulls(n)
    if pa.types.is_dictionary(kind):
        values = any_array(r, kind.value_type, 3, hostile)
        valid = [not hostile or r.random() < 0.7 for _ in range(n)]
        places = bytes(r.randrange(3) if v else r.randrange(256) for v in valid)
        bitmap = pa.array(valid).buffers()[1]
        own = pa.Array.from_buffers(pa.int8(), n, [bitmap, pa.py_buffer(places)])
        return pa.DictionaryArray.from_arrays(own, values, safe=False)
    valid = _some_null(r, n, hostile)
    if pa.types.is_struct(kind):
        fields = [any_array(r, kind.field(i).type, n, hostile) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, n, [valid], children=fields)
    if pa.types.is_fixed_size_list(kind):
        inside = any_array(r, kind.value_type, 2 * n, hostile)
        return pa.Array.from_buffers(kind, n, [valid], children=[inside])
    if pa.types.is_map(kind):
        keys = any_array(r, kind.key_type, 2 * n, hostile)
        if keys.null_count:  # which Arrow refuses
            keys = any_array(r, kind.key_type, 2 * n, False)
        pairs = pa.struct([kind.key_field, kind.item_field])
        items = any_array(r, kind.item_type, 2 * n, hostile)
        entries = pa.Array.from_buffers(pairs, 2 * n, [None], children=[keys, items])
        ends = pa.array(range(0, 2 * n + 1, 2) if hostile else [0] * (n + 1), pa.int32())
        return pa.Array.from_buffers(kind, n, [valid, ends.buffers()[1]], children=[entries])
    if pa.types.is_list_view(kind):
        places, inside = range(0, 2 * n, 2), any_array(r, kind.value_type, 2 * n, hostile)
        return pa.ListViewArray.from_arrays(pa.array(places, pa.int32()), [2] * n, inside)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inside = any_array(r, kind.value_type, 2 * n, hostile)
        wide = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
        ends = pa.array(range(0, 2 * n + 1, 2), wide)
        return pa.Array.from_buffers(kind, n, [valid, ends.buffers()[1]], children=[inside])
    if kind in (pa.string_view(), pa.binary_view()):
        plain = pa.large_string() if kind == pa.string_view() else pa.large_binary()
        return (
            any_array(r, plain, n, hostile)
            .cast(pa.large_binary())
            .cast(pa.binary_view())
            .view(kind)
        )
    if kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        wide = pa.int64() if kind in (pa.large_string(), pa.large_binary()) else pa.int32()
        sizes = [r.choice((0, 1, 3, 20)) if hostile else 0 for _ in range(n)]
        ends = pa.array([sum(sizes[:i]) for i in range(n + 1)], wide).buffers()[1]
        texts = (b"\xff", b"a", b"{", b"1", b"'", b"\x00", WORD.encode()[:1])
        raw = b"".join(r.choice(texts) for _ in range(sum(sizes)))
        return pa.Array.from_buffers(kind, n, [valid, ends, pa.py_buffer(raw)])
    width = 8 if kind == pa.bool_() else kind.bit_width
    raw = r.randbytes(n * width // 8) if hostile else bytes(n * width // 8)
    if hostile and r.random() < 0.3:  # the ends of the range
        raw = b"".join(
            r.choice(
                (
                    b"\xff" * (width // 8 - 1) + b"\x7f",
                    bytes(width // 8 - 1) + b"\x80",
                    b"\xff" * (width // 8),
                )
            )
            for _ in range(n)
        )
    return pa.Array.from_buffers(kind, n, [valid, pa.py_buffer(raw + b"\0" * 8)])


METADATA = ("arrow.bool8", "arrow.json", "arrow.uuid", "arrow.opaque", "geoarrow.wkb", "x.y")


def pair_of_tables(r: random.Random, n: int) -> tuple[pa.Table, pa.Table]:
    """Two tables of one schema: only their values differ."""
    kinds = [arrow_type(r) for _ in ("c", "u", "n")]
    fields = []
    for name, kind in zip(("c", "u", "n"), kinds, strict=True):
        said = {"ARROW:extension:name": r.choice(METADATA)} if r.random() < 0.2 else None
        if said is not None and isinstance(kind, pa.BaseExtensionType):
            said = None
        fields.append(pa.field(name, kind, metadata=said))
    hostile, harmless = (
        pa.Table.from_arrays(
            [any_array(r, kind, n, bad) for kind in kinds], schema=pa.schema(fields)
        )
        for bad in (True, False)
    )
    return hostile, harmless


# -- sources ---------------------------------------------------------------------------------------


def _names(r: random.Random) -> list[str]:
    names = list(NAMES)
    if r.random() < 0.2:
        names[r.randrange(4)] = r.choice(ODD)
    return names


def pandas_frame(r: random.Random, folder: Path) -> Any:
    n = r.choice((0, 1, 7, 120))
    frame = pd.concat([pandas_column(r, n).reset_index(drop=True) for _ in NAMES], axis=1)
    names: list[Any] = _names(r)
    if r.random() < 0.1:
        names[r.randrange(4)] = r.choice((5, None, ("a", "b"), "c"))
    frame.columns = pd.Index(names, dtype=object)
    return frame


def arrow_table(r: random.Random, folder: Path) -> Any:
    n = r.choice((0, 1, 7, 120))
    names = [name.encode("utf-8", "replace").decode() for name in _names(r)]
    table = pa.Table.from_arrays([arrow_column(r, n) for _ in NAMES], names=names)
    if r.random() < 0.2 and n:
        return table.to_batches()[0]
    return table


def polars_frame(r: random.Random, folder: Path) -> Any:
    table = arrow_table(r, folder)
    columns: dict[str, Any] = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        try:
            columns[name] = pl.from_arrow(column)
        except Exception:  # what Polars does not hold
            columns[name] = pl.Series([WORD] * table.num_rows)
    if r.random() < 0.1:
        columns["c"] = pl.Series([object()] * table.num_rows, dtype=pl.Object)
    try:
        frame = pl.DataFrame(columns)
    except Exception:
        frame = pl.DataFrame({"c": [WORD]})
    if r.random() < 0.2:
        fails = frame.lazy().with_columns(c=pl.lit(WORD).cast(pl.Int64))
        return r.choice((frame.lazy(), fails))
    return frame


def relation(r: random.Random, folder: Path) -> Any:
    con = duckdb.connect()
    if r.random() < 0.2:
        query = r.choice(
            (
                f"SELECT ('{WORD}' || i)::INT AS c, i AS d, i AS u, i AS n FROM range(3) t(i)",
                "SELECT random() AS c, 1 AS d, 2 AS u, 3 AS n",
                f"SELECT MAP{{'{WORD}': 1}} AS c, [1] AS d, '{WORD}'::VARIANT AS u, 1 AS n",
                f"SELECT '{WORD}' AS c, 1 AS \"C\", 'x'::ENUM('x', '{WORD}') AS u, 1 AS n",
            )
        )
        return con.sql(query)
    return stored(con, r, folder).table("t")


def stored(con: duckdb.DuckDBPyConnection, r: random.Random, folder: Path) -> Any:
    """A table ``t`` with what DuckDB takes of an Arrow table."""
    con.execute("CREATE TABLE t AS SELECT i AS row FROM range(120) x(i)")
    for name in NAMES:
        column = arrow_column(r, 120)
        if pa.types.is_string_view(column.type) and OLD_ARROW:
            column = pa.nulls(120)
        con.register("given", pa.table({"row": np.arange(120), name: column}))
        with contextlib.suppress(duckdb.Error):
            con.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM t JOIN given USING (row)")
    return con


def file(r: random.Random, folder: Path) -> Any:
    path = (
        folder
        / f"{r.randrange(10**9)}{r.choice(('.csv', '.csv.gz', '.tsv', '.parquet', '.pq', '.txt'))}"
    )
    kind = r.randrange(11)
    lines = "c,d,u,n\n" + f"a/b,{WORD},1,{NUMBER}\n" * 20
    if kind == 0:
        return str(path)  # there is none
    if kind == 1:
        path.mkdir()
    elif kind == 2:
        return str(
            folder
            / r.choice(("x" * 5_000 + ".csv", "a\x00b.csv", "*.nothing.csv", "[.csv", "\ud800.csv"))
        )
    elif kind == 3:
        path.write_text(f"{WORD},{NUMBER},{WORD},{WORD}\n" * 9)  # no header: a record
    elif kind == 4:
        path.write_text("c," + "y" * 200_000 + f",u,n\n1,{WORD},3,4\n")
    elif kind == 5:
        path.write_bytes(
            r.choice((b"", b"\x1f\x8b\x08" + WORD.encode(), b"PAR1" + WORD.encode(), b"\x00" * 50))
        )
    elif kind == 6:
        path.write_bytes(lines.encode() + b"\xff\xfe," + WORD.encode() + b'\n"' + WORD.encode())
    elif kind == 7:
        pq.write_table(pa.table({"c": _bad_text(9)}), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode())[: r.choice((10_000, 30))])
    elif path.suffix in (".parquet", ".pq"):
        with contextlib.suppress(pa.ArrowException):  # what Parquet does not hold
            pq.write_table(pa.table({name: arrow_column(r, 9) for name in ("c", "d")}), path)
    else:
        path.write_text(lines)
    return r.choice((path, str(path)))


SOURCES = (pandas_frame, pandas_frame, arrow_table, polars_frame, relation, file)
NO_SOURCE = (
    None,
    5,
    [WORD],
    {"c": [WORD]},
    object(),
    pd.Series([WORD]),
    np.array([WORD]),
    b"x.csv",
)
