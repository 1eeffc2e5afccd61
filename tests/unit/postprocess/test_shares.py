"""Shares of released nodes are quotients whose intervals hold what both numbers allow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpframe as dp
from dpframe.common.digest import seal_frame
from dpframe.postprocess.shown_rows import ShareEnds, _share_quotients
from dpframe.questions.rollup.ask import rollup
from dpframe.testing import seeded_noise
from tests.members import some

TRIPS = pd.DataFrame(
    {
        "origin": ["JFK"] * 900 + ["LGA"] * 300,
        "dest": ["LAX"] * 600 + ["SFO"] * 300 + ["ORD"] * 300,
        "paid": [10.0, -2.0] * 600,
    }
)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
KEYS = [("JFK", "LAX"), ("JFK", "SFO"), ("LGA", "ORD")]


def released(confidence: float = 0.95, seed: int = 1, **arguments: Any) -> pd.DataFrame:
    with seeded_noise(seed):
        return TRIPS.dp.hhh(["origin", "dest"], **BUDGET, confidence=confidence, **arguments)


def listed(confidence: float = 0.95, seed: int = 1, **arguments: Any) -> pd.DataFrame:
    with seeded_noise(seed):
        return TRIPS.dp.tree_counts(
            ["origin", "dest"], epsilon=1.0, keys=KEYS, confidence=confidence, **arguments
        )


def wrong_end(found: ShareEnds) -> tuple[np.ndarray, np.ndarray]:
    """A planted bug: each end of one number over the same end of the other."""
    (a, b), (c, d) = found.own, found.above
    return a / c, b / d


def quotients(a: int, b: int, c: int, d: int, rest: bool) -> tuple[float, float]:
    """Ends of the share of the second row, whose interval is [a, b], of the first one, or of the
    second one and a rest in [c, d]."""

    def twice(x: float) -> np.ndarray:
        return np.array([9.0, x])

    above = (twice(1.0), twice(1e9)) if rest else (twice(c), twice(d))
    found = ShareEnds(
        own=(twice(a), twice(b)),
        above=above,
        confidence=0.9,
        how="",
        rest=(twice(c), twice(d)) if rest else None,
    )
    _, low, high = _share_quotients(twice(5.0), found, np.array([-1, 0]), nested=True)
    return float(low[1]), float(high[1])


@pytest.mark.parametrize("rest", [False, True])
def test_ends_are_the_least_and_largest_share_of_all_pairs(rest: bool) -> None:
    """Law: an interval is exactly what true numbers in both intervals allow (all of them, in
    fifths), with 0 <= C <= P; wrong ends fall inside of that."""
    missed = 0
    for a, b, c, d in itertools.product(range(-1, 4), range(4), range(1, 4), range(1, 5)):
        if a > b or c > d or (not rest and a > d):
            continue
        own, other = (np.unique(np.linspace(*ends, 13)) for ends in ((a, b), (c, d)))
        pairs = [(x, y) for x in own for y in other if x >= 0 and (rest or x <= y)]
        every = [x / (x + y) if rest else x / y for x, y in pairs]
        low, high = quotients(a, b, c, d, rest)
        assert low <= min(every) + 1e-15
        assert high >= max(every) - 1e-15
        if a >= 0 and (rest or b <= c):
            assert math.isclose(low, min(every), abs_tol=1e-12)
            assert math.isclose(high, max(every), abs_tol=1e-12)
        missed += not (max(a, 0) / c <= min(every) and max(every) <= b / d)
    assert missed > 50


GROUPS = 60
MANY = pd.concat(
    pd.DataFrame({"origin": f"o{g}", "dest": ["LAX"] * 600 + ["SFO"] * 300 + list(range(300))})
    for g in range(GROUPS)
).astype("str")
"""Trees alike, whose noise is independent: each tells as much as a release of its own."""

TRUE = {"LAX": 1 / 2, "SFO": 1 / 4}


def many_released(seed: int) -> pd.DataFrame:
    with seeded_noise(seed):
        return MANY.dp.hhh(["origin", "dest"], **BUDGET, confidence=0.8)


def many_listed(seed: int, *, consistent: bool) -> pd.DataFrame:
    keys = [(f"o{g}", dest) for g in range(GROUPS) for dest in TRUE]
    with seeded_noise(seed):
        return MANY.dp.tree_counts(
            ["origin", "dest"], epsilon=1.0, keys=keys, confidence=0.8, consistent=consistent
        )


CASES: dict[str, tuple[Callable[[int], pd.DataFrame], str, float]] = {
    "parts": (many_released, "parts", 0.8),
    "drawn": (lambda seed: many_listed(seed, consistent=False), "widened", 0.8),
    "adjusted": (lambda seed: many_listed(seed, consistent=True), "widened", 0.8),
    "extract": (lambda seed: many_listed(seed, consistent=False).iloc[1:], "as shown", 0.6),
}


@some("parts", "adjusted")
@pytest.mark.parametrize("case", CASES)
def test_a_share_holds_the_true_share_as_often_as_it_says(case: str) -> None:
    """Law: intervals hold the true share with the confidence that is stated (level 1e-6 each);
    the wrong end does not."""
    ask, how, stated = CASES[case]
    held: dict[str, list[bool]] = {"LAX": [], "SFO": []}
    bug: list[bool] = []
    for seed in range(4):
        frame = ask(seed)
        share = frame.dp.share()
        said = share.attrs["dp_share"]
        assert (said["how"], said["confidence"]) == (how, stated)
        ends = frame.set_index("prefix")[["lower", "upper"]]
        for row in share[share["dest"].isin(list(TRUE))].itertuples():
            true = TRUE[row.dest]
            assert row.of == row.origin
            held[row.dest].append(row.share_lower <= true <= row.share_upper)
            own, above = (tuple(ends.loc[prefix]) for prefix in (row.prefix, row.of))
            a, b = wrong_end(ShareEnds(own=own, above=above, confidence=0.8, how=""))
            bug.append(bool(a <= true <= b))
    fewest = int(binom.ppf(1e-6, len(held["LAX"]), stated))
    assert min(map(sum, held.values())) >= fewest
    if stated == 0.8:  # 0.6 is met by far, as two intervals rarely miss together
        assert sum(bug) < int(binom.ppf(1e-6, len(bug), stated))


def test_shares_of_counts_that_add_up_add_up() -> None:
    """Law: where parents are the sums of their children, so are shares; all of a level share the
    total; a share times its parent is the count."""
    frame = listed()
    for of in ("parent", "total"):
        share = frame.dp.share(of)
        below = share[share["level"] == 2].groupby("of" if of == "parent" else "origin")["share"]
        sums = below.sum()
        wanted = 1.0 if of == "parent" else share[share["level"] == 1].set_index("origin")["share"]
        assert np.allclose(sums, 1.0 if of == "parent" else wanted[sums.index])
        top = share[share["level"] == 1]["share"].sum()
        assert math.isclose(top, 1.0)
        assert (share["share_lower"] <= share["share"].fillna(1)).sum() >= share["share"].count()
    whose = frame.set_index("prefix")["count"]
    share = frame.dp.share().dropna(subset=["share"])
    assert np.allclose(share["share"] * share["of"].map(whose), share["count"])


def test_a_row_is_a_share_of_what_is_shown_above_it() -> None:
    """Law: ``of`` names the nearest row above, in an extract as well; without one nothing is
    said; the total is all of itself."""
    frame = listed()
    share = frame.dp.share().set_index("prefix")
    assert share.loc["JFK / LAX", "of"] == "JFK"
    assert share.loc["*", ["share", "share_lower", "share_upper"]].isna().all()
    assert share["of"].isna().tolist() == [True, *[False] * (len(share) - 1)]
    some = frame[frame["prefix"] != "JFK"]
    fewer = some.dp.share()
    assert fewer.attrs["dp_share"]["how"] == "as shown"
    assert list(fewer.index) == list(some.index)
    assert fewer.set_index("prefix").loc["JFK / LAX", "of"] == "*"
    total = frame.dp.share("total")
    assert total.loc[0, ["share", "share_lower", "share_upper"]].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(dp.ParameterError, match="remainder=True"):
        frame[frame["level"] > 0].dp.share("total")
    with pytest.raises(dp.ParameterError, match="'parent' or 'total'"):
        frame.dp.share("root")


def test_no_share_of_what_may_be_nothing() -> None:
    """Law: NaN and [0, 1] where the interval above reaches 0."""
    with seeded_noise(3):
        frame = TRIPS.head(2).dp.tree_counts(["origin", "dest"], epsilon=0.2, keys=KEYS)
    above = frame.set_index("prefix")["lower"]
    share = frame.dp.share()
    unclear = share["of"].map(above) <= 0
    assert unclear.any()
    assert share[unclear]["share"].isna().all()
    assert share[unclear][["share_lower", "share_upper"]].to_numpy().tolist() == (
        [[0.0, 1.0]] * int(unclear.sum())
    )


def test_missing_ends_are_anywhere() -> None:
    """Law: where no upper end is released a share has no lower one."""
    frame = released()
    facts = {**frame.dp.receipt, "mechanism": "streaming"}
    frame = seal_frame(frame.assign(upper=pd.array([pd.NA] * len(frame), dtype="Int64")), facts)
    share = frame.dp.share()
    kept = share["of"].notna()
    assert (share[kept]["share_lower"] == 0).all()


def test_measures_of_a_rollup_have_shares() -> None:
    """Law: the measure that is named is shared; sums that can be negative beyond [0, 1]; means
    have no share."""
    measures = {
        "orders": "count",
        "paid": "sum(paid, 0, 10)",
        "net": "sum(paid, -10, 10)",
        "each": "mean(paid, 0, 10)",
    }
    with seeded_noise(5):
        frame = rollup(TRIPS, ["origin", "dest"], measures, epsilon=20.0, delta=1e-6)
    assert list(frame.dp.share().columns[:5]) == ["level", "prefix", "origin", "dest", "orders"]
    for name in ("orders", "paid"):
        share = frame.dp.share("total", name)
        assert share[["share_lower", "share_upper"]].stack().between(0, 1).all()
        assert math.isclose(share[share["level"] == 1]["share"].sum(), 1.0, abs_tol=0.02)
    wide = frame.dp.share("total", "net")
    assert wide.attrs["dp_share"]["confidence"] <= 0.95
    with pytest.raises(dp.ParameterError, match="is a mean"):
        frame.dp.share(measure="each")
    with pytest.raises(dp.ParameterError, match="orders, paid, net, each"):
        frame.dp.share(measure="count")


def test_a_frame_that_was_changed_has_no_shares() -> None:
    """Law: only released numbers are asked about, in words that say what to do."""
    frame = released()
    changed = frame.assign(count=frame["count"] + 1)
    assert changed.attrs == frame.attrs
    for ask in ("share", "intervals"):
        with pytest.raises(dp.ParameterError, match="not the release that the receipt is of"):
            getattr(changed.dp, ask)()
    for call in (lambda: changed.dp.top(1), lambda: changed.dp.below("JFK")):
        with pytest.raises(dp.ParameterError, match="not the release that the receipt is of"):
            call()
    with pytest.raises(dp.ParameterError, match="not the release"):
        frame.assign(upper=frame["upper"] * 2).dp.share()
    with pytest.raises(dp.ParameterError, match="carries no receipt"):
        TRIPS.dp.share()
    rows = TRIPS.dp.synthesize({"paid": (-10, 10)}, epsilon=1.0).sample(5)
    with pytest.raises(dp.ParameterError, match="another kind"):
        rows.dp.top(2)
