"""A plan on a source, as the front doors run it."""

from __future__ import annotations

from typing import Any

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
