"""A fact: what a field of a receipt must be. The facts of noise follow from a table or a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from dpframe.verifier.numbers import NOTHING, ONE, TABLE, exp_below, is_number
from dpframe.verifier.proof import BrokenProofError, Law, Proof, positive_number
from dpframe.verifier.verdict import check_claim

# A table fits its halves if its weights, over the weight beside the mode, have the ratios of the
# densities, up to a relative error of 1e-10 and the rounding of weights. They are compared at the
# mode, at eight places as far as weights are large, at the last weight, and one place after it.


SHAPES = {"geometric": 1, "gaussian": 1, "rounded gaussian": 1, "laplace-gaussian": 2}
"""Shapes of a half, each with its number of scales."""

LARGE = 1 << 30
"""Weights from here on are right to nine digits."""

WEIGHT_ERROR = Fraction(1, 10**10)
"""Relative error of a weight, besides its rounding: densities are floats right to 11 digits."""

MODE_ERROR = 1 << 22
"""Error of the likeliest weight, which gets what rounding leaves over, in units; one unit for each
weight comes on top."""

FINE = 1 << 512
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class TableHalf:
    """One half of a table: its density at z = 0 .. bound from the mode outwards."""

    shape: str
    scales: tuple[Fraction, ...]
    bound: int

    @classmethod
    def read(cls, told: object) -> TableHalf:
        """Read a half; BrokenProofError if it is none."""
        shape, *scales, bound = told if isinstance(told, list) and len(told) > 2 else [None, None]
        if SHAPES.get(shape if isinstance(shape, str) else "") != len(scales):
            raise BrokenProofError(f"the receipt has a half {told!r} of no known shape")
        if type(bound) is not int or bound < 0:
            raise BrokenProofError(f"a half needs a whole number from 0 on as bound; got {bound!r}")
        if not all(map(is_number, scales)):
            raise BrokenProofError(f"a half needs numbers as scales; got {scales!r}")
        return cls(str(shape), tuple(positive_number(each, "scale") for each in scales), bound)

    def density(self, z: int) -> int:
        """The density at z, up to a factor, in parts of ONE."""
        scale, last = self.scales[0], self.scales[-1]
        if self.shape == "geometric":
            return exp_below(-z / scale)
        if self.shape == "gaussian":
            return exp_below(-z * z / (2 * scale**2))
        if self.shape == "laplace-gaussian":
            return exp_below(-z / scale - z * z / (2 * last**2))
        return _cell_mass(z, scale)

    def fits(self, weights: Sequence[int], rest: int) -> bool:
        """Whether these weights, from the mode outwards, are the density, cut off where it rounds
        to 0; ``rest`` is how far the mode may be off."""
        last = len(weights) - 1
        if not self.bound or last > self.bound:
            return last <= self.bound
        far = max((z for z, weight in enumerate(weights) if weight >= LARGE), default=1)
        places = {0, last, min(last + 1, self.bound), *(max(1, far * k // 8) for k in range(1, 9))}
        first, beside = self.density(1), weights[1] if last else 0
        for z in places:
            own, weight = self.density(z), weights[z] if z <= last else 0
            room = first * (1 if z else rest) + own + own * beside * WEIGHT_ERROR
            if abs(weight * first - beside * own) > room + 4 * (weight + beside):
                return False
        return True


def _cell_mass(z: int, scale: Fraction) -> int:
    """The mass of the normal on (z - 1/2, z + 1/2), up to a factor, in parts of ONE: the density at
    the end of the cell nearer to 0, times the integral over 0 < u < 1 of the power series of
    e^(-a u - b u^2 / 2) from there. The two halves of cell 0 are alike."""
    edge, b = z - HALF if z else Fraction(0), 1 / scale**2
    if z and edge**2 * b >= 2 * NOTHING:  # below one part, and the series would be long
        return 0
    if b > 8 * NOTHING:
        return ONE
    a, b = edge * b, b if z else b / 4
    term, before, total, k = FINE, 0, 0, 0
    while term or before:
        total += term // (k + 1)
        k += 1
        term, before = -int((a * term + b * before) / k), term
    return exp_below(-(edge**2) / (2 * scale**2)) * total // FINE


@lru_cache(maxsize=2)  # all levels of a tree have one law
def _fits_halves(law: Law, left: TableHalf, right: TableHalf) -> bool:
    last, top = len(law.weights) - 1, law.weights.index(max(law.weights))
    cut = left.bound + right.bound > last  # where weights of 0 are cut off the mode stands out
    modes = (top, top - 1, top + 1) if cut else (left.bound,)
    rest = MODE_ERROR + len(law.weights)
    return any(
        0 <= mode <= last
        and left.fits(law.weights[mode::-1], rest)
        and right.fits(law.weights[mode:], rest)
        for mode in modes
    )


def read_halves(told: object) -> list[TableHalf]:
    """Read both halves of a table; BrokenProofError if they are none."""
    if not isinstance(told, list) or len(told) != 2:
        raise BrokenProofError(f"a table needs a list of two halves; got {told!r}")
    return [*map(TableHalf.read, told)]


def has_halves(law: Law, told: object) -> bool:
    """Whether a table is made of these two halves. None is true: older receipts do not name the
    halves."""
    return told is None or _fits_halves(law, *read_halves(told))


def are_cut_gaussian(told: object, sigma: Fraction, end: int) -> bool:
    """Whether both halves are those of a rounded normal law of scale ``sigma`` that ends at
    ``end``, or whose weights after ``end`` are at most one unit. None is true: older receipts do
    not name the halves. There is no table: a density of one has 2**64 / (sigma root(2 pi))
    units."""
    for half in [] if told is None else read_halves(told):
        cut = half.density(end + 1) * TABLE <= sigma * Fraction(5, 2) * ONE
        if (half.shape, half.scales) != ("rounded gaussian", (sigma,)):
            return False
        if half.bound != end and not (half.bound > end and cut):
            return False
    return True


# -------------------------------------------------------------------------------------------------
# A fact: what a field of a receipt must be. The facts of noise follow from a table or a scale.


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
