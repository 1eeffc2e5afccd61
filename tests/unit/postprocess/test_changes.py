"""Changes between two releases: intervals that hold, bounds for what is not reported."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import binom

import dpframe as dp
from dpframe.accounting.path_recursion import Laws
from dpframe.asking.release import Release
from dpframe.counts import CountTree
from dpframe.errors import ParameterError, ParameterTypeError
from dpframe.mechanisms import offline_hhh
from dpframe.noise import halves, laplace_table
from dpframe.postprocess import selection_intervals
from dpframe.postprocess.change_sides import Side
from dpframe.postprocess.joint_noise import Noise, difference_half_width
from dpframe.postprocess.release_changes import NUMBERS, change_frame
from dpframe.postprocess.shown_nodes import ShownNodes, shown_nodes
from dpframe.questions.hhh.offline import OfflinePlan
from dpframe.testing import seeded_noise
from tests.members import few, often, some
from tests.privacy.enumerate_outputs import Script, ScriptedCoins, ScriptedValues, every_script

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
BY = ["origin", "dest"]


# -- every outcome of two tiny releases ------------------------------------------------------------

TEST = halves(left=("geometric", 1.2, 6), right=("geometric", 0.6, 2), recentre=False)
RELEASE = laplace_table(0.9, 1)
LEAST = 4
"""The threshold."""

CONFIDENCE = 0.6


@cache
def tiny_plan() -> OfflinePlan:
    """Heavy hitters with laws of few outcomes."""
    plan: OfflinePlan = dp.explain(BY, **BUDGET, confidence=CONFIDENCE).plan
    laws = Laws(
        shape="geometric", test=TEST, release=RELEASE, grid=1, left=1.2, right=0.6,
        release_scale=0.9, delta=1e-6,
    )  # fmt: skip
    return replace(plan, laws=laws, threshold=LEAST)


def tiny_tree(counts: tuple[int, int]) -> CountTree:
    """One origin with so many records, of which so many have one destination."""
    levels, numbers = [0], [counts[0]]
    keys: list[list[str | None]] = [[None, None]]
    for level, count in enumerate(counts, 1):
        if count:
            levels.append(level)
            numbers.append(count)
            keys.append(["a", "p" if level == 2 else None])
    columns = zip(*keys, strict=True)
    return CountTree.from_preorder(
        level=np.array(levels),
        count=np.array(numbers),
        keys=tuple(pa.chunked_array([pa.array(c, pa.string())]) for c in columns),
    )


@cache
def releases(counts: tuple[int, int], role: str) -> list[tuple[Fraction, pd.DataFrame, Any]]:
    """Every release of a table with its probability: the shipped ``run``, its noise scripted."""
    plan, tree = tiny_plan(), tiny_tree(counts)
    found: dict[tuple[Any, ...], list[Any]] = {}

    def scripted(script: Script) -> Any:
        return offline_hhh.run(
            tree,
            test=ScriptedCoins(plan.test_noise, script),
            release=ScriptedValues(RELEASE, script),
            threshold=LEAST,
            remainder=True,
        )

    for script, noisy in every_script(scripted):
        key = tuple(zip(noisy.level.tolist(), noisy.residual.tolist(), strict=True))
        found.setdefault(key, [Fraction(0), noisy])[0] += script.probability
    out = []
    for chance, noisy in found.values():
        frame = plan.frame(noisy, ("VARCHAR", "VARCHAR"))
        facts = {**plan.receipt(), "release_id": role}
        release = Release(frame, type(plan.receipt())(facts))
        out.append((chance, release.to_frame(), release.receipt))
    return out


_nodes: dict[int, ShownNodes] = {}


def read_once(frame: pd.DataFrame, receipt: Any, what: str) -> ShownNodes:
    """Nodes of a frame that ``releases`` keeps: each is in many pairs."""
    if id(frame) not in _nodes:
        _nodes[id(frame)] = shown_nodes(frame, receipt, what)
    return _nodes[id(frame)]


@pytest.fixture
def many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpframe.postprocess.release_changes.shown_nodes", read_once)


def coverage(before: tuple[int, int], after: tuple[int, int]) -> float:
    """P(all intervals of a change hold), over all pairs of releases."""
    pairs = zip((before[0], *before), (after[0], *after), strict=True)
    true = dict(enumerate(pairs))
    held = Fraction(0)
    for one, other in itertools.product(releases(before, "one"), releases(after, "two")):
        found = change_frame(one[1:], other[1:])
        fits = True
        columns = (found[name].tolist() for name in ("level", "change_lower", "change_upper"))
        for level, low, high in zip(*columns, strict=True):
            change = true[level][1] - true[level][0]
            fits &= not (low is not pd.NA and change < low)
            fits &= not (high is not pd.NA and change > high)
        held += one[0] * other[0] * fits
    return float(held)


PAIRS = [((4, 4), (7, 6)), ((6, 4), (4, 1))]


@pytest.mark.engines
@few(1, "pair", PAIRS, ids=str)
@pytest.mark.usefixtures("many_pairs")
def test_intervals_hold_over_every_outcome(pair: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Law: P(every row holds) is at least the confidence, whichever release reports a node."""
    assert coverage(*pair) >= CONFIDENCE


def one_noise(first: Noise, second: Noise, confidence: float) -> int:
    """A planted bug: the variance of one release is forgotten."""
    return difference_half_width(first, Noise(second.law, 0), confidence)


def as_zero(self: Side, row: int, chance: float) -> tuple[Fraction, Fraction]:
    """A planted bug: what is not reported is 0."""
    return Fraction(0), Fraction(0)


@pytest.mark.engines
@pytest.mark.usefixtures("many_pairs")
def test_a_node_that_is_taken_for_zero_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Side, "hides", as_zero)
    assert coverage(*PAIRS[0]) < CONFIDENCE


# -- many releases of larger tables ----------------------------------------------------------------

GROUPS = 30
MANY = pd.DataFrame(
    {
        "origin": np.repeat([f"o{g:02}" for g in range(GROUPS)], 140),
        "dest": np.tile(["LAX"] * 70 + ["SFO"] * 40 + ["ORD"] * 30, GROUPS),
    }
)
LATER = MANY.groupby("origin").head(110)
"""Without ORD, which then is reported before only."""


def true_change(found: pd.DataFrame) -> np.ndarray:
    numbers = {"LAX": 0, "SFO": 0, "ORD": -30}
    others = found["prefix"].str.endswith("<other>").to_numpy(dtype=bool)
    origins = np.where(found["level"] == 1, -30, -30 * GROUPS)
    nodes = found["dest"].map(numbers).fillna(0).to_numpy()
    return np.where(others, 0, np.where(found["level"] == 2, nodes, origins))


def many(seed: int, source: pd.DataFrame, kind: str) -> pd.DataFrame:
    keys = [(f"o{g:02}", d) for g in range(GROUPS) for d in ("LAX", "SFO", "ORD")]
    with seeded_noise(seed):
        if kind == "hhh":
            return source.dp.hhh(BY, **BUDGET)
        if kind == "measure":
            return source.assign(size=1.0).dp.hhh(BY, **BUDGET, weight="size", max_weight=1.0)
        if kind == "rollup":
            return source.dp.rollup(BY, {"n": "count"}, **BUDGET)
        return source.dp.tree_counts(BY, epsilon=1.0, keys=keys, consistent=kind == "adjusted")


def missed(
    kind: str, confidence: float, run: int, *, by_both: bool = False, **options: Any
) -> np.ndarray:
    """Which intervals of a pair of releases miss, of all rows, or of those that both report."""
    pair = many(2 * run, MANY, kind), many(2 * run + 1, LATER, kind)
    found = dp.change(*pair, confidence=confidence, **options)
    true = true_change(found)
    low = found["change_lower"].to_numpy(dtype=float, na_value=-np.inf)
    high = found["change_upper"].to_numpy(dtype=float, na_value=np.inf)
    wrong: np.ndarray = (true < low) | (true > high)
    return wrong[found["change"].notna()] if by_both else wrong


KINDS = ["hhh", "rollup", "listed", "adjusted", "measure"]


@often(8, 25)
@few(2, "kind", KINDS)
def test_intervals_of_many_nodes_hold_together(kind: str, runs: int) -> None:
    """Law: at confidence 0.8 at most a fifth of the pairs have an interval that misses, in the
    mean; more than allowed here have a chance below 1e-4."""
    most = binom.isf(1e-4, runs, 0.2)
    assert sum(missed(kind, 0.8, run).any() for run in range(runs)) <= most


def part_missed(kind: str) -> float:
    """Of intervals that hold each on its own with 0.8, given that both releases report a node."""
    runs = [missed(kind, 0.8, run, by_both=True, simultaneous=False) for run in range(6)]
    return float(np.concatenate(runs).mean())


MOST = 0.2 + 4 * np.sqrt(0.2 * 0.8 / (6 * 2 * GROUPS))
"""Counts above others share their noise, and add nothing."""


@few(2, "kind", KINDS)
def test_intervals_hold_each_on_its_own(kind: str) -> None:
    """Law: at confidence 0.8 a fifth of all at most misses, and 4 standard deviations."""
    assert part_missed(kind) <= MOST


@pytest.mark.parametrize("kind", ["hhh", "listed"])
def test_noise_that_is_forgotten_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the same check rejects half of the variance."""
    monkeypatch.setattr(selection_intervals, "difference_half_width", one_noise)
    assert part_missed(kind) > MOST


def test_nodes_that_one_release_reports_have_bounds_in_the_other() -> None:
    """Law: numbers are missing there, never 0; bounds hold what is true, and say something."""
    found = dp.change(many(1, MANY, "hhh"), many(2, LATER, "hhh"))
    gone = found[(found["dest"] == "ORD") & found["before"].notna()]
    assert len(gone)
    assert gone["after"].isna().all()
    assert gone["change"].isna().all()
    assert gone["ratio"].isna().all()
    assert (gone["after_lower"] == 0).all()
    assert gone["after_upper"].between(5, 60).all()
    assert (gone["change_lower"] <= -30).all()
    assert (gone["change_upper"] >= -30).all()


# -- laws of any change ----------------------------------------------------------------------------

MEASURES = {
    "n": "count",
    "paid": dp.sum("paid", lower=0, upper=9),
    "off": dp.sum("off", lower=-5, upper=5),
    "each": dp.mean("paid", lower=0, upper=9),
    "who": dp.distinct("who"),
}


def trips(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = 1500
    return pd.DataFrame(
        {
            "origin": rng.choice(["JFK", "LGA", "EWR"], n, p=[0.6, 0.3, 0.1]),
            "dest": rng.choice(["LAX", "SFO", "ORD", "BOS"], n, p=[0.6, 0.3, 0.05, 0.05]),
            "who": rng.integers(0, 300, n).astype(str),
            "paid": rng.uniform(0, 9, n).round(2),
            "off": rng.uniform(-5, 5, n).round(2),
        }
    )


Made = Callable[[pd.DataFrame], pd.DataFrame]
ANY: dict[str, tuple[Made, dict[str, Any]]] = {
    "hhh": (lambda f: f.dp.hhh(BY, **BUDGET), {}),
    "gaussian": (lambda f: f.dp.hhh(BY, **BUDGET, mechanism="offline-gaussian"), {}),
    "users": (lambda f: f.dp.hhh(BY, **BUDGET, user="who", contribution="share"), {}),
    "weights": (lambda f: f.dp.hhh(BY, **BUDGET, weight="paid", max_weight=9), ONE := {
        "simultaneous": False}),
    "baseline": (lambda f: f.dp.hhh(BY, **BUDGET, mechanism="laplace"), ONE),
    "stream": (lambda f: f.dp.hhh(BY, **BUDGET, mechanism="streaming"), ONE),
    "tree": (lambda f: f.dp.tree_counts(BY, **BUDGET), ONE),
    "tree, laplace": (lambda f: f.dp.tree_counts(BY, **BUDGET, mechanism="laplace"), ONE),
    "tree, hhh": (lambda f: f.dp.tree_counts(BY, **BUDGET, mechanism="hhh"), ONE),
    "flat": (lambda f: f.dp.heavy_hitters("origin", k=2, **BUDGET), ONE),
    **{f"rollup, {name}": (lambda f: f.dp.rollup(BY, MEASURES, epsilon=5.0, delta=1e-6),
                           {"measure": name}) for name in MEASURES},
}  # fmt: skip


@cache
def pair(kind: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    made = []
    for seed in (1, 2):
        with seeded_noise(seed):
            made.append(ANY[kind][0](trips(seed)))
    return made[0], made[1]


def mirrored(found: pd.DataFrame) -> pd.DataFrame:
    """A change read backwards."""
    out = found.copy()
    for end in ("", "_lower", "_upper"):
        out[f"before{end}"], out[f"after{end}"] = found[f"after{end}"], found[f"before{end}"]
    out["change"] = -found["change"]
    out["change_lower"], out["change_upper"] = -found["change_upper"], -found["change_lower"]
    return out


@some("hhh", "users", "stream", "tree, laplace", "rollup, n", "rollup, each")
@pytest.mark.parametrize("kind", ANY)
def test_a_change_is_antisymmetric(kind: str) -> None:
    """Law: the other way round, changes and their ends have the other sign, and nothing else."""
    one, other = pair(kind)
    options = ANY[kind][1]
    there, back = dp.change(one, other, **options), dp.change(other, one, **options)
    columns = [name for name in there.columns if not name.startswith("ratio")]
    pd.testing.assert_frame_equal(
        mirrored(back)[columns], there[columns], check_dtype=False, rtol=1e-12
    )
    assert (there["more_than_noise"] == back["more_than_noise"]).all()


@some("hhh", "users", "stream", "tree, laplace", "rollup, n", "rollup, each")
@pytest.mark.parametrize("kind", ANY)
def test_numbers_are_within_their_ends(kind: str) -> None:
    """Law: every number and its ends are in order, intervals of one confidence are nested in those
    of a larger one, and a change is told from noise by its own ends."""
    options = ANY[kind][1]
    found = dp.change(*pair(kind), **options)
    assert list(found.columns)[-len(NUMBERS) :] == list(NUMBERS)
    for name in ("before", "after", "change", "ratio"):
        ends = found[[f"{name}_lower", name, f"{name}_upper"]].astype("Float64")
        for low, value, high in ends.itertuples(index=False):
            for a, b in ((low, value), (value, high), (low, high)):
                assert a is pd.NA or b is pd.NA or a <= b
    told = (found["change_lower"] > 0) | (found["change_upper"] < 0)
    assert (told.fillna(False) == found["more_than_noise"]).all()
    if found.attrs["dp_change"]["how"] == "joint":
        wide = dp.change(*pair(kind), **options, confidence=0.999)
        assert (wide["change_lower"] <= found["change_lower"]).fillna(True).all()
        assert (wide["change_upper"] >= found["change_upper"]).fillna(True).all()


def test_how_an_interval_was_made_is_said() -> None:
    """Law: by the joint law, by wider ends, or as shown: by what receipts tell."""
    how = {}
    for kind, (_, options) in ANY.items():
        facts = dp.change(*pair(kind), **options).attrs["dp_change"]
        how[kind] = facts["how"]
        at_least = 0.95**2 if facts["how"] == "as shown" else 0.95
        assert facts["confidence"] == pytest.approx(at_least)
        assert ("why" in facts) == (facts["how"] != "joint")
    assert how.pop("rollup, each") == "widened"
    shown = {"stream", "tree", "tree, laplace", "tree, hhh"}
    assert {kind for kind, said in how.items() if said == "as shown"} == shown


def test_intervals_as_shown_hold_together_as_far_as_they_go() -> None:
    """Law: of releases whose confidence is enough for all rows; the error says which is."""
    one, other = pair("tree")
    with pytest.raises(ParameterError, match=r"release both with confidence=0\.\d+") as refused:
        dp.change(one, other)
    (needed,) = map(float, re.findall(r"confidence=(0\.\d+)", str(refused.value)))
    frames = []
    for seed in (1, 2):
        with seeded_noise(seed):
            frames.append(trips(seed).dp.tree_counts(BY, **BUDGET, confidence=needed))
    found = dp.change(*frames, confidence=0.95)
    assert 0.95 <= found.attrs["dp_change"]["confidence"] < 0.99
    assert len(found) == found.attrs["dp_change"]["intervals"]


@often(6, 20)
def test_means_of_many_nodes_hold_together(runs: int) -> None:
    """Law: in 8 of 10 pairs of releases, in the mean; fewer have a chance below 1e-4."""
    held = 0
    for run in range(runs):
        frames, true = [], []
        for seed in (run, 100 + run):
            rows = trips(seed)
            with seeded_noise(seed):
                frames.append(rows.dp.rollup(["origin"], {"each": MEASURES["each"]}, **BUDGET))
            true.append({"*": rows["paid"].mean(), **rows.groupby("origin")["paid"].mean()})
        found = dp.change(*frames, confidence=0.8)
        change = [true[1][node] - true[0][node] for node in found["prefix"]]
        low = found["change_lower"].to_numpy(dtype=float, na_value=-np.inf)
        high = found["change_upper"].to_numpy(dtype=float, na_value=np.inf)
        held += bool(((low <= change) & (change <= high)).all())
    assert held >= binom.ppf(1e-4, runs, 0.8)


def test_sums_that_can_be_negative_have_no_ratio() -> None:
    found = dp.change(*pair("rollup, off"), measure="off")
    assert found[["ratio", "ratio_lower", "ratio_upper"]].isna().all(axis=None)


def test_what_nothing_bounds_has_no_end() -> None:
    """Law: a rest that is not told has no upper end, nor has its change; counts bound it below."""
    with seeded_noise(1):
        bare = trips(1).dp.hhh(BY, **BUDGET, remainder=False)
    found = dp.change(pair("hhh")[0], bare, simultaneous=False).iloc[0]
    assert found["prefix"] == "*"
    assert found[["after", "after_upper", "change", "change_upper", "ratio"]].isna().all()
    assert found["ratio_upper"] == np.inf
    assert 1000 < found["after_lower"] < 1500
    assert found["change_lower"] < 0
    back = dp.change(bare, pair("hhh")[0], simultaneous=False).iloc[0]
    assert back["ratio_lower"] == 0
    assert pd.isna(back["change_lower"])
    assert 1 < back["ratio_upper"] < 2


# -- what does not compare -------------------------------------------------------------------------


def other_bounds(f: pd.DataFrame) -> pd.DataFrame:
    return f.dp.rollup(BY, {"n": dp.sum("paid", lower=0, upper=5)}, **BUDGET)


REFUSED: list[tuple[Made, Made, dict[str, Any], str]] = [
    (ANY["hhh"][0], lambda f: f.dp.hhh(["origin"], **BUDGET), {}, "hierarchy"),
    (ANY["hhh"][0], ANY["users"][0], {}, "user"),
    (ANY["weights"][0], lambda f: f.dp.hhh(BY, **BUDGET, weight="paid", max_weight=5), {},
     "max_weight is 9.0 before and 5.0 after"),
    (lambda f: f.dp.rollup(BY, {"n": dp.sum("paid", lower=0, upper=9)}, **BUDGET), other_bounds, {},
     "same bounds"),
    (ANY["hhh"][0], other_bounds, {}, "different questions"),
    (other_bounds, ANY["rollup, n"][0], {"measure": "m"}, "must be one of this release"),
    (other_bounds, ANY["rollup, n"][0], {}, "is sum"),
    (ANY["tree"][0], ANY["tree"][0], {}, "Pass simultaneous=False"),
    (ANY["tree"][0], ANY["tree"][0], {"simultaneous": False, "confidence": 0.99}, "release both"),
    (ANY["flat"][0], ANY["flat"][0], {}, "keeps the largest"),
    (ANY["baseline"][0], ANY["baseline"][0], {}, "also decided what is shown"),
    (ANY["hhh"][0], lambda f: f.dp.hhh(BY, **BUDGET).head(2), {}, "whole frame"),
    (ANY["hhh"][0], lambda f: f.dp.hhh(BY, **BUDGET).assign(count=1), {}, "not the release"),
    (ANY["hhh"][0], lambda f: f, {}, "carries no receipt"),
    (ANY["hhh"][0], ANY["hhh"][0], {"confidence": 0.2}, "from 0.5 to"),
]  # fmt: skip


@some(0, 2, 5, 7, 10, 13)
@pytest.mark.parametrize(("one", "other", "options", "said"), REFUSED)
def test_what_does_not_compare(one: Made, other: Made, options: dict[str, Any], said: str) -> None:
    """Law: no difference of numbers that count different things, and the sentence that helps."""
    with pytest.raises(ParameterError, match=said):
        dp.change(one(trips(1)), other(trips(2)), **options)


def test_a_release_is_not_compared_with_itself(tmp_path: Any) -> None:
    """Law: neither with the same frame, nor other intervals of it, nor a replay."""
    book = dp.Ledger(tmp_path / "b.db", epsilon=9, delta=1e-3)
    first = trips(1).dp.hhh(BY, **BUDGET, ledger=book, release="week-1")
    with pytest.warns(dp.ReplayedNotice):
        again = trips(2).dp.hhh(BY, **BUDGET, ledger=book, release="week-1")
    for other in (first, first.dp.intervals(0.99), again, "week-1"):
        with pytest.raises(ParameterError, match="same release"):
            dp.change(first, other, ledger=book)


def test_auto_bounds_that_differ_are_refused() -> None:
    """Law: what was cut off differs, and no interval knows."""
    spec = {"paid": dp.sum("paid", lower=0, upper="auto")}
    small = trips(1)
    frames = [
        f.dp.rollup(BY, spec, epsilon=9.0, delta=1e-6)
        for f in (small, small.assign(paid=small["paid"] * 900))
    ]
    with pytest.raises(ParameterError, match="found by 'auto'"):
        dp.change(*frames)


def test_wrong_types_are_refused() -> None:
    """Law: as everywhere, with the name of the argument."""
    one, other = pair("hhh")
    for options in ({"simultaneous": 1}, {"confidence": "high"}, {"measure": 3}):
        with pytest.raises(ParameterTypeError, match=next(iter(options))):
            dp.change(one, other, **options)
    with pytest.raises(ParameterTypeError, match="before must be a released frame"):
        dp.change(3, other)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="needs a ledger"):
        dp.change("week-1", other)


# -- samples ---------------------------------------------------------------------------------------

VISITS = pd.DataFrame(
    {"who": np.repeat(np.arange(2000), 2).astype(str), "origin": ["A", "B"] * 2000}
)
"""Users who are at two nodes, of which one release counts one."""


SAMPLED = {**BUDGET, "user": "who", "contribution": "records", "max_contributions": 1}


def two_measures(frame: pd.DataFrame) -> pd.DataFrame:
    measures = {"n": "count", "who": "distinct(who, at_most=1)"}
    return frame.dp.rollup(["origin"], measures, **BUDGET, user="who", contribution="share")


SAMPLES: dict[str, tuple[Made, dict[str, Any]]] = {
    "records": (lambda f: f.dp.hhh(["origin"], **SAMPLED), {}),
    "tree, records": (lambda f: f.dp.tree_counts(["origin"], **SAMPLED), {}),
    "distinct": (two_measures, {"measure": "who"}),
}


@some("records", "distinct")
@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_of_users_do_not_compare(kind: str) -> None:
    """Law: where each release draws a sample of its own nothing is said."""
    made, which = SAMPLES[kind]
    with pytest.raises(ParameterError, match="a sample of its own"):
        dp.change(made(VISITS), made(VISITS), simultaneous=False, **which)


def test_shares_of_users_compare_beside_a_measure_that_is_a_sample() -> None:
    """Law: what is no sample is compared, and where nothing changed nothing is said to have."""
    found = dp.change(two_measures(VISITS), two_measures(VISITS), measure="n", confidence=0.999999)
    assert found["change"].notna().all()
    assert not found["more_than_noise"].any()


UPON = {"baseline": {"mechanism": "laplace"}, "stream": {"mechanism": "streaming"}}


@pytest.mark.parametrize("kind", UPON)
def test_numbers_that_were_selected_upon_hold_together_at_no_confidence(kind: str) -> None:
    """Law: however wide they are; each on its own is said to be nominal."""
    sides = [trips(s).dp.hhh(BY, **BUDGET, **UPON[kind], confidence=0.999999) for s in (1, 2)]
    with pytest.raises(ParameterError, match="also decided what is shown"):
        dp.change(*sides, confidence=0.9)
    found = dp.change(*sides, simultaneous=False)
    assert found.attrs["dp_change"]["means"].endswith("nominal")
