"""Sums of randomised one-hot reports: docs/guarantees.md, "Federated prefix trees"."""

from __future__ import annotations

import math
from fractions import Fraction

from dpframe.verifier.binomials import BinomialLaw, binomial_law
from dpframe.verifier.composition import (
    Grid,
    Losses,
    convolve_losses,
    delta_at,
    losses_on_grid,
    repeat_losses,
    trim_losses,
)
from dpframe.verifier.dominance import is_below
from dpframe.verifier.numbers import ONE, TABLE, exp_above, exp_below
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import DeltaBound, ProofStep, check_claim, refine_bound

PREFIX_TREES = "docs/guarantees.md, Federated prefix trees"
REPORTS = "docs/verifying.md, reports"

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
