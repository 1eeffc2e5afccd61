"""Arguments of prefix trees, checked once: name, value, rule, next step."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, cast

from dpframe.accounting.aggregate import FEWEST, Neighbours
from dpframe.asking.given import (
    DELTA,
    EPSILON,
    amount,
    chosen,
    column_name,
    flag,
    number,
    whole,
)
from dpframe.budget import Budget
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.federated.encoding import (
    CHARACTERS,
    BinaryEncoding,
    Encoding,
    HuffmanEncoding,
    checked_items,
)
from dpframe.federated.segments import Segments
from dpframe.mechanisms.prefix_tree import Search
from dpframe.questions.hhh.heavy_hitters import flat_hierarchy
from dpframe.questions.prefix_tree.plan import (
    PREFIX_MECHANISMS,
    Accountant,
    PrefixAsked,
    PrefixMechanism,
)

LONGEST = 4096
"""Bits of an item."""

LARGEST_LIMIT = 2**28
"""Cells of an iteration: 1 GiB of sums."""


def prefix_asked(
    column: object,
    *,
    user: object,
    epsilon: object,
    delta: object,
    devices: object,
    iterations: object,
    rounds: object,
    length: object,
    limit: object,
    segments: object,
    false_positives: object,
    selection: object,
    conditioned: object,
    encoding: object,
    alphabet: object,
    public: object,
    deny: object,
    participation: object,
    mechanism: object,
    accountant: object,
    neighbours: object,
    confidence: object,
) -> PrefixAsked:
    """What is asked for, from unchecked arguments."""
    kind = cast(PrefixMechanism, chosen("mechanism", mechanism, PREFIX_MECHANISMS))
    near = cast(Neighbours, chosen("neighbours", neighbours, ("replace", "remove")))
    book = cast(Accountant, chosen("accountant", accountant, ("aggregate", "shuffle")))
    if book == "shuffle" and (near != "replace" or kind != "reports"):
        raise ParameterError(
            "accountant='shuffle' is for neighbours='replace' and mechanism='reports': leave "
            "accountant out."
        )
    part = number("participation", participation, 0.001, 1.0)
    if part < 1 and kind != "reports":
        raise ParameterError(
            f"participation ({part:g}) is for mechanism='reports': central noise claims nothing "
            "for sampling."
        )
    fewest = FEWEST if kind == "reports" else 1
    return PrefixAsked(
        hierarchy=flat_hierarchy(column),
        user=_user(user),
        budget=Budget(
            epsilon=amount("epsilon", epsilon, *EPSILON, "for example 1.0"),
            delta=amount("delta", delta, *DELTA, "well below one over the number of people"),
        ),
        search=Search(
            encoding=encoding_from(encoding, alphabet, public),
            segments=_segments(segments, length, iterations, limit),
            rounds=whole("rounds", rounds, 1, 20),
            false_positives=number("false_positives", false_positives, 0.001, 10.0),
            weighted=chosen("selection", selection, ("unweighted", "weighted")) == "weighted",
            conditioned=flag("conditioned", conditioned),
            deny=() if deny is None else tuple(sorted(set(checked_items("deny", deny)))),
            taking_part=part,
            confidence=number("confidence", confidence, 0.5, 0.999999),
        ),
        mechanism=kind,
        accountant=book,
        neighbours=near,
        declared=None if devices is None else whole("devices", devices, fewest, 10**10),
    )


def encoding_from(encoding: object, alphabet: object, public: object) -> Encoding:
    """An encoding of our own, or one by name."""
    if isinstance(encoding, Encoding):
        if alphabet is not None or public is not None:
            raise ParameterError(
                "alphabet and public are part of an encoding: give them to BinaryEncoding or "
                "HuffmanEncoding, or name the encoding."
            )
        return encoding
    kind = chosen("encoding", encoding, ("binary", "huffman"))
    letters: Any = CHARACTERS if alphabet is None else alphabet
    if kind == "huffman":
        if public is None:
            raise ParameterError(
                "encoding='huffman' needs public=, a list of items that is public: the code is "
                "fitted on it. Never the private data."
            )
        return HuffmanEncoding(checked_items("public", public), letters)
    if public is not None:
        raise ParameterError("public goes with encoding='huffman'; 'binary' is fitted on nothing.")
    return BinaryEncoding(letters)


def _user(user: object) -> str:
    if user is None:
        raise ParameterError(
            "user is missing: name the column that identifies a person, whose items are on one "
            "device."
        )
    return column_name("user", user)


def _segments(segments: object, length: object, iterations: object, limit: object) -> Segments:
    bits = whole("length", length, 1, LONGEST)
    cells = whole("limit", limit, 2, LARGEST_LIMIT)
    if isinstance(segments, str):
        kind = chosen("segments", segments, ("adaptive", "even"))
        times = whole("iterations", iterations, 1, min(bits, 100))
        make = Segments.adaptive if kind == "adaptive" else Segments.even
        return make(length=bits, iterations=times, limit=cells)
    if not isinstance(segments, Sequence) or not segments:
        raise ParameterTypeError(
            "segments must be 'adaptive', 'even' or a list of numbers of bits; got "
            f"{type(segments).__name__}."
        )
    for part in segments:
        if isinstance(part, bool) or not isinstance(part, Integral):
            raise ParameterTypeError(f"segments must be whole numbers of bits; one is {part!r}.")
    return Segments.of(tuple(int(part) for part in segments), length=bits, limit=cells)
