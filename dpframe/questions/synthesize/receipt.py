"""The receipt of a generator of synthetic rows, in the words of every other receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.asking.proofs import proof_facts
from dpframe.asking.receipt import UNTRACKED, Receipt, promised, stamp
from dpframe.questions.synthesize.lines import PAPER

if TYPE_CHECKING:
    from dpframe.questions.synthesize.plan import SyntheticPlan


def synthetic_receipt(plan: SyntheticPlan, name: str | None) -> Receipt:
    """The receipt of a release of this plan; holds nothing that depends on the data."""
    return Receipt(
        {
            "release": name,
            **stamp(),
            "mechanism": "synthetic-privhp",
            "paper": PAPER,
            **promised(plan, 0.0),
            "hierarchy": plan.domain,
            "columns": list(plan.columns),
            "height": plan.shape.depth,
            "levels": [f"1/{2**level}" for level in range(1, plan.shape.depth + 1)],
            "threshold": None,
            "remainder": None,
            "confidence": None,
            "k": plan.shape.hot,
            "width": plan.shape.width,
            "rows": plan.shape.rows,
            "split": plan.split,
            "noise": {"scales": [float(scale) for scale in plan.laws.scales]},
            "intervals": "no intervals",
            **proof_facts(plan, "synthesize"),
            "budget": UNTRACKED,
            "ledger": None,
            "card": [q.row for q in plan.lines()],
        }
    )
