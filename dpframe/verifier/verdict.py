"""A proof as it is written, linear losses, and the verdict.

**A proof** as it is written has the promise, the game, its steps, and its tables of noise.

docs/proofs/format.md says what each part is; ``proof.schema.json`` is its JSON schema.

**Linear losses** grow with the amount that moves: shares of users, and tables of any length.

docs/mechanism.md, "Users as shares". A record or user is ``units`` units. Where a count moves by
one unit, an answer loses at most 1 / (scale units) except for a *slip*: the largest excess of one
law over e^(1 / (scale units)) times the other. Losses are linear in the number of units that move,
and slips of a level are superadditive: neither can be more than if all units moved one count
together.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import math
import re
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from dpframe.verifier.numbers import ONE, TABLE, bound_text, exp_above, exp_below

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

    def to_dict(self) -> dict[str, object]:
        """The verdict as plain JSON types; bounds are texts, rounded up."""
        promised = {"epsilon": self.epsilon, "delta": self.delta}
        return {
            "outcome": self.outcome,
            "code": self.code,
            "reason": self.reason,
            **{name: None if x is None else float(x) for name, x in promised.items()},
            "bound": None if self.bound is None else bound_text(self.bound),
            "steps": [str(step) for step in self.steps],
            "parts": {name: part.to_dict() for name, part in self.parts},
            "not_proved": list(NOT_PROVED),
        }

    def _sorted_parts(self) -> Iterable[tuple[str, Verdict]]:
        """The parts; first come parts that are not proved."""
        return sorted(self.parts, key=lambda part: bool(part[1]))


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


# -- A proof as it is written: the promise, the game, and its tables of noise ---------------------
#


VERSION = 1
"""The version of the format; a reader refuses all other versions."""


@dataclass(frozen=True, eq=False)
class Proof:
    """The content of a proof."""

    epsilon: Fraction
    delta: Fraction
    group: int
    game: Mapping[str, Any]
    laws: tuple[Law, ...]

    def whole_number(self, name: str, least: int = 0) -> int:
        """A whole number of the game, from ``least`` on; BrokenProofError if there is none."""
        value = self.game.get(name)
        if type(value) is not int or value < least:
            raise BrokenProofError(f"the game needs a whole number {name!r} from {least} on")
        return value

    def flag(self, name: str) -> bool:
        """A field of the game that is true or false."""
        value = self.game.get(name)
        if type(value) is not bool:
            raise BrokenProofError(f"the game needs true or false as {name!r}")
        return value

    def entries(self, name: str, what: str = "") -> list[Any]:
        """A list of the game with at least one entry."""
        value = self.game.get(name)
        if not isinstance(value, list) or not value:
            raise BrokenProofError(f"the game needs a list of {what or name}")
        return value

    def law(self, name: str) -> Law:
        """The table whose number stands in the game under a name."""
        return self.table(self.game.get(name), name)

    def table(self, number: object, name: str) -> Law:
        """A table by its number."""
        if type(number) is not int or not 0 <= number < len(self.laws):
            raise BrokenProofError(f"{name!r} must be the number of a table")
        return self.laws[number]

    def law_or_none(self, name: str) -> Law | None:
        """The table as from `law`, or None where the game says that there is none."""
        if name in self.game and self.game[name] is None:
            return None
        return self.law(name)

    def of(self, game: Mapping[str, Any]) -> Proof:
        """This proof with another game, such as one of its steps; tables and promise stay."""
        return replace(self, game=game)

    def scale(self, name: str) -> Fraction:
        """A positive number of the game, exactly."""
        return positive_number(self.game.get(name), name)


def positive_number(value: object, name: str) -> Fraction:
    """Read a positive number: a double, taken exactly, or a text such as "3/4" or "3".
    BrokenProofError if it is neither, or beyond ``LARGEST``."""
    if isinstance(value, str) and FRACTION.fullmatch(value):
        over, _, under = value.partition("/")
        found = Fraction(int(over), int(under or 1))
    elif isinstance(value, int | float) and type(value) is not bool and 0 < value < math.inf:
        found = Fraction(value)
    else:
        found = Fraction(0)
    if 1 / LARGEST <= found <= LARGEST:
        return found
    raise BrokenProofError(f"{name!r} must be a positive number")


def zero_or_positive(value: object, name: str) -> Fraction:
    """Read 0, or a positive number as `positive_number` does."""
    return Fraction(0) if value == 0 and value is not False else positive_number(value, name)


LARGEST = Fraction(10**100)
"""The largest positive number of a proof; the smallest is 1 / ``LARGEST``."""

MOST_EPSILON = 1000
"""The largest epsilon of a promise: beyond it nothing is promised, and e^epsilon takes long."""

LEAST_EPSILON = Fraction(1, 2**60)
"""The smallest epsilon of one record: e^epsilon is above 1 by far more than its rounding."""

MOST_HEIGHT = 10_000
"""The most levels, or tests on a path."""

MOST_DIGITS = 60
"""The most digits of a whole number."""


def _parse_whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise BrokenProofError(f"a whole number of the proof has more than {MOST_DIGITS} digits")
    return int(digits)


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs; BrokenProofError if a field occurs twice, since another reader
    might take the other value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BrokenProofError("an object of the proof has one field twice")
    return found


FIELDS: Mapping[str, str] = {
    "path": "height threshold remainder test release",
    "shares": "height threshold remainder test release units left right release_scale",
    "counts": "units levels",
    "sketches": "sketches theta standard noise shared",
    "merged": "sketches changed least noise",
    "sums": "sketches counters theta noise",
    "normal": "height threshold test release units moves test_sigma release_sigma",
    "rounds": "height items unit threshold rounds sizes norm norms count histograms measured",
    "reports": "devices counted participation reports silence spared replaced",
    "measures": "height drawn read segments totals",
    "relative": "steps",
    "steps": "steps",
}
"""The fields of every kind of game. A field that a game does not use would be a claim that nobody
checks."""


def check_game_fields(game: Mapping[str, Any]) -> None:
    """BrokenProofError for a field that a game of this kind does not have."""
    kind = game.get("kind")
    if isinstance(kind, str) and kind in FIELDS:
        more = set(game) - {"kind", *FIELDS[kind].split()}
        if more:
            raise BrokenProofError(f"a game {kind!r} has no {', '.join(sorted(more))}")


FRACTION = re.compile(r"[1-9][0-9]{0,400}(/[1-9][0-9]{0,400})?")


def read_proof(text: str) -> Proof:
    """Read a proof from its text; BrokenProofError says what is wrong with it."""
    try:
        told = json.loads(text, parse_int=_parse_whole, object_pairs_hook=_unique_fields)
    except BrokenProofError:
        raise
    except (ValueError, RecursionError):
        raise BrokenProofError("the proof is no JSON") from None
    if not isinstance(told, dict) or told.get("format") != "dpframe proof":
        raise BrokenProofError('this is no proof: it has no "format": "dpframe proof"')
    if type(told.get("version")) is not int or told["version"] != VERSION:
        raise BrokenProofError(
            f"the proof has version {told.get('version')!r}, and this verifier reads {VERSION}"
        )
    if set(told) != {"format", "version", "promise", "game", "tables"}:
        raise BrokenProofError("a proof has format, version, promise, game and tables, and no more")
    promise, game, tables = told["promise"], told["game"], told["tables"]
    if not isinstance(promise, dict) or set(promise) != {"epsilon", "delta", "group"}:
        raise BrokenProofError("the promise must have epsilon, delta and group, and no more")
    if not isinstance(game, dict) or not isinstance(tables, list):
        raise BrokenProofError("the game must be an object, and the tables a list")
    delta, group = promise["delta"], promise["group"]
    if type(group) is not int or group < 1:
        raise BrokenProofError("'group' must be a whole number from 1 on")
    epsilon = positive_number(promise["epsilon"], "epsilon")
    if epsilon > MOST_EPSILON:
        raise BrokenProofError(f"'epsilon' must be at most {MOST_EPSILON}")
    check_game_fields(game)
    if epsilon < group * LEAST_EPSILON:
        raise BrokenProofError("'epsilon' is too small for a group of so many records")
    return Proof(
        epsilon=epsilon,
        delta=zero_or_positive(delta, "delta"),
        group=group,
        game=game,
        laws=tuple(read_law(number, each) for number, each in enumerate(tables)),
    )


# -- Games in sequence, each of which may depend on what the games before it showed ---------------


SEVERAL = "docs/guarantees.md, Several releases"

Game = Callable[[Proof, Fraction, Fraction], DeltaBound]


def games_of_proof(proof: Proof) -> list[tuple[Fraction, Fraction, Proof]]:
    """The games of a proof, each with its epsilon and delta: its only game, or its steps."""
    if proof.game.get("kind") != "steps":
        return [(proof.epsilon / proof.group, proof.delta, proof)]
    return [_read_step(proof, each) for each in proof.entries("steps")]


def _read_step(proof: Proof, told: Any) -> tuple[Fraction, Fraction, Proof]:
    if not isinstance(told, dict) or set(told) != {"epsilon", "delta", "game"}:
        raise BrokenProofError("a step must have epsilon, delta and game, and no more")
    if not isinstance(told["game"], dict):
        raise BrokenProofError("the game of a step must be an object")
    check_game_fields(told["game"])
    delta = zero_or_positive(told["delta"], "delta")
    return positive_number(told["epsilon"], "epsilon"), delta, proof.of(told["game"])


def bound_steps_game(
    games: Mapping[str, Game], proof: Proof, epsilon: Fraction, enough: Fraction
) -> DeltaBound:
    """Bound delta of all games of a proof by adaptive composition: their epsilons must add up to at
    most the promised epsilon, and the deltas that are found add up to the bound. The delta of a
    step says how finely that step is bounded."""
    each = games_of_proof(proof)
    spent = sum((own for own, _, _ in each), Fraction(0))
    check_loss("steps", spent, epsilon)
    bound, said = Fraction(0), list[ProofStep]()
    for own, delta, part in each:
        kind = part.game.get("kind")
        game = games.get(kind) if isinstance(kind, str) else None
        if game is None:
            raise NotVerifiedError(f"this verifier knows no game {kind!r} as a step")
        found = game(part, own, min(delta, enough))
        bound += found.bound
        said += found.steps
    whole = ProofStep(
        f"{len(each)} steps: epsilons add up to {float(spent):.9g}, deltas too", SEVERAL
    )
    return DeltaBound(bound, whole, *said)


def slip_of_units(slip: Fraction, rate: Fraction, units: int) -> Fraction:
    """The slip of all units together, S(units) = slip (1 + r + ... + r^(units - 1)), from the
    ``slip`` of one unit, with r the lower bound on e^(rate / units)."""
    if units == 1 or slip == 0:
        return slip
    r = exp_below(rate / units)
    check_claim(r > ONE, "a scale is too large to be told from no noise")
    return slip * (exp_above(rate) - ONE) / (r - ONE)


def slip_of_tails(tails: Iterable[int], rate: Fraction) -> Fraction:
    """The largest excess of a tail with one unit more over e^rate times the tail.

    ``tails`` grow, in parts of 2**64.
    """
    r = exp_below(rate)
    most = max((more * ONE - r * less for less, more in pairwise(tails)), default=0)
    return Fraction(max(0, most), TABLE * ONE)


def slip_of_values(law: Law, rate: Fraction) -> Fraction:
    """The mass by which a law exceeds e^rate times itself moved by one, in the worse direction."""
    r = exp_below(rate)
    weights = [0, *law.weights, 0]
    up = sum(more * ONE - r * less for less, more in pairwise(weights) if more * ONE > r * less)
    down = sum(less * ONE - r * more for less, more in pairwise(weights) if less * ONE > r * more)
    return Fraction(max(up, down), TABLE * ONE)


def slip_of_release(law: Law, scale: Fraction, units: int) -> Fraction:
    """The slip of a released count, for all units together; ``scale`` is in records or users."""
    return slip_of_units(slip_of_values(law, 1 / (scale * units)), 1 / scale, units)


def selection_slips(
    test: Law, *, left: Fraction, right: Fraction, units: int
) -> tuple[Fraction, Fraction]:
    """The slips of one level of tests: of not being selected, and of being selected."""
    sums = test.sums
    bot = slip_of_tails(sums, 1 / (left * units))
    top = slip_of_tails((TABLE - below for below in reversed(sums)), 1 / (right * units))
    return slip_of_units(bot, 1 / left, units), slip_of_units(top, 1 / right, units)


def selection_loss(
    *, left: Fraction, right: Fraction, release: Fraction | None, height: int, remainder: bool
) -> Fraction:
    """What a unit loses at most, times the number of units: the largest of its losses if its node
    is selected at the first test, at the last one, or never. Without ``release`` no number is
    released."""
    seen = Fraction(0) if release is None else 1 / release
    return max(
        1 / right + seen, (height - 1) / left + seen, height / left + (seen if remainder else 0)
    )
