"""A fact: what a field of a receipt must be. Facts of noise follow from a table or a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpframe.verifier.laws import BrokenProofError, Law
from dpframe.verifier.numbers import NOTHING, ONE, exp_below, is_number
from dpframe.verifier.proof import positive_number

Path = tuple[str | int, ...]
"""Where a field stands: names of objects, and numbers in lists."""

DOUBLE = Fraction(1, 2**50)
"""Relative error of a double that was divided and multiplied."""

CLOSE = Fraction(1, 10**6)
"""Relative error of the square of a standard deviation, a double."""

NEAR = Fraction(1, 10**9)
"""Relative error of a number that went through several roundings."""


@dataclass(frozen=True)
class Fact:
    """What a field must be: the text of it, and whether a value is that."""

    text: str
    holds: Callable[[Any], bool]

    @classmethod
    def value(cls, proved: object, text: str = "") -> Fact:
        """Exactly this value. True is no number, and a missing field is None."""
        if isinstance(proved, Fraction) or is_number(proved):
            shown = f"{float(proved):.12g}"
            return cls(text or shown, lambda told: is_number(told) and told == proved)
        shown = "none" if proved is None else repr(proved)
        kind = type(proved)
        return cls(text or shown, lambda told: type(told) is kind and bool(told == proved))

    @classmethod
    def near(cls, proved: Fraction, part: Fraction = NEAR) -> Fact:
        """This number, but for a relative error."""
        room = abs(proved) * part
        return cls(
            f"{float(proved):.12g}",
            lambda told: is_number(told) and abs(Fraction(told) - proved) <= room,
        )

    @classmethod
    def root(cls, square: Fraction, part: Fraction = CLOSE) -> Fact:
        """The root of a number, whose square may have a relative error."""
        return cls(
            f"{float(square) ** 0.5:g}",
            lambda told: (
                is_number(told) and told >= 0 and abs(Fraction(told) ** 2 - square) <= square * part
            ),
        )

    @classmethod
    def at_least(cls, least: Fraction | int) -> Fact:
        """A number that is not below ``least``."""
        return cls(f"at least {float(least):g}", lambda told: is_number(told) and told >= least)

    @classmethod
    def whole(cls, text: str = "a whole number", most: int = 10**60) -> Fact:
        """A whole number from 1 on."""
        return cls(text, lambda told: type(told) is int and 0 < told < most)

    @classmethod
    def items(cls, facts: Sequence[Fact]) -> Fact:
        """A list of as many values, of which each has its fact."""
        text = f"a list of {', '.join(each.text for each in facts[:9])}"
        return cls(
            f"{text} and more" if len(facts) > 9 else text,
            lambda told: (
                isinstance(told, list)
                and len(told) == len(facts)
                and all(fact.holds(one) for fact, one in zip(facts, told, strict=True))
            ),
        )

    @classmethod
    def size(cls, number: int) -> Fact:
        """A list of so many."""
        return cls(
            f"a list of {number}", lambda told: isinstance(told, list) and len(told) == number
        )


Facts = Iterable[tuple[Path, Fact]]
"""Fields, each with what it must be; several facts of one field must all hold."""

FREE = Fact("anything", lambda told: True)

DECLARED = Fact("a name, a number or nothing", lambda told: not isinstance(told, bool))
"""An argument: other fields, and the number of records in the proof, follow from it."""


def table_facts(path: Path, law: Law, units: int = 1, worth: Fraction = Fraction(1)) -> Facts:
    """The facts of noise from a table whose ``units`` are ``worth``: grid, ends and standard
    deviation, and where the receipt has them the halves that the table is made of."""
    yield (*path, "grid"), Fact.value(units)
    yield (*path, "lowest"), Fact.near(law.lowest * worth / units, DOUBLE)
    yield (*path, "highest"), Fact.near(law.highest * worth / units, DOUBLE)
    yield (*path, "sd"), Fact.root(law.variance * (worth / units) ** 2)
    yield (*path, "halves"), Fact("a table of other halves", lambda told: _has_halves(law, told))
    yield (*path, "family"), FREE


def scale_facts(path: Path, scale: Fraction, units: int = 1) -> Facts:
    """The facts of discrete Laplace noise over all integers, with ``scale`` in units:
    sd**2 = 1 / (2 sinh(1 / (2 scale))**2)."""
    root = Fraction(exp_below(1 / (2 * scale)), ONE)
    twice = (units * (root - 1 / root)) ** 2
    yield (*path, "grid"), Fact.value(units)
    yield (*path, "lowest"), Fact.value(None)
    yield (*path, "highest"), Fact.value(None)
    yield (
        (*path, "sd"),
        Fact(
            f"of scale {float(scale / units):g}",
            lambda told: (
                is_number(told)
                and 0 < told < 1e30
                and abs(Fraction(told) ** 2 * twice / 2 - 1) < CLOSE
            ),
        ),
    )
    yield (*path, "scale"), Fact(str(scale), lambda told: told is None or told == str(scale))
    yield (*path, "family"), FREE


# -- the halves of a table ------------------------------------------------------------------------

SHAPES = {"geometric": 1, "gaussian": 1, "rounded gaussian": 1, "laplace-gaussian": 2}
"""Shapes of a half, each with its number of scales."""

LARGE = 1 << 30
"""Weights from here on are right to nine digits."""

WEIGHT_ERROR = Fraction(1, 10**10)
"""Relative error of a weight beside its rounding: densities are floats of 11 digits."""

MODE_ERROR = 1 << 22
"""Error of the likeliest weight, which gets what rounding leaves over, beside one for each
weight."""

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
            raise BrokenProofError(f"the receipt has a half with bound {bound!r}")
        if not all(map(is_number, scales)):
            raise BrokenProofError(f"the receipt has a half with scales {scales!r}")
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
        to 0. They are compared with the weight beside the mode, at the mode, at eight places as
        far as weights are large, at the end and after it."""
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
    e^(-a u - b u^2 / 2) from there. Of cell 0 both halves are alike."""
    edge, b = z - HALF if z else Fraction(0), 1 / scale**2
    if b > 8 * NOTHING:  # all that is beyond the mode is below one part
        return 0 if z else ONE
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


def _has_halves(law: Law, told: Any) -> bool:
    """Whether a table is made of two halves; older receipts do not say of which."""
    if told is None:
        return True
    if not isinstance(told, list) or len(told) != 2:
        return False
    return _fits_halves(law, *map(TableHalf.read, told))
