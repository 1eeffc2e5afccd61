"""``dpframe completion``: the script by which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from dpframe._late_imports import import_extra
from dpframe.doors.cli.terminal_lines import print_text
from dpframe.errors import ParameterError

SHELLS = ("bash", "zsh", "fish")

HOW = {
    "bash": 'eval "$(dpframe completion bash)"  # in ~/.bashrc',
    "zsh": "dpframe completion zsh > ~/.zsh/_dpframe  # in a folder of $fpath",
    "fish": "dpframe completion fish > ~/.config/fish/completions/dpframe.fish",
}
"""What a user does with the script of each shell, in one line."""

FILES = ("file", "ledger", "output", "report", "save", "to")
"""Arguments that a shell completes with names of files."""


def add_completion_command(commands: Any, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Add ``completion`` to the subcommands; ``parser`` builds the parser of all commands."""
    does = "print a script that completes commands and options in a shell"
    command = commands.add_parser(
        "completion",
        help=does,
        description=does,
        epilog="\n".join(HOW.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("shell", choices=SHELLS, help="whose script to print")
    command.set_defaults(run=partial(_print_completion, parser))


def _print_completion(
    parser: Callable[[], argparse.ArgumentParser], options: argparse.Namespace
) -> int:
    missing = "completion needs shtab. Run pip install 'dpframe[completion]'."
    shtab = import_extra("shtab", missing, ParameterError)
    whole = parser()
    _name_files(whole, shtab.FILE)
    print_text(shtab.complete(whole, shell=options.shell), sys.stdout)
    return 0


def _name_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Mark the arguments that a shell completes with names of files, also in subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _name_files(command, files)
        elif action.dest in FILES:
            action.complete = files  # type: ignore[attr-defined]  # read by shtab
