"""Offline hierarchical heavy hitters with bounded integer noise.

Source: Biswas, Cormode, Kanza, Srivastava and Zhou, "Differentially Private Hierarchical Heavy
Hitters" (2024), Algorithm 1, made sound. Neighbours: one record, or the shares of one user.
A record moves the residual of every node on its path by at most 1, until the first selected
node on that path takes the record out.

Deviations from the printed algorithm, each needed or better:

* no shared gamma (lines 2 and 10): it does not protect a path (docs/soundness.md); the test
  noise of each node carries the whole cost, its left half scaled for all h levels;
* bounded integer noise instead of a tail bound (lines 1, 9 and 12), so that coverage is
  certain and nodes below ``threshold - bound`` need not be looked at;
* with ``remainder`` the residual of the root is released too, always and untested.
"""

from __future__ import annotations

import numpy as np

from dpframe.accounting.compose import Profile
from dpframe.accounting.geometric import LONGEST_TABLE
from dpframe.accounting.linear_slips import linear_delta, linear_parts
from dpframe.accounting.part_curves import pure_profile
from dpframe.accounting.path_laws import Laws
from dpframe.accounting.path_recursion import path_delta
from dpframe.noise import NoiseTable
from dpframe.tree import CountTree, NoisyNodes, nearest_chosen


def cost(laws: Laws, *, height: int, epsilon: float, remainder: bool) -> float:
    """Return an upper bound on delta of one release at ``epsilon``, from the tables drawn from."""
    if has_profile(laws):
        return path_delta(
            laws.test, laws.release, height=height, epsilon=epsilon, remainder=remainder
        )
    return max(
        linear_delta(
            laws.test,
            laws.release,
            right=laws.right,
            left=laws.left,
            release_scale=laws.release_scale,
            height=height,
            grid=laws.grid,
        )
    )


def has_profile(laws: Laws) -> bool:
    """Whether ``cost`` is computed at its ``epsilon``. If not, it is the same bound for every
    ``epsilon``, and holds for the epsilon that the laws were made for."""
    return laws.grid == 1 and len(laws.test.weights) <= LONGEST_TABLE


def selection_profiles(laws: Laws, *, height: int) -> tuple[Profile, Profile]:
    """Return the profile of the tests and the profile of the released numbers.

    Each profile holds also if questions depend on all earlier answers. Both are upper bounds for
    laws for which ``has_profile`` is False, too.
    """
    tests, releases = linear_parts(
        laws.test,
        laws.release,
        right=laws.right,
        left=laws.left,
        release_scale=laws.release_scale,
        height=height,
        grid=laws.grid,
    )
    return pure_profile(*tests), pure_profile(*releases)


def run(
    tree: CountTree, *, test: NoiseTable, release: NoiseTable, threshold: int, remainder: bool
) -> NoisyNodes:
    """Select and release, bottom up; all quantities in units of the grid."""
    selected, residual = select_nodes(tree, test=test, threshold=threshold, remainder=remainder)
    return sum_released_residuals(tree, selected, residual + release.draw(len(residual)))  # line 12


def select_nodes(
    tree: CountTree, *, test: NoiseTable, threshold: int, remainder: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return which nodes are selected, and their true residuals, which are private."""
    selected = np.zeros(len(tree.level), dtype=bool)
    covered = np.zeros(len(tree.level), dtype=np.int64)  # records under selected descendants
    for level in range(int(tree.level.max(initial=0)), 0, -1):  # line 4
        here = tree.at_level(level)  # line 5
        residual = tree.count[here] - covered[here]
        top = (residual > 0) & (residual + test.draw(len(here)) >= threshold)  # lines 7 to 10
        selected[here] = top  # line 11
        np.add.at(covered, tree.parent[here], np.where(top, tree.count[here], covered[here]))
    selected[0] = remainder
    return selected, (tree.count - covered)[selected]


def sum_released_residuals(
    tree: CountTree, selected: np.ndarray, residual: np.ndarray
) -> NoisyNodes:
    """Add up the released residuals at or below each selected node, its unconditional count.

    This is post-processing.
    """
    ancestor = nearest_chosen(tree, selected)
    count, terms = residual.copy(), np.ones(len(residual), dtype=np.int64)
    level = tree.level[selected]
    for depth in range(int(level.max(initial=0)), 0, -1):
        here = np.flatnonzero((level == depth) & (ancestor >= 0))
        np.add.at(count, ancestor[here], count[here])
        np.add.at(terms, ancestor[here], terms[here])
    return NoisyNodes(
        level=level,
        ancestor=ancestor,
        residual=residual,
        count=count,
        terms=terms,
        keys=tuple(column.take(np.flatnonzero(selected)) for column in tree.keys),
    )
