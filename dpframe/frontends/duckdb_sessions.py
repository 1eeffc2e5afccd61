"""Registered connections, and the plan that the arguments of a macro ask for."""

from __future__ import annotations

import contextvars
import itertools
import weakref
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpframe.errors import SourceError
from dpframe.frontends.arguments import plan_from
from dpframe.ledger import Ledger
from dpframe.plan import Plan
from dpframe.receipt import Receipt

if TYPE_CHECKING:
    from dpframe._duck import DuckDBPyConnection

ARGUMENTS = (
    *("hierarchy", "epsilon", "delta", "threshold", "user", "contribution", "max_contributions"),
    *("mechanism", "remainder", "release_share", "confidence", "acknowledge", "counters"),
)
"""In the order in which the macros pass them; NULL stands for the default of ``dp.hhh``."""

DEFAULTS = {"mechanism": "offline", "confidence": 0.95, "acknowledge": False}


@dataclass(eq=False, slots=True)
class Session:
    """What one registered connection knows. It does not keep the connection open."""

    connection: weakref.ref[DuckDBPyConnection]
    ledger: Ledger | None
    context: contextvars.Context
    receipts: list[tuple[Receipt, str]] = field(default_factory=list)


sessions: dict[str, Session] = {}
tokens = itertools.count(1)


def session_of(token: str) -> Session:
    session = sessions.get(token)
    if session is None:
        raise SourceError("this connection is no longer registered: call dpframe.register(con).")
    return session


def plan_of(given: tuple[object, ...]) -> Plan:
    arguments: dict[str, Any] = dict(zip(ARGUMENTS, map(plain, given), strict=True))
    arguments = {k: DEFAULTS.get(k) if v is None else v for k, v in arguments.items()}
    return plan_from(arguments.pop("hierarchy"), **arguments)


def plain(value: object) -> object:
    """DuckDB writes 1.0 as a DECIMAL; for the rest of dpframe numbers are numbers."""
    return float(value) if isinstance(value, Decimal) else value
