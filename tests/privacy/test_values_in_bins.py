"""What parts have in bins, against a slow obvious twin: one row, or one user, after the other.

Values of every type, through the shipped statement, over any public parts and segments. One record,
or one user, moves numbers of values, bins and groups of bins by at most one unit.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Cells, as_hierarchies
from dpframe.measures.bins import Bins
from dpframe.measures.measure import GRID, BinVectors, Measure, bin_vectors_of
from dpframe.mechanisms.rollup import Selection, shown_nodes
from dpframe.sources import node_values as statements
from dpframe.sources import rollup_parts as sources
from tests import naive
from tests.members import some, tries
from tests.rollups import Silent
from tests.strategies import examples
from tests.unit.sources.test_cells import ROWS as CELL_ROWS
from tests.unit.sources.test_cells import SHAPES

from .test_rollup_bounding import (
    BOTH,
    HIERARCHIES,
    RECORD,
    ROWS,
    USER,
    _paths,
    listing,
    path_of,
    table_of,
)
from .test_user_ids import IDS, REFUSED, loaded

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1)


def slow_place(bins: Bins, value: float) -> int:
    """The number of edges that are at or below a value, the last one only if it is below."""
    return sum(edge <= value for edge in bins.edges[:-1]) + (value > bins.edges[-1])


def slow_bins(
    own: Iterable[tuple[Hashable, Hashable, float | None]], bins: Bins, *, by_user: bool
) -> dict[Hashable, list[int]]:
    """The twin, of (user, part, value): numbers in bins by part. A record counts 1; a user counts
    in a bin of a part the share of their values there, in whole units of the grid."""
    users = defaultdict(list)
    for i, (user, part, value) in enumerate(own):
        if value is not None:
            users[user if by_user else i].append((part, slow_place(bins, value)))
    out: dict[Hashable, list[int]] = defaultdict(lambda: [0] * bins.size)
    for placed in users.values():
        for (part, place), m in Counter(placed).items():
            out[part][place] += GRID * m // len(placed) if by_user else m
    return out


def number_of(value: Any) -> float | None:
    """A value as the number that bins are of: seconds of times and durations."""
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1) / 10**6
    if isinstance(value, dt.datetime):
        plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (plain - EPOCH) // dt.timedelta(microseconds=1) / 10**6
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days * 86400.0
    return float(value) if math.isfinite(value) else None


DAYS = [dt.date(2026, 1, d) for d in (1, 2, 15, 31)] + [dt.date(1, 1, 1), dt.date(9999, 12, 31)]
NEAR = [dt.timedelta(seconds=0), dt.timedelta(microseconds=1), -dt.timedelta(microseconds=1)]
MOMENTS = [
    dt.datetime(2026, 1, day, hour) + near
    for day in (1, 2, 31)
    for hour in (0, 13)
    for near in NEAR
] + [dt.datetime(1600, 2, 29), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
ZONED = [
    moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=h)))
    for moment in MOMENTS[:-1]
    for h in (0, 5)
]
SPANS = [dt.timedelta(seconds=s) + near for s in (0, 1, 60, 3599, 86400, 10**9) for near in NEAR]
IN_TIME: Any = {"lower": "2026-01-01", "upper": "2026-01-31"}
IN_HOURS: Any = {"lower": "0s", "upper": "86400s"}

KINDS: dict[str, tuple[Measure, pa.DataType, Sequence[Any]]] = {
    "numbers": (
        dp.median("v", lower=-2, upper=8, bins=12),
        pa.float64(),
        [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, -2.0, 8.0, 8.000000000000002],
    ),
    "many bins": (
        dp.histogram("v", lower=0.1, upper=7.3, bins=160, spacing="even"),
        pa.float64(),
        [i / 100 for i in range(0, 740, 7)],
    ),
    "whole numbers": (
        dp.quantile("v", 0.9, lower=-3, upper=9, bins="whole"),
        pa.int64(),
        [*range(-5, 12), 2**63 - 1, -(2**63)],
    ),
    "large numbers": (
        dp.histogram("v", lower=0, upper=1e15, bins=9),
        pa.uint64(),
        [0, 1, 10**15, 10**15 + 1, 2**64 - 1],
    ),
    "decimals": (
        dp.median("v", lower=0, upper=9, bins=[0.1, 0.2, 0.3, 2.5]),
        pa.decimal128(38, 10),
        [Decimal(n) / 10 for n in range(-3, 95, 4)] + [Decimal("9" * 28), Decimal("0.0000000001")],
    ),
    "truth": (
        dp.histogram("v", lower=0, upper=1, bins=2, spacing="even"),
        pa.bool_(),
        [True, False],
    ),
    "dates": (dp.median("v", **IN_TIME), pa.date32(), DAYS),
    "times": (dp.median("v", **IN_TIME), pa.timestamp("us"), MOMENTS),
    "times in seconds": (
        dp.median("v", **IN_TIME),
        pa.timestamp("s"),
        [m.replace(microsecond=0) for m in MOMENTS],
    ),
    "times in milliseconds": (
        dp.median("v", **IN_TIME, bins=3),
        pa.timestamp("ms"),
        [m.replace(microsecond=0) for m in MOMENTS],
    ),
    "times in nanoseconds": (
        dp.histogram("v", **IN_TIME, bins=["2026-01-02", "2026-01-02 13:00"]),
        pa.timestamp("ns"),
        MOMENTS[:-2],
    ),
    "times with zones": (dp.median("v", **IN_TIME), pa.timestamp("us", "Europe/Berlin"), ZONED),
    "durations": (dp.median("v", **IN_HOURS), pa.duration("us"), SPANS),
}
"""Measures, and values at their edges, beyond these and at the limits of a type."""


def in_bins(
    source: Any, unit: PrivacyUnit, measure: Measure, keys: Any, hierarchy: Any = BOTH
) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """The shipped numbers, and the paths of the nodes that they are of."""
    listed, nodes, _ = listing(keys, hierarchy)
    counted = sources.measure_parts(source, hierarchy, unit, 1, [], listed=listed)
    return _paths(nodes, hierarchy), counted.in_bins(vectors(unit, measure), nodes)


def vectors(unit: PrivacyUnit, measure: Measure) -> BinVectors:
    found = bin_vectors_of(measure, by_user=unit.user is not None, height=2)
    assert found is not None
    return found


@some(
    "columns-record-numbers",
    "columns-user-numbers",
    "path-user-many bins",
    "path-record-dates",
    "path, drop-user-times with zones",
    "columns-user-durations",
    "path, drop-record-decimals",
    "columns-record-times in seconds",
    "columns-user-times in milliseconds",
    "path-user-truth",
    "path-record-times in nanoseconds",
    "path-user-whole numbers",
    "path-record-large numbers",
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [RECORD, USER], ids=["record", "user"])
@pytest.mark.parametrize("shape", HIERARCHIES)
@tries(4, 40)
@given(data=st.data())
def test_bins_are_those_of_the_twin_and_one_unit_moves_them_by_one(
    shape: str, unit: PrivacyUnit, kind: str, data: st.DataObject
) -> None:
    """Law: every number in every bin of every part; without a record, or a user, numbers of values,
    bins, and groups of bins change by one unit at most, added up over all parts."""
    (hierarchy, every), (measure, own_type, known) = HIERARCHIES[shape], KINDS[kind]
    keys = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    rows = data.draw(st.lists(ROWS, max_size=14))
    chosen = st.lists(st.sampled_from([None, *known]), min_size=len(rows), max_size=len(rows))
    values, both, by_user = data.draw(chosen), [], unit.user is not None
    first = rows[0][0] if rows else None
    for gone in (False, True):
        kept = [
            (*row[:4], value)
            for i, (row, value) in enumerate(zip(rows, values, strict=True))
            if not gone or (row[0] != first if by_user else i)
        ]
        column = pa.array([value for *_, value in kept], own_type)
        table = table_of([(*row, None) for *row, _ in kept])  # type: ignore[misc]
        table = table.set_column(4, "v", column)
        shown, found = in_bins(table, unit, measure, keys, hierarchy)
        drop = hierarchy.on_invalid == "drop"
        paths = [path_of(row, hierarchy) for row in kept]
        own = [
            (row[0], naive.part_of(path, shown), number_of(row[4]))
            for row, path in zip(kept, paths, strict=True)
            if not (drop and None in path[:1])
        ]
        wanted = slow_bins(own, measure.bins, by_user=by_user)
        assert found.tolist() == [wanted[part] for part in shown]
        both.append(found)
    moved, most = both[0] - both[1], vectors(unit, measure).unit
    assert moved.min(initial=0) >= 0
    starts = measure.bins.group_starts
    for table in (moved.sum(axis=1), moved, np.add.reduceat(moved, starts, axis=1)):
        assert np.abs(table).sum() <= most


@examples(8, 100, CELL_ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.booleans())
def test_bins_of_segments_are_those_of_the_twin(
    rows: list[tuple[Any, ...]], shape: str, threshold: int, by_user: bool
) -> None:
    """Law: the same of cells, in the segments that the selection made."""
    cells = as_hierarchies(shape)
    assert isinstance(cells, Cells)
    frame = pd.DataFrame(rows, columns=["a", "b", "c"], dtype=object)
    values = [(1.0, math.nan, -3.0, 7.0, 99.0)[i % 5] for i in range(len(rows))]
    users = [f"u{i // 3 % 4}" for i in range(len(rows))]
    frame = frame.assign(v=values, u=users)
    by_record = sources.measure_parts(frame, cells, RECORD, 1, [])
    selection = Selection(test=Silent(), threshold=threshold)  # type: ignore[arg-type]
    nodes, _ = shown_nodes(by_record.counts, cells.kinds, selection, 1)
    unit, measure = USER if by_user else RECORD, KINDS["numbers"][0]
    counted = sources.measure_parts(frame, cells, unit, 1, [])
    found = counted.in_bins(vectors(unit, measure), nodes)
    read = ["abc".index(name) for name in cells.source_columns]
    paths = [naive.paths_of(cells, [row[i] for i in read]) for row in rows]
    records = Counter(path for path in paths if path is not None)
    reported = naive.segments(cells.kinds, records, lambda _, __, n: n >= threshold)
    own: list[Any] = []
    for user, path, value in zip(users, paths, values, strict=True):
        if path is not None:
            each = ((k, naive.cell_of(path, kind)) for k, kind in enumerate(cells.kinds))
            part = next((one for one in each if one in reported), (len(cells.kinds), None))
            own.append((user, part, number_of(value)))
    wanted = slow_bins(own, measure.bins, by_user=by_user)
    here = zip(nodes.level.tolist(), found.tolist(), strict=True)
    parts = Counter((len(cells.kinds) - level, *n) for level, n in here if any(n))
    assert parts == Counter((kind, *n) for (kind, _), n in wanted.items() if any(n))


TEXTS: dict[str, tuple[Measure, dict[str, float | None]]] = {
    "number": (
        dp.median("v", lower=0, upper=9, bins=4),
        {"3": 3.0, " 5 ": 5.0, "1e400": None, "nan": None, "x": None, "": None, "-1.5e0": -1.5},
    ),
    "time": (
        dp.median("v", **IN_TIME),
        {
            "2026-01-05": 1767571200.0,
            "2026-01-05 12:00": 1767614400.0,
            "2026-01-05T12:00:00+02:00": 1767607200.0,
            "2026-01-05T12:00:00Z": 1767614400.0,
            "infinity": None,
            "1600-01-01": -11676096000.0,
            "2026-13-05": None,
            "soon": None,
        },
    ),
    "duration": (
        dp.median("v", **IN_HOURS),
        {
            "01:00:00": 3600.0,
            "2 hours": 7200.0,
            "soon": None,
            "999999999999 years": None,
            "-1s": -1.0,
        },
    ),
}


@pytest.mark.parametrize("unit", [RECORD, USER], ids=["record", "user"])
@pytest.mark.parametrize("kind", TEXTS)
def test_texts_of_a_csv_file_are_read_or_count_nothing(
    kind: str, unit: PrivacyUnit, tmp_path: File
) -> None:
    """Law: a file of texts has values where texts are some, with their offset from UTC."""
    (measure, texts), file = TEXTS[kind], tmp_path / "visits.csv"
    rows = [(f"{i % 2}", "x", "xyx"[i % 3], text) for i, text in enumerate([*texts, *texts])]
    columns = zip(*rows, strict=True)
    pa.csv.write_csv(pa.table(dict(zip("uabv", columns, strict=True))), file)
    shown, found = in_bins(str(file), unit, measure, [("x", "x")])
    own = [(u, naive.part_of((a, b), shown), texts[text]) for u, a, b, text in rows]
    wanted = slow_bins(own, measure.bins, by_user=unit.user is not None)
    assert found.tolist() == [wanted[part] for part in shown]


@some(0, 3, 9, 14, 20, 27, 31, 36)
@pytest.mark.parametrize("kind", [kind for kind in IDS if kind not in REFUSED])
def test_users_of_every_type_of_ids_weigh_one(kind: str) -> None:
    """Law: users whose ids DuckDB holds equal have one unit, over all bins of all parts."""
    con, users = loaded(IDS[kind])
    measure = dp.histogram("n", lower=0, upper=6, bins="whole")
    keys = [("user 0", "b0"), ("user 0", "b1"), ("user 1", "b5")]
    _, found = in_bins(con.table("visits"), USER, measure, keys)
    assert len(users) * (GRID - 30) <= found.sum() <= len(users) * GRID


LIMITS: dict[str, list[str]] = {
    "TIMESTAMP": ["infinity", "-infinity", "290309-12-22 (BC)", "294247-01-10"],
    "TIMESTAMP_S": ["infinity", "0001-01-01", "9999-12-31", "290000-01-01"],
    "TIMESTAMP_MS": ["infinity", "0001-01-01", "9999-12-31", "290000-01-01"],
    "TIMESTAMP_NS": ["infinity", "-infinity", "1677-09-22", "2262-04-11"],
    "TIMESTAMP WITH TIME ZONE": ["infinity", "-infinity", "290000-01-01", "0001-01-01"],
    "DATE": ["infinity", "-infinity", "5881580-07-10", "294000-01-01"],
    "INTERVAL": ["178956970 years", "-178956970 years", "2147483647 days", "2562047788:00:54.775"],
    "DOUBLE": ["nan", "inf", "-inf", "1.7976931348623157e308"],
    "FLOAT": ["nan", "-inf", "3.4028234e38", "-1e-45"],
    "HUGEINT": [str(2**127 - 1), str(-(2**127)), "0", "1"],
    "UHUGEINT": [str(2**128 - 1), "0", "1", "2"],
    "DECIMAL(38,10)": ["9999999999999999999999999999.9999999999", "-0.0000000001", "1", "2"],
    '"NULL"': [],
}


@some(
    "TIMESTAMP-record",
    "TIMESTAMP_S-user",
    "TIMESTAMP_MS-record",
    "TIMESTAMP_NS-user",
    "TIMESTAMP WITH TIME ZONE-record",
    "DATE-user",
    "INTERVAL-record",
    "INTERVAL-user",
    "DOUBLE-user",
    "FLOAT-record",
    "HUGEINT-user",
    "UHUGEINT-record",
    "DECIMAL(38,10)-user",
    '"NULL"-record',
)
@pytest.mark.parametrize("unit", [RECORD, USER], ids=["record", "user"])
@pytest.mark.parametrize("kind", LIMITS)
def test_no_value_of_a_type_is_an_error(kind: str, unit: PrivacyUnit) -> None:
    """Law: values at the limits of their type count, or count nothing; a user, and a record, counts
    once. What reads times in seconds as times in nanoseconds raises an error for one."""
    con = duckdb.connect()
    each = ", ".join(f"('{text}'::{kind})" for text in LIMITS[kind]) or "(NULL)"
    con.execute(
        "CREATE TABLE t AS SELECT v, i::VARCHAR AS u, 'x' AS a, 'y' AS b "
        f"FROM (VALUES {each}) AS vs(v), range(5) r(i)"
    )
    kinds = ("time", "duration") if kind == '"NULL"' else ()
    named = "time" if kind in ("DATE",) or "TIMESTAMP" in kind else "number"
    for value in kinds or ("duration" if kind == "INTERVAL" else named,):
        _, found = in_bins(con.table("t"), unit, TEXTS[value][0], [("x", "y")])
        units, one = (5, GRID) if unit is USER else (5 * len(LIMITS[kind]), 1)
        assert 0 <= found.sum() <= units * one
        assert bool(found.sum()) == bool(LIMITS[kind])


# -- codes of keys ---------------------------------------------------------------------------------

WHOLE_TYPES = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
}
"""Types of keys that have codes, and their ends."""

Pair = tuple[Any, ...]


def read_codes(
    con: duckdb.DuckDBPyConnection, kind: str, rows: Iterable[Pair], codes: statements.KeyCodes
) -> list[int]:
    """The part of every row, by its code."""
    each = ", ".join(f"({i}, {a}, {b})" for i, (a, b) in enumerate(rows)).replace("None", "NULL")
    keyed = f"SELECT i, a::{kind} AS k1, b::{kind} AS k2 FROM (VALUES {each}) rows(i, a, b)"
    asked = f"SELECT ({codes.sql})::UINTEGER AS code FROM ({keyed}) ORDER BY i"
    return [int(codes.parts[code]) for (code,) in con.sql(asked).fetchall()]


def public_nodes(paths: Iterable[tuple[Any, ...]]) -> Any:
    """Nodes with these paths, after the root."""
    every = [(), *paths]
    keys = [
        pa.chunked_array([[str(p[i]) if i < len(p) and p[i] is not None else None for p in every]])
        for i in range(2)
    ]
    keys = [key.cast(pa.string()) for key in keys]
    return SimpleNamespace(level=np.array([len(p) for p in every]), keys=tuple(keys))


@some("TINYINT", "BIGINT", "USMALLINT", "UINTEGER")
@pytest.mark.parametrize("kind", WHOLE_TYPES)
def test_codes_of_every_number_tell_the_part(kind: str) -> None:
    """Law, by enumeration: each pair of numbers, at the ends of a type and next to reported ones,
    lies in the part of the finest reported node above it, whichever nodes are reported: the ends of
    the type, NULL, and numbers between others."""
    low, high = WHOLE_TYPES[kind]
    con = duckdb.connect()
    for one, two, three, four, far in (
        (*range(low, low + 4), high),
        (*range(high, high - 4, -1), low),
    ):
        rows = [*itertools.product([one, two, three, four, far, None], repeat=2)]
        ends: list[Any] = [(one,), (three,), (one, two), (three, None), (None,), (None, one)]
        for chosen in itertools.product([False, True], repeat=len(ends)):
            shown = [(), *itertools.compress(ends, chosen)]
            codes = statements.key_codes(BOTH, (kind, kind), public_nodes(shown[1:]))
            assert codes is not None
            wanted = [shown.index(naive.part_of(row, shown)) for row in rows]
            assert read_codes(con, kind, rows, codes) == wanted


def test_public_facts_alone_decide_whether_keys_have_codes() -> None:
    """Law: types of other kinds, other texts and numbers far from each other have none, and no row
    is looked at."""
    whole, far = ("BIGINT", "INTEGER"), statements.MOST_CODES
    near = public_nodes([(1,), (1, 5)])
    assert statements.key_codes(BOTH, whole, near) is not None
    assert statements.key_codes(BOTH, ("BIGINT", "VARCHAR"), near) is None
    assert statements.key_codes(dp.path("p", depth=3), ("VARCHAR",), near) is None
    assert statements.key_codes(BOTH, whole, public_nodes([(1,), (far,)])) is None
    assert statements.key_codes(BOTH, whole, public_nodes([(-(2**63),), (2**63 - 1,)])) is None
    for text in ("01", "+1", "1.0", " 1", "x", "9223372036854775808", "-0", ""):
        assert statements.key_codes(BOTH, whole, public_nodes([(text,)])) is None


@pytest.mark.parametrize("invalid", ["count", "drop"])
@tries(8, 100)
@given(data=st.data())
def test_values_are_counted_alike_with_codes_and_by_a_join(
    invalid: Any, data: st.DataObject
) -> None:
    """Law: numbers in bins are those of the twin, both ways; a record moves them by one at most."""
    own = st.sampled_from([None, -1, 0, 1, 2, 7])
    rows = data.draw(st.lists(st.tuples(own, own, st.sampled_from([None, 0.0, 3.5])), max_size=14))
    node = st.sampled_from([-1, 0, 2])
    keys = data.draw(st.lists(st.tuples(node, node), min_size=1, unique=True))
    hierarchy, measure = dp.columns("a", "b", invalid=invalid), KINDS["numbers"][0]
    both = []
    for kept in (rows, rows[1:]):
        columns = [list(c) for c in zip(*kept, strict=True)] or [[], [], []]
        kinds = zip("abv", columns, (pa.int16(), pa.int64(), pa.float64()), strict=True)
        table = pa.table({name: pa.array(c, k) for name, c, k in kinds})
        found = []
        for most in (statements.MOST_CODES, 0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(statements, "MOST_CODES", most)
                shown, numbers = in_bins(table, RECORD, measure, keys, hierarchy)
            found.append(numbers.tolist())
        each = [
            (None, naive.part_of(tuple(None if k is None else str(k) for k in (a, b)), shown), v)
            for a, b, v in kept
            if invalid == "count" or (a is not None and b is not None)
        ]
        wanted = slow_bins(each, measure.bins, by_user=False)
        assert found == [[wanted[part] for part in shown]] * 2
        both.append(np.array(found[0]))
    assert np.abs(both[0] - both[1]).sum() <= 1


CODES_PLANTED = {
    "NULL is another number": ("WHEN k1 IS NULL THEN 1", "WHEN k1 IS NULL THEN 0"),
    "the number beyond the last one": ("BETWEEN 1 AND 3", "BETWEEN 1 AND 4"),
    "the number before the first one": ("BETWEEN 1 AND 3", "BETWEEN 0 AND 3"),
    "the digit of a coarser level": (") * 5 + CASE WHEN k2", ") * 4 + CASE WHEN k2"),
}


@pytest.mark.parametrize("name", CODES_PLANTED)
def test_the_twin_sees_wrong_codes(name: str) -> None:
    """Planted bugs: some row is in another part."""
    old, new = CODES_PLANTED[name]
    shown: list[Any] = [(), (1,), (3,), (None,), (1, 4), (3, 5), (3, 6)]
    rows: list[Any] = [*itertools.product([None, 0, 1, 2, 3, 4, 5, 6, 7], repeat=2)]
    codes = statements.key_codes(BOTH, ("BIGINT", "BIGINT"), public_nodes(shown[1:]))
    wanted = [shown.index(naive.part_of(row, shown)) for row in rows]
    assert codes is not None
    assert read_codes(duckdb.connect(), "BIGINT", rows, codes) == wanted
    assert codes.sql.count(old) == 1
    planted = dataclasses.replace(codes, sql=codes.sql.replace(old, new))
    try:
        found = read_codes(duckdb.connect(), "BIGINT", rows, planted)
    except IndexError:  # beyond the table
        return
    assert found != wanted


# -- the place of a value --------------------------------------------------------------------------

FLOATS = st.floats(-1e15, 1e15, allow_nan=False)
EDGES = st.one_of(
    st.lists(FLOATS, min_size=3, max_size=40, unique=True),
    st.lists(st.integers(-300, 300).map(lambda n: n / 100), min_size=3, max_size=70, unique=True),
)


@settings(max_examples=25, deadline=None)
@given(
    edges=EDGES, more=st.lists(st.one_of(FLOATS, st.sampled_from([1.8e308, -1e308, -0.0, 5e-324])))
)
def test_a_value_has_one_place(edges: list[float], more: list[float]) -> None:
    """Law: the place by edges that are at or below a value, by a search, by SQL and by leading bits
    is one, at edges, next to these, and anywhere."""
    bins = Bins(tuple(sorted(edges)))
    beside = [float(np.nextafter(edge, end)) for edge in edges for end in (-math.inf, math.inf)]
    values = [v for v in (*edges, *beside, *more) if math.isfinite(v)]
    with duckdb.connect() as con:
        con.register("t", pa.table({"v": pa.array(values, pa.float64())}))
        found = [n for (n,) in con.sql(f"SELECT {bins.place_sql('v')} FROM t").fetchall()]
    assert found == [bins.place(v) for v in values] == [slow_place(bins, v) for v in values]
    assert found == sources.BinCounts(bins, 1).places(np.array(values)).tolist()
    assert {0, bins.size - 1} >= {slow_place(bins, v) for v in (-1.7e308, 1.7e308)}


# -- planted bugs ----------------------------------------------------------------------------------

PLANTED = {
    "NULL counted": (
        RECORD,
        "(FROM source WHERE isfinite(v))",
        "(SELECT * REPLACE (CASE WHEN isfinite(v) THEN v ELSE 5 END AS v) FROM source)",
    ),
    "NULL counted as a value of a user": (USER, "(FROM source WHERE isfinite(v))", "source"),
    "a user in two bins": (USER, "(1048576 * n) // all_n", "1048576"),
    "a user divided over values that do not count": (USER, "sum(n)::BIGINT AS all_n", "9 AS all_n"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_twin_sees_what_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bugs: the numbers are others than those of the twin."""
    unit, old, new = PLANTED[name]
    values = (1.0, None, math.nan, 5.0)
    rows: Any = [("1", "x", b, "", v) for b in "xyz" for v in values]
    keys = [("x", "x"), ("y", "y")]

    def is_right() -> bool:
        shown, found = in_bins(table_of(rows), unit, KINDS["numbers"][0], keys)
        own = [(u, naive.part_of((a, b), shown), number_of(v)) for u, a, b, _, v in rows]
        wanted = slow_bins(own, KINDS["numbers"][0].bins, by_user=unit is USER)
        return bool(found.tolist() == [wanted[part] for part in shown])

    assert is_right()
    made = statements.bins_statement

    def planted(*given: Any, **more: Any) -> str:
        text = made(*given, **more)
        assert text.count(old) == 1
        return text.replace(old, new)

    monkeypatch.setattr(statements, "bins_statement", planted)
    assert not is_right()
