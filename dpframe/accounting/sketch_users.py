"""Users with several records: the sketch of users' sets, or group privacy on the plain sketch."""

from __future__ import annotations

import math
from functools import lru_cache

from dpframe.accounting.sketch_stream import SketchLaws, sketch_laws
from dpframe.accounting.sparse_gaussian import GshmLaws, gshm_laws
from dpframe.budget import Budget, per_record
from dpframe.errors import BudgetError


@lru_cache(maxsize=256)
def better_user_laws(
    *,
    counters: int,
    sketches: int,
    max_contributions: int,
    epsilon: float,
    delta: float,
) -> SketchLaws | GshmLaws:
    """Return the laws of the sketch that shows smaller counters for the same budget of a user.

    Parameters
    ----------
    counters
        Number k of counters of each sketch.
    sketches
        Number of levels; a user enters each.
    max_contributions
        Most distinct items of a user on each level.

    Returns
    -------
    GshmLaws
        For the sketch that decrements at most once a user (Lebeda and Tetek, Algorithm 4). A user
        moves at most k counters of a level by 1, in one direction, and noise is Gaussian.
    SketchLaws
        For the sketch that counts one record at a time. ``delta`` is for one record; the budget is
        for a group of ``max_contributions`` records.
    """
    aware = gshm_laws(changed=counters, sketches=sketches, epsilon=epsilon, delta=delta)
    if max_contributions * math.sqrt(sketches) > epsilon * aware.visible:
        return aware  # noise for the group alone would be wider
    record = per_record(Budget(epsilon=epsilon, delta=delta), max_contributions)
    try:
        plain = sketch_laws(sketches=sketches, epsilon=record.epsilon, delta=record.delta)
    except BudgetError:
        return aware
    return plain if (plain.visible, plain.sd) <= (aware.visible, aware.sd) else aware
