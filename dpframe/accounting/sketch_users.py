"""Users with several records: the sketch of users' sets, or group privacy on the plain sketch."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

from dpframe.accounting.sketch_stream import SketchLaws, sketch_laws
from dpframe.accounting.sparse_gaussian import GshmLaws, gshm_laws
from dpframe.budget import Budget, per_record
from dpframe.errors import BudgetError

UserSketch = Literal["privacy-aware", "plain"]


@lru_cache(maxsize=256)
def better_user_laws(
    *,
    counters: int,
    sketches: int,
    max_contributions: int,
    epsilon: float,
    delta: float,
    standard: bool = False,
) -> tuple[UserSketch, SketchLaws | GshmLaws]:
    """Return the sketch that shows smaller counters for the same budget of a user, and its laws.

    Parameters
    ----------
    counters
        Number k of counters of each sketch.
    sketches
        Number of levels; a user enters each.
    max_contributions
        Most distinct items of a user on each level.
    standard
        Whether the plain sketch removes zeros at once.

    Returns
    -------
    name
        ``"privacy-aware"``: the sketch decrements at most once a user (Lebeda and Tetek, Algorithm
        4). A user moves at most k counters of a level by 1, in one direction, and noise is
        Gaussian. ``"plain"``: the sketch counts one record at a time. The budget is for a group of
        ``max_contributions`` records.
    laws
        ``delta`` is for the whole user, or with the plain sketch for one record.
    """
    aware = gshm_laws(changed=counters, sketches=sketches, epsilon=epsilon, delta=delta)
    if max_contributions * math.sqrt(sketches) > epsilon * aware.visible:
        return "privacy-aware", aware  # noise for the group alone would be wider
    record = per_record(Budget(epsilon=epsilon, delta=delta), max_contributions)
    try:
        plain = sketch_laws(
            sketches=sketches,
            epsilon=record.epsilon,
            delta=record.delta,
            standard=standard,
            counters=counters,
        )
    except BudgetError:
        return "privacy-aware", aware
    if (plain.visible, plain.sd) <= (aware.visible, aware.sd):
        return "plain", plain
    return "privacy-aware", aware
