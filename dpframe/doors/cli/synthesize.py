"""The commands ``dpframe synthesize`` and ``dpframe explain-synthesize``."""

from __future__ import annotations

import argparse
from base64 import b64encode
from functools import cache
from typing import Any

from dpframe.asking.release import Release
from dpframe.doors.cli.output import add_output_arguments, check_files, deliver, say, write
from dpframe.errors import ParameterError
from dpframe.hierarchy import as_hierarchy
from dpframe.questions.synthesize.ask import DEFAULT_SPLIT, explain_synthesize, synthesize
from dpframe.questions.synthesize.checks import check_sample
from dpframe.sources.relations import rows_of

FILES = {"output": (".parquet", ".csv"), "save": (".parquet",)}
"""Arguments that name a file to write, and how it may end."""


def add_synthetic_commands(commands: Any) -> None:
    """Add both to the subcommands of a parser."""
    run = commands.add_parser("synthesize", help="synthetic rows like those of a file")
    run.add_argument("file", help="a parquet or CSV file, or several: 'logs/*.parquet'")
    _arguments(run)
    run.add_argument("-n", type=int, help="rows to draw")
    run.add_argument("--seed", type=int, help="of the drawn rows, to draw the same again")
    run.add_argument("--ledger", help="charge the generator to this ledger before drawing noise")
    run.add_argument("--release", help="store it in the ledger under this name, or take it there")
    run.add_argument("--data", help="your name for the state of the data, such as a date")
    run.add_argument("-o", "--output", help="write the rows: .parquet or .csv")
    run.add_argument("--save", help="write the generator: .parquet")
    add_output_arguments(run)
    run.set_defaults(run=_synthesize)
    explain = commands.add_parser(
        "explain-synthesize", help="what synthesize would do; reads no data, spends nothing"
    )
    _arguments(explain)
    explain.set_defaults(run=_explain)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "columns", nargs="+", help="for example 'number:distance?lower=0&upper=5000'"
    )
    parser.add_argument("--epsilon", type=float, help="privacy budget; no default")
    parser.add_argument("-k", type=int, help="cells of a level that are refined")
    parser.add_argument("--width", type=int, help="cells of a row of a sketch")
    parser.add_argument("--rows", type=int, default=1, help="rows of a sketch; default: 1")
    parser.add_argument("--depth", type=int, help="halvings of the domain")
    parser.add_argument(
        "--keys", action="append", help="a file with the values of the categories; repeatable"
    )
    parser.add_argument("--user", help="column that identifies a person")
    parser.add_argument("--max-contributions", type=int, help="rows counted of each user")
    parser.add_argument("--split", default=DEFAULT_SPLIT, help="optimal (default) or uniform")


def _given(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "epsilon": options.epsilon,
        "k": options.k,
        "width": options.width,
        "rows": options.rows,
        "depth": options.depth,
        "keys": _keys(options.keys, options.columns),
        "split": options.split,
        "user": options.user,
        "max_contributions": options.max_contributions,
    }


def _keys(files: list[str] | None, columns: list[str]) -> dict[str, Any] | None:
    """Files of keys, in the order of the columns that are categories."""
    if files is None:
        return None
    specs = [
        as_hierarchy(c) for c in columns if c.partition(":")[0] not in ("number", "time", "ip")
    ]
    if len(specs) != len(files):
        raise ParameterError(
            f"keys has {len(files)} files for {len(specs)} columns of categories: one each, in "
            "their order."
        )
    pairs = zip(specs, files, strict=True)
    return {",".join(s.source_columns): rows_of(file, s.source_columns) for s, file in pairs}


def _synthesize(options: argparse.Namespace) -> int:
    check_sample(options.n)
    check_files(options, FILES)
    generator = synthesize(
        options.file,
        options.columns,
        **_given(options),
        ledger=options.ledger,
        release=options.release,
        data=options.data,
        progress=not options.quiet,
    )

    @cache
    def drawn() -> Release:
        rows = generator.sample(options.n, seed=options.seed)
        rows.attrs = {}  # the receipt is not part of the rows
        return Release(rows, generator.receipt)

    return deliver(
        {
            options.save: generator.save,  # first: rows can be drawn again
            options.output: lambda path: write(drawn(), path, escaped=not options.unescaped),
        },
        drawn,
        lambda: b64encode(generator.to_bytes()).decode("ascii"),
        "Its generator follows on standard output, a Parquet file in base64",
        quiet=options.quiet,
    )


def _explain(options: argparse.Namespace) -> int:
    say(explain_synthesize(options.columns, **_given(options)))
    return 0
