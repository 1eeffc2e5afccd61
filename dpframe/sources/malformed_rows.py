"""Find public rows that have no key at some level, such as listed keys that cannot be read."""

from __future__ import annotations

from dpframe._duck import VIEW
from dpframe._sql import ascending_order
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.sources.record_leaves import keyed_sql
from dpframe.sources.rollup_statement import source_sql


def malformed_sql(hierarchy: Hierarchy, unit: PrivacyUnit, types: tuple[str, ...]) -> str:
    """A query of the values, as text, of one row that has no key at some level; empty without such
    a row. For public rows only. The hierarchy must count malformed values.
    """
    source, types = source_sql(hierarchy, unit, types=types, user_type=None, view=VIEW)
    values = [f"c{i}" for i in range(len(types))]
    rows = keyed_sql(hierarchy, types, "source", ", ".join(values))
    missing = " OR ".join(f"k{i} IS NULL" for i in range(1, hierarchy.key_width + 1))
    texts = ", ".join(f"CAST({value} AS VARCHAR) AS v{i}" for i, value in enumerate(values))
    return (
        f"WITH {source} SELECT {texts} FROM ({rows}) WHERE {missing} "
        f"ORDER BY {ascending_order(*(f'v{i}' for i in range(len(values))))} LIMIT 1"
    )
