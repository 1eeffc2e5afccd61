"""Two commands for every question, made from its declaration: one releases, one explains."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from dpframe._progress import step
from dpframe.asking.answer import answer_checked
from dpframe.asking.call_arguments import release_name
from dpframe.asking.data_scope import DataScope
from dpframe.asking.explain import plan_within_error
from dpframe.asking.explanation import Explanation
from dpframe.asking.ledger_fit import ledger_fit_lines
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Question
from dpframe.asking.release import Release
from dpframe.digest import RECEIPT
from dpframe.doors.cli.formats import ENDINGS, result_json
from dpframe.doors.cli.options import ERROR, add_options, option_arguments, parse_largest_errors
from dpframe.doors.cli.output import (
    STANDARD,
    add_output_arguments,
    check_files,
    choose_printing,
    deliver,
    output_format,
    write_release,
    write_result_page,
)
from dpframe.doors.cli.terminal_lines import say
from dpframe.ledger import chosen_ledger
from dpframe.postprocess.flat import flat_frame
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.question_list import QUESTIONS
from dpframe.questions.synthesize.ask import SYNTHESIZE
from dpframe.questions.synthesize.checks import check_sample
from dpframe.sources.row_files import UTF_8, File
from dpframe.sources.standard_input import piped_rows

SOURCE = (
    "a parquet or CSV file, or several: 'logs/*.parquet'; - is standard input, of either or Arrow"
)
"""Help of the argument that names the source."""

DELIMITER = r"the character between values of a CSV file, such as ';' or '\\t'"
ENCODING = "the encoding of a CSV file, such as latin-1 or utf-16; default: %(default)s"

CSV_ENCODING = ["--encoding", "--csv-encoding"]
"""Names of an option. A question with an argument ``encoding`` gets the second name alone."""

OUTPUT = f"write the rows: {', '.join(ENDINGS)}; - is standard output"


def add_question_commands(
    commands: Any, questions: Iterable[Question[Any, Any]] = QUESTIONS
) -> None:
    """Add both commands of every question to a parser's subcommands."""
    for question in questions:
        name = question.name.replace("_", "-")
        summary = (question.ask.__doc__ or "").partition("\n")[0].replace("%", "%%")
        run = commands.add_parser(name, help=summary, description=summary)
        run.add_argument("file", help=SOURCE)
        run.add_argument("--delimiter", help=f"{DELIMITER}; default: by the file's ending")
        names = ["--csv-encoding"] if "encoding" in question.plan_arguments else CSV_ENCODING
        run.add_argument(*names, dest="csv_encoding", help=ENCODING, default=UTF_8)
        add_options(run, question)
        answer = ANSWERS.get(question.name, ROWS)
        answer.add_options(run)
        run.set_defaults(run=partial(answer.run, question))
        does = f"what {name} would do; reads no data, spends nothing"
        explain = commands.add_parser(explain_command(question), help=does, description=does)
        add_options(explain, question)
        explain.add_argument("--error", action="append", help=ERROR)
        explain.add_argument("--ledger", help="say what the release would find in this ledger")
        explain.set_defaults(run=partial(_run_explain, question))


def explain_command(question: Question[Any, Any]) -> str:
    """Return the command that explains a question: ``explain`` for ``hhh``, else ``explain-`` and
    the name of the question."""
    return "explain" if question.name == HHH.name else f"explain-{question.name.replace('_', '-')}"


def _run_explain(question: Question[Any, Any], options: argparse.Namespace) -> int:
    arguments = option_arguments(question, options)
    with step("planning the noise"):
        asked, found = plan_within_error(question, arguments, parse_largest_errors(options.error))
        plan, about = question.declared(asked), DataScope.of(arguments)
    afforded = tuple(ledger_fit_lines(plan, about, chosen_ledger(options.ledger)))
    say(Explanation(plan, found, about, afforded, tuple(question.advice(plan))))
    return 0


def _call_question(question: Question[Any, Any], options: argparse.Namespace) -> Any:
    """Call the function of a question with the options of a command."""
    with command_source(options) as source:
        return question.ask(
            source,
            **option_arguments(question, options),
            ledger=options.ledger,
            release=options.release,
            data=options.data,
            progress=not options.quiet,
        )


@contextmanager
def command_source(options: argparse.Namespace) -> Iterator[object]:
    """Yield the source of a command: the named file, or the rows piped into standard input."""
    delimiter = "\t" if options.delimiter == r"\t" else options.delimiter
    how = {"delimiter": delimiter, "encoding": options.csv_encoding}
    if options.file != STANDARD:
        yield File(options.file, **how)
        return
    with piped_rows(sys.stdin, **how) as source:
        yield source


# -- rows ------------------------------------------------------------------------------------------


def _add_row_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--ledger", help="charge the release to this ledger before drawing")
    add("--release", help="store the result in the ledger under this name, or replay")
    add("--data", help="your name for the state of the data, such as a date")
    add("-o", "--output", help=f"{OUTPUT}; .html is a page for people")
    add("--report", help="write a page for people: hierarchy, table, privacy card")
    add_output_arguments(command)


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
    with command_source(options) as source:
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
        {
            options.output: lambda path: _write_output(options, result, path),
            options.report: partial(write_result_page, result),
        },
        lambda: printed,
        lambda: result_json(result),
        "It follows on standard output, as JSON",
        choose_printing(options),
    )


def _write_output(options: argparse.Namespace, result: Release, path: str) -> None:
    write_release(result, path, output_format(options), escaped=not options.unescaped)


# -- a generator of rows ---------------------------------------------------------------------------

GENERATED = {"output": ENDINGS, "save": (".parquet",)}
"""Arguments that name a file to write, and the endings that its name may have."""


def _add_generator_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("-n", type=int, help="rows to draw")
    add("--seed", type=int, help="of the drawn rows, to draw the same again")
    add("--ledger", help="charge the generator to this ledger before drawing noise")
    add("--release", help="store it in the ledger under this name, or take it there")
    add("--data", help="your name for the state of the data, such as a date")
    add("-o", "--output", help=OUTPUT)
    add("--save", help="write the generator: .parquet")
    add_output_arguments(command)


def _run_generator(question: Question[Any, Any], options: argparse.Namespace) -> int:
    """Write the generator that the question's function returns, and rows drawn from it."""
    check_sample(options.n)
    check_files(options, GENERATED)
    generator = _call_question(question, options)

    @cache
    def drawn() -> Release:
        rows = generator.sample(options.n, seed=options.seed)
        rows.attrs = {}  # the receipt is not part of the rows
        return Release(rows, generator.receipt)

    return deliver(
        {
            options.save: generator.save,  # first: rows can be drawn again
            options.output: lambda path: _write_output(options, drawn(), path),
        },
        drawn,
        lambda: b64encode(generator.to_bytes()).decode("ascii"),
        "Its generator follows on standard output, a Parquet file in base64",
        choose_printing(options, GENERATED),
    )


@dataclass(frozen=True, slots=True)
class AnswerCommand:
    """How a command answers a question and delivers the answer, and the options for this."""

    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Question[Any, Any], argparse.Namespace], int]


ROWS = AnswerCommand(_add_row_options, _run_rows)
ANSWERS = {
    PREFIX_TREE.name: AnswerCommand(_add_row_options, _run_items),
    SYNTHESIZE.name: AnswerCommand(_add_generator_options, _run_generator),
}
"""Commands of the questions, by name, whose answers are not delivered as ``ROWS`` does."""
