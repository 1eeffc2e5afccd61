"""Games with Gaussian noise along paths, and of rounds.

**Gaussian noise** in whole numbers: its law, and selections along paths with it.

docs/guarantees.md, "Why it holds: users".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from dpframe.verifier.facts import (
    FREE,
    POSITIVE,
    Fact,
    Facts,
    MeasureText,
    Path,
    are_cut_gaussian,
    bound_facts,
    measure_names,
    measures_facts,
)
from dpframe.verifier.numbers import BITS, ONE, TABLE, divide_up, exp_above, exp_below
from dpframe.verifier.path_game import MeasureDraw
from dpframe.verifier.verdict import (
    BrokenProofError,
    DeltaBound,
    Law,
    NotVerifiedError,
    Proof,
    ProofStep,
    check_claim,
    games_of_proof,
    positive_number,
)

PI = Fraction(31415926535897932384626433832795028841971, 10**40)
"""A lower bound on pi, off by at most 1e-40."""

FINE = 512
"""Bits behind the point of numbers in `_distribution_series`."""

ROOT = (
    math.isqrt(math.floor(2 * PI * 4**FINE)),
    math.isqrt(math.floor(2 * (PI + Fraction(1, 10**40)) * 4**FINE)) + 1,
)
"""A lower and an upper bound on the square root of 2 pi, in parts of 2**FINE."""

COARSE = 1 << 128
"""Parts of 1 in an argument of the distribution function: the function grows, so that rounding the
argument down and up gives a lower and an upper bound."""

TAYLOR = 192
"""Bits behind the point of numbers in Taylor's series around a point."""

FAR = 12
"""From this x on, in standard deviations, a tail is below e^(-x^2 / 2), which is below 2^-96."""


def upper_root(x: Fraction) -> Fraction:
    """An upper bound on the square root, to 128 bits."""
    return Fraction(math.isqrt(math.ceil(x * COARSE * COARSE)) + 1, COARSE)


def normal_distribution(x: Fraction) -> tuple[int, int]:
    """A lower and an upper bound on P(standard Gaussian noise < x), in parts of ONE."""
    if x < 0:
        low, high = normal_distribution(-x)
        return ONE - high, ONE - low
    if x >= FAR:
        return ONE - exp_above(-x * x / 2), ONE
    return _distribution_series(math.floor(x * COARSE))[0], _distribution_series(
        math.ceil(x * COARSE)
    )[1]


def distribution_on_grid(sigma: Fraction, number: int) -> list[tuple[int, int]]:
    """Bounds as from `normal_distribution` at (k - 1/2) / sigma, k = 0, 1, ...: by Taylor's series
    around points that are an eighth apart, where the distribution function and its density are
    known.

    A derivative of order n is +- He_n times the density; this product is nowhere above
    0.44 root(n!) (Cramer). So what is left out of the series is below 2^-140, and its roundings are
    below 2^-120. The rounding of the density, at most twice 2^-96, adds less than 1/5 of 2^-96.
    """
    reach = math.floor(sigma / 16)
    if reach < 8:
        return [normal_distribution((k - Fraction(1, 2)) / sigma) for k in range(number)]
    out: list[tuple[int, int]] = []
    for middle in range(reach, number + reach, 2 * reach + 1):
        at = (middle - Fraction(1, 2)) / sigma
        points = range(middle - reach, min(middle + reach + 1, number))
        if at + Fraction(1, 16) >= FAR:
            out += [normal_distribution((k - Fraction(1, 2)) / sigma) for k in points]
            continue
        low, high = normal_distribution(at)
        terms = _taylor_terms(at)
        for k in points:
            move = ((k - middle) * sigma.denominator << TAYLOR) // sigma.numerator
            more = 0
            for term in terms:
                more = (more + term) * move >> TAYLOR
            more >>= TAYLOR - BITS
            out.append((max(0, low + more - 2), min(ONE, high + more + 3)))
    return out


def _taylor_terms(at: Fraction) -> list[int]:
    """Derivatives of the distribution function over factorials, the highest order first; the first
    derivative is the density."""
    x = math.floor(at * (1 << TAYLOR))
    density = (exp_below(-at * at / 2) << FINE + TAYLOR - BITS) // ROOT[1]
    before, now, out, factorial = 0, 1 << TAYLOR, list[int](), 1
    for n in range(24):
        factorial *= n + 1
        out.append((-1) ** n * (now * density >> TAYLOR) // factorial)
        before, now = now, (x * now >> TAYLOR) - n * before
    return out[::-1]


def normal_tail(x: Fraction) -> Fraction:
    """An upper bound on P(standard Gaussian noise >= x)."""
    if x >= FAR:
        return Fraction(exp_above(-x * x / 2), ONE)
    return Fraction(ONE - normal_distribution(x)[0], ONE)


def _distribution_series(parts: int) -> tuple[int, int]:
    """Bounds on 1/2 + (x - x^3/6 + x^5/40 - ...) / root(2 pi), in parts of ONE, for x = ``parts`` /
    COARSE >= 0: terms are x^(2n+1) (-1)^n over 2^n n! (2n + 1). A term is off by less than 2^-400,
    by all that was rounded before it; what is left out is less than the first term left out."""
    x = parts << FINE - 128
    square = x * x >> FINE
    power, total, n = x, 0, 0
    while power > 1 << FINE - 300 or n * COARSE * COARSE < parts * parts:
        total += (-power if n & 1 else power) // (2 * n + 1)
        n += 1
        power = (power * square >> FINE) // (2 * n)
    off = 1 << FINE - 200
    low = max(0, total - off) * ONE // ROOT[1]
    high = divide_up((total + off) * ONE, ROOT[0])
    return ONE // 2 + low, min(ONE, ONE // 2 + high)


def normal_bound(mu: Fraction, epsilon: Fraction) -> Fraction:
    """An upper bound on the divergence, at an epsilon, of Gaussian noise from itself moved by mu
    deviations: P(Z < mu/2 - epsilon/mu) - e^epsilon P(Z < -mu/2 - epsilon/mu). It grows with mu."""
    mine, other = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    low = normal_distribution(other)[0] * exp_below(epsilon) // ONE
    return Fraction(max(0, normal_distribution(mine)[1] - low), ONE)


# -------------------------------------------------------------------------------------------------
# The game of Gaussian noise in tests and releases: for users, and for groups of records.


GAUSSIAN = "docs/guarantees.md, Why it holds: users, Gaussian noise"
NORMAL = "docs/proofs/format.md, normal"

OFF = Fraction(1, 10**11)
"""The part of a probability by which a table may be off at the cost of some epsilon."""

MOST_ENTRIES = 4_000_000
"""The most entries of a table that are compared with its law."""


def bound_normal_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta for all units of a user, or of a group of records, wherever they lie and whatever
    was answered: the squares of what moves add up."""
    test, release = proof.law("test"), proof.law("release")
    height, units = (
        proof.whole_number("height", 1),
        proof.whole_number("units", 1) * proof.whole_number("moves", 1),
    )
    threshold = proof.whole_number("threshold")
    scales = proof.scale("test_sigma"), proof.scale("release_sigma")
    check_claim(
        test.highest < threshold,
        f"threshold {threshold} is within the test noise, which goes to {test.highest}: a node "
        "that has no record could be selected, and is not tested",
    )
    drawn = ((test, scales[0], height), (release, scales[1], 1))
    mu = upper_root(units**2 * sum((times / sigma**2 for _, sigma, times in drawn), Fraction(0)))
    ends, cut, moved = Fraction(0), Fraction(0), units * (height + 1)
    check_claim(
        moved * OFF < Fraction(1, 1000), "tables of so many counts are too far from their laws"
    )
    added, beside = Fraction(0), Fraction(0)
    for law, sigma, times in drawn:
        whole, more, outside = _compare_with_gaussian(law, sigma)
        ends += times * _end_mass(law, units)
        added += times * units * whole
        beside += times * units * more
        cut += times * units * outside / (1 - outside)
    check_claim(cut < 1, "the tables hold too little of their laws")
    factor, both = Fraction(exp_above(cut), ONE), 1 + Fraction(exp_above(epsilon), ONE)
    slack = moved * OFF * Fraction(101, 100)
    shifted = factor * normal_bound(mu, max(Fraction(0), epsilon - 2 * slack))
    bound = min(
        ends + factor * normal_bound(mu, epsilon) + added * both,
        (ends + shifted) * (1 + slack) + beside * both,
    )
    return DeltaBound(
        bound,
        ProofStep(
            f"{height} levels and a release tell what a move by {float(mu):.6g} does", GAUSSIAN
        ),
        ProofStep(f"answers that one side alone can give have at most {float(ends):.4g}", NORMAL),
        ProofStep(f"tables are off by {float(added):.2g} together, entry by entry", NORMAL),
    )


def _end_mass(law: Law, units: int) -> Fraction:
    """An upper bound on the mass of answers that a neighbour cannot give, where the moves of counts
    add up to ``units``: the largest mass per unit of any move, times ``units``."""
    sums = list(accumulate(law.weights[::-1][:units], initial=0))[1:]
    most = max(Fraction(mass, number) for number, mass in enumerate(sums, 1))
    return units * most / TABLE


def _compare_with_gaussian(law: Law, sigma: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Compare a table with a rounded Gaussian that is cut at the ends of the table. Return upper
    bounds on their total variation, on the same if each probability may be off by ``OFF`` of
    itself, and on the mass of the Gaussian beyond the ends."""
    check_claim(law.symmetric, "Gaussian noise must be symmetric")
    if len(law.weights) > MOST_ENTRIES:
        raise NotVerifiedError(f"a table of {len(law.weights)} entries takes too long to compare")
    points = distribution_on_grid(sigma, law.highest + 2)
    outside = 2 * Fraction(ONE - points[-1][0], ONE)
    check_claim(outside * 2 < 1, "the table holds less than half of its law")
    inside = ONE - 2 * (ONE - points[-1][0]), ONE - 2 * (ONE - points[-1][1])
    far = over = under = 0
    for k, (one, other) in enumerate(pairwise(points)):
        low = (other[0] - one[1]) * ONE // inside[1]
        high = -(-(other[1] - one[0]) * ONE // inside[0])
        weight, sides = law.weights[k - law.lowest] * (ONE // TABLE), 1 if k == 0 else 2
        far += sides * max(high - weight, weight - low, 0)
        part = low * OFF.numerator // OFF.denominator
        over += sides * max(weight - low - part, 0)
        under += sides * max(high - weight - part, 0)
    return Fraction(far, 2 * ONE), Fraction(max(over, under), ONE), outside


USERS = "docs/guarantees.md, Why it holds: users, Values in rounds"
ROUNDS = "docs/proofs/format.md, rounds"


FLOATS = Fraction(4, 10**16)
"""How far rounding in floats may move a table, all weights together. Rounding to whole weights
comes on top: half a unit for each weight, and for the mode as much as for all of them."""


@dataclass(frozen=True)
class CutGaussian:
    """Gaussian noise of scale ``sigma``, rounded to whole numbers and cut at ``end`` on both sides.
    It is added to ``values`` numbers, which one user moves by a vector of at most the norm
    ``norm``. A score counts these numbers ``part`` times."""

    sigma: Fraction
    end: int
    norm: int | Fraction
    values: int
    part: int

    @property
    def outside(self) -> Fraction:
        """Mass beyond the ends."""
        return 2 * normal_tail((self.end + Fraction(1, 2)) / self.sigma)

    @property
    def ends(self) -> Fraction:
        """An upper bound on the mass of answers that only one neighbour can give. The mass of the
        last s values grows faster than s, and the moves of all ``values`` numbers add up to at most
        root(``values``) times the norm."""
        last = normal_tail((self.end + Fraction(1, 2) - self.norm) / self.sigma)
        return upper_root(Fraction(self.values)) * last / (1 - self.outside)

    @property
    def rounding(self) -> Fraction:
        """How far weights of 64 bits are from the cut law, beside ``OFF``."""
        return Fraction(2 * self.end + 1, 2**65) + FLOATS


def bound_rounds_game(proof: Proof, epsilon: Fraction, enough: Fraction) -> DeltaBound:
    """Bound delta where a user moves noisy weights by a vector of bounded norm in each round, and
    counts at the end."""
    items, threshold = proof.whole_number("items", 1), proof.whole_number("threshold", 1)
    unit = proof.whole_number("unit", 1)
    weighed = [read_gaussian(each, unit, items) for each in proof.entries("rounds")]
    along = "measured" in proof.game
    others = {"norm", "norms", "count"} if along else {"histograms"}
    if more := sorted(others & set(proof.game)):
        raise BrokenProofError(
            f"rounds {'with' * along or 'without'} 'measured' have no {more[0]!r}"
        )
    if along:
        drawn = [*weighed, *(one.noise for one in measured_of_rounds(proof))]
        histograms = proof.whole_number("histograms")
    else:
        norm = proof.whole_number("norm", 1)
        drawn = [*weighed, read_gaussian(proof.game.get("count"), norm, norm * norm)]
        histograms = len(part_norms(proof))
    several = [(one, 1) for one in drawn]  # laws, and how often each is drawn from
    if proof.game.get("sizes") is not None:
        several.append((read_gaussian(proof.game["sizes"], 1, 1), histograms))
    alone = items * _chance_of_finding(weighed, unit, threshold)
    mu, told, slack, rounding = _gaussian_answers(several, epsilon)
    bound = (told + alone) * slack + rounding
    answers = sum(times for _, times in several)
    return DeltaBound(
        bound,
        ProofStep(f"{answers} Gaussian answers tell what one moved by {float(mu):.6g} does", USERS),
        ProofStep(
            f"a value of one user is found with a chance of at most {float(alone):.4g}", USERS
        ),
        ProofStep(f"tables are off by {float(rounding):.2g} together", ROUNDS),
    )


def _gaussian_answers(
    several: list[tuple[CutGaussian, int]], epsilon: Fraction
) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """What answers tell, each law so often: mu; the curve and the ends at an epsilon; the factor by
    which tables may be off in every probability; and delta for what they are off beside."""
    for one, _ in several:
        check_claim(
            one.outside * 10**6 < 1, "noise is cut too near to be compared with what is not"
        )
        check_claim(
            one.end > one.norm, "a user can move a count from one end of its noise to the other"
        )
    moved = sum(times * one.values for one, times in several)
    shift = 2 * moved * OFF * Fraction(101, 100)
    check_claim(
        moved * OFF < Fraction(1, 1000), "tables of so many values are too far from their laws"
    )
    cut = 1 + 2 * sum((times * one.values * one.outside for one, times in several), Fraction(0))
    squares = sum((times * (one.norm / one.sigma) ** 2 for one, times in several), Fraction(0))
    mu = upper_root(squares)
    curve = normal_bound(mu, max(Fraction(0), epsilon - shift))
    ends = sum((times * one.ends for one, times in several), Fraction(0))
    rounding = sum((times * one.values * one.rounding for one, times in several), Fraction(0))
    slack = 1 + moved * OFF * Fraction(101, 100)
    return mu, curve * cut + ends, slack, rounding * (1 + Fraction(exp_above(epsilon), ONE))


def bound_periods(draw: MeasureDraw) -> Fraction:
    """Bound delta of Gaussian noise over all periods of a series: a unit moves the draws of parts,
    and of each measured level, by its column, as often as it moves numbers."""
    assert draw.moved is not None
    squares = sum(one * one for one in draw.column) * draw.moved**2
    norm, values = upper_root(Fraction(squares)), len(draw.column) * draw.moved
    several = [(read_gaussian(each, norm, values), 1) for each in draw.periods]
    _, told, slack, rounding = _gaussian_answers(several, draw.loss)
    return told * slack + rounding


@dataclass(frozen=True)
class MeasuredAlong:
    """A measure that is taken along with rounds: of ``users``, or a ``sum``. A user has one of the
    ``norms`` in each part of what is shown."""

    measure: str
    of: str
    norms: list[int]
    noise: CutGaussian


MEASURED = {"measure", "of", "values", "norms", "sigma", "end"}


def measured_of_rounds(proof: Proof) -> list[MeasuredAlong]:
    """Read what is measured along with rounds; BrokenProofError if it is malformed."""
    told = proof.game.get("measured")
    if not isinstance(told, list):
        raise BrokenProofError("'measured' must be a list")
    out = []
    for each in told:
        if not isinstance(each, dict) or set(each) != MEASURED:
            raise BrokenProofError(f"a measure must have {', '.join(sorted(MEASURED))}")
        if not isinstance(each["measure"], str) or each["of"] not in ("users", "sum"):
            raise BrokenProofError("a measure must have a name, and be of users or a sum")
        norms = each["norms"]
        if not isinstance(norms, list) or not norms:
            raise BrokenProofError("'norms' must be a list of whole numbers")
        if not all(type(one) is int and one > 0 for one in norms):
            raise BrokenProofError("'norms' must be whole numbers from 1 on")
        squares = sum(one * one for one in norms)
        norm = math.isqrt(squares - 1) + 1  # rounded up
        values = proof.of(each).whole_number("values", 1)
        check_claim(
            each["of"] != "users" or values >= squares,
            f"users of norm {norm} move up to {squares} counts, the proof has {values}",
        )
        law = {name: each[name] for name in ("sigma", "end")}
        noise = read_gaussian(law, norm, values)
        out.append(MeasuredAlong(each["measure"], each["of"], norms, noise))
    return out


def part_norms(proof: Proof) -> list[int]:
    """The norms of a user in the counts of each part of what is shown. Each part has a histogram of
    its own."""
    norm, norms = proof.whole_number("norm", 1), proof.game.get("norms")
    if norms is None:
        return [norm]
    if not isinstance(norms, list) or not all(type(one) is int and one > 0 for one in norms):
        raise BrokenProofError("'norms' must be whole numbers from 1 on")
    if len(norms) < 2:
        raise BrokenProofError("'norms' must be those of the lowest nodes and of nodes above")
    squares = sum(one * one for one in norms)
    check_claim(squares <= norm * norm, f"counts of a user move by the root of {squares} together")
    return norms


def _chance_of_finding(weighed: list[CutGaussian], unit: int, threshold: int) -> Fraction:
    """An upper bound on the chance that noise finds a value of one user after any round."""
    total, parts, square, cut = Fraction(0), 0, Fraction(0), Fraction(1)
    for one in weighed:
        parts += one.part
        square += (one.part * one.sigma) ** 2
        cut *= 1 - one.outside
        left = threshold - unit * parts - Fraction(parts, 2)
        check_claim(left > 0, f"one user alone reaches the threshold {threshold}")
        total += normal_tail(left / upper_root(square)) / cut
    return total


def read_gaussian(told: object, norm: int | Fraction, values: int) -> CutGaussian:
    if not isinstance(told, Mapping) or not set(told) <= {"sigma", "end", "part"}:
        raise BrokenProofError("noise can have sigma, end and, in a round, part, and no more")
    end, part = told.get("end"), told.get("part", 1)
    if type(end) is not int or end < 1 or type(part) is not int or part < 1:
        raise BrokenProofError("'end' and 'part' of noise must be whole numbers from 1 on")
    return CutGaussian(positive_number(told.get("sigma"), "sigma"), end, norm, values, part)


# -- what receipts say of rounds ------------------------------------------------------------------


def has_rounds(proof: Proof) -> bool:
    """Whether a proof of a rollup has rounds as its first step."""
    steps = proof.game.get("steps")
    first = steps[0] if isinstance(steps, list) and steps else None
    game = first.get("game") if isinstance(first, dict) else None
    return isinstance(game, dict) and game.get("kind") == "rounds"


def rounds_rollup_facts(receipt: Mapping[str, Any], proof: Proof) -> Facts:
    """The facts of a rollup whose nodes are found by rounds, with measures along with these, and
    then other measures."""
    each = games_of_proof(proof)
    check_claim(
        [part.game.get("kind") for _, _, part in each] in (["rounds"], ["rounds", "measures"]),
        "a rollup by rounds selects once, and then measures at most once",
    )
    epsilon, _, rounds = each[0]
    along = measured_of_rounds(rounds)
    names = [one.measure for one in along]
    check_claim(len(set(names)) == len(names), "one measure is taken twice")
    if len(each) == 2:
        yield from measures_facts(receipt, each[1][2], names)
    else:
        yield "measures", measure_names(names)
    height = rounds.whole_number("height", 1)
    unit, items = rounds.whole_number("unit", 1), rounds.whole_number("items", 1)
    yield "height", height
    yield "user", Fact("a column", lambda told: isinstance(told, str))
    yield "keys", None
    yield "max_contributions", items
    yield "adds_up", False
    most = receipt["at_most"]
    yield "at_most", None if most is None else Fact.whole_number()
    said = {"epsilon": epsilon, "measure": None}
    yield "selection", Fact("two facts", lambda told: isinstance(told, dict) and {*told} == {*said})
    yield from ((("selection", name), fact) for name, fact in said.items())
    weighed = rounds.entries("rounds")
    parts = sum(read_gaussian(one, 1, 1).part for one in weighed)
    yield "threshold", -(-rounds.whole_number("threshold") // (unit * parts))
    last = {name: weighed[-1].get(name) for name in ("sigma", "end")}
    yield from gaussian_facts(("noise",), last, unit)
    levels, searched = _levels_of_parts(height, receipt), 0
    for one in along:
        facts = receipt["measures"].get(one.measure)
        known = isinstance(facts, dict) and isinstance(facts.get("spec"), str)
        check_claim(known, f"the receipt does not say what the measure {one.measure!r} is")
        text = MeasureText.read(facts["spec"])
        kind = "count" if one.of == "users" else "sum"
        check_claim(
            (text.kind, text.at_most, text.clipped) == (kind, None, False),
            f"measure {one.measure!r} is not taken along with rounds",
        )
        check_claim(
            len(one.norms) == len(levels),
            f"measure {one.measure!r} has norms in {len(one.norms)} parts of {len(levels)}",
        )
        searched += "auto" in text.bounds
        yield ("measures", one.measure, "spec"), Fact("a text", lambda told: isinstance(told, str))
        yield ("measures", one.measure, "epsilon"), None
        yield ("measures", one.measure, "adds_up"), False
        yield from bound_facts(one.measure, facts, text, [])
        yield from _noise_along_facts(one, facts, text, most, levels)
    sizes = bool(searched) or any(one.of == "users" for one in along)
    least = len(levels) * (sizes + searched)
    told = rounds.whole_number("histograms")
    check_claim(told >= least, f"{least} histograms are looked at, and {told} are paid for")
    check_claim(
        not told or rounds.game.get("sizes") is not None, "histograms have no noise in the proof"
    )


def _levels_of_parts(height: int, receipt: Mapping[str, Any]) -> list[list[int] | None]:
    """The levels of each part of the shown nodes: None for the lowest nodes, then the root, then
    four bands of the levels between, at most; of cells eight."""
    bands = min(height - 1, 8 if "dimensions" in receipt else 4)
    between = [[at for at in range(1, height) if (at - 1) * bands // (height - 1) == band]
               for band in range(bands)]  # fmt: skip
    return [None, [0], *between]


def above_facts(receipt: Mapping[str, Any], count: object, norms: list[int], told: bool) -> Facts:
    """The noise above the lowest nodes: of one part, or with its levels of each part of cells, of
    which the proof has the height (``told``)."""
    above, several = receipt["at_most_above"], "dimensions" in receipt
    check_claim("at_most_above" in receipt, "the receipt has no at_most_above")
    check_claim(several == told, "a proof of cells has their height, and no other proof")
    if not several:
        check_claim(len(norms) == 1, "nodes above the lowest ones are one part")
        yield "at_most_above", None if above is None else Fact.whole_number()
        yield from gaussian_facts(("noise", "above"), count, full_weight(norms[0], above))
        return
    numbers = Fact.items([Fact.whole_number()] * len(norms))
    yield "at_most_above", None if above is None else numbers
    yield ("noise", "above"), Fact.size(len(norms))
    levels = _levels_of_parts(receipt["height"], receipt)[1:]
    check_claim(len(levels) == len(norms), f"norms are of {len(norms)} parts of {len(levels)}")
    yield "levels", Fact.size(receipt["height"])
    for number, (norm, own) in enumerate(zip(norms, levels, strict=True)):
        path, most = ("noise", "above", number), None if above is None else above[number]
        yield (*path, "levels"), Fact(str(own), partial(operator.eq, own))
        yield from gaussian_facts((*path, "law"), count, full_weight(norm, most))


def _noise_along_facts(
    one: MeasuredAlong,
    facts: Mapping[str, Any],
    text: MeasureText,
    most: Any,
    levels: list[list[int] | None],
) -> Facts:
    """The noise of one measure, which the receipt of a plan does not have yet."""
    path: Path = ("measures", one.measure, "noise")
    law = {"sigma": str(one.noise.sigma), "end": one.noise.end}
    noise = facts.get("noise")
    yield path, FREE
    if noise is None:
        return
    check_claim(
        isinstance(noise, list)
        and len(noise) == len(one.norms)
        and all(isinstance(each, dict) for each in noise),
        f"measure {one.measure!r} has not the noise of {len(one.norms)} parts",
    )
    bounds = [abs(float(each)) for each in text.bounds if each not in (None, "auto")]
    for number, norm in enumerate(one.norms):
        yield (*path, number, "of"), one.of
        told = levels[number]
        yield (*path, number, "levels"), Fact(str(told), partial(operator.eq, told))
        if one.of == "users":
            own = noise[number].get("at_most")
            yield (*path, number, "at_most"), Fact.whole_number() if number else most
            yield from gaussian_facts((*path, number, "law"), law, full_weight(norm, own))
            continue
        yield (*path, number, "norm"), norm
        yield (*path, number, "beyond"), FREE
        bound = POSITIVE if "auto" in text.bounds else Fraction(max(bounds))
        yield (*path, number, "bound"), bound
        yield from gaussian_facts((*path, number, "law"), law, 1)


def full_weight(norm: int, most: Any) -> int:
    """The weight of a user with ``most`` nodes, all of which count fully."""
    weight = math.isqrt(norm**2 // (most or 1))
    check_claim(weight > 0, f"{most!r} counts of a user move by more than the norm")
    return weight


def gaussian_facts(path: Path, told: object, units: int) -> Facts:
    """Normal noise that is rounded and cut: the standard deviation of a rounded law is a little
    more than its scale."""
    law = read_gaussian(told, 1, 1)
    square = (law.sigma / units) ** 2 + Fraction(1, 12 * units**2)
    yield (*path, "grid"), units
    yield (*path, "lowest"), Fact.near(Fraction(-law.end, units))
    yield (*path, "highest"), Fact.near(Fraction(law.end, units))
    yield (*path, "sd"), Fact.root(square, Fraction(1, 1000))
    text = f"halves of scale {float(law.sigma):g} that end at {law.end}"
    yield (*path, "halves"), Fact(text, lambda told: are_cut_gaussian(told, law.sigma, law.end))
    yield (*path, "family"), FREE
