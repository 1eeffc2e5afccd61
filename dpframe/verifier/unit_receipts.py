"""The unit of privacy of a receipt: its sentence, and its number of records or units of the
proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import check_claim

WHOLE_USERS = ("rounds", "items", "tree-items-laplace", "tree-items-gaussian", "rollup")
"""Mechanisms whose games are about a user with all their records."""

OF_SKETCHES = (
    "misra-gries",
    "misra-gries-standard",
    "merged-sum",
    "merged-bounded",
    "privacy-aware-misra-gries",
)
"""Mechanisms of sketches that an application keeps: there users have no column."""


@dataclass(frozen=True, kw_only=True)
class ProtectedUnit:
    """The unit of privacy, which is added or removed: ``records`` of the game, divided into units
    if ``divided``, which together are ``worth`` in the numbers of the receipt."""

    sentence: str
    records: int = 1
    divided: bool = False
    worth: Fraction = Fraction(1)


def protected_unit(receipt: Mapping[str, Any], kind: object) -> ProtectedUnit:
    """The unit of privacy, by the arguments in a receipt."""
    mechanism, user = str(receipt.get("mechanism")), receipt.get("user")
    if mechanism.removesuffix("-universe") in OF_SKETCHES:
        return _sketch_unit(mechanism, receipt.get("max_contributions"))
    weight, most = receipt.get("weight"), receipt.get("max_weight")
    everything = f"adding or removing one user ({user!r}) with all their records"
    if most is not None:
        return _weighted_unit(mechanism, weight, most, None if user is None else everything)
    if weight is not None:
        sentence = (
            "adding or removing one record, of which a row stands for as many as column "
            f"{weight!r} says"
        )
        return ProtectedUnit(sentence=sentence)
    if user is None:
        number = receipt.get("max_contributions")
        check_claim(number is None, f"the receipt has {number!r} records of a user, and no user")
        return ProtectedUnit(sentence="adding or removing one record")
    if receipt.get("contribution") == "share" and mechanism not in WHOLE_USERS:
        return ProtectedUnit(sentence=everything, divided=True)
    if mechanism in WHOLE_USERS:
        return ProtectedUnit(sentence=everything)
    number, items = _records_of_user(receipt), receipt.get("contribution") == "items"
    check_claim(
        items or kind != "merged", "a merged game is one of different values, not of records"
    )
    which = "of whose different values" if items else "of which"
    sentence = f"{everything}, {which} at most {number} are counted"
    return ProtectedUnit(sentence=sentence, records=1 if kind == "merged" else number)


def _weighted_unit(mechanism: str, weight: object, most: object, user: str | None) -> ProtectedUnit:
    """The unit of a release with weights: a row of tree counts stands for records; elsewhere it is
    measured."""
    check_claim(is_number(most) and most > 0, f"the receipt has max_weight {most!r}")
    assert is_number(most)
    if mechanism.startswith("tree-"):
        sentence = (
            f"adding or removing one row, which stands for at most {most} records "
            f"(column {weight!r})"
        )
        check_claim(
            type(most) is int, f"a row stands for {most!r} records, which is no whole number"
        )
        return ProtectedUnit(sentence=sentence, records=int(most))
    told = str(int(most)) if float(most).is_integer() and most < 1e16 else repr(most)
    sentence = f"adding or removing one row, which counts for at most {told} of column {weight!r}"
    return ProtectedUnit(sentence=user or sentence, divided=True, worth=Fraction(most))


def _sketch_unit(mechanism: str, most: object) -> ProtectedUnit:
    if mechanism.startswith("privacy-aware"):
        return ProtectedUnit(sentence="adding or removing one user with all their items")
    if most is None:
        return ProtectedUnit(sentence="adding or removing one record")
    number = _records_of_user({"max_contributions": most})
    sentence = (
        f"adding or removing one user with all their records, of which there are at most {number} "
        "(promised by the caller)"
    )
    return ProtectedUnit(sentence=sentence, records=number)


def _records_of_user(receipt: Mapping[str, Any]) -> int:
    most = receipt.get("max_contributions")
    check_claim(type(most) is int and most > 0, f"the receipt has {most!r} records of a user")
    return int(most or 0)


def check_unit(receipt: Mapping[str, Any], proof: Proof) -> ProtectedUnit:
    """Check that the guarantee names exactly the unit that the arguments say, and that the proof is
    of as many records; `check_division` checks how it divides them."""
    kind = proof.game.get("kind")
    unit = protected_unit(receipt, kind)
    check_sentence(receipt, unit.sentence)
    _check_contribution(receipt)
    own = proof.whole("moves", 1) * proof.group if kind == "normal" else proof.group
    check_claim(
        own == unit.records and (kind != "normal" or proof.group == 1),
        f"the receipt has {unit.records} records of a user or row, the proof {own}",
    )
    return unit


def _check_contribution(receipt: Mapping[str, Any]) -> None:
    """Check that a receipt says how a user counts only where there are users, and how many records
    only where records are counted."""
    mechanism, user = str(receipt.get("mechanism")), receipt.get("user")
    number, told = receipt.get("max_contributions"), receipt.get("contribution")
    if mechanism.removesuffix("-universe") in OF_SKETCHES:
        check_claim(user is None, "the users of a sketch have no column")
        sets = mechanism.startswith("privacy-aware")
        check_claim(not sets or number is None, f"the receipt has {number!r} records of a user")
        users = number is not None or sets
        ways: tuple[object, ...] = ("records",) if users else (None,)
    elif user is None:
        ways = (None,)
    elif receipt.get("max_weight") is not None or mechanism == "rollup":
        ways = ("share",)
    else:
        ways = ("items",) if mechanism in WHOLE_USERS else ("share", "records", "items")
    check_claim(
        told in ways, f"the receipt has contribution {told!r}, which {mechanism!r} does not do"
    )
    counted = ("records", "items") if mechanism not in WHOLE_USERS else ()
    check_claim(
        number is None or told in counted or mechanism == "rounds",
        f"the receipt has {number!r} records of a user, which nothing counts",
    )


WITHIN_PERIOD = ", where all records of that user lie within one period"
"""End of the sentence for a user in a release that reads a period: the user may be in other periods
too."""


def check_sentence(receipt: Mapping[str, Any], sentence: str) -> None:
    """Check that the guarantee and the neighbours of the receipt are those of its arguments."""
    if receipt.get("period") is not None and receipt.get("user") is not None:
        sentence += WITHIN_PERIOD
    told = str(receipt.get("guarantee")).partition("differential privacy for ")[2]
    check_claim(
        told == sentence == receipt.get("neighbours"),
        f"the receipt's guarantee is for {told!r}, and its arguments are those for {sentence!r}",
    )


def check_division(unit: ProtectedUnit, proof: Proof) -> int:
    """The units of one record or user in a game; 1 where nothing is divided."""
    units = proof.game.get("units", 1)
    check_claim(
        type(units) is int and units > 0 and (units > 1) == unit.divided,
        f"{unit.sentence} moves counts {'in parts' if unit.divided else 'by whole numbers'}, and "
        f"the proof has {units!r} units of one",
    )
    return int(units)
