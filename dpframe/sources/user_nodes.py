"""Read pairs of a user and a node from any source with one statement.

The statement reads the view ``dpframe_source`` once. Its CTEs, in order:

source      the columns that matter, renamed
keyed       the key of every row, k1, k2, ...
pairs       users and their different finest keys
leaves      every finest key, its number v, its hash h, and n, how many users have it
level_l     the nodes of level l, with sums of v
candidates  all nodes with their texts

It returns three kinds of rows: users with their hash and the numbers ``held`` of their keys; keys
with their number and hash; and nodes in preorder.

The hash of a user is the hash of the id. Equal ids can have different hashes, such as numbers in a
VARIANT; the user then has the smallest of these hashes. Keys are hashed by their texts, which are
equal where keys are: no user changes the hash of another user's key.

If a user has more than ``most`` nodes, a sample takes part when nodes are searched. Keys are taken
in the order of a hash of user, key and a secret seed, each with its nodes, as long as there is room
for them. So these nodes depend only on this user and the seed: numbers of users and keys, which
also depend on other users, are not hashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import ascending_order
from dpframe.counts import CountTree
from dpframe.hierarchy import Hierarchy
from dpframe.noise import random_seed
from dpframe.sketches.user_nodes import UserNodes
from dpframe.sources.cell_leaves import finest_columns, keyed_sql
from dpframe.sources.count_rows import tree_of
from dpframe.sources.exact_trees import check_spark
from dpframe.sources.rollup_statement import candidates_sql, level_ctes, result_columns, source_sql
from dpframe.sources.source_relations import level_and_user_types, open_source
from dpframe.sources.spark import fetch_table, is_spark

Ints = NDArray[np.int64]


def user_nodes(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    most: int,
    shares: tuple[int, ...],
    *,
    progress: bool = False,
) -> UserNodes:
    """The different nodes of every user, of which at most ``most`` take part. Private.

    ``shares`` are as in :class:`UserNodes`: of the finest nodes of a user, and of each band of
    levels above them.

    Raises ColumnError where a column cannot be read.
    """
    user = str(unit.user)
    if is_spark(source):
        source = _pairs_of_spark(source, hierarchy, unit)
    with open_source(source, list(dict.fromkeys([*hierarchy.source_columns, user]))) as relation:
        types, kind = level_and_user_types(relation, hierarchy, user)
        statement = user_nodes_sql(hierarchy, unit, types=types, user_type=kind, seed=random_seed())
        table = relation.query(statement, progress)
    return _nodes_of_rows(table, types, most, shares)


def _pairs_of_spark(frame: Any, hierarchy: Hierarchy, unit: PrivacyUnit) -> pa.Table:
    """A table of users and their different values, which the Spark cluster finds."""
    columns, user = hierarchy.source_columns, str(unit.user)
    found = check_spark(frame, hierarchy, unit)
    table = fetch_table(lambda: found.records(columns, user).distinct())
    return pa.table({user: table["u"], **{c: table[found.names[c]] for c in columns}})


def user_nodes_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    seed: int,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``."""
    source, types = source_sql(hierarchy, unit, types=types, user_type=user_type, view=VIEW)
    names = finest_columns(hierarchy)
    keys = ", ".join(names)
    texts = hierarchy.texts(hierarchy.height, names, types)
    hashed = ", ".join([*(f"CAST({text} AS VARCHAR)" for text in texts), f"{seed}::UBIGINT"])
    parts = [
        source,
        f"keyed AS NOT MATERIALIZED ({keyed_sql(hierarchy, types, 'source', 'u')})",
        f"pairs AS MATERIALIZED (SELECT DISTINCT u, {keys} FROM keyed)",
        f"leaves AS MATERIALIZED (SELECT {keys}, count(*)::BIGINT AS n, row_number() OVER "
        f"(ORDER BY {ascending_order(*names)}) AS v, hash({hashed}) AS h FROM pairs "
        f"GROUP BY {keys})",
        *level_ctes(hierarchy, ("v",)),
        f"candidates AS ({candidates_sql(hierarchy, types, 1, ('v',))})",
    ]
    same = " AND ".join(f"pairs.{k} IS NOT DISTINCT FROM leaves.{k}" for k in names)
    columns = [*result_columns(hierarchy)]
    no_keys = "".join(f", NULL AS {name}" for name in columns)
    return (
        f"WITH {', '.join(parts)} "
        f'SELECT min(hash(u, {seed}::UBIGINT)) AS "hash", list(v) AS "held", '
        f'NULL::BIGINT AS "place", NULL::BIGINT AS "level", NULL::BIGINT AS "n", NULL::BIGINT AS "v"{no_keys} '
        f"FROM pairs JOIN leaves ON {same} GROUP BY u "
        f"UNION ALL SELECT h, NULL, NULL, NULL, NULL, v{no_keys} FROM leaves "
        f"UNION ALL SELECT NULL, NULL, row_number() OVER (ORDER BY {hierarchy.order_by()}), "
        f"level, n, v::BIGINT, {', '.join(columns)} FROM candidates"
    )


def _nodes_of_rows(
    table: pa.Table, types: tuple[str, ...], most: int, shares: tuple[int, ...]
) -> UserNodes:
    """The nodes of users, from the rows of the statement."""
    is_user = pc.is_valid(table["held"]).to_numpy()
    is_node = pc.is_valid(table["place"]).to_numpy()
    users, leaves = np.flatnonzero(is_user), np.flatnonzero(~is_user & ~is_node)
    nodes = np.flatnonzero(is_node)
    nodes = nodes[np.argsort(table["place"].take(nodes).to_numpy())]
    rows = table.take(nodes)
    tree = tree_of(rows.drop_columns(["hash", "held", "place", "v"]), types)
    of_leaf = _places_of_leaves(tree, pc.fill_null(rows["v"], 0).to_numpy())
    many = pc.list_value_length(table["held"].take(users)).to_numpy()
    number = pc.list_flatten(table["held"]).to_numpy()  # in the order of users
    hashes = np.zeros(len(of_leaf), dtype=np.uint64)
    hashes[table["v"].take(leaves).to_numpy()] = table["hash"].take(leaves).to_numpy()
    user = np.repeat(np.arange(len(users)), many)
    mixed = _mix_bits(table["hash"].take(users).to_numpy()[user] ^ hashes[number])
    return place_nodes(tree, len(users), user, of_leaf[number], mixed, most, shares)


def _places_of_leaves(tree: CountTree, summed: Ints) -> Ints:
    """The node of every finest key, by the number of the key, from the sums of numbers at nodes."""
    own, below = summed.copy(), tree.parent >= 0
    np.subtract.at(own, tree.parent[below], summed[below])
    place = np.zeros(int(own.max(initial=0)) + 1, dtype=np.int64)
    place[own] = np.arange(len(own))
    return place


def place_nodes(
    tree: CountTree,
    users: int,
    user: Ints,
    leaf: Ints,
    hashed: NDArray[np.uint64],
    most: int,
    shares: tuple[int, ...],
) -> UserNodes:
    """Place the nodes of users in groups, from different pairs of a user and a finest node.

    ``hashed`` decides which nodes of a user take part if there are more than ``most``.
    """
    below = leaf > 0  # the root is added for all users
    user, leaf, hashed = user[below], leaf[below], hashed[below]
    order = np.lexsort([leaf, user])
    user, leaf, hashed = user[order], leaf[order], hashed[order]
    bands, height = len(shares) - 1, int(tree.level.max(initial=0))
    levels = range(1, height) if bands else ()
    above = [_nodes_above(tree, user, leaf, level) for level in levels]
    sizes = np.bincount(user, minlength=users)
    for runs in above:
        sizes += np.bincount(user[runs.row], minlength=users)
    part = np.ones(len(leaf), dtype=np.bool_)
    heavy = np.flatnonzero((sizes > most)[user])
    part[heavy] = _sample(tree, user[heavy], leaf[heavy], hashed[heavy], most, levels)
    pairs = [(user * len(shares), leaf, part)]
    for level, runs in zip(levels, above, strict=True):
        group = user[runs.row] * len(shares) + 1 + (level - 1) * bands // (height - 1)
        pairs.append((group, runs.node, runs.any_of(part)))
    if bands:  # the root is counted, and not searched
        root = np.zeros(users, dtype=np.int64)
        group = np.arange(users) * len(shares) + bands
        pairs.append((group, root, np.zeros(users, dtype=np.bool_)))
    return _grouped(tree, pairs, users * len(shares), shares)


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """The nodes of users at one level above their finest nodes.

    A run of ``rows``, from the position in ``first`` on, has the same user and the same node above.
    """

    rows: Ints
    first: Ints
    node: Ints
    chosen: NDArray[np.bool_]

    @property
    def row(self) -> Ints:
        """One row of every run."""
        return self.rows[self.first][self.chosen]

    def any_of(self, part: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """For every run whether any of its rows takes part."""
        if not len(self.first):
            return part[:0]
        return np.asarray(np.logical_or.reduceat(part[self.rows], self.first)[self.chosen])


def _nodes_above(tree: CountTree, user: Ints, leaf: Ints, level: int) -> _Runs:
    """The nodes of a level above the finest nodes of users, which are sorted. A node that is itself
    a finest node of the user is left out: it stands right before those below it."""
    node = tree.ancestors_at(level)[leaf].astype(np.int64)
    rows = np.flatnonzero((node >= 0) & (node != leaf))
    who, over = user[rows], node[rows]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (who[1:] != who[:-1]) | (over[1:] != over[:-1])
    first = np.flatnonzero(new)
    at = rows[first]
    own = (at > 0) & (user[at - 1] == user[at]) & (leaf[at - 1] == node[at])
    return _Runs(rows, first, node[at][~own], ~own)


def _sample(
    tree: CountTree,
    user: Ints,
    leaf: Ints,
    hashed: NDArray[np.uint64],
    most: int,
    levels: Sequence[int],
) -> NDArray[np.bool_]:
    """Which finest nodes take part, so that with the nodes above them there are at most ``most`` of
    a user."""
    order = np.lexsort([leaf, hashed, user])
    user, leaf = user[order], leaf[order]
    more = np.ones(len(leaf), dtype=np.int64)  # nodes that a key adds
    for level in levels:
        node = tree.ancestors_at(level)[leaf].astype(np.int64)
        here = np.flatnonzero((node >= 0) & (node != leaf))
        _, first = np.unique(user[here] * len(tree.level) + node[here], return_index=True)
        more[here[first]] += 1
    total = np.cumsum(more)
    begin = np.flatnonzero(np.diff(user, prepend=-1))
    before = np.repeat((total - more)[begin], np.diff(np.append(begin, len(user))))
    part = np.zeros(len(leaf), dtype=np.bool_)
    part[order] = total - before <= most
    return part


def _grouped(
    tree: CountTree,
    pairs: Sequence[tuple[Ints, Ints, NDArray[np.bool_]]],
    groups: int,
    shares: tuple[int, ...],
) -> UserNodes:
    """The nodes of all groups, those that take part first. ``pairs`` are groups in ascending order,
    nodes, and whether these take part."""
    size, searched = (np.zeros(groups, dtype=np.int64) for _ in range(2))
    for group, _, part in pairs:
        size += np.bincount(group, minlength=groups)
        searched += np.bincount(group[part], minlength=groups)
    starts = np.concatenate([[0], np.cumsum(size)])
    free = {True: starts[:-1].copy(), False: starts[:-1] + searched}
    out = np.empty(starts[-1], dtype=np.int32)
    for group, node, part in pairs:
        for takes, place in free.items():
            here = np.flatnonzero(part == takes)
            own = group[here]
            first = np.flatnonzero(np.diff(own, prepend=-1))
            run = np.diff(np.append(first, len(own)))
            out[place[own] + np.arange(len(own)) - np.repeat(first, run)] = node[here]
            place[own[first]] += run
    return UserNodes(tree=tree, starts=starts, node=out, searched=searched, shares=shares)


def _mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of 64-bit numbers in which every bit depends on all bits (Steele, Lea, Flood
    2014, SplitMix)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
