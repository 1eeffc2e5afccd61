"""Mutants of rollups, and of whole counts of cells, for the table of all mutants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import dpframe as dp
from dpframe.asking.level_plan import proof_text
from tests.privacy.mutants import EPSILON, Change, changed, planned, played


def rolled(**measures: Any) -> Callable[[], Any]:
    return planned(dp.explain_rollup, "path:p?depth=8", measures)


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


def _again(proof: dict[str, Any]) -> None:
    """A whole level of cells, of a table that nobody paid for."""
    proof["game"]["steps"][1]["game"]["levels"].append({"table": 2, "least": None})


def _bins_of_all(proof: dict[str, Any]) -> None:
    """Bins draw as if there were no groups of them."""
    _, bins, groups = _drawn(proof)
    spent = 1 / Fraction(bins["scale"]) + 1 / Fraction(groups["scale"])
    bins["scale"] = str(1 / spent)


def _along(change: Callable[[Any], object]) -> Change:
    """A change of the game of rounds, with what is measured along with them."""
    return lambda proof: change(proof["game"]["steps"][0]["game"])


def users_by_rounds() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    """Mistakes in rollups of users, whose counts and sums are paid for along with rounds."""
    measures = {"n": "count", "s": dp.sum("x", lower=0, upper="auto")}
    plan = planned(dp.explain_rollup, "path:p?depth=8", measures, user="u")
    changes: Any = (
        (
            "a sum that is not paid for",
            "accountant",
            lambda g: g["measured"].append({**g["measured"][1], "measure": "again"}),
        ),
        (
            "the whole norm of a sum at every level",
            "mechanism",
            lambda g: g["measured"][1].update(norms=[1024] * 6),
        ),
        (
            "noise of counts 1 % narrower",
            "mechanism",
            lambda g: g["measured"][0].update(sigma=g["measured"][0]["sigma"] * 0.99),
        ),
        (
            "a histogram of each level not paid for",
            "accountant",
            lambda g: g.update(histograms=2 * g["histograms"]),
        ),
        (
            "a sum at many more nodes",
            "accountant",
            lambda g: g["measured"][1].update(values=4**6 * g["measured"][1]["values"]),
        ),
    )
    for name, where, change in changes:
        yield f"rollup of users: {name}", where, changed(plan, _along(change))


def rolled_up() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    """Mistakes in rollups, and in whole counts of cells."""
    both = rolled(orders="count", revenue=dp.sum("x", lower=0, upper=500))
    values, found = rolled(values="distinct(x)"), rolled(x=dp.sum("x", lower=0, upper="auto"))
    mean = rolled(mean=dp.mean("x", lower=-500, upper=500))
    median = rolled(median=dp.median("x", lower=0, upper=500))
    listed = planned(dp.explain_rollup, ["a"], "distinct(x)", delta=None, keys=["x"])
    cells = planned(dp.explain, "a * b", totals=True)

    def scaled(by: Fraction) -> Change:
        return lambda t: _drawn(t)[0].update(scale=str(Fraction(_drawn(t)[0]["scale"]) * by))

    def larger(proof: dict[str, Any]) -> None:
        _drawn(proof)[1]["high"] *= 2

    changes: Any = (
        (
            "a second measure that is not paid for",
            "accountant",
            both,
            lambda t: _drawn(t).append({**_drawn(t)[1], "measure": "again"}),
        ),
        ("noise of a part for values half as large", "mechanism", both, larger),
        ("a mean paid for by its larger bound alone", "mechanism", mean, scaled(Fraction(1, 2))),
        ("scale of a measure 5 % too small", "mechanism", both, scaled(Fraction(19, 20))),
        ("measures have all of epsilon beside the selection", "accountant", both, _all_of_epsilon),
        (
            "delta of the selection left out of the sum",
            "accountant",
            values,
            _selection_of_all_delta,
        ),
        ("different values paid for at one level", "accountant", listed, played(height=3)),
        (
            "a search that is not paid for",
            "accountant",
            found,
            lambda t: _drawn(t).append(_drawn(t)[0]),
        ),
        (
            "groups of bins that are not paid for",
            "accountant",
            median,
            _bins_of_all,
        ),
        ("a user in two bins", "mechanism", median, lambda t: _drawn(t)[1].update(at_most=2)),
        ("numbers of values at half their scale", "mechanism", median, scaled(Fraction(1, 2))),
    )
    for name, where, plan, change in changes:
        yield f"rollup: {name}", where, changed(plan, change)
    yield from users_by_rounds()
    yield "cells: whole counts of a kind that is not paid for", "accountant", changed(cells, _again)
