"""Names of tables and views: ``ips-2026-11`` is ``ips_2026_11``, ``ips_latest`` and ``ips_all``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_NAME = 50
"""Characters kept of a name. With ``_latest`` and a number it fits the 63 characters of most
databases, and with ``.parquet`` in UTF-8 the 255 bytes of a file name."""

RESERVED = ("dp_", "duckdb_", "pg_", "sqlite_", "information_schema")
"""Beginnings of names that dpframe and catalogs of databases use."""

_NUMBERS = re.compile(r"(?:[-_./: ]+[QWqw]?[0-9]+(?:T[0-9]{2})?)+$")
_APART = "-_./: "
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNames:
    """The name of a release, and of its family, its table, the view of the family's newest release
    and the table of the whole family."""

    release: str
    family: str
    table: str
    view: str
    whole: str

    @property
    def numbers(self) -> str | None:
        """The part of the name after the family, such as ``2026-11``, or None."""
        return self.release[len(self.family) :].lstrip(_APART) or None


def name_tables(releases: Sequence[str]) -> list[TableNames]:
    """Name the tables and views of releases, in the order of charges; later releases never change
    the names of earlier ones."""
    taken: set[str] = set()
    shared: dict[str, tuple[str, str]] = {}
    out = []
    for release in releases:
        table = free_name(identifier_of(release), taken)
        kin = family(release)
        if kin not in shared:
            stem = identifier_of(kin)
            shared[kin] = free_name(f"{stem}_latest", taken), free_name(f"{stem}_all", taken)
        view, whole = shared[kin]
        out.append(TableNames(release=release, family=kin, table=table, view=view, whole=whole))
    return out


def family(release: str) -> str:
    """Return the name without the numbers at its end, unless no letter would be left.

    Each number is set off by ``-``, ``_``, ``.``, ``/``, ``:`` or a space; Q or W may stand before
    it, and an hour after it.

    >>> [family(n) for n in ("ips-2026-11", "sales 2026-Q3", "ipv6", "2026-11", "a-2026-11-22T13")]
    ['ips', 'sales', 'ipv6', '2026-11', 'a']
    """
    stem = _NUMBERS.sub("", release)
    return stem if _LETTER.search(stem) else release


def identifier_of(text: str) -> str:
    """Make an identifier: small letters and digits of any script, ``_`` for all other characters.

    It begins with a letter.

    >>> [identifier_of(n) for n in ("IPs 2026/11", "Größe", "2026-11", "dp_budget", "?")]
    ['ips_2026_11', 'grösse', 'release_2026_11', 'release_dp_budget', 'release']
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else "_" for c in folded)
    name = re.sub("_+", "_", kept).strip("_")[:LONGEST_NAME].rstrip("_")
    if not name or not name[0].isalpha() or name.startswith(RESERVED):
        name = f"release_{name}"[:LONGEST_NAME].rstrip("_")
    return name


def free_name(wanted: str, taken: set[str]) -> str:
    """Return ``wanted``, with ``__2``, ``__3``, ... if it is taken in any case, and mark it taken.

    SQL and file systems may ignore case. Names from :func:`identifier_of` hold no ``__``, so a
    numbered name equals no other name.
    """
    name, number = wanted, 1
    while name.casefold() in taken:
        number += 1
        name = f"{wanted}__{number}"
    taken.add(name.casefold())
    return name
