"""The segment of every record by the statement, against every record by itself."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.counts import Ints, Nodes
from dpframe.hierarchy import Cells, as_hierarchies
from dpframe.measures import GRID, Distinct, vectors_of
from dpframe.mechanisms.rollup import Selection, shown_nodes
from dpframe.sources.candidates import group_counts
from dpframe.sources.rollup_parts import (
    MeasuredParts,
    measure_parts,
    parts_counted_elsewhere,
    sums_of,
)
from dpframe.sources.rollup_statement import rollup_statement
from tests.rollups import Silent
from tests.strategies import examples
from tests.unit.sources.test_cells import ROWS, SHAPES, expected, frame_of

TOTAL = dp.sum("v", lower=-5, upper=50)


def measured(
    rows: list[tuple[Any, ...]], cells: Cells, threshold: int, band: int
) -> tuple[Nodes, Ints, MeasuredParts]:
    """What is reported without noise, and what measures it."""
    frame = frame_of(rows).assign(v=[float(i % 9) for i in range(len(rows))])
    found = measure_parts(frame, cells, PrivacyUnit(), band, [])
    selection = Selection(test=Silent(), threshold=threshold)  # type: ignore[arg-type]
    nodes, places = shown_nodes(found.counts, cells.kinds, selection, band)
    return nodes, places, found


@examples(12, 300, ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.data())
def test_a_segment_has_what_its_cell_took(
    rows: list[tuple[Any, ...]], shape: str, threshold: int, data: Any
) -> None:
    """Law: the second reading finds every record where the selection put it, whatever the band;
    what is measured adds up to all records that are not dropped."""
    cells = as_hierarchies(shape)
    assert isinstance(cells, Cells)
    nodes, places, found = measured(rows, cells, threshold, data.draw(st.integers(1, threshold)))
    several = [v for m in (dp.count(), TOTAL) for each, _ in vectors_of(m, by_user=False)
               for v in each]  # fmt: skip
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


@examples(6, 150, ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.data())
def test_groups_that_another_engine_adds_up_are_the_same_segments(
    rows: list[tuple[Any, ...]], shape: str, threshold: int, data: Any
) -> None:
    """Law: a segment is a union of the groups that a statement returns, whatever the band; sums are
    those of the second reading, of every record by itself."""
    cells, band = as_hierarchies(shape), data.draw(st.integers(1, threshold))
    assert isinstance(cells, Cells)
    values = data.draw(st.lists(st.sampled_from(HARD), min_size=len(rows), max_size=len(rows)))
    frame = frame_of(rows).assign(v=pd.array(values, dtype="Float64"))
    own = measure_parts(frame, cells, PrivacyUnit(), band, [])
    vectors = [v for m in (dp.count(), TOTAL, dp.mean("v", lower=-5, upper=50))
               for each, _ in vectors_of(m, by_user=False) for v in each]  # fmt: skip
    sums = sums_of(vectors)
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
        own.parts(vectors, nodes, places),
        elsewhere.parts(vectors, other, others),
        strict=True,
    ):
        assert one.tolist() == two.tolist()


@examples(4, 100, ROWS, st.sampled_from(SHAPES), st.integers(1, 6))
def test_users_within_their_bounds_add_what_their_records_do(
    rows: list[tuple[Any, ...]], shape: str, threshold: int
) -> None:
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
        several = [v for m in (count, total) for each, _ in vectors_of(m, by_user=user)
                   for v in each]  # fmt: skip
        found.append([part.tolist() for part in counted.of_rows(several, nodes)])
    (records, sums), (shares, of_users) = found
    assert sums == of_users
    assert shares == [GRID * n for n in records]
