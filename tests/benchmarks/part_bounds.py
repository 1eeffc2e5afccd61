"""Error of sums by user, if the bound of a part followed from how many users it has.

Run with ``python -m tests.benchmarks.part_bounds [--releases 8]``, with ``pip install
opendp==0.16`` beside the extras for tests. A part of size n has the bound m B n^a, normed so that
the mean over the sizes is m B, where B is the bound that is passed; no part counts as smaller than
``least``. A user is cut where what they have, in these bounds, adds up to more than 1. Parts alone
get noise. Sizes are *users* or their *shares* at parts; *paid* for are shares with noise of 0.05 of
epsilon. Errors are expected ones, from true sums, over the nodes that ours and the even peer of
:mod:`tests.benchmarks.rollup_error` show, in parts of the peer's error. For each kind of size the
rules are shown that are best for one set, and the one that is best for both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks import bench
from tests.benchmarks.rollup_error import (
    Job,
    Level,
    Ours,
    Peer,
    Reported,
    best,
    flights,
    retail,
    truth,
)

Reals = NDArray[np.float64]

MEASURED, FOR_SIZES = 2 / 3, 0.05
"""Epsilon of the sums, and that part of it which noise of sizes takes."""

POWERS, FACTORS = (0.25, 0.375, 0.5, 0.625, 0.75), (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.7)
LEAST = (5, 10, 20, 40, 80)
SIZES = ("users", "shares", "shares, paid")


class Rule(NamedTuple):
    power: float
    factor: float
    least: float


RULES = [Rule(*each) for each in itertools.product(POWERS, FACTORS, LEAST)]


class Shown:
    """The nodes of one release: what users have in their parts, and which nodes count."""

    def __init__(self, levels: list[Level], ours: Reported, peer: Reported) -> None:
        nodes = [(d, place) for d, places in enumerate(ours.place) for place in places.tolist()]
        keys = [levels[d].keys[place] for d, place in nodes]
        self.below = np.array([[key[: len(top)] == top for key in keys] for top in keys])
        users = max(int(level.user.max()) for level in levels) + 1
        totals = np.zeros((users, len(nodes)))
        for at, (d, place) in enumerate(nodes):
            here = levels[d].node == place
            totals[levels[d].user[here], at] = levels[d].totals[here]
        share = np.array([levels[d].count[place] for d, place in nodes])
        self.has = self._own(totals)
        self.sizes = {"shares": self._own(share), "users": self._users(levels[-1], keys)}
        both = [np.isin(ours.place[d], peer.place[d]) for d in range(len(levels))]
        self.counts = np.concatenate(both)
        shared = [np.isin(peer.place[d], ours.place[d]) for d in range(len(levels))]
        self.peer = sum(float(peer.square[d][one].sum()) for d, one in enumerate(shared))

    def _own(self, totals: Reals) -> Reals:
        """What parts have, from what nodes have: each node without the shown nodes below it."""
        out = totals.copy()
        strictly = self.below & ~np.eye(len(self.below), dtype=bool)
        for at in np.argsort(self.below.sum(axis=1)):  # the finest nodes first
            out[..., at] -= out[..., strictly[at]].sum(axis=-1)
        return out

    def _users(self, leaves: Level, keys: list[tuple[str, ...]]) -> Reals:
        depth = [[len(top) * (leaf[: len(top)] == top) for top in keys] for leaf in leaves.keys]
        part = np.where(np.any(depth, axis=1), np.argmax(depth, axis=1), keys.index(()))
        pairs = np.unique(leaves.user * len(keys) + part[leaves.node])
        return np.bincount(pairs % len(keys), minlength=len(keys)).astype(float)

    def error(self, bounds: Reals, epsilon: float) -> float:
        """The expected sum of squared errors over the nodes that count, as a part of the peer's."""
        lost = 1 - 1 / np.maximum(1, (np.abs(self.has) / bounds).sum(axis=1))
        rolled = self.below[self.counts].astype(float)
        bias, noise = rolled @ (lost @ self.has), rolled @ (2 * (bounds / epsilon) ** 2)
        return float((bias**2 + noise).sum()) / self.peer


def squares(shown: Shown, bound: float, size: str, rng: np.random.Generator) -> Iterator[float]:
    """The error of every rule."""
    paid, epsilon = size == "shares, paid", MEASURED
    told = shown.sizes[size.partition(",")[0]]
    if paid:
        told = told + rng.laplace(0, 1 / FOR_SIZES, len(told))
        epsilon -= FOR_SIZES
    for rule in RULES:
        n = np.maximum(told, rule.least)
        bounds = rule.factor * bound * n**rule.power / ((n ** (1 + rule.power)).sum() / n.sum())
        yield shown.error(bounds, epsilon)


def errors(job: Job, releases: int) -> tuple[float, dict[str, Reals]]:
    """Ours as it is, and for each kind of size the root mean squared error of every rule."""
    levels = truth(job)
    peer, ours = Peer(job, levels, "sum", told=False), Ours(job, levels, "sum", None)
    found = [ours.release() for _ in range(releases)]
    how = best(peer, found, by_nodes=False)
    pairs = [(one, peer.release(how)) for one in found]
    shown = [Shown(levels, *pair) for pair in pairs]
    now = np.mean(
        [
            sum(
                one.square[d][np.isin(one.place[d], other.place[d])].sum()
                for d in range(len(levels))
            )
            / each.peer
            for (one, other), each in zip(pairs, shown, strict=True)
        ]
    )
    bound, rng = max(map(abs, job.totals)), np.random.default_rng(7)
    by_size = {
        size: np.sqrt(np.mean([[*squares(each, bound, size, rng)] for each in shown], axis=0))
        for size in SIZES
    }
    return math.sqrt(now), by_size


def main() -> None:
    given = bench.options(releases=8)
    jobs = (flights("user_id"), retail("user_id"))
    (now, own), (now_other, other) = (errors(job, given.releases) for job in jobs)
    bench.head("sizes", "rule", *(job.name for job in jobs))
    bench.row("none", "one bound", f"{now:.2f}", f"{now_other:.2f}")
    for size in SIZES:
        worst = np.maximum(own[size] / now, other[size] / now_other)
        for name, at in (("first", own[size]), ("second", other[size]), ("both", worst)):
            i = int(np.argmin(at))
            bench.row(size, f"{name}: {RULES[i]}", f"{own[size][i]:.2f}", f"{other[size][i]:.2f}")


if __name__ == "__main__":
    main()
