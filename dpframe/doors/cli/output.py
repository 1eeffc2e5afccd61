"""Write the results of commands to files and to the terminal."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dpframe._paths import PAGES, check_target, file_of_path, matching_files, replace_file
from dpframe.doors.cli.formats import ENDINGS, FORMATS, check_format, format_by_ending, table_text
from dpframe.doors.cli.terminal_lines import (
    NotPrintedError,
    print_error,
    print_failure,
    print_text,
    say,
)
from dpframe.errors import ParameterError, SourceError

if TYPE_CHECKING:
    from dpframe.asking.release import Release

STANDARD = "-"
"""Stands for standard input or output in place of a file's name."""

FILES = {"output": (*ENDINGS, *PAGES), "report": PAGES}
"""Arguments that name a file to write, and the endings that its name may have."""

PROTECTED_FILES = {
    "ledger": "ledger",
    "file": "file that is counted",
    "keys": "file of keys",
    "public": "file of public items",
    "deny": "file of denied items",
}
"""Arguments that name files which must not be written over, with words for messages."""


def add_output_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options of every command that writes a result."""
    add = command.add_argument
    add(
        "--format",
        choices=tuple(FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; default: what the name of -o ends in, or table",
    )
    add(
        "--unescaped",
        action="store_true",
        help="in .csv leave texts as they are that a spreadsheet would run as formulas",
    )
    add("--json", action="store_true", help="the receipt as a line of JSON, in place of the card")
    add(
        "--quiet",
        action="store_true",
        help="no card and no notices; no rows either where they are written or stored elsewhere",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintSettings:
    """What a command prints: rows to standard output, card or JSON to standard error.

    ``rows`` is the format of the rows, or None for no rows.
    """

    rows: str | None
    card: bool = True
    json: bool = False
    escaped: bool = True


def choose_printing(
    options: argparse.Namespace, files: Mapping[str, tuple[str, ...]] = FILES
) -> PrintSettings:
    """Decide from the options what a command prints."""
    given = {name: getattr(options, name, None) for name in (*files, "release")}
    elsewhere = any(path not in (None, STANDARD) for path in given.values())
    rows = (options.format if _is_standard(given["output"]) else None) or "table"
    if options.quiet and elsewhere and given["output"] != STANDARD:
        rows = None
    return PrintSettings(
        rows=rows,
        card=not options.quiet and not options.json,
        json=options.json,
        escaped=not options.unescaped,
    )


# -- before anything is spent --------------------------------------------------------------------


def check_files(options: argparse.Namespace, files: Mapping[str, tuple[str, ...]] = FILES) -> None:
    """Raise ParameterError for files that cannot be written or would replace other files, for
    formats that do not fit the output, and for ``--release`` without ``--ledger``."""
    if getattr(options, "release", None) is not None and options.ledger is None:
        raise ParameterError("--release needs --ledger, which stores the result.")
    taken = dict(_protected_files(options))
    for name, endings in files.items():
        path = getattr(options, name, None)
        if path is None or (name == "output" and path == STANDARD):
            continue
        check_target(name, path, _endings(options, endings) if name == "output" else endings)
        real = os.path.realpath(file_of_path(path))
        if real in taken:
            raise ParameterError(f"{name} ({path!r}) is the {taken[real]}. Choose another file.")
        taken[real] = name
    _check_format(options)


def _endings(options: argparse.Namespace, endings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the endings that the output may have: any (``""``) with ``--format``, but
    ParameterError for the ending of another format or a page."""
    path, given = options.output, getattr(options, "format", None)
    if given is None:
        return endings
    if format_by_ending(path) in (None, given) and not path.lower().endswith(PAGES):
        return ("",)
    raise ParameterError(
        f"--format {given} and -o {path!r} contradict each other. Leave --format out, or end the "
        f"name in {' or '.join(FORMATS[given].endings)}."
    )


def _check_format(options: argparse.Namespace) -> None:
    """Raise ParameterError for a format that lacks its library, or that would be printed to a
    terminal which cannot show it."""
    name = output_format(options)
    if name is None:
        return
    check_format(name)
    if _is_standard(options.output) and not FORMATS[name].is_text and sys.stdout.isatty():
        raise ParameterError(
            f"--format {name} is nothing that a terminal can show. Name a file with -o, or pipe: "
            "dpframe ... | other."
        )


def output_format(options: argparse.Namespace) -> str | None:
    """Return the name of the output's format, from ``--format`` or the file's ending; None if
    neither names a format."""
    given: str | None = getattr(options, "format", None)
    if given is None and not _is_standard(options.output):
        return format_by_ending(options.output)
    return given


def _is_standard(path: str | None) -> bool:
    return path is None or path == STANDARD


def _protected_files(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name, what in PROTECTED_FILES.items():
        given = getattr(options, name, None)
        for path in given if isinstance(given, list) else [given]:
            if path is None or (name == "file" and path == STANDARD):
                continue
            with suppress(SourceError):  # the code that reads the file reports it
                yield from ((os.path.realpath(file), what) for file in matching_files(path))
            if name == "ledger":  # it may not exist yet
                yield os.path.realpath(file_of_path(path)), what


# -- after the charge ----------------------------------------------------------------------------


def deliver(
    writers: Mapping[str | None, Callable[[str], None]],
    shown: Callable[[], Release],
    rescue: Callable[[], str],
    how: str,
    printed: PrintSettings,
) -> int:
    """Write every file and print the result; return the exit code.

    If something fails, the code is 1 and the whole result is printed if possible, because it is
    paid for. NotPrintedError if standard output cannot be written.

    Parameters
    ----------
    writers
        For each path, the function that writes its file.
    shown
        Returns the result to print.
    rescue
        Returns everything that was paid for as text, to be printed if a file cannot be written.
    how
        A sentence that says what the text of ``rescue`` is.
    printed
        What is printed, and in which format.
    """
    paths = [path for path in writers if path is not None and path != STANDARD]
    failed = [path for path in paths if not _try_to_write(partial(writers[path], path))]
    if failed:
        print_failure(f"the result is paid for. {how}.")
        print_text(_rescue_text(rescue, shown), sys.stdout)
        return 1
    if printed.rows is None and not (printed.card or printed.json):
        return 0
    try:
        print_result(shown(), printed, *paths)
    except NotPrintedError:
        if not paths:
            print_text(_rescue_text(rescue, shown), sys.stderr)
        raise
    except BrokenPipeError:
        raise
    except Exception as error:  # as in _try_to_write
        print_failure(f"{error}. {how}.")
        print_text(_rescue_text(rescue, shown), sys.stdout)
        return 1
    return 0


def _rescue_text(rescue: Callable[[], str], shown: Callable[[], Release]) -> str:
    """Return everything that was paid for as text; if ``rescue`` fails, in the plainest form."""
    try:
        return rescue()
    except Exception as error:  # as in _try_to_write
        print_failure(f"{error}. It follows as plain text.")
        result = shown()
        return f"{result.frame.to_string(index=False)}\n{result.receipt.to_json()}"


def _try_to_write(write: Callable[[], None]) -> bool:
    try:
        write()
    except Exception as error:  # whatever fails, the result must not be lost
        print_failure(str(error))
        return False
    return True


def print_result(result: Release, printed: PrintSettings, *paths: str) -> None:
    """Print the rows, and on standard error the receipt and the names of the files written."""
    if printed.rows is not None:
        _print_rows(result, printed.rows, escaped=printed.escaped)
    if printed.json:
        print_text(result.receipt.to_json(), sys.stderr)
    if not printed.card:
        return
    say(f"\n{result.receipt}", sys.stderr, {1: "strong", 2: "faint"})
    if result.receipt["replayed"]:
        from dpframe.asking.privacy_receipt import replay_words

        say(f"\nreplayed: {replay_words(result.receipt)}", sys.stderr)
    if paths:
        say(f"\nwritten to {' and '.join(paths)}", sys.stderr)


def _print_rows(result: Release, name: str, *, escaped: bool) -> None:
    """Print rows: for a terminal a table's first rows or another format as visible text, or else
    every byte that a file would hold."""
    terminal, out = sys.stdout.isatty(), io.BytesIO()
    if terminal and name == "table":
        say(table_text(result, whole=False), styles={0: "strong"})
        return
    FORMATS[name].write(result, out, escaped)
    content = out.getvalue()
    if FORMATS[name].is_text and not content.endswith(b"\n"):
        content += b"\n"
    if terminal:
        say(content.decode().removesuffix("\n"))
        return
    try:
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        else:  # a replacement of stdout that takes only text
            sys.stdout.write(content.decode())
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise print_error(error) from error


# -- files ---------------------------------------------------------------------------------------


def write_release(
    result: Release, path: str, name: str | None = None, *, escaped: bool = True
) -> None:
    """Write a result in a format; by default the path's ending decides, also for a page."""
    chosen = name or format_by_ending(path)
    if chosen is None:
        write_result_page(result, path)
        return
    with replace_file(path, "the result") as file:
        FORMATS[chosen].write(result, file, escaped)


def write_result_page(result: Release, path: str) -> None:
    """Write a result as a page for people."""
    from dpframe.pages import report

    report.write_report(result.frame, result.receipt, path)
