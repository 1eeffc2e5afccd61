"""Cubes of listed keys: exact neighbours, through the shipped statements and draws.

Laplace noise: the loss of a draw is how far a neighbour moves the numbers of a kind, over the scale
of its noise. Numbers and laws are those that the mechanism adds. Gaussian noise: all outputs of a
tiny cube are enumerated. Planted bugs must be rejected by the same comparison.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpframe as dp
from dpframe.accounting.losses import LOSS_STEP, composed_profile
from dpframe.measures.measure import Vector
from dpframe.mechanisms import marginals as shipped
from dpframe.mechanisms.marginals import TableLaws
from dpframe.mechanisms.rollup import VectorCharge
from dpframe.noise import NoiseTable, UnboundedNoise, table_from_density
from dpframe.postprocess.strategy import PARTS, Marginals
from dpframe.postprocess.weighted_laplace import whole_half_width
from dpframe.testing import seeded_noise

marginals: Any = shipped
ROWS: list[tuple[str, str, int, str, float]] = [
    ("u", "a", 1, "p", 3.0),
    ("u", "a", 2, "p", -1.0),
    ("u", "b", 1, "q", 9.0),
    ("v", "b", 2, "p", 2.0),
    ("v", "b", 2, "p", 2.5),
    ("v", "not listed", 2, "p", 4.0),
    ("w", "c", 1, "q", 0.0),
]
COLUMNS = ["u", "x", "y", "z", "v"]
KEYS: Mapping[str, Any] = {"x": [*"abcdefghi"], "y": [1, 2], "z": ["p", "q", "r"]}
SHAPES = ("x * y * z", "sets:x,y;z")
MEASURES = {
    "n": "count",
    "s": dp.sum("v", lower=-2, upper=5),
    "m": dp.mean("v", lower=0, upper=5),
    "c": dp.sum("v", lower=0, upper=4, clipped=True),
}


@contextmanager
def told_noise(patch: pytest.MonkeyPatch) -> Iterator[list[tuple[Fraction, np.ndarray[Any, Any]]]]:
    """Every number that gets noise, with the scale that was drawn for it just before."""
    scales, told = list[Fraction](), list[tuple[Fraction, np.ndarray[Any, Any]]]()

    def draw(self: UnboundedNoise, n: int) -> Any:
        scales.append(self.scale)
        return np.zeros(n, dtype=np.int64)

    def add(exact: Any, noise: Any) -> Any:
        told.append((scales.pop(), np.asarray(exact, dtype=object).ravel()))
        return exact + noise

    with patch.context() as planted:
        planted.setattr(UnboundedNoise, "draw", draw)
        planted.setattr(marginals, "add_noise", add)
        yield told


def loss_of_pair(
    patch: pytest.MonkeyPatch, more: pd.DataFrame, fewer: pd.DataFrame, **given: Any
) -> Fraction:
    """The privacy loss of everything that is drawn, at the worst outcome."""
    drawn = []
    for frame in (more, fewer):
        with told_noise(patch) as told:
            frame.dp.rollup(**given)
        drawn.append(told)
    total = Fraction(0)
    for (scale, one), (same, other) in zip(*drawn, strict=True):
        assert scale == same
        total += Fraction(int(np.abs(one - other).sum())) / scale
    return total


def pairs_of(user: str | None) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    whole = pd.DataFrame(ROWS, columns=COLUMNS)
    if user is None:
        return [(whole, whole.drop(index=i)) for i in (1, 2, 5)]
    return [(whole, whole[whole["u"] != name]) for name in ("u", "v", "w")]


@pytest.mark.parametrize("by", SHAPES)
@pytest.mark.parametrize("user", [None, "u"])
def test_no_neighbour_loses_more_than_epsilon(
    by: str, user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: the losses of all kinds and measures together are within epsilon, and nearly attained
    where a unit moves all that it may. A record with a value that is not listed loses nothing."""
    keys = {name: KEYS[name] for name in ("x", "y", "z") if name in by}
    given: dict[str, Any] = {
        "by": by,
        "measures": MEASURES,
        "keys": keys,
        "user": user,
        "epsilon": 2.0,
    }
    losses = [loss_of_pair(monkeypatch, *pair, **given) for pair in pairs_of(user)]
    assert max(losses) <= 2
    assert max(losses) > 1.2
    if user is None:
        assert losses[-1] == 0


def _forget_a_marginal(patch: pytest.MonkeyPatch) -> None:
    """The total has less noise than is paid for."""
    honest = marginals.scales_for

    def planted(weights: Any, **rest: Any) -> Any:
        return honest({**weights, 0: weights.get(0, 0) + Fraction(1, 10)}, **rest)

    patch.setattr(marginals, "scales_for", planted)
    patch.setattr(marginals, "measured_parts_cost", lambda *_, **__: Fraction(0))


def _weights_beyond_one(patch: pytest.MonkeyPatch) -> None:
    honest = Marginals.weights.func  # type: ignore[attr-defined]
    planted = property(lambda self: tuple(min(1, 2 * w) for w in honest(self)))
    patch.setattr(Marginals, "weights", planted)
    patch.setattr(marginals, "measured_parts_cost", lambda *_, **__: Fraction(0))


def _root_of_most(patch: pytest.MonkeyPatch) -> None:
    """A sum gets the noise of a count."""
    honest = marginals.scales_for
    patch.setattr(marginals, "scales_for", lambda w, *, most, epsilon: honest(
        w, most=max(1, int(most**0.5)), epsilon=epsilon))  # fmt: skip
    patch.setattr(marginals, "measured_parts_cost", lambda *_, **__: Fraction(0))


@pytest.mark.parametrize("bug", [_forget_a_marginal, _weights_beyond_one, _root_of_most])
def test_planted_bugs_lose_more(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    keys = {name: KEYS[name] for name in ("x", "y")}
    measures = {"n": "count", "s": dp.sum("v", lower=-2, upper=5)}
    given: dict[str, Any] = {"by": "x * y", "measures": measures, "keys": keys, "epsilon": 2.0}
    assert max(loss_of_pair(monkeypatch, *pair, **given) for pair in pairs_of(None)) > 2


def test_every_measured_cell_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: as many numbers are drawn as cells are measured, and none is used twice."""
    drawn: list[int] = []
    honest = UnboundedNoise.draw

    def draw(self: UnboundedNoise, n: int) -> Any:
        drawn.append(n)
        return honest(self, n)

    monkeypatch.setattr(UnboundedNoise, "draw", draw)
    frame = pd.DataFrame(ROWS, columns=COLUMNS)
    plan = dp.explain_rollup("x * y * z", "count", keys=KEYS, epsilon=1.0).plan
    frame.dp.rollup("x * y * z", "count", keys=KEYS, epsilon=1.0)
    shown = plan.marginals
    sizes = [
        int(np.prod([n for n, k in zip(shown.sizes, kind, strict=True) if k]))
        for kind, weight in zip(shown.kinds, shown.weights, strict=True)
        if weight
    ]
    assert sorted(drawn) == sorted(sizes)


# -- Gaussian noise, all outputs -----------------------------------------------------------------


class _Script:
    """A table whose draws follow a script; one script for all tables of a release."""

    def __init__(self, table: NoiseTable, script: Iterator[int]) -> None:
        self.sd, self.script = table.sd, script

    def draw(self, n: int) -> Any:
        return np.array([next(self.script) for _ in range(n)], dtype=np.int64)


TINY = table_from_density("tiny", -1, np.array([1.0, 2.0, 1.0]))
WIDER = table_from_density("wider", -1, np.array([2.0, 3.0, 2.0]))
CUBE = Marginals((2, 1), ((1, 1), (1, 0), (0, 1), (0, 0)))
TABLES = {PARTS: TINY, 2: WIDER, 1: TINY, 0: TINY}
SIZES = {PARTS: 2, 2: 2, 1: 1, 0: 1}


def law_of_outputs(exact: list[int]) -> dict[tuple[int, ...], float]:
    """The law of all that is shown of a cube of two cells."""
    out: dict[tuple[int, ...], float] = {}
    order = [TABLES[at] for at, size in SIZES.items() for _ in range(size)]
    charge = VectorCharge(Vector(kind="rows", most=1, unit=1), Fraction(1))
    for noise in itertools.product((-1, 0, 1), repeat=len(order)):
        script = iter(noise)
        laws: Any = {at: _Script(table, script) for at, table in TABLES.items()}
        laws = TableLaws(tables=laws, epsilon=Fraction(1), delta=0.0)
        found = marginals._kind_estimates(np.array([7, *exact]), charge, CUBE, laws)
        chance = float(np.prod([t.pmf[z + 1] for t, z in zip(order, noise, strict=True)]))
        shown = tuple(found.total.tolist())
        out[shown] = out.get(shown, 0.0) + chance
    return out


def divergence(p: Mapping[Any, float], q: Mapping[Any, float], epsilon: float) -> float:
    return sum(max(0.0, p.get(x, 0.0) - math.exp(epsilon) * q.get(x, 0.0)) for x in p)


def test_outputs_of_a_tiny_cube_are_within_the_composed_delta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law: D <= delta, as it is composed from the tables of all kinds; what is shown says no more.
    Where one table is forgotten in the composition, or noise is used twice, D is above."""
    p, q = law_of_outputs([3, 1]), law_of_outputs([2, 1])

    def delta(tables: list[NoiseTable]) -> float:
        return composed_profile(tables, epsilons=(1.0,), step=LOSS_STEP)[0][1]

    apart = max(divergence(p, q, 1.0), divergence(q, p, 1.0))
    assert 0 < apart <= delta(list(TABLES.values()))
    assert apart > delta([TINY])  # all other kinds forgotten
    honest = marginals.add_noise

    def same_for_all(exact: Any, noise: Any) -> Any:  # what coarser kinds say then is exact
        return honest(exact, noise * (exact.size > 1))

    monkeypatch.setattr(marginals, "add_noise", same_for_all)
    p, q = law_of_outputs([3, 1]), law_of_outputs([2, 1])
    assert divergence(p, q, 1.0) > delta(list(TABLES.values()))


# -- receipts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [None, 1e-2])
def test_receipts_are_proved_and_changed_ones_are_not(delta: float | None) -> None:
    """Law: the receipt of a cube is proved, with Laplace and with Gaussian noise, and no other
    noise, epsilon or name of a kind passes."""
    sizes = {f"d{i}": 4 for i in range(3)} if delta is not None else {"d0": 3, "d1": 2}
    frame = pd.DataFrame({name: np.arange(30) % n for name, n in sizes.items()})
    keys = {name: list(range(n)) for name, n in sizes.items()}
    result = frame.dp.rollup(dp.cube([*sizes]), "count", keys=keys, epsilon=0.1, delta=delta)
    facts = dict(result.attrs["dp"])
    assert ("laws" in facts["measures"]["count"]["noise"][0]) == (delta is not None)
    assert facts["computed_delta"] <= (delta or 0)
    assert dp.verify(facts)
    (noise,) = facts["measures"]["count"]["noise"]
    if delta is None:
        halved = {**noise, "scales": {at: s / 2 for at, s in noise["scales"].items()}}
    else:
        laws = {at: {**law, "sd": law["sd"] / 2} for at, law in noise["laws"].items()}
        halved = {**noise, "laws": laws}
    count = {**facts["measures"]["count"], "noise": [halved]}
    assert not dp.verify({**facts, "measures": {"count": count}})
    if delta is None:
        assert not dp.verify({**facts, "adds_up": True})
        assert not dp.verify({**facts, "epsilon": 0.05})


# -- intervals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, None), (8.0, None), (0.5, 1e-2)])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon: float, delta: float | None) -> None:
    """Law: of all cells of each kind, at least as many intervals hold the truth as the confidence
    says; half of their width does not."""
    keys = {"x": [*range(6)], "y": [*range(5)], "z": [*range(3)]}
    plan = dp.explain_rollup(
        dp.cube([*keys]), "count", keys=keys, epsilon=epsilon, delta=delta, confidence=0.9
    ).plan
    assert bool(plan.table_laws) == (delta is not None)
    exact, covered, narrow = np.zeros(91, dtype=np.int64), [], []
    (charge,) = plan.paid["count"]
    with seeded_noise(7):
        for _ in range(150):
            one = marginals._kind_estimates(
                exact, charge, plan.marginals, plan.table_laws.get("count")
            )
            half = whole_half_width(one.variance, 0.9, one.largest)
            covered.append(np.abs(one.total) <= half)
            narrow.append(2 * np.abs(one.total) < half)
    by_kind = np.split(np.mean(covered, axis=0), np.cumsum([1, 3, 5, 6, 15, 18, 30])[:-1])
    assert all(kind.mean() >= 0.88 for kind in by_kind)
    assert np.mean(covered) >= 0.9
    assert plan.errors["count"] >= 0.95 * np.sqrt(one.variance.max()) * 1.645
    if epsilon < 1:  # else rounding outwards is most of the width
        assert np.mean(narrow) < 0.85
