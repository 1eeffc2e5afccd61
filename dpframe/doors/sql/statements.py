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

import pyarrow as pa

from dpframe import _duck
from dpframe.asking.answer import find_answer
from dpframe.asking.call_arguments import data_name, release_name, whole_number
from dpframe.asking.card import Line
from dpframe.asking.level_plan import Rollup
from dpframe.asking.question import Question, explain_plan, plan_within_error
from dpframe.asking.release import DataScope
from dpframe.common.calls import shown_value
from dpframe.common.texts import identifier, literal
from dpframe.doors.sql.calls import (
    BUDGET,
    NAMED,
    RELEASES,
    Session,
    about_of,
    as_json_types,
    change_table,
    columns_seen,
    macro_arguments,
    plan_call,
    session_of,
    statement_source,
    with_keys,
)
from dpframe.doors.sql.query import SqlCall, plain_types, read_call
from dpframe.doors.sql.query_expressions import Columns
from dpframe.doors.sql.query_groups import ANSWER
from dpframe.doors.sql.query_rows import PRIVATE, USER
from dpframe.doors.sql.query_tree import named_tables, read_query
from dpframe.doors.warehouse import plan_series
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.hierarchy._base import LEVEL_COLUMN_TYPES
from dpframe.ledger import StoredResult
from dpframe.noise import random_seed, replacement
from dpframe.periods import Period
from dpframe.questions.synthesize.generator import check_sample
from dpframe.sources import sql_tables
from dpframe.sources import sql_tables as second_connection
from dpframe.sources.rollup_statement import result_columns
from dpframe.sources.source_relations import PeriodReading
from dpframe.sources.sql_tables import SqlSource

MOST = 10_000_000
"""Largest number of synthetic rows: all reach DuckDB as one value, and are made after the
charge."""

NUMBERS = ("residual", "count", "lower", "upper")
"""The last columns of nodes: whole for counts, floats for sums of a weight."""

Given = Mapping[str, object]
"""The parameters of a macro, or the facts of a call, by name."""

Described = list[tuple[str, str]] | None
"""Names and types of the columns of a source; None if no second connection sees the source."""


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
        schema, names = stored.to_arrow().schema, [*asked.hierarchy.label_columns]
        if question.subject == "by":
            names += asked.value_columns
        types: Any = tuple(_duckdb_type(schema.field(n).type) for n in names)  # texts in old ones
        rows = _call_sql("read", token, {**facts, "read": "replay"})
        return _result_sql(question, asked, types, given, rows)
    described, plan = columns_seen(session, path, source), question.rolled_up(asked)
    if plan is not None:
        types = sql_tables.level_types(plan.hierarchy, described)
        reading = _period_reading(about_of(facts), described, explained=False)
        kind = reading.kind if isinstance(reading, PeriodReading) else None
        rows = _draw_sql(
            token, {**facts, "types": types, "time": kind}, source, plan, described, reading
        )
        return _result_sql(question, asked, types, given, rows)
    if described is not None:
        # a statement fails if that connection would read another table with the same name
        visible = second_connection.visible_relation_sql(source, f"dp_{name}")
        passed = "relation", "settings", literal(path)
        rows = _call_sql("beside", token, facts, *passed, rows=f"FROM ({visible})")
        return _result_sql(question, asked, question.result_types(asked, described), given, rows)
    columns = None if question.columns is None else question.columns(asked)
    if columns is None:
        what, instead = question.instead or (f"dp_{name}", f"from Python by dp.{name}")
        return second_connection.unseen_source_sql(source, what, instead)
    times = [p.column for p in (about_of(facts).period,) if p is not None]
    listed = second_connection.rows_as_list_sql([*columns, *times])
    whole = f"FROM {source.relation} AS {sql_tables.SOURCE}"
    rows = _call_sql("draw", token, {**facts, "handed": True}, listed, "''", rows=whole)
    return _result_sql(question, asked, (), given, rows)


def explain_sql(token: str, path: str, name: str, given: Given, more: Sequence[Line] = ()) -> str:
    """Return the SQL of the rows that explain a plan: quantity, value, meaning; ``more`` are lines
    at its end."""
    session, question = session_of(token), NAMED[name]
    arguments = with_keys(question, macro_arguments(question, given, session, path), session)
    asked, found = plan_within_error(question, arguments, as_json_types(given["error"]))
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
    shown = explain_plan(question, question.declared(asked), found, about, session.ledger)
    rows = ", ".join(
        f"({literal(q.name)}, {literal(q.value_text)}, {literal(q.meaning_text)})"
        for q in [*shown.lines, *more]
    )
    return f"SELECT * FROM (VALUES {rows}) AS plan(quantity, value, meaning)"


def change_sql(token: str, given: Given) -> str:
    """Return the SQL of a change's rows. Binding compares the releases already, for the types."""
    call = _given_arguments(given)
    table = change_table(session_of(token), call)
    types = {field.name: _duckdb_type(field.type) for field in table.schema}
    return _rows_sql(types, _call_sql("read", token, {**call, "read": "change"}))


def ledger_sql(token: str, read: str) -> str:
    """Return the SQL of the budget, or of the releases, of the ledger of a connection."""
    types = {"budget": BUDGET, "releases": RELEASES}[read]
    return _rows_sql(types, _call_sql("read", token, {"read": read}))


def sql_sql(token: str, path: str, given: Given) -> str:
    """Return the SQL of the answer to a query in SQL; its first step charges and draws."""
    call, source = _query_call(token, path, given)
    asked = call.question
    rest = {name: given[name] for name in ("threshold", "confidence", "release", "data")}
    arguments = {**call.arguments, **rest, "tbl": None, "query": source}
    answer = ask_sql(token, path, asked.question, arguments)
    # materialized, for it is drawn once for every place that reads it
    return f"WITH {ANSWER} AS MATERIALIZED ({answer}), {asked.result.removeprefix('WITH ')}"


def explain_sql_sql(token: str, path: str, given: Given) -> str:
    """Return the SQL of the rows that explain a query in SQL: quantity, value, meaning."""
    call, source = _query_call(token, path, given)
    rest = {name: given[name] for name in ("threshold", "confidence", "error")}
    arguments = {**call.arguments, **rest, "tbl": None, "query": source}
    return explain_sql(token, path, call.question.question, arguments, [call.line])


def _query_call(token: str, path: str, given: Given) -> tuple[SqlCall, str]:
    """Read a query in SQL, and return its question and the text of the rows that this asks."""
    query = read_query(given["query"])
    listed = as_json_types(given["public"]) or []
    if not isinstance(listed, list):
        raise ParameterTypeError(
            f"public must be a list such as ['stores']; got {shown_value(listed)}."
        )
    shared = {str(name).casefold() for name in listed}
    session = session_of(token)
    private: dict[str, Columns] = {}
    public: dict[str, Columns] = {}
    for name in named_tables(query.tree):
        described = columns_seen(session, path, SqlSource(identifier(name), name))
        if described is not None:
            found = public if name.casefold() in shared else private
            found[name.casefold()] = Columns(name, plain_types(dict(described)))
    wanted = {name: as_json_types(given[name]) for name in SQL_ARGUMENTS}
    call = read_call(query, private, public, wanted)
    asked = call.question
    if asked.numbered:
        raise ParameterError(
            "CUBE and GROUPING SETS need user := in SQL: rows of a table have no numbers. Pass it, "
            "or ask dp.sql in Python."
        )
    with _duck.second_connection_relation(
        session.open_connection(), identifier(asked.table), path, "the public tables"
    ) as rows:
        for key in asked.keys:
            key.check(rows.query(key.repeated, False))
    tables = [f"{identifier(t.name)} AS ({_typed_rows(t)})" for t in public.values()]
    rows_of_users = "" if asked.user is None else f", {identifier(asked.user)} AS {USER}"
    # the tables can change between this check and the reading, also in an open transaction
    once = " AND ".join(
        f"CASE WHEN EXISTS ({key.repeated}) THEN error({literal(key.refusal)}) ELSE true END"
        for key in asked.keys
    )
    private_rows = (
        f"SELECT *{rows_of_users} FROM ({_typed_rows(private[asked.table.casefold()])}) "
        f"WHERE {once or 'true'}"
    )
    tables.append(f"{PRIVATE} AS ({private_rows})")
    return call, f"WITH {', '.join(tables)} {asked.rows}"


def _typed_rows(table: Columns) -> str:
    """SQL of a table in the types that the query was read with, whatever a name means when the
    statement runs. A text equals itself alone, whatever collation its column has."""
    listed = ", ".join(
        f"TRY_CAST({identifier(name)} AS {kind}){' COLLATE C' * (kind == 'VARCHAR')} "
        f"AS {identifier(name)}"
        for name, kind in table.types.items()
    )
    return f"SELECT {listed} FROM {identifier(table.name)}"


SQL_ARGUMENTS = ("user", "bounds", "epsilon", "delta", "intervals", "threshold")
"""Arguments of a query in SQL that its reading takes."""

WAYS = {
    "way": "VARCHAR",
    "chosen": "BOOLEAN",
    "mechanism": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "threshold": "DOUBLE",
    "half_width": "DOUBLE",
    "half_width_so_far": "DOUBLE",
    "shown_from": "DOUBLE",
    "epsilon_together": "DOUBLE",
    "delta_together": "DOUBLE",
    "meaning": "VARCHAR",
}
"""Columns of ``dp_plan_series``, with their types."""


def plan_series_sql(given: Given) -> str:
    """Return the SQL of one row for each way. ``chosen`` marks the way of least error, other than
    disjoint periods."""
    call = _given_arguments(given)
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
        f"({', '.join(_typed_literal(row[name], kind) for name, kind in WAYS.items())})"
        for row in rows
    )
    return f"FROM (VALUES {values}) AS ways({', '.join(map(identifier, WAYS))})"


def _typed_literal(value: object, kind: str) -> str:
    return "NULL::" + kind if value is None else f"{literal(str(value))}::{kind}"


def _given_arguments(given: Given) -> dict[str, object]:
    return {name: as_json_types(value) for name, value in given.items() if value is not None}


# -- rows -----------------------------------------------------------------------------------------


def _sample_size(n: object) -> int:
    count = check_sample(as_json_types(n))
    if count > MOST:
        raise ParameterError(
            f"n ({count}) is above {MOST}, the most rows of a statement. Draw more in Python, with "
            "dp.synthesize."
        )
    return count


def _stored_result(
    session: Session, question: Question[Any, Any], asked: Any, facts: Mapping[str, Any]
) -> StoredResult | None:
    """Return the result that the ledger stores under the call's release name; None if there is
    none, or if the request is not known yet."""
    name, ledger = facts["release"], session.ledger
    if name is None:
        return None
    if ledger is None:
        raise ParameterError(
            f"release := {name!r} needs a ledger. Call dpframe.register(con, ledger=...)."
        )
    if question.subject == "columns":  # its request includes types, known once the source is open
        return None
    return find_answer(question, asked, facts["source"], about_of(facts), ledger, name)


def _call_sql(function: str, token: str, facts: Given | str, *more: str, rows: str = "") -> str:
    """Return the SQL of rows that one of our functions makes when the statement runs.

    ``more`` are further arguments and ``rows`` a FROM clause, both as SQL; ``facts`` may be SQL
    too. The function is named with DuckDB's schema of functions from Python, so that no macro of a
    database shadows it.
    """
    said = facts if isinstance(facts, str) else literal(_facts_json(facts))
    given = ", ".join([literal(token), said, *more])
    return f"(SELECT unnest(system.main.__dpframe_{function}({given})) AS r {rows})"


def _draw_sql(
    token: str,
    facts: Given,
    source: SqlSource,
    plan: Rollup,
    described: Described,
    reading: PeriodReading | Period | None,
) -> str:
    """Return the SQL of rows drawn from a rollup of a source, which passes all candidates as one
    list."""
    # small types leave a third less to copy
    small = ['"i" := i::UINTEGER', '"level" := level::UTINYINT', '"n" := n']
    packed = ", ".join([*small, *(f'"{k}" := {k}' for k in result_columns(plan.hierarchy))])
    rollup = _candidates_sql(source, plan, described, random_seed(), reading)
    listed = f"list(struct_pack({packed}))", "current_setting('default_collation')"
    rows = f"FROM (SELECT row_number() OVER () AS i, * FROM ({rollup}))"
    if not isinstance(reading, Period):
        return _call_sql("draw", token, facts, *listed, rows=rows)
    place = uuid.uuid4().hex  # the type of its column is known when the statement runs
    head, tail = _facts_json({**facts, "time": place}).split(place)
    kind = sql_tables.kind_of_times(source, reading)
    said = f"concat({literal(head)}, {kind}, {literal(tail)})"
    return _call_sql("draw", token, said, *listed, rows=rows)


def _candidates_sql(
    source: SqlSource,
    plan: Rollup,
    described: Described,
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
    about: DataScope, described: Described, *, explained: bool
) -> PeriodReading | Period | None:
    """Return how the column of a period is read, from the columns of a source; the period itself if
    no second connection sees the columns; None without a period."""
    if about.period is None or described is None:
        return about.period
    reading = sql_tables.table_period_reading(about.period, described)
    return reading if explained else about.read_as(reading).reading


def _facts_json(facts: Given) -> str:
    return json.dumps(facts, ensure_ascii=False)


# -- columns --------------------------------------------------------------------------------------


def _result_sql(
    question: Question[Any, Any], asked: Any, types: Any, given: Given, rows: str
) -> str:
    """Return the SQL of a result; its columns depend on what the question is about."""
    if question.subject == "columns":
        return _rows_sql(types, rows)
    own: Mapping[str, str] = {}
    if question.subject == "by":
        types, read = asked.split_types(types)
        own = asked.result_types(read)
    if asked.hierarchy.has_cells:
        return _rows_sql(own or asked.types, rows)
    names = asked.hierarchy.label_columns
    kinds = [
        kind if kind in LEVEL_COLUMN_TYPES else "VARCHAR" for kind in types or [""] * len(names)
    ]
    labels = {"level": "BIGINT", "prefix": "VARCHAR", **dict(zip(names, kinds, strict=True))}
    if question.subject == "by":
        return _rows_sql({**labels, **own}, rows)
    measured = question.subject == "hierarchy" and asked.unit.measured
    columns = labels | dict.fromkeys(NUMBERS, "DOUBLE" if measured else "BIGINT")
    if question.subject == "hierarchy":
        return _rows_sql(columns, rows)
    # values of one column, largest count first
    (name,), k = names, given.get("k")
    most = "" if k is None else f" LIMIT {whole_number('k', k, 1, 2**53)}"
    value, count = (_value_sql(columns, column) for column in (name, "count"))
    order = f"ORDER BY {count} DESC NULLS LAST, {value} ASC NULLS LAST"
    return f"{_rows_sql(columns, rows, (name, *NUMBERS[1:]))} {order}{most}"


def _rows_sql(types: Mapping[str, str], rows: str, shown: Sequence[str] | None = None) -> str:
    """Return the SQL that casts rows of texts to the types of their columns, or of the columns
    ``shown``. Names are quoted: a connection may change the case of bare names."""
    columns = (f"{_value_sql(types, name)} AS {identifier(name)}" for name in shown or types)
    return f"SELECT {', '.join(columns)} FROM {rows}"


def _value_sql(types: Mapping[str, str], name: str) -> str:
    """Return the SQL of one value. It stays a text for an ENUM, whose type would list values of the
    data's owner, and for a column that holds only NULL and has no type."""
    kind, text = types[name], f"r[{[*types].index(name) + 1}]"
    if kind == "VARCHAR" or kind.startswith("ENUM") or kind == '"NULL"':
        return text
    return f"TRY_CAST({text} AS {kind})"  # <other> is no UUID


def _duckdb_type(kind: pa.DataType) -> str:
    """Return the DuckDB type of an Arrow type: VARCHAR for all but numbers, booleans and times."""
    if pa.types.is_timestamp(kind):
        zoned = "TIMESTAMPTZ_NS" if kind.unit == "ns" else "TIMESTAMP WITH TIME ZONE"
        plain = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "ns": "TIMESTAMP_NS"}
        return zoned if kind.tz else plain.get(kind.unit, "TIMESTAMP")
    if pa.types.is_duration(kind):
        return "INTERVAL"
    return OF_ARROW.get(kind, "VARCHAR")


OF_ARROW = {
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
}
