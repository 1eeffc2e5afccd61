"""Ledgers as a whole: periods, reservations, and what is not within the totals."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.asking.level_plan import proof_text
from dpframe.verifier import bound_at
from dpframe.verifier.ledger import (
    Block,
    ReservedLaw,
    block_mismatch,
    is_law,
    largest_charge,
    law_breach,
    reservation_bound,
    verify_releases,
)
from tests.privacy.mutants import book

TIMES = pd.date_range("2026-01-01", "2026-02-28 23:00", freq="h")

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}

SEEN = pd.DataFrame({"when": TIMES, "site": "a", "u": range(len(TIMES))})


def test_the_fullest_moment_is_that_of_every_moment() -> None:
    """Law: a sweep over ends finds what counting at each second of each axis does."""
    generator = random.Random(3)
    for _ in range(50):
        charges: list[tuple[Block | None, tuple[Fraction, Fraction]]] = []
        for _ in range(6):
            first = generator.randrange(8)
            axis = generator.choice(("a as written", "b as written"))
            block = Block(axis, first, first + generator.randrange(1, 5))
            cost = Fraction(generator.randrange(9)), Fraction(generator.randrange(9), 100)
            charges.append((generator.choice((None, block, block)), cost))
        for which, found in enumerate(largest_charge(charges)):
            slow = sum(cost[which] for block, cost in charges if block is None)
            for axis in {block.axis for block, _ in charges if block is not None}:
                slow += max(
                    sum(c[which] for b, c in charges if b and b.axis == axis and b[1] <= at < b[2])
                    for at in range(13)
                )
            assert found == slow


def test_forged_charges_and_laws_are_not_proved(tmp_path: Path) -> None:
    """Law: periods of no time, of a column whose name begins alike, or of the records without a
    time at another second are not what was read; a law is a curve, and has one name."""
    receipt = SEEN.dp.hhh(["site"], **BUDGET, period=("when", "2026-W02")).dp.receipt.to_dict()
    start = int(pd.Timestamp("2026-01-05").timestamp())
    right = Block("when as written", start, start + 7 * 86_400)
    assert block_mismatch(receipt, right) is None
    wrong = (
        right._replace(last=right.first),
        right._replace(first=right.last, last=right.first),
        right._replace(axis="when at home as written"),
        right._replace(axis="when as written in nanoseconds"),
        right._replace(axis="when as instants"),
    )
    assert all(block_mismatch(receipt, block) for block in wrong)
    period = {**receipt["period"], "text": None, "start": None, "end": None}
    null = {**receipt, "period": period}
    assert block_mismatch(null, Block("when as written", -(2**47), 1 - 2**47)) is None
    assert block_mismatch(null, Block("when as written", 0, 1))
    point = Fraction(1), Fraction(1, 10**6)
    for law in (
        [(Fraction(-1), Fraction(0)), point],
        [(Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 4), Fraction(1, 2)), point],
        [(Fraction(1, 2), Fraction(-1)), point],
        [(Fraction(10**6), Fraction(0)), point],
    ):
        assert not is_law(law)
    ledger = dp.Ledger(tmp_path / "two.db", epsilon=9.0, delta=1e-5)
    assert dp.verify(ledger)
    one = ReservedLaw(name="r", epsilon=point[0], delta=point[1], times=1, law=[point])
    assert verify_releases([], [one], epsilon=9.0, delta=1e-5)
    assert verify_releases([], [one, one], epsilon=9.0, delta=1e-5).outcome == "failed"


def test_periods_of_users_are_promised_in_their_words() -> None:
    """Law: a user in one period is less than a user, and the receipt has to say so."""
    release = SEEN.dp.hhh(["site"], **BUDGET, user="u", period=("when", "2026-W02"))
    assert dp.verify(release), dp.verify(release)
    receipt = release.dp.receipt.to_dict()
    more = ", where all records of that user lie within one period"
    names = ("guarantee", "neighbours")
    assert all(receipt[name].endswith(more) for name in names)
    stronger = {name: receipt[name].removesuffix(more) for name in names}
    assert dp.verify({**receipt, **stronger}).outcome == "failed"


def test_a_ledger_of_periods_is_proved(tmp_path: Path) -> None:
    """Law: weeks that share no record cost what one does; in one that is charged twice, or charged
    for other moments than it reads, the promise is not kept."""
    weekly = dp.Ledger(tmp_path / "weekly.db", epsilon=3.0, delta=1e-6)
    for week in ("2026-W02", "2026-W03", "2026-W04"):
        SEEN.dp.hhh(["site"], epsilon=2.0, delta=1e-7, period=("when", week), ledger=weekly)
    SEEN.dp.hhh(["site"], epsilon=1.0, delta=1e-7, ledger=weekly)
    found = dp.verify(weekly)
    assert found, found
    assert "of a user within one block" in found.reason
    assert found.bound == found.parts[0][1].bound + found.parts[3][1].bound
    assert dp.verify(tmp_path / "weekly.db") == found


def test_periods_are_those_of_the_receipts() -> None:
    """Law: what is charged for another period than it reads, or read without one, fails."""
    bounds = {"start": "1970-01-01T00:00:10", "end": "1970-01-01T00:00:20"}
    read = {"column": "when", "read": "written", **bounds}
    own = Block("when as written", 10, 20)

    def outcome(block: Block, **period: Any) -> str:
        (one,) = book(1)
        receipt = {**one.receipt, "period": {**read, **period}}
        return verify_releases(
            [replace(one, receipt=receipt, block=block)], epsilon=1.0, delta=1e-6
        ).outcome

    assert outcome(own) == "proved"
    assert outcome(Block("when as written", 11, 20)) == "failed"
    assert outcome(Block("other as written", 10, 20)) == "failed"
    assert outcome(own, end="1970-01-01T00:00:21") == "failed"
    assert outcome(own, start=None) == "failed"
    assert outcome(own, start="x") == "failed"
    assert outcome(own, read="instants", zone="Europe/Rome") == "failed"
    earlier = Block("when as instants", -3590, -3580)
    assert outcome(earlier, read="instants", zone="Europe/Rome") == "proved"
    assert verify_releases(book(1, block=own), epsilon=1.0, delta=1e-6).outcome == "failed"


def test_the_composition_of_a_law_is_that_of_randomised_response() -> None:
    """Law: one point (epsilon, 0) many times is the binomial sum of what can be answered."""
    one, times = Fraction(1, 4), 9
    for epsilon in (0.5, 1.0, 1.7):
        yes = 1 / (1 + math.exp(-float(one)))
        exact = sum(
            math.comb(times, k)
            * max(
                0.0,
                yes**k * (1 - yes) ** (times - k)
                - math.exp(epsilon) * yes ** (times - k) * (1 - yes) ** k,
            )
            for k in range(times + 1)
        )
        found = reservation_bound(
            [(one, Fraction(0))], times, Fraction(epsilon), Fraction(1, 10**6)
        )
        assert exact <= float(found) * (1 + 1e-12)
        assert float(found) <= exact * (1 + 1e-6) + 1e-13


def test_a_release_keeps_the_law_of_its_plan_and_not_of_another() -> None:
    """Law: at every point the proof bounds delta by what was reserved; of less epsilon it does
    not."""
    plan: Any = dp.explain(["site"], epsilon=0.5, delta=1e-6).plan
    text = proof_text(plan) or ""

    def bound(epsilon: Fraction, enough: Fraction) -> Fraction | None:
        return bound_at(text, epsilon, enough)

    law = [(Fraction(e), Fraction(d) * (1 + Fraction(1, 10**6))) for e, d in plan.profile[::8]]
    assert law_breach(law, bound) is None
    assert "is reserved" in (law_breach([(e * Fraction(9, 10), d) for e, d in law], bound) or "")
    assert bound_at("{}", Fraction(1), Fraction(1)) is None


def test_reserved_releases_are_proved_together(tmp_path: Path) -> None:
    """Law: where the plain sum is above the totals the composed law is proved, and only by what was
    paid for."""
    ledger = dp.Ledger(tmp_path / "year.db", epsilon=0.9, delta=1e-5, accountant="pld")
    weekly = {"epsilon": 0.1, "delta": 1e-8}
    year = ledger.reserve(dp.explain(["site"], **weekly), releases=10, delta=1e-6)
    for _ in range(10):
        SEEN.dp.hhh(["site"], **weekly, ledger=ledger)
    assert year.epsilon < 0.9
    found = dp.verify(ledger)
    assert found, found
    assert "10 releases of one law, of which 10 were made" in str(found)
    SEEN.dp.hhh(["site"], epsilon=0.9 - year.epsilon - 1e-9, delta=1e-8, ledger=ledger)
    assert dp.verify(ledger).outcome == "proved"


@pytest.mark.engines
def test_a_filter_is_not_verified_where_its_sum_does_not_fit(tmp_path: Path) -> None:
    """Law: what composes by squares is not said to be proved, and the command says so."""
    file = tmp_path / "filter.db"
    ledger = dp.Ledger(file, epsilon=1.0, delta=1e-5, accountant="pld")
    one = {"epsilon": 0.2, "delta": 1e-8, "mechanism": "offline-gaussian"}
    ledger.open_filter(dp.explain(["site"], **one), epsilon=1.0, delta=2e-6)
    for n in range(6):
        SEEN.dp.hhh(["site"], **one, ledger=ledger)
        told = subprocess.run(
            [sys.executable, "-m", "dpframe", "verify", str(file), "--quiet"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == (0 if n < 5 else 3), told.stdout + told.stderr
    assert "a filter" in told.stdout
