"""The command line: the parser of all commands, exit codes, and what a mistake is told."""

from __future__ import annotations

import argparse
import ast
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import util
from typing import Any

from dpframe._late_imports import load_name
from dpframe._version import __version__
from dpframe.doors.cli.commands import COMMANDS
from dpframe.doors.cli.output import NotPrintedError, print_failure
from dpframe.doors.cli.usage import CommandParser, as_options, check_one_file, refuse_unknown
from dpframe.errors import DpframeError, ReplayedNotice
from dpframe.questions.question_list import ROOMS


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
        options, unknown = command_parser(given).parse_known_args(given)
        check_one_file(options.parser, options, unknown)
        if unknown:
            refuse_unknown(options.parser, options, unknown)
        parser = options.parser
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplayedNotice)  # the printed result says it
            code: int = options.run(options)
    except BrokenPipeError:  # the reader of the output closed it, as head does
        return _discard_output(0)
    except NotPrintedError as error:
        with suppress(NotPrintedError, BrokenPipeError):
            print_failure(error)
        return _discard_output(1)
    except DpframeError as error:
        print_failure(error if parser is None else as_options(str(error), parser))
        return 2
    except KeyboardInterrupt as error:
        print_failure(" ".join(["interrupted.", *getattr(error, "__notes__", ())]))
        return 130  # the code of shells: 128 + SIGINT
    return code


def _discard_output(code: int) -> int:
    """Discard output that waits to be printed, since Python would fail on it at exit; return
    ``code``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


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
    whole = not named and first not in (*COMMANDS, "--version")
    if named:
        _name_questions(commands)
    elif whole:
        load_name("dpframe.doors.cli.questions", "add_question_commands")(commands)
    for name, command in COMMANDS.items():
        if name == "publish" and named:
            commands.add_parser("plan-series", help=PLANS)
        elif name == "publish" and whole:
            load_name("dpframe.doors.cli.questions", "add_plan_series_command")(commands, PLANS)
        command.add_to(commands, name)
    parser.set_defaults(parser_of_all=command_parser)
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
