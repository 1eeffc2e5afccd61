"""The segment of every record by the statement, against every record by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
from hypothesis import strategies as st

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Cells, as_hierarchies
from dpframe.mechanisms import cell_rollup
from dpframe.mechanisms.rollup import Nodes, Selection
from dpframe.sources.measured_cells import MeasuredCells, measured_cells
from dpframe.vectors import Distinct, vectors_of
from tests.cell_counts import Silent
from tests.strategies import examples
from tests.unit.sources.test_cells import ROWS, SHAPES, expected, frame_of

TOTAL = dp.sum("v", lower=-5, upper=50)


def measured(
    rows: list[tuple[Any, ...]], cells: Cells, threshold: int, band: int
) -> tuple[Nodes, MeasuredCells]:
    """What is reported without noise, and what measures it."""
    frame = frame_of(rows).assign(v=[float(i % 9) for i in range(len(rows))])
    found = measured_cells(frame, cells, PrivacyUnit(), band)
    selection = Selection(test=Silent(), threshold=threshold)  # type: ignore[arg-type]
    return cell_rollup.reported(found.cells, cells.kinds, selection, band), found


@examples(12, 300, ROWS, st.sampled_from(SHAPES), st.integers(1, 6), st.data())
def test_a_segment_has_what_its_cell_took(
    rows: list[tuple[Any, ...]], shape: str, threshold: int, data: Any
) -> None:
    """Law: the second reading finds every record where the selection put it, whatever the band;
    what is measured adds up to all records that are not dropped."""
    cells = as_hierarchies(shape)
    assert isinstance(cells, Cells)
    nodes, found = measured(rows, cells, threshold, data.draw(st.integers(1, threshold)))
    several = [v for m in (dp.count(), TOTAL) for each, _ in vectors_of(m, by_user=False)
               for v in each]  # fmt: skip
    counted, summed = found.parts(several, nodes, nodes.level)
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
    found = measured_cells(frame, dp.product("a", "b"), PrivacyUnit(), 1)
    selection = Selection(test=Silent(), threshold=9)  # type: ignore[arg-type]
    nodes = cell_rollup.reported(found.cells, dp.product("a", "b").kinds, selection, 1)
    distinct = Distinct(column="v", at_most=None, touched=1, singly=True)
    assert nodes.level.tolist() == [0, 2, 3]
    assert found.distinct(distinct, nodes).tolist() == [0, 1, 3]
