"""What ``explain`` says of the mechanism that was not asked for."""

from __future__ import annotations

from typing import Any

import pytest

import dpframe as dp

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def rows(**arguments: Any) -> dict[str, str]:
    frame = dp.explain("ip:src", **BUDGET, **arguments).to_frame()
    return dict(zip(frame["quantity"], frame["value"] + "; " + frame["meaning"], strict=True))


@pytest.mark.parametrize("mechanism", ["offline", "streaming"])
def test_either_mechanism_is_shown_beside_the_other(mechanism: str) -> None:
    """Thresholds and noise are those of the plans themselves; exact counts are recommended."""
    shown = rows(mechanism=mechanism)
    for other in ("offline", "streaming"):
        plan = dp.explain("ip:src", mechanism=other, **BUDGET).plan
        assert f"from {plan.threshold} on" in shown[other]
        assert f"sd {plan.count_noise.sd:.3g}" in shown[other]
    assert shown["advice"].startswith("offline; ")


def test_the_sketch_error_and_memory_follow_the_counters() -> None:
    few, many = (rows(mechanism="streaming", counters=n) for n in (500, 500_000))
    assert "records / 501 " in few["streaming"]
    assert "about 1 MB" in few["streaming"]
    assert "about 725 MB" in many["streaming"]  # 5 levels


def test_what_cannot_be_compared_gets_no_advice() -> None:
    assert "advice" not in rows(user="id")
    assert "advice" not in rows(mechanism="gaussian")
