"""``register(engine)``: register every connection when a pool of SQLAlchemy hands it out."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from dpframe.errors import ParameterTypeError

_registering: weakref.WeakKeyDictionary[object, list[Callable[[object], None]]]
_registering = weakref.WeakKeyDictionary()
"""For each engine, a list with one function that registers a connection, of the last call."""


def is_engine(given: object) -> bool:
    """Return whether an object is an engine of SQLAlchemy; False if SQLAlchemy is not imported."""
    return _sqlalchemy_module() is not None and isinstance(
        given, _sqlalchemy_module().engine.Engine
    )


def register_engine(engine: Any, register: Callable[[object], None]) -> None:
    """Register the connections of an engine when they are taken from its pool.

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
        now[0] = register
        return
    _registering[engine] = now = [register]

    def taken(connection: object, record: Any, _proxy: object) -> None:
        if record.info.get(key) is not now[0]:
            now[0](connection)
            record.info[key] = now[0]

    key = (__name__, id(now))
    _sqlalchemy_module().event.listen(engine.pool, "checkout", taken)


def _sqlalchemy_module() -> Any:
    return sys.modules.get("sqlalchemy")
