"""A noisy sketch as a frame: keys, counts, intervals. Post-processing, free.

*One stream.* Let q and Q be the plan's ``noise_above`` and ``noise_below``: ``P(Z < -q) +
P(Z - eta > Q)`` is at most the chance to miss. The true count f is between C and C + alpha, and
U = C + alpha + Z, so

    f <= C + alpha = U - Z                        <= U + q                 unless Z < -q
    f >= C         = U - alpha_hat - (Z - eta)    >= U - (alpha_hat + Q)   unless Z - eta > Q

The law of Z - eta bounds the noise of U and of alpha_hat together, instead of a bound on each of
the two. ``lower`` is at most U - q, also where alpha_hat is negative.

*Other releases.* A released value is V + Z in units of 1/g; n is the number of all records. For
post-processed sketches, g = k + 1 and f is between V/g and (V + n)/g: sums, and universes of one
stream or a sum. For other releases, g = 1 and f is between V and V + n/(k + 1). n is private: the
caller's ``records`` takes its place, and without ``records`` there is no upper bound.

For a key that is fixed beforehand, ``P(published, and its interval misses) <= 1 - confidence``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.mechanisms.sketch_release import NoisySketch

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.int64]
Intervals = tuple[Numbers, Numbers, Numbers | None]
"""Counts, lower bounds on the true counts and, where known, upper bounds; whole numbers."""


def sketch_frame(keys: pa.Array, intervals: Intervals) -> pd.DataFrame:
    """Columns key, count, lower, upper; sorted by key. ``upper`` is missing where it is unknown."""
    import pandas as pd

    count, lower, upper = intervals
    bound = pd.array([pd.NA] * len(count), dtype="Int64") if upper is None else upper
    return pd.DataFrame(
        {
            "key": _keys_series(keys),
            "count": count,
            "lower": lower,
            "upper": pd.Series(bound, dtype="Int64"),
        }
    )


def count_intervals(noisy: NoisySketch, *, above: int, below: int, most: int | None) -> Intervals:
    """Intervals of counts, in units: ``most`` is what the sketches can have lost, None if it is
    private."""
    g, values = noisy.unit, noisy.values
    count = (2 * values + g) // (2 * g)  # rounded after the noise
    lower = np.maximum(np.minimum(-((below - values) // g), count), 0)
    if most is None:
        return count, lower, None
    upper = np.maximum((values + above + most) // g, count)
    return count, lower, np.maximum(upper, 0)


def _keys_series(keys: pa.Array) -> pd.Series:
    """The keys as a column. Integers are int64, or uint64 if a key needs it.

    Without rows the column is always of objects: the type of the sketch's keys would tell whether
    the sketch has seen a record at all.
    """
    import pandas as pd

    if not len(keys):
        return pd.Series([], dtype=object)
    if pa.types.is_integer(keys.type):
        numbers = keys.to_numpy()
        wide = numbers.dtype == np.uint64 and int(numbers[-1]) > 2**63 - 1
        return pd.Series(numbers if wide else numbers.astype(np.int64))
    texts = keys.to_pylist()
    return pd.Series(texts, dtype=object if isinstance(texts[0], bytes) else None)
