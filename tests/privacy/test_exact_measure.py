"""Measures as partial shares, enumerated: a row or user of any weights costs one record at most.

The statement that is shipped makes units of rows of a table and of its neighbour, for several
secret seeds; the shipped ``run``, with the tables of the shipped calibration, gives the exact
distribution of what is released of both. For every seed, and for their mixture, which is what
somebody sees who does not know it, the divergence is compared with what ``linear_delta`` claims.
Units are halves or thirds of the bound here: the grid is a constant of the statement alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from zlib import crc32

import pandas as pd
import pytest

from dpframe import budget
from dpframe.accounting.path_recursion import Laws
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import as_hierarchy
from dpframe.sources import cell_leaves as measure_units
from tests.members import some
from tests.naive import parts
from tests.rollups import exact_counts

from .enumerate_outputs import Distribution, Table, claimed, divergence, every_selection
from .test_exact_shares import DELTA, EPSILON, HEIGHT, laws_of

GRID = 2
MOST = 12.5
TREE = as_hierarchy("code:x?lengths=1,2")
Rows = Sequence[tuple[str, str, float]]
"""User, finest key, weight."""

SEEDS = (1, 2, 3)
FEWER, MORE = 0, 1


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of half a bound, so that all outputs can be enumerated."""
    monkeypatch.setattr(budget, "SHARE_GRID", GRID)
    monkeypatch.setattr(measure_units, "PART", measure_units.WHOLE // GRID)


Rounding = Callable[[Rows, bool, int], dict[str, int]]


def shipped(rows: Rows, by_user: bool, seed: int) -> dict[str, int]:
    """Units of the finest keys, by the statement of every release, which runs once for the same."""
    return _shipped(tuple(rows), by_user, seed)


@cache
def _shipped(rows: tuple[tuple[str, str, float], ...], by_user: bool, seed: int) -> dict[str, int]:
    frame = pd.DataFrame(list(rows), columns=["u", "x", "w"])
    unit = PrivacyUnit(weight="w", max_weight=MOST, user="u" if by_user else None, measured=True)
    found = exact_counts(frame, TREE, unit, seed)
    return {str(path[-1]): units for path, units in found.items() if len(path) == 2}


def bases(laws: Laws, threshold: int) -> Iterator[list[tuple[str, str, float]]]:
    """Rows of whose keys the units are near where each half of the test noise decides, and some of
    them between two units."""
    near = (threshold - 2, threshold + laws.grid, threshold - laws.test.lowest // 2)
    sizes = ((0, 0, 0), (0, near[0], 4), (near[0], near[0], 0), (near[1], near[2], 4))
    for first, second, beside in sizes:
        table = {"aa": first + 0.3, "ab": beside, "ba": second, "bb": beside + 0.6}
        yield [
            (f"{key}{i}", key, min(1.0, units - i) * MOST / GRID)
            for key, units in table.items()
            for i in range(math.ceil(units))
        ]


ROWS: list[list[tuple[str, str, float]]] = [
    [("new", key, weight)]
    for key in ("aa", "ba")
    for weight in (MOST, 7 * MOST, 0.7 * MOST, math.inf)
]
"""One more row: at the bound, above it, and between units."""

USERS: list[list[tuple[str, str, float]]] = [
    [("new", "aa", MOST)],
    [("new", "aa", 3 * MOST), ("new", "ba", 3 * MOST)],
    [("new", "aa", 0.5 * MOST), ("new", "ba", 0.5 * MOST)],
    [("new", "aa", 0.3 * MOST), ("new", "ab", 0.1 * MOST), ("new", "ba", 0.35 * MOST)],
    [("new", key, 0.9 * MOST) for key in ("aa", "ab", "ba", "bb")],
    [("new", key, MOST / 3) for key in ("aa", "ab", "ba")],
    [("new", "aa", 0.1 * MOST)] * 30,
]
"""One more user: in one node or several, below the bound and above it, in many rows."""


@cache
def selection(
    table: tuple[tuple[str, int], ...], remainder: bool
) -> tuple[Distribution, Laws, float]:
    laws = laws_of(GRID, remainder)
    threshold = laws.smallest_threshold(0.5) * GRID
    found = every_selection(dict(table), test=laws.test, threshold=threshold, remainder=remainder)
    return found, laws, threshold


def law_of(table: Table, remainder: bool) -> Distribution:
    return selection(tuple(sorted(table.items())), remainder)[0]


def furthest(
    rounding: Rounding,
    more: Sequence[Rows],
    *,
    by_user: bool,
    remainder: bool,
    seeds: Sequence[int] = SEEDS,
) -> tuple[float, float]:
    """The largest divergence of any base with and without more rows, for any seed."""
    laws = laws_of(GRID, remainder)
    t, out = math.exp(EPSILON), [0.0, 0.0]
    seen = set()
    for base in bases(laws, laws.smallest_threshold(0.5) * GRID):
        for seed in seeds:
            before = rounding(base, by_user, seed)
            for rows in more:
                after = rounding([*base, *rows], by_user, seed)
                pair = (tuple(sorted(before.items())), tuple(sorted(after.items())))
                if pair in seen:
                    continue
                seen.add(pair)
                p, q = law_of(before, remainder), law_of(after, remainder)
                out[FEWER] = max(out[FEWER], divergence(p, q, laws.release, t))
                out[MORE] = max(out[MORE], divergence(q, p, laws.release, t))
    return out[FEWER], out[MORE]


def claim_of(remainder: bool) -> tuple[float, float]:
    return claimed(laws_of(GRID, remainder), height=HEIGHT, grid=GRID)


@some("row-True", "user-True")
@pytest.mark.parametrize("remainder", [True, False])
@pytest.mark.parametrize(("more", "by_user"), [(ROWS, False), (USERS, True)], ids=["row", "user"])
def test_no_row_or_user_costs_more_than_one_record(
    more: list[Rows], by_user: bool, remainder: bool
) -> None:
    """Law: for every seed, whatever the weights."""
    exact, claim = (
        furthest(shipped, more, by_user=by_user, remainder=remainder),
        claim_of(remainder),
    )
    assert max(claim) <= DELTA
    assert exact[FEWER] <= claim[FEWER]
    assert exact[MORE] <= claim[MORE]
    assert max(exact) > 0  # the cut ends are seen: the comparison is not vacuous


@pytest.mark.parametrize(("more", "by_user"), [(ROWS, False), (USERS, True)], ids=["row", "user"])
def test_the_mixture_over_seeds_costs_no_more(more: list[Rows], by_user: bool) -> None:
    """Law: nor does what is seen without the seed."""
    laws, t = laws_of(GRID, True), math.exp(EPSILON)
    base = next(iter(bases(laws, laws.smallest_threshold(0.5) * GRID)))
    fewer, more_than = claim_of(True)
    assert len({tuple(shipped(base, by_user, seed).items()) for seed in SEEDS}) > 1
    for rows in more:
        p = [law_of(shipped(base, by_user, seed), True) for seed in SEEDS]
        q = [law_of(shipped([*base, *rows], by_user, seed), True) for seed in SEEDS]
        assert mixed(p, q, laws, t) <= fewer
        assert mixed(q, p, laws, t) <= more_than


def mixed(p: list[Distribution], q: list[Distribution], laws: Laws, t: float) -> float:
    """D of the mixtures, of which each seed has the same part, with the release noise put back on
    every residual."""
    noise = dict(enumerate(laws.release.pmf.tolist(), laws.release.lowest))

    def seen(many: list[Distribution]) -> dict[tuple[tuple[str, int], ...], float]:
        out: dict[tuple[tuple[str, int], ...], float] = {}
        for law in many:
            for released, mass in law.items():
                partly: dict[tuple[tuple[str, int], ...], float] = {(): float(mass) / len(many)}
                for path, residual in released:
                    partly = {
                        (*before, (path, residual + v)): m * chance
                        for before, m in partly.items()
                        for v, chance in noise.items()
                    }
                for outcome, m in partly.items():
                    out[outcome] = out.get(outcome, 0.0) + m
        return out

    ours, theirs = seen(p), seen(q)
    return sum(max(mass - t * theirs.get(outcome, 0.0), 0.0) for outcome, mass in ours.items())


# -- planted bugs ----------------------------------------------------------------------------------


def rounded(
    rows: Rows,
    by_user: bool,
    seed: int,
    *,
    clipped: bool = True,
    by_node: bool = False,
    up: bool = False,
    of_others: bool = False,
) -> dict[str, int]:
    """The rounding by hand, of users with their offset and of keys with theirs, and its bugs."""
    whole = 2**40
    own: dict[tuple[str, str], dict[str, int]] = {}
    for user, key, weight in rows:
        who = (user if by_user else "", "" if by_user and not by_node else key)
        part = parts(weight, MOST) if clipped else round(min(weight, 100 * MOST) / MOST * whole)
        sums = own.setdefault(who, {})
        sums[key] = sums.get(key, 0) + part
    out: dict[str, int] = {}
    for who, sums in own.items():
        most = max(whole, sum(sums.values())) if by_user and clipped else whole
        number = len(rows) if of_others else 0
        chance = Fraction(crc32(repr((who, seed, number)).encode()), 2**32)
        offset = chance * (most if by_user else whole)
        done = Fraction(0)
        for key in sorted(sums):
            if up:
                units = -(-GRID * sums[key] // most)
            else:
                before = (done + offset) // most
                done += GRID * sums[key]
                units = int((done + offset) // most - before)
            out[key] = out.get(key, 0) + units
    return out


def planted(**bug: bool) -> Rounding:
    return lambda rows, by_user, seed: rounded(rows, by_user, seed, **bug)


def rejected(rounding: Rounding, more: Sequence[Rows], by_user: bool) -> bool:
    exact, claim = furthest(rounding, more, by_user=by_user, remainder=True), claim_of(True)
    return exact[FEWER] > claim[FEWER] or exact[MORE] > claim[MORE]


@pytest.mark.parametrize(("more", "by_user"), [(ROWS, False), (USERS, True)], ids=["row", "user"])
def test_the_rounding_by_hand_is_accepted(more: list[Rows], by_user: bool) -> None:
    """So that what is rejected below is the bug."""
    assert not rejected(planted(), more, by_user)


BUGS = {
    "clipped by node instead of by user": ({"by_node": True}, USERS, True),
    "rows not clipped": ({"clipped": False}, [r for r in ROWS if r[0][2] == 7 * MOST], False),
    "users not clipped": ({"clipped": False}, USERS[:3], True),
    "rounded up at every node": ({"up": True}, [USERS[4], USERS[5]], True),
    "offsets that know how many rows there are": ({"of_others": True}, ROWS, False),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_rejected(bug: str) -> None:
    """Law: the same comparison finds each of them."""
    kind, more, by_user = BUGS[bug]
    assert rejected(planted(**kind), more, by_user)
