"""Macros: ``register(con)`` gives a connection ``dp_hhh``, ``dp_explain`` and others, whose files
are in ``sql/``.

A macro calls one of our functions while the statement is bound. The function returns SQL; for a
question, this SQL passes candidates, a relation or rows to a second function of ours, which charges
and draws when the statement runs. Binding does neither.

**Files of macros** are made from the declarations of questions: ``python -m
dpframe.doors.sql.macros`` writes them anew. The order of parameters is public: parameters keep
their places in the file, and new parameters come last.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from dpframe import _duck
from dpframe.asking.question import Question
from dpframe.common.calls import bind_arguments, inside_call, shorten_traceback
from dpframe.common.texts import identifier, literal
from dpframe.doors.sql.calls import (
    TEXTS,
    Session,
    as_parameters,
    draw_list,
    draw_relation,
    read_released,
    sessions,
)
from dpframe.doors.sql.statements import (
    ask_sql,
    change_sql,
    explain_sql,
    explain_sql_sql,
    ledger_sql,
    plan_series_sql,
    sql_sql,
)
from dpframe.errors import DpframeError, ParameterError, ParameterTypeError, SourceError
from dpframe.ledger import Ledger, chosen_ledger
from dpframe.noise import operating_system_bits
from dpframe.questions.question_list import QUESTIONS

T = TypeVar("T", bound=Callable[..., Any])


def _check_register_arguments(function: T) -> T:
    """Check arguments as ``known_arguments`` does. The number of references to ``con``, which
    ``register`` reads, is the same whether ``con`` is passed by place or by name."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(con: object = signature.empty, ledger: Any = None, *more: Any, **unknown: Any) -> Any:
        around = sys.exc_info()[1]
        try:
            with inside_call:
                if more or unknown or con is signature.empty:
                    given = (con, ledger, *more) if con is not signature.empty else ()
                    bind_arguments(function, signature, given, unknown)
                return function(con, ledger)
        except DpframeError as error:
            raise shorten_traceback(error, around)  # noqa: B904  DPFRAME_TRACEBACK=full: all frames

    return cast(T, call)


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
    alchemy = sys.modules.get("sqlalchemy")
    if alchemy is not None and isinstance(con, alchemy.engine.Engine):
        charged = chosen_ledger(ledger)
        _register_engine(
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
        kind = type(con)
        if kind.__module__.startswith("sql.") and kind.__name__ == "DBAPIConnection":
            raise ParameterTypeError(
                "con runs every statement on a new cursor, which is not registered. Connect "
                "jupysql by SQLAlchemy, as in %sql duckdb:///file.db."
            )
        raise ParameterTypeError(
            f"con must be a DuckDB connection; got {kind.__name__}. Pass duckdb.connect(), the "
            "module duckdb, or a connection of SQLAlchemy, ibis or jupysql to DuckDB."
        )
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
    # whoever knows the name of a connection charges its ledger
    token = operating_system_bits(2).tobytes().hex()
    sessions[token] = Session(weakref.ref(opened), ledger, kept)
    weakref.finalize(opened, sessions.pop, token, None)
    script = macro_script()
    named = re.findall(r"^CREATE OR REPLACE TEMP MACRO (\w+)", script, re.MULTILINE)
    # dropped first: they depend on __dpframe_here, which is replaced
    forgotten = [f"DROP MACRO TABLE IF EXISTS temp.main.{name};" for name in named]
    here = f"CREATE OR REPLACE TEMP MACRO __dpframe_here() AS {literal(token)};"
    _duck.run_script(opened, "\n".join([*forgotten, here, script]))


_registering: weakref.WeakKeyDictionary[object, list[Callable[[object], None]]]
_registering = weakref.WeakKeyDictionary()
"""For each engine, a list with one function that registers a connection, of the last call."""


def _register_engine(engine: Any, register_one: Callable[[object], None]) -> None:
    """Register the connections of an engine of SQLAlchemy when they are taken from its pool.

    A connection already in the pool is registered at its next use. Each connection is registered
    once after a call: SQLAlchemy's record of the connection, which lives as long, notes it.
    """
    if engine.dialect.name != "duckdb":
        raise ParameterTypeError(
            f"con is an engine for {engine.dialect.name}, not for DuckDB. Use "
            "sqlalchemy.create_engine('duckdb:///sales.db'); for other engines see "
            "docs/warehouses.md."
        )
    now = _registering.get(engine)
    if now is not None:
        now[0] = register_one
        return
    _registering[engine] = now = [register_one]
    key = (__name__, id(now))

    def taken(connection: object, record: Any, _proxy: object) -> None:
        if record.info.get(key) is not now[0]:
            now[0](connection)
            record.info[key] = now[0]

    sys.modules["sqlalchemy"].event.listen(engine.pool, "checkout", taken)


_TEMPORARY = _check_register_arguments(lambda con, ledger: sys.getrefcount(con))(object())  # type: ignore[call-arg]
"""Number of references that ``register`` sees to an argument that its caller does not keep."""


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
    "__dpframe_sql": _withhold_other_errors(sql_sql),
    "__dpframe_explain_sql": _withhold_other_errors(explain_sql_sql),
    "__dpframe_ledger": _withhold_other_errors(ledger_sql),
}
"""Functions that return the SQL of a statement while it is bound."""

ARROW_FUNCTIONS = {
    "__dpframe_draw": (_withhold_other_errors(draw_list), TEXTS),
    "__dpframe_beside": (_withhold_other_errors(draw_relation), TEXTS),
    "__dpframe_read": (_withhold_other_errors(read_released), TEXTS),
}
"""Functions that return rows when a statement runs, with their types."""


# -- files of macros -----------------------------------------------------------------------------


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
    "queries.sql",
    "functions.sql",
)
"""Names of the files with macros; the last five are written by hand."""

EXPLAINS = {"hhh": "dp_explain"}
"""Macros that explain a question, by its name; by default ``dp_explain_`` and the name."""

ROWS = {
    "hierarchy": "level, prefix, residual, count, lower, upper",
    "by": "level, prefix, a column a level, and for every measure its name, name_lower, name_upper",
    "column": "the column, count, lower, upper, largest first",
    "columns": "n rows with the names and types of the columns, more of them free if release names "
    "it",
}
"""The rows that a macro returns, by what its question is about."""

SAMPLED = {"columns": ("n",)}
"""Further parameters of a macro, by what its question is about: ``n`` rows to sample."""

PYTHON_ONLY = ("seed",)
"""Parameters that no macro has. ``seed`` is for hash functions of generators whose cells are added
up later; in SQL no generator outlives its statement."""


def macro_file_text(question: Question[Any, Any], before: str = "") -> str:
    """Return the text of a question's file; ``before`` is the present text, whose order of
    parameters is kept."""
    name, about = question.name, question.subject
    planning = [name for name in question.plan_arguments if name not in PYTHON_ONLY]
    beside, (first, *rest) = SAMPLED.get(about, ()), planning
    macro, explain = f"dp_{name}", EXPLAINS.get(name, f"dp_explain_{name}")
    sentence = " ".join((inspect.getdoc(question.ask) or "").split("\n\n")[0].split())
    answer = (
        f"{sentence.removesuffix('.')}: {ROWS[about]}. Of a table (tbl) or of a query. Draws and "
        "charges each time it runs, unless release names it; data names the state of the data. "
        f"Arguments as for dp.{name} in Python"
    )
    plan = (
        f"What {macro} with these arguments would do: quantity, value, meaning. Spends nothing and "
        "reads no data. error in the place of epsilon finds the smallest one whose intervals are "
        "at most so wide to each side: a number, or numbers by the name of a measure"
    )
    asked = _in_place(macro, ["tbl", first, *beside, *rest, "release", "query", "data"], before)
    explained = _in_place(
        explain,
        [*(name for name in asked if name in ("tbl", *planning, "query")), "error"],
        before,
    )
    return (
        f"-- {sentence}\n"
        "-- dpframe.register(con) runs this file on a connection.\n"
        f"-- Written by `python -m dpframe.doors.sql.macros` from the declaration of dp.{name}.\n\n"
        f"{_macro(macro, 'ask', name, answer, asked)}\n"
        f"{_macro(explain, 'explain', name, plan, explained)}"
    )


def _macro(macro: str, function: str, question: str, comment: str, ordered: Sequence[str]) -> str:
    fields = (f"{literal(name)}: {identifier(name)}" for name in ordered)
    return (
        f"CREATE OR REPLACE TEMP MACRO {macro}(\n"
        f"{_wrap_parts(f'{identifier(name)} := NULL' for name in ordered)}\n"
        ") AS TABLE\n"
        f"FROM query(system.main.__dpframe_{function}(\n"
        f"    temp.__dpframe_here(), current_setting('search_path'), {literal(question)}, {{\n"
        f"{_wrap_parts(fields)}\n"
        "}));\n\n"
        f"COMMENT ON MACRO TABLE {macro} IS {literal(comment)};\n"
    )


def _in_place(macro: str, parameters: Sequence[str], before: str) -> list[str]:
    """Order parameters as the text of a file has them; parameters that it does not have follow."""
    there = [name for name in parameters_of(macro, before) if name in parameters]
    return [*there, *(name for name in parameters if name not in there)]


def parameters_of(macro: str, text: str) -> list[str]:
    """The parameters of a macro in the text of its file, whose order is public; none if the file
    lacks the macro."""
    found = re.search(rf"MACRO {macro}\((.*?)\) AS TABLE", text, re.DOTALL)
    return [] if found is None else re.findall(r'(\w+)"? := NULL', found[1])


def _wrap_parts(parts: Iterable[str]) -> str:
    """Join parts with commas into lines of at most a hundred characters; no part is divided."""
    joined = ", ".join(part.replace(" ", "\0") for part in parts)
    wrapped = textwrap.fill(
        joined, 100, initial_indent=" " * 4, subsequent_indent=" " * 4, break_long_words=False
    )
    return wrapped.replace("\0", " ")


def write_macro_files() -> None:
    """Write one file for every question."""
    for question in QUESTIONS:
        file = macro_folder() / f"{question.name}.sql"
        before = file.read_text("utf-8") if file.exists() else ""
        file.write_text(macro_file_text(question, before), "utf-8")


if __name__ == "__main__":
    write_macro_files()
