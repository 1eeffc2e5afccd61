"""Text of Arrow arrays that is no UTF-8, repaired value by value.

Arrow does not look at text that it is given; DuckDB fails at it or misreads it, and Python's own
words about it quote it. One such record must not decide what happens to the others.
"""

from __future__ import annotations

import codecs
import re
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from dpframe._nested_arrays import children, has_children, with_children
from dpframe.errors import ColumnError


def unicode_table(table: pa.Table) -> pa.Table:
    """A table whose text, inside of lists and structs too, is UTF-8.

    Raises ColumnError for a type in which text cannot be repaired, whether or not some must be.
    """
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if pa.types.is_run_end_encoded(field.type):
            column = pa.chunked_array(map(pc.run_end_decode, column.chunks), field.type.value_type)
            field = field.with_type(column.type)
            table = table.set_column(i, field.name, column)
        if _holds_text(field.type):
            if not _repairable(field.type):
                raise ColumnError(
                    f"column {field.name!r} has text in a union or a list view, which cannot be "
                    "read safely. Cast the column to text."
                )
            repaired = _repair_chunks(column)
            if any(new is not old for new, old in zip(repaired, column.chunks, strict=True)):
                table = table.set_column(i, field.name, pa.chunked_array(repaired))
    return table


MANY = 1_000_000
"""Rows from which pieces are looked at by several threads; starting these takes a millisecond."""


def _repair_chunks(column: pa.ChunkedArray) -> list[pa.Array]:
    """Every piece as :func:`unicode` makes it; Arrow lets go of Python's lock while it looks."""
    if len(column) < MANY:
        return [unicode(chunk) for chunk in column.chunks]
    with ThreadPoolExecutor(min(pa.cpu_count(), column.num_chunks)) as threads:
        return list(threads.map(unicode, column.chunks))


def unicode(array: pa.Array) -> pa.Array:
    """An array whose text is UTF-8; the same array if it was already."""
    kind = array.type
    if not _holds_text(kind) or _is_valid(array):
        return array
    if is_arrow_text(kind):
        texts = array.cast(pa.large_binary()).to_pylist()
        return pa.array([t if t is None else decode_bytes(t) for t in texts], type=kind)
    return with_children(array, unicode)


def is_unicode(text: str) -> bool:
    """Whether a text of Python can be written as UTF-8, which lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


ESCAPES = "dpframe.escapes"
"""The name under which codecs find how to write bytes that are no text of an encoding."""


def _escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(f"\\x{byte:02X}" for byte in wrong), error.end


codecs.register_error(ESCAPES, _escapes)


def decode_bytes(raw: bytes) -> str:
    r"""Bytes as text; a byte that is no UTF-8 is written as DuckDB writes it, such as ``\x80``, so
    that different bytes stay different."""
    return raw.decode("utf-8", ESCAPES)


def escape_bytes(raw: bytes) -> str:
    """Bytes as DuckDB writes a BLOB: printable ASCII as it is, other bytes in hexadecimal."""
    return re.sub(rb"[^ -~]|[\\'\"]", lambda m: b"\\x%02X" % ord(m[0]), raw).decode()


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_arrow_text(kind: pa.DataType) -> bool:
    """Whether values are texts, in any of Arrow's three layouts."""
    return any(map(kind.equals, (pa.string(), pa.large_string(), pa.string_view())))


def _holds_text(kind: pa.DataType) -> bool:
    return is_arrow_text(kind) or any(map(_holds_text, children(kind)))


def _repairable(kind: pa.DataType) -> bool:
    return (
        is_arrow_text(kind)
        or not _holds_text(kind)
        or (has_children(kind) and all(map(_repairable, children(kind))))
    )
