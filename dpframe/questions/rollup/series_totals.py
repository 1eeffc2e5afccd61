"""Running totals of a rollup: one release over many periods, of which each adds its own numbers."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpframe.accounting.compose import Profile
from dpframe.accounting.tree_levels import pure_profile
from dpframe.asking.call_arguments import (
    DELTA,
    DELTA_ADVICE,
    budget_amount,
    known_choice,
    whole_number,
)
from dpframe.asking.card import DrawList, Line
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget
from dpframe.common.calls import shown_value
from dpframe.counts import Nodes
from dpframe.errors import BudgetError, LedgerError, ParameterError
from dpframe.measures.measure import Measure
from dpframe.mechanisms import rollup
from dpframe.mechanisms.rollup import (
    WIDEST,
    Estimate,
    NoisyRollup,
    SumFromMean,
    listed_variances,
    scale_variances,
    shown_nodes,
)
from dpframe.mechanisms.running_totals import (
    LONGEST_SERIES,
    LOOKS,
    Memory,
    SeriesLaw,
    facts_of_law,
    gaussian_law,
    laplace_law,
    least_error,
    run_period,
    spread_of,
)
from dpframe.postprocess.consistency import Forest
from dpframe.postprocess.strategy import PARTS, consistent_totals, subtree_sums
from dpframe.postprocess.tree_squares import checked_forest, largest_shares
from dpframe.postprocess.weighted_laplace import whole_half_width
from dpframe.questions.rollup.plan import LARGEST_SCALE, RollupPlan
from dpframe.questions.rollup.rollup_numbers import vector_draws

if TYPE_CHECKING:
    import pandas as pd

SO_FAR = "_so_far"
"""End of the name of a running total, after the name of its measure."""

LAWS = ("laplace", "gaussian")
"""Laws of the noise: of trees, without delta; and of factors, with delta."""


class NoiseKeeper(Protocol):
    """What keeps the noise of a series between its periods. ``rows`` tell of which rows the next
    one is drawn."""

    @property
    def rows(self) -> str: ...

    def read(self) -> dict[str, Any] | None:
        """What was written last; None if nothing is there."""

    def write(self, kept: Mapping[str, Any]) -> None:
        """Keep this, and only for the owner's eyes. On disk when it returns."""


@dataclass(frozen=True, kw_only=True)
class RunningPlan(RollupPlan):
    """A rollup of listed keys whose noise is shared by all periods of a series.

    ``laws`` are those of each measure that is drawn; every measure has a running total beside it.
    ``begun`` plans again as the request of an earlier period says.
    A period is drawn with its ``number``, from 0, and the ``keeper`` of the noise.
    """

    question = None
    paper = (
        "Denisov, McMahan, Rush, Smith, Thakurta (2022), noise that later periods take back; "
        "discrete Laplace noise on trees, or rounded Gaussian noise"
    )

    periods: int
    look: str
    weights: Mapping[int, Fraction]
    laws: Mapping[str, SeriesLaw]
    begun: Callable[[Mapping[str, Any]], RunningPlan]
    number: int | None = None
    keeper: NoiseKeeper | None = None

    @property
    def request(self) -> dict[str, object]:
        made = {name: [*law.spread.made_of] for name, law in self.laws.items()}
        told = {str(at): str(weight) for at, weight in sorted(self.weights.items())}
        own = {"periods": self.periods, "cumulative": self.look, "spreads": made, "weights": told}
        return {**super().request, **own}

    @property
    def delta(self) -> float:
        return sum(law.delta for law in self.laws.values())

    @cached_property
    def draws(self) -> DrawList:
        """Every measure, over all periods together."""
        drawn = [
            {**{k: v for k, v in told.items() if k != "scale"}, **facts_of_law(self.laws[name])}
            for name, several in self.paid.items()
            for told in vector_draws(name, several)
        ]
        totals = {name: one.of for name, one in self.read.items()}
        facts = {"height": self.height, "drawn": drawn, "totals": totals}
        return DrawList(kind="measures", draws=(), facts=facts, delta=self.delta, curve=self.curve)

    def _profiles(self) -> Iterator[Profile]:
        yield from (pure_profile(float(law.epsilon), law.delta) for law in self.laws.values())

    @property
    def errors(self) -> dict[str, float]:
        """The largest half widths of listed nodes in the last period: of it alone, and of its
        total."""
        last, out = self.periods - 1, {}
        assert self.listed_keys is not None
        for name in self.asked.measures:
            of = self.read[name].of if name in self.read else name
            law, vector = self.laws[of], self.paid[of][0].vector
            before = -1 if name in self.read else last - 1
            variance, largest = listed_variances(self.listed_keys, law.scales(before, last))
            share, counts = largest * law.share(before, last), self.counting_nodes
            half = int(whole_half_width(variance, self.confidence, share)[counts].max())
            out[name] = half * vector.bounds.step if vector.column else half / vector.unit
        return out

    @property
    def listed_own(self) -> str:
        return "a listed node has in the last period"

    @property
    def mean_errors(self) -> dict[str, float]:
        """Errors of totals and of single periods, geometric means over all measures."""
        laws = [law.errors for law in self.laws.values()]
        return {
            name: math.exp(sum(math.log(each[name]) for each in laws) / len(laws))
            for name in LOOKS[:2]
        }

    @property
    def errors_so_far(self) -> dict[str, float]:
        """The half widths of running totals."""
        return {name: error for name, error in self.errors.items() if name in self.read}

    @property
    def facts(self) -> dict[str, object]:
        facts = super().facts
        measures: Any = facts["measures"]
        for name, one in self.read.items():
            measures[name] = {**measures[name], "epsilon": None, "total_of": one.of}
        said = {"periods": self.periods, "look": self.look}
        said |= {} if self.number is None else {"number": self.number + 1}
        return {**facts, "running": said}

    def lines(self) -> list[Line]:
        """The card, with what is shared between periods."""
        said = [line for line in super().lines() if line.id != "keys"]
        spreads = "; ".join(f"{name}: {law.spread.name}" for name, law in self.laws.items())
        law = "Gaussian" if any(one.sigmas for one in self.laws.values()) else "discrete Laplace"
        said.append(
            Line.of(
                "running totals",
                f"{self.periods} periods, for {self.look}",
                "{law} noise, {spreads}; one record in one of the periods is protected in all that "
                "is released of them; the noise is kept, as secret as the data",
                law=law,
                spreads=spreads,
            )
        )
        return said

    # -- a period

    def run(self, counted: rollup.Measurable, /) -> NoisyRollup:
        """The only noisy step: draw what this period needs, keep it, and add it up.

        A period that was drawn before is released as it was.
        """
        assert self.number is not None
        assert self.keeper is not None
        nodes, places = shown_nodes(counted.counts, self.hierarchy.kind_order, None, self.band)
        vectors = {name: several[0].vector for name, several in self.paid.items() if several}
        exact = counted.parts([*vectors.values()], nodes, places)
        kept = SeriesNoise.open(self.keeper, self._made_for(nodes), self.laws)
        forest, measures = checked_forest(nodes.ancestor), {}
        if self.number > kept.number:
            raise LedgerError("earlier periods are not drawn. Draw them first.")
        if self.number < kept.number and kept.rows[self.number] != self.keeper.rows:
            raise LedgerError("the kept noise is for other rows. Give the report another name.")
        if self.number == kept.number:
            for name, own in zip(vectors, exact, strict=True):
                measured = measured_numbers(own, nodes, forest, self.laws[name])
                run_period(measured, self.laws[name], kept.memories[name])
            kept.rows.append(self.keeper.rows)
            kept.write(self.keeper)  # before anything is shown
        for name, vector in vectors.items():
            released = np.array(kept.memories[name].released[: self.number + 1], dtype=object)
            law = self.laws[name]
            so_far = _estimate(released.sum(axis=0), nodes, forest, law, -1, self.number)
            alone = so_far
            if self.number:
                before = released[:-1].sum(axis=0)
                earlier = _estimate(before, nodes, forest, law, -1, self.number)
                alone = _estimate(released[-1], nodes, forest, law, self.number - 1, self.number)
                alone = replace(alone, total=so_far.total - earlier.total)
            measures[name] = (replace(alone, vector=vector),)
            measures[f"{name}{SO_FAR}"] = (replace(so_far, vector=vector),)
        return NoisyRollup(nodes=nodes, measures=measures, weights=self.weights)

    def _made_for(self, nodes: Nodes) -> str:
        """A digest of the request and of the nodes, in their order: noise serves no others."""
        keys = [[str(key) for key in column.to_pylist()] for column in nodes.keys]
        said = json.dumps([self.request, nodes.level.tolist(), keys], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    def finish_receipt(self, facts: Receipt, noisy: NoisyRollup, frame: pd.DataFrame, /) -> Receipt:
        """The receipt, with what one draw has in the noise of every measure, and whose noise it
        is."""
        assert self.number is not None
        assert self.keeper is not None
        facts, kept = super().finish_receipt(facts, noisy, frame), self.keeper.read()
        assert kept is not None
        measures = {}
        for name, said in facts["measures"].items():
            of, before = said.get("total_of", name), -1 if "total_of" in said else self.number - 1
            law = self.laws[of]
            told = {
                "share": law.share(before, self.number),
                "correlations": law.correlations(self.number, so_far="total_of" in said),
            }
            measures[name] = {**said, "noise": [{**said["noise"][0], **told}]}
        running = {**facts["running"], "noise": kept["id"]}
        return facts.with_release_facts({"measures": measures, "running": running}, [])


def measured_numbers(parts: Any, nodes: Nodes, forest: Forest, law: SeriesLaw) -> dict[int, Any]:
    """The numbers that get noise: of parts, and of the nodes on each level that has a law."""
    totals = subtree_sums(parts, forest)
    return {at: parts if at == PARTS else totals[nodes.level == at] for at in law.laws}


def _estimate(
    numbers: Any, nodes: Nodes, forest: Forest, law: SeriesLaw, before: int, last: int
) -> Estimate:
    """Totals of nodes by least squares, from numbers of parts and levels with the noise of these
    periods."""
    scales, size = law.scales(before, last), len(nodes.level)
    own, variance = scale_variances(nodes.level, scales)
    parts, known, done = numbers[:size], np.zeros(size, dtype=object), size
    for at in law.laws:
        if at != PARTS:
            here = np.flatnonzero(nodes.level == at)
            known[here], done = numbers[done : done + len(here)], done + len(here)
    total, left = consistent_totals(forest, parts, own, known, variance)
    largest = largest_shares(forest, own, variance) * law.share(before, last)
    return Estimate(total=total, variance=left, largest=largest, scales=scales)


@dataclass(kw_only=True)
class SeriesNoise:
    """The noise of a series as it is kept: of every measure, for one request and its nodes; and of
    which ``rows`` each period was drawn."""

    id: str
    made_for: str
    memories: dict[str, Memory]
    rows: list[str]

    @property
    def number(self) -> int:
        """How many periods are drawn."""
        return min(len(memory.released) for memory in self.memories.values())

    @classmethod
    def open(cls, keeper: NoiseKeeper, made_for: str, laws: Mapping[str, SeriesLaw]) -> SeriesNoise:
        """The noise that is kept, or none yet; LedgerError if it was drawn for something else."""
        kept = keeper.read()
        if kept is None:
            new = {name: Memory() for name in laws}
            return cls(id=uuid.uuid4().hex, made_for=made_for, memories=new, rows=[])
        if kept["made_for"] != made_for:
            raise LedgerError("the kept noise is for other nodes. Give the report another name.")
        memories = {
            name: Memory(
                draws={int(i): own for i, own in told["draws"].items()},
                rounded=told["rounded"],
                released=told["released"],
            )
            for name, told in kept["measures"].items()
        }
        return cls(id=kept["id"], made_for=made_for, memories=memories, rows=kept["rows"])

    def write(self, keeper: NoiseKeeper) -> None:
        measures = {
            name: {"draws": own.draws, "rounded": own.rounded, "released": own.released}
            for name, own in self.memories.items()
        }
        keeper.write({"id": self.id, "made_for": self.made_for, "drawn": self.number,
                      "rows": self.rows, "measures": measures})  # fmt: skip


# -- planning --------------------------------------------------------------------------------------


def running_look(cumulative: object) -> str:
    """What a reader looks at, from the argument ``cumulative``; True means totals."""
    if cumulative is True:
        return LOOKS[0]
    if not isinstance(cumulative, str):
        raise ParameterError(
            f"cumulative must be true or one of {', '.join(LOOKS)}; got {shown_value(cumulative)}."
        )
    return known_choice("cumulative", cumulative, LOOKS)


def running_plan(
    plan: RollupPlan,
    *,
    delta: object,
    periods: object,
    look: str,
    law: object = None,
    begun: Mapping[str, Any] | None = None,
) -> RunningPlan:
    """The plan of running totals with the least error; ``law`` names the law of all noise. With the
    request of a series that has ``begun``, the spreads and weights that it has.

    Raises ParameterError for a rollup that has no running totals, or for a number of periods that
    is not from 2 to 400, and BudgetError where no noise keeps the budget.
    """
    _check_sums(plan)
    if periods is None:
        raise ParameterError("cumulative needs the number of periods. Add periods, such as 52.")
    count = whole_number("periods", periods, 2, LONGEST_SERIES)
    spent = 0.0 if not delta else float(budget_amount("delta", delta, *DELTA, DELTA_ADVICE))
    wanted = LAWS if law is None else (known_choice("law", law, LAWS),)
    if not spent and law == "gaussian":
        raise BudgetError("law='gaussian' needs delta. Pass delta.")
    by_user = plan.unit.user is not None
    if by_user and law == "gaussian":
        raise ParameterError(
            "law='gaussian' protects records: a user in several periods would lose more than their "
            "sum. Leave law or user out."
        )
    weights = plan.listed_strategy
    if begun is not None:
        weights = {int(at): Fraction(own) for at, own in begun["weights"].items()}
    laws: dict[str, SeriesLaw] = {}
    whole = sum((several[0].epsilon for several in plan.paid.values()), Fraction(0))
    for name, (one,) in plan.paid.items():
        told: Any = {"periods": count, "epsilon": one.epsilon, "most": one.vector.most}
        told["weights"] = weights
        if begun is not None:
            made = spread_of(begun["spreads"][name], count)
            told["spread"], wanted = made, (LAWS[made.made_of[0] == "powers"],)
        own = float(Fraction(spent) * one.epsilon / whole) * (1 - 1e-9)
        found = [_fitting_law(name, look, told)] if "laplace" in wanted else []
        if own and "gaussian" in wanted and not by_user:
            with suppress(BudgetError) if found else nullcontext():
                found.append(gaussian_law(look, delta=own, **told))
        laws[name] = found[least_error([each.errors for each in found], look)]
    by_gauss = any(each.sigmas is not None for each in laws.values())
    measures: dict[str, Measure] = {}
    for name, measure in plan.asked.measures.items():
        measures |= {name: measure, f"{name}{SO_FAR}": measure}
    budget = Budget(epsilon=plan.budget.epsilon, delta=spent if by_gauss else 0.0)
    asked = replace(plan.asked, measures=measures, budget=budget)
    totals = {f"{name}{SO_FAR}": name for name in laws}
    return RunningPlan(
        asked=asked,
        selection=None,
        paid={**plan.paid, **dict.fromkeys(totals, ())},
        read={name: SumFromMean(of=of, epsilon=Fraction(0)) for name, of in totals.items()},
        searching={},
        counts={},
        binned={},
        periods=count,
        look=look,
        weights=weights,
        table_laws={},
        laws=laws,
        begun=lambda request: running_plan(
            plan, delta=delta, periods=periods, look=look, law=law, begun=request
        ),
    )


def _fitting_law(name: str, look: str, told: Mapping[str, Any]) -> SeriesLaw:
    """Return Laplace noise that fits into the 64 bits of least squares. If noise of levels does not
    fit, parts alone are measured. BudgetError if noise of parts does not fit either."""

    def widest(law: SeriesLaw) -> float:
        return max(one.sd for several in law.laws.values() for one in several)

    law = laplace_law(look, **told)
    if widest(law) * told["periods"] > WIDEST:
        law = laplace_law(look, **{**told, "weights": {PARTS: Fraction(1)}})
    if widest(law) > LARGEST_SCALE:
        raise BudgetError(
            f"measure {name!r} would get noise beyond 64 bits. Raise epsilon or its share=, or "
            "lower the bounds."
        )
    return law


def _check_sums(plan: RollupPlan) -> None:
    """Raise ParameterError for a rollup whose numbers have no running totals."""
    if plan.listed_keys is None:
        raise ParameterError(
            "cumulative needs keys: a node has totals only if it is shown in every period. List "
            "the keys, or leave cumulative out."
        )
    for name, measure in plan.asked.measures.items():
        if measure.kind not in ("count", "sum"):
            raise ParameterError(
                f"measure {name!r} is no count or sum, so that it has no running total. Leave it "
                "or cumulative out."
            )
        if measure.needs_search or measure.clipped:
            what = "clipped" if measure.clipped else "bounds 'auto'"
            raise ParameterError(
                f"measure {name!r} has {what}, which differ between periods. Name bounds, and "
                "leave clipped out."
            )
        for end in measure.columns:
            if f"{name}{SO_FAR}{end}" in plan.types:
                raise ParameterError(
                    f"measure {name!r} has a total {name + SO_FAR!r}, which is the name of another "
                    "column. Rename one."
                )
