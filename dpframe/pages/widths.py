"""Room in a drawing of a tree where every block can be read: narrow ones widened or put together.

To scale, a node of 91 % leaves its siblings slivers. Here a block is at least ``LEAST`` of the
drawing, as far as that leaves wide siblings all but ``SPARED`` of their parent; what has no room
goes into one block that says how many it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 0.04
"""Part of the whole drawing: room for a line of text where levels stand beside each other."""

SPARED = 0.4
"""Part of a block that may go to children which are widened, beside some that are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What is drawn: a node, or several children of one (``several``), inside block ``inside``.

    ``value`` is its area, or more where it was widened, or less where others were.
    """

    node: int
    inside: int
    value: float
    several: tuple[int, ...] = ()
    widened: bool = False


def blocks(
    area: NDArray[Any], ancestor: NDArray[np.int64], *, in_order: bool = False
) -> list[Block]:
    """Blocks of a tree, a parent before its children.

    Parameters
    ----------
    area
        Shape (n,), not negative, children never more than their parent
        (:func:`dpframe.postprocess.nesting.areas`).
    ancestor
        int64, shape (n,): the parent of each node, -1 for none.
    in_order
        Whether children stand in the order of the nodes, and not the largest first.

    Returns
    -------
    list of Block
        ``inside`` is the place of the parent in this list, -1 for none. Where nothing is widened,
        values are the areas themselves.
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
        out += _divided(roots, area, whole, whole, whole, -1)
    at = 0
    whole = float(sum(block.value for block in out)) or 1.0
    while at < len(out):
        block = out[at]
        under = children.get(block.node, []) if not block.several else []
        if under:
            out += _divided(under, area, area[block.node].item(), block.value, whole, at)
        at += 1
    return out


def _divided(
    below: list[int],
    area: NDArray[Any],
    total: float,
    room: float,
    whole: float,
    inside: int,
) -> list[Block]:
    """Blocks of the children of a node: of ``total`` as counted, and ``room`` in the drawing."""
    scale = room / total if total and room != total else 1
    wide = {i: area[i].item() * scale for i in below}
    least, small, narrower = LEAST * whole, set[int](), 1.0
    while fell := {i for i in below if 0 < wide[i] * narrower < least} - small:
        small |= fell  # what others take can make the next one narrow
        limit = room if len(small) == sum(w > 0 for w in wide.values()) else SPARED * room
        ranked = sorted(small, key=lambda i: (-area[i], i))
        alone = _alone(ranked, area, int(limit / least))
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


def _alone(small: list[int], area: NDArray[Any], most: int) -> int:
    """How many of the small ones, largest first, get a block of their own; equal ones do alike."""
    if len(small) <= max(1, most):
        return len(small)
    fit = most - 1  # one is for those that are drawn together
    while fit > 0 and area[small[fit - 1]] == area[small[fit]]:
        fit -= 1
    return max(0, fit)
