"""What the release of sketches draws."""

from __future__ import annotations

from dpframe.accounting.sketch_lattice import LatticeLaws
from dpframe.accounting.sketch_pure import PureLaws
from dpframe.accounting.sketch_stream import SketchLaws
from dpframe.accounting.sparse_gaussian import GshmLaws
from dpframe.asking.draws import Curve, Draw, DrawList, counts_game
from dpframe.noise import UnboundedNoise


def merged_draws(
    laws: GshmLaws,
    *,
    names: tuple[str, ...] = ("count",),
    label: str = "noise",
    group: int,
    curve: Curve | None = None,
) -> DrawList:
    """Return the draws of counts that move in one direction; whole users need no group."""
    noise = Draw(law=laws.noise, names=names, label=label, applies_to="in every count")
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
    """Return the draws of sums of post-processed sketches: one value moves by k, others by 1."""
    noise = Draw(
        law=laws.noise,
        names=("count",),
        label="noise",
        applies_to="in every count",
        grid=laws.unit,
    )
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
    count = Draw(
        law=UnboundedNoise(laws.scale),
        names=("count",),
        label="noise",
        applies_to="in every count",
        grid=laws.unit,
        moves=laws.move.absolute,
    )
    return counts_game([count], delta=0.0, group=group, curve=curve)


def sketch_draws(
    laws: SketchLaws,
    sketches: int,
    *,
    standard: int | None,
    names: tuple[tuple[str, ...], tuple[str, ...]] = (("count",), ("sketch_error",)),
    labels: tuple[str, str] = ("noise", ""),
    group: int,
    curve: Curve,
) -> DrawList:
    """Return the draws of ``sketches`` sketches: noise in counts, and in the sketch error.

    ``standard`` is the number of counters of a sketch that removes zeros at once, else None.
    """
    noise = Draw(law=laws.noise, names=names[0], label=labels[0], applies_to="in every count")
    shared = Draw(
        law=laws.shared,
        names=names[1],
        label=labels[1],
        applies_to="added to the sketch error of each level",
    )
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
