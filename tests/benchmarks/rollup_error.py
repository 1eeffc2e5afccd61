"""Error of rolled-up sums and means, beside levels that are released one by one.

Run with ``python -m tests.benchmarks.rollup_error [--releases 10]``, with
``pip install opendp==0.16`` beside the extras for tests. Ours is ``dp.rollup`` as it
stands, asked for a sum and a mean in one call where it reads both from one draw (by record, one
bound 0), else for each alone. The peer is what one builds with OpenDP or in
Tumult's way: on every level a count that discovers the keys by a threshold, and a sum, (epsilon,
delta) divided over all of them. Two peers: one divides evenly over levels; the other gives more to
levels with more nodes, by their true numbers, which it is told for free, so that its error over all
nodes is the least. Each has, in every table, whatever of the following leaves the least error over
the nodes that both report:

* Laplace noise or Gaussian noise by zCDP, with OpenDP's own scales and thresholds;
* the count a third, a half or two thirds of the budget;
* sums of values, or of values less the middle of their bounds, where the count adds the rest;
* by user: totals of a user on a level cut to a bound in L1, as ours are over all parts, or m nodes
  a user, 1 to 32, with each total cut to a bound; means of users who weigh 1 each. Sums by user
  have two tables: in one both have the same bounds (m nodes a user are cut to these bounds each, or
  to the m-th part of them), in the other each is told the best ones of a grid for free, the peer on
  every level, ours for the release.

Root mean squared errors; of records against sums of cut values, which both estimate, by user
against true sums, so that cutting counts. Noise that does not decide what is shown enters sums by
its variance and not by draws, and so do means of many values, to the first order. Errors are over
the nodes that ours and that peer show. The second table is one of heights: sixteen equal leaves
under binary hierarchies that are ever deeper, the error of a sum in units of the largest value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpframe as dp
from dpframe.asking.node_frame import node_columns
from dpframe.postprocess.strategy import subtree_sums
from dpframe.questions.rollup.ask import count
from dpframe.questions.rollup.plan import RollupPlan
from tests.benchmarks import bench
from tests.benchmarks.bench import SHARED

Reals = NDArray[np.float64]
Family = Literal["laplace", "zcdp"]
What = Literal["sum", "mean"]

EPSILON, DELTA = 1.0, 1e-6
WHATS: tuple[What, ...] = ("sum", "mean")
CONFIDENCES = (0.8, 0.95, 0.99)

MANY = 20
"""Standard deviations of the noise in their number, from which on values are many."""

FACTORS = (0.1, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0)
"""Of the bounds of a user's total, where they are told."""


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

    def bounded(self, factor: float) -> Job:
        """With other bounds of a user's total."""
        low, high = self.totals
        return replace(self, totals=(factor * low, factor * high))

    def with_(self, what: What) -> tuple[What, ...]:
        """What is asked for in one call."""
        return WHATS if self.user is None and 0 in self.bounds else (what,)

    def measure(self, what: What) -> dp.Measure:
        low, high = self.bounds if self.user is None or what == "mean" else self.totals
        return (dp.sum if what == "sum" else dp.mean)(self.column, lower=low, upper=high)


def retail(user: str | None = None) -> Job:
    by = ("department", "product_category", "product_type", "product_id")
    return _job("retail_completejourney", by, "sales_value", user, (0.0, 20.0), (0.0, 480.0))


def flights(user: str | None = None) -> Job:
    by = ("origin", "dest", "carrier")
    return _job("flights_nyc13", by, "dep_delay", user, (-30.0, 120.0), (-500.0, 5500.0))


def _job(name: str, by: tuple[str, ...], column: str, user: str | None, *ends: Any) -> Job:
    rows, (bounds, totals) = _read(name, [*by, column, "user_id"]), ends
    name += ", by user" if user else ""
    return Job(name=name, rows=rows, by=by, column=column, bounds=bounds, user=user, totals=totals)


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
    """One release: for every level the places of its nodes in the truth, and squared errors."""

    place: list[NDArray[np.int64]]
    square: list[Reals]


class Listening:
    """True numbers of the parts, as the statements of a release returned them."""

    def __init__(self, counted: Any) -> None:
        self._counted, self.counts = counted, counted.counts
        self.seen: list[NDArray[np.object_]] = []

    def parts(self, *given: Any) -> list[NDArray[np.object_]]:
        self.seen = self._counted.parts(*given)
        return self.seen


class Ours:
    """Releases of one measure, counted once; and how often their intervals held."""

    def __init__(self, job: Job, levels: list[Level], what: What, share: float | None) -> None:
        self.job, self.levels, self.what, self.share = job, levels, what, share
        self.places = [{key: i for i, key in enumerate(level.keys)} for level in levels]
        self.plans = [self._plan(confidence) for confidence in CONFIDENCES]
        counted = count(job.rows, self.plans[0], False)
        self.types, self.private = counted.types, Listening(counted.private)
        self.held: dict[float, list[bool]] = {confidence: [] for confidence in CONFIDENCES}

    def _plan(self, confidence: float) -> RollupPlan:
        explained = dp.explain_rollup(
            list(self.job.by),
            {what: self.job.measure(what) for what in WHATS if what in self.job.with_(self.what)},
            epsilon=EPSILON,
            delta=DELTA,
            user=self.job.user,
            contribution="auto" if self.job.user is None else "share",  # as numbers add up
            confidence=confidence,
            selection_share=self.share,
        )
        plan: RollupPlan = explained.plan
        return plan

    def release(self) -> Reported:
        noisy = self.plans[0].run(self.private)
        estimate = noisy.measures[self.what][0]
        frame = self.plans[0].frame(noisy, self.types)
        keys = frame[list(self.job.by)].itertuples(index=False, name=None)
        level = frame["level"].to_numpy()
        place = np.array(
            [
                self.places[d][tuple(str(k) for k in key[:d])]
                for d, key in zip(level, keys, strict=True)
            ]
        )
        order, _ = node_columns(self.plans[0].hierarchy, noisy.nodes.level, noisy.nodes.keys)
        true = cut = self._true(self.what, level, place)
        if self.what == "sum" and self.job.user is not None:
            exact = subtree_sums(self.private.seen[0], noisy.nodes.ancestor).astype(np.float64)
            cut = exact[order] * estimate.bounds.step
        for plan in self.plans:
            ends = plan.frame(noisy, self.types)
            low, high = (ends[f"{self.what}_{end}"].to_numpy() for end in ("lower", "upper"))
            self.held[plan.confidence] += ((low - 1e-6 <= cut) & (cut <= high + 1e-6)).tolist()
        ends = frame[f"{self.what}_lower"] + frame[f"{self.what}_upper"]
        told = frame[self.what].fillna(
            ends / 2
        )  # a mean of which nothing is known is in the middle
        square = (told.to_numpy() - true) ** 2
        variance = estimate.variance[order] * estimate.bounds.step**2
        if self.what == "sum":
            square = (cut - true) ** 2 + variance
        if self.what == "mean":  # A and B of docs/rollup.md have this variance each
            (low, high), n = self.job.bounds, self._true("count", level, place)
            far = (true - low) / (high - low)
            many = n > MANY * np.sqrt(2 * variance) / (high - low)
            square = np.where(many, (far**2 + (1 - far) ** 2) * variance / n**2, square)
        split = [np.flatnonzero(level == at) for at in range(len(self.levels))]
        return Reported(place=[place[i] for i in split], square=[square[i] for i in split])

    def _true(self, what: str, level: NDArray[np.int64], place: NDArray[np.int64]) -> Reals:
        true = np.empty(len(level))
        for at, one in enumerate(self.levels):
            here = level == at
            true[here] = getattr(one, what)[place[here]]
        return true


# -- the peer --------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _opendp() -> Any:
    """OpenDP, which no test needs: a benchmark asks for it when it runs."""
    odp = import_module("opendp.prelude")
    odp.enable_features("contrib")
    return odp


@lru_cache(maxsize=1)
def _spaces() -> tuple[Any, Any, Any]:
    odp = _opendp()
    domain = odp.map_domain(odp.atom_domain(T="String"), odp.atom_domain(T="i64"))
    distance = odp.absolute_distance(T="i64")
    return domain, odp.l01inf_distance(distance), odp.l02inf_distance(distance)


@lru_cache(maxsize=1024)
def threshold(family: Family, scale: float, delta: float, nodes: int = 1) -> int:
    """The least one of OpenDP for a unit in so many nodes, with a count of 1 in each."""
    odp, (domain, l1, l2) = _opendp(), _spaces()
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


@lru_cache(maxsize=1)
def rho() -> float:
    """What all Gaussian noises may spend, by OpenDP: sum of (sensitivity / sd) ** 2 / 2. Half of
    delta is for it, the other half for thresholds."""
    odp = _opendp()
    space = odp.vector_domain(odp.atom_domain(T="i64")), odp.l2_distance(T="i64")
    low, high = 1e-6, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        made = odp.m.make_gaussian(*space, scale=math.sqrt(0.5 / middle))
        profile = odp.c.make_zCDP_to_approxDP(made).map(1)
        low, high = (middle, high) if profile.epsilon(DELTA / 2) <= EPSILON else (low, middle)
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
        return ", ".join(parts + (["centred"] if self.centred else []))

    def deviation(self, part: float, *, l1: float, l2: float) -> float:
        """Of noise for a vector of these sensitivities, with this part of everything."""
        if self.family == "laplace":
            return math.sqrt(2) * l1 / (EPSILON * part)
        return l2 / math.sqrt(2 * part * rho())

    def parts(self, levels: list[Level]) -> Reals:
        """Of the budget, for every level: those with the least sum of squared errors."""
        nodes = np.array([len(level.keys) for level in levels], dtype=float)
        if not self.by_nodes:
            nodes[:] = 1
        weights: Reals = nodes ** (1 / 3 if self.family == "laplace" else 1 / 2)
        return weights / weights.sum()


def divisions(by_nodes: bool, by_user: bool) -> Iterator[Division]:
    families: tuple[Family, ...] = ("laplace", "zcdp")
    for family, counting, centred in itertools.product(
        families, (1 / 3, 1 / 2, 2 / 3), (False,) if by_user else (False, True)
    ):
        yield Division(family=family, counting=counting, by_nodes=by_nodes, centred=centred)


class Peer:
    """Releases of one measure, level by level."""

    def __init__(self, job: Job, levels: list[Level], what: What, *, told: bool = True) -> None:
        self.job, self.levels, self.what, self.told = job, levels, what, told
        self.rng = np.random.default_rng(7)
        self.bounded = {}
        if job.user is not None and what == "sum":
            self.bounded = {at: self._bounded(level) for at, level in enumerate(levels)}

    def release(self, how: Division) -> Reported:
        parts = how.parts(self.levels)
        each = [
            self._by_user(at, how, part) if self.job.user else self._by_record(at, how, part)
            for at, part in enumerate(parts)
        ]
        place, square = (list(column) for column in zip(*each, strict=True))
        return Reported(place=place, square=square)

    def _noise(self, how: Division, part: float, size: int, l1: float, l2: float) -> Reals:
        sd = how.deviation(part, l1=l1, l2=l2)
        if how.family == "laplace":
            return self.rng.laplace(0, sd / math.sqrt(2), size)
        return self.rng.normal(0, sd, size)

    def _delta(self, how: Division) -> float:
        """Of one level; the root is always shown."""
        return DELTA / (len(self.levels) - 1) / (1 if how.family == "laplace" else 2)

    def _show(self, at: int, how: Division, noisy: Reals, sd: float, nodes: int) -> Any:
        if at == 0:
            return np.arange(1)
        scale = sd / math.sqrt(2) if how.family == "laplace" else sd
        return np.flatnonzero(noisy >= threshold(how.family, scale, self._delta(how), nodes))

    def _by_record(self, at: int, how: Division, part: float) -> tuple[Any, Reals]:
        level, (low, high) = self.levels[at], self.job.bounds
        middle, n = (low + high) / 2, len(level.keys)
        counting = part * how.counting
        sd = how.deviation(counting, l1=1, l2=1)
        number = level.records + self._noise(how, counting, n, 1, 1)
        most = (high - low) / 2 if how.centred else max(abs(low), abs(high))
        exact = level.centred if how.centred else level.sum
        added = exact + self._noise(how, part - counting, n, most, most)
        place = self._show(at, how, number, sd, 1)
        number, added = number[place], added[place]
        if self.what == "sum":
            own = how.deviation(part - counting, l1=most, l2=most)
            of_count = number - level.records[place] if at else np.array([sd])
            return place, own**2 + (middle * of_count if how.centred else 0 * of_count) ** 2
        below = np.maximum(number, 1)
        means = middle + added / below if how.centred else added / below
        n, mean = level.records[place], level.mean[place]
        own = how.deviation(part - counting, l1=most, l2=most)
        of_number = (mean - middle if how.centred else mean) * sd
        square = np.where(n > MANY * sd, (own**2 + of_number**2) / n**2,
                          (np.clip(means, low, high) - mean) ** 2)  # fmt: skip
        return place, square

    def _by_user(self, at: int, how: Division, part: float) -> tuple[Any, Reals]:
        level, (low, high) = self.levels[at], self.job.bounds
        counting, n = part * how.counting, len(level.keys)
        rest = part - counting
        touched, users = self._users(level)
        l1, l2 = float(touched), math.sqrt(touched)
        sd = how.deviation(counting, l1=l1, l2=l2)
        number = users + self._noise(how, counting, n, l1, l2)
        place = self._show(at, how, number, sd, touched)
        if self.what == "mean":  # as ours: a centred sum and a number of users by their shares
            half = (high - low) / 2
            centred = level.centred + self._noise(how, 0.6 * rest, n, half, half)
            present = level.count + self._noise(how, 0.4 * rest, n, 1, 1)
            means = np.clip((low + high) / 2 + centred / np.maximum(present, 1), low, high)
            own, of_number = (
                how.deviation(of * rest, l1=one, l2=one) for of, one in ((0.6, half), (0.4, 1.0))
            )
            square = np.where(
                level.count > MANY * of_number,
                (own**2 + (level.mean - (low + high) / 2) ** 2 * of_number**2) / level.count**2,
                (means - level.mean) ** 2,
            )
            return place, square[place]
        squares = [  # bias and the variance of the noise
            (exact - level.sum)[place] ** 2 + how.deviation(rest, l1=one, l2=two) ** 2
            for exact, one, two in self.bounded[at]
        ]
        return place, min(squares, key=lambda square: float(square.sum()))

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
        """Sums of cut totals with their sensitivities, L1 and L2: for the bounds that ours has, or
        for a grid of bounds."""
        low, high = self.job.totals
        n, choices = len(level.keys), []
        for factor in FACTORS if self.told else (1.0,):
            size = np.bincount(level.user, np.abs(level.totals))
            most = factor * max(abs(low), abs(high))
            fitting = np.minimum(1.0, most / np.maximum(size, 1e-9))[level.user]
            cut = np.bincount(level.node, level.totals * fitting, n)
            choices.append((cut, most, most))
        grid = (0.02, 0.05, 0.1, 0.25, 0.5)
        for nodes, place in itertools.product((1, 2, 4, 8, 16, 32), range(len(grid))):
            nodes = min(nodes, n)
            factors = grid if self.told else (1.0, 1 / nodes)
            if place >= len(factors):
                continue
            each = factors[place] * max(abs(low), abs(high))
            kept = self._kept(level, nodes)
            cut = np.bincount(level.node[kept], np.clip(level.totals[kept], -each, each), n)
            choices.append((cut, nodes * each, math.sqrt(nodes) * each))
        return choices


# -- errors ----------------------------------------------------------------------------------------


class Errors:
    """Sums of squared errors a level, over the nodes that another reports, too."""

    def __init__(self, levels: int) -> None:
        self.square, self.nodes, self.own = np.zeros(levels), np.zeros(levels), 0.0
        self.releases = 0

    def add(self, found: Reported, other: Reported) -> None:
        self.releases += 1
        for at, (place, square) in enumerate(zip(found.place, found.square, strict=True)):
            both = np.isin(place, other.place[at])
            self.own += len(place)
            self.nodes[at] += both.sum()
            self.square[at] += square[both].sum()

    def rmse(self) -> Reals:
        """A level, and over all nodes."""
        square, nodes = (np.append(sums, sums.sum()) for sums in (self.square, self.nodes))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.sqrt(square / nodes))

    @property
    def shown(self) -> float:
        return self.own / self.releases


def beside(peer: Peer, ours: list[Reported], how: Division) -> tuple[Errors, Errors]:
    """Ours and the peer's."""
    own, theirs = Errors(len(peer.levels)), Errors(len(peer.levels))
    for release in ours:
        found = peer.release(how)
        own.add(release, found)
        theirs.add(found, release)
    return own, theirs


def best(peer: Peer, ours: list[Reported], by_nodes: bool) -> Division:
    """The division with the least error over the nodes that both report, of those of the two that
    show the most nodes of all of them by half at least: who shows nothing has no error."""
    tried = []
    for how in divisions(by_nodes, peer.job.user is not None):
        _, theirs = beside(peer, ours[:3], how)
        tried.append((float(theirs.rmse()[-1]), theirs.shown, how))
    most = max(shown for _, shown, _ in tried)
    return min((one for one in tried if one[1] >= most / 2), key=lambda one: one[0])[-1]


def told_bounds(job: Job, levels: list[Level], share: float | None) -> Job:
    """With those of the grid that leave ours the least error of sums."""

    def error(factor: float) -> float:
        ours = Ours(job.bounded(factor), levels, "sum", share)
        squares = [np.concatenate(ours.release().square) for _ in range(6)]
        return float(np.concatenate(squares).mean())

    return job.bounded(min(FACTORS, key=error))


def table(job: Job, what: What, releases: int, share: float | None, *, told: bool = False) -> None:
    levels = truth(job)
    peer = Peer(job, levels, what, told=told)
    if told:
        job = told_bounds(job, levels, share)
    ours = Ours(job, levels, what, share)
    found = [ours.release() for _ in range(releases)]
    divided = [best(peer, found, by_nodes) for by_nodes in (False, True)]
    pairs = [beside(peer, found, how) for how in divided]
    (own, even), (own_told, of_told) = pairs
    with np.errstate(invalid="ignore", divide="ignore"):
        *levels_even, all_even = own.rmse() / even.rmse()
        all_told = (own_told.rmse() / of_told.rmse())[-1]
    bench.row(
        f"{job.name}, {what}{', each told its best bounds' if told else ''}",
        ", ".join(f"{one.shown:.0f}" for one in (own, even, of_told)),
        *(f"{ratio:.2f}" for ratio in (all_even, np.nanmax(levels_even), all_told)),
        ", ".join(f"{np.mean(held):.4f} at {at:g}" for at, held in ours.held.items()),
        f"{divided[0]}; {divided[1]}",
    )


def heights() -> None:
    """The same sixteen leaves, with 10,000 records each, at the end of longer and longer chains."""
    print("\nsum, sixteen leaves under chains\n")
    bench.head("levels", "ours, finest level", "ours, worst level", "peer, even")
    leaf = np.repeat(np.arange(16), 10_000)
    for depth in (4, 8, 16, 32):
        rows = pd.DataFrame({"x": leaf * 2.0 ** (depth - 4) + 0.5, "amount": 1.0})
        by = f"number:x?lower=0&upper={2**depth}&depth={depth}"
        measures = {"sum": dp.sum("amount", lower=0, upper=1)}
        plan: Any = dp.explain_rollup(by, measures, epsilon=EPSILON, delta=DELTA).plan
        noisy = plan.run(count(rows, plan, False).private)
        found = noisy.measures["sum"][0]
        square = found.variance * found.bounds.step**2
        level = noisy.nodes.level
        errors = [math.sqrt(square[level == at].mean()) for at in range(int(level.max()) + 1)]
        peers = [
            math.hypot(*(how.deviation(each / (depth + 1), l1=by, l2=by) for each, by in ways))
            for how in divisions(False, False)
            for ways in (
                ((1 - how.counting, 0.5), (how.counting, 0.5))
                if how.centred
                else ((1 - how.counting, 1.0),),
            )
        ]
        figures = (errors[-1], max(errors), min(peers))
        bench.row(depth, *(f"{error:.2f}" for error in figures))


def main() -> None:
    given = bench.options(releases=10, selection_share=0.0)
    share = given.selection_share or None
    ratios = ("ours / even, all nodes", "worst level", "ours / told, all nodes")
    bench.head("set, measure", "shown: ours, even, told", *ratios, "intervals hold", "peers")
    for job in (generated(), retail(), flights(), retail("user_id"), flights("user_id")):
        for what in WHATS:
            table(job, what, given.releases, share)
        if job.user is not None:
            table(job, "sum", given.releases, share, told=True)
    heights()


if __name__ == "__main__":
    main()
