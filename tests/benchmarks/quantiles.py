"""Errors of medians and 95th percentiles at every node.

Run with ``python -m tests.benchmarks.quantiles [--releases 20] [--python PATH] [--only PART]``;
PATH is a Python with ``pip install opendp==0.16``; without it there is no peer. Parts:

* ``parts``: lognormal money cut at 500, two thirds of epsilon 1 for the median, 64 bins, nodes of 1
  and of 30 parts. "Parts alone": bins of parts, no groups of bins, no pooled nodes.
* ``levels``: trees of four levels beside OpenDP's quantile, which is paid for level by level.
* ``data``: baskets by department, and delays of flights by airport and carrier, keys unknown.

Errors are of ranks, in points: how far the part of the values below the shown number is above the
half, or the part up to it below the half; and of values. By user, values weigh what users give
them. Over all nodes, one that is unknown counts as 50 points. OpenDP has the same epsilon for
medians, divided evenly over levels, and 256 candidates, in proportion where bounds are above 0. By
user it gets one value of a user at each of at most four nodes of a level.
"""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpframe as dp
from dpframe.measures.bins import Bins
from dpframe.mechanisms import rollup
from dpframe.postprocess.quantiles import cover_of
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED

Reals = NDArray[np.float64]
Key = tuple[str, ...]
Truth = dict[Key, "Node"]
Bounds = tuple[float, float]

PART_EPSILON = 2 / 3
"""Of epsilon 1, where keys are listed and need none."""

CONFIDENCES, QUANTILES = (0.5, 0.8, 0.95), (0.5, 0.95)
CANDIDATES, NODES_OF_A_USER = 256, 4
WORST = 50.0

# -- the truth -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Node:
    """Ascending values, and which part of all weight is up to each."""

    values: Reals
    upto: Reals

    @classmethod
    def of(cls, values: Reals, weights: Reals) -> Node:
        order = np.argsort(values, kind="stable")
        passed = np.cumsum(weights[order])
        return cls(values[order], passed / passed[-1])

    def rank_error(self, shown: float, at: float) -> float:
        places = (np.searchsorted(self.values, shown, side) for side in ("left", "right"))
        below, upto = (float(np.append(0.0, self.upto)[place]) for place in places)
        return 100 * max(0.0, below - at, at - upto)

    def quantile(self, at: float) -> float:
        return float(self.values[np.searchsorted(self.upto, at - 1e-12)])


def truth(rows: pd.DataFrame, by: list[str], user: str | None = None, each: str = "row") -> Truth:
    """All nodes of rows with a column ``value``, the root at ()."""
    found = {}
    for depth in range(len(by) + 1):
        keys = by[:depth]
        own, weight = rows, np.ones(len(rows))
        if user is not None and each != "row":
            own = rows.groupby([*keys, user])["value"].sum().reset_index()
        if user is not None:
            weight = 1 / own.groupby(user)["value"].transform("size").to_numpy()
        held = own.groupby(keys, sort=False).indices if keys else {(): np.arange(len(own))}
        values = own["value"].to_numpy(np.float64)
        for key, here in held.items():
            named = key if isinstance(key, tuple) else (key,)
            found[named] = Node.of(values[here], weight[here])
    return found


# -- errors of releases ----------------------------------------------------------------------------

Known = tuple[Key, float, float]
"""A node whose median is known, with the errors of its rank and value."""


@dataclass
class Errors:
    """Errors of the quantile ``at`` at shown nodes, and what intervals hold."""

    at: float = 0.5
    known: list[Known] = field(default_factory=list)
    held: dict[float, list[bool]] = field(default_factory=lambda: {c: [] for c in CONFIDENCES})
    rows: int = 0
    at_bound: int = 0

    def add(self, key: Key, node: Node, shown: float) -> None:
        self.rows += 1
        if not np.isnan(shown):
            off = abs(shown - node.quantile(self.at))
            self.known.append((key, node.rank_error(shown, self.at), off))

    def add_release(
        self, nodes: Truth, result: pd.DataFrame, by: list[str], c: float, bounds: Bounds
    ) -> None:
        """An interval that reaches beyond a bound holds what is beyond; none counts if unknown."""
        keys = zip(*(result[name].astype(str) for name in by), strict=True)
        ends = (result[f"m{end}"].to_numpy() for end in ("_lower", "_upper", "_at_bound"))
        shown = result["m"].astype("float64").to_numpy()
        for level, key, m, *end in zip(result["level"], keys, shown, *ends, strict=True):
            node, beyond = nodes[key[:level]], bool(end[2])
            self.add(key[:level], node, m)
            self.at_bound += beyond
            true = node.quantile(self.at)
            cut = float(np.clip(true, *bounds))
            if not np.isnan(m):
                self.held[c].append(bool(end[0] <= cut <= end[1]) and (beyond or cut == true))

    def of(self, what: Literal[1, 2], part: float, depth: int | None = None) -> str:
        """A quantile of errors of ranks (1) or values (2), of all nodes or those of one depth."""
        chosen = [one for one in self.known if depth in (None, len(one[0]))]
        listed = [one[1] if what == 1 else one[2] for one in chosen]
        return f"{np.quantile(listed, part):.1f}" if listed else "unknown"

    def mean(self, many: int | None = None) -> str:
        """The mean rank error, of known nodes or of so many, known or not."""
        known = [min(one[1], WORST) for one in self.known]
        several = many or len(known)
        return f"{(sum(known) + WORST * (several - len(known))) / max(1, several):.2f}"

    @property
    def coverage(self) -> str:
        return ", ".join(f"{np.mean(own):.3f}" for own in self.held.values() if own)


@contextmanager
def parts_alone() -> Iterator[None]:
    """Bins of parts, and nothing else."""

    def all_nodes(above: Any, _: Any) -> Any:
        return cover_of(above, np.ones(len(above), dtype=np.bool_))

    with (
        patch.object(rollup, "SIZE_SHARE", Fraction(1, 10**9)),
        patch.object(rollup, "cover_of", all_nodes),
        patch.object(Bins, "groups", ()),
    ):
        yield


WAYS: dict[str, tuple[dict[str, str], float, Any]] = {
    "own numbers": ({}, PART_EPSILON, nullcontext),
    "count beside": ({"n": "count"}, 2 * PART_EPSILON, nullcontext),
    "parts alone": ({}, PART_EPSILON, parts_alone),
}
"""Measures beside, epsilon, so that a median has two thirds in all, and how it is run."""


def listed_errors(
    rows: pd.DataFrame, by: list[str], way: str, releases: int, at: float = 0.5
) -> Errors:
    nodes, errors = truth(rows, by), Errors(at)
    keys = rows[by].drop_duplicates()
    beside, epsilon, run = WAYS[way]
    measures = {**beside, "m": f"quantile(value, {at}, 1, 500)"}
    with run():
        for i in range(releases):
            c = CONFIDENCES[i % len(CONFIDENCES)]
            result = dp.rollup(rows, by, measures, keys=keys, epsilon=epsilon, confidence=c)
            errors.add_release(nodes, result, by, c, (1.0, 500.0))
    return errors


def tree(sizes: list[int], fans: tuple[int, ...], rng: np.random.Generator) -> pd.DataFrame:
    """Money in the leaves of a tree; every leaf has one of ``sizes``."""
    leaf = np.repeat(np.arange(len(sizes)), sizes)
    columns, below = {}, len(sizes)
    for name, fan in zip("abc", fans, strict=False):
        below //= fan
        columns[name] = (leaf // below).astype(str)
    return pd.DataFrame(columns).assign(
        value=np.minimum(np.round(40 * np.exp(rng.standard_normal(len(leaf))), 2), 500.0)
    )


def parts(releases: int, _: str) -> None:
    bench.head(
        "users", "parts", "quantile", "way", "rank, points", "value", "unknown", "coverage of all"
    )
    rng = np.random.default_rng(1)
    for users in (300, 1_000, 10_000):
        for several in (1, 30):
            fans = (5, 5) if several == 1 else (5, 5, several)
            rows = tree([users // several] * (25 * several), fans, rng)
            for at, way in itertools.product(QUANTILES, WAYS):
                found = listed_errors(rows, [*"abc"][: len(fans)], way, releases, at)
                unknown = 25 * releases - sum(len(one[0]) == 2 for one in found.known)
                own = [f"{found.of(w, 0.9, 2)} ({found.of(w, 0.5, 2)})" for w in (1, 2)]
                bench.row(users, several, at, way, *own, unknown, found.coverage)


# -- the peer --------------------------------------------------------------------------------------

PEER = """
import sys, numpy as np, opendp.prelude as odp
odp.enable_features("contrib")
given, out, made = np.load(sys.argv[1]), [], {}
space = odp.vector_domain(odp.atom_domain(T=float, nan=False)), odp.symmetric_distance()
chosen = {"candidates": given["candidates"].tolist(), "alpha": 0.5}
def at(scale):
    return odp.m.make_private_quantile(*space, odp.max_divergence(), **chosen, scale=scale)
for epsilon in set(given["epsilon"].tolist()):
    made[epsilon] = at(odp.binary_search_param(at, d_in=1, d_out=epsilon, T=float))
values = np.split(given["values"], given["ends"][:-1])
for own, epsilon in zip(values, given["epsilon"].tolist()):
    listed = own.tolist()
    out.append([made[epsilon](listed) for _ in range(int(given["times"]))])
np.save(sys.argv[2], out)
"""


def peer_errors(
    nodes: Truth,
    held: list[tuple[Key, Reals]],
    epsilons: list[float],
    bounds: Bounds,
    times: int,
    python: str,
) -> Errors:
    """OpenDP's medians of what it is given at every node, and their errors."""
    low, high = bounds
    places = (np.arange(CANDIDATES) + 0.5) / CANDIDATES
    even = low + (high - low) * places
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            f"{folder}/in.npz",
            values=np.concatenate([values for _, values in held]),
            ends=np.cumsum([len(values) for _, values in held]),
            epsilon=epsilons,
            candidates=low * (high / low) ** places if low > 0 else even,
            times=times,
        )
        subprocess.run([python, "-c", PEER, f"{folder}/in.npz", f"{folder}/out.npy"], check=True)
        drawn = np.load(f"{folder}/out.npy")
    errors = Errors()
    for (key, _), several in zip(held, drawn, strict=True):
        for shown in several.tolist():
            errors.add(key, nodes[key], shown)
    return errors


def levels(releases: int, python: str) -> None:
    means = ("mean, all nodes", "mean, known nodes", "OpenDP there")
    bench.head("leaves", "values each", "way", "levels, nine of ten", "unknown", *means)
    rng, by, share = np.random.default_rng(2), [*"abc"], 1 / np.arange(1, 751)
    for kind in ("equal", "Zipf"):
        for mean in (10, 20, 33, 60, 100, 300):
            sizes = np.full(750, float(mean))
            if kind == "Zipf":
                sizes = np.maximum(1, np.rint(rng.permutation(750 * mean * share / share.sum())))
            rows = tree(sizes.astype(int).tolist(), (5, 5, 30), rng)
            nodes = truth(rows, by)
            found = {way: listed_errors(rows, by, way, releases) for way in WAYS}
            held = [(key, node.values) for key, node in nodes.items()]
            peer = Errors()
            if python:
                each = [PART_EPSILON / 4] * len(held)
                peer = peer_errors(nodes, held, each, (1.0, 500.0), releases, python)
            of_node = pd.Series([one[1] for one in peer.known], [one[0] for one in peer.known])
            of_node = (
                of_node.clip(upper=WORST).groupby(level=[*range(of_node.index.nlevels)]).mean()
            )
            for way, errors in {**found, "OpenDP": peer}.items():
                by_level = ", ".join(errors.of(1, 0.9, depth) for depth in range(4))
                many = len(nodes) * releases
                there = of_node.reindex([one[0] for one in errors.known]).mean()
                told = errors.mean(many), errors.mean(), f"{there:.2f}"
                bench.row(kind, mean, way, by_level, f"{1 - len(errors.known) / many:.2f}", *told)


# -- real data -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    name: str
    rows: pd.DataFrame
    by: list[str]
    bounds: dict[str, Bounds]
    user: str | None = None


def jobs() -> Iterator[Job]:
    retail = pd.read_parquet(SHARED / "retail_completejourney.parquet")
    keys = ["user_id", "basket_id", "department"]
    own = retail.groupby(keys)["sales_value"].sum().rename("value").reset_index()
    bounds = {"row": (0.5, 200.0), "total": (0.5, 2_000.0)}
    yield Job("baskets, household", own, ["department"], bounds, "user_id")
    flights = pd.read_parquet(SHARED / "flights_nyc13.parquet")
    flights = flights.rename(columns={"arr_delay": "value"}).dropna(subset=["value", "user_id"])
    delays = {"row": (-60.0, 300.0), "total": (-1_000.0, 10_000.0)}
    by = ["origin", "carrier"]
    yield Job("flights, record", flights, by, {"row": delays["row"]})
    yield Job("flights, aircraft", flights, by, delays, "user_id")


def peer_values(job: Job, rng: np.random.Generator) -> dict[Key, Reals]:
    """What the peer gets: by user one value of a user at each of a few nodes of a level."""
    found: dict[Key, Reals] = {}
    for depth in range(len(job.by) + 1):
        rows, keys = job.rows, job.by[:depth]
        if job.user is not None:
            mixed = rows.iloc[rng.permutation(len(rows))].drop_duplicates([job.user, *keys])
            rows = mixed.groupby(job.user).head(NODES_OF_A_USER if keys else 1)
        for key, own in rows.groupby(keys) if keys else [((), rows)]:
            found[tuple(map(str, key))] = own["value"].to_numpy(np.float64)
    return found


def data(releases: int, python: str) -> None:
    errors_of = ("rank: median, 95 %", "value: median, 95 %")
    numbers = ("rows", "unknown", "at a bound")
    means = "mean: known, all shown"
    bench.head("set", "epsilon", "quantile", *numbers, *errors_of, means, "coverage")
    for job in jobs():
        for epsilon in (1.0, 3.0):
            ways = {}
            for (each, (low, high)), at in itertools.product(job.bounds.items(), QUANTILES):
                nodes, errors = truth(job.rows, job.by, job.user, each), Errors(at)
                own: Any = each
                m = dp.quantile("value", at, lower=low, upper=high, each=own)
                for i in range(releases):
                    c = CONFIDENCES[i % len(CONFIDENCES)]
                    asked: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "confidence": c}
                    result = dp.rollup(job.rows, job.by, {"m": m}, user=job.user, **asked)
                    errors.add_release(nodes, result, job.by, c, (low, high))
                ways[f"{at}, each {each}"] = errors
            if python:
                values = peer_values(job, np.random.default_rng(3))
                seen = sorted({one[0] for one in ways["0.5, each row"].known} & {*values})
                each_level = 2 / 3 * epsilon / (len(job.by) + 1)
                most = NODES_OF_A_USER if job.user else 1
                paid = [each_level / (most if key else 1) for key in seen]
                held, bounds = [(key, values[key]) for key in seen], job.bounds["row"]
                nodes = truth(job.rows, job.by, job.user)
                told = peer_errors(nodes, held, paid, bounds, releases, python)
                ways["0.5, OpenDP, nodes known by ours"] = told
            for way, errors in ways.items():
                counted = (errors.rows, errors.rows - len(errors.known), errors.at_bound)
                both = [f"{errors.of(what, 0.5)}, {errors.of(what, 0.95)}" for what in (1, 2)]
                rows = [f"{n / releases:.1f}" for n in counted]
                told_all = f"{errors.mean()}, {errors.mean(errors.rows)}"
                bench.row(job.name, epsilon, way, *rows, *both, told_all, errors.coverage)


PARTS = {"parts": parts, "levels": levels, "data": data}


def main() -> None:
    given = bench.options(releases=20, python="", only=tuple(PARTS))
    for name in [given.only] if given.only else PARTS:
        PARTS[name](given.releases, given.python)


if __name__ == "__main__":
    main()
