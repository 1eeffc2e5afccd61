"""What a release costs a ledger that protects another unit, and tables that exceed less.

One more record of a user who is there replaces the user: two steps of a release that is private
for adding or removing users. Shares and bounded sums have tables here that one step does not
cover.
"""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.errors import LedgerError, OverBudgetError
from dpframe.ledger import Ledger
from dpframe.ledger.entries import RECORDS, SEVERAL, receipt_steps, unit_of_history
from dpframe.verifier import ledger as verifier

from .enumerate_outputs import claimed, divergence, every_selection
from .test_bounding import HIERARCHIES, counted
from .test_exact_shares import EPSILON, HEIGHT, bases, laws_of, plus

SHARES = PrivacyUnit(user="u")
ROWS = pd.DataFrame({"k": ["a", "b"] * 20, "u": range(40), "w": range(40), "v": 3.0})
KEYS = {"keys": [("a",), ("b",)]}
SUM = {"s": dp.sum("v", lower=0, upper=20)}


# -- two steps -------------------------------------------------------------------------------------


def test_shares_can_move_as_a_whole() -> None:
    """Law: a user with 1,000 records gets one more, and every unit of the user goes elsewhere:
    which records have a unit is drawn anew for every number of records. One step is not enough for
    a user who moves."""
    rows = [("u", f"a{i}", "b", f"p{i}/q") for i in range(1001)]
    before, after = (counted(part, HIERARCHIES[0], SHARES, 0) for part in (rows[:-1], rows))
    moved = sum(abs(after[node] - before[node]) for node in {*after, *before} if node[0] == 1)
    assert moved > 1.9 * SHARES.grid
    laws = laws_of(2, True)
    threshold = laws.smallest_threshold(0.5) * laws.grid
    claim, worst = claimed(laws, height=HEIGHT, grid=2), 0.0
    for base in bases(laws, threshold):
        given: Any = {"test": laws.test, "threshold": threshold, "remainder": True}
        here, there = (every_selection(plus(base, {u: 2}), **given) for u in ("aa", "ba"))
        worst = max(worst, divergence(here, there, laws.release, math.exp(EPSILON)))
    assert worst > max(claim)


def losses(scale: float, move: int, ends: int) -> Counter[float]:
    """Probabilities of the losses of a count with discrete Laplace noise that moves."""
    law = {value: math.exp(-abs(value) / scale) for value in range(-ends, ends + 1)}
    found, total = Counter[float](), sum(law.values())
    for value, weight in law.items():
        found[round((abs(value - move) - abs(value)) / scale, 9)] += weight / total
    return found


def delta_of(epsilon: float, *parts: Counter[float]) -> float:
    """Delta of independent parts together."""
    total = Counter({0.0: 1.0})
    for part in parts:
        after = Counter[float]()
        for (one, p), (other, q) in itertools.product(total.items(), part.items()):
            after[round(one + other, 9)] += p * q
        total = after
    return sum(p * -math.expm1(epsilon - loss) for loss, p in total.items() if loss > epsilon)


def laws_of_receipts() -> tuple[float, float]:
    """Scales of a tree of counts of epsilon 1, and of a sum of users up to 20 of epsilon 1."""
    tree = ROWS.dp.tree_counts(["k"], epsilon=1, **KEYS).attrs["dp"]
    variance = tree["noise"]["levels"][0]["sd"] ** 2
    known = {s: 2 * math.exp(-1 / s) / (1 - math.exp(-1 / s)) ** 2 for s in (1.0, 2.0, 4.0)}
    scale = next(s for s, sq in known.items() if math.isclose(variance, sq, rel_tol=1e-9))
    receipt = ROWS.dp.rollup(["k"], measures=SUM, epsilon=1, user="u", **KEYS).attrs["dp"]
    noise = receipt["measures"]["s"]["noise"][0]
    return scale, noise["scales"]["parts"] / 10 ** noise["decimals"]


def test_a_user_whose_bounded_sum_moves_costs_two_steps() -> None:
    """Law: a user with 20 in one part gets a record in another, and 20 moves. With a count by
    record, each of epsilon 1, delta at 2 is 0.0937 (an analyst who trusts 2 is wrong); at 3, what
    the ledger charges, it is 0."""
    count, total = laws_of_receipts()
    assert (count, total) == (2.0, 20.0)
    parts = [losses(count, 1, 60)] * 2 + [losses(total, 20, 400)] * 2
    assert delta_of(2.0, *parts) == pytest.approx(0.0937, abs=5e-4)
    assert delta_of(3.0, *parts) < 1e-9


PRICES = {
    "shares": ({"contribution": "share"}, 2),
    "two records": ({"contribution": "records", "max_contributions": 2}, 2),
    "one record": ({"contribution": "records", "max_contributions": 1}, 2),
    "one item": ({"contribution": "items", "at_most": 1}, 2),
    "weights": ({"weight": "w", "max_weight": 2.5}, 2),
}


@pytest.mark.parametrize("name", PRICES)
def test_a_ledger_of_records_charges_what_users_cost(name: str, tmp_path: Path) -> None:
    """Law: one step as it was asked, two as 2 epsilon and delta (1 + e^epsilon); frame, ledger and
    verifier say so, and what explains it foresees it."""
    given, steps = PRICES[name]
    ledger = Ledger(tmp_path / "b.db", epsilon=5.0, delta=1e-4, protects="records")
    asked = {"epsilon": 1.0, "delta": 1e-6, "user": "u", **given}
    card = str(dp.explain(["k"], ledger=ledger, **asked))
    frame = ROWS.dp.hhh(["k"], ledger=ledger, **asked)
    assert ledger.spent.epsilon == pytest.approx(steps)
    assert ledger.spent.delta == pytest.approx(1e-6 if steps == 1 else (1 + math.e) * 1e-6)
    assert f"({5 - steps}, " in card
    assert ("it costs two steps" in card) == (steps == 2)
    said = frame.attrs["dp"]
    assert said["ledger"]["protects"] == RECORDS
    assert ledger.summary()["saved_epsilon"][0] == 0
    assert ("two steps" in said["budget"]) == (steps == 2)
    assert dp.verify(ledger).outcome == "proved"
    plan = dp.explain(["k"], **asked)
    assert ledger.forecast(plan).added_up == (5 - steps) // steps


def test_what_is_reserved_for_one_step_does_not_pay_for_two(tmp_path: Path) -> None:
    """Law: shares move once; a sum of the same users, of the same law or another, twice."""
    ledger = Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-3, accountant="pld", protects=RECORDS)
    plan = dp.explain_rollup(["k"], measures=SUM, epsilon=0.1, user="u", **KEYS)
    cost = ledger.cost_of(plan, releases=4, delta=1e-6)
    made = ledger.reserve(plan, releases=4, delta=1e-6)
    assert ledger.summary()["saved_epsilon"][0] == pytest.approx(0, abs=1e-9)
    assert made.epsilon == pytest.approx(cost.epsilon) == pytest.approx(0.8, rel=1e-3)
    for _ in range(4):
        ROWS.dp.rollup(["k"], measures=SUM, epsilon=0.1, user="u", ledger=ledger, **KEYS)
    assert ledger.spent.epsilon == pytest.approx(cost.epsilon)
    assert dp.verify(ledger).outcome == "proved"


# -- no price --------------------------------------------------------------------------------------


def test_one_user_can_have_any_number_of_records_and_ids(tmp_path: Path) -> None:
    """Law: what protects records, or users of another column, is refused in a ledger of users."""
    ledger = Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-3, protects="u")
    asked = {"epsilon": 1.0, "delta": 1e-6, "ledger": ledger}
    for other in ({}, {"user": "w"}):
        with pytest.raises(LedgerError, match="the ledger protects"):
            ROWS.dp.hhh(["k"], **asked, **other)
    with pytest.raises(LedgerError, match="the ledger protects"):
        ROWS.dp.prefix_tree("k", user="u", mechanism="gaussian", **asked)
    assert ledger.spent.epsilon == 0
    ROWS.dp.hhh(["k"], user="u", **asked)
    assert dp.verify(ledger).outcome == "proved"


def test_users_who_are_replaced_cost_what_adds_and_removes_them_two_steps(tmp_path: Path) -> None:
    """Law: out with the old, in with the new."""
    ledger = Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-3, protects="replace:u")
    asked = {"epsilon": 1.0, "delta": 1e-6, "user": "u", "ledger": ledger}
    ROWS.dp.prefix_tree("k", mechanism="gaussian", **asked)
    assert ledger.spent.epsilon == 1
    frame = ROWS.dp.hhh(["k"], **asked)
    assert ledger.spent.epsilon == 3
    assert frame.attrs["dp"]["ledger"]["charged_epsilon"] == 2
    with pytest.raises(LedgerError, match="the ledger protects"):
        ROWS.dp.hhh(["k"], epsilon=1.0, delta=1e-6, ledger=ledger)


def test_the_number_of_users_is_no_part_of_a_unit(tmp_path: Path) -> None:
    """Law: prefix trees of tables with other numbers of users go into one ledger, whichever of
    their neighbours is asked for; who is emptied is replaced by nothing, and who is replaced is
    emptied and filled."""
    for near, others in (("replace", 2), ("remove", 1)):
        ledger = Ledger(tmp_path / f"{near}.db", epsilon=9.0, delta=1e-3)
        asked = {"epsilon": 1.0, "delta": 1e-6, "user": "u", "ledger": ledger}
        for rows in (ROWS, ROWS.head(30)):
            rows.dp.prefix_tree("k", mechanism="laplace", neighbours=near, **asked)
        assert (ledger.protects, ledger.spent.epsilon) == (f"{near}:u", 2)
        other = "remove" if near == "replace" else "replace"
        ROWS.dp.prefix_tree("k", mechanism="laplace", neighbours=other, **asked)
        assert ledger.spent.epsilon == 2 + others
        assert dp.verify(ledger).outcome == "proved"


# -- where a ledger says it ------------------------------------------------------------------------


def test_the_first_release_says_what_a_ledger_protects(tmp_path: Path) -> None:
    """Law: where nobody said it; it stays, also for who opens the file anew."""
    ledger = Ledger(tmp_path / "b.db", epsilon=9.0, delta=1e-3)
    assert ledger.protects is None
    assert Ledger(tmp_path / "c.db", epsilon=9.0, delta=1e-3).protects is None
    assert Ledger(tmp_path / "c.db", protects="u").protects == "user:u"  # nothing is charged yet
    ROWS.dp.hhh(["k"], epsilon=1.0, delta=1e-6, ledger=ledger)
    assert (ledger.protects, Ledger(ledger.path).protects) == (RECORDS, RECORDS)
    assert ledger.summary()["protects"][0] == "adding or removing one record"
    with pytest.raises(LedgerError, match="Leave protects out"):
        Ledger(ledger.path, protects="u")
    ROWS.dp.rollup(["k"], measures=SUM, epsilon=1.0, user="u", ledger=ledger, **KEYS)
    assert ledger.spent.epsilon == 3


def test_a_price_that_does_not_fit_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    """Law: two steps of epsilon 1 are 2."""
    ledger = Ledger(tmp_path / "b.db", epsilon=1.5, delta=1e-3, protects=RECORDS)
    with pytest.raises(OverBudgetError, match="requested 2"):
        ROWS.dp.rollup(["k"], measures=SUM, epsilon=1.0, user="u", ledger=ledger, **KEYS)
    assert len(ledger.releases()) == 0


def test_a_price_of_one_step_that_is_claimed_for_two_is_noticed(tmp_path: Path) -> None:
    """Planted bug: a ledger that charges a user's sum once fails the verifier."""
    ledger = Ledger(tmp_path / "b.db", epsilon=2.0, delta=1e-6, protects="u")
    ROWS.dp.rollup(["k"], measures=SUM, epsilon=2.0, user="u", ledger=ledger, **KEYS)
    assert dp.verify(ledger).outcome == "proved"
    with closing(sqlite3.connect(ledger.path)) as db, db:
        db.execute("DROP TRIGGER protection_does_not_change")
        db.execute("UPDATE budget SET protects = 'records'")
    assert dp.verify(Ledger(ledger.path)).outcome == "failed"


def test_a_file_of_an_earlier_version_protects_what_all_of_it_paid_for_once() -> None:
    """Law: a file is of one unit where each release has a price of one step for it; else it says
    that it mixes several. One that holds nothing yet is of none."""

    def receipt(**given: Any) -> dict[str, Any]:
        plan = dp.explain(["k"], epsilon=1.0, delta=1e-6, **given).plan
        return dict(plan.receipt(None))

    row, shares = receipt(), receipt(user="u")
    two = receipt(user="u", contribution="records", max_contributions=2)
    once = receipt(user="u", contribution="records", max_contributions=1)
    assert unit_of_history([]) is None
    assert unit_of_history([{}, row, row]) == RECORDS
    assert unit_of_history([shares, once]) == "user:u"
    assert unit_of_history([shares, two]) == "user:u"
    assert unit_of_history([two, row]) == unit_of_history([row, two]) == SEVERAL
    assert unit_of_history([row, shares]) == SEVERAL
    assert unit_of_history([row, once]) == SEVERAL
    assert unit_of_history([shares, receipt(user="w")]) == SEVERAL


def test_steps_of_a_receipt_are_those_that_the_verifier_finds() -> None:
    """Law: two programs, one table of prices."""
    for given, steps in PRICES.values():
        plan = dp.explain(["k"], epsilon=1.0, delta=1e-6, user="u", **given).plan
        receipt = json.loads(plan.receipt(None).to_json())
        assert receipt_steps(receipt, RECORDS) == verifier.steps_for_unit(receipt, RECORDS) == steps
        assert verifier.steps_for_unit(receipt, "user:u") == 1
        assert verifier.steps_for_unit(receipt, "user:v") is None
