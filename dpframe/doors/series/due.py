"""The periods of a report that are due, by a clock or up to a named period."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from dpframe.doors.series.declaration import Report, Schedule
from dpframe.errors import ParameterError
from dpframe.period_texts import read_unit_period
from dpframe.periods import as_period, last_complete, periods_of, unit_of_period

Clock = datetime
"""The present instant, with a zone."""


def current_time() -> Clock:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)


def due_periods(report: Report, until: str | None, clock: Clock, names: Sequence[str]) -> list[str]:
    """Return the texts of all periods that are over, from the first to ``until``.

    ``names`` are the releases that the ledger stores. Raises ParameterError if ``until`` is not
    over yet, or if ``until`` or the clock is before a period that is already drawn.
    """
    timing = report.timing
    last = asked = _last_period_over(timing, clock)
    if until is not None:
        asked = last_complete(timing.unit, _end(until))
        if _end(asked) > _end(last):
            grace = f" with its grace of {timing.grace}" if timing.grace else ""
            raise ParameterError(
                f"until ({until!r}) is not over{grace}: the last {timing.unit} of report "
                f"{report.name!r} is {last}. Leave it out, or check the clock."
            )
    drawn = _last_drawn(report, names)
    if drawn is not None and _end(asked) < _end(drawn.strip()):
        wrong = (
            f"{drawn} of report {report.name!r} is drawn, but not due by this machine's clock"
            if until is None
            else f"until ({until!r}) is before {drawn}, which report {report.name!r} has drawn"
        )
        raise ParameterError(f"{wrong}. Set the clock right, or name that period or a later one.")
    if _end(asked) < _end(timing.first):
        return []
    texts = periods_of(timing.unit, timing.first, asked)
    return [text for text in texts if _clock_has_period(timing, text)]


def _last_period_over(timing: Schedule, clock: Clock) -> str:
    """Return the last period that has been over for the grace.

    Without ``zone``, the period must be over both by this machine's local time and by UTC, in
    which times with a zone are read.
    """
    at = clock - timing.grace
    if timing.zone is not None:
        from zoneinfo import ZoneInfo

        return last_complete(timing.unit, at.astimezone(ZoneInfo(timing.zone)))
    shown = [at.astimezone(zone).replace(tzinfo=None) for zone in (None, UTC)]
    return last_complete(timing.unit, min(shown))


def _clock_has_period(timing: Schedule, text: str) -> bool:
    """Return whether a period exists: clocks skip an hour when summer time begins."""
    with suppress(ParameterError):
        timing.period(text)
        return True
    return False


def _last_drawn(report: Report, names: Sequence[str]) -> str | None:
    start, found = report.release(""), []
    for text in [name.removeprefix(start) for name in names if name.startswith(start)]:
        with suppress(ParameterError):  # a name that ends in another way
            unit, bounds = read_unit_period(text.strip())
            found += [(bounds, text)] if unit == report.timing.unit else []
    return max(found, default=(None, None))[1]


def _end(text: str) -> datetime:
    return read_unit_period(text)[1][1]


def as_until(given: object) -> str | None:
    """Return the text of the period ``until``; None for None. ParameterError if it is no period."""
    if given is None:
        return None
    period = as_period(("until", given))
    if period is None or period.text is None or unit_of_period(period.text) is None:
        raise ParameterError(f"until ({given!r}) must be a period such as '2026-W47'.")
    return period.text
