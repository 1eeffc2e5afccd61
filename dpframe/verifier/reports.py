"""Reports of devices: what their sums tell, and the law of successes in independent trials.

**Counts with a relative error**: each step is a sparse vector, with a test after each of its
answers.

docs/guarantees.md, "Counts with a relative error". Between neighbours one count of each level of
one tree moves by one. Noise is discrete Laplace over all whole numbers; the noise of tests is that
law given that it is within a bound. Nothing is claimed here about how near to the true counts the
released counts are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpframe.verifier.numbers import ONE, TABLE, divide_up, exp_above, exp_below, exp_between
from dpframe.verifier.sketch_games import (
    Grid,
    Losses,
    convolve_losses,
    delta_at,
    is_below,
    losses_on_grid,
    repeat_losses,
    trim_losses,
)
from dpframe.verifier.verdict import (
    BrokenProofError,
    DeltaBound,
    NotVerifiedError,
    Proof,
    ProofStep,
    check_claim,
    check_loss,
    refine_bound,
)

FINE = 1 << 176
"""The weight of the likeliest value, before all are divided by their sum."""

LEAST_WEIGHT = 1 << 60
"""In the scale of ``FINE``: all values beyond one that weighs less are bounded together, in
``rest``."""

MOST_VALUES = 2_000_000
"""The most values that are looked at one by one."""


@dataclass(frozen=True)
class BinomialLaw:
    """Bounds in parts of ONE: P(successes = lowest + i) is from ``low[i]`` to ``high[i]``, and all
    other values together have at most ``rest``."""

    lowest: int
    low: list[int]
    high: list[int]
    rest: int

    def with_one(self, chance: Fraction, *, more: bool) -> list[int]:
        """Bounds on the law with one more trial, of another chance: from above if ``more``, else
        from below."""
        own = self.high if more else self.low
        over, under = chance.numerator, chance.denominator
        parts = zip([*own, 0], [0, *own], strict=True)
        sums = ((under - over) * no + over * yes for no, yes in parts)
        return [divide_up(each, under) if more else each // under for each in sums]

    def cumulative(self, x: int) -> int:
        """An upper bound on P(successes < x)."""
        return min(ONE, sum(self.high[: max(0, x - self.lowest)]) + self.rest)


@lru_cache(maxsize=8)
def binomial_law(n: int, chance: Fraction) -> BinomialLaw:
    """The law of n trials, 0 < chance < 1, from the likeliest value outwards by the ratios of
    neighbouring probabilities."""
    if 30 * math.sqrt(n * float(chance) * (1 - float(chance))) > MOST_VALUES:
        raise NotVerifiedError(f"sums of {n} reports have too many values to check")
    odds = chance / (1 - chance)
    over, under = odds.numerator, odds.denominator
    mode = min(n, math.floor((n + 1) * chance))
    up, beyond = _weights_by_ratios(mode, n, lambda k: ((n - k) * over, (k + 1) * under), 1)
    down, before = _weights_by_ratios(mode, 0, lambda k: (k * under, (n - k + 1) * over), -1)
    weights = [*reversed(down), (FINE, FINE), *up]
    least = sum(low for low, _ in weights)
    rest = beyond + before
    most = sum(high for _, high in weights) + rest
    return BinomialLaw(
        lowest=mode - len(down),
        low=[low * ONE // most for low, _ in weights],
        high=[divide_up(high * ONE, least) for _, high in weights],
        rest=divide_up(rest * ONE, least),
    )


def _weights_by_ratios(
    start: int, end: int, ratio: Callable[[int], tuple[int, int]], step: int
) -> tuple[list[tuple[int, int]], int]:
    """The weights of the values after ``start`` towards ``end``, each between two bounds, and an
    upper bound on the weight of all values beyond these: ratios fall from value to value."""
    low = high = FINE
    out: list[tuple[int, int]] = []
    for k in range(start, end, step):
        over, under = ratio(k)
        low, high = low * over // under, divide_up(high * over, under)
        out.append((low, high))
        if high < LEAST_WEIGHT:
            if k + step == end:
                return out, 0
            over, under = ratio(k + step)
            return out, divide_up(high * over, under - over)
    return out, 0


# -- Sums of randomised one-hot reports: docs/guarantees.md, "Federated prefix trees" -------------


PREFIX_TREES = "docs/guarantees.md, Federated prefix trees"
REPORTS = "docs/proofs/format.md, reports"

HOLDER_CHANCE = Fraction(1, 2)
"""Chance with which the cell that a device holds reports 1."""

OFF = Fraction(1, 10**12)
"""The part of a probability by which a 64-bit table may be off before it is rounded."""

CROSSING_PART = 10**6
"""Curves may cross by delta divided by this, and by the number of cells that change."""

MOST_REPORTS = 100_000
"""The most reports of a device: more take long, and are never sent."""

POINTS = (1_000, 4_000, 16_000, 64_000)
"""About how many points a grid has; the next number is tried only if the bound is not small enough
yet."""


def bound_reports_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta where a device changes one or two cells of every sum, and other devices hide
    which."""
    counted, spared = proof.whole_number("counted", 1), proof.whole_number("spared")
    times, devices = proof.whole_number("reports", 1), proof.whole_number("devices", 1)
    silence, replaced = proof.scale("silence"), proof.flag("replaced")
    check_claim(
        silence < HOLDER_CHANCE,
        "a cell that nobody holds must report 1 less often than half of the time",
    )
    check_claim(times <= MOST_REPORTS, f"a device sends more than {MOST_REPORTS} reports")
    check_claim(counted <= devices, f"{counted} devices are counted on, of {devices}")
    check_claim(
        spared < counted - 1,
        f"of {counted} devices {spared} may hold one cell, and nobody is left to hide it",
    )
    absent = _absence_chance(proof, devices, counted, times)
    rounding = 4 * times * Fraction(10 * math.isqrt(devices) + 92, TABLE)
    slip = rounding * (1 + Fraction(exp_above(epsilon), ONE))
    # at least ((1 + OFF) / (1 - OFF)) ** (4 times)
    off = Fraction(exp_above(4 * times * 2 * OFF / (1 - OFF)), ONE)
    start = math.floor(exp_below(epsilon) / off)
    left = max(Fraction(0), (enough - absent - slip) / off)
    here = binomial_law(counted - 1 - spared, silence)
    there = binomial_law(spared + 1, HOLDER_CHANCE)
    bound = _reports_delta(here, there, silence, times, replaced=replaced, start=start, enough=left)
    cells = "two cells" if replaced else "one cell"
    steps = [
        ProofStep(f"{cells} of each of {times} sums have another law", PREFIX_TREES),
        ProofStep(
            f"up to {spared} holders: {counted - 1 - spared} others hide the report", REPORTS
        ),
        ProofStep(f"{spared + 1} holders hide it better, at every epsilon", REPORTS),
        ProofStep(f"losses of {times} sums, convolved", PREFIX_TREES),
        ProofStep(f"64-bit tables are off by {float(slip):.2g} together", REPORTS),
    ]
    if absent:
        steps.append(ProofStep(f"{counted} of {devices} devices take part or more", REPORTS))
    return DeltaBound(bound * off + absent + slip, *steps)


def _absence_chance(proof: Proof, devices: int, counted: int, times: int) -> Fraction:
    """An upper bound on the chance that fewer devices than are counted on take part in one of the
    sums."""
    chance = proof.scale("participation")
    check_claim(chance <= 1, "a chance is at most 1")
    if chance == 1:
        return Fraction(0)
    return times * Fraction(binomial_law(devices, chance).cumulative(counted), ONE)


def _reports_delta(
    here: BinomialLaw,
    there: BinomialLaw,
    silence: Fraction,
    times: int,
    *,
    replaced: bool,
    start: int,
    enough: Fraction,
) -> Fraction:
    """An upper bound on delta of all reports, at the worst number of holders."""
    steps = times * (2 if replaced else 1)
    crossing = max(1, math.floor(enough * ONE) // (CROSSING_PART * steps))
    ends = max(1, crossing // 100)

    def bound_on(points: int) -> Fraction:
        grid = _reports_grid(silence, steps, math.log(max(start, 1) / ONE), points)
        came = _dominating_losses(here, there, (silence, HOLDER_CHANCE), grid, crossing)
        went = _dominating_losses(here, there, (HOLDER_CHANCE, silence), grid, crossing)
        gone, new = (repeat_losses(one, times, ends) for one in (went, came))
        ways = [convolve_losses(gone, new, ends)] if replaced else [gone, new]
        most = max(delta_at(whole, grid, start) for whole in ways) + steps * crossing
        return Fraction(most, ONE)

    return min(Fraction(1), refine_bound(bound_on, POINTS, POINTS[0], enough))


def _reports_grid(silence: Fraction, steps: int, epsilon: float, points: int) -> Grid:
    """A grid for losses of at most ln(1 / (2 ``silence``)) per cell, in ``steps`` cells. Far above
    epsilon the losses of all cells together do not matter."""
    span = min(steps * math.log(1 / (2 * silence)), 4 * (abs(epsilon) or 1.0))
    return Grid(exp_below(Fraction(2 * span / points)))


def _dominating_losses(
    here: BinomialLaw,
    there: BinomialLaw,
    chances: tuple[Fraction, Fraction],
    grid: Grid,
    crossing: int,
) -> Losses:
    """The losses of a pair of laws: ``here``, and one bit whose chance to be 1 is the first of
    ``chances`` under one neighbour and the second under the other. FailedClaimError if the curve
    for ``there`` is anywhere above the curve for ``here`` by more than ``crossing``."""
    usual, other = (
        losses_on_grid(
            law.with_one(chances[0], more=True),
            law.with_one(chances[1], more=False),
            grid,
            law.rest,
        )
        for law in (here, there)
    )
    ends = max(1, crossing // 100)
    usual, other = trim_losses(usual, ends), trim_losses(other, ends)
    check_claim(
        is_below(other, usual, grid, crossing),
        "more holders of a cell than the proof spares do not hide a report better",
    )
    return usual


RELATIVE = "docs/guarantees.md, Counts with a relative error"

SCALES = ("thresholds", "queries", "tests")


@dataclass(frozen=True, kw_only=True)
class RelativeStep:
    """One step: up to ``tops`` answers, each with a fresh threshold. Each answer is followed by
    tests against ``cut``, with noise within ``bound``. ``thresholds``, ``queries`` and ``tests``
    are the scales of noise."""

    tops: int
    thresholds: Fraction
    queries: Fraction
    tests: Fraction
    bound: int
    cut: int

    @property
    def loss(self) -> Fraction:
        """The epsilon of the step: a threshold that is 1 higher keeps all answers but the last,
        whose query is then 2 higher; the one count that a test compares moves by 1."""
        return self.tops * (1 / self.thresholds + 2 / self.queries + 1 / self.tests)

    @property
    def end(self) -> Fraction:
        """An upper bound on P(Z = R | |Z| <= R) = (1 - q) q^R / (1 + q - 2 q^(R + 1)), with q =
        e^(-1 / b) and R the bound: each of the two tables has one value, at an end, that the other
        one lacks; everywhere else their ratio is at most 1 / q."""
        low, high = exp_between(-1 / self.tests)
        last = exp_above(-self.bound / self.tests)
        under = (ONE + low) * ONE - 2 * high * last
        check_claim(under > 0, "the noise of tests has no width")
        return Fraction((ONE - low) * last, under)


def bound_relative_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of all steps in sequence; what a step is asked may depend on the steps before
    it."""
    steps = relative_steps(proof)
    for number, one in enumerate(steps, 1):
        check_claim(
            one.cut - one.bound >= 2,
            f"step {number} can pass a node of one record, which only one table has: noise of "
            f"{one.bound}, and {one.cut} are needed",
        )
    loss = sum((one.loss for one in steps), Fraction(0))
    check_loss("steps", loss, epsilon)
    return DeltaBound(
        sum((one.tops * one.end for one in steps), Fraction(0)),
        ProofStep("a node that only one table has never passes a test", f"{RELATIVE}, point 4"),
        ProofStep(
            f"{len(steps)} steps, up to the last answer of each, lose at most {float(loss):.9g}",
            f"{RELATIVE}, points 2 and 3",
        ),
        ProofStep("ends of the noise of tests, one for each answer, added", f"{RELATIVE}, point 3"),
    )


def relative_steps(proof: Proof) -> list[RelativeStep]:
    """Read the steps of the game; BrokenProofError if they are malformed."""
    names = {"tops", "bound", "cut", *SCALES}
    out = []
    for each in proof.entries("steps"):
        if not isinstance(each, dict) or set(each) != names:
            raise BrokenProofError(f"a step must have {', '.join(sorted(names))}, and no more")
        part = proof.of(each)
        scales = {name: part.scale(name) for name in SCALES}
        whole = {name: part.whole_number(name, 1) for name in ("tops", "bound", "cut")}
        out.append(RelativeStep(**whole, **scales))  # type: ignore[arg-type]
    return out
