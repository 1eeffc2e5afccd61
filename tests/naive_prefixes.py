"""A slow, obvious prefix tree: every device, every prefix, one dictionary; nothing is packed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dpframe.federated.encoding import Encoding

Fleet = Sequence[Mapping[str, int]]
"""The items of every device, and how often each occurs."""


def bits_needed(prefixes: int, limit: int, left: int) -> int:
    """The most bits that all prefixes together can be asked for within the limit."""
    return max(b for b in range(left + 1) if b == 0 or prefixes * 2**b <= limit)


def heavy(
    fleet: Fleet, encoding: Encoding, *, length: int, segments: Sequence[int], threshold: int
) -> dict[str, int]:
    """Items that so many devices hold at every depth, with the number of their holders.

    Every device holds one item, so that nothing depends on which it chooses. An item is found when
    the end symbol is read, or at the full length; prefixes below the threshold are not followed.
    """
    every = [item for items in fleet for item in items]
    held = [encoding.encode(item, length) for item in every if encoding.reads(item, length)]
    found: dict[str, int] = {}
    prefixes, depth = [""], 0
    for bits in segments:
        depth += bits
        holders = Counter(code[:depth] for code in held if code[: depth - bits] in prefixes)
        prefixes = []
        for prefix, n in sorted(holders.items()):
            said = encoding.decode(prefix, length)
            if n < threshold:
                continue
            if said.ended:
                found[said.label] = n
            else:
                prefixes.append(prefix)
    return found
