"""``dp_change`` in SQL: compare two releases in a ledger; no data are read, nothing is charged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpframe._sql import literal
from dpframe.doors.change import change
from dpframe.doors.sql.calls import as_json_types
from dpframe.doors.sql.result_sql import rows_sql
from dpframe.doors.sql.sessions import session_of
from dpframe.doors.sql.types import arrow_types, text_rows
from dpframe.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

OPTIONS = ("measure", "confidence", "simultaneous")


def change_sql(token: str, given: Mapping[str, object]) -> str:
    """Return the SQL of a change's rows. Binding compares the releases already, for the types."""
    call = {name: as_json_types(value) for name, value in given.items() if value is not None}
    types = arrow_types(_table_of_change(_change_frame(token, call)))
    made = f"system.main.__dpframe_changed({literal(token)}, {literal(json.dumps(call))})"
    return rows_sql(types, f"(SELECT unnest({made}) AS r)")


def change_rows(tokens: pa.ChunkedArray, calls: pa.ChunkedArray) -> pa.Array:
    """Return the rows of changes as texts; called when the statement runs."""
    pairs = zip(tokens.to_pylist(), calls.to_pylist(), strict=True)
    return pa.concat_arrays(
        [
            text_rows(_table_of_change(_change_frame(token, json.loads(call))))
            for token, call in pairs
        ]
    )


def _table_of_change(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _change_frame(token: str, call: Mapping[str, Any]) -> pd.DataFrame:
    session = session_of(token)
    for role in ("before", "after"):
        if not isinstance(call.get(role), str):
            raise ParameterError(
                f"{role} ({call.get(role)!r}) must be the name of a release. Write for example "
                "dp_change('sales-2026-W46', 'sales-2026-W47')."
            )
    if session.ledger is None:
        raise ParameterError(
            f"dp_change({call['before']!r}, {call['after']!r}) needs a ledger with both results. "
            "Call dpframe.register(con, ledger=...)."
        )
    options = {name: call[name] for name in OPTIONS if name in call}
    return change(call["before"], call["after"], ledger=session.ledger, **options)
