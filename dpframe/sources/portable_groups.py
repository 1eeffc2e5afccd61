"""SQL for the finest cells of rows that can matter, in engines other than DuckDB.

The groups equal the cells of ``sources.cell_leaves``. Columns of a group are ``n``, its levels
``l1, l2, ...`` in the dimensions, and its keys there as texts, ``t1, t2, ...``. Windows over
``leaves`` count the nodes, so that a row is in one group, however an engine computes the leaves; a
join with counted nodes would read the leaves once more.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpframe.hierarchy.portable_cell_keys import CellKeys, level_key_names
from dpframe.sources.record_leaves import one_to


def group_columns(dimensions: int, width: int) -> tuple[str, ...]:
    """The columns of the result behind ``n``: levels, and keys as texts."""
    return (*(f"l{i}" for i in one_to(dimensions)), *(f"t{i}" for i in one_to(width)))


def portable_groups(
    keys: CellKeys, band: int, added: tuple[str, ...], extra: Mapping[str, str]
) -> tuple[list[str], str]:
    """The CTEs over ``leaves``, and the statement that reads them."""
    d, several = keys.dialect, keys.of
    numbers = one_to(len(several))
    levels = {i: one_to(one.hierarchy.height) for i, one in zip(numbers, several, strict=True)}
    query, have = keys.level_query("leaves", ["n", *added], levels)
    reached = {(i, level): f"m{i}_{level}" for i, each in levels.items() for level in each}
    counted = []
    for (i, level), name in reached.items():
        there = f"CASE WHEN depth_{i} >= {level} THEN 1 ELSE 0 END"
        by = ", ".join([there, *level_key_names(several[i - 1].width, i, level)])
        counted.append(f"{d.to_integer(f'sum(n) OVER (PARTITION BY {by})')} AS {name}")
    query = f"SELECT {', '.join([*have, *counted])} FROM {d.rows(query)}"
    chosen = []
    for i in numbers:
        cases = " ".join(
            f"WHEN depth_{i} >= {level} AND m{i}_{level} >= {band} THEN {level}"
            for level in reversed(levels[i])
        )
        chosen.append(f"CASE {cases} ELSE 0 END AS l{i}")
    query = f"SELECT {', '.join([*have, *chosen])} FROM {d.rows(query)}"
    texts, nothing = list[str](), list[str]()
    for i, one in zip(numbers, several, strict=True):
        for j in range(one.width):
            cases = " ".join(
                f"WHEN {level} THEN {level_key_names(one.width, i, level)[j]}"
                for level in levels[i]
            )
            texts.append(f"CASE l{i} {cases} END")
        nothing += one.root_key()
    names = group_columns(len(several), keys.width)
    own, t = names[: len(several)], names[len(several) :]
    shown = ", ".join([*own, *(f"{sql} AS {name}" for sql, name in zip(texts, t, strict=True))])
    none = ", ".join(
        [*(f"0 AS {name}" for name in own)]
        + [f"{sql} AS {name}" for sql, name in zip(nothing, t, strict=True)]
    )
    more = "".join(f", {name}" for name in added)
    zeros = "".join(f", {d.addable('0')} AS {name}" for name in added)
    summed = "".join(f", sum({name}) AS {name}" for name in added)
    parts = [
        f"placed AS ({query})",
        f"parted AS (SELECT {shown}, n{more} FROM placed\n"
        f"UNION ALL SELECT {none}, {d.to_integer('0')} AS n{zeros})",
        f"candidates AS (SELECT {', '.join(names)}, {d.to_integer('sum(n)')} AS n{summed} "
        f"FROM parted GROUP BY {', '.join(names)})",
    ]
    result = ["n", *own, *(f"{d.cast_text(name)} AS {name}" for name in t)]
    result += [f"{d.cast_text(f'coalesce({name}, 0)')} AS {name}" for name in added]
    result += [f"{sql} AS {name}" for name, sql in extra.items()]
    return parts, f"SELECT {', '.join(result)} FROM candidates"
