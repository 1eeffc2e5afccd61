"""``dpframe run``: draw the releases of a series that are due, for people and for cron."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dpframe.doors.cli.terminal_lines import say

SUMMARY = "do what is due of a series: every period that is over and not released yet"

CODES = (
    "exit codes: 0 all is done; 1 something failed, such as a missing file, and the rest is done; "
    "2 the declaration is wrong, and nothing is done; 3 all that is missing is budget"
)


def add_run_command(commands: Any) -> None:
    """Add ``run`` to the subcommands of a parser."""
    run = commands.add_parser("run", help=SUMMARY, description=SUMMARY, epilog=CODES)
    run.add_argument("file", help="the declaration, for example reports.toml")
    run.add_argument("--until", help="the last period, such as 2026-W47; default: what is over")
    run.add_argument("--dry-run", action="store_true", help="say what it would do and spend")
    run.add_argument("--json", action="store_true", help="print one line of JSON")
    run.add_argument("--quiet", action="store_true", help="print only what is missing or failed")
    run.set_defaults(run=_run_series)


def _run_series(options: argparse.Namespace) -> int:
    from dpframe.doors.series.series import Series

    outcome = Series.read(options.file).run(options.until, dry_run=options.dry_run)
    if options.json:
        say(outcome.to_json())
    elif not options.quiet or outcome.code:
        say(outcome, sys.stderr if options.quiet else None)
    return outcome.code
