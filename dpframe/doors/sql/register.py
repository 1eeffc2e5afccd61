"""``register(con)``: the table functions ``dp_hhh``, ``dp_explain``, ``dp_budget`` and others.

A macro in ``sql/`` calls one of our functions while the statement is bound. The function returns
SQL; for a question, this SQL passes candidates, a relation or rows to a second function of ours,
which charges and draws when the statement runs. Binding does neither.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from dpframe import _duck
from dpframe._known_arguments import bind_arguments, inside_call, shorten_errors
from dpframe._sql import literal
from dpframe.doors.sql import engines
from dpframe.doors.sql.call_text import ask_sql, explain_sql
from dpframe.doors.sql.calls import as_parameters
from dpframe.doors.sql.change_calls import change_rows, change_sql
from dpframe.doors.sql.plan_series_calls import plan_series_sql
from dpframe.doors.sql.run_calls import (
    budget_lists,
    draw_candidates,
    draw_cells,
    draw_from_relation,
    draw_handed_nodes,
    draw_handed_rows,
    draw_measures,
    release_lists,
    replay,
    replay_measured,
    sample_rows,
)
from dpframe.doors.sql.sessions import Session, no_connection_message, sessions, tokens
from dpframe.doors.sql.types import BUDGET, RELEASES, ROWS, TEXTS
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError
from dpframe.ledger import Ledger, chosen_ledger
from dpframe.questions.question_list import QUESTIONS

T = TypeVar("T", bound=Callable[..., Any])


def _check_register_arguments(function: T) -> T:
    """Check arguments as ``known_arguments`` does. The number of references to ``con``, which
    ``register`` reads, is the same whether ``con`` is passed by place or by name."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(con: object = signature.empty, ledger: Any = None, *more: Any, **unknown: Any) -> Any:
        if more or unknown or con is signature.empty:
            given = (con, ledger, *more) if con is not signature.empty else ()
            bind_arguments(function, signature, given, unknown)
        return function(con, ledger)

    return cast(T, call)


@shorten_errors
@_check_register_arguments
def register(con: object, ledger: Ledger | str | Path | None = None) -> None:
    """Give a DuckDB connection the table functions of dpframe.

    ``dp_hhh``, ``dp_tree_counts``, ``dp_synthesize``, ``dp_prefix_tree``, ``dp_heavy_hitters``,
    ``dp_explain``, ``dp_explain_tree_counts`` and so on for each question, ``dp_change``,
    ``dp_budget``, ``dp_releases`` and ``dp_functions`` are temporary macros of this connection:
    nothing is written to its database, which may be read-only. Another call, also with another
    ledger, replaces the macros. A cursor is a separate connection.

    Parameters
    ----------
    con
        An open connection or cursor; the module ``duckdb`` for its default connection, which
        ``duckdb.sql`` uses; a connection of SQLAlchemy (duckdb-engine), ibis or jupysql to DuckDB;
        or an engine of SQLAlchemy, each connection of which is registered when it is used.
    ledger
        The ledger that is charged: a :class:`Ledger` or its path; by default the ledger of
        :class:`use_ledger`.

    Raises
    ------
    ParameterTypeError
        ``con`` is neither a DuckDB connection nor an engine for DuckDB.
    ParameterError
        ``con`` is closed, or in a transaction that began earlier.
    LedgerError
        The ledger cannot be used.

    Privacy
    -------
    As for :func:`hhh`. Every run of a statement with ``dp_hhh`` draws and charges anew, once for
    every place that reads its rows, unless ``release :=`` names the release (docs/sql.md).

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
    passed_on = sys.getrefcount(con) <= _TEMPORARY  # no caller keeps it: register(duckdb...())
    if engines.is_engine(con):
        charged = chosen_ledger(ledger)
        engines.register_engine(
            con, lambda one: _register_connection(_open_connection(one), charged, None)
        )
        return
    opened = _open_connection(con)
    maybe = con is not opened or passed_on
    maybe &= isinstance(con, ModuleType | _duck.DuckDBPyConnection)
    kept = opened if maybe and _duck.is_default(opened) else None  # duckdb.sql goes on using it
    _register_connection(opened, chosen_ledger(ledger), kept)


def _open_connection(con: object) -> _duck.DuckDBPyConnection:
    opened = _duck.connection_in(con)
    if opened is None:
        raise ParameterTypeError(no_connection_message(con))
    if not _duck.is_open(opened):
        raise ParameterError("con is closed. Open a connection, as with duckdb.connect().")
    return opened


def _register_connection(
    opened: _duck.DuckDBPyConnection, ledger: Ledger | None, kept: _duck.DuckDBPyConnection | None
) -> None:
    _duck.add_functions(opened, FUNCTIONS, ARROW_FUNCTIONS)
    if not _duck.sees_function(opened, next(iter(FUNCTIONS))):
        raise ParameterError(
            "con is in a transaction that began before register. Commit it or roll it back first; "
            "SQLAlchemy begins one with the first statement."
        )
    token = str(next(tokens))
    sessions[token] = Session(weakref.ref(opened), ledger, kept)
    weakref.finalize(opened, sessions.pop, token, None)
    script = macro_script()
    named = re.findall(r"^CREATE OR REPLACE TEMP MACRO (\w+)", script, re.MULTILINE)
    # dropped first: they depend on __dpframe_here, which is replaced
    forgotten = [f"DROP MACRO TABLE IF EXISTS temp.main.{name};" for name in named]
    here = f"CREATE OR REPLACE TEMP MACRO __dpframe_here() AS {literal(token)};"
    _duck.run_script(opened, "\n".join([*forgotten, here, script]))


_TEMPORARY = shorten_errors(_check_register_arguments(lambda con, ledger: sys.getrefcount(con)))(
    object()
)  # type: ignore[call-arg]
"""Number of references that ``register`` sees to an argument that its caller does not keep."""


def macro_folder() -> Path:
    """Return the folder of the files that define macros: in the package if it is installed, else
    beside the package."""
    package = Path(__file__).parent.parent.parent
    return package / "sql" if (package / "sql").is_dir() else package.parent / "sql"


def macro_script() -> str:
    """Return the text of all files that define macros, as one script."""
    return "\n".join((macro_folder() / name).read_text("utf-8") for name in MACRO_FILES)


MACRO_FILES = (
    *(f"{question.name}.sql" for question in QUESTIONS),
    "ledger.sql",
    "change.sql",
    "series.sql",
    "functions.sql",
)
"""Names of the files with macros; the last four are written by hand."""


def _withhold_other_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that only our errors reach the SQL user, spelled as in SQL: texts of other
    errors can quote the data."""

    def call(*arguments: Any) -> Any:
        answer: DpframeError
        try:
            with inside_call:
                return function(*arguments)
        except DpframeError as error:
            answer = error
            answer.args = (as_parameters(str(error)),)
        except Exception as error:
            name = type(error).__name__
            answer = SourceError(f"dpframe failed ({name}; its text is withheld).")
        raise answer.with_traceback(None) from None

    return call


FUNCTIONS = {
    "__dpframe_ask": _withhold_other_errors(ask_sql),
    "__dpframe_explain": _withhold_other_errors(explain_sql),
    "__dpframe_change": _withhold_other_errors(change_sql),
    "__dpframe_plan_series": _withhold_other_errors(plan_series_sql),
}
ARROW_FUNCTIONS = {
    "__dpframe_draw": (_withhold_other_errors(draw_candidates), ROWS),
    "__dpframe_draw_cells": (_withhold_other_errors(draw_cells), TEXTS),
    "__dpframe_beside": (_withhold_other_errors(draw_from_relation), ROWS),
    "__dpframe_rows": (_withhold_other_errors(sample_rows), TEXTS),
    "__dpframe_replay": (_withhold_other_errors(replay), ROWS),
    "__dpframe_replay_measured": (_withhold_other_errors(replay_measured), TEXTS),
    "__dpframe_measured": (_withhold_other_errors(draw_measures), TEXTS),
    "__dpframe_changed": (_withhold_other_errors(change_rows), TEXTS),
    "__dpframe_handed_over": (_withhold_other_errors(draw_handed_rows), TEXTS),
    "__dpframe_handed_nodes": (_withhold_other_errors(draw_handed_nodes), ROWS),
    "__dpframe_budget": (_withhold_other_errors(budget_lists), BUDGET),
    "__dpframe_releases": (_withhold_other_errors(release_lists), RELEASES),
}
