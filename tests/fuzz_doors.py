"""Hostile calls of every front door: sources, specifications and arguments at random.

A case is a call that either answers with a well-formed frame and a receipt, or raises an error of
ours in whose text no value of the data stands; a call that is refused is charged nothing. Data hold
recognisable values (``PLANTED``) for that. ``run(seed, cases, folder)`` raises AssertionError with
the case's own seed, and ``run_case`` runs that one again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import random
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dpframe as dp
from dpframe.frontends import cli

WORD, NUMBER = "qzx" + "wvk", 7_357_135
PLANTED = (WORD, str(NUMBER))
"""In texts, and as numbers, of the data and nowhere else: no error may show them."""

TOTAL = 9e5
"""Epsilon of the ledger, which no run spends."""


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
    *(10**5000 + NUMBER, 2**60 + NUMBER, 1e300, 0.5, True, b"\xff" + WORD.encode(), Decimal("1.50")),
    *(Decimal("NaN"), dt.date(2020, 1, 2), dt.datetime(9999, 1, 1), pd.NaT, pd.NA, [WORD, None]),
    *({WORD: NUMBER}, (1, 2), {1}, np.float32("nan"), np.datetime64("NaT"), np.arange(3), 1j),
    *(_nested(30_000), Evil(), object, pd.Timestamp("2020-01-01", tz="UTC"), memoryview(b"ab")),
)


# -- columns ---------------------------------------------------------------------------------------


def _arrow_column(r: random.Random, n: int) -> pa.Array:
    far = [0, 10**9, NUMBER, None, 2**62, -(2**62)]
    made: list[Callable[[], pa.Array]] = [
        lambda: pa.array([r.choice(("a/b", WORD, "", None, "10.0.0.1")) for _ in range(n)]),
        lambda: _bad_text(n),
        lambda: _bad_text(n).cast(r.choice((pa.large_string(), pa.string_view()))),
        lambda: _bad_text(n).dictionary_encode(),
        lambda: pa.array([r.choice((NUMBER, -1, 2**63 - 1, None)) for _ in range(n)], pa.int64()),
        lambda: pa.array([r.choice((NUMBER, 2**64 - 1, None)) for _ in range(n)], pa.uint64()),
        lambda: pa.array([r.choice((0.5, float("nan"), 1e300, None)) for _ in range(n)]),
        lambda: pa.array([r.choice((1.0, 2.0**60, float(NUMBER), -0.0)) for _ in range(n)]),
        lambda: pa.array([r.choice(far) for _ in range(n)], pa.timestamp(r.choice("s ms us ns".split()))),
        lambda: pa.array([r.choice(far) for _ in range(n)], pa.timestamp("s", tz="UTC")),
        lambda: pa.array([r.choice((0, 2**31 - 1, None)) for _ in range(n)], pa.int32()).cast(pa.date32()),
        lambda: pa.array([r.choice((Decimal("1.50"), Decimal(NUMBER), None)) for _ in range(n)], pa.decimal128(30, 2)),
        lambda: pa.array([r.choice((True, None)) for _ in range(n)], pa.bool_()),
        lambda: pa.array([r.choice((b"\xff", WORD.encode(), None)) for _ in range(n)], pa.binary()),
        lambda: pa.array([r.choice(([WORD], [], None)) for _ in range(n)], pa.list_(pa.string())),
        lambda: pa.array([{"x": WORD, "y": NUMBER}] * n, pa.struct([("x", pa.string()), ("y", pa.int64())])),
        lambda: pa.array([[0, 2**62]] * n, pa.list_(pa.timestamp("s"))),
        lambda: pa.array([NUMBER] * n, pa.duration(r.choice("s ms us ns".split()))),
        lambda: pa.array([NUMBER % 86400] * n, pa.time32("s")),
        lambda: pa.nulls(n),
    ]  # fmt: skip
    return r.choice(made)()


def _pandas_column(r: random.Random, n: int) -> Any:
    texts = [r.choice(("a/b", WORD, "", None, "10.0.0.1", "x.org")) for _ in range(n)]
    made: list[Callable[[], Any]] = [
        lambda: pd.Series(texts, dtype="str"),
        lambda: pd.Series(pd.arrays.ArrowExtensionArray(_bad_text(n))),
        lambda: pd.Series(pd.arrays.ArrowExtensionArray(_bad_text(n).cast(pa.string_view()))),
        lambda: pd.Series(pd.arrays.ArrowExtensionArray(_arrow_column(r, n))),
        lambda: _as_frame(pa.table({"c": _bad_text(n)}))["c"],
        lambda: pd.Series([r.choice(OBJECTS) for _ in range(n)], dtype=object),
        lambda: pd.Series([r.choice(OBJECTS) for _ in range(n)], dtype=object),
        lambda: pd.Series([NUMBER + i for i in range(n)], dtype="int64"),
        lambda: pd.Series([2**60 + NUMBER + i for i in range(n)], dtype="float64"),
        lambda: pd.Series([r.choice((NUMBER, pd.NA)) for _ in range(n)], dtype="Int64"),
        lambda: pd.Series([r.choice((True, pd.NA)) for _ in range(n)], dtype="boolean"),
        lambda: pd.Series(np.full(n, 2**62), dtype=f"datetime64[{r.choice('s ms us ns'.split())}]"),
        lambda: pd.Series(np.zeros(n), dtype="datetime64[us, Europe/Berlin]"),
        lambda: pd.Series(texts, dtype=object).astype("category"),
        lambda: pd.Series([r.choice((Decimal("1.5"), Decimal("2.25"), None)) for _ in range(n)]).astype("category"),
        lambda: pd.Series(pd.period_range("2020", periods=n, freq="M")),
        lambda: pd.Series(pd.interval_range(0, n or 1, periods=n or 1)[:n]),
        lambda: pd.Series(np.full(n, NUMBER), dtype="timedelta64[s]"),
        lambda: pd.Series(np.full(n, 1j)),
        lambda: pd.Series(pd.arrays.SparseArray(np.zeros(n))),
        lambda: pd.Series([np.nan] * n),
        lambda: pd.Series([None] * n, dtype=object),
    ]  # fmt: skip
    return r.choice(made)()


def _as_frame(table: pa.Table) -> pd.DataFrame:
    """As pandas reads a Parquet file: Arrow looks at no text."""
    file = io.BytesIO()
    pq.write_table(table, file)
    file.seek(0)
    return pd.read_parquet(file)


NAMES = ("c", "d", "u", "n")
ODD = ("", "\ud800", "C", "level", 'a"b', "a'b;--", "x" * 9_000, "\x00", "é", "t1", "dpframe_source")


# -- sources ---------------------------------------------------------------------------------------


def _names(r: random.Random) -> list[str]:
    names = list(NAMES)
    if r.random() < 0.2:
        names[r.randrange(4)] = r.choice(ODD)
    return names


def _pandas(r: random.Random, folder: Path) -> Any:
    n = r.choice((0, 1, 7, 120))
    frame = pd.concat([_pandas_column(r, n).reset_index(drop=True) for _ in NAMES], axis=1)
    names: list[Any] = _names(r)
    if r.random() < 0.1:
        names[r.randrange(4)] = r.choice((5, None, ("a", "b"), "c"))
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _arrow(r: random.Random, folder: Path) -> Any:
    n = r.choice((0, 1, 7, 120))
    names = [name.encode("utf-8", "replace").decode() for name in _names(r)]
    table = pa.Table.from_arrays([_arrow_column(r, n) for _ in NAMES], names=names)
    if r.random() < 0.2 and n:
        return table.to_batches()[0]
    return table


def _polars(r: random.Random, folder: Path) -> Any:
    table = _arrow(r, folder)
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
        fails = pl.col("c").map_elements(lambda _: int(WORD), return_dtype=pl.Int64)
        return r.choice((frame.lazy(), frame.lazy().with_columns(c=fails)))
    return frame


def _relation(r: random.Random, folder: Path) -> Any:
    con = duckdb.connect()
    if r.random() < 0.2:
        query = r.choice(
            (
                f"SELECT CAST('{WORD}' || i AS INTEGER) AS c, i AS d, i AS u, i AS n FROM range(3) t(i)",
                "SELECT random() AS c, 1 AS d, 2 AS u, 3 AS n",
                f"SELECT MAP{{'{WORD}': 1}} AS c, [1] AS d, '{WORD}'::VARIANT AS u, 1::BIGNUM AS n",
                f"SELECT '{WORD}' AS c, 1 AS \"C\", 'x'::ENUM('x', '{WORD}') AS u, 1 AS n",
            )
        )
        return con.sql(query)
    return _stored(con, r, folder).table("t")


def _stored(con: duckdb.DuckDBPyConnection, r: random.Random, folder: Path) -> Any:
    """A table ``t`` with what DuckDB takes of an Arrow table."""
    con.execute("CREATE TABLE t AS SELECT i AS row FROM range(120) x(i)")
    for name in NAMES:
        column = _arrow_column(r, 120)
        con.register("given", pa.table({"row": np.arange(120), name: column}))
        with contextlib.suppress(duckdb.Error):
            con.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM t JOIN given USING (row)")
    return con


def _file(r: random.Random, folder: Path) -> Any:
    path = folder / f"{r.randrange(10**9)}{r.choice(('.csv', '.csv.gz', '.tsv', '.parquet', '.pq', '.txt'))}"
    kind = r.randrange(11)
    lines = "c,d,u,n\n" + f"a/b,{WORD},1,{NUMBER}\n" * 20
    if kind == 0:
        return str(path)  # there is none
    if kind == 1:
        path.mkdir()
    elif kind == 2:
        return str(folder / r.choice(("x" * 5_000 + ".csv", "a\x00b.csv", "*.nothing.csv", "[.csv", "\ud800.csv")))
    elif kind == 3:
        path.write_text(f"{WORD},{NUMBER},{WORD},{WORD}\n" * 9)  # no header: a record
    elif kind == 4:
        path.write_text("c," + "y" * 200_000 + f",u,n\n1,{WORD},3,4\n")
    elif kind == 5:
        path.write_bytes(r.choice((b"", b"\x1f\x8b\x08" + WORD.encode(), b"PAR1" + WORD.encode(), b"\x00" * 50)))
    elif kind == 6:
        path.write_bytes(lines.encode() + b"\xff\xfe," + WORD.encode() + b'\n"' + WORD.encode())
    elif kind == 7:
        pq.write_table(pa.table({"c": _bad_text(9)}), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode())[: r.choice((10_000, 30))])
    elif path.suffix in (".parquet", ".pq"):
        with contextlib.suppress(pa.ArrowException):  # what Parquet does not hold
            pq.write_table(pa.table({name: _arrow_column(r, 9) for name in ("c", "d")}), path)
    else:
        path.write_text(lines)
    return r.choice((path, str(path)))


SOURCES = (_pandas, _pandas, _arrow, _polars, _relation, _file)
NO_SOURCE = (None, 5, [WORD], {"c": [WORD]}, object(), pd.Series([WORD]), np.array([WORD]), b"x.csv")


# -- arguments -------------------------------------------------------------------------------------

READABLE: tuple[Any, ...] = (
    *("ip:c", "ip:c?version=4", "path:c", "path:c?depth=2", "path:d?separator=/", "domain:c", "date:c"),
    *("date:n?levels=year,month", "code:c?lengths=1,3", "number:n?lower=0&upper=9&depth=3", "columns:c,d"),
    *(["c"], ["c", "d"], ["c", "u", "n"], "columns:n", "path:c?invalid=drop", ["d"], ["n"]),
    *("path:u", "columns:u,n", "code:n?lengths=1,2", "code:u?lengths=1"),
)
SPECS: tuple[Any, ...] = (
    *("", ":", "foo:c", "path:", [""], ["\ud800"], [], [None], 5, None, "path:missing", "ip:c?version=9"),
    *("path:c?separator=\ud800", "columns:c,c", "number:n?lower=nan&upper=1", "code:c?lengths=3,1", "path:\ud800"),
    *(["C"], ["level"], [""], ["x" * 9_000], "date:c?levels=eon", "path:c?depth=999999", "path:c?separator="),
    *([["c"]], {"c": 1}, "columns:%00", "path:c?depth=1&depth=2", "path:c?x=1", "\x00:c", ["\x00"]),
)  # fmt: skip

SHAPES: tuple[Any, ...] = (
    *({"n": (0, 9)}, "number:n?lower=0&upper=9", "time:c?lower=2020-01-01&upper=2021-01-01", "ip:c?version=4"),
    *({"n": (9, 0)}, {"": (0, 1)}, {"\ud800": (0, 1)}, {}, {"n": (0, float("inf"))}, "path:c", "x", None, 7),
    *(["number:n?lower=0&upper=9", "number:d?lower=0&upper=1"], {"n": ("a", "b")}, {"missing": (0, 1)}),
)  # fmt: skip

COMMON: dict[str, tuple[Any, ...]] = {
    "user": ("u", "u", "c", "missing", "", "\ud800", 5, "U"),
    "contribution": ("share", "records", "items", "all", None),
    "max_contributions": (1, 3, 0, -1, 2.5, "x", True, 10**9),
    "threshold": (1, 1_000, 2**60, -5, 0.5, "x"),
    "mechanism": ("streaming", "laplace", "gaussian", "nonsense", 5),
    "confidence": (0.9, 1.5, float("nan"), "x", None),
    "release": ("a name", "", "\ud800", "x" * 999, 5, "\n"),
    "delta": (1e-6, 0.0, None, 2),
    "epsilon": (2.0, 0, -1, float("nan"), float("inf"), "x", None, 1e-9),
}
TREE: dict[str, tuple[Any, ...]] = {
    **COMMON,
    "weight": ("n", "c", "", "missing", "\ud800", 5),
    "max_weight": (1, 3, 0, "x"),
    "keys": ([], ["a"], "domain", "a", [None], [Evil()], ["\ud800"], [10**5000], [("a", "b")], 5, [1.5]),
    "consistent": (False, "x"),
}
DEVICES: dict[str, tuple[Any, ...]] = {
    "user": ("u", "c", "missing", "", None, "\ud800"),
    "devices": (10, 0, "x"),
    "length": (2, 0, "x"),
    "epsilon": (1.0, -1, None),
    "delta": (1e-6, None),
}
GENERATED: dict[str, tuple[Any, ...]] = {
    name: COMMON[name] for name in ("user", "max_contributions", "release", "epsilon")
} | {"k": (2, 0, "x"), "depth": (3, 0, 99), "keys": (["a"], {"c": ["a"]}, 5), "split": ("uniform", "x")}


def _spec(r: random.Random) -> Any:
    return r.choice(READABLE if r.random() < 0.8 else SPECS)


def _shape(r: random.Random) -> Any:
    return r.choice(SHAPES[:4] if r.random() < 0.7 else SHAPES)


def _column(r: random.Random) -> Any:
    return r.choice(("c", "d", "u", "n") if r.random() < 0.8 else ("missing", "", "\ud800", 5))


def _given(r: random.Random, kinds: dict[str, tuple[Any, ...]], base: dict[str, Any]) -> dict[str, Any]:
    chosen = r.sample(sorted(kinds), r.choice((0, 0, 0, 1, 1, 2)))
    if r.random() < 0.3 and "user" in kinds:
        base = base | {"user": "u"}
    return base | {name: r.choice(kinds[name]) for name in chosen}


BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def _call(r: random.Random) -> tuple[str, Any, dict[str, Any]]:
    """A verb, its first argument and the others."""
    verb = r.choice(("hhh", "hhh", "tree_counts", "heavy_hitters", "synthesize", "prefix_tree"))
    if verb == "synthesize":
        return verb, _shape(r), _given(r, GENERATED, {"epsilon": 1.0, "k": 4, "width": 16, "depth": 5})
    if verb == "prefix_tree":
        return verb, _column(r), _given(r, DEVICES, BUDGET | {"user": "u", "devices": 100, "length": 2, "iterations": 1})
    kinds = TREE if verb == "tree_counts" else COMMON
    first = _column(r) if verb == "heavy_hitters" else _spec(r)
    return verb, first, _given(r, kinds, BUDGET)


# -- doors -----------------------------------------------------------------------------------------


def _well_formed(verb: str, answer: Any) -> None:
    if verb == "synthesize":
        assert len(answer.sample(3)) == 3
        assert answer.receipt.to_dict()
        return
    assert isinstance(answer, pd.DataFrame)
    assert answer.attrs["dp"]["guarantee"] if "guarantee" in answer.attrs["dp"] else answer.attrs["dp"]
    assert len(answer.columns) >= 2
    if verb in ("hhh", "tree_counts"):
        assert {"level", "prefix", "count"} <= set(answer.columns)


def _function(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    source = r.choice(NO_SOURCE) if r.random() < 0.05 else r.choice(SOURCES)(r, folder)
    _well_formed(verb, getattr(dp, verb)(source, first, ledger=book, **arguments))


def _accessor(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    _well_formed(verb, getattr(_pandas(r, folder).dp, verb)(first, ledger=book, **arguments))


def _pieces(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    """Sketches and generators that rows go into piece by piece."""
    kind = r.randrange(3)
    sources = [r.choice(SOURCES)(r, folder) for _ in range(2)]
    if kind == 0:
        stream = dp.StreamingHHH(_spec(r), counters=8)
        for source in sources:
            stream.update(source)
        _well_formed("hhh", stream.release(ledger=book, **BUDGET))
    elif kind == 1:
        generator = dp.PrivHP(_shape(r), k=4, width=16, depth=5)
        for source in sources:
            generator.update(source)
        _well_formed("synthesize", generator.finish(epsilon=1.0, ledger=book))
    else:
        sketch = dp.MisraGries(8)
        for _ in sources:
            sketch.update(r.choice((_arrow_column(r, 9), _pandas_column(r, 9), list(r.sample(OBJECTS, 3)))))
        sketch.release(ledger=book, **BUDGET)


def _command(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    named = {"hhh": "hhh", "tree_counts": "tree-counts", "synthesize": "synthesize"}.get(verb, "prefix-tree")
    spec = first if isinstance(first, str) else "columns:c"
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in arguments.items() if k not in ("keys", "consistent")]
    if named == "synthesize":
        flags.append("--n=3")
    call = [named, str(_file(r, folder)), spec, *flags, f"--ledger={book.path}", "--quiet"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            code = cli.main(call)
        except SystemExit as stop:  # argparse, of arguments
            code = int(stop.code or 0)
    if code:
        text = said.getvalue()
        assert "Traceback" not in text, text
        raise dp.DpframeError(text)


def _sql(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    con = _stored(duckdb.connect(), r, folder)
    dp.register(con, ledger=book)
    names = {"heavy_hitters": "column", "prefix_tree": "column", "synthesize": "columns"}
    given = {names.get(verb, "hierarchy"): first, **arguments, "n": 3}
    if verb != "synthesize":
        del given["n"]
    if r.random() < 0.1:
        given["query"] = r.choice(("SELECT * FROM t", "SELECT 1; SELECT 2", "nonsense", "", "SELECT * FROM t"))
    table = "" if "query" in given else r.choice(("t", "t", "t", "missing", '"', "t t", ""))
    given = {k: v for k, v in given.items() if isinstance(v, str | int | float | list) and k != "keys"}
    text = "".join(f', "{name}" := ${name}' for name in given)
    try:
        given = {k: v for k, v in given.items() if not (isinstance(v, str) and "\ud800" in v)}
        text = "".join(f', "{name}" := ${name}' for name in given)
        call = f"SELECT * FROM dp_{verb}({'NULL' if 'query' in given else '$t'}{text})"
        con.execute(call, given if "query" in given else {"t": table, **given}).fetchall()
    except duckdb.Error as error:
        said = str(error)
    except RuntimeError:  # of DuckDB's binding of parameters
        said = ""
    else:
        said = None
    assert con.execute("SELECT 1").fetchall() == [(1,)], "the database of the SQL user is gone"
    if said is not None:
        raise dp.DpframeError(said)


DOORS = (_function, _function, _function, _accessor, _pieces, _command, _sql)


def run_case(seed: int, folder: Path, book: dp.Ledger) -> bool:
    """One call; whether it answered. Raises AssertionError where it breaks the rule."""
    r = random.Random(seed)
    before = book.spent
    error: BaseException | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r.choice(DOORS)(r, folder, book)
    except dp.DpframeError as raised:
        error = raised
    except TypeError as raised:  # Python's own, of a call
        if "unexpected keyword argument" not in str(raised):
            raise AssertionError(f"case {seed}: a raw error, {raised!r}") from raised
        error = raised
    except Exception as raised:
        raise AssertionError(f"case {seed}: a raw error, {type(raised).__name__}: {raised}") from raised
    if error is None:
        return True
    for text in _texts(error):
        shown = [word for word in PLANTED if word in text]
        assert not shown, f"case {seed}: an error shows data: {text}"
    assert book.spent == before, f"case {seed}: charged and refused: {error}"
    return False


def _texts(error: BaseException | None) -> Iterator[str]:
    """What a traceback would print of an error and those behind it."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def run(seed: int, cases: int, folder: Path) -> int:
    """Many calls; how many of them answered."""
    with_total = dp.Ledger(folder / "ledger.db", epsilon=TOTAL, delta=0.5)
    numbers = random.Random(seed)
    return sum(run_case(numbers.getrandbits(48), folder, with_total) for _ in range(cases))
