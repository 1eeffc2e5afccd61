"""How often lower..upper holds the true count, on real tables, against the exact law."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dpframe as dp
from dpframe.counts import CountTree
from dpframe.noise import NoiseTable
from dpframe.questions.hhh.mechanism_plan import HhhPlan
from dpframe.testing import seeded_noise
from tests.members import in_turn
from tests.rollups import exact_tree

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder shared/data with real tables is not beside the checkout"
)

CASES: dict[str, tuple[str, str, str | None]] = {
    "flights, shares": ("flights_nyc13", "columns:origin,dest,carrier", "user_id"),
    "rails, shares": ("git_paths_rails", "path:path", "user_id"),
    "retail, records": (
        "retail_completejourney",
        "columns:department,product_category,product_type,product_id",
        None,
    ),
}
RUNS = 60
"""3 sigma are 0.155 of counts at a confidence of 0.8: half of the width covers 0.3 too few."""


def plan_of(case: str, confidence: float) -> HhhPlan:
    _, spec, user = CASES[case]
    return dp.explain(
        spec, epsilon=1.0, delta=1e-6, user=user, confidence=confidence, mechanism="offline"
    ).plan


@lru_cache(maxsize=len(CASES))
def tree_of(case: str) -> CountTree:
    """True counts; positions are made the keys, so that a released node names its true count."""
    table, _, _ = CASES[case]
    plan = plan_of(case, 0.95)
    unit = plan.unit
    names = [*plan.hierarchy.source_columns, *([unit.user] if unit.user else [])]
    source = pd.read_parquet(DATA / f"{table}.parquet", columns=names)
    tree = exact_tree(source, plan.hierarchy, unit)
    kept = tree.count >= plan.band
    kept[0] = True
    keys = tuple(column.filter(kept) for column in tree.keys)
    return CountTree.from_preorder(level=tree.level[kept], count=tree.count[kept], keys=keys)


@lru_cache
def misses(case: str, runs: int) -> list[tuple[int, int]]:
    """(terms, |noise| in units) of every count of every run, from the mechanism itself.

    What is drawn does not depend on the confidence of the intervals around it.
    """
    plan, tree = plan_of(case, 0.95), tree_of(case)
    true = dict(zip(named(tree), tree.count.tolist(), strict=True))
    out = []
    for run in range(runs):
        with seeded_noise(run):
            noisy = plan.run(tree)
        for key, n, terms in zip(
            named(noisy), noisy.count.tolist(), noisy.terms.tolist(), strict=True
        ):
            out.append((terms, abs(n - true[key])))
    return out


def named(nodes: Any) -> list[tuple[Any, ...]]:
    texts = zip(*(column.cast("string").to_pylist() for column in nodes.keys), strict=True)
    return [(level, *text) for level, text in zip(nodes.level.tolist(), texts, strict=True)]


@lru_cache(maxsize=1024)
def inside(weights: bytes, terms: int) -> NDArray[np.float64]:
    """P(|V_1 + ... + V_terms| <= w) for w = 0, 1, ...; on the whole support, nothing wraps."""
    pmf = np.frombuffer(weights, dtype=np.uint64).astype(np.float64) / 2**64
    support = terms * (len(pmf) - 1) + 1
    size = 1 << support.bit_length()
    law = np.fft.irfft(np.fft.rfft(pmf, size) ** terms, size)[:support]
    middle = support // 2
    return np.cumsum(np.concatenate([law[middle : middle + 1], 2 * law[middle + 1 :]]))


def covered(found: list[tuple[int, int]], release: NoiseTable, widths: Any) -> tuple[float, float]:
    """Share of counts within their half width, and what the law of the noise says it should be."""
    half = {terms: widths(terms) for terms in {t for t, _ in found}}
    hits = np.mean([noise <= half[terms] for terms, noise in found])
    weights = release.weights.tobytes()
    exact = []
    for terms, _ in found:
        law = inside(weights, terms)
        exact.append(law[min(half[terms], len(law) - 1)])
    return float(hits), float(np.mean(exact))


@in_turn(
    (
        "case",
        [
            *("flights, shares", "retail, records"),
            pytest.param("rails, shares", marks=pytest.mark.evidence),
        ],
    ),
    ("confidence", [0.8, 0.95]),
)
def test_intervals_cover_as_often_as_they_say(case: str, confidence: float) -> None:
    """At least the confidence, at most 2 points more or what whole numbers force; half fails."""
    plan = plan_of(case, confidence)
    found = misses(case, RUNS)
    assert np.array_equal(plan.count_noise.weights, plan_of(case, 0.95).count_noise.weights)
    hits, exact = covered(found, plan.count_noise, plan.half_width)
    sigma = 3 * math.sqrt(confidence * (1 - confidence) / RUNS)  # counts of one run share noise
    assert confidence <= exact
    assert exact <= confidence + (0.02 if plan.grid > 1 else plan.count_noise.pmf.max())
    assert abs(hits - exact) <= sigma
    assert hits >= confidence - sigma

    narrow, predicted = covered(found, plan.count_noise, lambda terms: plan.half_width(terms) // 2)
    assert narrow < confidence - sigma  # the planted bug is seen
    assert abs(narrow - predicted) <= 3 * math.sqrt(predicted * (1 - predicted) / RUNS)


@in_turn(("case", CASES), ("confidence", [0.8, 0.95]))
def test_printed_intervals_cover_whole_counts(case: str, confidence: float) -> None:
    """lower and upper of the frame, rounded outwards, hold the count that the frame rounds."""
    plan = plan_of(case, confidence)
    table, spec, user = CASES[case]
    with seeded_noise(5):
        result = dp.hhh(
            DATA / f"{table}.parquet",
            spec,
            epsilon=1.0,
            delta=1e-6,
            user=user,
            confidence=confidence,
            mechanism="offline",
        )
    half = plan.half_width(1) / plan.grid
    assert ((result["upper"] - result["lower"]) >= 2 * half).all()
    assert ((result["lower"] <= result["count"]) & (result["count"] <= result["upper"])).all()


@pytest.mark.evidence
@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_over_many_runs(case: str, confidence: float) -> None:
    plan = plan_of(case, confidence)
    found = misses(case, 25 * RUNS)
    hits, exact = covered(found, plan.count_noise, plan.half_width)
    sigma = 3 * math.sqrt(confidence * (1 - confidence) / (25 * RUNS))
    assert abs(hits - exact) <= sigma
    assert hits >= confidence - sigma
