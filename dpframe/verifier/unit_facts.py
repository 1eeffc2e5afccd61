"""The unit of privacy of a receipt: its sentence, and its number of records or units of the
proof."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpframe.verifier.facts import DECLARED, Fact, Facts, Path
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

WITHIN_PERIOD = ", where all records of that user lie within one period"
"""End of the sentence for a user in a release that reads a period: the user may be in other periods
too."""


@dataclass(frozen=True, kw_only=True)
class ProtectedUnit:
    """The unit of privacy, which is added or removed: ``records`` of the game, divided into units
    if ``divided``, which together are ``worth`` in the numbers of the receipt. A receipt may say in
    one of ``ways`` how a user counts, and must say how many records if these are ``counted``."""

    sentence: str
    records: int = 1
    divided: bool = False
    worth: Fraction = Fraction(1)
    ways: tuple[str | None, ...] = (None,)
    counted: int | None = None

    def check_division(self, proof: Proof) -> int:
        """The units of one record or user in a game; 1 where nothing is divided."""
        units = proof.game.get("units", 1)
        check_claim(
            type(units) is int and units > 0 and (units > 1) == self.divided,
            f"{self.sentence} moves counts {'in parts' if self.divided else 'by whole numbers'}, "
            f"and the proof has {units!r} units of one",
        )
        return int(units)


def unit_facts(
    receipt: Mapping[str, Any], proof: Proof
) -> Generator[tuple[Path, Fact], None, ProtectedUnit]:
    """The facts of the unit, and the unit: the guarantee names exactly the unit that the arguments
    say, and the proof is of as many records."""
    kind, moves = proof.game.get("kind"), 1
    if kind == "normal":
        moves = proof.whole("moves", 1)
        check_claim(proof.group == 1, f"the proof has {moves} records in a group of {proof.group}")
    unit = _protected_unit(receipt, kind)
    check_claim(
        moves * proof.group == unit.records,
        f"the receipt has {unit.records} records of a user or row, the proof {moves * proof.group}",
    )
    if receipt["mechanism"].removesuffix("-universe") in OF_SKETCHES:
        yield ("user",), Fact.value(None)
    else:
        yield from (((name,), DECLARED) for name in ("user", "weight", "max_weight"))
    yield from sentence_facts(receipt, proof, unit.sentence)
    ways = unit.ways
    yield ("contribution",), Fact(" or ".join(map(str, ways)), lambda told: told in ways)
    if receipt["mechanism"] != "rounds":  # whose proof says of how many
        yield ("max_contributions",), Fact.value(unit.counted)
    return unit


def sentence_facts(receipt: Mapping[str, Any], proof: Proof, sentence: str) -> Facts:
    """The guarantee and the neighbours of a receipt are those of its arguments."""
    if receipt.get("period") is not None and receipt.get("user") is not None:
        sentence += WITHIN_PERIOD
    epsilon, delta = float(proof.epsilon), float(proof.delta)
    promise = f"({epsilon:g}, {delta:g})-" if delta else f"{epsilon:g}-"
    yield ("guarantee",), Fact.value(f"{promise}differential privacy for {sentence}")
    yield ("neighbours",), Fact.value(sentence)


def _protected_unit(receipt: Mapping[str, Any], kind: object) -> ProtectedUnit:
    """The unit of privacy, by the arguments in a receipt."""
    mechanism, user, way = (receipt.get(each) for each in ("mechanism", "user", "contribution"))
    mechanism, most = str(mechanism), receipt.get("max_contributions")
    if mechanism.removesuffix("-universe") in OF_SKETCHES:
        return _sketch_unit(mechanism, most)
    weight, worth = receipt.get("weight"), receipt.get("max_weight")
    everything = f"adding or removing one user ({user!r}) with all their records"
    if worth is not None:
        check_claim(is_number(worth) and worth > 0, f"the receipt has max_weight {worth!r}")
        ways = (None if user is None else "share",)
        if mechanism.startswith("tree-"):
            check_claim(type(worth) is int, f"the receipt has max_weight {worth!r}, not a number")
            sentence = f"adding or removing one row, which stands for at most {worth} records "
            sentence += f"(column {weight!r})"
            return ProtectedUnit(sentence=sentence, records=worth, ways=ways)
        text = str(int(worth)) if float(worth).is_integer() and worth < 1e16 else repr(worth)
        sentence = (
            f"adding or removing one row, which counts for at most {text} of column {weight!r}"
        )
        return ProtectedUnit(
            sentence=sentence if user is None else everything,
            divided=True,
            worth=Fraction(worth),
            ways=ways,
        )
    if weight is not None:
        sentence = "adding or removing one record, of which a row stands for as many as column "
        check_claim(user is None, f"the receipt has weight {weight!r} and user {user!r}")
        return ProtectedUnit(sentence=f"{sentence}{weight!r} says")
    if user is None:
        return ProtectedUnit(sentence="adding or removing one record")
    if mechanism in WHOLE_USERS:
        return ProtectedUnit(
            sentence=everything, ways=("share" if mechanism == "rollup" else "items",)
        )
    if way == "share":
        return ProtectedUnit(sentence=everything, divided=True, ways=("share",))
    check_claim(
        way == "items" or kind != "merged",
        "a merged game is one of different values, not of records",
    )
    number = _records_of_user(most)
    which = "of whose different values" if way == "items" else "of which"
    return ProtectedUnit(
        sentence=f"{everything}, {which} at most {number} are counted",
        records=1 if kind == "merged" else number,
        ways=("records", "items"),
        counted=number,
    )


def _sketch_unit(mechanism: str, most: object) -> ProtectedUnit:
    if mechanism.startswith("privacy-aware"):
        sentence = "adding or removing one user with all their items"
        return ProtectedUnit(sentence=sentence, ways=("records",))
    if most is None:
        return ProtectedUnit(sentence="adding or removing one record")
    number = _records_of_user(most)
    sentence = (
        f"adding or removing one user with all their records, of which there are at most {number} "
        "(promised by the caller)"
    )
    return ProtectedUnit(sentence=sentence, records=number, ways=("records",), counted=number)


def _records_of_user(most: object) -> int:
    check_claim(type(most) is int and most > 0, f"the receipt has max_contributions {most!r}")
    assert type(most) is int
    return most
