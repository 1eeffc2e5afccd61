"""Synthetic rows are the same by whichever door rows come in, and have the types of the source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli import main as cli
from dpframe.testing import seeded_noise
from tests.doors import in_turn
from tests.members import some

N = 3_000
DRAWN = 400

Answer = tuple[pa.Table, pd.DataFrame | None]
"""Rows, and the counts behind them where a door shows them."""


@dataclass(frozen=True)
class World:
    """The same rows in everything that a front door reads."""

    table: pa.Table
    frame: pd.DataFrame
    parquet: Path
    con: duckdb.DuckDBPyConnection


def rows() -> pa.Table:
    """A column of every kind, with missing values, values out of bounds and odd text."""
    generator = np.random.default_rng(5)
    i = np.arange(N)
    heavy = (generator.zipf(1.4, N) - 1) % 50
    hours = 1_483_228_800 + 3600 * heavy * 7
    seconds = pa.array(hours).cast(pa.timestamp("s"))
    whole = {
        "i32": pa.array((heavy - 3).astype(np.int32)),
        "i64": pa.array(heavy * 10**6, mask=i % 31 == 0),
        "u8": pa.array((heavy % 7).astype(np.uint8)),
    }
    real = {
        "f32": pa.array((heavy / 3).astype(np.float32)),
        "f64": pa.array(np.where(i % 29 == 0, np.nan, heavy / 3), from_pandas=False),
        "money": pa.array([Decimal(int(h)) / 4 for h in heavy], type=pa.decimal128(7, 2)),
    }
    times = {
        "day": pa.array([dt.date(2017, 1, 1) + dt.timedelta(int(h)) for h in heavy]),
        "us": seconds.cast(pa.timestamp("us")),
        "ns": seconds.cast(pa.timestamp("ns")),
        "tz": seconds.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
    }
    texts = {
        "word": pa.array([None if h == 9 else f"w{h}" for h in heavy]),
        "odd": pa.array([("日本", "a'b", 'q"x', "é")[h % 4] for h in heavy]),
        "size": pa.array([f"s{h % 3}" for h in heavy]).dictionary_encode(),
        "yes": pa.array(heavy % 2 == 0),
        "year": pa.array(2000 + heavy % 3),
        "ip": pa.array(["2001:db8::1" if h == 8 else f"10.{h % 3}.{h}.7" for h in heavy]),
    }
    return pa.table({**whole, **real, **times, **texts})


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """As users have it; what pandas has no type for as Arrow."""
    frame = table.to_pandas()
    for name in ("day", "money"):
        frame[name] = pd.Series(pd.array(table[name], dtype=pd.ArrowDtype(table[name].type)))
    frame["i64"] = pd.Series(table["i64"].to_pandas(integer_object_nulls=True), dtype="Int64")
    return frame


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("doors")
    table = rows()
    pq.write_table(table, folder / "rows.parquet")
    con = duckdb.connect(str(folder / "user.db"))
    con.read_parquet(str(folder / "rows.parquet")).create("trips")
    yield World(table, as_pandas(table), folder / "rows.parquet", con)
    con.close()


# -- doors ---------------------------------------------------------------------------------------


def accessor(world: World, columns: Any, arguments: dict[str, Any]) -> Answer:
    generator = world.frame.dp.synthesize(columns, **arguments)
    return generator.sample_arrow(DRAWN), generator.counts()


def function(source: Callable[[World], object]) -> Callable[..., Answer]:
    def door(world: World, columns: Any, arguments: dict[str, Any]) -> Answer:
        generator = dp.synthesize(source(world), columns, **arguments)
        return generator.sample_arrow(DRAWN), generator.counts()

    return door


def stream(*ends: int) -> Callable[..., Answer]:
    def door(world: World, columns: Any, arguments: dict[str, Any]) -> Answer:
        sizes = {k: v for k, v in arguments.items() if k not in ("epsilon", "split")}
        of_finish = {k: v for k, v in arguments.items() if k in ("epsilon", "split")}
        counts = dp.PrivHP(columns, **sizes)
        for start, end in zip((0, *ends), (*ends, N), strict=True):
            counts.update(world.table.slice(start, end - start))
        generator = counts.finish(**of_finish)
        return generator.sample_arrow(DRAWN), generator.counts()

    return door


def command_line(world: World, columns: Any, arguments: dict[str, Any]) -> Answer:
    out, saved = (world.parquet.with_name(name) for name in ("out.parquet", "saved.parquet"))
    given = {**arguments}
    listed = given.pop("keys", None)
    flags = [f"--{k}={v}" if len(k) > 1 else f"-{k}{v}" for k, v in given.items()]
    specs = texts(columns)
    if listed is not None:
        by_name = listed if isinstance(listed, dict) else {specs[0].split(":")[1]: listed}
        for spec in specs:
            name = spec.partition(":")[2].partition("?")[0]
            if name in by_name:
                file = world.parquet.with_name(f"keys_{name}.parquet")
                names = name.split(",")
                keys = by_name[name]
                split = list(zip(*keys, strict=True)) if len(names) > 1 else [list(keys)]
                pq.write_table(pa.table(dict(zip(names, split, strict=True))), file)
                flags.append(f"--keys={file}")
    command = ["synthesize", str(world.parquet), *specs, *flags, f"-n{DRAWN}", "--quiet"]
    assert cli.main([*command, "-o", str(out), "--save", str(saved)]) == 0
    return pq.read_table(out), dp.Generator.load(saved).counts()


def texts(columns: Any) -> list[str]:
    if isinstance(columns, dict):
        kind = {True: "time", False: "number"}
        return [
            f"{kind[isinstance(low, str)]}:{name}?lower={low}&upper={high}"
            for name, (low, high) in columns.items()
        ]
    return [columns] if isinstance(columns, str) else list(columns)


def arrow(con: duckdb.DuckDBPyConnection, statement: str, given: Any = None) -> pa.Table:
    return con.sql(statement, params=given).to_arrow_table()


def sql(source: str) -> Callable[..., Answer]:
    def door(world: World, columns: Any, arguments: dict[str, Any]) -> Answer:
        dp.register(world.con)  # here: a connection draws as the context of its registration does
        named = "".join(f', "{name}" := ${name}' for name in arguments)
        statement = f"FROM dp_synthesize({source}, columns := $c, n := {DRAWN}{named})"
        columns = {k: list(v) for k, v in columns.items()} if isinstance(columns, dict) else columns
        given = {"c": columns, **arguments}
        return arrow(world.con, statement, given), None

    return door


DOORS: dict[str, Callable[..., Answer]] = {
    "accessor": accessor,
    "function, pandas": function(lambda world: world.frame),
    "function, Arrow": function(lambda world: world.table),
    "function, Polars": function(lambda world: pl.read_parquet(world.parquet)),
    "function, lazy Polars": function(lambda world: pl.scan_parquet(world.parquet)),
    "function, DuckDB relation": function(lambda world: world.con.table("trips")),
    "function, file": function(lambda world: world.parquet),
    "stream, at once": stream(),
    "stream, in batches": stream(1, 2, 2, 1000, 2047, 2999),
    "command line": command_line,
    "SQL, table": sql("'trips'"),
    "SQL, query": sql("query := 'SELECT * FROM trips -- all'"),
}

# -- the law -------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"k": 8, "width": 32}
"""A tree of hundreds of nodes: that of the sizes by default, 22,000, is in one case."""
PURE: dict[str, Any] = {"epsilon": 2.0, **SMALL}
YEAR = "lower=2017-01-01&upper=2018-01-01"
WORDS = ["w0", "w1", "w2", "w3", "not in the data"]

CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("int32", "number:i32?lower=0&upper=64", PURE),
    ("int64 with NULL", "number:i64?lower=0&upper=4e7", PURE),
    ("uint8", "number:u8?lower=0&upper=300", PURE),
    ("float32", "number:f32?lower=-1&upper=20", PURE),
    ("float64 with NaN", "number:f64?lower=-1&upper=20", PURE),
    ("decimal", "number:money?lower=0&upper=20", PURE),
    ("date", f"time:day?{YEAR}", PURE),
    ("timestamp us", f"time:us?{YEAR}", PURE),
    ("timestamp ns", f"time:ns?{YEAR}", PURE),
    ("timestamp with a zone", f"time:tz?{YEAR}", PURE),
    ("address", "ip:ip?version=4", PURE),
    ("categories", "columns:word", {**PURE, "keys": WORDS}),
    ("categories, Unicode", "columns:odd", {**PURE, "keys": ["日本", "a'b", 'q"x']}),
    ("dictionary", "columns:size", {**PURE, "keys": ["s0", "s1"]}),
    ("booleans", "columns:yes", {**PURE, "keys": [True, False]}),
    ("whole numbers as categories", "columns:year", {**PURE, "keys": [2000, 2001]}),
    ("two columns", "columns:size,word", {**PURE, "keys": [("s0", "w0"), ("s1", "w1")]}),
    ("a dict", {"f64": (0, 20), "us": ("2017-01-01", "2018-01-01")}, PURE),
    (
        "several, in turn",
        ["number:i64?lower=0&upper=4e7", f"time:us?{YEAR}", "columns:word", "columns:yes"],
        {**PURE, "keys": {"word": WORDS, "yes": [True, False]}},
    ),
    ("sizes by default", f"time:us?{YEAR}", {"epsilon": 2.0}),
    ("sizes", "number:f32?lower=0&upper=20", {**PURE, "k": 4, "width": 16, "rows": 3}),
    ("uniform", "number:f32?lower=0&upper=20", {**PURE, "split": "uniform", "depth": 12}),
]
every_case = pytest.mark.parametrize(
    ("columns", "arguments", "doors"), in_turn(DOORS, CASES, "function, Arrow")
)


@some(
    "int32",
    "uint8",
    "decimal",
    "timestamp us",
    "address",
    "dictionary",
    "whole numbers as categories",
    "several, in turn",
)
@every_case
def test_every_front_door_gives_the_same_rows(
    world: World, columns: Any, arguments: dict[str, Any], doors: dict[str, Any]
) -> None:
    """Law: same rows, arguments and noise give equal counts, equal rows and equal types."""
    found = {}
    for name, door in doors.items():
        with seeded_noise(3):
            found[name] = door(world, columns, arguments)
    expected, counts = found["function, Arrow"]
    assert counts is not None
    check_counts(counts)
    names = expected.column_names
    for name in names:
        given, kind = world.table.schema.field(name).type, expected.schema.field(name).type
        assert same_type(given, kind), name
    for name, (table, tree) in found.items():
        assert table.column_names == names, name
        assert table.to_pylist() == expected.to_pylist(), name
        if name not in ("command line",):  # pandas writes its file
            for field, other in zip(expected.schema, table.schema, strict=True):
                assert same_type(field.type, other.type), (name, field.name)
        if tree is not None:
            pd.testing.assert_frame_equal(tree, counts, obj=name)


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for the width of offsets of text, dictionaries, and the name of a zone."""
    if pa.types.is_dictionary(one):
        one = one.value_type
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return bool(one.unit == other.unit and (one.tz is None) == (other.tz is None))
    if pa.types.is_string(one) or pa.types.is_large_string(one):
        return bool(pa.types.is_string(other) or pa.types.is_large_string(other))
    return bool(one == other)


def check_counts(frame: pd.DataFrame) -> None:
    """The columns, types, order and sums of the docstring."""
    assert list(frame.columns) == ["level", "cell", "count", "leaf"]
    assert [str(frame[c].dtype) for c in ("level", "count", "leaf")] == ["int64", "float64", "bool"]
    assert frame["cell"][0] == "*"
    assert frame["level"].is_monotonic_increasing
    assert (frame["count"] >= 0).all()
    total = frame["count"][0]
    assert np.isclose(frame.loc[frame["leaf"], "count"].sum(), total)


def test_the_law_of_front_doors_can_fail(world: World) -> None:
    """Negative control: other noise, in SQL too, gives other rows."""
    for door in ("function, Arrow", "SQL, table", "stream, at once"):
        found = []
        for seed in (3, 4):
            with seeded_noise(seed):
                found.append(DOORS[door](world, "number:f64?lower=0&upper=20", PURE)[0])
        assert found[0].to_pylist() != found[1].to_pylist()


# -- types of pandas -----------------------------------------------------------------------------

BOUNDED = {
    **dict.fromkeys(("i32", "i64", "u8", "f32", "f64", "money"), (0, 60)),
    **dict.fromkeys(("day", "us", "ns", "tz"), ("2017-01-01", "2018-01-01")),
}


@some("i32", "u8", "money", "us")
@pytest.mark.parametrize("name", BOUNDED)
def test_a_frame_comes_back_with_its_types(world: World, name: str, tmp_path: Path) -> None:
    """Law: every type of pandas comes back, from a saved generator too, and for no rows."""
    generator = dp.synthesize(world.frame, {name: BOUNDED[name]}, epsilon=1.0, **SMALL)
    generator.save(tmp_path / "g.parquet")
    for one in (generator, dp.Generator.load(tmp_path / "g.parquet")):
        for n in (0, 1, 50):
            frame = one.sample(n)
            assert frame.dtypes.to_dict() == {name: world.frame[name].dtype}
            assert len(frame) == n
            assert isinstance(frame.index, pd.RangeIndex)
            assert not frame[name].isna().any()


def test_zones_are_kept_by_pandas() -> None:
    """Law: local times come back in the zone of the frame."""
    times = pd.date_range("2017-06-01", periods=500, freq="h", tz="Europe/Rome")
    frame = pd.DataFrame({"at": times})
    generator = dp.synthesize(frame, {"at": ("2017-06-01", "2017-07-01")}, epsilon=1.0, **SMALL)
    assert generator.sample(20)["at"].dtype == frame["at"].dtype


@pytest.mark.parametrize("dtype", ["int64", "int32", "Int64", "uint8"])
def test_whole_numbers_that_can_be_other_have_missing_values(dtype: str) -> None:
    """Law: ``<other>`` is missing in a column of numbers, whose type does not hang on the draw."""
    frame = pd.DataFrame({"year": pd.Series([17, 18, 19] * 200, dtype=dtype)})
    generator = dp.synthesize(frame, "columns:year", keys=[17, 18], epsilon=5.0)
    nullable = {"uint8": "UInt8"}.get(dtype, dtype.capitalize())
    for n in (0, 1, 2, 500):
        assert str(generator.sample(n)["year"].dtype) == nullable
    assert set(generator.sample(500)["year"].dropna()) == {17, 18}
    assert generator.sample(500)["year"].isna().any()


def test_objects_and_categories_come_back_as_text() -> None:
    """Law: what no type says, and a list of categories, is not taken from the data."""
    frame = pd.DataFrame({"size": pd.Categorical(["a", "b", "sEcReT"] * 200)})
    frame["object"] = pd.Series(["x", "y", "z"] * 200, dtype=object)
    generator = dp.synthesize(
        frame,
        ["columns:size", "columns:object"],
        keys={"size": ["a", "b"], "object": ["x"]},
        epsilon=5.0,
    )
    rows = generator.sample(300)
    assert set(rows["size"]) == {"a", "b", "<other>"}
    assert set(rows["object"]) == {"x", "<other>"}
    assert "sEcReT" not in str(rows.dtypes.to_dict()) + str(generator.sample_arrow(1).schema)


# -- keys ----------------------------------------------------------------------------------------


def test_keys_are_the_same_in_every_form(world: World) -> None:
    """Law: lists, frames, dicts and structs name the same categories."""
    frame = pd.DataFrame({"word": WORDS})
    forms = {
        "list": WORDS,
        "tuple": tuple(WORDS),
        "dict": {"word": WORDS},
        "dict of tuples": {("word",): tuple(WORDS)},
        "frame": frame,
        "dict of frames": {"word": frame},
        "Polars": pl.from_pandas(frame),
        "Arrow": pa.table({"word": WORDS}),
        "series": frame["word"],
        "array": frame["word"].to_numpy(),
    }
    found = {}
    for name, keys in forms.items():
        with seeded_noise(9):
            found[name] = accessor(world, "columns:word", {**PURE, "keys": keys})[0].to_pylist()
    listed = str(WORDS)
    for name in (listed, f"{{'word': {listed}}}", "getvariable('words')"):
        with seeded_noise(9):
            con = world.con.cursor()
            con.execute("SET VARIABLE words = $w", {"w": WORDS})
            dp.register(con)
            call = f"'trips', 'columns:word', n := {DRAWN}, epsilon := 2.0, \"keys\" := {name}"
            found[name] = arrow(con, f"FROM dp_synthesize({call})").to_pylist()
    assert all(rows == found["list"] for rows in found.values()), [
        name for name, rows in found.items() if rows != found["list"]
    ]


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("day", "[DATE '2017-01-01', DATE '2017-01-08']"),
        ("us", "[TIMESTAMP '2017-01-01', TIMESTAMP '2017-01-01 07:00:00']"),
        ("money", "['0.25', '0.50']"),
        ("year", "[2000, 2001]"),
        ("yes", "[true, false]"),
    ],
)
def test_keys_of_sql_have_the_types_of_sql(world: World, column: str, keys: str) -> None:
    """Law: dates, times, decimals and booleans are listed as SQL writes them."""
    dp.register(world.con)
    call = f"'trips', 'columns:{column}', n := 300, epsilon := 50.0, \"keys\" := {keys}"
    found = world.con.execute(f"SELECT DISTINCT {column} FROM dp_synthesize({call})").fetchall()
    wanted = world.con.execute(f"SELECT unnest({keys})::VARCHAR").fetchall()
    shown = {str(v) for (v,) in found if v is not None}
    assert {str(v) for (v,) in wanted} >= {s.lower() if column == "yes" else s for s in shown}
    assert shown


def test_bounds_of_sql_have_the_types_of_sql(world: World) -> None:
    dp.register(world.con)
    bounds = "{'day': [DATE '2017-01-01', DATE '2018-01-01'], 'money': [0, 20.5]}"
    call = f"'trips', {bounds}, n := 30, epsilon := 1.0"
    found = arrow(world.con, f"FROM dp_synthesize({call})")
    assert found.schema.types == [pa.date32(), pa.decimal128(7, 2)]


# -- size ----------------------------------------------------------------------------------------


@some("0", "100000")
@pytest.mark.parametrize("n", [0, 1, 100_000])
def test_any_number_of_rows(world: World, n: int) -> None:
    """Law: as many rows as were asked for, of the same types, in Python and SQL."""
    columns = ["number:money?lower=0&upper=20", "columns:odd"]
    asked: dict[str, Any] = {"epsilon": 1.0, "keys": ["日本", "é"], **SMALL}
    generator = dp.synthesize(world.parquet, columns, **asked)
    table = generator.sample_arrow(n)
    assert len(table) == len(generator.sample(n)) == n
    assert table.schema.types == [pa.decimal128(7, 2), pa.string()]
    dp.register(world.con)
    call = "'trips', $c, n := $n, epsilon := $epsilon, k := $k, width := $width, \"keys\" := $keys"
    given = {"c": columns, "n": n, **asked}
    found = arrow(world.con, f"FROM dp_synthesize({call})", given)
    assert len(found) == n
    assert found.schema.types == table.schema.types


def test_a_seed_repeats_rows(world: World) -> None:
    """Law: rows of one seed are the same again; without one they differ, and cost nothing."""
    generator = dp.synthesize(world.parquet, {"f64": (0, 20)}, epsilon=1.0, **SMALL)
    pd.testing.assert_frame_equal(generator.sample(50, seed=4), generator.sample(50, seed=4))
    assert not generator.sample(50, seed=4).equals(generator.sample(50, seed=5))
    assert not generator.sample(50).equals(generator.sample(50))


# -- ledgers and names ---------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> dp.Ledger:
    return dp.Ledger(tmp_path / "budget.db", epsilon=100.0, delta=1e-3)


def test_every_door_charges_once(world: World, ledger: dp.Ledger) -> None:
    """Law: fitting costs the same by whichever door; sampling, counts and files cost nothing."""
    for name, door in DOORS.items():
        if name != "command line":  # takes the path of the ledger instead
            with dp.use_ledger(ledger):
                door(world, "number:f64?lower=0&upper=20", PURE)
    flags = ["--epsilon=2", "-k8", "--width=32", f"--ledger={ledger.path}", "-n3"]
    assert cli.main(["synthesize", str(world.parquet), "number:f64?lower=0&upper=20", *flags]) == 0
    spent = ledger.releases()
    assert len(spent) == len(DOORS)
    assert spent[["epsilon", "delta", "hierarchy", "neighbours"]].drop_duplicates().shape[0] == 1
    assert ledger.summary()["spent_epsilon"][0] == 2.0 * len(DOORS)
    with dp.use_ledger(ledger):
        generator = dp.synthesize(world.table, {"f64": (0, 20)}, epsilon=1.0, **SMALL)
        charged = len(ledger.releases())
        for _ in range(3):
            generator.sample(10)
            generator.sample_arrow(10)
            generator.counts()
        generator.save(Path(ledger.path).with_name("g.parquet"))
        dp.Generator.load(Path(ledger.path).with_name("g.parquet")).sample(10)
    assert len(ledger.releases()) == charged == len(DOORS) + 1


def test_every_door_explains_the_same(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: function, accessor, command line and SQL print one plan."""
    dp.register(world.con)
    for columns, given in (
        ("number:f64?lower=0&upper=20", {"epsilon": 1.0}),
        (
            ["number:f64?lower=0&upper=20", f"time:us?{YEAR}"],
            {"epsilon": 0.5, "k": 9, "width": 64, "rows": 3, "depth": 15, "split": "uniform"},
        ),
    ):
        expected = dp.explain_synthesize(columns, **given)
        assert str(world.frame.dp.explain_synthesize(columns, **given)) == str(expected)
        named = "".join(f', "{name}" := ${name}' for name in given)
        statement = f"FROM dp_explain_synthesize(columns := $c{named})"
        shown = world.con.execute(statement, {"c": columns, **given}).df()
        assert shown.to_dict("list") == expected.to_frame().to_dict("list")
        flags = [f"--{k}={v}" if len(k) > 1 else f"-{k}{v}" for k, v in given.items()]
        assert cli.main(["explain-synthesize", *texts(columns), *flags]) == 0
        assert capsys.readouterr().out.strip() == str(expected)


def test_a_name_replays_the_same_counts(world: World, ledger: dp.Ledger) -> None:
    """Law: one charge, whichever frame type; rows are drawn anew from the same counts."""
    asked: dict[str, Any] = {"epsilon": 1.0, "ledger": ledger, "release": "r", **SMALL}
    first = dp.synthesize(world.table, {"f64": (0, 20)}, **asked)
    for again in (
        dp.synthesize(world.table, {"f64": (0, 20)}, **asked),
        dp.synthesize(world.table, "number:f64?lower=0&upper=20.0", **asked, seed=3),
    ):
        pd.testing.assert_frame_equal(again.counts(), first.counts())
        assert again.receipt.to_dict() == {**first.receipt, "replayed": True}
        pd.testing.assert_frame_equal(again.sample(20, seed=1), first.sample(20, seed=1))
    assert len(ledger.releases()) == 1


@some(0, 2, 5, 7)
@pytest.mark.parametrize(
    "other",
    [
        {"columns": {"f64": (0, 21)}},
        {"columns": {"f32": (0, 20)}},
        {"columns": {"f64": (0, 20), "i32": (0, 9)}},
        {"epsilon": 2.0},
        {"k": 9},
        {"width": 9},
        {"rows": 3},
        {"depth": 9},
        {"split": "uniform"},
    ],
)
def test_a_name_stands_for_one_request(
    world: World, ledger: dp.Ledger, other: dict[str, Any]
) -> None:
    """Law: other arguments under the same name are refused, without a charge."""
    asked: dict[str, Any] = {"columns": {"f64": (0, 20)}, "epsilon": 1.0, **SMALL}
    dp.synthesize(world.table, **asked, ledger=ledger, release="r")
    with pytest.raises(dp.ReleaseNameError, match="'r'"):
        dp.synthesize(world.table, **{**asked, **other}, ledger=ledger, release="r")
    with pytest.raises(dp.ReleaseNameError, match="'r'"):
        dp.tree_counts(world.table, ["word"], epsilon=1.0, keys=["a"], ledger=ledger, release="r")
    assert len(ledger.releases()) == 1


def test_a_name_of_another_release_is_refused(world: World, ledger: dp.Ledger) -> None:
    dp.tree_counts(world.table, ["word"], epsilon=1.0, keys=["a"], ledger=ledger, release="r")
    with pytest.raises(dp.ReleaseNameError, match="'r'"):
        dp.synthesize(world.table, {"f64": (0, 20)}, epsilon=1.0, ledger=ledger, release="r")
    assert len(ledger.releases()) == 1


# -- files and streams ---------------------------------------------------------------------------

TWO = ["number:money?lower=0&upper=20", "columns:word", "columns:size,yes"]
TWO_KEYS = {"word": WORDS, "size,yes": [("s0", True), ("s1", False)]}


def test_a_generator_comes_back_from_its_file(world: World, tmp_path: Path) -> None:
    """Law: counts, card and rows of a seed are those of before."""
    generator = dp.synthesize(world.table, TWO, keys=TWO_KEYS, epsilon=1.0, **SMALL)
    generator.save(tmp_path / "g.parquet")
    loaded = dp.Generator.load(str(tmp_path / "g.parquet"))
    pd.testing.assert_frame_equal(loaded.counts(), generator.counts())
    assert loaded.receipt.to_dict() == generator.receipt.to_dict()
    assert str(loaded.receipt) == str(generator.receipt)
    assert (loaded.columns, repr(loaded)) == (generator.columns, repr(generator))
    assert loaded.sample_arrow(200, seed=1).equals(generator.sample_arrow(200, seed=1))
    pd.testing.assert_frame_equal(loaded.sample(200, seed=1), generator.sample(200, seed=1))


def test_only_a_generator_is_loaded(world: World, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no")
    dp.PrivHP({"f64": (0, 20)}).save(tmp_path / "stream")
    for file in (world.parquet, tmp_path / "none", tmp_path / "text", tmp_path / "stream"):
        with pytest.raises(dp.SourceError, match=r"is no generator|cannot be read"):
            dp.Generator.load(file)
    generator = dp.synthesize(world.table, {"f64": (0, 20)}, epsilon=1.0, **SMALL)
    with pytest.raises(dp.SourceError, match="was not written to"):
        generator.save(tmp_path / "no" / "g.parquet")


def of_stream(counts: dp.PrivHP) -> tuple[pd.DataFrame, pa.Table]:
    with seeded_noise(8):
        generator = counts.finish(epsilon=1.0)
    return generator.counts(), generator.sample_arrow(100, seed=1)


def test_a_merged_stream_is_the_stream_of_all_rows(world: World, tmp_path: Path) -> None:
    """Law: parts, merged in any order and by way of files, release what the whole does."""

    def part(start: int, end: int) -> dp.PrivHP:
        counts = dp.PrivHP(TWO, keys=TWO_KEYS, k=8, width=32, seed=7)
        counts.update(world.table.slice(start, end - start))
        file = tmp_path / f"part{start}"
        counts.save(file)
        return dp.PrivHP.load(file)

    counts, rows = of_stream(part(0, N))
    parts = [part(0, 10), part(10, 11), part(11, 2000), part(2000, N)]
    empty = dp.PrivHP(TWO, keys=TWO_KEYS, k=8, width=32, seed=7)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        both = empty
        for i in order:
            both = both.merge(parts[i])
        found, drawn = of_stream(both)
        pd.testing.assert_frame_equal(found[["level", "cell", "count", "leaf"]], counts)
        assert drawn.equals(rows)


@pytest.mark.parametrize(
    "other",
    [
        {"columns": {"f64": (0, 21)}},
        {"columns": {"f32": (0, 20)}},
        {"k": 9},
        {"width": 9},
        {"rows": 3},
        {"depth": 9},
        {"seed": 8},
    ],
)
def test_streams_of_other_parameters_do_not_merge(other: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"columns": {"f64": (0, 20)}, "seed": 7, **SMALL}
    with pytest.raises(dp.ParameterError):
        dp.PrivHP(**asked).merge(dp.PrivHP(**{**asked, **other}))
    with pytest.raises(dp.ParameterTypeError, match="must be a PrivHP"):
        dp.PrivHP(**asked).merge(3)  # type: ignore[arg-type]


def test_a_stream_finishes_and_resumes(world: World, ledger: dp.Ledger, tmp_path: Path) -> None:
    """Law: each finish is charged; rows come after it only when the caller says so."""
    counts = dp.PrivHP({"f64": (0, 20)}, **SMALL)
    with pytest.raises(dp.ParameterError, match="before finish"):
        counts.sample(5)
    counts.update(world.table)
    with dp.use_ledger(ledger):
        first, second = counts.finish(epsilon=1.0), counts.finish(epsilon=1.0)
    assert not first.counts().equals(second.counts())
    assert len(ledger.releases()) == 2
    assert ledger.summary()["spent_epsilon"][0] == 2.0
    counts.save(tmp_path / "counts")
    for one in (counts, dp.PrivHP.load(tmp_path / "counts")):
        with pytest.raises(dp.ParameterError, match="update after finish"):
            one.update(world.table)
        with pytest.raises(dp.ParameterError, match="merge after finish"):
            one.merge(dp.PrivHP({"f64": (0, 20)}, **SMALL))
        one.resume()
        one.update(world.table)
        total = one.finish(epsilon=50.0).counts()["count"][0]
        assert abs(total - 2 * (N - world.table["f64"].to_pandas().isna().sum())) < 20


def test_a_batch_of_other_types_is_refused_as_a_whole(world: World) -> None:
    """Law: nothing of it is counted."""
    counts = dp.PrivHP({"f64": (0, 20)}, seed=1, **SMALL)
    counts.update(world.table)
    before = of_stream(counts)[0]
    counts.resume()
    for wrong in (pa.table({"f64": ["1"]}), pa.table({"f32": [1.0]}), "no.parquet"):
        with pytest.raises(dp.DpframeError):
            counts.update(wrong)
    pd.testing.assert_frame_equal(of_stream(counts)[0], before)


def test_a_stream_tells_nothing(world: World) -> None:
    counts = dp.PrivHP({"f64": (0, 20)}, k=8)
    shown, memory = repr(counts), counts.memory
    counts.update(world.table)
    assert (repr(counts), counts.memory) == (shown, memory)
    assert "<private>" in shown


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_command_line_writes_rows(world: World, tmp_path: Path, ending: str) -> None:
    """Law: the rows of a seed, in every format; a name replays."""
    book, out = tmp_path / "b.db", tmp_path / f"out.{ending}"
    dp.Ledger(book, epsilon=10.0, delta=1e-6)
    command = ["synthesize", str(world.parquet), "number:i32?lower=0&upper=20", "--epsilon=1"]
    command += [f"--ledger={book}", "--release=r", "-n", "40", "--seed=4", "-o", str(out)]
    read = pd.read_parquet if ending == "parquet" else pd.read_csv
    found = []
    for _ in range(2):
        assert cli.main([*command, "--quiet"]) == 0
        found.append(read(out))
    pd.testing.assert_frame_equal(*found)
    releases = dp.Ledger(book).releases()
    assert len(releases) == 1
    assert len(found[0]) == 40
    if ending == "parquet":
        receipt = receipt_in_metadata(pq.read_schema(out).metadata)
        assert receipt is not None
        assert receipt["release_id"] == releases["release_id"][0]
        assert found[0].attrs == {}


MISTAKES = [
    (["number:f64?lower=0&upper=9", "--epsilon=1"], ("n is missing",)),
    (["number:f64?lower=0", "--epsilon=1", "-n3"], ("upper",)),
    (["number:f46?lower=0&upper=9", "--epsilon=1", "-n3"], ("'f46'", "Did you mean")),
    (["number:f64?lower=0&upper=9", "-n3"], ("epsilon is missing",)),
    (["columns:word", "--epsilon=1", "-n3"], ("keys",)),
    (["columns:word", "--epsilon=1", "-n3", "--keys=no.csv"], ("'no.csv'", "does not exist")),
    (["number:f64?lower=0&upper=9", "--epsilon=1", "-n3", "--keys=no.csv"], ("keys has 1 files",)),
    (["number:f64?lower=0&upper=9", "--epsilon=1", "-n3", "-o", "x.html"], ("'x.html'",)),
    (["number:f64?lower=0&upper=9", "--epsilon=1", "-n3", "--save", "x.csv"], ("'x.csv'",)),
    (["number:f64?lower=0&upper=9", "--epsilon=1", "-n3", "--split=unifrom"], ("Did you mean",)),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_the_command_line_answers_mistakes(
    world: World,
    arguments: list[str],
    said: tuple[str, ...],
    ledger: dp.Ledger,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Law: one sentence, no trace, no charge."""
    command = ["synthesize", str(world.parquet), *arguments, f"--ledger={ledger.path}"]
    assert cli.main(command) != 0
    words = capsys.readouterr().err
    assert "Traceback" not in words
    for part in said:
        assert part in words
    assert len(ledger.releases()) == 0


# -- real tables ---------------------------------------------------------------------------------

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
with_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder shared/data with real tables is not beside the checkout"
)

REAL: list[Any] = [
    ("flights_nyc13", {"distance": (0, 5000), "air_time": (0, 720)}, {}),
    ("flights_nyc13", "time:date?lower=2013-01-01&upper=2014-01-01", {}),
    ("flights_nyc13", "columns:origin", {"keys": ["JFK", "LGA", "EWR"]}),
    ("geo_geonames_cities500", {"lat": (-90, 90), "lon": (-180, 180)}, SMALL),
    pytest.param("tor_relay_ips", "ip:ip?version=4", SMALL, marks=pytest.mark.evidence),
]


@some(0, 2)
@with_data
@pytest.mark.parametrize(("table", "columns", "arguments"), REAL)
def test_real_tables_come_out_the_same(table: str, columns: Any, arguments: dict[str, Any]) -> None:
    """Law: frame, file and SQL agree on real rows."""
    file = DATA / f"{table}.parquet"
    names = list(dp.PrivHP(columns, **arguments).columns)
    found = []
    for source in (pq.read_table(file, columns=names), file):
        with seeded_noise(6):
            found.append(dp.synthesize(source, columns, epsilon=1.0, **arguments).sample_arrow(500))
    with duckdb.connect() as con, seeded_noise(6):
        dp.register(con)
        asked = {k: list(v) for k, v in columns.items()} if isinstance(columns, dict) else columns
        named = "".join(f', "{name}" := ${name}' for name in arguments)
        query = f"query := 'FROM read_parquet(''{file}'')'"
        statement = f"FROM dp_synthesize({query}, columns := $c, n := 500, epsilon := 1.0{named})"
        found.append(arrow(con, statement, {"c": asked, **arguments}))
    for other in found[1:]:
        assert other.to_pylist() == found[0].to_pylist()
    assert len(found[0]) == 500


# -- types that only pandas has ------------------------------------------------------------------

PERIODS = pd.period_range("2020-01-01", "2020-01-12", freq="D").repeat(50)
INTERVALS = pd.interval_range(0, 9).repeat(60)
TRUTH = [True, False] * 300
TEXT = str(pd.Series(["a"]).dtype)  # pandas 2 has no type for it
ODD: dict[str, tuple[Any, Any, Any, str]] = {
    "sparse numbers": (pd.arrays.SparseArray([1.0] * 600), {"c": (0, 9)}, None, "Sparse[float64"),
    "sparse keys": (pd.arrays.SparseArray([1] * 600), "columns:c", ["1"], TEXT),
    "periods": (PERIODS, "time:c?lower=2020-01-01&upper=2021-01-01", None, "period[D]"),
    "listed periods": (PERIODS, "columns:c", ["2020-01-01"], TEXT),
    "listed intervals": (INTERVALS, "columns:c", ["(0, 1]"], TEXT),
    "listed truth": (TRUTH, "columns:c", ["true"], "boolean"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_charged_can_be_sampled(name: str) -> None:
    """Values come back with the type of the column where they can, otherwise as text."""
    values, columns, keys, kind = ODD[name]
    generator = dp.synthesize(pd.DataFrame({"c": values}), columns, epsilon=9.0, keys=keys)
    drawn = generator.sample(500)["c"]
    assert str(drawn.dtype).startswith(kind)
    if name == "listed truth":  # what is not listed is not known, and so not True either
        assert drawn.isna().any()


@pytest.mark.parametrize(
    "values",
    [pd.arrays.SparseArray([1] * 9), pd.interval_range(0, 9), [1j] * 9],
    ids=["sparse", "interval", "complex"],
)
def test_what_cannot_be_sampled_is_not_charged(tmp_path: Path, values: Any) -> None:
    """The type of a column is known before anything is spent."""
    ledger = dp.Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-3)
    frame = pd.DataFrame({"c": values})
    refused = "no rows can be drawn|has type"
    with pytest.raises(dp.ColumnError, match=refused):
        dp.synthesize(frame, {"c": (0, 9)}, epsilon=1.0, ledger=ledger)
    with pytest.raises(dp.ColumnError, match=refused):
        dp.PrivHP({"c": (0, 9)}, k=4, width=8).update(frame)
    assert ledger.spent.epsilon == 0
