"""Check the arguments of a rollup once. A message gives name, value, rule and next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpframe._known_arguments import shown_value
from dpframe.asking.call_arguments import (
    DELTA,
    DELTA_ADVICE,
    CallArguments,
    budget_amount,
    column_name,
    known_choice,
    optional_number,
    optional_whole,
)
from dpframe.budget import Budget, PrivacyUnit, as_float
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Hierarchy, as_hierarchies
from dpframe.measure_texts import measures_from
from dpframe.measures import AUTO, Measure
from dpframe.questions.rollup.plan import RollupPlan, make_rollup_plan
from dpframe.questions.rollup.rollup_numbers import RollupRequest
from dpframe.sources.keys import listed_nodes
from dpframe.tree import ListedNodes

NODE_COLUMNS = ("level", "prefix")


def rollup_plan(given: CallArguments) -> RollupPlan:
    """A plan from arguments that the question checked one by one."""
    return make_rollup_plan(rollup_request(given))


def rollup_request(given: CallArguments) -> RollupRequest:
    """Check the arguments, and return the request."""
    hierarchy = as_hierarchies(given["by"], "by")
    user = None if given["user"] is None else column_name("user", given["user"])
    keys = given["keys"]
    if keys is not None and hierarchy.has_cells:
        raise ParameterError(_listed_cells_refusal(hierarchy))
    listed = (
        keys if keys is None or isinstance(keys, ListedNodes) else listed_nodes(keys, hierarchy)
    )
    if listed is not None:
        _refuse_selection_arguments(given)
    measures = _rollup_measures(given["measures"], hierarchy, user)
    heavy = None if given["heavy"] is None else _selecting_measure(given["heavy"], measures)
    return RollupRequest(
        hierarchy=hierarchy,
        measures=measures,
        unit=PrivacyUnit(user=user),
        budget=Budget(epsilon=given["epsilon"], delta=_rollup_delta(given["delta"], listed)),
        threshold=(optional_whole(1, 2**53) if heavy is None else optional_number(0, 1e300))(
            "threshold", given["threshold"]
        ),
        heavy=heavy,
        listed=listed,
        selection_share=given["selection_share"],
        confidence=given["confidence"],
    )


def _listed_cells_refusal(cells: Hierarchy) -> str:
    """The message that refuses keys for cells.

    The finest rows of one hierarchy of columns are disjoint, and add up to rows by any of its
    columns.
    """
    instead = "Leave keys out, or list keys of one hierarchy."
    if all(one.kind == "columns" for one in cells.dimensions):
        instead = f"Pass by={list(cells.source_columns)!r} with keys, or leave keys out."
    return f"keys does not go with several hierarchies at once ({cells.spec!r}). {instead}"


def _refuse_selection_arguments(given: CallArguments) -> None:
    """Refuse the arguments of a selection, because listed keys are all shown."""
    for name in ("threshold", "selection_share", "heavy"):
        if given[name] is not None:
            raise ParameterError(
                f"{name} ({given[name]!r}) does not go with keys, which are all shown. "
                f"Leave {name} or keys out."
            )


def _rollup_delta(delta: object, listed: ListedNodes | None) -> float:
    """Delta: 0 with listed keys, else above 0, because it is private which keys occur."""
    nothing = delta is None or as_float(delta) == 0
    if listed is not None:
        if not nothing:
            raise BudgetError(f"delta ({delta!r}) is not needed with keys. Leave it out.")
        return 0.0
    if nothing:
        raise BudgetError(
            "delta is missing, and showing unknown keys needs delta > 0. Pass delta, "
            f"{DELTA_ADVICE}, or "
            "list the keys: keys=[...] or keys='domain'."
        )
    return budget_amount("delta", delta, *DELTA, DELTA_ADVICE)


def _rollup_measures(value: object, hierarchy: Hierarchy, user: str | None) -> dict[str, Measure]:
    measures = measures_from(value)
    shown = (f"{name}{end}" for name in hierarchy.names for end in ("", "_level"))
    taken = {name.lower() for name in (*NODE_COLUMNS, *hierarchy.label_columns, *shown)}
    for name, measure in measures.items():
        for column in (f"{name}{end}" for end in measure.columns):
            if column.lower() in taken:
                raise ParameterError(
                    f"measure {name!r} would overwrite column {column!r}. Rename the measure."
                )
            taken.add(column.lower())
        _check_measure_user(name, measure, user)
    return measures


def _selecting_measure(value: object, measures: Mapping[str, Measure]) -> str:
    """The name of the measure that selects: a sum from 0 to a known upper bound."""
    if not isinstance(value, str):
        raise ParameterTypeError(f"heavy must name a measure, as text; got {shown_value(value)}.")
    sums = [name for name, m in measures.items() if m.kind == "sum"]
    name = known_choice("heavy", value, sums) if sums else ""
    measure = measures.get(name)
    if measure is None or measure.lower != 0 or measure.needs_search:
        raise ParameterError(
            f"heavy ({value!r}) must name a sum from lower=0 to a known upper bound. For values "
            "below 0 or searched bounds leave heavy out: records, or users, decide then."
        )
    return name


def _check_measure_user(name: str, measure: Measure, user: str | None) -> None:
    if measure.kind == "distinct" and user is not None and measure.at_most is None:
        raise ParameterError(
            f"measure {name!r} lacks at_most, which user= requires. Write "
            f"{replace(measure, at_most=10).spec!r}, with a number not learned from the data."
        )
    if measure.at_most is not None and user is None:
        raise ParameterError(
            f"measure {name!r} has at_most={measure.at_most} without user=. "
            "Pass user=, or leave at_most out."
        )
    if measure.kind == "sum" and user is not None:
        low, high = (0.0 if b == AUTO else b for b in (measure.lower, measure.upper))
        assert isinstance(low, float)
        assert isinstance(high, float)
        if low > 0 or high < 0:
            raise ParameterError(
                f"measure {name!r} has bounds {low:g} and {high:g}, without 0 between them. "
                "With user= they bound a user's total: pass lower at most 0 and upper at least 0."
            )
