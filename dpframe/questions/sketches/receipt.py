"""What the release of a sketch says about itself, in the words of every other receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.asking.proofs import proof_facts
from dpframe.asking.receipt import UNTRACKED, Receipt, stamp
from dpframe.questions.sketches.lines import again, guarantee

if TYPE_CHECKING:
    from dpframe.questions.sketches.base import SketchPlan


def sketch_receipt(plan: SketchPlan[Any, Any], name: str | None) -> Receipt:
    """The receipt of the first release of a sketch; holds nothing of the sketch."""
    users = plan.unit == "user" or plan.max_contributions > 1
    return Receipt(
        {
            "release": name,
            **stamp(),
            "mechanism": plan.mechanism,
            "paper": plan.paper,
            "guarantee": guarantee(plan),
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "computed_delta": plan.delta_spent,
            "neighbours": plan.neighbours,
            "counts": plan.counts,
            "user": None,
            "contribution": "records" if users else None,
            "max_contributions": plan.max_contributions if plan.max_contributions > 1 else None,
            "hierarchy": None,
            "counters": plan.counters,
            "sketches": plan.sketches,
            "sensitivity": plan.sensitivity,
            "threshold": None if plan.threshold is None else plan.threshold / plan.grid,
            "universe": None if plan.universe is None else len(plan.universe),
            "records": plan.records,
            "confidence": plan.confidence,
            "noise": plan.noise,
            "sketch_error": None,
            "unpublished_at_most": None,
            "intervals": plan.meaning,
            "release_number": 1,
            **proof_facts(plan, "sketches"),
            "budget": UNTRACKED,
            "ledger": None,
            "card": [q.row for q in plan.lines()],
        }
    )


def numbered(receipt: Receipt, number: int) -> Receipt:
    """The receipt of the ``number``-th release of the same sketches."""
    card = [q.row for q in again(number)]
    return Receipt({**receipt, "release_number": number, "card": [*receipt["card"], *card]})


def measured(receipt: Receipt, *, sketch_error: int | None, unpublished: int | None) -> Receipt:
    """With what the release itself says: alpha_hat, and a bound on what is not published."""
    lines = []
    if sketch_error is not None:
        meaning = "released too: how far counts can be above the truth, itself noisy"
        lines.append(["sketch error", sketch_error, meaning])
    if unpublished is not None:
        meaning = f"true count of a key that is not published, confidence {receipt['confidence']:g}"
        lines.append(["unpublished at most", unpublished, meaning])
    own = {"sketch_error": sketch_error, "unpublished_at_most": unpublished}
    return Receipt({**receipt, **own, "card": [*receipt["card"], *lines]})
