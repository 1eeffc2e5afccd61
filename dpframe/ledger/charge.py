"""The charge of a release, and what it costs a ledger that protects something else.

A guarantee holds for one step between neighbouring tables. Where a ledger protects something else,
its neighbours can be two steps apart, and the release costs what group privacy says: 2 epsilon, and
(1 + e^epsilon) delta (Vadhan, "The Complexity of Differential Privacy", 2017, Lemma 2.2).
docs/decisions/0036-units-in-one-ledger.md has the proofs; tests/privacy/test_units_in_one_ledger.py
enumerates them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpframe._known_arguments import shown_value
from dpframe.accounting.compose import Profile
from dpframe.accounting.normal_noise import GaussianLeakage
from dpframe.errors import LedgerError, ParameterError, ParameterTypeError
from dpframe.ledger.blocks import Blocks
from dpframe.ledger.store import DELTA_UNIT, EPSILON_UNIT, units_up
from dpframe.ledger.totals import Exact, Units, units_rounded_up
from dpframe.periods import USERS

RECORDS = "records"
"""One record is added or removed."""

USER, REPLACED, EMPTIED = "user:", "replace:", "remove:"
"""Prefixes of the name of a column of users. ``USER``: one user is added or removed. ``REPLACED``:
one user gets other records. ``EMPTIED``: one user gets or loses all items, and still reports.
Prefix trees protect the last two."""

ONE_RECORD = "adding or removing one record"

ITEMS = "adding or removing one user with all their items"

SEVERAL = "several"
"""The unit of a file of an earlier version whose releases protect different units."""


def checked_protection(value: object) -> str | None:
    """The argument ``protects`` in the form in which it is stored."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ParameterTypeError(
            "protects must be 'records' or the name of a column of users; got "
            f"{shown_value(value)}."
        )
    if value in ("", USER, REPLACED, EMPTIED, SEVERAL):
        raise ParameterError(
            f"protects ({value!r}) must be 'records' or the name of a column of users. Write "
            "'user:NAME' for a column of that name."
        )
    return (
        value if value == RECORDS or value.startswith((USER, REPLACED, EMPTIED)) else USER + value
    )


def protection_words(unit: str | None) -> str:
    """What neighbouring tables of a stored unit differ by, in the words of receipts."""
    if unit is None:
        return "what the first release protects"
    if unit == SEVERAL:
        return "nothing, its releases protect different units"
    if unit.startswith(USER):
        name = unit.removeprefix(USER)
        return f"adding or removing one user ({name!r}) with all their records"
    if unit.startswith(REPLACED):
        return f"replacing all records of one user ({unit.removeprefix(REPLACED)!r}) by any others"
    if unit.startswith(EMPTIED):
        name = unit.removeprefix(EMPTIED)
        return f"adding or removing all items of one user ({name!r}), who still reports"
    return ONE_RECORD if unit == RECORDS else unit


def unit_of_receipt(receipt: Mapping[str, Any]) -> str:
    """The unit that a release protects, from its receipt. How many records of a user count is no
    part of the unit. A unit for which the ledger has no name is the sentence in the receipt."""
    sentence, user = str(receipt.get("neighbours")), receipt.get("user")
    if user is not None and sentence.startswith("adding or removing one user"):
        return f"{USER}{user}"
    if user is not None and sentence.startswith("replacing"):
        return f"{REPLACED}{user}"
    if user is not None and sentence.startswith("adding or removing all items"):
        return f"{EMPTIED}{user}"
    if user is not None or sentence == ITEMS:
        return sentence
    row = receipt.get("max_weight") is not None  # a row, whatever it weighs
    promised = receipt.get("max_contributions") is not None  # so many records of a user
    return RECORDS if row or promised or sentence == ONE_RECORD else sentence


def without_period(neighbours: str | None) -> str:
    """What a release protects, without the words that a period adds."""
    return (neighbours or "").removesuffix(USERS)


def is_of_period(neighbours: str) -> bool:
    """Whether a release holds for users whose records lie within one period."""
    return neighbours.endswith(USERS)


def receipt_steps(receipt: Mapping[str, Any], unit: str | None) -> int:
    """Steps of a release between neighbours of a ledger that protects ``unit``: 1 or 2.

    Raises LedgerError if there is no such number.
    """
    own = unit_of_receipt(receipt)
    if unit in (None, SEVERAL, own):
        return 1
    if unit == RECORDS and (own.startswith(USER) or own == ITEMS):
        return 2
    user = unit.partition(":")[2]
    if unit.startswith(EMPTIED) and own == REPLACED + user:
        return 1
    if unit.startswith((REPLACED, EMPTIED)) and own in (USER + user, EMPTIED + user):
        return 2
    raise LedgerError(
        f"the release protects {protection_words(own)}, but the ledger protects "
        f"{protection_words(unit)}. {_remedy(unit, own)}"
    )


def _remedy(unit: str, own: str) -> str:
    """What to do about a release that is refused."""
    if own.startswith(ONE_RECORD):  # a row stands for many records
        return "Give a max_weight, which protects whole rows, or charge another ledger."
    if unit.startswith(USER) and own == RECORDS:
        name = unit.removeprefix(USER)
        return f"Pass user={name!r}, or charge a ledger made with protects='records'."
    return "Charge another ledger: a total of both would hold for neither."


def unit_of_history(receipts: Iterable[Mapping[str, Any]]) -> str | None:
    """The unit for which every release of a file of an earlier version costs one step. ``SEVERAL``
    if there is none, None without releases."""
    known = [{**receipt.get("request", {}), **receipt} for receipt in receipts]
    known = [receipt for receipt in known if receipt.get("neighbours")]
    units = dict.fromkeys(map(unit_of_receipt, known))
    for unit in sorted(units, key=RECORDS.__ne__):
        with suppress(LedgerError):
            if all(receipt_steps(receipt, unit) == 1 for receipt in known):
                return unit
    return SEVERAL if units else None


def in_steps(units: Units, asked: Exact, steps: int) -> tuple[Units, Exact]:
    """A cost between tables that are ``steps`` steps apart: rounded up, and as it was asked for."""
    if steps == 1:
        return units, asked
    more = group_cost(asked, steps)
    return (steps * units[0], max(1, units_rounded_up(more)[1])), more


def group_cost(asked: Exact, steps: int) -> Exact:
    """What a release of (epsilon, delta) costs between tables one or two ``steps`` apart."""
    if steps == 1:
        return asked
    epsilon, delta = asked
    if epsilon > 700:  # exp would overflow, and no delta is above 1
        return 2 * epsilon, Fraction(delta > 0)
    above = math.nextafter(float(epsilon), math.inf)  # a sum of charges need not be a float
    growth = Fraction(math.exp(above)) * (1 + Fraction(1, 2**50))
    return 2 * epsilon, (1 + growth) * delta


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
