"""Federated prefix trees: everything that the server sees of neighbours, enumerated, is as close as
claimed; and the same check rejects what would not be private.

Items are two bits long, and each of two iterations asks for one. The shipped search runs once for
every set of prefixes that can be kept and every choice of the device in question, with a channel
that tells sums and remembers which cells devices held; the other devices hold one item, so nothing
else is random. Sums of cells then have exact binomial laws. Nothing is sampled.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import dpframe as dp
from dpframe.accounting.aggregate import aggregate_delta, silence
from dpframe.errors import BudgetError
from dpframe.federated import Encoding, Population, ReportSums, Segments
from dpframe.mechanisms import prefix_tree
from dpframe.mechanisms.prefix_tree import Search
from dpframe.questions.prefix_tree.ask import LARGEST_LIMIT
from dpframe.testing import seeded_noise
from tests.members import some

Held = tuple[int, ...]
"""Items of a device, numbers 0 to 3: two bits, the first one higher."""

Law = Callable[[int, int, float], NDArray[np.float64]]
"""The law of a cell's sum, 0 .. N, by holders, devices and local epsilon."""

WIDE = Encoding("wide", {"a": "00", "b": "01", "c": "10", "": "110", "\ufffd": "111"})
"""Items of two bits: no item ends within them, and all prefixes are possible."""

LOW = 10.0
"""False positives that are allowed: many, so that prefixes are kept and second iterations tell."""

LOST = 1e-15
"""Values of a sum that have less are left out, and count as told for certain."""


TOP = 200
"""Sums from here on have less than anything that is told apart."""


def shipped_law(holders: int, devices: int, el: float) -> NDArray[np.float64]:
    """Bin(f, 1/2) + Bin(N - f, a0)."""
    held = binom.pmf(np.arange(holders + 1), holders, 0.5)
    free = binom.pmf(np.arange(min(TOP, devices - holders + 1)), devices - holders, silence(el))
    return np.convolve(held, free)[:TOP]


@dataclasses.dataclass(frozen=True)
class Told:
    """A channel that tells sums, one list an iteration, and remembers the cells it was given."""

    reports: ReportSums
    told: Sequence[Sequence[int]]
    seen: list[Counter[int]] = dataclasses.field(default_factory=list)

    def sums(self, cells: NDArray[np.int64], size: int, devices: int) -> NDArray[np.int32]:
        self.seen.append(Counter(cells.tolist()))
        told = self.told[len(self.seen) - 1] if len(self.seen) <= len(self.told) else [0] * size
        return np.array(told, dtype=np.int32)

    def least(self, *given: Any) -> int:
        return self.reports.least(*given)

    def estimate(self, *given: Any) -> Any:
        return self.reports.estimate(*given)

    def interval(self, *given: Any) -> Any:
        return self.reports.interval(*given)


class Scripted:
    """In place of what devices choose by: the same number for all, one an iteration."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self.numbers = iter(numbers)

    def random(self, n: int) -> NDArray[np.float64]:
        return np.full(n, next(self.numbers))


@dataclasses.dataclass(frozen=True)
class World:
    """The other devices, some with one item, the rest silent, and the local epsilon of all."""

    others: tuple[int, ...]
    silent: int
    el: float
    conditioned: bool = True
    law: Law = shipped_law

    @property
    def devices(self) -> int:
        return len(self.others) + self.silent + 1

    def population(self, mine: Held) -> Population:
        packed = np.zeros((4, 2), dtype=np.uint64)
        packed[:, 0] = np.arange(4, dtype=np.uint64) << np.uint64(62)
        listed = np.array([*mine, *self.others], dtype=np.int32)
        sizes = [len(mine), *[1] * len(self.others), *[0] * self.silent]
        starts = np.cumsum([0, *sizes]).astype(np.int64)
        return Population(packed, starts, listed, np.ones(len(listed), dtype=np.uint32))

    def cells(self, mine: Held, first: Sequence[int], choices: Sequence[float]) -> Told:
        """Cells that are held in both iterations, if the first one's sums are these."""
        channel = Told(ReportSums(self.el), [first])
        search = Search(
            encoding=WIDE, segments=Segments.of((1, 1), length=2, limit=4), rounds=1,
            false_positives=LOW, weighted=False, conditioned=self.conditioned, deny=(),
            taking_part=1.0, confidence=0.9,
        )  # fmt: skip
        before, prefix_tree.device_choices = prefix_tree.device_choices, lambda: Scripted(choices)
        try:
            prefix_tree.run(self.population(mine), channel, search)
        finally:
            prefix_tree.device_choices = before
        return channel

    @cache  # noqa: B019  # worlds are few
    def held(self, mine: Held, first: tuple[int, ...]) -> list[tuple[Counter[int], Counter[int]]]:
        """The same for every choice of the device, all equally likely; two items at most."""
        runs = [self.cells(mine, first, c).seen for c in itertools.product((0.25, 0.75), repeat=2)]
        return [(seen[0], seen[1] if len(seen) > 1 else Counter()) for seen in runs]

    @cache  # noqa: B019
    def cell_law(self, holders: int) -> NDArray[np.float64]:
        return self.law(holders, self.devices, self.el)

    def span(self, holders: Sequence[int]) -> slice:
        """Values of a sum beyond which there is next to nothing, for all of these holders."""
        widest = np.max([self.cell_law(f) for f in set(holders)], axis=0)
        inside = np.flatnonzero(widest > LOST / len(widest))
        return slice(int(inside[0]), int(inside[-1]) + 1)

    @cache  # noqa: B019
    def kept(self, spans: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
        """Which prefixes the shipped server keeps, as bits, by both sums of the first iteration."""
        reports, out = ReportSums(self.el), []
        for sums in itertools.product(*(range(*span) for span in spans)):
            told = np.array(sums, dtype=np.int32)
            least = reports.least(told, self.devices, LOW)
            out.append(sum(1 << i for i, s in enumerate(sums) if s >= least))
        return np.array(out).reshape([stop - start for start, stop in spans])


def joint(laws: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    out = np.ones(())
    for law in laws:
        out = np.multiply.outer(out, law)
    return out


def mixed(
    world: World, choices: Sequence[Counter[int]], cells: Sequence[int], spans: Sequence[slice]
) -> NDArray[np.float64]:
    """The joint law of the sums of some cells, over what the device chooses."""
    where = list(zip(cells, spans, strict=True))
    laws = [joint([world.cell_law(held[c])[span] for c, span in where]) for held in choices]
    return np.asarray(sum(laws) / len(laws))


def stick(here: NDArray[np.float64], there: NDArray[np.float64]) -> Callable[[Any], Any]:
    """The hockey stick of two laws, as a function of e^epsilon."""
    p, q = here.ravel(), there.ravel()
    possible = (p > 0) | (q > 0)
    p, q = p[possible], q[possible]
    ratio = np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0)
    order = np.argsort(-ratio)
    tops = np.concatenate([[0.0], np.cumsum(p[order])])
    bottoms = np.concatenate([[0.0], np.cumsum(q[order])])
    falling = -ratio[order]

    def at(t: Any) -> Any:
        above = np.searchsorted(falling, -np.asarray(t), side="left")
        return tops[above] - np.asarray(t) * bottoms[above]

    return at


def divergences(world: World, mine: Held, other: Held, epsilons: Sequence[float]) -> list[float]:
    """Exact hockey sticks of everything that the server sees: of one device's data from others, and
    back, the larger one for every epsilon."""
    pair = (mine, other)
    firsts = [
        world.span([one[c] for data in pair for one, _ in world.held(data, (0, 0))]) for c in (0, 1)
    ]
    kept = world.kept(tuple((span.start, span.stop) for span in firsts))
    total = np.full((2, len(epsilons)), 4 * LOST)
    for pattern in np.unique(kept).tolist():
        here = kept == pattern
        example = np.argwhere(here)[0] + [span.start for span in firsts]
        held = [world.held(data, tuple(example.tolist())) for data in pair]
        one = [mixed(world, [x for x, _ in h], (0, 1), firsts)[here] for h in held]
        after = [x for h in held for _, x in h]
        cells = [c for c in range(2 * pattern.bit_count()) if len({x[c] for x in after}) > 1]
        spans = [world.span([x[c] for x in after]) for c in cells]
        two = [mixed(world, [x for _, x in h], cells, spans) for h in held]
        for way, (p, q) in enumerate((one, one[::-1])):
            second = stick(*(two if way == 0 else two[::-1]))
            for i, epsilon in enumerate(epsilons):
                total[way, i] += p @ (second(math.exp(epsilon) * q / p) + LOST * len(cells))
    return [float(x) for x in total.max(axis=0)]


# -- the claim -----------------------------------------------------------------------------------

EPSILONS = (0.0, 0.5, 1.0, 2.0)
DEVICES, EL = 20_000, 9.0
SINGLE: list[Held] = [(), (0,), (1,), (2,), (3,)]
SEVERAL: list[Held] = [*itertools.combinations(range(4), 2)]
"""What a device can hold: no items, one or two."""

FEW = [*itertools.combinations([*SINGLE, (0, 3)], 2)]
EVERY = [*itertools.combinations([*SINGLE, *SEVERAL], 2)]

OTHERS = {"nobody": (), "one each": (0, 2), "several": (0,) * 5 + (2,) * 4 + (3,)}


def claimed(reports: int = 2, el: float = EL, neighbours: Any = "replace") -> list[float]:
    return [
        aggregate_delta(
            devices=DEVICES, reports=reports, local_epsilon=el, epsilon=e, neighbours=neighbours
        )
        for e in EPSILONS
    ]


def world(others: tuple[int, ...] = OTHERS["several"], **more: Any) -> World:
    return World(others, DEVICES - 1 - len(others), EL, **more)


def above(found: list[float], claims: list[float]) -> bool:
    """Whether something is told apart better than claimed, at any epsilon."""
    return any(f > c for f, c in zip(found, claims, strict=True))


def check(here: World, pairs: list[tuple[Held, Held]]) -> None:
    """Within the claim at every epsilon, data replaced or removed."""
    replaced, removed = claimed(), claimed(neighbours="remove")
    for mine, other in pairs:
        found = divergences(here, mine, other, EPSILONS)
        assert not above(found, replaced)
        assert mine or not above(found, removed)


@some("nobody-True", "several-True")
@pytest.mark.parametrize(
    ("others", "conditioned"),
    [("nobody", True), ("one each", True), ("several", True), ("several", False)],
)
def test_no_two_devices_are_told_apart_better_than_claimed(others: str, conditioned: bool) -> None:
    """Law: for pairs of neighbours and every epsilon, the exact hockey stick of two adaptive
    iterations is within the claim."""
    check(world(OTHERS[others], conditioned=conditioned), FEW)


@pytest.mark.evidence
@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("others", OTHERS)
def test_no_pair_at_all_is_told_apart(others: str, conditioned: bool) -> None:
    """Law: as above, for every pair of data of up to two items."""
    check(world(OTHERS[others], conditioned=conditioned), EVERY)


def test_the_enumeration_is_complete() -> None:
    """Law: over all outcomes the law of what is seen adds up: at epsilon 0, of data from
    themselves, nothing is told apart."""
    for mine in ((), (0,), (0, 3)):
        assert divergences(world(), mine, mine, (0.0,))[0] < 1e-12


def test_a_forgotten_iteration_and_a_forgotten_cell_are_rejected() -> None:
    """Planted bugs: composing one report of two, or one cell of two, claims too little."""
    found = divergences(world(), (0,), (3,), EPSILONS)
    assert not above(found, claimed())
    assert above(found, claimed(reports=1))
    assert above(found, claimed(neighbours="remove"))


def test_silent_cells_that_report_too_rarely_are_rejected() -> None:
    """Planted bug: devices randomise with a larger local epsilon than is accounted for."""

    def rarer(holders: int, devices: int, el: float) -> Any:
        return shipped_law(holders, devices, el + 0.7)

    found = divergences(world((), law=rarer), (0,), (3,), EPSILONS)
    assert above(found, claimed())


def test_a_device_that_stays_silent_is_rejected() -> None:
    """Planted bug: a device without anything to report sends nothing in place of randomised zeros.

    Every cell then has one report less. The sum over all cells, which follows from what is seen,
    tells that alone: of the most cells that can be asked for, in one of two iterations, it is above
    the claim.
    """
    cells, a0 = LARGEST_LIMIT, silence(EL)
    mean, sd = cells * DEVICES * a0, (cells * DEVICES * a0) ** 0.5
    k = np.arange(int(mean - 12 * sd), int(mean + 12 * sd))
    there, gone = (binom.pmf(k, cells * n, a0) for n in (DEVICES, DEVICES - 1))
    found = [float(np.maximum(gone - np.exp(e) * there, 0).sum()) for e in EPSILONS]
    assert above(found, claimed(neighbours="remove"))
    assert above(found, claimed())


# -- what is public ------------------------------------------------------------------------------

NOT_OF_DATA = ("release_id", "time")


def released(words: list[str | None], **more: Any) -> pd.DataFrame:
    users = [f"u{i}" for i in range(len(words))]
    frame = pd.DataFrame({"u": users, "w": pd.Series(words, dtype="str")})
    asked = {"user": "u", "epsilon": 16.0, "delta": 1e-4, "iterations": 2, "length": 20, **more}
    with seeded_noise(7):
        return dp.prefix_tree(frame, "w", **{"limit": 2**12, **asked})


@some(0, 2)
@pytest.mark.parametrize(
    "more",
    [{}, {"participation": 0.5}, {"devices": 500}, {"mechanism": "gaussian", "epsilon": 4.0}],
)
def test_receipts_depend_on_the_number_of_users_alone(more: dict[str, Any]) -> None:
    """Law: whatever users hold, or nothing at all, the receipt is the same."""
    worlds = [["ab"] * 800, [f"x{i}" for i in range(800)], [None] * 800, ["\0" * 99] * 799 + [""]]
    receipts = [released(words, **more).attrs["dp"] for words in worlds]
    facts = [{k: v for k, v in r.items() if k not in NOT_OF_DATA} for r in receipts]
    assert all(f == facts[0] for f in facts)
    fewer = released(["ab"] * 700, **more).attrs["dp"]
    assert fewer["devices"] == 700
    assert facts[0]["devices"] == 800


def test_refusals_say_nothing_of_the_data() -> None:
    """Law: too few users are refused with the same words, whatever they hold."""
    said = set()
    for words in (["secret"] * 90, [None] * 90):
        with pytest.raises(BudgetError) as refused:
            released(words)
        said.add(str(refused.value))
    assert len(said) == 1
    assert "secret" not in said.pop()


def test_the_claim_is_that_of_the_plan() -> None:
    """Law: what the receipt claims is what the accountant says of the local epsilon that is drawn
    with, with a part for participation and for tables, within delta."""
    for more in ({}, {"participation": 0.5}, {"devices": 500}, {"neighbours": "remove"}):
        facts = released(["ab"] * 800, **more).attrs["dp"]
        spent = aggregate_delta(
            devices=facts["reporting"], reports=facts["reports"],
            local_epsilon=facts["local_epsilon"], epsilon=16.0,
            neighbours=more.get("neighbours", "replace"),  # type: ignore[arg-type]
        )  # fmt: skip
        assert spent < facts["computed_delta"] <= 1e-4
        assert facts["reporting"] <= facts["devices"]
        if "participation" in more:
            missed = binom.cdf(facts["reporting"] - 1, facts["devices"], 0.5)
            assert facts["computed_delta"] >= spent + facts["reports"] * missed


def test_worlds_are_what_they_say() -> None:
    """The twin of the check: the shipped search hands the cells on that devices hold."""
    here = dataclasses.replace(world((0, 2)), silent=5)
    ((one, two), *_) = here.held((3,), (9, 9))
    assert dict(one) == {0: 1, 1: 2}
    assert dict(two) == {0: 1, 2: 1, 3: 1}
