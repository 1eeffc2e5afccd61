"""``dpframe plan-series``: the arguments of each release of a series within one total."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from dpframe.asking.question import Question
from dpframe.doors.cli.options import add_options, option_arguments
from dpframe.doors.cli.terminal_lines import say
from dpframe.doors.planned_series import PLANNED, plan_series
from dpframe.ledger import Ledger

BUDGET = {
    "epsilon": "total of all releases together; no default",
    "delta": "total of all releases together; no default",
}


def add_plan_series_command(commands: Any, does: str) -> None:
    """Add ``plan-series``, with a subcommand for each question; ``does`` is the command's help."""
    command = commands.add_parser("plan-series", help=does, description=does)
    questions = command.add_subparsers(required=True, metavar="QUESTION")
    for question in PLANNED.values():
        name = question.name.replace("_", "-")
        does = f"releases of {name} within one total"
        plan = questions.add_parser(name, help=does, description=does)
        add_options(plan, question)
        for action in plan._actions:
            action.help = BUDGET.get(action.dest, action.help)
        plan.add_argument("--releases", type=int, required=True, help="how many, such as 52")
        plan.add_argument(
            "--disjoint", action="store_true", help="no record is in two of their periods"
        )
        plan.add_argument("--ledger", help="say how many of them it still holds")
        plan.add_argument("--every", help="with --ledger: how often, such as week")
        plan.set_defaults(run=partial(_run_plan_series, question))


def _run_plan_series(question: Question[Any, Any], options: argparse.Namespace) -> int:
    given = option_arguments(question, options)
    epsilon, delta = given.pop("epsilon"), given.pop("delta")
    first, *_ = question.plan_arguments
    about = given.pop(first)
    plan = plan_series(
        options.releases,
        question.name,
        about,
        total=(epsilon, delta),  # type: ignore[arg-type]  # checked there
        disjoint=options.disjoint,
        **{
            name: value
            for name, value in given.items()
            if _differs_from_default(question, name, value)
        },
    )
    say(plan)
    if options.ledger is not None:
        say(f"\n{Ledger(options.ledger).forecast(plan, every=options.every)}")
    return 0


def _differs_from_default(question: Question[Any, Any], name: str, value: object) -> bool:
    """Return whether an argument differs from its default. Other arguments are left out, so that
    the planner tries all laws."""
    return value is not None and value != question.plan_arguments[name]
