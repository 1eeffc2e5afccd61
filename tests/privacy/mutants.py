"""Mutants of shipped mechanisms and accountants, each with one mistake, and what catches it.

``python -m tests.privacy.mutants`` prints the table of docs/verifying.md. Three auditors look at
each that they can read:

*verifier*: the proof of what is really drawn, against the promise (``dpframe.verifier``);
*enumeration*: the exact divergence over all outputs on small tables;
*audit*: 10,000 draws on each of two neighbours. Half of them choose a set of outputs, the others
test it: its chance on one side is above e^epsilon times that on the other, plus delta, with
confidence 1 - 1e-6 (Clopper and Pearson 1934; as DP-Auditorium and dp-recorder do for events).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import beta

import dpframe as dp
from dpframe.accounting.path_recursion import path_delta
from dpframe.accounting.sketch_lattice import lattice_laws
from dpframe.accounting.sketch_stream import sketch_laws
from dpframe.asking.level_plan import proof_text
from dpframe.counts import CountTree, NoisyNodes, chosen_nodes, nearest_chosen
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, gaussian_table, halves, laplace_table
from dpframe.testing import seeded_noise
from dpframe.verifier.judge import bound_at, verify_proof
from dpframe.verifier.ledger import (
    Block,
    LedgerRelease,
    ReservedLaw,
    decimal_value,
    verify_releases,
)
from tests.privacy.enumerate_outputs import (
    NoNoise,
    Script,
    ScriptedValues,
    law_of,
    more,
    released,
    tree_of,
    worst,
)
from tests.privacy.naive_accounting import composed_divergence
from tests.privacy.test_planted_bugs import calibrated, chain_delta
from tests.privacy.told import told

EPSILON, DELTA = 1.0, 1e-4
DRAWS, CONFIDENCE = 5_000, 1e-6

Outputs = Callable[[], Iterator[object]]
"""Draws of one neighbour, without end."""

Change = Callable[[dict[str, Any]], object]
"""What is done to a proof as JSON has it."""

Mistakes = Iterable[tuple[str, str, Change]]
"""A name, what it is of, and what is changed in a proof."""


@dataclass(frozen=True)
class Mutant:
    """One mistake. Each auditor is a function that says whether it is caught, or None where there
    is nothing that it could read."""

    name: str
    where: str
    verifier: Callable[[], bool] | None = None
    enumeration: Callable[[], bool] | None = None
    audit: Callable[[], bool] | None = None

    def caught(self, *, audits: bool = True) -> dict[str, bool | None]:
        """What every auditor says."""
        asked = {"verifier": self.verifier, "enumeration": self.enumeration}
        if audits:
            asked["audit"] = self.audit
        return {name: None if ask is None else ask() for name, ask in asked.items()}


def refused(game: Mapping[str, Any], *tables: NoiseTable, **promise: Any) -> bool:
    """Whether the verifier refuses the promise for what is really drawn."""
    return verify_proof(told(game, *tables, **promise)).outcome == "failed"


# -- a statistical audit ---------------------------------------------------------------------------


def audited(one: Outputs, other: Outputs, *, epsilon: float, delta: float) -> bool:
    """Whether draws of two neighbours show, in one direction, that the promise is broken."""
    with seeded_noise(7):
        drawn = [[next(outputs) for _ in range(2 * DRAWS)] for outputs in (one(), other())]
    return _shown(*drawn, epsilon, delta) or _shown(*drawn[::-1], epsilon, delta)


def told_apart(outputs: Callable[[int], Outputs], *sizes: int) -> bool:
    """Whether draws of a table and of one with a record more break (1, 1e-4), at any size."""
    return any(audited(outputs(n), outputs(n + 1), epsilon=EPSILON, delta=DELTA) for n in sizes)


def _shown(here: list[object], there: list[object], epsilon: float, delta: float) -> bool:
    p, q = Counter(here[:DRAWS]), Counter(there[:DRAWS])
    event = {out for out, n in p.items() if n > math.exp(epsilon) * q.get(out, 0)}
    inside = [sum(out in event for out in drawn[DRAWS:]) for drawn in (here, there)]
    low = beta.ppf(CONFIDENCE / 2, inside[0], DRAWS - inside[0] + 1) if inside[0] else 0.0
    high = (
        beta.ppf(1 - CONFIDENCE / 2, inside[1] + 1, DRAWS - inside[1]) if inside[1] < DRAWS else 1
    )
    return bool(low > math.exp(epsilon) * high + delta)


# -- wrong numbers in the offline mechanism: its code runs as it is shipped ------------------------


@dataclass(frozen=True)
class Selection:
    """What is really drawn where (1, 1e-4) is promised for a path of three levels."""

    test: NoiseTable
    release: NoiseTable
    threshold: int
    height: int = 3
    remainder: bool = True

    def refused(self) -> bool:
        facts = {"height": self.height, "threshold": self.threshold, "remainder": self.remainder}
        game = {"kind": "path", **facts, "test": 0, "release": 1}
        return refused(game, self.test, self.release)

    def exceeds(self) -> bool:
        return chain_delta(**vars(self)) > DELTA

    def audited(self) -> bool:
        return told_apart(self._outputs, 0, self.threshold - self.test.highest // 3)

    def _outputs(self, records: int) -> Outputs:
        tree = tree_of({"abcdefgh"[: self.height]: records})
        noise = {"test": self.test, "release": self.release}
        options = {"threshold": self.threshold, "remainder": self.remainder}
        return lambda: (released(offline_hhh.run(tree, **noise, **options)) for _ in repeat(0))


def shipped(**options: Any) -> Selection:
    found = calibrated(**options)
    return Selection(
        found.test, found.laws.release, found.threshold, remainder=options.get("remainder", True)
    )


def scaled(left: float, right: float, release: float) -> Selection:
    """The shipped selection with scales that many times theirs, and tables as long."""
    setting, own = calibrated(), shipped()
    test = halves(
        left=("geometric", setting.laws.left * left, -setting.laws.test.lowest),
        right=("geometric", setting.laws.right * right, setting.laws.test.highest),
        recentre=False,
    )
    test = NoiseTable(test.family, test.lowest + own.test.highest - test.highest, test.weights)
    narrow = laplace_table(setting.laws.release_scale * release, own.release.highest)
    return replace(own, test=test, release=narrow)


def cut(law: NoiseTable, left: int, right: int) -> NoiseTable:
    """A table without its outermost values, which come to its mode."""
    weights = law.weights.copy()
    kept = weights[left : len(weights) - right].copy()
    mode = int(np.argmax(kept))
    kept[mode] += weights[:left].sum() + weights[len(weights) - right :].sum()
    return NoiseTable(law.family, law.lowest + left, kept)


def holed(law: NoiseTable) -> NoiseTable:
    """A table in which one likely value never comes."""
    weights = law.weights.copy()
    at = int(np.argmax(weights))
    weights[at + 1] += weights[at - 2]
    weights[at - 2] = 0
    return NoiseTable(law.family, law.lowest, weights)


def one_sided(law: NoiseTable) -> NoiseTable:
    """The same noise without its sign."""
    middle = -law.lowest
    weights = law.weights[middle:].copy()
    weights[1:] += law.weights[:middle][::-1]
    return NoiseTable(law.family, 0, weights)


def selections() -> Iterator[tuple[str, str, Selection]]:
    own, low, without = shipped(), calibrated(height=1), shipped(remainder=False)
    yield "release noise of half the scale", "mechanism", scaled(1, 1, 0.5)
    yield "left half 20 % narrower", "accountant", scaled(0.8, 1, 1)
    yield "right half 20 % narrower", "accountant", scaled(1, 0.8, 1)
    narrow = replace(own, test=own.release, threshold=own.release.highest + 2)
    yield "test drawn from the release's law", "mechanism", narrow
    one = Selection(low.test, low.laws.release, low.threshold)
    yield "calibrated for one level, run on three", "accountant", one
    yield "one level more than was paid for", "accountant", replace(own, height=4)
    yield "remainder that is not paid for", "accountant", replace(without, remainder=True)
    yield "threshold of 1", "mechanism", replace(own, threshold=1)
    half = replace(own, threshold=own.test.highest // 2)
    yield "threshold at half the reach of the noise", "mechanism", half
    yield "threshold off by two", "mechanism", replace(own, threshold=own.test.highest)
    yield "test cut short on the left", "noise", replace(own, test=cut(own.test, 8, 0))
    yield "test cut short on the right", "noise", replace(own, test=cut(own.test, 0, 3))
    yield "release cut short", "noise", replace(own, release=cut(own.release, 4, 4))
    yield "a value that never comes", "noise", replace(own, release=holed(own.release))
    yield "release noise without its sign", "noise", replace(own, release=one_sided(own.release))


# -- wrong numbers where counts of levels compose --------------------------------------------------


@dataclass(frozen=True)
class Histograms:
    """So many counts with one law, shown from ``least`` on, where (1, 1e-4) is promised."""

    noise: NoiseTable
    levels: int
    least: int

    def refused(self) -> bool:
        level = {"table": 0, "least": self.least}
        game = {"kind": "counts", "units": 1, "levels": [level] * self.levels}
        return refused(game, self.noise)

    def exceeds(self) -> bool:
        lone = float(self.noise.at_least()[max(0, self.least - 1 - self.noise.lowest)])
        alone = -math.expm1(self.levels * math.log1p(-min(lone, 0.5)))
        apart = composed_divergence(self.noise, levels=self.levels, epsilon=EPSILON)
        return max(alone, apart) > DELTA

    def audited(self) -> bool:
        return told_apart(self._outputs, 0, 1000)

    def _outputs(self, records: int) -> Outputs:
        def outputs() -> Iterator[object]:
            while True:
                drawn = self.noise.draw(500 * self.levels).reshape(500, self.levels) + records
                shown = np.where((drawn >= self.least) & (records > 0), drawn, -1)
                yield from (int(total) for total in shown.sum(axis=1))

        return outputs


@cache
def level_law(family: Any, levels: int) -> NoiseTable:
    from dpframe.accounting.losses import level_laws

    return level_laws(family, levels=levels, epsilon=EPSILON, delta=DELTA).noise


def histograms() -> Iterator[tuple[str, str, Histograms]]:
    two, three = level_law("laplace", 2), level_law("laplace", 3)
    yield "a level left out of the composition", "accountant", Histograms(two, 3, two.highest + 2)
    yield "shown from 1 on", "mechanism", Histograms(three, 3, 1)
    yield "shown two below the private threshold", "mechanism", Histograms(three, 3, three.highest)
    normal = level_law("gaussian", 3)
    narrow = gaussian_table(normal.sd * 0.9, normal.highest)
    yield "Gaussian noise 10 % narrower", "accountant", Histograms(narrow, 3, narrow.highest + 2)
    short = cut(normal, 4, 4)
    yield "Gaussian noise cut short", "noise", Histograms(short, 3, short.highest + 2)


# -- wrong numbers that only the proof shows in full -----------------------------------------------


def changed(plan: Callable[[], Any], change: Change) -> Callable[[], bool]:
    """Whether the verifier refuses a plan whose game was changed and whose promise was not."""

    def ask() -> bool:
        proof = json.loads(proof_text(plan()) or "")
        change(proof)
        return verify_proof(json.dumps(proof)).outcome == "failed"

    return ask


def put(**facts: Any) -> Change:
    """Other facts of a game."""
    return lambda proof: proof["game"].update(facts)


def plus(**facts: int) -> Change:
    """Facts of a game that are so much more."""
    return lambda t: t["game"].update({name: t["game"][name] + by for name, by in facts.items()})


def times(**facts: float) -> Change:
    """Facts of a game that are so many times what they were; whole ones stay whole."""

    def change(proof: dict[str, Any]) -> None:
        game = proof["game"]
        game.update({name: type(game[name])(game[name] * by) for name, by in facts.items()})

    return change


def once_more(name: str) -> Change:
    """The first of a list is there twice."""
    return lambda proof: proof["game"][name].append(proof["game"][name][0])


GROUPS: dict[str, Any] = {"user": "u", "contribution": "records", "max_contributions": 2}


def explained(**arguments: Any) -> Callable[[], Any]:
    budget = {"epsilon": EPSILON, "delta": DELTA}
    return lambda: dp.explain("path:p?depth=3", **{**budget, **arguments}).plan


def tree(about: Any = "path:p?depth=3", **arguments: Any) -> Callable[[], Any]:
    return lambda: dp.explain_tree_counts(about, **arguments).plan


def streams(levels: int, less: int) -> Callable[[], bool]:
    def ask() -> bool:
        laws = sketch_laws(sketches=levels, epsilon=EPSILON, delta=DELTA)
        facts = {"sketches": 3, "standard": None, "theta": laws.theta - less}
        return refused({"kind": "sketches", **facts, "noise": 0, "shared": 0}, laws.noise)

    return ask


def added(**more: int) -> Callable[[], bool]:
    """Whether a sum of sketches of eight counters is refused, with so much more of each."""

    def ask() -> bool:
        laws = lattice_laws(
            counters=8, sketches=1, epsilon=EPSILON, delta=DELTA, family="laplace", merged=True
        )
        facts = {"counters": 8, "sketches": 1, "theta": laws.theta}
        for name, by in more.items():
            facts[name] += by
        return refused({"kind": "sums", **facts, "noise": 0}, laws.noise)

    return ask


def book(number: int, **where: Any) -> list[LedgerRelease]:
    """So many releases of (0.4, 0)."""
    level = {"scale": "3", "least": None}
    verdict = verify_proof(
        told({"kind": "counts", "units": 1, "levels": [level]}, epsilon=0.4, delta=0.0)
    )
    receipt = {"epsilon": 0.4, "delta": 0.0}
    return [
        LedgerRelease(name=str(n), receipt=receipt, verdict=verdict, **where) for n in range(number)
    ]


def forgotten() -> bool:
    """Whether a ledger is refused that holds more than its totals."""
    return verify_releases(book(3), epsilon=1.0, delta=DELTA).outcome == "failed"


def disjoint() -> bool:
    """Whether releases of a day and of its week are added up."""
    read = {"column": "t", "read": "written", "start": "1970-01-01T00:00:00"}
    parts = []
    for one, days in zip(book(3), (7, 1, 1), strict=True):
        receipt = {**one.receipt, "period": {**read, "end": f"1970-01-0{1 + days}T00:00:00"}}
        block = Block("t as written", 0, days * 86_400)
        parts.append(replace(one, receipt=receipt, block=block))
    return verify_releases(parts, epsilon=1.0, delta=DELTA).outcome == "failed"


def reserving(paid: int, made: int, own: float = 0.1) -> bool:
    """Whether so many releases are refused in a ledger that holds what fewer cost together; their
    law, and what the ledger says of it."""
    from dpframe.accounting.compose import composed_epsilon
    from dpframe.ledger.reservations import reserved_law

    budget = {"epsilon": 0.1, "delta": 1e-8}
    law = reserved_law(dp.explain(["p"], **budget).plan.profile)  # type: ignore[attr-defined]
    epsilon = composed_epsilon([(law, paid)], 1e-6)
    text = proof_text(dp.explain(["p"], **{**budget, "epsilon": own}).plan)
    text = (text or "").replace(f'"epsilon": {own}', '"epsilon": 0.1')
    points = tuple((Fraction(e), Fraction(d)) for e, d in law[:-1])
    reserved = ReservedLaw(
        name="r",
        epsilon=Fraction(epsilon),
        delta=Fraction(1, 10**6),
        times=made,
        law=(*points, (decimal_value(0.1), decimal_value(1e-8))),
    )
    held = LedgerRelease(
        name="x",
        receipt=budget,
        verdict=replace(verify_proof(text), outcome="proved", bound=Fraction(1, 10**9)),
        under="r",
        bound_at=partial(bound_at, text),
    )
    found = verify_releases([held] * made, [reserved], epsilon=epsilon + 1e-9, delta=1e-6)
    return not found


def underpaid() -> bool:
    """Whether more releases than were paid for are refused, and those that were are not."""
    assert not reserving(10, 10)
    return reserving(10, 12)


def another_law() -> bool:
    """Whether releases are refused whose tables are of 1.2 times the epsilon."""
    return reserving(10, 10, own=0.12)


def groups() -> Mistakes:
    yield "groups of 3 paid for as 2", "accountant", lambda t: t["promise"].update(group=3)
    third = {"delta": DELTA / 3}
    yield "delta of a group not divided", "accountant", lambda t: t["promise"].update(third)


def shares() -> Mistakes:
    yield "left scale claimed 15 % wider than the table", "accountant", times(left=1.15)
    yield "a unit counted as a user", "mechanism", times(units=2)
    yield "threshold that hides one unit and no user", "mechanism", plus(threshold=-300)


def classified() -> Mistakes:
    """Changes of a step with a relative error."""

    def last(**facts: Callable[[dict[str, Any]], object]) -> Change:
        def change(told: dict[str, Any]) -> None:
            step = told["game"]["steps"][-1]
            step.update({name: fact(step) for name, fact in facts.items()})

        return change

    yield "a step that is not paid for", "accountant", once_more("steps")
    yield "an answer more than is paid for", "accountant", last(tops=lambda s: s["tops"] + 1)
    yield "queries with the noise of tests", "mechanism", last(queries=lambda s: s["tests"])
    half = last(tests=lambda s: str(Fraction(s["tests"]) / 2))
    yield "tests with noise of half the scale", "mechanism", half
    yield "noise of tests cut at half its reach", "noise", last(bound=lambda s: s["bound"] // 2)
    yield "one record can pass a test", "mechanism", last(cut=lambda s: s["bound"] + 1)


def spread() -> Mistakes:
    """Mistakes in Gaussian noise for groups of records."""
    yield "3 records paid for as 2", "accountant", put(moves=3)
    yield "a level that is not paid for", "accountant", put(height=4)
    yield "noise of a test claimed 1 % wider than its table", "noise", times(test_sigma=1.01)
    yield "tests with noise of releases", "mechanism", lambda t: t["tables"].reverse()


def weighed() -> Mistakes:
    """Mistakes in rounds of weights."""

    def less(noise: dict[str, Any]) -> None:
        noise["sigma"] *= 0.99

    yield "a round that is not paid for", "accountant", once_more("rounds")
    yield "noise of a round 1 % narrower", "mechanism", lambda t: less(t["game"]["rounds"][0])
    yield "noise of counts 1 % narrower", "mechanism", lambda t: less(t["game"]["count"])
    yield "a user with twice the values", "accountant", times(items=2)
    yield "threshold 1 % lower", "mechanism", times(threshold=0.99)
    yield "counts of norm 256 paid for as 128", "accountant", put(norm=256)


def devices() -> Mistakes:
    """Mistakes in sums of reports."""
    yield "a report that is not paid for", "accountant", put(reports=5)
    yield "a cell that nobody holds reports 5 % less", "mechanism", times(silence=0.95)
    yield "a cell that others hold taken for the best hidden", "accountant", put(spared=5)
    yield "devices counted that do not take part", "accountant", put(counted=50_000)


def _rounded_down(proof: dict[str, Any]) -> None:
    """Scales without bounds, rounded down to a multiple of 2^-16 and not up."""
    for level in proof["game"]["levels"]:
        over, _, under = level["scale"].partition("/")
        level["scale"] = f"{int(over) * 2**16 // int(under or 1) - 1}/{2**16}"


def proofs() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    budget: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}

    def of(what: str, plan: Callable[[], Any], mistakes: Mistakes) -> Iterator[Any]:
        return ((what + name, where, changed(plan, change)) for name, where, change in mistakes)

    yield from of("", explained(**GROUPS), groups())
    yield from of("shares: ", explained(user="u", epsilon=4.0), shares())
    yield "sketches: noise of one level on three", "accountant", streams(1, 0)
    yield "sketches: threshold off by two", "mechanism", streams(3, 2)
    unpaid = ("a level that is not paid for", "accountant", once_more("levels"))
    yield from of("tree counts: ", tree(**budget, mechanism="laplace"), [unpaid])
    listed = tree(["p"], epsilon=0.7, keys=["x"])
    yield from of("tree counts: ", listed, [("scales rounded down", "accountant", _rounded_down)])
    steps = {"mechanism": "relative", "alpha": 0.5, "largest": 10**9}
    yield from of("relative counts: ", tree("path:p?depth=2", **budget, **steps), classified())
    unit = "number:x?lower=0&upper=1"
    yield (
        "synthetic rows: rows of a sketch paid for as one",
        "accountant",
        changed(
            lambda: dp.explain_synthesize(unit, epsilon=1.0, k=16).plan,
            lambda t: t["game"]["levels"][-1].update(moves=3),
        ),
    )
    normal = explained(mechanism="offline-gaussian", **GROUPS)
    yield from of("Gaussian groups: ", normal, spread())
    users = lambda: dp.explain_heavy_hitters("w", user="u", **budget).plan  # noqa: E731
    yield from of("rounds: ", users, weighed())
    yield "sum of sketches: threshold off by two counts", "mechanism", added(theta=-18)
    yield "sum of sketches: a level that is not paid for", "accountant", added(sketches=1)
    yield "sum of sketches: noise on counts of one fewer", "accountant", added(counters=1)
    many: dict[str, Any] = {"user": "u", "devices": 100_000, **budget, "participation": 0.5}
    yield from of("prefix tree: ", lambda: dp.explain_prefix_tree("word", **many).plan, devices())
    yield "ledger: a release that is not added up", "accountant", forgotten
    yield "ledger: a week and its day charged as disjoint", "accountant", disjoint
    yield "ledger: a reservation of 12 releases paid for as 10", "accountant", underpaid
    yield "ledger: a release that tells more than its reservation", "accountant", another_law


def rolled(**measures: Any) -> Callable[[], Any]:
    return lambda: dp.explain_rollup("path:p?depth=8", measures, epsilon=EPSILON, delta=DELTA).plan


def _drawn(proof: dict[str, Any]) -> list[dict[str, Any]]:
    """What the last step draws: measures."""
    drawn: list[dict[str, Any]] = proof["game"]["steps"][-1]["game"]["drawn"]
    return drawn


def _all_of_epsilon(proof: dict[str, Any]) -> None:
    """Measures draw as if nothing had been selected."""
    spent = Fraction(proof["game"]["steps"][-1]["epsilon"])
    for each in _drawn(proof):
        each["scale"] = str(Fraction(each["scale"]) * spent / Fraction(EPSILON))
    proof["game"]["steps"][-1]["epsilon"] = EPSILON


def _selection_of_all_delta(proof: dict[str, Any]) -> None:
    """The selection is one that has all of delta, beside measures that have half of it."""
    alone = json.loads(proof_text(rolled(orders="count")()) or "")
    proof["game"]["steps"][0] = alone["game"]["steps"][0]
    proof["tables"][0] = alone["tables"][0]


def rolled_up() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    """Mistakes in rollups, and in whole counts of cells."""
    both = rolled(orders="count", revenue=dp.sum("x", lower=0, upper=500))
    values, found = rolled(values="distinct(x)"), rolled(x=dp.sum("x", lower=0, upper="auto"))
    mean = rolled(mean=dp.mean("x", lower=-500, upper=500))
    listed = lambda: dp.explain_rollup(["a"], "distinct(x)", epsilon=EPSILON, keys=["x"]).plan  # noqa: E731
    cells = lambda: dp.explain("a * b", epsilon=EPSILON, delta=DELTA, totals=True).plan  # noqa: E731

    def scaled(by: Fraction) -> Change:
        return lambda t: _drawn(t)[0].update(scale=str(Fraction(_drawn(t)[0]["scale"]) * by))

    again: Change = lambda t: _drawn(t).append({**_drawn(t)[1], "measure": "again"})  # noqa: E731
    larger: Change = lambda t: _drawn(t)[1].update(high=2 * _drawn(t)[1]["high"])  # noqa: E731
    twice: Change = lambda t: _drawn(t).append(_drawn(t)[0])  # noqa: E731
    whole = {"table": 2, "least": None}
    mistakes: list[tuple[str, str, Callable[[], Any], Change]] = [
        ("a second measure that is not paid for", "accountant", both, again),
        ("noise of a part for values half as large", "mechanism", both, larger),
        ("a mean paid for by its larger bound alone", "mechanism", mean, scaled(Fraction(1, 2))),
        ("scale of a measure 5 % too small", "mechanism", both, scaled(Fraction(19, 20))),
        ("measures have all of epsilon beside the selection", "accountant", both, _all_of_epsilon),
        (
            "delta of the selection left out of the sum",
            "accountant",
            values,
            _selection_of_all_delta,
        ),
        ("different values paid for at one level", "accountant", listed, put(height=3)),
        ("a search that is not paid for", "accountant", found, twice),
    ]
    for name, where, plan, change in mistakes:
        yield f"rollup: {name}", where, changed(plan, change)
    unpaid: Change = lambda t: t["game"]["steps"][1]["game"]["levels"].append(whole)  # noqa: E731
    name = "cells: whole counts of a kind that is not paid for"
    yield name, "accountant", changed(cells, unpaid)


# -- wrong code: its numbers are right, so that no proof can show it -------------------------------

TEST = halves(left=("geometric", 1.0, 2), right=("geometric", 1.0, 2), recentre=False)
RELEASE = laplace_table(1.5, 1)
WIDE = halves(left=("geometric", 2.0, 8), right=("geometric", 1.0, 6), recentre=False)
HIDDEN = laplace_table(1.5, 40)
SMALL_EPSILON = 2.0


def _with(law: Any, draw: Callable[[Any, int], Any]) -> Any:
    return SimpleNamespace(draw=lambda n: draw(law, n))


def _same(law: Any, n: int) -> Any:
    return np.repeat(law.draw(1), n)


def one_release_draw(tree: CountTree, *, release: Any, **rest: Any) -> NoisyNodes:
    return offline_hhh.run(tree, release=_with(release, _same), **rest)


def one_test_draw_a_level(tree: CountTree, *, test: Any, **rest: Any) -> NoisyNodes:
    return offline_hhh.run(tree, test=_with(test, _same), **rest)


def one_test_draw(tree: CountTree, *, test: Any, **rest: Any) -> NoisyNodes:
    drawn = test.draw(1)
    return offline_hhh.run(tree, test=_with(test, lambda _, n: np.repeat(drawn, n)), **rest)


def _finish(tree: CountTree, selected: Any, residual: Any) -> NoisyNodes:
    return offline_hhh.sum_released_residuals(chosen_nodes(tree, selected), residual)


def _selected(tree: CountTree, test: Any, threshold: int, remainder: bool) -> tuple[Any, Any]:
    kinds = offline_hhh.level_kinds(tree)
    noise: Any = {"test": test, "threshold": threshold, "remainder": remainder}
    _, places, residual = offline_hhh.select(tree, kinds=kinds, **noise)
    selected = np.zeros(len(tree.level), dtype=bool)
    selected[places[:, 0]] = True
    return selected, residual


def exact_remainder(tree: CountTree, *, release: Any, **rest: Any) -> NoisyNodes:
    selected, residual = _selected(tree, **rest)
    noise = release.draw(len(residual))
    noise[0] = 0
    return _finish(tree, selected, residual + noise)


def no_noise_on_large_ones(tree: CountTree, *, release: Any, **rest: Any) -> NoisyNodes:
    selected, residual = _selected(tree, **rest)
    noise = np.where(residual > rest["threshold"], 0, release.draw(len(residual)))
    return _finish(tree, selected, residual + noise)


def a_draw_for_each_value(tree: CountTree, *, release: Any, **rest: Any) -> NoisyNodes:
    selected, residual = _selected(tree, **rest)
    values, of = np.unique(residual, return_inverse=True)
    return _finish(tree, selected, residual + release.draw(len(values))[of])


def no_remainder_of_an_empty_table(tree: CountTree, *, remainder: bool, **rest: Any) -> NoisyNodes:
    return offline_hhh.run(tree, remainder=remainder and bool(tree.count[0] > 0), **rest)


def cut_before_the_noise(tree: CountTree, *, test: Any, threshold: int, **rest: Any) -> NoisyNodes:
    """Nodes that count less than the threshold are not even tested."""

    def draw(law: Any, n: int) -> Any:
        here = tree.at_level(levels.pop())
        noise = law.draw(n)
        return np.where(tree.count[here] < threshold, -(10**6), noise)

    levels = list(range(1, int(tree.level.max(initial=0)) + 1))
    return offline_hhh.run(tree, test=_with(test, draw), threshold=threshold, **rest)


def nothing_is_taken(
    tree: CountTree, *, test: Any, release: Any, threshold: int, remainder: bool
) -> NoisyNodes:
    """A selected node leaves its records in its ancestors, which release them again."""
    top = (tree.count > 0) & (tree.count + test.draw(len(tree.count)) >= threshold)
    top[0] = remainder
    residual = tree.count[top] + release.draw(int(top.sum()))
    return _finish(tree, top, residual)


def candidates_are_shown(tree: CountTree, *, release: Any, **rest: Any) -> NoisyNodes:
    """Every node that was looked at is listed, with a released number or 0."""
    selected, residual = _selected(tree, **rest)
    every = np.ones(len(tree.level), dtype=bool)
    shown = np.zeros(len(tree.level), dtype=np.int64)
    shown[selected] = residual + release.draw(len(residual))
    assert nearest_chosen(tree, every) is not None
    return _finish(tree, every, shown)


CODE: dict[str, Callable[..., NoisyNodes]] = {
    "one release draw for all nodes": one_release_draw,
    "the remainder without noise": exact_remainder,
    "no noise on large residuals": no_noise_on_large_ones,
    "one draw for equal residuals": a_draw_for_each_value,
    "no remainder of an empty table": no_remainder_of_an_empty_table,
    "selected nodes keep their records above": nothing_is_taken,
    "all candidates are shown": candidates_are_shown,
}
"""Mistakes that released numbers show."""

TESTS: dict[str, Callable[..., NoisyNodes]] = {
    "one test draw for a level": one_test_draw_a_level,
    "one test draw for all nodes": one_test_draw,
    "nodes cut off before the noise": cut_before_the_noise,
}
"""Mistakes that the choice of nodes shows, whatever their numbers are."""

TABLES: tuple[tuple[dict[str, int], str], ...] = (
    ({}, "ab"),
    ({"ab": 3, "c": 99}, "ab"),
    ({"a": 3, "c": 3}, "a"),
    ({"ab": 4}, "ab"),
    ({"ab": 2, "a": 2}, "ab"),
    ({"a": 7}, "a"),
)
"""A table, and where the neighbour has one record more."""

MORE_TABLES: tuple[tuple[dict[str, int], str], ...] = (
    ({"a": 7, "b": 8}, "a"),
    ({"ab": 7, "c": 8}, "ab"),
)
"""The same, in which the test is close."""


@dataclass(frozen=True)
class Code:
    """A run of the offline mechanism over small laws, whose cost the accountant knows."""

    run: Callable[..., NoisyNodes]
    chosen_only: bool = False

    @property
    def options(self) -> dict[str, Any]:
        if self.chosen_only:
            return {"test": WIDE, "release": NoNoise(), "threshold": 8, "remainder": False}
        return {"test": TEST, "release": RELEASE, "threshold": 4, "remainder": True}

    @property
    def tables(self) -> tuple[tuple[dict[str, int], str], ...]:
        return MORE_TABLES if self.chosen_only else TABLES

    @property
    def limit(self) -> float:
        """What the shipped code costs with these laws, by the accountant."""
        known = self.options
        release = HIDDEN if self.chosen_only else RELEASE
        return path_delta(**{**known, "release": release}, height=2, epsilon=SMALL_EPSILON)

    def shown(self, noisy: NoisyNodes) -> object:
        out = released(noisy)
        return tuple(path for path, _ in out) if self.chosen_only else out

    def law(self, table: dict[str, int]) -> dict[Any, Any]:
        """The probability of everything that can be shown."""
        counted, options = tree_of(table), self.options

        def scripted(script: Script) -> NoisyNodes:
            test, release = ScriptedValues(options["test"], script), options["release"]
            if not self.chosen_only:
                release = ScriptedValues(release, script)
            return self.run(counted, **{**options, "test": test, "release": release})

        return law_of(scripted, self.shown)  # type: ignore[no-any-return]

    def exceeds(self) -> bool:
        """Whether the exact divergence of some neighbours is above what the shipped code costs."""
        limit = self.limit * (1 + 1e-9)
        return any(
            float(worst(*(map(self.law, (table, more(table, path)))), math.exp(SMALL_EPSILON)))
            > limit
            for table, path in self.tables
        )

    def audited(self) -> bool:
        return any(
            audited(
                *(map(self._outputs, (table, more(table, path)))),
                epsilon=SMALL_EPSILON,
                delta=self.limit,
            )
            for table, path in self.tables
        )

    def _outputs(self, table: dict[str, int]) -> Outputs:
        counted, options = tree_of(table), self.options
        return lambda: (self.shown(self.run(counted, **options)) for _ in repeat(0))


def mutants() -> list[Mutant]:
    """All of them."""
    found = [
        Mutant(name, where, each.refused, each.exceeds, each.audited)
        for name, where, each in (*selections(), *histograms())
    ]
    found += [Mutant(name, where, ask) for name, where, ask in (*rolled_up(), *proofs())]
    code = [
        *((name, Code(run)) for name, run in CODE.items()),
        *((name, Code(run, True)) for name, run in TESTS.items()),
    ]
    found += [Mutant(name, "code", None, each.exceeds, each.audited) for name, each in code]
    return found


def table() -> str:
    """What catches which, as the documents show it."""
    said = {True: "caught", False: "-", None: ""}
    lines = ["| mutant | of | verifier | enumeration | audit |", "| --- | --- | --- | --- | --- |"]
    for mutant in mutants():
        caught = " | ".join(said[each] for each in mutant.caught().values())
        lines.append(f"| {mutant.name} | {mutant.where} | {caught} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
