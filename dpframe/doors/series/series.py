"""``Series``: reports asked every period; their sources and outcomes.

**A run** draws every release that is due once, however many runs there are.

The ledger is the only state: it stores a release under the name of its report and period, or it
does not. Therefore a run can be killed at any moment, and several runs can go on at once: one
process at a time draws under a name, and the next process finds the release.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, Self

from dpframe.asking.answer import answer_checked, find_answer
from dpframe.asking.measure_texts import receipt_measures
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import charge_for
from dpframe.common.calls import known_arguments, shown_value
from dpframe.common.files import file_of_path, is_postgres, schema_of, shown_target
from dpframe.common.progress import step
from dpframe.common.texts import visible
from dpframe.doors.result_methods import change
from dpframe.doors.series import declaration as due
from dpframe.doors.series.declaration import (
    Clock,
    GivenSource,
    Report,
    check_keys,
    continue_report,
    due_periods,
    path_from_base,
    reports_of,
)
from dpframe.errors import (
    DpframeError,
    OverBudgetError,
    ParameterError,
    ParameterTypeError,
    ReleaseNameError,
)
from dpframe.ledger import Ledger
from dpframe.ledger.store import is_unmade
from dpframe.ledger.unfinished_draws import ResumingLedger, rehearsal
from dpframe.publishing.publish import publish
from dpframe.publishing.results_tables import identifier_of
from dpframe.sources.frames import without_rows

if TYPE_CHECKING:
    import pandas as pd

    from dpframe.pages.series_page import Changes

State = Literal["drawn", "stored", "due", "gap"]
"""State of a period: drawn by this run; stored before; due, to be drawn by a real run; or a gap,
neither drawn nor stored."""

DONE, FAILED, MISTAKEN, OVER = 0, 1, 2, 3
"""Exit codes: all is done; something failed; the declaration is wrong and nothing was done; only
the budget did not suffice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One period of one report, with the budget of its release; ``why`` is the reason of a gap."""

    report: str
    period: str
    release: str
    state: State
    epsilon: float
    delta: float
    why: str | None = None
    over_budget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of ``Series.run``. ``code`` is its exit code, ``str()`` a summary for people.

    ``spent`` and ``left`` are (epsilon, delta) of the ledger after the run, ``cost`` is what the
    run spent; with ``dry_run``, all three are what a real run would give.
    """

    dry_run: bool
    steps: tuple[Step, ...]
    cost: tuple[float, float]
    spent: tuple[float, float]
    left: tuple[float, float]
    published: str | None = None
    pages: tuple[str, ...] = ()
    failures: tuple[str, ...] = field(default=())

    @property
    def code(self) -> int:
        """0: all is done. 1: something failed. 3: only the budget did not suffice."""
        if self.failures or any(not step.over_budget for step in self.gaps):
            return FAILED
        return OVER if self.gaps else DONE

    @property
    def gaps(self) -> tuple[Step, ...]:
        """The steps whose periods are neither drawn nor stored."""
        return tuple(step for step in self.steps if step.state == "gap")

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each period of each report."""
        import pandas as pd

        names = ["report", "period", "release", "state", "epsilon", "delta", "why"]
        return pd.DataFrame([asdict(step) for step in self.steps], columns=names)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON types."""
        return {
            "code": self.code,
            "dry_run": self.dry_run,
            "cost": _budget_pair(self.cost),
            "spent": _budget_pair(self.spent),
            "left": _budget_pair(self.left),
            "releases": [asdict(step) for step in self.steps],
            "published": self.published,
            "pages": list(self.pages),
            "failures": list(self.failures),
        }

    def to_json(self) -> str:
        """Return the outcome as one line of JSON."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        return "\n".join(map(visible, self._lines()))

    __repr__ = __str__

    def _lines(self) -> list[str]:
        by_report: dict[str, list[Step]] = {}
        for each in self.steps:
            by_report.setdefault(each.report, []).append(each)
        lines, gaps = [], []
        for name, steps in by_report.items():
            counts = {state: sum(s.state == state for s in steps) for state in WORDS}
            said = [f"{n} {WORDS[state]}" for state, n in counts.items() if n]
            lines.append(f"{name}: {steps[0].period} to {steps[-1].period}, {', '.join(said)}")
            for why, alike in groupby(steps, lambda step: step.why):  # one line for gaps in a row
                releases = [step.release for step in alike if step.state == "gap"]
                more = f" to {releases[-1]} ({len(releases)})" if len(releases) > 1 else ""
                gaps += [f"gap: {releases[0]}{more}: {why}"] if releases else []
        if not lines:
            lines.append("nothing is due yet: no first period is over, or until= is before it")
        lines += gaps
        lines += [f"failed: {why}" for why in self.failures]
        lines += ["pass until for data that end earlier"] if self.dry_run and self.steps else []
        verb, then = ("would cost", "then ") if self.dry_run else ("cost", "")
        lines.append(
            f"budget: this run {verb} {_budget_text(self.cost)}; {then}spent "
            f"{_budget_text(self.spent)}, "
            f"left {_budget_text(self.left)}"
        )
        if self.published is not None:
            lines.append(f"published to {self.published}")
        if self.pages:
            lines.append(f"pages: {', '.join(self.pages)}")
        return lines


WORDS: Mapping[State, str] = {
    "drawn": "drawn",
    "due": "to be drawn",
    "stored": "there already",
    "gap": "missing",
}


def _budget_pair(amounts: tuple[float, float]) -> dict[str, float]:
    return {"epsilon": amounts[0], "delta": amounts[1]}


def _budget_text(amounts: tuple[float, float]) -> str:
    return f"({amounts[0]:.6g}, {amounts[1]:.6g})"


@dataclass(frozen=True, slots=True)
class Task:
    """A report, one of its periods that is over, its number, and whether the ledger stores its
    release."""

    report: Report
    period: str
    stored: bool
    number: int = 0

    @property
    def name(self) -> str:
        return self.report.release(self.period)

    def with_noise(
        self, before: int, stored: int, ledger: ResumingLedger
    ) -> tuple[Task, ResumingLedger]:
        """The task with what its report keeps of earlier periods, and the ledger that pays."""
        report = self.report.with_noise(self.period, self.number, before, stored, ledger)
        return replace(self, report=report), report.ledger_of(ledger)

    def step(self, state: State, error: DpframeError | None = None) -> Step:
        budget = self.report.asked.budget
        return Step(
            report=self.report.name,
            period=self.period,
            release=self.name,
            state=state,
            epsilon=budget.epsilon,
            delta=budget.delta,
            why=None if error is None else str(error),
            over_budget=isinstance(error, OverBudgetError),
        )


def due_tasks(
    reports: Sequence[Report], ledger: ResumingLedger, until: str | None, clock: Clock
) -> list[Task]:
    """Return a task for every period that is due, in the order in which the periods end. Pays for
    reports with one total.

    Raises ReleaseNameError, before anything is drawn, if the release that the ledger stores under
    the name of a task answered another declaration.
    """
    names = ledger.names()
    there, out = set(names), []
    for report in reports:
        periods = due_periods(report, until, clock, names)
        report = report.reserved_in(ledger) if periods else report
        stored = [period for period in periods if report.release(period) in there]
        report = continue_report(report, stored, ledger)
        for number, period in enumerate(periods):
            name = report.release(period)
            if name in there:
                _check_declaration(report, period, ledger)
            out.append(Task(report, period, name in there, number))
    return sorted(out, key=lambda task: task.report.timing.period(task.period).bounds[1])


def _check_declaration(report: Report, period: str, ledger: Ledger) -> None:
    what = report.question.fitted(report.asked, report.source.object_for(period))
    place, name = report.source.describe(period), report.release(period)
    about = report.data_scope(period)
    try:
        find_answer(report.question, what, place, about, ledger, name)
    except ReleaseNameError as error:
        raise ReleaseNameError(
            f"report {report.name!r} has changed since {name!r} was drawn. Give it another name. "
            f"{error}"
        ) from None


def run_tasks(tasks: Sequence[Task], ledger: ResumingLedger, *, dry_run: bool) -> list[Step]:
    """Draw every release that is not stored; with ``dry_run``, charge a copy of the ledger for it.

    A release that cannot be drawn is a gap, and the next one is tried.
    """
    act = _charge_task if dry_run else draw_task
    stored = Counter(task.report.name for task in tasks if task.stored)
    before, steps = Counter(stored), list[Step]()
    with OpenSources() as opened:
        for task in tasks:
            name = task.report.name
            told = partial(task.with_noise, before[name], stored[name], ledger)
            steps.append(_try_task(task, partial(_act_on, act, opened, told)))
            before[name] += not task.stored and steps[-1].state != "gap"
    return steps


def _act_on(
    act: Callable[[OpenSources, Task, ResumingLedger], State],
    opened: OpenSources,
    told: Callable[[], tuple[Task, ResumingLedger]],
) -> State:
    return act(opened, *told())


def _try_task(task: Task, act: Callable[[], State]) -> Step:
    if task.stored:
        return task.step("stored")
    try:
        with step(task.name):
            return task.step(act())
    except DpframeError as error:
        return task.step("gap", error)


class OpenSources(ExitStack):
    """The sources of a run: each is opened once and stays open until the end."""

    def __init__(self) -> None:
        super().__init__()
        self._there: dict[str, object] = {}

    def source(self, task: Task) -> object:
        """Return the source of a task, which may hold rows of other periods too."""
        source, period = task.report.source, task.period
        if isinstance(source, GivenSource):  # two objects of one kind have the same description
            return source.given
        key = source.describe(period)
        if key not in self._there:
            self._there[key] = self.enter_context(source.open(period))
        return self._there[key]


def draw_task(opened: OpenSources, task: Task, ledger: ResumingLedger) -> State:
    """Draw a release that is not stored, paid by :meth:`Report.ledger_of`; "stored" if another
    process did so in between."""
    report = task.report
    answer = answer_checked(
        report.question,
        report.asked,
        opened.source(task),
        ledger=ledger,
        name=task.name,
        about=report.data_scope(task.period),
        progress=False,
        place=report.source.describe(task.period),
    )
    return "stored" if answer.release.receipt["replayed"] else "drawn"


def _charge_task(opened: OpenSources, task: Task, copy: ResumingLedger) -> State:
    """Charge a copy of the ledger. Reads types of columns, but no row."""
    report, source = task.report, without_rows(opened.source(task))  # types only
    plan = report.question.declared(report.asked)
    report.question.checked(plan, source)
    about = report.data_scope(task.period).read_in(source)
    facts, place = plan.receipt(task.name), report.source.describe(task.period)
    facts = facts.with_facts(about.facts(facts))
    cost = charge_for(plan, facts, place, task.name, about.blocks)
    copy.check(cost)
    copy.charge(cost)
    return "due"


def write_report_page(
    report: Report, periods: Sequence[str], ledger: Ledger, folder: str
) -> list[str]:
    """Write the page of a report on its last periods that show something; return a list with its
    path, which is empty if none is stored.

    The new page replaces the old one in one step.
    """
    from dpframe.pages.series_page import shown_stretch, write_series_page

    stretch = shown_stretch(periods, lambda period: _stored_frame(report, period, ledger))
    releases = stretch.releases
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
    write_series_page(stretch, _last_changes(report, releases, ledger), path, title=title)
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
        ``source`` and ``period``, and ``data``. In the place of ``epsilon`` and ``delta`` it may
        have ``periods``, their number, and ``total``, the (epsilon, delta) of all of them together.
        With ``cumulative`` and ``periods`` a rollup of listed keys has running totals.
        Releases are called NAME-PERIOD.
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
        The results file or the address of a PostgreSQL server, as :func:`publish` takes it.
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
        if is_postgres(self._publish):
            schema_of(self._publish)  # a wrong address stops a run before it draws

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
                ledger = ResumingLedger(self._path, **self._totals)
            elif is_unmade(self._path) and {"epsilon", "delta"} <= self._totals.keys():
                folder = opened.enter_context(TemporaryDirectory())
                ledger = ResumingLedger(Path(folder, "rehearsal.db"), **self._totals)
            else:
                now = ResumingLedger(self._path, **self._totals)
                ledger = opened.enter_context(rehearsal(now))
            before = ledger.spent
            tasks = due_tasks(self._reports, ledger, last, clock)
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
                published = shown_target(self._publish)
            except DpframeError as error:
                failures.append(str(error))
        for report in self._reports if self._pages is not None else ():
            try:
                periods = [task.period for task in tasks if task.report.name == report.name]
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
