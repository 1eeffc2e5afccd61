"""The game of measures on the parts of a selection: what one record or user moves, and its cost.

docs/guarantees.md, "Measures on the parts of a selection". A proof does not claim how much is
moved: that follows here from what is added up and from its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpframe.verifier.composition import composed_bound
from dpframe.verifier.proof import (
    MOST_HEIGHT,
    BrokenProofError,
    Law,
    Proof,
    positive_number,
    zero_or_positive,
)
from dpframe.verifier.verdict import DeltaBound, ProofStep, check_claim, check_loss

MEASURES = "docs/guarantees.md, Measures on the parts of a selection"

COUNTED, VALUED = ("rows", "users", "outside"), ("sum", "mean")
"""The kinds of draws whose numbers add up over nodes: counts, in units, and values between bounds,
in steps."""

DRAW_FIELDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(COUNTED, frozenset({"unit", "at_most"})),
    **dict.fromkeys(VALUED, frozenset({"low", "high", "decimals"})),
    "distinct": frozenset({"at_most", "singly"}),
    "search": frozenset(),
}
"""For each kind of draw: its fields besides its measure and its noise."""


@dataclass(frozen=True, kw_only=True)
class MeasureDraw:
    """One thing that is drawn for a measure.

    ``moved`` is by how much one record, or user, moves the draw in total; None where a search finds
    the bounds. Noise is discrete Laplace over all integers, of ``scale``; for kinds that add up,
    1/scale is divided between parts and levels. Where bounds are found, the scale follows from
    these and from ``epsilon``. With a ``table`` the noise is that table, and ``moved`` counts move
    by one.
    """

    measure: str
    of: str
    facts: Mapping[str, Any]
    moved: int | None
    scale: Fraction | None = None
    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    table: Law | None = None

    @property
    def loss(self) -> Fraction:
        """The epsilon of the whole draw."""
        if self.scale is None or self.moved is None:
            assert self.epsilon is not None
            return self.epsilon
        return self.moved / self.scale


def bound_measures_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta of everything that is drawn for measures once it is known which nodes are
    shown."""
    drawn = draws_of_game(proof)
    loss = sum((each.loss for each in drawn), Fraction(0))
    check_loss("measures", loss, epsilon)
    bound, said = Fraction(0), list[ProofStep]()
    for each in drawn:
        if each.table is not None:
            assert each.moved is not None
            own = min(each.delta, enough)
            bound += composed_bound([(each.table, each.moved)], each.loss, own)
        said.append(ProofStep(_draw_sentence(each), f"{MEASURES}, {POINTS[each.of]}"))
    whole = ProofStep(
        f"all measures lose at most {float(loss):.9g} together", f"{MEASURES}, after 7"
    )
    return DeltaBound(bound, *said, whole)


POINTS = {
    **dict.fromkeys((*COUNTED, *VALUED), "points 2 to 5"),
    "distinct": "point 6",
    "search": "point 7",
}


def _draw_sentence(each: MeasureDraw) -> str:
    what = f"{each.measure}, {each.of}: loses {float(each.loss):.9g}"
    if each.moved is None:
        return f"{what}, by a scale that follows from the bounds that are found"
    if each.table is not None:
        return f"{what}, as {each.moved} counts that move by one"
    assert each.scale is not None
    return f"{what}, moves by {each.moved} at scale {float(each.scale):.9g}"


def draws_of_game(proof: Proof) -> list[MeasureDraw]:
    """Everything that the game says is drawn; BrokenProofError for what cannot be drawn.

    Segments of cells are one level with nothing above it: their height is 0 here.
    """
    height = proof.whole_number("height", 1)
    check_claim(height <= MOST_HEIGHT, f"there are more than {MOST_HEIGHT} levels")
    if "segments" in proof.game and proof.flag("segments"):
        height = 0
    drawn = [_read_draw(proof, each, height) for each in proof.entries("drawn", "what is drawn")]
    means = {each.measure for each in drawn if each.of == "mean"}
    for name, of in sums_of_means(proof).items():
        if of not in means:
            raise BrokenProofError(f"{name!r} is read from a mean {of!r} that is not drawn")
    return drawn


def sums_of_means(proof: Proof) -> Mapping[str, str]:
    """The sums that are read from the draws of a mean, each with the name of that mean: such sums
    draw nothing."""
    told = proof.game.get("read", {})
    if not isinstance(told, dict) or not all(isinstance(of, str) for of in told.values()):
        raise BrokenProofError("'read' must name a mean for every sum in it")
    return told


def _read_draw(proof: Proof, told: Any, height: int) -> MeasureDraw:
    kind = told.get("of") if isinstance(told, dict) else None
    if (
        not isinstance(kind, str)
        or kind not in DRAW_FIELDS
        or not isinstance(told.get("measure"), str)
    ):
        raise BrokenProofError(
            f"a draw must name a measure, and 'of' one of {', '.join(DRAW_FIELDS)}"
        )
    noise = set(told) - DRAW_FIELDS[kind] - {"measure", "of"}
    part = proof.of(told)
    if kind in VALUED and all(told.get(each) is None for each in DRAW_FIELDS[kind]):
        moved, wanted = None, {"epsilon"}
    elif kind == "distinct" and "table" in told:
        moved, wanted = _move_of_draw(part, kind, height), {"table", "epsilon", "delta"}
        if told.get("singly") is not True:
            raise BrokenProofError("a table needs counts that move by one each")
    else:
        moved, wanted = _move_of_draw(part, kind, height), {"scale"}
    if noise != wanted or not DRAW_FIELDS[kind] <= set(told):
        raise BrokenProofError(f"a draw of {kind!r} lacks fields, or has others than it needs")
    return MeasureDraw(
        measure=told["measure"],
        of=kind,
        facts=told,
        moved=moved,
        scale=part.scale("scale") if "scale" in wanted else None,
        epsilon=positive_number(told["epsilon"], "epsilon") if "epsilon" in wanted else None,
        delta=zero_or_positive(told.get("delta", 0), "delta"),
        table=part.law("table") if "table" in wanted else None,
    )


def _move_of_draw(part: Proof, kind: str, height: int) -> int:
    """By how much one record, or user, moves a draw in total, in its units or steps."""
    if kind in COUNTED:
        return part.whole_number("unit", 1) * part.whole_number("at_most", 1)
    if kind in VALUED:
        return move_of_values(kind, _whole_bound(part, "low"), _whole_bound(part, "high"))
    if kind == "distinct":  # ``most`` at every level; at the root 1, or as many
        most = part.whole_number("at_most", 1)
        if not height:
            return most
        return height * most + (1 if part.flag("singly") else most)
    return 1


def move_of_values(kind: str, low: int, high: int) -> int:
    """By how much one value between bounds moves a sum, or both vectors of a mean together; in
    steps, and at least 1."""
    if low > high:
        raise BrokenProofError("the lower bound must not be above the upper one")
    return max(1, high - low if kind == "mean" else max(abs(low), abs(high)))


def _whole_bound(part: Proof, name: str) -> int:
    value = part.game.get(name)
    if type(value) is not int:
        raise BrokenProofError(f"{name!r} must be a whole number")
    return value
