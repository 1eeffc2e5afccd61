"""The page of a report: its stored releases over time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpframe._paths import file_of_path
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.released_measures import receipt_measures
from dpframe.doors.change import change
from dpframe.doors.series.declaration import Report
from dpframe.errors import ParameterError
from dpframe.ledger import Ledger
from dpframe.publishing.names import identifier_of

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.pages.series_page import Changes


def write_report_page(
    report: Report, periods: Sequence[str], ledger: Ledger, folder: str
) -> list[str]:
    """Write the page of a report on its last ``PERIODS`` periods; return a list with its path,
    which is empty if none of these periods is stored.

    The new page replaces the old one in one step.
    """
    from dpframe.pages.series_page import PERIODS, write_series_page  # not for `import dpframe`

    releases = {period: _stored_frame(report, period, ledger) for period in periods[-PERIODS:]}
    if not any(releases.values()):
        return []
    target = file_of_path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"pages ({folder!r}) cannot be made a folder ({error.strerror}). Name another."
        ) from error
    path = os.path.join(target, f"{identifier_of(report.name)}.html")
    title = f"{report.name}, by {report.timing.unit}"
    write_series_page(releases, _last_changes(report, releases, ledger), path, title=title)
    return [path]


def _last_changes(
    report: Report,
    releases: Mapping[str, tuple[pd.DataFrame, Receipt] | None],
    ledger: Ledger,
) -> Changes | Mapping[str, Changes]:
    """Return the changes between the last two stored releases, of a rollup for each measure; a
    sentence if there are fewer."""
    receipt = next(made[1] for made in releases.values() if made is not None)
    names = [measure.name for measure in receipt_measures(receipt)]
    last = [report.release(period) for period, made in releases.items() if made is not None][-2:]
    if len(last) < 2:
        return "Two periods are needed, and one is drawn so far."
    if not names:
        return _compare_releases(last, ledger, None)
    return {name: _compare_releases(last, ledger, name) for name in names}


def _compare_releases(names: Sequence[str], ledger: Ledger, measure: str | None) -> Changes:
    """Return the frame of changes, or a sentence that says why the releases are not compared."""
    before, after = names
    try:
        return change(before, after, measure=measure, ledger=ledger)
    except ParameterError as error:
        return f"Not compared: {error}"


def _stored_frame(
    report: Report, period: str, ledger: Ledger
) -> tuple[pd.DataFrame, Receipt] | None:
    found = ledger.find(report.release(period))
    if found is None:
        return None
    return found.to_arrow().to_pandas(), Receipt(json.loads(found.receipt))
