"""``dp_prefix_tree``: devices of a table in SQL. Binding writes the statement, running draws."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dpframe import _duck
from dpframe._sql import identifier, literal
from dpframe.asking.given import data_name, release_name
from dpframe.asking.plan import Counted
from dpframe.asking.release import Release, already, asked_for
from dpframe.doors.sql.running import charged_release, once
from dpframe.doors.sql.sessions import (
    Session,
    described_by,
    plain,
    session_of,
    source_of,
)
from dpframe.doors.sql.types import own_column, plan_sql, result_rows
from dpframe.federated.population import Population
from dpframe.noise import replacement
from dpframe.questions.prefix_tree.ask import PREFIX_TREE
from dpframe.questions.prefix_tree.asked import PrefixAsked
from dpframe.questions.prefix_tree.count import checked_population, declared_plan
from dpframe.questions.prefix_tree.plan import make_prefix_plan
from dpframe.sources import sql_tables
from dpframe.sources.devices import relation_devices, relation_population

OURS = "system.main"

FIRST = ("column", "epsilon", "delta", "user")
ARGUMENTS = (*FIRST, *(name for name in PREFIX_TREE.planning if name not in FIRST))
"""In the order in which the macros pass them."""


def prefix_tree_sql(
    token: str,
    path: str,
    tbl: object,
    query: object,
    release: object,
    data: object,
    *given: object,
) -> str:
    """SQL of the items found, largest count first."""
    session, arguments = session_of(token), _arguments(given)
    asked, source, name = _asked(arguments), source_of(tbl, query), release_name(release)
    facts = {"kind": "prefix_tree", "arguments": arguments, "release": name}
    drawn = {"source": source.described, "data": data_name(data), "noise": replacement()}
    call = json.dumps({**facts, **drawn}, ensure_ascii=False)
    here = f"{literal(token)}, {literal(call)}"
    if name is not None and _answered(session, asked, drawn, name) is not None:
        return _flat(asked, f"{OURS}.__dpframe_replay({here})")
    described = described_by(session, path, source)
    if described is None:
        return sql_tables.not_seen(source, "dp_prefix_tree", "from Python by dp.prefix_tree")
    sql_tables.check_stored(asked.hierarchy, asked.unit, described)
    where = f"{literal(source.relation)}, {literal(path)}"
    return _flat(asked, f"{OURS}.__dpframe_devices({here}, {where})")


def explain_prefix_tree_sql(
    token: str, path: str, tbl: object, query: object, _: object, *given: object
) -> str:
    """SQL of the plan, as rows."""
    session, asked = session_of(token), _asked(_arguments(given))
    if tbl is not None or query is not None:
        described = described_by(session, path, source_of(tbl, query))
        if described is not None:
            sql_tables.check_stored(asked.hierarchy, asked.unit, described)
    return plan_sql(declared_plan(asked))


def _flat(asked: PrefixAsked, rows: str) -> str:
    """The columns of ``dp.prefix_tree``, in its order."""
    name = identifier(asked.hierarchy.label_columns[0])
    return (
        f"SELECT r.keys[1] AS {name}, {', '.join(map(own_column, ('count', 'lower', 'upper')))} "
        f"FROM (SELECT unnest({rows}) AS r) "
        f"ORDER BY r.count DESC NULLS LAST, {name} ASC NULLS LAST"
    )


def device_rows(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    """While the statement runs: count users, charge, ask devices."""
    return once(_rows, tokens, calls, relations, paths)


def _rows(token: str, call: str, relation: str, path: str) -> pa.Array:
    session, facts = session_of(token), json.loads(call)
    asked = _asked(facts["arguments"])
    if facts["release"] is not None:  # stored since the statement was bound
        stored = _answered(session, asked, facts, facts["release"])
        if stored is not None:
            return result_rows(stored)
    with _duck.beside(session.opened(), relation, path, "the source") as rows:
        return result_rows(_released(session, facts, asked, rows))


def _released(
    session: Session, facts: Mapping[str, Any], asked: PrefixAsked, rows: _duck.Relation
) -> Release:
    plan = make_prefix_plan(asked, relation_devices(rows, asked.hierarchy, asked.user))
    search = asked.search

    def counted() -> Counted[Population]:
        found = relation_population(
            rows, asked.hierarchy, asked.user, search.encoding, search.segments.length
        )
        return Counted(checked_population(found, plan))

    return charged_release(session, facts, plan, counted)


def _answered(
    session: Session, asked: PrefixAsked, facts: Mapping[str, Any], name: str
) -> Release | None:
    """What a name already answered; users are not counted for it."""
    request = asked_for(asked.request, facts["source"], facts["data"])
    former = PREFIX_TREE.former(asked)
    before = None if former is None else asked_for(former, facts["source"], facts["data"])
    return already(request, session.ledger_for(name), name, before)


def _arguments(given: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(ARGUMENTS, map(plain, given), strict=True))


def _asked(arguments: Mapping[str, Any]) -> PrefixAsked:
    given = {name: value for name, value in arguments.items() if value is not None}
    return PREFIX_TREE.plan(given)
