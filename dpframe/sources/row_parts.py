"""Read a source again, to add up or count its rows in every part of a public partition. Private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.budget import PrivacyUnit
from dpframe.errors import SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.noise import random_seed
from dpframe.sources.node_places import ReportedNodes
from dpframe.sources.source_relations import open_source, relation_types
from dpframe.sources.spark import is_spark
from dpframe.tree import python_integers
from dpframe.vectors import LARGEST, LEAST, AutoBound, Distinct, Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RowParts:
    """Rows of a source whose sums are taken later, when the parts are known."""

    source: object
    hierarchy: Hierarchy
    unit: PrivacyUnit
    progress: bool

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"

    def of_rows(self, vectors: Sequence[Vector], nodes: ReportedNodes) -> list[NDArray[np.object_]]:
        """For every vector, an array with one number per node."""
        if is_spark(self.source):
            from dpframe.sources.spark_parts import parts_by_spark

            table = parts_by_spark(self.source, self.hierarchy, self.unit, vectors, nodes)
            return [_numbers_by_node(table, "part", f"v{i}", nodes) for i in range(len(vectors))]
        from dpframe.sources.parts_statement import parts_statement

        wanted = [*self.hierarchy.source_columns, *vector_columns(vectors)]
        with self._open_parts(wanted) as (relation, types):
            statement = parts_statement(
                self.hierarchy,
                self.unit,
                vectors,
                nodes,
                types=tuple(types[c] for c in self.hierarchy.source_columns),
                user_type=self._user_type(types),
            )
            table = relation.query(statement, self.progress)
        return [_numbers_by_node(table, "part", f"v{i}", nodes) for i in range(len(vectors))]

    def distinct(self, distinct: Distinct, nodes: ReportedNodes) -> NDArray[np.object_]:
        """The number of different values at every node."""
        if is_spark(self.source):
            from dpframe.sources.spark_parts import distinct_by_spark

            table = distinct_by_spark(self.source, self.hierarchy, self.unit, distinct, nodes)
            return _numbers_by_node(table, "place", "n", nodes)
        from dpframe.sources.distinct_values import distinct_statement

        wanted = [*self.hierarchy.source_columns, distinct.column]
        with self._open_parts(wanted) as (relation, types):
            statement = distinct_statement(
                self.hierarchy,
                self.unit,
                distinct,
                nodes,
                types=tuple(types[c] for c in self.hierarchy.source_columns),
                user_type=self._user_type(types),
                value_type=types[distinct.column],
                seed=random_seed(),
            )
            table = relation.query(statement, self.progress)
        return _numbers_by_node(table, "place", "n", nodes)

    def magnitudes(self, searched: AutoBound) -> NDArray[np.int64]:
        """The number of records, or of users, in every bin of magnitudes from LEAST to LARGEST."""
        if is_spark(self.source):
            from dpframe.sources.spark_parts import magnitudes_by_spark

            table = magnitudes_by_spark(self.source, self.unit, searched)
        else:
            from dpframe.sources.magnitudes import magnitudes_statement

            with self._open_parts([searched.column]) as (relation, types):
                statement = magnitudes_statement(
                    searched, user=self.unit.user, user_type=self._user_type(types)
                )
                table = relation.query(statement, self.progress)
        out = np.zeros(LARGEST - LEAST + 1, dtype=np.int64)
        out[table["bin"].cast("int64").to_numpy()] = table["n"].cast("int64").to_numpy()
        return out

    @contextmanager
    def _open_parts(self, wanted: Sequence[str]) -> Iterator[tuple[_duck.Relation, dict[str, str]]]:
        own = [] if self.unit.user is None else [self.unit.user]
        with open_source(self.source, list(dict.fromkeys([*wanted, *own]))) as relation:
            yield relation, relation_types(relation)

    def _user_type(self, types: Mapping[str, str]) -> str | None:
        return None if self.unit.user is None else types[self.unit.user]


def vector_columns(vectors: Sequence[Vector]) -> list[str]:
    """The columns that vectors add up, each once."""
    return list(dict.fromkeys(v.column for v in vectors if v.column is not None))


def _numbers_by_node(
    table: pa.Table, place: str, name: str, nodes: ReportedNodes
) -> NDArray[np.object_]:
    """The column ``name`` as one number per node, 0 where the table lacks the node."""
    if table[place].null_count:
        raise SourceError(
            "the source changed while it was read. Write what random(), or LIMIT without an "
            "order, returns to a table."
        )
    out = np.zeros(len(nodes.level), dtype=object)
    out[table[place].cast("int64").to_numpy()] = python_integers(table[name])
    return out
