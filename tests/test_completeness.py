"""Every question by every door, with every argument: what is missing has a reason.

A door is a function from a question to the arguments that it takes there, or None where the
question is not to be had.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.question import RELEASE_ARGUMENTS, WAREHOUSE_ARGUMENTS, Question
from dpframe.doors.accessor import DpAccessor
from dpframe.doors.cli.main import command_parser
from dpframe.doors.cli.questions import HELP, LEFT_OUT, OPTION_READERS, argument_type
from dpframe.doors.cli.questions import explain_command as explaining_command
from dpframe.errors import DpframeError
from dpframe.questions.question_list import QUESTIONS
from tests.doors import rows
from tests.golden.answers import CALLS, macros

Asked = Question[Any, Any]
Door = Callable[[Asked], Collection[str] | None]
Gap = tuple[str, str, str]
"""Door, question, and an argument, which is empty where the question is missing as a whole."""

NEW: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    (
        "rollup",
        ["host", "zip"],
        {
            "measures": {"n": "count", "paid": dp.sum("amount", lower=0, upper=40, clipped=True)},
            "epsilon": 8.0,
            "delta": 1e-4,
        },
    ),
)
"""Calls of questions whose answers are in no stored ledger yet."""

NAMES = [question.name for question in QUESTIONS]


def explained(name: str) -> str:
    """What Python calls the function that explains a question."""
    return "explain" if name == "hhh" else f"explain_{name}"


# -- doors: names that are there -------------------------------------------------------------------


def _parameters(home: object, name: str) -> Collection[str] | None:
    function = getattr(home, name, None)
    return None if function is None else inspect.signature(function).parameters


def _function(question: Asked) -> Collection[str] | None:
    return _parameters(dp, question.name) if question.name in dp.__all__ else None


def _explaining_function(question: Asked) -> Collection[str] | None:
    name = explained(question.name)
    return _parameters(dp, name) if name in dp.__all__ else None


def _accessor(question: Asked) -> Collection[str] | None:
    return _parameters(DpAccessor, question.name)


def _explaining_accessor(question: Asked) -> Collection[str] | None:
    return _parameters(DpAccessor, explained(question.name))


@cache
def _macros() -> Mapping[str, Collection[str]]:
    return macros()


def _sql(question: Asked) -> Collection[str] | None:
    return _macros().get(f"dp_{question.name}")


def _explaining_sql(question: Asked) -> Collection[str] | None:
    return _macros().get(f"dp_{explained(question.name)}")


@cache
def _commands() -> Mapping[str, Mapping[str, str | None]]:
    """The arguments of every command, and their helps."""
    (commands,) = command_parser()._subparsers._group_actions  # type: ignore[union-attr]
    return {
        name: {action.dest: action.help for action in command._actions}
        for name, command in commands.choices.items()  # type: ignore[union-attr]
    }


def _command(question: Asked) -> Mapping[str, str | None] | None:
    shown = _commands().get(question.name.replace("_", "-"))
    if shown is None:
        return None
    others = [name for name in shown if f"{question.name}.{name}" in LEFT_OUT]  # of that name
    return {name: words for name, words in shown.items() if name not in others}


def _explaining_command(question: Asked) -> Collection[str] | None:
    return _commands().get(explaining_command(question))


def _warehouse(question: Asked) -> Collection[str] | None:
    """The function that writes the statement, for a question that takes its result."""
    if question.rollup is None or not set(WAREHOUSE_ARGUMENTS) <= set(question.parameters):
        return None
    return _parameters(dp, question.rollup)


# -- doors: what is asked there is answered --------------------------------------------------------


def _call(question: Asked) -> tuple[Any, dict[str, Any]] | None:
    """A call with an answer, if there is one among those whose answers are kept."""
    found = (call for call in (*CALLS.values(), *NEW) if call[0] == question.name)
    _, about, arguments = next(found, (None, None, {}))
    return None if about is None else (about, arguments)


def _spark(question: Asked) -> Collection[str] | None:
    """Whether a frame of Spark is told that its session is over, or is no source at all."""
    call = _call(question)
    if call is None:
        return None
    session = type("SparkSession", (), {"is_stopped": True})()
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe", "sparkSession": session})
    try:
        question.ask(kind(), call[0], **call[1])
    except DpframeError as error:
        reached = "the Spark session of the DataFrame has stopped" in str(error)
        return tuple(question.plan_arguments) if reached else None
    raise AssertionError(f"{question.name} counted a frame of a session that is over")


@cache
def _answers() -> Mapping[str, tuple[Any, bool]]:
    """Of every question a result with a name, and whether it is published."""
    frame, out = rows(), {}
    with tempfile.TemporaryDirectory() as folder:
        published = set[str]()
        for question in QUESTIONS:
            about, arguments = _call(question) or pytest.fail(f"no call of {question.name}")
            path = Path(folder) / f"{question.name}.db"  # they protect different units
            ledger = dp.Ledger(path, epsilon=1000.0, delta=0.1)
            named = {"ledger": ledger, "release": question.name}
            out[question.name] = question.ask(frame, about, **arguments, **named)
            there = dp.publish(ledger, Path(folder) / f"{question.name}.duckdb")
            published |= set(there["release"])
    return {name: (answer, name in published) for name, answer in out.items()}


def _report(question: Asked) -> Collection[str] | None:
    answer, _ = _answers().get(question.name, (None, False))
    if answer is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        if isinstance(answer, pd.DataFrame):
            answer.dp.report(page)
        else:
            answer.report(page, public=rows(), n=100)
        return tuple(question.plan_arguments) if page.stat().st_size else None


def _published(question: Asked) -> Collection[str] | None:
    return (
        tuple(question.plan_arguments) if _answers().get(question.name, (None, False))[1] else None
    )


DOORS: dict[str, Door] = {
    "function": _function,
    "accessor": _accessor,
    "SQL": _sql,
    "command": _command,
    "explaining function": _explaining_function,
    "explaining accessor": _explaining_accessor,
    "explaining SQL": _explaining_sql,
    "explaining command": _explaining_command,
    "warehouse": _warehouse,
    "Spark": _spark,
    "report": _report,
    "publish": _published,
}

RELEASING = ("function", "accessor", "SQL", "command")
"""Doors that keep and show what they release: they take the arguments for that, too."""

REASONS: dict[Gap, str] = {
    **{
        ("SQL", name, "ledger"): "a connection has one, register(con, ledger=...)" for name in NAMES
    },
    **{("SQL", name, "progress"): "DuckDB shows that of its statements" for name in NAMES},
    **{
        ("command", name, "progress"): "shown unless --quiet, which stops more than that"
        for name in NAMES
    },
    **{
        (door, "synthesize", "seed"): "of hash functions, chosen at random; here it is not needed"
        for door in ("SQL", "explaining SQL", "command", "explaining command")
    },
    ("warehouse", "hhh", "counters"): "no statement of SQL makes a sketch",
    ("warehouse", "heavy_hitters", ""): "a hierarchy of one column, hhh, has the statement",
    ("warehouse", "synthesize", ""): "its sketches are of codes that no dialect computes",
    ("warehouse", "prefix_tree", ""): "devices answer with reports, which no statement draws",
    ("Spark", "synthesize", ""): "rows go through sketches in Python: pass frame.toArrow()",
    ("Spark", "prefix_tree", ""): "a simulation of devices on one machine: pass frame.toArrow()",
}
"""What is missing, and why."""


# -- the law ---------------------------------------------------------------------------------------


def gaps(questions: Iterable[Asked], doors: Mapping[str, Door] = DOORS) -> set[Gap]:
    """What is declared and not to be had."""
    found = set()
    for question in questions:
        for name, door in doors.items():
            taken = door(question)
            if taken is None:
                found.add((name, question.name, ""))
                continue
            wanted = [*question.plan_arguments, *(RELEASE_ARGUMENTS if name in RELEASING else ())]
            found |= {(name, question.name, argument) for argument in wanted} - {
                (name, question.name, argument) for argument in taken
            }
    return found


def unexplained(found: set[Gap], reasons: Mapping[Gap, str] = REASONS) -> list[str]:
    """Gaps without a reason, and reasons without a gap."""
    missing = [f"missing: {gap}" for gap in sorted(found - reasons.keys())]
    idle = [f"there, and so no longer a reason: {gap}" for gap in sorted(reasons.keys() - found)]
    return missing + idle


def test_every_question_is_at_every_door_with_every_argument() -> None:
    """Law: what is declared can be asked everywhere, or there is a reason why not."""
    assert unexplained(gaps(QUESTIONS)) == []


def test_the_law_can_fail() -> None:
    """A question that nobody put anywhere is missing at every door; an argument that a declaration
    has gained is missing at every door that takes arguments; a reason without a gap is found."""

    def medians(source: object, column: str, *, epsilon: float | None = None) -> pd.DataFrame:
        raise NotImplementedError

    alone = replace(QUESTIONS[0], ask=medians, rollup=None)
    assert gaps([alone]) == {(door, "medians", "") for door in DOORS}

    def hhh(bins: int | None = None) -> None: ...

    more = inspect.signature(hhh).parameters["bins"].replace(kind=inspect.Parameter.KEYWORD_ONLY)
    declared = inspect.signature(dp.hhh)
    hhh.__signature__ = declared.replace(  # type: ignore[attr-defined]
        parameters=[*declared.parameters.values(), more]
    )
    doors = {name: door for name, door in DOORS.items() if name != "Spark"}
    known = gaps(QUESTIONS[:1], doors)
    found = gaps([replace(QUESTIONS[0], ask=hhh)], doors) - known
    assert found == {(door, "hhh", "bins") for door in doors if door not in ("report", "publish")}
    assert unexplained(found, {}) == [f"missing: {gap}" for gap in sorted(found)]

    idle = ("SQL", "hhh", "threshold")
    (said,) = unexplained(set(REASONS), {**REASONS, idle: "planted"})
    assert said == f"there, and so no longer a reason: {idle}"


def test_the_command_line_says_what_options_are() -> None:
    """Law: every option has a help, and can be read: a number, a text, a flag, or as a table says;
    no entry of a table is for an argument that is not there."""
    own = {(q.name, name) for q in QUESTIONS for name in q.plan_arguments}
    for question in QUESTIONS:
        shown = _command(question)
        assert isinstance(shown, Mapping)
        assert [name for name, words in shown.items() if not words] == []
        for name in question.plan_arguments:
            kinds = ("int", "float", "str", "bool")
            listed = {name, f"{question.name}.{name}"} & {*OPTION_READERS, *LEFT_OUT}
            about = name == next(iter(question.plan_arguments))
            assert argument_type(question, name) in kinds or listed or about, (question.name, name)
    for entry in (*HELP, *OPTION_READERS, *LEFT_OUT):
        one, _, name = entry.rpartition(".")
        assert [True for asks, has in own if has == name and one in ("", asks)], entry
