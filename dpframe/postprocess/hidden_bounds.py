"""What a release says of nodes that it does not report: bounds, exact from threshold and noise.

A node is tested by its residual F, the records under it that no reported node below it covers: it
is reported if F + W >= threshold, W its own test noise. So the true count of a node that is not
reported is F plus the true counts of the topmost reported nodes below it, whose noisy counts are
released. For every u the chance that a node with F > u is not reported is at most
P(W < threshold - u), whatever other nodes do: F <= u except with this chance. For chance 0, u is
``threshold - lowest W - 1``: one below "certainly reported".

The chance is of both events together, that the node is not reported and that F > u, for a node that
was named without the noise of this release, such as a node that another release reports. Over many
such nodes chances add up, whatever the dependence.

Privacy
-------
Post-processing of what was reported and of public laws: no budget.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpframe.errors import ParameterError
from dpframe.noise import NoiseTable, UnboundedNoise, law_of_facts
from dpframe.postprocess.half_widths import table_of
from dpframe.postprocess.known_noise import is_exact, number_law
from dpframe.postprocess.legacy import (
    PlanAgain,
    certain_of_printed,
    planned_test_law,
    selects_by_number,
)
from dpframe.postprocess.shown_nodes import ShownNodes

Place = tuple[int, Hashable]
"""A node: its level, and the last entry of its lineage, None for the root."""

TESTED = ("offline", "offline-gaussian", "paper", "tree-hhh", "rollup")
"""Mechanisms that test residuals."""

BY_LEVEL = ("tree-laplace", "tree-gaussian", "tree-laplace-gaussian")
"""Mechanisms that compare the noisy count of every node with the threshold of its level."""


def node_place(lineage: tuple[Hashable, ...]) -> Place:
    """The place of a node, from its lineage: the nodes above it and the node itself."""
    return len(lineage), lineage[-1] if lineage else None


def most_hidden(test: NoiseTable, threshold: int, chance: float) -> int:
    """The least u so that P(W < threshold - F) <= ``chance`` for every F > u; in units."""
    passed = test.cumulative_chances()  # P(W < lowest + i)
    step = int(np.searchsorted(passed, chance, side="right")) - 1
    return threshold - (test.lowest + max(0, step)) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenBound:
    """How much the nodes can hold that one release does not report.

    ``law`` is the law of its tests of residuals, None if the receipt does not tell it. ``certain``
    is the most that is hidden with certainty, in units, None if not known. ``grid`` units are 1 in
    the numbers of the release. ``by_level``: the laws of noisy counts, where these are tested.
    """

    certain: int | None
    grid: int | Fraction
    law: NoiseTable | None = None
    threshold: int = 0
    by_level: tuple[NoiseTable, ...] = ()

    @property
    def by_chance(self) -> bool:
        """Whether a bound that may fail with some chance can be lower than the certain bound."""
        return self.law is not None or bool(self.by_level)

    def at(self, level: int, chance: float) -> int | None:
        """The most units that a node of this level hides, except with probability ``chance``; None
        without a bound: level 0 is never tested."""
        if level == 0:
            return None
        if self.by_level:
            law = self.by_level[level]
            return most_hidden(law, self.threshold, chance)
        if self.law is not None:
            return most_hidden(self.law, self.threshold, chance)
        return self.certain


def hidden_bound(nodes: ShownNodes, plan_again: PlanAgain | None = None) -> HiddenBound:
    """The bound on nodes that a release does not report, by its receipt, in units of the noise that
    decides; without any bound where nothing is tested or told."""
    receipt, nothing = nodes.receipt, HiddenBound(certain=None, grid=1)
    mechanism, noise = str(receipt["mechanism"]), receipt.get("noise") or {}
    if receipt.get("keys") is not None or receipt.get("threshold") is None:
        return nothing
    if mechanism in BY_LEVEL:
        return _hidden_bound_by_level(receipt, noise)
    facts = _test_facts(receipt)
    if not facts:
        return nothing
    grid, lowest = Fraction(int(facts["grid"])) / Fraction(_worth(receipt)), float(facts["lowest"])
    threshold = math.ceil(Fraction(receipt["threshold"]) * grid)
    if mechanism == "paper":
        if "shared" not in noise:
            reported = certain_of_printed(receipt)
            certain = None if reported is None else math.ceil(reported * grid) - 1
            return HiddenBound(certain=certain, grid=grid)
        lowest += float(noise["shared"]["lowest"])
    certain = threshold - round(lowest * float(grid)) - 1
    law = law_of_tests(receipt, plan_again)
    return HiddenBound(certain=certain, grid=grid, law=law, threshold=threshold)


def law_of_tests(receipt: Mapping[str, Any], plan_again: PlanAgain | None) -> NoiseTable | None:
    """Return the law of one test of a residual; None if the receipt does not say enough.

    None for the printed algorithm, too: each of its tests adds a second draw, which all share.
    """
    facts = _test_facts(receipt)
    if not facts or receipt["mechanism"] == "paper":
        return None
    if is_exact(facts):
        return table_of(law_of_facts(facts, _worth(receipt)))
    return None if plan_again is None else planned_test_law(receipt, plan_again)


def _test_facts(receipt: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The facts on the law of tests of residuals; none if a measure selects the nodes of a rollup,
    or if an earlier version tested a measure."""
    mechanism, noise = receipt["mechanism"], receipt.get("noise") or {}
    if mechanism not in TESTED:
        return None
    if mechanism == "rollup":
        return noise if noise and selects_by_number(receipt) else None
    facts: Mapping[str, Any] = noise.get("test") or {}
    return facts if receipt.get("weight") is None or is_exact(facts) else None


def _worth(receipt: Mapping[str, Any]) -> float:
    """What ``grid`` units are in the numbers of the release: 1, or ``max_weight`` of a measure."""
    return 1.0 if receipt.get("weight") is None else float(receipt["max_weight"])


def _hidden_bound_by_level(receipt: Mapping[str, Any], noise: Mapping[str, Any]) -> HiddenBound:
    """The bound by tests of noisy counts. No level has a larger threshold than the receipt."""
    facts = noise.get("levels") or []
    laws: tuple[NoiseTable | UnboundedNoise, ...] = ()
    with suppress(ParameterError):  # an earlier version did not tell the law
        laws = tuple(map(number_law, facts))
    grid = int(facts[0]["grid"]) if facts else 1
    threshold = int(receipt["threshold"]) * grid
    lowest = [fact["lowest"] for fact in facts]
    if not lowest or None in lowest:
        return HiddenBound(certain=None, grid=grid)
    certain = threshold - round(float(min(lowest)) * grid) - 1
    tables = tuple(law for law in map(table_of, laws) if law is not None)
    return HiddenBound(certain=certain, grid=grid, threshold=threshold, by_level=tables)


def topmost_below(nodes: ShownNodes) -> dict[Place, list[int]]:
    """For every node that is not reported and has reported nodes below it: the rows of the topmost
    of these reported nodes."""
    found: dict[Place, list[int]] = defaultdict(list)
    lines = nodes.lineages
    for row, (lineage, above) in enumerate(zip(lines, nodes.ancestor.tolist(), strict=True)):
        reported = len(lines[above]) if above >= 0 else -1
        for depth in range(reported + 1, len(lineage)):
            found[node_place(lineage[:depth])].append(row)
    return dict(found)
