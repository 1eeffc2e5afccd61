"""Whole numbers, days and truth values, read from texts that are written as DuckDB writes them.

DuckDB reads more than it writes (``' 7'``, ``1e3``, ``1_000``). From texts in that usual form
DuckDB and Arrow make the same values, and Arrow makes them without starting a statement, which
costs a small release more than anything else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

NUMBER = "^(0|-?[1-9][0-9]{0,17})$"
"""A whole number of up to 18 digits, which 64 bits hold; smaller types may not hold it."""

YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"

PLAIN = {
    "TINYINT": (NUMBER, pa.int8()),
    "SMALLINT": (NUMBER, pa.int16()),
    "INTEGER": (NUMBER, pa.int32()),
    "BIGINT": (NUMBER, pa.int64()),
    "HUGEINT": (NUMBER, pa.int64()),
    "UTINYINT": (NUMBER, pa.uint8()),
    "USMALLINT": (NUMBER, pa.uint16()),
    "UINTEGER": (NUMBER, pa.uint32()),
    "UBIGINT": (NUMBER, pa.uint64()),
    "BOOLEAN": ("^(true|false)$", pa.bool_()),
    "DATE": (f"^{YEAR}-[0-9]{{2}}-[0-9]{{2}}$", pa.date32()),
}
"""By DuckDB's name of a type: the pattern of a usual text, and Arrow's type for it."""


def plain_values(texts: pa.Array, kind: str) -> pa.Array | None:
    """What ``TRY_CAST`` makes of texts; None for types that are not in ``PLAIN``, and if a text is
    not in the usual form or no value of the type."""
    pattern, wanted = PLAIN.get(kind, ("", None))
    if wanted is None or pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        return None
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:  # a number that its type does not hold, a day that no month has
        return None


def ranks_of_values(values: pa.Array) -> NDArray[np.int64]:
    """The ranks, from 1, of values that are all different; a missing value comes last."""
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[pc.array_sort_indices(values).to_numpy()] = np.arange(1, len(values) + 1)
    return ranks
