"""Read labels of dates as periods of time."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

WRITTEN = re.compile(
    r"(\d{4})(?:-?Q([1-4])|-W(\d\d)|-(\d\d)(?:-(\d\d)(?:[ T](\d\d)(?::00(?::00(?:\.0+)?)?)?)?)?)?"
)
"""Pattern of years, quarters, ISO weeks, months, days and hours in labels."""


def period_of_label(label: str) -> pd.Period | None:
    """Return the period that a label names, such as 2013, 2013-W05 or 2013-01-05 10:00, or None."""
    import pandas as pd

    found = WRITTEN.fullmatch(label)
    if found is None:
        return None
    year = int(found[1])
    quarter, week, month, day, hour = (
        None if part is None else int(part) for part in found.groups()[1:]
    )
    try:
        if quarter is not None:
            return pd.Period(year=year, quarter=quarter, freq="Q")
        if week is not None:
            return pd.Period(datetime.date.fromisocalendar(year, week, 1), "W-SUN")
        if month is None:
            return pd.Period(year=year, freq="Y")
        datetime.date(year, month, 1 if day is None else day)
        if day is None:
            return pd.Period(year=year, month=month, freq="M")
        if hour is None:
            return pd.Period(year=year, month=month, day=day, freq="D")
        return pd.Period(year=year, month=month, day=day, hour=hour, freq="h")
    except ValueError:
        return None


def periods_of_labels(labels: Sequence[str]) -> list[pd.Period | None]:
    """Return the periods of labels; None for a label without one, or of another length than most.

    If all labels are times at midnight, as a column of timestamps writes days, they are days.
    """
    found = [period_of_label(label) for label in labels]
    known = [one for one in found if one is not None]
    if known and all(one.freqstr == "h" and one.hour == 0 for one in known) and len(known) > 1:
        found = [None if one is None else one.asfreq("D") for one in found]
    lengths = Counter(one.freqstr for one in found if one is not None)
    if not lengths:
        return found
    usual = lengths.most_common(1)[0][0]
    return [one if one is not None and one.freqstr == usual else None for one in found]


def period_start_text(period: pd.Period) -> str:
    """Return the start of a period as text that charts can read."""
    start = period.asfreq("h" if period.freqstr == "h" else "D", "start")
    return f"{start.year:04}-{start.month:02}-{start.day:02}" + (
        f" {start.hour:02}:00" if period.freqstr == "h" else ""
    )
