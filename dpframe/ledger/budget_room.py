"""What is left in which blocks, and the error for a charge that does not fit."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpframe.errors import OverBudgetError
from dpframe.ledger.blocks import FARTHEST, Blocks, Segments, block_text, fullest_moment
from dpframe.ledger.entries import entries, exact_cost_of
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, float_amount
from dpframe.ledger.totals import Exact, Totals, Units, exact_amounts, largest_sum


def left_in(now: Totals, segments: Segments, blocks: Blocks | None) -> Units:
    """What is left, in units, for a release of these blocks; without blocks, for any release. The
    units can be below 0, as costs are rounded up."""
    left = now.epsilon - now.spent_epsilon, now.delta - now.spent_delta
    if blocks is None:
        return left
    there, top = segments.fullest(blocks), segments.top(blocks.axis)
    return left[0] + top[0] - there[0], left[1] + top[1] - there[1]


def left_in_unread(now: Totals, segments: Segments, axis: str) -> Units:
    """What is left for a period of an axis that no block charged so far touches."""
    left, top = left_in(now, segments, None), segments.top(axis)
    return left[0] + top[0], left[1] + top[1]


def spent_exactly(
    db: sqlite3.Connection | None, now: Totals, blocks: Blocks | None, unread: str | None = None
) -> Exact:
    """The exact sum of costs as they were asked for: of all charges without blocks, and for every
    axis of the most at any moment. On the axis of ``blocks`` only moments in these blocks count.
    Charges to blocks of the axis ``unread`` are left out."""
    if db is None:
        return exact_amounts(now.spent_units)
    total, axes = exact_amounts((0, 0)), dict[str, list[tuple[int, int, Exact]]]()
    for entry in entries(db, now):
        restated = entry.releases is not None and entry.profile == "[]"
        if now.accountant == "pld" and (entry.open is None or restated):
            total = exact_amounts(entry.sums)  # in the first format, which composed all up to here
        elif entry.under is None and entry.axis is None:
            total = _sum_costs(total, exact_cost_of(entry))
        elif entry.under is None and entry.axis != unread:
            first, last = int(entry.first or 0), int(entry.last or 0)
            if blocks is not None and blocks.axis == entry.axis:
                first, last = max(first, blocks.first), min(last, blocks.last)
            if first < last:
                axes.setdefault(str(entry.axis), []).append((first, last, exact_cost_of(entry)))
    for charges in axes.values():
        epsilon, delta = (
            fullest_moment((first, last, cost[which]) for first, last, cost in charges)
            for which in (0, 1)
        )
        total = _sum_costs(total, (epsilon, delta))
    return total


def _sum_costs(one: Exact, other: Exact) -> Exact:
    return one[0] + other[0], one[1] + other[1]


@dataclass(frozen=True, slots=True)
class Room:
    """What a release may cost. A cost fits if the ``units`` that are left hold it, or if the exact
    sum ``spent`` and the exact cost fit the ``total`` (docs/decisions/0036)."""

    units: Units
    spent: Exact
    total: tuple[float, float]

    def fits(self, cost: Units, asked: Exact) -> tuple[bool, bool]:
        """Whether epsilon fits, and whether delta fits."""
        epsilon, delta = (
            cost[which] <= self.units[which]
            or self.spent[which] + asked[which] <= largest_sum(self.total[which])
            for which in (0, 1)
        )
        return epsilon, delta

    def how_many(self, cost: Units, asked: Exact) -> int:
        """How many releases of this cost fit."""
        return max(0, min(self._times(cost[which], asked[which], which) for which in (0, 1)))

    def _times(self, cost: int, asked: Fraction, which: int) -> int:
        whole = self.units[which] // cost
        if not asked:
            return whole
        return max(whole, int((largest_sum(self.total[which]) - self.spent[which]) // asked))

    def remainder(self, which: int) -> Fraction:
        """What the exact sum leaves of the total."""
        return max(Fraction(0), Fraction(self.total[which]) - self.spent[which])


def room_in(
    db: sqlite3.Connection | None,
    now: Totals,
    segments: Segments,
    blocks: Blocks | None,
    unread: str | None = None,
) -> Room:
    """The room of a release of these blocks; without blocks, of any release; with ``unread``, of a
    period of that axis to which nothing was charged."""
    left = left_in_unread(now, segments, unread) if unread else left_in(now, segments, blocks)
    return Room(left, spent_exactly(db, now, blocks, unread), now.total)


def check_fits(
    db: sqlite3.Connection | None,
    now: Totals,
    segments: Segments,
    cost: Units,
    asked: Exact,
    blocks: Blocks | None,
) -> None:
    """Raise OverBudgetError if a cost does not fit. Its message names the fullest block, and says
    what is left there and for a new period. The exact sum is computed only if units do not fit and
    rounding could be why."""
    left = left_in(now, segments, blocks)
    above = max(cost[0] - left[0], cost[1] - left[1])
    if above <= 0:
        return
    spent = now.epsilon - left[0], now.delta - left[1]
    room = Room(left, exact_amounts(spent), now.total)
    if above <= _rounding_units(db):
        room = room_in(db, now, segments, blocks)
    lines = []
    for which, (name, unit) in enumerate((("epsilon", EPSILON_UNIT), ("delta", DELTA_UNIT))):
        if not room.fits(cost, asked)[which]:
            there = room.remainder(which)
            over = _as_decimal(asked[which]) - _as_decimal(there)
            if over <= 0:  # their decimals do not differ
                over = asked[which] - there
            lines.append(
                f"{name} requested {float(asked[which]):.6g}, "
                f"remaining {float(there):.6g}{_fullest_block_text(now, segments, blocks, which)}, "
                f"over by {float(over):.6g}"
                f"{_unread_room_text(now, segments, blocks, which, unit)}"
            )
    if lines:
        raise OverBudgetError(
            f"the ledger does not hold enough budget: {'; '.join(lines)}. Nothing was drawn or "
            "charged. Ask for less, or replay an earlier release by its name."
        )


def _rounding_units(db: sqlite3.Connection | None) -> int:
    """The most units that rounding can have added: two for each entry and for the cost, which can
    be for two steps, and one for the total."""
    last = 0
    if db is not None:
        (last,) = db.execute("SELECT max(number) FROM charges").fetchone()
    return 2 * (last or 0) + 3


def _as_decimal(number: Fraction) -> Fraction:
    """The shortest decimal of the nearest float, which messages show."""
    return Fraction(repr(float(number)))


def _fullest_block_text(now: Totals, segments: Segments, blocks: Blocks | None, which: int) -> str:
    """Words for the fullest block of every axis that the release reads."""
    axes = segments.tops if blocks is None else (blocks.axis,)
    full = []
    for axis in axes:
        first, last = (blocks.first, blocks.last) if blocks else (-FARTHEST, FARTHEST)
        found = segments.stretch(axis, first, last, which)
        full.append(f"{axis}: {block_text(*found)}")
    if not full:
        return ""
    return f" in the fullest block ({'; '.join(full)})"


def _unread_room_text(
    now: Totals, segments: Segments, blocks: Blocks | None, which: int, unit: Decimal
) -> str:
    """Words for what is left for a period that nothing was charged to; no words unless that is more
    than what is left for the release."""
    axes = list(segments.tops) if blocks is None else [blocks.axis]
    most = max((left_in_unread(now, segments, axis)[which] for axis in axes), default=0)
    if most <= max(0, left_in(now, segments, blocks)[which]):
        return ""
    return f" (a period that nothing was charged to has {_units_text(most, unit)} left)"


def _units_text(units: int, unit: Decimal) -> str:
    return f"{float_amount(units, unit):.6g}"
