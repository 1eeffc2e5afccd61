"""What the commands of the command line write: to files and to the terminal."""

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

from dpframe._forking import no_fork
from dpframe._paths import PAGES, check_target, matching, named, replacing
from dpframe.doors.cli.formats import ENDINGS, FORMATS, by_ending, check_format, table_text
from dpframe.doors.cli.saying import NotPrintedError, fail, print_text, say, unprintable
from dpframe.errors import ParameterError, SourceError

if TYPE_CHECKING:
    from dpframe.asking.release import Release

STANDARD = "-"
"""In the place of a file: standard input or output."""

FILES = {"output": (*ENDINGS, *PAGES), "report": PAGES}
"""Arguments that name a file to write, and how it may end."""

KEPT = {
    "ledger": "ledger",
    "file": "file that is counted",
    "keys": "file of keys",
    "public": "file of public items",
    "deny": "file of denied items",
}
"""Arguments that name files which must not be written over."""


def add_output_arguments(command: argparse.ArgumentParser) -> None:
    """What every command that writes a result takes."""
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
class Printing:
    """What goes to standard output, and what to standard error beside it.

    ``rows`` is the format of the rows there, None for no rows.
    """

    rows: str | None
    card: bool = True
    json: bool = False
    escaped: bool = True


def printing(options: argparse.Namespace, files: Mapping[str, tuple[str, ...]] = FILES) -> Printing:
    """What a command prints."""
    given = {name: getattr(options, name, None) for name in (*files, "release")}
    elsewhere = any(path not in (None, STANDARD) for path in given.values())
    rows = (options.format if _is_standard(given["output"]) else None) or "table"
    if options.quiet and elsewhere and given["output"] != STANDARD:
        rows = None
    return Printing(
        rows=rows,
        card=not options.quiet and not options.json,
        json=options.json,
        escaped=not options.unescaped,
    )


# -- before anything is spent --------------------------------------------------------------------


def check_files(options: argparse.Namespace, files: Mapping[str, tuple[str, ...]] = FILES) -> None:
    """Raise ParameterError for files that could not be written, or would write over others, and
    for formats that cannot go where they would go."""
    if getattr(options, "release", None) is not None and options.ledger is None:
        raise ParameterError("--release needs --ledger, which keeps the result.")
    taken = dict(_kept(options))
    for name, endings in files.items():
        path = getattr(options, name, None)
        if path is None or (name == "output" and path == STANDARD):
            continue
        check_target(name, path, _endings(options, endings) if name == "output" else endings)
        real = os.path.realpath(named(path))
        if real in taken:
            raise ParameterError(f"{name} ({path!r}) is the {taken[real]}: choose another file.")
        taken[real] = name
    _check_format(options)


def _endings(options: argparse.Namespace, endings: tuple[str, ...]) -> tuple[str, ...]:
    """How the name of the output may end: with a format that is named, also in no known way."""
    path, given = options.output, getattr(options, "format", None)
    if given is None:
        return endings
    if by_ending(path) in (None, given) and not path.lower().endswith(PAGES):
        return ("",)
    raise ParameterError(
        f"--format {given} and -o {path!r} contradict each other: leave --format out, or let the "
        f"name end in {' or '.join(FORMATS[given].endings)}."
    )


def _check_format(options: argparse.Namespace) -> None:
    """ParameterError for a format that lacks its library, or that no terminal can show."""
    name = format_of(options)
    if name is None:
        return
    check_format(name)
    if _is_standard(options.output) and not FORMATS[name].is_text and sys.stdout.isatty():
        raise ParameterError(
            f"--format {name} is nothing that a terminal can show: name a file with -o, or pass it "
            "on: dpframe ... | other."
        )


def format_of(options: argparse.Namespace) -> str | None:
    """The format of the output that is named, of a file or of standard output."""
    given: str | None = getattr(options, "format", None)
    if given is None and not _is_standard(options.output):
        return by_ending(options.output)
    return given


def _is_standard(path: str | None) -> bool:
    return path is None or path == STANDARD


def _kept(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name, what in KEPT.items():
        given = getattr(options, name, None)
        for path in given if isinstance(given, list) else [given]:
            if path is None or (name == "file" and path == STANDARD):
                continue
            with suppress(SourceError):  # whoever reads it says what is wrong
                yield from ((os.path.realpath(file), what) for file in matching(path))
            if name == "ledger":  # which may be made later
                yield os.path.realpath(named(path)), what


# -- when it is paid for -------------------------------------------------------------------------


def deliver(
    writers: Mapping[str | None, Callable[[str], None]],
    shown: Callable[[], Release],
    rescue: Callable[[], str],
    how: str,
    printed: Printing,
) -> int:
    """Write every file and print; 1 where that failed, and then everything goes where it can.

    Parameters
    ----------
    writers
        What writes the file of each path.
    shown
        What is printed.
    rescue
        All that was paid for, as text: printed where a file could not be written.
    how
        What that text is.
    printed
        How it is printed.
    """
    paths = [path for path in writers if path is not None and path != STANDARD]
    failed = [path for path in paths if not _done(partial(writers[path], path))]
    if failed:
        fail(f"the result is paid for. {how}.")
        print_text(_rescued(rescue, shown), sys.stdout)
        return 1
    if printed.rows is None and not (printed.card or printed.json):
        return 0
    try:
        show(shown(), printed, *paths)
    except NotPrintedError:
        if not paths:
            print_text(_rescued(rescue, shown), sys.stderr)
        raise
    except BrokenPipeError:
        raise
    except Exception as error:  # as in _done
        fail(f"{error}. {how}.")
        print_text(_rescued(rescue, shown), sys.stdout)
        return 1
    return 0


def _rescued(rescue: Callable[[], str], shown: Callable[[], Release]) -> str:
    """All that was paid for as text, in one way or another."""
    try:
        return rescue()
    except Exception as error:  # as in _done
        fail(f"{error}. It follows as plain text.")
        result = shown()
        return f"{result.frame.to_string(index=False)}\n{result.receipt.to_json()}"


def _done(write: Callable[[], None]) -> bool:
    try:
        write()
    except Exception as error:  # whatever it is, the result must not be lost
        fail(str(error))
        return False
    return True


def show(result: Release, printed: Printing, *paths: str) -> None:
    """Print the rows; on standard error the receipt, and which files were written."""
    if printed.rows is not None:
        _show_rows(result, printed.rows, escaped=printed.escaped)
    if printed.json:
        print_text(result.receipt.to_json(), sys.stderr)
    if not printed.card:
        return
    say(f"\n{result.receipt}", sys.stderr, {1: "strong", 2: "faint"})
    if result.receipt["replayed"]:
        with no_fork():
            from dpframe.asking.receipt import replay_words
        say(f"\nreplayed: {replay_words(result.receipt)}", sys.stderr)
    if paths:
        say(f"\nwritten to {' and '.join(paths)}", sys.stderr)


def _show_rows(result: Release, name: str, *, escaped: bool) -> None:
    """Rows on standard output: what a terminal shows, or every byte of what a file would hold."""
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
        else:  # what holds text alone
            sys.stdout.write(content.decode())
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unprintable(error) from error


# -- files ---------------------------------------------------------------------------------------


def write(result: Release, path: str, name: str | None = None, *, escaped: bool = True) -> None:
    """Write a result in a format, by default the one that the ending of a path says."""
    chosen = name or by_ending(path)
    if chosen is None:
        write_report(result, path)
        return
    with replacing(path, "the result") as file:
        FORMATS[chosen].write(result, file, escaped)


def write_report(result: Release, path: str) -> None:
    """Write a result as a page for people."""
    with no_fork():
        from dpframe.pages import report

    report.write_report(result.frame, result.receipt, path)
