"""Which portable keys belong to which kind of hierarchy."""

from __future__ import annotations

from dpframe.dialects import Dialect
from dpframe.hierarchy import portable
from dpframe.hierarchy._base import Hierarchy
from dpframe.hierarchy._portable_date import DateKeys
from dpframe.hierarchy._portable_ip import IpKeys

KINDS: dict[str, type[portable.Keys]] = {
    "code": portable.CodeKeys,
    "columns": portable.ColumnKeys,
    "date": DateKeys,
    "domain": portable.DomainKeys,
    "ip": IpKeys,
    "number": portable.NumberKeys,
    "path": portable.PathKeys,
}


def portable_keys(hierarchy: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> portable.Keys:
    """The keys of a hierarchy in a dialect; ``types`` are canonical names."""
    return KINDS[hierarchy.kind](hierarchy, dialect, types)
