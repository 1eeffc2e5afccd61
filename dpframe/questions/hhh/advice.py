"""Advise on the mechanism: compare what two mechanisms would give for the same parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpframe.asking.card import Line, Text
from dpframe.budget import PrivacyUnit
from dpframe.errors import DpframeError
from dpframe.questions.hhh.items_unit import ItemsUnit
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.plan import make_plan
from dpframe.questions.hhh.rounds_plan import DEFAULT_ITEMS, plan_rounds
from dpframe.sketches import DEFAULT_COUNTERS

COMPARED = ("offline", "offline-gaussian", "streaming", "rounds")
"""Mechanisms whose plans get advice."""

NODE_BYTES = 120
"""Bytes that the offline mechanism takes for every distinct node, measured (docs/benchmarks.md)."""

COUNTER_BYTES = 290
"""Bytes that a counter of a sketch takes, with its key as text; measured."""


def advice(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return lines that compare error and memory of ``offline`` and ``streaming``; with ``user``,
    the lines of ``user_advice``. Empty if there is nothing to compare."""
    if plan.mechanism not in COMPARED or plan.unit.measured or plan.hierarchy.has_cells:
        return []
    if plan.unit.user is not None:
        return user_advice(plan)
    offline, streaming = _plan_as_mechanism(plan, "offline"), _plan_as_mechanism(plan, "streaming")
    if offline is None or streaming is None:
        return []
    counters = streaming.counters or 0
    megabytes = max(1, round(counters * plan.height * COUNTER_BYTES / 1e6))
    exact, sketched = offline.count_noise.sd, streaming.count_noise.sd
    return [
        Line.of(
            "offline",
            Text("nodes from {threshold} on, noise of sd {sd:.3g} a residual"),
            ("no other error; memory grows with the data, about {bytes} bytes a distinct node"),
            threshold=offline.threshold,
            sd=exact,
            bytes=NODE_BYTES,
        ),
        Line.of(
            "streaming",
            Text("nodes from {threshold} on, noise of sd {sd:.3g} a count"),
            (
                "and up to records / {counters} of sketch error; one pass in about {megabytes} "
                "MB, whatever the size of the data"
            ),
            threshold=streaming.threshold,
            sd=sketched,
            counters=counters + 1,
            megabytes=megabytes,
        ),
        Line(
            "advice",
            "offline",
            "exact counts whenever they fit in memory or on the disk that DuckDB spills to; "
            "streaming for more distinct nodes than that",
        ),
    ]


def user_advice(plan: HhhPlan[Any, Any]) -> list[Line]:
    """Return lines on what shares and rounds would find in one column, and with which error; empty
    for other questions of users."""
    user, kind = plan.unit.user, plan.unit.contribution
    if plan.height > 1 or user is None or kind == "records" or plan.counters is not None:
        return []
    asked = replace(plan.asked, threshold=None, release_share=None, at_most=None, remainder=False)
    try:
        shares = make_plan(
            hierarchy=plan.hierarchy,
            unit=PrivacyUnit(user=user),
            budget=plan.budget,
            remainder=False,
            confidence=plan.confidence,
        )
        unit = ItemsUnit(user=user, contribution="items", max_contributions=DEFAULT_ITEMS)
        rounds = plan_rounds(replace(asked, unit=unit, mechanism="rounds"))
    except DpframeError:
        return []
    one = rounds.laws.count.sigma / rounds.laws.count.norm
    return [
        Line.of(
            "by shares",
            _users_needed_text([shares.threshold * n for n in VALUES_PER_USER]),
            "whose counts add up, noise of sd {sd:.3g}: contribution='share'",
            sd=shares.count_noise.sd / shares.grid,
        ),
        Line.of(
            "by rounds",
            _users_needed_text(
                [rounds.laws.threshold / rounds.laws.weights * n**0.5 for n in VALUES_PER_USER]
            ),
            (
                "before what later rounds gain; of different users, noise of sd {sd:.3g} times "
                "the root of at_most: dp.heavy_hitters with user="
            ),
            sd=one,
        ),
        Line(
            "advice",
            "rounds where users have many values",
            "shares where all numbers shall add up, or where most users have one value",
        ),
    ]


VALUES_PER_USER = (1, 10, 100)
"""Numbers of values per user, for the examples in the lines."""


def _users_needed_text(users: Sequence[float]) -> str:
    some = ", ".join(str(math.ceil(n)) for n in users)
    return f"{some} users find a value, if each has {', '.join(map(str, VALUES_PER_USER))} values"


def _plan_as_mechanism(plan: HhhPlan[Any, Any], mechanism: str) -> HhhPlan[Any, Any] | None:
    """Return ``plan`` if it is of this mechanism, else the plan of ``mechanism`` at its smallest
    threshold; None if the mechanism refuses the arguments."""
    if plan.mechanism == mechanism:
        return plan
    try:
        return make_plan(
            hierarchy=plan.hierarchy,
            unit=plan.unit,
            budget=plan.budget,
            mechanism=mechanism,
            remainder=mechanism == "offline",
            confidence=plan.confidence,
            counters=DEFAULT_COUNTERS if mechanism == "streaming" else None,
        )
    except DpframeError:
        return None
