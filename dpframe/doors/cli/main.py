"""The command line: its parser and mistakes, and ``dpframe ledger``, ``publish`` and ``demo``."""

from __future__ import annotations

import argparse
import ast
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources, util
from typing import Any

from dpframe._late_imports import load_name
from dpframe._version import __version__
from dpframe.doors.cli.change_command import add_change_command
from dpframe.doors.cli.completion import add_completion_command
from dpframe.doors.cli.formats import result_json
from dpframe.doors.cli.output import (
    add_output_arguments,
    check_files,
    choose_printing,
    deliver,
    output_format,
    write_release,
)
from dpframe.doors.cli.run_command import add_run_command
from dpframe.doors.cli.terminal_lines import NotPrintedError, print_failure, say
from dpframe.doors.cli.usage import CommandParser, as_options, check_one_file, refuse_unknown
from dpframe.doors.cli.verify_command import add_verify_command
from dpframe.errors import DpframeError, ReplayedNotice
from dpframe.questions.question_list import ROOMS

DEMO_HIERARCHY = "columns:origin,dest,carrier"
DEMO_FILE = "flights.parquet"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns
    -------
    int
        0 on success; 2 for a mistake that the message explains; 130 for Ctrl-C; 1 if nothing can be
        printed, or if a result was paid for and could not be written to its file: then the whole
        result is printed. The helps of ``run`` and ``verify`` list their own codes.
    """
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    given[:1] = [name.replace("_", "-") for name in given[:1]]  # accept Python's names too
    parser = None
    try:
        parser, options = _parse_arguments(given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplayedNotice)  # the printed result says it
            code: int = options.run(options)
    except BrokenPipeError:  # the reader of the output closed it, as head does
        return _discard_output(0)
    except NotPrintedError as error:
        with suppress(NotPrintedError, BrokenPipeError):
            print_failure(str(error))
        return _discard_output(1)
    except DpframeError as error:
        print_failure(str(error) if parser is None else as_options(str(error), parser))
        return 2
    except KeyboardInterrupt as error:
        print_failure(" ".join(["interrupted.", *getattr(error, "__notes__", ())]))
        return 130  # the code of shells: 128 + SIGINT
    return code


def _parse_arguments(given: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse the command line; return the parser of the command and its options."""
    options, unknown = command_parser(given).parse_known_args(given)
    check_one_file(options.parser, options, unknown)
    if unknown:
        refuse_unknown(options.parser, options, unknown)
    return options.parser, options


def _discard_output(code: int) -> int:
    """Discard output that waits to be printed, since Python would fail on it at exit; return
    ``code``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


OTHERS = ("change", "completion", "demo", "ledger", "publish", "run", "verify")
"""Commands that need no question, so that no question is loaded for them."""

PLANS = "the law and budget of each release of a series within one total; spends nothing"
"""What ``dpframe plan-series`` does."""


def command_parser(given: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser of every command, or only what is needed to read the arguments ``given``.

    The commands of questions take long to load.
    """
    parser = CommandParser(
        prog="dpframe", description="Private rollups: noisy counts of a hierarchy, with a receipt."
    )
    parser.add_argument("--version", action="version", version=f"dpframe {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    first = "" if given is None else next(iter(given), "--help")
    named = first in ("-h", "--help")
    whole = not named and first not in (*OTHERS, "--version")
    if named:
        _name_questions(commands)
    elif whole:
        load_name("dpframe.doors.cli.questions", "add_question_commands")(commands)

    ledger = commands.add_parser("ledger", help="make a ledger, or show what it holds")
    ledger.add_argument("path", help="the ledger's file")
    ledger.add_argument("--epsilon", type=float, help="total, to make a new one")
    ledger.add_argument("--delta", type=float, help="total, to make a new one")
    ledger.add_argument("--accountant", choices=("sum", "pld"), help="how releases compose")
    ledger.add_argument(
        "--protects", metavar="UNIT", help="what totals hold for: records, or a column of users"
    )
    ledger.add_argument(
        "--limit", type=int, default=100, help="show the newest releases only; default: %(default)s"
    )
    ledger.add_argument("--verify", action="store_true", help="read and check the whole file")
    ledger.set_defaults(run=_run_ledger)

    add_change_command(commands)
    if named:
        commands.add_parser("plan-series", help=PLANS)
    elif whole:
        load_name("dpframe.doors.cli.plan_series_command", "add_plan_series_command")(
            commands, PLANS
        )

    publish = commands.add_parser("publish", help="write named releases as tables for BI tools")
    publish.add_argument("--ledger", required=True, help="the ledger that stores them")
    publish.add_argument("--to", required=True, help="the results file, for example out.duckdb")
    publish.add_argument("--release", action="append", help="only this one; may be repeated")
    publish.set_defaults(run=_run_publish)

    add_run_command(commands)
    add_verify_command(commands)
    add_completion_command(commands, command_parser)

    demo = commands.add_parser("demo", help="the main job on flights that ship with dpframe")
    demo.add_argument("-o", "--output", default="dpframe-demo.html", help="default: %(default)s")
    add_output_arguments(demo)
    demo.set_defaults(run=_run_demo)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _name_questions(commands: Any) -> None:
    """Add the names and summaries of questions for the help of all commands.

    Summaries are read from the source text, because loading the questions takes long.
    """
    for home, (_, name, explaining) in ROOMS.items():
        text = util.find_spec(home).loader.get_source(home)  # type: ignore[union-attr]
        summary = next(
            (ast.get_docstring(node) or "").partition("\n")[0]
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef) and node.name == name
        )
        name, explaining = name.replace("_", "-"), explaining.replace("_", "-")
        commands.add_parser(name, help=summary.replace("%", "%%"))
        commands.add_parser(explaining, help=f"what {name} would do; reads no data, spends nothing")


def _run_ledger(options: argparse.Namespace) -> int:
    from dpframe.ledger import Ledger

    book = Ledger(
        options.path,
        epsilon=options.epsilon,
        delta=options.delta,
        accountant=options.accountant,
        protects=options.protects,
    )
    if options.verify:
        book.verify()
    summary = book.summary()
    say(summary.T.to_string(header=False))
    reserved = book.reservations()
    if len(reserved):
        say(f"\n{reserved.drop(columns=['reservation_id']).to_string(index=False)}")
    filters = book.filters()
    if len(filters):
        say(f"\n{filters.drop(columns=['filter_id']).to_string(index=False)}")
    releases = book.releases(options.limit)
    if len(releases):
        shown = releases.drop(columns=["receipt", "neighbours"])
        say(f"\n{shown.to_string(index=False, na_rep='')}")
    earlier = int(summary["releases"].iloc[0]) - len(releases)
    if earlier > 0:
        say(f"\n{earlier} earlier: --limit shows more")
    return 0


def _run_publish(options: argparse.Namespace) -> int:
    from dpframe.publishing.publish import publish

    done = publish(options.ledger, options.to, releases=options.release)
    columns = ["release", "table_name", "latest_view", "time"]
    say(f"{done[columns].to_string(index=False)}\n\nwritten to {options.to}")
    return 0


def _run_demo(options: argparse.Namespace) -> int:
    from dpframe.asking.answer import answer_checked
    from dpframe.asking.data_scope import DataScope
    from dpframe.questions.hhh.ask import HHH

    check_files(options)
    asked = {"epsilon": 1.0, "delta": 1e-6, "threshold": 50, "user": "aircraft"}
    plan = HHH.plan({"hierarchy": DEMO_HIERARCHY, **asked})
    with resources.as_file(resources.files("dpframe") / "data" / DEMO_FILE) as flights:
        result = answer_checked(
            HHH, plan, flights, ledger=None, name=None, about=DataScope(), progress=False
        ).release
    if not options.quiet:
        asks = "Which routes and carriers do aircraft fly from New York? Each aircraft weighs 1.\n"
        say(asks, sys.stderr)
    name, escaped = output_format(options), not options.unescaped
    return deliver(
        {options.output: lambda path: write_release(result, path, name, escaped=escaped)},
        lambda: result,
        lambda: result_json(result),
        "It follows on standard output, as JSON",
        choose_printing(options),
    )
