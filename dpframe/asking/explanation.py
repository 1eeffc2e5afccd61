"""A plan for people, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpframe.asking.about import ANY, About
from dpframe.asking.plan import Plan
from dpframe.asking.quantities import Quantity, shown
from dpframe.asking.receipt import card, html_card

if TYPE_CHECKING:
    import pandas as pd


P = TypeVar("P", bound=Plan[Any, Any], covariant=True)


@dataclass(frozen=True)
class Explanation(Generic[P]):
    """A plan for people: prints as a card, ``to_frame()`` gives its rows."""

    plan: P
    solved: Quantity | None = None
    """The epsilon that was found for an error."""
    about: About = ANY
    """What else the call says of its data: a period of them."""
    afforded: tuple[Quantity, ...] = ()
    """What the ledger says of it, where one is given or in use."""

    @property
    def lines(self) -> list[Quantity]:
        """What is known before the data are read, and what another mechanism would give."""
        found = [] if self.solved is None else [self.solved]
        lines = self.about.on(self.plan.lines(), self.plan.unit.user)
        return [*found, *lines, *self.afforded, *self.plan.advice()]

    def to_frame(self) -> pd.DataFrame:
        """Columns ``quantity``, ``value`` and ``meaning``, all text."""
        import pandas as pd

        rows = self.lines
        return pd.DataFrame(
            {
                "quantity": [q.name for q in rows],
                "value": [shown(q.value) for q in rows],
                "meaning": [q.meaning for q in rows],
            }
        )

    def __str__(self) -> str:
        return card("Plan (nothing spent)", self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_card("Plan (nothing spent)", self.lines)
