"""A plan for people, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpframe.asking.card import Line, card_summary, card_text, html_card
from dpframe.asking.data_scope import ALL_DATA, DataScope
from dpframe.asking.plan_protocols import Plan
from dpframe.asking.privacy_receipt import fact_as_attribute, missing_key_message
from dpframe.asking.proofs import UNKNOWN, proof_text
from dpframe.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd


P = TypeVar("P", bound=Plan[Any, Any], covariant=True)


@dataclass(frozen=True, eq=False)
class Explanation(Mapping[str, Any], Generic[P]):
    """A plan for people: prints as a card, ``to_frame()`` gives its rows.

    A mapping from the names of its lines to their values, too, with ``epsilon`` and ``delta``:
    ``explained["standard error"]``, or as an attribute, ``explained.standard_error``.
    """

    plan: P
    solved: Line | None = None
    """The epsilon that was found for an error."""
    about: DataScope = ALL_DATA
    """What the call says of its data, such as their period."""
    afforded: tuple[Line, ...] = ()
    """Lines on what the release would find in the ledger, if one is given or in use."""

    advice: tuple[Line, ...] = ()
    """Lines on other mechanisms that could be asked for."""

    @property
    def lines(self) -> list[Line]:
        """What is known before the data are read, what the release would find in the ledger, and
        what another mechanism would give."""
        found = [] if self.solved is None else [self.solved]
        lines = self.about.on(self.plan.lines(), self.plan.unit.user)
        return [*found, *lines, *self.afforded, *self.advice]

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """The value of every line by its name; the first line of a name counts."""
        budget = self.plan.budget
        values = {line.name: line.content for line in reversed(self.lines)}
        ordered = {line.name: values[line.name] for line in self.lines}
        return {"epsilon": budget.epsilon, "delta": budget.delta} | ordered

    def __getitem__(self, key: str) -> Any:
        try:
            return self._facts[key]
        except KeyError:
            raise KeyError(missing_key_message("the explanation", key, self._facts)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            named = {key.replace(" ", "_"): key for key in self._facts}
            return fact_as_attribute(
                {name: self._facts[key] for name, key in named.items()}, "the explanation", name
            )

    def __dir__(self) -> list[str]:
        named = (key.replace(" ", "_") for key in self._facts)
        return sorted({*super().__dir__(), *filter(str.isidentifier, named)})

    def proof(self) -> str:
        """The proof of a release of this plan, as text: what :func:`dpframe.verify` checks.

        JSON (docs/verifying.md): the promise, the game that the mechanism is, and the tables that
        it draws from. Nothing is spent. ParameterError if this mechanism has no proof yet.
        """
        text = proof_text(self.plan)
        if text is None:
            raise ParameterError(f"{UNKNOWN}. dp.verify answers 'not verified' for them.")
        return text

    def to_frame(self) -> pd.DataFrame:
        """Columns ``quantity``, ``value`` and ``meaning``, all text."""
        import pandas as pd

        rows = self.lines
        return pd.DataFrame(
            {
                "quantity": [q.name for q in rows],
                "value": [q.value_text for q in rows],
                "meaning": [q.meaning_text for q in rows],
            }
        )

    def __str__(self) -> str:
        return card_text("Plan (nothing spent)", self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = self.lines
        return html_card("Plan (nothing spent)", lines, card_summary(lines))
