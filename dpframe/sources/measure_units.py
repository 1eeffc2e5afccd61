"""Turn a measure such as bytes or revenue into partial shares: whole units, by row or by user.

The weight w of each row is read as ``round(min(w, max_weight) / max_weight * WHOLE)``, so that only
whole numbers are added up. Sums are cut to units; ``max_weight`` has ``SHARE_GRID`` units. One unit
of privacy moves the units below the nodes of a level by at most ``SHARE_GRID`` together, whatever
the offsets of the rounding are:

rows
    Every finest key has ``floor((sum + offset) / PART)`` units; the offset is a hash of the key and
    a secret seed. One more row adds at most WHOLE to one sum, and so 0 to SHARE_GRID units to one
    key. Equal rows are not all rounded alike, as they would be if each row were rounded.
users
    ``sources.rollup_statement`` cumulates what a user has, divides a total above WHOLE by the same
    number everywhere, and rounds with one offset of the user.

Both are unbiased: every number in the range of an offset is equally likely.
"""

from __future__ import annotations

from dpframe._sql import is_nan
from dpframe.budget import SHARE_GRID

WHOLE = 2**40
"""The whole number that ``max_weight`` is read as. 2^64 rows of it add up to less than 2^127."""

PART = WHOLE // SHARE_GRID
"""One unit, in the whole numbers that weights are read as."""


def measure_sql(value: str, most: float) -> str:
    """SQL of a weight, BIGINT in 0 to WHOLE, from the SQL of a number or of text that is one.

    ``most`` and more, infinity too, is WHOLE. NULL, NaN, negative numbers and other text are 0. No
    value is an error.
    """
    number, bound = f"TRY_CAST({value} AS DOUBLE)", f"{most!r}::DOUBLE"
    return (
        f"CASE WHEN {number} > 0 AND NOT {is_nan(number)} "
        f"THEN CAST(least({number}, {bound}) / {bound} * {WHOLE}::DOUBLE AS BIGINT) "
        "ELSE 0::BIGINT END"
    )


def units_sql(total: str, keys: str, seed: int) -> str:
    """SQL of the units of a finest key, BIGINT, from the SQL of the sum of its weights."""
    offset = f"(hash({keys}, {seed}::UBIGINT) % {PART}::UBIGINT)::HUGEINT"
    return f"(({total} + {offset}) // {PART}::HUGEINT)::BIGINT"
