"""Generators in files: Parquet, with what rows can be and a seal in its metadata. Public.

The seal is the SHA-256 of the file with zeros in place of it, and checked before anything else is
read. Files of before there was one are taken with what they have. Memory is bounded by the size of
the file before it is taken: Parquet can hold billions of equal rows in a few bytes, and no
generator is like that.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpframe._paths import content_of, local
from dpframe.asking.receipt import Receipt
from dpframe.asking.release import Release
from dpframe.errors import SourceError
from dpframe.questions.synthesize.checks import RowDomain, read_schema, schema_text

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
KEY = b"dpframe_generator"
RECEIPT = b"dpframe"
SEAL = "dpframe_seal"
OPEN = b"0" * 64
"""In place of a seal that is not there yet."""

COLUMNS = {"level": "<i8", "code": "<u8", "count": "<f8", "leaf": "?"}
"""Of the released tree, with their types."""

ROOM = 2_000_000
"""Rows (25 bytes each) that a file of any size can have: up to there, codes of a level can repeat
those of the level above within the 64 KiB that Snappy looks back, and take next to no bytes."""

LEAST = 1
"""Bytes of a file for every row of it, at least, if it has more."""

PARTS = 1000
"""Columns, groups of rows and keys of a file, at most: there are four columns, and a group of a
million rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What a generator is made of."""

    release: Release
    asked: RowDomain
    schema: pa.Schema
    dtypes: dict[str, str]


def generator_bytes(content: Content) -> bytes:
    """The file of a generator, with its seal."""
    import pyarrow.parquet as pq

    facts = {
        "asked": content.asked.to_dict(),
        "schema": schema_text(content.schema),
        "dtypes": content.dtypes,
        "sealed": True,
    }
    table = content.release.to_arrow()
    metadata = {**table.schema.metadata, KEY: json.dumps(facts).encode()}
    table = table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL: OPEN})
    whole: bytes = sink.getvalue().to_pybytes()
    at = _seal_in(whole)
    seal = hashlib.sha256(whole).hexdigest().encode()
    return whole[:at] + seal + whole[at + len(OPEN) :]


def read_generator(path: str | os.PathLike[str]) -> Content:
    """Read what ``generator_bytes`` made; SourceError if that is no such file, or damaged."""
    file = local(path)
    content = content_of(file, MAGIC, "generator")
    why = SourceError(
        f"{str(file)!r} is no generator, or truncated or damaged: pass a file that Generator.save "
        "wrote, restore it from a copy, or make another generator."
    )
    try:
        return _read(content)
    except MemoryError:
        why = SourceError(f"{str(file)!r} needs more memory than there is, or is damaged.")
    except Exception:  # whatever the content leads to
        pass
    raise why


def _read(content: bytes) -> Content:
    import pandas as pd
    import pyarrow.parquet as pq

    at = _seal_in(content)
    if at > 0:
        end = at + len(OPEN)
        found = hashlib.sha256(b"".join([content[:at], OPEN, content[end:]])).hexdigest()
        if found.encode() != content[at:end]:
            raise ValueError("the seal is of another content")
    file = pq.ParquetFile(
        pa.BufferReader(content),
        thrift_string_size_limit=len(content),
        thrift_container_size_limit=PARTS,
    )
    _check_size(file.metadata, len(content))
    metadata = file.schema_arrow.metadata
    facts, receipt = json.loads(metadata[KEY]), Receipt(dict(json.loads(metadata[RECEIPT])))
    if facts.get("sealed") and at < 0:
        raise ValueError("the seal is gone")
    asked, schema = RowDomain.from_dict(facts["asked"]), read_schema(facts["schema"])
    arrays = _arrays(file.read(columns=list(COLUMNS), use_threads=False))
    _check_tree(arrays, asked.domain.depth)
    dtypes = {str(name): str(kind) for name, kind in facts["dtypes"].items()}
    return Content(Release(pd.DataFrame(arrays), receipt), asked, schema, dtypes)


def _seal_in(content: bytes) -> int:
    """Where the seal is, in the footer; -1 if there is none."""
    name = content.rfind(SEAL.encode())
    return -1 if name < 0 else name + len(SEAL) + 2  # after a type and a length


def _check_size(metadata: pq.FileMetaData, size: int) -> None:
    """ValueError unless the file can hold the rows that it says it has."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [(g.num_rows, g.column(i).num_values) for g in groups for i in range(g.num_columns)]
    rows = sum(group.num_rows for group in groups)
    if rows != metadata.num_rows or any(n != values for n, values in chunks):
        raise ValueError("numbers of rows do not match")
    if metadata.num_columns != len(COLUMNS) or not 0 < rows <= max(ROOM, size // LEAST):
        raise ValueError("no file of this size has so many rows")


def _arrays(table: pa.Table) -> dict[str, Any]:
    """The columns by name, of the types that they have in files."""
    found = {}
    for name, kind in COLUMNS.items():
        column = table[name].combine_chunks()
        if column.type != pa.from_numpy_dtype(np.dtype(kind)) or column.null_count:
            raise ValueError("a column of another type")
        found[name] = column.to_numpy(zero_copy_only=False)
    return found


def _check_tree(arrays: dict[str, Any], depth: int) -> None:
    level, code, count = arrays["level"], arrays["code"], arrays["count"]
    if level.min() != 0 or level.max() > depth or (code >> level.astype(np.uint64)).any():
        raise ValueError("no node of this tree")
    if not np.isfinite(count).all() or count.min() < 0 or not arrays["leaf"].any():
        raise ValueError("no counts")
