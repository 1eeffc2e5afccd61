"""Addresses as sketches count them fastest: numbers of 128 bits in two words, never texts.

The bytes of a batch are read; the statement reads the texts that the readers of bytes do not know.
At the end each number becomes the one text that :mod:`dpframe.sources.stream_sql` has for the node,
so that a sketch is as if it had counted texts from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe._duck import VIEW, register_table
from dpframe._unicode import unicode
from dpframe.hierarchy._ip import MAPPED, Ip
from dpframe.hierarchy.stream_keys import INVALID_KEY, VALUE
from dpframe.sketches import MisraGries
from dpframe.sketches._counters import NUMBERS, keys_of_words
from dpframe.sources.address_bytes import parse_dotted, parse_groups
from dpframe.sources.record_leaves import add_key_steps

PIECE = 32_768
"""How many rows are counted at a time: their words stay in the processor's cache."""

ALL = 2**64 - 1

INVALID, FOUR, SIX = 0, 1, 2
"""What a text is: no address, IPv4 or IPv6."""

Words = NDArray[np.uint64]
"""Numbers of 128 bits, shape (n, 2), the lower word first."""

Kinds = NDArray[np.uint8]


class AddressCounter:
    """Counts batches of one column of texts into sketches of addresses."""

    def __init__(self, sketches: Sequence[MisraGries], hierarchy: Ip) -> None:
        self._hierarchy = hierarchy
        self._pairs = list(zip(sketches, _level_masks(hierarchy), strict=True))
        for sketch in sketches:
            sketch._rename("words", _words_of)

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        read = read_addresses(batch.column(0).cast(pa.large_string()), self._hierarchy)
        for start in range(0, batch.num_rows, PIECE):
            numbers, kinds = (column[start : start + PIECE] for column in read)
            alike = (kinds == kinds[0]).all()
            for sketch, (reached, masks) in self._pairs:
                here = slice(len(kinds) * reached[kinds[0]]) if alike else reached[kinds]
                own = kinds[here]
                words, missing = numbers[here] & masks[own[:1] if alike else own], own == INVALID
                words[missing] = ALL
                if len(words):
                    sketch._update_words(keys_of_words(words.view(np.int64), missing))

    def finish(self) -> None:
        """Make the sketches hold texts from here on."""
        for sketch, _ in self._pairs:
            sketch._rename("text", _texts_of_words)


def _level_masks(hierarchy: Ip) -> list[tuple[NDArray[np.bool_], Words]]:
    """For each level, by kind of text: whether it has a node there, and the mask of its prefix."""
    four, six = hierarchy.prefixes, hierarchy.prefixes6
    out = []
    for level in range(1, hierarchy.height + 1):
        invalid = level == 1 and hierarchy.on_invalid == "count"
        reached = [invalid, level <= len(four), level <= len(six)]
        bits = 128, 96 + four[min(level, len(four)) - 1], six[min(level, len(six)) - 1]
        whole = [(1 << n) - 1 << 128 - n for n in bits]
        masks = [(mask & ALL, mask >> 64) for mask in whole]
        out.append((np.array(reached), np.array(masks, np.uint64)))
    return out


def read_addresses(texts: pa.Array, hierarchy: Ip) -> tuple[Words, Kinds]:
    """Numbers and kinds of texts."""
    numbers, kinds = np.zeros((len(texts), 2), np.uint64), np.full(len(texts), FOUR, np.uint8)
    four, plain = parse_dotted(texts)
    if plain is None:
        numbers[:, 0] = four | np.uint64(MAPPED)
    else:
        numbers[plain, 0] = four | np.uint64(MAPPED)
        others = np.flatnonzero(~plain)
        words, whole = parse_groups(texts.take(pa.array(others)))
        known, odd = others[whole], others[~whole]
        numbers[known] = words[:, ::-1]
        kinds[known] = _address_kinds(words[:, 1], words[:, 0])
        if len(odd):
            read = _read_by_statement(texts.take(pa.array(odd)), hierarchy)
            numbers[odd], kinds[odd] = read
    if hierarchy.version is not None:
        kinds[kinds != (FOUR if hierarchy.version == 4 else SIX)] = INVALID
    return numbers, kinds


def _address_kinds(low: NDArray[np.uint64], high: NDArray[np.uint64]) -> Kinds:
    """IPv4 for 10.0.0.1 and for ::ffff:a00:1, which are one host."""
    mapped = (high == 0) & (low >> np.uint64(32) == 0xFFFF)
    return np.where(mapped, FOUR, SIX).astype(np.uint8)


def _read_by_statement(texts: pa.Array, hierarchy: Ip) -> tuple[Words, Kinds]:
    """Numbers and kinds of texts; the statement reads each different text once."""
    coded = texts.dictionary_encode("encode")
    rows = f"(SELECT i, c0 COLLATE C AS c0 FROM {VIEW})"
    query = add_key_steps(hierarchy, ("c0",), ("VARCHAR",), rows)
    halves = f"(k1 & {ALL}::UHUGEINT)::UBIGINT AS low, (k1 >> 64)::UBIGINT AS high"
    distinct = pa.table({"i": np.arange(len(coded.dictionary)), "c0": unicode(coded.dictionary)})
    with register_table(distinct, "the texts of a batch") as relation:
        found = relation.query(f"SELECT i, {halves} FROM {query} WHERE k1 IS NOT NULL", False)
    numbers = np.zeros((len(distinct), 2), np.uint64)
    kinds = np.zeros(len(distinct), np.uint8)
    places, low, high = (column.to_numpy() for column in found.columns)
    numbers[places, 0], numbers[places, 1] = low, high
    kinds[places] = _address_kinds(low, high)
    rows = coded.indices.to_numpy()
    return numbers[rows], kinds[rows]


def _texts_of_words(words: pa.Array) -> pa.Array:
    """The text for each node's words; for NULL the text of the node ``<invalid>``."""
    numbers = (None if w is None else int.from_bytes(w, "little") for w in words.to_pylist())
    texts = [INVALID_KEY if n is None else f"{VALUE}{n}" for n in numbers]
    return pa.array(texts, pa.large_string())


def _words_of(texts: pa.Array) -> pa.Array:
    """The words for each node's text; NULL for the node ``<invalid>``."""
    named = (None if t == INVALID_KEY else int(t.removeprefix(VALUE)) for t in texts.to_pylist())
    return pa.array([None if n is None else n.to_bytes(16, "little") for n in named], NUMBERS)
