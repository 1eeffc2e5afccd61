"""The whole history of an axis at once: its stretches, and its worst window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, groupby

from dpframe.ledger.blocks import NULL_FIRST
from dpframe.ledger.totals import Units

Span = tuple[int, int, Units]
"""The first second, the second after the last, and what was charged for the seconds between."""


def stretches(charges: Iterable[Span]) -> list[tuple[int, int, Units, int]]:
    """Stretches of time that the same charges read, in order: begin, end, and the cost and number
    of these charges."""
    events = sorted(
        event
        for first, last, (epsilon, delta) in charges
        for event in ((first, 1, epsilon, delta), (last, -1, -epsilon, -delta))
    )
    found: list[tuple[int, int, Units, int]] = []
    number = epsilon = delta = since = 0
    for time, now in groupby(events, key=lambda event: event[0]):
        if number:
            found.append((since, time, (epsilon, delta), number))
        for _, one, e, d in now:
            number, epsilon, delta = number + one, epsilon + e, delta + d
        since = time
    return found


def worst_window(charges: Sequence[Span], seconds: int) -> Units:
    """The largest cost of all charges that touch one window of ``seconds`` seconds, wherever it
    begins.

    A window that begins at s touches [first, last) if first - seconds < s < last, and s need not be
    a whole second: between k and k + 1 it does for first - seconds <= k < last. NULL times are in
    no window with other times; all of them together count as one more window.
    """
    times = [(first - seconds, last, cost) for first, last, cost in charges if first != NULL_FIRST]
    null = [span for span in charges if span[0] == NULL_FIRST]
    sums = [sums for *_, sums, _ in (*stretches(times), *stretches(null))]
    return max((e for e, _ in sums), default=0), max((d for _, d in sums), default=0)


def fullest_moment(charges: Iterable[tuple[int, int, Fraction]]) -> Fraction:
    """The most that charges (first, last, cost) spend at any moment; 0 without charges."""
    events = sorted(
        event for first, last, cost in charges for event in ((first, cost), (last, -cost))
    )
    return max(accumulate(cost for _, cost in events), default=Fraction(0))
