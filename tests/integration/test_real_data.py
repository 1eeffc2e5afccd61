"""Real tables: the rollup against the naive twin, and every guarantee that holds with certainty."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpframe as dp
from dpframe.budget import PrivacyUnit
from dpframe.hierarchy import as_hierarchy
from dpframe.noise import random_seed
from dpframe.sources.exact_trees import exact_counts as listed_exactly
from dpframe.sources.keys import listed_nodes
from dpframe.testing import seeded_noise
from tests import naive
from tests.members import some
from tests.naive import leaf_paths, residuals, rollup, shares
from tests.rollups import exact_counts, exact_tree, tree_paths

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder shared/data with real tables is not beside the checkout"
)

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SAMPLE = 8_000

CASES: list[tuple[str, str, str | None]] = [
    ("tor_relay_ips", "ip:ip", None),
    ("git_paths_rails", "path:path", None),
    ("git_paths_rails", "path:path", "user_id"),
    ("retail_completejourney", "columns:department,product_category,product_type,product_id", None),
    (
        "retail_completejourney",
        "columns:department,product_category,product_type,product_id",
        "user_id",
    ),
    ("flights_nyc13", "columns:origin,dest,carrier", None),
    ("flights_nyc13", "columns:carrier,dest,flight", "user_id"),
    ("flights_nyc13", "date:date?levels=year,month,day", None),
    ("flights_nyc13", "number:air_time?lower=0&upper=512&depth=6", None),
    ("geo_geonames_cities500", "columns:continent,country,admin1_code,city", None),
    ("dns_zeek_wrccdc", "domain:query", None),
    ("dns_zeek_wrccdc", "ip:orig_ip", None),
]
every_case = pytest.mark.parametrize(("table", "spec", "user"), CASES)


def read(table: str, columns: list[str]) -> pd.DataFrame:
    return pd.read_parquet(DATA / f"{table}.parquet", columns=list(dict.fromkeys(columns)))


@some(0, 2, 5, 7, 10)
@every_case
def test_the_rollup_is_the_naive_one(table: str, spec: str, user: str | None) -> None:
    """On a sample of rows every node has the naive count, or a share within rounding."""
    hierarchy = as_hierarchy(spec)
    names = list(hierarchy.source_columns)
    frame = read(table, [*names, *([user] if user else [])])
    frame = frame.sample(min(SAMPLE, len(frame)), random_state=2)
    rows = [tuple(row) for row in frame[names].astype(object).to_numpy().tolist()]
    paths = leaf_paths(hierarchy, rows)
    if user is None:
        assert exact_counts(frame, hierarchy) == rollup(paths)
        return
    unit = PrivacyUnit(user=user)
    found = exact_counts(frame, hierarchy, unit)
    expected = shares(frame[user].astype(object).tolist(), paths)
    assert found[()] == unit.grid * expected[()]
    assert set(found) <= set(expected)
    users = Counter(path for path, _ in set(zip(paths, frame[user].map(str), strict=True)))
    for path in set(paths):
        assert abs(found.get(path, 0) - unit.grid * expected[path]) < users[path]


@some(0, 2, 5, 7, 10)
@every_case
def test_listed_keys_have_the_naive_counts(table: str, spec: str, user: str | None) -> None:
    """Every third value as a key: the nodes are those of the values, with their counts."""
    hierarchy = as_hierarchy(spec)
    names = list(hierarchy.source_columns)
    frame = read(table, names)
    frame = frame.sample(min(SAMPLE, len(frame)), random_state=3)
    rows = [tuple(row) for row in frame[names].astype(object).to_numpy().tolist()]
    paths = leaf_paths(hierarchy, rows)
    one = {path: row for path, row in zip(paths, rows, strict=True) if path and None not in path}
    some = list(one.values())[::3]
    listed = listed_nodes(some if len(names) > 1 else [row[0] for row in some], hierarchy)
    tree = listed_exactly(frame, hierarchy, PrivacyUnit(), 1, listed=listed)
    found = dict(zip(tree_paths(tree, hierarchy), tree.count.tolist(), strict=True))
    leaves = list(one)[::3]
    naive_counts = rollup(paths)
    above = {leaf[:n] for leaf in leaves for n in range(len(leaf) + 1)}
    assert found == {path: naive_counts[path] for path in above}


@some(0, 2, 5, 7, 10)
@every_case
@pytest.mark.parametrize("remainder", [True, pytest.param(False, marks=pytest.mark.evidence)])
def test_certain_guarantees_hold(table: str, spec: str, user: str | None, remainder: bool) -> None:
    """Largest error, certainly reported, never reported, and that everything adds up."""
    hierarchy = as_hierarchy(spec)
    source = read(table, [*hierarchy.source_columns, *([user] if user else [])])
    if user is None:  # labels of hundreds of thousands of nodes take longer than their release
        source = source.sample(min(25_000, len(source)), random_state=4)
    arguments: dict[str, Any] = {
        **BUDGET,
        "user": user,
        "mechanism": "offline",
        "remainder": remainder,
    }
    plan = dp.explain(hierarchy, **arguments).plan
    with seeded_noise(17):
        result = dp.hhh(source, hierarchy, **arguments)
    with seeded_noise(17):
        rounding = random_seed()  # the first draw of a release rounds the shares of users
    tree = exact_tree(source, hierarchy, plan.unit, rounding)
    paths = tree_paths(tree, hierarchy)
    counts = dict(zip(paths, tree.count.tolist(), strict=True))
    labels = {(len(p), label(hierarchy.kind, p)): p for p in paths}
    assert len(labels) == len(paths)
    reported = [labels[key] for key in zip(result["level"], result["prefix"], strict=True)]
    assert len(reported) > 5

    shown = set(reported)
    exact = residuals(counts, shown)
    largest = math.ceil(plan.count_noise.highest / plan.grid)
    for path, residual in zip(reported, result["residual"].tolist(), strict=True):
        assert abs(residual - exact[path] / plan.grid) <= largest
    missed = [exact[p] for p in paths if p and p not in shown]
    assert max(missed, default=0) < plan.certainly_reported * plan.grid
    assert min(exact[p] for p in reported if p) >= plan.never_reported * plan.grid
    if remainder:
        root = result.loc[result["level"] == 0, "count"].item()
        assert abs(root - result["residual"].sum()) <= (len(result) + 1) / 2 * (plan.grid > 1)
        terms = len(reported)
        assert abs(root - counts[()] / plan.grid) <= largest * terms


def label(kind: str, path: naive.Path) -> str:
    if not path:
        return "*"
    keys = ["<invalid>" if key is None else key for key in path]
    return " / ".join(keys) if kind == "columns" else keys[-1]


def test_files_and_frames_give_the_same_release() -> None:
    """A Parquet file is read in place, with the result of the frame."""
    frame = read("flights_nyc13", ["origin", "dest", "carrier", "user_id"])
    shares = {"user": "user_id", "contribution": "share"}
    for arguments in ({}, {"user": "user_id"}, shares):
        found = []
        for source in (frame, DATA / "flights_nyc13.parquet"):
            with seeded_noise(1):
                found.append(dp.hhh(source, ["origin", "dest", "carrier"], **BUDGET, **arguments))
        pd.testing.assert_frame_equal(*found)
