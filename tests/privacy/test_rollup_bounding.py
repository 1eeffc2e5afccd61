"""One record, or one user, moves what a rollup measures by at most what is paid for: in whole
numbers, through the shipped statements, over any public parts.
"""

from __future__ import annotations

import functools
import math
import operator
import random
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.measures import measure as dpm
from dpframe.measures.bins import FARTHEST, Steps, value_sql
from dpframe.measures.measure import (
    GRID,
    LARGEST,
    AutoBound,
    Vector,
    distinct_of,
    searches_of,
    vectors_of,
)
from dpframe.measures.measure import LEAST as FIRST
from dpframe.mechanisms.rollup import Nodes
from dpframe.sources import rollup_parts as sources
from dpframe.sources import segment_places as parts_statement
from dpframe.sources import user_rows
from dpframe.sources.keys import listed_nodes
from dpframe.testing import seeded_noise
from tests import naive
from tests.members import in_turn, some, tries
from tests.naive import Path

from .test_user_ids import IDS, REFUSED, loaded

RECORD, USER = PrivacyUnit(), PrivacyUnit(user="u")

MEASURES = (
    dpm.count(),
    dpm.count(at_most=3),
    dpm.sum("v", lower=-2, upper=5, clipped=True),
    dpm.sum("v", lower=0, upper=1000),
    dpm.sum("v", lower=-0.25, upper=0),
    dpm.mean("v", lower=0, upper=10),
    dpm.mean("v", lower=-3.5, upper=-3),
)

BOTH = dp.columns("a", "b")
HIERARCHIES: dict[str, tuple[Hierarchy, list[Any]]] = {
    "columns": (BOTH, [(a, b) for a in "xyz" for b in "xyz"]),
    "path": (dp.path("p", depth=3), [f"{a}/{b}" for a in "xyz" for b in ("x", "y", "x/z")]),
    "path, drop": (dp.path("p", depth=3, invalid="drop"), ["x", "x/y", "x/y/z", "y/y"]),
}

Row = tuple[str | None, str | None, str | None, str, float | None]


def table_of(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    kinds = (*[pa.string()] * 4, pa.float64())
    return pa.table(
        {name: pa.array(c, k) for name, c, k in zip("uabpv", columns, kinds, strict=True)}
    )


def vectors(unit: PrivacyUnit) -> list[Vector]:
    by_user = unit.user is not None
    wanted = [m for m in MEASURES if by_user or m.at_most is None]
    return [vector for m in wanted for vector in flat(m, by_user=by_user)]


def flat(measure: dpm.Measure, *, by_user: bool) -> list[Vector]:
    return [v for together, _ in vectors_of(measure, by_user=by_user) for v in together]


def listing(keys: Any, hierarchy: Hierarchy = BOTH) -> tuple[Any, Nodes, Any]:
    """Listed keys, their nodes and the place of each."""
    listed = listed_nodes(keys, hierarchy)
    nodes = Nodes(level=listed.level, ancestor=listed.parent, keys=listed.keys)
    return listed, nodes, np.arange(len(listed.level))[:, None]


def found(
    source: Any, hierarchy: Hierarchy, unit: PrivacyUnit, keys: Any, *, late: bool = False
) -> tuple[list[Path], list[list[int]]]:
    """Shown nodes, and every vector over their parts; ``late`` counts when parts are known."""
    (listed, nodes, each), wanted = listing(keys, hierarchy), vectors(unit)
    with seeded_noise(5):
        early = [] if late else wanted
        counted = sources.measure_parts(source, hierarchy, unit, 1, early, listed=listed)
        exact = counted.parts(wanted, nodes, each)
    return _paths(nodes, hierarchy), [[int(x) for x in entries] for entries in exact]


def _paths(nodes: Nodes, hierarchy: Hierarchy) -> list[Path]:
    texts = list(zip(*(key.to_pylist() for key in nodes.keys), strict=True))
    out: list[Path] = []
    for level, up, text in zip(nodes.level.tolist(), nodes.ancestor.tolist(), texts, strict=True):
        own = text[level - 1] if hierarchy.kind == "columns" else text[0]
        out.append((*out[up], own) if level else ())
    return out


def path_of(row: Row, hierarchy: Hierarchy) -> Path:
    _, a, b, p, _ = row
    if hierarchy.kind == "columns":
        return naive.columns_path((a, b))
    return naive.path_path(p, separator="/", depth=3)


def expected(
    rows: Sequence[Row], hierarchy: Hierarchy, unit: PrivacyUnit, shown: list[Path], vector: Vector
) -> list[int]:
    """The slow twin: one row, or one user, after the other."""
    drop = hierarchy.on_invalid == "drop"
    kept = [row for row in rows if not (drop and None in path_of(row, hierarchy)[:1])]
    users: dict[object, list[tuple[Path, float | None]]] = defaultdict(list)
    for i, row in enumerate(kept):
        part = naive.part_of(path_of(row, hierarchy), shown)
        users[i if unit.user is None else row[0]].append((part, row[4]))
    out: dict[Path, int] = defaultdict(int)
    for own in users.values():
        for part, value in _of_one(own, vector, by_user=unit.user is not None).items():
            out[part] += value
    return [out[part] for part in shown]


def _of_one(
    own: Sequence[tuple[Path, float | None]], vector: Vector, *, by_user: bool
) -> dict[Path, int]:
    rows: dict[Path, int] = defaultdict(int)
    if vector.column is None:
        for part, _ in own:
            rows[part] += 1
        if not by_user:
            return rows
        return naive.user_counts(rows, GRID, vector.most // GRID if vector.kind == "rows" else None)
    bounds = vector.bounds
    ends = (bounds.low, bounds.high)
    wide = by_user and vector.of_total
    sums: dict[Path, int] = defaultdict(int)
    outside: dict[Path, int] = defaultdict(int)
    for part, value in own:
        low, high = (-FARTHEST, FARTHEST) if wide else ends
        x = naive.in_steps(value, bounds.decimals, low, high)
        if x is not None:
            rows[part] += 1
            sums[part] += {"above": x - ends[0], "below": ends[1] - x}.get(vector.kind, x)
            outside[part] += not bounds.lower <= float(value or 0) <= bounds.upper
    if vector.kind in ("above", "below"):
        number = sum(rows.values()) if by_user else 1
        return {part: naive.toward_zero(value, number) for part, value in sums.items()}
    cut = naive.user_total(sums, *ends) if by_user else sums
    if vector.kind == "sum":
        return cut
    if not by_user:
        return outside
    ups, downs = (sum(max(s * v, 0) for v in sums.values()) for s in (1, -1))
    is_cut = ups > max(ends[1], 0) or downs > max(-ends[0], 0) or ups + downs > bounds.most
    return naive.user_counts(rows, GRID, None) if is_cut else {}


VALUES = st.one_of(
    st.sampled_from([None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2.0**53, -0.0]),
    st.integers(-12, 12).map(float),
    st.integers(-1500, 150_000).map(lambda n: n / 100),
)
TEXTS = st.sampled_from(["x", "y", "z", "X", None])
ROWS = st.tuples(
    st.sampled_from(["1", "2", "3", None]),
    TEXTS,
    TEXTS,
    st.sampled_from(["", "/", "x", "x/y", "x/y/z", "x/y/z/w", "y/y", "z", "x/x"]),
    VALUES,
)


@some("columns-record", "columns-user", "path-record, late", "path-user", "path, drop-record, late")
@pytest.mark.parametrize(
    ("unit", "late"),  # of users everything is counted late
    [(RECORD, False), (RECORD, True), (USER, False)],
    ids=["record", "record, late", "user"],
)
@pytest.mark.parametrize("kind", HIERARCHIES)
@tries(4, 40)
@given(data=st.data())
def test_one_unit_moves_every_vector_by_at_most_its_bound(
    kind: str, unit: PrivacyUnit, late: bool, data: st.DataObject
) -> None:
    """Law: |difference| summed over all parts <= most, exactly, and over all vectors that are paid
    for together; every entry as the slow twin has it, for tables with and without the unit."""
    hierarchy, every = HIERARCHIES[kind]
    keys = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    rows = data.draw(st.lists(ROWS, max_size=12))
    if unit is RECORD:
        fewer = rows[1:]
    else:
        fewer = [row for row in rows if row[0] != (rows[0][0] if rows else "1")]
    shown, larger = found(table_of(rows), hierarchy, unit, keys, late=late)
    _, smaller = found(table_of(fewer), hierarchy, unit, keys, late=late)
    by_user, moved = unit.user is not None, []
    for vector, here, there in zip(vectors(unit), larger, smaller, strict=True):
        moved.append(sum(abs(x - y) for x, y in zip(here, there, strict=True)))
        assert moved[-1] <= vector.most
        assert here == expected(rows, hierarchy, unit, shown, vector), vector.kind
        assert there == expected(fewer, hierarchy, unit, shown, vector), vector.kind
    for measure in [m for m in MEASURES if by_user or m.at_most is None]:
        for together, _ in vectors_of(measure, by_user=by_user):
            assert sum(moved.pop(0) for _ in together) <= together[0].most


WHOLE_IDS = {None: None, "1": -(2**63), "2": 2**63 - 1}


@pytest.mark.parametrize("rows_at_once", [1, 3, 100])
@pytest.mark.parametrize("whole", [False, True])
@tries(4, 30)
@given(rows=st.lists(ROWS, max_size=12))
def test_users_in_order_or_in_groups_and_in_ranges_add_the_same(
    whole: bool, rows_at_once: int, rows: list[Row]
) -> None:
    """Law: every entry as the slow twin has it, whatever the type of ids, and however many rows
    are read at once."""
    hierarchy, every = HIERARCHIES["columns"]
    table = table_of(rows)
    if whole:
        ids = pa.array([WHOLE_IDS.get(row[0], len(str(row[0]))) for row in rows], pa.int64())
        table = table.set_column(0, "u", ids)
        rows = [(str(i), *row[1:]) for i, row in zip(ids.to_pylist(), rows, strict=True)]
    with mock.patch.object(user_rows, "MOST_ROWS", rows_at_once):
        shown, entries = found(table, hierarchy, USER, every[:4])
    for vector, here in zip(vectors(USER), entries, strict=True):
        assert here == expected(rows, hierarchy, USER, shown, vector), vector.kind


def test_sums_of_a_user_beyond_64_bits_are_exact() -> None:
    """And a sum that is cut to 64 bits is rejected."""
    value = FARTHEST
    rows: list[Row] = [("1", "x", "x", "x", value)] * 12_000 + [("1", "y", "y", "y", -value)] * 9
    hierarchy, _ = HIERARCHIES["columns"]
    vector = next(v for v in vectors(USER) if v.kind == "sum")

    def entries() -> list[list[int]]:
        return found(table_of(rows), hierarchy, USER, [("x", "x"), ("y", "y")])[1]

    shown, exact = found(table_of(rows), hierarchy, USER, [("x", "x"), ("y", "y")])
    twins = [expected(rows, hierarchy, USER, shown, v) for v in vectors(USER)]
    assert exact == twins
    assert 12_000 * vector.steps.of(FARTHEST) > 2**63
    with mock.patch.object(user_rows, "SUMS_FIT", 2**90):
        assert entries() != twins


def test_a_sum_beyond_64_bits_changes_nothing_that_others_add() -> None:
    """Every user's part is divided in whole numbers; floating-point numbers are rejected."""
    rows: list[Row] = [(str(i // 2), "x", "xy"[i % 2], "x", 3e11 + i) for i in range(6000)]
    far: list[Row] = [("far", "x", "x", "x", FARTHEST)]
    keys, wanted = [("x", "x"), ("x", "y")], flat(dpm.sum("v", lower=0, upper=5e11), by_user=True)
    listed, nodes, each = listing(keys)

    def entries(some: list[Row]) -> Any:
        counted = sources.measure_parts(table_of(some), BOTH, USER, 1, wanted, listed=listed)
        return counted.parts(wanted, nodes, each)

    def all_added_alike() -> bool:
        one, other, both = (np.array(entries(each)) for each in (rows, far, rows + far))
        return bool((one + other == both).all())

    assert all_added_alike()
    with mock.patch.object(parts_statement, "WIDE_ROWS", f"(FROM {parts_statement.VIEW})"):
        assert not all_added_alike()


@some("1-record", "2-record")
@pytest.mark.parametrize("unit", [RECORD, USER], ids=["record", "user"])
@pytest.mark.parametrize("at_most", [1, 2])
@settings(max_examples=8, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=12), column=st.sampled_from(["u", "b", "v"]))
def test_one_unit_moves_counts_of_different_values_by_what_is_paid_for(
    unit: PrivacyUnit, at_most: int, rows: list[Row], column: str
) -> None:
    """Law: all counts of all levels together move by at most ``touched``, and by 1 each where the
    plan says so; in one direction."""
    listed, nodes, _ = listing([("x", "x"), ("x", "y"), ("y", "z")])
    gone = rows[1:] if unit is RECORD else [row for row in rows if row[0] != rows[0][0]]
    measure = dpm.distinct(column, at_most=None if unit is RECORD else at_most)
    distinct = distinct_of(measure, user=unit.user, height=2)
    assert distinct is not None
    both = []
    for table in (rows, gone):
        with seeded_noise(5):
            counted = sources.measure_parts(table_of(table), BOTH, unit, 1, [], listed=listed)
            both.append(counted.distinct(distinct, nodes))
    moved = both[0] - both[1]
    assert min(moved) >= 0
    assert sum(moved) <= distinct.touched
    assert max(moved) <= 1 or not distinct.singly


LIMITS: dict[str, list[Any]] = {
    "BIGINT": [2**63 - 1, -(2**63)],
    "UBIGINT": [2**64 - 1, 0],
    "HUGEINT": [2**127 - 1, -(2**127)],
    "UHUGEINT": [2**128 - 1, 1],
    "DECIMAL(38,10)": ["9999999999999999999999999999.9999999999", "-0.0000000001"],
    "DECIMAL(38,0)": ["9" * 38, "-" + "9" * 38],
    "DOUBLE": [1.7976931348623157e308, -1e308, 5e-324, "nan", "inf", "-inf"],
    "FLOAT": [3.4028234e38, -1e-45, "nan"],
    "BOOLEAN": ["true", "false"],
    "TINYINT": [127, -128],
}
ENDS = [(-2.0, 5.0), (0.0, 1e15), (-1e-200, 1e-200), (-1e15, 3e-7)]


@some(0, 4, 8, 11, 15, 20, 24, 27, 31, 35, 36, 40, 47, 51, 52, 56, 63, 67, 68, 72, 76, 79)
@in_turn(
    (("ends", "kind"), list(product(ENDS, LIMITS))), ("unit", [RECORD, USER], ["record", "user"])
)
def test_values_at_the_limits_of_their_types_are_cut_and_never_an_error(
    kind: str, unit: PrivacyUnit, ends: tuple[float, float]
) -> None:
    """Law: a thousand rows of the largest values are no more than bounds allow, whatever type."""
    con = duckdb.connect()
    values = ", ".join(f"('{value}'::{kind})" for value in LIMITS[kind])
    con.execute(
        f"CREATE TABLE t AS SELECT v, i::VARCHAR AS u, 'x' AS a, 'y' AS b "
        f"FROM (VALUES {values}) AS vs(v), range(1000) r(i)"
    )
    (listed, nodes, each), (lower, upper) = listing([("x", "y")]), ends
    cut = dpm.sum("v", lower=lower, upper=upper, clipped=True)
    mean = dpm.mean("v", lower=lower, upper=upper)
    wanted = [v for m in (cut, mean) for v in flat(m, by_user=unit.user is not None)]
    counted = sources.measure_parts(con.table("t"), BOTH, unit, 1, wanted, listed=listed)
    exact = counted.parts(wanted, nodes, each)
    units = 1000 * len(LIMITS[kind]) if unit is RECORD else 1000
    for vector, entries in zip(wanted, exact, strict=True):
        assert sum(abs(int(x)) for x in entries) <= units * vector.most
    for searched in searches_of(dpm.sum("v", lower="auto", upper="auto")):
        histogram = counted.magnitudes(searched)
        assert histogram.min() >= 0
        assert histogram.sum() <= units


def test_a_bound_in_steps_is_what_the_statement_makes_of_it() -> None:
    """Law: of a value at its bound, or beyond, the statement makes the bound in steps, so that none
    is more: also next to half a step, which a product of doubles rounds otherwise than exact
    arithmetic. Planted bug: bounds that are rounded exactly are less than some values."""
    near_halves = [(k + 0.5) / 10**10 for k in range(10**9, 10**9 + 400)]
    ends = [*((0.0, x) for x in near_halves), *((-x, 0.0) for x in near_halves)]
    for times in (1.0, 1.5):
        each = ", ".join(
            value_sql(f"({times * (high or low)!r})::DOUBLE", Steps(low, high), clipped=True)
            for low, high in ends
        )
        found = duckdb.sql(f"SELECT {each}").fetchall()[0]
        most = [Steps(low, high).high if high else Steps(low, high).low for low, high in ends]
        assert list(found) == most
    exact = [round(Fraction(x) * 10**10) for x in near_halves]
    assert any(x < y for x, y in zip(exact, found, strict=False))


@some(0, 2, 4, 5, 7, 10, 12, 13, 15, 18, 20, 23, 25, 26, 28, 31, 33, 34, 36, 38, 39)
@pytest.mark.parametrize("kind", [kind for kind in IDS if kind not in REFUSED])
def test_users_of_every_type_of_ids_are_bounded(kind: str) -> None:
    """Law: users whose ids DuckDB holds equal add up to what one may, over all parts together."""
    con, users = loaded(IDS[kind])
    listed, nodes, each = listing([("user 0", "b0"), ("user 0", "b1"), ("user 1", "b5")])
    several = (dpm.count(), dpm.count(at_most=3), dpm.sum("n", lower=-2, upper=5))
    wanted = [vector for m in several for vector in flat(m, by_user=True)]
    counted = sources.measure_parts(con.table("visits"), BOTH, USER, 1, wanted, listed=listed)
    for vector, entries in zip(wanted, counted.parts(wanted, nodes, each), strict=True):
        total = sum(abs(int(x)) for x in entries)
        assert len(users) * (vector.most - 10) <= total <= len(users) * vector.most


@pytest.mark.parametrize("kind", REFUSED)
def test_ids_without_a_text_are_refused_with_listed_keys_too(kind: str) -> None:
    """Law: by their type, before anything is read."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT {IDS[kind][0]} AS u, 'x' AS a FROM range(0)")
    listed = listed_nodes(["x"], dp.columns("a"))
    with pytest.raises(dp.ColumnError, match="Cast the column"):
        sources.measure_parts(con.table("t"), dp.columns("a"), USER, 1, [], listed=listed)


def test_a_user_is_in_one_bin_whatever_the_order_of_rows() -> None:
    """Law: magnitudes do not depend on the order in which rows, also those of others, are read.

    Negative control: a sum of floating-point numbers would.
    """
    values = [2.0**10 - 2.0**-28, *[2.0**-30] * 4]
    assert len({math.floor(math.log2(sum(v))) for v in (values, values[::-1])}) == 1
    tiny = [1.0, *[2.0**-54] * 4096]
    in_order, reversed_ = (functools.reduce(operator.add, v) for v in (tiny, tiny[::-1]))
    assert in_order != reversed_  # `sum` would compensate since Python 3.12
    rows: list[Row] = [
        (f"{i % 3}", "x", "x", "", v) for v in (*values, *tiny[:40]) for i in range(3)
    ]
    searched = AutoBound(column="v", side="upper", of_total=True)
    seen = set()
    for seed in range(6):
        shuffled = random.Random(seed).sample(rows, len(rows))
        counted = sources.measure_parts(table_of(shuffled), dp.columns("a"), USER, 1, [])
        seen.add(tuple(counted.magnitudes(searched).tolist()))
    assert len(seen) == 1
    (histogram,) = seen
    assert sum(histogram) == 3
    assert len(histogram) == LARGEST - FIRST + 1


def test_the_twin_sees_what_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: a user's rows are not bounded over all parts together."""
    monkeypatch.setattr(parts_statement, "of_user", lambda i, vector, a: f"{GRID}::HUGEINT * m")
    rows: list[Row] = [("1", a, b, "", 1.0) for a in "xy" for b in "xy"]
    _, entries = found(table_of(rows), BOTH, USER, [("x", "x"), ("y", "y")])
    assert sum(entries[0]) > vectors(USER)[0].most


def test_steps_hold_their_bounds() -> None:
    """Law: low <= high, every bound within half a step of what it was, width and most positive."""
    draw = random.Random(2)
    for _ in range(300):
        scale = 10.0 ** draw.randint(-190, 14)
        lower, upper = sorted((draw.uniform(-1, 1) * scale, draw.uniform(-1, 1) * scale))
        bounds = Steps(lower, upper)
        step = Fraction(10) ** -bounds.decimals
        assert bounds.low <= bounds.high
        assert abs(bounds.low * step - Fraction(lower)) <= step / 2
        assert abs(bounds.high * step - Fraction(upper)) <= step / 2
        assert bounds.width >= 1
        assert 10**8 < bounds.most < 10**14
        assert bounds.width == max(bounds.high - bounds.low, 1)
