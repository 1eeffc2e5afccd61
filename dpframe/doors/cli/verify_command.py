"""``dpframe verify``: prove again what a receipt, a proof or a ledger promises."""

from __future__ import annotations

import argparse
from typing import Any

from dpframe.doors.cli.terminal_lines import say

SUMMARY = "prove again what a release or a ledger promises, or say which claim fails; free"

CODES = (
    "exit codes: 0 proved; 1 a claim fails; 2 a mistake, such as a missing file; 3 not verified: "
    "no proof is there, or none that this verifier knows"
)


def add_verify_command(commands: Any) -> None:
    """Add ``verify`` to the subcommands of a parser."""
    command = commands.add_parser("verify", help=SUMMARY, description=SUMMARY, epilog=CODES)
    command.add_argument(
        "file", help="a result (.json, .parquet), a receipt (.json), a proof, or a ledger"
    )
    command.add_argument("--proof", help="the proof, where it is in a file beside the receipt")
    command.add_argument("--quiet", action="store_true", help="one line")
    command.set_defaults(run=_run_verify)


def _run_verify(options: argparse.Namespace) -> int:
    from dpframe.doors.verify import verify

    verdict = verify(options.file, proof=options.proof)
    say(verdict.sentence if options.quiet else verdict)
    return verdict.code
