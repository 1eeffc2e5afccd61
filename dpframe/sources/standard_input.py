"""Read rows that another program pipes in: CSV, Parquet or Arrow, known by their first bytes.

While rows are counted, they are in a file that only its owner can read. So the readers of files
read them, and there can be more rows than fit into memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

import pyarrow as pa

from dpframe.errors import ParameterError, SourceError
from dpframe.sources.row_files import UTF_8, File

STANDARD_INPUT = "standard input"
"""The name in receipts and messages."""

STARTS = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ""}
"""How files begin, each with the ending of such files' names: Parquet, gzip, and Arrow, whose
streams have no ending."""

LONGEST = max(map(len, STARTS))


@contextmanager
def piped_rows(
    stream: TextIO, *, delimiter: str | None = None, encoding: str = UTF_8
) -> Iterator[object]:
    """The rows in a stream of bytes, as a source; CSV as :class:`File` reads it.

    Raises
    ------
    ParameterError
        If the stream is a terminal, on which nobody would type a table.
    SourceError
        If the stream cannot be copied to a temporary file, or begins as Arrow data and is damaged.
    """
    if stream.isatty():
        raise ParameterError(
            "standard input (-) is a terminal. Pipe rows in, as dpframe hhh - ip:src ... < "
            "visits.csv, or name a file."
        )
    with tempfile.TemporaryDirectory(prefix="dpframe-") as folder:  # only the owner can enter it
        try:
            path = _copy_stream(stream.buffer, Path(folder))
        except OSError as error:
            raise SourceError(
                f"{STANDARD_INPUT} cannot be copied to a temporary file: {error.strerror}."
            ) from None
        if path.suffix in ("", ".arrow"):
            yield _mapped_arrow_table(path)
        else:
            yield File(str(path), name=STANDARD_INPUT, delimiter=delimiter, encoding=encoding)


def _copy_stream(stream: IO[bytes], folder: Path) -> Path:
    start = stream.read(LONGEST)
    ending = next((e for first, e in STARTS.items() if start.startswith(first)), ".csv")
    path = folder / f"piped{ending}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return path


def _mapped_arrow_table(path: Path) -> pa.Table:
    """The rows of a file or stream of Arrow, mapped into memory."""
    opened = pa.ipc.open_file if path.suffix else pa.ipc.open_stream
    try:
        table = opened(pa.memory_map(str(path))).read_all()
        table.validate()
    except pa.ArrowException as raised:
        error = type(raised).__name__
    else:
        return table
    raise SourceError(f"{STANDARD_INPUT} begins as Arrow data, and is damaged ({error}).")
