"""Calls from SQL: registered connections, the arguments that macros pass, and the functions that a
statement calls when it runs: they charge, draw, replay, compare, and show the ledger.

Each of these functions returns its rows as one list, a row as a list of texts, which the statement
casts to the types of their columns.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpframe import _duck
from dpframe.asking.answer import answer_checked
from dpframe.asking.level_plan import MechanismInput
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.question import Question
from dpframe.asking.release import DataScope, Release, make_release, replay_of_stored
from dpframe.common.texts import identifier
from dpframe.counts import ListedCells, ListedNodes
from dpframe.doors.result_methods import change
from dpframe.errors import ParameterError, ParameterTypeError, SourceError
from dpframe.hierarchy import Hierarchy, as_hierarchies, as_hierarchy
from dpframe.ledger import Ledger
from dpframe.ledger.history import period_in
from dpframe.noise import replaced_by
from dpframe.postprocess.shown_nodes import cut_facts
from dpframe.questions.question_list import QUESTIONS
from dpframe.questions.synthesize.generator import Generator
from dpframe.sources import sql_tables
from dpframe.sources import sql_tables as sql_sources
from dpframe.sources.frames import require_columns
from dpframe.sources.keys import DOMAIN, listed_counts, listed_keys
from dpframe.sources.rollup_statement import counts_of
from dpframe.sources.source_relations import PeriodReading, canonical
from dpframe.sources.sql_tables import SqlSource, table_source

if TYPE_CHECKING:
    import pandas as pd

    from dpframe._duck import DuckDBPyConnection


@dataclass(eq=False, slots=True)
class Session:
    """The state of a registered connection. A session keeps only duckdb's default connection
    open."""

    connection: weakref.ref[DuckDBPyConnection]
    ledger: Ledger | None
    kept: DuckDBPyConnection | None = None
    receipts: list[tuple[Receipt, str]] = field(default_factory=list)
    listed: dict[str, ListedNodes | ListedCells] = field(default_factory=dict)

    def open_connection(self) -> DuckDBPyConnection:
        """Return the connection; SourceError if it is closed."""
        con = self.connection()
        if con is None:
            raise SourceError("this connection is closed. Register an open one.")
        return con


sessions: dict[str, Session] = {}


def session_of(token: str) -> Session:
    session = sessions.get(token)
    if session is None:
        raise SourceError(
            "this connection is no longer registered. Call dpframe.register(con), or "
            "dpframe.register(duckdb) for duckdb.sql."
        )
    return session


def statement_source(tbl: object, query: object) -> SqlSource:
    if query is None:
        return sql_sources.table_source(tbl)
    if tbl is not None:
        raise ParameterError("tbl and query are both given. Pass tbl := NULL with query :=.")
    return sql_sources.query_source(query, _duck.is_one_select)


def columns_seen(session: Session, path: str, source: SqlSource) -> list[tuple[str, str]] | None:
    """Return names and types of a source's columns as a second connection sees them; None if it
    does not see the source."""
    con = session.connection()
    described = _duck.describe_relation(con, source.relation, path) if con is not None else None
    return None if described is None else sql_tables.described_columns(described)


NAMED: dict[str, Question[Any, Any]] = {question.name: question for question in QUESTIONS}

PARAMETERS = {"data", "release"}.union(*(question.plan_arguments for question in QUESTIONS)) - {
    "at_most"
}
"""Parameters of macros whose spelling in messages is changed. ``at_most`` is left out: it is also
an argument of measures, and in texts of measures it keeps its ``=``."""

IN_PYTHON = re.compile(rf"dp\.\w+\([^()]*\)|(?<![^\s(])({'|'.join(PARAMETERS)})=(?!=)(?=(.?))")
"""A call in Python, or an argument in Python's spelling with the character that follows."""


def as_parameters(message: str) -> str:
    """Rewrite the arguments in a message as a macro takes them: ``keys := [...]``."""

    def parameter(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return f"{found[1]} :=" + " " * (found[2] not in ("", " ", ",", ".", ":", ";"))

    return IN_PYTHON.sub(parameter, message)


SUBJECTS = {
    "by": "['country', 'city']",
    "column": "'page'",
    "hierarchy": "['country', 'city']",
}
"""What stands behind the table in a call, by its name in Python."""


def macro_arguments(
    question: Question[Any, Any], given: Mapping[str, object], session: Session, path: str
) -> dict[str, object]:
    """Return the planning arguments that are not NULL, as plain JSON types.

    Listed keys of a hierarchy are read while the statement is bound. The session keeps them for
    when the statement runs, and the arguments hold their name.
    """
    named = {name: given.get(name) for name in question.plan_arguments}
    subject, example = question.subject, SUBJECTS.get(question.subject)
    tbl = given.get("tbl")
    no_table = isinstance(tbl, list) or ":" in str(tbl)
    if example is not None and named.get(subject) is None and no_table:
        raise ParameterTypeError(
            f"{subject} is missing. The table comes first, as in dp_{question.name}('visits', "
            f"{example}, ...)."
        )
    listed = named.pop("keys") if _lists_nodes(question) and "keys" in named else None
    arguments = {name: as_json_types(value) for name, value in named.items() if value is not None}
    if listed is not None:
        several = question.subject == "by"
        hierarchy = (as_hierarchies if several else as_hierarchy)(arguments.get(question.subject))
        keys = _decimals_as_floats(listed)
        if isinstance(keys, str) and keys != DOMAIN:
            keys = _keys_in_table(keys, hierarchy, session, path)
        if isinstance(keys, list) and keys and all(isinstance(key, dict) for key in keys):
            keys = pa.Table.from_pylist(keys)
        nodes = listed_keys(keys, hierarchy)
        session.listed[nodes.name] = nodes
        arguments["keys"] = nodes.name
    return arguments


def about_of(facts: Mapping[str, Any]) -> DataScope:
    """Return what a call says about its data: their state and the period."""
    return DataScope.of({"data": facts["data"], "period": facts["arguments"].get("period")})


def plan_call(
    question: Question[Any, Any], arguments: Mapping[str, object], session: Session
) -> Any:
    """Check the planning arguments of a call; return what the call asks for."""
    return question.plan(with_keys(question, arguments, session))


def with_keys(
    question: Question[Any, Any], arguments: Mapping[str, object], session: Session
) -> Mapping[str, object]:
    """Replace the name of listed keys by the keys, which the session has."""
    if _lists_nodes(question) and "keys" in arguments:
        return {**arguments, "keys": session.listed[str(arguments["keys"])]}
    return arguments


def _lists_nodes(question: Question[Any, Any]) -> bool:
    return question.subject in ("hierarchy", "by")


def _keys_in_table(name: str, hierarchy: Hierarchy, session: Session, path: str) -> pa.Table:
    con = session.open_connection()
    wanted = hierarchy.source_columns
    if _duck.describe_relation(con, table_source(name).relation, path) is None:
        raise ParameterError(
            f"keys ({name!r}) is no table that another connection sees. Name a committed table or "
            "view, or pass a list such as ['a', 'b'], or 'domain'."
        )
    with _duck.second_connection_relation(
        con, table_source(name).relation, path, f"keys ({name!r})"
    ) as rows:
        require_columns(wanted, rows.columns)
        chosen = ", ".join(map(identifier, wanted))
        return rows.query(f"SELECT {chosen} FROM {_duck.VIEW}", False)


def as_json_types(value: object) -> object:
    """Convert a value of DuckDB to plain JSON types."""
    if isinstance(value, Mapping):
        return {str(name): as_json_types(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_types(item) for item in value]
    if isinstance(value, dt.date):  # and times
        return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return _decimals_as_floats(value)


def _decimals_as_floats(value: object) -> object:
    """Convert decimals to floats: DuckDB reads 1.0 in SQL as a DECIMAL."""
    if isinstance(value, list):
        return [_decimals_as_floats(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


# -- what a statement runs -----------------------------------------------------------------------


Facts = Mapping[str, Any]
"""The facts of a call, which the statement carries as JSON."""

TEXTS = "VARCHAR[][]"
"""DuckDB's type of the rows that a call returns."""


def draw_list(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    lists: pa.ChunkedArray,
    collations: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release from one list: of candidates that the statement counted, or of rows that no
    second connection sees."""
    return _run_calls(_draw_from_list, tokens, calls, lists, collations)


def draw_relation(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    settings: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    """Draw a release, or a generator and rows from it, from what a second connection counts."""
    return _run_calls(_draw_from_relation, tokens, calls, relations, settings, paths)


def read_released(tokens: pa.ChunkedArray, calls: pa.ChunkedArray) -> pa.Array:
    """Return rows that are released already, or of the ledger: nothing is charged or drawn."""
    made: dict[tuple[str, str], pa.Array] = {}
    for token, call in zip(tokens.to_pylist(), calls.to_pylist(), strict=True):
        if (token, call) not in made:
            facts = json.loads(call)
            made[token, call] = _text_rows(READ[facts["read"]](session_of(token), facts))
    return _concatenate([made[p] for p in zip(tokens.to_pylist(), calls.to_pylist(), strict=True)])


def _run_calls(
    draw: Callable[..., pa.Table], tokens: pa.ChunkedArray, calls: pa.ChunkedArray, *more: Any
) -> pa.Array:
    """Draw for the only call; ParameterError if DuckDB would run it once for each of several
    rows."""
    if len(calls) > 1:
        name = json.loads(calls[0].as_py()).get("question", "hhh")
        raise ParameterError(
            f"dp_{name} would be drawn and charged once for each of several rows. Join its result, "
            "or put it in a CTE."
        )
    made = []
    for token, call, *rest in zip(tokens.to_pylist(), calls.to_pylist(), *more, strict=True):
        session, facts = session_of(token), json.loads(call)
        with replaced_by(facts["noise"]):  # the caller's noise: this may be a thread of DuckDB
            made.append(_text_rows(draw(session, facts, *rest)))
    return _concatenate(made)


# -- drawing -------------------------------------------------------------------------------------


def _draw_from_list(
    session: Session, facts: Facts, listed: pa.ListScalar, collation: pa.StringScalar
) -> pa.Table:
    if facts.get("handed"):
        rows = pa.array([], listed.type.value_type) if listed.values is None else listed.values
        return _ask_source(session, facts, _duck.without_views(pa.Table.from_struct_array(rows)))
    _duck.check_collation(collation.as_py())
    question, types = NAMED[facts["question"]], tuple(facts["types"])
    plan = question.fitted(plan_call(question, facts["arguments"], session), listed)
    about = about_of(facts)
    if about.period is not None:  # as the statement reads its column
        kind = canonical(facts["time"])
        about = about.read_as(PeriodReading(period=about.period, kind=kind))
    released = make_release(
        partial(_listed_candidates, listed, types, plan),
        plan,
        source=facts["source"],
        ledger=session.ledger,
        name=facts["release"],
        about=about,
    )
    _keep_receipt(session, facts, released)
    return _as_table(released.frame)


def _listed_candidates(
    listed: pa.ListScalar, types: tuple[str, ...], plan: Any
) -> MechanismInput[Any]:
    counts = counts_of(_candidate_rows(listed), plan.hierarchy, types)
    if plan.listed_keys is not None:
        counts = listed_counts(counts.axes[0], plan.listed_keys)
    return MechanismInput(counts, types)


def _candidate_rows(listed: pa.ListScalar) -> pa.Table:
    """Return a list of candidates as a table, sorted by their numbers ``i``; SourceError if one is
    missing."""
    table = _duck.without_views(pa.Table.from_struct_array(listed.values))
    position = table["i"].to_numpy()
    if (np.diff(position) != 1).any():
        order = np.argsort(position)
        if (position[order] != np.arange(1, len(order) + 1)).any():
            raise SourceError("candidates are missing. Run the statement again.")
        table = table.take(pa.array(order))
    return table.drop_columns(["i"])


def _draw_from_relation(
    session: Session,
    facts: Facts,
    relation: pa.StringScalar,
    settings: pa.ListScalar,
    path: pa.StringScalar,
) -> pa.Table:
    """Ask as from Python, with the relation, opened on a second connection, as the source."""
    shared = {one["name"]: one["value"] for one in settings.as_py() or ()}
    with _duck.second_connection_relation(
        session.open_connection(), relation.as_py(), path.as_py(), "the source", shared
    ) as source:
        return _ask_source(session, facts, source)


def _ask_source(session: Session, facts: Facts, source: object) -> pa.Table:
    question = NAMED[facts["question"]]
    answer = answer_checked(
        question,
        plan_call(question, facts["arguments"], session),
        source,
        ledger=session.ledger,
        name=facts["release"],
        about=about_of(facts),
        progress=False,
        place=facts["source"],
    )
    released, asked = answer.release, answer.asked
    _keep_receipt(session, facts, released)
    if "n" not in facts:
        return _as_table(released.frame)
    return Generator(released, asked.wanted, asked.schema, dict(asked.dtypes)).sample_arrow(
        facts["n"]
    )


def _keep_receipt(session: Session, facts: Facts, released: Release) -> None:
    """Keep the receipt of a release for ``dp_releases`` without a ledger. With ``k`` the statement
    shows the largest rows alone, and the receipt says so."""
    if session.ledger is not None:
        return
    receipt, k = released.receipt, facts["arguments"].get("k")
    if k is not None and NAMED[facts["question"]].subject == "column":  # elsewhere k cuts no rows
        rows = int((released.frame["level"] > 0).sum())
        receipt = Receipt(cut_facts(receipt.to_dict(), min(int(k), rows), rows))
    session.receipts.append((receipt, facts["source"]))


# -- what is released already --------------------------------------------------------------------


def _replay(session: Session, facts: Facts) -> pa.Table:
    stored = session.ledger.find(facts["release"]) if session.ledger is not None else None
    if stored is None:
        raise SourceError(
            f"release {facts['release']!r} is no longer in the ledger. Run the statement again."
        )
    return _as_table(replay_of_stored(stored).frame)


def change_table(session: Session, call: Facts) -> pa.Table:
    """Return the change between two releases that the arguments of ``dp_change`` name."""
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
    options = {n: call[n] for n in ("measure", "confidence", "simultaneous") if n in call}
    return _as_table(change(call["before"], call["after"], ledger=session.ledger, **options))


BUDGET = {
    **dict.fromkeys(("ledger", "accountant"), "VARCHAR"),
    **dict.fromkeys(("epsilon", "delta", "spent_epsilon", "spent_delta"), "DOUBLE"),
    **dict.fromkeys(("left_epsilon", "left_delta", "plain_epsilon", "saved_epsilon"), "DOUBLE"),
    **dict.fromkeys(("releases", "reserved"), "BIGINT"),
    **dict.fromkeys(("unread_epsilon", "unread_delta"), "DOUBLE"),
    "protects": "VARCHAR",
}
"""Columns of ``dp_budget``, with their types."""

RELEASES = {
    "number": "BIGINT",
    **dict.fromkeys(("time", "release", "release_id", "source", "mechanism"), "VARCHAR"),
    **dict.fromkeys(("hierarchy", "neighbours"), "VARCHAR"),
    **dict.fromkeys(("epsilon", "delta"), "DOUBLE"),
    "stored": "BOOLEAN",
    **dict.fromkeys(("receipt", "period"), "VARCHAR"),
}
"""Columns of ``dp_releases``, with their types."""


def _budget(session: Session, facts: Facts) -> pa.Table:
    """Return the summary of the ledger in one row; no row without a ledger."""
    return pa.table({}) if session.ledger is None else _as_table(session.ledger.summary())


def _releases(session: Session, facts: Facts) -> pa.Table:
    """Return the releases of the ledger; without a ledger, those of the connection."""
    if session.ledger is not None:
        return _as_table(session.ledger.releases()[[*RELEASES]])
    rows = [
        {
            **{name: receipt.get(name) for name in RELEASES},
            "number": number,
            "source": source,
            "stored": False,
            "receipt": receipt.to_json(),
            "period": period_in(receipt),
        }
        for number, (receipt, source) in enumerate(session.receipts, 1)
    ]
    return pa.Table.from_pylist(rows)


READ: Mapping[str, Callable[[Session, Facts], pa.Table]] = {
    "replay": _replay,
    "change": change_table,
    "budget": _budget,
    "releases": _releases,
}


# -- rows as texts -------------------------------------------------------------------------------


def _as_table(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _text_rows(table: pa.Table) -> pa.ListArray:
    """Return a table as one list of rows, each a list of texts."""
    rows, wide = table.num_rows, table.num_columns
    columns = [_texts_of(column).combine_chunks() for column in table.columns]
    order = (np.arange(rows)[:, None] + rows * np.arange(wide)).ravel()
    texts = pa.concat_arrays([pa.array([], pa.string()), *columns]).take(pa.array(order))
    listed = pa.ListArray.from_arrays(pa.array(wide * np.arange(rows + 1), pa.int32()), texts)
    return pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), listed)


def _texts_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as texts that DuckDB reads back."""
    if pa.types.is_duration(column.type):
        micros = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(micros, "microseconds", " ")
    return column.cast(pa.string())


def _concatenate(made: list[pa.Array]) -> pa.Array:
    none = pa.array([], pa.list_(pa.list_(pa.string())))
    return pa.concat_arrays([none, *made])
