"""The protocols that plans of releases answer. A plan sees no data, and draws only in ``run``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dpframe.accounting.compose import Profile
from dpframe.asking.card import Line
from dpframe.asking.draws import DrawList
from dpframe.asking.privacy_receipt import Receipt
from dpframe.budget import Budget, PrivacyUnit
from dpframe.hierarchy import Hierarchy
from dpframe.tree import ListedNodes

if TYPE_CHECKING:
    import pandas as pd

C = TypeVar("C", contravariant=True)
N = TypeVar("N")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MechanismInput(Generic[T]):
    """The input of a mechanism, ``private``, and the types of the columns, which are public."""

    private: T
    types: tuple[str, ...] = ()


class RemoteSource(ABC):
    """The stand-in for a source that another engine reads."""

    @property
    @abstractmethod
    def weights_are_text(self) -> bool:
        """Whether the column of weights holds text, whose type says nothing of its values."""


class Spends(Protocol):
    """What a release costs, decided before data are read."""

    @property
    def budget(self) -> Budget:
        """(epsilon, delta) for the unit of privacy."""

    @property
    def profile(self) -> Profile:
        """The points (epsilon, delta) that the release keeps, to compose it with others."""


class Proves(Spends, Protocol):
    """A plan with a list of draws, from which its proof is written."""

    @property
    def question(self) -> str | None:
        """The question whose arguments make the plan again, if any do."""

    @property
    def draws(self) -> DrawList:
        """What is drawn, and how it composes."""


class Draws(Proves, Protocol[C, N]):
    """A plan that can be drawn: ``run`` makes N, which is public, from C, which is private."""

    def run(self, counted: C, /) -> N:
        """The only noisy step."""

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of a release of this plan; holds nothing that depends on the data."""

    def frame(self, noisy: N, types: tuple[str, ...] = (), /) -> pd.DataFrame:
        """The drawn result as a frame for people."""

    def finish_receipt(self, facts: Receipt, noisy: N, frame: pd.DataFrame, /) -> Receipt:
        """The receipt with what the released numbers say, such as notices."""


class Plan(Draws[C, N], Protocol[C, N]):
    """Everything about a release except the data and the draw."""

    @property
    def request(self) -> Mapping[str, object]:
        """The arguments that this plan answers, as plain JSON types; stored in users' ledgers."""

    @property
    def unit(self) -> PrivacyUnit:
        """Who is protected."""

    def lines(self) -> list[Line]:
        """What is known before the data are read; the card of the receipt."""


class Rollup(Plan[Any, Any], Protocol):
    """A plan whose input is the counts of a rollup, made by one statement of SQL."""

    @property
    def hierarchy(self) -> Hierarchy:
        """The levels that are counted."""

    @property
    def band(self) -> int:
        """Units below which a count can never be reported, so that it need not be fetched."""

    @property
    def listed_keys(self) -> ListedNodes | None:
        """The keys that the caller listed, None without; other keys have no counts of their own."""
