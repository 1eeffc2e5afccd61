"""What the release of sketches draws."""

from __future__ import annotations

from typing import Any

from dpframe.accounting.sketch_lattice import LatticeLaws
from dpframe.accounting.sketch_pure import PureLaws
from dpframe.accounting.sketch_stream import SketchLaws
from dpframe.accounting.sparse_gaussian import GshmLaws
from dpframe.asking.draws import Curve, Draw, DrawList, counts_game
from dpframe.noise import NoiseTable, UnboundedNoise


def _count_noise(law: NoiseTable | UnboundedNoise, *, by_level: bool = False, **facts: Any) -> Draw:
    """Return the noise in counts: of one sketch, or of the sketches of a hierarchy's levels."""
    if by_level:
        facts |= {"names": ("test", "release"), "label": "release noise"}
        return Draw(law=law, applies_to="added to what is reported", **facts)
    return Draw(law=law, names=("count",), label="noise", applies_to="in every count", **facts)


def merged_draws(
    laws: GshmLaws, *, by_level: bool = False, group: int, curve: Curve | None = None
) -> DrawList:
    """Return the draws of counts that move in one direction; ``group`` is 1 for whole users."""
    noise = _count_noise(laws.noise, by_level=by_level)
    facts = {
        "sketches": laws.sketches,
        "changed": laws.changed,
        "least": 1 + laws.t,
        "noise": noise,
    }
    return DrawList(
        kind="merged", draws=(noise,), facts=facts, delta=laws.delta, group=group, curve=curve
    )


def sum_draws(laws: LatticeLaws, counters: int, *, group: int, curve: Curve) -> DrawList:
    """Return the draws of sums of post-processed sketches.

    A record moves one value by at most k units, and at most k - 1 other values by 1 unit.
    """
    noise = _count_noise(laws.noise, grid=laws.unit)
    facts = {
        "sketches": laws.sketches,
        "counters": counters,
        "theta": laws.theta,
        "noise": noise,
    }
    return DrawList(
        kind="sums", draws=(noise,), facts=facts, delta=laws.delta, group=group, curve=curve
    )


def universe_draws(laws: PureLaws, *, group: int, curve: Curve) -> DrawList:
    """Return the draws of a public list of keys, each with unbounded noise."""
    law = UnboundedNoise(laws.scale)
    count = _count_noise(law, grid=laws.unit, moves=laws.move.absolute)
    return counts_game([count], delta=0.0, group=group, curve=curve)


def sketch_draws(
    laws: SketchLaws,
    sketches: int,
    *,
    standard: int | None,
    by_level: bool = False,
    group: int,
    curve: Curve,
) -> DrawList:
    """Return the draws of ``sketches`` sketches: noise in counts, and in the sketch error.

    ``standard`` is the number of counters of a sketch that removes zeros at once, else None.
    """
    noise = _count_noise(laws.noise, by_level=by_level)
    if by_level:
        applies_to = "added to the sketch error of each level"
        shared = Draw(law=laws.shared, label="error noise", applies_to=applies_to)
    else:
        shared = Draw(law=laws.shared, names=("sketch_error",))
    facts = {
        "sketches": sketches,
        "standard": standard,
        "theta": laws.theta,
        "noise": noise,
        "shared": shared,
    }
    return DrawList(
        kind="sketches",
        draws=(noise, shared),
        facts=facts,
        delta=laws.delta,
        group=group,
        curve=curve,
    )
