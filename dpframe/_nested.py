"""Arrow arrays with other children: lists, structs, maps and dictionaries, of slices too.

What holds the children stays as it is, so that a value beside a changed one is the same value.
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
    """An array whose children, which keep their types, are changed; itself if it has none."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        values = change(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=kind.ordered)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, change(array.storage))
    if pa.types.is_struct(kind):
        fields = [change(array.field(i)) for i in range(kind.num_fields)]
        there = array.is_valid().to_numpy(zero_copy_only=False)  # fields of a slice start at 0
        nulls = int((~there).sum())  # told: the entries of a map must be known to have none
        own = [pa.array(there).buffers()[1] if nulls else None]
        return pa.Array.from_buffers(kind, len(array), own, nulls, children=fields)
    if any(is_kind(kind) for is_kind in LISTS):
        own = array.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        values = change(array.values)  # all of them, also of a slice
        return pa.Array.from_buffers(kind, len(array), own, offset=array.offset, children=[values])
    return array
