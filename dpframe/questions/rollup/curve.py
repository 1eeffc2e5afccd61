"""The parts of a rollup, each with what it keeps, so that all together have a curve."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from dpframe.accounting.compose import Profile
from dpframe.accounting.losses import Losses, losses_of
from dpframe.accounting.parts import losses_of_profile, pure
from dpframe.mechanisms.node_counts import NodeCounts

if TYPE_CHECKING:
    from dpframe.questions.rollup.plan import RollupPlan

MOST_COUNTS = 100
"""Counts of different values that one record or user moves, from which on they are one part."""


def parts(plan: RollupPlan, step: float) -> list[tuple[Losses, int]]:
    """The selection, every search, every vector or vectors that are moved together, and counts of
    different values. Each keeps its curve whatever the others answer; which levels are measured
    beside the parts follows from what is shown, so that a vector is one part with all of them."""
    found = [(losses_of_profile(profile, step), 1) for profile in _profiles(plan)]
    return found + [_counts(count, step) for count in plan.counts.values()]


def _profiles(plan: RollupPlan) -> Iterator[Profile]:
    if plan.selection is not None:
        yield plan.selection.profile
    for several in plan.paid.values():
        at = 0
        while at < len(several):
            yield _pure(several[at].epsilon)
            at += several[at].together
    for searching in plan.searching.values():
        yield from (_pure(searching.each) for _ in searching.searches)
        yield _pure(searching.rest)


def _counts(counts: NodeCounts, step: float) -> tuple[Losses, int]:
    distinct = counts.distinct
    if not distinct.singly or distinct.touched > MOST_COUNTS:
        whole = pure(float(counts.epsilon), counts.delta)
        return losses_of_profile(whole, step), 1
    if counts.scale is not None:
        return losses_of_profile(_pure(1 / counts.scale), step), distinct.touched
    assert counts.table is not None
    return losses_of(counts.table, step), distinct.touched


def _pure(epsilon: Fraction) -> Profile:
    return pure(float(epsilon))
