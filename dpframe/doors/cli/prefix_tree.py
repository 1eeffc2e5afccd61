"""The commands ``dpframe prefix-tree`` and ``dpframe explain-prefix-tree``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpframe._paths import named
from dpframe.doors.cli.output import add_release_arguments, run_explain, run_release
from dpframe.errors import ParameterError
from dpframe.postprocess.flat import flat
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.prefix_tree.asked import PREFIX_MECHANISMS


def add_prefix_commands(commands: Any) -> None:
    """Add both to the subcommands of a parser."""
    run = commands.add_parser("prefix-tree", help="frequent items of users who each hold many")
    run.add_argument("file", help="a parquet or CSV file, or several: 'logs/*.parquet'")
    _arguments(run)
    add_release_arguments(run)
    run.set_defaults(run=_prefix_tree)
    explain = commands.add_parser(
        "explain-prefix-tree", help="what prefix-tree would do; reads no data, spends nothing"
    )
    _arguments(explain)
    explain.set_defaults(run=_explain)


def _arguments(parser: argparse.ArgumentParser) -> None:
    def add(name: str, kind: type, words: str) -> None:
        default = PREFIX_TREE.planning[name]
        shown = "" if default is None else "; default: %(default)s"
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, default=default, help=words + shown)

    parser.add_argument("column", help="the column of items, for example word")
    parser.add_argument("--user", help="column that identifies a person, who is a device")
    parser.add_argument("--epsilon", type=float, help="privacy budget; no default")
    parser.add_argument("--delta", type=float, help="privacy budget; no default")
    add("devices", int, "number of users, or fewer, which is public; explain needs it")
    add("iterations", int, "questions of a round")
    add("rounds", int, "searches one after the other")
    add("length", int, "bits of an item")
    add("limit", int, "cells of a question")
    add("segments", str, "adaptive, even, or bits of every question: 15,15,15,15")
    add("false_positives", float, "expected items that nobody has, in parts of what is kept")
    add("selection", str, "unweighted or weighted: which item of a user is reported")
    parser.add_argument(
        "--no-conditioned",
        action="store_true",
        help="report any item, also one that is not below the prefixes found",
    )
    add("encoding", str, "binary or huffman")
    add("alphabet", str, "characters that are told apart")
    add("public", Path, "with huffman: a file of public items, one a line")
    add("deny", Path, "a file of items that nobody shall report, one a line")
    add("participation", float, "chance with which a device takes part in a question")
    add("mechanism", str, ", ".join(PREFIX_MECHANISMS))
    add("accountant", str, "aggregate or shuffle")
    add("neighbours", str, "replace or remove")
    add("confidence", float, "of the intervals")


def _given(options: argparse.Namespace) -> dict[str, object]:
    names = [name for name in PREFIX_TREE.planning if name != "conditioned"]
    given = {name: getattr(options, name) for name in names}
    files = {name: _lines(name, given[name]) for name in ("public", "deny")}
    segments = _segments(options.segments)
    return {**given, **files, "segments": segments, "conditioned": not options.no_conditioned}


def _segments(text: str) -> str | list[int]:
    """Names as they are, numbers with commas between as a list."""
    if not any(c.isdigit() for c in text):
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"segments ({text!r}) must be adaptive, even, or whole numbers with commas between, as "
            "15,15,15,15."
        ) from None


def _lines(name: str, path: Path | None) -> list[str] | None:
    """Lines of a text file that are not empty."""
    if path is None:
        return None
    try:
        text = named(path).read_text("utf-8-sig")
    except FileNotFoundError:
        wrong = "does not exist"
    except IsADirectoryError:
        wrong = "is a folder"
    except UnicodeDecodeError:
        wrong = "is not UTF-8"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror})"
    else:
        return [line for line in text.split("\n") if line]
    raise ParameterError(
        f"{name} ({str(path)!r}) {wrong}: name a text file with one item a line, in UTF-8."
    )


def _prefix_tree(options: argparse.Namespace) -> int:
    return run_release(
        options, PREFIX_TREE, _given, lambda frame: flat(frame, str(frame.columns[2]), None)
    )


def _explain(options: argparse.Namespace) -> int:
    return run_explain(PREFIX_TREE, _given, options)
