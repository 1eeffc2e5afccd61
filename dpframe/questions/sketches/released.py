"""The next release of a sketch, and the count of its releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from dpframe.asking.plan import Counted, Draws
from dpframe.asking.receipt import Receipt
from dpframe.asking.release import drawn
from dpframe.ledger import chosen_ledger

if TYPE_CHECKING:
    import pandas as pd

C = TypeVar("C")
N = TypeVar("N")


class Counting(Protocol):
    """A sketch, or a stream with a sketch per level, that counts its releases."""

    _released: int


def next_release(
    sketch: Counting, state: Callable[[], C], plan: Draws[C, N], ledger: object
) -> pd.DataFrame:
    """Make the next release. The count rises after the charge, before anything is drawn."""

    def begun() -> None:
        sketch._released += 1

    facts = with_number(plan.receipt(), sketch._released + 1)
    book = chosen_ledger(ledger)
    release = drawn(
        lambda: Counted(state()), plan, facts, source="sketch", ledger=book, begun=begun
    )
    return release.to_frame()


def with_number(receipt: Receipt, number: int) -> Receipt:
    """The receipt of the ``number``-th release of one sketch."""
    card = list(receipt["card"])
    if number > 1:
        count = "both count" if number == 2 else "all count"
        card.append(["releases", number, f"release {number} of this sketch; {count}"])
    return receipt.and_also({"release_number": number, "card": card})
