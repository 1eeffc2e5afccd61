"""Read Parquet and CSV files as relations."""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path
from typing import IO

from dpframe import _duck
from dpframe._known_arguments import known_arguments
from dpframe._paths import ADDRESS, file_of_path, matching_files, quoted_path
from dpframe._sql import literal
from dpframe._unicode import ESCAPES
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError, SourceError
from dpframe.sources.columns import require_columns
from dpframe.sources.parquet_files import open_parquet

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = (".parquet", ".pq")

LENIENT = (
    "auto_detect = false, header = true, quote = '\"', escape = '\"', strict_mode = false, "
    "null_padding = true, ignore_errors = true, "
    "parallel = false"
)
"""Options with which nothing is guessed from the rows, and no row stops the reading of other rows.

One thread reads a file. Each of several threads would guess where a row begins in its part, and an
earlier record could move that guess; a line break in quotes, in one record, would be an error.
"""


UTF_8 = "utf-8"

ENCODINGS = re.compile(r"utf-(8|16|16-le|16-be)|ascii|iso8859-\d+|cp125\d|cp437|cp85\d|koi8-[ru]")
"""Python's names of encodings in which no character changes how a later one is read: otherwise one
record could decide how the rest of a file reads."""

OTHER_DELIMITERS = ";\t|"


class File(str):
    """The path of one or several files, and how to read CSV files.

    Parameters
    ----------
    path
        The path as text.
    delimiter
        The character between the values of a line; None means that the ending of the path tells.
    encoding
        The encoding of CSV files.
    name
        The name in receipts and messages, if it is not the path.
    """

    delimiter: str | None
    encoding: str
    name: str | None

    def __new__(
        cls,
        path: str,
        *,
        delimiter: str | None = None,
        encoding: str = UTF_8,
        name: str | None = None,
    ) -> File:
        self = super().__new__(cls, path)
        self.delimiter, self.encoding, self.name = (
            _parse_delimiter(delimiter),
            _parse_encoding(encoding),
            name,
        )
        if path.lower().endswith(PARQUET) and (self.delimiter, self.encoding) != (None, UTF_8):
            raise ParameterError(f"{self.label} is no CSV file. Leave delimiter and encoding out.")
        return self

    @property
    def label(self) -> str:
        """The name or the path, as messages quote it."""
        return self.name or quoted_path(self)

    @property
    def reading(self) -> str:
        """Delimiter and encoding in a few words, as far as they are not the defaults."""
        by = "" if self.delimiter is None else f", delimiter {self.delimiter!r}"
        return by if self.encoding == UTF_8 else f"{by}, encoding {self.encoding}"


@known_arguments
def csv_file(
    path: str | os.PathLike[str], *, delimiter: str | None = None, encoding: str = UTF_8
) -> File:
    """A source that reads one or several CSV files with another delimiter or encoding.

    Every question takes this source where it takes a path. The first line names the columns, and
    every column is text. Nothing is guessed from the rows, which are private.

    Parameters
    ----------
    path
        The file, or a pattern of files, with any ending except those of Parquet.
    delimiter
        The one character between values, such as ``";"``, ``"\\t"`` or ``"|"``. By default a comma,
        or a tab in files that end in .tsv.
    encoding
        Such as ``"latin-1"``, ``"cp1252"`` or ``"utf-16"``; by default UTF-8. Bytes that are no
        text in the encoding read as escapes such as ``\\xE9``.

    Raises
    ------
    ParameterTypeError
        If ``path`` is no text and no path.
    ParameterError
        If delimiter or encoding cannot be read, or is given for a Parquet file.

    Examples
    --------
    >>> import dpframe as dp
    >>> source = dp.csv_file("sales.csv", delimiter=";", encoding="latin-1")
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise ParameterTypeError(f"path must be a file name; got {type(path).__name__}.")
    text = os.fspath(path)
    if delimiter is None and not text.lower().endswith((*SEPARATORS, *PARQUET)):
        delimiter = ","
    return File(text, delimiter=delimiter, encoding=encoding)


def _parse_delimiter(given: object) -> str | None:
    if given is None or (isinstance(given, str) and len(given) == 1 and given not in '"\r\n\0'):
        return given
    raise ParameterError(f"delimiter must be one character; got {given!r}. Pass ';', '|' or '\\t'.")


def _parse_encoding(given: object) -> str:
    try:
        name = codecs.lookup(given).name if isinstance(given, str) else ""
    except (LookupError, ValueError):
        name = ""
    if not ENCODINGS.fullmatch(name):
        raise ParameterError(
            f"encoding {given!r} is not read. Pass 'latin-1', 'cp1252' or 'utf-16', or write UTF-8."
        )
    return name


def open_file(file: File, wanted: Sequence[str], opening: ExitStack) -> _duck.OwnRelation:
    """A relation over the file or files of a path; copies exist until ``opening`` ends."""
    path = str(file)
    ending = next((e for e in (*SEPARATORS, *PARQUET) if path.lower().endswith(e)), None)
    if ending is None and file.delimiter is not None:
        ending = ".csv"
    if ending is None or (ADDRESS.match(path) and not os.path.exists(path)):
        raise SourceError(_unreadable_path_message(path))
    files = matching_files(path)
    labels = {each: file.name or quoted_path(each) for each in files}
    listed = f"[{', '.join(_duckdb_path(file) for file in files)}]"
    if ending in PARQUET:
        return open_parquet(labels, listed, wanted, file.label)
    delimiter = file.delimiter or SEPARATORS[ending]
    names = _header_names(files[0], labels[files[0]], delimiter, file.encoding)
    for other in files[1:]:
        if _header_names(other, labels[other], delimiter, file.encoding) != names:
            raise SourceError(
                f"{labels[other]} and {labels[files[0]]} have different first lines. Give both the "
                "same columns in the same order."
            )
    _check_delimiter(wanted, names, delimiter, file.label)
    require_columns(wanted, names, listed=False)
    copies = [_utf_8_copy(each, file.encoding, opening) for each in files]
    listed = f"[{', '.join(map(_duckdb_path, copies))}]"
    types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    options = f"columns = {{{types}}}, delim = {literal(delimiter)}, {LENIENT}"
    return _duck.scan(f"read_csv({listed}, {options})", file.label)


def _unreadable_path_message(path: str) -> str:
    """The message about a path that cannot be read, and what to pass in its place."""
    if path[:8].lower() == "file:///":
        return f"{quoted_path(path)} is an address. Pass the path, {path[7:]!r}."
    if ADDRESS.match(path):
        return (
            f"{quoted_path(path)} is an address. Download the file, or pass a frame or a DuckDB "
            "relation "
            "that reads it."
        )
    if re.match(r"\s*(select|from|with)\s", path, re.IGNORECASE):
        return f"{quoted_path(path)} is SQL, not a file. Pass a relation, duckdb.sql('SELECT ...')."
    folder = file_of_path(path)
    if folder.is_dir():
        inside = (e for e in (*PARQUET, *SEPARATORS) if any(folder.glob(f"*{e}")))
        return (
            f"{quoted_path(path)} is a folder. Name the files in it by a pattern in quotation "
            "marks, "
            f"{os.path.join(path, '*' + next(inside, PARQUET[0]))!r}."
        )
    return (
        f"{quoted_path(path)} has no known ending ({', '.join((*PARQUET, *SEPARATORS))}). Pass "
        "dp.csv_file(path) for a text file, and write another format as Parquet."
    )


def _duckdb_path(file: Path) -> str:
    """The path as an SQL literal, in which DuckDB sees no pattern, home folder or address."""
    path = os.path.abspath(file) if str(file).startswith("~") else os.path.join(os.curdir, file)
    if "\\" in path and any(sign in path for sign in "*?["):
        raise SourceError(f"{str(file)!r} has a backslash and one of *?[ in its name. Rename it.")
    return literal("".join(f"[{c}]" if c in "*?[" else c for c in path))


def _check_delimiter(wanted: Sequence[str], names: list[str], delimiter: str, label: str) -> None:
    """Raise ColumnError if the header lacks a column and seems to use another delimiter."""
    other = next((d for d in OTHER_DELIMITERS if len(names) == 1 and d in names[0]), None)
    if other is not None and other != delimiter and not set(wanted) <= set(names):
        raise ColumnError(
            f"{label} has one column at delimiter {delimiter!r}. Pass "
            f"dp.csv_file({label}, delimiter={other!r}), or --delimiter."
        )


def _utf_8_copy(file: Path, encoding: str, opening: ExitStack) -> Path:
    r"""The file if it is UTF-8, else a copy as UTF-8. In the copy, bytes that are no text read as
    ``\xE9``: DuckDB would leave out their rows. A line of UTF-8 reads alike in file and copy."""
    state = os.stat(file)
    if encoding == UTF_8 and _is_utf_8(os.path.abspath(file), state.st_mtime_ns, state.st_size):
        return file
    folder = opening.enter_context(tempfile.TemporaryDirectory(prefix="dpframe-"))
    copy = Path(folder, "copy.csv")  # only the owner can enter the folder
    decoder = codecs.getincrementaldecoder(encoding)(ESCAPES)
    with _open_bytes(file) as raw, copy.open("w", encoding=UTF_8, newline="") as out:
        for piece in iter(partial(raw.read, PIECE), b""):
            out.write(decoder.decode(piece))
        out.write(decoder.decode(b"", True))  # bytes that are cut off at the end
    return copy


PIECE = 1 << 20
"""Bytes or characters that are read at a time."""


@lru_cache(maxsize=256)
def _is_utf_8(path: str, changed: int, size: int) -> bool:
    """Whether the whole file is UTF-8. ``changed``, the time of the last change, and ``size`` are
    only part of the cache's key."""
    decoder = codecs.getincrementaldecoder(UTF_8)()
    with _open_bytes(Path(path)) as raw:
        try:
            for piece in iter(partial(raw.read, PIECE), b""):
                decoder.decode(piece)
            decoder.decode(b"", True)
        except UnicodeDecodeError:
            return False
    return True


def _open_bytes(file: Path) -> IO[bytes]:
    return gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb")  # type: ignore[return-value]


def _header_names(path: Path, label: str, separator: str, encoding: str) -> list[str]:
    """The names in the first line of a text file."""
    if path.is_dir():
        raise SourceError(f"{label} is a folder. Name its files, as '*.csv'.")
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    known = "utf-8-sig" if encoding == UTF_8 else encoding
    with opened(path, "rt", encoding=known, errors=ESCAPES, newline="") as lines:
        names = next(csv.reader(lines, delimiter=separator), [])
    names[:1] = [
        name.removeprefix("\ufeff") for name in names[:1]
    ]  # utf-16-le and utf-16-be keep the mark
    if any("\0" in name for name in names) or (names and names[0].startswith((r"\xFF", r"\xFE"))):
        raise SourceError(
            f"{label} is no text in {encoding}. Pass dp.csv_file(..., encoding='utf-16'), or "
            "--encoding utf-16."
        )
    if names and names[0].startswith("sep=") and len(separator.join(names)) <= len("sep=;"):
        raise SourceError(
            f"{label} begins with {separator.join(names)!r}, which names no columns. Remove "
            "that line, and pass delimiter to dp.csv_file or --delimiter."
        )
    if not names:
        raise SourceError(f"{label} is empty. The first line must name columns.")
    if len({name.lower() for name in names}) < len(names) or not all(names):
        raise SourceError(f"{label} must name each column once, in its first line.")
    return names
