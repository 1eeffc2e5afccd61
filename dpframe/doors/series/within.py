"""The rows of a source whose time lies in a period, until every question takes one itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpframe import _duck
from dpframe._sql import identifier, literal
from dpframe.periods import Period
from dpframe.sources.relations import opened


@contextmanager
def within(source: object, period: Period) -> Iterator[object]:
    """The rows of one period, as an Arrow table."""
    start, end = (literal(bound.isoformat(sep=" ")) for bound in period.bounds)
    time = f"TRY_CAST({identifier(period.column)} AS TIMESTAMP)"
    with opened(source, list(getattr(source, "columns", [period.column]))) as relation:
        rows = relation.query(
            f"SELECT * FROM {_duck.VIEW} WHERE {time} >= TIMESTAMP {start} "
            f"AND {time} < TIMESTAMP {end}",
            False,
        )
    yield rows
