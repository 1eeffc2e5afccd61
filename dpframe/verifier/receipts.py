"""Compare a receipt with the facts that its proof shows.

Every field of a receipt is compared with a fact, or free by its name, or unknown. An unknown field
is a claim that nobody checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpframe.verifier.facts import Fact, Path
from dpframe.verifier.proof import Proof
from dpframe.verifier.receipt_facts import receipt_facts
from dpframe.verifier.verdict import NotVerifiedError, check_claim

FREE_FIELDS: Mapping[str, str] = {
    "": "release release_id time version replayed data paper counts hierarchy levels confidence "
    "intervals released_confidence budget notices card frame frame_changed frame_extract "
    "noise_source "
    "proof proof.version proof.sha256 proof.text proof.why proof.question proof.arguments "
    "ledger ledger.id ledger.accountant ledger.epsilon ledger.delta ledger.left_epsilon "
    "ledger.left_delta ledger.protects ledger.charged_epsilon ledger.charged_delta steps "
    "ledger.reservation period period.column period.text period.zone "
    "period.start period.end period.read order dimensions",
    "tree-": "level_weights consistent",
    "stream": "counters method",
    "offline-gaussian": "remainder",
    "synthetic-": "columns width split",
    "prefix-": "accountant encoding length limit segments false_positives selection conditioned "
    "left_out denied",
    **dict.fromkeys(
        ("misra-gries", "merged-", "privacy-aware-misra-gries", "streaming"),
        "sketches sensitivity records sketch_error unpublished_at_most release_number",
    ),
}
"""Fields that say nothing of privacy or noise, by the beginning of a mechanism's name. They are
names, sentences, times and versions, arguments that no noise depends on, and what was released."""

FREE_PATHS = ("proof.arguments.", "ledger.reservation.", "levels_measured.")
"""Beginnings of free paths: the arguments from which the proof can be made again, what a ledger
says of its reservation, and the weight of every level that was measured, from which scales
follow."""


def check_receipt(receipt: Mapping[str, Any], proof: Proof) -> None:
    """Check that every leaf of the receipt follows from the proof or is free: FailedClaimError
    names a leaf that says something else, NotVerifiedError a leaf that nobody knows.

    A fact is compared before the next one is derived, which may rely on it.
    """
    plain = PlainReceipt(_plain(receipt))
    fields, compared = dict(_fields(plain)), set[Path]()
    for place, proved in receipt_facts(plain, proof):
        path = (place,) if isinstance(place, str) else place
        fact = proved if isinstance(proved, Fact) else Fact.exactly(proved)
        told, name = fields.get(path), ".".join(map(str, path))
        text = f"the receipt has {name} {told!r:.200}, the proof {fact.text:.200}"
        check_claim(fact.holds(told), text)
        compared.add(path)
    mechanism = str(plain["mechanism"])
    starts = (names for start, names in FREE_FIELDS.items() if mechanism.startswith(start))
    free = {name for names in starts for name in names.split()}
    for path, value in fields.items():
        name = ".".join(each for each in path if isinstance(each, str))
        known = path in compared or name in free or f"{name}.".startswith(FREE_PATHS)
        if not known and not _parts(value):
            raise NotVerifiedError(
                f"the receipt has {name!r}, which this verifier does not know: a later version "
                f"of dpframe than {plain['version']!r} may have written it"
            )


class PlainReceipt(dict[str, Any]):
    """A receipt in which a field that is missing is None."""

    def __missing__(self, name: str) -> None:
        return None


def _plain(value: Any) -> Any:
    """A value of a receipt as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inside) for name, inside in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value


def _parts(value: Any) -> list[tuple[str | int, Any]]:
    """What is in an object, or in a list of objects, by name or number; else nothing."""
    if isinstance(value, dict):
        return [*value.items()]
    objects = isinstance(value, list) and any(isinstance(one, dict) for one in value)
    return [*enumerate(value)] if objects else []


def _fields(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything inside a value, objects too, each with its path."""
    for name, inside in _parts(value):
        yield (*path, name), inside
        yield from _fields(inside, (*path, name))
