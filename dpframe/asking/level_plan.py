"""The protocols and bases of plans: what each reads off its draws, and proofs of receipts.

**Proofs of receipts** write down what a claim rests on, for a verifier that shares no code.

A proof is a text of JSON: the promise, the game that the mechanism is, the tables that it draws
from. It is made from the draws of a plan, so that no number in it can come from data
(docs/verifying.md).
"""

from __future__ import annotations

import base64
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from dpframe.accounting.compose import Profile
from dpframe.accounting.tree_levels import NodeLaws
from dpframe.asking.call_arguments import CallArguments, column_name, optional_whole, whole_number
from dpframe.asking.card import DrawList, Line, budget_claim, four_digits_up
from dpframe.asking.privacy_receipt import UNTRACKED, Receipt, Sight, stamp
from dpframe.budget import AT_MOST, MOST, Budget, NodesUnit, PrivacyUnit
from dpframe.counts import ListedNodes
from dpframe.errors import ParameterError
from dpframe.hierarchy import Hierarchy
from dpframe.noise import NoiseTable

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

    @property
    def sight(self) -> Sight | None:
        """From which number on a node is shown; None where all are shown, or no number decides."""

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


FORMAT, VERSION = "dpframe proof", 1

LONGEST_INSIDE = 40_000
"""Most characters of a proof inside a receipt; of a longer proof the receipt has the digest."""

LONGEST_ALONE = 400_000
"""Most characters inside a receipt where no arguments make the plan again, as the sketch that it
needs is in no file."""


def proof_text(plan: Proves) -> str | None:
    """Return the proof of a plan; None if its mechanism has no proof yet."""
    draws = plan.draws
    if draws.kind is None:
        return None
    game, tables = draws.game()
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "promise": {
            "epsilon": plan.budget.epsilon,
            "delta": plan.budget.delta,
            "group": draws.group,
        },
        "game": game,
        "tables": [_table_json(table) for table in tables],
    }
    return json.dumps(whole, allow_nan=False)


def _table_json(table: NoiseTable) -> dict[str, Any]:
    raw = table.weights.astype(np.dtype("<u8"), copy=False).tobytes()
    return {"lowest": int(table.lowest), "weights": base64.b64encode(raw).decode()}


UNKNOWN = "no proof is written for releases of this mechanism yet: its promise rests on its tests"


def proof_facts(plan: Proves) -> dict[str, Any]:
    """Return the facts on the proof that a receipt holds.

    These are its digest, and its text if that is short; else the question and the arguments that
    make the text again.
    """
    text, question = proof_text(plan), plan.question
    facts: dict[str, Any] = {"version": VERSION, "sha256": None, "text": None}
    if text is None:
        return {**facts, "why": UNKNOWN}
    facts["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    if len(text) <= (LONGEST_ALONE if question is None else LONGEST_INSIDE):
        return {**facts, "text": text}
    return {**facts, "question": question, "arguments": getattr(plan, "request", None)}


class SpendingPlan(ABC):
    """What a plan, or the selection in it, draws and costs: an implementation of ``Spends``."""

    @property
    @abstractmethod
    def draws(self) -> DrawList:
        """What is drawn, and how it composes."""

    @property
    @abstractmethod
    def budget(self) -> Budget:
        """(epsilon, delta) for the unit of privacy."""

    @cached_property
    def profile(self) -> Profile:
        """The points (epsilon, delta) that the release keeps, to compose it with others."""
        return self.draws.profile(self.budget)

    @property
    def delta_spent(self) -> float:
        """Delta that the accountant computed for the unit of privacy, at most ``budget.delta``."""
        return self.draws.delta_spent(self.budget)


class ReleasePlan(SpendingPlan):
    """Everything about a release except the data and the draw.

    A plan says what it draws (``draws``), who is protected, and what its receipt and card say
    besides.
    """

    question: ClassVar[str | None] = None
    """The question whose arguments make the plan again; None where a sketch or a stream is needed.
    """

    audience: ClassVar[str] = "what is promised, against anybody who sees the result"
    """Against whom the guarantee holds, in the words of the card."""

    @property
    @abstractmethod
    def unit(self) -> PrivacyUnit:
        """Who is protected."""

    @property
    @abstractmethod
    def mechanism_name(self) -> str:
        """The name of the mechanism in receipts."""

    @property
    @abstractmethod
    def paper(self) -> str:
        """The source of the mechanism."""

    @property
    @abstractmethod
    def intervals(self) -> str:
        """What the intervals of the release mean."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, object]:
        """What the receipt says besides the promise and the noise."""

    @abstractmethod
    def lines(self) -> list[Line]:
        """The lines of the card: what is known before the data are read."""

    @property
    def sight(self) -> Sight | None:
        """From which number on a node is shown; None where all are shown, or no number decides."""
        return None

    @property
    def guarantee(self) -> str:
        """The privacy claim, as one sentence; every document and card quotes it."""
        return budget_claim(self.budget, self.unit.sentence)

    @property
    def guarantee_line(self) -> Line:
        """The first line of the card."""
        return Line("guarantee", self.guarantee, self.audience)

    @property
    def delta_line(self) -> Line:
        """The line on the delta that the accountant computed."""
        if not self.delta_spent:
            return Line("computed delta", "0", "pure: noise without bounds, scales rounded up")
        meaning = "upper bound from the tables that are drawn from"
        return Line("computed delta", four_digits_up(self.delta_spent), meaning)

    @property
    def errors(self) -> Mapping[str, float]:
        """Half widths of intervals by the name of a measure, for what one node has of its own.

        Empty where they are not known before the data are read.
        """
        return {}

    @property
    def noise(self) -> Any:
        """The laws of the noise, as the receipt has them."""
        return self.draws.noise

    def receipt(self, name: str | None = None) -> Receipt:
        """The receipt of a release of this plan; holds nothing that depends on the data."""
        return Receipt(
            {
                "release": name,
                **stamp(),
                "mechanism": self.mechanism_name,
                "paper": self.paper,
                "guarantee": self.guarantee,
                **self.budget.request,
                "computed_delta": self.delta_spent,
                **self.unit.facts,
                **self.facts,
                "noise": self.noise,
                "intervals": self.intervals,
                "budget": UNTRACKED,
                "ledger": None,
                "proof": proof_facts(self),
                "card": [line.row for line in self.lines()],
            }
        )


class LevelArguments(Protocol):
    """The checked arguments that all plans over levels have."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def unit(self) -> PrivacyUnit: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def confidence(self) -> float: ...


A = TypeVar("A", bound=LevelArguments)


@dataclass(frozen=True, kw_only=True)
class LevelPlan(ReleasePlan, Generic[A]):
    """The base of plans over the levels of a hierarchy, which answer the protocol ``Rollup``."""

    asked: A

    @property
    def hierarchy(self) -> Hierarchy:
        return self.asked.hierarchy

    @property
    def height(self) -> int:
        return self.hierarchy.height

    @property
    def unit(self) -> PrivacyUnit:
        return self.asked.unit

    @property
    def grid(self) -> int:
        """How many units of the counts a record or user is."""
        return self.unit.grid

    @property
    def budget(self) -> Budget:
        return self.asked.budget

    @property
    def mechanism(self) -> str:
        return self.asked.mechanism

    @property
    def mechanism_name(self) -> str:
        return self.mechanism

    @property
    def confidence(self) -> float:
        return self.asked.confidence

    @property
    def facts(self) -> dict[str, object]:
        return {
            "hierarchy": self.hierarchy.spec,
            "height": self.height,
            "levels": list(self.hierarchy.level_names),
            "confidence": self.confidence,
        }


def cell_facts(hierarchy: Hierarchy) -> dict[str, object]:
    """Return the facts of receipts of cells: the order of the kinds, and the hierarchies."""
    if not hierarchy.has_cells:
        return {}
    order = list(reversed(hierarchy.level_names))
    return {"order": order, "dimensions": [one.spec for one in hierarchy.dimensions]}


def cell_columns(hierarchy: Hierarchy) -> dict[str, str]:
    """Return the columns of cells in a result, with DuckDB's types; none for one hierarchy."""
    if not hierarchy.has_cells:
        return {}
    found = {"level": "BIGINT", "prefix": "VARCHAR"}
    for name in hierarchy.names:
        found |= {name: "VARCHAR", f"{name}_level": "BIGINT"}
    return found


def nodes_unit_from(given: CallArguments, *, exact: bool) -> NodesUnit | None:
    """Return the unit of privacy where different users are counted at nodes; None elsewhere.

    ``exact`` says whether the mechanism counts users exactly at every node. Other mechanisms keep
    a set of values of each user, or refuse items.
    """
    by_items = given["contribution"] == "items" and given["user"] is not None
    if not (by_items and exact):
        if given.get("at_most") is not None:
            whole_number("at_most", given["at_most"], 1, 2**53)
            raise ParameterError(
                f"at_most ({given['at_most']!r}) needs user=, contribution='items' and a mechanism "
                "with exact counts. Leave it out."
            )
        return None
    for name in ("max_contributions", "weight", "max_weight"):
        if given.get(name) is not None:
            raise ParameterError(
                f"{name} ({given[name]!r}) does not go with contribution='items'. "
                + ("Pass at_most= instead." if name == "max_contributions" else "Leave it out.")
            )
    return NodesUnit(
        user=column_name("user", given["user"]),
        contribution="items",
        at_most=optional_whole(1, MOST)("at_most", given["at_most"]) or AT_MOST,
    )


def with_contribution_bound(given: CallArguments) -> CallArguments:
    """Return ``given`` with a bound on contributions, so that a mechanism without items refuses the
    items and not the missing bound."""
    return given.but(max_contributions=given["max_contributions"] or 1)


def moved_count_lines(paid: NodeLaws, at_most: int | None) -> list[Line]:
    """Return the lines on how many nodes one user counts at, and how many counts they move."""
    return [
        Line(
            "at_most",
            at_most,
            "nodes of a level that a user counts at; one with n more than that counts at each of "
            "theirs with chance at_most / n, which makes counts too low",
        ),
        Line("moved", sum(paid.times), "counts that one user moves by 1, at most, in all"),
    ]
