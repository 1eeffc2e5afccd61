"""What the release of a sketch says about itself, in the words of every other receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.accounting.gshm import GshmLaws
from dpframe.accounting.sketch_pure import PureLaws
from dpframe.accounting.sketches import SketchLaws
from dpframe.asking.quantities import Quantity, claim, rounded_up
from dpframe.asking.receipt import UNTRACKED, Receipt, law_facts, stamp

if TYPE_CHECKING:
    from dpframe.questions.sketches.plan import SketchPlan, Structure

SOURCE = "Lebeda, Tetek (PODS 2023)"

NAMES: dict[Structure, str] = {
    "variant": "misra-gries",
    "standard": "misra-gries-standard",
    "sum": "merged-sum",
    "bounded": "merged-bounded",
    "users": "privacy-aware-misra-gries",
}

PAPERS: dict[Structure, str] = {
    "variant": f"{SOURCE}, Algorithm 2, with alpha and C + alpha released",
    "standard": f"{SOURCE}, section 5.1, with alpha and C + alpha released",
    "sum": f"{SOURCE}, Algorithm 3 and section 7",
    "bounded": f"{SOURCE}, Corollary 2 and Theorem 5, with integer noise",
    "users": f"{SOURCE}, Algorithm 4 and Corollary 10, with integer noise",
}


def mechanism(plan: SketchPlan) -> str:
    """The name of the mechanism."""
    return NAMES[plan.structure] + ("" if plan.universe is None else "-universe")


def neighbours(plan: SketchPlan) -> str:
    """What differs between neighbouring streams."""
    if plan.unit == "user":
        return "adding or removing one user with all their items"
    if plan.max_contributions == 1:
        return "adding or removing one record"
    return (
        f"adding or removing one user with all their records, of which there are at most "
        f"{plan.max_contributions} (promised by the caller)"
    )


def guarantee(plan: SketchPlan) -> str:
    """The privacy claim, as one sentence."""
    return claim(plan.budget, neighbours(plan))


def sensitivity(plan: SketchPlan) -> str:
    """What one record or user can change in what the noise is added to."""
    k = plan.counters
    where = "" if plan.levels == 1 else f"on each of {plan.levels} levels "
    if isinstance(plan.laws, GshmLaws) or (plan.grid == 1 and not plan.single):
        return f"{where}one {plan.unit} moves at most {k} counters by 1, all in one direction"
    if plan.single:
        return "one record moves one of k counters C + alpha, or alpha, by 1"
    return (
        f"{where}one record moves the sum by at most {2 * k - 1}/{k + 1} (l1) and "
        f"sqrt({k * k + k - 1})/{k + 1} (l2), however many sketches are in it"
    )


def sketch_receipt(plan: SketchPlan, *, number: int) -> Receipt:
    """The receipt of the ``number``-th release of a sketch; holds nothing of the sketch."""
    users = plan.unit == "user" or plan.max_contributions > 1
    return Receipt(
        {
            "release": None,
            **stamp(),
            "mechanism": mechanism(plan),
            "paper": paper(plan),
            "guarantee": guarantee(plan),
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "computed_delta": plan.delta_spent,
            "neighbours": neighbours(plan),
            "counts": counts(plan),
            "user": None,
            "contribution": "records" if users else None,
            "max_contributions": plan.max_contributions if plan.max_contributions > 1 else None,
            "hierarchy": None,
            "counters": plan.counters,
            "sketches": plan.sketches,
            "sensitivity": sensitivity(plan),
            "threshold": None if plan.threshold is None else plan.threshold / plan.grid,
            "universe": None if plan.universe is None else len(plan.universe),
            "records": plan.records,
            "confidence": plan.confidence,
            "noise": noise_facts(plan),
            "sketch_error": None,
            "unpublished_at_most": None,
            "intervals": _intervals(plan),
            "release_number": number,
            "budget": UNTRACKED,
            "ledger": None,
            "card": [[q.name, q.value, q.meaning] for q in sketch_lines(plan, number)],
        }
    )


def numbered(receipt: Receipt, number: int) -> Receipt:
    """The receipt of the ``number``-th release of the same sketches."""
    card = [[q.name, q.value, q.meaning] for q in _again(number)]
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


def paper(plan: SketchPlan) -> str:
    """The source of the mechanism."""
    if plan.universe is None:
        return PAPERS[plan.structure]
    where = "Algorithm 3" if plan.grid > 1 else "section 7"
    return f"{SOURCE}, {where}, Laplace noise on every key of the universe"


def counts(plan: SketchPlan) -> str:
    """What the counts of the release count."""
    return "users with an item" if plan.unit == "user" else "records"


def sketch_lines(plan: SketchPlan, number: int) -> list[Quantity]:
    """The lines of the card of the ``number``-th release."""
    wide = -(-plan.above // plan.grid)
    out = [
        Quantity(
            "guarantee", guarantee(plan), "what is promised, against anybody who sees the result"
        ),
        Quantity("mechanism", mechanism(plan), paper(plan)),
        Quantity("counts", counts(plan), "what the numbers count"),
        Quantity("counters", plan.counters, f"of each of {plan.sketches} sketches"),
        Quantity("sensitivity", sensitivity(plan), "what the noise has to cover"),
        Quantity("noise", _noise_text(plan), "in every count"),
        Quantity(
            "noise error",
            f"+-{wide} with confidence {plan.confidence:g}",
            "of a count, from the noise alone",
        ),
    ]
    if plan.threshold is None:
        assert plan.universe is not None
        published = f"largest {plan.counters} of {len(plan.universe)} keys"
        out.append(Quantity("published", published, "keys that are not listed are never published"))
    else:
        what = "noisy count less the sketch error" if plan.single else "noisy count"
        out.append(
            Quantity("threshold", plan.threshold / plan.grid, f"{what} from which keys are shown")
        )
        out.append(
            Quantity(
                "computed delta",
                rounded_up(plan.delta_spent),
                "upper bound from the tables that are drawn from",
            )
        )
    return out + _again(number)


def _again(number: int) -> list[Quantity]:
    if number == 1:
        return []
    both = "both count" if number == 2 else "all count"
    return [Quantity("releases", number, f"release {number} of this sketch; {both}")]


def noise_facts(plan: SketchPlan) -> dict[str, Any]:
    """Laws of the draws, in counts."""
    laws = plan.laws
    if isinstance(laws, PureLaws):
        law = {"family": "discrete Laplace", "sd": laws.sd, "lowest": None, "highest": None}
        return {"count": {**law, "grid": laws.unit}}
    noise = {"count": law_facts(laws.noise, plan.grid)}
    if isinstance(laws, SketchLaws):
        noise["sketch_error"] = law_facts(laws.shared, 1)
    return noise


def _noise_text(plan: SketchPlan) -> str:
    law = noise_facts(plan)["count"]
    ends = "unbounded"
    if law["lowest"] is not None:
        ends = f"within [{law['lowest']:.4g}, {law['highest']:.4g}]"
    return f"{law['family']}, sd {law['sd']:.3g}, {ends}"


def _intervals(plan: SketchPlan) -> str:
    text = (
        "for a key fixed beforehand, the chance that it is published with an interval that misses "
        "the true count is at most one minus the confidence; given that a key near the threshold "
        "was published, the confidence is nominal"
    )
    if plan.single:
        return f"{text}. lower allows for the sketch error and the noise, upper for the noise"
    if plan.records is None:
        return f"{text}. upper is missing: the number of records is private and was not declared"
    sketched = plan.records / (plan.counters + 1)
    return (
        f"{text}. lower allows for the noise, upper also for the sketch, which loses at most "
        f"{sketched:.6g} of a count if there were at most {plan.records} records"
    )
