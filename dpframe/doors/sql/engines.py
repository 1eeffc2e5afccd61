"""``register(engine)``: every connection that a pool of SQLAlchemy hands out, when it does."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from dpframe.errors import ParameterTypeError

_registering: weakref.WeakKeyDictionary[object, list[Callable[[object], None]]]
_registering = weakref.WeakKeyDictionary()
"""Of each engine, what registers a connection: one, of the last call."""


def is_engine(given: object) -> bool:
    """Whether something is an engine of SQLAlchemy, which is imported if so."""
    return _module() is not None and isinstance(given, _module().engine.Engine)


def register_engine(engine: Any, register: Callable[[object], None]) -> None:
    """Register the connections of an engine when they are taken from its pool.

    Those that are in the pool already are registered at their next use, and once each: SQLAlchemy
    keeps what belongs to a connection with it.
    """
    if engine.dialect.name != "duckdb":
        raise ParameterTypeError(
            f"con is an engine for {engine.dialect.name}, and the SQL functions of dpframe run in "
            "DuckDB, as of sqlalchemy.create_engine('duckdb:///sales.db'). A table of another "
            "engine: docs/warehouses.md."
        )
    now = _registering.get(engine)
    if now is not None:
        now[0] = register
        return
    _registering[engine] = now = [register]

    def taken(connection: object, record: Any, _proxy: object) -> None:
        if record.info.get(key) is not now[0]:
            now[0](connection)
            record.info[key] = now[0]

    key = (__name__, id(now))
    _module().event.listen(engine.pool, "checkout", taken)


def _module() -> Any:
    return sys.modules.get("sqlalchemy")
