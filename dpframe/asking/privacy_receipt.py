"""The receipt of a release, and its card for people."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dpframe._version import __version__
from dpframe.asking.card import (
    Line,
    Sight,
    card_summary,
    card_text,
    html_card,
    not_shown_lines,
    with_not_shown,
)
from dpframe.budget import SHARE_GRID
from dpframe.common.calls import argument_hint
from dpframe.common.digest import FrameState
from dpframe.noise import replacement

if TYPE_CHECKING:
    from dpframe.ledger import Ledger, PaidCharge

SECRET_NOISE = "operating system"
REPLACED_NOISE = "replaced by a seeded generator: NOT private"
"""The two sources of noise."""

SUBJECTS = {
    "tree": "Counts",
    "rollup": "Rollup",
    "synthetic": "Synthetic rows",
    "prefix": "Frequent items",
}
"""What was released, by the beginning of the mechanism's name."""

UNTRACKED = "no ledger: nothing tracks what this and other releases cost in total"


class Receipt(Mapping[str, Any]):
    """The public facts of one release, as a read-only mapping that prints as a privacy card.

    Facts are attributes too, ``receipt.epsilon``, unless a method has the fact's name: the listed
    keys are ``receipt["keys"]``.
    """

    epsilon: float
    delta: float
    guarantee: str
    mechanism: str
    neighbours: str
    release: str | None
    release_id: str
    time: str
    version: str
    replayed: bool

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, key: str) -> Any:
        try:
            return self._facts[key]
        except KeyError:
            raise KeyError(missing_key_message("receipt", key, self._facts)) from None

    def __contains__(self, key: object) -> bool:
        return key in self._facts

    if not TYPE_CHECKING:  # or type checkers would accept any name, and ask for overloads of get

        def get(self, key: str, default: Any = None) -> Any:
            return self._facts.get(key, default)  # a Mapping's makes the message of a missing key

        def __getattr__(self, name: str) -> Any:
            return fact_as_attribute(self, "receipt", name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *filter(str.isidentifier, self._facts)})

    def __iter__(self) -> Any:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain JSON types."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    @property
    def digits(self) -> int:
        """Decimals of the released numbers: none for counts.

        A measure has the decimals of the multiples to which it is rounded.
        """
        if not self._is_measure:
            return 0
        step = self["max_weight"] / SHARE_GRID
        return min(20, max(0, math.ceil(-math.log10(step))))

    @property
    def _is_measure(self) -> bool:
        """Whether the numbers are sums of a weight that is not a number of records."""
        return self.get("max_weight") is not None and not self["mechanism"].startswith("tree-")

    @property
    def count_noun(self) -> str:
        """What the numbers count, in a word or two: records, users, or the column of a measure."""
        mechanism, way = self["mechanism"], self.get("contribution")
        if self._is_measure:
            return str(self["weight"])
        if mechanism.startswith("prefix-"):
            return "users who reported an item when it was found"
        if self.get("user") is None or way == "records":
            return "records"
        different = mechanism == "rounds" or self.get("adds_up") is False
        return "different users" if different else "users"

    @property
    def subject(self) -> str:
        """What was released, as the first words of a title."""
        return SUBJECTS.get(self["mechanism"].partition("-")[0], "Heavy hitters")

    def to_json(self) -> str:
        return json.dumps(self._facts, ensure_ascii=False)

    def with_frame_state(self, standing: FrameState | None) -> Receipt:
        """Return the receipt, with a warning under ``frame`` if a frame is not as released."""
        if standing is None or not standing.sentence:
            return self
        facts = {"frame_changed": standing.changed, "frame_extract": standing.is_extract}
        told = {name: True for name, value in facts.items() if value}
        return Receipt({**self._facts, "frame": standing.sentence, **told})

    def with_facts(self, facts: Mapping[str, Any]) -> Receipt:
        """Return the receipt with further facts, which replace facts of the same name."""
        return Receipt({**self._facts, **facts}) if facts else self

    def paid(self, ledger: Ledger, paid: PaidCharge) -> Receipt:
        """Return the receipt with what the ledger holds after this release."""
        left, used = paid.left, paid.reservation
        text = (
            f"of ({ledger.epsilon:g}, {ledger.delta:g}) in the ledger, "
            f"({left.epsilon:.6g}, {left.delta:.6g}) was left after this release"
        )
        if paid.there != left:
            there = paid.there
            text += f", and ({there.epsilon:.6g}, {there.delta:.6g}) for the period that it read"
        held: dict[str, Any] = {
            "id": ledger.ledger_id,
            "accountant": ledger.accountant,
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "left_epsilon": left.epsilon,
            "left_delta": left.delta,
        }
        if used is not None:
            text += f"; paid for by {used.words}"
            held["reservation"] = used.facts
        elif paid.reserved:
            text += "; charged on top of what is reserved, which is for another law"
        if paid.protects is not None:
            held["protects"] = paid.protects
            text += f"; its totals hold for {paid.protection}"
        if paid.cost is not None:
            epsilon, delta = map(float, paid.cost)
            held |= {"charged_epsilon": epsilon, "charged_delta": delta}
            text += f", for which this release costs two steps, ({epsilon:.6g}, {delta:.6g})"
        known = {**self._facts, "budget": text, "ledger": held}
        if paid.resumed is not None:
            known["release_id"], known["time"] = paid.resumed
        return Receipt(known)

    def with_sketch_error(self, error: Sequence[int] | None) -> Receipt:
        """Return the receipt with the released bounds on the errors of sketches, if any.

        The bounds are listed by level, coarse to fine.
        """
        if error is None:
            return self
        shown = Line(
            "sketch errors",
            ", ".join(map(str, error)),
            "released bound on how far counts of each level can be too high, coarse to fine, noisy",
        )
        card = [*self["card"], shown.row]
        return Receipt({**self._facts, "sketch_error": list(error), "card": card})

    def with_bounds(self, found: Mapping[str, tuple[float, float]]) -> Receipt:
        """Return the receipt with the bounds of measures that a search found, if any."""
        if not found:
            return self
        measures = {
            name: {**facts, **dict(zip(("lower", "upper"), found[name], strict=True))}
            if name in found
            else facts
            for name, facts in self["measures"].items()
        }
        said = [
            [
                f"bounds of {name}",
                f"{lower:g} to {upper:g}",
                "found privately; what is beyond was cut, which intervals do not cover",
            ]
            for name, (lower, upper) in found.items()
        ]
        return Receipt({**self._facts, "measures": measures, "card": [*self["card"], *said]})

    def with_release_facts(self, facts: Mapping[str, Any], lines: Sequence[Line]) -> Receipt:
        """Return the receipt with what only the release can say, as facts and as lines.

        The lines go to the end of the card and replace the plan's lines of the same name.
        """
        known = {q.name for q in lines}
        card = [line for line in self["card"] if line[0] not in known]
        card += [q.row for q in lines]
        return Receipt({**self._facts, **facts, "card": card})

    def with_not_shown(
        self, sight: Sight, nodes: int, shares: Mapping[str, Sequence[float]] | None = None
    ) -> Receipt:
        """Return the receipt with what is not shown: from which number on nodes are, and which
        ``shares`` are in others; ``nodes`` are shown."""
        return Receipt({**self._facts, "not_shown": sight.facts(shares or {}, nodes)})

    def with_notices(self, notices: Sequence[Line]) -> Receipt:
        """Return the receipt with notices on the released numbers, on top of the card."""
        if not notices:
            return self
        card = [*(line.row for line in notices), *self["card"]]
        said = [f"{line.value_text}: {line.meaning_text}" for line in notices]
        return Receipt({**self._facts, "notices": said, "card": card})

    @property
    def not_shown_lines(self) -> list[Line]:
        """The lines on what is not shown, and on what would show more. None where nothing is shown,
        as a notice says so."""
        facts = self.get("not_shown")
        return not_shown_lines(facts) if facts is not None and facts["nodes"] else []

    @property
    def card_lines(self) -> list[Line]:
        """The lines of the card, and those made of other facts: on the frame, the noise source, the
        ledger, the release, the data and a replay."""
        card = [Line(*line) for line in self["card"]]
        card = with_not_shown(card, self.not_shown_lines)
        if "frame" in self:
            how = "extract" if self.get("frame_extract") else "changed"
            card.insert(0, Line("frame", how, self["frame"]))
        if self.get("noise_source", SECRET_NOISE) != SECRET_NOISE:
            card.insert(0, Line("noise source", "NOT private", self["noise_source"]))
        tracked = "untracked" if self["ledger"] is None else "tracked"
        card.append(Line("budget", tracked, self["budget"]))
        name = self["release"] or self["release_id"]
        card.append(
            Line.of(
                "release",
                name,
                "{time}, dpframe {version}",
                time=self["time"],
                version=self["version"],
            )
        )
        if self.get("data") is not None:
            card.append(Line("data", self["data"], "the caller's name for the state of the data"))
        if self.get("replayed"):
            card.append(Line("replayed", True, replay_words(self)))
        return card

    def __str__(self) -> str:
        return card_text("Privacy card", self.card_lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_card("Privacy card", self.card_lines, card_summary(self.card_lines))


def missing_key_message(what: str, key: object, known: Iterable[str]) -> str:
    """Return the message for a key that is not there."""
    return f"{what} has no {key!r}.{argument_hint(str(key), tuple(known))}"


def fact_as_attribute(facts: Mapping[str, Any], what: str, name: str) -> Any:
    """Return a fact by the name of an attribute; AttributeError if there is none."""
    if name.startswith("_"):  # Python asks while it makes an object, and notebooks always
        raise AttributeError(name)
    if name not in facts:
        raise AttributeError(missing_key_message(what, name, facts))
    return facts[name]


def replay_words(receipt: Receipt) -> str:
    """Say in a few words what a replay is."""
    return f"drawn on {receipt['time']}, nothing was charged"


def stamp() -> dict[str, Any]:
    """Return the facts of a new release: a random id, the time, the version and the source of
    noise; it is no replay, and its data have no name yet."""
    return {
        "release_id": uuid.uuid4().hex,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "noise_source": SECRET_NOISE if replacement() is None else REPLACED_NOISE,
        "replayed": False,
        "data": None,
    }
