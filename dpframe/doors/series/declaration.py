"""Check the declaration of a series: reports, their questions, sources and periods; no data."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dpframe._known_arguments import argument_hint, shown_value
from dpframe.asking.call_arguments import column_name, data_name, release_name
from dpframe.asking.data_scope import DataScope
from dpframe.asking.question import WAREHOUSE_ARGUMENTS, Question
from dpframe.doors.series.sources import KEYS, GivenSource, Source, as_source
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError
from dpframe.period_texts import Unit
from dpframe.periods import OF_WEEKS, UNITS, Period, as_period, text_at, unit_of_period
from dpframe.publishing.names import family, identifier_of
from dpframe.questions.question_list import QUESTIONS

OF_REPORT = ("name", "question", "source", "period", "data")
OF_PERIOD = ("column", "unit", "first", "zone", "grace")
OF_GRACE = re.compile(r"(\d{1,4}) (hour|day|week)s?")


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
        found = as_period((self.column, text, self.zone))
        assert found is not None
        return found


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
    known = (*OF_REPORT, *(n for n in question.plan_arguments if n not in WAREHOUSE_ARGUMENTS))
    check_keys(where, table, known)
    own = _key_table(table.get("period", {}), where)
    timing = _schedule({**_key_table(period or {}, "period"), **own}, f"period of {where}")
    if family(f"{name}-{timing.first}") != name:
        raise ParameterError(
            f"the name of {where} ends like a period. End it with a letter: publishing reads "
            "periods at the end of names."
        )
    here = table.get("source", source)
    if here is None:
        raise ParameterError(f"{where} has no source. Give it one, or one for all reports.")
    arguments = {key: value for key, value in table.items() if key not in OF_REPORT}
    try:
        asked = question.plan(arguments)
        data = data_name(table.get("data"))
    except DpframeError as error:
        raise type(error)(f"{where}: {error}") from None
    if getattr(getattr(asked, "hierarchy", None), "has_cells", False):
        raise ParameterError(
            f"{where} asks for several hierarchies, which no series reports. Report one hierarchy, "
            "or release cells with period= and a name each."
        )
    return Report(
        name=name,
        question=question,
        asked=asked,
        source=_report_source(here, base, where),
        timing=timing,
        data=data,
    )


def _report_source(given: object, base: Path, where: str) -> Source:
    if isinstance(given, Mapping):
        check_keys(f"source of {where}", given, KEYS)
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


def _schedule(table: Mapping[str, Any], where: str) -> Schedule:
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
    if period is None or period.text is None or unit_of_period(period.text) != unit:
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
    found = OF_GRACE.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None:
        raise ParameterError(
            f"grace ({given!r}) of {where} must be a time such as '6 hours' or '2 days'."
        )
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
