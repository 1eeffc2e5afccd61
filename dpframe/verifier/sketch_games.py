"""Games of counts and sketches, and the sum of losses of independent counts.

**Losses** of independent counts that each move by one are added up.

docs/guarantees.md, "Counts of every node". An outcome of probability p under the first law and q
under the second has loss ln(p / q). Losses are put on multiples of ln(rho) for a fixed fraction
rho: an outcome between two multiples is divided into two outcomes, one at each, whose p and q add
up to those of the outcome. Whoever is told which of the two it was can only tell the tables apart
better. Then losses of independent counts are convolved, in whole numbers, and the divergence is a
sum over the grid. Any rho above 1 is sound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from dpframe.verifier import verdict as linear_losses
from dpframe.verifier.numbers import BITS, ONE, TABLE, divide_up, exp_below
from dpframe.verifier.verdict import (
    BrokenProofError,
    DeltaBound,
    Law,
    NotVerifiedError,
    Proof,
    ProofStep,
    check_claim,
    check_loss,
    check_time,
    positive_number,
    refine_bound,
)

POINTS = (1_000, 4_000, 16_000, 64_000)
"""About how many points a grid has; the next number is tried only if the bound is not small enough
yet."""

TRIMMED = 10**8
"""Ends of a convolution are raised if they weigh at most the delta that would be enough, divided by
this."""

BYTES = (2 * BITS + 40) // 8
"""Bytes of one number in a product of two polynomials, with room for a sum of 2**40 products."""


@dataclass(frozen=True)
class Grid:
    """A grid of losses: the multiples of the logarithm of ``rho``, which is in parts of ONE."""

    rho: int

    @property
    def step(self) -> float:
        """The logarithm of ``rho``."""
        return math.log1p((self.rho - ONE) / ONE)

    def power(self, n: int) -> tuple[int, int]:
        """A lower and an upper bound on rho**n, in parts of ONE."""
        low = high = ONE
        square_low = square_high = self.rho
        left = abs(n)
        while left:
            if left & 1:
                low, high = low * square_low >> BITS, divide_up(high * square_high, ONE)
            square_low, square_high = (
                square_low * square_low >> BITS,
                divide_up(square_high * square_high, ONE),
            )
            left >>= 1
        return (low, high) if n >= 0 else (ONE * ONE // high, divide_up(ONE * ONE, low))


MOST_LOSSES = 2_000_000
"""The most losses of a convolution; each takes some dozen bytes."""


@dataclass(frozen=True)
class Losses:
    """Masses under the first law, in parts of ONE: at losses ``lowest``, ``lowest + 1``, ... of a
    grid, and at infinite losses."""

    lowest: int
    masses: list[int]
    infinite: int


def composed_bound(
    laws: Sequence[tuple[Law, int]], epsilon: Fraction, enough: Fraction = Fraction(0)
) -> Fraction:
    """Upper bound on delta, in both directions, of counts with these laws; each law comes with the
    number of counts that have it."""
    return divergence_bound(laws, exp_below(epsilon), enough)


def divergence_bound(
    laws: Sequence[tuple[Law, int]], start: int, enough: Fraction = Fraction(0)
) -> Fraction:
    """Upper bound as from `composed_bound`, with ``start``, in parts of ONE, in the place of
    e^epsilon."""
    epsilon, ends = math.log(max(start, 1) / ONE), int(enough * ONE) // TRIMMED

    def bound_on(points: int, more_first: bool) -> Fraction:
        grid, whole = loss_grid(laws, abs(epsilon) or 1.0, points), Losses(0, [ONE], 0)
        for law, times in laws:
            one = _count_losses(law, grid, more_first=more_first)
            whole = convolve_losses(whole, repeat_losses(one, times, ends), ends)
        return Fraction(delta_at(whole, grid, start), ONE)

    ways = (False,) if all(law.symmetric for law, _ in laws) else (False, True)
    bounds = (
        refine_bound(partial(bound_on, more_first=way), POINTS, POINTS[0], enough) for way in ways
    )
    return min(Fraction(1), max(bounds))


def loss_grid(laws: Sequence[tuple[Law, int]], epsilon: float, points: int) -> Grid:
    """A grid that is fine enough for the losses that matter, and that has the likeliest loss on
    it."""
    total, usual = 0.0, 0.0
    for law, times in laws:
        ratios = [abs(math.log(a / b)) for a, b in pairwise(law.weights) if a and b]
        total += times * max(ratios, default=1.0)
        mode = max(range(len(law.weights)), key=law.weights.__getitem__)
        usual = max(usual, ratios[min(mode, len(ratios) - 1)] if ratios else 0.0)
    span = min(total, 4 * epsilon) or 1.0
    step = 2 * span / points
    if usual > step:
        step = usual / math.ceil(usual / step)
    return Grid(exp_below(Fraction(step)))


def _count_losses(law: Law, grid: Grid, *, more_first: bool) -> Losses:
    """The losses of one count that moves by one."""
    parts = [weight * (ONE // TABLE) for weight in law.weights]
    still, moved = [*parts, 0], [0, *parts]
    return losses_on_grid(moved, still, grid) if more_first else losses_on_grid(still, moved, grid)


def losses_on_grid(
    first: Sequence[int], second: Sequence[int], grid: Grid, infinite: int = 0
) -> Losses:
    """The losses of one law against another, both in parts of ONE, on the grid: "connect the dots".
    The first may be an upper bound on a law, the second a lower bound; ``infinite`` is the mass of
    the first elsewhere."""
    step = grid.step
    at = dict[int, int]()
    powers: dict[int, int] = {}
    for p, q in zip(first, second, strict=True):
        if p == 0:
            continue
        if q == 0:
            infinite += p
            continue
        i = math.floor((math.log(p) - math.log(q)) / step)
        while True:
            if i not in powers:
                powers[i] = grid.power(i)[0]
            # p = a + b and q = a rho**-i + b rho**-(i + 1), solved for b, rounded up
            over = (p * ONE - q * powers[i]) * grid.rho
            b = max(0, divide_up(over, (grid.rho - ONE) * ONE))
            if b <= p:
                break
            i += 1  # the loss is above this cell: the float that chose it was too low
        at[i] = at.get(i, 0) + p - b
        at[i + 1] = at.get(i + 1, 0) + b
    lowest = min(at, default=0)
    if max(at, default=0) - lowest >= MOST_LOSSES:
        raise NotVerifiedError(f"more than {MOST_LOSSES} different losses take too much memory")
    masses = [at.get(i, 0) for i in range(lowest, max(at, default=0) + 1)]
    return Losses(lowest, masses, infinite)


def repeat_losses(losses: Losses, times: int, ends: int) -> Losses:
    """The losses of ``times`` independent counts together."""
    whole, square = Losses(0, [ONE], 0), losses
    while times:
        if times & 1:
            whole = convolve_losses(whole, square, ends)
        times >>= 1
        if times:
            square = convolve_losses(square, square, ends)
    return whole


def convolve_losses(one: Losses, other: Losses, ends: int) -> Losses:
    """The losses of two independent counts together: masses convolve, rounded up; a loss that is
    infinite in either is infinite."""
    if one.masses == [ONE] and one.infinite == 0:
        return Losses(one.lowest + other.lowest, other.masses, other.infinite)
    check_time()
    length = len(one.masses) + len(other.masses) - 1
    if length > MOST_LOSSES:
        raise NotVerifiedError(f"more than {MOST_LOSSES} different losses take too much memory")
    product = _pack_masses(one.masses) * _pack_masses(other.masses)
    raw = product.to_bytes((length + 1) * BYTES, "little")
    masses = [
        divide_up(int.from_bytes(raw[n : n + BYTES], "little"), ONE)
        for n in range(0, length * BYTES, BYTES)
    ]
    infinite = one.infinite + other.infinite
    return trim_losses(Losses(one.lowest + other.lowest, masses, infinite), ends)


def trim_losses(losses: Losses, ends: int) -> Losses:
    """Make the largest losses infinite, and raise the smallest losses to one loss. The mass that
    changes is at most ``ends`` on either side. Larger losses only make a bound larger."""
    masses, lowest, infinite = losses.masses, losses.lowest, losses.infinite
    top, mass = len(masses), 0
    while top > 1 and mass + masses[top - 1] <= ends:
        top -= 1
        mass += masses[top]
    infinite, bottom, mass = infinite + mass, 0, 0
    while bottom < top - 1 and mass + masses[bottom] <= ends:
        mass += masses[bottom]
        bottom += 1
    kept = masses[bottom:top]
    kept[0] += mass
    return Losses(lowest + bottom, kept, infinite)


def _pack_masses(masses: list[int]) -> int:
    """Masses side by side in one large number, so that one product convolves them."""
    return int.from_bytes(b"".join(mass.to_bytes(BYTES, "little") for mass in masses), "little")


def delta_at(losses: Losses, grid: Grid, start: int) -> int:
    """The sum of mass (1 - u / rho**i) where that is positive, rounded up; u is ``start``."""
    total, high = losses.infinite, None
    first = max(losses.lowest, math.floor(math.log(start / ONE) / grid.step) - 1)
    while first > losses.lowest and grid.power(first)[1] > start:
        first -= 1  # a float chose the first: no positive term may be left out
    for i in range(first, losses.lowest + len(losses.masses)):
        high = grid.power(i)[1] if high is None else divide_up(high * grid.rho, ONE)
        if high > start:
            total += divide_up(losses.masses[i - losses.lowest] * (high - start), high)
    return min(ONE, total)


# -- Check that one count tells tables apart no better than another one, at every epsilon ---------
#
# A curve of losses on a grid, as a function of u = e^epsilon, is linear between two points of the
# grid, and beyond its ends. If the curve of one count is nowhere above the curve of another by
# more than c, then delta of n counts like the first, even if each is chosen after looking at the
# ones before, exceeds delta of n counts like the other by at most n c: the rest of a composition
# is convex in the likelihood ratio of a count, with slopes from 0 to 1.


def is_below(one: Losses, other: Losses, grid: Grid, crossing: int) -> bool:
    """Whether the curve of ``one`` is nowhere above the curve of ``other`` by more than
    ``crossing``."""
    lowest = min(one.lowest, other.lowest) - 1
    highest = max(each.lowest + len(each.masses) for each in (one, other))
    above = _curve_bounds(other, grid, lowest, highest, more=False)
    below = _curve_bounds(one, grid, lowest, highest, more=True)
    return all(high <= low + crossing for high, low in zip(below, above, strict=True))


def _curve_bounds(
    losses: Losses, grid: Grid, lowest: int, highest: int, *, more: bool
) -> list[int]:
    """Bounds on delta at all powers of rho from the highest to the lowest, and at 0: from above if
    ``more``, else from below."""
    out, mass, moved = [losses.infinite], 0, 0
    for i in range(highest, lowest, -1):
        at = i - losses.lowest
        here = losses.masses[at] if 0 <= at < len(losses.masses) else 0
        mass, moved = mass + here, moved + here
        moved = (moved << BITS) // grid.rho if more else divide_up(moved << BITS, grid.rho)
        out.append(losses.infinite + mass - moved)
    return [*out, losses.infinite + mass]


COUNTS = "docs/guarantees.md, Counts of every node"
PUBLIC = f"{COUNTS}, listed keys; Why it holds: cells, whole counts"
BASELINES = "docs/guarantees.md, Baselines"
ROUNDING = "docs/guarantees.md, Integer noise, exactly"


def bound_counts_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta where a record moves one count of each level by one, and a user of shares moves
    the counts of a level by one in all: docs/guarantees.md, "Counts of every node"."""
    levels, units = read_levels(proof), proof.whole_number("units", 1)
    hidden = ProofStep("a node that only one table has is never shown", BASELINES)
    if all(level.get("least") is None for level in levels):
        hidden = ProofStep("which nodes are shown is public, or was released before", PUBLIC)
    if all("scale" in level and "table" not in level for level in levels):
        return _bound_unbounded_noise(levels, units, epsilon)
    laws = [proof.table(level.get("table"), "table") for level in levels]
    for number, (level, law) in enumerate(zip(levels, laws, strict=True)):
        least = level.get("least")
        check_claim(
            least is None or law.highest + units < least,
            f"level {number} of the game shows counts from {least} on, and noise of {law.highest} "
            "could lift a node there that only one table has",
        )
    if all("scale" in level for level in levels):
        scales = [positive_number(level["scale"], "scale") for level in levels]
        loss = sum((1 / scale for scale in scales), Fraction(0))
        check_loss("levels", loss, epsilon)
        slips = {
            pair: linear_losses.slip_of_release(law, scale, units)
            for pair, law, scale in zip(_tables_and_scales(levels), laws, scales, strict=True)
        }
        return DeltaBound(
            sum((slips[pair] for pair in _tables_and_scales(levels)), Fraction(0)),
            hidden,
            ProofStep(f"{len(levels)} levels lose at most {float(loss):.9g} together", COUNTS),
            ProofStep(
                "slips of all levels, added", "docs/mechanism.md, Users as shares, steps 1 to 3"
            ),
        )
    check_claim(units == 1, "counts of shares need a scale for every level")
    times = Counter(level["table"] for level in levels)
    return DeltaBound(
        composed_bound([(proof.laws[n], k) for n, k in sorted(times.items())], epsilon, enough),
        hidden,
        ProofStep(f"losses of {len(levels)} counts that move by one, convolved", COUNTS),
    )


def read_levels(proof: Proof) -> list[Mapping[str, Any]]:
    """Read the levels of the game; BrokenProofError if they are malformed."""
    levels = proof.entries("levels")
    for level in levels:
        if not isinstance(level, dict) or not set(level) <= {"table", "scale", "least", "moves"}:
            raise BrokenProofError("a level can have table, scale, least and moves, and no more")
        least = level.get("least")
        moves = level.get("moves", 1)
        if type(moves) is not int or moves < 1 or (moves > 1 and "table" in level):
            raise BrokenProofError("'moves' must be a whole number from 1 on, and 1 with a table")
        if least is not None and type(least) is not int:
            raise BrokenProofError("'least' must be a whole number or null")
    return levels


def _tables_and_scales(levels: list[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    return [(level["table"], level["scale"]) for level in levels]


def _bound_unbounded_noise(
    levels: list[Mapping[str, Any]], units: int, epsilon: Fraction
) -> DeltaBound:
    """Bound delta, which is 0, of discrete Laplace noise over all integers; scales are in units."""
    check_claim(
        all(level.get("least") is None for level in levels),
        "noise without bounds can lift every node over a threshold",
    )
    scales = [positive_number(level["scale"], "scale") for level in levels]
    moves = [level.get("moves", 1) * units for level in levels]
    loss = sum((m / scale for m, scale in zip(moves, scales, strict=True)), Fraction(0))
    check_loss("levels", loss, epsilon)
    return DeltaBound(
        Fraction(0),
        ProofStep("every node of a public list is shown", COUNTS),
        ProofStep(f"{len(levels)} levels of noise without bounds lose {float(loss):.9g}", COUNTS),
    )


SKETCHES = "docs/guarantees.md, Streams and sketches"
MOST_COUNTS = 1024
"""The most counts that move together: more would take minutes."""

MERGED = "docs/proofs/format.md, merged"
STRUCTURE = "docs/guarantees.md, Streams and sketches, One stream"


def bound_sketches_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of one sketch per level. A record moves one number of each sketch by one: a
    counter U, or the error alpha. Keys that only one of two neighbouring sketches has may pass the
    threshold."""
    noise, shared = proof.law("noise"), proof.law("shared")
    number, theta = proof.whole_number("sketches", 1), proof.whole_number("theta")
    standard = None if proof.game.get("standard") is None else proof.whole_number("standard", 1)
    check_claim(number <= MOST_COUNTS, f"there are more than {MOST_COUNTS} sketches")
    if (noise.lowest, list(noise.weights)) != (shared.lowest, list(shared.weights)):
        raise NotVerifiedError("counters and errors have different noise, which has no proof here")
    unshared = ((1, 1), (0, 1)) if standard is None else ((1, standard),)
    chance = passing_chance(noise, shared, theta, unshared)
    rest = max(Fraction(0), enough - number * chance)
    return DeltaBound(
        composed_bound([(noise, number)], epsilon, rest) + number * chance,
        ProofStep("one number of each sketch moves by one, a counter or the error", STRUCTURE),
        ProofStep(f"losses of {number} sketches, convolved", SKETCHES),
        ProofStep(f"a key that only one sketch has passes {theta} or not, on each", SKETCHES),
    )


def bound_merged_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta where up to ``changed`` counts of a sketch move by one, all in one direction, and
    zeros are not stored: bounded merges, and sketches of users' sets. One record or user is in
    ``sketches`` sketches.

    If j of all counts are stored on both sides, the others are hidden with chance lone =
    Psi^(number of others), with Psi = P(noise < least - 1). D_j, the divergence of j counts that
    move by one, grows with j. So for all j of a run the largest D_j is a bound, with the least or
    the largest lone.
    """
    noise, number = proof.law("noise"), proof.whole_number("sketches", 1)
    total, least = number * proof.whole_number("changed", 1), proof.whole_number("least", 1)
    if total > MOST_COUNTS:
        raise NotVerifiedError(f"{total} counts that move together take too long: at most 1,024")
    psi = noise.cumulative(least - 1) * (ONE // TABLE)
    start = exp_below(epsilon)
    worst = ONE - _power_below(psi, total)
    for first, last in _count_runs(total):
        lone = _power_below(psi, total - first)
        most = min(
            ONE, _power_below(psi, total - last) + 4 * total
        )  # above all that was rounded down
        rest = max(Fraction(0), enough - Fraction(ONE - lone, ONE))
        silent = divergence_bound([(noise, last)], start * lone >> BITS, rest)
        if number > 1:  # counts of other sketches may move the other way
            worst = max(worst, ONE - lone + _parts_of_one(silent))
            continue
        seen = divergence_bound([(noise, last)], (start << BITS) // most, rest)
        worst = max(worst, ONE - lone + _parts_of_one(seen), _parts_of_one(silent))
    return DeltaBound(
        Fraction(worst, ONE),
        ProofStep(f"up to {total} counts move by one, in one direction a sketch", SKETCHES),
        ProofStep("a count of one is hidden or not, the others are compared", MERGED),
    )


def _count_runs(total: int) -> Iterator[tuple[int, int]]:
    """Runs (first, last) of j that go from ``total`` down to 1; the largest j have short runs."""
    last = total
    while last >= 1:
        first = max(1, last - max(0, (total - last) // 4 if total > 16 else 0))
        yield first, last
        last = first - 1


def _parts_of_one(bound: Fraction) -> int:
    return divide_up(bound.numerator * ONE, bound.denominator)


def passing_chance(
    noise: Law, shared: Law, theta: int, unshared: tuple[tuple[int, int], ...]
) -> Fraction:
    """P(value + Z >= theta + eta for any of the counters that only one sketch has), rounded up:
    ``unshared`` are pairs of a value and how many counters have it. All counters share one eta."""
    total = 0
    for i, weight in enumerate(shared.weights):
        eta = shared.lowest + i
        none = ONE
        for value, times in unshared:
            hidden = noise.cumulative(theta + eta - value) * (ONE // TABLE)
            none = none * _power_below(hidden, times) >> BITS
        total += weight * (ONE - none)
    return Fraction(total, TABLE * ONE)


def _power_below(base: int, times: int) -> int:
    """base ** times in parts of ONE, rounded down."""
    out = ONE
    while times:
        if times & 1:
            out = out * base >> BITS
        base, times = base * base >> BITS, times >> 1
    return out


MERGED_SKETCHES = "docs/guarantees.md, Streams and sketches, merged sketches"
SUMS = "docs/proofs/format.md, sums"

SUM_POINTS = (1_000, 4_000, 16_000)
"""About how many points a grid has; the next number is tried only if the bound is not small enough
yet."""

MOST_MOVES = 3_000_000
"""The most sketches times counters times entries of the table: every smaller move is compared with
the largest one."""

SUMS_CROSSING_PART = 10**5
"""Curves may cross by delta divided by this, and by the number of sketches; ends of convolutions
are raised up to a hundredth of that."""


def bound_sums_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of sums of sketches with k = ``counters``. In units of 1 / (k + 1) of a count, a
    record moves one value of a sketch by up to k, and up to k - 1 others by up to 1. One key of
    value k, or k keys of value 1, may be stored on one side alone."""
    noise, counters = proof.law("noise"), proof.whole_number("counters", 1)
    number, theta = proof.whole_number("sketches", 1), proof.whole_number("theta")
    check_claim(noise.symmetric, "the noise must be symmetric: values move up and down")
    if number * counters * len(noise.weights) > MOST_MOVES:
        raise NotVerifiedError(f"moves of {counters} counters take too long to compare")
    chance = number * (1 - _hidden_chance(noise, theta, counters))
    rest = max(Fraction(0), enough - chance)
    bound = _sums_delta(noise, counters, number, epsilon, rest)
    return DeltaBound(
        bound + chance,
        ProofStep(
            f"a value of each of {number} sketches moves by {counters}, others by 1",
            MERGED_SKETCHES,
        ),
        ProofStep(f"moves by less than {counters} tell less, at every epsilon", SUMS),
        ProofStep(f"losses of {number * counters} values, convolved", MERGED_SKETCHES),
        ProofStep(
            f"a key that only one sketch has passes {theta} or not, on each", MERGED_SKETCHES
        ),
    )


def _hidden_chance(noise: Law, theta: int, counters: int) -> Fraction:
    """A lower bound on the chance that value + Z < theta for all of k + 1 keys: one of value k, and
    k of value 1, with k = ``counters``."""
    out = noise.cumulative(theta - counters) * (ONE // TABLE)
    one = noise.cumulative(theta - 1) * (ONE // TABLE)
    for _ in range(counters):
        out = out * one >> BITS
    return Fraction(out, ONE)


def _sums_delta(
    noise: Law, counters: int, number: int, epsilon: Fraction, enough: Fraction
) -> Fraction:
    """An upper bound on delta of all moves, in both directions, which symmetric noise makes equal.
    FailedClaimError if a smaller move tells more."""
    crossing = max(1, math.floor(enough * ONE) // (SUMS_CROSSING_PART * number))
    start, ends, last = exp_below(epsilon), max(1, crossing // 100), list[tuple[Grid, Losses]]()

    def bound_on(points: int) -> Fraction:
        grid = loss_grid([(noise, number * counters)], float(epsilon), points)
        one = far = _moved_losses(noise, counters, grid, ends)
        last[:] = [(grid, far)]
        if counters > 1:
            near = repeat_losses(_moved_losses(noise, 1, grid, ends), counters - 1, ends)
            one = convolve_losses(far, near, ends)
        delta = delta_at(repeat_losses(one, number, ends), grid, start)
        return Fraction(delta + number * crossing, ONE)

    bound = refine_bound(bound_on, SUM_POINTS, SUM_POINTS[0], enough)
    ((grid, far),) = last
    for less in range(1, counters):
        check_claim(
            is_below(_moved_losses(noise, less, grid, ends), far, grid, crossing),
            f"a value that moves by {less} tells more than one that moves by {counters}",
        )
    return min(Fraction(1), bound)


def _moved_losses(noise: Law, by: int, grid: Grid, ends: int) -> Losses:
    weights = [weight * (ONE // TABLE) for weight in noise.weights]
    nothing = [0] * by
    return trim_losses(losses_on_grid([*weights, *nothing], [*nothing, *weights], grid), ends)
