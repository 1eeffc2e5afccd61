"""Streaming heavy hitters: the selection against dictionaries, bounds, doors, advice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpframe as dp
from dpframe.accounting.sketch_stream import SketchLaws, sketch_laws
from dpframe.counts import NoisyNodes
from dpframe.hierarchy import Hierarchy, as_hierarchy
from dpframe.mechanisms import streaming_hhh
from dpframe.mechanisms import streaming_hhh as upward_selection
from dpframe.mechanisms.streaming_hhh import NoisySketch
from dpframe.noise import laplace_table
from dpframe.questions.hhh.ask import HHH
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.questions.hhh.sketch_plans import partition_plan
from dpframe.sketches import MisraGries, SketchState, merge_raw_sketches
from dpframe.sources import source_relations
from dpframe.sources.packed_keys import stream_sql
from dpframe.sources.stream_batches import sketch_source
from dpframe.testing import seeded_noise
from tests import naive
from tests.integration.contract import HHH as HHH_CONTRACT
from tests.integration.contract import world_of
from tests.members import few, in_turn, some
from tests.naive import Path as Node
from tests.rollups import exact_counts
from tests.unit.refusals import Wrong, assert_refused, refusals

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
STREAMING: dict[str, Any] = {**BUDGET, "mechanism": "streaming"}


def plan_of(hierarchy: Any, **options: Any) -> HhhPlan:
    return HHH.plan({"hierarchy": hierarchy, **STREAMING, **options})


class Quiet:
    """A law that draws zeros."""

    def __init__(self) -> None:
        table = laplace_table(1.0, 1)
        self.weights, self.lowest, self.highest = table.weights, 0, 0

    def draw(self, n: int) -> Any:
        return np.zeros(n, dtype=np.int64)


def without_noise(
    levels: Sequence[SketchState], hierarchy: Hierarchy, threshold: int
) -> NoisyNodes:
    quiet: Any = Quiet()
    scales: dict[str, Any] = {"scale": 1.0, "theta": 1, "delta": 1.0, "unshared": ()}
    laws = SketchLaws(family="laplace", noise=quiet, shared=quiet, sketches=len(levels), **scales)
    return streaming_hhh.run(
        levels, laws=laws, threshold=threshold, confidence=0.9, hierarchy=hierarchy
    )


# -- rows for every kind -------------------------------------------------------------------------

N = 400


def rows() -> pd.DataFrame:
    """Few heavy values and many light ones, ragged, with NULL and malformed values."""
    heavy = ((np.random.default_rng(7).zipf(1.4, N) - 1) % 60).tolist()
    missing = [i % 23 == 3 for i in range(N)]

    def column(texts: Sequence[str]) -> pd.Series[str]:
        pairs = zip(texts, missing, strict=True)
        return pd.Series([None if gone else text for text, gone in pairs], dtype="str")

    return pd.DataFrame(
        {
            "ip": column([f"10.{h % 3}.{h}.7" if h % 5 else f"2001:db8:{h:x}::1" for h in heavy]),
            "path": column(
                ["/".join([str(h % 3), str(h % 7), str(h)][: 1 + h % 3]) for h in heavy]
            ),
            "host": column([f"h{h}.net{h % 3}.example.org" if h % 9 else "no one" for h in heavy]),
            "code": column([f"{90000 + 111 * h}"[: 2 + h % 4] for h in heavy]),
            "when": column([f"20{10 + h % 3}-0{1 + h % 9}-1{h % 10} 1{h % 10}:00" for h in heavy]),
            "number": column([str(h) if h % 11 else "none" for h in heavy]),
            "a": column([["[1]", "=", "!", "é", '"'][h % 5] for h in heavy]),
            "b": column([f"日本 {h % 13}" for h in heavy]),
        }
    )


ROWS = rows()

SPECS = [
    *("ip:ip", "ip:ip?version=4&invalid=drop", "path:path", "domain:host", "code:code?lengths=2,4"),
    *("date:when", "number:number?lower=0&upper=64&depth=4", "columns:a,b", "columns:b"),
    *("columns:a,b?invalid=drop", "path:path?depth=2"),
]


def node_of(hierarchy: Hierarchy, level: int, key: tuple[str | None, ...]) -> Node:
    """The path of a node from its key, as ``tests.naive`` writes paths."""
    if hierarchy.label_columns:
        return key[:level]
    if key[0] is None:
        return (None,)
    return tuple(str(n) for n in hierarchy.lineage(level, (hierarchy.label(level, key),)))


def canonical(hierarchy: Hierarchy, node: Node) -> Node:
    """A path of ``tests.naive`` in the words of the hierarchy's lineage."""
    if hierarchy.label_columns or node == (None,):
        return node
    shown = node[-1]
    assert shown is not None
    return tuple(str(n) for n in hierarchy.lineage(len(node), (shown,)))


def found_nodes(noisy: NoisyNodes, hierarchy: Hierarchy) -> list[Node]:
    texts = list(zip(*(k.to_pylist() for k in noisy.keys), strict=True))
    pairs = zip(noisy.level.tolist(), texts, strict=True)
    return [node_of(hierarchy, level, key) for level, key in pairs]


def all_keys(hierarchy: Hierarchy) -> list[Counter[str]]:
    """How often each key of each level comes in ``ROWS``."""
    with source_relations.open_source(ROWS, hierarchy.source_columns) as relation:
        types = dict(zip(relation.columns, relation.types, strict=True))
        read = tuple(types[c] for c in hierarchy.source_columns)
        found = relation.query(stream_sql(hierarchy, types=read), False)
    return [Counter(k for k in c.to_pylist() if k is not None) for c in found.columns]


KEYS = {spec: all_keys(as_hierarchy(spec)) for spec in SPECS}


# -- the selection -------------------------------------------------------------------------------


@some("ip:ip", "path:path", "date:when", "path:path?depth=2")
@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1), threshold=st.integers(1, 40))
def test_the_selection_is_that_of_the_definition(spec: str, seed: int, threshold: int) -> None:
    """Law: on any released nodes, gaps included, what is selected is what dictionaries select."""
    hierarchy, draw = as_hierarchy(spec), np.random.default_rng(seed)
    noisy = []
    for keys in KEYS[spec]:
        kept = sorted(key for key in keys if draw.random() < 0.6)
        values = draw.integers(-5, 60, len(kept)).astype(np.int64)
        keys, lost = pa.array(kept, pa.large_string()), int(draw.integers(-5, 50))
        noisy.append(NoisySketch(keys=keys, values=values, decrements=lost))
    released = upward_selection.ReleasedNodes.of(
        [level.keys for level in noisy],
        [level.values for level in noisy],
        [max(0, level.decrements or 0) for level in noisy],
        hierarchy,
    )
    chosen, residual = upward_selection.select_upward(released, threshold=threshold)
    above = upward_selection.nearest_selected_ancestor(released.above, chosen)
    pairs = zip(released.level.tolist(), released.keys, strict=True)
    nodes = [node_of(hierarchy, level, key) for level, key in pairs]
    assert len(set(nodes)) == len(nodes)
    expected = naive.streamed_hitters(
        dict(zip(nodes, released.upper.tolist(), strict=True)),
        [level.decrements for level in noisy],
        threshold=threshold,
    )
    found = {nodes[i]: (int(residual[i]), int(released.upper[i])) for i in np.flatnonzero(chosen)}
    assert found == expected
    for i in np.flatnonzero(chosen):
        ancestors = [nodes[i][:n] for n in range(len(nodes[i]) - 1, 0, -1)]
        nearest = next((a for a in ancestors if a in expected), None)
        assert (nodes[above[i]] if above[i] >= 0 else None) == nearest


def test_the_twin_looks_over_gaps_and_at_the_sketch_error() -> None:
    released = {("a",): 30, ("a", "b", "c"): 25}
    assert naive.streamed_hitters(released, [0, 0, 0], threshold=10) == {("a", "b", "c"): (25, 25)}
    assert naive.streamed_hitters(released, [0, 0, 20], threshold=10) == {("a",): (30, 30)}
    assert naive.streamed_hitters(released, [20, 0, 9], threshold=5) == {
        ("a", "b", "c"): (25, 25),
        ("a",): (5, 30),
    }


@in_turn(("spec", SPECS), ("threshold", [1, 5, 30]))
def test_without_noise_and_with_room_for_all_it_is_exact(spec: str, threshold: int) -> None:
    """Law: nodes, residuals and counts are those of exact hierarchical heavy hitters."""
    hierarchy = as_hierarchy(spec)
    exact = exact_counts(ROWS, hierarchy)
    counts = {path: n for path, n in exact.items() if n}
    zeros = dict.fromkeys(exact, 0)
    heavy = naive.heavy_hitters(
        exact, test=zeros, release=zeros, threshold=threshold, remainder=False
    )
    levels = sketch_source(ROWS, hierarchy, len(counts) + 2)
    noisy = without_noise(levels, hierarchy, threshold)
    assert noisy.sketch_error == (0,) * hierarchy.height
    numbers = zip(noisy.residual.tolist(), noisy.count.tolist(), strict=True)
    found = dict(zip(found_nodes(noisy, hierarchy), numbers, strict=True))
    expected = {
        canonical(hierarchy, path): (residual, exact[path]) for path, (residual, _) in heavy.items()
    }
    assert found == expected
    assert len(found) > 1


@pytest.mark.parametrize("counters", [2, 5, 20])
def test_without_noise_the_sketch_alone_holds_the_truth_between_its_bounds(counters: int) -> None:
    """Law: C <= true count <= C + alpha for every node, whatever the number of counters."""
    for spec in ("path:path", "columns:a,b"):
        hierarchy = as_hierarchy(spec)
        exact = {canonical(hierarchy, p): n for p, n in exact_counts(ROWS, hierarchy).items() if p}
        noisy = without_noise(sketch_source(ROWS, hierarchy, counters), hierarchy, 1)
        assert noisy.bounds is not None
        lower, upper = (ends.tolist() for ends in noisy.bounds)
        for node, low, high in zip(found_nodes(noisy, hierarchy), lower, upper, strict=True):
            assert low - 2 <= exact[node] <= high + 2  # the width of a law of -1 to 1


# -- bounds --------------------------------------------------------------------------------------


def covered(
    plan: HhhPlan, levels: tuple[SketchState, ...], exact: dict[Node, int]
) -> tuple[int, int]:
    """Intervals with the true count in them, and all."""
    noisy = plan.run(levels)
    assert noisy.bounds is not None
    ends = zip(*(e.tolist() for e in noisy.bounds), strict=True)
    inside = [
        low <= exact[node] <= high
        for node, (low, high) in zip(found_nodes(noisy, plan.hierarchy), ends, strict=True)
    ]
    return sum(inside), len(inside)


HEAVY = pd.DataFrame({"p": [f"{i % 4}/{(i * i) % 13}" for i in range(12_000)]})
"""Four heavy nodes and 28 below them."""


def coverage(levels: tuple[SketchState, ...], plan: HhhPlan, runs: int = 60) -> float:
    exact = {p: n for p, n in exact_counts(HEAVY, plan.hierarchy).items() if p}
    inside = total = 0
    for _ in range(runs):
        a, b = covered(plan, levels, exact)
        inside, total = inside + a, total + b
    assert total >= 4 * runs
    return inside / total


@pytest.mark.parametrize("counters", [8, 100])
def test_intervals_hold_the_truth_at_least_as_often_as_they_say(counters: int) -> None:
    """Law: all of these counts are far above the threshold, so that selection does not matter."""
    plan = plan_of("path:p?depth=2", counters=counters, confidence=0.9, threshold=150)
    levels = sketch_source(HEAVY, plan.hierarchy, counters)
    assert (max(s.decrements for s in levels) > 0) == (counters == 8)
    with seeded_noise(11):
        assert coverage(levels, plan) >= 0.9


def test_a_sketch_that_lost_more_than_it_says_is_noticed() -> None:
    """Negative control: alpha that is not counted, and noise twice as wide as its law."""
    plan = plan_of("path:p?depth=2", counters=100, confidence=0.9, threshold=150)
    levels = sketch_source(HEAVY, plan.hierarchy, 100)
    lossy = tuple(
        SketchState(**{**{n: getattr(s, n) for n in s.__slots__}, "counts": s.counts - 12})
        for s in levels
    )
    with seeded_noise(11):
        assert coverage(lossy, plan) < 0.8


# -- arguments -----------------------------------------------------------------------------------

FEW = pd.DataFrame({"p": ["a/b"] * 200, "u": range(200)})


@refusals(
    [
        ({"counters": 1}, dp.ParameterError, ("counters (1) must be a whole number from 2",)),
        ({"counters": -3}, dp.ParameterError, ("counters (-3)",)),
        ({"counters": 2.5}, dp.ParameterTypeError, ("counters must be a whole number",)),
        ({"counters": 10**9}, dp.ParameterError, ("counters",)),
        ({"remainder": True}, dp.ParameterError, ("remainder (True) releases what no",)),
        ({"user": "u"}, dp.ParameterError, ("streaming",)),
        ({"release_share": 0.5}, dp.ParameterError, ("release_share (0.5) divides",)),
    ]
)
def test_bad_arguments_are_refused_before_anything_is_read(case: Wrong, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=10.0, delta=1e-3)
    assert_refused(FEW.dp.hhh, case, hierarchy="path:p", ledger=ledger, **STREAMING)
    assert len(ledger.releases()) == 0


def test_whole_numbers_of_any_type_are_counters() -> None:
    plans = [plan_of("path:p", counters=c) for c in (50, 50.0, np.int32(50))]
    assert plans[0].request == plans[1].request == plans[2].request
    assert plan_of("path:p").counters == 2000


EMPTY = {
    "no rows": pd.Series([], dtype="str"),
    "one row": pd.Series(["a/b"], dtype="str"),
    "all NULL, few": pd.Series([None] * 3, dtype="str"),
}


@few(4, "name", EMPTY)
@pytest.mark.parametrize("spec", ["path:p", "columns:p", "ip:p", "path:p?invalid=drop"])
def test_small_and_empty_sources_give_an_empty_frame(name: str, spec: str) -> None:
    """Law: the columns and types of any other release, and a receipt with an error a level."""
    with seeded_noise(3):
        usual = dp.hhh(FEW, spec, **STREAMING)
        found = dp.hhh(pd.DataFrame({"p": EMPTY[name]}), spec, **STREAMING)
    assert found.dtypes.to_dict() == usual.dtypes.to_dict()
    assert len(found) == 0
    assert len(found.dp.receipt["sketch_error"]) == as_hierarchy(spec).height


def test_any_text_comes_back_as_it_went_in() -> None:
    """Law: texts that look like keys, JSON or SQL are reported as they are, on every level."""
    odd = ["é/日本", "e\u0301", "=", "!", '["a"]', "['", '"', "\\", "🏴/🏴/x", "a\x00b"]
    odd += ["<invalid>", " "]
    wide = pd.DataFrame({"p": odd * 300, "q": odd * 300})
    with seeded_noise(5):
        found = dp.hhh(wide, "columns:p,q", **STREAMING)
        paths = dp.hhh(wide, "path:p", **STREAMING)
    deepest = found[found["level"] == 2]
    assert set(zip(deepest["p"], deepest["q"], strict=True)) == {(t, t) for t in odd}
    assert {t for t in odd if "/" not in t} <= set(paths["prefix"])
    assert {"é/日本", "🏴/🏴/x"} <= set(paths["prefix"])


# -- receipts ------------------------------------------------------------------------------------


def test_a_receipt_tells_the_error_of_each_level_and_nothing_else_of_the_data() -> None:
    """Law: but for time, name and what released rows say themselves."""
    other = pd.DataFrame({"p": [f"s{i}/x" for i in range(5000)]})
    cards = []
    for frame in (FEW, other):
        with seeded_noise(6):
            cards.append(dp.hhh(frame, "path:p?depth=2", counters=20, **STREAMING).attrs["dp"])
    here, there = cards
    assert len(here["sketch_error"]) == 2
    assert here["sketch_error"] != there["sketch_error"]
    differ = {name for name in here | there if here.get(name) != there.get(name)}
    assert differ <= {"release_id", "time", "sketch_error", "card", "notices", "not_shown"}
    cards = [[line for line in one["card"] if line[0] != "notice"] for one in (here, there)]
    lines = zip(*cards, strict=True)
    assert {a[0] for a, b in lines if a != b} == {"sketch errors"}
    assert "error" in json.dumps(here)
    assert "a/b" not in json.dumps(here)


def test_the_printed_card_and_the_plan_tell_the_counters() -> None:
    """Law: what is public before the data are read is in explain and in the card."""
    plan = dp.explain("path:p?depth=2", counters=77, **STREAMING).to_frame()
    told = dict(zip(plan["quantity"], plan["value"], strict=True))
    laws = sketch_laws(sketches=2, **BUDGET)
    assert (told["counters"], told["hidden below"]) == ("77", str(laws.theta))
    assert "sketch errors" not in told
    card = str(dp.hhh(FEW, "path:p?depth=2", counters=77, **STREAMING).dp.receipt)
    assert "sketch errors" in card


# -- front doors ---------------------------------------------------------------------------------


OF_USERS = {"user": "who", "contribution": "items", "max_contributions": 40}
ASKED: dict[str, dict[str, Any]] = {
    **{spec: {} for spec in ("ip:ip", "path:path", "columns:host,zip", "code:zip?lengths=1,3")},
    "path:path?depth=3": {**OF_USERS, "epsilon": 20.0, "delta": 1e-4},
}


@some("ip:ip", "path:path?depth=3")
@pytest.mark.parametrize("spec", ASKED)
def test_every_front_door_gives_the_same_release(spec: str, tmp_path: Path) -> None:
    """Law: that of the contract, of all sources whose rows have an order."""
    world = world_of(HHH_CONTRACT, tmp_path)
    found = {}
    for name, door in HHH_CONTRACT.every_door().items():
        if name not in ("SQL, registered frame", "function, lazy Polars"):
            with seeded_noise(8):
                frame, card = door(world, spec, {**STREAMING, "counters": 60, **ASKED[spec]})
            found[name] = frame.astype({"upper": "float64"}), card
    assert len(found) > 10
    assert len(found["accessor"][0]) > 1
    HHH_CONTRACT.same(found, spec, {})
    world.con.close()


@pytest.mark.parametrize("threshold", [None, 900])
def test_an_empty_result_names_the_threshold_of_the_merge(threshold: int | None) -> None:
    """Law: the notice on partitions tells the threshold of their merge, not of one stream."""
    asked = dp.explain(
        ["a", "b"], mechanism="streaming", counters=20, threshold=threshold, **BUDGET
    )
    plan = partition_plan(asked.plan, 3)
    parts = [[MisraGries(20) for _ in range(3)] for _ in range(2)]
    noisy = plan.run([merge_raw_sketches(level, method="sum")._state() for level in parts])
    receipt = plan.finish_receipt(plan.receipt(), noisy, plan.frame(noisy))
    (notice,) = [row[2] for row in receipt["card"] if row[0] == "notice"]
    least = -(-plan.laws.least // plan.laws.unit)
    assert receipt["threshold"] == (least if threshold is None else threshold)
    assert f"threshold of {receipt['threshold']} records" in notice
    assert threshold is None or f"pass threshold={least}, the smallest allowed here" in notice


# -- advice on the mechanism that was not asked for ------------------------------------------------


def advised(**arguments: Any) -> dict[str, str]:
    frame = dp.explain("ip:src", **BUDGET, **arguments).to_frame()
    return dict(zip(frame["quantity"], frame["value"] + "; " + frame["meaning"], strict=True))


@pytest.mark.parametrize("mechanism", ["offline", "streaming"])
def test_either_mechanism_is_shown_beside_the_other(mechanism: str) -> None:
    """Thresholds and noise are those of the plans themselves; exact counts are recommended."""
    shown = advised(mechanism=mechanism)
    for other in ("offline", "streaming"):
        plan = dp.explain("ip:src", mechanism=other, **BUDGET).plan
        assert f"from {plan.threshold} on" in shown[other]
        assert f"sd {plan.count_noise.sd:.3g}" in shown[other]
    assert shown["advice"].startswith("offline; ")


def test_the_sketch_error_and_memory_follow_the_counters() -> None:
    few, many = (advised(mechanism="streaming", counters=n) for n in (500, 500_000))
    assert "records / 501 " in few["streaming"]
    assert "about 1 MB" in few["streaming"]
    assert "about 725 MB" in many["streaming"]  # 5 levels


def test_what_cannot_be_compared_gets_no_advice() -> None:
    assert "offline" not in advised(user="id")
    assert "advice" not in advised(user="id", contribution="records", max_contributions=2)
    assert "advice" not in advised(mechanism="gaussian")
