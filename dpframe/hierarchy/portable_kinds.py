"""Choose the portable keys for each kind of hierarchy."""

from __future__ import annotations

from dpframe.dialects import SPARK, Dialect
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


class NativeIpKeys(IpKeys):
    """Addresses as DuckDB's own rollup returns them: decimal numbers."""

    def key_of_text(self, level: int, texts: tuple[str, ...]) -> tuple[str, ...]:
        return (f"TRY_CAST({texts[0]} AS UHUGEINT)",)


def portable_keys(hierarchy: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> portable.Keys:
    """Return the keys of a hierarchy in a dialect; ``types`` are canonical names, as in DuckDB."""
    return KINDS[hierarchy.kind](hierarchy, dialect, types)


def returned_keys(
    hierarchy: Hierarchy, dialect: Dialect | None, types: tuple[str, ...]
) -> portable.Keys:
    """Return keys that read the result of a statement; dialect None stands for DuckDB."""
    if dialect is not None:
        return portable_keys(hierarchy, dialect, types)
    kind = NativeIpKeys if hierarchy.kind == "ip" else KINDS[hierarchy.kind]
    return kind(hierarchy, SPARK, types)  # any dialect: reading a result does not use it
