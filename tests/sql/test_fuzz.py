"""Queries at random (``query_grammar``): each is answered, or refused in words of ours.

Most are read alone; one in ten is explained and answered, over plain rows and over rows on which
expressions fail.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from datetime import date, datetime, tzinfo
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.doors.sql import query as door
from dpframe.doors.sql import query_expressions, query_rows
from dpframe.doors.sql.query_tree import read_query
from tests.sql.query_grammar import Written, written

SCHEMA = pa.schema(
    {
        "country": pa.string(),
        "product": pa.string(),
        'odd "name': pa.string(),
        "code": pa.string(),
        "quantity": pa.int32(),
        "small": pa.int8(),
        "customer_id": pa.int64(),
        "big": pa.int64(),
        "amount": pa.float64(),
        "ratio": pa.float32(),
        "ordered_at": pa.timestamp("us"),
        "day": pa.date32(),
        "flag": pa.bool_(),
    }
)


def table(*columns: tuple[Any, ...]) -> pa.Table:
    """The rows forty times, so that something is released."""
    given = dict(zip(SCHEMA.names, columns, strict=True))
    one = pa.table(given, schema=SCHEMA)
    people = SCHEMA.get_field_index("customer_id")
    rows = []
    for i in range(40):
        whose = [None if who is None else who % 2**62 + 10 * i for who in given["customer_id"]]
        rows.append(one.set_column(people, SCHEMA.field(people), [pa.array(whose)]))
    return pa.concat_tables(rows)


PLAIN = table(
    ("FR", "DE", "FR", "IT"),
    ("pen", "ink", "pen", "cup"),
    ("a", "b", "a", "b"),
    ("1", "22", "3-4", "5"),
    *((1, 2, 3, 4), (1, 2, 1, 2), (1, 1, 2, 3), (10, 20, 30, 40)),
    *((1.5, 2.5, 3.5, 4.5), (0.5, 0.25, 0.75, 0.125)),
    (datetime(2026, 11, 1, 10), datetime(2026, 10, 1), datetime(2025, 1, 1), datetime(2026, 11, 2)),
    (date(2026, 11, 1), date(2026, 10, 1), date(2025, 1, 1), date(2026, 11, 2)),
    (True, False, True, False),
)
"""Rows for which no expression fails."""

FAR = datetime(9999, 12, 31, 23, 59, 59)
HOSTILE = table(
    ("", None, "=\x00'; DROP", "F" * 3_000, "\U0001f986"),
    ("pen", "", None, "[1]", "%_$"),
    ("NaN", "1e999", "9" * 50, "true", None),
    ("-1", "0x", "2026-13-40", "", "\\"),
    (2**31 - 1, -(2**31), 0, None, 1),
    *(
        (127, -128, 0, None, 1),
        (2**63 - 1, -(2**63), 0, None, 1),
        (2**63 - 1, -(2**63), 0, None, 1),
    ),
    (float("nan"), float("inf"), -1e308, None, -0.0),
    (float("-inf"), 3e38, 0.0, None, 1e-45),
    (FAR, datetime(1, 1, 1), None, datetime(1970, 1, 1), datetime(2026, 11, 1)),
    (date(9999, 12, 31), date(1, 1, 1), None, date(1970, 1, 1), date(2026, 11, 1)),
    (None, True, False, None, True),
)
"""Rows for which many fail."""

VISITS = pa.table({"customer_id": [1, 2], "page": ["a", "b"]})
PUBLIC = {
    "countries": pd.DataFrame({"key": ["FR", "DE"], "continent": ["Europe", "Europe"]}),
    "products": pd.DataFrame({"product": ["pen", "ink"], "price": [1.5, 2.5]}),
    "plans": pd.DataFrame({"id": [1, 2], "plan": ["free", "paid"]}),
    "rates": pd.DataFrame({"ratio": [0.5, 0.25]}),
    "doubled": pd.DataFrame({"key": ["FR", "FR"]}),
}
BOUNDS = {
    **dict.fromkeys(("quantity", "small", "customer_id", "big", "amount", "ratio"), (0, 50)),
    "ordered_at": ("2025-01-01", "2027-01-01"),
    "day": ("2025-01-01", "2027-01-01"),
    "*": (0, 5),
}
BUDGET = {"epsilon": 8.0, "delta": 1e-3}

INTERNAL = re.compile("dpframe_|OPERATOR_|traceback|0x[0-9a-f]{6}", re.I)
"""What no refusal may say, unless the query says it."""

PLACE = re.compile(r".*\(line \d+, column \d+\): ", re.S)
MOST_WORDS = 30


def tables(rows: pa.Table) -> dict[str, Any]:
    return {"sales": rows, "visits": VISITS}


def arguments(one: Written) -> dict[str, Any]:
    given = {**BUDGET, **one.arguments}
    if "OPTIONS" in one.text:
        given = {k: v for k, v in given.items() if k not in BUDGET or k not in one.text.lower()}
    return {"public": PUBLIC, "bounds": BOUNDS, **given}


def read(one: Written, rows: pa.Table = PLAIN) -> door.SqlQuestion | str:
    """The question that a query is read into, or the words of its refusal."""
    given, known = arguments(one), door.Tables.of(tables(rows), PUBLIC)
    listed = {name: given.get(name) for name in ("user", "bounds", "epsilon", "delta", "intervals")}
    try:
        return door.read_call(read_query(one.text), *known.columns(), listed).question
    except dp.DpframeError as error:
        return str(error)


def explained(one: Written, rows: pa.Table = PLAIN) -> str | None:
    """None if a query can be answered, or the words of its refusal."""
    try:
        dp.explain_sql(one.text, tables(rows), **arguments(one))
    except dp.DpframeError as error:
        return str(error)
    return None


def check_refusal(one: Written, said: str) -> None:
    """A refusal is short, and speaks of the query, not of what we make of it."""
    inside = INTERNAL.search(said)
    assert inside is None or inside[0].lower() in one.text.lower(), said
    if not re.search("cannot be (parsed|bound|answered)", said):  # DuckDB's words follow
        assert len(PLACE.sub("", said).split()) <= MOST_WORDS, said


def names_of(one: Written) -> list[str] | None:
    """The columns that DuckDB itself gives a query; None where it gives none."""
    if one.plain is None:
        return None
    with duckdb.connect() as own:
        for name, rows in (*tables(PLAIN).items(), *PUBLIC.items()):
            own.register(name, rows)
        return [row[0] for row in own.execute(f"DESCRIBE {one.plain}").fetchall()]


def without_intervals(columns: list[str], wanted: list[str]) -> list[str]:
    """Columns without the ends of intervals, each of which stands behind its number."""
    kept: list[str] = []
    for name in columns:
        end = kept and name in (f"{kept[-1]}_lower", f"{kept[-1]}_upper")
        if not end or wanted[len(kept) :][:1] == [name]:
            kept.append(name)
    return kept


def check_answers(one: Written) -> None:
    """Whatever the rows are, a query that was read is answered, with the columns of DuckDB."""
    columns = []
    for rows in (PLAIN, HOSTILE):
        result = dp.sql(one.text, tables(rows), **arguments(one), progress=False)
        assert result.attrs["dp"]
        columns.append([*map(str, result.columns)])
    assert columns[0] == columns[1]
    wanted = names_of(one)
    assert wanted is None or without_intervals(columns[0], wanted) == wanted


def check(one: Written, answer: bool) -> str:
    """Read a query, and ``answer`` it if it can be: a word for what happened."""
    found = read(one)
    if isinstance(found, str):
        check_refusal(one, found)
        return "refused"
    if not answer:
        return "read"
    assert found == read(one) == read(one, HOSTILE)
    said = explained(one)
    if said is not None:  # what the question itself refuses, such as an epsilon that is too large
        check_refusal(one, said)
        return "refused"
    check_answers(one)
    return "answered"


def check_all(seeds: range) -> Counter[str]:
    """Check the queries of some seeds, of which one in ten is answered."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        one = written(seed)
        try:
            happened[check(one, seed % 10 == 0)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {one}") from error
    return happened


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """``now()`` is a constant from when a query is read: readings are compared."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Stopped:
            return cls(2026, 11, 27, 8, 30, tzinfo=tz)

    monkeypatch.setattr(query_expressions, "datetime", Stopped)


def test_queries_are_answered_or_refused() -> None:
    """Law: some queries; ``-m evidence`` makes twenty thousand others."""
    happened = check_all(range(60))
    assert happened["answered"] > 2
    assert happened["read"] > 10


@pytest.mark.evidence
def test_twenty_thousand_queries() -> None:
    """The same law; ``DPFRAME_FUZZ_SEED`` and ``DPFRAME_FUZZ_CASES`` choose the queries."""
    seed = int(os.environ.get("DPFRAME_FUZZ_SEED", random.SystemRandom().getrandbits(32)))
    cases = int(os.environ.get("DPFRAME_FUZZ_CASES", 20_000))
    print(f"DPFRAME_FUZZ_SEED={seed} DPFRAME_FUZZ_CASES={cases}")
    print(check_all(range(seed, seed + cases)))


def test_a_query_follows_from_its_seed() -> None:
    assert [written(seed) for seed in range(200)] == [written(seed) for seed in range(200)]


CAST = Written("SELECT CAST(code AS INTEGER) AS c, count(*) AS n FROM sales GROUP BY 1", None)
TWO = "SELECT country, count(*) AS n FROM sales GROUP BY country"


def test_an_expression_that_fails_on_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: expressions of rows are taken as they are."""
    assert check(CAST, True) == "answered"
    monkeypatch.setattr(query_rows.RowReader, "total", lambda reader, part: part)
    with pytest.raises(dp.SourceError):
        check(CAST, True)


def test_a_lost_column_is_found() -> None:
    """Planted: DuckDB's query has another column, or another order."""
    with pytest.raises(AssertionError):
        check(Written(TWO, f"SELECT *, 1 AS more FROM ({TWO})"), True)


def test_a_reading_that_depends_on_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: types of columns are of their values."""
    types = door._types

    def of_values(source: Any) -> dict[str, str]:
        found = types(source)
        far = isinstance(source, pa.Table) and source.num_rows == HOSTILE.num_rows
        return {**found, "quantity": "BIGINT"} if far else found

    monkeypatch.setattr(door, "_types", of_values)
    text = "SELECT quantity, count(*) AS n FROM sales GROUP BY quantity"
    with pytest.raises(AssertionError):
        check(Written(text, None), True)


@pytest.mark.parametrize("said", ["Say dpframe_private.", "word " * 90])
def test_a_refusal_that_helps_nobody_is_found(said: str) -> None:
    with pytest.raises(AssertionError):
        check_refusal(CAST, said)
