"""Sentences on the release of a sketch, from its request."""

from __future__ import annotations

from dpframe.questions.sketches.sketch_request import SketchRequest

CHANCE = (
    "for a key fixed beforehand, the chance that it is published with an interval that misses "
    "the true count is at most one minus the confidence; given that a key near the threshold "
    "was published, the confidence is nominal"
)
"""The promise on the intervals of every release."""


def counts_move(asked: SketchRequest) -> str:
    """The sentence on how far whole counts move."""
    most = f"at most {asked.counters} counters by 1, all in one direction"
    return f"{_levels_prefix(asked)}one {asked.unit} moves {most}"


def lattice_moves(asked: SketchRequest) -> str:
    """The sentence on how far post-processed counts move."""
    k = asked.counters
    return (
        f"{_levels_prefix(asked)}one record moves the sum by at most {2 * k - 1}/{k + 1} (l1) and "
        f"sqrt({k * k + k - 1})/{k + 1} (l2), however many sketches are in it"
    )


def counts_meaning(asked: SketchRequest) -> str:
    """The meaning of the intervals where the release does not tell what the sketches lost."""
    if asked.records is None:
        return f"{CHANCE}. upper is missing: the number of records is private and was not declared"
    sketched = asked.records / (asked.counters + 1)
    return (
        f"{CHANCE}. lower allows for the noise, upper also for the sketch, which loses at most "
        f"{sketched:.6g} of a count if there were at most {asked.records} records"
    )


def _levels_prefix(asked: SketchRequest) -> str:
    return "" if asked.levels == 1 else f"on each of {asked.levels} levels "
