"""A plan and the statement that counts for it elsewhere; what its result must satisfy."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpframe import _duck
from dpframe._sql import identifier, literal
from dpframe.asking.about import About
from dpframe.asking.given import chosen
from dpframe.asking.plan import Counted, Rollup
from dpframe.asking.question import OF_RELEASE, OF_WAREHOUSE, Question
from dpframe.asking.release import Release, released
from dpframe.budget import PrivacyUnit
from dpframe.dialects import DIALECTS
from dpframe.errors import ColumnError, ParameterError, ParameterTypeError
from dpframe.ledger import Ledger
from dpframe.noise import random_seed
from dpframe.sources.added import Added
from dpframe.sources.candidates import candidate_tree
from dpframe.sources.keys import check_key_types, listed_counts
from dpframe.sources.measured import added_up, check_value_type, sums_of
from dpframe.sources.relations import canonical
from dpframe.sources.rollup_statement import rollup_statement
from dpframe.sources.weights import check_weight_type
from dpframe.vectors import Vector

DUCKDB = "duckdb"
TEXT = "VARCHAR"

EXACT = "current_setting('default_collation') IN ('', 'binary', 'C', 'c')"
INEXACT = "under this default_collation texts that differ count as one: RESET default_collation"
"""A session in which one record could change the texts of others gets no result, whatever the rows
are: every result has a root."""


@dataclass(frozen=True, kw_only=True)
class WarehousePlan:
    """The plan of a release whose counting another engine does, and what it must return.

    ``columns`` are those of the result, in any order: ``level`` and ``n``, whole numbers; ``t1``,
    ``t2``, ... texts, NULL for <invalid> and for what a level does not have; ``plan``, the
    fingerprint of this plan, and ``nodes``, the number of rows, in every row. Rows come in any
    order: one for the root (level 0), and every node of levels 1 to ``height`` with at least
    ``band`` units. Equal arguments make equal plans, so that another process can finish.

    Of a rollup of measures, ``vectors`` are what these add up; then there are further columns of
    whole numbers, as texts, before ``plan``.
    """

    plan: Rollup
    table: str
    dialect: str
    types: tuple[tuple[str, str], ...]
    question: str = "hhh"
    vectors: tuple[Vector, ...] | None = None

    @property
    def band(self) -> int:
        return self.plan.band

    @property
    def height(self) -> int:
        return self.plan.hierarchy.height

    @property
    def columns(self) -> tuple[str, ...]:
        texts = (f"t{i}" for i in range(1, self.plan.hierarchy.key_width + 1))
        return ("level", "n", *texts, *self.sums, "plan", "nodes")

    @cached_property
    def sums(self) -> dict[str, Added]:
        """What is added up, by the name of its column."""
        return sums_of(self.vectors or ())

    @property
    def source(self) -> str:
        """The source as the ledger and the receipt name it."""
        return f"{self.dialect} {self.table}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that is public of this plan; equal for equal plans."""
        facts = [1, self.plan.request, self.band, self.table, self.dialect, self.types]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    @property
    def hierarchy_types(self) -> tuple[str, ...]:
        types = dict(self.types)
        return tuple(types[c] for c in self.plan.hierarchy.source_columns)

    @property
    def weights_are_text(self) -> bool:
        return dict(self.types).get(self.plan.unit.weight or "") == TEXT

    def counted(self, candidates: object) -> Counted[Any]:
        """The tree of a result, or what a rollup measures on. Private.

        Raises SourceError where it is not as it must be."""
        tree = candidate_tree(
            candidates,
            self.plan.hierarchy,
            DIALECTS.get(self.dialect),
            self.hierarchy_types,
            columns=self.columns,
            band=self.band,
            fingerprint=self.fingerprint,
            sums={name: added.most for name, added in self.sums.items()},
        )
        if self.plan.listed is not None:
            tree = listed_counts(tree, self.plan.listed)
        if self.vectors is not None:
            private = added_up(tree, tuple(self.sums), self.plan.hierarchy)
            return Counted(private, tree.types)
        return Counted(tree, tree.types)


@dataclass(frozen=True, kw_only=True)
class RollupSql:
    """A statement for a warehouse, ``sql``, and the ``plan`` that its result belongs to.

    With users, the statement holds their secret seed; it is no part of the plan.
    """

    sql: str
    plan: WarehousePlan

    def __repr__(self) -> str:
        return f"RollupSql({self.plan.source}, {self.plan.plan.hierarchy.spec})"


def dialect_from(value: object) -> str:
    return chosen("dialect", value, (DUCKDB, *DIALECTS))


def source_from(value: object) -> str:
    if not isinstance(value, str):
        raise ParameterTypeError(
            f"table must be the name of a table in the warehouse, as text; got {value!r}."
        )
    text = value.strip()
    if not text or ";" in text:
        raise ParameterError(
            f"table ({value!r}) must be the name of a table as the warehouse's SQL writes it, or "
            "one query in parentheses, without a semicolon."
        )
    return text


def column_types(
    plan: Rollup, dialect: str, given: object, values: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Canonical types of the columns that the statement reads; text where none is given. Those of
    ``values``, which are added up, must be."""
    if given is not None and not isinstance(given, Mapping):
        raise ParameterTypeError(
            f"types must be a dict of column names and their types; got {type(given).__name__}."
        )
    named = dict(given or {})
    unit, hierarchy = plan.unit, plan.hierarchy
    beside = [column for column in (unit.user, unit.weight) if column is not None]
    read = list(dict.fromkeys([*hierarchy.source_columns, *beside, *values]))
    _check_names(list(named), read)
    found = {}
    for column in read:
        found[column] = TEXT
        if column in named:
            found[column] = _canonical(dialect, column, named[column])
    hierarchy.check_types(tuple(found[c] for c in hierarchy.source_columns))
    for column in values:
        if column not in named:
            raise ColumnError(
                f"types lacks {column!r}, which is added up: say its type, as in "
                f"types={{{column!r}: 'double'}}."
            )
        check_value_type(column, found[column])
    if unit.weight is not None:
        _check_weight(unit, found[unit.weight], given=unit.weight in named)
    if plan.listed is not None:
        types = tuple(found[c] for c in hierarchy.source_columns)
        for column, kind in zip(hierarchy.source_columns, types, strict=True):
            if hierarchy.kind == "columns" and kind == "DECIMAL":
                raise ColumnError(
                    f"keys of column {column!r} of decimals are told by their digits: give these, "
                    f"as in types={{{column!r}: 'decimal(10,2)'}}."
                )
        check_key_types(plan.listed, hierarchy, types)
    return tuple(found.items())


def _check_weight(unit: PrivacyUnit, kind: str, *, given: bool) -> None:
    """The type of a weight must be said: read as text, fractions would count 0 unnoticed."""
    column = unit.weight
    if not given:
        raise ColumnError(
            f"types lacks {column!r}, the weight: say its type, as in "
            f"types={{{column!r}: 'bigint'}}. A weight is a whole number; floating-point numbers "
            "and decimals are rounded to whole units first."
        )
    if kind == "DECIMAL":
        raise ColumnError(
            f"column {column!r} has type DECIMAL, which does not say that it holds whole numbers: "
            f"if it does, give its digits, as in types={{{column!r}: 'decimal(38,0)'}}."
        )
    check_weight_type(unit, kind, text=True)


def _check_names(named: list[object], read: list[str]) -> None:
    """Refuse what looks like a mistake in the name of a column that has no type; others may be
    there, as in the schema of a whole table."""
    if not all(isinstance(column, str) for column in named):
        raise ParameterTypeError("types must be a dict of names of columns, as text.")
    others = {str(column).lower(): column for column in named if column not in read}
    for column in read:
        near = difflib.get_close_matches(column.lower(), others, n=1, cutoff=0.8)
        if column not in named and near:
            raise ColumnError(
                f"types has {others[near[0]]!r}, and not {column!r}, which the statement reads: "
                "write names of columns as the hierarchy does."
            )


def _canonical(dialect: str, column: str, name: object) -> str:
    if not isinstance(name, str):
        raise ParameterTypeError(
            f"types: the type of column {column!r} must be text, such as 'double'; got {name!r}."
        )
    if dialect == DUCKDB:
        found = canonical(_duck.type_name(name) or "")
    else:
        found = DIALECTS[dialect].canonical(name)
    if not found:
        raise ColumnError(
            f"types: column {column!r} has type {name!r}, which dpframe does not read in "
            f"{dialect}. It reads texts, booleans, numbers, dates and timestamps: cast the column "
            "in a view, or in table= as a query in parentheses."
        )
    return found


def statement(plan: WarehousePlan) -> RollupSql:
    """The text, with a fresh secret seed."""
    inner, types = plan.plan, dict(plan.types)
    unit = inner.unit
    seed = random_seed()
    dialect = DIALECTS.get(plan.dialect)
    view = f"{plan.table} AS source_rows"
    nodes = "count(*) OVER ()"
    if dialect is None:
        nodes = f"CASE WHEN {EXACT} THEN {nodes} ELSE error({literal(INEXACT)}) END"
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
        only=inner.listed,
        dialect=dialect,
        extra={"plan": f"'{plan.fingerprint}'", "nodes": nodes},
        sums=plan.sums,
        value_types=types,
    )
    return RollupSql(sql=sql, plan=plan)


def finished(
    question: Question[Any, Any],
    arguments: Mapping[str, object],
    *,
    ledger: Ledger | None,
    name: str | None,
    about: About,
) -> tuple[Any, Release]:
    """The plan and the release of candidates; ``arguments`` are all those of the call."""
    for missing in ("candidates", "plan"):
        if arguments[missing] is None:
            raise ParameterError(
                f"{missing} is missing: candidates= is the result of a statement of "
                f"dp.{question.rollup}, and plan= the plan that belongs to it."
            )
    plan = arguments["plan"]
    if not isinstance(plan, WarehousePlan):
        raise ParameterTypeError(
            f"plan must be the plan of dp.{question.rollup}; got {type(plan).__name__}."
        )
    if plan.question != question.name:
        raise ParameterError(
            f"plan is one for dp.{plan.question}: pass it there, or use dp.{question.rollup}."
        )
    for given, value in arguments.items():
        if given in (*OF_RELEASE, *OF_WAREHOUSE):
            continue
        if given == "period" and value is not None:
            raise ParameterError(
                "period does not go with candidates=, which are counted already: make the plan of "
                "a query in parentheses as table, or pass the rows themselves."
            )
        if value is not question.parameters[given].default:
            raise ParameterError(
                f"{given} must be left out beside candidates= and plan=: the plan says it. Make "
                f"another plan with dp.{question.rollup}."
            )
    inner = question.fitted(plan.plan, plan)
    release = released(
        lambda: plan.counted(arguments["candidates"]),
        inner,
        source=plan.source,
        ledger=ledger,
        name=name,
        about=about,
    )
    return inner, release
