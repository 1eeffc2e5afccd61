"""``dp.total``: the number of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpframe.asking.answer import answer_call
from dpframe.asking.question import Question, make_explain
from dpframe.common.calls import known_arguments
from dpframe.questions.total.count import count
from dpframe.questions.total.plan import total_plan

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpframe.hierarchy import Hierarchy
    from dpframe.ledger import Ledger


@known_arguments
def total(
    source: object,
    hierarchy: str | Sequence[str] | Hierarchy,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    ledger: Ledger | str | Path | None = None,
    release: str | None = None,
    data: str | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """The number of records, differentially private.

    Examples
    --------
    >>> import pandas as pd, dpframe as dp
    >>> dp.total(pd.DataFrame({"a": ["x"] * 90}), ["a"], epsilon=1, delta=1e-6)["prefix"].tolist()
    ['*']
    """
    return answer_call(
        TOTAL,
        source,
        hierarchy=hierarchy,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        ledger=ledger,
        release=release,
        data=data,
        progress=progress,
    ).to_frame()


TOTAL = Question(ask=total, planned=total_plan, count=count)

explain_total = make_explain(
    "explain_total",
    TOTAL,
    total,
    """>>> import dpframe as dp
>>> dp.explain_total(["a"], epsilon=1.0, delta=1e-6).plan.hierarchy.height
1""",
)
