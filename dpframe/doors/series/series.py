"""``Series``: reports that are asked every period, declared in Python or in a file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from dpframe._known_arguments import known_arguments, shown_value
from dpframe._paths import file_of_path
from dpframe.doors.series import due
from dpframe.doors.series.declaration import check_keys, reports_of
from dpframe.doors.series.outcome import Outcome
from dpframe.doors.series.pages import write_report_page
from dpframe.doors.series.sources import path_from_base
from dpframe.doors.series.tasks import Task, due_tasks, run_tasks
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError
from dpframe.ledger import Ledger
from dpframe.ledger.store import is_unmade
from dpframe.ledger.unfinished_draws import ResumingLedger, rehearsal
from dpframe.publishing.publish import publish

KEYS = ("report", "source", "period", "ledger", "publish", "pages")
"""Keys of a file that declares a series."""

OF_LEDGER = ("path", "epsilon", "delta", "accountant", "protects")


@known_arguments
class Series:
    """Reports that are asked again every period: a week, a day, a month.

    Parameters
    ----------
    reports
        A mapping for each report: ``name``, ``question`` ("hhh", "tree_counts", "rollup" or
        another), and the arguments of the question's function. A report may have its own
        ``source`` and ``period``, and ``data``. Releases are called NAME-PERIOD.
    source
        Where the rows are: the path of a file, in which ``{period}`` stands for the period; a
        mapping with ``database`` and ``table`` or ``sql``; or anything that a question takes.
    period
        A mapping with the ``column`` of times, the ``unit`` ("year", "quarter", "month", "week",
        "day", "hour") and the ``first`` period; also ``zone``, an IANA name, and ``grace``, such as
        "2 days": how long to wait for late records after a period is over.
    ledger
        A :class:`Ledger`, its path, or a mapping with ``path`` and the arguments that make a new
        ledger: ``epsilon``, ``delta``, ``accountant``, ``protects``.
    publish
        The results file, as :func:`publish` takes it.
    pages
        A folder for one HTML page per report.

    Raises
    ------
    ParameterError, ParameterTypeError
        The declaration is wrong: an unknown key, two reports of the same name, a budget out of
        range.

    Privacy
    -------
    Every release is charged to the ledger once, before its noise is drawn. The messages, gaps and
    exit code of a run tell nothing about the data: a period without rows is released like others.
    Which files exist is taken to be public.

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd, dpframe as dp
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> days = pd.date_range("2025-10-06", periods=2100, freq="10min")
    >>> visits = pd.DataFrame({"when": days, "country": "FR"})
    >>> series = dp.Series(
    ...     [{"name": "visits", "question": "hhh", "hierarchy": ["country"],
    ...       "epsilon": 0.5, "delta": 1e-7}],
    ...     source=visits,
    ...     period={"column": "when", "unit": "week", "first": "2025-W41"},
    ...     ledger={"path": folder / "budget.db", "epsilon": 3.0, "delta": 1e-6})
    >>> series.run(until="2025-W42").to_frame()[["release", "state"]].values.tolist()
    [['visits-2025-W41', 'drawn'], ['visits-2025-W42', 'drawn']]
    >>> series.run(until="2025-W42").code
    0
    """

    def __init__(
        self,
        reports: Sequence[Mapping[str, Any]],
        *,
        source: object = None,
        period: Mapping[str, Any] | None = None,
        ledger: Ledger | str | Path | Mapping[str, Any],
        publish: str | Path | None = None,
        pages: str | Path | None = None,
    ) -> None:
        self._declare(Path(), reports, source, period, ledger, publish, pages)

    def _declare(
        self,
        base: Path,
        reports: object,
        source: object,
        period: object,
        ledger: object,
        publish: object,
        pages: object,
    ) -> None:
        self._reports = reports_of(reports, source, period, base)
        self._path, self._totals = _ledger_path(ledger, base)
        self._publish, self._pages = (
            None if given is None else path_from_base(_as_path(name, given), base)
            for name, given in (("publish", publish), ("pages", pages))
        )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the series that a TOML file declares; paths in it are relative to its folder.

        Parameters
        ----------
        path
            A file with the keys ``ledger``, ``publish``, ``pages``, ``source``, ``period`` and a
            table ``[[report]]`` for each report.

        Raises
        ------
        ParameterError, ParameterTypeError
            The file does not exist, is no TOML, or declares something wrong.
        """
        file = file_of_path(path)
        try:
            with file.open("rb") as stream:
                table = tomllib.load(stream)
        except OSError as error:
            raise ParameterError(
                f"{str(path)!r} cannot be read ({error.strerror}). Check the path."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError(f"{str(path)!r} is no TOML: {error}.") from None
        check_keys(f"{file.name}", table, KEYS)
        for key in ("report", "ledger"):
            if key not in table:
                raise ParameterError(f"{file.name} has no {key}. A series needs one.")
        series = cls.__new__(cls)
        base = Path(os.path.abspath(file)).parent
        series._declare(base, *(table.get(key) for key in KEYS))
        return series

    def __repr__(self) -> str:
        names = ", ".join(f"{r.name!r} every {r.timing.unit}" for r in self._reports)
        return f"Series({names}; ledger {str(self._path)!r})"

    def run(self, until: str | None = None, *, dry_run: bool = False) -> Outcome:
        """Draw every period that is over and not drawn yet, then publish and write the pages.

        Any number of processes may run a series, any number of times, and be killed at any moment.

        Parameters
        ----------
        until
            The last period, such as "2026-W47"; by default the last period that is over.
        dry_run
            Only say what would be drawn and what it would cost; reads no data, spends nothing.

        Returns
        -------
        Outcome
            ``str()`` of it is a summary; ``code``, ``steps``, ``gaps``, ``to_frame()``,
            ``to_json()``. A period that cannot be drawn, because its file is missing or the budget
            is spent, is a gap, and the run goes on with the next.

        Raises
        ------
        ParameterError
            ``until`` is not over yet; or ``until`` or the clock is before a period that is drawn.
        ReleaseNameError
            A stored release answered another declaration. Nothing is drawn.
        LedgerError
            The ledger cannot be used.
        """
        last, clock = due.as_until(until), due.current_time()
        with ExitStack() as opened:
            if not dry_run:
                ledger: Ledger = ResumingLedger(self._path, **self._totals)
            elif is_unmade(self._path) and {"epsilon", "delta"} <= self._totals.keys():
                folder = opened.enter_context(TemporaryDirectory())
                ledger = ResumingLedger(Path(folder, "rehearsal.db"), **self._totals)
            else:
                now = ResumingLedger(self._path, **self._totals)
                ledger = opened.enter_context(rehearsal(now))
            tasks = due_tasks(self._reports, ledger, last, clock)
            before = ledger.spent
            steps = run_tasks(tasks, ledger, dry_run=dry_run)
            spent, left = ledger.spent, ledger.left
            return Outcome(
                dry_run=dry_run,
                steps=tuple(steps),
                cost=(
                    round(spent.epsilon - before.epsilon, 12),
                    round(spent.delta - before.delta, 18),
                ),
                spent=(spent.epsilon, spent.delta),
                left=(left.epsilon, left.delta),
                **({} if dry_run else self._show(ledger, tasks)),
            )

    def _show(self, ledger: Ledger, tasks: Sequence[Task]) -> dict[str, Any]:
        """Publish what the ledger stores now and write the pages; return fields of ``Outcome``."""
        published, pages, failures = None, [], []
        if self._publish is not None and ledger.names():
            try:
                publish(ledger, self._publish)
                published = self._publish
            except DpframeError as error:
                failures.append(str(error))
        for report in self._reports if self._pages is not None else ():
            try:
                periods = [task.period for task in tasks if task.report is report]
                pages += write_report_page(report, periods, ledger, str(self._pages))
            except DpframeError as error:
                failures.append(str(error))
        return {"published": published, "pages": tuple(pages), "failures": tuple(failures)}


def _as_path(name: str, given: object) -> str | Path:
    if not isinstance(given, str | Path):
        raise ParameterTypeError(f"{name} must be a path; got {shown_value(given)}.")
    return given


def _ledger_path(given: object, base: Path) -> tuple[Path, dict[str, Any]]:
    """Return the path of a ledger, and the arguments that make the ledger if it does not exist."""
    if isinstance(given, Ledger):
        return given.path, {}
    if not isinstance(given, Mapping):
        return file_of_path(path_from_base(_as_path("ledger", given), base)), {}
    check_keys("ledger", given, OF_LEDGER)
    if "path" not in given:
        raise ParameterError("ledger has no path. Write for example path = 'budget.db'.")
    totals = {key: value for key, value in given.items() if key != "path"}
    return file_of_path(path_from_base(_as_path("path of ledger", given["path"]), base)), totals
