"""Arrow arrays with other children: lists, structs, maps and dictionaries, of slices too.

What holds the children stays as it is, so that a value beside a changed one is the same value. A
child may change its type.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)


def has_children(kind: pa.DataType) -> bool:
    """Whether ``with_children`` can change the children of a type."""
    wraps = pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType)
    return wraps or pa.types.is_struct(kind) or any(is_kind(kind) for is_kind in LISTS)


def children(kind: pa.DataType) -> list[pa.DataType]:
    """The types inside of a type."""
    if pa.types.is_dictionary(kind):
        return [kind.value_type]
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    return [kind.field(i).type for i in range(kind.num_fields)]


def with_children(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """An array whose children are changed; itself if it has none."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        values = change(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=kind.ordered)
    if isinstance(kind, pa.BaseExtensionType):
        storage = change(array.storage)
        same = storage.type == kind.storage_type
        return pa.ExtensionArray.from_storage(kind, storage) if same else storage
    if pa.types.is_struct(kind):
        fields = [change(array.field(i)) for i in range(kind.num_fields)]
        there = array.is_valid().to_numpy(zero_copy_only=False)  # fields of a slice start at 0
        nulls = int((~there).sum())  # counted: Arrow must know that entries of a map have none
        own = [pa.array(there).buffers()[1] if nulls else None]
        named = [pa.field(kind.field(i).name, field.type) for i, field in enumerate(fields)]
        return pa.Array.from_buffers(pa.struct(named), len(array), own, nulls, children=fields)
    if any(is_kind(kind) for is_kind in LISTS):
        own = array.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        values = change(array.values)  # all of them, also of a slice
        kind = _list_of(kind, values.type)
        return pa.Array.from_buffers(kind, len(array), own, offset=array.offset, children=[values])
    return array


def _list_of(kind: pa.DataType, inside: pa.DataType) -> pa.DataType:
    """The same kind of list with another type inside; a map keeps its own."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inside, kind.list_size)
    if pa.types.is_map(kind):
        return kind
    return pa.large_list(inside) if pa.types.is_large_list(kind) else pa.list_(inside)
