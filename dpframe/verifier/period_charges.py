"""The cost of releases that read periods, for whoever has one time in every column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1)

READ = {"instants": "as instants", "dates": "as dates", "text": "as text", "written": "as written"}
"""How an axis names the way in which times are read: periods that are read in another way may share
records."""

FINER = " in nanoseconds"

NULL = (-(2**47), 1 - 2**47)
"""The one second that stands for records without a time."""

Cost = tuple[Fraction, Fraction]
"""Epsilon and delta."""


class Block(NamedTuple):
    """A stretch of an axis, which is a column and how its times are read: from ``first`` to before
    ``last``, in whole seconds since 1970."""

    axis: str
    first: int
    last: int


def largest_charge(charges: Iterable[tuple[Block | None, Cost]]) -> Cost:
    """The sum of all costs without a block and, for every axis, of the most that is charged at any
    moment; epsilons and deltas are added separately."""
    total, axes = (Fraction(0), Fraction(0)), dict[str, list[tuple[int, Cost]]]()
    for block, cost in charges:
        if block is None:
            total = _add_costs(total, cost)
            continue
        ends = axes.setdefault(block.axis, [])
        ends += [(block.first, cost), (block.last, (-cost[0], -cost[1]))]
    for ends in axes.values():
        at, most = (Fraction(0), Fraction(0)), (Fraction(0), Fraction(0))
        costs: dict[int, Cost] = {}
        for moment, cost in ends:
            costs[moment] = _add_costs(costs.get(moment, (Fraction(0), Fraction(0))), cost)
        for moment in sorted(costs):
            at = _add_costs(at, costs[moment])
            most = max(most[0], at[0]), max(most[1], at[1])
        total = _add_costs(total, most)
    return total


def _add_costs(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1]


def block_mismatch(receipt: Mapping[str, Any], block: Block | None) -> str | None:
    """Why a release does not read the block that it was charged for; None if it does."""
    told = receipt.get("period")
    if block is None:
        return None  # it was charged for all records
    if block.first >= block.last:
        return "it was charged for no time at all"
    if not isinstance(told, Mapping):
        return "it was charged for a period, and its receipt says that it reads all records"
    own = f"{told.get('column')} {READ.get(str(told.get('read')))}"
    if block.axis.removesuffix(FINER if told.get("read") == "instants" else "") != own:
        return f"it reads {told.get('column')!r}, and was charged for {block.axis!r}"
    start, end = told.get("start"), told.get("end")
    if start is None or end is None:
        null = start is None and end is None and (block.first, block.last) == NULL
        return None if null else "it was charged for another period than that without a time"
    zone = str(told.get("zone") or "UTC") if told.get("read") == "instants" else None
    try:
        read = tuple(_epoch_seconds(str(each), zone) for each in (start, end))
    except (ValueError, OSError):
        return "its period cannot be read"
    if read != (block.first, block.last):
        return f"it reads from {start} to before {end}, and was charged for other moments"
    return None


def _epoch_seconds(text: str, zone: str | None) -> int:
    at = datetime.fromisoformat(text)
    if zone is None:
        return (at - EPOCH) // timedelta(seconds=1)
    return int(at.replace(tzinfo=ZoneInfo(zone)).timestamp())
