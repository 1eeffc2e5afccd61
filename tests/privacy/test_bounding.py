"""One unit of privacy moves the tree by at most what the plan charges for, exactly.

The real source runs with and without one user, with the same secret seed and no band, so that
every count is seen. The stronger law is additivity: a user's part of the tree depends on that
user and the seed only, so that adding a user adds exactly the tree of this user alone.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dpframe as dp
from dpframe.budget import SHARE_GRID, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.exact_trees import exact_counts
from dpframe.testing import seeded_noise
from tests.members import few, tries

LEVEL = 1e-6
SHARE = PrivacyUnit(user="u")
HIERARCHIES = [dp.columns("a", "b"), dp.path("p", depth=3), dp.path("p", depth=3, invalid="drop")]
Node = tuple[object, ...]
Row = tuple[str | None, str, str, str | None]


def records(m: int) -> PrivacyUnit:
    return PrivacyUnit(user="u", contribution="records", max_contributions=m)


def counted(
    rows: list[Row] | pd.DataFrame, hierarchy: Hierarchy, unit: PrivacyUnit, seed: int = 5
) -> Counter[Node]:
    """Every node and its true count in units, as the source delivers it without a band."""
    frame = rows if isinstance(rows, pd.DataFrame) else frame_of(rows)
    with seeded_noise(seed):
        tree = exact_counts(frame, hierarchy, unit, 1)
    texts = zip(*(column.to_pylist() for column in tree.keys), strict=True)
    nodes = [(level, *text) for level, text in zip(tree.level.tolist(), texts, strict=True)]
    assert len(set(nodes)) == len(nodes)
    return Counter({n: c for n, c in zip(nodes, tree.count.tolist(), strict=True) if c})


def frame_of(rows: list[Row]) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return pd.DataFrame(
        {name: pd.Series(list(c), dtype="str") for name, c in zip("uabp", columns, strict=True)}
    )


def a_level(tree: Counter[Node]) -> Counter[int]:
    """Units on each level."""
    total: Counter[int] = Counter()
    for node, units in tree.items():
        total[int(str(node[0]))] += units
    return total


values = st.sampled_from(["x", "y", "z"])
paths = st.sampled_from(["x", "x/y", "x/y/z", "y", "y//z", "x/y/z/q", "", None])
others = st.lists(
    st.tuples(st.sampled_from(["eve", "bob", "joe", None]), values, values, paths), max_size=25
)
one_user = st.lists(st.tuples(st.just("ann"), values, values, paths), min_size=1, max_size=25)


@pytest.mark.parametrize("kind", ["share", "records", "record"])
@few(2, "hierarchy", HIERARCHIES, ids=lambda h: h.spec)
@tries(8, 100, deadline=None)
@given(rest=others, mine=one_user, m=st.integers(1, 6), times=st.integers(1, 40))
def test_a_unit_adds_exactly_its_own_tree_and_moves_nobody_else(
    hierarchy: Hierarchy, kind: str, rest: list[Row], mine: list[Row], m: int, times: int
) -> None:
    """Law: tree(D + user) - tree(D) == tree(user). On every level a user has at most 256 units in
    shares, of which 256 at the root, or at most m records; a record without a user is in one node.
    """
    rows, unit, most = {
        "share": (mine * times, SHARE, SHARE_GRID),
        "records": (mine, records(m), m),
        "record": (mine[:1], PrivacyUnit(), 1),
    }[kind]
    alone = counted(rows, hierarchy, unit)
    assert counted(rest + rows, hierarchy, unit) == counted(rest, hierarchy, unit) + alone
    kept = len(rows) if hierarchy.on_invalid == "count" else sum(bool(row[3]) for row in rows)
    whole = SHARE_GRID * (kept > 0) if kind == "share" else min(most, kept)
    units = a_level(alone)
    assert units[0] == whole
    assert all(0 < total <= most for total in units.values())
    if hierarchy.kind == "columns":
        assert set(units.values()) == {whole}


def test_the_bound_can_fail() -> None:
    """Negative control: counting records of a user without bounding them breaks the law."""
    mine: list[Row] = [("ann", "x", "y", None)] * 5
    assert a_level(counted(mine, HIERARCHIES[0], PrivacyUnit()))[0] == 5
    assert a_level(counted(mine, HIERARCHIES[0], records(3)))[0] == 3


@pytest.mark.parametrize("unit", [SHARE, records(2)], ids=["share", "records"])
def test_null_ids_are_one_user(unit: PrivacyUnit) -> None:
    """Law: all rows without an id weigh together what one user weighs."""
    rows: list[Row] = [(None, a, b, None) for a in "xyz" for b in "xyz"]
    units = a_level(counted(rows, HIERARCHIES[0], unit))
    assert units[0] == (SHARE_GRID if unit is SHARE else 2)


@pytest.mark.parametrize("unit", [SHARE, records(2)], ids=["share", "records"])
def test_a_tree_depends_on_the_rows_and_not_on_their_order(unit: PrivacyUnit) -> None:
    """Law: the same seed and the same rows in another order give the same tree."""
    generator = np.random.default_rng(1)
    values = {"u": ["ann", "bob", "eve"], "a": list("xyz"), "b": list("xyz")}
    frame = pd.DataFrame({name: generator.choice(of, 300) for name, of in values.items()})
    shuffled = frame.sample(frac=1, random_state=2, ignore_index=True)
    assert counted(frame, HIERARCHIES[0], unit) == counted(shuffled, HIERARCHIES[0], unit)


@pytest.mark.parametrize("unit", [SHARE, records(1)], ids=["share", "records"])
def test_the_seed_is_secret_and_decides_the_sample(unit: PrivacyUnit) -> None:
    """Law: what is kept of a user changes from release to release."""
    rows: list[Row] = [(f"user {i}", a, "x", None) for i in range(50) for a in "xyz"]
    trees = [counted(rows, HIERARCHIES[0], unit, seed) for seed in range(3)]
    assert trees[0] != trees[1] != trees[2]


# -- which of a user's rows are kept -----------------------------------------------------------

USERS = 3_000


def kept_pairs(m: int) -> Counter[tuple[str, ...]]:
    """Which rows of 4 different ones were kept, over many users: each user has a node."""
    rows: list[Row] = [(f"user {i}", f"user {i}", b, None) for i in range(USERS) for b in "wxyz"]
    tree = counted(rows, HIERARCHIES[0], records(m))
    kept: dict[object, list[str]] = {}
    for level, who, what in (node for node in tree if node[0] == 2):
        assert tree[level, who, what] == 1
        kept.setdefault(who, []).append(str(what))
    return Counter(tuple(sorted(rows)) for rows in kept.values())


def uniform(counts: list[int]) -> bool:
    return float(stats.chisquare(counts).pvalue) > LEVEL


def test_the_sample_of_a_user_is_uniform_over_all_subsets() -> None:
    """Law: every pair of a user's 4 rows is kept equally often (chi-square, level 1e-6).

    Negative control: a sample that always keeps the first row is rejected.
    """
    pairs = kept_pairs(2)
    assert sum(pairs.values()) == USERS
    assert uniform([pairs[pair] for pair in combinations("wxyz", 2)])
    assert not uniform([USERS // 3 if "w" in pair else 0 for pair in combinations("wxyz", 2)])


def test_rows_are_sampled_not_values() -> None:
    """Law: a value that a user has in 3 of 4 rows is kept by 3/4 of such users.

    Negative control: a sample of distinct values would keep it for half of them.
    """
    rows: list[Row] = [(f"user {i}", a, "x", None) for i in range(USERS) for a in "xxxy"]
    kept = counted(rows, HIERARCHIES[0], records(1))[1, "x", None]
    assert stats.binomtest(kept, USERS, 3 / 4).pvalue > LEVEL
    assert stats.binomtest(USERS // 2, USERS, 3 / 4).pvalue < LEVEL


def test_shares_are_rounded_without_bias() -> None:
    """Law: a third of 256 units is 85 or 86, on average 85 1/3, over users.

    Negative control: rounding down always (an offset of 0) is rejected.
    """
    rows: list[Row] = [(f"user {i}", a, "x", None) for i in range(USERS) for a in "xyz"]
    tree = counted(rows, HIERARCHIES[0], SHARE)

    def p_value(units: int) -> float:
        return float(stats.binomtest(units - 85 * USERS, USERS, 1 / 3).pvalue)

    for a in "xyz":
        assert p_value(tree[1, a, None]) > LEVEL
    assert p_value(85 * USERS) < LEVEL


def test_a_user_with_more_rows_than_units_still_weighs_one() -> None:
    """Law: 512 different rows share 256 units, each row having 0 or 1 of them, half of them 1."""
    frame = pd.DataFrame({"u": "ann", "a": [f"{i:03}" for i in range(512)], "b": "x"})
    tree = counted(frame, HIERARCHIES[0], SHARE)
    units = [tree[1, a, None] for a in frame["a"]]
    assert sum(units) == SHARE_GRID
    assert set(units) <= {0, 1}
