"""``dpframe change``: compare two releases in a ledger; free."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from dpframe._paths import replace_file
from dpframe.doors.change import change
from dpframe.doors.cli.formats import escape_for_spreadsheets, first_rows_text, table_rows
from dpframe.doors.cli.output import check_files
from dpframe.doors.cli.terminal_lines import say

if TYPE_CHECKING:
    import pandas as pd

FILES = {"output": (".parquet", ".csv", ".json")}


def add_change_command(commands: Any) -> None:
    """Add ``change`` to the subcommands of a parser."""
    does = "what changed between two releases in a ledger, with intervals; spends nothing"
    command = commands.add_parser("change", help=does, description=does)
    command.add_argument("before", help="name of the earlier release")
    command.add_argument("after", help="name of the later one")
    command.add_argument("--ledger", required=True, help="the ledger that stores both")
    command.add_argument("--measure", help="measure of rollups to compare; default: the first")
    command.add_argument(
        "--confidence", type=float, help="of the intervals; default: as in the releases"
    )
    command.add_argument(
        "--each",
        action="store_true",
        help="intervals that hold each on its own; default: all hold together",
    )
    command.add_argument("-o", "--output", help="a .parquet, .csv or .json file")
    command.add_argument(
        "--unescaped",
        action="store_true",
        help="in .csv leave texts as they are that a spreadsheet would run as formulas",
    )
    command.set_defaults(run=_run_change, quiet=False)


def _run_change(options: argparse.Namespace) -> int:
    check_files(options, FILES)
    found = change(
        options.before,
        options.after,
        measure=options.measure,
        confidence=options.confidence,
        simultaneous=not options.each,
        ledger=options.ledger,
    )
    if options.output is not None:
        _write_change(found, options.output, escaped=not options.unescaped)
    from dpframe.postprocess.release_changes import CHANGE

    facts = found.attrs[CHANGE]
    clear = int(found["more_than_noise"].sum())
    said = f"{clear} of {len(found)} changes are more than noise: their intervals leave 0 out"
    say(first_rows_text(found), styles={0: "strong"})
    say(f"\n{said}. {facts['means']}.", sys.stderr)
    if options.output is not None:
        say(f"\nwritten to {options.output}", sys.stderr)
    return 0


def _write_change(found: pd.DataFrame, path: str, *, escaped: bool) -> None:
    from dpframe.postprocess.release_changes import CHANGE

    ending = path.lower().rsplit(".", 1)[-1]
    with replace_file(path, "the change") as file:
        if ending == "parquet":
            found.to_parquet(file, index=False)
        elif ending == "csv":
            (escape_for_spreadsheets(found) if escaped else found).to_csv(file, index=False)
        else:
            whole = {"change": found.attrs[CHANGE], "rows": table_rows(found)}
            file.write(json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False).encode())
