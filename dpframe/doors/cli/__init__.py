"""The command line.

Here are the parser of commands, and its messages for mistakes: the command's usage, and options
like an unknown option.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn

from dpframe.common.calls import argument_hint, nearest_name
from dpframe.common.texts import style_text, visible
from dpframe.errors import ParameterError
from dpframe.questions.question_list import ROOMS

Option = tuple[tuple[str, ...], dict[str, Any]]
"""An argument of a command: its names, and what argparse shall know of it."""


def option(names: str, words: str | None, **settings: Any) -> Option:
    """Return an option or an argument by position; several names are separated by spaces."""
    return tuple(names.split()), {"help": words, **settings}


class Command:
    """A command: its help, the function that runs it and returns its exit code, its arguments, and
    what else its parser shall know."""

    def __init__(
        self,
        does: str,
        run: Callable[[argparse.Namespace], int],
        *options: Option,
        **settings: Any,
    ) -> None:
        self._does, self._run, self._options, self._settings = does, run, options, settings

    def add_to(self, commands: Any, name: str, only: str | None = None) -> None:
        """Add the command to the subcommands of a parser; without arguments if another command is
        the ``only`` one that is read."""
        does = self._does
        if only not in (None, name):
            commands.add_parser(name, help=does)
            return
        parser = commands.add_parser(name, help=does, description=does, **self._settings)
        for names, settings in self._options:
            parser.add_argument(*names, **settings)
        parser.set_defaults(run=self._run, parser=parser)


NEAREST = 3
"""Largest number of similar options that are shown for an unknown one."""


CHOICE = re.compile(r"argument (COMMAND|QUESTION|SHELL): invalid choice: (.+?) \(choose from")
"""How argparse begins its message on an unknown command, before it lists all commands."""


NUMBER = re.compile(r"argument (\S+): invalid (float|int) value: (.+)")
"""How argparse says that a text is no number."""


NUMBERS = {"float": "a number, such as 0.5", "int": "a whole number, such as 10"}


class CommandParser(argparse.ArgumentParser):
    """A parser that answers a mistake in a few lines.

    It makes control characters in arguments visible, because arguments can come from anywhere.
    """

    def error(self, message: str) -> NoReturn:
        number, chosen = NUMBER.match(message), CHOICE.match(message)
        if number is not None:
            message = f"{number[1]} ({number[3]}) must be {NUMBERS[number[2]]}."
            self.mistaken(message, self._arguments_called(number[1].split("/")))
        if chosen is None:
            lacks = re.match(r"the following arguments are required: (.+)", message)
            about = re.match(r"argument ([^:]+): ", message)
            names = lacks[1].split(", ") if lacks else about[1].split("/") if about else []
            self.mistaken(message, self._arguments_called(names))
        kind, given = chosen[1].lower(), chosen[2].strip("'\"")
        known = {
            command.dest: command
            for action in self._get_positional_actions()
            if isinstance(action, argparse._SubParsersAction)
            for command in action._get_subactions()
        }
        self.mistaken(
            f"unknown {kind} {given}.{argument_hint(given, tuple(known))}",
            [known[name] for name in similar_names(given, known)],
        )

    def mistaken(self, message: str, about: Iterable[argparse.Action]) -> NoReturn:
        """Exit with code 2, the usage, the message, and the helps of the arguments ``about``."""
        places = [str(a.metavar or a.dest).upper() for a in self._get_positional_actions()]
        lines = [
            f"usage: {' '.join([self.prog, '[OPTIONS]', *places])}",
            f"{style_text(f'{self.prog}:', 'wrong', sys.stderr)} {visible(message)}",
            *map(self._line, about),
            f"more: {self.prog} --help",
        ]
        self.exit(2, "\n".join(lines) + "\n")

    def _line(self, action: argparse.Action) -> str:
        """Return a line with an argument and its help."""
        formatter = self._get_formatter()
        name = formatter._format_action_invocation(action)
        words = formatter._expand_help(action) if action.help else ""
        return f"  {name:<24}  {words}".rstrip()

    def _arguments_called(self, names: Iterable[str]) -> list[argparse.Action]:
        return [
            action
            for action in self._actions
            if {*names} & {*action.option_strings, action.metavar, action.dest}
            and not isinstance(action, argparse._SubParsersAction)
        ]


def similar_names(given: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are spelled most alike, nearest first."""
    return difflib.get_close_matches(given, list(known), n=NEAREST, cutoff=0.6)


LISTED = {"[...]": "FILE"}
"""Lists in messages for Python, and what a command line has in their place."""


def as_options(message: str, command: argparse.ArgumentParser) -> str:
    """Rewrite the arguments that a message spells as in Python to the options of a command."""
    options = {
        name: option
        for option, action in command._option_string_actions.items()
        for name in (option.lstrip("-").replace("-", "_"), action.dest)
        if option == max(action.option_strings, key=len)
    }
    for option, action in command._option_string_actions.items():
        if action.const is False:
            message = message.replace(f"{action.dest}=False", option)
    named = re.compile(
        rf"dp\.\w+\([^()]*\)|(?<![^\s(])({'|'.join(options)})="
        r"(?:True\b|\[\.\.\.\]|'([^']*)'|([\w.+-]*\w)|\{'([^']*)': \(([^()]*), ([^()]*)\)\})?"
    )

    def option_of(found: re.Match[str]) -> str:
        if found[1] is None:  # a call in Python stays
            return found[0]
        value = found[2] or found[3] or LISTED.get(found[0][-5:])
        if found[4]:  # a pair by name
            value = f"{found[4]}={found[5]},{found[6]}"
        return " ".join(filter(None, (options[found[1]], value)))

    return named.sub(option_of, message)


def refuse_unknown(
    command: CommandParser, options: argparse.Namespace, unknown: Sequence[str]
) -> NoReturn:
    """Exit with the first unknown argument, and a hint at what may have been meant."""
    given = next((text for text in unknown if text.startswith("-")), unknown[0])
    name = given.partition("=")[0]
    known = {o: action for o, action in command._option_string_actions.items() if o != "-h"}
    places = {action.dest: action for action in command._get_positional_actions()}
    if not given.startswith("-"):
        command.mistaken(f"unknown argument {name}.{_too_many_hint(options, places, unknown)}", [])
    near = nearest_name(name, (*known, *places))
    if near in places:
        hint = f" Write it without an option: {command.prog} {' '.join(places).upper()}."
        command.mistaken(f"unknown option {name}.{hint}", [places[near]])
    alike = similar_names(name, known)
    about = alike if near in alike else [near] if near else []
    hint = argument_hint(name, tuple(known))
    command.mistaken(f"unknown option {name}.{hint}", [known[option] for option in about])


def _too_many_hint(
    options: argparse.Namespace, places: Mapping[str, argparse.Action], unknown: Sequence[str]
) -> str:
    """Return a hint at what to write in place of too many arguments; empty if nothing is known."""
    about = [name for name in places if name != "file"]
    if len(about) != 1:
        return ""
    given = str(getattr(options, about[0]))
    if "file" in places:
        columns = ",".join([given.removeprefix("columns:"), *unknown])
        return f" {about[0].upper()} is one argument: columns:{columns}."
    # explain rollup columns:a, where the question has a command
    questions = [name for _, name, _ in ROOMS.values()]
    if given.replace("-", "_") not in questions:
        return ""
    named = given.replace("_", "-")
    return f" Write dpframe {'explain' if named == 'hhh' else f'explain-{named}'} {unknown[0]}."


def check_one_file(
    command: argparse.ArgumentParser, options: argparse.Namespace, unknown: Sequence[str]
) -> None:
    """Raise ParameterError if a file stands where a question takes another argument.

    Either both arguments are swapped, or a shell made several arguments of a pattern without
    quotation marks.
    """
    about = [action.dest for action in command._get_positional_actions() if action.dest != "file"]
    if "file" not in options or not about:
        return
    ending = os.path.splitext(options.file)[1]
    given = [getattr(options, name) for name in about]
    others = [*chain.from_iterable([v] if isinstance(v, str) else v for v in given), *unknown]
    if len(others) == 1 and os.path.isfile(others[0]) and not os.path.exists(options.file):
        raise ParameterError(
            f"{options.file!r} is no file, but the next argument is. Write "
            f"{shlex.join([others[0], options.file])}."
        )
    for other in others:
        if ending and other.endswith(ending) and os.path.isfile(other):
            pattern = os.path.join(os.path.dirname(other), f"*{ending}")
            raise ParameterError(
                f"{other!r} is a second file. Write the pattern in quotation marks: '{pattern}'."
            )
