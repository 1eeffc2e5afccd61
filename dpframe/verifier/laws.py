"""A table of noise as a proof holds it: whole numbers that sum to 2**64."""

from __future__ import annotations

import base64
import binascii
import itertools
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpframe.verifier.numbers import TABLE


class BrokenProofError(ValueError):
    """A malformed proof or receipt; the message says what is wrong with it."""


@dataclass(frozen=True, eq=False)
class Law:
    """P(noise = lowest + i) = weights[i] / 2**64."""

    lowest: int
    weights: Sequence[int]

    @property
    def highest(self) -> int:
        return self.lowest + len(self.weights) - 1

    @cached_property
    def sums(self) -> list[int]:
        """2**64 P(noise < lowest + i) for i = 0 .. len(weights)."""
        return list(itertools.accumulate(self.weights, initial=0))

    @cached_property
    def symmetric(self) -> bool:
        weights = list(self.weights)
        return self.lowest == -self.highest and weights == weights[::-1]

    @cached_property
    def variance(self) -> Fraction:
        """The variance, exactly."""
        first = sum(i * w for i, w in enumerate(self.weights))
        second = sum(i * i * w for i, w in enumerate(self.weights))
        return Fraction(second, TABLE) - Fraction(first, TABLE) ** 2

    def cumulative(self, x: int) -> int:
        """2**64 P(noise < x)."""
        return self.sums[min(max(x - self.lowest, 0), len(self.weights))]

    def at_least(self, x: int) -> int:
        """2**64 P(noise >= x)."""
        return TABLE - self.cumulative(x)


def read_law(number: int, told: object) -> Law:
    """Read a table of a proof: weights in base64, eight bytes each, the lowest byte first.
    BrokenProofError if it is malformed or its weights do not sum to 2**64."""
    if not isinstance(told, dict) or set(told) != {"lowest", "weights"}:
        raise BrokenProofError(f"table {number} must have 'lowest' and 'weights' and nothing else")
    lowest, text = told["lowest"], told["weights"]
    if type(lowest) is not int or not isinstance(text, str):
        raise BrokenProofError(f"table {number} must have a whole number and a text")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BrokenProofError(f"the weights of table {number} are no base64") from None
    if not raw or len(raw) % 8:
        raise BrokenProofError(f"the weights of table {number} are not of eight bytes each")
    weights = array("Q", raw)
    if sys.byteorder == "big":
        weights.byteswap()
    law = Law(lowest, weights)
    if law.sums[-1] != TABLE:
        raise BrokenProofError(f"the weights of table {number} do not sum to 2**64")
    return law
