"""Releases of several periods, enumerated: what a ledger charges for them together is what two
neighbouring tables are told apart by, exactly.

The records go through the shipped restriction and count, the counts through the shipped ``run``
with every outcome of its draws; the joint law of two releases is the product of both. One record
more is placed at the first instant of a period, where it would be in two if a bound were wrong.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpframe as dp
from dpframe.asking.release import DataScope
from dpframe.counts import CountTree
from dpframe.questions.hhh.ask import HHH
from dpframe.sources.source_relations import PeriodReading

from .enumerate_outputs import Distribution, Table, every_selection, worst_selection

EPSILON, DELTA = 1.0, 1e-3
WEEKS = ("2024-W23", "2024-W24")
MONDAY = dt.datetime(2024, 6, 10)
"""The first instant of the second week."""

ARGUMENTS: dict[str, Any] = {"hierarchy": "columns:k", "epsilon": EPSILON, "delta": DELTA}


@cache
def plan() -> Any:
    return HHH.plan(ARGUMENTS)


def rows(records: int, extra: Sequence[dt.datetime] = ()) -> pa.Table:
    """Some records in each of both weeks, and one more at each of some times."""
    times = [week for week in (dt.datetime(2024, 6, 3), MONDAY) for _ in range(records)]
    times = [t + dt.timedelta(days=1) for t in times]
    all_ = [*times, *extra]
    return pa.table({"k": ["a"] * len(all_), "when": pa.array(all_, pa.timestamp("us"))})


def table_of(tree: CountTree) -> Table:
    leaves = zip(tree.level, tree.keys[0].to_pylist(), tree.count, strict=True)
    counts = {key: int(count) for level, key, count in leaves if level == 1}
    return counts or {"a": 0}


def law(source: pa.Table, period: str) -> Distribution:
    """Of the release of a period: every selection, with true residuals."""
    about = DataScope.of({"period": ("when", period)}).read_in(source)
    counted = HHH.count(about.restrict(source), plan(), False).private
    options = {"test": plan().test_noise, "threshold": plan().threshold_units}
    return every_selection(table_of(counted), **options, remainder=False)


def together(source: pa.Table, periods: Sequence[str]) -> Distribution:
    """The joint law of releases whose noises are independent."""
    joint: Distribution = {(): 1}  # type: ignore[dict-item]
    for number, period in enumerate(periods):
        joint = {
            (*out, *((f"{number}/{path}", n) for path, n in more)): mass * other
            for out, mass in joint.items()
            for more, other in law(source, period).items()
        }
    return joint


def told_apart(periods: Sequence[str], epsilon: float, at: dt.datetime = MONDAY) -> float:
    """The largest exact delta at ``epsilon``, over tables about the threshold, of one record."""
    threshold = plan().threshold_units
    near = (threshold - 1, threshold, threshold + 2, threshold - plan().test_noise.lowest // 2)
    pairs = ((together(rows(n), periods), together(rows(n, [at]), periods)) for n in near)
    return max(worst_selection(p, q, plan().count_noise, math.exp(epsilon)) for p, q in pairs)


def charged(periods: Sequence[str], folder: Path) -> tuple[float, float]:
    """What a ledger has spent after these releases."""
    ledger = dp.Ledger(folder / "ledger.db", epsilon=10.0, delta=0.1)
    for period in periods:
        dp.hhh(rows(40), **ARGUMENTS, period=("when", period), ledger=ledger)
    spent = ledger.summary()
    return float(spent["spent_epsilon"][0]), float(spent["spent_delta"][0])


def test_two_disjoint_weeks_tell_no_more_of_a_record_than_one(tmp_path: Path) -> None:
    """Law: the joint law is within what was charged, which is what one week costs."""
    epsilon, delta = charged(WEEKS, tmp_path)
    assert (epsilon, delta) == (EPSILON, DELTA)
    exact = told_apart(WEEKS, epsilon)
    assert exact <= plan().draws.delta <= delta
    assert exact == pytest.approx(told_apart(WEEKS[1:], epsilon), rel=1e-9)
    assert exact > 0  # and the other week says nothing of it


@pytest.mark.parametrize("periods", [("2024-W24", "2024-06-11"), ("2024-06", "2024-W24")])
def test_periods_that_overlap_cost_their_sum(periods: tuple[str, str], tmp_path: Path) -> None:
    """Law: within what was charged, and not within what one of them costs."""
    epsilon, delta = charged(periods, tmp_path)
    assert (epsilon, delta) == (2 * EPSILON, 2 * DELTA)
    at = MONDAY + dt.timedelta(days=1)
    assert told_apart(periods, epsilon, at) <= delta
    assert told_apart(periods, EPSILON, at) > 10 * DELTA


def test_a_record_of_another_time_is_told_by_no_release() -> None:
    """Law: both tables have the same law, exactly."""
    for at in (dt.datetime(2024, 6, 17), dt.datetime(2024, 6, 2, 23, 59, 59, 999_999)):
        assert told_apart(WEEKS, 0.0, at) == 0


def _last_instant_too(self: PeriodReading, column: str | None = None) -> str:
    """Planted bug: the first instant after a period is counted in it, too."""
    return CONDITION(self, column).replace(" < ", " <= ")


def _to_the_nearest_day_too(self: PeriodReading, column: str | None = None) -> str:
    """Planted bug: a time of the evening counts as one of the next day, too."""
    later = CONDITION(self, "date_trunc('day', \"when\" + INTERVAL 12 HOUR)")
    return f"({CONDITION(self)} OR {later})"


CONDITION: Callable[..., str] = PeriodReading.condition


@pytest.mark.parametrize(
    ("bug", "at"),
    [(_last_instant_too, MONDAY), (_to_the_nearest_day_too, MONDAY - dt.timedelta(hours=3))],
)
def test_bounds_that_let_a_record_into_two_weeks_are_rejected(
    bug: Callable[..., str], at: dt.datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told_apart(WEEKS, EPSILON, at) <= DELTA
    monkeypatch.setattr(PeriodReading, "condition", bug)
    assert told_apart(WEEKS, EPSILON, at) > 10 * DELTA
