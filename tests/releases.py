"""A plan on a source, as the front doors run it; releases that several tests look at."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import wraps
from typing import Any

import pandas as pd

from dpframe.asking.answer import answer_checked
from dpframe.asking.release import DataScope, Release
from dpframe.ledger import Ledger
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.tree_counts.ask import TREE_COUNTS
from dpframe.questions.tree_counts.plan import TreePlan


def release(
    source: object,
    plan: Any,
    *,
    ledger: Ledger | None = None,
    name: str | None = None,
    data: str | None = None,
    progress: bool = False,
) -> Release:
    """The release of heavy hitters or tree counts whose plan is made."""
    question: Any = TREE_COUNTS if isinstance(plan, TreePlan) else HHH
    how: dict[str, Any] = {"ledger": ledger, "name": name, "about": DataScope(data=data)}
    return answer_checked(question, plan, source, progress=progress, **how).release


def made_once(make: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
    """A release with seeded noise, drawn once for the same arguments; a copy of it each time.

    Not for what a test patches, which must be drawn anew.
    """
    known: dict[bytes, pd.DataFrame] = {}

    @wraps(make)
    def copy_of(*given: Any, **named: Any) -> pd.DataFrame:
        asked = pickle.dumps((given, named))
        if asked not in known:
            known[asked] = make(*given, **named)
        return known[asked].copy()

    return copy_of
