"""Room for small blocks of a tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpframe.pages.plot import LEAST, Block, blocks
from tests.members import tries


def tree(parents: list[int], own: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Areas that hold their children, and the parent of each; node 0 is the only root."""
    ancestor = np.array([-1, *(p % (i + 1) for i, p in enumerate(parents))], dtype=np.int64)
    area = np.array(own[: len(ancestor)], dtype=np.int64)
    for node in range(len(ancestor) - 1, 0, -1):
        inside = area[ancestor == ancestor[node]].sum()
        area[ancestor[node]] = max(area[ancestor[node]], inside)
    return area, ancestor


def inside(drawn: list[Block], at: int) -> list[Block]:
    return [block for block in drawn if block.inside == at]


@tries(60, 2000)
@given(
    parents=st.lists(st.integers(0, 40), min_size=1, max_size=40),
    own=st.lists(st.sampled_from([0, 1, 1, 2, 5, 30, 900]), min_size=41, max_size=41),
    in_order=st.booleans(),
)
def test_children_lie_in_their_parents_and_every_node_is_there_once(
    parents: list[int], own: list[int], in_order: bool
) -> None:
    """Law: a node is drawn, in a block of several, or below one; equal siblings alike."""
    area, ancestor = tree(parents, own)
    drawn = blocks(area, ancestor, in_order=in_order)
    held = [node for block in drawn for node in (block.several or (block.node,))]
    assert len(held) == len(set(held))
    above = {node: block.inside for block in drawn for node in (block.several or (block.node,))}
    for node in range(1, len(area)):
        if node in above:
            assert drawn[above[node]].node == ancestor[node]
            assert not drawn[above[node]].several
    together = {node for block in drawn for node in block.several}
    hidden = set(range(len(area))) - set(held)
    for node in hidden:
        assert ancestor[node] in together | hidden
    for at, block in enumerate(drawn):
        below = inside(drawn, at)
        assert sum(b.value for b in below) <= block.value * (1 + 1e-9)
        single = [b for b in below if not b.several]
        for b in single:
            for other in single:
                if area[b.node] == area[other.node]:
                    assert b.value == other.value
                elif area[b.node] > area[other.node]:
                    assert b.value >= other.value * (1 - 1e-9)


def test_a_child_of_ninety_percent_leaves_room_to_read_its_siblings() -> None:
    """Law: few have their least width, many share a block; to scale where nothing is small."""
    few = np.array([1000, 910, 30, 20, 10, 5])
    root = np.array([-1, 0, 0, 0, 0, 0])
    drawn = blocks(few, root)
    assert [block.node for block in drawn] == [0, 1, 2, 3, 4, 5]
    assert all(block.value >= LEAST * 1000 for block in drawn)
    many = np.array([1000, 910, *[3] * 30])
    drawn = blocks(many, np.array([-1, *[0] * 31]))
    assert [block.several for block in drawn] == [(), (), tuple(range(2, 32))]
    assert drawn[2].value >= 90
    even = np.array([100, 50, 30])
    assert [block.value for block in blocks(even, np.array([-1, 0, 0]))] == [100, 50, 30]
