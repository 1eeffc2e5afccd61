"""Mutants of shipped mechanisms and accountants, each with one mistake, and what catches it.

``python -m tests.privacy.mutants`` prints the table of ``mutants.md``. Three auditors look at
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
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import beta

import dpframe as dp
from dpframe.accounting.compose import composed_epsilon
from dpframe.accounting.losses import level_laws
from dpframe.accounting.path_recursion import path_delta
from dpframe.accounting.sketch_lattice import lattice_laws
from dpframe.accounting.sketch_stream import sketch_laws
from dpframe.asking.level_plan import proof_text
from dpframe.counts import CountTree, NoisyNodes, nearest_chosen
from dpframe.ledger.reservations import reserved_law
from dpframe.mechanisms import offline_hhh
from dpframe.noise import NoiseTable, gaussian_table, halves, laplace_table
from dpframe.testing import seeded_noise
from dpframe.verifier import bound_at, verify_proof
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


def told_apart(
    outputs: Callable[[Any], Iterator[object]],
    pairs: Iterable[tuple[Any, Any]],
    epsilon: float = EPSILON,
    delta: float = DELTA,
) -> bool:
    """Whether draws of two neighbours show, in one direction, that the promise is broken."""
    for pair in pairs:
        with seeded_noise(7):
            drawn = [list(islice(outputs(one), 2 * DRAWS)) for one in pair]
        if _shown(*drawn, epsilon, delta) or _shown(*drawn[::-1], epsilon, delta):
            return True
    return False


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
        full = self.threshold - self.test.highest // 3
        return told_apart(self._outputs, ((n, n + 1) for n in (0, full)))

    def _outputs(self, records: int) -> Iterator[object]:
        tree = tree_of({"abcdefgh"[: self.height]: records})
        given = {name: value for name, value in vars(self).items() if name != "height"}
        while True:
            yield released(offline_hhh.run(tree, **given))


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
    shift = own.test.highest - test.highest
    test = NoiseTable(test.family, test.lowest + shift, test.weights)
    return replace(
        own,
        test=test,
        release=laplace_table(setting.laws.release_scale * release, own.release.highest),
    )


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
    test, release, highest = own.test, own.release, own.test.highest
    as_release = replace(own, test=release, threshold=release.highest + 2)
    for_one = Selection(low.test, low.laws.release, low.threshold)
    yield "release noise of half the scale", "mechanism", scaled(1, 1, 0.5)
    yield "left half 20 % narrower", "accountant", scaled(0.8, 1, 1)
    yield "right half 20 % narrower", "accountant", scaled(1, 0.8, 1)
    yield "test drawn from the release's law", "mechanism", as_release
    yield "calibrated for one level, run on three", "accountant", for_one
    yield "one level more than was paid for", "accountant", replace(own, height=4)
    yield "remainder that is not paid for", "accountant", replace(without, remainder=True)
    yield "threshold of 1", "mechanism", replace(own, threshold=1)
    half = replace(own, threshold=highest // 2)
    yield "threshold at half the reach of the noise", "mechanism", half
    yield "threshold off by two", "mechanism", replace(own, threshold=highest)
    yield "test cut short on the left", "noise", replace(own, test=cut(test, 8, 0))
    yield "test cut short on the right", "noise", replace(own, test=cut(test, 0, 3))
    yield "release cut short", "noise", replace(own, release=cut(release, 4, 4))
    yield "a value that never comes", "noise", replace(own, release=holed(release))
    yield "release noise without its sign", "noise", replace(own, release=one_sided(release))


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
        return told_apart(self._outputs, ((n, n + 1) for n in (0, 1000)))

    def _outputs(self, records: int) -> Iterator[object]:
        while True:
            drawn = self.noise.draw(500 * self.levels).reshape(500, self.levels) + records
            shown = np.where((drawn >= self.least) & (records > 0), drawn, -1)
            yield from (int(total) for total in shown.sum(axis=1))


@cache
def level_law(family: Any, levels: int) -> NoiseTable:
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


Change = Callable[[dict[str, Any]], object]
"""What is done to a proof as JSON has it."""


def changed(plan: Callable[[], Any], change: Change) -> Callable[[], bool]:
    """Whether the verifier refuses a plan whose game was changed and whose promise was not."""

    def ask() -> bool:
        proof = json.loads(proof_text(plan()) or "")
        change(proof)
        return verify_proof(json.dumps(proof)).outcome == "failed"

    return ask


def told_of(part: str, **facts: Any) -> Change:
    """Other facts in a part of the proof; a function of what is told there makes the new fact."""

    def change(proof: dict[str, Any]) -> None:
        known = proof[part]
        known.update({k: fact(known[k]) if callable(fact) else fact for k, fact in facts.items()})

    return change


played = partial(told_of, "game")


def once_more(name: str) -> Change:
    """The first part of the game again."""
    return lambda proof: proof["game"][name].append(proof["game"][name][0])


def planned(explain: Callable[..., Any], *of: Any, **arguments: Any) -> Callable[[], Any]:
    budget = {"epsilon": EPSILON, "delta": DELTA}
    return lambda: explain(*of, **{**budget, **arguments}).plan


explained = partial(planned, dp.explain, "path:p?depth=3")


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
    budget = {"epsilon": 0.1, "delta": 1e-8}
    law = reserved_law(dp.explain(["p"], **budget).plan.profile)
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


def _last_step(**facts: Callable[[dict[str, Any]], object]) -> Change:
    def change(proof: dict[str, Any]) -> None:
        step = proof["game"]["steps"][-1]
        step.update({name: fact(step) for name, fact in facts.items()})

    return change


def _narrower(noise: dict[str, Any]) -> None:
    noise["sigma"] *= 0.99


def _rounded_down(proof: dict[str, Any]) -> None:
    """Scales without bounds, rounded down to a multiple of 2^-16 and not up."""
    for level in proof["game"]["levels"]:
        over, _, under = level["scale"].partition("/")
        level["scale"] = f"{int(over) * 2**16 // int(under or 1) - 1}/{2**16}"


GROUPS: Any = {"user": "u", "contribution": "records", "max_contributions": 2}
BY_SHARES: Any = {"user": "u", "contribution": "share", "epsilon": 4.0}
GROUPED, SHARES = explained(**GROUPS), explained(**BY_SHARES)
NORMAL = explained(mechanism="offline-gaussian", **GROUPS)
ROUNDS = planned(dp.explain_heavy_hitters, "w", user="u")
LEVELS = planned(dp.explain, ["a", "b"], user="u", mechanism="rounds")
DEVICES = planned(dp.explain_prefix_tree, "word", user="u", devices=100_000, participation=0.5)


def tree(about: Any = "path:p?depth=3", **arguments: Any) -> Callable[[], Any]:
    return planned(dp.explain_tree_counts, about, **arguments)


def rows_of_a_sketch() -> Any:
    return dp.explain_synthesize("number:x?lower=0&upper=1", epsilon=1.0, k=16).plan


def proofs() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    """Mistakes that a proof shows."""
    listed, laplace = tree(["p"], epsilon=0.7, delta=None, keys=["x"]), tree(mechanism="laplace")
    third, lower = told_of("promise", delta=DELTA / 3), played(threshold=lambda x: x - 300)
    whole, wider = played(units=lambda n: 2 * n), played(left=lambda b: b * 1.15)
    last = lambda proof: proof["game"]["levels"][-1].update(moves=3)  # noqa: E731
    yield "groups of 3 paid for as 2", "accountant", changed(GROUPED, told_of("promise", group=3))
    yield "delta of a group not divided", "accountant", changed(GROUPED, third)
    name = "shares: left scale claimed 15 % wider than the table"
    yield name, "accountant", changed(SHARES, wider)
    yield "shares: a unit counted as a user", "mechanism", changed(SHARES, whole)
    name = "shares: threshold that hides one unit and no user"
    yield name, "mechanism", changed(SHARES, lower)
    yield "sketches: noise of one level on three", "accountant", streams(1, 0)
    yield "sketches: threshold off by two", "mechanism", streams(3, 2)
    name = "tree counts: a level that is not paid for"
    yield name, "accountant", changed(laplace, once_more("levels"))
    yield "tree counts: scales rounded down", "accountant", changed(listed, _rounded_down)
    yield from relative_counts()
    name = "synthetic rows: rows of a sketch paid for as one"
    yield name, "accountant", changed(rows_of_a_sketch, last)
    yield from groups_of_users()
    yield from rounds_of_weights()
    yield "sum of sketches: threshold off by two counts", "mechanism", added(theta=-18)
    yield "sum of sketches: a level that is not paid for", "accountant", added(sketches=1)
    yield "sum of sketches: noise on counts of one fewer", "accountant", added(counters=1)
    yield from sums_of_reports()
    yield "ledger: a release that is not added up", "accountant", forgotten
    yield "ledger: a week and its day charged as disjoint", "accountant", disjoint
    yield "ledger: a reservation of 12 releases paid for as 10", "accountant", underpaid
    yield "ledger: a release that tells more than its reservation", "accountant", another_law


Changes = tuple[tuple[str, str, Change], ...]


def of_each(
    prefix: str, plan: Callable[[], Any], changes: Changes
) -> Iterator[tuple[str, str, Callable[[], bool]]]:
    for name, where, change in changes:
        yield f"{prefix}: {name}", where, changed(plan, change)


def relative_counts() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    plan = tree("path:p?depth=2", mechanism="relative", alpha=0.5, largest=10**9)
    half = _last_step(tests=lambda s: str(Fraction(s["tests"]) / 2))
    changes: Changes = (
        ("a step that is not paid for", "accountant", once_more("steps")),
        ("an answer more than is paid for", "accountant", _last_step(tops=lambda s: s["tops"] + 1)),
        ("queries with the noise of tests", "mechanism", _last_step(queries=lambda s: s["tests"])),
        ("tests with noise of half the scale", "mechanism", half),
        (
            "noise of tests cut at half its reach",
            "noise",
            _last_step(bound=lambda s: s["bound"] // 2),
        ),
        ("one record can pass a test", "mechanism", _last_step(cut=lambda s: s["bound"] + 1)),
    )
    return of_each("relative counts", plan, changes)


def groups_of_users() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    """Mistakes in Gaussian noise for groups of records."""
    wider = played(test_sigma=lambda sigma: sigma * 1.01)
    changes: Changes = (
        ("3 records paid for as 2", "accountant", played(moves=3)),
        ("a level that is not paid for", "accountant", played(height=4)),
        ("noise of a test claimed 1 % wider than its table", "noise", wider),
        ("tests with noise of releases", "mechanism", lambda t: t["tables"].reverse()),
    )
    return of_each("Gaussian groups", NORMAL, changes)


def rounds_of_weights() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    changes: Changes = (
        ("a round that is not paid for", "accountant", once_more("rounds")),
        ("noise of a round 1 % narrower", "mechanism", lambda t: _narrower(t["game"]["rounds"][0])),
        ("noise of counts 1 % narrower", "mechanism", lambda t: _narrower(t["game"]["count"])),
        ("a user with twice the values", "accountant", played(items=lambda n: 2 * n)),
        ("threshold 1 % lower", "mechanism", played(threshold=lambda x: x * 99 // 100)),
        ("counts of norm 256 paid for as 128", "accountant", played(norm=256)),
    )
    of_levels: Changes = (
        ("a histogram that is not paid for", "accountant", played(norms=lambda n: [*n, 1])),
        ("counts of both parts of a whole norm", "mechanism", played(norms=lambda n: [128, 128])),
    )
    yield from of_each("rounds", ROUNDS, changes)
    yield from of_each("rounds of levels", LEVELS, of_levels)


def sums_of_reports() -> Iterator[tuple[str, str, Callable[[], bool]]]:
    less = played(silence=lambda chance: chance * 0.95)
    changes: Changes = (
        ("a report that is not paid for", "accountant", played(reports=5)),
        ("a cell that nobody holds reports 5 % less", "mechanism", less),
        ("a cell that others hold taken for the best hidden", "accountant", played(spared=5)),
        ("devices counted that do not take part", "accountant", played(counted=50_000)),
    )
    return of_each("prefix tree", DEVICES, changes)


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
    return offline_hhh.sum_released_residuals(tree.chosen_nodes(selected), residual)


def _selected(tree: CountTree, **noise: Any) -> tuple[Any, Any]:
    _, places, residual = offline_hhh.select(tree, kinds=offline_hhh.level_kinds(tree), **noise)
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


def no_remainder_of_an_empty_table(tree: CountTree, **given: Any) -> NoisyNodes:
    full = bool(given["remainder"] and tree.count[0] > 0)
    return offline_hhh.run(tree, **{**given, "remainder": full})


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
            test = ScriptedValues(options["test"], script)
            release = options["release"]
            if not self.chosen_only:
                release = ScriptedValues(release, script)
            return self.run(counted, **{**options, "test": test, "release": release})

        return law_of(scripted, self.shown)

    def exceeds(self) -> bool:
        """Whether the exact divergence of some neighbours is above what the shipped code costs."""
        limit = self.limit * (1 + 1e-9)
        return any(
            float(worst(*(map(self.law, (table, more(table, path)))), math.exp(SMALL_EPSILON)))
            > limit
            for table, path in self.tables
        )

    def audited(self) -> bool:
        pairs = ((table, more(table, path)) for table, path in self.tables)
        return told_apart(self._outputs, pairs, SMALL_EPSILON, self.limit)

    def _outputs(self, table: dict[str, int]) -> Iterator[object]:
        counted, options = tree_of(table), self.options
        while True:
            yield self.shown(self.run(counted, **options))


def mutants() -> list[Mutant]:
    """All of them."""
    from tests.privacy.rollup_mutants import rolled_up  # which changes proofs as this module does

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
    """What catches which, as ``mutants.md`` shows it."""
    said = {True: "caught", False: "-", None: ""}
    lines = ["| mutant | of | verifier | enumeration | audit |", "| --- | --- | --- | --- | --- |"]
    for mutant in mutants():
        caught = " | ".join(said[each] for each in mutant.caught().values())
        lines.append(f"| {mutant.name} | {mutant.where} | {caught} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
