"""Aggregates of a query as measures, whose texts a rollup takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpframe.common.calls import nearest_name
from dpframe.doors.sql.query_rows import RowReader
from dpframe.doors.sql.query_tree import (
    Tree,
    arguments,
    bare,
    column_name,
    constant,
    expression_text,
    make_case,
    make_column,
    make_constant,
    make_function,
    make_operator,
    named_arguments,
    read_query,
    rebuild,
    same_expression,
)
from dpframe.errors import ParameterError
from dpframe.measures.measure import AT_BOUND_END, BINS_END, quote_column

BOUNDS_ARGUMENTS = ("contribution_bounds_per_group", "contribution_bounds_per_row")
"""BigQuery's arguments of an aggregate with the bounds of its values."""

EACH_ROW = ("*", "count(*)")
"""Names of the bounds of a user's number of rows."""

Bounds = Mapping[str, tuple[Any, Any]]
"""Bounds of values by what they are of: a column, an aggregate as text, or a name of the result."""

INSTEAD = {
    "min": "a least value is one record's. Ask quantile_cont(column, 0.01).",
    "max": "a largest value is one record's. Ask quantile_cont(column, 0.99).",
    **dict.fromkeys(
        ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "mad"),
        "a spread is not measured. Ask for quantiles: quantile_cont(column, 0.9).",
    ),
}
"""What to ask instead of an aggregate, by its name."""

OTHER_NAMES = {"countif": "count_if", "mean": "avg", "approx_count_distinct": "count"}

QUANTILES = ("median", "quantile", "quantile_cont", "quantile_disc", "approx_quantile")

LONGEST_NAME, LONGEST_HINT = 60, 40

RESERVED = frozenset(("level", "prefix", "residual", "count", "lower", "upper", "record"))
"""Names of columns that results have already."""


def without_bounds(part: Tree) -> Tree | None:
    """A call without BigQuery's bounds, which DuckDB's functions do not take; None for others."""
    if part.get("class") != "FUNCTION" or not {*BOUNDS_ARGUMENTS} & {*named_arguments(part)}:
        return None
    kept = [one for one in part["arguments"] if one["name"].lower() not in BOUNDS_ARGUMENTS]
    return {**part, "arguments": rebuild(kept, without_bounds)}


ENDS = ("", "_level", "_lower", "_upper", BINS_END, AT_BOUND_END)
"""What follows names of keys and measures in names of further columns."""


def _columns_of(*names: str) -> set[str]:
    return {f"{one.casefold()}{end}" for one in names for end in ENDS}


def free_name(name: str, taken: Sequence[str]) -> str:
    """A short name like ``name`` that no other column has, with whatever follows it."""
    known = _columns_of(*taken, *RESERVED)
    short = free = name[:LONGEST_NAME] or "value"
    number = 1
    while _columns_of(free) & known:
        number += 1
        free = f"{short} {number}"
    return free


@dataclass(frozen=True, slots=True)
class QueryMeasure:
    """A measure as text; ``whole`` says that the released number is rounded to a whole one, and
    ``of`` names the column of values where the number has its type."""

    text: str
    whole: bool = False
    of: str | None = None


@dataclass(slots=True)
class MeasureReader:
    """Reads aggregates; ``values`` are columns of the row query, by name."""

    rows: RowReader
    names: Mapping[int, str]
    """Names of the result's columns, by the ``id`` of what the query selects there."""
    keys: Sequence[str]
    user: str | None
    bounds: Bounds
    table: Tree
    """The tables of rows that aggregates are of."""
    values: dict[str, Tree] = field(default_factory=dict)
    measures: dict[str, QueryMeasure] = field(default_factory=dict)
    calls: dict[str, Tree] = field(default_factory=dict)
    """The aggregate of each measure, by its name."""
    answered: list[tuple[Any, int]] = field(default_factory=list)
    """Aggregates, and the numbers of the measures that answer them."""

    def number(self, call: Tree) -> int:
        """The number of the measure that answers an aggregate, counted from 0."""
        key = bare(call)
        for known, number in self.answered:
            if known == key:
                return number
        self._check_roles(call)
        name = self._read(call)
        number = [*self.measures].index(name)
        self.answered.append((key, number))
        return number

    def _refuse(self, call: Tree, why: str) -> ParameterError:
        return self.rows.query.refuse(call, why)

    def _check_roles(self, call: Tree) -> None:
        """Raise ParameterError if the policy keeps a column out of an aggregate, or of a condition
        in it. Users are counted everywhere."""
        name, of = call["function_name"].lower(), [*arguments(call)]
        of += [one["expression"] for one in call["order_bys"]["orders"]]
        conditions = [call["filter"]] if call["filter"] else []
        if name in ("count_if", "countif"):
            conditions, of = conditions + of, []

        def keep(part: Tree) -> Tree | None:
            if part.get("class") != "CASE":
                return None
            checks = part["case_checks"]
            conditions.extend(one["when_expr"] for one in checks)
            ends = [*(one["then_expr"] for one in checks), part["else_expr"]]
            return {"children": rebuild(ends, keep)}

        if not (call["distinct"] and self.rows.is_user(column_name(of[0]) or "")):
            for part in of:
                self.rows.check_role(part, "measure", self.table, made=rebuild(part, keep))
        for part in conditions:
            self.rows.check_role(part, "filter", self.table)

    def _read(self, call: Tree) -> str:
        called = call["function_name"].lower()
        name, given = OTHER_NAMES.get(called, called), arguments(call)
        distinct = call["distinct"] or called == "approx_count_distinct"
        ones = [one["class"] == "CONSTANT" and constant(one) is not None for one in given]
        if name in ("count_star", "count") and all(ones) and not distinct:
            return self._count(call)
        if name in QUANTILES and given and not distinct:
            return self._quantile(call, name, given)
        if name in ("count", "count_if", "sum", "avg") and len(given) == 1:
            (of,) = given
            if name == "count" and distinct:
                return self._distinct(call, of)
            if name == "count":
                return self._ones(call, make_operator("OPERATOR_IS_NOT_NULL", of))
            if name == "count_if" and not distinct:
                return self._ones(call, of)
            if not distinct:
                return self._sum(call, of, "sum" if name == "sum" else "mean")
        if distinct:
            why = "only count(DISTINCT column) is measured. Leave DISTINCT out."
        else:
            why = f"{name} has no private form. Ask count, sum, avg, median or quantile_cont."
        raise self._refuse(call, INSTEAD.get(name, why))

    # -- one measure each ---------------------------------------------------------------------

    def _count(self, call: Tree) -> str:
        if self.user is None and not call["filter"]:
            return self._add(call, QueryMeasure("count", True))
        return self._ones(call, None)

    def _ones(self, call: Tree, condition: Tree | None) -> str:
        """Rows for which a condition holds: the sum of 1 over them."""
        value = make_constant(1)
        if condition is not None:
            value = make_case(self.rows.condition(condition), value)
        upper: Any = 1
        if self.user is not None:
            given = self._given_bounds(call, *map(tree_of, EACH_ROW))
            upper = "auto" if given is None else given[1]
        column = self._value(self._filtered_value(call, value), self._result_name(call))
        text = f"sum({quote_column(column)}, 0, {bound_text(upper)})"
        return self._add(call, QueryMeasure(text, True))

    def _sum(self, call: Tree, of: Tree, kind: str) -> str:
        lower, upper = self._bounds(call, of, kind)
        if any(isinstance(one, str) and one != "auto" for one in (lower, upper)):
            raise self._refuse(call, "bounds of sums and means are numbers. Write (0, 500).")
        if kind == "sum" and self.user is not None:  # of what a user has at a node: 0 elsewhere
            lower, upper = (_with_zero(lower, min), _with_zero(upper, max))
        column = self._value(self._filtered_value(call, self.rows.total(of)), plain_name(of))
        text = f"{kind}({quote_column(column)}, {bound_text(lower)}, {bound_text(upper)})"
        return self._add(call, QueryMeasure(text))

    def _distinct(self, call: Tree, of: Tree) -> str:
        value, name = self.rows.total(of), column_name(of) or ""
        of_users = self.user is not None and self.rows.is_user(name)
        if of_users and not call["filter"]:
            return self._add(call, QueryMeasure("count", True))
        column = self._value(self._filtered_value(call, value), plain_name(of))
        return self._add(call, QueryMeasure(f"distinct({quote_column(column)})", True))

    def _quantile(self, call: Tree, name: str, given: list[Tree]) -> str:
        orders = call["order_bys"]["orders"]
        if orders:  # percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)
            if orders[0]["type"] == "DESCENDING" or len(orders) > 1:
                raise self._refuse(call, "order by one value, ascending.")
            given = [orders[0]["expression"], *given]
        at: Any = 0.5 if name == "median" and len(given) == 1 else None
        if len(given) == 2 and name != "median":
            at = constant(given[1])
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 < at < 1:
            raise self._refuse(call, "a quantile needs a column and one number between 0 and 1.")
        of = given[0]
        lower, upper = self._bounds(call, of, name)
        column = self._value(self._filtered_value(call, self.rows.total(of)), plain_name(of))
        own = f"{quote_column(column)}, {at!r}, {bound_text(lower)}, {bound_text(upper)}"
        return self._add(call, QueryMeasure(f"quantile({own})", of=column))

    # -- names, values and bounds -------------------------------------------------------------

    def _result_name(self, call: Tree) -> str:
        """The name of an aggregate in the result, or its text."""
        return self.names.get(id(call)) or expression_text(rebuild(call, without_bounds))

    def _add(self, call: Tree, measure: QueryMeasure) -> str:
        for name, known in self.measures.items():
            if known == measure:
                return name
        name = free_name(self._result_name(call), [*self.keys, *self.measures])
        self.measures[name], self.calls[name] = measure, call
        return name

    def _value(self, tree: Tree, name: str) -> str:
        """The column of the row query with an expression."""
        for known, other in self.values.items():
            if bare(other) == bare(tree):
                return known
        users = [self.user] if self.user is not None else []
        name = free_name(name, [*self.keys, *self.values, *users])
        self.values[name] = tree
        return name

    def _filtered_value(self, call: Tree, value: Tree) -> Tree:
        """A value where the condition of FILTER holds, and NULL elsewhere."""
        condition = call["filter"]
        return value if not condition else make_case(self.rows.condition(condition), value)

    def _bounds(self, call: Tree, of: Tree, kind: str) -> tuple[Any, Any]:
        found = self._given_bounds(call, of) or self._bounds_of_constants(call, of, kind)
        if found is None:
            whose = "a row has" if self.user is None else "a user has at a row of the result"
            advice = "Ask who wrote the policy." if self.rows.roles else self._advice(call, of)
            raise self._refuse(
                call, f"bounds are missing, the least and most that {whose}. {advice}"
            )
        if all(isinstance(one, int | float) for one in found) and not found[0] < found[1]:
            raise self._refuse(call, "its lower bound must be below its upper bound.")
        return found

    def _advice(self, call: Tree, of: Tree) -> str:
        """How to pass bounds of a value: by its column or text, or by the name of the result's."""
        text = plain_name(of)
        near = nearest_name(text, [*self.bounds])
        if near is not None:
            return f"They are there for {near!r}: write {text!r}."
        inside = tree_of(text[1:-1])
        text = text[1:-1] if same_expression(inside, of) else text
        name = min((text, self.names.get(id(call), text)), key=len)
        if len(name) > LONGEST_HINT:
            return "Pass bounds by its text, or by the name after AS."
        return f"Pass bounds={{{name!r}: (LOWEST, HIGHEST)}}."

    def _bounds_of_constants(self, call: Tree, of: Tree, kind: str) -> tuple[Any, Any] | None:
        """Bounds that the query says itself: ``CASE WHEN ... THEN 1 ELSE 0 END`` is 0 or 1."""
        values = constants(of)
        if not values:
            return None
        lower, upper = min(values), max(values)
        if lower == upper:  # sum(1), as Tableau counts rows
            lower, upper = min(lower, 0), max(upper, 0)
        if kind != "sum" or self.user is None:
            return lower, upper
        rows = self._given_bounds(call, *map(tree_of, EACH_ROW))
        if rows is not None and not isinstance(rows[1], str):
            return min(lower, 0) * rows[1], max(upper, 0) * rows[1]
        return (0, "auto") if lower >= 0 else None

    def _given_bounds(self, call: Tree, *others: Tree) -> tuple[Any, Any] | None:
        """Bounds from the query, or from the arguments: of the aggregate before what it is of."""
        given = named_arguments(call)
        if given:
            ((name, row), *more) = given.items()
            ends = [constant(one) for one in arguments(row)]
            if more or name not in BOUNDS_ARGUMENTS or len(ends) != 2 or None in ends:
                raise self._refuse(call, f"write {BOUNDS_ARGUMENTS[0]} => (0, 500), and no more.")
            return ends[0], ends[1]
        shown = self._result_name(call).casefold()
        for name, pair in self.bounds.items():
            if name.casefold() == shown:
                return pair
        read = [(tree_of(name), pair) for name, pair in self.bounds.items()]
        for wanted in (rebuild(call, without_bounds), *others):
            for tree, pair in read:
                if same_expression(tree, wanted):
                    return pair
        return None


def plain_name(part: Tree) -> str:
    """The name of a column, or the text of another expression."""
    return column_name(part) or expression_text(part)


def tree_of(text: str) -> Tree:
    """The tree of an expression; a column of this name if it is none."""
    try:
        found: Tree = read_query(f"SELECT {text}").tree["select_list"][0]
    except (ParameterError, KeyError):
        return make_column(text)
    return make_column(text) if found["alias"] else found  # a name of two words


def constants(part: Tree) -> list[int | float] | None:
    """The numbers that an expression of constants can be; None for other expressions."""
    if part["class"] == "CASE":
        ends = [*(one["then_expr"] for one in part["case_checks"]), part["else_expr"]]
        found = [constants(one) for one in ends if one]
        if any(one is None for one in found):
            return None
        return [value for one in found for value in one or []]
    if part.get("literal", {}).get("kind") == "NULL_LITERAL":
        return []
    value = None if part["class"] == "CAST" else constant(part)  # a cast can round
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else None


def _with_zero(bound: Any, extreme: Any) -> Any:
    return bound if isinstance(bound, str) else extreme(bound, 0)


def bound_text(bound: Any) -> str:
    """A bound as the text of a measure has it: a number, "auto", a date or a duration."""
    if isinstance(bound, str) and not re.fullmatch(r"[\w.:+\- ]{1,40}", bound):
        raise ParameterError(f"bound {bound[:40]!r} is no number, date or 'auto'.")
    return repr(float(bound)) if isinstance(bound, float) else str(bound)


# -- intervals -----------------------------------------------------------------------------------

MONOTONE = ("round", "floor", "ceil", "ceiling", "trunc")
SIGNED = ("+", "-", "*", "/")


def interval_columns(item: Tree, name: str) -> list[Tree]:
    """Columns for the ends of an item's interval, if it is monotone in one aggregate."""
    number = _only_measure(item)
    if number is None:
        return []

    def ends(end: str) -> Tree:
        return {
            **rebuild(
                item, lambda p: make_column(f"{number}{end}") if column_name(p) == number else None
            ),
            "alias": "",
        }

    lower, upper = ends("_lower"), ends("_upper")
    return [
        make_function("least", lower, upper, alias=f"{name}_lower"),
        make_function("greatest", lower, upper, alias=f"{name}_upper"),
    ]


def _only_measure(part: Tree) -> str | None:
    """The released number in which an expression is monotone; None if it is not."""
    kind, name = part["class"], column_name(part)
    if name is not None:
        return name if name[0] == "m" and name[1:].isdigit() else None
    if kind == "CAST":
        return _only_measure(part["child"])
    inside: list[Tree] = []
    if kind == "FUNCTION" and part["function_name"] in (*MONOTONE, *SIGNED):
        inside = [one["expression"] for one in part["arguments"]]
    elif part["type"] == "OPERATOR_COALESCE":
        inside = part["children"]
    varying = [one for one in inside if constant(one) is None]
    if len(varying) != 1 or (part.get("function_name") == "/" and varying[0] is not inside[0]):
        return None
    return _only_measure(varying[0])
