"""Shares, largest rows and nodes with what is below them, of released frames."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    """Ends of the share of [a, b] in [c, d], or in [a, b] and a rest in [c, d]."""

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
    """Law: with the confidence that is stated (level 1e-6 each); the wrong end does not."""
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
    """Law: of the nearest row above, in an extract too; the total is all of itself."""
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
    """Law: sums that can be negative have shares beyond [0, 1]; means have none."""
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


VISITS = pd.DataFrame(
    {
        "origin": ["JFK"] * 900 + ["LGA"] * 300 + [None] * 200,
        "dest": ["LAX"] * 600 + ["SFO"] * 300 + ["LAX"] * 300 + ["LGA"] * 200,
    }
)


def tree_of_trips() -> pd.DataFrame:
    with seeded_noise(4):
        return VISITS.dp.tree_counts(["origin", "dest"], epsilon=2.0, delta=1e-6)


FACTS = dict(tree_of_trips().dp.receipt)


@pytest.mark.parametrize("rows", [0, 1])
def test_of_a_quiet_week_there_is_no_largest(rows: int) -> None:
    """Law: no row or one is an answer, with the columns that there always are."""
    found = dp.hhh(VISITS.head(rows), ["origin"], epsilon=1.0, delta=1e-6, remainder=False)
    assert len(found) == 0
    for frame in (found, tree_of_trips().head(0), tree_of_trips().head(2)):
        top = frame.dp.top(3)
        assert len(top) == (frame["level"] > 0).sum()
        assert top["above_next"].dtype == "boolean"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=12))
def test_the_largest_come_first(rows: list[tuple[int, int]]) -> None:
    """Law: of any released numbers, the n that a stable sort puts first, with all their columns;
    ``above_next`` is exactly that intervals do not touch."""
    count, half = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    frame = pd.DataFrame(
        {
            "level": 1,
            "prefix": [f"p{i}" for i in range(len(rows))],
            "p": [f"p{i}" for i in range(len(rows))],
            "residual": count,
            "count": count,
            "lower": count - half,
            "upper": count + half,
        }
    )
    seal_frame(frame, {**FACTS, "hierarchy": "columns:p", "levels": ["p"]})
    order = sorted(range(len(rows)), key=lambda i: -rows[i][0])
    for n in (1, 3, 20):
        top = frame.dp.top(n)
        assert list(top.index) == order[:n]
        assert list(top.columns) == [*frame.columns, "above_next"]
        for i, (this, following) in enumerate(itertools.pairwise(order)):
            if i < n:
                sure = frame.loc[this, "lower"] > frame.loc[following, "upper"]
                assert top["above_next"].iloc[i] == sure
        assert top["above_next"].isna().sum() == (n >= len(rows))


def test_the_largest_of_a_level_and_by_a_measure() -> None:
    """Law: the total is left out unless it is asked for; names of levels are numbers; a rollup is
    ranked by the measure that is named; the result is an extract."""
    frame = tree_of_trips()
    assert (frame.dp.top(99)["level"] > 0).all()
    assert frame.dp.top(99, level="origin").equals(frame.dp.top(99, level=1))
    assert frame.dp.top(9, level=0)["prefix"].tolist() == ["*"]
    assert frame.dp.top(1, level="dest")["prefix"].tolist() == ["JFK / LAX"]
    assert "not part of the release" in frame.dp.top(1).dp.receipt["frame"]
    measures = {"trips": "count", "km": "sum(km, 0, 10)"}
    source = VISITS.assign(km=np.where(VISITS["origin"] == "LGA", 10.0, 1.0))
    with seeded_noise(2):
        measured = rollup(source, ["origin", "dest"], measures, epsilon=20.0, delta=1e-6)
    assert measured.dp.top(1, level=1)["prefix"].tolist() == ["JFK"]
    assert measured.dp.top(1, "km", level=1)["prefix"].tolist() == ["LGA"]
    for wrong in ({"n": 0}, {"n": 1, "level": 3}, {"n": 1, "level": "city"}, {"n": 1, "by": "x"}):
        with pytest.raises(dp.ParameterError):
            frame.dp.top(**wrong)
    with pytest.raises(dp.ParameterTypeError, match="n must be a whole number"):
        frame.dp.top(2.5)


def test_a_node_and_everything_below_it() -> None:
    """Law: rows whose columns start with those of the node, in the order of the frame."""
    frame = tree_of_trips()
    below = frame.dp.below("JFK")
    assert below["prefix"].tolist() == [p for p in frame["prefix"] if p.startswith("JFK")]
    assert below.dp.receipt["frame"].startswith("an extract")
    assert frame.dp.below("*").equals(frame)
    assert frame.dp.below("SFO")["prefix"].tolist() == ["JFK / SFO"]
    assert frame.dp.below("LGA")["prefix"].iloc[0] == "LGA"  # a prefix before a value below
    assert frame.dp.below("<invalid>")["prefix"].iloc[0] == "<invalid>"


def test_a_label_that_is_no_node_or_several() -> None:
    """Law: an error names the prefixes that it could be, or the label that is near it."""
    frame = tree_of_trips()
    with pytest.raises(dp.ParameterError, match="'JFK / LAX', 'LGA / LAX'"):
        frame.dp.below("LAX")
    with pytest.raises(dp.ParameterError, match="Did you mean 'JFK / LAX'"):
        frame.dp.below("JFK/LAX")
    with pytest.raises(dp.ParameterError, match="no label that this frame shows"):
        frame.dp.below("zzzzzzzz")


def test_below_in_every_kind_of_hierarchy() -> None:
    """Law: by the value of the level of a node that is not shown; by prefixes of addresses."""
    heavy = VISITS.dp.hhh(["origin", "dest"], epsilon=4.0, delta=1e-6)
    assert "JFK" not in set(heavy["prefix"])
    assert heavy.dp.below("JFK")["prefix"].tolist() == ["JFK / LAX", "JFK / SFO"]
    visits = pd.DataFrame({"src": ["10.0.0.1"] * 300 + ["10.9.0.1"] * 300 + ["11.0.0.1"] * 300})
    with seeded_noise(1):
        nodes = visits.dp.tree_counts("ip:src?version=4", epsilon=4.0, delta=1e-6)
    below = nodes.dp.below("10.0.0.0/8")
    assert "10.9.0.1" in set(below["prefix"]) | {p.removesuffix("/32") for p in below["prefix"]}
    assert not below["prefix"].str.startswith("11.").any()
    flat = VISITS.dp.heavy_hitters("dest", epsilon=4.0, delta=1e-6)
    assert flat.dp.below("SFO")["dest"].tolist() == ["SFO"]
    assert flat.dp.top(1)["dest"].tolist() == ["LAX"]
