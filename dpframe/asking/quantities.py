"""What is known of a release before the data are read: numbers, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

from dpframe.accounting.gshm import GshmLaws
from dpframe.accounting.sketches import SketchLaws
from dpframe.budget import Budget
from dpframe.hierarchy import Hierarchy
from dpframe.mechanisms.printed_hhh import PrintedLaws
from dpframe.noise import NoiseTable, UnboundedNoise
from dpframe.questions.hhh.plan import Plan
from dpframe.questions.synthesize.plan import SyntheticPlan
from dpframe.questions.tree_counts.plan import TreePlan

PAPERS = {
    "offline": "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected",
    "paper": "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, as printed",
    "streaming": (
        "Lebeda, Tetek (2023), Algorithms 1 and 2, a sketch a level; selection of Biswas et al. "
        "(2024), Algorithm 3, corrected"
    ),
    "laplace": "stability histogram a level, composed (Bun, Nissim, Stemmer 2019)",
    "gaussian": "stability histogram a level, composed (Bun, Nissim, Stemmer 2019)",
}


def guarantee(plan: Plan | TreePlan | SyntheticPlan) -> str:
    """The privacy claim, as one sentence; every document and card quotes this function."""
    return claim(plan.budget, plan.unit.sentence)


def claim(budget: Budget, neighbours: str) -> str:
    """What a budget promises for two tables that differ so; without delta it is pure."""
    epsilon, delta = budget.epsilon, budget.delta
    spent = f"({epsilon:g}, {delta:g})" if delta else f"{epsilon:g}"
    return f"{spent}-differential privacy for {neighbours}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One line of a plan: a number or text, and what it means."""

    name: str
    value: object
    meaning: str

    @property
    def shown(self) -> str:
        """The value as text."""
        return shown(self.value)


def quantities(plan: Plan) -> list[Quantity]:
    """Everything about a release that is known before the data are read."""
    if isinstance(plan.laws, SketchLaws | GshmLaws):
        return _sketch_quantities(plan, plan.laws)
    what = "users" if plan.grid > 1 else "records"
    release_sd = plan.release.sd / plan.grid
    # shares are rounded to whole users after the noise: up to half a user more
    bound = -(-(plan.release.highest + plan.grid // 2) // plan.grid)
    wide = -(-plan.half_width(1) // plan.grid)
    out = [
        Quantity(
            "guarantee", guarantee(plan), "what is promised, against anybody who sees the result"
        ),
        Quantity("mechanism", plan.mechanism, PAPERS[plan.mechanism]),
        hierarchy_line(plan.hierarchy),
        Quantity("counts", plan.unit.counts, "what the numbers count"),
        Quantity("threshold", plan.threshold, f"residual {what} from which a node is reported"),
        Quantity(
            "chance at threshold",
            round(plan.chance_at_threshold, 4),
            "probability that a residual equal to the threshold is reported",
        ),
        Quantity(
            "certainly reported", plan.certainly_reported, "every residual from here on is reported"
        ),
        Quantity("never reported", plan.never_reported, "no residual below this is reported"),
        Quantity("test noise", noise_text(plan.test, plan.grid), "decides what is reported"),
        Quantity("release noise", noise_text(plan.release, plan.grid), "added to what is reported"),
        Quantity("standard error", round(release_sd, 3), f"of a reported residual, in {what}"),
        Quantity(
            "typical error",
            f"+-{wide} with confidence {plan.confidence:g}",
            f"of a count that holds one reported residual, in {what}",
        ),
        Quantity(
            "largest error", bound, f"no reported residual is further from the truth, in {what}"
        ),
        Quantity("remainder", plan.remainder, "whether the rest is released as level 0"),
        Quantity(
            "computed delta",
            rounded_up(plan.delta_spent),
            "upper bound from the tables that are drawn from",
        ),
    ]
    if isinstance(plan.laws, PrintedLaws):
        shared = Quantity("shared noise", noise_text(plan.laws.gamma, 1), "one gamma for all tests")
        out.insert(8, shared)
    if plan.mechanism in ("laplace", "gaussian"):
        dropped = {"chance at threshold", "certainly reported", "never reported"}
        out = [q for q in out if q.name not in dropped]
    return out


def _sketch_quantities(plan: Plan, laws: SketchLaws | GshmLaws) -> list[Quantity]:
    counters, most = plan.counters or 0, plan.unit.moves
    sets = isinstance(laws, GshmLaws)
    hidden = 1 + laws.t if isinstance(laws, GshmLaws) else laws.theta
    sketch = Quantity("sketch", "Misra-Gries", "one record at a time")
    if sets:
        sketch = Quantity(
            "sketch", "privacy-aware Misra-Gries", "one user at a time, which has the least noise"
        )
    elif plan.unit.user is not None:
        sketch = Quantity(
            "sketch", "Misra-Gries", f"groups of {most} records, which have the least noise"
        )
    error = Quantity(
        "sketch error",
        f"at most records / {counters + 1}",
        "how far a count can be too high before noise; released a level as sketch_error",
    )
    if sets:
        error = Quantity(
            "sketch error",
            f"at most records / {counters + 1}",
            "how far a count can be too low before noise; not released, so upper is missing",
        )
    out = [
        Quantity(
            "guarantee", guarantee(plan), "what is promised, against anybody who sees the result"
        ),
        Quantity("mechanism", plan.mechanism, PAPERS[plan.mechanism]),
        hierarchy_line(plan.hierarchy),
        Quantity("counts", plan.unit.counts, "what the numbers count"),
        sketch,
        Quantity("counters", counters, f"of each of {plan.height} sketches, one a level"),
        Quantity("threshold", plan.threshold, "residual records from which a node is reported"),
        Quantity("hidden below", hidden, "noisy counters below this are not even looked at"),
        error,
        Quantity("release noise", noise_text(laws.noise, 1), "added to what is reported"),
        Quantity("standard error", round(laws.noise.sd, 3), "of the noise in a reported count"),
        Quantity("remainder", plan.remainder, "whether the rest is released as level 0"),
        Quantity(
            "computed delta",
            rounded_up(plan.delta_spent),
            "upper bound from the tables that are drawn from",
        ),
    ]
    if isinstance(laws, SketchLaws):
        noise = noise_text(laws.shared, 1)
        out.insert(-3, Quantity("error noise", noise, "added to the sketch error of each level"))
    return out


def rounded_up(x: float) -> str:
    """Four digits, never below ``x``."""
    mantissa, exponent = f"{x:.3e}".split("e")
    if float(f"{mantissa}e{exponent}") < x:
        mantissa = f"{float(mantissa) + 0.001:.3f}"
    return f"{mantissa}e{exponent}"


def hierarchy_line(hierarchy: Hierarchy) -> Quantity:
    """The columns and their levels, of many the first and the last."""
    names = hierarchy.level_names
    few = ", ".join(names if len(names) <= 6 else (*names[:3], "...", names[-1]))
    reading = f"; {hierarchy.reading}" if hierarchy.reading else ""
    return Quantity("hierarchy", hierarchy.spec, f"{hierarchy.height} levels: {few}{reading}")


def noise_text(law: NoiseTable | UnboundedNoise, grid: int) -> str:
    """A law of noise as people read it, in records or users."""
    if isinstance(law, UnboundedNoise):
        return f"{law.family}, sd {law.sd / grid:.4g}"
    low, high = law.lowest / grid, law.highest / grid
    return f"{law.family}, sd {law.sd / grid:.3g}, within [{low:.4g}, {high:.4g}]"


def shown(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
