"""Views: questions that the gateway asks every period, and publishes for tools that read tables."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.common.calls import argument_hint
from dpframe.common.files import Place, TomlReader, check_target, is_postgres, schema_of
from dpframe.doors.gateway.policy import (
    DATA,
    SET_BY_POLICY,
    DataSet,
    DataSource,
    View,
    place_of_views,
)
from dpframe.doors.gateway.policy_questions import (
    NAMED,
    empty_rows,
    library_arguments,
    read_arguments,
)
from dpframe.doors.series.declaration import (
    Clock,
    Report,
    Schedule,
    WholeTotal,
    check_family,
    check_one_hierarchy,
    current_time,
    drawn_periods,
    path_from_base,
    read_schedule,
    read_time,
    with_own_word,
)
from dpframe.doors.series.series import OpenSources, Task, draw_task, due_tasks
from dpframe.errors import DpframeError, ParameterError
from dpframe.publishing.publish import ENDINGS, publish
from dpframe.publishing.results_tables import identifier_of

if TYPE_CHECKING:
    from dpframe.doors.gateway.gate import Gate

OF_VIEW = ("data", "question", "period", "refresh", "periods", "total")
OF_PERIOD = ("unit", "first", "grace")

REFRESH = "1 hour"
"""How often the gateway looks for periods that are due, where a view does not say."""

BUDGET = ("epsilon", "delta")

log = logging.getLogger("dpframe.gateway")

# -- what a policy declares ------------------------------------------------------------------------


def read_views(
    reader: TomlReader,
    given: Any,
    settings: Mapping[str, Any],
    data: Mapping[str, DataSet],
    declared: Sequence[str],
    folder: Path,
) -> tuple[dict[str, View], str | None]:
    """The views of a policy, and where they are published; mistakes are noted.

    ``data`` are the data sets without mistakes among the ``declared`` ones, ``folder`` is that of
    ledgers.
    """
    tables = reader.table(given, ("view",), None)
    views: dict[str, View] = {}
    seen: dict[str, str] = {}
    for name, table in tables.items():
        other = seen.setdefault(identifier_of(name), name)
        if other != name:
            reader.mistake(
                ("view", name), f"views {other!r} and {name!r} are the same in tables. Rename one."
            )
        found = ViewReader(reader, name, data, declared).read(table)
        views |= {} if found is None else {name: found}
    return views, _publish_place(reader, settings, tables, views, folder)


def _publish_place(
    reader: TomlReader,
    settings: Mapping[str, Any],
    tables: Mapping[str, Any],
    views: Mapping[str, View],
    folder: Path,
) -> str | None:
    place = ("gateway", "publish")
    to: str | None = reader.text(settings, ("gateway",), "publish")
    if to is None:
        if tables:
            reader.mistake(
                ("view", *tables),
                "views are published nowhere. Write publish = 'views.duckdb' under [gateway].",
            )
        return None
    if not tables:
        reader.mistake(place, "publish is for views, and there is none. Write [view.NAME], too.")
    if not is_postgres(to):
        to = path_from_base(to, reader.path.parent)
    names = sorted({view.data.name for view in views.values()})
    targets = [place_of_views(to, name) for name in names]
    if len(set(targets)) < len(names):
        reader.mistake(
            place,
            "publish must differ by data set, as each has a ledger of its own. Write {data} for "
            f"its name, as in 'views-{DATA}.duckdb'.",
        )
    for target in targets:
        if is_postgres(target):
            reader.attempt(place, partial(schema_of, target))
            continue
        if Path(target).parent.resolve() == folder.resolve():
            reader.mistake(
                place, f"publish ({target!r}) is in the folder of ledgers. Take another."
            )
        reader.attempt(place, partial(check_target, "publish", target, ENDINGS))
    return to


@dataclass(frozen=True, slots=True)
class ViewReader:
    """Reads the table of one view, and notes its mistakes."""

    reader: TomlReader
    name: str
    data: Mapping[str, DataSet]
    declared: Sequence[str]

    @property
    def place(self) -> Place:
        return ("view", self.name)

    def mistake(self, key: str, message: str) -> None:
        """Note a mistake at a key, or at the view."""
        self.reader.mistake((*self.place, key) if key else self.place, message)

    def read(self, given: Any) -> View | None:
        """The view; None, with a mistake noted, where there is none."""
        table = self.reader.table(given, self.place, None)
        if not self.name.isidentifier() or len(self.name) > 63:
            self.mistake("", f"view {self.name!r} must have a name that SQL can read, as sales_2.")
        data = self._data_set(table)
        if data is None:
            return None
        known = [one for one in data.questions if one != "sql"]
        question = table.get("question")
        if question not in known:
            said = "no question" if question is None else f"no question {question!r}"
            hint = f" It may be {', '.join(known) or 'none'}."
            self.mistake("question", f"view {self.name!r} has {said}.{hint}")
            return None
        asked = NAMED[question]
        arguments = [one for one in asked.plan_arguments if one not in (*SET_BY_POLICY, "period")]
        table = {**with_own_word(table, asked.subject)}
        table = self.reader.table(table, self.place, (*OF_VIEW, *arguments))
        timing, every = self._schedule(table, data), self._refresh(table)
        given = {key: value for key, value in table.items() if key not in OF_VIEW}
        total = self._total(table, data) if {"periods", "total"} & table.keys() else None
        if timing is None or every is None or ("total" in table and total is None):
            return None
        made = partial(self._view, data, question, given, timing, table.get("periods"), total)
        found = self.reader.attempt(self.place, made)
        return None if found is None else View(data=data, refresh=every, **found)

    def _data_set(self, table: Mapping[str, Any]) -> DataSet | None:
        name = self.reader.text(table, self.place, "data")
        if name is None:
            self.mistake("", f"view {self.name!r} has no data set. Write data = 'NAME'.")
        elif name not in self.declared:
            hint = argument_hint(name, self.declared)
            self.mistake("data", f"{name!r} is no data set.{hint}")
        found = self.data.get(name or "")
        if found is not None and found.period is None:
            self.mistake(
                "data", f"data set {name!r} has no periods. Write period = 'COLUMN' there."
            )
            return None
        return found

    def _schedule(self, table: Mapping[str, Any], data: DataSet) -> Schedule | None:
        where = (*self.place, "period")
        own = self.reader.table(table.get("period", {}), where, OF_PERIOD)
        given = {"column": data.period, "zone": data.zone, **own}
        said = f"period of view {self.name!r}"
        timing: Schedule | None = self.reader.attempt(where, partial(read_schedule, given, said))
        if timing is not None:
            named = partial(check_family, self.name, timing, f"view {self.name!r}")
            self.reader.attempt(self.place, named)
        return timing

    def _refresh(self, table: Mapping[str, Any]) -> Any:
        text = self.reader.text(table, self.place, "refresh", REFRESH)
        where = (*self.place, "refresh")
        every = self.reader.attempt(where, partial(read_time, text, f"refresh ({text!r})"))
        if every is not None and not every:
            self.mistake("refresh", f"refresh ({text!r}) must be above 0, such as '1 hour'.")
        return every or None

    def _total(self, table: Mapping[str, Any], data: DataSet) -> tuple[float, float] | None:
        """The (epsilon, delta) of all periods together."""
        before = len(self.reader.errors)
        for key, other in (("periods", "total"), ("total", "periods")):
            if key not in table:
                self.mistake(other, f"{key} goes with {other}. Write both, or epsilon alone.")
                return None
        for key in BUDGET:
            if key in table:
                self.mistake(key, f"{key} follows from total. Leave it out.")
        if data.accountant != "pld":
            self.mistake("total", f"total needs accountant = 'pld' of data set {data.name!r}.")
        given = table.get("total")
        pair = given if isinstance(given, list) else [given, None]
        epsilon = self._amount(pair[0] if pair else None, data.epsilon)
        if epsilon is None or len(pair) != 2:
            self.mistake(
                "total",
                f"total must be an epsilon up to {data.epsilon:g}, or a pair with its delta.",
            )
            return None
        delta = data.share_of_delta(epsilon) if pair[1] is None else pair[1]
        if self._amount(delta, data.delta) is None:
            self.mistake("total", f"delta of total must be a number up to {data.delta:g}.")
        return None if len(self.reader.errors) > before else (epsilon, float(delta))

    def _amount(self, value: Any, most: float) -> float | None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and 0 < value <= most else None

    def _view(
        self,
        data: DataSet,
        question: str,
        given: Mapping[str, Any],
        timing: Schedule,
        periods: Any,
        total: tuple[float, float] | None,
    ) -> dict[str, Any]:
        """The arguments as an analyst would give them, and the report; checked like a question."""
        asked, whole = NAMED[question], None
        if total is not None:
            planning = library_arguments(asked, data, given)[0]
            free = {key: value for key, value in planning.items() if key not in BUDGET}
            whole = WholeTotal.of(asked, free, periods, total)
            given = {**given, **whole.law}
        try:
            json.dumps(given, allow_nan=False)
        except (TypeError, ValueError):
            raise ParameterError("arguments are texts, numbers and lists. Quote dates.") from None
        read = read_arguments(asked, data, empty_rows(data), given, False)
        plan = asked.plan(read.arguments)
        check_one_hierarchy(plan, f"view {self.name!r}")
        report = Report(
            name=self.name,
            question=asked,
            asked=plan,
            source=DataSource(data=data),
            timing=timing,
            data=None,
            whole=whole,
        )
        return {"given": given, "report": report}


# -- what the gateway does -------------------------------------------------------------------------


class Refresher:
    """Draws what is due of views, and publishes it, in one thread that no error stops.

    Which periods are due follows from the clock and the declaration. A release is charged before
    its rows are read, and nobody sees it before a step of the floor is over; then it is published.
    What fails is tried again at the next look, without another charge.
    """

    def __init__(self, gate: Gate, clock: Callable[[], Clock] = current_time) -> None:
        self._gate, self._clock = gate, clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="views", daemon=True)
        self._published: dict[str, list[str]] = {}

    def start(self) -> None:
        """Look now, and then as often as each view says."""
        if self._gate.policy.views:
            self._thread.start()

    def stop(self, seconds: float) -> None:
        """Begin no other draw, and wait so long at most for the one that goes on. If the process
        ends before, that is as if it were killed."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _look_on(self) -> None:
        views, began = self._gate.policy.views, time.monotonic()
        looks = dict.fromkeys(views, began)
        while not self._stopped.wait(min(looks.values()) - time.monotonic()):
            for name, at in looks.items():
                if at <= time.monotonic():
                    self.refresh(views[name])
                    every = views[name].refresh.total_seconds()
                    looks[name] = began + every * ((time.monotonic() - began) // every + 1)

    def refresh(self, view: View) -> None:
        """Draw every period of a view that is over and not drawn, and publish its data set."""
        facts = {"view": view.name, "data": view.data.name}
        try:
            self._draw_missing(view, self._find_missing(view, facts))
        except Exception as error:  # its text can quote rows
            self._fail(facts, error)
        try:
            self._publish(view)
        except Exception as error:  # it follows from what is released
            self._fail(facts, error, str(error))

    def _find_missing(self, view: View, facts: Mapping[str, Any]) -> list[Task]:
        """Tasks for the periods that are over and not drawn. No row is read."""
        ledger = self._gate.ledger_of_view(view, {})
        try:
            tasks = due_tasks([view.report], ledger, None, self._clock())
        except DpframeError as error:
            self._fail(facts, error, str(error))
            return []
        return [task for task in tasks if not task.stored]

    def _draw_missing(self, view: View, missing: Sequence[Task]) -> None:
        gate = self._gate
        with OpenSources() as opened:
            began = time.monotonic()
            if missing:  # some sources are read as a whole
                try:
                    with gate.take_slot():
                        opened.source(missing[0])
                finally:
                    gate.wait_for_step(began)
            for task in missing:
                if self._stopped.is_set() or gate.is_closed(view):
                    return
                facts = {"view": view.name, "data": view.data.name, "release": task.name}
                try:
                    self._draw(view, task, opened)
                except Exception as error:  # its text can quote rows
                    self._fail(facts, error)
                else:
                    gate.note(facts, "drawn")

    def _draw(self, view: View, task: Task, opened: OpenSources) -> None:
        gate, began = self._gate, time.monotonic()
        asked = view.call_of(task.report, task.period)
        ledger = task.report.ledger_of(gate.ledger_of_view(view, asked))
        with gate.flight(task.name):
            try:
                with gate.take_slot():
                    draw_task(opened, task, ledger)
            except Exception:
                if ledger.is_charged:
                    gate.add_failure(view)
                raise
            finally:
                gate.wait_for_step(began)

    def _publish(self, view: View) -> None:
        """Publish what is stored of all views of a data set, unless that is published."""
        gate, data = self._gate, view.data
        ledger = gate.ledger_of_view(view, {})
        stored = ledger.names()
        reports = [one.report for one in gate.policy.views.values() if one.data is data]
        named = {one.release(text) for one in reports for text in drawn_periods(one, stored)}
        names = [name for name in stored if name in named]
        if names and names != self._published.get(data.name):
            publish(ledger, place_of_views(gate.policy.publish, data.name), releases=names)
            self._published[data.name] = names
            gate.published[data.name] = datetime.now(UTC).isoformat(timespec="seconds")
            gate.note({"data": data.name, "releases": len(names)}, "published")

    def _fail(self, facts: Mapping[str, Any], error: Exception, why: str = "") -> None:
        said = {**facts, "error": type(error).__name__}
        self._gate.note(said, "failed")
        told = {"why": why} if why and isinstance(error, DpframeError) else {}
        log.error("view", extra={"facts": {**said, **told}})
