"""The receipt of a release of tree counts, in the words of every other receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.accounting.laws import Laws
from dpframe.accounting.relative import RelativeLaws
from dpframe.asking.quantities import guarantee
from dpframe.asking.receipt import UNTRACKED, Receipt, law_facts, stamp
from dpframe.questions.tree_counts.lines import TREE_PAPERS

if TYPE_CHECKING:
    from dpframe.questions.tree_counts.plan import TreePlan


def tree_receipt(plan: TreePlan, name: str | None) -> Receipt:
    """The receipt of a release of this plan; holds nothing that depends on the data."""
    unit = plan.unit
    return Receipt(
        {
            "release": name,
            **stamp(),
            "mechanism": f"tree-{plan.method}",
            "paper": TREE_PAPERS[plan.method],
            "guarantee": guarantee(plan),
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "computed_delta": plan.delta_spent,
            "neighbours": unit.sentence,
            "counts": unit.counts,
            "user": unit.user,
            "contribution": unit.contribution if unit.user is not None else None,
            "max_contributions": unit.moves if unit.user and plan.grid == 1 else None,
            "weight": unit.weight,
            "max_weight": unit.max_weight,
            "hierarchy": plan.hierarchy.spec,
            "height": plan.height,
            "levels": list(plan.hierarchy.level_names),
            "keys": None if plan.listed is None else plan.listed.name,
            "threshold": _threshold(plan),
            "remainder": True,
            "consistent": plan.consistent,
            "level_weights": list(plan.weights),
            "confidence": plan.confidence,
            "noise": _noise(plan),
            "intervals": _intervals(plan),
            "budget": UNTRACKED,
            "ledger": None,
            "card": [[q.name, q.value, q.meaning] for q in plan.lines()],
        }
    )


def _threshold(plan: TreePlan) -> int | None:
    """From which a node is shown; of several levels the largest."""
    if isinstance(plan.laws, RelativeLaws):
        return plan.laws.smallest_threshold
    if isinstance(plan.laws, Laws):
        return plan.threshold
    return None if plan.listed is not None else -(-max(plan.thresholds) // plan.grid)


def _noise(plan: TreePlan) -> dict[str, Any]:
    laws = plan.laws
    if isinstance(laws, RelativeLaws):
        return {"steps": len(laws.steps)}
    if isinstance(laws, Laws):
        assert plan.threshold is not None
        test = laws.centred(plan.threshold)
        return {"test": law_facts(test, plan.grid), "release": law_facts(laws.release, plan.grid)}
    return {"levels": [law_facts(noise, plan.grid) for noise in laws.noises]}


def _intervals(plan: TreePlan) -> str:
    held = _held(plan)
    if plan.unit.weight is not None:
        held += "; of the weights as they are counted, not as they were cut or left out"
    return held


def _held(plan: TreePlan) -> str:
    if plan.method == "relative":
        return (
            "lower and upper hold the true count of a node with the stated confidence if the data "
            f"have no more than {plan.asked['largest']} records"
        )
    held = "lower and upper hold the true count with the stated confidence"
    if plan.listed is None:
        held += ", given what is shown"
    if plan.consistent:
        held += "; they are those of the noise, widened where needed to hold the adjusted count"
    return held
