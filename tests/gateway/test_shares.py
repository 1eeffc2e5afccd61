"""Shares and totals, whatever several analysts ask in whatever order, against a slow twin."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.doors.gateway import shares as rooms
from dpframe.doors.gateway.gate import Gate
from dpframe.doors.gateway.policy import Analyst, DataSet
from dpframe.doors.gateway.shares import SharedLedger, Shares, holders
from dpframe.errors import OverBudgetError
from dpframe.ledger.blocks import Blocks
from dpframe.ledger.entries import ONE_RECORD, Charge
from tests.gateway.attacked import opened

GRAIN = Fraction(1, 64)
"""Amounts are multiples of this, so that rounding decides nothing."""

NEAR = Fraction(1, 10**10)


@dataclass
class Cost:
    """What an analyst asks for: so much of epsilon and delta, of a stretch of an axis or of all."""

    who: Analyst
    epsilon: Fraction
    delta: Fraction
    axis: str | None = None
    first: int = 0
    last: int = 0


@dataclass
class Twin:
    """The obvious bookkeeping: every charge that was allowed, and sums over all moments."""

    data: DataSet
    paid: list[Cost] = field(default_factory=list)

    def spent(self, costs: list[Cost]) -> tuple[Fraction, Fraction]:
        """What charges cost somebody who is in all that they read at one moment of each axis."""
        out = []
        for name in ("epsilon", "delta"):
            total = sum((getattr(c, name) for c in costs if c.axis is None), Fraction(0))
            for axis in {c.axis for c in costs} - {None}:
                here = [c for c in costs if c.axis == axis]
                total += max(
                    sum(getattr(c, name) for c in here if c.first <= moment < c.last)
                    for moment in {c.first for c in here}
                )
            out.append(total)
        return out[0], out[1]

    def of(self, holder: str) -> list[Cost]:
        kind, _, name = holder.partition(" ")
        return [c for c in self.paid if name == (c.who.name if kind == "analyst" else c.who.group)]

    def fits(self, cost: Cost) -> bool:
        limits = [(self.paid, Fraction(self.data.epsilon))]
        limits += [
            (self.of(who), Fraction(share)) for who, share, _ in holders(cost.who, self.data)
        ]
        return all(self.within([*before, cost], share) for before, share in limits)

    def within(self, costs: list[Cost], share: Fraction) -> bool:
        epsilon, delta = self.spent(costs)
        most = Fraction(self.data.delta) * share / Fraction(self.data.epsilon)
        return epsilon <= share + NEAR and delta <= most * (1 + NEAR)


def data_set(epsilon: float, accountant: str) -> DataSet:
    """A data set of which only the budget counts."""
    empty: Any = {}
    return DataSet(
        name="sales",
        source=None,  # type: ignore[arg-type]
        columns=empty,
        user=None,
        levels=(),
        bounds=empty,
        filters=(),
        period=None,
        zone=None,
        public=empty,
        keys=empty,
        epsilon=epsilon,
        delta=1e-4,
        accountant=accountant,
        largest=epsilon,
        default=epsilon,
        state="1",
        questions=(),
        about="",
    )


def some_policy(pick: random.Random) -> tuple[DataSet, list[Analyst]]:
    """A total, a group, and analysts with shares, in the group, or both."""
    total = pick.randint(32, 256)
    amount = lambda: float(pick.randint(16, total) * GRAIN)  # noqa: E731
    data = data_set(float(total * GRAIN), "sum")
    team = {"sales": amount()}
    analysts = []
    for name in "abcd"[: pick.randint(2, 4)]:
        grouped = pick.random() < 0.7
        own = {} if grouped and pick.random() < 0.5 else {"sales": amount()}
        analysts.append(
            Analyst(
                name=name,
                token="",
                group="team" if grouped else None,
                shares=own,
                group_shares=team if grouped else {},
                owner=False,
            )
        )
    return data, analysts


def some_cost(pick: random.Random, data: DataSet, analysts: list[Analyst]) -> Cost:
    most = int(Fraction(data.epsilon) / GRAIN)
    epsilon = pick.randint(1, max(2, most // pick.choice((2, 6)))) * GRAIN
    delta = Fraction(data.share_of_delta(float(epsilon))) * pick.choice((1, 1, 1, Fraction(3, 2)))
    cost = Cost(pick.choice(analysts), epsilon, delta)
    if pick.random() < 0.6:
        first = pick.randrange(6)
        cost.axis, cost.first = pick.choice(("day", "shipped")), 100 * first
        cost.last = 100 * (first + pick.randint(1, 3))
    return cost


def charge_of(cost: Cost, number: int) -> Charge:
    said = {"neighbours": ONE_RECORD, "epsilon": float(cost.epsilon), "delta": float(cost.delta)}
    return Charge(
        release_id=f"r{number}",
        time="2026-11-27T12:00:00+00:00",
        epsilon=float(cost.epsilon),
        delta=float(cost.delta),
        profile=lambda: (),
        source="sales",
        receipt=json.dumps(said),
        name=f"sales-{number}",
        blocks=None
        if cost.axis is None
        else Blocks(axis=cost.axis, first=cost.first, last=cost.last),
    )


def check_agrees(folder: Path, pick: random.Random, steps: int = 10) -> None:
    """Law: every decision and every budget is the twin's, and no share holds more than it may."""
    data, analysts = some_policy(pick)
    folder.mkdir(exist_ok=True)
    file = folder / f"{uuid.uuid4().hex}.db"
    ledger = dp.Ledger(file, epsilon=data.epsilon, delta=data.delta, protects="records")
    book, twin = Shares(), Twin(data)
    for number in range(steps):
        cost = some_cost(pick, data, analysts)
        if pick.random() < 0.1:
            book = Shares()  # the gateway starts again
        view = SharedLedger.of(ledger, book, {}).of_analyst(cost.who, data)
        fits = twin.fits(cost)
        charge = charge_of(cost, number)
        assert view.foresee(charge).fits == fits
        try:
            view.check(charge)
            answered = True
        except OverBudgetError:
            answered = False
        assert answered == fits
        if answered:
            twin.paid.append(cost)
        with ledger._reading() as db:
            shown = {
                who: book.spending(db, who) for one in analysts for who, _, _ in holders(one, data)
            }
        for who, spent in shown.items():
            epsilon, delta = twin.spent(twin.of(who))
            assert spent == (
                pytest.approx(float(epsilon), abs=1e-10),
                pytest.approx(float(delta), abs=1e-14),
            )
        assert ledger.spent.epsilon == pytest.approx(float(twin.spent(twin.paid)[0]), abs=1e-10)


@given(st.randoms(use_true_random=False))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_colluding_analysts_never_have_more_than_shares_and_total(
    tmp_path: Path, pick: random.Random
) -> None:
    check_agrees(tmp_path, pick)


@pytest.mark.evidence
@given(st.randoms(use_true_random=False))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_longer_orders_of_more_questions(tmp_path: Path, pick: random.Random) -> None:
    check_agrees(tmp_path, pick, 25)


def _no_group(analyst: Analyst, data: DataSet) -> list[tuple[str, float, str]]:
    return [one for one in holders(analyst, data) if one[0].startswith("analyst")]


def _by_sum(charges: Any) -> tuple[int, int]:
    return sum(one[2] for one in charges), sum(one[3] for one in charges)


def _longest(charges: Any) -> tuple[int, int]:
    return max((one[2:4] for one in charges), default=(0, 0))


def _epsilon_alone(spent: Any, share: float, data: DataSet, charges: int) -> bool:
    return bool(spent[0] <= rooms.units_up(share, rooms.EPSILON_UNIT) + charges)


@pytest.mark.parametrize(
    ("part", "bug"),
    [
        ("holders", _no_group),
        ("_fullest", _by_sum),
        ("_fullest", _longest),
        ("_fits_share", _epsilon_alone),
    ],
    ids=["no group", "no periods", "periods never overlap", "no delta"],
)
def test_planted_bugs_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, bug: Callable[..., Any]
) -> None:
    monkeypatch.setattr(rooms, part, bug)
    picks = [random.Random(seed) for seed in range(40)]
    with pytest.raises(AssertionError):
        [check_agrees(tmp_path, pick) for pick in picks]


def test_the_last_of_a_budget_is_answered_once(tmp_path: Path) -> None:
    """Law: of two who ask at once, with enough left for one, one is answered and one refused."""
    for number, (share, team) in enumerate([(0.6, 0.6), (1.0, 0.6)]):
        gate = opened(tmp_path / str(number), share=share, team=team)
        names = ("ann", "ben") if number else ("ann", "ann")
        outcomes = race(gate, list(names))
        assert sorted(outcomes) == ["answered", "refused"]
        assert gate.budget(gate.policy.analysts["ben"], "sales")[0]["spent"] == 0.5
        gate.close()


def race(gate: Gate, names: list[str]) -> list[str]:
    """What happens to different questions of 0.5 that are asked at once."""
    outcomes: list[str] = []

    def ask(name: str, threshold: int) -> None:
        outcome = "refused"
        with suppress(OverBudgetError):
            given = {"hierarchy": "country", "epsilon": 0.5, "threshold": threshold}
            gate.ask(gate.policy.analysts[name], "sales", "hhh", given)
            outcome = "answered"
        outcomes.append(outcome)

    threads = [threading.Thread(target=ask, args=(name, 400 + i)) for i, name in enumerate(names)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return outcomes
