"""The next release of a sketch, and the count of its releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from dpframe.asking.plan_protocols import Draws, MechanismInput
from dpframe.asking.privacy_receipt import Receipt
from dpframe.asking.release import count_charge_draw
from dpframe.ledger import chosen_ledger

if TYPE_CHECKING:
    import pandas as pd

C = TypeVar("C")
N = TypeVar("N")


class ReleaseCounter(Protocol):
    """A sketch, or a stream with a sketch per level, that counts its releases."""

    _released: int


def next_release(
    sketch: ReleaseCounter, state: Callable[[], C], plan: Draws[C, N], ledger: object
) -> pd.DataFrame:
    """Make the next release. The number of releases rises after the charge, before any draw."""

    def begun() -> None:
        sketch._released += 1

    facts = number_receipt(plan.receipt(), sketch._released + 1)
    book = chosen_ledger(ledger)
    release = count_charge_draw(
        lambda: MechanismInput(state()), plan, facts, source="sketch", ledger=book, begun=begun
    )
    return release.to_frame()


def number_receipt(receipt: Receipt, number: int) -> Receipt:
    """The receipt of the ``number``-th release of one sketch."""
    card = list(receipt["card"])
    if number > 1:
        count = "both count" if number == 2 else "all count"
        card.append(["releases", number, f"release {number} of this sketch; {count}"])
    return receipt.with_facts({"release_number": number, "card": card})
