"""What a release says about itself: the guarantee in one place, a receipt, a card for people."""

from __future__ import annotations

import html
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dpframe._terminal import visible
from dpframe._version import __version__
from dpframe.asking.digest import EXTRACT, Standing
from dpframe.asking.notices import mostly_invalid, no_weights
from dpframe.asking.quantities import PAPERS, Quantity, guarantee, quantities, shown
from dpframe.hierarchy import Hierarchy
from dpframe.ledger import Ledger, Paid
from dpframe.noise import NoiseTable, UnboundedNoise, replacement
from dpframe.questions.hhh.advice import advice
from dpframe.questions.hhh.plan import Plan
from dpframe.questions.prefix_tree.lines import prefix_quantities
from dpframe.questions.prefix_tree.plan import PrefixPlan
from dpframe.questions.synthesize.lines import synthetic_quantities
from dpframe.questions.synthesize.plan import SyntheticPlan
from dpframe.questions.tree_counts.lines import tree_quantities
from dpframe.questions.tree_counts.plan import TreePlan

if TYPE_CHECKING:
    import pandas as pd

SECRET = "operating system"
REPLACED = "replaced by a seeded generator: NOT private"
"""Where noise came from."""

UNTRACKED = "no ledger: nothing tracks what this and other releases cost in total"


Explainable = Plan | TreePlan | SyntheticPlan | PrefixPlan


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan for people: prints as a card, ``to_frame()`` gives its rows."""

    plan: Explainable

    @property
    def lines(self) -> list[Quantity]:
        """What is known before the data are read, and what another mechanism would give."""
        if isinstance(self.plan, TreePlan):
            return tree_quantities(self.plan)
        if isinstance(self.plan, SyntheticPlan):
            return synthetic_quantities(self.plan)
        if isinstance(self.plan, PrefixPlan):
            return prefix_quantities(self.plan)
        return [*quantities(self.plan), *advice(self.plan)]

    def to_frame(self) -> pd.DataFrame:
        """Columns ``quantity``, ``value`` and ``meaning``, all text."""
        import pandas as pd

        rows = self.lines
        return pd.DataFrame(
            {
                "quantity": [q.name for q in rows],
                "value": [shown(q.value) for q in rows],
                "meaning": [q.meaning for q in rows],
            }
        )

    def __str__(self) -> str:
        return _card("Plan (nothing spent)", self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html_card("Plan (nothing spent)", self.lines)


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

    @property
    def subject(self) -> str:
        """What was released, as the first words of a title."""
        kinds = {"tree": "Counts", "synthetic": "Synthetic rows", "prefix": "Frequent items"}
        return kinds.get(self["mechanism"].partition("-")[0], "Heavy hitters")

    def to_json(self) -> str:
        return json.dumps(self._facts, ensure_ascii=False)

    def of_frame(self, standing: Standing | None) -> Receipt:
        """With what has to be said where a frame is not as it was released, under ``frame``."""
        if standing is None or not standing.sentence:
            return self
        return Receipt({**self._facts, "frame": standing.sentence})

    def about(self, data: str | None) -> Receipt:
        """With the caller's name for the state of the data, if there is one."""
        return self if data is None else Receipt({**self._facts, "data": data})

    def paid(self, ledger: Ledger, paid: Paid) -> Receipt:
        """With what the ledger holds after this release."""
        left, used = paid.left, paid.reservation
        text = (
            f"of ({ledger.epsilon:g}, {ledger.delta:g}) in the ledger, "
            f"({left.epsilon:.6g}, {left.delta:.6g}) was left after this release"
        )
        held: dict[str, Any] = {
            "id": ledger.ledger_id,
            "accountant": ledger.accountant,
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "left_epsilon": left.epsilon,
            "left_delta": left.delta,
        }
        if used is not None:
            text += (
                f"; paid for by a reservation of {used.releases} releases, of which {used.left} "
                "are left"
            )
            held["reservation"] = {
                "id": used.reservation_id,
                "releases": used.releases,
                "left": used.left,
            }
        elif paid.reserved:
            text += "; charged on top of what is reserved, which is for another law"
        return Receipt({**self._facts, "budget": text, "ledger": held})

    def with_sketch_error(self, error: Sequence[int] | None) -> Receipt:
        """With the released bound on the error of sketches, coarse to fine, if there is one."""
        if error is None:
            return self
        shown = Quantity(
            "sketch errors",
            ", ".join(map(str, error)),
            "released bound on how far counts of each level can be too high, coarse to fine, noisy",
        )
        card = [*self["card"], [shown.name, shown.value, shown.meaning]]
        return Receipt({**self._facts, "sketch_error": list(error), "card": card})

    def with_notices(
        self, frame: pd.DataFrame, hierarchy: Hierarchy, weight: str | None = None
    ) -> Receipt:
        """With what the released numbers say about the question; on top of the card.

        ``weight`` is the column of weights, where they are texts.
        """
        notices = mostly_invalid(frame, hierarchy)
        if weight is not None:
            notices += no_weights(frame, weight)
        if not notices:
            return self
        card = [*([line.name, line.value, line.meaning] for line in notices), *self["card"]]
        said = [f"{line.value}: {line.meaning}" for line in notices]
        return Receipt({**self._facts, "notices": said, "card": card})

    @property
    def _lines(self) -> list[Quantity]:
        card = [Quantity(*line) for line in self["card"]]
        if "frame" in self:
            how = "extract" if self["frame"].startswith(EXTRACT) else "changed"
            card.insert(0, Quantity("frame", how, self["frame"]))
        if self.get("noise_source", SECRET) != SECRET:
            card.insert(0, Quantity("noise source", "NOT private", self["noise_source"]))
        tracked = "untracked" if self["ledger"] is None else "tracked"
        card.append(Quantity("budget", tracked, self["budget"]))
        name = self["release"] or self["release_id"]
        card.append(Quantity("release", name, f"{self['time']}, dpframe {self['version']}"))
        if self.get("data") is not None:
            card.append(
                Quantity("data", self["data"], "the caller's name for the state of the data")
            )
        if self.get("replayed"):
            card.append(Quantity("replayed", True, replay_words(self)))
        return card

    def __str__(self) -> str:
        return _card("Privacy card", self._lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html_card("Privacy card", self._lines)


def replay_words(receipt: Receipt) -> str:
    """What a replay is, in a few words."""
    return f"drawn on {receipt['time']}, nothing was charged"


def stamp() -> dict[str, Any]:
    """What tells releases apart: a random id, the time, the version; and whose noise it is."""
    return {
        "release_id": uuid.uuid4().hex,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "noise_source": SECRET if replacement() is None else REPLACED,
        "replayed": False,
        "data": None,
    }


def receipt(plan: Plan, *, name: str | None = None) -> Receipt:
    """The receipt of a release of this plan; holds nothing that depends on the data."""
    return Receipt(
        {
            "release": name,
            **stamp(),
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
            "counters": plan.counters,
            "noise": {
                "test": law_facts(plan.test, plan.grid),
                "release": law_facts(plan.release, plan.grid),
            },
            "intervals": _intervals(plan),
            "budget": UNTRACKED,
            "ledger": None,
            "card": [[q.name, q.value, q.meaning] for q in quantities(plan)],
        }
    )


def law_facts(law: NoiseTable | UnboundedNoise, grid: int) -> dict[str, Any]:
    """A law of noise as plain JSON types, in records or users."""
    ends = (law.lowest, law.highest) if isinstance(law, NoiseTable) else None
    return {
        "family": law.family,
        "sd": law.sd / grid,
        "lowest": None if ends is None else ends[0] / grid,
        "highest": None if ends is None else ends[1] / grid,
        "grid": grid,
    }


def _intervals(plan: Plan) -> str:
    if plan.mechanism in ("laplace", "gaussian"):
        return (
            "lower and upper cover the noise of the count; the count was also selected upon, so "
            "the confidence is nominal near the threshold"
        )
    if plan.by_user_sets:
        return (
            "lower holds the noise; nothing released says how far a count is too low, so upper is "
            "missing"
        )
    if plan.mechanism == "streaming":
        return (
            "lower and upper hold the sketch error and the noise together; the confidence is of "
            "the noise, before selection"
        )
    return "lower and upper hold the true count with the stated confidence, given the selection"


def _card(title: str, lines: list[Quantity]) -> str:
    wide = max(len(line.name) for line in lines)
    rows = [
        visible(f"{line.name:<{wide}}  {shown(line.value)}  ({line.meaning})") for line in lines
    ]
    return "\n".join([title, "-" * len(title), *rows])


def _html_card(title: str, lines: list[Quantity]) -> str:
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(line.name)}</th>"
        f"<td style='text-align:left'>{html.escape(shown(line.value))}</td>"
        f"<td style='text-align:left'>{html.escape(line.meaning)}</td></tr>"
        for line in lines
    )
    return f"<table><caption><b>{html.escape(title)}</b></caption>{rows}</table>"
