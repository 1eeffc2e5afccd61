"""What is known of a release of tree counts before the data are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.accounting.laws import Laws
from dpframe.accounting.relative import RelativeLaws
from dpframe.accounting.tree_levels import TreeLaws
from dpframe.asking.quantities import Quantity, guarantee, hierarchy_line, noise_text, rounded_up
from dpframe.noise import NoiseTable, UnboundedNoise

if TYPE_CHECKING:
    from dpframe.questions.tree_counts.plan import TreePlan

SOURCE = "Ghazi, Kamath, Kumar, Manurangsi, Wu (2023)"

TREE_PAPERS = {
    "laplace": f"{SOURCE}, Corollary 15, with integer noise and exact composition",
    "gaussian": f"{SOURCE}, Corollary 15, with integer noise and exact composition",
    "laplace-gaussian": f"{SOURCE}, Corollary 15, with exact composition of noise between both",
    "relative": f"{SOURCE}, Algorithms 1 and 2, with integer noise",
    "hhh": "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected; added up",
}


def tree_lines(plan: TreePlan) -> list[Quantity]:
    """The lines of the plan and of the card; weights may be texts where nobody knows the source."""
    out = [
        Quantity(
            "guarantee",
            guarantee(plan),
            "against anybody who sees the result",
        ),
        Quantity("mechanism", f"tree counts, {plan.method}", TREE_PAPERS[plan.method]),
        hierarchy_line(plan.hierarchy),
        Quantity("counts", plan.unit.counts, "what the numbers count"),
        *_weights(plan),
        _keys(plan),
    ]
    if isinstance(plan.laws, TreeLaws):
        out += _additive(plan, plan.laws)
    elif isinstance(plan.laws, RelativeLaws):
        out += _relative(plan, plan.laws)
    else:
        out += _hhh(plan, plan.laws)
    out += [
        Quantity("adds up", plan.consistent, _adding(plan)),
        Quantity(
            "computed delta",
            rounded_up(plan.delta_spent) if plan.delta_spent else "0",
            "upper bound from the tables that are drawn from"
            if plan.delta_spent
            else "pure: noise without bounds, scales rounded up",
        ),
    ]
    return out


def _weights(plan: TreePlan) -> list[Quantity]:
    """What becomes of weights that are not counted as they are: no error may tell of one."""
    if plan.unit.weight is None:
        return []
    texts = ", and texts (of a CSV file) that are no whole number, such as 12.50,"
    nothing = (
        f"missing and negative ones{texts}" if plan.text_weights else "missing and negative ones"
    )
    return [
        Quantity(
            "weights",
            f"whole numbers up to {plan.unit.most}",
            f"larger ones count {plan.unit.most}; {nothing} count 0; intervals do not cover that",
        )
    ]


def _keys(plan: TreePlan) -> Quantity:
    if plan.listed is not None:
        n = len(plan.listed.level)
        return Quantity("keys", f"{n} listed nodes", "all are released, those of count 0 too")
    return Quantity("keys", "unknown", "found in the data; small nodes are not shown")


def _additive(plan: TreePlan, laws: TreeLaws) -> list[Quantity]:
    grid = plan.grid
    what = "users" if grid > 1 else "records"
    sds = [noise.sd / grid for noise in laws.noises]
    out = []
    if plan.listed is None:
        shown = sorted({-(-t // grid) for t in plan.thresholds})
        text = (
            str(shown[0])
            if len(shown) == 1
            else ", ".join(str(-(-t // grid)) for t in plan.thresholds)
        )
        out.append(Quantity("threshold", text, f"noisy {what} from which a node is shown, a level"))
    for name, levels in _alike(laws):
        noise = laws.noises[levels[0]]
        out.append(Quantity(f"noise {name}", noise_text(noise, grid), "added to every count there"))
    out.append(
        Quantity(
            "standard error",
            f"{max(sds):.4g}",
            f"of the noisiest count before counts are made to add up, in {what}",
        )
    )
    bounded = [n.highest for n in laws.noises if isinstance(n, NoiseTable)]
    if bounded and not plan.consistent:
        most = -(-(max(bounded) + grid // 2) // grid)
        out.append(Quantity("largest error", most, f"no count is further off, in {what}"))
    return out


def _alike(laws: TreeLaws) -> list[tuple[str, list[int]]]:
    """Levels with the same noise: a name and the levels."""
    groups: dict[object, list[int]] = {}
    for level, noise in enumerate(laws.noises):
        key = noise.scale if isinstance(noise, UnboundedNoise) else noise.weights.tobytes()
        groups.setdefault(key, []).append(level)
    if len(groups) == 1:
        return [("a level", next(iter(groups.values())))]
    return [(f"of level {', '.join(map(str, levels))}", levels) for levels in groups.values()]


def _relative(plan: TreePlan, laws: RelativeLaws) -> list[Quantity]:
    return [
        Quantity("relative error", laws.alpha, "that counts are within, from the least count on"),
        Quantity("least count", laws.smallest_threshold, "smaller nodes are not told from empty"),
        Quantity("largest", laws.largest, "records that the caller says the data have at most"),
        Quantity("steps", len(laws.steps), "thresholds, each classifies the nodes left over"),
        Quantity("chance of failure", f"{laws.eta:.4g}", "that a count is not within its interval"),
    ]


def _hhh(plan: TreePlan, laws: Laws) -> list[Quantity]:
    assert plan.threshold is not None
    grid = plan.grid
    what = "users" if grid > 1 else "records"
    most = plan.threshold + -(laws.centred(plan.threshold).lowest // grid) - 1
    return [
        Quantity("threshold", plan.threshold, f"residual {what} from which a node is reported"),
        Quantity("hidden at most", most, f"{what} of a node that is not reported, beyond others"),
        Quantity(
            "test noise", noise_text(laws.centred(plan.threshold), grid), "decides what is shown"
        ),
        Quantity("release noise", noise_text(laws.release, grid), "added to reported residuals"),
        Quantity(
            "standard error", f"{laws.release.sd / grid:.4g}", f"of a reported residual, in {what}"
        ),
    ]


def _adding(plan: TreePlan) -> str:
    if plan.consistent:
        return "counts are whole, not negative, and parents the sum of their children and <other>"
    return "counts as they were drawn: unbiased noise, signed, parents need not be sums"
