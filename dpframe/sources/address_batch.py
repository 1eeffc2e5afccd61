"""Read a batch of texts from their bytes: addresses become numbers.

A text that neither ``address_bytes`` nor ``group_bytes`` can read is *odd*: SQL reads it. A text
stands for one row, or for n rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe.hierarchy._ip import Ip
from dpframe.sources.address_bytes import Flags, parse_dotted
from dpframe.sources.group_bytes import Words, parse_groups

Numbers = NDArray[np.uint32]
Counts = NDArray[np.int64]

ALL = 2**64 - 1


@dataclass(slots=True, repr=False)
class AddressBatch:
    """Addresses of IPv4 and of IPv6 (higher word first), odd texts, and how many rows have no key.

    ``four_n``, ``six_n`` (None: one row each) and ``odd_n`` are how many rows each address or text
    stands for.
    """

    four: Numbers = field(default_factory=lambda: np.empty(0, np.uint32))
    four_n: Counts | None = None
    six: Words = field(default_factory=lambda: np.empty((0, 2), np.uint64))
    six_n: Counts | None = None
    odd: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    odd_n: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    invalid: int = 0


def read_batch(hierarchy: Ip, texts: pa.Array, n: Counts | None = None) -> AddressBatch:
    """Read texts that stand for ``n`` rows each. Without ``n``, each text stands for one row, and
    equal odd texts are joined."""
    out = AddressBatch()
    if texts.null_count:
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        out.invalid += _count_rows(~there, n)
        texts, n = texts.drop_null(), _select_counts(n, there)
    numbers, plain = parse_dotted(texts)
    if plain is None:
        out.four, out.four_n = numbers, n
    else:
        out.four, out.four_n = numbers, _select_counts(n, plain)
        _add_ipv6_and_odd(out, texts.filter(pa.array(~plain)), _select_counts(n, ~plain))
    return _drop_other_version(out, hierarchy.version)


def _add_ipv6_and_odd(out: AddressBatch, texts: pa.Array, n: Counts | None) -> None:
    words, whole = parse_groups(texts)
    known = _select_counts(n, whole)
    mapped = (words[:, 0] == 0) & (words[:, 1] >> np.uint64(32) == 0xFFFF)
    if mapped.any():  # 10.0.0.1 and ::ffff:a00:1 are one host
        numbers = words[mapped, 1].astype(np.uint32)  # the lower half of the word
        if known is not None and out.four_n is not None:
            out.four_n = np.concatenate([out.four_n, known[mapped]])
        out.four = np.concatenate([out.four, numbers])
        words, known = words[~mapped], _select_counts(known, ~mapped)
    out.six, out.six_n = words, known
    texts, n = texts.filter(pa.array(~whole)), _select_counts(n, ~whole)
    if n is None:
        texts, counts = pc.value_counts(texts).flatten()
        n = counts.to_numpy()
    out.odd, out.odd_n = texts, n


def _drop_other_version(out: AddressBatch, version: int | None) -> AddressBatch:
    """Drop the addresses of the IP version that is not ``version``, and count their rows as
    invalid."""
    if version == 6:
        out.invalid += _count_rows(np.ones(len(out.four), np.bool_), out.four_n)
        out.four, out.four_n = out.four[:0], _select_counts(out.four_n, slice(0))
    if version == 4:
        out.invalid += _count_rows(np.ones(len(out.six), np.bool_), out.six_n)
        out.six, out.six_n = out.six[:0], _select_counts(out.six_n, slice(0))
    return out


def finest_four(numbers: Numbers, hierarchy: Ip) -> Numbers:
    """IPv4 addresses with the bits below the finest prefix set to 0."""
    below = np.uint32(32 - hierarchy.prefixes[-1])
    return numbers >> below << below if below else numbers


def finest_six(words: Words, hierarchy: Ip) -> Words:
    """IPv6 addresses with the bits below the finest prefix set to 0."""
    below = 128 - hierarchy.prefixes6[-1]
    mask = (1 << 128) - (1 << below)
    return words & np.array([mask >> 64, mask & ALL], np.uint64) if below else words


def _select_counts(n: Counts | None, chosen: Flags | slice) -> Counts | None:
    return None if n is None else n[chosen]


def _count_rows(chosen: Flags, n: Counts | None) -> int:
    return int(chosen.sum() if n is None else n[chosen].sum())
