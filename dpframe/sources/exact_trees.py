"""Count the rows of any source into counts of nodes or cells, with one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpframe._duck import Relation, register_table
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.hierarchy._ip import Ip
from dpframe.noise import random_seed
from dpframe.sources.count_rows import counts_of
from dpframe.sources.keys import check_key_types, listed_counts
from dpframe.sources.rollup_statement import rollup_statement
from dpframe.sources.small_frames import MOST, counts_small, small_counts
from dpframe.sources.source_relations import (
    HeldColumns,
    canonical,
    only_text,
    open_source,
    read_small_frame,
)
from dpframe.sources.spark import is_spark
from dpframe.sources.summands import Summand
from dpframe.sources.weights import check_weight_type
from dpframe.tree import Counts, ListedNodes


def exact_counts(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    *,
    listed: ListedNodes | None = None,
    progress: bool = False,
    sums: Mapping[str, Summand] | None = None,
    beside: Sequence[str] = (),
) -> Counts:
    """True counts of the nodes or cells at or above the band, or only of listed nodes. Private.

    ``sums`` are as in :func:`rollup_statement`; they read the columns that ``beside`` names.

    Raises ColumnError where a column cannot be read, or a listed key is no value of its column.
    """
    if is_spark(source):
        from dpframe.sources.spark_counts import counts_by_spark

        counts = counts_by_spark(source, hierarchy, unit, band, listed=listed, sums=sums)
        return counts if listed is None else listed_counts(counts.axes[0], listed)
    wanted = [*_columns_to_read(hierarchy, unit), *beside]
    seed = random_seed()  # always drawn, so that later draws do not depend on which code counts
    small = None
    if not sums and counts_small(hierarchy, unit):
        source = read_small_frame(source, wanted, MOST)
        if isinstance(source, HeldColumns) and not source.types:
            small = small_counts(source.table, hierarchy, band)
    if small is not None:
        if listed is None:
            return small
        check_key_types(listed, hierarchy, small.types)
        return listed_counts(small, listed)
    with open_source(source, wanted) as relation:
        types = _tree_column_types(relation, hierarchy, unit, text=only_text(source))
        read = tuple(types[c] for c in hierarchy.source_columns)
        if listed is not None:
            check_key_types(listed, hierarchy, read)
        elif isinstance(hierarchy, Ip) and not sums:
            from dpframe.sources.address_levels import address_nodes

            nodes = address_nodes(relation, hierarchy, unit, read, band, progress=progress)
            if nodes is not None:
                return counts_of(nodes, hierarchy, read)
        user_type, known = types.get(unit.user or ""), None
        if unit.user is not None:
            from dpframe.sources.user_rows import user_leaves

            known = user_leaves(
                relation, hierarchy, unit, read, user_type, seed=seed, progress=progress
            )
        statement = rollup_statement(
            hierarchy,
            unit,
            band=band,
            types=read,
            user_type=user_type,
            seed=seed,
            only=listed,
            sums=sums,
            leaves=known.sql if known else None,
        )
        if known is None:
            table = relation.query(statement, progress)
    if known is not None:
        with register_table(known.table, "what users count") as relation:
            table = relation.query(statement, False)
    counts = counts_of(table, hierarchy, read, tuple(sums or ()))
    return counts if listed is None else listed_counts(counts.axes[0], listed)


def check_readable(source: object, hierarchy: Hierarchy, unit: PrivacyUnit) -> None:
    """Raise ColumnError if a source lacks a column, or has one of a type that cannot be read."""
    if is_spark(source):
        from dpframe.sources.spark_counts import check_spark

        check_spark(source, hierarchy, unit)
        return
    with open_source(source, _columns_to_read(hierarchy, unit)) as relation:
        _tree_column_types(relation, hierarchy, unit, text=only_text(source))


def _columns_to_read(hierarchy: Hierarchy, unit: PrivacyUnit) -> list[str]:
    beside = (unit.user, unit.weight)
    return [*hierarchy.source_columns, *(column for column in beside if column is not None)]


def _tree_column_types(
    relation: Relation, hierarchy: Hierarchy, unit: PrivacyUnit, *, text: bool
) -> dict[str, str]:
    """Checked types by column. ``text`` says that a source holds nothing but text, weights too."""
    types = {c: canonical(t) for c, t in zip(relation.columns, relation.types, strict=True)}
    hierarchy.check_types(tuple(types[c] for c in hierarchy.source_columns))
    if unit.user is not None:
        check_writable(unit.user, types[unit.user])
    if unit.weight is not None:
        check_weight_type(unit, types[unit.weight], text=text)
    return types
