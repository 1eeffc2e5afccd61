"""Derive what the receipt of a rollup must say: its measures, their bounds and the noise that they
got, and the selection of the nodes that are shown."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpframe.verifier.adaptive import games_of_proof
from dpframe.verifier.facts import DOUBLE, FREE, Fact, Facts, Path, scale_facts, table_facts
from dpframe.verifier.laws import BrokenProofError
from dpframe.verifier.measure_game import MeasureDraw, draws_of_game, move_of_values, sums_of_means
from dpframe.verifier.numbers import is_number
from dpframe.verifier.proof import Proof
from dpframe.verifier.verdict import check_claim

TEXT = re.compile(
    r"(?P<kind>count|distinct|sum|mean)"
    r'(?:\((?:(?P<plain>[^,"()=]+)|"(?P<quoted>(?:[^"]|"")+)")?.*\))?'
)
AT_MOST = re.compile(r"at_most=([0-9]+)(?:, share=[^,\"()=]+)?\)$")
BOUNDS = re.compile(
    r'(?:[^,"()=]+|"(?:[^"]|"")+"), ([^,"()=]+), ([^,"()=]+?)(, clipped=true)?(?:, |\))'
)
"""Patterns for the text of a measure in a receipt: what it measures, how many rows or nodes of a
user count, the bounds of values."""

LEAST_SCALE = 1e-90
"""Scales in a receipt are above this: what they lose is then a number that can be told."""

GRAIN = Fraction(1, 2**14)
"""The amount by which the scale of a draw may be rounded up."""

NOISE_KINDS: Mapping[str, tuple[str, ...]] = {"mean": ("above", "below"), "search": ()}
"""What a receipt calls the noise of a draw, if not by the kind of the draw: a mean is made of what
is above and below."""


@dataclass(frozen=True, kw_only=True)
class MeasureText:
    """A measure as a receipt writes it, such as ``sum(x, 0, 10)``."""

    kind: str
    column: str | None
    bounds: tuple[str | None, ...]
    clipped: bool
    at_most: int | None

    @classmethod
    def read(cls, text: str) -> MeasureText:
        """Read a text; BrokenProofError if it is no measure."""
        whole, most = TEXT.fullmatch(text), AT_MOST.search(text)
        found = BOUNDS.match(text.partition("(")[2]) if text[:4] in ("sum(", "mean") else None
        if whole is None or (found is None and whole["kind"] in ("sum", "mean")):
            raise BrokenProofError(f"the receipt measures {text!r}, which is not known")
        quoted = whole["quoted"]
        return cls(
            kind=whole["kind"],
            column=whole["plain"] if quoted is None else quoted.replace('""', '"'),
            bounds=(None, None) if found is None else found.groups()[:2],
            clipped=found is not None and bool(found[3]),
            at_most=int(most[1]) if most else None,
        )

    def draws(self, user: object, read: bool) -> list[str]:
        """The kinds of draws that the measure calls for; one that is ``read`` from a mean has less
        of them."""
        if self.kind == "count":
            return ["users" if user is not None and self.at_most is None else "rows"]
        own = [] if read else [self.kind]
        return sorted(["search"] * self.bounds.count("auto") + own + ["outside"] * self.clipped)


def rollup_facts(receipt: Mapping[str, Any], proof: Proof) -> Facts:
    """The facts of a rollup: its proof has one game of measures and, where keys are not listed, one
    selection."""
    each = games_of_proof(proof)
    measures = [part for _, _, part in each if part.game.get("kind") == "measures"]
    selections = [
        (epsilon, part) for epsilon, _, part in each if part.game.get("kind") in ("path", "shares")
    ]
    listed = receipt.get("keys") is not None
    check_claim(
        (len(each), len(measures), len(selections)) == (2 - listed, 1, 1 - listed),
        f"a rollup {'of listed keys measures' if listed else 'selects once, then measures'}; the "
        f"proof has {len(selections)} selections and {len(measures)} games of measures",
    )
    yield from _measures_facts(receipt, measures[0])
    for epsilon, selection in selections:
        yield from _selection_facts(receipt, selection, epsilon)
    if listed:
        yield from (((name,), Fact.value(None)) for name in ("threshold", "noise", "selection"))


def _selection_facts(receipt: Mapping[str, Any], proof: Proof, epsilon: Fraction) -> Facts:
    """Epsilon, height, threshold and noise: in records or users, or in the unit of a sum that
    selects."""
    user, shares = receipt.get("user"), proof.game.get("kind") == "shares"
    units = proof.whole("units", 1) if shares else 1
    yield ("height",), Fact.value(proof.whole("height", 1))
    check_claim(shares or user is None, "the receipt has users, the proof one record")
    check_claim(
        units > 1 or user is None,
        "the receipt has users, whose records have parts of one; the proof does not divide it",
    )
    uppers: Mapping[str | None, Fraction] = {
        name: Fraction(one["upper"])
        for name, one in receipt["measures"].items()
        if str(one.get("spec")).startswith("sum(") and _is_positive(one.get("upper"))
    }
    uppers, law = {None: Fraction(1), **uppers}, proof.law("test")
    if "selection" in receipt:
        yield (
            ("selection",),
            Fact(
                "an object of epsilon and measure",
                lambda told: isinstance(told, Mapping) and {*told} == {"epsilon", "measure"},
            ),
        )
        yield ("selection", "epsilon"), Fact.value(epsilon)
        yield (
            ("selection", "measure"),
            Fact("none, or a sum", lambda told: isinstance(told, str | None) and told in uppers),
        )
        worth = uppers[receipt["selection"]["measure"]]
    else:  # earlier versions did not say what selects
        noise = receipt.get("noise")
        low = noise.get("lowest") if isinstance(noise, Mapping) else None
        fits = (one for one in uppers.values() if _has_end(low, law.lowest * one / units))
        worth = next(fits, Fraction(1))
    yield from table_facts(("noise",), law, units, worth)
    threshold = proof.whole("threshold")

    def is_threshold(told: Any) -> bool:
        if not is_number(told):
            return False
        exact = Fraction(told) * units / worth
        return math.ceil(exact - exact * DOUBLE * (worth != 1)) == threshold

    yield ("threshold",), Fact(f"{float(threshold * worth / units):g}", is_threshold)


def _has_end(told: object, end: Fraction) -> bool:
    return Fact.near(end, DOUBLE).holds(told)


def _measures_facts(receipt: Mapping[str, Any], proof: Proof) -> Facts:
    """What every measure draws, loses and is bounded by."""
    drawn, read = draws_of_game(proof), sums_of_means(proof)
    names = {each.measure for each in drawn} | set(read)
    yield (
        ("measures",),
        Fact(
            f"measures {', '.join(sorted(names))}",
            lambda told: (
                isinstance(told, Mapping)
                and {*told} == names
                and all(isinstance(each, Mapping) for each in told.values())
            ),
        ),
    )
    yield ("height",), Fact.value(proof.whole("height", 1))
    segments = "segments" in proof.game and proof.flag("segments")
    if segments or "segments" in receipt:
        yield ("segments",), Fact.value(segments)
    told, user = receipt["measures"], receipt.get("user")
    texts = {name: MeasureText.read(str(one.get("spec"))) for name, one in told.items()}
    for name, text in texts.items():
        own = [each for each in drawn if each.measure == name]
        pair = [each for each in drawn if each.measure == read.get(name) and each.of == "mean"]
        kinds, wanted = sorted(each.of for each in own), text.draws(user, name in read)
        check_claim(
            kinds == wanted,
            f"measure {name!r} is {told[name]['spec']}, which draws {', '.join(wanted)}; the proof "
            f"has {', '.join(kinds)}",
        )
        check_claim(
            name not in read or text.column == texts[read[name]].column,
            f"measure {name!r} is {told[name]['spec']}, and is read from another column",
        )
        yield ("measures", name, "spec"), FREE  # which is compared here
        for each in own:
            most, singly = each.facts.get("at_most"), user is None or text.column == user
            check_claim(
                most is None or most == (text.at_most or 1),
                f"measure {name!r} counts {text.at_most or 1}, the proof {most}",
            )
            check_claim(
                each.of != "distinct" or each.facts["singly"] is singly,
                f"counts of {name!r} move by {'one' if singly else 'more'} each, in the proof not",
            )
        bounded = [each for each in own if each.facts.get("low") is not None] + pair
        yield from _bounds_facts(("measures", name), text, bounded)
        yield from _measure_noise_facts(("measures", name), told[name], own, pair)
    for name in set(told) - set(read):
        together = {name, *(each for each, of in read.items() if of == name)}
        loss = sum((each.loss for each in drawn if each.measure in together), Fraction(0))
        for one in together:
            yield ("measures", one, "epsilon"), Fact("a positive number", _is_positive)
        paid = sum(Fraction(told[each]["epsilon"]) for each in together)
        check_claim(
            loss <= paid * (1 + DOUBLE),
            f"measure {name!r} loses {float(loss):.9g}, and the receipt says less",
        )


def _bounds_facts(path: Path, text: MeasureText, drawn: Sequence[MeasureDraw]) -> Facts:
    """Bounds are those in the text of the measure and in the draws, unless a search finds them;
    measures without bounds in the text have none."""
    for name, end, bound in zip(("lower", "upper"), ("low", "high"), text.bounds, strict=True):
        if bound == "auto":
            yield (
                (*path, name),
                Fact("found", lambda told: is_number(told) or told in (None, "auto")),
            )
        else:
            yield (*path, name), Fact.value(None if bound is None else _read_number(bound))
        for each in drawn:
            steps, decimals = each.facts[end], each.facts["decimals"]
            yield (
                (*path, name),
                Fact(
                    f"{steps} steps of 10**-{decimals}",
                    lambda told, steps=steps, decimals=decimals: (
                        abs(steps - _bound_in_steps(told, decimals))
                        <= Fraction(1, 2) + abs(_bound_in_steps(told, decimals)) * DOUBLE
                    ),
                ),
            )


def _read_number(text: str) -> Fraction:
    try:
        return Fraction(float(text))
    except (ValueError, OverflowError):
        raise BrokenProofError(f"the receipt has the bound {text!r}") from None


def _bound_in_steps(bound: object, decimals: object) -> Fraction:
    if not is_number(bound) or type(decimals) is not int or not -400 < decimals < 400:
        raise BrokenProofError("bounds must be numbers, and steps powers of ten")
    return Fraction(bound) * Fraction(10) ** decimals


# -- the noise that was drawn, which a receipt says after the release -----------------------------


def _measure_noise_facts(
    path: Path, told: Mapping[str, Any], own: Sequence[MeasureDraw], pair: Sequence[MeasureDraw]
) -> Facts:
    """The noise of a measure's own draws, and of the ``pair``: the mean that a sum is read from."""
    noise = told.get("noise")
    if noise is None:  # a plan tells no noise
        yield (*path, "noise"), FREE
        return
    wanted = {"sum": each for each in pair}
    for each in own:
        wanted.update(dict.fromkeys(NOISE_KINDS.get(each.of, (each.of,)), each))
    yield (
        (*path, "noise"),
        Fact(
            f"noise of {', '.join(sorted(wanted))}",
            lambda told: (
                isinstance(told, list)
                and all(isinstance(one, Mapping) for one in told)
                and sorted(str(one.get("of")) for one in told) == sorted(wanted)
            ),
        ),
    )
    for number, estimate in enumerate(noise):
        yield from _estimate_facts((*path, "noise", number), told, estimate, wanted[estimate["of"]])


def _estimate_facts(
    path: Path, told: Mapping[str, Any], estimate: Mapping[str, Any], each: MeasureDraw
) -> Facts:
    """The noise of one draw: no less than the proof says, and no more than rounding adds."""
    of, decimals = estimate["of"], estimate.get("decimals")
    yield from (((*path, name), FREE) for name in ("of", "intervals"))
    yield (*path, "unit"), Fact.value(each.facts.get("unit", 1))
    steps = decimals if each.moved is None else each.facts.get("decimals")
    yield (*path, "decimals"), Fact.value(steps if of in ("sum", "above", "below") else None)
    if each.of == "distinct":
        if each.table is None:
            assert each.scale is not None
            yield from scale_facts((*path, "law"), each.scale)
        else:
            yield from table_facts((*path, "law"), each.table)
        return
    yield (
        (*path, "scales"),
        Fact(
            "scales of parts",
            lambda told: (
                isinstance(told, Mapping)
                and "parts" in told
                and all(is_number(one) and one > LEAST_SCALE for one in told.values())
            ),
        ),
    )
    yield from (((*path, "scales", one), FREE) for one in estimate["scales"])
    scales, moved = [*map(Fraction, estimate["scales"].values())], each.moved
    if moved is None:
        ends = (_bound_in_steps(told.get(name), decimals) for name in ("lower", "upper"))
        moved = move_of_values(each.of, *map(_nearest_step, ends))
    loss = sum((moved / one for one in scales), Fraction(0))
    finest = sum((moved / max(one - GRAIN, GRAIN) for one in scales), Fraction(0))
    check_claim(
        loss <= each.loss and finest >= each.loss * (1 - GRAIN),
        f"{path[1]!r}, {of}: scales in the receipt lose {float(loss):.9g}, and the proof is for "
        f"{float(each.loss):.9g}",
    )


def _is_positive(value: object) -> bool:
    return is_number(value) and value > 0


def _nearest_step(steps: Fraction) -> int:
    """The nearest whole number, halves away from 0, as values become steps."""
    whole = math.floor(abs(steps) + Fraction(1, 2))
    return whole if steps > 0 else -whole
