"""What the commands of the command line write: to files and to the terminal."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dpframe.errors import ParameterError
from dpframe.frontends.arguments import chosen_ledger, data_name, release_name
from dpframe.plan import Plan
from dpframe.receipt import replay_words
from dpframe.release import Release, release
from dpframe.tree_plan import TreePlan

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".parquet", ".csv", ".json", ".html")


def add_release_arguments(command: argparse.ArgumentParser) -> None:
    """What every command that releases takes."""
    command.add_argument("--ledger", help="charge the release to this ledger before drawing")
    command.add_argument(
        "--release", help="store the result in the ledger under this name, or replay"
    )
    command.add_argument("--data", help="your name for the state of the data, such as a date")
    command.add_argument("-o", "--output", help="write the result: .parquet, .csv, .json or .html")
    command.add_argument("--report", help="write a page for people: hierarchy, table, privacy card")
    command.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run_release(
    options: argparse.Namespace, plan: Callable[[argparse.Namespace], Plan | TreePlan]
) -> int:
    """What a command that releases a plan does with its arguments."""
    return run_drawn(options, lambda: partial(release, options.file, plan(options)))


def run_drawn(
    options: argparse.Namespace,
    draw: Callable[[], Callable[..., Release]],
    printed: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame,
) -> int:
    """What every command that releases does: check, draw, write, print.

    ``draw`` checks the other arguments and returns what takes ``ledger``, ``name``, ``data`` and
    ``progress``; ``printed`` makes what is printed of the rows that are written.
    """
    check_output(options.output)
    check_output(options.report, (".html",), "report")
    check_not_ledger(options.ledger, options.output, options.report)
    result = draw()(
        ledger=chosen_ledger(options.ledger),
        name=release_name(options.release),
        data=data_name(options.data),
        progress=not options.quiet,
    )
    if options.output:
        write(result, options.output)
    if options.report:
        from dpframe.frontends.report import write_report

        write_report(result.frame, result.receipt, options.report)
    if not options.quiet:
        show(Release(printed(result.frame), result.receipt), options.output, options.report)
    return 0


def check_not_ledger(ledger: str | None, *paths: str | None) -> None:
    """Raise ParameterError if a file would be written over the ledger."""
    for path in paths:
        if path and ledger and os.path.realpath(path) == os.path.realpath(ledger):
            raise ParameterError(f"output ({path!r}) is the ledger: choose another file.")


def check_output(
    path: str | None, endings: tuple[str, ...] = ENDINGS, name: str = "output"
) -> None:
    """Raise ParameterError for a file that cannot be written, before anything is spent."""
    if path is None:
        return
    if not path.lower().endswith(endings):
        raise ParameterError(f"{name} ({path!r}) must end in {' or '.join(endings)}.")
    if not Path(path).absolute().parent.is_dir():
        raise ParameterError(f"{name} ({path!r}) is in a folder that does not exist.")


def show(result: Release, *paths: str | None) -> None:
    """Print the rows, the receipt, and which files were written."""
    print(table_text(result.frame))
    print()
    print(result.receipt)
    if result.receipt["replayed"]:
        print(f"\nreplayed: {replay_words(result.receipt)}")
    written = [path for path in paths if path]
    if written:
        print(f"\nwritten to {' and '.join(written)}")


def table_text(frame: pd.DataFrame) -> str:
    rows = frame.head(40).to_string(index=False, na_rep="")
    rest = len(frame) - 40
    return rows + (f"\n... and {rest} more rows" if rest > 0 else "")


def write(result: Release, path: str) -> None:
    ending = path.lower().rsplit(".", 1)[-1]
    if ending == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(result.to_arrow(), path)
    elif ending == "csv":
        result.frame.to_csv(path, index=False)
    elif ending == "json":
        import json

        rows = json.loads(result.frame.to_json(orient="records"))
        document = {"receipt": result.receipt.to_dict(), "rows": rows}
        Path(path).write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
    else:
        from dpframe.frontends.report import write_report

        write_report(result.frame, result.receipt, path)
