"""Text of Arrow arrays that is no UTF-8, repaired value by value.

Arrow does not look at text that it is given; DuckDB fails at it or misreads it, and Python's own
words about it quote it. One such record must not decide what happens to the others.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
                    f"column {field.name!r} has an Arrow type of which text inside cannot be read "
                    "safely (a union, a list view, or dictionaries in lists): cast the "
                    "column to text."
                )
            repaired = [unicode(chunk) for chunk in column.chunks]
            if any(new is not old for new, old in zip(repaired, column.chunks, strict=True)):
                table = table.set_column(i, field.name, pa.chunked_array(repaired))
    return table


def unicode(array: pa.Array) -> pa.Array:
    """An array; the same one if its text is UTF-8."""
    kind = array.type
    if not _holds_text(kind) or _is_valid(array):
        return array
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(
            array.indices, unicode(array.dictionary), ordered=kind.ordered
        )
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, unicode(array.storage))
    return pa.array(map(_decoded, array.cast(_as_bytes(kind)).to_pylist()), type=kind)


def is_unicode(text: str) -> bool:
    """Whether a text of Python can be written as UTF-8, which lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decoded(raw: bytes) -> str:
    """Bytes as text in which what is no UTF-8 is replaced."""
    return raw.decode("utf-8", "replace")


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return decoded(value)
    if isinstance(value, dict):
        return {name: _decoded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):  # a tuple is an entry of a map
        return type(value)(map(_decoded, value))
    return value


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts, in any of Arrow's three layouts."""
    return any(map(kind.equals, (pa.string(), pa.large_string(), pa.string_view())))


def _fields(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(i).type for i in range(kind.num_fields)]


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_text(kind.storage_type)
    return is_text(kind) or any(map(_holds_text, _fields(kind)))


def _repairable(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _nested(kind.value_type)
    return _nested(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)


def _nested(kind: pa.DataType) -> bool:
    """Whether ``_as_bytes`` knows the type."""
    known = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if any(is_kind(kind) for is_kind in (*known, pa.types.is_struct, pa.types.is_map)):
        return all(map(_nested, _fields(kind)))
    return is_text(kind) or not _holds_text(kind)


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in place of text."""
    if is_text(kind):
        return pa.large_binary()
    if pa.types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_as_bytes(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_as_bytes(kind.value_type))
    return kind
