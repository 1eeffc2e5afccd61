"""The different nodes that users have, on the private side of a release, and what they weigh.

All arithmetic is on whole numbers, so that the norm of what a user adds is surely within its bound.
What a user adds depends on this user, on public numbers of the nodes and on nothing else.

*Groups.* The nodes of a user are in groups: their finest nodes are one, and their other nodes of
each band of levels are one more. So few nodes, such as one country, do not weigh less because the
user has many finer ones. Which group a node of a user is in depends on the other nodes of this user
alone. ``shares`` says how the square of a user's norm is divided over the groups.

*Cells.* Every kind of cells of several hierarchies is a level. Kinds that no other kind refines are
the finest ones.

Compiled loops place and weigh the nodes of long tables, and numpy those of all others: loading the
loops takes longer than a short table. Both give the same numbers.

**Reading.** Pairs of a user and a node are read from any source with one statement.

The statement reads the view ``dpframe_source`` once, or its keys once more where it stands. Its
CTEs, in order:

source      the columns that matter, renamed
keyed       the key of every row, k1, k2, ...
leaves      every finest key, its number v, its hash h, and n, how many rows have it
pairs       users and the numbers of the keys of their rows, and what is added up
level_l     the nodes of level l, with sums of v; for cells the CTEs of ``sources.cell_leaves``
candidates  all nodes with their texts; for cells the nodes of every dimension, and finest cells

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import ascending_order, identifier
from dpframe.counts import CellCounts, CellNodes, NodeSet
from dpframe.hierarchy import Hierarchy
from dpframe.noise import random_seed
from dpframe.sources.cell_leaves import (
    WHOLE_STEPS,
    cell_rows,
    finest_columns,
    keyed_sql,
    placed_leaves,
    same_key_sql,
    whole_steps_sql,
)
from dpframe.sources.exact_trees import pairs_of_spark
from dpframe.sources.frames import is_spark
from dpframe.sources.node_values import (
    BLOCK_ROWS,
    UserAmounts,
    UserColumns,
    by_threads,
    ceil_root,
    floor_root,
    mix_bits,
    node_sums,
    threads,
)
from dpframe.sources.rollup_statement import (
    candidates_sql,
    counts_of,
    level_ctes,
    result_columns,
    source_sql,
    tree_of,
)
from dpframe.sources.source_relations import level_and_user_types, open_source

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UserNodes:
    """The different nodes of every user, by groups. Private.

    Group g of user u has the nodes ``node[starts[i] : starts[i + 1]]``, positions in ``nodes``,
    with ``i = u * len(shares) + g``. The first ``searched[i]`` of them take part when nodes are
    searched. The root takes part for no user. ``held`` is what users have of columns.
    """

    nodes: NodeSet
    height: int
    starts: Ints
    node: NDArray[np.int32]
    searched: NDArray[np.int32]
    shares: tuple[int, ...]
    held: UserColumns | None = None

    def __repr__(self) -> str:
        return "UserNodes(<private>)"

    @property
    def size(self) -> int:
        """How many nodes there are, with the root."""
        return len(self.nodes.level)

    @property
    def users(self) -> int:
        return (len(self.starts) - 1) // len(self.shares)

    @cached_property
    def _group(self) -> NDArray[np.int64]:
        """The group of every pair, as a place in ``starts``."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def taking_part(self) -> NDArray[np.bool_]:
        """Which pairs count when nodes are searched."""
        place = np.arange(len(self.node)) - self.starts[self._group]
        return np.asarray(place < self.searched[self._group])

    @property
    def is_searched(self) -> NDArray[np.bool_]:
        """Which nodes at least one user takes part with. Others could be found by noise alone."""
        if (loops := _loops(len(self.node))) is not None:
            return self._sum(lambda *own: loops.mark_first_nodes(*own, self.size)) > 0
        return np.bincount(self.node[self.taking_part], minlength=self.size) > 0

    def weigh(self, importance: Ints, norm: int) -> Ints:
        """What all users give to every node: each a vector of whole numbers whose Euclidean norm is
        at most ``norm``.

        In a group, users give in proportion to the ``importance`` of nodes, below 2**16. The groups
        in which a user has important nodes divide the square of the norm by their shares.
        """
        if (loops := _loops(len(self.node))) is not None:
            given = importance.astype(np.uint16), np.array(self.shares), norm
            return self._sum(lambda *own: loops.node_weights(*own, *given))
        kept = self.taking_part & (importance[self.node] > 0)
        group, node = self._group[kept], self.node[kept]
        share = importance[node]
        squares = node_sums(group, share * share, len(self.starts) - 1)
        norms, length = self._norms(squares, norm), ceil_root(squares)
        return node_sums(node, norms[group] * share // length[group], self.size)

    def _norms(self, squares: Ints, norm: int) -> Ints:
        """The norm of every group of some users, from the squares of the importance there."""
        if len(self.shares) == 1:
            return np.full(len(squares), norm, dtype=np.int64)
        shares = np.where(squares.reshape(-1, len(self.shares)) > 0, np.array(self.shares), 0)
        whole = np.maximum(shares.sum(axis=1, keepdims=True), 1)
        return floor_root((norm * norm * shares // whole).ravel())

    def sizes(self, shown: NDArray[np.bool_], bins: int) -> Ints:
        """How many users have 1, 2 to 3, 4 to 7, ... of the ``shown`` nodes."""
        if (loops := _loops(len(self.node))) is not None:
            given = shown, len(self.shares), bins
            return self._sum(lambda *own: loops.user_sizes(*own[:2], *given))
        many = self._count_nodes(shown)
        bits = np.frexp(many[many > 0].astype(np.float64))[1]
        return np.bincount(np.minimum(bits, bins) - 1, minlength=bins).astype(np.int64)

    def count_users(self, shown: NDArray[np.bool_], norm: int, at_most: int) -> Ints:
        """Weights of all users at the ``shown`` nodes alone. A user with up to ``at_most`` of them
        gives the root of norm^2 / at_most to each, a user with n > at_most the root of norm^2 / n:
        rounded down, so that a user's Euclidean norm is at most ``norm``."""
        if (loops := _loops(len(self.node))) is not None:
            given = shown, len(self.shares), norm, at_most
            return self._sum(lambda *own: loops.user_weights(*own[:2], *given))[shown]
        own = floor_root(norm * norm // np.maximum(self._count_nodes(shown), at_most))
        weight = np.repeat(own, len(self.shares))
        kept = shown[self.node]
        return node_sums(self.node[kept], weight[self._group[kept]], self.size)[shown]

    def amounts(self, column: int, part: NDArray[np.bool_]) -> UserAmounts:
        """What users have of a column at and below each node of a ``part`` of the nodes."""
        assert self.held is not None
        return self.held.amounts(self.nodes, column, part)

    def _sum(self, of_some: Callable[..., Ints]) -> Ints:
        """The sum of what threads make of ranges of users, from the ``starts`` of their groups, all
        nodes, and how many nodes of each group are ``searched``."""
        parts, groups = min(threads(), 1 + len(self.node) // BLOCK_ROWS), len(self.shares)
        at = np.searchsorted(self.starts, len(self.node) * np.arange(parts) // parts)
        ends = [*(at // groups * groups).tolist(), len(self.starts) - 1]
        node = self.node.view(np.uint32)

        def of_range(first: int, last: int) -> Ints:
            return of_some(self.starts[first : last + 1], node, self.searched[first:last])

        return np.asarray(sum(by_threads(of_range, ends)))

    def _count_nodes(self, shown: NDArray[np.bool_]) -> Ints:
        """How many of the ``shown`` nodes every user has."""
        many = np.bincount(self._group[shown[self.node]], minlength=len(self.starts) - 1)
        return np.asarray(many.reshape(-1, len(self.shares)).sum(axis=1), dtype=np.int64)


LONG = 2**20
"""Pairs from which on loops are compiled."""


def _loops(pairs: int) -> Any:
    """The compiled loops, which are loaded if there are enough pairs; else None."""
    if pairs < LONG:
        return None
    from dpframe.sources import _kernels

    return _kernels


def user_nodes(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    most: int,
    shares: tuple[int, ...],
    columns: Sequence[str] = (),
    *,
    progress: bool = False,
) -> UserNodes:
    """The different nodes of every user, of which at most ``most`` take part. Private.

    ``shares`` are as in :class:`UserNodes`: of the finest nodes of a user, and of each band of
    levels above them. ``columns`` are added up for every user and finest node.

    Raises ColumnError where a column cannot be read.
    """
    user = str(unit.user)
    if is_spark(source):
        source = pairs_of_spark(source, hierarchy, unit, columns)
    wanted = list(dict.fromkeys([*hierarchy.source_columns, user, *columns]))
    with open_source(source, wanted) as relation:
        types, kind = level_and_user_types(relation, hierarchy, user)
        statement = user_nodes_sql(
            hierarchy,
            unit,
            types=types,
            user_type=kind,
            seed=random_seed(),
            columns=columns,
            again=relation.repeats(computed=False),
        )
        table = relation.query(statement, progress)
    return _nodes_of_rows(table, types, hierarchy, most, shares)


def user_nodes_sql(
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    *,
    types: tuple[str, ...],
    user_type: str | None,
    seed: int,
    columns: Sequence[str] = (),
    again: bool = False,
) -> str:
    """The statement; ``types`` are the DuckDB types of ``hierarchy.source_columns``. ``again`` says
    that the source may be read twice, so that nothing holds its rows."""
    values = {
        f"x{i}": f"{whole_steps_sql(identifier(column))}::DOUBLE / {WHOLE_STEPS!r}::DOUBLE"
        for i, column in enumerate(columns)
    }
    source, types = source_sql(
        hierarchy, unit, types=types, user_type=user_type, view=VIEW, beside=values, again=again
    )
    own = "".join(f", {name}" for name in values)
    held = "v" if not values else f"struct_pack(v := v{''.join(f', {x} := {x}' for x in values)})"
    names = finest_columns(hierarchy)
    keys = ", ".join(names)
    hashed = ", ".join([*_finest_texts(hierarchy, types), f"{seed}::UBIGINT"])
    held_once = "NOT " if again else ""
    placed = f"keyed LEFT JOIN leaves ON {same_key_sql(names, 'keyed', 'leaves')}"
    parts = [
        source,
        f"keyed AS {held_once}MATERIALIZED ({keyed_sql(hierarchy, types, 'source', f'u{own}')})",
        f"leaves AS MATERIALIZED (SELECT {keys}, count(*)::BIGINT AS n, row_number() OVER "
        f"(ORDER BY {ascending_order(*names)}) AS v, hash({hashed}) AS h FROM keyed "
        f"GROUP BY {keys})",
        f"pairs AS (SELECT u, v::UINTEGER AS v{own} FROM {placed})",
    ]
    results = ", ".join(result_columns(hierarchy))
    if hierarchy.has_cells:
        parts += placed_leaves(hierarchy, types, 1, ("v",))
        place, nodes = "0", cell_rows(hierarchy, ("v",))
    else:
        parts += level_ctes(hierarchy, ("v",))
        place = f"row_number() OVER (ORDER BY {hierarchy.order_by()})"
        nodes = candidates_sql(hierarchy, types, 1, ("v",))
    no_keys = "".join(f", NULL AS {name}" for name in result_columns(hierarchy))
    return (
        f"WITH {', '.join(parts)} "
        f'SELECT min(hash(u, {seed}::UBIGINT)) AS "hash", list({held}) AS "held", '
        f'NULL::BIGINT AS "place", NULL::BIGINT AS "level", NULL::BIGINT AS "n", '
        f'NULL::BIGINT AS "v"{no_keys} '
        f"FROM pairs GROUP BY u "
        f"UNION ALL SELECT h, NULL, NULL, NULL, NULL, v{no_keys} FROM leaves "
        f"UNION ALL SELECT NULL, NULL, {place}, level, n, v::BIGINT, {results} FROM ({nodes})"
    )


def _finest_texts(hierarchy: Hierarchy, types: tuple[str, ...]) -> list[str]:
    """SQL of the finest key as texts, which are equal where keys are."""
    names, pairs = finest_columns(hierarchy), hierarchy.by_dimension(types)
    texts = [
        text
        for one, own, keys in zip(
            hierarchy.dimensions, pairs, hierarchy.by_keys(names), strict=True
        )
        for text in one.texts(one.height, keys, own)
    ]
    return [f"CAST({text} AS VARCHAR)" for text in texts]


def _nodes_of_rows(
    table: pa.Table,
    types: tuple[str, ...],
    hierarchy: Hierarchy,
    most: int,
    shares: tuple[int, ...],
) -> UserNodes:
    """The nodes of users, from the rows of the statement."""
    is_user = pc.is_valid(table["held"]).to_numpy()
    is_node = pc.is_valid(table["place"]).to_numpy()
    users, leaves = np.flatnonzero(is_user), np.flatnonzero(~is_user & ~is_node)
    rows = np.flatnonzero(is_node)
    rows = rows[np.argsort(table["place"].take(rows).to_numpy(), kind="stable")]
    own = table.drop_columns(["hash", "held", "place"]).take(rows)
    nodes, of_leaf = _nodes_and_groups(own, types, hierarchy)
    many = pc.fill_null(pc.list_value_length(table["held"]), 0).to_numpy()[users]
    flat = pc.list_flatten(table["held"]).combine_chunks()  # in the order of users
    values = flat.flatten() if pa.types.is_struct(flat.type) else [flat]
    number, *columns = (each.to_numpy(zero_copy_only=False) for each in values)
    hashes = np.zeros(len(of_leaf), dtype=np.uint64)
    hashes[table["v"].take(leaves).to_numpy()] = table["hash"].take(leaves).to_numpy()
    user = np.repeat(np.arange(len(users)), many)
    of_user = table["hash"].take(users).to_numpy()
    leaf = of_leaf[number]
    placed = place_nodes(
        nodes,
        hierarchy.height,
        len(users),
        user,
        leaf,
        lambda rows: mix_bits(of_user[user[rows]] ^ hashes[number[rows]]),
        most,
        shares,
        hierarchy.finest_levels,
    )
    if not columns:
        return placed
    order = _order_by_users(user, number)  # of keys, as groups of cells come in any order
    amount = np.nan_to_num(np.stack([each[order] for each in columns]))  # no value is 0
    user, leaf = user[order], leaf[order]
    same = np.flatnonzero(np.diff(user * len(nodes.level) + leaf, prepend=-1) == 0)
    rows = np.union1d(
        same - 1, same
    )  # in the order of values, so that sums do not depend on others
    for values in amount:
        values[rows] = values[rows[np.lexsort([values[rows], leaf[rows], user[rows]])]]
    return replace(placed, held=UserColumns(user=user, leaf=leaf, values=amount))


def _nodes_and_groups(
    rows: pa.Table, types: tuple[str, ...], hierarchy: Hierarchy
) -> tuple[NodeSet, Ints]:
    """The nodes, and the group of every finest key, by the number of the key."""
    if hierarchy.has_cells:
        counts = counts_of(rows, hierarchy, types, ("v",))
        assert isinstance(counts, CellCounts)
        own = counts.own_sums[0].astype(np.int64)
        nodes: NodeSet = CellNodes.from_counts(counts, hierarchy.kind_order)
    else:
        nodes = tree = tree_of(rows.drop_columns(["v"]), types)
        own, below = pc.fill_null(rows["v"], 0).to_numpy().copy(), tree.parent >= 0
        np.subtract.at(own, tree.parent[below], own[below].copy())
    group = np.zeros(int(own.max(initial=0)) + 1, dtype=np.int64)
    group[own] = np.arange(len(own))
    return nodes, group


def place_nodes(
    nodes: NodeSet,
    height: int,
    users: int,
    user: Ints,
    leaf: Ints,
    hashed: Hashes,
    most: int,
    shares: tuple[int, ...],
    finest: Sequence[int],
) -> UserNodes:
    """Place the nodes of users in groups, from different pairs of a user and a finest key.

    Rows are in the order of users. ``leaf`` is the group of a key in ``nodes``. ``height`` is the
    number of levels, and ``finest`` has those that no level refines; both are public: bands of
    levels that followed the deepest node of the data would let one user move what all others weigh.
    The hashes of some rows decide which nodes of a user take part if there are more than ``most``.

    Users are placed in blocks that stay in the cache of a processor, several blocks at a time.
    """
    bands = len(shares) - 1
    levels = range(1, height) if bands else range(0)
    coarser = [level for level in levels if level not in finest]
    groups = [
        1 + coarser.index(level) * bands // len(coarser) if level in coarser else 0
        for level in (height, *levels)
    ]
    layout = _Layout(nodes=nodes, most=most, levels=levels, groups=groups, width=len(shares))
    first = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=users))])
    place = _place_blocks
    if (loops := _loops(len(user))) is not None:
        place = partial(_place_by_loops, loops)
    starts, searched, node = place(layout, first, user, leaf, hashed)
    return UserNodes(
        nodes=nodes, height=height, starts=starts, node=node, searched=searched, shares=shares
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Runs:
    """The different nodes of users at one level, or their finest ones.

    A run of ``rows``, from the position in ``first`` on, has the same user and the same node. Only
    ``chosen`` runs count, all if None; ``user`` and ``node`` are theirs.
    """

    rows: Ints
    first: Ints
    chosen: NDArray[np.bool_] | None
    user: Ints
    node: Ints

    @classmethod
    def of(cls, nodes: NodeSet, user: Ints, node: Ints, finest: Ints | None = None) -> _Runs:
        """The nodes of rows with ``node`` >= 0. A node that is ``finest`` for a row of the user is
        left out."""
        rows = np.flatnonzero(node >= 0)
        key = user[rows] * len(nodes.level) + node[rows]
        if (key[1:] < key[:-1]).any():  # as of cells; rows of trees are in order
            order = np.argsort(key, kind="stable")
            rows, key = rows[order], key[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        once, chosen = rows[first], None
        if finest is not None and len(first):
            own = finest == node
            if own.any():
                chosen = ~np.logical_or.reduceat(own[rows], first)
                once = once[chosen]
        return cls(rows, first, chosen, user[once], node[once])

    def none_of(self, part: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """For every run whether none of its rows takes part; all do if ``part`` is None."""
        if part is None or not len(self.first):
            return np.zeros(len(self.node), dtype=np.bool_)
        none = ~np.logical_or.reduceat(part[self.rows], self.first)
        return np.asarray(none if self.chosen is None else none[self.chosen])


def _nodes_above(nodes: NodeSet, user: Ints, leaf: Ints, level: int) -> _Runs:
    """The nodes of a level above the finest nodes of users. A node that is itself a finest node of
    the user is left out."""
    node = nodes.ancestors_at(level)[leaf].astype(np.int64)
    return _Runs.of(nodes, user, node, nodes.finest[leaf])


def _order_by_users(user: Ints, other: Ints) -> Ints:
    """The order of rows by user and a whole number: one sort of both is far faster than two, above
    all where users are in order."""
    return np.argsort(user * (int(other.max(initial=0)) + 1) + other, kind="stable")


def _sample(
    nodes: NodeSet,
    user: Ints,
    leaf: Ints,
    hashed: NDArray[np.uint64],
    most: int,
    levels: Sequence[int],
) -> NDArray[np.bool_]:
    """Which finest keys take part, so that with the nodes above them there are at most ``most`` of
    a user."""
    order = np.lexsort([leaf, hashed, user])
    user, leaf = user[order], leaf[order]
    more, finest = np.zeros(len(leaf), dtype=np.int64), nodes.finest[leaf]  # nodes that a key adds
    above = (nodes.ancestors_at(level)[leaf] for level in levels)
    for node in (finest, *(np.where(one == finest, -1, one) for one in above)):
        here = np.flatnonzero(node >= 0)
        _, first = np.unique(user[here] * len(nodes.level) + node[here], return_index=True)
        more[here[first]] += 1
    total = np.cumsum(more)
    begin = np.flatnonzero(np.diff(user, prepend=-1))
    before = np.repeat((total - more)[begin], np.diff(np.append(begin, len(user))))
    part = np.zeros(len(leaf), dtype=np.bool_)
    part[order] = total - before <= most
    return part


_Placed = tuple[Ints, NDArray[np.int32], NDArray[np.int32]]
"""How many nodes groups have, how many of these take part, and the nodes of all groups, those that
take part first."""


Hashes = Callable[[Ints], NDArray[np.uint64]]
"""The hashes of some rows, which decide which nodes of a user take part."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Layout:
    """Where nodes go: ``groups`` are those of the finest nodes of a user and of nodes at
    ``levels``. A user has ``width`` groups, and at most ``most`` nodes that take part."""

    nodes: NodeSet
    most: int
    levels: Sequence[int]
    groups: Sequence[int]
    width: int


def _place_blocks(layout: _Layout, first: Ints, user: Ints, leaf: Ints, hashed: Hashes) -> _Placed:
    """The nodes of users, by blocks of them."""
    many = 1 + len(user) // BLOCK_ROWS
    at = np.searchsorted(first, len(user) * np.arange(many) // many)

    def placed(begin: int, end: int) -> _Placed:
        rows = slice(first[begin], first[end])
        own = user[rows] - begin, leaf[rows], lambda some: hashed(some + first[begin])
        return _place_block(layout, end - begin, *own)

    blocks = by_threads(placed, np.append(at, len(first) - 1).tolist())
    sizes, searched, node = (np.concatenate(each) for each in zip(*blocks, strict=True))
    return np.concatenate([[0], np.cumsum(sizes)]), searched, node


def _place_block(layout: _Layout, users: int, user: Ints, leaf: Ints, hashed: Hashes) -> _Placed:
    """The nodes of a block of users."""
    nodes, levels, width, most = layout.nodes, layout.levels, layout.width, layout.most
    rows = np.flatnonzero(nodes.finest[leaf] > 0)  # the root is added for all users
    rows = rows[_order_by_users(user[rows], leaf[rows])]
    user, leaf = user[rows], leaf[rows]
    several = [_Runs.of(nodes, user, nodes.finest[leaf])]
    several += [_nodes_above(nodes, user, leaf, level) for level in levels]
    sizes = np.zeros(users, dtype=np.int64)
    for runs in several:
        sizes += np.bincount(runs.user, minlength=users)
    part = None
    if (sizes > most).any():
        heavy = np.flatnonzero((sizes > most)[user])
        part = np.ones(len(leaf), dtype=np.bool_)
        own = user[heavy], leaf[heavy], hashed(rows[heavy])
        part[heavy] = _sample(nodes, *own, most, levels)
    keys = [
        2 * (runs.user * width + group) + runs.none_of(part)
        for runs, group in zip(several, layout.groups, strict=True)
    ]
    node = [runs.node for runs in several]
    if width > 1:  # the root is counted, and not searched
        keys.append(2 * (np.arange(users) * width + width - 1) + 1)
        node.append(np.zeros(users, dtype=np.int64))
    key = np.concatenate(keys)
    size = np.bincount(key, minlength=2 * users * width).reshape(-1, 2)
    order = np.argsort(key, kind="stable")  # fast, as each level is in order
    placed = np.concatenate(node)[order].astype(np.int32)
    return size.sum(axis=1), size[:, 0].astype(np.int32), placed


def _place_by_loops(
    loops: Any, layout: _Layout, first: Ints, user: Ints, leaf: Ints, hashed: Hashes
) -> _Placed:
    """Place users as ``_place_blocks`` does, by compiled loops; nodes of a group have no order."""
    nodes, groups, width, users = layout.nodes, layout.groups, layout.width, len(first) - 1
    above = [nodes.finest, *(nodes.ancestors_at(level) for level in layout.levels)]
    order = np.argsort(groups, kind="stable")
    table = np.column_stack([above[at] for at in order])
    table = np.where(nodes.finest[:, None] > 0, np.maximum(table, 0), 0).astype(np.uint32)
    tree = table, np.append(np.array(groups)[order], width), len(nodes.level)
    part = np.ones(len(leaf), dtype=np.bool_)
    at = np.searchsorted(first, len(user) * np.arange(threads()) // threads())
    ends = np.unique([*at, users]).tolist()
    room = {end: first[end] * len(groups) + end for end in ends}  # if all nodes of rows differ

    def run() -> _Placed:
        placed = np.empty(room[users], dtype=np.uint32)
        starts = np.zeros(users * width + 1, dtype=np.int64)
        searched = np.empty(users * width, dtype=np.int32)

        def place(begin: int, end: int) -> None:
            own = slice(begin * width, end * width)
            out = placed, starts[1:][own], searched[own]
            loops.place_users(first[begin : end + 1], leaf, part, *tree, room[begin], *out)

        by_threads(place, ends)
        for begin, end in pairwise(ends):  # and leave no room between ranges
            at, stop, out = room[begin], starts[end * width], starts[begin * width]
            placed[out : out + stop - at] = placed[at:stop]
            starts[begin * width + 1 : end * width + 1] -= at - out
        placed.resize(starts[-1], refcheck=False)
        return starts, searched, placed.view(np.int32)

    placed = run()
    if (heavy := placed[1].reshape(-1, width).sum(axis=1) > layout.most).any():
        rows = np.flatnonzero(heavy[user] & (nodes.finest[leaf] > 0))
        own = user[rows], leaf[rows], hashed(rows)
        part[rows] = _sample(nodes, *own, layout.most, layout.levels)
        placed = run()
    return placed
