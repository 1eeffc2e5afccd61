"""How much noise a selection along paths needs: the laws that meet a budget, and the choice.

Every law starts from a closed form and is then trimmed with the recursion of
:mod:`dpframe.accounting.path`; what comes out satisfies ``delta <= budget.delta`` strictly, by
the accountant that reads the very tables that the sampler draws from.

Closed form, in records (scales at epsilon; V is the release noise, W the test noise)::

    b2 = 1 / (release_share * epsilon)          V: discrete Laplace
    bR = 1 / (epsilon - 1/b2)                   W: right half, paid once
    bL = h bR with remainder, else max(h/epsilon, (h - 1) bR)      W: left half, paid h times
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from dpframe.accounting.linear import linear_delta, linear_epsilon
from dpframe.accounting.path import one_direction
from dpframe.errors import BudgetError, ThresholdError
from dpframe.noise import NoiseTable, halves, laplace

Shape = Literal["geometric", "gaussian-left", "gaussian"]

SELECTED_AT_THRESHOLD = 1 / 4
"""Least chance of selection at the threshold; 1/2 wherever the threshold leaves room for it."""

WIDEN = 1 + 1e-7
"""Scales are this much wider than the closed form: float rounding then never costs privacy."""

LONGEST_TABLE = 5_000
"""Entries beyond which the recursion gives way to the linear bound (geometric halves only)."""

CURVED_FROM = 7
"""Height from which a Gaussian left half can beat a geometric one."""

SYMMETRIC_FROM = 12
"""Height from which a symmetric Gaussian test can beat both, at high thresholds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """A test law with its mode at 0, a release law, and the delta that they cost.

    Values count units of ``1 / grid`` record. ``delta`` is the accountant's upper bound, the
    larger of the two directions, at the epsilon of the request.
    """

    shape: Shape
    test: NoiseTable
    release: NoiseTable
    grid: int
    left: float
    right: float
    release_scale: float
    delta: float

    def shift_for(self, chance: float) -> int:
        """Least shift of the test that makes P(W >= 0) at least ``chance``."""
        at_least = self.test.at_least()
        return -self.test.lowest - int(np.flatnonzero(at_least[:-1] >= chance)[-1])

    def smallest_threshold(self, chance: float) -> int:
        """Smallest threshold, in records, that selects a residual equal to it with ``chance``.

        Two records above the reach of the noise, so that neither an empty node nor a node of
        one record can be selected.
        """
        reach = self.test.highest + max(0, self.shift_for(chance))
        return math.ceil(reach / self.grid) + 2

    def centred(self, threshold: int) -> NoiseTable:
        """The test law moved so that a residual equal to the threshold is a coin flip.

        The move stops where the noise could reach a node of fewer than two records; every shift
        has the same cost, so it may depend on the threshold freely.
        """
        room = (threshold - 2) * self.grid - self.test.highest
        shift = min(max(0, self.shift_for(0.5)), room)
        return NoiseTable(self.test.family, self.test.lowest + shift, self.test.weights)


def choose_laws(
    *,
    height: int,
    epsilon: float,
    delta: float,
    remainder: bool,
    release_share: float,
    grid: int,
    threshold: int | None,
) -> tuple[Laws, int]:
    """The laws and the threshold: least spread at a given threshold, least threshold if None."""
    options = list(_options(height, epsilon, delta, remainder, release_share, grid, threshold))
    smallest = min(o.smallest_threshold(SELECTED_AT_THRESHOLD) for o in options)
    if threshold is None:
        threshold = smallest
    if threshold < smallest:
        raise ThresholdError(
            f"threshold ({threshold}) is below the smallest private threshold {smallest} for "
            f"epsilon={epsilon:g}, delta={delta:g}, height={height}: "
            "raise threshold, epsilon or delta."
        )
    fitting = [o for o in options if o.smallest_threshold(0.5) <= threshold]
    if fitting:
        return min(fitting, key=lambda o: o.test.sd), threshold
    able = [o for o in options if o.smallest_threshold(SELECTED_AT_THRESHOLD) <= threshold]
    return max(
        able, key=lambda o: o.centred(threshold).at_least()[-o.centred(threshold).lowest]
    ), threshold


def _options(
    height: int,
    epsilon: float,
    delta: float,
    remainder: bool,
    release_share: float,
    grid: int,
    threshold: int | None,
) -> Iterator[Laws]:
    base = geometric(
        height=height,
        epsilon=epsilon,
        delta=delta,
        remainder=remainder,
        release_share=release_share,
        grid=grid,
    )
    yield base
    if grid > 1 or height < CURVED_FROM or len(base.test.weights) > LONGEST_TABLE:
        return
    common = {"base": base, "height": height, "epsilon": epsilon, "delta": delta}
    yield gaussian_left(**common, remainder=remainder)
    far_above = threshold is not None and threshold > 2 * base.smallest_threshold(0.5)
    if height >= SYMMETRIC_FROM and far_above:
        yield gaussian_both(**common, remainder=remainder)


@lru_cache(maxsize=256)
def geometric(
    *, height: int, epsilon: float, delta: float, remainder: bool, release_share: float, grid: int
) -> Laws:
    """Geometric halves: pure up to the cut ends, valid for one record and for shares of a user."""
    release_scale = WIDEN / (release_share * epsilon)
    right = WIDEN / (epsilon - 1 / release_scale)
    left = WIDEN * (height * right if remainder else max(height / epsilon, (height - 1) * right))
    if (
        linear_epsilon(
            right=right, left=left, release=release_scale, height=height, remainder=remainder
        )
        > epsilon
    ):
        raise AssertionError("closed form exceeds epsilon")

    def laws(right_bound: int, left_bound: int) -> tuple[NoiseTable, NoiseTable]:
        test = halves(
            left=("geometric", left * grid, left_bound),
            right=("geometric", right * grid, right_bound),
            recentre=False,
        )
        return test, release

    def costs(test: NoiseTable) -> tuple[float, float]:
        return linear_delta(
            test,
            release,
            right=right,
            left=left,
            release_scale=release_scale,
            height=height,
            grid=grid,
        )

    # P(|V| = bound) is about tanh(1/2b2) e^(-bound/b2); a sixth of delta for the release
    release_bound = math.ceil(release_scale * grid * math.log(6 / delta))
    release = laplace(release_scale * grid, release_bound)
    first = math.log(2 * height / delta)
    right_bound = math.ceil(right * grid * first)
    left_bound = math.ceil(left * grid * first)
    exact = grid == 1 and right_bound + left_bound < LONGEST_TABLE
    step = max(1, grid // 16)

    def fewer(bound: int) -> float:
        test, _ = laws(right_bound, bound)
        if not exact:
            return costs(test)[0]
        return one_direction(
            test, release, height=height, epsilon=epsilon, remainder=remainder, more_first=False
        )

    def more(bound: int) -> float:
        test, _ = laws(bound, left_bound)
        if not exact:
            return costs(test)[1]
        return one_direction(
            test, release, height=height, epsilon=epsilon, remainder=remainder, more_first=True
        )

    right_bound = _least(more, right_bound, delta, step)
    left_bound = _least(fewer, left_bound, delta, max(step, left_bound // 64))
    while (spent := max(fewer(left_bound), more(right_bound))) > delta:
        left_bound, right_bound = left_bound + step, right_bound + step
        if left_bound > 100 * (1 + left * grid) * first:
            raise _out_of_reach(epsilon, delta, height)
    test, _ = laws(right_bound, left_bound)
    return Laws(
        shape="geometric",
        test=test,
        release=release,
        grid=grid,
        left=left,
        right=right,
        release_scale=release_scale,
        delta=spent,
    )


@lru_cache(maxsize=256)
def gaussian_left(
    *, base: Laws, height: int, epsilon: float, delta: float, remainder: bool
) -> Laws:
    """Gaussian left half, geometric right half: less spread than ``base`` from height 6 or so."""

    def build(scale: float, right_bound: int) -> NoiseTable:
        return halves(
            left=("gaussian", scale, _gaussian_bound(scale, height, delta)),
            right=("geometric", base.right, right_bound),
            recentre=False,
        )

    def delta_of(test: NoiseTable, more_first: bool) -> float:
        return one_direction(
            test,
            base.release,
            height=height,
            epsilon=epsilon,
            remainder=remainder,
            more_first=more_first,
        )

    start = base.test.highest + 2
    scale = _least_scale(
        lambda s: delta_of(build(s, start), more_first=False), 0.8 * base.left, delta
    )
    right_bound = _least(lambda b: delta_of(build(scale, b), more_first=True), start, delta, 1)
    return _checked(
        "gaussian-left", base, build, delta_of, scale, right_bound, epsilon, delta, height
    )


@lru_cache(maxsize=256)
def gaussian_both(
    *, base: Laws, height: int, epsilon: float, delta: float, remainder: bool
) -> Laws:
    """Symmetric Gaussian test: least spread at great heights, at the price of a high threshold."""

    def build(scale: float, right_bound: int) -> NoiseTable:
        return halves(
            left=("gaussian", scale, _gaussian_bound(scale, height, delta)),
            right=("gaussian", scale, right_bound),
            recentre=False,
        )

    def delta_of(test: NoiseTable, more_first: bool) -> float:
        return one_direction(
            test,
            base.release,
            height=height,
            epsilon=epsilon,
            remainder=remainder,
            more_first=more_first,
        )

    def both(scale: float) -> float:
        test = build(scale, _gaussian_bound(scale, height, delta))
        return max(delta_of(test, more_first=False), delta_of(test, more_first=True))

    scale = _least_scale(both, 0.5 * base.left, delta)
    bound = _gaussian_bound(scale, height, delta)
    right_bound = _least(lambda b: delta_of(build(scale, b), more_first=True), bound, delta, 1)
    return _checked("gaussian", base, build, delta_of, scale, right_bound, epsilon, delta, height)


def _checked(
    shape: Shape,
    base: Laws,
    build: Callable[[float, int], NoiseTable],
    delta_of: Callable[[NoiseTable, bool], float],
    scale: float,
    right_bound: int,
    epsilon: float,
    delta: float,
    height: int,
) -> Laws:
    """Widen until both directions are on the private side; searches may end a hair outside."""
    for _ in range(200):
        test = build(scale, right_bound)
        fewer, more = delta_of(test, False), delta_of(test, True)
        if max(fewer, more) <= delta:
            return Laws(
                shape=shape,
                test=test,
                release=base.release,
                grid=1,
                left=scale,
                right=scale if shape == "gaussian" else base.right,
                release_scale=base.release_scale,
                delta=max(fewer, more),
            )
        scale *= 1.002 if fewer > delta or shape == "gaussian" else 1.0
        right_bound += 1 if more > delta else 0
    raise _out_of_reach(epsilon, delta, height)


def _out_of_reach(epsilon: float, delta: float, height: int) -> BudgetError:
    return BudgetError(
        f"no 64-bit noise table reaches delta={delta:g} at epsilon={epsilon:g}, height={height}: "
        "raise delta, or lower epsilon."
    )


def _gaussian_bound(scale: float, height: int, delta: float) -> int:
    return math.ceil(scale * math.sqrt(2 * math.log(20 * height / delta)))


def _least(cost: Callable[[int], float], start: int, delta: float, step: int) -> int:
    """Least bound found by bisection whose cost stays within delta (cost falls with the bound)."""
    low, high = start // 2, start
    while cost(high) > delta and high < 4 * start:
        low, high = high, high + max(step, start // 16)
    while high - low > step:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle) <= delta else (middle, high)
    return high


def _least_scale(cost: Callable[[float], float], start: float, delta: float) -> float:
    """Least scale within half a percent whose cost stays within delta, by secants in logarithms."""
    goal = math.log(delta)

    def excess(scale: float) -> float:
        return math.log(max(cost(scale), 1e-300)) - goal

    low, high = start / 1.5, start * 1.5
    at_low, at_high = excess(low), excess(high)
    while at_high > 0:
        low, at_low, high = high, at_high, high * 1.5
        at_high = excess(high)
    while at_low <= 0:
        low, at_low, high, at_high = low / 1.5, excess(low / 1.5), low, at_low
    while high / low > 1.005:
        guess = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
        at = excess(guess)
        if at <= 0:
            high, at_high = guess, at
        else:
            low, at_low = guess, at
    return high
