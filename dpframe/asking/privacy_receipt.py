"""The receipt of a release, its card for people, and what it says of nodes that are not shown.

What is not shown follows from a plan, which says from which number on a node is shown
(:class:`Sight`), and from the released frame.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpframe._version import __version__
from dpframe.asking.card import Line, Text, as_floats, card_summary, card_text, cut_lines, html_card
from dpframe.budget import LARGEST_EPSILON, SHARE_GRID, as_written
from dpframe.common.calls import argument_hint
from dpframe.common.digest import FrameState
from dpframe.noise import replacement

if TYPE_CHECKING:
    import pandas as pd

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
        different = mechanism == "rounds" or (self.get("adds_up") is False and way != "share")
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
        card = with_not_shown(card, [*self.not_shown_lines, *cut_lines(self)])
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """From which number on a plan shows a node. A function of public parameters alone.

    Parameters
    ----------
    below
        Nodes of less than about this number are not shown: at this number every second one is.
    counted
        What the number counts, in a word or two; "of" and the name of a measure.
    epsilon
        The epsilon of the release.
    planned
        Returns the least threshold that is planned at another epsilon, None if there is none.
    allowed
        The least threshold that is private for what was asked; None if it is not known.
    certain
        The number from which a node is shown for sure; None if no number is certain.
    likely
        The number of users who show a node with 95 %, by how many nodes each of them has. Empty
        where a number is certain.
    node
        A word for what is shown.
    is_own
        Whether a node is shown by what no shown node below it covers.
    is_divided
        Whether each user is divided over their nodes.
    is_bounded
        Whether a bound takes something away before numbers are counted.
    levels
        The names of the levels, coarse to fine.
    is_complete
        Whether every record has a node of each level.
    instead
        Arguments of another way, which shows more where users have many nodes; empty if there is
        none.
    """

    below: float
    counted: str
    epsilon: float
    planned: Callable[[float], float | None]
    allowed: float | None
    certain: float | None = None
    likely: Mapping[int, int] = field(default_factory=dict)
    node: str = "node"
    is_own: bool = False
    is_divided: bool = False
    is_bounded: bool = False
    levels: Sequence[str] = ()
    is_complete: bool = False
    instead: str = ""

    @property
    def change(self) -> dict[str, float]:
        """What shows more, with the threshold that is planned then: a smaller threshold where one
        is allowed, else twice the epsilon. Empty if neither does."""
        if self.allowed is not None and self.allowed < self.below:
            return {"threshold": self.allowed}
        epsilon = min(2 * self.epsilon, LARGEST_EPSILON)
        below = self.planned(epsilon)
        if below is None or below >= self.below:
            return {}
        return {"epsilon": epsilon, "threshold": below}

    def facts(self, shares: Mapping[str, Sequence[float]], nodes: int | None) -> dict[str, Any]:
        """Return what the receipt says of what is not shown, as plain JSON types.

        ``shares`` are those of ``unseen_shares``, by name of what is counted; that of the finest
        level is left out where some records have none. ``nodes`` are shown; None before a release.
        """
        told = 2 if self.is_complete or self.node == "cell" else 1
        shares = {name: [*several][:told] for name, several in shares.items()}
        parts = [part for several in shares.values() for part in several]
        return {
            "below": self.below,
            "counted": self.counted,
            "node": self.node,
            "own": self.is_own,
            "divided": self.is_divided,
            "bounded": self.is_bounded,
            "certain": self.certain,
            "likely": {str(many): users for many, users in self.likely.items()},
            "instead": self.instead,
            "finest": self.levels[-1] if len(self.levels) > 1 else None,
            "shares": shares,
            "change": {} if parts and max(parts) < LITTLE else self.change,
            "nodes": nodes,
        }


LITTLE = 0.05
"""A part of everything that is not missed if it is not shown."""


def unseen_shares(
    level: NDArray[np.int64],
    own: NDArray[np.float64],
    *,
    height: int,
    width: float,
    nodes: NDArray[np.bool_] | None = None,
) -> list[float]:
    """Return which part of everything is in no shown node, and, of several levels, which part is in
    no shown node of the finest level. Empty if noise is most of everything.

    Parameters
    ----------
    level, own
        The level of each row of a release, and what the row has for itself: of all rows together,
        everything.
    height
        The number of levels, or of kinds of cells, which are numbered to the finest.
    width
        The width of the interval of everything.
    nodes
        Which rows are nodes, and no rests; by default all.
    """
    total = own.sum()
    if not 0 <= width <= total:
        return []
    node = np.ones(len(level), dtype=np.bool_) if nodes is None else nodes
    outside = [(level == 0) | ((level == 1) & ~node)]
    if height > 1:
        outside.append((level < height) | ~node)
    parts = (float(own[rows].sum() / total) for rows in outside)
    return [round(min(1.0, max(0.0, part)), 3) for part in parts]


def unseen_residual_shares(
    frame: pd.DataFrame, height: int, nodes: NDArray[np.bool_] | None = None
) -> list[float]:
    """Return the shares of ``unseen_shares`` for a frame with residuals; empty without a row of
    level 0."""
    level = frame["level"].to_numpy()
    top = np.flatnonzero(level == 0)
    if len(top) != 1:
        return []
    lower, upper = (frame[name].to_numpy()[top[0]] for name in ("lower", "upper"))
    return unseen_shares(
        level, as_floats(frame["residual"]), height=height, width=upper - lower, nodes=nodes
    )


def not_shown_lines(facts: Mapping[str, Any]) -> list[Line]:
    """Return the lines on what a release does not show, and on what would show more, from the facts
    in its receipt."""
    node, change = facts["node"], facts["change"]
    cut = facts.get("cut", 0)
    unseen = [
        *([f"and {cut} smaller ones that were found, as k is {facts['nodes']}"] if cut else ()),
        *_unseen_texts(facts),
    ]
    sure = [
        _sure_text(facts),
        *([f"a user with 10 {node}s counts a tenth at each"] if facts["divided"] else ()),
    ]
    told = {
        "node": node,
        "below": as_written(facts["below"]),
        "counted": facts["counted"],
        "unseen": "".join(f"{text}; " for text in unseen),
        "sure": "; ".join(sure),
    }
    value, meaning = Text("{node}s of under about {below} {counted}"), "{unseen}{sure}"
    line = Line.of("not shown", value, meaning, **told)
    if not change:
        return [line]
    others = ["more data, such as a longer period"]
    if facts["finest"] is not None:
        others.insert(0, "coarser levels")
    if facts["instead"]:
        others.insert(0, f"{facts['instead']} (where users have many {node}s)")
    told["others"] = ", or ".join(others)
    told["below"] = as_written(change["threshold"])
    value, meaning = Text("threshold={below}"), "the smallest allowed here; or ask for {others}"
    if "epsilon" in change:
        value = Text("epsilon={epsilon}")
        told["epsilon"] = as_written(change["epsilon"])
        meaning = "{node}s from about {below} {counted} on; or ask for {others}"
    return [line, Line.of("shows more", value, meaning, **told)]


def _unseen_texts(facts: Mapping[str, Any]) -> list[str]:
    """Say which part of everything is in no shown node, and in none of the finest level."""
    shares, node = facts["shares"], facts["node"]
    if not shares:
        return []
    finest = facts["finest"] if node == "cell" else f"level {facts['finest']}"
    nowhere, *below = zip(*shares.values(), strict=True)
    first = [f"{_percent(part)} of {name}" for name, part in zip(shares, nowhere, strict=True)]
    if not below:
        return [f"about {' and '.join(first)} in no shown {node}"]
    (low,) = below
    if max(nowhere) < LEAST_TOLD:
        all_below = [f"{_percent(part)} of {name}" for name, part in zip(shares, low, strict=True)]
        return [f"about {' and '.join(all_below)} in no shown {node} of {finest}"]
    least = " and ".join(map(_percent, low))
    return [f"about {' and '.join(first)} in no shown {node}, {least} in none of {finest}"]


LEAST_TOLD = 0.005
"""A smaller part is shown as 0 %."""


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _sure_text(facts: Mapping[str, Any]) -> str:
    """Say from which number on a node is shown for sure, or with a chance of 95 %."""
    node, certain, likely = facts["node"], facts["certain"], facts["likely"]
    if certain is not None:
        own = " of its own" if facts["own"] else ""
        own += ", as they are counted," if facts["bounded"] else ""
        return f"a {node} with {as_written(certain)}{own} is shown for sure"
    if not likely:
        return "no number is certain"
    (one, users), *more = likely.items()
    others = "".join(f", of {n} if each has {many}" for many, n in more)
    shown = f"a {node} of {users} users is shown 19 times of 20 if each has {one}{others}"
    return f"no number is certain: {shown}"


def with_not_shown(lines: Sequence[Line], unseen: Sequence[Line]) -> list[Line]:
    """Return the lines of a card with those on what is not shown or cut, behind the guarantee."""
    at = 1 + next((i for i, line in enumerate(lines) if line.name == "guarantee"), -1)
    return [*lines[:at], *unseen, *lines[at:]]


def empty_result_notices(shown: NDArray[np.int64], sight: Sight) -> list[Line]:
    """Return a line if no node reached the threshold, or none of the finest levels: how large a
    node can still be, and what to change. ``shown`` are the levels of the nodes."""
    if (finest := int(shown.max(initial=0))) > 0:
        empty = sight.levels[finest:] if sight.is_complete else ()
        return [_empty_levels_line(empty, sight)] if empty else []
    said, change = f"no node reached the threshold of {as_written(sight.below)} {sight.counted}", ""
    if sight.allowed is not None and sight.allowed < sight.below:
        change = f"pass threshold={as_written(sight.allowed)}, the smallest allowed here, or "
    elif sight.allowed is not None:
        said += ", the smallest allowed here"
    if sight.certain is not None and sight.certain > sight.below:
        said += f", and the largest possible one has less than {as_written(sight.certain)}"
    larger, found = "a larger epsilon", sight.change
    if "epsilon" in found:
        larger += (
            f" (epsilon={found['epsilon']:g} shows from about {as_written(found['threshold'])})"
        )
    return [
        Line.of(
            "notice",
            "nothing was shown",
            (
                "{said}: {change}ask for coarser or fewer levels, with {larger} or "
                "delta, or of more data, such as a longer period"
            ),
            said=said,
            change=change,
            larger=larger,
        )
    ]


def _empty_levels_line(empty: Sequence[str], sight: Sight) -> Line:
    change = dict(sight.change)
    least = as_written(change.pop("threshold", sight.below))
    asked = "".join(f"{name}={as_written(value)}" for name, value in change.items())
    asked = asked or (f"threshold={least}" if sight.change else "a larger epsilon")
    asked += f" (from about {least} {sight.counted} on)" if sight.change else ""
    ways = [sight.instead] if sight.instead else []
    ways += [f"level {empty[-1]} alone", "more data, such as a longer period"]
    return Line.of(
        "notice",
        Text("level{s} {names} show{ends} nothing"),
        "no node there reached the threshold of {below} {counted}: ask with {asked}, or for {ways}",
        s="s" * (len(empty) > 1),
        ends="s" * (len(empty) == 1),
        names=", ".join(empty),
        below=as_written(sight.below),
        counted=sight.counted,
        asked=asked,
        ways=", or ".join(ways),
    )
