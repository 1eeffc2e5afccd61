"""Generators of synthetic rows, through the public API: one record moves one cell a level, exactly.

How a row is encoded must not depend on the other rows: for every kind of axis and many types, a
table has the codes that its rows have alone, in their order. Then the noisy numbers of a release
are taken out of ``finish`` with their scales, and what a record moves is added up in fractions.
Last, the laws of whole generators are enumerated. Planted bugs are rejected by the same checks.
"""

from __future__ import annotations

import enum
import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.domains import Domain, as_domain
from dpframe.mechanisms import privhp_partition as hot_partition
from dpframe.mechanisms.privhp_partition import partition_laws
from dpframe.questions.synthesize import plan as synthetic_plan
from dpframe.sketches.hot_partition import HotPartition
from dpframe.sources.codes import counted_codes
from tests.members import few

from .enumerate_outputs import worst
from .test_hot_partition import scripted

# -- how a row is encoded --------------------------------------------------------------------------


class Colour(str, enum.Enum):  # noqa: UP042  # its str() is not its text
    RED = "a"


NUMBER = ("number:x?lower=-3&upper=5", None)
TIME = ("time:x?lower=2017-01-01&upper=2021-01-01", None)
IP = ("ip:x?version=4", None)
LISTED = ("columns:x", ["a", "1", "é", "a\0b"])
PATH = ("path:x", ["/a/b", "a/b/c", "a"])
DATE = ("date:x", ["2020-01-01", "2019-05-05"])
DOMAIN = ("domain:x", ["x.org", "www.x.co.uk"])
CODE = ("code:x?lengths=1,3", ["A00.1", "J45"])
MOMENT = ("columns:x", ["2020-01-01 00:00:00"])

NUMBERS = ["4", "1e999", "nan", "inf", "-1", "\x001", "٣", "", None, "9" * 400, "0.1e-400"]
TIMES = ["2020-01-01", "infinity", "2020-01-01 00:00:00+14:30", "2020-02-30", None, "epoch"]
TIMES += ["290309-12-22 (BC)", "2020-03-29 02:30:00 Europe/Berlin", "2018-01-01T00:00:00.1234567"]
ADDRESSES = ["1.2.3.4", "256.1.1.1", "01.2.3.4", "::ffff:1.2.3.4", "1.2.3.4\n", "", None]
TEXTS = ["a", "A", "1", "é", "e\u0301", "", None, "a\0b", "<other>", "x" * 300, "/a/b", "http://%"]
OBJECTS: list[Any] = ["a", None, 1, 1.0, math.nan, Decimal("NaN"), Decimal("1.0"), Colour.RED]
OBJECTS += [b"a", b"\xff", "\ud800", bytearray(b"a"), memoryview(b"a"), pd.NaT, pd.NA, True]
OBJECTS += [np.datetime64("NaT", "ns"), pa.scalar("a"), pa.scalar(None, pa.string())]

DECIMALS = [Decimal(10**27).scaleb(-10), Decimal(-1), None]
TICKS = [None, 0, 1577836800, 1577836800000, 2**62, -(2**63), 2**63 - 1, -(2**63) + 1]


def texts(kind: pa.DataType) -> Callable[[list[Any]], Any]:
    return lambda v: pa.table({"x": pa.array(v, kind)})


def polars(kind: Any) -> Callable[[list[Any]], Any]:
    return lambda v: pl.DataFrame({"x": pl.Series(v, dtype=kind)})


def ticks(kind: pa.DataType) -> Callable[[list[Any]], Any]:
    return lambda v: pa.table({"x": pa.array(v, pa.int64()).cast(kind)})


def objects(values: list[Any]) -> pd.DataFrame:
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return pd.DataFrame({"x": pd.Series(column, dtype=object)})


def typed(kind: str) -> Callable[[list[Any]], Any]:
    return lambda v: pd.DataFrame({"x": pd.Series(v, dtype=kind)})


Case = tuple[tuple[str, Any], list[Any], Callable[[list[Any]], Any]]

CASES: dict[str, Case] = {
    "number, text": (NUMBER, NUMBERS, texts(pa.string())),
    "number, view": (NUMBER, NUMBERS, texts(pa.string_view())),
    "number, double": (NUMBER, [0.5, -0.0, math.inf, -math.inf, math.nan, 1e308], typed("float64")),
    "number, uint64": (NUMBER, [0, 4, 2**64 - 1], typed("uint64")),
    "number, Int64": (NUMBER, [0, 4, -(2**63), None], typed("Int64")),
    "number, decimal": (NUMBER, DECIMALS, texts(pa.decimal128(38, 10))),
    "number, objects": (NUMBER, OBJECTS, objects),
    "number, polars": (NUMBER, NUMBERS, polars(pl.String)),
    "time, text": (TIME, TIMES, texts(pa.large_string())),
    "time, s": (TIME, TICKS, ticks(pa.timestamp("s"))),
    "time, s in a zone": (TIME, TICKS, ticks(pa.timestamp("s", "Europe/Berlin"))),
    "time, ms in a zone": (TIME, TICKS, ticks(pa.timestamp("ms", "UTC"))),
    "time, us": (TIME, TICKS, ticks(pa.timestamp("us"))),
    "time, ns": (TIME, TICKS, ticks(pa.timestamp("ns", "UTC"))),
    "ip": (IP, ADDRESSES, texts(pa.string())),
    "listed, text": (LISTED, TEXTS, texts(pa.string())),
    "listed, objects": (LISTED, OBJECTS, objects),
    "listed, dictionary": (LISTED, TEXTS, texts(pa.dictionary(pa.int32(), pa.string()))),
    "listed, polars categories": (LISTED, TEXTS, polars(pl.Categorical)),
    "listed, s": (MOMENT, TICKS, ticks(pa.timestamp("s"))),
    "listed, us": (MOMENT, TICKS, ticks(pa.timestamp("us"))),
    "path": (PATH, TEXTS, texts(pa.string())),
    "date": (DATE, TIMES, texts(pa.string())),
    "date, ms in a zone": (DATE, TICKS, ticks(pa.timestamp("ms", "UTC"))),
    "domain": (DOMAIN, [*TEXTS, "x.org", ".", "xn--", "a." * 130], texts(pa.string())),
    "code": (CODE, [*TEXTS, "A00.1", "J45", "J"], texts(pa.string())),
}


def encoded(source: object, domain: Domain) -> list[int]:
    """The codes that a sketch is given."""
    codes: list[int] = []
    sketch: Any = SimpleNamespace(update=lambda given: codes.extend(given.tolist()))
    counted_codes(source, domain, sketch)
    return codes


def depends_on_others(case: Case, domain: Domain, tables: int = 4) -> bool:
    """Whether some table has other codes than its rows have alone; no row may have two."""
    _, values, made = case
    alone = [encoded(made([value]), domain) for value in values]
    if max(map(len, alone)) > 1:
        return True
    chance = random.Random(len(values))
    for n in range(tables):
        order = list(range(len(values)))
        if n:
            order = chance.choices(order, k=chance.randint(0, 9))
        got = encoded(made([values[i] for i in order]), domain)
        if got != [code for i in order for code in alone[i]]:
            return True
    return False


LIKE_OTHERS = (
    *("number, view", "number, uint64", "number, polars", "time, s", "time, us"),
    *("listed, us", "listed, polars categories", "date, ms in a zone"),
)
"""Cases whose kind and type are both read in others."""


NAMES = [pytest.param(n, marks=[pytest.mark.evidence] * (n in LIKE_OTHERS)) for n in CASES]


@few(12, "name", NAMES)
def test_a_row_is_encoded_alike_whatever_else_is_in_the_table(name: str) -> None:
    """Law: codes(B + x) are codes(B) with at most one inserted, and no value is an error."""
    spec, keys = CASES[name][0]
    assert not depends_on_others(CASES[name], as_domain(spec, keys=keys))


def test_rows_of_several_axes_are_encoded_alone() -> None:
    """Law: a row has one code for all of its axes, and none if one value is missing."""
    axes = ["number:x?lower=0&upper=4", "columns:y", "time:z?lower=2017-01-01&upper=2021-01-01"]
    domain = as_domain(axes, keys=["a", "b"], depth=9)
    rows = list(itertools.product([1.0, math.nan, 9.0], ["a", None, "c"], ["2018-01-01", "x"]))

    def made(rows: list[Any]) -> pa.Table:
        x, y, z = zip(*rows, strict=True) if rows else ((), (), ())
        kinds = (pa.float64(), pa.string(), pa.string())
        columns = [pa.array(v, k) for v, k in zip((x, y, z), kinds, strict=True)]
        return pa.table(columns, names=["x", "y", "z"])

    assert not depends_on_others((("", None), rows, made), domain)
    assert len(encoded(made(rows), domain)) == 2 * 2  # neither NaN nor None nor "x"


def ranked(self: Domain, batch: Any) -> Any:
    """Bug: a category is its rank among the values of the batch."""
    values = batch.column(0).to_pylist()
    known = sorted({v for v in values if v is not None})
    return np.array([known.index(v) % 2 for v in values if v is not None], dtype=np.uint64)


def test_the_check_of_encodings_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: dictionaries that the rows decide."""
    monkeypatch.setattr(Domain, "codes", ranked)
    case = CASES["listed, text"]
    assert depends_on_others(case, as_domain(case[0][0], keys=case[0][1]))


# -- what a record moves in a release --------------------------------------------------------------

COLUMNS = {"x": (0, 4), "y": (0, 4)}
SIZES: dict[str, Any] = {"depth": 2, "k": 1, "width": 2, "seed": 5}
Row = tuple[float, float]
NAN = math.nan
TABLE: list[Row] = [(1, NAN), (1, 1), (3, 0), (1, 1)]
RECORDS: list[Row] = [(0, 0), (0, 3), (3, 0), (3, 3), (9, -9), (NAN, 1), (3, NAN), (math.inf, 1)]


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["x", "y"], dtype="float64")


def stream_of(rows: Sequence[Row], sizes: dict[str, Any] = SIZES) -> dp.PrivHP:
    """Half of the rows in one batch, the rest in another."""
    stream = dp.PrivHP(COLUMNS, **sizes)
    stream.update(frame(rows[: len(rows) // 2]))
    stream.update(frame(rows[len(rows) // 2 :]))
    return stream


def numbers(rows: Sequence[Row], sizes: dict[str, Any] = SIZES) -> tuple[Any, list[Fraction]]:
    """All noisy numbers of a release without their noise, and the scale of each."""
    scales: list[Fraction] = []
    seen: list[Any] = []
    grown = hot_partition.grow_partition

    def caught(exact: list[Any], tables: list[Any], shape: Any) -> Any:
        seen.extend(part.reshape(-1) for part in [*exact, *tables])
        return grown(exact, tables, shape)

    with pytest.MonkeyPatch.context() as patch:
        noise = np.arange(1000, dtype=np.int64)  # entry i has noise i
        patch.setattr(hot_partition, "UnboundedNoise", scripted(noise, scales))
        patch.setattr(hot_partition, "grow_partition", caught)
        stream_of(rows, sizes).finish(epsilon=1.0)
    vector = np.concatenate(seen)
    return vector - np.arange(len(vector)), scales


def costs(sizes: dict[str, Any] = SIZES) -> list[Fraction]:
    """The exact loss for each of the records, first and last in the table."""
    before, scales = numbers(TABLE, sizes)
    out = []
    for record, first in itertools.product(RECORDS, (True, False)):
        after, same = numbers([record, *TABLE] if first else [*TABLE, record], sizes)
        assert same == scales
        moves = np.abs(after - before).tolist()
        out.append(sum((m / b for m, b in zip(moves, scales, strict=True)), Fraction(0)))
    return out


@pytest.mark.parametrize("sizes", [SIZES, {**SIZES, "k": 4}, {**SIZES, "rows": 3}], ids=str)
def test_a_record_costs_at_most_epsilon_exactly(sizes: dict[str, Any]) -> None:
    """Law: a row costs the same, just below epsilon; a row that lacks a value costs nothing."""
    found = costs(sizes)
    missing = [math.isnan(x) or math.isnan(y) for x, y in RECORDS for _ in range(2)]
    assert all((cost == 0) == gone for cost, gone in zip(found, missing, strict=True))
    assert len(set(found)) == 2
    assert Fraction(999, 1000) < max(found) <= 1


CODES, MERGE = Domain.codes, HotPartition.merge


def filled(self: Domain, batch: Any) -> Any:
    """A missing value counts as the largest of the batch."""
    table = pa.Table.from_batches([batch]).to_pandas()
    return CODES(self, pa.Table.from_pandas(table.fillna(table.max()), preserve_index=False))


PLANTED: dict[str, tuple[Any, str, Any, dict[str, Any]]] = {
    "a row counts for each of its axes": (
        Domain,
        "codes",
        lambda s, b: np.concatenate([CODES(s, b)] * len(s.axes)),
        SIZES,
    ),
    "a batch is added once more": (
        HotPartition,
        "merge",
        lambda s, o: MERGE(MERGE(s, o), o),
        SIZES,
    ),
    "missing values are filled from other rows": (Domain, "codes", filled, {**SIZES, "k": 4}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_records_that_move_more_are_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bugs: the same sum is above epsilon."""
    owner, method, bug, sizes = PLANTED[name]
    monkeypatch.setattr(owner, method, bug)
    assert max(costs(sizes)) > 1


@few(2, "level", range(3))
def test_a_wrong_scale_is_rejected(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: the noise of one level has half its scale."""

    def narrow(**given: Any) -> Any:
        right = partition_laws(**given)
        scales = (b / 2 if i == level else b for i, b in enumerate(right.scales))
        return replace(right, scales=tuple(scales))

    monkeypatch.setattr(synthetic_plan, "partition_laws", narrow)
    assert max(costs()) > 1


# -- laws of whole generators, enumerated ----------------------------------------------------------

BOX = range(1, 3)


def shown(generator: dp.Generator) -> tuple[Any, ...]:
    """All that a generator says, except the time and number of its receipt."""
    receipt = generator.receipt.to_dict()
    del receipt["release_id"], receipt["time"]
    rows = generator.sample(3, seed=1)
    rows.attrs = {}
    kinds = tuple(map(str, rows.dtypes))
    return (repr(generator), str(receipt), generator.counts().to_csv(), rows.to_csv(), kinds)


def law(rows: Sequence[Row], box: range) -> dict[Any, float]:
    """Probability of every generator whose noisy numbers are in a box."""
    true, scales = numbers(rows)
    stream = stream_of(rows)
    q = np.exp([-1 / float(b) for b in scales])
    out: dict[Any, float] = defaultdict(float)
    for values in itertools.product(box, repeat=len(true)):
        noise = np.array(values, np.int64) - true
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hot_partition, "UnboundedNoise", scripted(noise, []))
            generator = stream.finish(epsilon=1.0)
        out[shown(generator)] += math.prod(((1 - q) / (1 + q) * q ** np.abs(noise)).tolist())
    return out


def apart(box: range = BOX) -> float:
    before, after = law(TABLE[:2], box), law([*TABLE[:2], (3, 3)], box)
    assert len(before) > 3
    return worst(before, after, math.e)


@pytest.mark.parametrize("box", [BOX, pytest.param(range(3), marks=pytest.mark.evidence)], ids=str)
def test_generators_of_neighbours_are_within_epsilon(box: range) -> None:
    """Law: nothing that a generator shows is more than exp(epsilon) times as likely."""
    assert apart(box) < 1e-12


def test_a_generator_that_knows_the_number_of_records_is_rejected(monkeypatch: Any) -> None:
    """Bug: the root has no noise."""
    run = hot_partition.run

    def peeking(state: HotPartition, laws: Any) -> Any:
        partition = run(state, laws)
        return replace(partition, count=np.maximum(partition.count, float(state.records)))

    monkeypatch.setattr(hot_partition, "run", peeking)
    assert apart() > 1e-3


# -- order of charge and draw; what draws nothing --------------------------------------------------


class NoNoise:
    def __init__(self, scale: Fraction) -> None:
        raise AssertionError("noise was drawn")


def fitted(ledger: Path, columns: Any = COLUMNS, **changed: Any) -> dp.Generator:
    given = {"epsilon": 1.0, "depth": 2, "k": 1, "width": 2, **changed}
    return dp.synthesize(frame(TABLE), columns, ledger=ledger, release="r", **given)


def test_the_charge_is_on_disk_before_noise_is_drawn(tmp_path: Path, monkeypatch: Any) -> None:
    """Law: a release that fails while it draws has been paid."""
    monkeypatch.setattr(hot_partition, "UnboundedNoise", NoNoise)
    path = tmp_path / "a.ledger"
    book = dp.Ledger(path, epsilon=3.0, delta=1e-6)
    with pytest.raises(AssertionError, match="noise was drawn"):
        stream_of(TABLE).finish(epsilon=1.0, ledger=book)
    assert dp.Ledger(path).spent.epsilon >= 1


def test_what_is_not_charged_draws_no_noise(tmp_path: Path) -> None:
    """Law: explaining and replaying draw nothing, and a name answers one question only."""
    path = tmp_path / "a.ledger"
    dp.Ledger(path, epsilon=3.0, delta=1e-6)
    first = fitted(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hot_partition, "UnboundedNoise", NoNoise)
        dp.explain_synthesize(COLUMNS, epsilon=1.0)
        assert fitted(path).counts().equals(first.counts())
        assert fitted(path, seed=7).counts().equals(first.counts())
        others: list[dict[str, Any]] = [{"epsilon": 0.5}, {"k": 2}, {"width": 3}, {"depth": 3}]
        others += [{"columns": {"x": (0, 5), "y": (0, 4)}}, {"split": "uniform"}, {"rows": 3}]
        for other in others:
            with pytest.raises(dp.DpframeError):
                fitted(path, **other)


def test_an_update_that_fails_counts_nothing() -> None:
    """Law: all rows of a batch or none; types are compared before rows are read."""
    stream = stream_of(TABLE)
    before = stream._state.cells.copy(), stream._state.tables.copy()
    for batch in (frame(TABLE).astype("str"), frame(TABLE)[["x"]], "missing.parquet"):
        with pytest.raises(dp.DpframeError):
            stream.update(batch)
    assert np.array_equal(before[0], stream._state.cells)
    assert np.array_equal(before[1], stream._state.tables)


def test_a_stream_is_not_merged_with_itself() -> None:
    """Law: a record counts once; also after finish no row can be slipped in."""
    stream = stream_of(TABLE)
    with pytest.raises(dp.ParameterError):
        stream.merge(stream)
    stream.finish(epsilon=1.0)
    for attempt in (lambda: stream.update(frame(TABLE)), lambda: stream.merge(stream_of(TABLE))):
        with pytest.raises(dp.ParameterError, match="finish"):
            attempt()
