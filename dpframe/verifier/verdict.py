"""The verdict of a verification, and how it is printed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpframe.verifier.numbers import bound_text

Outcome = Literal["proved", "failed", "not verified"]

CODES: dict[Outcome, int] = {"proved": 0, "failed": 1, "not verified": 3}
"""The exit codes of the command line."""

NOT_PROVED = (
    "that rows are those of the receipt: the digest in a frame notices mistakes, and no forgery; "
    "a file without a digest says nothing of its rows",
    "that the engine counted right, and bounded what one record or user adds",
    "that the numbers of the operating system are random",
    "that the code which drew is the code that was published, and drew from these tables",
    "anything about running times, files and memory of the process",
)
"""What no receipt can prove; said every time."""


class FailedClaimError(Exception):
    """A claim of a proof that does not hold."""


class NotVerifiedError(Exception):
    """A claim that this verifier has no proof of."""


LONGEST = 120.0
"""Seconds of processor time for one proof. Genuine ones take 46 at most."""

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def limited_time() -> Iterator[None]:
    """Limit the time for one proof: inside, ``check_time`` raises when it is over."""
    token = _deadline.set(time.thread_time() + LONGEST)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time() -> None:
    """Raise NotVerifiedError if the time is over. Call it in every loop that may be long."""
    if time.thread_time() > _deadline.get():
        raise NotVerifiedError(f"checking takes more than {LONGEST:.0f} s")


def check_claim(holds: bool, otherwise: str) -> None:
    """Check one claim: if it does not hold, raise FailedClaimError with the text ``otherwise``."""
    if not holds:
        raise FailedClaimError(otherwise)


def check_loss(what: str, loss: Fraction, epsilon: Fraction) -> None:
    """Check the claim that ``what`` loses at most ``epsilon``."""
    check_claim(loss <= epsilon, f"{what} lose {float(loss):.9g}, more than {float(epsilon):.9g}")


def refine_bound(
    bound_on: Callable[[int], Fraction], points: Sequence[int], coarse: int, enough: Fraction
) -> Fraction:
    """The least bound on grids with ever more ``points``: as many as it takes to be at most
    ``enough``, unless finer grids cannot get there. What finer grids gain falls with the square of
    their points; up to ``coarse`` points a grid says nothing about that."""
    bound = Fraction(2)
    for number in points:
        found = bound_on(number)
        hopeless = number > coarse and found - (bound - found) / 4 > enough
        bound = min(bound, found)
        if hopeless or bound <= enough:
            break
    return bound


@dataclass(frozen=True)
class ProofStep:
    """One step of a proof, and where the documents prove it."""

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.what} ({self.where})"


class DeltaBound:
    """An upper bound on delta for one record, and the steps to it."""

    def __init__(self, bound: Fraction, *steps: ProofStep) -> None:
        self.bound, self.steps = bound, steps


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """Whether a promise is proved. Prints as text, and is true only if the promise is proved."""

    outcome: Outcome
    reason: str
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    bound: Fraction | None = None
    steps: tuple[ProofStep, ...] = ()
    parts: tuple[tuple[str, Verdict], ...] = ()

    def __bool__(self) -> bool:
        return self.outcome == "proved"

    @property
    def code(self) -> int:
        """The exit code of the command line."""
        return CODES[self.outcome]

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        if self.bound is None or self.epsilon is None or self.outcome != "proved":
            return f"{self.outcome}: {self.reason}"
        return f"proved: delta <= {bound_text(self.bound)} at epsilon {float(self.epsilon):.12g}"

    def __str__(self) -> str:
        lines = [self.sentence]
        if self.outcome == "proved" and self.reason:
            lines.append(f"  {self.reason}")
        lines += [f"  - {step}" for step in self.steps]
        lines += [f"  {name}: {part.sentence}" for name, part in self._sorted_parts()]
        lines.append("not proved, here or by any receipt:")
        lines += [f"  - {what}" for what in NOT_PROVED]
        return "\n".join(lines)

    __repr__ = __str__

    def _sorted_parts(self) -> Iterable[tuple[str, Verdict]]:
        """The parts; first come parts that are not proved."""
        return sorted(self.parts, key=lambda part: bool(part[1]))
