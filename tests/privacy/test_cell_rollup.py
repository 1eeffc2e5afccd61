"""A whole rollup of cells, enumerated: for all neighbours, divergence <= the claimed delta.

Selection and measures together, from the shipped statements on small frames, as of one hierarchy
(``rollup_outputs``). Planted bugs in any of the steps must be rejected by the same comparison.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpframe.counts import CellCounts, Nodes
from dpframe.measures import measure as dpm
from dpframe.measures.measure import Vector
from dpframe.mechanisms import offline_hhh
from dpframe.questions.rollup.plan import RollupPlan
from dpframe.sources import segment_places as parts_statement
from dpframe.sources.rollup_parts import MeasuredParts

from .rollup_outputs import Row, furthest, largest_loss, law_of, plan_of, table_of
from .test_rollup import (
    BY_USER,
    RECORDS,
    SEVERAL,
    USERS,
    _every_pair,
    _node_by_node,
    compared,
    rejected,
    rows_near,
)

SELECTED: Any = {"epsilon": 9.0, "delta": 1e-2}
SHAPES = ("a * b", "sets:a,b;b", "a > path:b")


FEW = {None: RECORDS[:1], "u": USERS[2:3]}
EVERY = [(by, user, RECORDS if user is None else USERS) for by in SHAPES for user in (None, "u")]


@pytest.mark.parametrize(
    ("by", "user", "added"),
    [
        *(("a * b", user, few) for user, few in FEW.items()),
        *(pytest.param(*each, marks=pytest.mark.evidence) for each in EVERY),
    ],
)
def test_no_neighbour_is_further_than_claimed(
    by: str, user: str | None, added: Sequence[Sequence[Row]]
) -> None:
    """Law: D <= delta at epsilon, both ways, for the selection of cells and all noisy vectors on
    their segments. The comparison is not empty: selections differ, and some unit uses all of what
    is paid for. A few neighbours; as evidence, neighbours of any kind."""
    several = {
        **(SEVERAL if user is None else BY_USER),
        "values": dpm.distinct("v", at_most=None if user is None else 2),
    }
    way = {} if user is None else {"contribution": "share"}
    plan = plan_of(several, by=by, user=user, **way, **SELECTED)
    assert plan.selection is not None
    base = rows_near(plan.selection.threshold)
    pairs = compared(plan, base, added)
    for p, q in pairs:
        assert furthest(p, q, plan.epsilon_spent)[1] <= plan.delta_spent
    measured = plan.epsilon_spent - Fraction(plan.selection.budget.epsilon)
    assert 0.7 * measured < max(largest_loss(p, q) for p, q in pairs) <= measured
    assert all(len(p) > 2 for p, _ in pairs)
    assert any(p[shown].mass != q[shown].mass for p, q in pairs for shown in p.keys() & q.keys())
    assert rejected(plan, pairs, measured / 2)  # what half would not be enough for


@pytest.mark.parametrize("size", [1, 3, 4, 5, 6, 9])
def test_one_cell_of_any_size_is_within_the_claim(size: int) -> None:
    """Law: the same where one record is alone in all of its cells, which is where the recursion of
    the selection is attained."""
    plan = plan_of({"n": dpm.count()}, by="a * b", **SELECTED)
    base: list[Row] = [("w", "a", "x", 1.0)] * size
    ((p, q),) = compared(plan, base, [[("new", "a", "x", 1.0)]])
    assert furthest(p, q, plan.epsilon_spent)[1] <= plan.delta_spent


# -- planted bugs --------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _whole_cells(patch: pytest.MonkeyPatch) -> None:
    """A record counts in every selected cell above it, and not in the first alone."""
    of_rows = MeasuredParts.of_rows

    def planted(self: Any, vectors: Sequence[Vector], nodes: Nodes) -> Any:
        found = of_rows(self, vectors, nodes)
        for place in range(1, len(nodes.level)):
            two = Nodes(
                level=nodes.level[[0, place]],
                ancestor=nodes.ancestor[[0, place]],
                keys=tuple(key.take([0, place]) for key in nodes.keys),
            )
            for one, whole in zip(found, of_rows(self, vectors, two), strict=True):
                one[place] = whole[1]
        return found

    patch.setattr(MeasuredParts, "of_rows", planted)


def _nobody_takes(patch: pytest.MonkeyPatch) -> None:
    """Records stay where they were when a cell takes them, and others are selected for them."""
    select = offline_hhh.select

    def planted(cells: CellCounts, *, kinds: Any, remainder: bool, **rest: Any) -> Any:
        found = [select(cells, kinds=(k,), remainder=False, **rest) for k in kinds]
        numbers = [np.full(len(one[0]), place) for place, one in enumerate(found)]
        width = len(cells.axes)
        return (
            np.concatenate([*numbers, [len(kinds)]]),
            np.concatenate([*(one[1] for one in found), np.zeros((1, width), dtype=np.int64)]),
            np.concatenate([*(one[2] for one in found), [0]]),
        )

    patch.setattr(offline_hhh, "select", planted)


def _user_in_every_segment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parts_statement, "of_user", _node_by_node)


PLANTED: dict[str, tuple[str | None, dict[str, dpm.Measure], Plant]] = {
    "whole cells are measured": (None, {"n": dpm.count()}, _whole_cells),
    "nobody takes records": (None, {"n": dpm.count()}, _nobody_takes),
    "a user counts in every segment": ("u", {"n": dpm.count()}, _user_in_every_segment),
    "all values of a user are counted": ("u", {"d": dpm.distinct("v", at_most=1)}, _every_pair),
}


def near(plan: RollupPlan) -> list[Row]:
    """Cells that overlap, as large as the threshold and larger."""
    assert plan.selection is not None
    size = plan.selection.threshold
    rows: list[Row] = [(f"a{i}", "a", "x", 1.0 * i) for i in range(size)]
    rows += [(f"b{i}", "a", f"y{i}", 1.0 * i) for i in range(size)]
    rows += [(f"c{i}", f"b{i}", "x", 1.0 * i) for i in range(size)]
    return rows


def alone(plan: RollupPlan) -> list[Row]:
    """One cell of each kind, with the same records."""
    assert plan.selection is not None
    return [("w", "a", "x", 1.0)] * (plan.selection.threshold - 3)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bugs: the comparison above certainly fails, and without them it holds."""
    user, measures, plant = PLANTED[name]
    way = {} if user is None else {"contribution": "share"}
    plan = plan_of(measures, by="a * b", user=user, **way, **{**SELECTED, "epsilon": 3.0})
    added = RECORDS[:1] if user is None else USERS[:1] + USERS[6:7]
    base = alone(plan) if plant is _nobody_takes else near(plan)
    assert not rejected(plan, compared(plan, base, added), plan.epsilon_spent)
    plant(monkeypatch)
    assert rejected(plan, compared(plan, base, added), plan.epsilon_spent)


def test_a_selection_for_fewer_kinds_is_rejected() -> None:
    """Planted bug: noise for the levels of both dimensions (2), not for all kinds of cells (3)."""
    right = plan_of({"n": dpm.count()}, by="a * b", **SELECTED)
    wrong = dataclasses.replace(right, selection=plan_of({"n": dpm.count()}, **SELECTED).selection)
    tables = [table_of([("w", "a", "x", 1.0)] * size) for size in range(2, 8)]
    for plan, bad in ((right, False), (wrong, True)):
        pairs = [*pairwise(law_of(plan, table) for table in tables)]  # a record more each time
        assert rejected(right, pairs, right.epsilon_spent) == bad
