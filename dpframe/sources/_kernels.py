"""Loops over paths and over the nodes of users. Compiled.

**Paths** are split at a separator of one byte.

**Users** are placed and weighed at their nodes, in whole numbers, where tables are long.

Group ``u`` of users' nodes has the nodes ``node[starts[u] : starts[u + 1]]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpframe.sketches._kernels import compile_loop

Bytes = NDArray[np.uint8]


Words = NDArray[np.int64]


@compile_loop
def split_paths(
    data: Bytes,
    starts: Words,
    separator: int,
    normal: Bytes,
    ends: Words,
    counts: Words,
) -> None:
    """Write paths without empty parts into ``normal``, one after the other.

    Text i is the bytes from ``starts[i]`` to ``starts[i + 1]``. ``counts[i]`` is how many parts
    path i has (at most one less than ``ends`` has columns), or -1 for empty text, which is no path.
    ``ends[i]`` has the place in ``normal`` where path i begins, then where each of its parts ends.
    """
    out = 0
    for i in range(starts.shape[0] - 1):
        n, inside = 0, False
        ends[i, 0] = out
        for j in range(starts[i], starts[i + 1]):
            if data[j] == separator:
                inside = False
                continue
            if not inside:
                if n + 1 == ends.shape[1]:
                    break
                if n:
                    normal[out] = separator
                    out += 1
                inside = True
                n += 1
            normal[out] = data[j]
            out += 1
            ends[i, n] = out
        counts[i] = n if starts[i] < starts[i + 1] else -1


@compile_loop
def path_level_keys(
    normal: Bytes,
    ends: Words,
    counts: Words,
    level: int,
    value: int,
    invalid: int,
    data: Bytes,
    offsets: Words,
) -> int:
    """Write the keys of a level into ``data``, and their ends into ``offsets``. The key of a path
    that reaches the level is the byte ``value``, then the path down to the level; the key of a text
    that is no path is the byte ``invalid``, or no key if ``invalid`` is negative. Returns how many
    keys there are."""
    n, out = 0, 0
    offsets[0] = 0
    for i in range(counts.shape[0]):
        if counts[i] >= level:
            data[out] = value
            out += 1
            for j in range(ends[i, 0], ends[i, level]):
                data[out] = normal[j]
                out += 1
        elif counts[i] < 0 and invalid >= 0:
            data[out] = invalid
            out += 1
        else:
            continue
        n += 1
        offsets[n] = out
    return n


Whole = NDArray[np.int64]
Nodes = NDArray[np.int32]
Flags = NDArray[np.bool_]


@compile_loop
def place_users(
    first: Whole,
    leaf: Whole,
    part: Flags,
    finest: Whole,
    above: Nodes,
    groups: Whole,
    nodes: int,
    placed: Nodes,
    size: Whole,
    searched: Whole,
) -> None:
    """Place the nodes of users in groups, all in one pass over their rows.

    User ``u`` has rows from ``first[u]`` on and before ``first[u + 1]``. The node of a row is
    ``finest`` of its ``leaf``, and it lies below those of ``above``, one column a level; the root
    and -1 are left out. ``groups`` has the group of finest nodes of a user, then those of levels,
    and last how many groups each user has. If there are several, the root is in the last one.
    A node takes part if a row of its kind has a ``part``. Writes how many nodes groups have, how
    many take part, and all nodes into ``placed``, those of a group that take part first.
    """
    width, levels = groups[-1], above.shape[1]
    most = 0
    for u in range(len(first) - 1):
        most = max(most, first[u + 1] - first[u])
    most = min(most * (levels + 1), nodes) + 1
    held, group, takes = np.empty((3, most), np.int64)  # of the nodes of one user
    last, at = np.full(nodes, -1), np.empty(nodes, np.int64)  # the user who has it, and where
    turn = np.empty((width, 2), np.int64)
    out = 0
    for u in range(len(first) - 1):
        n = 0
        for r in range(first[u], first[u + 1]):
            one = finest[leaf[r]]
            if one > 0 and last[one] != u:
                last[one], at[one], held[n], group[n], takes[n] = u, n, one, groups[0], part[r]
                n += 1
            elif one > 0 and part[r]:
                takes[at[one]] = 1
        own = n
        for r in range(first[u], first[u + 1]):
            for level in range(levels):
                one = above[leaf[r], level]
                if one <= 0 or finest[leaf[r]] <= 0:
                    continue
                if last[one] != u:
                    last[one], at[one], held[n], takes[n] = u, n, one, part[r]
                    group[n] = groups[level + 1]
                    n += 1
                elif part[r] and at[one] >= own:
                    takes[at[one]] = 1
        if width > 1:
            held[n], group[n], takes[n] = 0, width - 1, 0
            n += 1
        turn[:] = 0
        for i in range(n):
            turn[group[i], takes[i]] += 1
        for g in range(width):
            searched[u * width + g], size[u * width + g] = turn[g, 1], turn[g].sum()
            turn[g, 0], turn[g, 1] = out + turn[g, 1], out
            out += size[u * width + g]
        for i in range(n):
            g, side = group[i], takes[i]
            placed[turn[g, side]] = held[i]
            turn[g, side] += 1


@compile_loop
def _floor_root(square: int) -> int:
    """The largest whole number whose square is at most ``square``, below 2**52."""
    root = int(np.sqrt(np.float64(square)))
    if root * root > square:
        return root - 1
    return root + 1 if (root + 1) * (root + 1) <= square else root


@compile_loop
def node_weights(
    starts: Whole, node: Nodes, searched: Whole, importance: Whole, shares: Whole, norm: int
) -> Whole:
    """Return for every node the sum of what users give, as ``UserNodes.weigh`` says."""
    out, width = np.zeros(len(importance), dtype=np.int64), len(shares)
    squares = np.empty(width, dtype=np.int64)
    for first in range(0, len(starts) - 1, width):
        whole = 0
        for g in range(width):
            total = 0
            for i in range(starts[first + g], starts[first + g] + searched[first + g]):
                one = importance[node[i]]
                total += one * one
            squares[g] = total
            whole += shares[g] if total > 0 else 0
        for g in range(width):
            if squares[g] == 0:
                continue
            own = norm if width == 1 else _floor_root(norm * norm * shares[g] // whole)
            length = _floor_root(squares[g])
            length += length * length < squares[g]
            all_of_it, parts = np.uint64(own), np.uint64(length)  # faster to divide than signed
            for i in range(starts[first + g], starts[first + g] + searched[first + g]):
                one = importance[node[i]]
                if one > 0:
                    out[node[i]] += np.int64(all_of_it * np.uint64(one) // parts)
    return out


@compile_loop
def mark_first_nodes(starts: Whole, node: Nodes, searched: Whole, nodes: int) -> Flags:
    """Return which nodes are among the first ``searched`` of at least one group."""
    out = np.zeros(nodes, dtype=np.bool_)
    for u in range(len(starts) - 1):
        for i in range(starts[u], starts[u] + searched[u]):
            out[node[i]] = True
    return out


@compile_loop
def count_found_nodes(starts: Whole, node: Nodes, found: Flags) -> Whole:
    """Return for every group how many of the ``found`` nodes it has."""
    out = np.zeros(len(starts) - 1, dtype=np.int64)
    for u in range(len(out)):
        many = 0
        for i in range(starts[u], starts[u + 1]):
            if found[node[i]]:
                many += 1
        out[u] = many
    return out


@compile_loop
def user_weights(
    starts: Whole, node: Nodes, found: Flags, width: int, norm: int, at_most: int
) -> Whole:
    """Return for every ``found`` node the sum of what users with ``width`` groups each give, as
    ``UserNodes.count_users`` says; 0 for others."""
    out = np.zeros(len(found), dtype=np.int64)
    for first in range(0, len(starts) - 1, width):
        many = 0
        for i in range(starts[first], starts[first + width]):
            many += found[node[i]]
        weight = _floor_root(norm * norm // max(many, at_most))
        for i in range(starts[first], starts[first + width]):
            if found[node[i]]:
                out[node[i]] += weight
    return out
