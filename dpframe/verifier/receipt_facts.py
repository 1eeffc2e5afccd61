"""Derive from a proof, and from the arguments that a receipt declares, what the receipt must say.

Facts are derived first; `receipts.check_receipt` compares them. Where the proof itself is not of what
the receipt declares, such as of fewer records, deriving raises FailedClaimError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import Any

from dpframe.verifier.adaptive import games_of_proof
from dpframe.verifier.counts import read_levels
from dpframe.verifier.facts import (
    DECLARED,
    DOUBLE,
    FREE,
    Fact,
    Facts,
    Path,
    scale_facts,
    table_facts,
)
from dpframe.verifier.laws import BrokenProofError
from dpframe.verifier.measure_facts import rollup_facts
from dpframe.verifier.numbers import ONE, exp_below, is_number
from dpframe.verifier.proof import MOST_HEIGHT, Proof, positive_number
from dpframe.verifier.relative_game import relative_steps
from dpframe.verifier.reports import HOLDER_CHANCE, OFF
from dpframe.verifier.rounds_game import CutGaussian, read_gaussian
from dpframe.verifier.unit_facts import OF_SKETCHES, ProtectedUnit, sentence_facts, unit_facts
from dpframe.verifier.verdict import check_claim

KINDS = {
    "offline": ("path", "shares", "steps"),
    "rollup": ("measures", "steps"),
    "laplace": ("counts",),
    "gaussian": ("counts",),
    "tree-laplace": ("counts",),
    "tree-gaussian": ("counts",),
    "tree-laplace-gaussian": ("counts",),
    "tree-hhh": ("path", "shares"),
    "tree-relative": ("relative",),
    "items": ("counts",),
    "tree-items-laplace": ("counts",),
    "tree-items-gaussian": ("counts",),
    "offline-gaussian": ("path", "normal"),
    "streaming": ("sketches", "merged"),
    "merged-bounded": ("merged",),
    "privacy-aware-misra-gries": ("merged",),
    "misra-gries": ("sketches",),
    "misra-gries-standard": ("sketches",),
    "rounds": ("rounds",),
    "merged-sum": ("sums",),
    "misra-gries-universe": ("counts",),
    "misra-gries-standard-universe": ("counts",),
    "merged-sum-universe": ("counts",),
    "merged-bounded-universe": ("counts",),
    "privacy-aware-misra-gries-universe": ("counts",),
    "synthetic-privhp": ("counts",),
    "prefix-reports": ("reports",),
    "prefix-laplace": ("counts",),
    "prefix-gaussian": ("counts",),
}
"""For each mechanism that a receipt can name: the kinds of games that belong to it."""

FIXED_FIELDS: Mapping[str, Mapping[str, object]] = {
    "offline": {"counters": None},
    "laplace": {"counters": None},
    "gaussian": {"counters": None},
    "streaming": {"remainder": False},
    "items": {"counters": None, "remainder": False, "adds_up": False},
    "rounds": {"counters": None, "remainder": False, "height": 1},
    "rollup": {"remainder": True},
    "tree-": {"remainder": True},
    "tree-items-": {"adds_up": False},
    "prefix-": {
        "height": 1,
        "threshold": None,
        "remainder": False,
        "contribution": None,
        "max_contributions": None,
    },
    "synthetic-": {"threshold": None, "remainder": None},
}
"""What receipts of a mechanism always say, by the beginning of the mechanism's name."""

WHOLE_COUNTS = ("merged-bounded", "privacy-aware-misra-gries")
"""Mechanisms of sketches in which a record or user moves at most k counts by 1."""


def receipt_facts(receipt: Mapping[str, Any], proof: Proof) -> Facts:
    """Everything that a receipt with this proof must say."""
    mechanism, kind = str(receipt.get("mechanism")), proof.game.get("kind")
    check_claim(
        kind in KINDS.get(mechanism, ()), f"the mechanism {mechanism!r} is no game {kind!r}"
    )
    yield ("mechanism",), FREE
    yield from _label_facts(receipt, proof, mechanism)
    for start, fields in FIXED_FIELDS.items():
        if mechanism.startswith(start):
            yield from (((name,), Fact.value(value)) for name, value in fields.items())
    if mechanism.startswith("prefix-"):
        yield from _prefix_facts(receipt, proof)
        return
    if mechanism == "rollup":
        yield from rollup_facts(receipt, proof)
    unit = yield from unit_facts(receipt, proof)
    if mechanism.removesuffix("-universe") in OF_SKETCHES:
        yield from _sketch_facts(receipt, proof, mechanism)
    elif mechanism == "rounds":
        yield from _rounds_facts(receipt, proof)
    elif "items" in mechanism.split("-"):
        yield from _user_count_facts(receipt, proof, listed=mechanism != "items")
    elif kind in ("sketches", "merged"):
        yield from _stream_facts(proof, str(kind))
    elif kind == "relative":
        yield from _relative_facts(proof)
    elif mechanism == "synthetic-privhp":
        unit.check_division(proof)
        yield from _generator_facts(receipt, proof)
    elif kind == "counts":
        yield from _level_facts(receipt, proof, unit)
    elif mechanism != "rollup":
        yield from _selection_facts(receipt, proof, unit)


def _label_facts(receipt: Mapping[str, Any], proof: Proof, mechanism: str) -> Facts:
    """The promise, the names of levels, the line of the guarantee on the card, and which fields are
    objects."""
    yield ("epsilon",), Fact.value(proof.epsilon, f"{float(proof.epsilon)!r}")
    yield ("delta",), Fact.value(proof.delta, f"{float(proof.delta)!r}")
    yield (
        ("computed_delta",),
        Fact(
            f"at most {float(proof.delta):g}",
            lambda told: is_number(told) and 0 <= told <= proof.delta,
        ),
    )
    height, guarantee, keys = (receipt.get(name) for name in ("height", "guarantee", "keys"))
    names = Fact.size(height) if type(height) is int else Fact.value(None)
    yield ("levels",), names
    yield (
        ("height",),
        Fact(
            f"a number up to {MOST_HEIGHT}",
            lambda told: told is None or (type(told) is int and 0 < told <= MOST_HEIGHT),
        ),
    )
    measures = receipt.get("measures")
    measure = measures.get("guarantee") if isinstance(measures, Mapping) else None
    own = [measure.get("spec")] if isinstance(measure, Mapping) else []  # a measure of that name
    lines = [[each] for each in (guarantee, *own)]
    yield (
        ("card",),
        Fact(
            f"another line 'guarantee' than {guarantee!r}",
            lambda told: (
                told is None
                or isinstance(told, list)
                and [one[1:2] for one in told if isinstance(one, list) and one[:1] == ["guarantee"]]
                == lines
            ),
        ),
    )
    for name in ("ledger", "period"):
        yield (
            (name,),
            Fact("an object or none", lambda told: told is None or isinstance(told, Mapping)),
        )
    lists = mechanism.startswith(("tree-", "rollup"))
    yield ("keys",), Fact("none", lambda told: told is None or (lists and isinstance(told, str)))


# -- selections and counts of levels --------------------------------------------------------------


def _selection_facts(receipt: Mapping[str, Any], proof: Proof, unit: ProtectedUnit) -> Facts:
    """A selection: height, remainder, threshold and noise. With whole counts of cells it is the
    first of two steps; the second has one count for every kind of cells and one for the total."""
    if proof.game.get("kind") == "steps":
        each = games_of_proof(proof)
        kinds = [part.game.get("kind") for _, _, part in each]
        check_claim(
            kinds in (["path", "counts"], ["shares", "counts"]),
            f"whole_counts are a selection and counts, and the proof is of {kinds}",
        )
        (_, _, proof), (epsilon, delta, whole) = each
        yield ("whole_counts", "epsilon"), Fact.value(epsilon)
        yield ("whole_counts", "delta"), Fact.value(delta)
        levels = read_levels(whole)
        check_claim(
            whole.game.get("units") == 1 and all(one.get("least") is None for one in levels),
            "whole_counts are not divided, and of cells that are found already",
        )
        yield ("height",), Fact.value(len(levels) - 1, f"{len(levels) - 1} kinds of cells")
        for law in {whole.table(one.get("table"), "table") for one in levels}:
            yield from table_facts(("whole_counts", "noise"), law)
    else:
        yield ("whole_counts",), Fact.value(None)
    units, game = unit.check_division(proof), proof.game
    check_claim(game.get("release") is not None, "the receipt has released counts, the proof none")
    yield ("keys",), Fact.value(None)
    yield ("height",), Fact.value(proof.whole("height", 1))
    if "remainder" in game:
        yield ("remainder",), Fact.value(proof.flag("remainder"))
    one = unit.worth / units
    exact = proof.whole("threshold") * one
    most = exact * (1 + DOUBLE) * (Fraction(1001, 1000) if unit.worth != 1 else 1)  # four digits
    yield (
        ("threshold",),
        Fact(  # counts are whole units
            f"{float(exact):g}", lambda told: is_number(told) and exact - one < told <= most
        ),
    )
    for name in ("test", "release"):
        yield from table_facts(("noise", name), proof.law(name), units, unit.worth)


def _noise_facts(path: Path, level: Mapping[str, Any], proof: Proof, units: int = 1) -> Facts:
    """The noise of a level that has a table, or a scale alone."""
    if "table" in level:
        return table_facts(path, proof.table(level["table"], "table"), units)
    return scale_facts(path, positive_number(level.get("scale"), "scale"), units)


def _level_facts(receipt: Mapping[str, Any], proof: Proof, unit: ProtectedUnit) -> Facts:
    """Counts of levels, of the hierarchy and of the total: where keys are not listed, every level
    but the total has a threshold. No node is shown with fewer than the receipt says; histograms
    have one threshold on all levels, and one law of noise."""
    levels, units = read_levels(proof), unit.check_division(proof)
    listed, alike = receipt.get("keys") is not None, receipt["mechanism"] in ("laplace", "gaussian")
    total = not alike or levels[0].get("least") is None
    check_claim(
        [each.get("least") is None for each in levels]
        == [True] * total + [listed] * (len(levels) - total),
        f"without listed keys all levels but the total have thresholds; keys are {listed=}, and "
        f"the proof has {[each.get('least') for each in levels]}",
    )
    yield ("remainder",), Fact.value(total)
    yield ("height",), Fact.value(len(levels) - total, f"{len(levels) - total} levels")
    least = {Fraction(each["least"], units) for each in levels if each.get("least") is not None}
    for each in least:
        yield ("threshold",), Fact.value(each) if alike else Fact.at_least(each)
    if not least:
        yield ("threshold",), Fact.value(None)
    noise = receipt.get("noise")
    by_level = isinstance(noise, Mapping) and "levels" in noise
    if by_level:
        yield ("noise", "levels"), Fact.size(len(levels))
    for number, level in enumerate(levels):
        if by_level:
            yield from _noise_facts(("noise", "levels", number), level, proof, units)
        else:  # of a histogram
            for name in ("test", "release"):
                yield from _noise_facts(("noise", name), level, proof, units)


def _generator_facts(receipt: Mapping[str, Any], proof: Proof) -> Facts:
    """Synthetic rows: a record moves one count on each level down to floor(log2 k), and one cell of
    every row of a sketch on each level below."""
    levels, k, rows = read_levels(proof), receipt.get("k"), receipt.get("rows")
    height = len(levels) - 1
    yield ("k",), Fact.whole()
    yield ("rows",), Fact.whole()
    yield ("height",), Fact.value(height)
    exact = k.bit_length() if type(k) is int else 0
    wanted = [1 if level < exact else rows for level in range(height + 1)]
    moved = [each.get("moves", 1) for each in levels]
    check_claim(
        moved == wanted and proof.game.get("units") == 1,
        f"with k {k!r} and rows {rows!r} a record moves {wanted} counts of the levels, in the proof "
        f"{moved}",
    )
    scales = [positive_number(each.get("scale"), "scale") for each in levels]
    yield ("noise", "scales"), Fact.items([Fact.near(each) for each in scales])


def _user_count_facts(receipt: Mapping[str, Any], proof: Proof, *, listed: bool) -> Facts:
    """Different users: one moves the total, and on every other level as many counts as nodes that a
    user counts at, or that are listed if these are fewer. Of listed keys every count is shown, else
    only the total is in any case."""
    levels, most, nodes = read_levels(proof), receipt.get("at_most"), receipt.get("listed")
    height = receipt.get("height")
    yield ("height",), Fact.whole()
    yield ("at_most",), Fact.whole(most=10**6)
    yield ("moved",), Fact.value(len(levels))
    check_claim(
        (receipt.get("keys") is not None) == listed,
        "keys are listed in one of receipt and mechanism, and found in the other",
    )
    if listed:
        yield (
            ("listed",),
            Fact.items([Fact.whole()] * len(nodes if isinstance(nodes, list) else ())),
        )
        yield ("levels",), Fact.size(len(nodes if isinstance(nodes, list) else ()))
    numbers = nodes if listed else [most] * (height if type(height) is int else 0)
    whole = isinstance(numbers, list) and {*map(type, [most, *numbers])} == {int}
    times = [1, *(min(most, number) for number in numbers or ())] if whole else []
    check_claim(
        sum(times) == len(levels) and proof.game.get("units") == 1,
        f"a user of the receipt moves {sum(times)} counts by 1, of the proof {len(levels)}",
    )
    open_levels = len(levels) if listed else 1
    check_claim(
        all(each.get("least") is None for each in levels[:open_levels]),
        "the proof has a threshold where every node is shown",
    )
    for least in {each.get("least") for each in levels[open_levels:]} or {None}:
        yield ("threshold",), Fact.value(least)
    if listed:
        yield ("noise", "levels"), Fact.size(len(times))
    of_level = [number for number, many in enumerate(times) for _ in range(many)]
    told: set[object] = set()
    for number, level in zip(of_level, levels, strict=True):
        path: Path = ("noise", "levels", number) if listed else ("noise", "release")
        if (one := (path, level.get("table"), str(level.get("scale")))) not in told:
            yield from _noise_facts(path, level, proof)
        told.add(one)


def _relative_facts(proof: Proof) -> Facts:
    """Counts with a relative error: what is drawn in each step."""
    steps = relative_steps(proof)
    yield ("height",), Fact.whole()
    yield ("noise", "steps"), Fact.value(len(steps))
    for name, of in (("tops", "tops"), ("bounds", "bound"), ("scales", "tests")):
        facts = [Fact.near(Fraction(getattr(step, of))) for step in steps]
        yield ("noise", name), Fact.items(facts)
    yield ("keys",), Fact.value(None)
    yield ("threshold",), Fact.at_least(min(step.cut for step in steps))


# -- sketches -------------------------------------------------------------------------------------


def _stream_facts(proof: Proof, kind: str) -> Facts:
    """One sketch a level."""
    height = proof.whole("sketches", 1)
    yield ("height",), Fact.value(height, f"{height} levels")
    if kind == "merged":
        yield ("counters",), Fact.value(proof.whole("changed", 1))
    else:
        check_claim(proof.game.get("standard") is None, "sketches of a stream remove zeros late")
    yield ("threshold",), Fact.value(proof.whole("least" if kind == "merged" else "theta"))
    for name in ("test", "release"):
        yield from table_facts(("noise", name), proof.law("noise"))


def _sketch_facts(receipt: Mapping[str, Any], proof: Proof, mechanism: str) -> Facts:
    """A sketch that an application keeps: counters, threshold and noise, and how far a record moves
    its counts. With a list of keys each of these has noise without bounds."""
    k, game, own = receipt.get("counters"), proof.game, mechanism.removesuffix("-universe")
    yield ("counters",), Fact.whole("a number of counters")
    k = k if type(k) is int and k > 0 else 1
    whole = own in WHOLE_COUNTS
    if own != mechanism:
        yield ("universe",), Fact.whole("a number of keys")
        yield ("threshold",), Fact.value(None)
        levels, most = read_levels(proof), k if whole else 2 * k - 1
        moved = [each.get("moves", 1) for each in levels]
        check_claim(
            moved == [most] and game.get("units") == 1,
            f"a record of {mechanism} with {k} counters moves keys by {most}, in the proof {moved}",
        )
        yield from _noise_facts(("noise", "count"), levels[0], proof, 1 if whole else k + 1)
        return
    yield ("universe",), Fact.value(None)
    check_claim(game.get("sketches") == 1, "the receipt is of one sketch, the proof of others")
    units, threshold = 1, "theta"
    if own == "merged-sum":
        units = proof.whole("counters", 1) + 1
        yield ("counters",), Fact.value(units - 1)
    elif whole:
        threshold = "least"
        yield ("counters",), Fact.value(proof.whole("changed", 1))
    else:
        standard = k if own == "misra-gries-standard" else None
        check_claim(
            type(game.get("standard")) is type(standard) and game.get("standard") == standard,
            f"a {own} of {k} counters is {standard!r} as standard, in the proof "
            f"{game.get('standard')!r}",
        )
        yield from table_facts(("noise", "sketch_error"), proof.law("shared"))
    yield ("threshold",), Fact.near(Fraction(proof.whole(threshold), units))
    yield from table_facts(("noise", "count"), proof.law("noise"), units)


# -- rounds of users ------------------------------------------------------------------------------


def _rounds_facts(receipt: Mapping[str, Any], proof: Proof) -> Facts:
    """Values of users: the noise of every round, of the sizes and of the counts. A user moves
    ``at_most`` counts together by a vector of at most the norm in the proof; where a release finds
    ``at_most``, it divides the norm only then."""
    game, unit, norm = proof.game, proof.whole("unit", 1), proof.whole("norm", 1)
    each = game.get("rounds")
    drawn = [read_gaussian(one, 1, 1) for one in each] if isinstance(each, list) else []
    check_claim(bool(drawn), "the proof has no rounds")
    yield ("max_contributions",), Fact.value(proof.whole("items", 1))
    yield ("noise", "rounds"), Fact.size(len(drawn))
    for number, law in enumerate(drawn):
        yield from _gaussian_facts(("noise", "rounds", number), law, unit)
    most = receipt.get("at_most")
    yield ("at_most",), FREE if most is None else Fact.whole()
    number = most if type(most) is int and most > 0 else 1
    grid = isqrt(norm**2 // number)
    check_claim(grid > 0, f"{most!r} counts of a user have a norm above {norm}")
    yield from _gaussian_facts(("noise", "release"), read_gaussian(game.get("count"), 1, 1), grid)
    if game.get("sizes") is None:
        yield ("noise", "sizes"), Fact.value(None)
    else:
        yield from _gaussian_facts(("noise", "sizes"), read_gaussian(game["sizes"], 1, 1), 1)
    parts = sum(one.part for one in drawn)
    yield ("threshold",), Fact.at_least(-(-proof.whole("threshold") // (unit * parts)))


def _gaussian_facts(path: Path, law: CutGaussian, units: int) -> Facts:
    """Normal noise that is rounded and cut: the standard deviation of a rounded law is a little more
    than its scale."""
    yield (*path, "grid"), Fact.value(units)
    yield (*path, "lowest"), Fact.near(Fraction(-law.end, units))
    yield (*path, "highest"), Fact.near(Fraction(law.end, units))
    square = (law.sigma / units) ** 2 + Fraction(1, 12 * units**2)
    yield (*path, "sd"), Fact.root(square, Fraction(1, 1000))
    half = ["rounded gaussian", law.sigma, law.end]
    yield (
        (*path, "halves"),
        Fact(f"of scale {float(law.sigma):g}", lambda told: told is None or told == [half] * 2),
    )
    yield (*path, "family"), FREE


# -- prefix trees ---------------------------------------------------------------------------------


def _prefix_facts(receipt: Mapping[str, Any], proof: Proof) -> Facts:
    """Reports of devices, or counts of them: a device sends one report in every round of every
    iteration. One that is replaced moves two counts each time."""
    game, counts = proof.game, proof.game.get("kind") == "counts"
    times, devices, local = (receipt.get(name) for name in ("reports", "devices", "local_epsilon"))
    asked = [receipt.get(name) for name in ("iterations", "rounds")]
    whole = all(type(each) is int for each in asked)
    product = math.prod(asked) if whole else 0  # type: ignore[arg-type]
    yield from (((name,), Fact.whole()) for name in ("devices", "iterations", "rounds"))
    yield ("reports",), Fact.value(product, f"{product} of all rounds and iterations")
    yield ("user",), DECLARED
    if counts:
        levels = read_levels(proof)
        replaced = len(levels) == 2 * product
        check_claim(
            len(levels) in (product, 2 * product) and game.get("units") == 1,
            f"a user of the receipt moves {product} or twice as many counts by 1, of the proof "
            f"{len(levels)}",
        )
        check_claim(all(each.get("least") is None for each in levels), "counts have no threshold")
        check_claim(all(law.symmetric for law in proof.laws), "noise must be symmetric")
        noise = receipt.get("noise")
        for law in {proof.table(each.get("table"), "table") for each in levels}:
            yield from table_facts(("noise",), law)
        yield ("reporting",), Fact.value(devices)
        yield ("participation",), Fact.value(1)
        sd = noise.get("sd") if isinstance(noise, Mapping) else None
        yield ("standard_error",), Fact.value(sd if is_number(sd) else "a number")
        yield ("local_epsilon",), Fact.value(None)
    else:
        replaced = proof.flag("replaced")
        yield from _report_facts(proof)
    who, devices = f"one user ({receipt.get('user')!r})", devices if type(devices) is int else 0
    known = f"the number of users, {devices:,}, is public"
    sentence = f"adding or removing all items of {who}, who still reports; {known}"
    if replaced:
        sentence = f"replacing all records of {who} by any others; {known}"
    yield from sentence_facts(receipt, proof, sentence)
    check_claim(proof.group == 1, f"the receipt has one user, the proof {proof.group}")
    promise = None
    if is_number(local):
        promise = (
            f"{local:g}-differential privacy in the local model for a report, {times * local:g} "
            f"for all {times} of a device"
        )
    yield ("local_guarantee",), Fact.value(promise)


def _report_facts(proof: Proof) -> Facts:
    """Randomised reports: what a device and the sums of all devices say of what is held."""
    silence, devices = proof.scale("silence"), proof.whole("devices", 1)
    chance = proof.scale("participation")
    yield ("devices",), Fact.value(devices)
    yield ("reporting",), Fact.value(proof.whole("counted", 1))
    yield ("reports",), Fact.value(proof.whole("reports", 1))
    yield ("participation",), Fact.value(chance)
    yield ("noise",), Fact.value(None)
    odds = (1 / silence - 1) * ONE
    yield (
        ("local_epsilon",),
        Fact(
            f"of a chance {float(silence):g}",
            lambda told: (
                is_number(told)
                and 0 < told < 100
                and abs(odds / exp_below(Fraction(told)) - 1) < OFF
            ),
        ),
    )
    others = max(1, round(devices * chance)) - 1
    square = (Fraction(1, 4) + others * silence * (1 - silence)) / (HOLDER_CHANCE - silence) ** 2
    yield ("standard_error",), Fact.root(square, OFF)
