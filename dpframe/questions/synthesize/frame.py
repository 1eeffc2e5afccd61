"""Released counts of a partition as a frame; rows are sampled from it."""

from __future__ import annotations

import pandas as pd

from dpframe.mechanisms.privhp import Partition


def synthetic_frame(noisy: Partition) -> pd.DataFrame:
    """Columns level, code, count, leaf."""
    parts = {"level": noisy.level, "code": noisy.code, "count": noisy.count}
    return pd.DataFrame({**parts, "leaf": noisy.leaf})
