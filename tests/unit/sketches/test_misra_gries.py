"""The sketch against the pseudocode, whatever holds the keys and however they are split."""

from __future__ import annotations

import ast
import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpframe import MisraGries
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError
from dpframe.sketches import _kernels as compiled_module
from tests import naive
from tests.members import in_turn, tries

PACKAGE = Path(compiled_module.__file__).parent.parent


def sketched(batch: object, counters: int = 5, *, standard: bool = False) -> MisraGries:
    sketch = MisraGries(counters, standard=standard)
    sketch.update(batch)
    return sketch


def content(sketch: MisraGries) -> tuple[dict[naive.Entry, int], int, int]:
    """All counters, decrements, total; what is left of the dummies is the largest of them."""
    state = sketch._state()
    first = sketch.counters - state.dummies
    entries = {
        (0, first + i) if dummy else (1, key): count
        for i, (key, count, dummy) in enumerate(
            zip(state.keys.to_pylist(), state.counts.tolist(), state.dummy.tolist(), strict=True)
        )
    }
    return entries, state.decrements, state.total


def expected(records: list[Any], counters: int) -> tuple[dict[naive.Entry, int], int, int]:
    return *naive.misra_gries(records, counters), len(records)


# -- the pseudocode ------------------------------------------------------------------------------

SPELLINGS: list[Callable[[int], Any]] = [
    lambda x: x - 3,
    lambda x: x * 2**55 - 2**61,
    lambda x: f"key {x % 3}" if x < 5 else "a longer key, number " + "x" * x,
    lambda x: bytes([x]) * x,
]
"""Few keys as integers, text and bytes; of all lengths, and not sorted like the numbers."""

STREAMS = st.lists(st.integers(0, 11), max_size=80)


@settings(deadline=None)
@given(STREAMS, st.integers(2, 8), st.sampled_from(SPELLINGS), st.lists(st.integers(0, 80)))
def test_any_batches_give_the_state_of_one_record_at_a_time(
    stream: list[int], counters: int, spelling: Callable[[int], Any], cuts: list[int]
) -> None:
    """Law: the state is that of Algorithm 1, zeros included, however batches are cut; C <= f <= C +
    alpha for every key, and alpha <= n / (k + 1)."""
    records = [spelling(x) for x in stream]
    sketch = MisraGries(counters)
    ends = sorted({min(cut, len(records)) for cut in cuts})
    for start, end in zip([0, *ends], [*ends, len(records)], strict=True):
        sketch.update(records[start:end])
    assert content(sketch) == expected(records, counters)
    assert sketch.decrements * (counters + 1) <= sketch.total == len(stream)
    for key in map(spelling, range(12)):
        estimate = sketch.estimate(key) if records else 0
        assert estimate <= records.count(key) <= estimate + sketch.decrements


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_long_streams_with_heavy_keys_agree_too(seed: int, spelling: Callable[[int], Any]) -> None:
    """Law: counting heavy keys of a block first, and tables that are refilled, change nothing."""
    rng = np.random.default_rng(seed)
    universe = int(rng.integers(3, 200))
    stream = rng.zipf(1.2, 3000) % universe if seed % 2 else rng.integers(0, universe, 3000)
    records = [
        spelling(int(x) % 60) if spelling is SPELLINGS[3] else spelling(int(x)) for x in stream
    ]
    counters = int(rng.integers(2, 40))
    assert content(sketched(records, counters)) == expected(records, counters)


def test_keys_of_one_bucket_stay_apart() -> None:
    """Law: collisions of hashes, up to the last bucket and over its end, merge nothing."""
    first, second = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93

    def bucket(key: int) -> int:
        h = key * first % 2**64
        return ((h ^ h >> 32) * second % 2**64) >> 58  # 64 buckets

    rng = np.random.default_rng(5)
    candidates = rng.integers(0, 2**62, 40_000).tolist()
    keys = [key for key in candidates if bucket(key) == 63][:60]
    assert len(keys) == 60
    records = [keys[i] for i in (rng.zipf(1.3, 4000) % 60).tolist()]
    assert content(sketched(records, 30)) == expected(records, 30)


def test_long_keys_with_equal_words_stay_apart() -> None:
    """Law: texts that agree in their first bytes, length and hash are still told apart."""
    multiplier, mask = 0x9E3779B97F4A7C15, 2**64 - 1

    def step(h: int, word: int) -> int:
        h = (h ^ word) * multiplier & mask
        return h ^ h >> 32

    start = step(24, int.from_bytes(b"the same"[::1], "little"))
    texts = []
    for i in range(20):
        middle = int.from_bytes(f"middle{i:02}".encode(), "little")
        last = step(start, middle) ^ 0x1234567890ABCDEF  # the hash after it is the same for all
        texts.append(b"the same" + middle.to_bytes(8, "little") + last.to_bytes(8, "little"))
    assert len(set(texts)) == 20
    from dpframe.sketches._batches import Column
    from dpframe.sketches._counters import encode_keys

    words = encode_keys(Column("bytes", pa.array(texts, pa.large_binary()))).words
    assert len(np.unique(words, axis=0)) == 1  # nothing but the full text tells them apart
    rng = np.random.default_rng(2)
    for counters in (7, 30):
        records = [texts[i] for i in (rng.zipf(1.3, 2000) % 20).tolist()]
        assert content(sketched(records, counters)) == expected(records, counters)


@tries(25, 100, deadline=None)
@given(STREAMS, st.integers(2, 8))
def test_the_standard_sketch_has_the_positive_counters(stream: list[int], counters: int) -> None:
    """Law: without its zeros the variant is the classical sketch, decrements included."""
    kept, _, _ = content(sketched(stream, counters, standard=True))
    entries, decrements, _ = content(sketched(stream, counters))
    assert {key: count for (_, key), count in kept.items()} == {
        key: count for (real, key), count in entries.items() if real and count
    }
    assert (
        {key: count for (_, key), count in kept.items()},
        decrements,
    ) == naive.standard_misra_gries(stream, counters)


# -- what holds the keys -------------------------------------------------------------------------

NUMBERS = [5, -1, 5, 2, 7, 5, 3, -1, 9, 0, 2, 2, 8, 4, 5] * 3
WORDS = ["b", "é", "b", "", "a\x00", "b", "日本語" * 9, "a", "é", "z", "", "b", "zz", "y" * 15] * 3
BYTES = [word.encode() for word in WORDS]


def relation(values: pa.Array) -> duckdb.DuckDBPyRelation:
    table = pa.table({"key": values, "other": values})
    return duckdb.connect().from_arrow(table).project("key")


def reader(values: pa.Array) -> pa.RecordBatchReader:
    batches = [pa.record_batch({"key": values[i : i + 4]}) for i in range(0, len(values), 4)]
    empty = pa.record_batch({"key": values[:0]})
    return pa.RecordBatchReader.from_batches(empty.schema, [empty, *batches, empty])


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": lambda x: (value for value in x),
    "numpy": np.array,
    "numpy objects": lambda x: np.array(x, dtype=object),
    "numpy, every other": lambda x: np.repeat(np.array(x, dtype=object), 2)[::2],
    "pandas": pd.Series,
    "pandas objects": lambda x: pd.Series(x, dtype=object, index=range(100, 100 + len(x))),
    "pandas with a float index": lambda x: pd.Series(x, index=np.arange(len(x)) / 2),
    "pandas category": lambda x: pd.Series(x, dtype="category"),
    "pandas index": pd.Index,
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow slice": lambda x: pa.array([x[0], *x, x[1]])[1:-1],
    "arrow chunks": lambda x: pa.chunked_array([x[:5], [], x[5:]], pa.array(x).type),
    "arrow dictionary": lambda x: pa.array(x).dictionary_encode(),
    "arrow record batch": lambda x: pa.record_batch({"key": x}),
    "arrow table": lambda x: pa.table({"key": x}),
    "arrow reader": lambda x: reader(pa.array(x)),
    "duckdb": lambda x: relation(pa.array(x)),
    "polars frame": lambda x: pl.DataFrame({"key": x}),
}


@in_turn(("keys", [NUMBERS, WORDS, BYTES], ["numbers", "text", "bytes"]), ("form", FORMS))
def test_every_form_of_a_batch_gives_the_same_state(form: str, keys: list[Any]) -> None:
    """Law: only keys and their order count, not what holds them."""
    if keys is BYTES and form == "numpy":
        keys = [key.rstrip(b"\x00") for key in keys]  # numpy's own rule
    if keys is WORDS and form in ("numpy", "pandas category"):
        keys = [key.rstrip("\x00") for key in keys]  # numpy's, and pandas 2.2 drops them too
    sketch = sketched(FORMS[form](keys), 6)
    assert content(sketch) == expected(keys, 6)


@pytest.mark.parametrize(
    "values",
    [
        *(np.array(NUMBERS, dtype=f"i{n}") for n in (1, 2, 4, 8)),
        *(np.array(NUMBERS, dtype=">i8"), np.array(NUMBERS, dtype=">i2")),
        *(np.array(NUMBERS)[::-1][::-1], [np.int8(x) if x % 2 else x for x in NUMBERS]),
        *(pd.Series(NUMBERS, dtype="Int16"), pd.Series(NUMBERS, dtype="int32[pyarrow]")),
        *(pa.array(NUMBERS, pa.int8()), pa.array(NUMBERS, pa.int32()).dictionary_encode()),
        *(pa.array(WORDS, pa.large_string()), pa.array(WORDS, pa.string_view())),
        *(pa.array(WORDS).dictionary_encode(), pl.Series(WORDS, dtype=pl.Categorical)),
        *(pd.Series(WORDS, dtype="string"), pd.Series(WORDS, dtype="string[pyarrow]")),
    ],
    ids=lambda values: f"{type(values).__name__} {getattr(values, 'dtype', None)}",
)
def test_keys_of_any_type_are_the_same_keys(values: Any) -> None:
    """Law: an integer is its value, a text its characters; codes and categories mean nothing."""
    keys = WORDS if len(values) == len(WORDS) else NUMBERS
    assert content(sketched(values, 6)) == expected(keys, 6)


def test_the_order_of_keys_is_that_of_values_not_of_codes_or_arrival() -> None:
    """Law: zeros go in the order of values, also where a category lists them otherwise."""
    stream = ["b", "a", "c", "x", "y"]  # three ones, a decrement, and one of three zeros goes
    series = pd.Series(pd.Categorical(stream, categories=["y", "x", "c", "b", "a"]))
    assert sketched(series, 3)._state().keys.to_pylist() == ["b", "c", "y"]
    unsigned = np.array([2**63, 1, 2**64 - 1, 5, 6], dtype=np.uint64)
    assert sketched(unsigned, 3)._state().keys.to_pylist() == [6, 2**63, 2**64 - 1]
    signed = np.array([-1, -(2**63), 2**63 - 1, 5, 6])
    assert sketched(signed, 3)._state().keys.to_pylist() == [-1, 6, 2**63 - 1]


def test_a_single_key_is_a_batch_of_one() -> None:
    """Law: text is one key, not its letters."""
    for key in ("abc", b"abc", 7, np.int16(7), np.str_("abc"), np.array(7)):
        sketch = sketched(key)
        assert sketch.total == 1
        assert len(sketch.top()) == 1


def test_unsigned_and_signed_integers_meet_where_both_hold_them() -> None:
    """Law: the first batch sets the range, later ones of the other sign fit if their values do."""
    large = np.array([2**64 - 1, 1], dtype=np.uint64)
    sketch = sketched(large)
    sketch.update([1, 2])
    assert sketch.estimate(1) == 2
    assert sketch.estimate(2**64 - 1) == 1
    with pytest.raises(ParameterError, match="range of the sketch"):
        sketch.update([-1])
    other = sketched([-1, 1])
    other.update(np.array([1, 2], dtype=np.uint64))
    assert other.estimate(1) == 2
    with pytest.raises(ParameterError, match="range of the sketch"):
        other.update(large)
    assert sketched([2**64 - 1, 0]).estimate(2**64 - 1) == 1
    with pytest.raises(ParameterError, match="range of the sketch"):
        sketched([2**64])


# -- refusals ------------------------------------------------------------------------------------


def failing() -> Iterator[str]:
    yield from ["SECRET"] * 40_000
    raise KeyError("the caller's own error")


BAD_FOR_TEXT: dict[str, Any] = {  # batches, or what makes one
    "None": ["SECRET", None],
    "NaN": ["SECRET", float("nan")],
    "NA": pd.Series(["SECRET", pd.NA], dtype="string"),
    "pandas None": pd.Series(["SECRET", None]),
    "arrow NULL": pa.array(["SECRET", None]),
    "NULL in a dictionary": pa.DictionaryArray.from_arrays([0, 1], pa.array(["SECRET", None])),
    "NULL in a later chunk": pa.chunked_array([["SECRET"] * 9, [None]]),
    "all NULL": pa.nulls(3),
    "duckdb NULL": lambda: relation(pa.array(["SECRET", None])),
    "NaT": [pd.NaT],
    "mixed": ["SECRET", 1],
    "mixed with bytes": ["SECRET", b"SECRET"],
    "mixed later": ["SECRET"] * 40_000 + [1],
    "text and floats": ["SECRET", 1.5],
    "integers": [1, 2],
    "bytes": [b"SECRET"],
    "floats": np.array([1.0, 2.0]),
    "NaN alone": [float("nan")],
    "one float": 1.5,
    "booleans": [True],
    "numpy booleans": np.array([True]),
    "dates": pd.Series(pd.to_datetime(["2020-01-01"])),
    "numpy dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "decimals": lambda: duckdb.connect().sql("SELECT 1.5 AS x"),
    "lists": [["SECRET"]],
    "None alone": None,
    "two-dimensional": np.array([["SECRET"]]),
    "two columns": pa.table({"a": ["SECRET"], "b": ["SECRET"]}),
    "a frame": pd.DataFrame({"a": ["SECRET"]}),
    "a mapping": {"SECRET": 1},
    "a set": {"SECRET", "b"},
    "masked": np.ma.array(["SECRET"], mask=[True]),
    "error in the source": lambda: duckdb.connect().sql(
        "SELECT ('SECRET' || i)::INT::VARCHAR FROM range(3) t(i)"
    ),
}


@pytest.mark.parametrize("bad", BAD_FOR_TEXT)
def test_a_refused_batch_leaves_the_sketch_as_it_was_and_quotes_nothing(bad: str) -> None:
    """Law: after an error the sketch is as before, and no key stands in the message."""
    sketch = sketched(WORDS)
    before = content(sketch)
    batch = BAD_FOR_TEXT[bad]
    with pytest.raises(DpframeError) as error:
        sketch.update(batch() if callable(batch) else batch)
    assert content(sketch) == before
    waiting: list[BaseException | None] = [error.value]
    while waiting:
        if (here := waiting.pop()) is not None:
            assert "SECRET" not in f"{here} {here.args}"
            waiting += [here.__cause__, here.__context__]


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        ([1, None], "NULL"),
        (pa.array([1, None]), "NULL"),
        (pd.Series([1, pd.NA], dtype="Int64"), "NULL"),
        (pd.Series([1, None]), "floating-point"),
        ([1, "a"], "mixed types"),
        (["a"], "holds integers and the batch text"),
        ([2**70], "exceed the range"),
        ([1.0], "floating-point"),
        ({1, 2}, "are a set"),
        (iter({1, 2}), "are a set"),
        (iter(frozenset({1, 2})), "are a set"),
        (type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})(), "of Spark"),
    ],
)
def test_refusals_name_the_rule(bad: Any, rule: str) -> None:
    """Law: the message says which rule is broken."""
    sketch = sketched(NUMBERS)
    before = content(sketch)
    with pytest.raises((ParameterError, ParameterTypeError), match=rule):
        sketch.update(bad)
    assert content(sketch) == before


def test_an_error_of_the_callers_iterable_passes_and_undoes_the_call() -> None:
    """Law: a generator that fails half way leaves no trace in the sketch."""
    sketch = sketched(WORDS)
    before = content(sketch)
    with pytest.raises(KeyError, match="own error"):
        sketch.update(failing())
    assert content(sketch) == before
    with pytest.raises(SourceError, match="withheld"):
        sketch.update(BAD_FOR_TEXT["error in the source"]())


@pytest.mark.parametrize("counters", [0, 1, -5, 2.5, "7", None, True, 10**9])
def test_the_number_of_counters_is_a_whole_number_from_2(counters: Any) -> None:
    """Law: k of 0 or 1 and what is no whole number are refused with the rule."""
    with pytest.raises((ParameterError, ParameterTypeError), match="counters"):
        MisraGries(counters)


# -- reading -------------------------------------------------------------------------------------


def test_top_is_sorted_by_counter_then_key_and_shows_no_zeros() -> None:
    """Law: largest first, ties by key; dummies and keys at zero are no heavy hitters."""
    assert sketched(["b", "a", "c", "b", "a"], 9).top(2) == [("a", 2), ("b", 2)]
    assert sketched([3, 1, 2], 2).top() == []
    assert MisraGries(2).top() == []
    for bad in (0, -1, 1.5, True):
        with pytest.raises((ParameterError, ParameterTypeError), match="n "):
            MisraGries(2).top(bad)  # type: ignore[arg-type]


def test_estimate_takes_keys_of_the_kind_of_the_sketch() -> None:
    """Law: a key of another kind is an error, one that is not stored has estimate 0."""
    sketch = sketched(["a", "a", "b" * 40])
    assert (sketch.estimate("a"), sketch.estimate("b" * 40), sketch.estimate("c")) == (2, 1, 0)
    assert MisraGries(2).estimate("a") == 0
    for bad in (1, b"a", None, 1.5):
        with pytest.raises((ParameterError, ParameterTypeError)):
            sketch.estimate(bad)


def test_repr_depends_on_parameters_only() -> None:
    """Law: what a sketch shows of itself is equal for all data."""
    shown = {repr(sketched(batch, 7)) for batch in ([], [1], ["a"], NUMBERS, WORDS)}
    assert shown == {"MisraGries(counters=7, <private>)"}
    assert repr(MisraGries(7, standard=True)) == "MisraGries(counters=7, standard=True, <private>)"
    state = sketched(WORDS)._state()
    assert repr(state) == "SketchState(<private>)"
    assert repr(sketched(WORDS)._table) == "Table(<private>)"


def test_memory_does_not_grow_with_the_stream() -> None:
    """Law: bytes are fixed by k for integers and short text, and bounded by key length for long."""
    rng = np.random.default_rng(0)
    short, long = set(), []
    for n in (100, 10_000, 100_000):
        keys = rng.integers(0, 2**40, n)
        short.add(sketched(keys, 50).memory)
        text = pa.array([f"a key of more than fifteen bytes, {key}" for key in keys[:20_000]])
        long.append(sketched(text, 50).memory)
    assert len(short) == 1
    assert max(long) < 250_000
    assert MisraGries(50).memory == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=300), st.integers(2, 6))
def test_long_keys_survive_compaction(keys: list[bytes], counters: int) -> None:
    """Law: moving long keys to a new arena loses and mixes up none."""
    stream = keys * 3
    sketch = MisraGries(counters)
    for start in range(0, len(stream), 7):
        sketch.update(stream[start : start + 7])
    assert content(sketch) == expected(stream, counters)


# -- the compiler --------------------------------------------------------------------------------


def test_only_one_module_loads_numba_and_importing_dpframe_does_not() -> None:
    """Law: the compiler is loaded with the first batch, from one place."""
    loads = set()
    texts = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    for path, text in texts.items():
        if "numba" not in text and "llvmlite" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if any(name.split(".")[0] in ("numba", "llvmlite") for name in names):
                loads.add(path.relative_to(PACKAGE).as_posix())
    assert loads == {"sketches/_kernels.py"}
    code = (
        "import sys, dpframe, dpframe.sketches as s; m = s.MisraGries(2); m.top(); m.update([]); "
        "s.merge_raw_sketches([m]); from dpframe.sketches.hot_partition import HotPartition as H; "
        "H(5, 2, 3, seed=1).update(m._state().counts.astype('u8')[:0]); "
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_a_read_only_installation_compiles_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: where compiled code cannot be kept, it is compiled in every process."""
    calls = []

    def njit(**options: Any) -> Any:
        calls.append(options)

        def decorate(function: Any) -> Any:
            if options.get("cache"):
                raise RuntimeError("cannot cache function: no locator available")
            return function

        return decorate

    monkeypatch.setattr(compiled_module.numba, "njit", njit)

    def function() -> None: ...

    assert compiled_module.compile_loop(function) is function
    assert calls == [{"cache": True, "nogil": True}, {"nogil": True}]


def test_a_copy_is_a_sketch_of_its_own() -> None:
    """What is counted in one is not counted in the other."""
    sketch = MisraGries(4)
    sketch.update(["a", "b"])
    twin = copy.copy(sketch)
    twin.update(["a"])
    assert (sketch.estimate("a"), twin.estimate("a")) == (1, 2)
    assert (sketch.total, twin.total) == (2, 3)
