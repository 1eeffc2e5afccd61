"""The command line: the parser of all commands, and commands of no single question."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import resources, util
from typing import Any

from dpframe._version import __version__
from dpframe.common.calls import import_extra, load_name
from dpframe.doors.cli import (
    Command,
    CommandParser,
    as_options,
    check_one_file,
    option,
    refuse_unknown,
)
from dpframe.doors.cli.output import (
    ENDINGS,
    OUTPUT_OPTIONS,
    SHOWN,
    UNESCAPED,
    NotPrintedError,
    check_files,
    deliver,
    first_rows_text,
    print_failure,
    print_text,
    result_json,
    say,
    write_output,
)
from dpframe.doors.result_methods import CHANGE_FILES, change, save_change
from dpframe.errors import DpframeError, ParameterError, ReplayedNotice
from dpframe.questions.question_list import ROOMS

DEMO = {"epsilon": 1.0, "delta": 1e-6, "threshold": 50, "user": "aircraft"}
DEMO_HIERARCHY = "columns:origin,dest,carrier"
DEMO_FILE = "flights.parquet"

SHELLS = {
    "bash": 'eval "$(dpframe completion bash)"  # in ~/.bashrc',
    "zsh": "dpframe completion zsh > ~/.zsh/_dpframe  # in a folder of $fpath",
    "fish": "dpframe completion fish > ~/.config/fish/completions/dpframe.fish",
}
"""What a user does with the script of each shell, in one line."""

FILES = ("file", "ledger", "output", "report", "save", "to")
"""Arguments that a shell completes with names of files."""


def _run_ledger(options: argparse.Namespace) -> int:
    book = load_name("dpframe.ledger", "Ledger")(
        options.path,
        epsilon=options.epsilon,
        delta=options.delta,
        accountant=options.accountant,
        protects=options.protects,
    )
    if options.verify:
        book.verify()
    summary, releases = book.summary(), book.releases(options.limit)
    say(summary.T.to_string(header=False))
    for frame, hidden, missing in (
        (book.reservations(), ["reservation_id"], "NaN"),
        (book.filters(), ["filter_id"], "NaN"),
        (releases, ["receipt", "neighbours"], ""),
    ):
        if len(frame):
            say(f"\n{frame.drop(columns=hidden).to_string(index=False, na_rep=missing)}")
    earlier = int(summary["releases"].iloc[0]) - len(releases)
    if earlier > 0:
        say(f"\n{earlier} earlier: --limit shows more")
    return 0


def _run_change(options: argparse.Namespace) -> int:
    check_files(options, {"output": CHANGE_FILES})
    found = change(
        options.before,
        options.after,
        measure=options.measure,
        confidence=options.confidence,
        simultaneous=not options.each,
        ledger=options.ledger,
    )
    facts = found.attrs[load_name("dpframe.common.digest", "CHANGE")]
    path = options.output
    if path is not None:
        save_change(found, path, escaped=not options.unescaped)
    clear = int(found["more_than_noise"].sum())
    said = f"{clear} of {len(found)} changes are more than noise: their intervals leave 0 out"
    write = load_name("dpframe.pages.tables", "change_text")
    rows = write(found, SHOWN) if sys.stdout.isatty() else first_rows_text(found)
    say(rows, styles={0: "strong"})
    say(f"\n{said}. {facts['means']}.", sys.stderr)
    if path is not None:
        say(f"\nwritten to {path}", sys.stderr)
    return 0


def _run_publish(options: argparse.Namespace) -> int:
    publish = load_name("dpframe.publishing.publish", "publish")
    done = publish(options.ledger, options.to, releases=options.release)
    to = load_name("dpframe.common.files", "shown_target")(options.to)
    columns = ["release", "table_name", "latest_view", "time"]
    say(f"{done[columns].to_string(index=False)}\n\nwritten to {to}")
    return 0


def _run_series(options: argparse.Namespace) -> int:
    series = load_name("dpframe.doors.series.series", "Series").read(options.file)
    outcome = series.run(options.until, dry_run=options.dry_run)
    if options.json:
        say(outcome.to_json())
    elif not options.quiet or outcome.code:
        say(outcome, sys.stderr if options.quiet else None)
    return int(outcome.code)


def _run_verify(options: argparse.Namespace) -> int:
    verdict = load_name("dpframe.doors.verify", "verify")(options.file, proof=options.proof)
    if options.json:
        print_text(json.dumps(verdict.to_dict()), sys.stdout)
    else:
        say(verdict.sentence if options.quiet else verdict)
    return int(verdict.code)


def _run_serve(options: argparse.Namespace) -> int:
    reader, policies = "dpframe.doors.gateway.policy_reader", "dpframe.doors.gateway.policy"
    path = options.policy
    if not options.check:
        for name in ("starlette", "uvicorn", "anyio"):
            import_extra(name, NO_SERVER, ParameterError)
    if options.demo:
        path, token = load_name(policies, "write_demo")(path or "dpframe-demo")
        say(f"policy   {path}\ntoken    {token}")
    elif path is None:
        raise ParameterError("serve needs a policy. Pass policy.toml, or --demo.")
    policy = load_name(reader, "read_policy")(path)
    if options.check:
        counts = {"data sets": policy.data, "analysts": policy.analysts, "views": policy.views}
        told = ", ".join(f"{name}: {len(found)}" for name, found in counts.items() if found)
        say(f"{path}: no mistakes; {told}")
        return 0
    serve = load_name("dpframe.doors.gateway.http", "serve")
    told = serve(policy, lambda url: say(f"serving  {url}"), options.quiet, options.demo)
    say(f"stopped by {told}; what was asked is answered")
    return 0


NO_SERVER = "serve needs a web server. Run pip install 'dpframe[serve]'."


def _run_token(options: argparse.Namespace) -> int:
    policies = "dpframe.doors.gateway.policy"
    if load_name(policies, "ANALYST").fullmatch(options.analyst) is None:
        raise ParameterError(
            f"analyst ({options.analyst!r}) must have a name of letters, digits and the signs .@+-_"
        )
    token = load_name(policies, "make_token")()
    hashed = load_name(policies, "hash_token")(token)
    say(f'[analyst.{json.dumps(options.analyst)}]\ntoken = "{hashed}"')
    say(f"\nThe token of {options.analyst}, shown once: {token}", sys.stderr)
    return 0


def _run_install_postgres(options: argparse.Namespace) -> int:
    variable = load_name("dpframe.doors.gateway", "TOKEN")
    token = os.environ.get(variable)
    if token is None:
        raise ParameterError(
            f"the token of the database is missing. Set {variable}; 'dpframe token NAME' makes one."
        )
    install = load_name("dpframe.doors.postgres", "install")
    name = install(options.database, options.gateway, token)
    say(f"the functions dp_* are in schema dpframe, and ask as {name!r}. Give them to roles:\n")
    say("GRANT dpframe_analyst TO ann;")
    say('ALTER ROLE ann SET search_path = "$user", public, dpframe;')
    return 0


def _print_completion(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ModuleNotFoundError:
        raise ParameterError(
            "completion needs shtab. Run pip install 'dpframe[completion]'."
        ) from None
    whole = options.parser_of_all()
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


def _run_demo(options: argparse.Namespace) -> int:
    check_files(options)
    question = load_name("dpframe.questions.hhh.ask", "HHH")
    plan = question.plan({"hierarchy": DEMO_HIERARCHY, **DEMO})
    about = load_name("dpframe.asking.release", "DataScope")()
    with resources.as_file(resources.files("dpframe") / "data" / DEMO_FILE) as flights:
        result = load_name("dpframe.asking.answer", "answer_checked")(
            question, plan, flights, ledger=None, name=None, about=about, progress=False
        ).release
    if not options.quiet:
        asks = "Which routes and carriers do how many aircraft fly from New York?\n"
        say(asks, sys.stderr)
    return deliver(
        options,
        {options.output: partial(write_output, options, result)},
        lambda: result,
        lambda: result_json(result),
        "It follows on standard output, as JSON",
    )


def _named_files(option_name: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return the files of ``NAME=FILE``, by name."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, sign, path = text.partition("=")
        if not sign or not name or not path or name in found:
            raise ParameterError(
                f"{option_name} ({text!r}) must be NAME=FILE, each name once: sales=sales.parquet."
            )
        found[name] = path
    return found


def _named_bounds(texts: Sequence[str] | None) -> dict[str, tuple[Any, Any]] | None:
    """Return the pairs of ``NAME=LOWER,UPPER``, by name; numbers as numbers."""
    found: dict[str, tuple[Any, Any]] = {}
    for text in texts or ():
        name, _, pair = text.rpartition("=")
        ends = [part.strip() for part in pair.split(",")]
        if not name or len(ends) != 2 or name in found:
            raise ParameterError(
                f"bounds ({text!r}) must be NAME=LOWER,UPPER, each name once: amount=0,500."
            )
        lower, upper = (_number_or_text(part) for part in ends)
        found[name] = lower, upper
    return found or None


def _number_or_text(text: str) -> int | float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _run_sql(options: argparse.Namespace) -> int:
    """Write and print the answer to a query, or explain it."""
    period = options.period
    if period is not None and "=" in period:
        period = load_name("dpframe.periods", "period_from_option")(period)
    if not options.table:
        raise ParameterError(
            "table is missing. Name the file of each: --table sales=sales.parquet."
        )
    arguments: dict[str, Any] = {
        "tables": _named_files("table", options.table),
        "public": _named_files("public", options.public),
        "bounds": _named_bounds(options.bounds),
        "intervals": None if options.intervals else False,
        "period": period,
        **{name: getattr(options, name) for name in SQL_ARGUMENTS},
    }
    if options.explain or options.error is not None:
        parse = load_name("dpframe.doors.cli.questions", "parse_largest_errors")
        explain = load_name("dpframe.doors.sql.query", "explain_sql")
        say(explain(options.query, **arguments, error=parse(options.error)))
        return 0
    check_files(options, {"output": ENDINGS})
    ask = load_name("dpframe.doors.sql.query", "sql")
    frame = ask(options.query, **arguments, progress=not options.quiet)
    receipt = load_name("dpframe.asking.privacy_receipt", "Receipt")
    facts, frame.attrs = frame.attrs[load_name("dpframe.common.digest", "RECEIPT")], {}
    result = load_name("dpframe.asking.release", "Release")(frame, receipt(facts))
    return deliver(
        options,
        {options.output: partial(write_output, options, result)},
        lambda: result,
        lambda: result_json(result),
        "It follows on standard output, as JSON",
    )


SQL_ARGUMENTS = (
    *("user", "epsilon", "delta", "threshold", "confidence"),
    *("ledger", "release", "data"),
)
"""Arguments of a query in SQL that are options of one number or text."""

COMMANDS = {
    "ledger": Command(
        "make a ledger, or show what it holds",
        _run_ledger,
        option("path", "the ledger's file"),
        option("--epsilon", "total, to make a new one", type=float),
        option("--delta", "total, to make a new one", type=float),
        option("--accountant", "how releases compose", choices=("sum", "pld")),
        option("--protects", "what totals hold for: records, or a column of users", metavar="UNIT"),
        option(
            "--limit", "show the newest releases only; default: %(default)s", type=int, default=100
        ),
        option("--verify", "read and check the whole file", action="store_true"),
    ),
    "change": Command(
        "what changed between two releases, saved or in a ledger, with intervals; spends nothing",
        _run_change,
        option(
            "before", "the earlier release: a .parquet file of a result, or a name in the ledger"
        ),
        option("after", "the later one"),
        option("--ledger", "the ledger that stores both, for names"),
        option("--measure", "measure of rollups to compare; default: the first"),
        option("--confidence", "of the intervals; default: as in the releases", type=float),
        option(
            "--each",
            "intervals that hold each on its own; default: all hold together",
            action="store_true",
        ),
        option("-o --output", "a .parquet, .csv, .json or .html file"),
        UNESCAPED,
    ),
    "publish": Command(
        "write named releases as tables for BI tools",
        _run_publish,
        option("--ledger", "the ledger that stores them", required=True),
        option(
            "--to", "the results file, such as out.duckdb, or postgresql://host/name", required=True
        ),
        option("--release", "only this one; may be repeated", action="append"),
    ),
    "run": Command(
        "do what is due of a series: every period that is over and not released yet",
        _run_series,
        option("file", "the declaration, for example reports.toml"),
        option("--until", "the last period, such as 2026-W47; default: what is over"),
        option("--dry-run", "say what it would do and spend", action="store_true"),
        option("--json", "print one line of JSON", action="store_true"),
        option("--quiet", "print only what is missing or failed", action="store_true"),
        epilog="exit codes: 0 all is done; 1 something failed, such as a missing file, and the "
        "rest is done; 2 the declaration is wrong, and nothing is done; 3 all that is missing is "
        "budget",
    ),
    "verify": Command(
        "prove again what a release or a ledger promises, or say which claim fails; free",
        _run_verify,
        option("file", "a result (.json, .parquet), a receipt (.json), a proof, or a ledger"),
        option("--proof", "the proof, where it is in a file beside the receipt"),
        option("--quiet", "one line", action="store_true"),
        option("--json", "the verdict as a line of JSON", action="store_true"),
        epilog="exit codes: 0 proved; 1 a claim fails; 2 a mistake, such as a missing file; 3 not "
        "verified: no proof is there, or none that this verifier knows",
    ),
    "sql": Command(
        "the answer to a query in SQL that groups private rows, with a receipt",
        _run_sql,
        option("query", "for example 'SELECT country, count(*) FROM sales GROUP BY country'"),
        option("--table", "a private table, NAME=FILE; repeatable", action="append"),
        option("--public", "a table that may be joined by its key, NAME=FILE", action="append"),
        option("--user", "column that identifies a person"),
        option(
            "--bounds", "of a column's values, amount=0,500, or of sum(amount)", action="append"
        ),
        option("--epsilon", "privacy budget; no default", type=float),
        option("--delta", "privacy budget; no default", type=float),
        option("--no-intervals", "no columns of intervals", action="store_false", dest="intervals"),
        option("--threshold", "count from which a group is shown", type=float),
        option("--confidence", "of the intervals; default: %(default)s", type=float, default=0.95),
        option(
            "--period",
            "only records of a period, when=2026-W47[@zone]; or a column of times in WHERE: when",
        ),
        option("--explain", "what it would do; spends nothing", action="store_true"),
        option("--error", "largest half width of intervals, to explain", action="append"),
        option("--ledger", "charge the release to this ledger before drawing"),
        option("--release", "store the result in the ledger under this name, or replay"),
        option("--data", "your name for the state of the data, such as a date"),
        option("-o --output", f"write the rows: {', '.join(ENDINGS)}"),
        *OUTPUT_OPTIONS,
    ),
    "serve": Command(
        "answer questions of analysts, who never reach the rows: over HTTP, by a policy",
        _run_serve,
        option("policy", "the policy, for example policy.toml", nargs="?"),
        option("--check", "read the policy, say every mistake, and stop", action="store_true"),
        option(
            "--demo",
            "make a policy in a folder, dpframe-demo, and serve flights that ship with dpframe",
            action="store_true",
        ),
        option("--quiet", "no line for each request on standard error", action="store_true"),
        epilog="needs pip install 'dpframe[serve]'. Exit codes: 0 stopped by SIGTERM, or a policy "
        "without mistakes; 2 a mistake that the message explains; 130 Ctrl-C",
    ),
    "token": Command(
        "make a token for an analyst: lines for the policy on standard output, and the token, "
        "shown once, on standard error",
        _run_token,
        option("analyst", "the name of the analyst, such as ann or ann@example.com"),
        epilog="The policy holds a hash alone. A lost token cannot be found again: make another.",
    ),
    "install-postgres": Command(
        "make the questions of a gateway functions of a PostgreSQL database, for BI tools",
        _run_install_postgres,
        option("database", "postgresql://host/name, as a superuser"),
        option("--gateway", "the gateway's address, as that server reaches it", required=True),
        epilog="The token of an analyst with speaks_for is read from DPFRAME_TOKEN. Needs pip "
        "install 'dpframe[postgres]'.",
    ),
    "completion": Command(
        "print a script that completes commands and options in a shell",
        _print_completion,
        option("shell", "whose script to print", choices=tuple(SHELLS)),
        epilog="\n".join(SHELLS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ),
    "demo": Command(
        "the main job on flights that ship with dpframe",
        _run_demo,
        option("-o --output", "default: %(default)s", default="dpframe-demo.html"),
        *OUTPUT_OPTIONS,
    ),
}
"""Commands that need no question, so that no question is loaded for them."""


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
    only = None if named or first[:1] in ("", "-") else first  # after an option can be any command
    if named:
        _name_questions(commands)
    elif whole:
        load_name("dpframe.doors.cli.questions", "add_question_commands")(commands, only=only)
    for name, command in COMMANDS.items():
        if name == "publish" and whole and only in (None, "plan-series"):
            load_name("dpframe.doors.cli.questions", "add_plan_series_command")(commands, PLANS)
        elif name == "publish" and (named or whole):
            commands.add_parser("plan-series", help=PLANS)
        command.add_to(commands, name, only)
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
