"""Commands of every question, made from its declaration: one releases, one explains, one plans a
series."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from dpframe.asking.answer import answer_checked
from dpframe.asking.call_arguments import release_name
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Question, explain_plan, plan_within_error
from dpframe.asking.release import DataScope, Release
from dpframe.common.digest import RECEIPT
from dpframe.common.progress import step
from dpframe.doors.cli.options import (
    ERROR,
    option_arguments,
    parse_largest_errors,
    question_options,
)
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
from dpframe.doors.cli.usage import Command, option
from dpframe.doors.warehouse import PLANNED, plan_series
from dpframe.ledger import Ledger, chosen_ledger
from dpframe.postprocess.shown_nodes import flat_frame
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.question_list import QUESTIONS
from dpframe.questions.synthesize.ask import SYNTHESIZE
from dpframe.questions.synthesize.checks import check_sample
from dpframe.sources.row_files import UTF_8, File, piped_rows

SOURCE = (
    "a parquet or CSV file, or several: 'logs/*.parquet'; - is standard input, of either or Arrow"
)
"""Help of the argument that names the source."""

DELIMITER = r"the character between values of a CSV file, such as ';' or '\\t'"
ENCODING = "the encoding of a CSV file, such as latin-1 or utf-16; default: %(default)s"
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


@contextmanager
def _command_source(options: argparse.Namespace) -> Iterator[object]:
    """Yield the source of a command: the named file, or the rows piped into standard input."""
    delimiter = "\t" if options.delimiter == r"\t" else options.delimiter
    how = {"delimiter": delimiter, "encoding": options.csv_encoding}
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
