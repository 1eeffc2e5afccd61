"""A fact: what a field of a receipt must be. The facts of noise follow from a table or a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from dpframe.verifier.laws import Law
from dpframe.verifier.numbers import ONE, exp_below, is_number
from dpframe.verifier.proof import Proof, positive_number
from dpframe.verifier.table_halves import has_halves
from dpframe.verifier.verdict import check_claim

DOUBLE = Fraction(1, 2**50)
"""Relative error of a double that was divided and multiplied."""

CLOSE = Fraction(1, 10**6)
"""Relative error of the square of a standard deviation that is written as a double."""


@dataclass(frozen=True)
class Fact:
    """What a field must be: the text of it, and whether a value is that."""

    text: str
    holds: Callable[[Any], bool]

    @classmethod
    def exactly(cls, proved: object) -> Fact:
        """This value and no other. True does not count as 1, and a missing field is None."""
        if isinstance(proved, Fraction) or is_number(proved):
            return cls.number(f"{float(proved):.12g}", lambda told: bool(told == proved))
        text = "none" if proved is None else repr(proved)
        return cls(text, lambda told: type(told) is type(proved) and bool(told == proved))

    @classmethod
    def number(cls, text: str, holds: Callable[[Any], bool]) -> Fact:
        """A finite number for which ``holds`` is true."""
        return cls(text, lambda told: is_number(told) and holds(told))

    @classmethod
    def near(cls, proved: Fraction, part: Fraction = CLOSE / 1000) -> Fact:
        """This number, up to a relative error ``part``."""
        text, room = f"{float(proved):.12g}", abs(proved) * part
        return cls.number(text, lambda told: abs(Fraction(told) - proved) <= room)

    @classmethod
    def root(cls, square: Fraction, part: Fraction = CLOSE) -> Fact:
        """A number from 0 on whose square is ``square``, up to a relative error ``part``."""
        text, room = f"{float(square) ** 0.5:g}", square * part
        return cls.number(
            text, lambda told: told >= 0 and abs(Fraction(told) ** 2 - square) <= room
        )

    @classmethod
    def at_least(cls, least: Fraction | int) -> Fact:
        """A number that is not below ``least``."""
        return cls.number(f"at least {float(least):g}", lambda told: bool(told >= least))

    @classmethod
    def whole_number(cls, most: int = 10**60) -> Fact:
        """A whole number from 1 on, below ``most``."""
        return cls("a whole number", lambda told: type(told) is int and 0 < told < most)

    @classmethod
    def size(cls, number: int) -> Fact:
        """A list of ``number`` entries."""
        return cls(
            f"a list of {number}", lambda told: isinstance(told, list) and len(told) == number
        )

    @classmethod
    def items(cls, facts: Sequence[Fact]) -> Fact:
        """A list with one value for each fact, for which the fact holds."""
        size, text = cls.size(len(facts)), ", ".join(fact.text for fact in facts)
        pairs = partial(zip, facts, strict=True)
        return cls(
            text,
            lambda told: size.holds(told) and all(fact.holds(one) for fact, one in pairs(told)),
        )


Receipt = Mapping[str, Any]
"""A receipt in which a field that is missing is None."""

Path = tuple[str | int, ...]
Want = str | Path
"""A field: its name, or the names of objects and numbers in lists that lead to the field."""

Facts = Iterable[tuple[Want, object]]
"""Fields, each with a fact or the value that it must be. Of several facts of one field all must
hold."""

FREE = Fact("anything", lambda told: True)
DECLARED = Fact("no truth value", lambda told: not isinstance(told, bool))
"""An argument: other fields, and the number of records in the proof, follow from it."""


def table_facts(path: Path, law: Law, units: int = 1, worth: Fraction = Fraction(1)) -> Facts:
    """The facts of noise from a table; ``units`` of the table are ``worth`` in the receipt."""
    yield (*path, "grid"), units
    yield (*path, "lowest"), Fact.near(law.lowest * worth / units, DOUBLE)
    yield (*path, "highest"), Fact.near(law.highest * worth / units, DOUBLE)
    yield (*path, "sd"), Fact.root(law.variance * (worth / units) ** 2)
    yield (*path, "halves"), Fact("a table of other halves", partial(has_halves, law))
    yield (*path, "family"), FREE


def scale_facts(path: Path, scale: Fraction, units: int = 1) -> Facts:
    """The facts of discrete Laplace noise over all integers, with ``scale`` in units:
    sd**2 = 1 / (2 sinh(1 / (2 scale))**2)."""
    root, ends = Fraction(exp_below(1 / (2 * scale)), ONE), {"lowest": None, "highest": None}
    check_claim(root > 1, f"noise of scale {float(scale):g} is too wide to be compared")
    told = Fact("no ends", lambda told: isinstance(told, dict) and ends.items() <= told.items())
    yield from ((path, told), ((*path, "grid"), units))
    yield from (((*path, name), end) for name, end in ends.items())
    yield (*path, "sd"), Fact.root(2 / (units * (root - 1 / root)) ** 2)
    yield (*path, "scale"), Fact(str(scale), lambda told: told is None or told == str(scale))
    yield (*path, "family"), FREE


def level_noise(path: Path, level: Mapping[str, Any], proof: Proof, units: int = 1) -> Facts:
    """The facts of the noise of a level that has a table, or a scale alone."""
    if "table" in level:
        return table_facts(path, proof.table(level["table"], "table"), units)
    return scale_facts(path, positive_number(level.get("scale"), "scale"), units)
