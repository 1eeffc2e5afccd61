"""Check the arguments of prefix trees once. A message gives name, value, rule and next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any

from dpframe.accounting.aggregate import FEWEST, Neighbours
from dpframe.asking.call_arguments import (
    CallArguments,
    Constraint,
    bounded_number,
    choice,
    column_name,
    delta_amount,
    known_choice,
    optional_whole,
    whole_number,
)
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.federated.encoding import (
    CHARACTERS,
    BinaryEncoding,
    Encoding,
    HuffmanEncoding,
    checked_items,
)
from dpframe.federated.server import Segments
from dpframe.mechanisms.prefix_tree import Search
from dpframe.questions.prefix_tree.prefix_numbers import (
    PREFIX_MECHANISMS,
    Accountant,
    PrefixRequest,
)

LONGEST_ITEM = 4096
"""The most bits of an item."""

LARGEST_LIMIT = 2**28
"""The most cells of an iteration: 1 GiB of sums."""


CONSTRAINTS: Mapping[str, Constraint] = {
    "mechanism": choice(PREFIX_MECHANISMS),
    "neighbours": choice(("replace", "remove")),
    "accountant": choice(("aggregate", "shuffle")),
    "selection": choice(("unweighted", "weighted")),
    "participation": partial(bounded_number, low=0.001, high=1.0),
    "false_positives": partial(bounded_number, low=0.001, high=10.0),
    "rounds": partial(whole_number, low=1, high=20),
    "length": partial(whole_number, low=1, high=LONGEST_ITEM),
    "limit": partial(whole_number, low=2, high=LARGEST_LIMIT),
    "delta": delta_amount,
}


def prefix_request(given: CallArguments) -> PrefixRequest:
    """Check the arguments, and return the request."""
    kind = given["mechanism"]
    near: Neighbours = given["neighbours"]
    book: Accountant = given["accountant"]
    if book == "shuffle" and (near != "replace" or kind != "reports"):
        raise ParameterError(
            "accountant='shuffle' needs neighbours='replace' and mechanism='reports'. Leave "
            "accountant out."
        )
    part = given["participation"]
    if part < 1 and kind != "reports":
        # central noise claims nothing for sampling
        raise ParameterError(
            f"participation ({part:g}) is for mechanism='reports'. Leave participation out."
        )
    deny = given["deny"]
    return PrefixRequest(
        hierarchy=given.column,
        user=_device_user(given["user"]),
        budget=given.budget,
        search=Search(
            encoding=encoding_from(given["encoding"], given["alphabet"], given["public"]),
            segments=_item_segments(given),
            rounds=given["rounds"],
            false_positives=given["false_positives"],
            weighted=given["selection"] == "weighted",
            conditioned=given["conditioned"],
            deny=() if deny is None else tuple(sorted(set(checked_items("deny", deny)))),
            taking_part=part,
            confidence=given["confidence"],
        ),
        mechanism=kind,
        accountant=book,
        neighbours=near,
        declared=optional_whole(FEWEST if kind == "reports" else 1, 10**10)(
            "devices", given["devices"]
        ),
    )


def encoding_from(encoding: object, alphabet: object, public: object) -> Encoding:
    """The encoding: the caller's object, or made from the caller's name, alphabet and public
    items."""
    if isinstance(encoding, Encoding):
        if alphabet is not None or public is not None:
            raise ParameterError(
                "alphabet and public are part of an encoding. Pass them to BinaryEncoding or "
                "HuffmanEncoding, or name the encoding."
            )
        return encoding
    kind = known_choice("encoding", encoding, ("binary", "huffman"))
    letters: Any = CHARACTERS if alphabet is None else alphabet
    if kind == "huffman":
        if public is None:
            raise ParameterError(
                "encoding='huffman' needs public=, to fit the code. Pass a list of public items, "
                "never the private data."
            )
        return HuffmanEncoding(checked_items("public", public), letters)
    if public is not None:
        raise ParameterError("public goes with encoding='huffman'. Leave it out for 'binary'.")
    return BinaryEncoding(letters)


def _device_user(user: object) -> str:
    if user is None:
        raise ParameterError("user is missing. Name the column that identifies a person.")
    return column_name("user", user)


def _item_segments(given: CallArguments) -> Segments:
    segments = given["segments"]
    bits, cells = given["length"], given["limit"]
    if isinstance(segments, str):
        kind = known_choice("segments", segments, ("adaptive", "even"))
        times = whole_number("iterations", given["iterations"], 1, min(bits, 100))
        make = Segments.adaptive if kind == "adaptive" else Segments.even
        return make(length=bits, iterations=times, limit=cells)
    if not isinstance(segments, Sequence) or isinstance(segments, bytes) or not segments:
        raise ParameterTypeError(
            f"segments must be 'adaptive', 'even' or a list; got {type(segments).__name__}."
        )
    for part in segments:
        if isinstance(part, bool) or not isinstance(part, Integral):
            raise ParameterTypeError(f"segments must be whole numbers of bits; one is {part!r}.")
    return Segments.of(tuple(int(part) for part in segments), length=bits, limit=cells)
