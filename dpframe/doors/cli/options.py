"""The command-line options of a question, made from its declaration, with their helps."""

from __future__ import annotations

import argparse
import errno
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dpframe.asking.question import Question
from dpframe.common.files import file_of_path
from dpframe.doors.cli.usage import Option, option
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.periods import period_from_option
from dpframe.questions.hhh.heavy_hitters import FLAT_MECHANISMS
from dpframe.questions.hhh.plan import MECHANISMS
from dpframe.questions.prefix_tree.plan import PREFIX_MECHANISMS
from dpframe.questions.tree_counts.plan import TREE_MECHANISMS
from dpframe.sources.row_files import PARQUET, SEPARATORS
from dpframe.sources.source_relations import read_public_file

T = TypeVar("T")

HELP = {
    "accountant": "aggregate or shuffle",
    "acknowledge": "needed for --mechanism paper",
    "alpha": "relative error; --mechanism relative",
    "alphabet": "characters that are told apart",
    "column": "the column, for example word",
    "columns": "for example 'number:distance?lower=0&upper=5000'",
    "conditioned": "report any item, even if it is not below the prefixes found",
    "confidence": "of the intervals",
    "consistent": "counts as drawn, which do not add up",
    "hhh.contribution": "auto (default), share, records or items; with --user",
    "rollup.contribution": "auto (default), share or items; with --user",
    "tree_counts.contribution": "share (default) or records; with --user",
    "heavy_hitters.contribution": "items (default: users once), share or records; with --user",
    "counters": "size of a sketch; --mechanism streaming",
    "delta": "privacy budget; no default",
    "tree_counts.delta": "privacy budget; needed without --keys",
    "deny": "a file of items that nobody shall report, one a line",
    "depth": "halvings of the domain",
    "devices": "a number of users that there certainly are, which is public; explain needs it",
    "encoding": "binary or huffman",
    "epsilon": "privacy budget; no default",
    "false_positives": "expected items that nobody has, as a share of the kept items",
    "heavy": "name of the sum by which nodes are selected; by default they need many records",
    "hierarchy": "for example ip:src or columns:country,city",
    "at_most": "nodes of a level (heavy_hitters: released values) at which a user counts",
    "by": "the hierarchy, for example ip:src or columns:country,city",
    "measures": "what to measure, such as 'count' or 'sum(amount, 0, 500) AS revenue'; repeatable",
    "selection_share": "part of epsilon that selects what is shown",
    "iterations": "number of questions of a round",
    "k": "largest number of values",
    "synthesize.k": "cells of a level that are refined",
    "keys": "a parquet or CSV file that lists all keys, or 'domain'",
    "synthesize.keys": "a file with the values of the categories; repeatable",
    "largest": "largest possible number of records; --mechanism relative",
    "length": "bits of an item",
    "level_weights": "parts of the budget, level 0 first: 1,2,2",
    "limit": "largest number of cells of a question",
    "max_contributions": "records or values of a user that count; --contribution records or items",
    "heavy_hitters.max_contributions": "values or records of a user that take part; with --user",
    "tree_counts.max_contributions": "records of a user that count; --contribution records",
    "synthesize.max_contributions": "rows counted of each user",
    "max_weight": "largest number of records that a protected row stands for",
    "hhh.max_weight": "largest weight that a row or user counts with; with --weight",
    "hhh.mechanism": f"{', '.join(MECHANISMS)}; rounds or offline by default",
    "heavy_hitters.mechanism": f"{', '.join(FLAT_MECHANISMS)}; rounds (default) with --user",
    "tree_counts.mechanism": ", ".join(TREE_MECHANISMS),
    "prefix_tree.mechanism": ", ".join(PREFIX_MECHANISMS),
    "nodes_per_user": "number of finest nodes of a user, if you know it",
    "neighbours": "replace or remove",
    "participation": "chance that a device takes part in a question",
    "period": "only records of a period in a column of times: when=2026-W47[@zone]",
    "public": "with huffman: a file of public items, one a line",
    "release_share": "part of epsilon for the counts",
    "remainder": "no row for level 0",
    "rounds": "number of searches, one after the other",
    "rows": "rows of a sketch",
    "segments": "adaptive, even, or the bits of each question: 15,15,15,15",
    "selection": "unweighted or weighted: which item of a user is reported",
    "split": "optimal or uniform",
    "totals": "of several hierarchies: whole counts of reported cells too, for half of epsilon",
    "threshold": "count from which a node is shown; by default the smallest private one",
    "user": "column that identifies a person",
    "prefix_tree.user": "column that identifies a person, who is a device",
    "weight": "column that says for how many records a row stands",
    "hhh.weight": "column, such as bytes, whose sum makes nodes heavy",
    "width": "cells of a row of a sketch",
}
"""The help of an argument, for every question, or as ``question.argument`` for one."""

LEFT_OUT = ("synthesize.seed",)
"""Arguments without an option. The argument ``seed`` is for hash functions, which are chosen at
random; the option ``--seed`` is for drawing rows."""


def question_options(
    question: Question[Any, Any], helps: Mapping[str, str] = {}
) -> Iterator[Option]:
    """Yield the arguments that a question's plan takes: the first, what the question is about, by
    position, and an option for every other argument. ``helps`` come before those of ``HELP``."""
    about, *rest = _option_names(question)
    yield option(about, _question_entry(question, about, HELP), **_reader(question, about).by)
    for name in rest:
        reader, default = _reader(question, name), question.plan_arguments[name]
        words = helps.get(name) or _question_entry(question, name, HELP)
        kind, dashed = argument_type(question, name), name.replace("_", "-")
        called, by = f"{'-' if len(name) == 1 else '--'}{dashed}", dict(reader.by)
        if kind == "bool":  # a flag turns on what is off by default, and otherwise off
            called = called if default is False else f"--no-{dashed}"
            by |= {"action": "store_const", "const": default is False}
        else:
            by["type"] = {"int": int, "float": float}.get(kind, str)
            words = "; ".join(filter(None, [words, None if default is None else DEFAULT]))
        yield option(reader.option or called, words or None, dest=name, default=default, **by)


DEFAULT = "default: %(default)s"


def argument_type(question: Question[Any, Any], name: str) -> str:
    """Return the type of an argument as text; of a union, its first type."""
    kind = question.parameters[name].annotation
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return text.partition(" | ")[0]


def option_arguments(
    question: Question[Any, Any], options: argparse.Namespace
) -> dict[str, object]:
    """Return the arguments of a question from a command's options, unchecked."""
    given = {name: getattr(options, name) for name in _option_names(question)}
    return {
        name: None if value is None else _reader(question, name).value(name, value, options)
        for name, value in given.items()
    }


ERROR = option(
    "--error",
    "largest half width of intervals, in the place of --epsilon: a number, or NAME=NUMBER for a "
    "measure; repeatable",
    action="append",
)


def parse_largest_errors(texts: Sequence[str] | None) -> object:
    """Parse the texts of ``--error``: None, one number, or numbers by measure."""
    if texts is None:
        return None
    found: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if name in found or (len(texts) > 1 and not name):
            raise ParameterError(
                f"error ({text!r}) must be one number alone, or NAME=NUMBER, each measure once: "
                "--error revenue=1000 --error orders=20."
            )
        try:
            found[name] = float(number)
        except ValueError:
            raise ParameterError(
                f"error ({text!r}) must end in a number. For example --error revenue=1000, or "
                "--error 1000."
            ) from None
    return found.get("", found)


def _option_names(question: Question[Any, Any]) -> list[str]:
    return [name for name in question.plan_arguments if f"{question.name}.{name}" not in LEFT_OUT]


def _question_entry(question: Question[Any, Any], name: str, table: Mapping[str, T]) -> T | None:
    """Look up an argument in a table: first under ``question.argument``, then under its own name.
    None if the table has neither."""
    return table.get(f"{question.name}.{name}", table.get(name))


# -- how an option is read -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OptionReader:
    """How to read an argument that is not one number or text.

    ``value`` makes the argument from its name, the text of the option and all options. ``option``
    is the option's name if it is not the argument's; ``by`` holds keyword arguments for argparse.
    """

    value: Callable[[str, Any, argparse.Namespace], object] = lambda name, given, options: given
    option: str | None = None
    by: Mapping[str, Any] = field(default_factory=dict)


def _reader(question: Question[Any, Any], name: str) -> OptionReader:
    return _question_entry(question, name, OPTION_READERS) or OptionReader()


def _number_list(text: str, kind: type[T], wrong: str) -> list[T]:
    """Return numbers that are separated by commas; ParameterError ``wrong`` for another text."""
    try:
        return [kind(part) for part in text.split(",")]  # type: ignore[call-arg]  # int or float
    except ValueError:
        raise ParameterError(wrong) from None


def _level_weights(name: str, text: str, options: argparse.Namespace) -> list[float]:
    wrong = f"{name.replace('_', '-')} ({text!r}) must be numbers, such as 1,2,2."
    return _number_list(text, float, wrong)


def _segment_list(name: str, text: str, options: argparse.Namespace) -> str | list[int]:
    """Return a text without digits unchanged, and numbers separated by commas as a list."""
    wrong = f"{name} ({text!r}) must be adaptive, even, or numbers with commas, as 15,15,15,15."
    return _number_list(text, int, wrong) if any(c.isdigit() for c in text) else text


def _item_lines(name: str, path: str, options: argparse.Namespace) -> list[str]:
    """Return the lines of a text file, without empty lines."""
    try:
        text = file_of_path(path).read_text("utf-8-sig")
    except UnicodeDecodeError:
        wrong = "is not UTF-8"
    except OSError as error:
        known = {errno.ENOENT: "does not exist", errno.EISDIR: "is a folder"}
        wrong = known.get(error.errno or 0, f"cannot be read ({error.strerror})")
    else:
        return [line for line in text.split("\n") if line]
    raise ParameterError(f"{name} ({path!r}) {wrong}. Name a UTF-8 text file with one item a line.")


def _keys_from_file(name: str, given: str, options: argparse.Namespace) -> object:
    """Return the keys in a file, as values of the hierarchy's columns; or "domain" unchanged."""
    if given == "domain":
        return given
    hierarchy = as_hierarchy(getattr(options, "by", None) or options.hierarchy)
    if not given.lower().endswith((*PARQUET, *SEPARATORS)):
        columns = ", ".join(hierarchy.source_columns)
        raise ParameterError(
            f"{name} ({given!r}) is no parquet or CSV file. Name a file with the keys in its "
            f"{'columns' if ',' in columns else 'column'} {columns}, or write {name}='domain'."
        )
    return read_public_file(given, hierarchy.source_columns)


def _keys_by_column(name: str, files: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Return the keys in files, by columns of categories: one file for each column, in the order
    of the columns."""
    numbers = ("number", "time", "ip")
    specs = [as_hierarchy(c) for c in options.columns if c.partition(":")[0] not in numbers]
    if len(specs) != len(files):
        raise ParameterError(
            f"{name} has {len(files)} files for {len(specs)} columns of categories. Name one for "
            "each, in their order."
        )
    pairs = [(spec.source_columns, file) for spec, file in zip(specs, files, strict=True)]
    return {",".join(columns): read_public_file(file, columns) for columns, file in pairs}


OPTION_READERS = {
    "columns": OptionReader(by={"nargs": "+"}),
    "consistent": OptionReader(option="--raw"),
    "measures": OptionReader(option="--measure", by={"action": "append"}),
    "deny": OptionReader(_item_lines),
    "keys": OptionReader(_keys_from_file),
    "synthesize.keys": OptionReader(_keys_by_column, by={"action": "append"}),
    "level_weights": OptionReader(_level_weights),
    "period": OptionReader(lambda name, text, options: period_from_option(text)),
    "public": OptionReader(_item_lines),
    "segments": OptionReader(_segment_list),
}
"""How to read arguments that are not one number, text or flag: by name, or for one question by
``question.argument``."""
