"""Names of tables and views for releases: ``ips-2026-11`` is ``ips_2026_11`` and ``ips_latest``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_NAME = 50
"""Characters kept of a name: with ``_latest`` and a number it fits the 63 of most databases, and
in UTF-8 with ``.parquet`` the 255 bytes of a file name."""

RESERVED = ("dp_", "duckdb_", "pg_", "sqlite_", "information_schema")
"""How names of ours and of catalogs begin."""

_NUMBERS = re.compile(r"(?:[-_./: ]+[QWqw]?[0-9]+)+$")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A release, the family it belongs to, its table, and the view of the family's newest."""

    release: str
    family: str
    table: str
    view: str


def named(releases: Sequence[str]) -> list[Named]:
    """Names for releases in the order of their charges; a later one never changes an earlier."""
    taken: set[str] = set()
    views: dict[str, str] = {}
    out = []
    for release in releases:
        table = free(identifier_of(release), taken)
        kin = family(release)
        if kin not in views:
            views[kin] = free(f"{identifier_of(kin)}_latest", taken)
        out.append(Named(release=release, family=kin, table=table, view=views[kin]))
    return out


def family(release: str) -> str:
    """The name without the numbers at its end, unless no letter would be left.

    Each is set off by ``-``, ``_``, ``.``, ``/``, ``:`` or a space; Q and W may stand before it.

    >>> [family(n) for n in ("ips-2026-11", "sales 2026-Q3", "ipv6", "2026-11")]
    ['ips', 'sales', 'ipv6', '2026-11']
    """
    stem = _NUMBERS.sub("", release)
    return stem if _LETTER.search(stem) else release


def identifier_of(text: str) -> str:
    """Small letters and digits of any script, ``_`` for all else; begins with a letter.

    >>> [identifier_of(n) for n in ("IPs 2026/11", "Größe", "2026-11", "dp_budget", "?")]
    ['ips_2026_11', 'grösse', 'release_2026_11', 'release_dp_budget', 'release']
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else "_" for c in folded)
    name = re.sub("_+", "_", kept).strip("_")[:LONGEST_NAME].rstrip("_")
    if not name or not name[0].isalpha() or name.startswith(RESERVED):
        name = f"release_{name}"[:LONGEST_NAME].rstrip("_")
    return name


def free(wanted: str, taken: set[str]) -> str:
    """``wanted``, or with ``__2``, ``__3``, ...: SQL and file systems may ignore case.

    Names from :func:`identifier_of` hold no ``__``, so a numbered one meets no other name.
    """
    name, number = wanted, 1
    while name.casefold() in taken:
        number += 1
        name = f"{wanted}__{number}"
    taken.add(name.casefold())
    return name
