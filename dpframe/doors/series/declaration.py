"""The declaration of a series: reports, their sources, and the periods that are due."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from dpframe import _duck
from dpframe.asking.call_arguments import column_name, data_name, release_name
from dpframe.asking.question import WAREHOUSE_ARGUMENTS, Question
from dpframe.asking.release import DataScope, named_request
from dpframe.common.calls import argument_hint, shown_value
from dpframe.common.files import ADDRESS, file_of_path, is_postgres
from dpframe.common.texts import identifier
from dpframe.doors.warehouse import plan_series, running_report
from dpframe.errors import (
    DpframeError,
    ParameterError,
    ParameterTypeError,
    ReleaseNameError,
    SourceError,
)
from dpframe.ledger import Ledger
from dpframe.ledger.unfinished_draws import ResumingLedger
from dpframe.periods import (
    OF_WEEKS,
    UNITS,
    Period,
    Unit,
    as_period,
    last_complete,
    periods_of,
    read_unit_period,
    text_at,
    unit_of_period,
)
from dpframe.publishing.results_tables import family, identifier_of
from dpframe.questions.question_list import QUESTIONS
from dpframe.sources.row_files import UTF_8, File
from dpframe.sources.source_relations import describe_source
from dpframe.sources.sql_tables import read_postgres, read_sqlite

PERIOD = "{period}"
"""Placeholder for the text of a period, in the name of a file."""

SQLITE = b"SQLite format 3\0"
"""First bytes of a SQLite database, whatever the name of its file."""

HOW_CSV = ("delimiter", "encoding", "types")
"""Keys that may be declared together with ``file``, for reading CSV files."""

SOURCE_KEYS = ("file", *HOW_CSV, "database", "table", "sql")


class Source(ABC):
    """Where the rows of a period are."""

    @abstractmethod
    def object_for(self, period: str) -> Any:
        """Return an object from which a plan learns the types of columns without reading rows; None
        if there is no such object."""

    def describe(self, period: str) -> str:
        return describe_source(self.object_for(period))

    @contextmanager
    def open(self, period: str) -> Iterator[object]:
        yield self.object_for(period)


@dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A Parquet or CSV file, or a pattern of files; ``{period}`` stands for a period's text."""

    file: str
    delimiter: str | None = None
    encoding: str = UTF_8
    types: Mapping[str, str] | None = None

    def object_for(self, period: str) -> File:
        file = self.file.replace(PERIOD, period)
        return File(file, **{key: getattr(self, key) for key in HOW_CSV})


@dataclass(frozen=True, kw_only=True)
class GivenSource(Source):
    """An object of Python that a question takes as its source."""

    given: Any

    def object_for(self, period: str) -> Any:
        return self.given


@dataclass(frozen=True, kw_only=True)
class DatabaseSource(Source):
    """A table or the rows of a query, in a file of DuckDB or SQLite, or in PostgreSQL.

    DuckDB reads what a period needs; rows of SQLite and PostgreSQL stay in memory during a run.
    """

    database: str
    query: str

    def object_for(self, period: str) -> None:
        return None

    def describe(self, period: str) -> str:
        if is_postgres(self.database):
            at = urlsplit(self.database)  # leave out user and password
            return f"{self.query} in PostgreSQL {at.hostname or 'localhost'}{at.path}"
        return f"{self.query} in {os.path.abspath(file_of_path(self.database))}"

    @contextmanager
    def open(self, period: str) -> Iterator[object]:
        if is_postgres(self.database):
            yield read_postgres(self.database, self.query)
            return
        path = file_of_path(self.database)
        if not path.is_file():
            raise SourceError(f"{self.database!r} does not exist. Check the path of the database.")
        with path.open("rb") as file:
            is_sqlite = file.read(len(SQLITE)) == SQLITE
        if is_sqlite:
            yield read_sqlite(path, self.query)
            return
        with _duck.select_from_database(path, self.query) as relation:
            yield relation


def as_source(given: object, base: Path, where: str) -> Source:
    """Make a source from its declaration; paths are relative to ``base``, ``where`` is for
    messages."""
    if isinstance(given, File):
        given = {"file": str(given), **{key: getattr(given, key) for key in HOW_CSV}}
    if isinstance(given, str | Path):
        return FileSource(file=path_from_base(given, base))
    if not isinstance(given, Mapping):
        return GivenSource(given=given)
    if "file" in given:
        if not {*given} <= {"file", *HOW_CSV}:
            raise ParameterError(f"{where} names a file. Leave the other keys out.")
        if not isinstance(given["file"], str | Path):
            raise ParameterTypeError(f"file of {where} must be a path; got {given['file']!r}.")
        how = {key: given[key] for key in HOW_CSV if key in given}
        return FileSource(file=path_from_base(given["file"], base), **how)
    database, table, sql = (given.get(key) for key in ("database", "table", "sql"))
    if not isinstance(database, str | Path):
        raise ParameterError(
            f"{where} must name a file or a database. Write for example "
            "{ database = 'shop.duckdb', table = 'sales' }."
        )
    if (table is None) == (sql is None):
        raise ParameterError(f"{where} must name either table or sql beside database.")
    if not isinstance(chosen := sql if table is None else table, str):
        raise ParameterTypeError(
            f"table or sql of {where} must be text; got {shown_value(chosen)}."
        )
    query = chosen
    if table is not None:
        query = f"SELECT * FROM {'.'.join(map(identifier, chosen.split('.')))}"
    return DatabaseSource(database=path_from_base(database, base), query=query)


def path_from_base(path: str | Path, base: Path) -> str:
    """Return a path as a path below ``base``, unless it is absolute, an address or in ~."""
    text = os.fspath(path)
    return text if text.startswith("~") or ADDRESS.match(text) else os.path.join(base, text)


OF_REPORT = (
    "name",
    "question",
    "source",
    "period",
    "data",
    "periods",
    "total",
    "cumulative",
    "law",
)
OF_PERIOD = ("column", "unit", "first", "zone", "grace")
OF_TIME = re.compile(r"(\d{1,4}) (minute|hour|day|week)s?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The periods of a report: the column of times, their unit, and the first period.

    A period is due when it has been over for as long as ``grace``.
    """

    column: str
    unit: Unit
    first: str
    zone: str | None
    grace: dt.timedelta

    def period(self, text: str) -> Period:
        return as_period((self.column, text, self.zone))


Paying = TypeVar("Paying", bound=ResumingLedger)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTotal:
    """One total for all periods of a report, which are of the same people.

    Parameters
    ----------
    periods, total
        The number of periods from the first on, and (epsilon, delta) of all together.
    arguments
        The arguments of every release, without the law.
    law
        Arguments that set noise and budget of every release, found for the total.
    """

    periods: int
    total: tuple[float, float]
    arguments: Mapping[str, Any]
    law: Mapping[str, Any]

    @classmethod
    def of(
        cls, question: Question[Any, Any], arguments: Mapping[str, Any], periods: Any, total: Any
    ) -> WholeTotal:
        """Find the law. BudgetError where no law keeps the total."""
        planned = plan_series(periods, question.name, **arguments, total=total)
        named = {"epsilon", "delta", *(name for law in question.laws for name in law)}
        return cls(
            periods=planned.releases,
            total=(planned.total.epsilon, planned.total.delta),
            arguments=arguments,
            law={name: value for name, value in planned.arguments.items() if name in named},
        )

    def terms(self) -> dict[str, Any]:
        """What a ledger notes beside the reservation."""
        return {"releases": self.periods, "total": [*self.total], "law": {**self.law}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A question that is asked every period. ``asked`` is its plan, made without data, or what
    becomes the plan."""

    name: str
    question: Question[Any, Any]
    asked: Any
    source: Source
    timing: Schedule
    data: str | None
    whole: WholeTotal | None = None
    cumulative: bool = False

    def with_noise(
        self, period: str, number: int, before: int, stored: int, ledger: ResumingLedger
    ) -> Report:
        """The report as it draws the period of this number, with the noise of earlier periods:
        ``before`` are drawn or would be, ``stored`` in the ledger. Any other report as it is.

        Raises ParameterError after the last period, and LedgerError if noise that released numbers
        have is not there, or is of other rows. Nothing is charged before.
        """
        if not self.cumulative:
            return self
        if number >= self.asked.periods:
            raise ParameterError(
                f"report {self.name!r} is for {self.asked.periods} periods, which are over. "
                "Declare the next ones under another name."
            )
        place, about = self.source.describe(period), self.data_scope(period)
        asked = named_request(self.asked.request, place, about)
        text = json.dumps([ledger.ledger_id, self.release(period), asked], sort_keys=True)
        rows = hashlib.sha256(text.encode()).hexdigest()
        keeper = replace(ledger.noise_file(identifier_of(self.name)), rows=rows)
        found = ledger.find(self.release(self.timing.first)) if stored else None
        if found is not None:
            keeper.check(self.name, json.loads(found.receipt)["running"]["noise"], stored)
        if number > before:
            raise ParameterError("a total needs every earlier period, and one is missing.")
        keeper.check_rows(self.name, number, before - stored)
        return replace(self, asked=replace(self.asked, number=number, keeper=keeper))

    def reserved_in(self, ledger: ResumingLedger) -> Report:
        """Pay for all periods of a report with one total, unless that is done; return the report
        with the law that was paid for, which another version might not find again.

        Raises ReleaseNameError if other periods or another total were paid for.
        """
        if self.whole is None:
            return self
        plan, said = self.question.declared(self.asked), self.whole.terms()
        known = ledger.reserve_once(self.name, plan, self.whole.total[1], said)
        if {**known, "law": None} != {**said, "law": None}:
            raise ReleaseNameError(
                f"report {self.name!r} has changed since {known['releases']} periods were paid for "
                f"with a total of {tuple(known['total'])}. Give it another name."
            )
        if known["law"] == said["law"]:
            return self
        whole = replace(self.whole, law=known["law"])
        return replace(
            self, whole=whole, asked=self.question.plan({**whole.arguments, **whole.law})
        )

    def ledger_of(self, ledger: Paying) -> Paying:
        """The ledger that pays for a release."""
        return ledger if self.whole is None else ledger.of_series(self.name)

    def release(self, period: str) -> str:
        """Return the name under which a ledger stores the release of a period."""
        return f"{self.name}-{period}"

    def data_scope(self, period: str) -> DataScope:
        """Return what the release of a period says about its data: the period and their state."""
        return DataScope(data=self.data, period=self.timing.period(period))


def reports_of(given: object, source: object, period: object, base: Path) -> tuple[Report, ...]:
    """Check the declared reports; ``source`` and keys of ``period`` hold for reports without their
    own."""
    if isinstance(given, Mapping | str) or not isinstance(given, Sequence):
        raise ParameterTypeError(
            f"reports must be a list; got {type(given).__name__}. In a file write [[report]]."
        )
    if not given:
        raise ParameterError("a series needs a report. In a file write [[report]] and its name.")
    reports = tuple(_declared_report(one, i, source, period, base) for i, one in enumerate(given))
    seen: dict[str, str] = {}
    for report in reports:
        name = identifier_of(report.name)
        other = seen.get(name)
        seen[name] = report.name
        if other is not None:
            raise ParameterError(
                f"two reports are called {report.name!r}"
                + ("" if other == report.name else f" and {other!r}, which are the same in tables")
                + ". Rename one."
            )
    return reports


def _declared_report(given: object, i: int, source: object, period: object, base: Path) -> Report:
    table = _key_table(given, f"report {i + 1}")
    name = table.get("name")
    if name is None:
        raise ParameterError(f"report {i + 1} has no name. Its releases are called NAME-PERIOD.")
    name, where = cast(str, release_name(name)), f"report {name!r}"
    question = _report_question(table.get("question"), where)
    table = with_own_word(table, question.subject)
    known = (*OF_REPORT, *(n for n in question.plan_arguments if n not in WAREHOUSE_ARGUMENTS))
    check_keys(where, table, known)
    own = _key_table(table.get("period", {}), where)
    timing = read_schedule({**_key_table(period or {}, "period"), **own}, f"period of {where}")
    check_family(name, timing, where)
    here = table.get("source", source)
    if here is None:
        raise ParameterError(f"{where} has no source. Give it one, or one for all reports.")
    arguments = {key: value for key, value in table.items() if key not in OF_REPORT}
    try:
        whole, running = None, table.get("cumulative", False) is not False
        if running:
            asked = running_report(question, table, arguments)
        elif "law" in table:
            raise ParameterError("law needs cumulative. Add cumulative = true.")
        elif {"periods", "total"} & table.keys():
            both = table.get("periods"), table.get("total")
            whole = WholeTotal.of(question, arguments, *both)
            arguments |= whole.law
        asked = asked if running else question.plan(arguments)
        data = data_name(table.get("data"))
    except DpframeError as error:
        raise type(error)(f"{where}: {error}") from None
    check_one_hierarchy(asked, where)
    return Report(
        name=name,
        question=question,
        asked=asked,
        source=_report_source(here, base, where),
        timing=timing,
        data=data,
        whole=whole,
        cumulative=running,
    )


def check_one_hierarchy(asked: Any, where: str) -> None:
    """Raise ParameterError for a plan of cells."""
    if getattr(getattr(asked, "hierarchy", None), "has_cells", False):
        raise ParameterError(
            f"{where} asks for several hierarchies, which no series reports. Report one hierarchy, "
            "or release cells with period= and a name each."
        )


def check_family(name: str, timing: Schedule, where: str) -> None:
    """Raise ParameterError for a name whose releases publishing would not find together."""
    if family(f"{name}-{timing.first}") != name:
        raise ParameterError(
            f"the name of {where} ends like a period. End it with a letter: publishing reads "
            "periods at the end of names."
        )


HIERARCHY = ("by", "hierarchy")
"""Keys of the hierarchy: reports of several questions stand in one file, which name it one way."""


def with_own_word(table: Mapping[str, Any], about: str) -> Mapping[str, Any]:
    """Return a report with the hierarchy under the key of its question."""
    if about not in HIERARCHY or about in table:
        return table
    return {about if key in HIERARCHY else key: value for key, value in table.items()}


def _report_source(given: object, base: Path, where: str) -> Source:
    if isinstance(given, Mapping):
        check_keys(f"source of {where}", given, SOURCE_KEYS)
    found = as_source(given, base, f"source of {where}")
    if isinstance(found, GivenSource) and isinstance(given, int | float | list | bool):
        raise ParameterTypeError(
            f"source of {where} must be a file or table; got {given!r}. Name several files by a "
            "pattern such as 'logs/*.parquet'."
        )
    return found


def _report_question(given: object, where: str) -> Question[Any, Any]:
    known = {question.name: question for question in QUESTIONS}
    if given is None:
        raise ParameterError(f"{where} has no question. Write one of {', '.join(known)}.")
    if not isinstance(given, str):
        raise ParameterTypeError(f"question of {where} must be a name; got {shown_value(given)}.")
    name = given.replace("-", "_")
    if name not in known:
        raise ParameterError(
            f"question ({given!r}) of {where} is unknown.{argument_hint(name, tuple(known))}"
        )
    return known[name]


def read_schedule(table: Mapping[str, Any], where: str) -> Schedule:
    """Check the declaration of periods; ``where`` is for messages."""
    check_keys(where, table, OF_PERIOD)
    for key in ("column", "unit", "first"):
        if key not in table:
            raise ParameterError(
                f"{where} has no {key}. Write for example column = 'when', unit = 'week', "
                "first = '2026-W40'."
            )
    unit, zone, first = table["unit"], table.get("zone"), table["first"]
    if unit not in UNITS:
        raise ParameterError(
            f"unit ({unit!r}) of {where} must be one of {', '.join(UNITS)}. {OF_WEEKS}"
        )
    column = column_name(f"column of {where}", table["column"])
    first = first.isoformat() if isinstance(first, dt.date) else first
    try:
        period = as_period((column, first, zone))
    except DpframeError as error:
        raise type(error)(f"{where}: {error}") from None
    if period.text is None or unit_of_period(period.text) != unit:
        raise ParameterError(
            f"first ({first!r}) of {where} is no {unit}.{_begins_in(period, unit)}"
        )
    return Schedule(
        column=column, unit=unit, first=period.text, zone=period.zone, grace=_grace(table, where)
    )


def _begins_in(period: Period | None, unit: Unit) -> str:
    if period is None or period.start is None:
        return ""
    return f" It begins in {text_at(unit, period.start)!r}: write that, or another unit."


def _grace(table: Mapping[str, Any], where: str) -> dt.timedelta:
    given = table.get("grace", dt.timedelta())
    if isinstance(given, dt.timedelta) and given >= dt.timedelta():
        return given
    return read_time(given, f"grace ({given!r}) of {where}")


def read_time(given: object, what: str) -> dt.timedelta:
    """A time such as "6 hours"; ParameterError, which says ``what`` it is, for others."""
    found = OF_TIME.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None:
        raise ParameterError(f"{what} must be a time such as '6 hours' or '2 days'.")
    return dt.timedelta(**{f"{found[2]}s": int(found[1])})


def _key_table(given: object, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ParameterTypeError(f"{where} must be a table of keys; got {shown_value(given)}.")
    return given


def check_keys(where: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise ParameterError for the first key that is not in ``known``."""
    for key in given:
        if key not in known:
            raise ParameterError(
                f"{where} has no key {key!r}.{argument_hint(str(key), tuple(known))}"
            )


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
    there = [text for text in texts if _clock_has_period(timing, text)]
    return there if report.whole is None else there[: report.whole.periods]


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
    return max(drawn_periods(report, names), key=lambda text: _end(text.strip()), default=None)


def drawn_periods(report: Report, names: Sequence[str]) -> list[str]:
    """Return the texts of the periods of a report among names of releases."""
    start, found = report.release(""), []
    for text in [name.removeprefix(start) for name in names if name.startswith(start)]:
        with suppress(ParameterError):  # a name that ends in another way
            found += [text] if read_unit_period(text.strip())[0] == report.timing.unit else []
    return found


def _end(text: str) -> datetime:
    return read_unit_period(text)[1][1]


def as_until(given: object) -> str | None:
    """Return the text of the period ``until``; None for None. ParameterError if it is no period."""
    if given is None:
        return None
    period = as_period(("until", given))
    if period.text is None or unit_of_period(period.text) is None:
        raise ParameterError(f"until ({given!r}) must be a period such as '2026-W47'.")
    return period.text


BEGUN = "the report began with shares"
"""Why a report that names no way goes on with shares."""


def continue_report(report: Report, stored: Sequence[str], ledger: Ledger) -> Report:
    """Return the report as an earlier version planned it, if the ledger stores one of its
    ``stored`` periods from then; else the report as it is.

    So the periods of a report stay comparable.
    """
    question = report.question
    if report.cumulative and stored:
        found = ledger.find(report.release(stored[0]))
        if found is not None and {*report.asked.laws} == {*found.request.get("spreads", ())}:
            return replace(report, asked=report.asked.begun(found.request))
    begun = question.by_shares(report.asked, BEGUN)
    if begun is report.asked:
        return report
    for period in stored:
        what = question.fitted(begun, report.source.object_for(period))
        place, about = report.source.describe(period), report.data_scope(period)
        found = ledger.find(report.release(period))
        if found is not None and found.request == named_request(what.request, place, about):
            return replace(report, asked=begun)
    return report
