"""Intervals that are computed after a release are those that it would have had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpframe as dp
from dpframe.noise import (
    NoiseTable,
    UnboundedNoise,
    gaussian_table,
    halves,
    laplace_gaussian_table,
    laplace_table,
    law_facts,
)
from dpframe.postprocess.joint_noise import half_width, law_by_spread
from dpframe.postprocess.known_noise import number_law
from dpframe.testing import seeded_noise
from tests.earlier_receipts import earlier_facts, earlier_frame
from tests.members import often, some
from tests.releases import made_once

STORED = Path(__file__).resolve().parents[2] / "golden" / "answers.json"
BY = ["origin", "dest"]
TRIPS = pd.DataFrame(
    {
        "origin": np.repeat(["JFK", "LGA", "EWR"], 700),
        "dest": np.tile(["LAX"] * 4 + ["SFO"] * 2 + ["ORD"], 300),
        "who": np.arange(2100) // 3,
        "paid": np.arange(2100) % 11 / 7,
    }
)
KEYS = [("JFK", "LAX"), ("JFK", "SFO"), ("LGA", "ORD"), ("SWF", "ORD")]

EXACT: dict[str, dict[str, Any]] = {
    "offline": {"delta": 1e-6},
    "no remainder": {"delta": 1e-6, "remainder": False},
    "paper": {"delta": 1e-6, "epsilon": 4.0, "mechanism": "paper", "remainder": False,
              "acknowledge": True},
    "laplace": {"delta": 1e-6, "mechanism": "laplace"},
    "gaussian": {"delta": 1e-6, "mechanism": "gaussian"},
    "sampled users": {"delta": 1e-6, "user": "who", "contribution": "records",
                      "max_contributions": 2},
    "listed": {"keys": KEYS, "consistent": False},
    "listed, gaussian": {"keys": KEYS, "delta": 1e-6, "mechanism": "gaussian", "consistent": False},
    "measure": {"delta": 1e-6, "weight": "who", "max_weight": 700.0},
    "measure of users": {"delta": 1e-6, "weight": "paid", "max_weight": 0.3, "user": "who"},
    "listed, between": {"keys": KEYS, "delta": 1e-3, "consistent": False},
}  # fmt: skip
WIDER: dict[str, dict[str, Any]] = {
    "shares of users": {"delta": 1e-6, "user": "who", "contribution": "share"},
    "adding up": {"keys": KEYS},
    "adding up, users": {"keys": KEYS, "user": "who"},
}


@made_once
def released(confidence: float, seed: int, arguments: dict[str, Any]) -> pd.DataFrame:
    asked = {"epsilon": 1.0, **arguments, "confidence": confidence}
    with seeded_noise(seed):
        return TRIPS.dp.tree_counts(BY, **asked) if "keys" in asked else TRIPS.dp.hhh(BY, **asked)


@some("offline", "sampled users", "listed, between")
@pytest.mark.parametrize("case", EXACT)
def test_it_is_the_interval_that_the_release_would_have_had(case: str) -> None:
    """Law: with the same noise, a release at another confidence is the frame of ``intervals``."""
    frame = released(0.95, 1, EXACT[case])
    for confidence in (0.5, 0.8, 0.999):
        other = frame.dp.intervals(confidence)
        pd.testing.assert_frame_equal(other, released(confidence, 1, EXACT[case]))
        assert other.dp.receipt["confidence"] == confidence
        back = other.dp.intervals(0.95)
        pd.testing.assert_frame_equal(back, frame)
        assert back.dp.receipt.to_dict() == frame.dp.receipt.to_dict()


NOISY = {"noisy": {"keys": KEYS, "epsilon": 0.02}}
NOISY["noisy, users"] = {**NOISY["noisy"], "user": "who"}
PATHS = [(), (0.6,), (0.99, 0.8), (0.6, 0.7)]


@some("()-shares of users-1", "()-adding up, users-1", "(0.6,)-shares of users-1",
      "(0.6,)-noisy-1", "(0.99, 0.8)-shares of users-1", "(0.6, 0.7)-noisy, users-1")  # fmt: skip
@often(1, 3, "seeds")
@pytest.mark.parametrize("case", [*WIDER, *NOISY])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_it_holds_the_interval_of_the_release(
    path: tuple[float, ...], case: str, seeds: int
) -> None:
    """Law: the interval of the release at that confidence is inside of it, through any other
    confidences, and cut at 0 or at the shown count on the way; where nothing was adjusted at most
    one record is added at an end, and intervals asked for what they are stay."""
    asked = {**WIDER, **NOISY}[case]
    for seed in range(seeds):
        frame = released(0.8, seed, asked)
        for between in path:
            frame = frame.dp.intervals(between)
            if "keys" not in asked:
                pd.testing.assert_frame_equal(frame.dp.intervals(between), frame)
        for confidence in (0.55, 0.8, 0.99):
            other, wanted = frame.dp.intervals(confidence), released(confidence, seed, asked)
            low, high = wanted["lower"] - other["lower"], other["upper"] - wanted["upper"]
            assert (low >= 0).all()
            assert (high >= 0).all()
            if "keys" not in asked:
                assert max(low.max(), high.max()) <= 1


@often(20, 60)
def test_all_together_hold_as_often_as_they_say(runs: int) -> None:
    """Law: all hold at once with the confidence (level 1e-4); each on its own, they do not."""
    table = pd.DataFrame({"a": np.repeat([f"a{i}" for i in range(12)], 200)})
    together, alone = 0, 0
    for seed in range(runs):
        with seeded_noise(seed):
            frame = table.dp.hhh(["a"], epsilon=1.0, delta=1e-6, confidence=0.8)
        assert len(frame) == 13
        truth = np.where(frame["level"] == 0, len(table), 200)
        for simultaneous in (True, False):
            shown = frame.dp.intervals(simultaneous=simultaneous)
            held = bool(((shown["lower"] <= truth) & (truth <= shown["upper"])).all())
            together, alone = together + held * simultaneous, alone + held * (not simultaneous)
    fewest = int(binom.ppf(1e-4, runs, 0.8))
    assert alone < fewest <= together


def test_intervals_that_hold_together_say_so() -> None:
    """Law: Bonferroni over the rows, which receipt and card say; the way back is exact."""
    frame = released(0.95, 1, EXACT["offline"])
    wide = frame.dp.intervals(0.9, simultaneous=True)
    each = 1 - 0.1 / len(frame)
    assert wide.dp.receipt["simultaneous"] == {"intervals": len(frame), "each": each}
    pd.testing.assert_frame_equal(wide, released(each, 1, EXACT["offline"]))
    assert f"confidence 0.9, all {len(frame)} together" in str(wide.dp.receipt)
    said = wide.dp.share().attrs["dp_share"]
    assert (said["how"], said["confidence"]) == ("together", 0.9)
    pd.testing.assert_frame_equal(wide.dp.intervals(0.95), frame)
    assert "frame" not in wide.dp.receipt


LAWS = [
    laplace_table(0.3, 9),
    laplace_table(4.0, 60),
    laplace_table(2.5 * 2**8, 40 * 2**8),
    laplace_table(50.0, 60),
    gaussian_table(0.7, 6),
    gaussian_table(30.0, 200),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.family} {law.sd:.3g}")
def test_a_receipt_tells_a_law(law: NoiseTable) -> None:
    """Law: family, spread and bound, through JSON and on a grid, give widths back, to the unit."""
    for grid in (1, 1024):
        facts = json.loads(json.dumps(law_facts(law, grid)))
        exact, found = number_law(facts), number_law(earlier_facts(facts))
        assert isinstance(exact, NoiseTable)
        assert isinstance(found, NoiseTable)
        assert exact.weights.tolist() == law.weights.tolist()
        for terms in (1, 2, 7):
            for confidence in (0.5, 0.95, 0.999999):
                wanted = half_width(law, terms, confidence)
                assert half_width(found, terms, confidence) == wanted


def test_laws_without_bounds_are_told_too() -> None:
    """Law: the scale follows from the spread; a law of two parameters is not guessed at."""
    from fractions import Fraction

    for scale in (Fraction(1, 5), Fraction(7, 3), Fraction(10**6)):
        law = UnboundedNoise(scale)
        assert number_law(law_facts(law, 1)) == law
        found = number_law(earlier_facts(law_facts(law, 1)))
        assert isinstance(found, UnboundedNoise)
        assert abs(float(found.scale) / float(scale) - 1) < 1e-12
        for confidence in (0.5, 0.95, 0.999999):
            assert found.half_width(confidence) == law.half_width(confidence)
    with pytest.raises(dp.ParameterError, match="when you release"):
        number_law(earlier_facts(law_facts(laplace_gaussian_table(4.0, 9.0, 50), 1)))


def test_numbers_have_symmetric_noise() -> None:
    """Law: half widths are those of symmetric laws; a receipt of another one is refused."""
    skewed = halves(left=("geometric", 3.0, 20), right=("geometric", 1.0, 6), recentre=False)
    with pytest.raises(dp.ParameterError, match="not symmetric"):
        number_law(law_facts(skewed, 1))


BY_BOTH_ENDS = {case for case in (*EXACT, *WIDER) if case.startswith(("listed", "adding"))}
BY_BOTH_ENDS |= {"laplace", "gaussian"}


@some("offline", "sampled users", "adding up, users")
@pytest.mark.parametrize("case", [*EXACT, *WIDER])
def test_receipts_of_earlier_versions_answer_the_same(case: str) -> None:
    """Law: where family, spread and ends tell the law, intervals and shares are the same; where
    they do not, the error says what to do, and shares are made of what is shown."""
    frame = released(0.95, 1, {**EXACT, **WIDER}[case])
    earlier = earlier_frame(frame)
    how = frame.dp.share().attrs["dp_share"]["how"]
    assert how == ("widened" if case in BY_BOTH_ENDS else "parts")
    if case in ("listed, between", "measure", "measure of users"):
        with pytest.raises(dp.ParameterError, match=r"earlier version.*when you release"):
            earlier.dp.intervals(0.8)
        assert earlier.dp.share().attrs["dp_share"]["how"] == "as shown"
        return
    for confidence in (0.6, 0.999):
        pd.testing.assert_frame_equal(
            frame.dp.intervals(confidence), earlier.dp.intervals(confidence)
        )
    pd.testing.assert_frame_equal(frame.dp.share(), earlier.dp.share())


def test_old_receipts_tell_enough() -> None:
    """Law: the noise of counts in every stored receipt of heavy hitters is one that is known."""
    text = STORED.read_text("utf-8")
    facts = _releases(json.loads(text))
    assert len(facts) >= 3
    for fact in facts:
        law = law_by_spread(fact)
        assert abs(law.sd / (fact["sd"] * fact["grid"]) - 1) < 1e-11


def _releases(value: Any) -> list[dict[str, Any]]:
    """What is under ``noise.release`` of exact counts, anywhere below."""
    if isinstance(value, str) and '"noise"' in value:
        return _releases(json.loads(value))
    if isinstance(value, list):
        return [fact for item in value for fact in _releases(item)]
    if not isinstance(value, dict):
        return []
    own = value.get("noise")
    found = []
    if isinstance(own, dict) and "release" in own and value.get("mechanism") == "offline":
        found = [own["release"]]
    return found + [fact for item in value.values() for fact in _releases(item)]


def test_what_a_receipt_does_not_tell_is_refused() -> None:
    """Law: where law, rows or selection forbid an interval, what to do is said."""
    frame = released(0.95, 1, EXACT["offline"])
    unknown = TRIPS.dp.tree_counts(BY, epsilon=1.0, delta=1e-6)
    stream = TRIPS.dp.hhh(BY, epsilon=1.0, delta=1e-6, mechanism="streaming", counters=20)
    weighed = earlier_frame(released(0.95, 1, EXACT["measure"]))
    assert weighed.dp.share().attrs["dp_share"]["how"] == "as shown"
    for other in (unknown, stream):
        with pytest.raises(dp.ParameterError, match="confidence= when you release"):
            other.dp.intervals(0.9)
    with pytest.raises(dp.ParameterError, match=r"earlier version.*when you release"):
        weighed.dp.intervals(0.9)
    with pytest.raises(dp.ParameterError, match="all rows"):
        frame.head(3).dp.intervals(0.9)
    with pytest.raises(dp.ParameterError, match="decided what is shown"):
        released(0.95, 1, EXACT["gaussian"]).dp.intervals(simultaneous=True)
    flat = TRIPS.dp.heavy_hitters("dest", k=2, epsilon=1.0, delta=1e-6)
    assert (flat.dp.intervals(0.99)["upper"] > flat["upper"]).all()
    with pytest.raises(dp.ParameterError, match="keeps the largest"):
        flat.dp.intervals(simultaneous=True)
    for wrong in (0.4, 1, "0.9", True):
        with pytest.raises((dp.ParameterError, dp.ParameterTypeError), match="confidence"):
            frame.dp.intervals(wrong)
    with pytest.raises(dp.ParameterTypeError, match="simultaneous"):
        frame.dp.intervals(0.9, simultaneous=1)
    facts = dict(frame.dp.receipt)
    facts["noise"] = {"release": {**facts["noise"]["release"], "sd": 9.0, "highest": 99.0}}
    facts["noise"]["release"]["lowest"] = -99.0
    frame.attrs["dp"] = facts
    with pytest.raises(dp.ParameterError, match=r"receipt has (sd|lowest|highest)"):
        frame.dp.intervals(0.9)
    with pytest.raises(dp.ParameterError, match="not those of the noise"):
        earlier_frame(frame).dp.intervals(0.9)
    facts["noise"] = {"release": law_facts(laplace_table(9.0, 99), 1)}
    frame.attrs["dp"] = facts
    with pytest.raises(dp.ParameterError, match="not those of the noise"):
        frame.dp.intervals(0.9)
