"""A plan for a warehouse: its statement, types of columns, and what the result must satisfy."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpframe import _duck
from dpframe.asking.call_arguments import known_choice
from dpframe.asking.level_plan import MechanismInput, RemoteSource, Rollup
from dpframe.asking.question import Question
from dpframe.asking.release import DataScope, Release, make_release
from dpframe.budget import PrivacyUnit
from dpframe.common.texts import identifier, literal
from dpframe.dialects import DIALECTS
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.ledger import Ledger
from dpframe.measures.measure import Vector
from dpframe.noise import random_seed
from dpframe.periods import Period
from dpframe.sources.candidates import candidate_cells, candidate_tree
from dpframe.sources.keys import check_key_types, listed_counts
from dpframe.sources.portable_sql import Summand, group_columns
from dpframe.sources.rollup_parts import check_value_type, parts_counted_elsewhere, sums_of
from dpframe.sources.rollup_statement import check_weight_type, rollup_statement
from dpframe.sources.source_relations import PeriodReading, canonical

DUCKDB = "duckdb"
TEXT = "VARCHAR"


def column_types(
    plan: Rollup,
    dialect: str,
    given: object,
    values: Sequence[str] = (),
    period: Period | None = None,
) -> tuple[tuple[str, str], ...]:
    """Return the canonical types of the columns that the statement reads; the default is text.

    The types of ``values``, which are added up, and of the times of a ``period`` must be given.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ParameterTypeError(
            f"types must be a dict of column types; got {type(given).__name__}."
        )
    named = dict(given or {})
    unit, hierarchy = plan.unit, plan.hierarchy
    beside = [column for column in (unit.user, unit.weight) if column is not None]
    times = [] if period is None else [period.column]
    read = list(dict.fromkeys([*hierarchy.source_columns, *beside, *values, *times]))
    _check_names(list(named), read)
    found = {}
    for column in read:
        found[column] = TEXT
        if column in named:
            found[column] = _canonical_type(dialect, column, named[column])
    hierarchy.check_types(tuple(found[c] for c in hierarchy.source_columns))
    for column in values:
        if column not in named:
            raise ColumnError(
                f"types lacks {column!r}, a measure. Add, for example, "
                f"types={{{column!r}: 'double'}}."
            )
        check_value_type(column, found[column])
    if period is not None:
        _check_times(period, found[period.column], dialect, given=period.column in named)
    if unit.weight is not None:
        _check_weight(unit, found[unit.weight], given=unit.weight in named)
    if plan.listed_keys is not None:
        types = tuple(found[c] for c in hierarchy.source_columns)
        for column, kind in zip(hierarchy.source_columns, types, strict=True):
            if hierarchy.kind == "columns" and kind == "DECIMAL":
                raise ColumnError(
                    f"decimal keys of {column!r} need digits, as in "
                    f"types={{{column!r}: 'decimal(10,2)'}}."
                )
        check_key_types(plan.listed_keys, hierarchy, types)
    return tuple(found.items())


def _check_weight(unit: PrivacyUnit, kind: str, *, given: bool) -> None:
    """Check the type of a weight. The caller must give it: read as text, fractions would count 0
    unnoticed."""
    column = unit.weight
    if not given:
        raise ColumnError(
            f"types lacks {column!r}, the weight. Add, for example, types={{{column!r}: 'bigint'}}."
        )
    if kind == "DECIMAL":
        raise ColumnError(
            f"column {column!r} has type DECIMAL, which may hold fractions. If it does not, give "
            f"digits, as in types={{{column!r}: 'decimal(38,0)'}}."
        )
    check_weight_type(unit, kind, text=True)


def _check_times(period: Period, kind: str, dialect: str, *, given: bool) -> None:
    """Check the type of times. The caller must give it: the type decides how times are compared,
    and the axis of a ledger."""
    column = period.column
    if not given:
        raise ColumnError(
            f"types lacks {column!r} of period. Add, for example, "
            f"types={{{column!r}: 'timestamp'}}."
        )
    reading = PeriodReading(period=period, kind=kind)
    if reading.how == "text" and dialect != DUCKDB:
        raise ColumnError(
            f"column {column!r} is text, no times in {dialect}. Cast it to a date or timestamp, in "
            "a view or a query as table=."
        )
    reading.check_ended()


def _check_names(named: list[object], read: list[str]) -> None:
    """Refuse a name that looks like a misspelt column without a type.

    Types of other columns are allowed, as in the schema of a whole table.
    """
    if not all(isinstance(column, str) for column in named):
        raise ParameterTypeError("types must name columns as text.")
    others = {str(column).lower(): column for column in named if column not in read}
    for column in read:
        near = difflib.get_close_matches(column.lower(), others, n=1, cutoff=0.8)
        if column not in named and near:
            raise ColumnError(
                f"types has {others[near[0]]!r}, and not {column!r}. Write names as the hierarchy "
                "does."
            )


def _canonical_type(dialect: str, column: str, name: object) -> str:
    if not isinstance(name, str):
        raise ParameterTypeError(f"types: type of column {column!r} must be text; got {name!r}.")
    if dialect == DUCKDB:
        found = canonical(_duck.type_name(name) or "")
    else:
        found = DIALECTS[dialect].canonical(name)
    if not found:
        raise ColumnError(
            f"types: column {column!r} has type {name!r}, unknown in {dialect}. Cast it to text, "
            "boolean, number, date or timestamp, in a view or a query as table=."
        )
    return found


EXACT_COLLATION = "current_setting('default_collation') IN ('', 'binary', 'C', 'c')"
INEXACT_COLLATION = (
    "under this default_collation texts that differ count as one: RESET default_collation"
)
"""Under such a collation one record could change the texts of others. The session then gets no
result, whatever the rows are: the condition is in every row, and every result has a root."""


@dataclass(frozen=True, kw_only=True)
class WarehousePlan(RemoteSource):
    """The plan of a release for which another engine counts, and what the engine must return.

    ``columns`` names the columns of the result, in any order: ``level`` and ``n``, whole numbers;
    ``t1``, ``t2``, ... texts, NULL for <invalid> and for keys that a level does not have; ``plan``,
    the fingerprint of this plan, and ``nodes``, the number of rows, in every row. Rows come in any
    order: one row for the root (level 0), and one for every node of levels 1 to ``height`` with at
    least ``band`` units. Equal arguments make equal plans, so another process can make the release.

    With several hierarchies at once, rows are groups of records, and ``l1``, ``l2``, ... replace
    ``level``. Every record is in one group: the group of the finest nodes above the record with at
    least ``band`` units. Level 0 stands for all of a dimension; one row has level 0 everywhere.

    In a rollup of measures, ``vectors`` holds what the measures add up. The result then has further
    columns of whole numbers, as texts, before ``plan``.
    """

    plan: Rollup
    table: str
    dialect: str
    types: tuple[tuple[str, str], ...]
    question: str = "hhh"
    vectors: tuple[Vector, ...] | None = None
    period: Period | None = None

    @property
    def reading(self) -> PeriodReading | None:
        """How the column of times of the period is read; None without a period."""
        if self.period is None:
            return None
        return PeriodReading(period=self.period, kind=dict(self.types)[self.period.column])

    @property
    def band(self) -> int:
        return self.plan.band

    @property
    def height(self) -> int:
        return self.plan.hierarchy.height

    @property
    def columns(self) -> tuple[str, ...]:
        hierarchy = self.plan.hierarchy
        named = tuple(f"t{i}" for i in range(1, hierarchy.key_width + 1))
        named = ("level", "n", *named)
        if hierarchy.has_cells:
            named = ("n", *group_columns(len(hierarchy.dimensions), hierarchy.key_width))
        return (*named, *self.sums, "plan", "nodes")

    @cached_property
    def sums(self) -> dict[str, Summand]:
        """What the statement adds up, by the name of its column."""
        return sums_of(self.vectors or ())

    @property
    def source(self) -> str:
        """The source as the ledger and the receipt name it."""
        return f"{self.dialect} {self.table}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of this plan's public facts; equal for equal plans."""
        facts: list[Any] = [1, self.plan.request, self.band, self.table, self.dialect, self.types]
        if self.period is not None:
            facts.append(self.period.request)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    @property
    def hierarchy_types(self) -> tuple[str, ...]:
        types = dict(self.types)
        return tuple(types[c] for c in self.plan.hierarchy.source_columns)

    @property
    def weights_are_text(self) -> bool:
        return dict(self.types).get(self.plan.unit.weight or "") == TEXT

    def counts_of_result(self, candidates: object) -> MechanismInput[Any]:
        """Return the counts in a result, or what a rollup measures on. Private.

        Raises SourceError if the result is not what the plan asks for.
        """
        hierarchy, dialect = self.plan.hierarchy, DIALECTS.get(self.dialect)
        facts: dict[str, Any] = {
            "columns": self.columns,
            "band": self.band,
            "fingerprint": self.fingerprint,
            "sums": {name: added.most for name, added in self.sums.items()},
        }
        read = candidate_cells if hierarchy.has_cells else candidate_tree
        counts = read(candidates, hierarchy, dialect, self.hierarchy_types, **facts)
        if self.plan.listed_keys is not None:
            counts = listed_counts(counts.axes[0], self.plan.listed_keys)
        if self.vectors is None:
            return MechanismInput(counts, counts.types)
        private = parts_counted_elsewhere(counts, tuple(self.sums), hierarchy)
        return MechanismInput(private, counts.types)


@dataclass(frozen=True, kw_only=True)
class RollupSql:
    """A statement for a warehouse, ``sql``, and the ``plan`` that its result belongs to.

    With users, the statement holds a secret seed, which is no part of the plan.
    """

    sql: str
    plan: WarehousePlan

    def __repr__(self) -> str:
        return f"RollupSql({self.plan.source}, {self.plan.plan.hierarchy.spec})"


def dialect_from(value: object) -> str:
    return known_choice("dialect", value, (DUCKDB, *DIALECTS))


def warehouse_table(value: object) -> str:
    if not isinstance(value, str):
        raise ParameterTypeError(f"table must be a name, as text; got {value!r}.")
    text = value.strip()
    if not text or ";" in text:
        raise ParameterError(
            f"table ({value!r}) must be one table or query without a semicolon. Put a query in "
            "parentheses."
        )
    return text


def warehouse_statement(plan: WarehousePlan) -> RollupSql:
    """Return the plan's statement, with a fresh secret seed."""
    inner, types = plan.plan, dict(plan.types)
    unit = inner.unit
    seed = random_seed()
    dialect = DIALECTS.get(plan.dialect)
    view = f"{_table_in_period(plan)} AS source_rows"
    nodes = "count(*) OVER ()"
    if dialect is None:
        nodes = (
            f"CASE WHEN {EXACT_COLLATION} THEN {nodes} ELSE error({literal(INEXACT_COLLATION)}) END"
        )
        cast = [
            f"TRY_CAST({identifier(c)} AS {kind}) AS {identifier(c)}"
            for c, kind in plan.types
            if kind != "ENUM" and (kind != TEXT or c != unit.weight)
        ]
        view = f"(SELECT * REPLACE ({', '.join(cast)}) FROM {view})" if cast else view
    sql = rollup_statement(
        inner.hierarchy,
        unit,
        band=inner.band,
        types=plan.hierarchy_types,
        seed=seed,
        user_type=types.get(unit.user or ""),
        weight_type=types.get(unit.weight or ""),
        view=view,
        only=inner.listed_keys,
        dialect=dialect,
        extra={"plan": f"'{plan.fingerprint}'", "nodes": nodes},
        sums=plan.sums,
        value_types=types,
    )
    return RollupSql(sql=sql, plan=plan)


def _table_in_period(plan: WarehousePlan) -> str:
    """Return the table, or a query for its rows of the period."""
    reading, dialect = plan.reading, DIALECTS.get(plan.dialect)
    if reading is None:
        return plan.table
    if dialect is None:
        condition = reading.condition()
    else:
        column, bounds = dialect.identifier(reading.period.column), reading.bounds
        condition = f"{column} IS NULL"
        if bounds is not None:
            start, end = (dialect.moment(f"{at:%Y-%m-%d %H:%M:%S}", reading.kind) for at in bounds)
            condition = f"{column} >= {start} AND {column} < {end}"
    return f"(SELECT * FROM {plan.table} AS all_rows WHERE {condition})"


def release_candidates(
    question: Question[Any, Any],
    candidates: object,
    plan: object,
    others: Mapping[str, object],
    *,
    ledger: Ledger | None,
    name: str | None,
    about: DataScope,
) -> tuple[Any, Release]:
    """Return the plan and the release of candidates.

    ``others`` holds the arguments that the plan already fixes. Raises ParameterError if the caller
    gave one of them.
    """
    for missing, value in (("candidates", candidates), ("plan", plan)):
        if value is None:
            raise ParameterError(
                f"{missing} is missing. Pass candidates=, the statement's result, and plan=, both "
                f"of dp.{question.rollup}."
            )
    if not isinstance(plan, WarehousePlan):
        raise ParameterTypeError(
            f"plan must be the plan of dp.{question.rollup}; got {type(plan).__name__}."
        )
    if plan.question != question.name:
        raise ParameterError(
            f"plan is for dp.{plan.question}. Pass it there, or use dp.{question.rollup}."
        )
    for given, value in others.items():
        if given == "period" and value is not None:
            raise ParameterError(
                f"period does not go with candidates=. Pass it to dp.{question.rollup}."
            )
        if value is not question.parameters[given].default:
            raise ParameterError(
                f"{given} must be left out beside plan=. Make another plan with "
                f"dp.{question.rollup}."
            )
    inner = question.fitted(plan.plan, plan)
    about = replace(about, period=plan.period, reading=plan.reading)
    release = make_release(
        lambda: plan.counts_of_result(candidates),
        inner,
        source=plan.source,
        ledger=ledger,
        name=name,
        about=about,
    )
    return inner, release
