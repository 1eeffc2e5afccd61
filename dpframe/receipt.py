"""What a release says about itself: the guarantee in one place, a receipt, a card for people."""

from __future__ import annotations

import html
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dpframe._version import __version__
from dpframe.ledger import Ledger, Spending
from dpframe.mechanisms.printed_hhh import PrintedLaws
from dpframe.noise import NoiseTable
from dpframe.plan import Plan

if TYPE_CHECKING:
    import pandas as pd

PAPERS = {
    "offline": "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected",
    "paper": "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, as printed",
    "laplace": "stability histogram a level, composed (Bun, Nissim, Stemmer 2019)",
    "gaussian": "stability histogram a level, composed (Bun, Nissim, Stemmer 2019)",
}

UNTRACKED = "no ledger: nothing tracks what this and other releases cost in total"


def guarantee(plan: Plan) -> str:
    """The privacy claim, as one sentence; every document and card quotes this function."""
    return (
        f"({plan.budget.epsilon:g}, {plan.budget.delta:g})-differential privacy for "
        f"{plan.unit.sentence}"
    )


@dataclass(frozen=True, slots=True)
class Quantity:
    """One line of a plan: a number or text, and what it means."""

    name: str
    value: object
    meaning: str

    @property
    def shown(self) -> str:
        """The value as text."""
        return _shown(self.value)


def quantities(plan: Plan) -> list[Quantity]:
    """Everything about a release that is known before the data are read."""
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
        Quantity("hierarchy", plan.hierarchy.spec, f"{plan.height} levels: {_few(plan)}"),
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
        Quantity("test noise", _noise(plan.test, plan.grid), "decides what is reported"),
        Quantity("release noise", _noise(plan.release, plan.grid), "added to what is reported"),
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
            _rounded_up(plan.delta_spent),
            "upper bound from the tables that are drawn from",
        ),
    ]
    if isinstance(plan.laws, PrintedLaws):
        shared = Quantity("shared noise", _noise(plan.laws.gamma, 1), "one gamma for all tests")
        out.insert(8, shared)
    if plan.mechanism in ("laplace", "gaussian"):
        dropped = {"chance at threshold", "certainly reported", "never reported"}
        out = [q for q in out if q.name not in dropped]
    return out


def _rounded_up(x: float) -> str:
    """Four digits, never below ``x``."""
    mantissa, exponent = f"{x:.3e}".split("e")
    if float(f"{mantissa}e{exponent}") < x:
        mantissa = f"{float(mantissa) + 0.001:.3f}"
    return f"{mantissa}e{exponent}"


def _few(plan: Plan) -> str:
    names = plan.hierarchy.level_names
    return ", ".join(names if len(names) <= 6 else (*names[:3], "...", names[-1]))


def _noise(law: NoiseTable, grid: int) -> str:
    low, high = law.lowest / grid, law.highest / grid
    return f"{law.family}, sd {law.sd / grid:.3g}, within [{low:.4g}, {high:.4g}]"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan for people: prints as a card, ``to_frame()`` gives its rows."""

    plan: Plan

    def to_frame(self) -> pd.DataFrame:
        """Columns ``quantity``, ``value`` and ``meaning``, all text."""
        import pandas as pd

        rows = quantities(self.plan)
        return pd.DataFrame(
            {
                "quantity": [q.name for q in rows],
                "value": [_shown(q.value) for q in rows],
                "meaning": [q.meaning for q in rows],
            }
        )

    def __str__(self) -> str:
        return _card("Plan (nothing spent)", quantities(self.plan))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html_card("Plan (nothing spent)", quantities(self.plan))


class Receipt(Mapping[str, Any]):
    """The public facts of one release, as a read-only mapping that prints as a privacy card."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, key: str) -> Any:
        return self._facts[key]

    def __iter__(self) -> Any:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain JSON types."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    def to_json(self) -> str:
        return json.dumps(self._facts, ensure_ascii=False)

    def paid(self, ledger: Ledger | None, left: Spending | None) -> Receipt:
        """With what the ledger holds after this release."""
        if ledger is None or left is None:
            return self
        remains = f"({left.epsilon:.6g}, {left.delta:.6g})"
        if ledger.accountant == "pld":
            remains = f"epsilon {left.epsilon:.6g} (composed, for budgets fixed beforehand)"
        text = (
            f"of ({ledger.epsilon:g}, {ledger.delta:g}) in the ledger, "
            f"{remains} was left after this release"
        )
        held = {
            "id": ledger.ledger_id,
            "accountant": ledger.accountant,
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "left_epsilon": left.epsilon,
            "left_delta": left.delta,
        }
        return Receipt({**self._facts, "budget": text, "ledger": held})

    @property
    def _lines(self) -> list[Quantity]:
        card = [Quantity(*line) for line in self["card"]]
        tracked = "untracked" if self["ledger"] is None else "tracked"
        card.append(Quantity("budget", tracked, self["budget"]))
        name = self["release"] or self["release_id"]
        card.append(Quantity("release", name, f"{self['time']}, dpframe {self['version']}"))
        return card

    def __str__(self) -> str:
        return _card("Privacy card", self._lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html_card("Privacy card", self._lines)


def receipt(plan: Plan, *, name: str | None = None) -> Receipt:
    """The receipt of a release of this plan; holds nothing that depends on the data."""
    return Receipt(
        {
            "release": name,
            "release_id": uuid.uuid4().hex,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": __version__,
            "mechanism": plan.mechanism,
            "paper": PAPERS[plan.mechanism],
            "guarantee": guarantee(plan),
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "computed_delta": plan.delta_spent,
            "neighbours": plan.unit.sentence,
            "counts": plan.unit.counts,
            "user": plan.unit.user,
            "contribution": plan.unit.contribution if plan.unit.user is not None else None,
            "max_contributions": plan.unit.moves if plan.unit.user and plan.grid == 1 else None,
            "hierarchy": plan.hierarchy.spec,
            "height": plan.height,
            "levels": list(plan.hierarchy.level_names),
            "threshold": plan.threshold,
            "remainder": plan.remainder,
            "confidence": plan.confidence,
            "noise": {"test": _law(plan.test, plan.grid), "release": _law(plan.release, plan.grid)},
            "intervals": _intervals(plan),
            "budget": UNTRACKED,
            "ledger": None,
            "card": [[q.name, q.value, q.meaning] for q in quantities(plan)],
        }
    )


def _law(law: NoiseTable, grid: int) -> dict[str, Any]:
    return {
        "family": law.family,
        "sd": law.sd / grid,
        "lowest": law.lowest / grid,
        "highest": law.highest / grid,
        "grid": grid,
    }


def _intervals(plan: Plan) -> str:
    if plan.mechanism in ("laplace", "gaussian"):
        return (
            "lower and upper cover the noise of the count; the count was also selected upon, so "
            "the confidence is nominal near the threshold"
        )
    return "lower and upper hold the true count with the stated confidence, given the selection"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _card(title: str, lines: list[Quantity]) -> str:
    wide = max(len(line.name) for line in lines)
    rows = [f"{line.name:<{wide}}  {_shown(line.value)}  ({line.meaning})" for line in lines]
    return "\n".join([title, "-" * len(title), *rows])


def _html_card(title: str, lines: list[Quantity]) -> str:
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(line.name)}</th>"
        f"<td style='text-align:left'>{html.escape(_shown(line.value))}</td>"
        f"<td style='text-align:left'>{html.escape(line.meaning)}</td></tr>"
        for line in lines
    )
    return f"<table><caption><b>{html.escape(title)}</b></caption>{rows}</table>"
