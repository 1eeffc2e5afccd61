"""The command line: ``dpframe hhh``, ``tree-counts``, ``explain``, ``ledger``, ``publish``, ..."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import resources

from dpframe._version import __version__
from dpframe.errors import DpframeError
from dpframe.frontends.arguments import plan_from
from dpframe.frontends.cli_output import (
    add_release_arguments,
    check_output,
    run_release,
    show,
    write,
)
from dpframe.frontends.cli_prefix import add_prefix_commands
from dpframe.frontends.cli_synthesize import add_synthetic_commands
from dpframe.frontends.cli_tree import add_tree_commands
from dpframe.ledger import Ledger
from dpframe.plan import MECHANISMS, Plan
from dpframe.receipt import Explanation
from dpframe.release import release

DEMO_HIERARCHY = "columns:origin,dest,carrier"
DEMO_FILE = "flights.parquet"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for a mistake that the message explains, 130 for Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except DpframeError as error:
        print(f"dpframe: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        told = " ".join(["interrupted.", *getattr(error, "__notes__", ())])
        print(f"dpframe: {told}", file=sys.stderr)
        return 130  # as shells say it
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpframe", description="Private rollups: noisy counts of a hierarchy, with a receipt."
    )
    parser.add_argument("--version", action="version", version=f"dpframe {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("hhh", help="hierarchical heavy hitters of a file")
    run.add_argument("file", help="a parquet or CSV file, or several: 'logs/*.parquet'")
    _budget_arguments(run)
    add_release_arguments(run)
    run.set_defaults(run=_hhh)

    explain = commands.add_parser(
        "explain", help="what hhh would do; reads nothing, spends nothing"
    )
    _budget_arguments(explain)
    explain.set_defaults(run=_explain)

    add_tree_commands(commands)
    add_synthetic_commands(commands)
    add_prefix_commands(commands)

    ledger = commands.add_parser("ledger", help="make a ledger, or show what it holds")
    ledger.add_argument("path", help="the ledger's file")
    ledger.add_argument("--epsilon", type=float, help="total, to make a new one")
    ledger.add_argument("--delta", type=float, help="total, to make a new one")
    ledger.add_argument("--accountant", choices=("sum", "pld"), help="how releases compose")
    ledger.set_defaults(run=_ledger)

    publish = commands.add_parser("publish", help="write named releases as tables for BI tools")
    publish.add_argument("--ledger", required=True, help="the ledger that stores them")
    publish.add_argument("--to", required=True, help="the results file, for example out.duckdb")
    publish.add_argument("--release", action="append", help="only this one; may be repeated")
    publish.set_defaults(run=_publish)

    demo = commands.add_parser("demo", help="the main job on flights that ship with dpframe")
    demo.add_argument("-o", "--output", default="dpframe-demo.html", help="default: %(default)s")
    demo.set_defaults(run=_demo)
    return parser


def _budget_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hierarchy", help="for example ip:src or columns:country,city")
    parser.add_argument("--epsilon", type=float, help="privacy budget; no default")
    parser.add_argument("--delta", type=float, help="privacy budget; no default")
    parser.add_argument("--threshold", type=int, help="default: the smallest private one")
    parser.add_argument("--user", help="column that identifies a person")
    parser.add_argument("--contribution", help="share (default), records or items; with --user")
    parser.add_argument("--max-contributions", type=int, help="with records or items")
    parser.add_argument("--mechanism", default="offline", help=", ".join(MECHANISMS))
    parser.add_argument("--counters", type=int, help="size of a sketch; --mechanism streaming")
    parser.add_argument("--no-remainder", action="store_true", help="no row for level 0")
    parser.add_argument("--release-share", type=float, help="part of epsilon for the counts")
    parser.add_argument("--confidence", type=float, default=0.95, help="default: %(default)s")
    parser.add_argument("--acknowledge", action="store_true", help="needed for --mechanism paper")


def _plan(options: argparse.Namespace) -> Plan:
    return plan_from(
        options.hierarchy,
        epsilon=options.epsilon,
        delta=options.delta,
        threshold=options.threshold,
        user=options.user,
        contribution=options.contribution,
        max_contributions=options.max_contributions,
        mechanism=options.mechanism,
        remainder=False if options.no_remainder else None,
        release_share=options.release_share,
        confidence=options.confidence,
        acknowledge=options.acknowledge,
        counters=options.counters,
    )


def _hhh(options: argparse.Namespace) -> int:
    return run_release(options, _plan)


def _explain(options: argparse.Namespace) -> int:
    print(Explanation(_plan(options)))
    return 0


def _ledger(options: argparse.Namespace) -> int:
    book = Ledger(
        options.path,
        epsilon=options.epsilon,
        delta=options.delta,
        accountant=options.accountant,
    )
    print(book.summary().T.to_string(header=False))
    releases = book.releases()
    if len(releases):
        print()
        print(releases.drop(columns=["receipt", "neighbours"]).to_string(index=False, na_rep=""))
    return 0


def _publish(options: argparse.Namespace) -> int:
    from dpframe.frontends.publish import publish

    done = publish(options.ledger, options.to, releases=options.release)
    columns = ["release", "table_name", "latest_view", "time"]
    print(done[columns].to_string(index=False))
    print(f"\nwritten to {options.to}")
    return 0


def _demo(options: argparse.Namespace) -> int:
    check_output(options.output)
    plan = plan_from(
        DEMO_HIERARCHY,
        epsilon=1.0,
        delta=1e-6,
        threshold=50,
        user="aircraft",
        contribution=None,
        max_contributions=None,
        mechanism="offline",
        remainder=None,
        release_share=None,
        confidence=0.95,
        acknowledge=False,
        counters=None,
    )
    with resources.as_file(resources.files("dpframe") / "data" / DEMO_FILE) as flights:
        result = release(flights, plan)
    write(result, options.output)
    print("Which routes and carriers do aircraft fly from New York? Each aircraft weighs 1.\n")
    show(result, options.output)
    return 0
