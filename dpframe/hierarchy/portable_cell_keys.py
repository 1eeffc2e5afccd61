"""The keys of several hierarchies, side by side, in SQL for engines other than DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpframe.dialects import Dialect
from dpframe.hierarchy._base import Hierarchy
from dpframe.hierarchy.portable import Keys
from dpframe.hierarchy.portable_kinds import portable_keys


class CellKeys:
    """The keys of every dimension, in ``of``; k1, k2, ... are the finest keys of all dimensions."""

    def __init__(self, cells: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> None:
        self.hierarchy, self.dialect, self.types = cells, dialect, types
        pairs = zip(cells.dimensions, cells.by_dimension(types), strict=True)
        self.of = tuple(portable_keys(one, dialect, own) for one, own in pairs)

    @property
    def width(self) -> int:
        return self.hierarchy.key_width

    @property
    def reads_text(self) -> bool:
        """Whether equal values should be grouped before their keys are computed."""
        return any(one.reads_text for one in self.of)

    def values(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the SQL that reads the source columns, as c0, c1, ..."""
        pairs = zip(self.of, self.hierarchy.by_dimension(columns), strict=True)
        return tuple(sql for one, own in pairs for sql in one.values(own))

    def key_query(self, rows: str, kept: Sequence[str], where: str) -> str:
        """Return a query of the finest keys and the ``kept`` columns of ``rows`` with c0, c1, ...
        The query makes the keys of one dimension after the other, as their steps share names."""
        d, left = self.dialect, [f"r{i}" for i in range(len(self.types))]
        named = [f"c{i} AS {name}" for i, name in enumerate(left)]
        query, done = f"SELECT {', '.join([*kept, *named])} FROM {rows}{where}", list[str]()
        dropped = list[str]()
        for one in self.of:
            read, left = left[: len(one.types)], left[len(one.types) :]
            named = [f"{name} AS c{i}" for i, name in enumerate(read)]
            query = f"SELECT {', '.join([*kept, *done, *left, *named])} FROM {d.rows(query)}"
            query = add_key_steps(one, query)
            keys = [f"a{len(done) + i}" for i in range(1, one.width + 1)]
            found = [f"k{i} AS {name}" for i, name in enumerate(keys, 1)]
            query = f"SELECT {', '.join([*kept, *done, *left, *found])} FROM {d.rows(query)}"
            done += keys
            if one.hierarchy.on_invalid == "drop":
                dropped += [f"{name} IS NOT NULL" for name in keys]
        chosen = ", ".join([*(f"{name} AS k{i}" for i, name in enumerate(done, 1)), *kept])
        valid = f" WHERE {' AND '.join(dropped)}" if dropped else ""
        return f"SELECT {chosen} FROM {d.rows(query)}{valid}"

    def level_query(
        self, rows: str, kept: Sequence[str], levels: Mapping[int, Sequence[int]]
    ) -> tuple[str, list[str]]:
        """Return a query of ``rows``, which have k1, k2, ..., and the names of its columns.

        The query has the ``kept`` columns and, for every dimension d from 1, the row's number of
        levels, depth_d, and its keys at the levels ``levels[d]``, named by ``level_key_names``.
        """
        d, have = self.dialect, list(kept)
        left = [f"a{i}" for i in range(1, self.width + 1)]
        named = [f"k{i} AS {name}" for i, name in enumerate(left, 1)]
        query = f"SELECT {', '.join([*kept, *named])} FROM {rows}"
        for number, one in enumerate(self.of, 1):
            read, left = left[: one.width], left[one.width :]
            keys = [f"k{i}" for i in range(1, one.width + 1)]
            named = [f"{name} AS {key}" for name, key in zip(read, keys, strict=True)]
            query = f"SELECT {', '.join([*have, *left, *named])} FROM {d.rows(query)}"
            depth = d.small(one.depth() or str(one.hierarchy.height))
            here = [*have, *left, *keys]
            query = f"SELECT {', '.join(here)}, {depth} AS depth_{number} FROM {d.rows(query)}"
            here.append(f"depth_{number}")
            have.append(f"depth_{number}")
            for level in levels.get(number, ()):
                query = f"SELECT {', '.join(here)}, {level} AS level FROM {d.rows(query)}"
                texts = level_key_names(one.width, number, level)
                pairs = zip(one.at_level(), texts, strict=True)
                added = [f"{sql} AS {name}" for sql, name in pairs]
                query = f"SELECT {', '.join([*here, *added])} FROM {d.rows(query)}"
                here += texts
                have += texts
            query = f"SELECT {', '.join([*have, *left])} FROM {d.rows(query)}"
        return query, have


def level_key_names(width: int, number: int, level: int) -> list[str]:
    """Return the names that ``leveled`` gives to the key of a dimension at a level."""
    return [f"at_{number}_{level}_{i}" for i in range(1, width + 1)]


def add_key_steps(keys: Keys, query: str) -> str:
    """Return ``query``, which has c0, c1, ..., with the columns of all key steps, such as k1."""
    for step in keys.steps():
        added = ", ".join(f"{sql} AS {name}" for name, sql in step.items())
        query = f"SELECT step.*, {added} FROM {keys.dialect.rows(query)}"
    return query


def keys_of(hierarchy: Hierarchy, dialect: Dialect, types: tuple[str, ...]) -> Keys | CellKeys:
    """Return the keys of one hierarchy, or of several at once."""
    if hierarchy.has_cells:
        return CellKeys(hierarchy, dialect, types)
    return portable_keys(hierarchy, dialect, types)


def dimensions(keys: Keys | CellKeys) -> tuple[Keys, ...]:
    """Return the keys of every dimension; for one hierarchy, ``keys`` alone."""
    return keys.of if isinstance(keys, CellKeys) else (keys,)
