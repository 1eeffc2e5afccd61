"""What a rollup measures on parts of a selection, from any source. Private."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe import _duck
from dpframe.budget import PrivacyUnit
from dpframe.counts import (
    Counts,
    CountTree,
    Ints,
    ListedCells,
    ListedNodes,
    Wholes,
    python_integers,
    segments,
    shortest,
    weighted_sum,
)
from dpframe.errors import ParameterError, SourceError
from dpframe.hierarchy import Hierarchy
from dpframe.hierarchy._base import check_writable
from dpframe.hierarchy._types import REAL, TIMES, WHOLE, Advice, outer_type, unreadable_type
from dpframe.measures.bins import Bins, ValueKind
from dpframe.measures.measure import (
    LARGEST,
    LEAST,
    AutoBound,
    BinVectors,
    Distinct,
    Measure,
    Vector,
)
from dpframe.noise import random_seed
from dpframe.sources.exact_trees import exact_counts
from dpframe.sources.frames import is_spark
from dpframe.sources.keys import check_key_types
from dpframe.sources.portable_sql import Summand
from dpframe.sources.rollup_statement import exact_column_sql, source_sql
from dpframe.sources.segment_places import ReportedNodes
from dpframe.sources.source_relations import canonical, open_source, relation_types
from dpframe.sources.spark import SparkFrame
from dpframe.sources.user_nodes import UserNodes, user_nodes
from dpframe.sources.user_rows import KeyRows, summands_of_users


class BinCounts:
    """Adds up what every part has in each bin; ``numbers`` has the shape (nodes, bins). Private.

    Where values come one by one, ``parts`` has the part of each code with which they come. They are
    put into bins as :meth:`.Bins.place` does. The bits of floating-point numbers, read as whole
    numbers, are in the order of these numbers. Their leading bits are a cell, and a table has the
    bin in which it begins. Then the few edges within a cell are compared; if they are many, all
    edges are searched instead.
    """

    def __init__(self, bins: Bins, n: int, parts: Ints | None = None) -> None:
        self.numbers = np.zeros((n, bins.size), dtype=np.int64)
        self._starts = (np.arange(n) if parts is None else parts) * bins.size
        self._edges = _ordered_bits(np.array(bins.edges))
        self._edges[-1] += 1  # the last bin holds its upper edge
        low, high = int(self._edges[0]) - 1, int(self._edges[-1])
        self._above_zero = low > 0
        self._shift = max(1, (high - low).bit_length() - CELL_BITS)  # so that cells have no sign
        self._lowest = low >> self._shift
        cells = np.arange(self._lowest, (high >> self._shift) + 1)
        self._first = np.searchsorted(self._edges, cells << self._shift, side="right")
        self._within = int(np.diff(self._first, append=len(self._edges)).max())
        self._next = np.append(self._edges, np.iinfo(np.int64).max)

    def add(self, table: pa.Table) -> None:
        """Set the numbers ``n`` at each ``part`` and ``bin``."""
        _check_places(table, "part")
        part, place, n = (table[name].cast("int64").to_numpy() for name in ("part", "bin", "n"))
        self.numbers[part, place] = n

    def add_values(self, rows: pa.RecordBatch) -> None:
        """Count finite values ``v``, each at the part of its ``code``."""
        _check_places(rows, "code")
        values, codes = rows["v"].to_numpy(), rows["code"].to_numpy()
        flat = self.numbers.reshape(-1)
        for start in range(0, len(values), SOME_ROWS):
            here = slice(start, start + SOME_ROWS)
            place = self.places(values[here])
            place += self._starts.take(codes[here], mode="clip")
            np.add.at(flat, place, 1)

    def places(self, values: NDArray[np.float64]) -> Ints:
        """The bin of each value."""
        # the bits of numbers below 0 are below 0
        bits = values.view(np.int64) if self._above_zero else _ordered_bits(values)
        if self._within > FEW_EDGES:
            return np.searchsorted(self._edges, bits, side="right")
        cell = bits >> self._shift
        cell -= self._lowest
        place: Ints = self._first.take(cell, mode="clip")  # twice as fast as [cell]
        for _ in range(self._within):
            place += bits >= self._next.take(place, mode="clip")
        return place


CELL_BITS = 16
"""Bits of a cell: the table of their bins stays in the cache of a processor."""

SOME_ROWS = 2**13
"""Rows that are counted at once: larger arrays take new memory each time, and twice as long."""

FEW_EDGES = 3
"""Edges within a cell that are compared one after the other."""


def _ordered_bits(values: NDArray[np.float64]) -> Ints:
    """The bits of finite numbers as whole numbers in the same order; both zeros are one number."""
    bits = (values + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


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
        wanted = [*self.hierarchy.source_columns, *vector_columns(vectors)]
        with self._open_parts(wanted) as (relation, types):
            own = tuple(types[c] for c in self.hierarchy.source_columns)
            asked = (self.hierarchy, self.unit, vectors, nodes)
            if self.unit.user is None:
                from dpframe.sources.segment_places import parts_statement

                found = relation.query(parts_statement(*asked, types=own), self.progress)
                tables: Iterable[pa.Table] = [found]
            else:
                from dpframe.sources.user_rows import parts_of_users

                user_type = types[self.unit.user]
                tables = parts_of_users(
                    relation, *asked, types=own, user_type=user_type, progress=self.progress
                )
            return _add_up(tables, vectors, nodes)

    def distinct(self, distinct: Distinct, nodes: ReportedNodes) -> NDArray[np.object_]:
        """The number of different values at every node."""
        if is_spark(self.source):
            from dpframe.sources.spark_parts import distinct_by_spark

            table = distinct_by_spark(self.source, self.hierarchy, self.unit, distinct, nodes)
            if self.unit.user is None:
                return _numbers_by_node(table, "place", "n", nodes)
            return self._matched_numbers(table, distinct, nodes)
        wanted = [*self.hierarchy.source_columns, distinct.column]
        seed = random_seed()  # always drawn, so that later draws do not depend on which code counts
        with self._open_parts(wanted) as (relation, types):
            own = tuple(types[c] for c in self.hierarchy.source_columns)
            if self.unit.user is None:
                from dpframe.sources.user_rows import users_at_reported

                value = exact_column_sql(distinct.column, types[distinct.column])
                source, read = source_sql(
                    self.hierarchy,
                    self.unit,
                    types=own,
                    user_type=None,
                    view=_duck.VIEW,
                    beside={"u": value},
                    again=relation.repeats(computed=False),
                )
                found = users_at_reported(
                    *(relation, self.hierarchy, read, source, nodes),
                    user_type=types[distinct.column],
                    rows="(FROM source WHERE u IS NOT NULL)",
                    seed=seed,
                    progress=self.progress,
                )
                return found.astype(object)
            from dpframe.sources.segment_places import distinct_statement

            statement = distinct_statement(
                self.hierarchy,
                self.unit,
                distinct,
                nodes,
                types=own,
                user_type=types[self.unit.user],
                value_type=types[distinct.column],
                seed=seed,
            )
            table = relation.query(statement, self.progress)
        return self._matched_numbers(table, distinct, nodes)

    def _matched_numbers(
        self, table: pa.Table, distinct: Distinct, nodes: ReportedNodes
    ) -> NDArray[np.object_]:
        from dpframe.sources.node_values import matched_values

        assert distinct.at_most is not None
        n, root = len(nodes.level), not self.hierarchy.has_cells
        return matched_values(table["held"], n, distinct.at_most, root=root).astype(object)

    def in_bins(self, vectors: BinVectors, nodes: ReportedNodes) -> Ints:
        """What every part has in each bin, shape (nodes, bins)."""
        if is_spark(self.source):
            from dpframe.sources.spark_parts import bins_by_spark

            counted = BinCounts(vectors.bins, len(nodes.level))
            counted.add(bins_by_spark(self.source, self.hierarchy, self.unit, vectors, nodes))
            return counted.numbers
        from dpframe.sources.node_values import bins_statement, key_codes

        with self._open_parts([*self.hierarchy.source_columns, vectors.column]) as opened:
            (relation, types), codes = opened, None
            if self.unit.user is None:
                own = tuple(types[c] for c in self.hierarchy.source_columns)
                codes = key_codes(self.hierarchy, own, nodes)
            statement = bins_statement(
                self.hierarchy,
                self.unit,
                vectors,
                nodes,
                types=types,
                again=relation.repeats(),
                codes=codes,
            )
            counted = BinCounts(vectors.bins, len(nodes.level), codes.parts if codes else None)
            if self.unit.user is not None:
                counted.add(relation.query(statement, self.progress))
                return counted.numbers
            with closing(relation.pieces(statement, self.progress)) as pieces:
                for piece in pieces:
                    counted.add_values(piece)
        return counted.numbers

    def magnitudes(self, searched: AutoBound) -> NDArray[np.int64]:
        """The number of records, or of users, in every bin of magnitudes from LEAST to LARGEST."""
        if is_spark(self.source):
            from dpframe.sources.spark_parts import magnitudes_by_spark

            table = magnitudes_by_spark(self.source, self.unit, searched)
        else:
            from dpframe.sources.spark_parts import magnitudes_statement

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


def _add_up(
    tables: Iterable[pa.Table], vectors: Sequence[Vector], nodes: ReportedNodes
) -> list[NDArray[np.object_]]:
    """The sum of the columns v0, v1, ... of tables, one array with a number per node for each."""
    out = [np.zeros(len(nodes.level), dtype=object) for _ in vectors]
    for table in tables:
        for i, total in enumerate(out):
            total += _numbers_by_node(table, "part", f"v{i}", nodes)
    return out


def _numbers_by_node(
    table: pa.Table, place: str, name: str, nodes: ReportedNodes
) -> NDArray[np.object_]:
    """The column ``name`` as one number per node, 0 where the table lacks the node."""
    _check_places(table, place)
    out = np.zeros(len(nodes.level), dtype=object)
    out[table[place].cast("int64").to_numpy()] = python_integers(table[name])
    return out


def _check_places(table: pa.Table | pa.RecordBatch, place: str) -> None:
    """Raise SourceError if a row has no place: another reading of the source had it."""
    if table[place].null_count:
        raise SourceError(
            "the source changed while it was read. Write what random(), or LIMIT without an "
            "order, returns to a table."
        )


NUMBERS = (*WHOLE, *REAL, "DECIMAL", "BOOLEAN", '"NULL"')
"""DuckDB's types, without parameters, whose values are added up."""

ADVICE: dict[tuple[str, ...], Advice] = {
    ("VARCHAR", "ENUM"): lambda df, sql: (
        f"Make numbers of it, in pandas pd.to_numeric({df}, errors='coerce'), in SQL "
        f"TRY_CAST({sql} AS DOUBLE)."
    ),
    ("INTERVAL",): lambda df, sql: (
        f"Seconds are {df}.dt.total_seconds() in pandas, epoch({sql}) in SQL."
    ),
}


def check_value_type(column: str, duckdb_type: str, *, text: bool = False) -> None:
    """Raise ColumnError unless the type of a column, which is public, is a type of numbers.

    ``text`` lets texts pass: a CSV file has nothing else.
    """
    if text and duckdb_type == "VARCHAR":
        return
    if outer_type(duckdb_type) not in NUMBERS:
        raise unreadable_type(
            "a measure adds up", column, duckdb_type, "numbers", ADVICE, "Name another column."
        )


BINNED: Mapping[ValueKind, tuple[tuple[str, ...], str]] = {
    "number": (NUMBERS, "numbers"),
    "time": ((*TIMES, '"NULL"'), "dates or times"),
    "duration": (("INTERVAL", '"NULL"'), "durations"),
}
"""The types that bins with bounds of each kind are of, and a word for them."""


def check_binned_type(measure: Measure, duckdb_type: str, *, text: bool = False) -> None:
    """Raise ColumnError unless the type of a column goes with the bounds of its bins, and
    ParameterError for bounds beyond the years of the type."""
    types, words = BINNED[measure.value]
    if (text and duckdb_type == "VARCHAR") or outer_type(duckdb_type) in types:
        ends = (measure.bins.edges[0], measure.bins.edges[-1])
        if duckdb_type.endswith("_NS") and max(map(abs, ends)) > LAST_NS:
            raise ParameterError(
                f"column {measure.column!r} counts nanoseconds, of which 64 bits hold the years "
                "1678 to 2261. Pass bounds in these years, or cast the column to TIMESTAMP."
            )
        return
    raise unreadable_type(
        f"{measure.spec.partition('(')[0]} with these bounds reads",
        str(measure.column),
        duckdb_type,
        words,
        {},
        "Pass bounds of its kind, such as 0, '2026-01-01' or '0s', or name another column.",
    )


LAST_NS = 9.2e9
"""The largest bound of times in nanoseconds, in seconds: these fit into 64 bits."""


def column_types(source: object, columns: Sequence[str]) -> dict[str, str]:
    """The types of columns; ColumnError for a column that a source lacks."""
    if is_spark(source):
        return dict(SparkFrame(source, tuple(columns)).types)
    with open_source(source, list(columns)) as relation:
        return relation_types(relation)


def check_value_columns(
    types: Mapping[str, str], measures: Sequence[Measure], *, text: bool = False
) -> tuple[str, ...]:
    """Raise ColumnError for a column whose values a measure cannot take; return the types of those
    that are put in bins, one a measure. ``text`` is as for :func:`check_value_type`."""
    read = []
    for measure in measures:
        column, kind = str(measure.column), types[str(measure.column)]
        if measure.is_binned:
            check_binned_type(measure, kind, text=text)
            read.append(kind)
        elif measure.kind != "distinct":
            check_value_type(column, kind, text=text)
    return tuple(read)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeasuredParts(RowParts):
    """Rows whose nodes or cells are counted. Sums of rows are taken later, once parts are known.

    ``sums`` names the sums that came with the counts: for records whose bounds are known before,
    all that vectors need. Other sums are then counted from ``source``. None if no sums came.
    ``users`` has the nodes of users if rounds select, and ``rows`` the rows of users if they are
    at hand.
    """

    counts: Counts
    sums: tuple[str, ...] | None
    users: UserNodes | None = None
    rows: KeyRows | None = None

    def parts(
        self, vectors: Sequence[Vector], nodes: ReportedNodes, places: Ints
    ) -> Sequence[Wholes]:
        """For every vector, an array with one number per node; ``places`` has the positions of
        ``nodes``, one column an axis."""
        if not vectors:
            return []
        if self.sums is not None and set(sums_of(vectors)) == set(self.sums) - {ROWS}:
            return _of_groups(self, vectors, nodes, places)
        if self.rows is not None and self.rows.has(vectors):
            types = self.counts.axes[0].types
            tables = self.rows.parts(self.hierarchy, types, vectors, nodes)
            return _add_up(tables, vectors, nodes)
        return self.of_rows(vectors, nodes)


def _of_groups(
    measured: MeasuredParts, vectors: Sequence[Vector], nodes: ReportedNodes, places: Ints
) -> list[Wholes]:
    """Vectors of records from the sums of groups; all records of a group are in one part."""
    counts, names = measured.counts, measured.sums or ()
    part = segments(counts, measured.hierarchy.kind_order, nodes.level, places)
    sums = {
        ROWS: shortest(counts.own_counts),
        **dict(zip(names, counts.own_sums, strict=True)),
    }
    held = {name: np.zeros(len(nodes.level), dtype=own.dtype) for name, own in sums.items()}
    for name, values in sums.items():
        np.add.at(held[name], part, values)
    return vectors_from_sums(held, vectors)


def vectors_from_sums(held: Mapping[str, Wholes], vectors: Sequence[Vector]) -> list[Wholes]:
    """Every vector, from the sums that ``sums_of`` names and the number of records, ``ROWS``."""
    out = []
    for v, place in zip(vectors, _vector_numbers(vectors), strict=True):
        if v.kind == "rows":
            out.append(held[ROWS])
        elif v.kind == "above":
            out.append(weighted_sum(1, held[f"x{place}"], -v.bounds.low, held[f"y{place}"]))
        elif v.kind == "below":
            out.append(weighted_sum(v.bounds.high, held[f"y{place}"], -1, held[f"x{place}"]))
        else:
            out.append(held[f"{OWN[v.kind]}{place}"])
    return out


ROWS = "rows_"
"""The name of the sum that counts records, where a measure decides which nodes are reported."""

OWN = {"sum": "x", "outside": "z"}
"""The first letter of the name of the sum that is a vector, by the vector's kind."""


def measure_parts(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    band: int,
    vectors: Sequence[Vector],
    *,
    listed: ListedNodes | ListedCells | None = None,
    progress: bool = False,
) -> MeasuredParts:
    """The counts that a rollup starts from. Private. ``vectors`` are those whose bounds are known.

    Raises ColumnError where a column cannot be read, or a listed key is no value of its column.
    """
    rows_later = hierarchy.has_cells and not is_spark(source)  # faster than sums of all groups
    sums = None if rows_later or unit.user is not None else sums_of(vectors)
    if sums is not None and unit.measured:
        sums[ROWS] = Summand(kind="row")  # the counts are of the measure that decides
    counts: Counts
    rows = list[KeyRows]()
    if isinstance(listed, ListedCells):
        if is_spark(source):
            raise ParameterError("Spark does not count listed cells. Pass frame.toArrow().")
        types = _hierarchy_column_types(source, hierarchy, unit)
        check_key_types(listed, hierarchy, types)
        counts, sums = replace(listed.counts, types=types), None
    elif unit.user is not None and listed is not None:
        counts = _empty_listed_tree(source, hierarchy, unit, listed)
    else:
        counts = exact_counts(
            source,
            hierarchy,
            unit,
            band,
            listed=listed,
            progress=progress,
            sums=sums,
            beside=() if rows_later else vector_columns(vectors),
            values=summands_of_users(vectors) if unit.user is not None else (),
            keep=rows.append,
        )
    return MeasuredParts(
        counts=counts,
        rows=rows[0] if rows else None,
        sums=None if sums is None else tuple(sums),
        source=source,
        hierarchy=hierarchy,
        unit=PrivacyUnit(user=unit.user),
        progress=progress,
    )


def user_parts(
    source: object,
    hierarchy: Hierarchy,
    unit: PrivacyUnit,
    most: int,
    shares: tuple[int, ...],
    columns: Sequence[str],
    *,
    progress: bool = False,
) -> MeasuredParts:
    """Users and their nodes, from which rounds select, with sums of ``columns``. Private.

    Other arguments are as for :func:`.user_nodes.user_nodes`, whose errors this raises.
    """
    users = user_nodes(source, hierarchy, unit, most, shares, columns, progress=progress)
    return MeasuredParts(
        counts=users.nodes.counts,
        sums=None,
        users=users,
        source=source,
        hierarchy=hierarchy,
        unit=PrivacyUnit(user=unit.user),
        progress=progress,
    )


def parts_counted_elsewhere(
    counts: Counts, sums: tuple[str, ...], hierarchy: Hierarchy
) -> MeasuredParts:
    """Counts of records by another engine, with all ``sums`` that the measures need."""
    return MeasuredParts(
        counts=counts,
        sums=sums,
        source=None,
        hierarchy=hierarchy,
        unit=PrivacyUnit(),
        progress=False,
    )


def sums_of(vectors: Sequence[Vector]) -> dict[str, Summand]:
    """The values of records that ``vectors`` need added up, by the name of the sum."""
    out = {}
    for v, place in zip(vectors, _vector_numbers(vectors), strict=True):
        if v.column is not None:
            one = partial(Summand, column=v.column, steps=v.bounds)
            if v.kind != "outside":
                out[f"x{place}"] = one(kind="value")
            if v.kind in ("above", "below"):
                out[f"y{place}"] = one(kind="present")
            if v.kind == "outside":
                out[f"z{place}"] = one(kind="outside")
    return out


def _vector_numbers(vectors: Sequence[Vector]) -> list[int]:
    """A number for each vector; vectors of one column with equal bounds share a number."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault((v.column, v.steps), len(numbers)) for v in vectors]


def _empty_listed_tree(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit, listed: ListedNodes
) -> CountTree:
    """A tree of the listed nodes with counts of 0: nothing is counted yet."""
    types = _hierarchy_column_types(source, hierarchy, unit)
    check_key_types(listed, hierarchy, types)
    return CountTree(
        level=listed.level,
        parent=listed.parent,
        count=np.zeros(len(listed.level), dtype=np.int64),
        keys=listed.keys,
        types=types,
    )


def _hierarchy_column_types(
    source: object, hierarchy: Hierarchy, unit: PrivacyUnit
) -> tuple[str, ...]:
    """Types of the hierarchy's columns; ColumnError for a column that cannot be read."""
    if is_spark(source):
        from dpframe.sources.exact_trees import check_spark

        found = check_spark(source, hierarchy, unit).types
        return tuple(found[c] for c in hierarchy.source_columns)
    users = [] if unit.user is None else [unit.user]
    with open_source(source, [*hierarchy.source_columns, *users]) as relation:
        seen = dict(zip(relation.columns, map(canonical, relation.types), strict=True))
    types = tuple(seen[c] for c in hierarchy.source_columns)
    hierarchy.check_types(types)
    for user in users:
        check_writable(user, seen[user])
    return types
