"""Intervals of means that are computed after a rollup are those that it would have had."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.common.digest import seal_frame
from dpframe.postprocess.known_noise import BY_VALUE
from dpframe.postprocess.weighted_laplace import mean_ends
from dpframe.questions.rollup import frame as rollup_frame
from dpframe.questions.rollup.ask import rollup
from dpframe.testing import seeded_noise
from tests.members import often, some
from tests.unit.postprocess.test_rollup_noise import BY, KEYS, SALES

MEASURES = {
    "each": "mean(paid, 0, 50)",
    "far": "mean(paid, 1000, 1200.5)",
    "wide": "mean(paid, -1000000, 10)",
    "found": "mean(paid, auto, auto)",
    "n": "count",
}
MEANS = [name for name in MEASURES if name != "n"]
CASES: dict[str, dict[str, Any]] = {
    "selected": {"delta": 1e-6, "measures": MEASURES, "epsilon": 40.0},
    "listed": {"keys": KEYS[:15], "measures": MEASURES, "epsilon": 6.0},
    "users": {"delta": 1e-4, "user": "who", "measures": MEASURES, "epsilon": 40.0},
    "noisy": {"keys": KEYS[:15], "measures": MEASURES, "epsilon": 0.2},
}


def released(confidence: float, seed: int, case: str, **more: Any) -> pd.DataFrame:
    with seeded_noise(seed):
        return rollup(SALES, **{"by": BY, **CASES[case], "confidence": confidence, **more})


def told_rows(frame: pd.DataFrame, name: str) -> Any:
    """Rows with a mean inside of its bounds and an end that is no bound."""
    facts = frame.dp.receipt["measures"][name]
    inner = frame[[name, f"{name}_lower", f"{name}_upper"]]
    strictly = (inner > facts["lower"]) & (inner < facts["upper"])
    return strictly[name] & strictly.iloc[:, 1:].any(axis=1)


@some("selected-1", "users-1")
@often(1, 3, "seeds")
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_interval_that_the_rollup_would_have_had(case: str, seeds: int) -> None:
    """Law: where an end tells the noise, the interval of a rollup with the same noise at another
    confidence, to the rounding of float64, but for few rows whose only end is where the factor
    changes: these are a little wider. Elsewhere one that has it inside, if it says anything. Never
    one narrower, whichever confidence the frame passed through."""
    some, wider = 0, 0
    for seed in range(1, seeds + 1):
        frame = released(0.95, seed, case)
        for confidence in (0.5, 0.999999):
            wanted = released(confidence, seed, case)
            other = frame.dp.intervals(confidence, measures=MEANS)
            for shown in (other, frame.dp.intervals(0.97, measures=MEANS).dp.intervals(confidence)):
                for name in MEANS:
                    low, high = shown[f"{name}_lower"], shown[f"{name}_upper"]
                    nothing = wanted[name].isna()
                    doubt = 1e-11 * max(map(abs, low))
                    assert ((low <= wanted[f"{name}_lower"] + doubt) | nothing).all()
                    assert ((wanted[f"{name}_upper"] - doubt <= high) | nothing).all()
                    assert ((low <= shown[name]) & (shown[name] <= high) | shown[name].isna()).all()
            for name in MEANS:
                sure = told_rows(frame, name)
                some += int(sure.sum())
                width = (wanted[f"{name}_upper"] - wanted[f"{name}_lower"])[sure]
                for end in ("lower", "upper"):
                    here, there = (one[f"{name}_{end}"][sure] for one in (other, wanted))
                    doubt = 1e-11 * max(map(abs, wanted[f"{name}_lower"]))
                    wider += int((~np.isclose(here, there, rtol=1e-11, atol=doubt)).sum())
                    assert ((here - there).abs() <= 0.02 * width + doubt).all()
            assert other.dp.receipt["confidence"] == confidence
        pd.testing.assert_frame_equal(frame.dp.intervals(), frame)
    assert some > (10 if case != "noisy" else 0)
    assert wider <= 0.02 * some


def test_the_number_of_a_mean_is_not_needed_but_its_law_is() -> None:
    """Law: half widths in proportion to the factor, as if the quotient were linear, are too narrow
    somewhere: the interval of a quotient is not symmetric."""
    frame, wanted = (released(confidence, 1, "listed", epsilon=2.0) for confidence in (0.8, 0.999))
    ratio = 4.3  # that of one Laplace noise, ln(1000) / ln(5), and above that of any sum of some
    up = frame["each"] + ratio * (frame["each_upper"] - frame["each"])
    assert (up.clip(upper=50) < wanted["each_upper"] - 1e-6).any()


def test_intervals_that_are_not_of_a_mean_are_refused() -> None:
    """Law: shown ends that no noise gives to a quotient between these bounds make no new ones."""
    frame = released(0.95, 1, "listed")
    facts: dict[str, Any] = frame.dp.receipt.to_dict()
    for bounds in ({"upper": 60.0}, {"lower": -1.0}, {"upper": 40.0}):
        wrong = copy.deepcopy(facts)
        wrong["measures"]["each"] |= bounds
        with pytest.raises(dp.ParameterError, match="of 'each' are not those of a mean"):
            seal_frame(frame.copy(), wrong).dp.intervals(0.9)
    with pytest.raises(dp.ParameterError, match="all rows"):
        frame.head(3).dp.intervals(0.9, measures="each")


@pytest.mark.parametrize("told", [True, False], ids=["with noise", "without"])
def test_intervals_of_older_versions_are_read_with_their_own_factor(
    monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """Law: means whose receipt does not say how their intervals were made have one factor for every
    mixture, so others are told from them by that one. Planted bug: with the newer law they are
    refused, and so are newer ones with the older law."""
    newer = released(0.9, 1, "listed")

    def one_factor(own: Any, t: Any, largest: Any, confidence: float, **rest: Any) -> Any:
        return mean_ends(own, t, None, confidence, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(rollup_frame, "mean_ends", one_factor)
        older, wanted = (released(confidence, 1, "listed") for confidence in (0.9, 0.8))
    facts: dict[str, Any] = older.dp.receipt.to_dict()
    bare = copy.deepcopy(facts)
    for said in (bare["measures"][name] for name in MEANS):
        said["noise"] = [
            {key: value for key, value in one.items() if key not in BY_VALUE}
            for one in said.pop("noise")
        ]
        if not told:
            del said["noise"]
    found = seal_frame(older.copy(), bare).dp.intervals(0.8, measures=MEANS)
    for name in MEANS:
        sure = told_rows(older, name)
        for end in ("lower", "upper"):
            near = np.isclose(found[f"{name}_{end}"], wanted[f"{name}_{end}"], rtol=1e-9)
            assert near[sure].all()
    assert told_rows(older, "each").sum() > 5
    for frame, receipt in ((older, facts), (newer, bare)):
        with pytest.raises(dp.ParameterError, match="are not those of a mean"):
            seal_frame(frame.copy(), {**receipt, "frame": None}).dp.intervals(0.8, measures="each")
