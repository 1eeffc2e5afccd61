"""``dp_synthesize``: synthetic rows in SQL. Binding writes the statement, running draws."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dpframe import _duck
from dpframe._sql import identifier, literal
from dpframe.asking.given import data_name, release_name
from dpframe.asking.plan import Counted
from dpframe.doors.sql.running import charged_release, once
from dpframe.doors.sql.sessions import (
    Session,
    described_by,
    plain,
    session_of,
    source_of,
)
from dpframe.doors.sql.types import plan_sql
from dpframe.errors import ParameterError
from dpframe.noise import replaced_by, replacement
from dpframe.questions.synthesize.ask import SYNTHESIZE
from dpframe.questions.synthesize.checks import Asked, Fitting, check_sample
from dpframe.questions.synthesize.count import with_schema
from dpframe.questions.synthesize.generator import Generator
from dpframe.sources import sql_tables
from dpframe.sources.codes import relation_codes, relation_schema
from dpframe.sources.columns import require

OURS = "system.main"

ARGUMENTS = (
    *("columns", "epsilon", "k", "width", "rows", "depth", "keys", "split", "user"),
    "max_contributions",
)
"""In the order in which the macros pass them."""

MOST = 10_000_000
"""Rows of a statement: they are one value of DuckDB on the way, and made after the charge."""

TEXTS = "VARCHAR[][]"
"""Rows as they cross into DuckDB: a text a column, cast by the statement."""


def synthesize_sql(
    token: str,
    path: str,
    tbl: object,
    query: object,
    release: object,
    data: object,
    n: object,
    *given: object,
) -> str:
    """SQL of n synthetic rows with the names and types of the columns."""
    session, arguments = session_of(token), _arguments(given)
    wanted = _asked(arguments).wanted
    count, source, name = check_sample(plain(n)), source_of(tbl, query), release_name(release)
    if count > MOST:
        raise ParameterError(
            f"n ({count}) is more than a statement can hold: at most {MOST}; from Python, "
            "dp.synthesize draws any number, in pieces."
        )
    if name is not None:
        session.ledger_for(name)
    described = described_by(session, path, source)
    if described is None:
        return sql_tables.not_seen(source, "dp_synthesize", "from Python by dp.synthesize")
    types = _types(wanted, described)
    facts = {"kind": "synthesize", "arguments": arguments, "n": count, "release": name}
    drawn = {"source": source.described, "data": data_name(data), "noise": replacement()}
    call = json.dumps({**facts, **drawn}, ensure_ascii=False)
    where = f"{literal(source.relation)}, {literal(path)}"
    texts = f"{OURS}.__dpframe_rows({literal(token)}, {literal(call)}, {where})"
    columns = ", ".join(
        f"TRY_CAST(r[{i}] AS {_type(types[c])}) AS {identifier(c)}"  # <other> is no UUID
        for i, c in enumerate(wanted.domain.columns, 1)
    )
    return f"SELECT {columns} FROM (SELECT unnest({texts}) AS r)"


def explain_synthesize_sql(
    token: str, path: str, tbl: object, query: object, _: object, *given: object
) -> str:
    """SQL of the plan, as rows."""
    session, arguments = session_of(token), _arguments(given)
    asked = _asked(arguments)
    if tbl is not None or query is not None:
        described = described_by(session, path, source_of(tbl, query))
        if described is not None:
            _types(asked.wanted, described)
    return plan_sql(asked.plan)


def _types(wanted: Asked, described: list[tuple[str, str]]) -> dict[str, str]:
    """Types of the domain's columns, checked."""
    found = dict(described)
    require(wanted.domain.columns, list(found))
    types = {c: found[c] for c in wanted.domain.columns}
    wanted.domain.check_types(types)
    return types


def synthetic_rows(
    tokens: pa.ChunkedArray,
    calls: pa.ChunkedArray,
    relations: pa.ChunkedArray,
    paths: pa.ChunkedArray,
) -> pa.Array:
    """While the statement runs: count, charge, draw, sample."""
    return once(_rows, tokens, calls, relations, paths)


def _rows(token: str, call: str, relation: str, path: str) -> pa.Array:
    session, facts = session_of(token), json.loads(call)
    with replaced_by(facts["noise"]):
        table = _drawn(session, facts, relation, path)
    texts = [column.cast(pa.string()).combine_chunks() for column in table.columns]
    wide, long = len(texts), table.num_rows
    together = pa.concat_arrays([pa.array([], pa.string()), *texts])
    order = np.arange(long)[:, None] + long * np.arange(wide)
    values = together.take(pa.array(order.ravel()))
    ends = pa.array(wide * np.arange(long + 1), pa.int32())
    inner = pa.ListArray.from_arrays(ends, values)
    return pa.ListArray.from_arrays(pa.array([0, long], pa.int32()), inner)


def _drawn(session: Session, facts: dict[str, Any], relation: str, path: str) -> pa.Table:
    asked = _asked(facts["arguments"])
    wanted = asked.wanted
    with _duck.beside(session.opened(), relation, path, "the source") as rows:
        schema = relation_schema(rows, wanted.domain)
        plan = with_schema(asked, schema).plan
        result = charged_release(
            session,
            facts,
            plan,
            lambda: Counted(relation_codes(rows, wanted.domain, plan.sketch(), plan.unit)),
        )
    return Generator(result, wanted, schema, {}).sample_arrow(facts["n"])


def _arguments(given: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(ARGUMENTS, map(_json, given), strict=True))


def _json(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json(v) for v in value]
    if isinstance(value, dt.date):  # and times
        return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return plain(value)


def _asked(arguments: Mapping[str, Any]) -> Fitting:
    return SYNTHESIZE.plan({name: v for name, v in arguments.items() if v is not None})


def _type(name: str) -> str:
    """The type of a column; that of an ENUM lists values of the data's owner, and text will do, as
    it does for a column that holds nothing and has no type."""
    return "VARCHAR" if name.startswith("ENUM") or name == '"NULL"' else name
