"""The receipt of a release of heavy hitters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.asking.proofs import proof_facts
from dpframe.asking.receipt import UNTRACKED, Receipt, law_facts, promised, stamp
from dpframe.questions.hhh.lines import threshold_shown

if TYPE_CHECKING:
    from dpframe.questions.hhh.base import HhhPlan


def hhh_receipt(plan: HhhPlan[Any, Any], name: str | None) -> Receipt:
    """The receipt of a release of this plan; holds nothing that depends on the data."""
    return Receipt(
        {
            "release": name,
            **stamp(),
            "mechanism": plan.mechanism,
            "paper": plan.paper,
            **promised(plan, plan.delta_spent),
            "hierarchy": plan.hierarchy.spec,
            "height": plan.height,
            "levels": list(plan.hierarchy.level_names),
            "threshold": threshold_shown(plan),
            "remainder": plan.remainder,
            "confidence": plan.confidence,
            "counters": plan.counters,
            "noise": {
                "test": law_facts(plan.test_noise, plan.grid, plan.unit.worth),
                "release": law_facts(plan.count_noise, plan.grid, plan.unit.worth),
            },
            "intervals": plan.intervals,
            "budget": UNTRACKED,
            "ledger": None,
            **proof_facts(plan, "hhh"),
            "card": [q.row for q in plan.lines()],
        }
    )
