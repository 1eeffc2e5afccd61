"""Intervals of a rollup that are computed after it are those that it would have had."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpframe as dp
from dpframe.common.digest import seal_frame
from dpframe.postprocess.known_noise import BY_VALUE, PRECISE, _drawn_range, steps_to_floats
from dpframe.postprocess.weighted_laplace import mean_ends
from dpframe.questions.rollup import frame as rollup_frame
from dpframe.questions.rollup.ask import rollup
from dpframe.testing import seeded_noise
from tests.earlier_receipts import earlier_facts
from tests.members import often, some
from tests.releases import made_once

BY = ["country", "city", "shop"]
_rng = np.random.default_rng(4)
SALES = pd.DataFrame(
    {
        "country": _rng.choice(["FR", "IT", "ES", "DE"], 4000, p=[0.4, 0.3, 0.2, 0.1]),
        "city": _rng.choice(list("abcdefgh"), 4000),
        "shop": _rng.choice(list("xyz"), 4000, p=[0.6, 0.3, 0.1]),
        "who": _rng.integers(0, 1300, 4000),
        "paid": _rng.normal(20, 30, 4000),
    }
)
KEYS = SALES[BY].drop_duplicates()[:40]

RECORDS = {
    "n": "count",
    "paid": "sum(paid, 0, 50, clipped=true)",
    "net": "sum(paid, -30, 500)",
    "found": "sum(paid, auto, auto)",
    "thousands": "sum(paid, -1000000000000000, 1000000000000000)",
    "buyers": "distinct(who)",
}
USERS = {
    "paid": "sum(paid, -100, 400)",
    "shops": "distinct(shop, at_most=2)",
    "buyers": "distinct(who, at_most=2)",
}
SHOWN: dict[str, dict[str, Any]] = {
    "selected": {"delta": 1e-6, "measures": RECORDS},
    "listed": {"keys": KEYS, "measures": RECORDS},
    "users": {"delta": 1e-4, "user": "who", "measures": USERS},
    "flat": {"delta": 1e-6, "measures": RECORDS, "by": ["shop"]},
}
OF_USERS: dict[str, dict[str, Any]] = {
    "weighing 1": {"delta": 1e-4, "user": "who", "measures": {"n": "count"}},
    "cut": {
        "keys": KEYS,
        "user": "who",
        "measures": {"n": "count(at_most=3)", "s": "sum(paid, 0, 50, clipped=true)"},
    },
}


@made_once
def released(confidence: float, seed: int, asked: dict[str, Any]) -> pd.DataFrame:
    with seeded_noise(seed):
        return rollup(SALES, **{"by": BY, "epsilon": 12.0, **asked, "confidence": confidence})


@some("selected", "users")
@pytest.mark.parametrize("case", SHOWN)
def test_it_is_the_interval_that_the_rollup_would_have_had(case: str) -> None:
    """Law: with the same noise, a rollup at another confidence is the frame of ``intervals``, to
    the last bit and in whichever order rows are; so is the way back."""
    for seed, confidence in ((1, 0.5), (2, 0.999)):
        frame = released(0.95, seed, SHOWN[case])
        mixed = frame.sample(frac=1, random_state=seed)
        wanted = released(confidence, seed, SHOWN[case])
        assert (wanted != frame).to_numpy().any()
        other = frame.dp.intervals(confidence)
        pd.testing.assert_frame_equal(other, wanted, check_exact=True)
        again = mixed.dp.intervals(confidence).sort_index()
        pd.testing.assert_frame_equal(again, wanted, check_exact=True)
        assert other.dp.receipt["confidence"] == confidence
        back = other.dp.intervals(0.95)
        pd.testing.assert_frame_equal(back, frame, check_exact=True)
        assert back.dp.receipt.to_dict() == frame.dp.receipt.to_dict()


def test_levels_were_measured_in_what_is_compared() -> None:
    """Law: of the trees above, one has variances that differ from node to node."""
    frame = released(0.95, 1, SHOWN["selected"])
    assert frame.dp.receipt["levels_measured"]
    assert (frame["net_upper"] - frame["net_lower"]).round(3).nunique() > 5


@often(1, 2, "seeds")
@pytest.mark.parametrize("case", OF_USERS)
def test_counts_of_users_have_at_most_one_more(case: str, seeds: int) -> None:
    """Law: where parts of users are not shown the interval of the release at that confidence is
    inside, at most one user is added at an end, whichever confidence the frame passed through."""
    for seed in range(seeds):
        frame = released(0.8, seed, OF_USERS[case])
        names = [n[:-6] for n in frame.columns if n.endswith("_lower")]
        pd.testing.assert_frame_equal(frame.dp.intervals(), frame)
        for confidence in (0.6, 0.99):
            wanted = released(confidence, seed, OF_USERS[case])
            other = frame.dp.intervals(confidence)
            for shown in (other, frame.dp.intervals(0.7).dp.intervals(confidence)):
                for name in names:
                    low = wanted[f"{name}_lower"] - shown[f"{name}_lower"]
                    high = shown[f"{name}_upper"] - wanted[f"{name}_upper"]
                    assert low.between(0, 1).all()
                    assert high.between(0, 1).all()
            pd.testing.assert_frame_equal(other.dp.intervals(confidence), other)


@often(48, 100)
@pytest.mark.parametrize(
    ("spec", "many", "epsilon", "shown_at", "g"),
    [("sum(x, 0, 10)", 6, 6.0, 0.8, 0.5), ("mean(x, 0, 10)", 4, 16.0, 0.95, 0.8)],
    ids=["sums", "means"],
)
def test_all_of_all_measures_hold_together_as_often_as_they_say(
    spec: str, many: int, epsilon: float, shown_at: float, g: float, runs: int
) -> None:
    """Law: all intervals of all measures hold at once with the confidence (level 1e-4); sums with a
    part for each row, and not for each row and measure, and means each for itself, do not."""
    table = pd.DataFrame({"a": np.repeat(list("uvwxyz"), 50), "x": np.tile([1.0, 4.0], 150)})
    measures = {f"m{i}": spec for i in range(many)}
    asked: dict[str, Any] = {"by": ["a"], "epsilon": epsilon, "keys": list("uvwxyz")}
    together, planted = 0, 0
    for seed in range(runs):
        with seeded_noise(seed):
            frame = rollup(table, measures=measures, confidence=shown_at, **asked)
        real = ~frame["prefix"].str.contains("<").to_numpy()
        if spec.startswith("sum"):
            truth = np.where(real, np.where(frame["level"] == 0, 750.0, 125.0), 0.0)
            alone = 1 - (1 - g) / len(frame)
        else:
            truth, alone = np.where(real, 2.5, np.nan), g
        for shown, right in (
            (frame.dp.intervals(g, simultaneous=True), True),
            (frame.dp.intervals(alone), False),
        ):
            held = not any(
                (shown[f"{m}_lower"] > truth).any() or (shown[f"{m}_upper"] < truth).any()
                for m in measures
            )
            together, planted = together + (held and right), planted + (held and not right)
    fewest = int(binom.ppf(1e-4, runs, g))
    assert planted < fewest <= together


def test_intervals_of_a_rollup_that_hold_together_say_so() -> None:
    """Law: Bonferroni over rows, chosen measures and what was cut; the way back is exact."""
    frame = released(0.95, 1, SHOWN["selected"])
    wide = frame.dp.intervals(0.9, simultaneous=True)
    many = len(frame) * (len(RECORDS) + 1)
    said = wide.dp.receipt["simultaneous"]
    assert said == {"intervals": many, "each": 1 - 0.1 / many}
    pd.testing.assert_frame_equal(wide, released(said["each"], 1, SHOWN["selected"]))
    assert f"confidence 0.9, all {many} together" in str(wide.dp.receipt)
    assert wide.dp.share(measure="net").attrs["dp_share"]["how"] == "together"
    pd.testing.assert_frame_equal(wide.dp.intervals(0.95), frame)
    few = frame.dp.intervals(0.9, simultaneous=True, measures=["n"])
    assert few.dp.receipt["simultaneous"]["intervals"] == len(frame)


def test_measures_can_be_chosen() -> None:
    """Law: chosen measures have their own columns alone; the receipt says what was left out."""
    measures = {**RECORDS, "each": "mean(paid, 0, 50)"}
    frame = released(0.95, 1, {"delta": 1e-6, "measures": measures})
    wanted = released(0.9, 1, {"delta": 1e-6, "measures": measures})
    chosen = frame.dp.intervals(0.9, measures=["paid", "n"])
    assert chosen.columns.tolist() == frame.columns[: 5 + 3 + 6].tolist()
    pd.testing.assert_frame_equal(chosen, wanted[chosen.columns])
    receipt = chosen.dp.receipt
    assert list(receipt["measures"]) == ["n", "paid"]
    known = frame.dp.receipt["measures"]
    left = {name: known[name] for name in known if name not in ("n", "paid")}
    assert receipt["measures_left_out"] == left
    assert "without columns of net, found, thousands, buyers, each" in str(receipt)
    assert "frame" not in receipt
    assert chosen.dp.top(1, by="paid")["paid"].iloc[0] == frame[frame["level"] > 0]["paid"].max()
    with pytest.raises(dp.ParameterError, match="must be one of this release: n, paid"):
        chosen.dp.share(measure="net")
    once = chosen.dp.intervals(0.95, measures="n")
    pd.testing.assert_frame_equal(once, frame[once.columns])
    assert list(once.dp.receipt["measures_left_out"]) == [*left, "paid"]
    assert "without columns of" in str(once.dp.receipt)
    with pytest.raises(dp.ParameterError, match="must be one of this release"):
        frame.dp.intervals(0.9, measures=["all"])
    for wrong in ([], 3, [3], [None], ["n", "n"]):
        with pytest.raises((dp.ParameterError, dp.ParameterTypeError), match="measure"):
            frame.dp.intervals(0.9, measures=wrong)
    counts = SALES.dp.hhh(BY, epsilon=1.0, delta=1e-6)
    with pytest.raises(dp.ParameterError, match=r"measures .*rollups"):
        counts.dp.intervals(0.9, measures=["count"])


def test_what_a_receipt_of_a_rollup_does_not_tell_is_refused() -> None:
    """Law: receipts without the noise, frames that are not whole, and intervals that are not of the
    noise that is told make no new ones; of the first, shares are those of the shown ends."""
    frame = released(0.95, 1, SHOWN["selected"])
    with pytest.raises(dp.ParameterError, match="all rows"):
        frame.head(5).dp.intervals(0.9)
    facts: dict[str, Any] = frame.dp.receipt.to_dict()
    for name in facts["measures"]:
        wrong = copy.deepcopy(facts)
        own = wrong["measures"][name]["noise"][0]
        if "law" in own:
            own["law"] = {**earlier_facts(own["law"]), "sd": 1.5 * own["law"]["sd"]}
        else:
            own["scales"]["parts"] *= 1.5
        with pytest.raises(dp.ParameterError, match=f"of '{name}' are not those of the noise"):
            seal_frame(frame.copy(), wrong).dp.intervals(0.9)
    for said in facts["measures"].values():
        del said["noise"]
    old = seal_frame(frame.copy(), facts)
    with pytest.raises(dp.ParameterError, match=r"older versions.*confidence= when you release"):
        old.dp.intervals(0.9)
    known, shown = (one.dp.share(measure="net").attrs["dp_share"] for one in (frame, old))
    assert (known["how"], known["confidence"]) == ("widened", 0.95)
    assert (shown["how"], shown["confidence"]) == ("as shown", 0.9)


def test_shares_of_a_rollup_are_of_wider_intervals() -> None:
    """Law: ends of a share are quotients of those that the rollup at half the risk shows."""
    frame = released(0.9, 1, SHOWN["selected"])
    wide = released(0.95, 1, SHOWN["selected"])
    top, root = (frame["level"] == 1).to_numpy(), wide[wide["level"] == 0].iloc[0]
    for name in ("n", "paid", "buyers"):
        share = frame.dp.share(measure=name)
        assert share.attrs["dp_share"]["how"] == "widened"
        upper = wide[f"{name}_upper"][top] / root[f"{name}_lower"]
        lower = wide[f"{name}_lower"][top] / root[f"{name}_upper"]
        assert np.allclose(share["share_upper"][top], upper.clip(upper=1.0))
        assert np.allclose(share["share_lower"][top], lower.clip(lower=0.0))


@pytest.mark.parametrize("decimals", [8, 0, -3])
def test_a_sum_tells_its_steps(decimals: int) -> None:
    """Law: steps are within what a float64 tells, and told where few; without doubt, missed."""
    rng, missed = np.random.default_rng(1), 0
    for digits in (3, 12, 15, 18, 25):
        steps = np.array([int(x * 10**digits) + int(y) for x, y in rng.random((50, 2)) * (2, 1e3)])
        steps = np.array([int(s) for s in steps.tolist()] + [-int(steps[0])], dtype=object)
        low, high = _drawn_range(steps_to_floats(steps, decimals), 1, decimals)
        assert ((low <= steps) & (steps <= high)).all()
        few = np.abs(steps) < PRECISE // 2
        assert (low == high)[few].all()
        missed += int(((low + high) // 2 != steps).sum())
    assert missed > 0


def test_the_noise_that_is_told_is_public() -> None:
    """Law: with listed keys the noise in receipts of any two tables is the same, and its scales
    are those that the epsilons of measures pay for."""
    several = {name: spec for name, spec in RECORDS.items() if name != "found"}
    asked = {**SHOWN["listed"], "measures": several}
    facts = released(0.95, 1, asked).dp.receipt["measures"]
    with seeded_noise(2):
        other = rollup(SALES.head(10), BY, epsilon=12.0, **asked).dp.receipt["measures"]
    assert json.dumps(facts) == json.dumps(other)
    scales = facts["n"]["noise"][0]["scales"]
    spent = sum(1 / Fraction(scale) for scale in scales.values())
    assert 0.99 * facts["n"]["epsilon"] < spent <= facts["n"]["epsilon"]


def test_steps_are_divided_once_whatever_their_size() -> None:
    """Law: the nearest float64 of the quotient, as Python divides whole numbers of any size."""
    near = [2**52 - 1, 2**52, 2**52 + 1, 2**53 + 1, 10**15 + 7, 10**22 + 1, 10**37 + 3]
    steps = np.array([0, 1, -1, 3, 7, *near, *(-s for s in near)], dtype=object)
    for decimals in (0, 1, 6, 10, 22, 23, 40):
        wanted = [float(Fraction(s, 10**decimals)) for s in steps]
        assert steps_to_floats(steps, decimals).tolist() == wanted
    assert steps_to_floats(steps, -3).tolist() == [float(1000 * s) for s in steps]
    assert steps_to_floats(steps[:0], 6).shape == (0,)
    plain = steps.astype(np.float64) / 10.0**6  # what is not enough: large steps are rounded twice
    assert plain.tolist() != [float(Fraction(s, 10**6)) for s in steps]


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


def released_means(confidence: float, seed: int, case: str, **more: Any) -> pd.DataFrame:
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
def test_means_have_the_interval_that_the_rollup_would_have_had(case: str, seeds: int) -> None:
    """Law: where an end tells the noise, the interval of a rollup with the same noise at another
    confidence, to the rounding of float64, but for few rows whose only end is where the factor
    changes: these are a little wider. Elsewhere one that has it inside, if it says anything. Never
    one narrower, whichever confidence the frame passed through."""
    some, wider = 0, 0
    for seed in range(1, seeds + 1):
        frame = released_means(0.95, seed, case)
        for confidence in (0.5, 0.999999):
            wanted = released_means(confidence, seed, case)
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
    frame, wanted = (
        released_means(confidence, 1, "listed", epsilon=2.0) for confidence in (0.8, 0.999)
    )
    ratio = 4.3  # that of one Laplace noise, ln(1000) / ln(5), and above that of any sum of some
    up = frame["each"] + ratio * (frame["each_upper"] - frame["each"])
    assert (up.clip(upper=50) < wanted["each_upper"] - 1e-6).any()


def test_intervals_that_are_not_of_a_mean_are_refused() -> None:
    """Law: shown ends that no noise gives to a quotient between these bounds make no new ones."""
    frame = released_means(0.95, 1, "listed")
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
    newer = released_means(0.9, 1, "listed")

    def one_factor(own: Any, t: Any, largest: Any, confidence: float, **rest: Any) -> Any:
        return mean_ends(own, t, None, confidence, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(rollup_frame, "mean_ends", one_factor)
        older, wanted = (released_means(confidence, 1, "listed") for confidence in (0.9, 0.8))
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
