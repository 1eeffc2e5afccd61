"""Users and weights as shares of cells, enumerated on lattices of two and three dimensions.

A user weighs ``GRID`` units, divided over their records; a row or user with a weight up to as many.
The tables of the shipped calibration run through the shipped ``run``; the exact divergence of
tables with and without one user or row is compared with what ``linear_delta`` claims for as many
nodes as there are kinds of cells. Units of weights are those of the shipped statement, for several
secret seeds.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pandas as pd
import pytest

from dpframe import budget
from dpframe.accounting.path_recursion import Laws, geometric_laws
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Cells, as_hierarchies
from dpframe.mechanisms import offline_hhh
from dpframe.sources import cell_leaves as measure_units
from dpframe.sources import exact_trees
from tests.members import few
from tests.rollups import nodes

from .cell_outputs import Record, Table, divided, every_selection, kinds_of, plus
from .enumerate_outputs import claimed, divergence
from .test_exact_cells import LATTICES, taken_twice

EPSILON, DELTA, GRID = 2.0, 1e-3, 2
MOST = 12.5
SHAPES = {
    "2 x 2": "code:a?lengths=1 * code:b?lengths=1",
    "2 x 3": "code:a?lengths=1 * code:b?lengths=1,2",
    "2 x 2 x 2": "code:a?lengths=1 * code:b?lengths=1 * code:c?lengths=1",
}
SEEDS = (1, 2, 3)

Rows = Sequence[tuple[Any, ...]]
"""User, a value a dimension, weight."""


@cache
def laws_of(height: int) -> Laws:
    """The shipped calibration for so many kinds."""
    return geometric_laws(
        height=height, epsilon=EPSILON, delta=DELTA, remainder=True, release_share=1 / 3, grid=GRID
    )


def sizes(lattice: str, laws: Laws) -> list[tuple[int, int]]:
    """Units at two places, near where each half of the noise decides, the fullest pair first."""
    threshold = laws.smallest_threshold(0.5) * GRID
    near = (threshold - 2, 0, threshold + GRID, threshold - laws.test.lowest // 2)
    return list(itertools.combinations_with_replacement(near, 2))


class Compared:
    """Exact laws on one lattice, each computed once."""

    def __init__(self, lattice: str, run: Callable[..., Any] | None = None) -> None:
        self.kinds = kinds_of(*LATTICES[lattice][0])
        self.places, self.laws = LATTICES[lattice][2], laws_of(len(self.kinds))
        self.more: dict[str, Any] = {} if run is None else {"run": run}
        self.known: dict[Any, Any] = {}

    def law(self, table: Table) -> Any:
        key = tuple(sorted((record, n) for record, n in table.items() if n))
        if key not in self.known:
            self.known[key] = every_selection(
                dict(key) or {self.places[0]: 0},
                kinds=self.kinds,
                test=self.laws.test,
                threshold=self.laws.smallest_threshold(0.5) * GRID,
                remainder=True,
                **self.more,
            )
        return self.known[key]

    def furthest(self, pairs: Iterator[tuple[Table, Table]]) -> tuple[float, float]:
        """The largest divergence of a table with and without somebody, either way."""
        fewer = more = 0.0
        for before, after in pairs:
            p, q = self.law(before), self.law(after)
            fewer = max(fewer, divergence(p, q, self.laws.release, math.exp(EPSILON)))
            more = max(more, divergence(q, p, self.laws.release, math.exp(EPSILON)))
        return fewer, more

    @property
    def claim(self) -> tuple[float, float]:
        return claimed(self.laws, height=len(self.kinds), grid=GRID)


def with_shares(of: Compared, number: int, lattice: str) -> Iterator[tuple[Table, Table]]:
    """A table, and each way to divide a user's units over the places."""
    first, second = sizes(lattice, of.laws)[number]
    base = {of.places[0]: first, of.places[-1]: second}
    yield from ((base, plus(base, user)) for user in divided(GRID, of.places))


@few(10, ("lattice", "number"), [(name, n) for n in range(10) for name in LATTICES])
def test_no_division_of_a_users_units_costs_more_than_claimed(lattice: str, number: int) -> None:
    """Law: delta of a user's shares <= linear_delta for as many nodes as kinds, whatever cells the
    units lie in."""
    of = Compared(lattice)
    exact = of.furthest(with_shares(of, number, lattice))
    assert max(of.claim) <= DELTA
    assert exact[0] <= of.claim[0]
    assert exact[1] <= of.claim[1]
    assert max(exact) > 0


@pytest.mark.parametrize(
    "lattice", ["2 x 3", pytest.param("2 x 2 x 2", marks=pytest.mark.evidence)]
)
def test_records_that_others_take_too_are_rejected(lattice: str) -> None:
    """Planted bug: on larger lattices too what is selected, whose counts nobody sees, tells more
    than is claimed of everything, if records stay where a cell took them."""
    for run, bad in ((taken_twice, True), (offline_hhh.run, False)):
        of = Compared(lattice, run)
        found = 0.0
        for n in near_the_tests(of.laws):
            p, q = (selected(of.law({of.places[0]: m})) for m in (n, n + GRID))
            found = max(found, hockey(p, q), hockey(q, p))
        assert (found > max(of.claim)) == bad


def selected(law: Any) -> dict[Any, float]:
    """Which cells are selected, without the rest, whose count tells nothing of it."""
    found: dict[Any, float] = {}
    for out, mass in law.items():
        key = frozenset(cell for cell, _ in out)
        found[key] = found.get(key, 0.0) + float(mass)
    return found


def hockey(p: dict[Any, float], q: dict[Any, float]) -> float:
    return sum(max(0.0, mass - math.exp(EPSILON) * q.get(key, 0.0)) for key, mass in p.items())


def near_the_tests(laws: Laws) -> range:
    threshold = laws.smallest_threshold(0.5) * GRID
    return range(threshold - 2, threshold - laws.test.lowest // 2, 2)


# -- weights ---------------------------------------------------------------------------------------


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of half a bound, so that all outputs can be enumerated."""
    monkeypatch.setattr(budget, "SHARE_GRID", GRID)
    monkeypatch.setattr(measure_units, "PART", measure_units.WHOLE // GRID)


def units(
    rows: Rows, lattice: str, by_user: bool, seed: int, most: float = MOST
) -> dict[Record, int]:
    """Units of every finest cell, by the statement of every release with this seed."""
    cells = as_hierarchies(SHAPES[lattice])
    assert isinstance(cells, Cells)
    frame = pd.DataFrame(list(rows), columns=["u", *cells.source_columns, "w"])
    unit = PrivacyUnit(weight="w", max_weight=most, user="u" if by_user else None, measured=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_trees, "random_seed", lambda: seed)
        counts = exact_trees.exact_counts(frame, cells, unit, 1)
    paths = nodes(counts, cells)
    found: dict[Record, int] = {}
    for *places, n in zip(*counts.places, counts.own_counts, strict=True):
        record = tuple(
            str(own[place][-1]) if own[place] else ""
            for own, place in zip(paths, places, strict=True)
        )
        found[record] = found.get(record, 0) + int(n)
    return found


@pytest.mark.parametrize("user", [False, True])
def test_a_row_or_user_of_any_weights_moves_the_cells_by_one_record_at_most(user: bool) -> None:
    """Law: for every secret seed the groups of records, which are all that the mechanism sees, move
    up by at most the units of one record together."""
    rows = [(f"u{i}", "ab"[i % 2], "xy"[i // 2 % 2], 1.5 * i) for i in range(9)]
    for new in ([("new", "a", "x", 99.0)], [("new", "b", "y", 2.3), ("new", "a", "y", 3.9)]):
        for seed in SEEDS:
            pair = (rows, rows + new[: 1 + user])
            before, after = (Counter(units(some, "2 x 2", user, seed, most=7.0)) for some in pair)
            after.subtract(before)
            assert min(after.values()) >= 0
            assert 0 < sum(after.values()) <= budget.SHARE_GRID


def weighted(of: Compared, number: int, lattice: str) -> list[tuple[Any, ...]]:
    """Rows of which two places have about so many units, one of them between two."""
    pairs = zip((of.places[0], of.places[-1]), sizes(lattice, of.laws)[number], strict=True)
    return [
        (f"{record}{i}", *record, min(1.0, n + 0.3 - i) * MOST / GRID)
        for record, n in pairs
        if n
        for i in range(n + 1)
    ]


def new(of: Compared, by_user: bool) -> list[Rows]:
    """One more row, or user: at the bound, above it, and between units; in one cell or several."""
    first, *others = of.places
    if not by_user:
        weights = (MOST, math.inf, 0.7 * MOST)
        return [[("new", *place, w)] for place in (first, others[-1]) for w in weights]
    return [
        [("new", *first, 3 * MOST)],
        [("new", *place, 0.5 * MOST) for place in (first, others[-1])],
        [("new", *place, 0.9 * MOST) for place in of.places],
        [("new", *place, 0.3 * MOST) for place in of.places],
        [("new", *first, 0.1 * MOST)] * 30,
    ]


def with_weights(
    of: Compared, number: int, lattice: str, by_user: bool
) -> Iterator[tuple[Table, Table]]:
    base = weighted(of, number, lattice)
    for seed in SEEDS:
        before = units(base, lattice, by_user, seed)
        for rows in new(of, by_user):
            yield before, units([*base, *rows], lattice, by_user, seed)


@pytest.mark.usefixtures("coarse")
@few(
    3,
    ("lattice", "number", "by_user"),
    [(name, n, by_user) for n in (0, 2, 3, 7) for name in LATTICES for by_user in (False, True)],
)
def test_no_row_or_user_of_any_weights_costs_more_than_one_record(
    lattice: str, number: int, by_user: bool
) -> None:
    """Law: for every seed, whatever the weights and wherever they lie."""
    of = Compared(lattice)
    exact = of.furthest(with_weights(of, number, lattice, by_user))
    assert exact[0] <= of.claim[0]
    assert exact[1] <= of.claim[1]
    assert max(exact) > 0


@pytest.mark.usefixtures("coarse")
def test_weights_that_are_not_cut_are_rejected() -> None:
    """Planted bug: a row of twice the bound counts twice."""
    of = Compared("2 x 3")

    def pairs() -> Iterator[tuple[Table, Table]]:
        for n in near_the_tests(of.laws):
            rows = [("w", *of.places[0], MOST / GRID)] * n
            twice = [*rows, *[("new", *of.places[0], MOST)] * 2]
            yield units(rows, "2 x 3", False, 1), units(twice, "2 x 3", False, 1)

    exact = of.furthest(pairs())
    assert exact[0] > of.claim[0] or exact[1] > of.claim[1]
