"""What is left where, and the words of a charge that does not fit."""

from __future__ import annotations

from decimal import Decimal

from dpframe.errors import OverBudgetError
from dpframe.ledger.blocks import FARTHEST, Blocks, text_of
from dpframe.ledger.segments import Segments
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, amount
from dpframe.ledger.totals import Totals, Units


def left_in(now: Totals, segments: Segments, blocks: Blocks | None) -> Units:
    """What a release that reads these blocks may cost at most; without blocks, any release."""
    left = now.epsilon - now.spent_epsilon, now.delta - now.spent_delta
    if blocks is None:
        return left
    there, top = segments.fullest(blocks), segments.top(blocks.axis)
    return left[0] + top[0] - there[0], left[1] + top[1] - there[1]


def elsewhere(now: Totals, segments: Segments, axis: str) -> Units:
    """What is left where nothing has been charged to blocks of an axis."""
    left, top = left_in(now, segments, None), segments.top(axis)
    return left[0] + top[0], left[1] + top[1]


def over_budget(
    now: Totals, segments: Segments, cost: Units, blocks: Blocks | None
) -> OverBudgetError:
    """A cost does not fit: which block is full, what is left there, and elsewhere."""
    left = left_in(now, segments, blocks)
    lines = []
    for which, (name, unit) in enumerate((("epsilon", EPSILON_UNIT), ("delta", DELTA_UNIT))):
        if cost[which] > left[which]:
            lines.append(
                f"{name} requested {_plain(cost[which], unit)}, "
                f"remaining {_plain(left[which], unit)}{_where(now, segments, blocks, which)}, "
                f"over by {_plain(cost[which] - left[which], unit)}"
                f"{_elsewhere(now, segments, blocks, which, unit)}"
            )
    return OverBudgetError(
        f"the ledger does not hold enough budget: {'; '.join(lines)}. Nothing was drawn or "
        "charged. Ask for less, or replay an earlier release by its name."
    )


def _where(now: Totals, segments: Segments, blocks: Blocks | None, which: int) -> str:
    """The fullest block of every axis that the release reads."""
    axes = segments.tops if blocks is None else (blocks.axis,)
    full = []
    for axis in axes:
        first, last = (blocks.first, blocks.last) if blocks else (-FARTHEST, FARTHEST)
        found = segments.stretch(axis, first, last, which)
        full.append(f"{axis}: {text_of(*found)}")
    if not full:
        return ""
    return f" in the fullest block ({'; '.join(full)})"


def _elsewhere(
    now: Totals, segments: Segments, blocks: Blocks | None, which: int, unit: Decimal
) -> str:
    """What a release of a period that nothing has read would find."""
    axes = list(segments.tops) if blocks is None else [blocks.axis]
    most = max((elsewhere(now, segments, axis)[which] for axis in axes), default=0)
    if most <= left_in(now, segments, blocks)[which]:
        return ""
    return f" (a period that nothing was charged to has {_plain(most, unit)} left)"


def _plain(units: int, unit: Decimal) -> str:
    return f"{amount(units, unit):.6g}"
