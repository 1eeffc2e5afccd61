"""What the commands of the command line write: to files and to the terminal."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpframe.errors import ParameterError
from dpframe.release import Release

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".parquet", ".csv", ".json", ".html")


def add_release_arguments(command: argparse.ArgumentParser) -> None:
    """What every command that releases takes."""
    command.add_argument("--ledger", help="charge the release to this ledger before drawing")
    command.add_argument(
        "--release", help="store the result in the ledger under this name, or replay"
    )
    command.add_argument("-o", "--output", help="write the result: .parquet, .csv, .json or .html")
    command.add_argument("--report", help="write a page for people: hierarchy, table, privacy card")
    command.add_argument("--quiet", action="store_true", help="print nothing but errors")


def check_outputs(output: str | None, report: str | None, ledger: str | None) -> None:
    """Raise ParameterError for files that cannot be written, before anything is spent."""
    check_output(output)
    check_output(report, (".html",), "report")
    for path in (output, report):
        if path and ledger and os.path.realpath(path) == os.path.realpath(ledger):
            raise ParameterError(f"output ({path!r}) is the ledger: choose another file.")


def deliver(result: Release, output: str | None, report: str | None, *, quiet: bool) -> None:
    """Write and show a result."""
    if output:
        write(result, output)
    if report:
        from dpframe.frontends.report import write_report

        write_report(result.frame, result.receipt, report)
    if not quiet:
        show(result, *(path for path in (output, report) if path))


def check_output(
    path: str | None, endings: tuple[str, ...] = ENDINGS, name: str = "output"
) -> None:
    if path is None:
        return
    if not path.lower().endswith(endings):
        raise ParameterError(f"{name} ({path!r}) must end in {' or '.join(endings)}.")
    if not Path(path).absolute().parent.is_dir():
        raise ParameterError(f"{name} ({path!r}) is in a folder that does not exist.")


def show(result: Release, *written: str) -> None:
    print(table_text(result.frame))
    print()
    print(result.receipt)
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
