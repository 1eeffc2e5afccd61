"""Cells of several hierarchies, enumerated: for all neighbours, divergence <= the claimed delta.

Every selection that ``offline_hhh.run`` can make on a tiny lattice is produced with its exact
probability; the hockey-stick divergence of neighbouring tables is a finite sum, compared in both
directions with what the recursion over a *path* claims for as many nodes as there are kinds of
cells. Then mistakes are planted, and the same checks must reject each of them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.accounting.path_recursion import path_delta
from dpframe.budget import PrivacyUnit
from dpframe.counts import CellCounts, NoisyNodes
from dpframe.errors import HierarchyError
from dpframe.hierarchy import Cells, Kind
from dpframe.mechanisms import offline_hhh
from dpframe.noise import halves, laplace_table
from dpframe.sources import exact_trees
from tests.members import in_turn, some
from tests.naive import segments
from tests.rollups import Silent, nodes

from .cell_outputs import (
    Record,
    Run,
    Table,
    counts_of,
    every_selection,
    kinds_of,
    more,
)
from .enumerate_outputs import worst_selection

LAWS = {
    "skewed": halves(left=("geometric", 2.0, 3), right=("geometric", 1.0, 2), recentre=False),
    "symmetric": laplace_table(1.5, 2),
    "three values": laplace_table(3.0, 1),
}
RELEASE = laplace_table(1.5, 2)
THRESHOLD = 4
EPSILONS = (0.3, 0.7, 1.0, 1.5)

LATTICES: dict[str, tuple[tuple[int, ...], Record, tuple[Record, ...]]] = {
    "2 x 2": ((1, 1), ("a", "x"), (("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"))),
    "2 x 3": ((1, 2), ("a", "xp"), (("a", "xp"), ("a", "xq"), ("b", "xp"), ("a", "y"))),
    "2 x 2 x 2": ((1, 1, 1), ("a", "x", "p"), (("a", "x", "p"), ("a", "y", "p"), ("b", "x", "p"))),
}
"""Heights of the dimensions, the record that comes or goes, and where others are."""

SIZES = {"2 x 2": (0, 3, 4), "2 x 3": (0, 3), "2 x 2 x 2": (0, 3)}


def tables(lattice: str) -> list[dict[Record, int]]:
    """Any number of records beside the one that comes or goes; and few places, full enough."""
    _, record, places = LATTICES[lattice]
    counts = itertools.product(SIZES[lattice], repeat=len(places))
    beside = [dict(zip(places, some, strict=True)) for some in counts if sum(map(bool, some)) < 4]
    return [*({record: n} for n in range(7)), *beside]


@cache
def law_of(items: tuple[tuple[Record, int], ...], lattice: str, law: str, remainder: bool) -> Any:
    return every_selection(
        dict(items),
        kinds=kinds_of(*LATTICES[lattice][0]),
        test=LAWS[law],
        threshold=THRESHOLD,
        remainder=remainder,
    )


def key(table: Table) -> tuple[tuple[Record, int], ...]:
    return tuple(sorted(table.items()))


def claimed(lattice: str, law: str, remainder: bool, epsilon: float) -> float:
    return path_delta(
        LAWS[law],
        RELEASE,
        height=len(kinds_of(*LATTICES[lattice][0])),
        epsilon=epsilon,
        remainder=remainder,
        threshold=THRESHOLD,
    )


def furthest(lattice: str, law: str, remainder: bool, epsilon: float) -> float:
    """The largest exact divergence of neighbouring tables."""
    record, t, found = LATTICES[lattice][1], math.exp(epsilon), 0.0
    for table in tables(lattice):
        p = law_of(key(table), lattice, law, remainder)
        q = law_of(key(more(table, record)), lattice, law, remainder)
        found = max(found, worst_selection(p, q, RELEASE, t))
    return found


@in_turn(("lattice", list(LATTICES)), ("law", list(LAWS)), ("remainder", [True, False]))
def test_no_neighbour_is_further_than_the_recursion_says(
    lattice: str, law: str, remainder: bool
) -> None:
    """Law: D(M(D) || M(D')) <= T_t(epsilon) in both directions, t the number of kinds."""
    for epsilon in EPSILONS:
        assert furthest(lattice, law, remainder, epsilon) <= claimed(
            lattice, law, remainder, epsilon
        )


@pytest.mark.parametrize("lattice", list(LATTICES))
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_recursion_is_attained(lattice: str, epsilon: float) -> None:
    """Law: some table loses what is claimed, so that no smaller claim would be true."""
    record = LATTICES[lattice][1]
    p, q = (law_of(((record, n),), lattice, "three values", True) for n in (2, 3))
    found = worst_selection(p, q, RELEASE, math.exp(epsilon))
    assert found == pytest.approx(claimed(lattice, "three values", True, epsilon), rel=1e-6)


# -- weights (more of them, and shares: test_exact_cell_shares) ------------------------------------


@pytest.mark.parametrize("user", [False, True])
def test_a_row_or_user_of_any_weights_moves_the_cells_by_one_record_at_most(user: bool) -> None:
    """Law: for every secret seed the groups of records, which are all that the mechanism sees, move
    up by at most the units of one record together."""
    rows = [(f"u{i}", "ab"[i % 2], "xy"[i // 2 % 2], 1.5 * i) for i in range(9)]
    unit = PrivacyUnit(weight="w", max_weight=7.0, user="u" if user else None, measured=True)
    for new in ([("new", "a", "x", 99.0)], [("new", "b", "y", 2.3), ("new", "a", "y", 3.9)]):
        for seed in (1, 2, 3):
            before, after = (units(some, unit, seed) for some in (rows, rows + new[: 1 + user]))
            moved = {k: after.get(k, 0) - before.get(k, 0) for k in {*before, *after}}
            assert min(moved.values()) >= 0
            assert 0 < sum(moved.values()) <= unit.grid


def units(rows: list[tuple[Any, ...]], unit: PrivacyUnit, seed: int) -> dict[Any, int]:
    """Units of every finest cell, by the statement of every release with this seed."""
    frame, cells = pd.DataFrame(rows, columns=["u", "a", "b", "w"]), dp.product("a", "b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_trees, "random_seed", lambda: seed)
        counts = exact_trees.exact_counts(frame, cells, unit, 1)
    places = nodes(counts, cells)
    named = ((places[0][a], places[1][b]) for a, b in zip(*counts.places, strict=True))
    return dict(zip(named, counts.own_counts.tolist(), strict=True))


# -- planted bugs ----------------------------------------------------------------------------------


def rejected(run: Run, lattice: str = "2 x 2", law: str = "three values") -> bool:
    """Whether some neighbours are further apart than the recursion says, for another ``run``."""
    heights, record, _ = LATTICES[lattice]
    for table in tables(lattice):
        p, q = (
            every_selection(
                some,
                kinds=kinds_of(*heights),
                test=LAWS[law],
                threshold=THRESHOLD,
                remainder=True,
                run=run,
            )
            for some in (table, more(table, record))
        )
        found = worst_selection(p, q, RELEASE, math.exp(1.0))
        if found > claimed(lattice, law, True, 1.0):
            return True
    return False


def taken_twice(cells: CellCounts, *, kinds: tuple[Kind, ...], **noise: Any) -> NoisyNodes:
    """Bug: records stay where they were when a cell takes them, and others take them too."""
    found = [
        offline_hhh.run(cells, kinds=(kind,), **{**noise, "remainder": False}) for kind in kinds
    ]
    return joined(found, range(len(kinds)))


def coarse_before_fine(cells: CellCounts, *, kinds: tuple[Kind, ...], **noise: Any) -> NoisyNodes:
    """Bug: coarse cells are asked first, and finer ones report their records again."""
    found = [
        offline_hhh.run(cells, kinds=(kind,), **{**noise, "remainder": False})
        for kind in reversed(kinds)
    ]
    return joined(found, reversed(range(len(kinds))))


def joined(found: list[NoisyNodes], places: Any) -> NoisyNodes:
    levels = [np.full(len(n.level), len(found) - k) for n, k in zip(found, places, strict=True)]
    residual = np.concatenate([n.residual for n in found])
    return NoisyNodes(
        level=np.concatenate(levels),
        ancestor=np.full(len(residual), -1),
        residual=residual,
        count=residual,
        terms=np.ones(len(residual), dtype=np.int64),
        keys=tuple(
            pa.chunked_array([c for n in found for c in n.keys[i].chunks], pa.string())
            for i in range(len(found[0].keys))
        ),
    )


def below_the_band_dropped(cells: CellCounts, **rest: Any) -> NoisyNodes:
    """Bug: records in finest cells that cannot be selected are left out of the coarser ones."""
    kept = cells.own_counts > 2
    return offline_hhh.run(
        CellCounts(
            axes=cells.axes,
            places=tuple(place[kept] for place in cells.places),
            own_counts=cells.own_counts[kept],
        ),
        **rest,
    )


SURE = THRESHOLD - LAWS["three values"].highest
"""The least count that some noise lifts to the threshold."""


@some("True-2 x 2", "False-2 x 3", "True-2 x 2 x 2")
@pytest.mark.parametrize("lattice", list(LATTICES))
@pytest.mark.parametrize("tabled", [True, False])
def test_leaving_noise_out_where_none_selects_changes_no_probability(
    lattice: str, tabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: with the band every selection is as likely as without, however cells are counted."""
    if not tabled:
        monkeypatch.setattr(offline_hhh, "_dense", lambda *_: False)
    heights, _, _ = LATTICES[lattice]
    given: Any = {"test": LAWS["three values"], "threshold": THRESHOLD, "remainder": True}
    for table in tables(lattice):
        kinds = kinds_of(*heights)
        skipped = partial(offline_hhh.run, band=SURE)
        assert every_selection(table, kinds=kinds, run=skipped, **given) == every_selection(
            table, kinds=kinds, **given
        )


def too_eager(cells: CellCounts, **rest: Any) -> NoisyNodes:
    """Bug: no noise where only the largest selects, as if that were never drawn."""
    return offline_hhh.run(cells, band=SURE + 1, **rest)


@pytest.mark.parametrize(
    "bug", [too_eager, taken_twice, coarse_before_fine, below_the_band_dropped]
)
def test_a_run_with_a_bug_is_rejected(bug: Run) -> None:
    """Planted bugs, each of which loses more than is claimed: the same law as above fails."""
    assert rejected(bug)


def test_the_shipped_run_passes_the_check_that_rejects_them() -> None:
    assert not rejected(offline_hhh.run)


def test_a_height_that_counts_no_mixed_cells_is_rejected() -> None:
    """Planted bug: noise for the levels of both dimensions (2), not for all kinds of cells (3)."""
    height = 2
    claim = path_delta(
        LAWS["three values"],
        RELEASE,
        height=height,
        epsilon=1.0,
        remainder=True,
        threshold=THRESHOLD,
    )
    assert furthest("2 x 2", "three values", True, 1.0) > 1.2 * claim


def test_coarse_before_fine_is_no_heavy_hitters() -> None:
    """Planted bug: in the reversed order each record pays once, and what is reported is wrong: a
    coarse cell takes all, and no finer one is ever seen."""
    table = {("a", "x"): 9, ("a", "y"): 1, ("b", "x"): 1}
    right, wrong = (
        by_hand(table, order) for order in (kinds_of(1, 1), tuple(reversed(kinds_of(1, 1))))
    )
    shipped = offline_hhh.select(
        counts_of(table), kinds=kinds_of(1, 1), test=Silent(), threshold=4, remainder=True
    )
    assert shipped[2].tolist() == list(right.values()) == [9, 2]
    assert list(wrong.values()) != shipped[2].tolist()
    with pytest.raises(HierarchyError, match="finest first"):
        Cells(dp.product("a", "b").of, tuple(reversed(kinds_of(1, 1))))


def by_hand(table: Table, kinds: tuple[Kind, ...]) -> dict[Any, int]:
    records = Counter({tuple(tuple(part) for part in record): n for record, n in table.items()})
    return segments(kinds, records, lambda _, __, n: n >= 4)


@pytest.mark.parametrize("lattice", list(LATTICES))
def test_whole_counts_of_what_is_selected_move_once_a_kind(lattice: str) -> None:
    """Law: whatever was selected, one record moves at most one whole count of a kind, by 1: what
    ``level_laws`` composes for one more than kinds."""
    heights, record, _ = LATTICES[lattice]
    kinds = kinds_of(*heights)
    for table in tables(lattice)[:20]:
        cells, next_to = counts_of(more(table, record, 2)), counts_of(more(table, record, 3))
        everything = [
            offline_hhh.select(one, kinds=(kind,), test=Silent(), threshold=1, remainder=False)
            for one in (cells, next_to)
            for kind in kinds
        ]
        for place, kind in enumerate(kinds):
            fewer, also = everything[place], everything[place + len(kinds)]
            assert (fewer[1] == also[1]).all()
            here = [np.full(len(fewer[1]), place), fewer[1]]
            before, after = (
                offline_hhh.whole_counts(one, kinds, *here) for one in (cells, next_to)
            )
            assert sorted(set((after - before).tolist())) in ([0, 1], [1])
            assert (after - before).sum() == 1
            assert len(kind) == len(heights)
