"""The receipt of a prefix tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.asking.proofs import proof_facts
from dpframe.asking.receipt import UNTRACKED, Receipt, law_facts, stamp
from dpframe.questions.prefix_tree.lines import (
    COUNTS,
    PAPERS,
    error_of,
    left_out,
    local_guarantee,
    prefix_guarantee,
)

if TYPE_CHECKING:
    from dpframe.questions.prefix_tree.plan import PrefixPlan

INTERVALS = (
    "lower and upper hold the number of users who reported the item when it was found, with the "
    "stated confidence, given that it is shown; not the number of users who have it"
)


def prefix_receipt(plan: PrefixPlan, name: str | None) -> Receipt:
    """The receipt of a release of this plan; depends on the data through their public size only."""
    asked = plan.asked
    said = ("deny", "counts", "mechanism", "neighbours", "devices")  # below, in other words
    request = {k: v for k, v in asked.request.items() if k not in said}
    return Receipt(
        {
            "release": name,
            **stamp(),
            "mechanism": f"prefix-{asked.mechanism}",
            "paper": PAPERS[asked.mechanism],
            "guarantee": prefix_guarantee(plan),
            "local_guarantee": local_guarantee(plan),
            "neighbours": plan.neighbours,
            "counts": COUNTS,
            **request,
            "computed_delta": plan.delta_spent,
            "devices": plan.devices,
            "reporting": plan.reporting,
            "reports": asked.reports,
            "local_epsilon": plan.local_epsilon,
            "left_out": left_out(plan),
            "denied": len(asked.search.deny),
            "contribution": None,
            "max_contributions": None,
            "height": 1,
            "levels": list(plan.hierarchy.level_names),
            "threshold": None,
            "remainder": False,
            "standard_error": error_of(plan),
            "noise": None if plan.noise is None else law_facts(plan.noise, 1),
            "intervals": INTERVALS,
            "budget": UNTRACKED,
            **proof_facts(plan, "prefix_tree"),
            "ledger": None,
            "card": [q.row for q in plan.lines()],
        }
    )
