"""OptPrefixTree: frequent items of devices, found prefix by prefix from sums of reports.

Chadha et al., "Differentially Private Heavy Hitter Detection using Federated Analytics" (2023),
Algorithms 2 to 5. In each of T iterations every device chooses one of its items below the prefixes
that are followed, and reports its next bits; the server keeps the cells whose sums stand out. Items
whose end symbol is reached are found and no longer followed, which frees their devices for other
items. Further rounds start anew without the items found before (a deny list).

*Neighbours:* one device whose data are replaced, or removed; see accounting/aggregate.py. A device
sends T reports a round, whatever it holds.

*Deviations.* Segments also leave room for later iterations: an iteration asks for enough bits that
later iterations can finish, and the iteration before it follows no more prefixes than these bits
allow (the paper cuts the list before the last iteration only; items that end are not cut).
Thresholds are the limit of Algorithm 5 for small steps, with binomial tails (``least_kept`` in
:mod:`dpframe.federated`). Cells that no item can have (bits after the end symbol, or of no
character) are dropped. Sums are drawn cell by cell, from exactly the law of adding up the reports
(``ReportSums`` there).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpframe.federated import Channel, Population, Segments, largest
from dpframe.federated.encoding import Encoding, next_bits
from dpframe.noise import PublicRandom, device_choices


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a tree is searched: everything except the devices and the channel.

    ``deny`` are items that nobody is to report; ``taking_part`` is the chance with which a device
    takes part in an iteration.
    """

    encoding: Encoding
    segments: Segments
    rounds: int
    false_positives: float
    weighted: bool
    conditioned: bool
    deny: tuple[str, ...]
    taking_part: float
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class FoundItems:
    """Items, with estimates of how many devices reported them when they were found.

    ``text`` (list), ``count`` (float64), ``lower`` and ``upper`` (int64), all of one length, in the
    order in which they were found.
    """

    text: list[str]
    count: NDArray[np.float64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


@dataclass(slots=True)
class _Findings:
    """The items found so far, one batch an iteration."""

    text: list[str] = field(default_factory=list)
    count: list[NDArray[np.float64]] = field(default_factory=lambda: [np.zeros(0)])
    lower: list[NDArray[np.int64]] = field(default_factory=lambda: [np.zeros(0, np.int64)])
    upper: list[NDArray[np.int64]] = field(default_factory=lambda: [np.zeros(0, np.int64)])


def run(
    devices: Population,
    channel: Channel,
    search: Search,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> FoundItems:
    """Search the tree. The only noisy step."""
    random = device_choices()
    denied = _items_among(devices, search.encoding, search.segments.length, search.deny)
    shown = (search.encoding.label_of(item, search.segments.length) for item in search.deny)
    known = {label for label in shown if label is not None}
    found = _Findings()
    for number in range(1, search.rounds + 1):
        say(f"round {number} of {search.rounds}")
        denied |= _one_round(devices, channel, search, denied, known, found, random, say)
    return FoundItems(
        text=found.text,
        count=np.concatenate(found.count),
        lower=np.concatenate(found.lower),
        upper=np.concatenate(found.upper),
    )


def _one_round(
    devices: Population,
    channel: Channel,
    search: Search,
    denied: NDArray[np.bool_],
    known: set[str],
    found: _Findings,
    random: PublicRandom,
    say: Callable[[str], None],
) -> NDArray[np.bool_]:
    """Run one round and add its items to ``found``; return a mask of the devices' items that the
    round found."""
    prefixes, depth = [""], 0
    live = np.where(denied, -1, 0).astype(np.int64)  # item -> number of its prefix
    done = np.zeros(len(live), dtype=np.bool_)
    for step in range(1, search.segments.iterations + 1):
        bits = search.segments.bits(step, depth, len(prefixes))
        say(f"iteration {step}: {len(prefixes):,} prefixes, {bits} bits below each")
        cell = (live << bits) | next_bits(devices.packed, depth, bits)
        taking_part = _taking_part(devices.devices, search.taking_part, random)
        here = devices.devices if taking_part is None else int(taking_part.sum())
        items = devices.choices(
            live >= 0 if search.conditioned else ~denied,
            taking_part=taking_part,
            weighted=search.weighted,
            random=random,
        )
        cells = cell[items[live[items] >= 0]]
        depth += bits
        sums = channel.sums(cells, len(prefixes) << bits, here)
        least = channel.least(sums, here, search.false_positives)
        kept = np.flatnonzero(sums >= least)
        texts, ended, followed = _read_cells(prefixes, kept, bits, search, known)
        followed = largest(followed, sums, search.segments.capacity(step, depth))
        if texts:
            seen = sums[ended].astype(np.int64)
            lower, upper = channel.interval(seen, least, here, search.confidence)
            found.text += texts
            found.count.append(channel.estimate(seen, here))
            found.lower.append(lower)
            found.upper.append(upper)
        known.update(texts)
        done |= (live >= 0) & np.isin(cell, ended)
        live = _item_prefixes(cell, live, followed)
        prefixes = [prefixes[c >> bits] + _cell_bits(c, bits) for c in followed.tolist()]
        if not prefixes or depth == search.segments.length:
            break
    return done


def _read_cells(
    prefixes: Sequence[str],
    kept: NDArray[np.int64],
    bits: int,
    search: Search,
    known: set[str],
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the texts of items that end in kept cells and are not ``known``, the cells of these
    items, and the cells to follow."""
    texts, ended, followed = [], [], []
    length = search.segments.length
    for c in kept.tolist():
        said = search.encoding.decode(prefixes[c >> bits] + _cell_bits(c, bits), length)
        if not said.possible:
            continue
        if not said.ended:
            followed.append(c)
        elif said.label not in known:
            texts.append(said.label)
            ended.append(c)
    return texts, np.array(ended, dtype=np.int64), np.array(followed, dtype=np.int64)


def _cell_bits(cell: int, bits: int) -> str:
    return format(cell & ((1 << bits) - 1), f"0{bits}b")


def _item_prefixes(
    cell: NDArray[np.int64], live: NDArray[np.int64], followed: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the number of the prefix that each item is now below, or -1; ``followed`` ascends."""
    if not len(followed):
        return np.full(len(live), -1, dtype=np.int64)
    place = np.searchsorted(followed, cell).clip(0, len(followed) - 1)
    return np.where((live >= 0) & (followed[place] == cell), place, -1)


def _items_among(
    devices: Population, encoding: Encoding, length: int, items: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which items of the devices are among ``items``."""
    packed, readable = encoding.pack_items(items, length)
    wanted = {row.tobytes() for row in packed[readable]}
    return np.array([row.tobytes() in wanted for row in devices.packed], dtype=np.bool_)


def _taking_part(n: int, chance: float, random: PublicRandom) -> NDArray[np.bool_] | None:
    return None if chance == 1 else random.random(n) < chance
