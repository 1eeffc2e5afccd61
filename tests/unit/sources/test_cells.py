"""Cells counted by the statement, and segments of records, against each record by itself."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.counts import CellCounts, CountTree, Ints, Nodes
from dpframe.errors import SourceError
from dpframe.hierarchy import Cells, as_hierarchies
from dpframe.hierarchy._cells import CELL_REFUSALS
from dpframe.measures.measure import GRID, Distinct, vectors_of
from dpframe.mechanisms import offline_hhh
from dpframe.mechanisms.rollup import Selection, shown_nodes
from dpframe.sources.candidates import group_counts
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.rollup_parts import (
    MeasuredParts,
    measure_parts,
    parts_counted_elsewhere,
    sums_of,
)
from dpframe.sources.rollup_statement import _positions_among, rollup_statement
from tests.naive import paths_of, segments
from tests.rollups import Silent, reported
from tests.strategies import examples

SHAPES = (
    "ip:a?prefixes=8,16&prefixes6=16 * path:b?depth=2",
    "columns:a,b * code:c?lengths=1,2",
    "path:a?depth=2&invalid=drop * b * domain:c?depth=2",
    "sets:a,b;b,c;c;a",
    "a > path:b?depth=2 > c",
    "a * b * c",
)
VALUES: dict[str, list[Any]] = {
    "a": ["10.0.0.1", "10.1.0.1", "::1", "a/b", "a", "", None, "nan", "'", "x"],
    "b": ["a/b/c", "a/c", "a", "b", "/", None, "<invalid>", "a//b"],
    "c": ["12", "1", "13", "a.b", "b", "", None, "x.a.b", "C", "c"],
}
ROWS = st.lists(st.tuples(*(st.sampled_from(VALUES[name]) for name in "abc")), max_size=40)


Rows = list[tuple[Any, ...]]


def frame_of(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["a", "b", "c"], dtype=object)


def expected(cells: Cells, rows: Rows, threshold: int) -> dict[Any, int]:
    read = ["abc".index(name) for name in cells.source_columns]
    records: Counter[Any] = Counter()
    for row in rows:
        paths = paths_of(cells, [row[i] for i in read])
        if paths is not None:
            records[paths] += 1
    return segments(cells.kinds, records, lambda _, __, n: n >= threshold)


@examples(6, 300, ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.data())
def test_what_is_reported_is_of_every_record(
    rows: Rows, shape: str, threshold: int, data: Any
) -> None:
    """Law: disjoint segments, each record in the first selected cell, whatever the band, and with
    tables of all cells as with numbers of those that there are."""
    cells = as_hierarchies(shape)
    assert isinstance(cells, Cells)
    band, tables = data.draw(st.integers(1, threshold)), data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        if not tables:
            patch.setattr(offline_hhh, "_dense", lambda *_: False)
        found = reported(frame_of(rows), cells, threshold=threshold, band=band)
    wanted = expected(cells, rows, threshold)
    assert found == wanted
    assert sum(found.values()) == sum(wanted.values())


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        ("TIMESTAMP", ("'2020-01-01'", "'2020-01-01 00:00:00'"), 1),
        ("DOUBLE", ("0.0", "-0.0"), 1),
        ("INTERVAL", ("'1 month'", "'30 days'"), 2),
        ("INTEGER[]", ("[1, 2]", "[2]"), 2),
        ("UUID", (f"'{'0' * 32}'", f"'{'1' * 32}'"), 2),
    ],
)
def test_columns_are_grouped_by_their_text(kind: str, values: tuple[str, str], texts: int) -> None:
    """Law: no record chooses the text of another: values that DuckDB finds equal have their own."""
    rows = " UNION ALL ".join(f"SELECT {v}::{kind} AS a, 'x' AS b FROM range(5)" for v in values)
    found = reported(duckdb.connect().sql(rows), dp.product("a", "b"), threshold=3)
    assert sum(place == 0 for place, _ in found) == texts
    assert sum(found.values()) == 10


def test_shares_of_users_add_up_to_their_number() -> None:
    """Law: a user weighs one in all cells together, however many rows they have."""
    frame = pd.DataFrame(
        {
            "u": [i % 7 for i in range(90)],
            "a": [f"10.{i % 3}.0.{i}" for i in range(90)],
            "b": ["xy"[i % 2] for i in range(90)],
        }
    )
    unit = PrivacyUnit(user="u")
    found = reported(frame, dp.product("ip:a?version=4", "b"), threshold=2 * unit.grid, unit=unit)
    assert sum(found.values()) == 7 * unit.grid


@pytest.mark.parametrize("asked", ["path:a * path:b", "a * b", "a > path:b"])
def test_a_source_is_read_once(asked: str) -> None:
    """Law: one reading is counted, of a query too that has other rows each time it is read."""
    rows = duckdb.connect().sql(
        "SELECT 'a' || (random() * 5)::INT AS a, 'b' || (random() * 3)::INT AS b FROM range(3000)"
    )
    cells = as_hierarchies(asked)
    assert isinstance(cells, Cells)
    assert sum(reported(rows, cells, threshold=200, band=100).values()) == 3000


def test_an_empty_table_has_the_total_alone() -> None:
    """Law: no records, no cells, and a total of 0 that is released like any other."""
    cells = dp.product("a", "b")
    assert reported(frame_of([]), cells, threshold=1) == {(3, ((), ())): 0}


def test_groups_that_do_not_add_up_are_refused() -> None:
    """Planted bug: a record in two groups would pay for both: found before noise is drawn."""
    counts = exact_counts(frame_of([("a", "b", "c")] * 3), dp.product("a", "b"), PrivacyUnit(), 1)
    assert isinstance(counts, CellCounts)
    assert counts.check_sums().own_counts.sum() == 3
    with pytest.raises(SourceError, match="do not add up"):
        replace(counts, own_counts=counts.own_counts * 2).check_sums()


def test_the_document_tells_what_cells_refuse() -> None:
    """Law: the table of docs/cubes.md is the table of the code, row by row."""
    text = (Path(__file__).parents[3] / "docs" / "cubes.md").read_text("utf-8").replace("`", "")
    rows = re.findall(r"^\| (.+) \| (.+) \|$", text.partition("## What it does not do")[2], re.M)
    assert dict(rows[2:]) == CELL_REFUSALS


def test_private_counts_do_not_show_themselves() -> None:
    """Law: what is private says so, and nothing else."""
    counts = exact_counts(frame_of([("a", "b", "c")]), dp.product("a", "b"), PrivacyUnit(), 1)
    assert repr(counts) == "CellCounts(<private>)"
    assert repr(counts.axes[0]) == "CountTree(<private>)"
    assert isinstance(counts.axes[0], CountTree)


@given(
    st.sets(st.integers(1, 2**30), max_size=20),
    st.sampled_from([1, 2**12]),
    st.lists(st.integers(0, 19), max_size=40),
)
def test_positions_are_of_equal_numbers(some: set[int], spread: int, picked: list[int]) -> None:
    """Law: small numbers are looked up, large ones searched for; both find themselves."""
    known = np.unique([0, *(one % 2**10 * spread for one in some)])[::-1]
    wanted = known[[pick % len(known) for pick in picked]].astype(np.int64)
    assert (known[_positions_among(wanted, known)] == wanted).all()


TOTAL = dp.sum("v", lower=-5, upper=50)


def vectors(*measures: Any, by_user: bool = False) -> list[Any]:
    return [v for m in measures for each, _ in vectors_of(m, by_user=by_user) for v in each]


def measured(
    rows: Rows, cells: Cells, threshold: int, band: int
) -> tuple[Nodes, Ints, MeasuredParts]:
    """What is reported without noise, and what measures it."""
    frame = frame_of(rows).assign(v=[float(i % 9) for i in range(len(rows))])
    found = measure_parts(frame, cells, PrivacyUnit(), band, [])
    selection = Selection(test=Silent(), threshold=threshold)  # type: ignore[arg-type]
    nodes, places = shown_nodes(found.counts, cells.kinds, selection, band)
    return nodes, places, found


@examples(6, 300, ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.data())
def test_a_segment_has_what_its_cell_took(
    rows: Rows, shape: str, threshold: int, data: Any
) -> None:
    """Law: the second reading finds every record where the selection put it, whatever the band;
    what is measured adds up to all records that are not dropped."""
    cells = as_hierarchies(shape)
    assert isinstance(cells, Cells)
    nodes, places, found = measured(rows, cells, threshold, data.draw(st.integers(1, threshold)))
    several = vectors(dp.count(), TOTAL)
    counted, summed = found.parts(several, nodes, places)
    wanted = expected(cells, rows, threshold)
    of_kind: Counter[Any] = Counter()
    for level, n in zip(nodes.level.tolist(), counted.tolist(), strict=True):
        of_kind[len(cells.kinds) - level, n] += 1
    assert of_kind == Counter((kind, n) for (kind, _), n in wanted.items())
    assert counted.sum() == sum(wanted.values())
    if "drop" not in shape:
        assert (
            summed.sum() == sum(i % 9 for i in range(len(rows))) * 10 ** several[1].bounds.decimals
        )


def test_values_are_different_within_a_segment() -> None:
    """Law: a value counts once a segment, in every one where it is, and in no cell beside."""
    rows = [("a", "b", str(i % 3)) for i in range(9)] + [("a", f"{i}", "c") for i in range(9)]
    frame = pd.DataFrame(rows, columns=["a", "b", "v"])
    found = measure_parts(frame, dp.product("a", "b"), PrivacyUnit(), 1, [])
    selection = Selection(test=Silent(), threshold=9)  # type: ignore[arg-type]
    nodes, _ = shown_nodes(found.counts, dp.product("a", "b").kinds, selection, 1)
    distinct = Distinct(column="v", at_most=None, touched=1, singly=True)
    assert nodes.level.tolist() == [0, 2, 3]
    assert found.distinct(distinct, nodes).tolist() == [0, 1, 3]


HARD = [None, math.nan, math.inf, -math.inf, 1e300, 7.0, -3.5, 0.25]
"""Values that no sum takes, those beyond its bounds, and those within."""


@examples(4, 150, ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.data())
def test_groups_that_another_engine_adds_up_are_the_same_segments(
    rows: Rows, shape: str, threshold: int, data: Any
) -> None:
    """Law: a segment is a union of the groups that a statement returns, whatever the band; sums are
    those of the second reading, of every record by itself."""
    cells, band = as_hierarchies(shape), data.draw(st.integers(1, threshold))
    assert isinstance(cells, Cells)
    values = data.draw(st.lists(st.sampled_from(HARD), min_size=len(rows), max_size=len(rows)))
    frame = frame_of(rows).assign(v=pd.array(values, dtype="Float64"))
    own = measure_parts(frame, cells, PrivacyUnit(), band, [])
    several = vectors(dp.count(), TOTAL, dp.mean("v", lower=-5, upper=50))
    sums = sums_of(several)
    types = ("VARCHAR",) * len(cells.source_columns)
    statement = rollup_statement(
        cells, PrivacyUnit(), band=band, types=types, seed=1, view="frame", extra={}, sums=sums
    )
    with duckdb.connect() as con:
        schema = pa.schema([*((name, pa.string()) for name in "abc"), ("v", pa.float64())])
        con.register("frame", pa.Table.from_pandas(frame, schema=schema))
        table = con.sql(statement).to_arrow_table()
    counted = group_counts(table, cells, None, types, band=band, sums=tuple(sums), own=False)
    selection = Selection(test=Silent(), threshold=threshold)  # type: ignore[arg-type]
    nodes, places = shown_nodes(own.counts, cells.kinds, selection, band)
    other, others = shown_nodes(counted, cells.kinds, selection, band)
    assert [key.to_pylist() for key in nodes.keys] == [key.to_pylist() for key in other.keys]
    elsewhere = parts_counted_elsewhere(counted, tuple(sums), cells)
    for one, two in zip(
        own.parts(several, nodes, places), elsewhere.parts(several, other, others), strict=True
    ):
        assert one.tolist() == two.tolist()


@examples(4, 100, ROWS, st.sampled_from(SHAPES), st.integers(1, 6))
def test_users_within_bounds_add_their_records(rows: Rows, shape: str, threshold: int) -> None:
    """Law: bounds that nobody reaches cut nothing, whatever segments a user is divided over."""
    cells = as_hierarchies(shape)
    assert isinstance(cells, Cells)
    frame = frame_of(rows).assign(
        v=[(1.0, -3.0, math.nan, 2.0)[i % 4] for i in range(len(rows))],
        u=[f"u{i // 2}" for i in range(len(rows))],
    )
    by_record, by_user = (
        measure_parts(frame, cells, PrivacyUnit(user=user), 1, []) for user in (None, "u")
    )
    selection = Selection(test=Silent(), threshold=threshold)  # type: ignore[arg-type]
    nodes, _ = shown_nodes(by_record.counts, cells.kinds, selection, 1)
    total = dp.sum("v", lower=-50, upper=50)
    found = []
    for count, counted, user in (
        (dp.count(), by_record, False),
        (dp.count(at_most=2), by_user, True),
    ):
        several = vectors(count, total, by_user=user)
        found.append([part.tolist() for part in counted.of_rows(several, nodes)])
    (records, sums), (shares, of_users) = found
    assert sums == of_users
    assert shares == [GRID * n for n in records]
