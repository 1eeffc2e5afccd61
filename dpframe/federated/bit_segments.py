"""How many bits each iteration asks for. Chadha et al. (2023), Section V.B."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dpframe.errors import ParameterError
from dpframe.federated.server import segment_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Bits of T iterations, r in all, with at most P cells in each.

    ``fixed`` are the bits of every iteration, or () for as many as fit. ``room`` is how many bits
    an iteration after the first must be able to ask for, so that the last iteration can finish.
    """

    length: int
    iterations: int
    limit: int
    fixed: tuple[int, ...] = ()
    room: int = 0

    @classmethod
    def adaptive(cls, *, length: int, iterations: int, limit: int) -> Self:
        """Ask for as many bits as fit; raise ParameterError if the iterations cannot finish."""
        most = segment_length(1, limit, length)
        if most == length:  # nothing is left after the first
            return cls(length=length, iterations=1, limit=limit)
        room = -(-(length - most) // (iterations - 1)) if iterations > 1 else length
        if room > most:
            needed = -(-length // max(most, 1))
            raise ParameterError(
                f"iterations ({iterations}) cannot finish {length} bits (length), {most} at once. "
                f"Use at least {needed} iterations, a larger limit or shorter items."
            )
        return cls(length=length, iterations=iterations, limit=limit, room=room)

    @classmethod
    def even(cls, *, length: int, iterations: int, limit: int) -> Self:
        """Ask for the same number of bits in every iteration, as far as they divide evenly."""
        start, more = divmod(length, iterations)
        return cls.of(
            (start + 1,) * more + (start,) * (iterations - more), length=length, limit=limit
        )

    @classmethod
    def of(cls, fixed: tuple[int, ...], *, length: int, limit: int) -> Self:
        """Ask for the bits in ``fixed``; raise ParameterError if they do not add up or fit."""
        if sum(fixed) != length or min(fixed) < 1:
            raise ParameterError(
                f"segments ({', '.join(map(str, fixed))}) must be whole numbers above 0 that "
                f"add up to length ({length})."
            )
        if max(fixed) > segment_length(1, limit, length):
            raise ParameterError(
                f"segments ({', '.join(map(str, fixed))}) need {2 ** max(fixed):,} cells, over "
                f"limit ({limit:,}). Use smaller segments or a larger limit."
            )
        return cls(length=length, iterations=len(fixed), limit=limit, fixed=fixed)

    def bits(self, step: int, depth: int, prefixes: int) -> int:
        """Return the bits to ask for in iteration ``step`` = 1..T, below prefixes of ``depth``."""
        if self.fixed:
            return self.fixed[step - 1]
        return segment_length(prefixes, self.limit, self.length - depth)

    def capacity(self, step: int, depth: int) -> int:
        """Return the most prefixes to keep after iteration ``step``, which reached ``depth``."""
        if depth == self.length:
            return self.limit
        if self.fixed:
            return self.limit >> self.fixed[step]
        left = self.length - depth
        later = self.iterations - step - 1  # iterations after the next
        return self.limit >> max(1, left - later * self.room)
