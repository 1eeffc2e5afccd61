"""A plan for a warehouse: the statement that counts there, and what its result must satisfy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpframe._sql import identifier, literal
from dpframe.asking.call_arguments import known_choice
from dpframe.asking.data_scope import DataScope
from dpframe.asking.plan_protocols import MechanismInput, RemoteSource, Rollup
from dpframe.asking.question import Question
from dpframe.asking.release import Release, make_release
from dpframe.asking.warehouse_types import DUCKDB, TEXT
from dpframe.dialects import DIALECTS
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.ledger import Ledger
from dpframe.noise import random_seed
from dpframe.periods import Period
from dpframe.sources.candidates import candidate_tree
from dpframe.sources.cell_candidates import candidate_cells
from dpframe.sources.keys import listed_counts
from dpframe.sources.period_source import PeriodReading
from dpframe.sources.portable_groups import group_columns
from dpframe.sources.rollup_parts import parts_counted_elsewhere, sums_of
from dpframe.sources.rollup_statement import rollup_statement
from dpframe.sources.summands import Summand
from dpframe.vectors import Vector

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
