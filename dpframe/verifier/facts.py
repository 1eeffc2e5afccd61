"""What the receipt of a rollup must say, and the facts of noise."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from dpframe.verifier.numbers import NOTHING, ONE, TABLE, exp_below, is_number
from dpframe.verifier.path_game import (
    BINNED,
    MeasureDraw,
    draws_of_game,
    move_of_values,
    sums_of_means,
    totals_of_game,
)
from dpframe.verifier.verdict import (
    BrokenProofError,
    Law,
    Proof,
    check_claim,
    games_of_proof,
    positive_number,
)

# A table fits its halves if its weights, over the weight beside the mode, have the ratios of the
# densities, up to a relative error of 1e-10 and the rounding of weights. They are compared at the
# mode, at eight places as far as weights are large, at the last weight, and one place after it.


SHAPES = {"geometric": 1, "gaussian": 1, "rounded gaussian": 1, "laplace-gaussian": 2}
"""Shapes of a half, each with its number of scales."""

LARGE = 1 << 30
"""Weights from here on are right to nine digits."""

WEIGHT_ERROR = Fraction(1, 10**10)
"""Relative error of a weight, besides its rounding: densities are floats right to 11 digits."""

MODE_ERROR = 1 << 22
"""Error of the likeliest weight, which gets what rounding leaves over, in units; one unit for each
weight comes on top."""

FINE = 1 << 512
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class TableHalf:
    """One half of a table: its density at z = 0 .. bound from the mode outwards."""

    shape: str
    scales: tuple[Fraction, ...]
    bound: int

    @classmethod
    def read(cls, told: object) -> TableHalf:
        """Read a half; BrokenProofError if it is none."""
        shape, *scales, bound = told if isinstance(told, list) and len(told) > 2 else [None, None]
        if SHAPES.get(shape if isinstance(shape, str) else "") != len(scales):
            raise BrokenProofError(f"the receipt has a half {told!r} of no known shape")
        if type(bound) is not int or bound < 0:
            raise BrokenProofError(f"a half needs a whole number from 0 on as bound; got {bound!r}")
        if not all(map(is_number, scales)):
            raise BrokenProofError(f"a half needs numbers as scales; got {scales!r}")
        return cls(str(shape), tuple(positive_number(each, "scale") for each in scales), bound)

    def density(self, z: int) -> int:
        """The density at z, up to a factor, in parts of ONE."""
        scale, last = self.scales[0], self.scales[-1]
        if self.shape == "geometric":
            return exp_below(-z / scale)
        if self.shape == "gaussian":
            return exp_below(-z * z / (2 * scale**2))
        if self.shape == "laplace-gaussian":
            return exp_below(-z / scale - z * z / (2 * last**2))
        return _cell_mass(z, scale)

    def fits(self, weights: Sequence[int], rest: int) -> bool:
        """Whether these weights, from the mode outwards, are the density, cut off where it rounds
        to 0; ``rest`` is how far the mode may be off."""
        last = len(weights) - 1
        if not self.bound or last > self.bound:
            return last <= self.bound
        far = max((z for z, weight in enumerate(weights) if weight >= LARGE), default=1)
        places = {0, last, min(last + 1, self.bound), *(max(1, far * k // 8) for k in range(1, 9))}
        first, beside = self.density(1), weights[1] if last else 0
        for z in places:
            own, weight = self.density(z), weights[z] if z <= last else 0
            room = first * (1 if z else rest) + own + own * beside * WEIGHT_ERROR
            if abs(weight * first - beside * own) > room + 4 * (weight + beside):
                return False
        return True


def _cell_mass(z: int, scale: Fraction) -> int:
    """The mass of the normal on (z - 1/2, z + 1/2), up to a factor, in parts of ONE: the density at
    the end of the cell nearer to 0, times the integral over 0 < u < 1 of the power series of
    e^(-a u - b u^2 / 2) from there. The two halves of cell 0 are alike."""
    edge, b = z - HALF if z else Fraction(0), 1 / scale**2
    if z and edge**2 * b >= 2 * NOTHING:  # below one part, and the series would be long
        return 0
    if b > 8 * NOTHING:
        return ONE
    a, b = edge * b, b if z else b / 4
    term, before, total, k = FINE, 0, 0, 0
    while term or before:
        total += term // (k + 1)
        k += 1
        term, before = -int((a * term + b * before) / k), term
    return exp_below(-(edge**2) / (2 * scale**2)) * total // FINE


@lru_cache(maxsize=2)  # all levels of a tree have one law
def _fits_halves(law: Law, left: TableHalf, right: TableHalf) -> bool:
    last, top = len(law.weights) - 1, law.weights.index(max(law.weights))
    cut = left.bound + right.bound > last  # where weights of 0 are cut off the mode stands out
    modes = (top, top - 1, top + 1) if cut else (left.bound,)
    rest = MODE_ERROR + len(law.weights)
    return any(
        0 <= mode <= last
        and left.fits(law.weights[mode::-1], rest)
        and right.fits(law.weights[mode:], rest)
        for mode in modes
    )


def read_halves(told: object) -> list[TableHalf]:
    """Read both halves of a table; BrokenProofError if they are none."""
    if not isinstance(told, list) or len(told) != 2:
        raise BrokenProofError(f"a table needs a list of two halves; got {told!r}")
    return [*map(TableHalf.read, told)]


def has_halves(law: Law, told: object) -> bool:
    """Whether a table is made of these two halves. None is true: older receipts do not name the
    halves."""
    return told is None or _fits_halves(law, *read_halves(told))


def are_cut_gaussian(told: object, sigma: Fraction, end: int) -> bool:
    """Whether both halves are those of a rounded normal law of scale ``sigma`` that ends at
    ``end``, or whose weights after ``end`` are at most one unit. None is true: older receipts do
    not name the halves. There is no table: a density of one has 2**64 / (sigma root(2 pi))
    units."""
    for half in [] if told is None else read_halves(told):
        cut = half.density(end + 1) * TABLE <= sigma * Fraction(5, 2) * ONE
        if (half.shape, half.scales) != ("rounded gaussian", (sigma,)):
            return False
        if half.bound != end and not (half.bound > end and cut):
            return False
    return True


# -------------------------------------------------------------------------------------------------
# A fact: what a field of a receipt must be. The facts of noise follow from a table or a scale.


DOUBLE = Fraction(1, 2**50)
"""Relative error of a double that was divided and multiplied."""

CLOSE = Fraction(1, 10**6)
"""Relative error of the square of a standard deviation that is written as a double."""


@dataclass(frozen=True)
class Fact:
    """What a field must be: the text of it, and whether a value is that."""

    text: str
    holds: Callable[[Any], bool]

    @classmethod
    def exactly(cls, proved: object) -> Fact:
        """This value and no other. True does not count as 1, and a missing field is None."""
        if isinstance(proved, Fraction) or is_number(proved):
            return cls.number(f"{float(proved):.12g}", lambda told: bool(told == proved))
        text = "none" if proved is None else repr(proved)
        return cls(text, lambda told: type(told) is type(proved) and bool(told == proved))

    @classmethod
    def number(cls, text: str, holds: Callable[[Any], bool]) -> Fact:
        """A finite number for which ``holds`` is true."""
        return cls(text, lambda told: is_number(told) and holds(told))

    @classmethod
    def near(cls, proved: Fraction, part: Fraction = CLOSE / 1000) -> Fact:
        """This number, up to a relative error ``part``."""
        text, room = f"{float(proved):.12g}", abs(proved) * part
        return cls.number(text, lambda told: abs(Fraction(told) - proved) <= room)

    @classmethod
    def root(cls, square: Fraction, part: Fraction = CLOSE) -> Fact:
        """A number from 0 on whose square is ``square``, up to a relative error ``part``."""
        text, room = f"{float(square) ** 0.5:g}", square * part
        return cls.number(text, lambda n: n >= 0 and abs(Fraction(n) ** 2 - square) <= room)

    @classmethod
    def at_least(cls, least: Fraction | int) -> Fact:
        """A number that is not below ``least``."""
        return cls.number(f"at least {float(least):g}", lambda told: bool(told >= least))

    @classmethod
    def whole_number(cls, most: int = 10**60) -> Fact:
        """A whole number from 1 on, below ``most``."""
        return cls("a whole number", lambda told: type(told) is int and 0 < told < most)

    @classmethod
    def size(cls, number: int) -> Fact:
        """A list of ``number`` entries."""
        text = f"a list of {number}"
        return cls(text, lambda told: isinstance(told, list) and len(told) == number)

    @classmethod
    def items(cls, facts: Sequence[Fact]) -> Fact:
        """A list with one value for each fact, for which the fact holds."""
        size, text = cls.size(len(facts)), ", ".join(fact.text for fact in facts)
        pairs = partial(zip, facts, strict=True)
        return cls(
            text,
            lambda told: size.holds(told) and all(fact.holds(one) for fact, one in pairs(told)),
        )


Receipt = Mapping[str, Any]
"""A receipt in which a field that is missing is None."""

Path = tuple[str | int, ...]
Want = str | Path
"""A field: its name, or the names of objects and numbers in lists that lead to the field."""

Facts = Iterable[tuple[Want, object]]
"""Fields, each with a fact or the value that it must be. Of several facts of one field all must
hold."""

FREE = Fact("anything", lambda told: True)
DECLARED = Fact("no truth value", lambda told: not isinstance(told, bool))
"""An argument: other fields, and the number of records in the proof, follow from it."""


def table_facts(path: Path, law: Law, units: int = 1, worth: Fraction = Fraction(1)) -> Facts:
    """The facts of noise from a table; ``units`` of the table are ``worth`` in the receipt."""
    yield (*path, "grid"), units
    yield (*path, "lowest"), Fact.near(law.lowest * worth / units, DOUBLE)
    yield (*path, "highest"), Fact.near(law.highest * worth / units, DOUBLE)
    yield (*path, "sd"), Fact.root(law.variance * (worth / units) ** 2)
    yield (*path, "halves"), Fact("a table of other halves", partial(has_halves, law))
    yield (*path, "family"), FREE


def scale_facts(path: Path, scale: Fraction, units: int = 1) -> Facts:
    """The facts of discrete Laplace noise over all integers, with ``scale`` in units:
    sd**2 = 1 / (2 sinh(1 / (2 scale))**2)."""
    root, ends = Fraction(exp_below(1 / (2 * scale)), ONE), {"lowest": None, "highest": None}
    check_claim(root > 1, f"noise of scale {float(scale):g} is too wide to be compared")
    told = Fact("no ends", lambda told: isinstance(told, dict) and ends.items() <= told.items())
    yield from ((path, told), ((*path, "grid"), units))
    yield from (((*path, name), end) for name, end in ends.items())
    yield (*path, "sd"), Fact.root(2 / (units * (root - 1 / root)) ** 2)
    yield (*path, "scale"), Fact(str(scale), lambda told: told is None or told == str(scale))
    yield (*path, "family"), FREE


def level_noise(path: Path, level: Mapping[str, Any], proof: Proof, units: int = 1) -> Facts:
    """The facts of the noise of a level that has a table, or a scale alone."""
    if "table" in level:
        return table_facts(path, proof.table(level["table"], "table"), units)
    return scale_facts(path, positive_number(level.get("scale"), "scale"), units)


TEXT = re.compile(
    r"(?P<kind>count|distinct|sum|mean|median|quantiles|quantile|histogram)"
    r'(?:\((?:(?P<plain>[^,"()=]+)|"(?P<quoted>(?:[^"]|"")+)")?.*\))?'
)
AT_MOST = re.compile(r"at_most=([0-9]+)(?:, share=[^,\"()=]+)?\)$")
EACH = re.compile(r", each=(total|mean)(, share=[^,\"()=]+)?\)$")
BOUNDS = re.compile(
    r'(?:[^,"()=]+|"(?:[^"]|"")+"), ([^,"()=]+), ([^,"()=]+?)(, clipped=true)?(?:, |\))'
)
"""Patterns for the text of a measure in a receipt: what it measures, how many rows or nodes of a
user count, the bounds of values."""

LEAST_SCALE = 1e-90
"""The least scale in a receipt: what larger scales lose can be written as a float."""

GRAIN = Fraction(1, 2**14)
"""The amount by which the scale of a draw may be rounded up."""

NOISE_KINDS: Mapping[str, tuple[str, ...]] = {
    "mean": ("above", "below"),
    "search": (),
    "values": (),
}
"""What a receipt calls the noise of a draw, if not by the kind of the draw: a mean has two noises,
``above`` and ``below``; a search and numbers of values, which are not shown, have none."""

GROUPED = 50
"""The number of bins from which they are measured in groups, too."""

POSITIVE = Fact.number("a positive number", lambda told: told > 0)


@dataclass(frozen=True, kw_only=True)
class MeasureText:
    """A measure as a receipt writes it, such as ``sum(x, 0, 10)``."""

    kind: str
    column: str
    bounds: tuple[str | None, ...]
    clipped: bool
    at_most: str | None
    of_users: bool = False
    """Whether totals or means of users are counted in bins, and not values of rows."""

    @classmethod
    def read(cls, text: str) -> MeasureText:
        """Read a text; BrokenProofError if it is no measure."""
        whole, most = TEXT.fullmatch(text), AT_MOST.search(text)
        valued = whole is not None and whole["kind"] in ("sum", "mean")
        found = BOUNDS.match(text.partition("(")[2]) if valued else None
        if whole is None or (valued and found is None):
            raise BrokenProofError(f"the receipt measures {text!r}, which is not known")
        return cls(
            kind=whole["kind"].replace("median", "quantile"),
            column=whole["plain"] or (whole["quoted"] or "").replace('""', '"'),
            bounds=found.groups()[:2] if found else (None, None),
            clipped=bool(found and found[3]),
            at_most=most[1] if most else None,
            of_users=EACH.search(text) is not None,
        )

    def draws(self, user: object, read: bool, levels: int, grouped: bool, sized: bool) -> list[str]:
        """The draws that the measure calls for, in the words of `_draw_text`. A sum that is
        ``read`` from a mean has no draw for its value. Bins may be ``grouped``; totals and means of
        users are in a bin at each of the ``levels``. Where a count tells the numbers of values,
        nodes are ``sized`` without a draw."""
        most = f", at most {1 if self.at_most is None else int(self.at_most)}"
        if self.kind == "count":
            return [f"{'rows' if user is None or self.at_most is not None else 'users'}{most}"]
        if self.kind == "distinct":
            return [f"distinct{most}, singly {user is None or self.column == user}"]
        if self.kind in HISTOGRAMS:
            several = levels if self.of_users else 1
            return sorted(f"{k}, at most {several}" for k in BINNED[sized : 2 + grouped])
        own = [] if read else [self.kind]
        more = [f"outside{most}"] if self.clipped else []
        return sorted([*["search"] * self.bounds.count("auto"), *own, *more])


HISTOGRAMS = ("quantile", "quantiles", "histogram")
"""Measures that count values in bins."""

RISING = Fact(
    "a list of rising numbers",
    lambda told: (
        isinstance(told, list)
        and len(told) > 2
        and all(map(is_number, told))
        and all(a < b for a, b in itertools.pairwise(told))
    ),
)


def _bin_facts(path: Path, facts: Mapping[str, Any], of_users: bool) -> Facts:
    """Edges of bins rise, and the outermost are the bounds: they are public, and no draw depends on
    them. Whole numbers have a bin from the upper bound on. Totals and means ``of_users`` do not add
    up."""
    yield from (((*path, name), FREE) for name in ("at", "value"))
    yield (*path, "edges"), RISING
    edges = facts["edges"]
    yield (*path, "lower"), edges[0]
    yield (*path, "upper"), Fact.number("the last edge", lambda told: told in edges[-2:])
    if of_users:
        yield (*path, "adds_up"), False


def _draw_text(draw: MeasureDraw) -> str:
    named = {"at_most": "at most", "singly": "singly"}
    told = [f", {text} {draw.facts[name]}" for name, text in named.items() if name in draw.facts]
    return "".join([draw.of, *told])


def rollup_facts(receipt: Receipt, proof: Proof) -> Facts:
    """The facts of a rollup: its proof has one game of measures and, where keys are not listed, one
    selection."""
    each, listed = games_of_proof(proof), receipt["keys"] is not None
    parts = [(epsilon, part) for epsilon, _, part in each]
    measures = [part for _, part in parts if part.game.get("kind") == "measures"]
    selections = [one for one in parts if one[1].game.get("kind") in ("path", "shares")]
    check_claim(
        (len(each), len(measures), len(selections)) == (2 - listed, 1, 1 - listed),
        f"a rollup {'of listed keys measures' if listed else 'selects once, then measures'}; the "
        f"proof has {len(selections)} selections and {len(measures)} games of measures",
    )
    yield from measures_facts(receipt, measures[0])
    if listed:
        yield from ((name, None) for name in ("threshold", "noise", "selection"))
    if listed and "dimensions" in receipt:  # whole cells, which overlap
        yield "adds_up", False
    for epsilon, selection in selections:
        yield from _selecting_facts(receipt, selection, epsilon)


def _selecting_facts(receipt: Receipt, proof: Proof, epsilon: Fraction) -> Facts:
    """Epsilon, height, threshold and noise: in records or users, or in the unit of a sum that
    selects."""
    threshold, law, noise = proof.whole_number("threshold"), proof.law("test"), receipt["noise"]
    units = proof.whole_number("units", 1) if proof.game["kind"] == "shares" else 1
    yield "height", proof.whole_number("height", 1)
    check_claim(
        receipt["user"] is None or units > 1,
        "the receipt has users, the proof one record, which it does not divide",
    )
    worths: dict[str | None, Fraction] = {None: Fraction(1)}
    for name, one in receipt["measures"].items():
        if one["spec"].startswith("sum(") and POSITIVE.holds(one.get("upper")):
            worths[name] = Fraction(one["upper"])
    if "selection" in receipt:
        fields = {"epsilon": epsilon, "measure": Fact("a sum", lambda told: told in [*worths])}
        size = Fact(
            " and ".join(fields), lambda told: isinstance(told, dict) and {*told} == {*fields}
        )
        yield "selection", size
        yield from ((("selection", name), fact) for name, fact in fields.items())
        worth = worths[receipt["selection"]["measure"]]
    else:  # earlier versions did not say what selects
        low = noise.get("lowest") if isinstance(noise, dict) else None
        ends = {one: Fact.near(law.lowest * one / units, DOUBLE) for one in worths.values()}
        worth = next((one for one, end in ends.items() if end.holds(low)), Fraction(1))
    yield from table_facts(("noise",), law, units, worth)
    one, most = worth / units, threshold * worth / units
    room = 1 - DOUBLE * (worth != 1)  # in units of a sum it was multiplied
    least = Fact.number(f"{float(most):g}", lambda n: most - one < Fraction(n) * room <= most)
    yield "threshold", least


def measures_facts(receipt: Receipt, proof: Proof, along: Iterable[str] = ()) -> Facts:
    """What every measure draws, loses and is bounded by; others are measured ``along`` with the
    selection."""
    drawn, read, measures = draws_of_game(proof), sums_of_means(proof), receipt["measures"]
    totals = totals_of_game(proof)
    running = bool(totals)
    check_claim(
        running == ("running" in receipt),
        "periods that share noise have totals in the proof, and others have none",
    )
    names = sorted({each.measure for each in drawn} | set(read))
    yield "measures", measure_names({*names, *along, *totals})
    for column in {each.column for each in drawn if each.column}:
        yield ("running", "periods"), len(column)
    for name, of in totals.items():
        said = {"spec": measures[of]["spec"], "epsilon": None, "total_of": of}
        said |= {end: measures[of][end] for end in ("lower", "upper")}
        yield from ((("measures", name, each), fact) for each, fact in said.items())
        own = [each for each in drawn if each.measure == of]
        yield from _noise_list_facts(name, measures[name], own, [], running)
    yield "height", proof.whole_number("height", 1)
    segments = "segments" in proof.game and proof.flag("segments")
    if segments or "segments" in receipt:
        yield "segments", segments
    texts: dict[str, MeasureText] = {}
    for name in names:
        yield ("measures", name), Fact("an object", lambda told: isinstance(told, dict))
        yield ("measures", name, "spec"), Fact("a text", lambda told: isinstance(told, str))
        yield ("measures", name, "epsilon"), POSITIVE
        texts[name] = MeasureText.read(measures[name]["spec"])
    counted = ("rows" if receipt["user"] is None else "users") in {each.of for each in drawn}
    for name, text in texts.items():
        own = [each for each in drawn if each.measure == name]
        pair = [each for each in drawn if each.measure == read.get(name) and each.of == "mean"]
        if binned := text.kind in HISTOGRAMS:
            yield from _bin_facts(("measures", name), measures[name], text.of_users)
        grouped = binned and len(measures[name]["edges"]) + 1 >= GROUPED
        levels = 1 if segments else proof.whole_number("height", 1) + 1
        sized = text.of_users or counted
        wanted = text.draws(receipt["user"], name in read, levels, grouped, sized)
        kinds = sorted(map(_draw_text, own))
        check_claim(
            kinds == wanted,
            f"measure {name!r} draws {'; '.join(wanted)}, the proof {'; '.join(kinds)}",
        )
        check_claim(
            name not in read or text.column == texts[read[name]].column,
            f"measure {name!r} is of {text.column!r}, and read from another column",
        )
        bounded = [each for each in own if each.facts.get("low") is not None] + pair
        if not binned:
            yield from bound_facts(name, measures[name], text, bounded)
        yield from _noise_list_facts(name, measures[name], own, pair, running)
        together = {name, *(each for each, of in read.items() if of == name)}
        loss = sum((each.loss for each in drawn if each.measure in together), Fraction(0))
        paid = sum(Fraction(measures[each]["epsilon"]) for each in together)
        check_claim(
            name in read or loss <= paid * (1 + DOUBLE),
            f"measure {name!r} loses {float(loss):.9g}, and the receipt says less",
        )


def measure_names(names: Iterable[str]) -> Fact:
    """The measures of a receipt are these."""
    listed = sorted(names)
    return Fact(", ".join(listed), lambda told: isinstance(told, dict) and sorted(told) == listed)


def bound_facts(
    measure: str, facts: Mapping[str, Any], text: MeasureText, drawn: list[MeasureDraw]
) -> Facts:
    """Bounds are those in the text of the measure and in the draws, unless a search finds them;
    measures without bounds in the text have no bounds."""
    found = Fact("found", lambda told: is_number(told) or told in (None, "auto"))
    for name, end, bound in zip(("lower", "upper"), ("low", "high"), text.bounds, strict=True):
        yield ("measures", measure, name), found if bound == "auto" else _read_bound(bound)
        for each in drawn:
            own, decimals = each.facts[end], each.facts["decimals"]
            steps = _bound_in_steps(facts.get(name), decimals)
            check_claim(
                abs(own - steps) <= Fraction(1, 2) + abs(steps) * DOUBLE,
                f"measure {measure!r} has the bound {facts.get(name)!r}, the proof {own} steps of "
                f"10**-{decimals}",
            )


def _read_bound(text: str | None) -> Fraction | None:
    try:
        return None if text is None else Fraction(float(text))
    except (ValueError, OverflowError):
        raise BrokenProofError(f"a bound in the receipt must be a number; it is {text!r}") from None


def _bound_in_steps(bound: object, decimals: object) -> Fraction:
    if not is_number(bound) or type(decimals) is not int or not -400 < decimals < 400:
        raise BrokenProofError("bounds must be numbers, and steps powers of ten")
    return Fraction(bound) * Fraction(10) ** decimals


def _nearest_step(steps: Fraction) -> int:
    """The nearest whole number, halves away from 0, as values become steps."""
    whole = math.floor(abs(steps) + Fraction(1, 2))
    return whole if steps > 0 else -whole


# -- the noise that was drawn, which a receipt says after the release -----------------------------


def _noise_list_facts(
    measure: str,
    facts: Mapping[str, Any],
    own: list[MeasureDraw],
    pair: list[MeasureDraw],
    running: bool,
) -> Facts:
    """The noise of a measure's own draws, and of the ``pair``: the mean that a sum is read from.
    The receipt of a plan has no noise. The noise in a period of a series follows from draws of
    several periods: how large it is there is not compared."""
    path: Path = ("measures", measure, "noise")
    kinds_of = [(kind, each) for each in own for kind in NOISE_KINDS.get(each.of, (each.of,))]
    wanted = dict([*(("sum", each) for each in pair), *kinds_of])
    noise = facts.get("noise")
    each = noise if isinstance(noise, list) else []
    kinds = [str(one.get("of")) if isinstance(one, dict) else "" for one in each]
    yield path, FREE
    check_claim(
        noise is None or sorted(kinds) == sorted(wanted),
        f"measure {measure!r} has noise of {', '.join(kinds)}, the proof of {', '.join(wanted)}",
    )
    for number, one in enumerate(each):
        yield from _estimate_facts((*path, number), facts, one, wanted[one["of"]], running)


def _table_list_facts(path: Path, told: object, tables: Sequence[tuple[Law, int]]) -> Facts:
    """The tables of all kinds of cells, by level: as many of each as in the proof."""
    left = [law for law, times in tables for _ in range(times)]
    check_claim(
        isinstance(told, dict) and len(told) == len(left),
        f"{path[1]!r} has not the noise of {len(left)} kinds of cells",
    )
    assert isinstance(told, dict)
    for name, one in told.items():
        end = one.get("highest") if isinstance(one, dict) else None
        law = next((law for law in left if law.highest == end), left[0])
        left.remove(law)
        yield from table_facts((*path, name), law)


def _estimate_facts(
    path: Path,
    facts: Mapping[str, Any],
    estimate: Mapping[str, Any],
    draw: MeasureDraw,
    running: bool,
) -> Facts:
    """The noise of one draw: at least the noise in the proof, and above that at most what rounding
    adds."""
    yield from (((*path, name), FREE) for name in ("of", "intervals"))
    yield (*path, "unit"), draw.facts.get("unit", 1)
    steps = draw.facts.get("decimals") if draw.moved is not None else estimate.get("decimals")
    stepped, moved = estimate["of"] in ("sum", "above", "below"), draw.moved
    yield (*path, "decimals"), steps if stepped else None
    if draw.table is not None:
        yield from table_facts((*path, "law"), draw.table)
        return
    if draw.of == "distinct":
        assert draw.scale is not None
        yield from scale_facts((*path, "law"), draw.scale)
        return
    if draw.tables:
        yield from _table_list_facts((*path, "laws"), estimate.get("laws"), draw.tables)
        return
    scales = estimate.get("scales")
    if not isinstance(scales, dict) or "parts" not in scales:
        raise BrokenProofError(f"the receipt's scales of {path[1]!r} are not understood")
    yield from (((*path, "scales", name), Fact.at_least(Fraction(LEAST_SCALE))) for name in scales)
    if running:
        check_claim(
            draw.periods == () or len(scales) == len(draw.periods),
            f"{path[1]!r} has noise of {len(draw.periods)} laws",
        )
        for name in ("share", "correlations"):
            yield (*path, name), FREE
        return
    if moved is None:
        ends = (_bound_in_steps(facts.get(name), steps) for name in ("lower", "upper"))
        moved = move_of_values(draw.of, *map(_nearest_step, ends))
    told = [*map(Fraction, scales.values())]
    loss = sum((moved / one for one in told), Fraction(0))
    finest = sum((moved / max(one - GRAIN, GRAIN) for one in told), Fraction(0))
    check_claim(
        loss <= draw.loss and finest >= draw.loss * (1 - GRAIN),
        f"{path[1]!r}, {estimate['of']}: scales in the receipt lose {float(loss):.9g}, and the "
        f"proof is for {float(draw.loss):.9g}",
    )
