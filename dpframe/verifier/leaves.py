"""The leaves of a receipt: each is compared with the proof, free by its name, or unknown.

A check reads what it compares, and reading is noted. What no check read is a claim that nobody
checked, unless it is in ``FREE_FIELDS``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
    "tree-": "level_weights consistent keys",
    "rollup": "keys",
    "streaming": "counters sketch_error",
    "offline-gaussian": "remainder",
    "synthetic-": "columns width split",
    "prefix-": "accountant encoding length limit segments false_positives selection conditioned "
    "left_out denied",
    **dict.fromkeys(
        ("misra-gries", "merged-", "privacy-aware-misra-gries"),
        "sketches sensitivity records sketch_error unpublished_at_most release_number",
    ),
}
"""Fields that say nothing of privacy or noise, by the beginning of a mechanism's name. They are
names, sentences, times and versions, arguments that no noise depends on, and what was released."""

LAW_FIELDS = ("noise", "whole_counts", "measures")
"""Fields that tell laws. There the name of a family, and how intervals follow from it, are free:
ends and standard deviation are compared."""

BOOLEAN_FIELDS = frozenset({"remainder", "adds_up", "segments"})
"""Compared fields that are true or false. Elsewhere Python would take true for 1."""


class Facts(Mapping[str, Any]):
    """An object of a receipt that notes which of its fields are read."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = {str(name): _track_reads(value) for name, value in fields.items()}
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = self._fields[name]
        self._read.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return "an object"

    def leaves(self, above: str = "") -> Iterator[tuple[str, Any, bool]]:
        """The path of each field that holds no object, its value, and whether it was read."""
        for name, value in self._fields.items():
            objects = [value] if isinstance(value, Facts) else value
            if isinstance(objects, list) and any(isinstance(each, Facts) for each in objects):
                for each in objects:
                    if isinstance(each, Facts):
                        yield from each.leaves(f"{above}{name}.")
            elif not isinstance(value, Facts) or not value:
                yield f"{above}{name}", value, name in self._read


def _track_reads(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Facts(value)
    return [_track_reads(each) for each in value] if isinstance(value, list | tuple) else value


def check_leaves(facts: Facts, mechanism: str) -> None:
    """Raise NotVerifiedError for a leaf that is neither compared nor free for the mechanism, and
    FailedClaimError for true or false in the place of a number or a text."""
    free = {
        name
        for of, names in FREE_FIELDS.items()
        if mechanism.startswith(of)
        for name in names.split()
    }
    for path, value, read in facts.leaves():
        name, above = path.rpartition(".")[2], path.partition(".")[0]
        named = name in ("family", "intervals") and above in LAW_FIELDS
        known = path in free or named or path.startswith(FREE_PATHS)
        if not read and not known:
            raise NotVerifiedError(
                f"the receipt has {path!r}, which this verifier does not know: a later version "
                f"of dpframe than {facts.get('version')!r} may have written it"
            )
        check_claim(
            not read or name in BOOLEAN_FIELDS or not isinstance(value, bool),
            f"the receipt has {value!r} as {path!r}",
        )


FREE_PATHS = ("proof.arguments.", "ledger.reservation.", "levels_measured.")
"""Beginnings of free paths: what the proof is planned from again, what a ledger says of its
reservation, and the part of the noise of every level, from which scales follow."""
