"""Read what receipts of earlier versions do not say in fields: on cards, and laws by their spread.

Receipts hold exactly what made a law of noise. Receipts of earlier versions have only its family,
its standard deviation and its ends. For these, the law of released numbers is searched by the
standard deviation, and the law of tests is the law that the arguments of the receipt choose now,
if this law agrees with all facts of the receipt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from dpframe.budget import as_float
from dpframe.errors import DpframeError, ParameterError
from dpframe.noise import (
    NoiseTable,
    UnboundedNoise,
    gaussian_table,
    laplace_table,
    law_facts,
    rounded_normal,
)

# -- on cards ------------------------------------------------------------------------------------


def selection_epsilon(receipt: Mapping[str, Any]) -> float | None:
    """The part of epsilon that selects the nodes of a rollup; None if the receipt does not tell."""
    chosen = receipt.get("selection")
    if isinstance(chosen, Mapping):
        return as_float(chosen.get("epsilon"))
    return as_float(_line(receipt, "selection")[1])


def selects_by_number(receipt: Mapping[str, Any]) -> bool:
    """Whether the number of records or users selects the nodes of a rollup, and no measure."""
    chosen = receipt.get("selection")
    if isinstance(chosen, Mapping):
        return chosen.get("measure", "") is None
    counted = "records" if receipt.get("user") is None else "users"
    return str(_line(receipt, "test noise")[2]) == f"in units of {counted}"


def certain_of_printed(receipt: Mapping[str, Any]) -> int | None:
    """The residual from which on the printed algorithm reports every node, as the card says; None
    if it does not. For receipts that have the law of only one of the two draws in a test."""
    certain = _line(receipt, "certainly reported")[1]
    return None if certain is None else int(certain)


def _line(receipt: Mapping[str, Any], name: str) -> tuple[Any, Any, Any]:
    """Name, value and meaning of a line of the card; without such a line the last two are None."""
    return next(((*line,) for line in receipt["card"] if line[0] == name), (name, None, None))


# -- laws of released numbers --------------------------------------------------------------------

LAW_MAKERS = {
    "discrete Laplace": laplace_table,
    "discrete Gaussian": gaussian_table,
    "rounded Gaussian": rounded_normal,
}
"""The families whose laws follow from one scale and one bound."""

CLOSE = 1e-13
"""Relative difference of standard deviations up to which laws are the same: rounding of sums in
float64. At the end of the search 100 times as much is accepted."""

TURNS = 60


def law_by_spread(facts: Mapping[str, Any]) -> NoiseTable | UnboundedNoise:
    """Search the law by its family, standard deviation and largest value, in units of its grid.

    Raises ParameterError for a family that has more parameters than these tell, and if no law of
    the family has this standard deviation.
    """
    grid, sd = int(facts["grid"]), float(facts["sd"]) * int(facts["grid"])
    if facts["highest"] is None:
        return UnboundedNoise(Fraction(_plain_scale(sd)))
    highest = round(float(facts["highest"]) * grid)
    if facts["family"] not in LAW_MAKERS or round(float(facts["lowest"]) * grid) != -highest:
        raise ParameterError(
            f"the receipt is of an earlier version, and its noise ({facts['family']}) has more "
            "parameters than it tells. Pass the wanted confidence= when you release."
        )
    return _search_table(str(facts["family"]), sd, highest)


def _plain_scale(sd: float) -> float:
    """The scale of discrete Laplace noise without bounds, from its standard deviation:
    sd**2 = 1 / (2 sinh(1 / (2 scale))**2)."""
    return 0.5 / math.asinh(1 / (sd * math.sqrt(2)))


@lru_cache(maxsize=32)
def _search_table(family: str, sd: float, bound: int) -> NoiseTable:
    """Find the scale by the secant method on logarithms: the standard deviation grows with it."""
    make = LAW_MAKERS[family]
    a = math.log(_plain_scale(sd) if family == "discrete Laplace" else sd)
    b = a + 1e-4
    law, other = make(math.exp(a), bound), make(math.exp(b), bound)
    for _ in range(TURNS):
        if abs(law.sd / sd - 1) <= CLOSE:
            return law
        slope = math.log(other.sd / law.sd) / (b - a)
        if not slope > 0:
            break
        a, b = a + math.log(sd / law.sd) / slope, a
        law, other = make(math.exp(a), bound), law
    if abs(law.sd / sd - 1) <= 100 * CLOSE:
        return law
    raise ParameterError(
        "the noise that the receipt tells of is none that dpframe draws: pass the frame as "
        "dpframe returned it."
    )


# -- laws of tests -------------------------------------------------------------------------------

PLAN_MECHANISMS = {
    "offline": "offline",
    "offline-gaussian": "offline-gaussian",
    "tree-hhh": "offline",
    "rollup": "offline",
}
"""Mechanisms that test residuals, with the mechanism of ``hhh`` whose plan has the law."""

SELECTION_RELEASE_SHARE = 0.02
"""``release_share`` of the selection of a rollup, whose counts are not released."""


PlanAgain: TypeAlias = Callable[[Mapping[str, object]], Any]
"""A function that plans ``hhh`` from arguments and ignores unknown ones; callers pass it in, as it
lies above this room."""


def planned_test_law(receipt: Mapping[str, Any], plan_again: PlanAgain) -> NoiseTable | None:
    """Return the law of tests that the arguments of a receipt choose now; None if it is not known
    to be the law of the release.

    It is that law if all facts agree, to the last digit. They disagree after another
    ``release_share``, or in a version that chose another law.
    """
    laws, other = receipt["noise"], dict[str, Any]()
    mechanism = PLAN_MECHANISMS.get(receipt["mechanism"])
    if mechanism is None:
        return None
    if receipt["mechanism"] == "rollup":
        other = {
            "epsilon": selection_epsilon(receipt),
            "remainder": False,
            "release_share": SELECTION_RELEASE_SHARE,
        }
        laws = {"test": laws}
    known = {k: v for k, v in receipt.items() if v is not None and k != "period"}
    try:
        plan = plan_again({**known, **other, "mechanism": mechanism})
    except DpframeError:
        return None
    made = {
        "test": law_facts(plan.test_noise, plan.grid),
        "release": law_facts(plan.count_noise, plan.grid),
    }
    agree = all(facts.items() <= made[name].items() for name, facts in laws.items())
    test: NoiseTable = plan.test_noise
    return test if agree else None
