"""``dp_plan_series`` in SQL: ways to divide a total over releases; nothing is read or spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpframe._known_arguments import shown_value
from dpframe._sql import identifier, literal
from dpframe.doors.planned_series import plan_series
from dpframe.doors.sql.calls import as_json_types
from dpframe.errors import ParameterTypeError

COLUMNS = {
    "way": "VARCHAR",
    "chosen": "BOOLEAN",
    "mechanism": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "threshold": "DOUBLE",
    "half_width": "DOUBLE",
    "shown_from": "DOUBLE",
    "epsilon_together": "DOUBLE",
    "delta_together": "DOUBLE",
    "meaning": "VARCHAR",
}


def plan_series_sql(given: Mapping[str, object]) -> str:
    """Return the SQL of one row for each way. ``chosen`` marks the way of least error, other than
    disjoint periods."""
    call = {name: as_json_types(value) for name, value in given.items() if value is not None}
    arguments: Any = call.get("arguments", {})
    if not isinstance(arguments, dict):
        raise ParameterTypeError(
            "arguments must be a struct such as {'user': 'household'}; got "
            f"{shown_value(arguments)}."
        )
    about = [call["about"]] if "about" in call else []
    plan = plan_series(
        call.get("releases"),  # type: ignore[arg-type]  # checked there
        call.get("question"),  # type: ignore[arg-type]
        *about,
        total=(call.get("epsilon"), call.get("delta")),  # type: ignore[arg-type]
        **arguments,
    )
    rows = [{**way.row(), "chosen": way is plan.chosen} for way in plan.ways]
    values = ", ".join(
        f"({', '.join(_typed_literal(row[name], kind) for name, kind in COLUMNS.items())})"
        for row in rows
    )
    return f"FROM (VALUES {values}) AS ways({', '.join(map(identifier, COLUMNS))})"


def _typed_literal(value: object, kind: str) -> str:
    return "NULL::" + kind if value is None else f"{literal(str(value))}::{kind}"
