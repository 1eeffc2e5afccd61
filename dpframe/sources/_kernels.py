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
Short = NDArray[np.uint16]
Few = NDArray[np.int32]
Nodes = NDArray[np.uint32]  # places in arrays that are signed are slower
Flags = NDArray[np.bool_]


@compile_loop
def place_users(
    first: Whole,
    leaf: Whole,
    part: Flags,
    above: Nodes,
    groups: Whole,
    nodes: int,
    out: int,
    placed: Nodes,
    ends: Whole,
    searched: Few,
) -> None:
    """Place the nodes of users in groups, all in one pass over their rows.

    User ``u`` has rows from ``first[u]`` on and before ``first[u + 1]``. Row ``leaf`` of ``above``
    has the finest node of a row and then others that it lies below; the root is left out.
    ``groups`` has the group of each column, in ascending order, and last how many groups each user
    has. If there are several, the root is in the last one. A node takes part if a row of its kind
    has a ``part``. Writes all nodes into ``placed``, from place ``out`` on and those of a group
    that take part first, where groups end there, and how many take part.
    """
    width, columns = groups[-1], above.shape[1]
    last, rest = np.full(nodes, -1), np.empty(nodes, np.uint32)  # the user who has a node
    for u in range(len(first) - 1):
        column = 0
        for g in range(width):
            begin, left = out, 0
            while column < columns and groups[column] == g:
                others = False
                for r in range(first[u], first[u + 1]):
                    if not part[r]:
                        others = True
                        continue
                    one = above[leaf[r], column]
                    placed[out] = one  # stays if it is new: branches here would be guesses
                    out += (one > 0) & (last[one] != u)
                    last[one] = u
                if others:
                    for r in range(first[u], first[u + 1]):
                        one = above[leaf[r], column]
                        if one > 0 and last[one] != u:
                            last[one], rest[left] = u, one
                            left += 1
                column += 1
            searched[u * width + g] = out - begin
            for i in range(left):
                placed[out + i] = rest[i]
            out += left
            if width > 1 and g == width - 1:
                placed[out] = 0
                out += 1
            ends[u * width + g] = out


@compile_loop
def _floor_root(square: int) -> int:
    """The largest whole number whose square is at most ``square``, below 2**52."""
    root = int(np.sqrt(np.float64(square)))
    if root * root > square:
        return root - 1
    return root + 1 if (root + 1) * (root + 1) <= square else root


@compile_loop
def node_weights(
    starts: Whole, node: Nodes, searched: Few, importance: Short, shares: Whole, norm: int
) -> Whole:
    """Return for every node the sum of what users give, as ``UserNodes.weigh`` says."""
    out, width = np.zeros(len(importance), dtype=np.int64), len(shares)
    squares, ends = np.empty(width, dtype=np.int64), np.zeros(width + 1, dtype=np.int64)
    kept, share = np.empty(len(out), np.uint32), np.empty(len(out), np.uint16)  # of one user
    for first in range(0, len(starts) - 1, width):
        whole = many = 0
        for g in range(width):
            total = np.int64(0)
            for i in range(starts[first + g], starts[first + g] + searched[first + g]):
                one = importance[node[i]]
                kept[many], share[many] = node[i], one
                many += one > 0
                total += np.int64(one) * np.int64(one)
            squares[g], ends[g + 1] = total, many
            whole += shares[g] if total > 0 else 0
        for g in range(width):
            if squares[g] == 0:
                continue
            own = norm if width == 1 else _floor_root(norm * norm * shares[g] // whole)
            length = _floor_root(squares[g])
            length += length * length < squares[g]
            all_of_it, parts = np.uint64(own), np.uint64(length)  # faster to divide than signed
            for i in range(ends[g], ends[g + 1]):
                out[kept[i]] += np.int64(all_of_it * np.uint64(share[i]) // parts)
    return out


@compile_loop
def mark_first_nodes(starts: Whole, node: Nodes, searched: Few, nodes: int) -> Flags:
    """Return which nodes are among the first ``searched`` of at least one group."""
    out = np.zeros(nodes, dtype=np.bool_)
    for u in range(len(starts) - 1):
        for i in range(starts[u], starts[u] + searched[u]):
            out[node[i]] = True
    return out


@compile_loop
def user_sizes(starts: Whole, node: Nodes, found: Flags, width: int, bins: int) -> Whole:
    """Return how many users with ``width`` groups each have 1, 2 to 3, 4 to 7, ... of the ``found``
    nodes."""
    out = np.zeros(bins + 1, dtype=np.int64)
    for first in range(0, len(starts) - 1, width):
        many = bits = 0
        for i in range(starts[first], starts[first + width]):
            many += found[node[i]]
        while many >> bits:
            bits += 1
        out[min(bits, bins)] += 1
    return out[1:]


@compile_loop
def user_weights(
    starts: Whole, node: Nodes, found: Flags, width: int, norm: int, at_most: int
) -> Whole:
    """Return for every ``found`` node the sum of what users with ``width`` groups each give, as
    ``UserNodes.count_users`` says; 0 for others."""
    out, kept = np.zeros(len(found), dtype=np.int64), np.empty(len(found), np.uint32)
    for first in range(0, len(starts) - 1, width):
        many = 0
        for i in range(starts[first], starts[first + width]):
            kept[many] = node[i]
            many += found[node[i]]
        weight = _floor_root(norm * norm // max(many, at_most))
        for i in range(many):
            out[kept[i]] += weight
    return out
