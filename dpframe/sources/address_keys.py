"""Addresses as sketches count them fastest: numbers of 128 bits in two words, never texts.

Compiled code reads the bytes of a batch; the statement reads the texts that this code does not
know. At the end each number becomes the one text that :mod:`dpframe.sources.stream_sql` has for the
node, so that a sketch is as if it had counted texts from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpframe._duck import VIEW, register_table
from dpframe._unicode import unicode
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._ip import Ip
from dpframe.hierarchy.stream_keys import INVALID_KEY, VALUE
from dpframe.sketches import MisraGries
from dpframe.sketches._counters import NUMBERS, WORDS_MISSING, WORDS_NUMBER, EncodedKeys

PIECE = 65_536
"""How many rows are counted at a time: their words stay in the processor's cache."""

ALL = 2**64 - 1


class AddressCounter:
    """Counts batches of one column of texts into sketches of addresses."""

    def __init__(self, sketches: Sequence[MisraGries], hierarchy: Ip) -> None:
        self._sketches, self._hierarchy = sketches, hierarchy
        for sketch in sketches:
            sketch._rename("words", _words_of)

    def update(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        from dpframe.sources import _address_kernels as kernels

        texts = batch.column(0).cast(pa.large_string())
        numbers = np.zeros((len(texts), 2), np.uint64)
        kinds = np.zeros(len(texts), np.uint8)
        if kernels.parse_addresses(*text_bytes_with_nulls(texts), numbers, kinds):
            odd = np.flatnonzero(kinds == kernels.ODD)
            numbers[odd], kinds[odd] = _read_by_statement(
                texts.take(pa.array(odd)), self._hierarchy
            )
        wanted = self._hierarchy.version
        if wanted is not None:
            kinds[kinds != wanted] = kernels.INVALID
        rows = min(PIECE, len(texts))
        words, places = np.empty((rows, 2), np.int64), np.empty(rows + 1, np.int64)
        long = np.empty(2 * rows, np.uint64)
        for start in range(0, len(texts), PIECE):
            piece = slice(start, start + PIECE)
            for sketch, (reached, masks) in zip(self._sketches, self._levels(), strict=True):
                n, used = kernels.level_words(
                    numbers[piece], kinds[piece], reached, masks, words, places, long
                )
                if n:
                    sketch._update_words(EncodedKeys(words[:n], places[: n + 1], long[:used]))

    def _levels(self) -> list[tuple[NDArray[np.uint8], NDArray[np.uint64]]]:
        """For each level: which address families occur, and their prefix masks."""
        four, six = self._hierarchy.prefixes, self._hierarchy.prefixes6
        out = []
        for level in range(1, self._hierarchy.height + 1):
            reached = np.zeros(10, np.uint8)
            if level == 1 and self._hierarchy.on_invalid == "count":
                reached[0] = WORDS_MISSING
            reached[4] = WORDS_NUMBER * (level <= len(four))
            reached[6] = WORDS_NUMBER * (level <= len(six))
            bits = 96 + four[min(level, len(four)) - 1], six[min(level, len(six)) - 1]
            whole = [(1 << n) - 1 << 128 - n for n in bits]
            masks = [half for mask in whole for half in (mask & ALL, mask >> 64)]
            out.append((reached, np.array(masks, np.uint64)))
        return out

    def finish(self) -> None:
        """Make the sketches hold texts from here on."""
        for sketch in self._sketches:
            sketch._rename("text", _texts_of_words)


def text_bytes_with_nulls(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of texts, and where each text begins, then where the last one ends. NULL becomes
    empty text."""
    if texts.null_count:
        texts = pc.fill_null(texts, "")
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    return np.frombuffer(data or b"", np.uint8), starts


def _read_by_statement(
    texts: pa.Array, hierarchy: Hierarchy
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Numbers and kinds of texts; the statement reads each different text once."""
    coded = texts.dictionary_encode("encode")
    query = f"(SELECT i, c0 COLLATE C AS c0 FROM {VIEW})"
    for step in hierarchy.key_steps(("c0",), ("VARCHAR",)):
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"(SELECT *, {added} FROM {query})"
    halves = f"(k1 & {ALL}::UHUGEINT)::UBIGINT AS low, (k1 >> 64)::UBIGINT AS high"
    distinct = pa.table({"i": np.arange(len(coded.dictionary)), "c0": unicode(coded.dictionary)})
    with register_table(distinct, "the texts of a batch") as relation:
        found = relation.query(f"SELECT i, {halves} FROM {query} WHERE k1 IS NOT NULL", False)
    numbers = np.zeros((len(distinct), 2), np.uint64)
    kinds = np.zeros(len(distinct), np.uint8)
    places, low, high = (column.to_numpy() for column in found.columns)
    numbers[places, 0], numbers[places, 1] = low, high
    kinds[places] = np.where((high == 0) & (low >> np.uint64(32) == 0xFFFF), 4, 6)
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
