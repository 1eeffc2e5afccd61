"""Check the arguments of a rollup once. A message gives name, value, rule and next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpframe._forking import no_fork
from dpframe._known_arguments import shown
from dpframe.asking.given import DELTA, SMALL, Given, amount, chosen, column_name
from dpframe.budget import Budget, PrivacyUnit, as_float
from dpframe.errors import BudgetError, ParameterError, ParameterTypeError
from dpframe.hierarchy import Cells, Hierarchy, as_hierarchies
from dpframe.measure_texts import measures_from
from dpframe.measures import AUTO, Measure
from dpframe.questions.rollup.numbers import Asked
from dpframe.questions.rollup.plan import RollupPlan, make_rollup_plan
from dpframe.sources.keys import listed_nodes
from dpframe.tree import ListedNodes

OWN_COLUMNS = ("level", "prefix")


def rollup_plan(given: Given) -> RollupPlan:
    """A plan from unchecked arguments."""
    asked = asked_for(given)
    if isinstance(asked.hierarchy, Cells):
        with no_fork():
            from dpframe.questions.rollup.cells import CellRollupPlan

        return make_rollup_plan(asked, CellRollupPlan)
    return make_rollup_plan(asked, RollupPlan)


def asked_for(given: Given) -> Asked:
    """The checked request of unchecked arguments."""
    hierarchy = as_hierarchies(given["by"], "by")
    user = None if given["user"] is None else column_name("user", given["user"])
    keys = given["keys"]
    if keys is not None and isinstance(hierarchy, Cells):
        raise ParameterError(_listed_cells(hierarchy))
    listed = (
        keys if keys is None or isinstance(keys, ListedNodes) else listed_nodes(keys, hierarchy)
    )
    if listed is not None:
        _without_selection(given)
    measures = _measures(given["measures"], hierarchy, user)
    heavy = None if given["heavy"] is None else _heavy(given["heavy"], measures)
    return Asked(
        hierarchy=hierarchy,
        measures=measures,
        unit=PrivacyUnit(user=user),
        budget=Budget(epsilon=given.epsilon, delta=_delta(given["delta"], listed)),
        threshold=given.whole("threshold", 1, 2**53)
        if heavy is None
        else given.number("threshold", 0, 1e300),
        heavy=heavy,
        listed=listed,
        selection_share=given.number("selection_share", 0.01, 0.99),
        confidence=given.confidence,
    )


def _listed_cells(cells: Cells) -> str:
    """The message that refuses keys for cells.

    Listed cells would overlap, and only a selection decides which of them takes a record. The
    finest rows of one hierarchy of columns are disjoint, so that they add up to any columns.
    """
    instead = "Leave keys out, or list keys of one hierarchy."
    if all(one.kind == "columns" for one in cells.of):
        instead = f"Pass by={list(cells.source_columns)!r} with keys, or leave keys out."
    return f"keys does not go with several hierarchies at once ({cells.spec!r}). {instead}"


def _without_selection(given: Given) -> None:
    """Refuse the arguments of a selection, because listed keys are all shown."""
    for name in ("threshold", "selection_share", "heavy"):
        if given[name] is not None:
            raise ParameterError(
                f"{name} ({given[name]!r}) does not go with keys, which are all shown. "
                f"Leave {name} or keys out."
            )


def _delta(delta: object, listed: ListedNodes | None) -> float:
    """Delta: 0 for listed keys only, because which keys there are is private."""
    nothing = delta is None or as_float(delta) == 0
    if listed is not None:
        if not nothing:
            raise BudgetError(f"delta ({delta!r}) is not needed with keys. Leave it out.")
        return 0.0
    if nothing:
        raise BudgetError(
            f"delta is missing, and showing unknown keys needs delta > 0. Pass delta, {SMALL}, or "
            "list the keys: keys=[...] or keys='domain'."
        )
    return amount("delta", delta, *DELTA, SMALL)


def _measures(value: object, hierarchy: Hierarchy, user: str | None) -> dict[str, Measure]:
    measures = measures_from(value)
    shown = hierarchy.label_columns
    if isinstance(hierarchy, Cells):
        shown = tuple(f"{name}{end}" for name in hierarchy.names for end in ("", "_level"))
    taken = {name.lower() for name in (*OWN_COLUMNS, *shown)}
    for name, measure in measures.items():
        for column in (f"{name}{end}" for end in measure.columns):
            if column.lower() in taken:
                raise ParameterError(
                    f"measure {name!r} would overwrite column {column!r}. Rename the measure."
                )
            taken.add(column.lower())
        _check_user(name, measure, user)
    return measures


def _heavy(value: object, measures: Mapping[str, Measure]) -> str:
    """The name of the measure that selects: a sum from 0 to a known upper bound."""
    if not isinstance(value, str):
        raise ParameterTypeError(f"heavy must name a measure, as text; got {shown(value)}.")
    sums = [name for name, m in measures.items() if m.kind == "sum"]
    name = chosen("heavy", value, sums) if sums else ""
    measure = measures.get(name)
    if measure is None or measure.lower != 0 or measure.searched:
        raise ParameterError(
            f"heavy ({value!r}) must name a sum from lower=0 to a known upper bound. For values "
            "below 0 or searched bounds leave heavy out: records, or users, decide then."
        )
    return name


def _check_user(name: str, measure: Measure, user: str | None) -> None:
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
