"""The receipt of a release of tree counts, in the words of every other receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.asking.card import guarantee
from dpframe.asking.proofs import proof_facts
from dpframe.asking.receipt import UNTRACKED, Receipt, stamp

if TYPE_CHECKING:
    from dpframe.questions.tree_counts.base import TreePlan


def tree_receipt(plan: TreePlan[Any], name: str | None) -> Receipt:
    """The receipt of a release of this plan; holds nothing that depends on the data."""
    unit = plan.unit
    return Receipt(
        {
            "release": name,
            **stamp(),
            "mechanism": f"tree-{plan.method}",
            "paper": plan.paper,
            "guarantee": guarantee(plan),
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "computed_delta": plan.delta_spent,
            "neighbours": unit.sentence,
            "counts": unit.counts,
            "user": unit.user,
            "contribution": unit.contribution if unit.user is not None else None,
            "max_contributions": _rows(plan),
            **({} if unit.nodes is None else {"at_most": unit.nodes, "adds_up": False}),
            **_moved(plan),
            "weight": unit.weight,
            "max_weight": unit.max_weight,
            "hierarchy": plan.hierarchy.spec,
            "height": plan.height,
            "levels": list(plan.hierarchy.level_names),
            "keys": None if plan.listed is None else plan.listed.name,
            "threshold": plan.least_shown,
            "remainder": True,
            "consistent": plan.consistent,
            "level_weights": list(plan.weights),
            "confidence": plan.confidence,
            "noise": plan.noise,
            "intervals": plan.intervals,
            **proof_facts(plan, "tree_counts"),
            "budget": UNTRACKED,
            "ledger": None,
            "card": [q.row for q in plan.lines()],
        }
    )


def _moved(plan: TreePlan[Any]) -> dict[str, object]:
    """Counts that a user of different nodes moves, and the nodes of each level that are listed."""
    if plan.moved_by_user is None or plan.listed is None:
        return {}
    nodes = np.bincount(plan.listed.level, minlength=plan.height + 1)[1:].tolist()
    return {"moved": plan.moved_by_user, "listed": nodes}


def _rows(plan: TreePlan[Any]) -> int | None:
    """Records of a user that count, where these are bounded."""
    unit = plan.unit
    bounded = unit.user is not None and plan.grid == 1 and unit.nodes is None
    return unit.moves if bounded else None
