"""Hostile calls of every front door: sources, specifications and arguments at random.

A call either answers with a well-formed frame and a receipt, or raises an error of ours in whose
text no value of the data stands, and is charged nothing. ``run`` raises AssertionError with the
seed of the case, which ``run_case`` runs again.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dpframe as dp
from dpframe.doors.cli import main as cli
from dpframe.sources import small_frames
from dpframe.testing import seeded_noise
from tests.fuzz_sources import (
    NO_SOURCE,
    OBJECTS,
    PLANTED,
    SOURCES,
    Evil,
    arrow_column,
    file,
    pair_of_tables,
    pandas_column,
    pandas_frame,
    stored,
)

TOTAL = 9e5
"""Epsilon of the ledger, which no run spends."""

# -- arguments -------------------------------------------------------------------------------------

READABLE: tuple[Any, ...] = (
    *(
        "ip:c", "ip:c?version=4", "path:c", "path:c?depth=2", "path:d?separator=/", "domain:c",
        "date:c",
    ),
    *(
        "date:n?levels=year,month", "code:c?lengths=1,3", "number:n?lower=0&upper=9&depth=3",
        "columns:c,d",
    ),
    *(["c"], ["c", "d"], ["c", "u", "n"], "columns:n", "path:c?invalid=drop", ["d"], ["n"]),
    *("path:u", "columns:u,n", "code:n?lengths=1,2", "code:u?lengths=1"),
)  # fmt: skip
SPECS: tuple[Any, ...] = (
    *("", ":", "foo:c", "path:", [""], ["\ud800"], [], [None], 5, None, "path:missing"),
    *("path:c?separator=\ud800", "columns:c,c", "number:n?lower=nan&upper=1", "path:\ud800"),
    *(["C"], ["level"], [""], ["x" * 9_000], "date:c?levels=eon", "path:c?depth=999999"),
    *([["c"]], {"c": 1}, "columns:%00", "path:c?depth=1&depth=2", "path:c?x=1", "\x00:c"),
    *(["\x00"], "path:c?separator=", "code:c?lengths=3,1", "ip:c?version=9"),
)

NUMBERS = "number:n?lower=0&upper=9"
SHAPES: tuple[Any, ...] = (
    *({"n": (0, 9)}, NUMBERS, "time:c?lower=2020-01-01&upper=2021-01-01", "ip:c?version=4"),
    *({"n": (9, 0)}, {"": (0, 1)}, {"\ud800": (0, 1)}, {}, {"n": (0, float("inf"))}, "path:c"),
    *([NUMBERS, "number:d?lower=0&upper=1"], {"n": ("a", "b")}, {"missing": (0, 1)}, "x", None, 7),
)

LISTED = ("path:c?depth=2", "columns:d", "code:u?lengths=1", "columns:c")

PERIODS: tuple[Any, ...] = (
    *(("c", "2024-W23"), ("c", "1900..2020"), ["c", "2020", "Europe/Berlin"], ("n", "1970-01")),
    *(("c", None), ("d", "2020-01-01T00"), ("missing", "2020"), ("", "2020"), ("\ud800", "2020")),
    *(("c", "\ud800"), ("c", "2020", "\ud800"), ("c", "2020", "\x00"), ("\x00", "2020"), ("c",)),
    *(("c", "9000"), ("c", 5), "c", 5, Evil(), ("c", Evil()), ("u", "2020..1900")),
)

COMMON: dict[str, tuple[Any, ...]] = {
    "period": PERIODS,
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
    "keys": (
        [], ["a"], ["/", "a"], "domain", "a", [None], [Evil()], ["\ud800"], [10**5000],
        [("a", "b")], 5, [1.5],
    ),
    "consistent": (False, "x"),
}  # fmt: skip
DEVICES: dict[str, tuple[Any, ...]] = {
    "user": ("u", "c", "missing", "", None, "\ud800"),
    "period": PERIODS,
    "devices": (10, 0, "x"),
    "length": (2, 0, "x"),
    "epsilon": (1.0, -1, None),
    "delta": (1e-6, None),
}
GENERATED: dict[str, tuple[Any, ...]] = {
    name: COMMON[name] for name in ("user", "max_contributions", "release", "epsilon", "period")
} | {
    "k": (2, 0, "x"),
    "depth": (3, 0, 99),
    "keys": (["a"], {"c": ["a"]}, 5),
    "split": ("uniform", "x"),
}


MEASURES: tuple[Any, ...] = (
    *("count", "sum(n, 0, 5)", "mean(n, -1, 5)", "distinct(u)", "distinct(d, at_most=2)"),
    *("sum(n, -5, 5, clipped=true) AS x", "sum(n, 0, auto)", "count(at_most=2)"),
    *("median(n, 0, 9)", "quantiles(n, 0, 9, at=[0.1, 0.9])", "histogram(n, 0, 9, bins=whole)"),
    *("quantile(n, 0.9, -1, 9, bins=[2])", "median(n, 0, 9, each=total) AS m"),
    *(["count", "sum(n, 0, 5)"], ["count AS a", "mean(n, 0, 1e15) AS b"]),
)
NO_MEASURES: tuple[Any, ...] = (
    *("sum(n)", "sum(c, 0, 5)", "", "sum(", "mean(n, nan, 5)", "sum(missing, 0, 1)", "\ud800"),
    *("sum(n, 5, 0)", "sum(n, 0, inf)", "count AS level", 'sum("", 0, 1)', "sum(\x00, 0, 1)"),
    *("median(n)", "median(n, 5, 0)", "median(c, 0, 5)", "quantile(n, 2, 0, 5)", "median(u, 0, 5)"),
    *("quantiles(n, 0, 5, at=[])", "histogram(n, 0, 5, bins=1)", "median(n, 0, 2026-01-01)"),
    *([], {}, None, 5, ["count", "count"], {"": "count"}, {"a": 5}, [None], {"a": Evil()}),
)
ROLLED: dict[str, tuple[Any, ...]] = {
    name: COMMON[name]
    for name in ("user", "threshold", "confidence", "release", "delta", "epsilon", "period")
} | {"keys": TREE["keys"], "selection_share": (0.3, 0, 1, "x", float("nan"))}


def _measures(r: random.Random) -> Any:
    return r.choice(MEASURES if r.random() < 0.8 else NO_MEASURES)


def _spec(r: random.Random) -> Any:
    return r.choice(READABLE if r.random() < 0.8 else SPECS)


def _shape(r: random.Random) -> Any:
    return r.choice(SHAPES[:4] if r.random() < 0.7 else SHAPES)


def _column(r: random.Random) -> Any:
    return r.choice(("c", "d", "u", "n") if r.random() < 0.8 else ("missing", "", "\ud800", 5))


def _given(
    r: random.Random, kinds: dict[str, tuple[Any, ...]], base: dict[str, Any]
) -> dict[str, Any]:
    chosen = r.sample(sorted(kinds), r.choice((0, 0, 0, 1, 1, 2)))
    if r.random() < 0.3 and "user" in kinds:
        base = base | {"user": "u"}
    return base | {name: r.choice(kinds[name]) for name in chosen}


BUDGET = {"epsilon": 1.0, "delta": 1e-6}


VERBS = (
    *("hhh", "hhh", "tree_counts", "rollup", "rollup"),
    *("heavy_hitters", "synthesize", "prefix_tree"),
)


def _call(r: random.Random) -> tuple[str, Any, dict[str, Any]]:
    """A verb, its first argument and the others."""
    verb = r.choice(VERBS)
    if verb == "synthesize":
        small: dict[str, Any] = {"epsilon": 1.0, "k": 4, "width": 16, "depth": 5}
        if r.random() < 0.3:
            return verb, r.choice(LISTED), _given(r, GENERATED, small | {"keys": ["a", "1"]})
        return verb, _shape(r), _given(r, GENERATED, small)
    if verb == "prefix_tree":
        return (
            verb,
            _column(r),
            _given(
                r, DEVICES, BUDGET | {"user": "u", "devices": 100, "length": 2, "iterations": 1}
            ),
        )
    if verb == "rollup":
        return verb, _spec(r), _given(r, ROLLED, BUDGET | {"measures": _measures(r)})
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
    assert answer.attrs["dp"]
    assert len(answer.columns) >= 2
    if verb == "rollup":
        assert {"level", "prefix"} <= set(answer.columns)
        for name in (c for c in answer.columns if f"{c}_lower" in answer.columns):
            value, lower, upper = (answer[f"{name}{end}"] for end in ("", "_lower", "_upper"))
            assert (((lower <= value) & (value <= upper)) | value.isna()).all()  # a mean of nothing
    if verb in ("hhh", "tree_counts"):
        assert {"level", "prefix", "count"} <= set(answer.columns)


def _function(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    source = r.choice(NO_SOURCE) if r.random() < 0.05 else r.choice(SOURCES)(r, folder)
    _well_formed(verb, getattr(dp, verb)(source, first, ledger=book, **arguments))


def _accessor(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    _well_formed(verb, getattr(pandas_frame(r, folder).dp, verb)(first, ledger=book, **arguments))


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
            sketch.update(
                r.choice((arrow_column(r, 9), pandas_column(r, 9), list(r.sample(OBJECTS, 3))))
            )
        sketch.release(ledger=book, **BUDGET)


def _as_text(part: Any) -> str | None:
    """A part of a period that a command or SQL can write."""
    return part if part is None or isinstance(part, str) else type(part).__name__


def _as_word(value: object) -> str:
    """A value as a word of a command line; of objects whose text raises, the name of the type."""
    try:
        return str(value)
    except RuntimeError:
        return type(value).__name__


def _command(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    spec = first if isinstance(first, str) else NUMBERS if verb == "synthesize" else "columns:c"
    left = {k: v for k, v in arguments.items() if k not in ("keys", "consistent", "k", "measures")}
    several = arguments.get("measures", [])
    texts = [several] if isinstance(several, str) else several or ()
    flags = [f"--measure={m}" for m in texts] if not isinstance(texts, int) else []
    if isinstance(left.get("period"), tuple | list):
        column, *rest = map(_as_text, left["period"])
        left["period"] = f"{column}={'@'.join(map(str, rest))}"
    flags += [f"--{k.replace('_', '-')}={_as_word(v)}" for k, v in left.items()]
    if verb == "synthesize":
        flags += ["-n", "3"]
    call = [verb.replace("_", "-"), str(file(r, folder)), spec, *flags, f"--ledger={book.path}"]
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


NAMED = {
    "heavy_hitters": "column",
    "prefix_tree": "column",
    "synthesize": "columns",
    "rollup": "by",
}
"""What a macro calls its first argument, where not a hierarchy."""


def _sql(r: random.Random, folder: Path, book: dp.Ledger) -> None:
    verb, first, arguments = _call(r)
    con = stored(duckdb.connect(), r, folder)
    dp.register(con, ledger=book)
    first = first if isinstance(first, str) else r.choice((NUMBERS, "columns:c"))
    given = {
        NAMED.get(verb, "hierarchy"): first,
        **arguments,
        **({"n": 3} if verb == "synthesize" else {}),
    }
    where = {"tbl": "t" if r.random() < 0.9 else r.choice(("missing", '"', "t t", "", None))}
    if r.random() < 0.1:
        where = {"query": r.choice(("SELECT * FROM t", "SELECT 1; SELECT 2", "nonsense", ""))}
    written = {k: v for k, v in (where | given).items() if isinstance(v, str | int | float)}
    if verb == "rollup" and isinstance(given["measures"], list):
        written["measures"] = [str(measure) for measure in given["measures"]]
    if given.get("keys") == ["a", "1"]:
        written["keys"] = ["a", "1"]
    if isinstance(period := given.get("period"), list | tuple):
        written["period"] = [*map(_as_text, period)]
    written = {k: v for k, v in written.items() if "\ud800" not in str(v)}  # no text for DuckDB
    text = ", ".join(f'"{name}" := ${name}' for name in written)
    said = None
    try:
        con.execute(f"SELECT * FROM dp_{verb}({text})", written).fetchall()
    except duckdb.Error as error:
        said = str(error)
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
    except Exception as raised:
        raise AssertionError(
            f"case {seed}: a raw error, {type(raised).__name__}: {raised}"
        ) from raised
    if error is None:
        return True
    for text in _texts(error):
        shown = [word for word in PLANTED if word in text]
        assert not shown, f"case {seed}: an error shows data: {text}"
    assert book.spent == before, f"case {seed}: charged and refused: {error}"
    return False


def _texts(error: BaseException | None) -> Iterator[str]:
    """What an error and those behind it say, also those that a traceback would not print."""
    waiting = [error]
    while waiting:
        if (here := waiting.pop()) is not None:
            yield f"{here} {here.args}"
            waiting += [here.__cause__, here.__context__]


def mixed_ledger(path: Path) -> dp.Ledger:
    """A ledger that takes every release at its own price, like one of an earlier version that mixes
    records and users: what is fuzzed is not its choice of a unit."""
    book = dp.Ledger(path, epsilon=TOTAL, delta=0.09)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE budget SET protects = 'several'")
    return book


def run(seed: int, cases: int, folder: Path) -> int:
    """Many calls; how many of them answered."""
    book = mixed_ledger(folder / "ledger.db")
    numbers = random.Random(seed)
    return sum(run_case(numbers.getrandbits(48), folder, book) for _ in range(cases))


# -- values ----------------------------------------------------------------------------------------

ONE = {"epsilon": 8.0, "delta": 1e-6}
"""So much that most keys are released, and differences between two ways of counting show."""
QUESTIONS: tuple[Callable[[Any], Any], ...] = (
    lambda t: dp.hhh(t, ["c"], **ONE),
    lambda t: dp.hhh(t, ["c", "u", "n"], **ONE),
    lambda t: dp.hhh(t, ["c"], user="u", **ONE),
    lambda t: dp.hhh(t, ["c"], user="u", contribution="share", **ONE),
    lambda t: dp.hhh(t, ["c"], user="u", contribution="records", max_contributions=2, **ONE),
    lambda t: dp.hhh(t, ["c"], user="u", contribution="items", **ONE),
    lambda t: dp.hhh(t, ["c"], weight="n", max_weight=5, **ONE),
    lambda t: dp.hhh(t, ["c"], mechanism="streaming", counters=9, **ONE),
    lambda t: dp.hhh(t, "columns:c * columns:u", **ONE),
    lambda t: dp.hhh(t, ["u"], period=("c", "2026"), **ONE),
    lambda t: dp.hhh(t, "date:c", **ONE),
    lambda t: dp.hhh(t, "ip:c", **ONE),
    lambda t: dp.hhh(t, "path:c?depth=3", **ONE),
    lambda t: dp.hhh(t, "number:c?lower=0&upper=9&depth=3", **ONE),
    lambda t: dp.tree_counts(t, ["c"], keys=["a"], epsilon=1.0),
    lambda t: dp.tree_counts(t, ["c"], keys=["a"], user="u", **ONE),
    lambda t: dp.rollup(t, ["c"], dp.sum("n", lower=0, upper=9), **ONE),
    lambda t: dp.rollup(t, ["c"], [dp.mean("n", lower=0, upper=9)], user="u", **ONE),
    lambda t: dp.rollup(t, ["c"], [dp.distinct("u")], **ONE),
    lambda t: dp.rollup(t, ["c"], [dp.sum("n", lower=0, upper="auto")], **ONE),
    lambda t: dp.heavy_hitters(t, "c", **ONE),
    lambda t: dp.heavy_hitters(t, "c", user="u", **ONE),
    lambda t: dp.synthesize(t, {"n": (0, 9)}, epsilon=1.0),
)


def _of_pandas(table: pa.Table) -> Any:
    return pd.DataFrame({n: pd.arrays.ArrowExtensionArray(table[n]) for n in table.column_names})


def _of_stream(table: pa.Table) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


READ_AS: tuple[Callable[[pa.Table], Any], ...] = (
    lambda table: table,
    lambda table: table.to_batches()[0],
    _of_pandas,
    _of_stream,
    lambda table: pl.from_arrow(table),
    lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
)


SQL_QUESTIONS = tuple(
    f"SELECT * FROM dp_{verb}('t', {rest}, epsilon := 8, delta := 1e-6)"
    for verb, rest in (
        ("hhh", "'columns:c'"), ("hhh", "'columns:c,u,n'"), ("hhh", "'columns:c', user := 'u'"),
        ("hhh", "'columns:c', weight := 'n', max_weight := 5"),
        ("hhh", "'columns:c', mechanism := 'streaming'"), ("hhh", "'date:c'"),
        ("heavy_hitters", "'c', user := 'u'"),
        ("rollup", "'columns:c', ['sum(n, 0, 9)', 'distinct(u)']"),
    )
)  # fmt: skip
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("hhh", "columns:c"), ("hhh", "columns:c,u,n"), ("hhh", "columns:c", "--user=u"),
    ("hhh", "date:c"), ("heavy-hitters", "c", "--user=u"),
    ("rollup", "columns:c", "--measure=sum(n, 0, 9)"),
)  # fmt: skip


def _table_of(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """A connection with the table as ``t``. Raises where DuckDB does not store it."""
    con = duckdb.connect()
    con.register("given", table)
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    con.unregister("given")
    return con


def _parquet_of(table: pa.Table) -> str:
    path = Path(tempfile.mkdtemp()) / "t.parquet"
    _table_of(table).execute(f"COPY t TO '{path}'")
    return str(path)


def _parquet_by_arrow(table: pa.Table) -> str:
    path = Path(tempfile.mkdtemp()) / "t.parquet"
    old = table.num_rows % 2 == 0  # as Spark wrote times for long
    pq.write_table(table, path, use_deprecated_int96_timestamps=old)
    return str(path)


def _lost(con: duckdb.DuckDBPyConnection) -> str:
    """What to add to an error where the caller's database is closed after it."""
    try:
        con.execute("SELECT 1")
    except duckdb.Error:
        return " The database is closed."
    return ""


Asks = Callable[[Any, dp.Ledger], Any]


def _asks(question: Callable[[Any], Any]) -> Asks:
    return lambda source, book: question(source)  # charges the ledger of the block


def _asks_sql(statement: str) -> Asks:
    def asks(con: duckdb.DuckDBPyConnection, book: dp.Ledger) -> None:
        dp.register(con, ledger=book)
        try:
            con.execute(statement).fetchall()
        except duckdb.Error as error:
            raise dp.DpframeError(f"{error}{_lost(con)}") from error

    return asks


def _asks_command(words: tuple[str, ...]) -> Asks:
    def asks(path: str, book: dp.Ledger) -> None:
        said, (verb, *rest) = io.StringIO(), words
        ledger = f"--ledger={book.path}"
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = cli.main([verb, path, *rest, "--epsilon=8", "--delta=1e-6", ledger])
        assert "Traceback" not in said.getvalue()
        if code:
            raise dp.DpframeError(said.getvalue().replace(path, ""))

    return asks


def _asks_relation(question: Callable[[Any], Any]) -> Asks:
    def asks(con: duckdb.DuckDBPyConnection, book: dp.Ledger) -> Any:
        try:
            return question(con.table("t"))
        except dp.DpframeError as error:
            raise dp.DpframeError(f"{error}{_lost(con)}") from error

    return asks


DUCKDB_READS: tuple[tuple[Callable[[pa.Table], Any], tuple[Asks, ...]], ...] = (
    (_table_of, tuple(map(_asks_relation, QUESTIONS))),
    (_table_of, tuple(map(_asks_sql, SQL_QUESTIONS))),
    (_parquet_of, tuple(map(_asks, QUESTIONS))),
    (_parquet_by_arrow, tuple(map(_asks, QUESTIONS))),
    (_parquet_of, tuple(map(_asks_command, COMMANDS))),
)
"""Doors at which DuckDB reads values by itself, and what is asked there: relations, tables named in
SQL, Parquet files and commands."""


def outcome(question: Asks, source: Any, book: dp.Ledger) -> tuple[str, str]:
    """Whether a call answers, or the words in which it is refused; and the rows that it releases,
    with noise that is the same each time."""
    before = book.spent
    with warnings.catch_warnings(), seeded_noise(1), dp.use_ledger(book):
        warnings.simplefilter("ignore")
        try:
            answer = question(source, book)
        except dp.DpframeError as error:
            charged = "" if book.spent == before else "charged and refused, "
            words = str(error).replace(source, "") if isinstance(source, str) else str(error)
            return f"{charged}{type(error).__name__}: {words}", ""
    return "answers", answer.to_csv() if isinstance(answer, pd.DataFrame) else ""


def run_values(seed: int, book: dp.Ledger, by_duckdb: bool = False) -> tuple[str, str, str] | None:
    """One case: a question of two tables of one schema, and of one in both ways of counting. None
    where a library of another hand does not take the table, else what was asked and two outcomes.

    With ``by_duckdb`` at a door of DuckDB's own, where it can end the process (``run_children``).
    """
    r = random.Random(f"values {seed}")
    tables = pair_of_tables(r, r.choice((1, 7, 60)))
    here = (r.choice(READ_AS), tuple(map(_asks, QUESTIONS)))
    read_as, questions = r.choice(DUCKDB_READS) if by_duckdb else here
    place = r.randrange(len(questions))
    what = f"{tables[0].schema.to_string()}, question {place} of {len(questions)}"
    ways = (0, 0) if by_duckdb else (0, small_frames.MOST)
    try:
        sources = [[read_as(table) for _ in {*ways}] for table in tables]
    except (Exception, pl.exceptions.PanicException):
        return None
    if by_duckdb:
        print(f"asks {seed}", flush=True)
    small, found = small_frames.MOST, []
    try:
        for given in sources:
            for way, source in zip(ways, given, strict=False):
                small_frames.MOST = way
                found.append(outcome(questions[place], source, book))
    finally:
        small_frames.MOST = small
    for first, second in itertools.pairwise(found):
        if first[0] != second[0]:
            return what, first[0], second[0]
    for first, second in zip(found[::2], found[1::2], strict=True) if not by_duckdb else ():
        if first != second:
            return what, first[1], second[1]
    return what, found[0][0], found[0][0]


def run_child(first: int, cases: int, folder: Path) -> None:
    """Cases at DuckDB's own doors; says what it asks and what came of it."""
    book = mixed_ledger(folder / "child.db")
    for seed in range(first, first + cases):
        print(f"begins {seed}", flush=True)
        if (case := run_values(seed, book, by_duckdb=True)) is not None:
            print("came " + json.dumps([seed, case]), flush=True)


def run_children(seeds: range, folder: Path) -> list[tuple[int, tuple[str, str, str]]]:
    """The cases of ``seeds`` at DuckDB's own doors, in processes that it may end: no case where it
    ends one while it stores the table, and a difference where a call of ours lets it."""
    cases, here = [], seeds.start
    while here < seeds.stop:
        code = "import pathlib, sys; from tests.fuzz_doors import run_child\n"
        code += f"run_child({here}, {seeds.stop - here}, pathlib.Path(sys.argv[1]))"
        call = [sys.executable, "-c", code, tempfile.mkdtemp(dir=folder)]  # a ledger each
        done = subprocess.run(call, capture_output=True, text=True, cwd=Path(__file__).parents[1])
        lines = [line.partition(" ") for line in done.stdout.splitlines()]  # DuckDB writes, too
        said = [(word, rest) for word, _, rest in lines if word in ("begins", "asks", "came")]
        came = [json.loads(rest) for word, rest in said if word == "came"]
        cases += [(seed, (*case,)) for seed, case in came]
        if done.returncode == 0:
            return cases
        assert done.returncode < 0, done.stderr  # an error of Python
        here = 1 + max(int(rest) for word, rest in said if word == "begins")
        if said[-1][0] == "asks":
            cases.append((here - 1, ("a call", "the process ends", "")))
    return cases
