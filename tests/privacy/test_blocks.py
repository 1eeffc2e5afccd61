"""A ledger's totals by block: the dearest block of an axis counts, and nothing is forgotten.

Charges are written through the shipped code into files in memory and compared with a twin that
looks at every moment (``tests/naive.py``); beside it stand planted bugs that the same comparison
rejects. That the total then holds for one record, whatever the analyst reads next, is enumerated.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import strategies as st

import dpframe as dp
from dpframe.ledger import Blocks, Charge, history, state
from dpframe.ledger.blocks import FARTHEST, Segments
from dpframe.ledger.entries import check_history
from dpframe.ledger.history import summary_frame
from dpframe.ledger.store import (
    APPLICATION_ID,
    DELTA_UNIT,
    EPSILON_UNIT,
    FORMAT,
    SCHEMA,
    read_totals,
)
from tests import naive
from tests.members import some
from tests.strategies import examples

DAY = 86_400
DELTA = 10**6
"""Units of delta of a unit of cost."""

TOTAL = 6
"""The total, in units of cost: ``EPSILON`` of epsilon each, and ``DELTA`` of delta."""

EPSILON = 10**11

NULL_MOMENT = -(10**6)
"""The twin's moment of NULL times, which no window of days meets."""

Given = tuple[str | None, int, int, int, int]
"""Axis, first and last day (both None-like for NULL: -1, 0), epsilon and delta in units of cost."""


@contextmanager
def ledger_in_memory(total: int = TOTAL) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(SCHEMA)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute(
            "INSERT INTO budget (id, ledger_id, accountant, epsilon, delta) "
            "VALUES (1, 'x', 'sum', ?, ?)",
            (total * EPSILON, total * DELTA),
        )
        yield db


DAYS = [day * DAY for day in range(400)]
"""When each of the twin's moments begins, in seconds."""


def blocks_of(
    axis: str | None, first: int, last: int, clock: Sequence[int] = DAYS
) -> Blocks | None:
    if axis is None:
        return None
    if first < 0:
        return Blocks.of_null(axis)
    return Blocks(axis=axis, first=clock[first], last=clock[last])


def costs(kept: Sequence[Given]) -> list[list[tuple[naive.Reads, int]]]:
    """What was read, and at what epsilon and what delta."""
    return [[(reads(g), g[3]) for g in kept], [(reads(g), g[4]) for g in kept]]


def charge(number: int, given: Given, clock: Sequence[int] = DAYS) -> Charge:
    axis, first, last, epsilon, delta = given
    return Charge(
        release_id=f"release-{number}",
        time="2026-11-22T00:00:00+00:00",
        epsilon=float(epsilon * EPSILON * EPSILON_UNIT),
        delta=float(delta * DELTA * DELTA_UNIT),
        profile=lambda: (),
        source="",
        receipt=json.dumps({"neighbours": "adding or removing one record"}),
        blocks=blocks_of(axis, first, last, clock),
    )


def reads(given: Given) -> naive.Reads:
    axis, first, last, *_ = given
    moments = [NULL_MOMENT] if first < 0 else range(first, last)
    return None if axis is None else (axis, frozenset(moments))


def months() -> list[tuple[int, int]]:
    """Months of 2026 as days since the first of January."""
    starts = [(date(2026, m, 1) - date(2026, 1, 1)).days for m in range(1, 13)] + [365]
    return list(pairwise(starts))


SMALL = st.tuples(st.integers(0, 9), st.integers(1, 8)).map(lambda p: (p[0], p[0] + p[1]))
CALENDAR = st.one_of(
    st.integers(0, 80).map(lambda day: (day, day + 1)),
    st.integers(0, 10).map(lambda week: (7 * week + 4, 7 * week + 11)),
    st.sampled_from(months()[:3]),
)
NULL = st.just((-1, 0))
COST = st.integers(1, 3)


def charges_of(spans: st.SearchStrategy[tuple[int, int]]) -> st.SearchStrategy[list[Given]]:
    some = st.tuples(st.sampled_from(["when", "when", "seen"]), st.one_of(spans, spans, NULL))
    everything = st.just((None, (0, 0)))
    place = st.one_of(some, some, some, everything)
    one = st.tuples(place, COST, COST).map(lambda p: (p[0][0], *p[0][1], p[1], p[2]))
    return st.lists(one, max_size=14)


def agree(asked: Sequence[Given], clock: Sequence[int] = DAYS) -> int:
    """Charge one after the other and compare every answer with the twin's; how many fitted."""
    with ledger_in_memory() as db:
        kept: list[Given] = []
        for number, given in enumerate(asked):
            axis, first, last, *cost = given
            sums = costs(kept)
            free = [naive.fits(s, axis, (reads(given) or ("", ()))[1], TOTAL) for s in sums]
            here = state.read_state(db)
            left = here.left_in(blocks_of(axis, first, last, clock))
            assert (left.epsilon, left.delta) == (
                float(free[0] * EPSILON * EPSILON_UNIT),
                float(free[1] * DELTA * DELTA_UNIT),
            )
            before = read_totals(db)
            where_it_is_full(here.segments, sums, given, clock)
            if any(asks > has for asks, has in zip(cost, free, strict=True)):
                with pytest.raises(dp.OverBudgetError) as error:
                    state.write_charge(db, charge(number, given, clock), ())
                for which, name in enumerate(("epsilon", "delta")):
                    assert (f"{name} requested" in str(error.value)) == (cost[which] > free[which])
                assert read_totals(db) == before
                continue
            paid = state.write_charge(db, charge(number, given, clock), ())
            kept.append(given)
            spent = [naive.spent_by_block(s) for s in costs(kept)]
            now = read_totals(db)
            assert now.spent_units == (spent[0] * EPSILON, spent[1] * DELTA)
            assert paid.left == now.remainder
            assert paid.there == state.read_state(db).left_in(blocks_of(axis, first, last, clock))
        check_history(db, whole=True)
        if clock is DAYS:
            views_agree(db, kept)
        return len(kept)


def where_it_is_full(
    segments: Segments,
    sums: list[list[tuple[naive.Reads, int]]],
    given: Given,
    clock: Sequence[int],
) -> None:
    """The stretch that a refusal would name: in the period asked for, and as full as any of it."""
    axis, first, last, *_ = given
    if axis is None or first < 0:
        return
    for which in (0, 1):
        begin, end = segments.stretch(axis, clock[first], clock[last], which)
        assert clock[first] <= begin < end <= clock[last]
        most = naive.fullest(sums[which], axis, range(first, last))
        for day in range(clock.index(begin), clock.index(end)):
            assert naive.touching(sums[which], axis, [day]) == most


def day_of(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def views_agree(db: sqlite3.Connection, kept: Sequence[Given]) -> None:
    """Blocks, windows and summary, against every moment."""
    sums = costs(kept)
    everywhere = [sum(c for r, c in s if r is None) for s in sums]
    axes = {g[0] for g in kept if g[0] is not None}
    for days in (0, 1, 2, 7, 30):
        starts = [range(start, start + days + 1) for start in range(-days, 100)]
        windows = [[NULL_MOMENT], *starts]
        worst = [
            total + sum(max(naive.touching(s, axis, w) for w in windows) for axis in axes)
            for total, s in zip(everywhere, sums, strict=True)
        ]
        assert history.window_spending(db, days * DAY) == (worst[0] * EPSILON, worst[1] * DELTA)
    frame = history.blocks_frame(db)
    for row in frame.to_dict("records"):
        ends = NULL_MOMENT, NULL_MOMENT + 1
        if isinstance(row["first"], str):
            ends = day_of(row["first"]), day_of(row["last"])
        for day in range(*ends):
            spent = naive.touching(sums[0], row["axis"], [day])
            left = naive.fits(sums[1], row["axis"], [day], TOTAL)
            assert row["spent_epsilon"] == float(spent * EPSILON * EPSILON_UNIT)
            assert row["left_delta"] == float(left * DELTA * DELTA_UNIT)
    covered = sum(len(reads(g)[1]) > 0 for g in kept if reads(g) is not None)  # type: ignore[index]
    assert (len(frame) > 0) == (covered > 0)
    shown = summary_frame(db, "x").iloc[0]
    assert shown["plain_epsilon"] == float(sum(g[3] for g in kept) * EPSILON * EPSILON_UNIT)
    assert shown["protects"] == ("adding or removing one record" if kept else "")


@examples(40, 1500, charges_of(SMALL))
def test_totals_by_block_are_those_of_the_twin(asked: list[Given]) -> None:
    """Law: what is spent, what is left in any blocks, what is refused, the views of blocks and
    windows: all as counted moment by moment; a refusal leaves nothing."""
    agree(asked)


@examples(25, 800, charges_of(CALENDAR))
def test_days_weeks_and_months_mix(asked: list[Given]) -> None:
    """Law: the same for days, weeks and months of one column, and of another beside it."""
    agree(asked)


TIMES = st.one_of(
    st.integers(1 - FARTHEST, FARTHEST - 1),
    st.integers(0, 46).flatmap(lambda bits: st.integers(-(2**bits), 2**bits)),
    st.sampled_from([1 - FARTHEST, FARTHEST - 1, -1, 0, 1, 63, 64, 65, 4095, 4096, 2**42]),
)
CLOCKS = st.lists(TIMES, min_size=18, max_size=18, unique=True).map(sorted)


@examples(40, 1500, charges_of(SMALL), CLOCKS)
def test_moments_may_lie_anywhere(asked: list[Given], clock: list[int]) -> None:
    """Law: the same for moments that are seconds or millions of years apart, to both ends of what
    is kept: every level of the tree."""
    agree(asked, clock)


# -- planted bugs ----------------------------------------------------------------------------------


def first_moment_only(shipped: Any) -> Any:
    """A range is judged by its first moment."""
    return lambda self, blocks: self._sum_to(blocks.axis, blocks.first)


def ends_included(shipped: Any) -> Any:
    """Periods that meet are taken for overlapping."""

    def fullest(self: Segments, blocks: Blocks) -> Any:
        if blocks.is_null:
            return shipped(self, blocks)
        return shipped(self, Blocks(axis=blocks.axis, first=blocks.first, last=blocks.last + 1))

    return fullest


def one_axis(shipped: Any) -> Any:
    """What other axes spent is forgotten."""
    return lambda self, axis: (
        max(top.epsilon for top in self.tops.values()) if self.tops else 0,
        max(top.delta for top in self.tops.values()) if self.tops else 0,
    )


def dearest_charge(shipped: Any) -> Any:
    """Overlapping charges cost as much as the dearest of them."""
    return lambda self, blocks: (0, 0)


PLANTED = {
    "the first moment only": ("fullest", first_moment_only),
    "ends included": ("fullest", ends_included),
    "the dearest charge": ("fullest", dearest_charge),
    "one axis for all": ("top", one_axis),
}

TELLING: list[Given] = [
    ("when", 3, 5, 2, 2),
    ("when", 1, 4, 2, 1),
    ("when", 0, 3, 2, 2),
    ("seen", 0, 9, 1, 2),
    ("when", -1, 0, 3, 3),
    ("when", 1, 3, 1, 1),
    (None, 0, 0, 1, 1),
    ("when", 6, 9, 3, 3),
]


def test_the_telling_charges_agree_as_shipped() -> None:
    """Law: the charges that the planted bugs are tried on fit, and agree."""
    assert agree(TELLING) == 7


@pytest.mark.parametrize("planted", PLANTED)
def test_a_wrong_total_by_block_is_rejected(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    """Planted bugs: each of them disagrees with the twin, or with the tree, on these charges."""
    name, bug = PLANTED[planted]
    monkeypatch.setattr(Segments, name, bug(getattr(Segments, name)))
    with pytest.raises((AssertionError, dp.LedgerError)):
        agree(TELLING)


# -- what the total is worth -----------------------------------------------------------------------


def respond(bit: int, said: int) -> Fraction:
    """Randomised response with odds of 2 to 1: log 2 of epsilon."""
    return Fraction(2, 3) if bit == said else Fraction(1, 3)


def worst_ratio(
    policy: Callable[[tuple[int, ...]], tuple[int, int]], steps: int, total: int, moved: bool
) -> Fraction:
    """The greatest ratio of any transcript's chances for two neighbours, over all neighbours.

    ``policy`` chooses the days that are read next from all answers so far. An answer is whether
    there is a record in those days, by randomised response, which costs 1; what the ledger refuses
    is not answered. Neighbours: a table without records, and one with a record on one of the days;
    with ``moved`` tables with a record on one and on another day, which is more than is promised.
    """
    days = range(6)
    likely: dict[int | None, dict[tuple[int, ...], Fraction]] = {day: {} for day in (None, *days)}
    for answers in product((0, 1), repeat=steps):
        chances = dict.fromkeys(likely, Fraction(1))
        with ledger_in_memory(total) as db:
            for step in range(steps):
                first, last = policy(answers[:step])
                try:
                    state.write_charge(db, charge(step, ("when", first, last, 1, 1)), ())
                except dp.OverBudgetError:
                    continue
                for day in chances:
                    bit = int(day is not None and first <= day < last)
                    chances[day] *= respond(bit, answers[step])
        for day, chance in chances.items():
            likely[day][answers] = chance
    pairs = [(a, b) for a in days for b in days] if moved else [(None, day) for day in days]
    return max(
        max(likely[a][t] / likely[b][t], likely[b][t] / likely[a][t])
        for a, b in pairs
        for t in likely[None]
    )


def follow(answers: tuple[int, ...]) -> tuple[int, int]:
    """Where a record seems to be, look closer; otherwise look on."""
    low, high = 0, 6
    for answer in answers:
        middle = (low + high + 1) // 2
        low, high = (low, middle) if answer else (middle if middle < high else 0, 6)
    return low, max(low + 1, high)


def insist(answers: tuple[int, ...]) -> tuple[int, int]:
    """One day as long as it answers yes, then the next."""
    day = sum(1 for answer in answers if not answer) % 6
    return day, day + 1


@some("1-follow", "2-follow", "3-insist")
@pytest.mark.parametrize("policy", [follow, insist])
@pytest.mark.parametrize("total", [1, 2, 3])
def test_the_total_holds_for_a_record_whatever_is_read_next(policy: Any, total: int) -> None:
    """Law: enumerated over all transcripts, no record changes the chance of any by more than
    e^total, when the periods are chosen from the answers; some record does by that much."""
    assert worst_ratio(policy, 6, total, moved=False) == 2**total


def test_a_record_that_moves_to_another_period_is_not_covered() -> None:
    """What is not claimed: neighbours in which a record has another time differ by more."""
    assert worst_ratio(insist, 6, 2, moved=True) > 2**2
