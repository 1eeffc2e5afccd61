"""Run a series: draw every release that is due once, however many runs there are.

The ledger is the only state: it stores a release under the name of its report and period, or it
does not. Therefore a run can be killed at any moment, and several runs can go on at once: one
process at a time draws under a name, and the next process finds the release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from dpframe._progress import step
from dpframe.asking.answer import answer_checked, find_answer
from dpframe.asking.release import count_and_charge
from dpframe.doors.series.declaration import Report
from dpframe.doors.series.due import Clock, due_periods
from dpframe.doors.series.outcome import State, Step
from dpframe.doors.series.sources import GivenSource
from dpframe.errors import DpframeError, OverBudgetError, ReleaseNameError
from dpframe.ledger import Ledger
from dpframe.sources.frames import without_rows


@dataclass(frozen=True, slots=True)
class Task:
    """A report, one of its periods that is over, and whether the ledger stores its release."""

    report: Report
    period: str
    stored: bool

    @property
    def name(self) -> str:
        return self.report.release(self.period)

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
    reports: Sequence[Report], ledger: Ledger, until: str | None, clock: Clock
) -> list[Task]:
    """Return a task for every period that is due, in the order in which the periods end.

    Raises ReleaseNameError, before anything is drawn, if the release that the ledger stores under
    the name of a task answered another declaration.
    """
    names = ledger.names()
    there, out = set(names), []
    for report in reports:
        for period in due_periods(report, until, clock, names):
            name = report.release(period)
            if name in there:
                _check_declaration(report, period, ledger)
            out.append(Task(report, period, name in there))
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


def run_tasks(tasks: Sequence[Task], ledger: Ledger, *, dry_run: bool) -> list[Step]:
    """Draw every release that is not stored; with ``dry_run``, charge a copy of the ledger for it.

    A release that cannot be drawn is a gap, and the next one is tried.
    """
    act = _charge_task if dry_run else _draw_task
    with OpenSources() as opened:
        return [_try_task(task, partial(act, opened, task, ledger)) for task in tasks]


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


def _draw_task(opened: OpenSources, task: Task, ledger: Ledger) -> State:
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


def _charge_task(opened: OpenSources, task: Task, copy: Ledger) -> State:
    """Charge a copy of the ledger. Reads types of columns, but no row."""
    report, source = task.report, without_rows(opened.source(task))  # types only
    plan = report.question.declared(report.asked)
    report.question.checked(plan, source)
    about = report.data_scope(task.period).read_in(source)
    facts, place = plan.receipt(task.name), report.source.describe(task.period)
    facts = facts.with_facts(about.facts(facts))
    count_and_charge(lambda: None, plan, facts, place, copy, task.name, about.blocks)
    return "due"
