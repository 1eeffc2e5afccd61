"""Generators: types of the rows that they draw, keys, seeds, files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpframe as dp
from dpframe.asking.release import receipt_in_metadata
from dpframe.doors.cli import main as cli
from dpframe.testing import seeded_noise
from tests.doors import World
from tests.integration.contract import (
    DRAWN,
    ROWS,
    SMALL,
    SYNTHETIC,
    WORDS,
    N,
    by_accessor,
    kinds,
    world_of,
)
from tests.members import some

"""Rows, and the counts behind them where a door shows them."""


def arrow(con: duckdb.DuckDBPyConnection, statement: str, given: Any = None) -> pa.Table:
    return con.sql(statement, params=given).to_arrow_table()


"""A tree of hundreds of nodes: that of the sizes by default, 22,000, is in one case."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = world_of(ROWS, tmp_path_factory.mktemp("doors"))
    yield made
    made.con.close()


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
            asked = {**SYNTHETIC, "keys": keys}
            found[name] = by_accessor(world, "columns:word", asked)[0].to_pylist()
    listed = str(WORDS)
    for name in (listed, f"{{'word': {listed}}}", "getvariable('words')"):
        with seeded_noise(9):
            con = world.con.cursor()
            con.execute("SET VARIABLE words = $w", {"w": WORDS})
            dp.register(con)
            call = f"'visits', 'columns:word', n := {DRAWN}, epsilon := 2.0, \"keys\" := {name}"
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
    call = f"'visits', 'columns:{column}', n := 300, epsilon := 50.0, \"keys\" := {keys}"
    found = world.con.execute(f"SELECT DISTINCT {column} FROM dp_synthesize({call})").fetchall()
    wanted = world.con.execute(f"SELECT unnest({keys})::VARCHAR").fetchall()
    shown = {str(v) for (v,) in found if v is not None}
    assert {str(v) for (v,) in wanted} >= {s.lower() if column == "yes" else s for s in shown}
    assert shown


def test_bounds_of_sql_have_the_types_of_sql(world: World) -> None:
    dp.register(world.con)
    bounds = "{'day': [DATE '2017-01-01', DATE '2018-01-01'], 'money': [0, 20.5]}"
    call = f"'visits', {bounds}, n := 30, epsilon := 1.0"
    found = arrow(world.con, f"FROM dp_synthesize({call})")
    assert found.schema.types == [pa.date32(), pa.decimal128(7, 2)]


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
    call = "'visits', $c, n := $n, epsilon := $epsilon, k := $k, width := $width, \"keys\" := $keys"
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


def test_what_is_drawn_of_a_generator_costs_nothing(ledger: dp.Ledger) -> None:
    """Law: fitting is charged; sampling, counts and files cost nothing."""
    with dp.use_ledger(ledger):
        generator = dp.synthesize(kinds(), {"f64": (0, 20)}, epsilon=1.0, **SMALL)
        charged = len(ledger.releases())
        for _ in range(3):
            generator.sample(10)
            generator.sample_arrow(10)
            generator.counts()
        generator.save(Path(ledger.path).with_name("g.parquet"))
        dp.Generator.load(Path(ledger.path).with_name("g.parquet")).sample(10)
    assert len(ledger.releases()) == charged == 1


def test_a_name_replays_the_same_counts(world: World, ledger: dp.Ledger) -> None:
    """Law: one charge, whichever frame type; rows are drawn anew from the same counts."""
    asked: dict[str, Any] = {"epsilon": 1.0, "ledger": ledger, "release": "r", **SMALL}
    first = dp.synthesize(kinds(), {"f64": (0, 20)}, **asked)
    for again in (
        dp.synthesize(kinds(), {"f64": (0, 20)}, **asked),
        dp.synthesize(kinds(), "number:f64?lower=0&upper=20.0", **asked, seed=3),
    ):
        pd.testing.assert_frame_equal(again.counts(), first.counts())
        assert again.receipt.to_dict() == {**first.receipt, "replayed": True}
        pd.testing.assert_frame_equal(again.sample(20, seed=1), first.sample(20, seed=1))
    assert len(ledger.releases()) == 1


TWO = ["number:money?lower=0&upper=20", "columns:word", "columns:size,yes"]
TWO_KEYS = {"word": WORDS, "size,yes": [("s0", True), ("s1", False)]}


def test_a_generator_comes_back_from_its_file(world: World, tmp_path: Path) -> None:
    """Law: counts, card and rows of a seed are those of before."""
    generator = dp.synthesize(kinds(), TWO, keys=TWO_KEYS, epsilon=1.0, **SMALL)
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
    generator = dp.synthesize(kinds(), {"f64": (0, 20)}, epsilon=1.0, **SMALL)
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
        counts.update(kinds().slice(start, end - start))
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
    counts.update(kinds())
    with dp.use_ledger(ledger):
        first, second = counts.finish(epsilon=1.0), counts.finish(epsilon=1.0)
    assert not first.counts().equals(second.counts())
    assert len(ledger.releases()) == 2
    assert ledger.summary()["spent_epsilon"][0] == 2.0
    counts.save(tmp_path / "counts")
    for one in (counts, dp.PrivHP.load(tmp_path / "counts")):
        with pytest.raises(dp.ParameterError, match="update after finish"):
            one.update(kinds())
        with pytest.raises(dp.ParameterError, match="merge after finish"):
            one.merge(dp.PrivHP({"f64": (0, 20)}, **SMALL))
        one.resume()
        one.update(kinds())
        total = one.finish(epsilon=50.0).counts()["count"][0]
        assert abs(total - 2 * (N - kinds()["f64"].to_pandas().isna().sum())) < 20


def test_a_batch_of_other_types_is_refused_as_a_whole(world: World) -> None:
    counts = dp.PrivHP({"f64": (0, 20)}, seed=1, **SMALL)
    counts.update(kinds())
    before = of_stream(counts)[0]
    counts.resume()
    for wrong in (pa.table({"f64": ["1"]}), pa.table({"f32": [1.0]}), "no.parquet"):
        with pytest.raises(dp.DpframeError):
            counts.update(wrong)
    pd.testing.assert_frame_equal(of_stream(counts)[0], before)


def test_a_stream_tells_nothing(world: World) -> None:
    counts = dp.PrivHP({"f64": (0, 20)}, k=8)
    shown, memory = repr(counts), counts.memory
    counts.update(kinds())
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
        assert found[0].attrs.get("dp", receipt)["release_id"] == receipt["release_id"]


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
