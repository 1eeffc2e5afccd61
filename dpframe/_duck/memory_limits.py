"""How much memory and how many threads our own database may take: settings of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

import duckdb
from duckdb import DuckDBPyConnection

from dpframe._duck.ctrl_c import run_interruptibly
from dpframe._sql import literal
from dpframe.errors import ParameterError

LIMITS = {"DPFRAME_MEMORY_LIMIT": "memory_limit", "DPFRAME_THREADS": "threads"}
"""Names in the environment, and the names of DuckDB's settings."""

EXAMPLES = {"DPFRAME_MEMORY_LIMIT": "a size such as 4GB", "DPFRAME_THREADS": "a number such as 2"}


def read_limits() -> dict[str, str]:
    """The limits that the environment sets now; an empty value sets none."""
    return {name: os.environ[name] for name in LIMITS if os.environ.get(name)}


def set_limits(connection: DuckDBPyConnection, now: Mapping[str, str]) -> None:
    """Set the limits of the environment, and DuckDB's own where it has none.

    Raises:
        ParameterError: for a value that DuckDB does not take.
    """
    for name, setting in LIMITS.items():
        statement = f"SET {setting} = {literal(now[name])}" if name in now else f"RESET {setting}"
        try:
            run_interruptibly(partial(connection.execute, statement))
        except duckdb.Error:
            raise ParameterError(
                f"{name} in the environment is {now.get(name)!r}. "
                f"Give {EXAMPLES[name]}, or unset it."
            ) from None
