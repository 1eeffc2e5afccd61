"""Generators in files: Parquet, with the domain of rows and a seal in the metadata. Public.

The seal is the SHA-256 of the file with zeros in place of the seal. It is checked before anything
else is read. Older files, from before there were seals, are read without a check. The size of the
file bounds the memory before any is taken: Parquet can hold billions of equal rows in a few bytes,
and no generator is like that.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpframe._paths import content_of, local_file
from dpframe.asking.privacy_receipt import Receipt
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
"""The placeholder in a file whose seal is not computed yet."""

COLUMNS = {"level": "<i8", "code": "<u8", "count": "<f8", "leaf": "?"}
"""The columns of the released tree, with their types."""

ROOM = 2_000_000
"""Rows (25 bytes each) that a file of any size can have. Up to this number, the codes of a level
can repeat the codes of the level above within the 64 KiB that Snappy looks back, and take next to
no bytes."""

LEAST = 1
"""The fewest bytes for each row of a file that has more rows than ``ROOM``."""

PARTS = 1000
"""The most columns, row groups and keys of a file. A generator has four columns, and one group for
each million rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """The parts of a generator."""

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
    """Read what ``generator_bytes`` made; SourceError if the file is something else or damaged."""
    file = local_file(path)
    content = content_of(file, MAGIC, "generator")
    why = SourceError(
        f"{str(file)!r} is no generator, or truncated or damaged: pass a file that Generator.save "
        "wrote, restore it from a copy, or make another generator."
    )
    try:
        return _read_sealed(content)
    except MemoryError:
        why = SourceError(f"{str(file)!r} needs more memory than there is, or is damaged.")
    except Exception:  # damaged content can raise anything
        pass
    raise why


def _read_sealed(content: bytes) -> Content:
    import pandas as pd
    import pyarrow.parquet as pq

    at = _seal_in(content)
    if at > 0:
        end = at + len(OPEN)
        found = hashlib.sha256(b"".join([content[:at], OPEN, content[end:]])).hexdigest()
        if found.encode() != content[at:end]:
            raise ValueError("the seal does not fit the content")
    file = pq.ParquetFile(
        pa.BufferReader(content),
        thrift_string_size_limit=len(content),
        thrift_container_size_limit=PARTS,
    )
    _check_size(file.metadata, len(content))
    metadata = file.schema_arrow.metadata
    facts, receipt = json.loads(metadata[KEY]), Receipt(dict(json.loads(metadata[RECEIPT])))
    if facts.get("sealed") and at < 0:
        raise ValueError("the seal is missing")
    asked, schema = RowDomain.from_dict(facts["asked"]), read_schema(facts["schema"])
    arrays = _arrays(file.read(columns=list(COLUMNS), use_threads=False))
    _check_tree(arrays, asked.domain.depth)
    dtypes = {str(name): str(kind) for name, kind in facts["dtypes"].items()}
    return Content(Release(pd.DataFrame(arrays), receipt), asked, schema, dtypes)


def _seal_in(content: bytes) -> int:
    """The position of the seal, in the footer; -1 if there is no seal."""
    name = content.rfind(SEAL.encode())
    return -1 if name < 0 else name + len(SEAL) + 2  # after a type and a length


def _check_size(metadata: pq.FileMetaData, size: int) -> None:
    """Raise ValueError unless the file can hold the rows that it says it has."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [(g.num_rows, g.column(i).num_values) for g in groups for i in range(g.num_columns)]
    rows = sum(group.num_rows for group in groups)
    if rows != metadata.num_rows or any(n != values for n, values in chunks):
        raise ValueError("row groups and columns have different numbers of rows")
    if metadata.num_columns != len(COLUMNS) or not 0 < rows <= max(ROOM, size // LEAST):
        raise ValueError("a file of this size cannot have these columns and so many rows")


def _arrays(table: pa.Table) -> dict[str, Any]:
    """The columns by name. Raises ValueError if a type is not as in ``COLUMNS``."""
    found = {}
    for name, kind in COLUMNS.items():
        column = table[name].combine_chunks()
        if column.type != pa.from_numpy_dtype(np.dtype(kind)) or column.null_count:
            raise ValueError("a column has another type, or missing values")
        found[name] = column.to_numpy(zero_copy_only=False)
    return found


def _check_tree(arrays: dict[str, Any], depth: int) -> None:
    level, code, count = arrays["level"], arrays["code"], arrays["count"]
    if level.min() != 0 or level.max() > depth or (code >> level.astype(np.uint64)).any():
        raise ValueError("a level or code is no node of the tree")
    if not np.isfinite(count).all() or count.min() < 0 or not arrays["leaf"].any():
        raise ValueError("counts must be finite numbers from 0 on, with a leaf among them")
