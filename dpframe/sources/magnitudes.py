"""Count values, or the totals of users, by powers of two. Private."""

from __future__ import annotations

from dpframe._duck import VIEW
from dpframe._sql import identifier
from dpframe.sources.rollup_statement import exact_column_sql
from dpframe.vectors import LARGEST, LEAST, AutoBound

UNIT = 2.0**-LEAST
"""How many steps of 2**LEAST make 1. Values are added up in whole steps, rounded up: a sum of
floating-point numbers depends on the order of all rows, and so on other users."""

FARTHEST = 2.0 ** (LARGEST + 1)
"""A value beyond all bounds, to which larger values are cut: sums of such values fit 128 bits."""


def magnitudes_statement(searched: AutoBound, *, user: str | None, user_type: str | None) -> str:
    """The statement, which returns ``bin``, from 0, and ``n``.

    A record, or a user, is in at most one bin, which depends only on its values. Empty bins are
    left out.
    """
    number = f"TRY_CAST({identifier(searched.column)} AS DOUBLE)"
    sign = "" if searched.side == "upper" else "-"
    cut = f"least(greatest({sign}{number}, 0), {FARTHEST!r}::DOUBLE)"
    units = f"CAST(ceil({cut} * {UNIT!r}::DOUBLE) AS HUGEINT)"
    value = f"CASE WHEN isfinite({number}) THEN {units} END"
    rows = f"SELECT {value} AS x FROM {VIEW}"
    if user is not None:
        by = exact_column_sql(user, user_type)
        gathered = "sum" if searched.of_total else "max"
        each = f"SELECT {by} AS u, {value} AS x FROM {VIEW}"
        rows = f"SELECT {gathered}(x) AS x FROM ({each}) GROUP BY u"
    exponent = "CAST(floor(log2(greatest(CAST(x AS DOUBLE), 1))) AS BIGINT)"
    inside = f"least({exponent}, {LARGEST - LEAST})"
    return f"SELECT {inside} AS bin, count(*) AS n FROM ({rows}) WHERE x > 0 GROUP BY bin"
