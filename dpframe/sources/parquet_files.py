"""Read Parquet files as relations, so that no value makes a call fail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from dpframe import _duck
from dpframe._sql import identifier
from dpframe.errors import ColumnError, SourceError
from dpframe.sources.columns import require_columns
from dpframe.sources.frames import arrow_table


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
