"""Widths of blocks in a drawing of a tree: narrow blocks are widened or put together.

Drawn to scale, a node of 91 % would leave slivers for its siblings. Here a block is at least
``LEAST`` of the drawing, as long as widened blocks take at most ``SPARED`` of their parent beside
wide siblings. Nodes without room go into one block that says how many it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 0.04
"""Least part of the whole drawing for a block: room for a line of text, with levels side by
side."""

SPARED = 0.4
"""Largest part of a block that widened children may take beside children that are not widened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A drawn block: a node, or several children of a node (``several``), inside block ``inside``.

    ``value`` is its area; more if it was widened, less if its siblings were.
    """

    node: int
    inside: int
    value: float
    several: tuple[int, ...] = ()
    widened: bool = False


def blocks(
    area: NDArray[Any], ancestor: NDArray[np.int64], *, in_order: bool = False
) -> list[Block]:
    """Return the blocks of a tree, a parent before its children.

    Parameters
    ----------
    area
        Shape (n,), not negative, children never more than their parent
        (:func:`dpframe.postprocess.shown_nodes.areas`).
    ancestor
        int64, shape (n,): the parent of each node, -1 for none.
    in_order
        Whether children stand in the order of the nodes, and not by size.

    Returns
    -------
    list of Block
        ``inside`` is the place of the parent in this list, -1 for none. If nothing is widened,
        values are the areas.
    """
    children: dict[int, list[int]] = {}
    for node, above in enumerate(ancestor.tolist()):
        children.setdefault(above, []).append(node)
    if not in_order:
        for below in children.values():
            below.sort(key=lambda i: (-area[i], i))
    out: list[Block] = []
    roots = children.get(-1, [])
    if len(roots) == 1:
        out.append(Block(node=roots[0], inside=-1, value=area[roots[0]].item()))
    else:  # without a total the roots share the drawing
        whole = float(sum(area[root] for root in roots))
        out += _child_blocks(roots, area, whole, whole, whole, -1)
    at = 0
    whole = float(sum(block.value for block in out)) or 1.0
    while at < len(out):
        block = out[at]
        under = children.get(block.node, []) if not block.several else []
        if under:
            out += _child_blocks(under, area, area[block.node].item(), block.value, whole, at)
        at += 1
    return out


def _child_blocks(
    below: list[int],
    area: NDArray[Any],
    total: float,
    room: float,
    whole: float,
    inside: int,
) -> list[Block]:
    """Return the blocks of a node's children; ``total`` is its area, ``room`` its value in the
    drawing."""
    scale = room / total if total and room != total else 1
    wide = {i: area[i].item() * scale for i in below}
    least, small, narrower = LEAST * whole, set[int](), 1.0
    while fell := {i for i in below if 0 < wide[i] * narrower < least} - small:
        small |= fell  # a widened block can make the next one too narrow
        limit = room if len(small) == sum(w > 0 for w in wide.values()) else SPARED * room
        ranked = sorted(small, key=lambda i: (-area[i], i))
        alone = _own_block_count(ranked, area, int(limit / least))
        rest = tuple(ranked[alone:])
        each = min(least, limit / (alone + bool(rest)))
        together = max(each, min(sum(wide[i] for i in rest), limit - alone * each))
        left = room - sum(wide[i] for i in small)
        taken = alone * each + bool(rest) * together
        narrower = min(1.0, max(0.0, room - taken) / left) if left > 0 else 0.0
    if not small:
        return [Block(node=i, inside=inside, value=wide[i]) for i in below]
    lifted = set(ranked[:alone])
    out = [
        Block(
            node=i,
            inside=inside,
            value=each if i in lifted else wide[i] * narrower,
            widened=i in lifted,
        )
        for i in below
        if i not in rest
    ]
    if rest:
        out.append(Block(node=rest[0], inside=inside, value=together, several=rest, widened=True))
    return out


def _own_block_count(small: list[int], area: NDArray[Any], most: int) -> int:
    """Return how many small nodes, largest first, get their own block; equal nodes are treated
    equally."""
    if len(small) <= max(1, most):
        return len(small)
    fit = most - 1  # one block is for the nodes that are drawn together
    while fit > 0 and area[small[fit - 1]] == area[small[fit]]:
        fit -= 1
    return max(0, fit)
