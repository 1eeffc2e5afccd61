"""Read Parquet and CSV files, and rows that another program pipes in.

**Rows that another program pipes in** are CSV, Parquet or Arrow, known by their first bytes.

While rows are counted, they are in a file that only its owner can read. So the readers of files
read them, and there can be more rows than fit into memory.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, TextIO

import pyarrow as pa

from dpframe import _duck
from dpframe.common.calls import known_arguments, shown_value
from dpframe.common.files import ADDRESS, file_of_path, matching_files, quoted_path
from dpframe.common.texts import ESCAPES, identifier, literal
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError, SourceError
from dpframe.sources.frames import arrow_table, require_columns


def open_parquet(
    files: Mapping[Path, str], listed: str, wanted: Sequence[str], label: str
) -> _duck.OwnRelation:
    """The wanted columns of files with labels for messages; ``listed`` names all of them
    in SQL, ``label`` in messages.

    DuckDB streams the columns. Arrow reads them into memory if one has a type that allows values at
    which DuckDB's reader fails.
    """
    scan = f"read_parquet({listed}, utf8_validation = 'replace')"
    with _parquet_relation(scan, label, files) as opened:
        types = dict(zip(opened.columns, opened.types, strict=True))
    require_columns(wanted, [*types])
    failing = {name for each in files.items() for name in _failing_columns(*each, types)}
    types = {name: types[name] for name in dict.fromkeys(wanted or types)}
    # DuckDB reads the statistics of every column that it gets, so it gets only wanted ones
    if failing.isdisjoint(types):
        chosen = ", ".join(map(identifier, types))
        return _duck.scan(f"(SELECT {chosen} FROM {scan})", label)
    table = _read_by_arrow([*files], types, label)
    return _duck.register_table(arrow_table(table, [*types]), label)


def _failing_columns(file: Path, label: str, types: Mapping[str, str]) -> Iterator[str]:
    """Columns whose types allow values at which DuckDB's reader fails."""
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        leaves = [opened.schema.column(i) for i in range(len(opened.schema))]
        paths = [
            leaf.path.casefold()  # as DuckDB matches columns of further files
            for leaf in leaves
            if leaf.physical_type == "INT96" or re.search(CHECKED, leaf.logical_type.to_json())
        ]
        names = [name.casefold() for name in opened.schema_arrow.names] if paths else []
    if len({*names}) < len(names):  # DuckDB gives some of them other names
        raise ColumnError(f"{label} has columns of one name, but for capital letters. Rename them.")
    yield from (n for p in paths for n in types if f"{p}.".startswith(f"{n.casefold()}."))
    yield from (name for name, kind in types.items() if "MAP(" in kind)


CHECKED = r'"(JSON|Time)"|milliseconds'
"""A pattern for logical types of Parquet that can hold values at which DuckDB's reader fails: times
beyond the day, milliseconds beyond what SQL holds."""


UNLIKE = r"INTERVAL|.UUID|UUID.|\["
"""A pattern for DuckDB's types that Arrow does not read alike: Arrow reads intervals as bytes, and
fails at arrays with a NULL."""


def _read_by_arrow(files: Sequence[Path], types: Mapping[str, str], label: str) -> pa.Table:
    """The columns in ``types``, which has their DuckDB types, in memory. Arrow checks no value."""
    from pyarrow import dataset

    for name, kind in types.items():
        if re.search(UNLIKE, kind):
            raise ColumnError(
                f"column {name!r} of {label} has type {kind}, not read beside JSON, "
                "times of the day, or timestamps in milliseconds or INT96. Write it as text."
            )
    _check_alike(files, types, label)
    exact = dataset.ParquetReadOptions(coerce_int96_timestamp_unit="us")  # nanoseconds end in 2262
    form = dataset.ParquetFileFormat(read_options=exact)
    try:
        rows = dataset.dataset([*map(str, files)], format=form)
        table = rows.to_table(columns=list(types))
        for i, (name, kind) in enumerate(types.items()):
            if kind == "UUID":
                table = table.set_column(i, name, table[name].cast(pa.uuid()))
        return table
    except pa.ArrowException as raised:
        error = type(raised).__name__
    raise SourceError(f"reading {label} failed ({error}; its text is withheld).")


def _check_alike(files: Sequence[Path], types: Mapping[str, str], label: str) -> None:
    """Raise ColumnError unless each file has the columns with one type: Arrow fails at a value that
    does not fit the type in the first file. Columns named by folders (``name=value``) are refused,
    too."""
    from pyarrow import parquet

    schemas = [parquet.read_schema(file) for file in files]
    folders = {
        part.partition("=")[0] for file in files for part in file.parent.parts if "=" in part
    }
    for name in types:
        kinds = {schema.field(name).type if name in schema.names else None for schema in schemas}
        if len(kinds) > 1 or None in kinds or name in folders:
            raise ColumnError(
                f"column {name!r} of {label} is not in each file with one type. "
                "Write the files alike, or pass a relation."
            )


def _parquet_relation(scan: str, label: str, files: Mapping[Path, str]) -> _duck.OwnRelation:
    """The files as a relation. SourceError names the first file that is no Parquet file."""
    try:
        return _duck.scan(scan, label)
    except SourceError as error:
        failed = error
    faults = filter(None, map(_parquet_fault, files, files.values()))
    raise next(map(SourceError, faults), failed)


def _parquet_fault(file: Path, label: str) -> str | None:
    """The message about a file that is no readable Parquet file; None if it seems to be one, or is
    no file. Only the first and last bytes are read, which hold no record."""
    if not file.is_file():
        return None
    with file.open("rb") as content:
        first = content.read(4)
        content.seek(max(0, file.stat().st_size - 4))
        last = content.read(4)
    if first == last == b"PAR1":
        return None
    if last == b"PARE":
        return (
            f"{label} is encrypted Parquet. Pass a DuckDB relation that reads it with its key, "
            " read_parquet(..., encryption_config = ...)."
        )
    what = "is empty" if not first else "is no Parquet file, or only a part of one"
    return f"{label} {what}. Write it again, or correct its ending."


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

TYPES = ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "VARCHAR")
"""Types of DuckDB that columns of CSV files are declared with. ``TRY_CAST`` from a text to one of
these fails at no text and depends on no setting."""


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
    types
        Declared types of some columns, by name.
    name
        The name in receipts and messages, if it is not the path.
    """

    delimiter: str | None
    encoding: str
    types: dict[str, str]
    name: str | None

    def __new__(
        cls,
        path: str,
        *,
        delimiter: str | None = None,
        encoding: str = UTF_8,
        types: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> File:
        self = super().__new__(cls, path)
        self.delimiter, self.encoding = _parse_delimiter(delimiter), _parse_encoding(encoding)
        self.types, self.name = _parse_types(types), name
        if path.lower().endswith(PARQUET) and self.reading:
            raise ParameterError(
                f"{self.label} is no CSV file. Leave delimiter, encoding, types out."
            )
        return self

    @property
    def label(self) -> str:
        """The name or the path, as messages quote it."""
        return self.name or quoted_path(self)

    @property
    def reading(self) -> str:
        """Delimiter, encoding and types in a few words, as far as they are not the defaults."""
        by = "" if self.delimiter is None else f", delimiter {self.delimiter!r}"
        by += "" if self.encoding == UTF_8 else f", encoding {self.encoding}"
        return by + "".join(f", {name!r} as {kind}" for name, kind in self.types.items())


@known_arguments
def csv_file(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str = UTF_8,
    types: Mapping[str, str] | None = None,
) -> File:
    """A source that reads one or several CSV files with another delimiter, encoding or types.

    Every question takes this source where it takes a path. The first line names the columns, and
    every column is text unless ``types`` declares one. Nothing is guessed from the rows, which are
    private.

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
    types
        DuckDB's types of some columns, such as ``{"day": "DATE", "amount": "DOUBLE"}``: BOOLEAN,
        INTEGER, BIGINT, DOUBLE, DATE, TIMESTAMP or VARCHAR (text). A text that is no value of the
        type is a missing value, and its row counts. Numbers are grouped faster than their texts.

    Raises
    ------
    ParameterTypeError
        If ``path`` is no text and no path.
    ParameterError
        If delimiter, encoding or types cannot be read, or are given for a Parquet file.

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
    return File(text, delimiter=delimiter, encoding=encoding, types=types)


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


def _parse_types(given: object) -> dict[str, str]:
    named, known = {} if given is None else given, f"Pass {', '.join(TYPES)}."
    if not isinstance(named, Mapping):
        raise ParameterError(
            f"types must be as {{'day': 'DATE'}}, by column; got {shown_value(given)}. {known}"
        )
    for name, kind in named.items():
        if not isinstance(kind, str) or kind.upper() not in TYPES:
            raise ParameterError(f"types: column {name!r} cannot be {shown_value(kind)}. {known}")
    return {str(name): kind.upper() for name, kind in named.items()}


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
    require_columns([*wanted, *file.types], names, listed=False)
    copies = [_utf_8_copy(each, file.encoding, opening) for each in files]
    listed = f"[{', '.join(map(_duckdb_path, copies))}]"
    types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    options = f"columns = {{{types}}}, delim = {literal(delimiter)}, {LENIENT}"
    scan = f"read_csv({listed}, {options})"
    if file.types:
        read = [  # a bare cast would become the reader's type, which leaves out rows
            f"TRY_CAST(nullif({column}, '') AS {file.types[name]}) AS {column}"
            if name in file.types
            else column
            for name, column in zip(names, map(identifier, names), strict=True)
        ]
        scan = f"(SELECT {', '.join(read)} FROM {scan})"
    return _duck.scan(scan, file.label)


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


STANDARD_INPUT = "standard input"
"""The name in receipts and messages."""

STARTS = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ""}
"""How files begin, each with the ending of such files' names: Parquet, gzip, and Arrow, whose
streams have no ending."""

LONGEST = max(map(len, STARTS))


@contextmanager
def piped_rows(stream: TextIO, **how: Any) -> Iterator[object]:
    """The rows in a stream of bytes, as a source; CSV as :class:`File` reads it, given ``how``.

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
            yield File(str(path), name=STANDARD_INPUT, **how)


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
