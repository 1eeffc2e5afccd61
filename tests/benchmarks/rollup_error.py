"""Error of rolled-up sums and means, beside levels that are released one by one.

Run with ``python -m tests.benchmarks.rollup_error [--releases 10]``. Ours is ``dp.rollup`` as it
stands. The peer is what one builds with OpenDP or Tumult: on every level a count that discovers the
keys by a threshold, and a sum; (epsilon, delta) divided over all of them. It is given, in each
table, whatever of the following leaves it the least error over all nodes that both report:

* Laplace noise or Gaussian noise by zCDP, with OpenDP's own scales and thresholds;
* the count a third of the budget, as our selection, or a half;
* levels evenly, or more for levels with more nodes, by the true numbers of nodes, for free;
* sums of values, or of values less the middle of their bounds, one computed from the other and the
  count, so that sum and mean are one measurement;
* by user: totals of a user on a level cut to a bound in L1, as ours are over all parts, or L0 nodes
  a user with each total cut to a bound, the best of a grid; means of users who weigh 1 each.

The last column of "both" is the same peer with Gaussian noise by exact composition, which neither
library has. Errors are root mean squares; of records against the sums of cut values, which both
estimate, by user against the true sums, so that cutting counts. ``Shown`` are nodes of one release.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import opendp.prelude as odp
import pandas as pd
from numpy.typing import NDArray

import dpframe as dp
from dpframe.questions.rollup.count import count
from dpframe.questions.rollup.plan import RollupPlan
from tests.benchmarks.speed import SHARED

Reals = NDArray[np.float64]
Family = Literal["laplace", "zcdp", "exact"]

EPSILON, DELTA = 1.0, 1e-6
CONFIDENCES = (0.8, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is asked of one set."""

    name: str
    rows: pd.DataFrame
    by: tuple[str, ...]
    column: str
    bounds: tuple[float, float]
    user: str | None = None
    totals: tuple[float, float] = (0.0, 0.0)

    @property
    def measures(self) -> dict[str, dp.Measure]:
        low, high = self.bounds if self.user is None else self.totals
        return {
            "sum": dp.sum(self.column, lower=low, upper=high),
            "mean": dp.mean(self.column, lower=self.bounds[0], upper=self.bounds[1]),
        }


def retail(user: str | None = None) -> Job:
    by = ("department", "product_category", "product_type", "product_id")
    rows = _read("retail_completejourney", [*by, "sales_value", "user_id"])
    name = "retail_completejourney" + (", by household" if user else "")
    return Job(
        name=name,
        rows=rows,
        by=by,
        column="sales_value",
        bounds=(0.0, 20.0),
        user=user,
        totals=(0.0, 150.0),
    )


def flights(user: str | None = None) -> Job:
    by = ("origin", "dest", "carrier")
    rows = _read("flights_nyc13", [*by, "dep_delay", "user_id"])
    name = "flights_nyc13" + (", by aircraft" if user else "")
    return Job(
        name=name,
        rows=rows,
        by=by,
        column="dep_delay",
        bounds=(-30.0, 120.0),
        user=user,
        totals=(-200.0, 2000.0),
    )


def generated(levels: int = 4, fan: int = 6, rows: int = 200_000) -> Job:
    """Leaves with numbers of records as Zipf, values with a long tail."""
    rng = np.random.default_rng(18)
    leaves = fan**levels
    chance = 1 / np.arange(1, leaves + 1)
    leaf = rng.permutation(leaves)[rng.choice(leaves, rows, p=chance / chance.sum())]
    by = tuple(f"l{i + 1}" for i in range(levels))
    frame = pd.DataFrame({c: leaf // fan ** (levels - 1 - i) for i, c in enumerate(by)}).astype(str)
    frame["amount"] = rng.lognormal(3.0, 1.0, rows).round(2)
    return Job(
        name=f"generated, {fan} children a node",
        rows=frame,
        by=by,
        column="amount",
        bounds=(0.0, 100.0),
    )


def _read(name: str, columns: list[str]) -> pd.DataFrame:
    frame = pd.read_parquet(SHARED / f"{name}.parquet", columns=columns).dropna()
    for column in columns:
        if frame[column].dtype.kind not in "if":
            frame[column] = frame[column].astype(str)
    return frame


# -- truth -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Level:
    """True values of the nodes of one level, in the order of ``keys``, and what a user has there.

    ``count`` and ``centred`` are what a mean is made of: records, or users by their shares.
    ``user`` and ``node`` say of each pair whose it is, and ``totals`` what the user has there.
    """

    keys: list[tuple[str, ...]]
    sum: Reals
    mean: Reals
    count: Reals
    centred: Reals
    records: Reals
    user: NDArray[np.int64]
    node: NDArray[np.int64]
    totals: Reals


def truth(job: Job) -> list[Level]:
    rows, (low, high) = job.rows, job.bounds
    value = rows[job.column].to_numpy(np.float64)
    cut = np.clip(value, low, high)
    user = np.arange(len(rows))
    share = np.ones(len(rows))
    if job.user is not None:
        user = pd.factorize(rows[job.user])[0]
        share = 1 / np.bincount(user)[user]
    levels = []
    for depth in range(len(job.by) + 1):
        if depth:
            groups = rows.groupby(list(job.by[:depth]), sort=False)
            node = groups.ngroup().to_numpy()
            first = rows[list(job.by[:depth])].iloc[np.unique(node, return_index=True)[1]]
            keys = list(first.itertuples(index=False, name=None))
        else:
            node, keys = np.zeros(len(rows), dtype=np.int64), [()]
        sums = np.bincount(node, value if job.user else cut)
        weight = np.bincount(node, share)
        centred = np.bincount(node, share * (cut - (low + high) / 2), len(keys))
        pairs, inverse = np.unique(user * len(keys) + node, return_inverse=True)
        levels.append(
            Level(
                keys=keys,
                sum=sums,
                mean=centred / weight + (low + high) / 2,
                count=weight,
                centred=centred,
                records=np.bincount(node).astype(float),
                user=pairs // len(keys),
                node=pairs % len(keys),
                totals=np.bincount(inverse, value if job.user else cut),
            )
        )
    return levels


# -- ours ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One release: for every level the places of its nodes in the truth, sums and means."""

    place: list[NDArray[np.int64]]
    sum: list[Reals]
    mean: list[Reals]


class Ours:
    """Releases of one job, counted once; and how often their intervals held."""

    def __init__(self, job: Job, levels: list[Level]) -> None:
        self.job, self.levels = job, levels
        self.places = [{key: i for i, key in enumerate(level.keys)} for level in levels]
        self.plans = [self._plan(confidence) for confidence in CONFIDENCES]
        self.counted = count(job.rows, self.plans[0], False)
        self.held: dict[tuple[str, float], list[float]] = {}
        self.weights: Any = None

    def _plan(self, confidence: float) -> RollupPlan:
        explained = dp.explain_rollup(
            list(self.job.by),
            self.job.measures,
            epsilon=EPSILON,
            delta=DELTA,
            user=self.job.user,
            confidence=confidence,
        )
        plan: RollupPlan = explained.plan
        return plan

    def release(self) -> Reported:
        noisy = self.plans[0].run(self.counted.private)
        self.weights = noisy.measures["sum"][0].weights
        frame = self.plans[0].frame(noisy, self.counted.types)
        places = self._places(frame)
        self._cover(noisy, places, frame["level"].to_numpy())
        level = frame["level"].to_numpy()
        split = [np.flatnonzero(level == at) for at in range(len(self.levels))]
        return Reported(
            place=[places[here] for here in split],
            sum=[frame["sum"].to_numpy()[here] for here in split],
            mean=[frame["mean"].to_numpy()[here] for here in split],
        )

    def _places(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        keys = frame[list(self.job.by)].itertuples(index=False, name=None)
        depths = frame["level"]
        found = [
            self.places[d][tuple(str(k) for k in key[:d])]
            for d, key in zip(depths, keys, strict=True)
        ]
        return np.array(found)

    def _cover(self, noisy: Any, places: NDArray[np.int64], level: NDArray[np.int64]) -> None:
        """Of sums by record only, and of means: cutting of users is no noise."""
        for plan in self.plans:
            frame = plan.frame(noisy, self.counted.types)
            for what in ("sum", "mean") if self.job.user is None else ("mean",):
                true = np.array(
                    [getattr(self.levels[d], what)[p] for d, p in zip(level, places, strict=True)]
                )
                inside = (frame[f"{what}_lower"] - 1e-6 <= true) & (
                    true <= frame[f"{what}_upper"] + 1e-6
                )
                for d in range(len(self.levels)):
                    if (level == d).any():
                        self.held.setdefault((what, plan.confidence), []).extend(inside[level == d])


# -- the peer --------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _spaces() -> tuple[Any, Any, Any]:
    odp.enable_features("contrib")
    domain = odp.map_domain(odp.atom_domain(T="String"), odp.atom_domain(T="i64"))
    distance = odp.absolute_distance(T="i64")
    return domain, odp.l01inf_distance(distance), odp.l02inf_distance(distance)


@lru_cache(maxsize=1024)
def threshold(family: Family, scale: float, delta: float, nodes: int = 1) -> int:
    """The least one of OpenDP for a unit in so many nodes, with a count of 1 in each."""
    domain, l1, l2 = _spaces()
    low, high = 1, 10_000_000
    while high - low > 1:
        middle = (low + high) // 2
        if family == "laplace":
            made = odp.m.make_laplace_threshold(domain, l1, scale=scale, threshold=middle)
            spent = made.map((nodes, nodes, 1))[1]
        else:
            made = odp.m.make_gaussian_threshold(domain, l2, scale=scale, threshold=middle)
            spent = made.map((nodes, math.isqrt(nodes - 1) + 1, 1))[1]
        low, high = (low, middle) if spent <= delta else (middle, high)
    return high


@lru_cache(maxsize=8)
def rho(family: Family, delta: float) -> float:
    """What all Gaussian noises may spend: sum of (sensitivity / sd) ** 2 / 2."""
    _spaces()
    if family == "exact":
        normal, low, high = NormalDist(), 1e-3, 10.0
        for _ in range(100):
            mu = (low + high) / 2
            spent = normal.cdf(mu / 2 - EPSILON / mu) - math.exp(EPSILON) * normal.cdf(
                -mu / 2 - EPSILON / mu
            )
            low, high = (mu, high) if spent <= delta else (low, mu)
        return low**2 / 2
    space = odp.vector_domain(odp.atom_domain(T="i64")), odp.l2_distance(T="i64")
    low, high = 1e-6, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        made = odp.m.make_gaussian(*space, scale=math.sqrt(0.5 / middle))
        profile = odp.c.make_zCDP_to_approxDP(made).map(1)
        low, high = (middle, high) if profile.epsilon(delta) <= EPSILON else (low, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class Division:
    """How a peer divides its budget."""

    family: Family
    counting: float
    by_nodes: bool
    centred: bool

    def __str__(self) -> str:
        parts = [self.family, f"count {self.counting:.2f}"]
        parts += ["levels by nodes"] if self.by_nodes else ["levels even"]
        return ", ".join(parts + (["centred"] if self.centred else []))

    def deviation(self, part: float, *, l1: float, l2: float) -> float:
        """Of noise for a vector of these sensitivities, with this part of everything."""
        if self.family == "laplace":
            return math.sqrt(2) * l1 / (EPSILON * part)
        return l2 / math.sqrt(2 * part * rho(self.family, DELTA / 2))

    def parts(self, levels: list[Level]) -> Reals:
        """Of the budget, for every level: those with the least sum of squared errors."""
        nodes = np.array([len(level.keys) for level in levels], dtype=float)
        if not self.by_nodes:
            nodes[:] = 1
        weights: Reals = nodes ** (1 / 3 if self.family == "laplace" else 1 / 2)
        return weights / weights.sum()


def divisions(families: tuple[Family, ...], by_user: bool) -> Iterator[Division]:
    choices = itertools.product(
        families, (1 / 3, 1 / 2), (False, True), (False,) if by_user else (False, True)
    )
    for family, counting, by_nodes, centred in choices:
        yield Division(family=family, counting=counting, by_nodes=by_nodes, centred=centred)


class Peer:
    """Releases of one job, level by level."""

    def __init__(self, job: Job, levels: list[Level]) -> None:
        self.job, self.levels = job, levels
        self.rng = np.random.default_rng(7)
        self.bounded = {}
        if job.user is not None:
            self.bounded = {at: self._bounded(level) for at, level in enumerate(levels)}

    def release(self, how: Division) -> Reported:
        parts = how.parts(self.levels)
        each = [
            self._by_user(at, how, part) if self.job.user else self._by_record(at, how, part)
            for at, part in enumerate(parts)
        ]
        place, sums, means = (list(column) for column in zip(*each, strict=True))
        return Reported(place=place, sum=sums, mean=means)

    def _noise(self, how: Division, part: float, size: int, l1: float, l2: float) -> Reals:
        sd = how.deviation(part, l1=l1, l2=l2)
        if how.family == "laplace":
            return self.rng.laplace(0, sd / math.sqrt(2), size)
        return self.rng.normal(0, sd, size)

    def _delta(self, how: Division) -> float:
        """Of one level; the root is always shown."""
        return DELTA / (len(self.levels) - 1) / (1 if how.family == "laplace" else 2)

    def _shown(self, at: int, how: Division, noisy: Reals, sd: float, nodes: int) -> Any:
        if at == 0:
            return np.arange(1)
        scale = sd / math.sqrt(2) if how.family == "laplace" else sd
        return np.flatnonzero(noisy >= threshold(how.family, scale, self._delta(how), nodes))

    def _by_record(self, at: int, how: Division, part: float) -> tuple[Any, Reals, Reals]:
        level, (low, high) = self.levels[at], self.job.bounds
        middle, n = (low + high) / 2, len(level.keys)
        counting = part * how.counting
        sd = how.deviation(counting, l1=1, l2=1)
        number = level.records + self._noise(how, counting, n, 1, 1)
        most = (high - low) / 2 if how.centred else max(abs(low), abs(high))
        exact = level.centred if how.centred else level.sum
        added = exact + self._noise(how, part - counting, n, most, most)
        place = self._shown(at, how, number, sd, 1)
        number, added = number[place], added[place]
        below = np.maximum(number, 1)
        sums = added + middle * number if how.centred else added
        means = middle + added / below if how.centred else added / below
        return place, sums, np.clip(means, low, high)

    def _by_user(self, at: int, how: Division, part: float) -> tuple[Any, Reals, Reals]:
        """Keys, sum and mean a third each, the mean as ours: (centred 3/5, users 2/5)."""
        level, (low, high) = self.levels[at], self.job.bounds
        counting, n = part * how.counting, len(level.keys)
        rest = (part - counting) / 2
        touched, users = self._users(level)
        l1, l2 = float(touched), math.sqrt(touched)
        sd = how.deviation(counting, l1=l1, l2=l2)
        number = users + self._noise(how, counting, n, l1, l2)
        place = self._shown(at, how, number, sd, touched)
        exact, l1, l2 = min(
            self.bounded[at],
            key=lambda c: float(
                np.mean((c[0] - level.sum)[place] ** 2)
                + how.deviation(rest, l1=c[1], l2=c[2]) ** 2
            ),
        )
        sums = exact + self._noise(how, rest, n, l1, l2)
        half = (high - low) / 2
        centred = level.centred + self._noise(how, 0.6 * rest, n, half, half)
        present = level.count + self._noise(how, 0.4 * rest, n, 1, 1)
        means = (low + high) / 2 + centred / np.maximum(present, 1)
        return place, sums[place], np.clip(means, low, high)[place]

    def _users(self, level: Level) -> tuple[int, Reals]:
        """Users a node, each in 4 nodes of a level at most, drawn at random."""
        kept = self._kept(level, 4)
        most = min(4, len(level.keys))
        return most, np.bincount(level.node[kept], minlength=len(level.keys)).astype(float)

    def _kept(self, level: Level, most: int) -> NDArray[np.bool_]:
        order = np.lexsort((self.rng.random(len(level.user)), level.user))
        user = level.user[order]
        first = np.searchsorted(user, user)
        kept = np.zeros(len(user), dtype=bool)
        kept[order] = np.arange(len(user)) - first < most
        return kept

    def _bounded(self, level: Level) -> list[tuple[Reals, float, float]]:
        """Sums of cut totals with their sensitivities, L1 and L2, for a grid of bounds."""
        low, high = self.job.totals
        n, choices = len(level.keys), []
        for factor in (0.1, 0.25, 0.5, 1.0, 2.0):
            size = np.bincount(level.user, np.abs(level.totals))
            most = factor * max(abs(low), abs(high))
            fitting = np.minimum(1.0, most / np.maximum(size, 1e-9))[level.user]
            cut = np.bincount(level.node, level.totals * fitting, n)
            choices.append((cut, most, most))
        for nodes, factor in itertools.product((1, 2, 4, 8, 16, 32), (0.02, 0.05, 0.1, 0.25, 0.5)):
            nodes = min(nodes, n)
            each = factor * max(abs(low), abs(high))
            kept = self._kept(level, nodes)
            cut = np.bincount(level.node[kept], np.clip(level.totals[kept], -each, each), n)
            choices.append((cut, nodes * each, math.sqrt(nodes) * each))
        return choices


# -- errors ----------------------------------------------------------------------------------------


class Errors:
    """Sums of squared errors, by measure and level, over what is reported and over what both do."""

    def __init__(self, levels: list[Level]) -> None:
        self.levels, zeros = levels, np.zeros(len(levels))
        self.squares = {(w, s): zeros.copy() for w in ("sum", "mean") for s in ("own", "both")}
        self.nodes = {"own": zeros.copy(), "both": zeros.copy()}
        self.releases = 0

    def add(self, found: Reported, other: Reported) -> None:
        self.releases += 1
        for at, level in enumerate(self.levels):
            place = found.place[at]
            both = np.isin(place, other.place[at])
            self.nodes["own"][at] += len(place)
            self.nodes["both"][at] += both.sum()
            for what in ("sum", "mean"):
                square = (getattr(found, what)[at] - getattr(level, what)[place]) ** 2
                self.squares[what, "own"][at] += square.sum()
                self.squares[what, "both"][at] += square[both].sum()

    def rmse(self, what: str, over: str) -> list[float]:
        """A level, and over all nodes."""
        squares, nodes = self.squares[what, over], self.nodes[over]
        with np.errstate(invalid="ignore", divide="ignore"):
            return [*np.sqrt(squares / nodes).tolist(), math.sqrt(squares.sum() / nodes.sum())]


def best(
    peer: Peer, ours: list[Reported], what: str, families: tuple[Family, ...], by_user: bool
) -> tuple[Division, Errors, Errors]:
    """The division with the least error over all nodes that both report; and ours beside it."""
    tried = []
    for how in divisions(families, by_user):
        theirs, own = Errors(peer.levels), Errors(peer.levels)
        for release in ours:
            found = peer.release(how)
            theirs.add(found, release)
            own.add(release, found)
        tried.append((theirs.rmse(what, "both")[-1], how, theirs, own))
    _, how, theirs, own = min(tried, key=lambda one: one[0])
    return how, theirs, own


def table(job: Job, releases: int) -> None:
    levels = truth(job)
    ours, peer = Ours(job, levels), Peer(job, levels)
    found = [ours.release() for _ in range(releases)]
    weights = ", ".join(f"{at}: {float(w):.2f}" for at, w in ours.weights.items())
    print(f"\n{job.name}: {len(job.rows)} rows; weights {weights} (-1: parts)")
    by_user = job.user is not None
    for what in ("sum", "mean"):
        how, theirs, own = best(peer, found, what, ("laplace", "zcdp"), by_user)
        _, exact, _ = best(peer, found, what, ("exact",), by_user)
        print(f"\n{what}, epsilon {EPSILON:g}, delta {DELTA:g}; peer: {how}\n")
        print("| level | shown | peer shows | both: ours | peer | ratio | exact | "
              "all of each: ours | peer | ratio |")  # fmt: skip
        print("| --- |" + " --- |" * 9)
        columns = [
            own.rmse(what, "both"),
            theirs.rmse(what, "both"),
            exact.rmse(what, "both"),
            own.rmse(what, "own"),
            theirs.rmse(what, "own"),
        ]
        shown = [e.nodes["own"] / releases for e in (own, theirs)]
        shown = [np.append(s, s.sum()) for s in shown]
        for at in range(len(levels) + 1):
            a, b, c, d, e = (column[at] for column in columns)
            name = "all" if at == len(levels) else str(at)
            print(f"| {name} | {shown[0][at]:.0f} | {shown[1][at]:.0f} | {a:.4g} | {b:.4g} | "
                  f"{a / b:.2f} | {c:.4g} | {d:.4g} | {e:.4g} | {d / e:.2f} |")  # fmt: skip
    print("\n" + "; ".join(
        f"{what} at {confidence:g}: {np.mean(held):.4f} of {len(held)}"
        for (what, confidence), held in ours.held.items()
    ))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=10)
    options = parser.parse_args()
    for job in (generated(), retail(), flights(), retail("user_id"), flights("user_id")):
        table(job, options.releases)


if __name__ == "__main__":
    main()
