"""The SQL text that replaces a call while DuckDB binds a statement; nothing is charged or drawn.

All questions take the same path, and differ in what counts the rows: the statement itself if a
rollup can count them, otherwise a second connection while the statement runs, or Python from rows
that the statement hands over.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpframe._sql import literal
from dpframe.asking.call_arguments import data_name, release_name
from dpframe.asking.data_scope import DataScope
from dpframe.asking.explain import plan_within_error as asked_with_error
from dpframe.asking.explanation import Explanation
from dpframe.asking.ledger_fit import ledger_fit_lines
from dpframe.asking.plan_protocols import Rollup
from dpframe.asking.question import Question
from dpframe.asking.release import find_stored, named_request
from dpframe.doors.sql.calls import (
    NAMED,
    about_of,
    as_json_types,
    macro_arguments,
    plan_call,
    with_keys,
)
from dpframe.doors.sql.result_sql import flat_sql, measured_sql, nodes_sql, rows_sql
from dpframe.doors.sql.sessions import Session, columns_seen, session_of, statement_source
from dpframe.doors.sql.types import plan_sql, stored_types
from dpframe.errors import ParameterError
from dpframe.hierarchy import Cells
from dpframe.ledger import StoredResult
from dpframe.noise import random_seed, replacement
from dpframe.periods import Period
from dpframe.questions.synthesize.checks import check_sample
from dpframe.sources import second_connection, sql_tables
from dpframe.sources.period_source import PeriodReading
from dpframe.sources.rollup_statement import result_columns
from dpframe.sources.sql_sources import SqlSource

OURS = "system.main"
"""DuckDB's schema of functions from Python. Calls name the schema, so that no macro of a database
shadows these functions."""

MOST = 10_000_000
"""Largest number of synthetic rows: all reach DuckDB as one value, and are made after the
charge."""

FUNCTION = {"columns": "rows", "by": "measured"}
"""Our functions that a statement calls if a second connection counts, by what the question is
about; ``beside`` for other questions."""

HANDED = {"by": "handed_over"}
"""As ``FUNCTION``, for rows that no second connection sees; ``handed_nodes`` for other
questions."""

Given = Mapping[str, object]
"""The parameters of a macro, or the facts of a call, by name."""


def ask_sql(token: str, path: str, name: str, given: Given) -> str:
    """Return the SQL of a release; its last step charges and draws, or replays a stored result."""
    session, question = session_of(token), NAMED[name]
    arguments = macro_arguments(question, given, session, path)
    asked = plan_call(question, arguments, session)
    sampled = {"n": _sample_size(given["n"])} if "n" in given else {}
    source, release = statement_source(given["tbl"], given["query"]), release_name(given["release"])
    facts: dict[str, Any] = {
        "question": name,
        "arguments": arguments,
        "release": release,
        "data": data_name(given["data"]),
        "source": source.described,
        "noise": replacement(),
        **sampled,
    }
    stored = _stored_result(session, question, asked, facts)
    if stored is not None:
        types = stored_types(stored, asked.hierarchy)
        as_texts = question.subject == "by" or isinstance(asked.hierarchy, Cells)
        again = "replay_measured" if as_texts else "replay"
        return _result_sql(question, asked, types, given, _call_sql(again, token, facts))
    described, plan = columns_seen(session, path, source), question.rolled_up(asked)
    if plan is not None:
        types = sql_tables.level_types(plan.hierarchy, described)
        reading = _period_reading(about_of(facts), described, explained=False)
        facts |= {
            "types": types,
            "time": reading.kind if isinstance(reading, PeriodReading) else None,
        }
        rows = _draw_sql(token, facts, source, plan, described, reading)
        return _result_sql(question, asked, types, given, rows)
    handed = None if question.columns is None else question.columns(asked)
    if described is None and handed is not None:
        times = [p.column for p in (about_of(facts).period,) if p is not None]
        function = HANDED.get(question.subject, "handed_nodes")
        rows = _handed_rows_sql(function, token, facts, source, [*handed, *times])
        return _result_sql(question, asked, (), given, rows)
    if described is None:
        what, instead = question.instead or (f"dp_{name}", f"from Python by dp.{name}")
        return second_connection.unseen_source_sql(source, what, instead)
    found = question.result_types(asked, described)
    function = FUNCTION.get(question.subject, "beside")
    rows = _second_connection_sql(function, token, facts, source, path)
    return _result_sql(question, asked, found, given, rows)


def explain_sql(token: str, path: str, name: str, given: Given) -> str:
    """Return the SQL of the rows that explain a plan: quantity, value, meaning."""
    session, question = session_of(token), NAMED[name]
    arguments = with_keys(question, macro_arguments(question, given, session, path), session)
    asked, found = asked_with_error(question, arguments, as_json_types(given["error"]))
    about = DataScope.of(arguments)
    reading: PeriodReading | Period | None = None
    if given["tbl"] is not None or given["query"] is not None:
        source = statement_source(given["tbl"], given["query"])
        described = columns_seen(session, path, source)
        plan = question.rolled_up(asked)
        if plan is not None:
            reading = _period_reading(about, described, explained=True)
            _candidates_sql(source, plan, described, 0, reading)  # for its checks
        elif described is not None:
            question.result_types(asked, described)
            reading = _period_reading(about, described, explained=True)
    about = replace(about, reading=reading if isinstance(reading, PeriodReading) else None)
    plan = question.declared(asked)
    afforded = tuple(ledger_fit_lines(plan, about, session.ledger))
    return plan_sql(Explanation(plan, found, about, afforded, tuple(question.advice(plan))))


def _result_sql(
    question: Question[Any, Any], asked: Any, types: Any, given: Given, rows: str
) -> str:
    """Return the SQL of a result; its columns depend on what the question is about."""
    if question.subject == "columns":
        return rows_sql(types, rows)
    if question.subject == "column":
        return flat_sql(asked.hierarchy, types, rows, given.get("k"))
    if isinstance(asked.hierarchy, Cells):
        return rows_sql(asked.types, rows)
    if question.subject == "by":
        return measured_sql(asked.hierarchy, types, asked.types, rows)
    return nodes_sql(asked.hierarchy, types, rows, measured=asked.unit.measured)


def _sample_size(n: object) -> int:
    count = check_sample(as_json_types(n))
    if count > MOST:
        raise ParameterError(
            f"n ({count}) is above {MOST}, the most rows of a statement. Draw more in Python, with "
            "dp.synthesize."
        )
    return count


def _stored_result(
    session: Session, question: Question[Any, Any], asked: Any, facts: Given
) -> StoredResult | None:
    """Return the result that the ledger stores under the call's release name; None if there is
    none, or if the request is not known yet."""
    name = facts["release"]
    if name is None:
        return None
    ledger = session.ledger_for(str(name))
    if question.subject == "columns":  # its request includes types, known once the source is open
        return None
    about: Any = (facts["source"], about_of(facts))
    request, former = named_request(asked.request, *about), question.former(asked)
    before = None if former is None else named_request(former, *about)
    return find_stored(request, ledger, str(name), before)


def _call_sql(function: str, token: str, facts: Given, *more: str, rows: str = "") -> str:
    """Return the SQL of rows that one of our functions makes when the statement runs.

    ``more`` are further arguments and ``rows`` a FROM clause, both as SQL.
    """
    given = ", ".join([*map(literal, (token, _facts_json(facts))), *more])
    return f"(SELECT unnest({OURS}.__dpframe_{function}({given})) AS r {rows})"


def _second_connection_sql(
    function: str, token: str, facts: Given, source: SqlSource, path: str
) -> str:
    """Return the SQL of rows that a second connection counts; the statement fails if that
    connection would read another table with the same name."""
    what = f"dp_{facts['question']}"
    rows = f"FROM ({second_connection.visible_relation_sql(source, what)})"
    return _call_sql(function, token, facts, "relation", "settings", literal(path), rows=rows)


def _handed_rows_sql(
    function: str, token: str, facts: Given, source: SqlSource, columns: Sequence[str]
) -> str:
    """Return the SQL of rows that Python counts from a relation that only this connection sees:
    its columns are handed over as one list, in memory."""
    rows = f"FROM {source.relation} AS {sql_tables.SOURCE}"
    return _call_sql(function, token, facts, second_connection.rows_as_list_sql(columns), rows=rows)


def _draw_sql(
    token: str,
    facts: Given,
    source: SqlSource,
    plan: Rollup,
    described: list[tuple[str, str]] | None,
    reading: PeriodReading | Period | None,
) -> str:
    """Return the SQL of rows drawn from a rollup of a source, which passes all candidates as one
    list."""
    keys = result_columns(plan.hierarchy)
    function = "draw_cells" if isinstance(plan.hierarchy, Cells) else "draw"
    # small types leave a third less to copy
    small = ['"i" := i::UINTEGER', '"level" := level::UTINYINT']
    packed = ", ".join([*small, '"n" := n', *(f'"{k}" := {k}' for k in keys)])
    rollup = _candidates_sql(source, plan, described, random_seed(), reading)
    said = literal(_facts_json(facts))
    if isinstance(reading, Period):  # the type of its column is known when the statement runs
        place = uuid.uuid4().hex
        head, tail = _facts_json({**facts, "time": place}).split(place)
        kind = sql_tables.kind_of_times(source, reading)
        said = f"concat({literal(head)}, {kind}, {literal(tail)})"
    return (
        f"(SELECT unnest({OURS}.__dpframe_{function}({literal(token)}, {said}, "
        f"list(struct_pack({packed})), current_setting('default_collation'))) AS r "
        f"FROM (SELECT row_number() OVER () AS i, * FROM ({rollup})))"
    )


def _candidates_sql(
    source: SqlSource,
    plan: Rollup,
    described: list[tuple[str, str]] | None,
    seed: int,
    reading: PeriodReading | Period | None,
) -> str:
    return sql_tables.table_rollup_statement(
        source,
        plan.hierarchy,
        plan.unit,
        band=plan.band,
        seed=seed,
        columns=described,
        only=plan.listed_keys,
        reading=reading,
    )


def _period_reading(
    about: DataScope, described: list[tuple[str, str]] | None, *, explained: bool
) -> PeriodReading | Period | None:
    """Return how the column of a period is read, from the columns of a source; the period itself if
    no second connection sees the columns; None without a period."""
    if about.period is None or described is None:
        return about.period
    reading = sql_tables.table_period_reading(about.period, described)
    return reading if explained else about.read_as(reading).reading


def _facts_json(facts: Given) -> str:
    return json.dumps(facts, ensure_ascii=False)
