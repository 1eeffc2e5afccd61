"""The receipt of a rollup."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpframe.asking.privacy_receipt import Receipt
from dpframe.noise import law_facts
from dpframe.postprocess.known_noise import BY_VALUE
from dpframe.postprocess.strategy import PARTS
from dpframe.questions.rollup.rollup_numbers import RollupNumbers

if TYPE_CHECKING:
    from dpframe.mechanisms.node_counts import DistinctLaw
    from dpframe.mechanisms.rollup import Estimate, NoisyRollup

PAPER = (
    "Biswas, Cormode, Kanza, Srivastava, Zhou (2024), Algorithm 1, corrected; discrete Laplace "
    "noise on the parts of the selection"
)


def rollup_facts(plan: RollupNumbers) -> dict[str, Any]:
    """The facts of the receipt on selection and measures; no fact depends on the data."""
    selection = plan.selection
    return {
        **({"segments": True} if plan.hierarchy.has_cells else {}),
        "threshold": None if selection is None else selection.threshold,
        "selection": None
        if selection is None
        else {"epsilon": selection.budget.epsilon, "measure": plan.asked.heavy},
        "remainder": True,
        "keys": None if plan.listed_keys is None else plan.listed_keys.name,
        "measures": {name: _measure_facts(plan, name) for name in plan.asked.measures},
    }


def noise_facts(plan: RollupNumbers, noisy: NoisyRollup, facts: Receipt) -> dict[str, Any]:
    """The facts on measures, with the noise of each measure, so that intervals of any confidence
    follow from the receipt.

    These facts are public: scales follow from parameters, found bounds and the shown nodes.
    """
    measures = {}
    for name, known in facts["measures"].items():
        counts = plan.counts.get(name)
        measures[name] = {
            **known,
            "noise": [_noise_scale_facts(estimate) for estimate in noisy.measures[name]]
            if counts is None
            else [_distinct_law_facts(counts)],
        }
    return measures


def _distinct_law_facts(counts: DistinctLaw) -> dict[str, Any]:
    law = law_facts(counts.noise, 1)
    return {"of": "distinct", "unit": 1, "decimals": None, "law": law}


def _noise_scale_facts(estimate: Estimate) -> dict[str, Any]:
    """The scales of the discrete Laplace noise in one vector, in its units, on parts and levels."""
    vector = estimate.vector
    assert vector is not None
    of_values = vector.kind in ("sum", "above", "below")
    return {
        "of": vector.kind,
        "unit": vector.unit,
        "decimals": vector.bounds.decimals if of_values else None,
        "scales": {
            "parts" if at == PARTS else str(at): _exact_scale(scale)
            for at, scale in estimate.scales.items()
        },
        **(BY_VALUE if vector.kind in ("above", "below") else {}),
    }


def _exact_scale(scale: Fraction) -> float | int:
    """The scale of the draw: an int if it is whole and above 2^53, where doubles round; else a
    float."""
    return int(scale) if scale.denominator == 1 and scale > 2**53 else float(scale)


def released_bounds(plan: RollupNumbers, noisy: NoisyRollup) -> dict[str, tuple[float, float]]:
    """The bounds that a search found, by measure."""
    found = {}
    for name in plan.searching:
        vector = noisy.measures[name][0].vector
        assert vector is not None
        found[name] = (vector.bounds.lower, vector.bounds.upper)
    return found


def _measure_facts(plan: RollupNumbers, name: str) -> dict[str, Any]:
    measure = plan.asked.measures[name]
    return {
        "spec": measure.spec,
        "epsilon": float(plan.epsilon_of(name)),
        "lower": measure.lower,
        "upper": measure.upper,
    }
