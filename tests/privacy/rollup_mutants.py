"""Mutants of rollups, and of whole counts of cells, for the table of all mutants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import dpframe as dp
from dpframe.asking.level_plan import proof_text
from tests.privacy.mutants import DELTA, EPSILON, changed


def rolled(**measures: Any) -> Callable[[], Any]:
    budget: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
    return lambda: dp.explain_rollup("path:p?depth=8", measures, **budget).plan


def _drawn(proof: dict[str, Any]) -> list[dict[str, Any]]:
    """What the last step draws: measures."""
    drawn: list[dict[str, Any]] = proof["game"]["steps"][-1]["game"]["drawn"]
    return drawn


def _all_of_epsilon(proof: dict[str, Any]) -> None:
    """Measures draw as if nothing had been selected."""
    spent = Fraction(proof["game"]["steps"][-1]["epsilon"])
    for each in _drawn(proof):
        each["scale"] = str(Fraction(each["scale"]) * spent / Fraction(EPSILON))
    proof["game"]["steps"][-1]["epsilon"] = EPSILON


def _selection_of_all_delta(proof: dict[str, Any]) -> None:
    """The selection is one that has all of delta, beside measures that have half of it."""
    alone = json.loads(proof_text(rolled(orders="count")()) or "")
    proof["game"]["steps"][0] = alone["game"]["steps"][0]
    proof["tables"][0] = alone["tables"][0]


def rolled_up() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    """Mistakes in rollups, and in whole counts of cells."""
    both = rolled(orders="count", revenue=dp.sum("x", lower=0, upper=500))
    values, found = rolled(values="distinct(x)"), rolled(x=dp.sum("x", lower=0, upper="auto"))
    cells = lambda: dp.explain("a * b", epsilon=EPSILON, delta=DELTA, totals=True).plan  # noqa: E731
    yield (
        "rollup: a second measure that is not paid for",
        "accountant",
        changed(both, lambda t: _drawn(t).append({**_drawn(t)[1], "measure": "again"})),
    )
    yield (
        "rollup: noise of a part for values half as large",
        "mechanism",
        changed(both, lambda t: _drawn(t)[1].update(high=2 * _drawn(t)[1]["high"])),
    )
    yield (
        "rollup: a mean paid for by its larger bound alone",
        "mechanism",
        changed(
            rolled(mean=dp.mean("x", lower=-500, upper=500)),
            lambda t: _drawn(t)[0].update(scale=str(Fraction(_drawn(t)[0]["scale"]) / 2)),
        ),
    )
    yield (
        "rollup: scale of a measure 5 % too small",
        "mechanism",
        changed(
            both,
            lambda t: _drawn(t)[0].update(scale=str(Fraction(_drawn(t)[0]["scale"]) * 19 / 20)),
        ),
    )
    yield (
        "rollup: measures have all of epsilon beside the selection",
        "accountant",
        changed(both, _all_of_epsilon),
    )
    yield (
        "rollup: delta of the selection left out of the sum",
        "accountant",
        changed(values, _selection_of_all_delta),
    )
    yield (
        "rollup: different values paid for at one level",
        "accountant",
        changed(
            lambda: dp.explain_rollup(["a"], "distinct(x)", epsilon=EPSILON, keys=["x"]).plan,
            lambda t: t["game"].update(height=3),
        ),
    )
    yield (
        "rollup: a search that is not paid for",
        "accountant",
        changed(found, lambda t: _drawn(t).append(_drawn(t)[0])),
    )
    yield (
        "cells: whole counts of a kind that is not paid for",
        "accountant",
        changed(
            cells,
            lambda t: t["game"]["steps"][1]["game"]["levels"].append({"table": 2, "least": None}),
        ),
    )
