"""The charge of a release: what it will cost a ledger, and for what."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from dpframe.accounting.compose import Profile
from dpframe.accounting.normal_noise import GaussianLeakage
from dpframe.ledger.blocks import Blocks
from dpframe.ledger.protection import group_cost, in_steps, receipt_steps, unit_of_receipt
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, units_up
from dpframe.ledger.totals import Exact, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a release will cost, and for what; public, written into the history.

    ``blocks`` is the period that the release reads, if its source is restricted to that period;
    None: the release is charged to all blocks.
    """

    release_id: str
    time: str
    epsilon: float
    delta: float
    profile: Callable[[], Profile]
    source: str
    receipt: str
    name: str | None = None
    blocks: Blocks | None = None
    told: Callable[[], GaussianLeakage | None] = lambda: None
    """What Gaussian noise reveals, for filters; None for other noise."""
    steps: int = 1
    """Steps of the release between neighbours of what the ledger protects: 1 or 2."""

    def for_unit(self, unit: str | None) -> Charge:
        """The charge to a ledger that protects ``unit``; LedgerError if no price is known."""
        said = json.loads(self.receipt)
        steps = receipt_steps(said, unit)
        if steps == 1:
            return self
        return replace(self, steps=steps, receipt=json.dumps({**said, "steps": steps}))

    @property
    def unit(self) -> str:
        """What the release protects, as ledgers store units."""
        return unit_of_receipt(json.loads(self.receipt))

    @property
    def units(self) -> Units:
        """The cost in units of the store, rounded up."""
        units = units_up(self.epsilon, EPSILON_UNIT), units_up(self.delta, DELTA_UNIT)
        return in_steps(units, (Fraction(self.epsilon), Fraction(self.delta)), self.steps)[0]

    @property
    def exact_cost(self) -> Exact:
        """The cost as it was asked for, not rounded."""
        return group_cost((Fraction(self.epsilon), Fraction(self.delta)), self.steps)

    @property
    def neighbours(self) -> str | None:
        """What the release protects, in the words of its receipt."""
        said: str | None = json.loads(self.receipt).get("neighbours")
        return said
