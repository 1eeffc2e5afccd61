"""Cells counted by the statement, against every record by itself."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.counts import CellCounts, CountTree
from dpframe.errors import SourceError
from dpframe.hierarchy import Cells, as_hierarchies
from dpframe.hierarchy._cells import CELL_REFUSALS
from dpframe.mechanisms import offline_hhh
from dpframe.sources.exact_trees import exact_counts
from tests.naive import paths_of, segments
from tests.rollups import reported
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


def frame_of(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["a", "b", "c"], dtype=object)


def expected(cells: Cells, rows: list[tuple[Any, ...]], threshold: int) -> dict[Any, int]:
    read = ["abc".index(name) for name in cells.source_columns]
    records: Counter[Any] = Counter()
    for row in rows:
        paths = paths_of(cells, [row[i] for i in read])
        if paths is not None:
            records[paths] += 1
    return segments(cells.kinds, records, lambda _, __, n: n >= threshold)


@examples(12, 300, ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.data())
def test_what_is_reported_is_what_every_record_by_itself_gives(
    rows: list[tuple[Any, ...]], shape: str, threshold: int, data: Any
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
