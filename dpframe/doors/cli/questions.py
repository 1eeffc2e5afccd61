"""Commands of every question, made from its declaration: one releases, one explains, one plans a
series.

Their **options** are made from the declaration, too: one for each argument, with a short help.
"""

from __future__ import annotations

import argparse
import errno
import inspect
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

from dpframe.asking.answer import answer_checked
from dpframe.asking.call_arguments import release_name
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Question, explain_plan, plan_within_error
from dpframe.asking.release import DataScope, Release
from dpframe.common.digest import RECEIPT
from dpframe.common.files import file_of_path
from dpframe.common.progress import step
from dpframe.doors.cli import Command, Option, option
from dpframe.doors.cli.output import (
    ENDINGS,
    OUTPUT_OPTIONS,
    STANDARD,
    check_files,
    deliver,
    result_json,
    say,
    write_output,
    write_result_page,
)
from dpframe.doors.warehouse import PLANNED, plan_series
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchies, as_hierarchy
from dpframe.ledger import Ledger, chosen_ledger
from dpframe.periods import period_from_option
from dpframe.postprocess.shown_nodes import flat_frame
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.hhh.heavy_hitters import FLAT_MECHANISMS
from dpframe.questions.hhh.plan import MECHANISMS
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.prefix_tree.plan import PREFIX_MECHANISMS
from dpframe.questions.question_list import QUESTIONS
from dpframe.questions.synthesize.ask import SYNTHESIZE
from dpframe.questions.synthesize.generator import check_sample
from dpframe.questions.tree_counts.plan import TREE_MECHANISMS
from dpframe.sources.row_files import PARQUET, SEPARATORS, UTF_8, File, piped_rows
from dpframe.sources.source_relations import read_public_file

T = TypeVar("T")

# -- options ---------------------------------------------------------------------------------------

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
    "level_importance": "how much errors of levels count: country=3,city=1; or even",
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


def _level_importance(
    name: str, text: str, options: argparse.Namespace
) -> str | list[float] | dict[str, float]:
    """Return numbers by the names of levels, or one a level; a text without digits unchanged."""
    wrong = f"{name.replace('_', '-')} ({text!r}) must be such as country=3,city=1, 0,3,1 or even."
    if not any(c.isdigit() for c in text):
        return text
    if "=" not in text:
        return _number_list(text, float, wrong)
    names, numbers = zip(*(part.rpartition("=")[::2] for part in text.split(",")), strict=True)
    found = dict(zip(names, _number_list(",".join(numbers), float, wrong), strict=True))
    if len(found) < len(names):
        raise ParameterError(wrong)
    return found


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
    by = getattr(options, "by", None)
    hierarchy = as_hierarchies(by, "by") if by else as_hierarchy(options.hierarchy)
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
    "level_importance": OptionReader(_level_importance),
    "level_weights": OptionReader(_level_weights),
    "period": OptionReader(lambda name, text, options: period_from_option(text)),
    "public": OptionReader(_item_lines),
    "segments": OptionReader(_segment_list),
}
"""How to read arguments that are not one number, text or flag: by name, or for one question by
``question.argument``."""


# -- commands --------------------------------------------------------------------------------------

SOURCE = (
    "a parquet or CSV file, or several: 'logs/*.parquet'; - is standard input, of either or Arrow"
)
"""Help of the argument that names the source."""

DELIMITER = r"the character between values of a CSV file, such as ';' or '\\t'"
ENCODING = "the encoding of a CSV file, such as latin-1 or utf-16; default: %(default)s"
TYPES = "types of columns of a CSV file, as day=DATE,amount=DOUBLE; default: text"
OUTPUT = f"write the rows: {', '.join(ENDINGS)}; - is standard output"
DATA = option("--data", "your name for the state of the data, such as a date")

ROW_OPTIONS = (
    option("--ledger", "charge the release to this ledger before drawing"),
    option("--release", "store the result in the ledger under this name, or replay"),
    DATA,
    option("-o --output", f"{OUTPUT}; .html is a page for people"),
    option("--report", "write a page for people: hierarchy, table, privacy card"),
    *OUTPUT_OPTIONS,
)

GENERATOR_OPTIONS = (
    option("-n", "rows to draw", type=int),
    option("--seed", "of the drawn rows, to draw the same again", type=int),
    option("--ledger", "charge the generator to this ledger before drawing noise"),
    option("--release", "store it in the ledger under this name, or take it there"),
    DATA,
    option("-o --output", OUTPUT),
    option("--save", "write the generator: .parquet"),
    *OUTPUT_OPTIONS,
)

SERIES_BUDGET = dict.fromkeys(("epsilon", "delta"), "total of all releases together; no default")


def add_question_commands(
    commands: Any, questions: Iterable[Question[Any, Any]] = QUESTIONS, only: str | None = None
) -> None:
    """Add both commands of every question to a parser's subcommands; with arguments, if ``only``
    one command is read, that one alone."""
    for question in questions:
        name = question.name.replace("_", "-")
        run, options = ANSWERS.get(question.name, (_run_rows, ROW_OPTIONS))
        encoding = "--csv-encoding"  # a question can have an argument ``encoding`` of its own
        Command(
            (question.ask.__doc__ or "").partition("\n")[0].replace("%", "%%"),
            partial(run, question),
            option("file", SOURCE),
            option("--delimiter", f"{DELIMITER}; default: by the file's ending"),
            option(
                encoding if "encoding" in question.plan_arguments else f"--encoding {encoding}",
                ENCODING,
                dest="csv_encoding",
                default=UTF_8,
            ),
            option("--types", TYPES, type=_types_by_column),
            *question_options(question),
            *options,
        ).add_to(commands, name, only)
        Command(
            f"what {name} would do; reads no data, spends nothing",
            partial(_run_explain, question),
            *question_options(question),
            ERROR,
            option("--ledger", "say what the release would find in this ledger"),
        ).add_to(commands, explain_command(question), only)


def explain_command(question: Question[Any, Any]) -> str:
    """Return the command that explains a question: ``explain`` for ``hhh``, else ``explain-`` and
    the name of the question."""
    return "explain" if question.name == HHH.name else f"explain-{question.name.replace('_', '-')}"


def _run_explain(question: Question[Any, Any], options: argparse.Namespace) -> int:
    arguments = option_arguments(question, options)
    with step("planning the noise"):
        asked, found = plan_within_error(question, arguments, parse_largest_errors(options.error))
        plan, about = question.declared(asked), DataScope.of(arguments)
    say(explain_plan(question, plan, found, about, chosen_ledger(options.ledger)))
    return 0


def add_plan_series_command(commands: Any, does: str) -> None:
    """Add ``plan-series``, with a subcommand for each question; ``does`` is the command's help."""
    command = commands.add_parser("plan-series", help=does, description=does)
    command.set_defaults(parser=command)
    questions = command.add_subparsers(required=True, metavar="QUESTION")
    for question in PLANNED.values():
        name = question.name.replace("_", "-")
        Command(
            f"releases of {name} within one total",
            partial(_run_plan_series, question),
            *question_options(question, SERIES_BUDGET),
            option("--releases", "how many, such as 52", type=int, required=True),
            option("--disjoint", "no record is in two of their periods", action="store_true"),
            option("--cumulative", "running totals, for readers of totals, weeks or both"),
            option("--law", "with --cumulative: laplace or gaussian"),
            option("--ledger", "say how many of them it still holds"),
            option("--every", "with --ledger: how often, such as week"),
        ).add_to(questions, name)


def _run_plan_series(question: Question[Any, Any], options: argparse.Namespace) -> int:
    given = option_arguments(question, options)
    about = given.pop(next(iter(question.plan_arguments)))
    plan = plan_series(
        options.releases,
        question.name,
        about,
        total=(given.pop("epsilon"), given.pop("delta")),  # type: ignore[arg-type]  # checked there
        disjoint=options.disjoint,
        cumulative=options.cumulative,
        law=options.law,
        # what is left at its default is left out, so that the planner tries all laws
        **{n: v for n, v in given.items() if v is not None and v != question.plan_arguments[n]},
    )
    say(plan)
    if options.ledger is not None:
        say(f"\n{Ledger(options.ledger).forecast(plan, every=options.every)}")
    return 0


# -- answers ---------------------------------------------------------------------------------------


def _call_question(question: Question[Any, Any], options: argparse.Namespace) -> Any:
    """Call the function of a question with the options of a command."""
    with _command_source(options) as source:
        return question.ask(
            source,
            **option_arguments(question, options),
            ledger=options.ledger,
            release=options.release,
            data=options.data,
            progress=not options.quiet,
        )


def _types_by_column(text: str) -> dict[str, str]:
    pairs = (part.rpartition("=") for part in text.split(","))
    return {name: kind for name, _, kind in pairs}


@contextmanager
def _command_source(options: argparse.Namespace) -> Iterator[object]:
    """Yield the source of a command: the named file, or the rows piped into standard input."""
    delimiter = "\t" if options.delimiter == r"\t" else options.delimiter
    how = {"delimiter": delimiter, "encoding": options.csv_encoding, "types": options.types}
    if options.file != STANDARD:
        yield File(options.file, **how)
        return
    with piped_rows(sys.stdin, **how) as source:
        yield source


def _run_rows(question: Question[Any, Any], options: argparse.Namespace) -> int:
    """Write and print the frame that the question's function returns."""
    check_files(options)
    frame = _call_question(question, options)
    receipt, frame.attrs = Receipt(frame.attrs[RECEIPT]), {}
    result = Release(frame, receipt)
    return _deliver_rows(options, result, result)


def _run_items(question: Question[Any, Any], options: argparse.Namespace) -> int:
    """Print the items, but write them as nodes of one level: files of this command always held
    nodes."""
    check_files(options)
    arguments = option_arguments(question, options)
    with _command_source(options) as source:
        nodes = answer_checked(
            question,
            question.plan(arguments),
            source,
            ledger=chosen_ledger(options.ledger),
            name=release_name(options.release),
            about=DataScope.of({**arguments, "data": options.data}),
            progress=not options.quiet,
        ).release
    items = flat_frame(nodes.frame, str(nodes.frame.columns[2]), None)
    return _deliver_rows(options, nodes, Release(items, nodes.receipt))


def _deliver_rows(options: argparse.Namespace, result: Release, printed: Release) -> int:
    return deliver(
        options,
        {
            options.output: partial(write_output, options, result),
            options.report: partial(write_result_page, result),
        },
        lambda: printed,
        lambda: result_json(result),
        "It follows on standard output, as JSON",
    )


def _run_generator(question: Question[Any, Any], options: argparse.Namespace) -> int:
    """Write the generator that the question's function returns, and rows drawn from it."""
    check_sample(options.n)
    check_files(options, {"output": ENDINGS, "save": (".parquet",)})
    generator = _call_question(question, options)

    @cache
    def drawn() -> Release:
        rows = generator.sample(options.n, seed=options.seed)
        rows.attrs = {}  # the receipt is not part of the rows
        return Release(rows, generator.receipt)

    return deliver(
        options,
        {
            options.save: generator.save,  # first: rows can be drawn again
            options.output: lambda path: write_output(options, drawn(), path),
        },
        drawn,
        lambda: b64encode(generator.to_bytes()).decode("ascii"),
        "Its generator follows on standard output, a Parquet file in base64",
    )


ANSWERS = {
    PREFIX_TREE.name: (_run_items, ROW_OPTIONS),
    SYNTHESIZE.name: (_run_generator, GENERATOR_OPTIONS),
}
"""How a command answers and its options, by question; of other questions: the rows."""
