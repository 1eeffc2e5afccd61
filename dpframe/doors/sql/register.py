"""``register(con)``: the table functions ``dp_hhh``, ``dp_explain``, ``dp_budget`` and others.

A macro is one line of SQL in ``sql/``: it asks a function of ours, while the statement is bound,
for the SQL of the same rollup that the accessor runs. That SQL ends in one scalar function over the
list of candidates, which charges and draws when the statement runs. Binding does neither.
"""

from __future__ import annotations

import json
import re
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from dpframe import _duck
from dpframe._sql import identifier, literal
from dpframe.asking.given import (
    chosen,
    chosen_ledger,
    data_name,
    flat_hierarchy,
    release_name,
    whole,
)
from dpframe.asking.release import asked_for
from dpframe.doors.sql.prefix_tree import (
    device_rows,
    explain_prefix_tree_sql,
    prefix_tree_sql,
)
from dpframe.doors.sql.running import budget, draw, releases, replay, sketch
from dpframe.doors.sql.sessions import (
    KINDS,
    Session,
    arguments_of,
    described_by,
    no_connection,
    plan_of,
    session_of,
    sessions,
    source_of,
    tokens,
)
from dpframe.doors.sql.synthesize import (
    TEXTS,
    explain_synthesize_sql,
    synthesize_sql,
    synthetic_rows,
)
from dpframe.doors.sql.types import (
    BUDGET,
    RELEASES,
    ROWS,
    level_value,
    own_column,
    plan_sql,
    stored_types,
)
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError
from dpframe.ledger import Ledger, Stored
from dpframe.noise import random_seed, replacement
from dpframe.questions.hhh.heavy_hitters import FLAT_MECHANISMS
from dpframe.sources import sql_tables
from dpframe.sources.sql_tables import SqlSource

OURS = "system.main"
"""Where DuckDB keeps functions from Python: in full, no macro of a database comes in between."""


def register(con: object, ledger: Ledger | str | Path | None = None) -> None:
    """Give a DuckDB connection the table functions of dpframe.

    ``dp_hhh``, ``dp_tree_counts``, ``dp_synthesize``, ``dp_prefix_tree``, ``dp_heavy_hitters``,
    their ``dp_explain``, ``dp_explain_tree_counts``, ``dp_explain_synthesize`` and
    ``dp_explain_prefix_tree``, ``dp_budget``, ``dp_releases`` and ``dp_functions`` are temporary
    macros of this connection: nothing is written to its database, which may be read-only. Calling
    it again, also with another ledger, replaces them. A cursor is a connection of its own.

    Parameters
    ----------
    con
        An open connection or cursor; the module ``duckdb`` for its default connection, which
        ``duckdb.sql`` uses; or a connection of SQLAlchemy (duckdb-engine), ibis or jupysql to
        DuckDB. An engine of SQLAlchemy opens connections later: docs/sql.md.
    ledger
        What ``dp_hhh`` charges: a :class:`Ledger`, its path, or the one of :class:`use_ledger`.

    Raises
    ------
    ParameterTypeError
        ``con`` is no DuckDB connection.
    LedgerError
        The ledger cannot be used.

    Privacy
    -------
    As :func:`hhh`. Every run of a statement with ``dp_hhh`` draws anew and is charged anew, once
    for every place that reads it, unless ``release :=`` names it (docs/sql.md).

    Examples
    --------
    >>> import duckdb, dpframe as dp
    >>> con = duckdb.connect()
    >>> source = "SELECT '10.0.0.' || range % 3 AS src FROM range(900)"
    >>> _ = con.execute(f"CREATE TABLE visits AS {source}")
    >>> dp.register(con)
    >>> rows = con.sql('''
    ...     SELECT prefix, count FROM dp_hhh('visits', 'ip:src', epsilon := 1.0, delta := 1e-6)
    ...     WHERE level = 4 ORDER BY prefix''').fetchall()
    >>> [prefix for prefix, _ in rows]
    ['10.0.0.0/32', '10.0.0.1/32', '10.0.0.2/32']
    """
    passed_on = sys.getrefcount(con) <= _TEMPORARY  # nobody keeps it, as in register(duckdb...())
    opened = _duck.connection_in(con)
    if opened is None:
        raise ParameterTypeError(no_connection(con))
    if not _duck.is_open(opened):
        raise ParameterError("con is closed: open a connection, as with duckdb.connect().")
    token = str(next(tokens))
    maybe = con is not opened or passed_on
    maybe &= isinstance(con, ModuleType | _duck.DuckDBPyConnection)
    kept = opened if maybe and _duck.is_default(opened) else None  # duckdb.sql goes on with it
    sessions[token] = Session(weakref.ref(opened), chosen_ledger(ledger), kept)
    weakref.finalize(opened, sessions.pop, token, None)
    _duck.add_functions(opened, FUNCTIONS, ARROW_FUNCTIONS)
    script = macros()
    named = re.findall(r"^CREATE OR REPLACE TEMP MACRO (\w+)", script, re.MULTILINE)
    forgotten = [f"DROP MACRO TABLE IF EXISTS temp.main.{name};" for name in named]  # they depend:
    here = f"CREATE OR REPLACE TEMP MACRO __dpframe_here() AS {literal(token)};"
    _duck.run_script(opened, "\n".join([*forgotten, here, script]))


_TEMPORARY = (lambda given: sys.getrefcount(given))(object())
"""References to an argument that the caller does not keep."""


def macros() -> str:
    """The files of ``sql/`` that define macros: beside the package, or in it when installed."""
    package = Path(__file__).parent.parent.parent
    folder = package / "sql" if (package / "sql").is_dir() else package.parent / "sql"
    return "\n".join((folder / name).read_text("utf-8") for name in MACRO_FILES)


MACRO_FILES = (
    "hhh.sql",
    "tree_counts.sql",
    "synthesize.sql",
    "heavy_hitters.sql",
    "prefix_tree.sql",
    "ledger.sql",
    "functions.sql",
)


# -- while a statement is bound: SQL text ---------------------------------------------------------


def _release_sql(
    kind: str,
    token: str,
    path: str,
    tbl: object,
    query: object,
    release: object,
    data: object,
    *given: object,
) -> str:
    """The SQL of a release: the rollup, whose last step charges and draws."""
    session = session_of(token)
    arguments = arguments_of(kind, given, session, path)
    plan = plan_of(kind, arguments, session)
    source, name, about = source_of(tbl, query), release_name(release), data_name(data)
    facts: dict[str, object] = {
        "kind": kind,
        "arguments": arguments,
        "release": name,
        "data": about,
        "source": source.described,
        "noise": replacement(),
    }
    stored = None if name is None else _stored(session, plan, source, name, about)
    if stored is not None:
        columns = _label_columns(plan, stored_types(stored, plan.hierarchy))
        rows = f"{OURS}.__dpframe_replay({literal(token)}, {literal(_json(facts))})"
        return f"SELECT {columns} FROM (SELECT unnest({rows}) AS r)"
    described = described_by(session, path, source)
    types = sql_tables.level_types(plan.hierarchy, described)
    call, columns = _json({**facts, "types": types}), _label_columns(plan, types)
    if getattr(plan, "counters", None) is not None:
        if described is None:
            return sql_tables.not_seen(source, "mechanism='streaming'", "by mechanism='offline'")
        sql_tables.check_stored(plan.hierarchy, plan.unit, described)
        where = f"{literal(source.relation)}, {literal(path)}"
        rows = f"{OURS}.__dpframe_sketch({literal(token)}, {literal(call)}, {where})"
        return f"SELECT {columns} FROM (SELECT unnest({rows}) AS r)"
    rollup = sql_tables.statement(
        source,
        plan.hierarchy,
        plan.unit,
        band=plan.band,
        seed=random_seed(),
        columns=described,
        only=plan.listed,
    )
    keys = (f"t{i}" for i in range(1, plan.hierarchy.key_width + 1))
    small = ['"i" := i::UINTEGER', '"level" := level::UTINYINT']  # a third less to copy
    packed = ", ".join([*small, '"n" := n', *(f'"{k}" := {k}' for k in keys)])
    listed = f"(SELECT row_number() OVER () AS i, * FROM ({rollup}))"
    rows = (
        f"{OURS}.__dpframe_draw({literal(token)}, {literal(call)}, list(struct_pack({packed})), "
        "current_setting('default_collation'))"
    )
    return f"SELECT {columns} FROM (SELECT unnest({rows}) AS r FROM {listed})"


def _explain_sql(
    kind: str, token: str, path: str, tbl: object, query: object, _: object, *given: object
) -> str:
    session = session_of(token)
    plan = plan_of(kind, arguments_of(kind, given, session, path), session)
    if tbl is not None or query is not None:
        source = source_of(tbl, query)
        described = described_by(session, path, source)
        sql_tables.statement(
            source,
            plan.hierarchy,
            plan.unit,
            band=plan.band,
            seed=0,
            columns=described,
            only=plan.listed,
        )
    return plan_sql(plan)


def _heavy_sql(
    token: str,
    path: str,
    tbl: object,
    query: object,
    release: object,
    data: object,
    k: object,
    column: object,
    *given: object,
) -> str:
    """The frequent values of one column; ``given`` are the arguments but for the hierarchy."""
    most = "" if k is None else f" LIMIT {whole('k', k, 1, 2**53)}"
    hierarchy = flat_hierarchy(column)
    arguments = dict(zip(KINDS["hhh"].planning, (hierarchy.spec, *given), strict=True))
    arguments["remainder"] = False
    if arguments["mechanism"] is not None:
        chosen("mechanism", arguments["mechanism"], FLAT_MECHANISMS)
    rows = _release_sql("hhh", token, path, tbl, query, release, data, *arguments.values())
    name = identifier(hierarchy.label_columns[0])
    order = f"ORDER BY count DESC NULLS LAST, {name} ASC NULLS LAST"
    return f'SELECT {name}, "count", "lower", "upper" FROM ({rows}) {order}{most}'


def _json(facts: dict[str, object]) -> str:
    return json.dumps(facts, ensure_ascii=False)


def _stored(
    session: Session, plan: Any, source: SqlSource, name: str, data: str | None
) -> Stored | None:
    request = asked_for(plan.request, source.described, data)
    return session.ledger_for(name).find(name, request)


def _label_columns(plan: Any, types: Sequence[str]) -> str:
    names = plan.hierarchy.label_columns
    keys = [f"{level_value(i, types)} AS {identifier(name)}" for i, name in enumerate(names, 1)]
    before, after = ("level", "prefix"), ("residual", "count", "lower", "upper")
    return ", ".join([*map(own_column, before), *keys, *map(own_column, after)])


def _answered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Only errors of ours reach the SQL user: what others say can quote the data."""

    def call(*arguments: Any) -> Any:
        answer: DpframeError
        try:
            return function(*arguments)
        except DpframeError as error:
            answer = error
        except Exception as error:
            name = type(error).__name__
            answer = SourceError(f"dpframe failed ({name}; its text is withheld).")
        raise answer.with_traceback(None) from None

    return call


FUNCTIONS = {
    "__dpframe_hhh": _answered(partial(_release_sql, "hhh")),
    "__dpframe_heavy": _answered(_heavy_sql),
    "__dpframe_explain": _answered(partial(_explain_sql, "hhh")),
    "__dpframe_tree_counts": _answered(partial(_release_sql, "tree_counts")),
    "__dpframe_explain_tree": _answered(partial(_explain_sql, "tree_counts")),
    "__dpframe_synthesize": _answered(synthesize_sql),
    "__dpframe_explain_synthesize": _answered(explain_synthesize_sql),
    "__dpframe_prefix_tree": _answered(prefix_tree_sql),
    "__dpframe_explain_prefix_tree": _answered(explain_prefix_tree_sql),
}
ARROW_FUNCTIONS = {
    "__dpframe_draw": (_answered(draw), ROWS),
    "__dpframe_sketch": (_answered(sketch), ROWS),
    "__dpframe_replay": (_answered(replay), ROWS),
    "__dpframe_rows": (_answered(synthetic_rows), TEXTS),
    "__dpframe_devices": (_answered(device_rows), ROWS),
    "__dpframe_budget": (_answered(budget), BUDGET),
    "__dpframe_releases": (_answered(releases), RELEASES),
}
