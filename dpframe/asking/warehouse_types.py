"""Check the types that a caller gives for the columns of a warehouse's statement."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from dpframe import _duck
from dpframe.asking.plan_protocols import Rollup
from dpframe.budget import PrivacyUnit
from dpframe.dialects import DIALECTS
from dpframe.errors import ColumnError, ParameterTypeError
from dpframe.periods import Period
from dpframe.sources.keys import check_key_types
from dpframe.sources.period_source import PeriodReading
from dpframe.sources.rollup_parts import check_value_type
from dpframe.sources.source_relations import canonical
from dpframe.sources.weights import check_weight_type

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
