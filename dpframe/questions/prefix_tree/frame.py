"""What a prefix tree found, as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpframe.mechanisms.prefix_tree import FoundItems

if TYPE_CHECKING:
    from dpframe.questions.prefix_tree.plan import PrefixPlan


def prefix_frame(found: FoundItems, plan: PrefixPlan) -> pd.DataFrame:
    """Items as nodes of one level, sorted by text: the columns of every other release."""
    order = sorted(range(len(found.text)), key=found.text.__getitem__)
    texts = pd.Series([found.text[i] for i in order], dtype="str")
    count = np.rint(found.count[order]).astype(np.int64).clip(None, plan.devices)
    return pd.DataFrame(
        {
            "level": np.ones(len(order), dtype=np.int64),
            "prefix": texts,
            plan.hierarchy.label_columns[0]: texts,
            "residual": count,
            "count": count,
            "lower": np.minimum(found.lower[order], count),
            "upper": np.maximum(found.upper[order], count),
        }
    )
