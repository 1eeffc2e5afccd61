"""Rows that another program pipes in: CSV, Parquet or Arrow, told by their first bytes.

They are kept in a file that only its owner can read, as long as they are counted: what reads files
reads them, and what is larger than memory fits.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

import pyarrow as pa

from dpframe.errors import DpframeError, ParameterError, SourceError
from dpframe.sources.files import UTF_8, File

STANDARD_INPUT = "standard input"
"""What receipts and messages call it."""

STARTS = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ""}
"""How files begin, and what their names would end in: Parquet, gzip, and Arrow, whose streams have
no ending of their own."""

LONGEST = max(map(len, STARTS))


@contextmanager
def piped_rows(
    stream: TextIO, *, delimiter: str | None = None, encoding: str = UTF_8
) -> Iterator[object]:
    """What a stream of bytes holds, as a source; CSV as :class:`File` reads it.

    Raises
    ------
    ParameterError
        It is a terminal, on which nobody would type a table.
    SourceError
        It cannot be read, or is no table of Arrow though it begins as one.
    """
    if stream.isatty():
        raise ParameterError(
            "- reads rows from standard input, and that is a terminal: pipe them in, as in "
            "dpframe hhh - ip:src ... < visits.csv, or name a file."
        )
    with tempfile.TemporaryDirectory(prefix="dpframe-") as folder:  # only its owner enters
        try:
            path = _copy_of(stream.buffer, Path(folder))
        except OSError as error:
            raise SourceError(f"{STANDARD_INPUT} cannot be read: {error.strerror}.") from None
        try:
            if path.suffix in ("", ".arrow"):
                yield _arrow_table(path)
            else:
                yield File(str(path), name=STANDARD_INPUT, delimiter=delimiter, encoding=encoding)
        except DpframeError as error:
            said = str(error)
            for shown in (repr(str(path)), str(path)):
                said = said.replace(shown, STANDARD_INPUT)
            raise type(error)(said) from None


def _copy_of(stream: IO[bytes], folder: Path) -> Path:
    start = stream.read(LONGEST)
    ending = next((e for first, e in STARTS.items() if start.startswith(first)), ".csv")
    path = folder / f"piped{ending}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return path


def _arrow_table(path: Path) -> pa.Table:
    """The rows of a file or a stream of Arrow, mapped into memory."""
    opened = pa.ipc.open_file if path.suffix else pa.ipc.open_stream
    try:
        table = opened(pa.memory_map(str(path))).read_all()
        table.validate()
    except pa.ArrowException as raised:
        error = type(raised).__name__
    else:
        return table
    raise SourceError(f"{STANDARD_INPUT} begins as Arrow data, and is damaged ({error}).")
