"""Which mechanism to take: what the other one would give for the same parameters."""

from __future__ import annotations

from typing import Any

from dpframe.asking.quantities import Quantity
from dpframe.errors import DpframeError
from dpframe.questions.hhh.base import HhhPlan
from dpframe.questions.hhh.plan import make_plan
from dpframe.sketches import DEFAULT_COUNTERS

NODE_BYTES = 120
"""Memory of the offline mechanism for every distinct node, measured (docs/benchmarks.md)."""

COUNTER_BYTES = 290
"""Memory of a counter of a sketch with its key as text, measured."""


def advice(plan: HhhPlan[Any, Any]) -> list[Quantity]:
    """Error and memory of the offline and the streaming mechanism, and which one to take."""
    if plan.unit.user is not None or plan.unit.measured:
        return []
    offline, streaming = _as(plan, "offline"), _as(plan, "streaming")
    if offline is None or streaming is None:
        return []
    counters = streaming.counters or 0
    megabytes = max(1, round(counters * plan.height * COUNTER_BYTES / 1e6))
    exact, sketched = offline.count_noise.sd, streaming.count_noise.sd
    return [
        Quantity(
            "offline",
            f"nodes from {offline.threshold} on, noise of sd {exact:.3g} a residual",
            f"no other error; memory grows with the data, about {NODE_BYTES} bytes a distinct node",
        ),
        Quantity(
            "streaming",
            f"nodes from {streaming.threshold} on, noise of sd {sketched:.3g} a count",
            f"and up to records / {counters + 1} of sketch error; one pass in about "
            f"{megabytes} MB, whatever the size of the data",
        ),
        Quantity(
            "advice",
            "offline",
            "exact counts whenever they fit in memory or on the disk that DuckDB spills to; "
            "streaming for more distinct nodes than that",
        ),
    ]


def _as(plan: HhhPlan[Any, Any], mechanism: str) -> HhhPlan[Any, Any] | None:
    """The plan with another mechanism at its own smallest threshold; None if there is none."""
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
