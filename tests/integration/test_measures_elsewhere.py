"""Measures that another engine adds up: the numbers of a slow twin, the frames of DuckDB."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.dialects import DIALECTS
from dpframe.errors import ColumnError, ParameterError, SourceError
from dpframe.measures.bins import Steps, reach
from dpframe.sources.portable_sql import Summand, rounded_sql
from dpframe.testing import seeded_noise
from tests import engines

HARD = [
    *(None, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -5e-324, -0.0, 0.0),
    *(0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.49999999999999994, -0.49999999999999994, 0.1 + 0.2),
    *(49.99999999999999, 50.0, 1e9 + 0.5, 123456789.5, 1e15, -1e15, 2.0**53, 0.00125, 0.0012500005),
    *(1.7976931348623157e308, 2.2250738585072014e-308, 4.35, 1.005, 7.5e-10, 2.5e-9),
]
"""Halves, values that no decimal holds, the ends of doubles, and none."""


def rows(n: int = 6_000) -> pa.Table:
    """Texts, some malformed, numbers of every type with hard ones, users of three rows each."""
    rng = np.random.default_rng(1)
    amount = [HARD[i] if i < len(HARD) else (i - 40) * 1.37 for i in rng.integers(0, 300, n)]
    paths = [
        f"a/{i % 7}/{i % 31}" if i % 13 else ("a" if i % 2 else "") for i in rng.zipf(1.4, n) % 900
    ]
    return pa.table(
        {
            "country": pa.array(rng.choice(["FR", "DE", "X", None], n)),
            "city": pa.array([f"c{i}" for i in rng.zipf(1.5, n) % 50]),
            "path": pa.array(paths),
            "rate": pa.array(rng.choice([0.1, 1e-5, 3.0, 1e300, -0.0, 0.0, math.nan], n)),
            "who": pa.array(np.arange(n) // 3),
            "amount": pa.array(amount, pa.float64()),
            "whole": pa.array(rng.integers(-5, 50, n)),
            "single": pa.array(rng.random(n).astype("f4")),
            "yes": pa.array(rng.random(n) < 0.3),
            "cents": pa.array(
                [Decimal(int(i)) / 1000 for i in rng.integers(-4000, 9000, n)], pa.decimal128(12, 3)
            ),
        }
    )


ROWS = rows()

MEASURES: dict[str, Any] = {
    "n": "count",
    "s": dp.sum("amount", lower=-10, upper=50),
    "m": dp.mean("amount", lower=-20, upper=100),
    "q": dp.sum("whole", lower=0, upper=9, clipped=True),
    "large": dp.sum("amount", lower=-1e14, upper=1e15),
    "f": dp.sum("single", lower=0.1, upper=0.9),
    "y": dp.mean("yes", lower=0, upper=1),
    "d": dp.sum("cents", lower=-1, upper=2, clipped=True),
}
SHAPES: list[tuple[Any, dict[str, Any]]] = [
    (["country", "city"], {"delta": 1e-6}),
    ("path:path", {"delta": 1e-6}),
    (["country"], {"keys": ["FR", "DE", "ZZ"]}),
]


BOUNDS = [(-10.0, 50.0), (0.1, 0.3), (-1e-3, 2e-3), (0.0, 1e15), (-3e13, 1.0), (0.0, 1e10)]


def twin(value: float | None, steps: Steps, *, clipped: bool) -> int | None:
    if value is None or not math.isfinite(value):
        return None
    low, high = reach(steps, clipped=clipped)
    return steps.of(min(max(value, low), high))


def stepped(engine: Any, added: Summand, rounded: Any = rounded_sql) -> list[int | None]:
    d = engine.dialect
    engine.load("hard", pa.table({"i": range(len(HARD)), "x": pa.array(HARD, pa.float64())}))
    scaled = f"SELECT i, {added.scale_sql(d, 'x')} AS s FROM hard"
    shown = d.cast_text(rounded(d, "s"))
    found = engine.query(f"SELECT i, {shown} AS v FROM ({scaled}) AS step ORDER BY i ASC")
    return [None if v is None else int(v) for v in found["v"].to_pylist()]


@pytest.mark.parametrize("clipped", [True, False])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_values_in_steps_are_those_of_the_twin(
    engine: Any, low: float, high: float, clipped: bool
) -> None:
    """Bit by bit: halves, values between two steps, infinities, the smallest double."""
    steps = Steps(low, high)
    added = Summand(kind="value", column="x", steps=steps, clipped=clipped)
    assert stepped(engine, added) == [twin(value, steps, clipped=clipped) for value in HARD]


def test_the_twin_tells_another_rounding() -> None:
    """With round() in place of ours PostgreSQL, which rounds halves to even, differs."""
    with engines.postgres() as running:
        steps = Steps(0.0, 1e10)
        added = Summand(kind="value", column="x", steps=steps)
        found = stepped(running, added, lambda d, s: d.addable(f"round({s})"))
    assert found != [twin(value, steps, clipped=True) for value in HARD]


@pytest.mark.parametrize("kind", ["present", "outside"])
def test_values_are_counted_as_by_the_twin(engine: Any, kind: Any) -> None:
    found = stepped(engine, Summand(kind=kind, column="x", steps=Steps(-10.0, 50.0)))
    there = [value is not None and math.isfinite(value) for value in HARD]
    beyond = [yes and not -10 <= (value or 0) <= 50 for yes, value in zip(there, HARD, strict=True)]
    assert found == [int(yes) for yes in (there if kind == "present" else beyond)]


def test_sums_go_beyond_64_bits(engine: Any) -> None:
    engine.load("many", pa.table({"i": range(1500)}))
    term = engine.dialect.addable(str(10**13))
    found = engine.query(f"SELECT sum({term}) AS s FROM many AS a CROSS JOIN many AS b")
    assert int(found["s"][0].as_py()) == 1500**2 * 10**13 > 2**63


@pytest.mark.parametrize(("by", "more"), SHAPES, ids=str)
def test_frames_of_candidates_are_those_of_the_rows(
    engine: Any, by: Any, more: dict[str, Any]
) -> None:
    """A statement, its result in any order, and the frame: with the same noise, the same numbers,
    whatever the type of a column is."""
    engine.load("rows", ROWS)
    with seeded_noise(7):
        made = dp.measures_sql(
            by,
            MEASURES,
            table="rows",
            dialect=engine.dialect.name,
            types=engines.canonical_types(ROWS),
            epsilon=9.0,
            **more,
        )
        found = engine.query(made.sql).to_pandas().sample(frac=1, random_state=1)
        got = dp.rollup(candidates=found, plan=made.plan)
    with seeded_noise(7):
        want = dp.rollup(ROWS, by, MEASURES, epsilon=9.0, **more)
    pd.testing.assert_frame_equal(got, want)
    assert len(got) > 3


def made(name: str = "duckdb", by: Any = ("country", "city"), **more: Any) -> Any:
    measures = {"n": "count", "s": dp.sum("amount", lower=-10, upper=50, clipped=True)}
    arguments = {"types": {"amount": "double"}, "epsilon": 9.0, "delta": 1e-6, **more}
    return dp.measures_sql(list(by), measures, table="visits", dialect=name, **arguments)


def answer(statement: Any) -> pd.DataFrame:
    import duckdb

    with duckdb.connect() as con:
        con.register("visits", ROWS)
        return con.sql(statement.sql).df()


def test_duckdb_answers_its_own_statement() -> None:
    with seeded_noise(3):
        statement = made()
        got = dp.rollup(candidates=answer(statement), plan=statement.plan)
    with seeded_noise(3):
        want = dp.rollup(
            ROWS,
            ["country", "city"],
            {"n": "count", "s": dp.sum("amount", lower=-10, upper=50, clipped=True)},
            epsilon=9.0,
            delta=1e-6,
        )
    pd.testing.assert_frame_equal(got, want)


@pytest.mark.parametrize("wrong", [None, "x", "1.5", "9" * 30, "-" + "9" * 39])
def test_sums_that_counts_cannot_have_are_refused(wrong: str | None) -> None:
    """Before anything is charged, and without the value."""
    statement = made()
    found = answer(statement)
    found["x1"] = [wrong, *found["x1"][1:]]
    with pytest.raises(SourceError, match="sums that its counts cannot have") as refused:
        dp.rollup(candidates=found, plan=statement.plan)
    assert str(wrong) not in str(refused.value).replace("rows", "")


@pytest.mark.parametrize("name", DIALECTS)
def test_statements_are_one_select_of_their_dialect(name: str) -> None:
    """As sqlglot reads the dialect; for Snowflake and BigQuery nothing else is tested."""
    sqlglot = pytest.importorskip("sqlglot")
    for kind in ("double", "bigint", "decimal(10,2)", "boolean"):
        statement = made(name, types={"amount": kind})
        (tree,) = sqlglot.parse(statement.sql, read=name)
        assert tree.key == "select"
        assert tuple(tree.named_selects) == statement.plan.columns


@pytest.mark.parametrize(
    ("measures", "more", "error", "match"),
    [
        ("count", {"user": "who"}, ParameterError, r"^user \('who'\).* second statement"),
        ("distinct(who)", {}, ParameterError, "counts different values, which takes a second"),
        ("median(amount, 0, 9)", {}, ParameterError, "counts values in bins, which takes a second"),
        ("histogram(amount, 0, 9)", {}, ParameterError, "in bins.* Leave it out, or pass a Spark"),
        ("sum(amount, auto, auto)", {}, ParameterError, "has bounds 'auto'.*give its bounds"),
        ("sum(amount, 0, 1)", {}, ColumnError, r"^types lacks 'amount'"),
        ("sum(amount, 0, 1)", {"types": {"amount": "text"}}, ColumnError, "'amount' has type"),
        (
            {"s": "sum(amount, 0, 1)"},
            {"heavy": "s", "types": {"amount": "double"}},
            ParameterError,
            r"^heavy \('s'\)",
        ),
    ],
)
def test_what_one_statement_cannot_measure_is_refused(
    measures: Any, more: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        dp.measures_sql(
            ["country"], measures, table="t", dialect="postgres", epsilon=1.0, delta=1e-6, **more
        )
