"""A noisy sketch as a frame: keys, counts, intervals. Post-processing, free.

*One stream.* Let q and Q be the plan's ``above`` and ``below``: ``P(Z < -q) + P(Z - eta > Q)`` is
at most the chance to miss. The true count f is between C and C + alpha, and U = C + alpha + Z, so

    f <= C + alpha = U - Z                        <= U + q                 unless Z < -q
    f >= C         = U - alpha_hat - (Z - eta)    >= U - (alpha_hat + Q)   unless Z - eta > Q

The noise of U and of alpha_hat is taken together, from the law of Z - eta, and not by a bound on
each. ``lower`` is at most U - q, also where alpha_hat is negative.

*The rest.* A released value is V + Z in units of 1/g, with f between V/g and (V + n)/g for sums and
universes (n records in all), between V and V + n/(k + 1) for the others. n is private; what the
caller declares as ``records`` takes its place, and without it there is no upper bound.

For a key that is fixed beforehand, ``P(published, and its interval misses) <= 1 - confidence``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpframe.mechanisms.sketch_release import NoisyCounts, NoisySketch
from dpframe.questions.sketches.plan import SketchPlan

if TYPE_CHECKING:
    import pandas as pd


def sketch_frame(noisy: NoisySketch | NoisyCounts, plan: SketchPlan) -> pd.DataFrame:
    """Columns key, count, lower, upper; sorted by key."""
    import pandas as pd

    count, lower, upper = intervals(noisy, plan)
    bound = pd.array([pd.NA] * len(count), dtype="Int64") if upper is None else upper
    return pd.DataFrame(
        {
            "key": _column(noisy.keys),
            "count": count,
            "lower": lower,
            "upper": pd.Series(bound, dtype="Int64"),
        }
    )


def intervals(
    noisy: NoisySketch | NoisyCounts, plan: SketchPlan
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Counts, what the true ones are at least and, where it is known, at most; whole numbers."""
    upper: NDArray[np.int64] | None = None
    if isinstance(noisy, NoisySketch):
        count = noisy.upper
        lower = count - max(noisy.decrements + plan.below, plan.above)
        upper = count + plan.above
    else:
        g, values = noisy.unit, noisy.values
        count = (2 * values + g) // (2 * g)  # rounded after the noise
        lower = np.minimum(-((plan.below - values) // g), count)
        if plan.records is not None:
            lost = plan.records if g > 1 else plan.records // (plan.counters + 1)
            upper = np.maximum((values + plan.above + lost) // g, count)
    return count, np.maximum(lower, 0), None if upper is None else np.maximum(upper, 0)


def unpublished_at_most(noisy: NoisySketch | NoisyCounts, plan: SketchPlan) -> int | None:
    """What the true count of a key that is not published is at most, at the plan's confidence."""
    if plan.unpublished is None or plan.threshold is None:
        return None
    hidden = plan.threshold - 1 + plan.unpublished
    if isinstance(noisy, NoisySketch):
        return max(0, hidden + noisy.decrements)
    if plan.records is None:
        return None
    lost = plan.records if noisy.unit > 1 else plan.records // (plan.counters + 1)
    return (hidden + lost) // noisy.unit


def _column(keys: pa.Array) -> pd.Series:
    """Of integers int64, or uint64 if a key needs it; without rows always objects.

    The type of the sketch's keys would tell whether it had seen a record at all.
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
