"""``register(con)``: the table functions ``dp_hhh``, ``dp_explain``, ``dp_budget`` and others.

A macro is one line of SQL in ``sql/``: it asks a function of ours, while the statement is bound,
for the SQL of the same rollup that the accessor runs. That SQL ends in one scalar function over the
list of candidates, which charges and draws when the statement runs. Binding does neither.
"""

from __future__ import annotations

import contextvars
import json
import re
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe import _duck
from dpframe._sql import identifier, literal
from dpframe.errors import DpframeError, ParameterTypeError, SourceError
from dpframe.frontends.arguments import chosen_ledger, release_name, whole
from dpframe.frontends.duckdb_prefix import (
    device_rows,
    explain_prefix_tree_sql,
    prefix_tree_sql,
)
from dpframe.frontends.duckdb_running import budget, draw, releases, replay, sketch
from dpframe.frontends.duckdb_sessions import (
    KINDS,
    Session,
    arguments_of,
    described_by,
    plan_of,
    session_of,
    sessions,
    source_of,
    tokens,
)
from dpframe.frontends.duckdb_synthetic import (
    TEXTS,
    explain_synthesize_sql,
    synthesize_sql,
    synthetic_rows,
)
from dpframe.frontends.duckdb_types import (
    BUDGET,
    RELEASES,
    ROWS,
    level_value,
    own_column,
    plan_sql,
    stored_types,
)
from dpframe.frontends.heavy_hitters import flat_hierarchy
from dpframe.ledger import Ledger, Stored
from dpframe.noise import random_seed
from dpframe.plan import Plan
from dpframe.sources import sql_tables
from dpframe.sources.sql_tables import SqlSource
from dpframe.tree_plan import TreePlan

if TYPE_CHECKING:
    from dpframe._duck import DuckDBPyConnection

OURS = "system.main"
"""Where DuckDB keeps functions from Python: in full, no macro of a database comes in between."""


def register(con: DuckDBPyConnection, ledger: Ledger | str | Path | None = None) -> None:
    """Give a DuckDB connection the table functions of dpframe.

    ``dp_hhh``, ``dp_tree_counts``, ``dp_synthesize``, ``dp_prefix_tree``, ``dp_heavy_hitters``,
    their ``dp_explain``, ``dp_explain_tree_counts``, ``dp_explain_synthesize`` and
    ``dp_explain_prefix_tree``, ``dp_budget``, ``dp_releases`` and ``dp_functions`` are temporary
    macros of this connection: nothing is written to its database, which may be read-only. Calling
    it again, also with another ledger, replaces them. A cursor is a connection of its own.

    Parameters
    ----------
    con
        An open connection or cursor.
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
    if not isinstance(con, _duck.DuckDBPyConnection):
        raise ParameterTypeError(
            f"con must be a DuckDB connection, as from duckdb.connect(); got {type(con).__name__}."
        )
    token = str(next(tokens))
    sessions[token] = Session(weakref.ref(con), chosen_ledger(ledger), contextvars.copy_context())
    weakref.finalize(con, sessions.pop, token, None)
    _duck.add_functions(con, FUNCTIONS, ARROW_FUNCTIONS)
    script = macros()
    named = re.findall(r"^CREATE OR REPLACE TEMP MACRO (\w+)", script, re.MULTILINE)
    forgotten = [f"DROP MACRO TABLE IF EXISTS temp.main.{name};" for name in named]  # they depend:
    here = f"CREATE OR REPLACE TEMP MACRO __dpframe_here() AS {literal(token)};"
    _duck.run_script(con, "\n".join([*forgotten, here, script]))


def macros() -> str:
    """The files of ``sql/`` that define macros: beside the package, or in it when installed."""
    package = Path(__file__).parent.parent
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
    kind: str, token: str, path: str, tbl: object, query: object, release: object, *given: object
) -> str:
    """The SQL of a release: the rollup, whose last step charges and draws."""
    session = session_of(token)
    arguments = arguments_of(kind, given, session, path)
    plan = plan_of(kind, arguments, session)
    source, name = source_of(tbl, query), release_name(release)
    facts: dict[str, object] = {
        "kind": kind,
        "arguments": arguments,
        "release": name,
        "source": source.described,
    }
    stored = None if name is None else _stored(session, plan, source, name)
    if stored is not None:
        columns = _label_columns(plan, stored_types(stored, plan.hierarchy))
        rows = f"{OURS}.__dpframe_replay({literal(token)}, {literal(_json(facts))})"
        return f"SELECT {columns} FROM (SELECT unnest({rows}) AS r)"
    described = described_by(session, path, source)
    types = sql_tables.level_types(plan.hierarchy, described)
    call, columns = _json({**facts, "types": types}), _label_columns(plan, types)
    if isinstance(plan, Plan) and plan.counters is not None:
        if described is None:
            return sql_tables.not_seen(source, "mechanism='streaming'", "by mechanism='offline'")
        sql_tables.check_stored(plan.hierarchy, plan.unit, described)
        where = f"{literal(source.relation)}, {literal(path)}"
        rows = f"{OURS}.__dpframe_sketch({literal(token)}, {literal(call)}, {where})"
        return f"SELECT {columns} FROM (SELECT unnest({rows}) AS r)"
    only = plan.listed if isinstance(plan, TreePlan) else None
    rollup = sql_tables.statement(
        source,
        plan.hierarchy,
        plan.unit,
        band=plan.band,
        seed=session.context.copy().run(random_seed),
        columns=described,
        only=only,
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
        listed = plan.listed if isinstance(plan, TreePlan) else None
        sql_tables.statement(
            source,
            plan.hierarchy,
            plan.unit,
            band=plan.band,
            seed=0,
            columns=described,
            only=listed,
        )
    return plan_sql(plan)


def _heavy_sql(
    token: str,
    path: str,
    tbl: object,
    query: object,
    release: object,
    k: object,
    column: object,
    *given: object,
) -> str:
    """The frequent values of one column; ``given`` are the arguments but for the hierarchy."""
    most = "" if k is None else f" LIMIT {whole('k', k, 1, 2**53)}"
    hierarchy = flat_hierarchy(column)
    arguments = dict(zip(KINDS["hhh"].arguments, (hierarchy.spec, *given), strict=True))
    arguments["remainder"] = False
    rows = _release_sql("hhh", token, path, tbl, query, release, *arguments.values())
    name = identifier(hierarchy.label_columns[0])
    order = f"ORDER BY count DESC NULLS LAST, {name} ASC NULLS LAST"
    return f'SELECT {name}, "count", "lower", "upper" FROM ({rows}) {order}{most}'


def _json(facts: dict[str, object]) -> str:
    return json.dumps(facts, ensure_ascii=False)


def _stored(session: Session, plan: Plan | TreePlan, source: SqlSource, name: str) -> Stored | None:
    request = {**plan.request, "source": source.described}
    return session.ledger_for(name).find(name, request)


def _label_columns(plan: Plan | TreePlan, types: Sequence[str]) -> str:
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
